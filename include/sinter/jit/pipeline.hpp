// jit/pipeline.hpp: the whole pipeline, one line for each stage: traced graph -> callable program.
#pragma once

#include <algorithm>
#include <chrono>
#include <unordered_map>

// Code on the path of every call, optimised by the program's flags.
#include "../base/callback.hpp"
#include "../base/local_list.hpp"
#include "../base/series.hpp"
#include "../dispatch/dispatch.hpp"
#include "../dispatch/eager_programs.hpp"
#include "../dispatch/segments.hpp"
#include "../engine/engine.hpp"
#include "../guards/sizes.hpp"
#include "../loops/rows.hpp"
#include "../run/host/program.hpp"
#include "../services/caches.hpp"
#include "../services/devices.hpp"
#include "../services/libraries.hpp"
#include "../services/streams.hpp"
#include "../trace/nested.hpp"

// Code that runs once per specialisation.
#include "../base/engine_begin.hpp"

#include "../autodiff/budget.hpp"
#include "../autodiff/jacobian.hpp"
#include "../autodiff/partition.hpp"
#include "../batch/placements.hpp"
#include "../batch/push_lanes.hpp"
#include "../ir/define.hpp"
#include "../report/text.hpp"
#include "../rewrite/rewrite.hpp"
#include "../run/background.hpp"
#include "../run/progress.hpp"
#include "../services/onnxruntime.hpp"
#include "autotune_attention.hpp"
#include "backends/table.hpp"
#include "check/finite.hpp"
#include "check/minimize.hpp"
#include "check/verify.hpp"
#include "collectives.hpp"
#include "passes.hpp"
#include "saved_program.hpp"

// After check/, which declares the functions that it needs of them.
#include "../trace/public_graph.hpp"
#include "../trace/saved_graph.hpp"
#include "../trace/sizes.hpp"
#include "../trace/traces.hpp"
#include "library/export.hpp"

namespace sinter::engine {

namespace detail {

inline void check_pass(const ir::graph& g, const char* pass) {
#if SINTER_CHECK_PASSES
  ir::check(g, pass);
#endif
  logs::to("graph", [&] { return std::string("after ") + pass + "\n" + ir::print(g); });
}

/// The device of all arguments, including captures after the `given` ones; `otherwise` without arguments. user_error that
/// names two on different devices, and the line of one, an input of g.
SINTER_API device common_device(const ir::graph& g, std::span<const argument> all, std::size_t given,
                                const options& how, device otherwise) {
  const argument* first = nullptr;
  const auto named = [&](const argument& a) {
    const auto index = static_cast<std::size_t>(&a - all.data());
    dims extents(a.rank);
    std::copy_n(a.extents, a.rank, extents.extent);
    return (index < given ? "tensor " + std::to_string(index) + " of the arguments" : "a captured tensor") + ", " +
           text::shape(extents) + ", is on " + a.where().text();
  };
  for (const auto& a : all) {
    if (a.by_value) continue;
    if (!first) first = &a;
    else if (!(a.where() == first->where()))
      fail(how.name, "the call mixes devices: " + named(*first) + "; " + named(a) + "; move one with .to(device)",
           g[g.inputs[static_cast<std::size_t>(&a - all.data())]].where);
  }
  return first ? first->where() : otherwise;
}

/// Keeps the passes' graphs for a page.
class pass_recorder final : public rewrite::observer {
 public:
  explicit pass_recorder(reporting::page& p) : page_(p) {}
  void after(const char* pass, const ir::graph& g) override { page_.graphs.push_back({pass, g}); }

