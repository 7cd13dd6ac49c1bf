// plan/kernel/target.hpp: what kernels are planned for.
#pragma once

#include <cstdint>

namespace sinter::engine::plan {

/// The default is the CPU.
struct target {
  bool gpu = false;
  int multiprocessors = 132;
  bool blas = true;      ///< of a GPU: products that a BLAS call can express, with what may follow them, become one
  bool tf32 = false;     ///< of a GPU: products of f32 may round their operands, and its tensor cores do them
  bool overlap = false;  ///< of a GPU: kernels that do not wait for one another run side by side
  std::int64_t parameter_bytes = 4096;  ///< of a GPU: what a launch's parameters may take
};

}  // namespace sinter::engine::plan
