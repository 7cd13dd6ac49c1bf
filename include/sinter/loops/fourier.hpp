// loops/fourier.hpp: Fourier transforms of rows on the host: mixed radices, chirps for large primes, long rows as matrices.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "../base/config.hpp"
#include "space.hpp"
#include "wide.hpp"

namespace sinter::engine::fourier_loops {

/// Rows of complex numbers to transform. An inverse transform is a forward one with the parts exchanged on both sides: `swap`
/// is 1.
template <class T>
struct task {
  const T* in = nullptr;
  T* out = nullptr;
  std::int64_t rows = 0, n = 0;
  int swap = 0;
  T scale = 1;
};

/// exp(-2πi·k / n), by an angle of at most an eighth of the circle.
inline std::pair<double, double> root_of_unity(std::int64_t k, std::int64_t n) {
  std::int64_t a = 8 * (k % n);
  const bool up = a > 4 * n;
  if (up) a = 8 * n - a;
  const bool left = a > 2 * n;
  if (left) a = 4 * n - a;
  const bool steep = a > n;
  if (steep) a = 2 * n - a;
  const double angle = 3.141592653589793 * static_cast<double>(a) / (4 * static_cast<double>(n));
  double c = std::cos(angle), s = std::sin(angle);
  if (steep) std::swap(c, s);
  return {left ? -c : c, up ? s : -s};
}

/// Real and imaginary parts of [n][lanes].
template <class T>
struct planes {
  T *re = nullptr, *im = nullptr;

