// jit/backends/code.hpp: a compiled graph: its results and steps; the common part of all backends.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include "../../base/callback.hpp"
#include "../../base/sorted.hpp"
#include "../../engine/engine.hpp"
#include "../../plan/fusion/fuse.hpp"
#include "../../plan/memory.hpp"
#include "../../report/kernels.hpp"
#include "../../report/memory.hpp"
#include "../../report/page.hpp"
#include "../../report/text.hpp"
#include "../../run/build/build.hpp"
#include "../../run/build/shared_text.hpp"
#include "../../run/cuda/program/graph.hpp"
#include "../../run/host/program.hpp"
#include "../../run/ranks.hpp"
#include "../../trace/size_space.hpp"

namespace sinter::engine::detail {

/// A result of a program: the node whose memory it is, and its extents.
struct result_spec {
  ir::node_id node = ir::no_node;
  ir::shape extents;
  dtype type = dtype::f32;
  int kind = -1;       ///< kind of the arguments whose storage can hold it; -1: none
  std::size_t at = 0;  ///< arguments can hold it that are unread from this step on
  series<std::size_t>
      also;              ///< and so can these, ascending: its kernel reads each element before it writes the same one
  std::size_t best = 0;  ///< the argument to try first: if all are donated, each result finds one at once
};

/// The facts of an argument for results: it can hold results of one kind, dtype and extents, that are written when it is free.
struct donor {
  int kind = -1;  ///< -1: none
  std::size_t free_from = 0;
};

/// Whether argument i, described by `d`, can hold the result.
inline bool can_hold(const donor& d, std::size_t i, const result_spec& r) {
  return d.kind >= 0 && d.kind == r.kind &&
         (d.free_from <= r.at || std::binary_search(r.also.begin(), r.also.end(), i));
}

/// The donors of each kind, in the order in which they become free.
inline series<series<std::size_t>> donors_by_kind(const series<donor>& donors) {
  series<series<std::size_t>> out;
  for (std::size_t i = 0; i < donors.size(); ++i) {
    if (donors[i].kind < 0) continue;
    const auto kind = static_cast<std::size_t>(donors[i].kind);
    if (out.size() <= kind) out.resize(kind + 1);
    out[kind].push_back(i);
  }
  for (auto& all : out)
    sort_stably(all, [&](std::size_t a, std::size_t b) { return donors[a].free_from < donors[b].free_from; });
  return out;
}

/// The texts of a program's kernels, in the order of its steps.
struct kernel_texts {
  series<run::shared_text> distinct;
  series<std::size_t> of;    ///< for each text, its index in `distinct`
  series<std::size_t> step;  ///< for each text, the report's step whose kernel it is, or is a part of

  void add(std::string_view text, std::size_t of_step) {
    const run::digest d = run::digest_of(text);
    const auto [at, fresh] = known_.emplace(std::pair(d.first, d.second), distinct.size());
    const bool known = !fresh && distinct[at->second] == text;
    of.push_back(known ? at->second : distinct.size());
    step.push_back(of_step);
    if (!known) distinct.push_back(run::shared_text(text));
  }
  /// Adds a text that equals text `known`.
  void add_again(std::size_t known, std::size_t of_step) {
    of.push_back(of[known]);
    step.push_back(of_step);
  }
  /// For each text, the result of building its distinct text: a compiler runs once for each.
  template <class Built>
  series<Built> in_order(series<Built> built) const {
    series<Built> out;
    for (const std::size_t i : of) {
      out.push_back(built[i]);
      built[i].from_cache = true;
    }
    return out;
  }

