// front/eager/blocks.hpp: a pointwise expression computed in blocks, which are reduced while they are in the cache.
#pragma once

#include <algorithm>
#include <optional>

#include "../shapes/op_shapes.hpp"
#include "reduce.hpp"

namespace sinter::detail {

/// Elements that are computed once and read again while they are in the cache.
inline constexpr std::int64_t block_elements = 2048;

/// Neighbouring elements in place of an expression.
template <class T>
struct run_of {
  using value_type = T;
};

/// C over n elements.
template <ir::op C, class T>
total_type<C, compute_type<T>> reduce_elements(const T* x, std::int64_t n) {
  const run_of<T> e;
  const cursor at{reinterpret_cast<const char*>(x), 0, sizeof(T)};
  return reduce_row<C, run_of<T>>(&e, &at, 0, n);
}

/// An expression of T with its type erased.
template <class T>
struct block_source {
  const void* expression;
  row_function fill;
  bool is_tensor;  ///< whose neighbouring elements are blocks as they are

  /// f(elements, how many, the position of the first) over reduced positions [begin, end) of one result.
  template <class F>
  void each_block(const reduction_space& s, const walker& of, walker& w, cursor* at, std::int64_t begin,
                  std::int64_t end, F&& f) const {
    const int axis = s.last > s.first ? s.last - 1 : -1;
    const std::int64_t inner = axis >= 0 ? s.extent[axis] : 1;
    alignas(64) T block[block_elements];
    std::int64_t filled = 0, next = begin % inner;
    w.seek(begin / inner);
    for (std::int64_t i = begin; i < end;) {
      place(at, s.leaves, s.count, axis, of, w);
      const std::int64_t first = next;
      const std::int64_t n = std::min({inner - first, end - i, block_elements - filled});
      i += n;
      next = first + n;
      if (next == inner) {
        next = 0;
        w.next();
      }
      if (is_tensor && filled == 0 && at[0].step == sizeof(T)) {
        f(reinterpret_cast<const T*>(at[0].data) + first, n, i - n);
        continue;
      }
      fill(expression, at, first, first + n, block + filled);
      filled += n;
      if (filled < block_elements && i < end) continue;
      f(static_cast<const T*>(block), filled, i - filled);
      filled = 0;
    }
  }

  /// f(rows of high - low elements, how many rows, the position of the first) for results [low, high) along the innermost
  /// kept axis.
  template <class F>
  void each_rows(const reduction_space& s, const walker& of, walker& w, cursor* at, std::int64_t low, std::int64_t high,
                 std::int64_t begin, std::int64_t end, F&& f) const {
    const std::int64_t n = high - low, rows = block_elements / n;
    alignas(64) T block[block_elements];
    w.seek(begin);
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t first = i, stop = std::min(end, i + rows);
      for (; i < stop; ++i, w.next()) {
        place(at, s.leaves, s.count, s.kept - 1, of, w);
        fill(expression, at, low, high, block + (i - first) * n);
      }
      f(static_cast<const T*>(block), i - first, first);
    }
  }
};

template <class E>
block_source<typename E::value_type> source_of(const E& e) {
  return {&e, &fill_row<E>, leaf_count<E> == 1 && !is_expr<E> && !is_index_leaf<E>};
}

/// use(space) with that of `e` over axes; false where a tensor of it is on a GPU and where results are of nothing.
template <class E, class Use>
bool with_reduction_space(const E& e, const op_shapes::axis_list& axes, location at, Use&& use) {
  constexpr int leaf_number = leaf_count<E>;
  const auto extents = extents_of(e, at);
  engine::operand operands[operand_count<E>];
  operand_list list{operands};
  collect(e, list, at);
  if (list.on_gpu) return false;
  leaf leaves[bound(leaf_number)];
  bind_leaves(list, E::rank, leaves);
  const reduction_space s(leaves, leaf_number, as_numbers(extents.data()), E::rank, axes.at, axes.count);
  if (s.reduced == 0) return false;
  use(s);
  return true;
}

/// Uninitialised, of the extents of `e` reduced over axes.
template <class Out, dims Result, class E>
tensor<Out, Result> empty_result(const char* op, const E& e, const op_shapes::axis_list& axes, bool keep, location at) {
  const dims shape = op_shapes::reduce(to_dims(extents_of(e, at)), axes, keep).shape;
  index_array<Result.rank> kept{};
  std::copy_n(shape.extent, Result.rank, kept.begin());
  return empty<Out, Result>(op, kept, at);
}

/// `e` over axes by r, which is run_reduction's, as Out; null where with_reduction_space is false.
template <class Out, dims Result, class Reduction, class E>
std::optional<tensor<Out, Result>> reduce_blocks(const char* op, const Reduction& r, const E& e,
                                                 const op_shapes::axis_list& axes, bool keep, location at) {
  std::optional<tensor<Out, Result>> result;
  with_reduction_space(e, axes, at, [&](const reduction_space& s) {
    result = empty_result<Out, Result>(op, e, axes, keep, at);
    if (s.results > 0) run_reduction(r, s, access::data(*result));
  });
  return result;
}

}  // namespace sinter::detail
