// emit/prelude/cuda_block.hpp: the parts of the CUDA prelude in which threads work together: reductions over a warp or a
// block, atomic additions, the tiles of a matrix product. Follows prelude_cuda_core.
#pragma once

#include <string_view>

namespace sinter::engine::emit {

/// group_all<N>: the fold over N ≤ 32 neighbouring threads, for each of them, in an order that never varies.
inline constexpr std::string_view prelude_cuda_reduce = R"prelude(
namespace sx {
template <class T> struct extreme { T value; s_i64 index; };
// The more extreme of two; a NaN is extreme, and of equals the first. An index of -1 is that of no element.
template <bool Most, class T> SX extreme<T> better(extreme<T> a, extreme<T> b) {
  if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
  const bool na = a.value != a.value, nb = b.value != b.value;
  const bool same = (na && nb) || a.value == b.value;
  if (same) return a.index < b.index ? a : b;
  const bool first = na || (!nb && (Most ? a.value > b.value : a.value < b.value));
  return first ? a : b;
}
SX_T T from_lane(T x, int mask) {
  if constexpr (sizeof(T) < 4) return (T)__shfl_xor_sync(0xffffffffu, (int)x, mask);
  else return __shfl_xor_sync(0xffffffffu, x, mask);
}
SX_T extreme<T> from_lane(extreme<T> x, int mask) { return {from_lane(x.value, mask), from_lane(x.index, mask)}; }
template <int N, class T, class F> SX T group_all(T x, F f) {
#pragma unroll
  for (int m = N / 2; m > 0; m /= 2) x = f(x, from_lane(x, m));
  return x;
}
// What N warps left in `slots`, folded for every thread.
template <int N, class T, class F> SX T warps_all(const T* slots, F f) {
  if constexpr (N > 8) return group_all<N>(slots[threadIdx.x & (N - 1)], f);
  T x = slots[0];
#pragma unroll
  for (int i = 1; i < N; ++i) x = f(x, slots[i]);
  return x;
}
}  // namespace sx
)prelude";

/// copy_async(to, from) copies 16 bytes from memory to shared memory while the thread goes on. copy_or_zero<B> copies 4 or 16
/// bytes, or writes as many zeros. end_copies() ends a group of copies. await_copies<N>() waits until all groups but the last
/// N have arrived ("PTX ISA", cp.async).
inline constexpr std::string_view prelude_cuda_copy = R"prelude(
namespace sx {
#if defined(__CUDACC_RTC__)
SX void copy_async(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
template <int B> SX void copy_or_zero(void* to, const void* from, bool inside) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  const int bytes = inside ? B : 0;
  if constexpr (B == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(at), "l"(from), "r"(bytes) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(at), "l"(from), "r"(bytes) : "memory");
}
SX void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> SX void await_copies() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
#endif
template <class P, class W> SX void copied(P& x, const W& from) {
  union { W w; P x; } r;
  r.w = from;
  x = r.x;
}
}  // namespace sx
)prelude";

/// tf32(x): x rounded to 10 bits of mantissa, ties away from 0, by an addition to its bits. Tensor cores ignore the lower
/// bits (CUTLASS, tfloat32.h). The addition would wrap a NaN around. So the sign of a NaN is cleared first, and the greater
/// integer is taken. multiply_tf32(c, a, b): a warp's c += a b, 16 by 8 by 8. The elements are spread over its lanes as
/// mma.m16n8k8 requires ("PTX ISA"). hold(x): computations from x stay after this point.
inline constexpr std::string_view prelude_cuda_tensor = R"prelude(
namespace sx {
#if defined(__CUDACC_RTC__)
SX unsigned tf32(float x) {
  unsigned r;
  asm("{.reg .f32 t; .reg .s32 u, v; max.NaN.f32 t, %1, 0fFF800000; mov.b32 u, t; add.s32 v, u, 4096; max.s32 %0, v, u;}"
      : "=r"(r) : "f"(x));
  return r;
}
SX void multiply_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <int V, class M> SX void hold(pack<V, M>& x) {
#pragma unroll
  for (int l = 0; l < V; ++l)
    if constexpr (sizeof(M) == 4) asm volatile("" : "+r"((int&)x.e[l]));
}
#endif
}  // namespace sx
)prelude";

/// shuffle_up(x, by): the x of the thread `by` lanes below in the warp.
inline constexpr std::string_view prelude_cuda_scan = R"prelude(
namespace sx {
SX_T T shuffle_up(T x, int by) {
  if constexpr (sizeof(T) < 4) return (T)__shfl_up_sync(0xffffffffu, (int)x, by);
  else return __shfl_up_sync(0xffffffffu, x, by);
}
}  // namespace sx
)prelude";

