// ir/ops/broadcast.hpp: broadcast (x): attr.dims are the result's extents; the operand has the same rank, extents equal to these or 1.
#pragma once

#include "derivatives.hpp"
#include "elements.hpp"

namespace sinter::ir::ops {

struct broadcast_op : linear, to_extents, without_attributes, without_rounding {
  static void infer(inference& f) {
    f.expect(1, 0, f.n.attr.dims.size());
    f.n.extents = f.n.attr.dims;
    const auto& from = f.extents();
    bool valid = from.size() == f.n.extents.size();
    for (std::size_t i = 0; valid && i < from.size(); ++i) valid = from[i].is(1) || from[i] == f.n.extents[i];
    if (!valid) f.refuse({from, " does not broadcast to ", f.n.extents, "; each extent must be equal or 1"});
  }
  static void reference(const evaluation& e, literal_array& out) {
    const literal_array& x = *e.in[0];
    extents_t strides = detail::row_major_strides(x.extents);
    for (std::size_t i = 0; i < strides.size(); ++i)
      if (x.extents[i] != out.extents[i]) strides[i] = 0;
    copy_view(x, strides, 0, out);
  }
  static value vjp(const site& s, std::size_t, const value& ct) {
    const shape from = s.in(0).extents();
    return reshape(reduce(ct, op::add, repeated(from, s.n().extents)), from);
  }
};

}  // namespace sinter::ir::ops
