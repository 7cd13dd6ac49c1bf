// tests/fuzz/watch.hpp: which seed each thread is at, told when a signal comes or a seed takes too long.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>

namespace fuzz {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Where a thread is; `since` is 0 while it may take as long as it likes.
struct place_in_run {
  std::atomic<std::uint64_t> seed{0};
  std::atomic<const char*> step{""};
  std::atomic<double> since{0};
};

inline constexpr unsigned max_threads = 64;
inline std::array<place_in_run, max_threads> places;
inline thread_local place_in_run* here = &places[0];

inline void now_at(std::uint64_t seed, const char* step) {
  here->seed = seed;
  here->step = step;
  here->since = now();
}
/// What compiles has a limit of its own.
inline void now_compiling() {
  here->step = "compiling";
  here->since = 0;
}

inline void tell(const place_in_run& at, const char* what, int number) {
  char text[200];
  const int n = std::snprintf(text, sizeof text, "FAILED seed %llu: %s %d while %s\n",
                              static_cast<unsigned long long>(at.seed.load()), what, number, at.step.load());
  if (::write(2, text, static_cast<std::size_t>(n)) < 0) ::_exit(3);
}

inline void on_signal(int number) {
  tell(*here, "signal", number);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

/// Ends the program when a thread is at one seed for more than this many seconds.
inline void start_watching(int max_seconds) {
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::signal(number, on_signal);
  std::thread([max_seconds] {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      for (const auto& at : places) {
        const double since = at.since;
        if (since == 0 || now() - since < max_seconds) continue;
        tell(at, "more seconds than", max_seconds);
        ::_exit(3);
      }
    }
  }).detach();
}

}  // namespace fuzz
