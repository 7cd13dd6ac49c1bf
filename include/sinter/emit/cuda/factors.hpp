// emit/cuda/factors.hpp: factorisations of stacks of matrices as CUDA C++: a block a matrix, or a thread a small one.
#pragma once

#include <string>

#include "../../base/dtype.hpp"
#include "panels.hpp"

namespace sinter::engine::emit {

/// The common part. EACH(i, a, b) divides a loop among the threads of a matrix; SYNC() synchronises them. A matrix of at most
/// `alone` rows has one thread.
inline constexpr const char* factor_prelude = R"(
typedef long long idx;
#define EACH(i, a, b) for (idx i = (idx)(a) + (Alone ? 0 : threadIdx.x); i < (b); i += Alone ? 1 : blockDim.x)
#define SYNC() do { if (!Alone) __syncthreads(); } while (0)
#define NONE (real)(0.0 / zero())
static __device__ double zero() { return 0.0; }
static __device__ real magnitude(real x) { return x < 0 ? -x : x; }
static __device__ real root(real x) { return (real)sqrt((double)x); }
static __device__ bool is_finite(real x) { return x - x == 0; }
static const idx alone = 8;
// Whether the first element of three quarters of the largest magnitude is negative.
static __device__ bool points_down(const real* v, idx n, idx stride) {
  real most = 0;
  for (idx i = 0; i < n; ++i) most = magnitude(v[i * stride]) > most ? magnitude(v[i * stride]) : most;
  for (idx i = 0; i < n; ++i)
    if (magnitude(v[i * stride]) >= (real)0.75 * most) return v[i * stride] < 0;
  return false;
}
static __device__ bool all_finite(const real* a, idx n) {
  bool finite = true;
  for (idx i = 0; i < n; ++i) finite = finite && is_finite(a[i]);
  return finite;
}
// A power of two that brings the largest magnitude near 1.
static __device__ real scale_of(const real* a, idx n) {
  real most = 0, by = 1;
  for (idx i = 0; i < n; ++i) most = magnitude(a[i]) > most ? magnitude(a[i]) : most;
  if (most == 0) return 1;
  while (most * by >= 2) by *= (real)0.5;
  while (most * by < 1 && by < LARGEST_SCALE) by *= 2;
  return by;
}
)";

inline constexpr const char* cholesky_text = R"(
template <bool Alone>
static __device__ void factor(const real* a, real* l, idx n) {
  EACH(i, 0, n * n) l[i] = i % n > i / n ? 0 : a[i];
  SYNC();
  bool positive = true;
  for (idx k = 0; k < n; ++k) {
    const real d = l[k * n + k];
    if (!(d > 0) || !is_finite(d)) {
      positive = false;
      break;
    }
    const real r = root(d);
    SYNC();
    EACH(i, k, n) l[i * n + k] = i == k ? r : l[i * n + k] / r;
    SYNC();
    const idx left = n - k - 1;
    EACH(e, 0, left * left) {
      const idx i = k + 1 + e / left, j = k + 1 + e % left;
      if (j <= i) l[i * n + j] -= l[i * n + k] * l[j * n + k];
    }
    SYNC();
  }
  SYNC();
  if (!positive) EACH(i, 0, n * n) if (i % n <= i / n) l[i] = NONE;
}
extern "C" __global__ void sinter_factor(const real* a, real* l, idx count, idx n, idx, idx, idx, idx) {
  MATRICES(n, factor<Alone>(a + k * n * n, l + k * n * n, n))
}
)";

inline constexpr const char* triangular_text = R"(
template <bool Alone>
static __device__ void factor(const real* a, const real* y, real* x, idx n, idx c) {
  EACH(i, 0, n * c) x[i] = y[i];
  for (idx step = 0; step < n; ++step) {
    const idx i = LOWER ? step : n - 1 - step, left = n - 1 - step;
    SYNC();
    if (!UNIT) EACH(j, 0, c) x[i * c + j] /= a[i * n + i];
    SYNC();
    EACH(e, 0, left * c) {
      const idx r = LOWER ? i + 1 + e / c : e / c, j = e % c;
      x[r * c + j] -= a[r * n + i] * x[i * c + j];
    }
  }
}
extern "C" __global__ void sinter_factor(const real* a, const real* y, real* x, idx count, idx n, idx, idx, idx,
                                         idx c, idx, idx, idx) {
  MATRICES(n, factor<Alone>(a + k * n * n, y + k * n * c, x + k * n * c, n, c))
}
)";

