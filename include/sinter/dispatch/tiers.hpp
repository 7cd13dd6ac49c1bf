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

/// What the exception that is being handled says.
inline std::string thrown() {
  try {
    throw;
  } catch (const std::exception& problem) {
    return problem.what();
  } catch (...) {
    return "something other than a std::exception was thrown";
  }
}

/// What a build reads of a call's tensors, after the call: dtypes, layouts, devices and alignment, but no elements.
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

/// The builds in the background of one function.
class background_builds {
 public:
  /// Builds for arguments like these and hands the program to `done`, on another thread. Should that fail, there is one
  /// warning.
  void start(const tracer& t, std::span<const argument> arguments, device where, const options& how,
             std::function<void(std::shared_ptr<const program>)> done) {
    struct job {
      std::shared_ptr<tracer> graph;
      kept_arguments arguments;
      options how;
      device where;
      std::function<void(std::shared_ptr<const program>)> done;
      std::shared_ptr<std::atomic<int>> open;

      job(std::shared_ptr<tracer> g, std::span<const argument> a, const options& o, device d)
          : graph(std::move(g)), arguments(a), how(o), where(d) {}
    };
    const auto j = make_on_heap<job>(make_on_heap<tracer>(t), arguments, how, where);
    j->done = std::move(done);
    j->open = open_;
    open_->fetch_add(1);
    run::background::get().submit(
        [j] {
          try {
            j->done(build(j->graph, j->arguments.all(), j->how, j->where));
          } catch (...) {
            logs::warn_once(
                j->how.name +
                " stays with what answers it now; its kernels could not be made in the background: " + thrown());
          }
          j->open->fetch_sub(1);
        },
        the_answer_first);
  }

  /// Waits for all of them.
  void wait() const {
    if (open_->load() == 0) return;
    run::background::get().wait([this] { return open_->load() == 0; });
  }

 private:
  /// The call that asks for kernels is being answered: a build beside it can cost it its core for longer than it takes.
  static constexpr std::chrono::milliseconds the_answer_first{10};

  std::shared_ptr<std::atomic<int>> open_ = make_on_heap<std::atomic<int>>(0);
};

}  // namespace sinter::engine::detail
