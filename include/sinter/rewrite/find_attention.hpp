// rewrite/find_attention.hpp: attention in users' words becomes the op, where the target has kernels for it.
#pragma once

#include "../base/sorted.hpp"
#include "../ir/compose_attention.hpp"
#include "../ir/find_attention.hpp"

namespace sinter::engine::rewrite {

namespace detail {

/// The graph with another node in place of each key of `found`. Replacements do not depend on their keys.
inline ir::graph with_replaced(ir::graph g, const sorted_map<ir::node_id, ir::node_id>& found) {
  const auto instead = [&](ir::node_id id) {
    const auto at = found.find(id);
    return at == found.end() ? id : at->second;
  };
  ir::graph out;
  series<ir::node_id> moved(g.size(), ir::no_node);
  for (auto id : g.inputs) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  const auto push = [&](ir::node_id id) {
    const ir::node& n = g[id];
    series<ir::node_id> in;
    for (auto operand : n.in) in.push_back(moved[instead(operand)]);
    if (n.code == ir::op::constant) moved[id] = ir::push_constant_like(out, n, n.extents);
    else moved[id] = out.push(n.code, std::move(in), n.attr, n.where);
  };
  // Nodes keep their order; a replacement stands before its first reader.
  const auto need = [&](ir::node_id last) {
    series<ir::node_id> open = {last};
    while (!open.empty()) {
      const ir::node_id id = open.back();
      const std::size_t before = open.size();
      if (moved[id] == ir::no_node)
        for (auto operand : g[id].in)
          if (moved[instead(operand)] == ir::no_node) open.push_back(instead(operand));
      if (open.size() > before) continue;
      if (moved[id] == ir::no_node) push(id);
      open.pop_back();
    }
  };
  const auto outputs = g.outputs;
  for (auto& id : g.outputs) id = instead(id);
  for (const auto& [mix, made] : found) g.outputs.push_back(made);
  for (auto id : g.live())
    if (!found.contains(id)) need(id);
  for (auto id : outputs) out.outputs.push_back(moved[instead(id)]);
  return out;
}

}  // namespace detail

/// Whether a user may have written a softmax, and the target has kernels.
inline bool has_powers(const ir::graph& g, const ir::kept_attention& keeps) {
  if (!keeps) return false;
  for (ir::node_id id = 0; id < g.size(); ++id)
    if (g[id].code == ir::op::exp) return true;
  return false;
}

/// The graph with attention in place of what computes it, where `keeps` accepts the op. Without `keeps` nothing is found.
inline ir::graph find_attention(const ir::graph& g, const ir::kept_attention& keeps) {
  ir::graph with;
  sorted_map<ir::node_id, ir::node_id> found;
  for (auto mix : ir::ends_of_attention(g)) {
    const auto what = ir::find_attention(g, mix);
    if (!what.site) continue;
    if (with.size() == 0) with = g;
    const ir::value made = ir::push_found(with, *what.site, mix);
    if (!made) continue;
    ir::node_id op = made.id();
    while (with[op].code == ir::op::reshape) op = with[op].in[0];
    if (with[op].code == ir::op::attention && keeps(with, op)) found.emplace(mix, made.id());
  }
  return found.empty() ? g : detail::with_replaced(std::move(with), found);
}

}  // namespace sinter::engine::rewrite
