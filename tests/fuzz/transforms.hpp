// tests/fuzz/transforms.hpp: random graphs under stacks of tangents, cotangents and lanes.
#pragma once

#include "lanes.hpp"

namespace fuzz {

/// The graph with tangents of its results for those of some inputs (forward), or with cotangents of these for those of its
/// results: inputs behind the others. False where it has no derivative, or one too large.
inline bool differentiate(drawn& d, bool forward, std::mt19937_64& bits) {
  sinter::ir::graph g = d.graph;
  std::vector<node_id> wrt, ys, given;
  for (auto id : g.inputs)
    if (sinter::is_float(g[id].type) && bits() % 4 != 0) wrt.push_back(id);
  for (auto id : g.outputs)
    if (sinter::is_float(g[id].type) && bits() % 4 != 0) ys.push_back(id);
  if (wrt.empty() || ys.empty()) return false;
  for (auto id : forward ? wrt : ys) given.push_back(g.add_input(g[id].type, g[id].extents));
  sinter::series<node_id> made;
  const bool smooth = differentiates([&] {
    made = forward ? sinter::engine::autodiff::jvp(g, ys, wrt, given)
                   : sinter::engine::autodiff::vjp(g, ys, given, wrt, {"fuzz.cpp", 1});
  });
  if (!smooth || g.size() > 2000) return false;
  std::vector<node_id> outputs;
  for (auto id : g.outputs)
    if (bits() % 2 != 0) outputs.push_back(id);
  outputs.insert(outputs.end(), made.begin(), made.end());
  g.outputs.clear();
  for (auto id : outputs) g.outputs.push_back(g[id].code == op::input || g[id].code == op::reshape ? g.mark(id) : id);
  d.graph = std::move(g);
  return true;
}

/// Two or three transforms of a small graph, plain or with branches and loops. `l`: of the last one, where that is of lanes.
inline drawn draw_transforms(std::uint64_t seed, bool symbols, lanes_of& l) {
  std::mt19937_64 bits(seed);
  const bool control = bits() % 3 == 0;
  drawn d;
  d.how = symbols && bits() % 6 == 0 ? symbolic_recipe(bits) : small_recipe(bits);
  d.how.steps = control ? 1 + static_cast<int>(bits() % 2) : 3 + static_cast<int>(bits() % 6);
  d.how.max_elements = 200;
  add_nothing(d.how, seed);
  const auto has_floats = [&](const auto& nodes) {
    return std::any_of(nodes.begin(), nodes.end(), [&](node_id id) { return sinter::is_float(d.graph[id].type); });
  };
  for (int again = 0; again < 6; ++again) {
    d.graph = control ? control_graph(bits(), d.how).graph : random_graph(bits(), d.how).graph;
    if (has_floats(d.graph.inputs) && has_floats(d.graph.outputs)) break;
  }
  d.seed = seed;
  d.kind = control ? "control" : "plain";
  const auto depth = 2 + bits() % 2;
  std::uint64_t made_of = 0;
  for (int again = 0; made_of < depth && again < 8; ++again) {
    lanes_of made;
    switch (bits() % 3) {
      case 0:
        if (elements(d.graph, d.how.hints) > 20'000 || !spread(d, made, bits)) continue;
        d.kind += ", " + std::to_string(made.count) + " lanes";
        break;
      case 1:
        if (!differentiate(d, true, bits)) continue;
        d.kind += ", tangents";
        break;
      default:
        if (!differentiate(d, false, bits)) continue;
        d.kind += ", cotangents";
    }
    l = std::move(made);
    ++made_of;
  }
  lay_out(d, bits);
  return d;
}

}  // namespace fuzz
