// fft/functions.hpp: transforms along one axis, of complex, real and symmetric numbers, and their inverses.
#pragma once

#include <cmath>
#include <cstdint>

#include "shapes.hpp"

namespace sinter::fft {

namespace shapes {

using steps::fourier_request;
using steps::fourier_scale;

constexpr fourier_scale scale_of(norm how, bool inverse) {
  if (how == ortho) return fourier_scale::root;
  return (how == forward) == inverse ? fourier_scale::none : fourier_scale::whole;
}

/// x·scale(n), for an n that may be symbolic.
template <class T>
handle scaled(const handle& x, fourier_scale how, dim n, location at) {
  if (how == fourier_scale::none) return x;
  const auto r = rows<T>(x, at);
  if (!n.is_symbolic()) {
    const auto count = static_cast<double>(n.bits);
    const double by = 1 / (how == fourier_scale::root ? std::sqrt(count) : count);
    return untyped(mul(r, static_cast<T>(by), at), at);
  }
  const auto count = sinter::detail::size_value<T>(n, at);
  if (how == fourier_scale::root) return untyped(div(r, sqrt(count, at), at), at);
  return untyped(div(r, count, at), at);
}

/// cos and sin of 2πk / n for k = 0 … count - 1, at most n / 2, along axis 1 of two. Exact at 0 and n / 2.
template <class T>
std::pair<tensor<T, 2>, tensor<T, 2>> circle(dim count, dim n, location at) {
  const sinter::detail::index_leaf<std::int64_t, dims(2)> k({dim(1), count}, 1);
  const double by = 2 * 3.141592653589793 / static_cast<double>(n.bits);
  const auto near = minimum(k, sub(n.bits / 2, k, at), at);
  return {tensor<T, 2>(cast<T>(cos(mul(cast<double>(k, at), by, at), at), at), at),
          tensor<T, 2>(cast<T>(sin(mul(cast<double>(near, at), by, at), at), at), at)};
}

inline handle reversed(const handle& x, location at) {
  op_shapes::axis_list last;
  last.at[last.count++] = 1;
  return views::flip(x, last, at);
}
inline handle first_of(const handle& x, dim from, dim count, location at) {
  return views::slice_axis(x, 1, {from, count, 1}, at);
}
inline handle joined(const handle& a, const handle& b, location at) {
  const handle both[] = {a, b};
  return views::concat(both, 1, at);
}

/// Whether n is a known even number: real rows are then complex rows of half the length.
inline bool halves(dim n) { return !n.is_symbolic() && n.bits > 0 && n.bits % 2 == 0; }

/// The first n / 2 + 1 numbers of the transform of real rows (b, n). For even n it transforms z[j] = x[2j] + i·x[2j + 1]. The
/// symmetric halves of that transform are the transforms of the even and of the odd elements.
template <class T>
parts real_transformed(const handle& x, fourier_scale scale, location at) {
  const dim n = x.extents[1], count = n / 2 + 1;
  if (!halves(n)) {
    const parts y = transformed<T>({x, untyped(zeros_like(rows<T>(x, at)), at)}, {false, scale}, at);
    return {first_of(y.re, 0, count, at), first_of(y.im, 0, count, at)};
  }
  const dim m = n / 2;
  const auto pairs = sinter::detail::typed<T, dims(3)>(views::reshape(x, {x.extents[0], m, 2}, at), at);
  const parts z = unwoven(untyped(steps::transform<T>(pairs, {}, at), at), at);
  const parts all{joined(z.re, first_of(z.re, 0, 1, at), at), joined(z.im, first_of(z.im, 0, 1, at), at)};
  const auto ar = rows<T>(all.re, at), ai = rows<T>(all.im, at), br = rows<T>(reversed(all.re, at), at),
             bi = rows<T>(reversed(all.im, at), at);
  const auto [c, s] = circle<T>(count, n, at);
  // Twice the transforms of the even and of the odd elements: (a + conj b), -i·(a - conj b).
  const auto er = add(ar, br, at);
  const auto ei = sub(ai, bi, at);
  const auto pr = add(ai, bi, at);
  const auto pi = sub(br, ar, at);
  const T half = T(0.5);
  const parts y{untyped(mul(add(er, add(mul(pr, c, at), mul(pi, s, at), at), at), half, at), at),
                untyped(mul(add(ei, sub(mul(pi, c, at), mul(pr, s, at), at), at), half, at), at)};
  return {scaled<T>(y.re, scale, n, at), scaled<T>(y.im, scale, n, at)};
}

/// The real rows (b, n) whose transform begins with z (b, n / 2 + 1). Imaginary parts are ignored where such a transform is
/// real.
template <class T>
handle real_inverse(const parts& z, dim n, fourier_scale scale, location at) {
  const dim count = n / 2 + 1;
  if (!halves(n)) {
    const dim rest = n - count;
    const handle re = joined(z.re, reversed(first_of(z.re, 1, rest, at), at), at);
    const auto back = rows<T>(reversed(first_of(z.im, 1, rest, at), at), at);
    const handle im = joined(z.im, untyped(neg(back, at), at), at);
    return transformed<T>({re, im}, {true, scale}, at).re;
  }
  const dim m = n / 2;
  const auto all = rows<T>(z.im, at);
  const sinter::detail::index_leaf<std::int64_t, dims(2)> k({dim(1), count}, 1);
  const auto at_an_end = bit_or(eq(k, 0, at), eq(k, m.bits, at), at);
  const handle clean = untyped(where(at_an_end, 0, all, at), at);
  const auto ar = rows<T>(first_of(z.re, 0, m, at), at), ai = rows<T>(first_of(clean, 0, m, at), at),
             br = rows<T>(first_of(reversed(z.re, at), 0, m, at), at),
             bi = rows<T>(first_of(reversed(clean, at), 0, m, at), at);
  const auto [c, s] = circle<T>(m, n, at);
  // a + conj b + i·w·(a - conj b) for w = exp(2πik / n).
  const auto dr = sub(ar, br, at);
  const auto di = add(ai, bi, at);
  const auto qr = sub(mul(dr, c, at), mul(di, s, at), at);
  const auto qi = add(mul(dr, s, at), mul(di, c, at), at);
  const handle re = untyped(sub(add(ar, br, at), qi, at), at), im = untyped(add(sub(ai, bi, at), qr, at), at);
  const auto pairs = sinter::detail::typed<T, dims(3)>(woven({re, im}, at), at);
  const handle y = untyped(steps::transform<T>(pairs, {true, fourier_scale::none}, at), at);
  return scaled<T>(views::reshape(y, {y.extents[0], n}, at), scale, n, at);
}

/// f of the rows along an axis: f takes and returns parts of handles (b, n).
template <class F>
parts along(const parts& z, int axis, location at, F&& f) {
  const parts y = f(parts{as_rows(z.re, axis, at), as_rows(z.im, axis, at)});
  return {from_rows(y.re, z.re.extents, axis, at), from_rows(y.im, z.re.extents, axis, at)};
}

/// Stands for an omitted length.
inline constexpr std::int64_t same = -1;

template <norm How, bool Inverse, int A, bool Given, class X>
auto complex_along(const char* name, const X& x, dim n, location where) {
  using T = typename real_of<X>::type;
  const location at = where.in(name);
  constexpr int axis = place<X, A>();
  constexpr dims shape = with_extent(X::static_shape, axis, Given ? dim(dyn) : X::static_shape[axis]);
  parts z = parts_of(x, at);
  if constexpr (Given) {
    checked_length(name, n, at);
    z = {resized(z.re, axis, n, at), resized(z.im, axis, n, at)};
  }
  const parts y = along(z, axis, at, [&](const parts& r) {
    return transformed<T>(r, {Inverse, scale_of(How, Inverse)}, at);
  });
  return whole<T, shape>(y, at);
}

template <norm How, int A, bool Given, class X>
auto real_along(const char* name, const X& x, dim n, location where) {
  using T = typename X::value_type;
  const location at = where.in(name);
  constexpr int axis = place<X, A>();
  constexpr dim have = Given ? dim(dyn) : X::static_shape[axis];
  constexpr dims shape = with_extent(X::static_shape, axis, have == dim(dyn) ? have : have / 2 + 1);
  handle h = untyped(x, at);
  if constexpr (Given) h = resized(h, axis, checked_length(name, n, at), at);
  checked_length(name, h.extents[axis], at);
  const parts y = real_transformed<T>(as_rows(h, axis, at), scale_of(How, false), at);
  return whole<T, shape>({from_rows(y.re, h.extents, axis, at), from_rows(y.im, h.extents, axis, at)}, at);
}

template <norm How, int A, class X>
auto real_back_along(const char* name, const X& x, dim n, location where) {
  using T = typename real_of<X>::type;
  const location at = where.in(name);
  constexpr int axis = place<X, A>();
  parts z = parts_of(x, at);
  const dim length = n == dim(same) ? 2 * (z.re.extents[axis] - 1) : n;
  checked_length(name, length, at);
  z = {resized(z.re, axis, length / 2 + 1, at), resized(z.im, axis, length / 2 + 1, at)};
  const parts r{as_rows(z.re, axis, at), as_rows(z.im, axis, at)};
  const handle y = real_inverse<T>(r, length, scale_of(How, true), at);
  return sinter::detail::typed<T, with_extent(X::static_shape, axis, dyn)>(from_rows(y, z.re.extents, axis, at), at);
}

}  // namespace shapes

/// The transform of x along an axis, by default the last: y[k] = Σ x[j]·exp(-2πi·jk / n). x may be real or complex; the
/// result is complex. A length n truncates the axis, or pads it with zeros. `fft::fft<fft::ortho>(x)` scales. user_error for
/// a length below 1.
template <norm How = backward, class X>
requires(complex_tensor<X> || tensor_like<X>) auto fft(const X& x, location at = location::current()) {
  if constexpr (shapes::takes<X>()) return shapes::complex_along<How, false, -1, false>("fft", x, 0, at);
}
template <norm How = backward, class X, int A>
requires(complex_tensor<X> || tensor_like<X>) auto fft(const X& x, axis_t<A>, location at = location::current()) {
  if constexpr (shapes::takes<X>()) return shapes::complex_along<How, false, A, false>("fft", x, 0, at);
}
template <norm How = backward, class X, extent_like I, int A = -1>
requires(complex_tensor<X> || tensor_like<X>) auto fft(const X& x, I n, axis_t<A> = {},
                                                       location at = location::current()) {
  if constexpr (shapes::takes<X>()) return shapes::complex_along<How, false, A, true>("fft", x, dim(n), at);
}

/// The inverse of fft: x[j] = 1/n Σ y[k]·exp(2πi·jk / n).
template <norm How = backward, class X>
requires(complex_tensor<X> || tensor_like<X>) auto ifft(const X& x, location at = location::current()) {
  if constexpr (shapes::takes<X>()) return shapes::complex_along<How, true, -1, false>("ifft", x, 0, at);
}
template <norm How = backward, class X, int A>
requires(complex_tensor<X> || tensor_like<X>) auto ifft(const X& x, axis_t<A>, location at = location::current()) {
  if constexpr (shapes::takes<X>()) return shapes::complex_along<How, true, A, false>("ifft", x, 0, at);
}
template <norm How = backward, class X, extent_like I, int A = -1>
requires(complex_tensor<X> || tensor_like<X>) auto ifft(const X& x, I n, axis_t<A> = {},
                                                        location at = location::current()) {
  if constexpr (shapes::takes<X>()) return shapes::complex_along<How, true, A, true>("ifft", x, dim(n), at);
}

/// The first n / 2 + 1 numbers of a real tensor's transform; the other numbers are their conjugates.
template <norm How = backward, class X>
requires(complex_tensor<X> || tensor_like<X>) auto rfft(const X& x, location at = location::current()) {
  if constexpr (shapes::takes_real<X>()) return shapes::real_along<How, -1, false>("rfft", x, 0, at);
}
template <norm How = backward, class X, int A>
requires(complex_tensor<X> || tensor_like<X>) auto rfft(const X& x, axis_t<A>, location at = location::current()) {
  if constexpr (shapes::takes_real<X>()) return shapes::real_along<How, A, false>("rfft", x, 0, at);
}
template <norm How = backward, class X, extent_like I, int A = -1>
requires(complex_tensor<X> || tensor_like<X>) auto rfft(const X& x, I n, axis_t<A> = {},
                                                        location at = location::current()) {
  if constexpr (shapes::takes_real<X>()) return shapes::real_along<How, A, true>("rfft", x, dim(n), at);
}

/// The inverse of rfft: a real tensor with n elements along the axis, by default 2(m - 1) for an extent m. For an odd n write
/// irfft(y, n). The imaginary parts of y[0] and, for even n, of y[n / 2] do not count.
template <norm How = backward, class X>
requires(complex_tensor<X> || tensor_like<X>) auto irfft(const X& x, location at = location::current()) {
  if constexpr (shapes::takes<X>()) return shapes::real_back_along<How, -1>("irfft", x, shapes::same, at);
}
template <norm How = backward, class X, int A>
requires(complex_tensor<X> || tensor_like<X>) auto irfft(const X& x, axis_t<A>, location at = location::current()) {
  if constexpr (shapes::takes<X>()) return shapes::real_back_along<How, A>("irfft", x, shapes::same, at);
}
template <norm How = backward, class X, extent_like I, int A = -1>
requires(complex_tensor<X> || tensor_like<X>) auto irfft(const X& x, I n, axis_t<A> = {},
                                                         location at = location::current()) {
  if constexpr (shapes::takes<X>())
    return shapes::real_back_along<How, A>("irfft", x, shapes::checked_length("irfft", dim(n), at), at);
}

namespace shapes {

/// The norm that scales a transform as How scales its inverse.
constexpr norm opposite(norm how) { return how == backward ? forward : how == forward ? backward : how; }

template <norm How, int A, class X>
auto symmetric_along(const X& x, dim n, location at) {
  if constexpr (complex_tensor<X>) return real_back_along<opposite(How), A>("hfft", conj(x, at), n, at);
  else return real_back_along<opposite(How), A>("hfft", x, n, at);
}
template <norm How, int A, bool Given, class X>
auto symmetric_back_along(const X& x, dim n, location at) {
  return conj(real_along<opposite(How), A, Given>("ihfft", x, n, at), at);
}

}  // namespace shapes

/// fft of a symmetric signal, x[-j] = conj(x[j]), given its first n / 2 + 1 numbers. The result is a real tensor with n
/// elements along the axis, by default 2(m - 1) for an extent m. For an odd n write hfft(x, n).
template <norm How = backward, class X>
requires(complex_tensor<X> || tensor_like<X>) auto hfft(const X& x, location at = location::current()) {
  if constexpr (shapes::takes<X>()) return shapes::symmetric_along<How, -1>(x, shapes::same, at);
}
template <norm How = backward, class X, int A>
requires(complex_tensor<X> || tensor_like<X>) auto hfft(const X& x, axis_t<A>, location at = location::current()) {
  if constexpr (shapes::takes<X>()) return shapes::symmetric_along<How, A>(x, shapes::same, at);
}
template <norm How = backward, class X, extent_like I, int A = -1>
requires(complex_tensor<X> || tensor_like<X>) auto hfft(const X& x, I n, axis_t<A> = {},
                                                        location at = location::current()) {
  if constexpr (shapes::takes<X>())
    return shapes::symmetric_along<How, A>(x, shapes::checked_length("hfft", dim(n), at), at);
}

/// The inverse of hfft: the first n / 2 + 1 numbers of a real tensor's inverse transform.
template <norm How = backward, class X>
requires(complex_tensor<X> || tensor_like<X>) auto ihfft(const X& x, location at = location::current()) {
  if constexpr (shapes::takes_real<X>()) return shapes::symmetric_back_along<How, -1, false>(x, 0, at);
}
template <norm How = backward, class X, int A>
requires(complex_tensor<X> || tensor_like<X>) auto ihfft(const X& x, axis_t<A>, location at = location::current()) {
  if constexpr (shapes::takes_real<X>()) return shapes::symmetric_back_along<How, A, false>(x, 0, at);
}
template <norm How = backward, class X, extent_like I, int A = -1>
requires(complex_tensor<X> || tensor_like<X>) auto ihfft(const X& x, I n, axis_t<A> = {},
                                                         location at = location::current()) {
  if constexpr (shapes::takes_real<X>()) return shapes::symmetric_back_along<How, A, true>(x, dim(n), at);
}

}  // namespace sinter::fft
