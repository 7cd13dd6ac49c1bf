// plan/horizontal.hpp: small kernels that do not depend on one another, and can share a launch.
#pragma once

#include <algorithm>

#include "../base/sorted.hpp"
#include "kernel.hpp"
#include "target.hpp"

namespace sinter::engine::plan {

/// Elements from which on a kernel fills a GPU by itself.
inline constexpr std::int64_t most_shared_elements = 4 << 20;
/// Of a launch that several kernels share: kernels, buffers (each is a parameter), and instructions (each is compiled).
inline constexpr std::size_t most_shared_kernels = 32, most_shared_buffers = 240, most_shared_instructions = 800;

namespace detail {

inline bool can_share(const kernel& k) {
  if (k.is_product() || k.is_scan() || k.is_opaque()) return false;
  dim count = 1;
  for (const auto& a : k.axes) count *= a.extent.number().value_or(most_shared_elements);
  if (count.number().value_or(most_shared_elements) >= most_shared_elements) return false;
  for (const auto& i : k.body)
    if (i.kind == kind::reduce || i.kind == kind::arg_reduce) return false;
  for (const auto& s : k.stores)
    if (s.accumulate) return false;
  return true;
}

/// The length of the longest chain of kernels that have to run before each: what reads or adds to a buffer follows those
/// that wrote it.
inline series<std::size_t> levels_of(const series<kernel>& kernels) {
  series<std::size_t> level(kernels.size());
  sorted_map<int, std::size_t> written;  // one more than the level of the last writer
  std::size_t effects = 0;               // one more than the level of the last
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    bool adds = false;
    for (const auto& s : kernels[k].stores) adds = adds || s.accumulate;
    for (const auto& b : kernels[k].buffers)
      if (const auto w = written.find(b.id); w != written.end() && (!b.written || adds))
        level[k] = std::max(level[k], w->second);
    if (kernels[k].has_effect) {
      level[k] = std::max(level[k], effects);
      effects = level[k] + 1;
    }
    for (const auto& b : kernels[k].buffers)
      if (b.written) written[b.id] = std::max(written[b.id], level[k] + 1);
  }
  return level;
}

}  // namespace detail

/// The kernels by number, in groups that run one after another; those of a group run at once. Only small pointwise kernels
/// share a group.
SINTER_API series<series<std::size_t>> horizontal(const series<kernel>& kernels) {
  const auto level = detail::levels_of(kernels);
  series<std::size_t> order(kernels.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  sort_stably(order, [&](std::size_t a, std::size_t b) { return level[a] < level[b]; });
  series<series<std::size_t>> out;
  std::size_t open = 0, buffers = 0, instructions = 0, at = 0;
  bool sharing = false;
  for (std::size_t k : order) {
    const kernel& c = kernels[k];
    if (level[k] != at) sharing = false;
    at = level[k];
    if (!detail::can_share(c)) {
      out.push_back({k});
      continue;
    }
    if (sharing && (out[open].size() == most_shared_kernels || buffers + c.buffers.size() > most_shared_buffers ||
                    instructions + c.body.size() > most_shared_instructions))
      sharing = false;
    if (!sharing) {
      open = out.size();
      out.emplace_back();
      buffers = instructions = 0;
      sharing = true;
    }
    out[open].push_back(k);
    buffers += c.buffers.size();
    instructions += c.body.size();
  }
  return out;
}

}  // namespace sinter::engine::plan
