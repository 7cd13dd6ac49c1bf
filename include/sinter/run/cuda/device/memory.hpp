// run/cuda/device/memory.hpp: memory of a GPU: a caching allocator whose blocks are reused in the order of their stream.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "chunks.hpp"
#include "scratch.hpp"
#include "stream.hpp"

namespace sinter::engine::run::cuda {

namespace detail {

inline constexpr std::size_t small_request = std::size_t{1} << 20;
inline constexpr std::size_t small_segment = std::size_t{2} << 20;
inline constexpr std::size_t middle_request = std::size_t{10} << 20;
inline constexpr std::size_t middle_segment = std::size_t{20} << 20;

/// SINTER_CUDA_NO_CACHE=1: each block is the driver's own, so that a memory checker sees its bounds. SINTER_CUDA_POISON=1:
/// each block is first filled with 0xCB.
struct memory_switches {
  bool no_cache = flag("SINTER_CUDA_NO_CACHE"), poison = flag("SINTER_CUDA_POISON");
  static bool flag(const char* name) {
    const std::string value = environment(name);
    return !value.empty() && value != "0";
  }
};
inline const memory_switches& switches() {
  static const memory_switches chosen;
  return chosen;
}

inline std::string mebibytes(std::size_t bytes) {
  return std::to_string(bytes) + " bytes (" + std::to_string(bytes >> 20) + " MiB)";
}

SINTER_API void free_chunk(sinter::detail::block* b) noexcept;

/// The memory of one GPU.
class pool {
 public:
  explicit pool(gpu& g) : gpu_(g) {}

  /// Null if the GPU has no more memory.
  chunk* take(std::size_t bytes, queue& q) {
    if (bytes > largest_memory_request) return nullptr;
    // Kernels update elements of 8 and 16 bits through the 4-byte words that contain them.
    const std::size_t unit = switches().no_cache ? 4 : memory_unit;
    const std::size_t size = std::max(unit, (bytes + unit - 1) / unit * unit);
    const std::lock_guard lock(mutex_);
    const bool small = size <= small_request;
    chunk* c = switches().no_cache ? nullptr : bins(q.slot, small).find(size);
    if (c != nullptr) bins(q.slot, small).remove(c);
    else c = new_segment(size, small, q);
    if (c == nullptr) return nullptr;
    if (!switches().no_cache) split(c, size);
    c->is_free = false;
    c->users = 0;
    c->writer = q.slot;
    c->bytes = bytes;
    c->references.store(1, std::memory_order_relaxed);
    counts_.allocated += c->size;
    counts_.peak = std::max(counts_.peak, counts_.allocated);
    ++counts_.allocations;
    return c;
  }

  void give(chunk* c) noexcept {
    const std::lock_guard lock(mutex_);
    counts_.allocated -= c->size;
    if (switches().no_cache) return drop(c);
    c->is_free = true;
    if (chunk* const low = c->lower; low != nullptr && low->is_free) {
      bins(low->slot, low->small).remove(low);
      absorb(low, c);
      c = low;
    }
    if (chunk* const high = c->upper; high != nullptr && high->is_free) {
      bins(high->slot, high->small).remove(high);
      absorb(c, high);
    }
    bins(c->slot, c->small).add(c);
  }

  [[noreturn]] void fail(std::size_t asked, const std::string& purpose) {
    std::string message = "[cuda] out of memory: " + purpose + " of " + mebibytes(asked) +
                          " cannot be allocated on cuda(" + std::to_string(gpu_.index) + "), " + gpu_.name;
    if (asked <= largest_memory_request) {
      const memory_statistics now = counts();
      message += ": tensors hold " + mebibytes(now.allocated) + ", free blocks among them " +
                 mebibytes(now.reserved - now.allocated) + "; the driver has " + mebibytes(now.available) +
                 " left of " + mebibytes(now.total) + ", and other processes or libraries hold the rest";
    }
    throw sinter::detail::momentary_error(message);
  }

  /// Returns every free segment to the driver.
  void trim() {
    const context_scope here(gpu_);
    const std::lock_guard lock(mutex_);
    release_free();
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    counts_.peak = counts_.allocated;
  }

  memory_statistics counts() {
    memory_statistics out;
    {
      const std::lock_guard lock(mutex_);
      out = counts_;
    }
    const context_scope here(gpu_);
    check(driver().memory_info(&out.available, &out.total), "asking for free memory");
    return out;
  }

