// linalg/complex.hpp: functions of complex matrices, by real matrices of twice the size; other functions refuse complex
// matrices.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "matrices.hpp"

namespace sinter::linalg {

/// A complex tensor, of <sinter/complex.hpp>.
template <class Z>
concept complex_matrices = requires {
  typename Z::complex_tensor_tag;
};

namespace steps {

/// {{re, -im}, {im, re}}. Sums, products, inverses and adjoints of these real matrices are those of the complex matrices.
/// Singular values are the same, each twice.
template <class Z>
auto block_form(const Z& z, location at) {
  using sinter::detail::evaluate;
  const auto turned = evaluate(neg(z.imag(), at), at);
  return concat<-2>(concat<-1>(z.real(), turned), concat<-1>(z.imag(), z.real()));
}

/// The two halves of x along an axis, as the parts of a complex tensor of static shape S.
template <dims S, int Axis, class X>
auto as_halves(const X& x, location at) {
  using T = typename X::value_type;
  const dim n = x.size(Axis) / 2;
  const auto part = [&](const auto& h) { return sinter::detail::typed<T, S>(sinter::detail::untyped(h, at), at); };
  return tensor<std::complex<T>, S>(part(slice<Axis>(x, 0, n, 1, at)), part(slice<Axis>(x, n, to_end, 1, at)));
}
/// The complex matrices in the first columns of a block form.
template <dims S, class X>
auto of_block(const X& x, location at) {
  return as_halves<S, -2>(slice<-1>(x, 0, x.size(-1) / 2, 1, at), at);
}

}  // namespace steps

/// solve with a complex side; both sides have one precision. It solves the real system of twice the size {{re, -im}, {im,
/// re}}, whose condition is the same. That takes twice the operations of a complex solver.
template <complex_matrices A, class Y>
requires(complex_matrices<Y> || tensor_like<Y>) auto solve(const A& a, const Y& y, location at = location::current()) {
  using sinter::detail::evaluate;
  constexpr bool vector = Y::rank == 1;
  constexpr int along = vector ? -1 : -2;
  const auto both = [&] {
    if constexpr (complex_matrices<Y>) return concat<along>(y.real(), y.imag());
    else return concat<along>(evaluate(y, at), zeros_like(evaluate(y, at)));
  };
  const auto x = solve(steps::block_form(a, at), both(), at);
  constexpr dims right = [] {
    if constexpr (complex_matrices<Y>) return Y::part_type::static_shape;
    else return Y::static_shape;
  }();
  return steps::as_halves<shapes::solution_shape(A::static_shape, right), along>(x, at);
}
template <tensor_like A, complex_matrices Y>
auto solve(const A& a, const Y& y, location at = location::current()) {
  const auto re = solve(a, y.real(), at), im = solve(a, y.imag(), at);
  return tensor<typename Y::value_type, std::remove_cvref_t<decltype(re)>::static_shape>(re, im);
}

/// The inverse of complex matrices; see solve.
template <complex_matrices A>
auto inv(const A& a, location at = location::current()) {
  return steps::of_block<A::static_shape>(inv(steps::block_form(a, at), at), at);
}
/// The pseudo-inverse of complex matrices; singular values of at most 2·max(m, n)·eps times the largest count as 0.
template <complex_matrices A>
auto pinv(const A& a, location at = location::current()) {
  constexpr dims s = A::static_shape;
  return steps::of_block<shapes::joined(shapes::batch_of(s), {s[A::rank - 1], s[A::rank - 2]})>(
      pinv(steps::block_form(a, at), at), at);
}
/// lstsq of complex matrices.
template <complex_matrices A, class Y>
auto lstsq(const A& a, const Y& y, location at = location::current()) {
  return matmul(pinv(a, at), y, at);
}
/// The exponential of complex matrices.
template <complex_matrices A>
auto expm(const A& a, location at = location::current()) {
  return steps::of_block<A::static_shape>(expm(steps::block_form(a, at), at), at);
}
/// A power of complex matrices.
template <complex_matrices A>
auto matrix_power(const A& a, std::int64_t n, location at = location::current()) {
  return steps::of_block<A::static_shape>(matrix_power(steps::block_form(a, at), n, at), at);
}
/// The real norm of each complex matrix.
template <norm_kind Kind = fro, complex_matrices A>
auto matrix_norm(const A& a, location at = location::current()) {
  if constexpr (Kind == two) return matrix_norm<two>(steps::block_form(a, at), at);
  else if constexpr (Kind == nuc)
    return sinter::detail::evaluate(mul(matrix_norm<nuc>(steps::block_form(a, at), at), 0.5, at), at);
  else return matrix_norm<Kind>(abs(a, at), at);
}

// Functions that refuse complex matrices.
#define SINTER_REAL_MATRICES(NAME)                                                          \
  template <complex_matrices A, class... More>                                              \
  A NAME(const A& a, const More&...) {                                                      \
    static_assert(!sizeof(A), "sinter: [" #NAME                                             \
                              "] takes real matrices; complex ones have solve, inv, pinv, " \
                              "lstsq, expm, matrix_power and matrix_norm");                 \
    return a;                                                                               \
  }
SINTER_REAL_MATRICES(cholesky)
SINTER_REAL_MATRICES(triangular_solve)
SINTER_REAL_MATRICES(lu)
SINTER_REAL_MATRICES(qr)
SINTER_REAL_MATRICES(det)
SINTER_REAL_MATRICES(slogdet)
SINTER_REAL_MATRICES(logdet)
SINTER_REAL_MATRICES(eigh)
SINTER_REAL_MATRICES(svd)
#undef SINTER_REAL_MATRICES

}  // namespace sinter::linalg
