// run/cuda/program/matmul.hpp: the description of a row-major matrix product for a GPU's library.
#pragma once

#include <cstdint>

#include "../../../base/dtype.hpp"

namespace sinter::engine::run::cuda {

/// The function applied to a product before it is stored, after adding a bias: max(x, 0), or the tanh form of gelu.
enum class epilogue : std::uint8_t { none, bias, relu, bias_relu, gelu, bias_gelu };

/// out[i] = epilogue(op(a[i]) op(b[i]) + bias) for i < batch. op(a) is m x k, op(b) is k x n, out is m x n, all row-major. It
/// is done `repeat` times, one call after another. Distances are in elements.
struct matmul {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  dtype type = dtype::f32;                               ///< of a and b: f32, f64, f16 or bf16; sums are in f32, or f64
  dtype result = dtype::f32;                             ///< of out and bias: `type`, or f32
  bool transpose_a = false;                              ///< a is stored as k x m
  bool transpose_b = false;                              ///< b is stored as n x k
  std::int64_t row_a = 0, row_b = 0, row_out = 0;        ///< from one stored row to the next
  std::int64_t batch_a = 0, batch_b = 0, batch_out = 0;  ///< from one matrix to the next; 0: the same one
  std::int64_t offset_a = 0, offset_b = 0, offset_out = 0, offset_bias = 0;  ///< of the first element
  std::int64_t repeat = 1, repeat_a = 0, repeat_b = 0,
               repeat_out = 0;  ///< from one call's first matrix to the next call's
  epilogue after = epilogue::none;
  bool tf32 = false;  ///< f32 operands may be rounded to tf32
  bool operator==(const matmul&) const = default;
};

}  // namespace sinter::engine::run::cuda
