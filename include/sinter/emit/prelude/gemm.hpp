// emit/prelude/gemm.hpp: the text of one matrix product for emitted CPU kernels. Follows prelude_core, prelude_memory, prelude_fold,
// prelude_transpose and prelude_threads.
//
// gemm<S, streams>(m, n, k, a, b, epi, room) forms the sums over k of a(i, k) * b(k, j) in the scalar type S. It passes each
// finished piece of a row to epi(long i, long j, V sum, int lanes), where V is the vector of S. The piece has elements (i, j)
// … (i, j + lanes - 1). Operands are matrix_of(pointer, row, column), with element (i, j) at pointer[row(i) + column(j)].
// Each of row and column is a linear{stride}, an along<stride> with a known stride, or a table{offsets}. 16-bit floats take
// part as f32. An extent is a long, or fixed<extent> if it is known. Code that the kernel cannot need is not compiled then,
// which saves most of a product's compile time. Extents that are not fixed may have any value, but only fixed<1> selects a
// product of a matrix and a vector.
#pragma once

#include <string_view>

namespace sinter::engine::emit {

/// Register blocks have MR rows by NV vectors. Sums are carried over blocks of KC of the k axis, in a tile of MC by NC. The
/// epilogue walks the tile's rows. Operands are packed if they are not linear, not of type S, or read often. Small operands
/// are packed whole. The thread that multiplies packs the others block by block, into memory of the caller. The order of
/// every sum depends on m, n, k and the strides only, not on the number of threads.
inline constexpr std::string_view prelude_gemm = R"prelude(
#define SX_OUT __attribute__((noinline, noclone)) static
// Of functions that call those that compute: more work of g++ does not pay.
#if __clang__
#define SX_CONTROL SX_OUT
#else
#define SX_CONTROL __attribute__((optimize("O1"))) SX_OUT
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
// Where the elements of any of them lie; an instance of `apart` or of linear or along<1> or a table is what code is compiled for.
struct walk {
  long step;
  const long* at;
  SX_IN long operator()(long i) const { return at ? at[i] : i * step; }
};
struct apart : linear {
  static constexpr bool may_be_1 = false;
};
template <class X> struct compiled_as { typedef X type; };
template <long N> struct compiled_as<along<N>> { typedef apart type; };
template <> struct compiled_as<along<1>> { typedef along<1> type; };
template <class X> SX walk walk_of(X x) {
  if constexpr (__is_same(X, table)) return {0, x.at};
  else return {x.step, nullptr};
}
template <class X> SX X walk_as(const walk& w) {
  if constexpr (__is_same(X, table)) return {w.at};
  else if constexpr (__is_same(X, along<1>)) return {};
  else return {w.step};
}
template <class T, class R, class C> struct matrix {
  typedef T element;
  const T* p;
  R row;
  C column;
};
template <class T, class R, class C> SX matrix<T, R, C> matrix_of(const T* p, R row, C column) { return {p, row, column}; }
// Can be read where it lies.
template <class S, class A> constexpr bool plain = __is_same(typename A::element, S) && !__is_same(decltype(A::row), table) && !__is_same(decltype(A::column), table);
// So, of S or of fewer bits that a load widens.
template <class S, class A> constexpr bool widened = __is_same(typename mem<typename A::element>::c, typename tr<S>::v) && !__is_same(decltype(A::row), table) && !__is_same(decltype(A::column), table);
// So, but through tables.
template <class S, class A> constexpr bool gathered = __is_same(typename A::element, S) && !plain<S, A>;

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
  static constexpr int NR = NV * SINTER_W, KC = 256, MC = (128 + MR - 1) / MR * MR, NC = 4096 / sizeof(S);
  static constexpr long shallow = 32;
  // Of so few columns a gathered row is read too seldom for being packed to pay.
  static constexpr long few_columns = 8 * NR;
  static_assert(MC <= 136 && NR <= 32 && NC * sizeof(S) <= 4096, "emit/cpu/product.hpp plans memory for no more");
  static constexpr long at_once = 1 << 14;  // elements of a result whose sums stay in registers, if they are one block
  static constexpr long max_whole = (4l << 20) / sizeof(S);  // elements of an operand that is packed whole
};

