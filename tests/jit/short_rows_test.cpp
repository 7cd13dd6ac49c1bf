// Reductions of rows shorter than a vector, which run across rows, and indices of extremes, whose lanes count vectors: eager and
// compiled against the interpreter.
#include <doctest/doctest.h>
#include <sinter/sinter.hpp>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "../share.hpp"

using namespace sinter;

namespace {

/// Ties everywhere; NaN, infinities and a row of nothing but -infinity where T has them.
template <class T>
tensor<T, 2> values(std::int64_t rows, std::int64_t columns) {
  std::vector<T> v;
  unsigned seed = static_cast<unsigned>(rows * 31 + columns);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    seed = seed * 1664525u + 1013904223u;
    double x = static_cast<double>((seed >> 20) % 13) - 6;
    if (std::numeric_limits<T>::has_infinity || std::is_same_v<T, f16>) {
      const double special[] = {NAN, INFINITY, -INFINITY, -0.0};
      if (seed >> 9 & 1) x += 0.25;
      if (i % 23 == 22) x = special[seed >> 28 & 3];
      if (i / columns == 5) x = -INFINITY;
    }
    v.push_back(static_cast<T>(static_cast<float>(x)));
  }
  return reshape(from_span(v), rows, columns);
}

double number(std::int64_t x) { return static_cast<double>(x); }
double number(std::int32_t x) { return x; }
double number(double x) { return x; }
double number(float x) { return static_cast<double>(x); }
double number(f16 x) { return static_cast<double>(static_cast<float>(x)); }

template <class A, class B>
void check_same(const A& got, const B& want, double tolerance) {
  const auto a = got.to_vector();
  const auto b = want.to_vector();
  REQUIRE(a.size() == b.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = number(a[i]), y = number(b[i]);
    const bool same = x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= tolerance * (1 + std::fabs(y));
    if (!same && ++wrong < 4) MESSAGE("element ", i, " is ", x, ", not ", y);
  }
  CHECK(wrong == 0);
}

/// f(x) eagerly, compiled for these extents (in turns), and for open rows, is the interpreter's.
template <class T, class F>
void everywhere(const char* name, F f, const std::vector<tensor<T, 2>>& inputs, double tolerance) {
  CAPTURE(name);
  const auto interpreted = compile(f, {.backend = "reference"}),
             fixed = compile(f, {.dynamic = dynamic::no, .recompile_limit = 64}), open = compile(f);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& x = inputs[i];
    CAPTURE(x.shape()[0]);
    CAPTURE(x.shape()[1]);
    const auto want = interpreted(x);
    check_same(evaluate(f(x)), want, tolerance);
    if (in_turn(i)) check_same(fixed(x), want, tolerance);
    check_same(open(x), want, tolerance);
  }
}

template <class T>
std::vector<tensor<T, 2>> short_inputs() {
  std::vector<tensor<T, 2>> all;
  for (const auto& [rows, n] : {std::pair{53, 2},
                                {700, 3},
                                {16, 4},
                                {700, 5},
                                {53, 7},
                                {7, 8},
                                {700, 8},
                                {53, 9},
                                {300, 1},
                                {100, 16},
                                {100, 17}})
    all.push_back(values<T>(rows, n));
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("reductions of short rows", T, float, double, std::int32_t, f16) {
  const auto inputs = short_inputs<T>();
  const double near = std::is_same_v<T, double> ? 1e-14 : std::is_same_v<T, f16> ? 2e-2 : 1e-6;
  everywhere<T>(
      "sum", [](const tensor<T, 2>& x) { return sum(x, axis<1>); }, inputs, near);
  everywhere<T>(
      "max", [](const tensor<T, 2>& x) { return max(x, axis<1>); }, inputs, 0);
  everywhere<T>(
      "argmax", [](const tensor<T, 2>& x) { return argmax(x, axis<1>); }, inputs, 0);
  everywhere<T>(
      "argmin of columns", [](const tensor<T, 2>& x) { return argmin(x, axis<0>); }, inputs, 0);
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    everywhere<T>(
        "softmax", [](const tensor<T, 2>& x) { return softmax(x); }, inputs, near);
    everywhere<T>(
        "log_softmax", [](const tensor<T, 2>& x) { return log_softmax(x); }, inputs, 10 * near);
    everywhere<T>(
        "logsumexp", [](const tensor<T, 2>& x) { return logsumexp(x, axis<1>); }, inputs, near);
  }
  if constexpr (std::is_same_v<T, float>) {
    everywhere<T>(
        "norm", [](const tensor<T, 2>& x) { return norm(x, axis<1>); }, inputs, near);
    everywhere<T>(
        "what follows a sum", [](const tensor<T, 2>& x) { return evaluate(x * sum(x * x, axis<1>, keepdims) + x); },
        inputs, near);
    everywhere<T>(
        "of a transposed tensor", [](const tensor<T, 2>& x) { return min(transpose(x) + 1, axis<0>); }, inputs, 0);
    everywhere<T>(
        "over two axes",
        [](const tensor<T, 2>& x) {
          return sum(pad(x, {{0, 0}, {1, 0}}), axis<1>);
        },
        inputs, near);
  }
}

