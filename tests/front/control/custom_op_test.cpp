// custom_op and host_call: values, derivatives, what is fused around them, order and number of calls.
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"
#include "../../texts.hpp"

using namespace sinter;
using texts::error_of;

namespace {

using scalar = tensor<double, 0>;
using vec = tensor<double, 1>;
using matrix = tensor<double, 2>;
using doubles = std::vector<double>;

void check_close(const doubles& a, const doubles& b) { ::check_close(a, b, 1e-9); }

/// x·|y| of each element, with its derivative.
auto weighed(int* calls) {
  return custom_op<"weighed">(
      [calls](elements<const double, 1> x, elements<const double, 1> y, elements<double, 1> out) {
        ++*calls;
        for (std::int64_t i = 0; i < out.size(); ++i) out[i] = x[i] * std::abs(y[i]);
      },
      none, [](const auto& x, const auto&) { return result_of<double, 1>{x}; },
      [](const vec& x, const vec& y, const vec&, const vec& ct) {
        return std::tuple{vec(ct * abs(y)), vec(ct * x * sign(y))};
      });
}

}  // namespace

TEST_CASE("a custom op computes and differentiates: eagerly, compiled, on the reference, among fused ops") {
  int calls = 0;
  const auto op = weighed(&calls);
  const vec x{1, 2, 3}, y{-4, 5, -6};
  check_close(op(x, y).to_vector(), {4, 10, 18});
  check_close(op(x + 1.0, y).to_vector(), {8, 15, 24});
  CHECK(calls == 2);
  const auto f = [&](const vec& x, const vec& y) { return sum(exp(op(x * 0.1, y) * 0.5) * y); };
  const auto same = [&](const vec& x, const vec& y) { return sum(exp(x * 0.1 * abs(y) * 0.5) * y); };
  for (const char* backend : {"cpu", "reference", "aot_reference"}) {
    const auto g = compile(value_and_grad(f), {.backend = backend});
    const auto h = compile(value_and_grad<1>(f), {.backend = backend});
    calls = 0;
    const auto [a, da] = g(x, y);
    CHECK(calls == 1);
    const auto [b, db] = value_and_grad(same)(x, y);
    CHECK(a.item() == doctest::Approx(b.item()));
    check_close(da.to_vector(), db.to_vector());
    check_close(h(x, y).second.to_vector(), value_and_grad<1>(same)(x, y).second.to_vector());
  }
  check_close(compile(op)(matrix({{1, 2}, {3, 4}}).size(0) == 2 ? x : y, y).to_vector(), {4, 10, 18});
}

TEST_CASE("several results, other shapes and dtypes, views as operands, derivatives of derivatives") {
  const auto split = custom_op<"halves">(
      [](elements<const double, 2> x, elements<double, 1> sums, elements<std::int64_t, 0> count) {
        for (std::int64_t r = 0; r < x.extents[0]; ++r) {
          sums[r] = 0;
          for (std::int64_t c = 0; c < x.extents[1]; ++c)
            sums[r] += x[r * x.extents[1] + c] * static_cast<double>(c + 1);
        }
        count[0] = x.size();
      },
      none,
      [](const index_array<2>& x) {
        return std::tuple{result_of<double, 1>{{x[0]}}, result_of<std::int64_t, 0>{}};
      });
  const matrix x{{1, 2, 3}, {4, 5, 6}};
  const auto f = compile([&](const matrix& x) { return split(transpose(x)); });
  const auto [sums, count] = f(x);
  check_close(sums.to_vector(), {9, 12, 15});
  CHECK(count.item() == 6);
  check_close(std::get<0>(split(transpose(x))).to_vector(), {9, 12, 15});

  int calls = 0;
  const auto op = weighed(&calls);
  const auto curved = [&](const vec& x) {
    return sum(grad([&](const vec& v) { return sum(op(v * v, v)); })(x) * vec{1, 2, 3});
  };
  check_close(compile(grad(curved))(vec{1, -2, 3}).to_vector(), {6, 24, 54});  // of Σ|v|³
}

TEST_CASE("custom ops in loops and branches") {
  int calls = 0;
  const auto op = weighed(&calls);
  const auto f = [&](const vec& x) {
    const vec turned = fori_loop(
        0, 4, [&](auto, const vec& c) { return op(c, x) * 0.5; }, x);
    return sum(cond(
        sum(x) > 0.0, [&] { return op(turned, turned); }, [&] { return vec(turned * 2.0); }));
  };
  const auto same = [&](const vec& x) {
    vec c = x;
    for (int i = 0; i < 4; ++i) c = c * abs(x) * 0.5;
    return sum(c * abs(c));
  };
  const vec x{1.5, -0.5, 2};
  const auto [a, da] = compile(value_and_grad(f))(x);
  const auto [b, db] = compile(value_and_grad(same))(x);
  CHECK(a.item() == doctest::Approx(b.item()));
  check_close(da.to_vector(), db.to_vector());
}

