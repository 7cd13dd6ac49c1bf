// engine/linear_part.hpp: a derivative as a graph of its own, as the seam hands it over.
#pragma once

#include "../base/series.hpp"
#include "../ir/graph.hpp"

namespace sinter::engine {

/// Its inputs: values of the trace, of the nodes `from`; then what it is linear in.
struct linear_part {
  ir::graph graph;
  series<ir::node_id> from;
};

}  // namespace sinter::engine
