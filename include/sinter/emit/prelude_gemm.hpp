// emit/prelude_gemm.hpp: the text of one matrix product for emitted CPU kernels. Follows prelude_core and prelude_memory.
//
// gemm<S>(m, n, k, a, b, epi, parallel) forms the sums over k of a(i, k) * b(k, j) in the scalar type S and hands each
// finished piece of a row to epi(long i, long j, V sum, int lanes), V the vector of S: elements (i, j) … (i, j + lanes - 1).
// Operands are matrix_of(pointer, row, column), element (i, j) at pointer[row(i) + column(j)], each of row and column a
// linear{stride} or a table{offsets}. 16-bit floats take part as f32.
#pragma once

#include <string_view>

namespace sinter::emit {

/// Register blocks of MR rows by NV vectors, sums carried over blocks of KC of the k axis in a tile of MC by NC. Operands
/// are packed where they are not linear, not of type S, or large. The order of every sum depends on m, n, k and the
/// strides only, not on the number of threads.
inline constexpr std::string_view prelude_gemm = R"prelude(
#ifdef _OPENMP
extern "C" int omp_get_max_threads();
#endif
namespace sx {
struct linear {
  long step;
  SX_IN long operator()(long i) const { return i * step; }
};
struct table {
  const long* at;
  SX_IN long operator()(long i) const { return at[i]; }
};
template <class T, class R, class C> struct matrix {
  typedef T element;
  const T* p;
  R row;
  C column;
};
template <class T, class R, class C> SX matrix<T, R, C> matrix_of(const T* p, R row, C column) { return {p, row, column}; }

SX_T V multiply_add(V a, V b, V c) {
#if __FMA__
  if constexpr (__is_same(s_of<V>, s_f32)) {
#if __AVX512F__
    if constexpr (sizeof(V) == 64) return (V)__builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4);
#endif
    if constexpr (sizeof(V) == 32) return (V)__builtin_ia32_vfmaddps256(a, b, c);
    if constexpr (sizeof(V) == 16) return (V)__builtin_ia32_vfmaddps(a, b, c);
  }
  if constexpr (__is_same(s_of<V>, s_f64)) {
#if __AVX512F__
    if constexpr (sizeof(V) == 64) return (V)__builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4);
#endif
    if constexpr (sizeof(V) == 32) return (V)__builtin_ia32_vfmaddpd256(a, b, c);
  }
#endif
  return a * b + c;
}

template <class S> struct blocks {
  typedef typename tr<S>::v V;
#if __AVX512F__
  static constexpr int registers = 32, width = 64;
#elif __AVX__
  static constexpr int registers = 16, width = 32;
#else
  static constexpr int registers = 16, width = 16;
#endif
  static constexpr int each = sizeof(V) > width ? sizeof(V) / width : 1;
  static constexpr int MR = registers == 32 ? (each == 1 ? 8 : 4) : (each == 1 ? 6 : 2), NV = each > 2 ? 1 : 2;
  static constexpr int NR = NV * SINTER_W, KC = 256, MC = 8 * MR, NC = 8 * NR;
};

// c(MR, NV vectors) (+)= a(MR, k) b(k, NV vectors); row r of a starts at a + at[r].
template <class S, int MR, int NV>
__attribute__((noinline)) static void micro(long k, const S* __restrict a, const long* at, long a_step, const S* __restrict b, long b_step, S* __restrict c, long c_step, bool first) {
  typedef typename tr<S>::v V;
  V sum[MR][NV];
  long o[MR];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    o[r] = at[r];
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) sum[r][v] = first ? V{} : load(c + r * c_step + v * SINTER_W);
  }
  for (; k > 0; --k, a += a_step, b += b_step) {
    V x[NV];
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) x[v] = load(b + v * SINTER_W);
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const V y = splat<V>(a[o[r]]);
#pragma GCC unroll 16
      for (int v = 0; v < NV; ++v) sum[r][v] = multiply_add(y, x[v], sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) store(c + r * c_step + v * SINTER_W, sum[r][v]);
}

