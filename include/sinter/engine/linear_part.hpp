// engine/linear_part.hpp: a derivative as its own graph, in the form that crosses the seam.
#pragma once

#include "../base/config.hpp"
#include "../base/series.hpp"
#include "../ir/graph.hpp"

namespace sinter::engine {

/// Its inputs are values of the trace, of the nodes `from`, followed by the inputs in which it is linear.
struct linear_part {
  ir::graph graph;
  series<ir::node_id> from;
};

/// Whether derivatives of this thread keep all values that they need. (keep_all_scope)
inline constinit thread_local bool keeps_all_values = false;

/// The same derivative, which keeps the fewest bytes of g's values, and computes the others again. (autodiff/partition.hpp)
SINTER_API linear_part partitioned(const ir::graph& g, linear_part part);

}  // namespace sinter::engine
