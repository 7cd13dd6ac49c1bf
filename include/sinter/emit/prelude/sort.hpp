// emit/prelude/sort.hpp: the parts of the preludes that order elements: keys in the order of values, sorted rows of keys, and
// bisections. CPU kernels take them after prelude_threads, CUDA kernels after prelude_cuda_core.
#pragma once

#include <string_view>

namespace sinter::engine::emit {

/// sort_row(a, b, n, count): the first `count` of a's n elements in order, in a or b. Equal keys keep their order.
inline constexpr std::string_view prelude_sort = R"prelude(
namespace sx {
template <int B> struct sort_word { typedef s_u32 t; };
template <> struct sort_word<8> { typedef s_u64 t; };
template <class K> struct ranked { K key, place; };
// NaN is last, -0 is 0.
template <class T> SX auto sort_key(T x, bool descending) {
  typedef typename sort_word<sizeof(T)>::t K;
  constexpr K top = (K)1 << (8 * sizeof(K) - 1);
  K k;
  if constexpr (tr<T>::kind == 3) {
    const K b = __builtin_bit_cast(K, x);
    k = b == top ? top : b & top ? ~b : b | top;
    if (descending) k = ~k;
    return x != x ? (K)-1 : k;
  } else {
    if constexpr (tr<T>::kind == 1) k = (K)(s_i64)x ^ top;
    else k = (K)x;
    return descending ? (K)~k : k;
  }
}
template <class K> static void sort_few(ranked<K>* a, long n) {
  for (long i = 1; i < n; ++i) {
    const ranked<K> x = a[i];
    long j = i;
    for (; j > 0 && a[j - 1].key > x.key; --j) a[j] = a[j - 1];
    a[j] = x;
  }
}
#ifdef _OPENMP
extern "C" int omp_in_parallel();
// The same by up to sort_threads, whose counts are on the stack: each counts and then moves a part of the row, in the order of parts, so
// that equal keys stay.
enum { sort_threads = 16 };
template <class K> static const ranked<K>* sort_shared(ranked<K>* a, ranked<K>* b, long n, int parts) {
  long counts[sort_threads][256];
  for (unsigned shift = 0; shift < 8 * sizeof(K); shift += 8) {
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int t = 0; t < parts; ++t) {
      long* const c = counts[t];
      for (int j = 0; j < 256; ++j) c[j] = 0;
      for (long i = n * t / parts; i < n * (t + 1) / parts; ++i) ++c[a[i].key >> shift & 255];
    }
    long sum = 0, most = 0;
    for (int j = 0; j < 256; ++j) {
      const long before = sum;
      for (int t = 0; t < parts; ++t) {
        const long here = counts[t][j];
        counts[t][j] = sum;
        sum += here;
      }
      if (sum - before > most) most = sum - before;
    }
    if (most == n) continue;
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int t = 0; t < parts; ++t) {
      long* const c = counts[t];
      for (long i = n * t / parts; i < n * (t + 1) / parts; ++i) b[c[a[i].key >> shift & 255]++] = a[i];
    }
    ranked<K>* const t = a;
    a = b;
    b = t;
  }
  return a;
}
#endif
// By eight bits a pass, from the lowest; a digit that all share takes none.
template <class K> static const ranked<K>* sort_many(ranked<K>* a, ranked<K>* b, long n) {
#ifdef _OPENMP
  const int most = omp_get_max_threads(), threads = most < sort_threads ? most : sort_threads;
  if (n >= 1 << 16 && threads > 1 && !omp_in_parallel()) return sort_shared(a, b, n, threads);
#endif
  long counts[sizeof(K)][256] = {};
  for (long i = 0; i < n; ++i)
    for (unsigned d = 0; d < sizeof(K); ++d) ++counts[d][a[i].key >> 8 * d & 255];
  for (unsigned d = 0; d < sizeof(K); ++d) {
    long* const c = counts[d];
    if (c[a[0].key >> 8 * d & 255] == n) continue;
    long sum = 0;
    for (int j = 0; j < 256; ++j) {
      const long here = c[j];
      c[j] = sum;
      sum += here;
    }
    for (long i = 0; i < n; ++i) b[c[a[i].key >> 8 * d & 255]++] = a[i];
    ranked<K>* const t = a;
    a = b;
    b = t;
  }
  return a;
}
// Those that come no later than the count-th does, and few others: how many they are, in b as they lay.
template <class K> static long take_first(const ranked<K>* a, ranked<K>* b, long n, long count) {
  constexpr int bits = 8 * sizeof(K);
  K prefix = 0;
  long before = 0;
  int shift = bits;
  for (bool enough = false; !enough && shift > 0;) {
    long counts[256] = {};
    shift -= 8;
    for (long i = 0; i < n; ++i)
      if (shift + 8 == bits || a[i].key >> (shift + 8) % bits == prefix) ++counts[a[i].key >> shift & 255];
    int d = 0;
    while (before + counts[d] < count) before += counts[d++];
    prefix = (K)(prefix << 8 | (K)d);
    enough = before + counts[d] <= 2 * count + 64;
  }
  long m = 0;
  for (long i = 0; i < n; ++i)
    if (a[i].key >> shift <= prefix) b[m++] = a[i];
  return m;
}
template <class K> static const ranked<K>* sort_row(ranked<K>* a, ranked<K>* b, long n, long count) {
  if (count <= 0) return a;
  if (n > 96 && count < n / 8) {
    n = take_first(a, b, n, count);
    ranked<K>* const t = a;
    a = b;
    b = t;
  }
  if (n > 96) return sort_many(a, b, n);
  sort_few(a, n);
  return a;
}
}  // namespace sx
)prelude";

