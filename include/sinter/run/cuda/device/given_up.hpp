// run/cuda/device/given_up.hpp: whether work of a GPU was given up, after which its memory may hold parts of results.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "../../../base/config.hpp"
#include "../../../base/error.hpp"

namespace sinter::engine::run::cuda {

namespace detail {

struct given_up_work {
  std::atomic<bool> any{false};
  std::mutex mutex;
  std::string reason;
};
// Never destroyed: other threads may still read from a GPU while static objects are destroyed.
SINTER_API given_up_work& given_up() {
  static auto* const instance = new given_up_work;
  return *instance;
}

}  // namespace detail

/// From now on, waiting for a GPU's results throws.
SINTER_API void give_up_work(const std::string& reason) {
  auto& all = detail::given_up();
  {
    const std::lock_guard lock(all.mutex);
    if (all.reason.empty()) all.reason = reason;
  }
  all.any.store(true, std::memory_order_release);
}

/// Must be called after each wait for elements of a GPU. Throws system_error once work was given up: an aborted exchange ends
/// without an error, and leaves a part of its result.
inline void check_not_given_up() {
  auto& all = detail::given_up();
  if (!all.any.load(std::memory_order_acquire)) [[likely]]
    return;
  const std::lock_guard lock(all.mutex);
  throw system_error("[cuda] an exchange between ranks was given up, so results on GPUs are incomplete: " + all.reason +
                     "; start the program again");
}

}  // namespace sinter::engine::run::cuda
