// emit/cuda/panels.hpp: factorisations of large matrices as CUDA C++, by panels of columns and products of tiles in shared memory.
#pragma once

#include <string>

namespace sinter::engine::emit {

/// A block of 256 threads for each matrix. A thread has a row or a column of a panel in registers, so loops over these have
/// constant bounds. EACH, NONE and others are as in factor_prelude, with Alone false.
inline constexpr const char* panel_prelude = R"(
static const bool Alone = false;
// Rows i from `first` on and columns j of a panel, shared among the threads without a division.
#define OF_PANEL(i, j, first, rows)                                                       \
  for (idx j = threadIdx.x % PANEL, i = (first) + threadIdx.x / PANEL; i < (rows); i += 256 / PANEL)
static __device__ idx smaller(idx a, idx b) { return a < b ? a : b; }
// c less a·b, of so many rows and columns and `depth` products, PANEL at most; `lower`: on and below the diagonal alone.
static __device__ void subtract_product(real* c, idx c_row, const real* a, idx a_row, const real* b, idx b_row,
                                        idx b_column, idx rows, idx columns, idx depth, bool lower) {
  __shared__ real left[64][PANEL + 1], right[PANEL][65];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  for (idx i0 = 0; i0 < rows; i0 += 64)
    for (idx j0 = 0; j0 < (lower ? i0 + 1 : columns); j0 += 64) {
      __syncthreads();
      EACH(e, 0, 64 * PANEL) {
        const idx i = e / PANEL, p = e % PANEL;
        left[i][p] = i0 + i < rows && p < depth ? a[(i0 + i) * a_row + p] : (real)0;
      }
      EACH(e, 0, 64 * PANEL) {
        const idx p = b_row == 1 ? e % PANEL : e / 64, j = b_row == 1 ? e / PANEL : e % 64;
        right[p][j] = j0 + j < columns && p < depth ? b[p * b_row + (j0 + j) * b_column] : (real)0;
      }
      __syncthreads();
      real sum[4][4] = {};
#pragma unroll
      for (int p = 0; p < PANEL; ++p) {
        real u[4], v[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) u[q] = left[y + 16 * q][p], v[q] = right[p][x + 16 * q];
#pragma unroll
        for (int q = 0; q < 4; ++q)
#pragma unroll
          for (int r = 0; r < 4; ++r) sum[q][r] += u[q] * v[r];
      }
#pragma unroll
      for (int q = 0; q < 4; ++q)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const idx i = i0 + y + 16 * q, j = j0 + x + 16 * r;
          if (i < rows && j < columns && !(lower && j > i)) c[i * c_row + j] -= sum[q][r];
        }
    }
  __syncthreads();
}
)";

inline constexpr const char* cholesky_panels_text = R"(
// Factorises the first PANEL columns of l, of which each row has `stride` elements; false where a pivot is not positive.
static __device__ bool factor_panel(real* l, idx stride, idx rows) {
  __shared__ real top[PANEL][PANEL + 1];
  const idx wide = smaller(PANEL, rows);
  EACH(e, 0, PANEL * PANEL) {
    const idx i = e / PANEL, j = e % PANEL;
    top[i][j] = i < wide && j <= i ? l[i * stride + j] : (real)0;
  }
  __syncthreads();
  for (idx k = 0; k < wide; ++k) {
    const real d = top[k][k];
    if (!(d > 0) || !is_finite(d)) return false;
    const real r = root(d);
    __syncthreads();
    EACH(i, k, wide) top[i][k] = i == k ? r : top[i][k] / r;
    __syncthreads();
    OF_PANEL(i, j, k + 1, wide) if (k < j && j <= i) top[i][j] -= top[i][k] * top[j][k];
    __syncthreads();
  }
  OF_PANEL(i, j, 0, wide) if (j <= i) l[i * stride + j] = top[i][j];
  // There are rows below where the panel is whole.
  EACH(i, wide, rows) {
    real* const row = l + i * stride;
    real v[PANEL];
#pragma unroll
    for (int j = 0; j < PANEL; ++j) v[j] = row[j];
#pragma unroll
    for (int j = 0; j < PANEL; ++j) {
#pragma unroll
      for (int p = 0; p < PANEL; ++p)
        if (p < j) v[j] -= v[p] * top[j][p];
      v[j] /= top[j][j];
    }
#pragma unroll
    for (int j = 0; j < PANEL; ++j) row[j] = v[j];
  }
  __syncthreads();
  return true;
}
static __device__ void factor(const real* a, real* l, idx n) {
  for (idx i = 0; i < n; ++i) EACH(j, 0, n) l[i * n + j] = j > i ? (real)0 : a[i * n + j];
  __syncthreads();
  bool positive = true;
  for (idx k = 0; k < n && positive; k += PANEL) {
    real* const corner = l + k * n + k;
    positive = factor_panel(corner, n, n - k);
    const idx left = n - k - PANEL;
    real* const below = corner + PANEL * n;
    if (positive && left > 0) subtract_product(below + PANEL, n, below, n, below, 1, n, left, left, PANEL, true);
  }
  __syncthreads();
  for (idx i = 0; i < n && !positive; ++i) EACH(j, 0, i + 1) l[i * n + j] = NONE;
}
extern "C" __global__ void __launch_bounds__(256) sinter_factor(const real* a, real* l, idx count, idx n, idx, idx, idx,
                                                                idx) {
  for (idx k = blockIdx.x; k < count; k += gridDim.x) {
    factor(a + k * n * n, l + k * n * n, n);
    __syncthreads();
  }
}
)";

