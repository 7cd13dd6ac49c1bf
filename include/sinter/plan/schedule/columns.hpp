// plan/schedule/columns.hpp: sums of columns over threads: vectors of columns, rows shared by blocks, and the launch that adds up
// the blocks' parts.
#pragma once

#include "../kernel/target.hpp"
#include "passes.hpp"

namespace sinter::engine::plan {

/// The distribution of column sums: `across` by `down` threads in a block, each with `width` columns of every down-th row.
struct column_shape : lanes {
  int vectors = 4;
  int across = 32, down = 8;
  dim count;  ///< number of vectors in a row
  dim tiles;
  int chunks = 1;       ///< blocks that share a tile's rows
  int resident = 1024;  ///< threads for which a multiprocessor has registers
  int threads() const { return across * down; }
};

/// The registers of a thread for its columns' sums, for values of its columns, and for its part of the rows in flight.
inline std::int64_t column_registers(const kernel& k, const column_shape& s) {
  std::int64_t bytes = 0;
  for (const int id : arrays_of(k)) bytes += s.width * accumulator_bytes(k, id);
  for (const int id : needed(k, work_of(k, 0))) {
    const instruction& i = k.body[static_cast<std::size_t>(id)];
    if (i.kind != kind::load || !(i.axes & k.mask(role::inner))) continue;
    bytes += (i.axes & k.mask(role::row) ? s.vectors : 1) * s.width * static_cast<std::int64_t>(size_of(i.type));
  }
  return bytes / 4;
}

inline column_shape columns_of(const kernel& k, const target& t) {
  column_shape s;
  static_cast<lanes&>(s) = reducing_lanes(k);
  if (s.width == 8 || is_heavy(k)) s.vectors = 2;
  if (is_heavy(k) || column_registers(k, s) > 48) s.resident = 512;
  s.count = vectors_of_row(k.extent(role::inner), s.width);
  const std::int64_t count = s.count.number().value_or(1024);
  s.across = static_cast<int>(std::min<std::int64_t>(power_of_two(std::max<std::int64_t>(count, 1)), 32));
  s.down = 256 / s.across;
  s.tiles = ceil_div(s.count, s.across);
  const std::int64_t rows = k.extent(role::row).number().value_or(1 << 16),
                     outer = k.extent(role::outer).number().value_or(1),
                     tiles =
                         std::max<std::int64_t>((dim(s.tiles.number().value_or(8)) * outer).number().value_or(1), 1);
  // The threads' sums meet in shared memory; a block has 48 KiB.
  std::int64_t bytes = 0;
  for (int id = 0; id < static_cast<int>(k.body.size()); ++id)
    if (is_reduction(k.body[static_cast<std::size_t>(id)])) bytes += s.width * accumulator_bytes(k, id);
  const auto has_room = [&] { return bytes * s.threads() <= (40 << 10); };
  // Readers of stored rows do not wait for the sums if another launch finishes them.
  const bool stores_rows = std::any_of(k.stores.begin(), k.stores.end(), [&](const auto& st) {
    return !is_uniform_store(k, st) && !is_final_store(k, st);
  });
  if (!stores_rows && k.extent(role::row).is_number() && rows <= 2048 &&
      count <= (1 << 20) / (std::max<std::int64_t>(rows, 1) * s.width) / std::max<std::int64_t>(outer, 1)) {
    // Little enough for one launch: many threads down a column. Lines of 128 bytes across; if these leave most
    // multiprocessors idle, sectors of 32, since recently written data is still in the cache.
    s.across = std::min(s.across, 8);
    while (s.across > 1 && s.width * s.across > 8 && count * outer / s.across * 2 <= t.multiprocessors) s.across /= 2;
    s.tiles = s.count.is(0) ? dim(1) : ceil_div(s.count, s.across);
    s.down = s.resident / s.across;
    while (s.down > 32 / s.across && (s.down / 2 * s.vectors >= rows || !has_room())) s.down /= 2;
    return s;
  }
  while (s.down > 1 && (s.down / 2 >= rows || !has_room())) s.down /= 2;
  // One wave of the resident threads: with 64 bytes each of 1024, 64 KiB are in flight. Three quarters of a wave suffice to
  // save a second launch. A few blocks more than a wave would take as long as two.
  const std::int64_t most = std::int64_t{s.resident / s.threads()} * t.multiprocessors,
                     wave = 4 * tiles >= 3 * most ? 1 : most / tiles;
  s.chunks = static_cast<int>(std::clamp<std::int64_t>(std::min(wave, rows / (s.down * s.vectors)), 1, 1024));
  return s;
}

/// The combination of the rows' partial results.
struct finish_shape {
  dim parts;            ///< per outer position
  dim columns;          ///< elements of an array of sums
  bool arrays = false;  ///< some reductions give arrays along the inner axes
  int across = 1;       ///< threads that share a column
  int threads() const { return arrays ? 32 * across : 256; }
  dim tiles() const { return arrays && !columns.is(0) ? ceil_div(columns, 32) : dim(1); }
};

inline finish_shape finish_of(const kernel& k, const dim& parts) {
  finish_shape f;
  f.parts = parts;
  f.columns = k.extent(role::inner);
  const auto sums = [&](int id) { return is_reduction(k.body[static_cast<std::size_t>(id)]) && is_array(k, id); };
  std::int64_t shared = 0;
  for (int id = 0; id < static_cast<int>(k.body.size()); ++id)
    if (sums(id)) f.arrays = true, shared += 32 * 8;
  for (const auto& s : k.stores) f.arrays = f.arrays || (is_final_store(k, s) && varies(k, s, k.mask(role::inner)));
  // At most four successive reads, each of eight at once.
  f.across = static_cast<int>(std::clamp<std::int64_t>(power_of_two(parts.number().value_or(128) / 16), 1, 16));
  while (f.across > 1 && shared * f.across > (40 << 10)) f.across /= 2;
  return f;
}

}  // namespace sinter::engine::plan
