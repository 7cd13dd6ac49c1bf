// front/transforms/sample_rules.hpp: samples of distributions by rejection, with derivatives, and of tails; compiled once.
//
// All arithmetic is f64, in operations that IEEE 754 rounds exactly; logarithms and powers are built of them. So all backends
// give the same bits. Each element makes a number of attempts, and takes the first accepted attempt: see gamma_root and
// poisson_count of the vocabulary. Word w of attempt a of element i is the word of the counter i + (4a + w) 2^48.
#pragma once

#include <cmath>
#include <iterator>

#include "../functions/sample.hpp"
#include "custom.hpp"

namespace sinter::detail {

using drawn_numbers = tensor<double, 1>;

/// The elements of a key from which n numbers are drawn. `first` is the start of a distribution's words.
struct drawn_elements {
  tensor<std::uint64_t, 0> state;
  dim n;
  std::uint64_t first;
  device on;
  location at;

  auto counter(std::uint64_t word = 0) const {
    return add(index_leaf<std::uint64_t, dims{dyn}>({n}, 0), (first + word) << 48, at);
  }
  tensor<std::uint64_t, 1> words(std::uint64_t which) const {
    return evaluate_on(philox(state, counter(which), at), on, at);
  }
};

/// -ln u, for the number u in (0, 1] of a word.
template <class Words>
auto minus_log_of(const Words& words, location at) {
  const auto fixed = cast<double>(cast<std::int64_t>(gauss(words, 0, at), at), at);
  const auto s = evaluate(mul(fixed, formula_number{0x1p-56}, at), at);
  return evaluate(mul(mul(s, s, at), 0.5, at), at);
}

/// exp x, for x <= 0.
inline drawn_numbers exact_exp(const drawn_numbers& x, location at) {
  const drawn_numbers y = maximum(x, -1100.0, at);
  const drawn_numbers k = floor(add(mul(y, 1.4426950408889634, at), 0.5, at), at);
  const drawn_numbers r = sub(sub(y, mul(k, 0x1.62e42fefa38p-1, at), at), mul(k, 0x1.ef35793c7673p-45, at), at);
  const auto term = [&](double c, const auto& more) { return add(mul(more, r, at), c, at); };
  const drawn_numbers high =
      term(1.0 / 40320, term(1.0 / 362880, term(1.0 / 3628800, term(1.0 / 39916800, mul(r, 1.0 / 479001600, at)))));
  const drawn_numbers p = term(
      1,
      term(1, term(1.0 / 2, term(1.0 / 6, term(1.0 / 24, term(1.0 / 120, term(1.0 / 720, term(1.0 / 5040, high))))))));
  const drawn_numbers half = floor(mul(k, 0.5, at), at);
  const auto power = [&](const auto& e) {
    return sinter::bit_cast<double>(shl(add(cast<std::int64_t>(e, at), 1023, at), 52, at), at);
  };
  return mul(mul(p, power(half), at), power(sub(k, half, at)), at);
}

/// Gamma numbers as `size` · exp(`power`); the power is 0 for shapes of at least 1.
struct gamma_numbers {
  drawn_numbers size, power;
};

/// A gamma number of one element. Most have no power, whose logarithm costs as much as the rest.
inline void draw_gamma(std::uint64_t key, std::uint64_t element, double shape, double& size, double& power) {
  const double t = std::bit_cast<double>(vocabulary::gamma_root(key, element, std::bit_cast<std::uint64_t>(shape)));
  const double a = vocabulary::maximum(shape, 1e-300), d = (a < 1 ? a + 1 : a) - 1.0 / 3;
  size = d * (t * t * t);
  power = a < 1
              ? -vocabulary::detail::minus_log_of_word(vocabulary::philox(key, element + (std::uint64_t{3} << 48))) / a
              : 0;
}
inline gamma_numbers draw_gammas_here(const drawn_elements& e, const drawn_numbers& shape, location at) {
  handle size = allocate("gamma", dtype::f64, dims{e.n}, at), power = allocate("gamma", dtype::f64, dims{e.n}, at);
  const handle from = contiguous(untyped(shape, at), at);
  const std::uint64_t key = e.state.item(at), first = e.first << 48;
  const std::int64_t n = from.extents[0];
  parallel(n, 512 * n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      draw_gamma(key, first + static_cast<std::uint64_t>(i), reinterpret_cast<const double*>(from.data)[i],
                 reinterpret_cast<double*>(size.data)[i], reinterpret_cast<double*>(power.data)[i]);
  });
  return {typed<double, dims{dyn}>(size, at), typed<double, dims{dyn}>(power, at)};
}