 private:
  free_chunks& bins(int slot, bool small) {
    auto& list = bins_[static_cast<std::size_t>(2 * slot + small)];
    if (!list) list = std::make_unique<free_chunks>();
    return *list;
  }

  chunk* new_chunk() {
    if (spare_ == nullptr) {
      constexpr std::size_t many = 64;
      chunk* const made = new chunk[many];
      for (std::size_t i = 0; i < many; ++i) {
        made[i].next = spare_;
        spare_ = &made[i];
      }
    }
    chunk* const c = spare_;
    spare_ = c->next;
    c->lower = c->upper = c->previous = c->next = nullptr;
    c->release = free_chunk;
    c->where = device::cuda(gpu_.index);
    return c;
  }
  void retire(chunk* c) noexcept {
    c->next = spare_;
    spare_ = c;
  }

  chunk* new_segment(std::size_t size, bool small, queue& q) {
    const std::size_t total = switches().no_cache      ? size
                              : small                  ? small_segment
                              : size <= middle_request ? middle_segment
                                                       : (size + small_segment - 1) / small_segment * small_segment;
    const context_scope here(gpu_);
    const driver_table& call = driver();
    api::address at = 0;
    std::size_t taken = total;
    auto r = call.memory_allocate(&at, taken);
    if (r == api::out_of_memory) {
      release_free();
      r = call.memory_allocate(&at, taken);
    }
    // A whole segment may exceed the available memory.
    if (r == api::out_of_memory && size < total) r = call.memory_allocate(&at, taken = size);
    if (r == api::out_of_memory) return nullptr;
    check(r, "allocating memory");
    ++counts_.driver_allocations;
    counts_.reserved += taken;
    chunk* const c = new_chunk();
    c->data = reinterpret_cast<void*>(at);
    c->size = taken;
    c->slot = q.slot;
    c->small = small;
    return c;
  }

  /// Splits off the part beyond `size`, unless it is too small to be useful.
  void split(chunk* c, std::size_t size) {
    const std::size_t rest = c->size - size;
    if (rest < (c->small ? memory_unit : small_request)) return;
    chunk* const high = new_chunk();
    high->data = static_cast<char*>(c->data) + size;
    high->size = rest;
    high->slot = c->slot;
    high->small = c->small;
    high->is_free = true;
    high->lower = c;
    high->upper = c->upper;
    if (high->upper != nullptr) high->upper->lower = high;
    c->upper = high;
    c->size = size;
    bins(c->slot, c->small).add(high);
  }

  void absorb(chunk* low, chunk* high) noexcept {
    low->size += high->size;
    low->upper = high->upper;
    if (low->upper != nullptr) low->upper->lower = low;
    retire(high);
  }

  /// Frees a block of SINTER_CUDA_NO_CACHE.
  void drop(chunk* c) noexcept {
    if (driver_alive()) {
      const driver_table& call = driver_instance().table;
      api::context before = nullptr;
      call.context_get(&before);
      call.context_set(gpu_.context);
      call.stream_synchronize(queue_at(gpu_.index, c->slot).handle);
      call.memory_free(reinterpret_cast<api::address>(c->data));
      if (before != nullptr) call.context_set(before);
    }
    counts_.reserved -= c->size;
    retire(c);
  }

  /// With the context current and the mutex held. Waits for the GPU, because freed memory may be in use on its stream.
  void release_free() {
    bool waited = false;
    for (auto& list : bins_)
      if (list)
        list->each([&](chunk* c) {
          if (c->lower != nullptr || c->upper != nullptr) return;
          if (!waited) check(driver().context_synchronize(), "waiting for the GPU");
          waited = true;
          check(driver().memory_free(reinterpret_cast<api::address>(c->data)), "freeing memory");
          list->remove(c);
          counts_.reserved -= c->size;
          retire(c);
        });
  }

