// tests/emulator/device.hpp: CUDA C++ as a host compiler reads it; stands before the text of every emulated kernel.
//
// No standard header: kernels are compiled one by one, and quickly. A block's threads are fibers; what they share with
// the emulated driver is the record below.
#pragma once

struct uint3 {
  unsigned x, y, z;
};
typedef uint3 dim3;

/// Set by the emulated driver before each thread runs, and asked by the built-ins.
struct sinter_thread {
  uint3 thread, block, block_dim, grid_dim;
  int lane;
  char* dynamic_shared;
  /// Waits for all threads of the block; the sum of `value` over them.
  int (*barrier)(int line, int value);
  /// Waits for the lanes in `mask`, which give a value each; the values of all lanes.
  const unsigned long long* (*exchange)(unsigned mask, int line, unsigned long long value);
  unsigned (*active)();
  /// Ends the kernel: 1 for a trap, 2 for a wrong shuffle.
  void (*stop)(int why, int line);
  /// Waits for the operations that the kernel depends on, where it was begun before they were done.
  void (*await)();
  /// Sets the condition of a graph's branch or loop.
  void (*choose)(unsigned long long handle, unsigned value);
};
extern "C" {
__attribute__((visibility("default"))) sinter_thread* sinter_emulated = 0;
}

extern "C" inline void cudaGraphSetConditional(unsigned long long handle, unsigned value) {
  sinter_emulated->choose(handle, value);
}

#define threadIdx (sinter_emulated->thread)
#define blockIdx (sinter_emulated->block)
#define blockDim (sinter_emulated->block_dim)
#define gridDim (sinter_emulated->grid_dim)
#define warpSize 32

#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__ const
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
// Where the standard allows it in fewer places than CUDA's compilers.
#define alignas(...) __attribute__((aligned(__VA_ARGS__)))
// One block runs at a time; the section is poisoned between blocks.
#define __shared__ static __attribute__((section("sinter_shared")))

#define SINTER_VECTORS(T, name)                                             \
  struct alignas(2 * sizeof(T)) name##2 {                                   \
    T x, y;                                                                 \
  };                                                                        \
  struct name##3 {                                                          \
    T x, y, z;                                                              \
  };                                                                        \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 {         \
    T x, y, z, w;                                                           \
  };                                                                        \
  static inline name##2 make_##name##2(T x, T y) { return {x, y}; }         \
  static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define uint3 sinter_uint3
SINTER_VECTORS(signed char, char)
SINTER_VECTORS(unsigned char, uchar)
SINTER_VECTORS(short, short)
SINTER_VECTORS(unsigned short, ushort)
SINTER_VECTORS(int, int)
SINTER_VECTORS(unsigned, uint)
SINTER_VECTORS(long, long)
SINTER_VECTORS(unsigned long, ulong)
SINTER_VECTORS(long long, longlong)
SINTER_VECTORS(unsigned long long, ulonglong)
SINTER_VECTORS(float, float)
SINTER_VECTORS(double, double)
#undef uint3

// The C library's mathematics, in both widths.
#define SINTER_MATH1(name)                 \
  extern "C" double name(double) noexcept; \
  extern "C" float name##f(float) noexcept;
#define SINTER_MATH2(name)                         \
  extern "C" double name(double, double) noexcept; \
  extern "C" float name##f(float, float) noexcept;
// clang-format off
SINTER_MATH1(exp) SINTER_MATH1(exp2) SINTER_MATH1(exp10) SINTER_MATH1(expm1) SINTER_MATH1(log) SINTER_MATH1(log2)
SINTER_MATH1(log10) SINTER_MATH1(log1p) SINTER_MATH1(sqrt) SINTER_MATH1(cbrt) SINTER_MATH1(sin) SINTER_MATH1(cos)
SINTER_MATH1(tan) SINTER_MATH1(asin) SINTER_MATH1(acos) SINTER_MATH1(atan) SINTER_MATH1(sinh) SINTER_MATH1(cosh)
SINTER_MATH1(tanh) SINTER_MATH1(asinh) SINTER_MATH1(acosh) SINTER_MATH1(atanh) SINTER_MATH1(erf) SINTER_MATH1(erfc)
SINTER_MATH1(lgamma) SINTER_MATH1(tgamma) SINTER_MATH1(floor) SINTER_MATH1(ceil) SINTER_MATH1(trunc)
SINTER_MATH1(rint) SINTER_MATH1(round) SINTER_MATH1(nearbyint) SINTER_MATH1(fabs)
SINTER_MATH2(pow) SINTER_MATH2(fmod) SINTER_MATH2(atan2) SINTER_MATH2(fmin) SINTER_MATH2(fmax) SINTER_MATH2(hypot)
SINTER_MATH2(copysign) SINTER_MATH2(nextafter) SINTER_MATH2(remainder)
    // clang-format on
    extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
