// front/functions/places.hpp: reads and writes of several elements or ranges at indices: x[i], take(x, i, j), gather_nd, x.at(…),
// dynamic_slice, dynamic_update_slice, compress.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "bounded.hpp"
#include "indexing.hpp"
#include "reductions.hpp"

namespace sinter {

namespace detail {

inline constexpr int max_indices = 4;

/// A part of a tensor: a range of one axis, or the elements at indices of the first axes.
struct place_list {
  int axis = 0;
  op_shapes::range range;       ///< without indices
  std::vector<handle> indices;  ///< with the extents `common`
  dims common, shape;           ///< the part's extents
};

/// Indices broadcast to one shape; user_error if they do not broadcast.
SINTER_API place_list places_at(const char* op, const handle& x, std::span<const handle> indices, location at);
/// first <= i < last of an axis, with slice's rules.
SINTER_API place_list places_of_range(const handle& x, int axis, dim first, dim last);

/// The elements of x in the part.
SINTER_API handle taken(const char* op, const handle& x, const place_list& p, location at);
/// x with y combined into the part (identity: replaces it); y broadcasts to the part's extents.
SINTER_API handle updated(const char* op, const handle& x, const place_list& p, const handle& y, ir::op combiner,
                          location at);

/// One element of an axis; user_error for an index outside [-extent, extent).
SINTER_API handle element_of_axis(const char* op, const handle& x, int axis, dim index, location at);

SINTER_API handle dynamic_part(const handle& x, const handle& starts, const dims& sizes, location at);
SINTER_API handle dynamic_update(const handle& x, const handle& update, const handle& starts, location at);

/// `size` rows: those of x with a true mask (of one axis), padded with rows of `fill` (of rank 0).
SINTER_API handle compressed(const handle& x, const handle& mask, int axis, dim size, const handle& fill, location at);
/// The number of true elements in the mask, as an integer: reading it ends the graph.
template <class Mask>
std::int64_t count_true(const Mask& mask, location at) {
  return sum(cast<std::int64_t>(mask, at), axis<>, at).item(at);
}

/// user_error, also during a trace, for a number outside [-extent, extent) of an axis of x.
SINTER_API void check_number_index(const char* op, const handle& x, int axis, dim index, location at);

/// An index of an axis of x as a handle; an integer becomes a tensor of rank 0.
template <class Name, class I>
handle index_operand(const handle& x, int axis, const I& i, location at) {
  if constexpr (extent_like<I>) {
    check_number_index(Name::text, x, axis, i, at);
    return untyped(tensor<std::int64_t, dims{}>(i, at), at);
  } else {
    check_index_dtype<Name, I>();
    return untyped(i, at);
  }
}
template <class I>
constexpr int index_rank() {
  if constexpr (extent_like<I>) return 0;
  else return I::rank;
}
/// The rank of a part at indices of the first axes.
template <class Name, class X, class... I>
constexpr int rank_of_places() {
  constexpr bool few = sizeof...(I) <= max_indices, fit = int(sizeof...(I)) <= X::rank;
  if constexpr (!few || !fit) {
    Name::template refuse<fault::indices>();
    return 0;
  } else {
    constexpr int rank = std::max({index_rank<I>()...}) + X::rank - int(sizeof...(I));
    if constexpr (rank > max_rank) {
      Name::template refuse<fault::max_axes>();
      return 0;
    }
    return rank;
  }
}

template <class Name, class X, class... I>
auto take_several(const X& x, location at, const I&... index) {
  constexpr int rank = rank_of_places<Name, X, I...>();
  const handle from = untyped(x, at);
  int axis = 0;
  const handle indices[] = {index_operand<Name>(from, axis++, index, at)...};
  return typed<typename X::value_type, any_shape(rank)>(
      taken(Name::text, from, places_at(Name::text, from, indices, at), at), at);
}

}  // namespace detail

namespace detail {

/// The part of x that x.at(…) selects. Its functions return a new tensor: x with the part replaced, or combined with y. The operand
/// y is a number, or a tensor of x's dtype that broadcasts to the part. Compiled functions update in place if nothing else needs x. Equal
/// indices all count; for `set` the last wins. An index out of range is an error eagerly, and is dropped in compiled code.
template <class T, dims Shape, int Rank>
class tensor_part {
 public:
  tensor_part(handle x, place_list where) : x_(std::move(x)), where_(std::move(where)) {}

