// run/cuda/device/pinned.hpp: asynchronous copies to the host, into pinned memory that the GPU writes directly.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "../../host/buffer.hpp"
#include "copy.hpp"

namespace sinter::engine::run::cuda {

namespace detail {

/// Pinned memory of the host, and the point after its last requested copy.
struct pinned_block : sinter::detail::block {
  gpu* source = nullptr;
  api::event done = nullptr;
  std::size_t size = 0;
  pinned_block* next = nullptr;  ///< in the list of free blocks
};

SINTER_API void free_pinned(sinter::detail::block* b) noexcept;

/// Blocks for one GPU's copies, which are kept because pinning takes longer than most copies. The caller has the GPU's context.
class pinned_pool {
 public:
  /// Null if there is no more memory.
  pinned_block* take(std::size_t bytes, gpu& source) {
    if (bytes > run::detail::largest_request) return nullptr;
    const std::size_t size = run::detail::bytes_of(run::detail::class_of(bytes));
    const std::lock_guard lock(mutex_);
    pinned_block* p = find(size);
    if (p == nullptr) {
      // Sizes that are no longer used must not stay pinned.
      if (kept_ + size > max_kept) release_free();
      p = make(size, source);
    }
    if (p == nullptr) return nullptr;
    p->bytes = bytes;
    p->references.store(1, std::memory_order_relaxed);
    return p;
  }

  /// The copy may be pending: the block is not reused before it is done.
  void give(pinned_block* p) noexcept {
    const std::lock_guard lock(mutex_);
    p->next = free_;
    free_ = p;
    kept_ += p->size;
  }

  void trim() {
    const std::lock_guard lock(mutex_);
    release_free();
  }

 private:
  static constexpr std::size_t max_kept = std::size_t{256} << 20;

  pinned_block* find(std::size_t size) {
    for (pinned_block** at = &free_; *at != nullptr; at = &(*at)->next) {
      pinned_block* const p = *at;
      if (p->size != size || driver().event_query(p->done) != api::success) continue;
      *at = p->next;
      kept_ -= size;
      return p;
    }
    return nullptr;
  }

  static pinned_block* make(std::size_t size, gpu& source) {
    auto p = std::make_unique<pinned_block>();
    check(driver().event_create(&p->done, api::event_disable_timing), "making an event");
    if (driver().host_allocate(&p->data, size, api::host_portable) != api::success) {
      driver().event_destroy(p->done);
      return nullptr;
    }
    p->source = &source;
    p->size = size;
    p->release = free_pinned;
    return p.release();
  }

  void release_free() {
    while (free_ != nullptr) {
      const std::unique_ptr<pinned_block> p(std::exchange(free_, free_->next));
      kept_ -= p->size;
      check(driver().event_synchronize(p->done), "copying from the GPU");
      check(driver().host_free(p->data), "freeing pinned memory");
      driver().event_destroy(p->done);
    }
  }

  std::mutex mutex_;
  pinned_block* free_ = nullptr;
  std::size_t kept_ = 0;
};

// Never destroyed: tensors outlive static objects.
SINTER_API pinned_pool& pinned_of(int device) {
  static auto* const all = new std::array<pinned_pool, max_devices>;
  return (*all)[static_cast<std::size_t>(device)];
}

SINTER_API void free_pinned(sinter::detail::block* b) noexcept {
  // In a forked child the pools belong to the parent.
  if (!driver_alive()) return;
  auto* const p = static_cast<pinned_block*>(b);
  p->arrive.store(nullptr, std::memory_order_relaxed);
  pinned_of(p->source->index).give(p);
}

/// storage::wait() of a copy.
SINTER_API void await_copy(sinter::detail::block* b) {
  const auto* const p = static_cast<pinned_block*>(b);
  const context_scope here(*p->source);
  check(driver().event_synchronize(p->done), "copying from the GPU");
  check_not_given_up();
  b->arrive.store(nullptr, std::memory_order_release);
}

}  // namespace detail

/// Host memory for a copy of elements of a GPU in `from`, made in the order of this thread's current stream. settle() waits
/// for it, and throws system_error for a failure. `from` may be destroyed at once. Empty if the copy must be synchronous:
/// without pinned memory, and for a `from` with another owner.
SINTER_API storage copy_to_host(const storage& from, const void* data, std::size_t bytes) {
  if (bytes == 0 || from.get()->release != detail::free_chunk) return {};
  queue& q = current_queue(from.where().index);
  const context_scope here(*q.where);
  detail::pinned_block* const p = detail::pinned_of(q.where->index).take(bytes, *q.where);
  if (p == nullptr) return {};
  use(from, false);
  // After a failure the block stays with the GPU, which may be writing it.
  check(driver().copy_to_host(p->data, detail::address_of(data), bytes, q.handle), "copying from the GPU");
  check(driver().event_record(p->done, q.handle), "copying from the GPU");
  p->arrive.store(detail::await_copy, std::memory_order_release);
  return storage(p);
}

/// Frees the pinned memory that no tensor uses.
SINTER_API void trim_pinned(int device) {
  const context_scope here(device_at(device));
  detail::pinned_of(device).trim();
}

}  // namespace sinter::engine::run::cuda
