// emit/cpu/sort.hpp: a sort -> parallel rows, each copied as keys and places, which a function of the prelude sorts; a search
// -> parallel elements.
#pragma once

#include "../../base/series.hpp"
#include "body.hpp"
#include "memory.hpp"
#include "stream.hpp"

namespace sinter::engine::emit {

namespace detail {

inline int instruction_of(const kernel& k, kind what) {
  int id = 0;
  while (k.body[static_cast<std::size_t>(id)].kind != what) ++id;
  return id;
}

inline series<std::size_t> axes_with(const kernel& k, role r) {
  series<std::size_t> out;
  for (std::size_t a = 0; a < k.axes.size(); ++a)
    if (k.axes[a].role == r) out.push_back(a);
  return out;
}

}  // namespace detail

class sort_printer {
 public:
  sort_printer(const kernel& k, writer& out)
      : k_(k), out_(out), body_(k, out), sort_(detail::instruction_of(k, kind::sort)) {
    sorted_ = detail::axes_with(k, role::row);
  }

  /// Prints the loops; returns the scratch memory that they use: two rows of keys and places for each thread.
  scratch_use print() {
    const instruction& s = body_.at(sort_);
    const std::int64_t word = size_of(compute_type(body_.at(s.args[0]).type)) == 8 ? 8 : 4;
    const dim rows = k_.extent(role::outer), length = k_.extent(role::row);
    scratch_use memory;
    memory.shared = scratch_use::header;
    memory.sums = length * dim(4 * word) + dim(64);
    memory.tasks = rows;
    for (int id = 0; id < sort_; ++id)
      if (body_.at(id).axes == 0) body_.define(id, false, false);
    parallel_loop(k_, out_, "for (long t = 0; t < " + rows.text() + "; ++t)", !rows.is(1), false, memory, [&] {
      unravel("t", detail::axes_with(k_, role::outer));
      out_.line("typedef ranked<" + std::string(word == 8 ? "s_u64" : "s_u32") + "> item;");
      out_.line("item* const row = (item*)mine;");
      out_.line("long n = 0;");
      take(0);
      out_.at(s.where);
      out_.line("const long count = " + s.ranges[0].extent.text() + ";");
      out_.line("const item* const sorted = sort_row(row, row + n, n, count);");
      out_.block("for (long j = 0; j < count; ++j)", [&] {
        unravel("j", sorted_);
        out_.line("const s_i64 " + body_.name(sort_) + " = (s_i64)sorted[j].place;");
        for (const auto& to : k_.stores) body_.store(to, false, false, "");
      });
    });
    return memory;
  }

 private:
  void unravel(const std::string& flat, const series<std::size_t>& axes) {
    print_unraveled(
        flat, axes, [&](std::size_t a) { return "(" + k_.axes[a].extent.text() + ")"; }, out_);
  }
  void take(std::size_t j) {
    if (j < sorted_.size()) {
      const std::string i = "i" + std::to_string(sorted_[j]);
      return out_.block("for (long " + i + " = 0; " + i + " < " + k_.axes[sorted_[j]].extent.text() + "; ++" + i + ")",
                        [&] { take(j + 1); });
    }
    for (int id = 0; id < sort_; ++id)
      if (body_.at(id).axes != 0) body_.define(id, false, false);
    const instruction& s = body_.at(sort_);
    out_.line("row[n].key = sort_key(" + body_.operand(s.args[0], false) + ", " + (s.reverse ? "true" : "false") +
              ");");
    out_.line("row[n].place = n;");
    out_.line("++n;");
  }

  const kernel& k_;
  writer& out_;
  body_printer body_;
  series<std::size_t> sorted_;
  int sort_;
};

/// Several searches at a time: first the values and bounds, then all places, then the stores.
inline void print_search(const kernel& k, writer& out) {
  body_printer body(k, out);
  const int search = detail::instruction_of(k, kind::search);
  const instruction& s = body.at(search);
  const auto each = [&](const std::string& limit, const std::string& number, auto f) {
    out.block("for (long k = 0; k < " + limit + "; ++k)", [&] {
      out.line("const long t = first + " + number + ";");
      print_unraveled(
          "t", detail::axes_with(k, role::outer), [&](std::size_t a) { return "(" + k.axes[a].extent.text() + ")"; },
          out);
      f();
    });
  };
  for (int id = 0; id < search; ++id)
    if (body.at(id).axes == 0) body.define(id, false, false);
  const std::string total = "(" + k.extent(role::outer).text() + ")";
  if (const std::string pragma = omp_for(k); !pragma.empty()) out.line(pragma);
  const std::string searches = "16";
  out.block("for (long first = 0; first < " + total + "; first += " + searches + ")", [&] {
    const auto& from = k.buffers[static_cast<std::size_t>(s.at.buffer)];
    out.line("const long some = " + total + " - first < " + searches + " ? " + total + " - first : " + searches + ";");
    out.line("const " + memory_type(from.type) + "* rows[" + searches + "];");
    out.line(scalar_type(body.at(s.args[0]).type) + " wanted[" + searches + "];");
    out.line("s_i64 places[" + searches + "];");
    each(searches, "(k < some ? k : some - 1)", [&] {
      for (int id = 0; id < search; ++id)
        if (body.at(id).axes != 0) body.define(id, false, false);
      out.line("rows[k] = " + body.address(s.at) + ";");
      out.line("wanted[k] = " + body.operand(s.args[0], false) + ";");
    });
    out.at(s.where);
    out.line("search_some<" + std::string(s.reverse ? "true" : "false") + ">(rows, " + s.ranges[0].at.offset.text() +
             ", " + s.ranges[0].extent.text() + ", wanted, places);");
    each("some", "k", [&] {
      out.line("const s_i64 " + body.name(search) + " = places[k];");
      for (const auto& to : k.stores) body.store(to, false, false, "");
    });
  });
}

}  // namespace sinter::engine::emit
