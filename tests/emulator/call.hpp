// tests/emulator/call.hpp: what every entry point of the emulated driver begins with.
#pragma once

#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "stream.hpp"

namespace emulator {

inline std::recursive_mutex everything;
inline thread_local context* current = nullptr;

inline constexpr int success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3, unavailable = 46,
                     no_device = 100, invalid_device = 101, invalid_image = 200, invalid_context = 201,
                     invalid_handle = 400, not_found = 500, not_ready = 600, out_of_resources = 701,
                     not_supported = 801, update_failure = 910;

/// Holds the emulator; counts how often this thread does.
struct holder {
  holder() { everything.lock(), ++depth; }
  ~holder() { --depth, everything.unlock(); }
  holder(const holder&) = delete;
  holder& operator=(const holder&) = delete;
  static inline thread_local int depth = 0;
};
/// Lets other threads use the emulator for a moment.
inline void pause() {
  const int held = std::exchange(holder::depth, 0);
  for (int k = 0; k < held; ++k) everything.unlock();
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  for (int k = 0; k < held; ++k) everything.lock();
  holder::depth = held;
}

inline world& with_pause() {
  world& w = all();
  w.pause = pause;
  return w;
}
/// Holds the emulator for one call. `problem` is what every call answers while something is wrong.
struct call {
  holder lock;
  world& w = with_pause();
  int problem = !w.started ? not_initialized : w.lost != 0 ? w.lost : current == nullptr ? invalid_context : success;
};

inline device_memory& memory_here() { return all().memory[static_cast<std::size_t>(current->device)]; }

inline operation launch_of(function* f, uint3 grid, uint3 block, unsigned shared, void** parameters) {
  operation o;
  o.what = operation::kind::launch;
  o.entry = f;
  o.grid = grid;
  o.block = block;
  o.shared = shared;
  o.parameters = packed(*f, parameters);
  return o;
}

/// Bytes of a kernel's parameters, each at a multiple of 8.
inline int parameter_bytes(const function& f) {
  int bytes = 0;
  for (const int* size = f.sizes; *size != 0; ++size) bytes = (bytes + 7) / 8 * 8 + std::abs(*size);
  return bytes;
}

inline int check_launch(const function& f, uint3 grid, uint3 block, unsigned shared) {
  if (parameter_bytes(f) > (number("SINTER_EMULATOR_DRIVER", 13000) >= 12010 ? 32764 : 4096)) return invalid_value;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
    return invalid_value;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > machine::max_threads) return invalid_value;
  if (shared > static_cast<unsigned>(f.dynamic_limit)) return invalid_value;
  if (f.device != current->device) return invalid_handle;
  if (setting("SINTER_EMULATOR_REFUSE") == f.name) return out_of_resources;
  return success;
}

inline operation fill_of(unsigned long long to, unsigned value, std::size_t bytes, std::size_t rows = 1,
                         std::size_t pitch = 0) {
  operation o;
  o.what = operation::kind::fill;
  o.to = to;
  o.value = value;
  o.bytes = bytes;
  o.rows = rows;
  o.pitch = pitch;
  return o;
}

inline operation copy_of(void* to, const void* from, std::size_t bytes) {
  operation o;
  o.call = [=] { std::memcpy(to, from, bytes); };
  return o;
}

inline bool is_pinned(const void* p, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  auto found = all().pinned.upper_bound(at);
  return found != all().pinned.begin() && (--found, at + bytes <= found->first + found->second);
}

}  // namespace emulator
