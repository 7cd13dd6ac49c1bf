// emit/prelude/cuda.hpp: the text that emitted CUDA kernels start with: scalar types, memory, and the pointwise vocabulary.
//
// The text has no #include, so NVRTC compiles it in a few milliseconds. All of it, with the kernels, is in namespace sx, so
// that the vocabulary hides CUDA's global functions of the same names. PTX stands behind __CUDA_ARCH__, with plain C++ beside
// it. So a host compiler with declarations of CUDA's built-ins can run the text, too.
//   t_X  element type X in memory; b8, f16, bf16, f8_e4m3 and f8_e5m2 are distinct types
//   s_X  a scalar to compute with; f16 and bf16 compute as f32
#pragma once

#include <string_view>

namespace sinter::engine::emit {

/// Types, memory and functions that nearly every kernel calls.
inline constexpr std::string_view prelude_cuda_core = R"prelude(
#if defined(__CUDACC_RTC__)
#pragma nv_diag_suppress 177,550
#endif
#define SX static __device__ __forceinline__
#define SX_T template <class T> SX
namespace sx {
typedef bool s_b8;
typedef signed char s_i8;
typedef short s_i16;
typedef int s_i32;
typedef long s_i64;
typedef unsigned char s_u8;
typedef unsigned short s_u16;
typedef unsigned s_u32;
typedef unsigned long s_u64;
typedef float s_f32;
typedef double s_f64;
enum t_b8 : unsigned char {};
struct t_f16 { unsigned short bits; };
struct t_bf16 { unsigned short bits; };
struct t_f8_e4m3 { unsigned char bits; };
struct t_f8_e5m2 { unsigned char bits; };
typedef s_i8 t_i8; typedef s_i16 t_i16; typedef s_i32 t_i32; typedef s_i64 t_i64;
typedef s_u8 t_u8; typedef s_u16 t_u16; typedef s_u32 t_u32; typedef s_u64 t_u64;
typedef s_f32 t_f32; typedef s_f64 t_f64;

// Of a scalar: kind 0 bool, 1 signed, 2 unsigned, 3 floating; u the unsigned integer in which + - * wrap, bits the
// unsigned integer of its size.
template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;
template <class T> struct tr;
template <> struct tr<s_b8> { static constexpr int kind = 0; typedef s_u32 u; };
template <> struct tr<s_i8> { static constexpr int kind = 1; typedef s_u32 u; typedef s_u8 bits; };
template <> struct tr<s_i16> { static constexpr int kind = 1; typedef s_u32 u; typedef s_u16 bits; };
template <> struct tr<s_i32> { static constexpr int kind = 1; typedef s_u32 u; typedef s_u32 bits; };
template <> struct tr<s_i64> { static constexpr int kind = 1; typedef s_u64 u; typedef s_u64 bits; };
template <> struct tr<s_u8> { static constexpr int kind = 2; typedef s_u32 u; typedef s_u8 bits; };
template <> struct tr<s_u16> { static constexpr int kind = 2; typedef s_u32 u; typedef s_u16 bits; };
template <> struct tr<s_u32> { static constexpr int kind = 2; typedef s_u32 u; typedef s_u32 bits; };
template <> struct tr<s_u64> { static constexpr int kind = 2; typedef s_u64 u; typedef s_u64 bits; };
template <> struct tr<s_f32> { static constexpr int kind = 3; };
template <> struct tr<s_f64> { static constexpr int kind = 3; };

SX s_f32 infinity(s_f32) { return __uint_as_float(0x7f800000u); }
SX s_f64 infinity(s_f64) { return __longlong_as_double(0x7ff0000000000000ll); }
SX s_f32 not_a_number(s_f32) { return __uint_as_float(0x7fc00000u); }
SX s_f64 not_a_number(s_f64) { return __longlong_as_double(0x7ff8000000000000ll); }

SX float widen(t_bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
SX float widen(t_f16 x) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits));
  return r;
#else
  const unsigned e = x.bits & 0x7fff, r = __float_as_uint(__uint_as_float(e << 13) * 0x1p112f);
  return __uint_as_float(r | (e >= 0x7c00 ? 0x7f800000u : 0) | (unsigned)(x.bits & 0x8000) << 16);
#endif
}
// Round to nearest even; a NaN stays one.
SX t_bf16 narrow(float a, t_bf16) {
#if __CUDA_ARCH__ >= 800
  t_bf16 r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(a));
  return r;
