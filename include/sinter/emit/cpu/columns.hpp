// emit/cpu/columns.hpp: a kernel that reduces columns and uses the results -> OpenMP loops, vectors across the columns.
//
//   for every outer position and block of columns, in parallel:
//     values of the columns; pass 0 over the inner axes; values from its reductions; pass 1; …
#pragma once

#include <optional>

#include "../../base/sorted.hpp"
#include "stream.hpp"

namespace sinter::engine::emit {

/// Prints a kernel with kernel::columns. A block's sums are arrays of vectors, which the compiler holds in registers if it
/// can. Each column adds its rows in order.
class column_printer {
 public:
  column_printer(const kernel& k, writer& out)
      : k_(k), out_(out), body_(k, out), inner_(k.mask(role::inner)), lanes_(k.vector_axis()) {}

  /// Prints the loops; returns the scratch memory that they use.
  scratch_use print() {
    plan_scratch();
    bool streams_some = false;
    for (const auto& s : k_.stores) {
      const std::string name = streams(s);
      streams_some = streams_some || !name.empty();
      if (name.starts_with("stream")) out_.line("const bool " + name + " = " + stream_rule(k_, s, lanes_) + ";");
    }
    for (int id = 0; id < size(); ++id)
      if (at(id).axes == 0) body_.define(id, false, false);
    const std::string columns = extent(lanes_), width = number(k_.columns);
    const std::string blocks = "((" + columns + " + " + number(k_.columns - 1) + ")/" + width + ")";
    std::string tasks = blocks;
    for (std::size_t a = 0; a < lanes_; ++a) tasks += "*" + extent(a);
    parallel_loop(k_, out_, "for (long t = 0; t < " + tasks + "; ++t)", true, streams_some, scratch_, [&] {
      out_.line("const long z = t%" + blocks + "*" + width + ";");
      std::string divisor = blocks;
      for (std::size_t a = lanes_; a-- > 0;) {
        out_.line("const long " + index(a) + " = t/(" + divisor + ")%" + extent(a) + ";");
        divisor += "*" + extent(a);
      }
      for (int id = 0; id < size(); ++id)
        if (at(id).axes != 0 && !(at(id).axes & (inner_ | 1u << lanes_))) body_.define(id, false, false);
      if (only_whole()) return block(false);
      out_.block("if (z + " + width + " <= " + columns + ")", [&] { block(false); });
      out_.block("else", [&] { block(true); });
    });
    return scratch_;
  }

 private:
  static constexpr std::size_t max_unrolled = 24;  // instructions

  int size() const { return static_cast<int>(k_.body.size()); }
  const instruction& at(int id) const { return k_.body[static_cast<std::size_t>(id)]; }
  static std::string number(std::int64_t n) { return std::to_string(n); }
  static std::string index(std::size_t a) { return "i" + std::to_string(a); }
  static std::string column(int id) { return "c" + std::to_string(id); }
  std::string vectors() const { return "(" + number(k_.columns) + "/SINTER_W)"; }
  std::string extent(std::size_t a) const { return "(" + k_.axes[a].extent.text() + ")"; }
  /// Whether every block of columns is whole.
  bool only_whole() const {
    const auto known = k_.axes[lanes_].extent.number();
    return known && *known % k_.columns == 0;
  }

  /// The bytes of all kept values, for an element of a column.
  std::int64_t kept_bytes() const {
    std::int64_t bytes = 0;
    for (const auto& i : k_.body)
      if (i.kept) bytes += static_cast<std::int64_t>(size_of(compute_type(i.type)));
    return bytes;
  }
  /// Whether kept values of a block lie on the stack, once for whole blocks and once for the last one.
  bool keeps_on_stack() const {
    const auto rows = k_.extent(role::inner).number();
    return rows && *rows * k_.columns * kept_bytes() * (only_whole() ? 1 : 2) <= stack_bytes;
  }
  void plan_scratch() {
    if (kept_bytes() == 0 || keeps_on_stack()) return;
    scratch_.shared = scratch_use::header;
    scratch_.kept = k_.extent(role::inner) * ir::dim(k_.columns * kept_bytes());
    scratch_.max_kept = scratch_.kept.number().value_or(plan::kept_column_bytes);
    scratch_.tasks = floor_div(k_.axes[lanes_].extent + dim(k_.columns - 1), k_.columns);
    for (std::size_t a = 0; a < lanes_; ++a) scratch_.tasks *= k_.axes[a].extent;
  }

