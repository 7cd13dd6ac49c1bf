// front/functions/indexing.hpp: reading and adding at indices: take, take_along_axis, one_hot, scatter_add.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "movement.hpp"
#include "pointwise.hpp"

namespace sinter {

namespace detail {

/// False after the compile-time error that I is no index to the function Name.
template <class Name, class I>
constexpr bool check_index_dtype() {
  constexpr dtype index = dtype_of<typename I::value_type>;
  if constexpr (index == dtype::i32 || index == dtype::i64) return true;
  else return Name::template refuse<fault::index>();
}

/// Concrete indices in row-major order; user_error for one outside [0, extent), naming it and its place.
SINTER_API std::vector<std::int64_t> checked_indices(const char* op, const handle& index, std::int64_t extent,
                                                     location at);

/// While a function is traced to run once on the host: its indices are checked when it has run.
SINTER_API void check_later(const char* op, const handle& index, dim extent, location at);
/// What check_later has asked for, of a trace that is answered.
SINTER_API void check_indices(const engine::traced& t);

/// user_error while tracing when elements are wanted from an axis that has none: no index can be clamped to it.
SINTER_API void check_readable(const char* op, const dims& x, int axis, const dims& result, location at);

/// The extents before an axis, of it, and after it, each as one.
struct around_axis {
  dim before, extent, after;
  around_axis(const dims& d, int axis)
      : before(op_shapes::part(d, 0, axis).numel()),
        extent(d[axis]),
        after(op_shapes::part(d, axis + 1, d.rank).numel()) {}
};

/// The flat index (k) or a tensor (…) as (before, k, after), repeated along the axes that are not k.
SINTER_API handle spread_index(const handle& index, const around_axis& part, location at);

SINTER_API handle take_at(const handle& x, const handle& index, int axis, const dims& result, location at);

/// One element for each of index's; x and index have equal extents off the axis.
SINTER_API handle gather_elements(const handle& x, const handle& index, int axis, location at);

/// a + b as the graph's add has it: integers wrap.
template <class T>
T plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return static_cast<T>(a + b);
  }
}

/// base (before, n, after) plus updates (before, k, after) at the rows that index names.
template <class T>
handle eager_scatter_rows(const handle& base, const handle& index, const handle& updates, const around_axis& part,
                          location at) {
  const auto rows = checked_indices("scatter_add", index, part.extent, at);
  handle out = contiguous(base, at);
  const handle add = contiguous(updates, at);
  T* const to = reinterpret_cast<T*>(out.data);
  const T* from = reinterpret_cast<const T*>(add.data);
  for (std::int64_t b = 0; b < part.before; ++b)
    for (const std::int64_t row : rows)
      for (std::int64_t j = 0; j < part.after; ++j, ++from) {
        T& x = to[(b * part.extent + row) * part.after + j];
        x = plus(x, *from);
      }
  return out;
}

/// base plus updates[c] at c with c[axis] = index[c].
template <class T>
handle eager_scatter_elements(const handle& base, const handle& index, const handle& updates, int axis, location at) {
  const around_axis of_base(base.extents, axis), of_index(index.extents, axis);
  const auto rows = checked_indices("scatter_add", index, of_base.extent, at);
  handle out = contiguous(base, at);
  const handle add = contiguous(updates, at);
  T* const to = reinterpret_cast<T*>(out.data);
  const T* from = reinterpret_cast<const T*>(add.data);
  std::size_t i = 0;
  for (std::int64_t b = 0; b < of_index.before; ++b)
    for (std::int64_t k = 0; k < of_index.extent; ++k)
      for (std::int64_t j = 0; j < of_index.after; ++j, ++i) {
        T& x = to[(b * of_base.extent + rows[i]) * of_base.after + j];
        x = plus(x, from[i]);
      }
  return out;
}