#else
  const unsigned u = __float_as_uint(a);
  return {(unsigned short)(a != a ? (u >> 16) | 64 : (u + 0x7fff + ((u >> 16) & 1)) >> 16)};
#endif
}
SX t_f16 narrow(float a, t_f16) {
#if defined(__CUDA_ARCH__)
  t_f16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(a));
  return r;
#else
  const unsigned s = __float_as_uint(a), u = s & 0x7fffffff;
  const unsigned r = u >= 0x47800000 ? (u > 0x7f800000 ? 0x7e00 : 0x7c00)
                     : u < 0x38800000 ? __float_as_uint(__uint_as_float(u) + 0.5f) - 0x3f000000
                                      : (u - 0x38000000 + 0xfff + ((u >> 13) & 1)) >> 13;
  return {(unsigned short)(r | (s >> 16 & 0x8000))};
#endif
}
// Of 8 bits: M of the mantissa. NaN of e4m3 is the largest pattern; e5m2 is the upper half of an f16.
template <int M> SX float widen8(unsigned x) {
  const unsigned a = x & 0x7f, up = 127 - ((1u << (6 - M)) - 1);
  const float small = (float)a * __uint_as_float((up - M + 1) << 23);
  const unsigned r = a < (1u << M) ? __float_as_uint(small) : a >= (M == 3 ? 0x7f : 0x7c) ? 0x7f800000u | (M == 3 || a > 0x7c) << 22 : (a << (23 - M)) + (up << 23);
  return __uint_as_float(r | (x & 0x80) << 24);
}
template <int M> SX unsigned char narrow8(float x) {
  const unsigned D = 23 - M, up = 127 - ((1u << (6 - M)) - 1), s = __float_as_uint(x), a = s & 0x7fffffff;
  const unsigned aligned = (up + 1 + D) << 23, past = M == 3 ? 0x7f : 0x7c;
  const unsigned tiny = __float_as_uint(__uint_as_float(a) + __uint_as_float(aligned)) - aligned;
  unsigned r = a < ((up + 1) << 23) ? tiny : ((a + ((1u << (D - 1)) - 1) + (a >> D & 1)) >> D) - (up << M);
  r = a > 0x7f800000u ? (M == 3 ? 0x7f : 0x7e) : r < past ? r : past;
  return (unsigned char)(r | (s >> 24 & 0x80));
}
SX float widen(t_f8_e4m3 x) { return widen8<3>(x.bits); }
SX float widen(t_f8_e5m2 x) { return widen8<2>(x.bits); }
SX t_f8_e4m3 narrow(float a, t_f8_e4m3) { return {narrow8<3>(a)}; }
SX t_f8_e5m2 narrow(float a, t_f8_e5m2) { return {narrow8<2>(a)}; }
SX_T T decode(T x) { return x; }
SX s_b8 decode(t_b8 x) { return x != 0; }
SX s_f32 decode(t_f16 x) { return widen(x); }
SX s_f32 decode(t_bf16 x) { return widen(x); }
SX s_f32 decode(t_f8_e4m3 x) { return widen(x); }
SX s_f32 decode(t_f8_e5m2 x) { return widen(x); }
template <class M, class T> SX M encode(T x) {
  if constexpr (same<M, t_f16> || same<M, t_bf16> || same<M, t_f8_e4m3> || same<M, t_f8_e5m2>) return narrow(x, M{});
  else return (M)x;
}
SX float round_f16(float a) { return widen(narrow(a, t_f16{})); }
SX float round_bf16(float a) { return widen(narrow(a, t_bf16{})); }
SX float round_f8_e4m3(float a) { return widen(narrow(a, t_f8_e4m3{})); }
SX float round_f8_e5m2(float a) { return widen(narrow(a, t_f8_e5m2{})); }

