// plan/loops/apply.hpp: a schedule's steps applied to a kernel: its tree before the passes.
#pragma once

#include "../kernel/root.hpp"
#include "../schedule/intrinsics.hpp"
#include "../schedule/step.hpp"
#include "names.hpp"
#include "tree.hpp"
#include "uses.hpp"

namespace sinter::engine::plan::loops {

namespace detail {

[[noreturn]] inline void refuse(std::string why) { throw refusal{std::move(why), ir::no_node}; }

/// The pieces, their order and the values in tiles, read from a schedule's steps.
struct plan_of_loops {
  const kernel& code;
  tree t;
  series<int> order;  ///< pieces, outermost first
  series<schedules::stage> stages;
  series<schedules::keep> keeps;
  series<schedules::use_matrix> matrices;
  series<schedules::share> shares;
  bool skewed = false;

  explicit plan_of_loops(const kernel& k) : code(k) {
    t.code = &code;
    for (std::size_t a = 0; a < k.axes.size(); ++a) {
      piece p;
      p.axis = static_cast<int>(a);
      p.extent = k.axes[a].extent;
      t.pieces.push_back(std::move(p));
      order.push_back(static_cast<int>(a));
    }
  }

  piece& at(int p, const char* step) {
    if (p < 0 || p >= static_cast<int>(t.pieces.size()))
      refuse(std::string(step) + ": there is no piece " + std::to_string(p));
    return t.pieces[static_cast<std::size_t>(p)];
  }
  void demand_value(int v, const char* step) const {
    if (v < 0 || v >= static_cast<int>(code.body.size()))
      refuse(std::string(step) + ": there is no value v" + std::to_string(v));
  }
  int rank(int p) const {
    if (p < 0) return -1;
    return static_cast<int>(std::find(order.begin(), order.end(), p) - order.begin());
  }

  void apply(const schedules::split& s) {
    piece& outer = at(s.piece, "split");
    if (!s.by.is_number() || *s.by.number() < 1)
      refuse("split: " + name(t, s.piece) + " by " + s.by.text() + ", which is no positive number");
    const auto whole = outer.extent.divided_by(s.by);
    if (!whole && s.rest == tail::none)
      refuse("split: " + name(t, s.piece) + " of " + outer.extent.text() + " by " + s.by.text() +
             " leaves a tail; say guard, peel or pad");
    for (std::size_t q = 0; !whole && q < t.pieces.size(); ++q)
      if (t.pieces[q].axis == outer.axis && static_cast<int>(q) != s.piece && t.pieces[q].step.divided_by(outer.step) &&
          !(t.pieces[q].step == outer.step))
        refuse("split: " + name(t, s.piece) + " of " + outer.extent.text() + " by " + s.by.text() +
               " would run into the next turn of " + name(t, static_cast<int>(q)) + "; split it by a divisor");
    piece inner = outer;
    inner.parent = s.piece;
    inner.extent = s.by;
    inner.rest = tail::none;
    inner.to = bind::ordered;
    if (!whole) outer.rest = s.rest;
    outer.extent = whole ? *whole : ceil_div(outer.extent, s.by);
    outer.step *= s.by;
    const int made = static_cast<int>(t.pieces.size());
    t.pieces.push_back(std::move(inner));
    order.insert(order.begin() + rank(s.piece) + 1, made);
  }
  void apply(const schedules::reorder& s) {
    series<int> sorted = s.pieces;
    std::sort(sorted.begin(), sorted.end());
    bool each = sorted.size() == t.pieces.size();
    for (std::size_t p = 0; each && p < sorted.size(); ++p) each = sorted[p] == static_cast<int>(p);
    if (!each) refuse("reorder: it names not each of the " + std::to_string(t.pieces.size()) + " pieces once");
    order = s.pieces;
  }
  void apply(const schedules::bind_to& s) { at(s.piece, "bind").to = s.to; }
  void apply(const schedules::stage& s) {
    demand_value(s.value, "stage");
    if (s.at >= 0) at(s.at, "stage");
    if (s.slots < 1 || s.slots > 8) refuse("stage: a tile has 1 to 8 slots");
    if (s.behind < 0 || (s.behind > 0 && (s.by == mover::threads || s.slots < s.behind + 2)))
      refuse("stage: products that run behind need two slots more, filled by async");
    stages.push_back(s);
  }
  void apply(const schedules::keep& s) {
    demand_value(s.value, "keep");
    if (code.body[static_cast<std::size_t>(s.value)].kind != kind::reduce)
      refuse("keep: v" + std::to_string(s.value) + " is no reduction");
    if (s.at >= 0) at(s.at, "keep");
    keeps.push_back(s);
  }
  void apply(const schedules::use_matrix& s) {
    demand_value(s.value, "matrix");
    matrices.push_back(s);
  }
  void apply(const schedules::share& s) {
    demand_value(s.value, "share");
    at(s.over, "share");
    shares.push_back(s);
  }
  void apply(const schedules::skew& s) {
    demand_value(s.value, "skew");
    at(s.over, "skew");
    if (std::exchange(skewed, true)) refuse("skew: a schedule has one");
  }

