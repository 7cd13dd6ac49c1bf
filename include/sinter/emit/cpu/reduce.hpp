// emit/cpu/reduce.hpp: the accumulators of a kernel: within a row, and along the rows over chunks that are combined in order.
#pragma once

#include <optional>

#include "../../base/sorted.hpp"
#include "../../plan/schedule/passes.hpp"
#include "body.hpp"
#include "memory.hpp"

namespace sinter::engine::emit {

class reduction_printer {
 public:
  reduction_printer(const kernel& k, writer& out, const body_printer& body) : k_(k), out_(out), body_(body) {
    for (std::size_t a = 0; a < k.axes.size(); ++a)
      if (k.axes[a].role == role::inner) inner_axes_.push_back(a);
  }

  /// Scratch memory of the chunks' sums, and of a thread's sums and kept values.
  const scratch_use& scratch() const { return scratch_; }

  static std::string acc(int id) { return "a" + std::to_string(id); }

  /// The number of vectors of a row that a pass processes at once. Each has its own accumulators, so that it does not wait
  /// for the previous one.
  int parts_of(const series<int>& reductions) const {
    const auto length = k_.axes[last()].extent.number();
    if (reductions.empty() || k_.body.size() > 24 || (length && *length < 16 * 2 * max_parts)) return 1;
    for (int id : reductions)
      if (!counts_vectors(id) &&
          (at(id).kind != kind::reduce || (at(id).span != reduce_scope::inner && !(k_.block && has_runs(id)))))
        return 1;
    return max_parts;
  }

  /// Whether the index of an extreme is its element's index in the row. Lanes then need to know only their vector, as an
  /// integer of the element's size.
  bool counts_vectors(int id) const {
    if (at(id).kind != kind::arg_reduce || inner_axes_.size() != 1 || k_.block) return false;
    const auto& where = at(id).at.at;
    if (where.index >= 0 || !where.offset.is(0)) return false;
    for (std::size_t a = 0; a < where.stride.size(); ++a)
      if (!where.stride[a].is(a == last() ? 1 : 0)) return false;
    const dtype t = at(at(id).args[0]).type;
    return !is_bool(t) && size_of(compute_type(t)) >= 4;
  }
  /// An f32 sum with f64 lanes: rows are read from memory, and a mean must keep small differences. It has one accumulator for
  /// all parts of a pass.
  bool is_wide(int id) const {
    return (is_f32_sum(at(id)) || adds_f32_squares(k_, at(id))) && at(id).span != reduce_scope::row;
  }
  /// Sums of squares along the rows that are f32 within its range, and otherwise f64. If one leaves the range, the task's
  /// rows are summed again in f64.
  bool adds_squares_of_rows(int id) const {
    return adds_f32_squares(k_, at(id)) && is_array(k_, id) && at(at(id).args[0]).stage == 0;
  }
  /// A sum of squares that is f32 within its range. If it leaves the range, the addends since its start are summed again in
  /// f64.
  bool may_be_lost(int id, const series<int>& by_fours) const {
    return at(id).squares && std::count(by_fours.begin(), by_fours.end(), id) > 0;
  }
  std::string lanes_of(int id) const { return is_wide(id) ? "v_f64" : vector_type(at(id).type); }

  /// A sum in runs of fold_vectors per part, between begin_run and end_run.
  bool has_runs(int id) const {
    if (!is_wide(id) || at(id).span == reduce_scope::inner) return false;
    if (at(id).squares) return k_.axes[last()].extent.number().value_or(min_by_fours) >= min_by_fours;
    return k_.block || k_.axes[last()].extent.number().value_or(max_unfolded + 1) > max_unfolded ||
           (inner_axes_.size() > 1 && vectors_of_row().value_or(2 * fold_vectors + 1) > 2 * fold_vectors);
  }
  /// Sums of which four vectors are added before they are converted to f64, because conversions cost more than loads. Between
  /// begin_four and end_four, parts go to two sums of neighbours, as in eager sums, with two roundings; else to one, with three.
  series<int> by_fours(const series<int>& reductions) const {
    series<int> out;
    if (k_.axes[last()].extent.number().value_or(min_by_fours) < min_by_fours) return out;
    for (int id : reductions)
      if (is_wide(id) && (has_runs(id) || !at(id).squares || at(id).span == reduce_scope::inner)) out.push_back(id);
    return out;
  }
  void begin_four(const series<int>& sums, int parts) {
    if (sums.empty()) return;
    four_ = parts > 1 ? four::in_parts : four::in_turn;
    for (int id : sums) {
      if (parts > 1) out_.line("v_f32 " + pair(id, 0) + ", " + pair(id, 2) + ";");
      else out_.line("v_f32 " + pair(id, 0) + " = splat<v_f32>(0.0f);");
    }
  }
  void end_four(const series<int>& sums) {
    for (int id : sums) {
      const std::string x = pair(id, 0) + (four_ == four::in_parts ? " + " + pair(id, 2) : "");
      out_.line(acc(id) + " = " + body_.combine(ir::op::add, acc(id), "cv<v_f64>(" + x + ")") + ";");
    }
    four_ = four::none;
  }

