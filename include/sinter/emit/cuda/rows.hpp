// emit/cuda/rows.hpp: kernels whose reductions stay within rows -> CUDA: a row in the registers of a group of threads, in a
// loop if it is longer, over several blocks if rows are few.
#pragma once

#include "../../base/sorted.hpp"
#include "reduce.hpp"

namespace sinter::engine::emit {

/// The distribution of rows over threads.
struct row_shape {
  int axis = -1;  ///< of the lanes
  int width = 1, vectors = 1;
  int group = 1;      ///< threads of a row
  int rows = 1;       ///< of a block
  bool held = false;  ///< a thread's part of a row is `vectors` vectors; otherwise it loops
  int chunks = 1;     ///< blocks of a row
  bool recompute = false;
  sorted_set<int> keep;              ///< values in registers between passes
  bool in_part = false;              ///< a row's last vector has fewer lanes
  dim count;                         ///< number of vectors in a row
  std::optional<std::int64_t> most;  ///< their number, or an upper bound
  int threads() const { return group * rows; }
};

namespace detail {

/// The work on a row's elements in pass `stage`.
inline cuda_printer::work work_of(const cuda_printer& p, int stage) {
  cuda_printer::work w;
  for (int id = 0; id < p.size(); ++id) {
    const auto& i = p.at(id);
    if (!is_reduction(i) || p.at(i.args[0]).stage != stage) continue;
    if (i.span == span_of::row && !p.is_array(id)) continue;  // once per row
    w.reductions.push_back(id);
  }
  for (const auto& s : p.code().stores)
    if (!p.is_uniform_store(s) && !is_final_store(p, s) && p.varies(s, p.inner()) && p.at(s.value).stage == stage)
      w.stores.push_back(&s);
  return w;
}

/// The values that one pass computes and a later pass reads. With `recompute`, only values that are read from memory or
/// costly; the others are computed again.
inline sorted_set<int> values_to_keep(const cuda_printer& p, bool recompute) {
  sorted_map<int, int> first;
  sorted_set<int> keep;
  for (int pass = 0; pass < p.code().stages; ++pass) {
    sorted_set<int> seen;
    auto visit = [&](auto&& self, int id) -> void {
      const auto& i = p.at(id);
      if (!(i.axes & p.inner()) || is_reduction(i) || !seen.insert(id).second) return;
      const bool again = !first.emplace(id, pass).second && first[id] < pass;
      if (again && i.kind != kind::position && i.kind != kind::inside &&
          (!recompute || i.kind == kind::load || (i.kind == kind::compute && ir::is_expensive(i.code)))) {
        keep.insert(id);
        return;
      }
      if (!is_guarded(i))
        for (int a : i.args) self(self, a);
      if (i.at.at.index >= 0) self(self, i.at.at.index);
    };
    const auto w = work_of(p, pass);
    for (int id : w.reductions) visit(visit, p.at(id).args[0]);
    for (const auto* s : w.stores) visit(visit, s->value);
  }
  return keep;
}

inline std::int64_t bytes_of(const cuda_printer& p, const sorted_set<int>& ids) {
  std::int64_t n = 0;
  for (int id : ids) {
    const auto& i = p.at(id);
    n += static_cast<std::int64_t>(size_of(i.kind == kind::load ? i.type : compute_type(i.type)));
  }
  return n;
}

inline void choose_keep(const cuda_printer& p, row_shape& s) {
  s.keep = values_to_keep(p, false);
  const auto less = values_to_keep(p, true);
  if (bytes_of(p, less) < bytes_of(p, s.keep)) s.keep = less;
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

inline row_shape rows_of(const cuda_printer& p, const cuda_target& t) {
  const kernel& k = p.code();
  row_shape s;
  s.axis = static_cast<int>(k.axes.size()) - 1;
  s.width = reducing_width(k, s.axis);
  s.in_part = !divides(s.width, k.axes.back().extent);
  s.count = vectors_of_row(k.fit.whole ? dim(k.fit.longest) : k.extent(role::inner), s.width);
  choose_keep(p, s);
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
  int loads = 0;
  for (const auto& i : k.body) loads += i.kind == kind::load && (i.axes & p.inner()) != 0;
  const std::int64_t each = std::max<std::int64_t>(bytes_of(p, s.keep), 4) * s.width;  // bytes of a vector's values
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
inline int chunks_of(const cuda_printer& p, const row_shape& s, const cuda_target& t) {
  const kernel& k = p.code();
  const auto rows = k.extent(role::outer).number(), count = s.count.number();
  if (!rows || *rows < 1 || *rows >= t.multiprocessors || (count && *count < 4096)) return 1;
  for (int stage = 1; stage < k.stages; ++stage)
    if (!work_of(p, stage).empty()) return 1;
  const int blocks = !count || work_of(p, 0).stores.empty() ? 2 : 16;
  const std::int64_t wave = round_up(blocks * t.multiprocessors, *rows);
  return static_cast<int>(std::max<std::int64_t>(count ? std::min(wave, *count / 1024) : wave, 1));
}

}  // namespace detail

/// Prints the passes of rows. Kinds of kernels differ in the places of accumulators, and in the names of a loop's turns over
/// rows.
class cuda_row_printer {
 public:
  cuda_row_printer(cuda_printer& p, const row_shape& s) : p_(p), s_(s) {
    for (int id = 0; id < p.size(); ++id)
      if (is_reduction(p.at(id)) && p.at(id).span == span_of::inner) inner_.push_back(id);
    if (!s.held && p.code().stages > 1 && !detail::work_of(p, 1).empty()) p.read_repeatedly();
  }

  const series<int>& inner_reductions() const { return inner_; }

  /// The tile of a thread: `first` is the vector at which its positions begin; "" for a held row.
  cuda_tile tile(const std::string& first, const std::string& guard = "") {
    cuda_tile t;
    t.vectors = s_.vectors;
    t.width = s_.width;
    t.axis = s_.axis;
    t.in_part = s_.in_part;
    t.guard = guard;
    const bool exact = first.empty() ? fills(std::int64_t{s_.group} * s_.vectors, s_.count) && s_.held
                                     : fills(std::int64_t{s_.group} * s_.vectors, s_.count);
    if (!exact) t.guard += (guard.empty() ? "" : " && ") + std::string("f < ") + p_.limit(s_.count);
    t.place = [this, first] {
      p_.out().line("const " + p_.flat() + " f = " + (first.empty() ? "" : first + " + ") + "u*" + p_.number(s_.group) +
                    (first.empty() ? " + lane;" : ";"));
      p_.unravel("f", p_.axes_of(role::inner), s_.width);
    };
    return t;
  }

  /// Runs `inside` with the tiles of a row, once or in a loop.
  template <class F>
  void over_row(const std::string& guard, F&& inside) {
    if (s_.held) return inside(tile("", guard));
    const std::string step = p_.number(std::int64_t{s_.group} * s_.vectors);
    const std::string first = s_.chunks > 1 ? "chunk*" + step + " + lane" : "lane";
    const auto outer = p_.scope();
    p_.out().block("for (" + p_.flat() + " z = " + first + "; z < " + p_.limit(s_.count) +
                       "; z += " + p_.number(std::int64_t{s_.group} * s_.vectors * s_.chunks) + ")",
                   [&] { inside(tile("z", guard)); });
    p_.leave(outer);
  }

  /// The scalars and stores of a row at a stage.
  template <class Each>
  void row_values(int stage, const std::string& live, Each&& each) {
    p_.define_scalars([&](int id) {
      const auto& i = p_.at(id);
      return !(i.axes & p_.inner()) && i.stage == stage && !i.after_rows;
    });
    each();
    series<const plan::store*> stores;
    for (const auto& s : p_.code().stores)
      if (!p_.is_uniform_store(s) && !detail::is_final_store(p_, s) && !p_.varies(s, p_.inner()) &&
          p_.at(s.value).stage == stage)
        stores.push_back(&s);
    if (stores.empty()) return;
    p_.out().block("if (" + live + (live.empty() ? "" : " && ") + "lane == 0)", [&] {
      for (const auto* s : stores) p_.store_scalar(*s);
    });
  }

  template <class Into>
  void pass(int stage, const std::string& live, Into&& into) {
    const auto w = detail::work_of(p_, stage);
    if (w.empty()) return;
    for (int id : w.reductions)
      if (p_.at(id).span == span_of::inner) detail::begin_accumulator(p_, id);
    over_row(live, [&](const cuda_tile& t) {
      p_.pass(t, w, s_.held ? s_.keep : sorted_set<int>{}, into, [](const plan::store&, int, const std::string&) {});
    });
  }

  series<int> folded_at(int stage) const {
    series<int> ids;
    for (int id : inner_)
      if (p_.at(p_.at(id).args[0]).stage == stage) ids.push_back(id);
    return ids;
  }

  /// "const int lane = …": a thread's position in its group, and the group's row.
  void place() {
    writer& out = p_.out();
    if (s_.rows == 1) out.line("const int lane = threadIdx.x;");
    else
      out.line("const int lane = threadIdx.x%" + p_.number(s_.group) + ", group = threadIdx.x/" + p_.number(s_.group) +
               ";");
  }

 private:
  cuda_printer& p_;
  const row_shape& s_;
  series<int> inner_;
};

/// The body of a block of rows without reductions along them.
SINTER_API void print_rows(cuda_printer& p, const row_shape& s, const cuda_partials& parts) {
  writer& out = p.out();
  cuda_row_printer rows(p, s);
  const dim total = p.code().extent(role::outer);
  detail::declare_folds(p);
  p.uniform_values();
  p.uniform_stores();
  rows.place();
  std::string live;
  if (s.rows == 1) {
    out.line("const " + p.flat() + " r = " +
             (s.chunks > 1 ? "block/" + p.number(s.chunks) + ", chunk = block%" + p.number(s.chunks) : "block") + ";");
  } else {
    const bool exact = divides(s.rows, total);
    out.line("const " + p.flat() + " b = (" + p.flat() + ")block*" + p.number(s.rows) + " + group;");
    if (exact) {
      out.line("const " + p.flat() + " r = b;");
    } else {
      // The last block's surplus threads take part in shuffles, with the last row.
      out.line("const bool live = b < " + p.count(total) + ";");
      out.line("const " + p.flat() + " r = live ? b : " + p.count(total) + " - 1;");
      live = "live";
    }
  }
  p.unravel("r", p.axes_of(role::outer));
  detail::declare_slots(p, rows.inner_reductions(), s.group, 1);
  auto into = [&](int id) { return p.acc(id); };
  for (int stage = 0; stage < p.code().stages; ++stage) {
    if (s.chunks > 1 && stage > 0) break;
    if (s.chunks > 1) {
      p.define_scalars([&](int id) { return !(p.at(id).axes & p.inner()) && p.at(id).stage == 0; });
    } else {
      rows.row_values(stage, live, [] {});
    }
    rows.pass(stage, live, into);
    detail::print_group_fold(p, rows.folded_at(stage), s.group, "0");
  }
  if (s.chunks == 1) return;
  out.block("if (lane == 0)", [&] {
    for (int id : rows.inner_reductions())
      out.line(parts.at(id, "(long)r*" + p.number(s.chunks) + " + chunk") + " = " + p.acc(id) + ";");
  });
}

/// The body of a block that adds the parts of a row's blocks, and stores values that depend on them.
SINTER_API void print_rows_finish(cuda_printer& p, const row_shape& s, const cuda_partials& parts, int group) {
  writer& out = p.out();
  row_shape whole;
  whole.group = group;
  cuda_row_printer rows(p, whole);
  detail::declare_folds(p);
  p.uniform_values();
  out.line("const int lane = threadIdx.x;");
  out.line("const " + p.flat() + " r = block;");
  p.unravel("r", p.axes_of(role::outer));
  detail::declare_slots(p, rows.inner_reductions(), group, 1);
  for (int id : rows.inner_reductions()) {
    detail::begin_accumulator(p, id);
    out.line("for (int c = lane; c < " + p.number(s.chunks) + "; c += " + p.number(group) + ") " + p.acc(id) + " = " +
             p.fold(id) + "(" + p.acc(id) + ", " + parts.at(id, "(long)r*" + p.number(s.chunks) + " + c") + ");");
  }
  for (int stage = 0; stage < p.code().stages; ++stage) {
    if (stage > 0) detail::print_group_fold(p, rows.folded_at(stage - 1), group, "0");
    rows.row_values(stage, "", [] {});
  }
}

}  // namespace sinter::engine::emit
