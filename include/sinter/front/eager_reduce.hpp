// front/eager_reduce.hpp: a reduction of a pointwise expression as one fused loop.
#pragma once

#include <limits>
#include <memory>
#include <type_traits>

#include "eager.hpp"

namespace sinter::detail {

/// Combines two values as row C of ops.def does.
template <ir::op C, class T>
SINTER_INLINE T combine(T a, T b) {
  return vocabulary::apply_row<C, T>(a, b);
}

/// What C of nothing is; for maximum and minimum, a value that every other replaces.
template <ir::op C, class T>
constexpr T identity_of() {
  using limits = std::numeric_limits<T>;
  if constexpr (C == ir::op::mul) return T(1);
  else if constexpr (C == ir::op::bit_and) return static_cast<T>(~T(0));
  else if constexpr (C == ir::op::maximum) return limits::has_infinity ? -limits::infinity() : limits::lowest();
  else if constexpr (C == ir::op::minimum) return limits::has_infinity ? limits::infinity() : limits::max();
  else return T(0);
}
template <>
constexpr bool identity_of<ir::op::bit_and, bool>() {
  return true;
}

/// Elements that are combined in the expression's own type; longer runs of sums and products continue in f64, which
/// keeps the error of an f32 sum independent of its length.
inline constexpr std::int64_t reduce_block = 1024;
/// Elements reduced by one thread at a time; fixed, so that results do not depend on the number of threads.
inline constexpr std::int64_t reduce_chunk = 1 << 15;
/// Neighbouring results that are accumulated together when the innermost axis is kept.
inline constexpr std::int64_t reduce_columns = 256;

template <ir::op C, class T>
using total_type = std::conditional_t<std::is_floating_point_v<T> && (C == ir::op::add || C == ir::op::mul), double, T>;

/// C over elements [begin, end) of one row.
template <ir::op C, class E, int N>
auto reduce_row(const E& e, const row<N>& r, std::int64_t begin, std::int64_t end) {
  using T = compute_type<typename E::value_type>;
  T total = identity_of<C, T>();
  std::int64_t i = begin;
  if constexpr (vectorizable<E>) {
    using R = std::conditional_t<std::is_same_v<T, bool>, bool, lane_type<E>>;
    constexpr int width = vector_row<E>::width;
    vector_row<E> v;
    if (end - begin >= 4 * width && v.prepare(r)) {
      const auto at = [&](std::int64_t j) { return vector_at<lane_type<E>, 0>(e, v.r, j); };
      auto a = at(i), b = at(i + width), c = at(i + 2 * width), d = at(i + 3 * width);
      for (i += 4 * width; i + 4 * width <= end; i += 4 * width) {
        a = simd::apply_row<C, R>(a, at(i));
        b = simd::apply_row<C, R>(b, at(i + width));
        c = simd::apply_row<C, R>(c, at(i + 2 * width));
        d = simd::apply_row<C, R>(d, at(i + 3 * width));
      }
      R lanes[width];
      simd::apply_row<C, R>(simd::apply_row<C, R>(a, b), simd::apply_row<C, R>(c, d)).store(lanes);
      for (R x : lanes) total = combine<C>(total, static_cast<T>(x));
    }
  }
  for (; i < end; ++i) total = combine<C, T>(total, value_at<0>(e, r, i));
  return total;
}

/// Combines elements [begin, end) of one row into as many totals.
template <ir::op C, class E, int N, class T>
void combine_row(const E& e, const row<N>& r, std::int64_t begin, std::int64_t end, T* totals) {
  std::int64_t i = begin;
  if constexpr (vectorizable<E>) {
    using R = std::conditional_t<std::is_same_v<T, bool>, bool, lane_type<E>>;
    constexpr int width = vector_row<E>::width;
    vector_row<E> v;
    if (end - begin >= width && v.prepare(r)) {
      for (; i + width <= end; i += width) {
        R* to = reinterpret_cast<R*>(totals) + (i - begin);
        const auto x = vector_at<lane_type<E>, 0>(e, v.r, i);
        simd::apply_row<C, R>(decltype(x)::load(to), x).store(to);
      }
    }
  }
  for (; i < end; ++i) totals[i - begin] = combine<C, T>(totals[i - begin], value_at<0>(e, r, i));
}

/// A reduction's axes: kept ones at [0, kept), reduced ones at [first, last), with neighbours merged.
template <int N>
struct reduction_space {
  leaf leaves[N > 0 ? N : 1];
  std::int64_t extent[max_rank] = {};
  int kept = 0, first = 0, last = 0;
  std::int64_t results = 1, reduced = 1;
  bool columns = false;  ///< the innermost axis of the expression is kept

