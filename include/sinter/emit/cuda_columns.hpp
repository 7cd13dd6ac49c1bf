// emit/cuda_columns.hpp: kernels that reduce along the rows -> CUDA: sums of columns by vectors of columns, and rows and
// columns of one tensor together, by blocks that walk rows and keep the columns' sums in registers.
#pragma once

#include "../base/series.hpp"
#include "cuda_rows.hpp"

namespace sinter::emit {

/// How column sums are spread over threads: `across` by `down` threads a block, each `width` columns of every down-th row.
struct column_shape {
  int axis = -1, width = 1, vectors = 4;
  int across = 32, down = 8;
  dim count;  ///< vectors of a row
  dim tiles;
  int chunks = 1;  ///< blocks that share a tile's rows
  int threads() const { return across * down; }
};

namespace detail {

/// True when the kernel does nothing but add rows to arrays of sums, and what can be done element by element.
inline bool only_columns(const cuda_printer& p) {
  if (p.code().stages > 1) return false;
  for (int id = 0; id < p.size(); ++id)
    if (p.is_reduction(p.at(id)) && !is_array(p, id)) return false;
  return true;
}

inline column_shape columns_of(const cuda_printer& p, const cuda_target& t) {
  const kernel& k = p.code();
  column_shape s;
  s.axis = static_cast<int>(k.axes.size()) - 1;
  s.width = vector_width(k, s.axis, false);
  const dim n = k.extent(role::inner);
  s.count = s.width == 1 ? n : *n.divided_by(s.width);
  const std::int64_t count = s.count.number().value_or(1024);
  s.across = static_cast<int>(std::min<std::int64_t>(power_of_two(std::max<std::int64_t>(count, 1)), 32));
  s.down = 256 / s.across;
  s.tiles = ceil_div(s.count, s.across);
  const std::int64_t rows = k.extent(role::row).number().value_or(1 << 16),
                     tiles = std::max<std::int64_t>(
                         s.tiles.number().value_or(8) * k.extent(role::outer).number().value_or(1), 1);
  if (k.extent(role::row).is_number() && rows <= 2048 && rows * count * s.width <= 1 << 20) {
    // Little enough for one launch: many threads down a column, lines of 128 bytes across.
    s.across = std::min(s.across, 8);
    s.tiles = s.count.is(0) ? dim(1) : ceil_div(s.count, s.across);
    std::int64_t bytes = 0;
    for (int id = 0; id < p.size(); ++id)
      if (p.is_reduction(p.at(id)))
        bytes += s.width * s.across * static_cast<std::int64_t>(size_of(compute_type(p.at(id).type)));
    s.down = 1024 / s.across;
    while (s.down > 32 / s.across && (s.down / 2 * s.vectors >= rows || bytes * s.down > (40 << 10))) s.down /= 2;
    return s;
  }
  while (s.down > 1 && s.down / 2 >= rows) s.down /= 2;
  // One wave of 1024 threads to a multiprocessor: with 64 bytes each, 64 KiB are on their way.
  const std::int64_t wave = round_up(std::int64_t{1024 / s.threads()} * t.multiprocessors, tiles);
  s.chunks = static_cast<int>(std::clamp<std::int64_t>(std::min(wave, rows / (s.down * s.vectors)), 1, 1024));
  return s;
}

/// How many blocks walk the rows of one outer position, so that each multiprocessor has 1024 threads.
inline int walkers_of(const cuda_printer& p, const row_shape& s, const cuda_target& t) {
  const kernel& k = p.code();
  const std::int64_t outer = std::max<std::int64_t>(k.extent(role::outer).number().value_or(1), 1);
  const std::int64_t rows = k.extent(role::row).number().value_or(1 << 16);
  const std::int64_t wave = std::max<std::int64_t>(t.multiprocessors * std::max(1, 1024 / s.threads()) / outer, 1);
  return static_cast<int>(std::max<std::int64_t>(std::min(wave, round_up(rows, s.rows)), 1));
}

inline finish_shape finish_of(const cuda_printer& p, std::int64_t parts) {
  finish_shape f;
  f.parts = parts;
  f.columns = p.code().extent(role::inner);
  for (int id = 0; id < p.size(); ++id) f.arrays = f.arrays || (p.is_reduction(p.at(id)) && is_array(p, id));
  for (const auto& s : p.code().stores) f.arrays = f.arrays || (is_final_store(p, s) && p.varies(s, p.inner()));
  // Four reads in a row at most, each of eight at once.
  f.across = static_cast<int>(std::clamp<std::int64_t>(power_of_two(parts / 16), 1, 16));
  std::int64_t shared = 0;
  for (int id = 0; id < p.size(); ++id)
    if (p.is_reduction(p.at(id)) && is_array(p, id)) shared += 32 * 8;
  while (f.across > 1 && shared * f.across > (40 << 10)) f.across /= 2;
  return f;
}

inline void reserve_parts(cuda_printer& p, cuda_partials& parts, std::int64_t count) {
  const dim tasks = p.code().extent(role::outer) * dim(count);
  for (int id = 0; id < p.size(); ++id) {
    if (!p.is_reduction(p.at(id)) || p.at(id).span == span_of::inner) continue;
    parts.reserve(id, is_array(p, id) ? tasks * p.code().extent(role::inner) : tasks);
  }
}

inline series<int> arrays_of(const cuda_printer& p) {
  series<int> ids;
  for (int id = 0; id < p.size(); ++id)
    if (p.is_reduction(p.at(id)) && p.at(id).span != span_of::inner && is_array(p, id)) ids.push_back(id);
  return ids;
}

}  // namespace detail

/// The body of a block that sums some rows of a tile of columns.
SINTER_API void print_columns(cuda_printer& p, const column_shape& s, const cuda_partials& parts) {
  writer& out = p.out();
  const kernel& k = p.code();
  const std::string flat = p.flat(), tiles = p.count(s.tiles), chunks = p.number(s.chunks);
  detail::declare_folds(p);
  p.uniform_values();
  p.uniform_stores();
  // Neighbouring blocks take neighbouring columns of the same rows.
  out.line("const int x = threadIdx.x%" + p.number(s.across) + ", y = threadIdx.x/" + p.number(s.across) + ";");
  out.line("const " + flat + " g = block, tile = g%" + tiles + ", chunk = g/" + tiles + "%" + chunks + ", o = g/" +
           tiles + "/" + chunks + ";");
  p.unravel("o", p.axes_of(role::outer));
  p.define_scalars([&](int id) { return !(p.at(id).axes & (p.inner() | p.row())) && !p.at(id).after_rows; });
  out.line("const " + flat + " f = tile*" + p.number(s.across) + " + x;");
  const bool whole = fills(s.across, s.count);
  if (!whole) out.line("const bool live = f < " + p.limit(s.count) + ";");
  p.unravel("f", p.axes_of(role::inner), s.width);
  const std::string rows = "(" + k.extent(role::row).text() + ")";
  const auto arrays = detail::arrays_of(p);
  for (int id : arrays) {
    out.line(p.accumulator_type(id) + " " + p.acc(id) + "[" + p.number(s.width) + "];");
    out.line("#pragma unroll");
    out.line("for (int l = 0; l < " + p.number(s.width) + "; ++l) " + p.acc(id) + "[l] = " + p.initial(id) + ";");
  }
  cuda_printer::work w;
  w.reductions = arrays;
  for (const auto& st : k.stores)
    if (!p.is_uniform_store(st) && !detail::is_final_store(p, st)) w.stores.push_back(&st);
  cuda_tile column;
  column.width = s.width;
  column.axis = s.axis;
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
    p.unravel(p.code().axes.empty() ? "r" : "(" + flat + ")r", p.axes_of(role::row));
  };
  const std::string low = s.chunks == 1 ? "0" : "(long)" + rows + "*chunk/" + chunks,
                    high = s.chunks == 1 ? rows : "(long)" + rows + "*(chunk + 1)/" + chunks;
  out.line("const long high = " + high + ";");
  const auto outer = p.scope();
  const std::string lane = s.width > 1 ? "[l]" : "[0]";
  out.block("for (long z = " + low + " + y; z < high; z += " + p.number(std::int64_t{s.down} * s.vectors) + ")", [&] {
    p.pass(
        t, w, {}, [&](int id) { return p.acc(id) + lane; }, [](const plan::store&, int) {});
  });
  p.leave(outer);
  for (int id : arrays) {
    const std::string m = "m" + p.number(id), width = p.number(s.width);
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
        const std::string m = "m" + p.number(id), at = "[x*" + p.number(s.width) + " + l]";
        out.line("for (int l = 0; l < " + p.number(s.width) + "; ++l) " + m + "[y]" + at + " = " + p.fold(id) + "(" +
                 m + "[y]" + at + ", " + m + "[y + h]" + at + ");");
      }
    });
  out.line("__syncthreads();");
  const std::string columns = "(" + k.extent(role::inner).text() + ")",
                    block_columns = p.number(std::int64_t{s.across} * s.width);
  const auto finals = detail::final_stores(p);
  out.block("for (int c = threadIdx.x; c < " + block_columns + "; c += " + p.number(s.threads()) + ")", [&] {
    out.line("const long e = (long)tile*" + block_columns + " + c;");
    out.line("if (e >= " + columns + ") break;");
    if (s.chunks == 1) p.unravel("(" + flat + ")e", p.axes_of(role::inner));
    for (int id : arrays) {
      const std::string m = "m" + p.number(id) + "[0][c]";
      if (s.chunks == 1) detail::name_result(p, id, m);
      else out.line(parts.at(id, "((long)o*" + chunks + " + chunk)*" + columns + " + e") + " = " + m + ";");
    }
    if (s.chunks == 1) detail::print_final(p, finals.along);
  });
  p.leave(outer);
  if (s.chunks == 1 && !finals.single.empty())
    out.block("if (tile == 0 && threadIdx.x == 0)", [&] { detail::print_final(p, finals.single); });
}

