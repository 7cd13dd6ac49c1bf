// emit/cpu/spelling.hpp: a tree -> C++ of a CPU. A task is a turn of the pieces bound to the grid; its tiles are arrays.
#pragma once

#include <bit>
#include <optional>

#include "../../plan/loops/scalars.hpp"
#include "../walk.hpp"
#include "body.hpp"
#include "memory.hpp"

namespace sinter::engine::emit {

/// Whether a CPU prints a tree: no piece is bound to threads.
inline bool is_for_cpu(const loops::tree& t) {
  return std::none_of(t.pieces.begin(), t.pieces.end(),
                      [](const loops::piece& p) { return p.to == loops::bind::threads; });
}

class cpu_spelling : public walker {
 public:
  cpu_spelling(const loops::tree& t, writer& out)
      : walker(t, out),
        body_(*t.code, out),
        begun_(t.tiles.size(), 0),
        by_micro_(t.tiles.size(), 0),
        by_parts_(t.tiles.size(), 0) {
    body_.print_numbers();
  }

  /// Prints all launches; returns the scratch memory that they use. The kernel's pointers and sizes are declared.
  scratch_use print() {
    writer nothing;
    cpu_spelling before(t_, nothing);
    before.print_all();
    for (std::size_t x = 0; x < t_.tiles.size(); ++x) begun_[x] = before.by_micro_[x] && !before.by_parts_[x];
    return print_all();
  }

 private:
  scratch_use print_all() {
    find_uniform();
    for (std::size_t v = 0; v < k_.body.size(); ++v)
      if (uniform_[v]) body_.define(static_cast<int>(v), false, false);
    plan_memory();
    for (const auto& l : t_.launches) print_launch(l.root);
    return memory_;
  }

  using kind = plan::kind;
  static bool is_global(const loops::tile& x) { return x.in == loops::space::scratch && x.at < 0; }

  /// Values that are the same everywhere and need no reduction.
  void find_uniform() {
    for (const auto& i : k_.body) {
      bool one = i.axes == 0 && i.kind != kind::reduce && i.kind != kind::part;
      loops::for_each_operand(i, [&](int o) { one = one && uniform_[static_cast<std::size_t>(o)]; });
      uniform_.push_back(one);
    }
  }

  // --- memory

  /// Rows that lie a multiple of 2 KiB apart would meet in the same sets of the caches.
  dim room_of(int x, std::size_t side) const override {
    const loops::tile& tile = tile_at(x);
    const dim& extent = tile.along[side].extent;
    const auto size = static_cast<std::int64_t>(size_of(type_in(tile)));
    constexpr std::int64_t page = 2048, line = 64;
    if (tile.as != loops::layout::rows || side == 0 || side + 1 != tile.along.size()) return extent;
    return extent.is_number() && *extent.number() > 0 && *extent.number() * size % page == 0 ? extent + dim(line / size)
                                                                                             : extent;
  }
  dtype type_in(const loops::tile& x) const { return x.accumulates ? compute_type(x.type) : x.type; }
  dim bytes_of(int x) const {
    const loops::tile& tile = tile_at(x);
    return count_of(x) * dim(tile.slots) * dim(static_cast<std::int64_t>(size_of(type_in(tile))));
  }
  /// Small tiles lie on the stack, larger ones in the thread's part of scratch memory.
  void plan_memory() {
    std::int64_t left = stack_bytes;
    where_.resize(t_.tiles.size());
    dim global = 0;
    for (std::size_t x = 0; x < t_.tiles.size(); ++x) {
      const dim bytes = bytes_of(static_cast<int>(x)), room = ir::floor_div(bytes + dim(127), 64) * dim(64);
      if (is_global(t_.tiles[x])) {
        where_[x] = "(scratch + " + dim(global + dim(scratch_use::header)).text() + ")";
        global += room;
      } else if (bytes.is_number() && *bytes.number() <= left) {
        left -= *bytes.number();
      } else {
        where_[x] = "(mine + " + memory_.sums.text() + ")";
        memory_.sums += room;
      }
    }
    if (!global.is(0) || memory_.by_thread()) memory_.shared = global + dim(scratch_use::header);
  }
  void declare_tile(int x) {
    const loops::tile& tile = tile_at(x);
    const std::string type = memory_type(type_in(tile)), name = tile_name(x);
    const std::string& where = where_[static_cast<std::size_t>(x)];
    if (where.empty())
      out_.line("alignas(64) " + type + " " + name + "[" + dim(count_of(x) * dim(tile.slots)).text() + " + !(" +
                count_of(x).text() + ")];");
    else out_.line(type + "* const " + name + " = (" + type + "*)" + where + ";");
  }

  // --- launches

