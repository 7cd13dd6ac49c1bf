// ir/ops/scan.hpp: scan (x): ints = {axis, reverse}, attr.combiner add, mul, maximum or minimum. Element i along the axis
// combines elements 0 to i of x, or with reverse 1 elements i to the end. 16-bit floats combine in f32. (x, a), add: y[i] =
// x[i] + a[i]·y[i-1], y[0] = x[0].
#pragma once

#include "derivatives.hpp"
#include "elements.hpp"

namespace sinter::ir::ops {

/// Each element's previous or next neighbour along the axis; `end` if there is none.
inline value neighbour(const value& x, std::int64_t axis, bool after, double end) {
  const shape none(x.extents().size(), 0);
  shape one = none;
  one[static_cast<std::size_t>(axis)] = 1;
  return slice(after ? pad(x, none, one, end) : pad(x, one, none, end), x.extents(), after ? one : none,
               axes_t(none.size(), 1));
}

/// The place where each element of a running maximum or minimum y of x was found: the last place that set it.
inline value found_at(const value& x, const value& y, std::int64_t axis, bool reverse) {
  const value place = iota(x, dtype::i64, x.extents(), axis);
  const value end = reverse ? scan(place, op::maximum, axis, true) : place.like(0.0);
  const value sets = bit_or(eq(x, y), ne(x, x));
  return scan(select(sets, place, end), reverse ? op::minimum : op::maximum, axis, reverse);
}

struct scan_op : along_axis {
  static void infer(inference& f) {
    f.expect(f.n.in.size() == 2 ? 2 : 1, 2, 0);
    const op combiner = f.n.attr.combiner;
    if (combiner != op::add && combiner != op::mul && combiner != op::maximum && combiner != op::minimum)
      f.refuse({combiner, " does not combine a scan"});
    if (f.n.in.size() == 2 && (combiner != op::add || f.operand(1).type != f.n.type || f.extents(1) != f.extents()))
      f.refuse({combiner, " with factors ", f.operand(1).type, f.extents(1), "; add takes ", f.n.type, f.extents()});
    f.numbers(f.n.type);
    f.axis(f.rank());
    f.n.extents = f.extents();
  }
  static std::string text(const node& n) {
    return std::string(" ") + name(n.attr.combiner) + " axis=" + std::to_string(n.attr.ints.at(0)) +
           (n.attr.ints.at(1) ? " reverse" : "");
  }
  static void read(words& w, node& n) {
    n.attr.combiner = w.combiner();
    const std::int64_t axis = w.integer("axis");
    n.attr.ints = {axis, w.takes_word("reverse")};
  }
  static void reference(const evaluation& e, literal_array& out) {
    const literal_array& x = *e.in[0];
    const op combiner = e.n.attr.combiner;
    const split s(x.extents, e.axis());
    const bool reverse = e.n.attr.ints[1] != 0;
    detail::with_computed(x.type, [&](auto computed) {
      using T = typename decltype(computed)::type;
      const auto* from = detail::column<T>(x);
      const auto* by = e.in.size() > 1 ? detail::column<T>(*e.in[1]) : nullptr;
      auto* to = detail::column<T>(out);
      for (std::int64_t o = 0; o < s.outer; ++o)
        for (std::int64_t k = 0; k < s.inner; ++k) {
          T running = identity_of<T>(combiner, x.type);
          for (std::int64_t step = 0; step < s.length; ++step) {
            const std::int64_t i = (o * s.length + (reverse ? s.length - 1 - step : step)) * s.inner + k;
            if (by && step > 0) running = detail::pointwise_scalar<T>(op::mul, running, static_cast<T>(by[i]), T{});
            running = detail::pointwise_scalar<T>(combiner, running, static_cast<T>(from[i]), T{});
            to[i] = static_cast<std::remove_reference_t<decltype(*to)>>(running);
          }
        }
    });
  }
  static value jvp(const site& s, const tangents& t) {
    const value x = s.in(0), factors = s.in(1), y = s.result();
    const std::int64_t axis = s.axis();
    const bool reverse = s.n().attr.ints[1] != 0;
    if (factors) {
      value sum = t[0];
      if (t[1]) sum = t[1] * neighbour(y, axis, reverse, 0.0);
      return recurrence(t[0] && t[1] ? t[0] + sum : sum, factors, axis, reverse);
    }
    const op combiner = s.n().attr.combiner;
    if (combiner == op::add) return scan(t[0], op::add, axis, reverse);
    if (x.extents()[static_cast<std::size_t>(axis)].is(0)) return t[0];
    if (combiner != op::mul) return gather(t[0], found_at(x, y, axis, reverse), axis);
    return recurrence(t[0] * neighbour(y, axis, reverse, 1.0), x, axis, reverse);
  }
  static value vjp(const site& s, std::size_t k, const value& ct) {
    const value x = s.in(0), factors = s.in(1), y = s.result();
    const std::int64_t axis = s.axis();
    const bool reverse = s.n().attr.ints[1] != 0;
    const op combiner = s.n().attr.combiner;
    if (combiner == op::add && !factors) return scan(ct, op::add, axis, !reverse);
    if (x.extents()[static_cast<std::size_t>(axis)].is(0)) return ct;
    if (combiner == op::maximum || combiner == op::minimum)
      return scatter_add(zeros(ct, x.extents()), found_at(x, y, axis, reverse), ct, axis);
    // The cotangent of an element of y, through itself and through the later elements.
    const value changed = recurrence(ct, neighbour(factors ? factors : x, axis, !reverse, 0.0), axis, !reverse);
    if (!factors) return neighbour(y, axis, reverse, 1.0) * changed;
    if (k == 0) return changed;
    // The whole product is moved: the first factor receives 0, whatever `changed` is there.
    return neighbour(neighbour(changed, axis, !reverse, 0.0) * y, axis, reverse, 0.0);
  }
  static roundings rounding(const evaluation& e, const literal_array& out) {
    const op combiner = e.n.attr.combiner;
    if (combiner != op::add && combiner != op::mul) return {};
    return {static_cast<double>(out.f.size()), combiner == op::mul || e.in.size() > 1, false};
  }
};

}  // namespace sinter::ir::ops
