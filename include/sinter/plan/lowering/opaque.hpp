// plan/lowering/opaque.hpp: opaque nodes among kernels: steps that read and write whole buffers.
#pragma once

#include "../../base/series.hpp"
#include "../kernel/kernel.hpp"
#include "../kernel/root.hpp"

namespace sinter::engine::plan {

/// The node that owns the memory of node `id`; reshapes only rename it.
SINTER_API node_id memory_behind(const ir::graph& g, node_id id) {
  while (g[id].code == ir::op::reshape) id = g[id].in[0];
  return id;
}

namespace detail {

inline kernel opaque_step(const ir::graph& g, const series<node_id>& picks, node_id id, const memory_map& memory) {
  kernel k;
  k.opaque = id;
  k.has_effect = g[id].attr.step->has_effect;
  k.label = ir::name(*g[id].attr.step);
  if (const auto& f = g[id].attr.step->function) k.label += " " + f->name;
  sorted_map<node_id, int> buffers;
  const auto place = [&](node_id buffer, bool written) {
    const auto [at, is_new] = buffers.emplace(buffer, static_cast<int>(k.buffers.size()));
    k.places.push_back(at->second);
    if (!is_new) return;
    buffer_use use;
    use.id = static_cast<int>(buffer);
    use.type = g[buffer].type;
    use.written = written;
    if (buffer < memory.alignment.size() && memory.alignment[buffer] > 0) use.alignment = memory.alignment[buffer];
    k.buffers.push_back(use);
  };
  for (auto operand : g[id].in) place(memory_behind(g, operand), false);
  for (auto pick : picks)
    if (pick != ir::no_node) place(pick, true);
    else k.places.push_back(-1);
  return k;
}

}  // namespace detail
}  // namespace sinter::engine::plan
