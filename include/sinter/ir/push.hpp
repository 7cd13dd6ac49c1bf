// ir/push.hpp: the door into a graph: interning, marks, liveness.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>

#include "../base/kept.hpp"
#include "../base/series.hpp"
#include "graph.hpp"

namespace sinter::ir {

namespace detail {

template <class T>
void append(std::string& key, T x) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &x, sizeof(T));
  key.append(bytes, sizeof(T));
}

inline void append_intern_key(std::string& key, op code, const series<node_id>& in, const attributes& attr) {
  append(key, static_cast<std::uint8_t>(code));
  append(key, static_cast<std::uint8_t>(attr.type));
  append(key, static_cast<std::uint8_t>(attr.combiner));
  append(key, std::bit_cast<std::uint64_t>(attr.literal.f));
  append(key, attr.literal.i);
  append(key, static_cast<std::uint32_t>(in.size()));
  if (attr.step) key += attr.step->text + attr.step->apart;
  append(key, static_cast<std::uint32_t>(attr.ints.size()));
  for (auto id : in) append(key, id);
  for (auto x : attr.ints) append(key, x);
  for (const auto& d : attr.dims) {
    key += d.is_number() ? 'n' : 's';
    if (const auto number = d.number()) append(key, *number);
    else append(key, reinterpret_cast<std::uintptr_t>(d.symbolic()));  // interned for the life of the process
  }
}

/// Equal for operations of equal meaning; doubles count by their bits, locations do not count.
inline std::string intern_key(op code, const series<node_id>& in, const attributes& attr) {
  std::string key;
  key.reserve(48 + 4 * in.size() + 8 * attr.ints.size() + 9 * attr.dims.size());
  append_intern_key(key, code, in, attr);
  return key;
}

}  // namespace detail

/// The nodes, and by what they mean those that later ones may equal.
struct graph::table {
  std::deque<node> nodes;
  std::unordered_map<std::string, node_id> interned;
};

SINTER_API graph::graph() = default;
SINTER_API graph::graph(const graph& x)
    : inputs(x.inputs),
      outputs(x.outputs),
      effects(x.effects),
      table_(x.table_ ? new table(*x.table_) : nullptr),
      marks_(x.marks_) {}
SINTER_API graph::graph(graph&& x) noexcept
    : inputs(std::move(x.inputs)),
      outputs(std::move(x.outputs)),
      effects(std::move(x.effects)),
      table_(std::exchange(x.table_, nullptr)),
      marks_(std::exchange(x.marks_, 0)) {}
SINTER_API graph& graph::operator=(graph x) noexcept {
  inputs.swap(x.inputs);
  outputs.swap(x.outputs);
  effects.swap(x.effects);
  std::swap(table_, x.table_);
  std::swap(marks_, x.marks_);
  return *this;
}
SINTER_API graph::~graph() { delete table_; }

SINTER_API const node& graph::operator[](node_id id) const { return table_->nodes[id]; }
SINTER_API std::size_t graph::size() const { return table_ ? table_->nodes.size() : 0; }

SINTER_API void graph::order_inputs(series<node_id> order) {
  inputs = std::move(order);
  for (std::size_t k = 0; k < inputs.size(); ++k) table_->nodes[inputs[k]].attr.ints = {static_cast<std::int64_t>(k)};
}

namespace detail {
inline attributes constant_attributes(dtype type, scalar literal, shape extents) {
  attributes a;
  a.type = type;
  a.literal = literal;
  a.dims = std::move(extents);
  return a;
}
}  // namespace detail

SINTER_API node_id graph::constant(dtype type, scalar literal, shape extents, location where) {
  return push(op::constant, {}, detail::constant_attributes(type, literal, std::move(extents)), where);
}
SINTER_API node_id graph::constant_apart(dtype type, scalar literal, shape extents, std::int64_t source,
                                         location where) {
  attributes a = detail::constant_attributes(type, literal, std::move(extents));
  a.ints = {source};
  return push(op::constant, {}, std::move(a), where);
}
SINTER_API node_id graph::constant(dtype type, double x, shape extents, location where) {
  return constant(type, scalar::of(type, x), std::move(extents), where);
}

SINTER_API node_id push_constant_like(graph& g, const node& n, shape extents) {
  return n.attr.ints.empty() ? g.constant(n.type, n.attr.literal, std::move(extents), n.where)
                             : g.constant_apart(n.type, n.attr.literal, std::move(extents), n.attr.ints[0], n.where);
}