// to[x + width * d] = p[across(from + x) + deep(d)] for x < valid, zero up to width.
template <class S, class T, class X, class D>
__attribute__((noinline)) static void pack(S* __restrict to, const T* __restrict p, X across, D deep, long from, long valid, long width, long k) {
  if constexpr (__is_same(X, linear))
    if (across.step == 1) {
      p += from;
      for (long d = 0; d < k; ++d, to += width) {
        const T* q = p + deep(d);
        long x = 0;
        if constexpr (__is_same(S, typename mem<T>::s))
          for (; x + SINTER_W <= valid; x += SINTER_W) store(to + x, load(q + x));
        for (; x < valid; ++x) to[x] = load1(q + x);
        for (; x < width; ++x) to[x] = 0;
      }
      return;
    }
  for (long d0 = 0; d0 < k; d0 += 64) {
    const long end = d0 + 64 < k ? d0 + 64 : k;
    for (long x = 0; x < width; ++x) {
      if (x < valid) {
        const T* q = p + across(from + x);
        for (long d = d0; d < end; ++d) to[d * width + x] = load1(q + deep(d));
      } else {
        for (long d = d0; d < end; ++d) to[d * width + x] = 0;
      }
    }
  }
}

// Where micro() finds its operands. A packed a has panels of MR rows, a packed b panels of NR columns; `edge` is the last
// panel of b when it is narrower, edge_width columns wide.
template <class S> struct operands {
  long m, n, k;
  const S *a, *b, *edge;
  long a_row, a_step, b_step, edge_step;
  bool a_packed, b_packed;
};

template <class S, class E>
__attribute__((noinline)) static void finish(E& epi, const S* c, long i, long j, long rows, long columns) {
  for (long r = 0; r < rows; ++r, c += blocks<S>::NC) {
    long x = 0;
    for (; x + SINTER_W <= columns; x += SINTER_W) epi(i + r, j + x, load(c + x), SINTER_W);
    if (x < columns) epi(i + r, j + x, load(c + x), (int)(columns - x));
  }
}

template <class S, class E>
__attribute__((noinline)) static void tile(const operands<S>& g, long i0, long i1, long j0, long j1, E& epi) {
  typedef blocks<S> Z;
  alignas(64) S c[Z::MC * Z::NC];
  const long parts = g.k > Z::KC ? (g.k + Z::KC - 1) / Z::KC : 1, part = (g.k + parts - 1) / parts;
  long at[Z::MR];
  for (int q = 0; q < parts; ++q) {
    const long k0 = q * part, k = k0 + part < g.k ? part : g.k - k0;
    for (long j = j0; j < j1; j += Z::NR) {
      const long columns = j1 - j < Z::NR ? j1 - j : Z::NR;
      const bool whole = columns == Z::NR;
      const long b_step = whole ? g.b_step : g.edge_step;
      const S* b = (whole ? (g.b_packed ? g.b + j * g.k : g.b + j) : g.edge) + k0 * b_step;
      for (long i = i0; i < i1; i += Z::MR) {
        const long rows = i1 - i < Z::MR ? i1 - i : Z::MR;
        // Rows past the end repeat the last one; nobody reads their sums.
        for (int r = 0; r < Z::MR; ++r) at[r] = g.a_packed ? r : (r < rows ? r : rows - 1) * g.a_row;
        const S* a = (g.a_packed ? g.a + i * g.k : g.a + i * g.a_row) + k0 * g.a_step;
        S* to = parts == 1 ? c : c + (i - i0) * Z::NC + (j - j0);
        if (Z::NV > 1 && columns <= SINTER_W) micro<S, Z::MR, 1>(k, a, at, g.a_step, b, b_step, to, Z::NC, q == 0);
        else micro<S, Z::MR, Z::NV>(k, a, at, g.a_step, b, b_step, to, Z::NC, q == 0);
        if (q == parts - 1) finish(epi, to, i, j, rows, columns);
      }
    }
  }
}

