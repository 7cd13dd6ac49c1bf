// ir/push.hpp: the entrance to a graph: interning, marks, liveness.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <string>
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

/// True for operations of equal meaning; doubles count by their bits, locations do not count.
inline bool means_the_same(op code, const series<node_id>& in, const attributes& attr, const node& n) {
  const attributes& b = n.attr;
  if (code != n.code || attr.type != b.type || attr.combiner != b.combiner || attr.literal.i != b.literal.i ||
      std::bit_cast<std::uint64_t>(attr.literal.f) != std::bit_cast<std::uint64_t>(b.literal.f) || !(in == n.in) ||
      !(attr.ints == b.ints) || !(attr.dims == b.dims))
    return false;
  if (!attr.step || !b.step) return attr.step == b.step;
  return attr.step == b.step || (attr.step->text == b.step->text && attr.step->apart == b.step->apart);
}

/// Equal for operations of equal meaning; see means_the_same().
inline std::uint32_t hash_of(op code, const series<node_id>& in, const attributes& attr) {
  std::uint64_t h = static_cast<std::uint64_t>(code);
  const auto add = [&](std::uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
  };
  add(static_cast<std::uint64_t>(attr.type) << 8 | static_cast<std::uint64_t>(attr.combiner));
  add(std::bit_cast<std::uint64_t>(attr.literal.f));
  add(static_cast<std::uint64_t>(attr.literal.i));
  if (attr.step) add(std::hash<std::string>()(attr.step->text));
  for (auto id : in) add(id);
  for (auto x : attr.ints) add(static_cast<std::uint64_t>(x));
  for (const auto& d : attr.dims) {
    const auto number = d.number();  // symbolic ones are interned for the life of the process
    add(number ? static_cast<std::uint64_t>(*number) : reinterpret_cast<std::uintptr_t>(d.symbolic()));
  }
  return static_cast<std::uint32_t>(h ^ h >> 29);
}

/// Nodes in blocks, so that their addresses are stable.
class node_list {
 public:
  node_list() = default;
  node_list(const node_list& x) {
    for (std::size_t i = 0; i < x.size_; ++i) push_back(x[i]);
  }
  node_list& operator=(const node_list&) = delete;
  ~node_list() {
    for (std::size_t i = 0; i < size_; ++i) (*this)[i].~node();
    for (node* b : blocks_) ::operator delete(b);
  }
  std::size_t size() const { return size_; }
  node& operator[](std::size_t i) { return blocks_[i / block][i % block]; }
  const node& operator[](std::size_t i) const { return blocks_[i / block][i % block]; }
  void push_back(node n) { emplace_back(std::move(n)); }
  template <class... X>
  node& emplace_back(X&&... x) {
    if (size_ == block * blocks_.size()) blocks_.push_back(static_cast<node*>(::operator new(block * sizeof(node))));
    node* const made = ::new (static_cast<void*>(blocks_[size_ / block] + size_ % block)) node{std::forward<X>(x)...};
    ++size_;
    return *made;
  }
  void pop_back() { (*this)[--size_].~node(); }

 private:
  static constexpr std::size_t block = 32;
  series<node*> blocks_;
  std::size_t size_ = 0;
};

}  // namespace detail

/// The nodes, and a hash table of nodes that later ones may equal; made by the first push that needs it.
struct graph::table {
  detail::node_list nodes;

  table() = default;
  table(const table& x) : nodes(x.nodes) {}

  /// The node with this meaning, or no_node.
  node_id find(op code, const series<node_id>& in, const attributes& attr, std::uint32_t hash) {
    for (; interned_ < nodes.size(); ++interned_) {
      const node& n = nodes[interned_];
      if (n.code != op::input) enter(static_cast<node_id>(interned_), detail::hash_of(n.code, n.in, n.attr));
    }
    if (slots_.empty()) return no_node;
    const slot& at = place(code, in, attr, hash);
    return at.id;
  }
  /// Makes the last node findable by push().
  void intern_last(std::uint32_t hash) {
    const std::size_t id = nodes.size() - 1;
    if (interned_ != id) return;
    enter(static_cast<node_id>(id), hash);
    ++interned_;
  }
  /// Call after the meaning of nodes has changed: from now on, the first of equal nodes represents the others.
  void forget() {
    slots_.clear();
    used_ = interned_ = 0;
  }

 private:
  struct slot {
    std::uint32_t hash = 0;
    node_id id = no_node;
  };

  slot& place(op code, const series<node_id>& in, const attributes& attr, std::uint32_t hash) {
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].id != no_node &&
           (slots_[at].hash != hash || !detail::means_the_same(code, in, attr, nodes[slots_[at].id])))
      at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  void enter(node_id id, std::uint32_t hash) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    const node& n = nodes[id];
    slot& at = place(n.code, n.in, n.attr, hash);
    if (at.id != no_node) return;
    at = {hash, id};
    ++used_;
  }
  void grow() {
    series<slot> old(std::max<std::size_t>(64, 2 * slots_.size()));
    old.swap(slots_);
    for (const slot& s : old) {
      if (s.id == no_node) continue;
      std::size_t at = s.hash & (slots_.size() - 1);
      while (slots_[at].id != no_node) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = s;
    }
  }

  series<slot> slots_;                   ///< a power of two, at least half of them free
  std::size_t used_ = 0, interned_ = 0;  ///< slots in use; nodes in the table, from the first on
};

