// loops/row_maps.hpp: softmax and norms of one row, of adjacent columns, and of many short rows side by side.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "logsumexp.hpp"
#include "moments.hpp"

namespace sinter::detail {

/// The first `lanes` of a vector.
template <class T>
SINTER_INLINE simd::vec<T> load_some(const T* from, std::int64_t lanes) {
  T part[bound(simd::vec<T>::width)];
  for (int k = 0; k < simd::vec<T>::width; ++k) part[k] = k < lanes ? from[k] : T(0);
  return simd::vec<T>::load(part);
}
template <class T>
SINTER_INLINE void store_some(simd::vec<T> x, T* to, std::int64_t lanes) {
  T part[bound(simd::vec<T>::width)];
  x.store(part);
  for (int k = 0; k < lanes; ++k) to[k] = part[k];
}

/// y[i] = f(x[i]…) over n elements of each, in vectors.
template <class T, class F, class... X>
SINTER_INLINE void map_elements(T* y, std::int64_t n, const F& f, const X*... x) {
  constexpr int width = simd::vec<T>::width;
  std::int64_t i = 0;
  for (; i + width <= n; i += width) f(simd::vec<T>::load(x + i)...).store(y + i);
  if (i < n) store_some(f(load_some(x + i, n - i)...), y + i, n - i);
}

/// The sum in f64 of f(part of a row, its length).
template <class T, class F>
SINTER_INLINE double sum_parts(const T* y, std::int64_t n, const F& f) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; i += block_elements) sum += f(y + i, std::min(block_elements, n - i));
  return sum;
}

/// softmax of a row, or its logarithm; x may be y.
template <class T, class Set = simd::instruction_set>
void softmax_row(const T* x, T* y, std::int64_t n, bool logarithm) {
  using vector = simd::vec<T>;
  const T max = reduce_elements<ir::op::maximum>(x, n);
  if (!vocabulary::isfinite(max)) {
    std::fill_n(y, n, std::numeric_limits<T>::quiet_NaN());
  } else if (logarithm) {
    const double sum =
        sum_parts(x, n, [&](const T* part, std::int64_t m) { return sum_exp<false, T>(part, m, max, nullptr); });
    const vector shift(max), by(static_cast<T>(std::log(sum)));
    map_elements(
        y, n, [&](vector v) { return v - shift - by; }, x);
  } else {
    double sum = 0;
    for (std::int64_t i = 0; i < n; i += block_elements)
      sum += sum_exp<true>(x + i, std::min(block_elements, n - i), max, y + i);
    const vector by(static_cast<T>(1 / sum));
    map_elements(
        y, n, [&](vector v) { return v * by; }, static_cast<const T*>(y));
  }
}

/// The same for n columns of some rows that are `stride` apart, in place; their totals are known.
template <class T, class Set = simd::instruction_set>
void softmax_columns(T* y, std::int64_t rows, std::int64_t stride, std::int64_t n, const exp_total<T>* totals,
                     bool logarithm) {
  using vector = simd::vec<T>;
  T max_of[reduce_columns], by_of[reduce_columns];
  const T *const max = max_of, *const by = by_of;
  for (std::int64_t j = 0; j < n; ++j) {
    max_of[j] = totals[j].max;
    by_of[j] = !vocabulary::isfinite(max[j]) ? std::numeric_limits<T>::quiet_NaN()
                                             : static_cast<T>(logarithm ? std::log(totals[j].sum) : 1 / totals[j].sum);
  }
  for (std::int64_t r = 0; r < rows; ++r, y += stride) {
    const T* const x = y;
    if (logarithm)
      map_elements(
          y, n, [](vector v, vector m, vector b) { return v - m - b; }, x, max, by);
    else
      map_elements(
          y, n, [](vector v, vector m, vector b) { return exp_of_difference(v - m) * b; }, x, max, by);
  }
}

/// y = f(x) · by[0] + by[1], either of which may be null.
template <class T, class F>
SINTER_INLINE void scale_elements(const T* x, T* y, std::int64_t n, const T* const* by, const F& f) {
  using vector = simd::vec<T>;
  if (by[1])
    map_elements(
        y, n, [&](vector v, vector a, vector b) { return f(v) * a + b; }, x, by[0], by[1]);
  else if (by[0])
    map_elements(
        y, n, [&](vector v, vector a) { return f(v) * a; }, x, by[0]);
  else map_elements(y, n, f, x);
}

