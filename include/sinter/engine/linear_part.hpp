// engine/linear_part.hpp: a derivative as its own graph, in the form that crosses the seam.
#pragma once

#include "../base/series.hpp"
#include "../ir/graph.hpp"

namespace sinter::engine {

/// Its inputs are values of the trace, of the nodes `from`, followed by the inputs in which it is linear.
struct linear_part {
  ir::graph graph;
  series<ir::node_id> from;
};

}  // namespace sinter::engine
