// plan/lowering/ops/broadcast.hpp: constant coordinates along axes where the operand has one element.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct broadcast_op : view<broadcast_op> {
  static coordinates through(lowering& l, node_id id, const coordinates& at, const series<dim>& axes) {
    const ir::shape& in = l.graph()[l.graph()[id].in[0]].extents;
    coordinates below = at;
    for (std::size_t d = 0; d < at.size(); ++d)
      if (in[d].is(1)) below[d] = constant_coordinate(0, axes.size());
    return below;
  }
};

}  // namespace sinter::engine::plan::ops
