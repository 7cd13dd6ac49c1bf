// front/functions/order_rules.hpp: order on handles; compiled once.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "../../loops/sort.hpp"
#include "order.hpp"

namespace sinter::detail {

/// Calls f(offset by `strides`, offset by `others`) with the first element of each row [begin, end) along `axis`.
template <class F>
void each_row(dims extents, int axis, const dims& strides, const dims& others, std::int64_t begin, std::int64_t end,
              F&& f) {
  extents[axis] = 1;
  for (std::int64_t row = begin; row < end; ++row) {
    std::int64_t from = 0, to = 0, rest = row;
    for (int k = extents.rank; k-- > 0; rest /= extents[k]) {
      from += rest % extents[k] * strides[k];
      to += rest % extents[k] * others[k];
    }
    f(from, to);
  }
}

inline std::int64_t rows_along(dims extents, int axis) {
  extents[axis] = 1;
  return extents.numel();
}

inline handle eager_argsort(const char* op, const handle& x, int axis, bool descending, std::int64_t count,
                            location at) {
  dims extents = x.extents;
  const std::int64_t n = extents[axis];
  extents[axis] = count;
  const handle out = allocate(op, dtype::i64, extents, at);
  if (extents.numel() == 0) return out;
  const std::int64_t rows = rows_along(extents, axis), read = x.strides[axis], write = out.strides[axis];
  visit_dtype(x.type, [&](auto type) {
    using T = typename decltype(type)::type;
    using V = compute_type<T>;
    using K = sort_word<V>;
    parallel(rows, 16 * rows * n, [&](std::int64_t begin, std::int64_t end) {
      std::vector<ranked<K>> memory(static_cast<std::size_t>(2 * n));
      ranked<K>* const row = memory.data();
      each_row(extents, axis, x.strides, out.strides, begin, end, [&](std::int64_t from, std::int64_t to) {
        const T* const p = reinterpret_cast<const T*>(x.data) + from;
        std::int64_t* const q = reinterpret_cast<std::int64_t*>(out.data) + to;
        for (std::int64_t i = 0; i < n; ++i)
          row[i] = {sort_key(static_cast<V>(p[i * read]), descending), static_cast<K>(i)};
        const ranked<K>* const sorted = sort_row(row, row + n, n, count);
        for (std::int64_t i = 0; i < count; ++i) q[i * write] = static_cast<std::int64_t>(sorted[i].place);
      });
    });
  });
  return out;
}

SINTER_API handle argsort_at(const char* op, const handle& x, int axis, bool descending, dim count, location at) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const dim extent = x.extents[axis];
  if (extent > most)
    fail(op, "axis " + std::to_string(axis) + " of " + text::shape(x.extents) + " has more than 2^31 elements", at);
  if (count < 0 || count > extent)
    fail(op,
         count.text() + " elements of axis " + std::to_string(axis) + " of " + text::shape(x.extents) +
             "; give 0 to its extent",
         at);
  const auto push = [&] {
    ir::attributes attr;
    attr.ints = {axis, descending};
    attr.dims = {engine::to_ir(count)};
    return push_op(ir::op::argsort, {x}, std::move(attr), at);
  };
  if (tracing()) return push();
  if (on_gpu(op, {&x}, at)) return launch(op, {&x}, {axis, descending, count}, push, at);
  return eager_argsort(op, x, axis, descending, count, at);
}

SINTER_API handle sort_at(const char* op, const handle& x, int axis, bool descending, location at) {
  return gather_elements(x, argsort_at(op, x, axis, descending, x.extents[axis], at), axis, at);
}