 private:
  reporting::page& page_;
};

/// Warns that a function is interpreted because its kernels cannot be made; false for a momentary problem, and where nothing
/// shall be compiled nor interpreted.
SINTER_API bool tell_interpreted(const system_error& problem, const std::string& name, device where) {
  if (dynamic_cast<const sinter::detail::momentary_error*>(&problem)) return false;
  if (where.is_cuda() ? run::cuda::is_lost() : run::compiles_nothing()) return false;
  const auto* const compiler = dynamic_cast<const run::compile_error*>(&problem);
  logs::warn_once(logs::printable(name) + " runs on the reference backend, which is slow: " + problem.what(),
                  compiler != nullptr ? compiler->cause() : problem.what());
  return true;
}

/// Whether a log shows the stages of the graph.
inline bool tells_stages() {
  return logs::enabled("graph") || logs::enabled("fusion") || logs::enabled("schedule") || logs::enabled("loops") ||
         logs::enabled("output_code");
}

/// Reports the memory of arguments and results, for the sizes of the traced call.
inline void count_memory(code& c, std::span<const argument> arguments) {
  const auto hints = hints_of(c.layout);
  for (const argument& a : arguments) {
    std::size_t bytes = size_of(a.type);
    for (int d = 0; d < a.rank; ++d) bytes *= static_cast<std::size_t>(a.extents[d]);
    c.about.argument_bytes += bytes;
  }
  for (const result_spec& r : c.results) {
    const auto bytes = static_cast<std::size_t>(ir::product(r.extents).evaluate(hints)) * size_of(r.type);
    c.about.result_bytes += bytes;
    if (r.best < c.donors.size()) c.about.replaced_bytes += bytes;
  }
}

/// The compiled code, with its times.
SINTER_API std::shared_ptr<const code> finished(std::shared_ptr<code> c, std::span<const argument> arguments,
                                                const options& how) {
  c->texts = {};
  c->measured.clear();
  count_memory(*c, arguments);
  c->about.copies = static_cast<std::size_t>(std::count_if(c->about.steps.begin(), c->about.steps.end(),
                                                           [](const kernel_report& k) { return k.name == "copy"; }));
  c->about.milliseconds = c->milliseconds(run::clock::now());
  logs::to("perf", [&] {
    return logs::printable(how.name) + ": " + std::to_string(c->about.nodes_traced) + " nodes, " +
           std::to_string(c->about.nodes_rewritten) + " rewritten, " + std::to_string(c->about.kernels) + " kernels, " +
           std::to_string(c->about.compiled) + " compiled, " + text::number(c->about.milliseconds) + " ms";
  });
  return c;
}

/// The facts of arguments that planning needs, which outlive a call.
class argument_facts {
 public:
  explicit argument_facts(std::span<const argument> all) : all_(all.begin(), all.end()) {
    for (auto& a : all_) {
      a.owner = nullptr;
      extents_.push_back({a.extents, a.extents + a.rank});
      strides_.push_back({a.strides, a.strides + a.rank});
    }
  }
  series<argument> get() const {
    series<argument> out = all_;
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].extents = extents_[i].data();
      out[i].strides = strides_[i].data();
    }
    return out;
  }

 private:
  series<argument> all_;
  series<series<std::int64_t>> extents_, strides_;
};

/// Loads c, the program of a graph with steps, as another process has planned it; false if it is to be planned here.
inline bool loaded(code& c, saved_program& saved, const ir::graph& ready, std::span<const argument> arguments,
                   const options& how) {
  if (!saved.load(c)) return false;
  c.graph = ready;
  options then = how;
  then.passes = {};  // the graph has been through them
  c.reasons = [how = then, facts = argument_facts(arguments)](const code& made) {
    const auto again = facts.get();
    const auto planned = compile(made.graph, {again.data(), again.size()}, how, made.where, made.layout, nullptr, "");
    return planned->reasons ? planned->reasons(*planned) : report();
  };
  return true;
}

/// Makes c from the traced graph. `kept` receives the passes if c has a page.
inline void make(code& c, const backend& chosen, const ir::graph& traced, std::span<const argument> arguments,
                 const options& how, pass_recorder& kept) {
  const ir::graph& g = c.graph;
  if (chosen.rewrites) {
    c.graph = rewrite::run_all(traced, c.page ? &kept : nullptr, detail::attention_kernels(c, chosen, how));
    check_pass(g, "rewrite");
    c.stage("rewrite");
  } else {
    c.graph = traced;
  }
  c.about.nodes_rewritten = g.live().size();
  c.about.graph = ir::print(g);
  // If the GPU itself is unusable, no backend can answer.
  if (chosen.compiles && c.where.is_cuda()) run::cuda::device_at(c.where.index);
  try {
    chosen.make(c, g, arguments, how);
  } catch (const system_error& problem) {
    if (!chosen.compiles || !tell_interpreted(problem, how.name, c.where)) throw;
    interpret_instead(c);
    c.about.problem = problem.what();
  }
}

