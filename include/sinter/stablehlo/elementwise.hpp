// stablehlo/elementwise.hpp: pointwise ops as StableHLO operations. Those that StableHLO lacks, or leaves undefined, are composed.
#pragma once

#include "../ir/erfc_terms.hpp"
#include "builder.hpp"

namespace sinter::stablehlo::out {

/// An op's result from its operands, which are f32 or f64 where the op is not exact in narrow floats.
using formula = value (*)(builder& b, const values_t& in);

/// The narrow floats that are computed in f32: none, those of 8 bits, all.
enum class widened : char { none, bytes, all };

inline value cast_value(builder& b, const value& x, dtype to);

template <formula F, widened W>
value pointwise(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  values_t in;
  for (std::size_t k = 0; k < n.in.size(); ++k) {
    value x = b.in(n, k);
    const bool widens = is_narrow(x.type) && W != widened::none && (W == widened::all || size_of(x.type) == 1);
    in.push_back(widens ? b.convert(x, dtype::f32) : std::move(x));
  }
  return b.convert(F(b, in), n.type);
}

template <const char* Name>
value one(builder& b, const values_t& in) {
  return b.same(Name, in);
}
template <const char* How>
value compared(builder& b, const values_t& in) {
  return b.compare(in[0], How, in[1]);
}
// clang-format off
#define SINTER_HLO(NAME) inline constexpr char name_of_##NAME[] = #NAME;
SINTER_HLO(add) SINTER_HLO(subtract) SINTER_HLO(multiply) SINTER_HLO(maximum) SINTER_HLO(minimum) SINTER_HLO(atan2)
SINTER_HLO(and) SINTER_HLO(or) SINTER_HLO(xor) SINTER_HLO(not) SINTER_HLO(negate) SINTER_HLO(exponential)
SINTER_HLO(exponential_minus_one) SINTER_HLO(log) SINTER_HLO(log_plus_one) SINTER_HLO(sqrt) SINTER_HLO(rsqrt)
SINTER_HLO(cbrt) SINTER_HLO(sine) SINTER_HLO(cosine) SINTER_HLO(tan) SINTER_HLO(tanh) SINTER_HLO(logistic)
SINTER_HLO(floor) SINTER_HLO(ceil) SINTER_HLO(round_nearest_even) SINTER_HLO(is_finite)
SINTER_HLO(EQ) SINTER_HLO(NE) SINTER_HLO(LT) SINTER_HLO(LE) SINTER_HLO(GT) SINTER_HLO(GE)
#undef SINTER_HLO
    // clang-format on

