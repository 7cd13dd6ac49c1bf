// nn/layers.hpp: linear maps, embeddings, activations, and sequences of layers.
#pragma once

#include <optional>
#include <tuple>
#include <vector>

#include "init.hpp"

namespace sinter::nn {

struct linear_options {
  bool bias = true;
  initializer weight = torch_uniform();
};

/// x · weight + bias along the last axis.
template <class T>
struct linear {
  tensor<T, 2> weight;  ///< (in, out)
  std::optional<tensor<T, 1>> bias;

  SINTER_LAYER_INIT("nn::linear", "key, inputs, outputs", key, std::int64_t, std::int64_t)
  /// Weights for `in` inputs and `out` outputs. The bias is uniform in ±1/√in, as in PyTorch. user_error for sizes below 1.
  static linear init(const key& k, std::int64_t in, std::int64_t out, const linear_options& how = {},
                     location at = location::current()) {
    detail::check_size("nn::linear", "the number of inputs", in, at);
    detail::check_size("nn::linear", "the number of outputs", out, at);
    const double a = static_cast<double>(in), b = static_cast<double>(out);
    const auto [first, second] = split(k, at);
    linear made{how.weight.draw<T>(first, std::array{in, out}, a, b, at), std::nullopt};
    if (how.bias) made.bias = torch_uniform().draw<T>(second, std::array{out}, a, b, at);
    return made;
  }

  SINTER_LAYER_CALLS("nn::linear", "layer(x), x a tensor")
  SINTER_LAYER_DTYPE("nn::linear")
  /// Maps x (…, in) of dtype T to (…, out). user_error for another extent.
  template <tensor_like X>
  requires(std::is_same_v<typename X::value_type, T>) auto operator()(const X& x,
                                                                      location here = location::current()) const {
    const location at = here.in("nn::linear");
    return detail::with_bias(matmul(x, weight, at), bias, at);
  }
};

struct embedding_options {
  std::optional<initializer> weight = std::nullopt;  ///< N(0, 1 / width) by default
};

/// Looks up rows of a table by index.
template <class T>
struct embedding {
  tensor<T, 2> weight;  ///< (count, width)

  SINTER_LAYER_INIT("nn::embedding", "key, rows, width", key, std::int64_t, std::int64_t)
  static embedding init(const key& k, std::int64_t count, std::int64_t width, const embedding_options& how = {},
                        location at = location::current()) {
    detail::check_size("nn::embedding", "the number of rows", count, at);
    detail::check_size("nn::embedding", "the width", width, at);
    const double w = static_cast<double>(width);
    const initializer law = how.weight.value_or(normal_of(1 / std::sqrt(w)));
    return {law.draw<T>(k, std::array{count, width}, static_cast<double>(count), w, at)};
  }

  SINTER_LAYER_CALLS("nn::embedding", "layer(indices), the indices a tensor of integers")
  /// Maps integers (…) to (…, width). Indices behave as in take.
  template <tensor_like I>
  auto operator()(const I& indices, location here = location::current()) const {
    constexpr bool whole = is_integer(dtype_of<typename I::value_type>);
    static_assert(whole, "sinter: [nn::embedding] takes integers; cast with cast<std::int64_t>(x)");
    if constexpr (whole) return take(weight, indices, axis<0>, here.in("nn::embedding"));
    else return weight;
  }
};

/// Activations as objects without members, for `sequential` and `mlp`: `nn::relu{}`.
#define SINTER_X(NAME)                                                     \
  struct NAME {                                                            \
    template <tensor_like X>                                               \
    auto operator()(const X& x, location at = location::current()) const { \
      return sinter::detail::evaluate(sinter::NAME(x, at), at);            \
    }                                                                      \
  };
SINTER_X(relu)
SINTER_X(relu6)
SINTER_X(silu)
SINTER_X(softplus)
SINTER_X(softsign)
SINTER_X(selu)
SINTER_X(hardswish)
SINTER_X(mish)
SINTER_X(sigmoid)
SINTER_X(tanh)
SINTER_X(softmax)
SINTER_X(log_softmax)
#undef SINTER_X
struct gelu {
  template <tensor_like X>
  auto operator()(const X& x, location at = location::current()) const {
    return sinter::detail::evaluate(sinter::gelu(x, at), at);
  }
};
/// Flattens all axes but the first into one.
struct flatten {
  template <tensor_like X>
  auto operator()(const X& x, location at = location::current()) const {
    return reshape(x, std::array<dim, 2>{x.shape()[0], -1}, at);
  }
};
struct identity {
  template <tensor_like X>
  auto operator()(const X& x, location at = location::current()) const {
    return sinter::detail::evaluate(x, at);
  }
};

namespace detail {
/// Whether a layer is called with a pass beside x.
template <class Layer, class X, class Pass>
constexpr bool takes_pass() {
  if constexpr (!std::is_invocable_v<const Layer&, const X&, const Pass&>) return false;
  else return !std::is_same_v<std::invoke_result_t<const Layer&, const X&, const Pass&>, sinter::detail::wrong_call<>>;
}
/// layer(x), with the pass, if there is one, and the place of the call where it takes them.
template <class Layer, class X, class... Pass>
auto applied(const Layer& layer, const X& x, location at, const Pass&... run) {
  if constexpr ((... || takes_pass<Layer, X, Pass>())) {
    if constexpr (requires { layer(x, run..., at); }) return layer(x, run..., at);
    else return layer(x, run...);
  } else if constexpr (requires { layer(x, at); }) {
    return layer(x, at);
  } else {
    return layer(x);
  }
}
}  // namespace detail

/// Applies layers in order, each to the result of the layer before: sequential<linear<float>, relu, linear<float>>. With an
/// nn::pass, the layers that take one get it, such as batch_norm.
template <class... Layer>
struct sequential {
  std::tuple<Layer...> layers;

