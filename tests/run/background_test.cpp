// Jobs end before what they use does, however a process exits.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <sinter/run/background.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

using sinter::engine::run::background;

namespace {

std::atomic<bool> opened, gone;

/// What a job does that opens a library: while that goes on the library registers what ends it at exit.
void use_a_library() {
  std::atexit([] { gone = true; });
  opened = true;
  ::usleep(50'000);
  if (gone) ::_exit(3);
}

/// How a child ends in which `submitting` has such a job done and `leaving` ends the process meanwhile.
template <class Submitting, class Leaving>
int exit_of(Submitting&& submitting, Leaving&& leaving) {
  const pid_t child = ::fork();
  if (child == 0) {
    submitting();
    while (!opened) std::this_thread::yield();
    leaving();
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void submit() { background::get().submit(use_a_library); }
void leave() { std::exit(0); }

}  // namespace

TEST_CASE("a job ends before the library that it is just opening") {
  CHECK(exit_of(submit, leave) == 0);
  CHECK(exit_of([] { std::thread(submit).join(); }, leave) == 0);
}

TEST_CASE("a job ends before a library that was opened, whichever thread ends the process") {
  const auto opened_before = [] {
    submit();
    while (!opened) std::this_thread::yield();
    background::end_first();
  };
  CHECK(exit_of(opened_before, [] { std::thread(leave).join(); }) == 0);
}

TEST_CASE("a fault of a job reaches the program's handler") {
  const auto faulty = [] {
    std::signal(SIGSEGV, [](int) { ::_exit(7); });
    background::get().submit([] {
      ::raise(SIGSEGV);
      ::_exit(3);
    });
    opened = true;
  };
  CHECK(exit_of(faulty, [] { ::pause(); }) == 7);
}

TEST_CASE("a process ends without a job that is to begin later") {
  const auto later = [] {
    opened = true;
    background::get().submit([] { ::_exit(3); }, std::chrono::hours(1));
  };
  CHECK(exit_of(later, leave) == 0);
}

TEST_CASE("a process that has no jobs exits as others do") {
  CHECK(exit_of([] { opened = true; }, leave) == 0);
  CHECK(exit_of([] { opened = true; }, [] { std::thread(leave).join(); }) == 0);
}

// The last: the others fork, which ThreadSanitizer allows where there are no threads yet.
TEST_CASE("a job that is to begin later does, and at once when somebody waits for it") {
  using clock = std::chrono::steady_clock;
  const auto start = clock::now();
  const auto passed = [&] { return clock::now() - start; };
  std::atomic<bool> done = false;
  background::get().submit([&] { done = true; }, std::chrono::milliseconds(100));
  while (!done) std::this_thread::yield();
  CHECK(passed() >= std::chrono::milliseconds(100));
  done = false;
  background::get().submit([&] { done = true; }, std::chrono::hours(1));
  CHECK(background::get().wait([&] { return done.load(); }));
  CHECK(passed() < std::chrono::minutes(10));
}
