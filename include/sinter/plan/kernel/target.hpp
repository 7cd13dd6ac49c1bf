// plan/kernel/target.hpp: the facts of a target that planning depends on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "../../base/convolution.hpp"

namespace sinter::engine::plan {

/// Where the rows of an intermediate begin; the default is row-major order.
struct row_padding {
  std::int64_t alignment = 1;  ///< in bytes
  /// Bytes of the shortest row, and of the smallest array, that are padded: of a shorter row padding would be a large part, and a
  /// smaller array stays in caches.
  std::int64_t min_row = 128, min_array = 256 << 10;
};

/// The facts of a target that planning and scheduling depend on. The default is a CPU.
struct target {
  int lockstep =
      1;  ///< adjacent threads that run in step: they walk a row side by side, and hold it in registers. 1: one
          ///< thread walks a row, with a stack for values of later passes
  bool shares_rows = false;  ///< a long row may be divided among processors
  bool guards_lanes =
      false;  ///< a guard that changes within a vector costs no more than its test; else it cuts the loop
  std::int64_t min_rows = 8;  ///< with fewer rows, a kernel of several passes leaves processors idle
  std::size_t max_arrays = std::numeric_limits<std::size_t>::max();  ///< large arrays of independent parts of a kernel
  std::size_t max_row_sums = std::numeric_limits<std::size_t>::max();
  std::int64_t parameter_bytes =
      std::numeric_limits<std::int64_t>::max();  ///< the greatest size of a launch's parameters
  double bytes_per_operation =
      0.4;  ///< bytes that memory moves during an operation on an element; a costly one counts ten times
  std::int64_t kernel_bytes = 16 << 10;  ///< the bytes that memory moves while a kernel starts and ends
  int multiprocessors = 0;               ///< number that share the tiles of products, and the blocks of a launch
  std::int64_t shared_bytes = 0;         ///< of a multiprocessor, for blocks, without their memory for sums
  bool copies_async = false;             ///< threads request copies into shared memory, and go on
  bool groups = false;                   ///< groups of four warps multiply matrices in shared memory (wgmma)
  row_padding padding;                   ///< of intermediates that products read or write
  bool blas = false;                     ///< products, with their epilogues, become BLAS calls where possible
  bool tiles = false;                    ///< products of 16 bits become kernels for matrix units, by a recipe
  bool tf32 = false;                     ///< f32 products may round their operands, so matrix units compute them
  bool deterministic = false;            ///< sums have one order in each call, of scatters and library calls too
  bool overlap = false;                  ///< independent kernels run side by side
  bool fuses = true;                     ///< otherwise each op has a kernel of its own, with the views that it reads
  bool serves_smaller = false;           ///< code for some sizes is used for all smaller ones, too
  /// Whether a library computes a convolution on the target's device; null without such a library.
  bool (*convolves)(const convolution& what, int device) = nullptr;
  int device = 0;
};

/// The facts that differ among GPUs, and among options for one GPU.
struct gpu_facts {
  int capability = 90;
  int multiprocessors = 132;
  bool blas = true;
  bool tiles = false;
  bool groups = false;
  bool tf32 = false;
  bool deterministic = false;
  bool overlap = false;
  bool fuses = true;
  std::int64_t parameter_bytes = 4096;
  bool (*convolves)(const convolution& what, int device) = nullptr;
  int device = 0;
};

/// A multiprocessor's shared memory that blocks can use, minus their memory for sums.
constexpr std::int64_t shared_memory_of(int capability) {
  return (capability == 80 || capability == 87 ? 160 : capability >= 90 && capability < 120 ? 220 : 96) << 10;
}

/// Each reduction over rows has registers, and a block's share of the shared memory. Kernels that touch many large arrays at
/// once exhaust the registers for loads in flight.
constexpr target gpu_target(gpu_facts f = {}) {
  return {.lockstep = 32,
          .shares_rows = true,
          .guards_lanes = true,
          .min_rows = f.multiprocessors / 2,
          .max_arrays = 16,
          .max_row_sums = 8,
          .parameter_bytes = f.parameter_bytes,
          .kernel_bytes = 4 << 20,
          .multiprocessors = f.multiprocessors,
          .shared_bytes = shared_memory_of(f.capability),
          .copies_async = f.capability >= 80,
          .groups = f.groups && f.capability == 90,
          .padding = {.alignment = 16},
          .blas = f.blas,
          .tiles = f.tiles && f.capability >= 80,
          .tf32 = f.tf32 && f.capability >= 80,
          .deterministic = f.deterministic,
          .overlap = f.overlap,
          .fuses = f.fuses,
          .convolves = f.convolves,
          .device = f.device};
}

}  // namespace sinter::engine::plan
