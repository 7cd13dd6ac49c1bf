// jit/saved_program.hpp: programs of fixed sizes as bytes in the cache of kernels, so that a process with an equal graph
// neither rewrites nor plans.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "../base/series.hpp"
#include "../run/build/cache.hpp"
#include "backends/cuda.hpp"
#include "backends/loops.hpp"

namespace sinter::engine::detail {

/// Writes values one after another.
class byte_writer {
 public:
  static constexpr bool reads = false;
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void operator()(T& x) { out.append(reinterpret_cast<const char*>(&x), sizeof x); }
  void operator()(std::string& x) {
    std::uint64_t n = x.size();
    (*this)(n);
    out.append(x);
  }
  bool good() const { return true; }
  std::string out;
};

/// Reads the same values. After a premature end all values are empty.
class byte_reader {
 public:
  static constexpr bool reads = true;
  explicit byte_reader(std::string_view from) : left_(from) {}
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void operator()(T& x) {
    if (const auto bytes = take(sizeof x); !bytes.empty()) std::memcpy(&x, bytes.data(), sizeof x);
  }
  void operator()(std::string& x) {
    std::uint64_t n = 0;
    (*this)(n);
    x = take(n);
  }
  bool good() const { return good_; }
  /// n, if that many elements can still follow; otherwise 0.
  std::uint64_t at_most(std::uint64_t n) { return n <= left_.size() ? n : (good_ = false, 0); }

 private:
  std::string_view take(std::uint64_t n) {
    good_ = good_ && n <= left_.size();
    if (!good_) return {};
    const auto out = left_.substr(0, n);
    left_.remove_prefix(n);
    return out;
  }
  std::string_view left_;
  bool good_ = true;
};

/// Walks over a list; each(element) walks over an element's members.
template <class Bytes, class T, class F>
void walk_list(Bytes& a, series<T>& xs, F&& each) {
  std::uint64_t n = xs.size();
  a(n);
  if constexpr (Bytes::reads) xs.resize(a.at_most(n));
  for (auto& x : xs) each(x);
}

template <class Bytes, class T>
void walk_list(Bytes& a, series<T>& xs) {
  walk_list(a, xs, [&](T& x) { a(x); });
}

/// Places in the user's program, as the first node of the traced graph with that place.
class known_places {
 public:
  explicit known_places(const ir::graph& g) : graph_(g) {
    for (ir::node_id id = 0; id < g.size(); ++id) nodes_.emplace(key(g[id].where), id);
  }
  template <class Bytes>
  void walk(Bytes& a, location& where) {
    const auto at = nodes_.find(key(where));
    ir::node_id id = at == nodes_.end() ? ir::no_node : at->second;
    a(id);
    if constexpr (Bytes::reads) where = id < graph_.size() ? graph_[id].where : location{};
  }
  /// Equal for graphs whose nodes have equal places.
  std::string text() const {
    run::digest d;
    for (ir::node_id id = 0; id < graph_.size(); ++id) {
      const location& at = graph_[id].where;
      d = run::digest_of(key(at) + ":" + (at.op ? at.op : ""), d);
    }
    return text::hex(d.first) + text::hex(d.second);
  }

