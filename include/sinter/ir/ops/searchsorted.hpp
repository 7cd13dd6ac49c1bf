// ir/ops/searchsorted.hpp: searchsorted (sorted, x): ints = {axis, right}: for each element of x the number of sorted's
// elements along the axis that precede it, i64; with right 1 equal ones count, too. Off the axis extents are equal. NaN is
// last. All backends use the same bisection, even if `sorted` is not sorted.
#pragma once

#include "argsort.hpp"

namespace sinter::ir::ops {

struct searchsorted_op : without_derivative, along_axis, without_rounding {
  static void infer(inference& f) {
    f.expect(2, 2, 0);
    const std::size_t axis = f.axis(f.rank());
    if (f.operand(1).type != f.operand(0).type)
      f.refuse({"looks for ", f.operand(1).type, " among ", f.operand(0).type, "; cast one with cast<T>(x)"});
    if (!f.agree_off_axis(0, 1, axis))
      f.refuse({"sorted ", f.extents(), " and x ", f.extents(1), " differ off axis ", axis});
    f.n.type = dtype::i64;
    f.n.extents = f.extents(1);
  }
  static std::string text(const node& n) {
    return " axis=" + std::to_string(n.attr.ints.at(0)) + (n.attr.ints.at(1) ? " right" : "");
  }
  static void read(words& w, node& n) {
    const std::int64_t axis = w.integer("axis");
    n.attr.ints = {axis, w.takes_word("right")};
  }
  static void reference(const evaluation& e, literal_array& out) {
    const literal_array &sorted = *e.in[0], &x = *e.in[1];
    const split s(sorted.extents, e.axis()), to(x.extents, e.axis());
    const bool right = e.n.attr.ints[1] != 0;
    detail::with_computed(x.type, [&](auto computed) {
      using T = typename decltype(computed)::type;
      const auto *from = detail::column<T>(sorted), *wanted = detail::column<T>(x);
      for (std::int64_t o = 0; o < to.outer; ++o)
        for (std::int64_t i = 0; i < to.length; ++i)
          for (std::int64_t k = 0; k < to.inner; ++k) {
            const std::int64_t place = (o * to.length + i) * to.inner + k;
            const T v = static_cast<T>(wanted[place]);
            const auto earlier = [&](std::int64_t at) {
              const T other = static_cast<T>(from[(o * s.length + at) * s.inner + k]);
              return right ? !precedes(v, other) : precedes(other, v);
            };
            std::int64_t low = 0, n = s.length;
            for (; n > 1; n -= n / 2) low += earlier(low + n / 2 - 1) ? n / 2 : 0;
            if (n > 0) low += earlier(low) ? 1 : 0;
            out.i[static_cast<std::size_t>(place)] = low;
          }
    });
  }
};

}  // namespace sinter::ir::ops
