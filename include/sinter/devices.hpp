// devices.hpp: the engine's memory, copies and waits, by device.
#pragma once

#include <cstring>

#include "engine.hpp"
#include "run/buffer.hpp"

namespace sinter::engine {

SINTER_API storage allocate(std::size_t bytes, device where) {
  if (where.is_cuda()) throw system_error("there is no memory of " + where.text());
  return run::allocate(bytes);
}

SINTER_API void copy(void* to, device to_where, const void* from, device from_where, std::size_t bytes) {
  if (to_where.is_cuda() || from_where.is_cuda()) throw system_error("there is no memory of a GPU");
  std::memcpy(to, from, bytes);
}

SINTER_API void synchronize(device) {}

SINTER_API int cuda_device_count(std::string& problem) {
  problem = "this build has no GPU runtime";
  return 0;
}

SINTER_API memory_statistics memory_stats(device) { return {}; }

SINTER_API void trim_memory(device) { run::trim(); }

}  // namespace sinter::engine
