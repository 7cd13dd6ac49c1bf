// plan/kernel/target.hpp: the facts of what kernels are planned for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace sinter::engine::plan {

/// Where the rows of an intermediate begin; the default is row-major order.
struct row_padding {
  std::int64_t alignment = 1;  ///< in bytes
  /// Bytes of the shortest row, and of the smallest array, that are padded: of a shorter row padding would be a large part, and a
  /// smaller array stays in caches.
  std::int64_t least_row = 128, least_array = 256 << 10;
};

/// The default is the CPU.
struct target {
  bool rows_over_threads =
      false;  ///< threads side by side walk a row and hold it in registers; else one thread does, with a
              ///< stack for what later passes need
  std::int64_t least_rows = 8;  ///< of fewer rows a kernel of several passes leaves processors idle
  std::size_t most_arrays =
      std::numeric_limits<std::size_t>::max();  ///< large ones, of kernels between which no value passes
  std::size_t most_row_sums = std::numeric_limits<std::size_t>::max();
  std::int64_t parameter_bytes = std::numeric_limits<std::int64_t>::max();  ///< what a launch's parameters may take
  double bytes_per_operation =
      0.4;  ///< what memory moves while one is done on an element; a costly one takes ten times that
  std::int64_t kernel_bytes = 16 << 10;  ///< what memory moves while a kernel begins and ends
  int multiprocessors = 0;               ///< that share out tiles of products
  row_padding padding;                   ///< of intermediates that products read or write
  bool blas = false;     ///< products that a BLAS call can express, with what may follow them, become one
  bool tf32 = false;     ///< products of f32 may round their operands, and matrix units do them
  bool overlap = false;  ///< kernels that do not wait for one another run side by side
};

/// What differs among GPUs, and among options for one.
struct gpu_facts {
  int multiprocessors = 132;
  bool blas = true;
  bool tf32 = false;
  bool overlap = false;
  std::int64_t parameter_bytes = 4096;
};

/// Each reduction over rows has registers, and a block's part of the shared memory; kernels that touch many large arrays at
/// once run out of registers for the loads in flight.
constexpr target gpu_target(gpu_facts f = {}) {
  return {.rows_over_threads = true,
          .least_rows = f.multiprocessors / 2,
          .most_arrays = 16,
          .most_row_sums = 8,
          .parameter_bytes = f.parameter_bytes,
          .kernel_bytes = 4 << 20,
          .multiprocessors = f.multiprocessors,
          .padding = {.alignment = 16},
          .blas = f.blas,
          .tf32 = f.tf32,
          .overlap = f.overlap};
}

}  // namespace sinter::engine::plan