inline constexpr const char* lu_text = R"(
template <bool Alone>
static __device__ void factor(const real* a, idx* rows, idx* swaps, real* x, idx m, idx n) {
  EACH(i, 0, m * n) x[i] = a[i];
  EACH(i, 0, m) rows[i] = i;
  SYNC();
  for (idx k = 0; k < m && k < n; ++k) {
    idx pivot = k;
    for (idx i = k + 1; i < m; ++i)
      if (magnitude(x[i * n + k]) > magnitude(x[pivot * n + k])) pivot = i;
    SYNC();
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
    SYNC();
    const real by = x[k * n + k];
    if (by != 0) EACH(i, k + 1, m) x[i * n + k] /= by;
    SYNC();
    const idx wide = n - k - 1;
    EACH(e, 0, (m - k - 1) * wide) {
      const idx i = k + 1 + e / wide, j = k + 1 + e % wide;
      x[i * n + j] -= x[i * n + k] * x[k * n + j];
    }
    SYNC();
  }
}
extern "C" __global__ void sinter_factor(const real* a, idx* rows, idx* swaps, real* x, idx count, idx m, idx n,
                                         idx, idx, idx, idx steps, idx, idx, idx) {
  MATRICES(m > n ? m : n, factor<Alone>(a + k * m * n, rows + k * m, swaps + k * steps, x + k * m * n, m, n))
}
)";

inline constexpr const char* qr_text = R"(
// Applies reflector k, below the diagonal of v, to the columns of x from `first` on.
template <bool Alone>
static __device__ void reflect(const real* v, idx k, real* x, idx first, idx m, idx n) {
  real length = 1;
  for (idx i = k + 1; i < m; ++i) length += v[i * n + k] * v[i * n + k];
  EACH(j, first, n) {
    real s = x[k * n + j];
    for (idx i = k + 1; i < m; ++i) s += v[i * n + k] * x[i * n + j];
    s *= 2 / length;
    x[k * n + j] -= s;
    for (idx i = k + 1; i < m; ++i) x[i * n + j] -= v[i * n + k] * s;
  }
}
template <bool Alone>
static __device__ void factor(const real* a, real* q, real* r, idx m, idx n) {
  EACH(i, 0, m * n) q[i] = a[i];
  EACH(i, 0, n * n) r[i] = 0;
  SYNC();
  for (idx k = 0; k < n; ++k) {
    real most = 0;
    for (idx i = k; i < m; ++i) {
      const real size = magnitude(q[i * n + k]);
      if (size > most || size != size) most = size;  // NaN stays
    }
    double sum = 0;
    for (idx i = k; i < m && most != 0; ++i) {
      const double x = (double)q[i * n + k] / (double)most;
      sum += x * x;
    }
    const real norm = (real)sqrt(sum) * most, to = q[k * n + k] > 0 ? -norm : norm, by = q[k * n + k] - to;
    SYNC();
    EACH(i, k + 1, m) if (by != 0) q[i * n + k] /= by;
    EACH(j, 0, 1) r[k * n + k] = to;
    SYNC();
    reflect<Alone>(q, k, q, k + 1, m, n);
    SYNC();
    EACH(j, k + 1, n) r[k * n + j] = q[k * n + j];
    SYNC();
  }
  // Reflector k is column k of q until it is applied: columns from k + 1 on are q's own by then.
  for (idx k = n; k-- > 0;) {
    real length = 1;
    for (idx i = k + 1; i < m; ++i) length += q[i * n + k] * q[i * n + k];
    EACH(j, k + 1, n) q[k * n + j] = 0;
    SYNC();
    reflect<Alone>(q, k, q, k + 1, m, n);
    SYNC();
    EACH(i, 0, m) q[i * n + k] = i < k ? 0 : i == k ? 1 - 2 / length : -q[i * n + k] * 2 / length;
    SYNC();
  }
  for (idx k = 0; k < n; ++k) {
    const bool turned = r[k * n + k] < 0;
    SYNC();
    if (turned) EACH(j, k, n) r[k * n + j] = -r[k * n + j];
    if (turned) EACH(i, 0, m) q[i * n + k] = -q[i * n + k];
  }
}
extern "C" __global__ void sinter_factor(const real* a, real* q, real* r, idx count, idx m, idx n, idx, idx, idx,
                                         idx, idx, idx) {
  MATRICES(m, factor<Alone>(a + k * m * n, q + k * m * n, r + k * n * n, m, n))
}
)";