  template <class E>
  reduction_space(const E& e, const index_array<E::rank>& extents, const int* axes, int count, location at) {
    leaf* end = leaves;
    bind_leaves(e, E::rank, end, at);
    const auto is_reduced = [&](int axis) { return std::find(axes, axes + count, axis) != axes + count; };
    leaf from[N > 0 ? N : 1];
    std::copy(leaves, leaves + N, from);
    int to = 0;
    for (const bool pass : {false, true}) {
      if (pass) first = to;
      for (int i = 0; i < E::rank; ++i) {
        if (is_reduced(i) != pass) continue;
        const std::int64_t n = extents[static_cast<std::size_t>(i)];
        (pass ? reduced : results) *= n;
        for (int k = 0; k < N; ++k) leaves[k].stride[to] = from[k].stride[i];
        extent[to++] = n;
      }
    }
    int innermost = E::rank - 1;
    while (innermost > 0 && extents[static_cast<std::size_t>(innermost)] == 1) --innermost;
    columns = innermost >= 0 && !is_reduced(innermost);
    kept = collapse(extent, 0, first, leaves, N);
    last = first + collapse(extent, first, to, leaves, N);
  }

  /// The row along `axis` (or none) from an offset of each leaf.
  template <class Offset>
  row<N> at(int axis, Offset&& offset) const {
    row<N> r;
    for (int k = 0; k < N; ++k) {
      const std::int64_t o = offset(k);
      r.data[k] = leaves[k].data ? leaves[k].data + o : nullptr;
      r.base[k] = leaves[k].base + o;
      r.step[k] = axis >= 0 ? leaves[k].stride[axis] : 0;
    }
    return r;
  }
};

/// C over reduced positions [begin, end) for one result.
template <ir::op C, class E, int N>
auto reduce_piece(const E& e, const reduction_space<N>& s, const walker<N>& result, std::int64_t begin, std::int64_t end) {
  using T = compute_type<typename E::value_type>;
  using Total = total_type<C, T>;
  const int axis = s.last > s.first ? s.last - 1 : -1;
  const std::int64_t inner = axis >= 0 ? s.extent[axis] : 1;
  Total total = identity_of<C, Total>();
  walker<N> w(s.extent, s.first, axis >= 0 ? axis : s.first, s.leaves, begin / inner);
  for (std::int64_t i = begin; i < end; w.next()) {
    const row<N> r = s.at(axis, [&](int k) { return result.offset(k) + w.offset(k); });
    const std::int64_t first = i % inner, row_end = std::min(inner, first + (end - i));
    for (std::int64_t j = first; j < row_end; j += reduce_block)
      total = combine<C, Total>(total, reduce_row<C>(e, r, j, std::min(row_end, j + reduce_block)));
    i += row_end - first;
  }
  return total;
}

/// C over reduced positions [begin, end) for results [low, high) along the innermost kept axis.
template <ir::op C, class E, int N, class Total>
void reduce_columns_piece(const E& e, const reduction_space<N>& s, const walker<N>& outer, std::int64_t low, std::int64_t high,
                          std::int64_t begin, std::int64_t end, Total* totals) {
  using T = compute_type<typename E::value_type>;
  constexpr std::int64_t rows = std::is_same_v<T, Total> ? std::numeric_limits<std::int64_t>::max() : 64;
  const std::int64_t n = high - low;
  std::fill(totals, totals + n, identity_of<C, Total>());
  walker<N> w(s.extent, s.first, s.last, s.leaves, begin);
  T block[reduce_columns];
  for (std::int64_t i = begin; i < end;) {
    std::fill(block, block + n, identity_of<C, T>());
    const std::int64_t stop = end - i > rows ? i + rows : end;
    for (; i < stop; ++i, w.next())
      combine_row<C>(e, s.at(s.kept - 1, [&](int k) { return outer.offset(k) + w.offset(k); }), low, high, block);
    for (std::int64_t j = 0; j < n; ++j) totals[j] = combine<C, Total>(totals[j], block[j]);
  }
}

/// Reduces `e` over `count` axes with C: add, mul, maximum, minimum, bit_or or bit_and. The axes are dropped; Result is
/// the static shape that remains. user_error for the maximum or minimum of nothing.
template <ir::op C, dims Result, class E>
auto eager_reduce(const E& e, const int* axes, int count, location at) {
  using T = typename E::value_type;
  using Total = total_type<C, compute_type<T>>;
  constexpr int N = leaf_count<E>;
  const auto extents = extents_of(e, at);
  index_array<Result.rank> kept{};
  for (int i = 0, to = 0; i < E::rank; ++i)
    if (std::find(axes, axes + count, i) == axes + count) kept[static_cast<std::size_t>(to++)] = extents[static_cast<std::size_t>(i)];
  auto result = empty<T, Result>("reduce", kept, at);
  const reduction_space<N> s(e, extents, axes, count, at);
  if (s.results == 0) return result;
  if ((C == ir::op::maximum || C == ir::op::minimum) && s.reduced == 0)
    fail(ir::name(C), "nothing to reduce: the shape is " + shape_text(extents) + "; pad it, or skip the reduction", at);

  T* out = access::data(result);
  if (s.reduced == 0) {
    std::fill(out, out + s.results, static_cast<T>(identity_of<C, Total>()));
    return result;
  }
  const bool columns = s.columns && s.kept > 0 && s.extent[s.kept - 1] >= 8;
  const std::int64_t tile = columns ? std::min(s.extent[s.kept - 1], reduce_columns) : 1;
  const std::int64_t inner = columns ? s.extent[s.kept - 1] : 1, tiles = (inner + tile - 1) / tile;
  const std::int64_t chunk = std::max<std::int64_t>(reduce_chunk / tile, 1);
  const std::int64_t chunks = std::max<std::int64_t>((s.reduced + chunk - 1) / chunk, 1);
  std::unique_ptr<Total[]> partial(chunks > 1 ? new Total[static_cast<std::size_t>(chunks * s.results)] : nullptr);

  // A piece is one chunk of one tile of results.
  const std::int64_t pieces = s.results / inner * tiles * chunks;
  parallel(pieces, s.results * std::max<std::int64_t>(s.reduced, 1), [&](std::int64_t from, std::int64_t to) {
    Total totals[reduce_columns];
    for (std::int64_t piece = from; piece < to; ++piece) {
      const std::int64_t c = piece % chunks, low = piece / chunks % tiles * tile, outer = piece / chunks / tiles;
      const std::int64_t high = std::min(inner, low + tile), begin = c * chunk, end = std::min(s.reduced, begin + chunk);
      const walker<N> w(s.extent, 0, columns ? s.kept - 1 : s.kept, s.leaves, outer);
      if (columns) reduce_columns_piece<C>(e, s, w, low, high, begin, end, totals);
      else totals[0] = reduce_piece<C>(e, s, w, begin, end);
      const std::int64_t first = outer * inner + low;
      for (std::int64_t i = 0; i < high - low; ++i) {
        if (partial) partial[static_cast<std::size_t>(c * s.results + first + i)] = totals[i];
        else out[first + i] = static_cast<T>(totals[i]);
      }
    }
  });
  for (std::int64_t i = 0; partial && i < s.results; ++i) {
    Total total = partial[static_cast<std::size_t>(i)];
    for (std::int64_t c = 1; c < chunks; ++c) total = combine<C, Total>(total, partial[static_cast<std::size_t>(c * s.results + i)]);
    out[i] = static_cast<T>(total);
  }
  return result;
}

}  // namespace sinter::detail