#if defined(__CUDACC_RTC__)
// Every kernel's first words: it may have been begun while grids that it depends on run ("PTX ISA", griddepcontrol), and has them
// done; then those that depend on it may be begun. Elsewhere launches are never begun early.
SX void await_grids() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait; griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
#endif

SX_T auto load1(const T* p) { return decode(*p); }
template <class M, class T> SX void store1(M* p, T x) { *p = encode<M>(x); }

// V elements as they lie in memory, moved 16 bytes at a time where they are that many.
template <int V, class M> struct alignas(V * sizeof(M) < 16 ? V * sizeof(M) : 16) pack { M e[V]; };
template <int B> struct words;
template <> struct words<16> { typedef int4 t; };
template <> struct words<8> { typedef int2 t; };
template <> struct words<4> { typedef int t; };
template <> struct words<2> { typedef short t; };
template <> struct words<1> { typedef signed char t; };
template <int V, class M> SX pack<V, M> load(const M* p) { return *(const pack<V, M>*)p; }
template <int V, class M> SX void store(M* p, pack<V, M> x) { *(pack<V, M>*)p = x; }
// Past the caches.
template <int V, class M> SX pack<V, M> load_once(const M* p) {
  constexpr int n = V * sizeof(M) < 16 ? V * sizeof(M) : 16;
  typedef typename words<n>::t W;
  union { pack<V, M> x; W w[V * sizeof(M) / n]; } r;
  for (int i = 0; i < (int)(V * sizeof(M) / n); ++i) r.w[i] = __ldcs((const W*)p + i);
  return r.x;
}
// The first n elements; the others are 0, and nothing of them is read.
template <int V, bool once, class M> SX pack<V, M> load_part(const M* p, long n) {
  if (n >= V) return once ? load_once<V>(p) : load<V>(p);
  pack<V, M> r{};
#pragma unroll
  for (int l = 0; l < V; ++l)
    if (l < n) r.e[l] = p[l];
  return r;
}
template <int V, class M> SX pack<V, M> load_strided(const M* p, long stride) {
  pack<V, M> r;
#pragma unroll
  for (int l = 0; l < V; ++l) r.e[l] = p[l * stride];
  return r;
}
// The elements for which `ok`; the others are 0, and nothing of them is read.
template <int V, class M, class F> SX pack<V, M> load_where(const M* p, long stride, F ok) {
  pack<V, M> r{};
#pragma unroll
  for (int l = 0; l < V; ++l)
    if (ok(l)) r.e[l] = p[l * stride];
  return r;
}
template <int V, class M> SX void store_strided(M* p, long stride, pack<V, M> x) {
#pragma unroll
  for (int l = 0; l < V; ++l) p[l * stride] = x.e[l];
}
// The first n elements.
template <int V, class M> SX void store_part(M* p, long stride, pack<V, M> x, long n) {
  if (stride == 1 && n >= V) return store(p, x);
#pragma unroll
  for (int l = 0; l < V; ++l)
    if (l < n) p[l * stride] = x.e[l];
}
template <int V, class M> SX auto get(const pack<V, M>& x, int l) { return decode(x.e[l]); }
template <int V, class M, class T> SX void put(pack<V, M>& x, int l, T value) { x.e[l] = encode<M>(value); }

