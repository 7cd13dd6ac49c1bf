// emit/prelude/exp.hpp: the part of the prelude with exp, sigmoid, tanh and erf of f32, as vector code without a call. Most
// kernels that compute much spend their time in these functions. Follows prelude_math.
#pragma once

#include <string_view>

namespace sinter::engine::emit {

inline constexpr std::string_view prelude_exp = R"prelude(
namespace sx {
// By 2^n · e^r: the r of S · a = n ln 2 + r. Adding `to` rounds to n, whose bits are the last of t.
template <int S> SX v_f32 exp_rest(v_f32 a, s_f32 to, v_f32& t, v_f32& n) {
  typedef v_f32 V;
  t = multiply_add(a, splat<V>(S * 1.44269504f), splat<V>(to));
  n = t - to;
  // ln 2 in two parts, of which the first has 9 bits: its product with n is exact.
  return multiply_add(n, splat<V>(2.12194440e-4f), multiply_add(n, splat<V>(-0.693359375f), (s_f32)S * a));
}
// Beyond these the exponential is 0 or infinite, or nothing to add to 1. A NaN stays. At -176 both halves of 2^n are 0: a product that is
// too small for a float would take several times as long, and masks are -inf.
SX v_f32 exp_range(v_f32 a) { return smaller(splat<v_f32>(89), larger(splat<v_f32>(-176), a)); }
SX v_f32 sigmoid_range(v_f32 a) { return smaller(splat<v_f32>(86), larger(splat<v_f32>(-89), a)); }
// sigmoid takes e^-a as twice e^r times half of 2^n, which is finite wherever e^-a is.
#if __AVX512VL__ && SINTER_W >= 8
// n in steps of 1/16: 2^(n - floor n) by its last four bits, 1 or half of it.
#define SX_POWERS_LOW 1.0f,        1.04427378f, 1.09050773f, 1.13878863f, 1.18920712f, 1.24185781f, 1.29683955f, 1.35425555f
#define SX_POWERS_HIGH 1.41421356f, 1.47682615f, 1.54221083f, 1.61049033f, 1.68179283f, 1.75625216f, 1.83400809f, 1.91520656f
#if SINTER_W == 16
SX v_f32 scale(v_f32 a, v_f32 n) { return (v_f32)__builtin_ia32_scalefps512_mask(a, n, a, -1, 4); }
SX v_f32 exp_sixteenth(v_f32 t, s_f32 one) {
  const v_f32 power = one * v_f32{SX_POWERS_LOW, SX_POWERS_HIGH};
#if __clang__
  return (v_f32)__builtin_ia32_permvarsf512(power, bits<v_i32>(t));
#else
  return (v_f32)__builtin_ia32_permvarsf512_mask(power, bits<v_i32>(t), power, -1);
#endif
}
#else
SX v_f32 scale(v_f32 a, v_f32 n) { return (v_f32)__builtin_ia32_scalefps256_mask(a, n, a, -1); }
SX v_f32 exp_sixteenth(v_f32 t, s_f32 one) {
  const v_f32 low = one * v_f32{SX_POWERS_LOW}, high = one * v_f32{SX_POWERS_HIGH};
#if __clang__
  return (v_f32)__builtin_ia32_vpermi2varps256(low, bits<v_i32>(t), high);
#else
  return (v_f32)__builtin_ia32_vpermt2varps256_mask(bits<v_i32>(t), low, high, -1);
#endif
}
#endif
template <int S> SX v_f32 exp_within(v_f32 a) {
  typedef v_f32 V;
  V t, n;
  const V r = exp_rest<S>(a, 0x1.8p19f, t, n), power = exp_sixteenth(t, 1);
  const V p = multiply_add(r, multiply_add(r, splat<V>(0.16666988f), splat<V>(0.5000162f)), splat<V>(1));
  return scale(multiply_add(r * power, p, power), n);
}
// Within 1 ulp.
SX v_f32 exp(v_f32 a) { return exp_within<1>(exp_range(a)); }
SX v_f32 sigmoid(v_f32 a) {
  typedef v_f32 V;
  V t, n;
  const V r = exp_rest<-1>(sigmoid_range(a), 0x1.8p19f, t, n), power = scale(exp_sixteenth(t, 0.5f), n);
  V p = multiply_add(r, splat<V>(2 * 0.16666988f), splat<V>(2 * 0.5000162f));
  p = multiply_add(r, multiply_add(r, p, splat<V>(2)), splat<V>(2));
  return 1 / multiply_add(power, p, splat<V>(1));
}
#else
SX v_f32 exp_near_0(v_f32 r, s_f32 one) {
  v_f32 p = splat<v_f32>(one * 1.38145401e-3f);
  for (const s_f32 c : (const s_f32[]){8.36874511e-3f, 4.16683908e-2f, 0.166665204f, 0.499999934f, 1.0f, 1.0f}) p = multiply_add(p, r, splat<v_f32>(one * c));
  return p;
}
// Of a result that is not subnormal: the last bits of t are the exponent of 2^n.
template <int S> SX v_f32 exp_within(v_f32 a) {
  v_f32 t, n;
  const v_f32 p = exp_near_0(exp_rest<S>(a, 0x1.8p23f + 127, t, n), 1);
  return p * bits<v_f32>((v_i32)(bits<v_i32>(t) << 23));
}
// Within 0.9 ulps, or 1.2 without multiply-add instructions.
SX v_f32 exp(v_f32 a) {
  v_f32 t, n;
  const v_f32 p = exp_near_0(exp_rest<1>(exp_range(a), 0x1.8p23f + 254, t, n), 1);
  // By two halves of n, so that the product is rounded once, also where it is subnormal: halves of t's last bits are their exponents.
  const v_i32 b = bits<v_i32>(t), h = b >> 1;
  return p * bits<v_f32>((v_i32)(h << 23)) * bits<v_f32>((v_i32)((b - h) << 23));
}
SX v_f32 sigmoid(v_f32 a) {
  v_f32 t, n;
  // The last bits of t are the exponent of half of 2^n.
  const v_f32 p = exp_near_0(exp_rest<-1>(sigmoid_range(a), 0x1.8p23f + 126, t, n), 2);
  return 1 / multiply_add(p, bits<v_f32>((v_i32)(bits<v_i32>(t) << 23)), splat<v_f32>(1));
}
#endif
SX_T V sigmoid(V a) { return splat<V>(1) / (splat<V>(1) + exp(-a)); }
template <int N> SX v_f32 polynomial(v_f32 x, const s_f32 (&c)[N]) {
  v_f32 p = splat<v_f32>(c[0]);
  for (int i = 1; i < N; ++i) p = multiply_add(p, x, splat<v_f32>(c[i]));
  return p;
}
SX v_f32 with_sign(v_f32 size, v_f32 of) { return bits<v_f32>((v_i32)(bits<v_i32>(size) | (bits<v_i32>(of) & (s_i32)0x80000000))); }
// Within 1.6 ulps, where libmvec is not quicker: a polynomial near 0, elsewhere what 1 lacks, which is nothing from the bounds on.
#if __FMA__ || !SINTER_LIBMVEC
SX v_f32 tanh(v_f32 a) {
  const v_f32 size = smaller(splat<v_f32>(9.1f), abs(a)), square = a * a;
  const v_f32 p = polynomial(square, {-5.852557613e-3f, 2.075401363e-2f, -5.3768843e-2f, 0.1333169113f, -0.333332834f});
  return size < 0.6f ? a * multiply_add(p, square, splat<v_f32>(1)) : with_sign(1 - 2 / (1 + exp_within<2>(size)), a);
}
#else
SX_VECTOR_32(tanh)
#endif
#if __AVX512VL__ && SINTER_W >= 8 || !SINTER_LIBMVEC
SX v_f32 erf(v_f32 a) {
  const v_f32 size = smaller(splat<v_f32>(4), abs(a)), square = size * size;
  const v_f32 p = polynomial(square, {-6.315445085e-4f, 5.051157823e-3f, -2.680259351e-2f, 0.1128271885f, -0.3761257202f, 0.12837916f});
  const v_f32 q = polynomial(size, {1.513785469e-4f, -2.554575182e-3f, 1.927122083e-2f, -8.645598927e-2f, 0.2594732184f, -0.5570629332f, 0.8936246878f, -1.093841803f, 0.994978352f});
  return size < 0.85f ? multiply_add(p, a, a) : with_sign(1 - exp_within<-1>(square) * q, a);
}
#else
SX_VECTOR_32(erf)
#endif
// Scalars are lanes, so that they have the same bits.
#define SX_LANE(name) SX s_f32 name(s_f32 a) { return name(splat<v_f32>(a))[0]; }
SX_LANE(exp) SX_LANE(sigmoid) SX_LANE(tanh) SX_LANE(erf)
}  // namespace sx
)prelude";

}  // namespace sinter::engine::emit
