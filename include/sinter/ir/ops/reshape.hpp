// ir/ops/reshape.hpp: reshape (x), the same elements in row-major order: attr.dims are the result's extents.
#pragma once

#include "elements.hpp"

namespace sinter::ir::ops {

struct reshape_op : linear, to_extents, without_attributes, without_rounding {
  static void infer(inference& f) {
    f.expect(1, 0, f.n.attr.dims.size());
    f.n.extents = f.n.attr.dims;
    f.check_result();
    const dim from = product(f.extents()), to = product(f.n.extents);
    if (!f.may_agree(from, to))
      f.refuse({f.extents(), " has ", from, " elements, ", f.n.extents, " has ", to, "; the counts must be equal"});
  }
  static void reference(const evaluation& e, literal_array& out) {
    out.f = e.in[0]->f;
    out.i = e.in[0]->i;
  }
  static value vjp(const site& s, std::size_t, const value& ct) { return reshape(ct, s.in(0).extents()); }
};

}  // namespace sinter::ir::ops
