// ir/check.hpp: the invariants of a graph, verified after every pass.
#pragma once

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
    for (auto operand : n.in) require(operand < id, label + " uses a later node");
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
  require(inputs == g.inputs.size(), "the inputs are not the input nodes");
  for (auto id : g.outputs) require(id < g.size(), "an output is not a node");
}

}  // namespace sinter::ir
