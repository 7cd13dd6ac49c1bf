// plan/lowering/ops/constant.hpp: a literal in the reading kernel.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct constant_op : inlined<constant_op> {
  static int value(lowering& l, node_id id, const coordinates&) {
    const ir::node& v = l.graph()[id];
    return shared_literal(l.code(), v.type, v.attr.literal);
  }
};

}  // namespace sinter::engine::plan::ops
