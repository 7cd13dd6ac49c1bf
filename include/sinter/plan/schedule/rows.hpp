// plan/schedule/rows.hpp: rows over threads: a row in the registers of a group of threads, in a loop if it is longer, over
// several blocks if rows are few.
#pragma once

#include <optional>

#include "../kernel/target.hpp"
#include "passes.hpp"

namespace sinter::engine::plan {

/// The distribution of rows over threads.
struct row_shape : lanes {
  int vectors = 1;
  int group = 1;                     ///< threads of a row
  int rows = 1;                      ///< of a block
  bool held = false;                 ///< a thread's part of a row is `vectors` vectors; otherwise it loops
  int chunks = 1;                    ///< blocks of a row
  sorted_set<int> keep;              ///< values in registers between passes
  dim count;                         ///< number of vectors in a row
  std::optional<std::int64_t> most;  ///< their number, or an upper bound
  int threads() const { return group * rows; }
};

inline void choose_keep(const kernel& k, row_shape& s) {
  s.keep = values_to_keep(k, false);
  const auto less = values_to_keep(k, true);
  if (bytes_of(k, less) < bytes_of(k, s.keep)) s.keep = less;
}

/// True when neighbouring rows, not the elements of a row, are adjacent in memory.
inline bool rows_are_contiguous(const kernel& k, int last) {
  int outer = -1;
  for (std::size_t a = 0; a < k.axes.size(); ++a)
    if (k.axes[a].role == role::outer) outer = static_cast<int>(a);
  if (outer < 0 || k.axes[static_cast<std::size_t>(outer)].extent.number().value_or(0) < 512) return false;
  bool any = false;
  for (const auto& i : k.body) {
    if (i.kind != kind::load || !(i.axes >> last & 1u)) continue;
    if (i.at.at.stride[static_cast<std::size_t>(last)].is(1)) return false;
    any = any || i.at.at.stride[static_cast<std::size_t>(outer)].is(1);
  }
  return any;
}

inline row_shape rows_of(const kernel& k, const target& t) {
  row_shape s;
  static_cast<lanes&>(s) = reducing_lanes(k);
  s.count = vectors_of_row(k.fit.whole ? dim(k.fit.longest) : k.extent(role::inner), s.width);
  choose_keep(k, s);
  const auto rows = k.extent(role::outer).number();
  if (s.count.is_number()) s.most = s.count.number();
  else if (k.fit.longest > 0) s.most = round_up(k.fit.longest, s.width);
  const auto count = s.most;
  if (rows_are_contiguous(k, s.axis) && rows.value_or(1 << 20) >= 4096) {
    s.rows = 128;
    s.vectors = 4;
    s.keep.clear();
    return s;
  }
  const std::uint32_t inner = k.mask(role::inner);
  int loads = 0;
  for (const auto& i : k.body) loads += i.kind == kind::load && (i.axes & inner) != 0;
  const std::int64_t each = std::max<std::int64_t>(bytes_of(k, s.keep), 4) * s.width;  // bytes of a vector's values
  auto vectors = [&](std::int64_t group) { return round_up(*count, group); };
  const int most = is_heavy(k) ? 512 : 1024;
  // If a row's vectors are not adjacent, the next row's are: each thread has a row, as in pooling.
  const bool scattered = count && *count <= 16 && k.axes.back().extent.is(s.width) && rows.value_or(1 << 20) >= 4096;
  if (count && *count <= 32) {
    s.group = scattered ? 1 : static_cast<int>(power_of_two(std::max<std::int64_t>(*count, 1)));
  } else if (count && *count <= 128 && vectors(32) * each <= 128) {
    s.group = 32;
  } else {
    // 64 bytes of values in a thread's registers: enough loads in flight, and enough threads on a multiprocessor.
    s.group = 64;
    while (s.group < most && (!count || vectors(s.group) * each > 64)) s.group *= 2;
  }
  s.held = count && vectors(s.group) * each <= (most == 1024 ? 144 : 176) && vectors(s.group) <= 16;
  if (s.held) {
    s.vectors = static_cast<int>(std::max<std::int64_t>(vectors(s.group), 1));
  } else {
    s.group = count && *count < 1024 ? 256 : 512;
    s.vectors = loads <= 1 ? 4 : loads <= 3 ? 2 : 1;
    if (s.width == 1) s.vectors *= 2;
    if (s.width == 8) s.vectors = std::max(s.vectors / 2, 1);
    s.keep.clear();
  }
  if (s.group <= 32) {
    s.rows = 256 / s.group;
    while (s.rows * s.group > 32 && rows && *rows / s.rows < 2 * t.multiprocessors) s.rows /= 2;
  }
  return s;
}

/// The blocks of a row, if rows are few and long. It is a wave of two blocks, 1024 threads, on each multiprocessor. If
/// elements of a long row are stored, too, it is eight waves: blocks that end after their writes keep reads and writes mixed.
/// Every reduction must be in the first pass, and no later pass may follow along the row.
inline int chunks_of(const kernel& k, const row_shape& s, const target& t) {
  const auto rows = k.extent(role::outer).number(), count = s.count.number();
  if (!rows || *rows < 1 || *rows >= t.multiprocessors || (count && *count < 4096)) return 1;
  for (int stage = 1; stage < k.stages; ++stage)
    if (!work_of(k, stage).empty()) return 1;
  const int blocks = !count || work_of(k, 0).stores.empty() ? 2 : 16;
  const std::int64_t wave = round_up(blocks * t.multiprocessors, *rows);
  return static_cast<int>(std::max<std::int64_t>(count ? std::min(wave, *count / 1024) : wave, 1));
}

/// The same rows, each in `chunks` blocks; one chunk if rows are short or many.
inline row_shape rows_in_chunks(const kernel& k, row_shape s, const target& t) {
  s.held = false;
  s.rows = 1;
  s.group = 512;
  s.keep.clear();
  s.vectors = s.width == 1 ? 8 : s.width == 8 || is_heavy(k) ? 2 : 4;
  if (!work_of(k, 0).stores.empty()) s.vectors /= 2;
  s.chunks = chunks_of(k, s, t);
  return s;
}

}  // namespace sinter::engine::plan
