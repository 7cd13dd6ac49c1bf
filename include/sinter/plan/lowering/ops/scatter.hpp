// plan/lowering/ops/scatter.hpp: a copy of the base, then stores at indices, each combined with the stored value.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

/// Also the base of scatter_add.
struct scatter_op : in_memory {
  static void roots(const ir::graph& g, node_id id, series<root>& out) {
    const ir::node& v = g[id];
    out.push_back(whole(g, v.in[0], id));
    root r = whole(g, v.in[2], id);
    r.indexed = 1;
    out.push_back(std::move(r));
  }
};

}  // namespace sinter::engine::plan::ops
