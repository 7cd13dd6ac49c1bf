// emit/prelude/gemm.hpp: the text of one matrix product for emitted CPU kernels. Follows prelude_core and prelude_memory.
//
// gemm<S>(m, n, k, a, b, epi, parallel) forms the sums over k of a(i, k) * b(k, j) in the scalar type S and hands each
// finished piece of a row to epi(long i, long j, V sum, int lanes), V the vector of S: elements (i, j) … (i, j + lanes - 1).
// Operands are matrix_of(pointer, row, column), element (i, j) at pointer[row(i) + column(j)], each of row and column a
// linear{stride}, along<stride> when the stride is known, or a table{offsets}. 16-bit floats take part as f32. An extent is
// a long, or fixed<extent> when it is known: what the kernel cannot need is then not compiled, which is most of the time
// that a product takes to compile. Extents that are not fixed may have any value, but only fixed<1> gets a product of a
// matrix and a vector.
#pragma once

#include <string_view>

namespace sinter::engine::emit {

/// Register blocks of MR rows by NV vectors, sums carried over blocks of KC of the k axis in a tile of MC by NC. Operands
/// are packed where they are not linear, not of type S, or large. The order of every sum depends on m, n, k and the
/// strides only, not on the number of threads.
inline constexpr std::string_view prelude_gemm = R"prelude(
#define SX_OUT __attribute__((noinline, noclone)) static
#ifdef _OPENMP
extern "C" int omp_get_max_threads();
extern "C" int omp_get_thread_num();
#endif
namespace sx {
template <long N> struct fixed {
  constexpr operator long() const { return N; }
};
template <class N> constexpr long least = 0;
template <class N> constexpr long most = 1l << 62;
template <long N> constexpr long least<fixed<N>> = N;
template <long N> constexpr long most<fixed<N>> = N;
// Whether the product of the largest extents can reach a limit.
template <class M, class N, class K> constexpr bool may_reach(double limit) { return (double)most<M> * most<N> * most<K> >= limit; }

struct linear {
  static constexpr bool may_be_1 = true;
  long step;
  SX_IN long operator()(long i) const { return i * step; }
};
template <long N> struct along {
  static constexpr bool may_be_1 = N == 1;
  static constexpr long step = N;
  SX_IN long operator()(long i) const { return i * N; }
};
struct table {
  static constexpr bool may_be_1 = false;
  static constexpr long step = 0;
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
// Can be read where it lies.
template <class S, class A> constexpr bool plain = __is_same(typename A::element, S) && !__is_same(decltype(A::row), table) && !__is_same(decltype(A::column), table);

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

// c(MR, NV vectors) (+)= a(MR, k) b(k, NV vectors); row r of a starts at a + at[r]. Blocks of the k axis are summed by themselves
// here and below: rounding errors grow with a block and the number of blocks, not with their product.
template <class S, int MR, int NV>
SX_OUT void micro(long k, const S* __restrict a, const long* at, long a_step, const S* __restrict b, long b_step, S* __restrict c, long c_step, bool first) {
  typedef typename tr<S>::v V;
  V sum[MR][NV];
  long o[MR];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    o[r] = at[r];
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) sum[r][v] = V{};
  }
  for (; k > 0; --k, a += a_step, b += b_step) {
    V x[NV];
    // Rows of an unpacked b may lie pages apart, where the machine does not look ahead.
#pragma GCC unroll 16
    for (int v = 0; v < NV; v += 64 / sizeof(V) > 1 ? 64 / sizeof(V) : 1) __builtin_prefetch(b + 8 * b_step + v * SINTER_W);
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
    for (int v = 0; v < NV; ++v) store(c + r * c_step + v * SINTER_W, first ? sum[r][v] : load(c + r * c_step + v * SINTER_W) + sum[r][v]);
}

// to[x + width * d] = p[across(from + x) + deep(d)] for x < valid, zero up to width.
template <class S, class T, class X, class D>
SX_OUT void pack(S* __restrict to, const T* __restrict p, X across, D deep, long from, long valid, long width, long k) {
  if constexpr (X::may_be_1)
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
        long d = d0;
        if constexpr (D::may_be_1 && __is_same(S, typename mem<T>::s) && !__is_same(S, T))
          if (deep.step == 1)
            for (; d + SINTER_W <= end; d += SINTER_W) {
              S decoded[SINTER_W];
              store(decoded, load(q + d));
              SX_EACH to[(d + l) * width + x] = decoded[l];
            }
        for (; d < end; ++d) to[d * width + x] = load1(q + deep(d));
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
  S* sums;  // of a tile, MC rows of NC, for each thread; where the k axis is one block there are none
  bool threads;  // run the tiles
  SX_IN S* mine(long size) const {
#ifdef _OPENMP
    if (threads) return sums + size * omp_get_thread_num();
#endif
    return sums;
  }
};

// E is the epilogue with what is known of the extents.
template <class M, class N, class K, class F> struct epilogue {
  typedef M rows;
  typedef N columns;
  typedef K depth;
  F f;
};

template <class S, class E>
SX_OUT void finish(E& epi, const S* c, long c_step, long i, long j, long rows, long columns) {
  for (long r = 0; r < rows; ++r, c += c_step) {
    long x = 0;
    for (; x + SINTER_W <= columns; x += SINTER_W) epi.f(i + r, j + x, load(c + x), SINTER_W);
    if constexpr (least<typename E::columns> % SINTER_W != 0 || least<typename E::columns> != most<typename E::columns>)
      if (x < columns) epi.f(i + r, j + x, load(c + x), (int)(columns - x));
  }
}

template <class S, class E> SX_OUT void tile(const operands<S>& g, long i0, long i1, long j0, long j1, E& epi) {
  typedef blocks<S> Z;
  typedef typename E::columns N;
  constexpr bool one_part = most<typename E::depth> <= Z::KC, known = least<N> == most<N>;
  constexpr long edge = least<N> % Z::NR;
  alignas(64) S one[Z::MR * Z::NR];  // sums of one block need no more
  const long parts = g.k > Z::KC ? (g.k + Z::KC - 1) / Z::KC : 1, part = (g.k + parts - 1) / parts;
  const bool at_once = one_part || parts == 1;
  S* const c = at_once ? one : g.mine(Z::MC * Z::NC);
  const long c_step = at_once ? Z::NR : Z::NC;
  long at[Z::MR];
  for (int q = 0; q < (one_part ? 1 : parts); ++q) {
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
        S* to = at_once ? c : c + (i - i0) * c_step + (j - j0);
        if constexpr (Z::NV == 1 || (known && (edge == 0 || edge > SINTER_W))) micro<S, Z::MR, Z::NV>(k, a, at, g.a_step, b, b_step, to, c_step, q == 0);
        else if constexpr (known && most<N> <= SINTER_W) micro<S, Z::MR, 1>(k, a, at, g.a_step, b, b_step, to, c_step, q == 0);
        else if (columns <= SINTER_W) micro<S, Z::MR, 1>(k, a, at, g.a_step, b, b_step, to, c_step, q == 0);
        else micro<S, Z::MR, Z::NV>(k, a, at, g.a_step, b, b_step, to, c_step, q == 0);
        if (one_part || q == parts - 1) finish(epi, to, c_step, i, j, rows, columns);
      }
    }
  }
}