  const schedules::share* shared(int value, int over) const {
    for (const auto& s : shares)
      if (s.value == value && s.over == over) return &s;
    return nullptr;
  }
  const schedules::use_matrix* matrix_of(int value) const {
    for (const auto& m : matrices)
      if (m.value == value) return &m;
    return nullptr;
  }
};

/// A value in a tile, made at the begin of each turn of `at`.
struct made_value {
  enum class how : std::uint8_t { staged, reduced, folded };
  int value = -1, at = -1, tile = -1;
  how from = how::staged;
  mover by = mover::threads;
  int source = -1, over = -1;  ///< folded: the tile of partial results, and the piece whose turns made them
  bool done = false;
};

/// Makes the statements and the loops around them.
class tree_maker {
 public:
  explicit tree_maker(plan_of_loops& p) : p_(p), k_(p.code), t_(p.t) {}

  tree run() {
    for (const auto& s : k_.stores)
      if (s.accumulate) refuse("a scatter has no tree");
    for (const auto& i : k_.body)
      if (i.kind == kind::scan || i.kind == kind::sort || i.kind == kind::search || i.kind == kind::product ||
          i.kind == kind::arg_reduce)
        refuse("a scan, a sort, a search and a product that is no sum have no tree");
    check_order();
    for (std::size_t v = 0; v < k_.body.size(); ++v)
      if (k_.body[v].kind == kind::reduce) make_reduction(static_cast<int>(v));
    for (const auto& s : p_.stages) make_stage(s);
    launch_partials();
    series<int> all;
    for (std::size_t s = 0; s < k_.stores.size(); ++s) all.push_back(static_cast<int>(s));
    series<int> roots;
    for (int s : all) add_operands_of_store(s, roots);
    series<int> inside = place(-1, roots);
    stores(all, 0, inside);
    t_.launches.push_back({sequence(std::move(inside))});
    for (const auto& m : made_)
      if (!m.done) refuse(name(m.value) + " is made inside " + loops::name(t_, m.at) + ", where nothing reads it");
    return std::move(t_);
  }

 private:
  static std::string name(int v) { return "v" + std::to_string(v); }
  const instruction& at(int v) const { return k_.body[static_cast<std::size_t>(v)]; }
  piece& loop(int p) { return t_.pieces[static_cast<std::size_t>(p)]; }
  int rank(int p) const { return p_.rank(p); }

  /// Pieces of an axis lie in the order of their steps.
  void check_order() const {
    for (std::size_t i = 0; i < p_.order.size(); ++i)
      for (std::size_t j = i + 1; j < p_.order.size(); ++j) {
        const piece &a = t_.loop(p_.order[i]), &b = t_.loop(p_.order[j]);
        if (a.axis == b.axis && !is_outer(p_.order[i], p_.order[j]))
          refuse("reorder: " + loops::name(t_, p_.order[i]) + " is outside " + loops::name(t_, p_.order[j]) +
                 ", of which it is a part");
        if (b.to == bind::grid && a.to != bind::grid)
          refuse("bind: " + loops::name(t_, p_.order[j]) + " is bound to the grid, inside " +
                 loops::name(t_, p_.order[i]) + ", which is not");
      }
  }
  /// Whether piece a has longer steps than piece b of the same axis.
  bool is_outer(int a, int b) const {
    if (t_.loop(b).step == t_.loop(a).step) return true;
    return t_.loop(a).step.divided_by(t_.loop(b).step).has_value();
  }

  /// Each number of a reduction's tuple: the axes along which it varies.
  series<std::uint32_t> axes_of_parts(int v) const {
    const instruction& i = at(v);
    const std::uint32_t first = at(i.args[0]).axes & ~axes_over(i);
    series<std::uint32_t> out{first};
    if (i.rule == merge_rule::first) out = {first, first};
    if (i.rule == merge_rule::moments) out = {first, first, first};
    if (i.rule == merge_rule::weighted)
      for (std::size_t a = 1; a < i.args.size(); ++a) out.push_back((first | at(i.args[a]).axes) & ~axes_over(i));
    return out;
  }
  std::uint32_t axes_of_result(int v) const {
    std::uint32_t all = 0;
    for (auto m : axes_of_parts(v)) all |= m;
    return all;
  }
  dtype type_of_part(int v, std::size_t part) const {
    const instruction& i = at(v);
    if (i.rule == merge_rule::one) return i.type;
    for (const auto& p : k_.body)
      if (p.kind == kind::part && p.args[0] == v && p.index == static_cast<int>(part)) return p.type;
    return at(i.args[std::min(part, i.args.size() - 1)]).type;
  }
  int value_of_part(int v, std::size_t part) const {
    if (at(v).rule == merge_rule::one) return v;
    for (std::size_t b = 0; b < k_.body.size(); ++b)
      if (k_.body[b].kind == kind::part && k_.body[b].args[0] == v && k_.body[b].index == static_cast<int>(part))
        return static_cast<int>(b);
    return -1;
  }

  /// The sides of a tile of a value that varies along `axes`, made inside `p`.
  series<side> sides(std::uint32_t axes, int p) const {
    series<side> out;
    for (int a = 0; a < static_cast<int>(k_.axes.size()); ++a)
      if (axes >> a & 1u) out.push_back({a, span_of_pieces(t_, a, [&](int q) { return rank(q) > rank(p); }), -1});
    return out;
  }

