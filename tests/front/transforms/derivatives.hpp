// tests/front/transforms/derivatives.hpp: derivatives by differences, and a function outside of compile(), compiled and interpreted.
#pragma once

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"

namespace derivatives {

using namespace sinter;
using real = tensor<double, 0>;
using vec = tensor<double, 1>;
using matrix = tensor<double, 2>;
using doubles = std::vector<double>;

/// The elements of a tree's floating tensors.
template <class T>
doubles elements_of(const T& tree) {
  doubles out;
  tree_map(
      [&]<class X>(const X& x) {
        if constexpr (std::is_same_v<typename X::value_type, double>)
          for (const double v : x.to_vector()) out.push_back(v);
        return x;
      },
      tree);
  return out;
}

inline double dot_of(const doubles& a, const doubles& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// x + by·v, for trees.
template <class T, class V>
T moved(const T& x, double by, const V& v) {
  return tree_map(
      [by]<class X>(const X& a, const X& b) {
        if constexpr (std::is_same_v<typename X::value_type, double>) return X(a + by * b);
        else return a;
      },
      x, v);
}

/// A tree like x of random numbers.
template <class T>
T random_like(const T& x, int seed) {
  return tree_map(
      [&]<class X>(const X& a) {
        if constexpr (std::is_same_v<typename X::value_type, double>) {
          X out = full_like(a, 0.0);
          const auto n = normal<double>(make_key(static_cast<std::uint64_t>(seed++)), a.numel());
          for (std::int64_t i = 0; i < out.numel(); ++i) out.data()[i] = n(i);
          return out;
        } else {
          return a;
        }
      },
      x);
}

/// The derivative of f at x along v, by differences.
template <class F, class T>
doubles differences(const F& f, const T& x, const T& v, double step = 1e-6) {
  const doubles above = elements_of(f(moved(x, step, v))), below = elements_of(f(moved(x, -step, v)));
  doubles out;
  for (std::size_t i = 0; i < above.size(); ++i) out.push_back((above[i] - below[i]) / (2 * step));
  return out;
}

/// What g gives outside of compile(), compiled, and on the reference.
template <class G, class... Args>
auto everywhere(const G& g, const Args&... args) {
  return std::vector{g(args...), compile(g)(args...), compile(g, {.backend = "reference"})(args...)};
}

/// f's derivatives at x, a tree: forward against differences, reverse by the dot-product test, and each of the other.
template <class F, class T>
void check_derivatives(const F& f, const T& x, double tolerance = 1e-6) {
  const T v = random_like(x, 11), u = random_like(x, 37);
  const auto want = differences(f, x, v);
  const auto y = f(x);
  const auto ct = random_like(y, 53);
  for (const auto& [value, tangent] : everywhere(jvp(f), x, v)) {
    check_close(elements_of(value), elements_of(y), 1e-9);
    check_close(elements_of(tangent), want, tolerance);
  }
  const auto along = linearize(f)(x).second;
  check_close(elements_of(along(v)), want, tolerance);
  const auto pulled = [&](const T& x) { return vjp(f)(x).second(ct); };
  const double product = dot_of(elements_of(ct), want);
  for (const auto& back : everywhere(pulled, x))
    CHECK(dot_of(elements_of(back), elements_of(v)) == doctest::Approx(product).epsilon(1e-5));
  // Second derivatives, by differences of the first.
  const auto pushed = [&](const T& x) { return jvp(f)(x, v).second; };
  for (const auto& [value, tangent] : everywhere(jvp(pushed), x, u))
    check_close(elements_of(tangent), differences(pushed, x, u), 1e-5);
  for (const auto& [value, tangent] : everywhere(jvp(pulled), x, u))
    check_close(elements_of(tangent), differences(pulled, x, u), 1e-5);
  const auto weighed = [&](const auto& tree) {
    vec sum = zeros<double>(1);
    tree_map(
        [&]<class X>(const X& a) {
          if constexpr (std::is_same_v<typename X::value_type, double>)
            sum = sum +
                  reshape(sinter::sum(sin(arange<double>(1.0, 1.0 + static_cast<double>(a.numel()))) * flatten(a)), 1);
          return a;
        },
        tree);
    return real(sinter::sum(sum));
  };
  const auto of_pushed = [&](const T& x) { return weighed(pushed(x)); };
  for (const auto& slope : everywhere(grad(of_pushed), x))
    CHECK(dot_of(elements_of(slope), elements_of(u)) == doctest::Approx(differences(of_pushed, x, u)[0]).epsilon(1e-5));
  const auto of_value = [&](const T& x) { return weighed(f(x)); };
  for (const auto& [value, tangent] : everywhere(jvp(grad(of_value)), x, u))
    check_close(elements_of(tangent), differences(grad(of_value), x, u), 1e-5);
}

}  // namespace derivatives
