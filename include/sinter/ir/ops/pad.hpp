// ir/ops/pad.hpp: pad (x): attr.dims = low then high (2·rank, ≥ 0), attr.literal: x surrounded by the literal.
#pragma once

#include "constant.hpp"
#include "derivatives.hpp"

namespace sinter::ir::ops {

struct pad_op : linear, without_rounding {
  static void infer(inference& f) {
    const std::size_t rank = f.rank();
    f.expect(1, 0, 2 * rank);
    for (std::size_t i = 0; i < rank; ++i) {
      const dim &low = f.n.attr.dims[i], &high = f.n.attr.dims[rank + i];
      if (low.upper_bound() < 0 || high.upper_bound() < 0)
        f.refuse({"widths of axis ", i, " are ", low, " and ", high,
                  "; they must not be negative (slice removes elements)"});
      f.n.extents.push_back(low + f.extents()[i] + high);
    }
  }
  static std::string text(const node& n) {
    const auto rank = n.attr.dims.size() / 2;
    return " low=" + text_of(std::span(n.attr.dims).subspan(0, rank)) +
           " high=" + text_of(std::span(n.attr.dims).subspan(rank, rank)) +
           " value=" + literal_text(n.type, n.attr.literal);
  }
  static void read(words& w, node& n) {
    n.attr.dims = w.sizes("low");
    const shape high = w.sizes("high");
    n.attr.dims.insert(n.attr.dims.end(), high.begin(), high.end());
    n.attr.literal = w.literal(n.type, "value");
  }
  static void reference(const evaluation& e, literal_array& out) {
    fill(out, e.n.attr.literal);
    const extents_t to = detail::row_major_strides(out.extents);
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < to.size(); ++i) offset += to[i] * e.bound(i);
    copy_box(e.in[0]->extents, *e.in[0], detail::row_major_strides(e.in[0]->extents), 0, out, to, offset);
  }
  static value batch(const lane_site& s) {
    attributes attr = s.n.attr;
    attr.dims.insert(attr.dims.begin() + s.rank(0), dim(0));
    attr.dims.insert(attr.dims.begin(), dim(0));
    return s.push(std::move(attr));
  }
  static value vjp(const site& s, std::size_t, const value& ct) {
    const auto rank = s.n().extents.size();
    return slice(ct, s.in(0).extents(), part(s.n().attr.dims, 0, rank), axes_t(rank, 1));
  }
};

}  // namespace sinter::ir::ops
