// loops/plain_factors.hpp: factorisations by textbook formulas, for comparison with the fast ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "spectra.hpp"

namespace sinter::engine::factors::plain {

/// By rows: each element from earlier ones.
template <class T>
void cholesky(const part<const T>& a, const part<T>& l) {
  const std::int64_t n = a.rows;
  bool positive = true;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      T s = j > i ? T(0) : a[i][j];
      for (std::int64_t k = 0; k < j && j <= i; ++k) s -= l[i][k] * l[j][k];
      if (i == j) positive = positive && s > T(0) && std::isfinite(s);
      l[i][j] = i == j ? std::sqrt(s) : j > i ? T(0) : s / l[j][j];
    }
  for (std::int64_t i = 0; !positive && i < n; ++i) std::fill_n(l[i], i + 1, std::numeric_limits<T>::quiet_NaN());
}

/// Each column of the right side in turn.
template <class T>
void triangular_solve(const part<T>& a, const part<T>& x, bool lower, bool unit) {
  const std::int64_t n = a.rows;
  for (std::int64_t c = 0; c < x.columns; ++c)
    for (std::int64_t step = 0; step < n; ++step) {
      const std::int64_t i = lower ? step : n - 1 - step;
      T s = x[i][c];
      for (std::int64_t j = lower ? 0 : i + 1; j < (lower ? i : n); ++j) s -= a[i][j] * x[j][c];
      x[i][c] = unit ? s : s / a[i][i];
    }
}

/// Crout's method: each element of both factors from earlier ones, column by column.
template <class T>
void lu(const part<T>& a, std::int64_t* rows, std::int64_t* swaps) {
  const std::int64_t m = a.rows, n = a.columns;
  for (std::int64_t i = 0; i < m; ++i) rows[i] = i;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t k = 0; k < std::min(i, j); ++k) a[i][j] -= a[i][k] * a[k][j];
    if (j >= m) continue;
    std::int64_t pivot = j;
    for (std::int64_t i = j; i < m; ++i)
      if (std::abs(a[i][j]) > std::abs(a[pivot][j])) pivot = i;
    swaps[j] = pivot == j ? 1 : -1;
    for (std::int64_t k = 0; k < n && pivot != j; ++k) std::swap(a[j][k], a[pivot][k]);
    std::swap(rows[j], rows[pivot]);
    for (std::int64_t i = j + 1; i < m; ++i)
      if (a[j][j] != T(0)) a[i][j] /= a[j][j];
  }
}

/// Givens rotations of pairs of rows, whose product is in q.
template <class T>
void qr(const part<const T>& a, const part<T>& q, const part<T>& r) {
  const std::int64_t m = a.rows, n = a.columns;
  std::vector<T> copy(a.data, a.data + m * n), all(static_cast<std::size_t>(m * m));
  const part<T> x{copy.data(), m, n, n}, z{all.data(), m, m, m};
  for (std::int64_t i = 0; i < m; ++i) z[i][i] = 1;
  for (std::int64_t k = 0; k < n; ++k)
    for (std::int64_t i = m - 1; i > k; --i) {
      const T length = std::hypot(x[k][k], x[i][k]);
      if (length == T(0)) continue;
      const T c = x[k][k] / length, s = x[i][k] / length;
      const auto turn = [&](T* u, T* v, std::int64_t size) {
        for (std::int64_t j = 0; j < size; ++j) {
          const T f = u[j];
          u[j] = c * f + s * v[j];
          v[j] = c * v[j] - s * f;
        }
      };
      turn(x[k], x[i], n);
      turn(z[k], z[i], m);
    }
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) r[i][j] = j < i ? T(0) : x[i][j];
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) q[i][j] = z[j][i];
  turn_signs(q, r);
}

