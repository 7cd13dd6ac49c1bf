// plan/lowering/ops/pad.hpp: a read within a range, else the literal; in memory, stores into regions of one buffer.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct pad_op : inlined<pad_op> {
  /// The whole result if the operand is an argument. Otherwise the operand's kernel stores the middle, and two slabs for each
  /// dimension cover the rest without overlap.
  static void roots(const ir::graph& g, node_id id, series<root>& out) {
    const ir::node& v = g[id];
    node_id behind = v.in[0];
    while (ir::is_view(g[behind].code)) behind = g[behind].in[0];
    if (g[behind].code == ir::op::input) return out.push_back(whole(g, id, id));
    const ir::shape& in = g[v.in[0]].extents;
    const std::size_t rank = in.size();
    root middle;
    middle.value = v.in[0];
    middle.target = id;
    middle.extents = in;
    middle.start.assign(v.attr.dims.begin(), v.attr.dims.begin() + static_cast<std::ptrdiff_t>(rank));
    for (std::size_t d = 0; d < rank; ++d)
      for (const bool high : {false, true}) {
        const dim& width = v.attr.dims[(high ? rank : 0) + d];
        if (width.is(0)) continue;
        root slab;
        slab.target = id;
        slab.fill = v.attr.literal;
        slab.extents = v.extents;
        slab.start.assign(rank, 0);
        for (std::size_t e = 0; e < d; ++e) {
          slab.extents[e] = in[e];
          slab.start[e] = v.attr.dims[e];
        }
        slab.extents[d] = width;
        if (high) slab.start[d] = v.extents[d] - width;
        out.push_back(std::move(slab));
      }
    out.push_back(std::move(middle));
  }
  static series<coordinates> parts(const ir::graph& g, node_id id, const coordinates& at, std::size_t axes) {
    coordinates below = at;
    for (std::size_t d = 0; d < at.size(); ++d)
      below[d] = below[d] + constant_coordinate(dim(0) - g[id].attr.dims[d], axes);
    return {below};
  }
  static int value(lowering& l, node_id id, const coordinates& at) {
    const ir::node& v = l.graph()[id];
    const coordinates below = parts(l.graph(), id, at, l.n())[0];
    series<range> ranges;
    for (std::size_t d = 0; d < at.size(); ++d)
      if (!v.attr.dims[d].is(0) || !v.attr.dims[at.size() + d].is(0))
        ranges.push_back({below[d], l.graph()[v.in[0]].extents[d]});
    const bool zero = std::bit_cast<std::uint64_t>(v.attr.literal.f) == 0 && v.attr.literal.i == 0;  // not -0
    return l.where(
        id, std::move(ranges), zero, [&] { return l.value_at(v.in[0], below); },
        [&] { return shared_literal(l.code(), v.type, v.attr.literal); });
  }
};

}  // namespace sinter::engine::plan::ops