extern "C" int abs(int) noexcept;
#define SINTER_FLOAT static inline float
#define SINTER_DOUBLE static inline double
SINTER_FLOAT rsqrtf(float a) { return 1 / sqrtf(a); }
SINTER_DOUBLE rsqrt(double a) { return 1 / sqrt(a); }
SINTER_FLOAT __expf(float a) { return expf(a); }
SINTER_FLOAT __logf(float a) { return logf(a); }
SINTER_FLOAT __log2f(float a) { return log2f(a); }
SINTER_FLOAT __sinf(float a) { return sinf(a); }
SINTER_FLOAT __cosf(float a) { return cosf(a); }
SINTER_FLOAT __powf(float a, float b) { return powf(a, b); }
SINTER_FLOAT __fdividef(float a, float b) { return a / b; }
SINTER_FLOAT __frcp_rn(float a) { return 1 / a; }
SINTER_FLOAT __frsqrt_rn(float a) { return 1 / sqrtf(a); }
SINTER_FLOAT __fsqrt_rn(float a) { return sqrtf(a); }
SINTER_FLOAT __fadd_rn(float a, float b) { return a + b; }
SINTER_FLOAT __fsub_rn(float a, float b) { return a - b; }
SINTER_FLOAT __fmul_rn(float a, float b) { return a * b; }
SINTER_FLOAT __fdiv_rn(float a, float b) { return a / b; }
SINTER_FLOAT __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
SINTER_DOUBLE __dadd_rn(double a, double b) { return a + b; }
SINTER_DOUBLE __dmul_rn(double a, double b) { return a * b; }
SINTER_FLOAT __saturatef(float a) { return a >= 0 ? a < 1 ? a : 1 : 0; }
template <class A, class B>
static inline auto min(A a, B b) -> decltype(a + b) {
  return a < b ? a : b;
}
template <class A, class B>
static inline auto max(A a, B b) -> decltype(a + b) {
  return a > b ? a : b;
}

template <class R, class A>
static inline R sinter_bits(A a) {
  static_assert(sizeof(R) == sizeof(A));
  R r;
  __builtin_memcpy(&r, &a, sizeof r);
  return r;
}
static inline unsigned __float_as_uint(float a) { return sinter_bits<unsigned>(a); }
static inline int __float_as_int(float a) { return sinter_bits<int>(a); }
static inline float __uint_as_float(unsigned a) { return sinter_bits<float>(a); }
static inline float __int_as_float(int a) { return sinter_bits<float>(a); }
static inline long long __double_as_longlong(double a) { return sinter_bits<long long>(a); }
static inline double __longlong_as_double(long long a) { return sinter_bits<double>(a); }
static inline int __popc(unsigned a) { return __builtin_popcount(a); }
static inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
static inline int __clz(int a) { return a == 0 ? 32 : __builtin_clz((unsigned)a); }
static inline int __clzll(long long a) { return a == 0 ? 64 : __builtin_clzll((unsigned long long)a); }
static inline int __ffs(int a) { return __builtin_ffs(a); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline unsigned __brev(unsigned a) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (a >> i & 1) << (31 - i);
  return r;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  const unsigned long long both = a | (unsigned long long)b << 32;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) r |= (unsigned)(both >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
  return r;
}

template <class T>
static inline T __ldg(const T* p) {
  return *p;
}
template <class T>
static inline T __ldca(const T* p) {
  return *p;
}
template <class T>
static inline T __ldcg(const T* p) {
  return *p;
}
template <class T>
static inline T __ldcs(const T* p) {
  return *p;
}
template <class T>
static inline T __ldlu(const T* p) {
  return *p;
}
template <class T>
static inline T __ldcv(const T* p) {
  return *(const volatile T*)p;
}
template <class T, class V>
static inline void __stwb(T* p, V v) {
  *p = v;
}
template <class T, class V>
static inline void __stcg(T* p, V v) {
  *p = v;
}
template <class T, class V>
static inline void __stcs(T* p, V v) {
  *p = v;
}
template <class T, class V>
static inline void __stwt(T* p, V v) {
  *p = v;
}

