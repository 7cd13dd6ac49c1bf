// ir/ops/reduce.hpp: reduce (x): ints = axes ascending, attr.combiner. Axes are dropped. An empty reduction gives the combiner's
// identity; maximum and minimum refuse an extent known to be 0, and start from the lowest or largest value.
#pragma once

#include "derivatives.hpp"
#include "elements.hpp"

namespace sinter::ir::ops {

struct reduce_op {
  static bool is_reduced(const node& n, std::size_t axis) {
    return std::find(n.attr.ints.begin(), n.attr.ints.end(), static_cast<std::int64_t>(axis)) != n.attr.ints.end();
  }
  static void infer(inference& f) {
    f.expect(1, f.n.attr.ints.size(), 0);
    const op combiner = f.n.attr.combiner;
    if (combiner != op::add && combiner != op::mul && combiner != op::maximum && combiner != op::minimum &&
        combiner != op::bit_or && combiner != op::bit_and)
      f.refuse({combiner, " does not combine a reduction"});
    dtype unused{};
    const dtype both[] = {f.n.type, f.n.type};
    if (const char* error = apply(row(combiner).rule, both, 2, f.n.type, unused))
      f.refuse({combiner, " ", error, "; the operand is ", f.n.type});
    std::int64_t previous = -1;
    for (auto a : f.n.attr.ints) {
      if (a <= previous || a >= static_cast<std::int64_t>(f.rank()))
        f.refuse({"axes ", f.n.attr.ints, " of ", f.extents(), "; axes are ascending, from 0 to rank - 1"});
      previous = a;
      if (combiner == op::maximum || combiner == op::minimum) f.refuse_empty_extreme(static_cast<std::size_t>(a));
    }
    for (std::size_t i = 0; i < f.rank(); ++i)
      if (!is_reduced(f.n, i)) f.n.extents.push_back(f.extents()[i]);
  }
  static std::string text(const node& n) {
    return std::string(" ") + name(n.attr.combiner) + " axes=" + piece(n.attr.ints).text();
  }
  static void read(words& w, node& n) {
    n.attr.combiner = w.combiner();
    n.attr.ints = w.integers("axes");
  }
  /// The strides in the result of each axis of x; 0 for reduced axes.
  static extents_t strides_of(const node& n, const literal_array& x, const literal_array& out) {
    extents_t strides(x.extents.size(), 0);
    const extents_t kept = detail::row_major_strides(out.extents);
    std::size_t next = 0;
    for (std::size_t i = 0; i < strides.size(); ++i)
      if (!is_reduced(n, i)) strides[i] = kept[next++];
    return strides;
  }
  static void reference(const evaluation& e, literal_array& out) {
    const literal_array& x = *e.in[0];
    const op combiner = e.n.attr.combiner;
    const extents_t strides = strides_of(e.n, x, out);
    detail::with_computed(x.type, [&](auto computed) {
      using T = typename decltype(computed)::type;
      auto* to = detail::column<T>(out);
      const auto* from = detail::column<T>(x);
      using S = std::remove_pointer_t<decltype(to)>;
      std::fill_n(to, detail::size_of(out), static_cast<S>(identity_of<T>(combiner, x.type)));
      detail::walk(x.extents, detail::row_major_strides(x.extents), strides, 0, 0, [&](std::int64_t i, std::int64_t j) {
        to[j] =
            static_cast<S>(detail::pointwise_scalar<T>(combiner, static_cast<T>(to[j]), static_cast<T>(from[i]), T{}));
      });
    });
  }
  static value jvp(const site& s, const tangents& t) {
    const axes_t& axes = s.n().attr.ints;
    const value x = s.in(0);
    switch (s.n().attr.combiner) {
      case op::add:
        return reduce(t[0], op::add, axes);
      case op::mul:
        return reduce(t[0] * product_slopes(x, axes), op::add, axes);
      case op::maximum:
      case op::minimum: {
        value count;
        const value at = extremes(x, s.result(), axes, count);
        return share(reduce(select(at, t[0], 0.0), op::add, axes), count);
      }
      default:
        return {};
    }
  }
  static value batch(const lane_site& s) {
    attributes attr = s.n.attr;
    for (auto& a : attr.ints) ++a;
    return s.push(std::move(attr));
  }
  static value vjp(const site& s, std::size_t, const value& ct) {
    const axes_t& axes = s.n().attr.ints;
    const value x = s.in(0);
    switch (s.n().attr.combiner) {
      case op::add:
        return expand(ct, axes, x.extents());
      case op::mul:
        return expand(ct, axes, x.extents()) * product_slopes(x, axes);
      case op::maximum:
      case op::minimum: {
        value count;
        const value at = extremes(x, s.result(), axes, count);
        return select(at, expand(share(ct, count), axes, x.extents()), 0.0);
      }
      default:
        return {};
    }
  }
  static roundings rounding(const evaluation& e, const literal_array& out) {
    const op combiner = e.n.attr.combiner;
    if (combiner != op::add && combiner != op::mul) return {};
    const auto count = [](const literal_array& x) { return static_cast<double>(std::max<std::size_t>(x.f.size(), 1)); };
    return {count(*e.in[0]) / count(out), combiner == op::mul, false};
  }
};

}  // namespace sinter::ir::ops
