// nn/init.hpp: how weights are drawn: the schemes of Glorot, He and LeCun, orthogonal matrices, plain distributions.
#pragma once

#include <array>
#include <cmath>
#include <string>

#include "values.hpp"

namespace sinter::nn {

/// How a weight is drawn. Made by the functions below; a layer's `init` takes one in its options.
struct initializer {
  enum class law { constant, uniform, normal, truncated, orthogonal };
  enum class fan { none, in, out, mean };  ///< what the variance is divided by

  law how = law::uniform;
  double scale = 1;  ///< the variance times the fan, or without one the deviation; a constant's value; an orthogonal one's gain
  double center = 0;
  fan by = fan::none;

  /// A weight (…, in, out), where leading axes are a window: their product is in both fans. `k` is used up.
  template <element T, extent_like I, std::size_t R>
  tensor<T, detail::of_rank<R>> operator()(const key& k, const std::array<I, R>& extents,
                                           location at = location::current()) const;
  /// The same with fans that are told.
  template <element T, extent_like I, std::size_t R>
  tensor<T, detail::of_rank<R>> draw(const key& k, const std::array<I, R>& extents, double fan_in, double fan_out,
                                     location at = location::current()) const;

  /// What draws of one kind have as deviation; user_error for one that is not finite.
  double deviation(double fan_in, double fan_out, location at) const {
    if (!std::isfinite(scale) || (by != fan::none && scale < 0))
      sinter::fail("nn::initializer", "the scale must be finite, a variance 0 or more; it is " + text::number(scale),
                           at);
    const double fans[] = {1, fan_in, fan_out, (fan_in + fan_out) / 2};
    return by == fan::none ? scale : std::sqrt(scale / std::max(1.0, fans[static_cast<int>(by)]));
  }
};

/// U(-a, a) with a = √(6 / (in + out)) (Glorot and Bengio, 2010), and N(0, 2 / (in + out)), beyond two deviations drawn anew.
inline initializer glorot_uniform(double gain = 1) {
  return {initializer::law::uniform, gain * gain, 0, initializer::fan::mean};
}
inline initializer glorot_normal(double gain = 1) {
  return {initializer::law::truncated, gain * gain, 0, initializer::fan::mean};
}
/// For relu: variance 2 / in (He et al., 2015).
inline initializer he_uniform(double gain = std::sqrt(2.0)) {
  return {initializer::law::uniform, gain * gain, 0, initializer::fan::in};
}
inline initializer he_normal(double gain = std::sqrt(2.0)) {
  return {initializer::law::truncated, gain * gain, 0, initializer::fan::in};
}
/// Variance 1 / in (LeCun et al., 1998).
inline initializer lecun_uniform() { return he_uniform(1); }
inline initializer lecun_normal() { return he_normal(1); }
/// N(mean, deviation²), and with numbers beyond two deviations drawn anew.
inline initializer normal_of(double deviation = 1, double mean = 0) {
  return {initializer::law::normal, deviation, mean, initializer::fan::none};
}
inline initializer truncated_of(double deviation = 1, double mean = 0) {
  return {initializer::law::truncated, deviation, mean, initializer::fan::none};
}
/// U(low, high).
inline initializer uniform_of(double low, double high) {
  return {initializer::law::uniform, (high - low) / std::sqrt(12.0), (low + high) / 2, initializer::fan::none};
}
inline initializer constant_of(double value) {
  return {initializer::law::constant, value, 0, initializer::fan::none};
}
/// Rows or columns, whichever are fewer, are orthonormal, times the gain (Saxe et al., 2014): of the matrix whose columns are the
/// last axis.
inline initializer orthogonal(double gain = 1) {
  return {initializer::law::orthogonal, gain, 0, initializer::fan::none};
}
/// PyTorch's default for weights: U(-1/√in, 1/√in).
inline initializer torch_uniform() { return he_uniform(std::sqrt(1.0 / 3)); }

namespace detail {

/// Standard numbers of a law, as one axis.
template <element W>
tensor<W, 1> drawn(const key& k, initializer::law how, dim count, location at) {
  using law = initializer::law;
  const std::array<dim, 1> extents{count};
  if (how == law::uniform) {
    constexpr double root = 3.4641016151377544;  // √12: variance 1
    return sinter::detail::evaluate(mul(sub(uniform<W>(k, extents, {}, at), 0.5, at), root, at), at);
  }
  // What is cut off at two deviations has this less variance.
  constexpr double cut = 0.87962566103423978;
  if (how == law::truncated)
    return sinter::detail::evaluate(mul(truncated_normal<W>(k, -2, 2, extents, {}, at), 1 / cut, at), at);
  return normal<W>(k, extents, {}, at);
}

/// The nearest matrix whose rows are orthonormal, of one that is not higher than wide: Newton's iteration for the polar factor.
template <class Matrix>
Matrix orthonormal_rows(const Matrix& x, location at) {
  const Matrix first = sinter::detail::evaluate(mul(x, rsqrt(sinter::detail::sum_over<sinter::op_shapes::all_axes(2), false>(mul(x, x, at), at), at), at), at);
  const auto step = [at](const auto&, const Matrix& y) {
    const Matrix cube = matmul(matmul(y, sinter::transpose(y, at), at), y, at);
    return Matrix(sinter::detail::evaluate(sub(mul(y, 1.5, at), mul(cube, 0.5, at), at), at));
  };
  return fori_loop(0, 60, step, first, at);  // 1.5^60 lifts the smallest of the singular values
}

template <element T>
tensor<T, 1> drawn_orthogonal(const key& k, dim rows, dim columns, location at) {
  using matrix = tensor<double, 2>;
  const bool wide = rows <= columns;
  const std::array<dim, 2> extents{wide ? rows : columns, wide ? columns : rows};
  const matrix q = orthonormal_rows(matrix(normal<double>(k, extents, {}, at)), at);
  const matrix placed = wide ? q : matrix(sinter::detail::evaluate(sinter::transpose(q, at), at));
  return sinter::detail::evaluate(sinter::cast<T>(sinter::flatten(placed, at), at), at);
}

}  // namespace detail

template <element T, extent_like I, std::size_t R>
tensor<T, detail::of_rank<R>> initializer::draw(const key& k, const std::array<I, R>& extents, double fan_in,
                                                double fan_out, location here) const {
  using result = tensor<T, detail::of_rank<R>>;
  using work = sinter::detail::wider_type<T>;
  const location at = here.in("nn::initializer");
  if (how == law::constant) return full<T>(static_cast<T>(scale), extents, {}, at);
  dim count = 1;
  for (const auto& n : extents) count = count * dim(n);
  const double spread = deviation(fan_in, fan_out, at);
  const tensor<work, 1> numbers = [&] {
    if (how != law::orthogonal) return detail::drawn<work>(k, how, count, at);
    const dim columns = R == 0 ? dim(1) : dim(extents[R - 1]);
    return detail::drawn_orthogonal<work>(k, columns == 0 ? dim(0) : count / columns, columns, at);
  }();
  const auto scaled = add(mul(numbers, spread, at), center, at);
  return result(reshape(detail::narrow<T>(scaled, at), extents, at));
}

template <element T, extent_like I, std::size_t R>
tensor<T, detail::of_rank<R>> initializer::operator()(const key& k, const std::array<I, R>& extents,
                                                      location at) const {
  double window = 1;
  for (std::size_t i = 0; i + 2 < R; ++i) window *= static_cast<double>(std::int64_t(extents[i]));
  const double in = R < 2 ? 1 : static_cast<double>(std::int64_t(extents[R < 2 ? 0 : R - 2])),
               out = R < 1 ? 1 : static_cast<double>(std::int64_t(extents[R - 1]));
  return draw<T>(k, extents, window * in, window * out, at);
}

}  // namespace sinter::nn
