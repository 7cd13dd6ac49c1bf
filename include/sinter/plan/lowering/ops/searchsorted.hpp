// plan/lowering/ops/searchsorted.hpp: an instruction that bisects rows in memory; the kernel iterates over the searched values.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct searchsorted_op : in_memory {
  static int root_value(lowering& l, node_id id, const coordinates& at, coordinates&) {
    const ir::node& v = l.graph()[id];
    const auto axis = static_cast<std::size_t>(v.attr.ints[0]);
    const dim length = l.graph()[v.in[0]].extents[axis];
    series<dim> extended = l.axes();
    extended.push_back(length);
    coordinates row = at;
    for (auto& c : row) c.stride.resize(extended.size());
    row[axis] = axis_coordinate(l.n(), extended.size());
    instruction i;
    i.kind = kind::search;
    i.type = v.type;
    i.where = v.where;
    i.origin = id;
    i.reverse = v.attr.ints[1] != 0;
    i.at = l.address(v.in[0], std::move(row), extended);
    const dim step = i.at.at.stride.back();
    i.at.at.stride.pop_back();
    i.args = {l.value_at(v.in[1], at)};
    affine apart = constant_coordinate(0, l.n());
    apart.offset = step;
    i.ranges = {{std::move(apart), length}};
    i.axes = (1u << l.n()) - 1;
    return add(l.code(), std::move(i));
  }
};

}  // namespace sinter::engine::plan::ops