  /// The loop inside which a reduction starts if no step says so: the last one that its result varies along, before its own.
  int place_of(int v) const {
    const std::uint32_t own = axes_of_parts(v)[0], over = axes_over(at(v));
    int found = -1;
    for (int q : p_.order) {
      const std::uint32_t bit = 1u << t_.loop(q).axis;
      if ((over & bit) && !is_launch_share(v, q)) break;
      if (own & bit) found = q;
    }
    return found;
  }
  bool is_launch_share(int v, int q) const {
    const auto* s = p_.shared(v, q);
    return s && s->how == schedules::share::way::launch;
  }

  void make_reduction(int v) {
    int at_piece = place_of(v);
    space in = space::registers;
    for (const auto& s : p_.shares)
      if (s.value == v && s.how == schedules::share::way::launch && rank(s.over) > rank(at_piece)) at_piece = s.over;
    for (const auto& s : p_.keeps)
      if (s.value == v) at_piece = s.at, in = s.in;
    const std::uint32_t over = axes_over(at(v));
    for (int q : p_.order)
      if ((over >> t_.loop(q).axis & 1u) && rank(q) <= rank(at_piece) && !is_launch_share(v, q))
        refuse("keep: " + name(v) + " is kept inside " + loops::name(t_, at_piece) + ", which is inside its own loop " +
               loops::name(t_, q));
    if (in == space::shared || in == space::scratch)
      refuse("keep: " + name(v) + " is each thread's own: in registers or on the stack");
    const int base = add_tiles(v, at_piece, in, lane_pieces(v, at_piece));
    made_.push_back({v, at_piece, base, made_value::how::reduced});
  }
  /// The tiles of a reduction's tuple: consecutive numbers.
  int add_tiles(int v, int at_piece, space in, const series<int>& turns_of) {
    const int base = static_cast<int>(t_.tiles.size());
    const auto axes = axes_of_parts(v);
    for (std::size_t p = 0; p < axes.size(); ++p) {
      tile x;
      x.value = value_of_part(v, p);
      for (int q : turns_of) x.along.push_back({t_.loop(q).axis, t_.loop(q).extent, q});
      for (auto& s : sides(axes[p], at_piece)) x.along.push_back(std::move(s));
      x.type = type_of_part(v, p);
      x.in = in;
      x.at = at_piece;
      x.accumulates = true;
      const bool by_matrix = at(v).rule == merge_rule::one || contraction_of_part(k_, v, p);
      if (const auto* m = p_.matrix_of(v); m && by_matrix && in == space::registers && turns_of.empty())
        hold_as(x, m->row, 2);
      t_.tiles.push_back(std::move(x));
    }
    return base;
  }
  static void hold_as(tile& x, int row, int operand) { x.row = row, x.operand = operand; }
  /// Values that an intrinsic takes in fewer bits are rounded as they come into the tile.
  static void round_for(tile& x) {
    const auto& i = schedules::intrinsics()[static_cast<std::size_t>(x.row)];
    const dtype want = x.operand == 0 ? i.x : i.y;
    if (is_float(want) && is_float(x.type) && size_of(want) < size_of(x.type)) x.type = want;
  }

  series<int> pieces_inside(int p, std::uint32_t axes) const {
    series<int> out;
    for (int q : p_.order)
      if (rank(q) > rank(p) && (axes >> t_.loop(q).axis & 1u)) out.push_back(q);
    return out;
  }
  series<int> bound(const series<int>& pieces, bind to) const {
    series<int> out;
    for (int q : pieces)
      if (t_.loop(q).to == to) out.push_back(q);
    return out;
  }
  series<int> lane_pieces(int v, int at_piece) const {
    return bound(pieces_inside(at_piece, axes_over(at(v))), bind::lanes);
  }

