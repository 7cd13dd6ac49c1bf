// loops/factors.hpp: Cholesky, LU and QR factors and triangular solutions of one matrix on the host, in blocks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "../base/config.hpp"
#include "space.hpp"
#include "wide.hpp"

namespace sinter::engine::factors {

/// Columns that are eliminated together.
inline constexpr std::int64_t block = 48;

/// A matrix in row-major order, or a part of one.
template <class T>
struct part {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;

  T* operator[](std::int64_t i) const { return data + i * stride; }
  /// The m rows from i, and the n columns from j.
  part at(std::int64_t i, std::int64_t j, std::int64_t m, std::int64_t n) const {
    return {data + i * stride + j, m, n, stride};
  }
  part<const T> constant() const { return {data, rows, columns, stride}; }
};

/// y[0, n) -= sum over k of x[k]·b[k][0, n).
template <class T>
SINTER_INLINE void subtract_rows(T* __restrict y, const T* x, const part<T>& b, std::int64_t n) {
  std::int64_t k = 0;
  for (; k + 4 <= b.rows; k += 4) {
    const T x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];
    const T* __restrict b0 = b[k], * __restrict b1 = b[k + 1], * __restrict b2 = b[k + 2], * __restrict b3 = b[k + 3];
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) y[j] -= x0 * b0[j] + x1 * b1[j] + x2 * b2[j] + x3 * b3[j];
  }
  for (; k < b.rows; ++k) {
    const T x0 = x[k];
    const T* __restrict const b0 = b[k];
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) y[j] -= x0 * b0[j];
  }
}

/// Rows [i, end) of c -= a·b. Pairs of rows share loads of b.
template <class T>
SINTER_INLINE void subtract_pairs(const part<T>& c, const part<T>& a, const part<T>& b, std::int64_t i,
                                  std::int64_t end) {
  for (; i + 2 <= end; i += 2) {
    T* __restrict const y = c[i];
    T* __restrict const z = c[i + 1];
    std::int64_t k = 0;
    for (; k + 4 <= b.rows; k += 4) {
      const T *const p = a[i] + k, *const q = a[i + 1] + k;
      const T p0 = p[0], p1 = p[1], p2 = p[2], p3 = p[3], q0 = q[0], q1 = q[1], q2 = q[2], q3 = q[3];
      const T* __restrict b0 = b[k], * __restrict b1 = b[k + 1], * __restrict b2 = b[k + 2], * __restrict b3 = b[k + 3];
#pragma omp simd
      for (std::int64_t j = 0; j < c.columns; ++j) {
        y[j] -= p0 * b0[j] + p1 * b1[j] + p2 * b2[j] + p3 * b3[j];
        z[j] -= q0 * b0[j] + q1 * b1[j] + q2 * b2[j] + q3 * b3[j];
      }
    }
    const part<T> rest = b.at(k, 0, b.rows - k, b.columns);
    subtract_rows(y, a[i] + k, rest, c.columns);
    subtract_rows(z, a[i + 1] + k, rest, c.columns);
  }
  for (; i < end; ++i) subtract_rows(c[i], a[i], b, c.columns);
}
template <class T>
SINTER_WIDE void subtract_wide(const part<T>& c, const part<T>& a, const part<T>& b, std::int64_t i, std::int64_t end) {
  subtract_pairs(c, a, b, i, end);
}

template <class T>
void subtract_here(const part<T>& c, const part<T>& a, const part<T>& b, std::int64_t i, std::int64_t end) {
  if (is_wide()) subtract_wide(c, a, b, i, end);
  else subtract_pairs(c, a, b, i, end);
}

/// c -= a·b, on several threads unless the caller already runs on one of several.
template <class T>
void subtract_product(const part<T>& c, const part<T>& a, const part<T>& b) {
  sinter::detail::parallel(c.rows, c.rows * c.columns * b.rows / 16,
                           [&](std::int64_t begin, std::int64_t end) { subtract_here(c, a, b, begin, end); });
}

/// The sum of products of two rows, in four parts.
template <class T>
T dot(const T* a, const T* b, std::int64_t n) {
  T s[4] = {};
  std::int64_t k = 0;
  for (; k + 4 <= n; k += 4)
    for (std::int64_t j = 0; j < 4; ++j) s[j] += a[k + j] * b[k + j];
  for (; k < n; ++k) s[0] += a[k] * b[k];
  return (s[0] + s[1]) + (s[2] + s[3]);
}