TEST_CASE("what a custom op lacks is a clear error") {
  const auto op = custom_op<"plain">(
      [](elements<const double, 1> x, elements<double, 1> y) { std::copy(x.begin(), x.end(), y.begin()); }, none,
      [](const auto& x) { return result_of<double, 1>{x}; });
  const vec x{1, 2};
  check_close(op(x).to_vector(), {1, 2});
  const std::string why = error_of([&] { grad([&](const vec& v) { return sum(op(v)); })(x); });
  CHECK(why.find("[plain] the custom op has no derivative; give custom_op a vjp") == 0);
  CHECK(why.find("custom_op_test.cpp:") != std::string::npos);
  const auto wrong =
      custom_op<"wrong">([](elements<const double, 1>, elements<double, 1> y) { std::fill(y.begin(), y.end(), 0.0); },
                         none, [](const auto& x) { return result_of<double, 1>{x}; },
                         [](const vec&, const vec&, const vec& ct) { return concat(ct, ct); });
  CHECK(error_of([&] {
          grad([&](const vec& v) { return sum(wrong(v)); })(x);
        }).find("[wrong] its vjp returns a cotangent of shape (4,) for an operand of shape (2,)") == 0);
  using pair = tensor<double, dims{2}>;
  const auto narrow = custom_op<"narrow">(
      [](elements<const double, 1>, elements<double, 1> y) { std::fill(y.begin(), y.end(), 0.0); }, none,
      [](const auto& x) { return result_of<double, 1>{x}; }, [](pair, vec, vec ct) { return ct; });
  const int made = __LINE__ - 3;
  const std::string text = error_of([&] { grad([&](const vec& v) { return sum(narrow(v)); })(vec{1, 2, 3}); });
  CHECK_MESSAGE(text.find("custom_op_test.cpp:" + std::to_string(made) + ")") != std::string::npos, text);
}

TEST_CASE("host_call is given the extents and the floating numbers that each call has") {
  static std::vector<double> seen;
  seen.clear();
  const auto f = compile(
      [](const tensor<float, 1>& x, double rate) {
        host_call(
            [](std::int64_t n, double r, std::pair<dim, float> more, int k) {
              seen = {double(n), r, double(std::int64_t{more.first}), double(more.second), double(k)};
            },
            x.size(0), rate, std::pair{x.size(0) * 2, float(rate) / 2}, 7);
        return x * float(rate);
      },
      {.recompile_limit = 2});
  double rate = 1;
  for (const std::int64_t n : {3, 4, 5, 6, 9, 4}) {
    rate *= 0.5;
    CHECK(f(ones<float>(n), rate)(n - 1) == float(rate));
    CHECK(seen == std::vector<double>{double(n), rate, double(2 * n), rate / 2, 7});
  }
  CHECK(f.report().backend == "cpu");
  const auto g = compile([](const tensor<float, 1>& x, int k) {
    host_call(
        [](int k, const std::vector<bool>& flags) {
          seen = {double(k), double(flags[1])};
        },
        k, std::vector<bool>{false, k > 1});
    return x;
  });
  for (const int k : {1, 2, 1, 2}) {
    g(ones<float>(2), k);
    CHECK(seen == std::vector<double>{double(k), double(k > 1)});
  }
}

TEST_CASE("host_call runs at each call, in order, though nothing needs it") {
  std::vector<std::string> log;
  const auto note = [&log](const char* name) {
    return [&log, name](const vec& x) { log.push_back(name + std::to_string(static_cast<int>(x(0)))); };
  };
  const auto f = compile([&](const vec& x) {
    host_call(note("a"), x * 2.0);
    const vec y = exp(x);
    host_call(note("b"), x + 1.0);
    host_call(note("b"), x + 1.0);
    return y;
  });
  for (double at : {1.0, 5.0}) f(vec{at, 2});
  CHECK(log == std::vector<std::string>{"a2", "b2", "b2", "a10", "b6", "b6"});

  log.clear();
  const auto g = compile(value_and_grad([&](const vec& x) {
    const auto [last, ys] = scan(
        [&](const vec& c, const scalar& s) {
          host_call(note("s"), c);
          cond(
              s > 0.0, [&] { host_call(note("+"), c); }, [&] { host_call(note("-"), c); });
          return std::pair{vec(c * s), s};
        },
        x, vec{2, -1, 3});
    host_call(note("end"), last);
    return sum(last);
  }));
  const auto [value, slope] = g(vec{1, 2});
  CHECK(value.item() == -18);
  check_close(slope.to_vector(), {-6, -6});
  CHECK(log == std::vector<std::string>{"s1", "+1", "s2", "-2", "s-2", "+-2", "end-6"});

  log.clear();
  host_call(note("now"), vec{3});
  CHECK(log == std::vector<std::string>{"now3"});
  int count = 0;
  const auto h = compile([&](const vec& x) { host_call([&] { ++count; }), void(x); });
  h(vec{1});
  h(vec{1});
  CHECK(count == 2);
  const auto thrown = compile([](const vec& x) {
    host_call([](const vec&) { throw std::runtime_error("from the host"); }, x);
    return vec(x + 1.0);
  });
  CHECK_THROWS_WITH(thrown(vec{1}), "from the host");
}
