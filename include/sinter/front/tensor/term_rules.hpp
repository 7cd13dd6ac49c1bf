// front/tensor/term_rules.hpp: the extents of expressions and their nodes in a trace; compiled once.
#pragma once

#include <vector>

#include "trace_push.hpp"

namespace sinter::detail {

/// An operand's extents; none of a number.
inline dims extents_of(const term& t, const void* at) {
  dims out;
  if (t.rank == 0) return out;
  operand_facts x;
  t.read(at, x);
  for (int i = 0; i < t.rank; ++i) out.push(x.extents[i]);
  return out;
}

/// Visits the terms of an expression, `all[i]` becoming the extents of term i. Returns the first behind term `i`'s.
inline int find_extents(expression_view e, int i, dims* all, location at) {
  const term& t = e.terms[i];
  if (t.is != term::operation) {
    all[i] = extents_of(t, e.at[i]);
    return i + 1;
  }
  dims operands[3];
  int next = i + 1;
  for (int k = 0; k < t.arity; ++k) {
    const int own = next;
    next = find_extents(e, own, all, at);
    operands[k] = all[own];
  }
  all[i] = dims(int{t.rank});
  std::fill_n(all[i].extent, t.rank, dim(1));
  for (int k = 0; k < t.arity; ++k)
    if (!broadcast_into(all[i].extent, t.rank, operands[k].extent, operands[k].rank)) {
      const auto& where = *static_cast<const location*>(e.at[i]);
      fail_broadcast(ir::name(t.code), operands, t.arity, where.line ? where : at);
    }
  return next;
}

SINTER_API void extents_of(expression_view e, dim* out, location at) {
  const int rank = e.terms[0].rank;
  std::fill_n(out, rank, dim(1));
  bool fits = true;
  for (int i = 0; i < e.count && fits; ++i) {
    const term& t = e.terms[i];
    if (t.is == term::operation || t.rank == 0) continue;
    operand_facts x;
    t.read(e.at[i], x);
    fits = broadcast_into(out, rank, x.extents, t.rank);
  }
  if (fits) return;
  // Some operation of it does not fit: which one?
  std::vector<dims> all(static_cast<std::size_t>(e.count));
  find_extents(e, 0, all.data(), at);
}

/// The nodes of an expression's terms, in order.
class term_pusher {
 public:
  term_pusher(engine::tracer& t, expression_view e, location at)
      : t_(t), e_(e), extents_(static_cast<std::size_t>(e.count)) {
    find_extents(e, 0, extents_.data(), at);
  }

  const dims& extents() const { return extents_[0]; }

  /// Of the next term; `to`: the extents of the operation that it is an operand of.
  ir::node_id push(const dims* to, location at) {
    const term& t = e_.terms[next_];
    const void* const place = e_.at[next_];
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
  ir::node_id push_operation(const term& t, const dims& own, const location& its, location at) {
    const location where = its.line ? its : at;
    ir::node_id in[3];
    for (int k = 0; k < t.arity; ++k) in[k] = push(&own, where);
    return ir::push_pointwise(t_.graph, t.code, t.type, in, static_cast<std::size_t>(t.arity), where);
  }
  ir::node_id push_operand(const term& t, const operand_facts& x, location at) {
    if (t.is == term::index)
      return ir::push_iota(t_.graph, t.type, engine::to_ir(x.extents, t.rank).data(), t.rank, x.axis, at);
    if (!*x.traced) {
      x.memory->settle();
      return capture(t_, *x.memory, x.data, t.type, t.rank, x.extents, x.strides, at);
    }
    const ir::node_id node = t_.adopt(x.traced->tracer().get(), engine::node_of(**x.traced), at);
    if (t.is == term::tensor || x.type == t.type) return node;
    return ir::push_pointwise(t_.graph, ir::op::cast, t.type, &node, 1, at);
  }
  static ir::scalar scalar_at(dtype type, const void* value) {
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

}  // namespace sinter::detail
