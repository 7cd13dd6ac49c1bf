// front/eager/reduce.hpp: a reduction of a pointwise expression as one fused loop.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "fill.hpp"

namespace sinter::detail {

/// Combines two values as row C of ops.def does.
template <ir::op C, class T>
SINTER_INLINE T combine(T a, T b) {
  return vocabulary::apply_row<C, T>(a, b);
}

/// What C of nothing is.
template <ir::op C, class T>
constexpr T identity_of() {
  constexpr ir::scalar s = ir::combiner_identity(C, dtype_of<T>);
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(s.f);
  else return static_cast<T>(s.i);
}

/// Elements that are combined in the expression's own type; longer runs of sums and products continue in f64, which
/// keeps the error of an f32 sum independent of its length.
inline constexpr std::int64_t reduce_block = 1024;
/// Elements reduced by one thread at a time; fixed, so that results do not depend on the number of threads.
inline constexpr std::int64_t reduce_chunk = 1 << 15;
/// Neighbouring results that are accumulated together when the innermost axis is kept.
inline constexpr std::int64_t reduce_columns = 256;

/// Rows of at most so many elements are reduced step by step, many rows at a time.
inline constexpr std::int64_t short_row = 16;

template <ir::op C, class T>
using total_type = std::conditional_t<std::is_floating_point_v<T> && (C == ir::op::add || C == ir::op::mul), double, T>;

/// Sums of f32 in f64, a vector at a time.
struct wide_sum {
  static constexpr int width = simd::vec<float>::width;
  typedef float narrow __attribute__((vector_size(width * sizeof(float))));
  typedef double lanes __attribute__((vector_size(width * sizeof(double))));
  lanes sum{};

  SINTER_INLINE void add(simd::vec<float> x) {
    narrow n;
    std::memcpy(&n, &x.v, sizeof(n));
    sum += __builtin_convertvector(n, lanes);
  }
  SINTER_INLINE double total() const {
    double t = 0;
    for (int k = 0; k < width; ++k) t += sum[k];
    return t;
  }
};

/// C over elements [begin, end) of one row of E. Of an f32 sum four vectors are added before they become f64: a mean is off by
/// no more than two roundings.
template <ir::op C, class E>
total_type<C, compute_type<typename E::value_type>> reduce_row(const void* expression, const cursor* at,
                                                               std::int64_t begin, std::int64_t end) {
  using T = compute_type<typename E::value_type>;
  using Total = total_type<C, T>;
  const E& e = *static_cast<const E*>(expression);
  Total total = identity_of<C, Total>();
  if constexpr (vectorizable<E>) {
    using R = stored<E, T>;
    constexpr int width = vector_row<E>::width, unroll = 4;
    if (end - begin >= unroll * width) {
      const vector_row<E> v(at);
      if constexpr (C == ir::op::add && std::is_same_v<R, float>) {
        wide_sum sum;
        for (; v.ok && begin + unroll * width <= end; begin += unroll * width)
          sum.add((v(e, begin) + v(e, begin + width)) + (v(e, begin + 2 * width) + v(e, begin + 3 * width)));
        total = sum.total();
      } else if (v.ok) {
        const auto start = decltype(v(e, 0))(identity_of<C, R>());
        decltype(v(e, 0)) sum[unroll] = {start, start, start, start};
        for (; begin + unroll * width <= end; begin += unroll * width)
          for (int k = 0; k < unroll; ++k) sum[k] = simd::apply_row<C, R>(sum[k], v(e, begin + k * width));
        R lanes[bound(width)];
        simd::apply_row<C, R>(simd::apply_row<C, R>(sum[0], sum[1]), simd::apply_row<C, R>(sum[2], sum[3]))
            .store(lanes);
        for (R x : lanes) total = combine<C, Total>(total, static_cast<T>(x));
      }
    }
  }
  const row<leaf_count<E>> r(at);
  for (; begin < end; ++begin) total = combine<C, Total>(total, value_at<0>(e, r, begin));
  return total;
}

/// Combines elements [begin, end) of one row of E into as many totals.
template <ir::op C, class E>
void combine_row(const void* expression, const cursor* at, std::int64_t begin, std::int64_t end,
                 compute_type<typename E::value_type>* totals) {
  using T = compute_type<typename E::value_type>;
  const E& e = *static_cast<const E*>(expression);
  if constexpr (vectorizable<E>) {
    constexpr int width = vector_row<E>::width;
    if (end - begin >= width) {
      const vector_row<E> v(at);
      for (; v.ok && begin + width <= end; begin += width, totals += width) {
        auto* to = reinterpret_cast<stored<E, T>*>(totals);
        const auto x = v(e, begin);
        simd::apply_row<C, stored<E, T>>(decltype(v(e, 0))::load(to), x).store(to);
      }
      if (!v.ok) {  // what lies apart is computed first, and combined in vectors all the same
        using R = stored<E, T>;
        const row<leaf_count<E>> r(at);
        alignas(64) R values[64];
        for (std::int64_t n = 0; begin + width <= end; begin += n, totals += n) {
          n = std::min<std::int64_t>(64, (end - begin) / width * width);
          for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<R>(value_at<0>(e, r, begin + i));
          for (std::int64_t i = 0; i < n; i += width) {
            auto* to = reinterpret_cast<R*>(totals + i);
            using vector = decltype(v(e, 0));
            simd::apply_row<C, R>(vector::load(to), vector::load(values + i)).store(to);
          }
        }
      }
    }
  }
  const row<leaf_count<E>> r(at);
  for (; begin < end; ++begin, ++totals) *totals = combine<C, T>(*totals, value_at<0>(e, r, begin));
}

/// A reduction's axes: kept ones at [0, kept), reduced ones at [first, last), with neighbours merged.
struct reduction_space {
  leaf* leaves;
  int count;
  std::int64_t extent[max_rank] = {};
  int kept = 0, first = 0, last = 0;
  std::int64_t results = 1, reduced = 1;
  bool columns =
      false;  ///< loops run along the innermost kept axis: it is the innermost of the expression, or rows are short

