// plan/kernel/root.hpp: the values that a kernel shall store, the memory that it may read, and the reasons for refusing it.
#pragma once

#include <string>

#include "../../base/series.hpp"
#include "../../ir/graph.hpp"

namespace sinter::engine::plan {

using ir::dim;
using ir::node_id;

/// A value that a kernel stores, iterated over `extents`, into the buffer of `target`.
struct root {
  node_id value = ir::no_node;  ///< the value to compute; no_node: `fill`
  node_id target = ir::no_node;
  ir::shape extents;  ///< of the iteration: for a reduction the operand's, else the value's
  series<dim> start;  ///< the start in the target, per dimension; empty: the whole target
  ir::scalar fill{};
  int indexed = -1;  ///< the operand of `target` whose elements are the indices at which `value` is added; -1: none
  bool in_own_order = false;  ///< stored in the row-major order of `extents`, not of the target's
};

/// The nodes in memory when a kernel runs, and their layouts.
struct memory_map {
  series<char> stored;             ///< per node
  series<series<dim>> strides;     ///< per node; empty: row-major
  series<std::int64_t> alignment;  ///< per node, in bytes; 0 or beyond the end: 64, as for memory that kernels write
  series<char> by_value;           ///< per node; beyond the end: false
  series<char> read_through;       ///< per node, a pad with zeros that products read through; beyond the end: false
  series<std::int64_t> hints;      ///< example values of the size symbols, for cost decisions
};

/// The reason why roots cannot share a kernel.
struct refusal {
  std::string why;
  node_id needs_memory = ir::no_node;  ///< a node that would have to be stored first
};

}  // namespace sinter::engine::plan
