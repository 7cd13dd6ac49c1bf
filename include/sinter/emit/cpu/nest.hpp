// emit/cpu/nest.hpp: a kernel of parallel rows, each walked in passes -> OpenMP loops.
//
//   for every outer position and chunk of rows, in parallel:
//     for every row of the chunk:
//       values of the row; pass 0 over the inner axes; values from its reductions; pass 1; …
//   then, if reductions ran along the rows: combine the chunks, and compute dependent values.
#pragma once

#include "../../base/sorted.hpp"
#include "../../plan/schedule/passes.hpp"
#include "reduce.hpp"
#include "stream.hpp"
#include "tile.hpp"

namespace sinter::engine::emit {

class nest_printer {
 public:
  nest_printer(const kernel& k, writer& out) : k_(k), out_(out), body_(k, out), sums_(k, out, body_) {
    inner_ = k.mask(role::inner);
    row_ = k.mask(role::row);
    for (std::size_t a = 0; a < k.axes.size(); ++a)
      if (k.axes[a].role == role::inner) inner_axes_.push_back(a);
    combines_ = combines_rows(k);
    cuts_ = can_cut();
  }

  /// Prints the loops; returns the scratch memory that they use.
  scratch_use print() {
    sums_.plan_scratch();
    for (const auto& s : k_.stores)
      if (const std::string name = streams(s); name.starts_with("stream"))
        out_.line("const bool " + name + " = " + stream_rule(k_, s, last()) + ";");
    for (int id = 0; id < size(); ++id)
      if (is_uniform(id)) body_.define(id, false, false);
    for (const auto& s : k_.stores)
      if (is_uniform_store(s)) body_.store(s, false, false, "");
    if (const auto t = find_tiling(k_, max_tiles)) {
      tiles(*t);
      return sums_.scratch();
    }
    const std::string tasks = product({k_.extent(role::outer).text(), std::to_string(k_.chunks)});
    if (has_short_rows()) {
      parallel_for("o", tasks, [&] { short_row(); });
    } else if (k_.block && !combines_) {
      parallel_for("b", "(" + extent(last()) + " + " + number(k_.block - 1) + ")/" + number(k_.block),
                   [&] { rows_of_task(); });
    } else {
      parallel_for("t", tasks, sums_.scratch(), [&] {
        if (k_.chunks > 1) out_.line("const long o = t/" + number(k_.chunks) + ", c = t%" + number(k_.chunks) + ";");
        else out_.line("const long o = t;");
        unravel("o", role::outer);
        rows_of_task();
        if (combines_ && k_.chunks == 1) finish();
      });
    }
    if (combines_ && k_.chunks > 1) {
      parallel_for("o", k_.extent(role::outer).text(), [&] {
        unravel("o", role::outer);
        finish();
      });
    }
    return sums_.scratch();
  }

 private:
  static constexpr int final_pass = 1 << 20;

  int size() const { return static_cast<int>(k_.body.size()); }
  const instruction& at(int id) const { return k_.body[static_cast<std::size_t>(id)]; }
  static std::string number(std::int64_t n) { return std::to_string(n); }
  std::size_t last() const { return inner_axes_.back(); }
  std::string extent(std::size_t a) const { return "(" + k_.axes[a].extent.text() + ")"; }
  static std::string product(series<std::string> factors) {
    std::string out;
    for (const auto& f : factors)
      if (f != "1") out += (out.empty() ? "(" : "*(") + f + ")";
    return out.empty() ? "1" : out;
  }
  bool is_uniform(int id) const { return plan::is_uniform(k_, id); }
  bool is_uniform_store(const plan::store& s) const { return plan::is_uniform_store(k_, s); }

  // Loops

  template <class F>
  void parallel_for(const std::string& variable, const std::string& count, F&& inside) {
    parallel_for(variable, count, scratch_use{}, inside);
  }
  template <class F>
  void parallel_for(const std::string& variable, const std::string& count, const scratch_use& memory, F&& inside) {
    const bool streams_some =
        std::any_of(k_.stores.begin(), k_.stores.end(), [&](const auto& s) { return !streams(s).empty(); });
    parallel_loop(k_, out_, "for (long " + variable + " = 0; " + variable + " < " + count + "; ++" + variable + ")",
                  count != "1", streams_some, memory, inside);
  }

