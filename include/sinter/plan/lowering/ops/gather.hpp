// plan/lowering/ops/gather.hpp: a read at an index given by another value.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct gather_op : inlined<gather_op> {
  static int value(lowering& l, node_id id, const coordinates& at) {
    const ir::graph& g = l.graph();
    const ir::node& v = g[id];
    for (const auto& c : at)
      if (c.index >= 0) throw refusal{"an index is read at an index", id};
    ensure(!ir::may_read_nothing(g, v), "what gather reads has an element");
    const auto axis = static_cast<std::size_t>(v.attr.ints[0]);
    coordinates below = at;
    const int index = clamped(l.code(), l.value_at(v.in[1], at), g[v.in[0]].extents[axis], l.n());
    l.code().body[static_cast<std::size_t>(index)].where = v.where;
    l.code().body[static_cast<std::size_t>(index)].origin = id;
    below[axis] = indirect(l.code(), index, l.n());
    return l.value_at(v.in[0], std::move(below));
  }
};

}  // namespace sinter::engine::plan::ops