// c(MR, NV vectors) (+)= a(MR, k) b(k, NV vectors); element (r, d) of a lies at a + at[r] + deep(from + d). Blocks of the k axis are summed by themselves
// here and below: rounding errors grow with a block and the number of blocks, not with their product.
template <class S> using micro_function = void(long k, const S* a, const long* at, const walk& deep, long from, const S* b, long b_step, S* c, long c_step, bool first);
template <class S, int MR, int NV, class D>
SX_OUT void micro(long k, const S* __restrict a, const long* at, const walk& deep_, long from, const S* __restrict b, long b_step, S* __restrict c, long c_step, bool first) {
  const D deep = walk_as<D>(deep_);
  typedef typename tr<S>::v V;
  V sum[MR][NV];
  long o[MR];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    o[r] = at[r];
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) sum[r][v] = V{};
  }
  for (long d = 0; d < k; ++d, b += b_step) {
    const S* const q = a + deep(from + d);
    V x[NV];
    // Rows of an unpacked b may lie pages apart, where the machine does not look ahead.
#pragma GCC unroll 16
    for (int v = 0; v < NV; v += 64 / sizeof(V) > 1 ? 64 / sizeof(V) : 1) __builtin_prefetch(b + 8 * b_step + v * SINTER_W);
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) x[v] = load(b + v * SINTER_W);
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const V y = splat<V>(q[o[r]]);
#pragma GCC unroll 16
      for (int v = 0; v < NV; ++v) sum[r][v] = multiply_add(y, x[v], sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) store(c + r * c_step + v * SINTER_W, first ? sum[r][v] : load(c + r * c_step + v * SINTER_W) + sum[r][v]);
}

SX long distance(long step) { return step < 0 ? -step : step; }
// to[x + width * d] = p[across(from + x) + deep(k0 + d)] for x < valid, zero up to width.
template <class S> using pack_function = void(S* to, const void* p, const walk& across, const walk& deep, long from, long valid, long width, long k0, long k);
template <class S, class T, class X, class D>
SX_OUT void pack(S* __restrict to, const void* __restrict memory, const walk& across_, const walk& deep_, long from, long valid, long width, long k0, long k) {
  const T* p = (const T*)memory;
  const X across = walk_as<X>(across_);
  const D deep = walk_as<D>(deep_);
  constexpr bool vectors = __is_same(S, typename mem<T>::s);
  if constexpr (X::may_be_1)
    if (across.step == 1) {
      p += from;
      for (long d = 0; d < k; ++d, to += width) {
        const T* q = p + deep(k0 + d);
        long x = 0;
        if constexpr (vectors)
          for (; x + SINTER_W <= valid; x += SINTER_W) store(to + x, load(q + x));
        for (; x < valid; ++x) to[x] = load1(q + x);
        for (; x < width; ++x) to[x] = 0;
      }
      return;
    }
  if constexpr (D::may_be_1 && vectors)
    if (deep.step == 1 && width % SINTER_W == 0) {
      // Squares of lanes are turned in registers.
      typedef typename tr<S>::v V;
      for (long x0 = 0; x0 < width; x0 += SINTER_W)
        for (long d = 0; d < k; d += SINTER_W) {
          const long lanes = k - d < SINTER_W ? k - d : SINTER_W;
          V square[SINTER_W];
          if (lanes == SINTER_W && x0 + SINTER_W <= valid) {
            SX_EACH square[l] = load(p + across(from + x0 + l) + k0 + d);
          } else {
            V edge[SINTER_W];
#pragma GCC unroll 1
            for (long l = 0; l < SINTER_W; ++l) edge[l] = x0 + l < valid ? load(p + across(from + x0 + l) + k0 + d, lanes) : V{};
            SX_EACH square[l] = edge[l];
          }
          transpose(square);
          for (long l = 0; l < lanes; ++l) store(to + (d + l) * width + x0, square[l]);
        }
      return;
    }
  // What lies closer together is read one after the other: rows that lie pages apart would meet in the same sets of the caches.
  if constexpr (!__is_same(X, table) && !__is_same(D, along<1>))
    if (k > 1 && distance(across.step) < distance(deep(k0 + 1) - deep(k0))) {
      p += across(from);
      for (long d = 0; d < k; ++d, to += width) {
        const T* const q = p + deep(k0 + d);
        long x = 0;
        for (; x < valid; ++x) to[x] = load1(q + across(x));
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
        if constexpr (D::may_be_1 && vectors && !__is_same(S, T))
          if (deep.step == 1)
            for (; d + SINTER_W <= end; d += SINTER_W) {
              S decoded[SINTER_W];
              store(decoded, load(q + k0 + d));
              SX_EACH to[(d + l) * width + x] = decoded[l];
            }
        for (; d < end; ++d) to[d * width + x] = load1(q + deep(k0 + d));
      } else {
        for (long d = d0; d < end; ++d) to[d * width + x] = 0;
      }
    }
  }
}

