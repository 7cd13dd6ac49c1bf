// dispatch/tiers.hpp: kernels made in the background while the interpreter answers.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "../base/callback.hpp"
#include "../base/log.hpp"
#include "../base/series.hpp"
#include "../engine/engine.hpp"
#include "../run/background.hpp"
#include "specialisation.hpp"

namespace sinter::engine::detail {

/// The text of the exception that is being handled.
inline std::string thrown() {
  try {
    throw;
  } catch (const std::exception& problem) {
    return problem.what();
  } catch (...) {
    return "something other than a std::exception was thrown";
  }
}

/// The facts of a call's tensors that a later build needs: dtypes, layouts, devices and alignment, but no elements.
class kept_arguments {
 public:
  explicit kept_arguments(std::span<const argument> given) : all_(given.begin(), given.end()) {
    std::size_t total = 0;
    for (const auto& a : given) total += 2 * static_cast<std::size_t>(a.rank);
    numbers_.reserve(total);
    owners_.reserve(given.size());
    for (auto& a : all_) {
      const std::int64_t* const first = numbers_.end();
      for (int d = 0; d < a.rank; ++d) numbers_.push_back(a.extents[d]);
      for (int d = 0; d < a.rank; ++d) numbers_.push_back(a.strides[d]);
      a.extents = first;
      a.strides = first + a.rank;
      if (!a.owner) continue;
      auto* const place = new sinter::detail::block;
      place->where = a.where();
      place->release = [](sinter::detail::block* b) noexcept { delete b; };
      owners_.push_back(storage(place));
      a.owner = &owners_.back();
    }
  }
  kept_arguments(const kept_arguments&) = delete;
  kept_arguments& operator=(const kept_arguments&) = delete;

  std::span<const argument> all() const { return {all_.data(), all_.size()}; }

 private:
  series<argument> all_;
  series<std::int64_t> numbers_;
  series<storage> owners_;
};

/// The background builds of one function. They run only as long as this lives.
class background_builds {
 public:
  background_builds() = default;
  background_builds(const background_builds&) = delete;
  background_builds& operator=(const background_builds&) = delete;
  ~background_builds() { end(); }

  /// Builds for arguments like these, and passes the program to `done` on another thread. A failure gives one warning.
  void start(const tracer& t, std::span<const argument> arguments, device where, const options& how,
             std::function<void(std::shared_ptr<const program>)> done) {
    struct job {
      std::shared_ptr<tracer> graph;
      kept_arguments arguments;
      options how;
      device where;
      std::shared_ptr<ongoing> all;
      std::size_t place = 0;

      job(std::shared_ptr<tracer> g, std::span<const argument> a, const options& o, device d)
          : graph(std::move(g)), arguments(a), how(o), where(d) {}
    };
    const auto j = make_on_heap<job>(make_on_heap<tracer>(t), arguments, how, where);
    j->all = all_;
    j->place = all_->add(std::move(done));
    for (const captured& c : j->graph->captures) keep_releasing(c.memory);
    all_->open.fetch_add(1);
    run::background::get().submit(
        [j] {
          try {
            j->all->deliver(j->place, build(j->graph, j->arguments.all(), j->how, j->where));
          } catch (...) {
            logs::warn_once(
                logs::printable(j->how.name) +
                " stays with what answers it now; its kernels could not be made in the background: " + thrown());
          }
          j->all->open.fetch_sub(1);
        },
        the_answer_first, all_.get());
  }

  /// Begins no further build, and discards running ones: nothing that was passed to start() remains.
  void end() const {
    if (all_->end()) run::background::get().drop(all_.get());
  }

  /// Waits for all of them.
  void wait() const {
    if (all_->open.load() == 0) return;
    run::background::get().wait([this] { return all_->open.load() == 0; });
  }

 private:
  /// The present call comes first: a parallel build could take its core for longer than the call runs.
  static constexpr std::chrono::milliseconds the_answer_first{10};

  using deliver_to = std::function<void(std::shared_ptr<const program>)>;

  /// The jobs' shared data. The use of a program may hold objects that code of the function's library destroys. It is kept
  /// here, where end() takes it, and not in the job.
  struct ongoing {
    std::atomic<int> open{0};

    std::size_t add(deliver_to done) {
      const std::lock_guard lock(mutex);
      waiting.push_back(std::move(done));
      return waiting.size() - 1;
    }
    void deliver(std::size_t place, std::shared_ptr<const program> made) {
      const std::lock_guard lock(mutex);
      if (over) return;
      const deliver_to done = std::exchange(waiting[place], nullptr);
      done(std::move(made));
    }
    /// Whether there were any.
    bool end() {
      series<deliver_to> gone;
      const std::lock_guard lock(mutex);
      over = true;
      gone.swap(waiting);
      return !gone.empty();
    }

    std::recursive_mutex mutex;  ///< recursive, because a replaced program may be the last holder of a function
    series<deliver_to> waiting;  ///< by job
    bool over = false;
  };

  /// Keeps the library loaded whose code releases the memory.
  static void keep_releasing(const storage& memory) {
    if (!memory) return;
    const auto* const release = reinterpret_cast<const void*>(memory.get()->release);
    if (!in_one_library(release, reinterpret_cast<const void*>(&keep_loaded))) keep_loaded(release);
  }

  std::shared_ptr<ongoing> all_ = make_on_heap<ongoing>();
};

}  // namespace sinter::engine::detail
