// Pads and concatenations that are read in parts, as stencils and rotated embeddings do: loads with guards, of which nothing is
// read where they do not hold. Compiled for these extents and for open ones, and on a GPU, against the interpreter.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <sinter/sinter.hpp>

#include "../emulator/select.hpp"

namespace {

using namespace sinter;
using vec = tensor<float, 1>;
using matrix = tensor<float, 2>;
using cube = tensor<float, 3>;

double number(float x) { return static_cast<double>(x); }
double number(double x) { return x; }
double number(f16 x) { return static_cast<double>(static_cast<float>(x)); }
template <class T>
requires std::is_integral_v<T>
double number(T x) { return static_cast<double>(x); }

template <class A, class B>
void same(const A& got, const B& want, double tolerance) {
  REQUIRE(got.shape() == want.shape());
  const auto a = got.to(device::cpu()).to_vector();
  const auto b = want.to_vector();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = number(a[i]), y = number(b[i]);
    const bool equal = x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= tolerance * (1 + std::fabs(y));
    if (!equal && ++wrong < 4) MESSAGE("element " << i << " is " << x << ", not " << y);
  }
  CHECK(wrong == 0);
}

/// f(x…) compiled in every way is the interpreter's; `kernels` of them at most on the CPU, 0: any number.
template <class F, class... X>
void everywhere(const std::string& name, std::size_t kernels, F f, const X&... x) {
  CAPTURE(name);
  const auto want = compile(f, {.backend = "reference"})(x...);
  const double tolerance = 2e-5;
  for (const auto open : {dynamic::no, dynamic::yes}) {
    const auto compiled = compile(f, {.dynamic = open});
    same(compiled(x...), want, tolerance);
    if (kernels > 0) CHECK(compiled.report().kernels <= kernels);
    CHECK(compiled.report().backend == "cpu");
  }
  if (device_count() > 0) same(compile(f)(x.to(device::cuda(0))...), want, tolerance);
}

template <class T = float, class... I>
auto values(I... extents) {
  const std::int64_t n = (std::int64_t{1} * ... * extents);
  std::vector<T> v;
  unsigned seed = static_cast<unsigned>(n) + 17;
  for (std::int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    v.push_back(static_cast<T>(static_cast<float>(static_cast<int>(seed >> 20) % 13 - 5) *
                               (std::is_integral_v<T> ? 1.F : 0.25F)));
  }
  return reshape(from_span(v), extents...);
}

// A step of the heat equation, with what is outside at 0.

vec heat(const vec& u) {
  const vec p = pad(u, {{1, 1}});
  return u + 0.1F * (slice<0>(p, 0, -2) + slice<0>(p, 2) - 2.F * slice<0>(p, 1, -1));
}
matrix heat(const matrix& u) {
  const matrix p = pad(u, {{1, 1}, {1, 1}});
  const auto rows = [&](int from, int to) { return slice<1>(slice<0>(p, from, to), 1, -1); };
  const matrix middle = slice<0>(p, 1, -1);
  const auto n = u.size(0);
  return u + 0.1F * (rows(0, int(n)) + rows(2, int(n) + 2) + slice<1>(middle, 0, -2) + slice<1>(middle, 2) -
                     4.F * slice<1>(middle, 1, -1));
}
cube heat(const cube& u) {
  const cube p = pad(u, {{1, 1}, {1, 1}, {1, 1}});
  const auto at = [&](int z, int y, int x) {
    return slice<2>(slice<1>(slice<0>(p, z, u.size(0) + z), y, u.size(1) + y), x, u.size(2) + x);
  };
  return u + 0.05F * (at(0, 1, 1) + at(2, 1, 1) + at(1, 0, 1) + at(1, 2, 1) + at(1, 1, 0) + at(1, 1, 2) - 6.F * u);
}

