// loops/space.hpp: the iteration space of a loop on the host: its leaves, their places, and the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "../base/config.hpp"
#include "../base/local_list.hpp"
#include "../engine/engine.hpp"
#include "../ir/vocabulary.hpp"

namespace sinter::detail {

/// The type in which T is computed: float for halves.
template <class T>
using compute_type = std::conditional_t<vocabulary::is_half<T>, float, T>;

/// One leaf, broadcast to the space: the bytes between indexes along each axis. An index leaf counts in elements.
struct leaf {
  const char* data = nullptr;
  std::int64_t base = 0;
  std::int64_t stride[max_rank] = {};
};

/// The number of a loop's leaves that fit on the stack.
inline constexpr std::size_t few_leaves = 6;

/// The positions of a loop's leaves, to be set by place().
using cursor_list = local_list<cursor, few_leaves>;

struct leaf_list : local_list<leaf, few_leaves> {
  explicit leaf_list(int count) : local_list(static_cast<std::size_t>(count)) { std::fill_n(data(), size(), leaf{}); }
  leaf_list(const leaf* from, int count) : local_list(static_cast<std::size_t>(count)) {
    std::copy_n(from, size(), data());
  }
};

/// Axes in loop order, the last one innermost.
struct space {
  int rank = 0;
  std::int64_t extent[max_rank] = {};

  std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= extent[i];
    return n;
  }
};

/// The operands of an expression, in the order of evaluation.
struct operand_list {
  engine::operand* at;
  int count = 0;
  bool on_gpu = false;  ///< some tensor is on a GPU
};

/// Sets the leaves of operands, except numbers, in a space of `rank`.
SINTER_API void bind_leaves(const operand_list& list, int rank, leaf* out);

/// Drops axes of extent 1 from first to last, and merges neighbours that every leaf walks as one. Returns the number that
/// remain.
SINTER_API int collapse(std::int64_t* extent, int first, int last, leaf* leaves, int count);

/// The leaves' offsets at one point of some axes; steps through the points in row-major order.
class walker {
 public:
  /// Starts at the `position`-th point of axes first…last-1 of `extent`.
  SINTER_API walker(const std::int64_t* extent, int first, int last, const leaf* leaves, int count,
                    std::int64_t position);
  /// Goes to the `position`-th point.
  void seek(std::int64_t position) {
    for (int i = last_; i-- > first_; position /= extent_[i]) {
      const std::int64_t to = position % extent_[i];
      move(i, to - index_[i]);
      index_[i] = to;
    }
  }
  void next() {
    for (int i = last_; i-- > first_;) {
      move(i, 1);
      if (++index_[i] < extent_[i]) return;
      move(i, -extent_[i]);
      index_[i] = 0;
    }
  }
  std::int64_t offset(std::size_t k) const { return offset_[k]; }

 private:
  void move(int axis, std::int64_t steps) {
    for (std::size_t k = 0; k < offset_.size(); ++k) offset_[k] += leaves_[k].stride[axis] * steps;
  }

  const std::int64_t* extent_;
  const leaf* leaves_;
  int first_, last_;
  std::int64_t index_[max_rank] = {};
  local_list<std::int64_t, few_leaves> offset_;
};

/// Sets the starts of `count` leaves, and their steps along `axis` (none: -1), at the walkers' points together.
template <class... Walker>
void place(cursor* to, const leaf* leaves, int count, int axis, const Walker&... w) {
  for (int k = 0; k < count; ++k) {
    const std::int64_t offset = (w.offset(static_cast<std::size_t>(k)) + ...);
    to[k].data = leaves[k].data ? leaves[k].data + offset : nullptr;
    to[k].base = leaves[k].base + offset;
    to[k].step = axis >= 0 ? leaves[k].stride[axis] : 0;
  }
}

/// The number of threads for loops.
inline std::int64_t threads() {
#if defined(_OPENMP)
  return omp_get_max_threads();
#else
  return 1;
#endif
}

/// Whether a loop over `work` elements runs on several threads: each of them, or each of eight, gets some microseconds of
/// work. A parallel region takes about as long.
inline bool worth_threads(std::int64_t work) {
  constexpr std::int64_t min_of_two = 1 << 15;
  const std::int64_t n = threads();
  return n > 1 && work >= min_of_two / 2 * (n < 8 ? n : 8);
}

/// f(begin, end) over [0, n), in one piece per thread; `work` is the number of elements.
template <class F>
void parallel(std::int64_t n, [[maybe_unused]] std::int64_t work, F&& f) {
#if defined(_OPENMP)
  if (n > 1 && worth_threads(work) && !omp_in_parallel()) {
#pragma omp parallel
    {
      const std::int64_t threads = omp_get_num_threads(), t = omp_get_thread_num();
      const std::int64_t begin = n / threads * t + (t < n % threads ? t : n % threads);
      const std::int64_t end = begin + n / threads + (t < n % threads ? 1 : 0);
      if (begin < end) f(begin, end);
    }
    return;
  }
#endif
  f(std::int64_t{0}, n);
}

/// Computes every element of the space into `out`, in row-major order; `element` is its size. (space_rules.hpp)
SINTER_API void for_each_row(space s, leaf* leaves, int count, const void* e, row_function f, char* out,
                             std::int64_t element);

/// f(e, the starts of the leaves' elements, their number) for every whole row along the last axis. (space_rules.hpp)
SINTER_API void for_each_whole_row(const space& s, const leaf* leaves, int count, const void* e,
                                   void (*f)(const void* e, const cursor* at, std::int64_t n));

/// Rows along one axis of columns [low, high) along the last.
struct panel {
  std::int64_t rows, low, high;
  std::int64_t step;  ///< bytes from a row of the first leaf to the next
  const leaf* leaves;
  int count, rank;
  const walker* of;
  walker* along;
  cursor* at;

  /// The starts of the leaves' elements in a row; valid until the next call.
  SINTER_API const cursor* row(std::int64_t r) const;
};

/// f(e, panel) for panels that cover the space: all rows along `axis`, which is not the last, and at most 256 columns.
/// (space_rules.hpp)
SINTER_API void for_each_panel(space s, leaf* leaves, int count, int axis, const void* e,
                               void (*f)(const void* e, const panel& p));

}  // namespace sinter::detail

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "space_rules.hpp"
#endif
