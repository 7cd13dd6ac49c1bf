// front/indexing.hpp: reading and adding at indices: take, take_along_axis, one_hot, scatter_add.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "movement.hpp"
#include "pointwise.hpp"

namespace sinter {

namespace detail {

template <class I>
constexpr void check_index_dtype() {
  static_assert(dtype_of<typename I::value_type> == dtype::i32 || dtype_of<typename I::value_type> == dtype::i64,
                "sinter: the index is neither i32 nor i64; cast it with cast<std::int64_t>(index)");
}

/// Concrete indices in row-major order; user_error for one outside [0, extent), naming it and its place.
inline std::vector<std::int64_t> checked_indices(const char* op, const handle& index, std::int64_t extent,
                                                 location at) {
  const handle c = contiguous(index, at);
  std::vector<std::int64_t> out(static_cast<std::size_t>(index.extents.numel()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = c.type == dtype::i32 ? reinterpret_cast<const std::int32_t*>(c.data)[i]
                                  : reinterpret_cast<const std::int64_t*>(c.data)[i];
    if (out[i] >= 0 && out[i] < extent) continue;
    dims place = index.extents;
    auto rest = static_cast<std::int64_t>(i);
    for (int k = place.rank; k-- > 0; rest /= index.extents[k]) place[k] = rest % index.extents[k];
    fail(op,
         "index " + std::to_string(out[i]) + " at position " + text::shape(place) +
             " is out of range for an axis of extent " + std::to_string(extent) + "; indices run from 0 to extent - 1",
         at);
  }
  return out;
}

/// user_error while tracing when elements are wanted from an axis that has none: no index can be clamped to it.
inline void check_readable(const char* op, const dims& x, int axis, const dims& result, location at) {
  // Asked twice: "at least 1" is what the trace knows of the axis afterwards, and 0 makes it a number for the message.
  if (tracing() && x[axis] < 1 && x[axis] == 0 && result.numel() != 0)
    fail(op, "axis " + std::to_string(axis) + " of " + text::shape(x) + " is empty; test the extent before", at);
}

/// The extents before an axis, of it, and after it, each as one.
struct around_axis {
  dim before, extent, after;
  around_axis(const dims& d, int axis)
      : before(op_shapes::part(d, 0, axis).numel()),
        extent(d[axis]),
        after(op_shapes::part(d, axis + 1, d.rank).numel()) {}
};

template <class F>
void with_bytes(std::int64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(std::integral_constant<std::size_t, 1>{});
    case 2:
      return f(std::integral_constant<std::size_t, 2>{});
    case 4:
      return f(std::integral_constant<std::size_t, 4>{});
    default:
      return f(std::integral_constant<std::size_t, 8>{});
  }
}

inline handle eager_take(const handle& x, const handle& index, int axis, const dims& result, location at) {
  const around_axis part(x.extents, axis);
  const auto rows = checked_indices("take", index, part.extent, at);
  const handle from = views::reshape(x, dims{part.before, part.extent, part.after}, at);
  handle out = allocate("take", x.type, result, at);
  const auto count = static_cast<std::int64_t>(rows.size()), bytes = x.item_bytes();
  parallel(part.before * count, part.before * count * part.after, [&](std::int64_t begin, std::int64_t end) {
    with_bytes(bytes, [&](auto size) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t offset =
            i / count * from.strides[0] + rows[static_cast<std::size_t>(i % count)] * from.strides[1];
        copy_row<size()>(out.data + i * part.after * bytes, 1, from.data + offset * bytes, from.strides[2], part.after);
      }
    });
  });
  return out;
}

/// The flat index (k) or a tensor (…) as (before, k, after), repeated along the axes that are not k.
inline handle spread_index(const handle& index, const around_axis& part, location at) {
  const dim count = index.extents.numel();
  return views::broadcast(views::reshape(index, dims{1, count, 1}, at), dims{part.before, count, part.after}, at);
}

inline handle take_at(const handle& x, const handle& index, int axis, const dims& result, location at) {
  if (!tracing()) {
    if (!on_gpu("take", {&x, &index}, at)) return eager_take(x, index, axis, result, at);
    return launch(
        "take", {&x, &index}, {axis}, [&] { return take_at(x, index, axis, result, at); }, at);
  }
  const around_axis part(x.extents, axis);
  ir::attributes attr;
  if (x.extents.rank == 1) {
    attr.ints = {0};
    const handle flat = views::reshape(index, dims{index.extents.numel()}, at);
    return views::reshape(push_op(ir::op::gather, {x, flat}, std::move(attr), at), result, at);
  }
  attr.ints = {1};
  const handle from = views::reshape(x, dims{part.before, part.extent, part.after}, at);
  return views::reshape(push_op(ir::op::gather, {from, spread_index(index, part, at)}, std::move(attr), at), result,
                        at);
}

