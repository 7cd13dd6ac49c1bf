// switch_case: eager and compiled, indices out of range, values, gradients, trees, effects, what is refused.
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"
#include "../../texts.hpp"

using namespace sinter;
using texts::contains;
using texts::error_of;

namespace {

using vec = tensor<double, 1>;
using count = tensor<std::int64_t, 0>;

vec numbers(int seed, std::int64_t n) { return normal<double>(make_key(seed), n); }

}  // namespace

TEST_CASE("switch_case takes the branch of its index, the first below 0 and the last above: values and gradients") {
  const vec w = numbers(9, 4);
  const auto cases = [&](const auto& i, const vec& x) {
    return switch_case(i,
                       std::tuple{[](const vec& x) { return vec(x * 2.0); }, [&](const vec& x) { return vec(x * w); },
                                  [](const vec& x) { return vec(exp(x)); }, [](const vec& x) { return vec(x * x); },
                                  [](const vec& x) { return vec(-x); }},
                       x);
  };
  const auto want = [&](std::int64_t i, const vec& x) {
    return vec(i <= 0 ? vec(x * 2.0) : i == 1 ? vec(x * w) : i == 2 ? vec(exp(x)) : i == 3 ? vec(x * x) : vec(-x));
  };
  const auto slope = [&](std::int64_t i, const vec& x) {
    return vec(i <= 0   ? vec(x * 0.0 + 2.0)
               : i == 1 ? w
               : i == 2 ? vec(exp(x))
               : i == 3 ? vec(x * 2.0)
                        : vec(x * 0.0 - 1.0));
  };
  const vec x = numbers(1, 4);
  for (const char* backend : {"cpu", "reference"}) {
    const auto f = compile([&](const count& i, const vec& x) { return cases(i, x); }, {.backend = backend});
    const auto g =
        compile(grad<1>([&](const count& i, const vec& x) { return sum(cases(i, x)); }), {.backend = backend});
    for (std::int64_t i : {-7, -1, 0, 1, 2, 3, 4, 5, 99}) {
      CAPTURE(i);
      check_close(f(count(i), x).to_vector(), want(i, x).to_vector(), 1e-12);
      check_close(g(count(i), x).to_vector(), slope(i, x).to_vector(), 1e-12);
      CHECK(cases(i, x).to_vector() == want(i, x).to_vector());
      CHECK(cases(static_cast<int>(i), x).to_vector() == want(i, x).to_vector());
      CHECK(cases(tensor<std::int32_t, 0>(static_cast<std::int32_t>(i)), x).to_vector() == want(i, x).to_vector());
    }
    CHECK(f.specialisations() == 1);
  }
  CHECK(cases(std::uint8_t{200}, x).to_vector() == want(4, x).to_vector());
  CHECK(cases(tensor<std::uint64_t, 0>(~std::uint64_t{0}), x).to_vector() == want(4, x).to_vector());
}

TEST_CASE("switch_case: one branch runs; trees of several arguments; one branch alone; effects") {
  std::vector<int> ran;
  const auto note = [&](int n) {
    return [&ran, n](const vec& x, const count& k) {
      host_call([&ran, n] { ran.push_back(n); });
      return std::pair{vec(x * static_cast<double>(n)), count(k + n)};
    };
  };
  const auto f = [&](const count& i, const vec& x) {
    return switch_case(i, std::tuple{note(1), note(2), note(3)}, x, count(i * 10));
  };
  const vec x = numbers(1, 3);
  for (int i : {0, 1, 2}) {
    ran.clear();
    const auto [a, b] = f(count(i), x);
    const auto [c, d] = compile(f)(count(i), x);
    CHECK(ran == std::vector<int>{i + 1, i + 1});
    CHECK(a.to_vector() == c.to_vector());
    CHECK(b.item() == 11 * i + 1);
    CHECK(d.item() == b.item());
  }
  CHECK(switch_case(5, std::tuple{[](const vec& x) { return vec(x + 1.0); }}, x).to_vector() ==
        vec(x + 1.0).to_vector());
  ran.clear();
  const auto effects = [&](const count& i) {
    switch_case(i, std::tuple{[&] { host_call([&] { ran.push_back(1); }); },
                              [&] { host_call([&] { ran.push_back(2); }); }, [] {}});
    return i;
  };
  for (int i : {0, 1, 2}) {
    effects(count(i));
    compile(effects)(count(i));
  }
  CHECK(ran == std::vector<int>{1, 1, 2, 2});
}

TEST_CASE("switch_case: branches of other static extents relax; shapes that differ are refused by name") {
  const auto f = [](const count& i, const vec& x) {
    return switch_case(
        i,
        std::tuple{[](const vec& x) { return tensor<double, dims{3}>(x); }, [](const vec& x) { return vec(x * 2.0); }},
        x);
  };
  const vec x = numbers(1, 3);
  CHECK(f(count(1), x).to_vector() == vec(x * 2.0).to_vector());
  CHECK(compile(f)(count(0), x).to_vector() == x.to_vector());
  const auto differ = [](const count& i, const vec& x) {
    return switch_case(i, std::tuple{[](const vec& x) { return x; }, [](const vec& x) { return concat<0>(x, x); }}, x);
  };
  CHECK(contains(error_of([&] { compile(differ)(count(0), x); }),
                 "[switch_case] one branch returns (3,), the other (6,)"));
}