  series<int> with_runs(const series<int>& reductions) const {
    series<int> out;
    for (int id : reductions)
      if (has_runs(id)) out.push_back(id);
    return out;
  }
  /// Whether a sum's runs continue from row to row, or along the inner axes before the last.
  bool counts(int id) const {
    return has_runs(id) && !k_.block && !at(id).squares &&
           (at(id).span == reduce_scope::both || inner_axes_.size() > 1);
  }
  void begin_run(int id) {
    if (!counts(id)) declare_parts(id, 1);
  }
  void end_run(int id, int parts) {
    if (counts(id))
      return out_.block(
          "if ((q" + number(id) + " += (to - from + SINTER_W - 1)/SINTER_W) > " + number(fold_vectors * parts) + ")",
          [&] {
            empty(id);
            out_.line("q" + number(id) + " = 0;");
          });
    out_.line(sum(id) + " += " + fold(ir::op::add, acc(id)) + ";");
  }

  /// The number of rows after which sums along them are added to their totals; 0: never.
  std::int64_t rows_of_run(int id) const {
    if (!is_f32_sum(at(id)) && !adds_squares_of_rows(id)) return 0;
    if (at(id).span == reduce_scope::inner || k_.block || has_runs(id)) return 0;
    const bool both = at(id).span == reduce_scope::both;
    std::int64_t n = fold_rows;
    while (both && n > 1 && n * k_.extent(role::inner).number().value_or(fold_elements) > 2 * fold_elements) n /= 2;
    const auto rows = k_.extent(role::row).number();
    return !rows || *rows / k_.chunks > (both ? 4 : 2) * n ? n : 0;
  }
  void end_row() {
    for (int id = 0; id < size(); ++id)
      if (const std::int64_t n = rows_of_run(id); n && at(id).span == reduce_scope::both)
        // Vectors narrower than the widest hold more elements of a row in each lane.
        out_.block(n < 4 ? "" : "if (r % (" + number(n) + "*SINTER_W/16) == 0)", [&] { empty(id); });
  }
  bool has_array_totals() const {
    for (int id = 0; id < size(); ++id)
      if (is_array(k_, id) && rows_of_run(id)) return true;
    return false;
  }
  void empty_arrays() {
    for (int id = 0; id < size(); ++id)
      if (is_array(k_, id) && rows_of_run(id))
        out_.line("for (long z = 0; z < " + padded_inner().text() + "; ++z) " + sum(id) + "[z] += " + acc(id) +
                  "[z], " + acc(id) + "[z] = 0;");
  }

  /// Selects the accumulator of a row for the next values.
  void choose(int part) { part_ = part; }

  void begin_reduction(int id, int parts) {
    const auto& i = at(id);
    if (counts_vectors(id)) {
      const std::string type = vector_type(at(i.args[0]).type);
      for (int p = 0; p < parts; ++p) {
        out_.line(type + " " + part(id, p) + " = splat<" + type + ">(" + identity_of(i.code, at(i.args[0]).type) +
                  ");");
        out_.line("i_of<" + type + "> " + vector_of(id, p) + " = {};");
      }
    } else if (i.kind == kind::arg_reduce) {
      const dtype t = at(i.args[0]).type;
      out_.line(vector_type(t) + " " + acc(id) + " = splat<" + vector_type(t) + ">(" + identity_of(i.code, t) + ");");
      out_.line("v_i64 x" + number(id) + " = splat<v_i64>(-1);");
    } else if (i.span == reduce_scope::inner) {
      declare_parts(id, parts);
    }
  }