/// x = a⁻¹·x for a triangle of few rows; N is its size, or 0 if it is not constant.
template <class T, int N>
SINTER_INLINE void solve_rows(const part<T>& a, const part<T>& x, bool lower, bool unit) {
  const std::int64_t n = N > 0 ? N : a.rows;
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t i = lower ? step : n - 1 - step, first = lower ? 0 : i + 1, count = step;
    if (x.columns == 1 && x.stride == 1) x[i][0] -= dot(a[i] + first, x[first], count);
    else subtract_rows(x[i], a[i] + first, x.at(first, 0, count, x.columns), x.columns);
    if (!unit)
      for (std::int64_t j = 0; j < x.columns; ++j) x[i][j] /= a[i][i];
  }
}

template <class T, int N = 0>
void solve_triangle(const part<T>& a, const part<T>& x, bool lower, bool unit) {
  solve_rows<T, N>(a, x, lower, unit);
}
template <class T>
SINTER_WIDE void solve_triangle_wide(const part<T>& a, const part<T>& x, bool lower, bool unit) {
  solve_rows<T, 0>(a, x, lower, unit);
}
/// x = a⁻¹·x with many columns of x.
template <class T>
void solve_triangle_of_block(const part<T>& a, const part<T>& x, bool lower, bool unit) {
  if (is_wide()) solve_triangle_wide(a, x, lower, unit);
  else solve_triangle(a, x, lower, unit);
}

/// Calls f<n>() for n up to 8, f<0>() for more.
template <class F>
void by_size(std::int64_t n, F&& f) {
  switch (n) {
#define SINTER_SIZE(N) \
  case N:              \
    return f.template operator()<N>();
    SINTER_SIZE(1)
    SINTER_SIZE(2)
    SINTER_SIZE(3)
    SINTER_SIZE(4)
    SINTER_SIZE(5)
    SINTER_SIZE(6)
    SINTER_SIZE(7)
    SINTER_SIZE(8)
#undef SINTER_SIZE
    default:
      return f.template operator()<0>();
  }
}

/// Replaces the right side x by a⁻¹·x.
template <class T>
void triangular_solve(const part<T>& a, const part<T>& x, bool lower, bool unit) {
  const std::int64_t n = a.rows;
  if (n <= block || x.columns == 1) return by_size(n, [&]<int N>() { solve_triangle<T, N>(a, x, lower, unit); });
  for (std::int64_t done = 0; done < n; done += block) {
    const std::int64_t size = std::min(block, n - done), i = lower ? done : n - done - size, left = n - done - size;
    const part<T> here = x.at(i, 0, size, x.columns);
    solve_triangle_of_block(a.at(i, i, size, size), here, lower, unit);
    if (lower) subtract_product(x.at(i + size, 0, left, x.columns), a.at(i + size, i, left, size), here);
    else subtract_product(x.at(0, 0, left, x.columns), a.at(0, i, left, size), here);
  }
}

/// Factorises a few rows in place, where l has a's lower triangle; false if a is not positive definite.
template <class T, int N = 0>
bool factor_triangle(const part<T>& l) {
  const std::int64_t n = N > 0 ? N : l.rows;
  for (std::int64_t j = 0; j < n; ++j) {
    T d = l[j][j];
    for (std::int64_t k = 0; k < j; ++k) d -= l[j][k] * l[j][k];
    if (!(d > T(0)) || d == std::numeric_limits<T>::infinity()) return false;
    d = std::sqrt(d);
    l[j][j] = d;
    for (std::int64_t i = j + 1; i < n; ++i) {
      T s = l[i][j];
      for (std::int64_t k = 0; k < j; ++k) s -= l[i][k] * l[j][k];
      l[i][j] = s / d;
    }
  }
  return true;
}