  planes at(std::int64_t i) const { return {re + i, im + i}; }
  planes swapped() const { return {im, re}; }
};

/// The number of rows that are transformed together.
inline constexpr std::int64_t max_lanes = 8;
/// The largest factor of a pass; a row with a larger prime factor is convolved with a chirp.
inline constexpr std::int64_t largest_radix = 13;
/// The length from which a row is a matrix whose columns and rows are transformed.
inline constexpr std::int64_t long_row = 1 << 15;

/// One pass: sums of `radix` elements at distance m, multiplied by twiddle factors. `stride` consecutive elements are treated
/// alike, in Stockham's order.
template <class T>
struct stage {
  std::int64_t radix = 0, m = 0;
  std::vector<T> turns;  ///< [m][radix - 1] of exp(-2πi·pj / (radix·m))
  std::vector<T> roots;  ///< of unity, for a radix without its own formula
};

template <class T>
SINTER_INLINE void put(const planes<T>& to, std::int64_t at, std::int64_t q, T re, T im, const T* w) {
  to.re[at + q] = re * w[0] - im * w[1];
  to.im[at + q] = re * w[1] + im * w[0];
}

template <class T>
SINTER_INLINE void pass_2(const stage<T>& g, const planes<T>& x, const planes<T>& y, std::int64_t s) {
  for (std::int64_t p = 0; p < g.m; ++p) {
    const std::int64_t a = s * p, b = a + s * g.m, c = 2 * s * p;
    const T* __restrict const w = g.turns.data() + 2 * p;
    const T* __restrict const re = x.re, * __restrict const im = x.im;
    const planes<T> to = y;
#pragma omp simd
    for (std::int64_t q = 0; q < s; ++q) {
      const T ar = re[a + q], ai = im[a + q], br = re[b + q], bi = im[b + q];
      to.re[c + q] = ar + br;
      to.im[c + q] = ai + bi;
      put(to, c + s, q, ar - br, ai - bi, w);
    }
  }
}

template <class T>
SINTER_INLINE void pass_3(const stage<T>& g, const planes<T>& x, const planes<T>& y, std::int64_t s) {
  constexpr T half = T(0.5), height = T(0.86602540378443864676);
  for (std::int64_t p = 0; p < g.m; ++p) {
    const std::int64_t a = s * p, step = s * g.m, c = 3 * s * p;
    const T* __restrict const w = g.turns.data() + 4 * p;
    const T* __restrict const re = x.re, * __restrict const im = x.im;
    const planes<T> to = y;
#pragma omp simd
    for (std::int64_t q = 0; q < s; ++q) {
      const T ar = re[a + q], ai = im[a + q], br = re[a + step + q], bi = im[a + step + q], cr = re[a + 2 * step + q],
              ci = im[a + 2 * step + q];
      const T sr = br + cr, si = bi + ci, dr = height * (br - cr), di = height * (bi - ci);
      const T mr = ar - half * sr, mi = ai - half * si;
      to.re[c + q] = ar + sr;
      to.im[c + q] = ai + si;
      put(to, c + s, q, mr + di, mi - dr, w);
      put(to, c + 2 * s, q, mr - di, mi + dr, w + 2);
    }
  }
}

template <class T>
SINTER_INLINE void pass_4(const stage<T>& g, const planes<T>& x, const planes<T>& y, std::int64_t s) {
  for (std::int64_t p = 0; p < g.m; ++p) {
    const std::int64_t a = s * p, step = s * g.m, c = 4 * s * p;
    const T* __restrict const w = g.turns.data() + 6 * p;
    const T* __restrict const re = x.re, * __restrict const im = x.im;
    const planes<T> to = y;
#pragma omp simd
    for (std::int64_t q = 0; q < s; ++q) {
      const T ar = re[a + q], ai = im[a + q], br = re[a + step + q], bi = im[a + step + q], cr = re[a + 2 * step + q],
              ci = im[a + 2 * step + q], dr = re[a + 3 * step + q], di = im[a + 3 * step + q];
      const T er = ar + cr, ei = ai + ci, fr = ar - cr, fi = ai - ci, gr = br + dr, gi = bi + di, hr = br - dr,
              hi = bi - di;
      to.re[c + q] = er + gr;
      to.im[c + q] = ei + gi;
      put(to, c + s, q, fr + hi, fi - hr, w);
      put(to, c + 2 * s, q, er - gr, ei - gi, w + 2);
      put(to, c + 3 * s, q, fr - hi, fi + hr, w + 4);
    }
  }
}

template <class T>
SINTER_INLINE void pass_5(const stage<T>& g, const planes<T>& x, const planes<T>& y, std::int64_t s) {
  constexpr T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410), s1 = T(0.95105651629515357212),
              s2 = T(0.58778525229247312917);
  for (std::int64_t p = 0; p < g.m; ++p) {
    const std::int64_t a = s * p, step = s * g.m, c = 5 * s * p;
    const T* __restrict const w = g.turns.data() + 8 * p;
    const T* __restrict const re = x.re, * __restrict const im = x.im;
    const planes<T> to = y;
#pragma omp simd
    for (std::int64_t q = 0; q < s; ++q) {
      const T ar = re[a + q], ai = im[a + q];
      const T br = re[a + step + q], bi = im[a + step + q], er = re[a + 4 * step + q], ei = im[a + 4 * step + q];
      const T cr = re[a + 2 * step + q], ci = im[a + 2 * step + q], dr = re[a + 3 * step + q],
              di = im[a + 3 * step + q];
      const T ur = br + er, ui = bi + ei, vr = br - er, vi = bi - ei;
      const T tr = cr + dr, ti = ci + di, zr = cr - dr, zi = ci - di;
      const T m1r = ar + c1 * ur + c2 * tr, m1i = ai + c1 * ui + c2 * ti;
      const T m2r = ar + c2 * ur + c1 * tr, m2i = ai + c2 * ui + c1 * ti;
      const T n1r = s1 * vr + s2 * zr, n1i = s1 * vi + s2 * zi;
      const T n2r = s2 * vr - s1 * zr, n2i = s2 * vi - s1 * zi;
      to.re[c + q] = ar + ur + tr;
      to.im[c + q] = ai + ui + ti;
      put(to, c + s, q, m1r + n1i, m1i - n1r, w);
      put(to, c + 2 * s, q, m2r + n2i, m2i - n2r, w + 2);
      put(to, c + 3 * s, q, m2r - n2i, m2i + n2r, w + 4);
      put(to, c + 4 * s, q, m1r - n1i, m1i + n1r, w + 6);
    }
  }
}

