// front/tensor/trace_push.hpp: a stage point under tracing: expressions become nodes.
#pragma once

#include <memory>

#include "../../engine/engine.hpp"
#include "../../ir/concrete.hpp"
#include "expr.hpp"
#include "number.hpp"

namespace sinter::detail {

template <std::size_t R>
ir::shape to_shape(const std::array<dim, R>& extents) {
  return engine::to_ir(extents.data(), static_cast<int>(R));
}

SINTER_API ir::node_id push_broadcast(ir::graph& g, ir::node_id x, const dim* from, int from_rank, const dim* to,
                                      int to_rank, location where);
/// A uniform tensor of one literal, which unless it is `fixed` may follow from what scalars the traced call has.
SINTER_API ir::node_id push_constant(engine::tracer& t, dtype type, ir::scalar literal, const dim* extents, int rank,
                                     location where, bool fixed = false);

/// A C++ number as the literal of a node.
template <element T>
ir::scalar to_scalar(T x) {
  if constexpr (is_float(dtype_of<T>))
    return {static_cast<double>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(x)), 0};
  else return {0, static_cast<std::int64_t>(x)};
}

inline void check_tracer(const engine::tracer* of_tensor, const engine::tracer* current, location at) {
  if (of_tensor != current) engine::fail_out_of_trace(*of_tensor, at);
}

/// The input that stands for a concrete tensor.
SINTER_API ir::node_id capture(engine::tracer& t, const storage& memory, void* data, dtype type, int rank,
                               const dim* extents, const dim* strides, location at);

/// A C++ number of some extents: a constant, or a rank-0 input.
SINTER_API ir::node_id push_number(engine::tracer& t, dtype type, const void* value, ir::scalar literal,
                                   const dim* extents, int rank, location at, bool fixed = false);

/// The reduction of a node of the current trace over `count` axes.
SINTER_API ir::node_id push_reduce(ir::op combiner, ir::node_id x, const int* axes, int count, location at);

/// The node of a tensor in `t`: its own, or an input that captures its storage.
template <class T, dims Shape>
SINTER_COLD ir::node_id push(engine::tracer& t, const tensor<T, Shape>& x, location at) {
  if (!x.is_traced())
    return capture(t, access::memory(x), access::data(x), dtype_of<T>, Shape.rank, x.shape().data(), x.strides().data(),
                   at);
  return t.adopt(access::tracer(x).get(), access::node(x), at);
}

/// The node of a number, of T's dtype: what it is in the trace, or a constant.
template <class T>
ir::node_id push(engine::tracer& t, const weak<T>& x, location at) {
  if (!x.traced) return push_number(t, dtype_of<T>, &x.value, to_scalar(x.value), nullptr, 0, at);
  const ir::node_id node = t.adopt(x.traced.tracer().get(), engine::node_of(*x.traced), at);
  if (x.type == dtype_of<T>) return node;
  return ir::push_pointwise(t.graph, ir::op::cast, dtype_of<T>, &node, 1, at);
}
template <class T>
ir::node_id push(engine::tracer& t, const number<T>& x, location at) {
  return push(t, x.template as<T>(), at);
}

template <class T, dims Shape>
ir::node_id push(engine::tracer& t, const index_leaf<T, Shape>& x, location at) {
  return ir::push_iota(t.graph, dtype_of<T>, engine::to_ir(x.extents.data(), Shape.rank).data(), Shape.rank, x.axis,
                       at);
}

/// The node of an expression; broadcasting becomes explicit, scalars become constants of the operand's extents.
template <ir::op Op, class T, dims Shape, class... Operands>
SINTER_COLD ir::node_id push(engine::tracer& t, const expr<Op, T, Shape, Operands...>& e, location at) {
  const location where = e.where.line ? e.where : at;
  const auto out = extents_of(e, at);
  const auto one = [&](const auto& operand) {
    using Operand = std::remove_cvref_t<decltype(operand)>;
    if constexpr (is_weak<Operand>) {
      if (operand.traced)
        return push_broadcast(t.graph, push(t, operand, where), nullptr, 0, out.data(), Shape.rank, where);
    }
    if constexpr (is_literal<Operand>) {
      return push_number(t, dtype_of<typename Operand::value_type>, &operand.value, to_scalar(operand.value),
                         out.data(), Shape.rank, where, is_fixed<Operand>);
    } else {
      const auto from = extents_of(operand, at);
      return push_broadcast(t.graph, push(t, operand, where), from.data(), Operand::rank, out.data(), Shape.rank,
                            where);
    }
  };
  return hana::unpack(e.operands, [&](const auto&... operand) {
    const ir::node_id in[] = {one(operand)...};
    return ir::push_pointwise(t.graph, Op, dtype_of<T>, in, sizeof...(Operands), where);
  });
}

}  // namespace sinter::detail

// Header-only: whoever sees the declarations has the definitions as well.
#if !defined(SINTER_COMPILED)
#include "trace_rules.hpp"
#endif
