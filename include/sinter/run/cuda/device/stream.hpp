// run/cuda/device/stream.hpp: streams and events of a GPU; each thread has a current stream for each GPU.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "driver.hpp"
#include "given_up.hpp"

namespace sinter::engine::run::cuda {

inline constexpr int max_queues = 64;

/// A stream of a GPU. Work of one queue runs in order. Never destroyed; streams that users release are reused.
struct queue {
  gpu* where = nullptr;
  api::stream handle = nullptr;
  int slot = 0;                ///< its number on the GPU; 0 is the default stream's
  api::event joint = nullptr;  ///< recorded when another queue waits for this one
};

namespace detail {

struct queue_table {
  std::mutex mutex;
  std::array<std::atomic<queue*>, max_queues> all{};
  std::atomic<int> count{0};
  std::uint64_t unused = 0;  ///< released slots
};

SINTER_API queue_table& queues_of(int device) {
  static auto* const all = new std::array<queue_table, max_devices>;
  return (*all)[static_cast<std::size_t>(device)];
}

inline constinit thread_local queue* current_queues[max_devices] = {};

/// A queue of the GPU: a released one, or a new one; slot 0 if there is none yet.
SINTER_API queue& open_queue(int device, bool first) {
  gpu& g = device_at(device);
  queue_table& table = queues_of(device);
  const std::lock_guard lock(table.mutex);
  if (first && table.count.load() > 0) return *table.all[0].load();
  if (table.unused != 0) {
    const auto slot = static_cast<std::size_t>(std::countr_zero(table.unused));
    table.unused &= table.unused - 1;
    return *table.all[slot].load();
  }
  const int slot = table.count.load();
  if (slot == max_queues)
    throw system_error("[cuda] more than " + std::to_string(max_queues - 1) + " streams of cuda(" +
                       std::to_string(device) + ") are in use at once; let some of them go");
  const context_scope here(g);
  auto made = std::make_unique<queue>();
  made->where = &g;
  made->slot = slot;
  check(driver().stream_create(&made->handle, api::stream_non_blocking), "making a stream");
  check(driver().event_create(&made->joint, api::event_disable_timing), "making an event");
  table.all[static_cast<std::size_t>(slot)].store(made.get(), std::memory_order_release);
  table.count.store(slot + 1, std::memory_order_release);
  return *made.release();
}

inline queue& queue_at(int device, int slot) {
  return *queues_of(device).all[static_cast<std::size_t>(slot)].load(std::memory_order_acquire);
}

}  // namespace detail

/// The initial stream of every thread on a GPU; it does not wait for CUDA's own default stream.
inline queue& default_queue(int device) {
  if (device >= 0 && device < max_devices)
    if (queue* const known = detail::queues_of(device).all[0].load(std::memory_order_acquire)) return *known;
  return detail::open_queue(device, true);
}

/// This thread's current stream on a GPU.
inline queue& current_queue(int device) {
  if (device >= 0 && device < max_devices)
    if (queue* const chosen = detail::current_queues[device]) return *chosen;
  return default_queue(device);
}

/// The stream of a GPU on which exchanges between ranks run beside kernels. It has the highest priority.
SINTER_API queue& exchange_queue(int device) {
  static auto* const all = new std::array<std::atomic<queue*>, max_devices>{};
  static auto* const mutex = new std::mutex;
  gpu& g = device_at(device);
  auto& slot = (*all)[static_cast<std::size_t>(device)];
  if (queue* const known = slot.load(std::memory_order_acquire)) return *known;
  const std::lock_guard lock(*mutex);
  if (queue* const known = slot.load()) return *known;
  const context_scope here(g);
  const driver_table& call = driver();
  auto made = std::make_unique<queue>();
  made->where = &g;
  made->slot = -1;
  int least = 0, most = 0;
  if (call.stream_create_with_priority != nullptr && call.stream_priorities != nullptr &&
      call.stream_priorities(&least, &most) == api::success)
    check(call.stream_create_with_priority(&made->handle, api::stream_non_blocking, most), "making a stream");
  else check(call.stream_create(&made->handle, api::stream_non_blocking), "making a stream");
  check(call.event_create(&made->joint, api::event_disable_timing), "making an event");
  slot.store(made.get(), std::memory_order_release);
  return *made.release();
}

/// Holds later work of `waiter` until `other` has done its present work; the caller continues at once.
inline void join(queue& waiter, queue& other) {
  if (&waiter == &other) return;
  const driver_table& call = driver();
  {
    const context_scope there(*other.where);
    check(call.event_record(other.joint, other.handle), "recording an event");
  }
  const context_scope here(*waiter.where);
  check(call.stream_wait(waiter.handle, other.joint, 0), "waiting for an event");
}

/// Waits until a stream has finished all its work. Throws system_error for a failure there.
inline void synchronize(queue& q) {
  const context_scope here(*q.where);
  check(driver().stream_synchronize(q.handle), "waiting for a stream");
  check_not_given_up();
}

/// Waits until the GPU has finished all its work, on every stream. Throws system_error for a failure there.
SINTER_API void synchronize(int device) {
  const context_scope here(device_at(device));
  check(driver().context_synchronize(), "waiting for the GPU");
  check_not_given_up();
}

/// A new stream; its destructor releases it for reuse.
class stream {
 public:
  // The default stream is opened first: it has slot 0.
  explicit stream(int device) : queue_((default_queue(device), &detail::open_queue(device, false))) {}
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() {
    auto& table = detail::queues_of(queue_->where->index);
    const std::lock_guard lock(table.mutex);
    table.unused |= std::uint64_t{1} << queue_->slot;
  }
  queue& get() const noexcept { return *queue_; }
  int device() const noexcept { return queue_->where->index; }
  /// True when all its work is done. Throws system_error for a failure there.
  bool done() const {
    const context_scope here(*queue_->where);
    const auto r = driver().stream_query(queue_->handle);
    if (r == api::not_ready) return false;
    check(r, "asking for a stream's state");
    check_not_given_up();
    return true;
  }