  void print_launch(int root) {
    grid_ = digits(root, loops::bind::grid);
    dim tasks = 1;
    for (int p : grid_) tasks *= width(p);
    const bool shares = !tasks.is(1);
    if (shares) {
      memory_.tasks = tasks.is_number() && memory_.tasks.is_number() && *memory_.tasks.number() > *tasks.number()
                          ? memory_.tasks
                          : tasks;
      memory_.parallel = true;
      const bool products = std::any_of(t_.nodes.begin(), t_.nodes.end(),
                                        [](const loops::node& n) { return n.what == loops::act::matrix; });
      out_.line(std::string("#pragma omp parallel for schedule(") + (products ? "dynamic, 1)" : "static)") +
                (memory_.by_thread() ? " num_threads(threads_of(scratch))" : "") + " if ((" + work().text() +
                ") >= " + (products ? "1l << 22" : "1l << 16") + ")");
    }
    out_.block(shares ? "for (long task = 0; task < " + tasks.text() + "; ++task)" : "", [&] {
      std::string rest = "task";
      for (std::size_t d = grid_.size(); d-- > 0;) {
        const std::string n = "(" + width(grid_[d]).text() + ")";
        out_.line("const long " + turn(grid_[d]) + " = " + (shares ? d ? rest + "%" + n : rest : "0") + ";");
        rest += "/" + n;
      }
      if (memory_.by_thread()) out_.line(memory_.declaration(shares));
      for (std::size_t x = 0; x < t_.tiles.size(); ++x) declare_tile(static_cast<int>(x));
      walk(root);
    });
  }
  /// The turns of a piece of the grid: one, if there is nothing to do.
  dim width(int p) const {
    const dim& n = t_.loop(p).extent;
    return n.is_number() ? std::max<std::int64_t>(1, *n.number()) : n;
  }
  dim work() const {
    dim n = 1;
    for (const auto& a : k_.axes) n *= a.extent;
    return n;
  }
  /// Of tasks that would do the same, the first does it.
  std::string is_first() const {
    std::string out;
    for (int p : grid_)
      if (!is_open(p)) out += (out.empty() ? "" : " && ") + turn(p) + " == 0";
    return out;
  }

  // --- values

  std::string address(int x) const { return tile_name(x) + " + (" + place(x) + ")"; }
  std::string read(int x) const { return "load1(" + address(x) + ")"; }
  /// Vectors run along `lanes_`, from the position of the open loops on.
  std::string read_vector(int x, bool tail) const {
    const dim by = step_along(x, lanes_);
    const std::string n = tail ? ", n" : "";
    return by.is(1) ? "load(" + address(x) + n + ")" : "load_strided(" + address(x) + ", " + by.text() + n + ")";
  }
  void write_vector(int x, const std::string& value, const std::string& n) {
    const dim by = step_along(x, lanes_);
    out_.line(by.is(1) ? "store(" + address(x) + ", " + value + n + ");"
                       : "store_strided(" + address(x) + ", " + by.text() + ", " + value + n + ");");
  }
  /// The distance in a tile between neighbours along an axis; 0: the tile does not vary along it, or none is fixed.
  dim step_along(int x, int axis) const {
    const panels p = panels_of(x);
    const auto& along = tile_at(x).along;
    dim by = 1;
    for (std::size_t d = along.size(); d-- > 0;) {
      const bool mine = along[d].piece < 0 && along[d].axis == axis;
      if (p.across >= 0) {
        if (mine && static_cast<int>(d) == p.deep) return p.unit;
        if (mine && static_cast<int>(d) == p.across) return 1;
      } else if (mine) {
        return by;
      }
      by *= room_of(x, d);
    }
    return 0;
  }

  /// Declares the values of `roots`: from tiles, or computed at this position.
  void values(int node, const series<int>& roots, bool tail = false) {
    const loops::node& n = t_[node];
    series<char> seen(k_.body.size(), 0);
    const auto look = [&](auto&& self, int v) -> void {
      if (uniform_[static_cast<std::size_t>(v)] || std::exchange(seen[static_cast<std::size_t>(v)], 1)) return;
      if (std::count(n.body.begin(), n.body.end(), v)) loops::for_each_operand(t_.at(v), [&](int o) { self(self, o); });
    };
    for (int r : roots) look(look, r);
    for (std::size_t id = 0; id < seen.size(); ++id) {
      if (!seen[id]) continue;
      const int v = static_cast<int>(id);
      if (std::count(n.body.begin(), n.body.end(), v)) {
        body_.define(v, body_.is_vector(v), tail);
        continue;
      }
      const int x = loops::visible_tile(t_, v, open_, n.to);
      ensure(x >= 0, "a statement reads a value that is nowhere");
      const bool vector = body_.is_vector(v);
      out_.line("const " + (vector ? vector_type(t_.at(v).type) : scalar_type(t_.at(v).type)) + " v" +
                std::to_string(v) + " = " + (vector ? read_vector(x, tail) : read(x)) + ";");
    }
  }
  series<int> operands(const plan::instruction& i) const {
    series<int> out;
    loops::for_each_operand(i, [&](int o) { out.push_back(o); });
    return out;
  }
  /// "if (a && b) { … }"; without a condition the block alone.
  template <class F>
  void where(const std::string& a, const std::string& b, F&& f) {
    const std::string both = a + (a.empty() || b.empty() ? "" : " && ") + b;
    out_.block(both.empty() ? "" : "if (" + both + ")", f);
  }

  // --- vectors

