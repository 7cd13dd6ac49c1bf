// onnx/values.hpp: untyped ops on nodes of the current trace, with NumPy's broadcasting. Operators are built from them.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "../front/tensor/trace_push.hpp"
#include "../ir/value.hpp"
#include "dynamic.hpp"
#include "wire.hpp"

namespace sinter::onnx {

/// A node of the current graph. Reading a value ends the graph, so nodes are requested after all reads.
using node = ir::value;
using extents = wire::list_of<dim>;
using ir::op;

inline location& place_of_nodes() {
  static thread_local location at;
  return at;
}

inline node value_of(ir::node_id id) { return {engine::current()->graph, id, place_of_nodes()}; }

inline extents extents_of(const node& x) {
  extents out;
  for (const ir::dim& d : x.extents()) out.push_back(engine::from_ir(d));
  return out;
}
inline ir::shape ir_shape(const extents& e) { return engine::to_ir(e.data(), static_cast<int>(e.size())); }
inline dim size_of_axis(const node& x, int axis) {
  if (axis < 0 || axis >= x.rank())
    wire::fail_file("axis " + std::to_string(axis) + " of a value with " + std::to_string(x.rank()) + " axes");
  return engine::from_ir(x.extents()[static_cast<std::size_t>(axis)]);
}

/// Whether two sizes are equal for all values of open extents. The comparison adds no guard.
inline bool always_equal(dim a, dim b) {
  const dim gap = a - b;
  return !gap.is_symbolic() && gap.bits == 0;
}

inline dim product_of(const extents& e, std::size_t first = 0, std::size_t last = ~std::size_t{0}) {
  dim n = 1;
  for (std::size_t i = first; i < e.size() && i < last; ++i) n = n * e[i];
  return n;
}

/// A whole number that serves as a place or size. Numbers beyond 2^52 are clamped, and NaN becomes 0.
inline std::int64_t whole_of(double x) {
  return std::isnan(x) ? 0 : static_cast<std::int64_t>(std::clamp(x, -0x1p52, 0x1p52));
}

/// An axis of `rank` axes, from an index that may count from the end.
inline int axis_of(std::int64_t axis, int rank) {
  const std::int64_t a = axis < 0 ? axis + rank : axis;
  if (a < 0 || a >= rank)
    wire::fail_file("axis " + std::to_string(axis) + " of a value with " + std::to_string(rank) + " axes");
  return static_cast<int>(a);
}

inline std::string text_of(const extents& e) {
  std::string out = "(";
  for (std::size_t i = 0; i < e.size(); ++i) out += (i ? ", " : "") + e[i].text();
  return out + ")";
}

inline extents broadcast_extents(const extents& a, const extents& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  extents out(rank, dim(1));
  for (std::size_t i = 0; i < rank; ++i) {
    const dim x = i + a.size() >= rank ? a[i + a.size() - rank] : dim(1);
    const dim y = i + b.size() >= rank ? b[i + b.size() - rank] : dim(1);
    // Equal open extents are not compared with 1, which would add a guard.
    if (op_shapes::is_one(x) || op_shapes::is_one(y)) out[i] = op_shapes::is_one(x) ? y : x;
    else if (x.bits == y.bits || x == y || y == 1) out[i] = x;
    else if (x == 1) out[i] = y;
    else wire::fail_file("the extents " + text_of(a) + " and " + text_of(b) + " do not broadcast");
  }
  return out;
}

inline node reshape_to(const node& x, const extents& to) {
  if (product_of(extents_of(x)) != product_of(to))
    wire::fail_file("a reshape of " + text_of(extents_of(x)) + " to " + text_of(to));
  return ir::reshape(x, ir_shape(to));
}
/// NumPy's broadcast_to, except that an extent of 1 of `to` keeps x's extent (ONNX's Expand).
inline node broadcast_to(const node& x, const extents& to) {
  const extents from = extents_of(x);
  const extents wide = broadcast_extents(from, to);
  return value_of(detail::push_broadcast(engine::current()->graph, x.id(), from.data(), static_cast<int>(from.size()),
                                         wide.data(), static_cast<int>(wide.size()), place_of_nodes()));
}

inline node pointwise(op code, const node& a) { return ir::push(code, {a}); }
inline node pointwise(op code, const node& a, const node& b) {
  const extents to = broadcast_extents(extents_of(a), extents_of(b));
  return ir::push(code, {broadcast_to(a, to), broadcast_to(b, to)});
}
inline node choose(const node& c, const node& a, const node& b) {
  const extents to = broadcast_extents(extents_of(c), broadcast_extents(extents_of(a), extents_of(b)));
  return ir::push(op::select, {broadcast_to(c, to), broadcast_to(a, to), broadcast_to(b, to)});
}
inline node plus(const node& a, const node& b) { return pointwise(op::add, a, b); }
inline node minus(const node& a, const node& b) { return pointwise(op::sub, a, b); }
inline node times(const node& a, const node& b) { return pointwise(op::mul, a, b); }
inline node over(const node& a, const node& b) { return pointwise(op::div, a, b); }

inline node constant_of(dtype type, const ir::scalar& x, const extents& e = {}) {
  auto& t = *engine::current();
  return value_of(detail::push_constant(t, type, x, e.data(), static_cast<int>(e.size()), place_of_nodes(), true));
}
inline node constant(dtype type, double x, const extents& e = {}) {
  return constant_of(type, ir::scalar::of(type, x), e);
}
inline node integer(std::int64_t v) { return constant_of(dtype::i64, {0, v}); }
/// A size as a rank-0 value.
inline node size_node(dim n, dtype type) {
  if (!n.is_symbolic())
    return is_float(type) ? constant(type, static_cast<double>(n.bits)) : constant_of(type, {0, n.bits});
  return value_of(ir::push_size(engine::current()->graph, type, engine::to_ir(n), place_of_nodes()));
}
inline node iota(dtype type, const extents& e, int axis) {
  ir::attributes a;
  a.type = type;
  a.dims = ir_shape(e);
  a.ints = {axis};
  return value_of(engine::current()->graph.push(op::iota, {}, std::move(a), place_of_nodes()));
}

inline node to_type(const node& x, dtype type) { return ir::cast(x, type); }

/// x, in f32 if x is a narrower float.
inline node wide(const node& x) { return is_narrow(x.type()) ? to_type(x, dtype::f32) : x; }

inline node permuted(const node& x, const std::vector<int>& perm) {
  if (static_cast<int>(perm.size()) != x.rank())
    wire::fail_file("a permutation of " + std::to_string(perm.size()) + " axes of " + text_of(extents_of(x)));
  series<std::int64_t> p;
  bool same = true;
  for (std::size_t i = 0; i < perm.size(); ++i) {
    p.push_back(perm[i]);
    same = same && perm[i] == static_cast<int>(i);
  }
  return same ? x : ir::permute(x, std::move(p));
}

/// x with extents of 1 inserted at these axes of the result, ascending.
inline node unsqueezed(const node& x, const std::vector<int>& axes) {
  extents e = extents_of(x);
  for (int a : axes) e.insert(e.begin() + axis_of(a, static_cast<int>(e.size()) + 1), dim(1));
  return reshape_to(x, e);
}

inline extents reduced_extents(const extents& e, const std::vector<int>& axes, bool keep) {
  extents out;
  for (std::size_t i = 0; i < e.size(); ++i) {
    const bool gone = std::find(axes.begin(), axes.end(), static_cast<int>(i)) != axes.end();
    if (!gone) out.push_back(e[i]);
    else if (keep) out.push_back(1);
  }
  return out;
}
/// A reduction of x over ascending axes.
inline node reduced(op combiner, const node& x, const std::vector<int>& axes, bool keep) {
  series<std::int64_t> list;
  for (int a : axes) list.push_back(a);
  const node r = ir::reduce(x, combiner, std::move(list));
  return keep ? reshape_to(r, reduced_extents(extents_of(x), axes, true)) : r;
}
inline dim count_over(const node& x, const std::vector<int>& axes) {
  dim n = 1;
  for (int a : axes) n = n * size_of_axis(x, a);
  return n;
}
inline node mean_over(const node& x, const std::vector<int>& axes, bool keep) {
  const node sum = reduced(op::add, x, axes, keep);
  return over(sum, size_node(count_over(x, axes), x.type()));
}

/// The sum of the squares of a float over ascending axes, as f64.
inline node squares_over(const node& x, const std::vector<int>& axes, bool keep) {
  ir::attributes a;
  for (int axis : axes) a.ints.push_back(axis);
  const node s = ir::push(op::sum_squares, {x}, std::move(a));
  return keep ? reshape_to(s, reduced_extents(extents_of(x), axes, true)) : s;
}

/// count elements of an axis, from start by step.
inline node sliced(const node& x, int axis, dim start, dim count, std::int64_t step = 1) {
  extents counts = extents_of(x), starts(counts.size(), dim(0));
  const auto a = static_cast<std::size_t>(axis);
  if (step == 1 && always_equal(start, 0) && always_equal(counts[a], count)) return x;
  counts[a] = count;
  starts[a] = start;
  series<std::int64_t> steps(counts.size(), 1);
  steps[a] = step;
  return ir::slice(x, ir_shape(counts), ir_shape(starts), std::move(steps));
}
inline node joined(const std::vector<node>& parts, int axis) {
  if (parts.empty()) wire::fail_file("nothing is joined");
  if (parts.size() == 1) return parts[0];
  series<node> all;
  for (const node& p : parts) all.push_back(p);
  return ir::concat(all, axis);
}
inline node flipped(const node& x, int axis) {
  const dim n = size_of_axis(x, axis);
  return n == 0 ? x : sliced(x, axis, n - 1, n, -1);
}
/// x with a literal of its dtype around it.
inline node padded(const node& x, const extents& low, const extents& high, const ir::scalar& literal) {
  const ir::shape after = ir_shape(high);
  ir::attributes a;
  a.dims = ir_shape(low);
  a.dims.insert(a.dims.end(), after.begin(), after.end());
  a.literal = literal;
  return ir::push(op::pad, {x}, std::move(a));
}
inline node padded(const node& x, const extents& low, const extents& high, double literal) {
  return padded(x, low, high, ir::scalar::of(x.type(), literal));
}

/// Indices as i64. Negative indices count from the end.
inline node from_start(const node& index, dim extent) {
  const node i = to_type(index, dtype::i64);
  return choose(pointwise(op::lt, i, constant(dtype::i64, 0)), plus(i, size_node(extent, dtype::i64)), i);
}

/// x's elements along an axis at a list of indices of any rank. The axes of the list replace the axis.
inline node taken(const node& x, const node& index, int axis) {
  const extents e = extents_of(x), places = extents_of(index);
  extents at = e, out = e.from(0, static_cast<std::size_t>(axis));
  at[static_cast<std::size_t>(axis)] = product_of(places);
  out.insert(out.end(), places.begin(), places.end());
  out.insert(out.end(), e.begin() + axis + 1, e.end());
  extents column(e.size(), dim(1));
  column[static_cast<std::size_t>(axis)] = product_of(places);
  const node flat = reshape_to(index, column);
  return reshape_to(ir::gather(x, broadcast_to(flat, at), axis), out);
}

/// NumPy's matmul.
inline node product(node a, node b) {
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a = unsqueezed(a, {0});
  if (column) b = unsqueezed(b, {1});
  const extents ea = extents_of(a), eb = extents_of(b);
  if (ea.back() != eb[eb.size() - 2])
    wire::fail_file("a product of " + text_of(ea) + " and " + text_of(eb) + ", whose inner extents differ");
  node out;
  if (eb.size() == 2) {
    out = ir::dot(a, b, 0, 1);
  } else {
    const extents batch = broadcast_extents({ea.begin(), ea.end() - 2}, {eb.begin(), eb.end() - 2});
    extents wa = batch, wb = batch;
    wa.insert(wa.end(), ea.end() - 2, ea.end());
    wb.insert(wb.end(), eb.end() - 2, eb.end());
    out = ir::dot(broadcast_to(a, wa), broadcast_to(b, wb), static_cast<std::int64_t>(batch.size()), 1);
  }
  extents e = extents_of(out);
  if (column) e.pop_back();
  if (row) e.erase(e.end() - (column ? 1 : 2));
  return row || column ? reshape_to(out, e) : out;
}

/// exp(x - max) / sum along an axis.
inline node softmax_of(const node& x, int axis) {
  const node y = wide(x);
  const node top = ir::stop_gradient(reduced(op::maximum, y, {axis}, true));
  const node e = ir::exp(minus(y, top));
  const node part = over(constant(y.type(), 1), reduced(op::add, e, {axis}, true));
  return to_type(times(e, part), x.type());
}
inline node log_softmax_of(const node& x, int axis) {
  const node y = wide(x);
  const node z = minus(y, ir::stop_gradient(reduced(op::maximum, y, {axis}, true)));
  return to_type(minus(z, ir::log(reduced(op::add, ir::exp(z), {axis}, true))), x.type());
}

}  // namespace sinter::onnx
