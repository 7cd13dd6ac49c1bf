// plan/root.hpp: what a kernel is asked to store, what it may read from memory, and why it may be refused.
#pragma once

#include <string>
#include <vector>

#include "../ir/graph.hpp"

namespace sinter::plan {

using ir::dim;
using ir::node_id;

/// A value that some kernel stores: iterated over `extents`, written to the buffer of `target`.
struct root {
  node_id value = ir::no_node;  ///< what is computed; no_node: `fill`
  node_id target = ir::no_node;
  ir::shape extents;       ///< of the iteration: the operand's for a reduction, else the value's
  std::vector<dim> start;  ///< where in the target, per dimension; empty: the whole of it
  ir::scalar fill{};
  bool scatter = false;  ///< adds `value` at the indices of `target`, a scatter_add
};

/// Which nodes are in memory when a kernel runs, and how inputs are laid out.
struct memory_map {
  std::vector<char> stored;               ///< per node
  std::vector<std::vector<dim>> strides;  ///< per node; empty: row-major
  std::vector<std::int64_t> hints;        ///< example values of the size symbols, for cost decisions
};

/// Why roots cannot share a kernel.
struct refusal {
  std::string why;
  node_id needs_memory = ir::no_node;  ///< a node that would have to be stored first
};

}  // namespace sinter::plan
