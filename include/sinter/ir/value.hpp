// ir/value.hpp: graph nodes as values with operators, for derivatives and rewrite rules.
#pragma once

#include "../base/series.hpp"
#include "graph.hpp"

namespace sinter::ir {

/// A node and its graph; expressions of values push nodes. Scalars take the other operand's dtype and extents. An empty value
/// stands for no node (a zero derivative).
class value {
 public:
  value() = default;
  value(graph& g, node_id id, location where = {}) : graph_(&g), id_(id), where_(where) {}

  explicit operator bool() const { return graph_ != nullptr; }
  node_id id() const { return id_; }
  graph& owner() const { return *graph_; }
  location where() const { return where_; }
  const node& get() const { return (*graph_)[id_]; }
  dtype type() const { return get().type; }
  const shape& extents() const { return get().extents; }
  int rank() const { return static_cast<int>(get().extents.size()); }

  /// A literal with this value's dtype and extents.
  value like(double x) const { return {*graph_, graph_->constant(type(), x, extents(), where_), where_}; }

 private:
  graph* graph_ = nullptr;
  node_id id_ = no_node;
  location where_;
};

inline value push(op code, std::initializer_list<value> in, attributes attr = {}) {
  const value& first = *in.begin();
  series<node_id> ids;
  ids.reserve(in.size());
  for (const auto& v : in) ids.push_back(v.id());
  return {first.owner(), first.owner().push(code, std::move(ids), std::move(attr), first.where()), first.where()};
}

#define SINTER_UNARY(NAME) \
  inline value NAME(const value& a) { return push(op::NAME, {a}); }
#define SINTER_BINARY(NAME)                                                              \
  inline value NAME(const value& a, const value& b) { return push(op::NAME, {a, b}); }   \
  inline value NAME(const value& a, double b) { return push(op::NAME, {a, a.like(b)}); } \
  inline value NAME(double a, const value& b) { return push(op::NAME, {b.like(a), b}); }
SINTER_UNARY(neg)
SINTER_UNARY(sign)
SINTER_UNARY(stop_gradient)
SINTER_UNARY(exp)
SINTER_UNARY(log)
SINTER_UNARY(sqrt)
SINTER_UNARY(rsqrt)
SINTER_UNARY(sin)
SINTER_UNARY(cos)
SINTER_UNARY(sinh)
SINTER_UNARY(cosh)
SINTER_UNARY(digamma)
SINTER_UNARY(round)
SINTER_UNARY(bit_not)
SINTER_BINARY(add)
SINTER_BINARY(sub)
SINTER_BINARY(mul)
SINTER_BINARY(div)
SINTER_BINARY(pow)
SINTER_BINARY(hypot)
SINTER_BINARY(polygamma)
SINTER_BINARY(maximum)
SINTER_BINARY(minimum)
SINTER_BINARY(bit_and)
SINTER_BINARY(bit_or)
SINTER_BINARY(eq)
SINTER_BINARY(ne)
SINTER_BINARY(lt)
SINTER_BINARY(le)
SINTER_BINARY(gt)
SINTER_BINARY(ge)
#undef SINTER_UNARY
#undef SINTER_BINARY

#define SINTER_OPERATOR(SYMBOL, NAME)                                                 \
  inline value operator SYMBOL(const value& a, const value& b) { return NAME(a, b); } \
  inline value operator SYMBOL(const value& a, double b) { return NAME(a, b); }       \
  inline value operator SYMBOL(double a, const value& b) { return NAME(a, b); }
SINTER_OPERATOR(+, add)
SINTER_OPERATOR(-, sub)
SINTER_OPERATOR(*, mul)
SINTER_OPERATOR(/, div)
#undef SINTER_OPERATOR
inline value operator-(const value& a) { return neg(a); }

inline value select(const value& c, const value& a, const value& b) { return push(op::select, {c, a, b}); }
inline value select(const value& c, const value& a, double b) { return select(c, a, a.like(b)); }
inline value select(const value& c, double a, const value& b) { return select(c, b.like(a), b); }

/// x, whose derivative by `by` is NaN where `at` is true.
inline value kinked(const value& at, const value& x, const value& by) { return push(op::kinked, {at, x, by}); }

inline value cast(const value& x, dtype type) {
  if (x.type() == type) return x;
  attributes a;
  a.type = type;
  return push(op::cast, {x}, a);
}

inline value reshape(const value& x, shape extents) {
  if (x.extents() == extents) return x;
  attributes a;
  a.dims = std::move(extents);
  return push(op::reshape, {x}, std::move(a));
}

inline value permute(const value& x, series<std::int64_t> perm) {
  attributes a;
  a.ints = std::move(perm);
  return push(op::permute, {x}, std::move(a));
}

inline value broadcast(const value& x, shape extents) {
  if (x.extents() == extents) return x;
  attributes a;
  a.dims = std::move(extents);
  return push(op::broadcast, {x}, std::move(a));
}

inline value reduce(const value& x, op combiner, series<std::int64_t> axes) {
  if (axes.empty()) return x;
  attributes a;
  a.combiner = combiner;
  a.ints = std::move(axes);
  return push(op::reduce, {x}, std::move(a));
}

/// `count` elements of each axis from `start` with `steps`.
inline value slice(const value& x, shape count, const shape& start, series<std::int64_t> steps) {
  attributes a;
  a.dims = std::move(count);
  a.dims.insert(a.dims.end(), start.begin(), start.end());
  a.ints = std::move(steps);
  return push(op::slice, {x}, std::move(a));
}

inline value pad(const value& x, shape low, const shape& high, double literal) {
  attributes a;
  a.dims = std::move(low);
  a.dims.insert(a.dims.end(), high.begin(), high.end());
  a.literal = scalar::of(x.type(), literal);
  return push(op::pad, {x}, std::move(a));
}

/// The elements of x at start + Σ factor·i, with a row of factors for each axis of x.
inline value window(const value& x, shape extents, const shape& start, series<std::int64_t> factors) {
  attributes a;
  a.dims = std::move(extents);
  a.dims.insert(a.dims.end(), start.begin(), start.end());
  a.ints = std::move(factors);
  return push(op::window, {x}, std::move(a));
}

inline value concat(const series<value>& parts, std::int64_t axis) {
  series<node_id> ids;
  for (const auto& v : parts) ids.push_back(v.id());
  attributes a;
  a.ints = {axis};
  graph& g = parts[0].owner();
  return {g, g.push(op::concat, std::move(ids), std::move(a), parts[0].where()), parts[0].where()};
}

/// The index along `axis`, in the graph of `near`.
inline value iota(const value& near, dtype type, shape extents, std::int64_t axis) {
  attributes a;
  a.type = type;
  a.dims = std::move(extents);
  a.ints = {axis};
  return {near.owner(), near.owner().push(op::iota, {}, std::move(a), near.where()), near.where()};
}

inline value scan(const value& x, op combiner, std::int64_t axis, bool reverse) {
  attributes a;
  a.combiner = combiner;
  a.ints = {axis, reverse};
  return push(op::scan, {x}, std::move(a));
}

/// y[i] = x[i] + factors[i]·y[i - 1] along the axis, or y[i + 1] with `reverse`; the first element is x's.
inline value recurrence(const value& x, const value& factors, std::int64_t axis, bool reverse) {
  attributes a;
  a.combiner = op::add;
  a.ints = {axis, reverse};
  return push(op::scan, {x, factors}, std::move(a));
}

inline value gather(const value& x, const value& index, std::int64_t axis) {
  attributes a;
  a.ints = {axis};
  return push(op::gather, {x, index}, std::move(a));
}

inline value scatter_add(const value& base, const value& index, const value& updates, std::int64_t axis) {
  attributes a;
  a.ints = {axis};
  return push(op::scatter_add, {base, index, updates}, std::move(a));
}

/// `combiner` is mul, maximum or minimum, or identity for the last update. With `apart`, updates of one element are equal.
inline value scatter(const value& base, const value& index, const value& updates, op combiner, std::int64_t axis,
                     bool apart = false) {
  attributes a;
  a.combiner = combiner;
  a.ints = {axis, apart};
  return push(op::scatter, {base, index, updates}, std::move(a));
}

inline value dot(const value& a, const value& b, std::int64_t batch, std::int64_t inner) {
  attributes attr;
  attr.ints = {batch, inner};
  return push(op::dot, {a, b}, std::move(attr));
}

/// The inverse of dropping `axes`: extents of 1 put back, then broadcast to `extents`.
inline value expand(const value& x, const series<std::int64_t>& axes, const shape& extents) {
  shape kept = extents;
  for (auto axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
  return broadcast(reshape(x, std::move(kept)), extents);
}

}  // namespace sinter::ir
