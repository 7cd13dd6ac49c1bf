// devices.hpp: the engine's memory, copies and waits, by device.
#pragma once

#include <cstring>

#include "engine.hpp"
#include "run/buffer.hpp"
#include "run/cuda_copy.hpp"
#include "run/cuda_memory.hpp"

namespace sinter::engine {

SINTER_API storage allocate(std::size_t bytes, device where) {
  return where.is_cuda() ? run::cuda::allocate(bytes, where.index) : run::allocate(bytes);
}

SINTER_API void copy(void* to, device to_where, const void* from, device from_where, std::size_t bytes) {
  if (to_where.is_cuda() || from_where.is_cuda()) run::cuda::copy(to, to_where, from, from_where, bytes);
  else std::memcpy(to, from, bytes);
}

SINTER_API void synchronize(device where) {
  if (where.is_cuda()) run::cuda::synchronize(where.index);
}

SINTER_API int cuda_device_count(std::string& problem) { return run::cuda::device_count(problem); }

SINTER_API memory_statistics memory_stats(device where) {
  if (!where.is_cuda()) return {};
  const auto c = run::cuda::memory_of(where.index);
  return {c.allocated, c.peak, c.reserved, c.total, c.available, c.allocations, c.driver_allocations};
}

SINTER_API void trim_memory(device where) {
  if (where.is_cuda()) run::cuda::trim(where.index);
  else run::trim();
}

}  // namespace sinter::engine
