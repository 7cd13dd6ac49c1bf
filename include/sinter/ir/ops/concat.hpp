// ir/ops/concat.hpp: concat (x…): ints = {axis}.
#pragma once

#include "derivatives.hpp"
#include "elements.hpp"

namespace sinter::ir::ops {

struct concat_op : linear, along_axis, with_axis, without_rounding {
  static void infer(inference& f) {
    if (f.n.in.empty()) f.refuse({"nothing to join; pass at least one tensor"});
    f.expect(f.n.in.size(), 1, 0);
    const std::size_t axis = f.axis(f.rank());
    f.n.extents = f.extents();
    for (std::size_t k = 1; k < f.n.in.size(); ++k) {
      if (f.operand(k).type != f.n.type)
        f.refuse({"dtypes differ: ", f.n.type, " and ", f.operand(k).type, "; cast one with cast<T>(x)"});
      if (!f.agree_off_axis(0, k, axis))
        f.refuse({f.extents(), " and ", f.extents(k), " differ off axis ", axis,
                  "; only the extents of the joined axis may differ"});
      f.n.extents[axis] += f.extents(k)[axis];
    }
  }
  static void reference(const evaluation& e, literal_array& out) {
    const extents_t to = detail::row_major_strides(out.extents);
    std::int64_t offset = 0;
    for (const auto* x : e.in) {
      copy_box(x->extents, *x, detail::row_major_strides(x->extents), 0, out, to, offset);
      offset += to[e.axis()] * x->extents[e.axis()];
    }
  }
  static series<value> vjps(const site& s, const series<char>& asked, const value& ct) {
    const auto axis = static_cast<std::size_t>(s.axis());
    series<value> out(asked.size());
    shape start(s.n().extents.size(), 0);
    for (std::size_t k = 0; k < asked.size(); ++k) {
      const shape extents = s.in(k).extents();
      if (asked[k]) out[k] = slice(ct, extents, start, axes_t(extents.size(), 1));
      start[axis] += extents[axis];
    }
    return out;
  }
  static value vjp(const site& s, std::size_t k, const value& ct) {
    series<char> asked(s.n().in.size(), 0);
    asked[k] = 1;
    return vjps(s, asked, ct)[k];
  }
};

}  // namespace sinter::ir::ops
