// tests/fuzz/functions.hpp: functions of the front end that random programs are made of, each of matrices of f64 to one.
#pragma once

#include <cstdint>
#include <random>
#include <span>

#include <sinter/fft.hpp>
#include <sinter/linalg.hpp>
#include <sinter/sinter.hpp>
#include <sinter/windows.hpp>

namespace fuzz {

using namespace sinter;
using matrix = tensor<double, 2>;
using whole = tensor<std::int64_t, 1>;

/// Numbers for one call. They are drawn from the seed alone, so that a trace draws those of an eager call.
struct dice {
  std::mt19937_64 bits;

  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n)); }
  bool coin() { return below(2) == 1; }
  double number() { return static_cast<double>(below(33)) / 16 - 1; }
};

struct function {
  const char* name;
  matrix (*call)(dice& d, const matrix& x, const matrix& y);
  /// Derivatives are compared: those of the others are not continuous, or are NaN where values are equal.
  bool smooth = true;
};

/// Where functions jump: 0 is what many values are but for their rounding.
inline constexpr double step = 0.3137;

template <class X>
matrix flat(const X& x) {
  return reshape(x, 1, -1);
}
/// x·xᵀ / n + 1: eigenvalues of 1 and more.
inline matrix positive(const matrix& x) { return matmul(x, transpose(x)) * 0.25 + eye<double>(x.size(0)); }
/// Of full rank, with more rows than columns.
inline matrix tall(const matrix& x) { return concat(x * 0.5, matrix(eye<double>(x.size(1)))); }
/// A square matrix whose diagonal is more than the rest of its row.
inline matrix dominant(const matrix& x) {
  const matrix s = matmul(tanh(x), transpose(x));
  return s + (3.0 + max(sum(abs(s), axis<1>))) * eye<double>(x.size(0));
}
/// Places of the rows of x, some of them twice, in no order; as many as there are rows.
inline whole some_rows(dice& d, const matrix& x) {
  const dim n = x.size(0);
  const whole k = arange<std::int64_t>(n);
  return (k * (1 + d.below(5)) + d.below(3)) % sum(k * 0 + 1);
}
inline tensor<double, 4> image(const matrix& x) { return reshape(x, 1, 1, x.size(0), x.size(1)); }
inline tensor<double, 4> kernel(dice& d, const matrix& y) {
  const matrix small = pad(y, {{0, 2}, {0, 2}});
  return reshape(matrix(slice<1>(slice<0>(small, 0, 2), 0, 1 + d.below(2))), 1, 1, 2, -1);
}
template <class Z>
matrix read(dice& d, const Z& z) {
  return d.coin() ? matrix(real(z)) : matrix(imag(z));
}