template <class T, class By, class F>
SINTER_INLINE void scale_row(const T* x, T* y, std::int64_t n, const By& by, const F& f) {
  for (std::int64_t i = 0; i < n; i += block_elements) {
    const std::int64_t end = std::min(n, i + block_elements);
    const T* scales[2] = {};
    by(i, end, scales);
    scale_elements(x + i, y + i, end - i, scales, f);
  }
}

/// layer_norm of a row, with a mean, or rms_norm; x may be y. by(begin, end, to) sets the factors and addends of elements
/// [begin, end), at most a block, for scale_elements.
template <class T, class By, class Set = simd::instruction_set>
void norm_row(const T* x, T* y, std::int64_t n, bool centred, double eps, const By& by) {
  using vector = simd::vec<T>;
  const auto count = static_cast<double>(n);
  T mean = 0;
  if (centred)
    mean = static_cast<T>(
        sum_parts(x, n, [](const T* part, std::int64_t m) { return reduce_elements<ir::op::add>(part, m); }) / count);
  if (!vocabulary::isfinite(mean)) mean = static_cast<T>(sum_again(x, n, T(0), 1 / count));
  double sum = 0, square = 0;
  for (std::int64_t i = 0; i < n; i += block_elements)
    add_all_shifted(x + i, std::min(block_elements, n - i), mean, sum, square);
  if (!centred) {
    const vector r(static_cast<T>(1 / std::sqrt(square / count + eps)));
    return scale_row(x, y, n, by, [&](vector v) { return v * r; });
  }
  const moments m(count, 0, sum, square);  // the mean's rounding error remains in the sum
  const vector shift(mean), rest(static_cast<T>(m.mean)), r(static_cast<T>(1 / std::sqrt(m.squares / count + eps)));
  scale_row(x, y, n, by, [&](vector v) { return (v - shift - rest) * r; });
}

/// The number of short rows that are computed side by side: a row's elements are that far apart.
inline constexpr std::int64_t lane_rows = 64;

/// softmax of `rows` short rows of n elements, or its logarithm, in place. Overwrites the memory after the rows.
template <class T, class Set = simd::instruction_set>
void softmax_lanes(T* y, std::int64_t n, std::int64_t rows, bool logarithm) {
  using vector = simd::vec<T>;
  const vector nan(std::numeric_limits<T>::quiet_NaN());
  for (T* const end = y + rows; y < end; y += vector::width) {
    vector max = vector::load(y), sum(T(0));
    for (std::int64_t r = 1; r < n; ++r) max = simd::maximum(max, vector::load(y + r * lane_rows));
    max = simd::select(simd::isfinite(max), max, nan);
    for (std::int64_t r = 0; r < n; ++r) {
      const vector d = vector::load(y + r * lane_rows) - max, e = logarithm ? exp_below(d) : exp_of_difference(d);
      (logarithm ? d : e).store(y + r * lane_rows);
      sum = sum + e;
    }
    const vector by = logarithm ? simd::log(sum) : simd::divide(vector(T(1)), sum);
    for (std::int64_t r = 0; r < n; ++r) {
      const vector v = vector::load(y + r * lane_rows);
      (logarithm ? v - by : v * by).store(y + r * lane_rows);
    }
  }
}

/// v = 1 / sqrt(v + eps) in f64, for a multiple of the lanes.
template <class T, class Set = simd::instruction_set>
SINTER_INLINE void inverse_roots(T* v, std::int64_t n, double eps) {
  using vector = simd::vec<double>;
  double wide[lane_rows + 16];
  for (std::int64_t j = 0; j < n; ++j) wide[j] = static_cast<double>(v[j]);
  const vector one(1), plus(eps);
  for (std::int64_t j = 0; j < n; j += vector::width)
    simd::divide(one, simd::sqrt(vector::load(wide + j) + plus)).store(wide + j);
  for (std::int64_t j = 0; j < n; ++j) v[j] = static_cast<T>(wide[j]);
}

/// The factors or addends of short rows: one row for all, or one for each, with the rows' layout.
template <class T>
struct lane_scale {
  const T* at = nullptr;
  bool of_each = false;

