// plan/group.hpp: what fusion makes kernels of: roots with their kernel.
#pragma once

#include "../base/series.hpp"
#include "kernel.hpp"
#include "root.hpp"

namespace sinter::engine::plan::detail {

struct group {
  series<root> roots;
  kernel code;
};

inline node_id first_target(const group& x) { return x.roots[0].target; }

inline bool scatters(const group& x) { return x.roots.size() == 1 && x.roots[0].scatter; }

/// The bytes of a node's elements, for sizes as `hints` has them.
inline std::int64_t bytes_of(const ir::node& v, const series<std::int64_t>& hints) {
  // What no memory holds is planned all the same: sums of such sizes stay numbers.
  constexpr std::int64_t most = std::int64_t{1} << 52;
  return std::clamp<std::int64_t>(ir::product(v.extents).evaluate(hints), 0, most) *
         static_cast<std::int64_t>(size_of(v.type));
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
