// batch/placements.hpp: the placements of a trace's values along the axes of a mesh: the definitions for engine/mesh.hpp.
#pragma once

#include <map>
#include <memory>

#include "../engine/mesh.hpp"
#include "placement_walk.hpp"

namespace sinter::engine {

namespace detail {

/// The placements that a trace knows so far, for each axis.
struct known_placements {
  std::map<std::int64_t, placement_walk> along;
};

/// The placements of nodes, by their numbers, as far as `wanted` needs them. Inputs are varying, and values of an outer trace as
/// they are there.
inline const series<holding>& placements(const tracer& t, const series<ir::node_id>& wanted, std::int64_t axis) {
  series<holding> inputs(t.graph.inputs.size(), holding::varying);
  if (t.outer && !t.imported.empty()) {
    const series<holding>& outer = placements(*t.outer, t.imported, axis);
    const std::size_t first = inputs.size() - t.imported.size();
    for (std::size_t k = 0; k < t.imported.size(); ++k) inputs[first + k] = outer[t.imported[k]];
  }
  if (!t.placements) t.placements = std::make_shared<known_placements>();
  auto& along = static_cast<known_placements*>(t.placements.get())->along;
  return along.try_emplace(axis, t.graph, axis).first->second.run(inputs, wanted);
}

}  // namespace detail

SINTER_API ir::placement placement_of(const tracer& t, ir::node_id x, std::int64_t axis) {
  const detail::holding h = detail::placements(t, {x}, axis)[x];
  return detail::is_constant(h) ? ir::placement::invariant : static_cast<ir::placement>(h);
}

SINTER_API void check_placements(const tracer& t, std::span<const ir::node_id> outputs,
                                 std::span<const mesh_axis_place> axes) {
  const series<ir::node_id> wanted(outputs.begin(), outputs.end());
  for (const auto& axis : axes) detail::placements(t, wanted, axis.number);
}

SINTER_API void check_loss(const tracer& t, ir::node_id y, location where) {
  sorted_set<std::int64_t> axes;
  for (ir::node_id id = 0; id < t.graph.size(); ++id)
    if (ir::is_collective(t.graph[id].code)) axes.insert(t.graph[id].attr.ints[0]);
  for (const std::int64_t axis : axes)
    if (placement_of(t, y, axis) == ir::placement::replicated)
      fail("grad",
           "the loss is replicated along " + ir::mesh_axis_name(axis) +
               ", so that each rank would count it; take all_reduce<invariant<A>>(x) in place of replicated<A>",
           where);
}

SINTER_API ir::node_id push_traced_as(tracer& t, ir::node_id x, const mesh_axis_place& axis, ir::placement to,
                                      location where) {
  using ir::placement;
  const detail::holding have = detail::placements(t, {x}, axis.number)[x];
  const placement from = detail::is_constant(have) ? placement::invariant : static_cast<placement>(have);
  const bool sums = to == placement::partial;
  if (from == to || (from == placement::invariant && !sums) || (ir::converts(from, to) && from != placement::invariant))
    return push_as(t, x, axis, from, to, where);
  fail("as",
       "the tensor is " + std::string(detail::holding_name(have)) + " along " + ir::mesh_axis_name(axis.number) +
           ", not " + ir::name(to) +
           "; an axis that as<> does not name is invariant: name it, or communicate: all_reduce, all_gather",
       where);
}

}  // namespace sinter::engine
