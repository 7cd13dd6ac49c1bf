// plan/lowering/ops/slice.hpp: coordinates from a start by steps.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct slice_op : view<slice_op> {
  static coordinates through(lowering& l, node_id id, const coordinates& at, const series<dim>& axes) {
    const ir::attributes& attr = l.graph()[id].attr;
    coordinates below;
    for (std::size_t d = 0; d < at.size(); ++d)
      below.push_back(dim(attr.ints[d]) * at[d] + constant_coordinate(attr.dims[at.size() + d], axes.size()));
    return below;
  }
};

}  // namespace sinter::engine::plan::ops