  SINTER_API reduction_space(leaf* bound, int leaf_count, const std::int64_t* extents, int rank, const int* axes,
                             int axis_count);
};

/// Writes every result of a space that has some: r.over_rows and r.over_columns give the totals of a chunk, which are merged.
/// They are given walkers of the kept axes, in place, and of the reduced ones, to seek.
template <class Reduction, class Out>
void run_reduction(const Reduction& r, const reduction_space& s, Out* out) {
  using Total = typename Reduction::Total;
  const bool columns = s.columns && s.kept > 0 && s.extent[s.kept - 1] >= 8;
  const std::int64_t inner = columns ? s.extent[s.kept - 1] : 1;
  const std::int64_t tile = std::min(inner, reduce_columns), tiles = (inner + tile - 1) / tile;
  const std::int64_t chunk = std::max<std::int64_t>(reduce_chunk / tile, 1);
  const std::int64_t chunks = (s.reduced + chunk - 1) / chunk;
  std::vector<Total> partial(static_cast<std::size_t>(chunks > 1 ? chunks * s.results : 0));

  // A piece is one chunk of one tile of results.
  parallel(s.results / inner * tiles * chunks, s.results * s.reduced, [&](std::int64_t from, std::int64_t to) {
    Total totals[reduce_columns];
    series<cursor> at(static_cast<std::size_t>(s.count));
    std::int64_t c = from % chunks, tile_of = from / chunks % tiles, outer = from / chunks / tiles;
    walker of(s.extent, 0, columns ? s.kept - 1 : s.kept, s.leaves, s.count, outer);
    walker along(s.extent, s.first, columns ? s.last : std::max(s.first, s.last - 1), s.leaves, s.count, 0);
    for (std::int64_t piece = from; piece < to; ++piece) {
      const std::int64_t low = tile_of * tile, high = std::min(inner, low + tile), begin = c * chunk,
                         end = std::min(s.reduced, begin + chunk);
      if (columns) r.over_columns(s, of, along, at.data(), low, high, begin, end, totals);
      else totals[0] = r.over_rows(s, of, along, at.data(), begin, end);
      const std::int64_t first = outer * inner + low;
      for (std::int64_t i = 0; i < high - low; ++i) {
        if (chunks > 1) partial[static_cast<std::size_t>(c * s.results + first + i)] = totals[i];
        else out[first + i] = r.result(totals[i]);
      }
      if (++c < chunks) continue;
      c = 0;
      if (++tile_of < tiles) continue;
      tile_of = 0;
      ++outer;
      of.next();
    }
  });
  for (std::int64_t i = 0; chunks > 1 && i < s.results; ++i) {
    Total total = partial[static_cast<std::size_t>(i)];
    for (std::int64_t c = 1; c < chunks; ++c) r.merge(total, partial[static_cast<std::size_t>(c * s.results + i)]);
    out[i] = r.result(total);
  }
}

template <ir::op C>
struct combiner_tag {};

/// One reduction with its expression's type erased: all of the same C and dtype share one loop.
template <ir::op C, class Out>
struct reduction {
  using T = compute_type<Out>;
  using Total = total_type<C, T>;

