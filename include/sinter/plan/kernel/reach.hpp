// plan/kernel/reach.hpp: the range of a kernel's counts and offsets.
#pragma once

#include <cstdlib>

#include "kernel.hpp"

namespace sinter::engine::plan {

namespace detail {
inline constexpr std::int64_t widest_index = 0x7fffffff - (1 << 24);
}

/// True when offsets, or literals given as numbers, may exceed 31 bits.
inline bool has_wide_offsets(const kernel& k) {
  if (k.symbols > 0 && k.fit.small) return false;
  constexpr std::int64_t limit = detail::widest_index;
  for (const auto& a : k.axes)
    if (a.extent.number().value_or(limit + 1) > limit) return true;
  auto beyond = [&](const affine& at) {
    std::int64_t reach = 0;
    auto add = [&](const dim& by, const dim& n) {
      const auto b = by.number(), e = n.number();
      if (!b || !e || *b > limit || *b < -limit) return true;
      if (*e > 1 && std::abs(*b) > limit / *e) return true;
      reach += std::abs(*b) * std::max<std::int64_t>(*e, 1);
      return reach > limit;
    };
    if (add(at.offset, 1)) return true;
    for (std::size_t a = 0; a < at.stride.size(); ++a) {
      const dim& n = a < k.axes.size() ? k.axes[a].extent : k.products[0].k[a - k.axes.size()];
      if (add(at.stride[a], n)) return true;
    }
    return false;
  };
  for (const auto& i : k.body) {
    if (i.kind == kind::literal && !i.at.at.offset.is_number() && size_of(i.type) == 8) return true;
    if ((reads_memory(i) || i.kind == kind::position || i.kind == kind::arg_reduce) && beyond(i.at.at)) return true;
    for (const auto& r : i.ranges)
      if (beyond(r.at) || r.extent.number().value_or(limit + 1) > limit) return true;
  }
  for (const auto& s : k.stores)
    if (beyond(s.at.at)) return true;
  for (const auto& p : k.products)
    if (beyond(p.a.at) || beyond(p.b.at)) return true;
  return false;
}

/// The same, also when the number of positions may.
inline bool needs_wide_index(const kernel& k) {
  if (k.symbols > 0 && k.fit.small) return false;
  std::int64_t count = 1;
  for (const auto& a : k.axes) {
    const auto n = a.extent.number();
    if (!n || (*n > 0 && count > detail::widest_index / *n)) return true;
    count *= *n;
  }
  return has_wide_offsets(k);
}

}  // namespace sinter::engine::plan
