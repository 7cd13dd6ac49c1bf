// front/functions/pointwise.hpp: pointwise functions: one for each row of ops.def, and their compositions.
#pragma once

#include <limits>
#include <tuple>
#include <type_traits>

#include "../tensor/expr.hpp"

namespace sinter {

namespace detail {

template <class... Args>
concept some_tensor = (operand_like<Args> && ...) && (tensor_like<Args> || ...);

/// The largest finite number of a floating dtype.
template <class T>
inline constexpr double largest_of = std::is_same_v<T, double>    ? std::numeric_limits<double>::max()
                                     : std::is_same_v<T, f16>     ? 65504
                                     : std::is_same_v<T, bf16>    ? 0x1.fep127
                                     : std::is_same_v<T, f8_e4m3> ? 448
                                     : std::is_same_v<T, f8_e5m2> ? 57344
                                                                  : std::numeric_limits<float>::max();

}  // namespace detail

/// Each row of ops.def is a function of its arity: exp(x), pow(x, y), select(mask, x, y). Operands are tensors, expressions or C++
/// numbers; they broadcast. Results are lazy. Wrong dtypes and static extents are compile-time errors. Extents that do not
/// broadcast are a user_error at evaluation.
#define SINTER_POINTWISE(name, arity, rule, value, da, db, dc) SINTER_FUNCTION_##arity(name, rule)
#define SINTER_FUNCTION_1(NAME, RULE)                                                                                  \
  template <tensor_like A>                                                                                             \
  requires(!ir::names_type(ir::dtype_rule::RULE)) constexpr auto NAME(const A& a, location at = location::current()) { \
    return detail::make<ir::op::NAME>(at, a);                                                                          \
  }
#define SINTER_FUNCTION_2(NAME, RULE)                                              \
  template <class A, class B>                                                      \
  requires detail::some_tensor<A, B>                                               \
  constexpr auto NAME(const A& a, const B& b, location at = location::current()) { \
    return detail::make<ir::op::NAME>(at, a, b);                                   \
  }
#define SINTER_FUNCTION_3(NAME, RULE)                                                          \
  template <class A, class B, class C>                                                         \
  requires detail::some_tensor<A, B, C>                                                        \
  constexpr auto NAME(const A& a, const B& b, const C& c, location at = location::current()) { \
    return detail::make<ir::op::NAME>(at, a, b, c);                                            \
  }
#include "../../ir/ops.def"
#undef SINTER_FUNCTION_1
#undef SINTER_FUNCTION_2
#undef SINTER_FUNCTION_3

/// x as dtype R. Floats truncate to integers, saturating, and NaN gives 0; integers wrap; bool is x != 0.
template <element R, tensor_like X>
constexpr auto cast(const X& x, location at = location::current()) {
  return detail::make<ir::op::cast, R>(at, x);
}
// An error, except for std::complex, to which <sinter/complex.hpp> casts.
template <class R, tensor_like X>
requires(!element<R> && !requires(const R& r) { r.imag(); }) constexpr auto cast(const X& x) {
  static_assert(
      element<R>,
      "sinter: [cast] the dtypes are float, double, f16, bf16, f8_e4m3, f8_e5m2, bool, std::int8_t to std::int64_t and "
      "std::uint8_t to std::uint64_t");
  return x;
}

namespace detail {

/// The bit layout of the narrow floats.
template <class T>
struct narrow_format {
  static constexpr int width = 8 * int(sizeof(T)), mantissa = digits_of(dtype_of<T>) - 1,
                       exponent = width - 1 - mantissa, bias = (1 << (exponent - 1)) - 1;
  static constexpr bool infinite = exponent != 4, as_float = exponent == 8;  ///< bf16 has the exponents of f32
  static constexpr std::uint32_t special = infinite ? ((1u << exponent) - 1) << mantissa : 0x7f;
  static constexpr std::uint32_t shift = 23 - mantissa, rebias = 127 - bias;
  /// The bits of the smallest normal number, which is also the number of subnormal numbers.
  static constexpr std::uint32_t normal = as_float ? 0 : 1u << mantissa,
                                 wide_normal = as_float ? 0 : (rebias + 1) << 23;
  static constexpr double small = static_cast<double>(std::uint64_t{1} << (as_float ? 0 : bias - 1 + mantissa));
};

/// The bits of narrow floats, u32.
template <class F, class X>
auto bits_of(const X& x, location at) {
  using n = narrow_format<F>;
  const auto wider = detail::evaluate(cast<float>(x, at), at);
  const auto b = detail::evaluate(make<ir::op::bit_cast, std::uint32_t>(at, wider), at);
  const auto a = bit_and(b, 0x7fffffffu, at);
  const auto top = shr(a, n::shift, at);
  const auto normal = sub(top, n::rebias << n::mantissa, at);
  const auto small = cast<std::uint32_t>(mul(abs(wider, at), formula_number{n::small}, at), at);
  const auto special = bit_or(bit_and(top, (1u << n::mantissa) - 1, at), n::special, at);
  const auto known = make<ir::op::select>(at, ge(a, 0x7f800000u, at), special, normal);
  const auto size = make<ir::op::select>(at, lt(a, n::wide_normal, at), small, known);
  return bit_or(shr(bit_and(b, 0x80000000u, at), static_cast<std::uint32_t>(32 - n::width), at), size, at);
}

/// Narrow floats of bits, u32.
template <class F, class X>
auto of_bits(const X& x, location at) {
  using n = narrow_format<F>;
  const auto u = detail::evaluate(x, at);
  const auto m = bit_and(u, (1u << (n::width - 1)) - 1, at);
  const auto top = shl(m, n::shift, at);
  const auto small =
      make<ir::op::bit_cast, std::uint32_t>(at, mul(cast<float>(m, at), formula_number{1 / n::small}, at));
  const auto special = bit_or(top, 0x7f800000u, at);
  const auto known = make<ir::op::select>(at, ge(m, n::special, at), special, add(top, n::rebias << 23, at));
  const auto size = make<ir::op::select>(at, lt(m, n::normal, at), small, known);
  const auto sign = shl(shr(u, static_cast<std::uint32_t>(n::width - 1), at), 31u, at);
  return cast<F>(make<ir::op::bit_cast, float>(at, bit_or(sign, size, at)), at);
}

template <class R, class X>
auto bit_cast_of(const X& x, location at) {
  using T = typename X::value_type;
  using ir::has_own_bits;
  if constexpr (std::is_same_v<R, T>) {
    return identity(x, at);
  } else if constexpr (has_own_bits(dtype_of<R>) && has_own_bits(dtype_of<T>)) {
    return make<ir::op::bit_cast, R>(at, x);
  } else {
    const auto bits = [&] {
      if constexpr (has_own_bits(dtype_of<T>))
        return detail::evaluate(bit_and(cast<std::uint32_t>(x, at), (1u << 8 * sizeof(T)) - 1, at), at);
      else return detail::evaluate(bits_of<T>(x, at), at);
    }();
    if constexpr (has_own_bits(dtype_of<R>)) return cast<R>(bits, at);
    else return of_bits<R>(bits, at);
  }
}

}  // namespace detail

/// x's bits as dtype R of the same size: bit_cast<std::int32_t>(x) of f32. No derivative. NaN keeps its bits; in formats of 16 and
/// 8 bits it keeps only its sign. Not for bool.
template <element R, tensor_like X>
auto bit_cast(const X& x, location at = location::current()) {
  constexpr dtype from = dtype_of<typename X::value_type>, to = dtype_of<R>;
  constexpr bool fits = size_of(from) == size_of(to) && !is_bool(from) && !is_bool(to);
  static_assert(
      fits,
      "sinter: [bit_cast] gives a dtype of the same size, and neither takes nor gives bool; cast<T>(x) converts "
      "numbers");
  if constexpr (fits) return detail::bit_cast_of<R>(x, at.in("bit_cast"));
  else return x;
}

/// x where the condition holds, else y. The condition is a bool tensor.
template <tensor_like Condition, operand_like X, operand_like Y>
constexpr auto where(const Condition& condition, const X& x, const Y& y, location at = location::current()) {
  if constexpr (!detail::accepts<detail::named::where, ir::op::select, void, Condition, X, Y>()) return condition;
  else return detail::make<ir::op::select>(at.in("where"), condition, x, y);
}

/// x limited to [low, high]; NaN stays NaN.
template <tensor_like X, operand_like Low, operand_like High>
constexpr auto clamp(const X& x, const Low& low, const High& high, location at = location::current()) {
  using name = detail::named::clamp;
  if constexpr (!detail::accepts<name, ir::op::maximum, void, X, Low>()) return x;
  else if constexpr (!detail::accepts<name, ir::op::minimum, void, X, High>()) return x;
  else return minimum(maximum(x, low, at.in("clamp")), high, at.in("clamp"));
}

/// max(x, 0), for any dtype but bool.
template <tensor_like X>
constexpr auto relu(const X& x, location at = location::current()) {
  if constexpr (detail::accepts<detail::named::relu, ir::op::neg, void, X>()) return maximum(x, 0, at);
  else return x;
}

/// The formula of gelu.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // g++: of enumerators that have a scope
enum class approximate : std::uint8_t { none, tanh };
#pragma GCC diagnostic pop

/// x Φ(x) = x/2 · (1 + erf(x/√2)), floating dtypes (Hendrycks and Gimpel, 2016).
template <tensor_like X>
constexpr auto gelu(const X& x, location at = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::gelu, X>()) return x;
  else
    return detail::make<ir::op::mul>(at, mul(x, detail::formula_number{0.5}, at),
                                     add(erf(mul(x, detail::formula_number{0.7071067811865476}, at), at), 1, at));
}