SINTER_API graph::graph() = default;
SINTER_API graph::graph(const graph& x)
    : inputs(x.inputs),
      outputs(x.outputs),
      effects(x.effects),
      table_(x.table_ ? new table(*x.table_) : nullptr),
      marks_(x.marks_),
      sizes_replaced_(x.sizes_replaced_) {}
SINTER_API graph::graph(graph&& x) noexcept
    : inputs(std::move(x.inputs)),
      outputs(std::move(x.outputs)),
      effects(std::move(x.effects)),
      table_(std::exchange(x.table_, nullptr)),
      marks_(std::exchange(x.marks_, 0)),
      sizes_replaced_(std::exchange(x.sizes_replaced_, false)) {}
SINTER_API graph& graph::operator=(graph x) noexcept {
  inputs.swap(x.inputs);
  outputs.swap(x.outputs);
  effects.swap(x.effects);
  std::swap(table_, x.table_);
  std::swap(marks_, x.marks_);
  std::swap(sizes_replaced_, x.sizes_replaced_);
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

namespace detail {

/// Makes extents that were found equal the same dims; operands are reshaped. False if nothing changed.
inline bool unify(graph& g, const open_sizes& sizes, series<node_id>& operands, attributes& attr, location where) {
  bool changed = false;
  const auto unified = [&](shape& extents) {
    bool any = false;
    for (auto& d : extents) {
      const dim one = sizes.unified(d);
      any |= one != d;
      d = one;
    }
    changed |= any;
    return any;
  };
  for (auto& id : operands) {
    attributes to;
    to.dims = g[id].extents;
    if (unified(to.dims)) id = g.push(op::reshape, {id}, std::move(to), where);
  }
  unified(attr.dims);
  return changed;
}

}  // namespace detail

SINTER_API node_id graph::push(op code, series<node_id> in, attributes attr, location where) {
  ensure(code != op::input, "inputs enter through add_input");
  const bool has_effect = code == op::opaque && attr.step && attr.step->has_effect;
  if (has_effect && attr.ints.empty()) attr.ints = {static_cast<std::int64_t>(effects.size())};
  if (!table_) table_ = new table;
  const std::uint32_t hash = detail::hash_of(code, in, attr);
  if (const node_id found = table_->find(code, in, attr, hash); found != no_node) return found;
  const std::size_t before = table_->nodes.size();
  ensure(before < no_node, "a graph has fewer than 2^32 nodes");
  for (auto operand : in) ensure(operand < before, "an operand is a node of the graph");
  node& n = table_->nodes.emplace_back(code, std::move(in), std::move(attr), dtype::f32, shape(),
                                       sinter::detail::kept(where));
  try {
    infer(*this, n);
  } catch (const user_error& problem) {
    const node refused = std::move(n);
    table_->nodes.pop_back();
    attributes changed = refused.attr;
    auto* const sizes = static_cast<open_sizes*>(sinter::detail::current_sizes());
    if (!sizes) throw;
    series<node_id> operands = refused.in;
    if (!detail::unify(*this, *sizes, operands, changed, where) && !sizes->give_up(changed, problem.what(), where))
      throw;
    return push(code, std::move(operands), std::move(changed), where);
  } catch (...) {
    table_->nodes.pop_back();
    throw;
  }
  const auto id = static_cast<node_id>(before);
  // A copied mark keeps its tag, from which later marks must differ.
  if (code == op::identity && !n.attr.ints.empty()) marks_ = std::max(marks_, n.attr.ints[0] + 1);
  if (has_effect) {
    const auto turn = static_cast<std::size_t>(n.attr.ints[0]);
    if (effects.size() <= turn) effects.resize(turn + 1, no_node);
    effects[turn] = id;
  }
  table_->intern_last(hash);
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
  table_->forget();
  sizes_replaced_ = true;
  for (std::size_t i = 0; i < size(); ++i) {
    node& n = table_->nodes[i];
    for (auto& d : n.attr.dims) d = value(d);
    for (auto& d : n.extents) d = value(d);
    if (n.attr.step)
      if (auto step = with_sizes(*n.attr.step, value)) n.attr.step = std::move(step);
  }
}

SINTER_API graph graph::numbered(const series<node_id>& order) const {
  graph out;
  if (!table_) return out;
  out.table_ = new table;
  out.marks_ = marks_;
  out.sizes_replaced_ = sizes_replaced_;
  series<node_id> moved(size(), no_node);
  const auto add = [&](node_id id) {
    moved[id] = static_cast<node_id>(out.size());
    node n = table_->nodes[id];
    for (auto& operand : n.in) operand = moved[operand];
    out.table_->nodes.push_back(std::move(n));
  };
  for (auto id : inputs) add(id), out.inputs.push_back(moved[id]);
  for (auto id : order)
    if (table_->nodes[id].code != op::input) add(id);
  for (auto id : outputs) out.outputs.push_back(moved[id]);
  for (auto id : effects) out.effects.push_back(moved[id]);
  return out;
}

SINTER_API bool equal(const graph& a, const graph& b) {
  if (a.size() != b.size() || !(a.inputs == b.inputs) || !(a.outputs == b.outputs) || !(a.effects == b.effects))
    return false;
  for (node_id id = 0; id < a.size(); ++id)
    if (!detail::means_the_same(a[id].code, a[id].in, a[id].attr, b[id])) return false;
  return true;
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
