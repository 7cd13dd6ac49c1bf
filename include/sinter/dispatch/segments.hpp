// dispatch/segments.hpp: reading a traced value: the graph so far runs as a segment, and the function continues with its
// results.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

#include "../base/kept.hpp"
#include "../base/log.hpp"
#include "../base/series.hpp"
#include "../base/shape_errors.hpp"
#include "../engine/engine.hpp"
#include "../report/join.hpp"
#include "segment_programs.hpp"

namespace sinter::engine {

namespace detail {

inline argument to_argument(const captured& x, const tracer& t) {
  argument a;
  a.data = x.data;
  a.owner = x.memory ? &x.memory : nullptr;
  a.type = x.type;
  a.rank = static_cast<int>(x.extents.size());
  a.extents = x.extents.data();
  a.strides = x.strides.data();
  a.by_value = x.by_value || (a.rank == 0 && t.where && t.where->is_cuda() && !x.memory.where().is_cuda());
  return a;
}

inline captured to_captured(const argument& a) {
  return {a.owner ? *a.owner : storage(),  a.data,     a.type, {a.extents, a.extents + a.rank},
          {a.strides, a.strides + a.rank}, a.by_value, {}};
}

inline captured to_captured(const output& o) {
  captured x{o.memory, o.memory.data(), o.type, {o.extents, o.extents + o.rank}, {}, false, {}};
  x.strides.resize(x.extents.size());
  std::int64_t step = 1;
  for (std::size_t d = x.extents.size(); d-- > 0; step *= x.extents[d]) x.strides[d] = step;
  return x;
}

/// The number of the graph's inputs that are the call's tensors.
inline std::size_t given_inputs(const tracer& t) { return t.segment == 0 || t.sizes ? t.call->arguments.size() : 0; }

/// The arguments for the graph's inputs, in order.
inline series<argument> inputs_of(const tracer& t) {
  series<argument> all;
  if (given_inputs(t) > 0) all = t.call->arguments;
  for (const auto& c : t.captures) all.push_back(to_argument(c, t));
  return all;
}

/// Runs g for a call.
inline series<output> run_segment(tracer& t, ir::graph& g, series<argument> inputs) {
  const size_layout layout = segment_layout(t, g, inputs);
  constant_values constants;
  const auto code = segment_program(t, g, inputs, constants, layout);
  series<output> results(code->output_count());
  code->run(inputs, {}, results.data());
  auto& programs = t.call->did.programs;
  if (std::find(programs.begin(), programs.end(), code) == programs.end()) programs.push_back(code);
  return results;
}

inline bool is_input(const traced_value& v) {
  return v.segment == v.of->segment && v.of->graph[v.node].code == ir::op::input;
}

inline void set_elements(traced_value& v, captured x) {
  if (v.segment == v.of->segment) {
    const ir::node& n = v.of->graph[v.node];
    v.where = n.where;
    for (const auto& d : n.extents)
      if (!d.is_number()) x.sizes = n.extents;
  }
  if (!x.memory) {  // a number of the call, in the caller's frame
    x.memory = allocate(size_of(x.type));
    std::memcpy(x.memory.data(), x.data, size_of(x.type));
    x.data = x.memory.data();
  }
  v.elements = std::make_unique<captured>(std::move(x));
}

inline void set_elements_of_input(traced_value& v, const tracer& t) {
  const auto index = static_cast<std::size_t>(t.graph[v.node].attr.ints[0]);
  const std::size_t given = given_inputs(t);
  set_elements(v, index < given ? to_captured(t.call->arguments[index]) : t.captures[index - given]);
}

/// Ends the graph: every value with a tensor gets its elements.
inline void cut_graph(tracer& t) {
  ir::graph& g = t.graph;
  g.outputs.clear();
  for (const traced_value* v : t.values.all)
    if (v->segment == t.segment && !v->elements && !is_input(*v)) g.outputs.push_back(v->node);
  std::sort(g.outputs.begin(), g.outputs.end());
  g.outputs.erase(std::unique(g.outputs.begin(), g.outputs.end()), g.outputs.end());
  const series<ir::node_id> wanted = g.outputs;
  series<output> results;
  if (!wanted.empty() || !g.effects.empty()) results = run_segment(t, g, inputs_of(t));
  for (traced_value* v : t.values.all) {
    if (v->segment != t.segment || v->elements) continue;
    if (is_input(*v)) {
      set_elements_of_input(*v, t);
      continue;
    }
    const auto at = std::lower_bound(wanted.begin(), wanted.end(), v->node) - wanted.begin();
    set_elements(*v, to_captured(results[static_cast<std::size_t>(at)]));
  }
  erase_if(t.call->results, [](const storage& r) { return r.unique(); });
  for (auto& r : results) t.call->results.push_back(std::move(r.memory));
  t.start_segment();
}

/// Computes one value without changing the graph. user_error if that would repeat an effect.
inline void compute_apart(traced_value& v, const char* what, location at) {
  tracer& t = *v.of;
  series<bool> needed(t.graph.size(), false);
  needed[v.node] = true;
  if (t.sizes)  // the sizes are read from the call's tensors
    for (std::size_t i = 0; i < given_inputs(t); ++i) needed[t.graph.inputs[i]] = true;
  for (std::size_t i = v.node + 1; i-- > 0;)
    if (needed[i])
      for (auto operand : t.graph[static_cast<ir::node_id>(i)].in) needed[operand] = true;
  const series<argument> all = inputs_of(t);
  series<argument> inputs;
  series<ir::node_id> renamed(t.graph.size(), ir::no_node);
  ir::graph g;
  for (std::size_t i = 0; i <= v.node; ++i) {
    if (!needed[i]) continue;
    const ir::node& n = t.graph[static_cast<ir::node_id>(i)];
    if (n.code == ir::op::opaque && n.attr.step->has_effect)
      fail(what,
           "inside grad the value is computed apart, and would repeat the effect of a host_call that it depends on; "
           "read it outside grad, or return it with has_aux",
           at);
    if (n.code == ir::op::input) {
      inputs.push_back(all[static_cast<std::size_t>(n.attr.ints[0])]);
      renamed[i] = g.add_input(n.type, n.extents, n.where);
      continue;
    }
    series<ir::node_id> in;
    for (auto operand : n.in) in.push_back(renamed[operand]);
    renamed[i] = g.push(n.code, std::move(in), n.attr, n.where);
  }
  g.outputs = {renamed[v.node]};
  set_elements(v, to_captured(run_segment(t, g, inputs)[0]));
}

inline bool contains(const series<break_report>& all, const break_report& b) {
  return std::find(all.begin(), all.end(), b) != all.end();
}

/// From here on the function's actions hold only for this call.
inline void note_break(tracer& t, const std::string& reason, location at) {
  live_call& call = *t.call;
  if (call.fullgraph > 0)
    fail(call.how->name,
         "options.fullgraph is set, but " + reason +
             " needs elements at each call, which ends the graph here; select with where(condition, a, b), branch and "
             "loop with cond and while_loop, return the tensor and read it from the result, or drop .fullgraph",
         at);
  call.answers = true;
  t.has_read = true;
  stay(t);
  if (contains(call.did.breaks, {reason, at})) return;
  logs::to("graph_breaks",
           [&] { return logs::printable(call.how->name) + ": " + sinter::detail::located(reason, at); });
  call.did.breaks.push_back({reason, sinter::detail::kept(at)});
}

/// Refuses a value that no call can compute.
inline void check_readable(const tracer& t, const char* what, location at) {
  const tracer* const now = current().get();
  if (now && now->in_lanes)
    fail(what,
         "within vmap the tensor stands for those of all lanes and has no values; select with where(condition, a, b), "
         "branch and loop with cond and while_loop, or return the tensor and read what vmap gives",
         at);
  if (now ? !now->call : !t.call) sinter::detail::fail_traced(what, at);
  if (now != &t) fail_out_of_trace(t, at);
}

inline std::size_t hash_of(const storage& memory) {
  if (!memory.where().is_cuda())
    return std::hash<std::string_view>()({static_cast<const char*>(memory.data()), memory.bytes()});
  const storage host = allocate(memory.bytes());
  copy(host, host.data(), memory, memory.data(), memory.bytes());
  return hash_of(host);
}

/// Copies the elements to separate memory.
inline void snapshot(storage& memory, void*& data) {
  storage own = allocate(memory.bytes(), memory.where());
  copy(own, own.data(), memory, memory.data(), memory.bytes());
  data = static_cast<char*>(own.data()) + (static_cast<char*>(data) - static_cast<char*>(memory.data()));
  memory = std::move(own);
}

/// Whether the graph has an input in this memory.
inline bool is_read(const tracer& t, const storage& memory) {
  const auto all = inputs_of(t);
  return std::any_of(all.begin(), all.end(), [&](const argument& a) { return a.owner && *a.owner == memory; });
}

/// Makes the graph read a copy of this memory instead.
inline void keep_old(tracer& t, const storage& memory) {
  for (std::size_t i = 0; i < t.captures.size(); ++i) {
    if (!(t.captures[i].memory == memory)) continue;
    captured own = t.captures[i];
    snapshot(own.memory, own.data);
    t.captures.replace(i, std::move(own));
  }
  if (t.segment > 0) return;
  for (auto& a : t.call->arguments) {
    if (!a.owner || !(*a.owner == memory)) continue;
    auto own = std::make_unique<storage>(memory);
    snapshot(*own, a.data);
    a.owner = own.get();
    t.call->replaced.push_back(std::move(own));
  }
}

/// Refuses copies that were written, and drops those whose tensors are gone.
inline void check_copies(live_call& call, bool all) {
  for (const auto& c : call.copies)
    if ((all || c.memory.unique()) && hash_of(c.memory) != c.hash)
      fail(call.how->name,
           "the function writes through the address of a traced tensor's elements, which is a copy to be read; compute "
           "the new tensor, for example with where(), or write inside disable(f)",
           c.where);
  erase_if(call.copies, [](const auto& c) { return c.memory.unique(); });
}

/// The results of the function: unshared results of earlier segments, and the other results by a last segment.
inline series<captured> answer_of(tracer& t) {
  auto& own = t.call->results;
  const series<argument> inputs = inputs_of(t);
  series<captured> answer(t.graph.outputs.size());
  series<ir::node_id> rest;
  series<std::size_t> places;
  for (std::size_t k = 0; k < answer.size(); ++k) {
    const ir::node& n = t.graph[t.graph.outputs[k]];
    if (n.code == ir::op::input) {
      const argument& a = inputs[static_cast<std::size_t>(n.attr.ints[0])];
      if (a.owner && erase_if(own, [&](const storage& s) { return s == *a.owner; })) {
        answer[k] = to_captured(a);
        continue;
      }
    }
    rest.push_back(t.graph.outputs[k]);
    places.push_back(k);
  }
  if (rest.empty() && t.graph.effects.empty()) return answer;
  t.graph.outputs = rest;
  const auto results = run_segment(t, t.graph, inputs);
  for (std::size_t i = 0; i < places.size(); ++i) answer[places[i]] = to_captured(results[i]);
  return answer;
}

class values_lock {
 public:
  explicit values_lock(tracer& t) : t_(t.values) {
    while (t_.busy.test_and_set(std::memory_order_acquire)) {}
  }
  ~values_lock() { t_.busy.clear(std::memory_order_release); }
  values_lock(const values_lock&) = delete;
  values_lock& operator=(const values_lock&) = delete;

