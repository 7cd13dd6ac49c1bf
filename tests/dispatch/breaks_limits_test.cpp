// Segments count: towards .recompile_bytes, .recompile_limit and what the functions of one line share.
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../stderr_text.hpp"
#include "../texts.hpp"

using namespace sinter;
using texts::contains;
using texts::error_of;

namespace {

/// Of integers: those in a graph are part of it, where floating constants that differ become arguments.
using vec = tensor<int, 1>;

vec ones_of(int n) { return full<int>(1, n); }

/// The kernels that a function holds, as text.
std::size_t held_by(const auto& f) {
  std::set<std::string> all;
  for (const auto& s : f.explain().specialisations) all.insert(s.what.sources.begin(), s.what.sources.end());
  std::size_t n = 0;
  for (const auto& source : all) n += source.size();
  return n;
}

/// Whether a call is answered without anything new.
bool is_known(const auto& f, const auto&... args) {
  const stance_scope only(stance::fail_on_recompile);
  return error_of([&] { (void)f(args...); }).empty();
}

/// A number that was read is part of the second segment.
vec times_k(vec x) { return x * sum(x).item(); }

}  // namespace

TEST_CASE("segments are bounded by what they hold, and the least recently used one goes") {
  const auto make = [](std::size_t bytes) {
    return compile([](vec x, int n) { return sum(x).item() > 0 ? vec(abs(x) * n) : x; },
                   {.recompile_limit = 100, .recompile_bytes = bytes});
  };
  const vec x{1, 1};
  const auto free = make(1 << 20);
  for (int n = 1; n < 12; ++n) free(x, n);
  const auto f = make(held_by(free) / 3);
  for (int n = 1; n < 12; ++n) {
    CHECK(f(x, n)(0) == n);
    CHECK(f(x, 1)(0) == 1);
    CHECK(held_by(f) <= held_by(free) / 3);
  }
  CHECK(is_known(f, x, 1));
  CHECK(is_known(f, x, 11));
  CHECK(!is_known(f, x, 2));
  CHECK(is_known(free, x, 2));
  CHECK(f(x, 2)(0) == 2);
  const auto none = make(1);  // the one that runs stays
  for (int n = 1; n < 4; ++n) CHECK(none(x, n)(0) == n);
}

TEST_CASE("what is made in the background counts when it is there") {
  const auto make = [](std::size_t bytes) {
    return compile([](vec x, int n) { return n < 0 && sum(x).item() < 0 ? x : vec(abs(x) * n); },
                   {.recompile_limit = 100, .recompile_bytes = bytes, .tier = tier::background});
  };
  const vec x{1, 1};
  int sign = 1;
  SUBCASE("whole specialisations") {}
  SUBCASE("segments") { sign = -1; }
  const auto called = [&](const auto& f) {
    for (int i = 0; i < 2; ++i) {
      for (int n = 1; n < 12; ++n) CHECK(f(x, sign * n)(0) == sign * n);
      f.wait_ready();
    }
    return held_by(f);
  };
  const std::size_t free = called(make(1 << 20));
  CHECK(free > 0);
  CHECK(called(make(free / 3)) <= free / 3);
}

TEST_CASE("segments and whole specialisations share what they may hold") {
  const auto make = [](std::size_t bytes) {
    return compile([](vec x, int n) { return n < 0 && sum(x).item() < 0 ? x : vec(abs(x) * n); },
                   {.recompile_limit = 100, .recompile_bytes = bytes});
  };
  const vec x{1, 1};
  const auto whole = make(1 << 20);
  for (int n = 1; n < 4; ++n) whole(x, n);
  const std::size_t room = held_by(whole) * 3 / 2;
  SUBCASE("segments take the place of whole ones") {
    const auto f = make(room);
    for (int n = 1; n < 4; ++n) f(x, n);
    CHECK(f.specialisations() == 3);
    for (int n = 1; n < 12; ++n) CHECK(f(x, -n)(0) == -n);
    for (int n = 1; n < 4; ++n) CHECK(!is_known(f, x, n));
    CHECK(is_known(f, x, -11));
  }
  SUBCASE("and the other way round") {
    const auto f = make(room);
    for (int n = 1; n < 4; ++n) f(x, -n);
    for (int n = 1; n < 12; ++n) CHECK(f(x, n)(0) == n);
    for (int n = 1; n < 4; ++n) CHECK(!is_known(f, x, -n));
    CHECK(is_known(f, x, 11));
    CHECK(f(x, -1)(0) == -1);
  }
}