  template <class X>
  auto operator()(const X& x, location at = location::current()) const {
    return after<0>(x, at);
  }
  template <class X, class T>
  auto operator()(const X& x, const pass<T>& run, location at = location::current()) const {
    return after<0>(x, at, run);
  }

 private:
  template <std::size_t I, class X, class... Pass>
  auto after(const X& x, location at, const Pass&... run) const {
    if constexpr (I == sizeof...(Layer)) return x;
    else return after<I + 1>(detail::applied(std::get<I>(layers), x, at, run...), at, run...);
  }
};

namespace detail {
template <class Part>
auto made_part(const Part& part, const key& k) {
  constexpr bool makes = [] {
    if constexpr (!std::is_invocable_v<const Part&, const key&>) return false;
    else return !std::is_same_v<std::invoke_result_t<const Part&, const key&>, sinter::detail::wrong_call<>>;
  }();
  if constexpr (makes) return part(k);
  else return part;
}
}  // namespace detail

/// A sequential of parts. A part is a layer, or a function of a key that makes a layer; each function gets a key of its own:
/// make_sequential(k, [](key k) { return nn::linear<float>::init(k, 784, 128); }, nn::relu{}, …).
template <std::same_as<key> Key, class... Part>
auto make_sequential(const Key& k, const Part&... parts) {
  std::uint64_t i = 0;
  return sequential<decltype(detail::made_part(parts, k))...>{
      std::tuple<decltype(detail::made_part(parts, k))...>{detail::made_part(parts, fold_in(k, i++))...}};
}

/// Linear maps with an activation between them.
template <class T, class Activation = relu>
struct mlp {
  std::vector<linear<T>> layers;
  Activation activation;

  SINTER_LAYER_INIT("nn::mlp", "key, {widths}", key, std::vector<std::int64_t>)
  SINTER_WRONG_CALL("[nn::mlp] is made by init(key, {widths})")
  static mlp init(const std::vector<std::int64_t>&, const linear_options& = {}) { return {}; }
  /// Makes layers for these widths, the input's width first: mlp<float>::init(k, {784, 256, 10}).
  static mlp init(const key& k, const std::vector<std::int64_t>& widths, const linear_options& how = {},
                  location at = location::current()) {
    if (widths.size() < 2)
      sinter::fail("nn::mlp",
                   "there are " + std::to_string(widths.size()) + " widths; give two or more, the first the input's",
                   at);
    mlp made;
    for (std::size_t i = 0; i + 1 < widths.size(); ++i)
      made.layers.push_back(linear<T>::init(fold_in(k, i, at), widths[i], widths[i + 1], how, at));
    return made;
  }

  SINTER_LAYER_CALLS("nn::mlp", "layer(x), x a tensor")
  SINTER_LAYER_DTYPE("nn::mlp")
  template <tensor_like X>
  requires(std::is_same_v<typename X::value_type, T>) auto operator()(const X& x,
                                                                      location here = location::current()) const {
    const location at = here.in("nn::mlp");
    tensor<T, X::rank> h = sinter::detail::evaluate(x, at);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      h = layers[i](h, at);
      if (i + 1 < layers.size()) h = activation(h, at);
    }
    return h;
  }
};

}  // namespace sinter::nn
