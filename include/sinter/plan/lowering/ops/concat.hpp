// plan/lowering/ops/concat.hpp: a read of the operand whose range a position is in; in memory, stores into regions of one buffer.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct concat_op : inlined<concat_op> {
  static void roots(const ir::graph& g, node_id id, series<root>& out) {
    const ir::node& v = g[id];
    const auto axis = static_cast<std::size_t>(v.attr.ints[0]);
    series<dim> start(v.extents.size());
    for (auto in : v.in) {
      root r = whole(g, in, id);
      r.start = start;
      start[axis] += g[in].extents[axis];
      out.push_back(std::move(r));
    }
  }
  static coordinates part(const ir::graph& g, node_id id, std::size_t k, const coordinates& at, std::size_t axes) {
    const auto axis = static_cast<std::size_t>(g[id].attr.ints[0]);
    dim start = 0;
    for (std::size_t j = 0; j < k; ++j) start += g[g[id].in[j]].extents[axis];
    coordinates below = at;
    below[axis] = below[axis] + constant_coordinate(dim(0) - start, axes);
    return below;
  }
  static int value(lowering& l, node_id id, const coordinates& at) { return from(l, id, 0, at); }

 private:
  /// The operand that has the position, of those from k on.
  static int from(lowering& l, node_id id, std::size_t k, const coordinates& at) {
    const ir::node& v = l.graph()[id];
    const auto axis = static_cast<std::size_t>(v.attr.ints[0]);
    coordinates below = part(l.graph(), id, k, at, l.n());
    const range mine{below[axis], l.graph()[v.in[k]].extents[axis]};
    return l.where(
        id, {mine}, k + 1 == v.in.size(), [&] { return l.value_at(v.in[k], std::move(below)); },
        [&] { return k + 1 < v.in.size() ? from(l, id, k + 1, at) : shared_literal(l.code(), v.type, {}); });
  }
};

}  // namespace sinter::engine::plan::ops
