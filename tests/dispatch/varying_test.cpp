// C++ numbers that become constants of graphs: arguments of kernels, so that another value compiles nothing.
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../stderr_text.hpp"
#include "../texts.hpp"

namespace {

using namespace sinter;
using texts::contains;
using texts::error_of;
using vec = tensor<float, 1>;
using floats = std::vector<float>;

struct rates {
  float step = 0;
  double decay = 0;
  f16 half{};
};

struct model {
  vec w;
  rates how;
};

/// Throws when a call needs more than what has been compiled.
auto without_compiling(const auto& f, auto&&... args) {
  const stance_scope only(stance::fail_on_recompile);
  return f(std::forward<decltype(args)>(args)...);
}

std::ptrdiff_t occurrences(const std::string& text, const std::string& part) {
  std::ptrdiff_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

const vec x{1, 2, -3};

}  // namespace

TEST_CASE("a new value of a C++ number compiles nothing, and warns of nothing") {
  for (const char* backend : {"auto", "reference"}) {
    const auto f = compile([](vec x, float by) { return x * by + std::exp(by); }, {.backend = backend});
    const std::string said = stderr_text([&] {
      f(x, 1.f);
      for (int i = 0; i < 100; ++i) {
        const float by = 0.1f * static_cast<float>(i) - 5;
        const floats got = without_compiling(f, x, by).to_vector();
        for (std::size_t k = 0; k < 3; ++k) CHECK(got[k] == doctest::Approx(x.to_vector()[k] * by + std::exp(by)));
      }
    });
    CHECK(said.empty());
    CHECK(f.specialisations() <= 9);
    CHECK(f.report().backend == (std::string(backend) == "auto" ? "cpu" : "reference"));
    CHECK(contains(f.explain().text(), ", by value"));
    CHECK(without_compiling(f, x, 1.f).to_vector()[0] == doctest::Approx(1 + std::exp(1.f)));
  }
}

TEST_CASE("numbers within trees, of every floating dtype, one after another and together") {
  const auto step = [](const model& m, vec g) {
    return model{m.w - m.how.step * g - static_cast<float>(m.how.decay) * m.w + static_cast<float>(m.how.half), m.how};
  };
  const auto f = compile(step);
  const vec g{0.5f, -1, 2};
  const std::string said = stderr_text([&] {
    for (int i = 0; i < 40; ++i) {
      const float k = static_cast<float>(i);
      const rates how{i % 2 ? 0.1f * k : 0.3f, i < 10 ? 0.5 : 0.01 * i, f16(i < 20 ? 1.f : k)};
      const model want = step(model{x, how}, g);
      const model got = i == 0 ? f(model{x, how}, g) : without_compiling(f, model{x, how}, g);
      for (std::size_t n = 0; n < 3; ++n)
        CHECK(got.w.to_vector()[n] == doctest::Approx(want.w.to_vector()[n]).epsilon(1e-5));
      CHECK(got.how.step == how.step);  // of this call, not of the first
      CHECK(got.how.decay == how.decay);
      CHECK(got.how.half == how.half);
    }
  });
  CHECK(said.empty());
}

TEST_CASE("values that change what the function does are traced, and right") {
  const auto branchy = [](vec x, float by) {
    if (by > 10) return vec(x + by);
    return by < 0 ? vec(x * (by * by)) : vec(x * by + 0.5f);  // 0.5 may be the number's value
  };
  const auto f = compile(branchy, {.recompile_limit = 4});
  for (const float by : {1.f, 11.f, 0.5f, -1.f, 12.f, 2.f, 0.5f, -2.f, 13.f, 3.f, -0.f, 0.f})
    CHECK(f(x, by).to_vector() == branchy(x, by).to_vector());
  for (const float by : {4.f, 14.f, -4.f}) CHECK(without_compiling(f, x, by).to_vector() == branchy(x, by).to_vector());
}

TEST_CASE("special values are numbers like others") {
  const auto f = compile([](vec x, float by) { return x / by; });
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  f(vec{1}, 2.f);
  CHECK(without_compiling(f, vec{1}, 0.f).to_vector()[0] == inf);
  CHECK(without_compiling(f, vec{1}, -0.f).to_vector()[0] == -inf);
  CHECK(without_compiling(f, vec{1}, inf).to_vector()[0] == 0);
  CHECK(std::isnan(without_compiling(f, vec{1}, nan).to_vector()[0]));
  CHECK(without_compiling(f, vec{1}, 1e-40f).to_vector()[0] == 1 / 1e-40f);
  const auto plus = compile([](vec x, float by) { return x * by; });
  plus(vec{1}, 0.f);  // zeros of either sign are not the same constant
  CHECK(std::signbit(plus(vec{1}, -0.f).to_vector()[0]));
  CHECK(!std::signbit(plus(vec{1}, 0.f).to_vector()[0]));
}

TEST_CASE("every op whose result follows from a number agrees with the eager one") {
  const auto all = [](vec x, float by) {
    const tensor<float, 2> m = reshape(x, 1, 3) * by;
    return std::tuple{vec(pow(abs(x) + 1.f, by)),
                      vec(where(x > by, x, by)),
                      vec(clamp(x, -by, by)),
                      vec(fmod(x, by + 2.f)),
                      vec(sum(m, axis<0>) + by),
                      vec(softmax(x * by)),
                      vec(concat<0>(x, vec(x * by))),
                      vec(atan2(x, by)),
                      vec(maximum(x, by) - minimum(by, x)),
                      vec(grad([&](vec y) { return sum(sin(y * by) * by); })(x)),
                      vec(matmul(m, x) + by),
                      vec(pad(x, {{1, 2}}, by)),
                      vec(full<float>(by, 3) + linspace<float>(by, 2 * by, 3)),
                      vec(leaky_relu(x, by) + elu(x, by)),
                      vec(layer_norm(x * by, by * 0.01)),
                      tensor<float, 0>(by)};
  };
  const auto f = compile(all);
  f(x, 0.25f);
  for (const float by : {3.f, 0.7f, 1.5f, 0.1f, 1.f, 2.f, 0.5f}) {
    const auto got = without_compiling(f, x, by), want = all(x, by);
    const auto same = [&](const auto& a, const auto& b) {
      const auto p = a.to_vector(), q = b.to_vector();
      REQUIRE(p.size() == q.size());
      for (std::size_t i = 0; i < p.size(); ++i) CHECK(p[i] == doctest::Approx(q[i]).epsilon(1e-5));
    };
    std::apply([&](const auto&... a) { std::apply([&](const auto&... b) { (same(a, b), ...); }, want); }, got);
  }
}

TEST_CASE("a number that is, or becomes, another constant of the function needs no kernels of its own") {
  const auto fn = [](vec x, float by) {
    const vec scaled = x * by;
    const vec moved = scaled + 0.5f;
    return vec(maximum(moved, 0.f) * (1.f - by) + exp(moved * 0.125f) * (by / 3) - 2.f);
  };
  for (const float first : {0.5f, 1.f, 0.f, 2.f, 0.3f, -0.125f, 1e-3f}) {
    const auto f = compile(fn);
    f(x, first);
    CAPTURE(first);
    for (const float by : {0.3f, 0.5f, 1.f, 0.f, 2.f, -0.5f, 0.125f, 1e-8f}) {
      const floats got = without_compiling(f, x, by).to_vector(), want = fn(x, by).to_vector();
      for (std::size_t k = 0; k < 3; ++k) CHECK(got[k] == doctest::Approx(want[k]).epsilon(1e-5));
    }
  }
}

TEST_CASE("first values that equal numbers beside them, of other ops") {
  const auto needs_none = [](const auto& fn, float first) {
    const auto f = compile(fn);
    f(x, first);
    for (const float by : {0.25f, 3.f, 1.f, 0.f})
      for (std::size_t k = 0; k < 3; ++k)
        CHECK(without_compiling(f, x, by).to_vector()[k] ==
              doctest::Approx(vec(fn(x, by)).to_vector()[k]).epsilon(1e-5));
  };
  needs_none([](vec x, float by) { return vec(x * minimum(by / abs(x), 1.f)); }, 1.f);
  needs_none([](vec x, float by) { return vec(where(x > by, x, 0.f)); }, 0.f);
  needs_none([](vec x, float by) { return vec(clamp(x, -by, by) + 1.f); }, 1.f);
  needs_none([](vec x, float by) { return vec(x * (1 - by) + 0.5f); }, 0.5f);
}

TEST_CASE("numbers that are equal at first are apart") {
  const auto two = [](vec x, float a, float b) { return vec(x * a + exp(x * b)); };  // both factors
  const auto f = compile(two);
  f(x, 0.3f, 0.3f);
  const auto same = [](const vec& got, const vec& want) {
    for (std::size_t k = 0; k < 3; ++k) CHECK(got.to_vector()[k] == doctest::Approx(want.to_vector()[k]).epsilon(1e-5));
  };
  for (const float b : {0.6f, 0.3f, 0.f, 4.f}) same(without_compiling(f, x, 0.3f, b), two(x, 0.3f, b));

  const auto layers = [](vec x, const floats& rates) {
    for (const float rate : rates) x = x - rate * sin(x);
    return x;
  };
  const auto g = compile(layers);
  g(x, floats(5, 0.1f));
  for (const floats& rates : {floats{0.1f, 0.1f, 0.2f, 0.1f, 0.1f}, floats{1, 2, 0, 0.5f, -1}, floats(5, 1.f)})
    same(without_compiling(g, x, rates), layers(x, rates));
}

TEST_CASE("a number of which no constant is made compiles nothing either") {
  const auto f = compile([](vec x, float by) { return by > 9 ? vec(x + 1) : vec(x * 2); });
  f(x, 1.f);
  for (const float by : {2.f, 0.f}) CHECK(without_compiling(f, x, by).to_vector()[1] == 4);
}

TEST_CASE("what formulas are made of and what is written as an integer stays in the kernels as it is") {
  const auto f = compile([](vec x, float by) {
    const vec h = maximum(x * by, 0);
    return vec(gelu(h) * 3 - 0.25f);
  });
  f(x, 0.3f);
  const std::string source = f.report().sources.at(0);
  CHECK(contains(source, "= 0.5f;"));
  CHECK(contains(source, "= 3.0f;"));
  CHECK(!contains(source, "= 0.3"));
  CHECK(!contains(source, "= 0.25"));
}

TEST_CASE("the library's own numbers, and integers, are no arguments; all others are") {
  const auto arguments = [](const auto& fn, float by) {
    const auto f = compile(fn);
    f(x, by);
    const std::string graph = f.report().graph;
    return occurrences(graph, " input ") - 2;  // beside x and the number itself
  };
  for (const float by : {0.3f, 0.5f, 1.f, 2.f, 0.f, 6.f}) {
    CAPTURE(by);
    CHECK(arguments([](vec x, float by) { return gelu(x) * by; }, by) == 1);
    CHECK(arguments([](vec x, float by) { return gelu_tanh(x) * by; }, by) == 1);
    CHECK(arguments([](vec x, float by) { return hardswish(x) * by + relu(x); }, by) == 1);
    CHECK(arguments([](vec x, float by) { return softplus(mish(x)) * by + softsign(x) + silu(x); }, by) == 1);
    CHECK(arguments([](vec x, float by) { return maximum(x, 0) * by + x * 2 + (1 - x) + pow(x, 2); }, by) == 1);
    CHECK(arguments([](vec x, float by) { return uniform<float>(key{7}, 3) * by + x; }, by) == 1);
    CHECK(arguments([](vec x, float by) { return normal<float>(key{7}, 3) * by + softmax(x) + log_softmax(x); }, by) ==
          1);
    CHECK(arguments([](vec x, float by) { return (zeros<float>(3) + ones_like(x) + arange<float>(3)) * by + x; }, by) ==
          1);
    CHECK(arguments([](vec x, float by) { return pad(x, {{1, 2}}) * by + pad<dims{1}, dims{2}>(x, 0); }, by) == 1);
    CHECK(arguments([](vec x, float by) { return x * mean(x) * by + var(x); }, by) == 1);
    CHECK(arguments([](vec x, float by) { return x * by + 0.5f * x + 0.5f * cos(x) + maximum(x, 0.f); }, by) == 4);
    CHECK(arguments([](vec x, float by) { return pow(x, 2.f) * by + pad(x, {{0, 0}}, 0.f); }, by) == 3);
  }
}

TEST_CASE("exponents, fills and thresholds made of a number, and their derivatives") {
  const auto fn = [](vec x, float p) { return std::pair{vec(pow(x, p)), vec(pad(x, {{1, 1}}, p * p - p))}; };
  const auto slope = [](vec x, float p) { return grad([&](vec x) { return tensor<float, 0>(sum(pow(x, p))); })(x); };
  const floats at = {0, 1, 2, 0.5f, 3, -0.f};
  const vec y{0, 1, 2, 0.5f, 3, -0.f};
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const float first : {0.f, 2.f, 1.f, 0.3f}) {
    const auto f = compile(fn);
    const auto df = compile(slope);
    f(y, first), df(y, first);
    for (const float p : {2.f, 1.f, 0.f, -1.f, 0.5f, 3.f, 2.5f, -0.f, -2.f, inf, nan, 0.25f}) {
      const auto [power, padded] = without_compiling(f, y, p);
      const floats got = power.to_vector(), d = without_compiling(df, y, p).to_vector(), around = padded.to_vector();
      for (std::size_t i = 0; i < at.size(); ++i) {
        const double x = at[i], want = std::pow(x, double(p)), slope = p == 0 ? 0 : p * std::pow(x, double(p) - 1);
        CAPTURE(x);
        CAPTURE(p);
        const auto same = [](double a, double b) { return std::isnan(b) ? std::isnan(a) : a == doctest::Approx(b); };
        CHECK((std::isinf(want) ? got[i] == want : same(got[i], want)));
        CHECK((std::isinf(slope) ? d[i] == slope : same(d[i], slope)));
      }
      const float fill = p * p - p;
      for (const float edge : {around[0], around[7]}) CHECK((std::isnan(fill) ? std::isnan(edge) : edge == fill));
      CHECK(floats(around.begin() + 1, around.end() - 1) == at);
    }
  }
}

