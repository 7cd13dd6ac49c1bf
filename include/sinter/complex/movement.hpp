// complex/movement.hpp: views of complex tensors, by views of their parts.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "functions.hpp"

namespace sinter {

// NAME<options>(z), by the parts. The result is a view if it is one for real tensors.
#define SINTER_COMPLEX_VIEW(NAME)                                       \
  template <auto... Options, complex_tensor X>                          \
  auto NAME(const X& z, location at = location::current()) {            \
    return detail::each_part(                                           \
        z, [&](const auto& x) { return NAME<Options...>(x, at); }, at); \
  }
// NAME(z, axis<…>).
#define SINTER_COMPLEX_AXIS_VIEW(NAME)                                          \
  template <complex_tensor X, int... A>                                         \
  auto NAME(const X& z, axis_t<A...> axes, location at = location::current()) { \
    return detail::each_part(                                                   \
        z, [&](const auto& x) { return NAME(x, axes, at); }, at);               \
  }
SINTER_COMPLEX_VIEW(transpose)
SINTER_COMPLEX_VIEW(swapaxes)
SINTER_COMPLEX_VIEW(reshape)
SINTER_COMPLEX_VIEW(broadcast_to)
SINTER_COMPLEX_VIEW(permute)
SINTER_COMPLEX_VIEW(expand_dims)
SINTER_COMPLEX_VIEW(squeeze)
SINTER_COMPLEX_VIEW(flip)
SINTER_COMPLEX_VIEW(slice)
SINTER_COMPLEX_AXIS_VIEW(permute)
SINTER_COMPLEX_AXIS_VIEW(expand_dims)
SINTER_COMPLEX_AXIS_VIEW(squeeze)
SINTER_COMPLEX_AXIS_VIEW(flip)
#undef SINTER_COMPLEX_AXIS_VIEW
#undef SINTER_COMPLEX_VIEW

template <complex_tensor X>
auto flatten(const X& z, location at = location::current()) {
  return detail::each_part(
      z, [&](const auto& x) { return flatten(x, at); }, at);
}
/// z with other extents; see reshape of real tensors.
template <complex_tensor X, extent_like... I>
auto reshape(const X& z, detail::placed_extent first, I... rest) {
  const std::array<dim, 1 + sizeof...(I)> to{first.value, dim(rest)...};
  return detail::each_part(
      z, [&](const auto& x) { return reshape(x, to, first.at); }, first.at);
}
template <complex_tensor X, extent_like I, std::size_t R>
auto reshape(const X& z, const std::array<I, R>& to, location at = location::current()) {
  return detail::each_part(
      z, [&](const auto& x) { return reshape(x, to, at); }, at);
}
/// z broadcast to larger extents; see broadcast_to of real tensors. A view.
template <complex_tensor X, extent_like... I>
auto broadcast_to(const X& z, detail::placed_extent first, I... rest) {
  const std::array<dim, 1 + sizeof...(I)> to{first.value, dim(rest)...};
  return detail::each_part(
      z, [&](const auto& x) { return broadcast_to(x, to, first.at); }, first.at);
}
/// A range of an axis; see slice of real tensors. A view.
template <complex_tensor X, int A>
auto slice(const X& z, axis_t<A> along, detail::axis_position first, detail::axis_position last = to_end,
           std::int64_t step = 1, location at = location::current()) {
  return detail::each_part(
      z, [&](const auto& x) { return slice(x, along, first, last, step, at); }, at);
}
template <int A, complex_tensor X>
auto slice(const X& z, detail::axis_position first, detail::axis_position last = to_end, std::int64_t step = 1,
           location at = location::current()) {
  return slice(z, axis<A>, first, last, step, at);
}
/// z rotated along an axis; see roll of real tensors. Copies.
template <complex_tensor X, int A>
auto roll(const X& z, std::int64_t shift, axis_t<A> along, location at = location::current()) {
  return detail::each_part(
      z, [&](const auto& x) { return roll(x, shift, along, at); }, at);
}
/// Running sums along an axis; see cumsum of real tensors.
template <complex_tensor X, int A>
auto cumsum(const X& z, axis_t<A> along, location at = location::current()) {
  return detail::each_part(
      z, [&](const auto& x) { return cumsum(x, along, at); }, at);
}
/// Elements by indices along an axis; see take of real tensors.
template <complex_tensor X, tensor_like I, int A = 0>
auto take(const X& z, const I& index, axis_t<A> along = {}, location at = location::current()) {
  const auto place = detail::stage(index, at);
  return detail::each_part(
      z, [&](const auto& x) { return take(x, place, along, at); }, at);
}
/// Zeros with z's extents, on its device.
template <complex_tensor X>
auto zeros_like(const X& z, location at = location::current()) {
  return detail::each_part(
      z, [&](const auto& x) { return zeros_like(x, at); }, at);
}

/// The conjugates of the transposed matrices.
template <complex_tensor X>
auto adjoint(const X& z, location at = location::current()) {
  return conj(transpose(z, at), at);
}

}  // namespace sinter
