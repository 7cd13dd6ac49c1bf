// autodiff/jvp.hpp: forward mode, graph -> bigger graph, over the same partials.
#pragma once

#include "../base/series.hpp"
#include "attention.hpp"
#include "opaque_forward.hpp"

namespace sinter::engine::autodiff {

/// The tangent of a node; empty where zero.
inline value push_forward(const site& s, const ir::ops::tangents& t) {
  const ir::node& n = s.n();
  if (!is_pointwise(n.code)) return ir::ops::record_of(n.code).jvp(s, t);
  if (n.code == op::sub && t[0] && t[1]) return t[0] - t[1];
  value sum;
  for (std::size_t k = 0; k < t.size(); ++k) {
    if (!t[k]) continue;
    // The partial of a cast casts to the operand's dtype, which is right only for cotangents.
    const value part =
        n.code == op::cast ? cast(t[k], n.type) : partial(n.code, k, t[k], s.in(0), s.in(1), s.in(2), s.result());
    if (part) sum = sum ? sum + part : part;
  }
  return sum;
}

inline values push_forward(ir::graph& g, std::span<const ir::node_id> ys, std::span<const ir::node_id> wrt,
                           const values& given) {
  values tangent(g.size());
  for (std::size_t i = 0; i < wrt.size(); ++i)
    if (is_float(g[wrt[i]].type)) tangent[wrt[i]] = given[i];
  sorted_map<ir::node_id, values> results;  // of opaque nodes
  for (ir::node_id id = 0, end = static_cast<ir::node_id>(g.size()); id < end; ++id) {
    if (tangent[id]) continue;
    const site s{g, id};
    if (s.n().code == op::pick) {
      if (const auto found = results.find(s.n().in[0]); found != results.end())
        tangent[id] = found->second[static_cast<std::size_t>(s.n().attr.ints[0])];
      continue;
    }
    ir::ops::tangents t;
    bool any = false;
    for (std::size_t k = 0; k < s.n().in.size(); ++k) {
      const value v = flows(g, s.n(), k) ? tangent[s.n().in[k]] : value();
      t.push_back(v ? value(g, v.id(), s.n().where) : v);
      any = any || v;
    }
    if (!any) continue;
    if (s.n().code == op::opaque) results.emplace(id, push_opaque(g, id, t, push_forward));
    else if (ir::ops::is_attention(s.n().code)) tangent[id] = push_attention(g, id, t, push_forward);
    else tangent[id] = push_forward(s, t);
  }
  values out;
  for (auto id : ys) out.push_back(id < tangent.size() ? tangent[id] : value());
  return out;
}

/// Pushes the tangents of `outputs` for `tangents` of `wrt`, and returns their nodes in order, with zeros where none flows. A
/// tangent has the dtype and extents of its node.
inline series<ir::node_id> jvp(ir::graph& g, std::span<const ir::node_id> outputs, std::span<const ir::node_id> wrt,
                               std::span<const ir::node_id> tangents) {
  ensure(wrt.size() == tangents.size(), "one tangent for each node");
  values given;
  for (std::size_t i = 0; i < wrt.size(); ++i) given.push_back(value(g, tangents[i], g[wrt[i]].where));
  const values pushed = push_forward(g, outputs, wrt, given);
  series<ir::node_id> result;
  for (std::size_t k = 0; k < outputs.size(); ++k)
    result.push_back(pushed[k] ? pushed[k].id() : g.constant(g[outputs[k]].type, 0.0, g[outputs[k]].extents));
  return result;
}

}  // namespace sinter::engine::autodiff