TEST_CASE("verify and minimize run the kernels that calls run, with the numbers as arguments") {
  for (const dynamic how : {dynamic::no, dynamic::yes}) {
    const auto f = compile([](vec x, float by) { return x * by + exp(x) * (by / 7); }, {.dynamic = how});
    f(x, 0.3f);
    for (const float by : {0.3f, 0.8f}) {
      setenv("SINTER_LOGS", "perf", 1);
      const std::string said = stderr_text([&] { CHECK(verify(f)(x, by)); });
      unsetenv("SINTER_LOGS");
      CHECK(minimize(f)(x, by).what);
      CHECK(contains(said, " 0 compiled, "));
      CHECK(!contains(said, " 1 compiled, "));
    }
  }
}

TEST_CASE("verify knows the kernels of numbers that are equal at first") {
  const auto f = compile([](vec x, float a, float b) { return x * a + exp(x) * b; });
  f(x, 0.3f, 0.3f), f(x, 0.6f, 0.6f), f(x, 0.3f, 0.7f);
  for (const float b : {0.3f, 0.6f, 0.7f, 0.8f}) CHECK(verify(f)(x, 0.3f, b));
  CHECK(verify(f)(x, 0.6f, 0.6f));
}

TEST_CASE("verify asks of the extents of its own call") {
  const auto f = compile([](vec x, float by) { return by > 5 && x.size(0) <= 6 ? vec(x + by) : vec(x * by); },
                         {.dynamic = dynamic::yes});
  f(arange<float>(10), 2.f);
  const verification did = verify(f)(arange<float>(4), 7.f);
  CHECK(did);
  CHECK(did.kernels == 1);
}

