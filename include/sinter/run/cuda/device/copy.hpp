// run/cuda/device/copy.hpp: copies between hosts and GPUs, in stream order; large ones through pinned memory.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

#include "../../../base/device.hpp"
#include "given_up.hpp"
#include "memory.hpp"

namespace sinter::engine::run::cuda {

namespace detail {

inline constexpr std::size_t staged_bytes = std::size_t{4} << 20;
inline constexpr std::size_t direct_bytes = std::size_t{64} << 10;

inline api::address address_of(const void* p) { return reinterpret_cast<api::address>(p); }

/// Two pinned buffers of a GPU, whose context is current: while the GPU copies one, the host fills or empties the other.
class staging {
 public:
  void to_device(void* to, const void* from, std::size_t bytes, queue& q) {
    const std::lock_guard lock(mutex_);
    prepare();
    const driver_table& call = driver();
    for (std::size_t at = 0, turn = 0; at < bytes; at += staged_bytes, turn ^= 1) {
      const std::size_t n = std::min(staged_bytes, bytes - at);
      check(call.event_synchronize(done_[turn]), "copying to the GPU");
      std::memcpy(buffer_[turn], static_cast<const char*>(from) + at, n);
      check(call.copy_to_device(address_of(to) + at, buffer_[turn], n, q.handle), "copying to the GPU");
      check(call.event_record(done_[turn], q.handle), "copying to the GPU");
    }
  }

  void to_host(void* to, const void* from, std::size_t bytes, queue& q) {
    const std::lock_guard lock(mutex_);
    prepare();
    const driver_table& call = driver();
    const auto ask = [&](std::size_t at, std::size_t turn) {
      check(call.event_synchronize(done_[turn]), "copying from the GPU");
      check(call.copy_to_host(buffer_[turn], address_of(from) + at, std::min(staged_bytes, bytes - at), q.handle),
            "copying from the GPU");
      check(call.event_record(done_[turn], q.handle), "copying from the GPU");
    };
    ask(0, 0);
    for (std::size_t at = 0, turn = 0; at < bytes; at += staged_bytes, turn ^= 1) {
      if (at + staged_bytes < bytes) ask(at + staged_bytes, turn ^ 1);
      check(call.event_synchronize(done_[turn]), "copying from the GPU");
      std::memcpy(static_cast<char*>(to) + at, buffer_[turn], std::min(staged_bytes, bytes - at));
    }
    check_not_given_up();
  }

 private:
  void prepare() {
    if (buffer_[1] != nullptr) return;
    const driver_table& call = driver();
    for (std::size_t i = 0; i < 2; ++i) {
      if (done_[i] == nullptr) check(call.event_create(&done_[i], api::event_disable_timing), "making an event");
      if (buffer_[i] == nullptr)
        check(call.host_allocate(&buffer_[i], staged_bytes, api::host_portable), "allocating pinned memory");
    }
  }
  std::mutex mutex_;
  std::array<void*, 2> buffer_{};
  std::array<api::event, 2> done_{};
};

SINTER_API staging& staging_of(int device) {
  static auto* const all = new std::array<std::atomic<staging*>, max_devices>{};
  auto& slot = (*all)[static_cast<std::size_t>(device)];
  if (staging* const known = slot.load(std::memory_order_acquire)) return *known;
  auto made = std::make_unique<staging>();
  staging* expected = nullptr;
  if (slot.compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *expected;
}

/// Whether the memory is pinned, so that the GPU reads it asynchronously.
inline bool is_pinned(const void* p) {
  unsigned type = 0;
  return driver().pointer_attribute(&type, api::pointer_memory_type, address_of(p)) == api::success &&
         type == api::memory_host;
}

inline void host_to_device(void* to, const void* from, std::size_t bytes, queue& q) {
  const context_scope here(*q.where);
  const bool pinned = is_pinned(from);
  if (!pinned && bytes > direct_bytes) return staging_of(q.where->index).to_device(to, from, bytes, q);
  // The driver has read pageable memory when the call returns.
  check(driver().copy_to_device(address_of(to), from, bytes, q.handle), "copying to the GPU");
  if (pinned) check(driver().stream_synchronize(q.handle), "copying to the GPU");
}

inline void device_to_host(void* to, const void* from, std::size_t bytes, queue& q) {
  const context_scope here(*q.where);
  if (bytes > direct_bytes && !is_pinned(to)) return staging_of(q.where->index).to_host(to, from, bytes, q);
  check(driver().copy_to_host(to, address_of(from), bytes, q.handle), "copying from the GPU");
  check(driver().stream_synchronize(q.handle), "copying from the GPU");
  check_not_given_up();
}

}  // namespace detail

/// Copies between two devices, at least one of them a GPU, in order with the work of this thread's current streams. On
/// return, a copy to the host has arrived, and the source of a copy from the host has been read. Throws system_error.
SINTER_API void copy(void* to, device to_where, const void* from, device from_where, std::size_t bytes) {
  if (bytes == 0) return;
  if (!from_where.is_cuda()) return detail::host_to_device(to, from, bytes, current_queue(to_where.index));
  queue& source = current_queue(from_where.index);
  if (!to_where.is_cuda()) return detail::device_to_host(to, from, bytes, source);
  const driver_table& call = driver();
  if (to_where == from_where) {
    const context_scope here(*source.where);
    return check(call.copy_within(detail::address_of(to), detail::address_of(from), bytes, source.handle),
                 "copying on the GPU");
  }
  queue& target = current_queue(to_where.index);
  join(target, source);
  {
    const context_scope here(*target.where);
    check(call.copy_peer(detail::address_of(to), target.where->context, detail::address_of(from), source.where->context,
                         bytes, target.handle),
          "copying between GPUs");
  }
  join(source, target);
}

}  // namespace sinter::engine::run::cuda