  void accumulate(int id, bool tail) {
    const auto& i = at(id);
    std::string x = body_.operand(i.args[0], true);
    if (counts_vectors(id)) {
      const std::string type = vector_type(at(i.args[0]).type), v = "i" + number(static_cast<std::int64_t>(last()));
      if (tail) x = "keep(" + x + ", n, " + identity_of(i.code, at(i.args[0]).type) + ")";
      out_.line("take_extreme<" + is_maximum(i) + ">(" + part(id, part_) + ", " + vector_of(id, part_) + ", " + x +
                ", splat<i_of<" + type + ">>(" + v + "/SINTER_W));");
      return;
    }
    if (i.kind == kind::arg_reduce) {
      // A lane takes the new value if it has none, if the value is more extreme, or if it is the first NaN.
      instruction where = i;
      where.kind = kind::position;
      const std::string better =
          std::string(i.code == ir::op::maximum ? "greater" : "less") + "(" + x + ", " + acc(id) + ")";
      out_.block("", [&] {
        out_.line("v_b8 m = equal(x" + number(id) + ", splat<v_i64>(-1)) | " + better + ";");
        if (is_float(at(i.args[0]).type))
          out_.line("m = m & bit_not(isnan(" + acc(id) + ")) | (isnan(" + x + ") & bit_not(isnan(" + acc(id) + ")));");
        if (tail) out_.line("m = m & less(lanes(), splat<v_i64>(n));");
        out_.line("x" + number(id) + " = select(m, " + body_.position(where, true) + ", x" + number(id) + ");");
        out_.line(acc(id) + " = select(m, " + x + ", " + acc(id) + ");");
      });
      return;
    }
    if (i.span == reduce_scope::row) {
      const std::string memory = acc(id) + " + " + flat_inner();
      const std::string old = "load(" + memory + ")";
      out_.line("store(" + memory + ", " + body_.combine(i.code, old, addend(id)) + ");");
      return;
    }
    if (tail) x = "keep(" + x + ", n, " + identity_of(i.code, at(i.args[0]).type) + ")";
    if (is_wide(id) && !tail && four_ != four::none) {
      const std::string h = pair(id, part_);
      if (i.squares) x += "*" + x;
      out_.line(h + " = " + (four_ == four::in_parts && part_ % 2 == 0 ? x : body_.combine(i.code, h, x)) + ";");
      return;
    }
    const std::string a = part(id, i.span == reduce_scope::inner && !is_wide(id) ? part_ : 0);
    if (i.squares) x = "square_as<v_f64>(" + x + ")";
    else if (is_wide(id)) x = "cv<v_f64>(" + x + ")";
    out_.line(a + " = " + body_.combine(i.code, a, x) + ";");
  }

  /// A vector of sums in a register, over several rows.
  void load(int id) {
    out_.line(vector_type(sum_type(id)) + " w" + number(id) + " = load(" + acc(id) + " + " + flat_inner() + ");");
  }
  void add(int id) {
    const std::string w = "w" + number(id);
    out_.line(w + " = " + body_.combine(at(id).code, w, addend(id)) + ";");
  }
  void store(int id) { out_.line("store(" + acc(id) + " + " + flat_inner() + ", w" + number(id) + ");"); }

