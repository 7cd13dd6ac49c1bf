// emit/walk.hpp: a tree -> text: one walk over its statements for all targets. What a statement looks like is the target's spelling.
#pragma once

#include "../plan/loops/uses.hpp"
#include "../plan/schedule/intrinsics.hpp"
#include "text.hpp"

namespace sinter::engine::emit {

namespace loops = plan::loops;

/// Walks a tree, and knows the open loops. A loop's turn is the variable l<piece> of the piece that it takes turns of; i<axis> is a
/// position. A target derives its spelling from it, which prints each act. `word` is asked first at every statement.
class walker {
 public:
  walker(const loops::tree& t, writer& out) : t_(t), k_(*t.code), out_(out), shift_(k_.axes.size()) {}
  virtual ~walker() = default;

  const loops::tree& tree() const { return t_; }
  const loops::tile& tile_at(int x) const { return t_.tiles[static_cast<std::size_t>(x)]; }
  const plan::schedules::intrinsic& row_at(int row) const {
    return plan::schedules::intrinsics()[static_cast<std::size_t>(row)];
  }
  const dim& length(int axis) const { return k_.axes[static_cast<std::size_t>(axis)].extent; }

 protected:
  // --- a target's spelling

  /// Prints a statement, or a loop with all inside it, by a word of the prelude; false: it is printed act by act.
  virtual bool word(int) { return false; }
  /// Prints a loop, and all statements inside it by inside().
  virtual void loop(int node) { plain_loop(node); }
  virtual void fill(int node) = 0;
  virtual void define(int node) = 0;
  virtual void copy(int node) = 0;
  virtual void matrix(int node) = 0;
  virtual void merge(int node) = 0;
  virtual void store(int node) = 0;
  virtual void wait(int node) = 0;
  virtual void barrier(int node) = 0;

  // --- the walk

  void walk(int node) {
    if (word(node)) return;
    switch (t_[node].what) {
      case loops::act::loop:
        return t_[node].piece < 0 ? inside(node) : loop(node);
      case loops::act::fill:
        return fill(node);
      case loops::act::define:
        return define(node);
      case loops::act::copy:
        return copy(node);
      case loops::act::matrix:
        return matrix(node);
      case loops::act::merge:
        return merge(node);
      case loops::act::store:
        return store(node);
      case loops::act::wait:
        return wait(node);
      case loops::act::barrier:
        return barrier(node);
    }
  }
  void inside(int node) {
    for (int n : t_[node].inside) walk(n);
  }
  /// Calls f() while the loop over a piece is open. A loop that is open already takes another turn.
  template <class F>
  void open(int piece, F&& f) {
    const int origin = t_.origin(piece);
    const bool again = is_open(origin);
    if (!again) open_.push_back(origin);
    f();
    if (!again) open_.pop_back();
  }
  bool is_open(int origin) const { return std::count(open_.begin(), open_.end(), origin) > 0; }

  /// The pieces of a launch that are bound so, outermost first: their turns are a task's, or a thread's, digits.
  series<int> digits(int root, loops::bind to) const {
    series<int> out;
    loops::for_each_inside(t_, root, [&](int n) {
      const int p = t_[n].piece;
      if (t_[n].what != loops::act::loop || p < 0 || t_.loop(p).to != to || t_.loop(t_.origin(p)).to != to) return;
      if (!std::count(out.begin(), out.end(), t_.origin(p))) out.push_back(t_.origin(p));
    });
    return out;
  }

  // --- loops

  std::string turn(int piece) const { return "l" + std::to_string(t_.origin(piece)); }

  /// "for (long l3 = 0; l3 < 16; ++l3) { … }", with bounds where a mask or a tail has some.
  void plain_loop(int node) {
    const int p = t_[node].piece;
    const loops::piece& x = t_.loop(p);
    const std::string l = turn(p);
    const auto body = [&] { open(p, [&] { inside(node); }); };
    const bool one = x.extent.is(1) && x.part == loops::turns::all && x.low.empty() && x.high.empty();
    if (one) {
      return out_.block("", [&] {
        out_.line("const long " + l + " = 0;");
        body();
      });
    }
    out_.block("", [&] {
      const range_text r = range_of(p);
      if (x.part == loops::turns::next) {
        out_.line("const long next = " + l + " + " + std::to_string(x.ahead) + ";");
        return out_.block("if (next < " + r.to + ")", [&] {
          out_.line("const long " + l + " = next;");
          body();
        });
      }
      if (is_digit(x.to) && is_digit(t_.loop(t_.origin(p)).to))
        return out_.block("if (" + l + " >= " + r.from + " && " + l + " < " + r.to + ")", body);
      std::string until = l + " < " + r.to;
      if (x.part == loops::turns::head) until += " && " + l + " < " + r.from + " + " + std::to_string(x.ahead);
      out_.block("for (long " + l + " = " + r.from + "; " + until + "; ++" + l + ")", body);
    });
  }
  static bool is_digit(loops::bind to) { return to == loops::bind::grid || to == loops::bind::threads; }