inline constexpr const char* triangular_panels_text = R"(
static __device__ void factor(const real* a, const real* y, real* x, idx n, idx c) {
  __shared__ real top[PANEL][PANEL + 1];
  EACH(i, 0, n * c) x[i] = y[i];
  for (idx step = 0; step < n; step += PANEL) {
    const idx depth = smaller(PANEL, n - step), first = LOWER ? step : n - step - depth;
    __syncthreads();
    EACH(e, 0, PANEL * PANEL) {
      const idx i = e / PANEL, j = e % PANEL;
      const bool read = i < depth && j < depth && (i == j ? !UNIT : (i > j) == LOWER);
      top[i][j] = read ? a[(first + i) * n + first + j] : (real)(i == j);
    }
    __syncthreads();
    EACH(j, 0, c) {
      real v[PANEL];
#pragma unroll
      for (int i = 0; i < PANEL; ++i) v[i] = i < depth ? x[(first + i) * c + j] : (real)0;
#pragma unroll
      for (int turn = 0; turn < PANEL; ++turn) {
        const int i = LOWER ? turn : PANEL - 1 - turn;
#pragma unroll
        for (int p = 0; p < PANEL; ++p)
          if (LOWER ? p < i : p > i) v[i] -= top[i][p] * v[p];
        if (!UNIT) v[i] /= top[i][i];
      }
#pragma unroll
      for (int i = 0; i < PANEL; ++i)
        if (i < depth) x[(first + i) * c + j] = v[i];
    }
    __syncthreads();
    const idx rest = LOWER ? first + depth : 0, left = LOWER ? n - rest : first;
    subtract_product(x + rest * c, c, a + rest * n + first, n, x + first * c, c, 1, left, c, depth, false);
  }
}
extern "C" __global__ void __launch_bounds__(256) sinter_factor(const real* a, const real* y, real* x, idx count, idx n,
                                                                idx, idx, idx, idx c, idx, idx, idx) {
  for (idx k = blockIdx.x; k < count; k += gridDim.x) {
    factor(a + k * n * n, y + k * n * c, x + k * n * c, n, c);
    __syncthreads();
  }
}
)";