TEST_CASE("thousands of numbers in a vector") {
  const auto fn = [](vec x, const floats& rates) {
    for (const float r : rates) x = x * 0.999f + r;
    return x;
  };
  const auto f = compile(fn, {.dynamic = dynamic::no});
  for (const std::size_t n : {3u, 1100u})
    for (const float first : {0.25f, 0.75f, 0.f}) {
      floats rates;
      for (std::size_t i = 0; i < n; ++i) rates.push_back(first + 0.001f * static_cast<float>(i));
      const stance_scope only(first == 0.25f ? stance::normal : stance::fail_on_recompile);
      const floats got = f(x, rates).to_vector(), want = fn(x, rates).to_vector();
      for (std::size_t k = 0; k < 3; ++k) CHECK(got[k] == doctest::Approx(want[k]).epsilon(1e-4));
    }
}

TEST_CASE("open extents stay open, and their guards hold") {
  const auto fn = [](vec x, float by) { return x.size(0) > 6 ? vec(x * by) : vec(x + by); };
  const auto f = compile(fn, {.dynamic = dynamic::yes});
  for (int round = 0; round < 3; ++round)
    for (int n = 1; n < 12; ++n) {
      const vec x = arange<float>(n);
      const float by = 0.5f * static_cast<float>(n + 20 * round);
      CHECK(f(x, by).to_vector() == fn(x, by).to_vector());
    }
  const vec five = arange<float>(5), nine = arange<float>(9);
  CHECK(without_compiling(f, five, 77.f).to_vector() == fn(five, 77.f).to_vector());
  CHECK(without_compiling(f, nine, 77.f).to_vector() == fn(nine, 77.f).to_vector());
}

