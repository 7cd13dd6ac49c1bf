// An inverse problem: how well a rod conducts heat, along its length, from six thermometers. The heat equation is a scan over time, its
// Jacobian by forward mode goes through all steps, and Levenberg and Marquardt's method (1963) finds what fits best.
//
//   pde_inverse [--device cpu|cuda] [--steps N] [--svg pde_inverse.svg]
#include <sinter/linalg.hpp>

#include "support/plot.hpp"
#include "support/program.hpp"

using namespace sinter;
using vector = tensor<double, 1>;
using matrix = tensor<double, 2>;

constexpr int cells = 32, steps = 500, knots = 4;
constexpr double dx = 1.0 / cells, dt = 5e-4, noise = 2e-3;

/// Between cells: the logarithm is linear between knots.
vector conductivity(const vector& knot) {
  const vector at = linspace<double>(0, knots - 1, cells + 1);
  const auto hat = relu(1.0 - abs(expand_dims(at, axis<1>) - arange<double>(knots)));
  return exp(matmul(hat, knot));
}

/// What the thermometers show at every tenth step, of a cold rod whose right end is heated.
matrix measured(const vector& knot) {
  const vector k = conductivity(knot);
  const auto step = [&](const vector& u, const tensor<double, 0>&) {
    const vector flux = k * diff(concat(zeros<double>(1), u, ones<double>(1))) / dx;
    const vector next = u + dt / dx * diff(flux);
    return std::pair{next, next};
  };
  const matrix all = scan(step, zeros<double>(cells), zeros<double>(steps)).second;
  return slice<1>(slice<0>(all, 9, to_end, 10), 3, to_end, 5);
}

struct fit {
  vector knot;
  tensor<double, 0> damping;
};

bool learn(const arguments& given) {
  const int steps = given.steps(15);
  const vector truth = log(vector{0.1, 0.5, 0.2, 0.4});
  const matrix clean = compile(measured)(truth), seen = clean + noise * normal<double>(make_key(1), clean.shape());

  const auto step = compile([](const fit& f, const matrix& seen) {
    const auto off = [&](const vector& knot) { return vector(flatten(measured(knot) - seen) / noise); };
    const vector r = off(f.knot);
    const matrix j = jacobian(off)(f.knot), square_of = matmul(transpose(j), j);
    const vector next = f.knot - linalg::solve(square_of + f.damping * eye<double>(knots), matmul(r, j));
    const bool_0 better = sum(square(off(next))) < sum(square(r));
    const fit after{where(better, next, f.knot), f.damping * where(better, 0.1, 10.0)};
    return std::tuple{after, mean(square(r)), sqrt(diagonal(linalg::inv(square_of)))};
  });

  fit found{log(full<double>(0.25, knots)), 1e3};
  vector error;
  double loss = 0;
  data::progress_bar bar(steps);
  for (int i = 0; i < steps; ++i) {
    const auto [next, misfit, deviation] = step(found, seen);
    found = next, error = deviation, loss = misfit.item();
    bar.show(i + 1, "misfit " + std::to_string(loss));
  }

  const auto x = linspace<double>(0, 1, cells + 1).to_vector();
  plot("How well the rod conducts", "x")
      .line("truth", x, conductivity(truth).to_vector())
      .points("found", x, conductivity(found.knot).to_vector())
      .write(given("svg", "pde_inverse.svg"));
  bool right = agrees("misfit in units of the noise", loss, 1, 0.2);
  for (int i = 0; i < knots; ++i) right &= agrees("log conductivity", found.knot(i), truth(i), 4 * error(i));
  return right & below("standard error, the largest", max(error).item(), 0.2);
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N]", learn); }