  SINTER_INLINE simd::vec<T> load(std::int64_t r, std::int64_t j) const {
    return of_each ? simd::vec<T>::load(at + r * lane_rows + j) : simd::vec<T>(at[r]);
  }
};

/// layer_norm or rms_norm of short rows in place, like softmax_lanes; `by` has the factors and the addends.
template <class T, class Set = simd::instruction_set>
void norm_lanes(T* y, std::int64_t n, std::int64_t rows, bool centred, double eps, const lane_scale<T>* by) {
  using vector = simd::vec<T>;
  constexpr int width = vector::width;
  const vector share(static_cast<T>(1 / static_cast<double>(n))), zero(T(0));
  // An eps hides the lost digits of subnormal squares.
  const vector least(eps < 1e-25 ? T(0x1p-100) : T(0));
  bool again = false;
  T rest[lane_rows], root[lane_rows];
  const std::int64_t end = (rows + width - 1) / width * width;
  for (std::int64_t j = 0; j < end; j += width) {
    vector mean(T(0)), sum(T(0)), square(T(0));
    for (std::int64_t r = 0; centred && r < n; ++r) mean = mean + vector::load(y + r * lane_rows + j) * share;
    for (std::int64_t r = 0; r < n; ++r) {
      const vector d = vector::load(y + r * lane_rows + j) - mean;
      d.store(y + r * lane_rows + j);
      sum = sum + d;
      square = square + d * d;
    }
    // The mean's rounding error remains in the sum; infinite squares stay infinite.
    const vector left = centred ? sum * share : zero;
    const auto whole = simd::isfinite(square) | simd::bit_not(simd::isfinite(sum));
    const vector squares = centred ? square - simd::select(whole, sum * left, zero) : square;
    if constexpr (sizeof(T) < sizeof(double))
      again = again || simd::any(simd::isinf(square) | simd::less(square, least));
    left.store(rest + j);
    (simd::select(simd::less(squares, zero), zero, squares) * share).store(root + j);
  }
  inverse_roots(root, end, eps);
  for (std::int64_t j = 0; again && j < rows; ++j) {
    double sum = 0;
    for (std::int64_t r = 0; centred && r < n; ++r) sum += static_cast<double>(y[r * lane_rows + j]);
    const moments m(static_cast<double>(n), 0, sum, squares_again(y + j, n, lane_rows, T(0)));
    rest[j] = static_cast<T>(m.mean);
    root[j] = static_cast<T>(1 / std::sqrt(m.squares / m.count + eps));
  }
  for (std::int64_t r = 0; r < n; ++r) {
    T* const to = y + r * lane_rows;
    for (std::int64_t j = 0; j < end; j += width) {
      vector v = (vector::load(to + j) - vector::load(rest + j)) * vector::load(root + j);
      if (by[0].at) v = v * by[0].load(r, j);
      if (by[1].at) v = v + by[1].load(r, j);
      v.store(to + j);
    }
  }
}

/// Transposes the rows of N elements of `from` to columns of length lane_rows, or back. N = 0: n is not constant.
template <int N, class T>
SINTER_INLINE void transpose_lanes(const T* from, T* to, std::int64_t n, std::int64_t rows, bool back) {
  if (N != 0) n = N;
  if (back) {
    for (std::int64_t j = 0; j < rows; ++j, ++from, to += n)
      for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * lane_rows];
  } else {
    for (std::int64_t j = 0; j < rows; ++j, ++to, from += n)
      for (std::int64_t i = 0; i < n; ++i) to[i * lane_rows] = from[i];
  }
}
template <class T>
__attribute__((noinline)) void transpose_lanes(const T* from, T* to, std::int64_t n, std::int64_t rows, bool back) {
  switch (n) {
#define SINTER_X(N) \
  case N:           \
    return transpose_lanes<N>(from, to, n, rows, back);
    SINTER_X(2)
    SINTER_X(3)
    SINTER_X(4)
    SINTER_X(5)
    SINTER_X(6)
    SINTER_X(7)
    SINTER_X(8)
    SINTER_X(9)
    SINTER_X(10)
    SINTER_X(11)
    SINTER_X(12)
    SINTER_X(13)
    SINTER_X(14)
    SINTER_X(15)
    SINTER_X(16)
#undef SINTER_X
    default:
      transpose_lanes<0>(from, to, n, rows, back);
  }
}

}  // namespace sinter::detail
