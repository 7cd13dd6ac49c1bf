// run/background.hpp: work in the background: a queue, a few threads, an orderly end.
#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "../base/series.hpp"
#include "helper_signals.hpp"
#include "library.hpp"

namespace sinter::engine::run {

/// Threads of low priority start when there is work. Jobs begin in order. At exit queued jobs are dropped, and running jobs
/// are waited for. A fork waits for running jobs, so that no lock is taken in the child; the child starts its own threads for
/// queued jobs.
class background {
 public:
  /// Lives as long as the process, because threads may use it until the end.
  static background& get() {
    static background* const instance = new background;
    return *instance;
  }

  /// Whether this thread runs background jobs.
  static bool& is_here() {
    static thread_local bool here = false;
    return here;
  }

  /// Thread-local objects of the thread that ends the process are destroyed before any handler of exit runs. That
  /// includes handlers of a library that a job is just opening. Called on the first thread, which usually is that thread.
  static bool end_with_this_thread() {
    struct ending {
      ~ending() {
        if (begun_) get().stop();
      }
    };
    if (::gettid() == ::getpid()) [[maybe_unused]]
      thread_local const ending last;
    return true;
  }

  /// Queues a job, which must not throw. It begins after the delay `later`, or once a thread waits for it. After exit has
  /// begun, or the first thread has ended, it is dropped. `of` identifies the owner.
  void submit(std::function<void()> job, std::chrono::milliseconds later = {}, const void* of = nullptr) {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    queue_.push_back({std::move(job), clock::now() + later, of});
    start();
    changed_.notify_all();
  }

  /// Drops queued jobs of `of`. It does not wait for running jobs: a thread that closes a library holds the loader's lock,
  /// which a job may need.
  void drop(const void* of) {
    std::deque<entry> dropped;  // freed without the lock, because jobs may hold the user's objects
    const std::lock_guard lock(mutex_);
    for (std::size_t i = queue_.size(); i-- > 0;)
      if (queue_[i].of == of) {
        dropped.push_back(std::move(queue_[i]));
        queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
      }
  }

  /// Called after a library is opened that jobs use: handlers of exit run in reverse order, so that jobs end before the
  /// library does.
  static void end_first() {
    std::atexit([] {
      if (begun_) get().stop();
    });
  }

  /// Waits until a job has made `done` true; it is called under a lock. False if exit has begun before.
  template <class Done>
  bool wait(Done done) {
    std::unique_lock lock(mutex_);
    start();
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return stopping_ || done(); });
    --waiting_;
    return done();
  }

 private:
  using clock = std::chrono::steady_clock;
  struct entry {
    std::function<void()> job;
    clock::time_point begin;
    const void* of;
  };

  background() {
    keep_loaded(reinterpret_cast<const void*>(&background::get));  // for its threads
    pthread_atfork([] { get().pause(); }, [] { get().resume(false); }, [] { get().resume(true); });
    end_first();
    begun_ = true;
  }

  static std::size_t max_threads() { return std::clamp<std::size_t>(std::thread::hardware_concurrency() / 2, 1, 8); }

  /// Starts one more thread if needed; the lock is held.
  void start() {
    if (stopping_ || queue_.size() <= idle_ || threads_.size() >= max_threads()) return;
    const helper_signals left_alone;
    threads_.emplace_back(new std::thread([this] { work(); }));
  }

  void work() {
    is_here() = true;
    ::setpriority(PRIO_PROCESS, 0, 5);  // of this thread, and of the compilers it starts
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (queue_.empty() || paused_) {
        ++idle_;
        changed_.wait(lock);
        --idle_;
        continue;
      }
      if (const auto begin = queue_.front().begin; !waiting_ && clock::now() < begin) {
        changed_.wait_until(lock, begin);
        continue;
      }
      std::function<void()> job = std::move(queue_.front().job);
      queue_.pop_front();
      ++running_;
      lock.unlock();
      job();
      job = nullptr;
      lock.lock();
      --running_;
      changed_.notify_all();
    }
  }

  void pause() {
    std::unique_lock lock(mutex_);
    paused_ = true;
    changed_.wait(lock, [&] { return running_ == 0; });
    lock.release();  // held until resume
  }
  void resume(bool in_child) {
    if (in_child) {  // the child has no threads; objects that represent them are left alone
      threads_.clear();
      idle_ = waiting_ = 0;
      new (&changed_) std::condition_variable;
    }
    paused_ = false;
    mutex_.unlock();
    if (!in_child) changed_.notify_all();
  }

  void stop() {
    std::deque<entry> dropped;
    series<std::thread*> last;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      dropped.swap(queue_);
      last.swap(threads_);
      changed_.notify_all();
    }
    for (std::thread* t : last) {
      t->join();
      delete t;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<entry> queue_;
  series<std::thread*> threads_;
  std::size_t idle_ = 0, running_ = 0, waiting_ = 0;
  bool paused_ = false, stopping_ = false;
  static inline std::atomic<bool> begun_ = false;
};

namespace detail {
[[maybe_unused]] inline const bool background_ends_first = background::end_with_this_thread();
}

}  // namespace sinter::engine::run
