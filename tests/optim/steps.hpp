// tests/optim/steps.hpp: a step of AdamW by the library, and one written by hand.
#pragma once

#include <tuple>

#include <sinter/sinter.hpp>

#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

namespace steps {

using namespace sinter;

using net = nn::mlp<float, nn::gelu>;
using state = optim::adam_state<net>;
using batch = tensor<float, 2>;

inline auto loss_and_gradient(const net& p, const batch& x) {
  return value_and_grad([&](const net& p) { return mean(p(x) * p(x)); })(p);
}

inline std::tuple<tensor<float, 0>, net, state> by_library(const net& p, const state& s, const batch& x) {
  static const optim::adamw opt({.rate = 1e-2, .weight_decay = 0.1});
  auto [loss, g] = loss_and_gradient(p, x);
  auto [q, next] = opt.update(p, g, s);
  return {loss, q, next};
}

inline std::tuple<tensor<float, 0>, net, state> by_hand(const net& p, const state& s, const batch& x) {
  auto [loss, g] = loss_and_gradient(p, x);
  const tensor<std::int64_t, 0> step = s.step + std::int64_t(1);
  const tensor<float, 0> t = cast<float>(step);
  const net m = tree_map([](const auto& m, const auto& g) { return 0.9f * m + 0.1f * g; }, s.first, g);
  const net v = tree_map([](const auto& v, const auto& g) { return 0.999f * v + 0.001f * g * g; }, s.second, g);
  const net q = tree_map(
      [&](const auto& p, const auto& m, const auto& v) {
        return p * (1 - 1e-2f * 0.1f) - 1e-2f * (m / (1 - pow(0.9f, t))) / (sqrt(v / (1 - pow(0.999f, t))) + 1e-8f);
      },
      p, m, v);
  return {loss, q, {step, m, v}};
}

inline net first() { return net::init(make_key(1), {3, 5, 4, 1}); }
inline state begun(const net& p) { return optim::adamw().init(p); }
inline batch some() { return normal<float>(make_key(2), 6, 3); }

}  // namespace steps
