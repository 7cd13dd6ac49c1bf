// plan/lowering/ops/concat.hpp: a read of the operand whose range contains a position; in memory, stores into regions of one
// buffer.
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
  static series<coordinates> parts(const ir::graph& g, node_id id, const coordinates& at, std::size_t axes) {
    const auto axis = static_cast<std::size_t>(g[id].attr.ints[0]);
    series<coordinates> out;
    dim start = 0;
    for (const node_id in : g[id].in) {
      out.push_back(at);
      affine& c = out.back()[axis];
      c = c + constant_coordinate(dim(0) - start, axes);
      start += g[in].extents[axis];
    }
    return out;
  }
  static int value(lowering& l, node_id id, const coordinates& at) {
    auto below = parts(l.graph(), id, at, l.n());
    return from(l, id, 0, below);
  }

 private:
  /// Reads the operand that contains the position, among those from k on.
  static int from(lowering& l, node_id id, std::size_t k, series<coordinates>& below) {
    const ir::node& v = l.graph()[id];
    const auto axis = static_cast<std::size_t>(v.attr.ints[0]);
    const range mine{below[k][axis], l.graph()[v.in[k]].extents[axis]};
    return l.where(
        id, {mine}, k + 1 == v.in.size(), [&] { return l.value_at(v.in[k], std::move(below[k])); },
        [&] { return k + 1 < v.in.size() ? from(l, id, k + 1, below) : shared_literal(l.code(), v.type, {}); });
  }
};

}  // namespace sinter::engine::plan::ops