/// Factorises any size: a block of columns at a time, then the part to its right.
template <class T>
bool factor_blocks(const part<T>& l, std::vector<T>& flipped) {
  const std::int64_t n = l.rows;
  for (std::int64_t i = 0; i < n; i += block) {
    const std::int64_t size = std::min(block, n - i), left = n - i - size;
    const part<T> corner = l.at(i, i, size, size), below = l.at(i + size, i, left, size);
    if (!factor_triangle(corner)) return false;
    for (std::int64_t r = 0; r < left; ++r)
      for (std::int64_t c = 0; c < size; ++c) below[r][c] = (below[r][c] - dot(below[r], corner[c], c)) / corner[c][c];
    flipped.resize(static_cast<std::size_t>(size * left));
    const part<T> turned{flipped.data(), size, left, left};
    for (std::int64_t r = 0; r < left; ++r)
      for (std::int64_t c = 0; c < size; ++c) turned[c][r] = below[r][c];
    const std::int64_t pieces = (left + block - 1) / block;
    sinter::detail::parallel(pieces, left * left * size / 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin * block; r < std::min(left, end * block); r += block) {
        const std::int64_t some = std::min(block, left - r);
        subtract_here(l.at(i + size + r, i + size, some, r + some), below.at(r, 0, some, size),
                      turned.at(0, 0, size, r + some), 0, some);
      }
    });
  }
  return true;
}

/// l with a zero upper triangle; NaN on and below the diagonal if a is not positive definite.
template <class T>
void cholesky(const part<const T>& a, const part<T>& l) {
  const std::int64_t n = a.rows;
  for (std::int64_t i = 0; i < n; ++i) {
    std::copy_n(a[i], i + 1, l[i]);
    std::fill(l[i] + i + 1, l[i] + n, T(0));
  }
  bool positive = false;
  if (n > block) {
    std::vector<T> flipped;
    positive = factor_blocks(l, flipped);
    for (std::int64_t i = 0; i < n; ++i) std::fill(l[i] + i + 1, l[i] + n, T(0));
  } else {
    by_size(n, [&]<int N>() { positive = factor_triangle<T, N>(l); });
  }
  if (positive) return;
  for (std::int64_t i = 0; i < n; ++i) std::fill_n(l[i], i + 1, std::numeric_limits<T>::quiet_NaN());
}

