// fft/shapes.hpp: checks of operands, and an axis of a tensor as rows; on handles, so that it is compiled once.
#pragma once

#include <string>

#include "steps.hpp"

namespace sinter::fft::shapes {

using sinter::detail::handle;
using sinter::detail::untyped;
namespace views = sinter::detail::views;

/// A complex tensor without its static type.
struct parts {
  handle re, im;
};

/// Returns false after a compile-time error unless X is a tensor that transforms take.
template <class X>
constexpr bool takes() {
  if constexpr (complex_tensor<X>) {
    constexpr bool axes = X::rank >= 1;
    static_assert(axes, "sinter: [fft] a transform is along an axis, and the tensor has none");
    return axes;
  } else {
    using T = typename X::value_type;
    constexpr bool floats = is_plain_float<T>, axes = X::rank >= 1;
    static_assert(floats, "sinter: [fft] takes float, double, complex64 or complex128; cast with cast<float>(x)");
    static_assert(axes, "sinter: [fft] a transform is along an axis, and the tensor has none");
    return floats && axes;
  }
}
/// Like takes, for rfft and ihfft.
template <class X>
constexpr bool takes_real() {
  if constexpr (complex_tensor<X>) {
    static_assert(!complex_tensor<X>,
                  "sinter: [rfft, ihfft] takes real numbers; of complex ones write fft::fft(z), fft::ifft(z)");
    return false;
  } else {
    return takes<X>();
  }
}

/// The dtype of the parts.
template <class X>
struct real_of : std::type_identity<typename X::value_type> {};
template <complex_tensor X>
struct real_of<X> : std::type_identity<typename X::real_type> {};

/// The index of an axis; a compile-time error if it does not exist.
template <class X, int A>
consteval int place() {
  constexpr bool exists = A >= -X::rank && A < X::rank;
  static_assert(exists, "sinter: [fft] the axis is out of range for the tensor's rank");
  return !exists ? 0 : A < 0 ? A + X::rank : A;
}

/// A zero of any dtype.
inline constexpr double zero = 0;

/// x with n elements along an axis: truncated, or padded with zeros.
inline handle resized(const handle& x, int axis, dim n, location at) {
  const dim have = x.extents[axis];
  if (have == n) return x;
  if (n < have) return views::slice_axis(x, axis, {0, n, 1}, at);
  dims low, high;
  for (int i = 0; i < x.extents.rank; ++i) {
    low.push(0);
    high.push(i == axis ? n - have : dim(0));
  }
  return views::pad(x, low, high, {}, &zero, true, at);
}
inline dim checked_length(const char* op, dim n, location at) {
  if (n < 1) fail(op, "the length is " + n.text() + "; give 1 or more", at);
  return n;
}

/// The permutation that moves `axis` to the end.
inline op_shapes::axis_list axis_last(int rank, int axis) {
  op_shapes::axis_list perm;
  for (int i = 0; i < rank; ++i)
    if (i != axis) perm.at[perm.count++] = i;
  perm.at[perm.count++] = axis;
  return perm;
}
inline op_shapes::axis_list axis_back(int rank, int axis) {
  op_shapes::axis_list perm;
  for (int i = 0; i < rank; ++i) perm.at[perm.count++] = i < axis ? i : i == axis ? rank - 1 : i - 1;
  return perm;
}

/// Rows (b, n) along an axis.
inline handle as_rows(const handle& x, int axis, location at) {
  dim b = 1;
  for (int i = 0; i < x.extents.rank; ++i)
    if (i != axis) b *= x.extents[i];
  const int rank = x.extents.rank;
  const handle turned = axis == rank - 1 ? x : views::permute(x, axis_last(rank, axis), at);
  return views::reshape(turned, {b, x.extents[axis]}, at);
}
/// The inverse of as_rows, for extents `like` except along the axis.
inline handle from_rows(const handle& rows, const dims& like, int axis, location at) {
  dims to;
  for (int i = 0; i < like.rank; ++i)
    if (i != axis) to.push(like[i]);
  to.push(rows.extents[1]);
  const handle y = views::reshape(rows, to, at);
  return axis == like.rank - 1 ? y : views::permute(y, axis_back(like.rank, axis), at);
}

/// Interleaves parts (b, n) to rows (b, n, 2), and the inverse.
inline handle woven(const parts& z, location at) {
  const handle both[] = {z.re, z.im};
  return views::stack(both, 2, at);
}
inline parts unwoven(const handle& y, location at) {
  const dims to{y.extents[0], y.extents[1]};
  const auto part = [&](int i) { return views::reshape(views::slice_axis(y, 2, {i, 1, 1}, at), to, at); };
  return {part(0), part(1)};
}

/// The transform of rows (b, n).
template <class T>
parts transformed(const parts& z, const steps::fourier_request& how, location at) {
  const auto x = sinter::detail::typed<T, dims(3)>(woven(z, at), at);
  return unwoven(untyped(steps::transform<T>(x, how, at), at), at);
}

template <class T>
tensor<T, 2> rows(const handle& x, location at) {
  return sinter::detail::typed<T, dims(2)>(x, at);
}

/// The complex tensor of these parts.
template <class T, dims S>
tensor<std::complex<T>, S> whole(const parts& z, location at) {
  return {sinter::detail::typed<T, S>(z.re, at), sinter::detail::typed<T, S>(z.im, at)};
}

/// The parts of x; the imaginary part of a real x is zeros.
template <class X>
parts parts_of(const X& x, location at) {
  if constexpr (complex_tensor<X>) {
    return {untyped(x.real(), at), untyped(x.imag(), at)};
  } else {
    const auto re = sinter::detail::stage(x, at);
    return {untyped(re, at), untyped(zeros_like(re), at)};
  }
}

constexpr dims with_extent(dims d, int axis, dim n) {
  d[axis] = n;
  return d;
}

}  // namespace sinter::fft::shapes