// A number to compare with positions, of which there are less than 2^31.
SX s_i32 place(s_i64 x) { return x < 0 ? -1 : x > 0x7fffffff ? 0x7fffffff : (s_i32)x; }
SX_T s_b8 equal(T a, T b) { return a == b; }
SX_T s_b8 not_equal(T a, T b) { return a != b; }
SX_T s_b8 less(T a, T b) { return a < b; }
SX_T s_b8 less_equal(T a, T b) { return a <= b; }
SX_T s_b8 greater(T a, T b) { return a > b; }
SX_T s_b8 greater_equal(T a, T b) { return a >= b; }
SX_T T select(s_b8 m, T a, T b) { return m ? a : b; }
SX_T s_b8 isnan(T a) { return a != a; }
SX_T s_b8 isfinite(T a) { return a - a == 0; }
SX_T s_b8 isinf(T a) { return a == a && !isfinite(a); }
// Of two zeros a GPU takes +0 as the larger ("PTX ISA", max).
SX_T T maximum(T a, T b) {
#if __CUDA_ARCH__ >= 800
  if constexpr (same<T, s_f32>) {
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
    return a;
  }
#endif
  return a > b || a != a ? a : b;
}
SX_T T minimum(T a, T b) {
#if __CUDA_ARCH__ >= 800
  if constexpr (same<T, s_f32>) {
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
    return a;
  }
#endif
  return a < b || a != a ? a : b;
}
SX_T T negate(T a) {
  if constexpr (tr<T>::kind == 3) return -a;
  else return (T)(0 - (typename tr<T>::u)a);
}
SX_T T abs(T a) {
  if constexpr (same<T, s_f32>) return ::fabsf(a);
  else if constexpr (same<T, s_f64>) return ::fabs(a);
  else if constexpr (tr<T>::kind == 2) return a;
  else return a < 0 ? negate(a) : a;
}
SX_T T sign(T a) {
  if constexpr (tr<T>::kind == 2) return a != 0;
  else if constexpr (tr<T>::kind == 3) return a != a ? a : (T)((a > 0) - (a < 0));
  else return (T)((a > 0) - (a < 0));
}
SX_T T bit_not(T a) {
  if constexpr (tr<T>::kind == 0) return !a;
  else return (T)~a;
}
template <class R, class A> SX R convert(A a) {
  if constexpr (same<R, A>) return a;
  else if constexpr (tr<R>::kind == 0) return a != (A)0;
  else if constexpr (tr<A>::kind == 3 && tr<R>::kind != 3) {
    constexpr R top = tr<R>::kind == 2 ? (R)~0ul : (R)(~0ul >> (65 - 8 * sizeof(R))), bottom = tr<R>::kind == 2 ? (R)0 : (R)(-(long)top - 1);
    constexpr A over = (A)2 * (A)(top / 2 + 1);
    if (!(a > (A)bottom)) return a != a ? (R)0 : bottom;
    return a >= over ? top : (R)a;
  } else return (R)a;
}
template <class R, class A> SX R bit_cast(A a) {
  union { A a; R r; } u;
  u.a = a;
  return u.r;
}
}  // namespace sx
)prelude";

/// divide and remainder of every type, power of integers, shift_left, shift_right.
inline constexpr std::string_view prelude_cuda_arithmetic = R"prelude(
namespace sx {
SX_T T divide(T a, T b) {
  if constexpr (tr<T>::kind == 3) return a / b;
  else if constexpr (tr<T>::kind == 2) return b == 0 ? (T)0 : (T)(a / b);
  else return b == 0 ? (T)0 : b == -1 ? negate(a) : (T)(a / b);
}
SX_T T remainder(T a, T b) {
  if constexpr (same<T, s_f32>) return ::fmodf(a, b);
  else if constexpr (same<T, s_f64>) return ::fmod(a, b);
  else if constexpr (tr<T>::kind == 2) return b == 0 ? (T)0 : (T)(a % b);
  else return b == 0 || b == -1 ? (T)0 : (T)(a % b);
}
SX_T T power(T a, T b) {
  if constexpr (tr<T>::kind == 3) {
    // Exponents that rules know: it is an argument, then, and so is the branch.
    if (b == 2) return a * a;
    if (b == 1) return a;
    if (b == 0) return 1;
    if (b == -1) return 1 / a;
    if (b == 3) return a * a * a;
    if (b == 4) return a * a * (a * a);
    if (b == -2) return 1 / a * (1 / a);
    if (b == (T)0.5 && a < 0 && a + a == a) return -a;
    if constexpr (same<T, s_f32>) return b == 0.5f ? ::sqrtf(a) + 0 : ::powf(a, b);
    else return b == 0.5 ? ::sqrt(a) + 0 : ::pow(a, b);
  } else {
    typedef typename tr<T>::u U;
    if constexpr (tr<T>::kind == 1)
      if (b < 0) return a == 1 ? (T)1 : a == (T)-1 ? (b & 1 ? (T)-1 : (T)1) : (T)0;
    U r = 1, x = (U)a;
    for (typename tr<T>::bits n = (typename tr<T>::bits)b; n != 0; n >>= 1, x *= x)
      if (n & 1) r *= x;
    return (T)r;
  }
}
SX_T T shift_left(T a, T b) {
  typedef typename tr<T>::bits U;
  constexpr U w = 8 * sizeof(T);
  return (U)b >= w ? (T)0 : (T)((typename tr<T>::u)a << (U)b);
}
SX_T T shift_right(T a, T b) {
  typedef typename tr<T>::bits U;
  constexpr U w = 8 * sizeof(T);
  if ((U)b >= w) return tr<T>::kind == 1 ? (T)(a >> (w - 1)) : (T)0;
  return (T)(a >> (U)b);
}
}  // namespace sx
)prelude";

