// front/functions/indexing.hpp: reads and adds at indices: take, take_along_axis, one_hot, scatter_add.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "movement.hpp"
#include "pointwise.hpp"

namespace sinter {

namespace detail {

/// False after the compile-time error that I is not an index type for the function Name. Labels and starts allow no bool mask.
template <class Name, class I, bool Masks = true>
constexpr bool check_index_dtype() {
  constexpr dtype index = dtype_of<typename I::value_type>;
  if constexpr (index == dtype::i32 || index == dtype::i64) return true;
  else return Name::template refuse < Masks && is_bool(index) ? fault::mask : fault::index > ();
}

/// Concrete indices in row-major order; user_error for an index outside [0, extent), with its value and place. `from_end`: indices
/// from -extent on count from the end, and are returned as indices from 0.
SINTER_API std::vector<std::int64_t> checked_indices(const char* op, const handle& index, std::int64_t extent,
                                                     location at, bool from_end = false);

/// For a function traced to run once on the host: checks its indices after the run.
SINTER_API void check_later(const char* op, const handle& index, dim extent, location at, bool from_end = false);
/// Runs the checks that check_later recorded for a finished trace.
SINTER_API void check_indices(const engine::traced& t);

/// user_error during a trace that reads elements from an empty axis: no index can be clamped to it.
SINTER_API void check_readable(const char* op, const dims& x, int axis, const dims& result, location at);

/// The extents before, of and after an axis, each as one extent.
struct around_axis {
  dim before, extent, after;
  around_axis(const dims& d, int axis)
      : before(op_shapes::part(d, 0, axis).numel()),
        extent(d[axis]),
        after(op_shapes::part(d, axis + 1, d.rank).numel()) {}
};

/// x at indices of an axis; negative indices count from the end.
SINTER_API handle take_at(const handle& x, const handle& index, int axis, const dims& result, location at);

/// One element for each element of index; x and index have equal extents off the axis.
SINTER_API handle gather_elements(const handle& x, const handle& index, int axis, location at);

/// base combined with updates (add, mul, maximum, minimum; identity replaces) at the indices of an axis. Updates are rows, or
/// elements with `along`. Halves are supported eagerly only for identity.
SINTER_API handle scatter(const char* op, const handle& base, const handle& index, const handle& updates, int axis,
                          bool along, ir::op combiner, location at);

}  // namespace detail

/// x at the given indices along an axis, by default the first. As in NumPy's take, index's axes replace the axis. Indices are i32
/// or i64, and negative ones count from the end. One outside [-extent, extent) is a user_error, and is clamped in compiled code.
template <tensor_like X, tensor_like I, int A = 0>
auto take(const X& x, const I& index, axis_t<A> = {}, location where = location::current()) {
  const location at = where.in("take");
  detail::check_index_dtype<detail::named::take, I>();
  constexpr int place = detail::checked_axes<detail::named::take, X::rank, A>()[0];
  constexpr auto shape = op_shapes::take(X::static_shape, I::static_shape, place);
  static_assert(shape.error == nullptr, "sinter: [take] the result would have more than 12 axes");
  const auto from = detail::untyped(x, at), indices = detail::untyped(index, at);
  const dims result = op_shapes::take(from.extents, indices.extents, place).shape;
  detail::check_readable("take", from.extents, place, result, at);
  return detail::typed<typename X::value_type, shape.shape>(detail::take_at(from, indices, place, result, at), at);
}

/// One element of x for each element of index: x at c with c[axis] = index[c], as in NumPy's take_along_axis. The axis is the last
/// by default; other extents broadcast. Negative indices count from the end. One outside [-extent, extent) is a user_error, and is
/// clamped in compiled code.
template <tensor_like X, tensor_like I, int A = -1>
auto take_along_axis(const X& x, const I& index, axis_t<A> = {}, location where = location::current()) {
  const location at = where.in("take_along_axis");
  detail::check_index_dtype<detail::named::take_along_axis, I>();
  constexpr int place = detail::checked_axes<detail::named::take_along_axis, X::rank, A>()[0];
  constexpr auto shape = op_shapes::take_along_axis(X::static_shape, I::static_shape, place);
  static_assert(shape.error == nullptr,
                "sinter: [take_along_axis] the index has another rank, or extents that do not broadcast off the axis");
  const auto from = detail::untyped(x, at), indices = detail::untyped(index, at);
  const auto r = op_shapes::take_along_axis(from.extents, indices.extents, place);
  op_shapes::demand("take_along_axis", r, at, {from.extents, indices.extents});
  detail::check_readable("take_along_axis", from.extents, place, r.shape, at);
  const dims source = detail::with_extent(r.shape, place, from.extents[place]);
  return detail::typed<typename X::value_type, shape.shape>(
      detail::gather_elements(detail::views::broadcast(from, source, at),
                              detail::views::broadcast(indices, r.shape, at), place, at),
      at);
}

namespace detail {

/// one_hot with the classes as a static shape, Classes, and as the number n.
template <class T, dims Classes, class I>
auto one_hot_of(const I& index, dim n, location at) {
  check_index_dtype<named::one_hot, I, false>();
  constexpr bool room = I::rank < max_rank;
  static_assert(room, "sinter: [one_hot] the result would have more than 12 axes");
  if constexpr (!room) {
    return index;
  } else {
    const auto rows = expand_dims<-1>(index, at);
    const index_leaf<typename I::value_type, Classes> classes({n}, 0);
    return cast<T>(eq(rows, classes, at), at);
  }
}

}  // namespace detail

/// A new last axis of extent n with 1 at the index and 0 elsewhere; an index outside [0, n) gives zeros. user_error for a
/// negative n. Lazy.
template <element T = float, tensor_like I>
auto one_hot(const I& index, dim n, location at = location::current()) {
  if (n < 0) fail("one_hot", "the number of classes is negative: " + n.text(), at);
  return detail::one_hot_of<T, dims{dyn}>(index, n, at);
}

/// As one_hot(index, n), with the number of classes known to the compiler: one_hot<float, 10>(labels).
template <element T, std::int64_t Classes, tensor_like I>
auto one_hot(const I& index, location at = location::current()) {
  static_assert(Classes >= 0, "sinter: [one_hot] the number of classes is negative");
  return detail::one_hot_of<T, dims{Classes < 0 ? 0 : Classes}>(index, Classes, at);
}

namespace detail {

template <class Name, ir::op Combiner, class X, class I, class U, int A>
auto scattered(const X& base, const I& index, const U& updates, axis_t<A>, location at) {
  using T = typename X::value_type;
  check_index_dtype<Name, I>();
  constexpr bool dtypes = dtype_of<T> == dtype_of<typename U::value_type>;
  if constexpr (!dtypes) Name::template refuse<fault::dtypes>();
  if constexpr (is_bool(dtype_of<T>) && Combiner != ir::op::identity) Name::template refuse<fault::numbers>();
  constexpr int place = checked_axes<Name, X::rank, A>()[0];
  constexpr auto shape = op_shapes::scatter_add(X::static_shape, I::static_shape, U::static_shape, place);
  if constexpr (shape.error != nullptr) Name::template refuse<fault::updates>();
  // Halves are combined in f32; a graph does that by itself.
  if constexpr (vocabulary::is_half<T> && Combiner != ir::op::identity)
    if (!tracing()) {
      const auto y = scattered<Name, Combiner>(cast<float>(base, at), index, cast<float>(updates, at), axis_t<A>{}, at);
      return typed<T, shape.shape>(untyped(cast<T>(y, at), at), at);
    }
  const auto to = untyped(base, at), indices = untyped(index, at), add = untyped(updates, at);
  op_shapes::demand(Name::text, op_shapes::scatter_add(to.extents, indices.extents, add.extents, place), at,
                    {to.extents, indices.extents, add.extents});
  constexpr bool along = I::rank == X::rank && U::rank == X::rank;
  return typed<T, shape.shape>(scatter(Name::text, to, indices, add, place, along, Combiner, at), at);
}

}  // namespace detail

/// base with updates added at indices along an axis, by default the first. updates have the shape of take(base, index). If index
/// has base's rank, they have index's shape, and base's extents off the axis. Equal indices add up, halves in f32. Any dtype but
/// bool. Negative indices count from the end; one outside [-extent, extent) is a user_error, and is dropped in compiled code.
template <tensor_like X, tensor_like I, tensor_like U, int A = 0>
auto scatter_add(const X& base, const I& index, const U& updates, axis_t<A> a = {},
                 location where = location::current()) {
  return detail::scattered<detail::named::scatter_add, ir::op::add>(base, index, updates, a, where.in("scatter_add"));
}

/// As scatter_add, but replaces elements; among equal indices the last update wins. Any dtype.
template <tensor_like X, tensor_like I, tensor_like U, int A = 0>
auto scatter_set(const X& base, const I& index, const U& updates, axis_t<A> a = {},
                 location where = location::current()) {
  return detail::scattered<detail::named::scatter_set, ir::op::identity>(base, index, updates, a,
                                                                         where.in("scatter_set"));
}

/// As scatter_add, but multiplies elements.
template <tensor_like X, tensor_like I, tensor_like U, int A = 0>
auto scatter_mul(const X& base, const I& index, const U& updates, axis_t<A> a = {},
                 location where = location::current()) {
  return detail::scattered<detail::named::scatter_mul, ir::op::mul>(base, index, updates, a, where.in("scatter_mul"));
}

/// As scatter_add, but keeps the smaller of element and update; NaN if either is NaN. Ties share the derivative.
template <tensor_like X, tensor_like I, tensor_like U, int A = 0>
auto scatter_min(const X& base, const I& index, const U& updates, axis_t<A> a = {},
                 location where = location::current()) {
  return detail::scattered<detail::named::scatter_min, ir::op::minimum>(base, index, updates, a,
                                                                        where.in("scatter_min"));
}

/// As scatter_min, but keeps the larger.
template <tensor_like X, tensor_like I, tensor_like U, int A = 0>
auto scatter_max(const X& base, const I& index, const U& updates, axis_t<A> a = {},
                 location where = location::current()) {
  return detail::scattered<detail::named::scatter_max, ir::op::maximum>(base, index, updates, a,
                                                                        where.in("scatter_max"));
}

}  // namespace sinter

// Header-only: the declarations come with their definitions.
#if !defined(SINTER_COMPILED)
#include "index_rules.hpp"
#endif
