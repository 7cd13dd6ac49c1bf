// emit/prelude/cpu.hpp: the text that every emitted CPU kernel starts with: vector types, memory, and the pointwise vocabulary.
//
// Plain C++20 with vector extensions, for g++ and clang++. It includes no headers, because they would cost more than the rest
// of a kernel's compilation. The kernel defines SINTER_W, the lanes of every vector: 4, 8 or 16.
//   t_X  element type X in memory; b8, f16, bf16, f8_e4m3 and f8_e5m2 are distinct types
//   s_X  a scalar to compute with; v_X a vector of them. f16 and bf16 compute as f32.
//   v_b8 wraps i32 lanes that are 0 or -1
#pragma once

#include <string_view>

namespace sinter::engine::emit {

/// Types, traits and helpers for all other parts. They are in namespace sx, whose names the kernel uses.
inline constexpr std::string_view prelude_core = R"prelude(
#define SX_IN inline __attribute__((always_inline))
#define SX static SX_IN
#define SX_T template <class V> SX
#define SX_EACH for (int l = 0; l < SINTER_W; ++l)
#if SINTER_W == 16
#define SX_LANES(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10), f(11), f(12), f(13), f(14), f(15)
#elif SINTER_W == 8
#define SX_LANES(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)
#else
#define SX_LANES(f) f(0), f(1), f(2), f(3)
#endif
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
#define SX_V(n) typedef s_##n v_##n __attribute__((vector_size(SINTER_W * sizeof(s_##n))));
SX_V(i8) SX_V(i16) SX_V(i32) SX_V(i64) SX_V(u8) SX_V(u16) SX_V(u32) SX_V(u64) SX_V(f32) SX_V(f64)
struct v_b8 { v_i32 m; };

// Of a compute type: s its scalar, v its vector, i and u the integers of its size; kind 0 bool, 1 signed, 2 unsigned, 3 floating.
template <class V> struct tr;
#define SX_TR(n, in, un, k) \
  template <> struct tr<s_##n> { typedef s_##n s; typedef v_##n v; typedef s_##in i; typedef s_##un u; typedef s_b8 b; static constexpr int kind = k, vec = 0; }; \
  template <> struct tr<v_##n> { typedef s_##n s; typedef v_##n v; typedef v_##in i; typedef v_##un u; typedef v_b8 b; static constexpr int kind = k, vec = 1; };
SX_TR(b8, i32, u32, 0) SX_TR(i8, i8, u8, 1) SX_TR(i16, i16, u16, 1) SX_TR(i32, i32, u32, 1) SX_TR(i64, i64, u64, 1)
SX_TR(u8, i8, u8, 2) SX_TR(u16, i16, u16, 2) SX_TR(u32, i32, u32, 2) SX_TR(u64, i64, u64, 2) SX_TR(f32, i32, u32, 3) SX_TR(f64, i64, u64, 3)
template <class V> using s_of = typename tr<V>::s;
template <class V> using i_of = typename tr<V>::i;
template <class V> using u_of = typename tr<V>::u;
template <class V> using b_of = typename tr<V>::b;

// In memory: r is the vector as it lies there, c and s what it computes as.
enum t_b8 : unsigned char {};
struct t_f16 { unsigned short bits; };
struct t_bf16 { unsigned short bits; };
struct t_f8_e4m3 { unsigned char bits; };
struct t_f8_e5m2 { unsigned char bits; };
template <class T> struct mem { typedef s_of<T> s; typedef typename tr<T>::v c; typedef c r; };
template <> struct mem<t_b8> { typedef s_b8 s; typedef v_b8 c; typedef v_u8 r; };
template <> struct mem<t_f16> { typedef s_f32 s; typedef v_f32 c; typedef v_u16 r; };
template <> struct mem<t_bf16> { typedef s_f32 s; typedef v_f32 c; typedef v_u16 r; };
template <> struct mem<t_f8_e4m3> { typedef s_f32 s; typedef v_f32 c; typedef v_u8 r; };
template <> struct mem<t_f8_e5m2> { typedef s_f32 s; typedef v_f32 c; typedef v_u8 r; };
typedef s_i8 t_i8; typedef s_i16 t_i16; typedef s_i32 t_i32; typedef s_i64 t_i64;
typedef s_u8 t_u8; typedef s_u16 t_u16; typedef s_u32 t_u32; typedef s_u64 t_u64;
typedef s_f32 t_f32; typedef s_f64 t_f64;

SX_T V splat(s_of<V> x) {
#define SX_F(l) x
  if constexpr (!tr<V>::vec) return x;
  else if constexpr (tr<V>::kind == 0) return {splat<v_i32>(-(int)x)};
  else return V{SX_LANES(SX_F)};
#undef SX_F
}
SX v_i64 lanes() {
#define SX_F(l) l
  return v_i64{SX_LANES(SX_F)};
#undef SX_F
}
// Of a vector below 16 bytes that is extended and read again, g++ 12 may read the extended lanes; it cannot look through an asm. One of 16
// bytes that was just loaded it may extend lane by lane.
template <class V> SX V opaque(V a) {
#if __SSE2__ && !__clang__
  if constexpr (sizeof a == 16) __asm__("" : "+x"(a));
  if constexpr (sizeof a == 8) { long w = __builtin_bit_cast(long, a); __asm__("" : "+x"(w)); return __builtin_bit_cast(V, w); }
  if constexpr (sizeof a == 4) { int w = __builtin_bit_cast(int, a); __asm__("" : "+x"(w)); return __builtin_bit_cast(V, w); }
  if constexpr (sizeof a == 2) { short w = __builtin_bit_cast(short, a); __asm__("" : "+r"(w)); return __builtin_bit_cast(V, w); }
#endif
  return a;
}
// Plain conversion of lanes, without a rule for what does not fit. g++ 12 converts 8 bits to floats lane by lane; here they are the last bits
// of a float of 2^23 and more.
template <class R, class V> SX R cv(V a) {
  if constexpr (tr<V>::vec && sizeof(s_of<V>) == 1 && tr<R>::kind == 3) {
    constexpr bool has_sign = tr<V>::kind == 1;
    const v_u8 above = has_sign ? (v_u8)a ^ 128 : (v_u8)a;
    const v_u32 w = __builtin_convertvector(opaque(above), v_u32) | 0x4b000000u;
    return cv<R>(__builtin_bit_cast(v_f32, w) - (has_sign ? 8388736.0f : 8388608.0f));
  }
  else if constexpr (tr<V>::vec && sizeof(R) > sizeof(V)) return __builtin_convertvector(opaque(a), R);
  else if constexpr (tr<V>::vec) return __builtin_convertvector(a, R);
  else return (R)a;
}
template <class R, class V> SX R bits(V a) { return __builtin_bit_cast(R, a); }
template <class R, class V> SX R bit_cast(V a) { return __builtin_bit_cast(R, a); }
template <class M> SX v_b8 mask(M m) { return {__builtin_convertvector(m, v_i32)}; }

SX v_b8 operator&(v_b8 a, v_b8 b) { return {a.m & b.m}; }
SX v_b8 operator|(v_b8 a, v_b8 b) { return {a.m | b.m}; }
SX v_b8 operator^(v_b8 a, v_b8 b) { return {a.m ^ b.m}; }
SX_T V bit_not(V a) {
  if constexpr (tr<V>::kind != 0) return (V)~a;
  else if constexpr (tr<V>::vec) return {~a.m};
  else return !a;
}

// Lanes of v_b8 order the other way: true is -1.
#define SX_COMPARE(name, op) \
  SX_T b_of<V> name(V a, V b) { \
    if constexpr (!tr<V>::vec) return a op b; \
    else if constexpr (tr<V>::kind == 0) return {b.m op a.m}; \
    else return mask(a op b); \
  }
SX_COMPARE(equal, ==) SX_COMPARE(not_equal, !=) SX_COMPARE(less, <) SX_COMPARE(less_equal, <=) SX_COMPARE(greater, >) SX_COMPARE(greater_equal, >=)

SX_T V select(b_of<V> m, V a, V b) {
  if constexpr (!tr<V>::vec) return m ? a : b;
  else if constexpr (tr<V>::kind == 0) return {(m.m & a.m) | (~m.m & b.m)};
  else return __builtin_convertvector(m.m, i_of<V>) ? a : b;
}
SX_T b_of<V> isnan(V a) { return not_equal(a, a); }
SX_T V negate(V a) { return (V)-a; }
SX_T V abs(V a) {
  if constexpr (tr<V>::kind == 3) return bits<V>((i_of<V>)(bits<i_of<V>>(a) & (s_of<i_of<V>>)(~0ul >> (65 - 8 * sizeof(s_of<V>)))));
  else if constexpr (tr<V>::kind == 2) return a;
  else return a < 0 ? (V)-a : a;
}
SX_T V sign(V a) {
  const V one = splat<V>(1);
  if constexpr (tr<V>::kind == 3) return a > 0 ? one : a < 0 ? -one : a != a ? a : splat<V>(0);
  else if constexpr (tr<V>::kind == 2) return a > 0 ? one : a;
  else return a > 0 ? one : a < 0 ? (V)-one : a;
}
// a > b ? a : b, and a < b ? a : b, so b where one is a NaN: an instruction of x86 that g++ does not find by itself.
#if !__SSE2__ || __clang__
#define SX_EXTREME(op, ins) return a op b ? a : b;
#else
#define SX_EXTREME(op, ins) \
  constexpr int size = tr<V>::vec && tr<V>::kind == 3 && sizeof(V) <= __BIGGEST_ALIGNMENT__ ? sizeof(V) : 0; \
  if constexpr (size == 0) return a op b ? a : b; \
  else if constexpr (__is_same(V, v_f32)) { \
    if constexpr (size == 64) return (V)__builtin_ia32_##ins##ps512_mask(a, b, a, -1, 4); \
    else if constexpr (size == 32) return (V)__builtin_ia32_##ins##ps256(a, b); \
    else return (V)__builtin_ia32_##ins##ps(a, b); \
  } else { \
    if constexpr (size == 64) return (V)__builtin_ia32_##ins##pd512_mask(a, b, a, -1, 4); \
    else return (V)__builtin_ia32_##ins##pd256(a, b); \
  }
#endif
SX_T V larger(V a, V b) { SX_EXTREME(>, max) }
SX_T V smaller(V a, V b) { SX_EXTREME(<, min) }
SX_T V maximum(V a, V b) {
  if constexpr (tr<V>::kind == 3) return a != a ? a : larger(a, b);
  else return larger(a, b);
}
SX_T V minimum(V a, V b) {
  if constexpr (tr<V>::kind == 3) return a != a ? a : smaller(a, b);
  else return smaller(a, b);
}
// a · b + c, rounded once where the machine does that in an instruction.
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
SX_T b_of<V> isinf(V a) { return equal(abs(a), splat<V>(__builtin_inff())); }
SX_T b_of<V> isfinite(V a) { return less(abs(a), splat<V>(__builtin_inff())); }

template <class R, class A> SX R convert(A a) {
  typedef s_of<R> r;
  if constexpr (__is_same(R, A)) return a;
  else if constexpr (tr<R>::kind == 0) return not_equal(a, splat<A>(0));
  else if constexpr (tr<A>::kind == 0) {
    if constexpr (tr<A>::vec) return __builtin_convertvector(a.m & 1, R);
    else return (R)a;
  } else if constexpr (tr<A>::kind == 3 && tr<R>::kind != 3) {
    constexpr r top = tr<R>::kind == 2 ? (r)~0ul : (r)(~0ul >> (65 - 8 * sizeof(r))), bottom = tr<R>::kind == 2 ? 0 : (r)(-(long)top - 1);
    constexpr s_of<A> over = 2.0 * (s_of<A>)(top / 2 + 1);
    const A low = splat<A>(bottom), c = a < low ? low : a;
    R i;
    if constexpr (sizeof(r) < sizeof(s_of<A>)) i = cv<R>(cv<i_of<A>>(c));
    else i = cv<R>(c);
    i = select(greater_equal(a, splat<A>(over)), splat<R>(top), i);
    return select(isnan(a), splat<R>(0), i);
  } else return cv<R>(a);
}

// Lanes from n on become the identity of a fold.
SX_T V keep(V a, long n, s_of<V> identity) {
  typedef i_of<V> I;
#define SX_F(l) l
  const I k = I{SX_LANES(SX_F)};
#undef SX_F
  if constexpr (tr<V>::kind == 0) return {k < (int)n ? a.m : splat<v_i32>(-(int)identity)};
  else return k < (s_of<I>)n ? a : splat<V>(identity);
}
}  // namespace sx
using namespace sx;
)prelude";

