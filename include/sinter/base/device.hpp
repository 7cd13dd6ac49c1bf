// base/device.hpp: the devices that have memory and run kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "config.hpp"

namespace sinter {

/// A processor with its memory: the host, or one NVIDIA GPU.
struct device {
  enum class kind : std::uint32_t { cpu, cuda };

  device::kind type = kind::cpu;
  int index = 0;

  static constexpr device cpu() { return {}; }
  /// The GPU with the driver's number `index` (CUDA_VISIBLE_DEVICES renumbers).
  static constexpr device cuda(int index = 0) { return {kind::cuda, index}; }

  constexpr bool is_cuda() const { return type == kind::cuda; }
  constexpr bool operator==(const device&) const = default;
  /// "cpu", "cuda(0)". (define.hpp)
  SINTER_API std::string text() const;
};

/// The state of a GPU's allocator, in bytes.
struct memory_statistics {
  std::size_t allocated = 0;                            ///< in tensors
  std::size_t peak = 0;                                 ///< the peak of `allocated`
  std::size_t reserved = 0;                             ///< taken from the driver, including free blocks
  std::size_t total = 0;                                ///< the device's memory
  std::size_t available = 0;                            ///< bytes that the driver can still supply
  std::size_t allocations = 0, driver_allocations = 0;  ///< since the start of the process
};

}  // namespace sinter

#if !defined(SINTER_COMPILED)
#include "define.hpp"
#endif
