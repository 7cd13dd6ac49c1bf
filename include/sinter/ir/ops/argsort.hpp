// ir/ops/argsort.hpp: argsort (x): ints = {axis, descending}, dims = {count}: i64 places along the axis of the first `count`
// elements in sorted order; equal elements keep their order. NaN comes last in either direction; -0 equals 0. A count is 0 to
// the extent.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "elements.hpp"

namespace sinter::ir::ops {

/// Whether a comes before b in ascending order; NaN is last.
template <class T>
bool precedes(T a, T b) {
  return a < b || (b != b && a == a);
}

struct argsort_op : without_derivative, along_axis, without_rounding {
  static void infer(inference& f) {
    f.expect(1, 2, 1);
    const std::size_t axis = f.axis(f.rank());
    const dim count = f.n.attr.dims[0], extent = f.extents()[axis];
    if (count.upper_bound() < 0 || (extent - count).upper_bound() < 0)
      f.refuse({count, " elements of axis ", axis, " of ", f.extents(), "; there are 0 to ", extent});
    f.n.type = dtype::i64;
    f.n.extents = f.extents();
    f.n.extents[axis] = count;
  }
  static std::string text(const node& n) {
    return " axis=" + std::to_string(n.attr.ints.at(0)) + (n.attr.ints.at(1) ? " descending" : "");
  }
  static void read(words& w, node& n) {
    const std::int64_t axis = w.integer("axis");
    if (axis < 0 || axis >= static_cast<std::int64_t>(n.extents.size())) w.refuse("argsort has no such axis");
    n.attr.ints = {axis, w.takes_word("descending")};
    n.attr.dims = {n.extents[static_cast<std::size_t>(axis)]};
  }
  static void reference(const evaluation& e, literal_array& out) {
    const literal_array& x = *e.in[0];
    const split s(x.extents, e.axis()), to(out.extents, e.axis());
    const bool descending = e.n.attr.ints[1] != 0;
    std::vector<std::int64_t> order(static_cast<std::size_t>(s.length));
    detail::with_computed(x.type, [&](auto computed) {
      using T = typename decltype(computed)::type;
      const auto* from = detail::column<T>(x);
      for (std::int64_t o = 0; o < s.outer; ++o)
        for (std::int64_t k = 0; k < s.inner; ++k) {
          const auto at = [&](std::int64_t i) { return static_cast<T>(from[(o * s.length + i) * s.inner + k]); };
          std::iota(order.begin(), order.end(), 0);
          std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
            const T a = at(i), b = at(j);
            return descending && a == a && b == b ? precedes(b, a) : precedes(a, b);
          });
          for (std::int64_t i = 0; i < std::min(to.length, s.length); ++i)
            out.i[static_cast<std::size_t>((o * to.length + i) * s.inner + k)] = order[static_cast<std::size_t>(i)];
        }
    });
  }
};

}  // namespace sinter::ir::ops
