// emit/cuda/walk.hpp: kernels that reduce along rows and across them -> CUDA: blocks walk rows, and keep the columns' sums in
// registers.
#pragma once

#include "../../plan/schedule/walk.hpp"
#include "rows.hpp"

namespace sinter::engine::emit {

namespace detail {

/// Prints the rows' copies into shared memory: slot `slot` has the present row, the other slots the next rows.
class row_stage {
 public:
  row_stage(cuda_printer& p, const plan::persistent_rows& s)
      : p_(p), s_(s), loads_(s.staged > 0 ? loads_of(p.code(), true) : series<int>{}) {}

  explicit operator bool() const { return s_.staged > 0; }
  const series<int>& loads() const { return loads_; }

  void declare() const { p_.out().line("extern __shared__ words<16>::t ring[];"); }
  /// Requests the row whose position place() prints, if `exists`, as the next group of copies.
  template <class F>
  void ask(const cuda_tile& t, const std::string& exists, const std::string& slot, F&& place) const {
    p_.out().block("if (" + exists + ")", [&] {
      place();
      p_.over_vectors(t, [&](const cuda_tile&) {
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
    const plan::row_shape& r = s_.row;
    return "((" + slot + "*" + p_.number(static_cast<std::int64_t>(loads_.size())) + " + " +
           p_.number(static_cast<std::int64_t>(load)) + ")*" + p_.number(r.vectors) + " + u)*" +
           p_.number(r.threads()) + " + threadIdx.x";
  }

  cuda_printer& p_;
  const plan::persistent_rows& s_;
  series<int> loads_;
};

/// Prints a block that walks rows: `begin` it, `walk` its rows, and `leave` its sums.
class walk_printer {
 public:
  walk_printer(cuda_printer& p, const plan::persistent_rows& s, const cuda_partials& parts)
      : p_(p), s_(s), parts_(parts), rows_(p, s.row), arrays_(arrays_of(p.code())) {
    for (int id = 0; id < p.size(); ++id)
      if (is_reduction(p.at(id)) && p.at(id).span != reduce_scope::inner && !is_array(p.code(), id))
        scalars_.push_back(id);
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
    const auto fixed = loads_of(p_.code(), false);
    if (!fixed.empty()) p_.read(fixed, rows_.tile(""));
  }

  /// The loop over the rows. With a stage, a turn requests the row `next`, and works on the row requested `depth` - 1 turns
  /// before.
  void walk() {
    const auto ahead = s_.ahead ? loads_of(p_.code(), true) : series<int>{};
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
    if (!is_array(p_.code(), id)) return p_.acc(id);
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
        if (p_.at(id).span == reduce_scope::row && p_.at(p_.at(id).args[0]).stage == pass)
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
      p_.over_vectors(rows_.tile(""), [&](const cuda_tile& part) {
        out_.line("#pragma unroll");
        out_.line("for (int l = 0; l < " + width_ + "; ++l) " + (part.in_part ? "if (l < lanes) " : "") +
                  parts_.at(id, "(long)block*" + columns_ + " + f*" + width_ + " + l") + " = " + a + "[u][l];");
      });
      return;
    }
    out_.line("__shared__ " + p_.accumulator_type(id) + " " + m + "[" + p_.number(r_.rows) + "][" +
              p_.number(std::int64_t{r_.group} * r_.vectors * r_.width) + "];");
    p_.over_vectors(rows_.tile(""), [&](const cuda_tile&) {
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
  const plan::persistent_rows& s_;
  const cuda_partials& parts_;
  cuda_row_printer rows_;
  const series<int> arrays_;  ///< reductions along the rows, one for each column
  series<int> scalars_;       ///< and reductions to one value
  writer& out_ = p_.out();
  const plan::row_shape& r_ = s_.row;
  const std::string flat_ = p_.flat(), total_ = p_.limit(p_.code().extent(role::row)),
                    columns_ = "(" + p_.code().extent(role::inner).text() + ")", width_ = p_.number(r_.width),
                    step_ = parenthesised(s_.walkers * dim(r_.rows)), first_ = "walker*" + p_.number(r_.rows),
                    live_ = r_.rows == 1 ? "" : "live";
};

}  // namespace detail

/// The body of a block that walks rows: their own reductions, and the sums along them.
SINTER_API void print_walk(cuda_printer& p, const plan::persistent_rows& s, const cuda_partials& parts) {
  detail::walk_printer block(p, s, parts);
  block.begin();
  block.walk();
  block.leave();
}

}  // namespace sinter::engine::emit
