// plan/schedule/tiling.hpp: finds kernels that read along one axis and write along another, for which tiles pay.
#pragma once

#include <optional>

#include "../../base/series.hpp"
#include "../kernel/kernel.hpp"

namespace sinter::engine::plan {

/// The loads of a kernel that do not run along the vector's axis.
struct tiling {
  std::size_t axis = 0;  ///< the axis along which they are contiguous
  series<int> loads;
};

/// The tiling that pays for a kernel without reductions, if any, with at most `most` loads. A load must be contiguous along
/// an axis that is not the last.
SINTER_API std::optional<tiling> find_tiling(const kernel& k, std::size_t most = SIZE_MAX) {
  if (k.is_product() || k.axes.size() < 2 || k.stages > 1) return std::nullopt;
  for (const auto& i : k.body)
    if (i.kind == kind::reduce || i.kind == kind::arg_reduce) return std::nullopt;
  for (const auto& s : k.stores)
    if (s.accumulate) return std::nullopt;
  const std::size_t last = k.axes.size() - 1;
  auto wide = [&](std::size_t a) { return k.axes[a].extent.number().value_or(k.axes[a].hint) >= 16; };
  if (!wide(last)) return std::nullopt;
  tiling best;
  for (std::size_t a = 0; a < last; ++a) {
    tiling t{a, {}};
    for (int id = 0; id < static_cast<int>(k.body.size()); ++id) {
      const auto& i = k.body[static_cast<std::size_t>(id)];
      if (i.kind != kind::load || is_guarded(i) || i.at.at.index >= 0 || is_bool(i.type)) continue;
      const dim &along = i.at.at.stride[a], &across = i.at.at.stride[last];
      if (along.is(1) && !across.is(0) && !across.is(1) && t.loads.size() < most) t.loads.push_back(id);
    }
    if (wide(a) && t.loads.size() > best.loads.size()) best = std::move(t);
  }
  return best.loads.empty() ? std::nullopt : std::optional(best);
}

}  // namespace sinter::engine::plan
