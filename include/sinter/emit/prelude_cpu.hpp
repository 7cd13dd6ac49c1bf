// emit/prelude_cpu.hpp: the text that every emitted CPU kernel starts with: vector types, memory, and the pointwise vocabulary.
//
// Plain C++20 with vector extensions, for g++ and clang++, without any #include, since headers would cost more than the
// rest of a kernel's compilation. The kernel defines SINTER_W, the lanes of every vector: 4, 8 or 16.
//   t_X  element type X in memory; b8, f16 and bf16 are distinct types
//   s_X  a scalar to compute with; v_X a vector of them. f16 and bf16 compute as f32.
//   v_b8 wraps i32 lanes that are 0 or -1
#pragma once

#include <string_view>

namespace sinter::emit {

/// Types, traits and the helpers that every other piece uses. Everything lives in namespace sx, which the kernel sees.
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
template <class T> struct mem { typedef s_of<T> s; typedef typename tr<T>::v c; typedef c r; };
template <> struct mem<t_b8> { typedef s_b8 s; typedef v_b8 c; typedef v_u8 r; };
template <> struct mem<t_f16> { typedef s_f32 s; typedef v_f32 c; typedef v_u16 r; };
template <> struct mem<t_bf16> { typedef s_f32 s; typedef v_f32 c; typedef v_u16 r; };
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
// Plain conversion of lanes, without a rule for what does not fit.
template <class R, class V> SX R cv(V a) {
  if constexpr (tr<V>::vec) return __builtin_convertvector(a, R);
  else return (R)a;
}
template <class R, class V> SX R bits(V a) { return __builtin_bit_cast(R, a); }
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
SX_T V maximum(V a, V b) {
  const V t = a > b ? a : b;
  if constexpr (tr<V>::kind == 3) return a != a ? a : t;
  else return t;
}
SX_T V minimum(V a, V b) {
  const V t = a < b ? a : b;
  if constexpr (tr<V>::kind == 3) return a != a ? a : t;
  else return t;
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

/// Loads and stores, whole vectors, their first n lanes, strided and scattered, with the conversions of b8, f16, bf16.
inline constexpr std::string_view prelude_memory = R"prelude(
namespace sx {
SX v_f32 widen_bf16(v_u16 h) { return bits<v_f32>(__builtin_convertvector(h, v_u32) << 16); }
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
  const v_u32 u = __builtin_convertvector(h, v_u32), e = u & 0x7fff;
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
template <class V> SX V round_f16(V a) { return widen_f16(narrow_f16(a)); }
template <class V> SX V round_bf16(V a) { return widen_bf16(narrow_bf16(a)); }

template <class T> SX typename mem<T>::c decode(typename mem<T>::r x) {
  if constexpr (__is_same(T, t_b8)) return mask(x != 0);
  else if constexpr (__is_same(T, t_f16)) return widen_f16(x);
  else if constexpr (__is_same(T, t_bf16)) return widen_bf16(x);
  else return x;
}
template <class T> SX typename mem<T>::r encode(typename mem<T>::c x) {
  if constexpr (__is_same(T, t_b8)) return __builtin_convertvector(x.m & 1, v_u8);
  else if constexpr (__is_same(T, t_f16)) return narrow_f16(x);
  else if constexpr (__is_same(T, t_bf16)) return narrow_bf16(x);
  else return x;
}

template <class T> SX typename mem<T>::s load1(const T* p) {
  if constexpr (__is_same(T, t_f16)) return widen_f16(p->bits);
  else if constexpr (__is_same(T, t_bf16)) return widen_bf16(p->bits);
  else return (typename mem<T>::s)*p;
}
template <class T> SX void store1(T* p, typename mem<T>::s x) {
  if constexpr (__is_same(T, t_f16)) p->bits = narrow_f16(x);
  else if constexpr (__is_same(T, t_bf16)) p->bits = narrow_bf16(x);
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
template <class T> SX typename mem<T>::c load(const T* p, long n) {
  typename mem<T>::r x{};
#define SX_MASKED_DO(f) x = (typename mem<T>::r)f(any_pointer{p}, q{}, (1u << n) - 1);
#define SX_CHUNK_DO(k) __builtin_memcpy((char*)&x + at, (const char*)p + at, k);
  SX_MASKED_ALL(load) {
    unsigned long b = n * sizeof(T), at = 0;
    SX_CHUNKS
  }
#undef SX_MASKED_DO
#undef SX_CHUNK_DO
  return decode<T>(x);
}
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

/// Vector to scalar, lane l with lane l + half each time, so that the order never varies.
inline constexpr std::string_view prelude_fold = R"prelude(
namespace sx {
#if SINTER_W == 16
#define SX_ROTATE(a, k) __builtin_shufflevector(a, a, k, 1 ^ k, 2 ^ k, 3 ^ k, 4 ^ k, 5 ^ k, 6 ^ k, 7 ^ k, 8 ^ k, 9 ^ k, 10 ^ k, 11 ^ k, 12 ^ k, 13 ^ k, 14 ^ k, 15 ^ k)
#define SX_HALVES SX_HALVE(8) SX_HALVE(4) SX_HALVE(2) SX_HALVE(1)
#elif SINTER_W == 8
#define SX_ROTATE(a, k) __builtin_shufflevector(a, a, k, 1 ^ k, 2 ^ k, 3 ^ k, 4 ^ k, 5 ^ k, 6 ^ k, 7 ^ k)
#define SX_HALVES SX_HALVE(4) SX_HALVE(2) SX_HALVE(1)
#else
#define SX_ROTATE(a, k) __builtin_shufflevector(a, a, k, 1 ^ k, 2 ^ k, 3 ^ k)
#define SX_HALVES SX_HALVE(2) SX_HALVE(1)
#endif
#define SX_HALVE(k) { const V b = SX_ROTATE(a, k); a = SX_STEP; }
#define SX_STEP a + b
SX_T s_of<V> fold_add(V a) { SX_HALVES return a[0]; }
#undef SX_STEP
#define SX_STEP a * b
SX_T s_of<V> fold_mul(V a) { SX_HALVES return a[0]; }
#undef SX_STEP
#define SX_STEP maximum(a, b)
SX_T s_of<V> fold_maximum(V a) { SX_HALVES return a[0]; }
#undef SX_STEP
#define SX_STEP minimum(a, b)
SX_T s_of<V> fold_minimum(V a) { SX_HALVES return a[0]; }
#undef SX_STEP
#define SX_STEP a | b
SX_T s_of<V> fold_bit_or(V a) { SX_HALVES return a[0]; }
SX s_b8 fold_bit_or(v_b8 a) { return fold_bit_or(a.m); }
#undef SX_STEP
#define SX_STEP a & b
SX_T s_of<V> fold_bit_and(V a) { SX_HALVES return a[0]; }
SX s_b8 fold_bit_and(v_b8 a) { return fold_bit_and(a.m); }
#undef SX_STEP
}  // namespace sx
)prelude";

/// A square of lanes transposed in place, by swapping blocks of 1, 2, 4, … lanes.
inline constexpr std::string_view prelude_transpose = R"prelude(
namespace sx {
template <int S, class V> SX void swap_blocks(V* t) {
#define SX_LOW(l) ((l) & S ? SINTER_W + (l) - S : (l))
#define SX_HIGH(l) ((l) & S ? SINTER_W + (l) : (l) + S)
  for (int i = 0; i < SINTER_W; ++i) {
    if (i & S) continue;
    const V a = t[i], b = t[i + S];
    t[i] = __builtin_shufflevector(a, b, SX_LANES(SX_LOW));
    t[i + S] = __builtin_shufflevector(a, b, SX_LANES(SX_HIGH));
  }
#undef SX_LOW
#undef SX_HIGH
}
SX_T void transpose(V* t) {
  swap_blocks<1>(t);
  swap_blocks<2>(t);
#if SINTER_W >= 8
  swap_blocks<4>(t);
#endif
#if SINTER_W >= 16
  swap_blocks<8>(t);
#endif
}
}  // namespace sx
)prelude";

/// divide and remainder of every type, power of integers, shift_left, shift_right.
inline constexpr std::string_view prelude_arithmetic = R"prelude(
namespace sx {
template <class S> SX S divide1(S a, S b) {
  if constexpr (tr<S>::kind == 3) return a / b;
  else if constexpr (tr<S>::kind == 2) return b == 0 ? 0 : a / b;
  else return b == 0 ? 0 : b == -1 ? (S)-a : (S)(a / b);
}
template <class S> SX S remainder1(S a, S b) {
  if constexpr (__is_same(S, s_f32)) return __builtin_fmodf(a, b);
  else if constexpr (__is_same(S, s_f64)) return __builtin_fmod(a, b);
  else if constexpr (tr<S>::kind == 2) return b == 0 ? 0 : a % b;
  else return b == 0 || b == -1 ? 0 : a % b;
}
template <class S> static S power1(S a, S b) {
  if (b < 0) return a == 1 ? 1 : a == (S)-1 ? (b & 1 ? (S)-1 : 1) : 0;
  u_of<S> r = 1, x = a;
  for (; b != 0; b >>= 1) {
    if (b & 1) r *= (unsigned long)x;
    x *= (unsigned long)x;
  }
  return r;
}
#define SX_PER_LANE(call) V r{}; SX_EACH r[l] = call; return r;
// Quotients of at most 32 bits are exact in f64 before they are truncated.
SX_T V divide(V a, V b) {
  if constexpr (!tr<V>::vec) return divide1(a, b);
  else if constexpr (tr<V>::kind == 3) return a / b;
  else if constexpr (sizeof(s_of<V>) == 8) { SX_PER_LANE(divide1<s_of<V>>(a[l], b[l])) }
  else {
    V safe = b == 0 ? V{} + 1 : b, q;
    if constexpr (tr<V>::kind == 1) safe = b == -1 ? V{} + 1 : safe;
    if constexpr (sizeof(s_of<V>) == 4) q = cv<V>(cv<v_f64>(a) / cv<v_f64>(safe));
    else q = cv<V>(cv<v_i32>(cv<v_f32>(a) / cv<v_f32>(safe)));
    if constexpr (tr<V>::kind == 1) q = b == -1 ? -a : q;
    return b == 0 ? V{} : q;
  }
}
SX_T V remainder(V a, V b) {
  if constexpr (!tr<V>::vec) return remainder1(a, b);
  else if constexpr (tr<V>::kind == 3 || sizeof(s_of<V>) == 8) { SX_PER_LANE(remainder1<s_of<V>>(a[l], b[l])) }
  else return b == 0 ? V{} : a - divide(a, b) * b;
}
SX_T V power(V a, V b) {
  if constexpr (!tr<V>::vec) return power1(a, b);
  else { SX_PER_LANE(power1<s_of<V>>(a[l], b[l])) }
}
SX_T V shift_left(V a, V b) {
  typedef u_of<V> U;
  constexpr s_of<U> w = 8 * sizeof(s_of<V>);
  return (U)b < w ? (V)(a << (b & (s_of<V>)(w - 1))) : V{};
}
SX_T V shift_right(V a, V b) {
  typedef u_of<V> U;
  constexpr s_of<U> w = 8 * sizeof(s_of<V>);
  const V last = splat<V>(w - 1), n = (U)b < w ? b : last, r = a >> n;
  if constexpr (tr<V>::kind == 1) return r;
  else return (U)b < w ? r : V{};
}
}  // namespace sx
)prelude";

/// sqrt rsqrt floor ceil round trunc: what the machine does in an instruction.
inline constexpr std::string_view prelude_round = R"prelude(
namespace sx {
#define SX_PER_LANE1(call) V r{}; SX_EACH r[l] = call(a[l]); return r;
#define SX_ROUNDING(name, call, mode) \
  SX s_f32 name(s_f32 a) { return call##f(a); } \
  SX s_f64 name(s_f64 a) { return call(a); } \
  SX v_f32 name(v_f32 a) { typedef v_f32 V; SX_ROUND32(call##f, mode) } \
  SX v_f64 name(v_f64 a) { typedef v_f64 V; SX_ROUND64(call, mode) }
#if __AVX512F__ && SINTER_W == 16
#define SX_ROUND32(call, mode) return (v_f32)__builtin_ia32_rndscaleps_mask(a, mode, a, -1, 4);
#elif __AVX__ && SINTER_W == 8
#define SX_ROUND32(call, mode) return (v_f32)__builtin_ia32_roundps256(a, mode);
#elif __SSE4_1__ && SINTER_W == 4
#define SX_ROUND32(call, mode) return (v_f32)__builtin_ia32_roundps(a, mode);
#else
#define SX_ROUND32(call, mode) SX_PER_LANE1(call)
#endif
#if __AVX512F__ && SINTER_W == 8
#define SX_ROUND64(call, mode) return (v_f64)__builtin_ia32_rndscalepd_mask(a, mode, a, -1, 4);
#elif __AVX__ && SINTER_W == 4
#define SX_ROUND64(call, mode) return (v_f64)__builtin_ia32_roundpd256(a, mode);
#else
#define SX_ROUND64(call, mode) SX_PER_LANE1(call)
#endif
SX_ROUNDING(round, __builtin_rint, 8) SX_ROUNDING(floor, __builtin_floor, 9) SX_ROUNDING(ceil, __builtin_ceil, 10) SX_ROUNDING(trunc, __builtin_trunc, 11)

SX s_f32 sqrt(s_f32 a) { return __builtin_sqrtf(a); }
SX s_f64 sqrt(s_f64 a) { return __builtin_sqrt(a); }
SX v_f32 sqrt(v_f32 a) { typedef v_f32 V; SX_PER_LANE1(__builtin_sqrtf) }
SX v_f64 sqrt(v_f64 a) { typedef v_f64 V; SX_PER_LANE1(__builtin_sqrt) }
SX_T V rsqrt(V a) { return splat<V>(1) / sqrt(a); }
}  // namespace sx
)prelude";

/// The transcendental functions and power of floats: libmvec where SINTER_LIBMVEC is set, lane by lane otherwise.
inline constexpr std::string_view prelude_math = R"prelude(
namespace sx {
#if SINTER_LIBMVEC
// The machine vectors, which may be shorter than ours.
#if __AVX512F__ && SINTER_W == 16
#define SX_L32 16
#define SX_MV32(args, name) _ZGVeN16##args##_##name##f
#elif __AVX2__ && SINTER_W >= 8
#define SX_L32 8
#define SX_MV32(args, name) _ZGVdN8##args##_##name##f
#else
#define SX_L32 4
#define SX_MV32(args, name) _ZGVbN4##args##_##name##f
#endif
#if __AVX512F__ && SINTER_W >= 8
#define SX_L64 8
#define SX_MV64(args, name) _ZGVeN8##args##_##name
#elif __AVX2__
#define SX_L64 4
#define SX_MV64(args, name) _ZGVdN4##args##_##name
#else
#define SX_L64 2
#define SX_MV64(args, name) _ZGVbN2##args##_##name
#endif
typedef s_f32 m_f32 __attribute__((vector_size(4 * SX_L32)));
typedef s_f64 m_f64 __attribute__((vector_size(8 * SX_L64)));
template <class M, class V> SX V in_parts(M (*f)(M), V a) {
  if constexpr (sizeof(M) == sizeof(V)) return f(a);
  else {
    constexpr int n = sizeof(V) / sizeof(M);
    M x[n];
    __builtin_memcpy(x, &a, sizeof a);
    for (int k = 0; k < n; ++k) x[k] = f(x[k]);
    __builtin_memcpy(&a, x, sizeof a);
    return a;
  }
}
template <class M, class V> SX V in_parts(M (*f)(M, M), V a, V b) {
  if constexpr (sizeof(M) == sizeof(V)) return f(a, b);
  else {
    constexpr int n = sizeof(V) / sizeof(M);
    M x[n], y[n];
    __builtin_memcpy(x, &a, sizeof a);
    __builtin_memcpy(y, &b, sizeof b);
    for (int k = 0; k < n; ++k) x[k] = f(x[k], y[k]);
    __builtin_memcpy(&a, x, sizeof a);
    return a;
  }
}
#define SX_UNARY_VECTOR(name) \
  extern "C" m_f32 SX_MV32(v, name)(m_f32); \
  extern "C" m_f64 SX_MV64(v, name)(m_f64); \
  SX v_f32 name(v_f32 a) { return in_parts(SX_MV32(v, name), a); } \
  SX v_f64 name(v_f64 a) { return in_parts(SX_MV64(v, name), a); }
#define SX_BINARY_VECTOR(ours, name) \
  extern "C" m_f32 SX_MV32(vv, name)(m_f32, m_f32); \
  extern "C" m_f64 SX_MV64(vv, name)(m_f64, m_f64); \
  SX v_f32 ours(v_f32 a, v_f32 b) { return in_parts(SX_MV32(vv, name), a, b); } \
  SX v_f64 ours(v_f64 a, v_f64 b) { return in_parts(SX_MV64(vv, name), a, b); }
#else
#define SX_UNARY_VECTOR(name) \
  SX v_f32 name(v_f32 a) { SX_EACH a[l] = __builtin_##name##f(a[l]); return a; } \
  SX v_f64 name(v_f64 a) { SX_EACH a[l] = __builtin_##name(a[l]); return a; }
#define SX_BINARY_VECTOR(ours, name) \
  SX v_f32 ours(v_f32 a, v_f32 b) { SX_EACH a[l] = __builtin_##name##f(a[l], b[l]); return a; } \
  SX v_f64 ours(v_f64 a, v_f64 b) { SX_EACH a[l] = __builtin_##name(a[l], b[l]); return a; }
#endif
#define SX_UNARY(name) \
  SX s_f32 name(s_f32 a) { return __builtin_##name##f(a); } \
  SX s_f64 name(s_f64 a) { return __builtin_##name(a); } \
  SX_UNARY_VECTOR(name)
#define SX_BINARY(ours, name) \
  SX s_f32 ours(s_f32 a, s_f32 b) { return __builtin_##name##f(a, b); } \
  SX s_f64 ours(s_f64 a, s_f64 b) { return __builtin_##name(a, b); } \
  SX_BINARY_VECTOR(ours, name)
SX_UNARY(exp) SX_UNARY(exp2) SX_UNARY(expm1) SX_UNARY(log) SX_UNARY(log2) SX_UNARY(log1p) SX_UNARY(cbrt)
SX_UNARY(sin) SX_UNARY(cos) SX_UNARY(tan) SX_UNARY(asin) SX_UNARY(acos) SX_UNARY(atan)
SX_UNARY(sinh) SX_UNARY(cosh) SX_UNARY(tanh) SX_UNARY(erf) SX_UNARY(erfc)
SX_BINARY(atan2, atan2)
SX_BINARY(power, pow)
SX_T V sigmoid(V a) { return splat<V>(1) / (splat<V>(1) + exp(-a)); }
}  // namespace sx
)prelude";

/// philox(key, counter): Philox4x32-10, word0 | word1 << 32.
inline constexpr std::string_view prelude_random = R"prelude(
namespace sx {
SX_T V philox(V key, V counter) {
  V k0 = key & 0xffffffffu, k1 = key >> 32, c0 = counter & 0xffffffffu, c1 = counter >> 32, c2 = V{}, c3 = V{};
  for (int i = 0; i < 10; ++i) {
    const V a = c0 * 0xD2511F53ul, b = c2 * 0xCD9E8D57ul;
    c0 = (b >> 32) ^ c1 ^ k0;
    c1 = b & 0xffffffffu;
    c2 = (a >> 32) ^ c3 ^ k1;
    c3 = a & 0xffffffffu;
    k0 = (k0 + 0x9E3779B9u) & 0xffffffffu;
    k1 = (k1 + 0xBB67AE85u) & 0xffffffffu;
  }
  return c0 | c1 << 32;
}
}  // namespace sx
)prelude";

}  // namespace sinter::emit
