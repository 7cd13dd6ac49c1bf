// loops/spectra.hpp: eigenvalues of a symmetric matrix, and singular values, with their vectors, for one matrix on the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "factors.hpp"

namespace sinter::engine::factors {

/// True when no element is infinite or NaN.
template <class T>
bool is_finite(const part<const T>& a) {
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j)
      if (!std::isfinite(a[i][j])) return false;
  return true;
}

template <class T>
void fill_nan(const part<T>& a) {
  for (std::int64_t i = 0; i < a.rows; ++i) std::fill_n(a[i], a.columns, std::numeric_limits<T>::quiet_NaN());
}

/// Whether the first element of at least three quarters of the largest magnitude is negative: near ties get the same sign
/// everywhere.
template <class T>
bool points_down(const T* v, std::int64_t n, std::int64_t stride) {
  T largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(v[i * stride]));
  for (std::int64_t i = 0; i < n; ++i)
    if (std::abs(v[i * stride]) >= T(0.75) * largest) return v[i * stride] < T(0);
  return false;
}

/// The sorted order of numbers: ascending, or descending.
template <class T>
std::vector<std::int64_t> sorted_places(const std::vector<T>& x, bool descending) {
  std::vector<std::int64_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t i, std::int64_t j) { return descending ? at(i) > at(j) : at(i) < at(j); });
  return order;
}

/// Makes a symmetric matrix tridiagonal by reflectors: d is its diagonal, e the numbers beside it (e[k] between k and k + 1).
/// z receives the transposed product of the reflectors.
template <class T>
void tridiagonalise(const part<T>& a, T* d, T* e, const part<T>& z) {
  const std::int64_t n = a.rows;
  std::vector<T> p(static_cast<std::size_t>(n)), v(static_cast<std::size_t>(n));
  for (std::int64_t k = 0; k + 1 < n; ++k) {
    // The reflector is in column k from row k + 1 on; its own first element is 1.
    const part<T> below = a.at(k + 1, 0, n - k - 1, n);
    T length = 1, along = 0;
    const auto column = below.at(0, k, below.rows, 1);
    e[k] = make_reflector(column, 0);
    const std::int64_t m = column.rows;
    v[0] = 1;
    for (std::int64_t i = 1; i < m; ++i) length += (v[static_cast<std::size_t>(i)] = column[i][0]) * column[i][0];
    const T by = T(2) / length;
    const part<T> rest = a.at(k + 1, k + 1, m, m);
    for (std::int64_t i = 0; i < m; ++i) {
      p[static_cast<std::size_t>(i)] = by * dot(rest[i], v.data(), m);
      along += p[static_cast<std::size_t>(i)] * v[static_cast<std::size_t>(i)];
    }
    for (std::int64_t i = 0; i < m; ++i)
      p[static_cast<std::size_t>(i)] -= by / T(2) * along * v[static_cast<std::size_t>(i)];
    for (std::int64_t i = 0; i < m; ++i) {
      const T vi = v[static_cast<std::size_t>(i)], pi = p[static_cast<std::size_t>(i)];
      T* const row = rest[i];
      for (std::int64_t j = 0; j < m; ++j)
        row[j] -= vi * p[static_cast<std::size_t>(j)] + pi * v[static_cast<std::size_t>(j)];
    }
  }
  for (std::int64_t i = 0; i < n; ++i) {
    d[i] = a[i][i];
    std::fill_n(z[i], n, T(0));
    z[i][i] = 1;
  }
  std::vector<T> w(static_cast<std::size_t>(n));
  for (std::int64_t k = n - 1; k-- > 0;)
    reflect(a.at(k + 1, k, n - k - 1, 1), 0, z.at(k + 1, 0, n - k - 1, n), k + 1, w.data());
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < i; ++j) std::swap(z[i][j], z[j][i]);
}

