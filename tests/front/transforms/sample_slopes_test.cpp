// Derivatives of gamma, beta and dirichlet numbers against differences of their distribution functions in long double.
#include <cmath>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"

using namespace sinter;

namespace {

using vec = tensor<double, 1>;
using rows = tensor<double, 2>;
using doubles = std::vector<double>;
using ld = long double;

/// The chance of less than x, or for `above` of more: by series of positive terms.
ld gamma_share(ld a, ld x, bool above) {
  if (!above || x < a + 1) {
    ld term = 1, sum = 1;
    for (int n = 1; n < 100000 && term > sum * 1e-22L; ++n) sum += term *= x / (a + static_cast<ld>(n));
    const ld below = std::exp(a * std::log(x) - x - std::lgamma(a + 1)) * sum;
    return above ? 1 - below : below;
  }
  ld value = 0;
  for (int n = 3000; n > 0; --n)
    value = static_cast<ld>(n) * (static_cast<ld>(n) - a) / (x + 2 * static_cast<ld>(n) + 1 - a - value);
  return std::exp(a * std::log(x) - x - std::lgamma(a)) / (x + 1 - a - value);
}
ld beta_below(ld a, ld b, ld x) {
  ld term = 1, sum = 1;
  for (int n = 0; n < 200000 && term > sum * 1e-22L; ++n)
    sum += term *= (a + b + static_cast<ld>(n)) / (a + 1 + static_cast<ld>(n)) * x;
  return std::exp(a * std::log(x) + b * std::log1p(-x) + std::lgamma(a + b) - std::lgamma(a + 1) - std::lgamma(b)) *
         sum;
}
ld beta_share(ld a, ld b, ld x, bool above) {
  const bool upper = x > (a + 1) / (a + b + 2);
  const ld share = upper ? beta_below(b, a, 1 - x) : beta_below(a, b, x);
  return upper == above ? share : 1 - share;
}

/// f's derivative at a by differences of fourth order.
template <class F>
ld slope_of(F f, ld a) {
  const ld h = a * 1e-3L;
  return (8 * (f(a + h) - f(a - h)) - (f(a + 2 * h) - f(a - 2 * h))) / (12 * h);
}
ld gamma_slope(ld a, ld x) {
  const bool above = x > a;
  const ld p = std::exp((a - 1) * std::log(x) - x - std::lgamma(a));
  return (above ? 1 : -1) * slope_of([&](ld a) { return gamma_share(a, x, above); }, a) / p;
}
/// By a; by b it is minus that of 1 - x by its first parameter.
ld beta_slope(ld a, ld b, ld x) {
  const bool above = x > a / (a + b);
  const ld p =
      std::exp((a - 1) * std::log(x) + (b - 1) * std::log1p(-x) + std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b));
  return (above ? 1 : -1) * slope_of([&](ld a) { return beta_share(a, b, x, above); }, a) / p;
}

const key k = make_key(2026);
const doubles shapes{0.02, 0.1, 0.5, 0.9, 1, 1.5, 3, 10, 70, 1000};

/// A beta number's slope by a, or by b.
ld slope_of_beta(bool by_b, ld a, ld b, ld x) { return by_b ? -beta_slope(b, a, 1 - x) : beta_slope(a, b, x); }

/// The derivative of that slope by a or b, along the path of the number: a difference that is exact to second order.
ld second_of_beta(bool slope_by_b, bool along_b, ld a, ld b, ld x) {
  const ld h = 1e-3L * (along_b ? b : a);
  const auto at = [&](ld by) {
    const auto moved = [&](ld by) { return std::pair{along_b ? a : a + by, along_b ? b + by : b}; };
    const auto [half_a, half_b] = moved(by / 2);
    const auto [to_a, to_b] = moved(by);
    const ld half = x + by / 2 * slope_of_beta(along_b, a, b, x);
    return slope_of_beta(slope_by_b, to_a, to_b, x + by * slope_of_beta(along_b, half_a, half_b, half));
  };
  return (at(h) - at(-h)) / (2 * h);
}

/// Each shape several times.
vec many() {
  doubles out;
  for (int i = 0; i < 12; ++i) out.insert(out.end(), shapes.begin(), shapes.end());
  return from_span(out);
}
vec turned(const vec& a, std::int64_t by) { return concat(slice<0>(a, by), slice<0>(a, 0, by)); }

