// nn/norms.hpp: normalisation over features, groups of channels and batches.
#pragma once

#include <optional>
#include <utility>

#include "layers.hpp"

namespace sinter::nn {

struct norm_options {
  bool bias = true;
  double eps = 1e-5;
};

/// (x - mean) / √(variance + eps) · weight + bias over the last axis.
template <class T>
struct layer_norm {
  tensor<T, 1> weight;
  std::optional<tensor<T, 1>> bias;
  constant eps = 1e-5;

  static layer_norm init(std::int64_t width, const norm_options& how = {}, location at = location::current()) {
    detail::check_size("nn::layer_norm", "the width", width, at);
    layer_norm made{ones<T>(std::array{width}, {}, at), std::nullopt, how.eps};
    if (how.bias) made.bias = zeros<T>(std::array{width}, {}, at);
    return made;
  }

  SINTER_LAYER_CALLS("nn::layer_norm", "norm(x), x a tensor")
  template <tensor_like X>
  auto operator()(const X& x, location here = location::current()) const {
    const location at = here.in("nn::layer_norm");
    using result = tensor<typename X::value_type, X::static_shape>;
    if (bias) return result(sinter::detail::evaluate(sinter::layer_norm(x, weight, *bias, eps, at), at));
    return result(sinter::detail::evaluate(sinter::mul(sinter::layer_norm(x, eps, at), weight, at), at));
  }
};

/// x / √(mean(x²) + eps) · weight over the last axis.
template <class T>
struct rms_norm {
  tensor<T, 1> weight;
  constant eps = 1e-5;

  static rms_norm init(std::int64_t width, const norm_options& how = {}, location at = location::current()) {
    detail::check_size("nn::rms_norm", "the width", width, at);
    return {ones<T>(std::array{width}, {}, at), how.eps};
  }

  SINTER_LAYER_CALLS("nn::rms_norm", "norm(x), x a tensor")
  template <tensor_like X>
  auto operator()(const X& x, location here = location::current()) const {
    const location at = here.in("nn::rms_norm");
    return sinter::detail::evaluate(sinter::rms_norm(x, weight, eps, at), at);
  }
};

namespace detail {

/// False after the compile-time error.
template <class X>
constexpr bool has_channels() {
  constexpr bool right = X::rank >= 2 && is_float(dtype_of<typename X::value_type>);
  static_assert(right, "sinter: [nn] norms of channels take (batch, channels, …) of a floating dtype");
  return right;
}

template <class X>
void check_channels(const char* op, const X& x, const dim& channels, location at) {
  if (x.size(1, at) != channels)
    fail(op,
         "x is " + text::shape(to_dims(x.shape())) + ", the layer has " + std::to_string(std::int64_t(channels)) +
             " channels; they are axis 1 of (batch, channels, …)",
         at);
}

/// All axes except axis 1.
template <int Rank>
constexpr op_shapes::axis_list axes_beside_channels() {
  op_shapes::axis_list all;
  for (int a = 0; a < Rank; ++a)
    if (a != 1) all.at[all.count++] = a;
  return all;
}

/// y · weight + bias for each channel.
template <class T, class Y, class Weight, class Bias>
auto scaled_channels(const Y& y, const Weight& weight, const Bias& bias, location at) {
  constexpr int rank = Y::rank;
  const auto w = per_channel<rank>(weight, at);
  const auto b = per_channel<rank>(bias, at);
  return narrow<T>(add(mul(wide(y, at), wide(w, at), at), wide(b, at), at), at);
}

}  // namespace detail

/// Normalises each item over the channels of a group and all places (Wu and He, 2018): x (batch, channels, …).
template <class T>
struct group_norm {
  tensor<T, 1> weight, bias;
  std::int64_t groups = 1;
  constant eps = 1e-5;