/// Loads and stores: of whole vectors, of their first n lanes, strided and scattered, with the conversions of b8, f16 and bf16.
inline constexpr std::string_view prelude_memory = R"prelude(
namespace sx {
SX v_f32 widen_bf16(v_u16 h) { return bits<v_f32>(cv<v_u32>(h) << 16); }
// Round to nearest even; a NaN stays one.
SX v_u16 narrow_bf16(v_f32 a) {
  const v_u32 u = bits<v_u32>(a);
  return __builtin_convertvector(a != a ? (u >> 16) | 64 : (u + 0x7fff + ((u >> 16) & 1)) >> 16, v_u16);
}
SX v_f32 widen_f16(v_u16 h) {
#if __F16C__ && SINTER_W == 8
  typedef short q __attribute__((vector_size(16)));
  return (v_f32)__builtin_ia32_vcvtph2ps256((q)h);
#elif __AVX512F__ && SINTER_W == 16
  typedef short q __attribute__((vector_size(32)));
  return (v_f32)__builtin_ia32_vcvtph2ps512_mask((q)h, v_f32{}, -1, 4);
#else
  const v_u32 u = cv<v_u32>(h), e = u & 0x7fff;
  v_u32 r = bits<v_u32>(bits<v_f32>(e << 13) * 0x1p112f);
  r |= e >= 0x7c00 ? splat<v_u32>(0x7f800000) : v_u32{};
  return bits<v_f32>(r | (u & 0x8000) << 16);
#endif
}
SX v_u16 narrow_f16(v_f32 a) {
#if __F16C__ && SINTER_W == 8
  return (v_u16)__builtin_ia32_vcvtps2ph256(a, 0);
#elif __AVX512F__ && SINTER_W == 16
  typedef short q __attribute__((vector_size(32)));
  return (v_u16)__builtin_ia32_vcvtps2ph512_mask(a, 0, q{}, -1);
#else
  const v_u32 s = bits<v_u32>(a), u = s & 0x7fffffff;
  const v_u32 tiny = bits<v_u32>(bits<v_f32>(u) + 0.5f) - 0x3f000000;
  v_u32 r = (u - 0x38000000 + 0xfff + ((u >> 13) & 1)) >> 13;
  r = u < 0x38800000 ? tiny : r;
  r = u >= 0x47800000 ? (u > 0x7f800000 ? splat<v_u32>(0x7e00) : splat<v_u32>(0x7c00)) : r;
  return __builtin_convertvector(r | (s >> 16 & 0x8000), v_u16);
#endif
}
SX float widen_f16(unsigned short h) {
  const unsigned e = h & 0x7fff, r = bits<unsigned>(bits<float>(e << 13) * 0x1p112f);
  return bits<float>(r | (e >= 0x7c00 ? 0x7f800000 : 0) | (h & 0x8000) << 16);
}
SX unsigned short narrow_f16(float a) {
  const unsigned s = bits<unsigned>(a), u = s & 0x7fffffff;
  const unsigned r = u >= 0x47800000 ? (u > 0x7f800000 ? 0x7e00 : 0x7c00)
                     : u < 0x38800000 ? bits<unsigned>(bits<float>(u) + 0.5f) - 0x3f000000
                                      : (u - 0x38000000 + 0xfff + ((u >> 13) & 1)) >> 13;
  return r | (s >> 16 & 0x8000);
}
SX float widen_bf16(unsigned short h) { return bits<float>((unsigned)h << 16); }
SX unsigned short narrow_bf16(float a) {
  const unsigned u = bits<unsigned>(a);
  return a != a ? (u >> 16) | 64 : (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}
// Of 8 bits: M of the mantissa. NaN of e4m3 is the largest pattern; e5m2 is the upper half of an f16.
template <int M, class F, class U> SX F widen8(U x) {
  const unsigned up = 127 - ((1u << (6 - M)) - 1);
  const U a = x & 0x7f, one = (U)(x - x + 1), zero = (U)(x - x);
  const U small = bits<U>(cv<F>(a) * __builtin_bit_cast(float, (up - M + 1) << 23));
  U r = a < (1u << M) ? small : (a << (23 - M)) + (up << 23);
  r = a >= (M == 3 ? 0x7fu : 0x7cu) ? (a > (M == 3 ? 0u : 0x7cu) ? one * 0x7fc00000u : zero + 0x7f800000u) : r;
  return bits<F>(r | (x & 0x80) << 24);
}
template <int M, class U, class F> SX U narrow8(F x) {
  const unsigned D = 23 - M, up = 127 - ((1u << (6 - M)) - 1), aligned = (up + 1 + D) << 23;
  const U s = bits<U>(x), a = s & 0x7fffffffu, zero = s - s;
  const U tiny = bits<U>(bits<F>(a) + __builtin_bit_cast(float, aligned)) - aligned;
  U r = a < ((up + 1) << 23) ? tiny : ((a + ((1u << (D - 1)) - 1) + (a >> D & 1u)) >> D) - (up << M);
  r = r < (M == 3 ? 0x7fu : 0x7cu) ? r : zero + (M == 3 ? 0x7fu : 0x7cu);
  r = a > 0x7f800000u ? zero + (M == 3 ? 0x7fu : 0x7eu) : r;
  return r | (s >> 24 & 0x80u);
}
#define SX_8(name, M) \
  SX v_f32 widen_##name(v_u8 x) { return widen8<M, v_f32>(cv<v_u32>(x)); } \
  SX v_u8 narrow_##name(v_f32 x) { return __builtin_convertvector(narrow8<M, v_u32>(x), v_u8); } \
  SX float widen_##name(unsigned char x) { return widen8<M, float>((unsigned)x); } \
  SX unsigned char narrow_##name(float x) { return (unsigned char)narrow8<M, unsigned>(x); } \
  template <class V> SX V round_##name(V a) { return widen_##name(narrow_##name(a)); }
SX_8(f8_e4m3, 3) SX_8(f8_e5m2, 2)
#undef SX_8
template <class V> SX V round_f16(V a) { return widen_f16(narrow_f16(a)); }
template <class V> SX V round_bf16(V a) { return widen_bf16(narrow_bf16(a)); }

template <class T> SX typename mem<T>::c decode(typename mem<T>::r x) {
  if constexpr (__is_same(T, t_b8)) return mask(x != 0);
  else if constexpr (__is_same(T, t_f16)) return widen_f16(x);
  else if constexpr (__is_same(T, t_bf16)) return widen_bf16(x);
  else if constexpr (__is_same(T, t_f8_e4m3)) return widen_f8_e4m3(x);
  else if constexpr (__is_same(T, t_f8_e5m2)) return widen_f8_e5m2(x);
  else return x;
}
template <class T> SX typename mem<T>::r encode(typename mem<T>::c x) {
  if constexpr (__is_same(T, t_b8)) return __builtin_convertvector(x.m & 1, v_u8);
  else if constexpr (__is_same(T, t_f16)) return narrow_f16(x);
  else if constexpr (__is_same(T, t_bf16)) return narrow_bf16(x);
  else if constexpr (__is_same(T, t_f8_e4m3)) return narrow_f8_e4m3(x);
  else if constexpr (__is_same(T, t_f8_e5m2)) return narrow_f8_e5m2(x);
  else return x;
}

template <class T> SX typename mem<T>::s load1(const T* p) {
  if constexpr (__is_same(T, t_f16)) return widen_f16(p->bits);
  else if constexpr (__is_same(T, t_bf16)) return widen_bf16(p->bits);
  else if constexpr (__is_same(T, t_f8_e4m3)) return widen_f8_e4m3(p->bits);
  else if constexpr (__is_same(T, t_f8_e5m2)) return widen_f8_e5m2(p->bits);
  else return (typename mem<T>::s)*p;
}
template <class T> SX void store1(T* p, typename mem<T>::s x) {
  if constexpr (__is_same(T, t_f16)) p->bits = narrow_f16(x);
  else if constexpr (__is_same(T, t_bf16)) p->bits = narrow_bf16(x);
  else if constexpr (__is_same(T, t_f8_e4m3)) p->bits = narrow_f8_e4m3(x);
  else if constexpr (__is_same(T, t_f8_e5m2)) p->bits = narrow_f8_e5m2(x);
  else *p = (T)x;
}

template <class T> SX typename mem<T>::c load(const T* p) {
  typename mem<T>::r x;
  __builtin_memcpy(&x, p, sizeof x);
  return decode<T>(x);
}
template <class T> SX void store(T* p, typename mem<T>::c v) {
  const typename mem<T>::r x = encode<T>(v);
  __builtin_memcpy(p, &x, sizeof x);
}

// The compilers disagree on the pointers that their masked memory built-ins take.
struct any_pointer {
  const void* p;
  template <class P> SX_IN operator P*() const { return (P*)p; }
};
// The first n lanes: 0 <= n <= SINTER_W. Bytes past them are neither read nor written.
#if __AVX512VL__ && __AVX512BW__
#define SX_MASKED(op, size, el, bits) \
  if constexpr (sizeof(T) == size) { \
    typedef el e; \
    typedef e q __attribute__((vector_size(size * SINTER_W))); \
    SX_MASKED_DO(__builtin_ia32_##op##bits##_mask) \
  } else
#if SINTER_W == 16
#define SX_MASKED_ALL(op) SX_MASKED(op, 4, int, dqusi512) SX_MASKED(op, 2, short, dquhi256) SX_MASKED(op, 1, char, dquqi128)
#elif SINTER_W == 8
#define SX_MASKED_ALL(op) SX_MASKED(op, 8, long long, dqudi512) SX_MASKED(op, 4, int, dqusi256) SX_MASKED(op, 2, short, dquhi128)
#else
#define SX_MASKED_ALL(op) SX_MASKED(op, 8, long long, dqudi256) SX_MASKED(op, 4, int, dqusi128)
#endif
#else
#define SX_MASKED_ALL(op)
#endif
#define SX_CHUNK(k) if (k <= sizeof x && (b & k)) { SX_CHUNK_DO(k) at += k; }
#define SX_CHUNKS SX_CHUNK(128) SX_CHUNK(64) SX_CHUNK(32) SX_CHUNK(16) SX_CHUNK(8) SX_CHUNK(4) SX_CHUNK(2) SX_CHUNK(1)
template <class T> SX typename mem<T>::r load_bits(const T* p, long n) {
  typename mem<T>::r x{};
#define SX_MASKED_DO(f) x = (typename mem<T>::r)f(any_pointer{p}, q{}, (1u << n) - 1);
#define SX_CHUNK_DO(k) __builtin_memcpy((char*)&x + at, (const char*)p + at, k);
  SX_MASKED_ALL(load) {
    unsigned long b = n * sizeof(T), at = 0;
    SX_CHUNKS
  }
#undef SX_MASKED_DO
#undef SX_CHUNK_DO
  return x;
}
template <class T> SX typename mem<T>::c load(const T* p, long n) { return decode<T>(load_bits(p, n)); }
template <class T> SX void store(T* p, typename mem<T>::c v, long n) {
  const typename mem<T>::r x = encode<T>(v);
#define SX_MASKED_DO(f) f(any_pointer{p}, (q)x, (1u << n) - 1);
#define SX_CHUNK_DO(k) __builtin_memcpy((char*)p + at, (const char*)&x + at, k);
  SX_MASKED_ALL(store) {
    unsigned long b = n * sizeof(T), at = 0;
    SX_CHUNKS
  }
#undef SX_MASKED_DO
#undef SX_CHUNK_DO
}

// Strides and offsets count elements.
template <class T> SX typename mem<T>::c load_strided(const T* p, long stride, long n = SINTER_W) {
  typename mem<T>::r x{};
  if (__builtin_constant_p(n) && n == SINTER_W) SX_EACH x[l] = ((const s_of<typename mem<T>::r>*)p)[l * stride];
  else for (int l = 0; l < n; ++l) x[l] = ((const s_of<typename mem<T>::r>*)p)[l * stride];
  return decode<T>(x);
}
template <class T> static __attribute__((noinline)) typename mem<T>::c load_strided_apart(const T* p, long stride) {
  return load_strided(p, stride);
}
template <class T> static __attribute__((noinline)) typename mem<T>::c load_strided_apart(const T* p, long stride, long n) {
  return load_strided(p, stride, n);
}
// Every S-th element by permutations of the vectors that hold them: part C brings what is in the C-th of S vectors, of which the last one
// ends with the last element.
template <int S, int C> constexpr int every_base = C < S - 1 ? C * SINTER_W : (SINTER_W - 1) * S + 1 - SINTER_W;
template <int S, int C> constexpr int every_lane(int l) {
  return l * S < C * SINTER_W ? (C == 1 ? l * S : l) : l * S < (C + 1) * SINTER_W ? SINTER_W + l * S - every_base<S, C> : l;
}
template <int S, int C, class R> SX R every_part(const s_of<R>* p, R x) {
#if __clang__
  return x;
#else
  if constexpr (C == S) return x;
  else {
    R y;
    __builtin_memcpy(&y, p + every_base<S, C>, sizeof y);
#define SX_F(l) every_lane<S, C>(l)
    const i_of<R> from = {SX_LANES(SX_F)};
#undef SX_F
    return every_part<S, C + 1>(p, (R)__builtin_shuffle(x, y, from));
  }
#endif
}
template <int S, class T> SX typename mem<T>::c load_every(const T* p) {
#if __clang__
  return load_strided(p, S);
#else
  typename mem<T>::r x;
  __builtin_memcpy(&x, p, sizeof x);
  return decode<T>(every_part<S, 1>((const s_of<typename mem<T>::r>*)p, x));
#endif
}
// The first n of them: part C brings what is in the C-th vector. Where memory is not masked, a load each.
template <int S, int C> constexpr int first_lane(int l) {
  return l * S < C * SINTER_W ? (C == 1 ? l * S : l) : l * S < (C + 1) * SINTER_W ? SINTER_W + l * S - C * SINTER_W : l;
}
#if __AVX512VL__ && __AVX512BW__ && !__clang__
template <int S, int C, class T> SX typename mem<T>::r first_part(const T* p, typename mem<T>::r x, long room) {
  if constexpr (C == S) return x;
  else {
    typedef typename mem<T>::r R;
    const long left = room - C * SINTER_W;
    const R y = load_bits(p + C * SINTER_W, left < 0 ? 0 : left < SINTER_W ? left : SINTER_W);
#define SX_F(l) first_lane<S, C>(l)
    const i_of<R> from = {SX_LANES(SX_F)};
#undef SX_F
    return first_part<S, C + 1>(p, (R)__builtin_shuffle(x, y, from), room);
  }
}
#endif
template <int S, class T> SX typename mem<T>::c load_every(const T* p, long n) {
#if __AVX512VL__ && __AVX512BW__ && !__clang__
  const long room = n > 0 ? (n - 1) * S + 1 : 0;
  return decode<T>(first_part<S, 1>(p, load_bits(p, room < SINTER_W ? room : SINTER_W), room));
#else
  return load_strided(p, S, n);
#endif
}
template <class T> SX typename mem<T>::c load_at(const T* p, v_i64 offset, long n = SINTER_W) {
  typename mem<T>::r x{};
  if (__builtin_constant_p(n) && n == SINTER_W) SX_EACH x[l] = ((const s_of<typename mem<T>::r>*)p)[offset[l]];
  else for (int l = 0; l < n; ++l) x[l] = ((const s_of<typename mem<T>::r>*)p)[offset[l]];
  return decode<T>(x);
}
template <class T> SX void store_strided(T* p, long stride, typename mem<T>::c v, long n = SINTER_W) {
  const typename mem<T>::r x = encode<T>(v);
  if (__builtin_constant_p(n) && n == SINTER_W) SX_EACH ((s_of<typename mem<T>::r>*)p)[l * stride] = x[l];
  else for (int l = 0; l < n; ++l) ((s_of<typename mem<T>::r>*)p)[l * stride] = x[l];
}

// Asks for memory that is loaded soon: the same place in a row to come or, where rows are longer than `most` bytes, further along.
template <long most, class T> SX void ahead(const T* p, long stride, long row) {
  const long bytes = row * sizeof(T);
  __builtin_prefetch(bytes <= most ? p + (bytes + 8191) / bytes * stride : p + 8192 / sizeof(T));
}

// A store that bypasses the caches where the machine can; p is aligned to the vector. stream_end() before another thread reads.
template <class T> SX void store_stream(T* p, typename mem<T>::c v) {
  const typename mem<T>::r x = encode<T>(v);
  constexpr int bytes = sizeof x;
#if __has_builtin(__builtin_nontemporal_store)
  if constexpr (bytes == 16 || bytes == 32 || bytes == 64) return __builtin_nontemporal_store(x, (typename mem<T>::r*)p);
#else
#if __AVX512F__
  typedef float q64 __attribute__((vector_size(64)));
  if constexpr (bytes == 64) return __builtin_ia32_movntps512((float*)p, bits<q64>(x));
#endif
#if __AVX__
  typedef float q32 __attribute__((vector_size(32)));
  if constexpr (bytes == 32) return __builtin_ia32_movntps256((float*)p, bits<q32>(x));
#endif
#if __SSE__
  typedef float q16 __attribute__((vector_size(16)));
  if constexpr (bytes == 16) return __builtin_ia32_movntps((float*)p, bits<q16>(x));
#endif
#endif
  store(p, v);
}
SX void stream_end() {
#if __SSE__
  __builtin_ia32_sfence();
#endif
}
}  // namespace sx
)prelude";

/// Loads under a condition on positions, and the positions at which such a condition changes.
inline constexpr std::string_view prelude_guards = R"prelude(
namespace sx {
// 0 <= base + step·l < extent, by lane.
SX v_b8 within(long base, long step, long extent) {
  const v_i64 x = lanes() * step + base;
  return mask(x >= 0) & mask(x < extent);
}
// The lanes that m has, of the first n; the others are 0, and nothing of them is read.
template <class T> SX typename mem<T>::c load_where(const T* p, long stride, v_b8 m, long n = SINTER_W) {
  typename mem<T>::r x{};
  for (int l = 0; l < n; ++l) if (m.m[l]) x[l] = ((const s_of<typename mem<T>::r>*)p)[l * stride];
  return decode<T>(x);
}
template <class T> static __attribute__((noinline)) typename mem<T>::c load_where_apart(const T* p, long stride, v_b8 m, long n = SINTER_W) {
  return load_where(p, stride, m, n);
}
template <class T> SX typename mem<T>::c load_at_where(const T* p, v_i64 offset, v_b8 m, long n = SINTER_W) {
  typename mem<T>::r x{};
  for (int l = 0; l < n; ++l) if (m.m[l]) x[l] = ((const s_of<typename mem<T>::r>*)p)[offset[l]];
  return decode<T>(x);
}
// [low, high) in pieces in each of which N conditions are what they are at its first place.
template <int N> struct cuts {
  long at[2 * N + 2];
  int count = 2;
  SX_IN cuts(long low, long high) : at{low, high} {}
  SX_IN void add(long place) {
    if (place <= at[0] || place >= at[count - 1]) return;
    int i = count++;
    for (; at[i - 1] > place; --i) at[i] = at[i - 1];
    at[i] = place;
  }
  static SX_IN long ceil_div(long a, long b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
  // 0 <= base + step·i < extent
  SX_IN void range(long base, long step, long extent) {
    if (step < 0) base = extent - 1 - base, step = -step;
    if (step == 0) return;
    add(ceil_div(-base, step));
    add(ceil_div(extent - base, step));
  }
};
}  // namespace sx
)prelude";

/// Whether the threads share work (body.hpp: thread_work), and each thread's part of a kernel's scratch memory. The scratch
/// memory begins with the number of parts and the bytes of each part.
inline constexpr std::string_view prelude_threads = R"prelude(
#ifdef _OPENMP
extern "C" int omp_get_max_threads();
extern "C" int omp_get_thread_num();
#endif
namespace sx {
SX bool shares(long work) {
#ifdef _OPENMP
  const int most = omp_get_max_threads();
  return most > 1 && work >= 32768l * (most < 8 ? most : 8);
#else
  return false;
#endif
}
SX int threads_of(const char* scratch) {
  const long parts = *(const long*)scratch;
#ifdef _OPENMP
  const int most = omp_get_max_threads();
  return most < parts ? most : (int)parts;
#else
  return (int)parts;
#endif
}
SX long thread_number() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}
SX char* part_of(char* scratch, long shared, long thread) {
  return scratch + (shared + 63) / 64 * 64 + thread * ((const long*)scratch)[1];
}
}  // namespace sx
)prelude";

}  // namespace sinter::engine::emit
