// front/functions/movement.hpp: functions that rearrange elements: views of the operand's storage where strides allow it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "../evaluate/views.hpp"
#include "../shapes/axes.hpp"

namespace sinter {

namespace detail {

/// An extent and the location where it was written, for functions that end in a list of extents.
struct placed_extent {
  dim value;
  location at;
  template <extent_like I>
  constexpr placed_extent(I v, location where = location::current()) : value(v), at(where) {}
};

/// Checks a shape rule on static extents: a compile-time error if the rule refuses them.
#define SINTER_STATIC_SHAPE(NAME, RULE, MESSAGE)                \
  template <dims X, auto... Rest>                               \
  consteval dims NAME() {                                       \
    constexpr op_shapes::outcome result = RULE;                 \
    static_assert(result.error == nullptr, "sinter: " MESSAGE); \
    return result.shape;                                        \
  }
SINTER_STATIC_SHAPE(reshape_shape, op_shapes::reshape(X, Rest...),
                    "[reshape] the static shape X has another number of elements")
SINTER_STATIC_SHAPE(permute_shape, op_shapes::permute(X, Rest...), "[permute] name every axis of X once")
SINTER_STATIC_SHAPE(broadcast_to_shape, op_shapes::broadcast_to(X, Rest...),
                    "[broadcast_to] an extent of X is neither 1 nor the wanted one, or X has more axes")
SINTER_STATIC_SHAPE(squeeze_shape, op_shapes::squeeze(X, Rest...), "[squeeze] an axis of X to drop is not of extent 1")
SINTER_STATIC_SHAPE(expand_shape, op_shapes::expand_dims(X, Rest...),
                    "[expand_dims] the result would have more than 12 axes")
#undef SINTER_STATIC_SHAPE

template <class X, dims To>
auto reshape_to(const X& x, dims to, location at) {
  const handle h = untyped(x, at);
  const auto r = op_shapes::reshape(h.extents, to);
  if (r.error) op_shapes::demand("reshape", r, at, {h.extents, to});
  return typed<typename X::value_type, To>(views::reshape(h, r.shape, at), at);
}

/// Every extent unknown.
template <class X, int Rank>
constexpr dims broadcast_shape() {
  static_assert(Rank >= X::rank, "sinter: [broadcast_to] the result has fewer axes than the tensor");
  return dims(Rank);
}

template <class X, dims To>
auto broadcast_to_extents(const X& x, dims to, location at) {
  const handle h = untyped(x, at);
  const auto r = op_shapes::broadcast_to(h.extents, to);
  if (r.error) op_shapes::demand("broadcast_to", r, at, {h.extents, to});
  for (auto e : r.shape)
    if (e < 0)
      fail("broadcast_to", "an extent is negative in " + text::shape(r.shape) + "; give extents of 0 or more", at);
  return typed<typename X::value_type, To>(views::broadcast(h, r.shape, at), at);
}

template <extent_like I, std::size_t R>
constexpr dims listed(const I (&extents)[R]) {
  dims d;
  for (auto e : extents) d.push(e);
  return d;
}

/// Every extent unknown; `dims(int(R))` as a template argument would name a function type.
constexpr dims any_shape(int rank) { return dims(rank); }

/// A static shape with one extent replaced.
constexpr dims with_extent(dims d, int axis, dim extent) {
  d[axis] = extent;
  return d;
}

}  // namespace detail

/// The same elements in row-major order under other extents. One of these may be -1: the number of elements determines it.
/// Shares x's storage where strides allow it. user_error when the number of elements differs.
template <tensor_like X, std::size_t R>
auto reshape(const X& x, const dim (&extents)[R], location at = location::current()) {
  return detail::reshape_to<X, detail::any_shape(int(R))>(x, detail::listed(extents), at);
}
template <tensor_like X, std::integral I, std::size_t R>
requires(!std::is_same_v<I, char>) auto reshape(const X& x, const I (&extents)[R], location at = location::current()) {
  return detail::reshape_to<X, detail::any_shape(int(R))>(x, detail::listed(extents), at);
}
template <tensor_like X, extent_like I, std::size_t R>
auto reshape(const X& x, const std::array<I, R>& extents, location at = location::current()) {
  dims to;
  for (const auto& e : extents) to.push(e);
  return detail::reshape_to<X, detail::any_shape(int(R))>(x, to, at);
}
/// As `reshape(x, {2, -1})`, written reshape(x, 2, -1).
template <tensor_like X, extent_like... I>
auto reshape(const X& x, detail::placed_extent first, I... rest) {
  return detail::reshape_to<X, detail::any_shape(1 + int(sizeof...(I)))>(x, dims{first.value, dim(rest)...}, first.at);
}
/// With static extents, one of which may be `dyn`: reshape<dims{dyn, 64}>(x).
template <dims To, tensor_like X>
auto reshape(const X& x, location at = location::current()) {
  constexpr dims shape = detail::reshape_shape<X::static_shape, To>();
  return detail::reshape_to<X, shape>(x, To, at);
}
/// x as one axis.
template <tensor_like X>
auto flatten(const X& x, location at = location::current()) {
  constexpr dims shape = detail::reshape_shape<X::static_shape, dims{dyn}>();
  return detail::reshape_to<X, shape>(x, dims{detail::product(detail::extents_of(x, at))}, at);
}

/// Axis i of the result is axis Axes[i] of x: permute(x, axis<2, 0, 1>). A view.
template <tensor_like X, int... Axes>
auto permute(const X& x, axis_t<Axes...>, location at = location::current()) {
  constexpr auto perm = detail::checked_axes<detail::named::permute, X::rank, Axes...>();
  constexpr dims shape = detail::permute_shape<X::static_shape, perm>();
  return detail::typed<typename X::value_type, shape>(detail::views::permute(detail::untyped(x, at), perm, at), at);
}
template <int... Axes, tensor_like X>
auto permute(const X& x, location at = location::current()) {
  return permute(x, axis<Axes...>, at);
}

/// x with axes I and J exchanged, by default the last two. A view.
template <int I = -2, int J = -1, tensor_like X>
auto transpose(const X& x, location at = location::current()) {
  constexpr bool enough = X::rank >= 2;
  static_assert(enough, "sinter: [transpose] needs two axes");
  if constexpr (enough) {
    constexpr auto perm = [] {
      constexpr auto swapped = detail::checked_axes<detail::named::transpose, X::rank, I, J>();
      auto p = op_shapes::all_axes(X::rank);
      p.at[swapped[0]] = swapped[1];
      p.at[swapped[1]] = swapped[0];
      return p;
    }();
    constexpr dims shape = detail::permute_shape<X::static_shape, perm>();
    return detail::typed<typename X::value_type, shape>(detail::views::permute(detail::untyped(x, at), perm, at), at);
  } else {
    return x;
  }
}

/// x repeated along axes of extent 1 and along new leading axes; -1 keeps x's extent. user_error unless each extent of x is 1 or
/// the wanted extent. A view.
template <tensor_like X, std::size_t R>
auto broadcast_to(const X& x, const dim (&extents)[R], location at = location::current()) {
  return detail::broadcast_to_extents<X, detail::broadcast_shape<X, int(R)>()>(x, detail::listed(extents), at);
}
template <tensor_like X, std::integral I, std::size_t R>
requires(!std::is_same_v<I, char>) auto broadcast_to(const X& x, const I (&extents)[R],
                                                     location at = location::current()) {
  return detail::broadcast_to_extents<X, detail::broadcast_shape<X, int(R)>()>(x, detail::listed(extents), at);
}
template <tensor_like X, extent_like I, std::size_t R>
auto broadcast_to(const X& x, const std::array<I, R>& extents, location at = location::current()) {
  dims to;
  for (const auto& e : extents) to.push(e);
  return detail::broadcast_to_extents<X, detail::broadcast_shape<X, int(R)>()>(x, to, at);
}
template <tensor_like X, extent_like... I>
auto broadcast_to(const X& x, detail::placed_extent first, I... rest) {
  return detail::broadcast_to_extents<X, detail::broadcast_shape<X, 1 + int(sizeof...(I))>()>(
      x, dims{first.value, dim(rest)...}, first.at);
}
template <dims To, tensor_like X>
auto broadcast_to(const X& x, location at = location::current()) {
  constexpr dims shape = detail::broadcast_to_shape<X::static_shape, To>();
  return detail::broadcast_to_extents<X, shape>(x, To, at);
}

/// x with an axis of extent 1 at position `axis` of the result. A view.
template <tensor_like X, int A>
auto expand_dims(const X& x, axis_t<A>, location at = location::current()) {
  constexpr int place = detail::checked_axes<detail::named::expand_dims, X::rank + 1, A>()[0];
  constexpr dims shape = detail::expand_shape<X::static_shape, place>();
  const auto h = detail::untyped(x, at);
  return detail::typed<typename X::value_type, shape>(
      detail::views::reshape(h, op_shapes::expand_dims(h.extents, place).shape, at), at);
}
template <int A, tensor_like X>
auto expand_dims(const X& x, location at = location::current()) {
  return expand_dims(x, axis<A>, at);
}

/// x without the named axes. user_error unless their extents are 1. A view.
template <tensor_like X, int... Axes>
auto squeeze(const X& x, axis_t<Axes...>, location at = location::current()) {
  static_assert(sizeof...(Axes) > 0, "sinter: [squeeze] name the axes to drop: squeeze(x, axis<0>)");
  constexpr auto axes = detail::checked_axes<detail::named::squeeze, X::rank, Axes...>();
  constexpr dims shape = detail::squeeze_shape<X::static_shape, axes>();
  const auto h = detail::untyped(x, at);
  const auto r = op_shapes::squeeze(h.extents, axes);
  op_shapes::demand("squeeze", r, at, {h.extents});
  return detail::typed<typename X::value_type, shape>(detail::views::reshape(h, r.shape, at), at);
}
template <int... Axes, tensor_like X>
auto squeeze(const X& x, location at = location::current()) {
  return squeeze(x, axis<Axes...>, at);
}

/// A stop that includes the last element in the step's direction.
inline constexpr std::int64_t to_end = std::numeric_limits<std::int64_t>::max();

namespace detail {

/// A place along an axis. Numbers beyond any axis are treated as equal, so arithmetic with extents does not overflow.
struct axis_position {
  dim value;
  template <extent_like I>
  constexpr axis_position(I n) : value(n) {
    constexpr std::int64_t far = to_end / 2;
    if constexpr (std::is_unsigned_v<I>) {
      if (n > static_cast<std::uint64_t>(to_end)) value = to_end;
    } else if constexpr (std::integral<I>) {
      if (n < -far) value = -far;
    }
  }
};

}  // namespace detail

/// Elements start, start + step, … before stop along one axis, as Python's start:stop:step. Negative indices count from the end,
/// and indices past the ends are clamped. user_error for a step of 0. A view.
template <tensor_like X, int A>
auto slice(const X& x, axis_t<A>, detail::axis_position first, detail::axis_position last = to_end,
           std::int64_t step = 1, location at = location::current()) {
  constexpr int place = detail::checked_axes<detail::named::slice, X::rank, A>()[0];
  if (step == 0) fail("slice", "the step is 0; give a positive or a negative step", at);
  const auto h = detail::untyped(x, at);
  const dim stop = step < 0 && last.value.bits == to_end ? dim(-to_end / 2) : last.value;
  const auto range = op_shapes::resolve(h.extents[place], first.value, stop, step);
  return detail::typed<typename X::value_type, detail::with_extent(X::static_shape, place, dyn)>(
      detail::views::slice_axis(h, place, range, at), at);
}
template <int A, tensor_like X>
auto slice(const X& x, detail::axis_position start, detail::axis_position stop = to_end, std::int64_t step = 1,
           location at = location::current()) {
  return slice(x, axis<A>, start, stop, step, at);
}

/// As slice(x, axis<A>, First, Last, Step), with the numbers known to the compiler: a static extent gives a static result.
/// slice<0, 1, 3>(x) has the rows 1 and 2.
template <int A, std::int64_t First, std::int64_t Last = to_end, std::int64_t Step = 1, tensor_like X>
auto slice(const X& x, location at = location::current()) {
  static_assert(Step != 0, "sinter: [slice] the step is 0; give a positive or a negative step");
  constexpr int place = detail::checked_axes<detail::named::slice, X::rank, A>()[0];
  constexpr dim n = X::static_shape[place];
  constexpr std::int64_t first = detail::axis_position(First).value.bits,
                         last = Step < 0 && Last == to_end ? -to_end / 2 : detail::axis_position(Last).value.bits;
  constexpr dims shape =
      detail::with_extent(X::static_shape, place, n == dyn ? dim(dyn) : op_shapes::resolve(n, first, last, Step).count);
  return detail::fitted<shape>(slice(x, axis<A>, First, Last, Step, at), at);
}

/// x with the order of the named axes reversed, by default of all axes. A view.
template <tensor_like X, int... Axes>
auto flip(const X& x, axis_t<Axes...>, location at = location::current()) {
  constexpr auto axes = detail::checked_axes<detail::named::flip, X::rank, Axes...>();
  return detail::typed<typename X::value_type, X::static_shape>(detail::views::flip(detail::untyped(x, at), axes, at),
                                                                at);
}
template <int... Axes, tensor_like X>
auto flip(const X& x, location at = location::current()) {
  return flip(x, axis<Axes...>, at);
}

/// Elements of x on and below diagonal k of the last two axes, 0 above it; lazy.
template <tensor_like X>
auto tril(const X& x, std::int64_t k = 0, location at = location::current()) {
  static_assert(X::rank >= 2, "sinter: [tril] needs two axes");
  using index = detail::index_leaf<std::int64_t, X::static_shape>;
  const auto e = detail::extents_of(x, at);
  return where(le(sub(index(e, X::rank - 1), index(e, X::rank - 2), at), k, at), x, typename X::value_type{}, at);
}

/// Elements of x on and above diagonal k of the last two axes, 0 below it; lazy.
template <tensor_like X>
auto triu(const X& x, std::int64_t k = 0, location at = location::current()) {
  static_assert(X::rank >= 2, "sinter: [triu] needs two axes");
  using index = detail::index_leaf<std::int64_t, X::static_shape>;
  const auto e = detail::extents_of(x, at);
  return where(ge(sub(index(e, X::rank - 1), index(e, X::rank - 2), at), k, at), x, typename X::value_type{}, at);
}

}  // namespace sinter
