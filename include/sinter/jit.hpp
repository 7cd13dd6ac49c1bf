// jit.hpp: the whole pipeline, one line a stage: traced graph -> callable program.
#pragma once

#include <chrono>
#include <unordered_map>

#include "autodiff/vjp.hpp"
#include "devices.hpp"
#include "dispatch.hpp"
#include "emit/cpu.hpp"
#include "engine.hpp"
#include "ir/define.hpp"
#include "plan/memory.hpp"
#include "rewrite/rewrite.hpp"
#include "run/build.hpp"
#include "run/program.hpp"

namespace sinter::engine {

SINTER_API std::shared_ptr<tracer>& current() {
  static thread_local std::shared_ptr<tracer> t;
  return t;
}

SINTER_API ir::node_id tracer::capture(const argument& x, location where) {
  for (std::size_t i = 0; i < captures.size(); ++i) {
    const captured& c = captures[i];
    if (c.data == x.data && c.type == x.type &&
        std::equal(c.extents.begin(), c.extents.end(), x.extents, x.extents + x.rank) &&
        std::equal(c.strides.begin(), c.strides.end(), x.strides, x.strides + x.rank))
      return capture_nodes_[i];
  }
  captures.push_back(
      {*x.owner, x.data, x.type, {x.extents, x.extents + x.rank}, {x.strides, x.strides + x.rank}, x.by_value});
  capture_nodes_.push_back(graph.add_input(x.type, ir::shape(x.extents, x.extents + x.rank), where));
  return capture_nodes_.back();
}

namespace detail {

/// A result of a program: the node whose memory it is, and its extents.
struct result_spec {
  ir::node_id node = ir::no_node;
  std::vector<std::int64_t> extents;
  dtype type = dtype::f32;
  std::vector<char> may_replace;  ///< per argument: its storage can hold the result
};

/// What every program of one structure and layout shares.
struct code {
  ir::graph graph;  ///< as the reference backend interprets it
  bool interpreted = false;
  run::sequence kernels;
  std::vector<result_spec> results;
  report about;
};

inline std::vector<argument> all_arguments(std::span<const argument> given, const std::vector<captured>& captures) {
  std::vector<argument> all(given.begin(), given.end());
  for (const auto& c : captures)
    all.push_back({c.data, &c.memory, c.type, static_cast<int>(c.extents.size()), c.extents.data(), c.strides.data(),
                   c.by_value});
  return all;
}

// The reference backend

inline ir::literal_array read(const argument& x) {
  ir::literal_array out;
  out.type = x.type;
  out.extents.assign(x.extents, x.extents + x.rank);
  std::int64_t n = 1;
  for (auto e : out.extents) n *= e;
  dispatch(x.type, [&]<class T>(std::type_identity<T>) {
    std::vector<std::int64_t> at(static_cast<std::size_t>(x.rank));
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t offset = 0, rest = i;
      for (int d = x.rank; d-- > 0;) {
        offset += rest % x.extents[d] * x.strides[d];
        rest /= x.extents[d];
      }
      const T value = static_cast<const T*>(x.data)[offset];
      if constexpr (is_float(dtype_of<T>))
        out.f.push_back(
            static_cast<double>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value)));
      else out.i.push_back(static_cast<std::int64_t>(value));
    }
  });
  return out;
}

inline void write(const ir::literal_array& x, void* to) {
  dispatch(x.type, [&]<class T>(std::type_identity<T>) {
    T* const p = static_cast<T*>(to);
    if constexpr (std::is_same_v<T, double>) std::copy(x.f.begin(), x.f.end(), p);
    else if constexpr (is_float(dtype_of<T>))
      std::transform(x.f.begin(), x.f.end(), p, [](double v) { return T(static_cast<float>(v)); });
    else std::transform(x.i.begin(), x.i.end(), p, [](std::int64_t v) { return static_cast<T>(v); });
  });
}

inline void interpret(const code& c, std::span<const argument> arguments, output* outputs) {
  std::vector<ir::literal_array> inputs;
  for (const auto& a : arguments) inputs.push_back(read(a));
  const auto values = ir::evaluate(c.graph, inputs);
  for (std::size_t k = 0; k < values.size(); ++k) write(values[k], outputs[k].memory.data());
}

// Compilation

inline void check_pass(const ir::graph& g, const char* pass) {
#if SINTER_CHECK_PASSES
  ir::check(g, pass);
#endif
  logs::to("graph", [&] { return std::string("after ") + pass + "\n" + ir::print(g); });
}

