// plan/lowering/ops/concat.hpp: stores of the operands into regions of one buffer.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct concat_op : in_memory {
  static void roots(const ir::graph& g, node_id id, series<root>& out) {
    const ir::node& v = g[id];
    const auto axis = static_cast<std::size_t>(v.attr.ints[0]);
    series<dim> start(v.extents.size());
    for (auto in : v.in) {
      root r = whole(g, in, id);
      r.start = start;
      start[axis] += g[in].extents[axis];
      out.push_back(std::move(r));
    }
  }
};

}  // namespace sinter::engine::plan::ops