constexpr long sum_block = 1024;
// Up to U vectors of x(k) b(k, …), the last with `lanes` lanes, straight from memory.
template <class S, int U> SX void strip(long k, const S* x, long x_step, const S* b, long b_step, S* c, long lanes) {
  typedef typename tr<S>::v V;
  for (bool first = true; first || k > 0; first = false) {
    V sum[U]{};
    long part = k < sum_block ? k : sum_block;
    for (k -= part; part > 0; --part, x += x_step, b += b_step) {
      const V y = splat<V>(*x);
      if constexpr (U == 1) sum[0] = multiply_add(y, lanes == SINTER_W ? load(b) : load(b, lanes), sum[0]);
      else {
        __builtin_prefetch(b + 8 * b_step);
#pragma GCC unroll 16
        for (int u = 0; u < U; ++u) sum[u] = multiply_add(y, load(b + u * SINTER_W), sum[u]);
      }
    }
#pragma GCC unroll 16
    for (int u = 0; u < U; ++u) store(c + u * SINTER_W, first ? sum[u] : load(c + u * SINTER_W) + sum[u]);
  }
}
// A row of results: columns [0, n) of x(k) b(k, n), b contiguous along n.
template <class S> SX_OUT void row_product(long n, long k, const S* x, long x_step, const S* b, long b_step, S* c) {
  long j = 0;
  for (; j + 8 * SINTER_W <= n; j += 8 * SINTER_W) strip<S, 8>(k, x, x_step, b + j, b_step, c + j, SINTER_W);
  for (; j < n; j += SINTER_W) strip<S, 1>(k, x, x_step, b + j, b_step, c + j, n - j < SINTER_W ? n - j : SINTER_W);
}
// n results, each the product of x with a row of b, both contiguous along k.
template <class S> SX_OUT void dots(long n, long k, const S* x, const S* b, long b_row, S* c) {
  typedef typename tr<S>::v V;
  for (long j = 0; j < n; j += 4) {
    const S* row[4];
    V sum[4]{}, total[4]{};
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) row[r] = b + (j + r < n ? j + r : n - 1) * b_row;
    for (long d = 0; d < k; d += SINTER_W) {
      const long lanes = k - d < SINTER_W ? k - d : SINTER_W;
      const V y = lanes == SINTER_W ? load(x + d) : load(x + d, lanes);
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) sum[r] = multiply_add(y, lanes == SINTER_W ? load(row[r] + d) : load(row[r] + d, lanes), sum[r]);
      if ((d + SINTER_W) % (sum_block * SINTER_W) == 0)
        for (int r = 0; r < 4; ++r) total[r] += sum[r], sum[r] = V{};
    }
    for (int r = 0; r < 4 && j + r < n; ++r) c[j + r] = fold_add(total[r] + sum[r]);
  }
}

