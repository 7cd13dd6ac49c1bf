// front/functions/arg_reduce.hpp: the index of an extreme along one axis, by a loop or as a node.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "../eager/blocks.hpp"
#include "movement.hpp"

namespace sinter::detail {

/// Whether x is more extreme than y; NaN is more extreme than any number.
template <ir::op C, class V>
bool exceeds(V x, V y) {
  return y == y && !(C == ir::op::maximum ? x <= y : x >= y);
}

/// Merges a row of n columns into the first extreme of each column: its value and its row's number. Rows count from `number`.
template <ir::op C, class T, class V, class W, class Set = simd::instruction_set>
void first_extremes(const T* x, std::int64_t rows, std::int64_t n, std::int64_t number, V* value, W* where) {
  std::int64_t j = 0;
  if constexpr (simd::is_lane<V> && std::is_same_v<V, W>) {
    using vector = simd::vec<V>;
    for (; j + vector::width <= n; j += vector::width) {
      vector best = vector::load(value + j), at = vector::load(where + j);
      for (std::int64_t r = 0; r < rows; ++r) {
        const vector v = vector::load(reinterpret_cast<const V*>(x) + r * n + j);
        const auto more = simd::bit_not(
            (C == ir::op::maximum ? simd::less_equal(v, best) : simd::greater_equal(v, best)) | simd::isnan(best));
        best = simd::select(more, v, best);
        at = simd::select(more, vector(static_cast<V>(number + r)), at);
      }
      best.store(value + j);
      at.store(where + j);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t k = j; k < n; ++k)
      if (const V v = static_cast<V>(x[r * n + k]); exceeds<C>(v, value[k])) {
        value[k] = v;
        where[k] = static_cast<W>(number + r);
      }
}

/// The index of the first extreme of n elements.
template <ir::op C, class T>
std::int64_t first_extreme(const T* x, std::int64_t n) {
  std::int64_t best = 0;
  compute_type<T> value = x[0];
  for (std::int64_t i = 0; i < n; ++i) {
    const compute_type<T> v = x[i];
    if (v != v) return i;
    if (C == ir::op::maximum ? v > value : v < value) {
      value = v;
      best = i;
    }
  }
  return best;
}

/// The start of the first vector that holds `value` or a NaN; n without its remainder if there is none.
template <class T, class Set = simd::instruction_set>
std::int64_t vector_with(const T* x, std::int64_t n, T value) {
  using vector = simd::vec<lane<T>>;
  const vector wanted(value);
  std::int64_t i = 0;
  for (; i + vector::width <= n; i += vector::width) {
    const vector v = vector::load(reinterpret_cast<const lane<T>*>(x) + i);
    if (simd::any(simd::equal(v, wanted) | simd::isnan(v))) break;
  }
  return i;
}

/// The index of the first extreme of T; NaN is extreme.
template <ir::op C, class T, class Set = simd::instruction_set>
struct extreme_reduction : block_source<T> {
  using V = compute_type<T>;
  struct Total {
    V value;
    std::int64_t at;
  };

  static void merge(Total& a, const Total& b) {
    if (exceeds<C>(b.value, a.value)) a = b;
  }
  static std::int64_t result(const Total& t) { return t.at; }

  Total over_rows(const reduction_space& s, const walker& of, walker& along, cursor* at, std::int64_t begin,
                  std::int64_t end) const {
    Total best{};
    this->each_block(s, of, along, at, begin, end, [&](const T* x, std::int64_t n, std::int64_t first) {
      std::int64_t i = 0;
      if constexpr (simd::is_lane<lane<T>>) {
        constexpr int width = simd::vec<lane<T>>::width;
        if (n >= 32 * width) {  // two passes, each faster
          const V value = reduce_elements<C>(x, n);
          if (first != begin && !exceeds<C>(value, best.value)) return;
          i = vector_with(x, n, value);
          n = std::min(n, i + width);
        }
      }
      i += first_extreme<C>(x + i, n - i);
      if (first == begin || exceeds<C, V>(x[i], best.value)) best = {x[i], first + i};
    });
    return best;
  }

  void over_columns(const reduction_space& s, const walker& of, walker& along, cursor* at, std::int64_t low,
                    std::int64_t high, std::int64_t begin, std::int64_t end, Total* totals) const {
    // Lanes of T hold the row's number as well: a chunk has no more than 2^12.
    constexpr bool lanes = simd::is_lane<lane<T>>;
    std::conditional_t<lanes, lane<T>, V> value[reduce_columns];
    std::conditional_t<lanes, lane<T>, std::int32_t> where[reduce_columns] = {};
    const std::int64_t n = high - low;
    this->each_rows(s, of, along, at, low, high, begin, end, [&](const T* x, std::int64_t rows, std::int64_t first) {
      if (first == begin) std::copy_n(x, n, value);
      first_extremes<C>(x, rows, n, first - begin, value, where);
    });
    for (std::int64_t j = 0; j < n; ++j)
      totals[j] = {static_cast<V>(value[j]), begin + static_cast<std::int64_t>(where[j])};
  }
};

/// The index of the first extreme along one axis, or in row-major order over all: a loop over tensors on the host.
template <class Name, ir::op Combiner, op_shapes::axis_list Axes, bool Keep, class X>
auto arg_reduce(const X& x, location at) {
  using T = typename X::value_type;
  constexpr const char* op = Name::text;
  constexpr dims shape = op_shapes::reduce(X::static_shape, Axes, Keep).shape;
  if constexpr (is_bool(dtype_of<T>)) Name::template refuse<fault::numbers>();
  if constexpr (X::rank > 0 && !is_bool(dtype_of<T>))
    if (!tracing()) {
      using reduction = extreme_reduction<Combiner, T>;
      if (auto found = reduce_blocks<reduction, std::int64_t, shape>(op, x, Axes, Keep, at)) return *std::move(found);
    }
  const auto check_extreme = [&](bool empty, const std::string& what) {
    if (empty) fail(op, what + " is empty and has no extreme; test the extent before", at);
  };
  if constexpr (Axes.count != 1) {
    const dims all = to_dims(extents_of(x, at));
    check_extreme(all.numel() == 0, text::shape(all));
    const auto found = arg_reduce<Name, Combiner, op_shapes::all_axes(1), false>(flatten(x, at), at);
    if constexpr (Keep) return typed<std::int64_t, shape>(views::reshape(untyped(found, at), shape, at), at);
    else return found;
  } else {
    constexpr int axis = Axes.at[0];
    const handle h = untyped(x, at);
    check_extreme(h.extents[axis] == 0, "axis " + std::to_string(axis) + " of " + text::shape(h.extents));
    const auto push = [&] { return push_arg_reduce(Combiner, h, axis, at); };
    const handle r = tracing() ? push() : launch(op, {&h}, {axis, static_cast<std::int64_t>(Combiner)}, push, at);
    return typed<std::int64_t, shape>(views::reshape(r, op_shapes::reduce(h.extents, Axes, Keep).shape, at), at);
  }
}

}  // namespace sinter::detail
