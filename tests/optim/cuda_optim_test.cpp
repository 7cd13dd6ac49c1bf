// A step of training on a GPU: the host's values, states beside the parameters, as many kernels as one written by hand.
#include "steps.hpp"

#include "../close.hpp"

using namespace steps;

TEST_CASE("a step of AdamW on a GPU, with dropout and clipping, too") {
  const device gpu = device::cuda(0);
  const net p = first(), on_gpu = tree_map([&](const auto&x) { return x.to(gpu); }, p);
  const auto s = begun(on_gpu);
  CHECK(s.step.device() == gpu);
  CHECK(s.first.layers[0].weight.device() == gpu);
  const auto library = compile(by_library), hand = compile(by_hand);
  const auto [loss, q, next] = library(on_gpu, s, some().to(gpu));
  const auto [want_loss, want, after] = by_library(p, begun(p), some());
  check_close(q.layers[1].weight.to(device::cpu()).to_vector(), want.layers[1].weight.to_vector(), 1e-5);
  CHECK(next.step.device() == gpu);
  hand(on_gpu, s, some().to(gpu));
  CHECK(library.report().kernels == hand.report().kernels);

  const auto opt = optim::chain(optim::clip_by_global_norm(0.1), optim::sgd({.rate = optim::linear(1, 0, 10)}));
  const auto step = [&](const net& p, const auto& s, const batch& x, const key& k) {
    nn::dropout drop(0.5, k);
    auto g = grad([&](const net& p) { return mean(p(drop(x)) * p(x)); })(p);
    return opt.update(p, g, s);
  };
  const auto [moved, state] = compile(step)(on_gpu, opt.init(on_gpu), some().to(gpu), make_key(4));
  const auto [plain, other] = step(p, opt.init(p), some(), make_key(4));
  check_close(moved.layers[0].weight.to(device::cpu()).to_vector(), plain.layers[0].weight.to_vector(), 1e-5);
  CHECK(moved.layers[0].weight.to(device::cpu()).to_vector() != p.layers[0].weight.to_vector());
}
