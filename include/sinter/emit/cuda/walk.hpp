// emit/cuda/walk.hpp: kernels that reduce along the rows and across them -> CUDA: blocks walk rows, and keep the columns' sums in
// registers.
#pragma once

#include "columns.hpp"

namespace sinter::engine::emit {

/// What a block that walks rows keeps in registers beyond its row.
struct walk_shape {
  row_shape row;
  dim walkers = 1;
  int resident = 1024;  ///< threads on a multiprocessor
  bool hoist = false;   ///< what varies along the row only is read once
  bool ahead = false;   ///< the next row is read while this one is worked on
  int staged = 0;       ///< rows of a block in shared memory, copied there while earlier ones are worked on
  int shared = 0;       ///< bytes of dynamic shared memory
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

/// Shared memory of a multiprocessor that blocks can have, less what they hold for sums.
inline std::int64_t shared_memory_of(int capability) {
  return (capability == 80 || capability == 87 ? 160 : capability >= 90 && capability < 120 ? 220 : 96) << 10;
}

/// True when every thread can copy what it will read of a row into shared memory, 16 bytes at a time.
inline bool can_stage(const cuda_printer& p, const row_shape& r, const cuda_target& t) {
  const kernel& k = p.code();
  const auto loads = loads_of(p, true);
  if (t.capability < 80 || loads.empty() || r.most.value_or(0) <= 32) return false;
  return std::all_of(loads.begin(), loads.end(), [&](int id) {
    const plan::access& a = p.at(id).at;
    const auto type = k.buffers[static_cast<std::size_t>(a.buffer)].type;
    return (p.at(id).axes >> r.axis & 1u) && r.width * static_cast<std::int64_t>(size_of(type)) == 16 &&
           is_vector_access(k, a, r.axis, r.width);
  });
}

/// Rows that wait in shared memory, the one that is worked on among them: four where they fit.
inline void stage_rows(const cuda_printer& p, walk_shape& s, const cuda_target& t) {
  const row_shape& r = s.row;
  const auto rows = p.code().extent(role::row).number();
  const std::int64_t bytes = std::int64_t{16} * r.threads() * r.vectors *
                             static_cast<std::int64_t>(loads_of(p, true).size()),
                     room = shared_memory_of(t.capability) / std::max(1, s.resident / r.threads()) - (4 << 10),
                     turns = rows ? round_up(*rows, s.walkers.number().value_or(1)) : 16;
  const auto depth = std::min<std::int64_t>({room / bytes, 4, turns});
  if (depth < 2) return;
  s.staged = static_cast<int>(depth);
  s.shared = static_cast<int>(depth * bytes);
  s.ahead = false;
}

/// Registers: 64 to a thread where 1024 share a multiprocessor, half of them for arithmetic and addresses; 128 where it is
/// 512. Rows that come through shared memory want few threads, which have more to do between their meetings.
inline walk_shape walk_of(const cuda_printer& p, const cuda_target& t) {
  const kernel& k = p.code();
  walk_shape s;
  if (is_heavy(k)) s.resident = 512;
  s.row = rows_of(p, t);
  row_shape& r = s.row;
  const auto count = r.most;
  if (arrays_of(p).empty() && r.held) {
    // Nothing but the row is kept: more and smaller blocks, each with more of the row in flight, wait for one another less;
    // of several waves, since rows are many and blocks end apart.
    if (r.group > 64) {
      const std::int64_t vectors = round_up(*count, r.group / 2),
                         each = std::max<std::int64_t>(bytes_of(p, r.keep), 4) * r.width;
      if (vectors * each <= 144) {
        r.group /= 2;
        r.vectors = static_cast<int>(vectors);
      }
    }
    s.walkers = walkers_of(p, r, 12 * s.resident, t);
    return s;
  }
  std::int64_t sums = 0;
  for (int id : arrays_of(p)) sums += static_cast<std::int64_t>(size_of(compute_type(p.at(id).type)));
  choose_keep(p, r);
  auto bytes = [&](const series<int>& ids) { return bytes_of(p, {ids.begin(), ids.end()}); };
  const std::int64_t kept = bytes_of(p, r.keep) + sums, fixed = bytes(loads_of(p, false)),
                     rows = bytes(loads_of(p, true));
  // At least two rows for each of the blocks that run at once.
  const std::int64_t blocks =
      t.multiprocessors * (512 / std::min<std::int64_t>(power_of_two(count.value_or(512)), 512));
  const bool stage = can_stage(p, r, t) && round_up(*count, 512) * r.width * kept <= 320 &&
                     (k.extent(role::row) * k.extent(role::outer)).number().value_or(1 << 20) >= 2 * blocks;
  if (stage) s.resident = 512;
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
  auto fits = [&](std::int64_t each) { return each * r.width * vectors <= (stage ? 320 : most == 1024 ? 144 : 176); };
  r.held = vectors > 0 && vectors <= 16 && fits(kept);
  r.vectors = static_cast<int>(vectors);
  if (!r.held) {
    r.group = 512;
    r.rows = 1;
    r.vectors = 2;
    r.keep.clear();
  } else {
    s.ahead = !stage &&
              k.extent(role::row).number().value_or(1 << 20) > std::int64_t{r.rows} * walkers_of(p, r, s.resident, t) &&
              fits(kept + rows);
    s.hoist = fits(kept + fixed + (s.ahead ? rows : 0));
  }
  s.walkers = walkers_of(p, r, s.resident, t);
  if (stage && r.held && r.rows == 1) stage_rows(p, s, t);
  return s;
}

/// Prints the rows' way through shared memory: slot `slot` has the row that is worked on, the other slots the next ones.
class row_stage {
 public:
  row_stage(cuda_printer& p, const walk_shape& s)
      : p_(p), s_(s), loads_(s.staged > 0 ? loads_of(p, true) : series<int>{}) {}

