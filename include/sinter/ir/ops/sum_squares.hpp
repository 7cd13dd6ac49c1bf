// ir/ops/sum_squares.hpp: sum_squares (x): ints = axes ascending, which are dropped. The sum of the squares of f16, bf16 or
// f32 is an f64, which has the range for it. A square has at least f32's precision. For f64, the sum of squares.
#pragma once

#include "reduce.hpp"

namespace sinter::ir::ops {

/// The power of two next to 1 / √s, for an s in f32's range, and its reciprocal. Elements whose sum of squares is s are at
/// most about 1 after multiplication with it. No derivative.
struct magnitude {
  value inverse, itself;

  explicit magnitude(const value& s) {
    constexpr std::int64_t one = std::int64_t{1} << 52;  // of the exponent field
    const value bits = as(minimum(maximum(s, 0x1p-248), 0x1p248), dtype::i64);
    const value turned = number(bits, 1534 * one) - push(op::shr, {bits, number(bits, 1)});
    const value exponent = bit_and(turned, number(bits, 0x7ff * one));
    inverse = as(exponent, dtype::f64);
    itself = as(number(bits, 2046 * one) - exponent, dtype::f64);
  }

 private:
  static value as(const value& x, dtype to) {
    attributes a;
    a.type = to;
    return push(op::bit_cast, {x}, std::move(a));
  }
  static value number(const value& x, std::int64_t n) {
    return {x.owner(), x.owner().constant(x.type(), scalar{0, n}, x.extents()), x.where()};
  }
};

struct sum_squares_op {
  static void infer(inference& f) {
    f.expect(1, f.n.attr.ints.size(), 0);
    if (!is_float(f.operand(0).type)) f.refuse({"takes floating numbers; the operand is ", f.operand(0).type});
    std::int64_t previous = -1;
    for (auto a : f.n.attr.ints) {
      if (a <= previous || a >= static_cast<std::int64_t>(f.rank()))
        f.refuse({"axes ", f.n.attr.ints, " of ", f.extents(), "; axes are ascending, from 0 to rank - 1"});
      previous = a;
    }
    f.n.type = dtype::f64;
    for (std::size_t i = 0; i < f.rank(); ++i)
      if (!reduce_op::is_reduced(f.n, i)) f.n.extents.push_back(f.extents()[i]);
  }
  static std::string text(const node& n) { return " axes=" + piece(n.attr.ints).text(); }
  static void read(words& w, node& n) { n.attr.ints = w.integers("axes"); }
  static void reference(const evaluation& e, literal_array& out) {
    const literal_array& x = *e.in[0];
    const extents_t strides = reduce_op::strides_of(e.n, x, out);
    std::fill(out.f.begin(), out.f.end(), 0.0);
    detail::walk(x.extents, detail::row_major_strides(x.extents), strides, 0, 0, [&](std::int64_t i, std::int64_t j) {
      const double v = x.f[static_cast<std::size_t>(i)];
      out.f[static_cast<std::size_t>(j)] += vocabulary::rounded(v * v);
    });
  }
  /// Elements scaled to about 1, and their divisor, so that no intermediate product overflows or underflows. f64 is not scaled.
  struct scaled {
    value x, by;
    explicit scaled(const site& s) : x(s.in(0)), by(s.result().like(1.0)) {
      if (x.type() == dtype::f64) return;
      const magnitude m(s.result());
      x = cast(x, dtype::f32) * expand(cast(m.inverse, dtype::f32), s.n().attr.ints, x.extents());
      by = m.itself;
    }
  };
  static value jvp(const site& s, const tangents& t) {
    const scaled near(s);
    const value sum = reduce(near.x * cast(t[0], near.x.type()), op::add, s.n().attr.ints);
    return cast(sum, dtype::f64) * (2.0 * near.by);
  }
  static value vjp(const site& s, std::size_t, const value& ct) {
    const scaled near(s);
    const value by = cast(ct * (2.0 * near.by), near.x.type());
    return cast(near.x * expand(by, s.n().attr.ints, near.x.extents()), s.in(0).type());
  }
  static value batch(const lane_site& s) {
    attributes attr = s.n.attr;
    for (auto& a : attr.ints) ++a;
    return s.push(std::move(attr));
  }
  static roundings rounding(const evaluation& e, const literal_array& out) {
    const auto count = [](const literal_array& x) { return static_cast<double>(std::max<std::size_t>(x.f.size(), 1)); };
    return {count(*e.in[0]) / count(out), false, false};
  }
};

}  // namespace sinter::ir::ops
