// ir/push_concrete.hpp: the definitions for concrete.hpp.
#pragma once

#include "../base/series.hpp"
#include "concrete.hpp"

namespace sinter::ir {

SINTER_API node_id push_pointwise(graph& g, op code, dtype type, const node_id* in, int count, location where) {
  attributes attr;
  if (names_type(row(code).rule)) attr.type = type;
  return g.push(code, series<node_id>(in, in + count), std::move(attr), where);
}

SINTER_API node_id push_size(graph& g, dtype type, const dim& size, location where) {
  attributes attr;
  attr.dims = {size};
  const node_id id = g.push(op::size, {}, std::move(attr), where);
  return type == dtype::i64 ? id : push_pointwise(g, op::cast, type, &id, 1, where);
}

SINTER_API node_id push_iota(graph& g, dtype type, const dim* extents, int rank, int axis, location where) {
  attributes attr;
  attr.type = type;
  attr.dims.assign(extents, extents + rank);
  attr.ints = {axis < 0 ? 0 : axis};
  if (axis >= 0 || rank == 1) return g.push(op::iota, {}, std::move(attr), where);
  attributes reshaped;
  reshaped.dims = std::move(attr.dims);
  attr.dims = {product(reshaped.dims)};
  const node_id flat = g.push(op::iota, {}, std::move(attr), where);
  return g.push(op::reshape, {flat}, std::move(reshaped), where);
}

SINTER_API node_id push_broadcast(graph& g, node_id x, const dim* from, int from_rank, const dim* to, int to_rank,
                                  location where) {
  const auto missing = static_cast<std::size_t>(to_rank - from_rank);
  shape extents(missing, dim(1));
  extents.insert(extents.end(), from, from + from_rank);
  bool equal = true;
  for (std::size_t i = 0; i < extents.size(); ++i) equal &= extents[i] == to[i];
  if (missing > 0) {
    attributes attr;
    attr.dims = std::move(extents);
    x = g.push(op::reshape, {x}, std::move(attr), where);
  }
  if (equal) return x;
  attributes attr;
  attr.dims.assign(to, to + to_rank);
  return g.push(op::broadcast, {x}, std::move(attr), where);
}

}  // namespace sinter::ir