// The caller's memory: `each` bytes for each of so many threads from `mine` on, and room for operands that are packed whole.
struct room {
  char *whole, *mine;
  long each, threads;
};

// All threads that there are, in the kernel's scratch memory behind what is shared; one of them in its part; without any memory.
SX room room_of(char* scratch, long shared) {
  return {part_of(scratch, shared, *(const long*)scratch), part_of(scratch, shared, 0), ((const long*)scratch)[1], threads_of(scratch)};
}
SX room room_alone(char* scratch, long shared) { return {nullptr, part_of(scratch, shared, thread_number()), 0, 1}; }
SX room without_room() {
#ifdef _OPENMP
  return {nullptr, nullptr, 0, omp_get_max_threads()};
#else
  return {nullptr, nullptr, 0, 1};
#endif
}
SX room alone() { return {nullptr, nullptr, 0, 1}; }

// The epilogue of `columns` sums of each of `rows` rows, from (i, j) on.
template <class S> struct finisher {
  void (*call)(const void* f, const S* c, long c_step, long i, long j, long rows, long columns);
  const void* f;
  SX_IN void operator()(const S* c, long c_step, long i, long j, long rows, long columns) const { call(f, c, c_step, i, j, rows, columns); }
};
// N is the number of the result's columns. A turned product has them as its rows.
template <class S, bool Turned, class N, class F>
SX_OUT void finish(const void* with, const S* c, long c_step, long i, long j, long rows, long columns) {
  const F& f = *(const F*)with;
  if constexpr (Turned) {
    for (long r = 0; r < rows; r += SINTER_W) {
      const long lanes = rows - r < SINTER_W ? rows - r : SINTER_W;
      for (long x = 0; x < columns; ++x) f(j + x, i + r, load_strided(c + r * c_step + x, c_step, lanes), (int)lanes);
    }
    return;
  }
  for (long r = 0; r < rows; ++r, c += c_step) {
    long x = 0;
    if constexpr (most<N> >= SINTER_W)
      for (; x + SINTER_W <= columns; x += SINTER_W) f(i + r, j + x, load(c + x), SINTER_W);
    if constexpr (least<N> % SINTER_W != 0 || least<N> != most<N>) {
      const int lanes = least<N> == most<N> && most<N> < SINTER_W ? (int)most<N> : (int)(columns - x);
      if (lanes >= SINTER_W) __builtin_unreachable();
      if (lanes > 0) f(i + r, j + x, load(c + x), lanes);
    }
  }
}

template <class S> struct operand {
  const void* p;
  walk row, column;
  pack_function<S>* pack;
};
// Where a product finds its operands: packed whole, in panels of MR rows of a and NR columns of b; packed block by block; or where they lie, a
// through tables, too. The functions are those of which a kernel has need, so that all products of a text share the rest.
template <class S> struct operands {
  long m, n, k;
  operand<S> a, b;
  micro_function<S>*wide, *narrow;  // of NV vectors, of one
  finisher<S> epilogue;
  bool streams;  // the epilogue walks arrays of the result's size: in rows that are long
  room memory;
  bool packs_a, packs_b, gathers;
  bool threads;  // run the tiles
  const S *whole_a, *whole_b;
  SX_IN S* mine() const { return (S*)(memory.mine + (threads ? memory.each * thread_number() : 0)); }
};

template <class N> SX long rounded_up(long x, N by) { return (x + by - 1) / by * by; }