// Threads take turns at barriers and exchanges only: anything between two of them is atomic.
#define SINTER_ATOMIC(name, now)        \
  template <class T, class V>           \
  static inline T name(T* p, V value) { \
    const T old = *p, v = (T)value;     \
    *p = (now);                         \
    return old;                         \
  }
SINTER_ATOMIC(atomicAdd, old + v)
SINTER_ATOMIC(atomicSub, old - v)
SINTER_ATOMIC(atomicExch, v)
SINTER_ATOMIC(atomicMin, v < old ? v : old)
SINTER_ATOMIC(atomicMax, v > old ? v : old)
SINTER_ATOMIC(atomicAnd, old& v)
SINTER_ATOMIC(atomicOr, old | v)
SINTER_ATOMIC(atomicXor, old ^ v)
SINTER_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
SINTER_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
template <class T, class A, class B>
static inline T atomicCAS(T* p, A expected, B value) {
  const T old = *p;
  if (old == (T)expected) *p = (T)value;
  return old;
}
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned) {}
static inline void __assume(bool) {}
#define __builtin_assume(x) ((void)0)
static inline void __trap() { sinter_emulated->stop(1, 0); }
static inline void __brkpt() {}
static inline long long clock64() { return 0; }

#define __syncthreads() ((void)sinter_emulated->barrier(__LINE__, 0))
#define __syncthreads_count(p) sinter_emulated->barrier(__LINE__, (p) ? 1 : 0)
#define __syncthreads_or(p) (sinter_emulated->barrier(__LINE__, (p) ? 1 : 0) != 0)
#define __syncthreads_and(p) (sinter_emulated->barrier(__LINE__, (p) ? 0 : 1) == 0)
static inline void __syncwarp(unsigned mask = 0xffffffffu) { sinter_emulated->exchange(mask, -1, 0); }
static inline unsigned __activemask() { return sinter_emulated->active(); }

/// Copies to shared memory that a thread has asked for: made when it waits for them, and not before.
struct sinter_copies {
  struct {
    void* to;
    const void* from;
    long group;
    int bytes, filled;  // the rest is zeros
  } list[512];
  int count;
  long groups;
};
static sinter_copies sinter_pending[1024];
namespace sx {
static inline void sinter_copy(void* to, const void* from, int bytes, int filled) {
  sinter_copies& mine = sinter_pending[threadIdx.x];
  if (mine.count == 512) sinter_emulated->stop(1, 0);
  if (((unsigned long)to | (filled ? (unsigned long)from : 0)) % bytes != 0) __builtin_trap();
  if (filled < 0 || filled > bytes) __builtin_trap();
  mine.list[mine.count++] = {to, from, mine.groups, bytes, filled};
}
static inline void copy_async(void* to, const void* from) { sinter_copy(to, from, 16, 16); }
template <int B>
static inline void copy_or_zero(void* to, const void* from, bool inside) {
  sinter_copy(to, from, B, inside ? B : 0);
}
template <int B>
static inline void copy_part(void* to, int offset, const void* from, int bytes) {
  sinter_copy((char*)to + offset, from, B, bytes);
}
static inline void end_copies() { ++sinter_pending[threadIdx.x].groups; }
template <int N>
static inline void await_copies() {
  sinter_copies& mine = sinter_pending[threadIdx.x];
  int left = 0;
  for (int i = 0; i < mine.count; ++i)
    if (mine.list[i].group >= mine.groups - N) mine.list[left++] = mine.list[i];
    else {
      __builtin_memset(mine.list[i].to, 0, mine.list[i].bytes);
      if (mine.list[i].filled) __builtin_memcpy(mine.list[i].to, mine.list[i].from, mine.list[i].filled);
    }
  mine.count = left;
}
}  // namespace sx

