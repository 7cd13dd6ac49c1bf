// front/tensor/trace_push.hpp: a stage point while tracing: expressions become nodes.
#pragma once

#include <memory>

#include "../../engine/engine.hpp"
#include "../../ir/concrete.hpp"
#include "number.hpp"
#include "terms.hpp"

namespace sinter::detail {

template <std::size_t R>
ir::shape to_shape(const std::array<dim, R>& extents) {
  return engine::to_ir(extents.data(), static_cast<int>(R));
}

SINTER_API ir::node_id push_broadcast(ir::graph& g, ir::node_id x, const dim* from, int from_rank, const dim* to,
                                      int to_rank, location where);
/// A uniform tensor of one literal. Unless `fixed`, the literal may depend on scalars of the traced call.
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

/// A C++ number broadcast to the given extents: a constant, or a rank-0 input.
SINTER_API ir::node_id push_number(engine::tracer& t, dtype type, const void* value, ir::scalar literal,
                                   const dim* extents, int rank, location at, bool fixed = false);

/// The reduction of a node of the current trace over `count` axes.
SINTER_API ir::node_id push_reduce(ir::op combiner, ir::node_id x, const int* axes, int count, location at);

/// The node of an expression or an operand in `t`. Broadcasting becomes explicit. Numbers become constants with the extents
/// of the operation beside them, and concrete tensors become inputs. `out`, if given, receives the extents. (trace_rules.hpp)
SINTER_API ir::node_id push(engine::tracer& t, expression_view e, location at, dim* out = nullptr);

/// Makes `out` the value of the node that `push` gives. (trace_rules.hpp)
SINTER_API void push_point(const std::shared_ptr<engine::tracer>& t, expression_view e, location at,
                           const tensor_parts& out);

/// Row-major strides, whatever the extents are.
inline void put_strides(const dim* extents, dim* strides, int rank) {
  dim step = 1;
  for (int i = rank; i-- > 0; step *= extents[i]) strides[i] = step;
}

template <tensor_like E>
ir::node_id push(engine::tracer& t, const E& e, location at) {
  if constexpr (is_number<E>) return push(t, e.template as<typename E::value_type>(), at);
  else return push(t, terms(e), at);
}
template <class T>
ir::node_id push(engine::tracer& t, const weak<T>& x, location at) {
  return push(t, terms(x), at);
}

}  // namespace sinter::detail

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "trace_rules.hpp"
#endif