  void end_reduction(int id, int parts) {
    const auto& i = at(id);
    if (counts_vectors(id)) {
      for (int p = 1; p < parts; ++p)
        out_.line("join_extremes<" + is_maximum(i) + ">(" + acc(id) + ", " + vector_of(id, 0) + ", " + part(id, p) +
                  ", " + vector_of(id, p) + ");");
      // Without elements the index is -1.
      const ir::dim n = k_.axes[last()].extent;
      out_.line("s_i64 " + body_.name(id) + " = first_extreme<" + is_maximum(i) + ">(" + acc(id) + ", " +
                vector_of(id, 0) + ")" + (n.is_number() ? "" : " - ((" + n.text() + ") == 0)") + ";");
      return;
    }
    if (i.kind == kind::arg_reduce) {
      const dtype t = at(i.args[0]).type;
      const std::string n = number(id);
      out_.line("s_i64 " + body_.name(id) + " = x" + n + "[0];");
      out_.block("", [&] {
        out_.line(scalar_type(t) + " best = " + lane(acc(id), t, "0") + ";");
        out_.block("for (int l = 1; l < SINTER_W; ++l)", [&] {
          out_.line("if (x" + n + "[l] < 0) continue;");
          out_.line("const " + scalar_type(t) + " e = " + lane(acc(id), t, "l") + ";");
          const std::string nan_e = is_float(t) ? "(e != e)" : "false",
                            nan_best = is_float(t) ? "(best != best)" : "false";
          const std::string better = i.code == ir::op::maximum ? "e > best" : "e < best";
          out_.line("const bool more = " + nan_e + " ? !" + nan_best + " : !" + nan_best + " && " + better + ";");
          out_.line("const bool same = (" + nan_e + " && " + nan_best + ") || e == best;");
          out_.line("if (" + body_.name(id) + " < 0 || more || (same && x" + n + "[l] < " + body_.name(id) +
                    ")) best = e, " + body_.name(id) + " = x" + n + "[l];");
        });
      });
      return;
    }
    if (has_runs(id)) return;
    join_parts(id, parts);
    if (i.span == reduce_scope::inner)
      out_.line("const " + scalar_type(i.type) + " " + body_.name(id) + " = " + (is_f32_sum(i) ? "(s_f32)" : "") +
                fold(i.code, acc(id)) + ";");
  }
  /// Names a sum that may leave its range; `again` prints its second summation.
  template <class F>
  void end_squares(int id, const std::string& name, F&& again) {
    out_.line("s_f64 " + name + " = " + fold(ir::op::add, acc(id)) + ";");
    out_.block("if (__builtin_expect(lost(" + name + "), 0))", [&] {
      out_.line(acc(id) + " = splat<v_f64>(0.0);");
      again();
      out_.line(name + " = " + fold(ir::op::add, acc(id)) + ";");
    });
  }
  template <class F>
  void end_run_of_squares(int id, F&& again) {
    end_squares(id, "w" + number(id), again);
    out_.line(sum(id) + " += w" + number(id) + ";");
  }

  /// Totals the task's sums of squares of rows; `again` prints the second summation of its rows.
  template <class OverOuter, class F>
  void end_squares_of_rows(int id, OverOuter&& over_outer, F&& again) {
    const std::string lost = "lost" + number(id), i = "i" + number(static_cast<std::int64_t>(last()));
    out_.line("bool " + lost + " = false;");
    over_outer([&] {
      out_.line("const long " + i + " = 0;");
      out_.line(lost + " |= total_squares<" + (rows_of_run(id) > 0 ? "true" : "false") + ">(" + sum(id) + " + " +
                flat_inner() + ", " + acc(id) + " + " + flat_inner() + ", " + extent(last()) + ");");
    });
    out_.block("if (__builtin_expect(" + lost + ", 0))", [&] {
      const std::string n = padded_inner().text();
      out_.line("for (long z = 0; z < " + n + "; ++z) " + sum(id) + "[z] = 0;");
      again();
    });
  }
  void accumulate_again(int id) {
    const std::string memory = sum(id) + " + " + flat_inner();
    out_.line("store(" + memory + ", load(" + memory + ") + " + body_.addend(at(id), true) + ");");
  }

  static std::string lane(const std::string& v, dtype t, const std::string& l) {
    return is_bool(t) ? "(" + v + ".m[" + l + "] != 0)" : v + "[" + l + "]";
  }
  static std::string fold(ir::op combiner, const std::string& v) {
    return std::string("fold_") + ir::name(combiner) + "(" + v + ")";
  }

  /// The dtype of an array of sums that rows are added to.
  dtype sum_type(int id) const { return adds_squares_of_rows(id) ? dtype::f32 : at(id).type; }
  std::string addend(int id) const {
    const std::string x = body_.operand(at(id).args[0], true);
    return adds_squares_of_rows(id) ? x + "*" + x : body_.addend(at(id), true);
  }

  /// Elements of one copy of the inner axes, the vector axis padded to whole vectors.
  ir::dim padded_inner() const {
    ir::dim n = 1;
    for (std::size_t j = 0; j + 1 < inner_axes_.size(); ++j) n *= k_.axes[inner_axes_[j]].extent;
    return n * padded_last();
  }
  ir::dim padded_last() const {
    const ir::dim& e = k_.axes[last()].extent;
    if (const auto n = e.number()) return (*n + 15) / 16 * 16;
    return floor_div(e + ir::dim(15), 16) * ir::dim(16);
  }
  std::string flat_inner() const {
    std::string flat;
    for (std::size_t j = 0; j + 1 < inner_axes_.size(); ++j) {
      const std::string i = "i" + number(static_cast<std::int64_t>(inner_axes_[j]));
      flat = flat.empty() ? i : "(" + flat + ")*" + extent(inner_axes_[j]) + " + " + i;
    }
    const std::string v = "i" + number(static_cast<std::int64_t>(last()));
    return flat.empty() ? v : "((" + flat + ")*(" + padded_last().text() + ") + " + v + ")";
  }

