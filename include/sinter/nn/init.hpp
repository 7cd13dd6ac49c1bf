// nn/init.hpp: initialisers of weights: the schemes of Glorot, He and LeCun, orthogonal matrices, plain distributions.
#pragma once

#include <array>
#include <cmath>
#include <string>

#include "values.hpp"

namespace sinter::nn {

/// The distribution of a weight. The functions below make it, and the options of a layer's `init` take it.
struct initializer {
  /// Numbers of mean 0 and variance 1 for a matrix of rows and columns, as one axis.
  using law = tensor<double, 1> (*)(const key& k, dim rows, dim columns, location at);
  enum class fan { none, in, out, mean };  ///< divides the variance

  law how = nullptr;  ///< none: `center` everywhere
  double scale = 1;   ///< the variance times the fan; without a fan the deviation
  double center = 0;
  fan by = fan::none;

  /// A weight (…, in, out). Leading axes are a window, and both fans contain their product. Use `k` for nothing else.
  template <element T = float, extent_like I, std::size_t R>
  tensor<T, detail::of_rank<R>> operator()(const key& k, const std::array<I, R>& extents,
                                           location at = location::current()) const;
  /// A weight with the given fans.
  template <element T, extent_like I, std::size_t R>
  tensor<T, detail::of_rank<R>> draw(const key& k, const std::array<I, R>& extents, double fan_in, double fan_out,
                                     location at = location::current()) const;

  /// The factor of the law's numbers; user_error for a scale that is not finite, or a variance below 0.
  double deviation(double fan_in, double fan_out, location at) const {
    if (!std::isfinite(scale) || (by != fan::none && scale < 0))
      fail("nn::initializer", "the scale must be finite, a variance 0 or more; it is " + text::number(scale), at);
    const double fans[] = {1, fan_in, fan_out, (fan_in + fan_out) / 2};
    return by == fan::none ? scale : std::sqrt(scale / std::max(1.0, fans[static_cast<int>(by)]));
  }
};

namespace detail {

// Templates, so that only laws that a program names are compiled.

template <class = void>
tensor<double, 1> uniform_law(const key& k, dim rows, dim columns, location at) {
  constexpr double root = 3.4641016151377544;  // √12: variance 1
  const auto x = uniform<double>(k, std::array{rows * columns}, {}, at);
  return sinter::detail::evaluate(mul(sub(x, 0.5, at), root, at), at);
}
template <class = void>
tensor<double, 1> normal_law(const key& k, dim rows, dim columns, location at) {
  return normal<double>(k, std::array{rows * columns}, {}, at);
}
template <class = void>
tensor<double, 1> truncated_law(const key& k, dim rows, dim columns, location at) {
  constexpr double cut = 0.87962566103423978;  // the standard deviation of a normal number within [-2, 2]
  const auto x = truncated_normal<double>(k, -2, 2, std::array{rows * columns}, {}, at);
  return sinter::detail::evaluate(mul(x, 1 / cut, at), at);
}

/// The nearest matrix with orthonormal rows, for a matrix with no more rows than columns: Newton's iteration for the polar factor.
template <class Matrix>
Matrix orthonormal_rows(const Matrix& x, location at) {
  const Matrix first = sinter::detail::evaluate(
      mul(x, rsqrt(sinter::detail::sum_over<op_shapes::all_axes(2), false>(mul(x, x, at), at), at), at), at);
  const auto step = [at](const auto&, const Matrix& y) {
    const Matrix cube = matmul(matmul(y, sinter::transpose(y, at), at), y, at);
    return Matrix(sinter::detail::evaluate(sub(mul(y, 1.5, at), mul(cube, 0.5, at), at), at));
  };
  return fori_loop(0, 60, step, first, at);  // 1.5^60 lifts the smallest of the singular values
}
template <class = void>
tensor<double, 1> orthogonal_law(const key& k, dim rows, dim columns, location at) {
  using matrix = tensor<double, 2>;
  const bool wide = rows <= columns;
  const std::array<dim, 2> extents{wide ? rows : columns, wide ? columns : rows};
  const matrix q = orthonormal_rows(matrix(normal<double>(k, extents, {}, at)), at);
  const matrix placed = wide ? q : matrix(sinter::detail::evaluate(sinter::transpose(q, at), at));
  return sinter::flatten(placed, at);
}

}  // namespace detail

// clang-format off
/// U(-a, a) with a = gain · √(6 / (in + out)) (Glorot and Bengio, 2010).
template <class = void>
initializer glorot_uniform(double gain = 1) { return {&detail::uniform_law<>, gain * gain, 0, initializer::fan::mean}; }
/// Normal numbers of variance 2 · gain² / (in + out), redrawn beyond two deviations.
template <class = void>
initializer glorot_normal(double gain = 1) { return {&detail::truncated_law<>, gain * gain, 0, initializer::fan::mean}; }
/// Uniform numbers of variance gain² / in; the default gain is for relu (He et al., 2015).
template <class = void>
initializer he_uniform(double gain = 1.4142135623730951) { return {&detail::uniform_law<>, gain * gain, 0, initializer::fan::in}; }
/// Normal numbers of variance gain² / in, redrawn beyond two deviations.
template <class = void>
initializer he_normal(double gain = 1.4142135623730951) { return {&detail::truncated_law<>, gain * gain, 0, initializer::fan::in}; }
/// Uniform numbers of variance 1 / in (LeCun et al., 1998).
template <class = void>
initializer lecun_uniform() { return he_uniform(1); }
/// Normal numbers of variance 1 / in, redrawn beyond two deviations.
template <class = void>
initializer lecun_normal() { return he_normal(1); }
/// N(mean, deviation²).
template <class = void>
initializer normal_of(double deviation = 1, double mean = 0) { return {&detail::normal_law<>, deviation, mean}; }
/// N(mean, deviation²), redrawn beyond two deviations.
template <class = void>
initializer truncated_of(double deviation = 1, double mean = 0) { return {&detail::truncated_law<>, deviation * 0.87962566103423978, mean}; }
/// U(low, high).
template <class = void>
initializer uniform_of(double low, double high) { return {&detail::uniform_law<>, (high - low) / 3.4641016151377544, (low + high) / 2}; }
/// The same number everywhere.
inline initializer constant_of(double value) { return {nullptr, 0, value}; }
/// An orthogonal matrix times the gain (Saxe et al., 2014). The matrix has the last axis as its columns. Its rows are
/// orthonormal if there are no more rows than columns, otherwise its columns.
template <class = void>
initializer orthogonal(double gain = 1) { return {&detail::orthogonal_law<>, gain}; }
/// PyTorch's default for weights: U(-1/√in, 1/√in).
template <class = void>
initializer torch_uniform() { return he_uniform(0.57735026918962573); }
// clang-format on

template <element T, extent_like I, std::size_t R>
tensor<T, detail::of_rank<R>> initializer::draw(const key& k, const std::array<I, R>& extents, double fan_in,
                                                double fan_out, location here) const {
  const location at = here.in("nn::initializer");
  if (!how) return full<T>(static_cast<T>(center), extents, {}, at);
  dim rows = 1;
  for (std::size_t i = 0; i + 1 < R; ++i) rows = rows * dim(extents[i]);
  const auto numbers = how(k, rows, R == 0 ? dim(1) : dim(extents[R - 1]), at);
  const auto scaled = add(mul(numbers, deviation(fan_in, fan_out, at), at), center, at);
  return reshape(sinter::detail::evaluate(sinter::cast<T>(scaled, at), at), extents, at);
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