namespace sx {
static inline void await_grids() { sinter_emulated->await(); }
static inline unsigned tf32(float x) {
  unsigned u;
  __builtin_memcpy(&u, &x, 4);
  return x != x ? 0x7fffffffu : (u + 0x1000u) & ~0x1fffu;
}
template <class P>
static inline void hold(P&) {}
static inline float sinter_as_float(unsigned u) {
  float x;
  __builtin_memcpy(&x, &u, 4);
  return x;
}
static inline void multiply_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  float rows[2][8], columns[2][8];
  const int lane = sinter_emulated->lane, row = lane / 4, column = lane % 4 * 2;
  for (int r = 0; r < 4; ++r) {
    if (a[r] << 19 != 0 && a[r] != 0x7fffffffu) __builtin_trap();
    const unsigned long long* const all = sinter_emulated->exchange(0xffffffffu, -20, a[r]);
    for (int q = 0; q < 4; ++q) rows[r % 2][r / 2 * 4 + q] = sinter_as_float((unsigned)all[row * 4 + q]);
  }
  for (int r = 0; r < 2; ++r) {
    if (b[r] << 19 != 0 && b[r] != 0x7fffffffu) __builtin_trap();
    const unsigned long long* const all = sinter_emulated->exchange(0xffffffffu, -21, b[r]);
    for (int n = 0; n < 2; ++n)
      for (int q = 0; q < 4; ++q) columns[n][r * 4 + q] = sinter_as_float((unsigned)all[(column + n) * 4 + q]);
  }
  for (int i = 0; i < 4; ++i)
    for (int q = 0; q < 8; ++q) c[i] += rows[i / 2][q] * columns[i % 2][q];
}
}  // namespace sx