template <class S> SX_CONTROL void tile(const operands<S>& g, long i0, long i1, long j0, long j1) {
  typedef blocks<S> Z;
  const long parts = g.k > Z::KC ? (g.k + Z::KC - 1) / Z::KC : 1, part = (g.k + parts - 1) / parts;
  // Sums of one block that is small need no more than registers.
  const bool at_once = parts == 1 && !(g.streams && g.n > 4 * Z::NR && g.m * g.n > Z::at_once);
  alignas(64) S one[Z::MR * Z::NR];
  // A panel of b of so few rows takes no memory.
  const bool shallow = g.k <= Z::shallow;
  alignas(64) S little[Z::NR * Z::shallow];
  S* const mine = g.mine();
  // Rows of sums lie in different sets of the caches.
  const long c_step = at_once ? Z::NR : rounded_up(j1 - j0, Z::NR) + SINTER_W;
  const bool takes_b = !shallow && !g.whole_b && (g.packs_b || (j1 - j0) % SINTER_W != 0);
  S *const c = at_once ? one : mine, *const behind = at_once ? mine : mine + rounded_up(i1 - i0, Z::MR) * c_step,
      *const block_b = shallow ? little : behind, *const block_a = takes_b ? behind + Z::NR * part : behind;
  // Sums that one block finishes go to the epilogue before they leave the nearest cache, where the rows of a are, too.
  const bool packs_edge = !g.whole_b && (j1 - j0) % SINTER_W != 0 && j1 - j0 < 4 * Z::NR;
  const long step = parts == 1 && !g.packs_b && !packs_edge ? (at_once ? 8 : 4) * Z::MR : i1 - i0;
  long at[Z::MR];
  for (long h0 = i0; h0 < i1; h0 += step) {
    const long h1 = h0 + step < i1 ? h0 + step : i1;
    for (long q = 0; q < parts; ++q) {
      const long k0 = q * part, k = k0 + part < g.k ? part : g.k - k0;
      if (g.packs_a)
        for (long i = h0; i < h1; i += Z::MR) g.a.pack(block_a + (i - h0) * k, g.a.p, g.a.row, g.a.column, i, i1 - i < Z::MR ? i1 - i : Z::MR, Z::MR, k0, k);
      for (long j = j0; j < j1; j += Z::NR) {
        const long columns = j1 - j < Z::NR ? j1 - j : Z::NR, width = rounded_up(columns, SINTER_W);
        const S* b;
        long b_step = width;
        if (g.whole_b) {
          b = g.whole_b + j * g.k + k0 * width;
        } else if (g.packs_b || columns != width) {
          g.b.pack(block_b, g.b.p, g.b.column, g.b.row, j, columns, width, k0, k);
          b = block_b;
        } else {
          b_step = g.b.row.step;
          b = (const S*)g.b.p + k0 * b_step + j;
        }
        micro_function<S>* const multiply = columns <= SINTER_W ? g.narrow : g.wide;
        for (long i = h0; i < h1; i += Z::MR) {
          const long rows = h1 - i < Z::MR ? h1 - i : Z::MR;
          const S* a = g.whole_a ? g.whole_a + i * g.k + k0 * Z::MR : block_a + (i - h0) * k;
          walk deep{Z::MR, nullptr};
          long from = 0;
          const bool there = !g.whole_a && !g.packs_a;
          const long base = there && !g.gathers ? i * g.a.row.step : 0;
          if (there) {
            a = (const S*)g.a.p + base + (g.gathers ? 0 : k0 * g.a.column.step);
            deep = g.a.column;
            from = g.gathers ? k0 : 0;
          }
          // Rows past the end repeat the last one; nobody reads their sums.
#pragma GCC unroll 1
          for (long r = 0; r < Z::MR; ++r) at[r] = there ? g.a.row(i + (r < rows ? r : rows - 1)) - base : r;
          S* to = at_once ? c : c + (i - h0) * c_step + (j - j0);
          multiply(k, a, at, deep, from, b, b_step, to, c_step, q == 0);
          if (at_once) g.epilogue(to, c_step, i, j, rows, columns);
        }
      }
    }
    if (!at_once) g.epilogue(c, c_step, h0, j0, h1 - h0, j1 - j0);
  }
}