SINTER_API handle search_at(const char* op, const handle& sorted, const handle& x, int axis, bool right, location at) {
  const auto push = [&] {
    ir::attributes attr;
    attr.ints = {axis, right};
    return push_op(ir::op::searchsorted, {sorted, x}, std::move(attr), at);
  };
  if (tracing()) return push();
  if (on_gpu(op, {&sorted, &x}, at)) return launch(op, {&sorted, &x}, {axis, right}, push, at);
  const handle out = allocate(op, dtype::i64, x.extents, at), values = contiguous(x, at);
  const std::int64_t n = sorted.extents[axis], count = x.extents[axis], step = sorted.strides[axis],
                     apart = out.strides[axis];
  if (x.extents.numel() == 0) return out;
  visit_dtype(x.type, [&](auto type) {
    using T = typename decltype(type)::type;
    using V = compute_type<T>;
    dims rows = x.extents;
    rows[axis] = 1;
    // A row's elements are shared among threads, too.
    parallel(rows.numel() * count, 16 * rows.numel() * count, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end;) {
        const std::int64_t row = i / count, stop = std::min(end, (row + 1) * count);
        each_row(rows, axis, sorted.strides, out.strides, row, row + 1, [&](std::int64_t from, std::int64_t to) {
          const T* const p = reinterpret_cast<const T*>(sorted.data) + from;
          for (; i < stop; i += searches) {
            const std::int64_t some = std::min<std::int64_t>(stop - i, searches),
                               first = to + (i - row * count) * apart;
            V wanted[searches];
            std::int64_t places[searches];
            for (std::int64_t k = 0; k < searches; ++k)
              wanted[k] =
                  static_cast<V>(reinterpret_cast<const T*>(values.data)[first + std::min(k, some - 1) * apart]);
            if (right) search_some<true>(p, step, n, wanted, places);
            else search_some<false>(p, step, n, wanted, places);
            for (std::int64_t k = 0; k < some; ++k)
              reinterpret_cast<std::int64_t*>(out.data)[first + k * apart] = places[k];
          }
          i = stop;
        });
      }
    });
  });
  return out;
}

SINTER_API handle search_rows(const handle& sorted, const handle& x, bool right, location at) {
  constexpr const char* op = "searchsorted";
  if (sorted.extents.rank == 1) {
    const handle flat = views::reshape(x, dims{x.extents.numel()}, at);
    return views::reshape(search_at(op, sorted, flat, 0, right, at), x.extents, at);
  }
  const int last = x.extents.rank - 1;
  for (int k = 0; k < last; ++k)
    if (sorted.extents[k] != x.extents[k])
      fail(op,
           "rows of " + text::shape(sorted.extents) + " and of " + text::shape(x.extents) +
               " differ in number; sorted is one row, or has a row for each of x's",
           at);
  return search_at(op, sorted, x, last, right, at);
}

SINTER_API void check_fraction(const char* op, double q, double most, location at) {
  if (!(q >= 0 && q <= most)) fail(op, text::number(q) + " is not in [0, " + (most == 1 ? "1" : "100") + "]", at);
}

SINTER_API void check_some(const char* op, const dims& x, int axis, location at) {
  if (x[axis] == 0)
    fail(op, "of nothing: axis " + std::to_string(axis) + " of " + text::shape(x) + " is empty; test the extent before",
         at);
}

SINTER_API void check_ids(const char* op, const dims& x, const dims& ids, location at) {
  if (x[0] != ids[0])
    fail(op, "x is " + text::shape(x) + ", ids are " + text::shape(ids) + "; give an id for each row of x", at);
}

SINTER_API dim checked_size(const char* op, dim size, location at) {
  if (size < 0) fail(op, "the size " + size.text() + " is negative; give 0 or more", at);
  if (!size.is_symbolic()) checked_count(op, size.bits, at);
  return size;
}

SINTER_API std::int64_t checked_count(const char* op, std::int64_t n, location at) {
  constexpr std::int64_t most = std::int64_t{1} << 48;
  if (n > most)
    fail(op, "a result of " + std::to_string(n) + " elements is more than a tensor has; give a smaller size", at);
  return n;
}

SINTER_API bool bins_apart(std::int64_t bins, double low, double high, double spacing, double smallest, double least,
                           double most) {
  const double width = (high - low) / static_cast<double>(bins), reach = std::max(std::abs(low), std::abs(high));
  return width >= 8 * std::max(reach * spacing, smallest) && width > 8 * least && high - low < most / 8;
}

SINTER_API void check_bins(std::int64_t bins, double low, double high, bool held, dtype edges, location at) {
  constexpr const char* op = "histogram";
  if (bins < 1) fail(op, std::to_string(bins) + " bins; give 1 or more", at);
  checked_count(op, bins, at);
  if (!(low <= high) || high - low == std::numeric_limits<double>::infinity())
    fail(op, "the range is not finite, or ends before it begins", at);
  if (!held) fail(op, std::string("a bound is not finite in ") + dtype_name(edges) + "; cast with cast<double>(x)", at);
}

}  // namespace sinter::detail
