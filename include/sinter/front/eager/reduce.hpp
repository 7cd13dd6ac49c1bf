// front/eager/reduce.hpp: a reduction of a pointwise expression as one fused loop.
#pragma once

#include <algorithm>
#include <cstdint>
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
      if (!v.ok) {  // scattered elements are computed first, and then combined in vectors, too
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

/// Types whose reductions depend only on the row function of their expression; with a compiled engine their loops are the engine's.
template <class T>
inline constexpr bool is_reduced_by_rows =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int64_t> || std::is_same_v<T, bool>;
#if defined(SINTER_COMPILED)
template <class T>
using reduction_set = std::conditional_t<is_reduced_by_rows<T>, void, simd::instruction_set>;
#else
template <class T>
using reduction_set = simd::instruction_set;
#endif

/// An expression whose elements come from its row function.
struct filled_rows {
  const void* expression;
  row_function fill;
};
/// Calls f(cursor, n) for blocks of elements [begin, end) of a row, which lie side by side.
template <class T, class F>
void each_filled(const void* rows, const cursor* at, std::int64_t begin, std::int64_t end, const F& f) {
  const auto& from = *static_cast<const filled_rows*>(rows);
  alignas(64) T values[reduce_block];
  for (std::int64_t i = begin, n; i < end; i += n) {
    n = std::min(reduce_block, end - i);
    from.fill(from.expression, at, i, i + n, values);
    f(cursor{reinterpret_cast<const char*>(values), 0, std::int64_t(sizeof(T))}, n);
  }
}

/// reduce_row of filled rows.
template <ir::op C, class T, class Set>
total_type<C, T> reduce_filled(const void* rows, const cursor* at, std::int64_t begin, std::int64_t end) {
  static const tensor<T, dims{dyn}> e;
  using Total = total_type<C, T>;
  Total total = identity_of<C, Total>();
  each_filled<T>(rows, at, begin, end, [&](const cursor& from, std::int64_t n) {
    total = combine<C, Total>(total, reduce_row<C, tensor<T, dims{dyn}>>(&e, &from, 0, n));
  });
  return total;
}
/// combine_row of filled rows.
template <ir::op C, class T, class Set>
void combine_filled(const void* rows, const cursor* at, std::int64_t begin, std::int64_t end, T* totals) {
  static const tensor<T, dims{dyn}> e;
  each_filled<T>(rows, at, begin, end, [&](const cursor& from, std::int64_t n) {
    combine_row<C, tensor<T, dims{dyn}>>(&e, &from, 0, n, totals);
    totals += n;
  });
}

/// One reduction with its expression's type erased: all of the same C and dtype share one loop.
template <ir::op C, class Out, class Set = reduction_set<Out>>
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

/// Makes `out` the values of `e` reduced over `count` axes by r, with its axes dropped, and returns where they are. `signature` is
/// what a GPU's program is found by. user_error for the maximum or minimum of nothing.
template <ir::op C, class T, class Set>
void* reduced(expression_view e, const reduction<C, T, Set>& r, const void* signature, const int* axes, int count,
              const tensor_parts& out, location at) {
  const int rank = e.terms->rank;
  local_list<engine::operand, 16> operands(static_cast<std::size_t>(e.count));
  operand_list list{operands.data()};
  dims extents(int{rank}), kept;
  collect(e, list, at, extents.extent);
  for (int i = 0; i < rank; ++i)
    if (std::find(axes, axes + count, i) == axes + count) kept.push(extents[i]);
  std::copy_n(kept.extent, kept.rank, out.extents);
  put_strides(out.extents, out.strides, kept.rank);
  if (list.on_gpu) {
    std::int64_t facts[max_rank];
    std::copy(axes, axes + count, facts);
    const auto trace = [&] { return push_reduce(C, push(*engine::current(), e, at), axes, count, at); };
    *out.memory =
        run_stage("reduce", signature, list, {facts, static_cast<std::size_t>(count)}, device_of(list, {}), at, trace)
            .memory;
    return out.memory->data();
  }
  *out.memory = new_memory("reduce", kept, sizeof(T), at);
  T* const to = static_cast<T*>(out.memory->data());
  int leaf_number = 0;
  for (int i = 0; i < list.count; ++i) leaf_number += !list.at[i].is_number();
  leaf_list leaves(leaf_number);
  bind_leaves(list, rank, leaves.data());
  const reduction_space s(leaves.data(), leaf_number, as_numbers(extents.extent), rank, axes, count);
  if (s.results == 0) return to;
  if ((C == ir::op::maximum || C == ir::op::minimum) && s.reduced == 0)
    fail(ir::name(C), "nothing to reduce: the shape is " + text::shape(extents) + "; pad it, or skip the reduction",
         at);
  if (s.reduced == 0) std::fill(to, to + s.results, static_cast<T>(identity_of<C, compute_type<T>>()));
  else run_reduction(r, s, to);
  return to;
}

/// `reduced` of an expression by its stage. The key of a GPU's program is that of the stage and of C.
template <ir::op C, class T, class Set>
void* reduced_stage(const row_stage& s, const void* expression, const void* signature, const int* axes, int count,
                    const tensor_parts& out, location at) {
  static const tensor<T, dims{dyn}> any;
  const expression_view e{s.terms, s.count, expression};
  const filled_rows rows{expression, s.fill};
  const bool plain = s.terms->is == term::tensor;  // its elements are read where they are
  const reduction<C, T, Set> r =
      plain ? reduction<C, T, Set>{&any, &reduce_row<C, tensor<T, dims{dyn}>>, &combine_row<C, tensor<T, dims{dyn}>>}
            : reduction<C, T, Set>{&rows, &reduce_filled<C, T, Set>, &combine_filled<C, T, Set>};
  return reduced(e, r, signature, axes, count, out, at);
}

// clang-format off
#define SINTER_REDUCED(X)                                                                                            \
  X(add, float) X(mul, float) X(maximum, float) X(minimum, float)                                                    \
  X(add, double) X(mul, double) X(maximum, double) X(minimum, double)                                                \
  X(add, std::int64_t) X(mul, std::int64_t) X(maximum, std::int64_t) X(minimum, std::int64_t)                        \
  X(bit_or, bool) X(bit_and, bool)
// clang-format on
#if defined(SINTER_COMPILED)
#define SINTER_X(OP, T)                                                                                            \
  extern template void* reduced_stage<ir::op::OP, T, void>(const row_stage&, const void*, const void*, const int*, \
                                                           int, const tensor_parts&, location);
SINTER_REDUCED(SINTER_X)
#undef SINTER_X
#endif

template <class E>
inline constexpr row_stage reduced_stage_of = stage_of<E>;
template <class T, dims Shape>
inline constexpr row_stage reduced_stage_of<tensor<T, Shape>> = {terms_of<tensor<T, Shape>>.data(), 1, nullptr,
                                                                 "contiguous", nullptr};

/// Reduces `e` over `count` axes with C: add, mul, maximum, minimum, bit_or or bit_and. The axes are dropped; Result is
/// the static shape that remains. user_error for the maximum or minimum of nothing.
template <ir::op C, dims Result, class E>
auto eager_reduce(const E& e, const int* axes, int count, location at) {
  using T = typename E::value_type;
  tensor<T, Result> out;
  const void* const signature = &stage_signature<E, combiner_tag<C>>;
  if constexpr (is_reduced_by_rows<T>) {
    access::point_to(out, reduced_stage<C, T, reduction_set<T>>(reduced_stage_of<E>, &e, signature, axes, count,
                                                                access::parts(out), at));
  } else {
    const reduction<C, T> r{&e, &reduce_row<C, E>, &combine_row<C, E>};
    access::point_to(out, reduced(terms(e), r, signature, axes, count, access::parts(out), at));
  }
  return out;
}

}  // namespace sinter::detail