/// One implicit QL step on rows first…last of a tridiagonal matrix; rotates the rows of z, which become eigenvectors.
template <class T>
void ql_step(T* d, T* e, std::int64_t first, std::int64_t last, const part<T>& z) {
  T g = (d[first + 1] - d[first]) / (T(2) * e[first]), r = std::hypot(g, T(1));
  g = d[last] - d[first] + e[first] / (g + std::copysign(r, g));
  T s = 1, c = 1, p = 0;
  for (std::int64_t i = last - 1; i >= first; --i) {
    const T f = s * e[i], b = c * e[i];
    r = std::hypot(f, g);
    e[i + 1] = r;
    if (r == T(0)) {
      d[i + 1] -= p;
      e[last] = 0;
      return;
    }
    s = f / r;
    c = g / r;
    g = d[i + 1] - p;
    r = (d[i] - g) * s + T(2) * c * b;
    p = s * r;
    d[i + 1] = g + p;
    g = c * r - b;
    T* __restrict const x = z[i], * __restrict const y = z[i + 1];
    for (std::int64_t k = 0; k < z.columns; ++k) {
      const T t = y[k];
      y[k] = s * x[k] + c * t;
      x[k] = c * x[k] - s * t;
    }
  }
  d[first] -= p;
  e[first] = g;
  e[last] = 0;
}

/// Eigenvalues of a tridiagonal matrix in d; e has room for n. False if it does not converge.
template <class T>
bool diagonalise(T* d, T* e, const part<T>& z) {
  const std::int64_t n = z.rows;
  if (n > 0) e[n - 1] = 0;
  for (std::int64_t first = 0; first < n; ++first)
    for (int turn = 0;; ++turn) {
      std::int64_t last = first;
      while (last + 1 < n &&
             std::abs(e[last]) >
                 std::numeric_limits<T>::epsilon() / T(2) * (std::abs(d[last]) + std::abs(d[last + 1])) &&
             std::abs(e[last]) >= std::numeric_limits<T>::min())
        ++last;
      if (last == first) break;
      if (turn == 60) return false;
      ql_step(d, e, first, last, z);
    }
  return true;
}

/// The vectors in the columns of v, from the rows of z, in ascending order of the values.
template <class T>
void give_spectrum(const std::vector<T>& d, const part<T>& z, const part<T>& v, T* values) {
  const auto order = sorted_places(d, false);
  for (std::int64_t j = 0; j < z.rows; ++j) {
    const std::int64_t from = order[static_cast<std::size_t>(j)];
    values[j] = d[static_cast<std::size_t>(from)];
    const T by = points_down(z[from], z.columns, 1) ? T(-1) : T(1);
    for (std::int64_t i = 0; i < z.columns; ++i) v[i][j] = by * z[from][i];
  }
}

/// A power of two that scales the largest magnitude near 1, so that squares neither overflow nor vanish.
template <class T>
T scale_of(const part<const T>& a) {
  T largest = 0;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) largest = std::max(largest, std::abs(a[i][j]));
  if (!(largest > T(0))) return T(1);
  return std::ldexp(T(1), std::clamp(-std::ilogb(largest), std::numeric_limits<T>::min_exponent,
                                     std::numeric_limits<T>::max_exponent - 2));
}

/// Eigenvectors in the columns of v, values ascending.
template <class T>
void eigh(const part<const T>& a, const part<T>& v, T* values) {
  const std::int64_t n = a.rows;
  if (!is_finite(a)) {
    fill_nan(v);
    std::fill_n(values, n, std::numeric_limits<T>::quiet_NaN());
    return;
  }
  const auto room = static_cast<std::size_t>(n * n);
  const T scale = scale_of(a);
  std::vector<T> work(room), turned(room), d(static_cast<std::size_t>(n)), e(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < room; ++i) work[i] = a.data[i] * scale;
  const part<T> z{turned.data(), n, n, n};
  tridiagonalise(part<T>{work.data(), n, n, n}, d.data(), e.data(), z);
  const bool found = diagonalise(d.data(), e.data(), z);
  for (T& x : d) x = found ? x / scale : std::numeric_limits<T>::quiet_NaN();
  give_spectrum(d, z, v, values);
}