/// Relative to the largest of both.
void check_ratio(const doubles& got, const doubles& want, double epsilon) {
  doubles ratio;
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) ratio.push_back(got[i] == want[i] ? 1 : got[i] / want[i]);
  check_close(ratio, doubles(got.size(), 1), epsilon);
}

vec gamma_numbers(const vec& a) { return gamma(k, a); }
vec beta_by_a(const vec& a) { return beta(k, a, turned(stop_gradient(a), 3)); }
vec beta_by_b(const vec& b) { return beta(k, turned(stop_gradient(b), 3), b); }

/// Each is `want`, or NaN where it is not known; none is 0.
void check_second(const doubles& got, const doubles& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO(i, ": ", got[i], " for ", want[i]);
    CHECK((std::isnan(got[i]) || std::abs(got[i] - want[i]) <= 1e-3 * std::abs(want[i])));
    CHECK(got[i] != 0);
  }
}

/// The derivative of each number by its own parameter, forwards.
vec pushed_slopes(const std::function<vec(const vec&)>& f, const vec& a) {
  return jvp([&](const vec& a) { return f(a); })(a, ones_like(a)).second;
}

/// The derivative of each number by its own parameter.
vec slopes(const std::function<vec(const vec&)>& f, const vec& a) {
  return grad([&](const vec& a) { return tensor<double, 0>(sum(f(a))); })(a);
}

}  // namespace

TEST_CASE("a gamma number's derivative is that of the inverse of its distribution function") {
  const vec a = many();
  const doubles shape = a.to_vector(), x = gamma(k, a).to_vector();
  doubles want;
  for (std::size_t i = 0; i < x.size(); ++i)
    want.push_back(x[i] > 0 ? static_cast<double>(gamma_slope(shape[i], x[i])) : 0);
  const auto pulled = [](const vec& a) { return slopes(gamma_numbers, a); };
  const auto pushed = [](const vec& a) { return vec(jvp(gamma_numbers)(a, ones_like(a)).second); };
  check_ratio(pulled(a).to_vector(), want, 1e-6);
  check_ratio(pushed(a).to_vector(), want, 1e-6);
  for (const char* backend : {"cpu", "reference"}) {
    CAPTURE(backend);
    check_ratio(compile(pulled, options{.backend = backend})(a).to_vector(), want, 1e-6);
    check_ratio(compile(pushed, options{.backend = backend})(a).to_vector(), want, 1e-6);
  }
  CHECK(compile(gamma_numbers)(a).to_vector() == x);
  const auto narrow = grad([](const tensor<float, 1>& a) { return tensor<float, 0>(sum(gamma(k, a))); });
  const std::vector<float> of_floats = narrow(tensor<float, 1>(cast<float>(a))).to_vector();
  check_ratio(doubles(of_floats.begin() + 2, of_floats.begin() + 10), doubles(want.begin() + 2, want.begin() + 10),
              1e-5);
}

TEST_CASE("a gamma number's second derivative") {
  // Along the path of its first: the total derivative of the slope.
  const vec a{0.1, 0.5, 1, 1.5, 3, 10, 70};
  const doubles shape = a.to_vector(), x = gamma(k, a).to_vector();
  doubles want;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const ld h = 1e-3L * shape[i], s = gamma_slope(shape[i], x[i]);
    const auto half = [&](ld by) {  // the place of the path there, to second order
      const ld middle = gamma_slope(shape[i] + by / 2, x[i] + by / 2 * s);
      return gamma_slope(shape[i] + by, x[i] + by * middle);
    };
    want.push_back(static_cast<double>((half(h) - half(-h)) / (2 * h)));
  }
  const auto second = [](const vec& a) { return slopes([](const vec& a) { return slopes(gamma_numbers, a); }, a); };
  check_ratio(second(a).to_vector(), want, 1e-3);
  check_ratio(compile(second)(a).to_vector(), want, 1e-3);
  check_ratio(vec(jvp([](const vec& a) { return slopes(gamma_numbers, a); })(a, ones_like(a)).second).to_vector(), want,
              1e-3);
}