TEST_CASE("a new number beside extents that are equal by chance compiles nothing") {
  using mat = tensor<float, 2>;
  const auto f =
      compile([](mat x, float by) { return x * by + 0.5f; }, {.dynamic = dynamic::yes, .recompile_limit = 1});
  f(full<float>(3.f, 5, 8), 0.5f);
  for (const int n : {4, 7, 8}) {
    const float by = 0.25f * static_cast<float>(n);
    CHECK(without_compiling(f, full<float>(3.f, n, n), by).to_vector() == floats(std::size_t(n * n), 3 * by + 0.5f));
  }
  // Kernels for square ones serve those that they were made for alone.
  const auto g = compile([](mat x, float by) { return x * by + 0.5f; }, {.dynamic = dynamic::yes});
  g(full<float>(3.f, 5, 5), 0.5f), g(full<float>(3.f, 5, 8), 1.5f);
  CHECK(without_compiling(g, full<float>(3.f, 6, 6), 2.5f).to_vector() == floats(36, 8));
  CHECK(without_compiling(g, full<float>(3.f, 6, 3), 3.5f).to_vector() == floats(18, 11));
}

TEST_CASE("a number is not what keeps failing where something else differs") {
  const auto f =
      compile([](vec x, float by, int n) { return x * by + n; }, {.dynamic = dynamic::no, .recompile_limit = 3});
  const std::string said = stderr_text([&] {
    f(x, 0.5f, 0), f(x, 1.5f, 1);
    f(arange<float>(4), 2.5f, 1), f(arange<float>(4), 3.5f, 2);
  });
  CHECK(contains(said, "the guard that kept failing: argument 2: 0, 1, 2"));
}