/// Rotates axes p and q of a symmetric matrix so that its element there becomes 0, and rows p and q of z.
template <class T>
void turn_axes(const part<T>& a, const part<T>& z, std::int64_t p, std::int64_t q) {
  if (a[p][q] == T(0)) return;
  const T theta = (a[q][q] - a[p][p]) / (T(2) * a[p][q]);
  const T t = (theta < T(0) ? T(-1) : T(1)) / (std::abs(theta) + std::hypot(theta, T(1)));
  const T c = T(1) / std::hypot(t, T(1)), s = t * c;
  for (std::int64_t k = 0; k < a.rows; ++k) {
    const T f = a[k][p], g = a[k][q];
    a[k][p] = c * f - s * g;
    a[k][q] = s * f + c * g;
  }
  for (std::int64_t k = 0; k < a.rows; ++k) {
    const T f = a[p][k], g = a[q][k], u = z[p][k], v = z[q][k];
    a[p][k] = c * f - s * g;
    a[q][k] = s * f + c * g;
    z[p][k] = c * u - s * v;
    z[q][k] = s * u + c * v;
  }
  a[p][q] = a[q][p] = 0;
}

/// Jacobi's rotations of pairs of axes.
template <class T>
void eigh(const part<const T>& a, const part<T>& v, T* values) {
  const std::int64_t n = a.rows;
  if (!is_finite(a)) {
    fill_nan(v);
    std::fill_n(values, n, std::numeric_limits<T>::quiet_NaN());
    return;
  }
  const T scale = scale_of(a);
  std::vector<T> copy(static_cast<std::size_t>(n * n)), turned(static_cast<std::size_t>(n * n)), d;
  const part<T> x{copy.data(), n, n, n}, z{turned.data(), n, n, n};
  for (std::int64_t i = 0; i < n * n; ++i) copy[static_cast<std::size_t>(i)] = a.data[i] * scale;
  for (std::int64_t i = 0; i < n; ++i) z[i][i] = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    T all = 0, beside = 0;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) (i == j ? all : beside) += x[i][j] * x[i][j];
    const T eps = std::numeric_limits<T>::epsilon();
    if (beside <= eps * eps / T(16) * all) break;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) turn_axes(x, z, p, q);
  }
  for (std::int64_t i = 0; i < n; ++i) d.push_back(x[i][i] / scale);
  give_spectrum(d, z, v, values);
}

/// By the eigenvectors of (0, a; aᵀ, 0): of the vector of a singular value, one half is u, the other v.
template <class T>
void svd(const part<const T>& a, const part<T>& u, T* s, const part<T>& v) {
  const std::int64_t m = a.rows, n = a.columns, both = m + n;
  std::vector<T> joined(static_cast<std::size_t>(both * both)), vectors(joined.size()),
      values(static_cast<std::size_t>(both));
  const part<T> x{joined.data(), both, both, both}, z{vectors.data(), both, both, both};
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) x[i][m + j] = x[m + j][i] = a[i][j];
  plain::eigh(x.constant(), z, values.data());
  std::vector<T> turned(static_cast<std::size_t>(m * n));
  const part<T> rows{turned.data(), n, m, m};
  const T tiny = n > 0 ? values.back() * std::numeric_limits<T>::epsilon() * static_cast<T>(both) : T(0);
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t from = both - 1 - k;
    s[k] = std::max(values[static_cast<std::size_t>(from)], T(0));
    for (std::int64_t i = 0; i < m; ++i) rows[k][i] = z[i][from] * std::sqrt(T(2));
    for (std::int64_t j = 0; j < n; ++j) v[k][j] = z[m + j][from] * std::sqrt(T(2));
    if (s[k] <= tiny) {
      complete(rows, k);
      complete(v, k);
    }
    const T by = points_down(rows[k], m, 1) ? T(-1) : T(1);
    for (std::int64_t i = 0; i < m; ++i) u[i][k] = by * rows[k][i];
    for (std::int64_t j = 0; j < n; ++j) v[k][j] *= by;
  }
}

}  // namespace sinter::engine::factors::plain