  template <class Y>
  tensor<T, Shape> set(const Y& y, location at = location::current()) const {
    return updated<ir::op::identity>(y, at.in("at"));
  }
  template <class Y>
  tensor<T, Shape> add(const Y& y, location at = location::current()) const {
    return updated<ir::op::add>(y, at.in("at"));
  }
  template <class Y>
  tensor<T, Shape> multiply(const Y& y, location at = location::current()) const {
    return updated<ir::op::mul>(y, at.in("at"));
  }
  template <class Y>
  tensor<T, Shape> min(const Y& y, location at = location::current()) const {
    return updated<ir::op::minimum>(y, at.in("at"));
  }
  template <class Y>
  tensor<T, Shape> max(const Y& y, location at = location::current()) const {
    return updated<ir::op::maximum>(y, at.in("at"));
  }

 private:
  template <ir::op Combiner, class Y>
  tensor<T, Shape> updated(const Y& y, location at) const {
    using name = named::at;
    if constexpr (is_bool(dtype_of<T>) && Combiner != ir::op::identity) refuse_for<name, fault::numbers, Y>();
    if constexpr (is_number<Y>) {
      return combined<Combiner>(cast<T>(y, at), at);
    } else if constexpr (tensor_like<Y>) {
      if constexpr (dtype_of<typename Y::value_type> != dtype_of<T>) refuse_for<name, fault::dtypes, Y>();
      else if constexpr (Y::rank > Rank) refuse_for<name, fault::part, Y>();
      else return combined<Combiner>(y, at);
    } else {
      check_number<T>("at", y, "give one that does", at);
      return combined<Combiner>(tensor<T, dims{}>(static_cast<T>(y), at), at);
    }
    return {};
  }
  template <ir::op Combiner, class Y>
  tensor<T, Shape> combined(const Y& y, location at) const {
    if constexpr (vocabulary::is_half<T> && Combiner != ir::op::identity)
      if (!tracing()) {  // halves are combined in f32; a graph does that by itself
        const auto x = typed<T, Shape>(x_, at);
        const auto sums = detail::updated("at", untyped(cast<float>(x, at), at), where_,
                                          untyped(cast<float>(y, at), at), Combiner, at);
        return cast<T>(typed<float, Shape>(sums, at), at);
      }
    return typed<T, Shape>(detail::updated("at", x_, where_, untyped(y, at), Combiner, at), at);
  }