constexpr long sum_block = 1024;
// R rows of up to U vectors of x(…, k) b(k, …), the last with `lanes` lanes, straight from memory.
template <class S, int R, int U, class X, class B> SX void strip(long k, const X* const (&x)[R], long x_step, const B* b, long b_step, S* c, long c_row, long lanes) {
  typedef typename tr<S>::v V;
  for (long d = 0; d == 0 || d < k;) {
    V sum[R][U]{};
    const long end = d + sum_block < k ? d + sum_block : k;
    const bool first = d == 0;
    for (; d < end; ++d, b += b_step) {
      V y[U];
#pragma GCC unroll 16
      for (int u = 0; u < U; ++u) y[u] = U == 1 && lanes != SINTER_W ? load(b, lanes) : load(b + u * SINTER_W);
      if constexpr (U > 1) __builtin_prefetch(b + 8 * b_step);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const V z = splat<V>(load1(x[r] + d * x_step));
#pragma GCC unroll 16
        for (int u = 0; u < U; ++u) sum[r][u] = multiply_add(z, y[u], sum[r][u]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
      for (int u = 0; u < U; ++u) {
        S* const to = c + r * c_row + u * SINTER_W;
        store(to, first ? sum[r][u] : load(to) + sum[r][u]);
      }
    if (k == 0) break;
  }
}
// to[0, n) += x b, of T terms; `to` has a vector behind its end.
template <class S, int T, class X, class B> SX void add_terms(long n, const X* x, long x_step, const B* b, long b_step, S* to) {
  typedef typename tr<S>::v V;
  V z[T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) z[t] = splat<V>(load1(x + t * x_step));
  long j = 0;
  for (; j + SINTER_W <= n; j += SINTER_W) {
    V sum = load(to + j);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) sum = multiply_add(z[t], load(b + t * b_step + j), sum);
    store(to + j, sum);
  }
  if (j == n) return;
  V sum = load(to + j);
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) sum = multiply_add(z[t], load(b + t * b_step + j, n - j), sum);
  store(to + j, sum);
}
// The columns of a task with one row, if there are many: runs of some pages' size, which the machine reads ahead.
template <class S> constexpr long long_columns = 4096 / sizeof(S);
// One row x(k) b(k, n), eight terms at a time. The sums are those of `strip`; c has a vector behind its end.
template <class S, class X, class B> SX_OUT void long_row(long n, long k, const X* x, long x_step, const B* b, long b_step, S* c) {
  typedef typename tr<S>::v V;
  alignas(64) S part[long_columns<S> + SINTER_W];
  for (long d = 0; d == 0 || d < k;) {
    const long end = d + sum_block < k ? d + sum_block : k;
    S* const to = d == 0 ? c : part;
    for (long j = 0; j < n; j += SINTER_W) store(to + j, V{});
    for (; d + 8 <= end; d += 8, b += 8 * b_step) add_terms<S, 8>(n, x + d * x_step, x_step, b, b_step, to);
    for (; d < end; ++d, b += b_step) add_terms<S, 1>(n, x + d * x_step, x_step, b, b_step, to);
    for (long j = 0; to != c && j < n; j += SINTER_W) store(c + j, load(c + j) + load(part + j));
    if (k == 0) break;
  }
}
// Element (j, d) of b lies at b + j * b_across + d * b_deep.
template <class S> using rows_function = void(long m, long n, long k, const void* x, long x_row, long x_step, const void* b, long b_across, long b_deep, S* c, long c_row);
// R rows of results, of which m count: columns [0, n) of x(…, k) b(k, n), b contiguous along n.
template <class S, int R, int U, class X, class B> SX_OUT void row_products(long m, long n, long k, const void* x_, long x_row, long x_step, const void* b_, long, long b_step, S* c, long c_row) {
  const X *const x = (const X*)x_, *rows[R];
  const B* const b = (const B*)b_;
  if constexpr (R == 1) return long_row<S>(n, k, x, x_step, b, b_step, c);
  for (int r = 0; r < R; ++r) rows[r] = x + (r < m ? r : m - 1) * x_row;
  long j = 0;
  for (; j + U * SINTER_W <= n; j += U * SINTER_W) strip<S, R, U>(k, rows, x_step, b + j, b_step, c + j, c_row, SINTER_W);
  for (; j < n; j += SINTER_W) strip<S, R, 1>(k, rows, x_step, b + j, b_step, c + j, c_row, n - j < SINTER_W ? n - j : SINTER_W);
}
// Keeps compilers from loading it again where it is used.
SX_T V in_register(V x) {
#if __AVX512VL__
  if constexpr (sizeof(V) <= 64 && sizeof(V) >= 16) asm("" : "+v"(x));
#elif __SSE2__
  if constexpr (sizeof(V) == 16) asm("" : "+x"(x));
#endif
  return x;
}
// Products of R rows of x and n rows of b, all contiguous along k; of rows past the m-th nothing is stored.
template <class S, int R, class X, class B> SX_OUT void dots(long m, long n, long k, const void* x_, long x_row, long, const void* b_, long b_row, long, S* c, long c_row) {
  typedef typename tr<S>::v V;
  const X* const x = (const X*)x_;
  const B* const b = (const B*)b_;
  constexpr int C = 4;
  constexpr long chunk = sum_block * SINTER_W;
  for (long j = 0; j < n; j += C)
    for (long i = 0; i < m; i += R) {
      const B* row[C];
      const X* left[R];
      V total[R][C]{};
#pragma GCC unroll 4
      for (int r = 0; r < C; ++r) row[r] = b + (j + r < n ? j + r : n - 1) * b_row;
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) left[r] = x + (i + r < m ? i + r : m - 1) * x_row;
      for (long d = 0; d == 0 || d < k;) {
        const long end = d + chunk < k ? d + chunk : k;
        V sum[R][C]{};
        const auto add = [&](auto part) __attribute__((always_inline)) {
          V y[R];
#pragma GCC unroll 4
          for (int r = 0; r < R; ++r) y[r] = in_register(part(left[r] + d));
#pragma GCC unroll 4
          for (int q = 0; q < C; ++q) {
            const V z = in_register(part(row[q] + d));
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r) sum[r][q] = multiply_add(y[r], z, sum[r][q]);
          }
        };
        for (; d + SINTER_W <= end; d += SINTER_W) add([](const auto* p) __attribute__((always_inline)) { return load(p); });
        if (d < end) add([=](const auto* p) __attribute__((always_inline)) { return load(p, end - d); });
        d = end;
        for (int r = 0; r < R; ++r)
          for (int q = 0; q < C; ++q) total[r][q] += sum[r][q];
        if (k == 0) break;
      }
      for (int r = 0; r < R && i + r < m; ++r)
        for (int q = 0; q < C && j + q < n; ++q) c[(i + r) * c_row + j + q] = fold_add(total[r][q]);
    }
}

