// emit/cuda/solver.hpp: the steps before and after a library's factorisation on a GPU, as CUDA C++: transposes, signs, orders
// of rows.
#pragma once

#include <string>

#include "../../base/dtype.hpp"

namespace sinter::engine::emit {

/// Matrices form a stack of `count`, which the grid's last axis divides. `info` is the library's: 0 for success.
inline constexpr const char* solver_text = R"(
typedef long long idx;
#define MATRICES(k) for (idx k = blockIdx.z; k < count; k += gridDim.z)
static __device__ double zero() { return 0.0; }
static __device__ real none() { return (real)(0.0 / zero()); }
static __device__ real magnitude(real x) { return x < 0 ? -x : x; }
static __device__ bool is_finite(real x) { return x - x == 0; }

// Transposes rows x columns, of which each row has `stride` elements. A matrix is multiplied by its element of `whole`, which makes
// it 0 where it is 0; rows and columns by theirs of of_row and of_column. What is not finite leaves a 1 in `spoiled`. Any of these may
// be null. upper: the result is 0 below its diagonal.
extern "C" __global__ void sinter_turn(const real* from, real* to, idx count, idx rows, idx columns, idx stride,
                                       const real* whole, const real* of_row, const real* of_column, idx upper,
                                       int* spoiled) {
  __shared__ real tile[32][33];
  const idx first_column = (idx)blockIdx.x * 32;
  MATRICES(k) for (idx first_row = (idx)blockIdx.y * 32; first_row < rows; first_row += (idx)gridDim.y * 32) {
    const real by = whole ? whole[k] : (real)1;
    for (idx y = threadIdx.y; y < 32; y += blockDim.y) {
      const idx i = first_row + y, j = first_column + threadIdx.x;
      if (i >= rows || j >= columns) continue;
      real x = from[(k * rows + i) * stride + j];
      if (spoiled && !is_finite(x)) spoiled[k] = 1;
      if (whole) x = by == 0 ? (real)0 : x * by;
      if (of_row) x *= of_row[k * rows + i];
      if (of_column) x *= of_column[k * columns + j];
      tile[y][threadIdx.x] = upper && j > i ? (real)0 : x;
    }
    __syncthreads();
    for (idx y = threadIdx.y; y < 32; y += blockDim.y) {
      const idx i = first_row + threadIdx.x, j = first_column + y;
      if (i < rows && j < columns) to[(k * columns + j) * rows + i] = tile[threadIdx.x][y];
    }
    __syncthreads();
  }
}

// The upper triangle of l is 0; without a positive finite diagonal the other one is NaN.
extern "C" __global__ void sinter_end_cholesky(real* l, const int* info, idx count, idx n) {
  MATRICES(k) {
    real* const m = l + k * n * n;
    int wrong = info[k] != 0;
    for (idx i = threadIdx.x; i < n; i += blockDim.x) {
      const real d = m[i * n + i];
      if (!(d > 0) || !is_finite(d)) wrong = 1;
    }
    wrong = __syncthreads_or(wrong);
    for (idx e = (idx)blockIdx.x * blockDim.x + threadIdx.x; e < n * n; e += (idx)gridDim.x * blockDim.x) {
      const idx i = e / n, j = e % n;
      if (j > i) m[e] = 0;
      else if (wrong) m[e] = none();
    }
  }
}

// The row that each row comes from when row s was exchanged with row pivots[s], counted from 1, for s = 0, 1 ...; and which exchanged.
extern "C" __global__ void sinter_rows(const int* pivots, idx* rows, idx* swaps, idx count, idx m, idx steps) {
  MATRICES(k) {
    const int* const p = pivots + k * steps;
    for (idx i = (idx)blockIdx.x * blockDim.x + threadIdx.x; i < m; i += (idx)gridDim.x * blockDim.x) {
      idx at = i;
      for (idx s = steps; s-- > 0;) {
        const idx other = p[s] - 1;
        if (other < 0 || other >= m) continue;  // of what is not finite
        at = at == s ? other : at == other ? s : at;
      }
      rows[k * m + i] = at;
      if (i < steps) swaps[k * steps + i] = p[i] - 1 == i ? 1 : -1;
    }
  }
}

// -1 where the diagonal of f, whose rows have `stride` elements, is negative, else 1.
extern "C" __global__ void sinter_diagonal_signs(const real* f, real* sign, idx count, idx n, idx stride) {
  MATRICES(k)
    for (idx i = (idx)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (idx)gridDim.x * blockDim.x)
      sign[k * n + i] = f[(k * n + i) * stride + i] < 0 ? (real)-1 : (real)1;
}

// A power of two that brings the largest magnitude of a near 1; 0 where a is not finite.
extern "C" __global__ void sinter_scales(const real* a, real* scale, idx count, idx size) {
  __shared__ real most[1024];
  MATRICES(k) {
    real mine = 0;
    int wrong = 0;
    for (idx i = threadIdx.x; i < size; i += blockDim.x) {
      const real x = magnitude(a[k * size + i]);
      if (!is_finite(x)) wrong = 1;
      else if (x > mine) mine = x;
    }
    most[threadIdx.x] = mine;
    wrong = __syncthreads_or(wrong);
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
      if (threadIdx.x < half && most[threadIdx.x + half] > most[threadIdx.x]) most[threadIdx.x] = most[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      real by = 1;
      if (most[0] != 0) {
        while (most[0] * by >= 2) by *= (real)0.5;
        while (most[0] * by < 1 && by < LARGEST_SCALE) by *= 2;
      }
      scale[k] = wrong ? (real)0 : by;
    }
    __syncthreads();
  }
}

// Of n vectors of `length` elements each, one after the other: -1 where the first element of three quarters of the largest magnitude
// is negative, else 1. Values lose their scale. Both are NaN where the matrix was not finite, or the library gave up.
extern "C" __global__ void sinter_end_spectrum(const real* vectors, real* values, real* sign, const real* scale,
                                               const int* info, idx count, idx n, idx length) {
  __shared__ real most[256];
  __shared__ idx first[256];
  MATRICES(k) {
    const bool wrong = scale[k] == 0 || info[k] != 0;
    for (idx j = blockIdx.x; j < n; j += gridDim.x) {
      const real* const v = vectors + (k * n + j) * length;
      real mine = 0;
      for (idx i = threadIdx.x; i < length; i += blockDim.x) mine = magnitude(v[i]) > mine ? magnitude(v[i]) : mine;
      most[threadIdx.x] = mine;
      __syncthreads();
      for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half && most[threadIdx.x + half] > most[threadIdx.x]) most[threadIdx.x] = most[threadIdx.x + half];
        __syncthreads();
      }
      const real enough = (real)0.75 * most[0];
      idx place = length;
      for (idx i = threadIdx.x; i < length && place == length; i += blockDim.x)
        if (magnitude(v[i]) >= enough) place = i;
      first[threadIdx.x] = place;
      __syncthreads();
      for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half && first[threadIdx.x + half] < first[threadIdx.x])
          first[threadIdx.x] = first[threadIdx.x + half];
        __syncthreads();
      }
      if (threadIdx.x == 0) {
        sign[k * n + j] = wrong ? none() : first[0] < length && v[first[0]] < 0 ? (real)-1 : (real)1;
        values[k * n + j] = wrong ? none() : values[k * n + j] / scale[k];
      }
      __syncthreads();
    }
  }
}
)";

/// The text of all these kernels for one element type.
inline std::string solver_source(dtype type) {
  return std::string(type == dtype::f64 ? "typedef double real;\n#define LARGEST_SCALE 0x1p1022\n"
                                        : "typedef float real;\n#define LARGEST_SCALE 0x1p126f\n") +
         solver_text;
}

}  // namespace sinter::engine::emit
