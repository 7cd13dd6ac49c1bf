// maml.cpp: model-agnostic meta-learning (Finn et al., 2017): a network learns to learn sines from ten points in one step.
#include <numbers>

#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/plot.hpp"
#include "support/program.hpp"
using namespace sinter;

using network = nn::mlp<float, nn::relu>;

/// Waves, and points of each: (waves, points, 1).
struct tasks {
  f32_3 x, y;
};

tasks draw(const key& k, std::int64_t n, std::int64_t points) {
  const auto [a, b, c] = split<3>(k);
  const f32_3 x = uniform<float>(a, n, points, 1) * 10.f - 5.f;
  const f32_3 height = uniform<float>(b, n, 1, 1) * 4.9f + 0.1f;
  return {x, height * sin(x + std::numbers::pi_v<float> * uniform<float>(c, n, 1, 1))};
}

f32_0 square_error(const network& p, const f32_2& x, const f32_2& y) { return mse_loss(p(x), y); }

/// The parameters after a step on the first ten points.
network adapted(const network& p, const f32_2& x, const f32_2& y) {
  return tree_axpy(-0.02f, grad(square_error)(p, slice<0>(x, 0, 10), slice<0>(y, 0, 10)), p);
}

/// The error at the other points of all waves, after that step.
f32_0 loss(const network& p, const key& k) {
  const tasks all = draw(k, 25, 20);
  const auto each = [&](const f32_2& x, const f32_2& y) {
    return square_error(adapted(p, x, y), slice<0>(x, 10), slice<0>(y, 10));
  };
  return mean(vmap(each)(all.x, all.y));
}

bool train(const arguments& given) {
  const int steps = given.steps(3000);
  const optim::adam opt({.rate = optim::cosine(2e-3, steps)});
  const auto step = compile(optim::train_step(opt, loss), {.donate = {0, 1}});
  network p = network::init(make_key(1), {1, 40, 40, 1});
  auto state = opt.init(p);
  data::progress_bar bar(steps);
  for (int i = 0; i < steps; ++i) {
    f32_0 l;
    std::tie(l, p, state) = step(std::move(p), std::move(state), fold_in(make_key(2), i));
    if ((i + 1) % 100 == 0) bar.show(i + 1, words("loss %.4f", l.item()));
  }
  const tasks one = draw(make_key(4), 1, 10);
  const f32_2 x = expand_dims<1>(linspace<float>(-5, 5, 101));
  const network q = adapted(p, one.x[0], one.y[0]);
  plot("A sine from ten points", "x")
      .line("before", x.to_vector(), p(x).to_vector())
      .line("after a step", x.to_vector(), q(x).to_vector())
      .points("points", one.x.to_vector(), one.y.to_vector())
      .write(given("svg", "maml.svg"));
  const tasks all = draw(make_key(3), 500, 20);
  const double before = mean(square(p(all.x) - all.y)).item();
  double after = 0;
  for (int i = 0; i < 20; ++i) after += loss(p, fold_in(make_key(3), i)).item() / 20;
  std::printf("square error before the step  %.4f\n", before);
  return below("square error after it, of that before", after / before, 0.45);
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N]", train); }