TEST_CASE("a beta number's derivatives by both parameters") {
  const vec a = many();
  const doubles one = a.to_vector(), other = turned(a, 3).to_vector();
  const doubles x = beta_by_a(a).to_vector(), y = beta_by_b(a).to_vector();
  doubles by_a, by_b;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool some = x[i] > 1e-300 && x[i]<1 - 1e-9, more = y[i]> 1e-9 && y[i] < 1;
    by_a.push_back(some ? static_cast<double>(beta_slope(one[i], other[i], x[i])) : 0);
    by_b.push_back(more ? -static_cast<double>(beta_slope(one[i], other[i], 1 - static_cast<ld>(y[i]))) : 0);
  }
  const auto known = [](doubles got, const doubles& want) {
    for (std::size_t i = 0; i < got.size(); ++i)
      if (want[i] == 0) {
        CHECK(std::abs(got[i]) < 1e-4);
        got[i] = 0;
      }
    return got;
  };
  const auto both = [](const vec& a) { return vec(concat(slopes(beta_by_a, a), slopes(beta_by_b, a))); };
  doubles want = by_a;
  want.insert(want.end(), by_b.begin(), by_b.end());
  check_ratio(known(both(a).to_vector(), want), want, 1e-6);
  for (const char* backend : {"cpu", "reference"})
    check_ratio(known(compile(both, options{.backend = backend})(a).to_vector(), want), want, 1e-6);
}

TEST_CASE("a dirichlet number has the derivative of a beta number, and the others give way in proportion") {
  const rows a{{0.3, 2, 5, 0.7}, {10, 1, 40, 3}, {0.1, 0.2, 0.1, 0.3}};
  const rows x = dirichlet(k, a);
  for (std::int64_t j = 0; j < 4; ++j) {
    const rows along = broadcast_to(tensor<double, 1>(cast<double>(arange<std::int64_t>(4) == j)), 3, 4);
    const auto pushed = [along](const rows& a) {
      return rows(jvp([](const rows& a) { return dirichlet(k, a); })(a, along).second);
    };
    const rows eager = pushed(a), compiled = compile(pushed)(a);
    check_close(compiled.to_vector(), eager.to_vector(), 1e-12);
    for (std::int64_t i = 0; i < 3; ++i) {
      double sum = 0;
      for (std::int64_t c = 0; c < 4; ++c) sum += a(i, c);
      const double want = static_cast<double>(beta_slope(a(i, j), sum - a(i, j), x(i, j)));
      CHECK(eager(i, j) == doctest::Approx(want).epsilon(1e-6));
      for (std::int64_t c = 0; c < 4; ++c)
        if (c != j) CHECK(eager(i, c) == doctest::Approx(-want * x(i, c) / (1 - x(i, j))).epsilon(1e-6));
    }
  }
  const auto loss = [](const rows& a) { return tensor<double, 0>(sum(square(dirichlet(k, a)))); };
  const rows v{{1, -1, 2, 0.5}, {0.5, 1, 1, -2}, {0.1, 0.1, -0.2, 0.3}};
  CHECK(sum(grad(loss)(a) * v).item() == doctest::Approx(jvp(loss)(a, v).second.item()).epsilon(1e-10));
  CHECK(grad(loss)(rows{{3}}).to_vector() == doubles{0});
}

TEST_CASE("second derivatives of beta numbers, in each mode over each") {
  const vec a{0.3, 0.5, 1, 1.5, 3, 10, 70, 0.1, 0.9, 1000}, b{2, 0.4, 1, 3, 0.7, 20, 5, 0.2, 70, 300};
  const doubles one = a.to_vector(), other = b.to_vector(), x = beta(k, a, b).to_vector();
  using function = std::function<vec(const vec&)>;
  using slope = vec (*)(const function&, const vec&);
  for (const bool of_b : {false, true})
    for (const bool along_b : {false, true}) {
      INFO("by ", of_b, " along ", along_b);
      doubles want;
      for (std::size_t i = 0; i < x.size(); ++i)
        want.push_back(static_cast<double>(second_of_beta(of_b, along_b, one[i], other[i], x[i])));
      for (const slope outer : {slopes, pushed_slopes})
        for (const slope inner : {slopes, pushed_slopes}) {
          const auto f = [&](const vec& p) {
            const function first = [&](const vec& p) {
              if (of_b == along_b)
                return inner([&](const vec& q) { return vec(of_b ? beta(k, a, q) : beta(k, q, b)); }, p);
              return of_b ? inner([&](const vec& q) { return vec(beta(k, p, q)); }, b)
                          : inner([&](const vec& q) { return vec(beta(k, q, p)); }, a);
            };
            return outer(first, p);
          };
          const vec& at = along_b ? b : a;
          check_second(f(at).to_vector(), want);
          for (const char* backend : {"cpu", "reference"})
            check_second(compile(f, options{.backend = backend})(at).to_vector(), want);
        }
    }
}

