// plan/lowering/lower.hpp: a set of roots -> one kernel, or the reason why they cannot share one.
#pragma once

#include "ops/table.hpp"

namespace sinter::engine::plan {

/// The kernel that computes `roots`, given in topological order; axes have no roles yet. Throws refusal.
SINTER_API kernel lower(const ir::graph& g, std::span<const root> roots, const memory_map& memory) {
  const root* leader = &roots[0];
  auto weight = [&](const root& r) { return ir::product(r.extents).evaluate(memory.hints); };
  for (const auto& r : roots)
    if (weight(r) > weight(*leader)) leader = &r;
  series<dim> axes;
  for (const auto& e : leader->extents)
    if (!e.is(1)) axes.push_back(e);
  for (int attempt = 0; attempt < 32; ++attempt) {
    try {
      return lowering(g, roots, memory, axes).run();
    } catch (const split_request& split) {
      axes[split.axis] = split.outer;
      axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(split.axis) + 1, split.inner);
    }
  }
  throw refusal{"the axes have no common refinement", ir::no_node};
}

}  // namespace sinter::engine::plan