/// The arguments that vary between the kernels of a launch: P buffers, then N numbers.
inline constexpr std::string_view prelude_cuda_table = R"prelude(
namespace sx {
template <int P, int N, class T> struct table { void* p[P]; T n[N]; };
template <int N, class T> struct table<0, N, T> { T n[N]; };
}  // namespace sx
)prelude";

/// atomic_add(p, x): *p += x, atomic with other additions. Elements of 8 and 16 bits are updated through the word that holds
/// them. A pack is added element by element: in one instruction from compute capability 9.0 on ("PTX ISA" 8.1, red).
inline constexpr std::string_view prelude_cuda_atomic = R"prelude(
namespace sx {
SX void atomic_add(t_f32* p, s_f32 x) { atomicAdd(p, x); }
SX void atomic_add(t_f32* p, pack<4, t_f32> x) {
#if __CUDA_ARCH__ >= 900 && (__CUDACC_VER_MAJOR__ > 12 || __CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 1)
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(x.e[0]), "f"(x.e[1]), "f"(x.e[2]), "f"(x.e[3]) : "memory");
#else
#pragma unroll
  for (int l = 0; l < 4; ++l) atomicAdd(p + l, x.e[l]);
#endif
}
SX void atomic_add(t_f64* p, s_f64 x) { atomicAdd(p, x); }
SX void atomic_add(t_i32* p, s_i32 x) { atomicAdd(p, x); }
SX void atomic_add(t_u32* p, s_u32 x) { atomicAdd(p, x); }
SX void atomic_add(t_i64* p, s_i64 x) { atomicAdd((unsigned long long*)p, (unsigned long long)x); }
SX void atomic_add(t_u64* p, s_u64 x) { atomicAdd((unsigned long long*)p, (unsigned long long)x); }
template <class M, class T> SX void atomic_add(M* p, T x) {
  static_assert(sizeof(M) < 4);
  typedef typename words<sizeof(M)>::t W;
  const unsigned long at = (unsigned long)p;
  unsigned* const word = (unsigned*)(at & ~3ul);
  const unsigned shift = 8 * (unsigned)(at & 3), mask = (sizeof(M) == 1 ? 0xffu : 0xffffu) << shift;
  unsigned old = *word, seen;
  do {
    seen = old;
    union { W w; M m; } e;
    e.w = (W)(seen >> shift);
    e.m = encode<M>(decode(e.m) + x);
    old = atomicCAS(word, seen, (seen & ~mask) | ((unsigned)e.w << shift & mask));
  } while (old != seen);
}
}  // namespace sx
)prelude";

/// atomic_update(p, x, f): *p = f(*p, x), atomic with other updates. Elements of 8 and 16 bits are updated through the word
/// that holds them.
inline constexpr std::string_view prelude_cuda_update = R"prelude(
namespace sx {
template <class W, class M, class T, class F> SX void update_word(M* p, T x, F f) {
  W old = *(W*)p, seen;
  do {
    seen = old;
    union { W w; M m; } e;
    e.w = seen;
    e.m = encode<M>(f(decode(e.m), x));
    if (e.w == seen) return;
    old = atomicCAS((W*)p, seen, e.w);
  } while (old != seen);
}
template <class M, class T, class F> SX void atomic_update(M* p, T x, F f) {
  if constexpr (sizeof(M) == 8) {
    update_word<unsigned long long>(p, x, f);
  } else if constexpr (sizeof(M) == 4) {
    update_word<unsigned>(p, x, f);
  } else {
    typedef typename words<sizeof(M)>::t W;
    const unsigned long at = (unsigned long)p;
    unsigned* const word = (unsigned*)(at & ~3ul);
    const unsigned shift = 8 * (unsigned)(at & 3), mask = (sizeof(M) == 1 ? 0xffu : 0xffffu) << shift;
    unsigned old = *word, seen;
    do {
      seen = old;
      union { W w; M m; } e;
      e.w = (W)(seen >> shift);
      e.m = encode<M>(f(decode(e.m), x));
      const unsigned next = (seen & ~mask) | ((unsigned)e.w << shift & mask);
      if (next == seen) return;
      old = atomicCAS(word, seen, next);
    } while (old != seen);
  }
}
}  // namespace sx
)prelude";

/// multiply_add(a, b, c): a * b + c. Floating numbers are rounded once; integers wrap.
inline constexpr std::string_view prelude_cuda_product = R"prelude(
namespace sx {
SX_T T multiply_add(T a, T b, T c) {
  if constexpr (same<T, s_f32>) return ::fmaf(a, b, c);
  else if constexpr (same<T, s_f64>) return ::fma(a, b, c);
  else return (T)((typename tr<T>::u)a * (typename tr<T>::u)b + (typename tr<T>::u)c);
}
}  // namespace sx
)prelude";

}  // namespace sinter::engine::emit
