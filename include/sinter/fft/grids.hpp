// fft/grids.hpp: transforms along several axes, shifts of the zero frequency, and the frequencies.
#pragma once

#include <cstdint>

#include "functions.hpp"

namespace sinter::fft {

namespace shapes {

/// Applies f(x, axis) for each of the axes, one after the other.
template <class X, class F>
auto by_axes(const X& x, axis_t<>, F&&) {
  return x;
}
template <class X, class F, int A, int... More>
auto by_axes(const X& x, axis_t<A, More...>, F&& f) {
  return by_axes(f(x, axis<A>), axis<More...>, f);
}

template <int... I>
constexpr axis_t<I...> listed(std::integer_sequence<int, I...>) {
  return {};
}
/// All axes.
template <class X>
using every = decltype(listed(std::make_integer_sequence<int, X::rank>{}));

/// The axes of a list without the last, and the last.
template <class Done, int... A>
struct apart;
template <int... Done, int Last>
struct apart<axis_t<Done...>, Last> {
  using others = axis_t<Done...>;
  static constexpr int last = Last;
};
template <int... Done, int First, int Second, int... More>
struct apart<axis_t<Done...>, First, Second, More...> : apart<axis_t<Done..., First>, Second, More...> {};

/// The elements of x from `from` on along an axis, followed by the elements before.
inline handle rolled(const handle& x, int axis, dim from, location at) {
  const dim n = x.extents[axis];
  const handle both[] = {views::slice_axis(x, axis, {from, n - from, 1}, at),
                         views::slice_axis(x, axis, {0, from, 1}, at)};
  return views::concat(both, axis, at);
}
template <bool Back, class X, int... A>
auto shifted(const X& x, axis_t<A...>, location at) {
  const auto part = [&](const auto& p) {
    using P = std::remove_cvref_t<decltype(p)>;
    handle h = untyped(p, at);
    ((h = rolled(h, place<X, A>(), Back ? h.extents[place<X, A>()] / 2 : (h.extents[place<X, A>()] + 1) / 2, at)), ...);
    return sinter::detail::typed<typename P::value_type, P::static_shape>(h, at);
  };
  if constexpr (complex_tensor<X>) return X(part(x.real()), part(x.imag()));
  else return part(sinter::detail::stage(x, at));
}

}  // namespace shapes

/// fft along the axes, by default all: `fftn(x, axis<0, 2>)`. x may be real or complex; the result is complex.
template <norm How = backward, class X, int... A>
auto fftn(const X& x, axis_t<A...> over, location at = location::current()) {
  return shapes::by_axes(x, over, [&](const auto& y, auto one) { return fft<How>(y, one, at); });
}
template <norm How = backward, class X>
auto fftn(const X& x, location at = location::current()) {
  return fftn<How>(x, shapes::every<X>{}, at);
}
/// fftn along the last two axes.
template <norm How = backward, class X>
auto fft2(const X& x, location at = location::current()) {
  return fftn<How>(x, axis<-2, -1>, at);
}
/// The inverse of fftn.
template <norm How = backward, class X, int... A>
auto ifftn(const X& x, axis_t<A...> over, location at = location::current()) {
  return shapes::by_axes(x, over, [&](const auto& y, auto one) { return ifft<How>(y, one, at); });
}
template <norm How = backward, class X>
auto ifftn(const X& x, location at = location::current()) {
  return ifftn<How>(x, shapes::every<X>{}, at);
}
/// The inverse of fft2.
template <norm How = backward, class X>
auto ifft2(const X& x, location at = location::current()) {
  return ifftn<How>(x, axis<-2, -1>, at);
}

/// rfft along the last of the axes, then fft along the others.
template <norm How = backward, class X, int... A>
auto rfftn(const X& x, axis_t<A...>, location at = location::current()) {
  using all = shapes::apart<axis_t<>, A...>;
  return fftn<How>(rfft<How>(x, axis<all::last>, at), typename all::others{}, at);
}
template <norm How = backward, class X>
auto rfftn(const X& x, location at = location::current()) {
  return rfftn<How>(x, shapes::every<X>{}, at);
}
/// rfftn along the last two axes.
template <norm How = backward, class X>
auto rfft2(const X& x, location at = location::current()) {
  return rfftn<How>(x, axis<-2, -1>, at);
}

/// The inverse of rfftn: a real tensor with n elements along the last of the axes, by default 2(m - 1) for an extent m.
template <norm How = backward, class X, int... A>
auto irfftn(const X& x, axis_t<A...>, location at = location::current()) {
  using all = shapes::apart<axis_t<>, A...>;
  return irfft<How>(ifftn<How>(x, typename all::others{}, at), axis<all::last>, at);
}
template <norm How = backward, class X, extent_like I, int... A>
auto irfftn(const X& x, I n, axis_t<A...>, location at = location::current()) {
  using all = shapes::apart<axis_t<>, A...>;
  return irfft<How>(ifftn<How>(x, typename all::others{}, at), n, axis<all::last>, at);
}
/// The inverse of rfft2: real, with n columns, by default 2(m - 1) for an extent m.
template <norm How = backward, class X>
auto irfft2(const X& x, location at = location::current()) {
  return irfftn<How>(x, axis<-2, -1>, at);
}
template <norm How = backward, class X, extent_like I>
auto irfft2(const X& x, I n, location at = location::current()) {
  return irfftn<How>(x, n, axis<-2, -1>, at);
}

/// Moves the zero frequency, the first element of a transform, to the middle of the axes, by default all. Any dtype and
/// shape. Copies.
template <class X, int... A>
auto fftshift(const X& x, axis_t<A...> over, location at = location::current()) {
  return shapes::shifted<false>(x, over, at.in("fftshift"));
}
template <class X>
auto fftshift(const X& x, location at = location::current()) {
  return fftshift(x, shapes::every<X>{}, at);
}
/// The inverse of fftshift.
template <class X, int... A>
auto ifftshift(const X& x, axis_t<A...> over, location at = location::current()) {
  return shapes::shifted<true>(x, over, at.in("ifftshift"));
}
template <class X>
auto ifftshift(const X& x, location at = location::current()) {
  return ifftshift(x, shapes::every<X>{}, at);
}

/// The frequencies of fft's results for samples at distance `spacing`: 0, 1, …, -2, -1 times 1 / (n·spacing). user_error for
/// a length below 1.
template <element T = float>
tensor<T, 1> fftfreq(std::int64_t n, double spacing = 1, location at = location::current()) {
  shapes::checked_length("fftfreq", n, at);
  const sinter::detail::index_leaf<std::int64_t, dims(1)> k({dim(n)}, 0);
  const double step = 1 / (static_cast<double>(n) * spacing);
  return tensor<T, 1>(cast<T>(mul(cast<double>(where(ge(k, (n + 1) / 2), sub(k, n), k)), step)), at);
}
/// The frequencies of rfft's results: 0, 1, …, n / 2 times 1 / (n·spacing). user_error for a length below 1.
template <element T = float>
tensor<T, 1> rfftfreq(std::int64_t n, double spacing = 1, location at = location::current()) {
  shapes::checked_length("rfftfreq", n, at);
  const sinter::detail::index_leaf<std::int64_t, dims(1)> k({dim(n / 2 + 1)}, 0);
  return tensor<T, 1>(cast<T>(mul(cast<double>(k), 1 / (static_cast<double>(n) * spacing))), at);
}

}  // namespace sinter::fft
