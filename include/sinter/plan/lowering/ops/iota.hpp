// plan/lowering/ops/iota.hpp: the position along an axis.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct iota_op : inlined<iota_op> {
  static int value(lowering& l, node_id id, const coordinates& at) {
    const ir::node& v = l.graph()[id];
    const int i = position(l.code(), at[static_cast<std::size_t>(v.attr.ints[0])]);
    return v.type == dtype::i64 ? i : converted(l.code(), i, v.type);
  }
};

}  // namespace sinter::engine::plan::ops