// What the lanes of a warp do together, from the figures of the "PTX ISA", chapter "Warp Level Matrix Instructions". A lane is
// groupID · 4 + threadID_in_group.
namespace sx {
/// Two registers of every lane.
struct sinter_lanes {
  unsigned long long of[32];
  sinter_lanes(unsigned low, unsigned high, int kind) {
    const unsigned long long* const all =
        sinter_emulated->exchange(0xffffffffu, kind, low | (unsigned long long)high << 32);
    for (int l = 0; l < 32; ++l) of[l] = all[l];
  }
  unsigned at(int lane, bool second) const { return (unsigned)(second ? of[lane] >> 32 : of[lane]); }
};
static inline float sinter_half(unsigned bits) {
  const unsigned e = bits & 0x7fff, r = __float_as_uint(__uint_as_float(e << 13) * 0x1p112f);
  return __uint_as_float(r | (e >= 0x7c00 ? 0x7f800000u : 0) | (bits & 0x8000) << 16);
}
static inline float sinter_brain(unsigned bits) { return __uint_as_float(bits << 16); }
/// m16n8k16, m16n8k32: E elements a register. a0, a2 are of row groupID, a1, a3 of groupID + 8; a2, a3 and b1 begin at k = 4 E.
template <int E, class S, class F>
static inline void sinter_mma(S (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], F element) {
  const sinter_lanes low(a[0], a[1], -22), high(a[2], a[3], -23), right(b[0], b[1], -24);
  const int group = sinter_emulated->lane / 4, in_group = sinter_emulated->lane % 4;
  for (int i = 0; i < 4; ++i) {
    const int column = in_group * 2 + i % 2;
    S sum = 0;
    for (int k = 0; k < 8 * E; ++k) {
      const int lane = k % (4 * E) / E;
      const unsigned x = (k < 4 * E ? low : high).at(group * 4 + lane, i >= 2),
                     y = right.at(column * 4 + lane, k >= 4 * E);
      sum += element(x, k % E) * element(y, k % E);
    }
    c[i] += sum;
  }
}
static inline void mma_bf16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  sinter_mma<2>(c, a, b, [](unsigned x, int i) { return sinter_brain(x >> 16 * i & 0xffff); });
}
static inline void mma_f16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  sinter_mma<2>(c, a, b, [](unsigned x, int i) { return sinter_half(x >> 16 * i & 0xffff); });
}
static inline void mma_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  for (int i = 0; i < 6; ++i) {
    const unsigned x = i < 4 ? a[i] : b[i - 4];
    if (x << 19 != 0 && x != 0x7fffffffu) __builtin_trap();
  }
  sinter_mma<1>(c, a, b, [](unsigned x, int) { return __uint_as_float(x); });
}
static inline void mma_s8(int (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  sinter_mma<4>(c, a, b, [](unsigned x, int i) { return (int)(signed char)(x >> 8 * i & 0xff); });
}
template <bool T>
static inline void load_matrices(unsigned (&r)[4], const void* at, int bytes = 0) {
  const char* const line = (const char*)at + bytes;
  if ((unsigned long)line % 16 != 0) __builtin_trap();
  const unsigned long long* const all = sinter_emulated->exchange(0xffffffffu, T ? -29 : -28, (unsigned long)line);
  const int lane = sinter_emulated->lane;
  const char* lines[32];
  for (int l = 0; l < 32; ++l) lines[l] = (const char*)all[l];
  for (int m = 0; m < 4; ++m) {
    if constexpr (T) {
      unsigned short low, high;
      __builtin_memcpy(&low, lines[m * 8 + lane % 4 * 2] + lane / 4 * 2, 2);
      __builtin_memcpy(&high, lines[m * 8 + lane % 4 * 2 + 1] + lane / 4 * 2, 2);
      r[m] = low | (unsigned)high << 16;
    } else {
      __builtin_memcpy(&r[m], lines[m * 8 + lane / 4] + lane % 4 * 4, 4);
    }
  }
}
static inline void share_copies() {}
template <class T>
static inline void pin(T&) {}
/// Bits 0 to 13 are an address in shared memory, 16 to 29 and 32 to 45 the two strides, all by 16 bytes; 62 and 63 the swizzle.
template <int W>
static inline unsigned long long matrix_at(const void* tile, int bytes, int across, int down) {
  const long at = (const char*)tile + bytes - sinter_emulated->dynamic_shared;
  if (at < 0 || at >= 0x40000 || at % 16 != 0 || across % 16 != 0 || down % 16 != 0 || across >= 0x40000 ||
      down >= 0x40000)
    sinter_emulated->stop(1, __LINE__);
  return (unsigned long long)(at >> 4) | (unsigned long long)(across >> 4) << 16 |
         (unsigned long long)(down >> 4) << 32 |
         (W == 128  ? 1ull
          : W == 64 ? 2ull
                    : 3ull)
             << 62;
}
/// Element k of line i: of 8 lines of W bytes, or `turned`, of 8 terms of W bytes. Bits 7 and up of an address change bits 4 and up.
static inline unsigned short sinter_element(unsigned long long d, bool turned, int i, int k) {
  const int wide = d >> 62 == 1 ? 128 : d >> 62 == 2 ? 64 : 32, each = wide / 2;
  const unsigned start = (unsigned)(d & 0x3fff) << 4, across = (unsigned)(d >> 16 & 0x3fff) << 4,
                 down = (unsigned)(d >> 32 & 0x3fff) << 4;
  unsigned at = start + (turned ? i / each * across + i % each * 2 + k / 8 * down + k % 8 * wide
                                : i / 8 * down + i % 8 * wide + k * 2);
  at ^= (at >> 7 & (wide / 16 - 1)) << 4;
  unsigned short bits;
  __builtin_memcpy(&bits, sinter_emulated->dynamic_shared + at, 2);
  return bits;
}
/// All lanes give the same description.
static inline void sinter_agreed(unsigned long long d) {
  const unsigned long long* const all = sinter_emulated->exchange(0xffffffffu, -31, d);
  for (int l = 0; l < 32; ++l)
    if (all[l] != d) sinter_emulated->stop(1, __LINE__);
}
/// A product of a group of warps, in the order of requests. Shared memory is read when a thread waits, and sums are not numbers
/// until then.
struct sinter_product {
  float* to;
  int count;
  long group;
  bool held, turned_a, turned_b, half;
  unsigned long long a, b;
  unsigned short x[2][16];  // held: the rows of this thread's sums
};
struct sinter_products {
  sinter_product list[64];
  int count;
  long groups;
  float of[8][128];  // sums under way, of the arrays `to`
  float* to[8];
  int counts[8];
};
static sinter_products sinter_multiplying[1024];
static inline float* sinter_sums(float* c, int count) {
  sinter_products& mine = sinter_multiplying[threadIdx.x];
  for (int s = 0; s < 8; ++s) {
    if (mine.to[s] == c) return mine.of[s];
    if (mine.to[s] != 0) continue;
    mine.to[s] = c, mine.counts[s] = count;
    for (int i = 0; i < count; ++i) mine.of[s][i] = c[i], c[i] = __uint_as_float(0x7fc00000u);
    return mine.of[s];
  }
  sinter_emulated->stop(1, __LINE__);
  return 0;
}
static inline void begin_products() {}
static inline void commit_products() { ++sinter_multiplying[threadIdx.x].groups; }
/// m64nNk16: warp w of a group has rows 16 w and on, with the sums of mma.m16n8k16 in each 8 columns.
static inline void sinter_multiply(const sinter_product& p) {
  float* const sums = sinter_sums(p.to, p.count);
  const int first = threadIdx.x / 32 % 4 * 16, group = sinter_emulated->lane / 4, in_group = sinter_emulated->lane % 4;
  const auto number = [&](unsigned short bits) { return p.half ? sinter_half(bits) : sinter_brain(bits); };
  float x[2][16];
  for (int second = 0; second < 2; ++second)
    for (int k = 0; k < 16; ++k)
      x[second][k] = number(p.held ? p.x[second][k] : sinter_element(p.a, p.turned_a, first + group + second * 8, k));
  for (int column = 0; column < p.count / 4; ++column)
    for (int next = 0; next < 2; ++next) {
      float low = 0, high = 0;
      for (int k = 0; k < 16; ++k) {
        const float y = number(sinter_element(p.b, p.turned_b, column * 8 + in_group * 2 + next, k));
        low += x[0][k] * y, high += x[1][k] * y;
      }
      sums[column * 4 + next] += low, sums[column * 4 + next + 2] += high;
    }
}
template <int N>
static inline void await_products() {
  sinter_emulated->exchange(0xffffffffu, -30, 0);
  sinter_products& mine = sinter_multiplying[threadIdx.x];
  int done = 0;
  while (done < mine.count && mine.list[done].group < mine.groups - N) sinter_multiply(mine.list[done++]);
  for (int i = done; i < mine.count; ++i) mine.list[i - done] = mine.list[i];
  mine.count -= done;
  for (int s = 0; mine.count == 0 && s < 8; ++s) {
    for (int i = 0; mine.to[s] != 0 && i < mine.counts[s]; ++i) mine.to[s][i] = mine.of[s][i];
    mine.to[s] = 0;
  }
}
template <int N>
static inline void sinter_request(float (&c)[N], sinter_product p) {
  sinter_products& mine = sinter_multiplying[threadIdx.x];
  if (mine.count == 64) sinter_emulated->stop(1, __LINE__);
  sinter_agreed(p.b);
  p.to = c, p.count = N, p.group = mine.groups;
  sinter_sums(c, N);
  mine.list[mine.count++] = p;
}
#define SINTER_WGMMA(name, half)                                                                           \
  template <int X, int Y, int N>                                                                           \
  static inline void name(float(&c)[N], unsigned long long a, unsigned long long b) {                      \
    sinter_agreed(a);                                                                                      \
    sinter_request(c, {0, 0, 0, false, X != 0, Y != 0, half, a, b, {}});                                   \
  }                                                                                                        \
  template <int X, int Y, int N>                                                                           \
  static inline void name(float(&c)[N], const unsigned(&a)[4], unsigned long long b) {                     \
    const sinter_lanes low(a[0], a[1], -22), high(a[2], a[3], -23);                                        \
    sinter_product p = {0, 0, 0, true, false, Y != 0, half, 0, b, {}};                                     \
    for (int k = 0; k < 16; ++k)                                                                           \
      for (int second = 0; second < 2; ++second)                                                           \
        p.x[second][k] =                                                                                   \
            (unsigned short)((k < 8 ? low : high).at(sinter_emulated->lane / 4 * 4 + k % 8 / 2, second) >> \
                             16 * (k % 2));                                                                \
    sinter_request(c, p);                                                                                  \
  }
SINTER_WGMMA(wgmma_bf16, false)
SINTER_WGMMA(wgmma_f16, true)
static inline float max_or_nan(float a, float b) { return a != a || a > b ? a : b != b || b > a ? b : a; }
/// As inexact as the instruction may be.
static inline float exp2_near(float x) {
  const float r = exp2f(x);
  if (r < 0x1p-126f) return 0;
  return r * (__float_as_uint(x) & 1 ? 1 + 0x1p-23f : 1 - 0x1p-23f);
}
}  // namespace sx