  bool is_reduction(int id) const { return at(id).kind == kind::reduce || at(id).kind == kind::arg_reduce; }
  /// For the position of an extreme, a column has the value, of the operand's type, and the row.
  dtype summed_type(int id) const { return at(id).kind == kind::arg_reduce ? at(at(id).args[0]).type : at(id).type; }
  static std::string row_of(int id) { return "x" + std::to_string(id); }
  /// Whether each column has one such value.
  bool is_column(int id) const { return body_.is_vector(id) && !(at(id).axes & inner_); }
  bool in_rows(const plan::store& s) const {
    bool varies = (at(s.value).axes & inner_) != 0;
    for (std::size_t a = lanes_ + 1; a < k_.axes.size(); ++a) varies = varies || !s.at.at.stride[a].is(0);
    return varies;
  }
  std::string streams(const plan::store& s) const {
    const std::string rule = stream_rule(k_, s, lanes_);
    return rule.empty() || rule == "true" ? rule : "stream" + number(&s - k_.stores.begin());
  }

  /// The passes of a block of columns from z on: a whole block, or the rest.
  void block(bool rest) {
    rest_ = rest;
    const std::int64_t bytes = kept_bytes();
    const dim rows = k_.extent(role::inner);
    if (!bytes || rows.is_number()) return passes(bytes > 0);
    const std::int64_t most = plan::kept_column_bytes / (bytes * k_.columns);
    out_.block("if (" + rows.text() + " <= " + number(most) + ")", [&] { passes(true); });
    out_.block("else", [&] { passes(false); });
  }

  void declare_kept() {
    const dim length = k_.extent(role::inner) * dim(k_.columns);
    dim offset = 0;
    for (int id = 0; id < size(); ++id) {
      if (!at(id).kept) continue;
      const std::string type = memory_type(compute_type(at(id).type)), name = "k" + number(id);
      if (keeps_on_stack()) out_.line("alignas(64) " + type + " " + name + "[" + length.text() + "];");
      else out_.line(type + "* __restrict const " + name + " = (" + type + "*)(mine + " + offset.text() + ");");
      offset += length * dim(static_cast<std::int64_t>(size_of(compute_type(at(id).type))));
    }
  }

  void passes(bool keeps) {
    kept_in_.clear();
    asked_.clear();
    keeps_ = keeps;
    if (keeps) declare_kept();
    for (int p = 0; p < k_.stages; ++p) {
      columns(p);
      pass(p);
    }
  }

  /// The values of a column, after the reductions before pass p.
  void columns(int p) {
    series<int> mine;
    for (int id = 0; id < size(); ++id)
      if (is_column(id) && at(id).stage == p && !is_reduction(id)) mine.push_back(id);
    series<const plan::store*> stores;
    for (const auto& s : k_.stores)
      if (!in_rows(s) && at(s.value).stage == p) stores.push_back(&s);
    if (mine.empty() && stores.empty()) return;
    for (int id : mine) declare(id, "");
    each_vector(mine.size(), [&](bool tail) {
      sorted_set<int> done;
      for (int id : mine) {
        for (int a : at(id).args) recall(a, done);
        if (at(id).at.at.index >= 0) recall(at(id).at.at.index, done);
        body_.define(id, true, tail);
        done.insert(id);
        out_.line(column(id) + "[u] = " + body_.name(id) + ";");
      }
      for (const auto* s : stores) {
        recall(s->value, done);
        body_.store(*s, true, tail, streams(*s));
      }
    });
  }

