// plan/schedule/order.hpp: scans, sorts and searches over threads.
#pragma once

#include "counts.hpp"

namespace sinter::engine::plan {

/// The distribution of a scan's rows: a block of `threads` for each row, or a thread for each row. Or 32 rows with adjacent
/// elements for each block, where `down` threads scan a row, `each` consecutive elements per thread.
struct scan_shape {
  bool block_a_row = false;
  int down = 0, each = 0;
  int threads = 128;
  dim blocks;
};

/// The first instruction of a kind; -1: there is none.
inline int first_of(const kernel& k, kind what) {
  for (std::size_t id = 0; id < k.body.size(); ++id)
    if (k.body[id].kind == what) return static_cast<int>(id);
  return -1;
}

inline scan_shape scan_of(const kernel& k) {
  scan_shape s;
  std::size_t scanned = 0;
  for (const auto& a : k.axes) scanned += a.role == role::row;
  // A block would leave most of its threads idle for a short row.
  const auto n = k.extent(role::row).number();
  s.block_a_row = scanned == 1 && k.axes.back().role == role::row && !(n && *n <= 16);
  dim rows = k.extent(role::outer) * k.extent(role::inner);
  if (s.block_a_row) {
    s.threads = n && *n <= 128 ? 64 : 256;
    s.blocks = rows;
  } else if (scanned == 1 && !(n && *n <= 16)) {
    const dtype type = k.body[static_cast<std::size_t>(first_of(k, kind::scan))].type;
    s.each = size_of(compute_type(type)) > 4 ? 4 : 8;
    for (s.down = 1; s.down < 32 && !(n && s.down * s.each >= *n);) s.down *= 2;
    s.threads = 32 * s.down;
    s.blocks = ceil_div(rows, 32);
  } else {
    s.blocks = ceil_div(rows, s.threads);
  }
  return s;
}

/// Elements that a block sorts in shared memory, and elements of the longest row that can be sorted.
inline constexpr std::int64_t sorted_tile = 2048, max_sorted = std::int64_t{1} << 31;
/// The greatest number of elements that is sorted like n: by one network, or in passes that are as many.
inline std::int64_t longest_sorted(std::int64_t n) {
  if (n <= sorted_tile) return power_of_two(std::max<std::int64_t>(n, 32));
  std::int64_t longest = sorted_tile;
  while (longest < n) longest *= 16;
  return std::min(longest, max_sorted);
}

/// How rows are sorted. A network sorts several rows of a block in shared memory. Passes sort by digits of the keys, from the last one.
/// In rounds, each tile passes on its first elements.
enum class sort_method : std::uint8_t { network, digits, rounds };

/// The distribution of a sort's rows: a block takes a tile of one row, or `tile`/`width` rows of up to `width` elements.
struct sort_shape {
  static constexpr int digit_threads = 256, digit_values = 256;  ///< a digit is a byte
  static constexpr std::int64_t max_kept = sorted_tile / 8;

  sort_method method = sort_method::network;
  int word = 4;   ///< bytes of a key, and of a place
  int width = 0;  ///< elements of a row that are sorted in shared memory
  int tile = 0;
  int passes = 0;         ///< launches behind the first one
  std::int64_t kept = 0;  ///< the first elements of a tile that a round passes on
  dim length, rows, total, tiles;

  std::int64_t item_bytes() const { return 2 * word; }
  int threads() const { return method == sort_method::digits ? digit_threads : tile / 4; }
  /// Elements in each thread of a pass over a digit.
  int each() const { return tile / digit_threads; }
  dim blocks() const {
    return width > 0 && method == sort_method::network ? ceil_div(rows, tile / width) : rows * tiles;
  }
  /// Words of 8 bytes with counts: of begun tiles, of each row's digits, and of each tile's digits before it.
  dim counters() const {
    return dim(2 * word) + (rows * dim(1) + rows * tiles * dim(2)) * dim(word * digit_values / 2);
  }
  /// Bytes of two sets of items, and counters.
  dim scratch() const {
    if (method == sort_method::network) return 0;
    const dim items = method == sort_method::digits ? total : rows * tiles * dim(kept);
    const dim bytes = items * dim(2 * item_bytes());
    return method == sort_method::digits ? bytes + counters() * dim(8) : bytes;
  }
};

inline sort_shape sort_of(const kernel& k) {
  sort_shape s;
  const instruction& i = k.body[static_cast<std::size_t>(first_of(k, kind::sort))];
  s.word = size_of(compute_type(k.body[static_cast<std::size_t>(i.args[0])].type)) == 8 ? 8 : 4;
  s.length = k.extent(role::row);
  s.rows = k.extent(role::outer);
  s.total = s.rows * s.length;
  const std::int64_t longest = s.length.is_number() ? longest_sorted(*s.length.number())
                               : k.fit.longest > 0  ? k.fit.longest
                                                    : max_sorted;
  const std::int64_t wanted = i.ranges[0].extent.number().value_or(max_sorted);
  s.width = static_cast<int>(std::min(longest, sorted_tile));
  s.tile = std::max(s.width, 512);
  if (longest > sorted_tile && wanted <= sort_shape::max_kept) {
    s.method = sort_method::rounds;
    s.kept = wanted;
    for (std::int64_t n = longest; n > sorted_tile; n = (n + s.tile - 1) / s.tile * wanted) ++s.passes;
  } else if (longest > sorted_tile) {
    s.method = sort_method::digits;
    s.tile = (s.word == 8 ? 8 : 16) * sort_shape::digit_threads;
    s.passes = 1 + s.word;
  }
  s.tiles = ceil_div(s.length, s.tile);
  return s;
}

/// A search: a thread for each element.
struct search_shape {
  int threads = 256;
  dim blocks;
};

inline search_shape search_of(const kernel& k) {
  search_shape s;
  s.blocks = ceil_div(k.extent(role::outer), s.threads);
  return s;
}

}  // namespace sinter::engine::plan