/// search_some<Right>(p, step, n, x, low): for each x, the number of the n sorted elements from its p on that precede it.
/// With Right, equal elements count, too.
inline constexpr std::string_view prelude_searches = R"prelude(
namespace sx {
// Each waits for an element, so that many do at once; without a branch, as many steps whatever the elements are.
template <bool Right, int N, class M, class T>
SX void search_some(const M* const (&p)[N], long step, long n, const T (&x)[N], s_i64 (&low)[N]) {
  const auto precedes = [](T a, T b) { return (bool)((a < b) | ((b != b) & (a == a))); };
  for (int k = 0; k < N; ++k) low[k] = 0;
  while (n > 0) {
    const long half = n > 1 ? n / 2 : 1;
#pragma GCC unroll 16
    for (int k = 0; k < N; ++k) {
      const T at = load1(p[k] + (low[k] + half - 1) * step);
      low[k] += half & -(s_i64)(Right ? !precedes(x[k], at) : precedes(at, x[k]));
    }
    n = n > 1 ? n - half : 0;
  }
}
}  // namespace sx
)prelude";

/// searched<Right>(p, step, n, x): the same number for one x, on a GPU.
inline constexpr std::string_view prelude_cuda_search = R"prelude(
namespace sx {
template <class T> SX bool precedes(T a, T b) { return a < b || (b != b && a == a); }
template <bool Right, class M, class T> SX s_i64 searched(const M* p, long step, long n, T x) {
  const auto earlier = [&](long i) {
    const T at = load1(p + i * step);
    return Right ? !precedes(x, at) : precedes(at, x);
  };
  long low = 0;
  for (; n > 1; n -= n / 2) low += earlier(low + n / 2 - 1) ? n / 2 : 0;
  if (n > 0) low += earlier(low) ? 1 : 0;
  return low;
}
}  // namespace sx
)prelude";