  void pass(int p) {
    series<int> reductions;
    series<const plan::store*> stores;
    sorted_set<int> needed;
    for (int id = 0; id < size(); ++id)
      if (is_reduction(id) && at(at(id).args[0]).stage == p) {
        reductions.push_back(id);
        need(at(id).args[0], p, needed);
      }
    for (const auto& s : k_.stores)
      if (in_rows(s) && at(s.value).stage == p) {
        stores.push_back(&s);
        need(s.value, p, needed);
      }
    if (reductions.empty() && stores.empty()) return;
    for (int id : reductions) declare_sum(id);
    series<int> sums;
    for (int id : reductions) {
      const bool squares = adds_f32_squares(k_, at(id));
      const bool runs = rows().value_or(2 * fold_rows + 1) > 2 * fold_rows && (squares || is_f32_sum(at(id)));
      if (runs) sums.push_back(id);
      if (runs || squares) out_.line("s_f64 sum" + number(id) + "[" + number(k_.columns) + "] = {};");
    }
    const std::string count = lanes_ + 2 < k_.axes.size() && !sums.empty() ? "q" + number(p) : "";
    if (!count.empty()) out_.line("long " + count + " = 0;");
    down_rows(lanes_ + 1, sums, count, [&] {
      define_numbers(needed);
      each_vector(needed.size(), [&](bool tail) {
        sorted_set<int> done;
        for (int id : needed) value(id, p, done, tail);
        for (int id : reductions) accumulate(id);
        for (const auto* s : stores) body_.store(*s, true, tail, streams(*s));
        for (int id : needed)
          if (!tail && !asked_.count(id)) prefetch(at(id));
      });
    });
    for (int id : reductions)
      if (adds_f32_squares(k_, at(id))) end_squares(id, p);
    for (int id : sums)
      if (!at(id).squares)
        through_memory(id,
                       "for (long l = 0; l < " + number(k_.columns) + "; ++l) m[l] = (s_f32)" +
                           (count.empty() ? "sum" + number(id) + "[l];" : "(sum" + number(id) + "[l] + m[l]);"),
                       "load(m + u*SINTER_W)");
    asked_.insert(needed.begin(), needed.end());
  }

  void define_numbers(const sorted_set<int>& needed) {
    for (int id : needed)
      if (!body_.is_vector(id) && (at(id).axes & inner_)) body_.define(id, false, false);
  }
  void accumulate(int id) {
    const std::string sum = sum_of(id) + "[u]", x = body_.operand(at(id).args[0], true);
    if (at(id).kind == kind::arg_reduce) {
      const std::string number = "splat<i_of<" + vector_type(summed_type(id)) + ">>(" + index(lanes_ + 1) + ")";
      return void(out_.line(std::string("take_extreme<") + (at(id).code == ir::op::maximum ? "true" : "false") + ">(" +
                            sum + ", " + row_of(id) + "[u], " + x + ", " + number + ");"));
    }
    const std::string what = adds_f32_squares(k_, at(id)) ? x + "*" + x : body_.addend(at(id), true);
    out_.line(sum + " = " + body_.combine(at(id).code, sum, what) + ";");
  }

  /// Totals the block's f32 sums of squares. If one has left f32's range, the block is summed again in f64, from the values
  /// of pass p.
  void end_squares(int id, int p) {
    const std::string total = "sum" + number(id), lost = "lost" + number(id), columns = extent(lanes_);
    const std::string n = rest_ ? "(" + columns + " - z)" : number(k_.columns);
    out_.line("bool " + lost + ";");
    through_memory(id, lost + " = total_squares<true>(" + total + ", m, " + n + ");", "");
    declare(id, "");
    out_.line("for (int u = 0; u < " + vectors() + "; ++u) " + column(id) + "[u] = load(" + total + " + u*SINTER_W);");
    out_.block("if (__builtin_expect(" + lost + ", 0))", [&] {
      out_.line("for (int u = 0; u < " + vectors() + "; ++u) " + column(id) + "[u] = splat<v_f64>(0.0);");
      sorted_set<int> needed;
      need(at(id).args[0], p + 1, needed);
      down_rows(lanes_ + 1, {}, "", [&] {
        define_numbers(needed);
        each_vector(max_unrolled + 1, [&](bool tail) {
          sorted_set<int> done;
          for (int v : needed) value(v, p + 1, done, tail);
          out_.line(column(id) + "[u] = " + column(id) + "[u] + " + body_.addend(at(id), true) + ";");
        });
      });
    });
  }

