// check_finite, the option of that name, and how tensors are printed: what is told of numbers that are none.
#include <limits>
#include <sstream>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../texts.hpp"

using namespace sinter;
using texts::contains;
using texts::error_of;

namespace {

using vec = tensor<float, 1>;
using matrix = tensor<double, 2>;
using real = tensor<float, 0>;

constexpr float infinite = std::numeric_limits<float>::infinity();

options on(const char* backend) {
  options how;
  how.backend = backend;
  return how;
}

std::string line(int n) { return "check_finite_test.cpp:" + std::to_string(n); }

}  // namespace

TEST_CASE("check_finite gives its operand, or tells the first element that is not finite") {
  const matrix good{{1, 2}, {3, -4}}, bad{{1, 2}, {infinite, std::nan("")}};
  CHECK(check_finite(good * 2, "twice").to_vector() == std::vector<double>{2, 4, 6, -8});
  const int here = __LINE__ + 1;
  const std::string text = error_of([&] { (void)check_finite(bad, "weights"); });
  CHECK(contains(text, "weights, (2, 2), is not finite: its first such element, at (1, 0), is inf"));
  CHECK(contains(text, line(here)));
  CHECK(contains(error_of([&] { (void)check_finite(vec{0, 1, std::nanf("")}, "x"); }), "at (2,), is nan"));
  CHECK(contains(error_of([&] { (void)check_finite(full<f16>(f16(infinite)), "x"); }), "x, (), is not finite"));
  CHECK(check_finite(zeros<float>(0, 3), "nothing").numel() == 0);
}

TEST_CASE("check_finite in compiled functions, at each call, of open extents, with its derivative") {
  for (const char* backend : {"cpu", "reference"}) {
    CAPTURE(std::string(backend));
    const int here = __LINE__ + 1;
    const auto f = compile([](const vec& x) { return sum(check_finite(log(x), "logarithms") * x); }, on(backend));
    for (const int n : {2, 3, 5}) {
      const vec x = arange<float>(n) + 1.0f;
      double want = 0;
      for (int i = 1; i <= n; ++i) want += i * std::log(double(i));
      CHECK(f(x).item() == doctest::Approx(want).epsilon(1e-5));
      const std::string text = error_of([&] { (void)f(x - 2.0f); });
      CHECK(contains(
          text, "logarithms, (" + std::to_string(n) + ",), is not finite: its first such element, at (0,), is nan"));
      CHECK(contains(text, line(here)));
    }
    const auto slope = compile(grad([](const vec& x) { return sum(check_finite(x * x, "squares")); }), on(backend));
    CHECK(slope(vec{1, 2}).to_vector() == std::vector<float>{2, 4});
    CHECK(contains(error_of([&] { (void)slope(vec{1, 1e30f}); }), "at (1,), is inf"));
  }
}

TEST_CASE("check_finite in loops tells the step's line; in vmap it is refused") {
  const int here = __LINE__ + 3;
  const auto f = compile([](const real& x) {
    return fori_loop(
        0, 4, [](const auto&, const real& y) { return real(check_finite(exp(y), "carry")); }, x);
  });
  CHECK(contains(error_of([&] { (void)f(real(2.0f)); }), line(here)));
  CHECK(f(real(-2.0f)).item() > 0);
  CHECK(contains(error_of([&] {
                   (void)vmap([](const real& x) { return check_finite(x, "lane"); })(vec{1, 2});
                 }),
                 "a function of the host, which has no batch rule"));
}

TEST_CASE("the option names the first op that made one, and its line") {
  for (const char* backend : {"cpu", "reference"}) {
    CAPTURE(std::string(backend));
    options how = on(backend);
    how.check_finite = true;
    how.name = "step";
    const int here = __LINE__ + 3;
    const auto f = compile(
        [](const vec& x, const vec& y) {
          const auto ratio = log(x);
          return std::pair{vec(ratio * 2 + 1), sum(y * exp(ratio))};
        },
        how);
    const auto [a, b] = f(vec{1, 2}, vec{3, 4});
    CHECK(b.item() == doctest::Approx(11));
    const std::string nan = error_of([&] { (void)f(vec{1, -2}, vec{3, 4}); });
    CHECK(contains(nan, "result 0 has a NaN: the first op that made one of operands without is log"));
    CHECK(contains(nan, "step"));
    CHECK(contains(nan, line(here)));
    const std::string large = error_of([&] { (void)f(vec{1e30f, 1}, vec{1e30f, 4}); });
    CHECK(contains(large, "result 1 has an infinity: the first op that made one of operands without is "));
    CHECK(contains(error_of([&] {
                     (void)f(vec{1, 2, 3}, vec{3, infinite, 5});
                   }),
                   "input 1 of the graph has one already"));
    CHECK(f(vec{1, 2, 3, 4}, vec{3, 4, 5, 6}).second.item() == doctest::Approx(3 + 8 + 15 + 24));
  }
}

TEST_CASE("a masked infinity is no fault; a donated argument is still there to be looked at") {
  options how;
  how.check_finite = true;
  how.donate = {0};
  const auto masked =
      compile([](const vec& x) { return softmax(where(x > 0, x, -std::numeric_limits<float>::infinity())); }, how);
  CHECK(masked(vec{1, -1, 1}).to_vector() == std::vector<float>{0.5f, 0, 0.5f});
  CHECK(contains(error_of([&] { (void)masked(vec{-1, -1}); }), "has a NaN"));
  const auto scaled = compile([](const vec& x) { return sqrt(x) * 2; }, how);
  vec x{4, -1};
  CHECK(contains(error_of([&] { (void)scaled(x); }), "is sqrt"));
  CHECK(x.to_vector() == std::vector<float>{4, -1});
}

TEST_CASE("print options hold for a scope of a thread") {
  const matrix x{{1.0 / 3, -2e-9, 1234567.25}, {1e12, -0.0, std::nan("")}};
  const std::string usual = to_string(x);
  {
    const print_scope three({.precision = 3});
    CHECK(to_string(x) == "f64(2, 3) [[0.333, -2e-09, 1234567.25],\n [1e+12, -0, nan]]");
    CHECK(to_string(vec{0.1f, 1e-5f, 99999.999f, infinite}) == "f32(4,) [0.1, 1e-05, 100000, inf]");
    {
      const print_scope ends({.precision = 0, .threshold = 4, .edge_items = 1});
      CHECK(to_string(x) == "f64(2, 3) [[0, …, 1234567],\n [1e+12, …, nan]]");
      CHECK(to_string(tensor<int, 1>{1, 2, 3, 4}) == "i32(4,) [1, 2, 3, 4]");
      CHECK(to_string(tensor<int, 1>{1, 2, 3, 4, 5}) == "i32(5,) [1, …, 5]");
    }
    CHECK(to_string(x) == "f64(2, 3) [[0.333, -2e-09, 1234567.25],\n [1e+12, -0, nan]]");
    const print_scope none({.threshold = 2, .edge_items = 0});
    CHECK(to_string(tensor<int, 1>{1, 2, 3}) == "i32(3,) […]");
  }
  CHECK(to_string(x) == usual);
  CHECK(contains(error_of([] { const print_scope wrong({.precision = 65}); }), "[print_scope] needs a precision"));
  std::ostringstream out;
  const print_scope two({.precision = 2});
  out << tensor<f16, 1>{f16(0.333f)};
  CHECK(out.str() == "f16(1,) [0.33]");
}
