// loops/reduce_rules.hpp: the axes of a reduction in loop order; compiled once.
#pragma once

#include <algorithm>

#include "reduce.hpp"

namespace sinter::detail {

SINTER_API reduction_space::reduction_space(leaf* bound, int leaf_count, const std::int64_t* extents, int rank,
                                            const int* axes, int axis_count)
    : leaves(bound), count(leaf_count) {
  const auto is_reduced = [&](int axis) { return std::find(axes, axes + axis_count, axis) != axes + axis_count; };
  leaf_list from(leaves, count);
  int to = 0;
  for (const bool pass : {false, true}) {
    if (pass) first = to;
    for (int i = 0; i < rank; ++i) {
      if (is_reduced(i) != pass) continue;
      (pass ? reduced : results) *= extents[i];
      for (int k = 0; k < count; ++k) leaves[k].stride[to] = from[static_cast<std::size_t>(k)].stride[i];
      extent[to++] = extents[i];
    }
  }
  int innermost = rank - 1;
  while (innermost > 0 && extents[innermost] == 1) --innermost;
  // Short rows, too, are reduced step by step across rows.
  columns = (innermost >= 0 && !is_reduced(innermost)) || reduced <= short_row;
  kept = collapse(extent, 0, first, leaves, count);
  last = first + collapse(extent, first, to, leaves, count);
}

}  // namespace sinter::detail