TEST_CASE("segments of later calls count towards what the functions of one line share") {
  const auto make = [] {
    return compile(times_k, {.backend = "reference", .on_limit = on_limit::error, .name = "made"});
  };
  std::vector<decltype(make())> made;
  const auto fill = [&] {
    for (int i = 0; i < 40; ++i) {
      made.push_back(make());
      for (int n = 1; n < 4; ++n) made.back()(full<int>(n, 2));
    }
  };
  const std::string said = error_of(fill);
  CHECK(contains(said, "this line of the program has made 64"));
  CHECK(contains(said, "a number in the graph, 2"));
  CHECK(contains(said, "breaks_limits_test.cpp:"));
  CHECK(made.size() == 33);
  CHECK(made.back()(full<int>(1, 2))(0) == 2);
  CHECK(is_known(made[7], full<int>(3, 2)));
  made.clear();  // what they held no longer counts
  const auto again = make();
  for (int n = 1; n < 4; ++n) CHECK(again(full<int>(n, 2))(0) == 2 * n * n);
}

TEST_CASE("the segments that a first call needs are free, as many as they are; in one call 64 are told") {
  const auto f = compile(
      [](vec x) {
        int all = 0;
        for (int i = 1; i < 100; ++i) all += sum(x * i).item();
        return vec(x + all);
      },
      {.backend = "reference", .on_limit = on_limit::error, .name = "rounds"});
  const std::string said = stderr_text([&] { CHECK(f(vec{0, 0})(0) == 0); });
  CHECK(contains(said, "rounds: 64 segments between graph breaks have been made in one call"));
  CHECK(said.find("rounds:") == said.rfind("rounds:"));
}

TEST_CASE("where the least recently used is to go, it does: extents, segments and specialisations") {
  const auto twice = [](vec x) { return sum(x).item() > 0 ? vec(x * 2) : vec(x - 1); };
  const options how{.dynamic = dynamic::no, .recompile_limit = 2, .on_limit = on_limit::evict};
  const auto sets = compile(twice, how);
  const vec a = ones_of(3), b = ones_of(4), c = ones_of(5);
  sets(a), sets(b), sets(a), sets(c);
  CHECK(is_known(sets, a));
  CHECK(is_known(sets, c));
  CHECK(!is_known(sets, b));
  const auto numbers = compile(times_k, {.backend = "reference", .on_limit = on_limit::evict});
  for (int n = 1; n < 100; ++n) numbers(full<int>(n, 2));
  CHECK(is_known(numbers, full<int>(99, 2)));
  CHECK(is_known(numbers, full<int>(1, 2)));  // of the first call
  CHECK(!is_known(numbers, full<int>(2, 2)));
  const auto whole = compile([](vec x, int n) { return x * n; },
                             {.backend = "reference", .recompile_limit = 100, .on_limit = on_limit::evict});
  for (int n = 1; n < 100; ++n) whole(a, n);
  CHECK(whole.specialisations() == 65);
  CHECK(is_known(whole, a, 99));
  CHECK(!is_known(whole, a, 1));
}

