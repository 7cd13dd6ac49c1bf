// front/functions/pointwise.hpp: pointwise functions: one for every row of ops.def, and those composed of them.
#pragma once

#include "../tensor/expr.hpp"

namespace sinter {

namespace detail {

template <class... Args>
concept some_tensor = (operand_like<Args> && ...) && (tensor_like<Args> || ...);

}  // namespace detail

/// Every row of ops.def is a function of its arity: exp(x), pow(x, y), select(mask, x, y). Operands are tensors,
/// expressions or C++ numbers; they broadcast. Results are lazy. Wrong dtypes and static extents are compile-time errors,
/// extents that do not broadcast a user_error where the result is evaluated.
#define SINTER_POINTWISE(name, arity, rule, value, da, db, dc) SINTER_FUNCTION_##arity(name, rule)
#define SINTER_FUNCTION_1(NAME, RULE)                                               \
  template <tensor_like A>                                                          \
  requires(ir::dtype_rule::RULE != ir::dtype_rule::conversion) constexpr auto NAME( \
      const A& a, location at = location::current()) {                              \
    return detail::make<ir::op::NAME>(at, a);                                       \
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

/// x as dtype R. Floats truncate to integers, saturating, NaN gives 0; integers wrap; anything to bool is x != 0.
template <element R, tensor_like X>
constexpr auto cast(const X& x, location at = location::current()) {
  return detail::make<ir::op::cast, R>(at, x);
}
template <class R, tensor_like X>
requires(!element<R>) constexpr auto cast(const X& x) {
  static_assert(
      element<R>,
      "sinter: [cast] the dtypes are float, double, f16, bf16, f8_e4m3, f8_e5m2, bool, std::int8_t to std::int64_t and "
      "std::uint8_t to std::uint64_t");
  return x;
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

/// How gelu is computed.
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

/// The tanh form of gelu, as x·σ(2√(2/π)·(x + 0.044715 x³)), which equals it. Beyond ±32 σ is 0 or 1, and its operand is that of
/// ±32: its derivative does not overflow.
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

/// log(1 + exp(x)), as max(x, 0) + log1p(exp(-|x|)), which does not overflow. Both terms take the side of negative numbers at 0, where
/// the sum is smooth.
template <tensor_like X>
constexpr auto softplus(const X& x, location at = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::softplus, X>()) {
    return x;
  } else {
    const auto positive = gt(x, 0, at);
    return add(where(positive, x, 0, at), log1p(exp(where(positive, neg(x, at), x, at), at), at), at);
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

}  // namespace sinter
