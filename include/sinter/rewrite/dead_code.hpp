// rewrite/dead_code.hpp: drops nodes that no output needs, and numbers the rest densely in one canonical order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../base/series.hpp"
#include "../ir/graph.hpp"

namespace sinter::engine::rewrite {

/// The operands of all nodes in one list, because the nodes themselves are far apart in memory.
struct operand_lists {
  series<ir::node_id> all;
  series<std::uint32_t> first;  ///< of each node, and the end
};

/// An effect has the effect before it as its last operand. Operands that need later effects follow the others: a step stands
/// shortly before its first reader, behind the work that does not need it.
inline operand_lists operands_with_effects(const ir::graph& g) {
  operand_lists out;
  out.first.resize(g.size() + 1, 0);
  series<std::uint32_t> latest(g.size(), 0);  // the turn of the last effect that a node needs, plus one
  for (ir::node_id id = 0; id < g.size(); ++id) {
    const ir::node& n = g[id];
    const std::size_t begin = out.all.size();
    bool differ = false;
    for (const auto in : n.in) {
      differ = differ || (out.all.size() > begin && latest[in] < latest[out.all.back()]);
      out.all.push_back(in);
      latest[id] = std::max(latest[id], latest[in]);
    }
    if (differ)
      std::stable_sort(out.all.begin() + static_cast<std::ptrdiff_t>(begin), out.all.end(),
                       [&](ir::node_id a, ir::node_id b) { return latest[a] < latest[b]; });
    if (n.code == ir::op::opaque && n.attr.step->has_effect) {
      const auto turn = static_cast<std::size_t>(n.attr.ints[0]);
      if (turn > 0) out.all.push_back(g.effects[turn - 1]);
      latest[id] = static_cast<std::uint32_t>(turn) + 1;
    }
    out.first[id + 1] = static_cast<std::uint32_t>(out.all.size());
  }
  return out;
}

/// The nodes that outputs and effects need, in the order of a depth-first walk. It depends only on the graph's structure. The
/// order of pushing may depend on the compiler's order of evaluating arguments.
inline series<ir::node_id> canonical_order(const ir::graph& g) {
  series<ir::node_id> order;
  const operand_lists operands = operands_with_effects(g);
  series<std::uint32_t> visited(g.size(), 0);  // number of operands walked, plus one
  series<ir::node_id> stack;
  series<ir::node_id> wanted = g.outputs;
  wanted.insert(wanted.end(), g.effects.begin(), g.effects.end());
  for (auto output : wanted) {
    if (visited[output] == 0) stack.push_back(output);
    while (!stack.empty()) {
      const ir::node_id id = stack.back();
      const auto k = operands.first[id] + visited[id]++;
      if (k < operands.first[id + 1]) {
        if (visited[operands.all[k]] == 0) stack.push_back(operands.all[k]);
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