/// `structure` identifies programs (code_table); empty if files on disk are unusable.
SINTER_API std::shared_ptr<const code> compile(const ir::graph& given, std::span<const argument> arguments,
                                               const options& how, device where, const size_layout& layout,
                                               build_capture* inside, const std::string& structure,
                                               const trace_times& spent) {
  const run::progress shown(how.name, how.progress && !run::background::is_here());
  ir::graph passed;
  if (!how.passes.empty()) passed = after_passes(given, how);
  const ir::graph& traced = how.passes.empty() ? given : passed;
  const auto c = begun(traced, where, layout, inside, spent);
  reporting::page page{how.name, {}, {}, {}};
  pass_recorder kept(page);
  if (run::is_traced() && !inside) c->page = &page;
  if (c->page) kept.after("trace", traced);
  const backend& chosen =
      backend_for(how, where, traced.outputs.empty() ? location{} : traced[traced.outputs[0]].where);
  c->about.backend = chosen.name;
  check_pass(traced, "trace");
  const run::cache_folder_scope cached(how.cache_dir);
  ir::graph with;
  const bool exchanges = has_collectives(traced);
  if (exchanges) {
    const std::string rings = run::world().compares_programs() ? rings_text(given, where, how) : "";
    c->guards = compared_guards(given, how.name, rings);
    with = with_steps(traced, where, how, c->about.collectives);
    if (rewrite::may_have_rings(traced))
      c->rings = [traced, how, on = c->where] { return ring_reports(traced, on, how); };
  }
  const ir::graph& ready = exchanges ? with : traced;
  saved_program saved(traced, ready, where, structure,
                      chosen.compiles && !chosen.registered && !structure.empty() && !layout.any_open() && !c->page &&
                          !inside && c->about.nodes_traced >= min_nodes_saved && !tells_stages());
  if (!loaded(*c, saved, ready, arguments, how)) {
    c->planned = [&saved](code& of, sized& steps) { saved.save(of, steps); };
    make(*c, chosen, ready, arguments, how, kept);
    c->planned = {};
    saved.save(*c);
  }
  if (chosen.compiles && chosen.fuses && may_have_attention(traced))
    c->attention = [traced, &chosen, how, on = c->where] { return composed_attention(traced, chosen, on, how); };
  if (c->page) run::write_page(reporting::file_name(how.name), reporting::html(page, told(*c)));
  c->page = nullptr;
  c->inside = nullptr;
  return finished(c, arguments, how);
}

}  // namespace detail
}  // namespace sinter::engine

#include "../base/engine_end.hpp"

namespace sinter::engine {

SINTER_API std::shared_ptr<tracer>& current() {
  static thread_local std::shared_ptr<tracer> t;
  return t;
}

namespace detail {

class bound_program final : public program {
 public:
  bound_program(std::shared_ptr<const code> c, capture_list captures, std::shared_ptr<run::cuda::scratch_pool> pool,
                std::string name)
      : code_(std::move(c)), captures_(std::move(captures)), pool_(std::move(pool)), name_(std::move(name)) {
    if (code_->fixed) fixed_ = make_on_heap<const instance>(code_->fixed, pool_, std::uint64_t{1});
  }

  void run(std::span<const argument> arguments, std::span<const argument> numbers, std::span<const std::uint8_t> donate,
           output* outputs) const override {
    const run::noted_span noted("call", name_);
    if (code_->guards) run::world().begin_call(code_->guards);
    if (fixed_) return run_instance(*fixed_, arguments, numbers, donate, outputs);
    std::shared_ptr<const instance> one;
    try {
      one = instance_for(arguments);
    } catch (const system_error& problem) {  // of kernels that only these sizes need
      if (code_->interpreted || !tell_interpreted(problem, name_, code_->where)) throw;
    }
    if (one) return run_instance(*one, arguments, numbers, donate, outputs);
    interpreted()->run(arguments, numbers, {}, outputs);
  }

