// autodiff/attention.hpp: derivatives of attention: reverse mode as an op, all others as those of its composition.
#pragma once

#include "../ir/ops/attention_back.hpp"
#include "opaque_site.hpp"

namespace sinter::engine::autodiff {

namespace detail {

/// The composition of a node on marks of its operands, so that derivatives end there.
struct marked_composition {
  values in;
  series<ir::node_id> operands;
  value result;

  marked_composition(ir::graph& g, ir::node_id id) {
    const ir::node& n = g[id];
    for (auto operand : n.in) {
      operands.push_back(g.mark(operand));
      in.push_back(value(g, operands.back(), n.where));
    }
    result = ir::ops::composed_attention(n, in);
  }
};

/// The step with a second part: cotangents of the first part's inputs for those of score and factor.
inline std::shared_ptr<const ir::opaque> with_back_part(const ir::opaque& step, const series<char>& captured,
                                                        pull_rule pull_back, location where) {
  const ir::graph& part = step.parts[0];
  ir::graph g;
  series<ir::node_id> in, wrt, ys;
  for (auto id : part.inputs) in.push_back(g.add_input(part[id].type, part[id].extents, part[id].where));
  values seeds;
  const auto outputs = ir::splice(g, part, in);
  for (std::size_t k : {0, 2}) {
    ys.push_back(outputs[k]);
    const ir::node& y = part[part.outputs[k]];
    seeds.push_back(value(g, g.add_input(y.type, y.extents, where), where));
  }
  for (std::size_t k = 0; k < in.size(); ++k)
    if (k == 0 || captured[k - 1]) wrt.push_back(in[k]);
  const values pulled = pull_back(g, {ys.data(), ys.size()}, seeds, {wrt.data(), wrt.size()}, where);
  for (std::size_t k = 0, next = 0; k < in.size(); ++k) {
    const bool asked = k == 0 || captured[k - 1];
    g.outputs.push_back(or_zeros(g, asked ? pulled[next++] : value(), in[k]).id());
  }
  ir::opaque made;
  made.kind = ir::opaque_kind::part;
  made.parts.push_back(part);
  made.parts.push_back(std::move(g));
  return ir::seal(std::move(made));
}

/// Σ y · ct of each row, in the dtype of scores.
inline value inner_products(const value& y, const value& ct) {
  const dtype wide = ir::ops::wide_type(y.type());
  return reduce(cast(y, wide) * cast(ct, wide), ir::op::add, {y.rank() - 1});
}

}  // namespace detail

/// The cotangents of the operands of attention or attention_back for the node's; `asked` are those that get one.
inline values pull_attention(ir::graph& g, ir::node_id id, const value& ct, const series<char>& asked,
                             pull_rule pull_back) {
  const ir::node& n = g[id];
  if (n.code != ir::op::attention || n.attr.ints[0] != 0) {
    const detail::marked_composition made(g, id);
    series<ir::node_id> wrt;
    for (std::size_t k = 0; k < asked.size(); ++k)
      if (asked[k]) wrt.push_back(made.operands[k]);
    const ir::node_id y = made.result.id();
    return detail::spread(pull_back(g, {&y, 1}, {ct}, {wrt.data(), wrt.size()}, n.where), asked);
  }
  ir::attributes attr = n.attr;
  attr.ints[0] = 1;
  series<ir::node_id> in = n.in;
  in.push_back(detail::inner_products(value(g, id, n.where), ct).id());
  in.push_back(g.push(ir::op::attention, n.in, attr, n.where));
  in.push_back(ct.id());
  attr.step = detail::with_back_part(*n.attr.step, series<char>(asked.begin() + 3, asked.end()), pull_back, n.where);
  values out(asked.size());
  for (std::size_t k = 0; k < asked.size(); ++k) {
    if (!asked[k]) continue;
    attr.ints[0] = static_cast<std::int64_t>(k);
    out[k] = value(g, g.push(ir::op::attention_back, in, attr, n.where), n.where);
  }
  return out;
}

/// The tangent of such a node; empty where zero.
inline value push_attention(ir::graph& g, ir::node_id id, const values& tangents, push_rule push_forward) {
  const detail::marked_composition made(g, id);
  series<ir::node_id> wrt;
  values given;
  for (std::size_t k = 0; k < tangents.size(); ++k) {
    if (!tangents[k]) continue;
    wrt.push_back(made.operands[k]);
    given.push_back(tangents[k]);
  }
  const ir::node_id y = made.result.id();
  return push_forward(g, {&y, 1}, {wrt.data(), wrt.size()}, given)[0];
}

}  // namespace sinter::engine::autodiff
