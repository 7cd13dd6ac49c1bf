// jit/library/programs.hpp: the sets of sizes of an exported function, each traced, planned and printed as C functions.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "../../engine/export.hpp"
#include "../../rewrite/rewrite.hpp"
#include "../../run/build/cache.hpp"
#include "../../trace/sizes.hpp"
#include "steps.hpp"

namespace sinter::engine::detail {

/// A program of a library, for sizes that fit it.
struct library_program {
  series<std::int64_t> sizes;  ///< of its trace
  std::shared_ptr<tracer> traced;
  series<series<std::int64_t>> extents;  ///< of the arguments in the trace
  series<argument> arguments;            ///< without owners, row-major; `extents` and `strides` hold their numbers
  series<series<std::int64_t>> strides;  ///< of rows
  series<series<std::int64_t>> given;    ///< strides of the call's tensors
  code made;
  cpu_plan plan;
  cuda_plan on_gpu;               ///< of a library for GPUs, in place of `plan`
  series<std::size_t> kernel_of;  ///< for each text, the library's kernel
  series<storage> held;           ///< the arguments' memory
  series<std::size_t> place;      ///< of each input and result of the graph among the library's
};

/// The kernels of a library, each once.
struct library_kernels {
  series<std::string> texts;
  std::map<std::string, std::size_t> known;
  gpu_entries entries;  ///< of a library for GPUs

  std::size_t add(std::string text) {
    const auto [at, fresh] = known.emplace(std::move(text), texts.size());
    if (fresh) texts.push_back(at->first);
    return at->second;
  }
};

/// Adds why a graph cannot leave to `reasons`: the functions of the engine, of libraries and of users that it calls.
inline void refuse_calls(const ir::graph& g, series<std::string>& reasons) {
  for (const ir::node_id id : g.live()) {
    if (ir::is_collective(g[id].code)) {
      std::string reason = std::string("'") + ir::name(g[id].code) + "' meets other ranks";
      if (g[id].where.line > 0) reason += sinter::detail::located("", g[id].where);
      if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) reasons.push_back(std::move(reason));
    }
    if (g[id].code != ir::op::opaque) continue;
    const ir::opaque& step = *g[id].attr.step;
    if (step.kind == ir::opaque_kind::custom || step.kind == ir::opaque_kind::host_call) {
      const std::string what =
          step.kind == ir::opaque_kind::custom ? "a function of this program" : "a call of this program";
      const std::string name = step.kind == ir::opaque_kind::custom && step.function && !step.function->name.empty()
                                   ? step.function->name
                                   : ir::name(step);
      std::string reason = "'" + name + "' is " + what;
      if (g[id].where.line > 0) reason += sinter::detail::located("", g[id].where);
      if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) reasons.push_back(std::move(reason));
    }
    for (const ir::graph& part : step.parts) refuse_calls(part, reasons);
  }
}

/// The layout that keeps the open sizes of a call open: those of at least 2 elements.
inline size_layout open_layout(const library_request& what, const call& c, std::span<const std::int64_t> sizes) {
  size_layout l;
  lay_out(l, c);
  series<int> symbol(what.sizes.size(), -1);
  for (std::size_t i = 0; i < what.inputs.size(); ++i)
    for (std::size_t d = 0; d < what.inputs[i].size_of.size(); ++d) {
      const int k = what.inputs[i].size_of[d];
      if (k < 0 || sizes[static_cast<std::size_t>(k)] < 2 || what.sizes[static_cast<std::size_t>(k)].most < 3) continue;
      const library_size& of = what.sizes[static_cast<std::size_t>(k)];
      int& known = symbol[static_cast<std::size_t>(k)];
      if (known < 0) {
        known = static_cast<int>(l.sizes.size());
        open_size s;
        s.number = sizes[static_cast<std::size_t>(k)];
        s.offset = std::max<std::int64_t>(of.least - 2, 0);
        s.most = of.most;
        l.sizes.push_back(std::move(s));
      }
      l.sizes[static_cast<std::size_t>(known)].extents.push_back({static_cast<int>(i), static_cast<int>(d)});
      l.size_of_axis[static_cast<std::size_t>(l.tensors[i].first) + d] = known;
      l.tensors[i].open = true;
    }
  for (std::size_t i = 0; i < l.tensors.size(); ++i) {
    if (!l.tensors[i].open) continue;
    l.tensors[i].dense = true;
    for (int d = 0; d < l.tensors[i].rank; ++d) l.tensors[i].order.push_back(d);
  }
  return l;
}

