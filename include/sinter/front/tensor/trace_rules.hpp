// front/tensor/trace_rules.hpp: the nodes of expressions, numbers, captures and reductions; compiled once.
#pragma once

#include <vector>

#include "term_rules.hpp"
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

/// The nodes of an expression's terms, in order.
class term_pusher {
 public:
  term_pusher(engine::tracer& t, expression_view e, location at)
      : t_(t), e_(e), extents_(static_cast<std::size_t>(e.count)) {
    find_extents(e, 0, extents_.data(), at);
  }

  const dims& extents() const { return extents_[0]; }

  /// The node of the next term. `to` has the extents of the operation that takes it as an operand.
  SINTER_COLD ir::node_id push(const dims* to, location at) {
    const term& t = e_.terms[next_];
    const void* const place = e_.place(next_);
    const dims& own = extents_[static_cast<std::size_t>(next_++)];
    ir::node_id node;
    if (t.is == term::operation) {
      node = push_operation(t, own, *static_cast<const location*>(place), at);
    } else if (t.is == term::literal || t.is == term::fixed) {
      const dims one;
      const dims& as = to ? *to : one;
      return push_number(t_, t.type, place, scalar_at(t.type, place), as.extent, as.rank, at, t.is == term::fixed);
    } else {
      operand_facts x;
      t.read(place, x);
      if (t.is == term::weak && !*x.traced) {
        const dims one;
        const dims& as = to ? *to : one;
        return push_number(t_, t.type, x.data, scalar_at(t.type, x.data), as.extent, as.rank, at);
      }
      node = push_operand(t, x, at);
    }
    return to ? push_broadcast(t_.graph, node, own.extent, own.rank, to->extent, to->rank, at) : node;
  }

 private:
  SINTER_COLD ir::node_id push_operation(const term& t, const dims& own, const location& its, location at) {
    const location where = its.line ? its : at;
    ir::node_id in[3];
    for (int k = 0; k < t.arity; ++k) in[k] = push(&own, where);
    return ir::push_pointwise(t_.graph, t.code, t.type, in, t.arity, where);
  }
  SINTER_COLD ir::node_id push_operand(const term& t, const operand_facts& x, location at) {
    if (t.is == term::index)
      return ir::push_iota(t_.graph, t.type, engine::to_ir(x.extents, t.rank).data(), t.rank, x.axis, at);
    if (!*x.traced) {
      if (!*x.memory) fail_undefined("tensor", at, donated_to(x.data, x.marks));
      x.memory->wait();
      return capture(t_, *x.memory, x.data, t.type, t.rank, x.extents, x.strides, at);
    }
    const ir::node_id node = t_.adopt(x.traced->tracer().get(), engine::node_of(**x.traced), at);
    if (t.is == term::tensor || x.type == t.type) return node;
    return ir::push_pointwise(t_.graph, ir::op::cast, t.type, &node, 1, at);
  }
  SINTER_COLD static ir::scalar scalar_at(dtype type, const void* value) {
    return visit_dtype(type,
                       [&](auto of) { return to_scalar(*static_cast<const typename decltype(of)::type*>(value)); });
  }

  engine::tracer& t_;
  const expression_view e_;
  std::vector<dims> extents_;
  int next_ = 0;
};

SINTER_API ir::node_id push(engine::tracer& t, expression_view e, location at, dim* out) {
  term_pusher all(t, e, at);
  if (out) std::copy_n(all.extents().extent, all.extents().rank, out);
  return all.push(nullptr, at);
}

SINTER_API void push_point(const std::shared_ptr<engine::tracer>& t, expression_view e, location at,
                           const tensor_parts& out) {
  const ir::node_id node = push(*t, e, at, out.extents);
  put_strides(out.extents, out.strides, e.terms->rank);
  *out.traced = trace_handle(t, node);
}

}  // namespace sinter::detail