  /// True for rows of so few elements, read from different places, that each is less work than a vector of rows: such as an
  /// image whose few colours become adjacent.
  bool has_short_rows() const {
    constexpr std::int64_t most = 4;
    if (inner_axes_.size() != 1 || combines_ || k_.stages > 1 || k_.block || k_.chunks > 1) return false;
    if (k_.axes[last()].extent.number().value_or(most + 1) > most) return false;
    bool apart = false;
    for (const auto& i : k_.body) {
      if (is_reduction(i) || i.kept || (i.kind == kind::compute && ir::is_expensive(i.code))) return false;
      const dim step = body_.step(i.at.at);
      apart = apart || (i.kind == kind::load && (i.axes & inner_) && !step.is(0) && !step.is(1));
    }
    return apart && std::none_of(k_.stores.begin(), k_.stores.end(), [](const auto& s) { return s.accumulate; });
  }
  void short_row() {
    unravel("o", role::outer);
    for (int id = 0; id < size(); ++id)
      if (!is_uniform(id) && !body_.is_vector(id)) body_.define(id, false, false);
    for (const auto& s : k_.stores)
      if (!is_uniform_store(s) && !body_.varies(s, inner_)) body_.store(s, false, false, "");
    const std::string i = "i" + number(static_cast<std::int64_t>(last()));
    out_.block("for (long " + i + " = 0; " + i + " < " + extent(last()) + "; ++" + i + ")", [&] {
      body_.print_numbers();
      for (int id = 0; id < size(); ++id)
        if (!is_uniform(id) && (at(id).axes & inner_)) body_.define(id, false, false);
      for (const auto& s : k_.stores)
        if (body_.varies(s, inner_)) body_.store(s, false, false, "");
    });
  }

  /// A task is a range of the tiling's axis at one position of the other outer axes.
  void tiles(const tiling& t) {
    series<const plan::store*> stores;
    for (const auto& s : k_.stores)
      if (!is_uniform_store(s)) stores.push_back(&s);
    const std::string runs = "((" + extent(t.axis) + " + " + number(tile_task - 1) + ")/" + number(tile_task) + ")";
    series<std::size_t> others;
    for (std::size_t a = 0; a + 1 < k_.axes.size(); ++a)
      if (a != t.axis) others.push_back(a);
    series<std::string> counts{runs};
    for (auto a : others) counts.push_back(extent(a));
    parallel_for("t", product(counts), [&] {
      out_.line("const long low = t%" + runs + "*" + number(tile_task) + ", high = low + " + number(tile_task) + " < " +
                extent(t.axis) + " ? low + " + number(tile_task) + " : " + extent(t.axis) + ";");
      out_.line("const long o = t/" + runs + ";");
      unravel("o", others);
      print_tile(
          k_, t, body_, out_, [&](int id) { return is_uniform(id); }, stores,
          [&](const plan::store& s) { return streams(s); });
    });
  }

  /// Declares the axes of a role from their flat position.
  void unravel(const std::string& flat, role r) {
    series<std::size_t> axes;
    for (std::size_t a = 0; a < k_.axes.size(); ++a)
      if (k_.axes[a].role == r) axes.push_back(a);
    unravel(flat, axes);
  }
  void unravel(const std::string& flat, const series<std::size_t>& axes) {
    print_unraveled(
        flat, axes, [&](std::size_t a) { return extent(a); }, out_);
  }

