// autodiff/found_attention.hpp: attention in users' words, whose gradient is the op's.
#pragma once

#include <span>

#include "../base/sorted.hpp"
#include "../ir/compose_attention.hpp"
#include "../ir/find_attention.hpp"

namespace sinter::engine::autodiff {

/// For each product by which attention ends, a node of its extents that the op gives.
using found_attentions = sorted_map<ir::node_id, ir::node_id>;

/// Pushes the op for each attention on which y depends, if `keeps` accepts it. None is found where a derivative is taken by what lies
/// inside.
inline found_attentions find_attentions(ir::graph& g, ir::node_id y, std::span<const ir::node_id> wrt,
                                        const ir::kept_attention& keeps) {
  found_attentions out;
  if (!keeps) return out;
  const auto outputs = std::exchange(g.outputs, {y});
  for (auto mix : ir::ends_of_attention(g)) {
    const auto what = ir::find_attention(g, mix);
    if (!what.site) continue;
    const ir::node_id from = what.site->products;
    if (std::any_of(wrt.begin(), wrt.end(), [&](ir::node_id w) { return w >= from && w <= mix; })) continue;
    const ir::value made = ir::push_found(g, *what.site, mix);
    if (!made) continue;
    ir::node_id op = made.id();
    while (g[op].code == ir::op::reshape) op = g[op].in[0];
    if (g[op].code == ir::op::attention && keeps(g, op)) out.emplace(mix, made.id());
  }
  g.outputs = outputs;
  return out;
}

}  // namespace sinter::engine::autodiff
