// complex/functions.hpp: arithmetic and functions of complex numbers, computed by their parts.
#pragma once

#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tensor.hpp"

namespace sinter {

namespace detail {

template <class A, class B>
concept some_complex = complex_operand<A> && complex_operand<B> &&(complex_tensor<A> || complex_tensor<B>);

/// The complex tensor of f(real part) and f(imaginary part).
template <complex_tensor X, class F>
auto each_part(const X& z, F&& f, location at) {
  return joined_parts(f(z.real()), f(z.imag()), at);
}
template <complex_tensor X, class F>
auto each_part(const X& a, const X& b, F&& f, location at) {
  return joined_parts(f(a.real(), b.real()), f(a.imag(), b.imag()), at);
}

}  // namespace detail

/// re + i·im of floating tensors, which broadcast; without im, re + 0i.
template <tensor_like Re, tensor_like Im>
requires(!complex_tensor<Re>) auto complex(const Re& re, const Im& im, location at = location::current()) {
  constexpr bool same = detail::same_parts<Re, Im>();
  if constexpr (same) return detail::joined_parts(re, im, at.in("complex"));
}
template <tensor_like Re>
auto complex(const Re& re, location at = location::current()) {
  const auto x = detail::stage(re, at);
  return detail::joined_parts(x, mul(zeros_like(x), 1, at), at.in("complex"));
}
/// A complex tensor of another precision, or from a real tensor: cast<complex64>(x).
template <class R, complex_tensor X>
requires detail::is_std_complex<R>
auto cast(const X& z, location at = location::current()) {
  using T = typename R::value_type;
  return detail::each_part(
      z, [&](const auto& x) { return cast<T>(x, at); }, at);
}
template <class R, complex_tensor X>
requires(!detail::is_std_complex<R>) auto cast(const X& z) {
  static_assert(!sizeof(R), "sinter: [cast] a complex number is no real one; cast real(z), imag(z) or abs(z)");
  return z;
}
template <class R, tensor_like X>
requires detail::is_std_complex<R>
auto cast(const X& x, location at = location::current()) { return complex(cast<typename R::value_type>(x, at), at); }

/// r·(cos t + i·sin t).
template <tensor_like R, tensor_like Angle>
auto polar(const R& r, const Angle& t, location at = location::current()) {
  return detail::joined_parts(mul(r, cos(t, at), at), mul(r, sin(t, at), at), at.in("polar"));
}

/// The real parts, a real tensor.
template <complex_tensor X>
auto real(const X& z) {
  return z.real();
}
/// The imaginary parts, a real tensor.
template <complex_tensor X>
auto imag(const X& z) {
  return z.imag();
}
/// re - i·im. Any shape; complex64 or complex128.
template <complex_tensor X>
auto conj(const X& z, location at = location::current()) {
  return detail::joined_parts(z.real(), neg(z.imag(), at), at);
}

/// The magnitude; intermediates do not overflow. Its gradient is z / |z|, and 0 at 0.
template <complex_tensor X>
auto abs(const X& z, location at = location::current()) {
  const auto nothing = bit_and(eq(z.real(), 0, at), eq(z.imag(), 0, at), at);
  return detail::stage(where(nothing, 0, hypot(where(nothing, 1, z.real(), at), z.imag(), at), at), at);
}
/// The angle from -π to π. Its gradient at 0 is 0.
template <complex_tensor X>
auto angle(const X& z, location at = location::current()) {
  const auto nothing = bit_and(eq(z.real(), 0, at), eq(z.imag(), 0, at), at);
  return detail::stage(where(nothing, stop_gradient(atan2(z.imag(), z.real(), at), at),
                             atan2(z.imag(), where(nothing, 1, z.real(), at), at), at),
                       at);
}

/// a + b. Operands are complex or real, and broadcast. A product is (ac - bd) + i·(ad + bc) for infinities, too; C and C++
/// recover some infinities there.
template <class A, class B>
requires detail::some_complex<A, B>
auto add(const A& a, const B& b, location at = location::current()) {
  if constexpr (!detail::same_parts<A, B>()) return a;
  else {
    const auto re = add(detail::real_of(a, at), detail::real_of(b, at), at);
    if constexpr (!detail::has_imaginary<B>) return detail::joined_parts(re, a.imag(), at);
    else if constexpr (!detail::has_imaginary<A>) return detail::joined_parts(re, b.imag(), at);
    else return detail::joined_parts(re, add(a.imag(), b.imag(), at), at);
  }
}
/// a - b of complex or real tensors, which broadcast; see add.
template <class A, class B>
requires detail::some_complex<A, B>
auto sub(const A& a, const B& b, location at = location::current()) {
  if constexpr (!detail::same_parts<A, B>()) return a;
  else {
    const auto re = sub(detail::real_of(a, at), detail::real_of(b, at), at);
    if constexpr (!detail::has_imaginary<B>) return detail::joined_parts(re, a.imag(), at);
    else if constexpr (!detail::has_imaginary<A>) return detail::joined_parts(re, neg(b.imag(), at), at);
    else return detail::joined_parts(re, sub(a.imag(), b.imag(), at), at);
  }
}
/// a · b; see add.
template <class A, class B>
requires detail::some_complex<A, B>
auto mul(const A& a, const B& b, location at = location::current()) {
  if constexpr (!detail::same_parts<A, B>()) return a;
  else if constexpr (!detail::has_imaginary<A>) {
    return mul(b, a, at);
  } else if constexpr (!detail::has_imaginary<B>) {
    const auto by = detail::real_of(b, at);
    return detail::joined_parts(mul(a.real(), by, at), mul(a.imag(), by, at), at);
  } else {
    const auto ar = a.real(), ai = a.imag();
    const auto br = b.real(), bi = b.imag();
    return detail::joined_parts(sub(mul(ar, br, at), mul(ai, bi, at), at), add(mul(ar, bi, at), mul(ai, br, at), at),
                                at);
  }
}
namespace detail {

/// The format of a floating dtype.
template <class T>
struct float_format {
  static constexpr bool narrow = sizeof(T) == 4;
  using word = std::conditional_t<narrow, std::uint32_t, std::uint64_t>;
  using signed_word = std::make_signed_t<word>;
  static constexpr word fraction = std::numeric_limits<T>::digits - 1, all_ones = narrow ? 255 : 2047,
                        upper_half = ~word{0} << (narrow ? 12 : 27);
};

/// Whether the sign bit is set, bool.
template <class X>
auto sign_bit(const X& x, location at) {
  return lt(bit_cast<typename float_format<typename X::value_type>::signed_word>(x, at), 0, at);
}
/// x with the upper half of its digits. Products of such numbers are exact. No derivative.
template <class X>
auto upper_digits(const X& x, location at) {
  using T = typename X::value_type;
  using format = float_format<T>;
  return bit_cast<T>(bit_and(bit_cast<typename format::word>(x, at), format::upper_half, at), at);
}
/// The power of two that brings sizes to [2, 4), for subnormal sizes as near as possible; 0 for sizes that are not finite. No
/// derivative.
template <class X>
auto power_to_two(const X& size, location at) {
  using T = typename X::value_type;
  using format = float_format<T>;
  const auto exponent = shr(bit_cast<typename format::word>(size, at), format::fraction, at);
  const auto power = minimum(sub(format::all_ones, exponent, at), format::all_ones - 1, at);
  return bit_cast<T>(shl(power, format::fraction, at), at);
}

/// The larger magnitude of an operand's parts.
template <class X>
auto larger_part(const X& z, location at) {
  if constexpr (complex_tensor<X>) return stage(maximum(abs(z.real(), at), abs(z.imag(), at), at), at);
  else return stage(abs(z, at), at);
}
/// A number as a tensor beside another operand; a complex number as parts.
template <class T, class X, class Other>
auto beside(const X& x, const Other& other, location at) {
  const auto put = [&](auto v) {
    return filled<T, dims{}>("div", static_cast<T>(v), {}, same_device(other.real(), at), at);
  };
  if constexpr (is_std_complex<X>) return tensor<std::complex<T>, dims{}>(put(x.real()), put(x.imag()));
  else if constexpr (complex_tensor<X>) return x;
  else if constexpr (tensor_like<X>) return stage(x, at);
  else return put(x);
}

/// a / b of tensors. A power of two s brings b to about 1: (a·s) / (b·s), or s · (a / (b·s)) if a·s might overflow. Numerator
/// and denominator are divided, so that z / z is 1.
template <class A, complex_tensor B>
auto quotient(const A& a, const B& b, location at) {
  using T = typename B::real_type;
  const auto size = larger_part(b, at);
  const auto size_above = larger_part(a, at);
  const auto to_one = stage(power_to_two(size, at), at);
  const auto c = stage(mul(b.real(), to_one, at), at), d = stage(mul(b.imag(), to_one, at), at);
  const auto late = stage(bit_and(lt(size, 4, at), ge(size_above, formula_number{0x1p-60}, at), at), at);
  const auto eighth = stage(bit_and(late, ge(size_above, formula_number{0x1p100}, at), at), at);
  const auto share = stage(where(eighth, T(0.125), ones_like(to_one), at), at);
  const auto first = stage(where(late, share, to_one, at), at), last = stage(where(late, to_one, T(1), at), at);
  const auto below = stage(mul(add(mul(c, c, at), mul(d, d, at), at), share, at), at);
  const auto x = stage(mul(real_of(a, at), first, at), at);
  const auto scaled = [&](const auto& above) { return mul(div(above, below, at), last, at); };
  if constexpr (complex_tensor<A>) {
    const auto y = stage(mul(a.imag(), first, at), at);
    return joined_parts(scaled(add(mul(x, c, at), mul(y, d, at), at)), scaled(sub(mul(y, c, at), mul(x, d, at), at)),
                        at);
  } else {
    return joined_parts(scaled(mul(x, c, at)), neg(scaled(mul(x, d, at)), at), at);
  }
}

}  // namespace detail

/// a / b; see add. Intermediates of finite numbers neither over- nor underflow. NaN if b is 0 or has an infinite part.
template <class A, class B>
requires detail::some_complex<A, B>
auto div(const A& a, const B& b, location at = location::current()) {
  if constexpr (!detail::same_parts<A, B>()) return a;
  else if constexpr (complex_tensor<B>) {
    return detail::quotient(detail::beside<typename B::real_type>(a, b, at), b, at);
  } else if constexpr (detail::is_std_complex<B>) {
    return detail::quotient(a, detail::beside<typename A::real_type>(b, a, at), at);
  } else {
    const auto by = detail::real_of(b, at);
    return detail::joined_parts(div(a.real(), by, at), div(a.imag(), by, at), at);
  }
}
/// 1 / z; see div.
template <complex_tensor X>
auto reciprocal(const X& z, location at = location::current()) {
  return div(1, z, at);
}

/// Whether both parts are equal, bool. Operands broadcast.
template <class A, class B>
requires detail::some_complex<A, B>
auto eq(const A& a, const B& b, location at = location::current()) {
  return detail::stage(bit_and(eq(detail::real_of(a, at), detail::real_of(b, at), at),
                               eq(detail::imaginary_of(a), detail::imaginary_of(b), at), at),
                       at);
}
/// Whether a part differs, bool.
template <class A, class B>
requires detail::some_complex<A, B>
auto ne(const A& a, const B& b, location at = location::current()) {
  return detail::stage(bit_not(eq(a, b, at), at), at);
}
template <complex_tensor A, detail::complex_operand B>
auto operator==(const A& a, const B& b) {
  return eq(a, b, location{});
}
template <complex_tensor A, detail::complex_operand B>
auto operator!=(const A& a, const B& b) {
  return ne(a, b, location{});
}

/// z·z.
template <complex_tensor X>
auto square(const X& z, location at = location::current()) {
  return mul(z, z, at);
}
namespace detail {

/// The range in which e^x overflows. Beyond `first` a factor e^step is taken out, beyond `second` two, until a product with a
/// small number.
template <class T>
struct growth {
  static constexpr bool narrow = sizeof(T) == 4;
  static constexpr formula_number step{narrow ? 64.0 : 512.0}, first{narrow ? 88.0 : 700.0},
      second{narrow ? 152.0 : 1212.0}, less_first{narrow ? -88.0 : -700.0}, less_second{narrow ? -152.0 : -1212.0},
      factor{narrow ? 6.235149080811617e27 : 2.2844135865397566e222};
};

/// The number of factors that are taken out of e^x, as T.
template <class X>
auto factors_taken(const X& x, location at) {
  using T = typename X::value_type;
  return add(cast<T>(gt(x, growth<T>::first, at), at), cast<T>(gt(x, growth<T>::second, at), at), at);
}
/// c times the factors that were taken out of e^size.
template <class C, class X>
auto grown(const C& c, const X& size, location at) {
  using by = growth<typename X::value_type>;
  const auto once = stage(where(gt(size, by::first, at), mul(c, by::factor, at), c, at), at);
  return stage(where(gt(size, by::second, at), mul(once, by::factor, at), once, at), at);
}

/// p, or `otherwise` where a product with 0 made it NaN; C99's Annex G has zeros there.
template <class P, class Zero, class X>
auto zero_kept(const P& product, const Zero& is_zero, const X& otherwise, location at) {
  const auto p = stage(product, at);
  return stage(where(bit_and(is_zero, isnan(p, at), at), otherwise, p, at), at);
}
/// Whether x is infinite, and y has no sine.
template <class X>
auto lost_angle(const X& x, const X& y, location at) {
  return stage(bit_and(isinf(x, at), bit_not(isfinite(y, at), at), at), at);
}

/// sinh x, cosh x, sin y and cos y. The latter two have the factors that were taken out of the former two.
template <class X>
struct hyperbolic_parts {
  using part = decltype(stage(std::declval<const X&>(), location{}));
  part sinh, cosh, sin, cos;