  std::size_t output_count() const override { return code_->results.size(); }
  report describe() const override { return told(*code_); }
  std::size_t text_bytes() const override {
    std::size_t n = code_->about.graph.size();
    for (const auto& s : code_->sources) n += s.size();
    return n;
  }
  report explain() const override {
    report out = told(*code_);
    if (code_->attention) out.attention = code_->attention();
    if (code_->rings) out.exchanges = code_->rings();
    if (!code_->reasons) return out;
    report more = code_->reasons(*code_);
    if (out.apart.empty()) out.apart = std::move(more.apart);
    for (std::size_t k = 0; k < std::min(out.steps.size(), more.steps.size()); ++k)
      out.steps[k].loops = std::move(more.steps[k].loops);
    return out;
  }

 private:
  /// The numbers for some sizes, and on a GPU their recorded calls.
  struct instance {
    instance(std::shared_ptr<const sized> n, const std::shared_ptr<run::cuda::scratch_pool>& pool, std::uint64_t alone)
        : numbers(std::move(n)) {
      if (pool) recorded = std::make_unique<run::cuda::recording>(numbers->launches, pool, alone);
    }
    std::shared_ptr<const sized> numbers;
    std::unique_ptr<run::cuda::recording> recorded;  ///< thread-safe
  };

  /// The same program without kernels.
  std::shared_ptr<const program> interpreted() const {
    const std::lock_guard lock(mutex_);
    if (!interpreted_) {
      auto c = make_on_heap<code>();
      c->graph = code_->graph;
      c->where = code_->where;
      c->layout = code_->layout;
      interpret_instead(*c);
      interpreted_ = make_on_heap<bound_program>(std::move(c), capture_list(captures_), nullptr, name_);
    }
    return interpreted_;
  }

  /// The instance for this call's sizes, among the last few sizes.
  std::shared_ptr<const instance> instance_for(std::span<const argument> arguments) const {
    size_list sizes(code_->layout.sizes.size());
    read_sizes(code_->layout, arguments, sizes.data());
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < open_.size(); ++i)
        if (std::equal(sizes.all().begin(), sizes.all().end(), open_[i]->numbers->sizes.begin())) {
          if (i > 0) std::swap(open_[i], open_[i / 2]);
          return open_[i / 2];
        }
    }
    auto made = make_on_heap<const instance>(make_sized(*code_, sizes), pool_, hot_calls);
    const std::lock_guard lock(mutex_);
    if (open_.size() == max_instances) open_.pop_back();
    open_.push_back(made);
    return made;
  }

  void run_instance(const instance& one, std::span<const argument> arguments, std::span<const argument> numbers,
                    std::span<const std::uint8_t> donate, output* outputs) const {
    const bool replaces = !donate.empty() && take_donated(arguments, donate, outputs);
    try {
      fill(one, arguments, numbers, outputs, replaces);
    } catch (...) {
      if (replaces) give_back(arguments, outputs);
      throw;
    }
  }

  /// With `replaces`, some results have the memory of arguments.
  [[gnu::always_inline]] void fill(const instance& one, std::span<const argument> arguments,
                                   std::span<const argument> numbers, output* outputs, bool replaces) const {
    const sized& s = *one.numbers;
    const auto& results = code_->results;
    sinter::detail::local_list<void*, 256> table(arguments.size() + numbers.size() + captures_.size() + results.size());
    std::size_t at = 0;
    for (const auto& a : arguments) table[at++] = a.data;
    for (const auto& a : numbers) table[at++] = a.data;
    for (const auto& c : captures_) table[at++] = c.data;
    for (std::size_t k = 0; k < results.size(); ++k) {
      const result_spec& r = results[k];
      output& o = outputs[k];
      std::copy_n(s.results[k].extents, r.extents.size(), o.extents);
      o.rank = static_cast<int>(r.extents.size());
      o.type = r.type;
      if (!replaces || !o.memory) o.memory = room_for(k, s.results[k]);
      table[at++] = o.memory.data();
    }
    const std::span<const std::int64_t> sizes(s.sizes.data(), s.sizes.size());
    if (code_->where.is_cuda()) use_all(arguments, outputs, replaces);
    if (code_->interpreted) {
      series<argument> given(arguments.begin(), arguments.end());
      given.insert(given.end(), numbers.begin(), numbers.end());
      const auto all = all_arguments({given.data(), given.size()}, captures_);
      if (code_->foreign) return code_->foreign(*code_, all, sizes, outputs);
      return interpret(*code_, all, sizes, outputs);
    }
    if (!code_->where.is_cuda()) return run::execute(s.kernels, table, sizes.data());
    if (one.recorded) one.recorded->launch(table, sizes.data());
    else run::cuda::execute(s.launches, table, sizes.data());
  }