template <class U>
auto steps(int n) {
  return [n](U u) {
    for (int i = 0; i < n; ++i) u = heat(u);
    return u;
  };
}
template <class U>
auto gradient_of_steps(int n) {
  return [n](U u) {
    return grad([n](const U& x) {
      U u = x;
      for (int i = 0; i < n; ++i) u = heat(u);
      return sum(u * u);
    })(u);
  };
}

template <class U>
void ten_steps(const std::string& name, const U& u) {
  everywhere(name, 10, steps<U>(10), u);
  everywhere(name + ", gradient", 20, gradient_of_steps<U>(10), u);
}

}  // namespace

TEST_CASE("ten steps of the heat equation are a kernel each, and their gradient as many again") {
  ten_steps("line", values(1003));
  ten_steps("plane", values(37, 53));
  ten_steps("space", values(7, 9, 21));
}

TEST_CASE("a stencil of rows longer and shorter than vectors") {
  for (const int n : {1, 2, 3, 8, 15, 16, 17, 33})
    for (const int m : {1, 2, 5, 16, 31, 48, 70}) everywhere("plane", 1, steps<matrix>(1), values(n, m));
}

TEST_CASE("nothing is outside of what has no elements") {
  const auto f = [](matrix x) {
    const matrix p = pad(x * 2.F, {{2, 1}, {0, 3}}, 7.F);
    return matrix(slice<0>(p, 0, -1) - slice<0>(p, 1));
  };
  everywhere("no rows", 0, f, matrix(zeros<float>(0, 5)));
  everywhere("no columns", 0, f, matrix(zeros<float>(4, 0)));
  everywhere("one", 1, f, values(1, 1));
}

TEST_CASE("literals of every type, and pads on some sides alone") {
  const auto parts = [](auto x, auto literal) {
    const auto p = pad(x, {{0, 2}, {3, 0}}, literal);
    return std::pair{slice<0>(slice<1>(p, 0, -3), 0, -2), slice<0>(slice<1>(p, 2, -1), 2)};
  };
  const auto added = [&](auto literal) {
    return [=](auto x) {
      const auto [a, b] = parts(x, literal);
      return tensor<typename decltype(x)::value_type, 2>(a + b + b);
    };
  };
  everywhere("f32", 1, added(2.5F), values(6, 21));
  everywhere(
      "-0", 1, [&](matrix x) { return matrix(1.F / parts(x, -0.F).first); }, values(5, 40));
  everywhere("NaN", 1, added(std::numeric_limits<float>::quiet_NaN()), values(6, 21));
  everywhere("infinity", 1, added(-std::numeric_limits<float>::infinity()), values(6, 40));
  everywhere("f64", 1, added(0.0), values<double>(5, 19));
  everywhere("f16", 1, added(f16(0.F)), values<f16>(5, 19));
  everywhere("i8", 1, added(std::int8_t(3)), values<std::int8_t>(5, 35));
  everywhere("i64", 1, added(std::int64_t(0)), values<std::int64_t>(5, 35));
  everywhere(
      "quotients", 1,
      [&](tensor<std::int32_t, 2> x) {
        const auto [a, b] = parts(x + 100, 1);
        return tensor<std::int32_t, 2>(a / b);
      },
      values<std::int32_t>(5, 35));
  for (const bool literal : {false, true})
    everywhere(
        "bool", 1,
        [&](matrix x) {
          const auto [a, b] = parts(tensor<bool, 2>(x > 0.F), literal);
          return tensor<bool, 2>(a == b);
        },
        values(5, 35));
}

