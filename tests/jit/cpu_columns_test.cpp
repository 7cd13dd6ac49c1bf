// Kernels of columns, against the interpreter: dtypes, widths and lengths, layouts, open extents, special values.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <sinter/sinter.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "../close.hpp"

using namespace sinter;

namespace {

/// Distinct values in [-2, 2), among them `some` at every seventh place.
template <class T, class... N>
auto sample(const std::vector<double>& some, N... extents) {
  auto t = zeros<T>(extents...);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const double x = static_cast<double>(i * 7919 % 4001) / 1000 - 2;
    const auto at = static_cast<std::size_t>(i / 7);
    t.data()[i] = static_cast<T>(static_cast<float>(some.empty() || i % 7 ? x : some[at % some.size()]));
  }
  return t;
}

template <class A>
std::vector<double> numbers(const A& a) {
  std::vector<double> out;
  for (const auto x : a.to_vector()) out.push_back(static_cast<double>(x));
  return out;
}

template <class A>
void same(const A& got, const A& want, double tolerance) {
  REQUIRE(got.shape() == want.shape());
  check_close(numbers(got), numbers(want), tolerance);
}
template <class... A>
void same(const std::tuple<A...>& got, const std::tuple<A...>& want, double tolerance) {
  [&]<std::size_t... I>(std::index_sequence<I...>) { (same(std::get<I>(got), std::get<I>(want), tolerance), ...); }
  (std::index_sequence_for<A...>{});
}

/// f compiled, in one kernel, gives what the interpreter does.
template <class F, class... X>
void one_kernel(double tolerance, F f, const X&... x) {
  const auto on = compile(f, {.backend = "cpu"}), by = compile(f, {.backend = "reference"});
  const auto got = on(x...);
  same(got, by(x...), tolerance);
  CHECK(on.report().kernels == 1);
}

const auto soft = [](auto x) { return softmax<0>(x); };
const auto log_soft = [](auto x) { return log_softmax<0>(x); };
const auto standard = [](auto x) {
  const auto d = x - mean(x, axis<0>, keepdims);
  return evaluate(d * rsqrt(mean(d * d, axis<0>, keepdims) + 1e-5f));
};
const auto soft_back = [](auto x, auto g) { return grad([&](auto y) { return sum(softmax<0>(y) * g); })(x); };

}  // namespace

TEST_CASE_TEMPLATE("columns of every floating dtype and of widths that leave a rest", T, float, double, f16, bf16) {
  const double tolerance = sizeof(T) == 2 ? 2e-2 : 1e-5;
  for (const std::int64_t width : {16, 17, 40, 64, 100, 128, 300}) {
    CAPTURE(width);
    const auto x = sample<T>({}, 30, width);
    one_kernel(tolerance, soft, x);
    if (width == 40) continue;
    one_kernel(tolerance, log_soft, x);
    one_kernel(tolerance, standard, x);
  }
}

TEST_CASE("backward passes, and results of which a column has one") {
  const auto x = sample<float>({}, 50, 90), g = sample<float>({}, 50, 90);
  one_kernel(1e-5, soft_back, x, g);
  one_kernel(
      1e-5, [](auto x, auto g) { return grad([&](auto y) { return sum(log_softmax<0>(y) * g); })(x); }, x, g);
  const auto both = [](auto x) {
    const auto l = logsumexp(x, axis<0>, keepdims);
    return std::tuple{evaluate(x - l), evaluate(l * 2.f)};
  };
  one_kernel(1e-5, both, x);
  const auto scaled = [](auto x, auto w, auto r) { return evaluate(softmax<0>(x * w + expand_dims<1>(r)) * w); };
  one_kernel(1e-5, scaled, x, sample<float>({}, 90), sample<float>({}, 50));
}

TEST_CASE("integers and booleans") {
  const auto x = sample<std::int32_t>({}, 40, 50);
  one_kernel(
      0, [](auto x) { return evaluate(x - max(x, axis<0>, keepdims) + sum(x, axis<0>, keepdims)); }, x);
  one_kernel(
      0, [](auto x) { return evaluate(any(x > 0, axis<0>, keepdims) != (x > 1)); }, x);
}