/// Functions of floating numbers, with the accuracy of CUDA's library.
inline constexpr std::string_view prelude_cuda_math = R"prelude(
namespace sx {
#define SX_UNARY(ours, theirs) \
  SX s_f32 ours(s_f32 a) { return ::theirs##f(a); } \
  SX s_f64 ours(s_f64 a) { return ::theirs(a); }
SX_UNARY(exp, exp) SX_UNARY(exp2, exp2) SX_UNARY(expm1, expm1) SX_UNARY(log, log) SX_UNARY(log2, log2) SX_UNARY(log1p, log1p)
SX_UNARY(sqrt, sqrt) SX_UNARY(cbrt, cbrt) SX_UNARY(sin, sin) SX_UNARY(cos, cos) SX_UNARY(tan, tan) SX_UNARY(asin, asin)
SX_UNARY(acos, acos) SX_UNARY(atan, atan) SX_UNARY(sinh, sinh) SX_UNARY(cosh, cosh) SX_UNARY(tanh, tanh) SX_UNARY(erf, erf)
SX_UNARY(erfc, erfc) SX_UNARY(floor, floor) SX_UNARY(ceil, ceil) SX_UNARY(round, rint) SX_UNARY(trunc, trunc)
SX s_f32 atan2(s_f32 a, s_f32 b) { return ::atan2f(a, b); }
SX s_f64 atan2(s_f64 a, s_f64 b) { return ::atan2(a, b); }
SX_T T rsqrt(T a) { return (T)1 / sqrt(a); }
SX_T T sigmoid(T a) { return (T)1 / ((T)1 + exp(-a)); }
}  // namespace sx
)prelude";

/// Functions that few kernels call, and the functions of ir/special.def.
inline constexpr std::string_view prelude_cuda_special = R"prelude(
namespace sx {
#define SINTER_FN static __device__ __noinline__
#define SINTER_C(name) ::name
)prelude"
#define SINTER_SPECIAL(...) #__VA_ARGS__
#include "../../ir/special.def"
                                                         R"prelude(
#define SX_LIBM1(name) \
  SX s_f32 name(s_f32 a) { return ::name##f(a); } \
  SX s_f64 name(s_f64 a) { return ::name(a); }
SX_LIBM1(asinh) SX_LIBM1(acosh) SX_LIBM1(atanh) SX_LIBM1(lgamma)
// The device's own overflows below the largest number.
SX_T T hypot(T a, T b) {
  const T x = a < 0 ? -a : a, y = b < 0 ? -b : b, inf = infinity(a), most = x > y ? x : y, least = x > y ? y : x;
  if (x == inf || y == inf) return inf;
  if (x != x || y != y || most == 0) return x + y;
  const T r = least / most;
  return most * ::sqrt(1 + r * r);
}
SX_T T erfinv(T a) { return (T)erfinv_of(a); }
SX_T T digamma(T a) { return (T)digamma_of(a); }
SX_T T polygamma(T a, T b) { return (T)polygamma_of(a, b); }
}  // namespace sx
)prelude";

