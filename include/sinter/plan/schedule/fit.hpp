// plan/schedule/fit.hpp: what the code of one call's sizes assumes of sizes, so that other calls can use it, too.
#pragma once

#include <algorithm>

#include "../../ir/polynomial.hpp"
#include "../kernel/reach.hpp"
#include "order.hpp"

namespace sinter::engine::plan {

/// Whether the largest sizes give the greatest magnitude: no term of the polynomial works against another.
inline bool grows(const dim& d) {
  const auto rises = [](const dim& x, int sign, const auto& self) -> bool {
    if (x.is_number()) return true;
    for (const auto& [text, t] : x.symbolic()->terms) {
      if ((t.coefficient > 0) != (sign > 0)) return false;
      for (const auto& f : t.factors)
        if (f->symbol < 0 && !(f->divisor.is_number() && self(f->dividend, 1, self))) return false;
    }
    return true;
  };
  return d.is_number() || (d.lower_bound() >= 0 && rises(d, 1, rises)) || (d.upper_bound() <= 0 && rises(d, -1, rises));
}
inline bool grows(const affine& at) {
  return grows(at.offset) && std::all_of(at.stride.begin(), at.stride.end(), [](const dim& d) { return grows(d); });
}
/// Whether all extents and offsets of a kernel do.
inline bool grows(const kernel& k) {
  return std::all_of(k.axes.begin(), k.axes.end(), [](const auto& a) { return grows(a.extent); }) &&
         std::all_of(k.body.begin(), k.body.end(),
                     [](const instruction& i) {
                       return grows(i.at.at) && std::all_of(i.ranges.begin(), i.ranges.end(), [](const auto& r) {
                                return grows(r.at) && grows(r.extent);
                              });
                     }) &&
         std::all_of(k.stores.begin(), k.stores.end(), [](const auto& s) { return grows(s.at.at); }) &&
         std::all_of(k.products.begin(), k.products.end(), [](const product& p) {
           return grows(p.a.at) && grows(p.b.at) &&
                  std::all_of(p.k.begin(), p.k.end(), [](const dim& d) { return grows(d); });
         });
}

/// The assumptions of code for the largest sizes of `k`, where `at_largest` has them as numbers, that hold for all smaller sizes.
inline size_fit fit_for_all(const kernel& k, size_fit at_largest) {
  if (!grows(k)) at_largest = {.small = false, .longest = k.is_sort() ? longest_sorted(max_sorted) : 0};
  if (!k.extent(role::inner).is_number()) at_largest.whole = false;
  return at_largest;
}

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