  void rows_of_task() {
    if (combines_) sums_.begin_accumulators();
    if (k_.block) {
      const std::string blocks = "(" + extent(last()) + " + " + number(k_.block - 1) + ")/" + number(k_.block);
      auto block = [&] {
        out_.line("const long low = b*" + number(k_.block) + ", high = low + " + number(k_.block) + " < " +
                  extent(last()) + " ? low + " + number(k_.block) + " : " + extent(last()) + ";");
        row();
      };
      if (!combines_) return block();
      out_.block("for (long b = " + chunk_bound(blocks, "c") + "; b < " + chunk_bound(blocks, "(c + 1)") + "; ++b)",
                 block);
    } else if (row_) {
      const std::string rows = k_.extent(role::row).text();
      out_.line("long r = " + chunk_bound(rows, "c") + ";");
      const std::string end = chunk_bound(rows, "(c + 1)");
      if (!sums_.has_array_totals()) {
        out_.line("const long rows = " + end + ";");
        loop_over_rows();
      } else {
        const std::string n = number(fold_rows);
        out_.block("for (const long end = " + end + "; r < end;)", [&] {
          out_.line("const long rows = end - r > " + n + " ? r + " + n + " : end;");
          loop_over_rows();
          sums_.empty_arrays();
        });
      }
    } else {
      row();
    }
    if (!combines_) return;
    sums_.end_accumulators();
    for (int id = 0; id < size(); ++id)
      if (sums_.adds_squares_of_rows(id))
        sums_.end_squares_of_rows(
            id, [&](auto&& inside) { out_.block("", [&] { over_outer_inner(inside); }); }, [&] { add_rows_again(id); });
  }

  /// Sums squares along the task's rows once more, from the values of pass 0 in each row.
  void add_rows_again(int sum) {
    keeps_ = false;
    const std::string rows = k_.extent(role::row).text();
    out_.block("for (long r = " + chunk_bound(rows, "c") + "; r < " + chunk_bound(rows, "(c + 1)") + "; ++r)", [&] {
      unravel("r", role::row);
      define_numbers(0);
      over_inner([&](bool tail) {
        sorted_set<int> done;
        value(at(sum).args[0], 0, done, tail);
        sums_.accumulate_again(sum);
      });
    });
  }
  /// Defines the numbers of a row that pass p needs first.
  void define_numbers(int p) {
    for (int id = 0; id < size(); ++id) {
      const auto& i = at(id);
      if (body_.is_vector(id) || is_uniform(id) || i.after_rows || i.stage != p || is_reduction(i)) continue;
      body_.define(id, false, false);
    }
  }

  void loop_over_rows() {
    if (only_sums_rows()) several_rows();
    out_.block("for (; r < rows; ++r)", [&] {
      unravel("r", role::row);
      row();
      sums_.end_row();
    });
  }

  /// Whether rows are only added to vectors of sums.
  bool only_sums_rows() const {
    bool sums = combines_ && k_.stages == 1 && !cuts_;
    for (const auto& i : k_.body)
      if (is_reduction(i)) sums = sums && i.span == reduce_scope::row && body_.is_vector(i.args[0]);
    for (const auto& s : k_.stores) sums = sums && (is_final_store(k_, s) || is_uniform_store(s));
    return sums;
  }

  /// Four rows at a time, so that a vector of sums is loaded and stored once for four rows.
  void several_rows() {
    out_.block("for (; r + 4 <= rows; r += 4)", [&] {
      over_inner([&](bool tail) {
        for (int id : work_of(k_, 0).reductions) sums_.load(id);
        out_.line("#pragma GCC unroll 4");
        out_.block("for (long u = 0; u < 4; ++u)", [&] {
          unravel("(r + u)", role::row);
          sorted_set<int> done;
          for (int id = 0; id < size(); ++id)
            if (!body_.is_vector(id) && !is_uniform(id) && !at(id).after_rows) body_.define(id, false, false);
          for (int id : work_of(k_, 0).reductions) {
            value(at(id).args[0], 0, done, tail);
            sums_.add(id);
          }
        });
        for (int id : work_of(k_, 0).reductions) sums_.store(id);
      });
    });
  }

  std::string chunk_bound(const std::string& rows, const std::string& c) const {
    if (k_.chunks == 1) return c == "c" ? "0" : "(" + rows + ")";
    return "(" + rows + ")*" + c + "/" + number(k_.chunks);
  }

  /// In an open row that is too long to keep its values, passes recompute them.
  void row() {
    const std::int64_t most = sums_.max_kept();
    if (!most || sums_.padded_inner().is_number()) return passes(most > 0);
    out_.block("if (" + sums_.padded_inner().text() + " <= " + number(most) + ")", [&] { passes(true); });
    out_.block("else", [&] { passes(false); });
  }

