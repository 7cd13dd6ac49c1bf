// ir/ops/gather.hpp: gather (x, index): ints = {axis}: the result has index's extents, which equal x's off the axis; element c reads x
// at c with c[axis] = index[c]. index is i32 or i64. Indices are clamped to [0, extent). An extent known to be 0 is refused unless
// the result is empty; 0 or false is read where one turns out to be.
#pragma once

#include "derivatives.hpp"
#include "elements.hpp"

namespace sinter::ir::ops {

struct gather_op : with_axis, without_rounding {
  static void infer(inference& f) {
    f.expect(2, 1, 0);
    const std::size_t axis = f.indexed_axis();
    f.n.extents = f.extents(1);
    if (f.extents()[axis].is(0) && !product(f.n.extents).is(0))
      f.refuse({"reads axis ", axis, " of ", f.extents(), ", which is empty; test the extent before"});
  }
  static void reference(const evaluation& e, literal_array& out) {
    detail::with_elements(out, [&](auto* to) {
      const auto* from = detail::column<std::remove_pointer_t<decltype(to)>>(*e.in[0]);
      walk_index(e.axis(), *e.in[0], *e.in[1],
                 [&](auto i, auto base, std::int64_t at, std::int64_t extent, std::int64_t stride) {
                   if (extent > 0) to[i] = from[base + std::clamp<std::int64_t>(at, 0, extent - 1) * stride];
                 });
    });
  }
  static value jvp(const site& s, const tangents& t) { return gather(t[0], s.in(1), s.axis()); }
  /// The clamped indices are the ones that were read.
  static value vjp(const site& s, std::size_t, const value& ct) {
    const value x = s.in(0), index = s.in(1);
    const dim extent = x.extents()[static_cast<std::size_t>(s.axis())];
    if (extent.is(0)) return zeros(ct, x.extents());
    const value read = minimum(maximum(index, 0.0), last_index(index, extent));
    return scatter_add(zeros(ct, x.extents()), read, ct, s.axis());
  }
};

}  // namespace sinter::ir::ops