/// The tanh form of gelu, computed as x·σ(2√(2/π)·(x + 0.044715 x³)). Beyond ±32 σ is 0 or 1. Clamping its operand to ±32
/// keeps its derivative from overflowing.
template <tensor_like X>
constexpr auto gelu_tanh(const X& x, location at = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::gelu_tanh, X>()) {
    return x;
  } else {
    using detail::formula_number;
    const auto near = minimum(maximum(x, formula_number{-32}, at), formula_number{32}, at);
    const auto slope = add(mul(mul(near, near, at), formula_number{0.044715 * 1.5957691216057308}, at),
                           formula_number{1.5957691216057308}, at);
    return mul(x, sigmoid(mul(near, slope, at), at), at);
  }
}

/// gelu with the approximation as a constant: gelu<approximate::tanh>(x).
template <approximate How, tensor_like X>
constexpr auto gelu(const X& x, location at = location::current()) {
  if constexpr (How == approximate::tanh) return gelu_tanh(x, at);
  else return gelu(x, at);
}

/// x · σ(x), floating dtypes.
template <tensor_like X>
constexpr auto silu(const X& x, location at = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::silu, X>()) return x;
  else return mul(x, sigmoid(x, at), at);
}

/// log(1 + exp(x)), as max(x, 0) + log1p(exp(-|x|)), which does not overflow. At 0 both terms use the
/// branch for negative x, since their sum is smooth there.
template <tensor_like X>
constexpr auto softplus(const X& x, location at = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::softplus, X>()) {
    return x;
  } else {
    const auto positive = gt(x, 0, at);
    return add(where(positive, x, 0, at), log1p(exp(where(positive, neg(x, at), x, at), at), at), at);
  }
}