SX_OUT void run_blocks(long count, void (*f)(void*, long), void* with) {
#pragma omp parallel for schedule(dynamic, 1)
  for (long t = 0; t < count; ++t) f(with, t);
}
template <bool May, class F> SX void each_block(long count, bool threads, F f) {
  if constexpr (May)
    if (threads && count > 1) return run_blocks(count, [](void* with, long t) { (*(F*)with)(t); }, &f);
  for (long t = 0; t < count; ++t) f(t);
}
template <class M, class N, class K> SX long workers(bool parallel, long m, long n, long k, long limit) {
#ifdef _OPENMP
  if constexpr (may_reach<M, N, K>(1 << 18))
    if (parallel && m * n * (k + 1) >= limit) return omp_get_max_threads();
#endif
  return 1;
}

// m or n is 1: `count` results along the other axis, which steps through `across` by `step`.
template <bool ByRow, class S, class X, class D, class E>
SX void vector_product(long count, long k, const S* x, long x_step, const S* across, X step, D deep, E& epi, long threads) {
  constexpr long chunk = 16 * SINTER_W;
  each_block<may_reach<typename E::rows, typename E::columns, typename E::depth>(1 << 18)>((count + chunk - 1) / chunk, threads > 1, [&](long t) {
    alignas(64) S c[chunk];
    const long j0 = t * chunk, n = count - j0 < chunk ? count - j0 : chunk;
    if constexpr (X::may_be_1 && !D::may_be_1) row_product(n, k, x, x_step, across + j0, deep.step, c);
    else if constexpr (!X::may_be_1) dots(n, k, x, across + j0 * step.step, step.step, c);
    else if (step.step == 1) row_product(n, k, x, x_step, across + j0, deep.step, c);
    else dots(n, k, x, across + j0 * step.step, step.step, c);
    for (long j = 0; j < n; j += SINTER_W) {
      const int lanes = n - j < SINTER_W ? n - j : SINTER_W;
      if constexpr (ByRow) epi.f(0, j0 + j, load(c + j), lanes);
      else
        for (int l = 0; l < lanes; ++l) epi.f(j0 + j + l, 0, splat<typename tr<S>::v>(c[j + l]), 1);
    }
  });
}

