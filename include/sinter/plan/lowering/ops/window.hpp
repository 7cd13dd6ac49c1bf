// plan/lowering/ops/window.hpp: coordinates as sums of several positions.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct window_op : view<window_op> {
  static coordinates through(lowering& l, node_id id, const coordinates& at, const series<dim>& axes) {
    const ir::attributes& attr = l.graph()[id].attr;
    coordinates below;
    for (std::size_t d = 0; d + at.size() < attr.dims.size(); ++d) {
      coordinates of;
      series<dim> factors;
      for (std::size_t j = 0; j < at.size(); ++j)
        if (const auto factor = attr.ints[d * at.size() + j]; factor != 0) {
          of.push_back(at[j]);
          factors.push_back(dim(factor));
        }
      below.push_back(l.sum_of(of, factors, axes.size()) + constant_coordinate(attr.dims[at.size() + d], axes.size()));
    }
    return below;
  }
};

}  // namespace sinter::engine::plan::ops