  void loop(int node) override {
    if (const int axis = t_.loop(t_[node].piece).axis; is_vector(node, axis)) return vector_loop(node, axis);
    plain_loop(node);
  }
  /// Whether the turns of a loop are lanes: all that it does is at each position of its axis, once.
  bool is_vector(int node, int axis) const {
    const loops::piece& p = t_.loop(t_[node].piece);
    constexpr std::int64_t least = 4;
    if (!p.step.is(1) || is_digit(p.to) || p.part == loops::turns::next || p.part == loops::turns::head) return false;
    if (p.extent.number().value_or(least) < least) return false;
    for (int n : t_[node].inside)
      if (!is_lanes(n, axis)) return false;
    return true;
  }
  bool is_lanes(int node, int axis) const {
    const loops::node& n = t_[node];
    if (n.what == loops::act::loop) {
      if (n.piece < 0 || !t_.loop(n.piece).extent.is(1) || t_.loop(n.piece).part != loops::turns::all) return false;
      return std::all_of(n.inside.begin(), n.inside.end(), [&](int c) { return is_lanes(c, axis); });
    }
    if (n.what == loops::act::store) {
      const auto& s = k_.stores[static_cast<std::size_t>(n.value)];
      return !s.accumulate && s.at.at.index < 0 && (t_.at(s.value).axes >> axis & 1u) &&
             !s.at.at.stride[static_cast<std::size_t>(axis)].is(0);
    }
    return n.what == loops::act::define && n.tile < 0 && (t_.at(n.value).axes >> axis & 1u) &&
           !is_global(tile_at(n.to)) && !step_along(n.to, axis).is(0);
  }
  void vector_loop(int node, int axis) {
    const int p = t_[node].piece;
    out_.block("", [&] {
      const range_text r = range_of(p);
      const std::string l = turn(p);
      out_.block("for (long " + l + " = " + r.from + "; " + l + " < " + r.to + "; " + l + " += SINTER_W)", [&] {
        out_.line("const long lanes_left = " + r.to + " - " + l + " < SINTER_W ? " + r.to + " - " + l + " : SINTER_W;");
        open(p, [&] {
          for (int n : t_[node].inside) vector_inside(n, axis);
        });
      });
    });
  }
  void vector_inside(int node, int axis) {
    const loops::node& n = t_[node];
    if (n.what != loops::act::loop) return vector_statement(node, axis);
    out_.block("", [&] {
      out_.line("const long " + turn(n.piece) + " = 0;");
      open(n.piece, [&] {
        for (int c : n.inside) vector_inside(c, axis);
      });
    });
  }
  /// A statement at the positions of the lanes: all of them, or the first n.
  void vector_statement(int node, int axis) {
    const loops::node& n = t_[node];
    const std::uint32_t bit = 1u << axis;
    lanes_ = axis;
    body_.print_along(axis);
    out_.block("", [&] {
      declare_positions(axes_read(node) | (n.guards & bit));
      if (n.guards & bit) {
        const std::string left = "(" + length(axis).text() + ") - i" + std::to_string(axis);
        out_.line("const long left = " + left + ", n = left < 0 ? 0 : left < lanes_left ? left : lanes_left;");
      } else {
        out_.line("const long n = lanes_left;");
      }
      const bool pads = n.to >= 0 && n.what == loops::act::define && (n.guards & tile_at(n.to).padded & bit);
      const std::string rest = within(n.guards & ~bit);
      where(n.what == loops::act::store ? is_first() : "", rest, [&] {
        out_.block("if (n == SINTER_W)", [&] { vector_action(node, false, false); });
        out_.block(pads ? "else" : "else if (n > 0)", [&] { vector_action(node, true, pads); });
      });
      if (n.to >= 0 && n.what == loops::act::define && (n.guards & tile_at(n.to).padded & ~bit))
        out_.block("else", [&] {
          const auto& to = tile_at(n.to);
          write_vector(n.to, "splat<" + vector_type(to.type) + ">(" + literal(type_in(to), to.neutral) + ")",
                       ", lanes_left");
        });
    });
    body_.print_numbers();
    lanes_ = -1;
  }
  void vector_action(int node, bool tail, bool pads) {
    const loops::node& n = t_[node];
    values(node, loops::roots_of(t_, n), tail);
    if (n.what == loops::act::store) return body_.store(k_.stores[static_cast<std::size_t>(n.value)], true, tail, "");
    const loops::tile& to = tile_at(n.to);
    std::string value = body_.operand(n.value, true);
    if (pads) value = "keep(" + value + ", n, " + literal(type_in(to), to.neutral) + ")";
    write_vector(n.to, value, pads ? ", lanes_left" : tail ? ", n" : "");
  }

  // --- words

  bool word(int node) override { return multiplies(node) || packs(node) || weighs(node); }

  /// The only statement inside loops that have no other; -1: there are several. `chain` receives the loops' pieces.
  int only_statement(int node, series<int>& chain) const {
    while (t_[node].what == loops::act::loop) {
      if (t_[node].inside.size() != 1 || t_[node].piece < 0 || t_.loop(t_[node].piece).part != loops::turns::all)
        return -1;
      chain.push_back(t_[node].piece);
      node = t_[node].inside[0];
    }
    return node;
  }