// Element by element, when there is no memory to pack into.
template <class S, class A, class B, class F> __attribute__((cold)) SX_OUT void unpacked(long m, long n, long k, A a, B b, F& f) {
  for (long i = 0; i < m; ++i)
    for (long j = 0; j < n; j += SINTER_W) {
      S sum[SINTER_W]{};
      const int lanes = n - j < SINTER_W ? n - j : SINTER_W;
      for (long d = 0; d < k; ++d)
        for (int l = 0; l < lanes; ++l) sum[l] += (S)(load1(a.p + a.row(i) + a.column(d)) * load1(b.p + b.row(d) + b.column(j + l)));
      f(i, j, load(sum), lanes);
    }
}

template <class S, class M, class N, class K, class A, class B, class F> static void gemm(M m_, N n_, K k_, A a, B b, F f, bool parallel) {
  typedef blocks<S> Z;
  const long m = m_, n = n_, k = k_;
  constexpr bool a_plain = plain<S, A>, b_plain = plain<S, B>;
  typedef decltype(A::row) AR;
  typedef decltype(A::column) AC;
  typedef decltype(B::row) BR;
  typedef decltype(B::column) BC;
  epilogue<M, N, K, F> epi{f};
  if (m <= 0 || n <= 0) return;
  if constexpr (a_plain && b_plain && least<M> == 1 && most<M> == 1 && (BC::may_be_1 || (BR::may_be_1 && AC::may_be_1)))
    if (b.column.step == 1 || (b.row.step == 1 && a.column.step == 1))
      return vector_product<true>(n, k, a.p, a.column.step, b.p, b.column, b.row, epi, workers<M, N, K>(parallel, m, n, k, 1 << 18));
  if constexpr (a_plain && b_plain && least<N> == 1 && most<N> == 1 && (AR::may_be_1 || (AC::may_be_1 && BR::may_be_1)))
    if (a.row.step == 1 || (a.column.step == 1 && b.row.step == 1))
      return vector_product<false>(m, k, b.p, b.row.step, a.p, a.row, a.column, epi, workers<M, N, K>(parallel, m, n, k, 1 << 18));

  constexpr bool may_pack_a = !a_plain || (most<N> > 4 * Z::NR && may_reach<M, fixed<1>, K>(4097));
  constexpr bool may_pack_b = !b_plain || !__is_same(BC, along<1>) || (most<M> > 8 * Z::MR && may_reach<N, fixed<1>, K>(65537));
  constexpr bool may_pack_edge = may_pack_b || least<N> != most<N> || least<N> % SINTER_W != 0;
  constexpr bool may_thread = may_reach<M, N, K>(1 << 22);
  const long threads = workers<M, N, K>(parallel, m, n, k, 1 << 22);
  operands<S> g{m, n, k};
  g.a_packed = may_pack_a && (!a_plain || (n > 4 * Z::NR && m * k > 4096));
  g.b_packed = may_pack_b && (!b_plain || b.column.step != 1 || (m > 8 * Z::MR && n * k > 65536));
  const long edge = n % Z::NR, edge_width = (edge + SINTER_W - 1) / SINTER_W * SINTER_W, columns = n - edge;
  if constexpr (a_plain) g.a = a.p, g.a_row = a.row.step, g.a_step = a.column.step;
  if constexpr (b_plain) g.b = b.p, g.b_step = b.row.step, g.edge = b.p + columns, g.edge_step = b.row.step;
  char* scratch = nullptr;
  constexpr bool may_sum = most<K> > Z::KC;
  if constexpr (may_pack_a || may_pack_edge || may_sum) {
    const long a_panels = (m + Z::MR - 1) / Z::MR, b_panels = columns / Z::NR;
    const bool edge_packed = edge != 0 && (g.b_packed || edge != edge_width);
    const long a_size = g.a_packed ? a_panels * Z::MR * k : 0, b_size = g.b_packed ? columns * k : 0, edge_size = edge_packed ? edge_width * k : 0;
    const long sum_size = may_sum && k > Z::KC ? threads * Z::MC * Z::NC : 0;
    if (sum_size + a_size + b_size + edge_size > 0) {
      scratch = (char*)__builtin_malloc((sum_size + a_size + b_size + edge_size) * sizeof(S) + 64);
      if (!scratch) return unpacked<S>(m, n, k, a, b, f);
      g.sums = (S*)(((unsigned long)scratch + 63) & ~63ul);
      S *const pb = g.sums + sum_size, *const pe = pb + b_size, *const pa = pe + edge_size;
      if (g.a_packed) g.a = pa, g.a_step = Z::MR;
      if (g.b_packed) g.b = pb, g.b_step = Z::NR;
      if (edge_packed) g.edge = pe, g.edge_step = edge_width;
      // Blocks of work: 8 panels of a, 2 panels of b, the last one perhaps narrower.
      const long ta = g.a_packed ? (a_panels + 7) / 8 : 0, pack_to = columns + (edge_packed ? edge : 0), pack_from = g.b_packed ? 0 : columns;
      each_block<may_thread>(ta + (pack_to - pack_from + 2 * Z::NR - 1) / (2 * Z::NR), threads > 1, [&](long t) {
        if constexpr (may_pack_a)
          if (t < ta) {
            for (long i = 8 * t * Z::MR; i < m && i < 8 * (t + 1) * Z::MR; i += Z::MR) pack(pa + i * k, a.p, a.row, a.column, i, m - i < Z::MR ? m - i : Z::MR, Z::MR, k);
            return;
          }
        if constexpr (may_pack_edge) {
          const long j0 = pack_from + (t - ta) * 2 * Z::NR;
          for (long j = j0; j < pack_to && j < j0 + 2 * Z::NR; j += Z::NR) {
            const bool whole = j < columns;
            pack(whole ? pb + j * k : pe, b.p, b.column, b.row, j, whole ? Z::NR : edge, whole ? Z::NR : edge_width, k);
          }
        }
      });
    }
  }

  // Tiles shrink until every worker has a few; sums do not depend on their size.
  long mc = Z::MC, nc = Z::NC;
  auto count = [&] { return ((m + mc - 1) / mc) * ((n + nc - 1) / nc); };
  if constexpr (may_thread)
    while (threads > 1 && count() < 3 * threads && (nc > Z::NR || mc > Z::MR)) {
      if (nc > Z::NR) nc /= 2;
      else mc /= 2;
    }
  g.threads = may_thread && threads > 1 && count() > 1;  // as each_block has it
  const long down = (m + mc - 1) / mc;
  each_block<may_thread>(count(), threads > 1, [&](long t) {
    const long i = t % down * mc, j = t / down * nc;
    tile(g, i, i + mc < m ? i + mc : m, j, j + nc < n ? j + nc : n, epi);
  });
  if constexpr (may_pack_a || may_pack_edge || may_sum) __builtin_free(scratch);
}
}  // namespace sx
)prelude";

}  // namespace sinter::engine::emit
