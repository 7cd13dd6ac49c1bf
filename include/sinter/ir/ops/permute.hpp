// ir/ops/permute.hpp: permute (x): ints = perm; result axis i is operand axis perm[i].
#pragma once

#include "derivatives.hpp"
#include "elements.hpp"

namespace sinter::ir::ops {

struct permute_op : linear, without_rounding {
  static void infer(inference& f) {
    f.expect(1, f.n.attr.ints.size(), 0);
    const auto& perm = f.n.attr.ints;
    series<bool> seen(f.rank(), false);
    bool valid = perm.size() == f.rank();
    for (auto p : perm) {
      valid = valid && p >= 0 && p < static_cast<std::int64_t>(f.rank()) && !seen[static_cast<std::size_t>(p)];
      if (valid) seen[static_cast<std::size_t>(p)] = true;
    }
    if (!valid) f.refuse({perm, " does not order the ", f.rank(), " axes of ", f.extents(), "; name each axis once"});
    for (auto p : perm) f.n.extents.push_back(f.extents()[static_cast<std::size_t>(p)]);
  }
  static std::string text(const node& n) { return " " + piece(n.attr.ints).text(); }
  static void read(words& w, node& n) {
    w.expect(" ");
    n.attr.ints = w.integers();
  }
  static void reference(const evaluation& e, literal_array& out) {
    const extents_t from = detail::row_major_strides(e.in[0]->extents);
    extents_t strides;
    for (auto p : e.n.attr.ints) strides.push_back(from[static_cast<std::size_t>(p)]);
    copy_view(*e.in[0], strides, 0, out);
  }
  static value batch(const lane_site& s) {
    axes_t perm{0};
    for (auto p : s.n.attr.ints) perm.push_back(p + 1);
    return permute(s.in(0), std::move(perm));
  }
  static value vjp(const site& s, std::size_t, const value& ct) { return permute(ct, inverse(s.n().attr.ints)); }
};

}  // namespace sinter::ir::ops
