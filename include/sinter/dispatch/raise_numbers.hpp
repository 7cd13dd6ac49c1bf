// dispatch/raise_numbers.hpp: graph -> equal graph, in which floating constants of branches and bodies are operands of their
// steps.
#pragma once

#include <memory>
#include <utility>

#include "../base/series.hpp"
#include "../ir/concrete.hpp"
#include "../ir/graph.hpp"

namespace sinter::engine::detail {

ir::graph raise_constants(const ir::graph& g);

/// A part of a step with `raised` constants after its inputs; constants from number `first` on are its own.
inline ir::graph without_constants(const ir::graph& part, const series<const ir::node*>& raised, std::size_t first) {
  ir::graph out;
  series<ir::node_id> moved(part.size(), ir::no_node);
  for (const auto id : part.inputs) moved[id] = out.add_input(part[id].type, part[id].extents, part[id].where);
  series<ir::node_id> given;
  for (const ir::node* n : raised) given.push_back(out.add_input(n->type, {}, n->where));
  for (const auto id : part.live()) {
    const ir::node& n = part[id];
    if (n.code == ir::op::input) continue;
    if (n.code == ir::op::constant && is_float(n.type)) {
      moved[id] = ir::push_broadcast(out, given[first++], nullptr, 0, n.extents.data(),
                                     static_cast<int>(n.extents.size()), n.where);
      continue;
    }
    series<ir::node_id> in;
    for (const auto operand : n.in) in.push_back(moved[operand]);
    moved[id] = out.push(n.code, std::move(in), n.attr, n.where);
  }
  for (const auto id : part.outputs) out.outputs.push_back(moved[id]);
  return out;
}

/// The step with its parts' floating constants as operands, which are pushed on `out`.
inline std::shared_ptr<const ir::opaque> raised(const ir::opaque& of, ir::graph& out, series<ir::node_id>& operands) {
  ir::opaque step = of;
  series<const ir::node*> constants;
  series<std::size_t> first;
  for (auto& part : step.parts) {
    part = raise_constants(part);
    first.push_back(constants.size());
    for (const auto id : part.live())
      if (part[id].code == ir::op::constant && is_float(part[id].type)) constants.push_back(&part[id]);
  }
  if (constants.empty()) return nullptr;
  for (const ir::node* n : constants) operands.push_back(ir::push_constant_like(out, *n, {}));
  series<ir::graph> parts;
  for (std::size_t i = 0; i < step.parts.size(); ++i)
    parts.push_back(without_constants(step.parts[i], constants, first[i]));
  step.parts = std::move(parts);
  if (step.kind != ir::opaque_kind::cond && step.kind != ir::opaque_kind::call) step.constants += constants.size();
  step.is_rewritten = false;
  return ir::seal(std::move(step));
}

/// Whether the graph has branches or bodies.
inline bool has_parts(const ir::graph& g) {
  for (ir::node_id id = 0; id < g.size(); ++id)
    if (g[id].code == ir::op::opaque && !g[id].attr.step->parts.empty()) return true;
  return false;
}

inline ir::graph raise_constants(const ir::graph& g) {
  if (!has_parts(g)) return g;
  ir::graph out;
  series<ir::node_id> moved(g.size(), ir::no_node);
  for (const auto id : g.inputs) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  for (const auto id : g.live()) {
    const ir::node& n = g[id];
    if (n.code == ir::op::input) continue;
    if (n.code == ir::op::constant) {
      moved[id] = ir::push_constant_like(out, n, n.extents);
      continue;
    }
    series<ir::node_id> in;
    for (const auto operand : n.in) in.push_back(moved[operand]);
    ir::attributes attr = n.attr;
    if (n.code == ir::op::opaque)
      if (auto step = raised(*attr.step, out, in)) attr.step = std::move(step);
    moved[id] = out.push(n.code, std::move(in), std::move(attr), n.where);
  }
  for (const auto id : g.outputs) out.outputs.push_back(moved[id]);
  return out;
}

}  // namespace sinter::engine::detail