/// d t³ for the accepted t of gamma_root. A number of shape below 1 is a number of shape + 1 times u^(1 / shape).
inline gamma_numbers draw_gammas(const drawn_elements& e, const drawn_numbers& shape, location at) {
  const handle h = untyped(shape, at);
  if (!tracing() && !on_gpu("gamma", {&h}, at)) return draw_gammas_here(e, shape, at);
  const drawn_numbers t =
      sinter::bit_cast<double>(gamma_root(e.state, e.counter(), sinter::bit_cast<std::uint64_t>(shape, at), at), at);
  const drawn_numbers a = maximum(shape, 1e-300, at);
  const auto small = lt(a, 1, at);
  const drawn_numbers d = sub(where(small, add(a, 1, at), a, at), 1.0 / 3, at);
  const drawn_numbers log_u = minus_log_of(e.words(3), at);
  return {mul(d, mul(mul(t, t, at), t, at), at), where(small, div(neg(log_u, at), a, at), 0, at)};
}

inline drawn_elements elements_of(const tensor<std::uint64_t, 0>& state, const drawn_numbers& x, std::uint64_t first,
                                  location at) {
  return {state, extents_of(x, at)[0], first, same_device(x, at).given.value_or(device()), at};
}

/// x where the parameter is positive and finite, else NaN.
template <class X, class P>
auto where_valid(const P& parameter, const X& x, location at) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  return where(bit_and(gt(parameter, 0, at), lt(parameter, inf, at), at), x, nan, at);
}

// Implicit reparameterisation (Figurnov, Mohamed and Mnih, 2018). If the distribution function F of a number x keeps its value,
// dx/da is -(∂F/∂a) / p(x). With ln t - E ln t in place of the logarithm's derivative, it is an integral over t on either
// side of x: x · ∫ exp(E(s)) · (c + …) ds over the logarithmic distance s from x. It is differentiated as written.

/// ∫ f(s) ds over s > 0 for each number, accurate to 1e-9: s = scale · exp(q - e^-q) at 96 places q. f takes (n, 96) places.
template <class F>
drawn_numbers half_line_integral(const drawn_numbers& scale, F f, location at) {
  constexpr std::int64_t places = 96;
  constexpr double first = -3.6, step = 8.0 / (places - 1);
  const index_leaf<std::int64_t, dims{dyn}> place({dim(places)}, 0);
  const drawn_numbers q = add(mul(cast<double>(place, at), step, at), first, at);
  const drawn_numbers less = exp(neg(q, at), at), s = exp(sub(q, less, at), at);
  const drawn_numbers weight = mul(mul(s, add(less, 1, at), at), step, at);
  const tensor<double, 2> at_places = mul(expand_dims<1>(scale), expand_dims<0>(s), at);
  return mul(sum(mul(f(at_places), expand_dims<0>(weight), at), axis<-1>, at), scale, at);
}

/// ln z - digamma(z); for large z by its series.
inline drawn_numbers log_less_digamma(const drawn_numbers& z, location at) {
  const drawn_numbers r = div(1, z, at), square = mul(r, r, at);
  const drawn_numbers series = mul(r, add(mul(sub(1.0 / 12, mul(square, 1.0 / 120, at), at), r, at), 0.5, at), at);
  return where(gt(z, 1000, at), series, sub(log(z, at), digamma(z, at), at), at);
}

/// d ln x / da of a gamma number x of shape a; 0 where x has underflowed.
inline drawn_numbers gamma_slope(const drawn_numbers& a, const drawn_numbers& drawn, location at) {
  const tensor<bool, 1> none = eq(drawn, 0, at);
  const drawn_numbers x = where(none, 1, drawn, at);
  const tensor<bool, 1> above = gt(x, maximum(a, 1, at), at);
  const drawn_numbers far = maximum(where(above, sub(x, a, at), sub(a, x, at), at), 0, at);
  const drawn_numbers scale = stop_gradient(
      where(bit_or(above, ge(a, 1, at), at), div(1, add(far, sqrt(x, at), at), at), div(1, a, at), at), at);
  const drawn_numbers excess = add(log(div(x, a, at), at), log_less_digamma(a, at), at);
  const auto integral = half_line_integral(
      scale,
      [&](const tensor<double, 2>& s) {
        const tensor<double, 2> t = where(expand_dims<1>(above), minimum(s, 50, at), neg(s, at), at);
        const tensor<double, 2> power =
            sub(mul(expand_dims<1>(a), t, at), mul(expand_dims<1>(x), expm1(t, at), at), at);
        return tensor<double, 2>(mul(exp(power, at), add(expand_dims<1>(excess), t, at), at));
      },
      at);
  return where(none, 0, where(above, integral, neg(integral, at), at), at);
}