/// log(σ(x)) = -softplus(-x), floating dtypes.
template <tensor_like X>
constexpr auto log_sigmoid(const X& x, location at = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::log_sigmoid, X>()) return x;
  else return neg(softplus(neg(x, at), at), at);
}

/// log(exp(x) + exp(y)), relative to the larger one, so that it does not overflow. Floating dtypes.
template <class X, class Y>
requires detail::some_tensor<X, Y>
constexpr auto logaddexp(const X& x, const Y& y, location at = location::current()) {
  if constexpr (!detail::accepts<detail::named::logaddexp, ir::op::hypot, void, X, Y>()) {
    return std::get<0>(std::tie(x, y));
  } else {
    // Equal operands take the branch of the second in both terms, so that the sum is smooth. Equal infinities have no
    // derivative.
    const auto first = gt(x, y, at);
    const auto infinite = bit_and(eq(x, y, at), isnan(sub(x, y, at), at), at);
    const auto below = where(infinite, 0, where(first, sub(y, x, at), sub(x, y, at), at), at);
    const auto sum = add(where(first, x, y, at), log1p(exp(below, at), at), at);
    return where(infinite, stop_gradient(add(x, y, at), at), sum, at);
  }
}

/// x / (1 + |x|), floating dtypes.
template <tensor_like X>
constexpr auto softsign(const X& x, location at = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::softsign, X>()) return x;
  else return div(x, add(abs(x, at), 1, at), at);
}

