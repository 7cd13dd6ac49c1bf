// ir/ops/iota.hpp: iota, the index along an axis: attr.type, attr.dims, ints = {axis}.
#pragma once

#include "elements.hpp"

namespace sinter::ir::ops {

struct iota_op : with_axis, without_derivative, without_lanes, without_rounding {
  static void read(words& w, node& n) {
    with_axis::read(w, n);
    n.attr.type = n.type;
    n.attr.dims = n.extents;
  }
  static void infer(inference& f) {
    f.expect(0, 1, f.n.attr.dims.size());
    f.n.type = f.n.attr.type;
    f.n.extents = f.n.attr.dims;
    f.axis(f.n.extents.size());
    f.numbers(f.n.type);
  }
  static void reference(const evaluation& e, literal_array& out) {
    const split at(out.extents, e.axis());
    detail::with_elements(out, [&](auto* to) {
      using T = std::remove_pointer_t<decltype(to)>;
      for (std::int64_t o = 0; o < at.outer * at.length; ++o)
        std::fill_n(to + o * at.inner, at.inner, static_cast<T>(o % at.length));
    });
  }
};

}  // namespace sinter::ir::ops