 private:
  sorted_map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> known_;  ///< by digest
};

struct sized;

/// The facts of a program that verify() needs.
struct build_capture {
  series<std::int64_t> sizes;            ///< the sizes to examine, for a layout with open ones
  std::shared_ptr<const sized> numbers;  ///< the steps for these sizes
  ir::graph graph;                       ///< the planned graph
  series<int> operand;                   ///< for each node, its index in the table of addresses; -1: not in memory
  series<series<ir::dim>> strides;       ///< per node of what kernels write; empty: row-major
  series<series<int>> written;           ///< for each kernel, the nodes to which it stores
  series<std::size_t> kernel;            ///< for each step, its kernel
};

/// A result for one set of sizes.
struct sized_result {
  std::int64_t extents[max_rank] = {};
  std::size_t bytes = 0;
};

/// The numbers of a program for one set of sizes.
struct sized {
  series<std::int64_t> sizes;
  series<sized_result> results;
  run::sequence kernels;         ///< on the host
  run::cuda::sequence launches;  ///< or on a GPU
};

/// The common part of all programs of one structure and layout.
struct code {
  ir::graph graph;  ///< the graph for the reference backend
  device where;
  bool interpreted = false;  ///< has no kernels
  /// A registered backend's call: arguments, sizes, results with memory; empty for the engine's own.
  sinter::detail::callback<void(const code&, std::span<const argument>, std::span<const std::int64_t>, output*)>
      foreign;
  size_layout layout;  ///< the source of symbols; without open sizes all are numbers
  series<result_spec> results;
  series<donor> donors;                               ///< per argument
  series<series<std::size_t>> donors_of;              ///< donors_by_kind()
  void (*fill)(void* plan, sized&) = nullptr;         ///< adds the steps, with the numbers for some sizes
  std::shared_ptr<void> plan;                         ///< the data that `fill` needs
  std::shared_ptr<const sized> fixed;                 ///< for a layout without open sizes
  std::shared_ptr<const run::program_guards> guards;  ///< of collectives, if ranks compare programs
  report about;                                       ///< without report::sources
  series<run::shared_text> sources;                   ///< the sources
  sinter::detail::callback<report(const code&)>
      reasons;  ///< plans again: a report with the reasons why kernels are separate, and their loops
  sinter::detail::callback<series<attention_report>()> attention;  ///< for explain()
  sinter::detail::callback<series<exchange_report>()> rings;       ///< the same
  reporting::page* page = nullptr;   ///< during compilation, if SINTER_TRACE requests a page
  build_capture* inside = nullptr;   ///< during compilation, if a caller examines the program
  kernel_texts texts;                ///< during compilation
  sorted_set<std::string> measured;  ///< during compilation: the keys of its measurements (autotune.hpp)
  /// During compilation for a host: receives the steps of a program of fixed sizes before their kernels are compiled.
  sinter::detail::callback<void(code&, sized&)> planned;
  run::clock::time_point began = run::clock::now();

