// ir/ops/attention_back.hpp: attention_back (q, k, v, captured…, a row's Σ output · its cotangent, log Σ exp(score), the output's cotangent):
// attributes as attention's, with a second part: (s, captured…, the score's cotangent, the factor's) -> the cotangents of (s, captured…). Result
// 0, 1, 2, 3 + i is the cotangent of q, k, v, captured operand i. The two values of rows are there for kernels; all derivatives are those of the composition.
#pragma once

#include <optional>

#include "attention.hpp"

namespace sinter::ir::ops {

struct attention_back_op : composed_by_walks, with_attention_text {
  static void infer(inference& f) {
    const attention_inference a(f, 3, 2);
    a.operands();
    a.first_part();
    second_part(a);
    const std::size_t end = f.n.in.size(), of = static_cast<std::size_t>(f.n.attr.ints[0]);
    shape out(f.extents(0).begin(), f.extents(0).end() - 1);
    for (std::size_t k : {end - 3, end - 2})
      if (!(f.extents(k) == out) || f.operand(k).type != a.type()) f.malformed();
    out.push_back(f.extents(2).back());
    if (!(f.extents(end - 1) == out) || f.operand(end - 1).type != f.operand(0).type) f.malformed();
    if (of >= 3 + a.captured || !is_float(f.operand(of).type)) f.malformed();
    f.n.type = f.operand(of).type;
    f.n.extents = f.extents(of);
  }

 private:
  static void second_part(const attention_inference& a) {
    const graph& p = a.f.n.attr.step->parts[1];
    if (p.inputs.size() != 3 + a.captured || p.outputs.size() != 1 + a.captured) a.f.malformed();
    a.takes(p, 0, a.type(), a.scores());
    for (std::size_t k = 0; k < 2; ++k) a.takes(p, 1 + a.captured + k, a.type(), a.scores());
    a.gives(p, 0, a.type(), a.scores());
    for (std::size_t i = 0; i < a.captured; ++i) {
      a.takes(p, 1 + i, a.f.operand(3 + i).type, a.f.extents(3 + i));
      a.gives(p, 1 + i, a.f.operand(3 + i).type, a.f.extents(3 + i));
    }
  }
};

/// The arithmetic of kernels of attention.
inline constexpr op difference_op = op::sub, ratio_op = op::div, power_op = op::exp, logarithm_op = op::log,
                    equality_op = op::eq;

/// a < b or a <= b for operands in either order.
struct order_of_operands {
  bool strict, swapped;
};
constexpr std::optional<order_of_operands> order_of(op code) {
  if (code == op::lt || code == op::le) return order_of_operands{code == op::lt, false};
  if (code == op::gt || code == op::ge) return order_of_operands{code == op::gt, true};
  return std::nullopt;
}

/// Whether a node is attention or its gradient.
constexpr bool is_attention(op code) { return code == op::attention || code == op::attention_back; }

/// The composition of such a node, whose operands in the graph of `in` are `in`.
inline value composed_attention(const node& n, const series<value>& in) {
  return composed_attention(n.code == op::attention_back, n.attr, in);
}

}  // namespace sinter::ir::ops