  void make_stage(const schedules::stage& s) {
    const instruction& i = at(s.value);
    if (i.kind == kind::reduce && i.rule != merge_rule::one)
      refuse("stage: " + name(s.value) + " is a tuple; stage its parts");
    tile x;
    x.value = s.value;
    x.along = sides(i.axes, s.at);
    x.type = i.type;
    x.in = s.in;
    x.as = s.as;
    x.slots = s.slots;
    x.behind = s.behind;
    x.at = s.at;
    if (s.in == space::registers) hold_operand(x);
    if (s.in == space::shared) lie_as_memory(x);
    const bool plain = i.kind == kind::load && i.at.at.index < 0;
    if (s.by != mover::threads && (!plain || s.in != space::shared))
      refuse("stage: " + name(s.value) + " is copied " + (s.by == mover::tma ? "by tma" : "by async") +
             ", which takes loads without an index into shared memory alone");
    if (s.slots > 1 && s.at < 0) refuse("stage: a tile outside all loops has one slot");
    if (s.slots > 1 && loop(s.at).to != bind::ordered && loop(s.at).to != bind::unrolled)
      refuse("stage: the turns of " + loops::name(t_, s.at) + " have no order, so its tiles have one slot");
    if (is_common(x)) demand_common(s);
    if (x.in == space::shared && plain) x.memory = same_elements(x);
    const bool copied = x.memory < 0;
    t_.tiles.push_back(std::move(x));
    if (!copied) return;
    made_value m{s.value, s.at, static_cast<int>(t_.tiles.size()) - 1};
    m.by = s.by;
    made_.push_back(m);
  }
  /// An earlier tile of the same loop with the same elements of memory; -1: none.
  int same_elements(const tile& x) const {
    for (std::size_t t = 0; t < t_.tiles.size(); ++t)
      if (const tile& y = t_.tiles[t]; y.value >= 0 && y.memory < 0 && is_same_memory(x, y)) return static_cast<int>(t);
    return -1;
  }
  bool is_same_memory(const tile& x, const tile& y) const {
    if (y.accumulates || x.in != y.in || x.as != y.as || x.slots != y.slots || x.behind != y.behind || x.at != y.at ||
        x.type != y.type || x.along.size() != y.along.size())
      return false;
    const instruction &a = at(x.value), &b = at(y.value);
    if (b.kind != kind::load || b.at.at.index >= 0 || is_guarded(a) || is_guarded(b) || a.at.buffer != b.at.buffer)
      return false;
    affine renamed = a.at.at;
    for (std::size_t d = 0; d < x.along.size(); ++d) {
      const int mine = x.along[d].axis, other = y.along[d].axis;
      if (!(x.along[d].extent == y.along[d].extent)) return false;
      if (mine == other) continue;
      if (!is_whole(mine, x.at) || !is_whole(other, x.at) ||
          !(k_.axes[static_cast<std::size_t>(mine)].extent == k_.axes[static_cast<std::size_t>(other)].extent))
        return false;
      renamed.stride[static_cast<std::size_t>(other)] = a.at.at.stride[static_cast<std::size_t>(mine)];
      renamed.stride[static_cast<std::size_t>(mine)] = 0;
    }
    return renamed == b.at.at;
  }
  /// Whether no piece of an axis is outside the loop over p, or is that loop.
  bool is_whole(int axis, int p) const {
    for (int q : p_.order)
      if (t_.loop(q).axis == axis && rank(q) <= rank(p)) return false;
    return true;
  }
  /// A tile that threads share is the same for all of them.
  void demand_common(const schedules::stage& s) const {
    for (int q : p_.order)
      if (rank(q) <= rank(s.at) && t_.loop(q).to == bind::threads &&
          ((at(s.value).axes >> t_.loop(q).axis & 1u) || t_.loop(q).rest == tail::peel))
        refuse("stage: " + name(s.value) + " in " + text_of(s.in) + " memory differs among the threads of " +
               loops::name(t_, q));
  }
  /// A tile in registers that a matrix intrinsic reads, or of which its operand is computed, lies as it takes it.
  void hold_operand(tile& x) const {
    for (const auto& m : p_.matrices)
      if (const int operand = operand_of_matrix(t_, m.value, x.value); operand >= 0) hold_as(x, m.row, operand);
    if (x.row >= 0) round_for(x);
  }
  /// The innermost side of a tile in shared memory is the one along which the elements follow each other in memory.
  void lie_as_memory(tile& x) const {
    const instruction& i = at(x.value);
    if (i.kind != kind::load) return;
    const auto runs = [&](const side& s) { return i.at.at.stride[static_cast<std::size_t>(s.axis)].is(1); };
    std::stable_sort(x.along.begin(), x.along.end(), [&](const side& a, const side& b) { return !runs(a) && runs(b); });
  }

  int sequence(series<int> inside) {
    node n;
    n.inside = std::move(inside);
    return t_.add(std::move(n));
  }

  void add_operands_of_store(int s, series<int>& roots) const {
    const store& x = k_.stores[static_cast<std::size_t>(s)];
    roots.push_back(x.value);
    if (x.at.at.index >= 0) roots.push_back(x.at.at.index);
  }

  /// The made values that statements reading `roots` need at the begin of a turn of p.
  series<int> needed(const series<int>& roots, int p) const {
    series<char> seen(k_.body.size(), 0);
    series<int> out;
    const auto walk = [&](auto&& self, int v) -> void {
      char& known = seen[static_cast<std::size_t>(v)];
      if (known) return;
      known = 1;
      for (int m : sources_of(v)) {
        const int at_piece = made_[static_cast<std::size_t>(m)].at;
        if (at_piece == p) out.push_back(m);
        else if (is_open(made_[static_cast<std::size_t>(m)])) return;
        if (made_[static_cast<std::size_t>(m)].from == made_value::how::folded)
          return;  // another launch read its operands
      }
      for_each_operand(at(v), [&](int o) { self(self, o); });
    };
    for (int r : roots) walk(walk, r);
    std::sort(out.begin(), out.end(), [&](int a, int b) {
      const auto &x = made_[static_cast<std::size_t>(a)], &y = made_[static_cast<std::size_t>(b)];
      return x.value != y.value ? x.value < y.value : a < b;
    });
    return out;
  }
  /// Where a value may be found, best first; each is made of the next. The stage that is under way is left out.
  series<int> sources_of(int v) const {
    series<int> out;
    const bool own = making_ >= 0 && t_.tiles[static_cast<std::size_t>(making_)].value == v;
    for (const bool staged : {true, false})
      for (std::size_t m = made_.size(); m-- > 0;)
        if (made_[m].value == v && (made_[m].from == made_value::how::staged) == staged &&
            !(own && staged && made_[m].tile >= making_))
          out.push_back(static_cast<int>(m));
    return out;
  }
  bool is_open(const made_value& m) const { return m.at < 0 || std::count(open_.begin(), open_.end(), m.at) > 0; }

