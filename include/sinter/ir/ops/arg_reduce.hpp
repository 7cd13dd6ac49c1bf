// ir/ops/arg_reduce.hpp: arg_reduce (x): ints = {axis}, attr.combiner maximum or minimum: i64 index of the first extreme; NaN
// is an extreme. An extent known to be 0 is refused; an extent that turns out to be 0 gives -1.
#pragma once

#include "elements.hpp"

namespace sinter::ir::ops {

struct arg_reduce_op : without_derivative, along_axis, without_rounding {
  static void infer(inference& f) {
    f.expect(1, 1, 0);
    if (f.n.attr.combiner != op::maximum && f.n.attr.combiner != op::minimum)
      f.refuse({f.n.attr.combiner, " has no index; use maximum or minimum"});
    f.numbers(f.operand(0).type);
    const std::size_t axis = f.axis(f.rank());
    f.refuse_empty_extreme(axis);
    f.n.type = dtype::i64;
    f.n.extents = f.extents();
    f.n.extents.erase(f.n.extents.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  static std::string text(const node& n) {
    return std::string(" ") + name(n.attr.combiner) + " axis=" + std::to_string(n.attr.ints.at(0));
  }
  static void read(words& w, node& n) {
    n.attr.combiner = w.combiner();
    n.attr.ints = {w.integer("axis")};
  }
  static void reference(const evaluation& e, literal_array& out) {
    const literal_array& x = *e.in[0];
    const split s(x.extents, e.axis());
    const bool largest = e.n.attr.combiner == op::maximum;
    detail::with_computed(x.type, [&](auto computed) {
      using T = typename decltype(computed)::type;
      const auto* from = detail::column<T>(x);
      for (std::int64_t o = 0; o < s.outer; ++o)
        for (std::int64_t k = 0; k < s.inner; ++k) {
          const auto at = [&](std::int64_t i) { return static_cast<T>(from[(o * s.length + i) * s.inner + k]); };
          std::int64_t best = s.length > 0 ? 0 : -1;
          for (std::int64_t i = 1; i < s.length; ++i) {
            if (at(best) != at(best)) break;
            if (at(i) != at(i) || (largest ? at(i) > at(best) : at(i) < at(best))) best = i;
          }
          out.i[static_cast<std::size_t>(o * s.inner + k)] = best;
        }
    });
  }
};

}  // namespace sinter::ir::ops
