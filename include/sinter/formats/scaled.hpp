// formats/scaled.hpp: products of numbers of few bits, and their scales.
#pragma once

#include <limits>
#include <utility>

#include "../sinter.hpp"

namespace sinter {

namespace detail {

/// user_error, for at.op, if broadcasting with a scale would enlarge x.
template <class X, class S>
void check_scale(const X& x, const S& scale, location at) {
  if constexpr (tensor_like<S>) {
    const dims to = to_dims(extents_of(x, at)), from = to_dims(extents_of(scale, at));
    if (op_shapes::broadcast_to(from, to).error)
      fail(at.op, "a scale is " + text::shape(from) + ", which does not broadcast to " + text::shape(to), at);
  }
}

}  // namespace detail

/// (Σ a b) scale_a scale_b as R: the product of 8-bit (or other) floats with sums in f32. Scales are numbers, or f32 tensors
/// that broadcast to the product's shape: (rows, 1) for a, (columns) for b. user_error for scales of other extents.
template <element R = float, tensor_like A, tensor_like B, operand_like S, operand_like T>
auto scaled_matmul(const A& a, const B& b, const S& scale_a, const T& scale_b, location where = location::current()) {
  constexpr bool floats =
      is_float(dtype_of<typename A::value_type>) && is_float(dtype_of<typename B::value_type>) && is_float(dtype_of<R>);
  static_assert(floats, "sinter: [scaled_matmul] takes and gives floating dtypes; integers: quantized_matmul");
  if constexpr (floats) {
    const location at = where.in("scaled_matmul");
    const auto product = matmul(sinter::cast<float>(a, at), sinter::cast<float>(b, at), at);
    detail::check_scale(product, scale_a, at);
    detail::check_scale(product, scale_b, at);
    return detail::evaluate(sinter::cast<R>(product * scale_a * scale_b, at), at);
  } else {
    return a;
  }
}

/// x (…, k) times integers w (k, n), which stand for w · scales. scales are (n), or (groups, n) for equal groups of w's rows.
/// The result has x's dtype, and so have the scales. user_error if groups do not divide k, and unless each column has a
/// scale.
template <tensor_like X, tensor_like W, tensor_like S>
auto quantized_matmul(const X& x, const W& w, const S& scales, location where = location::current()) {
  constexpr bool fit = W::rank == 2 && (S::rank == 1 || S::rank == 2) && is_integer(dtype_of<typename W::value_type>) &&
                       is_float(dtype_of<typename X::value_type>);
  static_assert(fit,
                "sinter: [quantized_matmul] x is floating, w integers (rows, columns), scales (columns) or (groups, "
                "columns)");
  constexpr bool types = std::is_same_v<typename X::value_type, typename S::value_type>;
  static_assert(types, "sinter: [quantized_matmul] the scales have the dtype of x; cast them with cast<T>(scales)");
  if constexpr (fit && types) {
    const location at = where.in("quantized_matmul");
    using T = typename X::value_type;
    const auto numbers = sinter::cast<T>(w, at);
    const dims rows = detail::to_dims(detail::extents_of(w, at)), own = detail::to_dims(detail::extents_of(scales, at));
    if (own[S::rank - 1] != rows[1])
      fail("quantized_matmul",
           "w is " + text::shape(rows) + ", scales are " + text::shape(own) + "; give a scale for each column of w",
           at);
    if constexpr (S::rank == 1) {
      return detail::evaluate(matmul(x, numbers, at) * scales, at);
    } else {
      const dim groups = own[0];
      if (groups == 0 || rows[0] % groups != 0)
        fail("quantized_matmul",
             std::to_string(std::int64_t(groups)) + " groups of scales do not divide the " +
                 std::to_string(std::int64_t(rows[0])) + " rows of w",
             at);
      const auto apart =
          detail::reshape_to<decltype(numbers), dims(3)>(numbers, dims{groups, rows[0] / groups, rows[1]}, at);
      const auto scaled = detail::evaluate(apart * expand_dims<1>(scales, at), at);
      return matmul(x, detail::reshape_to<decltype(scaled), dims(2)>(scaled, rows, at), at);
    }
  } else {
    return x;
  }
}

/// Integers of dtype R for w (k, n), and the scale of each column, so that quantized_matmul(x, q, scales) is about matmul(x,
/// w). A column's largest magnitude becomes R's largest number or its negative. In a column with infinities all other
/// elements become 0. Quotients are in f64, and are right for scales that are subnormal, or too small for w's dtype.
template <element R = std::int8_t, tensor_like W>
auto quantize(const W& w, location where = location::current()) {
  constexpr bool fit = W::rank == 2 && is_float(dtype_of<typename W::value_type>) && is_integer(dtype_of<R>) &&
                       !is_unsigned(dtype_of<R>);
  static_assert(fit, "sinter: [quantize] takes floats (rows, columns), gives signed integers");
  if constexpr (fit) {
    const location at = where.in("quantize");
    using T = typename W::value_type;
    constexpr R most = std::numeric_limits<R>::max();
    const auto values = detail::evaluate(sinter::cast<double>(w, at), at);
    const auto largest = detail::evaluate(max(abs(values, at), axis<0>, at), at);
    const auto scales = detail::evaluate(sinter::cast<T>(div(largest, static_cast<double>(most), at), at), at);
    const auto some = detail::evaluate(sinter::where(eq(largest, 0, at), 1, largest, at), at);
    const auto part = sinter::where(isinf(values, at), sign(values, at), div(values, some, at), at);
    const auto q = sinter::cast<R>(round(mul(part, static_cast<double>(most), at), at), at);
    // R's largest number may round up to a double beyond it.
    return std::pair{tensor<R, W::static_shape>(maximum(q, static_cast<R>(-most), at)), scales};
  } else {
    return std::pair{w, w};
  }
}

}  // namespace sinter