/// What a block that walks rows keeps in registers beyond its row.
struct walk_shape {
  row_shape row;
  int walkers = 1;
  bool hoist = false;  ///< what varies along the row only is read once
  bool ahead = false;  ///< the next row is read while this one is worked on
};

namespace detail {

inline series<int> loads_of(const cuda_printer& p, bool of_rows) {
  series<int> ids;
  cuda_printer::work w;
  for (int stage = 0; stage < p.code().stages; ++stage) {
    const auto more = work_of(p, stage);
    w.reductions.insert(w.reductions.end(), more.reductions.begin(), more.reductions.end());
    w.stores.insert(w.stores.end(), more.stores.begin(), more.stores.end());
    if (of_rows) break;
  }
  for (int id : p.needed(w)) {
    const auto& i = p.at(id);
    if (i.kind != kind::load || !(i.axes & p.inner()) || p.is_indirect(id)) continue;
    if (of_rows ? (i.axes & p.row()) != 0 : !(i.axes & ~p.inner())) ids.push_back(id);
  }
  return ids;
}

/// Registers: 64 to a thread where 1024 share a multiprocessor, half of them for arithmetic and addresses.
inline walk_shape walk_of(const cuda_printer& p, const cuda_target& t) {
  const kernel& k = p.code();
  walk_shape s;
  s.row = rows_of(p, t);
  row_shape& r = s.row;
  const auto count = r.count.number();
  std::int64_t sums = 0;
  for (int id : arrays_of(p)) sums += static_cast<std::int64_t>(size_of(compute_type(p.at(id).type)));
  choose_keep(p, r);
  auto bytes = [&](const series<int>& ids) { return bytes_of(p, {ids.begin(), ids.end()}); };
  const std::int64_t kept = bytes_of(p, r.keep) + sums, fixed = bytes(loads_of(p, false)),
                     rows = bytes(loads_of(p, true));
  r.rows = 1;
  if (count && *count <= 32) {
    r.group = static_cast<int>(power_of_two(std::max<std::int64_t>(*count, 1)));
    r.rows = 256 / r.group;
  } else {
    r.group = static_cast<int>(count ? std::min<std::int64_t>(power_of_two(*count), 1024) : 512);
    if (r.group == 32) r.rows = 4;
  }
  const std::int64_t vectors = count ? std::max<std::int64_t>(round_up(*count, r.group), 1) : 0;
  auto fits = [&](std::int64_t each) { return each * r.width * vectors <= 144; };
  r.held = vectors > 0 && vectors <= 16 && fits(kept);
  r.vectors = static_cast<int>(vectors);
  if (!r.held) {
    r.group = 512;
    r.rows = 1;
    r.vectors = 2;
    r.keep.clear();
  } else {
    s.ahead = k.extent(role::row).number().value_or(1 << 20) > std::int64_t{r.rows} * walkers_of(p, r, t) &&
              fits(kept + rows);
    s.hoist = fits(kept + fixed + (s.ahead ? rows : 0));
  }
  s.walkers = walkers_of(p, r, t);
  return s;
}

}  // namespace detail

