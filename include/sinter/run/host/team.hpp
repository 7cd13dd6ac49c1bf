// run/host/team.hpp: uses fewer threads for kernels while other processes hold cores that some of them need.
#pragma once

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>

#include "../descriptor.hpp"

namespace sinter::engine::run {

/// The number of threads that run kernels. A region ends with its last thread, so a thread that waits for a core costs more
/// than it computes. The team omits, for a pause, each thread that waited for more than a quarter of the kernels' time. The
/// pause grows while threads wait. All times are nanoseconds.
class team_size {
 public:
  static constexpr std::int64_t interval = 2'000'000, first_pause = 100'000'000, longest_pause = 2'000'000'000;
  static constexpr int most = 64;  ///< threads that are observed
  using waits = std::array<std::int64_t, most>;

  /// For a kernel that begins `now` on `threads` threads; `read` gets the time that each thread has waited for a core since
  /// its start.
  template <class Read>
  int at(std::int64_t now, int threads, Read&& read) {
    if (threads == threads_ && now < pause_end_) return size_;
    if (threads != threads_ || size_ < threads) {
      threads_ = size_ = threads;
      read(std::span(waited_).first(looked_at()));
      in_kernels_ = 0;
      return size_;
    }
    if (in_kernels_ < interval) return size_;
    const waits before = waited_;
    read(std::span(waited_).first(looked_at()));
    int late = 0;
    for (std::size_t t = 1; t < looked_at(); ++t) late += waited_[t] - before[t] > in_kernels_ / 4;
    in_kernels_ = 0;
    if (late > 0) leave_out(late, now);
    return size_;
  }
  /// Records the time of a kernel.
  void ran(std::int64_t time) { in_kernels_ += time; }

 private:
  std::size_t looked_at() const { return static_cast<std::size_t>(std::min(threads_, most)); }
  void leave_out(int late, std::int64_t now) {
    const bool again = pause_ > 0 && now - pause_end_ < longest_pause;
    pause_ = again ? std::min(4 * pause_, longest_pause) : first_pause;
    pause_end_ = now + pause_;
    size_ = std::max(1, threads_ - late);
  }

  int threads_ = 0, size_ = 0;
  std::int64_t pause_ = 0, pause_end_ = 0, in_kernels_ = 0;
  waits waited_{};
};

/// The time that the calling thread was ready to run without a core; 0 if the system does not report it.
inline std::int64_t waited_for_core() {
  const detail::file_handle file(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  char text[64] = {};  // the time that it ran, the time that it waited, the number of runs
  if (!file || ::read(file.get(), text, sizeof text - 1) <= 0) return 0;
  const char* const second = std::strchr(text, ' ');
  return second ? std::strtoll(second, nullptr, 10) : 0;
}

/// While it lives, kernels that the calling thread calls run on as many threads as have cores.
class fitting_team {
 public:
#if defined(_OPENMP)
  /// `parallel`: the kernel may run on several threads.
  explicit fitting_team(bool parallel) {
    if (!parallel || (all_ = ::omp_get_max_threads()) == 1 || ::omp_in_parallel()) return;
    begin_ = now();
    size_ = team_.at(begin_, all_, [](std::span<std::int64_t> out) {
#pragma omp parallel
      if (const auto t = static_cast<std::size_t>(::omp_get_thread_num()); t < out.size()) out[t] = waited_for_core();
    });
    if (size_ < all_) ::omp_set_num_threads(size_);
  }
  ~fitting_team() {
    if (begin_ == 0) return;
    if (size_ < all_) ::omp_set_num_threads(all_);
    team_.ran(now() - begin_);
  }

 private:
  static std::int64_t now() {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
  inline static thread_local team_size team_;
  int all_ = 1, size_ = 1;
  std::int64_t begin_ = 0;
#else
  explicit fitting_team(bool) {}
#endif
  fitting_team(const fitting_team&) = delete;
  fitting_team& operator=(const fitting_team&) = delete;
};

}  // namespace sinter::engine::run
