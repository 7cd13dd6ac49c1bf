// plan/lowering/ops/reshape.hpp: the row-major offset as coordinates of the operand.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct reshape_op : view<reshape_op> {
  /// Computed in the operand's order, which is the result's order.
  static void roots(const ir::graph& g, node_id id, series<root>& out) {
    root r = whole(g, g[id].in[0], id);
    r.in_own_order = true;
    out.push_back(std::move(r));
  }
  static coordinates through(lowering& l, node_id id, const coordinates& at, const series<dim>& axes) {
    const auto strides = row_major_strides(l.graph()[id].extents);
    return l.reshaped(id, l.sum_of(at, strides, axes.size()), axes);
  }
  static int value(lowering& l, node_id id, const coordinates& at) {
    const ir::node& v = l.graph()[id];
    if (l.reads_offset(v)) return l.load_from(v.in[0], l.element(at, row_major_strides(v.extents)));
    return view::value(l, id, at);
  }
};

}  // namespace sinter::engine::plan::ops