  /// user_error unless the groups divide the channels.
  static group_norm init(std::int64_t groups, std::int64_t channels, const norm_options& how = {},
                         location at = location::current()) {
    detail::check_size("nn::group_norm", "the number of groups", groups, at);
    detail::check_size("nn::group_norm", "the number of channels", channels, at);
    if (channels % groups != 0)
      sinter::fail("nn::group_norm",
                   std::to_string(groups) + " groups do not divide " + std::to_string(channels) + " channels", at);
    return {ones<T>(std::array{channels}, {}, at), zeros<T>(std::array{channels}, {}, at), groups, how.eps};
  }

  SINTER_LAYER_CALLS("nn::group_norm", "norm(x), x a tensor (batch, channels, ...)")
  template <tensor_like X>
  auto operator()(const X& x, location here = location::current()) const {
    const location at = here.in("nn::group_norm");
    const auto y = sinter::detail::evaluate(x, at);
    if constexpr (detail::has_channels<X>()) {
      detail::check_channels(at.op, y, weight.size(0, at), at);
      const auto rows = reshape(y, std::array<dim, 3>{y.size(0, at), groups, -1}, at);
      const auto flat = sinter::detail::evaluate(sinter::layer_norm(rows, eps, at), at);
      using result = std::remove_cvref_t<decltype(y)>;
      const tensor<T, X::rank> back = reshape(flat, y.shape(), at);
      return result(detail::scaled_channels<T>(back, weight, bias, at));
    } else {
      return y;
    }
  }
};

/// Normalises each channel of each item: group_norm with one group for each channel, without parameters.
struct instance_norm {
  constant eps = 1e-5;

  SINTER_LAYER_CALLS("nn::instance_norm", "norm(x), x a tensor (batch, channels, ...)")
  template <tensor_like X>
  auto operator()(const X& x, location here = location::current()) const {
    const location at = here.in("nn::instance_norm");
    const auto y = sinter::detail::evaluate(x, at);
    if constexpr (detail::has_channels<X>()) {
      const auto rows = reshape(y, std::array<dim, 3>{y.size(0, at), y.size(1, at), -1}, at);
      const auto flat = sinter::detail::evaluate(sinter::layer_norm(rows, eps, at), at);
      return std::remove_cvref_t<decltype(y)>(reshape(flat, y.shape(), at));
    } else {
      return y;
    }
  }
};

/// Running statistics of batch_norm. They are not parameters: a call takes them as an argument and returns the next ones.
template <class T>
struct batch_statistics {
  tensor<T, 1> mean, variance;
};

struct batch_norm_options {
  double eps = 1e-5;
  double momentum = 0.1;  ///< the share of the batch in the running statistics
};

/// Normalises each channel over the batch and all places (Ioffe and Szegedy, 2015): x (batch, channels, …). Training uses the
/// batch's statistics and updates the running ones; inference uses the running ones: `auto [y, next] = norm(x, s, nn::training)`.
template <class T>
struct batch_norm {
  tensor<T, 1> weight, bias;
  constant eps = 1e-5, momentum = 0.1;
  using statistics_type = sinter::detail::wider_type<T>;

  static batch_norm init(std::int64_t channels, const batch_norm_options& how = {}, location at = location::current()) {
    detail::check_size("nn::batch_norm", "the number of channels", channels, at);
    return {ones<T>(std::array{channels}, {}, at), zeros<T>(std::array{channels}, {}, at), how.eps, how.momentum};
  }
  /// The running statistics before the first batch: mean 0, variance 1, in f32 or f64.
  auto statistics(location at = location::current()) const {
    using W = statistics_type;
    return batch_statistics<W>{sinter::detail::evaluate(sinter::cast<W>(zeros_like(weight, at), at), at),
                               sinter::detail::evaluate(sinter::cast<W>(ones_like(weight, at), at), at)};
  }