  double milliseconds(run::clock::time_point at) const {
    return std::chrono::duration<double, std::milli>(at - began).count();
  }
  /// Adds the time of earlier stages: making the graph.
  void after(const trace_times& spent) {
    began -= std::chrono::duration_cast<run::clock::duration>(
        std::chrono::duration<double, std::milli>(spent.trace + spent.autodiff));
    about.stages.push_back({"trace", 0, spent.trace});
    if (spent.autodiff > 0) about.stages.push_back({"autodiff", spent.trace, spent.autodiff});
  }
  /// Adds the time since the last stage as stage `name`.
  void stage(const char* name) {
    double done = 0;
    for (const auto& s : about.stages) done = s.started + s.milliseconds;
    about.stages.push_back({name, done, milliseconds(run::clock::now()) - done});
  }
};

/// The code to compile, with the times of its trace.
inline std::shared_ptr<code> begun(const ir::graph& traced, device where, const size_layout& layout,
                                   build_capture* inside, const trace_times& spent) {
  auto c = make_on_heap<code>();
  c->after(spent);
  c->inside = inside;
  c->layout = layout;
  c->where = where;
  c->about.nodes_traced = traced.live().size();
  return c;
}

/// The plans of all parts, one after another, each after its parent's plan.
template <class Plan, class F>
void for_each_plan(Plan& p, F&& f) {
  f(p);
  for (auto& parts : p.parts)
    for (auto& part : parts) for_each_plan(part, f);
}

/// The report of a program.
inline report told(const code& c) {
  report out = c.about;
  for (const auto& text : c.sources) out.sources.push_back(text.str());
  return out;
}

/// Whether compilation itself needs the reasons why kernels are separate: for the log, or a page.
inline bool wants_reasons(const code& c) { return c.page != nullptr || logs::enabled("fusion"); }

/// Adds the counts of planning a graph.
inline void report_planning(code& c, const plan::fused& f) {
  c.about.kernels_unfused += f.unfused;
  c.about.lowered += f.lowered;
  c.about.tried += f.tried;
}

/// Reports the kernels, and those that stay separate; kernel k runs at step number[k] of the program.
inline void report_kernels(code& c, const ir::graph& g, const series<plan::kernel>& kernels,
                           std::span<const std::size_t> number, const series<plan::neighbours>& apart,
                           std::span<const std::int64_t> sizes) {
  auto& steps = c.about.steps;
  series<std::string> names, spaces;  // of a step's kernels
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    kernel_report r = reporting::describe(kernels[k], g, sizes);
    names.push_back(r.name);
    spaces.push_back(r.space);
    if (number[k] == steps.size()) {
      steps.push_back(std::move(r));
    } else {
      kernel_report& all = steps[number[k]];
      for (auto& o : r.ops) reporting::add_op(all.ops, std::move(o));
      all.read += r.read;
      all.written += r.written;
      all.flops += r.flops;
    }
    if (k + 1 < kernels.size() && number[k + 1] < steps.size()) continue;
    steps.back().name = plan::joined(names, " | ");
    steps.back().space = plan::joined(spaces, " | ");
    names.clear();
    spaces.clear();
  }
  for (const auto& a : apart)
    if (number[a.first] != number[a.second])
      c.about.apart.push_back({number[a.first], number[a.second], plan::in_words(g, a.why)});
}

/// The ops of each step since `first`, a line for each; nothing while calls are not traced.
inline series<std::string> told_ops(const code& c, std::size_t first) {
  series<std::string> out(c.about.steps.size() - first);
  for (std::size_t k = 0; run::is_traced() && k < out.size(); ++k)
    out[k] = reporting::text_of_ops(c.about.steps[first + k]);
  return out;
}

/// Reports the origin of step k's code.
inline void report_origin(code& c, std::size_t k, std::int64_t source, const run::origin& from) {
  kernel_report& r = c.about.steps[k];
  r.source = source;
  r.tier = from.tier;
  r.milliseconds = from.milliseconds;
  r.started = std::max(0.0, c.milliseconds(from.began));
}

/// Reports the origins of kernels: the texts of one step are one source, and equal texts the same source.
template <class Built>
void report_modules(code& c, std::span<const Built> modules) {
  const kernel_texts& texts = c.texts;
  series<run::shared_text>& sources = c.sources;
  sorted_map<std::string, std::size_t> known;  // by the indexes of its texts
  for (std::size_t k = 0; k < modules.size();) {
    const std::size_t step = texts.step[k], first = k;
    const run::origin* slowest = nullptr;  // they are compiled at the same time
    std::string of;
    bool cached = true;
    for (; k < modules.size() && texts.step[k] == step; ++k) {
      if (!slowest || modules[k].from.milliseconds > slowest->milliseconds) slowest = &modules[k].from;
      cached = cached && modules[k].from_cache;
      of += std::to_string(texts.of[k]) + " ";
    }
    c.about.compiled += !cached;
    const auto [at, fresh] = known.emplace(of, sources.size());
    if (fresh) {
      std::string text = texts.distinct[texts.of[first]].str();
      for (std::size_t i = first + 1; i < k; ++i) text += "\n" + texts.distinct[texts.of[i]].str();
      sources.push_back(run::shared_text(text));
    }
    report_origin(c, step, static_cast<std::int64_t>(at->second), *slowest);
  }
}

