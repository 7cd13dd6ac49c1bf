// batch/simulate.hpp: the graph of one rank -> the graph of all ranks of a mesh, which are lanes; collectives become ops on them.
#pragma once

#include "../engine/mesh.hpp"
#include "batch.hpp"

namespace sinter::engine {

namespace batch {

/// The graph of all ranks along one axis, which is axis 0 of every input and output.
inline ir::graph along_axis(const ir::graph& lane, const mesh_axis_place& axis) {
  ir::graph g;
  lane_values inputs;
  for (auto id : lane.inputs) {
    const ir::node& n = lane[id];
    check_rank(n.extents, n.where);
    inputs.push_back({{g, g.add_input(n.type, ir::ops::behind(axis.ranks, n.extents), n.where), n.where}, true});
  }
  for (const auto& v : push_part({g, axis.ranks, {}, axis.number}, lane, inputs))
    g.outputs.push_back((v.varies ? v.x : ir::ops::over_lanes(v.x, axis.ranks)).id());
  return g;
}

/// Refuses an extent that the ranks do not divide.
inline void check_division(const ir::shape& extents, int along, const mesh_axis_place& axis, location where) {
  const auto extent = extents[static_cast<std::size_t>(along)].number();
  if (!extent || *extent % axis.ranks != 0)
    fail("shard_map",
         "axis " + std::to_string(along) + " of " + ir::text_of(extents) + " does not divide among the " +
             std::to_string(axis.ranks) + " ranks of " + ir::mesh_axis_name(axis.number) +
             "; pad the tensor to a multiple of them",
         where);
}

}  // namespace batch

SINTER_API series<ir::node_id> push_ranks(tracer& t, tracer& body, series<ir::node_id> operands,
                                          std::span<const mesh_axis_place> axes, location where) {
  ir::graph g = body.graph;
  for (std::size_t k = axes.size(); k-- > 0;) g = batch::along_axis(g, axes[k]);
  for (auto outer : body.imported) {  // values from outside are equal on all ranks
    ir::value x(t.graph, outer, where);
    for (std::size_t k = axes.size(); k-- > 0;) x = ir::ops::over_lanes(x, axes[k].ranks);
    operands.push_back(x.id());
  }
  return ir::splice(t.graph, g, operands);
}

// Axes of ranks are in the mesh's order. If two divide one axis of a tensor, the first is the major one.

SINTER_API ir::node_id cut_for_ranks(tracer& t, ir::node_id x, std::span<const mesh_axis_place> axes,
                                     std::span<const mesh_placement> how, location where) {
  ir::value v(t.graph, x, where);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const std::int64_t ranks = axes[k].ranks;
    const int at = static_cast<int>(k);
    if (how[k].along < 0) {
      ir::shape one = v.extents();
      one.insert(one.begin() + at, ir::dim(1));
      ir::shape all = one;
      all[k] = ranks;
      v = broadcast(reshape(v, std::move(one)), std::move(all));
      continue;
    }
    batch::check_division(v.extents(), how[k].along + at, axes[k], where);
    const ir::value first = ir::ops::cut_into_lanes(v, ranks, how[k].along + at);
    v = at == 0 ? first : permute(first, ir::ops::moved_axes(first.rank(), 0, 1, at + 1));
  }
  return v.id();
}

SINTER_API ir::node_id join_ranks(tracer& t, ir::node_id x, std::span<const mesh_axis_place> axes,
                                  std::span<const mesh_placement> how, location where) {
  ir::value v(t.graph, x, where);
  for (std::size_t k = axes.size(); k-- > 0;) {
    const int at = static_cast<int>(k);
    const auto axis = static_cast<std::int64_t>(k);
    if (how[k].how == ir::placement::partial) {
      v = reduce(v, ir::op::add, {axis});
    } else if (how[k].along < 0) {
      ir::shape one = v.extents(), start(one.size(), 0);
      one[k] = 1;
      ir::shape rest = one;
      rest.erase(rest.begin() + at);
      v = reshape(slice(v, std::move(one), start, ir::ops::axes_t(start.size(), 1)), std::move(rest));
    } else {
      const ir::value first = at == 0 ? v : permute(v, ir::ops::moved_axes(v.rank(), axis, axis + 1, 0));
      v = ir::ops::joined_lanes(first, how[k].along + at);
    }
  }
  return v.id();
}

SINTER_API ir::node_id own_part(tracer& t, ir::node_id x, std::span<const mesh_axis_place> axes,
                                std::span<const mesh_placement> how, location where) {
  ir::value v(t.graph, x, where);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    if (how[k].along < 0) continue;
    batch::check_division(v.extents(), how[k].along, axes[k], where);
    const ir::ops::mesh_axis_of a(axes[k].number, axes[k].ranks);
    constexpr auto replicated = ir::placement::replicated;
    const std::int64_t code = ir::ops::code_of(replicated);
    v = ir::ops::own_part(push(ir::op::as, {v}, a.with({code, code})), a, replicated, how[k].along);
  }
  return v.id();
}

SINTER_API ir::node_id push_over_axis(tracer& t, ir::op code, series<ir::node_id> in, const mesh_axis_place& axis,
                                      std::initializer_list<std::int64_t> more, ir::op combiner, location where) {
  return t.graph.push(code, std::move(in), ir::ops::mesh_axis_of(axis.number, axis.ranks).with(more, combiner), where);
}

SINTER_API ir::node_id push_as(tracer& t, ir::node_id x, const mesh_axis_place& axis, ir::placement from,
                               ir::placement to, location where) {
  using ir::placement;
  const ir::ops::mesh_axis_of a(axis.number, axis.ranks);
  ir::value v(t.graph, x, where);
  if (from == placement::invariant && to != placement::invariant) {
    v = placed_as(v, a, from, placement::replicated);
    from = placement::replicated;
  }
  if (from == placement::replicated && to == placement::partial) {
    fail("as", "a replicated value is no partial one: the ranks' sum would count it once for each rank", where);
  }
  return placed_as(v, a, from, to).id();
}

SINTER_API ir::node_id push_shift(tracer& t, ir::node_id x, const mesh_axis_place& axis, std::int64_t by,
                                  location where) {
  ir::ops::axes_t sources;
  for (std::int64_t r = 0; r < axis.ranks; ++r) sources.push_back(((r - by % axis.ranks) + axis.ranks) % axis.ranks);
  return ir::ops::collective_permute({t.graph, x, where}, {axis.number, axis.ranks}, sources).id();
}

SINTER_API ir::node_id own_slice(tracer& t, ir::node_id x, const mesh_axis_place& axis, ir::placement from, int along,
                                 location where) {
  const ir::value v(t.graph, x, where);
  batch::check_division(v.extents(), along, axis, where);
  return ir::ops::own_part(v, {axis.number, axis.ranks}, from, along).id();
}

}  // namespace sinter::engine