/// A pass of any radix, by the definition.
template <class T>
SINTER_INLINE void pass_any(const stage<T>& g, const planes<T>& x, const planes<T>& y, std::int64_t s) {
  const std::int64_t r = g.radix, step = s * g.m;
  for (std::int64_t p = 0; p < g.m; ++p)
    for (std::int64_t j = 0; j < r; ++j) {
      const std::int64_t c = s * (r * p + j);
      T* __restrict const re = y.re + c;
      T* __restrict const im = y.im + c;
      const T* __restrict a = x.re + s * p, * __restrict b = x.im + s * p;
      for (std::int64_t q = 0; q < s; ++q) {
        re[q] = a[q];
        im[q] = b[q];
      }
      for (std::int64_t k = 1; k < r; ++k) {
        a += step;
        b += step;
        const T wr = g.roots[static_cast<std::size_t>(2 * (j * k % r))],
                wi = g.roots[static_cast<std::size_t>(2 * (j * k % r) + 1)];
#pragma omp simd
        for (std::int64_t q = 0; q < s; ++q) {
          re[q] += a[q] * wr - b[q] * wi;
          im[q] += a[q] * wi + b[q] * wr;
        }
      }
      if (j == 0) continue;
      const T* const w = g.turns.data() + 2 * (p * (r - 1) + j - 1);
#pragma omp simd
      for (std::int64_t q = 0; q < s; ++q) {
        const T f = re[q], h = im[q];
        re[q] = f * w[0] - h * w[1];
        im[q] = f * w[1] + h * w[0];
      }
    }
}

template <class T>
SINTER_INLINE void pass(const stage<T>& g, const planes<T>& x, const planes<T>& y, std::int64_t s) {
  switch (g.radix) {
    case 2:
      return pass_2(g, x, y, s);
    case 3:
      return pass_3(g, x, y, s);
    case 4:
      return pass_4(g, x, y, s);
    case 5:
      return pass_5(g, x, y, s);
    default:
      return pass_any(g, x, y, s);
  }
}
template <class T>
SINTER_WIDE void pass_wide(const stage<T>& g, const planes<T>& x, const planes<T>& y, std::int64_t s) {
  pass(g, x, y, s);
}
template <class T>
void pass_narrow(const stage<T>& g, const planes<T>& x, const planes<T>& y, std::int64_t s) {
  pass(g, x, y, s);
}

/// x[q] *= w for `count` numbers, each with `lanes` lanes.
template <class T>
void multiply(const planes<T>& x, const std::vector<T>& w, std::int64_t count, std::int64_t lanes) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T wr = w[static_cast<std::size_t>(2 * i)], wi = w[static_cast<std::size_t>(2 * i + 1)];
    T* __restrict const re = x.re + i * lanes;
    T* __restrict const im = x.im + i * lanes;
#pragma omp simd
    for (std::int64_t q = 0; q < lanes; ++q) {
      const T a = re[q], b = im[q];
      re[q] = a * wr - b * wi;
      im[q] = a * wi + b * wr;
    }
  }
}

/// The method of transforming rows of one length.
template <class T>
struct plan {
  std::int64_t n = 0;
  std::vector<stage<T>> stages;
  /// For a large prime factor: a chirp of n, the spectrum of its conjugate, and the plan for rows of that length.
  std::shared_ptr<const plan> convolved;
  std::vector<T> chirp, spectrum;
  /// For a long row as a matrix [columns->n][rows->n]: the factors of its elements between the two transforms.
  std::shared_ptr<const plan> columns, rows;
  std::vector<T> turns;

  /// The number of a row's elements in a buffer.
  std::int64_t room() const { return convolved ? convolved->n : n; }

  /// The transform of [n][lanes] in x; z has the same size. The result is in one of them.
  planes<T> run(planes<T> x, planes<T> z, std::int64_t lanes) const {
    if (convolved) return convolve(x, z, lanes);
    std::int64_t s = lanes;
    for (const auto& g : stages) {
      is_wide() ? pass_wide(g, x, z, s) : pass_narrow(g, x, z, s);
      std::swap(x, z);
      s *= g.radix;
    }
    return x;
  }

  std::size_t size() const {
    std::size_t all = chirp.size() + spectrum.size() + turns.size();
    for (const auto& g : stages) all += g.turns.size() + g.roots.size();
    for (const auto& other : {convolved, columns, rows}) all += other ? other->size() : 0;
    return all;
  }

 private:
  /// Bluestein: jk is (j² + k² - (k - j)²) / 2.
  planes<T> convolve(planes<T> x, planes<T> z, std::int64_t lanes) const {
    const std::int64_t m = convolved->n;
    multiply(x, chirp, n, lanes);
    std::fill_n(x.re + n * lanes, (m - n) * lanes, T(0));
    std::fill_n(x.im + n * lanes, (m - n) * lanes, T(0));
    const planes<T> there = convolved->run(x, z, lanes);
    multiply(there, spectrum, m, lanes);
    const planes<T> other = there.re == x.re ? z : x;
    const planes<T> back = convolved->run(there.swapped(), other.swapped(), lanes).swapped();
    multiply(back, chirp, n, lanes);
    return back;
  }
};