  /// A loop over the terms around a row that takes one term: micro() of the prelude, over two tiles of panels.
  bool multiplies(int node) {
    series<int> chain;
    const int inner = t_[node].what == loops::act::loop ? only_statement(node, chain) : -1;
    if (inner < 0 || chain.size() != 1 || t_[inner].what != loops::act::matrix) return false;
    const loops::node& n = t_[inner];
    const auto& row = row_at(n.row);
    const auto c = plan::contraction_of(k_, n.value);
    const int p = chain[0];
    if (row.k != 1 || !std::count(c->k.begin(), c->k.end(), t_.loop(p).axis)) return false;
    int m_axis = -1, n_axis = -1;
    dim each = 1;  // terms of a turn
    for (int q : n.over) {
      const int axis = t_.loop(q).axis;
      const bool deep = std::count(c->k.begin(), c->k.end(), axis), high = std::count(c->m.begin(), c->m.end(), axis);
      if (!t_.loop(q).step.is(1) || (deep && axis != t_.loop(p).axis)) return false;
      if (deep) each *= t_.loop(q).extent;
      else if (!t_.loop(q).extent.is(high ? row.m : row.n)) return false;
      if (!deep) (high ? m_axis : n_axis) = axis;
    }
    if (!(t_.loop(p).step == each)) return false;
    const auto x = factor(inner, c->x, m_axis, t_.loop(p).axis, row.m),
               y = factor(inner, c->y, n_axis, t_.loop(p).axis, row.n);
    if (!x || !y || !y->across.is(1) || m_axis < 0 || !step_along(n.to, n_axis).is(1)) return false;
    print_micro(inner, p, *x, *y, step_along(n.to, m_axis), n_axis);
    return true;
  }
  /// Where a factor lies: the distances along its rows or columns, and along the terms.
  struct place_of_factor {
    int tile = -1, load = -1;
    dim across, deep;
  };
  void print_micro(int node, int p, const place_of_factor& x, const place_of_factor& y, const dim& c_step, int n_axis) {
    const loops::node& n = t_[node];
    const auto& row = row_at(n.row);
    out_.block("", [&] {
      const range_text r = range_of(p);
      out_.line("const long " + turn(p) + " = " + r.from + ";");
      open(p, [&] {
        declare_positions(axes_read(node));
        const auto at = [&](const place_of_factor& f) {
          return f.tile >= 0 ? address(f.tile) : body_.address(t_.at(f.load).at);
        };
        const std::string type = scalar_type(row.sum), high = std::to_string(row.m), wide = std::to_string(row.n);
        series<std::string> rows;
        for (int i = 0; i < row.m; ++i) rows.push_back(dim(x.across * dim(i)).text());
        out_.line("const long rows[] = {" + comma_separated(rows) + "};");
        const dim& each = t_.loop(p).step;
        const std::string turns = r.to + " - " + r.from;
        // pack() fills no terms beyond the end.
        const int deep = t_.loop(p).axis;
        if (!each.is(1))
          out_.line("const long left = (" + length(deep).text() + ") - (" + position(deep) + "), all = (" + turns +
                    ")*" + each.text() + ", terms = left < all ? left : all;");
        const std::string rest = "(" + (each.is(1) ? turns : "terms") + ", " + at(x) + ", rows, walk{" + x.deep.text() +
                                 ", nullptr}, 0, " + at(y) + ", " + y.deep.text() + ", " + address(n.to) + ", " +
                                 c_step.text() + ", " + first_terms(node, p) + ");";
        const std::string micro = "micro<" + type + ", " + high + ", ";
        const auto columns = length(n_axis).number();
        const bool narrow = !columns || (*columns % row.n > 0 && *columns % row.n <= row.n / 2);
        if (narrow)
          out_.line("if ((" + length(n_axis).text() + ") - (" + position(n_axis) + ") <= SINTER_W) " + micro +
                    "1, linear>" + rest);
        out_.line((narrow ? "else " : "") + micro + wide + "/SINTER_W, linear>" + rest);
      });
    });
    by_micro_[static_cast<std::size_t>(n.to)] = 1;
  }
  /// Whether a sum's first terms are at hand, as a condition; "false" where the sum is filled before.
  std::string first_terms(int node, int p) {
    const loops::node& n = t_[node];
    const auto c = plan::contraction_of(k_, n.value);
    const auto is_summed = [&](int axis) { return std::count(c->k.begin(), c->k.end(), axis) > 0; };
    bool whole = true;
    for (int a : c->k) whole = whole && length(a).number().value_or(0) > 0;
    for (const auto& q : t_.pieces)
      if (is_summed(q.axis)) whole = whole && q.low.empty() && q.high.empty() && q.part == loops::turns::all;
    if (!whole) by_parts_[static_cast<std::size_t>(n.to)] = 1;
    if (!begun_[static_cast<std::size_t>(n.to)]) return "false";
    std::string out;
    const int at = tile_at(n.to).at;
    const int* q = at < 0 ? open_.begin() : std::find(open_.begin(), open_.end(), at);
    for (; q != open_.end(); ++q)
      if (*q != at && *q != t_.origin(p) && is_summed(t_.loop(*q).axis))
        out += (out.empty() ? "" : " && ") + turn(*q) + " == 0";
    return out.empty() ? "true" : out;
  }
  /// A factor in a tile, or in memory, in the type in which it is multiplied.
  std::optional<place_of_factor> factor(int node, int v, int across, int deep, std::int64_t unit) const {
    const auto is_multiplied = [](dtype t) { return t == compute_type(t); };
    for (const int of : {v, plan::unwidened(k_, v)})
      if (const int x = loops::visible_tile(t_, of, open_); x >= 0) {
        if (!is_multiplied(type_in(tile_at(x)))) return std::nullopt;
        if (const panels p = panels_of(x); p.across >= 0)
          return p.unit == unit ? std::optional(place_of_factor{x, -1, 1, unit}) : std::nullopt;
        return place_of_factor{x, -1, step_along(x, across), step_along(x, deep)};
      }
    const auto& i = t_.at(v);
    const auto& body = t_[node].body;
    if (!std::count(body.begin(), body.end(), v) || i.kind != kind::load || plan::is_guarded(i) || i.at.at.index >= 0 ||
        !is_multiplied(i.type))
      return std::nullopt;
    return place_of_factor{-1, v, i.at.at.stride[static_cast<std::size_t>(across)],
                           i.at.at.stride[static_cast<std::size_t>(deep)]};
  }