/// x for x > 0, else alpha · (exp(x) - 1), floating dtypes; its derivative at 0 is alpha.
template <tensor_like X>
constexpr auto elu(const X& x, double alpha = 1, location at = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::elu, X>()) {
    return x;
  } else {
    const auto positive = gt(x, 0, at);
    return where(positive, x, mul(expm1(where(positive, 0, x, at), at), alpha, at), at);
  }
}

/// x for x > 0, else slope · x, floating dtypes.
template <tensor_like X>
constexpr auto leaky_relu(const X& x, double slope = 0.01, location at = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::leaky_relu, X>()) return x;
  else return where(gt(x, 0, at), x, mul(x, slope, at), at);
}

/// x · min(max(x + 3, 0), 6) / 6, floating dtypes (Howard et al., 2019).
template <tensor_like X>
constexpr auto hardswish(const X& x, location at = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::hardswish, X>()) return x;
  else return mul(x, mul(clamp(add(x, 3, at), 0, 6, at), detail::formula_number{1.0 / 6}, at), at);
}

/// x · tanh(softplus(x)), floating dtypes (Misra, 2019).
template <tensor_like X>
constexpr auto mish(const X& x, location at = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::mish, X>()) return x;
  else return mul(x, tanh(softplus(x, at), at), at);
}

/// min(max(x, 0), 6), for any dtype but bool.
template <tensor_like X>
constexpr auto relu6(const X& x, location at = location::current()) {
  if constexpr (detail::accepts<detail::named::relu6, ir::op::neg, void, X>()) return minimum(maximum(x, 0, at), 6, at);
  else return x;
}

/// 1.0507 · (x for x > 0, else 1.6733 · (exp(x) - 1)), floating dtypes (Klambauer et al., 2017).
template <tensor_like X>
constexpr auto selu(const X& x, location at = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::selu, X>()) {
    return x;
  } else {
    using detail::formula_number;
    constexpr double scale = 1.0507009873554804934, alpha = 1.6732632423543772848;
    const auto positive = gt(x, 0, at);
    return where(positive, mul(x, formula_number{scale}, at),
                 mul(expm1(where(positive, 0, x, at), at), formula_number{scale * alpha}, at), at);
  }
}

/// x · x, for any dtype but bool.
template <tensor_like X>
constexpr auto square(const X& x, location at = location::current()) {
  if constexpr (detail::accepts<detail::named::square, ir::op::neg, void, X>()) return mul(x, x, at);
  else return x;
}

/// 1 / x, for any dtype but bool; integers divide as with `/`.
template <tensor_like X>
constexpr auto reciprocal(const X& x, location at = location::current()) {
  if constexpr (detail::accepts<detail::named::reciprocal, ir::op::neg, void, X>()) return div(1, x, at);
  else return x;
}

/// The derivative of digamma: polygamma(1, x). Floating dtypes.
template <tensor_like X>
constexpr auto trigamma(const X& x, location at = location::current()) {
  if constexpr (detail::takes_floats<detail::named::trigamma, X>()) return polygamma(1, x, at);
  else return x;
}