  /// Waits for other streams' work on the operands.
  void use_all(std::span<const argument> arguments, const output* outputs, bool replaces) const {
    for (const auto& a : arguments)
      if (!a.by_value) run::cuda::use(*a.owner, false);
    for (const auto& c : captures_)
      if (!c.by_value) run::cuda::use(c.memory, false);
    for (std::size_t k = 0; replaces && k < code_->results.size(); ++k) run::cuda::use(outputs[k].memory, true);
  }

  /// Memory for a result. Throws momentary_error that names the function and the line.
  storage room_for(std::size_t k, const sized_result& r) const {
    try {
      return allocate(r.bytes, code_->where);
    } catch (const system_error& lacks) {
      const ir::graph& g = code_->graph;
      const location at = k < g.outputs.size() ? g[g.outputs[k]].where : location{};
      throw sinter::detail::momentary_error("[" + name_ + "] " + sinter::detail::located(lacks.what(), at));
    }
  }

  /// Moves the storage of donated arguments to results. No other handle may refer to it, and the result's kernel must be
  /// allowed to overwrite it. True if a result takes some.
  [[gnu::noinline]] bool take_donated(std::span<const argument> arguments, std::span<const std::uint8_t> donate,
                                      output* outputs) const {
    const std::size_t n = code_->results.size();
    std::size_t taken = 0, without = 0;
    for (std::size_t k = 0; k < n; ++k) {
      const result_spec& r = code_->results[k];
      outputs[k].memory = {};
      if (r.kind < 0) continue;
      if (takes(arguments, donate, r.best, outputs[k])) ++taken;
      else ++without;
    }
    if (without > 0) taken += take_others(arguments, donate, outputs);
    if (taken == 0) return false;
    std::size_t emptied = 0;
    for (const auto& a : arguments) emptied += is_taken(a);
    if (emptied == taken) return true;
    give_back(arguments, outputs);  // one handle is two arguments, and kernels read the other one
    return false;
  }

  /// Does so for results that could not take their best argument. Returns their number.
  [[gnu::noinline]] std::size_t take_others(std::span<const argument> arguments, std::span<const std::uint8_t> donate,
                                            output* outputs) const {
    sinter::detail::local_list<std::size_t, 64> next(
        code_->donors_of.size());  // for each kind, the next argument to try
    std::fill_n(next.data(), next.size(), std::size_t{0});
    const auto takes_any = [&](const result_spec& r, output& o) {
      for (const std::size_t i : r.also)
        if (takes(arguments, donate, i, o)) return true;
      const auto& all = code_->donors_of[static_cast<std::size_t>(r.kind)];
      for (std::size_t& at = next[static_cast<std::size_t>(r.kind)]; at < all.size(); ++at) {
        const std::size_t i = all[at];
        if (code_->donors[i].free_from > r.at) return false;  // and so are the arguments after it
        if (takes(arguments, donate, i, o)) return true;
      }
      return false;
    };
    std::size_t taken = 0;
    for (std::size_t k = 0; k < code_->results.size(); ++k)
      if (const result_spec& r = code_->results[k]; r.kind >= 0 && !outputs[k].memory)
        taken += takes_any(r, outputs[k]);
    return taken;
  }

