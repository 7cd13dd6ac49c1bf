// plan/lowering/ops/pad.hpp: stores into regions of one buffer.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct pad_op : in_memory {
  /// The operand in the middle, and two slabs a dimension that cover the rest without overlap.
  static void roots(const ir::graph& g, node_id id, series<root>& out) {
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
};

}  // namespace sinter::engine::plan::ops