/// sin(πx) / (πx), and 1 at 0. Below |πx| = 0.5 it is a series with the function's derivatives. Floating dtypes.
template <tensor_like X>
constexpr auto sinc(const X& x, location at = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::sinc, X>()) {
    return x;
  } else {
    using detail::formula_number;
    const auto t = mul(x, formula_number{3.141592653589793}, at);
    const auto near = lt(abs(t, at), formula_number{0.5}, at);
    const auto q = square(where(near, t, 0, at), at);
    const auto rest = where(near, 1, t, at);
    const auto term = [&](double c, const auto& more) { return add(mul(q, more, at), formula_number{c}, at); };
    const auto last = add(mul(q, formula_number{1.0 / 6227020800}, at), formula_number{-1.0 / 39916800}, at);
    const auto series = term(1, term(-1.0 / 6, term(1.0 / 120, term(-1.0 / 5040, term(1.0 / 362880, last)))));
    return where(near, series, div(sin(rest, at), rest, at), at);
  }
}

/// x with `nan` in place of NaN, and the given or the largest finite numbers in place of infinities. Floating dtypes.
template <tensor_like X>
constexpr auto nan_to_num(const X& x, double nan = 0, double posinf = detail::largest_of<typename X::value_type>,
                          double neginf = -detail::largest_of<typename X::value_type>,
                          location at = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::nan_to_num, X>()) return x;
  else
    return where(isnan(x, at), nan,
                 where(gt(x, detail::largest_of<typename X::value_type>, at), posinf,
                       where(lt(x, -detail::largest_of<typename X::value_type>, at), neginf, x, at), at),
                 at);
}

namespace detail {

/// atol + rtol · |a|.
template <class A>
constexpr auto margin(const A& a, double rtol, double atol, location at) {
  if constexpr (tensor_like<A>) return add(mul(abs(a, at), rtol, at), atol, at);
  else return (static_cast<double>(a) < 0 ? -static_cast<double>(a) : static_cast<double>(a)) * rtol + atol;
}
template <class A>
constexpr auto no_number(const A& a, location at) {
  if constexpr (tensor_like<A>) return isnan(a, at);
  else return static_cast<double>(a) != static_cast<double>(a);
}

}  // namespace detail

/// |x - y| <= atol + rtol · |y|, or equal infinities. NaN is close to NaN if `equal_nan` is true. Floating dtypes.
template <class X, class Y>
requires detail::some_tensor<X, Y>
constexpr auto isclose(const X& x, const Y& y, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
                       location at = location::current()) {
  if constexpr (!detail::accepts<detail::named::isclose, ir::op::hypot, void, X, Y>()) {
    return std::get<0>(std::tie(x, y));
  } else {
    const auto off = abs(sub(x, y, at), at);
    const auto near = le(off, detail::margin(y, rtol, atol, at), at);
    const auto both = bit_and(bit_and(detail::no_number(x, at), detail::no_number(y, at), at), equal_nan, at);
    return bit_or(bit_or(eq(x, y, at), bit_and(near, isfinite(off, at), at), at), both, at);
  }
}

/// The number of one bits, for negative numbers in two's complement. Integers; keeps the dtype.
template <tensor_like X>
constexpr auto popcount(const X& x, location at = location::current()) {
  if constexpr (!detail::accepts<detail::named::popcount, ir::op::shl, void, X, X>()) {
    return x;
  } else {
    using T = typename X::value_type;
    using U = std::make_unsigned_t<T>;
    constexpr int width = 8 * static_cast<int>(sizeof(U));
    constexpr U ones = static_cast<U>(~U(0)) / 255;
    const auto bits = cast<U>(x, at);
    const auto pairs = sub(bits, bit_and(shr(bits, 1, at), static_cast<U>(ones * 0x55), at), at);
    const auto fours = add(bit_and(pairs, static_cast<U>(ones * 0x33), at),
                           bit_and(shr(pairs, 2, at), static_cast<U>(ones * 0x33), at), at);
    const auto bytes = bit_and(add(fours, shr(fours, 4, at), at), static_cast<U>(ones * 0x0f), at);
    return cast<T>(shr(mul(bytes, ones, at), width - 8, at), at);
  }
}

}  // namespace sinter
