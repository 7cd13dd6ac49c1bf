// run/kept_memory.hpp: memory that is never freed, since another process may still write to it.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "../base/config.hpp"
#include "../base/storage.hpp"

namespace sinter::engine::run {

class kept_memory {
 public:
  // Never destroyed: memory is freed until the end of the process.
  static kept_memory& get() {
    static auto& instance = *new kept_memory;
    return instance;
  }
  static bool any() { return some().load(std::memory_order_relaxed); }

  void keep(const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    ranges_.emplace_back(static_cast<const char*>(data), bytes);
    some().store(true);
  }
  /// True if a block contains kept memory: it is then this object's, and is not freed.
  bool take(sinter::detail::block* b) noexcept {
    const std::lock_guard lock(mutex_);
    const char* const begin = static_cast<const char*>(b->data);
    for (const auto& [at, n] : ranges_) {
      if (at >= begin + b->bytes || begin >= at + n) continue;
      b->context = blocks_;
      blocks_ = b;
      return true;
    }
    return false;
  }

 private:
  static std::atomic<bool>& some() {
    static constinit std::atomic<bool> any_kept{false};
    return any_kept;
  }
  std::mutex mutex_;
  std::vector<std::pair<const char*, std::size_t>> ranges_;
  sinter::detail::block* blocks_ = nullptr;  ///< a list by their contexts
};

}  // namespace sinter::engine::run
