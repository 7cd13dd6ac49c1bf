// tier::background: the interpreter answers while kernels are made; exit and fork meanwhile; what is frequent.
#include "../environment_value.hpp"
#include "../stderr_text.hpp"
#include "../texts.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

namespace {

using namespace sinter;
using texts::contains;
using vec = tensor<float, 1>;
using floats = std::vector<float>;

/// A number that is new in each process and call.
float new_number() {
  static float salt = static_cast<float>(getpid() % 1000);
  return salt += 1000;
}

/// A function whose kernels no cache has.
auto fresh(const options& how) {
  return compile([s = new_number()](vec x) { return exp(x * 0) * s + x; }, how);
}

/// The same of one that reads a value.
auto fresh_in_segments(const options& how) {
  return compile([s = new_number()](vec x) { return sum(x).item() > 0 ? vec(exp(x * 0) * s + x) : x; }, how);
}

/// How a child process ends that runs f and exits.
template <class F>
int exit_of(F&& f) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    f();
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

/// The interpreter answers at first, kernels later, and both answer alike.
template <class F>
void check_interpreted_first(const F& f) {
  const vec x{0, 1, 2};
  const floats first = f(x).to_vector();
  CHECK(f.report().backend == "reference");
  CHECK(first[2] == first[0] + 2);
  f.wait_ready();
  CHECK(f.report().backend == "cpu");
  CHECK(f(x).to_vector() == first);
}

}  // namespace

TEST_CASE("the interpreter answers until the kernels are there, and both answers are right") {
  const auto f = fresh({.tier = tier::background});
  check_interpreted_first(f);
  CHECK(f.specialisations() == 1);
}