/// Eliminates columns [first, last) of `a` below the diagonal, and exchanges whole rows. N is the number of columns, or 0 if
/// it is not constant.
template <class T, int N = 0>
SINTER_INLINE void eliminate(const part<T>& a, std::int64_t first, std::int64_t last, std::int64_t* rows,
                             std::int64_t* swaps) {
  const std::int64_t m = N > 0 ? N : a.rows;
  for (std::int64_t k = first; k < last; ++k) {
    std::int64_t pivot = k;
    for (std::int64_t i = k + 1; i < m; ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    swaps[k] = pivot == k ? 1 : -1;
    if (pivot != k) {
      std::swap_ranges(a[k], a[k] + (N > 0 ? N : a.columns), a[pivot]);
      std::swap(rows[k], rows[pivot]);
    }
    const T* __restrict const top = a[k];
    const T by = top[k];
    for (std::int64_t i = k + 1; i < m; ++i) {
      T* __restrict const row = a[i];
      const T f = by == T(0) ? row[k] : row[k] / by;  // for a column of zeros
      row[k] = f;
#pragma omp simd
      for (std::int64_t j = k + 1; j < last; ++j) row[j] -= f * top[j];
    }
  }
}
template <class T>
SINTER_WIDE void eliminate_wide(const part<T>& a, std::int64_t first, std::int64_t last, std::int64_t* rows,
                                std::int64_t* swaps) {
  eliminate(a, first, last, rows, swaps);
}

/// Both factors in place, with partial pivoting.
template <class T>
void lu(const part<T>& a, std::int64_t* rows, std::int64_t* swaps) {
  const std::int64_t m = a.rows, n = a.columns, steps = std::min(m, n);
  for (std::int64_t i = 0; i < m; ++i) rows[i] = i;
  if (m == n && n <= 8) return by_size(n, [&]<int N>() { eliminate<T, N>(a, 0, n, rows, swaps); });
  for (std::int64_t k = 0; k < steps; k += block) {
    const std::int64_t end = std::min(k + block, steps), size = end - k;
    if (is_wide()) eliminate_wide(a, k, end, rows, swaps);
    else eliminate(a, k, end, rows, swaps);
    const part<T> beside = a.at(k, end, size, n - end);
    solve_triangle_of_block(a.at(k, k, size, size), beside, true, true);
    if (n > end) subtract_product(a.at(end, end, m - end, n - end), a.at(end, k, m - end, size), beside);
  }
}

/// Makes column k below the diagonal a reflector v with v[k] = 1, which is not stored. 2 / vᵀv reflects that column onto the
/// returned number. A column of zeros gives the reflector of its first element.
template <class T>
T make_reflector(const part<T>& a, std::int64_t k) {
  T largest = 0;
  for (std::int64_t i = k; i < a.rows; ++i) {
    const T size = std::abs(a[i][k]);
    if (size > largest || size != size) largest = size;  // NaN stays
  }
  if (largest == T(0)) return T(0);
  double sum = 0;
  for (std::int64_t i = k; i < a.rows; ++i) {
    const double x = static_cast<double>(a[i][k]) / static_cast<double>(largest);
    sum += x * x;
  }
  const T norm = static_cast<T>(std::sqrt(sum)) * largest, to = a[k][k] > T(0) ? -norm : norm, first = a[k][k] - to;
  for (std::int64_t i = k + 1; i < a.rows; ++i) a[i][k] /= first;
  return to;
}

/// Applies reflector k of v to the columns of x from `first` on; `w` has room for one number per column.
template <class T>
SINTER_INLINE void reflect_rows(const part<T>& v, std::int64_t k, const part<T>& x, std::int64_t first,
                                T* __restrict w) {
  const std::int64_t n = x.columns;
  T length = 1;
  for (std::int64_t i = k + 1; i < v.rows; ++i) length += v[i][k] * v[i][k];
  std::copy(x[k] + first, x[k] + n, w + first);
  for (std::int64_t i = k + 1; i < v.rows; ++i) {
    const T f = v[i][k];
    const T* __restrict const row = x[i];
#pragma omp simd
    for (std::int64_t j = first; j < n; ++j) w[j] += f * row[j];
  }
  const T by = T(2) / length;
  for (std::int64_t j = first; j < n; ++j) x[k][j] -= (w[j] *= by);
  for (std::int64_t i = k + 1; i < v.rows; ++i) {
    const T f = v[i][k];
    T* __restrict const row = x[i];
#pragma omp simd
    for (std::int64_t j = first; j < n; ++j) row[j] -= f * w[j];
  }
}
template <class T>
SINTER_WIDE void reflect_wide(const part<T>& v, std::int64_t k, const part<T>& x, std::int64_t first, T* w) {
  reflect_rows(v, k, x, first, w);
}
template <class T>
void reflect(const part<T>& v, std::int64_t k, const part<T>& x, std::int64_t first, T* w) {
  if (is_wide()) reflect_wide(v, k, x, first, w);
  else reflect_rows(v, k, x, first, w);
}

/// Negates rows of r, and the columns of q, so that r's diagonal is not negative.
template <class T>
void turn_signs(const part<T>& q, const part<T>& r) {
  for (std::int64_t k = 0; k < r.rows; ++k) {
    if (!(r[k][k] < T(0))) continue;
    for (std::int64_t j = k; j < r.columns; ++j) r[k][j] = -r[k][j];
    for (std::int64_t i = 0; i < q.rows; ++i) q[i][k] = -q[i][k];
  }
}

/// q, m × n, and r, n × n, of a, by Householder reflectors.
template <class T>
void qr(const part<const T>& a, const part<T>& q, const part<T>& r) {
  const std::int64_t m = a.rows, n = a.columns;
  std::vector<T> copy(a.data, a.data + m * n), w(static_cast<std::size_t>(n));
  const part<T> v{copy.data(), m, n, n};
  for (std::int64_t k = 0; k < n; ++k) {
    const T to = make_reflector(v, k);
    reflect(v, k, v, k + 1, w.data());
    v[k][k] = to;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    std::fill_n(r[i], i, T(0));
    std::copy(v[i] + i, v[i] + n, r[i] + i);
  }
  for (std::int64_t i = 0; i < m; ++i) {
    std::fill_n(q[i], n, T(0));
    if (i < n) q[i][i] = 1;
  }
  for (std::int64_t k = n; k-- > 0;) reflect(v, k, q, k, w.data());
  turn_signs(q, r);
}

}  // namespace sinter::engine::factors