  /// Prefetches the first pass's loads eight rows ahead; the machine does not prefetch that far.
  void prefetch(const instruction& i) {
    const auto& stride = i.at.at.stride;
    if (i.kind == kind::load && i.at.at.index < 0 && stride[lanes_].is(1) && !stride.back().is(0) && reads_much(k_, i))
      out_.line("__builtin_prefetch(" + body_.address(i.at) + " + 8*(" + stride.back().text() + "));");
  }

  /// Collects the values that pass p computes or recalls for `id`.
  void need(int id, int p, sorted_set<int>& needed) {
    if (!needed.insert(id).second || !(at(id).axes & inner_)) return;
    if (at(id).kept && keeps_ && kept_in_.emplace(id, p).first->second < p) return;
    for (int a : at(id).args) need(a, p, needed);
    if (at(id).at.at.index >= 0) need(at(id).at.at.index, p, needed);
  }

  void value(int id, int p, sorted_set<int>& done, bool tail) {
    if (!body_.is_vector(id)) return;
    if (is_column(id)) return recall(id, done);
    if (!at(id).kept || !keeps_) return body_.define(id, true, tail);
    std::string row;
    for (std::size_t a = lanes_ + 1; a < k_.axes.size(); ++a)
      row = row.empty() ? index(a) : "(" + row + ")*" + extent(a) + " + " + index(a);
    const std::string kept = "k" + number(id) + " + (" + row + ")*" + number(k_.columns) + " + u*SINTER_W";
    if (kept_in_.at(id) < p)
      return void(out_.line("const " + vector_type(at(id).type) + " " + body_.name(id) + " = load(" + kept + ");"));
    body_.define(id, true, tail);
    out_.line("store(" + kept + ", " + body_.name(id) + ");");
  }

  /// Names the kept vector of columns' values.
  void recall(int id, sorted_set<int>& done) {
    if (!is_column(id) || !done.insert(id).second) return;
    std::string value = column(id) + "[u]";
    if (at(id).kind == kind::arg_reduce) {
      value = "cv<v_i64>(" + row_of(id) + "[u])";
      // Without rows the index is -1.
      if (const dim n = k_.extent(role::inner); !n.is_number()) value += " - splat<v_i64>((" + n.text() + ") == 0)";
    }
    out_.line("const " + vector_type(at(id).type) + " " + body_.name(id) + " = " + value + ";");
  }

  /// The variable that rows are added to; for f32 sums of squares an f32, which becomes the column's value after the pass.
  std::string sum_of(int id) const { return (adds_f32_squares(k_, at(id)) ? "h" : "c") + number(id); }
  void declare_sum(int id) {
    if (!adds_f32_squares(k_, at(id))) return declare(id, identity_of(at(id).code, summed_type(id)));
    out_.line("v_f32 " + sum_of(id) + "[" + vectors() + "] = {};");
  }
  /// Declares a value for each of the block's vectors of columns.
  void declare(int id, const std::string& start) {
    const std::string type = vector_type(summed_type(id));
    out_.line(type + " " + column(id) + "[" + vectors() + "];");
    if (at(id).kind == kind::arg_reduce) out_.line("i_of<" + type + "> " + row_of(id) + "[" + vectors() + "] = {};");
    if (!start.empty())
      out_.line("for (int u = 0; u < " + vectors() + "; ++u) " + column(id) + "[u] = splat<" + type + ">(" + start +
                ");");
  }

