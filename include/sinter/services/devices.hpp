// services/devices.hpp: the engine's memory, copies and waits, by device.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "../engine/engine.hpp"
#include "../run/cuda/device/copy.hpp"
#include "../run/cuda/device/memory.hpp"
#include "../run/cuda/device/pinned.hpp"
#include "../run/cuda/program/nvrtc.hpp"
#include "../run/host/buffer.hpp"
#include "../run/mesh/launch.hpp"

namespace sinter::engine {

SINTER_API storage allocate(std::size_t bytes, device where) {
  if (!where.is_cuda()) return run::allocate(bytes);
  [[maybe_unused]] static const bool started = (run::cuda::start_with_compiler(where.index), true);
  return run::cuda::allocate(bytes, where.index);
}

SINTER_API void copy(void* to, device to_where, const void* from, device from_where, std::size_t bytes) {
  if (to_where.is_cuda() || from_where.is_cuda()) run::cuda::copy(to, to_where, from, from_where, bytes);
  else if (bytes > 0) std::memcpy(to, from, bytes);
}

SINTER_API void copy(const storage& to, void* place, const storage& from, const void* data, std::size_t bytes) {
  run::cuda::use(from, false);
  run::cuda::use(to, true);
  copy(place, to.where(), data, from.where(), bytes);
}

SINTER_API storage copy_to_host(const storage& from, const void* data, std::size_t bytes) {
  storage out = run::cuda::copy_to_host(from, data, bytes);
  if (!out) {
    out = run::allocate(bytes);
    copy(out.data(), {}, data, from.where(), bytes);
  }
  return out;
}

SINTER_API void synchronize(device where) {
  if (where.is_cuda()) run::cuda::synchronize(where.index);
}

SINTER_API int cuda_device_count(std::string& problem) { return run::cuda::device_count(problem); }

SINTER_API memory_statistics memory_stats(device where) {
  return where.is_cuda() ? run::cuda::memory_of(where.index) : memory_statistics{};
}

SINTER_API void reset_peak_memory(device where) {
  if (where.is_cuda()) run::cuda::reset_peak(where.index);
}

SINTER_API void trim_memory(device where) {
  if (!where.is_cuda()) return run::trim();
  run::cuda::trim(where.index);
  run::cuda::trim_pinned(where.index);
}

namespace detail {

/// Processes of one host take its GPUs in turn.
inline int gpu_of_rank() {
  const int local = run::find_launch().local;
  std::string problem;
  const int count = local == 0 ? 0 : cuda_device_count(problem);
  return count == 0 ? 0 : local % count;
}

/// The device that $SINTER_DEVICE names.
inline device device_of_environment() {
  const char* const text = std::getenv("SINTER_DEVICE");
  if (!text || !*text) return {};
  const std::string name = text;
  device where;
  if (name == "cuda") where = device::cuda(gpu_of_rank());
  else if (name.size() > 5 && name.size() < 10 && name.compare(0, 5, "cuda:") == 0 &&
           name.find_first_not_of("0123456789", 5) == std::string::npos)
    where = device::cuda(std::stoi(name.substr(5)));
  else if (name != "cpu")
    fail("SINTER_DEVICE",
         "the environment variable is \"" + name + "\"; set it to cpu, cuda, or cuda:1 for a second GPU");
  if (where.is_cuda()) {
    std::string problem;
    const int count = cuda_device_count(problem);
    if (where.index >= count)
      fail("SINTER_DEVICE", "the environment variable is \"" + name + "\", but " +
                                (count == 0 ? problem : "there are " + std::to_string(count) + " GPUs") +
                                "; set it to cpu, or to a device that there is");
  }
  return where;
}

/// A device as one word, so that it can be read while another thread sets it; -1 if unset.
inline std::atomic<int>& chosen_device() {
  static std::atomic<int> chosen{-1};
  return chosen;
}
inline std::optional<device>& scoped_device() {
  static thread_local std::optional<device> scoped;
  return scoped;
}

}  // namespace detail

SINTER_API device default_device() {
  if (const auto& scoped = detail::scoped_device()) return *scoped;
  int word = detail::chosen_device().load(std::memory_order_relaxed);
  if (word < 0) {
    const device where = detail::device_of_environment();
    word = where.index * 2 + where.is_cuda();
    detail::chosen_device().store(word, std::memory_order_relaxed);
  }
  return word % 2 ? device::cuda(word / 2) : device{};
}

SINTER_API void check_device(device where, const char* op, location at) {
  if (where.is_cuda()) {
    std::string problem;
    const int count = cuda_device_count(problem);
    if (where.index < 0 || where.index >= count)
      fail(op,
           "there is no " + where.text() + ": " +
               (count == 0 ? problem : "the GPUs are numbered 0 to " + std::to_string(count - 1)),
           at);
  }
}

SINTER_API void set_default_device(device where) {
  detail::chosen_device().store(where.index * 2 + where.is_cuda(), std::memory_order_relaxed);
}

SINTER_API std::optional<device> exchange_scoped_device(std::optional<device> where) {
  return std::exchange(detail::scoped_device(), where);
}

}  // namespace sinter::engine