// Up to U vectors of x(k) b(k, …), the last with `lanes` lanes, straight from memory.
template <class S, int U> SX void strip(long k, const S* x, long x_step, const S* b, long b_step, S* c, long lanes) {
  typedef typename tr<S>::v V;
  V sum[U]{};
  for (; k > 0; --k, x += x_step, b += b_step) {
    const V y = splat<V>(*x);
    if constexpr (U == 1) sum[0] = multiply_add(y, lanes == SINTER_W ? load(b) : load(b, lanes), sum[0]);
    else {
      __builtin_prefetch(b + 8 * b_step);
#pragma GCC unroll 16
      for (int u = 0; u < U; ++u) sum[u] = multiply_add(y, load(b + u * SINTER_W), sum[u]);
    }
  }
#pragma GCC unroll 16
  for (int u = 0; u < U; ++u) store(c + u * SINTER_W, sum[u]);
}
// A row of results: columns [0, n) of x(k) b(k, n), b contiguous along n.
template <class S> __attribute__((noinline)) static void row_product(long n, long k, const S* x, long x_step, const S* b, long b_step, S* c) {
  long j = 0;
  for (; j + 8 * SINTER_W <= n; j += 8 * SINTER_W) strip<S, 8>(k, x, x_step, b + j, b_step, c + j, SINTER_W);
  for (; j + 4 * SINTER_W <= n; j += 4 * SINTER_W) strip<S, 4>(k, x, x_step, b + j, b_step, c + j, SINTER_W);
  for (; j < n; j += SINTER_W) strip<S, 1>(k, x, x_step, b + j, b_step, c + j, n - j < SINTER_W ? n - j : SINTER_W);
}
// n results, each the product of x with a row of b, both contiguous along k.
template <class S> __attribute__((noinline)) static void dots(long n, long k, const S* x, const S* b, long b_row, S* c) {
  typedef typename tr<S>::v V;
  for (long j = 0; j < n; j += 4) {
    const S* row[4];
    V sum[4]{};
    for (int r = 0; r < 4; ++r) row[r] = b + (j + r < n ? j + r : n - 1) * b_row;
    long d = 0;
    for (; d + SINTER_W <= k; d += SINTER_W) {
      const V y = load(x + d);
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) sum[r] = multiply_add(y, load(row[r] + d), sum[r]);
    }
    if (d < k) {
      const V y = load(x + d, k - d);
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) sum[r] = multiply_add(y, load(row[r] + d, k - d), sum[r]);
    }
    for (int r = 0; r < 4 && j + r < n; ++r) c[j + r] = fold_add(sum[r]);
  }
}

template <class F> SX void each_block(long count, bool threads, F f) {
  if (threads && count > 1) {
#pragma omp parallel for schedule(dynamic, 1)
    for (long t = 0; t < count; ++t) f(t);
  } else {
    for (long t = 0; t < count; ++t) f(t);
  }
}

// m or n is 1: `count` results along the other axis, which steps through `across` by `step`; `by_row` is m = 1.
template <class S, class E>
static void vector_product(long count, long k, const S* x, long x_step, const S* across, long step, long deep, bool by_row, E& epi, bool threads) {
  constexpr long chunk = 16 * SINTER_W;
  each_block((count + chunk - 1) / chunk, threads, [&](long t) {
    alignas(64) S c[chunk];
    const long j0 = t * chunk, n = count - j0 < chunk ? count - j0 : chunk;
    if (step == 1) row_product(n, k, x, x_step, across + j0, deep, c);
    else dots(n, k, x, across + j0 * step, step, c);
    for (long j = 0; j < n; j += SINTER_W) {
      const int lanes = n - j < SINTER_W ? n - j : SINTER_W;
      if (by_row) epi(0, j0 + j, load(c + j), lanes);
      else
        for (int l = 0; l < lanes; ++l) epi(j0 + j + l, 0, splat<typename tr<S>::v>(c[j + l]), 1);
    }
  });
}

