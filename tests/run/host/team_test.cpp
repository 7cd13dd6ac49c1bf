// The number of threads of kernels beside processes that hold cores: a simulated clock, and the waits of simulated threads.
#include <doctest/doctest.h>

#include <sinter/run/host/team.hpp>
#include <span>
#include <utility>
#include <vector>

using sinter::engine::run::team_size;

namespace {

/// Threads that wait for a core for a part of the time that kernels run, each its own.
struct machine {
  explicit machine(std::vector<double> parts) : busy(std::move(parts)) {}

  std::vector<double> busy;
  team_size team;
  std::int64_t now = 1;
  int reads = 0;
  std::vector<double> waited = std::vector<double>(busy.size());

  /// Runs a kernel for so long; how many threads it had.
  int run(std::int64_t time) {
    const int threads = team.at(now, static_cast<int>(busy.size()), [&](std::span<std::int64_t> out) {
      ++reads;
      for (std::size_t t = 0; t < out.size(); ++t) out[t] = static_cast<std::int64_t>(waited[t]);
    });
    for (std::size_t t = 0; t < static_cast<std::size_t>(threads); ++t)
      waited[t] += busy[t] * static_cast<double>(time);
    team.ran(time);
    now += time;
    return threads;
  }
  /// Kernels for a second and a half, of 0.1 ms each: for how long they had all threads, in ms.
  int with_all() {
    int kernels = 0;
    for (int i = 0; i < 15000; ++i) kernels += run(100'000) == static_cast<int>(busy.size());
    return kernels / 10;
  }
};

}  // namespace

TEST_CASE("threads that have cores run all kernels") {
  machine idle({0.0, 0.01, 0.1, 0.2});
  CHECK(idle.with_all() == 1500);
  CHECK(idle.reads > 100);
  CHECK(idle.reads < 1000);
}

TEST_CASE("a thread that waits for its core is left out for longer and longer") {
  machine two({0.0, 0.5});
  CHECK(two.run(100'000) == 2);
  const int first = two.with_all();
  CHECK(first > 1);
  CHECK(first < 15);
  CHECK(two.with_all() < 5);
  two.busy[1] = 0;  // the other process ends
  two.with_all();
  two.with_all();
  CHECK(two.with_all() == 1500);
}

TEST_CASE("of several threads those are left out that wait") {
  machine four({0.0, 0.9, 0.0, 0.6});
  for (int i = 0; i < 30; ++i) four.run(100'000);
  CHECK(four.run(100'000) == 2);
  machine all({0.9, 0.9, 0.9});
  for (int i = 0; i < 30; ++i) all.run(100'000);
  CHECK(all.run(100'000) == 1);
}

TEST_CASE("the thread that calls is not left out, nor does its waiting count") {
  machine caller({0.9, 0.0});
  CHECK(caller.with_all() == 1500);
}

TEST_CASE("another number of threads is looked at anew") {
  machine two({0.0, 0.9});
  for (int i = 0; i < 30; ++i) two.run(100'000);
  CHECK(two.run(100'000) == 1);
  two.busy = {0.0, 0.0, 0.0};
  two.waited.resize(3);
  CHECK(two.run(100'000) == 3);
}