/// sort_tile<Tile, Width, Threads>(x): a block sorts each Width of Tile elements in shared memory, by a bitonic network.
/// sort_by_digit<Each>(from, n, digit, tile, counts, digits, states, put): a block of 256 threads, Each items in each, calls
/// put(rank, item) for each item of one tile of a row's n items. Items are ordered by a byte of their keys, and equal bytes keep their
/// order. `counts` is shared memory. `digits` counts the row's items by their bytes. `states` tells how many items of each byte a tile
/// has, or all tiles up to it have; 0 tells nothing. Tiles of a row begin in order. (Merrill and Garland, Single-pass Parallel Prefix
/// Scan with Decoupled Look-back; Adinets and Merrill, Onesweep.)
inline constexpr std::string_view prelude_cuda_sort = R"prelude(
namespace sx {
template <int B> struct sort_word { typedef s_u32 t; };
template <> struct sort_word<8> { typedef s_u64 t; };
template <class K> struct alignas(2 * sizeof(K)) ranked { K key, place; };
SX s_u32 sort_bits(s_f32 x) { return __float_as_uint(x); }
SX s_u64 sort_bits(s_f64 x) { return (s_u64)__double_as_longlong(x); }
// NaN is last, -0 is 0.
template <class T> SX auto sort_key(T x, bool descending) {
  typedef typename sort_word<sizeof(T)>::t K;
  constexpr K top = (K)1 << (8 * sizeof(K) - 1);
  K k;
  if constexpr (tr<T>::kind == 3) {
    const K b = sort_bits(x);
    k = b == top ? top : b & top ? ~b : b | top;
    if (descending) k = ~k;
    return x != x ? (K)-1 : k;
  } else {
    if constexpr (tr<T>::kind == 1) k = (K)(s_i64)x ^ top;
    else k = (K)x;
    return descending ? (K)~k : k;
  }
}
// No two are equal: places differ.
template <class K> SX bool comes_before(ranked<K> a, ranked<K> b) {
  return a.key < b.key || (a.key == b.key && a.place < b.place);
}
template <int Tile, int Width, int Threads, class K> SX void sort_tile(ranked<K>* x) {
  for (int size = 2; size <= Width; size *= 2)
    for (int apart = size / 2; apart > 0; apart /= 2) {
#pragma unroll
      for (int i = threadIdx.x; i < Tile / 2; i += Threads) {
        const int low = 2 * i - (i & (apart - 1)), high = low + apart;
        const ranked<K> a = x[low], b = x[high];
        const bool rising = size == Width || !(low & size);
        if (comes_before(b, a) == rising) {
          x[low] = b;
          x[high] = a;
        }
      }
      __syncthreads();
    }
}
template <class K> SX unsigned key_digit(K key, int digit) { return (unsigned)(key >> 8 * digit) & 255u; }
template <int Each, class K>
SX void count_digits(const ranked<K>* from, long n, long tile, unsigned* counts, unsigned* digits) {
  enum { Digits = sizeof(K) };
#pragma unroll
  for (int d = 0; d < Digits; ++d) counts[d * 256 + threadIdx.x] = 0;
  __syncthreads();
  const long first = tile * Each * 256;
#pragma unroll
  for (int i = 0; i < Each; ++i) {
    const long at = first + i * 256 + threadIdx.x;
    if (at < n) {
      const K key = from[at].key;
#pragma unroll
      for (int d = 0; d < Digits; ++d) atomicAdd(&counts[d * 256 + key_digit(key, d)], 1u);
    }
  }
  __syncthreads();
#pragma unroll
  for (int d = 0; d < Digits; ++d)
    if (const unsigned c = counts[d * 256 + threadIdx.x]) atomicAdd(&digits[d * 256 + threadIdx.x], c);
}
// The sum of x in this thread and those before it; `sums` is of the block.
SX unsigned sum_up_to(unsigned x, unsigned* sums) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const unsigned y = __shfl_up_sync(~0u, x, by);
    if (lane >= by) x += y;
  }
  if (lane == 31) sums[warp] = x;
  __syncthreads();
  for (int w = 0; w < warp; ++w) x += sums[w];
  return x;
}
// The items of tiles before one that have this thread's digit.
SX s_u64 before_tile(const s_u64* states, long tile) {
  const s_u64 last = (s_u64)2 << 62;
  s_u64 sum = 0;
  for (long k = tile - 1; k >= 0;) {
    s_u64 s[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) s[i] = k >= i ? __ldcv(states + (k - i) * 256 + threadIdx.x) : last;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (s[i] == 0) break;
      sum += s[i] & ~((s_u64)3 << 62);
      --k;
      if (s[i] >> 62 == 2) k = -1;
      if (k < 0) break;
    }
  }
  return sum;
}
template <int Each, class K, class F>
SX void sort_by_digit(const ranked<K>* from, long n, int digit, long tile, unsigned (*counts)[256], const unsigned* digits,
                      s_u64* states, F&& put) {
  enum { Tile = Each * 256 };
  __shared__ ranked<K> items[Tile];
  __shared__ unsigned sums[2][8];
  __shared__ long begins[256];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
#pragma unroll
  for (int w = 0; w < 8; ++w) counts[w][t] = 0;
  from += tile * Tile;
  const int here = n - tile * Tile < Tile ? (int)(n - tile * Tile) : Tile;
  ranked<K> x[Each];
  unsigned rank[Each];
#pragma unroll
  for (int i = 0; i < Each; ++i) {
    const int at = warp * 32 * Each + i * 32 + lane;
    x[i].key = ~(K)0;
    if (at < here) x[i] = from[at];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Each; ++i) {
    const unsigned d = key_digit(x[i].key, digit);
    unsigned same = ~0u;
#pragma unroll
    for (int b = 0; b < 8; ++b) {
      const unsigned set = __ballot_sync(~0u, d >> b & 1);
      same &= d >> b & 1 ? set : ~set;
    }
    const unsigned before = __popc(same & ((1u << lane) - 1)), old = counts[warp][d];
    __syncwarp();
    if (before == 0) counts[warp][d] = old + __popc(same);
    __syncwarp();
    rank[i] = old + before;
  }
  __syncthreads();
  unsigned own = 0;
#pragma unroll
  for (int w = 0; w < 8; ++w) {
    const unsigned c = counts[w][t];
    counts[w][t] = own;
    own += c;
  }
  typedef unsigned long long word;
  word* const state = (word*)states + tile * 256 + t;
  atomicExch(state, (word)(tile > 0 ? 1 : 2) << 62 | own);
  const unsigned begin = sum_up_to(own, sums[0]) - own, all = digits[t], row = sum_up_to(all, sums[1]) - all;
#pragma unroll
  for (int w = 0; w < 8; ++w) counts[w][t] += begin;
  const s_u64 before = before_tile(states, tile);
  if (tile > 0) atomicExch(state, (word)2 << 62 | (before + own));
  begins[t] = (long)(row + before) - begin;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Each; ++i) items[counts[warp][key_digit(x[i].key, digit)] + rank[i]] = x[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Each; ++i) {
    const int at = i * 256 + t;
    if (at < here) put(begins[key_digit(items[at].key, digit)] + at, items[at]);
  }
}
}  // namespace sx
)prelude";

}  // namespace sinter::engine::emit
