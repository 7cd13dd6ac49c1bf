// plan/lowering/ops/pointwise.hpp: the rows of ops.def: one instruction of their operands at the same coordinates.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct pointwise_op : inlined<pointwise_op> {
  static int value(lowering& l, node_id id, const coordinates& at) {
    const ir::node& v = l.graph()[id];
    instruction i;
    i.kind = kind::compute;
    i.code = v.code;
    i.type = v.type;
    i.where = v.where;
    i.node = i.origin = id;
    for (auto in : v.in) {
      i.args.push_back(l.value_at(in, at));
      i.axes |= l.code().body[static_cast<std::size_t>(i.args.back())].axes;
    }
    return add(l.code(), std::move(i));
  }
};

}  // namespace sinter::engine::plan::ops
