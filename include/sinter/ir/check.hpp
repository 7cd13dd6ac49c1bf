// ir/check.hpp: the invariants of a graph, on which plans rely; verified after every pass.
#pragma once

#include <algorithm>

#include "graph.hpp"

namespace sinter::ir {

SINTER_API void check(const graph& g, const char* pass) {
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) throw internal_error("internal error: after " + std::string(pass) + ": " + what);
  };
  std::size_t inputs = 0;
  for (node_id id = 0; id < g.size(); ++id) {
    const node& n = g[id];
    const std::string label = "%" + std::to_string(id) + " (" + name(n.code) + ")";
    for (auto operand : n.in) {
      require(operand < id, label + " uses a later node");
      require(g[operand].code != op::opaque || n.code == op::pick, label + " reads an opaque node; only a pick may");
    }
    for (std::size_t k = 0; n.attr.step && k < n.attr.step->parts.size(); ++k) check(n.attr.step->parts[k], pass);
    if (n.code == op::input) {
      ++inputs;
      require(n.attr.ints.size() == 1, label + " has no position");
      const auto k = static_cast<std::size_t>(n.attr.ints[0]);
      require(k < g.inputs.size() && g.inputs[k] == id, label + " is not listed at its position");
    }
    node again = n;
    try {
      infer(g, again);
    } catch (const error& e) {
      require(false, label + " does not infer: " + e.what());
    }
    require(again.type == n.type && again.extents == n.extents, label + " has a stale dtype or shape");
  }
  for (std::size_t i = 0; i < g.effects.size(); ++i) {
    const node_id id = g.effects[i];
    require(id < g.size() && g[id].code == op::opaque && g[id].attr.ints[0] == static_cast<std::int64_t>(i) &&
                (i == 0 || g.effects[i - 1] < id),
            "the effects are not opaque nodes in their order");
  }
  require(inputs == g.inputs.size(), "the inputs are not the input nodes");
  for (auto id : g.outputs) require(id < g.size(), "an output is not a node");
}

SINTER_API bool may_read_nothing(const graph& g, const node& gather) {
  const dim& axis = g[gather.in[0]].extents[static_cast<std::size_t>(gather.attr.ints[0])];
  if (axis.lower_bound() > 0) return false;
  return std::none_of(gather.extents.begin(), gather.extents.end(),
                      [&](const dim& e) { return e.is(0) || e.divided_by(axis); });
}

}  // namespace sinter::ir