  handle x_;
  place_list where_;
};

template <class X>
auto leading_element(const X& x, const element_index& i) {
  constexpr dims shape = op_shapes::part(X::static_shape, 1, X::rank);
  return typed<typename X::value_type, shape>(
      element_of_axis("element access", untyped(x, i.where), 0, i.index, i.where), i.where);
}
template <class X, class I>
auto elements_at(const X& x, const I& index) {
  return take(x, index, axis<0>, location{}.in("take"));
}

template <int A>
constexpr int one_axis(axis_t<A>) {
  return A;
}
template <class X, class Axis>
auto places_in_range(const X& x, Axis axis, dim first, dim last, location at) {
  constexpr int place = checked_axes<named::at, X::rank, one_axis(Axis{})>()[0];
  (void)axis;
  const handle h = untyped(x, at);
  return tensor_part<typename X::value_type, X::static_shape, X::rank>(h, places_of_range(h, place, first, last));
}
template <class X, class... I>
auto places_of(const X& x, location at, const I&... index) {
  constexpr int rank = rank_of_places<named::at, X, I...>();
  const handle h = untyped(x, at);
  int axis = 0;
  const handle indices[] = {index_operand<named::at>(h, axis++, index, at)...};
  return tensor_part<typename X::value_type, X::static_shape, rank>(h, places_at("at", h, indices, at));
}

template <class X, std::size_t... K>
auto gather_several(const X& x, std::index_sequence<K...>, location at, const handle& index) {
  std::vector<handle> all;
  dims extents = op_shapes::part(index.extents, 0, index.extents.rank - 1);
  (all.push_back(
       views::reshape(views::slice_axis(index, index.extents.rank - 1, {dim(std::int64_t(K)), 1, 1}, at), extents, at)),
   ...);
  const handle from = untyped(x, at);
  return taken("gather_nd", from, places_at("gather_nd", from, all, at), at);
}

}  // namespace detail

/// The part of x at one index along an axis, by default the first; the axis is removed: take(x, 2, axis<1>) is a matrix's column.
/// Negative indices count from the end; user_error for an index outside [-extent, extent).
template <tensor_like X, extent_like I, int A = 0>
auto take(const X& x, I index, axis_t<A> = {}, location where = location::current()) {
  const location at = where.in("take");
  constexpr int place = detail::checked_axes<detail::named::take, X::rank, A>()[0];
  constexpr dims shape = op_shapes::take(X::static_shape, dims(0), place).shape;
  return detail::typed<typename X::value_type, shape>(
      detail::element_of_axis("take", detail::untyped(x, at), place, dim(index), at), at);
}

/// x at several indices of its first axes, which broadcast together: result[…] = x[i[…], j[…]], as x[i, j] in NumPy. The other axes
/// follow. Two to four indices, i32 or i64; negative ones count from the end. Out of range as in take. One kernel.
template <tensor_like X, tensor_like I, tensor_like J>
auto take(const X& x, const I& i, const J& j, location where = location::current()) {
  return detail::take_several<detail::named::take>(x, where.in("take"), i, j);
}
template <tensor_like X, tensor_like I, tensor_like J, tensor_like K>
auto take(const X& x, const I& i, const J& j, const K& k, location where = location::current()) {
  return detail::take_several<detail::named::take>(x, where.in("take"), i, j, k);
}
template <tensor_like X, tensor_like I, tensor_like J, tensor_like K, tensor_like L>
auto take(const X& x, const I& i, const J& j, const K& k, const L& l, location where = location::current()) {
  return detail::take_several<detail::named::take>(x, where.in("take"), i, j, k, l);
}

/// x at indices of its first K axes, stored along the index's last axis: result[…] = x[index[…, 0], …, index[…, K - 1]]. K is the
/// index's static last extent, or given: gather_nd<2>(x, index). Otherwise as take. user_error unless the last extent is K.
template <int K, tensor_like X, tensor_like I>
auto gather_nd(const X& x, const I& index, location where = location::current()) {
  const location at = where.in("gather_nd");
  detail::check_index_dtype<detail::named::gather_nd, I>();
  constexpr bool fits = K >= 1 && K <= X::rank && I::rank >= 1;
  if constexpr (!fits) {
    detail::refuse_for<detail::named::gather_nd, detail::fault::indices, X>();
    return x;
  } else {
    constexpr int rank = I::rank - 1 + X::rank - K;
    const auto h = detail::untyped(index, at);
    if (h.extents[I::rank - 1] != K)
      fail("gather_nd",
           "the index is " + text::shape(h.extents) + "; its last axis has an index for each of " + std::to_string(K) +
               " axes",
           at);
    return detail::typed<typename X::value_type, detail::any_shape(rank)>(
        detail::gather_several(x, std::make_index_sequence<std::size_t(K)>(), at, h), at);
  }
}
template <tensor_like X, tensor_like I>
auto gather_nd(const X& x, const I& index, location where = location::current()) {
  constexpr bool known = I::rank >= 1 && I::static_shape[I::rank - 1] != dyn;
  static_assert(
      known, "sinter: [gather_nd] the index's last extent is not static; give the number of axes: gather_nd<2>(x, i)");
  if constexpr (known) return gather_nd<int(I::static_shape[I::rank - 1].bits)>(x, index, where);
  else return x;
}

namespace detail {
template <std::size_t N>
tensor<std::int64_t, 1> stacked_starts(const tensor<std::int64_t, dims{}> (&starts)[N], location at) {
  std::vector<handle> all;
  for (const auto& s : starts) all.push_back(untyped(s, at));
  return typed<std::int64_t, dims(1)>(views::stack(all, 0, at), at);
}
}  // namespace detail

/// The part of x with these extents that begins at `starts`, one start for each axis. As in XLA, a start is clamped to
/// [0, extent - size]; negative starts do not count from the end. user_error for a size above x's extent.
template <tensor_like X, tensor_like I, std::size_t R>
auto dynamic_slice(const X& x, const I& starts, const dim (&sizes)[R], location where = location::current()) {
  const location at = where.in("dynamic_slice");
  detail::check_index_dtype<detail::named::dynamic_slice, I, false>();
  constexpr bool fits = int(R) == X::rank && I::rank == 1;
  static_assert(fits, "sinter: [dynamic_slice] takes starts (one axis) and sizes, one for each axis of the tensor");
  if constexpr (fits)
    return detail::typed<typename X::value_type, detail::any_shape(int(R))>(
        detail::dynamic_part(detail::untyped(x, at), detail::untyped(starts, at), detail::listed(sizes), at), at);
  else return x;
}
template <tensor_like X, std::size_t N, std::size_t R>
auto dynamic_slice(const X& x, const tensor<std::int64_t, dims{}> (&starts)[N], const dim (&sizes)[R],
                   location where = location::current()) {
  return dynamic_slice(x, detail::stacked_starts(starts, where), sizes, where);
}

/// x with `update` in place of the equally large part that begins at `starts`, which are clamped as in dynamic_slice.
template <tensor_like X, tensor_like U, tensor_like I>
auto dynamic_update_slice(const X& x, const U& update, const I& starts, location where = location::current()) {
  const location at = where.in("dynamic_update_slice");
  using name = detail::named::dynamic_update_slice;
  detail::check_index_dtype<name, I, false>();
  if constexpr (dtype_of<typename X::value_type> != dtype_of<typename U::value_type>)
    detail::refuse_for<name, detail::fault::dtypes, X>();
  constexpr bool fits = U::rank == X::rank && I::rank == 1;
  static_assert(fits, "sinter: [dynamic_update_slice] takes an update of the tensor's rank, and starts (one axis)");
  if constexpr (fits)
    return detail::typed<typename X::value_type, X::static_shape>(
        detail::dynamic_update(detail::untyped(x, at), detail::untyped(update, at), detail::untyped(starts, at), at),
        at);
  else return x;
}
template <tensor_like X, tensor_like U, std::size_t N>
auto dynamic_update_slice(const X& x, const U& update, const tensor<std::int64_t, dims{}> (&starts)[N],
                          location where = location::current()) {
  return dynamic_update_slice(x, update, detail::stacked_starts(starts, where), where);
}

/// The elements of x along an axis with a true mask, in order, as NumPy's compress; the mask has one axis. {.size = n, .fill = v}
/// gives n elements, padded with v or cut off. user_error if the mask has another extent.
template <tensor_like X, tensor_like Mask, int A = 0>
auto compress(const X& x, const Mask& mask, axis_t<A> = {}, bounded<typename X::value_type> how = {},
              location where = location::current()) {
  using T = typename X::value_type;
  const location at = where.in("compress");
  if constexpr (!is_bool(dtype_of<typename Mask::value_type>))
    detail::refuse_for<detail::named::compress, detail::fault::condition, Mask>();
  static_assert(Mask::rank == 1, "sinter: [compress] the mask has one axis; flatten both for a mask of elements");
  constexpr int place = detail::checked_axes<detail::named::compress, X::rank, A>()[0];
  const auto chosen = detail::stage(mask, at);
  const dim extent = detail::extents_of(x, at)[std::size_t(place)];
  if (chosen.size(0, at) != extent)
    fail("compress",
         "the mask has " + chosen.size(0, at).text() + " elements, axis " + std::to_string(place) +
             " of the tensor has extent " + extent.text() + "; they must be equal",
         at);
  // A number that is read ends the graph so far: handles are made behind it.
  if (how.size && *how.size < 0) fail("compress", "the size " + how.size->text() + " is negative; give 0 or more", at);
  const dim size = how.size ? *how.size : dim(detail::count_true(chosen, at));
  const auto from = detail::untyped(x, at), m = detail::untyped(chosen, at);
  return detail::typed<T, detail::with_extent(X::static_shape, place, dyn)>(
      detail::compressed(from, m, place, size, detail::untyped(tensor<T, dims{}>(how.fill.value, at), at), at), at);
}
template <tensor_like X, tensor_like Mask>
auto compress(const X& x, const Mask& mask, bounded<typename X::value_type> how, location where = location::current()) {
  return compress(x, mask, axis<0>, how, where);
}
template <tensor_like X, tensor_like Mask, extent_like N>
SINTER_WRONG_CALL("[compress] a size is an option: compress(x, mask, {.size = n})")
detail::wrong_call<> compress(const X&, const Mask&, N, location = {}) {
  return {};
}

}  // namespace sinter

// Header-only: the declarations come with their definitions.
#if !defined(SINTER_COMPILED)
#include "place_rules.hpp"
#endif