 private:
  queue* queue_;
};

/// Makes a stream this thread's current one on its GPU until the end of the scope.
class stream_scope {
 public:
  explicit stream_scope(queue& q)
      : index_(q.where->index), before_(std::exchange(detail::current_queues[q.where->index], &q)) {}
  stream_scope(const stream_scope&) = delete;
  stream_scope& operator=(const stream_scope&) = delete;
  ~stream_scope() { detail::current_queues[index_] = before_; }

 private:
  int index_;
  queue* before_;
};

/// A point in a stream's work.
class event {
 public:
  /// With `timed`, elapsed() is available.
  explicit event(int device, bool timed = false) : where_(&device_at(device)) {
    const context_scope here(*where_);
    check(driver().event_create(&handle_, timed ? api::event_default : api::event_disable_timing), "making an event");
  }
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  ~event() {
    if (driver_alive()) detail::driver_instance().table.event_destroy(handle_);
  }
  /// Marks the point after all present work of the stream.
  void record(queue& q) {
    const context_scope here(*q.where);
    check(driver().event_record(handle_, q.handle), "recording an event");
  }
  /// Holds later work of the stream until the marked point is reached.
  void hold(queue& q) const {
    const context_scope here(*q.where);
    check(driver().stream_wait(q.handle, handle_, 0), "waiting for an event");
  }
  /// Whether the point is reached. Throws system_error for a failure before it.
  bool done() const {
    const context_scope here(*where_);
    const auto r = driver().event_query(handle_);
    if (r == api::not_ready) return false;
    check(r, "asking for an event's state");
    check_not_given_up();
    return true;
  }
  /// Waits until the point is reached. Throws system_error for a failure before it.
  void synchronize() const {
    const context_scope here(*where_);
    check(driver().event_synchronize(handle_), "waiting for an event");
    check_not_given_up();
  }
  /// Milliseconds from `start`'s point to this point; both must be timed and reached.
  float elapsed(const event& start) const {
    const context_scope here(*where_);
    float milliseconds = 0;
    check(driver().event_elapsed(&milliseconds, start.handle_, handle_), "reading the time between events");
    return milliseconds;
  }

 private:
  gpu* where_;
  api::event handle_ = nullptr;
};

}  // namespace sinter::engine::run::cuda