TEST_CASE_TEMPLATE("the first extremes of rows and columns of every length", T, float, double, std::int32_t,
                   std::int64_t, f16) {
  std::vector<tensor<T, 2>> inputs;
  for (const std::int64_t n : {15, 16, 31, 33, 64, 127, 128, 129, 300, 1030}) inputs.push_back(values<T>(9, n));
  inputs.push_back(values<T>(300, 40));
  inputs.push_back(evaluate(full<T>(T(3), 20, 200)));
  everywhere<T>(
      "argmax", [](const tensor<T, 2>& x) { return argmax(x, axis<1>); }, inputs, 0);
  everywhere<T>(
      "argmin", [](const tensor<T, 2>& x) { return argmin(x, axis<1>); }, inputs, 0);
  everywhere<T>(
      "argmax of columns", [](const tensor<T, 2>& x) { return argmax(x, axis<0>); }, inputs, 0);
  if constexpr (std::is_same_v<T, float>) {
    everywhere<T>(
        "of few", [](const tensor<T, 2>& x) { return argmax(slice<1>(slice<0>(x, 0, 2), 0, 3)); }, inputs, 0);
    everywhere<T>(
        "of all", [](const tensor<T, 2>& x) { return argmin(x); }, inputs, 0);
    everywhere<T>(
        "of a flipped tensor", [](const tensor<T, 2>& x) { return argmax(flip<1>(x), axis<1>); }, inputs, 0);
    everywhere<T>(
        "beside the value",
        [](const tensor<T, 2>& x) { return evaluate(cast<T>(argmax(x, axis<1>)) + max(x, axis<1>)); }, inputs, 0);
  }
}

TEST_CASE_TEMPLATE("small products are plain loops", T, float, double, std::int32_t, f16) {
  for (const std::int64_t n : {1, 2, 3, 4, 6, 8, 15, 16, 17, 33}) {
    CAPTURE(n);
    const auto numbers = [](std::int64_t rows, std::int64_t columns) {
      return tensor<T, 2>(cast<T>(reshape(arange<std::int64_t>(rows * columns) % 7 - 3, rows, columns)));
    };
    const tensor<T, 2> a = numbers(n, n + 1), b = numbers(n + 1, n + 2);
    const auto f = [](const tensor<T, 2>& a, const tensor<T, 2>& b) { return matmul(a, b); };
    check_same(matmul(a, b), compile(f, {.backend = "reference"})(a, b), 1e-6);
    check_same(matmul(transpose(b), transpose(a)), transpose(compile(f, {.backend = "reference"})(a, b)), 1e-6);
  }
}

TEST_CASE("transposed reads of an eager loop, in blocks") {
  for (const std::int64_t rows : {1, 15, 16, 33, 100})
    for (const std::int64_t columns : {16, 63, 64, 130}) {
      const tensor<float, 2> x = normal<float>(make_key(3), columns, rows),
                             y = normal<float>(make_key(4), rows, columns);
      const tensor<float, 2> got = transpose(x) * 2 + y;
      std::size_t wrong = 0;
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) wrong += got(i, j) != x(j, i) * 2 + y(i, j);
      CAPTURE(rows);
      CAPTURE(columns);
      CHECK(wrong == 0);
      const tensor<double, 3> z = normal<double>(make_key(5), 3, columns, rows);
      const tensor<double, 3> turned = permute<0, 2, 1>(z) + 1;
      for (std::int64_t i = 0; i < rows; ++i) wrong += turned(2, i, columns - 1) != z(2, columns - 1, i) + 1;
      CHECK(wrong == 0);
    }
}
