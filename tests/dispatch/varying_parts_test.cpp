// C++ numbers of branches and bodies, and those that a function has read: arguments of kernels, too.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../stderr_text.hpp"
#include "../texts.hpp"

namespace {

using namespace sinter;
using texts::contains;
using vec = tensor<float, 1>;
using floats = std::vector<float>;

/// Throws when a call needs more than what has been compiled.
auto without_compiling(const auto& f, auto&&... args) {
  const stance_scope only(stance::fail_on_recompile);
  return f(std::forward<decltype(args)>(args)...);
}

const vec x{1, 2, -3};

}  // namespace

TEST_CASE("numbers of bodies and of what is around them are apart") {
  const auto fn = [](vec x, float a, float b) {
    const vec y = fori_loop(
        0, 3, [&](auto, vec h) { return vec(cos(sin(tanh(h * a + a) * a) + a) + h); }, x);
    const tensor<float, 0> c(b);
    return vec(y * c);
  };
  const auto f = compile(fn);
  f(x, 0.3f, 0.3f);
  for (const float b : {0.7f, 0.3f, 2.f}) {
    const floats got = without_compiling(f, x, 0.3f, b).to_vector(), want = fn(x, 0.3f, b).to_vector();
    for (std::size_t k = 0; k < 3; ++k) CHECK(got[k] == doctest::Approx(want[k]).epsilon(1e-5));
  }
}

TEST_CASE("a number that was read, or counts rounds, compiles nothing from its second value on") {
  const auto f = compile([](vec x, float by) {
    for (int i = 0; i < 5; ++i) x = x * (max(x).item() * 0.01f) + static_cast<float>(i) * by;
    return x;
  });
  const auto want = [](floats x, float by) {
    for (int i = 0; i < 5; ++i) {
      float most = x[0];
      for (const float e : x) most = std::max(most, e);
      for (float& e : x) e = e * (most * 0.01f) + static_cast<float>(i) * by;
    }
    return x;
  };
  const std::string said = stderr_text([&] {
    f(x, 0.75f);
    for (int n = 0; n < 100; ++n) {
      const float by = 0.25f * static_cast<float>(n);
      const floats got = without_compiling(f, x * (by + 1.f), by).to_vector();
      const floats ours = want((x * (by + 1.f)).to_vector(), by);
      for (std::size_t i = 0; i < 3; ++i) CHECK(got[i] == doctest::Approx(ours[i]).epsilon(1e-5));
    }
  });
  CHECK(said.empty());
  CHECK(f.specialisations() == 1);
  CHECK(contains(f.explain().text(), "tensors of any extents"));
}

TEST_CASE("numbers within branches, bodies and bodies in these are arguments too") {
  const auto fn = [](vec x, float by, bool reads) {
    const float k = reads ? sum(x).item() * by : by;
    const vec looped = fori_loop(
        0, 4,
        [&](auto i, vec h) {
          const vec inner = while_loop([&](vec y) { return max(y) > k + 50.f; },
                                       [&](vec y) { return vec(y * 0.5f - k); }, vec(h * k + cast<float>(i)));
          return vec(inner + k * 0.25f);
        },
        x);
    return cond(
        sum(x) > k, [&] { return vec(looped * k); }, [&] { return vec(looped - k); });
  };
  const vec y{1, 2, 4};
  for (const bool reads : {false, true}) {
    const auto f = compile([&](vec x, float by) { return fn(x, by, reads); });
    f(y, 0.3f);
    for (const float by : {-2.f, 0.7f, 3.f, 20.f}) {
      const floats got = without_compiling(f, y, by).to_vector(), want = fn(y, by, reads).to_vector();
      for (std::size_t i = 0; i < 3; ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-5));
    }
  }
}

