// run/cuda/device/capture.hpp: captures requests to a stream as a CUDA graph.
#pragma once

#include <array>
#include <mutex>
#include <utility>

#include "stream.hpp"

namespace sinter::engine::run::cuda::detail {

/// A stream used only for captures.
struct capture_queue {
  std::mutex mutex;
  queue where;
};

SINTER_API capture_queue& capture_queue_of(int device) {
  static auto* const all = new std::array<capture_queue, max_devices>;
  capture_queue& c = (*all)[static_cast<std::size_t>(device)];
  const std::lock_guard lock(c.mutex);
  if (c.where.handle == nullptr) {
    c.where.where = &device_at(device);
    check(driver().stream_create(&c.where.handle, api::stream_non_blocking), "making a stream");
  }
  return c;
}

/// Owns a graph.
class graph_handle {
 public:
  explicit graph_handle(api::graph g = nullptr) : graph_(g) {}
  graph_handle(graph_handle&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
  graph_handle& operator=(graph_handle other) noexcept {
    std::swap(graph_, other.graph_);
    return *this;
  }
  ~graph_handle() {
    if (graph_ != nullptr && driver_alive()) driver_instance().table.graph_destroy(graph_);
  }
  api::graph get() const noexcept { return graph_; }

 private:
  api::graph graph_;
};

/// The requests of f to a stream, as a graph.
template <class F>
graph_handle captured(int device, F&& f) {
  capture_queue& c = capture_queue_of(device);
  const driver_table& call = driver();
  const std::lock_guard lock(c.mutex);
  check(call.capture_begin(c.where.handle, api::capture_relaxed), "recording a graph");
  api::graph made = nullptr;
  try {
    f(c.where);
  } catch (...) {
    if (call.capture_end(c.where.handle, &made) == api::success) graph_handle{made};
    throw;
  }
  check(call.capture_end(c.where.handle, &made), "recording a graph");
  return graph_handle(made);
}

}  // namespace sinter::engine::run::cuda::detail