// clang-format off
#define SINTER_F(NAME, ...) {NAME, [](dice& d, const matrix& x, const matrix& y) -> matrix { static_cast<void>(d), static_cast<void>(y); __VA_ARGS__ }}
#define SINTER_G(NAME, ...) {NAME, [](dice& d, const matrix& x, const matrix& y) -> matrix { static_cast<void>(d), static_cast<void>(y); __VA_ARGS__ }, false}
inline const function table[] = {
    SINTER_F("cholesky", return linalg::cholesky(positive(x));),
    SINTER_F("solve", return linalg::solve(positive(x), x);),
    SINTER_F("solve of another", return linalg::solve(dominant(x), matmul(x, transpose(x)));),
    SINTER_F("inv", return linalg::inv(positive(x));),
    SINTER_F("det", return flat(linalg::det(positive(x) * 0.5));),
    SINTER_F("slogdet", return flat(linalg::slogdet(positive(x)).second);),
    SINTER_F("logdet", return flat(linalg::logdet(positive(x)));),
    SINTER_F("qr", const auto [q, r] = linalg::qr(tall(x)); return d.coin() ? matrix(q) : matrix(r);),
    SINTER_F("lu", const auto [p, l, u] = linalg::lu(dominant(x)); return d.coin() ? matrix(l) : matrix(u);),
    SINTER_F("eigh values", return flat(linalg::eigh(positive(x)).first);),
    SINTER_G("eigh", const auto [s, v] = linalg::eigh(positive(x)); return matmul(v * sqrt(s), transpose(v));),
    SINTER_F("svd values", return flat(std::get<1>(linalg::svd(x)));),
    SINTER_G("svd", const auto [u, s, v] = linalg::svd(tall(x)); return matmul(u * exp(-s), v);),
    SINTER_F("pinv", return linalg::pinv(tall(x));),
    SINTER_F("lstsq", const matrix a = tall(x); return linalg::lstsq(a, sin(a));),
    SINTER_F("expm", return linalg::expm(matmul(tanh(x), transpose(x)));),
    SINTER_F("matrix_power", return linalg::matrix_power(positive(x), d.below(6) - 2);),
    SINTER_F("matrix_norm", return flat(d.coin() ? linalg::matrix_norm(x) : linalg::matrix_norm<linalg::nuc>(x));),
    SINTER_F("matrix_norm one", return flat(d.coin() ? linalg::matrix_norm<linalg::one>(x) : linalg::matrix_norm<linalg::inf>(x));),
    SINTER_F("triangular_solve", return linalg::triangular_solve(positive(x), x, {.lower = d.coin(), .transposed = d.coin()});),
    SINTER_F("solve of complex", return read(d, linalg::solve(complex(dominant(x), matmul(x, transpose(x))), complex(x)));),

    SINTER_F("fft", return read(d, fft::fft(x));),
    SINTER_F("fft of columns", return read(d, fft::fft<fft::ortho>(x, axis<0>));),
    SINTER_F("fft of a length", return read(d, fft::fft(x, 1 + d.below(9)));),
    SINTER_F("ifft", const auto z = fft::fft(x); return read(d, fft::ifft(z * exp(z * complex128(0, 0.25))));),
    SINTER_F("rfft", return read(d, fft::rfft<fft::ortho>(x));),
    SINTER_F("irfft", return fft::irfft(fft::rfft(x) * complex128(0.5, 1), 1 + d.below(8));),
    SINTER_F("hfft", return fft::hfft<fft::ortho>(fft::ihfft(x), 2 + d.below(5));),
    SINTER_F("fft2", return read(d, fft::ifft2(fft::fft2(x) * complex128(0.5, 0.5)));),
    SINTER_F("rfftn", return read(d, fft::rfftn<fft::ortho>(x));),
    SINTER_F("fftshift", return d.coin() ? matrix(fft::fftshift(x)) : matrix(fft::ifftshift(x, axis<1>));),
    SINTER_F("abs of fft", return square(abs(fft::fft<fft::ortho>(x)));),

    SINTER_F("conv2d", return flat(conv2d(image(x), kernel(d, y), {.stride = 1 + d.below(2), .padding = 1 + d.below(2)}));),
    SINTER_F("conv2d same", return flat(conv2d(image(x), kernel(d, y), {.padding = same, .dilation = 1 + d.below(2)}));),
    SINTER_F("conv1d grouped", const auto c = stack<0>(x, x * 0.5); return flat(conv1d(c, reshape(matrix(broadcast_to(y[0][0], x.size(0), 2)), x.size(0), 1, 2), {.padding = 1, .groups = x.size(0)}));),
    SINTER_F("conv_transpose2d", return flat(conv_transpose2d(image(x), kernel(d, y), {.stride = 1 + d.below(3)}));),
    SINTER_F("max_pool2d", return flat(max_pool2d(image(x), 2, {.stride = 1 + d.below(3), .padding = 1}));),
    SINTER_F("max_pool2d overlapping", return flat(max_pool2d(image(x), 3, {.stride = 1 + d.below(3), .padding = 1, .ceil_mode = d.coin()}));),
    SINTER_F("max_pool2d_with_indices", return flat(max_pool2d_with_indices(image(x), 2, {.stride = 1 + d.below(2), .padding = 1}).values);),
    SINTER_F("avg_pool2d", return flat(avg_pool2d(image(x), 2, {.stride = 1 + d.below(2), .padding = 1, .count_include_pad = d.coin()}));),
    SINTER_F("lp_pool1d", return flat(lp_pool1d(reshape(square(x) + 0.5, 1, x.size(0), x.size(1)), 3, 1, {.stride = 1 + d.below(2)}));),
    SINTER_F("adaptive_avg_pool2d", return flat(adaptive_avg_pool2d(image(x), 1 + d.below(3)));),
    SINTER_F("adaptive_max_pool2d", return flat(adaptive_max_pool2d(image(x), 1 + d.below(3)));),
    SINTER_F("unfold", return flat(unfold(image(x), 2, {.padding = 1}));),
    SINTER_F("fold", return flat(fold(unfold(image(x), 2, {.padding = 1}), {x.size(0), x.size(1)}, 2, {.padding = 1}));),
    SINTER_F("interpolate", return flat(interpolate(image(x), {.size = {1 + d.below(7), 1 + d.below(7)}, .mode = d.coin() ? resize::linear : resize::cubic, .align_corners = d.coin()}));),
    SINTER_F("interpolate area", return flat(interpolate(image(x), {.size = {1 + d.below(4), 1 + d.below(4)}, .mode = d.coin() ? resize::area : resize::nearest}));),

    SINTER_F("sort", return d.coin() ? matrix(sort(x)) : matrix(sort(x, axis<0>, {.descending = true}));),
    SINTER_F("topk", return topk(x, 1, axis<1>).values;),
    SINTER_F("median", return flat(d.coin() ? median(x, axis<0>) : median(x, axis<1>));),
    SINTER_F("quantile", return flat(quantile(x, 0.3, axis<1>));),
    SINTER_F("quantiles", return d.coin() ? matrix(quantile(x, {0.25, 0.9}, axis<0>)) : flat(percentile(x, {25, 90}, axis<1>, keepdims));),
    SINTER_F("cummax", return d.coin() ? matrix(cummax(x, axis<1>)) : matrix(cummin(x, axis<0>));),
    SINTER_F("segment_sum", return segment_sum(x, some_rows(d, x), 1 + d.below(5));),
    SINTER_F("segment_mean", return nan_to_num(segment_mean(x, some_rows(d, x), 1 + d.below(5)));),
    SINTER_F("segment_max", const auto m = segment_max(x, some_rows(d, x), 1 + d.below(4)); return where(isfinite(m), m, 0.0);),
    SINTER_F("segment_prod", return segment_prod(x, some_rows(d, x), 1 + d.below(4));),
    SINTER_G("searchsorted", const whole k = some_rows(d, x); return cast<double>(searchsorted(sort(k), expand_dims<0>(k)));),
    SINTER_G("unique", return flat(cast<double>(unique(some_rows(d, x), {.size = 4, .fill = 9})));),
    SINTER_G("nonzero", return flat(cast<double>(nonzero(some_rows(d, x), {.size = 3, .fill = 7})[0]));),
    SINTER_G("bincount", return flat(bincount(some_rows(d, x), sum(x, axis<1>), {.size = 5}));),
    SINTER_G("histogram", return flat(cast<double>(histogram(cast<double>(some_rows(d, x)), 4, -0.5, 5.5).counts));),
    SINTER_G("argsort", return flat(cast<double>(argsort(some_rows(d, x), {.descending = d.coin()})));),

    SINTER_F("take", return take(x, some_rows(d, x), axis<0>);),
    SINTER_F("take of two", const whole i = some_rows(d, x); return flat(take(x, i, i * 0 - 1));),
    SINTER_F("take_along_axis", return take_along_axis(x, reshape(some_rows(d, x), -1, 1) * 0, axis<1>);),
    SINTER_F("gather_nd", return gather_nd<1>(x, reshape(some_rows(d, x), -1, 1));),
    SINTER_F("at add", return x.at(some_rows(d, x)).add(d.number());),
    SINTER_F("at set", return x.at(axis<1>, 0, 1 + d.below(2)).set(y[0][0] * d.number());),
    SINTER_F("at multiply", return x.at(some_rows(d, x)).multiply(x);),
    SINTER_F("at min", return x.at(some_rows(d, x)).min(x * 0.5);),
    SINTER_F("at element", return x.at(0, -1).max(d.number());),
    SINTER_F("scatter_set", return scatter_set(x, some_rows(d, x), x * d.number());),
    SINTER_F("dynamic_slice", return dynamic_slice(x, whole{d.below(3), d.below(3)}, {1, 1});),
    SINTER_F("dynamic_update_slice", return dynamic_update_slice(x, matrix(slice<0>(x, 0, 1)) * 2, whole{d.below(4), 0});),
    SINTER_F("compress", return compress(x, some_rows(d, x) > 1, axis<0>, {.size = 2, .fill = 0.5});),
    SINTER_F("roll", return d.coin() ? matrix(roll(x, d.below(9) - 4)) : matrix(roll(x, d.below(5), axis<0>));),
    SINTER_F("repeat", return repeat(x, d.below(3) + 1, axis<1>);),
    SINTER_F("diag", return d.coin() ? matrix(diag(sum(x, axis<0>), d.below(3) - 1)) : flat(diagonal(x));),
    SINTER_F("kron", return kron(slice<0>(x, 0, 1), slice<1>(y, 0, 1));),
    SINTER_F("outer", return outer(sum(x, axis<0>), sum(y, axis<1>));),
    SINTER_F("diff", return diff(x, d.below(2), axis<0>);),
    SINTER_F("rot90", return rot90<3>(x);),
    SINTER_F("tril", return d.coin() ? matrix(tril(x, d.below(3) - 1)) : matrix(triu(x, d.below(3) - 1));),
    SINTER_F("block_diag", return block_diag(x, y);),
    SINTER_F("cov", return cov(pad(x, {{0, 0}, {0, 2}}));),
    SINTER_F("corrcoef", return corrcoef(concat<1>(x, matrix(arange<double>(x.size(0) * 4).size(0) > 0 ? reshape(sin(arange<double>(x.size(0) * 4)), x.size(0), 4) : zeros<double>(0, 4))));),
    SINTER_F("glu", return glu(concat<1>(x, x * 2));),
    SINTER_F("logcumsumexp", return logcumsumexp(x, axis<0>);),
    SINTER_F("cumprod", return cumprod(x, axis<1>);),
    SINTER_F("special", return logaddexp(x, x * d.number()) + hypot(x, 1.0) + erfinv(x * 0.25) + lgamma(square(x) + 1) + digamma(square(x) + 1) + sinc(x) + log_sigmoid(x);),
    SINTER_F("nansum", return flat(nansum(where(x > 0, x, std::nan("")), axis<0>) + nanmean(where(x > -2, x, std::nan("")), axis<0>));),
    SINTER_F("einsum", return einsum<"ij,kj,ij->ki">(x, x, x) * 0.25;),
    SINTER_F("attention", return attention(expand_dims<0>(expand_dims<0>(x)), expand_dims<0>(expand_dims<0>(x)), expand_dims<0>(expand_dims<0>(x)), causal)[0][0];),
    SINTER_F("norms", return flat(norm(x, axis<0>) + norm<1>(x, axis<0>) + sinter::std(x, axis<0>));),
    SINTER_F("tile", return tile(x, {1 + d.below(2), 1});),
    SINTER_F("both", return x + mean(y);),

    SINTER_F("trace_of", return x * trace_of(x, d.below(3) - 1);),
    SINTER_F("meshgrid", const auto [a, b] = meshgrid(sum(x, axis<0>), sum(y, axis<0>)); return a * b;),
    SINTER_F("movement", return swapaxes<0, 1>(flip<0>(moveaxis(permute<1, 0>(x), axis<0>, axis<1>)));),
    SINTER_F("squeeze", return squeeze<0>(expand_dims<0>(flip(x))) + mean(split<0>(x, 1)[0]);),
    SINTER_F("scatter_add", return scatter_add(x, some_rows(d, x), x * d.number());),
    SINTER_F("scatter_mul", return scatter_mul(x, some_rows(d, x), x + 2);),
    SINTER_F("scatter_min", return d.coin() ? scatter_min(x, some_rows(d, x), x * 0.5) : scatter_max(x, some_rows(d, x), x * 0.5);),
    SINTER_F("softmax", return d.coin() ? softmax(x) : log_softmax(x, axis<0>);),
    SINTER_F("layer_norm", return d.coin() ? layer_norm(x, 0.5) : rms_norm(x, 0.5);),
    SINTER_F("losses", return flat(cross_entropy(concat<1>(x, matrix(square(x))), argmax(x, axis<1>) * 0) + mse_loss(x, sin(x)));),
    SINTER_F("percentile", return flat(percentile(flatten(x), 40.0));),
    SINTER_F("segment_min", const auto m = segment_min(x, some_rows(d, x), 1 + d.below(4)); return where(isfinite(m), m, 0.0);),
    SINTER_F("prod", return flat(prod(x, axis<0>) + var(x, axis<0>) + logsumexp(x, axis<0>));),
    SINTER_F("nanprod", return flat(nanprod(x, axis<0>) + nanmax(x, axis<0>) + nanmin(x, axis<0>) + nanvar(x, axis<0>) + nanstd(x, axis<0>) + stddev(x, axis<0>));),
    SINTER_F("cumsum", return d.coin() ? cumsum(x, axis<0>) : cumsum(flip<1>(x), axis<1>);),
    SINTER_F("conv by layout", return flat(conv<"nhwc,hwio->nhwc">(reshape(x, 1, x.size(0), x.size(1), 1), reshape(kernel(d, y), 2, -1, 1, 1), {.padding = same}));),
    SINTER_F("conv_transpose by layout", return flat(conv_transpose<"nhwc,hwio->nhwc">(reshape(x, 1, x.size(0), x.size(1), 1), reshape(kernel(d, y), 2, -1, 1, 1)));),
    SINTER_F("pools by layout", const auto h = reshape(x, 1, x.size(0), x.size(1), 1); return flat(d.coin() ? max_pool<"nhwc">(h, 2, {.stride = 1, .padding = 1}) : avg_pool<"nhwc">(h, 2, {.stride = 1, .padding = 1}));),
    SINTER_F("fftn", return read(d, fft::ifftn(fft::fftn(x) * complex128(0.25, 0.5)));),
    SINTER_F("rfft2", return fft::irfft2(fft::rfft2(x) * complex128(0.5, 0.25), 1 + d.below(6)) + mean(fft::irfftn(fft::rfftn(x), 3, axis<0, 1>));),
    SINTER_F("complex functions", const auto z = complex(x * 0.5 + 1, tanh(y[0][0] + x)); return read(d, log(z) + cos(z) * sinh(conj(z)) + reciprocal(z) + pow(z, 0.5) + cosh(z) * tan(z * 0.5) + stop_gradient(z));),
    SINTER_F("complex parts", const auto z = polar(x + 2, x); return angle(z) + real(matmul(z, adjoint(z)))[0][0];),
    SINTER_G("predicates", const auto z = complex(x); return flat(cast<double>(any(x > step, axis<0>)) + cast<double>(all(x > -2, axis<0>)) + cast<double>(allclose(x, x)) + cast<double>(any(isnan(z) || isclose(z, z))));),
    SINTER_G("one_hot", return cast<double>(one_hot(some_rows(d, x), 4));),
    SINTER_G("bits", return cast<double>(bit_cast<std::int64_t>(floor(x + step)) >> 52);),
    SINTER_G("arg extremes", return flat(cast<double>(argmax(cast<double>(some_rows(d, x))) + argmin(some_rows(d, x))));),
};
#undef SINTER_F
#undef SINTER_G
// clang-format on

}  // namespace fuzz
