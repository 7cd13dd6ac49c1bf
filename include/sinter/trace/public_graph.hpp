// trace/public_graph.hpp: the definitions of engine/graph.hpp: reading and rewriting a graph, and pushing it on a trace.
#pragma once

#include <algorithm>

#include "../base/sorted.hpp"
#include "../engine/engine.hpp"
#include "../engine/graph.hpp"
#include "sizes.hpp"

namespace sinter {

/// Ids of people are indexes of `at`; those of `body` change when the graph is made anew.
struct graph::state {
  ir::graph body;
  engine::capture_list captures;
  engine::assumptions assumed;
  std::optional<device> where;
  sorted_map<ir::node_id, series<ir::node_id>> reads = {};  ///< the operands of nodes that replace() changed
  series<id> at = {};                                       ///< the node of each id
  series<id> of = {};                                       ///< an id of each node

  /// Gives ids to nodes that have none.
  void number() {
    for (auto node = static_cast<id>(of.size()); node < body.size(); ++node) {
      of.push_back(static_cast<id>(at.size()));
      at.push_back(node);
    }
  }
  const series<id>& operands(id node) const {
    const auto changed = reads.find(node);
    return changed == reads.end() ? body[node].in : changed->second;
  }
  id node_of(id x, const char* op, location where) const {
    if (x >= at.size()) fail(op, "%" + std::to_string(x) + " is no node of this graph; order() lists its nodes", where);
    return at[x];
  }
  series<id> ids(const series<id>& nodes) const {
    series<id> out;
    for (const id node : nodes) out.push_back(of[node]);
    return out;
  }

  /// The nodes that `from` depend on, and `from`, operands first.
  series<id> below(const series<id>& from) const {
    series<char> seen(body.size(), 0);
    series<id> out;
    struct visit {
      id node;
      std::size_t next;
    };
    series<visit> stack;
    const auto enter = [&](id node) {
      if (!seen[node]) seen[node] = 1, stack.push_back({node, 0});
    };
    for (const id root : from) {
      enter(root);
      while (!stack.empty()) {
        const id node = stack.back().node;
        const series<id>& in = operands(node);
        if (stack.back().next < in.size()) {
          enter(in[stack.back().next++]);
        } else {
          out.push_back(node);
          stack.pop_back();
        }
      }
    }
    return out;
  }

