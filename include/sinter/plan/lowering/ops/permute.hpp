// plan/lowering/ops/permute.hpp: coordinates in another order.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct permute_op : view<permute_op> {
  static coordinates through(lowering& l, node_id id, const coordinates& at, const series<dim>&) {
    const auto& perm = l.graph()[id].attr.ints;
    coordinates below(at.size());
    for (std::size_t d = 0; d < at.size(); ++d) below[static_cast<std::size_t>(perm[d])] = at[d];
    return below;
  }
};

}  // namespace sinter::engine::plan::ops
