// loops/moments.hpp: the variance and the 2-norm of a pointwise expression as one fused loop.
#pragma once

#include <algorithm>
#include <cmath>

#include "blocks.hpp"

namespace sinter::detail {

/// The moments of some numbers: their count, mean, and sum of squared differences from the mean.
struct moments {
  double count = 0, mean = 0, squares = 0;

  moments() = default;
  /// From n numbers whose differences from `shift` have the sum `sum`, and squares with the sum `square`.
  moments(double n, double shift, double sum, double square)
      : count(n), mean(shift + sum / n), squares(square - sum * sum / n) {
    if (squares < 0) squares = 0;                                                  // rounding errors for equal numbers
    if (vocabulary::isinf(square) && vocabulary::isfinite(sum)) squares = square;  // infinite squares stay infinite
  }
};

/// Sums of vectors and of their squares.
template <class T, class Set = simd::instruction_set>
struct vector_sums {
  simd::vec<T, Set> sum{T(0)}, square{T(0)};

  SINTER_INLINE void add(simd::vec<T, Set> x) {
    sum = sum + x;
    square = square + x * x;
  }
  SINTER_INLINE void add(const vector_sums& other) {
    sum = sum + other.sum;
    square = square + other.square;
  }
  /// Adds the lanes to sums from `to_sum` and `to_square` on, which are `step` apart.
  SINTER_INLINE void add_to(double* to_sum, double* to_square, int step) const {
    constexpr int width = simd::vec<T, Set>::width;
    T lanes[2][bound(width)];
    sum.store(lanes[0]);
    square.store(lanes[1]);
    for (int k = 0; k < width; ++k) to_sum[k * step] += lanes[0][k];
    for (int k = 0; k < width; ++k) to_square[k * step] += lanes[1][k];
  }
};

/// Sums x - shift and its squares over n elements.
template <class T, class Set = simd::instruction_set>
void add_shifted(const T* x, std::int64_t n, T shift, double& sum, double& square) {
  using vector = simd::vec<T>;
  constexpr int width = vector::width;
  const vector s(shift);
  double a = 0, b = 0;
  std::int64_t i = 0;
  if (n >= width) {
    vector_sums<T> v[4];  // at constant indices, so that they are registers
    for (; i + 4 * width <= n; i += 4 * width) {
      v[0].add(vector::load(x + i) - s);
      v[1].add(vector::load(x + i + width) - s);
      v[2].add(vector::load(x + i + 2 * width) - s);
      v[3].add(vector::load(x + i + 3 * width) - s);
    }
    for (; i + width <= n; i += width) v[0].add(vector::load(x + i) - s);
    v[0].add(v[1]);
    v[2].add(v[3]);
    v[0].add(v[2]);
    v[0].add_to(&a, &b, 0);
  }
  for (; i < n; ++i) {
    const T d = x[i] - shift;
    a += d;
    b += vocabulary::rounded(d * d);
  }
  sum += a;
  square += b;
}

/// Whether an f32 sum of squares must be computed in f64: it became infinite, or may have lost digits of subnormal squares.
inline bool lost(double squares) { return squares < 0x1p-100 || vocabulary::isinf(squares); }
template <class T>
double squares_again(const T* x, std::int64_t n, std::int64_t step, T shift) {
  double sum[8] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i * step]) - static_cast<double>(shift);
    sum[i % 8] += vocabulary::rounded(d * d);
  }
  double total = 0;
  for (const double s : sum) total += s;
  return total;
}
/// The sum of (x - shift) · by in f64, for sums beyond the range of the dtype.
template <class T>
double sum_again(const T* x, std::int64_t n, T shift, double by) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += (static_cast<double>(x[i]) - static_cast<double>(shift)) * by;
  return sum;
}
/// Like add_shifted, for any magnitudes.
template <class T, class Set = simd::instruction_set>
void add_all_shifted(const T* x, std::int64_t n, T shift, double& sum, double& square) {
  double some = 0, part = 0;
  add_shifted(x, n, shift, some, part);
  square += sizeof(T) < sizeof(double) && lost(part) ? squares_again(x, n, 1, shift) : part;
  sum += vocabulary::isfinite(some) ? some : sum_again(x, n, shift, 1.0);
}

