// autodiff/linear.hpp: a derivative as a separate graph: linear in its last inputs; the first are the values that it needs of
// the function.
#pragma once

#include <algorithm>
#include <utility>

#include "../engine/linear_part.hpp"
#include "jvp.hpp"

namespace sinter::engine::autodiff {

namespace detail {

/// True for nodes that are recomputed at no cost, and would take memory to keep.
inline bool is_cheap(const ir::node& n) {
  return n.code == ir::op::constant || n.code == ir::op::iota || n.code == ir::op::size ||
         n.code == ir::op::broadcast || n.code == ir::op::reshape || n.code == ir::op::permute;
}

/// The part of a graph that depends on `given`, as a graph whose inputs are its other operands, then these nodes.
inline linear_part cut_out(const ir::graph& g, std::span<const ir::node_id> given,
                           std::span<const ir::node_id> results) {
  const auto varies = depends_on(g, given);
  series<char> needed(g.size(), 0), kept(g.size(), 0);
  for (auto id : results) needed[id] = 1;
  linear_part out;
  for (auto id = static_cast<ir::node_id>(g.size()); id-- > 0;) {
    if (!needed[id]) continue;
    kept[id] = !varies[id] && !is_cheap(g[id]);
    if (kept[id]) out.from.push_back(id);
    if (kept[id] || std::find(given.begin(), given.end(), id) != given.end()) continue;
    for (auto operand : g[id].in) needed[operand] = 1;
  }
  std::reverse(out.from.begin(), out.from.end());
  series<ir::node_id> moved(g.size(), ir::no_node);
  for (auto id : out.from) moved[id] = out.graph.add_input(g[id].type, g[id].extents, g[id].where);
  for (auto id : given) moved[id] = out.graph.add_input(g[id].type, g[id].extents, g[id].where);
  for (ir::node_id id = 0; id < g.size(); ++id) {
    if (!needed[id] || moved[id] != ir::no_node) continue;
    const ir::node& n = g[id];
    series<ir::node_id> in;
    for (auto operand : n.in) in.push_back(moved[operand]);
    moved[id] = out.graph.push(n.code, std::move(in), n.attr, n.where);
  }
  for (auto id : results) out.graph.outputs.push_back(moved[id]);
  return out;
}

}  // namespace detail

/// Pushes the cotangents of `wrt` for cotangents of `outputs`, and returns their nodes in order. A cotangent is zero if no
/// output depends on its node.
inline series<ir::node_id> vjp(ir::graph& g, std::span<const ir::node_id> outputs,
                               std::span<const ir::node_id> cotangents, std::span<const ir::node_id> wrt,
                               location where) {
  ensure(outputs.size() == cotangents.size(), "one cotangent for each node");
  values seeds;
  for (auto id : cotangents) seeds.push_back(value(g, id, where));
  const values pulled = pull_back(g, outputs, seeds, wrt, where);
  series<ir::node_id> result;
  for (std::size_t k = 0; k < wrt.size(); ++k) result.push_back(detail::or_zeros(g, pulled[k], wrt[k]).id());
  return result;
}

/// The map from tangents of `wrt` to tangents of `outputs`; if `transposed`, from cotangents of `outputs` to cotangents of
/// `wrt`. Pushes values that it needs on g.
inline linear_part linear(ir::graph& g, std::span<const ir::node_id> outputs, std::span<const ir::node_id> wrt,
                          bool transposed, location where) {
  series<ir::node_id> given;
  for (auto id : transposed ? outputs : wrt) given.push_back(detail::placeholder(g, g[id].type, g[id].extents, where));
  const auto results = transposed ? vjp(g, outputs, given, wrt, where) : jvp(g, outputs, wrt, given);
  return detail::cut_out(g, given, results);
}

}  // namespace sinter::engine::autodiff
