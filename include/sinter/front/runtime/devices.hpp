// front/runtime/devices.hpp: choosing a device, moving trees between devices, waiting for one.
#pragma once

#include <optional>
#include <string>
#include <type_traits>

#include "../evaluate/evaluate.hpp"
#include "../trees/tree_map.hpp"

namespace sinter {

/// The device of new tensors when a factory is given none. The first of these that is set decides: this thread's innermost
/// device_scope, set_default_device, the environment variable SINTER_DEVICE (cpu, cuda, cuda:1). Otherwise it is the host.
inline device default_device() { return engine::default_device(); }

/// Sets the default device of all threads. user_error if the device does not exist.
inline void set_default_device(device where, location at = location::current()) {
  engine::check_device(where, "set_default_device", at);
  engine::set_default_device(where);
}

/// Makes a device the default of this thread until the end of the scope. user_error if the device does not exist.
class device_scope {
 public:
  explicit device_scope(device where, location at = location::current()) {
    engine::check_device(where, "device_scope", at);
    previous_ = engine::exchange_scoped_device(where);
  }
  ~device_scope() { engine::exchange_scoped_device(previous_); }
  device_scope(const device_scope&) = delete;
  device_scope& operator=(const device_scope&) = delete;

 private:
  std::optional<device> previous_;
};

/// The number of GPUs that the driver shows; 0 without a working driver. Using a GPU that is too old or taken is a
/// system_error.
inline int device_count() {
  std::string problem;
  return engine::cuda_device_count(problem);
}

/// Waits until a device has finished all its work; system_error for a failure there. user_error if the device does not exist,
/// as in the functions below.
inline void synchronize(device where = default_device(), location at = location::current()) {
  engine::check_device(where, "synchronize", at);
  engine::synchronize(where);
}

/// The bytes that a GPU's allocator holds; zeros for the host.
inline memory_statistics memory_stats(device where = default_device(), location at = location::current()) {
  engine::check_device(where, "memory_stats", at);
  return engine::memory_stats(where);
}

/// From now on memory_stats(where).peak is the peak since this call; nothing for the host.
inline void reset_peak_memory(device where = default_device(), location at = location::current()) {
  engine::check_device(where, "reset_peak_memory", at);
  engine::reset_peak_memory(where);
}

/// Returns the allocator's free blocks to the GPU's driver, and pinned memory without a tensor to the host's system.
inline void trim_memory(device where = default_device(), location at = location::current()) {
  engine::check_device(where, "trim_memory", at);
  engine::trim_memory(where);
}

/// A tree with all tensors moved to a device, as x.to(where): `params = to(params, device::cuda(0))`. user_error while traced.
template <class T>
auto to(const T& tree, device where, location at = location::current()) {
  return detail::map_tree(
      "to", at, [&](const auto& x) { return detail::evaluate(x, at).to(where, at); }, tree);
}
/// Like x.to(where, non_blocking), for a tree.
template <class T>
auto to(const T& tree, device where, non_blocking_t, location at = location::current()) {
  return detail::map_tree(
      "to", at, [&](const auto& x) { return detail::evaluate(x, at).to(where, non_blocking, at); }, tree);
}

}  // namespace sinter