  void passes(bool keeps) {
    keeps_ = keeps;
    kept_in_.clear();
    if (keeps) sums_.declare_kept();
    for (int s = 0; s < k_.stages; ++s) {
      define_numbers(s);
      for (int id = 0; id < size(); ++id)
        if (at(id).span == reduce_scope::row && !body_.is_vector(at(id).args[0]) && at(at(id).args[0]).stage == s)
          out_.line(sums_.acc(id) + " = " + body_.combine(at(id).code, sums_.acc(id), body_.addend(at(id), false)) +
                    ";");
      for (const auto& st : k_.stores)
        if (!is_uniform_store(st) && !is_final_store(k_, st) && !body_.varies(st, inner_) && at(st.value).stage == s)
          body_.store(st, false, false, "");
      pass(s);
    }
  }

  // Passes

  void pass(int p) {
    const plan::work w = p == final_pass ? plan::work{{}, final_stores(k_).along} : work_of(k_, p);
    if (w.empty()) return;
    guards_ = guards_of(p);
    const int parts = sums_.parts_of(w.reductions);
    const series<int> fours = sums_.by_fours(w.reductions);
    for (int id : w.reductions) sums_.begin_reduction(id, parts);
    pass_ = p;
    over_inner(
        [&](bool tail) {
          sorted_set<int> done;
          for (int id : w.reductions) {
            value(at(id).args[0], p, done, tail);
            sums_.accumulate(id, tail);
          }
          for (const auto* s : w.stores) {
            value(s->value, p, done, tail);
            if (s->at.at.index >= 0) value(s->at.at.index, p, done, tail);
          }
          // Last, because a result may overwrite an operand.
          for (const auto* s : w.stores) body_.store(*s, true, tail, streams(*s));
          if (!tail) prefetch(k_, body_, done, p, out_);
        },
        parts, sums_.with_runs(w.reductions), fours);
    for (int id : w.reductions)
      if (sums_.may_be_lost(id, fours) && !sums_.has_runs(id))
        sums_.end_squares(id, body_.name(id), [&] {
          over_outer_inner([&] { add_again(id, k_.block ? "low" : "0", k_.block ? "high" : extent(last())); });
        });
      else sums_.end_reduction(id, parts);
  }

  /// Sums squares once more, vector by vector.
  void add_again(int id, const std::string& low, const std::string& high) {
    const std::string i = "i" + number(static_cast<std::int64_t>(last()));
    out_.block("for (long " + i + " = " + low + "; " + i + " < " + high + "; " + i + " += SINTER_W)", [&] {
      out_.line("const long n = " + high + " - " + i + " < SINTER_W ? " + high + " - " + i + " : SINTER_W;");
      sorted_set<int> done;
      value(at(id).args[0], pass_, done, true);
      sums_.accumulate(id, true);
    });
  }

  /// Whether loops are cut where guards change. They are not if vectors lie in an array of the row, or are counted, because
  /// pieces would not begin at every position.
  bool can_cut() const {
    bool guards = false, whole = false;
    for (const auto& i : k_.body) {
      guards = guards || (i.kind == kind::inside && i.axes != 0);
      whole =
          whole || i.kept || i.kind == kind::arg_reduce || (i.kind == kind::reduce && i.span != reduce_scope::inner);
    }
    return guards && !whole;
  }

  /// The guards of pass p.
  series<int> guards_of(int p) const {
    series<int> out;
    for (int id = 0; cuts_ && id < size(); ++id)
      if (at(id).kind == kind::inside && !(p == final_pass && (at(id).axes & row_))) out.push_back(id);
    return out;
  }