TEST_CASE("sets of extents and whole specialisations for the same types share a limit") {
  const auto f = compile([](vec x, int n) { return n < 0 && sum(x).item() < 0 ? x : vec(x * n); },
                         {.dynamic = dynamic::no, .recompile_limit = 3, .on_limit = on_limit::error});
  f(ones_of(3), 1), f(ones_of(3), -1), f(ones_of(4), -1);
  CHECK(contains(error_of([&] { f(ones_of(3), 2); }), "there are 3 specialisations"));
  CHECK(contains(error_of([&] { f(ones_of(5), -1); }), "sets of extents"));
  CHECK(f(ones_of(4), -1)(0) == -1);
}

TEST_CASE("past the limit segments with open extents are made, as whole specialisations are") {
  const auto f =
      compile([](vec x) { return sum(x).item() > 0 ? vec(x * 2) : x; }, {.recompile_limit = 1, .name = "opened"});
  CHECK(stderr_text([&] {
          for (int n = 2; n < 9; ++n) CHECK(f(ones_of(n))(n - 1) == 2);
        }).empty());
  CHECK(f.report().backend == "cpu");
}

TEST_CASE("extents of 0 and 1 have segments of their own, and a warning past the limit says so") {
  const auto f = compile([](vec x, vec y) { return sum(x).item() > 0 ? vec(sum(y) * x) : x; },
                         {.dynamic = dynamic::yes, .recompile_limit = 1, .name = "small"});
  const std::string said = stderr_text([&] {
    for (int n : {5, 1, 6})
      for (int m : {3, 1}) CHECK(f(ones_of(n), ones_of(m))(n - 1) == m);
  });
  CHECK(contains(said, "[sinter:warning] small: segments between graph breaks are compiled for one set of extents"));
  CHECK(contains(
      said,
      "this call has (1) (1). It is interpreted, which is slow. Extents of 0 and 1 have segments of their own; "));
  CHECK(said.find("warning") == said.rfind("warning"));
}

TEST_CASE("a function that reads values has .recompile_limit for its values, too") {
  const auto make = [](on_limit past, const char* name) {
    return compile([](vec x, int n) { return sum(x).item() > 0 ? vec(x * n) : x; },
                   {.recompile_limit = 2, .on_limit = past, .name = name});
  };
  const vec x = ones_of(3);
  const std::string limit =
      "there are 2 specialisations, as many as .recompile_limit allows; the guard that kept failing: "
      "argument 1: 1, 2, 3";
  SUBCASE("the interpreter answers what is new in others") {
    const auto f = make(on_limit::reference, "read");
    const std::string said = stderr_text([&] {
      for (int n = 1; n < 6; ++n)
        for (int i = 0; i < 2; ++i) CHECK(f(x, n)(2) == n);
    });
    CHECK(contains(said, "[sinter:warning] read: " + limit));
    CHECK(said.find("warning") == said.rfind("warning"));
    CHECK(f.report().backend != "cpu");
    CHECK(f.specialisations() == 4);
    f(x, 2);
    CHECK(f.report().backend == "cpu");
    CHECK(is_known(f, x, 1));
  }
  SUBCASE("an error") {
    const auto f = make(on_limit::error, "strict");
    f(x, 1), f(x, 2), f(-x, 1);
    CHECK(contains(error_of([&] { f(x, 3); }), "[strict] " + limit));
    CHECK(f(-x, 4)(0) == -1);  // takes a way that is known
    CHECK(contains(error_of([&] { f(x, 4); }), "there are 2 specialisations"));
    CHECK(f(x, 2)(0) == 2);
  }
  SUBCASE("the least recently used one goes") {
    const auto f = make(on_limit::evict, "read");
    const std::string said = stderr_text([&] {
      for (int n = 1; n < 6; ++n) CHECK(f(x, n)(2) == n);
    });
    CHECK(contains(said, limit + ". The least recently used one is dropped."));
    CHECK(f.report().backend == "cpu");
    CHECK(f.specialisations() == 2);
    CHECK(is_known(f, x, 5));
    CHECK(!is_known(f, x, 1));
  }
}