  SINTER_LAYER_CALLS("nn::batch_norm",
                     "auto [y, next] = norm(x, statistics, nn::training), or nn::inference; the first statistics are "
                     "norm.statistics(). Or norm(x, pass) with nn::pass pass(model, nn::state(model), nn::training)")
  /// Normalises by the statistics of a pass for this norm. A pass in training updates them.
  template <tensor_like X>
  auto operator()(const X& x, const pass<statistics_type>& run, location here = location::current()) const {
    const location at = here.in("nn::batch_norm");
    auto& s = run.of(this, at);
    auto [y, next] = (*this)(x, s, run.how(), at);
    s = std::move(next);
    return y;
  }
  template <tensor_like X, class W>
  auto operator()(const X& x, const batch_statistics<W>& s, mode how, location here = location::current()) const {
    const location at = here.in("nn::batch_norm");
    const auto y = sinter::detail::evaluate(x, at);
    using result = std::remove_cvref_t<decltype(y)>;
    if constexpr (detail::has_channels<X>()) {
      detail::check_channels(at.op, y, weight.size(0, at), at);
      check_statistics(s.mean, s.variance, at);
      if (how == mode::inference) return std::pair{result(normalised(y, s.mean, s.variance, at)), s};
      return trained(y, s, at);
    } else {
      return std::pair{y, s};
    }
  }

 private:
  template <class V>
  void check_statistics(const V& mean, const V& variance, location at) const {
    const dim n = weight.size(0, at);
    if (mean.size(0, at) != n || variance.size(0, at) != n)
      fail(at.op,
           "the statistics are of " + text::shape(sinter::detail::to_dims(mean.shape())) + " and " +
               text::shape(sinter::detail::to_dims(variance.shape())) + ", the layer has " + n.text() +
               " channels; the first ones are norm.statistics()",
           at);
  }
  template <class X, class V>
  auto normalised(const X& x, const V& mean, const V& variance, location at) const {
    constexpr int rank = X::rank;
    const V scale = sinter::detail::evaluate(
        mul(rsqrt(add(variance, static_cast<double>(eps), at), at), detail::wide(weight, at), at), at);
    // Not one term of each channel: x · a - mean · a would lose the digits in which x differs from the mean.
    const auto d = sub(detail::wide(x, at), detail::per_channel<rank>(mean, at), at);
    const auto a = detail::per_channel<rank>(scale, at);
    const auto b = detail::per_channel<rank>(sinter::detail::evaluate(detail::wide(bias, at), at), at);
    return detail::narrow<T>(add(mul(d, a, at), b, at), at);
  }
  template <class X, class S>
  std::pair<X, S> trained(const X& x, const S& s, location at) const {
    constexpr int rank = X::rank;
    constexpr auto others = detail::axes_beside_channels<rank>();
    const dim count = x.numel() / x.size(1, at);
    const auto c = sinter::detail::centred<others>(sinter::detail::evaluate(detail::wide(x, at), at), at);
    const auto of_channels = [&](const auto& kept) { return reshape(kept, std::array{x.size(1, at)}, at); };
    const auto mean = of_channels(sinter::detail::evaluate(add(c.about, c.mean, at), at));
    const auto variance =
        of_channels(sinter::detail::divided(sinter::detail::centred_squares<others, true>(c, count, at), count, at));
    const auto scale = mul(rsqrt(add(variance, static_cast<double>(eps), at), at), detail::wide(weight, at), at);
    const auto a = detail::per_channel<rank>(sinter::detail::evaluate(scale, at), at);
    const auto b = detail::per_channel<rank>(sinter::detail::evaluate(detail::wide(bias, at), at), at);
    const double share = momentum;
    const auto moved = [&](const auto& running, const auto& now) {
      return sinter::detail::evaluate(add(mul(running, 1 - share, at), mul(now, share, at), at), at);
    };
    // As in PyTorch: the running variance is the unbiased estimate; a single element gives the variance itself.
    const dim rest = count < 2 ? dim(1) : count - 1;
    const auto all = sinter::detail::divided(sinter::detail::multiplied(variance, count, at), rest, at);
    return {X(detail::narrow<T>(add(mul(c.differences(at), a, at), b, at), at)),
            S{moved(s.mean, mean), moved(s.variance, all)}};
  }
};

}  // namespace sinter::nn
