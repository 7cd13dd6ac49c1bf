// plan/kernel/root.hpp: what a kernel is asked to store, what it may read from memory, and why it may be refused.
#pragma once

#include <string>

#include "../../base/series.hpp"
#include "../../ir/graph.hpp"

namespace sinter::engine::plan {

using ir::dim;
using ir::node_id;

/// A value that some kernel stores: iterated over `extents`, written to the buffer of `target`.
struct root {
  node_id value = ir::no_node;  ///< what is computed; no_node: `fill`
  node_id target = ir::no_node;
  ir::shape extents;  ///< of the iteration: the operand's for a reduction, else the value's
  series<dim> start;  ///< where in the target, per dimension; empty: the whole of it
  ir::scalar fill{};
  int indexed = -1;           ///< the operand of `target` whose elements say where `value` is added; -1: none
  bool in_own_order = false;  ///< stored in the row-major order of `extents`, not of the target's
};

/// Which nodes are in memory when a kernel runs, and how they are laid out.
struct memory_map {
  series<char> stored;             ///< per node
  series<series<dim>> strides;     ///< per node; empty: row-major
  series<std::int64_t> alignment;  ///< per node, in bytes; 0 or beyond the end: 64, as for what kernels write
  series<char> by_value;           ///< per node; beyond the end: not
  series<std::int64_t> hints;      ///< example values of the size symbols, for cost decisions
};

/// Why roots cannot share a kernel.
struct refusal {
  std::string why;
  node_id needs_memory = ir::no_node;  ///< a node that would have to be stored first
};

}  // namespace sinter::engine::plan
