// base/device.hpp: where memory is and kernels run.
#pragma once

#include <cstdint>
#include <string>

#include "config.hpp"

namespace sinter {

/// A processor with its memory: the host, or one NVIDIA GPU.
struct device {
  enum class kind : std::uint8_t { cpu, cuda };

  device::kind type = kind::cpu;
  int index = 0;

  static constexpr device cpu() { return {}; }
  /// The GPU that the driver numbers `index` (CUDA_VISIBLE_DEVICES renumbers).
  static constexpr device cuda(int index = 0) { return {kind::cuda, index}; }

  constexpr bool is_cuda() const { return type == kind::cuda; }
  constexpr bool operator==(const device&) const = default;
  /// "cpu", "cuda(0)". (define.hpp)
  SINTER_API std::string text() const;
};

}  // namespace sinter

#if !defined(SINTER_COMPILED)
#include "define.hpp"
#endif
