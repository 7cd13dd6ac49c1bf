// front/trace_push.hpp: a stage point under tracing: expressions become nodes.
#pragma once

#include <memory>
#include <vector>

#include "../engine.hpp"
#include "expr.hpp"

namespace sinter::detail {

inline ir::shape to_shape(const std::int64_t* extents, int rank) { return ir::shape(extents, extents + rank); }

template <std::size_t R>
ir::shape to_shape(const std::array<std::int64_t, R>& extents) {
  return to_shape(extents.data(), static_cast<int>(R));
}

/// Gives a node of x's extents the extents `to`, by a reshape that adds leading axes of 1, and a broadcast.
inline ir::node_id push_broadcast(ir::graph& g, ir::node_id x, const std::int64_t* from, int from_rank, const std::int64_t* to,
                                  int to_rank, location at) {
  if (from_rank < to_rank) {
    ir::attributes attr;
    attr.dims.assign(static_cast<std::size_t>(to_rank - from_rank), ir::dim(1));
    for (int i = 0; i < from_rank; ++i) attr.dims.emplace_back(from[i]);
    x = g.push(ir::op::reshape, {x}, std::move(attr), at);
  }
  bool equal = true;
  for (int i = 0; i < to_rank; ++i) {
    const int j = i - (to_rank - from_rank);
    equal &= to[i] == (j < 0 ? 1 : from[j]);
  }
  if (equal) return x;
  ir::attributes attr;
  attr.dims = to_shape(to, to_rank);
  return g.push(ir::op::broadcast, {x}, std::move(attr), at);
}

/// A C++ number as the literal of a node.
template <element T>
ir::scalar to_scalar(T x) {
  if constexpr (is_float(dtype_of<T>)) return {static_cast<double>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(x)), 0};
  else return {0, static_cast<std::int64_t>(x)};
}

inline void check_tracer(const engine::tracer* of_tensor, const engine::tracer* current, location at) {
  if (of_tensor != current)
    fail("tensor", current ? "a tensor traced by another trace is used in this one; pass it as an argument"
                           : "a traced tensor is used after its trace ended; return it from the traced function instead", at);
}

/// The node of a tensor in `t`: its own, or an input that captures its storage.
template <class T, dims Shape>
ir::node_id push(engine::tracer& t, const tensor<T, Shape>& x, location at) {
  if (x.is_traced()) {
    check_tracer(access::tracer(x).get(), &t, at);
    return access::node(x);
  }
  if (!x.defined()) fail("tensor", "the tensor is default-constructed and holds nothing", at);
  engine::argument a;
  a.data = access::data(x);
  a.owner = &access::memory(x);
  a.type = dtype_of<T>;
  a.rank = Shape.rank;
  a.extents = x.shape().data();
  a.strides = x.strides().data();
  return t.capture(a, at);
}

template <class T, dims Shape>
ir::node_id push(engine::tracer& t, const index_leaf<T, Shape>& x, location at) {
  ir::attributes attr;
  attr.type = dtype_of<T>;
  attr.ints = {std::max(x.axis, 0)};
  if (x.axis >= 0) {
    attr.dims = to_shape(x.extents);
    return t.graph.push(ir::op::iota, {}, std::move(attr), at);
  }
  attr.dims = {ir::dim(product(x.extents))};
  const ir::node_id flat = t.graph.push(ir::op::iota, {}, std::move(attr), at);
  if (Shape.rank == 1) return flat;
  ir::attributes shape;
  shape.dims = to_shape(x.extents);
  return t.graph.push(ir::op::reshape, {flat}, std::move(shape), at);
}

/// The node of an expression; broadcasting becomes explicit, scalars become constants of the operand's extents.
template <ir::op Op, class T, dims Shape, class... Operands>
ir::node_id push(engine::tracer& t, const expr<Op, T, Shape, Operands...>& e, location at) {
  const location where = e.where.line ? e.where : at;
  const auto out = extents_of(e, at);
  const auto one = [&](const auto& operand) {
    using Operand = std::remove_cvref_t<decltype(operand)>;
    if constexpr (is_literal<Operand>) {
      return t.graph.constant(dtype_of<typename Operand::value_type>, to_scalar(operand.value), to_shape(out), where);
    } else {
      const auto from = extents_of(operand, at);
      return push_broadcast(t.graph, push(t, operand, where), from.data(), Operand::rank, out.data(), Shape.rank, where);
    }
  };
  ir::attributes attr;
  if (Op == ir::op::cast) attr.type = dtype_of<T>;
  return hana::unpack(e.operands, [&](const auto&... operand) {
    return t.graph.push(Op, std::vector<ir::node_id>{one(operand)...}, std::move(attr), where);
  });
}

}  // namespace sinter::detail
