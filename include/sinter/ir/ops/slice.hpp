// ir/ops/slice.hpp: slice (x): attr.dims = extents then starts (2·rank), ints = steps, not 0: result index i reads start + i·step.
#pragma once

#include "derivatives.hpp"
#include "elements.hpp"

namespace sinter::ir::ops {

struct slice_op : linear, without_rounding {
  /// Refuses start + i·step outside [0, extent) for an i of [0, count). Undecidable relations of open sizes pass: the code
  /// that pushes the node has compared the sizes.
  static void check_range(const inference& f, std::size_t axis, const dim& extent, const dim& count, const dim& start,
                          std::int64_t step) {
    if (count.is(0)) return;
    std::int64_t reach = 0, end = 0;
    const bool overflows =
        count.is_number() && (__builtin_mul_overflow(*count.number() - 1, step, &reach) ||
                              (start.is_number() && __builtin_add_overflow(*start.number(), reach, &end)));
    const dim last = overflows ? dim(-1) : start + (count - 1) * dim(step);
    const dim& low = step > 0 ? start : last;
    const dim& high = step > 0 ? last : start;
    if (overflows || low.upper_bound() < 0 || (extent - 1 - high).upper_bound() < 0)
      f.refuse({"axis ", axis, " of ", f.extents(), ": ", count, " elements from ", start, " by ", step,
                " do not stay within [0, ", extent, ")"});
  }
  static void infer(inference& f) {
    const std::size_t rank = f.rank();
    f.expect(1, rank, 2 * rank);
    for (std::size_t i = 0; i < rank; ++i) {
      const auto step = f.n.attr.ints[i];
      if (step == 0) f.refuse({"the step of axis ", i, " is 0; use a positive or a negative step"});
      const dim &count = f.n.attr.dims[i], &start = f.n.attr.dims[rank + i];
      check_range(f, i, f.extents()[i], count, start, step);
      f.n.extents.push_back(count);
    }
  }
  static std::string text(const node& n) {
    const auto rank = n.attr.ints.size();
    return " start=" + text_of(std::span(n.attr.dims).subspan(rank, rank)) + " step=" + piece(n.attr.ints).text();
  }
  static void read(words& w, node& n) {
    n.attr.dims = n.extents;
    const shape start = w.sizes("start");
    n.attr.dims.insert(n.attr.dims.end(), start.begin(), start.end());
    n.attr.ints = w.integers("step");
  }
  static void reference(const evaluation& e, literal_array& out) {
    extents_t strides = detail::row_major_strides(e.in[0]->extents);
    std::int64_t offset = 0;
    for (std::size_t i = 0, rank = strides.size(); i < rank; ++i) {
      offset += strides[i] * e.bound(rank + i);
      strides[i] *= e.n.attr.ints[i];
    }
    copy_view(*e.in[0], strides, offset, out);
  }
  static value batch(const lane_site& s) {
    attributes attr = s.n.attr;
    attr.dims.insert(attr.dims.begin() + s.rank(0), dim(0));
    attr.dims.insert(attr.dims.begin(), s.lanes);
    attr.ints.insert(attr.ints.begin(), 1);
    return s.push(std::move(attr));
  }
  static value vjp(const site& s, std::size_t, const value& ct) {
    const auto rank = s.n().extents.size();
    return unslice(ct, s.in(0).extents(), part(s.n().attr.dims, rank, 2 * rank), s.n().attr.ints);
  }
};

}  // namespace sinter::ir::ops
