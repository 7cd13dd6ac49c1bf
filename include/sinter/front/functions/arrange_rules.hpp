// front/functions/arrange_rules.hpp: rearranges handles by views, copies and joins; compiled once.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "arrange.hpp"

namespace sinter::detail {

/// y, which may be a view of x. Outside a trace the result has elements of its own.
SINTER_API handle unshared(const handle& y, const handle& x, location at) {
  if (tracing()) return y;
  bool shared = y.data == x.data;
  for (int i = 0; i < y.extents.rank; ++i) shared |= y.strides[i] == 0 && y.extents[i] > 1;
  return shared ? contiguous(y, at) : y;
}

SINTER_API handle rolled(const handle& x, int axis, std::int64_t shift, location at) {
  const dim n = x.extents[axis];
  if (n == 0 || shift == 0) return unshared(x, x, at);
  const dim over = shift < 0 ? n - 1 - dim(-(shift + 1)) % n : dim(shift) % n;
  const handle parts[] = {views::slice_axis(x, axis, {n - over, over, 1}, at),
                          views::slice_axis(x, axis, {0, n - over, 1}, at)};
  return views::concat(parts, axis, at);
}

SINTER_API handle repeated(const handle& x, int axis, std::int64_t times, location at) {
  if (times < 0) fail("repeat", "the number of times is negative: " + std::to_string(times), at);
  const int rank = x.extents.rank;
  if (op_shapes::too_many(op_shapes::joined(x.extents, dims{times})))
    fail("repeat",
         text::shape(x.extents) + " repeated " + std::to_string(times) + " times would have too many elements", at);
  const dim before = op_shapes::part(x.extents, 0, axis + 1).numel(),
            after = op_shapes::part(x.extents, axis + 1, rank).numel();
  dims to = x.extents;
  to[axis] *= times;
  const handle apart = views::reshape(x, dims{before, 1, after}, at);
  return unshared(views::reshape(views::broadcast(apart, dims{before, times, after}, at), to, at), x, at);
}

SINTER_API handle diagonal_of(const handle& x, int i, int j, std::int64_t k, location at) {
  k = std::max(k, -std::numeric_limits<std::int64_t>::max());
  if (i > j) return diagonal_of(x, j, i, -k, at);
  const dim rows = x.extents[i], columns = x.extents[j];
  const std::int64_t below = k < 0 ? -k : 0, right = k > 0 ? k : 0;
  dim n = 0;
  if (rows > below && columns > right) n = rows - below < columns - right ? rows - below : columns - right;
  const bool none = n == 0;
  const handle square =
      views::slice_axis(views::slice_axis(x, i, {none ? 0 : below, n, 1}, at), j, {none ? 0 : right, n, 1}, at);
  const handle y = views::diagonal(square, i, j, at);
  op_shapes::axis_list last;
  for (int a = 0; a < y.extents.rank; ++a)
    if (a != i) last.at[last.count++] = a;
  last.at[last.count++] = i;
  return views::permute(y, last, at);
}

SINTER_API handle grid_axis(const handle& x, int place, const dims& extents, location at) {
  dims line(extents.rank);
  for (int i = 0; i < line.rank; ++i) line[i] = i == place ? x.extents[0] : dim(1);
  return views::broadcast(views::reshape(x, line, at), extents, at);
}

SINTER_API handle spread_axes(const handle& x, int rank, bool before, location at) {
  dims to;
  for (int i = 0; i < rank; ++i) {
    const int own = i - (rank - x.extents.rank);
    const dim e = own < 0 ? dim(1) : x.extents[own];
    to.push(before ? dim(1) : e);
    to.push(before ? e : dim(1));
  }
  return views::reshape(x, to, at);
}

SINTER_API handle diagonal_blocks(std::span<const handle> parts, location at) {
  static constexpr std::uint64_t zero = 0;
  dim columns = 0, left = 0;
  for (const auto& p : parts) columns += p.extents[1];
  std::vector<handle> rows;
  for (const auto& p : parts) {
    rows.push_back(views::pad(p, dims{0, left}, dims{0, columns - left - p.extents[1]}, {}, &zero, true, at));
    left += p.extents[1];
  }
  return views::concat({rows.data(), rows.size()}, 0, at);
}

SINTER_API index_pairs triangle(const char* op, bool lower, std::int64_t n, std::int64_t k, std::int64_t m,
                                location at) {
  if (n < 0 || m < 0) fail(op, "an extent is negative: " + std::to_string(n) + " × " + std::to_string(m), at);
  index_pairs p;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < m; ++j)
      if (lower ? j - i <= k : j - i >= k) {
        p.rows.push_back(i);
        p.columns.push_back(j);
      }
  return p;
}

}  // namespace sinter::detail
