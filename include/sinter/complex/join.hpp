// complex/join.hpp: joins, splits and rearranges complex tensors, by the functions of real tensors on the parts.
#pragma once

#include <vector>

#include "movement.hpp"

namespace sinter {

namespace detail {

/// An argument after two complex operands: another operand, or finally the axis.
template <class X>
concept complex_joinable = complex_tensor<X> || is_axis<X> || is_absent<X>;
/// A complex tensor and a real one, in any order.
template <class A, class B>
concept half_complex = (complex_tensor<A> && tensor_like<B>) || (tensor_like<A> && complex_tensor<B>);

template <class X>
std::vector<typename X::part_type> real_parts(const std::vector<X>& all) {
  std::vector<typename X::part_type> out;
  for (const auto& z : all) out.push_back(z.real());
  return out;
}
template <class X>
std::vector<typename X::part_type> imaginary_parts(const std::vector<X>& all) {
  std::vector<typename X::part_type> out;
  for (const auto& z : all) out.push_back(z.imag());
  return out;
}

}  // namespace detail

// JOIN of two to eight operands, or of a vector; a compile-time error for a real tensor among them.
#define SINTER_COMPLEX_JOIN(NAME)                                                                                \
  template <int Axis = 0, complex_tensor A, complex_tensor B, detail::complex_joinable C = detail::absent,       \
            detail::complex_joinable D = detail::absent, detail::complex_joinable E = detail::absent,            \
            detail::complex_joinable F = detail::absent, detail::complex_joinable G = detail::absent,            \
            detail::complex_joinable H = detail::absent, detail::complex_joinable I = detail::absent>            \
  auto NAME(const A& a, const B& b, const C& c = {}, const D& d = {}, const E& e = {}, const F& f = {},          \
            const G& g = {}, const H& h = {}, const I& i = {}, location at = location::current()) {              \
    return detail::join_given<Axis>(                                                                             \
        [at]<int Place>(axis_t<Place>, const auto&... z) {                                                       \
          return detail::joined_parts(detail::NAME##_all<Place>(at, z.real()...),                                \
                                      detail::NAME##_all<Place>(at, z.imag()...), at);                           \
        },                                                                                                       \
        a, b, c, d, e, f, g, h, i);                                                                              \
  }                                                                                                              \
  template <int Axis = 0, complex_tensor X>                                                                      \
  auto NAME(const std::vector<X>& all, axis_t<Axis> = {}, location at = location::current()) {                   \
    return detail::joined_parts(NAME<Axis>(detail::real_parts(all), axis<Axis>, at),                             \
                                NAME<Axis>(detail::imaginary_parts(all), axis<Axis>, at), at);                   \
  }                                                                                                              \
  template <int Axis = 0, class A, class B, class... More>                                                       \
  requires detail::half_complex<A, B>                                                                            \
  auto NAME(const A& a, const B&, const More&...) {                                                              \
    static_assert(!sizeof(A),                                                                                    \
                  "sinter: [" #NAME "] a real and a complex tensor; cast the real one with cast<complex64>(x)"); \
    return a;                                                                                                    \
  }
/// The operands one after the other along an axis, `concat<1>(z, w)` or `concat(z, w, axis<1>)`, like concat of real tensors.
/// Copies.
SINTER_COMPLEX_JOIN(concat)
/// The operands, of equal extents (else user_error), along a new axis, like stack of real tensors. Copies.
SINTER_COMPLEX_JOIN(stack)
#undef SINTER_COMPLEX_JOIN

/// z surrounded by a number, by default 0: pad(z, {{1, 2}, {0, 0}}, complex64(0, 1)). Copies.
template <complex_tensor X, std::size_t R>
auto pad(const X& z, const pad_width (&widths)[R], typename X::value_type value = {},
         location at = location::current()) {
  return detail::joined_parts(pad(z.real(), widths, {value.real(), at}, at),
                              pad(z.imag(), widths, {value.imag(), at}, at), at);
}
template <dims Low, dims High, complex_tensor X>
auto pad(const X& z, typename X::value_type value = {}, location at = location::current()) {
  return detail::joined_parts(pad<Low, High>(z.real(), {value.real(), at}, at),
                              pad<Low, High>(z.imag(), {value.imag(), at}, at), at);
}
/// Repeats z along each axis; see tile of real tensors. Copies.
template <complex_tensor X, std::size_t R>
auto tile(const X& z, const dim (&repeats)[R], location at = location::current()) {
  return detail::each_part(
      z, [&](const auto& x) { return tile(x, repeats, at); }, at);
}
/// z cut into equal parts along an axis; see split of real tensors. Views.
template <int Axis = 0, complex_tensor X>
auto split(const X& z, std::int64_t sections, location at = location::current()) {
  const auto re = split<Axis>(z.real(), sections, at), im = split<Axis>(z.imag(), sections, at);
  std::vector<decltype(detail::joined_parts(re[0], im[0], at))> out;
  for (std::size_t i = 0; i < re.size(); ++i) out.push_back(detail::joined_parts(re[i], im[i], at));
  return out;
}
/// z with axes moved; see moveaxis of real tensors. A view.
template <complex_tensor X, int... From, int... To>
auto moveaxis(const X& z, axis_t<From...> from, axis_t<To...> to, location at = location::current()) {
  return detail::each_part(
      z, [&](const auto& x) { return moveaxis(x, from, to, at); }, at);
}

// NAME<options>(z, k), by the parts.
#define SINTER_COMPLEX_LINES(NAME)                                                            \
  template <auto... Options, complex_tensor X>                                                \
  auto NAME(const X& z, std::int64_t k = 0, location at = location::current()) {              \
    return detail::each_part(                                                                 \
        z, [&](const auto& x) { return detail::stage(NAME<Options...>(x, k, at), at); }, at); \
  }
/// The diagonal, and its sum; see diagonal and trace_of of real tensors.
SINTER_COMPLEX_LINES(diagonal)
SINTER_COMPLEX_LINES(trace_of)
#undef SINTER_COMPLEX_LINES
#define SINTER_COMPLEX_LINES(NAME)                                                \
  template <complex_tensor X>                                                     \
  auto NAME(const X& z, std::int64_t k = 0, location at = location::current()) {  \
    return detail::each_part(                                                     \
        z, [&](const auto& x) { return detail::stage(NAME(x, k, at), at); }, at); \
  }
SINTER_COMPLEX_LINES(diag)
SINTER_COMPLEX_LINES(tril)
SINTER_COMPLEX_LINES(triu)
#undef SINTER_COMPLEX_LINES

/// Elements by several indices; see take of real tensors.
template <complex_tensor X, tensor_like I, tensor_like J>
auto take(const X& z, const I& i, const J& j, location at = location::current()) {
  const auto one = detail::stage(i, at);
  const auto two = detail::stage(j, at);
  return detail::each_part(
      z, [&](const auto& x) { return take(x, one, two, at); }, at);
}
/// Elements by an index along an axis; see take_along_axis of real tensors.
template <complex_tensor X, tensor_like I, int A = -1>
auto take_along_axis(const X& z, const I& index, axis_t<A> along = {}, location at = location::current()) {
  const auto place = detail::stage(index, at);
  return detail::each_part(
      z, [&](const auto& x) { return take_along_axis(x, place, along, at); }, at);
}

}  // namespace sinter
