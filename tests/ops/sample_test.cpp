// gamma, beta, poisson and dirichlet: the same bits on every backend, in every release and by lanes; their distributions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "../texts.hpp"
#include "walk.hpp"

using namespace sinter;

namespace {

using vec = tensor<double, 1>;
constexpr double inf = std::numeric_limits<double>::infinity(), nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t many = 100000;

/// The chance of a gamma number up to x.
double gamma_below(double a, double x) {
  const double front = std::exp(a * std::log(x) - x - std::lgamma(a));
  if (x < a + 1) {
    double term = 1 / a, total = term;
    for (int k = 1; k < 10000 && term > total * 1e-15; ++k) total += term *= x / (a + k);
    return front * total;
  }
  double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int k = 1; k < 10000; ++k) {
    const double an = -k * (k - a);
    b += 2;
    d = 1 / (an * d + b), c = b + an / c;
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return 1 - front * h;
}

double beta_fraction(double a, double b, double x) {
  double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m < 10000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / (1 + even * d), c = 1 + even / c, h *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / (1 + odd * d), c = 1 + odd / c, h *= d * c;
    if (std::abs(d * c - 1) < 1e-14) break;
  }
  return h;
}

/// The chance of a beta number up to x.
double beta_below(double a, double b, double x) {
  if (x <= 0 || x >= 1) return x >= 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/// √n times the greatest distance (Kolmogorov and Smirnov): beyond 1.95 once in a thousand.
template <class F>
void check_distribution(std::vector<double> x, F below) {
  std::sort(x.begin(), x.end());
  const auto n = static_cast<double>(x.size());
  double apart = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = below(x[i]);
    apart = std::max({apart, std::abs(want - double(i) / n), std::abs(want - double(i + 1) / n)});
  }
  CHECK(std::sqrt(n) * apart < 1.95);
}

void check_counts(const std::vector<double>& x, double rate) {
  std::vector<double> sorted(x);
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(x.size());
  double total = 0, apart = 0;
  bool whole = true;
  std::size_t i = 0;
  for (double k = 0; i < sorted.size(); ++k) {
    total += std::exp(k * std::log(rate) - rate - std::lgamma(k + 1));
    while (i < sorted.size() && sorted[i] <= k) whole = whole && sorted[i++] == k;
    apart = std::max(apart, std::abs(total - double(i) / n));
  }
  CHECK(whole);
  CHECK(std::sqrt(n) * apart < 1.95);
}

const vec shapes{0.001, 0.3, 1, 1.5, 40, 1e6, 1e12, 1e-200};
const vec rates{0, 0.01, 3.5, 11.999, 12, 700, 1e8, 1e11};

}  // namespace

TEST_CASE("gamma, beta, poisson and dirichlet have the same bits on every backend") {
  const key k = make_key(7);
  ops::walk w;
  const auto same = [&](const char* name, const auto& f, const auto&... x) {
    w.row(name, ops::values(f(x...)), 0, f, x...);
  };
  same(
      "gamma", [&](const vec& a) { return gamma(k, a); }, shapes);
  same(
      "beta", [&](const vec& a, const vec& b) { return beta(k, a, b); }, shapes, rates);
  same(
      "poisson", [&](const vec& a) { return poisson(k, a); }, rates);
  same(
      "dirichlet", [&](const tensor<double, 2>& a) { return dirichlet(k, a); },
      tensor<double, 2>{{0.001, 0.3, 1}, {1.5, 40, 1e6}});
  const tensor<float, 1> many_shapes = 0.05f + 0.1f * cast<float>(arange<std::int64_t>(60));
  same(
      "gamma of f32", [&](const tensor<float, 1>& a) { return gamma(k, a); }, many_shapes);
  w.run();
}

TEST_CASE("the numbers of a key are these in every release") {
  const key k = make_key(7);
  const auto golden = [](const auto& x, std::vector<double> want) { CHECK(x.to_vector() == want); };
  golden(gamma(k, vec{0.3, 1, 40}), {0x1.a9301cf50f6cep-2, 0x1.09928e1d0e52cp-1, 0x1.a4a80274f4d46p+5});
  golden(beta(k, vec{0.3, 1, 40}, 2.0), {0x1.7193784bcbfb2p-2, 0x1.316879a73fd49p-2, 0x1.f805ef7b58498p-1});
  golden(poisson(k, vec{0.5, 9, 40, 1e6}), {0, 13, 37, 0x1.e7e94p+19});
  golden(dirichlet(k, vec{0.3, 1, 40}), {0x1.fc7c01c870259p-8, 0x1.3d9976c01a6d7p-7, 0x1.f710a2216eb6p-1});
}

