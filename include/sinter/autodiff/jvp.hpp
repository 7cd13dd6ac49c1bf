// autodiff/jvp.hpp: forward mode, graph -> bigger graph, over the same partials.
#pragma once

#include "../base/series.hpp"
#include "opaque_forward.hpp"
#include "vjp.hpp"

namespace sinter::engine::autodiff {

/// Tangents of a node's operands; empty where zero.
using tangents_t = series<value>;

inline value push_reduce(const site& s, const value& t) {
  const axes_t& axes = s.n().attr.ints;
  const value x = s.in(0);
  switch (s.n().attr.combiner) {
    case op::add:
      return reduce(t, op::add, axes);
    case op::mul:
      return reduce(t * product_slopes(x, axes), op::add, axes);
    case op::maximum:
    case op::minimum: {
      value count;
      const value at = extremes(x, s.result(), axes, count);
      return share(reduce(select(at, t, 0.0), op::add, axes), count);
    }
    default:
      return {};
  }
}

/// The tangent of a node; empty where zero. Structural ops but reduce are linear: they apply to the tangents.
inline value push_forward(const site& s, const tangents_t& t) {
  const ir::node& n = s.n();
  value sum;
  const auto add_to_sum = [&](const value& v) {
    if (v) sum = sum ? sum + v : v;
  };
  const auto or_zeros = [&](std::size_t k) { return t[k] ? t[k] : s.in(k).like(0.0); };
  if (is_pointwise(n.code)) {
    for (std::size_t k = 0; k < t.size(); ++k)
      // The partial of a cast names the operand's dtype, which is the cotangent's.
      if (t[k] && n.code == op::cast) add_to_sum(cast(t[k], n.type));
      else if (t[k]) add_to_sum(partial(n.code, k, t[k], s.in(0), s.in(1), s.in(2), s.result()));
    return sum;
  }
  switch (n.code) {
    case op::reduce:
      return push_reduce(s, t[0]);
    case op::scan:
      return push_scan(n, s.in(0), s.in(1), s.result(), t[0], t.size() > 1 ? t[1] : value());
    case op::gather:
      return gather(t[0], s.in(1), s.axis());
    case op::scatter_add:
      return scatter_add(or_zeros(0), s.in(1), or_zeros(2), s.axis());
    case op::dot:
      if (t[0]) add_to_sum(dot(t[0], s.in(1), n.attr.ints[0], n.attr.ints[1]));
      if (t[1]) add_to_sum(dot(s.in(0), t[1], n.attr.ints[0], n.attr.ints[1]));
      return sum;
    default:
      break;
  }
  ir::attributes linear = n.attr;
  linear.literal = {};
  series<ir::node_id> in;
  for (std::size_t k = 0; k < t.size(); ++k) in.push_back(or_zeros(k).id());
  return {s.g, s.g.push(n.code, std::move(in), std::move(linear), n.where), n.where};
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
    tangents_t t;
    bool any = false;
    for (std::size_t k = 0; k < s.n().in.size(); ++k) {
      const value v = flows(g, s.n(), k) ? tangent[s.n().in[k]] : value();
      t.push_back(v ? value(g, v.id(), s.n().where) : v);
      any = any || v;
    }
    if (!any) continue;
    if (s.n().code == op::opaque) results.emplace(id, push_opaque(g, id, t, push_forward));
    else tangent[id] = push_forward(s, t);
  }
  values out;
  for (auto id : ys) out.push_back(id < tangent.size() ? tangent[id] : value());
  return out;
}

/// Pushes the tangents of `outputs` for `tangents` of `wrt` and returns their nodes, in order; zeros where none flows.
/// A tangent has the dtype and extents of its node.
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
