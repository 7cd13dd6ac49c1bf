// A mixture of three Gaussians fitted by maximum likelihood: expectation and maximisation (Dempster et al., 1977) gets near in a
// scan, Newton's method with the exact Hessian gets there, and the inverse Hessian tells the standard errors.
//
//   newton [--device cpu|cuda] [--steps EM_STEPS] [--svg newton.svg]
#include <sinter/linalg.hpp>

#include "support/plot.hpp"
#include "support/program.hpp"

using namespace sinter;
using vector = tensor<double, 1>;

struct mixture {
  vector odds;  // logarithms of weights; the last is 0 but for a constant
  vector mean, log_deviation;
};

/// The log density of each part at each point: (n, 3).
tensor<double, 2> log_parts(const mixture& m, const vector& x) {
  const vector weight = log_softmax(concat<0>(m.odds, zeros<double>(1)));
  const auto z = (expand_dims(x, axis<1>) - m.mean) / exp(m.log_deviation);
  return weight - m.log_deviation - 0.5 * std::log(2 * M_PI) - 0.5 * z * z;
}

const auto loss = [](const mixture& m, const vector& x) { return -mean(logsumexp(log_parts(m, x), axis<1>)); };

/// Each part takes the points that are its own, each by its share.
mixture em_step(const mixture& m, const vector& x) {
  const auto share = softmax(log_parts(m, x), axis<1>);
  const vector count = sum(share, axis<0>);
  const vector middle = matmul(x, share) / count;
  const vector spread = sum(share * square(expand_dims(x, axis<1>) - middle), axis<0>) / count;
  return {log(slice<0>(count, 0, 2) / count[2]), middle, 0.5 * log(spread)};
}

vector draw(const key& k, std::int64_t n) {
  const auto [which, noise] = split(k);
  const auto part = categorical(which, log(vector{0.5, 0.3, 0.2}) + zeros<double>(n, 1));
  return take(vector{-2, 1, 4}, part) + take(vector{0.8, 0.6, 1.2}, part) * normal<double>(noise, n);
}

bool fit(const arguments& given) {
  const int steps = given.steps(60);
  const vector x = draw(make_key(3), 4000);
  const mixture start{{0, 0}, {-1, 0, 1}, {0, 0, 0}};

  const auto em = compile([](const mixture& m, const vector& x, const vector& turns) {
    return scan(
        [&](const mixture& m, const tensor<double, 0>&) {
          return std::pair{em_step(m, x), loss(m, x)};
        },
        m, turns);
  });
  const auto newton = compile([](const mixture& m, const vector& x) {
    const auto [v, back] = ravel(m);
    const auto f = [&, back = back](const vector& v) { return loss(back(v), x); };
    const auto [value, slope] = value_and_grad(f)(v);
    const tensor<double, 2> curvature = hessian(f)(v);
    return std::tuple{back(v - linalg::solve(curvature, slope)), value, norm(slope), linalg::inv(curvature)};
  });

  auto [m, losses] = em(start, x, zeros<double>(steps));
  std::vector<double> em_losses = losses.to_vector(), newton_losses, slopes;
  tensor<double, 2> variance;
  data::progress_bar bar(8);
  for (int i = 0; i < 8; ++i) {
    const auto [next, value, slope, inverse] = newton(m, x);
    m = next, variance = inverse;
    newton_losses.push_back(value.item()), slopes.push_back(slope.item());
    bar.show(i + 1, "Newton: slope " + std::to_string(std::log10(slope.item())) + " decades");
  }

  const double best = newton_losses.back();
  for (auto* all : {&em_losses, &newton_losses})
    for (double& l : *all) l -= best;
  const auto turns = arange<double>(steps).to_vector();
  plot("Above the least loss", "step", true)
      .line("EM", turns, em_losses)
      .line("Newton, after it", turns, newton_losses)
      .write(given("svg", "newton.svg"));

  bool right = below("slope at the end", slopes.back(), 1e-12);
  double rise = -1;
  for (std::size_t i = 1; i < em_losses.size(); ++i) rise = std::max(rise, em_losses[i] - em_losses[i - 1]);
  right &= below("largest rise of the loss by EM", rise, 1e-12);
  const auto error = (4.0 * sqrt(diagonal(variance) / 4000.0)).to_vector();  // four standard errors
  const auto found = ravel(m).first.to_vector();
  const double known[] = {std::log(0.5 / 0.2), std::log(0.3 / 0.2), -2,           1, 4,
                          std::log(0.8),       std::log(0.6),       std::log(1.2)};
  const auto names = {"odds 0", "odds 1",          "mean 0",          "mean 1",
                      "mean 2", "log deviation 0", "log deviation 1", "log deviation 2"};
  for (std::size_t i = 0; i < found.size(); ++i) right &= agrees(names.begin()[i], found[i], known[i], error[i]);
  return right;
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N]", fit); }
