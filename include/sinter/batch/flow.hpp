// batch/flow.hpp: the values of a lane's graph that differ between lanes.
#pragma once

#include "../base/sorted.hpp"
#include "../ir/graph.hpp"
#include "../ir/ops/collectives.hpp"

namespace sinter::engine::batch {

/// For each node of `part`, whether it varies, given `inputs` for the inputs. The lanes are the ranks of mesh_axis, unless it
/// is -1.
inline series<char> flow(const ir::graph& part, const series<char>& inputs, std::int64_t mesh_axis = -1);

/// Whether n is over this axis of a mesh.
inline bool is_over(const ir::node& n, std::int64_t mesh_axis) {
  return mesh_axis >= 0 && ir::is_collective(n.code) && n.attr.ints[0] == mesh_axis;
}

/// Whether ranks of this axis wait for each other in the graph.
inline bool communicates(const ir::graph& part, std::int64_t mesh_axis) {
  for (auto id : part.live()) {
    const ir::node& n = part[id];
    if (is_over(n, mesh_axis) && n.code != ir::op::as && n.code != ir::op::axis_index) return true;
    if (n.code != ir::op::opaque) continue;
    for (const auto& inner : n.attr.step->parts)
      if (communicates(inner, mesh_axis)) return true;
  }
  return false;
}

/// Whether a node in the graph is over this axis.
inline bool uses_axis(const ir::graph& part, std::int64_t mesh_axis) {
  for (auto id : part.live()) {
    const ir::node& n = part[id];
    if (is_over(n, mesh_axis)) return true;
    if (n.code != ir::op::opaque) continue;
    for (const auto& inner : n.attr.step->parts)
      if (uses_axis(inner, mesh_axis)) return true;
  }
  return false;
}

namespace detail {

/// The same for the outputs.
inline series<char> outputs_of(const ir::graph& part, const series<char>& inputs, std::int64_t mesh_axis) {
  const auto all = flow(part, inputs, mesh_axis);
  series<char> out;
  for (auto id : part.outputs) out.push_back(all[id]);
  return out;
}

inline series<char> flow_of_cond(const ir::opaque& step, const series<char>& operands, std::int64_t mesh_axis) {
  const series<char> inputs(operands.begin() + 1, operands.end());
  series<char> out(step.results.size(), operands[0]);
  for (const auto& part : step.parts) {
    const auto outputs = outputs_of(part, inputs, mesh_axis);
    for (std::size_t k = 0; k < out.size(); ++k) out[k] = out[k] || outputs[k];
  }
  return out;
}

/// For the carried values, then the stacks: a value that a step makes vary varies from the start.
inline series<char> flow_of_loop(const ir::opaque& step, const series<char>& operands, std::int64_t mesh_axis) {
  series<char> inputs{0};
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  for (;;) {
    series<char> out = outputs_of(step.parts[0], inputs, mesh_axis);
    bool grows = false;
    for (std::size_t k = 0; k < step.carried; ++k) {
      grows = grows || (out[k] && !inputs[k + 1]);
      inputs[k + 1] = out[k] = out[k] || inputs[k + 1];
    }
    if (grows) continue;
    for (std::size_t k = 0; k < step.carried; ++k) out.push_back(out[k]);
    return out;
  }
}

/// If lanes end at different steps, all values that steps change vary.
inline series<char> flow_of_while(const ir::opaque& step, series<char> inputs, std::int64_t mesh_axis) {
  const ir::graph& body = step.parts[1];
  for (bool grows = true; grows;) {
    grows = false;
    const bool ends_vary = outputs_of(step.parts[0], inputs, mesh_axis)[0];
    const auto out = outputs_of(body, inputs, mesh_axis);
    for (std::size_t k = 0; k < step.carried; ++k) {
      const bool varies = out[k] || (ends_vary && body.outputs[k] != body.inputs[k]);
      grows = grows || (varies && !inputs[k]);
      inputs[k] = inputs[k] || varies;
    }
  }
  inputs.resize(step.carried);
  return inputs;
}

}  // namespace detail

/// The results of an opaque node that vary.
inline series<char> flow(const ir::opaque& step, const series<char>& operands, std::int64_t mesh_axis = -1) {
  switch (step.kind) {
    case ir::opaque_kind::cond:
      return detail::flow_of_cond(step, operands, mesh_axis);
    case ir::opaque_kind::loop:
      return detail::flow_of_loop(step, operands, mesh_axis);
    case ir::opaque_kind::while_loop:
      return detail::flow_of_while(step, operands, mesh_axis);
    case ir::opaque_kind::call:
      // A rule receives the cotangents of all results of a lane, or of none.
      if (!step.function) return detail::outputs_of(step.parts[0], operands, mesh_axis);
      break;
    case ir::opaque_kind::custom:
    case ir::opaque_kind::host_call:
    case ir::opaque_kind::part:
      break;
  }
  bool any = false;
  for (char varies : operands) any = any || varies;
  return series<char>(step.results.size(), any);
}

inline series<char> flow(const ir::graph& part, const series<char>& inputs, std::int64_t mesh_axis) {
  series<char> all(part.size(), 0);
  sorted_map<ir::node_id, series<char>> results;  // of opaque nodes
  for (ir::node_id id = 0; id < all.size(); ++id) {
    const ir::node& n = part[id];
    if (n.code == ir::op::input) {
      all[id] = inputs[static_cast<std::size_t>(n.attr.ints[0])];
    } else if (n.code == ir::op::pick) {
      all[id] = results.at(n.in[0])[static_cast<std::size_t>(n.attr.ints[0])];
    } else if (n.code == ir::op::opaque) {
      series<char> operands;
      for (auto in : n.in) operands.push_back(all[in]);
      results.emplace(id, flow(*n.attr.step, operands, mesh_axis));
    } else if (is_over(n, mesh_axis) && n.code != ir::op::as) {
      all[id] = !ir::ops::is_shared(n);
    } else {
      for (auto in : n.in) all[id] = all[id] || all[in];
    }
  }
  return all;
}

}  // namespace sinter::engine::batch