  /// A block of weighted sums: its rows, and the terms of each.
  struct weighted_block {
    series<int> outer, terms;  ///< pieces of rows, and of terms
    int row = -1;              ///< the innermost piece of rows
    int axis = -1;             ///< of the terms
    std::int64_t rows = 1, count = 1;
  };
  /// The block that a merge of weighted sums covers; none if it must be merged element by element.
  std::optional<weighted_block> block_of(int node) const {
    const loops::node& n = t_[node];
    const auto& i = t_.at(n.value);
    if (i.rule != plan::merge_rule::weighted || n.tile >= 0 || i.over.size() != 1) return std::nullopt;
    weighted_block b;
    b.axis = i.over[0];
    const std::uint32_t rows = loops::axes_of_tile(t_, n.to);
    for (int p : n.over) {
      const auto extent = t_.loop(p).extent.number();
      if (t_.loop(p).axis == b.axis) {
        if (!extent) return std::nullopt;
        b.terms.push_back(p);
        b.count *= *extent;
      } else if (rows >> t_.loop(p).axis & 1u) {
        b.outer.push_back(p);
      }
    }
    constexpr std::int64_t max_rows = 16, max_terms = 1024;
    if (b.outer.empty() || b.terms.empty() || b.count > max_terms || b.count < 4) return std::nullopt;
    b.row = b.outer.back();
    b.outer.pop_back();
    b.rows = t_.loop(b.row).extent.number().value_or(max_rows + 1);
    if (b.rows > max_rows || !t_.loop(b.row).step.is(1) || !t_.loop(b.terms.back()).step.is(1)) return std::nullopt;
    for (int p : open_)
      if (t_.loop(p).axis == b.axis && t_.loop(b.terms[0]).step * t_.loop(b.terms[0]).extent != t_.loop(p).step)
        return std::nullopt;
    for (int p = 1; p < loops::count_of_parts(i); ++p)
      if (!is_weighable(node, b, p)) return std::nullopt;
    return b;
  }
  /// Whether the sum of a part is one of numbers, or along one further axis of rows in memory that lie whole.
  bool is_weighable(int node, const weighted_block& b, int part) const {
    const loops::node& n = t_[node];
    const int v = t_.at(n.value).args[static_cast<std::size_t>(part)];
    const std::uint32_t rows = loops::axes_of_tile(t_, n.to), own = loops::axes_of_tile(t_, n.to + part) & ~rows;
    if (own == 0) return uniform_[static_cast<std::size_t>(v)];
    if (std::popcount(own) != 1) return false;
    const int along = std::countr_zero(own);
    if (!length(along).is_number() || !step_along(n.to + part, along).is(1)) return false;
    const auto y = factor(node, v, along, b.axis, 0);
    return y && y->across.is(1);
  }
  /// Weighted sums of a block of rows: their maxima first, then the weights, then the sums by micro() of the prelude.
  bool weighs(int node) {
    if (t_[node].what != loops::act::merge) return false;
    const auto b = block_of(node);
    if (!b) return false;
    const loops::node& n = t_[node];
    const auto& i = t_.at(n.value);
    const std::string type = scalar_type(type_in(tile_at(n.to))), count = std::to_string(b->count),
                      rows = std::to_string(b->rows);
    each(b->outer, 0, [&] {
      out_.block("", [&] {
        out_.line("alignas(64) " + type + " weights[" + rows + "*" + count + " + SINTER_W], scales[" + rows + "];");
        out_.line("const long left = (" + length(b->axis).text() + ") - (" + position(b->axis) + "), terms = left < " +
                  count + " ? left : " + count + ";");
        each({b->row}, 0, [&] { print_weights(node, *b); });
        for (int p = 1; p < loops::count_of_parts(i); ++p)
          if (loops::axes_of_tile(t_, n.to + p) & ~loops::axes_of_tile(t_, n.to)) print_weighted_sums(node, *b, p);
      });
    });
    return true;
  }
  /// The weights of a row, its maximum, the factor of its sums so far, and the sums that do not vary along a further axis.
  void print_weights(int node, const weighted_block& b) {
    const loops::node& n = t_[node];
    const auto& i = t_.at(n.value);
    const int score = i.args[0];
    const std::string scalar = scalar_type(type_in(tile_at(n.to))), vector = vector_type(type_in(tile_at(n.to)));
    out_.line(scalar + "* const weight_of = weights + " + turn(b.row) + "*" + std::to_string(b.count) + ";");
    out_.line(vector + " greatest = splat<" + vector + ">(-__builtin_inff());");
    series<int> outer = b.terms;
    const int last = outer.back();
    outer.pop_back();
    const std::string l = turn(last), extent = t_.loop(last).extent.text(), a = std::to_string(b.axis);
    each(outer, 0, [&] {
      out_.block("for (long " + l + " = 0; " + l + " < " + extent + "; " + l + " += SINTER_W)",
                 [&] { open(last, [&] { print_scores(node, b, score, extent); }); });
    });
    out_.line("const " + scalar + " was = " + read(n.to) +
              ", most = maximum(was, fold_maximum(greatest)), mine = weight(was, most);");
    out_.line(vector + " total = splat<" + vector + ">(0);");
    out_.block("for (long j = 0; j < terms; j += SINTER_W)", [&] {
      out_.line("const long n = terms - j < SINTER_W ? terms - j : SINTER_W;");
      out_.line("const " + vector + " w = keep(weight(load(weight_of + j), splat<" + vector + ">(most)), n, 0);");
      out_.line("store(weight_of + j, w, n);");
      out_.line("total = total + w;");
    });
    for (int p = 1; p < loops::count_of_parts(i); ++p)
      if (!(loops::axes_of_tile(t_, n.to + p) & ~loops::axes_of_tile(t_, n.to)))
        out_.line("store1(" + address(n.to + p) + ", " + read(n.to + p) + "*mine + fold_add(total)*" +
                  body_.operand(i.args[static_cast<std::size_t>(p)], false) + ");");
    out_.line("store1(" + address(n.to) + ", most);");
    out_.line("scales[" + turn(b.row) + "] = mine;");
  }
  void print_scores(int node, const weighted_block& b, int score, const std::string& extent) {
    const std::string a = std::to_string(b.axis), l = turn(b.terms.back());
    series<std::string> flat;
    for (int p : b.terms) flat.push_back(scaled(t_.loop(p).step, turn(p)));
    lanes_ = b.axis;
    body_.print_along(b.axis);
    declare_positions(axes_read(node) | 1u << b.axis);
    out_.line("const long lanes_left = " + extent + " - " + l + " < SINTER_W ? " + extent + " - " + l + " : SINTER_W;");
    out_.line("const long behind = (" + length(b.axis).text() + ") - i" + a +
              ", n = behind < lanes_left ? behind : lanes_left;");
    for (const bool tail : {false, true})
      out_.block(tail ? "else if (n > 0)" : "if (n == SINTER_W)", [&] {
        values(node, {score}, tail);
        const std::string x = body_.operand(score, true);
        out_.line("store(weight_of + " + sum(flat) + ", " + x + (tail ? ", n);" : ");"));
        out_.line("greatest = maximum(greatest, " + (tail ? "keep(" + x + ", n, -__builtin_inff())" : x) + ");");
      });
    body_.print_numbers();
    lanes_ = -1;
  }
  /// Σ weight · row, along the further axis of a part.
  void print_weighted_sums(int node, const weighted_block& b, int part) {
    const loops::node& n = t_[node];
    const int v = t_.at(n.value).args[static_cast<std::size_t>(part)], x = n.to + part;
    const std::uint32_t own = loops::axes_of_tile(t_, x) & ~loops::axes_of_tile(t_, n.to);
    const int along = std::countr_zero(own);
    const std::string type = scalar_type(type_in(tile_at(x))), rows = std::to_string(b.rows),
                      wide = length(along).text(), c_step = step_along(x, row_axis(b)).text();
    const auto y = *factor(node, v, along, b.axis, 0);
    series<std::string> starts;
    for (std::int64_t r = 0; r < b.rows; ++r) starts.push_back(std::to_string(r * b.count));
    out_.block("", [&] {
      out_.line("const long starts[] = {" + comma_separated(starts) + "};");
      const std::string shifted = "column_at";
      shift(along, shifted);
      out_.line("long " + shifted + " = 0;");
      const auto at = [&](int tile) { return address(tile); };
      const auto factor_at = [&] {
        if (y.tile >= 0) return at(y.tile);
        declare_positions(loops::axes_of(t_.at(v).at.at));
        return body_.address(t_.at(v).at);
      };
      out_.block("for (long r = 0; r < " + rows + "; ++r)", [&] {
        out_.line(type + "* const to = " + at(x) + " + r*" + c_step + ";");
        out_.line("for (long e = 0; e < " + wide + "; ++e) to[e] *= scales[r];");
      });
      const auto columns = [&](const std::string& vectors) {
        out_.block("for (; " + shifted + " + " + vectors + "*SINTER_W <= " + wide + "; " + shifted + " += " + vectors +
                       "*SINTER_W)",
                   [&] {
                     const std::string from = factor_at();
                     out_.line("micro<" + type + ", " + rows + ", " + vectors +
                               ", linear>(terms, weights, starts, walk{1, nullptr}, 0, " + from + ", " + y.deep.text() +
                               ", " + at(x) + ", " + c_step + ", false);");
                   });
      };
      columns("2");
      columns("1");
      out_.block("for (; " + shifted + " < " + wide + "; ++" + shifted + ")", [&] {
        const std::string from = factor_at();
        out_.line("const auto* const column = " + from + ";");
        out_.block("for (long r = 0; r < " + rows + "; ++r)", [&] {
          out_.line(type + " sum = 0;");
          out_.line("for (long j = 0; j < terms; ++j) sum = multiply_add(weights[starts[r] + j], column[j*(" +
                    y.deep.text() + ")], sum);");
          out_.line("(" + at(x) + ")[r*" + c_step + "] += sum;");
        });
      });
      shift(along, "");
    });
  }
  int row_axis(const weighted_block& b) const { return t_.loop(b.row).axis; }