  /// The vector loop over [low, high) in pieces, in each of which every guard is one number. Vectors begin at multiples of
  /// their length, except the first of a piece. Guards that mostly hold are not tested where they do.
  template <class F>
  void cut_loop(const std::string& low, const std::string& high, F&& inside) {
    const std::string v = "i" + number(static_cast<std::int64_t>(last()));
    series<std::string> cuts, met;
    bool rarely = false;
    for (int id : guards_) {
      if (is_likely(at(id))) met.push_back(body_.name(id));
      else rarely = true;
      for (const auto& r : at(id).ranges)
        if (const dim& step = r.at.stride[last()]; !step.is(0))
          cuts.push_back("cut.range(" + index_text(r.at, [&](std::size_t a) { return a != last(); }) + ", " +
                         step.text() + ", " + r.extent.text() + ");");
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    out_.line("cuts<" + number(static_cast<std::int64_t>(cuts.size())) + "> cut(" + low + ", " + high + ");");
    for (const auto& c : cuts) out_.line(c);
    const auto length = k_.block ? std::optional(k_.block) : k_.axes[last()].extent.number();
    const auto loop = [&](body_printer::guards how) {
      body_.print_guards(how);
      out_.block("for (; " + v + " + SINTER_W <= end; " + v + " += SINTER_W)", [&] { inside(false); });
      body_.print_guards(body_printer::guards::cut);
    };
    std::string all;
    for (const auto& m : met) all += (all.empty() ? "" : " && ") + m;
    out_.block("for (int piece = 0; piece + 1 < cut.count; ++piece)", [&] {
      out_.line("const long first = cut.at[piece], end = cut.at[piece + 1];");
      for (int id : guards_)
        if (body_.is_vector(id))
          out_.line("const bool " + body_.name(id) + " = " + body_.inside(at(id), "first") + ";");
      out_.block("for (long " + v + " = first; " + v + " < end;)", [&] {
        if (!length || *length >= 4)
          out_.block("if (" + v + "%SINTER_W == 0)", [&] {
            if (!all.empty()) out_.block("if (" + all + ")", [&] { loop(body_printer::guards::met); });
            if (all.empty()) loop(body_printer::guards::cut);
            else if (rarely) out_.block("else", [&] { loop(body_printer::guards::cut); });
            out_.line("if (" + v + " == end) break;");
          });
        out_.line("const long room = SINTER_W - " + v + "%SINTER_W, n = end - " + v + " < room ? end - " + v +
                  " : room;");
        body_.print_guards(body_printer::guards::cut);
        inside(true);
        out_.line(v + " += n;");
      });
    });
    body_.print_guards(body_printer::guards::lanes);
  }

  /// The loops over the inner axes; `inside` prints for whole vectors, and for the first n lanes of a remainder.
  template <class F>
  void over_inner(F&& inside, int parts = 1, const series<int>& sums = {}, const series<int>& by_fours = {}) {
    const std::string v = "i" + number(static_cast<std::int64_t>(last()));
    auto vector_loop = [&](const std::string& low, const std::string& high) {
      if (!guards_.empty()) return cut_loop(low, high, inside);
      const auto length = k_.block ? std::optional(k_.block) : k_.axes[last()].extent.number();
      const bool whole = k_.axes[last()].extent.number().value_or(1) % 16 == 0;  // a block has whole vectors
      if (!length || *length >= 4) {
        out_.line("long " + v + " = " + low + ";");
        whole_vectors(inside, v, low, high, parts, by_fours);
      } else {
        out_.line("const long " + v + " = " + low + ";");
      }
      if (!whole)
        out_.block("if (" + v + " < " + high + ")", [&] {
          out_.line("const long n = " + high + " - " + v + ";");
          inside(true);
        });
    };
    const auto runs = [&] {
      const std::string low = k_.block ? "low" : "0", high = k_.block ? "high" : extent(last());
      if (sums.empty()) return vector_loop(low, high);
      const std::string step = number(fold_vectors * parts) + "*SINTER_W";
      out_.block("for (long from = " + low + "; from < " + high + "; from += " + step + ")", [&] {
        out_.line("const long to = " + high + " - from > " + step + " ? from + " + step + " : " + high + ";");
        for (int id : sums) sums_.begin_run(id);
        vector_loop("from", "to");
        for (int id : sums)
          if (sums_.may_be_lost(id, by_fours)) sums_.end_run_of_squares(id, [&] { add_again(id, "from", "to"); });
          else sums_.end_run(id, parts);
      });
    };
    out_.block("", [&] { over_outer_inner(runs); });
  }
  /// The loops over the inner axes except the last.
  template <class F>
  void over_outer_inner(F&& inside, std::size_t j = 0) {
    if (j + 1 == inner_axes_.size()) return inside();
    const std::string i = "i" + number(static_cast<std::int64_t>(inner_axes_[j]));
    out_.block("for (long " + i + " = 0; " + i + " < " + extent(inner_axes_[j]) + "; ++" + i + ")",
               [&] { over_outer_inner(inside, j + 1); });
  }

  /// The whole vectors of a row from `low`, several at once: `parts`, or four for sums that take four.
  template <class F>
  void whole_vectors(F&& inside, const std::string& v, const std::string& low, const std::string& high, int parts,
                     const series<int>& by_fours) {
    const auto vectors_to = [&](const std::string& end) {
      out_.block("for (; " + v + " + SINTER_W <= " + end + "; " + v + " += SINTER_W)", [&] { inside(false); });
    };
    if (parts > 1) {
      const std::string step = number(parts) + "*SINTER_W";
      out_.block("for (long z = " + low + "; z + " + step + " <= " + high + "; z += " + step + ", " + v + " = z)", [&] {
        sums_.begin_four(by_fours, parts);
        for (int part = 0; part < parts; ++part)
          out_.block("", [&] {
            out_.line("const long " + v + " = z + " + number(part) + "*SINTER_W;");
            sums_.choose(part);
            inside(false);
          });
        sums_.choose(0);
        sums_.end_four(by_fours);
      });
    } else if (!by_fours.empty()) {
      return out_.block("while (" + v + " + SINTER_W <= " + high + ")", [&] {
        out_.line("const long four = " + high + " - " + v + " > 4*SINTER_W ? " + v + " + 4*SINTER_W : " + high + ";");
        sums_.begin_four(by_fours, parts);
        vectors_to("four");
        sums_.end_four(by_fours);
      });
    }
    vectors_to(high);
  }

  /// Defines a value that varies along the inner axes, and its operands, once per pass.
  void value(int id, int p, sorted_set<int>& done, bool tail) {
    if (!body_.is_vector(id) || !done.insert(id).second) return;
    const auto& i = at(id);
    if (is_reduction(i)) {
      ensure(p == final_pass && i.span == reduce_scope::row, "a vector of column sums is read when the rows are done");
      return sums_.total(id);
    }
    const bool kept = i.kept && keeps_ && p != final_pass;
    if (kept && kept_in_.emplace(id, p).first->second < p) {
      out_.line("const " + vector_type(i.type) + " " + body_.name(id) + " = load(k" + number(id) + " + " +
                sums_.flat_inner() + ");");
      return;
    }
    for (int a : i.args) value(a, p, done, tail);
    if (i.at.at.index >= 0) value(i.at.at.index, p, done, tail);
    body_.define(id, true, tail);
    if (kept) out_.line("store(k" + number(id) + " + " + sums_.flat_inner() + ", " + body_.name(id) + ");");
  }

  /// Like stream_rule, as a name if it is a condition.
  std::string streams(const plan::store& s) const {
    const std::string rule = inner_axes_.empty() ? "" : stream_rule(k_, s, last());
    return rule.empty() || rule == "true" ? rule : "stream" + number(&s - k_.stores.begin());
  }

  /// The end of an outer position, after all its rows.
  void finish() {
    for (int id = 0; id < size(); ++id) {
      const auto& i = at(id);
      if (body_.is_vector(id) || is_uniform(id)) continue;
      if (is_reduction(i)) {
        if (i.after_rows) sums_.total_of_scalars(id);
      } else if (i.after_rows || (i.stage == 0 && !(i.axes & row_))) {
        body_.define(id, false, false);
      }
    }
    for (const auto& s : k_.stores)
      if (is_final_store(k_, s) && !body_.varies(s, inner_)) body_.store(s, false, false, "");
    pass(final_pass);
  }

  const kernel& k_;
  writer& out_;
  body_printer body_;
  std::uint32_t inner_ = 0, row_ = 0;
  series<std::size_t> inner_axes_;
  bool combines_ = false, cuts_ = false;
  int pass_ = 0;        ///< the printed pass
  series<int> guards_;  ///< of the printed pass, if loops are cut
  reduction_printer sums_;
  bool keeps_ = false;            ///< kept values are saved in the printed passes
  sorted_map<int, int> kept_in_;  ///< the pass that saves a kept value
};

}  // namespace sinter::engine::emit
