// plan/lowering/ops/scan.hpp: an instruction that combines preceding elements along an axis.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct scan_op : in_memory {
  static int root_value(lowering& l, node_id id, const coordinates& at, coordinates&) {
    const ir::node& v = l.graph()[id];
    series<int> args;
    for (auto x : v.in) args.push_back(l.value_at(x, at));
    return scan(l.code(), l.graph(), id, std::move(args), at[static_cast<std::size_t>(v.attr.ints[0])]);
  }
};

}  // namespace sinter::engine::plan::ops
