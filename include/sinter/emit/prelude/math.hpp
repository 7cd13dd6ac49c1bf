// emit/prelude/math.hpp: the parts of the prelude that a kernel gets when it calls them: folds, transposes, arithmetic with
// special rules, rounding, transcendental functions, random bits. Follows prelude_core and prelude_memory.
#pragma once

#include <string_view>

namespace sinter::engine::emit {

/// Folds a vector to a scalar, lane l with lane l + half each time, so that the order never varies. Also squares in another
/// type.
inline constexpr std::string_view prelude_fold = R"prelude(
namespace sx {
template <class R, class V> SX R square_as(V a) { const R x = cv<R>(a); return x * x; }
// Whether a sum of squares of f32 has met one that is infinite, or may have lost digits of subnormal ones.
SX bool lost(s_f64 sum) { return (sum < 0x1p-100) | (sum > 0x1p1000); }
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
// The first extreme of lanes: `best` has its value, `at` the number of the vector that it was in. A NaN is the most extreme.
template <bool Max, class V> SX i_of<V> exceeds(V x, V best) {
  if constexpr (tr<V>::kind == 3) return (i_of<V>)(~(Max ? x <= best : x >= best) & (best == best));
  else return (i_of<V>)(Max ? x > best : x < best);
}
template <bool Max, class V> SX void take_extreme(V& best, i_of<V>& at, V x, i_of<V> number) {
  const i_of<V> m = exceeds<Max>(x, best);
  best = m ? x : best;
  at = m ? number : at;
}
// The same of two that each have vectors of their own.
template <bool Max, class V> SX void join_extremes(V& best, i_of<V>& at, V other, i_of<V> its) {
  const i_of<V> same = (i_of<V>)((best == other) | ((best != best) & (other != other))) & (i_of<V>)(its < at);
  const i_of<V> m = exceeds<Max>(other, best) | same;
  best = m ? other : best;
  at = m ? its : at;
}
// The first position, SINTER_W a vector, of the extreme among the lanes.
template <bool Max, class V> SX s_i64 first_extreme(V best, i_of<V> at) {
  const s_of<V> top = Max ? fold_maximum(best) : fold_minimum(best);
  const i_of<V> m = (i_of<V>)((best == top) | (best != best));
  const v_i64 p = __builtin_convertvector(at, v_i64) * SINTER_W + lanes();
  return fold_minimum(__builtin_convertvector(m, v_i64) ? p : splat<v_i64>(~0ul >> 1));
}
// Sums of squares of n columns become totals or, with More, go to them; whether one is lost.
template <bool More> SX bool total_squares(s_f64* __restrict total, const s_f32* __restrict sums, long n) {
  int m = 0;
  for (long i = 0; i < n; ++i) {
    total[i] = More ? total[i] + sums[i] : sums[i];
    m |= lost(total[i]);
  }
  return m != 0;
}
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

/// sqrt rsqrt floor ceil round trunc, by instructions of the machine.
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

/// The transcendental functions and power of floats: libmvec if SINTER_LIBMVEC is set, libm otherwise. prelude_exp follows
/// with the other f32 functions. An element has the same bits in a scalar, in a vector of any length, and in any kernel.
/// Fusion relies on this: it recomputes a value and compares it with itself, for example in the derivative of max.
inline constexpr std::string_view prelude_math = R"prelude(
namespace sx {
#if SINTER_LIBMVEC
// The longest vectors of the machine, which may be shorter or longer than ours.
#if __AVX512F__
#define SX_L32 16
#define SX_MV32(args, name) _ZGVeN16##args##_##name##f
#define SX_L64 8
#define SX_MV64(args, name) _ZGVeN8##args##_##name
#elif __AVX2__
#define SX_L32 8
#define SX_MV32(args, name) _ZGVdN8##args##_##name##f
#define SX_L64 4
#define SX_MV64(args, name) _ZGVdN4##args##_##name
#else
#define SX_L32 4
#define SX_MV32(args, name) _ZGVbN4##args##_##name##f
#define SX_L64 2
#define SX_MV64(args, name) _ZGVbN2##args##_##name
#endif
typedef s_f32 m_f32 __attribute__((vector_size(4 * SX_L32)));
typedef s_f64 m_f64 __attribute__((vector_size(8 * SX_L64)));
// a as machine vectors, and back: the last one is filled with what is in a.
template <class M, class V> struct machine_parts {
  static constexpr int own = sizeof(V), each = sizeof(M), count = own > each ? own / each : 1;
  M x[count];
  SX_IN machine_parts(V a) {
    for (int at = 0; at < count * each; at += own) __builtin_memcpy((char*)x + at, &a, own);
  }
  SX_IN V joined() const {
    V a;
    __builtin_memcpy(&a, x, own);
    return a;
  }
};
template <class M, class V> SX V in_parts(M (*f)(M), V a) {
  machine_parts<M, V> x(a);
  for (M& part : x.x) part = f(part);
  return x.joined();
}
template <class M, class V> SX V in_parts(M (*f)(M, M), V a, V b) {
  machine_parts<M, V> x(a), y(b);
  for (int k = 0; k < x.count; ++k) x.x[k] = f(x.x[k], y.x[k]);
  return x.joined();
}
#define SX_VECTOR_32(name) \
  extern "C" m_f32 SX_MV32(v, name)(m_f32); \
  SX v_f32 name(v_f32 a) { return in_parts(SX_MV32(v, name), a); }
#define SX_UNARY_32(name) \
  SX_VECTOR_32(name) \
  SX s_f32 name(s_f32 a) { return in_parts(SX_MV32(v, name), a); }
#define SX_UNARY_64(name) \
  extern "C" m_f64 SX_MV64(v, name)(m_f64); \
  SX s_f64 name(s_f64 a) { return in_parts(SX_MV64(v, name), a); } \
  SX v_f64 name(v_f64 a) { return in_parts(SX_MV64(v, name), a); }
#define SX_BINARY(ours, name) \
  extern "C" m_f32 SX_MV32(vv, name)(m_f32, m_f32); \
  extern "C" m_f64 SX_MV64(vv, name)(m_f64, m_f64); \
  SX s_f32 ours(s_f32 a, s_f32 b) { return in_parts(SX_MV32(vv, name), a, b); } \
  SX v_f32 ours(v_f32 a, v_f32 b) { return in_parts(SX_MV32(vv, name), a, b); } \
  SX s_f64 ours(s_f64 a, s_f64 b) { return in_parts(SX_MV64(vv, name), a, b); } \
  SX v_f64 ours(v_f64 a, v_f64 b) { return in_parts(SX_MV64(vv, name), a, b); }
#else
#define SX_UNARY_32(name) \
  SX s_f32 name(s_f32 a) { return __builtin_##name##f(a); } \
  SX v_f32 name(v_f32 a) { SX_EACH a[l] = __builtin_##name##f(a[l]); return a; }
#define SX_UNARY_64(name) \
  SX s_f64 name(s_f64 a) { return __builtin_##name(a); } \
  SX v_f64 name(v_f64 a) { SX_EACH a[l] = __builtin_##name(a[l]); return a; }
#define SX_BINARY(ours, name) \
  SX s_f32 ours(s_f32 a, s_f32 b) { return __builtin_##name##f(a, b); } \
  SX s_f64 ours(s_f64 a, s_f64 b) { return __builtin_##name(a, b); } \
  SX v_f32 ours(v_f32 a, v_f32 b) { SX_EACH a[l] = __builtin_##name##f(a[l], b[l]); return a; } \
  SX v_f64 ours(v_f64 a, v_f64 b) { SX_EACH a[l] = __builtin_##name(a[l], b[l]); return a; }
#endif
#define SX_UNARY(name) SX_UNARY_32(name) SX_UNARY_64(name)
SX_UNARY_64(exp) SX_UNARY(exp2) SX_UNARY(expm1) SX_UNARY(log) SX_UNARY(log2) SX_UNARY(log1p) SX_UNARY(cbrt)
SX_UNARY(sin) SX_UNARY(cos) SX_UNARY(tan) SX_UNARY(asin) SX_UNARY(acos) SX_UNARY(atan)
SX_UNARY(sinh) SX_UNARY(cosh) SX_UNARY_64(tanh) SX_UNARY_64(erf) SX_UNARY(erfc)
SX_BINARY(atan2, atan2)
SX_BINARY(any_power, pow)
}  // namespace sx
)prelude";

/// Functions of C's library that libmvec lacks or may lack, and the functions of ir/special.def, lane by lane.
inline constexpr std::string_view prelude_special = R"prelude(
extern "C" float lgammaf_r(float, int*);
extern "C" double lgamma_r(double, int*);
namespace sx {
#define SINTER_FN static __attribute__((noinline))
#define SINTER_C(name) __builtin_##name
)prelude"
#define SINTER_SPECIAL(...) #__VA_ARGS__
#include "../../ir/special.def"
                                                    R"prelude(
#define SX_LANES1(name) \
  SX v_f32 name(v_f32 a) { SX_EACH a[l] = name((s_f32)a[l]); return a; } \
  SX v_f64 name(v_f64 a) { SX_EACH a[l] = name((s_f64)a[l]); return a; }
#define SX_LANES2(name) \
  SX v_f32 name(v_f32 a, v_f32 b) { SX_EACH a[l] = name((s_f32)a[l], (s_f32)b[l]); return a; } \
  SX v_f64 name(v_f64 a, v_f64 b) { SX_EACH a[l] = name((s_f64)a[l], (s_f64)b[l]); return a; }
#define SX_LIBM1(name) \
  SX s_f32 name(s_f32 a) { return __builtin_##name##f(a); } \
  SX s_f64 name(s_f64 a) { return __builtin_##name(a); } \
  SX_LANES1(name)
#define SX_OWN1(name) \
  SX s_f32 name(s_f32 a) { return (s_f32)name##_of(a); } \
  SX s_f64 name(s_f64 a) { return name##_of(a); } \
  SX_LANES1(name)
SX_LIBM1(asinh) SX_LIBM1(acosh) SX_LIBM1(atanh) SX_OWN1(erfinv) SX_OWN1(digamma)
SX s_f32 hypot(s_f32 a, s_f32 b) { return __builtin_hypotf(a, b); }
SX s_f64 hypot(s_f64 a, s_f64 b) { return __builtin_hypot(a, b); }
SX s_f32 polygamma(s_f32 a, s_f32 b) { return (s_f32)polygamma_of(a, b); }
SX s_f64 polygamma(s_f64 a, s_f64 b) { return polygamma_of(a, b); }
SX_LANES2(hypot) SX_LANES2(polygamma)
SX s_f32 lgamma(s_f32 a) { int sign; return lgammaf_r(a, &sign); }
SX s_f64 lgamma(s_f64 a) { int sign; return lgamma_r(a, &sign); }
SX_LANES1(lgamma)
}  // namespace sx
)prelude";

/// power of floats.
inline constexpr std::string_view prelude_power = R"prelude(
namespace sx {
// Exponents that rules know have those rules, lane by lane. Should all lanes have one, it is an argument, and so is the branch.
SX_T bool each_is(V b, s_of<V> x) {
  if constexpr (!tr<V>::vec) return b == x;
  else { SX_EACH if (!(b[l] == x)) return false; return true; }
}
SX_T V root(V a) {
  constexpr s_of<V> infinite = __builtin_inf();
  return a == -infinite ? splat<V>(infinite) : sqrt(a) + 0;
}
#define SX_POWER(V) \
  SX V power(V a, V b) { \
    constexpr s_of<V> half = 0.5; \
    if (each_is(b, 2)) return a * a; \
    if (each_is(b, 1)) return a; \
    if (each_is(b, 0)) return splat<V>(1); \
    if (each_is(b, -1)) return 1 / a; \
    if (each_is(b, 3)) return a * a * a; \
    if (each_is(b, half)) return root(a); \
    if (each_is(b, 4)) return a * a * (a * a); \
    if (each_is(b, -2)) return 1 / a * (1 / a); \
    const V x = any_power(a, b), square = a * a, inverse = 1 / a, small = b == -1 ? inverse : b == -2 ? inverse * inverse : x; \
    return b == 2 ? square : b == 1 ? a : b == 0 ? splat<V>(1) : b == 3 ? square * a : b == 4 ? square * square : b == half ? root(a) : small; \
  }
SX_POWER(s_f32) SX_POWER(s_f64) SX_POWER(v_f32) SX_POWER(v_f64)
}  // namespace sx
)prelude";

/// philox(key, counter): Philox4x32-10, word0 | word1 << 32. gauss(a, b) is defined in ir/vocabulary.hpp.
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
template <class F, class V> SX F gauss_root(V a) {
  F m = cv<F>((V)((a >> 11) + 1)) * 0x1p-53, e{};
  for (int k = 32; k > 0; k /= 2) {
    const s_f64 scale = 1ul << k;
    const auto low = m < 1.0 / scale;
    m = low ? m * scale : m;
    e = low ? e + (s_f64)k : e;
  }
  const auto low = m < 0.70710678118654752;
  m = low ? m * 2.0 : m;
  e = low ? e + 1.0 : e;
  const F s = (m - 1.0) / (m + 1.0), q = s * s;
  F p = F{} + 1.0 / 23;
  for (int k = 21; k > 0; k -= 2) p = p * q + 1.0 / k;
  return sqrt((F)(2.0 * (e * 0.69314718055994531 - 2.0 * s * p)));
}
// root · cos(2π (v + ½)).
template <class F, class S> SX F gauss_turned(F root, S v) {
  const S x = 6.2831853071795865 * ((v < 0.0 ? -v : v) - 0.25), y = x * x;
  S c = S{} + 1.0;
  for (int k = 22; k > 0; k -= 2) c = 1.0 - y * (1.0 / (k * (k + 1))) * c;
  return root * x * c;
}
template <class F, class I, class V> SX V gauss_of(V a, V b) {
  return (V)cv<I>((F)(gauss_turned(gauss_root<F>(a), (F)(cv<F>((V)(b >> 11)) * 0x1p-53 - 0.5)) * 0x1p56));
}
SX_T V gauss(V a, V b) {
  if constexpr (tr<V>::vec) return gauss_of<v_f64, v_i64>(a, b);
  else return gauss_of<s_f64, s_i64>(a, b);
}
}  // namespace sx
)prelude";

/// gamma_root(key, element, shape), poisson_count(key, element, rate), as defined in ir/vocabulary.hpp. Attempts go on until
/// all lanes are done.
inline constexpr std::string_view prelude_draws = R"prelude(
namespace sx {
#define SX_DRAW template <class F, class I, class V>
SX_T bool some(V m) {
  if constexpr (!tr<V>::vec) return m != 0;
  else {
    s_i64 any = 0;
    SX_EACH any |= m[l];
    return any != 0;
  }
}
SX_DRAW SX F draw_normal(V key, V at) {
  return cv<F>((I)gauss_of<F, I>(philox(key, at), philox(key, (V)(at + (1ul << 48))))) * 0x1p-56;
}
SX_DRAW SX F draw_minus_log(V word) {
  const F s = cv<F>(cv<I>((F)(gauss_turned(gauss_root<F>(word), -0.5) * 0x1p56))) * 0x1p-56;
  return s * s * 0.5;
}
SX_DRAW SX F draw_log(F x) {
  constexpr s_i64 fraction = (1l << 52) - 1;
  const I b = bits<I>(x), significand = ((b & fraction) | (fraction + 1)) - 1;
  return cv<F>((I)((b >> 52) - 1022)) * 0.69314718055994531 - draw_minus_log<F, I, V>((V)significand << 11);
}
SX_DRAW static __attribute__((noinline)) V draw_gamma(V key, V element, V shape) {
  const F a = maximum(bits<F>(shape), splat<F>(1e-300)), d = (a < 1.0 ? a + 1.0 : a) - 1.0 / 3, root = sqrt((F)(d * 9.0));
  F t{};
  I open = splat<I>(-1);
  for (s_u64 j = 0; j < 8; ++j) {
    const V at = element + (j << 50);
    const F x = draw_normal<F, I>(key, at), s = x / root + 1.0, square = x * x, safe = maximum(s, splat<F>(0x1p-40));
    const V word = philox(key, (V)(at + (2ul << 48)));
    t = open ? safe : t;
    const F u = cv<F>((V)((word >> 11) + 1)) * 0x1p-53;
    const I able = s > 0x1p-40;
    I taken = able & (I)(u < 1.0 - square * square * 0.0331 - 0x1p-16);
    if (some((I)(open & (I)(taken == 0)))) {
      const F grown = safe * safe * safe - 1.0 - draw_log<F, I, V>(safe) * 3.0, chance = draw_minus_log<F, I>(word) + square * 0.5;
      taken = taken | (able & (I)(chance > minimum(d, splat<F>(0x1p20)) * grown));
    }
    open = open & (I)(taken == 0);
    if (!some(open)) break;
  }
  return bits<V>((F)(t == t ? t : splat<F>(__builtin_nan(""))));
}
SX_T V gamma_root(V key, V element, V shape) {
  if constexpr (tr<V>::vec) return draw_gamma<v_f64, v_i64>(key, element, shape);
  else return draw_gamma<s_f64, s_i64>(key, element, shape);
}
// Of a rate from 12 to 2^31, of the lanes that are open.
SX_DRAW SX F draw_count(V key, V element, F rate, I open) {
  const F root = sqrt(rate), b = root * 2.53 + 0.931, a = b * 0.02483 + -0.059, log_rate = draw_log<F, I, V>(rate);
  const F scale = 1.1328 / (b - 3.4) + 1.1239, sure = 0.9277 - 3.6224 / (b - 2.0);
  F count = floor(rate);
  for (s_u64 j = 0; j < 12 && some(open); ++j) {
    const V at = element + (j << 50);
    const F u = cv<F>((V)(philox(key, at) >> 11)) * 0x1p-53 + -0.5, half = 0.5 - (u < 0.0 ? -u : u);
    const F v = cv<F>((V)((philox(key, (V)(at + (1ul << 48))) >> 11) + 1)) * 0x1p-53, near = maximum(half, splat<F>(0x1p-54));
    const F k = floor((F)((a * 2.0 / near + b) * u + rate + 0.43));
    const I inside = (I)(k >= 0.0) & (I)(k < rate * 256.0) & (I)((I)((I)(near < 0.013) & (I)(v > near)) == 0);
    I taken = inside & (I)(near >= 0.07) & (I)(v <= sure);
    if (some((I)(open & inside & (I)(taken == 0)))) {
      const F square = near * near, chance = v * scale * square / (square * b + a);
      const F n = (inside ? k : rate) + 1.0, log_n = draw_log<F, I, V>(n / rate), inverse = 1.0 / n, inverse2 = inverse * inverse;
      const F stirling = inverse * (1.0 / 12 - inverse2 * (1.0 / 360 - inverse2 * (1.0 / 1260)));
      const F logs = (n - 1.0) * log_n + (log_n + log_rate) * 0.5;
      const F weight = n - rate - logs - 0.91893853320467274 - stirling;
      taken = taken | (inside & (I)(draw_log<F, I, V>(maximum(chance, splat<F>(0x1p-200))) <= weight));
    }
    taken = taken & open;
    count = taken ? k : count;
    open = open & (I)(taken == 0);
  }
  return count;
}
SX_DRAW static __attribute__((noinline)) V draw_poisson(V key, V element, V of) {
  const F rate = bits<F>(of);
  const I valid = (I)(rate >= 0.0) & (I)(rate < __builtin_inf()), large = valid & (I)(rate > 0x1p31), open = valid & (I)(large == 0);
  F count = splat<F>(__builtin_nan(""));
  if (some(open)) {
    const F drawn = draw_count<F, I>(key, element, (F)(open ? maximum(rate, splat<F>(12)) : splat<F>(12)), open);
    count = open ? drawn : count;
    const I few = open & (I)(rate < 12.0);
    if (some(few)) {
      const F trials = few ? minimum(drawn, splat<F>(48)) : splat<F>(0), chance = rate * (1 / 12.0);
      F taken{};
      for (s_u64 i = 0; some((I)((s_f64)i < trials)); ++i) {
        const F u = cv<F>((V)(philox(key, (V)(element + ((4 * i + 64) << 48))) >> 11)) * 0x1p-53;
        taken = (I)((s_f64)i < trials) & (I)(u < chance) ? taken + 1.0 : taken;
      }
      count = few ? taken : count;
    }
  }
  if (some(large)) {
    const F beyond = floor((F)(rate + draw_normal<F, I>(key, (V)(element + (2ul << 48))) * sqrt(rate) + 0.5));
    count = large ? beyond : count;
  }
  return bits<V>(count);
}
SX_T V poisson_count(V key, V element, V rate) {
  if constexpr (tr<V>::vec) return draw_poisson<v_f64, v_i64>(key, element, rate);
  else return draw_poisson<s_f64, s_i64>(key, element, rate);
}
#undef SX_DRAW
}  // namespace sx
)prelude";

}  // namespace sinter::engine::emit
