// ir/ops/scatter_add.hpp: scatter_add (base, index, updates): ints = {axis}: base plus, for each c of updates, updates[c] at
// c with c[axis] = index[c]. index (i32 or i64) and updates have equal extents, which equal base's off the axis. Indices out
// of range are dropped.
#pragma once

#include "derivatives.hpp"
#include "elements.hpp"

namespace sinter::ir::ops {

struct scatter_add_op : along_axis, with_axis {
  static void infer(inference& f) {
    f.expect(3, 1, 0);
    f.numbers(f.n.type);
    f.scattered();
  }
  static void reference(const evaluation& e, literal_array& out) {
    out.f = e.in[0]->f;
    out.i = e.in[0]->i;
    detail::with_elements(out, [&](auto* to) {
      using T = std::remove_pointer_t<decltype(to)>;
      const auto* from = detail::column<T>(*e.in[2]);
      walk_index(e.axis(), *e.in[0], *e.in[1],
                 [&](auto i, auto at0, std::int64_t at, std::int64_t extent, std::int64_t stride) {
                   if (at < 0 || at >= extent) return;
                   T& slot = to[at0 + at * stride];
                   slot = vocabulary::apply_row<op::add, T>(slot, from[i]);
                 });
    });
  }
  static value jvp(const site& s, const tangents& t) {
    return scatter_add(t[0] ? t[0] : s.in(0).like(0.0), s.in(1), t[2] ? t[2] : s.in(2).like(0.0), s.axis());
  }
  static value vjp(const site& s, std::size_t k, const value& ct) {
    if (k == 0) return ct;
    const value index = s.in(1);
    const dim extent = ct.extents()[static_cast<std::size_t>(s.axis())];
    if (extent.is(0)) return zeros(ct, index.extents());
    return select(is_within(index, extent), gather(ct, index, s.axis()), 0.0);
  }
  static roundings rounding(const evaluation&, const literal_array& out) {
    return {static_cast<double>(out.f.size()), false, true};
  }
};

}  // namespace sinter::ir::ops
