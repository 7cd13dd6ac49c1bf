// ir/ops/gather.hpp: gather (x, index): ints = {axis}. The result has index's extents, which equal x's off the axis; element
// c reads x at c with c[axis] = index[c]. index is i32 or i64. Indices are clamped to [0, extent). An extent known to be 0 is
// refused unless the result is empty; an extent that turns out to be 0 gives 0 or false.
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
  /// If only the index varies, its lanes are more places along the axis, and x is not repeated.
  static value batch(const lane_site& s) {
    const std::int64_t axis = s.n.attr.ints[0];
    if (s.varies(0)) return gather(s.in(0), s.over(1), axis + 1);
    const value found = gather(s.in(0), places(s.in(1), axis), axis);
    shape extents = s.in(1).extents();
    const dim lanes = extents[0];
    extents.erase(extents.begin());
    extents.insert(extents.begin() + axis, lanes);
    return lanes_moved_from(reshape(found, std::move(extents)), axis);
  }
  /// An index whose lanes and axis are one axis; repetitions along other axes stay.
  static value places(const value& index, std::int64_t axis) {
    const auto a = static_cast<std::size_t>(axis);
    const node& n = index.get();
    const auto joined = [&](const value& x) {
      const value y = lanes_moved_to(x, axis);
      shape extents = y.extents();
      extents[a] *= extents[a + 1];
      extents.erase(extents.begin() + axis + 1);
      return reshape(y, std::move(extents));
    };
    if (n.code != op::broadcast) return joined(index);
    const value narrow(index.owner(), n.in[0], index.where());
    const shape& from = narrow.extents();
    if (!(from[0] == n.extents[0]) || !(from[a + 1] == n.extents[a + 1])) return joined(index);
    shape extents = n.extents;
    extents[a + 1] *= extents[0];
    extents.erase(extents.begin());
    return broadcast(joined(narrow), std::move(extents));
  }
  static value jvp(const site& s, const tangents& t) { return gather(t[0], s.in(1), s.axis()); }
  /// The clamped indices are the ones read.
  static value vjp(const site& s, std::size_t, const value& ct) {
    const value x = s.in(0), index = s.in(1);
    const dim extent = x.extents()[static_cast<std::size_t>(s.axis())];
    if (extent.is(0)) return zeros(ct, x.extents());
    const value read = minimum(maximum(index, 0.0), last_index(index, extent));
    return scatter_add(zeros(ct, x.extents()), read, ct, s.axis());
  }
};

}  // namespace sinter::ir::ops
