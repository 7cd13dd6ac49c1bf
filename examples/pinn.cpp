// A physics-informed network (Raissi et al., 2019): Burgers' equation u_t + u u_x = nu u_xx is solved by a network whose derivatives
// meet it at random points, and which has the values that are known at the start and on the border. A front that travels is the
// closed form that is learned.
//
//   pinn [--device cpu|cuda] [--steps N] [--svg pinn.svg]
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/plot.hpp"
#include "support/program.hpp"

using namespace sinter;
using scalar = tensor<float, 0>;
using vector = tensor<float, 1>;
using network = nn::mlp<float, nn::tanh>;

constexpr float nu = 0.05f;

template <class X, class T>
auto exact(const X& x, const T& t) {
  return 0.5f - 0.5f * tanh((x - 0.5f * t) * (0.25f / nu));
}

scalar u(const network& net, const scalar& x, const scalar& t) { return net(stack(x, t))[0]; }

/// How far the network is from the equation at one point.
scalar residual(const network& net, const scalar& x, const scalar& t) {
  const auto along_x = [&](const scalar& x) { return u(net, x, t); };
  const scalar u_t = grad([&](const scalar& t) { return u(net, x, t); })(t);
  const auto [u_x, u_xx] = jvp(grad(along_x))(x, scalar(1));
  return u_t + u(net, x, t) * u_x - nu * u_xx;
}

const auto loss = [](const network& net, const key& k) {
  const auto points = [&](int i, float low, float high) {
    return uniform<float>(fold_in(k, i), 128) * (high - low) + low;
  };
  const vector x = points(0, -1, 1), t = points(1, 0, 1), start = points(2, -1, 1), when = points(3, 0, 1);
  const vector side = where(points(4, -1, 1) < 0.f, -1.f, 1.f);
  const auto off = [&](const scalar& x, const scalar& t) { return scalar(u(net, x, t) - exact(x, t)); };
  const auto all = vmap(off)(concat(start, side), concat(zeros_like(start), when));
  return mean(square(vmap([&](const scalar& x, const scalar& t) { return residual(net, x, t); })(x, t))) +
         10.f * mean(square(all));
};

bool solve(const arguments& given) {
  const int steps = given.steps(3000);
  const auto opt = optim::adam({.rate = optim::cosine(1e-2, steps)});
  network net = network::init(make_key(0), {2, 24, 24, 1}, {.weight = nn::glorot_normal()});
  auto state = opt.init(net);
  const auto step = compile(
      [&](const network& net, const auto& state, const key& k) {
        const auto [l, g] = value_and_grad(loss)(net, k);
        const auto [next, after] = opt.update(net, g, state);
        return std::tuple{l, next, after};
      },
      {.donate = {0, 1}});

  data::progress_bar bar(steps);
  for (int i = 0; i < steps; ++i) {
    scalar l;
    std::tie(l, net, state) = step(std::move(net), std::move(state), fold_in(make_key(1), i));
    if ((i + 1) % std::max(1, steps / 20) == 0) bar.show(i + 1, "loss " + std::to_string(l.item()));
  }

  const vector x = linspace<float>(-1, 1, 101);
  plot picture("Burgers' equation: lines are the network's, points exact", "x");
  double worst = 0;
  for (const float t : {0.f, 0.5f, 1.f}) {
    const vector found = reshape(net(stack<1>(x, full_like(x, t))), 101), known = exact(x, t);
    worst = std::max(worst, double(sqrt(mean(square(found - known)) / mean(square(known))).item()));
    const std::string name = "t = " + std::to_string(t).substr(0, 3);
    picture.line(name, x.to_vector(), found.to_vector()).points("", x.to_vector(), known.to_vector());
  }
  picture.write(given("svg", "pinn.svg"));
  return below("relative error of u", worst, 0.02);
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N]", solve); }