    inline value first_of(builder&, const values_t& in) {
  return in[0];
}
inline value second_of(builder&, const values_t& in) { return in[1]; }
inline value chosen(builder& b, const values_t& in) { return b.select(in[0], in[1], in[2]); }

/// A divisor by which division is defined: 1 for 0, and for -1, whose quotient may overflow.
struct safe_divisor {
  value itself, is_zero, is_minus_one;
  safe_divisor(builder& b, const value& y) : is_zero(b.compare(y, "EQ", b.number(0, y))) {
    value unsafe = is_zero;
    if (!is_unsigned(y.type)) {
      is_minus_one = b.compare(y, "EQ", b.number(-1, y));
      unsafe = b.same("or", {is_zero, is_minus_one});
    }
    itself = b.select(unsafe, b.number(1, y), y);
  }
};
inline value quotient(builder& b, const values_t& in) {
  if (is_float(in[0].type)) return b.same("divide", in);
  const safe_divisor by(b, in[1]);
  value q = b.same("divide", {in[0], by.itself});
  if (!is_unsigned(q.type)) q = b.select(by.is_minus_one, b.same("negate", {in[0]}), q);
  return b.select(by.is_zero, b.number(0, q), q);
}
inline value remainder(builder& b, const values_t& in) {
  if (is_float(in[0].type)) return b.same("remainder", in);
  const safe_divisor by(b, in[1]);
  return b.same("remainder", {in[0], by.itself});
}
/// x to a power that is not negative. XLA's operation reads the 6 lowest bits of an exponent alone, so exponents are
/// given to it by digits of 6 bits.
inline value power_by_digits(builder& b, value x, value exponent) {
  const value last = b.number(63, x), digit_bits = b.number(6, x);
  const int bits = static_cast<int>(8 * size_of(x.type)) - (is_unsigned(x.type) ? 0 : 1);
  value product = b.same("power", {x, b.same("and", {exponent, last})});
  for (int done = 6; done < bits; done += 6) {
    x = b.same("multiply", {b.same("power", {x, last}), x});
    exponent = b.same("shift_right_logical", {exponent, digit_bits});
    product = b.same("multiply", {product, b.same("power", {x, b.same("and", {exponent, last})})});
  }
  return product;
}
/// Integers with a negative exponent: 1 for 1, ±1 for -1, else 0.
inline value power(builder& b, const values_t& in) {
  const value &x = in[0], &y = in[1];
  if (is_float(x.type)) return b.same("power", in);
  if (is_unsigned(x.type)) return power_by_digits(b, x, y);
  const value zero = b.number(0, y), one = b.number(1, y), minus = b.number(-1, y);
  const value usual = power_by_digits(b, x, b.same("maximum", {y, zero}));
  const value odd = b.compare(b.same("and", {y, one}), "NE", zero);
  const value of_minus = b.select(b.compare(x, "EQ", minus), b.select(odd, minus, one), zero);
  return b.select(b.compare(y, "LT", zero), b.select(b.compare(x, "EQ", one), one, of_minus), usual);
}
/// Amounts, as unsigned numbers, of at least the width give 0, or the sign's fill.
template <bool Left>
value shifted(builder& b, const values_t& in) {
  const value &x = in[0], &by = in[1];
  const int width = static_cast<int>(8 * size_of(x.type));
  const bool arithmetic = !Left && !is_unsigned(x.type);
  value beyond = b.compare(by, "GE", b.number(width, by));
  if (!is_unsigned(by.type)) beyond = b.same("or", {beyond, b.compare(by, "LT", b.number(0, by))});
  const value amount = b.select(beyond, b.number(arithmetic ? width - 1 : 0, by), by);
  const value y = b.same(Left         ? "shift_left"
                         : arithmetic ? "shift_right_arithmetic"
                                      : "shift_right_logical",
                         {x, amount});
  return arithmetic ? y : b.select(beyond, b.number(0, y), y);
}
inline value absolute(builder& b, const values_t& in) { return is_unsigned(in[0].type) ? in[0] : b.same("abs", in); }
inline value sign_of(builder& b, const values_t& in) {
  if (!is_unsigned(in[0].type)) return b.same("sign", in);
  return b.convert(b.compare(in[0], "NE", b.number(0, in[0])), in[0].type);
}
inline value truncated(builder& b, const values_t& in) {
  const value& x = in[0];
  return b.select(b.compare(x, "LT", b.number(0, x)), b.same("ceil", {x}), b.same("floor", {x}));
}
inline value is_nan(builder& b, const values_t& in) { return b.compare(in[0], "NE", in[0]); }
inline value is_infinite(builder& b, const values_t& in) {
  return b.compare(b.same("abs", {in[0]}), "EQ", b.infinity(in[0]));
}
inline value finite(builder& b, const values_t& in) { return b.op("is_finite", {in[0]}, dtype::b8, in[0].extents); }

inline value exp2_of(builder& b, const values_t& in) { return b.same("power", {b.number(2, in[0]), in[0]}); }
inline value log2_of(builder& b, const values_t& in) {
  return b.same("multiply", {b.same("log", in), b.number(1.4426950408889634, in[0])});
}
/// √(1 - x²) without cancellation; NaN beyond 1.
inline value other_leg(builder& b, const value& x) {
  const value one = b.number(1, x);
  return b.same("sqrt", {b.same("multiply", {b.same("subtract", {one, x}), b.same("add", {one, x})})});
}
inline value asin_of(builder& b, const values_t& in) { return b.same("atan2", {in[0], other_leg(b, in[0])}); }
inline value acos_of(builder& b, const values_t& in) { return b.same("atan2", {other_leg(b, in[0]), in[0]}); }
inline value atan_of(builder& b, const values_t& in) { return b.same("atan2", {in[0], b.number(1, in[0])}); }

/// e^x / 2 and e^-x / 2 for x = |in|, by e^(x/2), so that neither overflows before the result does.
struct half_powers {
  value size, up, down;
  half_powers(builder& b, const value& x) : size(b.same("abs", {x})) {
    const value half = b.number(0.5, x), root = b.same("exponential", {b.same("multiply", {size, half})});
    up = b.same("multiply", {b.same("multiply", {half, root}), root});
    down = b.same("divide", {b.same("divide", {half, root}), root});
  }
};
inline value cosh_of(builder& b, const values_t& in) {
  const half_powers p(b, in[0]);
  return b.same("add", {p.up, p.down});
}
/// (m + m / (m + 1)) / 2 with m = e^|x| - 1 below 1.
inline value sinh_of(builder& b, const values_t& in) {
  const half_powers p(b, in[0]);
  const value one = b.number(1, p.size), m = b.same("exponential_minus_one", {p.size});
  const value near =
      b.same("multiply", {b.same("add", {m, b.same("divide", {m, b.same("add", {m, one})})}), b.number(0.5, m)});
  const value size = b.select(b.compare(p.size, "LT", one), near, b.same("subtract", {p.up, p.down}));
  return b.same("multiply", {b.same("sign", {in[0]}), size});
}
/// log(2 x) beyond 2^28, where other terms no longer count.
inline value far_logarithm(builder& b, const value& x) {
  return b.same("add", {b.same("log", {x}), b.number(0.6931471805599453, x)});
}
inline value asinh_of(builder& b, const values_t& in) {
  const value size = b.same("abs", {in[0]}), one = b.number(1, size), square = b.same("multiply", {size, size});
  const value root = b.same("sqrt", {b.same("add", {square, one})});
  const value near =
      b.same("log_plus_one", {b.same("add", {size, b.same("divide", {square, b.same("add", {one, root})})})});
  const value far = b.compare(size, "GT", b.number(0x1p28, size));
  return b.same("multiply", {b.same("sign", {in[0]}), b.select(far, far_logarithm(b, size), near)});
}
/// Two roots, each of which is NaN below 1.
inline value acosh_of(builder& b, const values_t& in) {
  const value &x = in[0], t = b.same("subtract", {x, b.number(1, x)});
  const value roots = b.same("multiply", {b.same("sqrt", {t}), b.same("sqrt", {b.same("add", {t, b.number(2, x)})})});
  const value near = b.same("log_plus_one", {b.same("add", {t, roots})});
  return b.select(b.compare(x, "GT", b.number(0x1p28, x)), far_logarithm(b, x), near);
}
inline value atanh_of(builder& b, const values_t& in) {
  const value &x = in[0], minus = b.same("negate", {x});
  const value twice = b.same("subtract", {b.same("log_plus_one", {x}), b.same("log_plus_one", {minus})});
  return b.same("multiply", {twice, b.number(0.5, x)});
}
/// The larger leg times √(1 + ratio²). An infinite leg wins over NaN.
inline value hypot_of(builder& b, const values_t& in) {
  const value p = b.same("abs", {in[0]}), q = b.same("abs", {in[1]}), end = b.infinity(p);
  const value most = b.same("maximum", {p, q}), ratio = b.same("divide", {b.same("minimum", {p, q}), most});
  const value square = b.same("multiply", {ratio, ratio});
  const value length = b.same("multiply", {most, b.same("sqrt", {b.same("add", {square, b.number(1, p)})})});
  const value usual = b.select(b.compare(most, "EQ", b.number(0, p)), most, length);
  return b.select(b.same("or", {b.compare(p, "EQ", end), b.compare(q, "EQ", end)}), end, usual);
}

/// erfc of |x| in f64, as ir/erfc_terms.hpp says.
inline value upper_erfc(builder& b, const value& size) {
  const value two = b.number(2, size), small = b.same("divide", {two, b.same("add", {size, two})});
  const value u = b.same("subtract", {b.same("multiply", {small, two}), b.number(1, size)});
  value sum = b.number(std::end(ir::erfc_terms)[-1], size);
  for (std::size_t k = std::size(ir::erfc_terms) - 1; k-- > 0;)
    sum = b.same("add", {b.same("multiply", {sum, u}), b.number(ir::erfc_terms[k], size)});
  const value power = b.same("exponential", {b.same("negate", {b.same("multiply", {size, size})})});
  return b.same("multiply", {b.same("multiply", {small, sum}), power});
}
inline value erfc_of(builder& b, const values_t& in) {
  const value x = b.convert(in[0], dtype::f64), tail = upper_erfc(b, b.same("abs", {x}));
  const value below = b.compare(x, "LT", b.number(0, x));
  return b.convert(b.select(below, b.same("subtract", {b.number(2, x), tail}), tail), in[0].type);
}
/// The Maclaurin series 2/√π Σ (-1)^n x^(2n+1) / (n! (2n+1)) below 1/2, and 1 - erfc above.
inline value erf_of(builder& b, const values_t& in) {
  const value x = b.convert(in[0], dtype::f64), size = b.same("abs", {x}), square = b.same("multiply", {x, x});
  constexpr int terms = 13;
  double factor = 1.1283791670955126;
  std::vector<double> series_of_erf;
  for (int n = 0; n < terms; factor /= -++n) series_of_erf.push_back(factor / (2 * n + 1));
  value sum = b.number(series_of_erf.back(), x);
  for (int n = terms - 1; n-- > 0;)
    sum = b.same("add", {b.same("multiply", {sum, square}), b.number(series_of_erf[static_cast<std::size_t>(n)], x)});
  const value far =
      b.same("multiply", {b.same("sign", {x}), b.same("subtract", {b.number(1, x), upper_erfc(b, size)})});
  const value near = b.compare(size, "LT", b.number(0.5, x));
  return b.convert(b.select(near, b.same("multiply", {x, sum}), far), in[0].type);
}

/// A float as an integer: truncated, saturated, 0 for NaN. StableHLO defines conversions within the range alone.
inline value whole_value(builder& b, const value& given, dtype to) {
  const value x = is_narrow(given.type) ? b.convert(given, dtype::f32) : given;
  const bool is_signed = !is_unsigned(to);
  const int bits = static_cast<int>(8 * size_of(to)) - is_signed;
  const double end = std::ldexp(1.0, bits);
  const value low = b.compare(x, "LE", b.number(is_signed ? -end : 0, x));
  const value high = b.compare(x, "GE", b.number(end, x));
  const value outside = b.same("or", {b.compare(x, "NE", x), b.same("or", {low, high})});
  const value y = b.convert(b.select(outside, b.number(0, x), x), to);
  const auto last = static_cast<std::int64_t>(~std::uint64_t{0} >> (64 - bits));
  const value least = b.constant(to, {0, is_signed ? -last - 1 : 0}, x.extents);
  return b.select(high, b.constant(to, {0, last}, x.extents), b.select(low, least, y));
}
inline value cast_value(builder& b, const value& x, dtype to) {
  if (x.type == to) return x;
  if (is_bool(to)) {
    const value wide = is_narrow(x.type) ? b.convert(x, dtype::f32) : x;
    return b.compare(wide, "NE", b.number(0, wide));
  }
  if (is_float(x.type) && !is_float(to)) return whole_value(b, x, to);
  // Narrow floats are rounded from f32.
  return b.convert(is_narrow(to) || is_narrow(x.type) ? b.convert(x, dtype::f32) : x, to);
}
inline value cast_to(builder& b, node_id id) { return cast_value(b, b.in(b.at(id), 0), b.at(id).type); }
inline value bits_of(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const value x = b.in(n, 0);
  return x.type == n.type ? x : b.op("bitcast_convert", {x}, n.type, x.extents);
}

}  // namespace sinter::stablehlo::out
