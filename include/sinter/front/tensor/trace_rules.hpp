// front/tensor/trace_rules.hpp: the nodes of numbers, captures and reductions; compiled once.
#pragma once

#include "trace_push.hpp"

namespace sinter::detail {

SINTER_API ir::node_id push_broadcast(ir::graph& g, ir::node_id x, const dim* from, int from_rank, const dim* to,
                                      int to_rank, location where) {
  return ir::push_broadcast(g, x, engine::to_ir(from, from_rank).data(), from_rank, engine::to_ir(to, to_rank).data(),
                            to_rank, where);
}

SINTER_API ir::node_id push_constant(engine::tracer& t, dtype type, ir::scalar literal, const dim* extents, int rank,
                                     location where, bool fixed) {
  ir::shape all = engine::to_ir(extents, rank);
  if (fixed || !is_float(type) || !t.follows_scalars()) return t.graph.constant(type, literal, std::move(all), where);
  return t.graph.constant_apart(type, literal, std::move(all), t.outermost().constants_apart++, where);
}

SINTER_API ir::node_id capture(engine::tracer& t, const storage& memory, void* data, dtype type, int rank,
                               const dim* extents, const dim* strides, location at) {
  if (!memory) fail_undefined("tensor", at);
  engine::argument x{data, &memory, type, rank, as_numbers(extents), as_numbers(strides)};
  x.by_value = rank == 0 && t.where && t.where->is_cuda() && !x.where().is_cuda();
  return t.capture(x, at);
}

SINTER_API ir::node_id push_number(engine::tracer& t, dtype type, const void* value, ir::scalar literal,
                                   const dim* extents, int rank, location at, bool fixed) {
  if (!t.numbers_by_value) return push_constant(t, type, literal, extents, rank, at, fixed);
  engine::argument x;
  x.data = const_cast<void*>(value);
  x.type = type;
  x.by_value = true;
  return push_broadcast(t.graph, t.capture(x, at), nullptr, 0, extents, rank, at);
}

SINTER_API ir::node_id push_reduce(ir::op combiner, ir::node_id x, const int* axes, int count, location at) {
  ir::attributes attr;
  attr.combiner = combiner;
  for (int i = 0; i < count; ++i) attr.ints.push_back(axes[i]);
  return engine::current()->graph.push(ir::op::reduce, {x}, std::move(attr), at);
}

}  // namespace sinter::detail