/// Pairs of 0 … n − 1 in rounds: in each round every number is in at most one pair.
inline constexpr const char* rounds_text = R"(
static __device__ void pair_of(idx round, idx e, idx even, idx& p, idx& q) {
  const idx last = even - 1;
  const idx x = e == 0 ? last : (round + e) % last, y = (round + last - e) % last;
  p = x < y ? x : y;
  q = x < y ? y : x;
}
// The rotation that makes c vanish between a and b.
static __device__ void rotation(real a, real b, real c, real& cosine, real& sine) {
  const real zeta = (b - a) / (2 * c);
  const real t = (zeta < 0 ? (real)-1 : (real)1) / (magnitude(zeta) + root(1 + zeta * zeta));
  cosine = 1 / root(1 + t * t);
  sine = cosine * t;
}
)";

inline constexpr const char* eigh_text = R"(
template <bool Alone>
static __device__ void factor(const real* a, real* v, real* values, real* x, real* turn, idx n) {
  const bool finite = all_finite(a, n * n);
  const real scale = finite ? scale_of(a, n * n) : 1;
  EACH(i, 0, n * n) {
    x[i] = finite ? a[i] * scale : NONE;
    v[i] = finite ? i / n == i % n : NONE;
  }
  SYNC();
  const idx even = n + n % 2;
  for (int sweep = 0; finite && sweep < 40; ++sweep) {
    real all = 0, beside = 0;
    for (idx i = 0; i < n * n; ++i) (i / n == i % n ? all : beside) += x[i] * x[i];
    if (beside <= EPS * EPS / 16 * all) break;
    for (idx round = 0; round < even - 1; ++round) {
      SYNC();
      EACH(e, 0, even / 2) {
        idx p, q;
        pair_of(round, e, even, p, q);
        real c = 1, s = 0;
        if (q < n && x[p * n + q] != 0) rotation(x[p * n + p], x[q * n + q], x[p * n + q], c, s);
        turn[2 * e] = c;
        turn[2 * e + 1] = s;
      }
      SYNC();
      EACH(i, 0, even / 2 * n) {
        idx p, q;
        pair_of(round, i / n, even, p, q);
        if (q >= n) continue;
        const real c = turn[2 * (i / n)], s = turn[2 * (i / n) + 1];
        const idx k = i % n;
        const real f = x[k * n + p], g = x[k * n + q], u = v[k * n + p], w = v[k * n + q];
        x[k * n + p] = c * f - s * g;
        x[k * n + q] = s * f + c * g;
        v[k * n + p] = c * u - s * w;
        v[k * n + q] = s * u + c * w;
      }
      SYNC();
      EACH(i, 0, even / 2 * n) {
        idx p, q;
        pair_of(round, i / n, even, p, q);
        if (q >= n) continue;
        const real c = turn[2 * (i / n)], s = turn[2 * (i / n) + 1];
        const idx k = i % n;
        const real f = x[p * n + k], g = x[q * n + k];
        x[p * n + k] = c * f - s * g;
        x[q * n + k] = s * f + c * g;
      }
      SYNC();
      EACH(e, 0, even / 2) {
        idx p, q;
        pair_of(round, e, even, p, q);
        if (q < n) x[p * n + q] = x[q * n + p] = 0;
      }
    }
    SYNC();
  }
  SYNC();
  EACH(i, 0, n) turn[i] = x[i * n + i];
  SYNC();
  EACH(i, 0, n * n) x[i] = v[i];
  SYNC();
  EACH(j, 0, n) {
    idx place = 0;
    for (idx i = 0; i < n; ++i) place += finite ? turn[i] < turn[j] || (turn[i] == turn[j] && i < j) : i < j;
    values[place] = turn[j] / scale;
    const real by = points_down(x + j, n, n) ? -1 : 1;
    for (idx i = 0; i < n; ++i) v[i * n + place] = by * x[i * n + j];
  }
}
extern "C" __global__ void sinter_factor(const real* a, real* v, real* values, idx* work, idx* turns, idx count, idx n,
                                         idx, idx, idx, idx, idx, idx, idx, idx, idx, idx, idx,
                                         idx) {
  MATRICES(n, factor<Alone>(a + k * n * n, v + k * n * n, values + k * n, (real*)(work + k * n * n),
                            (real*)(turns + k * 2 * n), n))
}
)";