  series<int> place(int p, const series<int>& roots) {
    series<int> out;
    const series<int> all = needed(roots, p);
    series<char> finished(all.size(), 0);
    for (std::size_t n = 0; n < all.size(); ++n) {
      const int m = all[n];
      const made_value x = made_[static_cast<std::size_t>(m)];
      if (finished[n] || waits_for_another(all, n)) continue;
      made_[static_cast<std::size_t>(m)].done = true;
      if (x.from == made_value::how::staged) staged(x, out);
      else if (const auto members = together(all, n, finished); members.size() > 1) reduced_together(members, out);
      else if (x.from == made_value::how::reduced) reduced(x, out);
      else folded(x.value, x.source, x.tile, x.at, {x.over}, out);
    }
    return out;
  }

  /// Loops over pieces[from…] around what `leaf` adds, with the values that `roots` need.
  template <class Leaf>
  void nest(const series<int>& pieces, std::size_t from, const series<int>& roots, Leaf&& leaf, series<int>& out) {
    if (from == pieces.size()) return leaf(out);
    node n;
    n.piece = pieces[from];
    open_.push_back(n.piece);
    n.inside = place(n.piece, roots);
    nest(pieces, from + 1, roots, leaf, n.inside);
    open_.pop_back();
    out.push_back(t_.add(std::move(n)));
  }

  /// The instructions that a statement computes at its position to read `roots`; `to` is the tile that it writes.
  series<int> body_of(const series<int>& roots, int to) const {
    series<char> seen(k_.body.size(), 0);
    const auto walk = [&](auto&& self, int v, bool first) -> void {
      if (seen[static_cast<std::size_t>(v)]) return;
      if (visible_tile(t_, v, open_, first ? to : -1) >= 0) return;
      seen[static_cast<std::size_t>(v)] = 1;
      for_each_operand(at(v), [&](int o) { self(self, o, false); });
    };
    for (int r : roots) walk(walk, r, to >= 0 && t_.tiles[static_cast<std::size_t>(to)].value == r);
    series<int> out;
    for (std::size_t v = 0; v < seen.size(); ++v) {
      if (!seen[v]) continue;
      if (const kind what = at(static_cast<int>(v)).kind; what == kind::reduce || what == kind::part)
        refuse(name(static_cast<int>(v)) + " is read inside " + loops::name(t_, open_.empty() ? -1 : open_.back()) +
               ", where it is not made");
      out.push_back(static_cast<int>(v));
    }
    return out;
  }
  void staged(const made_value& m, series<int>& out) {
    const tile& x = t_.tiles[static_cast<std::size_t>(m.tile)];
    const series<int> roots{m.value};
    const bool common = is_common(x) && !reads_private(m);
    for (int q : open_)
      if (is_common(x) && !common && t_.loop(q).to == bind::threads)
        refuse("stage: " + name(m.value) + " is made of what the threads of " + loops::name(t_, q) +
               " have for themselves, inside that loop");
    node n;
    n.what = common ? act::copy : act::define;
    n.value = m.value;
    n.to = m.tile;
    n.by = m.by;
    // The positions of a private tile are the turns of loops, so that each thread makes its own.
    const auto pieces = common ? series<int>{} : pieces_inside(m.at, at(m.value).axes);
    const int was = std::exchange(making_, m.tile);
    nest(
        pieces, 0, roots,
        [&](series<int>& to) {
          n.body = body_of(roots, m.tile);
          to.push_back(t_.add(n));
        },
        out);
    making_ = was;
  }
  /// Whether making a value reads a thread's own tiles.
  bool reads_private(const made_value& m) const {
    node n;
    n.what = act::copy;
    n.value = m.value;
    n.to = m.tile;
    n.body = body_of({m.value}, m.tile);
    for (const auto& u : uses_of(t_, n, open_))
      if (!u.writes && !is_common(t_.tiles[static_cast<std::size_t>(u.tile)])) return true;
    return false;
  }

  void fill(int v, int base, series<int>& out) {
    for (std::size_t p = 0; p < axes_of_parts(v).size(); ++p) {
      node n;
      n.what = act::fill;
      n.value = v;
      n.to = base + static_cast<int>(p);
      n.part = static_cast<int>(p);
      out.push_back(t_.add(std::move(n)));
    }
  }