  /// A plain load that fills a tile of panels: pack() of the prelude.
  bool packs(int node) {
    series<int> chain;
    const int inner = only_statement(node, chain);
    if (inner < 0) return false;
    const loops::node& n = t_[inner];
    const bool copies = n.what == loops::act::copy, defines = n.what == loops::act::define && !chain.empty();
    if ((!copies && !defines) || (copies && !chain.empty()) || n.tile >= 0) return false;
    const panels p = panels_of(n.to);
    const loops::tile& to = tile_at(n.to);
    const auto& i = t_.at(n.value);
    if (p.across < 0 || to.slots != 1 || is_global(to) || n.body.size() != 1 || n.body[0] != n.value) return false;
    if (i.kind != kind::load || plan::is_guarded(i) || i.at.at.index >= 0) return false;
    if (type_in(to) != compute_type(type_in(to))) return false;
    // The loops walk the whole tile.
    for (int q : chain)
      if (!t_.loop(q).low.empty() || !t_.loop(q).high.empty() || is_digit(t_.loop(q).to)) return false;
    for (std::size_t d = 0; d < to.along.size(); ++d)
      if (static_cast<int>(d) != p.across && static_cast<int>(d) != p.deep && !to.along[d].extent.is(1)) return false;
    const loops::side &wide = to.along[static_cast<std::size_t>(p.across)],
                      &deep = to.along[static_cast<std::size_t>(p.deep)];
    const dim &across = i.at.at.stride[static_cast<std::size_t>(wide.axis)],
              &down = i.at.at.stride[static_cast<std::size_t>(deep.axis)];
    const std::string unit = std::to_string(p.unit), w = std::to_string(wide.axis), d = std::to_string(deep.axis);
    const auto least = [](const std::string& a, const std::string& b) {
      return "(" + a + " < " + b + " ? " + a + " : " + b + ")";
    };
    out_.block("", [&] {
      declare_positions(loops::axes_of(i.at.at) | 1u << wide.axis | 1u << deep.axis);
      const std::string rows =
                            least("(" + length(wide.axis).text() + ") - i" + w, "(long)(" + wide.extent.text() + ")"),
                        terms =
                            least("(" + length(deep.axis).text() + ") - i" + d, "(long)(" + deep.extent.text() + ")");
      out_.line("const long rows = " + rows + ", terms = " + terms + ";");
      out_.block("for (long a = 0; a < rows; a += " + unit + ")", [&] {
        out_.line("pack<" + scalar_type(type_in(to)) + ", " + memory_type(i.type) + ", " + walk_type(across) + ", " +
                  walk_type(down) + ">(" + tile_name(n.to) + " + a*(" + deep.extent.text() + "), " +
                  body_.address(i.at) + ", walk{" + across.text() + ", nullptr}, walk{" + down.text() +
                  ", nullptr}, a, " + least("rows - a", unit) + ", " + unit + ", 0, terms);");
      });
    });
    return true;
  }
  static std::string walk_type(const dim& step) {
    return step.is(1) ? "along<1>" : step.is_number() ? "apart" : "linear";
  }