SX_OUT void run_blocks(long count, int threads, void (*f)(void*, long), void* with) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (long t = 0; t < count; ++t) f(with, t);
}
template <class F> SX void each_block(long count, long threads, F f) {
  if (threads > 1 && count > 1) return run_blocks(count, (int)threads, [](void* with, long t) { (*(F*)with)(t); }, &f);
  for (long t = 0; t < count; ++t) f(t);
}
SX long workers(const room& memory, long m, long n, long k, long limit) { return m * n * k >= limit ? memory.threads : 1; }

// A few rows x, contiguous or not, with b, contiguous along n or along k: nothing is worth being packed. Rows of the result, or its one column.
constexpr long few_rows = 8, few_wide_rows = 4;
template <class S> struct task_sums {
  alignas(64) S of[(4096 / sizeof(S) > few_rows * 8 * SINTER_W ? 4096 / sizeof(S) : few_rows * 8 * SINTER_W) + SINTER_W];
};
template <class S> SX_OUT void row_product(long m, long n, long k, const void* x, long x_row, long x_step, const void* b, long b_size, long b_across, long b_deep, rows_function<S>* multiply, bool one_row, bool by_row, const finisher<S>& epilogue, long threads) {
  const long wide = long_columns<S>, chunk = m > 1 ? 8 * SINTER_W : one_row && n >= 2 * threads * wide ? wide : 16 * SINTER_W;
  each_block((n + chunk - 1) / chunk, threads, [&](long t) {
    task_sums<S> sums;
    S* const c = sums.of;
    const long j0 = t * chunk, columns = n - j0 < chunk ? n - j0 : chunk;
    multiply(m, columns, k, x, x_row, x_step, (const char*)b + j0 * b_across * b_size, b_across, b_deep, c, chunk);
    if (by_row) return epilogue(c, chunk, 0, j0, m, columns);
    SX_EACH c[columns + l] = 0;
    epilogue(c, 1, j0, 0, columns, 1);
  });
}
// For R rows of XE with BE, with strips of U vectors.
template <class S, int R, int U, class XE, class BE, class X, class D> SX rows_function<S>* rows_of(X across, D) {
  if constexpr (!X::may_be_1) return dots<S, R, XE, BE>;
  else if constexpr (!D::may_be_1 || __is_same(X, along<1>)) return row_products<S, R, U, XE, BE>;
  else return across.step == 1 ? row_products<S, R, U, XE, BE> : dots<S, R, XE, BE>;
}

