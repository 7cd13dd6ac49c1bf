// L-BFGS with a line search: the strong Wolfe conditions at each step, the same steps as a search written apart, values that are not
// finite, one specialisation.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <tuple>
#include <vector>

#include <sinter/sinter.hpp>

#include <sinter/optim.hpp>

#include "../close.hpp"

using namespace sinter;

namespace {

struct two {
  tensor<double, 0> x, y;
};
using pair_of = std::array<double, 2>;

const auto rosenbrock = [](const two& p) {
  return tensor<double, 0>((1.0 - p.x) * (1.0 - p.x) + 100.0 * square(p.y - p.x * p.x));
};
double value(const pair_of& p) { return (1 - p[0]) * (1 - p[0]) + 100 * (p[1] - p[0] * p[0]) * (p[1] - p[0] * p[0]); }
pair_of slope(const pair_of& p) {
  const double e = p[1] - p[0] * p[0];
  return {-2 * (1 - p[0]) - 400 * p[0] * e, 200 * e};
}
double dot(const pair_of& a, const pair_of& b) { return a[0] * b[0] + a[1] * b[1]; }

/// The least place of a cubic, within bounds (Nocedal and Wright, 3.59).
double cubic(double a, double fa, double ga, double b, double fb, double gb, double low, double high) {
  const double d1 = ga + gb - 3 * (fa - fb) / (a - b), square = d1 * d1 - ga * gb;
  if (square < 0) return (low + high) / 2;
  const double d2 = std::copysign(std::sqrt(square), b - a);
  return std::min(std::max(b - (b - a) * (gb + d2 - d1) / (gb - ga + 2 * d2), low), high);
}

struct place {
  double t, f, g;
};

/// The search by two loops, one after the other: first for a bracket, then within it.
double searched(const std::function<place(double)>& at, const place& start, double t) {
  const auto high_enough = [&](const place& p) { return p.f > start.f + 1e-4 * p.t * start.g; };
  const auto flat = [&](const place& p) { return std::abs(p.g) <= -0.9 * start.g; };
  place before = start, low{}, high{};
  int count = 0;
  for (;; ++count) {
    const place now = at(t);
    if (high_enough(now) || (count > 0 && now.f >= before.f) || now.g >= 0) {
      if (!high_enough(now) && now.f < before.f && flat(now)) return t;
      low = before, high = now;
      if (high.f < low.f) std::swap(low, high);
      break;
    }
    if (flat(now)) return t;
    const double next = cubic(before.t, before.f, before.g, now.t, now.f, now.g, t + 0.01 * (t - before.t), 10 * t);
    before = now, t = next;
  }
  bool stuck = false;
  for (++count; count < 25; ++count) {
    const double from = std::min(low.t, high.t), to = std::max(low.t, high.t), margin = 0.1 * (to - from);
    t = cubic(low.t, low.f, low.g, high.t, high.f, high.g, from, to);
    if (std::min(to - t, t - from) >= margin) stuck = false;
    else if (stuck || t >= to || t <= from) t = to - t < t - from ? to - margin : from + margin, stuck = false;
    else stuck = true;
    const place now = at(t);
    if (high_enough(now) || now.f >= low.f) {
      high = now;
      if (high.f < low.f) std::swap(low, high);
    } else {
      if (flat(now)) return t;
      if (now.g * (high.t - low.t) >= 0) high = low;
      low = now;
    }
  }
  return low.t;
}

}  // namespace

TEST_CASE("steps of L-BFGS meet the strong Wolfe conditions, and are those of a search written apart") {
  const optim::lbfgs opt({.history = 4});
  two p{-1.2, 1.0}, q = p;
  auto state = opt.init(p), other = state;
  const auto step =
      compile([&](const two& p, const auto& s) { return opt.step(rosenbrock, p, s); }, {.backend = "reference"});
  pair_of x{-1.2, 1}, before{}, g_before{};
  std::vector<pair_of> moves, turns;
  double scale = 1;
  for (int n = 0; n < 25; ++n) {
    const pair_of g = slope(x);
    if (n > 0) {
      const pair_of s{x[0] - before[0], x[1] - before[1]}, y{g[0] - g_before[0], g[1] - g_before[1]};
      if (dot(s, y) > 1e-10) {
        moves.push_back(s), turns.push_back(y);
        if (moves.size() > 4) moves.erase(moves.begin()), turns.erase(turns.begin());
        scale = dot(s, y) / dot(y, y);
      }
    }
    pair_of d{-g[0], -g[1]};
    std::vector<double> a(moves.size());
    for (std::size_t i = moves.size(); i-- > 0;) {
      a[i] = dot(moves[i], d) / dot(moves[i], turns[i]);
      for (std::size_t k = 0; k < 2; ++k) d[k] -= a[i] * turns[i][k];
    }
    for (double& v : d) v *= scale;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      const double b = dot(turns[i], d) / dot(moves[i], turns[i]);
      for (std::size_t k = 0; k < 2; ++k) d[k] += (a[i] - b) * moves[i][k];
    }
    const auto at = [&](double t) {
      const pair_of there{x[0] + t * d[0], x[1] + t * d[1]};
      return place{t, value(there), dot(slope(there), d)};
    };
    const place start = at(0);
    const double first = n == 0 ? std::min(1.0, 1 / (std::abs(g[0]) + std::abs(g[1]))) : 1;
    const place end = at(searched(at, start, first));
    CHECK(end.f <= start.f + 1e-4 * end.t * start.g);
    CHECK(std::abs(end.g) <= -0.9 * start.g);
    before = x, g_before = g;
    for (std::size_t k = 0; k < 2; ++k) x[k] += end.t * d[k];

    tensor<double, 0> loss, lost;
    std::tie(loss, p, state) = opt.step(rosenbrock, p, state);
    std::tie(lost, q, other) = step(q, other);
    CHECK(loss.item() == doctest::Approx(start.f).epsilon(1e-7));
    check_close(std::vector{p.x.item(), p.y.item()}, std::vector{x[0], x[1]}, 1e-6);
    check_close(std::vector{q.x.item(), q.y.item()}, std::vector{x[0], x[1]}, 1e-6);
  }
  CHECK(step.specialisations() == 1);
}