  // --- statements

  void fill(int node) override {
    const loops::node& n = t_[node];
    if (begun_[static_cast<std::size_t>(n.to)]) return;
    const auto& i = t_.at(n.value);
    const auto nothing = loops::nothing_of(i, static_cast<std::size_t>(loops::count_of_parts(i)));
    const std::string from = slot(n.to);
    out_.line("for (long e = 0; e < " + count_of(n.to).text() + "; ++e) store1(" + tile_name(n.to) + " + " +
              (from.empty() ? "" : from + " + ") + "e, " +
              literal(type_in(tile_at(n.to)), nothing[static_cast<std::size_t>(n.part)]) + ");");
  }

  void define(int node) override {
    const loops::node& n = t_[node];
    out_.block("", [&] { place_value(node, is_global(tile_at(n.to)) ? is_first() : ""); });
  }
  /// The value at the present position, or beyond the end of padded axes what changes no sum, into the tile.
  void place_value(int node, const std::string& first) {
    const loops::node& n = t_[node];
    const loops::tile& to = tile_at(n.to);
    declare_positions(axes_read(node));
    where(first, within(n.guards), [&] {
      if (n.tile < 0) values(node, {n.value});
      const std::string value = n.tile >= 0 ? read(n.tile) : body_.operand(n.value, false);
      out_.line("store1(" + address(n.to) + ", " + value + ");");
    });
    if (n.guards & to.padded)
      out_.block("else" + (n.guards & ~to.padded ? " if (" + within(n.guards & ~to.padded) + ")" : ""),
                 [&] { out_.line("store1(" + address(n.to) + ", " + literal(type_in(to), to.neutral) + ");"); });
  }

  void copy(int node) override { copy_along(node, 0); }
  void copy_along(int node, std::size_t d) {
    const loops::tile& to = tile_at(t_[node].to);
    if (d == to.along.size()) return place_value(node, "");
    const auto& side = to.along[d];
    const std::string c = "c" + std::to_string(side.axis);
    out_.block("for (long " + c + " = 0; " + c + " < " + side.extent.text() + "; ++" + c + ")", [&] {
      shift(side.axis, c);
      copy_along(node, d + 1);
      shift(side.axis, "");
    });
  }

  /// Loops over pieces that a statement covers.
  template <class F>
  void each(const series<int>& pieces, std::size_t from, F&& f) {
    if (from == pieces.size()) return f();
    const int p = pieces[from];
    const std::string l = turn(p);
    out_.block("for (long " + l + " = 0; " + l + " < " + t_.loop(p).extent.text() + "; ++" + l + ")",
               [&] { open(p, [&] { each(pieces, from + 1, f); }); });
  }