/// philox(key, counter): Philox4x32-10, word0 | word1 << 32. gauss(a, b) is defined in ir/vocabulary.hpp.
inline constexpr std::string_view prelude_cuda_random = R"prelude(
namespace sx {
SX s_u64 philox(s_u64 key, s_u64 counter) {
  s_u32 k0 = (s_u32)key, k1 = (s_u32)(key >> 32), c0 = (s_u32)counter, c1 = (s_u32)(counter >> 32), c2 = 0, c3 = 0;
#pragma unroll
  for (int i = 0; i < 10; ++i) {
    const s_u64 p = (s_u64)0xD2511F53u * c0, q = (s_u64)0xCD9E8D57u * c2;
    c0 = (s_u32)(q >> 32) ^ c1 ^ k0;
    c1 = (s_u32)q;
    c2 = (s_u32)(p >> 32) ^ c3 ^ k1;
    c3 = (s_u32)p;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c0 | (s_u64)c1 << 32;
}
SX s_f64 gauss_root(s_u64 a) {
  s_f64 m = (s_f64)((a >> 11) + 1) * 0x1p-53, e = 0;
#pragma unroll
  for (int k = 32; k > 0; k /= 2) {
    const s_f64 scale = 1ul << k;
    if (m < 1 / scale) m *= scale, e += k;
  }
  if (m < 0.70710678118654752) m *= 2, e += 1;
  const s_f64 s = (m - 1) / (m + 1), q = s * s;
  s_f64 p = 1.0 / 23;
#pragma unroll
  for (int k = 21; k > 0; k -= 2) p = p * q + 1.0 / k;
  return ::sqrt(2 * (e * 0.69314718055994531 - 2 * s * p));
}
// root · cos(2π (v + ½)).
SX s_f64 gauss_turned(s_f64 root, s_f64 v) {
  const s_f64 x = 6.2831853071795865 * ((v < 0 ? -v : v) - 0.25), y = x * x;
  s_f64 c = 1;
#pragma unroll
  for (int k = 22; k > 0; k -= 2) c = 1 - y * (1.0 / (k * (k + 1))) * c;
  return root * x * c;
}
SX s_u64 gauss(s_u64 a, s_u64 b) {
  return (s_u64)(s_i64)(gauss_turned(gauss_root(a), (s_f64)(b >> 11) * 0x1p-53 - 0.5) * 0x1p56);
}
}  // namespace sx
)prelude";

