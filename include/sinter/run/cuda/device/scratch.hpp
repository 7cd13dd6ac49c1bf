// run/cuda/device/scratch.hpp: scratch memory that recorded calls keep between calls, and release if a GPU has no more memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "../../../base/series.hpp"
#include "../../../base/storage.hpp"

namespace sinter::engine::run::cuda {

class scratch_pool;

namespace detail {

struct scratch_pools {
  std::mutex mutex;
  series<scratch_pool*> all;
};

SINTER_API scratch_pools& known_scratch() {
  static auto* const instance = new scratch_pools;
  return *instance;
}

}  // namespace detail

/// Scratch memory shared by all recordings of one function; it grows to the largest need.
class scratch_pool {
 public:
  scratch_pool() {
    auto& known = detail::known_scratch();
    const std::lock_guard lock(known.mutex);
    known.all.push_back(this);
  }
  scratch_pool(const scratch_pool&) = delete;
  scratch_pool& operator=(const scratch_pool&) = delete;
  ~scratch_pool() {
    auto& known = detail::known_scratch();
    const std::lock_guard lock(known.mutex);
    known.all.erase(std::find(known.all.begin(), known.all.end(), this));
  }

  /// A call's claim, from before reserve() until the launch that uses the memory.
  class claim {
   public:
    explicit claim(scratch_pool& p) : pool_(p), lock_(p.mutex_) {
      pool_.holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    }
    claim(const claim&) = delete;
    claim& operator=(const claim&) = delete;
    ~claim() { pool_.holder_.store({}, std::memory_order_relaxed); }

   private:
    scratch_pool& pool_;
    const std::lock_guard<std::mutex> lock_;
  };

  /// At least `bytes` bytes for work on this thread's current stream, after earlier uses; for a call that ends with `label`.
  /// (cuda_graph.hpp)
  const storage& reserve(std::size_t bytes, int device, const char* label);

  /// Takes the memory if it belongs to that GPU and no call claims it. Never waits.
  storage take(device where) {
    // The claim may be this thread's own, if its call finds no memory.
    if (holder_.load(std::memory_order_relaxed) == std::this_thread::get_id()) return {};
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || !(memory_.where() == where)) return {};
    return std::exchange(memory_, {});
  }

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> holder_{};
  storage memory_;
};

/// Frees the scratch memory of recordings whose calls have been issued; their next calls reserve other memory. False if there
/// is none.
SINTER_API bool free_scratch(int index) {
  series<storage> freed;
  {
    auto& known = detail::known_scratch();
    const std::lock_guard lock(known.mutex);
    for (scratch_pool* const p : known.all)
      if (storage s = p->take(device::cuda(index))) freed.push_back(std::move(s));
  }
  return !freed.empty();
}

}  // namespace sinter::engine::run::cuda
