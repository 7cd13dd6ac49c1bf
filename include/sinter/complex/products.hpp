// complex/products.hpp: sums of products of complex tensors, norms and variances.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <utility>

#include "functions.hpp"
#include "movement.hpp"

namespace sinter {

namespace detail {

/// For each term of a product's real (or, with `Odd`, imaginary) part, the operands that supply their imaginary parts, as bits.
template <bool Odd, bool... Complex>
constexpr auto product_terms() {
  constexpr std::size_t n = sizeof...(Complex);
  constexpr bool complex[] = {Complex...};
  struct {
    std::size_t count = 0;
    std::array<unsigned, (std::size_t{1} << n)> mask{};
  } all;
  for (unsigned m = 0; m < (1u << n); ++m) {
    bool exists = (std::popcount(m) % 2 == 1) == Odd;
    for (std::size_t i = 0; i < n; ++i) exists = exists && (complex[i] || !(m >> i & 1u));
    if (exists) all.mask[all.count++] = m;
  }
  return all;
}

template <bool Imaginary, class X>
auto chosen_part(const X& x, location at) {
  if constexpr (!complex_tensor<X>) return stage(x, at);
  else if constexpr (Imaginary) return x.imag();
  else return x.real();
}

template <fixed_string Text, unsigned Mask, class... X, std::size_t... I>
auto einsum_term(std::index_sequence<I...>, location at, const X&... x) {
  return stage(einsum_all<Text>(at, chosen_part<(Mask >> I & 1u) != 0>(x, at)...), at);
}

/// The real or imaginary part of an einsum; a factor i² makes a term negative.
template <fixed_string Text, bool Odd, class... X>
auto einsum_part(location at, const X&... x) {
  constexpr auto terms = product_terms<Odd, complex_tensor<X>...>();
  constexpr auto operands = std::index_sequence_for<X...>{};
  auto total = einsum_term<Text, terms.mask[0]>(operands, at, x...);
  const auto more = [&]<std::size_t K>(std::integral_constant<std::size_t, K>) {
    const auto term = einsum_term<Text, terms.mask[K]>(operands, at, x...);
    if constexpr (std::popcount(terms.mask[K]) / 2 % 2 == 1) total = stage(sub(total, term, at), at);
    else total = stage(add(total, term, at), at);
  };
  [&]<std::size_t... K>(std::index_sequence<K...>) { (more(std::integral_constant<std::size_t, K + 1>{}), ...); }
  (std::make_index_sequence<terms.count - 1>{});
  return total;
}

template <fixed_string Text, class... X>
auto complex_einsum(location at, const X&... x) {
  return joined_parts(einsum_part<Text, false>(at, x...), einsum_part<Text, true>(at, x...), at);
}
template <class... X>
concept complex_operands = (complex_tensor<X> || ...) && ((complex_tensor<X> || tensor_like<X>)&&...);

}  // namespace detail

/// einsum of one to four operands, of which some may be real; see einsum of real tensors. It does not conjugate: write conj(z).
template <fixed_string Text, complex_tensor A>
auto einsum(const A& a, location at = location::current()) {
  return detail::complex_einsum<Text>(at.in("einsum"), a);
}
template <fixed_string Text, class A, class B>
requires detail::complex_operands<A, B>
auto einsum(const A& a, const B& b, location at = location::current()) {
  return detail::complex_einsum<Text>(at.in("einsum"), a, b);
}
template <fixed_string Text, class A, class B, class C>
requires detail::complex_operands<A, B, C>
auto einsum(const A& a, const B& b, const C& c, location at = location::current()) {
  return detail::complex_einsum<Text>(at.in("einsum"), a, b, c);
}
template <fixed_string Text, class A, class B, class C, class D>
requires detail::complex_operands<A, B, C, D>
auto einsum(const A& a, const B& b, const C& c, const D& d, location at = location::current()) {
  return detail::complex_einsum<Text>(at.in("einsum"), a, b, c, d);
}

/// x[i]·y[j] of all pairs. One side may be real. It does not conjugate.
template <class X, class Y>
requires detail::complex_operands<X, Y>
auto outer(const X& x, const Y& y, location at = location::current()) {
  const auto column = [&](const auto& z) { return expand_dims<1>(detail::stage(flatten(z, at), at), at); };
  const auto row = [&](const auto& z) { return detail::stage(flatten(z, at), at); };
  const auto of = [&](const auto& z, const auto& f) {
    if constexpr (complex_tensor<decltype(z)>) return detail::each_part(z, f, at);
    else return f(z);
  };
  return mul(of(x, column), of(y, row), at);
}

/// The norm of the magnitudes, real; see norm of real tensors, also norm<1> and norm<norm_max>.
template <int Ord = 2, complex_tensor X, int... A>
auto norm(const X& z, axis_t<A...> over = {}, location at = location::current()) {
  return norm<Ord>(abs(z, at), over, at);
}
template <int Ord = 2, complex_tensor X, int... A>
auto norm(const X& z, axis_t<A...> over, keepdims_t, location at = location::current()) {
  return norm<Ord>(abs(z, at), over, keepdims, at);
}
template <int Ord = 2, complex_tensor X>
auto norm(const X& z, keepdims_t, location at = location::current()) {
  return norm<Ord>(abs(z, at), keepdims, at);
}

/// The mean of |z - mean|², real, which is the sum of both parts' variances. Divides by n - ddof.
template <complex_tensor X, int... A>
auto var(const X& z, axis_t<A...> over = {}, int ddof = 0, location at = location::current()) {
  return detail::stage(add(var(z.real(), over, ddof, at), var(z.imag(), over, ddof, at), at), at);
}
/// The root of var.
template <complex_tensor X, int... A>
auto std(const X& z, axis_t<A...> over = {}, int ddof = 0, location at = location::current()) {
  return detail::stage(hypot(sinter::std(z.real(), over, ddof, at), sinter::std(z.imag(), over, ddof, at), at), at);
}

}  // namespace sinter
