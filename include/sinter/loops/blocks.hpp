// loops/blocks.hpp: operands of reductions, in blocks that are read while they are in the cache.
#pragma once

#include <algorithm>

#include "reduce.hpp"

namespace sinter::detail {

/// The number of elements that are computed once, and read again while they are in the cache.
inline constexpr std::int64_t block_elements = 2048;

/// Copies elements [begin, end) of a tensor's row.
template <class T>
void copy_elements_of_row(const void*, const cursor* at, std::int64_t begin, std::int64_t end, void* to) {
  T* out = static_cast<T*>(to);
  const char* from = at->data + begin * at->step;
  if (at->step == sizeof(T)) std::memcpy(out, from, static_cast<std::size_t>(end - begin) * sizeof(T));
  else
    for (; begin < end; ++begin, from += at->step) *out++ = *reinterpret_cast<const T*>(from);
}

/// A type-erased expression of T.
template <class T>
struct block_source {
  const void* expression;
  row_function fill;
  bool is_tensor;  ///< a tensor, whose adjacent elements are blocks without a copy

  /// f(elements, their number, the position of the first) over reduced positions [begin, end) of one result.
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

  /// f(rows of high - low elements, number of rows, the position of the first) for results [low, high) along the innermost
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

/// The source for a tensor, in place, or for an expression.
template <class T>
block_source<T> blocks_of(const engine::row_source& x) {
  if (x.expression) return {x.expression, x.fill, false};
  return {nullptr, &copy_elements_of_row<T>, true};
}

}  // namespace sinter::detail
