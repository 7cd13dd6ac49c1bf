// loops/simd.hpp: the prelude for xsimd batches: the meaning of ops.def's value texts for vectors of one lane type.
#pragma once

#include <cstring>
#include <limits>
#include <type_traits>
#include <xsimd/xsimd.hpp>

#include "../base/config.hpp"
#include "../ir/vocabulary.hpp"

namespace sinter::detail {

/// One name for lane types that differ only in spelling.
template <class T>
struct lane_of {
  using type = T;
};
template <class T>
requires(std::is_integral_v<T> && sizeof(T) == 8) struct lane_of<T> {
  using type = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
};
template <class T>
using lane = typename lane_of<T>::type;

}  // namespace sinter::detail

namespace sinter::simd {

/// The instruction set of this compilation. It is in the name of all entities that hold or compute vectors. It is the last
/// template parameter of entities without a `vec` parameter. So the linker keeps functions of the engine apart from those of
/// a program that is compiled for another machine.
using instruction_set = xsimd::default_arch;

/// Lanes of numbers. A separate type, so that unqualified calls do not find xsimd's functions.
template <class T, class Set = instruction_set>
struct vec {
  using batch = xsimd::batch<T, Set>;
  static constexpr int width = static_cast<int>(batch::size);
  batch v;

  SINTER_INLINE vec(batch x) : v(x) {}
  SINTER_INLINE explicit vec(T x) : v(x) {}
  static SINTER_INLINE vec load(const T* p) { return batch::load_unaligned(p); }
  SINTER_INLINE void store(T* p) const { v.store_unaligned(p); }
};

/// Lanes of bool beside lanes of T.
template <class T, class Set = instruction_set>
struct mask {
  using batch = xsimd::batch_bool<T, Set>;
  static constexpr int width = vec<T, Set>::width;
  batch v;