TEST_CASE("a new number asks of the extents of its own call") {
  const auto fn = [](vec x, float by) {
    if (by > 5) return x.size(0) > 6 ? vec(x * by) : vec(x + by);
    return vec(x * by);
  };
  const auto breaks = [](vec x, float by) {
    if (by <= 5) return vec(x * by);
    const float s = sum(x).item();
    vec z = x * s + static_cast<float>(static_cast<std::int64_t>(x.size(0)));
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(x.size(0)); ++i) z = z + 1.f;
    return z;
  };
  const auto pair = [](vec x, vec y, float by) {
    return by > 5 && x.size(0) == y.size(0) ? vec(x + y * by) : concat<0>(x, vec(y * by));
  };
  for (const dynamic how : {dynamic::automatic, dynamic::yes, dynamic::no}) {
    const auto f = compile(fn, {.dynamic = how, .recompile_limit = 99});
    const auto g = compile(breaks, {.dynamic = how, .recompile_limit = 99});
    const auto h = compile(pair, {.dynamic = how, .recompile_limit = 99});
    for (const auto& [n, by] : {std::pair(10, 2.f), {9, 2.f}, {4, 7.f}, {11, 8.f}, {4, 9.f}, {10, 3.f}, {12, 7.f}}) {
      const vec x = arange<float>(n);
      CHECK(f(x, by).to_vector() == fn(x, by).to_vector());
      CHECK(g(x, by).to_vector() == breaks(x, by).to_vector());
      for (const int m : {n, n + 1})
        CHECK(h(x, arange<float>(m), by).to_vector() == pair(x, arange<float>(m), by).to_vector());
    }
  }
}

TEST_CASE("a call that a stance refuses takes nothing from those that are served") {
  for (const bool reads : {false, true}) {
    const auto f = compile([&](vec x, float a, float b) {
      const vec y = x * a + (reads ? sum(x).item() : 0.f);
      return b > 6 ? exp(y) : vec(y * b);
    });
    f(x, 1.5f, 1.5f);
    CHECK_NOTHROW(without_compiling(f, x, 4.5f, 4.5f));
    CHECK(contains(error_of([&] { without_compiling(f, x, 1.5f, 7.f); }), "a stance forbids to compile"));
    CHECK_NOTHROW(without_compiling(f, x, 5.5f, 5.5f));
  }
}

