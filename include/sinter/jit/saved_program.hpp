// jit/saved_program.hpp: programs of fixed sizes as bytes, in the cache of kernels and for other ranks, so that a process with an
// equal graph neither rewrites nor plans.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "../base/series.hpp"
#include "../run/build/cache.hpp"
#include "../run/ranks.hpp"
#include "backends/cuda.hpp"
#include "backends/loops.hpp"
#include "collectives.hpp"
#include "saved_checks.hpp"

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
  void refuse() {}
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
  void operator()(bool& x) {
    unsigned char byte = 0;
    (*this)(byte);
    good_ = good_ && byte <= 1;
    x = byte == 1;
  }
  void operator()(std::string& x) {
    std::uint64_t n = 0;
    (*this)(n);
    x = take(n);
  }
  bool good() const { return good_; }
  void refuse() { good_ = false; }
  /// Whether all bytes have been read.
  bool at_end() const { return good_ && left_.empty(); }

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

/// Walks over a list; each(element) walks over an element's members, of a byte at least. A list that is read grows with its bytes.
template <class Bytes, class T, class F>
void walk_list(Bytes& a, series<T>& xs, F&& each) {
  std::uint64_t n = xs.size();
  a(n);
  if constexpr (Bytes::reads) {
    for (xs.clear(); n > 0 && a.good(); --n) {
      xs.emplace_back();
      each(xs.back());
    }
  } else {
    for (auto& x : xs) each(x);
  }
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

/// The collectives of a graph with steps, by number: another process makes the calls of its own graph's.
class known_calls {
 public:
  explicit known_calls(const ir::graph& g) : graph_(g) {
    for (auto id : g.live()) {
      if (g[id].code != ir::op::opaque) continue;
      const auto& function = g[id].attr.step->function;
      is_complete_ = is_complete_ && function && function->known == known_collective;
      numbers_.emplace(function.get(), nodes_.size());
      nodes_.push_back(id);
    }
  }
  /// Whether these are all calls, branches and loops of the graph.
  bool is_complete() const { return is_complete_; }
  bool has(const std::shared_ptr<const run::routine>& call) const { return !call || number_of<host_function>(*call); }
  bool has(const std::shared_ptr<const run::cuda::routine>& call) const {
    return !call || number_of<device_function>(*call);
  }

  template <class Bytes>
  void walk(Bytes& a, std::shared_ptr<const run::routine>& call) const {
    walk_as<host_function>(a, call, [&](const ir::node& n) {
      return make_on_heap<host_function>(n.attr.step->function, foreign_shapes(graph_, n, {}));
    });
  }
  template <class Bytes>
  void walk(Bytes& a, std::shared_ptr<const run::cuda::routine>& call, int device) const {
    walk_as<device_function>(a, call, [&](const ir::node& n) {
      return make_on_heap<device_function>(n.attr.step->function, foreign_shapes(graph_, n, {}), device);
    });
  }

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  template <class Function, class Routine>
  std::optional<std::uint64_t> number_of(const Routine& call) const {
    const auto* const f = dynamic_cast<const Function*>(&call);
    const auto at = f ? numbers_.find(&f->function()) : numbers_.end();
    return at == numbers_.end() ? std::nullopt : std::optional<std::uint64_t>(at->second);
  }
  /// Of a number that is none of the graph's no call is made.
  template <class Function, class Bytes, class Routine, class Make>
  void walk_as(Bytes& a, std::shared_ptr<const Routine>& call, const Make& make) const {
    std::uint64_t number = call ? number_of<Function>(*call).value_or(none) : none;
    a(number);
    if constexpr (Bytes::reads) call = number < nodes_.size() ? make(graph_[nodes_[number]]) : nullptr;
  }

  const ir::graph& graph_;
  bool is_complete_ = true;
  series<ir::node_id> nodes_;
  std::unordered_map<const ir::foreign*, std::uint64_t> numbers_;
};

/// The greatest size of a program's texts.
inline constexpr std::size_t max_text_bytes = std::size_t{256} << 20;

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
  if constexpr (Bytes::reads) {
    std::size_t left = max_text_bytes;
    for (const auto& numbers : made_of) {
      std::string text;
      for (const std::uint64_t n : numbers) {
        if (n >= parts.size() || parts[n].size() > left) return a.refuse();
        text += parts[n];
        left -= parts[n].size();
      }
      all.distinct.push_back(run::shared_text(text));
    }
  }
  walk_list(a, all.of);
  walk_list(a, all.step);
}

