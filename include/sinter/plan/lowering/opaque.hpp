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

/// The node itself, then its picks.
inline series<root> opaque_roots(const ir::graph& g, const series<node_id>& live, node_id id) {
  series<root> out;
  const auto add = [&](node_id target) {
    root r;
    r.value = r.target = target;
    r.extents = g[target].extents;
    out.push_back(std::move(r));
  };
  add(id);
  for (auto pick : ir::picks_of(g, live, id))
    if (pick != ir::no_node) add(pick);
  return out;
}

inline kernel opaque_step(const ir::graph& g, const series<node_id>& live, node_id id, const memory_map& memory) {
  kernel k;
  k.opaque = id;
  k.has_effect = g[id].attr.step->has_effect;
  k.label = ir::name(*g[id].attr.step);
  if (const auto& f = g[id].attr.step->function) k.label += " " + f->name;
  const auto place = [&](node_id buffer, bool written) {
    for (std::size_t b = 0; b < k.buffers.size(); ++b)
      if (k.buffers[b].id == static_cast<int>(buffer)) return k.places.push_back(static_cast<int>(b));
    buffer_use use;
    use.id = static_cast<int>(buffer);
    use.type = g[buffer].type;
    use.written = written;
    if (buffer < memory.alignment.size() && memory.alignment[buffer] > 0) use.alignment = memory.alignment[buffer];
    k.places.push_back(static_cast<int>(k.buffers.size()));
    k.buffers.push_back(use);
  };
  for (auto operand : g[id].in) place(memory_behind(g, operand), false);
  for (auto pick : ir::picks_of(g, live, id))
    if (pick != ir::no_node) place(pick, true);
    else k.places.push_back(-1);
  return k;
}

}  // namespace detail
}  // namespace sinter::engine::plan