  SINTER_INLINE mask(batch x) : v(x) {}
  SINTER_INLINE explicit mask(bool x) : v(x) {}
  static SINTER_INLINE mask load(const bool* p) { return batch::load_unaligned(p); }
  SINTER_INLINE void store(bool* p) const { v.store_unaligned(p); }
};

/// True for the lane types that eager loops use.
template <class T>
inline constexpr bool is_lane =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int32_t> ||
    std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::uint64_t>;

/// f lane by lane, for functions that xsimd lacks or computes badly.
template <class T, class F, class... Vec>
__attribute__((noinline)) vec<T> lanes(F f, Vec... x) {
  alignas(64) T in[sizeof...(Vec)][vec<T>::width];
  alignas(64) T out[vec<T>::width];
  int k = 0;
  (x.store(in[k++]), ...);
  for (int i = 0; i < vec<T>::width; ++i) {
    if constexpr (sizeof...(Vec) == 1) out[i] = f(in[0][i]);
    else if constexpr (sizeof...(Vec) == 2) out[i] = f(in[0][i], in[1][i]);
    else out[i] = f(in[0][i], in[1][i], in[2][i]);
  }
  return vec<T>::load(out);
}

#define SINTER_X(SYMBOL)                                     \
  template <class T>                                         \
  SINTER_INLINE vec<T> operator SYMBOL(vec<T> a, vec<T> b) { \
    return a.v SYMBOL b.v;                                   \
  }
SINTER_X(+)
SINTER_X(-)
SINTER_X(&)
SINTER_X(|)
SINTER_X(^)
#undef SINTER_X
#define SINTER_X(SYMBOL)                                        \
  template <class T>                                            \
  SINTER_INLINE mask<T> operator SYMBOL(mask<T> a, mask<T> b) { \
    return a.v SYMBOL b.v;                                      \
  }
SINTER_X(&)
SINTER_X(|)
SINTER_X(^)
#undef SINTER_X

template <class T>
SINTER_INLINE vec<T> operator*(vec<T> a, vec<T> b) {
  if constexpr (std::is_floating_point_v<T>) return typename vec<T>::batch(vocabulary::rounded((a.v * b.v).data));
  else return lanes<T>([](T x, T y) { return vocabulary::apply_row<ir::op::mul, T>(x, y); }, a, b);
}

#define SINTER_X(NAME, SYMBOL, OF_MASKS)             \
  template <class T>                                 \
  SINTER_INLINE mask<T> NAME(vec<T> a, vec<T> b) {   \
    return mask<T>(a.v SYMBOL b.v);                  \
  }                                                  \
  template <class T>                                 \
  SINTER_INLINE mask<T> NAME(mask<T> a, mask<T> b) { \
    return mask<T>(OF_MASKS);                        \
  }
SINTER_X(equal, ==, ~(a.v ^ b.v))
SINTER_X(less, <, ~a.v& b.v)
SINTER_X(less_equal, <=, ~a.v | b.v)
SINTER_X(greater, >, a.v & ~b.v)
SINTER_X(greater_equal, >=, a.v | ~b.v)
#undef SINTER_X

// Not xsimd's !=, which is false for NaN with AVX.
template <class T>
SINTER_INLINE mask<T> not_equal(vec<T> a, vec<T> b) {
  return mask<T>(~(a.v == b.v));
}
template <class T>
SINTER_INLINE mask<T> not_equal(mask<T> a, mask<T> b) {
  return mask<T>(a.v ^ b.v);
}

template <class T>
SINTER_INLINE vec<T> select(mask<T> c, vec<T> a, vec<T> b) {
  return xsimd::select(c.v, a.v, b.v);
}
template <class T>
SINTER_INLINE mask<T> select(mask<T> c, mask<T> a, mask<T> b) {
  return (c.v & a.v) | (~c.v & b.v);
}

template <class T>
SINTER_INLINE vec<T> bit_not(vec<T> a) {
  return ~a.v;
}
template <class T>
SINTER_INLINE mask<T> bit_not(mask<T> a) {
  return ~a.v;
}

/// Whether some lane is true.
template <class T>
SINTER_INLINE bool any(mask<T> a) {
  return xsimd::any(a.v);
}

template <class T>
SINTER_INLINE mask<T> isnan(vec<T> a) {
  return not_equal(a, a);
}
template <class T>
SINTER_INLINE mask<T> isfinite(vec<T> a) {
  return equal(vec<T>(a.v - a.v), vec<T>(T(0)));
}
template <class T>
SINTER_INLINE mask<T> isinf(vec<T> a) {
  return bit_not(isfinite(a)) & equal(a, a);
}

template <class R, class T>
SINTER_INLINE auto convert(vec<T> a) {
  if constexpr (std::is_same_v<R, bool>) return not_equal(a, vec<T>(T(0)));
  else return a;
}
template <class R, class T>
SINTER_INLINE auto convert(mask<T> a) {
  if constexpr (std::is_same_v<R, bool>) return a;
  else return select(a, vec<T>(T(1)), vec<T>(T(0)));
}

/// Lanes have one type, so it is the identity.
template <class R, class V>
SINTER_INLINE V bit_cast(V a) {
  return a;
}

/// NaN if either is NaN.
template <class T>
SINTER_INLINE vec<T> maximum(vec<T> a, vec<T> b) {
  if constexpr (std::is_integral_v<T>) return select(greater(a, b), a, b);
  else return select(greater(a, b) | isnan(a), a, b);
}
template <class T>
SINTER_INLINE vec<T> minimum(vec<T> a, vec<T> b) {
  if constexpr (std::is_integral_v<T>) return select(less(a, b), a, b);
  else return select(less(a, b) | isnan(a), a, b);
}

template <class T>
SINTER_INLINE vec<T> negate(vec<T> a) {
  if constexpr (std::is_integral_v<T>) return vec<T>(T(0)) - a;
  else return -a.v;
}
template <class T>
SINTER_INLINE vec<T> abs(vec<T> a) {
  if constexpr (std::is_unsigned_v<T>) return a;
  else if constexpr (std::is_integral_v<T>) return select(less(a, vec<T>(T(0))), negate(a), a);
  else return xsimd::abs(a.v);
}
template <class T>
SINTER_INLINE vec<T> sign(vec<T> a) {
  const vec<T> zero(T(0)), one(T(1));
  if constexpr (std::is_unsigned_v<T>) return select(equal(a, zero), zero, one);
  else return select(greater(a, zero), one, select(less(a, zero), negate(one), select(equal(a, zero), zero, a)));
}

template <class T>
SINTER_INLINE vec<T> divide(vec<T> a, vec<T> b) {
  if constexpr (std::is_floating_point_v<T>) return a.v / b.v;
  else return lanes<T>([](T x, T y) { return vocabulary::divide(x, y); }, a, b);
}

// Lane by lane: exact integer semantics, and libm where xsimd is inaccurate.
#define SINTER_X(NAME)                                                                      \
  template <class T>                                                                        \
  SINTER_INLINE vec<T> NAME(vec<T> a, vec<T> b) {                                           \
    return lanes<T>([](T x, T y) { return static_cast<T>(vocabulary::NAME(x, y)); }, a, b); \
  }
SINTER_X(remainder)
SINTER_X(shift_left)
SINTER_X(shift_right)
SINTER_X(atan2)
SINTER_X(hypot)
SINTER_X(polygamma)
SINTER_X(philox)
SINTER_X(gauss)
#undef SINTER_X
#define SINTER_X(NAME)                                                                 \
  template <class T>                                                                   \
  SINTER_INLINE vec<T> NAME(vec<T> a, vec<T> b, vec<T> c) {                            \
    return lanes<T>([](T x, T y, T z) { return vocabulary::NAME(x, y, z); }, a, b, c); \
  }
SINTER_X(gamma_root)
SINTER_X(poisson_count)
#undef SINTER_X

template <class T>
SINTER_INLINE vec<T> sqrt(vec<T> a) {
  return xsimd::sqrt(a.v);
}
template <class T>
__attribute__((noinline)) vec<T> any_power(vec<T> a, vec<T> b) {
  return lanes<T>([](T x, T y) { return vocabulary::power(x, y); }, a, b);
}
/// Uses the exponents of vocabulary::power if all lanes have the same, like copies of a number.
template <class T>
SINTER_INLINE vec<T> power(vec<T> a, vec<T> b) {
  if constexpr (std::is_floating_point_v<T>) {
    const auto each = [&](double x) { return xsimd::all(b.v == typename vec<T>::batch(static_cast<T>(x))); };
    const vec<T> one(T(1));
    if (each(2)) return a * a;
    if (each(3)) return a * a * a;
    if (each(0.5)) {
      const vec<T> infinite(std::numeric_limits<T>::infinity());
      return select(equal(a, negate(infinite)), infinite, sqrt(a) + vec<T>(T(0)));
    }
    if (each(-1)) return divide(one, a);
    if (each(4)) return a * a * (a * a);
    if (each(-2)) return divide(one, a) * divide(one, a);
  }
  return any_power(a, b);
}

template <class T>
SINTER_INLINE vec<T> rsqrt(vec<T> a) {
  return typename vec<T>::batch(T(1)) / xsimd::sqrt(a.v);
}
/// Rounds half to even.
template <class T>
SINTER_INLINE vec<T> round(vec<T> a) {
  return xsimd::nearbyint(a.v);
}

// xsimd's function if every lane is inside the range in which it is accurate (2 ulp) and defined, else libm's. Beyond it
// xsimd overflows early, flushes subnormals, or converts numbers that integers cannot hold. Out of line, because the bodies
// are large.
#define SINTER_X(NAME, ...) SINTER_X_BY(NAME, xsimd::NAME, __VA_ARGS__)
#define SINTER_X_BY(NAME, BY, LOW32, HIGH32, LOW64, HIGH64)                     \
  template <class T>                                                            \
  __attribute__((noinline)) vec<T> NAME(vec<T> a) {                             \
    using batch = typename vec<T>::batch;                                       \
    constexpr T low = static_cast<T>(sizeof(T) == 4 ? LOW32 : LOW64),           \
                high = static_cast<T>(sizeof(T) == 4 ? HIGH32 : HIGH64);        \
    if (xsimd::all((a.v >= batch(low)) & (a.v <= batch(high)))) return BY(a.v); \
    return lanes<T>([](T x) { return vocabulary::NAME(x); }, a);                \
  }
// xsimd's functions lose -0 in f64.
template <class Batch>
SINTER_INLINE Batch signed_expm1(const Batch& a) {
  return xsimd::copysign(xsimd::expm1(a), a);
}
template <class Batch>
SINTER_INLINE Batch signed_log1p(const Batch& a) {
  return xsimd::copysign(xsimd::log1p(a), a);
}
SINTER_X(exp, -87, 88, -708, 709)
SINTER_X(exp2, -126, 127, -1022, 1023)
SINTER_X_BY(expm1, signed_expm1, -87, 88, -708, 709)
SINTER_X(log, 0x1p-126, 0x1p127, 0x1p-1022, 0x1p1023)
SINTER_X(log2, 0x1p-126, 0x1p127, 0x1p-1022, 0x1p1023)
SINTER_X_BY(log1p, signed_log1p, -0.999, 0x1p100, -0.999, 0x1p1000)
SINTER_X(cbrt, 0x1p-126, 0x1p127, 0x1p-1022, 0x1p1023)
SINTER_X(sin, -1e4, 1e4, -1e4, 1e4)
SINTER_X(cos, -1e4, 1e4, -1e4, 1e4)
SINTER_X(tan, -1e4, 1e4, -1e4, 1e4)
SINTER_X(asin, -1, 1, -1, 1)
SINTER_X(acos, -1, 1, -1, 1)
SINTER_X(atan, -0x1p100, 0x1p100, -0x1p100, 0x1p100)
SINTER_X(sinh, -87, 87, -700, 700)
SINTER_X(cosh, -87, 87, -700, 700)
SINTER_X(tanh, -40, 40, -300, 300)
#undef SINTER_X
#undef SINTER_X_BY
// Without SSE4.1 xsimd's functions go through integers, which have no -0.
#define SINTER_X(NAME)                                                                              \
  template <class T>                                                                                \
  __attribute__((noinline)) vec<T> NAME(vec<T> a) {                                                 \
    using batch = typename vec<T>::batch;                                                           \
    constexpr T whole = static_cast<T>(sizeof(T) == 4 ? 0x1p22 : 0x1p51);                           \
    if (xsimd::all(xsimd::abs(a.v) <= batch(whole))) return xsimd::copysign(xsimd::NAME(a.v), a.v); \
    return lanes<T>([](T x) { return vocabulary::NAME(x); }, a);                                    \
  }
SINTER_X(floor)
SINTER_X(ceil)
SINTER_X(trunc)
#undef SINTER_X

/// As above in f32; in f64 xsimd's function is off by 68 ulp.
template <class T>
__attribute__((noinline)) vec<T> erf(vec<T> a) {
  if constexpr (sizeof(T) == 4)
    if (xsimd::all(xsimd::abs(a.v) <= typename vec<T>::batch(9))) return xsimd::erf(a.v);
  return lanes<T>([](T x) { return vocabulary::erf(x); }, a);
}
#define SINTER_X(NAME)                                           \
  template <class T>                                             \
  SINTER_INLINE vec<T> NAME(vec<T> a) {                          \
    return lanes<T>([](T x) { return vocabulary::NAME(x); }, a); \
  }
SINTER_X(erfc)
SINTER_X(asinh)
SINTER_X(acosh)
SINTER_X(atanh)
SINTER_X(erfinv)
SINTER_X(lgamma)
SINTER_X(digamma)
#undef SINTER_X

template <class T>
SINTER_INLINE vec<T> sigmoid(vec<T> a) {
  using batch = typename vec<T>::batch;
  return batch(T(1)) / (batch(T(1)) + exp(negate(a)).v);
}

namespace detail {

/// The value column of one row.
template <ir::op O>
struct row_value;

#define SINTER_POINTWISE(name, arity, rule, value, da, db, dc)                                          \
  template <>                                                                                           \
  struct row_value<ir::op::name> {                                                                      \
    template <class R, class A, class B, class C>                                                       \
    static SINTER_INLINE auto apply([[maybe_unused]] A a, [[maybe_unused]] B b, [[maybe_unused]] C c) { \
      return value;                                                                                     \
    }                                                                                                   \
  };
#include "../ir/ops.def"

}  // namespace detail

/// Row O of ops.def on vectors and masks; R is the lane type of the result, or bool.
template <ir::op O, class R, class A>
SINTER_INLINE auto apply_row(A a) {
  return detail::row_value<O>::template apply<R>(a, 0, 0);
}
template <ir::op O, class R, class A, class B>
SINTER_INLINE auto apply_row(A a, B b) {
  return detail::row_value<O>::template apply<R>(a, b, 0);
}
template <ir::op O, class R, class A, class B, class C>
SINTER_INLINE auto apply_row(A a, B b, C c) {
  return detail::row_value<O>::template apply<R>(a, b, c);
}

}  // namespace sinter::simd