/// The same for each of n columns of some rows.
template <class T, class Set = simd::instruction_set>
void add_shifted_columns(const T* x, std::int64_t rows, std::int64_t n, const T* shift, double* sum, double* square) {
  using vector = simd::vec<T>;
  constexpr int width = vector::width;
  std::int64_t j = 0;
  for (; j + width <= n; j += width) {
    const vector s = vector::load(shift + j);
    for (std::int64_t r = 0; r < rows;) {
      vector_sums<T> v;
      for (const std::int64_t end = std::min<std::int64_t>(rows, r + 16); r < end; ++r)
        v.add(vector::load(x + r * n + j) - s);
      v.add_to(sum + j, square + j, 1);
    }
  }
  for (; j < n; ++j)
    for (std::int64_t r = 0; r < rows; ++r) {
      const T d = x[r * n + j] - shift[j];
      sum[j] += d;
      square[j] += vocabulary::rounded(d * d);
    }
}

/// Variances of f32 or f64. Each chunk is relative to the mean of its first elements, so that a mean far from 0 loses no
/// digits.
template <class T, class Set = simd::instruction_set>
struct variance_reduction : block_source<T> {
  using Total = moments;

  int ddof;
  bool root;

  static void merge(moments& a, const moments& b) {
    const double n = a.count + b.count, share = b.count / n, d = b.mean - a.mean;
    a.mean += d * share;
    a.squares += b.squares + d * d * (a.count * share);
    a.count = n;
  }
  T result(const moments& m) const {
    const double v = m.squares / std::max(m.count - ddof, 0.0);
    return static_cast<T>(root ? std::sqrt(v) : v);
  }

  moments over_rows(const reduction_space& s, const walker& of, walker& along, cursor* at, std::int64_t begin,
                    std::int64_t end) const {
    T shift = 0;
    double sum = 0, square = 0;
    this->each_block(s, of, along, at, begin, end, [&](const T* x, std::int64_t n, std::int64_t first) {
      if (first == begin) {
        const std::int64_t few = std::min(n, block_elements / 8);
        add_shifted(x, few, x[0], sum, square);
        shift = static_cast<T>(x[0] + sum / static_cast<double>(few));
        sum = square = 0;
      }
      add_shifted(x, n, shift, sum, square);
    });
    return {static_cast<double>(end - begin), shift, sum, square};
  }

  void over_columns(const reduction_space& s, const walker& of, walker& along, cursor* at, std::int64_t low,
                    std::int64_t high, std::int64_t begin, std::int64_t end, moments* totals) const {
    const std::int64_t n = high - low;
    T shift[reduce_columns];
    double sum[reduce_columns] = {}, square[reduce_columns] = {};
    this->each_rows(s, of, along, at, low, high, begin, end, [&](const T* x, std::int64_t rows, std::int64_t first) {
      if (first == begin) {
        std::copy_n(x, n, shift);
        add_shifted_columns(x, rows, n, shift, sum, square);
        for (std::int64_t j = 0; j < n; ++j) {
          shift[j] = static_cast<T>(x[j] + sum[j] / static_cast<double>(rows));
          sum[j] = square[j] = 0;
        }
      }
      add_shifted_columns(x, rows, n, shift, sum, square);
    });
    for (std::int64_t j = 0; j < n; ++j) totals[j] = {static_cast<double>(end - begin), shift[j], sum[j], square[j]};
  }
};

/// 2-norms of f32 or f64; the sum of squares is an f64.
template <class T, class Set = simd::instruction_set>
struct norm_reduction : block_source<T> {
  using Total = double;

  static void merge(double& a, double b) { a += b; }
  static T result(double square) { return static_cast<T>(std::sqrt(square)); }

  double over_rows(const reduction_space& s, const walker& of, walker& along, cursor* at, std::int64_t begin,
                   std::int64_t end) const {
    double sum = 0, square = 0;
    this->each_block(s, of, along, at, begin, end,
                     [&](const T* x, std::int64_t n, std::int64_t) { add_all_shifted(x, n, T(0), sum, square); });
    return square;
  }

  void over_columns(const reduction_space& s, const walker& of, walker& along, cursor* at, std::int64_t low,
                    std::int64_t high, std::int64_t begin, std::int64_t end, double* totals) const {
    const std::int64_t n = high - low;
    const T shift[reduce_columns] = {};
    double sum[reduce_columns] = {};
    std::fill_n(totals, n, 0.0);
    this->each_rows(s, of, along, at, low, high, begin, end, [&](const T* x, std::int64_t rows, std::int64_t) {
      double part[reduce_columns] = {};
      add_shifted_columns(x, rows, n, shift, sum, part);
      for (std::int64_t j = 0; j < n; ++j)
        totals[j] += sizeof(T) < sizeof(double) && lost(part[j]) ? squares_again(x + j, rows, n, T(0)) : part[j];
    });
  }
};

}  // namespace sinter::detail