inline constexpr const char* svd_text = R"(
// Makes column k of u, which has `done` good columns before it, a unit vector orthogonal to those; c has room for n.
template <bool Alone>
static __device__ void complete(real* u, idx k, idx m, idx n, real* c) {
  real best = -1;
  idx at = 0;
  for (idx i = 0; i < m; ++i) {
    real left = 1;
    for (idx j = 0; j < k; ++j) left -= u[i * n + j] * u[i * n + j];
    if (left > best) best = left, at = i;
  }
  SYNC();
  EACH(i, 0, m) u[i * n + k] = i == at;
  for (int turn = 0; turn < 2; ++turn) {
    SYNC();
    EACH(j, 0, k) {
      c[j] = 0;
      for (idx i = 0; i < m; ++i) c[j] += u[i * n + j] * u[i * n + k];
    }
    SYNC();
    EACH(i, 0, m) for (idx j = 0; j < k; ++j) u[i * n + k] -= c[j] * u[i * n + j];
    SYNC();
    real length = 0;
    for (idx i = 0; i < m; ++i) length += u[i * n + k] * u[i * n + k];
    SYNC();
    EACH(i, 0, m) u[i * n + k] /= root(length);
  }
  SYNC();
}
// Rotates pairs of columns of w, and rows of v, until columns are orthogonal.
template <bool Alone>
static __device__ void turn_columns(real* w, real* v, real* turn, idx m, idx n, real tiny) {
  const idx even = n + n % 2;
  bool turns = true;
  for (int sweep = 0; turns && sweep < 60; ++sweep) {
    turns = false;
    for (idx round = 0; round < even - 1; ++round) {
      SYNC();
      EACH(e, 0, even / 2) {
        idx p, q;
        pair_of(round, e, even, p, q);
        real c = 1, s = 0, aa = 0, bb = 0, ab = 0;
        for (idx i = 0; q < n && i < m; ++i) {
          const real x = w[i * n + p], y = w[i * n + q];
          aa += x * x;
          bb += y * y;
          ab += x * y;
        }
        if (aa > tiny && bb > tiny && magnitude(ab) > EPS * root(aa * bb)) rotation(aa, bb, ab, c, s);
        turn[2 * e] = c;
        turn[2 * e + 1] = s;
      }
      SYNC();
      for (idx e = 0; e < even / 2; ++e) turns = turns || turn[2 * e + 1] != 0;
      EACH(i, 0, even / 2 * (m + n)) {
        const idx e = i / (m + n), k = i % (m + n);
        idx p, q;
        pair_of(round, e, even, p, q);
        if (q >= n) continue;
        const real c = turn[2 * e], s = turn[2 * e + 1];
        real* const x = k < m ? w + k * n + p : v + p * n + k - m;
        real* const y = k < m ? w + k * n + q : v + q * n + k - m;
        const real f = *x, g = *y;
        *x = c * f - s * g;
        *y = s * f + c * g;
      }
    }
    SYNC();
  }
  SYNC();
}
template <bool Alone>
static __device__ void factor(const real* a, real* u, real* s, real* v, real* x, real* turn, idx m, idx n) {
  const bool finite = all_finite(a, m * n);
  const real scale = finite ? scale_of(a, m * n) : 1;
  EACH(i, 0, m * n) u[i] = finite ? a[i] * scale : NONE;
  EACH(i, 0, n * n) v[i] = finite ? i / n == i % n : NONE;
  EACH(i, 0, n) if (!finite) s[i] = NONE;
  SYNC();
  if (!finite || n == 0) return;
  real all = 0;
  for (idx i = 0; i < m * n; ++i) all += u[i] * u[i];
  const real tiny = all * EPS * EPS;
  turn_columns<Alone>(u, v, turn, m, n, tiny);
  EACH(j, 0, n) {
    real sum = 0;
    for (idx i = 0; i < m; ++i) sum += u[i * n + j] * u[i * n + j];
    turn[j] = root(sum);
  }
  SYNC();
  EACH(i, 0, m * n) x[i] = u[i];
  EACH(i, 0, n * n) x[m * n + i] = v[i];
  SYNC();
  EACH(j, 0, n) {
    idx place = 0;
    for (idx i = 0; i < n; ++i) place += turn[i] > turn[j] || (turn[i] == turn[j] && i < j);
    s[place] = turn[j];
    for (idx i = 0; i < m; ++i) u[i * n + place] = x[i * n + j] / turn[j];
    for (idx i = 0; i < n; ++i) v[place * n + i] = x[m * n + j * n + i];
  }
  SYNC();
  for (idx k = 0; k < n; ++k)
    if (s[k] * s[k] <= tiny) complete<Alone>(u, k, m, n, turn);
  SYNC();
  EACH(k, 0, n) {
    const real by = points_down(u + k, m, n) ? -1 : 1;
    for (idx i = 0; i < m; ++i) u[i * n + k] *= by;
    for (idx i = 0; i < n; ++i) v[k * n + i] *= by;
    s[k] /= scale;
  }
}
extern "C" __global__ void sinter_factor(const real* a, real* u, real* s, real* v, idx* work, idx* turns, idx count,
                                         idx m, idx n, idx, idx, idx, idx, idx, idx, idx, idx, idx,
                                         idx, idx, idx, idx, idx) {
  MATRICES(m, factor<Alone>(a + k * m * n, u + k * m * n, s + k * n, v + k * n * n, (real*)(work + k * (m + n) * n),
                            (real*)(turns + k * 2 * n), m, n))
}
)";

