// What is made past the limits of a function, and how guards are told: in warnings, errors and by explain.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../stderr_text.hpp"
#include "../texts.hpp"
#include "support.hpp"

namespace {

using namespace sinter;
using namespace support;
using namespace std::string_literals;
using texts::contains;
using texts::error_of;

}  // namespace

TEST_CASE("past the limit open extents are made where they take the place of what was made for some, and no further") {
  int traces = 0;
  const auto counted = [&](vec x, int n) {
    ++traces;
    return x * n;
  };
  const auto f = compile(counted, {.recompile_limit = 2, .on_limit = on_limit::error, .name = "opened"});
  f(ones(5), 1), f(ones(5), 2);
  const std::string said = stderr_text([&] {
    CHECK(f(ones(6), 2).to_vector() == floats(6, 2.f));  // for f(ones(5), 2)
    CHECK(f(ones(7), 1).to_vector() == floats(7, 1.f));
  });
  CHECK(contains(said, "[sinter:warning] opened: there are 2 specialisations"));
  CHECK(contains(said, "Calls that would need more are errors."));
  CHECK(said.find("warning") == said.rfind("warning"));
  CHECK(f.specialisations() == 2);
  CHECK(traces == 4);
  for (int n = 2; n < 9; ++n) f(ones(n), 1), f(ones(n), 2);
  CHECK(traces == 4);
  CHECK(contains(error_of([&] { f(ones(5), 3); }), "there are 2 specialisations"));
  CHECK(f(ones(9), 1)(8) == 1);
}

TEST_CASE("the limit is one for what stays open as well: other values, relations between extents, other bounds") {
  const options strict{.recompile_limit = 3, .on_limit = on_limit::error};
  const std::string limit = "there are 3 specialisations";
  const auto text = compile([](vec x, const std::string& s) { return x * static_cast<float>(s.size()); }, strict);
  text(ones(5), ""s), text(ones(6), ""s), text(ones(5), "a"s);
  CHECK(contains(error_of([&] { text(ones(5), "bb"s); }), limit));

  const auto rated =
      compile([](vec x, float by) { return x * by; }, {.recompile_limit = 1, .on_limit = on_limit::error});
  rated(ones(5), 1.f);
  CHECK(contains(error_of([&] { rated(ones(6), 2.f); }), "there are 1 specialisations"));
  CHECK(rated(ones(6), 1.f)(5) == 1);

  options open = strict;
  open.dynamic = dynamic::yes;
  const auto steps = compile(
      [](vec x) {
        int n = 0;
        while (n < 8 && x.size(0) > 10 * n) ++n;
        return x * n;
      },
      open);
  for (const int n : {5, 15, 25}) steps(ones(n));
  CHECK(contains(error_of([&] { steps(ones(35)); }), limit));
  CHECK(steps(ones(29))(0) == 3);

  const auto marked = compile([](vec x) { return x * 2; }, strict);
  const auto call = [&](int n) {
    vec x = ones(n);
    mark_dynamic(x, 0, {n, n + 9});
    marked(x);
  };
  call(10), call(20), call(30);
  CHECK(contains(error_of([&] { call(40); }), limit));

  const auto make = [&] {
    return compile([](vec x, int n) { return x * n; },
                   {.dynamic = dynamic::yes, .backend = "reference", .on_limit = on_limit::error, .name = "line"});
  };
  std::vector<decltype(make())> made;
  const auto fill = [&] {
    for (int i = 0; i < 40; ++i) {
      made.push_back(make());
      for (int n = 0; n < 3; ++n) made.back()(ones(5), n);
    }
  };
  CHECK(contains(error_of(fill), "this line of the program has made 64"));
  CHECK(made.size() == 33);
}

TEST_CASE("past the limit the interpreter answers open extents too, and they get no kernels of their own") {
  const auto f =
      compile([](vec x, int n) { return x * n; }, {.recompile_limit = 1, .hot_calls = 7, .name = "interpreted"});
  const std::string said = stderr_text([&] {
    f(ones(5), 1), f(ones(6), 1);
    for (int i = 0; i < 100; ++i) CHECK(f(ones(5), 2)(4) == 2);
  });
  CHECK(contains(said, "interpreted: there are 1 specialisations"));
  f.wait_ready();
  CHECK(f(ones(6), 2)(5) == 2);
  CHECK(f(ones(5), 2)(4) == 2);
  CHECK(f.report().backend == "reference");
  CHECK(f.specialisations() == 2);
}

TEST_CASE("equal extents that become two are opened past the limit") {
  const auto f = compile([](vec x, vec y) { return std::pair(x * 2, y + 1); },
                         {.recompile_limit = 1, .on_limit = on_limit::error});
  for (const auto& [n, m] : {std::pair{5, 5}, std::pair{6, 6}, std::pair{6, 7}, std::pair{8, 4}, std::pair{3, 3}}) {
    const auto [x, y] = f(ones(n), ones(m));
    CHECK(x.to_vector() == floats(static_cast<std::size_t>(n), 2.f));
    CHECK(y.to_vector() == floats(static_cast<std::size_t>(m), 2.f));
  }
  CHECK(f.specialisations() == 1);
}