/// The library's size behind a size of a program.
inline std::size_t size_behind(const library_request& what, const open_size& s) {
  const fact_of f = s.extents[0];
  return static_cast<std::size_t>(
      what.inputs[static_cast<std::size_t>(f.tensor)].size_of[static_cast<std::size_t>(f.axis)]);
}

/// Whether sizes fit a program.
inline bool fits(const library_request& what, const library_program& p, std::span<const std::int64_t> sizes) {
  series<char> open(sizes.size(), 0);
  const size_layout& l = p.made.layout;
  series<std::int64_t> symbols(l.sizes.size(), 0);
  for (std::size_t j = 0; j < l.sizes.size(); ++j) {
    const open_size& s = l.sizes[j];
    const std::size_t k = size_behind(what, s);
    open[k] = 1;
    const std::int64_t above = sizes[k] - s.offset;
    if (s.derived) continue;
    if (above < 2 * s.factor || sizes[k] > s.most || above % s.factor != 0) return false;
    symbols[j] = above / s.factor;
  }
  const std::span<const std::int64_t> bound(symbols.data(), symbols.size());
  for (const size_guard& g : l.guards) {
    const std::int64_t v = g.value.evaluate(bound);
    if ((g.positive ? v > 0 : v == 0) != g.holds) return false;
  }
  for (const open_size& s : l.sizes)
    if (s.derived && s.value.evaluate(bound) != sizes[size_behind(what, s)]) return false;
  for (std::size_t k = 0; k < sizes.size(); ++k)
    if (!open[k] && sizes[k] != p.sizes[k]) return false;
  return true;
}

/// The symbols' values for the largest sizes.
inline series<std::int64_t> largest_symbols(const library_request& what, const size_layout& l) {
  series<std::int64_t> out;
  for (const open_size& s : l.sizes)
    out.push_back(s.derived ? 0 : (std::min(s.most, what.sizes[size_behind(what, s)].most) - s.offset) / s.factor);
  return out;
}

/// The arguments of a program, with their extents and strides.
inline std::span<const argument> prepared_arguments(library_program& p) {
  for (std::size_t i = 0; i < p.arguments.size(); ++i) {
    p.arguments[i].extents = p.extents[i].data();
    p.arguments[i].strides = p.strides[i].data();
  }
  return {p.arguments.data(), p.arguments.size()};
}

/// Finds each text of a program among the library's kernels.
inline void number_kernels(library_program& p, library_kernels& kernels) {
  series<std::size_t> number;
  for (const auto& text : p.made.texts.distinct) number.push_back(kernels.add(run::without_places(text.str())));
  for (const std::size_t of : p.made.texts.of) p.kernel_of.push_back(number[of]);
}

/// Rewrites, plans and prints the traced program.
inline void plan_program(library_program& p, library_kernels& kernels) {
  code& c = p.made;
  const std::span<const argument> arguments = prepared_arguments(p);
  c.graph = rewrite::run_all(p.traced->graph);
  c.about.nodes_traced = p.traced->graph.live().size();
  p.plan = plan_cpu(
      c, c.graph, series<char>(p.arguments.size(), 0),
      [&](const ir::graph& separate, const series<result_spec>&) { return layout_of(separate, arguments, c.layout); },
      "", false);
  c.results = p.plan.results;
  for_each_plan(p.plan, [&](cpu_plan& one) { print_cpu(c, one); });
  find_replaceable(c, p.plan.graph, p.plan.fused.kernels, p.plan.shared.step, arguments);
  number_kernels(p, kernels);
}

/// The C functions of a program, and its row of the table `programs`.
struct printed_program {
  std::string text, row;
  std::size_t symbols = 0, kept = 0;  ///< `kept`: numbers that its steps read
  std::int64_t room = 0;              ///< for the largest sizes
};

