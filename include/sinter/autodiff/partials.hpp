// autodiff/partials.hpp: derivatives of the pointwise ops, compiled from the partials columns of ops.def.
#pragma once

#include <limits>
#include <string_view>

#include "../ir/graph.hpp"
#include "../ir/value.hpp"
#include "kinks.hpp"

namespace sinter::engine::autodiff {

/// What operand k receives for the cotangent g; equally what its tangent g gives the result. Empty where none flows.
/// a, b, c are the operands, r the result.
inline value partial(ir::op code, std::size_t k, const value& g, const value& a, const value& b, const value& c,
                     const value& r) {
  const value none;
  switch (code) {
#define SINTER_POINTWISE(name, arity, rule, text, da, db, dc) \
  case ir::op::name:                                          \
    return k == 0 ? value(da) : k == 1 ? value(db) : value(dc);
#include "../ir/ops.def"
    default:
      break;
  }
  (void)a, (void)b, (void)c, (void)r;
  return none;
}

/// Whether the derivative by each operand is more than `none`.
inline constexpr bool smooth[][3] = {
#define SINTER_POINTWISE(name, arity, rule, text, da, db, dc) \
  {std::string_view(#da) != "none", std::string_view(#db) != "none", std::string_view(#dc) != "none"},
#include "../ir/ops.def"
};

/// True where a change of operand k changes the result smoothly.
inline bool flows(const ir::graph& g, const ir::node& n, std::size_t k) {
  if (n.code == ir::op::pick) return is_float(n.type);
  if (n.code == ir::op::opaque) return is_float(g[n.in[k]].type) && n.attr.step->kind != ir::opaque_kind::host_call;
  if (!is_float(n.type) || !is_float(g[n.in[k]].type)) return false;
  return !is_pointwise(n.code) || smooth[static_cast<std::size_t>(n.code)][k];
}

/// Which nodes a change of some changes smoothly.
inline series<char> smooth_from(const ir::graph& g, std::span<const ir::node_id> wrt) {
  series<char> active(g.size(), 0);
  for (auto id : wrt) {
    ensure(id < g.size(), "a node to differentiate by is in the graph");
    active[id] = is_float(g[id].type);
  }
  for (ir::node_id id = 0; id < active.size(); ++id)
    for (std::size_t k = 0; k < g[id].in.size() && !active[id]; ++k)
      active[id] = active[g[id].in[k]] && flows(g, g[id], k);
  return active;
}

}  // namespace sinter::engine::autodiff
