// plan/lowering/ops/reduce.hpp: a reduction over the axes that its operand's coordinates vary along.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

/// reduce, arg_reduce and sum_squares: iterate over the operand.
struct reduction : in_memory {
  static void roots(const ir::graph& g, node_id id, series<root>& out) {
    root r = whole(g, id, id);
    r.extents = g[g[id].in[0]].extents;
    out.push_back(std::move(r));
  }
  static int root_value(lowering& l, node_id id, const coordinates& at, coordinates& to) {
    const ir::node& v = l.graph()[id];
    instruction i;
    i.kind = v.code == ir::op::arg_reduce ? kind::arg_reduce : kind::reduce;
    i.squares = v.code == ir::op::sum_squares;
    i.code = i.squares ? ir::op::add : v.attr.combiner;
    i.type = v.type;
    i.where = v.where;
    i.origin = id;
    i.args = {l.value_at(v.in[0], at)};
    sorted_set<std::size_t> over;
    to.clear();
    for (std::size_t d = 0; d < at.size(); ++d) {
      const bool reduced = std::count(v.attr.ints.begin(), v.attr.ints.end(), static_cast<std::int64_t>(d)) > 0;
      if (!reduced) to.push_back(at[d]);
      for (std::size_t a = 0; reduced && a < l.n(); ++a)
        if (!at[d].stride[a].is(0)) over.insert(a);
    }
    i.over.assign(over.begin(), over.end());
    if (over.empty()) {
      if (i.squares) {
        const int wide = converted(l.code(), i.args[0], i.type);
        return combined(l.code(), ir::op::mul, wide, wide);
      }
      if (i.kind == kind::reduce) return i.args[0];
      return literal(l.code(), v.type, {});
    }
    i.axes = l.code().body[static_cast<std::size_t>(i.args[0])].axes;
    for (auto a : over) i.axes &= ~(1u << a);
    if (i.kind == kind::arg_reduce) {
      // The position along the reduced dimension; a collapsed or split axis does not give it.
      i.at.at = at[static_cast<std::size_t>(v.attr.ints[0])];
    }
    series<std::size_t> kept;
    for (std::size_t a = 0; a < l.n(); ++a) {
      bool walked = false;
      for (const auto& c : at) walked = walked || !c.stride[a].is(0);
      if (walked && !over.count(a)) kept.push_back(a);
    }
    l.keep(std::move(kept));
    return add(l.code(), std::move(i));
  }
};

struct reduce_op : reduction {};

}  // namespace sinter::engine::plan::ops
