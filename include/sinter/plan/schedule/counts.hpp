// plan/schedule/counts.hpp: whole numbers of vectors, rows and blocks, for extents that are numbers or open.
#pragma once

#include <cstdint>

#include "../kernel/kernel.hpp"

namespace sinter::engine::plan {

inline bool divides(std::int64_t n, const dim& d) {
  if (const auto x = d.number()) return *x % n == 0;
  return d.divided_by(n).has_value();
}
/// True when n divides a number that is not 0: then every group of n is whole.
inline bool fills(std::int64_t n, const dim& d) { return !d.is(0) && divides(n, d); }
inline dim ceil_div(const dim& a, std::int64_t b) {
  if (const auto n = a.number()) return (*n + b - 1) / b;
  return floor_div(a + dim(b - 1), b);
}
inline std::int64_t power_of_two(std::int64_t n) {
  std::int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace sinter::engine::plan