/// gamma_root(key, element, shape), poisson_count(key, element, rate), as defined in ir/vocabulary.hpp.
inline constexpr std::string_view prelude_cuda_draws = R"prelude(
namespace sx {
SX s_f64 draw_normal(s_u64 key, s_u64 at) {
  return (s_f64)(s_i64)gauss(philox(key, at), philox(key, at + (1ul << 48))) * 0x1p-56;
}
SX s_f64 draw_minus_log(s_u64 word) {
  const s_f64 s = (s_f64)(s_i64)(gauss_turned(gauss_root(word), -0.5) * 0x1p56) * 0x1p-56;
  return s * s * 0.5;
}
SX s_f64 draw_log(s_f64 x) {
  constexpr s_i64 fraction = (1l << 52) - 1;
  const s_i64 b = (s_i64)__double_as_longlong(x), significand = ((b & fraction) | (fraction + 1)) - 1;
  return (s_f64)((b >> 52) - 1022) * 0.69314718055994531 - draw_minus_log((s_u64)significand << 11);
}
SX s_u64 gamma_root(s_u64 key, s_u64 element, s_u64 shape) {
  const s_f64 given = __longlong_as_double((s_i64)shape), a = given > 1e-300 || given != given ? given : 1e-300;
  const s_f64 d = (a < 1 ? a + 1 : a) - 1.0 / 3, root = ::sqrt(d * 9), steep = d < 0x1p20 || d != d ? d : 0x1p20;
  s_f64 safe = 0;
#pragma unroll 1
  for (s_u64 j = 0; j < 8; ++j) {
    const s_u64 at = element + (j << 50);
    const s_f64 x = draw_normal(key, at), s = x / root + 1, square = x * x;
    safe = s > 0x1p-40 || s != s ? s : 0x1p-40;
    if (!(s > 0x1p-40)) continue;
    const s_u64 word = philox(key, at + (2ul << 48));
    if ((s_f64)((word >> 11) + 1) * 0x1p-53 < 1 - square * square * 0.0331 - 0x1p-16) break;
    const s_f64 grown = safe * safe * safe - 1 - draw_log(safe) * 3, chance = draw_minus_log(word) + square * 0.5;
    if (chance > steep * grown) break;
  }
  return safe == safe ? (s_u64)__double_as_longlong(safe) : 0x7ff8000000000000ul;
}
// Of a rate from 12 to 2^31.
SX s_f64 draw_count(s_u64 key, s_u64 element, s_f64 rate) {
  const s_f64 root = ::sqrt(rate), b = root * 2.53 + 0.931, a = b * 0.02483 + -0.059, log_rate = draw_log(rate);
  const s_f64 scale = 1.1328 / (b - 3.4) + 1.1239, sure = 0.9277 - 3.6224 / (b - 2);
#pragma unroll 1
  for (s_u64 j = 0; j < 12; ++j) {
    const s_u64 at = element + (j << 50);
    const s_f64 u = (s_f64)(philox(key, at) >> 11) * 0x1p-53 + -0.5, half = 0.5 - (u < 0 ? -u : u);
    const s_f64 v = (s_f64)((philox(key, at + (1ul << 48)) >> 11) + 1) * 0x1p-53, near = half > 0x1p-54 ? half : 0x1p-54;
    const s_f64 k = ::floor((a * 2 / near + b) * u + rate + 0.43);
    if (!(k >= 0 && k < rate * 256) || (near < 0.013 && v > near)) continue;
    if (near >= 0.07 && v <= sure) return k;
    const s_f64 square = near * near, chance = v * scale * square / (square * b + a);
    const s_f64 n = k + 1, log_n = draw_log(n / rate), inverse = 1 / n, inverse2 = inverse * inverse;
    const s_f64 stirling = inverse * (1.0 / 12 - inverse2 * (1.0 / 360 - inverse2 * (1.0 / 1260)));
    const s_f64 logs = (n - 1) * log_n + (log_n + log_rate) * 0.5;
    if (draw_log(chance > 0x1p-200 ? chance : 0x1p-200) <= n - rate - logs - 0.91893853320467274 - stirling) return k;
  }
  return ::floor(rate);
}
SX s_u64 poisson_count(s_u64 key, s_u64 element, s_u64 of) {
  const s_f64 rate = __longlong_as_double((s_i64)of);
  if (!(rate >= 0 && rate < infinity(rate))) return 0x7ff8000000000000ul;
  s_f64 count = 0;
  if (rate > 0x1p31) {
    count = ::floor(rate + draw_normal(key, element + (2ul << 48)) * ::sqrt(rate) + 0.5);
  } else {
    count = draw_count(key, element, rate > 12 ? rate : 12.0);
    if (rate < 12) {
      const s_f64 trials = count < 48 ? count : 48.0, chance = rate * (1 / 12.0);
      count = 0;
#pragma unroll 1
      for (s_u64 i = 0; (s_f64)i < trials; ++i) count += (s_f64)(philox(key, element + ((4 * i + 64) << 48)) >> 11) * 0x1p-53 < chance;
    }
  }
  return (s_u64)__double_as_longlong(count);
}
}  // namespace sx
)prelude";

}  // namespace sinter::engine::emit