  bool on_stack() const {
    std::int64_t bytes = 0;
    for (int id = 0; id < size(); ++id)
      if (is_array(k_, id)) bytes += array_bytes(id);
    if (bytes == 0 || k_.chunks > 1) return bytes == 0;
    const auto n = (padded_inner() * ir::dim(bytes)).number();
    return n && *n <= stack_bytes;
  }
  bool keeps_on_stack() const {
    if (kept_bytes() == 0) return true;
    const auto n = (padded_inner() * ir::dim(kept_bytes())).number();
    return n && *n <= stack_bytes;
  }

  /// Sums of chunks are in shared memory of the tasks; sums of whole columns, and kept values, are in the task's own.
  void plan_scratch() {
    scratch_.tasks = k_.extent(role::outer) * ir::dim(k_.chunks);
    const auto each_sum = [&](auto&& f) {
      for (int id = 0; id < size(); ++id)
        if (at(id).span == reduce_scope::row || at(id).span == reduce_scope::both)
          f(id, is_array(k_, id) ? padded_inner() * ir::dim(array_bytes(id)) : ir::dim(64));
    };
    if (k_.chunks == 1 && !on_stack())
      each_sum([&](int id, const ir::dim& bytes) {
        if (!is_array(k_, id)) return;
        offsets_[id] = scratch_.sums;
        scratch_.sums += bytes;
      });
    if (!keeps_on_stack()) {
      scratch_.kept = padded_inner() * ir::dim(kept_bytes());
      scratch_.max_kept = scratch_.kept.number().value_or(max_kept() * kept_bytes());
    }
    if (scratch_.by_thread()) scratch_.shared = scratch_use::header;
    if (k_.chunks == 1) return;
    each_sum([&](int id, const ir::dim& bytes) {
      offsets_[id] = scratch_.shared;
      scratch_.shared += scratch_.tasks * bytes;
    });
  }

  std::string slot(int id, const std::string& task) const {
    const std::string type = memory_of(id);
    const std::int64_t size = element_bytes(id);
    const std::string per_task =
        is_array(k_, id) ? (padded_inner() * ir::dim(array_bytes(id) / size)).text() : number(64 / size);
    return "((" + type + "*)(scratch + " + offsets_.at(id).text() + ") + (" + task + ")*(" + per_task + "))";
  }
  /// A chunk's total of an f32 sum stays in f64.
  dtype slot_type(int id) const {
    return is_f32_sum(at(id)) && !is_array(k_, id) ? dtype::f64 : compute_type(at(id).type);
  }
  std::int64_t element_bytes(int id) const { return static_cast<std::int64_t>(size_of(slot_type(id))); }
  /// The bytes of an element of an array of sums, and of its total.
  std::int64_t array_bytes(int id) const {
    return element_bytes(id) + (rows_of_run(id) > 0 || adds_squares_of_rows(id) ? 8 : 0);
  }
  std::string memory_of(int id) const { return memory_type(slot_type(id)); }

  /// The longest open row whose values are kept, in elements; 0: none are.
  std::int64_t max_kept() const {
    const std::int64_t bytes = kept_bytes();
    return bytes ? plan::kept_row_bytes / bytes / 16 * 16 : 0;
  }
  /// The bytes of kept values for one element of a row.
  std::int64_t kept_bytes() const {
    std::int64_t bytes = 0;
    for (int id = 0; id < size(); ++id)
      if (at(id).kept) bytes += element_bytes(id);
    return bytes;
  }

  void declare_kept() {
    ir::dim offset = scratch_.sums;
    for (int id = 0; id < size(); ++id) {
      if (!at(id).kept) continue;
      if (keeps_on_stack()) {
        out_.line("alignas(64) " + memory_of(id) + " k" + number(id) + "[" + padded_inner().text() + "];");
        continue;
      }
      out_.line(pointer_to_mine(id, "k" + number(id), offset));
      offset += padded_inner() * ir::dim(element_bytes(id));
    }
  }