SINTER_API node_id push_pick(graph& g, node_id step, std::size_t k, location where) {
  attributes a;
  a.ints = {static_cast<std::int64_t>(k)};
  return g.push(op::pick, {step}, std::move(a), where);
}

SINTER_API node_id graph::push(op code, series<node_id> in, attributes attr, location where) {
  ensure(code != op::input, "inputs enter through add_input");
  const bool has_effect = code == op::opaque && attr.step && attr.step->has_effect;
  if (has_effect && attr.ints.empty()) attr.ints = {static_cast<std::int64_t>(effects.size())};
  std::string key = detail::intern_key(code, in, attr);
  if (!table_) table_ = new table;
  if (const auto found = table_->interned.find(key); found != table_->interned.end()) return found->second;
  node n{code, std::move(in), std::move(attr), {}, {}, sinter::detail::kept(where)};
  try {
    infer(*this, n);
  } catch (const user_error& problem) {
    auto* const sizes = static_cast<open_sizes*>(sinter::detail::current_sizes());
    if (!sizes || !sizes->give_up(n.attr, problem.what(), where)) throw;
    return push(code, std::move(n.in), std::move(n.attr), where);
  }
  ensure(table_->nodes.size() < no_node, "a graph has fewer than 2^32 nodes");
  const auto id = static_cast<node_id>(table_->nodes.size());
  // A copied mark keeps its tag; later marks must differ from it.
  if (code == op::identity && !n.attr.ints.empty()) marks_ = std::max(marks_, n.attr.ints[0] + 1);
  if (has_effect) {
    const auto turn = static_cast<std::size_t>(n.attr.ints[0]);
    if (effects.size() <= turn) effects.resize(turn + 1, no_node);
    effects[turn] = id;
  }
  table_->nodes.push_back(std::move(n));
  table_->interned.emplace(std::move(key), id);
  return id;
}

SINTER_API node_id graph::add_input(dtype type, shape extents, location where) {
  node n;
  n.attr.type = type;
  n.attr.dims = std::move(extents);
  n.attr.ints = {static_cast<std::int64_t>(inputs.size())};
  n.where = sinter::detail::kept(where);
  infer(*this, n);
  ensure(size() < no_node, "a graph has fewer than 2^32 nodes");
  if (!table_) table_ = new table;
  const auto id = static_cast<node_id>(size());
  table_->nodes.push_back(std::move(n));
  inputs.push_back(id);
  return id;
}

SINTER_API node_id graph::mark(node_id x) {
  ensure(x < size(), "a marked node is in the graph");
  attributes a;
  a.ints = {marks_};
  return push(op::identity, {x}, std::move(a), table_->nodes[x].where);
}

SINTER_API void graph::replace_sizes(const callback<dim(const dim&)>& value) {
  if (!table_) return;
  table_->interned.clear();
  for (std::size_t i = 0; i < size(); ++i) {
    node& n = table_->nodes[i];
    for (auto& d : n.attr.dims) d = value(d);
    for (auto& d : n.extents) d = value(d);
    if (n.attr.step)
      if (auto step = with_sizes(*n.attr.step, value)) n.attr.step = std::move(step);
    if (n.code != op::input)
      table_->interned.emplace(detail::intern_key(n.code, n.in, n.attr), static_cast<node_id>(i));
  }
}

SINTER_API void append_structure(std::string& key, const graph& g, series<node_id>* constants) {
  for (node_id i = 0; i < g.size(); ++i) {
    const node& n = g[i];
    if (!constants || n.code != op::constant || !is_float(n.type)) {
      detail::append_intern_key(key, n.code, n.in, n.attr);
      continue;
    }
    attributes any = n.attr;
    any.literal = {};
    detail::append_intern_key(key, n.code, n.in, any);
    constants->push_back(i);
  }
  for (auto id : g.outputs) detail::append(key, id);
}

SINTER_API series<node_id> graph::live() const {
  series<bool> needed(size(), false);
  for (auto id : inputs) needed[id] = true;
  for (auto id : outputs) needed[id] = true;
  for (auto id : effects) needed[id] = true;
  series<node_id> ids;
  for (std::size_t i = size(); i-- > 0;) {
    if (!needed[i]) continue;
    ids.push_back(static_cast<node_id>(i));
    for (auto operand : table_->nodes[i].in) needed[operand] = true;
  }
  std::reverse(ids.begin(), ids.end());
  return ids;
}

}  // namespace sinter::ir