template <class S, class A, class B, class E> static void gemm(long m, long n, long k, A a, B b, E epi, bool parallel) {
  typedef blocks<S> Z;
  constexpr bool a_plain = __is_same(A, matrix<S, linear, linear>), b_plain = __is_same(B, matrix<S, linear, linear>);
  if (m <= 0 || n <= 0) return;
  long workers = 1;
#ifdef _OPENMP
  if (parallel && m * n * (k + 1) >= (m == 1 || n == 1 ? 1l << 18 : 1l << 22)) workers = omp_get_max_threads();
#endif
  if constexpr (a_plain && b_plain) {
    if (m == 1 && (b.column.step == 1 || (b.row.step == 1 && a.column.step == 1)))
      return vector_product(n, k, a.p, a.column.step, b.p, b.column.step, b.row.step, true, epi, workers > 1);
    if (n == 1 && (a.row.step == 1 || (a.column.step == 1 && b.row.step == 1)))
      return vector_product(m, k, b.p, b.row.step, a.p, a.row.step, a.column.step, false, epi, workers > 1);
  }

  operands<S> g{m, n, k};
  g.a_packed = !a_plain || (n > 4 * Z::NR && m * k > 4096);
  g.b_packed = !b_plain || (m > 8 * Z::MR && n * k > 65536);
  if constexpr (b_plain) g.b_packed |= b.column.step != 1;
  const long edge = n % Z::NR, edge_width = (edge + SINTER_W - 1) / SINTER_W * SINTER_W, columns = n - edge;
  const long a_panels = (m + Z::MR - 1) / Z::MR, b_panels = columns / Z::NR;
  const bool edge_packed = edge != 0 && (g.b_packed || edge != edge_width);
  const long a_size = g.a_packed ? a_panels * Z::MR * k : 0, b_size = g.b_packed ? columns * k : 0, edge_size = edge_packed ? edge_width * k : 0;
  char* scratch = nullptr;
  S *pa = nullptr, *pb = nullptr, *pe = nullptr;
  if (a_size + b_size + edge_size > 0) {
    scratch = (char*)__builtin_malloc((a_size + b_size + edge_size) * sizeof(S) + 192);
    if (!scratch) __builtin_trap();
    auto align = [](S* p) { return (S*)(((unsigned long)p + 63) & ~63ul); };
    pa = align((S*)scratch), pb = align(pa + a_size), pe = align(pb + b_size);
  }
  if constexpr (a_plain) g.a = a.p, g.a_row = a.row.step, g.a_step = a.column.step;
  if constexpr (b_plain) g.b = b.p, g.b_step = b.row.step, g.edge = b.p + columns, g.edge_step = b.row.step;
  if (g.a_packed) g.a = pa, g.a_step = Z::MR;
  if (g.b_packed) g.b = pb, g.b_step = Z::NR;
  if (edge_packed) g.edge = pe, g.edge_step = edge_width;
  if (scratch) {
    const long ta = g.a_packed ? (a_panels + 7) / 8 : 0, tb = g.b_packed ? (b_panels + 1) / 2 : 0;
    each_block(ta + tb + edge_packed, workers > 1, [&](long t) {
      if (t < ta)
        for (long p = 8 * t; p < 8 * t + 8 && p < a_panels; ++p)
          pack(pa + p * Z::MR * k, a.p, a.row, a.column, p * Z::MR, m - p * Z::MR < Z::MR ? m - p * Z::MR : Z::MR, Z::MR, k);
      else if (t < ta + tb)
        for (long p = 2 * (t - ta); p < 2 * (t - ta) + 2 && p < b_panels; ++p)
          pack(pb + p * Z::NR * k, b.p, b.column, b.row, p * Z::NR, Z::NR, Z::NR, k);
      else pack(pe, b.p, b.column, b.row, columns, edge, edge_width, k);
    });
  }

  // Tiles shrink until every worker has a few; sums do not depend on their size.
  long mc = Z::MC, nc = Z::NC;
  auto count = [&] { return ((m + mc - 1) / mc) * ((n + nc - 1) / nc); };
  while (workers > 1 && count() < 3 * workers && (nc > Z::NR || mc > Z::MR)) {
    if (nc > Z::NR) nc /= 2;
    else mc /= 2;
  }
  const long down = (m + mc - 1) / mc;
  each_block(count(), workers > 1, [&](long t) {
    const long i = t % down * mc, j = t / down * nc;
    tile(g, i, i + mc < m ? i + mc : m, j, j + nc < n ? j + nc : n, epi);
  });
  if (scratch) __builtin_free(scratch);
}
}  // namespace sx
)prelude";

}  // namespace sinter::emit
