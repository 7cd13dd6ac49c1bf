// bench/models/layers.hpp: what the models share: a few layers and AdamW over any tree.
#pragma once

#include <cmath>
#include <utility>

#include "row.hpp"

namespace models {

using matrix = tensor<float, 2>;
using vector = tensor<float, 1>;
using sequence = tensor<float, 3>;  ///< (batch, length, width)
using ids = tensor<std::int64_t, 2>;
using labels = tensor<std::int64_t, 1>;

struct linear {
  matrix w;
  vector b;
};

inline linear make_linear(key_stream& keys, int in, int out) {
  return {normal<float>(keys(), in, out) / std::sqrt(static_cast<float>(in)), zeros<float>(out)};
}

template <tensor_like X>
auto apply(const linear& layer, const X& x) {
  return matmul(x, layer.w) + layer.b;
}

struct scale_and_shift {
  vector gain, bias;
};

inline scale_and_shift make_norm(int width) { return {ones<float>(width), zeros<float>(width)}; }

template <tensor_like X>
auto apply(const scale_and_shift& norm, const X& x) {
  return layer_norm(x, norm.gain, norm.bias);
}

/// (batch, length, width) as (batch, heads, length, width / heads).
template <tensor_like X>
auto to_heads(const X& x, int heads) {
  return permute(reshape(x, x.size(0), x.size(1), heads, -1), axis<0, 2, 1, 3>);
}

template <tensor_like X>
sequence from_heads(const X& x) {
  return reshape(permute(x, axis<0, 2, 1, 3>), x.size(0), x.size(2), -1);
}

/// softmax(q kᵀ / √width) v of tensors (batch, heads, length, width); `causal`: of what is not behind.
inline tensor<float, 4> attend(const tensor<float, 4>& q, const tensor<float, 4>& k, const tensor<float, 4>& v,
                               bool causal) {
  const float scale = 1 / std::sqrt(static_cast<float>(static_cast<std::int64_t>(q.size(3))));
  tensor<float, 4> scores = matmul(q, transpose(k)) * scale;
  if (causal) {
    const auto at = arange<std::int64_t>(q.size(2));
    scores = where(expand_dims(at, axis<1>) >= at, scores, -INFINITY);
  }
  return matmul(softmax(scores), v);
}

/// What a step of training takes and returns.
template <class Net>
struct training {
  Net net, momentum, power;
  tensor<float, 0> steps;
};

template <class Net>
training<Net> start(Net net) {
  const auto nothing = tree_map([](auto p) { return zeros_like(p); }, net);
  return {std::move(net), nothing, nothing, zeros<float>()};
}

/// AdamW (Loshchilov and Hutter, 2019).
template <class Net>
training<Net> adamw(const training<Net>& s, const Net& gradient, float rate = 1e-3f) {
  constexpr float b1 = 0.9f, b2 = 0.999f, epsilon = 1e-8f, decay = 0.01f;
  const tensor<float, 0> n = s.steps + 1.f;
  const auto m = tree_map([](auto m, auto g) { return b1 * m + (1 - b1) * g; }, s.momentum, gradient);
  const auto v = tree_map([](auto v, auto g) { return b2 * v + (1 - b2) * g * g; }, s.power, gradient);
  const auto update = [&](auto p, auto m, auto v) {
    return p * (1 - rate * decay) - rate * (m / (1 - pow(b1, n))) / (sqrt(v / (1 - pow(b2, n))) + epsilon);
  };
  return {tree_map(update, s.net, m, v), m, v, n};
}

/// The step that follows from a loss of (net, batch...).
template <class Loss>
auto step_of(Loss loss) {
  return [loss]<class Net>(const training<Net>& s, const auto&... batch) {
    auto [l, gradient] = value_and_grad(loss)(s.net, batch...);
    return std::pair{l, adamw(s, gradient)};
  };
}

/// Training by that step; its memory is that of the loss's pullback, called apart.
template <class Loss, class Net, class... Batch>
workload descended(const settings& s, const char* name, Loss loss, const Net& net, const Batch&... batch) {
  workload w = trained(s, name, step_of(loss), start(net), batch...);
  w.saved = [=] {
    const auto [value, back] = vjp(loss)(net, batch...);
    return std::pair{back.held_bytes(), back.all_bytes()};
  };
  return w;
}

}  // namespace models