  /// Whether the result takes argument i, which holds its kind.
  bool takes(std::span<const argument> arguments, std::span<const std::uint8_t> donate, std::size_t i,
             output& o) const {
    if (i >= donate.size() || !donate[i]) return false;
    const argument& a = arguments[i];
    if (!(a.where() == code_->where) || !a.owner->unique() || a.data != a.owner->data() ||
        reinterpret_cast<std::uintptr_t>(a.data) % 64 != 0)
      return false;
    o.memory = std::move(memory_of(a));
    return true;
  }

  /// The storage of a donated argument, which is not const.
  static storage& memory_of(const argument& a) { return const_cast<storage&>(*a.owner); }
  static bool is_taken(const argument& a) { return a.owner && !*a.owner; }
  /// Undoes take_donated.
  SINTER_COLD void give_back(std::span<const argument> arguments, output* outputs) const {
    output* const end = outputs + code_->results.size();
    for (const auto& a : arguments) {
      if (!is_taken(a)) continue;
      const auto has = [&](const output& o) { return o.memory && o.memory.data() == a.data; };
      if (output* const at = std::find_if(outputs, end, has); at != end) memory_of(a) = std::move(at->memory);
    }
  }

  std::shared_ptr<const code> code_;
  const capture_list captures_;
  std::shared_ptr<run::cuda::scratch_pool> pool_;  ///< for recorded calls on a GPU
  std::string name_;                               ///< the function's
  std::shared_ptr<const instance> fixed_;          ///< for a program whose sizes are numbers

  static constexpr std::size_t max_instances = 16;
  static constexpr std::uint64_t hot_calls = 8;  ///< number of calls with the same sizes before these are recorded
  mutable std::mutex mutex_;
  mutable series<std::shared_ptr<const instance>> open_;
  mutable std::shared_ptr<const program> interpreted_;
};

/// Programs of this process by structure.
class code_table {
 public:
  std::shared_ptr<const code> get(const ir::graph& traced, std::span<const argument> arguments, const options& how,
                                  device where, const size_layout& layout, const trace_times& spent) {
    if (!passes_are_versioned(how)) return compile(traced, arguments, how, where, layout, nullptr, "", spent);
    const backend* const named = backend_named(how.backend);
    std::string key = how.backend + " " + (named ? named->version : "") + " " + where.text() +
                      (how.deterministic ? " d" : "") + (is_recorded(how.mode) ? " r" : "") +
                      (measures(how) ? " t" + forced_way() + "\n" + machine_text(where) : "") +
                      (how.precision == precision::high ? " h" : "") +
                      (how.chunks == chunks::automatic ? ""
                       : how.chunks == chunks::always  ? " c"
                                                       : " w") +
                      world_key(where) + "\n" + passes_key(how) + ir::print(traced);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const argument& a = arguments[i];
      key += std::to_string(kernel_facts(a));
      series<ir::dim> strides(a.strides, a.strides + a.rank);
      if (i < layout.tensors.size()) strides = open_strides(layout, i);
      for (int d = 0; d < a.rank; ++d) key += (d ? "," : " ") + strides[static_cast<std::size_t>(d)].text();
      key += ";";
    }
    // The extents of a call from which the symbols are determined.
    for (const open_size& s : layout.sizes)
      key += std::to_string(s.extents[0].tensor) + "." + std::to_string(s.extents[0].axis) + " " +
             (s.derived ? s.value.text() : std::to_string(s.factor) + "+" + std::to_string(s.offset)) + ";";
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = known_.find(key); at != known_.end()) return at->second;
    }
    auto made = compile(traced, arguments, how, where, layout, nullptr, key, spent);
    // A fallback is not kept, because the next function may find a compiler.
    if (made->interpreted && made->about.backend != how.backend) return made;
    std::unordered_map<std::string, std::shared_ptr<const code>>
        gone;  // freed without the lock: it may hold users' functions
    const std::lock_guard lock(mutex_);
    if (known_.size() >= max_programs) known_.swap(gone);
    return known_.emplace(std::move(key), std::move(made)).first->second;
  }

 private:
  static constexpr std::size_t max_programs = 4096;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const code>> known_;
};

}  // namespace detail

