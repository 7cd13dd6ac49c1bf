// emit/cuda/fourier.hpp: Fourier transforms of rows as CUDA C++: Stockham's passes by a block, of short rows in shared memory.
#pragma once

#include <string>

#include "../../base/dtype.hpp"

namespace sinter::engine::emit {

inline constexpr const char* fourier_text = R"(
typedef long long idx;
typedef unsigned int word;
// Rows that fit in shared memory are transformed there, as many at once as do.
#define FIT 1024
// Of at most an eighth of the circle, by their series; each term by the one before.
static __device__ void sine_cosine(real x, real& s, real& c) {
  const real q = x * x;
  real u = 1, v = 1;
#pragma unroll
  for (int k = TERMS; k > 0; --k) {
    u = 1 - q * u * (real)(1.0 / (2 * k * (2 * k + 1)));
    v = 1 - q * v * (real)(1.0 / (2 * k * (2 * k - 1)));
  }
  s = x * u;
  c = v;
}
// exp(-2 pi i k / n).
static __device__ void root(idx k, idx n, real& c, real& s) {
  idx a = 8 * (k % n);
  const bool up = a > 4 * n;
  if (up) a = 8 * n - a;
  const bool left = a > 2 * n;
  if (left) a = 4 * n - a;
  const bool steep = a > n;
  if (steep) a = 2 * n - a;
  const real angle = (real)3.141592653589793 * ((real)a / (real)(4 * n));
  real sine, cosine;
  sine_cosine(angle, sine, cosine);
  const real x = steep ? sine : cosine, y = steep ? cosine : sine;
  c = left ? -x : x;
  s = up ? y : -y;
}
static __device__ word radix_of(word n) {
  if (n % 4 == 0) return 4;
  if (n % 2 == 0) return 2;
  for (word r = 3; r * r <= n; r += 2)
    if (n % r == 0) return r;
  return n;
}
// A pass whose butterflies are of four.
static __device__ void fours(const real* x, real* y, word all, word n, word left, word s, int in, int out, real scale) {
  const word m = left / 4, each = n / 4;
  for (word e = threadIdx.x; e < all / 4; e += blockDim.x) {
    const word row = e / each * n, o = e % each, q = o % s, p = o / s;
    real re[4], im[4], c, w;
    for (word k = 0; k < 4; ++k) {
      const word at = 2 * (row + q + s * (p + m * k));
      re[k] = x[at + in];
      im[k] = x[at + 1 - in];
    }
    const real ar = re[0] + re[2], ai = im[0] + im[2], br = re[0] - re[2], bi = im[0] - im[2];
    const real dr = re[1] + re[3], di = im[1] + im[3], er = re[1] - re[3], ei = im[1] - im[3];
    re[0] = ar + dr, im[0] = ai + di;
    re[1] = br + ei, im[1] = bi - er;
    re[2] = ar - dr, im[2] = ai - di;
    re[3] = br - ei, im[3] = bi + er;
    for (word j = 0; j < 4; ++j) {
      const word at = 2 * (row + q + s * (4 * p + j));
      root((idx)p * j, left, c, w);
      y[at + out] = (re[j] * c - im[j] * w) * scale;
      y[at + 1 - out] = (re[j] * w + im[j] * c) * scale;
    }
  }
}
// A pass of any radix: a thread an element.
static __device__ void sums(const real* x, real* y, word all, word n, word left, word r, word s, int in, int out,
                            real scale) {
  const word m = left / r;
  for (word e = threadIdx.x; e < all; e += blockDim.x) {
    const word row = e / n * n, o = e % n, q = o % s, t = o / s, p = t / r, j = t % r;
    real re = 0, im = 0;
    for (word k = 0; k < r; ++k) {
      const word at = 2 * (row + q + s * (p + m * k));
      const real a = x[at + in], b = x[at + 1 - in];
      if (j == 0) {
        re += a;
        im += b;
      } else {
        real c, w;
        root((idx)j * (p + m * k), left, c, w);
        re += a * c - b * w;
        im += a * w + b * c;
      }
    }
    const word at = 2 * e;
    y[at + out] = re * scale;
    y[at + 1 - out] = im * scale;
  }
}
extern "C" __global__ void sinter_fourier(const real* x, real* y, real* work, idx count, idx extent, idx, idx, idx, idx,
                                          idx, idx, idx) {
  __shared__ real room[4 * FIT];
  const word n = (word)extent;
  const bool fits = n <= FIT;
  const idx group = fits && n > 0 ? FIT / n : 1;
  const real last = SCALE == 0 ? (real)1 : SCALE == 2 ? (real)(1.0 / (double)n) : (real)(1.0 / sqrt((double)n));
  int passes = 0;
  for (word left = n; left > 1; left /= radix_of(left)) ++passes;
  for (idx first = blockIdx.x * group; n > 0 && first < count; first += gridDim.x * group) {
    const word rows = (word)(count - first < group ? count - first : group), all = rows * n;
    const real* from = x + 2 * first * n;
    real* const to = y + 2 * first * n;
    real* const other = work + 2 * first * n;
    if (passes == 0)
      for (word e = threadIdx.x; e < 2 * all; e += blockDim.x) to[e] = from[e];
    word left = n, s = 1;
    for (int i = 0; i < passes; ++i) {
      const word r = radix_of(left);
      const bool ends = i + 1 == passes;
      real* const next = ends ? to : fits ? room + 2 * FIT * (i % 2) : (passes - i) % 2 ? to : other;
      const int in = i == 0 ? SWAP : 0, out = ends ? SWAP : 0;
      if (r == 4) fours(from, next, all, n, left, s, in, out, ends ? last : (real)1);
      else sums(from, next, all, n, left, r, s, in, out, ends ? last : (real)1);
      __syncthreads();
      from = next;
      left /= r;
      s *= r;
    }
  }
}
)";

/// The text of transforms; `entry` is "sinter_fourier". `scale` is 0 for none, 1 for 1 / √n and 2 for 1 / n.
inline std::string fourier_source(dtype type, bool inverse, int scale) {
  std::string out =
      type == dtype::f64 ? "typedef double real;\n#define TERMS 9\n" : "typedef float real;\n#define TERMS 5\n";
  out += inverse ? "#define SWAP 1\n" : "#define SWAP 0\n";
  return out + "#define SCALE " + std::to_string(scale) + "\n" + fourier_text;
}

}  // namespace sinter::engine::emit
