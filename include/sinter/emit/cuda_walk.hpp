// emit/cuda_walk.hpp: kernels that reduce along the rows and across them -> CUDA: blocks walk rows, and keep the columns' sums in
// registers.
#pragma once

#include "cuda_columns.hpp"

namespace sinter::emit {

/// What a block that walks rows keeps in registers beyond its row.
struct walk_shape {
  row_shape row;
  int walkers = 1;
  int resident = 1024;  ///< threads on a multiprocessor
  bool hoist = false;   ///< what varies along the row only is read once
  bool ahead = false;   ///< the next row is read while this one is worked on
};

namespace detail {

/// How many blocks walk the rows of one outer position, so that each multiprocessor has `resident` threads.
inline int walkers_of(const cuda_printer& p, const row_shape& s, int resident, const cuda_target& t) {
  const kernel& k = p.code();
  const std::int64_t outer = std::max<std::int64_t>(k.extent(role::outer).number().value_or(1), 1);
  const std::int64_t rows = k.extent(role::row).number().value_or(1 << 16);
  const std::int64_t wave = std::max<std::int64_t>(t.multiprocessors * std::max(1, resident / s.threads()) / outer, 1);
  return static_cast<int>(std::max<std::int64_t>(std::min(wave, round_up(rows, s.rows)), 1));
}

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

/// Registers: 64 to a thread where 1024 share a multiprocessor, half of them for arithmetic and addresses; 128 where it is
/// 512.
inline walk_shape walk_of(const cuda_printer& p, const cuda_target& t) {
  const kernel& k = p.code();
  walk_shape s;
  if (is_heavy(k)) s.resident = 512;
  s.row = rows_of(p, t);
  row_shape& r = s.row;
  const auto count = r.count.number();
  if (arrays_of(p).empty() && r.held) {
    // Nothing but the row is kept: more and smaller blocks, each with more of the row in flight, wait for one another less.
    const std::int64_t vectors = round_up(*count, r.group / 2),
                       each = std::max<std::int64_t>(bytes_of(p, r.keep), 4) * r.width;
    if (r.group > 64 && vectors * each <= 144) {
      r.group /= 2;
      r.vectors = static_cast<int>(vectors);
    }
    s.walkers = walkers_of(p, r, s.resident, t);
    return s;
  }
  std::int64_t sums = 0;
  for (int id : arrays_of(p)) sums += static_cast<std::int64_t>(size_of(compute_type(p.at(id).type)));
  choose_keep(p, r);
  auto bytes = [&](const series<int>& ids) { return bytes_of(p, {ids.begin(), ids.end()}); };
  const std::int64_t kept = bytes_of(p, r.keep) + sums, fixed = bytes(loads_of(p, false)),
                     rows = bytes(loads_of(p, true));
  const int most = s.resident > 512 ? 1024 : 512;
  r.rows = 1;
  if (count && *count <= 32) {
    r.group = static_cast<int>(power_of_two(std::max<std::int64_t>(*count, 1)));
    r.rows = 256 / r.group;
  } else {
    r.group = static_cast<int>(count ? std::min<std::int64_t>(power_of_two(*count), most) : 512);
    if (r.group == 32) r.rows = 4;
  }
  const std::int64_t vectors = count ? std::max<std::int64_t>(round_up(*count, r.group), 1) : 0;
  auto fits = [&](std::int64_t each) { return each * r.width * vectors <= (most == 1024 ? 144 : 176); };
  r.held = vectors > 0 && vectors <= 16 && fits(kept);
  r.vectors = static_cast<int>(vectors);
  if (!r.held) {
    r.group = 512;
    r.rows = 1;
    r.vectors = 2;
    r.keep.clear();
  } else {
    s.ahead = k.extent(role::row).number().value_or(1 << 20) > std::int64_t{r.rows} * walkers_of(p, r, s.resident, t) &&
              fits(kept + rows);
    s.hoist = fits(kept + fixed + (s.ahead ? rows : 0));
  }
  s.walkers = walkers_of(p, r, s.resident, t);
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