TEST_CASE("second derivatives of dirichlet numbers, in each mode over each") {
  using numbers = tensor<double, 1>;
  using scalar = tensor<double, 0>;
  const numbers a{0.6, 2, 5, 0.7};
  const doubles shape = a.to_vector(), x = dirichlet(k, a).to_vector();
  double sum = 0;
  for (const double s : shape) sum += s;
  const auto unit = [](std::int64_t i) { return numbers(cast<double>(arange<std::int64_t>(4) == i)); };
  for (std::int64_t j = 0; j < 4; ++j) {
    INFO(j);
    // Element j moves by its own parameter as a beta number does, and by another one as that one's number leaves it room.
    doubles want;
    const auto own = static_cast<std::size_t>(j);
    for (std::size_t i = 0; i < 4; ++i) {
      const ld h = 1e-3L * shape[i], rest = sum - shape[own];
      const auto at = [&](ld by) {
        const ld to = shape[i] + by, others = sum - shape[i];
        const ld half = x[i] + by / 2 * beta_slope(shape[i], others, x[i]);
        const ld there = x[i] + by * beta_slope(shape[i] + by / 2, others, half);
        if (i == own) return beta_slope(to, others, there);
        return beta_slope(shape[own], rest + by, x[own] * (1 - there) / (1 - x[i]));
      };
      want.push_back(static_cast<double>((at(h) - at(-h)) / (2 * h)));
    }
    const auto number = [=](const numbers& a) {
      return scalar(tensor<double, 0>(sinter::sum(dirichlet(k, a) * unit(j))));
    };
    const auto pulled = [=](const numbers& a) { return scalar(sinter::sum(grad(number)(a) * unit(j))); };
    const auto pushed = [=](const numbers& a) { return scalar(jvp(number)(a, unit(j)).second); };
    const auto all = [=](const auto& first) {
      const auto by_pull = [=](const numbers& a) { return numbers(grad(first)(a)); };
      const auto by_push = [=](const numbers& a) {
        std::vector<scalar> out;
        for (std::int64_t i = 0; i < 4; ++i) out.push_back(jvp(first)(a, unit(i)).second);
        return numbers(stack(out));
      };
      check_second(by_pull(a).to_vector(), want);
      check_second(by_push(a).to_vector(), want);
      for (const char* backend : {"cpu", "reference"}) {
        check_second(compile(by_pull, options{.backend = backend})(a).to_vector(), want);
        check_second(compile(by_push, options{.backend = backend})(a).to_vector(), want);
      }
    };
    all(pulled);
    all(pushed);
  }
}

TEST_CASE("derivatives of random numbers under vmap, of keys and of parameters, and none of a parameter that is none") {
  const vec a{0.3, 1, 4};
  const auto each = [](const vec& a) {
    return vec(vmap([](const tensor<double, 0>& one) {
      return grad([](const tensor<double, 0>& one) { return gamma(k, one); })(one);
    })(a));
  };
  const auto alone = [](double shape) {
    return grad([](const tensor<double, 0>& one) { return gamma(k, one); })(tensor<double, 0>(shape)).item();
  };
  check_close(each(a).to_vector(), doubles{alone(0.3), alone(1), alone(4)}, 1e-12);
  check_close(compile(each)(a).to_vector(), doubles{alone(0.3), alone(1), alone(4)}, 1e-12);
  const doubles bad = slopes(gamma_numbers, vec{-1, std::nan(""), 2}).to_vector();
  CHECK((bad[0] != bad[0] && bad[1] != bad[1] && bad[2] == bad[2]));
  // The mean of shape a is a: its derivative by a is 1; of beta a / (a + b).
  const auto mean_of = [](const tensor<double, 0>& a) { return mean(gamma(k, broadcast_to(a, 20000))); };
  CHECK(grad(mean_of)(tensor<double, 0>(2.5)).item() == doctest::Approx(1).epsilon(0.02));
  const auto mean_beta = [](const tensor<double, 0>& a) { return mean(beta(k, broadcast_to(a, 20000), 3.0)); };
  CHECK(grad(mean_beta)(tensor<double, 0>(2)).item() == doctest::Approx(3 / 25.0).epsilon(0.03));
}
