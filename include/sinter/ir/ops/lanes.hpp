// ir/ops/lanes.hpp: a node of one lane on its way into the graph of all lanes, and building blocks of batch rules.
#pragma once

#include "../../base/series.hpp"
#include "../graph.hpp"
#include "../value.hpp"

namespace sinter::ir {

/// A value in the graph of all lanes: with the lanes as axis 0 if it varies; otherwise shared by all lanes.
struct lane_value {
  value x;
  bool varies = false;
};

namespace ops {

/// `extents` after one more axis.
inline shape behind(const dim& first, const shape& extents) {
  shape all{first};
  all.insert(all.end(), extents.begin(), extents.end());
  return all;
}

/// x repeated for each of the lanes; a broadcast of a broadcast is merged.
inline value over_lanes(const value& x, const dim& lanes) {
  const node& n = x.get();
  graph& g = x.owner();
  if (n.code == op::constant) return {g, push_constant_like(g, n, behind(lanes, n.extents)), x.where()};
  const value narrow = n.code == op::broadcast ? value(g, n.in[0], x.where()) : x;
  return broadcast(reshape(narrow, behind(1, narrow.extents())), behind(lanes, n.extents));
}

/// A node of one lane, and its operands for all lanes, at least one of which varies.
struct lane_site {
  const graph& lane;
  const node& n;  ///< in `lane`
  graph& g;       ///< of all lanes
  dim lanes;
  series<value>& wide;  ///< nodes of `lane` that all lanes share, repeated for each lane on first use
  series<lane_value> operands;
  std::int64_t mesh_axis = -1;  ///< the axis of a mesh whose ranks are the lanes

  const value& in(std::size_t k) const { return operands[k].x; }
  bool varies(std::size_t k) const { return operands[k].varies; }
  /// Operand k with the lanes as axis 0.
  value over(std::size_t k) const {
    if (varies(k)) return in(k);
    value& w = wide[n.in[k]];
    if (!w) w = over_lanes(in(k), lanes);
    return {g, w.id(), in(k).where()};
  }
  std::int64_t rank(std::size_t k) const { return static_cast<std::int64_t>(lane[n.in[k]].extents.size()); }

  /// The same node on operands that all have the lanes.
  value push(attributes attr) const {
    series<node_id> all;
    all.reserve(operands.size());
    for (std::size_t k = 0; k < operands.size(); ++k) all.push_back(over(k).id());
    return {g, g.push(n.code, std::move(all), std::move(attr), n.where), n.where};
  }
};

/// Axes in another order: the axes of [first, last) move to `to`, before the axes that were there.
inline series<std::int64_t> moved_axes(std::int64_t rank, std::int64_t first, std::int64_t last, std::int64_t to) {
  series<std::int64_t> order;
  const auto add_moved = [&] {
    for (std::int64_t a = first; a < last; ++a) order.push_back(a);
  };
  for (std::int64_t a = 0; a < rank; ++a) {
    if (a == to) add_moved();
    if (a < first || a >= last) order.push_back(a);
  }
  if (to >= rank) add_moved();
  return order;
}

/// x with axis 0 moved to `to`; no permutation if it passes only extents of 1.
inline value lanes_moved_to(const value& x, std::int64_t to) {
  const shape& e = x.extents();
  bool ones = true;
  for (std::int64_t a = 1; a <= to; ++a) ones = ones && e[static_cast<std::size_t>(a)].is(1);
  if (to == 0) return x;
  const auto order = moved_axes(x.rank(), 0, 1, to + 1);
  if (!ones) return permute(x, order);
  shape turned;
  for (auto a : order) turned.push_back(e[static_cast<std::size_t>(a)]);
  return reshape(x, std::move(turned));
}
/// The inverse of lanes_moved_to.
inline value lanes_moved_from(const value& x, std::int64_t from) {
  const shape& e = x.extents();
  bool ones = true;
  for (std::int64_t a = 0; a < from; ++a) ones = ones && e[static_cast<std::size_t>(a)].is(1);
  if (from == 0) return x;
  const auto order = moved_axes(x.rank(), from, from + 1, 0);
  if (!ones) return permute(x, order);
  shape turned;
  for (auto a : order) turned.push_back(e[static_cast<std::size_t>(a)]);
  return reshape(x, std::move(turned));
}

/// Ops along the axis that their ints begin with, for operands with the same axes.
struct along_axis {
  static value batch(const lane_site& s) {
    attributes attr = s.n.attr;
    ++attr.ints[0];
    return s.push(std::move(attr));
  }
};

/// Ops whose dims are the result's extents.
struct to_extents {
  static value batch(const lane_site& s) {
    attributes attr = s.n.attr;
    attr.dims = behind(s.lanes, attr.dims);
    return s.push(std::move(attr));
  }
};

}  // namespace ops
}  // namespace sinter::ir