template <class T>
using plan_pointer = std::shared_ptr<const plan<T>>;

template <class T>
void add_root(std::vector<T>& to, std::int64_t k, std::int64_t n) {
  const auto [c, s] = root_of_unity(k, n);
  to.push_back(static_cast<T>(c));
  to.push_back(static_cast<T>(s));
}

/// The factors of n for passes, fours first; a factor without a pass comes last.
inline std::vector<std::int64_t> radices_of(std::int64_t n) {
  std::vector<std::int64_t> out;
  for (const std::int64_t r : {4, 2, 3, 5, 7, 11, 13})
    for (; n % r == 0; n /= r) out.push_back(r);
  if (n > 1) out.push_back(n);
  return out;
}

template <class T>
plan_pointer<T> make_plan(std::int64_t n, bool as_matrix);

template <class T>
void add_passes(plan<T>& out, const std::vector<std::int64_t>& radices) {
  std::int64_t left = out.n;
  for (const std::int64_t r : radices) {
    stage<T> g;
    g.radix = r;
    g.m = left / r;
    for (std::int64_t p = 0; p < g.m; ++p)
      for (std::int64_t j = 1; j < r; ++j) add_root(g.turns, p * j, left);
    for (std::int64_t k = 0; r > 5 && k < r; ++k) add_root(g.roots, k, r);
    out.stages.push_back(std::move(g));
    left = left / r;
  }
}

template <class T>
void add_chirp(plan<T>& out) {
  const std::int64_t n = out.n;
  std::int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  out.convolved = make_plan<T>(m, false);
  __extension__ typedef unsigned __int128 wide;
  const auto square = [&](std::int64_t k) {
    return static_cast<std::int64_t>(static_cast<wide>(k) * static_cast<wide>(k) % static_cast<wide>(2 * n));
  };
  for (std::int64_t k = 0; k < n; ++k) add_root(out.chirp, square(k), 2 * n);
  // In double, so that the kept numbers round only once.
  const auto exact = make_plan<double>(m, false);
  std::vector<double> room(static_cast<std::size_t>(4 * m));
  const planes<double> x{room.data(), room.data() + m}, z{room.data() + 2 * m, room.data() + 3 * m};
  for (std::int64_t k = 0; k < n; ++k) {
    const auto [c, s] = root_of_unity(square(k), 2 * n);
    x.re[k] = c;
    x.im[k] = -s;
    if (k > 0) x.re[m - k] = c, x.im[m - k] = -s;
  }
  const planes<double> y = exact->run(x, z, 1);
  for (std::int64_t k = 0; k < m; ++k) {
    out.spectrum.push_back(static_cast<T>(y.re[k] / static_cast<double>(m)));
    out.spectrum.push_back(static_cast<T>(y.im[k] / static_cast<double>(m)));
  }
}

/// The largest factor of n that is at most its root, or 1.
inline std::int64_t side_of(std::int64_t n) {
  auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(n)));
  while (side > 1 && (n % side != 0 || side * side > n)) --side;
  return std::max<std::int64_t>(side, 1);
}

template <class T>
plan_pointer<T> make_plan(std::int64_t n, bool as_matrix) {
  const auto out = std::make_shared<plan<T>>();
  out->n = n;
  const std::int64_t side = as_matrix ? side_of(n) : 1;
  if (side >= max_lanes) {
    out->columns = make_plan<T>(side, false);
    out->rows = make_plan<T>(n / side, false);
    out->turns.reserve(static_cast<std::size_t>(2 * n));
    for (std::int64_t k = 0; k < side; ++k)
      for (std::int64_t i = 0; i < n / side; ++i) add_root(out->turns, k * i, n);
    return out;
  }
  const auto radices = radices_of(n);
  if (!radices.empty() && radices.back() > largest_radix) add_chirp(*out);
  else add_passes(*out, radices);
  return out;
}

