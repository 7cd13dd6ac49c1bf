// linalg/small.hpp: small matrices in a trace, element by element, so that kernels fuse them with other ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "../sinter.hpp"

namespace sinter::linalg::small {

/// An element of every matrix of a stack.
template <class T>
using element_of = tensor<T, 1>;
template <class T>
using stack_of = tensor<T, 3>;

/// The greatest number of rows, and of columns of a right side, for which kernels compute each element separately.
inline constexpr std::int64_t most = 4;

inline bool is_small(dim n) { return !n.is_symbolic() && n.bits >= 1 && n.bits <= most; }
/// Whether a, with a right side of `columns`, is computed element by element. Only in a trace, where kernels fuse it.
template <class T>
bool is_small(const stack_of<T>& a, dim columns = 1) {
  return sinter::detail::tracing() && is_small(a.size(2)) && is_small(columns);
}

/// The elements of a stack of matrices.
template <class T>
struct elements {
  std::size_t rows, columns;
  std::vector<element_of<T>> all;

  explicit elements(const stack_of<T>& a)
      : rows(static_cast<std::size_t>(a.size(1).bits)), columns(static_cast<std::size_t>(a.size(2).bits)) {
    for (std::size_t k = 0; k < rows * columns; ++k) {
      const auto i = static_cast<std::int64_t>(k / columns), j = static_cast<std::int64_t>(k % columns);
      all.push_back(squeeze<1, 2>(slice<2>(slice<1>(a, i, i + 1), j, j + 1)));
    }
  }
  element_of<T>& operator()(std::size_t i, std::size_t j) { return all[i * columns + j]; }

  stack_of<T> joined() const {
    const dim b = all[0].size(0);
    return reshape(stack(all, axis<1>), {b, dim(rows), dim(columns)});
  }
};

/// Like the step cholesky.
template <class T>
stack_of<T> cholesky(const stack_of<T>& a) {
  elements<T> l(a);
  tensor<bool, 1> positive;
  for (std::size_t j = 0; j < l.rows; ++j) {
    for (std::size_t k = 0; k < j; ++k) l(j, j) = l(j, j) - l(j, k) * l(j, k);
    const tensor<bool, 1> here = l(j, j) > T(0) && l(j, j) < std::numeric_limits<T>::infinity();
    positive = j == 0 ? here : tensor<bool, 1>(positive && here);
    l(j, j) = sqrt(l(j, j));
    for (std::size_t i = j + 1; i < l.rows; ++i) {
      for (std::size_t k = 0; k < j; ++k) l(i, j) = l(i, j) - l(i, k) * l(j, k);
      l(i, j) = l(i, j) / l(j, j);
    }
  }
  for (std::size_t i = 0; i < l.rows; ++i)
    for (std::size_t j = 0; j < l.rows; ++j) {
      if (j <= i) l(i, j) = where(positive, l(i, j), std::numeric_limits<T>::quiet_NaN());
      else l(i, j) = zeros_like(l(i, j));
    }
  return l.joined();
}

/// y = a⁻¹·y for a triangle.
template <class T>
void solve_triangle(elements<T>& a, elements<T>& y, bool lower, bool unit) {
  for (std::size_t step = 0; step < a.rows; ++step) {
    const std::size_t i = lower ? step : a.rows - 1 - step;
    for (std::size_t c = 0; c < y.columns; ++c) {
      for (std::size_t j = lower ? 0 : i + 1; j < (lower ? i : a.rows); ++j) y(i, c) = y(i, c) - a(i, j) * y(j, c);
      if (!unit) y(i, c) = y(i, c) / a(i, i);
    }
  }
}
template <class T>
stack_of<T> solve_triangle(const stack_of<T>& a, const stack_of<T>& y, bool lower, bool unit) {
  elements<T> m(a), x(y);
  solve_triangle(m, x, lower, unit);
  return x.joined();
}

/// Exchanges rows i and k of x, from column j on, where c holds.
template <class T>
void exchange(elements<T>& x, const tensor<bool, 1>& c, std::size_t i, std::size_t k, std::size_t j) {
  for (; j < x.columns; ++j) {
    const element_of<T> upper = x(k, j), lower = x(i, j);
    x(k, j) = where(c, lower, upper);
    x(i, j) = where(c, upper, lower);
  }
}

/// Makes a upper triangular by row exchanges with the largest pivots. Does the same to y, and returns the sign of the
/// exchanges.
template <class T>
element_of<T> eliminate(elements<T>& a, elements<T>* y) {
  element_of<T> sign = full_like(a(0, 0), T(1));
  for (std::size_t k = 0; k < a.rows; ++k) {
    for (std::size_t i = k + 1; i < a.rows; ++i) {
      const tensor<bool, 1> larger = abs(a(i, k)) > abs(a(k, k));
      exchange(a, larger, i, k, k);
      if (y) exchange(*y, larger, i, k, 0);
      sign = where(larger, -sign, sign);
    }
    for (std::size_t i = k + 1; i < a.rows; ++i) {
      const element_of<T> f = where(a(k, k) == T(0), a(i, k), a(i, k) / a(k, k));
      for (std::size_t j = k + 1; j < a.columns; ++j) a(i, j) = a(i, j) - f * a(k, j);
      for (std::size_t c = 0; y && c < y->columns; ++c) (*y)(i, c) = (*y)(i, c) - f * (*y)(k, c);
    }
  }
  return sign;
}

/// a⁻¹·y by elimination with partial pivoting.
template <class T>
stack_of<T> solve(const stack_of<T>& a, const stack_of<T>& y) {
  elements<T> m(a), x(y);
  eliminate(m, &x);
  solve_triangle(m, x, false, false);
  return x.joined();
}

/// The pivots of a, and the sign of the exchanges.
template <class T>
std::pair<std::vector<element_of<T>>, element_of<T>> pivots(const stack_of<T>& a) {
  elements<T> m(a);
  std::pair<std::vector<element_of<T>>, element_of<T>> out{{}, eliminate<T>(m, nullptr)};
  for (std::size_t k = 0; k < m.rows; ++k) out.first.push_back(m(k, k));
  return out;
}

}  // namespace sinter::linalg::small
