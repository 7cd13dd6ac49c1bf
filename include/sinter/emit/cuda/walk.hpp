// emit/cuda/walk.hpp: kernels that reduce along rows and across them -> CUDA: blocks walk rows, and keep the columns' sums in
// registers.
#pragma once

#include "columns.hpp"

namespace sinter::engine::emit {

/// The registers of a block that walks rows, beyond its row.
struct walk_shape {
  row_shape row;
  dim walkers = 1;
  int resident = 1024;  ///< threads on a multiprocessor
  bool hoist = false;   ///< values that vary only along the row are read once
  bool ahead = false;   ///< the next row is read during the work on this one
  int staged = 0;       ///< rows of a block in shared memory, copied there during the work on earlier ones
  int shared = 0;       ///< bytes of dynamic shared memory
};

namespace detail {

/// The number of blocks that walk the rows of one outer position, so that each multiprocessor has `resident` threads.
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

/// A multiprocessor's shared memory that blocks can use, minus their memory for sums.
inline std::int64_t shared_memory_of(int capability) {
  return (capability == 80 || capability == 87 ? 160 : capability >= 90 && capability < 120 ? 220 : 96) << 10;
}

/// True when every thread can copy its part of a row into shared memory, 16 bytes at a time.
inline bool can_stage(const cuda_printer& p, const row_shape& r, const cuda_target& t) {
  const kernel& k = p.code();
  const auto loads = loads_of(p, true);
  if (t.capability < 80 || r.in_part || loads.empty() || r.most.value_or(0) <= 32) return false;
  return std::all_of(loads.begin(), loads.end(), [&](int id) {
    const plan::access& a = p.at(id).at;
    const auto type = k.buffers[static_cast<std::size_t>(a.buffer)].type;
    return !is_guarded(p.at(id)) && (p.at(id).axes >> r.axis & 1u) &&
           r.width * static_cast<std::int64_t>(size_of(type)) == 16 && is_vector_access(k, a, r.axis, r.width);
  });
}

/// The rows in shared memory, including the present one: four if they fit.
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

/// If only the row is kept: more and smaller blocks, each with more of the row in flight, wait less for one another.
inline void shrink_group(const cuda_printer& p, row_shape& r) {
  if (r.group <= 64) return;
  const std::int64_t vectors = round_up(*r.most, r.group / 2),
                     each = std::max<std::int64_t>(bytes_of(p, r.keep), 4) * r.width;
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

/// Registers: 64 for each thread if 1024 threads share a multiprocessor, half of them for arithmetic and addresses; 128 if
/// 512 do. Rows in shared memory suit few threads, which have more to do between synchronisations.
inline walk_shape walk_of(const cuda_printer& p, const cuda_target& t) {
  const kernel& k = p.code();
  walk_shape s;
  if (is_heavy(k)) s.resident = 512;
  s.row = rows_of(p, t);
  row_shape& r = s.row;
  const auto count = r.most;
  if (arrays_of(p).empty() && r.held) {
    shrink_group(p, r);
    s.walkers = walkers_of(p, r, 12 * s.resident, t);  // several waves, since rows are many and blocks end apart
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
  choose_group(r, most);
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

/// Prints the rows' copies into shared memory: slot `slot` has the present row, the other slots the next rows.
class row_stage {
 public:
  row_stage(cuda_printer& p, const walk_shape& s)
      : p_(p), s_(s), loads_(s.staged > 0 ? loads_of(p, true) : series<int>{}) {}

  explicit operator bool() const { return s_.staged > 0; }
  const series<int>& loads() const { return loads_; }

  void declare() const { p_.out().line("extern __shared__ words<16>::t ring[];"); }
  /// Requests the row whose position place() prints, if `exists`, as the next group of copies.
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

/// Prints a block that walks rows: `begin` it, `walk` its rows, and `leave` its sums.
class walk_printer {
 public:
  walk_printer(cuda_printer& p, const walk_shape& s, const cuda_partials& parts)
      : p_(p), s_(s), parts_(parts), rows_(p, s.row), arrays_(arrays_of(p)) {
    for (int id = 0; id < p.size(); ++id)
      if (is_reduction(p.at(id)) && p.at(id).span != span_of::inner && !p.is_array(id)) scalars_.push_back(id);
  }

  /// The block's position, values that are equal for all its rows, and its sums.
  void begin() {
    declare_folds(p_);
    p_.uniform_values();
    p_.uniform_stores();
    rows_.place();
    const std::string walkers = parenthesised(s_.walkers);
    out_.line("const " + flat_ + " o = block/" + walkers + ", walker = block%" + walkers + ";");
    p_.unravel("o", p_.axes_of(role::outer));
    p_.define_scalars([&](int id) {
      const auto& i = p_.at(id);
      return !(i.axes & (p_.inner() | p_.row())) && i.stage == 0 && !i.after_rows;
    });
    declare_slots(p_, rows_.inner_reductions(), r_.group, 2);
    for (int id : scalars_) begin_accumulator(p_, id);
    for (int id : arrays_) begin_array(id);
    if (!r_.held && !arrays_.empty()) out_.line("__syncthreads();");
    if (!s_.hoist) return;
    const auto fixed = loads_of(p_, false);
    if (!fixed.empty()) p_.read(fixed, rows_.tile(""));
  }

  /// The loop over the rows. With a stage, a turn requests the row `next`, and works on the row requested `depth` - 1 turns
  /// before.
  void walk() {
    const auto ahead = s_.ahead ? loads_of(p_, true) : series<int>{};
    if (!ahead.empty()) read_first(ahead);
    const row_stage stage(p_, s_);
    const std::string depth = p_.number(s_.staged), lead = p_.number(s_.staged - 1) + "*" + step_,
                      after = "slot + 1 == " + depth + " ? 0 : slot + 1", b = stage ? "next" : "b";
    if (stage) {
      stage.declare();
      out_.line("int slot = 0;");
    }
    out_.line("int turn = 0;");
    const auto outer = p_.scope();
    if (stage) out_.line("#pragma unroll 1");
    out_.block("for (" + flat_ + " " + b + " = " + first_ + "; " + b + " < " + total_ + (stage ? " + " + lead : "") +
                   "; " + b + " += " + step_ + ", turn ^= 1" + (stage ? ", slot = " + after : "") + ")",
               [&] {
                 if (stage) {
                   stage.ask(tile(), "next < " + total_, "slot", [&] { place_row("next"); });
                   out_.line("if (next < " + first_ + " + " + lead + ") continue;");
                   out_.line("const " + flat_ + " b = next - " + lead + ";");
                 }
                 place_row("b");
                 if (stage) stage.take(tile(), "(" + after + ")");
                 if (!ahead.empty()) take_ahead(ahead);
                 for (int pass = 0; pass < p_.code().stages; ++pass) print_pass(pass);
               });
    p_.leave(outer);
    for (int id : ahead) p_.drop(id);
    for (int id : stage.loads()) p_.drop(id);
  }

  /// Stores the block's sums in the scratch memory, unless they are there already.
  void leave() {
    for (int id : arrays_)
      if (r_.held) leave_array(id);
    if (scalars_.empty()) return;
    out_.line("__syncthreads();");
    declare_slots(p_, scalars_, r_.threads(), 1);
    print_group_fold(p_, scalars_, r_.threads(), "0");
    out_.block("if (threadIdx.x == 0)", [&] {
      for (int id : scalars_) out_.line(parts_.at(id, "block") + " = " + p_.acc(id) + ";");
    });
  }

 private:
  cuda_tile tile() { return rows_.tile("", live_); }

  /// Columns' sums: in registers; for longer rows, in the block's part of the scratch memory.
  void begin_array(int id) {
    const std::string type = p_.accumulator_type(id), a = p_.acc(id);
    if (!r_.held) {
      out_.line(type + "* const " + a + " = &" + parts_.at(id, "(long)block*" + columns_) + ";");
      out_.line("for (long e = lane; e < " + columns_ + "; e += " + p_.number(r_.group) + ") " + a +
                "[e] = " + p_.initial(id) + ";");
      return;
    }
    out_.line(type + " " + a + "[" + p_.number(r_.vectors) + "][" + width_ + "];");
    out_.line("#pragma unroll");
    out_.line("for (int u = 0; u < " + p_.number(r_.vectors) + "; ++u)");
    out_.line("#pragma unroll");
    out_.line("for (int l = 0; l < " + width_ + "; ++l) " + a + "[u][l] = " + p_.initial(id) + ";");
  }

  /// The accumulator of an element.
  std::string into(int id) const {
    if (!p_.is_array(id)) return p_.acc(id);
    if (r_.held) return p_.acc(id) + "[u][" + (r_.width > 1 ? "l" : "0") + "]";
    return p_.acc(id) + "[f*" + width_ + (r_.width > 1 ? " + l]" : "]");
  }

  /// The position of the row of a thread's group; `base` is the block's first row.
  void place_row(const std::string& base) {
    if (live_.empty()) {
      out_.line("const " + flat_ + " r = " + base + ";");
    } else {
      out_.line("const bool live = " + base + " + group < " + total_ + ";");
      out_.line("const " + flat_ + " r = live ? " + base + " + group : " + total_ + " - 1;");
    }
    p_.unravel("r", p_.axes_of(role::row));
  }

  /// Reads the first row before the loop.
  void read_first(const series<int>& ahead) {
    for (int id : ahead) p_.declare_pack(id, tile(), "n");
    out_.block("if (" + first_ + " < " + total_ + ")", [&] {
      place_row(first_);
      p_.read_again(ahead, tile(), "n");
    });
  }

  /// Takes the row that was read ahead, and reads the next one.
  void take_ahead(const series<int>& ahead) {
    for (int id : ahead) {
      p_.declare_pack(id, tile());
      p_.hold(id);
    }
    out_.line("#pragma unroll");
    out_.block("for (int u = 0; u < " + p_.number(r_.vectors) + "; ++u)", [&] {
      for (int id : ahead) out_.line("x" + p_.number(id) + "[u] = n" + p_.number(id) + "[u];");
    });
    out_.block("if (b + " + step_ + " < " + total_ + ")", [&] {
      out_.line("const " + flat_ + " next = b + " + step_ + ";");
      place_row("next");
      p_.read_again(ahead, tile(), "n");
    });
  }

  /// A pass over a row: the row's scalars, its elements, and the folds for the next pass.
  void print_pass(int pass) {
    rows_.row_values(pass, live_, [&] {
      for (int id : scalars_)
        if (p_.at(id).span == span_of::row && p_.at(p_.at(id).args[0]).stage == pass)
          out_.block("if (" + live_ + (live_.empty() ? "" : " && ") + "lane == 0)",
                     [&] { p_.accumulate(id, p_.acc(id), -1); });
    });
    rows_.pass(pass, live_, [&](int id) { return into(id); });
    print_group_fold(p_, rows_.folded_at(pass), r_.group, "turn");
  }

  /// Columns' sums in registers; if groups have separate rows, they are folded in shared memory.
  void leave_array(int id) {
    const std::string a = p_.acc(id), m = "m" + p_.number(id);
    if (r_.rows == 1) {
      p_.over_vectors(rows_.tile(""), [&] {
        out_.line("#pragma unroll");
        out_.line("for (int l = 0; l < " + width_ + "; ++l) " + (r_.in_part ? "if (l < lanes) " : "") +
                  parts_.at(id, "(long)block*" + columns_ + " + f*" + width_ + " + l") + " = " + a + "[u][l];");
      });
      return;
    }
    out_.line("__shared__ " + p_.accumulator_type(id) + " " + m + "[" + p_.number(r_.rows) + "][" +
              p_.number(std::int64_t{r_.group} * r_.vectors * r_.width) + "];");
    p_.over_vectors(rows_.tile(""), [&] {
      out_.line("for (int l = 0; l < " + width_ + "; ++l) " + m + "[group][f*" + width_ + " + l] = " + a + "[u][l];");
    });
    out_.line("__syncthreads();");
    out_.block("for (int e = threadIdx.x; e < " + columns_ + "; e += " + p_.number(r_.threads()) + ")", [&] {
      out_.line(p_.accumulator_type(id) + " b = " + m + "[0][e];");
      out_.line("for (int j = 1; j < " + p_.number(r_.rows) + "; ++j) b = " + p_.fold(id) + "(b, " + m + "[j][e]);");
      out_.line(parts_.at(id, "(long)block*" + columns_ + " + e") + " = b;");
    });
  }

  cuda_printer& p_;
  const walk_shape& s_;
  const cuda_partials& parts_;
  cuda_row_printer rows_;
  const series<int> arrays_;  ///< reductions along the rows, one for each column
  series<int> scalars_;       ///< and reductions to one value
  writer& out_ = p_.out();
  const row_shape& r_ = s_.row;
  const std::string flat_ = p_.flat(), total_ = p_.limit(p_.code().extent(role::row)),
                    columns_ = "(" + p_.code().extent(role::inner).text() + ")", width_ = p_.number(r_.width),
                    step_ = parenthesised(s_.walkers * dim(r_.rows)), first_ = "walker*" + p_.number(r_.rows),
                    live_ = r_.rows == 1 ? "" : "live";
};

}  // namespace detail

/// The body of a block that walks rows: their own reductions, and the sums along them.
SINTER_API void print_walk(cuda_printer& p, const walk_shape& s, const cuda_partials& parts) {
  detail::walk_printer block(p, s, parts);
  block.begin();
  block.walk();
  block.leave();
}

}  // namespace sinter::engine::emit
