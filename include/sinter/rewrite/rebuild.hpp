// rewrite/rebuild.hpp: copies a graph for a pass: node by node, in order, each replaced as the pass decides.
#pragma once

#include <type_traits>
#include <utility>

#include "../base/series.hpp"
#include "../ir/value.hpp"

namespace sinter::engine::rewrite {

/// A copy of the nodes `order` of `g`, operands first. Each operation is pushed with its operands mapped. `replace(value)`,
/// or `replace(value, its number in g)`, may return another node of the new graph instead. Inputs stay in order, and
/// locations survive. Equal constants that were apart become one.
template <class F>
ir::graph rebuild(const ir::graph& g, const series<ir::node_id>& order, F&& replace) {
  ir::graph out;
  series<ir::node_id> moved(g.size(), ir::no_node);
  for (auto id : g.inputs) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  for (auto id : order) {
    const ir::node& n = g[id];
    if (n.code == ir::op::input) continue;
    series<ir::node_id> in;
    for (auto operand : n.in) in.push_back(moved[operand]);
    const ir::node_id pushed = n.code == ir::op::constant ? out.constant(n.type, n.attr.literal, n.extents, n.where)
                                                          : out.push(n.code, std::move(in), n.attr, n.where);
    const ir::value made(out, pushed, n.where);
    if constexpr (std::is_invocable_v<F, const ir::value&, ir::node_id>) moved[id] = replace(made, id).id();
    else moved[id] = replace(made).id();
  }
  for (auto id : g.outputs) out.outputs.push_back(moved[id]);
  return out;
}

/// A copy of the live part of `g`, in the order in which it was pushed.
template <class F>
ir::graph rebuild(const ir::graph& g, F&& replace) {
  return rebuild(g, g.live(), std::forward<F>(replace));
}

}  // namespace sinter::engine::rewrite
