// tests/dispatch/number_programs.hpp: programs drawn at random that compute with C++ floats, on the host and on a GPU.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

namespace number_programs {

using namespace sinter;
using vec = tensor<float, 1>;
using floats = std::vector<float>;

/// A program and what its C++ numbers are.
class drawn {
 public:
  drawn(unsigned seed, float a, double b) : next_(seed), a_(a), b_(static_cast<float>(b)) {}

  vec operator()(vec x) {
    vec y = x;
    for (int step = 0; step < 7; ++step) y = tanh(changed(y, x) * 0.25f) + x * 0.5f;
    return y;
  }

 private:
  unsigned draw(unsigned n) { return static_cast<unsigned>(next_() % n); }

  /// What C++ makes of the numbers.
  float number() {
    switch (draw(16)) {
      case 0:
        return a_;
      case 1:
        return b_;
      case 2:
        return 1 - a_;
      case 3:
        return a_ * b_;
      case 4:
        return a_ / 2;
      case 5:
        return std::sqrt(std::abs(a_));
      case 6:
        return std::exp(-b_);
      case 7:
        return a_ - b_;
      case 8:
        return std::floor(b_);
      case 9:
        return std::max(a_, b_);
      case 10:
        return -a_;
      case 11:
        return a_ > b_ ? 2.f : 0.5f;
      case 12:
        return 1 / a_;
      case 13:
        return static_cast<float>(static_cast<double>(a_) * 0.1);
      case 14:
        return 2;
      default:
        return 0;
    }
  }

  vec changed(const vec& y, const vec& x) {
    const float p = number(), q = number();
    switch (draw(16)) {
      case 0:
        return y * p;
      case 1:
        return y + p;
      case 2:
        return maximum(y, p);
      case 3:
        return minimum(y * q, p);
      case 4:
        return pow(abs(y) + 0.5f, p);
      case 5:
        return pow(x, p);
      case 6:
        return slice_of(pad(y, {{1, 2}}, p)) + q;
      case 7:
        return slice_of(pad<dims{2}, dims{1}>(y, static_cast<float>(std::sin(p))));
      case 8:
        return clamp(y, p, q);
      case 9:
        return y / p - x / q;
      case 10:
        return p - y * p;
      case 11:
        return y * tensor<float, 0>(p) + sum(y * q) * 0.125f;
      case 12:
        return full<float>(p, 6) * y + zeros<float>(6);
      case 13:
        return fori_loop(
            0, 2, [&](auto, vec h) { return vec(sin(h * p + q)); }, y);
      case 14:
        return leaky_relu(y, p) + elu(x, q);
      default:
        return where(x > 0, y * p, q);
    }
  }
  static vec slice_of(const vec& y) { return slice<0>(y, 0, 6); }

  std::minstd_rand next_;
  float a_, b_;
};

inline bool near(float got, float want) {
  if (std::isnan(want)) return std::isnan(got);
  return got == want || std::abs(got - want) <= 1e-3f * (1 + std::abs(want));
}

inline const std::vector<std::pair<float, double>>& values() {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  static const std::vector<std::pair<float, double>> all = {
      {0.3f, 0.7}, {0, 0},       {1, 1}, {2, 0.5},  {0.5f, 0.5}, {-0.f, 2},  {-1, 3},      {0.25f, -2},
      {inf, 1},    {0.75f, nan}, {2, 2}, {-inf, 0}, {nan, inf},  {1e-8f, 1}, {0.125f, -1},
  };
  return all;
}

/// An update of forty parameters, alike but for their lengths if those differ.
inline auto updated(std::int64_t step, device where) {
  std::vector<vec> p, g;
  for (int i = 0; i < 40; ++i) p.push_back(full<float>(1.f, 5 + step * i, where)), g.push_back(p.back() * 2.f);
  const auto f = compile([](const std::vector<vec>& p, const std::vector<vec>& g, float rate) {
    std::vector<vec> out;
    for (std::size_t i = 0; i < p.size(); ++i) out.push_back(p[i] - rate * (g[i] + 0.5f * p[i]));
    return out;
  });
  f(p, g, 0.f);
  const stance_scope only(stance::fail_on_recompile);
  for (const float rate : {0.25f, 1.f})
    for (const vec& x : f(p, g, rate)) CHECK(x.to(device::cpu()).to_vector().back() == 1 - rate * 2.5f);
  return f.report();
}

/// Value and gradient of the programs of some seeds on a device: all values run the kernels of the first.
inline void check(unsigned first, unsigned seeds, device where) {
  const vec x = vec{0, 1, -2, 0.5f, -0.75f, 3};
  const vec there = x.to(where);
  for (unsigned seed = first; seed < first + seeds; ++seed) {
    const auto fn = [seed](vec x, float a, double b) {
      const auto loss = [&](vec x) {
        const vec y = drawn(seed, a, b)(x);
        return std::pair{tensor<float, 0>(sum(y * y)), y};
      };
      const auto [value, dx] = value_and_grad(loss, has_aux)(x);
      return std::pair{value.second, dx};
    };
    const auto f = compile(fn, {.recompile_limit = 4});
    const auto reference = compile(fn, {.backend = "reference", .recompile_limit = 4});
    for (std::size_t at = 0; at < values().size(); ++at) {
      const float a = values()[(at + seed) % values().size()].first;
      const double b = values()[(at + seed) % values().size()].second;
      const stance_scope only(at == 0 ? stance::normal : stance::fail_on_recompile);
      const auto [y, dx] = f(there, a, b);
      const stance_scope any(stance::normal);
      const auto [want_y, want_dx] = reference(x, a, b);
      const floats got = y.to(device::cpu()).to_vector(), want = want_y.to_vector();
      const floats got_dx = dx.to(device::cpu()).to_vector(), wanted = want_dx.to_vector();
      for (std::size_t i = 0; i < 6; ++i) {
        const bool same = near(got[i], want[i]), same_dx = near(got_dx[i], wanted[i]);
        INFO("seed " << seed << ", a " << a << ", b " << b << ", element " << i << ": " << got[i] << " for " << want[i]
                     << ", derivative " << got_dx[i] << " for " << wanted[i]);
        CHECK(same);
        CHECK(same_dx);
      }
    }
  }
}

}  // namespace number_programs