TEST_CASE("many threads call while the kernels are swapped in") {
  const auto f = fresh({.tier = tier::background});
  const vec x{0, 1, 2};
  const floats want = f(x).to_vector();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      while (f.report().backend == "reference") wrong += f(x).to_vector() != want;
      wrong += f(x).to_vector() != want;
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("precompile waits for the kernels, also where calls do not") {
  const auto f = fresh({.tier = tier::background});
  f.precompile(spec<vec>{{3}});
  CHECK(f.report().backend == "cpu");
}

TEST_CASE("extents that a dynamic specialisation meets often get kernels of their own") {
  tier when = tier::immediate;
  SUBCASE("where calls wait for kernels") {}
  SUBCASE("where they do not") { when = tier::background; }
  const auto f = fresh({.tier = when, .hot_calls = 200});
  for (const int n : {5, 6, 7}) f(full<float>(1.f, n));
  f.wait_ready();
  const std::size_t before = f.explain().specialisations.size();
  const vec often = full<float>(2.f, 12);
  const floats want = f(often).to_vector();
  CHECK(f.explain().specialisations.size() == before);
  int wrong = 0;
  for (int i = 0; i < 300; ++i) wrong += f(often).to_vector() != want;
  f.wait_ready();
  for (int i = 0; i < 10; ++i) wrong += f(often).to_vector() != want;
  CHECK(wrong == 0);
  const auto now = f.explain();
  CHECK(now.specialisations.size() == before + 1);
  CHECK(now.specialisations[0].why == "these extents are frequent");
  CHECK(f.specialisations() == before);  // it takes no place of another
  // Other sizes are not answered by it.
  for (const int n : {11, 13, 24, 12})
    CHECK(f(full<float>(2.f, n)).to_vector() == floats(static_cast<std::size_t>(n), want[0]));
}

TEST_CASE("frequent extents get kernels of their own that serve every C++ number, also where it is new at each call") {
  tier when = tier::immediate;
  SUBCASE("where calls wait for kernels") {}
  SUBCASE("where they do not") { when = tier::background; }
  const auto fn = [](vec x, float rate, bool down) { return down ? vec(exp(x) - rate) : vec(exp(x) * rate + 0.125f); };
  const auto f = compile(fn, {.tier = when, .hot_calls = 200});
  float rate = 0;
  int wrong = 0;
  const auto call = [&](std::int64_t n, bool down = false) {
    const vec x = full<float>(0.5f, n);
    rate += 0.25f;
    const floats got = f(x, rate, down).to_vector(), want = fn(x, rate, down).to_vector();
    for (std::size_t i = 0; i < want.size(); ++i) wrong += std::abs(got[i] - want[i]) > 1e-5f * (1 + std::abs(want[i]));
    return got.size() == want.size();
  };
  const auto texts = [&] {
    f.wait_ready();
    std::set<std::string> all;
    for (const auto& s : f.explain().specialisations) all.insert(s.what.sources.begin(), s.what.sources.end());
    return all;
  };
  const auto is_open = [&] { return f.report().sources.at(0).find("sizes[0]") != std::string::npos; };
  for (const int n : {5, 6, 7}) call(n);
  f.wait_ready();
  const std::size_t before = texts().size();
  for (int i = 0; i < 300; ++i) CHECK(call(12));
  CHECK(texts().size() == before + 1);
  {
    const stance_scope only(stance::fail_on_recompile);
    for (int i = 0; i < 20; ++i) call(12);
    CHECK(!is_open());
    call(13), call(7);
    CHECK(is_open());
    call(12);
    CHECK(!is_open());
  }
  // What another value makes of the function has open extents, first.
  call(12, true), call(13, true), call(12, true);
  CHECK(texts().size() <= before + 2);
  CHECK(is_open());
  CHECK(wrong == 0);
}

TEST_CASE("extents that become frequent while something else is built get their kernels after it") {
  std::atomic<bool> hold = true, inside = false;
  const auto f = compile(
      [&](vec x, int times) {
        if (times == 3) {
          inside = true;
          while (hold) std::this_thread::yield();
        }
        return vec(x * static_cast<float>(times));
      },
      {.hot_calls = 70});
  for (const int n : {5, 6}) f(full<float>(1.f, n), 2);
  std::thread other([&] { f(full<float>(1.f, 5), 3); });
  while (!inside) std::this_thread::yield();
  const vec often = full<float>(1.f, 12);
  for (int i = 0; i < 300; ++i) f(often, 2);
  hold = false;
  other.join();
  const auto frequent = [&] {
    f.wait_ready();
    std::size_t n = 0;
    for (const auto& s : f.explain().specialisations) n += s.why == "these extents are frequent";
    return n;
  };
  CHECK(frequent() == 0);
  for (int i = 0; i < 20; ++i) f(often, 2);
  CHECK(frequent() == 1);
}

TEST_CASE("frequent extents get no kernels of their own where these are not wanted") {
  const auto count = [](const options& how, stance calls_are) {
    const auto f = fresh(how);
    for (const int n : {5, 6, 7}) f(full<float>(1.f, n));
    const vec often = full<float>(2.f, 12);
    const stance_scope scope(calls_are);
    for (int i = 0; i < 300; ++i) f(often);
    f.wait_ready();
    return f.explain().specialisations.size();
  };
  CHECK(count({.hot_calls = 200}, stance::normal) == 3);
  CHECK(count({.hot_calls = 0}, stance::normal) == 2);
  CHECK(count({.hot_calls = 200}, stance::fail_on_recompile) == 2);
  CHECK(count({.hot_calls = 200, .deterministic = true}, stance::normal) == 2);
  CHECK(count({.dynamic = dynamic::yes, .hot_calls = 200}, stance::normal) == 1);
  CHECK(count({.backend = "reference", .hot_calls = 200}, stance::normal) == 2);
}

TEST_CASE("the interpreter answers for segments, too, until their kernels are there") {
  const auto f = fresh_in_segments({.tier = tier::background});
  check_interpreted_first(f);
  CHECK(f.report().kernels == 2);
}

TEST_CASE("extents that a segment meets often get kernels of their own") {
  tier when = tier::immediate;
  SUBCASE("where calls wait for kernels") {}
  SUBCASE("where they do not") { when = tier::background; }
  const auto f = fresh_in_segments({.tier = when, .hot_calls = 200});
  for (const int n : {5, 6, 7}) f(full<float>(1.f, n));
  f.wait_ready();
  const vec often = full<float>(2.f, 12);
  const floats want = f(often).to_vector();
  const std::size_t before = f.report().kernels;
  CHECK(!contains(f.report().graph, "(12,)"));
  int wrong = 0;
  for (int i = 0; i < 300; ++i) wrong += f(often).to_vector() != want;
  f.wait_ready();
  for (int i = 0; i < 10; ++i) wrong += f(often).to_vector() != want;
  CHECK(wrong == 0);
  CHECK(f.report().kernels == before + 2);
  CHECK(contains(f.report().graph, "(12,)"));
  CHECK(f.specialisations() == 1);
  // Other sizes are not answered by it.
  for (const int n : {11, 13, 24, 12})
    CHECK(f(full<float>(2.f, n)).to_vector() == floats(static_cast<std::size_t>(n), want[0]));
  CHECK(f.report().kernels == before + 2);
}

TEST_CASE("frequent extents of segments get no kernels of their own where these are not wanted") {
  const auto gets = [](const options& how, stance calls_are = stance::normal) {
    const auto f = fresh_in_segments(how);
    for (const int n : {5, 6, 7}) f(full<float>(1.f, n));
    const vec often = full<float>(2.f, 12);
    const std::size_t before = f.report().kernels;
    const stance_scope scope(calls_are);
    for (int i = 0; i < 300; ++i) f(often);
    f.wait_ready();
    f(often);
    return f.report().kernels - before;
  };
  CHECK(gets({.hot_calls = 200}) == 2);
  CHECK(gets({.hot_calls = 0}) == 0);
  CHECK(gets({.hot_calls = 200}, stance::fail_on_recompile) == 0);
  CHECK(gets({.hot_calls = 200, .deterministic = true}) == 0);
  CHECK(gets({.dynamic = dynamic::yes, .hot_calls = 200}) == 0);
  CHECK(gets({.backend = "reference", .hot_calls = 200}) == 0);
  CHECK(gets({.recompile_bytes = 1, .hot_calls = 200}) == 0);
}

TEST_CASE("functions and arguments may go while their kernels are made") {
  for (int i = 0; i < 3; ++i) {
    const auto f = fresh({.tier = tier::background});
    f(full<float>(1.f, 5 + i));
    const auto g = fresh_in_segments({.tier = tier::background});
    g(full<float>(1.f, 5 + i));
  }
  const auto last = fresh({.tier = tier::background});
  last(vec{1});
  last.wait_ready();
  CHECK(last.report().backend == "cpu");
}

TEST_CASE("what fails in the background is one warning, and the interpreter stays") {
  const auto f = fresh({.tier = tier::background, .name = "unlucky"});
  const std::string said = stderr_text([&] {
    const environment_value none("SINTER_CXX", "/nowhere/c++");
    f(vec{0, 1});
    f.wait_ready();
    CHECK(f(vec{0, 1}).to_vector()[1] == f(vec{0, 1}).to_vector()[0] + 1);
  });
  CHECK(f.report().backend == "reference");
  CHECK(contains(said, "[sinter:warning] unlucky"));
  CHECK(said.find("warning") == said.rfind("warning"));
}

#if defined(__has_feature)
#define SINTER_TEST_HAS(x) __has_feature(x)
#else
#define SINTER_TEST_HAS(x) 0
#endif
// ThreadSanitizer ends a forked process that starts threads.
#if !defined(__SANITIZE_THREAD__) && !SINTER_TEST_HAS(thread_sanitizer)

TEST_CASE("a process may exit while kernels are made") {
  const auto started = [] {
    for (int i = 0; i < 3; ++i) fresh({.tier = tier::background})(vec{0, 1});
  };
  CHECK(exit_of(started) == 0);
  // The test process itself may have threads in the background now: a fork while they work.
  const auto f = fresh({.tier = tier::background});
  f(vec{0, 1});
  CHECK(exit_of([&] {
          f.wait_ready();
          if (f.report().backend != "cpu") std::_Exit(1);
          const auto g = fresh({.tier = tier::background});
          g(vec{0, 1, 2});
          g.wait_ready();
          if (g.report().backend != "cpu") std::_Exit(2);
        }) == 0);
  f.wait_ready();
  CHECK(f.report().backend == "cpu");
}

#endif
