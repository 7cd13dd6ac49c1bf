// loops/reduce.hpp: reductions as loops over chunks of a space, for any source.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "simd.hpp"
#include "space.hpp"

namespace sinter::detail {

/// Combines two values like row C of ops.def.
template <ir::op C, class T>
SINTER_INLINE T combine(T a, T b) {
  return vocabulary::apply_row<C, T>(a, b);
}

/// The identity of C.
template <ir::op C, class T>
constexpr T identity_of() {
  constexpr ir::scalar s = ir::combiner_identity(C, dtype_of<T>);
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(s.f);
  else return static_cast<T>(s.i);
}

/// The number of elements that are combined in the expression's own type. Longer runs of sums and products continue in f64,
/// so that the error of an f32 sum does not depend on its length.
inline constexpr std::int64_t reduce_block = 1024;
/// The number of elements that one thread reduces at a time; fixed, so that results do not depend on the number of threads.
inline constexpr std::int64_t reduce_chunk = 1 << 15;
/// The number of adjacent results that are accumulated together when the innermost axis is kept.
inline constexpr std::int64_t reduce_columns = 256;

/// Rows of at most this many elements are reduced step by step, many rows at a time.
inline constexpr std::int64_t short_row = 16;

template <ir::op C, class T>
using total_type = std::conditional_t<std::is_floating_point_v<T> && (C == ir::op::add || C == ir::op::mul), double, T>;

/// Sums of f32 in f64, a vector at a time.
template <class Set = simd::instruction_set>
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

/// C over the whole groups of four vectors of [begin, end); begin is then after them. v(i) is the elements from i on, stored
/// as R. For an f32 sum four vectors are added before they become f64, so a mean is off by at most two roundings.
template <ir::op C, class T, class R, class V>
SINTER_INLINE total_type<C, T> reduce_vectors(const V& v, std::int64_t& begin, std::int64_t end) {
  using Total = total_type<C, T>;
  using vector = decltype(v(begin));
  constexpr int width = vector::width, unroll = 4;
  if constexpr (C == ir::op::add && std::is_same_v<R, float>) {
    wide_sum<> sum;
    for (; begin + unroll * width <= end; begin += unroll * width)
      sum.add((v(begin) + v(begin + width)) + (v(begin + 2 * width) + v(begin + 3 * width)));
    return sum.total();
  } else {
    const vector start(identity_of<C, R>());
    vector sum[unroll] = {start, start, start, start};
    for (; begin + unroll * width <= end; begin += unroll * width)
      for (int k = 0; k < unroll; ++k) sum[k] = simd::apply_row<C, R>(sum[k], v(begin + k * width));
    R lanes[bound(width)];
    simd::apply_row<C, R>(simd::apply_row<C, R>(sum[0], sum[1]), simd::apply_row<C, R>(sum[2], sum[3])).store(lanes);
    Total total = identity_of<C, Total>();
    for (R x : lanes) total = combine<C, Total>(total, static_cast<T>(x));
    return total;
  }
}

/// C over n elements.
template <ir::op C, class T, class Set = simd::instruction_set>
total_type<C, compute_type<T>> reduce_elements(const T* x, std::int64_t n) {
  using Total = total_type<C, compute_type<T>>;
  Total total = identity_of<C, Total>();
  std::int64_t i = 0;
  if constexpr (simd::is_lane<lane<T>>) {
    const auto* const lanes = reinterpret_cast<const lane<T>*>(x);
    if (n >= 4 * simd::vec<lane<T>>::width)
      total = reduce_vectors<C, T, lane<T>>([&](std::int64_t k) { return simd::vec<lane<T>>::load(lanes + k); }, i, n);
  }
  for (; i < n; ++i) total = combine<C, Total>(total, static_cast<compute_type<T>>(x[i]));
  return total;
}

/// Combines totals by C with as many elements.
template <ir::op C, class T, class Set = simd::instruction_set>
void combine_elements(const T* x, std::int64_t n, T* totals) {
  using vector = simd::vec<T>;
  std::int64_t i = 0;
  for (; i + vector::width <= n; i += vector::width)
    simd::apply_row<C, T>(vector::load(totals + i), vector::load(x + i)).store(totals + i);
  for (; i < n; ++i) totals[i] = combine<C, T>(totals[i], x[i]);
}

/// A reduction's axes: kept ones at [0, kept), reduced ones at [first, last), with merged neighbours.
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

/// Writes every result of a space that has some. r.over_rows and r.over_columns return the totals of a chunk, which are
/// merged. They receive walkers of the kept axes, in place, and of the reduced axes, to seek.
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
    cursor_list at(static_cast<std::size_t>(s.count));
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

}  // namespace sinter::detail

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "reduce_rules.hpp"
#endif