/// The function that tells whether sizes fit, and the symbols' values.
inline std::string print_fits(const library_request& what, const library_program& p, const std::string& prefix) {
  const size_layout& l = p.made.layout;
  std::string body = "  (void)n, (void)z;\n";
  series<char> open(what.sizes.size(), 0);
  std::string symbols;
  for (std::size_t j = 0; j < l.sizes.size(); ++j) {
    const open_size& s = l.sizes[j];
    const std::string n = "n[" + std::to_string(size_behind(what, s)) + "]", z = "z[" + std::to_string(j) + "]",
                      offset = std::to_string(s.offset), factor = std::to_string(s.factor);
    open[size_behind(what, s)] = 1;
    if (s.derived) {
      body += "  " + z + " = 0;\n";
      continue;
    }
    body += "  if (" + n + " - " + offset + " < " + std::to_string(2 * s.factor) + " || " + n + " > " +
            std::to_string(std::min(s.most, what.sizes[size_behind(what, s)].most));
    body += (s.factor > 1 ? " || (" + n + " - " + offset + ") % " + factor : "") + ") return 0;\n  " + z + " = (" + n +
            " - " + offset + ") / " + factor + ";\n";
    symbols += "  const long s" + std::to_string(j) + " = " + z + ";\n  (void)s" + std::to_string(j) + ";\n";
  }
  body += symbols;
  for (const size_guard& g : l.guards)
    body += "  if (" + std::string(g.holds ? "!" : "") + "(" + g.value.text() + (g.positive ? " > 0" : " == 0") +
            ")) return 0;\n";
  for (const open_size& s : l.sizes)
    if (s.derived)
      body += "  if (n[" + std::to_string(size_behind(what, s)) + "] != " + s.value.text() + ") return 0;\n";
  for (std::size_t k = 0; k < open.size(); ++k)
    if (!open[k]) body += "  if (n[" + std::to_string(k) + "] != " + std::to_string(p.sizes[k]) + ") return 0;\n";
  return "static int " + prefix + "_fits(const long* n, long* z) {\n" + body + "  return 1;\n}\n";
}

/// The function that gives the extents of all results.
inline std::string print_extents(const library_program& p, const std::string& prefix) {
  std::string body = "  (void)z, (void)e;\n";
  for (std::size_t k = 0; k < p.made.layout.sizes.size(); ++k)
    body += "  const long s" + std::to_string(k) + " = z[" + std::to_string(k) + "];\n  (void)s" + std::to_string(k) +
            ";\n";
  std::size_t at = 0;
  for (const result_spec& r : p.made.results)
    for (const ir::dim& d : r.extents) body += "  e[" + std::to_string(at++) + "] = " + d.text() + ";\n";
  return "static void " + prefix + "_extents(const long* z, int64_t* e) {\n" + body + "}\n";
}

/// The pairs of a result and an input that may share memory, in the order of the library's inputs `place`.
inline series<std::pair<std::size_t, std::size_t>> shared_pairs(const library_program& p, const series<int>& input_of) {
  series<std::pair<std::size_t, std::size_t>> out;
  for (std::size_t r = 0; r < p.made.results.size(); ++r)
    for (std::size_t i = 0; i < p.made.donors.size(); ++i)
      if (const int input = input_of[p.place[i]]; input >= 0 && can_hold(p.made.donors[i], i, p.made.results[r]))
        out.push_back({r, static_cast<std::size_t>(input)});
  return out;
}

inline printed_program print_program(const library_request& what, const library_program& p, const std::string& prefix,
                                     const series<int>& input_of, gpu_entries& entries) {
  const size_layout& l = p.made.layout;
  const bool several = what.how.threads == library_threads::openmp;
  c_numbers numbers(l.any_open() ? largest_symbols(what, l) : series<std::int64_t>{});
  const bool gpu = what.is_for_gpus();
  step_printer steps(numbers, prefix, p.kernel_of, hints_of(l), several, gpu ? &entries : nullptr);
  const c_function root = gpu ? steps.print(p.on_gpu, p.place) : steps.print(p.plan, p.place);
  printed_program out;
  out.symbols = l.sizes.size();
  out.kept = numbers.kept();
  out.room = root.scratch_bytes.n;
  const std::string bytes = root.scratch_bytes.str();
  std::string pairs;
  for (const auto& [result, input] : shared_pairs(p, input_of))
    pairs += std::to_string(result) + ", " + std::to_string(input) + ", ";
  out.text = steps.text() + "static long " + prefix +
             "_places(const long* z, long threads, long* at) {\n  (void)z, (void)threads, (void)at;\n" +
             numbers.text() + "  return " + bytes + ";\n}\n" + print_fits(what, p, prefix) + print_extents(p, prefix) +
             "static const int " + prefix + "_may_share[] = {" + pairs + "-1};\n";
  out.row = "{" + prefix + "_fits, " + prefix + "_places, " + prefix + "_extents, " + root.name + ", " + prefix +
            "_may_share, " + std::to_string(out.kept) + "}";
  return out;
}

}  // namespace sinter::engine::detail