  void begin_accumulators() {
    for (int id = 0; id < size(); ++id) {
      const auto& i = at(id);
      if (i.span != reduce_scope::row && i.span != reduce_scope::both) continue;
      const std::string zero = identity_of(i.code, i.type);
      if (!is_array(k_, id)) {
        if (i.span == reduce_scope::row)
          out_.line((rows_of_run(id) > 0 ? "s_f64" : scalar_type(i.type)) + " " + acc(id) + " = " + zero + ";");
        if (i.span == reduce_scope::both && (rows_of_run(id) > 0 || has_runs(id)))
          out_.line("s_f64 " + sum(id) + " = 0;");
        if (counts(id)) out_.line("long q" + number(id) + " = 0;");
        if (i.span == reduce_scope::both && (!has_runs(id) || counts(id)))
          out_.line(lanes_of(id) + " " + acc(id) + " = splat<" + lanes_of(id) + ">(" + zero + ");");
        continue;
      }
      if (adds_squares_of_rows(id)) {
        begin_squares_of_rows(id);
        continue;
      }
      if (on_stack()) out_.line("alignas(64) " + memory_of(id) + " " + acc(id) + "[" + padded_inner().text() + "];");
      else if (k_.chunks == 1) out_.line(pointer_to_mine(id, acc(id), offsets_.at(id)));
      else out_.line(memory_of(id) + "* const " + acc(id) + " = " + slot(id, "t") + ";");
      out_.line("for (long z = 0; z < " + padded_inner().text() + "; z += SINTER_W) store(" + acc(id) + " + z, splat<" +
                vector_type(i.type) + ">(" + zero + "));");
      if (rows_of_run(id) == 0) continue;
      const std::string n = padded_inner().text();
      if (on_stack()) out_.line("s_f64 " + sum(id) + "[" + n + "];");
      else out_.line("s_f64* const " + sum(id) + " = (s_f64*)(" + acc(id) + " + " + n + ");");
      out_.line("for (long z = 0; z < " + n + "; ++z) " + sum(id) + "[z] = 0;");
    }
  }

  /// Other tasks read the totals; the sums follow them.
  void begin_squares_of_rows(int id) {
    const std::string n = padded_inner().text();
    if (on_stack()) {
      out_.line("alignas(64) s_f64 " + sum(id) + "[" + n + "];");
      out_.line("alignas(64) s_f32 " + acc(id) + "[" + n + "];");
    } else {
      out_.line(k_.chunks == 1 ? pointer_to_mine(id, sum(id), offsets_.at(id))
                               : memory_of(id) + "* const " + sum(id) + " = " + slot(id, "t") + ";");
      out_.line("s_f32* __restrict const " + acc(id) + " = (s_f32*)(" + sum(id) + " + " + n + ");");
    }
    out_.line("for (long z = 0; z < " + n + "; ++z) " + acc(id) + "[z] = 0;");
    if (rows_of_run(id) > 0) out_.line("for (long z = 0; z < " + n + "; ++z) " + sum(id) + "[z] = 0;");
  }

  void end_accumulators() {
    for (int id = 0; id < size(); ++id) {
      const auto& i = at(id);
      if (i.span != reduce_scope::row && i.span != reduce_scope::both) continue;
      const bool totals = rows_of_run(id) > 0;
      if (is_array(k_, id)) {
        if (totals && !adds_squares_of_rows(id))
          out_.line("for (long z = 0; z < " + padded_inner().text() + "; ++z) " + acc(id) + "[z] = (s_f32)(" + sum(id) +
                    "[z] + " + acc(id) + "[z]);");
        continue;
      }
      std::string x = i.span == reduce_scope::both ? fold(i.code, acc(id)) : acc(id);
      if (has_runs(id) && !counts(id)) x = sum(id);
      else if ((totals || counts(id)) && i.span == reduce_scope::both) x = "(" + sum(id) + " + " + x + ")";
      if (k_.chunks == 1 && is_f32_sum(i)) x = "(s_f32)" + x;
      if (k_.chunks > 1) out_.line("store1(" + slot(id, "t") + ", " + x + ");");
      else out_.line("const " + scalar_type(i.type) + " " + body_.name(id) + " = " + x + ";");
    }
  }

