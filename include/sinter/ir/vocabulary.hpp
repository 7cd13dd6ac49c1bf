// ir/vocabulary.hpp: the prelude for C++ scalars: the meaning of ops.def's value texts for arithmetic types.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "op.hpp"

namespace sinter::vocabulary {

// C's NAME for a float or a double. The program compiles the standard library's overloads with its own flags.
#define SINTER_LIBM(NAME, T, A) \
  (sizeof(T) == 4 ? static_cast<T>(__builtin_##NAME##f(static_cast<float>(A))) : static_cast<T>(__builtin_##NAME(A)))
#define SINTER_LIBM_2(NAME, T, A, B)                                                                  \
  (sizeof(T) == 4 ? static_cast<T>(__builtin_##NAME##f(static_cast<float>(A), static_cast<float>(B))) \
                  : static_cast<T>(__builtin_##NAME(A, B)))

template <class T>
inline constexpr bool is_half = is_narrow_float<T>;

/// Integers, bool excluded.
template <class T>
inline constexpr bool is_whole = std::is_integral_v<T> && !std::is_same_v<T, bool>;

/// The type in which + - * of integers are computed, so that they wrap: unsigned, and not promoted to int.
template <class T>
using wrapping = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// x, rounded. Under -ffast-math or -ffp-contract=fast clang++ would fuse a product with a sum of it, despite pragmas. T is a
/// number, or a vector of numbers in a register.
template <class T>
inline __attribute__((always_inline)) constexpr T rounded(T x) {
#if defined(__clang__) && defined(__FMA__)
  if (!std::is_constant_evaluated()) asm("" : "+x"(x));
#elif defined(__clang__) && defined(__ARM_FEATURE_FMA)
  if (!std::is_constant_evaluated()) asm("" : "+w"(x));
#endif
  return x;
}

/// Float to integer truncates, saturates and maps NaN to 0; integers wrap; bool is != 0; other conversions round to nearest.
template <class R, class A>
constexpr R convert(A a) {
  if constexpr (is_half<A>) {
    if constexpr (std::is_same_v<R, A>) return a;
    else return convert<R>(static_cast<float>(a));
  } else if constexpr (std::is_same_v<R, bool>) {
    return a != A(0);
  } else if constexpr (is_half<R>) {
    return R(static_cast<float>(a));
  } else if constexpr (is_whole<R> && std::is_floating_point_v<A>) {
    constexpr A low = static_cast<A>(std::numeric_limits<R>::min());
    constexpr A beyond = A(2) * static_cast<A>(R(1) << (std::numeric_limits<R>::digits - 1));
    if (a != a) return R(0);
    if (a <= low) return std::numeric_limits<R>::min();
    return a >= beyond ? std::numeric_limits<R>::max() : static_cast<R>(a);
  } else {
    return static_cast<R>(a);
  }
}

/// The number of type R with a's bits.
template <class R, class A>
constexpr R bit_cast(A a) {
  if constexpr (sizeof(R) == sizeof(A)) return std::bit_cast<R>(a);
  else return R();
}

/// Floats: a / b. Integers truncate; x / 0 = 0, MIN / -1 = MIN.
template <class T>
constexpr T divide(T a, T b) {
  if constexpr (is_whole<T>) {
    if (b == 0) return T(0);
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return static_cast<T>(wrapping<T>(0) - static_cast<wrapping<T>>(a));
    return static_cast<T>(a / b);
  } else {
    return a / b;
  }
}

/// Floats: fmod. Integers: C's %; x % 0 = 0, MIN % -1 = 0.
template <class T>
constexpr T remainder(T a, T b) {
  if constexpr (is_whole<T>) {
    if (b == 0) return T(0);
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return T(0);
    return static_cast<T>(a % b);
  } else {
    return SINTER_LIBM_2(fmod, T, a, b);
  }
}

/// Floats: pow, with the usual exponents as in rewrite/rules.hpp. Integers by squaring, wrapping; a negative exponent gives 1
/// for 1, ±1 for -1, else 0.
template <class T>
constexpr T power(T a, T b) {
  if constexpr (is_whole<T>) {
    if constexpr (std::is_signed_v<T>)
      if (b < 0) return a == 1 ? T(1) : a != T(-1) ? T(0) : b % 2 != 0 ? T(-1) : T(1);
    wrapping<T> result = 1, square = static_cast<wrapping<T>>(a);
    for (auto n = static_cast<wrapping<T>>(b); n != 0; n >>= 1, square *= square)
      if (n & 1) result *= square;
    return static_cast<T>(result);
  } else {
    if (b == 2) return a * a;
    if (b == 3) return a * a * a;
    if (b == T(0.5)) return a == -std::numeric_limits<T>::infinity() ? -a : SINTER_LIBM(sqrt, T, a) + 0;
    if (b == -1) return 1 / a;
    if (b == 4) return a * a * (a * a);
    if (b == -2) return 1 / a * (1 / a);
    return SINTER_LIBM_2(pow, T, a, b);
  }
}

/// NaN if either is NaN.
template <class T>
constexpr T maximum(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
constexpr T minimum(T a, T b) {
  return a < b || a != a ? a : b;
}

/// -1, 0 or 1; NaN stays NaN.
template <class T>
constexpr T sign(T a) {
  if constexpr (std::is_unsigned_v<T>) return static_cast<T>(a != 0);
  else return a != a ? a : static_cast<T>((a > T(0)) - (a < T(0)));
}

template <class T>
constexpr T negate(T a) {
  if constexpr (is_whole<T>) return static_cast<T>(wrapping<T>(0) - static_cast<wrapping<T>>(a));
  else return -a;
}

/// The absolute value; the lowest integer stays.
template <class T>
constexpr T abs(T a) {
  if constexpr (std::is_unsigned_v<T>) return a;
  else if constexpr (is_whole<T>) return a < 0 ? negate(a) : a;
  else if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_fabsf(a));
  else return static_cast<T>(__builtin_fabs(a));
}

// clang-format off
template <class T> constexpr bool equal(T a, T b) { return a == b; }
template <class T> constexpr bool not_equal(T a, T b) { return a != b; }
template <class T> constexpr bool less(T a, T b) { return a < b; }
template <class T> constexpr bool less_equal(T a, T b) { return a <= b; }
template <class T> constexpr bool greater(T a, T b) { return a > b; }
template <class T> constexpr bool greater_equal(T a, T b) { return a >= b; }
template <class M, class T> constexpr T select(M mask, T a, T b) { return static_cast<bool>(mask) ? a : b; }
// clang-format on

/// ~ on integers, ! on bool.
template <class T>
constexpr T bit_not(T a) {
  if constexpr (std::is_same_v<T, bool>) return !a;
  else return static_cast<T>(~a);
}

/// x << amount; amounts (as unsigned) of at least the width give 0.
template <class T>
constexpr T shift_left(T a, T b) {
  using U = std::make_unsigned_t<T>;
  if (static_cast<U>(b) >= std::numeric_limits<U>::digits) return T(0);
  return static_cast<T>(static_cast<wrapping<T>>(a) << static_cast<U>(b));
}

/// x >> amount; amounts (as unsigned) of at least the width give 0, or the sign's fill.
template <class T>
constexpr T shift_right(T a, T b) {
  using U = std::make_unsigned_t<T>;
  constexpr U width = std::numeric_limits<U>::digits;
  if (static_cast<U>(b) >= width) return std::is_signed_v<T> ? static_cast<T>(a >> (width - 1)) : T(0);
  return static_cast<T>(a >> static_cast<U>(b));
}

#define SINTER_UNARY(NAME)          \
  template <class T>                \
  inline T NAME(T a) {              \
    return SINTER_LIBM(NAME, T, a); \
  }
// clang-format off
SINTER_UNARY(exp) SINTER_UNARY(exp2) SINTER_UNARY(expm1) SINTER_UNARY(log) SINTER_UNARY(log2) SINTER_UNARY(log1p)
SINTER_UNARY(sqrt) SINTER_UNARY(cbrt) SINTER_UNARY(sin) SINTER_UNARY(cos) SINTER_UNARY(tan) SINTER_UNARY(asin)
SINTER_UNARY(acos) SINTER_UNARY(atan) SINTER_UNARY(sinh) SINTER_UNARY(cosh) SINTER_UNARY(tanh) SINTER_UNARY(erf)
SINTER_UNARY(asinh) SINTER_UNARY(acosh) SINTER_UNARY(atanh) SINTER_UNARY(erfc) SINTER_UNARY(floor) SINTER_UNARY(ceil) SINTER_UNARY(trunc)
// clang-format on
#undef SINTER_UNARY

template <class T>
inline T atan2(T a, T b) {
  return SINTER_LIBM_2(atan2, T, a, b);
}
template <class T>
inline T hypot(T a, T b) {
  return SINTER_LIBM_2(hypot, T, a, b);
}
template <class T>
inline T lgamma(T a) {
  [[maybe_unused]] int sign;
  if constexpr (sizeof(T) == 4) return ::lgammaf_r(a, &sign);
  else return ::lgamma_r(a, &sign);
}

namespace detail {

#define SINTER_SPECIAL(...) __VA_ARGS__
#define SINTER_FN inline
#define SINTER_C(NAME) __builtin_##NAME
#include "special.def"
#undef SINTER_C
#undef SINTER_FN

}  // namespace detail

template <class T>
inline T erfinv(T a) {
  return static_cast<T>(detail::erfinv_of(static_cast<double>(a)));
}
template <class T>
inline T digamma(T a) {
  return static_cast<T>(detail::digamma_of(static_cast<double>(a)));
}
template <class T>
inline T polygamma(T a, T b) {
  return static_cast<T>(detail::polygamma_of(static_cast<double>(a), static_cast<double>(b)));
}
template <class T>
inline T rsqrt(T a) {
  return T(1) / vocabulary::sqrt(a);
}
template <class T>
inline T sigmoid(T a) {
  return T(1) / (T(1) + vocabulary::exp(-a));
}
/// Rounds half to even, as the default rounding mode does.
template <class T>
inline T round(T a) {
  return SINTER_LIBM(nearbyint, T, a);
}

// clang-format off
template <class T> constexpr bool isnan(T a) { return a != a; }
template <class T> constexpr bool isfinite(T a) { return a - a == T(0); }
template <class T> constexpr bool isinf(T a) { return a == a && !isfinite(a); }
// clang-format on

/// Philox4x32-10 (Salmon et al., SC'11) of counter words (lo, hi, 0, 0) under key words (lo, hi): words 0 and 1.
constexpr std::uint64_t philox(std::uint64_t key, std::uint64_t counter) {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t c[4] = {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p = std::uint64_t{0xD2511F53u} * c[0], q = std::uint64_t{0xCD9E8D57u} * c[2];
    c[0] = static_cast<std::uint32_t>(q >> 32) ^ c[1] ^ k0;
    c[1] = static_cast<std::uint32_t>(q);
    c[2] = static_cast<std::uint32_t>(p >> 32) ^ c[3] ^ k1;
    c[3] = static_cast<std::uint32_t>(p);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c[0] | static_cast<std::uint64_t>(c[1]) << 32;
}

#if defined(__clang__)
#define SINTER_AS_WRITTEN
#else
#define SINTER_AS_WRITTEN __attribute__((noinline, optimize("fp-contract=off")))
#endif
namespace detail {

/// The coefficients of gauss's series, last term first.
struct gauss_terms {
  double log[11] = {}, sine[11] = {};
  constexpr gauss_terms() {
    for (int k = 21, at = 0; k > 0; k -= 2) log[at++] = 1.0 / k;
    for (int k = 22, at = 0; k > 0; k -= 2) sine[at++] = 1.0 / (k * (k + 1));
  }
};
inline constexpr gauss_terms terms_of_gauss;

/// √(-2 ln u) for the u in (0, 1] of a word.
SINTER_AS_WRITTEN inline double gauss_root(std::uint64_t a) {
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
  // u is m · 2^-e with m between √½ and √2; ln m is 2 artanh s.
  double m = static_cast<double>((a >> 11) + 1) * 0x1p-53, e = 0;
  for (int k = 32; k > 0; k /= 2) {
    const auto scale = static_cast<double>(std::uint64_t{1} << k);
    if (m < 1 / scale) m *= scale, e += k;
  }
  if (m < 0.70710678118654752) m *= 2, e += 1;
  const double s = (m - 1) / (m + 1), q = s * s;
  double p = 1.0 / 23;
  for (const double term : terms_of_gauss.log) p = rounded(p * q) + term;
  return vocabulary::sqrt(2 * (rounded(e * 0.69314718055994531) - rounded(2 * s * p)));
}

/// cos(2π v) for the v in [0, 1) of a word, as x·c: it is sin x with x in [-π/2, π/2].
struct gauss_sine {
  double x, c;
};
SINTER_AS_WRITTEN constexpr gauss_sine sine_of_gauss(std::uint64_t b) {
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
  const double v = static_cast<double>(b >> 11) * 0x1p-53 - 0.5;
  const double x = 6.2831853071795865 * ((v < 0 ? -v : v) - 0.25), y = x * x;
  double c = 1;
  for (const double term : terms_of_gauss.sine) c = 1 - rounded(y * term * c);
  return {x, c};
}

}  // namespace detail

/// A normal number from two words, times 2^56: √(-2 ln u) · cos(2π v) with u in (0, 1] and v in [0, 1) (Box and Muller,
/// 1958). IEEE 754 rounds its operations exactly, and none is fused, so that every backend gives the same bits.
inline std::uint64_t gauss(std::uint64_t a, std::uint64_t b) {
  const detail::gauss_sine sine = detail::sine_of_gauss(b);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(detail::gauss_root(a) * sine.x * sine.c * 0x1p56));
}

namespace detail {

/// The words of an element of a key: word w of attempt a is the word of the counter element + (4a + w) 2^48.
struct element_words {
  std::uint64_t key, element;

  constexpr std::uint64_t operator()(std::int64_t attempt, std::uint64_t word) const {
    return philox(key, element + ((4 * static_cast<std::uint64_t>(attempt) + word) << 48));
  }
  /// A number in (0, 1].
  double unit(std::int64_t attempt, std::uint64_t word) const {
    return static_cast<double>(((*this)(attempt, word) >> 11) + 1) * 0x1p-53;
  }
  double normal(std::int64_t attempt, std::uint64_t word) const {
    return static_cast<double>(static_cast<std::int64_t>(gauss((*this)(attempt, word), (*this)(attempt, word + 1)))) *
           0x1p-56;
  }
};

/// -ln u, and ln x of positive normal numbers, by operations that IEEE 754 rounds exactly.
inline double minus_log_of_word(std::uint64_t word) {
  constexpr gauss_sine one = sine_of_gauss(0);
  const auto fixed = static_cast<std::int64_t>(gauss_root(word) * one.x * one.c * 0x1p56);
  const double s = static_cast<double>(fixed) * 0x1p-56;
  return s * s * 0.5;
}
inline double exact_log(double x) {
  constexpr std::int64_t fraction = (std::int64_t{1} << 52) - 1;
  const auto bits = std::bit_cast<std::int64_t>(x);
  const std::int64_t significand = ((bits & fraction) | (fraction + 1)) - 1;
  return rounded(static_cast<double>((bits >> 52) - 1022) * 0.69314718055994531) -
         minus_log_of_word(static_cast<std::uint64_t>(significand) << 11);
}

/// A count for a rate from 12 to 2^31, by transformed rejection (Hörmann, 1993) with 12 attempts.
inline double count_of_rate(const element_words& w, double rate) {
  const double root = vocabulary::sqrt(rate), b = rounded(root * 2.53) + 0.931, a = rounded(b * 0.02483) + -0.059,
               log_rate = exact_log(rate);
  const double scale = 1.1328 / (b - 3.4) + 1.1239, sure = 0.9277 - 3.6224 / (b - 2);
  for (std::int64_t j = 0; j < 12; ++j) {
    const double u = static_cast<double>(w(j, 0) >> 11) * 0x1p-53 + -0.5, v = w.unit(j, 1),
                 near = maximum(0.5 - (u < 0 ? -u : u), 0x1p-54);
    const double k = SINTER_LIBM(floor, double, rounded((a * 2 / near + b) * u) + rate + 0.43);
    if (!(k >= 0 && k < rate * 256) || (near < 0.013 && v > near)) continue;
    if (near >= 0.07 && v <= sure) return k;
    const double square = near * near, chance = v * scale * square / (rounded(square * b) + a);
    const double n = k + 1, log_n = exact_log(n / rate), inverse = 1 / n, inverse2 = inverse * inverse;
    const double inner = 1.0 / 360 - rounded(inverse2 * (1.0 / 1260));
    const double stirling = inverse * (1.0 / 12 - rounded(inverse2 * inner));
    const double logs = rounded((n - 1) * log_n) + rounded((log_n + log_rate) * 0.5);
    if (exact_log(maximum(chance, 0x1p-200)) <= n - rate - logs - 0.91893853320467274 - rounded(stirling)) return k;
  }
  return SINTER_LIBM(floor, double, rate);
}

}  // namespace detail

/// Rejection of Marsaglia and Tsang (2000): d (1 + x / √(9 d))³ with normal x is a gamma number of shape d + 1/3 once it is
/// accepted. For a shape below 1, the shape is increased by 1. Returns the bits of 1 + x / √(9 d) for the first accepted of 8
/// attempts, or for the last. `shape` is the bits of a double. An invalid shape gives some number.
inline std::uint64_t gamma_root(std::uint64_t key, std::uint64_t element, std::uint64_t shape) {
  const detail::element_words w{key, element};
  const double a = maximum(std::bit_cast<double>(shape), 1e-300), d = (a < 1 ? a + 1 : a) - 1.0 / 3,
               root = vocabulary::sqrt(d * 9), steep = minimum(d, 0x1p20);
  double safe = 0;
  for (std::int64_t j = 0; j < 8; ++j) {
    const double x = w.normal(j, 0), s = x / root + 1, square = x * x;
    safe = maximum(s, 0x1p-40);
    if (!(s > 0x1p-40)) continue;
    const std::uint64_t word = w(j, 2);
    // Their bound, minus more than all rounding errors; the comparison below accepts the rest.
    const double u = static_cast<double>((word >> 11) + 1) * 0x1p-53;
    if (u < 1 - rounded(square * square * 0.0331) - 0x1p-16) break;
    const double grown = rounded(safe * safe * safe) - 1 - rounded(detail::exact_log(safe) * 3),
                 chance = detail::minus_log_of_word(word) + rounded(square * 0.5);
    if (chance > steep * grown) break;
  }
  return std::bit_cast<std::uint64_t>(safe == safe ? safe : std::numeric_limits<double>::quiet_NaN());
}

/// A Poisson number as the bits of an f64; `of` is the bits of the rate. A rate below 12 keeps each of a count of rate 12
/// with the probability rate / 12. A rate above 2^31 uses a normal number. NaN for a negative rate and for NaN.
inline std::uint64_t poisson_count(std::uint64_t key, std::uint64_t element, std::uint64_t of) {
  const detail::element_words w{key, element};
  const double rate = std::bit_cast<double>(of);
  double count = std::numeric_limits<double>::quiet_NaN();
  if (!(rate >= 0 && rate < std::numeric_limits<double>::infinity())) return std::bit_cast<std::uint64_t>(count);
  if (rate > 0x1p31) {
    count = SINTER_LIBM(floor, double, rate + rounded(w.normal(0, 2) * vocabulary::sqrt(rate)) + 0.5);
  } else {
    count = detail::count_of_rate(w, maximum(rate, 12.0));
    if (rate < 12) {
      // For rate 12, a greater count has the probability 1e-14.
      const double trials = minimum(count, 48.0), chance = rate * (1 / 12.0);
      count = 0;
      for (std::int64_t i = 0; static_cast<double>(i) < trials; ++i)
        count += static_cast<double>(w(i, 64) >> 11) * 0x1p-53 < chance;
    }
  }
  return std::bit_cast<std::uint64_t>(count);
}
#undef SINTER_AS_WRITTEN

namespace detail {

/// The value column of one row.
template <ir::op O>
struct row_value;

#define SINTER_POINTWISE(name, arity, rule, value, da, db, dc)                                   \
  template <>                                                                                    \
  struct row_value<ir::op::name> {                                                               \
    template <class R, class A, class B, class C>                                                \
    static constexpr R apply([[maybe_unused]] A a, [[maybe_unused]] B b, [[maybe_unused]] C c) { \
      return static_cast<R>(value);                                                              \
    }                                                                                            \
  };
#include "ops.def"

/// The rows whose text is an operator that overflows for signed integers.
constexpr bool overflows(ir::op o) { return o == ir::op::add || o == ir::op::sub || o == ir::op::mul; }

}  // namespace detail

/// Row O of ops.def on scalars. R is the result's type; operands beyond the arity are ignored. Takes float, double, integers
/// and bool; the caller converts halves to float.
template <ir::op O, class R, class A, class B = A, class C = A>
constexpr R apply_row(A a, B b = {}, C c = {}) {
  if constexpr (detail::overflows(O) && is_whole<A>)
    return detail::row_value<O>::template apply<R>(static_cast<wrapping<A>>(a), static_cast<wrapping<B>>(b), c);
  else if constexpr (O == ir::op::mul && std::is_floating_point_v<R>)
    return rounded(detail::row_value<O>::template apply<R>(a, b, c));
  else return detail::row_value<O>::template apply<R>(a, b, c);
}

}  // namespace sinter::vocabulary
