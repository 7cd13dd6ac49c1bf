// autodiff/kinks.hpp: derivatives of pointwise ops that need more than a formula: at kinks, at zeros, out of range.
#pragma once

#include <limits>
#include <optional>

#include "../ir/graph.hpp"
#include "../ir/value.hpp"

namespace sinter::engine::autodiff {

using ir::op;
using ir::value;

/// The value of all elements of x, if the nodes show it. A constant apart has none, because it may differ in the next call.
inline std::optional<double> literal(const value& x) {
  const ir::node* n = &x.get();
  while (n->code == op::broadcast || n->code == op::reshape || n->code == op::permute) n = &x.owner()[n->in[0]];
  if (n->code != op::constant || !n->attr.ints.empty() || !is_float(n->type)) return std::nullopt;
  return n->attr.literal.f;
}

inline value operand(const value& v, std::size_t k) { return {v.owner(), v.get().in[k], v.where()}; }

/// Walks over the terms of a product or sum. Cotangents may share parts, so the steps are counted.
class terms {
 protected:
  bool more() { return steps_++ < 64; }

 private:
  int steps_ = 0;
};

/// v / r without a division, if r is a factor of each term of v; for a cast r, up to its rounding.
class quotient : terms {
 public:
  explicit quotient(const value& r) : r_(named(r)) {}

  value operator()(const value& v) {
    if (!more()) return {};
    if (is_divisor(v)) return v.like(1.0);
    if (literal(v) == 0.0) return v;
    switch (v.get().code) {
      case op::neg:
      case op::cast:
      case op::reshape:
      case op::reduce:
        return of_one(v);
      case op::add:
      case op::sub:
        return of_sum(v, 0);
      case op::select:
        return of_sum(v, 1);
      case op::mul:
      case op::div:
        return of_product(v);
      case op::pow:
        return of_power(v);
      default:
        return {};
    }
  }

 private:
  /// The value behind reshapes, identities and casts of v.
  static value named(value v) {
    while (v.get().code == op::reshape || v.get().code == op::identity ||
           (v.get().code == op::cast && is_float(operand(v, 0).type())))
      v = operand(v, 0);
    return v;
  }

  bool is_divisor(const value& v) const {
    if (reduced_.empty()) return named(v).id() == r_.id();
    if (v.get().code != op::broadcast) return false;
    const value x = operand(v, 0);
    series<std::int64_t> axes;
    for (std::size_t i = 0; i < x.extents().size(); ++i)
      if (!(x.extents()[i] == v.extents()[i])) axes.push_back(static_cast<std::int64_t>(i));
    return axes == reduced_ && named(x).id() == r_.id();
  }

  value of_one(const value& v) {
    const value x = operand(v, 0);
    const ir::node& n = v.get();
    if (n.code == op::cast && !is_float(x.type())) return {};
    // Under a sum over repeated axes the divisor is the repeated value.
    if (!reduced_.empty() && (n.code == op::reduce || n.code == op::reshape)) return {};
    if (n.code == op::reduce && n.attr.combiner != op::add) return {};
    const ir::attributes attr = n.attr;
    const op code = n.code;
    if (code == op::reduce) reduced_ = attr.ints;
    const value part = (*this)(x);
    if (code == op::reduce) reduced_.clear();
    return part ? push(code, {part}, attr) : part;
  }

  value of_sum(const value& v, std::size_t first) {
    const op code = v.get().code;
    const value choice = operand(v, 0), x = operand(v, first), y = operand(v, first + 1);
    const value a = (*this)(x), b = a ? (*this)(y) : value();
    if (!b) return {};
    return code == op::select ? select(choice, a, b) : push(code, {a, b});
  }

  value of_product(const value& v) {
    const op code = v.get().code;
    const value a = operand(v, 0), b = operand(v, 1);
    if (const value part = (*this)(a)) return push(code, {part, b});
    if (code == op::div) return {};
    const value part = (*this)(b);
    return part ? a * part : part;
  }

  value of_power(const value& v) {
    const value a = operand(v, 0);
    const auto exponent = literal(operand(v, 1));
    if (!exponent || *exponent < 2 || !is_divisor(a)) return {};
    return *exponent == 2 ? a : pow(a, *exponent - 1);
  }