/// Results that share a node, or are inputs, get a node of their own; a reshaped result is its operand's memory.
inline std::vector<result_spec> separate_results(ir::graph& g) {
  std::vector<result_spec> results;
  std::set<ir::node_id> taken(g.inputs.begin(), g.inputs.end());
  for (auto& out : g.outputs) {
    ir::node_id id = out;
    while (g[id].code == ir::op::reshape) id = g[id].in[0];
    if (taken.count(id)) id = g.mark(out);
    taken.insert(id);
    result_spec r;
    r.node = id;
    r.type = g[out].type;
    for (const auto& e : g[out].extents) r.extents.push_back(e.evaluate({}));
    out = id;
    results.push_back(std::move(r));
  }
  return results;
}

inline plan::memory_map layout_of(const ir::graph& g, std::span<const argument> arguments) {
  plan::memory_map m;
  m.strides.resize(g.size());
  for (std::size_t i = 0; i < g.inputs.size(); ++i)
    m.strides[g.inputs[i]].assign(arguments[i].strides, arguments[i].strides + arguments[i].rank);
  return m;
}

inline bool is_row_major(const argument& a) {
  std::int64_t s = 1;
  for (int d = a.rank; d-- > 0; s *= a.extents[d])
    if (a.extents[d] != 1 && a.strides[d] != s) return false;
  return true;
}

/// Binds kernels to addresses: inputs, then results, then intermediates.
inline void assemble(code& c, const ir::graph& g, const plan::fused& plan, const std::vector<emit::source>& sources,
                     const std::vector<run::built>& modules, std::span<const argument> arguments) {
  std::map<int, int> operand;
  std::set<int> given;
  for (auto id : g.inputs) operand.emplace(static_cast<int>(id), static_cast<int>(operand.size()));
  for (auto& r : c.results) operand.emplace(static_cast<int>(r.node), static_cast<int>(operand.size()));
  for (const auto& [id, at] : operand) given.insert(id);
  const auto lives = plan::lifetimes(g, plan.kernels, given, {});
  const plan::arena arena = plan::place(lives);
  for (const auto& life : lives) {
    operand.emplace(life.buffer, static_cast<int>(operand.size()));
    c.kernels.intermediates.push_back(arena.offset.at(life.buffer));
  }
  std::int64_t most = 0;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    run::step s;
    s.code = modules[k].code;
    s.entry = s.code->symbol<run::kernel_function>(emit::cpu_entry);
    for (const auto& b : plan.kernels[k].buffers) s.operands.push_back(operand.at(b.id));
    s.scratch = arena.bytes;
    most = std::max(most, sources[k].scratch.evaluate({}));
    c.kernels.steps.push_back(std::move(s));
  }
  c.kernels.scratch_bytes = arena.bytes + most;
  for (auto& r : c.results) {
    r.may_replace.resize(arguments.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const argument& a = arguments[i];
      r.may_replace[i] =
          a.type == r.type && std::equal(r.extents.begin(), r.extents.end(), a.extents, a.extents + a.rank) &&
          is_row_major(a) && plan::may_replace(plan.kernels, static_cast<int>(g.inputs[i]), static_cast<int>(r.node));
    }
  }
}

inline void generate(code& c, ir::graph g, std::span<const argument> arguments) {
  c.results = separate_results(g);
  const plan::fused fused = plan::fuse(g, layout_of(g, arguments));
  std::vector<emit::source> sources;
  std::vector<std::string> texts;
  for (const auto& k : fused.kernels) {
    sources.push_back(emit::cpu(k));
    texts.push_back(sources.back().text);
    logs::to("output_code", [&] { return texts.back(); });
  }
  c.about.kernels_unfused = fused.unfused;
  c.about.kernels = fused.kernels.size();
  c.about.sources = texts;
  const auto modules = run::build(texts);
  for (const auto& m : modules) c.about.compiled += !m.from_cache;
  assemble(c, g, fused, sources, modules, arguments);
  c.about.scratch_bytes = static_cast<std::size_t>(c.kernels.scratch_bytes);
}

inline void interpret_instead(code& c) {
  c.interpreted = true;
  c.about.backend = "reference";
  c.results.clear();
  for (auto id : c.graph.outputs) {
    result_spec r;
    r.type = c.graph[id].type;
    for (const auto& e : c.graph[id].extents) r.extents.push_back(e.evaluate({}));
    c.results.push_back(std::move(r));
  }
}

