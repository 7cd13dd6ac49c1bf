// plan/lowering/ops/argsort.hpp: an instruction that ranks elements along an axis; the kernel iterates over the operand.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct argsort_op : in_memory {
  static void roots(const ir::graph& g, node_id id, series<root>& out) {
    root r = whole(g, id, id);
    if (!ir::product(r.extents).is(0)) r.extents = g[g[id].in[0]].extents;
    out.push_back(std::move(r));
  }
  static int root_value(lowering& l, node_id id, const coordinates& at, coordinates&) {
    const ir::node& v = l.graph()[id];
    const affine& along = at[static_cast<std::size_t>(v.attr.ints[0])];
    instruction i;
    i.kind = kind::sort;
    i.type = v.type;
    i.where = v.where;
    i.origin = id;
    i.reverse = v.attr.ints[1] != 0;
    for (std::size_t a = 0; a < along.stride.size(); ++a)
      if (!along.stride[a].is(0)) i.over.push_back(static_cast<int>(a));
    if (i.over.empty()) return literal(l.code(), v.type, {});
    i.args = {l.value_at(v.in[0], at)};
    i.ranges = {{constant_coordinate(0, l.n()), v.attr.dims[0]}};
    i.axes = (1u << l.n()) - 1;
    return add(l.code(), std::move(i));
  }
};

}  // namespace sinter::engine::plan::ops