  /// A scalar over all rows, from its chunks in order.
  void total_of_scalars(int id) {
    const auto& i = at(id);
    if (k_.chunks == 1) return;
    const bool wide = is_f32_sum(i);
    const std::string to = wide ? sum(id) : body_.name(id);
    out_.line((wide ? "s_f64" : scalar_type(i.type)) + " " + to + " = " + identity_of(i.code, i.type) + ";");
    const std::string next = "load1(" + slot(id, "o*" + number(k_.chunks) + " + c") + ")";
    out_.line("for (long c = 0; c < " + number(k_.chunks) + "; ++c) " + to + " = " + body_.combine(i.code, to, next) +
              ";");
    if (wide) out_.line("const s_f32 " + body_.name(id) + " = (s_f32)" + to + ";");
  }

  /// A vector over all rows, from its chunks in order.
  void total(int id) {
    const auto& i = at(id);
    const std::string v = body_.name(id), type = vector_type(i.type);
    if (k_.chunks == 1) {
      out_.line("const " + type + " " + v + " = load(" + (adds_squares_of_rows(id) ? sum(id) : acc(id)) + " + " +
                flat_inner() + ");");
      return;
    }
    out_.line(type + " " + v + " = splat<" + type + ">(" + identity_of(i.code, i.type) + ");");
    const std::string next = "load(" + slot(id, "o*" + number(k_.chunks) + " + c") + " + " + flat_inner() + ")";
    out_.line("for (long c = 0; c < " + number(k_.chunks) + "; ++c) " + v + " = " + body_.combine(i.code, v, next) +
              ";");
  }

 private:
  static constexpr int max_parts = 4;

  /// An array in the thread's part of scratch memory.
  std::string pointer_to_mine(int id, const std::string& name, const ir::dim& offset) const {
    return memory_of(id) + "* __restrict const " + name + " = (" + memory_of(id) + "*)(mine + " + offset.text() + ");";
  }

  int size() const { return static_cast<int>(k_.body.size()); }
  const instruction& at(int id) const { return k_.body[static_cast<std::size_t>(id)]; }
  static std::string number(std::int64_t n) { return std::to_string(n); }
  std::size_t last() const { return inner_axes_.back(); }
  std::string extent(std::size_t a) const { return "(" + k_.axes[a].extent.text() + ")"; }

  const kernel& k_;
  writer& out_;
  const body_printer& body_;
  series<std::size_t> inner_axes_;
  static std::string sum(int id) { return "sum" + number(id); }
  void empty(int id) {
    out_.line(sum(id) + " += " + fold(ir::op::add, acc(id)) + ";");
    out_.line(acc(id) + " = splat<" + lanes_of(id) + ">(0.0f);");
  }
  void declare_parts(int id, int parts) {
    const std::string type = lanes_of(id);
    for (int p = 0; p < (is_wide(id) ? 1 : parts); ++p)
      out_.line(type + " " + part(id, p) + " = splat<" + type + ">(" + identity_of(at(id).code, at(id).type) + ");");
  }
  void join_parts(int id, int parts) {
    if (is_wide(id)) return;
    for (int p = 1; p < parts; ++p) out_.line(acc(id) + " = " + body_.combine(at(id).code, acc(id), part(id, p)) + ";");
  }
  /// The number of 16-lane vectors in a row, if all extents are numbers.
  std::optional<std::int64_t> vectors_of_row() const {
    std::int64_t n = 1;
    for (const std::size_t a : inner_axes_) {
      const auto extent = k_.axes[a].extent.number();
      if (!extent) return std::nullopt;
      n *= a == last() ? (*extent + 15) / 16 : *extent;
    }
    return n;
  }
  static std::string is_maximum(const instruction& i) { return i.code == ir::op::maximum ? "true" : "false"; }
  static std::string vector_of(int id, int p) { return "x" + number(id) + (p ? "_" + number(p) : ""); }
  static std::string pair(int id, int p) { return "h" + number(id) + (p < 2 ? "" : "_1"); }
  static std::string part(int id, int p) { return p ? acc(id) + "_" + number(p) : acc(id); }

  enum class four { none, in_turn, in_parts };
  static constexpr std::int64_t min_by_fours = 64;
  int part_ = 0;
  four four_ = four::none;
  scratch_use scratch_;
  sorted_map<int, ir::dim> offsets_;  ///< of sums in memory: the chunks', or the thread's
};

}  // namespace sinter::engine::emit
