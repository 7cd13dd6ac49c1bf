// A neural ordinary differential equation (Chen et al., 2018): the right side of an equation of motion is a network, learned from
// short pieces of one path by derivatives through the solver. What it learned is then followed over the whole path.
//
//   neural_ode [--device cpu|cuda] [--steps N] [--svg neural_ode.svg]
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/plot.hpp"
#include "support/program.hpp"

using namespace sinter;
using states = tensor<float, 2>;  // a row of two for each path
using paths = tensor<float, 3>;   // time first
using network = nn::mlp<float, nn::tanh>;

constexpr float dt = 0.1f;

/// Runge and Kutta's fourth order, from y0: where it is after each of n steps.
template <class F>
paths solve(const F& f, const states& y0, std::int64_t n) {
  const auto step = [&](const states& y, const auto&) {
    const states a = f(y), b = f(y + 0.5f * dt * a), c = f(y + 0.5f * dt * b), d = f(y + dt * c);
    const states next = y + dt / 6 * (a + 2 * b + 2 * c + d);
    return std::pair{next, next};
  };
  return scan(step, y0, zeros<float>(n)).second;
}

/// A pendulum with friction: its angle, and how fast that changes.
states pendulum(const states& y) {
  const auto angle = slice<1>(y, 0, 1), speed = slice<1>(y, 1, 2);
  return concat<1>(speed, -sin(angle) - 0.2f * speed);
}

paths model(const network& net, const states& y0, std::int64_t n) { return solve(net, y0, n); }

bool learn(const arguments& given) {
  const int steps = given.steps(1500);
  constexpr int length = 200, piece = 10, batch = 32;
  const states start{{2.5f, 0}};
  const states path = reshape(
      concat(reshape(start, 1, 1, 2), compile([](const states& y) { return solve(pendulum, y, length); })(start)), -1,
      2);

  const auto opt = optim::adam({.rate = optim::cosine(5e-3, steps)});
  network net = network::init(make_key(0), {2, 48, 2});
  auto state = opt.init(net);
  const auto step = compile(
      [&](const network& net, const auto& state, const states& path, const key& k) {
        const auto from = randint<std::int64_t>(k, 0, length - piece, batch);
        const paths want = take(path, expand_dims(arange<std::int64_t>(1, piece + 1), axis<1>) + from);
        const auto loss = [&](const network& net) { return mean(abs(model(net, take(path, from), piece) - want)); };
        const auto [l, g] = value_and_grad(loss)(net);
        const auto [next, after] = opt.update(net, g, state);
        return std::tuple{l, next, after};
      },
      {.donate = {0, 1}});

  data::progress_bar bar(steps);
  for (int i = 0; i < steps; ++i) {
    tensor<float, 0> l;
    std::tie(l, net, state) = step(std::move(net), std::move(state), path, fold_in(make_key(1), i));
    if ((i + 1) % std::max(1, steps / 20) == 0) bar.show(i + 1, "loss " + std::to_string(l.item()));
  }

  const states found = reshape(compile(model)(net, start, length), -1, 2), known = slice<0>(path, 1);
  const auto column = [](const states& y, int i) { return slice<1>(y, i, i + 1).to_vector(); };
  plot("A pendulum with friction, learned from pieces of a second", "angle")
      .points("measured", column(known, 0), column(known, 1))
      .line("learned", column(found, 0), column(found, 1))
      .write(given("svg", "neural_ode.svg"));
  return below("mean distance over the whole path", mean(norm(found - known, axis<1>)).item(), 0.1);
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N]", learn); }
