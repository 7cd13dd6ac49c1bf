// onnx/reduce_rows.hpp: operators that reduce, scan, sort: sums, extremes and their places, running sums, top-k.
#pragma once

#include "shape_rows.hpp"

namespace sinter::onnx::rows {

/// The axes of a reduction; nothing if the operator returns its input unchanged.
inline std::optional<std::vector<int>> reduction_axes(call& c) {
  const auto axes = axes_of(c, 1);
  const int rank = c.rank(0);
  if (!axes || axes->empty()) {
    if (c.i("noop_with_empty_axes", 0)) return std::nullopt;
    return all_axes(rank);
  }
  return ascending_axes(*axes, rank);
}

/// Applies `before`, a reduction and `after`. Computes in f32 if x is a narrower float.
template <class Before, class After>
void reduction(call& c, op combiner, Before before, After after) {
  const auto axes = reduction_axes(c);
  const bool keep = c.i("keepdims", 1) != 0;
  const node x = c.x(0);
  const node y = before(wide(x));
  node r = axes ? reduced(combiner, y, *axes, keep) : y;
  c.give(to_type(after(r), x.type()));
}
inline node as_is(const node& x) { return x; }
inline node squared(const node& x) { return x * x; }

inline void reduce_sum(call& c) { reduction(c, op::add, as_is, as_is); }
inline void reduce_prod(call& c) { reduction(c, op::mul, as_is, as_is); }
inline void reduce_l1(call& c) {
  reduction(
      c, op::add, [](const node& x) { return is_unsigned(x.type()) ? x : pointwise(op::abs, x); }, as_is);
}
/// The square root. For integers, the largest whole number that is at most the root.
inline node root(const node& x) {
  if (is_float(x.type())) return ir::sqrt(x);
  const dtype type = x.type(), work = type == dtype::u64 ? dtype::u64 : dtype::i64;
  const node s = ir::maximum(to_type(x, work), 0.0), one = constant(work, 1);
  // The quotient by r cannot overflow, but r·r can.
  const auto above = [&](const node& r) { return pointwise(op::gt, r, over(s, ir::maximum(r, 1.0))); };
  node r = to_type(ir::sqrt(to_type(s, dtype::f64)), work);
  r = choose(above(r), minus(r, one), r);
  r = choose(above(plus(r, one)), r, plus(r, one));
  return to_type(r, type);
}
inline node logarithm(const node& x) {
  return is_float(x.type()) ? ir::log(x) : to_type(ir::log(to_type(x, dtype::f64)), x.type());
}
inline void reduce_l2(call& c) {
  if (!is_float(c.type(0))) return reduction(c, op::add, squared, root);
  const auto axes = reduction_axes(c);
  const node x = c.x(0);
  const bool keep = c.i("keepdims", 1) != 0;
  c.give(axes ? to_type(ir::sqrt(squares_over(wide(x), *axes, keep)), x.type()) : pointwise(op::abs, x));
}
/// Numbers that are f64 for the sum alone are summed by one op, as norms do.
inline void reduce_sum_square(call& c) {
  const auto axes = reduction_axes(c);  // first: reading a computed list of axes begins another graph
  const node x = c.x(0);
  const ir::node& n = x.owner()[x.id()];
  const bool widened = x.type() == dtype::f64 && n.code == op::cast;
  const node from = widened ? node(x.owner(), n.in[0], x.where()) : x;
  if (!axes || !widened || !is_float(from.type()) || from.type() == dtype::f64)
    return reduction(c, op::add, squared, as_is);
  c.give(squares_over(from, *axes, c.i("keepdims", 1) != 0));
}
inline void reduce_log_sum(call& c) { reduction(c, op::add, as_is, logarithm); }
inline void reduce_mean(call& c) {
  const auto axes = reduction_axes(c);
  const node x = c.x(0);
  c.give(axes ? to_type(mean_over(wide(x), *axes, c.i("keepdims", 1) != 0), x.type()) : x);
}
/// The largest integer, plus the contribution of the others, cut towards zero. Elements that are smaller by more than 1000
/// add nothing.
inline node log_sum_exp_of_integers(const node& given, const std::vector<int>& axes, bool keep) {
  const dtype type = given.type(), work = type == dtype::u64 ? dtype::u64 : dtype::i64;
  const node x = to_type(given, work), top = reduced(op::maximum, x, axes, true);
  const node least = constant_of(work, {0, work == dtype::u64 ? 0 : INT64_MIN}), far = constant(work, 1000);
  const node edge = choose(pointwise(op::lt, top, plus(least, far)), least, minus(top, far));
  const node below = to_type(minus(top, pointwise(op::maximum, x, edge)), dtype::f64);
  const node more = ir::log(reduced(op::add, ir::exp(-below), axes, true)), whole = pointwise(op::floor, more);
  const node most = constant_of(work, {0, ir::combiner_identity(op::minimum, type).i});
  const node room = minus(most, ir::maximum(top, 0.0));  // a sum beyond it becomes the largest number
  const node sum = plus(top, pointwise(op::minimum, to_type(whole, work), room));
  // Cut towards zero: a negative sum with a fraction is rounded up.
  const node up = pointwise(op::bit_and, ir::lt(sum, 0.0), pointwise(op::gt, more, whole));
  const node y = to_type(choose(up, sum + 1.0, sum), type);
  return keep ? y : reshape_to(y, reduced_extents(extents_of(x), axes, false));
}
inline void reduce_log_sum_exp(call& c) {
  const auto axes = reduction_axes(c);
  const bool keep = c.i("keepdims", 1) != 0;
  const node x = c.x(0);
  if (!axes) return c.give(x);
  if (!is_float(x.type()) && product_of(extents_of(x)) != 0) return c.give(log_sum_exp_of_integers(x, *axes, keep));
  node y = wide(x);
  if (!is_float(y.type())) y = to_type(y, dtype::f64);
  if (product_of(extents_of(y)) == 0)
    return c.give(to_type(ir::log(reduced(op::add, ir::exp(y), *axes, keep)), x.type()));
  node top = ir::stop_gradient(reduced(op::maximum, y, *axes, true));
  top = ir::select(pointwise(op::isfinite, top), top, 0.0);
  const node sum = ir::log(reduced(op::add, ir::exp(minus(y, top)), *axes, keep));
  c.give(to_type(plus(sum, reshape_to(top, reduced_extents(extents_of(y), *axes, keep))), x.type()));
}
template <op Combiner>
void reduce_extreme(call& c) {
  const auto axes = reduction_axes(c);
  const bool keep = c.i("keepdims", 1) != 0;
  const node x = c.x(0);
  if (!axes) return c.give(x);
  if (count_over(x, *axes) == 0) {
    const ir::scalar edge = ir::combiner_identity(Combiner, x.type());
    const extents e = reduced_extents(extents_of(x), *axes, keep);
    return c.give(value_of(detail::push_constant(*engine::current(), x.type(), edge, e.data(),
                                                 static_cast<int>(e.size()), place_of_nodes(), true)));
  }
  if (is_bool(x.type())) return c.give(reduced(Combiner == op::maximum ? op::bit_or : op::bit_and, x, *axes, keep));
  c.give(reduced(Combiner, x, *axes, keep));
}

template <op Combiner>
void arg_extreme(call& c) {
  const int axis = axis_of(c.i("axis", 0), c.rank(0));
  const node x = c.x(0);
  const dim n = size_of_axis(x, axis);
  const bool last = c.i("select_last_index", 0) != 0;
  ir::attributes a;
  a.combiner = Combiner;
  a.ints = {axis};
  node r = ir::push(op::arg_reduce, {last ? flipped(x, axis) : x}, std::move(a));
  if (last) r = minus(size_node(n - 1, dtype::i64), r);
  if (c.i("keepdims", 1)) r = unsqueezed(r, {axis});
  c.give(r);
}

template <op Combiner>
void running(call& c) {
  const int axis = axis_of(c.integers(1).at(0), c.rank(0));
  const bool exclusive = c.i("exclusive", 0) != 0, reverse = c.i("reverse", 0) != 0;
  node x = c.x(0);
  if (exclusive) {
    const dim n = size_of_axis(x, axis);
    extents low(static_cast<std::size_t>(x.rank()), dim(0)), high = low;
    (reverse ? high : low)[static_cast<std::size_t>(axis)] = 1;
    x = padded(sliced(x, axis, reverse ? 1 : 0, n - 1), low, high, Combiner == op::mul ? 1 : 0);
  }
  c.give(ir::scan(x, Combiner, axis, reverse));
}

inline node argsorted(const node& x, int axis, bool descending, dim count) {
  ir::attributes a;
  a.ints = {axis, descending};
  a.dims = {engine::to_ir(count)};
  return ir::push(op::argsort, {x}, std::move(a));
}
inline void top_k(call& c) {
  const int axis = axis_of(c.i("axis", -1), c.rank(0));
  const dim k = c.version < 10 || !c.has(1) ? dim(c.i("k", 1)) : c.sizes(1).at(0);
  const bool largest = c.i("largest", 1) != 0;
  const node x = c.x(0);
  const node places = argsorted(x, axis, largest, k);
  c.give(0, ir::gather(x, places, axis));
  c.give(1, places);
}
inline void hardmax(call& c) {
  const node x = c.x(0);
  const int axis = axis_of(c.i("axis", c.version < 13 ? 1 : -1), x.rank());
  if (c.version < 13) {
    const extents e = extents_of(x);
    const node flat = reshape_to(
        x, {product_of(e, 0, static_cast<std::size_t>(axis)), product_of(e, static_cast<std::size_t>(axis))});
    ir::attributes a;
    a.combiner = op::maximum;
    a.ints = {1};
    const node at = unsqueezed(ir::push(op::arg_reduce, {flat}, std::move(a)), {1});
    return c.give(reshape_to(to_type(pointwise(op::eq, iota(dtype::i64, extents_of(flat), 1), at), x.type()), e));
  }
  ir::attributes a;
  a.combiner = op::maximum;
  a.ints = {axis};
  const node at = unsqueezed(ir::push(op::arg_reduce, {x}, std::move(a)), {axis});
  c.give(to_type(pointwise(op::eq, iota(dtype::i64, extents_of(x), axis), at), x.type()));
}

inline const row reductions[] = {
    {"ArgMax", "", 1, arg_extreme<op::maximum>, "argmax"},
    {"ArgMin", "", 1, arg_extreme<op::minimum>, "argmin"},
    {"CumProd", "", 1, running<op::mul>, "cumprod"},
    {"CumSum", "", 1, running<op::add>, "cumsum"},
    {"Hardmax", "", 1, hardmax, "argmax"},
    {"ReduceL1", "", 1, reduce_l1, "sum of abs"},
    {"ReduceL2", "", 1, reduce_l2, "norm"},
    {"ReduceLogSum", "", 1, reduce_log_sum, "log of sum"},
    {"ReduceLogSumExp", "", 1, reduce_log_sum_exp, "logsumexp"},
    {"ReduceMax", "", 1, reduce_extreme<op::maximum>, "max"},
    {"ReduceMean", "", 1, reduce_mean, "mean"},
    {"ReduceMin", "", 1, reduce_extreme<op::minimum>, "min"},
    {"ReduceProd", "", 1, reduce_prod, "prod"},
    {"ReduceSum", "", 1, reduce_sum, "sum"},
    {"ReduceSumSquare", "", 1, reduce_sum_square, "sum of squares"},
    {"TopK", "", 1, top_k, "argsort, gather"},
};

}  // namespace sinter::onnx::rows
