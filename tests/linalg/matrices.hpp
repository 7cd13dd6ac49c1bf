// tests/linalg/matrices.hpp: matrices to factorise, and all factors of one in a vector.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/linalg.hpp>

#include "../close.hpp"

namespace matrices {

using namespace sinter;
using real = tensor<double, 0>;
using vec = tensor<double, 1>;
using matrix = tensor<double, 2>;
using stacks = tensor<double, 3>;
using doubles = std::vector<double>;

/// Random numbers, the same for the same seed.
inline stacks random_stack(int seed, std::int64_t b, std::int64_t m, std::int64_t n) {
  return normal<double>(make_key(static_cast<std::uint64_t>(seed)), b, m, n);
}
inline matrix random_matrix(int seed, std::int64_t m, std::int64_t n) {
  return normal<double>(make_key(static_cast<std::uint64_t>(seed)), m, n);
}
/// Positive definite ones.
inline stacks positive(const stacks& a) { return matmul(a, transpose(a)) + 0.5 * eye<double>(a.size(1), a.device()); }

template <class X>
vec flat(const X& x) {
  return flatten(x);
}

/// Everything there is of square a and a right side, in one vector; factors are unique by their signs.
inline vec everything(const stacks& a, const stacks& y) {
  const stacks p = positive(a);
  const auto [q, r] = linalg::qr(a);
  const auto [perm, l, u] = linalg::lu(a);
  const auto [w, v] = linalg::eigh(p);
  const auto [left, s, right] = linalg::svd(a);
  const auto [sign, log_det] = linalg::slogdet(a);
  const vec one = concat(flat(linalg::cholesky(p)), flat(q), flat(r), flat(perm), flat(l), flat(u), flat(w), flat(v));
  const vec two = concat(flat(left), flat(s), flat(right), sign, log_det, linalg::logdet(p), linalg::det(a),
                         flat(linalg::solve(a, y)), flat(linalg::inv(a)));
  const vec three = concat(flat(linalg::triangular_solve(p, y)),
                           flat(linalg::triangular_solve(p, y, {.lower = false, .transposed = true})),
                           flat(linalg::triangular_solve(0.1 * p, y, {.lower = false, .unit = true})));
  const vec four = concat(linalg::matrix_norm(a), linalg::matrix_norm<linalg::nuc>(a),
                          linalg::matrix_norm<linalg::two>(a), linalg::matrix_norm<linalg::one>(a),
                          linalg::matrix_norm<linalg::inf>(a), flat(linalg::matrix_power(a, 5)));
  return concat(one, two, three, four);
}

}  // namespace matrices
