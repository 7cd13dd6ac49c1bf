// emit/cuda/rows.hpp: kernels whose reductions stay within rows -> CUDA: a row in the registers of a group of threads, in a
// loop if it is longer, over several blocks if rows are few.
#pragma once

#include "../../base/sorted.hpp"
#include "../../plan/schedule/rows.hpp"
#include "reduce.hpp"

namespace sinter::engine::emit {

/// Prints the passes of rows. Kinds of kernels differ in the places of accumulators, and in the names of a loop's turns over
/// rows.
class cuda_row_printer {
 public:
  cuda_row_printer(cuda_printer& p, const plan::row_shape& s) : p_(p), s_(s) {
    for (int id = 0; id < p.size(); ++id)
      if (is_reduction(p.at(id)) && p.at(id).span == reduce_scope::inner) inner_.push_back(id);
    if (!s.held && p.code().stages > 1 && !work_of(p.code(), 1).empty()) p.read_repeatedly();
  }

  const series<int>& inner_reductions() const { return inner_; }

  /// The tile of a thread: `first` is the vector at which its positions begin; "" for a held row.
  cuda_tile tile(const std::string& first, const std::string& guard = "") {
    cuda_tile t = tile_with(s_, s_.vectors);
    t.guard = guard;
    const bool exact = first.empty() ? fills(std::int64_t{s_.group} * s_.vectors, s_.count) && s_.held
                                     : fills(std::int64_t{s_.group} * s_.vectors, s_.count);
    if (!exact) t.guard += (guard.empty() ? "" : " && ") + std::string("f < ") + p_.limit(s_.count);
    // In parts of a held row only the last vector of a thread lies at the row's end.
    if (const auto n = s_.count.number(); s_.held && s_.in_part && n) {
      t.filled = static_cast<int>((*n - 1) / s_.group);
      t.filled_guard = guard;
    }
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
      if (!p_.is_uniform_store(s) && !is_final_store(p_.code(), s) && !p_.varies(s, p_.inner()) &&
          p_.at(s.value).stage == stage)
        stores.push_back(&s);
    if (stores.empty()) return;
    p_.out().block("if (" + live + (live.empty() ? "" : " && ") + "lane == 0)", [&] {
      for (const auto* s : stores) p_.store_scalar(*s);
    });
  }

  template <class Into>
  void pass(int stage, const std::string& live, Into&& into) {
    const auto w = work_of(p_.code(), stage);
    if (w.empty()) return;
    for (int id : w.reductions)
      if (p_.at(id).span == reduce_scope::inner) detail::begin_accumulator(p_, id);
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
  const plan::row_shape& s_;
  series<int> inner_;
};

/// The body of a block of rows without reductions along them.
SINTER_API void print_rows(cuda_printer& p, const plan::row_shape& s, const cuda_partials& parts) {
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
SINTER_API void print_rows_finish(cuda_printer& p, const plan::row_shape& s, const cuda_partials& parts, int group) {
  writer& out = p.out();
  plan::row_shape whole;
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
