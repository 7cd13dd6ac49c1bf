// loops/space_rules.hpp: the walk over the rows of a loop; compiled once.
#pragma once

#include <cstdlib>

#include "space.hpp"

namespace sinter::detail {

/// Aligns a leaf's axes with the last axes of a space of `rank`; an axis of extent 1 does not move.
inline void bind_leaf(leaf& l, const std::int64_t* extents, const std::int64_t* strides, int leaf_rank, int rank,
                      std::int64_t scale) {
  for (int i = 0; i < leaf_rank; ++i) l.stride[rank - leaf_rank + i] = extents[i] == 1 ? 0 : strides[i] * scale;
}

SINTER_API void bind_leaves(const operand_list& list, int rank, leaf* out) {
  for (int i = 0; i < list.count; ++i) {
    const engine::operand& x = list.at[i];
    if (x.is_number()) continue;
    leaf& l = *out++ = {};
    if (x.is_tensor()) {
      l.data = static_cast<const char*>(x.data);
      bind_leaf(l, x.extents, x.strides, x.rank, rank, static_cast<std::int64_t>(size_of(x.type)));
    } else if (x.axis >= 0) {
      l.stride[rank - x.rank + x.axis] = x.extents[x.axis] != 1;
    } else {
      std::int64_t step = 1;
      for (int k = x.rank; k-- > 0; step *= x.extents[k]) l.stride[rank - x.rank + k] = x.extents[k] == 1 ? 0 : step;
    }
  }
}

SINTER_API int collapse(std::int64_t* extent, int first, int last, leaf* leaves, int count) {
  int kept = first;
  for (int i = first; i < last; ++i) {
    if (extent[i] == 1) continue;
    bool merge = kept > first;
    for (int k = 0; merge && k < count; ++k) merge = leaves[k].stride[kept - 1] == leaves[k].stride[i] * extent[i];
    const int to = merge ? kept - 1 : kept++;
    extent[to] = merge ? extent[to] * extent[i] : extent[i];
    for (int k = 0; k < count; ++k) leaves[k].stride[to] = leaves[k].stride[i];
  }
  return kept - first;
}

SINTER_API walker::walker(const std::int64_t* extent, int first, int last, const leaf* leaves, int count,
                          std::int64_t position)
    : extent_(extent), leaves_(leaves), first_(first), last_(last), offset_(static_cast<std::size_t>(count)) {
  std::fill_n(offset_.data(), offset_.size(), 0);
  seek(position);
}

/// Whether some leaf's elements are further apart along the last axis than along the one before: a transposed read.
inline bool reads_across(const space& s, const leaf* leaves, int count) {
  constexpr std::int64_t few = 16, line = 64;
  const int axis = s.rank - 1;
  if (axis < 1 || s.extent[axis] < few || s.extent[axis - 1] < few) return false;
  return std::any_of(leaves, leaves + count, [&](const leaf& l) {
    const std::int64_t along = std::abs(l.stride[axis]), down = std::abs(l.stride[axis - 1]);
    return along >= line && down > 0 && down < along;
  });
}

/// for_each_row in blocks of the last two axes, so that cache lines and pages are reused.
inline void for_each_block(const space& s, const leaf* leaves, int count, const void* e, row_function f, char* out,
                           std::int64_t element) {
  constexpr std::int64_t block_rows = 32, block_columns = 64;
  const int axis = s.rank - 1;
  const std::int64_t rows = s.extent[axis - 1], columns = s.extent[axis], total = s.size(),
                     blocks = (rows + block_rows - 1) / block_rows;
  parallel(total / rows / columns * blocks, total, [&](std::int64_t begin, std::int64_t end) {
    walker of(s.extent, 0, axis - 1, leaves, count, begin / blocks), down(s.extent, axis - 1, axis, leaves, count, 0);
    cursor_list at(static_cast<std::size_t>(count));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t low = i % blocks * block_rows, high = std::min(rows, low + block_rows);
      for (std::int64_t c = 0; c < columns; c += block_columns)
        for (std::int64_t r = low; r < high; ++r) {
          down.seek(r);
          place(at.data(), leaves, count, axis, of, down);
          f(e, at.data(), c, std::min(columns, c + block_columns),
            out + ((i / blocks * rows + r) * columns + c) * element);
        }
      if (i % blocks == blocks - 1) of.next();
    }
  });
}

SINTER_API void for_each_row(space s, leaf* leaves, int count, const void* e, row_function f, char* out,
                             std::int64_t element) {
  const std::int64_t total = s.size();
  if (total == 0) return;
  s.rank = collapse(s.extent, 0, s.rank, leaves, count);
  if (reads_across(s, leaves, count)) return for_each_block(s, leaves, count, e, f, out, element);
  const int outer = s.rank > 0 ? s.rank - 1 : 0, axis = s.rank - 1;
  const std::int64_t inner = s.rank > 0 ? s.extent[outer] : 1;
  parallel(total, total, [&](std::int64_t begin, std::int64_t end) {
    walker w(s.extent, 0, outer, leaves, count, begin / inner);
    cursor_list at(static_cast<std::size_t>(count));
    for (std::int64_t i = begin; i < end; w.next()) {
      place(at.data(), leaves, count, axis, w);
      const std::int64_t first = i % inner, n = std::min(inner - first, end - i);
      f(e, at.data(), first, first + n, out + i * element);
      i += n;
    }
  });
}

SINTER_API void for_each_whole_row(const space& s, const leaf* leaves, int count, const void* e,
                                   void (*f)(const void* e, const cursor* at, std::int64_t n)) {
  const std::int64_t n = s.extent[s.rank - 1], total = s.size();
  parallel(total / n, total, [&](std::int64_t begin, std::int64_t end) {
    walker w(s.extent, 0, s.rank - 1, leaves, count, begin);
    cursor_list at(static_cast<std::size_t>(count));
    for (std::int64_t i = begin; i < end; ++i, w.next()) {
      place(at.data(), leaves, count, s.rank - 1, w);
      f(e, at.data(), n);
    }
  });
}

SINTER_API const cursor* panel::row(std::int64_t r) const {
  along->seek(r);
  place(at, leaves, count, rank - 1, *of, *along);
  return at;
}

SINTER_API void for_each_panel(space s, leaf* leaves, int count, int axis, const void* e,
                               void (*f)(const void* e, const panel& p)) {
  const int last = s.rank - 1;
  std::rotate(s.extent + axis, s.extent + axis + 1, s.extent + last);
  for (int k = 0; k < count; ++k)
    std::rotate(leaves[k].stride + axis, leaves[k].stride + axis + 1, leaves[k].stride + last);
  const std::int64_t rows = s.extent[last - 1], n = s.extent[last], total = s.size();
  // Each thread gets a few, and the order of a sum does not depend on their number.
  const std::int64_t wanted = total / rows / (4 * threads()),
                     columns = std::clamp<std::int64_t>(wanted / 64 * 64, 64, 256), tiles = (n + columns - 1) / columns;
  parallel(total / rows / n * tiles, total, [&](std::int64_t begin, std::int64_t end) {
    walker of(s.extent, 0, last - 1, leaves, count, begin / tiles), along(s.extent, last - 1, last, leaves, count, 0);
    cursor_list at(static_cast<std::size_t>(count));
    std::int64_t tile = begin % tiles;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t low = tile * columns;
      f(e, {rows, low, std::min(n, low + columns), leaves[0].stride[last - 1], leaves, count, s.rank, &of, &along,
            at.data()});
      if (++tile < tiles) continue;
      tile = 0;
      of.next();
    }
  });
}

}  // namespace sinter::detail