/// The value that lane `from` gave, or this lane's own when `from` lies outside its part of the warp.
template <class T>
static inline T sinter_shuffle(unsigned mask, T own, int from, bool inside, int kind) {
  static_assert(sizeof(T) <= 8);
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &own, sizeof own);
  const unsigned long long* const all = sinter_emulated->exchange(mask, kind, bits);
  if (!inside) return own;
  if (!(mask >> from & 1)) sinter_emulated->stop(2, kind);
  T out;
  __builtin_memcpy(&out, all + from, sizeof out);
  return out;
}
template <class T>
static inline T __shfl_sync(unsigned mask, T x, int from, int width = 32) {
  const int lane = sinter_emulated->lane;
  return sinter_shuffle(mask, x, (lane & ~(width - 1)) | (from & (width - 1)), true, -2);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T x, int with, int width = 32) {
  const int lane = sinter_emulated->lane, from = lane ^ with;
  return sinter_shuffle(mask, x, from, from < (lane & ~(width - 1)) + width, -3);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32) {
  const int lane = sinter_emulated->lane, from = lane + (int)by;
  return sinter_shuffle(mask, x, from, from < (lane & ~(width - 1)) + width, -4);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32) {
  const int lane = sinter_emulated->lane, from = lane - (int)by;
  return sinter_shuffle(mask, x, from, from >= (lane & ~(width - 1)), -5);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const unsigned long long* const all = sinter_emulated->exchange(mask, -6, predicate != 0);
  unsigned out = 0;
  for (int i = 0; i < 32; ++i)
    if (mask >> i & 1 && all[i] != 0) out |= 1u << i;
  return out;
}
static inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
static inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
template <class T, class F>
static inline T sinter_reduce(unsigned mask, T x, int kind, F f) {
  const unsigned long long* const all = sinter_emulated->exchange(mask, kind, (unsigned long long)x);
  bool first = true;
  T out = x;
  for (int i = 0; i < 32; ++i)
    if (mask >> i & 1) out = first ? (T)all[i] : f(out, (T)all[i]), first = false;
  return out;
}
template <class T>
static inline T __reduce_add_sync(unsigned m, T x) {
  return sinter_reduce(m, x, -7, [](T a, T b) { return (T)(a + b); });
}
template <class T>
static inline T __reduce_max_sync(unsigned m, T x) {
  return sinter_reduce(m, x, -8, [](T a, T b) { return a > b ? a : b; });
}
template <class T>
static inline T __reduce_min_sync(unsigned m, T x) {
  return sinter_reduce(m, x, -9, [](T a, T b) { return a < b ? a : b; });
}