// A product of tiles; of its operands all but packs_… and whole_… are known.
template <class S> SX_CONTROL void tiles(operands<S>& g) {
  typedef blocks<S> Z;
  const long m = g.m, n = g.n, k = g.k, threads = workers(g.memory, m, n, k, 1 << 22);
  // Tiles shrink until every worker has a few; sums do not depend on their size. Of few rows b is most of what is read: it is
  // read once as long as tiles have all of them.
  const long narrow = m <= Z::MC ? Z::NR : 4 * Z::NR;
  long mc = Z::MC, nc = Z::NC;
  auto count = [&] { return ((m + mc - 1) / mc) * ((n + nc - 1) / nc); };
  while (threads > 1 && count() < 3 * threads && (nc > Z::NR || mc > Z::MR)) {
    if (nc > narrow || (mc == Z::MR && nc > Z::NR)) nc /= 2;
    else mc = rounded_up(mc / 2, Z::MR);
  }
  // What several tiles read is packed once, if it is small.
  const long a_size = rounded_up(m, Z::MR) * k, b_size = rounded_up(n, SINTER_W) * k;
  const bool worth = g.memory.whole && m * n * k >= 1 << 18;
  const bool whole_a = g.packs_a && worth && n > nc && a_size <= Z::max_whole, whole_b = g.packs_b && worth && m > mc && b_size <= Z::max_whole;
  if (whole_a || whole_b) {
    S *const pa = (S*)g.memory.whole, *const pb = pa + (whole_a ? rounded_up(a_size, 64) : 0);
    const long a_panels = whole_a ? (m + Z::MR - 1) / Z::MR : 0, ta = (a_panels + 7) / 8, b_panels = whole_b ? (n + Z::NR - 1) / Z::NR : 0;
    each_block(ta + (b_panels + 1) / 2, (whole_a ? a_size : 0) + (whole_b ? b_size : 0) >= 1 << 16 ? threads : 1, [&](long t) {
      if (t < ta)
        for (long i = 8 * t * Z::MR; i < m && i < 8 * (t + 1) * Z::MR; i += Z::MR) g.a.pack(pa + i * k, g.a.p, g.a.row, g.a.column, i, m - i < Z::MR ? m - i : Z::MR, Z::MR, 0, k);
      else
        for (long j = (t - ta) * 2 * Z::NR; j < n && j < (t - ta + 1) * 2 * Z::NR; j += Z::NR) {
          const long columns = n - j < Z::NR ? n - j : Z::NR;
          g.b.pack(pb + j * k, g.b.p, g.b.column, g.b.row, j, columns, rounded_up(columns, SINTER_W), 0, k);
        }
    });
    if (whole_a) g.whole_a = pa, g.packs_a = false;
    if (whole_b) g.whole_b = pb, g.packs_b = false;
  }
  g.threads = threads > 1 && count() > 1;  // as each_block has it
  const long down = (m + mc - 1) / mc;
  each_block(count(), threads, [&](long t) {
    const long i = t % down * mc, j = t / down * nc;
    tile(g, i, i + mc < m ? i + mc : m, j, j + nc < n ? j + nc : n);
  });
}

template <class S, class A> SX operand<S> operand_of(const A& a, pack_function<S>* pack) { return {a.p, walk_of(a.row), walk_of(a.column), pack}; }