TEST_CASE("what surrounds what was computed is not computed of it") {
  everywhere(
      "logarithms", 1,
      [](matrix x) {
        const matrix p = pad(log(abs(x) + 1.F), {{1, 1}, {2, 0}}, 4.F);
        return matrix(slice<0>(slice<1>(p, 0, -2), 0, -2) + slice<0>(slice<1>(p, 1, -1), 2));
      },
      values(9, 44));
  everywhere(
      "pads of pads", 1,
      [](matrix x) {
        const matrix p = pad(pad(x, {{1, 0}, {2, 2}}, 3.F) * 2.F, {{0, 1}, {1, 1}}, 5.F);
        return matrix(slice<0>(slice<1>(p, 0, -2), 0, -1) - slice<0>(slice<1>(p, 2), 1));
      },
      values(9, 44));
  everywhere(
      "backwards, by twos", 1,
      [](matrix x) {
        const matrix p = pad(x, {{1, 1}, {3, 3}}, 3.F);
        return matrix(flip(slice<1>(p, 0, to_end, 2), axis<1>) + slice<1>(p, 0, to_end, 2));
      },
      values(9, 44));
  everywhere(
      "turned", 0,
      [](matrix x) {
        const matrix p = pad(x, {{1, 1}, {1, 1}}, 3.F);
        return matrix(x + transpose(slice<0>(slice<1>(p, 0, -2), 2)));
      },
      values(40, 40));
}

TEST_CASE("joined operands are read where they are wanted") {
  everywhere(
      "rotated halves", 1,
      [](matrix x, matrix c, matrix s) {
        const auto half = x.size(1) / 2;
        const matrix turned = concat<1>(matrix(-slice<1>(x, half)), matrix(slice<1>(x, 0, half)));
        return matrix(x * c + turned * s);
      },
      values(11, 64), values(11, 64), values(11, 64));
  everywhere(
      "along rows", 1,
      [](matrix x, matrix y) {
        const matrix all = concat<0>(x, matrix(y * 2.F), x);
        return matrix(slice<0>(all, 1) - slice<0>(all, 0, -1));
      },
      values(5, 23), values(3, 23));
  everywhere(
      "along columns", 1,
      [](matrix x, matrix y) {
        const matrix all = concat<1>(y, x, matrix(y + 1.F), x);
        return matrix(exp(slice<1>(all, 0, -3)) - slice<1>(all, 3));
      },
      values(5, 23), values(5, 4));
  everywhere(
      "six of them", 0,
      [](matrix x, matrix y) {
        const matrix all = concat<1>(y, x, y, x, y, y);
        return matrix(slice<1>(all, 1) - slice<1>(all, 0, -1));
      },
      values(5, 23), values(5, 4));
  everywhere(
      "one of nothing", 0,
      [](matrix x, matrix y) {
        const matrix all = concat<1>(x, y);
        return matrix(slice<1>(all, 1) - slice<1>(all, 0, -1));
      },
      values(5, 23), matrix(zeros<float>(5, 0)));
}

TEST_CASE("kernels of every kind read padded and joined operands") {
  const auto padded = [](const matrix& x) { return pad(x, {{1, 2}, {2, 1}}, 0.5F); };
  const auto x = values(21, 45);
  everywhere(
      "softmax of rows", 0, [&](matrix x) { return softmax(padded(x)); }, x);
  everywhere(
      "softmax of columns", 0, [&](matrix x) { return softmax<0>(padded(x)); }, x);
  everywhere(
      "sums of rows", 1, [&](matrix x) { return sum(padded(x) * padded(x), axis<1>); }, x);
  everywhere(
      "sums of columns", 1, [&](matrix x) { return sum(exp(padded(x)), axis<0>); }, values(300, 45));
  everywhere(
      "sum", 1, [&](matrix x) { return sum(padded(x)); }, values(300, 345));
  everywhere(
      "short rows", 0, [&](matrix x) { return sum(padded(x), axis<1>); }, values(500, 3));
  everywhere(
      "extremes", 0, [&](matrix x) { return argmax(padded(x), axis<1>); }, x);
  everywhere(
      "extremes of columns", 0, [&](matrix x) { return argmax(padded(x), axis<0>); }, x);
  everywhere(
      "running sums", 0, [&](matrix x) { return cumsum(padded(x)); }, x);
  everywhere(
      "running sums of columns", 0, [&](matrix x) { return cumsum<0>(padded(x)); }, x);
  everywhere(
      "product", 0, [&](matrix x) { return matmul(padded(x), transpose(padded(x))); }, x);
  everywhere(
      "behind a product", 0,
      [&](matrix x) {
        return matmul(x, transpose(x)) + slice<1>(pad(x, {{0, 0}, {1, 2}}, 2.F), 0, 21);
      },
      x);
  everywhere(
      "picked", 0,
      [&](matrix x) {
        return take(padded(x), tensor<std::int64_t, 1>(from_span(std::vector<std::int64_t>{0, 23, 5, 1, 22})));
      },
      x);
  everywhere(
      "layer_norm", 0,
      [&](matrix x) { return layer_norm(concat<1>(x, matrix(x * 2.F)), ones<float>(90), zeros<float>(90)); }, x);
}

