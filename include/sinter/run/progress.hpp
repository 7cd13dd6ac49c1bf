// run/progress.hpp: the terminal line that shows the progress of compilations longer than a second.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "../base/config.hpp"
#include "../base/log.hpp"
#include "../base/text.hpp"
#include "file.hpp"
#include "helper_signals.hpp"

namespace sinter::engine::run {

/// A compilation that this thread waits for. The first active one in a process owns the line, which is removed at the end.
class progress {
 public:
  /// Shows nothing unless it is wanted, stderr is a terminal, and $SINTER_PROGRESS is not 0.
  SINTER_COLD progress(const std::string& name, bool wanted) : before_(here()) {
    if (wanted && ::isatty(2) == 1 && detail::environment("SINTER_PROGRESS") != "0" && !busy().exchange(true))
      begin(name);
    here() = this;
  }
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  SINTER_COLD ~progress() {
    here() = before_;
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
    busy() = false;
  }

  /// The compilation that this thread waits for, or null.
  static progress* current() { return here(); }

  void expect(std::size_t kernels) {
    all_ += kernels;
    all_wanted() += kernels;
  }
  void made(std::size_t kernels) {
    done_ += kernels;
    all_made() += kernels;
  }
  /// Of all compilations of the process.
  static std::atomic<std::size_t>& all_wanted() {
    static std::atomic<std::size_t> n{0};
    return n;
  }
  static std::atomic<std::size_t>& all_made() {
    static std::atomic<std::size_t> n{0};
    return n;
  }

 private:
  static progress*& here() {
    static thread_local progress* p = nullptr;
    return p;
  }
  static std::atomic<bool>& busy() {
    static std::atomic<bool> b{false};
    return b;
  }

  /// A failure shows no line.
  SINTER_COLD void begin(const std::string& name) noexcept {
    const helper_signals left_alone;
    try {
      name_ = logs::printable(name);
      thread_ = std::thread([this] { work(); });
    } catch (const std::exception&) {
      busy() = false;
    }
  }
  /// Whether another job owns the terminal. A terminal without jobs has no owner.
  static bool in_background() {
    const pid_t group = ::tcgetpgrp(2);
    return group > 0 && group != ::getpgrp();
  }

  SINTER_COLD void work() {
    using namespace std::chrono_literals;
    std::unique_lock lock(mutex_);
    for (auto pause = 1000ms; !changed_.wait_for(lock, pause, [&] { return over_; }); pause = 200ms) show();
    logs::show_status({});
  }
  SINTER_COLD void show() const {
    if (in_background()) return;
    const std::chrono::duration<double> past = std::chrono::steady_clock::now() - began_;
    const std::size_t all = all_, done = done_;
    const std::string what =
        all == 0 ? "planning" : std::to_string(done) + " of " + std::to_string(all) + " kernels compiled";
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, ", %.1f s", past.count());
    logs::show_status("[sinter] " + name_ + ": " + what + seconds);
  }

  progress* const before_;
  std::string name_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::atomic<std::size_t> all_{0}, done_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace sinter::engine::run