template <class Bytes>
void walk_report(Bytes& a, report& r, known_places& places) {
  a(r.nodes_rewritten), a(r.kernels_unfused), a(r.kernels), a(r.collectives), a(r.graph);
  walk_list(a, r.steps, [&](kernel_report& k) {
    a(k.name), a(k.space), a(k.read), a(k.written), a(k.flops), a(k.first), a(k.tier), a(k.schedule), a(k.library),
        a(k.chosen);
    walk_list(a, k.ops, [&](op_report& o) {
      a(o.name), a(o.type);
      places.walk(a, o.where);
    });
  });
  walk_list(a, r.choices, [&](choice_report& one) {
    a(one.what), a(one.step);
    walk_list(a, one.candidates, [&](candidate_report& way) { a(way.name), a(way.microseconds); });
    if constexpr (Bytes::reads) one.kept = true;
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

/// A host's steps: kernel k runs text k.
template <class Bytes>
void walk_steps(Bytes& a, run::sequence& s, const known_calls& calls) {
  walk_list(a, s.intermediates);
  a(s.scratch_bytes);
  walk_list(a, s.steps, [&](run::step& one) {
    a(one.label), a(one.scratch), a(one.threads), a(one.of_thread), a(one.parallel), a(one.members);
    calls.walk(a, one.call);
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
void walk_steps(Bytes& a, run::cuda::sequence& s, const known_calls& calls) {
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
    if (one.what == run::cuda::action::call) calls.walk(a, one.call, s.device);
    walk_list(a, one.operands, [&](run::cuda::operand& x) { a(x.index), a(x.bytes), a(x.written), a(x.touched); });
    walk_list(a, one.numbers);
    walk_list(a, one.own_sizes);
    if constexpr (Bytes::reads) one.label = run::cuda::label(label);
  });
}

/// The members of a program of fixed sizes. False if the bytes are not a program.
template <class Bytes>
bool walk_program(Bytes& a, code& c, sized& steps, known_places& places, const known_calls& calls) {
  walk_texts(a, c.texts);
  walk_report(a, c.about, places);
  walk_results(a, c.results);
  walk_list(a, c.donors, [&](donor& d) { a(d.kind), a(d.free_from); });
  if (c.where.is_cuda()) walk_steps(a, steps.launches, calls);
  else walk_steps(a, steps.kernels, calls);
  return a.good();
}

/// The program of a graph with steps, from bytes that may be anything; without code. False if it is none of the graph.
inline bool read_program(std::string_view bytes, const ir::graph& g, code& c, sized& steps, known_places& places,
                         const known_calls& calls) {
  byte_reader from(bytes);
  return walk_program(from, c, steps, places, calls) && from.at_end() && is_program_of(g, c, steps);
}

/// Graphs of fewer nodes are planned as fast as a file is read.
inline constexpr std::size_t min_nodes_saved = 200;

/// All facts that decide a plan, as text; empty if the planner's build cannot be identified. `structure` identifies the
/// graph, the options and the arguments.
inline std::string program_key(const ir::graph& traced, device where, const known_places& places,
                               const std::string& structure) {
  static const std::string planner = run::build_of(reinterpret_cast<const void*>(&separate_results));
  if (planner.empty()) return "";
  std::string key =
      std::string(run::plan_key) + "sinter " SINTER_VERSION "\nplanner " + planner + "\nplaces " + places.text() + "\n";
  key += "attention " + std::string(attention_setting()) + "\n";
  if (checks_mesh()) key += "exchanges are compared\n";
  if (!where.is_cuda())
    return key + "isa " + run::instruction_set() + "\nthreads " + std::to_string(run::max_threads()) + "\n" + structure;
  const run::cuda::gpu& gpu = run::cuda::device_at(where.index);
  return key + gpu.name + " " + std::to_string(gpu.capability) + " " + std::to_string(gpu.multiprocessors) +
         "\nparameters " + std::to_string(run::cuda::parameter_bytes()) + "\nblas " +
         (has_products(traced) ? run::cuda::blas().identity : "") + "\ndnn " +
         (has_windows(traced) && has_products(traced) ? run::cuda::dnn().identity : "") + "\n" + structure;
}

/// Whether a program of fixed sizes consists of numbers, texts and collectives.
inline bool can_be_saved(const code& c, const sized& steps, const known_calls& calls) {
  if (c.interpreted || c.texts.of.empty()) return false;
  const auto known = [&](const auto& s) { return calls.has(s.call); };
  const auto& host = steps.kernels.steps;
  const auto& device = steps.launches.steps;
  return std::all_of(host.begin(), host.end(), known) && std::all_of(device.begin(), device.end(), known);
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
    steps.launches.apart = run::cuda::steps_apart(steps.launches);
    return;
  }
  const auto modules = c.texts.in_order(run::build(c.texts.distinct));
  report_modules<run::built>(c, modules);
  std::size_t next = 0;
  for (run::step& s : steps.kernels.steps) {
    if (s.call) continue;
    s.code = modules.at(next).code;
    s.entry = modules[next++].entry();
  }
}

/// The program of a traced graph in the cache of kernels, or planned by another rank.
class saved_program {
 public:
  /// `ready` is the traced graph with steps in place of collectives, and outlives this. Unused, and without cost, unless it is
  /// `wanted`.
  saved_program(const ir::graph& traced, const ir::graph& ready, device where, const std::string& structure,
                bool wanted)
      : ready_(ready) {
    if (!wanted) return;
    places_.emplace(traced);
    calls_.emplace(ready);
    if (calls_->is_complete()) key_ = program_key(traced, where, *places_, structure);
  }

  /// True if the cache or another rank has the program; c is then ready, except for its graph. Otherwise c is unchanged. Throws
  /// what a rank throws that waits for others.
  bool load(code& c) {
    if (key_.empty()) return false;
    loaded kept(c);
    if (const std::string bytes = run::disk_cache().find(key_); !bytes.empty() && read(bytes, kept))
      return finish(c, kept);
    // On GPUs a plan is complete when its kernels are compiled: too late for others.
    if (!c.where.is_cuda()) order_ = run::world().order_kernels({key_});
    if (!order_ || order_->is_mine(0)) return false;
    for (const auto& sent : order_->take()) {
      std::string bytes = *sent;
      loaded given(c);
      if (run::detail::unpack_entry(bytes, order_->name(0)) == nullptr && read(bytes, given)) {
        order_.reset();
        run::disk_cache().store(key_, bytes);
        return finish(c, given);
      }
      logs::warn_once("a plan that another rank has sent is damaged; this rank plans itself");
    }
    order_.reset();
    return false;
  }

  /// Saves a program that is compiled, unless it was saved before.
  void save(code& c) {
    if (key_.empty() || is_saved_ || !c.fixed) return;
    sized steps = *c.fixed;
    save(c, steps);
  }
  /// Saves a program by its steps, and gives it to the ranks that wait for it.
  void save(code& c, sized& steps) {
    if (key_.empty() || std::exchange(is_saved_, true)) return;
    if (!can_be_saved(c, steps, *calls_)) return order_.reset();
    byte_writer bytes;
    walk_program(bytes, c, steps, *places_, *calls_);
    run::disk_cache().store(key_, bytes.out);
    if (!order_) return;
    const std::string name(order_->name(0));
    std::string sent = run::detail::pack_entry({&name, 1}, bytes.out);
    if (sent.size() <= run::kernel_order::max_bytes) order_->give({0}, std::move(sent));
    order_.reset();
  }

 private:
  /// A program that is being loaded in place of one that has begun.
  struct loaded {
    explicit loaded(const code& begun) : made(begun), steps(make_on_heap<sized>()) {}
    code made;
    std::shared_ptr<sized> steps;
  };
  bool read(std::string_view bytes, loaded& to) {
    return read_program(bytes, ready_, to.made, *to.steps, *places_, *calls_);
  }
  /// False if its kernels cannot be built: planning it again fails in the same way, and reports.
  static bool finish(code& c, loaded& from) {
    code& made = from.made;
    made.stage("read");
    try {
      load_kernels(made, *from.steps);
    } catch (const sinter::detail::momentary_error&) {
      throw;
    } catch (const system_error&) {
      return false;
    }
    made.stage("compile");
    made.plan = from.steps;
    made.fill = [](void* all, sized& to) {
      to.kernels = std::move(static_cast<sized*>(all)->kernels);
      to.launches = std::move(static_cast<sized*>(all)->launches);
    };
    finalize(made);
    made.stage("bind");
    c = std::move(made);
    return true;
  }

  const ir::graph& ready_;
  std::optional<known_places> places_;
  std::optional<known_calls> calls_;
  std::string key_;
  bool is_saved_ = false;
  std::unique_ptr<run::kernel_order> order_;  ///< while other ranks may wait for this one's plan
};

}  // namespace sinter::engine::detail