TEST_CASE("under a stance nothing of a function runs that reads values for a new number") {
  int done = 0;
  const auto f = compile([&](vec x, float by) {
    if (by < 10) return vec(x * by);
    const float s = sum(x).item();
    ++done;
    return vec(x * s);
  });
  f(x, 1.5f), f(x, 2.5f);
  CHECK(contains(error_of([&] { without_compiling(f, x, 20.f); }), "a stance forbids to compile"));
  CHECK(done == 0);
  const stance_scope eager(stance::eager_on_recompile);
  CHECK(f(x, 20.f).to_vector() == vec(x * sum(x).item()).to_vector());
  CHECK(done == 1);
  CHECK(f.specialisations() == 2);
}

TEST_CASE("kernels that numbers share count once towards .recompile_bytes") {
  const auto make = [](std::size_t bytes) {
    return compile([](vec x, float by) { return x * by + exp(x * by); },
                   {.dynamic = dynamic::no, .recompile_bytes = bytes});
  };
  const auto one = make(1 << 20);
  one(x, 1.5f);
  const report r = one.report();
  const auto f = make(5 * (r.graph.size() + r.sources[0].size()));
  const vec other = arange<float>(5);
  f(other, 1.5f);
  for (int i = 0; i < 7; ++i) f(x, 0.25f + static_cast<float>(i));
  CHECK_NOTHROW(without_compiling(f, other, 1.5f));
}

TEST_CASE("what is captured, donated or drawn at random is as with other constants") {
  const vec held{10, 20, 30};
  const auto f =
      compile([held](vec x, float by, key k) { return x * by + held + uniform<float>(k, 3) * by; }, {.donate = {0}});
  for (const float by : {1.f, 2.f, 3.f, 4.f}) {
    vec own = x + 0.f;
    const vec noise = uniform<float>(key{7}, 3);
    const void* const memory = own.data();
    const vec got = f(std::move(own), by, key{7});
    CHECK(got.data() == memory);
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(got.to_vector()[i] ==
            doctest::Approx(x.to_vector()[i] * by + held.to_vector()[i] + noise.to_vector()[i] * by).epsilon(1e-6));
  }
  vec now{1, 1, 1};
  const auto g = compile([&now](vec x, float by) { return x * by + now; });
  g(x, 1.f), g(x, 2.f);
  now = vec{5, 5, 5};  // a new trace reads it, and its numbers are arguments as well
  CHECK(g(x, 2.f).to_vector()[0] == 7);
  for (const float by : {3.f, 2.f, 4.f}) CHECK(without_compiling(g, x, by).to_vector()[0] == by + 5);
}

TEST_CASE("in the background new numbers are answered meanwhile, and kernels take over for all of them") {
  const auto f = compile([](vec x, float by) { return x * by; }, {.tier = tier::background});
  for (const float by : {1.f, 2.f, 3.f}) CHECK(f(x, by).to_vector()[1] == 2 * by);
  f.wait_ready();
  for (const float by : {1.f, 2.f, 3.f, 4.f}) {
    CHECK(f(x, by).to_vector()[1] == 2 * by);
    INFO(by);
    CHECK(f.report().backend == "cpu");
  }
}

TEST_CASE("past the limit numbers that only the interpreter answers stay with it; eager stances run the function") {
  const auto f = compile([](vec x, int n, float by) { return x * by + n; }, {.recompile_limit = 1, .name = "full"});
  f(x, 1, 1.f);
  const std::string said = stderr_text([&] {
    for (const float by : {1.f, 2.f}) CHECK(f(x, 2, by).to_vector()[0] == by + 2);
  });
  CHECK(contains(said, "full: there are 1 specialisations"));
  CHECK(f.report().backend == "reference");
  CHECK(f(x, 1, 5.f).to_vector()[0] == 6);
  CHECK(f.report().backend == "cpu");

  const auto g = compile([](vec x, float by) { return x * by; });
  g(x, 1.f);
  const stance_scope eager(stance::eager_on_recompile);
  CHECK(g(x, 2.f).to_vector()[0] == 2);
  CHECK(g.specialisations() == 1);
}

TEST_CASE("threads with numbers of their own") {
  const auto f = compile([](vec x, float by) { return x * by + by; });
  std::vector<std::thread> threads;
  std::vector<int> wrong(8, 0);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 30; ++i) {
        const float by = static_cast<float>(i * (t + 1) % 13);
        wrong[static_cast<std::size_t>(t)] += f(x, by).to_vector() != floats{2 * by, 3 * by, -2 * by};
      }
    });
  for (auto& t : threads) t.join();
  for (const int w : wrong) CHECK(w == 0);
}
