// nn/conv.hpp: convolutions and their transposes over one to three axes, channels first.
#pragma once

#include <array>
#include <optional>
#include <utility>

#include "../windows/conv.hpp"
#include "layers.hpp"

namespace sinter::nn {

/// The position of a convolution's windows: a layer's configuration, made of the options of sinter::conv and conv_transpose.
class windows_at {
 public:
  constexpr windows_at() = default;
  constexpr windows_at(const conv_options& o) : windows_at(o.stride, o.padding.amount, 0, o.dilation, o.groups) {
    same_ = o.padding.is_same;
  }
  constexpr windows_at(const conv_transpose_options& o)
      : windows_at(o.stride, o.padding, o.output_padding, o.dilation, o.groups) {}

  template <int Spatial>
  conv_options plain() const {
    conv_options o{of<Spatial>(stride_), of<Spatial>(padding_), of<Spatial>(dilation_), groups_};
    o.padding.is_same = same_ != 0;
    return o;
  }
  template <int Spatial>
  conv_transpose_options transposed() const {
    return {of<Spatial>(stride_), of<Spatial>(padding_), of<Spatial>(extra_), of<Spatial>(dilation_), groups_};
  }
  std::int64_t groups() const { return groups_; }

 private:
  using numbers = std::array<std::int64_t, 3>;
  constexpr windows_at(per_axis stride, per_axis padding, per_axis extra, per_axis dilation, std::int64_t groups)
      : stride_(all(stride)), padding_(all(padding)), extra_(all(extra)), dilation_(all(dilation)), groups_(groups) {}
  static constexpr numbers all(const per_axis& x) { return {x[0], x[1], x[2]}; }
  template <int Spatial>
  static per_axis of(const numbers& x) {
    if constexpr (Spatial == 1) return {x[0]};
    else if constexpr (Spatial == 2) return {x[0], x[1]};
    else return {x[0], x[1], x[2]};
  }

  numbers stride_{1, 1, 1}, padding_{}, extra_{}, dilation_{1, 1, 1};
  std::int64_t groups_ = 1, same_ = 0;
};

}  // namespace sinter::nn

template <>
inline constexpr bool sinter::is_value<sinter::nn::windows_at> = true;

namespace sinter::nn {

/// Options of conv and conv_transpose: those of sinter::conv, and the initialiser of the weights.
struct conv_layer_options {
  per_axis stride = 1;
  window_padding padding = {};
  per_axis dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  initializer weight = torch_uniform();
};
struct conv_transpose_layer_options {
  per_axis stride = 1;
  per_axis padding = 0;
  per_axis output_padding = 0;
  per_axis dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  initializer weight = torch_uniform();
};

namespace detail {

/// The extents of weights (a, b, window…), and the number of elements in a window.
template <int Spatial>
std::pair<std::array<std::int64_t, Spatial + 2>, double> weight_extents(const char* op, std::int64_t a, std::int64_t b,
                                                                        const per_axis& window, location at) {
  if (!window.fits(Spatial) || !window.least(Spatial, 1))
    fail(op, "the window is one number for all " + std::to_string(Spatial) + " axes, or one each, of 1 or more", at);
  std::array<std::int64_t, Spatial + 2> to{a, b};
  double count = 1;
  for (int i = 0; i < Spatial; ++i) {
    to[static_cast<std::size_t>(i + 2)] = window[i];
    count *= static_cast<double>(window[i]);
  }
  return {to, count};
}

inline void check_layer(const char* op, std::int64_t in, std::int64_t out, const per_axis& a, const per_axis& b,
                        const per_axis& c, std::int64_t groups, int spatial, location at) {
  check_size(op, "the number of input channels", in, at);
  check_size(op, "the number of output channels", out, at);
  check_size(op, "the number of groups", groups, at);
  if (in % groups != 0 || out % groups != 0)
    fail(op,
         std::to_string(groups) + " groups do not divide " + std::to_string(in) + " and " + std::to_string(out) +
             " channels",
         at);
  if (!a.fits(spatial) || !b.fits(spatial) || !c.fits(spatial))
    fail(op, "an option has neither one entry nor one for each of " + std::to_string(spatial) + " axes", at);
}

}  // namespace detail

/// A convolution over Spatial axes: x (batch, channels, …), weights (out, in / groups, window…), in PyTorch's order.
template <class T, int Spatial>
struct conv {
  static_assert(Spatial >= 1 && Spatial <= 3, "sinter: [nn::conv] there are one to three spatial axes");
  tensor<T, Spatial + 2> weight;
  std::optional<tensor<T, 1>> bias;
  windows_at windows;

