// plan/fusion/group.hpp: what fusion makes kernels of: roots with their kernel.
#pragma once

#include "../../base/series.hpp"
#include "../../base/sorted.hpp"
#include "../kernel/kernel.hpp"
#include "../kernel/root.hpp"

namespace sinter::engine::plan::detail {

struct group {
  series<root> roots;
  kernel code;
  std::size_t number = 0;  ///< its own; of two that become one, the first's
};

inline node_id first_target(const group& x) { return x.roots[0].target; }

inline bool scatters(const group& x) { return x.roots.size() == 1 && x.roots[0].indexed >= 0; }

/// The bytes of a node's elements, for sizes as `hints` has them.
inline std::int64_t bytes_of(const ir::node& v, const series<std::int64_t>& hints) {
  // What no memory holds is planned all the same: sums of such sizes stay numbers.
  constexpr std::int64_t most = std::int64_t{1} << 52;
  return std::clamp<std::int64_t>(ir::product(v.extents).evaluate(hints), 0, most) *
         static_cast<std::int64_t>(size_of(v.type));
}

/// Whether the groups have an array in common.
inline bool touch(const group& a, const group& b) {
  return std::any_of(a.code.buffers.begin(), a.code.buffers.end(), [&](const auto& x) { return uses(b.code, x.id); });
}

/// Cost of computing node `id` anew from what is in memory; a costly op counts 10.
inline int recomputation(const ir::graph& g, const series<char>& stored, node_id id, sorted_set<node_id>& seen) {
  if (stored[id] || !seen.insert(id).second) return stored[id] ? 1 : 0;
  int cost = ir::is_pointwise(g[id].code) ? (ir::is_expensive(g[id].code) ? 10 : 1) : 0;
  for (auto in : g[id].in) cost += recomputation(g, stored, in, seen);
  return cost;
}

/// True when `b` has to run after `a`.
inline bool feeds(const group& a, const group& b) {
  if (a.code.has_effect && b.code.has_effect) return a.code.opaque < b.code.opaque;
  for (const auto& r : a.roots)
    for (const auto& u : b.code.buffers)
      if (u.id == static_cast<int>(r.target) && (!u.written || (scatters(b) && !scatters(a)))) return true;
  return false;
}

}  // namespace sinter::engine::plan::detail