TEST_CASE("L-BFGS with a line search ends at the least value, in f32, too, and stays there") {
  const auto loss = [](const two& p) { return rosenbrock(p); };
  const optim::lbfgs opt;
  two p{-1.2, 1.0};
  auto state = opt.init(p);
  const auto step = compile([&](const two& p, const auto& s) { return opt.step(loss, p, s); }, {.donate = {1}});
  tensor<double, 0> now;
  for (int i = 0; i < 60; ++i) std::tie(now, p, state) = step(p, std::move(state));
  CHECK(now.item() < 1e-20);
  CHECK(p.x.item() == doctest::Approx(1));
  CHECK(step.specialisations() == 1);

  using vec = std::tuple<tensor<float, 1>>;
  const auto bowl = [](const vec& v) {
    const auto& x = std::get<0>(v);
    return tensor<float, 0>(sum(exp(x) - x));
  };
  vec v{tensor<float, 1>{3, -2, 0.5, 8}};
  auto s = opt.init(v);
  for (int i = 0; i < 30; ++i) std::tie(std::ignore, v, s) = opt.step(bowl, v, s);
  check_close(std::get<0>(v).to_vector(), std::vector<float>(4), 2e-3);
}

TEST_CASE("steps of L-BFGS in f32 are those in f64, however steep the function is") {
  const auto bowl = [](float steep) {
    return [steep](const auto& v) {
      const auto& x = std::get<0>(v);
      using T = typename std::remove_cvref_t<decltype(x)>::value_type;
      const tensor<T, 1> weights{1, 2, 0.5, 4}, from{1, -2, 3, 0.5};
      const auto d = evaluate(x - from);
      return tensor<T, 0>(sum(weights * d * d + d * d * d * d * T(0.1)) * T(steep));
    };
  };
  const auto check = [&](float steep, bool search) {
    INFO(steep, " ", search);
    const auto loss = bowl(steep);
    // The first step is as long as in PyTorch: 1 / |g|₁.
    const optim::lbfgs opt;
    const auto step = [&](const auto& v, const auto& s) {
      if (!search) return opt.update(v, grad(loss)(v), s);
      auto [value, next, state] = opt.step(loss, v, s);
      return std::pair{next, state};
    };
    std::tuple<tensor<double, 1>> exact{tensor<double, 1>{4, 3, -2, 1}};
    std::tuple<tensor<float, 1>> plain{tensor<float, 1>{4, 3, -2, 1}}, made = plain;
    auto of_exact = opt.init(exact);
    auto of_plain = opt.init(plain), of_made = of_plain;
    const auto compiled = compile(step);
    for (int i = 0; i < 5; ++i) {
      std::tie(exact, of_exact) = step(exact, of_exact);
      std::tie(plain, of_plain) = step(plain, of_plain);
      std::tie(made, of_made) = compiled(made, of_made);
      const auto want = std::get<0>(exact).to_vector();
      for (const auto& got : {std::get<0>(plain).to_vector(), std::get<0>(made).to_vector()})
        for (std::size_t k = 0; k < 4; ++k) CHECK(std::abs(got[k] - want[k]) <= 2e-3);
    }
    CHECK(std::get<0>(plain).to_vector()[0] != 4);
  };
  for (const float steep : {1.f, 1e18f, 1e25f, 1e34f})
    for (const bool search : {false, true}) check(steep, search);
}

TEST_CASE("a line search steps back from where the function is not finite") {
  using vec = std::tuple<tensor<double, 1>>;
  // Beyond 0 it is NaN, and the first look goes there.
  const auto barrier = [](const vec& v) {
    const auto& x = std::get<0>(v);
    return tensor<double, 0>(sum(x * 10.0 - log(x)));
  };
  const optim::lbfgs opt({.rate = 50});
  vec v{tensor<double, 1>{2, 1}};
  auto s = opt.init(v);
  for (int i = 0; i < 40; ++i) std::tie(std::ignore, v, s) = opt.step(barrier, v, s);
  check_close(std::get<0>(v).to_vector(), std::vector<double>{0.1, 0.1}, 1e-6);
}
