// ir/compose_attention.hpp: attention and its gradient as the ops that compute them.
#pragma once

#include "../base/callback.hpp"
#include "ops/attention_back.hpp"
#include "push_opaque.hpp"

namespace sinter::ir {

/// Whether a node of attention stays as it is; empty: none does.
using kept_attention = sinter::detail::callback<bool(const graph&, node_id)>;

/// Whether the graph has attention that does not stay.
inline bool has_attention(const graph& g, const kept_attention& keeps = {}) {
  for (node_id id = 0; id < g.size(); ++id)
    if (ops::is_attention(g[id].code) && !(keeps && keeps(g, id))) return true;
  return false;
}

namespace detail {

/// The nodes of attention that stay: those of one site together, or none.
inline series<char> attention_kept(const graph& g, const kept_attention& keeps) {
  series<char> out(g.size(), 0);
  if (!keeps) return out;
  series<node_id> gradients;
  for (auto id : g.live()) {
    if (!ops::is_attention(g[id].code)) continue;
    out[id] = keeps(g, id);
    if (g[id].code == op::attention_back) gradients.push_back(id);
  }
  for (auto id : gradients)
    for (auto other : gradients)
      if (g[id].in == g[other].in && !out[other]) out[id] = 0;
  // The composition of a gradient computes what that of the forward pass does.
  for (node_id id = 0; id < g.size(); ++id)
    for (auto other : gradients)
      if (out[id] && !out[other] && g[id].code == op::attention &&
          std::equal(g[id].in.begin(), g[id].in.end(), g[other].in.begin()))
        out[id] = 0;
  return out;
}

}  // namespace detail

/// The graph with the composition of each attention and of each gradient. Both passes share the nodes of products and softmax. Parts of
/// opaque nodes stay as they are, unless `in_parts`. Attention that `keeps` accepts stays, too.
inline graph compose_attention(const graph& g, bool in_parts = false, const kept_attention& keeps = {}) {
  graph out;
  const series<char> stays = detail::attention_kept(g, keeps);
  series<node_id> moved(g.size(), no_node);
  for (auto id : g.inputs) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  for (auto id : g.live()) {
    const node& n = g[id];
    if (n.code == op::input) continue;
    if (ops::is_attention(n.code) && !stays[id]) {
      series<value> in;
      for (auto operand : n.in) in.push_back({out, moved[operand], n.where});
      moved[id] = ops::composed_attention(n, in).id();
      continue;
    }
    series<node_id> in;
    for (auto operand : n.in) in.push_back(moved[operand]);
    attributes attr = n.attr;
    if (in_parts && n.code == op::opaque) {
      opaque step = *attr.step;
      for (auto& part : step.parts) part = compose_attention(part, true, keeps);
      attr.step = seal(std::move(step));
    }
    moved[id] = n.code == op::constant ? push_constant_like(out, n, n.extents)
                                       : out.push(n.code, std::move(in), std::move(attr), n.where);
  }
  for (auto id : g.outputs) out.outputs.push_back(moved[id]);
  return out;
}

}  // namespace sinter::ir