template <class T>
handle scatter(const handle& base, const handle& index, const handle& updates, int axis, bool along, location at) {
  const around_axis part(base.extents, axis);
  if (!tracing()) {
    if (on_gpu("scatter_add", {&base, &index, &updates}, at))
      return launch(
          "scatter_add", {&base, &index, &updates}, {axis, along},
          [&] { return scatter<T>(base, index, updates, axis, along, at); }, at);
    return along ? eager_scatter_elements<T>(base, index, updates, axis, at)
                 : eager_scatter_rows<T>(base, index, updates, part, at);
  }
  check_later("scatter_add", index, part.extent, at);
  ir::attributes attr;
  if (along) {
    attr.ints = {axis};
    return push_op(ir::op::scatter_add, {base, index, updates}, std::move(attr), at);
  }
  attr.ints = {1};
  const handle spread = spread_index(index, part, at);
  const handle rows = views::reshape(base, dims{part.before, part.extent, part.after}, at);
  return views::reshape(
      push_op(ir::op::scatter_add, {rows, spread, views::reshape(updates, spread.extents, at)}, std::move(attr), at),
      base.extents, at);
}

}  // namespace detail

/// x at the given indices along an axis (the first by default): the axis gives way to index's axes, as NumPy's take. The
/// index is i32 or i64. An index outside [0, extent) is a user_error, and is clamped in compiled code; negative ones are outside.
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

/// One element of x for each of index's: at c with c[axis] = index[c], as NumPy's take_along_axis; off the axis (the last by
/// default) extents broadcast. An index outside [0, extent) is a user_error, and is clamped in compiled code.
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

/// one_hot with the classes as a static shape, Classes, and as the number that it fits.
template <class T, dims Classes, class I>
auto one_hot_of(const I& index, dim n, location at) {
  check_index_dtype<named::one_hot, I>();
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

/// As one_hot(index, n) with a number of classes that the compiler knows: one_hot<float, 10>(labels).
template <element T, std::int64_t Classes, tensor_like I>
auto one_hot(const I& index, location at = location::current()) {
  static_assert(Classes >= 0, "sinter: [one_hot] the number of classes is negative");
  return detail::one_hot_of<T, dims{Classes < 0 ? 0 : Classes}>(index, Classes, at);
}

/// base with updates added at indices along an axis (the first by default). updates are shaped like take(base, index), or, when
/// index has base's rank, like index (and like base off the axis). Equal indices add up, those of halves in f32. Any dtype but
/// bool. An index outside [0, extent) is a user_error, and is dropped in compiled code.
template <tensor_like X, tensor_like I, tensor_like U, int A = 0>
auto scatter_add(const X& base, const I& index, const U& updates, axis_t<A> = {},
                 location where = location::current()) {
  const location at = where.in("scatter_add");
  using T = typename X::value_type;
  detail::check_index_dtype<detail::named::scatter_add, I>();
  static_assert(dtype_of<T> == dtype_of<typename U::value_type>,
                "sinter: [scatter_add] base and updates have different dtypes; cast one");
  static_assert(!is_bool(dtype_of<T>), "sinter: [scatter_add] takes numbers, not bool; cast with cast<T>(x)");
  constexpr int place = detail::checked_axes<detail::named::scatter_add, X::rank, A>()[0];
  constexpr auto shape = op_shapes::scatter_add(X::static_shape, I::static_shape, U::static_shape, place);
  static_assert(shape.error == nullptr, "sinter: [scatter_add] the updates' shape does not follow from base and index");
  // Halves are added in f32; a graph does that by itself.
  if constexpr (vocabulary::is_half<T>)
    if (!detail::tracing()) {
      const auto sums = scatter_add(cast<float>(base, at), index, cast<float>(updates, at), axis_t<A>{}, at);
      return detail::typed<T, shape.shape>(detail::untyped(cast<T>(sums, at), at), at);
    }
  const auto to = detail::untyped(base, at), indices = detail::untyped(index, at), add = detail::untyped(updates, at);
  op_shapes::demand("scatter_add", op_shapes::scatter_add(to.extents, indices.extents, add.extents, place), at,
                    {to.extents, indices.extents, add.extents});
  constexpr bool along = I::rank == X::rank && U::rank == X::rank;
  using sum = std::conditional_t<vocabulary::is_half<T>, float, T>;
  return detail::typed<T, shape.shape>(detail::scatter<sum>(to, indices, add, place, along, at), at);
}

}  // namespace sinter

// Header-only: whoever sees the declarations has the definitions as well.
#if !defined(SINTER_COMPILED)
#include "index_rules.hpp"
#endif