/// The text of one factorisation; `entry` is "sinter_factor". `large` is for matrices that a block factorises by panels.
inline std::string factor_source(const std::string& what, dtype type, bool lower, bool unit, bool large = false) {
  const bool twofold = type == dtype::f64;
  std::string out = twofold
                        ? "typedef double real;\n#define EPS 2.2204460492503131e-16\n#define LARGEST_SCALE 0x1p1022\n"
                        : "typedef float real;\n#define EPS 1.1920929e-7f\n#define LARGEST_SCALE 0x1p126f\n";
  out += lower ? "#define LOWER true\n" : "#define LOWER false\n";
  out += unit ? "#define UNIT true\n" : "#define UNIT false\n";
  if (large && panels_text(what) != nullptr)
    return out + (twofold ? "#define PANEL 16\n" : "#define PANEL 32\n") + factor_prelude + panel_prelude +
           panels_text(what);
  // Matrices k of a block, or of a thread.
  out +=
      "#define MATRICES(size, CALL)                                                               \\\n"
      "  if ((size) > alone) {                                                                    \\\n"
      "    const bool Alone = false;                                                              \\\n"
      "    for (idx k = blockIdx.x; k < count; k += gridDim.x) {                                \\\n"
      "      CALL;                                                                                \\\n"
      "      __syncthreads();                                                                     \\\n"
      "    }                                                                                      \\\n"
      "  } else {                                                                                 \\\n"
      "    const bool Alone = true;                                                               \\\n"
      "    for (idx k = (idx)blockIdx.x * blockDim.x + threadIdx.x; k < count; k += (idx)gridDim.x * blockDim.x) { \\\n"
      "      CALL;                                                                                \\\n"
      "    }                                                                                      \\\n"
      "  }\n";
  out += factor_prelude;
  if (what == "eigh" || what == "svd") out += rounds_text;
  out += what == "cholesky"     ? cholesky_text
         : what == "triangular" ? triangular_text
         : what == "lu"         ? lu_text
         : what == "qr"         ? qr_text
         : what == "eigh"       ? eigh_text
                                : svd_text;
  return out;
}

}  // namespace sinter::engine::emit
