// ir/ops/window.hpp: window (x): attr.dims = the result's extents, then a start for each axis of x; ints = a row of factors
// for each axis of x. Result position i reads x at start + Σ factor·i: a step times a place, and a dilation times a tap.
#pragma once

#include "derivatives.hpp"
#include "elements.hpp"
#include "window_transpose.hpp"

namespace sinter::ir::ops {

struct window_op : linear, without_rounding {
  static std::size_t result_rank(const node& n, std::size_t operand_rank) { return n.attr.dims.size() - operand_rank; }

  /// Refuses reads outside of axis d. Undecidable relations of open sizes pass, as in slice.
  static void check_range(const inference& f, std::size_t d, std::size_t rank) {
    const dim& extent = f.extents()[d];
    dim low = f.n.attr.dims[rank + d], high = low;
    for (std::size_t j = 0; j < rank; ++j) {
      const std::int64_t factor = f.n.attr.ints[d * rank + j];
      constexpr std::int64_t most = std::int64_t{1} << 31;
      if (factor <= -most || factor >= most) f.refuse({"the factor ", factor, " is too large"});
      const dim reach = dim(factor) * (f.n.attr.dims[j] - 1);
      (factor > 0 ? high : low) += reach;
    }
    if (low.upper_bound() < 0 || (extent - 1 - high).upper_bound() < 0)
      f.refuse({"axis ", d, " of ", f.extents(), ": positions ", low, " to ", high, " do not stay within [0, ", extent,
                "); pad first"});
  }
  static void infer(inference& f) {
    const std::size_t r = f.rank();
    if (f.n.in.size() != 1 || f.n.attr.dims.size() < r) f.malformed();
    const std::size_t rank = result_rank(f.n, r);
    f.expect(1, r * rank, rank + r);
    bool nothing = false;
    for (std::size_t j = 0; j < rank; ++j) {
      f.n.extents.push_back(f.n.attr.dims[j]);
      nothing = nothing || f.n.attr.dims[j].is(0);
    }
    f.check_result();
    for (std::size_t d = 0; d < r && !nothing; ++d) {
      // A start of excessive magnitude is refused.
      const auto start = f.n.attr.dims[rank + d].number();
      if (start && (*start > std::int64_t{1} << 60 || *start < 0 - (std::int64_t{1} << 60)))
        f.refuse({"the start ", *start, " is not on axis ", d, " of ", f.extents()});
      check_range(f, d, rank);
    }
  }
  static std::string text(const node& n) {
    const std::size_t rank = n.extents.size();
    return " start=" + text_of(std::span(n.attr.dims).subspan(rank)) + " factors=" + piece(n.attr.ints).text();
  }
  static void read(words& w, node& n) {
    n.attr.dims = n.extents;
    const shape start = w.sizes("start");
    n.attr.dims.insert(n.attr.dims.end(), start.begin(), start.end());
    n.attr.ints = w.integers("factors");
  }
  static void reference(const evaluation& e, literal_array& out) {
    const extents_t from = detail::row_major_strides(e.in[0]->extents);
    const std::size_t rank = out.extents.size();
    extents_t strides(rank, 0);
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < from.size(); ++d) {
      offset += from[d] * e.bound(rank + d);
      for (std::size_t j = 0; j < rank; ++j) strides[j] += from[d] * e.n.attr.ints[d * rank + j];
    }
    copy_view(*e.in[0], strides, offset, out);
  }
  static value batch(const lane_site& s) {
    const auto r = static_cast<std::size_t>(s.rank(0)), rank = result_rank(s.n, r);
    attributes attr;
    attr.dims.push_back(s.lanes);
    for (std::size_t i = 0; i < s.n.attr.dims.size(); ++i) {
      if (i == rank) attr.dims.push_back(0);
      attr.dims.push_back(s.n.attr.dims[i]);
    }
    if (r == 0) attr.dims.push_back(0);
    attr.ints.assign(rank + 1, 0);
    attr.ints[0] = 1;
    for (std::size_t d = 0; d < r; ++d) {
      attr.ints.push_back(0);
      for (std::size_t j = 0; j < rank; ++j) attr.ints.push_back(s.n.attr.ints[d * rank + j]);
    }
    return s.push(std::move(attr));
  }
  static value vjp(const site& s, std::size_t, const value& ct) {
    const std::size_t rank = s.n().extents.size();
    return window_transpose(ct, s.in(0).extents(), part(s.n().attr.dims, rank, s.n().attr.dims.size()),
                            s.n().attr.ints);
  }
};

}  // namespace sinter::ir::ops