TEST_CASE("loops and branches beside each other whose numbers are equal at first, or later") {
  const auto check = [](const char* what, auto part) {
    INFO(what);
    const auto fn = [&](vec x, float a, float b) { return std::pair{vec(part(x, a)), vec(part(x, b))}; };
    for (const auto& [first, then] : {std::pair{0.5f, 0.5f}, {0.25f, 0.75f}}) {
      const auto f = compile(fn);
      f(x, first, then);
      for (const auto& [a, b] : {std::pair{0.25f, 0.75f}, {0.5f, 0.5f}, {1.f, 0.f}, {-2.f, -2.f}}) {
        const auto [y, z] = without_compiling(f, x, a, b);
        const auto [want_y, want_z] = fn(x, a, b);
        for (std::size_t i = 0; i < 3; ++i) {
          CHECK(y.to_vector()[i] == doctest::Approx(want_y.to_vector()[i]));
          CHECK(z.to_vector()[i] == doctest::Approx(want_z.to_vector()[i]));
        }
      }
    }
  };
  const auto loop = [](vec x, float k) {
    return fori_loop(
        0, 3, [&](auto, vec h) { return vec(h * k); }, x);
  };
  check("fori_loop", loop);
  check("fori_loop in fori_loop", [&](vec x, float k) {
    return fori_loop(
        0, 2, [&](auto, vec h) { return vec(loop(h, k)); }, x);
  });
  check("while_loop", [](vec x, float k) {
    return while_loop([](vec h) { return max(h) < 9.f; }, [&](vec h) { return vec(h * 2.f + k * k); }, x);
  });
  check("scan", [](vec x, float k) {
    const auto step = [&](tensor<float, 0> mean, tensor<float, 0> e) {
      const tensor<float, 0> next = mean * k + e;
      return std::pair{next, next};
    };
    return scan(step, zeros<float>(), x).second;
  });
  check("cond", [](vec x, float k) {
    return cond(
        sum(x) < 1, [&] { return vec(x * k); }, [&] { return vec(x + k); });
  });
  check("derivative", [&](vec x, float k) { return grad([&](vec x) { return sum(loop(x * x, k)); })(x); });
}

TEST_CASE("numbers read from arguments and captured tensors, before anything was computed") {
  const auto f = compile([](vec x, vec rates) {
    for (const float rate : rates.to_vector()) x = x * rate + exp(x) * rate;
    return x;
  });
  const auto want = [](floats x, const floats& rates) {
    for (const float rate : rates)
      for (float& e : x) e = e * rate + std::exp(e) * rate;
    return x;
  };
  const vec held{0.5f, 0.5f};
  const auto g = compile([&](vec x) { return vec(x * held(0) + exp(x) * held(1)); });
  const auto h = compile([](vec x, tensor<float, 0> a, tensor<float, 0> b) {
    return grad([&](vec x) { return sum(x * x * a.item() + exp(x) * b.item()); })(x);
  });
  const tensor<float, 0> half(0.5f);
  f(x, vec{0.5f, 0.5f});
  g(x);
  h(x, half, half);
  for (const floats& rates : {floats{0.25f, 0.75f}, {0.5f, 0.5f}, {0.f, 1.f}, {-1.f, 0.125f}}) {
    const vec k{rates[0], rates[1]};
    const floats got = without_compiling(f, x, k).to_vector(), ours = want({1, 2, -3}, rates);
    held(0) = rates[0];
    held(1) = rates[1];
    const floats got_g = without_compiling(g, x).to_vector();
    const floats got_h = without_compiling(h, x, tensor<float, 0>(rates[0]), tensor<float, 0>(rates[1])).to_vector();
    for (std::size_t i = 0; i < 3; ++i) {
      const float e = x.to_vector()[i];
      CHECK(got[i] == doctest::Approx(ours[i]).epsilon(1e-5));
      CHECK(got_g[i] == doctest::Approx(e * rates[0] + std::exp(e) * rates[1]).epsilon(1e-5));
      CHECK(got_h[i] == doctest::Approx(2 * e * rates[0] + std::exp(e) * rates[1]).epsilon(1e-5));
    }
  }
}