  /// The pieces of a merge that have no loop: those of an intrinsic; and of tuples with sums along further axes, all that lie inside
  /// the loop where the weights are known.
  series<int> covered(int v, const series<int>& pieces) const {
    series<int> out;
    const instruction& i = at(v);
    if (i.rule == merge_rule::one) return p_.matrix_of(v) ? bound(pieces, bind::matrix) : out;
    if (i.rule != merge_rule::weighted) return out;
    const std::uint32_t further = axes_of_result(v) & ~axes_of_parts(v)[0];
    const int level = level_of(i.args[0], pieces);
    for (int q : pieces) {
      const piece& p = t_.loop(q);
      const bool is_further = further >> p.axis & 1u;
      const bool loops_always = p.to == bind::threads || p.to == bind::grid || (p.to == bind::lanes && !is_further);
      if (!loops_always && (is_further || (level >= 0 && rank(q) > level))) out.push_back(q);
    }
    return out;
  }
  /// The rank of the innermost of `pieces` at which something that `v` reads is made; -1: none.
  int level_of(int v, const series<int>& pieces) const {
    int level = -1;
    series<char> seen(k_.body.size(), 0);
    const auto walk = [&](auto&& self, int x) -> void {
      if (std::exchange(seen[static_cast<std::size_t>(x)], 1)) return;
      bool made = false;
      for (const auto& m : made_)
        if (m.value == x && std::count(pieces.begin(), pieces.end(), m.at))
          level = std::max(level, rank(m.at)), made = true;
      if (!made) for_each_operand(at(x), [&](int o) { self(self, o); });
    };
    walk(walk, v);
    return level;
  }

