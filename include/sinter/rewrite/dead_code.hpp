// rewrite/dead_code.hpp: drops nodes that no output needs, and numbers the rest densely in one canonical order.
#pragma once

#include "../base/series.hpp"
#include "../ir/graph.hpp"

namespace sinter::engine::rewrite {

/// The nodes that effects and outputs need, in the order of a depth-first walk. It depends only on the graph's structure. The
/// order of pushing may depend on the compiler's order of evaluating arguments.
inline series<ir::node_id> canonical_order(const ir::graph& g) {
  series<ir::node_id> order;
  // All operands in one list for the walk, because the nodes themselves are far apart in memory.
  series<ir::node_id> operands;
  series<std::uint32_t> first(g.size() + 1, 0);
  for (ir::node_id id = 0; id < g.size(); ++id) {
    for (const auto in : g[id].in) operands.push_back(in);
    first[id + 1] = static_cast<std::uint32_t>(operands.size());
  }
  series<std::uint32_t> visited(g.size(), 0);  // number of operands walked, plus one
  series<ir::node_id> stack;
  series<ir::node_id> wanted = g.effects;
  wanted.insert(wanted.end(), g.outputs.begin(), g.outputs.end());
  for (auto output : wanted) {
    if (visited[output] == 0) stack.push_back(output);
    while (!stack.empty()) {
      const ir::node_id id = stack.back();
      const auto k = first[id] + visited[id]++;
      if (k < first[id + 1]) {
        if (visited[operands[k]] == 0) stack.push_back(operands[k]);
      } else {
        stack.pop_back();
        order.push_back(id);
      }
    }
  }
  return order;
}

inline ir::graph dead_code(const ir::graph& g) { return g.numbered(canonical_order(g)); }

}  // namespace sinter::engine::rewrite