template <class S, bool Streams = false, bool Turned = false, class M, class N, class K, class A, class B, class F> static void gemm(M m_, N n_, K k_, A a, B b, F f, room memory) {
  typedef blocks<S> Z;
  const long m = m_, n = n_, k = k_;
  constexpr bool a_plain = plain<S, A>, b_plain = plain<S, B>, straight = widened<S, A> && widened<S, B>;
  typedef typename A::element AT;
  typedef typename B::element BT;
  typedef decltype(A::row) AR;
  typedef decltype(A::column) AC;
  typedef decltype(B::row) BR;
  typedef decltype(B::column) BC;
  const finisher<S> epilogue{finish<S, Turned, N, F>, &f};
  if (m <= 0 || n <= 0) return;
  if constexpr (straight && least<M> == 1 && most<M> == 1 && (BC::may_be_1 || (BR::may_be_1 && AC::may_be_1)))
    if (b.column.step == 1 || (b.row.step == 1 && a.column.step == 1))
      return row_product<S>(1, n, k, a.p, 0, a.column.step, b.p, sizeof(BT), b.column.step, b.row.step, rows_of<S, 1, 8, AT, BT>(b.column, b.row), true, true, epilogue, workers(memory, m, n, k, 1 << 18));
  if constexpr (straight && least<N> == 1 && most<N> == 1 && (AR::may_be_1 || (AC::may_be_1 && BR::may_be_1)))
    if (a.row.step == 1 || (a.column.step == 1 && b.row.step == 1))
      return row_product<S>(1, m, k, b.p, 0, b.row.step, a.p, sizeof(AT), a.row.step, a.column.step, rows_of<S, 1, 8, BT, AT>(a.row, a.column), true, false, epilogue, workers(memory, m, n, k, 1 << 18));
  if constexpr (straight && least<M> <= (__is_same(BC, along<1>) ? few_wide_rows : few_rows) && (BC::may_be_1 || (AC::may_be_1 && BR::may_be_1)) && may_reach<M, N, K>(1 << 15))
    if (m * n * k >= 1 << 15 && ((m <= few_wide_rows && b.column.step == 1) || (m <= few_rows && b.column.step != 1 && a.column.step == 1 && b.row.step == 1))) {
      constexpr int U = Z::registers == 32 && Z::each == 1 ? 4 : 2;
      rows_function<S>* multiply;
      if constexpr (most<M> <= 2) multiply = rows_of<S, 2, 2 * U, AT, BT>(b.column, b.row);
      else if constexpr (least<M> > 2) multiply = rows_of<S, 4, U, AT, BT>(b.column, b.row);
      else multiply = m <= 2 ? rows_of<S, 2, 2 * U, AT, BT>(b.column, b.row) : rows_of<S, 4, U, AT, BT>(b.column, b.row);
      return row_product<S>(m, n, k, a.p, a.row.step, a.column.step, b.p, sizeof(BT), b.column.step, b.row.step, multiply, false, true, epilogue, workers(memory, m, n, k, 1 << 18));
    }

  typedef typename compiled_as<AR>::type XA;
  typedef typename compiled_as<AC>::type DA;
  constexpr bool gathers = gathered<S, A>, known = least<N> == most<N>;
  constexpr bool may_gather = gathers && least<N> <= Z::few_columns;
  constexpr bool may_pack_a = gathers ? most<N> > Z::few_columns : !a_plain || (most<N> > 4 * Z::NR && may_reach<M, fixed<1>, K>(4097));
  constexpr bool may_pack_b = !b_plain || !__is_same(BC, along<1>) || (most<M> > 4 * Z::MR && may_reach<N, fixed<1>, K>(65537));
  constexpr long edge = least<N> % Z::NR;
  constexpr bool may_be_wide = Z::NV > 1 && most<N> > SINTER_W, may_be_narrow = Z::NV == 1 || !known || (edge != 0 && edge <= SINTER_W);
  operands<S> g{m, n, k, operand_of<S>(a, nullptr), operand_of<S>(b, nullptr), nullptr, nullptr, epilogue, Streams, memory};
  if constexpr (may_pack_a) g.a.pack = pack<S, AT, XA, DA>;
  // Edges of b are packed, too.
  if constexpr (may_pack_b || !known || least<N> % SINTER_W != 0) g.b.pack = pack<S, BT, typename compiled_as<BC>::type, typename compiled_as<BR>::type>;
  if constexpr (may_be_wide) g.wide = micro<S, Z::MR, Z::NV, linear>;
  if constexpr (may_be_narrow) g.narrow = micro<S, Z::MR, 1, linear>;
  g.gathers = may_gather && n <= Z::few_columns;
  if constexpr (may_gather && __is_same(AC, table))
    if (g.gathers) {
      if constexpr (may_be_wide) g.wide = micro<S, Z::MR, Z::NV, table>;
      if constexpr (may_be_narrow) g.narrow = micro<S, Z::MR, 1, table>;
    }
  if constexpr (Z::NV == 1) g.wide = g.narrow;
  g.packs_a = may_pack_a && (gathers ? n > Z::few_columns : !a_plain || (n > 4 * Z::NR && m * k > 4096));
  g.packs_b = may_pack_b && (!b_plain || b.column.step != 1 || (m > 4 * Z::MR && n * k > 65536));
  if constexpr (may_reach<M, N, K>(1 << 18)) tiles(g);
  else
    for (long j = 0; j < n; j += Z::NC)
      for (long i = 0; i < m; i += Z::MC) tile(g, i, m - i < Z::MC ? m : i + Z::MC, j, n - j < Z::NC ? n : j + Z::NC);
}
}  // namespace sx
)prelude";

}  // namespace sinter::engine::emit