/// The plan for a length, kept for the next call.
template <class T>
plan_pointer<T> find_plan(std::int64_t n, bool as_matrix) {
  static std::mutex lock;
  static std::vector<std::pair<bool, plan_pointer<T>>> kept;
  static std::size_t all = 0;
  constexpr std::size_t most = std::size_t{1} << 24, max_plans = 64;
  const std::lock_guard guard(lock);
  for (const auto& [matrix, p] : kept)
    if (p->n == n && matrix == as_matrix) return p;
  const auto made = make_plan<T>(n, as_matrix);
  if (all + made->size() > most || kept.size() >= max_plans) kept.clear(), all = 0;
  if (made->size() <= most) kept.emplace_back(as_matrix, made), all += made->size();
  return made;
}

/// Work memory of this thread; `Which` distinguishes buffers that are used together.
template <class T, int Which = 0>
class scratch {
 public:
  explicit scratch(std::int64_t n) : own_(kept()) { own_.resize(static_cast<std::size_t>(n)); }
  ~scratch() {
    if (own_.size() > (std::size_t{1} << 23)) std::vector<T>().swap(own_);
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  T* data() const { return own_.data(); }

 private:
  static std::vector<T>& kept() {
    thread_local std::vector<T> room;
    return room;
  }
  std::vector<T>& own_;
};

/// Two buffers of a plan for this number of lanes.
template <class T>
struct buffers {
  planes<T> x, z;
  buffers(T* room, std::int64_t size) : x{room, room + size}, z{room + 2 * size, room + 3 * size} {}
};

/// Transforms rows [first, first + lanes) by passes.
template <class T>
void transform_lanes(const plan<T>& how, const task<T>& what, std::int64_t first, std::int64_t lanes) {
  const std::int64_t n = how.n;
  const scratch<T> room(4 * how.room() * lanes);
  const buffers<T> b(room.data(), how.room() * lanes);
  for (std::int64_t l = 0; l < lanes; ++l) {
    const T* const from = what.in + 2 * (first + l) * n;
    for (std::int64_t i = 0; i < n; ++i) {
      b.x.re[i * lanes + l] = from[2 * i + what.swap];
      b.x.im[i * lanes + l] = from[2 * i + 1 - what.swap];
    }
  }
  const planes<T> y = how.run(b.x, b.z, lanes);
  for (std::int64_t l = 0; l < lanes; ++l) {
    T* const to = what.out + 2 * (first + l) * n;
    for (std::int64_t i = 0; i < n; ++i) {
      to[2 * i + what.swap] = y.re[i * lanes + l] * what.scale;
      to[2 * i + 1 - what.swap] = y.im[i * lanes + l] * what.scale;
    }
  }
}

/// Transforms columns [first, first + lanes) of a row as a matrix into `work`, with their factors.
template <class T>
void transform_columns(const plan<T>& how, const task<T>& what, const T* in, T* work, std::int64_t first,
                       std::int64_t lanes) {
  const std::int64_t height = how.columns->n, width = how.rows->n, size = how.columns->room() * lanes;
  const scratch<T> room(4 * size);
  const buffers<T> b(room.data(), size);
  for (std::int64_t i = 0; i < height; ++i) {
    const T* const from = in + 2 * (i * width + first);
    for (std::int64_t l = 0; l < lanes; ++l) {
      b.x.re[i * lanes + l] = from[2 * l + what.swap];
      b.x.im[i * lanes + l] = from[2 * l + 1 - what.swap];
    }
  }
  const planes<T> y = how.columns->run(b.x, b.z, lanes);
  for (std::int64_t k = 0; k < height; ++k) {
    const std::int64_t at = 2 * (k * width + first);
    const T* const w = how.turns.data() + at;
    for (std::int64_t l = 0; l < lanes; ++l) {
      const T re = y.re[k * lanes + l], im = y.im[k * lanes + l];
      work[at + 2 * l] = re * w[2 * l] - im * w[2 * l + 1];
      work[at + 2 * l + 1] = re * w[2 * l + 1] + im * w[2 * l];
    }
  }
}

/// Transforms rows [first, first + lanes) of that matrix into columns of the result.
template <class T>
void transform_sides(const plan<T>& how, const task<T>& what, const T* work, T* out, std::int64_t first,
                     std::int64_t lanes) {
  const std::int64_t height = how.columns->n, width = how.rows->n, size = how.rows->room() * lanes;
  const scratch<T> room(4 * size);
  const buffers<T> b(room.data(), size);
  for (std::int64_t l = 0; l < lanes; ++l) {
    const T* const from = work + 2 * (first + l) * width;
    for (std::int64_t i = 0; i < width; ++i) {
      b.x.re[i * lanes + l] = from[2 * i];
      b.x.im[i * lanes + l] = from[2 * i + 1];
    }
  }
  const planes<T> y = how.rows->run(b.x, b.z, lanes);
  for (std::int64_t k = 0; k < width; ++k) {
    T* const to = out + 2 * (k * height + first);
    for (std::int64_t l = 0; l < lanes; ++l) {
      to[2 * l + what.swap] = y.re[k * lanes + l] * what.scale;
      to[2 * l + 1 - what.swap] = y.im[k * lanes + l] * what.scale;
    }
  }
}

/// f(first, lanes) for groups of at most max_lanes among n, on several threads.
template <class F>
void by_lanes(std::int64_t n, std::int64_t work, F&& f) {
  const std::int64_t groups = (n + max_lanes - 1) / max_lanes;
  sinter::detail::parallel(groups, work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) f(g * max_lanes, std::min(max_lanes, n - g * max_lanes));
  });
}