inline series<argument> all_arguments(std::span<const argument> given, const capture_list& captures) {
  series<argument> all(given.begin(), given.end());
  for (const auto& c : captures)
    all.push_back({c.data, &c.memory, c.type, static_cast<int>(c.extents.size()), c.extents.data(), c.strides.data(),
                   c.by_value});
  return all;
}

/// Gives results that share a node, or are inputs, their own node; a reshaped result is its operand's memory.
inline series<result_spec> separate_results(ir::graph& g) {
  series<result_spec> results;
  series<char> taken(g.size(), 0);
  for (auto id : g.inputs) taken[id] = 1;
  for (auto& out : g.outputs) {
    ir::node_id id = out;
    while (g[id].code == ir::op::reshape) id = g[id].in[0];
    if (taken[id]) id = g.mark(out);
    taken.resize(g.size(), 0);
    taken[id] = 1;
    result_spec r;
    r.node = id;
    r.type = g[out].type;
    r.extents = g[out].extents;
    out = id;
    results.push_back(std::move(r));
  }
  return results;
}

inline series<std::int64_t> hints_of(const size_layout& l) {
  series<std::int64_t> hints;
  if (l.any_open())
    for (const open_size& s : l.sizes) hints.push_back(s.hint());
  return hints;
}

inline plan::memory_map layout_of(const ir::graph& g, std::span<const argument> arguments, const size_layout& l) {
  plan::memory_map m;
  m.strides.resize(g.size());
  m.hints = hints_of(l);
  for (std::size_t i = 0; i < g.inputs.size(); ++i) {
    auto& strides = m.strides[g.inputs[i]];
    if (i < l.tensors.size()) strides = open_strides(l, i);
    else strides.assign(arguments[i].strides, arguments[i].strides + arguments[i].rank);
  }
  return m;
}

inline bool is_row_major(const ir::shape& extents, const series<ir::dim>& strides) {
  ir::dim step = 1;
  for (std::size_t d = extents.size(); d-- > 0; step *= extents[d])
    if (!extents[d].is(1) && strides[d] != step) return false;
  return true;
}

/// The buffers of kernels.
struct binding {
  series<int> operand;              ///< for each node: inputs first, then results, then intermediates; -1: not a buffer
  int operands = 0;                 ///< their number
  series<series<ir::dim>> strides;  ///< per node of what kernels write; empty: row-major
  series<std::int64_t> intermediates;  ///< offsets in the scratch block
  series<plan::lifetime> lives;        ///< of the intermediates
  series<int> from;                    ///< for each, the index of the one whose memory it takes over, or -1
  std::int64_t scratch_bytes = 0;
};

/// Whether intermediates are few enough that each has its own memory, so that steps may overlap.
inline bool lie_apart(const series<plan::lifetime>& lives, std::int64_t max_apart) {
  std::int64_t total = 0;
  for (const auto& life : lives) total += life.bytes;
  return total <= max_apart;
}