  void reduced(const made_value& m, series<int>& out) {
    const int v = m.value;
    const std::uint32_t over = axes_over(at(v)), own = axes_of_result(v);
    fill(v, m.tile, out);
    series<int> pieces = pieces_inside(m.at, own | over);
    erase_if(pieces, [&](int q) { return is_launch_share(v, q); });
    const series<int> skipped = covered(v, pieces);
    t_.folds.push_back({v, bound_over(pieces, over)});
    series<int> loops;
    for (int q : pieces)
      if (!std::count(skipped.begin(), skipped.end(), q)) loops.push_back(q);
    series<int> roots;
    for_each_operand(at(v), [&](int o) { roots.push_back(o); });
    nest(
        loops, 0, roots, [&](series<int>& to) { to.push_back(t_.add(merge_of(v, m.tile, skipped, roots))); }, out);
    combine(m, pieces, over, out);
  }
  /// The loops of a reduction, and the pieces that its statement covers.
  struct loops_of_reduction {
    series<int> pieces, skipped, loops;
  };
  loops_of_reduction loops_of(const made_value& m) const {
    loops_of_reduction out;
    out.pieces = pieces_inside(m.at, axes_of_result(m.value) | axes_over(at(m.value)));
    erase_if(out.pieces, [&](int q) { return is_launch_share(m.value, q); });
    out.skipped = covered(m.value, out.pieces);
    for (int q : out.pieces)
      if (!std::count(out.skipped.begin(), out.skipped.end(), q)) out.loops.push_back(q);
    return out;
  }
  /// The outermost loops of a product by an intrinsic that add up its terms, which other such products may share; empty for others.
  series<int> shared_loops(const made_value& m) const {
    if (m.from != made_value::how::reduced || !p_.matrix_of(m.value) || !contraction_of(k_, m.value)) return {};
    if (at(m.value).rule != merge_rule::one) return {};
    series<int> out;
    for (int q : loops_of(m).loops) {
      if (!(axes_over(at(m.value)) >> t_.loop(q).axis & 1u) || t_.loop(q).to != bind::ordered) break;
      out.push_back(q);
    }
    return out;
  }
  bool depends(int v, int on) const {
    if (v == on) return true;
    bool found = false;
    for_each_operand(at(v), [&](int o) { found = found || (o >= on && depends(o, on)); });
    return found;
  }
  /// The members of all[…] that share their outermost loops with all[n], the last of them.
  series<int> together(const series<int>& all, std::size_t n, series<char>& finished) const {
    series<int> out;
    const auto mine = shared_loops(made_[static_cast<std::size_t>(all[n])]);
    for (std::size_t i = 0; !mine.empty() && i <= n; ++i) {
      if (finished[i] || (i < n && !is_partner(all, i, n))) continue;
      finished[i] = 1;
      out.push_back(all[i]);
    }
    return out;
  }
  /// Whether all[i] can be made in the loops of all[n], which is later: nothing up to there needs it.
  bool is_partner(const series<int>& all, std::size_t i, std::size_t n) const {
    const auto value = [&](std::size_t x) { return made_[static_cast<std::size_t>(all[x])].value; };
    const auto own = shared_loops(made_[static_cast<std::size_t>(all[i])]);
    if (own.empty() || !(own == shared_loops(made_[static_cast<std::size_t>(all[n])]))) return false;
    for (std::size_t x = i + 1; x <= n; ++x)
      if (depends(value(x), value(i))) return false;
    return true;
  }
  bool waits_for_another(const series<int>& all, std::size_t n) const {
    for (std::size_t x = all.size(); x-- > n + 1;)
      if (is_partner(all, n, x)) return true;
    return false;
  }
  /// Products over the same terms, in common loops over these.
  void reduced_together(const series<int>& members, series<int>& out) {
    series<int> roots;
    for (int m : members) {
      made_value& x = made_[static_cast<std::size_t>(m)];
      x.done = true;
      fill(x.value, x.tile, out);
      t_.folds.push_back({x.value, bound_over(loops_of(x).pieces, axes_over(at(x.value)))});
      for_each_operand(at(x.value), [&](int o) { roots.push_back(o); });
    }
    const series<int> common = shared_loops(made_[static_cast<std::size_t>(members[0])]);
    nest(
        common, 0, roots,
        [&](series<int>& inside) {
          for (int m : members) {
            const made_value x = made_[static_cast<std::size_t>(m)];
            const loops_of_reduction of = loops_of(x);
            series<int> own, terms;
            for (std::size_t q = common.size(); q < of.loops.size(); ++q) own.push_back(of.loops[q]);
            for_each_operand(at(x.value), [&](int o) { terms.push_back(o); });
            nest(
                own, 0, terms,
                [&](series<int>& to) { to.push_back(t_.add(merge_of(x.value, x.tile, of.skipped, terms))); }, inside);
          }
        },
        out);
  }
  series<int> bound_over(const series<int>& pieces, std::uint32_t over) const {
    series<int> out;
    for (int q : pieces)
      if (over >> t_.loop(q).axis & 1u) out.push_back(q);
    return out;
  }
  node merge_of(int v, int to, const series<int>& skipped, const series<int>& roots) const {
    node n;
    n.what = act::merge;
    n.value = v;
    n.to = to;
    n.over = skipped;
    const auto* matrix = p_.matrix_of(v);
    if (matrix && at(v).rule == merge_rule::weighted) {
      n.row = matrix->row;
      n.body = body_of(roots, -1);
    } else if (matrix) {
      n.what = act::matrix;
      n.row = matrix->row;
      const auto c = contraction_of(k_, v);
      if (!c) refuse("matrix: " + name(v) + " is no contraction");
      n.body = body_of({c->x, c->y}, -1);
    } else {
      n.body = body_of(roots, -1);
    }
    return n;
  }
  /// Adds up what lanes, and then what threads have.
  void combine(const made_value& m, const series<int>& pieces, std::uint32_t over, series<int>& out) {
    int base = m.tile;
    const auto own = bound_over(pieces, over);
    for (int q : bound(own, bind::lanes)) base = add_total(m, base, q, out);
    const auto threads = bound(own, bind::threads);
    for (int q : threads)
      if (!p_.shared(m.value, q))
        refuse("share: " + name(m.value) + " is summed along " + loops::name(t_, q) +
               ", which is bound to threads; say how they share it");
      else if (is_peeled(t_.loop(q).axis))
        refuse("share: " + name(m.value) + " is summed along " + loops::name(t_, q) +
               ", of which not all threads have a part; say guard");
    if (!threads.empty()) through_shared(m, base, threads, out);
    for (int q : bound(own, bind::grid))
      refuse("share: " + name(m.value) + " is summed along " + loops::name(t_, q) +
             ", which is bound to the grid; share it by a launch");
  }
  bool is_peeled(int axis) const {
    for (const auto& p : t_.pieces)
      if (p.axis == axis && p.rest == tail::peel) return true;
    return false;
  }
  int add_total(const made_value& m, int from, int q, series<int>& out) {
    series<int> rest;
    for (const auto& s : t_.tiles[static_cast<std::size_t>(from)].along)
      if (s.piece >= 0 && s.piece != q) rest.push_back(s.piece);
    const int total = add_tiles(m.value, m.at, space::registers, rest);
    folded(m.value, from, total, m.at, {q}, out);
    return total;
  }
  void through_shared(const made_value& m, int from, const series<int>& turns_of, series<int>& out) {
    const int partial = add_tiles(m.value, common_place(m), space::shared, turns_of);
    put(m, from, partial, turns_of, m.at, out);
    const int total = add_tiles(m.value, m.at, space::registers, {});
    folded(m.value, partial, total, m.at, turns_of, out);
  }
  /// The innermost loop around m that is outside all loops of threads.
  int common_place(const made_value& m) const {
    int found = -1;
    bool outside = true;
    for (int q : p_.order) {
      if (rank(q) > rank(m.at)) break;
      const bool threads = t_.loop(q).to == bind::threads;
      if (threads && !(axes_of_parts(m.value)[0] >> t_.loop(q).axis & 1u))
        refuse("share: " + name(m.value) + " is the same for the threads of " + loops::name(t_, q) +
               ", inside which it is made");
      outside = outside && !threads;
      if (outside) found = q;
    }
    return found;
  }
  /// Each turn of some pieces leaves its result in the tiles `to`.
  void put(const made_value& m, int from, int to, const series<int>& turns_of, int at_piece, series<int>& out) {
    const auto axes = axes_of_parts(m.value);
    for (std::size_t p = 0; p < axes.size(); ++p) {
      node n;
      n.what = act::define;
      n.value = m.value;
      n.tile = from + static_cast<int>(p);
      n.to = to + static_cast<int>(p);
      series<int> loops;
      for (int q : turns_of)
        if (rank(q) > rank(at_piece)) loops.push_back(q);
      for (int q : pieces_inside(at_piece, axes[p])) loops.push_back(q);
      nest(
          loops, 0, {}, [&](series<int>& inside) { inside.push_back(t_.add(n)); }, out);
    }
  }
  /// Merges the partial results of the turns of some pieces.
  void folded(int v, int from, int to, int at_piece, const series<int>& turns_of, series<int>& out) {
    fill(v, to, out);
    series<int> loops = pieces_inside(at_piece, axes_of_result(v));
    const std::uint32_t further = axes_of_result(v) & ~axes_of_parts(v)[0];
    node n;
    n.what = act::merge;
    n.value = v;
    n.tile = from;
    n.to = to;
    for (int p : loops)
      if ((further >> t_.loop(p).axis & 1u) && t_.loop(p).to != bind::threads) n.over.push_back(p);
    erase_if(loops, [&](int p) { return std::count(n.over.begin(), n.over.end(), p) > 0; });
    for (int q : turns_of) {
      piece copy = t_.loop(q);
      copy.of = q;
      copy.to = bind::ordered;
      loops.push_back(static_cast<int>(t_.pieces.size()));
      t_.pieces.push_back(std::move(copy));
    }
    nest(
        loops, 0, {}, [&](series<int>& inside) { inside.push_back(t_.add(n)); }, out);
  }

