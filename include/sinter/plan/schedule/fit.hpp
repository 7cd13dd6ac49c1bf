// plan/schedule/fit.hpp: what the code of one call's sizes assumes of sizes, so that other calls can use it, too.
#pragma once

#include "../kernel/reach.hpp"
#include "order.hpp"

namespace sinter::engine::plan {

/// The assumptions of code for the sizes of `k`, which are numbers, so that it serves other sizes, too: rows up to the next
/// power of two, or rows of exactly that length, without bounds checks.
inline size_fit fit_of(const kernel& k) {
  constexpr std::int64_t shortest = 32, longest = 1 << 17;  // beyond, registers cannot hold a row
  size_fit fit{.small = !needs_wide_index(k)};
  const auto n = k.extent(role::inner).number().value_or(longest + 1);
  const bool reduces = std::any_of(k.body.begin(), k.body.end(), is_reduction);
  if (reduces && n <= longest) fit.longest = power_of_two(std::max(n, shortest));
  fit.whole = reduces && fit.longest == n;
  if (k.is_sort()) fit.longest = longest_sorted(k.extent(role::row).number().value_or(max_sorted));
  return fit;
}

}  // namespace sinter::engine::plan