/// Numbers the buffers and places the intermediates. Kernel k runs at step when[k], ascending; kernels of one step run at once.
/// Intermediates that need at most `max_apart` bytes do not share memory.
inline binding bind_operands(const series<result_spec>& results, const ir::graph& g,
                             const series<plan::kernel>& kernels, const series<series<ir::dim>>& strides,
                             std::span<const std::size_t> when, std::span<const std::int64_t> sizes,
                             std::int64_t max_apart = 0) {
  binding b;
  b.strides = strides;
  b.operand.resize(g.size(), -1);
  const auto number = [&](std::size_t id) {
    if (b.operand[id] < 0) b.operand[id] = b.operands++;
  };
  for (auto id : g.inputs) number(id);
  for (const auto& r : results) number(r.node);
  sorted_set<int> given;
  for (std::size_t id = 0; id < g.size(); ++id)
    if (b.operand[id] >= 0) given.insert(static_cast<int>(id));
  auto lives = plan::lifetimes(g, kernels, strides, given, sizes);
  for (auto& life : lives) {
    life.first = when[life.first];
    life.last = when[life.last];
  }
  for (const auto& life : lives) number(static_cast<std::size_t>(life.buffer));
  series<plan::lifetime> held = lives;
  if (lie_apart(lives, max_apart)) {
    b.from.assign(lives.size(), -1);
    for (auto& life : held) life.first = 0, life.last = when.size();
  } else {
    b.from = plan::taken_over(g, lives, plan::replacements(kernels, when));
  }
  plan::placed_lives placed = plan::place_in_turn(held, b.from);
  b.intermediates = std::move(placed.offset);
  b.scratch_bytes = placed.bytes;
  b.lives = std::move(lives);
  return b;
}

/// Reports the buffers in memory when the program needs most, for the sizes of the traced call; after find_replaceable().
inline void report_peak(code& c, const ir::graph& g, const binding& where) {
  series<ir::node_id> own;
  for (const result_spec& r : c.results)
    if (r.best >= c.donors.size()) own.push_back(r.node);
  c.about.peak = reporting::memory_at_most(g, where.lives, where.from, own, hints_of(c.layout));
}

/// Draws the planned graph and its memory on the page, if there is one, and fills build_capture, if requested.
inline void picture_plan(code& c, const ir::graph& g, const series<plan::kernel>& kernels,
                         std::span<const std::size_t> when, const binding& where) {
  if (c.inside) {
    c.inside->graph = g;
    c.inside->operand = where.operand;
    c.inside->strides = where.strides;
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      if (c.inside->written.size() <= when[k]) c.inside->written.resize(when[k] + 1);
      for (const auto& b : kernels[k].buffers)
        if (b.written) c.inside->written[when[k]].push_back(b.id);
    }
  }
  if (!c.page) return;
  c.page->graphs.push_back({"plan", g});
  c.page->kernel.assign(g.size(), -1);
  for (std::size_t k = kernels.size(); k-- > 0;) {
    for (const auto& i : kernels[k].body)
      if (i.node != ir::no_node) c.page->kernel[i.node] = static_cast<int>(when[k]);
    for (const auto& b : kernels[k].buffers)
      if (b.written) c.page->kernel[static_cast<std::size_t>(b.id)] = static_cast<int>(when[k]);
  }
  // Nodes that one kernel uses and no kernel stores: views, and reductions that are read where they are computed.
  series<int> only(g.size(), -1);
  for (auto id = static_cast<ir::node_id>(g.size()); id-- > 0;) {
    int& k = c.page->kernel[id];
    if (k < 0 && !g[id].in.empty() && only[id] >= 0) k = only[id];
    for (auto in : g[id].in) only[in] = only[in] == -1 || only[in] == k ? k : -2;
  }
  for (const auto& life : where.lives)
    c.page->memory.push_back({"%" + std::to_string(life.buffer), life.first, life.last,
                              where.intermediates[c.page->memory.size()], life.bytes});
}

/// Whether a step calls a user's function, which may throw; on a GPU, functions that are kernels do not count.
inline bool calls_user(const ir::opaque& step, bool gpu) {
  if (step.kind == ir::opaque_kind::custom || step.kind == ir::opaque_kind::host_call)
    return !gpu || step.function->gpu.source.empty();
  return std::any_of(step.parts.begin(), step.parts.end(), [&](const ir::graph& part) {
    const auto live = part.live();
    return std::any_of(live.begin(), live.end(), [&](ir::node_id id) {
      return part[id].code == ir::op::opaque && calls_user(*part[id].attr.step, gpu);
    });
  });
}