  /// A launch for each reduction whose partial results another launch adds up.
  void launch_partials() {
    for (const auto& s : p_.shares) {
      if (s.how != schedules::share::way::launch) continue;
      const int v = s.value;
      if (at(v).kind != kind::reduce || !(axes_over(at(v)) >> t_.loop(s.over).axis & 1u))
        refuse("share: " + name(v) + " is not summed along " + loops::name(t_, s.over));
      std::size_t mine = 0;
      while (mine < made_.size() && (made_[mine].value != v || made_[mine].from != made_value::how::reduced)) ++mine;
      if (mine == made_.size()) refuse("share: " + name(v) + " has one launch that adds up its partial results");
      const int partial = add_tiles(v, -1, space::scratch, {s.over});
      for (std::size_t p = 0; p < axes_of_parts(v).size(); ++p)
        t_.tiles[static_cast<std::size_t>(partial) + p].value = -1;  // read by number
      series<int> inside;
      launch_partial(made_[mine], partial, s.over, inside);
      t_.launches.push_back({sequence(std::move(inside))});
      forget(v, static_cast<int>(mine), partial, s.over);
    }
  }
  void launch_partial(const made_value& m, int partial, int over, series<int>& out) {
    series<int> outer;
    for (int q : p_.order)
      if (rank(q) <= std::max(rank(m.at), rank(over)) &&
          (q == over || (axes_of_result(m.value) >> t_.loop(q).axis & 1u)))
        outer.push_back(q);
    if (rank(over) > rank(m.at))
      refuse("share: " + name(m.value) + " starts outside " + loops::name(t_, over) + ", whose turns are blocks");
    out = place(-1, {m.value});
    nest(
        outer, 0, {m.value},
        [&](series<int>& inside) { put(m, last_tile_of(m), partial, {over}, outer.back(), inside); }, out);
  }
  int last_tile_of(const made_value& m) const {
    int last = m.tile;
    const int first_value = value_of_part(m.value, 0);
    for (std::size_t x = 0; x < t_.tiles.size(); ++x)
      if (t_.tiles[x].accumulates && t_.tiles[x].value == first_value && t_.tiles[x].in != space::shared)
        last = static_cast<int>(x);
    return last;
  }
  /// The later launch reads the sum of the partial results instead.
  void forget(int v, int mine, int partial, int over) {
    for (auto& x : t_.tiles)
      if (x.accumulates && x.value >= 0 &&
          (x.value == v || (at(x.value).kind == kind::part && at(x.value).args[0] == v)))
        x.value = -1;
    const std::uint32_t own = axes_of_result(v);
    int last = -1;
    for (int q : p_.order)
      if (own >> t_.loop(q).axis & 1u) last = q;
    made_value& m = made_[static_cast<std::size_t>(mine)];
    m.at = last;
    m.from = made_value::how::folded;
    m.source = partial;
    m.over = over;
    m.done = false;
    m.tile = add_tiles(v, last, space::registers, {});
    for (std::size_t p = 0; p < axes_of_parts(v).size(); ++p) t_.tiles[static_cast<std::size_t>(m.tile) + p].row = -1;
  }

  std::uint32_t axes_of_store(int s) const {
    const store& x = k_.stores[static_cast<std::size_t>(s)];
    return at(x.value).axes | loops::axes_of(x.at.at) | (x.at.at.index >= 0 ? at(x.at.at.index).axes : 0);
  }
  void stores(const series<int>& all, std::size_t from, series<int>& out) {
    if (all.empty()) return;
    if (from == p_.order.size()) {
      for (int s : all) out.push_back(t_.add(store_of(s)));
      return;
    }
    const int q = p_.order[from];
    std::size_t along = 0;
    for (int s : all) along += axes_of_store(s) >> t_.loop(q).axis & 1u;
    if (along == 0) return stores(all, from + 1, out);
    if (along < all.size()) {
      for (int s : all) stores({s}, from, out);
      return;
    }
    node n;
    n.piece = q;
    open_.push_back(q);
    series<int> roots;
    for (int s : all) add_operands_of_store(s, roots);
    n.inside = place(q, roots);
    stores(all, from + 1, n.inside);
    open_.pop_back();
    out.push_back(t_.add(std::move(n)));
  }
  node store_of(int s) const {
    node n;
    n.what = act::store;
    n.value = s;
    series<int> roots;
    add_operands_of_store(s, roots);
    n.body = body_of(roots, -1);
    return n;
  }

  plan_of_loops& p_;
  const kernel& k_;
  tree& t_;
  series<made_value> made_;
  series<int> open_;
  int making_ = -1;  ///< the tile that a stage fills
};

}  // namespace detail

}  // namespace sinter::engine::plan::loops