  SINTER_LAYER_INIT("nn::conv", "key, inputs, outputs, window", key, std::int64_t, std::int64_t, per_axis)
  /// For `in` and `out` channels: conv2d<float>::init(k, 3, 16, 3, {.stride = 2, .padding = same}). The window is one number,
  /// or one number for each axis.
  static conv init(const key& k, std::int64_t in, std::int64_t out, const per_axis& window,
                   const conv_layer_options& how = {}, location at = location::current()) {
    const char* op = "nn::conv";
    detail::check_layer(op, in, out, how.stride, how.padding.amount, how.dilation, how.groups, Spatial, at);
    const auto [extents, taps] = detail::weight_extents<Spatial>(op, out, in / how.groups, window, at);
    const double fan_in = taps * static_cast<double>(in / how.groups),
                 fan_out = taps * static_cast<double>(out / how.groups);
    const auto [first, second] = split(k, at);
    conv made{how.weight.draw<T>(first, extents, fan_in, fan_out, at), std::nullopt,
              conv_options{how.stride, how.padding, how.dilation, how.groups}};
    if (how.bias) made.bias = torch_uniform().draw<T>(second, std::array{out}, fan_in, fan_out, at);
    return made;
  }

  SINTER_LAYER_CALLS("nn::conv", "layer(x), x a tensor")
  SINTER_LAYER_DTYPE("nn::conv")
  template <tensor_like X>
  requires(std::is_same_v<typename X::value_type, T>) auto operator()(const X& x,
                                                                      location here = location::current()) const {
    const location at = here.in("nn::conv");
    const auto how = windows.template plain<Spatial>();
    const tensor<T, Spatial + 2> y = [&] {
      if constexpr (Spatial == 1) return sinter::conv1d(x, weight, how, at);
      else if constexpr (Spatial == 2) return sinter::conv2d(x, weight, how, at);
      else return sinter::conv3d(x, weight, how, at);
    }();
    if (!bias) return y;
    return detail::shifted_channels(y, *bias, at);
  }
};

/// The transpose of a convolution: x (batch, channels, …), weights (in, out / groups, window…), in PyTorch's order.
template <class T, int Spatial>
struct conv_transpose {
  static_assert(Spatial >= 1 && Spatial <= 3, "sinter: [nn::conv_transpose] there are one to three spatial axes");
  tensor<T, Spatial + 2> weight;
  std::optional<tensor<T, 1>> bias;
  windows_at windows;

  SINTER_LAYER_INIT("nn::conv_transpose", "key, inputs, outputs, window", key, std::int64_t, std::int64_t, per_axis)
  static conv_transpose init(const key& k, std::int64_t in, std::int64_t out, const per_axis& window,
                             const conv_transpose_layer_options& how = {}, location at = location::current()) {
    const char* op = "nn::conv_transpose";
    detail::check_layer(op, in, out, how.stride, how.padding, how.dilation, how.groups, Spatial, at);
    const auto [extents, taps] = detail::weight_extents<Spatial>(op, in, out / how.groups, window, at);
    const double fan_in = taps * static_cast<double>(out / how.groups),
                 fan_out = taps * static_cast<double>(in / how.groups);  // PyTorch's
    const auto [first, second] = split(k, at);
    conv_transpose made{how.weight.draw<T>(first, extents, fan_in, fan_out, at), std::nullopt,
                        conv_transpose_options{how.stride, how.padding, how.output_padding, how.dilation, how.groups}};
    if (how.bias) made.bias = torch_uniform().draw<T>(second, std::array{out}, fan_in, fan_out, at);
    return made;
  }

  SINTER_LAYER_CALLS("nn::conv_transpose", "layer(x), x a tensor")
  SINTER_LAYER_DTYPE("nn::conv_transpose")
  template <tensor_like X>
  requires(std::is_same_v<typename X::value_type, T>) auto operator()(const X& x,
                                                                      location here = location::current()) const {
    const location at = here.in("nn::conv_transpose");
    const auto how = windows.template transposed<Spatial>();
    const tensor<T, Spatial + 2> y = [&] {
      if constexpr (Spatial == 1) return sinter::conv_transpose1d(x, weight, how, at);
      else if constexpr (Spatial == 2) return sinter::conv_transpose2d(x, weight, how, at);
      else return sinter::conv_transpose3d(x, weight, how, at);
    }();
    if (!bias) return y;
    return detail::shifted_channels(y, *bias, at);
  }
};

template <class T>
using conv1d = conv<T, 1>;
template <class T>
using conv2d = conv<T, 2>;
template <class T>
using conv3d = conv<T, 3>;
template <class T>
using conv_transpose1d = conv_transpose<T, 1>;
template <class T>
using conv_transpose2d = conv_transpose<T, 2>;
template <class T>
using conv_transpose3d = conv_transpose<T, 3>;

}  // namespace sinter::nn