template <class T>
void transform(const task<T>& what) {
  const std::int64_t n = what.n;
  const bool as_matrix = n >= long_row || (what.rows == 1 && n >= 256);
  const auto how = find_plan<T>(n, as_matrix);
  const std::int64_t work = 16 * n;
  if (!how->columns) {
    by_lanes(what.rows, work * what.rows,
             [&](std::int64_t first, std::int64_t lanes) { transform_lanes(*how, what, first, lanes); });
    return;
  }
  const scratch<T, 1> turned(2 * n);
  T* const work_in = turned.data();
  for (std::int64_t row = 0; row < what.rows; ++row) {
    const T* const in = what.in + 2 * row * n;
    T* const out = what.out + 2 * row * n;
    by_lanes(how->rows->n, work,
             [&](std::int64_t first, std::int64_t lanes) { transform_columns(*how, what, in, work_in, first, lanes); });
    by_lanes(how->columns->n, work,
             [&](std::int64_t first, std::int64_t lanes) { transform_sides(*how, what, work_in, out, first, lanes); });
  }
}

/// By the definition for a prime length, else by the smallest factor. The numbers of x are `step` apart.
inline void plain_row(const double* x, std::int64_t step, double* y, std::int64_t n) {
  std::int64_t r = 2;
  while (r * r <= n && n % r != 0) ++r;
  if (n % r != 0) r = n;
  const std::int64_t m = n / r;
  std::vector<double> parts(static_cast<std::size_t>(2 * n));
  for (std::int64_t j = 0; j < r; ++j) {
    double* const part = parts.data() + 2 * j * m;
    if (m == 1) part[0] = x[2 * j * step], part[1] = x[2 * j * step + 1];
    else plain_row(x + 2 * j * step, step * r, part, m);
  }
  for (std::int64_t k = 0; k < n; ++k) {
    double re = 0, im = 0;
    for (std::int64_t j = 0; j < r; ++j) {
      const auto [c, s] = root_of_unity(j * k % n, n);
      const double a = parts[static_cast<std::size_t>(2 * (j * m + k % m))],
                   b = parts[static_cast<std::size_t>(2 * (j * m + k % m) + 1)];
      re += a * c - b * s;
      im += a * s + b * c;
    }
    y[2 * k] = re;
    y[2 * k + 1] = im;
  }
}

template <class T>
void transform_plainly(const task<T>& what) {
  const std::int64_t n = what.n;
  std::vector<double> x(static_cast<std::size_t>(2 * n)), y(x.size());
  for (std::int64_t row = 0; row < what.rows; ++row) {
    const T* const in = what.in + 2 * row * n;
    T* const out = what.out + 2 * row * n;
    for (std::int64_t i = 0; i < n; ++i) {
      x[static_cast<std::size_t>(2 * i)] = static_cast<double>(in[2 * i + what.swap]);
      x[static_cast<std::size_t>(2 * i + 1)] = static_cast<double>(in[2 * i + 1 - what.swap]);
    }
    plain_row(x.data(), 1, y.data(), n);
    for (std::int64_t i = 0; i < n; ++i) {
      out[2 * i + what.swap] = static_cast<T>(y[static_cast<std::size_t>(2 * i)] * static_cast<double>(what.scale));
      out[2 * i + 1 - what.swap] =
          static_cast<T>(y[static_cast<std::size_t>(2 * i + 1)] * static_cast<double>(what.scale));
    }
  }
}

}  // namespace sinter::engine::fourier_loops
