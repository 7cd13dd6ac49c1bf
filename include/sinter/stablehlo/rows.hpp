// stablehlo/rows.hpp: sinter's ops as StableHLO operations, a row for each op.
#pragma once

#include "structural.hpp"

namespace sinter::stablehlo::out {

/// What writes a node: returns its value.
using writer = value (*)(builder& b, node_id id);

struct row {
  ir::op code;
  const char* how;  ///< StableHLO's operation, or several
  writer write;
};

template <formula F>
inline constexpr writer exact = pointwise<F, widened::bytes>;
template <formula F>
inline constexpr writer wide = pointwise<F, widened::all>;
template <formula F>
inline constexpr writer moved = pointwise<F, widened::none>;

/// A row for each op except inputs, constants, steps and their results, which the walk over a graph writes.
inline constexpr row rows[] = {
    {ir::op::add, "add", exact<one<name_of_add>>},
    {ir::op::sub, "subtract", exact<one<name_of_subtract>>},
    {ir::op::mul, "multiply", exact<one<name_of_multiply>>},
    {ir::op::div, "divide", exact<quotient>},
    {ir::op::fmod, "remainder", wide<remainder>},
    {ir::op::pow, "power", wide<power>},
    {ir::op::maximum, "maximum", exact<one<name_of_maximum>>},
    {ir::op::minimum, "minimum", exact<one<name_of_minimum>>},
    {ir::op::atan2, "atan2", wide<one<name_of_atan2>>},
    {ir::op::hypot, "abs, maximum, minimum, divide, sqrt", wide<hypot_of>},
    {ir::op::eq, "compare", exact<compared<name_of_EQ>>},
    {ir::op::ne, "compare", exact<compared<name_of_NE>>},
    {ir::op::lt, "compare", exact<compared<name_of_LT>>},
    {ir::op::le, "compare", exact<compared<name_of_LE>>},
    {ir::op::gt, "compare", exact<compared<name_of_GT>>},
    {ir::op::ge, "compare", exact<compared<name_of_GE>>},
    {ir::op::bit_and, "and", moved<one<name_of_and>>},
    {ir::op::bit_or, "or", moved<one<name_of_or>>},
    {ir::op::bit_xor, "xor", moved<one<name_of_xor>>},
    {ir::op::bit_not, "not", moved<one<name_of_not>>},
    {ir::op::shl, "shift_left", moved<shifted<true>>},
    {ir::op::shr, "shift_right_arithmetic, shift_right_logical", moved<shifted<false>>},
    {ir::op::select, "select", moved<chosen>},
    {ir::op::kinked, "the same value", moved<second_of>},
    {ir::op::neg, "negate", exact<one<name_of_negate>>},
    {ir::op::abs, "abs", exact<absolute>},
    {ir::op::sign, "sign", exact<sign_of>},
    {ir::op::exp, "exponential", wide<one<name_of_exponential>>},
    {ir::op::exp2, "power", wide<exp2_of>},
    {ir::op::expm1, "exponential_minus_one", wide<one<name_of_exponential_minus_one>>},
    {ir::op::log, "log", wide<one<name_of_log>>},
    {ir::op::log2, "log, multiply", wide<log2_of>},
    {ir::op::log1p, "log_plus_one", wide<one<name_of_log_plus_one>>},
    {ir::op::sqrt, "sqrt", wide<one<name_of_sqrt>>},
    {ir::op::root_of_squares, "sqrt", wide<one<name_of_sqrt>>},
    {ir::op::rsqrt, "rsqrt", wide<one<name_of_rsqrt>>},
    {ir::op::cbrt, "cbrt", wide<one<name_of_cbrt>>},
    {ir::op::sin, "sine", wide<one<name_of_sine>>},
    {ir::op::cos, "cosine", wide<one<name_of_cosine>>},
    {ir::op::tan, "tan", wide<one<name_of_tan>>},
    {ir::op::asin, "atan2, sqrt", wide<asin_of>},
    {ir::op::acos, "atan2, sqrt", wide<acos_of>},
    {ir::op::atan, "atan2", wide<atan_of>},
    {ir::op::sinh, "exponential, exponential_minus_one", wide<sinh_of>},
    {ir::op::cosh, "exponential", wide<cosh_of>},
    {ir::op::tanh, "tanh", wide<one<name_of_tanh>>},
    {ir::op::asinh, "log_plus_one, log, sqrt", wide<asinh_of>},
    {ir::op::acosh, "log_plus_one, log, sqrt", wide<acosh_of>},
    {ir::op::atanh, "log_plus_one", wide<atanh_of>},
    {ir::op::sigmoid, "logistic", wide<one<name_of_logistic>>},
    {ir::op::erf, "exponential, multiply, add, select", wide<erf_of>},
    {ir::op::erfc, "exponential, multiply, add, select", wide<erfc_of>},
    {ir::op::floor, "floor", exact<one<name_of_floor>>},
    {ir::op::ceil, "ceil", exact<one<name_of_ceil>>},
    {ir::op::round, "round_nearest_even", exact<one<name_of_round_nearest_even>>},
    {ir::op::trunc, "ceil, floor, select", exact<truncated>},
    {ir::op::isnan, "compare", wide<is_nan>},
    {ir::op::isinf, "abs, compare", wide<is_infinite>},
    {ir::op::isfinite, "is_finite", wide<finite>},
    {ir::op::cast, "convert", cast_to},
    {ir::op::bit_cast, "bitcast_convert", bits_of},
    {ir::op::identity, "the same value", moved<first_of>},
    {ir::op::stop_gradient, "the same value", moved<first_of>},
    {ir::op::iota, "iota", counted},
    {ir::op::reshape, "reshape", shaped},
    {ir::op::permute, "transpose", permuted},
    {ir::op::broadcast, "broadcast_in_dim", widened_to},
    {ir::op::slice, "slice, reverse", sliced},
    {ir::op::window, "convolution, reduce_window or gather", windowed},
    {ir::op::pad, "pad", padded},
    {ir::op::concat, "concatenate", joined},
    {ir::op::reduce, "reduce, reduce_window", reduced},
    {ir::op::arg_reduce, "reduce, iota", extreme_place},
    {ir::op::gather, "gather", gathered},
    {ir::op::scatter_add, "scatter", scattered},
    {ir::op::scatter, "scatter", scattered},
    {ir::op::dot, "dot_general, convolution", product},
    {ir::op::scan, "slice, concatenate or while", scanned},
    {ir::op::argsort, "sort", order_of},
    {ir::op::searchsorted, "gather, compare, select", searched},
    {ir::op::size, "constant", extent_value},
    {ir::op::sum_squares, "multiply, reduce", squares},
};

}  // namespace sinter::stablehlo::out
