// gaussian_process.cpp: a Gaussian process is fitted by its marginal likelihood; the known answers are the process that made the data,
// within the errors that the Hessian tells, and how far held-out points lie from the predictions.
#include <sinter/linalg.hpp>
#include <sinter/optim.hpp>

#include "support/plot.hpp"
#include "support/program.hpp"
using namespace sinter;

struct process {
  f64_0 size, length, noise;  // logarithms
};

f64_2 covariance(const process& p, const f64_1& a, const f64_1& b) {
  return exp(2.0 * p.size - 0.5 * square((expand_dims(a, axis<1>) - b) / exp(p.length)));
}
f64_2 observed(const process& p, const f64_1& x) {
  return covariance(p, x, x) + exp(2.0 * p.noise) * eye<double>(x.size(0));
}
/// The negative logarithm of the marginal likelihood, but for a constant.
f64_0 loss(const process& p, const f64_1& x, const f64_1& y) {
  const f64_2 l = linalg::cholesky(observed(p, x));
  return 0.5 * sum(square(linalg::triangular_solve(l, y))) + sum(log(diagonal(l)));
}
/// Mean and covariance of what is observed at other points.
std::pair<f64_1, f64_2> predicted(const process& p, const f64_1& x, const f64_1& y, const f64_1& at) {
  const f64_2 l = linalg::cholesky(observed(p, x)), v = linalg::triangular_solve(l, covariance(p, x, at));
  return {matmul(linalg::triangular_solve(l, y), v), observed(p, at) - matmul(transpose(v), v)};
}

bool fit(const arguments& given) {
  const int steps = given.steps(30);
  const process truth{0.0, std::log(0.5), std::log(0.2)};
  const auto [a, b, c] = split<3>(make_key(4));
  const f64_1 places = 10.0 * uniform<double>(a, 200);
  const f64_1 f = matmul(linalg::cholesky(f64_2(covariance(truth, places, places) + 1e-9 * eye<double>(200))),
                         normal<double>(b, 200));
  const f64_1 noisy = f + 0.2 * normal<double>(c, 200);
  const f64_1 x = slice<0>(places, 0, 150), y = slice<0>(noisy, 0, 150);
  const f64_1 new_x = slice<0>(places, 150, 200), new_y = slice<0>(noisy, 150, 200);

  const optim::lbfgs opt;
  const auto step = compile([&](const process& p, auto state) {
    return opt.step([&](const process& p) { return loss(p, x, y); }, p, state);
  });
  process p{0.5, 0.5, 0.5};
  auto state = opt.init(p);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    f64_0 value;
    std::tie(value, p, state) = step(p, state);
    losses.push_back(value.item());
  }
  const auto [v, back] = ravel(p);
  const auto of_vector = [&, back = back](const f64_1& v) { return loss(back(v), x, y); };
  bool right = below("slope at the end", norm(compile(grad(of_vector))(v)).item(), 1e-5);
  const auto error = f64_1(4.0 * sqrt(diagonal(linalg::inv(compile(hessian(of_vector))(v))))).to_vector();
  right &= agrees("log size", p.size.item(), truth.size.item(), error[0]);
  right &= agrees("log length", p.length.item(), truth.length.item(), error[1]);
  right &= agrees("log noise", p.noise.item(), truth.noise.item(), error[2]);
  const auto [middle, spread] = compile(predicted)(p, x, y, new_x);
  const f64_1 z = linalg::triangular_solve(linalg::cholesky(spread), f64_1(new_y - middle));
  right &= agrees("mean square of held-out residuals", mean(square(z)).item(), 1, 4 * std::sqrt(2.0 / 50));
  plot("Loss", "step", false)
      .line("L-BFGS", arange<double>(steps).to_vector(), losses)
      .write(given("svg", "gaussian_process.svg"));
  return right;
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N]", fit); }
