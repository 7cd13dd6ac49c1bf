// onnx/elementwise.hpp: operators of elements: arithmetic, comparisons, activations, casts.
#pragma once

#include <limits>

#include "operators.hpp"

namespace sinter::onnx::rows {

template <op Code>
void unary(call& c) {
  const node x = c.x(0);
  if constexpr (Code == op::floor || Code == op::ceil || Code == op::round)
    if (!is_float(x.type())) return c.give(x);
  c.give(pointwise(Code, x));
}
/// Input 1. Before version 7 the attribute `axis` gives its place among the axes of input 0. Some later files have the
/// attribute too.
inline node second(call& c) {
  const node b = c.x(1);
  if (!c.has_attribute("axis") || c.i("broadcast", 0) == 0) return b;
  extents e = extents_of(b);
  const int rank = c.rank(0), behind = rank - axis_of(c.i("axis", 0), rank) - b.rank();
  if (behind < 0) c.refuse("its second input " + text_of(e) + " reaches beyond the last axis of the first");
  e.insert(e.end(), static_cast<std::size_t>(behind), dim(1));
  return reshape_to(b, e);
}
template <op Code>
void binary(call& c) {
  c.give(pointwise(Code, c.x(0), second(c)));
}
/// An operator of any number of inputs.
template <op Code>
void several(call& c) {
  node r = c.x(0);
  for (std::size_t k = 1; k < c.in.size(); ++k) r = pointwise(Code, r, c.x(k));
  c.give(r);
}
/// Maximum or minimum of any number of inputs.
template <op Code>
void extremes(call& c) {
  several<Code>(c);
}

inline void mean(call& c) {
  node r = c.x(0);
  for (std::size_t k = 1; k < c.in.size(); ++k) r = plus(r, c.x(k));
  c.give(r / static_cast<double>(c.in.size()));
}

/// Converts a result to the dtype of input 0. Activations are computed in f32 for narrower floats, and in f64 for integers,
/// whose results are cut.
inline void give_wide(call& c, const node& y) { c.give(to_type(y, c.type(0))); }

inline node sigmoid_of(const node& x) { return pointwise(op::sigmoid, x); }
inline node tanh_of(const node& x) { return pointwise(op::tanh, x); }
inline node relu_of(const node& x) { return ir::maximum(x, 0.0); }
inline node softplus_of(const node& x) {
  return ir::maximum(x, 0.0) + pointwise(op::log1p, ir::exp(-pointwise(op::abs, x)));
}
inline node gelu_of(const node& x, bool by_tanh) {
  if (by_tanh) return x * 0.5 * (tanh_of((x + x * x * x * 0.044715) * 0.7978845608028654) + 1.0);
  return x * 0.5 * (pointwise(op::erf, x * 0.7071067811865476) + 1.0);
}
inline node clipped(node x, double low, double high) { return ir::minimum(ir::maximum(x, low), high); }

/// A text with its ASCII letters in lower case.
inline std::string small_letters(std::string s) {
  for (char& ch : s)
    if (ch >= 'A' && ch <= 'Z') ch = static_cast<char>(ch - 'A' + 'a');
  return s;
}

/// An activation by ONNX's name, also for recurrent operators.
inline node activation(const std::string& name, const node& x, double alpha, double beta) {
  if (name == "Relu") return relu_of(x);
  if (name == "Tanh") return tanh_of(x);
  if (name == "Sigmoid") return sigmoid_of(x);
  if (name == "Affine") return x * alpha + beta;
  if (name == "LeakyRelu") return ir::select(ir::lt(x, 0.0), x * alpha, x);
  if (name == "ThresholdedRelu") return ir::select(ir::gt(x, alpha), x, 0.0);
  if (name == "ScaledTanh") return tanh_of(x * beta) * alpha;
  if (name == "HardSigmoid") return clipped(x * alpha + beta, 0, 1);
  if (name == "Elu") return ir::select(ir::lt(x, 0.0), pointwise(op::expm1, ir::minimum(x, 0.0)) * alpha, x);
  if (name == "Softsign") return x / (pointwise(op::abs, x) + 1.0);
  if (name == "Softplus") return softplus_of(x);
  wire::fail_file("there is no activation '" + name + "'");
}

inline void relu(call& c) { c.give(relu_of(c.x(0))); }
inline void leaky_relu(call& c) { give_wide(c, activation("LeakyRelu", wide(c.x(0)), c.f("alpha", 0.01), 0)); }
inline void thresholded(call& c) { give_wide(c, activation("ThresholdedRelu", wide(c.x(0)), c.f("alpha", 1), 0)); }
inline void hard_sigmoid(call& c) {
  give_wide(c, activation("HardSigmoid", wide(c.x(0)), c.f("alpha", 0.2f), c.f("beta", 0.5)));
}
inline void hard_swish(call& c) {
  const node x = wide(c.x(0));
  give_wide(c, x * clipped(x / 6.0 + 0.5, 0, 1));
}
inline void elu(call& c) { give_wide(c, activation("Elu", wide(c.x(0)), c.f("alpha", 1), 0)); }
inline void selu(call& c) {
  const double alpha = c.f("alpha", 1.67326319217681884765625), gamma = c.f("gamma", 1.05070102214813232421875);
  const node x = wide(c.x(0));
  give_wide(c, activation("Elu", x, alpha, 0) * gamma);
}
inline void celu(call& c) {
  const double alpha = c.f("alpha", 1);
  const node x = wide(c.x(0));
  give_wide(c, ir::maximum(x, 0.0) + pointwise(op::expm1, ir::minimum(x, 0.0) / alpha) * alpha);
}
inline void softplus(call& c) { give_wide(c, softplus_of(wide(c.x(0)))); }
inline void softsign(call& c) { give_wide(c, activation("Softsign", wide(c.x(0)), 0, 0)); }
inline void mish(call& c) {
  const node x = wide(c.x(0));
  give_wide(c, x * tanh_of(softplus_of(x)));
}
inline void swish(call& c) {
  const node x = wide(c.x(0));
  give_wide(c, x * sigmoid_of(x * c.f("alpha", 1)));
}
inline void gelu(call& c) { give_wide(c, gelu_of(wide(c.x(0)), c.s("approximate", "none") == "tanh")); }
/// Shrink of 64-bit integers, which f64 cannot hold: elements beyond lambd lose the bias, and are cut towards zero.
inline node shrunk(const node& x, double lambd, double bias) {
  const dtype type = x.type();
  const auto number = [&](double v) { return constant(type, v); };
  const double whole = std::floor(bias), more = bias > whole;
  // x + bias and x - bias, cut towards zero
  const auto cut = [&](const node& sum) { return more != 0 ? choose(ir::lt(sum, 0.0), sum + 1.0, sum) : sum; };
  const node up = cut(plus(x, constant_of(type, {0, static_cast<std::int64_t>(whole)}))),
             down = cut(minus(x, constant_of(type, {0, static_cast<std::int64_t>(whole + more)})));
  const bool negative = is_unsigned(type) && -lambd <= 0;  // elements below -lambd cannot exist
  node y = choose(pointwise(op::gt, x, number(std::floor(lambd))), down, number(0));
  if (is_unsigned(type) && lambd < 0) y = down;
  return negative ? y : choose(pointwise(op::lt, x, number(std::ceil(-lambd))), up, y);
}
inline void shrink(call& c) {
  const double bias = c.f("bias", 0), lambd = c.f("lambd", 0.5);
  if (!is_float(c.type(0)) && size_of(c.type(0)) == 8 && std::fabs(bias) < 0x1p62)
    return c.give(shrunk(c.x(0), lambd, bias));
  const node x = is_float(c.type(0)) ? c.x(0) : to_type(c.x(0), dtype::f64);
  give_wide(c, ir::select(ir::lt(x, -lambd), x + bias, ir::select(ir::gt(x, lambd), x - bias, 0.0)));
}
/// Experimental operators of the first versions, which old files contain.
inline void affine(call& c) { give_wide(c, activation("Affine", wide(c.x(0)), c.f("alpha", 1), c.f("beta", 0))); }
inline void scaled_tanh(call& c) {
  give_wide(c, activation("ScaledTanh", wide(c.x(0)), c.f("alpha", 1), c.f("beta", 1)));
}
inline void parametric_softplus(call& c) { give_wide(c, softplus_of(wide(c.x(0)) * c.f("beta", 1)) * c.f("alpha", 1)); }
inline void scale(call& c) { give_wide(c, wide(c.x(0)) * c.f("scale", 1)); }

inline void prelu(call& c) {
  const node x = c.x(0);
  node slope = c.x(1);
  if (slope.rank() == 1 && x.rank() > 2 && c.version < 7) {  // one slope for each channel
    extents e(static_cast<std::size_t>(x.rank()), dim(1));
    e[1] = size_of_axis(slope, 0);
    slope = reshape_to(slope, e);
  }
  c.give(choose(ir::lt(x, 0.0), times(x, slope), x));
}
inline void reciprocal(call& c) { c.give(1.0 / c.x(0)); }
inline void identity(call& c) {
  if (!c.has(0)) c.given(0);
  c.give(0, c.in[0]);  // the value may be a text
}

inline void clip(call& c) {
  if (c.version < 11 || c.has_attribute("min") || c.has_attribute("max")) {
    const node x = c.x(0);
    return c.give(
        clipped(x, c.f("min", -std::numeric_limits<float>::max()), c.f("max", std::numeric_limits<float>::max())));
  }
  node x = c.x(0);
  if (c.has(1)) x = pointwise(op::maximum, x, c.x(1));
  if (c.has(2)) x = pointwise(op::minimum, x, c.x(2));
  c.give(x);
}
inline void not_(call& c) { c.give(pointwise(op::bit_not, c.x(0))); }
inline void where(call& c) { c.give(choose(c.x(0), c.x(1), c.x(2))); }
inline void bit_shift(call& c) {
  if (c.s("direction", "") == "LEFT") binary<op::shl>(c);
  else binary<op::shr>(c);
}
inline void mod(call& c) {
  const node a = c.x(0), b = c.x(1), r = pointwise(op::fmod, a, b);
  if (c.i("fmod", 0) == 1 || is_unsigned(a.type())) return c.give(r);
  // A remainder with the sign of the divisor, like Python's %.
  const node zero = constant(a.type(), 0);
  const node other = pointwise(op::bit_and, pointwise(op::ne, r, zero),
                               pointwise(op::ne, pointwise(op::lt, r, zero), pointwise(op::lt, b, zero)));
  c.give(choose(other, plus(r, b), r));
}
/// Whether a dtype holds all of these integers.
inline bool holds_all(dtype type, const host_values& h) {
  std::int64_t low = 0, high = 0;
  if (is_float(type)) {
    high = std::int64_t{1} << (type == dtype::f64 ? 53 : type == dtype::f32 ? 24 : type == dtype::f16 ? 11 : 3);
    low = -high;
  } else {
    low = ir::combiner_identity(op::maximum, type).i;
    high = ir::combiner_identity(op::minimum, type).i;
    if (type == dtype::u64) high = INT64_MAX;
  }
  return !is_float(h.type) && h.is_number() &&
         std::all_of(h.ints.begin(), h.ints.end(), [&](const dim& d) { return d.bits >= low && d.bits <= high; });
}
inline void pow(call& c) {
  const host_values* exponents = c.known(1);
  const node a = c.x(0), b = second(c);
  const dtype type = a.type();
  const auto power = [](const node& x, const node& y, dtype work) {
    return pointwise(op::pow, to_type(x, work), to_type(y, work));
  };
  if (type == b.type()) return c.give(pointwise(op::pow, a, b));
  if (is_float(type)) {
    const bool exact = is_float(b.type()) || (exponents && holds_all(type, *exponents));
    return c.give(to_type(power(a, b, exact ? type : dtype::f64), type));
  }
  if (!is_float(b.type())) {
    const bool exact = exponents && holds_all(type, *exponents);
    const bool is_u64 = b.type() == dtype::u64 || type == dtype::u64;
    return c.give(to_type(power(a, b, exact ? type : is_u64 ? dtype::u64 : dtype::i64), type));
  }
  // A power of an integer with a whole exponent is computed by products.
  const node by = to_type(b, dtype::f64),
             whole = pointwise(op::bit_and, pointwise(op::eq, pointwise(op::trunc, by), by),
                               pointwise(op::lt, pointwise(op::abs, by), constant(dtype::f64, 0x1p62)));
  const node products = to_type(power(a, by, type == dtype::u64 ? dtype::u64 : dtype::i64), type);
  c.give(choose(pointwise(op::bit_and, whole, ir::ge(by, 0.0)), products, to_type(power(a, by, dtype::f64), type)));
}
inline void is_inf(call& c) {
  const node x = c.x(0), inf = pointwise(op::isinf, x);
  const bool below = c.i("detect_negative", 1), above = c.i("detect_positive", 1);
  if (below && above) return c.give(inf);
  const node side = above ? ir::gt(x, 0.0) : ir::lt(x, 0.0);
  if (below || above) return c.give(pointwise(op::bit_and, inf, side));
  c.give(constant(dtype::b8, 0, extents_of(x)));
}
inline void square(call& c) {
  const node x = c.x(0);
  c.give(x * x);
}

inline node cast_by(const node& x, dtype to, bool saturate) {
  if (x.type() == to) return x;
  if ((to == dtype::f8_e4m3 || to == dtype::f8_e5m2) && saturate && is_float(x.type())) {
    const node y = x.type() == dtype::f64 ? x : to_type(x, dtype::f32);
    const double most = to == dtype::f8_e4m3 ? 448.0 : 57344.0;
    return to_type(ir::select(pointwise(op::isnan, y), y, clipped(y, -most, most)), to);
  }
  if (is_float(x.type()) && is_integer(to) && size_of(to) < 4) {
    // Out of range, ONNX's reference wraps, but cast saturates.
    return to_type(to_type(x, dtype::i64), to);
  }
  return to_type(x, to);
}
inline const row elementwise[] = {
    {"Abs", "", 1, [](call& c) { is_unsigned(c.type(0)) ? identity(c) : unary<op::abs>(c); }, "abs"},
    {"Acos", "", 1, unary<op::acos>, "acos"},
    {"Acosh", "", 1, unary<op::acosh>, "acosh"},
    {"Add", "", 1, binary<op::add>, "add"},
    {"Affine", "", 1, affine, "mul, add"},
    {"And", "", 1, binary<op::bit_and>, "&"},
    {"Asin", "", 1, unary<op::asin>, "asin"},
    {"Asinh", "", 1, unary<op::asinh>, "asinh"},
    {"Atan", "", 1, unary<op::atan>, "atan"},
    {"Atanh", "", 1, unary<op::atanh>, "atanh"},
    {"BitShift", "", 1, bit_shift, "shl, shr"},
    {"BitwiseAnd", "", 1, binary<op::bit_and>, "&"},
    {"BitwiseNot", "", 1, not_, "~"},
    {"BitwiseOr", "", 1, binary<op::bit_or>, "|"},
    {"BitwiseXor", "", 1, binary<op::bit_xor>, "^"},
    {"Ceil", "", 1, unary<op::ceil>, "ceil"},
    {"Celu", "", 1, celu, "expm1"},
    {"Clip", "", 1, clip, "maximum, minimum"},
    {"Cos", "", 1, unary<op::cos>, "cos"},
    {"Cosh", "", 1, unary<op::cosh>, "cosh"},
    {"Div", "", 1, binary<op::div>, "div"},
    {"Elu", "", 1, elu, "expm1"},
    {"Equal", "", 1, binary<op::eq>, "=="},
    {"Erf", "", 1, unary<op::erf>, "erf"},
    {"Exp", "", 1, unary<op::exp>, "exp"},
    {"Floor", "", 1, unary<op::floor>, "floor"},
    {"Gelu", "", 1, gelu, "erf or tanh"},
    {"Greater", "", 1, binary<op::gt>, ">"},
    {"GreaterOrEqual", "", 1, binary<op::ge>, ">="},
    {"HardSigmoid", "", 1, hard_sigmoid, "clamp"},
    {"HardSwish", "", 1, hard_swish, "clamp"},
    {"Identity", "", 1, identity, "the same value"},
    {"IsInf", "", 1, is_inf, "isinf"},
    {"IsNaN", "", 1, unary<op::isnan>, "isnan"},
    {"LeakyRelu", "", 1, leaky_relu, "select"},
    {"Less", "", 1, binary<op::lt>, "<"},
    {"LessOrEqual", "", 1, binary<op::le>, "<="},
    {"Log", "", 1, unary<op::log>, "log"},
    {"Max", "", 1, extremes<op::maximum>, "maximum"},
    {"Mean", "", 1, mean, "add, div"},
    {"Min", "", 1, extremes<op::minimum>, "minimum"},
    {"Mish", "", 1, mish, "tanh, log1p"},
    {"Mod", "", 1, mod, "fmod"},
    {"Mul", "", 1, binary<op::mul>, "mul"},
    {"Neg", "", 1, unary<op::neg>, "neg"},
    {"Not", "", 1, not_, "!"},
    {"Or", "", 1, binary<op::bit_or>, "|"},
    {"PRelu", "", 1, prelu, "select"},
    {"ParametricSoftplus", "", 1, parametric_softplus, "log1p"},
    {"Pow", "", 1, pow, "pow"},
    {"Reciprocal", "", 1, reciprocal, "div"},
    {"Relu", "", 1, relu, "maximum"},
    {"Round", "", 1, unary<op::round>, "round"},
    {"Scale", "", 1, scale, "mul"},
    {"ScaledTanh", "", 1, scaled_tanh, "tanh"},
    {"Selu", "", 1, selu, "expm1"},
    {"Shrink", "", 1, shrink, "select"},
    {"Sigmoid", "", 1, unary<op::sigmoid>, "sigmoid"},
    {"Sign", "", 1, unary<op::sign>, "sign"},
    {"Sin", "", 1, unary<op::sin>, "sin"},
    {"Sinh", "", 1, unary<op::sinh>, "sinh"},
    {"Softplus", "", 1, softplus, "log1p"},
    {"Softsign", "", 1, softsign, "div"},
    {"Sqrt", "", 1, unary<op::sqrt>, "sqrt"},
    {"Sub", "", 1, binary<op::sub>, "sub"},
    {"Sum", "", 1, several<op::add>, "add"},
    {"Swish", "", 1, swish, "sigmoid"},
    {"Tan", "", 1, unary<op::tan>, "tan"},
    {"Tanh", "", 1, unary<op::tanh>, "tanh"},
    {"ThresholdedRelu", "", 1, thresholded, "select"},
    {"Where", "", 1, where, "select"},
    {"Xor", "", 1, binary<op::bit_xor>, "^"},
};

}  // namespace sinter::onnx::rows