  explicit operator bool() const { return s_.staged > 0; }
  const series<int>& loads() const { return loads_; }

  void declare() const { p_.out().line("extern __shared__ words<16>::t ring[];"); }
  /// Asks for the row whose position place() prints, if `exists`, as the next group of copies.
  template <class F>
  void ask(const cuda_tile& t, const std::string& exists, const std::string& slot, F&& place) const {
    p_.out().block("if (" + exists + ")", [&] {
      place();
      p_.over_vectors(t, [&] {
        for (std::size_t j = 0; j < loads_.size(); ++j)
          p_.out().line("copy_async(&ring[" + at(slot, j) + "], " + p_.address(p_.at(loads_[j]).at) + ");");
      });
    });
    p_.out().line("end_copies();");
  }
  /// Waits for the row of `slot` and reads it.
  void take(const cuda_tile& t, const std::string& slot) const {
    writer& out = p_.out();
    out.line("await_copies<" + p_.number(s_.staged - 1) + ">();");
    for (int id : loads_) {
      p_.declare_pack(id, t);
      p_.hold(id);
    }
    out.line("#pragma unroll");
    out.block("for (int u = 0; u < " + p_.number(t.vectors) + "; ++u)", [&] {
      for (std::size_t j = 0; j < loads_.size(); ++j)
        out.line("copied(x" + p_.number(loads_[j]) + "[u], ring[" + at(slot, j) + "]);");
    });
  }

 private:
  std::string at(const std::string& slot, std::size_t load) const {
    const row_shape& r = s_.row;
    return "((" + slot + "*" + p_.number(static_cast<std::int64_t>(loads_.size())) + " + " +
           p_.number(static_cast<std::int64_t>(load)) + ")*" + p_.number(r.vectors) + " + u)*" +
           p_.number(r.threads()) + " + threadIdx.x";
  }

  cuda_printer& p_;
  const walk_shape& s_;
  series<int> loads_;
};

}  // namespace detail

/// The body of a block that walks rows: their own reductions, and the sums along them.
SINTER_API void print_walk(cuda_printer& p, const walk_shape& s, const cuda_partials& parts) {
  writer& out = p.out();
  const kernel& k = p.code();
  const row_shape& r = s.row;
  cuda_row_printer rows(p, r);
  const std::string flat = p.flat(), walkers = parenthesised(s.walkers), total = p.limit(k.extent(role::row)),
                    columns = "(" + k.extent(role::inner).text() + ")", width = p.number(r.width);
  const auto arrays = detail::arrays_of(p);
  series<int> scalars;
  for (int id = 0; id < p.size(); ++id)
    if (is_reduction(p.at(id)) && p.at(id).span != span_of::inner && !is_array(p, id)) scalars.push_back(id);
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
  const std::string step = parenthesised(s.walkers * dim(r.rows));
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
  // With a stage, a turn of the loop asks for the row `next` and works on what was asked for `depth` - 1 turns before.
  const detail::row_stage stage_of(p, s);
  const std::string depth = p.number(s.staged), lead = p.number(s.staged - 1) + "*" + step,
                    after = "slot + 1 == " + depth + " ? 0 : slot + 1", b = stage_of ? "next" : "b";
  if (stage_of) {
    stage_of.declare();
    out.line("int slot = 0;");
  }
  out.line("int turn = 0;");
  const auto outer = p.scope();
  if (stage_of) out.line("#pragma unroll 1");
  out.block("for (" + flat + " " + b + " = " + first + "; " + b + " < " + total + (stage_of ? " + " + lead : "") +
                "; " + b + " += " + step + ", turn ^= 1" + (stage_of ? ", slot = " + after : "") + ")",
            [&] {
              if (stage_of) {
                stage_of.ask(rows.tile("", live), "next < " + total, "slot", [&] { place_row("next"); });
                out.line("if (next < " + first + " + " + lead + ") continue;");
                out.line("const " + flat + " b = next - " + lead + ";");
              }
              place_row("b");
              if (stage_of) stage_of.take(rows.tile("", live), "(" + after + ")");
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
  for (int id : stage_of.loads()) p.drop(id);
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

}  // namespace sinter::engine::emit
