// autodiff/partials.hpp: derivatives of the pointwise ops, compiled from the partials columns of ops.def.
#pragma once

#include <limits>
#include <string_view>

#include "../base/sorted.hpp"
#include "../ir/graph.hpp"
#include "../ir/value.hpp"
#include "kinks.hpp"

namespace sinter::engine::autodiff {

/// The cotangent of operand k for the cotangent g; equally, the tangent of the result for a tangent g of operand k. Empty if
/// none flows. a, b, c are the operands, r the result.
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

/// Whether the derivative by each operand exists.
inline constexpr bool smooth[][3] = {
#define SINTER_POINTWISE(name, arity, rule, text, da, db, dc) \
  {std::string_view(#da) != "none", std::string_view(#db) != "none", std::string_view(#dc) != "none"},
#include "../ir/ops.def"
};

/// True if a change of operand k changes the result smoothly.
inline bool flows(const ir::graph& g, const ir::node& n, std::size_t k) {
  if (n.code == ir::op::pick) return is_float(n.type);
  if (n.code == ir::op::opaque) return is_float(g[n.in[k]].type) && n.attr.step->kind != ir::opaque_kind::host_call;
  if (!is_float(n.type) || !is_float(g[n.in[k]].type)) return false;
  return !is_pointwise(n.code) || smooth[static_cast<std::size_t>(n.code)][k];
}

/// Marks the nodes of a graph that depend on some, in some sense.
using follow_rule = series<char> (*)(const ir::graph& g, std::span<const ir::node_id> from);

namespace detail {

/// Marks operands and carried values of a loop that depend on the active operands, in some step, and nodes in the body that do.
inline series<char> follow_in_loop(const ir::opaque& step, series<char>& changes, follow_rule follow) {
  const ir::graph& body = step.parts.back();
  const std::size_t shift = step.kind == ir::opaque_kind::loop ? 1 : 0;
  for (;;) {
    series<ir::node_id> from;
    for (std::size_t k = 0; k < changes.size(); ++k)
      if (changes[k]) from.push_back(body.inputs[k + shift]);
    series<char> inside = follow(body, {from.data(), from.size()});
    bool more = false;
    for (std::size_t k = 0; k < step.carried; ++k)
      if (!changes[k] && inside[body.outputs[k]]) changes[k] = more = true;
    if (!more) return inside;
  }
}

/// Marks the nodes of a part that depend on the active operands, which are its inputs from `first` on.
inline series<char> follow_in_part(const ir::graph& part, const series<char>& asked, std::size_t first,
                                   follow_rule follow) {
  series<ir::node_id> from;
  for (std::size_t k = first; k < asked.size(); ++k)
    if (asked[k]) from.push_back(part.inputs[k - first]);
  return follow(part, {from.data(), from.size()});
}

}  // namespace detail

/// The results of an opaque node that depend on the active operands; all if it has a rule.
inline series<char> following_results(const ir::opaque& step, const series<char>& asked, follow_rule follow) {
  const bool cond = step.kind == ir::opaque_kind::cond, loop = step.kind == ir::opaque_kind::loop;
  const bool test = step.kind == ir::opaque_kind::while_loop;
  series<char> out(step.results.size(), 0);
  if (step.parts.empty() || step.function || (cond && asked[0])) {
    out.assign(out.size(), 1);
  } else if (loop || test) {
    series<char> changes = asked;
    const series<char> inside = detail::follow_in_loop(step, changes, follow);
    const bool decides = test && detail::follow_in_part(step.parts[0], changes, 0, follow)[step.parts[0].outputs[0]];
    for (std::size_t k = 0; k < out.size(); ++k) {
      if (k < step.carried) out[k] = decides || changes[k];
      else if (k < step.carried + step.stacked) out[k] = inside[step.parts[0].outputs[k]];
      else out[k] = changes[k - step.carried - step.stacked];
    }
  } else {
    for (const auto& part : step.parts) {
      const series<char> inside = detail::follow_in_part(part, asked, cond ? 1 : 0, follow);
      for (std::size_t k = 0; k < out.size(); ++k) out[k] = out[k] || inside[part.outputs[k]];
    }
  }
  return out;
}

/// Marks nodes that depend on marked nodes: `flows(n, k)` tells whether n depends on operand k.
template <class Flows>
void spread_marks(const ir::graph& g, series<char>& marks, follow_rule follow, Flows&& flows) {
  sorted_map<ir::node_id, series<char>> results;
  for (ir::node_id id = 0; id < marks.size(); ++id) {
    const ir::node& n = g[id];
    if (marks[id] || n.in.empty()) continue;
    if (n.code == ir::op::pick) {
      if (const auto found = results.find(n.in[0]); found != results.end())
        marks[id] = found->second[static_cast<std::size_t>(n.attr.ints[0])] && flows(n, 0);
      continue;
    }
    const bool opaque = n.code == ir::op::opaque;
    series<char> asked;
    for (std::size_t k = 0; k < n.in.size() && (opaque || !marks[id]); ++k) {
      const bool one = marks[n.in[k]] && flows(n, k);
      if (opaque) asked.push_back(one);
      marks[id] = marks[id] || one;
    }
    if (marks[id] && opaque) results.emplace(id, following_results(*n.attr.step, asked, follow));
  }
}

/// The nodes that a change of some nodes changes smoothly.
inline series<char> smooth_from(const ir::graph& g, std::span<const ir::node_id> wrt) {
  series<char> active(g.size(), 0);
  for (auto id : wrt) {
    ensure(id < g.size(), "a node to differentiate by is in the graph");
    active[id] = is_float(g[id].type);
  }
  spread_marks(g, active, smooth_from, [&](const ir::node& n, std::size_t k) { return flows(g, n, k); });
  return active;
}

/// The nodes that depend on some of `from`, smoothly or not.
inline series<char> depends_on(const ir::graph& g, std::span<const ir::node_id> from) {
  series<char> out(g.size(), 0);
  for (auto id : from) out[id] = 1;
  spread_marks(g, out, depends_on, [](const ir::node&, std::size_t) { return true; });
  return out;
}

}  // namespace sinter::engine::autodiff