  void matrix(int node) override {
    const loops::node& n = t_[node];
    const auto c = plan::contraction_of(k_, n.value);
    by_parts_[static_cast<std::size_t>(n.to)] = 1;
    each(n.over, 0, [&] {
      declare_positions(axes_read(node));
      values(node, {c->x, c->y});
      const std::string type = scalar_type(type_in(tile_at(n.to)));
      out_.line("store1(" + address(n.to) + ", multiply_add((" + type + ")" + body_.operand(c->x, false) + ", (" +
                type + ")" + body_.operand(c->y, false) + ", " + read(n.to) + "));");
    });
  }

  void merge(int node) override {
    const loops::node& n = t_[node];
    const auto& i = t_.at(n.value);
    by_parts_[static_cast<std::size_t>(n.to)] = 1;
    const std::uint32_t rows = loops::axes_of_tile(t_, n.to), over = loops::axes_over(i);
    std::uint32_t further = 0;
    for (int p : n.over) further |= 1u << t_.loop(p).axis;
    further &= ~rows & ~over;
    each(loops::pieces_along(t_, n.over, rows), 0, [&] {
      each(loops::pieces_along(t_, n.over, n.tile < 0 ? over & ~rows : 0), 0, [&] {
        out_.block("", [&] {
          declare_positions(axes_read(node) & ~further);
          where("", within(n.guards & ~further),
                [&] { merge_element(node, i, loops::pieces_along(t_, n.over, further)); });
        });
      });
    });
  }
  void merge_element(int node, const plan::instruction& i, const series<int>& further) {
    const loops::node& n = t_[node];
    const auto part = [&](int p) { return n.tile >= 0 ? read(n.tile + p) : std::string(); };
    if (i.rule == plan::merge_rule::weighted) return merge_weighted(node, i, further);
    if (n.tile < 0) values(node, operands(i));
    if (i.rule == plan::merge_rule::one) {
      const std::string x = n.tile >= 0 ? part(0) : body_.addend(i, false);
      out_.line("store1(" + address(n.to) + ", " + body_.combine(i.code, read(n.to), x) + ");");
    } else if (i.rule == plan::merge_rule::first) {
      const bool largest = ir::combiner_identity(i.code, dtype::i64).i < 0;
      const auto arg = [&](int p) {
        return n.tile >= 0 ? part(p) : body_.operand(i.args[static_cast<std::size_t>(p)], false);
      };
      out_.line(std::string("merge_first<") + (largest ? "true" : "false") + ">(" + address(n.to) + ", " +
                address(n.to + 1) + ", " + arg(0) + ", " + arg(1) + ");");
    } else {
      const std::string one =
          n.tile >= 0 ? part(0) + ", " + part(1) + ", " + part(2) : "1, " + body_.operand(i.args[0], false) + ", 0";
      out_.line("merge_moments<" + scalar_type(type_in(tile_at(n.to))) + ">(" + address(n.to) + ", " +
                address(n.to + 1) + ", " + address(n.to + 2) + ", " + one + ");");
    }
  }
  void merge_weighted(int node, const plan::instruction& i, const series<int>& further) {
    const loops::node& n = t_[node];
    const std::string type = scalar_type(type_in(tile_at(n.to)));
    if (n.tile < 0) values(node, {i.args[0]});
    out_.line("const " + type + " was = " + read(n.to) + ", is = " +
              (n.tile >= 0 ? read(n.tile) : body_.operand(i.args[0], false)) + ", most = maximum(was, is);");
    out_.line("const " + type + " mine = weight(was, most), other = weight(is, most);");
    for (int p = 1; p < loops::count_of_parts(i); ++p)
      each(loops::pieces_along(t_, further, loops::axes_of_tile(t_, n.to + p)), 0, [&] {
        out_.block("", [&] {
          const std::uint32_t own = loops::axes_of_tile(t_, n.to + p);
          const int v = i.args[static_cast<std::size_t>(p)];
          declare_positions(axes_read(node));
          where("", within(n.guards & own), [&] {
            if (n.tile < 0) values(node, {v});
            const std::string x = n.tile >= 0 ? read(n.tile + p) : body_.operand(v, false);
            out_.line("store1(" + address(n.to + p) + ", " + read(n.to + p) + "*mine + " + x + "*other);");
          });
        });
      });
    out_.line("store1(" + address(n.to) + ", most);");
  }

  void store(int node) override {
    const loops::node& n = t_[node];
    const auto& s = k_.stores[static_cast<std::size_t>(n.value)];
    out_.block("", [&] {
      declare_positions(axes_read(node));
      where(is_first(), within(n.guards), [&] {
        values(node, loops::roots_of(t_, n));
        body_.store(s, false, false, "");
      });
    });
  }

  void wait(int) override {}     // a copy is done when its statement is
  void barrier(int) override {}  // a task is one thread

  body_printer body_;
  series<char> uniform_;
  series<std::string> where_;
  series<int> grid_;
  scratch_use memory_;
  int lanes_ = -1;  ///< the axis along which vectors run
  /// Per tile: micro() of the first terms stores, and nothing is filled; micro() adds to it; other statements do.
  series<char> begun_, by_micro_, by_parts_;
};

}  // namespace sinter::engine::emit