inline constexpr const char* lu_panels_text = R"(
// The first of the largest magnitudes of column k on and below the diagonal, or k where that is no number.
static __device__ idx pivot_of(const real* x, idx k, idx m, idx n) {
  __shared__ real most[256];
  __shared__ idx place[256];
  real mine = -1;
  idx at = k;
  EACH(i, k, m) {
    const real size = magnitude(x[i * n + k]);
    if (size > mine) mine = size, at = i;
  }
  __syncthreads();
  most[threadIdx.x] = mine;
  place[threadIdx.x] = at;
  __syncthreads();
  for (unsigned half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const real other = most[threadIdx.x + half];
      const idx there = place[threadIdx.x + half];
      if (other > most[threadIdx.x] || (other == most[threadIdx.x] && there < place[threadIdx.x])) {
        most[threadIdx.x] = other;
        place[threadIdx.x] = there;
      }
    }
    __syncthreads();
  }
  const real first = x[k * n + k];
  return first == first ? place[0] : k;
}
// Eliminates columns [first, last) on and below the diagonal, exchanging whole rows.
static __device__ void eliminate(idx* rows, idx* swaps, real* x, idx m, idx n, idx first, idx last) {
  for (idx k = first; k < last; ++k) {
    const idx pivot = pivot_of(x, k, m, n);
    __syncthreads();
    if (pivot != k) EACH(j, 0, n + 1) {
      if (j < n) {
        const real t = x[k * n + j];
        x[k * n + j] = x[pivot * n + j];
        x[pivot * n + j] = t;
      } else {
        const idx t = rows[k];
        rows[k] = rows[pivot];
        rows[pivot] = t;
      }
    }
    EACH(j, 0, 1) swaps[k] = pivot == k ? 1 : -1;
    __syncthreads();
    const real by = x[k * n + k];
    if (by != 0) EACH(i, k + 1, m) x[i * n + k] /= by;
    __syncthreads();
    OF_PANEL(i, place, k + 1, m) {
      const idx j = first + place;
      if (k < j && j < last) x[i * n + j] -= x[i * n + k] * x[k * n + j];
    }
    __syncthreads();
  }
}
static __device__ void factor(const real* a, idx* rows, idx* swaps, real* x, idx m, idx n) {
  __shared__ real top[PANEL][PANEL + 1];
  EACH(i, 0, m * n) x[i] = a[i];
  EACH(i, 0, m) rows[i] = i;
  __syncthreads();
  const idx steps = smaller(m, n);
  for (idx k = 0; k < steps; k += PANEL) {
    const idx depth = smaller(PANEL, steps - k), end = k + depth;
    eliminate(rows, swaps, x, m, n, k, end);
    EACH(e, 0, PANEL * PANEL) {
      const idx i = e / PANEL, j = e % PANEL;
      top[i][j] = i < depth && j < i ? x[(k + i) * n + k + j] : (real)0;
    }
    __syncthreads();
    EACH(j, end, n) {
      real v[PANEL];
#pragma unroll
      for (int i = 0; i < PANEL; ++i) v[i] = i < depth ? x[(k + i) * n + j] : (real)0;
#pragma unroll
      for (int i = 0; i < PANEL; ++i)
#pragma unroll
        for (int p = 0; p < PANEL; ++p)
          if (p < i) v[i] -= top[i][p] * v[p];
#pragma unroll
      for (int i = 0; i < PANEL; ++i)
        if (i < depth) x[(k + i) * n + j] = v[i];
    }
    __syncthreads();
    subtract_product(x + end * n + end, n, x + end * n + k, n, x + k * n + end, n, 1, m - end, n - end, depth, false);
  }
}
extern "C" __global__ void __launch_bounds__(256) sinter_factor(const real* a, idx* rows, idx* swaps, real* x,
                                                                idx count, idx m, idx n, idx, idx, idx, idx steps, idx,
                                                                idx, idx) {
  for (idx k = blockIdx.x; k < count; k += gridDim.x) {
    factor(a + k * m * n, rows + k * m, swaps + k * steps, x + k * m * n, m, n);
    __syncthreads();
  }
}
// The same of those that a library could not factorise, whose info is not 0, or that are not finite.
extern "C" __global__ void __launch_bounds__(256) sinter_factor_again(const int* info, const int* spoiled, const real* a,
                                                                      idx* rows, idx* swaps, real* x, idx count, idx m,
                                                                      idx n, idx steps) {
  for (idx k = blockIdx.x; k < count; k += gridDim.x) {
    if (info[k] == 0 && spoiled[k] == 0) continue;
    factor(a + k * m * n, rows + k * m, swaps + k * steps, x + k * m * n, m, n);
    __syncthreads();
  }
}
)";

/// The text of a factorisation by panels, or null.
inline const char* panels_text(const std::string& what) {
  return what == "cholesky"     ? cholesky_panels_text
         : what == "triangular" ? triangular_panels_text
         : what == "lu"         ? lu_panels_text
                                : nullptr;
}

}  // namespace sinter::engine::emit
