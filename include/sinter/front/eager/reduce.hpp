// front/eager/reduce.hpp: a reduction of a pointwise expression as one fused loop.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "../../loops/reduce.hpp"
#include "fill.hpp"

namespace sinter::detail {

/// C over elements [begin, end) of one row of E.
template <ir::op C, class E, class Set = simd::instruction_set>
total_type<C, compute_type<typename E::value_type>> reduce_row(const void* expression, const cursor* at,
                                                               std::int64_t begin, std::int64_t end) {
  using T = compute_type<typename E::value_type>;
  using Total = total_type<C, T>;
  const E& e = *static_cast<const E*>(expression);
  Total total = identity_of<C, Total>();
  if constexpr (vectorizable<E>) {
    if (end - begin >= 4 * vector_row<E>::width) {
      const vector_row<E> v(at);
      if (v.ok) total = reduce_vectors<C, T, stored<E, T>>([&](std::int64_t i) { return v(e, i); }, begin, end);
    }
  }
  const row<leaf_count<E>> r(at);
  for (; begin < end; ++begin) total = combine<C, Total>(total, value_at<0>(e, r, begin));
  return total;
}

/// Combines elements [begin, end) of one row of E into as many totals.
template <ir::op C, class E, class Set = simd::instruction_set>
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

template <ir::op C>
struct combiner_tag {};

/// One reduction with its expression's type erased: all of the same C and dtype share one loop.
template <ir::op C, class Out, class Set = simd::instruction_set>
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
  const expression_view view = terms(e);
  index_array<E::rank> extents;
  engine::operand operands[operand_count<E>];
  operand_list list{operands};
  collect(view, list, at, extents.data());
  index_array<Result.rank> kept{};
  if constexpr (Result.rank > 0)
    for (int i = 0, to = 0; i < E::rank; ++i)
      if (std::find(axes, axes + count, i) == axes + count)
        kept[static_cast<std::size_t>(to++)] = extents[static_cast<std::size_t>(i)];
  if (list.on_gpu) {
    std::int64_t facts[max_rank];
    std::copy(axes, axes + count, facts);
    const auto trace = [&] { return push_reduce(C, push(*engine::current(), view, at), axes, count, at); };
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