/// Finds, for every result, the arguments whose storage can hold it. There are none if a user's function runs later, because
/// a call that throws must leave its arguments unchanged.
inline void find_replaceable(code& c, const ir::graph& g, const series<plan::kernel>& kernels,
                             std::span<const std::size_t> when, std::span<const argument> arguments) {
  const plan::memory_map layout = layout_of(g, arguments, c.layout);
  const plan::replacements known(kernels, when);
  std::size_t quiet_from = 0;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (kernels[k].is_opaque() && calls_user(*g[kernels[k].opaque].attr.step, c.where.is_cuda()))
      quiet_from = std::max(quiet_from, when[k] + 1);
  sorted_map<std::string, int> kinds;
  const auto kind_of = [&](dtype type, const ir::shape& extents) {
    return kinds.emplace(dtype_name(type) + ir::text_of(extents), static_cast<int>(kinds.size())).first->second;
  };
  series<std::size_t> number(g.size(), arguments.size());  // of inputs among the arguments
  c.donors.resize(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ir::node_id id = g.inputs[i];
    number[id] = i;
    if (arguments[i].by_value || !is_row_major(g[id].extents, layout.strides[id])) continue;
    c.donors[i] = {kind_of(arguments[i].type, g[id].extents), known.free_from(static_cast<int>(id))};
  }
  const series<series<std::size_t>> of_kind = donors_by_kind(c.donors);
  series<std::size_t> next(of_kind.size(), 0);
  series<char> taken(arguments.size(), 0);
  for (auto& r : c.results) {
    r.best = arguments.size();
    const auto at = known.written_at(static_cast<int>(r.node));
    const auto kind = kinds.find(dtype_name(r.type) + ir::text_of(r.extents));
    if (!at || *at < quiet_from || kind == kinds.end()) continue;
    r.kind = kind->second;
    r.at = *at;
    for (const int id : known.read_in_place(static_cast<int>(r.node)))
      if (const std::size_t i = number[static_cast<std::size_t>(id)];
          i < arguments.size() && c.donors[i].kind == r.kind)
        r.also.push_back(i);
    sort_stably(r.also, std::less());
    const auto& all = of_kind[static_cast<std::size_t>(r.kind)];
    std::size_t& first = next[static_cast<std::size_t>(r.kind)];
    for (const std::size_t i : r.also)
      if (!taken[i] && r.best == arguments.size()) r.best = i;
    while (first < all.size() && taken[all[first]]) ++first;
    if (r.best == arguments.size() && first < all.size() && c.donors[all[first]].free_from <= r.at) r.best = all[first];
    if (r.best < arguments.size()) taken[r.best] = 1;
  }
}

/// The numbers of a program for some sizes.
inline std::shared_ptr<const sized> make_sized(const code& c, std::span<const std::int64_t> sizes) {
  auto out = make_on_heap<sized>();
  out->sizes.assign(sizes.begin(), sizes.end());
  for (const auto& r : c.results) {
    sized_result one;
    one.bytes = size_of(r.type);
    for (std::size_t d = 0; d < r.extents.size(); ++d) {
      one.extents[d] = r.extents[d].evaluate(sizes);
      one.bytes *= static_cast<std::size_t>(one.extents[d]);
    }
    out->results.push_back(one);
  }
  if (c.interpreted) return out;
  c.fill(c.plan.get(), *out);
  return out;
}

/// Finishes a program with its numbers, for the sizes of the traced call.
inline void finalize(code& c) {
  c.donors_of = donors_by_kind(c.donors);
  const auto first = make_sized(c, c.inside && c.layout.any_open() ? c.inside->sizes : hints_of(c.layout));
  if (c.inside) c.inside->numbers = first;
  c.about.scratch_bytes =
      static_cast<std::size_t>(c.where.is_cuda() ? first->launches.scratch_bytes : first->kernels.scratch_bytes);
  if (c.layout.any_open()) return;
  c.fixed = first;
  c.plan = nullptr;
}

}  // namespace sinter::engine::detail