TEST_CASE("an axis in the middle, several axes, and one of size 1") {
  const auto x = sample<float>({}, 3, 20, 24);
  one_kernel(
      1e-5, [](auto x) { return softmax<1>(x); }, x);
  const auto all_but_last = [](auto x) { return evaluate(x - mean(x, axis<0, 1>, keepdims)); };
  one_kernel(1e-5, all_but_last, x);
  one_kernel(
      1e-5, [](auto x) { return evaluate(x - mean(x, axis<0, 2>, keepdims)); }, sample<float>({}, 5, 3, 4, 24));
  one_kernel(
      1e-5, [](auto x) { return softmax<1>(x); }, sample<float>({}, 3, 1, 24));
  one_kernel(
      1e-5, [](auto x) { return softmax<0>(x); }, sample<float>({}, 12, 1, 24));
}

TEST_CASE("views with steps, reversed, and transposed ones") {
  const auto x = sample<float>({}, 60, 100);
  one_kernel(1e-5, soft, slice<1>(slice<0>(flip<0>(x), 3, 50, 2), 5, 95));
  const auto any_kernels = [](const auto& y) {
    same(compile(soft, {.backend = "cpu"})(y), compile(soft, {.backend = "reference"})(y), 1e-5);
  };
  any_kernels(transpose(x));
  any_kernels(slice<1>(x, 0, to_end, 3));
}

TEST_CASE("nothing, and columns of nothing") {
  for (const auto& size : std::vector<std::pair<int, int>>{{0, 32}, {5, 0}, {1, 32}, {1, 1}, {7, 3}}) {
    CAPTURE(size.first);
    CAPTURE(size.second);
    const auto x = sample<float>({}, size.first, size.second);
    const auto f = [](auto x) { return std::tuple{evaluate(x - sum(x, axis<0>, keepdims)), sum(x, axis<0>)}; };
    same(compile(f, {.backend = "cpu"})(x), compile(f, {.backend = "reference"})(x), 1e-5);
  }
}

TEST_CASE("NaN, infinities and signed zeros stay in their columns") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::vector<double>& some : {std::vector{nan}, {inf}, {-inf}, {inf, nan, -inf, -0.0}}) {
    const auto x = sample<float>(some, 30, 45);
    one_kernel(1e-5, soft, x);
    one_kernel(1e-5, standard, x);
    one_kernel(
        0, [](auto x) { return evaluate(x * 0.f + max(x, axis<0>, keepdims) - min(x, axis<0>, keepdims)); }, x);
  }
  const auto zeros_of = sample<float>({-0.0}, 1, 40);
  const auto f = compile([](auto x) { return evaluate(max(x, axis<0>, keepdims) * abs(x + 1.f)); }, {.backend = "cpu"});
  const auto got = f(full<float>(-0.f, 3, 40)).to_vector();
  CHECK(std::signbit(got[17]));
}

TEST_CASE("open extents: columns and rows of all numbers take one program, values are kept while they fit") {
  for (const auto& fn : {0, 1}) {
    CAPTURE(fn);
    const auto f = [fn](auto x) { return fn ? standard(x) : soft(x); };
    const auto open = compile(f, {.dynamic = dynamic::yes, .backend = "cpu"});
    for (const auto& size :
         std::vector<std::pair<int, int>>{{40, 70}, {2, 64}, {9000, 17}, {33, 128}, {5, 3}, {200, 300}}) {
      CAPTURE(size.first);
      const auto x = sample<float>({}, size.first, size.second);
      same(open(x), compile(f, {.dynamic = dynamic::no, .backend = "reference"})(x), 1e-4);
    }
    CHECK(open.specialisations() == 1);
    CHECK(open.report().kernels == 1);
  }
}

TEST_CASE("values of long columns are computed again") { one_kernel(1e-4, soft, sample<float>({}, 2500, 256)); }

TEST_CASE("results larger than the caches") {
  const auto x = sample<float>({}, 2048, 2048 + 16);
  one_kernel(1e-4, soft, x);
}

TEST_CASE("a donated operand's memory is not taken before all passes have read it") {
  const auto fn = [](tensor<float, 2> x) { return softmax<0>(x); };
  const auto want = compile(fn, {.backend = "cpu"})(sample<float>({}, 64, 64));
  auto given = sample<float>({}, 64, 64);
  same(compile(fn, {.backend = "cpu", .donate = {0}})(std::move(given)), want, 0);
}