  const void* expression;
  Total (*row)(const void*, const cursor*, std::int64_t, std::int64_t);
  void (*combine_rows)(const void*, const cursor*, std::int64_t, std::int64_t, T*);

  static void merge(Total& total, Total next) { total = combine<C, Total>(total, next); }
  static Out result(Total total) { return static_cast<Out>(total); }

  /// C over reduced positions [begin, end) for one result.
  Total over_rows(const reduction_space& s, const walker& result, walker& w, cursor* at, std::int64_t begin,
                  std::int64_t end) const {
    const int axis = s.last > s.first ? s.last - 1 : -1;
    const std::int64_t inner = axis >= 0 ? s.extent[axis] : 1;
    Total total = identity_of<C, Total>();
    w.seek(begin / inner);
    std::int64_t first = begin % inner;
    for (std::int64_t i = begin; i < end; w.next(), first = 0) {
      place(at, s.leaves, s.count, axis, result, w);
      const std::int64_t row_end = std::min(inner, first + (end - i));
      for (std::int64_t j = first; j < row_end; j += reduce_block)
        total = combine<C, Total>(total, row(expression, at, j, std::min(row_end, j + reduce_block)));
      i += row_end - first;
    }
    return total;
  }

  /// C over reduced positions [begin, end) for results [low, high) along the innermost kept axis.
  void over_columns(const reduction_space& s, const walker& outer, walker& w, cursor* at, std::int64_t low,
                    std::int64_t high, std::int64_t begin, std::int64_t end, Total* totals) const {
    constexpr std::int64_t rows = std::is_same_v<T, Total> ? std::numeric_limits<std::int64_t>::max() : 8;
    const std::int64_t n = high - low;
    std::fill(totals, totals + n, identity_of<C, Total>());
    w.seek(begin);
    T block[reduce_columns];
    for (std::int64_t i = begin; i < end;) {
      std::fill(block, block + n, identity_of<C, T>());
      const std::int64_t stop = end - i > rows ? i + rows : end;
      for (; i < stop; ++i, w.next()) {
        place(at, s.leaves, s.count, s.kept - 1, outer, w);
        combine_rows(expression, at, low, high, block);
      }
      for (std::int64_t j = 0; j < n; ++j) totals[j] = combine<C, Total>(totals[j], block[j]);
    }
  }
};

/// Reduces `e` over `count` axes with C: add, mul, maximum, minimum, bit_or or bit_and. The axes are dropped; Result is
/// the static shape that remains. user_error for the maximum or minimum of nothing.
template <ir::op C, dims Result, class E>
auto eager_reduce(const E& e, const int* axes, int count, location at) {
  using T = typename E::value_type;
  constexpr int leaf_number = leaf_count<E>;
  const auto extents = extents_of(e, at);
  index_array<Result.rank> kept{};
  if constexpr (Result.rank > 0)
    for (int i = 0, to = 0; i < E::rank; ++i)
      if (std::find(axes, axes + count, i) == axes + count)
        kept[static_cast<std::size_t>(to++)] = extents[static_cast<std::size_t>(i)];
  engine::operand operands[operand_count<E>];
  operand_list list{operands};
  collect(e, list, at);
  if (list.on_gpu) {
    std::int64_t facts[max_rank];
    std::copy(axes, axes + count, facts);
    const auto trace = [&] { return push_reduce(C, push(*engine::current(), e, at), axes, count, at); };
    auto out = run_stage("reduce", &stage_signature<E, combiner_tag<C>>, list, {facts, static_cast<std::size_t>(count)},
                         device_of(list, {}), at, trace);
    return from_output<T, Result>(std::move(out), kept);
  }
  auto result = empty<T, Result>("reduce", kept, at);
  leaf leaves[bound(leaf_number)];
  bind_leaves(list, E::rank, leaves);
  const reduction_space s(leaves, leaf_number, as_numbers(extents.data()), E::rank, axes, count);
  if (s.results == 0) return result;
  if ((C == ir::op::maximum || C == ir::op::minimum) && s.reduced == 0)
    fail(ir::name(C), "nothing to reduce: the shape is " + shape_text(extents) + "; pad it, or skip the reduction", at);
  T* out = access::data(result);
  if (s.reduced == 0) std::fill(out, out + s.results, static_cast<T>(identity_of<C, compute_type<T>>()));
  else run_reduction(reduction<C, T>{&e, &reduce_row<C, E>, &combine_row<C, E>}, s, out);
  return result;
}

}  // namespace sinter::detail

// Header-only: whoever sees the declarations has the definitions as well.
#if !defined(SINTER_COMPILED)
#include "reduce_rules.hpp"
#endif
