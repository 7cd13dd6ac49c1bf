// Hamiltonian Monte Carlo (Duane et al., 1987): the posterior of a regression, by many chains at once with vmap, draws in a scan,
// leapfrog steps in a loop. The posterior is Gaussian, so that its moments are known.
//
//   hmc [--device cpu|cuda] [--steps DRAWS] [--svg hmc.svg]
#include <sinter/linalg.hpp>

#include "support/plot.hpp"
#include "support/program.hpp"

using namespace sinter;
using vector = tensor<double, 1>;

constexpr double noise = 0.5, prior = 2;

struct measured {
  tensor<double, 2> x;
  vector y;
};

/// The negative logarithm of the posterior of the weights, but for a constant.
const auto potential = [](const vector& w, const measured& d) {
  return 0.5 * sum(square(d.y - matmul(d.x, w))) / (noise * noise) + 0.5 * sum(w * w) / (prior * prior);
};

/// One draw: a momentum, a path of leapfrog steps, and the choice between its ends.
std::pair<vector, tensor<double, 0>> draw(const vector& w, const key& k, const measured& d) {
  constexpr double step = 0.03;
  const auto [push, choice] = split(k);
  const auto slope = [&](const vector& w) { return grad(potential)(w, d); };
  const vector p = normal<double>(push, w.size(0));
  const auto leap = [&](const auto&, const std::pair<vector, vector>& at) {
    const vector half = at.second - 0.5 * step * slope(at.first);
    const vector next = at.first + step * half;
    return std::pair{next, vector(half - 0.5 * step * slope(next))};
  };
  const auto [end, q] = fori_loop(0, 16, leap, std::pair{w, p});
  const auto energy = [&](const vector& w, const vector& p) { return potential(w, d) + 0.5 * sum(p * p); };
  const tensor<bool, 0> taken = log(uniform<double>(choice)) < energy(w, p) - energy(end, q);
  return {where(taken, end, w), cast<double>(taken)};
}

/// A chain, after as many draws again that are thrown away.
const auto chain = [](const vector& start, const key& k, const measured& d, std::int64_t draws) {
  const auto step = [&](const vector& w, const key& k) {
    const auto [next, taken] = draw(w, k, d);
    return std::pair{next, std::pair{next, taken}};
  };
  return scan(step, scan(step, start, split_stacked(fold_in(k, 0), draws)).first, split_stacked(fold_in(k, 1), draws))
      .second;
};

bool sample(const arguments& given) {
  const int steps = given.steps(1000);
  const auto [of_x, of_y, of_start, of_chains] = split<4>(make_key(11));
  const tensor<double, 1> t = uniform<double>(of_x, 40) * 4.0 - 1.0;
  const measured d{stack<1>(ones_like(t), t, t * t), 1.0 - 2.0 * t + 0.5 * t * t + noise * normal<double>(of_y, 40)};

  constexpr int chains = 32, rounds = 4;
  const int draws = std::max(1, steps / rounds);
  const auto run = compile(vmap([=](const vector& w, const key& k, const measured& d) { return chain(w, k, d, draws); },
                                in_axes<0, 0, none>, out_axes<1>));
  data::progress_bar bar(rounds);
  std::vector<tensor<double, 3>> all;
  tensor<double, 2> start = normal<double>(of_start, chains, 3);
  double taken = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto [w, accepted] = run(start, split_stacked(fold_in(of_chains, i), chains), d);
    all.push_back(w), taken += mean(accepted).item();
    start = w[-1];
    bar.show(i + 1, "accepted " + std::to_string(100 * taken / (i + 1)) + " %");
  }

  const tensor<double, 3> w = concat(all);  // draw, chain, weight
  const tensor<double, 2> means = mean(w, axis<0>), flat = reshape(w, -1, 3);
  const vector middle = mean(means, axis<0>), error = sqrt(var(means, axis<0>) / chains);
  const tensor<double, 2> spread = matmul(transpose(flat - middle), flat - middle) / double(flat.size(0));
  const tensor<double, 2> exact =
      linalg::inv(matmul(transpose(d.x), d.x) / (noise * noise) + eye<double>(3) / (prior * prior));
  const vector known = matmul(exact, matmul(transpose(d.x), d.y)) / (noise * noise);
  const auto column = [&](int i) { return slice<0>(slice<1>(flat, i, i + 1), 0, to_end, 16).to_vector(); };
  plot("Draws of the posterior", "slope").points("curvature", column(1), column(2)).write(given("svg", "hmc.svg"));

  bool right = true;
  for (int i = 0; i < 3; ++i) {
    const double sd = std::sqrt(exact(i, i));
    right &= agrees("posterior mean", middle(i), known(i), 4 * error(i) + 0.01 * sd);
    right &= agrees("posterior deviation", std::sqrt(spread(i, i)), sd, 0.05 * sd);
  }
  const vector between = var(means, axis<0>), within = mean(var(w, axis<0>), axis<0>);
  return right & below("R-hat, the largest", max(sqrt(1.0 + between / within)).item(), 1.05);
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N]", sample); }