inline std::shared_ptr<const code> compile(const ir::graph& traced, std::span<const argument> arguments,
                                           const options& how) {
  const auto start = std::chrono::steady_clock::now();
  auto c = std::make_shared<code>();
  c->about.backend = how.backend == "auto" ? "cpu" : how.backend;
  c->about.nodes_traced = traced.live().size();
  check_pass(traced, "trace");
  ir::graph g = traced;
  if (how.backend != "reference") {
    g = rewrite::run_all(traced);
    check_pass(g, "rewrite");
  }
  c->graph = g;
  c->about.nodes_rewritten = g.live().size();
  c->about.graph = ir::print(g);
  if (c->about.backend == "cpu") {
    try {
      generate(*c, std::move(g), arguments);
    } catch (const system_error& problem) {
      logs::warn_once(how.name + " runs on the reference backend, which is slow: " + problem.what());
      interpret_instead(*c);
    }
  } else if (how.backend == "reference" || how.backend == "aot_reference") {
    interpret_instead(*c);
    c->about.backend = how.backend;
  } else {
    fail("compile", "there is no backend '" + how.backend +
                        "'; choose \"auto\", \"cpu\", \"cuda\", \"reference\" or \"aot_reference\"");
  }
  c->about.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  logs::to("perf", [&] {
    return how.name + ": " + std::to_string(c->about.nodes_traced) + " nodes, " +
           std::to_string(c->about.nodes_rewritten) + " rewritten, " + std::to_string(c->about.kernels) + " kernels, " +
           std::to_string(c->about.compiled) + " compiled, " + text::number(c->about.milliseconds) + " ms";
  });
  return c;
}

class bound_program final : public program {
 public:
  bound_program(std::shared_ptr<const code> c, std::vector<captured> captures)
      : code_(std::move(c)), captures_(std::move(captures)) {}

  void run(std::span<const argument> arguments, std::span<const std::uint8_t> donate, output* outputs) const override {
    const auto& results = code_->results;
    std::array<void*, 48> few;
    std::vector<void*> many;
    const std::size_t count = arguments.size() + captures_.size() + results.size();
    if (count > few.size()) many.resize(count);
    void** const table = count > few.size() ? many.data() : few.data();
    std::size_t at = 0;
    for (const auto& a : arguments) table[at++] = a.data;
    for (const auto& c : captures_) table[at++] = c.data;
    std::uint64_t replaced = 0;
    for (std::size_t k = 0; k < results.size(); ++k) {
      const result_spec& r = results[k];
      output& o = outputs[k];
      o.extents = r.extents.data();
      o.rank = static_cast<int>(r.extents.size());
      o.type = r.type;
      o.memory = donated(r, arguments, donate, replaced);
      if (!o.memory) o.memory = allocate(bytes_of(r));
      table[at++] = o.memory.data();
    }
    if (code_->interpreted) return interpret(*code_, all_arguments(arguments, captures_), outputs);
    run::execute(code_->kernels, {table, count}, nullptr);
  }

  std::size_t output_count() const override { return code_->results.size(); }
  const report& describe() const override { return code_->about; }

 private:
  static std::size_t bytes_of(const result_spec& r) {
    std::size_t n = size_of(r.type);
    for (auto e : r.extents) n *= static_cast<std::size_t>(e);
    return n;
  }

  /// The storage of a donated argument that nobody else holds and that the result's kernel may overwrite.
  static storage donated(const result_spec& r, std::span<const argument> arguments,
                         std::span<const std::uint8_t> donate, std::uint64_t& replaced) {
    for (std::size_t i = 0; i < donate.size() && i < r.may_replace.size() && i < 64; ++i) {
      if (!donate[i] || !r.may_replace[i] || replaced >> i & 1) continue;
      const argument& a = arguments[i];
      if (!a.owner->unique() || a.data != a.owner->data() || reinterpret_cast<std::uintptr_t>(a.data) % 64 != 0)
        continue;
      replaced |= std::uint64_t{1} << i;
      return *a.owner;
    }
    return {};
  }

  std::shared_ptr<const code> code_;
  std::vector<captured> captures_;
};

/// Programs of this process by structure.
class code_table {
 public:
  std::shared_ptr<const code> get(const ir::graph& traced, std::span<const argument> arguments, const options& how) {
    std::string key = how.backend + "\n" + ir::print(traced);
    for (const auto& a : arguments)
      for (int d = 0; d < a.rank; ++d) key += std::to_string(a.strides[d]) + (d + 1 < a.rank ? "," : ";");
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = known_.find(key); at != known_.end()) return at->second;
    }
    auto made = compile(traced, arguments, how);
    // A fallback is not kept: the next function may find a compiler.
    if (made->interpreted && made->about.backend != how.backend) return made;
    const std::lock_guard lock(mutex_);
    if (known_.size() >= most_programs) known_.clear();
    return known_.emplace(std::move(key), std::move(made)).first->second;
  }

 private:
  static constexpr std::size_t most_programs = 4096;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const code>> known_;
};

}  // namespace detail

SINTER_API std::shared_ptr<const program> build(std::shared_ptr<tracer> traced, std::span<const argument> arguments,
                                                const options& how, device) {
  static detail::code_table table;
  const auto all = detail::all_arguments(arguments, traced->captures);
  return std::make_shared<detail::bound_program>(table.get(traced->graph, all, how), std::move(traced->captures));
}

}  // namespace sinter::engine
