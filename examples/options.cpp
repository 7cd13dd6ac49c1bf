// European options: all first derivatives of the price (the Greeks) by grad, the second ones by hessian, implied volatilities
// by Newton's method in a while_loop, and a Monte Carlo price differentiated through its paths. Black and Scholes' closed
// forms (1973) are the check.
//
//   options [--device cpu|cuda] [--steps PATHS] [--svg optiongiven("svg", "options.svg")]
#include "support/plot.hpp"
#include "support/program.hpp"

using namespace sinter;
using number_t = tensor<double, 0>;

struct market {
  number_t spot, vol, rate, years;
};

number_t normal_cdf(const number_t& x) { return 0.5 * erfc(-x / std::sqrt(2.0)); }

const auto call = [](const market& m, const number_t& strike) {
  const number_t spread = m.vol * sqrt(m.years);
  const number_t d = (log(m.spot / strike) + m.rate * m.years) / spread + 0.5 * spread;
  return number_t(m.spot * normal_cdf(d) - strike * exp(-m.rate * m.years) * normal_cdf(d - spread));
};

/// The volatility at which a call costs `price`.
const auto implied = [](const market& m, const number_t& strike, const number_t& price) {
  const auto off = [&](const number_t& vol) { return number_t(call({m.spot, vol, m.rate, m.years}, strike) - price); };
  return while_loop([&](const number_t& vol) { return abs(off(vol)) > 1e-10; },
                    [&](const number_t& vol) {
                      const auto [f, slope] = value_and_grad(off)(vol);
                      return number_t(vol - f / slope);
                    },
                    number_t(0.5));
};

/// The mean over random paths, which the draws fix: a function of the market as smooth as the pay-off.
const auto simulated = [](const market& m, const number_t& strike, const tensor<double, 1>& draws) {
  const auto end = m.spot * exp((m.rate - 0.5 * m.vol * m.vol) * m.years + m.vol * sqrt(m.years) * draws);
  return mean(exp(-m.rate * m.years) * relu(end - strike));
};

bool price(const arguments& given) {
  const int steps = given.steps(1 << 17);
  const market now{100.0, 0.2, 0.03, 0.5};
  const tensor<double, 1> strikes = linspace<double>(70, 130, 61);

  const auto greeks = compile(vmap(value_and_grad(call), in_axes<none, 0>));
  const auto [prices, by] = greeks(now, strikes);
  const auto vols = compile(vmap(implied, in_axes<none, 0, 0>))(now, strikes, prices);

  const auto second = compile([](const market& m, const number_t& strike) {
    const auto [v, back] = ravel(m);
    return hessian([&, back = back](const tensor<double, 1>& v) { return call(back(v), strike); })(v);
  });
  const auto gammas = second(now, 105.0).to_vector();

  const auto sample = compile(value_and_grad(simulated));
  data::progress_bar bar(8);
  market slope = tree_zeros_like(now);
  double mean_price = 0;
  for (int i = 0; i < 8; ++i) {
    const auto [p, g] = sample(now, 105.0, normal<double>(fold_in(make_key(1), i), steps));
    mean_price += p.item() / 8, slope = tree_axpy(0.125, g, slope);
    bar.show(i + 1, "paths: price " + std::to_string(p.item()));
  }

  plot("European calls, half a year", "strike")
      .line("price", strikes.to_vector(), prices.to_vector())
      .line("vega", strikes.to_vector(), by[&market::vol].to_vector())
      .line("20 delta", strikes.to_vector(), (20.0 * by[&market::spot]).to_vector())
      .write(given("svg", "options.svg"));

  // The closed forms at a strike of 105.
  const double root = std::sqrt(0.5), d = (std::log(100 / 105.0) + 0.015) / (0.2 * root) + 0.1 * root,
               d2 = d - 0.2 * root;
  const auto cdf = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  const double density = std::exp(-d * d / 2) / std::sqrt(2 * M_PI), later = 105 * std::exp(-0.015);
  const double known = 100 * cdf(d) - later * cdf(d2), vega = 100 * density * root;
  const double error = 20 / std::sqrt(8.0 * steps);  // the pay-off's deviation is about 10
  const market at{by[&market::spot][35], by[&market::vol][35], by[&market::rate][35], by[&market::years][35]};
  bool right = agrees("price", prices[35].item(), known, 1e-10);
  right &= agrees("delta, by grad", at.spot.item(), cdf(d), 1e-10);
  right &= agrees("vega", at.vol.item(), vega, 1e-10);
  right &= agrees("rho", at.rate.item(), 0.5 * later * cdf(d2), 1e-10);
  right &= agrees("theta", -at.years.item(), -(100 * density * 0.2 / (2 * root) + 0.03 * later * cdf(d2)), 1e-10);
  right &= agrees("gamma, by hessian", gammas[0], density / (100 * 0.2 * root), 1e-10);
  right &= agrees("vanna", gammas[1], -density * d2 / 0.2, 1e-10);
  right &= agrees("vomma", gammas[5], vega * d * d2 / 0.2, 1e-9);
  right &= below("implied volatilities, largest error", max(abs(vols - 0.2)).item(), 1e-8);
  right &= agrees("price, Monte Carlo", mean_price, known, 2 * error);
  right &= agrees("delta, through the paths", slope.spot.item(), cdf(d), 0.06 * error);
  return right & agrees("vega, through the paths", slope.vol.item(), vega, 8 * error);
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N]", price); }
