// ir/concrete.hpp: the pushes of the front end, without vectors of dims in its headers.
#pragma once

#include "graph.hpp"

namespace sinter::ir {

/// A pointwise node; `type` is the dtype of a cast.
SINTER_API node_id push_pointwise(graph& g, op code, dtype type, const node_id* in, int count, location where);

/// A size as a rank-0 value of a dtype.
SINTER_API node_id push_size(graph& g, dtype type, const dim& size, location where);

/// The index along an axis; for axis -1 the row-major position.
SINTER_API node_id push_iota(graph& g, dtype type, const dim* extents, int rank, int axis, location where);

/// Broadcasts x from extents `from` to extents `to`, by a reshape that adds leading axes of 1, and a broadcast, as needed.
SINTER_API node_id push_broadcast(graph& g, node_id x, const dim* from, int from_rank, const dim* to, int to_rank,
                                  location where);

}  // namespace sinter::ir
