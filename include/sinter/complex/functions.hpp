// complex/functions.hpp: arithmetic and functions of complex numbers, in terms of their parts.
#pragma once

#include <complex>
#include <type_traits>

#include "tensor.hpp"

namespace sinter {

namespace detail {

template <class A, class B>
concept some_complex = complex_operand<A> && complex_operand<B> &&(complex_tensor<A> || complex_tensor<B>);

/// f of both parts: a complex tensor.
template <complex_tensor X, class F>
auto each_part(const X& z, F&& f, location at) {
  return joined_parts(f(z.real()), f(z.imag()), at);
}
template <complex_tensor X, class F>
auto each_part(const X& a, const X& b, F&& f, location at) {
  return joined_parts(f(a.real(), b.real()), f(a.imag(), b.imag()), at);
}

}  // namespace detail

/// re + i·im of floating tensors, which broadcast; re + 0i.
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
/// A complex tensor of another precision, or of a real tensor: cast<complex64>(x).
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

/// The magnitude, without overflow on the way. Its gradient is z / |z|, 0 at 0.
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

/// Sums, differences, products and quotients; what is real counts as its own. A product is (ac - bd) + i·(ad + bc), of infinities
/// too, where C and C++ recover some.
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
/// a - b of complex or real tensors, broadcast; see add.
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
/// 1 / z, without overflow on the way; NaN at 0.
template <complex_tensor X>
auto reciprocal(const X& z, location at = location::current()) {
  // By parts of about 1, so that squares neither overflow nor vanish. That size is none of the result's derivative.
  const auto size = maximum(abs(z.real(), at), abs(z.imag(), at), at);
  const auto by = stop_gradient(where(bit_and(gt(size, 0, at), isfinite(size, at), at), size, 1, at), at);
  const auto re = detail::stage(div(z.real(), by, at), at);
  const auto im = detail::stage(div(z.imag(), by, at), at);
  const auto below = mul(add(mul(re, re, at), mul(im, im, at), at), by, at);
  return detail::joined_parts(div(re, below, at), neg(div(im, below, at), at), at);
}
/// a / b; see add and reciprocal.
template <class A, class B>
requires detail::some_complex<A, B>
auto div(const A& a, const B& b, location at = location::current()) {
  if constexpr (!detail::same_parts<A, B>()) return a;
  else if constexpr (complex_tensor<B>) return mul(reciprocal(b, at), a, at);
  else if constexpr (detail::is_std_complex<B>) return mul(a, B(1) / b, at);
  else {
    const auto by = detail::real_of(b, at);
    return detail::joined_parts(div(a.real(), by, at), div(a.imag(), by, at), at);
  }
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
/// exp(re) · (cos im + i·sin im).
template <complex_tensor X>
auto exp(const X& z, location at = location::current()) {
  return polar(exp(z.real(), at), z.imag(), at.in("exp"));
}
/// log |z| + i·angle(z).
template <complex_tensor X>
auto log(const X& z, location at = location::current()) {
  return detail::joined_parts(log(hypot(z.real(), z.imag(), at), at), atan2(z.imag(), z.real(), at), at);
}
/// The root whose real part is not negative. Its gradient at 0 is 0.
template <complex_tensor X>
auto sqrt(const X& z, location at = location::current()) {
  const auto re = z.real(), im = z.imag();
  const auto nothing = bit_and(eq(re, 0, at), eq(im, 0, at), at);
  const auto x = where(nothing, 1, re, at);
  // The larger of the root's parts; the other is half of im by it.
  const auto large =
      detail::stage(sqrt(mul(add(mul(hypot(x, im, at), 0.5, at), mul(abs(x, at), 0.5, at), at), 1, at), at), at);
  const auto small = detail::stage(div(mul(im, 0.5, at), large, at), at);
  const auto right = ge(x, 0, at);
  const auto up = where(lt(im, 0, at), neg(large, at), large, at);
  return detail::joined_parts(where(nothing, 0, where(right, large, abs(small, at), at), at),
                              where(nothing, im, where(right, small, up, at), at), at);
}
/// sin re · cosh im + i·cos re · sinh im.
template <complex_tensor X>
auto sin(const X& z, location at = location::current()) {
  const auto re = z.real(), im = z.imag();
  return detail::joined_parts(mul(sin(re, at), cosh(im, at), at), mul(cos(re, at), sinh(im, at), at), at);
}
/// cos re · cosh im - i·sin re · sinh im.
template <complex_tensor X>
auto cos(const X& z, location at = location::current()) {
  const auto re = z.real(), im = z.imag();
  return detail::joined_parts(mul(cos(re, at), cosh(im, at), at), neg(mul(sin(re, at), sinh(im, at), at), at), at);
}
/// sinh re · cos im + i·cosh re · sin im.
template <complex_tensor X>
auto sinh(const X& z, location at = location::current()) {
  const auto re = z.real(), im = z.imag();
  return detail::joined_parts(mul(sinh(re, at), cos(im, at), at), mul(cosh(re, at), sin(im, at), at), at);
}
/// cosh re · cos im + i·sinh re · sin im.
template <complex_tensor X>
auto cosh(const X& z, location at = location::current()) {
  const auto re = z.real(), im = z.imag();
  return detail::joined_parts(mul(cosh(re, at), cos(im, at), at), mul(sinh(re, at), sin(im, at), at), at);
}
/// sinh z / cosh z, without overflow on the way.
template <complex_tensor X>
auto tanh(const X& z, location at = location::current()) {
  const auto t = detail::stage(tanh(z.real(), at), at), s = detail::stage(sin(z.imag(), at), at),
             c = detail::stage(cos(z.imag(), at), at);
  const auto h = detail::stage(div(1, cosh(z.real(), at), at), at);
  const auto below = detail::stage(add(mul(c, c, at), mul(mul(t, t, at), mul(s, s, at), at), at), at);
  return detail::joined_parts(div(t, below, at), div(mul(mul(s, c, at), mul(h, h, at), at), below, at), at);
}
/// sin z / cos z, without overflow on the way.
template <complex_tensor X>
auto tan(const X& z, location at = location::current()) {
  const auto turned = tanh(detail::joined_parts(neg(z.imag(), at), z.real(), at), at);
  return detail::joined_parts(turned.imag(), neg(turned.real(), at), at);
}
/// exp(b · log a): of 0 NaN. Of whole exponents write products.
template <class A, class B>
requires detail::some_complex<A, B>
auto pow(const A& a, const B& b, location at = location::current()) {
  if constexpr (!detail::same_parts<A, B>()) return a;
  else if constexpr (complex_tensor<A>) return exp(mul(log(a, at), b, at), at);
  else if constexpr (detail::is_std_complex<A>) return exp(mul(b, std::log(a), at), at);
  else {
    using T = typename B::real_type;
    if constexpr (tensor_like<A>) return exp(mul(b, log(complex(a, at), at), at), at);
    else return exp(mul(b, std::log(std::complex<T>(static_cast<T>(a))), at), at);
  }
}
/// z itself, of which no derivative is taken in either part.
template <complex_tensor X>
auto stop_gradient(const X& z, location at = location::current()) {
  return detail::each_part(
      z, [&](const auto& x) { return stop_gradient(x, at); }, at);
}
/// Whether a part is NaN, bool.
template <complex_tensor X>
auto isnan(const X& z, location at = location::current()) {
  return detail::stage(bit_or(isnan(z.real(), at), isnan(z.imag(), at), at), at);
}
/// Whether both parts are finite, bool.
template <complex_tensor X>
auto isfinite(const X& z, location at = location::current()) {
  return detail::stage(bit_and(isfinite(z.real(), at), isfinite(z.imag(), at), at), at);
}

/// |x - y| <= atol + rtol · |y|, of magnitudes; all of them.
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

/// Products as matmul's of real matrices, of which one may be real.
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
/// The sum and the mean over axes, all by default.
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

/// The product over one axis, or over all elements; of nothing 1. While traced it is for calls of that extent alone.
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

// Errors.
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