  gpu& gpu_;
  std::mutex mutex_;
  std::array<std::unique_ptr<free_chunks>, 2 * max_queues> bins_;
  chunk* spare_ = nullptr;
  memory_statistics counts_;
};

// Never destroyed: storages are released while static objects are destroyed.
SINTER_API pool& pool_of(int device) {
  static auto* const all = new std::array<std::atomic<pool*>, max_devices>{};
  gpu& g = device_at(device);
  auto& slot = (*all)[static_cast<std::size_t>(device)];
  if (pool* const known = slot.load(std::memory_order_acquire)) return *known;
  auto made = std::make_unique<pool>(g);
  pool* expected = nullptr;
  if (slot.compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *expected;
}

/// Makes the chunk's own queue wait for the other queues that used it; then it can be reused in that queue's order.
SINTER_API void settle(chunk* c) noexcept {
  try {
    for (std::uint64_t rest = c->users; rest != 0; rest &= rest - 1)
      join(queue_at(c->where.index, c->slot), queue_at(c->where.index, std::countr_zero(rest)));
  } catch (const system_error&) {
    // The GPU is lost, so no work runs there.
  }
}

SINTER_API void free_chunk(sinter::detail::block* b) noexcept {
  // In a forked child the pools belong to the parent.
  if (!driver_alive()) return;
  chunk* const c = static_cast<chunk*>(b);
  if (c->users != 0) settle(c);
  pool_of(c->where.index).give(c);
}

}  // namespace detail

/// Like allocate(), but empty if the GPU has no more memory.
SINTER_API storage allocate_if_room(std::size_t bytes, int device) {
  queue& q = current_queue(device);
  detail::chunk* const c = detail::pool_of(device).take(bytes, q);
  if (c == nullptr) return {};
  storage out(c);
  if (detail::switches().poison) [[unlikely]] {
    const context_scope here(*q.where);
    check(driver().fill(reinterpret_cast<api::address>(c->data), 0xCB, c->size, q.handle), "poisoning memory");
  }
  return out;
}

/// `bytes` bytes of memory on a GPU, 256-byte aligned and uninitialised, for use on this thread's current stream. data() is
/// not null even for 0 bytes. Reuses freed blocks in stream order. Thread-safe. If the GPU has no more memory after idle
/// scratch memory is released, throws system_error with the sizes. It names the purpose `what`, and the kernel or call
/// `label`.
SINTER_API storage allocate(std::size_t bytes, int device, const char* what = "a tensor", const char* label = nullptr) {
  storage out = allocate_if_room(bytes, device);
  if (!out && bytes <= detail::largest_memory_request && free_scratch(device)) out = allocate_if_room(bytes, device);
  if (!out) detail::pool_of(device).fail(bytes, label == nullptr ? what : std::string(what) + " " + label);
  return out;
}

/// Must be called for each storage that work on this thread's current stream will read or write. The stream then waits for
/// another stream that wrote it, or for a write, for streams that use it. The block is not reused before the work is done.
inline void use(const storage& s, bool writes) {
  auto* const c = static_cast<detail::chunk*>(s.get());
  if (c == nullptr || !c->where.is_cuda() || c->release != detail::free_chunk) return;
  queue& q = current_queue(c->where.index);
  if (c->writer == q.slot && (!writes || c->users == 0)) [[likely]]
    return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto bit = [](int slot) { return std::uint64_t{1} << slot; };
  std::uint64_t others = bit(c->writer);
  if (writes) others |= c->users | bit(c->slot);
  for (others &= ~bit(q.slot); others != 0; others &= others - 1)
    join(q, detail::queue_at(c->where.index, std::countr_zero(others)));
  if (q.slot != c->slot) c->users |= bit(q.slot);
  if (writes) c->writer = q.slot;
}

/// The statistics of the GPU's allocator.
SINTER_API memory_statistics memory_of(int device) { return detail::pool_of(device).counts(); }

/// Counts the peak of allocated memory from now on.
SINTER_API void reset_peak(int device) { detail::pool_of(device).reset_peak(); }

/// Returns free memory to the driver; waits for the GPU if there is any.
SINTER_API void trim(int device) { detail::pool_of(device).trim(); }

/// The result of f. If the driver has no memory left, releases cached blocks and calls f again, then releases idle scratch
/// memory.
template <class F>
api::result with_room(int device, F&& f) {
  api::result r = f();
  for (int round = 0; r == api::out_of_memory && round < 2; ++round) {
    if (round == 1 && !free_scratch(device)) break;
    trim(device);
    r = f();
  }
  return r;
}

}  // namespace sinter::engine::run::cuda