 private:
  value_list& t_;
};

}  // namespace detail

SINTER_API void segments_run::add(const segments_run& more) {
  for (const auto& b : more.breaks)
    if (!detail::contains(breaks, b)) breaks.push_back(b);
  for (const auto& n : more.narrowed) {
    const auto same = [&](const narrowed_size& x) {
      return x.what == n.what && x.why == n.why && x.where.line == n.where.line;
    };
    if (!std::any_of(narrowed.begin(), narrowed.end(), same)) narrowed.push_back(n);
  }
  if (!more.closes.why.empty()) closes = more.closes;
}

SINTER_API report segments_run::describe(bool reasons) const {
  report all;
  for (const auto& p : programs) reporting::join(all, reasons ? p->explain() : p->describe());
  all.breaks = breaks;
  return all;
}

SINTER_API traced_value* make_value(std::shared_ptr<tracer> of, ir::node_id node) {
  auto v = std::make_unique<traced_value>();
  v->node = node;
  v->segment = of->segment;
  v->of = std::move(of);
  const detail::values_lock lock(*v->of);
  v->place = v->of->values.all.size();
  v->of->values.all.push_back(v.get());
  return v.release();
}

SINTER_API void release(traced_value* v) noexcept {
  if (v->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  {
    const detail::values_lock lock(*v->of);
    auto& all = v->of->values.all;
    all[v->place] = all.back();
    all[v->place]->place = v->place;
    all.pop_back();
  }
  delete v;
}

SINTER_API ir::node_id node_of(traced_value& v) {
  tracer& t = *v.of;
  if (v.segment != t.segment) {
    ensure(v.elements != nullptr, "a value of an earlier segment has elements");
    v.node = t.capture(detail::to_argument(*v.elements, t), v.where, v.elements->sizes);
    v.segment = t.segment;
  }
  return v.node;
}

SINTER_API captured read(traced_value& v, const char* what, location at, bool for_good) {
  tracer& t = *v.of;
  if (at.line == 0) at = v.segment == t.segment && v.node < t.graph.size() ? t.graph[v.node].where : v.where;
  detail::check_readable(t, what, at);
  detail::note_break(t, what, at);
  if (!v.elements) {
    if (detail::is_input(v)) detail::set_elements_of_input(v, t);
    else if (t.call->whole > 0) detail::compute_apart(v, what, at);
    else detail::cut_graph(t);
  }
  if (for_good) erase_if(t.call->results, [&](const storage& s) { return s == v.elements->memory; });
  return *v.elements;
}

SINTER_API void cut(tracer& t, const char* what, location at) {
  detail::check_readable(t, what, at);
  if (t.call->whole > 0)
    fail(what,
         "inside grad and value_and_grad derivatives flow through the whole graph, which cannot end here; do it before "
         "or "
         "after, or return the values with has_aux",
         at);
  // Code that runs now may hold extents of the trace, which outside it are numbers.
  const std::string why = std::string(what) + " ends the graph, and what it runs takes numbers";
  fix_sizes(t, why, at);
  detail::note_break(t, what, at);
  t.call->did.closes = {why, sinter::detail::kept(at)};
  detail::cut_graph(t);
}

SINTER_API void count_read(const char* what, const storage& memory, bool may_write, location at) {
  const auto t = current();
  if (!t || !t->call) return;
  const auto& made = t->call->made;
  const bool counts = std::find(made.begin(), made.end(), memory) == made.end();
  if (counts) detail::note_break(*t, std::string(what) + " of a tensor with memory", at);
  if (!may_write || !detail::is_read(*t, memory)) return;
  if (counts && t->call->whole == 0) detail::cut_graph(*t);
  else detail::keep_old(*t, memory);
}

SINTER_API void count_made(const storage& memory) {
  const auto& t = current();
  if (!t || !t->call) return;
  erase_if(t->call->made, [](const storage& m) { return m.unique(); });
  t->call->made.push_back(memory);
}

SINTER_API storage copy_to_read(const traced_value& v) { return v.copy; }

SINTER_API void keep_copy(traced_value& v, storage copy, location at) {
  detail::check_copies(*v.of->call, false);
  v.of->call->copies.push_back({copy, detail::hash_of(copy), at});
  v.copy = std::move(copy);
}

SINTER_API void name_leaf(leaf_text& out, int argument, const std::string& path) {
  out.name = "argument " + std::to_string(argument) + path;
}
SINTER_API void name_length(leaf_text& out, std::uint64_t length) { out.value = "of length " + std::to_string(length); }

SINTER_API void finish(traced& out) {
  tracer& t = *out.graph;
  for (const auto& i : t.indices) t.graph.outputs.push_back(i.node);
  t.graph = ir::inlined(std::move(t.graph));
  if (!t.call || !t.call->answers) t.spent = t.spent_until_now();
  if (!t.call || !t.call->answers) return;
  detail::check_copies(*t.call, true);
  out.answer = detail::answer_of(t);
  t.call->did.narrowed = narrowed_sizes(t);
  out.did = std::move(t.call->did);
}

}  // namespace sinter::engine
