// emit/prelude/walk.hpp: words of kernels that are printed from trees: merges of partial results.
#pragma once

#include <string_view>

namespace sinter::engine::emit {

/// Merges of one element, or one partial result, into another: plan/loops/scalars.hpp has the rules.
inline constexpr std::string_view prelude_merge = R"prelude(
namespace sx {
// exp(a - most), where most >= a is a maximum: 0 if both are -inf.
SX_T V weight(V a, V most) {
  const V none = splat<V>(-__builtin_inff());
  return select(equal(a, none), splat<V>(0), exp(a - most));
}
// Largest tells whether the extreme is a maximum. NaN is before all numbers, of equals the least place.
template <bool Largest, class T, class S> SX void merge_first(T* to, long* at, S x, long there) {
  constexpr long none = (long)(~0ul >> 1);
  if (there == none) return;
  const S was = load1(to);
  const bool nan = x != x, was_nan = *at != none && was != was;
  const bool equal = nan ? was_nan : x == was, better = Largest ? x > was : x < was;
  if (*at == none || (nan && !was_nan) || (!was_nan && better) || (equal && there < *at)) store1(to, x), *at = there;
}
// Chan, Golub, LeVeque: "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
template <class S> SX void merge_moments(S* count, S* mean, S* squares, S n, S m, S q) {
  if (n == 0) return;
  const S all = *count + n, gap = m - *mean;
  *squares += q + gap * gap * *count * n / all;
  *mean += gap * n / all;
  *count = all;
}
}  // namespace sx
)prelude";

}  // namespace sinter::engine::emit