TEST_CASE("a number for all elements is as a tensor of it, a lane as a call, f32 as f64 rounded") {
  const key k = make_key(9);
  CHECK(gamma<double>(k, 0.7, 5).to_vector() == gamma(k, full<double>(0.7, 5)).to_vector());
  CHECK(beta<double>(k, 0.7, 3, 5).to_vector() == beta(k, full<double>(0.7, 5), 3.0).to_vector());
  CHECK(beta(k, 0.5, vec{2}).item() == beta<double>(k, 0.5, 2).item());
  CHECK((poisson<double, dims{2, 3}>(k, 30).to_vector()) == poisson(k, full<double>(30, 6)).to_vector());
  CHECK(poisson<float>(k, 30, std::array{5}).to_vector() == poisson(k, full<float>(30, 5)).to_vector());
  const auto wide = gamma<double>(k, 2, 50).to_vector();
  const auto narrow = gamma<float>(k, 2, 50).to_vector();
  for (std::size_t i = 0; i < wide.size(); ++i) CHECK(narrow[i] == static_cast<float>(wide[i]));
  const auto one = [](const key& of, const vec& a) {
    return gamma(of, a) + beta(of, a, 2.0) + poisson(of, a * 10) + dirichlet(of, a);
  };
  const tensor<double, 2> a{{0.4, 1, 3}, {2, 0.1, 7}};
  const auto keys = split_stacked(k, 2);
  const auto lanes = vmap(one)(keys, a).to_vector();
  const auto children = split(k, 2);
  for (std::int64_t i = 0; i < 2; ++i) {
    const auto alone = vec(one(children[std::size_t(i)], squeeze<0>(slice<0>(a, i, i + 1)))).to_vector();
    for (std::size_t j = 0; j < 3; ++j) CHECK(lanes[std::size_t(i) * 3 + j] == alone[j]);
  }
}

TEST_CASE("gamma, beta, poisson and dirichlet are distributed so") {
  for (const double a : {0.1, 1.0, 4.5, 1e3})
    check_distribution(gamma<double>(make_key(1), a, many).to_vector(), [&](double x) { return gamma_below(a, x); });
  check_distribution(beta<double>(make_key(2), 0.4, 3, many).to_vector(),
                     [](double x) { return beta_below(0.4, 3, x); });
  check_distribution(beta<double>(make_key(3), 5, 2.5, many).to_vector(),
                     [](double x) { return beta_below(5, 2.5, x); });
  for (const double rate : {0.2, 7.0, 12.0, 150.0, 2e4})
    check_counts(poisson<double>(make_key(4), rate, many).to_vector(), rate);
  const auto d = dirichlet(make_key(5), broadcast_to(vec{0.2, 2, 5}, many, 3));
  check_distribution(squeeze<1>(slice<1>(d, 0, 1)).to_vector(), [](double x) { return beta_below(0.2, 7, x); });
  check_distribution(squeeze<1>(slice<1>(d, 2, 3)).to_vector(), [](double x) { return beta_below(5, 2.2, x); });
  CHECK(max(abs(sum(d, axis<1>) - 1)).item() < 4e-16);
  // Independent: the moments of a sum are the sums of moments.
  const auto x = gamma<double>(make_key(6), 2, 2, many);
  CHECK(var(sum(x, axis<0>)).item() == doctest::Approx(4).epsilon(0.03));
  const auto huge = poisson<double>(make_key(8), 1e14, many);
  CHECK((mean(huge).item() - 1e14) / 1e7 == doctest::Approx(0).epsilon(0.02).scale(1));
  CHECK(var(huge).item() == doctest::Approx(1e14).epsilon(0.03));
  // Of tiny parameters one of two is 1.
  const auto tiny = beta<double>(make_key(9), 1e-5, 1e-5, 1000);
  CHECK(mean(tiny).item() == doctest::Approx(0.5).epsilon(0.1));
  CHECK(all(isfinite(tiny)).item());
}

TEST_CASE("parameters that are none give NaN; what is refused") {
  const key k = make_key(1);
  const vec none{0, -1, inf, nan_value};
  CHECK(all(isnan(gamma(k, none))).item());
  CHECK(all(isnan(beta(k, none, 1.0))).item());
  CHECK(all(isnan(beta(k, 1.0, none))).item());
  CHECK(all(isnan(poisson(k, vec{-1, inf, nan_value}))).item());
  CHECK(std::isnan(gamma<float>(k, -1).item()));
  const auto mixed = dirichlet(k, tensor<double, 2>{{1, 2}, {-1, 2}}).to_vector();
  CHECK(mixed[0] + mixed[1] == 1);
  CHECK(std::isnan(mixed[2]));
  CHECK(std::isnan(mixed[3]));
  CHECK(gamma(k, zeros<float>(0)).numel() == 0);
  CHECK(poisson<float>(k, 3, 0).numel() == 0);
  CHECK(dirichlet(k, zeros<float>(0, 3)).numel() == 0);
  CHECK(texts::contains(texts::error_of([&] { (void)dirichlet(k, zeros<float>(3, 0)); }), "[dirichlet] of nothing"));
  CHECK(texts::contains(texts::error_of([&] { (void)gamma<float>(k, 1, -3); }), "[gamma]"));
  CHECK(texts::contains(texts::error_of([&] { (void)beta(k, vec{1, 2}, vec{1, 2, 3}); }), "sample_test.cpp"));
}
