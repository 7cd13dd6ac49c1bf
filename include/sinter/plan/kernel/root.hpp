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
  bool scatter = false;  ///< adds `value` at the indices of `target`, a scatter_add
};

/// Which nodes are in memory when a kernel runs, and how inputs are laid out.
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

/// True for the ops whose results are always stored.
constexpr bool always_stored(ir::op code) {
  switch (code) {
    case ir::op::reduce:
    case ir::op::arg_reduce:
    case ir::op::dot:
    case ir::op::scatter_add:
    case ir::op::concat:
    case ir::op::pad:
    case ir::op::scan:
      return true;
    default:
      return false;
  }
}

namespace detail {

/// The operand in the middle, and two slabs a dimension that cover the rest without overlap.
SINTER_API void append_pad(const ir::graph& g, node_id id, series<root>& out) {
  const ir::node& v = g[id];
  const ir::shape& in = g[v.in[0]].extents;
  const std::size_t rank = in.size();
  root middle;
  middle.value = v.in[0];
  middle.target = id;
  middle.extents = in;
  middle.start.assign(v.attr.dims.begin(), v.attr.dims.begin() + static_cast<std::ptrdiff_t>(rank));
  for (std::size_t d = 0; d < rank; ++d)
    for (const bool high : {false, true}) {
      const dim& width = v.attr.dims[(high ? rank : 0) + d];
      if (width.is(0)) continue;
      root slab;
      slab.target = id;
      slab.fill = v.attr.literal;
      slab.extents = v.extents;
      slab.start.assign(rank, 0);
      for (std::size_t e = 0; e < d; ++e) {
        slab.extents[e] = in[e];
        slab.start[e] = v.attr.dims[e];
      }
      slab.extents[d] = width;
      if (high) slab.start[d] = v.extents[d] - width;
      out.push_back(std::move(slab));
    }
  out.push_back(std::move(middle));
}

}  // namespace detail

/// Appends what has to be computed so that node `id` is in memory.
SINTER_API void append_roots(const ir::graph& g, node_id id, series<root>& out) {
  const ir::node& v = g[id];
  auto whole = [&](node_id value) {
    root r;
    r.value = value;
    r.target = id;
    r.extents = g[value].extents;
    return r;
  };
  switch (v.code) {
    case ir::op::reduce:
    case ir::op::arg_reduce: {
      root r = whole(id);
      r.extents = g[v.in[0]].extents;
      return out.push_back(std::move(r));
    }
    case ir::op::scatter_add: {
      out.push_back(whole(v.in[0]));
      root r = whole(v.in[2]);
      r.scatter = true;
      return out.push_back(std::move(r));
    }
    case ir::op::concat: {
      const auto axis = static_cast<std::size_t>(v.attr.ints[0]);
      series<dim> start(v.extents.size());
      for (auto in : v.in) {
        root r = whole(in);
        r.start = start;
        start[axis] += g[in].extents[axis];
        out.push_back(std::move(r));
      }
      return;
    }
    case ir::op::reshape:
      return out.push_back(whole(v.in[0]));
    case ir::op::pad:
      return detail::append_pad(g, id, out);
    default:
      return out.push_back(whole(id));
  }
}

}  // namespace sinter::engine::plan