/// The body of a block that walks rows: their own reductions, and the sums along them.
SINTER_API void print_walk(cuda_printer& p, const walk_shape& s, const cuda_partials& parts) {
  writer& out = p.out();
  const kernel& k = p.code();
  const row_shape& r = s.row;
  cuda_row_printer rows(p, r);
  const std::string flat = p.flat(), walkers = p.number(s.walkers), total = p.limit(k.extent(role::row)),
                    columns = "(" + k.extent(role::inner).text() + ")", width = p.number(r.width);
  const auto arrays = detail::arrays_of(p);
  series<int> scalars;
  for (int id = 0; id < p.size(); ++id)
    if (p.is_reduction(p.at(id)) && p.at(id).span != span_of::inner && !is_array(p, id)) scalars.push_back(id);
  detail::declare_folds(p);
  p.uniform_values();
  p.uniform_stores();
  rows.place();
  out.line("const " + flat + " o = block/" + walkers + ", walker = block%" + walkers + ";");
  p.unravel("o", p.axes_of(role::outer));
  p.define_scalars(
      [&](int id) { return !(p.at(id).axes & (p.inner() | p.row())) && p.at(id).stage == 0 && !p.at(id).after_rows; });
  detail::declare_slots(p, rows.inner_reductions(), r.group, 2);
  for (int id : scalars) detail::begin_accumulator(p, id);
  // The columns' sums: in registers, or where the row is longer, in the block's own part of the scratch memory.
  for (int id : arrays) {
    const std::string type = p.accumulator_type(id), a = p.acc(id);
    if (!r.held) {
      out.line(type + "* const " + a + " = &" + parts.at(id, "(long)block*" + columns) + ";");
      out.line("for (long e = lane; e < " + columns + "; e += " + p.number(r.group) + ") " + a +
               "[e] = " + p.initial(id) + ";");
      continue;
    }
    out.line(type + " " + a + "[" + p.number(r.vectors) + "][" + width + "];");
    out.line("#pragma unroll");
    out.line("for (int u = 0; u < " + p.number(r.vectors) + "; ++u)");
    out.line("#pragma unroll");
    out.line("for (int l = 0; l < " + width + "; ++l) " + a + "[u][l] = " + p.initial(id) + ";");
  }
  if (!r.held && !arrays.empty()) out.line("__syncthreads();");
  const std::string lane = r.width > 1 ? "l" : "0";
  auto into = [&](int id) {
    if (!is_array(p, id)) return p.acc(id);
    if (r.held) return p.acc(id) + "[u][" + lane + "]";
    return p.acc(id) + "[f*" + width + (r.width > 1 ? " + l]" : "]");
  };
  if (s.hoist) {
    const auto fixed = detail::loads_of(p, false);
    if (!fixed.empty()) p.read(fixed, rows.tile(""));
  }
  const std::string step = p.number(std::int64_t{s.walkers} * r.rows);
  const bool exact = r.rows == 1;
  auto place_row = [&](const std::string& base) {
    if (exact) {
      out.line("const " + flat + " r = " + base + ";");
    } else {
      out.line("const bool live = " + base + " + group < " + total + ";");
      out.line("const " + flat + " r = live ? " + base + " + group : " + total + " - 1;");
    }
    p.unravel("r", p.axes_of(role::row));
  };
  const std::string live = exact ? "" : "live";
  const auto ahead = s.ahead ? detail::loads_of(p, true) : series<int>{};
  const std::string first = "walker*" + p.number(r.rows);
  if (!ahead.empty()) {
    for (int id : ahead) p.declare_pack(id, rows.tile("", live), "n");
    out.block("if (" + first + " < " + total + ")", [&] {
      place_row(first);
      p.read_again(ahead, rows.tile("", live), "n");
    });
  }
  out.line("int turn = 0;");
  const auto outer = p.scope();
  out.block("for (" + flat + " b = " + first + "; b < " + total + "; b += " + step + ", turn ^= 1)", [&] {
    place_row("b");
    if (!ahead.empty()) {
      for (int id : ahead) {
        p.declare_pack(id, rows.tile("", live));
        p.hold(id);
      }
      out.line("#pragma unroll");
      out.block("for (int u = 0; u < " + p.number(r.vectors) + "; ++u)", [&] {
        for (int id : ahead) out.line("x" + p.number(id) + "[u] = n" + p.number(id) + "[u];");
      });
      out.block("if (b + " + step + " < " + total + ")", [&] {
        out.line("const " + flat + " next = b + " + step + ";");
        place_row("next");
        p.read_again(ahead, rows.tile("", live), "n");
      });
    }
    for (int stage = 0; stage < k.stages; ++stage) {
      rows.row_values(stage, live, [&] {
        for (int id : scalars)
          if (p.at(id).span == span_of::row && p.at(p.at(id).args[0]).stage == stage)
            out.block("if (" + live + (live.empty() ? "" : " && ") + "lane == 0)",
                      [&] { p.accumulate(id, p.acc(id), -1); });
      });
      rows.pass(stage, live, into);
      detail::print_group_fold(p, rows.folded_at(stage), r.group, "turn");
    }
  });
  p.leave(outer);
  for (int id : ahead) p.drop(id);
  // What the block leaves.
  for (int id : arrays) {
    if (!r.held) break;
    const std::string a = p.acc(id), m = "m" + p.number(id);
    if (r.rows == 1) {
      const auto t = rows.tile("");
      p.over_vectors(t, [&] {
        out.line("#pragma unroll");
        out.line("for (int l = 0; l < " + width + "; ++l) " +
                 parts.at(id, "(long)block*" + columns + " + f*" + width + " + l") + " = " + a + "[u][l];");
      });
      continue;
    }
    out.line("__shared__ " + p.accumulator_type(id) + " " + m + "[" + p.number(r.rows) + "][" +
             p.number(std::int64_t{r.group} * r.vectors * r.width) + "];");
    p.over_vectors(rows.tile(""), [&] {
      out.line("for (int l = 0; l < " + width + "; ++l) " + m + "[group][f*" + width + " + l] = " + a + "[u][l];");
    });
    out.line("__syncthreads();");
    out.block("for (int e = threadIdx.x; e < " + columns + "; e += " + p.number(r.threads()) + ")", [&] {
      out.line(p.accumulator_type(id) + " b = " + m + "[0][e];");
      out.line("for (int j = 1; j < " + p.number(r.rows) + "; ++j) b = " + p.fold(id) + "(b, " + m + "[j][e]);");
      out.line(parts.at(id, "(long)block*" + columns + " + e") + " = b;");
    });
  }
  if (scalars.empty()) return;
  out.line("__syncthreads();");
  detail::declare_slots(p, scalars, r.threads(), 1);
  detail::print_group_fold(p, scalars, r.threads(), "0");
  out.block("if (threadIdx.x == 0)", [&] {
    for (int id : scalars) out.line(parts.at(id, "block") + " = " + p.acc(id) + ";");
  });
}

}  // namespace sinter::emit