/// dx/da / (x · (1 - x)) of a beta number x of a and b; 0 where x was rounded to 0 or 1.
inline drawn_numbers beta_slope(const drawn_numbers& a, const drawn_numbers& b, const drawn_numbers& drawn,
                                location at) {
  const tensor<bool, 1> none = bit_or(le(drawn, 0, at), ge(drawn, 1, at), at);
  const drawn_numbers x = where(none, 0.5, drawn, at), n = add(a, b, at), left = sub(1, x, at);
  const tensor<bool, 1> below = le(x, div(add(a, 1, at), add(n, 2, at), at), at);
  const drawn_numbers y = where(below, x, left, at), c = where(below, a, b, at);
  const drawn_numbers off = sub(a, mul(n, x, at), at), far = maximum(where(below, off, neg(off, at), at), 0, at);
  const drawn_numbers width = div(1, add(far, sqrt(mul(n, mul(x, left, at), at), at), at), at);
  const drawn_numbers scale = stop_gradient(where(ge(c, 1, at), width, div(1, c, at), at), at);
  const drawn_numbers excess =
      add(log(mul(x, div(n, a, at), at), at), sub(log_less_digamma(a, at), log_less_digamma(n, at), at), at);
  const auto integral = half_line_integral(
      scale,
      [&](const tensor<double, 2>& s) {
        const tensor<double, 2> g = log1p(mul(expand_dims<1>(y), expm1(neg(s, at), at), at), at);
        const tensor<double, 2> power = neg(add(mul(expand_dims<1>(c), s, at), mul(expand_dims<1>(n), g, at), at), at);
        const tensor<double, 2> moved = add(g, where(expand_dims<1>(below), s, 0, at), at);
        return tensor<double, 2>(mul(exp(power, at), sub(expand_dims<1>(excess), moved, at), at));
      },
      at);
  return where(none, 0, where(below, neg(integral, at), integral, at), at);
}

SINTER_API drawn_numbers drawn_gamma(const tensor<std::uint64_t, 0>& state, const drawn_numbers& shape, location at) {
  using state_t = tensor<std::uint64_t, 0>;
  return custom_jvp(
      [at](const state_t& state, const drawn_numbers& shape) {
        const gamma_numbers g = draw_gammas(elements_of(state, shape, 0, at), shape, at);
        return drawn_numbers(where_valid(shape, mul(g.size, exact_exp(g.power, at), at), at));
      },
      [at](const state_t& state, const drawn_numbers& a, const drawn_numbers& da) {
        const drawn_numbers x = drawn_gamma(state, a, at);
        return std::pair{x, drawn_numbers(mul(mul(x, gamma_slope(a, x, at), at), da, at))};
      },
      at)(state, shape);
}

SINTER_API drawn_numbers drawn_beta(const tensor<std::uint64_t, 0>& state, const drawn_numbers& a,
                                    const drawn_numbers& b, location at) {
  using state_t = tensor<std::uint64_t, 0>;
  return custom_jvp(
      [at](const state_t& state, const drawn_numbers& a, const drawn_numbers& b) {
        const gamma_numbers x = draw_gammas(elements_of(state, a, 0, at), a, at),
                            y = draw_gammas(elements_of(state, b, 64, at), b, at);
        const drawn_numbers power = maximum(x.power, y.power, at);
        const drawn_numbers p = mul(x.size, exact_exp(sub(x.power, power, at), at), at),
                            q = mul(y.size, exact_exp(sub(y.power, power, at), at), at);
        return drawn_numbers(where_valid(a, where_valid(b, div(1, add(div(q, p, at), 1, at), at), at), at));
      },
      [at](const state_t& state, const drawn_numbers& a, const drawn_numbers& b, const drawn_numbers& da,
           const drawn_numbers& db) {
        const drawn_numbers x = drawn_beta(state, a, b, at), left = sub(1, x, at);
        const drawn_numbers by_a = mul(beta_slope(a, b, x, at), da, at), by_b = mul(beta_slope(b, a, left, at), db, at);
        return std::pair{x, drawn_numbers(mul(mul(x, left, at), sub(by_a, by_b, at), at))};
      },
      at)(state, a, b);
}