/// Calls a kernel with parameters laid out as cuLaunchKernel takes them; `sizes` tells the driver about them: bytes,
/// negative for a pointer, and 0 at the end.
template <class T>
constexpr int sinter_size = sizeof(T);
template <class T>
constexpr int sinter_size<T*> = -8;
template <class... A>
struct sinter_entry {
  template <class T, T... I>
  struct indices {};
  static const int* sizes() {
    static const int all[] = {sinter_size<A>..., 0};
    return all;
  }
  template <unsigned long... I>
  static void call(void (*f)(A...), void** p, indices<unsigned long, I...>) {
    f(*(A*)p[I]...);
  }
#if defined(__clang__)
  static void call(void (*f)(A...), void** p) {
    call(f, p, __make_integer_seq<indices, unsigned long, sizeof...(A)>());
  }
#else
  static void call(void (*f)(A...), void** p) { call(f, p, indices<unsigned long, __integer_pack(sizeof...(A))...>()); }
#endif
};
template <class... A>
static inline sinter_entry<A...> sinter_entry_of(void (*)(A...)) {
  return {};
}
#define SINTER_EMULATE(name, qualified)                                                 \
  extern "C" __attribute__((visibility("default"))) void sinter_call_##name(void** p) { \
    decltype(sinter_entry_of(&qualified))::call(&qualified, p);                         \
  }                                                                                     \
  extern "C" __attribute__((visibility("default"))) const int* sinter_sizes_##name() {  \
    return decltype(sinter_entry_of(&qualified))::sizes();                              \
  }