  value r_;
  series<std::int64_t> reduced_;
};

/// True where v is 0 because another branch was chosen; empty if the nodes do not show it.
class unchosen : terms {
 public:
  value operator()(const value& v) {
    if (!more()) return {};
    const op code = v.get().code;
    if (code == op::select) {
      const value choice = operand(v, 0), x = operand(v, 1), y = operand(v, 2);
      if (literal(x) == 0.0) return either(choice, (*this)(y));
      if (literal(y) == 0.0) return either(bit_not(choice), (*this)(x));
      return {};
    }
    if (code == op::mul) {
      const value a = (*this)(operand(v, 0));
      return either(a, (*this)(operand(v, 1)));
    }
    if (code == op::add || code == op::sub) {
      const value a = (*this)(operand(v, 0)), b = a ? (*this)(operand(v, 1)) : value();
      return b ? bit_and(a, b) : value();
    }
    if (code == op::neg || code == op::div || code == op::identity) return (*this)(operand(v, 0));
    if (code == op::cast) return is_float(operand(v, 0).type()) ? (*this)(operand(v, 0)) : value();
    if (code != op::reshape && code != op::broadcast) return {};
    const value part = (*this)(operand(v, 0));
    return !part ? part : code == op::reshape ? reshape(part, v.extents()) : broadcast(part, v.extents());
  }

 private:
  static value either(const value& a, const value& b) { return a && b ? bit_or(a, b) : a ? a : b; }
};

/// g times a slope that has no derivative by `by` where `at` is true, unless g is 0 there because another branch was chosen.
inline value times_kinked(const value& g, const value& at, const value& slope, const value& by) {
  const value elsewhere = unchosen()(g);
  return g * kinked(elsewhere ? bit_and(at, bit_not(elsewhere)) : at, slope, by);
}

/// The slope of r = |a|: 0 at 0, without a second derivative; but |a|·c has the derivative a·c.
inline value abs_slope(const value& g, const value& a, const value& r) {
  if (const value part = quotient(r)(g)) return part * a;
  return times_kinked(g, eq(a, 0.0), sign(a), a);
}

/// The slope of r, the root of a sum of squares: where r is 0, so are the squares' own derivatives. r·c has the derivative c
/// / 2.
inline value root_slope(const value& g, const value& r) {
  if (const value part = quotient(r)(g)) return part * 0.5;
  const value zero = eq(r, 0.0);
  return times_kinked(g, zero, select(zero, 0.0, 0.5 / select(zero, 1.0, r)), r);
}

/// The slope of r = hypot(a, ·): 0 where r is 0, without a second derivative; but r·c has the derivative a·c.
inline value hypot_slope(const value& g, const value& a, const value& r) {
  if (const value part = quotient(r)(g)) return part * a;
  const value zero = eq(r, 0.0);
  return times_kinked(g, zero, a / select(zero, 1.0, r), r);
}

/// Where a^b has no derivative by b as a varies: for negative bases, and for 0 unless the exponent is above 1.
inline value rough_power(const value& a, const value& b) { return bit_or(lt(a, 0.0), bit_and(eq(a, 0.0), le(b, 1.0))); }

/// b·a^(b - 1); 0 for the exponent 0, also where 1 / a is not finite.
inline value power_by_base(const value& g, const value& a, const value& b) {
  if (const auto e = literal(b)) {
    if (*e == 0 || *e == 1) return *e == 0 ? g.like(0.0) : g;
    return *e == 2 ? g * b * a : g * b * pow(a, *e - 1);
  }
  const double small = visit_dtype(a.type(), [](auto element) -> double {
    using T = typename decltype(element)::type;
    return 2 / static_cast<double>(std::numeric_limits<T>::max());
  });
  const value none = bit_and(eq(b, 0.0), bit_not(gt(maximum(a, -a), small)));
  return kinked(bit_or(none, rough_power(a, b)), g * b * pow(select(none, 1.0, a), b - 1.0), b);
}

/// r·log a; 0 where a is not positive, without a derivative by values on which it does not depend smoothly.
inline value power_by_exponent(const value& g, const value& a, const value& b, const value& r) {
  if (const auto base = literal(a); base && *base > 0) return g * r * log(a);
  const value low = le(a, 0.0);
  const value rough = bit_or(lt(a, 0.0), bit_and(eq(a, 0.0), le(b, 0.0)));
  const value slope = kinked(rough_power(a, b), kinked(rough, g.like(0.0), b), a);
  return select(low, slope, g * r * log(select(low, 1.0, a)));
}

/// x / (a² + b²) where squares would overflow or vanish. It is first divided by the larger magnitude, whose choice does not
/// change the value.
inline value over_squares(const value& x, const value& a, const value& b) {
  const value larger = maximum(maximum(a, -a), maximum(b, -b));
  const value in_range = select(lt(larger, std::numeric_limits<double>::infinity()), larger, 1.0);
  const value by = stop_gradient(in_range), u = a / by, v = b / by;
  return x / by / (u * u + v * v) / by;
}

}  // namespace sinter::engine::autodiff