/// Rows of gamma numbers, each divided by the sum of its row.
inline tensor<double, 2> draw_dirichlet(const tensor<std::uint64_t, 0>& state, const tensor<double, 2>& shape,
                                        location at) {
  const auto extents = to_dims(extents_of(shape, at));
  const auto rows = [&](const drawn_numbers& x) {
    return typed<double, dims(2)>(views::reshape(untyped(x, at), extents, at), at);
  };
  const drawn_numbers flat = flatten(shape, at);
  const gamma_numbers g = draw_gammas(elements_of(state, flat, 0, at), flat, at);
  const tensor<double, 2> power = rows(g.power);
  const tensor<double, 2> less = sub(power, max(power, axis<-1>, keepdims, at), at);
  const tensor<double, 2> size = mul(rows(g.size), rows(exact_exp(flatten(less, at), at)), at);
  const tensor<double, 2> part = div(size, max(size, axis<-1>, keepdims, at), at);
  // The sum of integer multiples of 2^-30 and of 2^-60 is the same in any order.
  const tensor<double, 2> scaled = mul(part, 0x1p30, at);
  const tensor<double, 2> whole = floor(scaled, at);
  const auto total = [&](const auto& x) {
    return cast<double>(sum(cast<std::int64_t>(x, at), axis<-1>, keepdims, at), at);
  };
  const auto total_of =
      add(mul(total(whole), 0x1p-30, at), mul(total(mul(sub(scaled, whole, at), 0x1p30, at)), 0x1p-60, at), at);
  const auto known = bit_and(gt(shape, 0, at), lt(shape, std::numeric_limits<double>::infinity(), at), at);
  const auto valid = sinter::all(evaluate(known, at), axis<-1>, keepdims, at);
  return where(valid, div(part, total_of, at), std::numeric_limits<double>::quiet_NaN(), at);
}

/// A number of a row is a beta number of its parameter and the sum of the others'. The others share the rest independently of
/// it.
SINTER_API tensor<double, 2> drawn_dirichlet(const tensor<std::uint64_t, 0>& state, const tensor<double, 2>& shape,
                                             location at) {
  using state_t = tensor<std::uint64_t, 0>;
  using rows_t = tensor<double, 2>;
  return custom_jvp([at](const state_t& state, const rows_t& shape) { return draw_dirichlet(state, shape, at); },
                    [at](const state_t& state, const rows_t& a, const rows_t& da) {
                      const rows_t x = drawn_dirichlet(state, a, at);
                      const rows_t others = sub(sum(a, axis<-1>, keepdims, at), a, at);
                      const drawn_numbers slope = beta_slope(flatten(a, at), flatten(others, at), flatten(x, at), at);
                      const auto like_x = views::reshape(untyped(slope, at), to_dims(extents_of(x, at)), at);
                      const rows_t by = mul(typed<double, dims(2)>(like_x, at), da, at);
                      const rows_t shared = sum(mul(x, by, at), axis<-1>, keepdims, at);
                      return std::pair{x, rows_t(mul(x, sub(by, shared, at), at))};
                    },
                    at)(state, shape);
}

SINTER_API drawn_numbers drawn_poisson(const tensor<std::uint64_t, 0>& state, const drawn_numbers& rate, location at) {
  const drawn_elements e = elements_of(state, rate, 0, at);
  return sinter::bit_cast<double>(poisson_count(state, e.counter(), sinter::bit_cast<std::uint64_t>(rate, at), at), at);
}

/// ln x, for x > 0.
inline drawn_numbers exact_log(const drawn_numbers& x, location at) {
  constexpr std::int64_t fraction = (std::int64_t{1} << 52) - 1;
  const tensor<std::int64_t, 1> bits = sinter::bit_cast<std::int64_t>(x, at);
  const auto significand = sub(bit_or(bit_and(bits, fraction, at), fraction + 1, at), 1, at);
  const tensor<std::uint64_t, 1> words = shl(cast<std::uint64_t>(significand, at), 11, at);
  const auto exponent = cast<double>(sub(shr(bits, 52, at), 1022, at), at);
  return sub(mul(exponent, 0.69314718055994531, at), minus_log_of(words, at), at);
}

