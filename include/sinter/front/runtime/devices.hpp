// front/runtime/devices.hpp: choosing a device, moving trees between devices, waiting for one.
#pragma once

#include <optional>
#include <string>
#include <type_traits>

#include "../evaluate/evaluate.hpp"
#include "../trees/tree_map.hpp"

namespace sinter {

/// Where new tensors go when a factory is given no device: what the innermost device_scope of this thread says, else
/// set_default_device, else the environment variable SINTER_DEVICE (cpu, cuda, cuda:1), else the host.
inline device default_device() { return engine::default_device(); }

/// For all threads. user_error when there is no such device.
inline void set_default_device(device where, location at = location::current()) {
  engine::check_device(where, "set_default_device", at);
  engine::set_default_device(where);
}

/// Makes a device the default one of this thread until the end of the scope. user_error when there is no such device.
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

/// Number of GPUs that the driver shows; 0 without one that works. Using one that is too old or taken is a system_error.
inline int device_count() {
  std::string problem;
  return engine::cuda_device_count(problem);
}

/// Waits until a device has done everything asked of it; system_error for what failed there. user_error, as of those below,
/// when there is no such device.
inline void synchronize(device where = default_device(), location at = location::current()) {
  engine::check_device(where, "synchronize", at);
  engine::synchronize(where);
}

/// What a GPU's allocator holds, in bytes; zeros for the host.
inline memory_statistics memory_stats(device where = default_device(), location at = location::current()) {
  engine::check_device(where, "memory_stats", at);
  return engine::memory_stats(where);
}

/// Returns the allocator's free blocks, and pinned memory that no tensor has, to the GPU's driver, or to the host's system.
inline void trim_memory(device where = default_device(), location at = location::current()) {
  engine::check_device(where, "trim_memory", at);
  engine::trim_memory(where);
}

/// A tree with all its tensors on a device, as x.to(where): `params = to(params, device::cuda(0))`. user_error while traced.
template <class T>
auto to(const T& tree, device where, location at = location::current()) {
  return detail::map_tree(
      "to", at, [&](const auto& x) { return detail::evaluate(x, at).to(where, at); }, tree);
}
/// As x.to(where, non_blocking).
template <class T>
auto to(const T& tree, device where, non_blocking_t, location at = location::current()) {
  return detail::map_tree(
      "to", at, [&](const auto& x) { return detail::evaluate(x, at).to(where, non_blocking, at); }, tree);
}

}  // namespace sinter
