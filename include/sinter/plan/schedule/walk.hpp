// plan/schedule/walk.hpp: reductions along rows and across them over threads: blocks walk rows, and keep the columns' sums in
// registers.
#pragma once

#include "columns.hpp"
#include "rows.hpp"

namespace sinter::engine::plan {

/// The registers of a block that walks rows, beyond its row.
struct persistent_rows {
  row_shape row;
  dim walkers = 1;
  int resident = 1024;  ///< threads on a multiprocessor
  bool hoist = false;   ///< values that vary only along the row are read once
  bool ahead = false;   ///< the next row is read during the work on this one
  int staged = 0;       ///< rows of a block in shared memory, copied there during the work on earlier ones
  int shared = 0;       ///< bytes of dynamic shared memory
};

/// The number of blocks that walk the rows of one outer position, so that each multiprocessor has `resident` threads.
inline int walkers_of(const kernel& k, const row_shape& s, int resident, const target& t) {
  const std::int64_t outer = std::max<std::int64_t>(k.extent(role::outer).number().value_or(1), 1);
  const std::int64_t rows = k.extent(role::row).number().value_or(1 << 16);
  const std::int64_t wave = std::max<std::int64_t>(t.multiprocessors * std::max(1, resident / s.threads()) / outer, 1);
  return static_cast<int>(std::max<std::int64_t>(std::min(wave, round_up(rows, s.rows)), 1));
}

/// True when every thread can copy its part of a row into shared memory, 16 bytes at a time.
inline bool can_stage(const kernel& k, const row_shape& r, const target& t) {
  const auto loads = loads_of(k, true);
  if (!t.copies_async || r.in_part || loads.empty() || r.most.value_or(0) <= 32) return false;
  return std::all_of(loads.begin(), loads.end(), [&](int id) {
    const instruction& i = k.body[static_cast<std::size_t>(id)];
    return !is_guarded(i) && (i.axes >> r.axis & 1u) &&
           r.width * static_cast<std::int64_t>(size_of(type_of(k, i.at))) == 16 &&
           is_vector_access(k, i.at, r.axis, r.width);
  });
}

/// The rows in shared memory, including the present one: four if they fit.
inline void stage_rows(const kernel& k, persistent_rows& s, const target& t) {
  const row_shape& r = s.row;
  const auto rows = k.extent(role::row).number();
  const std::int64_t bytes = std::int64_t{16} * r.threads() * r.vectors *
                             static_cast<std::int64_t>(loads_of(k, true).size()),
                     room = t.shared_bytes / std::max(1, s.resident / r.threads()) - (4 << 10),
                     turns = rows ? round_up(*rows, s.walkers.number().value_or(1)) : 16;
  const auto depth = std::min<std::int64_t>({room / bytes, 4, turns});
  if (depth < 2) return;
  s.staged = static_cast<int>(depth);
  s.shared = static_cast<int>(depth * bytes);
  s.ahead = false;
}

/// If only the row is kept: more and smaller blocks, each with more of the row in flight, wait less for one another.
inline void shrink_group(const kernel& k, row_shape& r) {
  if (r.group <= 64) return;
  const std::int64_t vectors = round_up(*r.most, r.group / 2),
                     each = std::max<std::int64_t>(bytes_of(k, r.keep), 4) * r.width;
  if (vectors * each > 144) return;
  r.group /= 2;
  r.vectors = static_cast<int>(vectors);
}

/// The group of a row, with at most `most` threads, and the block's rows: several if rows are short.
inline void choose_group(row_shape& r, int most) {
  r.rows = 1;
  if (r.most && *r.most <= 32) {
    r.group = static_cast<int>(power_of_two(std::max<std::int64_t>(*r.most, 1)));
    r.rows = 256 / r.group;
  } else {
    r.group = static_cast<int>(r.most ? std::min<std::int64_t>(power_of_two(*r.most), most) : 512);
    if (r.group == 32) r.rows = 4;
  }
}

/// Keeps the operands of a long row in a block of 1024 threads that cannot keep costly values beside them. To compute these again
/// takes less time than to read the row again from the L2 cache.
inline bool hold_operands(const kernel& k, persistent_rows& s, std::int64_t sums) {
  row_shape& r = s.row;
  sorted_set<int> operands;
  for (int id : r.keep)
    if (k.body[static_cast<std::size_t>(id)].kind == kind::load) operands.insert(id);
  const std::int64_t vectors = r.most ? round_up(*r.most, 1024) : 0;
  if (operands.empty() || vectors == 0 || vectors > 16) return false;
  if ((bytes_of(k, operands) + sums) * r.width * vectors > 144) return false;
  r.keep = operands;
  r.held = true;
  r.group = 1024;
  r.rows = 1;
  r.vectors = static_cast<int>(vectors);
  s.resident = 1024;
  return true;
}

/// Registers: 64 for each thread if 1024 threads share a multiprocessor, half of them for arithmetic and addresses; 128 if
/// 512 do. Rows in shared memory suit few threads, which have more to do between synchronisations.
inline persistent_rows walk_of(const kernel& k, const target& t) {
  persistent_rows s;
  if (is_heavy(k)) s.resident = 512;
  s.row = rows_of(k, t);
  row_shape& r = s.row;
  const auto count = r.most;
  if (arrays_of(k).empty() && r.held) {
    shrink_group(k, r);
    s.walkers = walkers_of(k, r, 12 * s.resident, t);  // several waves, since rows are many and blocks end apart
    return s;
  }
  std::int64_t sums = 0;
  for (int id : arrays_of(k))
    sums += static_cast<std::int64_t>(size_of(compute_type(k.body[static_cast<std::size_t>(id)].type)));
  choose_keep(k, r);
  auto bytes = [&](const series<int>& ids) { return bytes_of(k, {ids.begin(), ids.end()}); };
  const std::int64_t kept = bytes_of(k, r.keep) + sums, fixed = bytes(loads_of(k, false)),
                     rows = bytes(loads_of(k, true));
  // At least two rows for each of the blocks that run at once.
  const std::int64_t blocks =
      t.multiprocessors * (512 / std::min<std::int64_t>(power_of_two(count.value_or(512)), 512));
  const bool stage = can_stage(k, r, t) && round_up(*count, 512) * r.width * kept <= 320 &&
                     (k.extent(role::row) * k.extent(role::outer)).number().value_or(1 << 20) >= 2 * blocks;
  if (stage) s.resident = 512;
  const int most = s.resident > 512 ? 1024 : 512;
  choose_group(r, most);
  // Two vectors a thread: twice as many rows are in flight, and half as many threads compute a row's scalars.
  if (!stage && s.resident <= 512 && count && *count > 64 && *count <= 256) r.group /= 2;
  const std::int64_t vectors = count ? std::max<std::int64_t>(round_up(*count, r.group), 1) : 0;
  auto fits = [&](std::int64_t each) { return each * r.width * vectors <= (stage ? 320 : most == 1024 ? 144 : 176); };
  r.held = vectors > 0 && vectors <= 16 && fits(kept);
  if (!r.held && hold_operands(k, s, sums)) return s.walkers = walkers_of(k, r, s.resident, t), s;
  r.vectors = static_cast<int>(vectors);
  if (!r.held) {
    r.group = 512;
    r.rows = 1;
    r.vectors = 2;
    r.keep.clear();
  } else {
    s.ahead = !stage &&
              k.extent(role::row).number().value_or(1 << 20) > std::int64_t{r.rows} * walkers_of(k, r, s.resident, t) &&
              fits(kept + rows);
    s.hoist = fits(kept + fixed + (s.ahead ? rows : 0));
  }
  s.walkers = walkers_of(k, r, s.resident, t);
  if (stage && r.held && r.rows == 1) stage_rows(k, s, t);
  return s;
}

}  // namespace sinter::engine::plan
