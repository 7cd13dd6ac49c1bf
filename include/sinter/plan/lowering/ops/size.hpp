// plan/lowering/ops/size.hpp: a size, as a position that is constant along all axes.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct size_op : inlined<size_op> {
  static int value(lowering& l, node_id id, const coordinates&) {
    return position(l.code(), constant_coordinate(l.graph()[id].attr.dims[0], l.n()));
  }
};

}  // namespace sinter::engine::plan::ops
