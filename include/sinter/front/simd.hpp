// front/simd.hpp: the prelude of xsimd batches: what the value texts of ops.def mean for vectors of one lane type.
#pragma once

#include <cstring>
#include <limits>
#include <type_traits>
#include <xsimd/xsimd.hpp>

#include "../ir/vocabulary.hpp"

#define SINTER_INLINE inline __attribute__((always_inline))

namespace sinter::simd {

/// Lanes of numbers. A type of its own, so that unqualified calls do not find xsimd's functions.
template <class T>
struct vec {
  using batch = xsimd::batch<T>;
  static constexpr int width = static_cast<int>(batch::size);
  batch v;

  SINTER_INLINE vec(batch x) : v(x) {}
  SINTER_INLINE explicit vec(T x) : v(x) {}
  static SINTER_INLINE vec load(const T* p) { return batch::load_unaligned(p); }
  SINTER_INLINE void store(T* p) const { v.store_unaligned(p); }
};

/// Lanes of bool beside lanes of T.
template <class T>
struct mask {
  using batch = xsimd::batch_bool<T>;
  static constexpr int width = vec<T>::width;
  batch v;

  SINTER_INLINE mask(batch x) : v(x) {}
  SINTER_INLINE explicit mask(bool x) : v(x) {}
  static SINTER_INLINE mask load(const bool* p) { return batch::load_unaligned(p); }
  SINTER_INLINE void store(bool* p) const { v.store_unaligned(p); }
};

/// True for the lane types that eager loops use.
template <class T>
inline constexpr bool is_lane = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int32_t> ||
                                std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::uint64_t>;

/// f lane by lane, for what xsimd lacks or computes badly.
template <class T, class F, class... Vec>
__attribute__((noinline)) vec<T> lanes(F f, Vec... x) {
  alignas(64) T in[sizeof...(Vec)][vec<T>::width];
  alignas(64) T out[vec<T>::width];
  int k = 0;
  (x.store(in[k++]), ...);
  for (int i = 0; i < vec<T>::width; ++i) {
    if constexpr (sizeof...(Vec) == 1) out[i] = f(in[0][i]);
    else out[i] = f(in[0][i], in[1][i]);
  }
  return vec<T>::load(out);
}

#define SINTER_X(SYMBOL)                                                           \
  template <class T>                                                               \
  SINTER_INLINE vec<T> operator SYMBOL(vec<T> a, vec<T> b) { return a.v SYMBOL b.v; }
SINTER_X(+) SINTER_X(-) SINTER_X(&) SINTER_X(|) SINTER_X(^)
#undef SINTER_X
#define SINTER_X(SYMBOL)                                                              \
  template <class T>                                                                  \
  SINTER_INLINE mask<T> operator SYMBOL(mask<T> a, mask<T> b) { return a.v SYMBOL b.v; }
SINTER_X(&) SINTER_X(|) SINTER_X(^)
#undef SINTER_X

template <class T>
SINTER_INLINE vec<T> operator*(vec<T> a, vec<T> b) {
  if constexpr (std::is_floating_point_v<T>) return a.v * b.v;
  else return lanes<T>([](T x, T y) { return vocabulary::apply_row<ir::op::mul, T>(x, y); }, a, b);
}

#define SINTER_X(NAME, SYMBOL, OF_MASKS)                                                     \
  template <class T>                                                                         \
  SINTER_INLINE mask<T> NAME(vec<T> a, vec<T> b) { return mask<T>(a.v SYMBOL b.v); }         \
  template <class T>                                                                         \
  SINTER_INLINE mask<T> NAME(mask<T> a, mask<T> b) { return mask<T>(OF_MASKS); }
SINTER_X(equal, ==, ~(a.v ^ b.v))
SINTER_X(not_equal, !=, a.v ^ b.v)
SINTER_X(less, <, ~a.v & b.v)
SINTER_X(less_equal, <=, ~a.v | b.v)
SINTER_X(greater, >, a.v & ~b.v)
SINTER_X(greater_equal, >=, a.v | ~b.v)
#undef SINTER_X

template <class T>
SINTER_INLINE vec<T> select(mask<T> c, vec<T> a, vec<T> b) { return xsimd::select(c.v, a.v, b.v); }
template <class T>
SINTER_INLINE mask<T> select(mask<T> c, mask<T> a, mask<T> b) { return (c.v & a.v) | (~c.v & b.v); }

template <class T>
SINTER_INLINE vec<T> bit_not(vec<T> a) { return ~a.v; }
template <class T>
SINTER_INLINE mask<T> bit_not(mask<T> a) { return ~a.v; }

template <class T>
SINTER_INLINE mask<T> isnan(vec<T> a) { return not_equal(a, a); }
template <class T>
SINTER_INLINE mask<T> isfinite(vec<T> a) { return equal(vec<T>(a.v - a.v), vec<T>(T(0))); }
template <class T>
SINTER_INLINE mask<T> isinf(vec<T> a) { return bit_not(isfinite(a)) & equal(a, a); }

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

// Lane by lane: exact integer semantics, and libm where xsimd is far from it.
#define SINTER_X(NAME)                                                                             \
  template <class T>                                                                               \
  SINTER_INLINE vec<T> NAME(vec<T> a, vec<T> b) {                                                  \
    return lanes<T>([](T x, T y) { return static_cast<T>(vocabulary::NAME(x, y)); }, a, b);        \
  }
SINTER_X(remainder) SINTER_X(power) SINTER_X(shift_left) SINTER_X(shift_right) SINTER_X(atan2) SINTER_X(philox)
#undef SINTER_X

template <class T>
SINTER_INLINE vec<T> sqrt(vec<T> a) { return xsimd::sqrt(a.v); }
template <class T>
SINTER_INLINE vec<T> rsqrt(vec<T> a) { return typename vec<T>::batch(T(1)) / xsimd::sqrt(a.v); }
template <class T>
SINTER_INLINE vec<T> floor(vec<T> a) { return xsimd::floor(a.v); }
template <class T>
SINTER_INLINE vec<T> ceil(vec<T> a) { return xsimd::ceil(a.v); }
template <class T>
SINTER_INLINE vec<T> trunc(vec<T> a) { return xsimd::trunc(a.v); }
/// Half to even.
template <class T>
SINTER_INLINE vec<T> round(vec<T> a) { return xsimd::nearbyint(a.v); }

// xsimd's function, out of line: its body is large, and a call costs little beside it.
#define SINTER_X(NAME)                                     \
  template <class T>                                       \
  __attribute__((noinline)) vec<T> NAME(vec<T> a) {        \
    return xsimd::NAME(a.v);                               \
  }
SINTER_X(log1p) SINTER_X(sin) SINTER_X(cos) SINTER_X(tan) SINTER_X(asin) SINTER_X(acos) SINTER_X(atan)
SINTER_X(sinh) SINTER_X(cosh) SINTER_X(tanh)
#undef SINTER_X

// xsimd's function, but libm's where a lane is in the ranges in which xsimd overflows early or takes subnormals for 0.
#define SINTER_X(NAME, EDGE)                                                              \
  template <class T>                                                                      \
  __attribute__((noinline)) vec<T> NAME(vec<T> a) {                                       \
    [[maybe_unused]] constexpr bool single = sizeof(T) == 4;                              \
    const auto within = [&](double low, double high) {                                    \
      return (a.v > typename vec<T>::batch(static_cast<T>(low))) & (a.v < typename vec<T>::batch(static_cast<T>(high))); \
    };                                                                                    \
    if (xsimd::any(EDGE)) return lanes<T>([](T x) { return vocabulary::NAME(x); }, a);    \
    return xsimd::NAME(a.v);                                                              \
  }
SINTER_X(exp, (single ? within(88, 89) | within(-104, -87) : within(709, 710) | within(-746, -708)))
SINTER_X(exp2, (single ? within(127, 128) | within(-150, -126) : within(1023, 1024) | within(-1075, -1022)))
SINTER_X(expm1, (single ? within(88, 89) : within(709, 710)))
SINTER_X(log, (within(0, std::numeric_limits<T>::min())))
SINTER_X(log2, (within(0, std::numeric_limits<T>::min())))
SINTER_X(cbrt, (within(-static_cast<double>(std::numeric_limits<T>::min()), std::numeric_limits<T>::min())))
#undef SINTER_X

/// xsimd's in f32 (2 ulp); in f64 it is off by 68 ulp, and erfc by far more.
template <class T>
__attribute__((noinline)) vec<T> erf(vec<T> a) {
  if constexpr (sizeof(T) == 4) return xsimd::erf(a.v);
  else return lanes<T>([](T x) { return std::erf(x); }, a);
}
template <class T>
SINTER_INLINE vec<T> erfc(vec<T> a) {
  return lanes<T>([](T x) { return std::erfc(x); }, a);
}

template <class T>
SINTER_INLINE vec<T> sigmoid(vec<T> a) {
  using batch = typename vec<T>::batch;
  return batch(T(1)) / (batch(T(1)) + exp(negate(a)).v);
}

namespace detail {

/// The value column of one row.
template <ir::op O>
struct row_value;

#define SINTER_POINTWISE(name, arity, rule, value, da, db, dc)                                        \
  template <>                                                                                         \
  struct row_value<ir::op::name> {                                                                    \
    template <class R, class A, class B, class C>                                                     \
    static SINTER_INLINE auto apply([[maybe_unused]] A a, [[maybe_unused]] B b, [[maybe_unused]] C c) { \
      return value;                                                                                   \
    }                                                                                                 \
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