/// Rotates two rows of w, and of v, so that w's rows become orthogonal. False if they were already.
template <class T>
bool make_orthogonal(const part<T>& w, const part<T>& v, std::int64_t p, std::int64_t q, T tiny) {
  const T a = dot(w[p], w[p], w.columns), b = dot(w[q], w[q], w.columns), c = dot(w[p], w[q], w.columns);
  if (a <= tiny || b <= tiny || std::abs(c) <= std::numeric_limits<T>::epsilon() * std::sqrt(a * b)) return false;
  const T zeta = (b - a) / (T(2) * c);
  const T t = std::copysign(T(1), zeta) / (std::abs(zeta) + std::sqrt(T(1) + zeta * zeta));
  const T cosine = T(1) / std::sqrt(T(1) + t * t), sine = cosine * t;
  const auto turn = [&](T* __restrict x, T* __restrict y, std::int64_t n) {
    for (std::int64_t k = 0; k < n; ++k) {
      const T f = x[k];
      x[k] = cosine * f - sine * y[k];
      y[k] = sine * f + cosine * y[k];
    }
  };
  turn(w[p], w[q], w.columns);
  turn(v[p], v[q], v.columns);
  return true;
}

/// Makes row k of u a unit vector orthogonal to the rows before it.
template <class T>
void complete(const part<T>& u, std::int64_t k) {
  std::vector<T> left(static_cast<std::size_t>(u.columns), T(1));
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < u.columns; ++j) left[static_cast<std::size_t>(j)] -= u[i][j] * u[i][j];
  std::fill_n(u[k], u.columns, T(0));
  u[k][std::max_element(left.begin(), left.end()) - left.begin()] = 1;
  for (int turn = 0; turn < 2; ++turn) {
    for (std::int64_t i = 0; i < k; ++i) {
      const T c = dot(u[i], u[k], u.columns);
      for (std::int64_t j = 0; j < u.columns; ++j) u[k][j] -= c * u[i][j];
    }
    const T length = std::sqrt(dot(u[k], u[k], u.columns));
    for (std::int64_t j = 0; j < u.columns; ++j) u[k][j] /= length;
  }
}

/// u, s and transposed v from the rows of w, which are orthogonal columns times singular values, and from the rows of z.
template <class T>
void give_singular(const part<T>& w, const part<T>& z, T tiny, T scale, const part<T>& u, T* s, const part<T>& v) {
  const std::int64_t m = w.columns, n = w.rows;
  std::vector<T> lengths;
  for (std::int64_t k = 0; k < n; ++k) lengths.push_back(std::sqrt(dot(w[k], w[k], m)));
  const auto order = sorted_places(lengths, true);
  std::vector<T> turned(static_cast<std::size_t>(m * n));
  const part<T> rows{turned.data(), n, m, m};
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t from = order[static_cast<std::size_t>(k)];
    const T length = lengths[static_cast<std::size_t>(from)];
    s[k] = length / scale;
    for (std::int64_t i = 0; i < m; ++i) rows[k][i] = w[from][i] / length;
    if (length * length <= tiny) complete(rows, k);
    const T by = points_down(rows[k], m, 1) ? T(-1) : T(1);
    for (std::int64_t i = 0; i < m; ++i) u[i][k] = by * rows[k][i];
    for (std::int64_t j = 0; j < n; ++j) v[k][j] = by * z[from][j];
  }
}

/// Columns of u, descending singular values, rows of v, by rotations of pairs of columns.
template <class T>
void svd(const part<const T>& a, const part<T>& u, T* s, const part<T>& v) {
  const std::int64_t m = a.rows, n = a.columns;
  if (!is_finite(a)) {
    fill_nan(u);
    fill_nan(v);
    std::fill_n(s, n, std::numeric_limits<T>::quiet_NaN());
    return;
  }
  std::vector<T> columns(static_cast<std::size_t>(m * n)), turned(static_cast<std::size_t>(n * n));
  const part<T> w{columns.data(), n, m, m}, z{turned.data(), n, n, n};
  const T scale = scale_of(a);
  T all = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < m; ++i) w[j][i] = a[i][j] * scale;
    z[j][j] = 1;
    all += dot(w[j], w[j], m);
  }
  constexpr T eps = std::numeric_limits<T>::epsilon();
  const T tiny = all * eps * eps;
  bool turns = true;
  for (int sweep = 0; turns && sweep < 60; ++sweep) {
    turns = false;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) turns |= make_orthogonal(w, z, p, q, tiny);
  }
  give_singular(w, z, tiny, scale, u, s, v);
}

}  // namespace sinter::engine::factors