TEST_CASE("gradients of pads and joins are parts, of parts pads, in one kernel") {
  everywhere(
      "blurs", 0,
      [](matrix x) {
        return grad([](const matrix& x) {
          const matrix p = pad(x, {{1, 1}, {1, 1}}, 1.F);
          const auto at = [&](int i, int j) { return slice<1>(slice<0>(p, i, x.size(0) + i), j, x.size(1) + j); };
          return sum(tanh(at(0, 0) * 0.5F + at(1, 2) - at(2, 1) * at(1, 1)));
        })(x);
      },
      values(13, 29));
  everywhere(
      "parts", 1,
      [](matrix x) {
        return grad([](const matrix& x) {
          const auto a = slice<1>(x, 0, 16), b = slice<1>(x, 16, 32), c = slice<1>(x, 32);
          return sum(a * b * c);
        })(x);
      },
      values(13, 48));
}

TEST_CASE("memory outside of an operand is not read") {
  // Operands end, and begin, where pages do that nobody may read.
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* const pages =
      static_cast<char*>(mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(pages != MAP_FAILED);
  REQUIRE(mprotect(pages, page, PROT_NONE) == 0);
  REQUIRE(mprotect(pages + 2 * page, page, PROT_NONE) == 0);
  const auto f = compile([](matrix x) {
    const matrix p = pad(x, {{3, 3}, {5, 5}}, 2.F);
    return matrix(slice<0>(slice<1>(p, 0, -10), 0, -6) + slice<0>(slice<1>(p, 10), 6) +
                  slice<0>(slice<1>(p, 5, -5), 3, -3));
  });
  const auto columns = compile([](matrix x) { return sum(pad(x, {{3, 3}, {5, 5}}, 2.F), axis<0>); });
  for (const std::int64_t n : {std::int64_t{8}, static_cast<std::int64_t>(page / sizeof(float) / 21)})
    for (const bool at_end : {false, true}) {
      const std::size_t bytes = static_cast<std::size_t>(n * 21) * sizeof(float);
      auto* const data = reinterpret_cast<float*>(at_end ? pages + 2 * page - bytes : pages + page);
      const matrix inside = values(n, std::int64_t{21});
      std::memcpy(data, inside.data(), bytes);
      const auto x = from_external(data, {n, std::int64_t{21}}, [](float*) {});
      same(f(x),
           compile(
               [](matrix x) {
                 const matrix p = pad(x, {{3, 3}, {5, 5}}, 2.F);
                 return matrix(slice<0>(slice<1>(p, 0, -10), 0, -6) + slice<0>(slice<1>(p, 10), 6) +
                               slice<0>(slice<1>(p, 5, -5), 3, -3));
               },
               {.backend = "reference"})(inside),
           1e-6);
      same(columns(x), sum(pad(inside, {{3, 3}, {5, 5}}, 2.F), axis<0>), 1e-6);
    }
  munmap(pages, 3 * page);
}