  /// The first turn, and the one behind the last.
  struct range_text {
    std::string from, to;
  };
  /// Declares b<piece> and e<piece> where the range is not that of the extent.
  range_text range_of(int p) {
    const loops::piece& x = t_.loop(p);
    const std::string number = std::to_string(t_.origin(p)), b = "b" + number, e = "e" + number;
    const std::string base = position_without(x.axis, t_.origin(p)), step = "(" + x.step.text() + ")";
    const bool clipped = skips_beyond(p), part = x.part == loops::turns::full || x.part == loops::turns::edge;
    if (x.low.empty() && x.high.empty() && !clipped && !part) return {"0", "(long)(" + x.extent.text() + ")"};
    out_.line("long " + b + " = 0, " + e + " = " + x.extent.text() + ";");
    const auto raise = [&](const std::string& to) {
      out_.line("if (const long at = " + to + "; at > 0 && at/" + step + " > " + b + ") " + b + " = at/" + step + ";");
    };
    const auto lower = [&](const std::string& to) {
      out_.line("if (const long at = " + to + "; " + e + "*" + step + " >= at + " + step + ") " + e +
                " = at > 0 ? (at + " + step + " - 1)/" + step + " : 0;");
    };
    for (const auto& l : x.low) raise(bound_text(l) + " - (" + base + ")");
    for (const auto& h : x.high) lower(bound_text(h) + " - (" + base + ")");
    const std::string all = "(" + length(x.axis).text() + ")";
    if (x.part == loops::turns::full)
      out_.line("if (" + all + "/" + step + " < " + e + ") " + e + " = " + all + "/" + step + ";");
    if (x.part == loops::turns::edge) {
      out_.line("if (" + all + "/" + step + " > " + b + ") " + b + " = " + all + "/" + step + ";");
      out_.line("if (" + all + "%" + step + " == 0) " + e + " = " + b + "; else if (" + all + "/" + step + " + 1 < " +
                e + ") " + e + " = " + all + "/" + step + " + 1;");
    }
    if (clipped) lower(all + " - (" + base + ")");
    return {b, e};
  }
  /// Whether turns beyond the axis's end are left out: pads that an intrinsic reads lie within its own turn.
  bool skips_beyond(int p) const {
    const loops::piece& x = t_.loop(p);
    if (x.part != loops::turns::all || x.to == loops::bind::matrix) return false;
    bool pads = false, covered = false;
    for (const auto& q : t_.pieces) {
      if (q.axis != x.axis || q.of >= 0) continue;
      pads = pads || q.rest == loops::tail::pad;
      covered = covered || q.to == loops::bind::matrix;
    }
    return pads && covered;
  }
  std::string bound_text(const plan::affine& at) const {
    series<std::string> terms;
    for (std::size_t a = 0; a < at.stride.size(); ++a)
      if (!at.stride[a].is(0)) terms.push_back(scaled(at.stride[a], "(" + position(static_cast<int>(a)) + ")"));
    if (at.index >= 0) terms.push_back(scaled(at.indirect, "v" + std::to_string(at.index)));
    if (!at.offset.is(0)) terms.push_back("(" + at.offset.text() + ")");
    return "(" + sum(terms) + ")";
  }

  // --- positions

  /// A position along an axis, of the open loops' turns.
  std::string position(int axis) const { return position_without(axis, -1); }
  std::string position_without(int axis, int piece) const {
    series<std::string> terms;
    for (int p : open_)
      if (p != piece && t_.loop(p).axis == axis) terms.push_back(scaled(t_.loop(p).step, turn(p)));
    if (const auto& s = shift_[static_cast<std::size_t>(axis)]; !s.empty()) terms.push_back(s);
    return sum(terms);
  }
  /// Declares i<axis> for each axis of a mask.
  void declare_positions(std::uint32_t axes) {
    for (int a = 0; axes >> a; ++a)
      if (axes >> a & 1u) out_.line("const long i" + std::to_string(a) + " = " + position(a) + ";");
  }
  /// "i0 < 30 && i1 < 40"; "" for no axes. The positions are declared.
  std::string within(std::uint32_t axes) const {
    std::string out;
    for (int a = 0; axes >> a; ++a)
      if (axes >> a & 1u) out += (out.empty() ? "i" : " && i") + std::to_string(a) + " < (" + length(a).text() + ")";
    return out;
  }
  /// Adds to the positions along an axis, which no loop opens: the place in a tile that a copy fills.
  void shift(int axis, std::string by) { shift_[static_cast<std::size_t>(axis)] = std::move(by); }

  // --- tiles