  /// Loops over the vectors of a block; the last may have only n lanes.
  template <class F>
  void each_vector(std::size_t instructions, F&& inside) {
    const std::string first = "const long " + index(lanes_) + " = z + u*SINTER_W;", columns = extent(lanes_);
    const auto vector = [&](bool tail) {
      out_.line(first);
      if (tail) out_.line("const long n = " + columns + " - " + index(lanes_) + ";");
      inside(tail);
    };
    if (!rest_) {
      if (instructions <= max_unrolled) out_.line("#pragma GCC unroll 8");
      return out_.block("for (int u = 0; u < " + vectors() + "; ++u)", [&] { vector(false); });
    }
    out_.block("", [&] {
      out_.line("int u = 0;");
      out_.block("for (; z + (u + 1)*SINTER_W <= " + columns + "; ++u)", [&] { vector(false); });
      if (k_.axes[lanes_].extent.number().value_or(1) % 16 != 0)
        out_.block("if (z + u*SINTER_W < " + columns + ")", [&] { vector(true); });
    });
  }

  /// The number of rows of a column, if all extents are numbers.
  std::optional<std::int64_t> rows() const {
    ir::dim n = 1;
    for (std::size_t a = lanes_ + 1; a < k_.axes.size(); ++a) n *= k_.axes[a].extent;
    return n.number();
  }

  /// The loops over the rows; after every fold_rows rows, `sums` are added to their totals. With several axes, `count` counts
  /// the rows.
  template <class F>
  void down_rows(std::size_t a, const series<int>& sums, const std::string& count, F&& inside) {
    if (a == k_.axes.size()) return inside();
    const std::string i = index(a), n = number(fold_rows);
    if (a + 1 < k_.axes.size() || sums.empty())
      return out_.block("for (long " + i + " = 0; " + i + " < " + extent(a) + "; ++" + i + ")",
                        [&] { down_rows(a + 1, sums, count, inside); });
    out_.block("for (long from = 0; from < " + extent(a) + "; from += " + n + ")", [&] {
      out_.line("const long to = " + extent(a) + " - from > " + n + " ? from + " + n + " : " + extent(a) + ";");
      out_.block("for (long " + i + " = from; " + i + " < to; ++" + i + ")", inside);
      const auto empty = [&] {
        for (int id : sums)
          through_memory(id, "for (long l = 0; l < " + number(k_.columns) + "; ++l) sum" + number(id) + "[l] += m[l];",
                         "splat<v_f32>(0.0f)");
      };
      if (count.empty()) return empty();
      out_.block("if ((" + count + " += to - from) >= " + n + ")", [&] {
        empty();
        out_.line(count + " = 0;");
      });
    });
  }

  /// Stores a block's sums in an array m, prints `line`, and sets each of their vectors to `next`, if given.
  void through_memory(int id, const std::string& line, const std::string& next) {
    const auto each = [&](const std::string& what) {
      out_.line("#pragma GCC unroll 8");
      out_.line("for (int u = 0; u < " + vectors() + "; ++u) " + what + ";");
    };
    out_.block("", [&] {
      out_.line("alignas(64) t_f32 m[" + number(k_.columns) + "];");
      each("store(m + u*SINTER_W, " + sum_of(id) + "[u])");
      out_.line(line);
      if (!next.empty()) each(sum_of(id) + "[u] = " + next);
    });
  }

  const kernel& k_;
  writer& out_;
  body_printer body_;
  std::uint32_t inner_;
  std::size_t lanes_;
  scratch_use scratch_;
  bool rest_ = false, keeps_ = false;
  sorted_map<int, int> kept_in_;  ///< the pass that saves a kept value
  sorted_set<int> asked_;         ///< values that earlier passes needed
};

}  // namespace sinter::engine::emit