TEST_CASE("a limit's warning and explain name text and floats with their values, from the first on") {
  const auto f = compile([](vec x, const std::string& how) { return x * static_cast<float>(how.size()); },
                         {.recompile_limit = 2, .name = "worded"});
  std::string said = stderr_text([&] {
    for (const char* how : {"adam", "sgd", "momentum, a long name"}) f(vec{1}, std::string(how));
  });
  CHECK(contains(said, R"(argument 1: "adam", "sgd", "momentum, a long name". Calls)"));
  const std::string text = f.explain().text();
  CHECK(contains(text, R"(argument 1 is "sgd", was "adam")"));
  CHECK(contains(text, R"(by value: argument 1 is "momentum, a long name")"));

  const auto h = compile([](vec x, const std::string& how) { return x * static_cast<float>(how.size()); },
                         {.recompile_limit = 3, .name = "short"});
  said = stderr_text([&] {
    for (const char* how : {"", "a", "b", "c"}) h(vec{1}, std::string(how));
  });
  CHECK(contains(said, R"(argument 1: "", "a", "b", "c". Calls)"));

  const auto g = compile(
      [](const settings& s, bool up) {
        return up ? pad(s.w, {{static_cast<int>(8 * s.rate), 0}}) : s.w;
      },
      {.recompile_limit = 2, .name = "rated"});
  said = stderr_text([&] {
    for (const float rate : {0.5f, 0.25f, 0.125f}) g(settings{vec{1}, rate}, true);
  });
  CHECK(contains(said, "argument 0" + field("rate") + ": 0.5, 0.25, 0.125. Calls"));
  CHECK(contains(g.explain().text(), "by value: argument 0" + field("rate") + " is 0.125, argument 1 is true"));
}

TEST_CASE("explain lists relations between extents, bounds and numbers that a specialisation asks for") {
  const auto f = compile(
      [](vec x, vec y, auto by) {
        if (x.size(0) > 40) return vec(-x);
        return x.size(0) == 2 * y.size(0) ? vec(x * 2) : by > 1 ? vec(x * 3) : x;
      },
      {.dynamic = dynamic::yes, .name = "related"});
  vec y = ones(5);
  mark_dynamic(y, 0, {4, 20});
  f(ones(8), y, 2.5f);
  const auto listed = [&] {
    std::string all;
    const explanation e = f.explain();
    for (const auto& line : e.specialisations[0].guards) all += line + "\n";
    return all;
  };
  CHECK(contains(listed(), "tensor 0: f32 (s0), row-major\n"));
  CHECK(contains(listed(), "\ns0 >= 2\n"));
  CHECK(contains(listed(), "tensor 1: f32 (s1 + 2), row-major\n"));
  CHECK(contains(listed(), "\ns1 + 2 >= 4\ns1 + 2 <= 20\n"));
  CHECK(contains(listed(), "s0 - 40 <= 0\n"));
  CHECK(contains(listed(), "s0 - s1*2 - 4 != 0\n"));
  CHECK(contains(listed(), "tensor 2 is 2.5, by value"));
  f(ones(10), y, 2.5f);
  CHECK(contains(f.explain().text(), "a relation between extents: s0 - s1*2 - 4 != 0 does not hold for (10) (5) ()"));
}

TEST_CASE("a relation that does not hold is told with its extents, where calls are refused and in the warning") {
  const options open{.dynamic = dynamic::yes, .recompile_limit = 1, .name = "related"};
  const auto apart = compile([](vec x, vec y) { return std::pair(x * 2, y + 1); }, open);
  apart(ones(6), ones(6));
  const auto twice = compile([](vec x, vec y) { return x + concat(y, y); }, open);
  twice(ones(6), ones(3));
  {
    const stance_scope strict(stance::fail_on_recompile);
    CHECK(contains(error_of([&] { apart(ones(6), ones(7)); }),
                   "a relation between extents: size(0) of tensor 0 = size(0) of tensor 1 does not hold for (6) (7)"));
    CHECK(contains(error_of([&] { apart(ones(1), ones(1)); }), "s0 >= 2 does not hold for (1) (1)"));
    CHECK(contains(error_of([&] { twice(ones(8), ones(3)); }), "size(0) of tensor 0 = s1*2 does not hold for (8) (3)"));
  }
  const auto small = compile([](vec x) { return x.size(0) < 10 ? vec(x * 2) : x; }, open);
  small(ones(5));
  CHECK(
      contains(stderr_text([&] { small(ones(25)); }),
               "the guard that kept failing: a relation between extents: -s0 + 10 > 0 does not hold for (25). Calls"));
}
