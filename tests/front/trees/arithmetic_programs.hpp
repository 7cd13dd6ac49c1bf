// tests/front/trees/arithmetic_programs.hpp: what is computed with trees as vectors, on random ones; the host's answers in f64.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <sinter/sinter.hpp>

#include "../../close.hpp"

namespace tree_arithmetic {

using namespace sinter;

template <class T>
struct layer {
  tensor<T, 2> w;
  tensor<T, dims{5}> b;
};
template <class T>
struct params {
  std::vector<layer<T>> layers;
  std::map<std::string, tensor<T, 1>> more;
  std::optional<tensor<T, 0>> scale;
  int steps = 3;
};

template <class T>
tensor<T, 2> matrix(std::uint64_t key, std::int64_t n) {
  return cast<T>(normal<float>(make_key(key), n, 5));
}
template <class T>
params<T> random_params(std::uint64_t key, std::int64_t n) {
  const auto five = [](std::uint64_t k) { return cast<T>(normal<float, dims{5}>(make_key(k))); };
  return {
      {{matrix<T>(key, n), five(key + 1)}, {matrix<T>(key + 2, n + 1), five(key + 3)}},
      {{"x", cast<T>(normal<float>(make_key(key + 4), 2 * n))}, {"y", cast<T>(normal<float>(make_key(key + 5), 1))}},
      tensor<T, 0>(cast<T>(normal<float>(make_key(key + 6)))),
      static_cast<int>(key)};
}

/// All elements, in f64.
template <class Tree>
std::vector<double> elements_of(const Tree& tree) {
  std::vector<double> out;
  detail::for_each_leaf(tree, [&]<class X>(const X& x) {
    if constexpr (tensor_like<X>)
      for (const auto v : x.to({}).to_vector()) out.push_back(static_cast<double>(v));
  });
  return out;
}
inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
inline std::vector<double> axpy(double a, const std::vector<double>& x, std::vector<double> y) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += a * x[i];
  return y;
}

/// Everything at once, as a program: results by name and the scalars.
template <class P>
auto everything(const P& x, const P& y, const tensor<float, 0>& a) {
  return std::tuple{tree_add(x, y),
                    tree_sub(x, y),
                    tree_scale(a, x),
                    tree_axpy(a, x, y),
                    tree_axpy(-0.5f, tree_zeros_like(x), y),
                    tree_dot(x, y),
                    tree_norm(x),
                    tree_all([](const auto& u, const auto& v) { return abs(u) + abs(v) < 100; }, x, y)};
}

template <class T, class Run>
void check_everything(const Run& run, device on, double epsilon) {
  for (const std::int64_t n : {3, 7}) {
    const params<T> x = random_params<T>(1, n), y = random_params<T>(20, n);
    const auto a = tensor<float, 0>(1.75f);
    const auto [sum, difference, scaled, moved, same, product, length, small] = run(to(x, on), to(y, on), a.to(on));
    const auto u = elements_of(x), v = elements_of(y);
    const std::vector<double> zero(u.size(), 0);
    check_close(elements_of(sum), axpy(1, u, v), epsilon);
    check_close(elements_of(difference), axpy(-1, v, u), epsilon);
    check_close(elements_of(scaled), axpy(1.75, u, zero), epsilon);
    check_close(elements_of(moved), axpy(1.75, u, v), epsilon);
    check_close(elements_of(same), v, 1e-12);
    CHECK(moved.steps == 20);
    CHECK(sum.steps == 1);
    check_close(std::vector{static_cast<double>(product.item())}, std::vector{dot(u, v)}, 1e-5);
    check_close(std::vector{static_cast<double>(length.item())}, std::vector{std::sqrt(dot(u, u))}, 1e-6);
    CHECK(small.item());
  }
}

/// A step of gradient descent with the gradients clipped by their common norm, and second derivatives by dot products.
template <class P>
auto clipped_step(const P& p, float limit) {
  const auto loss = [](const P& q) { return tree_norm(q) + 0.5f * tree_dot(q, tree_scale(3, q)); };
  const auto g = grad(loss)(p);
  const auto n = tree_norm(g);
  return std::pair{tree_axpy(-0.1f, tree_scale(minimum(limit / n, 1.f), g), p), n};
}

}  // namespace tree_arithmetic
