// emit/cuda/columns.hpp: kernels that only add rows to sums of columns -> CUDA: vectors of columns, rows shared by blocks.
#pragma once

#include "../../base/series.hpp"
#include "rows.hpp"

namespace sinter::engine::emit {

/// The distribution of column sums: `across` by `down` threads in a block, each with `width` columns of every down-th row.
struct column_shape {
  int axis = -1, width = 1, vectors = 4;
  bool in_part = false;  ///< a row's last vector has fewer lanes
  int across = 32, down = 8;
  dim count;  ///< number of vectors in a row
  dim tiles;
  int chunks = 1;  ///< blocks that share a tile's rows
  int threads() const { return across * down; }
};

namespace detail {

inline column_shape columns_of(const cuda_printer& p, const cuda_target& t) {
  const kernel& k = p.code();
  column_shape s;
  s.axis = static_cast<int>(k.axes.size()) - 1;
  s.width = reducing_width(k, s.axis);
  if (s.width == 8 || is_heavy(k)) s.vectors = 2;
  const dim n = k.extent(role::inner);
  s.in_part = !divides(s.width, n);
  s.count = vectors_of_row(n, s.width);
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
  for (int id = 0; id < p.size(); ++id)
    if (is_reduction(p.at(id))) bytes += s.width * p.accumulator_bytes(id);
  const auto has_room = [&] { return bytes * s.threads() <= (40 << 10); };
  // Readers of stored rows do not wait for the sums if another launch finishes them.
  const bool stores_rows = std::any_of(k.stores.begin(), k.stores.end(), [&](const auto& st) {
    return !p.is_uniform_store(st) && !is_final_store(p, st);
  });
  if (!stores_rows && k.extent(role::row).is_number() && rows <= 2048 &&
      count <= (1 << 20) / (std::max<std::int64_t>(rows, 1) * s.width) / std::max<std::int64_t>(outer, 1)) {
    // Little enough for one launch: many threads down a column. Lines of 128 bytes across; if these leave most
    // multiprocessors idle, sectors of 32, since recently written data is still in the cache.
    s.across = std::min(s.across, 8);
    while (s.across > 1 && s.width * s.across > 8 && count * outer / s.across * 2 <= t.multiprocessors) s.across /= 2;
    s.tiles = s.count.is(0) ? dim(1) : ceil_div(s.count, s.across);
    s.down = 1024 / s.across;
    while (s.down > 32 / s.across && (s.down / 2 * s.vectors >= rows || !has_room())) s.down /= 2;
    return s;
  }
  while (s.down > 1 && (s.down / 2 >= rows || !has_room())) s.down /= 2;
  // One wave of 1024 threads on each multiprocessor: with 64 bytes each, 64 KiB are in flight. Three quarters of a wave
  // suffice to save a second launch.
  const std::int64_t most = std::int64_t{1024 / s.threads()} * t.multiprocessors,
                     wave = 4 * tiles >= 3 * most ? 1 : round_up(most, tiles);
  s.chunks = static_cast<int>(std::clamp<std::int64_t>(std::min(wave, rows / (s.down * s.vectors)), 1, 1024));
  return s;
}

inline finish_shape finish_of(const cuda_printer& p, const dim& parts) {
  finish_shape f;
  f.parts = parts;
  f.columns = p.code().extent(role::inner);
  for (int id = 0; id < p.size(); ++id) f.arrays = f.arrays || (is_reduction(p.at(id)) && p.is_array(id));
  for (const auto& s : p.code().stores) f.arrays = f.arrays || (is_final_store(p, s) && p.varies(s, p.inner()));
  // At most four successive reads, each of eight at once.
  f.across = static_cast<int>(std::clamp<std::int64_t>(power_of_two(parts.number().value_or(128) / 16), 1, 16));
  std::int64_t shared = 0;
  for (int id = 0; id < p.size(); ++id)
    if (is_reduction(p.at(id)) && p.is_array(id)) shared += 32 * 8;
  while (f.across > 1 && shared * f.across > (40 << 10)) f.across /= 2;
  return f;
}

inline void reserve_parts(cuda_printer& p, cuda_partials& parts, const dim& count) {
  const dim tasks = p.code().extent(role::outer) * count;
  for (int id = 0; id < p.size(); ++id) {
    if (!is_reduction(p.at(id)) || p.at(id).span == span_of::inner) continue;
    parts.reserve(id, p.is_array(id) ? tasks * p.code().extent(role::inner) : tasks);
  }
}

inline series<int> arrays_of(const cuda_printer& p) {
  series<int> ids;
  for (int id = 0; id < p.size(); ++id)
    if (is_reduction(p.at(id)) && p.at(id).span != span_of::inner && p.is_array(id)) ids.push_back(id);
  return ids;
}

/// A thread's position: its columns, and the first of its rows. Neighbouring blocks take neighbouring columns of the same rows.
inline void place_columns(cuda_printer& p, const column_shape& s) {
  writer& out = p.out();
  const std::string flat = p.flat(), tiles = p.count(s.tiles), chunks = p.number(s.chunks);
  out.line("const int x = threadIdx.x%" + p.number(s.across) + ", y = threadIdx.x/" + p.number(s.across) + ";");
  out.line("const " + flat + " g = block, tile = g%" + tiles + ", chunk = g/" + tiles + "%" + chunks + ", o = g/" +
           tiles + "/" + chunks + ";");
  p.unravel("o", p.axes_of(role::outer));
  p.define_scalars([&](int id) { return !(p.at(id).axes & (p.inner() | p.row())) && !p.at(id).after_rows; });
  out.line("const " + flat + " f = tile*" + p.number(s.across) + " + x;");
  if (!fills(s.across, s.count)) out.line("const bool live = f < " + p.limit(s.count) + ";");
  p.unravel("f", p.axes_of(role::inner), s.width);
}

/// A thread's sums of its columns, initialised with the identity.
inline void begin_columns(cuda_printer& p, const column_shape& s, const series<int>& arrays) {
  for (int id : arrays) {
    p.out().line(p.accumulator_type(id) + " " + p.acc(id) + "[" + p.number(s.width) + "];");
    p.out().line("#pragma unroll");
    p.out().line("for (int l = 0; l < " + p.number(s.width) + "; ++l) " + p.acc(id) + "[l] = " + p.initial(id) + ";");
  }
}

/// Adds every down-th of the block's rows to a thread's sums.
inline void add_rows(cuda_printer& p, const column_shape& s, const series<int>& arrays) {
  writer& out = p.out();
  const std::string rows = "(" + p.code().extent(role::row).text() + ")", chunks = p.number(s.chunks);
  const bool whole = fills(s.across, s.count);
  cuda_printer::work w;
  w.reductions = arrays;
  for (const auto& st : p.code().stores)
    if (!p.is_uniform_store(st) && !is_final_store(p, st)) w.stores.push_back(&st);
  cuda_tile column;
  column.width = s.width;
  column.axis = s.axis;
  column.in_part = s.in_part;
  column.guard = whole ? "" : "live";
  column.place = [] {};
  series<int> fixed;
  for (int id : p.needed(w))
    if (p.at(id).kind == kind::load && !(p.at(id).axes & p.row()) && !p.is_indirect(id)) fixed.push_back(id);
  if (!fixed.empty()) p.read_once(fixed, column);
  cuda_tile t = column;
  t.vectors = s.vectors;
  t.guard = (whole ? "" : "live && ") + std::string("r < high");
  t.place = [&] {
    out.line("const long r = z + u*" + p.number(s.down) + ";");
    p.unravel(p.code().axes.empty() ? "r" : "(" + p.flat() + ")r", p.axes_of(role::row));
  };
  const std::string low = s.chunks == 1 ? "0" : "(long)" + rows + "*chunk/" + chunks,
                    high = s.chunks == 1 ? rows : "(long)" + rows + "*(chunk + 1)/" + chunks;
  out.line("const long high = " + high + ";");
  const auto outer = p.scope();
  const std::string lane = s.width > 1 ? "[l]" : "[0]";
  out.block("for (long z = " + low + " + y; z < high; z += " + p.number(std::int64_t{s.down} * s.vectors) + ")", [&] {
    p.pass(
        t, w, {}, [&](int id) { return p.acc(id) + lane; }, [](const plan::store&, int, const std::string&) {});
  });
  p.leave(outer);
}

/// Folds the sums of the threads of a column, in shared memory.
inline void fold_down(cuda_printer& p, const column_shape& s, const series<int>& arrays) {
  writer& out = p.out();
  const std::string width = p.number(s.width);
  for (int id : arrays) {
    const std::string m = "m" + p.number(id);
    out.line("__shared__ " + p.accumulator_type(id) + " " + m + "[" + p.number(s.down) + "][" +
             p.number(std::int64_t{s.across} * s.width) + "];");
    out.line("#pragma unroll");
    out.line("for (int l = 0; l < " + width + "; ++l) " + m + "[y][x*" + width + " + l] = " + p.acc(id) + "[l];");
  }
  if (s.down > 1)
    out.block("for (int h = " + p.number(s.down / 2) + "; h > 0; h /= 2)", [&] {
      out.line("__syncthreads();");
      out.line("if (y >= h) continue;");
      for (int id : arrays) {
        const std::string m = "m" + p.number(id), at = "[x*" + width + " + l]";
        out.line("for (int l = 0; l < " + width + "; ++l) " + m + "[y]" + at + " = " + p.fold(id) + "(" + m + "[y]" +
                 at + ", " + m + "[y + h]" + at + ");");
      }
    });
  out.line("__syncthreads();");
}

/// The block's sums: final, or its part of them if blocks share rows.
inline void leave_columns(cuda_printer& p, const column_shape& s, const cuda_partials& parts,
                          const series<int>& arrays) {
  writer& out = p.out();
  const std::string columns = "(" + p.code().extent(role::inner).text() + ")", chunks = p.number(s.chunks),
                    block_columns = p.number(std::int64_t{s.across} * s.width);
  const auto outer = p.scope();
  const auto finals = final_stores(p);
  out.block("for (int c = threadIdx.x; c < " + block_columns + "; c += " + p.number(s.threads()) + ")", [&] {
    out.line("const long e = (long)tile*" + block_columns + " + c;");
    out.line("if (e >= " + columns + ") break;");
    if (s.chunks == 1) p.unravel("(" + p.flat() + ")e", p.axes_of(role::inner));
    for (int id : arrays) {
      const std::string m = "m" + p.number(id) + "[0][c]";
      if (s.chunks == 1) name_result(p, id, m);
      else out.line(parts.at(id, "((long)o*" + chunks + " + chunk)*" + columns + " + e") + " = " + m + ";");
    }
    if (s.chunks == 1) print_final(p, finals.along);
  });
  p.leave(outer);
  if (s.chunks == 1 && !finals.single.empty())
    out.block("if (tile == 0 && threadIdx.x == 0)", [&] { print_final(p, finals.single); });
}

}  // namespace detail

/// The body of a block that sums some rows of a tile of columns.
SINTER_API void print_columns(cuda_printer& p, const column_shape& s, const cuda_partials& parts) {
  detail::declare_folds(p);
  p.uniform_values();
  p.uniform_stores();
  detail::place_columns(p, s);
  const auto arrays = detail::arrays_of(p);
  detail::begin_columns(p, s, arrays);
  detail::add_rows(p, s, arrays);
  detail::fold_down(p, s, arrays);
  detail::leave_columns(p, s, parts, arrays);
}

}  // namespace sinter::engine::emit