 private:
  static std::string key(const location& at) { return std::string(at.file) + ":" + std::to_string(at.line); }
  const ir::graph& graph_;
  std::unordered_map<std::string, ir::node_id> nodes_;
};

/// The texts of a program, and their parts, each once.
template <class Bytes>
void walk_texts(Bytes& a, kernel_texts& all) {
  series<std::string> parts;
  sorted_map<std::string, std::uint64_t> known;
  const auto number_of = [&](std::string_view part) {
    const auto [at, fresh] = known.emplace(std::string(part), parts.size());
    if (fresh) parts.push_back(std::string(part));
    return at->second;
  };
  series<series<std::uint64_t>> made_of;
  if constexpr (!Bytes::reads)
    for (const run::shared_text& text : all.distinct) {
      made_of.emplace_back();
      for (const auto& part : text.parts()) made_of.back().push_back(number_of(*part));
    }
  walk_list(a, parts);
  walk_list(a, made_of, [&](series<std::uint64_t>& numbers) { walk_list(a, numbers); });
  if constexpr (Bytes::reads)
    for (const auto& numbers : made_of) {
      std::string text;
      for (const std::uint64_t n : numbers)
        if (n < parts.size()) text += parts[n];
      all.distinct.push_back(run::shared_text(text));
    }
  walk_list(a, all.of);
  walk_list(a, all.step);
}

template <class Bytes>
void walk_report(Bytes& a, report& r, known_places& places) {
  a(r.nodes_rewritten), a(r.kernels_unfused), a(r.kernels), a(r.collectives), a(r.graph);
  walk_list(a, r.steps, [&](kernel_report& k) {
    a(k.name), a(k.space), a(k.read), a(k.written), a(k.flops), a(k.first), a(k.tier), a(k.schedule), a(k.library);
    walk_list(a, k.ops, [&](op_report& o) {
      a(o.name), a(o.type);
      places.walk(a, o.where);
    });
  });
  a(r.peak.step);
  walk_list(a, r.peak.buffers, [&](buffer_report& b) {
    a(b.what), a(b.name), a(b.op), a(b.type), a(b.shape), a(b.count), a(b.bytes);
    places.walk(a, b.where);
  });
}

template <class Bytes>
void walk_results(Bytes& a, series<result_spec>& results) {
  walk_list(a, results, [&](result_spec& r) {
    a(r.node), a(r.type), a(r.kind), a(r.at), a(r.best);
    walk_list(a, r.also);
    series<std::int64_t> extents;
    if constexpr (!Bytes::reads)
      for (const auto& e : r.extents) extents.push_back(e.evaluate({}));
    walk_list(a, extents);
    if constexpr (Bytes::reads) r.extents.assign(extents.begin(), extents.end());
  });
}

/// A host's steps: step k runs text k.
template <class Bytes>
void walk_steps(Bytes& a, run::sequence& s) {
  walk_list(a, s.intermediates);
  a(s.scratch_bytes);
  walk_list(a, s.steps, [&](run::step& one) {
    a(one.label), a(one.scratch), a(one.threads), a(one.of_thread), a(one.parallel), a(one.members);
    walk_list(a, one.operands);
    walk_list(a, one.numbers);
  });
}

template <class Bytes>
void walk_product(Bytes& a, run::cuda::matmul& m) {
  a(m.m), a(m.n), a(m.k), a(m.batch), a(m.type), a(m.result), a(m.transpose_a), a(m.transpose_b);
  a(m.row_a), a(m.row_b), a(m.row_out), a(m.batch_a), a(m.batch_b), a(m.batch_out);
  a(m.offset_a), a(m.offset_b), a(m.offset_out), a(m.offset_bias);
  a(m.repeat), a(m.repeat_a), a(m.repeat_b), a(m.repeat_out), a(m.after), a(m.tf32);
}

template <class Bytes>
void walk_convolution(Bytes& a, run::cuda::step& s) {
  convolution& c = s.windows;
  a(c.kind), a(c.after), a(c.type), a(c.written), a(c.spatial), a(c.groups), a(c.tf32), a(c.deterministic);
  for (auto* x : {&c.image, &c.weights, &c.result}) {
    for (auto& n : x->extents) a(n);
    for (auto& n : x->strides) a(n);
  }
  for (auto* x : {&c.step, &c.dilation, &c.low, &c.high})
    for (auto& n : *x) a(n);
  for (auto& n : s.first) a(n);
}

template <class Bytes>
void walk_steps(Bytes& a, run::cuda::sequence& s) {
  a(s.device), a(s.given), a(s.scratch_bytes), a(s.tables), a(s.table_bytes), a(s.sizes), a(s.tuned);
  walk_list(a, s.shared, [&](run::cuda::sharing& x) { a(x.result), a(x.argument); });
  walk_list(a, s.intermediates);
  walk_list(a, s.intermediate_bytes);
  walk_list(a, s.steps, [&](run::cuda::step& one) {
    std::string label = Bytes::reads ? "" : one.label;
    a(label), a(one.what), a(one.number), a(one.text), a(one.name), a(one.tabled), a(one.table_at), a(one.blocks),
        a(one.threads);
    a(one.shared), a(one.awaits), a(one.scratch), a(one.scratch_bytes), a(one.bytes), a(one.value);
    a(one.from), a(one.pitch), a(one.rows);
    walk_product(a, one.product);
    if (one.what == run::cuda::action::convolution) walk_convolution(a, one);
    walk_list(a, one.operands, [&](run::cuda::operand& x) { a(x.index), a(x.bytes), a(x.written), a(x.touched); });
    walk_list(a, one.numbers);
    walk_list(a, one.own_sizes);
    if constexpr (Bytes::reads) one.label = run::cuda::label(label);
  });
}

/// The members of a program of fixed sizes on disk. False if the bytes are not a program.
template <class Bytes>
bool walk_program(Bytes& a, code& c, sized& steps, known_places& places) {
  walk_texts(a, c.texts);
  walk_report(a, c.about, places);
  walk_results(a, c.results);
  walk_list(a, c.donors, [&](donor& d) { a(d.kind), a(d.free_from); });
  if (c.where.is_cuda()) walk_steps(a, steps.launches);
  else walk_steps(a, steps.kernels);
  return a.good();
}

/// Graphs of fewer nodes are planned as fast as a file is read.
inline constexpr std::size_t least_nodes_saved = 200;

/// All facts that decide a plan, as text; empty if the planner's build cannot be identified. `structure` identifies the
/// graph, the options and the arguments.
inline std::string program_key(const ir::graph& traced, device where, const known_places& places,
                               const std::string& structure) {
  static const std::string planner = run::build_of(reinterpret_cast<const void*>(&separate_results));
  if (planner.empty()) return "";
  std::string key =
      std::string(run::plan_key) + "sinter " SINTER_VERSION "\nplanner " + planner + "\nplaces " + places.text() + "\n";
  key += "attention " + std::string(attention_setting()) + "\n";
  if (!where.is_cuda()) return key + "threads " + std::to_string(run::most_threads()) + "\n" + structure;
  const run::cuda::gpu& gpu = run::cuda::device_at(where.index);
  return key + gpu.name + " " + std::to_string(gpu.capability) + " " + std::to_string(gpu.multiprocessors) +
         "\nparameters " + std::to_string(run::cuda::parameter_bytes()) + "\nblas " +
         (has_products(traced) ? run::cuda::blas().identity : "") + "\ndnn " +
         (has_windows(traced) && has_products(traced) ? run::cuda::dnn().identity : "") + "\n" + structure;
}

/// Whether a program consists of numbers and texts: without calls of functions, and without open sizes.
inline bool can_be_saved(const code& c) {
  if (!c.fixed || c.interpreted || c.texts.of.empty()) return false;
  const auto calls = [](const auto& s) { return s.call != nullptr; };
  const auto& host = c.fixed->kernels.steps;
  const auto& device = c.fixed->launches.steps;
  return std::none_of(host.begin(), host.end(), calls) && std::none_of(device.begin(), device.end(), calls);
}

/// Loads the code of a program's steps.
inline void load_kernels(code& c, sized& steps) {
  if (c.where.is_cuda()) {
    const auto modules = c.texts.in_order(run::cuda::build(c.texts.distinct, c.where.index));
    report_modules<run::cuda::built>(c, modules);
    for (auto& s : steps.launches.steps) {
      if (s.what != run::cuda::action::launch) continue;
      s.code = modules.at(static_cast<std::size_t>(s.text)).code;
      s.entry = s.code->find(s.name, static_cast<int>(s.shared));
    }
    steps.launches.choose = emit::choose_source;
    return;
  }
  const auto modules = c.texts.in_order(run::build(c.texts.distinct));
  report_modules<run::built>(c, modules);
  for (std::size_t k = 0; k < steps.kernels.steps.size(); ++k) {
    steps.kernels.steps[k].code = modules.at(k).code;
    steps.kernels.steps[k].entry = modules[k].entry();
  }
}

/// The program of a traced graph in the cache of kernels.
class saved_program {
 public:
  /// Unused, and without cost, unless it is `wanted`.
  saved_program(const ir::graph& traced, device where, const std::string& structure, bool wanted) {
    if (!wanted) return;
    places_.emplace(traced);
    key_ = program_key(traced, where, *places_, structure);
  }

  /// True if the cache has the program; c is then ready, except for its graph. Exceptions of building kernels pass through,
  /// and leave c unchanged.
  bool load(code& c) {
    const std::string bytes = key_.empty() ? "" : run::disk_cache().find(key_);
    if (bytes.empty()) return false;
    code made = c;
    const auto steps = make_on_heap<sized>();
    byte_reader from(bytes);
    if (!walk_program(from, made, *steps, *places_)) return false;
    made.stage("read");
    load_kernels(made, *steps);
    made.stage("compile");
    made.plan = steps;
    made.fill = [](void* all, sized& to) {
      to.kernels = std::move(static_cast<sized*>(all)->kernels);
      to.launches = std::move(static_cast<sized*>(all)->launches);
    };
    finalize(made);
    made.stage("bind");
    c = std::move(made);
    return true;
  }

  void save(code& c) {
    if (key_.empty() || !can_be_saved(c)) return;
    byte_writer bytes;
    sized steps = *c.fixed;
    walk_program(bytes, c, steps, *places_);
    run::disk_cache().store(key_, bytes.out);
  }

 private:
  std::optional<known_places> places_;
  std::string key_;
};

}  // namespace sinter::engine::detail
