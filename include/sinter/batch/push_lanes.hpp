// batch/push_lanes.hpp: lanes in a trace: the definitions for the seam.
#pragma once

#include "../engine/engine.hpp"
#include "batch.hpp"

namespace sinter::engine {

namespace batch {

/// Pushes `lane` on g for each of `lanes` lanes. `operands` are for its inputs, in order; varying ones have the lanes as axis
/// 0, and so do the results that vary.
inline lanes_result push_lanes(ir::graph& g, const ir::graph& lane, const series<ir::node_id>& operands,
                               std::span<const char> varies, const ir::dim& lanes, location where) {
  lane_values inputs;
  for (std::size_t k = 0; k < operands.size(); ++k)
    inputs.push_back({value(g, operands[k], where), k < varies.size() && varies[k]});
  lanes_result out;
  for (const auto& v : push_part({g, lanes}, lane, inputs)) {
    out.nodes.push_back(v.x.id());
    out.varies.push_back(v.varies);
  }
  return out;
}

}  // namespace batch

SINTER_API lanes_result push_lanes(tracer& t, tracer& body, series<ir::node_id> operands, std::span<const char> varies,
                                   ir::dim lanes, location where) {
  operands.insert(operands.end(), body.imported.begin(), body.imported.end());
  return batch::push_lanes(t.graph, body.graph, operands, varies, lanes, where);
}

}  // namespace sinter::engine