  /// The elements of a side with those that keep rows apart in memory; at least its extent.
  virtual dim room_of(int x, std::size_t side) const { return tile_at(x).along[side].extent; }
  static std::string tile_name(int x) { return "t" + std::to_string(x); }
  /// The elements of one slot.
  dim count_of(int x) const {
    dim n = 1;
    for (std::size_t d = 0; d < tile_at(x).along.size(); ++d) n *= room_of(x, d);
    return n;
  }
  /// The place along a side of the open loops' turns inside a tile's loop.
  std::string coordinate(int x, const loops::side& s) const {
    if (s.piece >= 0) return turn(s.piece);
    const loops::tile& tile = tile_at(x);
    series<std::string> terms;
    const int* p = tile.at < 0 ? open_.begin() : std::find(open_.begin(), open_.end(), tile.at);
    for (; p != open_.end(); ++p)
      if (*p != tile.at && t_.loop(*p).axis == s.axis) terms.push_back(scaled(t_.loop(*p).step, turn(*p)));
    if (const auto& by = shift_[static_cast<std::size_t>(s.axis)]; !by.empty()) terms.push_back(by);
    return sum(terms);
  }
  /// The slot's first element.
  std::string slot(int x) const {
    const loops::tile& tile = tile_at(x);
    return tile.slots > 1 ? turn(tile.at) + "%" + std::to_string(tile.slots) + "*(" + count_of(x).text() + ")" : "";
  }
  /// A tile as panels of `unit` rows of x, or columns of y, in which the terms lie one after the other.
  struct panels {
    int across = -1, deep = -1;  ///< sides; -1: the tile is row-major
    std::int64_t unit = 0;
  };
  /// The panels of a factor of the contraction that a row of the intrinsics computes from it.
  panels panels_of(int x) const {
    const loops::tile& tile = tile_at(x);
    if (tile.as != loops::layout::panel) return {};
    for (const auto& n : t_.nodes) {
      if (n.what != loops::act::matrix) continue;
      const auto c = plan::contraction_of(k_, n.value);
      const bool is_x = tile.value == c->x || tile.value == plan::unwidened(k_, c->x),
                 is_y = tile.value == c->y || tile.value == plan::unwidened(k_, c->y);
      if (!is_x && !is_y) continue;
      panels out{-1, -1, is_x ? row_at(n.row).m : row_at(n.row).n};
      for (int p : n.over)
        for (std::size_t d = 0; d < tile.along.size(); ++d) {
          if (tile.along[d].axis != t_.loop(p).axis) continue;
          const bool deep = std::count(c->k.begin(), c->k.end(), t_.loop(p).axis) > 0;
          (deep ? out.deep : out.across) = static_cast<int>(d);
        }
      if (out.across < 0 || out.deep < 0) return {};
      const dim& wide = tile.along[static_cast<std::size_t>(out.across)].extent;
      return wide.divided_by(dim(out.unit)) ? out : panels{};
    }
    return {};
  }
  /// The place in a tile of the open loops' position: row-major along its sides, or in panels.
  std::string place(int x) const {
    std::string out;
    const panels p = panels_of(x);
    const auto& along = tile_at(x).along;
    for (std::size_t d = 0; d < along.size(); ++d) {
      const loops::side& s = along[d];
      if (static_cast<int>(d) == p.across || static_cast<int>(d) == p.deep) continue;
      const std::string c = coordinate(x, s);
      if (s.extent.is(1)) continue;
      out = out.empty() || out == "0" ? c : "(" + out + ")*(" + room_of(x, d).text() + ") + " + c;
    }
    if (out.empty()) out = "0";
    if (p.across >= 0) {
      const loops::side &wide = along[static_cast<std::size_t>(p.across)],
                        &deep = along[static_cast<std::size_t>(p.deep)];
      const std::string a = "(" + coordinate(x, wide) + ")", unit = std::to_string(p.unit);
      out = (out == "0" ? "" : "(" + out + ")*(" + dim(wide.extent * deep.extent).text() + ") + ") + "(" + a + "/" +
            unit + "*(" + deep.extent.text() + ") + " + coordinate(x, deep) + ")*" + unit + " + " + a + "%" + unit;
    }
    const std::string from = slot(x);
    return from.empty() ? out : from + " + " + out;
  }

  /// A value that a statement takes from a tile.
  struct taken {
    int value, tile;
  };
  series<taken> taken_by(int node) const {
    series<taken> out;
    for (int v : loops::values_read(t_, t_[node]))
      if (const int x = loops::visible_tile(t_, v, open_, t_[node].to); x >= 0) out.push_back({v, x});
    return out;
  }
  /// The axes whose positions a statement's instructions read.
  std::uint32_t axes_read(int node) const {
    const loops::node& n = t_[node];
    std::uint32_t axes = n.guards;
    for (int v : n.body) {
      const auto& i = t_.at(v);
      axes |= loops::axes_of(i.at.at);
      for (const auto& r : i.ranges) axes |= loops::axes_of(r.at);
    }
    if (n.what == loops::act::store) axes |= loops::axes_of(k_.stores[static_cast<std::size_t>(n.value)].at.at);
    return axes;
  }

  const loops::tree& t_;
  const kernel& k_;
  writer& out_;
  series<int> open_;           ///< origins of the open loops
  series<std::string> shift_;  ///< for each axis
};

}  // namespace sinter::engine::emit
