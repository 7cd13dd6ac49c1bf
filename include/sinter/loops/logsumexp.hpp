// loops/logsumexp.hpp: the logarithm of the sum of a pointwise expression's exponentials, as one fused loop.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "blocks.hpp"

namespace sinter::detail {

/// exp(d) for d <= 0, for a sum; numbers too small to count are replaced by ones where exp is fast.
template <class T>
SINTER_INLINE simd::vec<T> exp_below(simd::vec<T> d) {
  const simd::vec<T> least(static_cast<T>(sizeof(T) == 4 ? -87 : -708));
  return simd::exp(simd::select(simd::greater(d, least), d, least));
}

/// exp(d) for d <= 0; results of 0, as for a mask's -inf, are computed where exp is fast.
template <class T>
SINTER_INLINE simd::vec<T> exp_of_difference(simd::vec<T> d) {
  const simd::vec<T> zero(T(0));
  const auto none = simd::less(d, simd::vec<T>(static_cast<T>(sizeof(T) == 4 ? -104 : -746)));
  return simd::select(none, zero, simd::exp(simd::select(none, zero, d)));
}

/// The sum of exp(x - shift) over n elements; with Store, y receives them.
template <bool Store, class T, class Set = simd::instruction_set>
double sum_exp(const T* x, std::int64_t n, T shift, [[maybe_unused]] T* y) {
  using vector = simd::vec<T>;
  constexpr int width = vector::width;
  const vector s(shift);
  vector a(T(0)), b(T(0));
  std::int64_t i = 0;
  for (; i + 2 * width <= n; i += 2 * width) {
    const vector d = vector::load(x + i) - s, e = vector::load(x + i + width) - s;
    if constexpr (Store) {
      const vector f = exp_of_difference(d), g = exp_of_difference(e);
      f.store(y + i);
      g.store(y + i + width);
      a = a + f;
      b = b + g;
    } else {
      a = a + exp_below(d);
      b = b + exp_below(e);
    }
  }
  T lanes[bound(width)];
  (a + b).store(lanes);
  double sum = 0;
  for (const T v : lanes) sum += v;
  for (; i < n; ++i) {
    const T e = vocabulary::exp(x[i] - shift);
    if constexpr (Store) y[i] = e;
    sum += e;
  }
  return sum;
}

/// The same for each of n columns of some rows, which are `stride` apart; adds to `sum`.
template <class T, class Set = simd::instruction_set>
void sum_exp_columns(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t n, const T* shift, double* sum) {
  using vector = simd::vec<T>;
  constexpr int width = vector::width;
  std::int64_t j = 0;
  for (; j + width <= n; j += width) {
    const vector s = vector::load(shift + j);
    vector a(T(0));
    for (std::int64_t r = 0; r < rows; ++r) a = a + exp_below(vector::load(x + r * stride + j) - s);
    T lanes[bound(width)];
    a.store(lanes);
    for (int k = 0; k < width; ++k) sum[j + k] += lanes[k];
  }
  for (; j < n; ++j)
    for (std::int64_t r = 0; r < rows; ++r) sum[j] += vocabulary::exp(x[r * stride + j] - shift[j]);
}

/// The sum of exponentials relative to their maximum; valid only for a finite maximum.
template <class T>
struct exp_total {
  T max = -std::numeric_limits<T>::infinity();
  double sum = 0;

  /// Makes the sum relative to the larger of the maximum and `x`.
  void raise(T x) {
    const T to = combine<ir::op::maximum>(max, x);
    if (sum != 0 && to != max && vocabulary::isfinite(to))
      sum *= std::exp(static_cast<double>(max) - static_cast<double>(to));
    max = to;
  }
};

/// Adds some rows, which are `stride` apart, to the totals of n columns, at most reduce_columns.
template <class T, class Set = simd::instruction_set>
void add_exp_rows(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t n, exp_total<T>* totals) {
  T max[reduce_columns], shift[reduce_columns] = {};
  double sum[reduce_columns] = {};
  std::copy_n(x, n, max);
  for (std::int64_t r = 1; r < rows; ++r) combine_elements<ir::op::maximum>(x + r * stride, n, max);
  for (std::int64_t j = 0; j < n; ++j) {
    totals[j].raise(max[j]);
    shift[j] = vocabulary::isfinite(totals[j].max) ? totals[j].max : T(0);
  }
  sum_exp_columns(x, rows, stride, n, shift, sum);
  for (std::int64_t j = 0; j < n; ++j)
    if (vocabulary::isfinite(totals[j].max)) totals[j].sum += sum[j];
}

/// log(sum(exp(x))) of f32 or f64; the maximum if it is not finite.
template <class T, class Set = simd::instruction_set>
struct logsumexp_reduction : block_source<T> {
  using Total = exp_total<T>;

  static void merge(Total& a, Total b) {
    a.raise(b.max);
    b.raise(a.max);
    a.sum += b.sum;
  }
  static T result(const Total& t) {
    return static_cast<T>(vocabulary::isfinite(t.max) ? static_cast<double>(t.max) + std::log(t.sum) : t.max);
  }

  Total over_rows(const reduction_space& s, const walker& of, walker& along, cursor* at, std::int64_t begin,
                  std::int64_t end) const {
    Total total;
    this->each_block(s, of, along, at, begin, end, [&](const T* x, std::int64_t n, std::int64_t) {
      total.raise(reduce_elements<ir::op::maximum>(x, n));
      if (vocabulary::isfinite(total.max)) total.sum += sum_exp<false, T>(x, n, total.max, nullptr);
    });
    return total;
  }

  void over_columns(const reduction_space& s, const walker& of, walker& along, cursor* at, std::int64_t low,
                    std::int64_t high, std::int64_t begin, std::int64_t end, Total* totals) const {
    const std::int64_t n = high - low;
    std::fill_n(totals, n, Total{});
    this->each_rows(s, of, along, at, low, high, begin, end,
                    [&](const T* x, std::int64_t rows, std::int64_t) { add_exp_rows(x, rows, n, n, totals); });
  }
};

}  // namespace sinter::detail