  hyperbolic_parts(const X& x, const X& y, location at) {
    using by = growth<typename X::value_type>;
    const auto size = stage(abs(x, at), at);
    const auto less = add(cast<typename X::value_type>(lt(x, by::less_first, at), at),
                          cast<typename X::value_type>(lt(x, by::less_second, at), at), at);
    const auto near = stage(sub(x, mul(sub(factors_taken(x, at), less, at), by::step, at), at), at);
    sinh = stage(sinter::sinh(near, at), at), cosh = stage(sinter::cosh(near, at), at);
    sin = grown(stage(sinter::sin(y, at), at), size, at), cos = grown(stage(sinter::cos(y, at), at), size, at);
  }
};

/// sinh(x + iy), in parts.
template <class X>
auto sinh_of(const X& x, const X& y, location at) {
  const hyperbolic_parts<X> h(x, y, at);
  const auto kept = bit_and(bit_not(isfinite(y, at), at), bit_or(eq(x, 0, at), isinf(x, at), at), at);
  return joined_parts(where(kept, x, mul(h.sinh, h.cos, at), at),
                      zero_kept(mul(h.cosh, h.sin, at), eq(y, 0, at), y, at), at);
}
/// cosh(x + iy), in parts.
template <class X>
auto cosh_of(const X& x, const X& y, location at) {
  const hyperbolic_parts<X> h(x, y, at);
  const auto no_x = eq(x, 0, at);
  const auto zero = stage(where(no_x, x, where(lt(x, 0, at), neg(y, at), y, at), at), at);
  return joined_parts(where(lost_angle(x, y, at), abs(x, at), mul(h.cosh, h.cos, at), at),
                      zero_kept(mul(h.sinh, h.sin, at), bit_or(no_x, eq(y, 0, at), at), zero, at), at);
}

/// a + b, and its rounding error.
template <class X>
struct exact_sum {
  X sum, rest;
};
template <class X>
exact_sum<X> sum_exactly(const X& a, const X& b, location at) {
  const X sum = add(a, b, at), of_b = sub(sum, a, at);
  return {sum, add(sub(a, sub(sum, of_b, at), at), sub(b, of_b, at), at)};
}

/// m² + n² - 1 for m in (0.5, 2) and |n| <= m, accurate even near 0, by halves of the digits.
template <class X>
X squares_less_one(const X& m, const X& n, location at) {
  const X mu = upper_digits(m, at), nu = upper_digits(n, at), ml = sub(m, mu, at), nl = sub(n, nu, at);
  const auto high = sum_exactly<X>(sub(mul(mu, mu, at), 1, at), mul(nu, nu, at), at);
  const auto middle = sum_exactly<X>(mul(mul(mu, ml, at), 2, at), mul(mul(nu, nl, at), 2, at), at);
  const auto both = sum_exactly<X>(high.sum, middle.sum, at);
  const X low = add(mul(ml, ml, at), mul(nl, nl, at), at);
  return add(both.sum, add(add(high.rest, middle.rest, at), add(both.rest, low, at), at), at);
}

/// log |x + iy| = log m + log1p((n / m)²) / 2 with the larger part m and the smaller part n; near 1 by m² + n² - 1.
template <class X>
auto log_abs(const X& x, const X& y, location at) {
  const auto wide = stage(ge(abs(x, at), abs(y, at), at), at);
  const auto m = stage(abs(where(wide, x, y, at), at), at), n = stage(where(wide, y, x, at), at);
  const auto near = stage(bit_and(gt(m, 0.5, at), lt(m, 2, at), at), at);
  const auto ratio = stage(div(n, where(bit_and(gt(m, 0, at), isfinite(m, at), at), m, 1, at), at), at);
  const auto excess = stage(where(near, squares_less_one(m, n, at), mul(ratio, ratio, at), at), at);
  const auto sum = stage(add(log(where(near, 1, m, at), at), mul(log1p(excess, at), 0.5, at), at), at);
  const auto infinite = bit_or(isinf(x, at), isinf(y, at), at);
  return where(infinite, formula_number{std::numeric_limits<double>::infinity()}, sum, at);
}

}  // namespace detail

/// e^re · (cos im + i·sin im). Special values, here and in the functions below, are those of C99's Annex G.
template <complex_tensor X>
auto exp(const X& z, location at = location::current()) {
  using T = typename X::real_type;
  const auto x = z.real(), y = z.imag();
  const auto e = detail::stage(exp(sub(x, mul(detail::factors_taken(x, at), detail::growth<T>::step, at), at), at), at);
  const auto c = detail::stage(cos(y, at), at), s = detail::stage(sin(y, at), at);
  const auto lost = detail::lost_angle(x, y, at);
  const auto im = detail::zero_kept(mul(detail::grown(s, x, at), e, at), eq(y, 0, at), y, at);
  return detail::joined_parts(where(lost, e, mul(detail::grown(c, x, at), e, at), at),
                              where(lost, sub(e, e, at), im, at), at);
}
/// log |z| + i·angle(z).
template <complex_tensor X>
auto log(const X& z, location at = location::current()) {
  return detail::joined_parts(detail::log_abs(z.real(), z.imag(), at), atan2(z.imag(), z.real(), at), at);
}
/// The root with a real part that is not negative. On the cut below 0, the sign of the imaginary part selects the side. Its
/// gradient at 0 is 0.
template <complex_tensor X>
auto sqrt(const X& z, location at = location::current()) {
  constexpr bool narrow = sizeof(typename X::real_type) == 4;
  const auto re = z.real(), im = z.imag();
  const auto nothing = detail::stage(bit_and(eq(re, 0, at), eq(im, 0, at), at), at);
  // Scaled by a power of four that keeps sums and halves in range.
  const auto size = detail::larger_part(z, at);
  const auto large_size = detail::stage(ge(size, detail::formula_number{narrow ? 0x1p126 : 0x1p1022}, at), at);
  const auto small_size = detail::stage(lt(size, detail::formula_number{narrow ? 0x1p-100 : 0x1p-960}, at), at);
  const auto scaled = [&](const auto& v, double down, double up) {
    return detail::stage(where(large_size, mul(v, detail::formula_number{down}, at),
                               where(small_size, mul(v, detail::formula_number{up}, at), v, at), at),
                         at);
  };
  const auto x = scaled(detail::stage(where(nothing, 1, re, at), at), 0.25, narrow ? 0x1p60 : 0x1p120);
  const auto y = scaled(im, 0.25, narrow ? 0x1p60 : 0x1p120);
  const auto right = detail::stage(ge(x, 0, at), at);
  const auto to_right = detail::stage(where(right, x, neg(x, at), at), at);
  // The larger part of the root; the other part is im / 2 divided by it.
  const auto root = detail::stage(sqrt(add(mul(hypot(x, y, at), 0.5, at), mul(to_right, 0.5, at), at), at), at);
  const auto small = scaled(detail::stage(div(y, add(root, root, at), at), at), 2, narrow ? 0x1p-30 : 0x1p-60);
  const auto large = scaled(root, 2, narrow ? 0x1p-30 : 0x1p-60);
  const auto below = detail::stage(detail::sign_bit(im, at), at);
  const auto turned = [&](const auto& v) { return where(below, neg(v, at), v, at); };
  const auto infinite = detail::stage(isinf(im, at), at);
  const auto none = stop_gradient(im, at);
  return detail::joined_parts(
      where(nothing, 0, where(infinite, abs(none, at), where(right, large, turned(small), at), at), at),
      where(bit_or(nothing, infinite, at), none, where(right, small, turned(large), at), at), at);
}
/// sin re · cosh im + i·cos re · sinh im.
template <complex_tensor X>
auto sin(const X& z, location at = location::current()) {
  const auto turned = detail::sinh_of(detail::stage(neg(z.imag(), at), at), z.real(), at);
  return detail::joined_parts(turned.imag(), neg(turned.real(), at), at);
}
/// cos re · cosh im - i·sin re · sinh im.
template <complex_tensor X>
auto cos(const X& z, location at = location::current()) {
  return detail::cosh_of(detail::stage(neg(z.imag(), at), at), z.real(), at);
}
/// sinh re · cos im + i·cosh re · sin im.
template <complex_tensor X>
auto sinh(const X& z, location at = location::current()) {
  return detail::sinh_of(z.real(), z.imag(), at);
}
/// cosh re · cos im + i·sinh re · sin im.
template <complex_tensor X>
auto cosh(const X& z, location at = location::current()) {
  return detail::cosh_of(z.real(), z.imag(), at);
}
/// sinh z / cosh z; intermediates do not overflow.
template <complex_tensor X>
auto tanh(const X& z, location at = location::current()) {
  const auto x = z.real(), y = z.imag();
  const auto t = detail::stage(tanh(x, at), at), s = detail::stage(sin(y, at), at), c = detail::stage(cos(y, at), at);
  // 1 / cosh re, by an exponential that does not overflow.
  const auto e = detail::stage(exp(where(lt(x, 0, at), x, neg(x, at), at), at), at);
  const auto h = detail::stage(div(add(e, e, at), add(mul(e, e, at), 1, at), at), at);
  const auto ch = detail::stage(mul(c, h, at), at);
  const auto below = detail::stage(add(mul(t, t, at), mul(ch, ch, at), at), at);
  const auto lost = detail::lost_angle(x, y, at);
  const auto im = detail::zero_kept(div(mul(mul(s, h, at), ch, at), below, at), eq(y, 0, at), y, at);
  return detail::joined_parts(where(lost, t, div(t, below, at), at), where(lost, 0, im, at), at);
}
/// sin z / cos z; intermediates do not overflow.
template <complex_tensor X>
auto tan(const X& z, location at = location::current()) {
  const auto turned = tanh(detail::joined_parts(neg(z.imag(), at), z.real(), at), at);
  return detail::joined_parts(turned.imag(), neg(turned.real(), at), at);
}

namespace detail {

/// An operand in f64, because a power's error is its logarithm's error times the exponent.
template <complex_operand X>
auto widened(const X& x, location at) {
  if constexpr (complex_tensor<X>) {
    return cast<complex128>(x, at);
  } else if constexpr (is_std_complex<X>) {
    return complex128(x);
  } else if constexpr (tensor_like<X>) {
    return stage(cast<double>(x, at), at);
  } else {
    return static_cast<double>(x);
  }
}
template <class A, class B>
auto power_of(const A& a, const B& b, location at) {
  if constexpr (complex_tensor<A>) return exp(mul(log(a, at), b, at), at);
  else if constexpr (is_std_complex<A>) return exp(mul(b, std::log(a), at), at);
  else if constexpr (tensor_like<A>) return exp(mul(b, log(complex(a, at), at), at), at);
  else return exp(mul(b, std::log(complex128(a)), at), at);
}

}  // namespace detail

/// exp(b · log a); complex64 is computed in f64. For a = 0 it is 0 if b is real and positive, and otherwise may be NaN. The
/// error is about |b · log a| units in the last place.
template <class A, class B>
requires detail::some_complex<A, B>
auto pow(const A& a, const B& b, location at = location::current()) {
  if constexpr (!detail::same_parts<A, B>()) {
    return a;
  } else {
    const auto power = detail::power_of(detail::widened(a, at), detail::widened(b, at), at);
    if constexpr (complex_tensor<A>) return cast<typename A::value_type>(power, at);
    else return cast<typename B::value_type>(power, at);
  }
}
/// z without a derivative in either part.
template <complex_tensor X>
auto stop_gradient(const X& z, location at = location::current()) {
  return detail::each_part(
      z, [&](const auto& x) { return stop_gradient(x, at); }, at);
}
/// Whether either part is NaN, bool.
template <complex_tensor X>
auto isnan(const X& z, location at = location::current()) {
  return detail::stage(bit_or(isnan(z.real(), at), isnan(z.imag(), at), at), at);
}
/// Whether both parts are finite, bool.
template <complex_tensor X>
auto isfinite(const X& z, location at = location::current()) {
  return detail::stage(bit_and(isfinite(z.real(), at), isfinite(z.imag(), at), at), at);
}

/// |x - y| <= atol + rtol · |y|, by magnitudes, element by element.
template <complex_tensor X, complex_tensor Y>
auto isclose(const X& x, const Y& y, double rtol = 1e-5, double atol = 1e-8, location at = location::current()) {
  return detail::stage(le(abs(sub(x, y, at), at), add(mul(abs(y, at), rtol, at), atol, at), at), at);
}
/// Whether isclose holds for all elements: bool of rank 0.
template <complex_tensor X, complex_tensor Y>
auto allclose(const X& x, const Y& y, double rtol = 1e-5, double atol = 1e-8, location at = location::current()) {
  return all(isclose(x, y, rtol, atol, at), axis<>, at);
}

/// x where the condition holds, else y.
template <tensor_like Condition, class X, class Y>
requires detail::some_complex<X, Y>
auto where(const Condition& condition, const X& x, const Y& y, location at = location::current()) {
  if constexpr (!detail::same_parts<X, Y>()) return x;
  else
    return detail::joined_parts(where(condition, detail::real_of(x, at), detail::real_of(y, at), at),
                                where(condition, detail::imaginary_of(x), detail::imaginary_of(y), at), at);
}

/// Products, as matmul of real matrices; one operand may be real.
template <class A, class B>
requires((complex_tensor<A> && (complex_tensor<B> || tensor_like<B>)) ||
         (tensor_like<A> && complex_tensor<B>)) auto matmul(const A& a, const B& b, location at = location::current()) {
  if constexpr (!detail::same_parts<A, B>()) return a;
  else if constexpr (!complex_tensor<A>)
    return detail::joined_parts(matmul(a, b.real(), at), matmul(a, b.imag(), at), at);
  else if constexpr (!complex_tensor<B>)
    return detail::joined_parts(matmul(a.real(), b, at), matmul(a.imag(), b, at), at);
  else
    return detail::joined_parts(sub(matmul(a.real(), b.real(), at), matmul(a.imag(), b.imag(), at), at),
                                add(matmul(a.real(), b.imag(), at), matmul(a.imag(), b.real(), at), at), at);
}

#define SINTER_COMPLEX_REDUCTION(NAME)                                                      \
  template <complex_tensor X, int... A>                                                     \
  auto NAME(const X& z, axis_t<A...> over = {}, location at = location::current()) {        \
    return detail::each_part(                                                               \
        z, [&](const auto& x) { return NAME(x, over, at); }, at);                           \
  }                                                                                         \
  template <complex_tensor X, int... A>                                                     \
  auto NAME(const X& z, axis_t<A...> over, keepdims_t, location at = location::current()) { \
    return detail::each_part(                                                               \
        z, [&](const auto& x) { return NAME(x, over, keepdims, at); }, at);                 \
  }                                                                                         \
  template <complex_tensor X>                                                               \
  auto NAME(const X& z, keepdims_t, location at = location::current()) {                    \
    return detail::each_part(                                                               \
        z, [&](const auto& x) { return NAME(x, keepdims, at); }, at);                       \
  }
/// The sum and the mean over axes, by default all.
SINTER_COMPLEX_REDUCTION(sum)
SINTER_COMPLEX_REDUCTION(mean)
#undef SINTER_COMPLEX_REDUCTION

namespace detail {
/// The product along axis 0 of extent n, by halves.
template <class T, dims Shape>
auto halved_product(tensor<std::complex<T>, Shape> z, location at) {
  using whole = tensor<std::complex<T>, dims(Shape.rank)>;
  whole x = z;
  const auto part = [&](std::int64_t first, std::int64_t last) {
    return whole(each_part(
        x, [&](const auto& p) { return slice<0>(p, first, last, 1, at); }, at));
  };
  for (std::int64_t n = x.size(0); n > 1; n = (n + 1) / 2) {
    const whole pairs = mul(part(0, n / 2), part(n / 2, n / 2 * 2), at), odd = part(n / 2 * 2, n);
    x = n % 2 == 0 ? pairs
                   : whole(each_part(
                         pairs, odd, [&](const auto& a, const auto& b) { return concat<0>(a, b); }, at));
  }
  return x;
}
}  // namespace detail

/// The product over one axis, or over all elements; 1 for no elements. A trace holds for this extent only.
template <complex_tensor X, int A>
auto prod(const X& z, axis_t<A>, location at = location::current()) {
  constexpr int place = detail::checked_axes<detail::named::prod, X::rank, A>()[0];
  const auto first = [&](const auto& x) { return moveaxis(x, axis<place>, axis<0>, at); };
  const auto x = detail::halved_product(detail::each_part(z, first, at), at);
  const auto y = detail::each_part(
      x, [&](const auto& p) { return sum(p, axis<0>, at); }, at);
  if (x.size(0) == 0) return detail::joined_parts(add(y.real(), 1, at), y.imag(), at);
  return y;
}
template <complex_tensor X>
auto prod(const X& z, location at = location::current()) {
  return prod(detail::each_part(
                  z, [&](const auto& x) { return flatten(x, at); }, at),
              axis<0>, at);
}

// Functions that refuse complex tensors.
#define SINTER_COMPLEX_REFUSED(NAME)                                                                            \
  template <complex_tensor X, class... More>                                                                    \
  X NAME(const X& z, const More&...) {                                                                          \
    static_assert(!sizeof(X),                                                                                   \
                  "sinter: [" #NAME "] complex numbers have no order; write " #NAME "(abs(z)), or of real(z)"); \
    return z;                                                                                                   \
  }
SINTER_COMPLEX_REFUSED(max)
SINTER_COMPLEX_REFUSED(min)
SINTER_COMPLEX_REFUSED(maximum)
SINTER_COMPLEX_REFUSED(minimum)
SINTER_COMPLEX_REFUSED(clamp)
SINTER_COMPLEX_REFUSED(argmax)
SINTER_COMPLEX_REFUSED(argmin)
SINTER_COMPLEX_REFUSED(sort)
SINTER_COMPLEX_REFUSED(argsort)
#undef SINTER_COMPLEX_REFUSED

}  // namespace sinter
