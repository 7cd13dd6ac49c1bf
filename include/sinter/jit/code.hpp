// jit/code.hpp: what a compiled graph is: results, and what runs to make them; what all backends share.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "../engine.hpp"
#include "../plan/memory.hpp"
#include "../run/program.hpp"

namespace sinter::engine::detail {

/// A result of a program: the node whose memory it is, and its extents.
struct result_spec {
  ir::node_id node = ir::no_node;
  std::vector<std::int64_t> extents;
  dtype type = dtype::f32;
  std::vector<char> may_replace;  ///< per argument: its storage can hold the result
};

/// What every program of one structure and layout shares.
struct code {
  ir::graph graph;  ///< as the reference backend interprets it
  device where;
  bool interpreted = false;
  run::sequence kernels;
  std::vector<result_spec> results;
  report about;
};

inline std::vector<argument> all_arguments(std::span<const argument> given, const std::vector<captured>& captures) {
  std::vector<argument> all(given.begin(), given.end());
  for (const auto& c : captures)
    all.push_back({c.data, &c.memory, c.type, static_cast<int>(c.extents.size()), c.extents.data(), c.strides.data(),
                   c.by_value});
  return all;
}

/// Results that share a node, or are inputs, get a node of their own; a reshaped result is its operand's memory.
inline std::vector<result_spec> separate_results(ir::graph& g) {
  std::vector<result_spec> results;
  std::set<ir::node_id> taken(g.inputs.begin(), g.inputs.end());
  for (auto& out : g.outputs) {
    ir::node_id id = out;
    while (g[id].code == ir::op::reshape) id = g[id].in[0];
    if (taken.count(id)) id = g.mark(out);
    taken.insert(id);
    result_spec r;
    r.node = id;
    r.type = g[out].type;
    for (const auto& e : g[out].extents) r.extents.push_back(e.evaluate({}));
    out = id;
    results.push_back(std::move(r));
  }
  return results;
}

inline plan::memory_map layout_of(const ir::graph& g, std::span<const argument> arguments) {
  plan::memory_map m;
  m.strides.resize(g.size());
  for (std::size_t i = 0; i < g.inputs.size(); ++i)
    m.strides[g.inputs[i]].assign(arguments[i].strides, arguments[i].strides + arguments[i].rank);
  return m;
}

inline bool is_row_major(const argument& a) {
  std::int64_t s = 1;
  for (int d = a.rank; d-- > 0; s *= a.extents[d])
    if (a.extents[d] != 1 && a.strides[d] != s) return false;
  return true;
}

}  // namespace sinter::engine::detail