/// Mills's ratio of the normal distribution, (1 - Φ(x)) / φ(x), for x >= 0, accurate to 6e-16. The terms give (x + 4) times the
/// ratio as a polynomial of (x - 4) / (x + 4), last coefficient first, by Chebyshev interpolation in 60 points.
inline constexpr double mills_terms[] = {
    8.53083886026053e-10,   -3.0073979672398766e-10, -9.35134044482434e-09,   -1.4722998923746307e-09,
    5.3711037651589576e-08, 4.473060051450323e-08,   -2.1774195022039326e-07, -4.00493929251171e-07,
    6.829633831673466e-07,  2.568755311229722e-06,   -1.5787665654677373e-06, -1.4843277679080294e-05,
    1.7963971214040778e-06, 8.809573121072337e-05,   -4.783264259417208e-06,  -0.0005792693046478719,
    0.0003342446162328441,  0.004087855681200072,    -0.008722295274260125,   -0.018900450861711257,
    0.15139176231244347,    -0.4675409629983325,     0.9704095548675884,      -1.5237709108199835,
    1.8932190633084853};
inline double mills(double x) {
  const double s = (x - 4) / (x + 4);
  double p = 0;
  for (const double term : mills_terms) p = p * s + term;
  return p / (x + 4);
}
inline drawn_numbers mills(const drawn_numbers& x, location at) {
  const drawn_numbers s = div(sub(x, 4, at), add(x, 4, at), at);
  const auto next = [&](const auto& p, std::size_t i) { return add(mul(p, s, at), mills_terms[i], at); };
  drawn_numbers p = mul(s, mills_terms[0], at);
  p = add(p, mills_terms[1], at);
  for (std::size_t i = 2; i < std::size(mills_terms) - 3; i += 5)
    p = next(next(next(next(next(p, i), i + 1), i + 2), i + 3), i + 4);
  return div(next(next(next(p, 22), 23), 24), add(x, 4, at), at);
}

/// The probability that a normal number above low is also below high.
inline double chance_below(double low, double high) {
  if (high - low < 0.01) {
    // Gauss's three points integrate the hazard, 1 / mills; a difference of logarithms would cancel.
    const double middle = low + (high - low) / 2, far = (high - low) * 0.3872983346207417;
    return -std::expm1(-(high - low) * (5 / mills(middle - far) + 8 / mills(middle) + 5 / mills(middle + far)) / 18);
  }
  if (high == std::numeric_limits<double>::infinity()) return 1;
  return 1 - mills(high) / mills(low) * std::exp(-(high - low) * (high / 2 + low / 2));
}

/// x = low + t with 1 - Φ(x) = v (1 - Φ(low)), v in (0, 1]. Equivalently, low·t + t²/2 - ln(mills(x) / mills(low)) = -ln v.
/// The start is t without the last term. Two steps of fourth order follow, since dx is mills(x) times the logarithm's step.
SINTER_API drawn_numbers drawn_tail(const tensor<std::uint64_t, 0>& state, dim n, device on, double low, double high,
                                    location at) {
  const drawn_elements e{state, n, 0, on, at};
  const double chance = chance_below(low, high), at_low = mills(low);
  const auto unit = mul(cast<double>(shr(e.words(0), 11, at), at), formula_number{0x1p-53}, at);
  const drawn_numbers v = sub(1, mul(unit, chance, at), at), w = neg(exact_log(v, at), at);
  const drawn_numbers start = div(mul(w, 2, at), add(sqrt(add(mul(w, 2, at), low * low, at), at), low, at), at);
  const auto moved = [&](const drawn_numbers& t, const drawn_numbers& m, const drawn_numbers& by) {
    const drawn_numbers x = add(t, low, at), slope = sub(mul(x, m, at), 1, at);
    const drawn_numbers third = add(mul(slope, slope, at), mul(m, add(m, mul(x, slope, at), at), at), at);
    const drawn_numbers inner = add(slope, mul(mul(by, 1.0 / 3, at), third, at), at);
    return drawn_numbers(add(t, mul(m, add(by, mul(mul(mul(by, by, at), 0.5, at), inner, at), at), at), at));
  };
  const drawn_numbers first = mills(drawn_numbers(add(start, low, at)), at);
  const drawn_numbers t = moved(start, first, exact_log(drawn_numbers(div(first, at_low, at)), at));
  const drawn_numbers m = mills(drawn_numbers(add(t, low, at)), at);
  const drawn_numbers gone = exact_exp(drawn_numbers(neg(mul(t, add(mul(t, 0.5, at), low, at), at), at)), at);
  const drawn_numbers excess = sub(div(mul(m, gone, at), mul(v, at_low, at), at), 1, at);
  const drawn_numbers left = mul(excess, sub(1, mul(excess, sub(0.5, mul(excess, 1.0 / 3, at), at), at), at), at);
  return add(moved(t, m, left), low, at);
}

}  // namespace sinter::detail