  /// A copy of the nodes `order`; `moved` receives their places.
  ir::graph made(const series<id>& order, series<id>& moved) const {
    ir::graph out;
    moved = series<id>(body.size(), ir::no_node);
    for (const id input : body.inputs) {
      const ir::node& n = body[input];
      moved[input] = out.add_input(n.type, n.extents, n.where);
    }
    for (const id node : order) {
      const ir::node& n = body[node];
      if (n.code == ir::op::input) continue;
      series<id> in;
      for (const id operand : operands(node)) in.push_back(moved[operand]);
      moved[node] = out.push(n.code, std::move(in), n.attr, n.where);
    }
    for (const id output : body.outputs) out.outputs.push_back(moved[output]);
    return out;
  }
  /// All nodes, also those that no result needs, with replaced operands in place.
  void settle() {
    if (reads.empty()) return;
    series<id> all;
    for (id node = 0; node < body.size(); ++node) all.push_back(node);
    series<id> moved;
    ir::graph next = made(below(all), moved);
    body = std::move(next);
    of = series<id>(body.size(), ir::no_node);
    for (id x = 0; x < at.size(); ++x) {
      at[x] = moved[at[x]];
      if (of[at[x]] == ir::no_node) of[at[x]] = x;
    }
    reads.clear();
  }
  series<id> live() const {
    series<id> roots = body.outputs;
    roots.insert(roots.end(), body.effects.begin(), body.effects.end());
    series<id> needed = below(roots), out = body.inputs;
    for (const id node : needed)
      if (body[node].code != ir::op::input) out.push_back(node);
    return out;
  }
};

SINTER_API graph::graph() : graph(ir::graph()) {}
SINTER_API graph::graph(ir::graph body) : state_(new state{std::move(body), {}, {}, {}}) { state_->number(); }
SINTER_API graph::graph(std::shared_ptr<const engine::tracer> t)
    : state_(new state{t->graph, t->captures, t->assumed, t->where}) {
  state_->number();
}
SINTER_API graph::graph(engine::tracer&& t)
    : state_(new state{std::move(t.graph), std::move(t.captures), std::move(t.assumed), std::move(t.where)}) {
  state_->number();
}
SINTER_API graph::graph(const graph& x) : state_(new state(*x.state_)) {}
SINTER_API graph::graph(graph&& x) noexcept : state_(std::exchange(x.state_, nullptr)) {}
SINTER_API graph& graph::operator=(graph x) noexcept {
  std::swap(state_, x.state_);
  return *this;
}
SINTER_API graph::~graph() { delete state_; }

SINTER_API ir::graph graph::body() const {
  if (state_->reads.empty()) return state_->body;
  series<id> moved;
  return state_->made(state_->live(), moved);
}
SINTER_API std::string graph::text() const { return ir::print(body()); }
SINTER_API std::string graph::text(id of) const {
  const ir::node n = (*this)[of];
  const ir::node& shown = state_->body[state_->at[of]];
  std::string line = ir::print(state_->body, state_->at[of]);
  std::size_t operands = 0;
  for (const id x : shown.in) operands += std::to_string(x).size() + 2;
  line = "%" + std::to_string(of) + line.substr(line.find(' '), line.size() - operands - line.find(' '));
  for (const id x : n.in) line += " %" + std::to_string(x);
  return line;
}
SINTER_API std::size_t graph::nodes() const { return state_->live().size(); }
SINTER_API series<ir::node_id> graph::order() const { return state_->ids(state_->live()); }
SINTER_API ir::node graph::operator[](id of) const {
  const id node = state_->node_of(of, "graph", {});
  ir::node n = state_->body[node];
  n.in = state_->ids(state_->operands(node));
  return n;
}
SINTER_API series<ir::node_id> graph::inputs() const { return state_->ids(state_->body.inputs); }
SINTER_API std::size_t graph::captured() const { return state_->captures.size(); }
SINTER_API series<ir::node_id> graph::outputs() const { return state_->ids(state_->body.outputs); }
SINTER_API series<graph> graph::parts(id of) const {
  series<graph> out;
  const ir::node& n = state_->body[state_->node_of(of, "graph::parts", {})];
  if (n.attr.step)
    for (const ir::graph& part : n.attr.step->parts) out.push_back(graph(part));
  return out;
}

SINTER_API ir::node_id graph::push(ir::op code, series<id> in, ir::attributes attr, location where) {
  state& s = *state_;
  if (code == ir::op::input) fail("graph::push", "an input is no operation; add_input makes one", where);
  if (code == ir::op::opaque && !attr.step) fail("graph::push", "an opaque node needs attributes with a step", where);
  for (id& x : in) x = s.node_of(x, "graph::push", where);
  const auto add = [&] {
    try {
      return s.body.push(code, in, attr, where);
    } catch (const internal_error&) {
      fail("graph::push",
           std::string(ir::name(code)) +
               " takes another number of operands, or other attributes; the first lines of ir/ops/" + ir::name(code) +
               ".hpp and the rows of ir/ops.def have them",
           where);
    }
  };
  id node = add();
  if (node < s.of.size() && s.reads.contains(node)) {  // a node that now reads other operands is not this one
    const series<id> kept = s.ids(in);
    s.settle();
    for (std::size_t k = 0; k < in.size(); ++k) in[k] = s.at[kept[k]];
    node = add();
  }
  s.number();
  return s.of[node];
}
SINTER_API ir::node_id graph::constant(dtype type, double value, ir::shape extents, location where) {
  ir::attributes a;
  a.type = type;
  a.literal = ir::scalar::of(type, value);
  a.dims = std::move(extents);
  return push(ir::op::constant, {}, std::move(a), where);
}
SINTER_API ir::node_id graph::add_input(dtype type, ir::shape extents, location where) {
  if (!state_->captures.empty())
    fail("graph::add_input",
         "the graph has captured tensors, which are its last inputs; trace a function that takes one more argument",
         where);
  const id node = state_->body.add_input(type, std::move(extents), where);
  state_->number();
  return state_->of[node];
}

SINTER_API void graph::replace(id old, id by, location where) {
  state& s = *state_;
  const id from = s.node_of(old, "graph::replace", where), to = s.node_of(by, "graph::replace", where);
  const ir::node &a = s.body[from], &b = s.body[to];
  if (a.type != b.type || !(a.extents == b.extents))
    fail("graph::replace",
         "%" + std::to_string(old) + " is " + dtype_name(a.type) + ir::text_of(a.extents) + ", %" + std::to_string(by) +
             " is " + dtype_name(b.type) + ir::text_of(b.extents) + "; both must have one dtype and shape",
         where);
  if (a.code == ir::op::opaque || b.code == ir::op::opaque)
    fail("graph::replace", "an opaque node has no value of its own; replace its picks", where);
  if (from == to) return;
  series<char> kept(s.body.size(), 0);
  for (const id node : s.below({to})) kept[node] = 1;
  for (id node = 0; node < s.body.size(); ++node) {
    if (kept[node]) continue;
    const series<id>& in = s.operands(node);
    if (std::find(in.begin(), in.end(), from) == in.end()) continue;
    series<id> changed = in;
    std::replace(changed.begin(), changed.end(), from, to);
    s.reads[node] = std::move(changed);
  }
  std::replace(s.body.outputs.begin(), s.body.outputs.end(), from, to);
}
SINTER_API void graph::set_outputs(series<id> to, location where) {
  for (id& x : to) {
    x = state_->node_of(x, "graph::set_outputs", where);
    if (state_->body[x].code == ir::op::opaque)
      fail("graph::set_outputs", "an opaque node has no value of its own; return its picks", where);
  }
  state_->body.outputs = std::move(to);
}

SINTER_API std::shared_ptr<engine::tracer> graph::traced() const {
  auto t = engine::make_on_heap<engine::tracer>();
  t->graph = body();
  t->captures = state_->captures;
  t->assumed = state_->assumed;
  t->where = state_->where;
  return t;
}

namespace engine {

namespace detail {

/// The sizes of g, which are s0, s1, …, as sizes of the trace of its arguments.
inline series<ir::dim> sizes_of_arguments(const tracer& t, const size_layout& layout,
                                          const series<ir::node_id>& arguments) {
  series<ir::dim> out;
  for (const open_size& s : layout.sizes) {
    if (s.derived) {
      out.push_back(s.value);
      continue;
    }
    const fact_of from = s.extents[0];
    const ir::dim extent =
        t.graph[arguments[static_cast<std::size_t>(from.tensor)]].extents[static_cast<std::size_t>(from.axis)];
    out.push_back(ir::floor_div(extent - s.offset, s.factor));
  }
  return out;
}

/// Puts the arguments' sizes in place of a graph's.
inline void bind_graph_sizes(ir::graph& g, const series<ir::dim>& sizes) {
  constexpr int apart = 1 << 20;  // so that a size of the trace is not taken for one of the graph
  const int n = static_cast<int>(sizes.size());
  g.replace_sizes([&](const ir::dim& d) {
    ir::dim out = d;
    for (int k = 0; k < n; ++k) out = ir::substituted(out, k, ir::dim::symbol(apart + k));
    for (int k = 0; k < n; ++k) out = ir::substituted(out, apart + k, sizes[static_cast<std::size_t>(k)]);
    return out;
  });
}

inline void check_argument(const ir::graph& g, std::size_t k, const ir::node& given, location where) {
  const ir::node& wanted = g[g.inputs[k]];
  if (given.type == wanted.type && given.extents == wanted.extents) return;
  fail("graph::run",
       "argument " + std::to_string(k) + " is " + dtype_name(given.type) + ir::text_of(given.extents) +
           ", the graph takes " + dtype_name(wanted.type) + ir::text_of(wanted.extents) +
           "; trace the function for these arguments",
       where.line ? where : given.where);
}

/// user_error for sizes for which the graph does not hold.
inline void check_graph_guards(const size_layout& layout, const series<ir::dim>& sizes, location where) {
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const bool fits =
        sizes[k].lower_bound() >= 2 && (!sizes[k].is_number() || *sizes[k].number() <= layout.sizes[k].most);
    if (layout.sizes[k].derived || fits) continue;
    fail("graph::run",
         "the graph does not hold for s" + std::to_string(k) + " = " + sizes[k].text() +
             "; an open size is at least 2: trace the function for these arguments",
         where);
  }
  for (const size_guard& guard : layout.guards) {
    ir::dim value = guard.value;
    for (std::size_t k = 0; k < sizes.size(); ++k) value = ir::substituted(value, static_cast<int>(k), sizes[k]);
    const bool known = value.is_number();
    const bool holds = guard.positive ? value.lower_bound() > 0 : ir::is_always_zero(value);
    const bool fails =
        guard.positive ? value.upper_bound() <= 0 : value.lower_bound() > 0 || value.upper_bound() < 0 || known;
    if (guard.holds ? holds : !holds && fails) continue;
    fail("graph::run", "the graph does not hold for these sizes; trace the function for these arguments", where);
  }
}

}  // namespace detail

SINTER_API void check_counts(const graph& g, std::size_t given, std::size_t wanted, location where) {
  const std::size_t takes = g.inputs().size() - g.captured(), gives = g.outputs().size();
  if (given != takes)
    fail("graph::run", "the graph takes " + std::to_string(takes) + " arguments, not " + std::to_string(given), where);
  if (wanted != gives)
    fail("graph::run",
         "the graph gives " + std::to_string(gives) + " results, not " + std::to_string(wanted) +
             "; name the type of each: g.run<tensor<float, 2>, tensor<float, 1>>(x)",
         where);
}

SINTER_API series<ir::node_id> push_graph(tracer& t, const graph& g, const series<ir::node_id>& arguments,
                                          location where) {
  const auto from = g.traced();
  ir::graph body = std::move(from->graph);
  const size_layout& layout = from->assumed.layout;
  if (!layout.sizes.empty()) {
    const auto sizes = detail::sizes_of_arguments(t, layout, arguments);
    detail::check_graph_guards(layout, sizes, where);
    detail::bind_graph_sizes(body, sizes);
  }
  for (std::size_t k = 0; k < arguments.size(); ++k) detail::check_argument(body, k, t.graph[arguments[k]], where);
  series<ir::node_id> in = arguments;
  for (const captured& c : from->captures) {
    argument x{c.data,           &c.memory,        c.type,    static_cast<int>(c.extents.size()),
               c.extents.data(), c.strides.data(), c.by_value};
    in.push_back(t.capture(x, where));
  }
  return ir::splice(t.graph, body, in);
}

}  // namespace engine
}  // namespace sinter
