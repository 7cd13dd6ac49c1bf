// A thousand steps of each optimizer with a schedule are one compilation, and come to the least value.
#include <doctest/doctest.h>

#include <tuple>

#include <sinter/sinter.hpp>

#include <sinter/optim.hpp>

using namespace sinter;

namespace {

struct line {
  tensor<float, 2> w;
  tensor<float, 1> b;
};

/// Steps of a fit of y = x w + b, whose rate changes at each: the last loss. One specialisation throughout.
template <class O>
float trained(const O& opt) {
  const tensor<float, 2> x = normal<float>(make_key(1), 32, 3), truth{{1.f, -2.f}, {0.5f, 0.f}, {0.f, 1.f}};
  const tensor<float, 2> y = matmul(x, truth) + tensor<float, 1>{0.3f, -0.1f};
  const auto loss = [&](const line& p) { return tensor<float, 0>(mean(square(matmul(x, p.w) + p.b - y))); };
  const auto step = compile(
      [&](const line& p, const auto& s) {
        const auto [l, g] = value_and_grad(loss)(p);
        const auto [q, next] = opt.update(p, g, s);
        return std::tuple{l, q, next};
      },
      {.donate = {0, 1}});
  line p{zeros<float>(3, 2), zeros<float>(2)};
  auto state = opt.init(p);
  tensor<float, 0> last;
  std::size_t kernels = 0;
  for (int i = 0; i < 1000; ++i) {
    std::tie(last, p, state) = step(std::move(p), std::move(state));
    if (i == 0) kernels = step.report().kernels;
  }
  CHECK(step.specialisations() == 1);
  CHECK(step.report().kernels == kernels);
  return last.item();
}

}  // namespace

TEST_CASE("a thousand steps with a schedule are compiled once: SGD, Adam, AdamW") {
  CHECK(trained(optim::sgd({.rate = optim::cosine(0.2, 1000), .momentum = 0.9, .nesterov = true})) < 1e-6f);
  CHECK(trained(optim::adam({.rate = optim::warmup_cosine(0.05, 50, 1000)})) < 1e-6f);
  CHECK(trained(optim::chain(optim::clip_by_global_norm(1), optim::adamw({.rate = optim::one_cycle(0.05, 1000)}))) <
        1e-6f);
}

TEST_CASE("a thousand steps with a schedule are compiled once: Lion, RMSProp, Adagrad") {
  CHECK(trained(optim::lion({.rate = optim::linear(0.02, 0, 1000)})) < 1e-4f);
  CHECK(trained(optim::rmsprop({.rate = optim::exponential(0.05, 0.1, 200)})) < 1e-4f);
  CHECK(trained(optim::adagrad({.rate = optim::staircase(0.5, 0.5, 400)})) < 1e-4f);
}

TEST_CASE("a thousand steps with a schedule are compiled once: Muon, L-BFGS, a function of one's own") {
  CHECK(trained(optim::muon(
            {.rate = optim::cosine(0.05, 1000), .weight_decay = 0, .others = {.rate = optim::cosine(0.05, 1000)}})) <
        1e-4f);
  CHECK(trained(optim::lbfgs({.rate = optim::linear(1, 0.1, 1000), .history = 4})) < 1e-6f);
  CHECK(trained(optim::accumulate(2, optim::sgd({.rate = optim::cosine(0.3, 500)}))) < 1e-6f);
}