SINTER_API std::shared_ptr<const program> build(std::shared_ptr<tracer> traced, std::span<const argument> arguments,
                                                const options& how, device where, std::shared_ptr<void>* shared) {
  if (const backend_facts* const b = find_backend(how.backend); b && b->records && !is_recorded(how.mode)) {
    options recorded = how;
    recorded.mode = mode::reduce_overhead;
    return build(std::move(traced), arguments, recorded, where, shared);
  }
  static auto& table = *new detail::code_table;  // threads may outlive statics
  const auto all = detail::all_arguments(arguments, traced->captures);
  const device common = detail::common_device(traced->graph, all, arguments.size(), how, where);
  location first;
  const std::string rings = run::world().compares_programs() ? detail::rings_text(traced->graph, common, how) : "";
  const bool exchanges = !run::background::is_here() && detail::agree_on_program(traced->graph, how.name, rings, first);
  const detail::compilation_scope compiling(exchanges, first);
  auto code = table.get(traced->graph, all, how, common, traced->assumed.layout, traced->spent);
  std::shared_ptr<run::cuda::scratch_pool> pool;
  if (is_recorded(how.mode) && common.is_cuda() && !code->interpreted) {
    pool = shared ? std::static_pointer_cast<run::cuda::scratch_pool>(*shared) : nullptr;
    if (!pool) pool = make_on_heap<run::cuda::scratch_pool>();
    if (shared) *shared = pool;
  }
  if (!how.check_finite)
    return make_on_heap<detail::bound_program>(std::move(code), std::move(traced->captures), std::move(pool), how.name);
  auto made =
      make_on_heap<detail::bound_program>(std::move(code), capture_list(traced->captures), std::move(pool), how.name);
  return make_on_heap<detail::finite_program>(std::move(made), traced->graph, std::move(traced->captures),
                                              traced->assumed.layout, how.name);
}

namespace detail {
/// The result of f(), which makes a derivative, timed for the report.
template <class F>
auto timed_derivative(tracer& t, F&& f) {
  const double start = milliseconds_now();
  auto result = f();
  t.outermost().spent.autodiff += milliseconds_now() - start;
  return result;
}
}  // namespace detail

SINTER_API series<ir::node_id> gradient(tracer& t, ir::node_id y, std::span<const ir::node_id> wrt, location where) {
  const tracer& all = t.outermost();
  return detail::timed_derivative(t, [&] {
    if (all.memory_budget < 1) return autodiff::gradient_within(t.graph, y, wrt, all.memory_budget, where);
    return autodiff::gradient_with(t.graph, y, wrt, detail::attention_kernels(all.backend, all.where), where);
  });
}
SINTER_API series<ir::node_id> jvp(tracer& t, std::span<const ir::node_id> outputs, std::span<const ir::node_id> wrt,
                                   std::span<const ir::node_id> tangents) {
  return detail::timed_derivative(t, [&] { return autodiff::jvp(t.graph, outputs, wrt, tangents); });
}
SINTER_API series<ir::node_id> vjp(tracer& t, std::span<const ir::node_id> outputs,
                                   std::span<const ir::node_id> cotangents, std::span<const ir::node_id> wrt,
                                   location where) {
  return detail::timed_derivative(t, [&] { return autodiff::vjp(t.graph, outputs, cotangents, wrt, where); });
}
SINTER_API linear_part linear(tracer& t, std::span<const ir::node_id> outputs, std::span<const ir::node_id> wrt,
                              bool transposed, location where) {
  return detail::timed_derivative(t, [&] { return autodiff::linear(t.graph, outputs, wrt, transposed, where); });
}

SINTER_API void answer(traced& t, std::span<const argument> arguments, const options& how, device where) {
  if (t.answer) return;
  const auto code = build(t.graph, arguments, how, where);
  series<output> results(code->output_count());
  code->run(arguments, {}, results.data());
  t.answer.emplace();
  for (const auto& r : results) t.answer->push_back(detail::to_captured(r));
}

}  // namespace sinter::engine
