// plan/loops/tails.hpp: what becomes of turns beyond an axis's end: guards, padded tiles, and loops of their own.
#pragma once

#include "../kernel/root.hpp"
#include "names.hpp"
#include "uses.hpp"

namespace sinter::engine::plan::loops {

namespace detail {

/// The axes with a piece whose turns may overrun, by what becomes of them.
inline std::uint32_t overrun_axes(const tree& t, tail rest) {
  std::uint32_t mask = 0;
  for (const auto& p : t.pieces)
    if (p.of < 0 && p.rest == rest) mask |= 1u << p.axis;
  return mask;
}

/// The axes of a statement's positions.
inline std::uint32_t axes_of_statement(const tree& t, const node& n) {
  const kernel& k = *t.code;
  std::uint32_t mask = 0;
  if (n.what == act::store) {
    const store& s = k.stores[static_cast<std::size_t>(n.value)];
    return t.at(s.value).axes | axes_of(s.at.at) | (s.at.at.index >= 0 ? t.at(s.at.at.index).axes : 0);
  }
  if (n.what == act::define || n.what == act::copy || n.what == act::merge) {
    const int parts = n.what == act::merge ? count_of_parts(t.at(n.value)) : 1;
    for (int p = 0; p < parts; ++p)
      for (const auto& s : t.tiles[static_cast<std::size_t>(n.to + p)].along)
        if (s.piece < 0) mask |= 1u << s.axis;
    if (n.tile < 0) mask |= t.at(n.value).axes;
  }
  if ((n.what == act::merge && n.tile < 0) || n.what == act::matrix) {
    const instruction& i = t.at(n.value);
    mask |= axes_over(i);
    for (int a : i.args) mask |= t.at(a).axes;
  }
  return mask;
}

inline bool is_statement(act what) {
  return what == act::define || what == act::copy || what == act::merge || what == act::matrix || what == act::store;
}

/// What changes no sum that reads a value.
inline ir::scalar neutral_of(const kernel& k, int value) {
  for (const auto& i : k.body)
    if (i.kind == kind::reduce && i.rule == merge_rule::one && i.args[0] == value)
      return ir::combiner_identity(i.code, is_narrow(i.type) ? dtype::f32 : i.type);
  return {};
}

/// Whether the terms of a reduction come from tiles alone that are padded along `axes`.
inline bool terms_are_padded(const tree& t, const node& n, std::uint32_t axes) {
  const instruction& i = t.at(n.value);
  const auto padded = [&](int value) {
    if (!(t.at(value).axes & axes)) return true;
    for (const auto& x : t.tiles)
      if ((x.value == value || x.value == unwidened(*t.code, value)) && x.value >= 0 && !x.accumulates &&
          (t.at(value).axes & axes & ~x.padded) == 0)
        return true;
    return false;
  };
  if (const auto c = contraction_of(*t.code, n.value)) {
    if (!padded(c->x) || !padded(c->y)) return false;
    return true;
  }
  return i.rule == merge_rule::one && padded(i.args[0]);
}

inline void guard(tree& t, node& n, std::uint32_t guarded, std::uint32_t padded) {
  if (!is_statement(n.what)) return;
  const std::uint32_t axes = axes_of_statement(t, n);
  n.guards |= axes & guarded;
  // What has no loops over a piece is not cut where it is peeled.
  if (n.what == act::copy) n.guards |= axes & overrun_axes(t, tail::peel);
  for (int p : n.over)
    if (t.loop(p).rest == tail::peel) n.guards |= 1u << t.loop(p).axis;
  const bool sums = (n.what == act::merge && n.tile < 0) || n.what == act::matrix;
  if (!sums || !terms_are_padded(t, n, axes & padded)) n.guards |= axes & padded;
  if (n.what == act::matrix && n.guards)
    throw refusal{"guard: v" + std::to_string(n.value) +
                      " is computed by an intrinsic, which tests no position; say pad, and stage what it reads",
                  ir::no_node};
}

/// A copy of the statements at `from`; loops over a piece of `map` are loops over the piece beside it.
inline int cloned(tree& t, int from, const series<std::pair<int, int>>& map, std::uint32_t guards) {
  node n = t[from];
  for (const auto& [old, now] : map)
    if (n.piece == old) n.piece = now;
  for (int& p : n.over)
    for (const auto& [old, now] : map)
      if (p == old) p = now;
  if (is_statement(n.what)) n.guards |= guards & axes_of_statement(t, n);
  for (int& c : n.inside) c = cloned(t, c, map, guards);
  return t.add(std::move(n));
}

/// The piece of the same axis with the next shorter steps.
inline int inner_piece(const tree& t, int p) {
  for (std::size_t q = 0; q < t.pieces.size(); ++q) {
    const piece& i = t.pieces[q];
    if (i.axis == t.loop(p).axis && i.of < 0 && static_cast<int>(q) != p && i.step * i.extent == t.loop(p).step)
      return static_cast<int>(q);
  }
  return -1;
}

/// A peeled piece's two copies: of the turns with all turns of the inner piece, and of the turn behind them.
struct peeled {
  int full = -1, edge = -1, rest = -1, inner = -1;
  bool exact = true;  ///< the turn behind them overruns nothing
};
inline peeled peel_piece(tree& t, int p) {
  peeled out;
  const dim step = t.loop(p).step, length = t.code->axes[static_cast<std::size_t>(t.loop(p).axis)].extent;
  piece copy = t.loop(p);
  copy.of = p;
  copy.part = turns::full;
  t.pieces.push_back(copy);
  out.full = static_cast<int>(t.pieces.size()) - 1;
  copy.part = turns::edge;
  t.pieces.push_back(copy);
  out.edge = out.full + 1;
  out.inner = inner_piece(t, p);
  piece rest = t.loop(out.inner);
  const dim left = length - ir::floor_div(length, step) * step;
  out.exact = rest.step.is(1) || left.divided_by(rest.step).has_value();
  rest.extent = ceil_div(left, rest.step);
  rest.of = out.inner;
  t.pieces.push_back(std::move(rest));
  out.rest = out.edge + 1;
  return out;
}

inline bool covers(const tree& t, int from, int piece) {
  bool found = false;
  for_each_inside(t, from, [&](int n) {
    found = found || (t[n].what == act::matrix && std::count(t[n].over.begin(), t[n].over.end(), piece));
  });
  return found;
}

/// Splits each loop over a piece that is to be peeled in two.
inline void peel(tree& t, int p) {
  const std::uint32_t bit = 1u << t.loop(p).axis;
  const peeled parts = peel_piece(t, p);
  // Only loops around loops of the inner piece are cut: what walks the outer piece alone has a tile's whole extent.
  const std::size_t count = t.nodes.size();
  for (std::size_t n = 0; n < count; ++n) {
    series<int> inside;
    for (int c : series<int>(t.nodes[n].inside)) {
      if (t[c].what != act::loop || t[c].piece != p) {
        inside.push_back(c);
        continue;
      }
      if (covers(t, c, parts.inner))
        throw refusal{"peel: " + name(t, parts.inner) + " is a matrix intrinsic's, whose shape is fixed; say pad",
                      ir::no_node};
      const std::uint32_t guards = parts.exact ? 0 : bit;
      const int full = cloned(t, c, {{p, parts.full}}, 0);
      const int edge = cloned(t, c, {{p, parts.edge}, {parts.inner, parts.rest}}, guards);
      inside.push_back(full);
      inside.push_back(edge);
    }
    t.nodes[n].inside = std::move(inside);
  }
}

}  // namespace detail

/// Guards statements along axes whose turns may overrun, marks padded tiles, and cuts peeled loops in two. Throws refusal.
inline void place_tails(tree& t) {
  const std::uint32_t guarded = detail::overrun_axes(t, tail::guard), padded = detail::overrun_axes(t, tail::pad);
  for (auto& x : t.tiles) {
    if (x.accumulates || x.value < 0) continue;
    for (const auto& s : x.along)
      if (s.piece < 0) x.padded |= padded & 1u << s.axis;
    x.neutral = detail::neutral_of(*t.code, x.value);
  }
  for (auto& n : t.nodes) detail::guard(t, n, guarded, padded & ~guarded);
  for (int p = 0, count = static_cast<int>(t.pieces.size()); p < count; ++p)
    if (t.loop(p).of < 0 && t.loop(p).rest == tail::peel) detail::peel(t, p);
}

}  // namespace sinter::engine::plan::loops