/// One element for each of index's; x and index have equal extents off the axis.
inline handle gather_elements(const handle& x, const handle& index, int axis, location at) {
  if (tracing()) {
    ir::attributes attr;
    attr.ints = {axis};
    return push_op(ir::op::gather, {x, index}, std::move(attr), at);
  }
  if (on_gpu("take_along_axis", {&x, &index}, at))
    return launch(
        "take_along_axis", {&x, &index}, {axis}, [&] { return gather_elements(x, index, axis, at); }, at);
  const auto at_axis = checked_indices("take_along_axis", index, x.extents[axis], at);
  handle out = allocate("take_along_axis", x.type, index.extents, at);
  const int last = index.extents.rank - 1;
  const std::int64_t total = index.extents.numel(), bytes = x.item_bytes(),
                     row = total == 0 ? std::int64_t{1} : std::int64_t{index.extents[last]},
                     read = axis == last ? std::int64_t{0} : std::int64_t{x.strides[last]}, step = x.strides[axis];
  parallel(total / row, total, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::int64_t base = 0, rest = r;
      for (int k = last; k-- > 0; rest /= index.extents[k])
        if (k != axis) base += rest % index.extents[k] * x.strides[k];
      with_bytes(bytes, [&](auto size) {
        for (std::int64_t j = 0; j < row; ++j) {
          const std::int64_t i = r * row + j;
          const std::int64_t from = base + j * read + at_axis[static_cast<std::size_t>(i)] * step;
          std::memcpy(out.data + i * bytes, x.data + from * bytes, size());
        }
      });
    }
  });
  return out;
}

/// a + b as the graph's add has it: integers wrap, halves add in float and round.
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
auto take(const X& x, const I& index, axis_t<A> = {}, location at = location::current()) {
  detail::check_index_dtype<I>();
  constexpr int place = detail::checked_axes<X::rank, A>()[0];
  constexpr auto shape = op_shapes::take(X::static_shape, I::static_shape, place);
  static_assert(shape.error == nullptr, "sinter: [take] the result would have more than 8 axes");
  const auto from = detail::untyped(x, at), indices = detail::untyped(index, at);
  const dims result = op_shapes::take(from.extents, indices.extents, place).shape;
  detail::check_readable("take", from.extents, place, result, at);
  return detail::typed<typename X::value_type, shape.shape>(detail::take_at(from, indices, place, result, at), at);
}

/// One element of x for each of index's: at c with c[axis] = index[c], as NumPy's take_along_axis; off the axis (the last by
/// default) extents broadcast. An index outside [0, extent) is a user_error, and is clamped in compiled code.
template <tensor_like X, tensor_like I, int A = -1>
auto take_along_axis(const X& x, const I& index, axis_t<A> = {}, location at = location::current()) {
  detail::check_index_dtype<I>();
  constexpr int place = detail::checked_axes<X::rank, A>()[0];
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

/// A new last axis of extent n with 1 at the index and 0 elsewhere; an index outside [0, n) gives zeros. Lazy.
template <element T = float, tensor_like I>
auto one_hot(const I& index, dim n, location at = location::current()) {
  detail::check_index_dtype<I>();
  if (n < 0) fail("one_hot", "the number of classes is negative: " + n.text(), at);
  const auto rows = expand_dims<-1>(index, at);
  const detail::index_leaf<typename I::value_type, dims{dyn}> classes({n}, 0);
  return cast<T>(eq(rows, classes, at), at);
}

/// base with updates added at indices along an axis (the first by default). updates are shaped like take(base, index), or, when
/// index has base's rank, like index (and like base off the axis). Equal indices add up. Any dtype but bool. An index outside
/// [0, extent) is a user_error, and is dropped in compiled code.
template <tensor_like X, tensor_like I, tensor_like U, int A = 0>
auto scatter_add(const X& base, const I& index, const U& updates, axis_t<A> = {}, location at = location::current()) {
  using T = typename X::value_type;
  detail::check_index_dtype<I>();
  static_assert(dtype_of<T> == dtype_of<typename U::value_type>,
                "sinter: [scatter_add] base and updates have different dtypes; cast one");
  static_assert(!is_bool(dtype_of<T>), "sinter: [scatter_add] takes numbers, not bool; cast with cast<T>(x)");
  constexpr int place = detail::checked_axes<X::rank, A>()[0];
  constexpr auto shape = op_shapes::scatter_add(X::static_shape, I::static_shape, U::static_shape, place);
  static_assert(shape.error == nullptr, "sinter: [scatter_add] the updates' shape does not follow from base and index");
  const auto to = detail::untyped(base, at), indices = detail::untyped(index, at), add = detail::untyped(updates, at);
  op_shapes::demand("scatter_add", op_shapes::scatter_add(to.extents, indices.extents, add.extents, place), at,
                    {to.extents, indices.extents, add.extents});
  constexpr bool along = I::rank == X::rank && U::rank == X::rank;
  return detail::typed<T, shape.shape>(detail::scatter<T>(to, indices, add, place, along, at), at);
}

}  // namespace sinter
