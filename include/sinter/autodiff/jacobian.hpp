// autodiff/jacobian.hpp: all derivatives of one value by another: a linear map of all columns, or rows, of an identity at once.
#pragma once

#include <memory>
#include <utility>

#include "../engine/engine.hpp"
#include "linear.hpp"

namespace sinter::engine {

namespace detail {

/// The unit tensors with some extents, stacked along a new first axis.
inline ir::value units(ir::graph& g, dtype type, const ir::shape& extents, location where) {
  const ir::dim n = ir::product(extents);
  const ir::value any(g, g.constant(dtype::f32, 0.0, {}, where), where);
  const ir::value row = iota(any, dtype::i64, {n, n}, 0), column = iota(any, dtype::i64, {n, n}, 1);
  ir::shape each{n};
  each.insert(each.end(), extents.begin(), extents.end());
  return reshape(cast(eq(row, column), type), std::move(each));
}

}  // namespace detail

SINTER_API ir::node_id jacobian(tracer& t, ir::node_id y, ir::node_id x, bool forward, location where) {
  ir::graph& g = t.graph;
  linear_part part = linear(t, {&y, 1}, {&x, 1}, !forward, where);
  const ir::node_id given = forward ? x : y, got = forward ? y : x;
  const ir::shape in = g[given].extents, out = g[got].extents;
  const ir::dim lanes = ir::product(in);
  const auto map = make_inner_tracer();
  map->graph = std::move(part.graph);
  series<char> varies(part.from.size(), 0);
  varies.push_back(1);
  part.from.push_back(detail::units(g, g[given].type, in, where).id());
  const auto all = push_lanes(t, *map, std::move(part.from), {varies.data(), varies.size()}, lanes, where);
  ir::shape extents(out), both(in);
  both.insert(both.end(), out.begin(), out.end());
  const ir::value row(g, all.nodes[0], where), rows = all.varies[0] ? row : ir::ops::over_lanes(row, lanes);
  if (!forward) return reshape(rows, std::move(both)).id();
  // The lanes are elements of x, which come last.
  series<std::int64_t> order;
  for (std::size_t i = 0; i < out.size(); ++i) order.push_back(static_cast<std::int64_t>(i) + 1);
  order.push_back(0);
  extents.insert(extents.end(), in.begin(), in.end());
  return reshape(permute(rows, std::move(order)), std::move(extents)).id();
}

}  // namespace sinter::engine
