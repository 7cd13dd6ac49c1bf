// front/functions/sample_rules.hpp: numbers of distributions by rejection; compiled once.
//
// f64 throughout, of operations that IEEE 754 rounds exactly, logarithms and powers of such too: all backends have the same bits.
// An element has a fixed number of attempts, and takes the first that is accepted. Word w of attempt a of element i is that of the
// counter i + (4a + w) 2^48.
#pragma once

#include "sample.hpp"

namespace sinter::detail {

using drawn_numbers = tensor<double, 1>;

/// The words of a key for n elements, or for some attempts of each as rows. `first`: where a distribution's words begin.
struct attempt_words {
  tensor<std::uint64_t, 0> state;
  dim n;
  std::uint64_t first;
  location at;

  template <class Attempt>
  auto of(const Attempt& attempt, std::uint64_t word) const {
    const auto slot = add(mul(attempt, 4, at), first + word, at);
    if constexpr (Attempt::rank == 1)
      return philox(state, add(index_leaf<std::uint64_t, dims{dyn}>({n}, 0), shl(slot, 48, at), at), at);
    else return philox(state, add(index_leaf<std::uint64_t, dims(2)>({n, 1}, 0), shl(slot, 48, at), at), at);
  }
  auto attempts(dim count) const { return index_leaf<std::uint64_t, dims(2)>({1, count}, 1); }
  tensor<std::uint64_t, 1> word(std::uint64_t which) const {
    const auto counter = add(index_leaf<std::uint64_t, dims{dyn}>({n}, 0), (first + which) << 48, at);
    return evaluate(philox(state, counter, at), at);
  }
};

/// √(-2 ln u) of the number u in (0, 1] that a word makes.
template <class Words>
auto root_of_log(const Words& words, location at) {
  return mul(cast<double>(cast<std::int64_t>(gauss(words, 0, at), at), at), formula_number{0x1p-56}, at);
}
template <class Words>
auto minus_log_of(const Words& words, location at) {
  const auto s = evaluate(root_of_log(words, at), at);
  return evaluate(mul(mul(s, s, at), 0.5, at), at);
}

/// ln x of normal numbers above 0: of the significand as a word, and of the exponent.
template <class X>
auto exact_log(const X& x, location at) {
  constexpr std::int64_t fraction = (std::int64_t{1} << 52) - 1;
  const auto bits = evaluate(sinter::bit_cast<std::int64_t>(x, at), at);
  const auto exponent = cast<double>(sub(shr(bits, 52, at), 1022, at), at);
  const auto significand = add(bit_or(bit_and(bits, fraction, at), fraction + 1, at), -1, at);
  const auto least = minus_log_of(shl(cast<std::uint64_t>(significand, at), 11, at), at);
  return evaluate(sub(mul(exponent, formula_number{0.69314718055994531}, at), least, at), at);
}

/// exp x of numbers up to 0.
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

/// The same of one element, eagerly on the host: attempts end with the first that is accepted.
struct element_words {
  std::uint64_t state, element, first;

  std::uint64_t operator()(std::int64_t attempt, std::uint64_t word) const {
    return vocabulary::philox(state, element + ((4 * static_cast<std::uint64_t>(attempt) + first + word) << 48));
  }
  double normal(std::int64_t attempt, std::uint64_t word = 0) const {
    return of(vocabulary::gauss((*this)(attempt, word), (*this)(attempt, word + 1)));
  }

  static double of(std::uint64_t gauss) { return static_cast<double>(static_cast<std::int64_t>(gauss)) * 0x1p-56; }
  static double minus_log(std::uint64_t word) {
    const double s = of(vocabulary::gauss(word, 0));
    return s * s * 0.5;
  }
  static double log(double x) {
    constexpr std::int64_t fraction = (std::int64_t{1} << 52) - 1;
    const auto bits = std::bit_cast<std::int64_t>(x);
    const std::int64_t significand = ((bits & fraction) | (fraction + 1)) - 1;
    return static_cast<double>((bits >> 52) - 1022) * 0.69314718055994531 -
           minus_log(static_cast<std::uint64_t>(significand) << 11);
  }
};

/// Whether numbers are drawn here and now.
inline bool draws_here(const char* op, const drawn_numbers& x, location at) {
  const handle h = untyped(x, at);
  return !tracing() && !on_gpu(op, {&h}, at);
}

/// f(words, parameter, out…) of each element.
template <class F, class... Out>
void each_drawn(const tensor<std::uint64_t, 0>& state, const drawn_numbers& x, std::uint64_t first, location at, F f,
                Out&... out) {
  const handle from = contiguous(untyped(x, at), at);
  const std::uint64_t word = state.item(at);
  const std::int64_t n = from.extents[0];
  parallel(n, 512 * n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      f(element_words{word, static_cast<std::uint64_t>(i), first}, reinterpret_cast<const double*>(from.data)[i],
        reinterpret_cast<double*>(out.data)[i]...);
  });
}

/// Gamma numbers as `size` · exp(`power`), of which the power is 0 from shape 1 on.
struct gamma_numbers {
  drawn_numbers size, power;
};

inline constexpr std::int64_t gamma_attempts = 8, count_attempts = 12, count_trials = 48;

/// draw_gammas of one element.
inline void draw_gamma(const element_words& w, double shape, double& size, double& power) {
  const double a = vocabulary::maximum(shape, 1e-300), d = (a < 1 ? a + 1 : a) - 1.0 / 3, root = std::sqrt(d * 9);
  double t = 0;
  for (std::int64_t j = 0; j < gamma_attempts; ++j) {
    const double x = w.normal(j), s = x / root + 1, safe = vocabulary::maximum(s, 0x1p-40);
    t = safe;
    if (!(s > 0x1p-40)) continue;
    const double grown = safe * safe * safe - 1 - w.log(safe) * 3, chance = w.minus_log(w(j, 2)) + x * x * 0.5;
    if (chance > vocabulary::minimum(d, 0x1p20) * grown) break;
  }
  size = d * (t * t * t);
  power = a < 1 ? -w.minus_log(w(0, 3)) / a : 0;
}

/// Of Marsaglia and Tsang (2000): d (1 + x / √(9 d))³, x normal, is taken with the chance that makes it one of shape d + 1/3. One of
/// a smaller shape than 1 is one of shape + 1 times u^(1 / shape).
inline gamma_numbers draw_gammas(const attempt_words& w, const drawn_numbers& shape, location at) {
  constexpr std::int64_t most = gamma_attempts;
  if (draws_here("gamma", shape, at)) {
    handle size = allocate("gamma", dtype::f64, dims{w.n}, at), power = allocate("gamma", dtype::f64, dims{w.n}, at);
    each_drawn(w.state, shape, w.first, at, draw_gamma, size, power);
    return {typed<double, dims{dyn}>(size, at), typed<double, dims{dyn}>(power, at)};
  }
  const drawn_numbers a = maximum(shape, 1e-300, at);
  const auto small = lt(a, 1, at);
  const drawn_numbers d = sub(where(small, add(a, 1, at), a, at), 1.0 / 3, at);
  const drawn_numbers root = sqrt(mul(d, 9, at), at);
  const auto normal = [&](const auto& j) {
    const auto words = gauss(w.of(j, 0), w.of(j, 1), at);
    return mul(cast<double>(cast<std::int64_t>(words, at), at), formula_number{0x1p-56}, at);
  };
  const auto d2 = sinter::expand_dims<1>(d, at), root2 = sinter::expand_dims<1>(root, at);
  const auto j = w.attempts(most);
  const tensor<double, 2> x = normal(j);
  const tensor<double, 2> t = add(div(x, root2, at), 1, at);
  const tensor<double, 2> safe = maximum(t, 0x1p-40, at);
  const tensor<double, 2> log_t = exact_log(safe, at);
  const auto grown = sub(sub(mul(mul(safe, safe, at), safe, at), 1, at), mul(log_t, 3, at), at);
  const auto chance = add(minus_log_of(w.of(j, 2), at), mul(mul(x, x, at), 0.5, at), at);
  // Beyond 2^20 what is left of the difference is less than its rounding.
  const auto taken = bit_and(gt(t, 0x1p-40, at), gt(chance, mul(minimum(d2, 0x1p20, at), grown, at), at), at);
  const auto which = where(taken, cast<std::int64_t>(j, at), most - 1, at);
  const tensor<std::uint64_t, 1> first = cast<std::uint64_t>(min(which, axis<1>, at), at);
  const drawn_numbers one = maximum(add(div(normal(first), root, at), 1, at), 0x1p-40, at);
  const drawn_numbers log_u = minus_log_of(w.word(3), at);
  return {mul(d, mul(mul(one, one, at), one, at), at), where(small, div(neg(log_u, at), a, at), 0, at)};
}

inline attempt_words words_of(const tensor<std::uint64_t, 0>& state, const drawn_numbers& x, std::uint64_t first,
                              location at) {
  return {state, extents_of(x, at)[0], first, at};
}

/// x where the parameter is a number above 0, else NaN.
template <class X, class P>
auto where_valid(const P& parameter, const X& x, location at) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  return where(bit_and(gt(parameter, 0, at), lt(parameter, inf, at), at), x, nan, at);
}

SINTER_API drawn_numbers drawn_gamma(const tensor<std::uint64_t, 0>& state, const drawn_numbers& shape, location at) {
  const gamma_numbers g = draw_gammas(words_of(state, shape, 0, at), shape, at);
  return where_valid(shape, mul(g.size, exact_exp(g.power, at), at), at);
}

SINTER_API drawn_numbers drawn_beta(const tensor<std::uint64_t, 0>& state, const drawn_numbers& a,
                                    const drawn_numbers& b, location at) {
  const gamma_numbers x = draw_gammas(words_of(state, a, 0, at), a, at),
                      y = draw_gammas(words_of(state, b, 64, at), b, at);
  const drawn_numbers power = maximum(x.power, y.power, at);
  const drawn_numbers p = mul(x.size, exact_exp(sub(x.power, power, at), at), at),
                      q = mul(y.size, exact_exp(sub(y.power, power, at), at), at);
  return where_valid(a, where_valid(b, div(1, add(div(q, p, at), 1, at), at), at), at);
}

SINTER_API tensor<double, 2> drawn_dirichlet(const tensor<std::uint64_t, 0>& state, const tensor<double, 2>& shape,
                                             location at) {
  const auto extents = to_dims(extents_of(shape, at));
  const auto rows = [&](const drawn_numbers& x) {
    return typed<double, dims(2)>(views::reshape(untyped(x, at), extents, at), at);
  };
  const drawn_numbers flat = flatten(shape, at);
  const gamma_numbers g = draw_gammas(words_of(state, flat, 0, at), flat, at);
  const tensor<double, 2> power = rows(g.power);
  const tensor<double, 2> less = sub(power, max(power, axis<-1>, keepdims, at), at);
  const tensor<double, 2> size = mul(rows(g.size), rows(exact_exp(flatten(less, at), at)), at);
  const tensor<double, 2> part = div(size, max(size, axis<-1>, keepdims, at), at);
  // The sum of whole multiples of 2^-30 and of 2^-60 is the same in any order.
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

/// Counts of rates from 12 to 2^31: transformed rejection (Hörmann, 1993).
inline drawn_numbers draw_counts(const attempt_words& w, const drawn_numbers& rate, location at) {
  constexpr std::int64_t most = count_attempts;
  const drawn_numbers root = sqrt(rate, at), b1 = add(mul(root, 2.53, at), 0.931, at),
                      a1 = add(mul(b1, 0.02483, at), -0.059, at), log_rate = exact_log(rate, at);
  const drawn_numbers scale1 = add(div(1.1328, sub(b1, 3.4, at), at), 1.1239, at),
                      sure1 = sub(0.9277, div(3.6224, sub(b1, 2, at), at), at);
  const auto candidate = [&](const auto& j, const auto& a, const auto& b, const auto& l, auto& near) {
    const auto u = evaluate(add(unit<double>(w.of(j, 0), at), -0.5, at), at);
    near = maximum(sub(0.5, abs(u, at), at), 0x1p-54, at);
    const auto steep = add(div(mul(a, 2, at), near, at), b, at);
    return evaluate(floor(add(add(mul(steep, u, at), l, at), 0.43, at), at), at);
  };
  const auto column = [&](const drawn_numbers& x) { return tensor<double, 2>(sinter::expand_dims<1>(x, at)); };
  const tensor<double, 2> a = column(a1), b = column(b1), l = column(rate), scale = column(scale1);
  const auto j = w.attempts(most);
  tensor<double, 2> near;
  const tensor<double, 2> k = candidate(j, a, b, l, near);
  const tensor<double, 2> v = mul(add(cast<double>(shr(w.of(j, 1), 11, at), at), 1, at), 0x1p-53, at);
  const tensor<double, 2> square = mul(near, near, at);
  const tensor<double, 2> chance = div(mul(mul(v, scale, at), square, at), add(mul(square, b, at), a, at), at);
  const tensor<double, 2> log_chance = exact_log(maximum(chance, 0x1p-200, at), at);
  const auto inside = bit_and(ge(k, 0, at), lt(k, mul(l, 256, at), at), at);
  const tensor<double, 2> n = add(where(inside, k, l, at), 1, at);
  const tensor<double, 2> log_n = exact_log(div(n, l, at), at);
  const tensor<double, 2> inverse = div(1, n, at);
  const tensor<double, 2> inverse2 = mul(inverse, inverse, at);
  const auto last = sub(1.0 / 360, mul(inverse2, 1.0 / 1260, at), at);
  const auto stirling = mul(inverse, sub(1.0 / 12, mul(inverse2, last, at), at), at);
  const auto logs = add(mul(sub(n, 1, at), log_n, at), mul(add(log_n, column(log_rate), at), 0.5, at), at);
  const auto weight = sub(sub(sub(sub(n, l, at), logs, at), 0.91893853320467274, at), stirling, at);
  const auto sure = bit_and(ge(near, 0.07, at), le(v, column(sure1), at), at);
  const auto never = bit_and(lt(near, 0.013, at), gt(v, near, at), at);
  const auto taken = bit_and(bit_and(inside, bit_not(never, at), at), bit_or(sure, le(log_chance, weight, at), at), at);
  const auto which = evaluate(where(taken, cast<std::int64_t>(j, at), most, at), at);
  const tensor<std::int64_t, 1> first = min(which, axis<1>, at);
  drawn_numbers beside;
  const drawn_numbers count = candidate(tensor<std::uint64_t, 1>(cast<std::uint64_t>(first, at)), a1, b1, rate, beside);
  return where(lt(first, most, at), count, floor(rate, at), at);
}

/// draw_counts of one element.
inline double draw_count(const element_words& w, double rate) {
  const double root = std::sqrt(rate), b = root * 2.53 + 0.931, a = b * 0.02483 + -0.059, log_rate = w.log(rate);
  const double scale = 1.1328 / (b - 3.4) + 1.1239, sure = 0.9277 - 3.6224 / (b - 2);
  for (std::int64_t j = 0; j < count_attempts; ++j) {
    const double u = static_cast<double>(w(j, 0) >> 11) * 0x1p-53 + -0.5,
                 v = static_cast<double>((w(j, 1) >> 11) + 1) * 0x1p-53,
                 near = vocabulary::maximum(0.5 - std::abs(u), 0x1p-54);
    const double k = std::floor((a * 2 / near + b) * u + rate + 0.43);
    if (!(k >= 0 && k < rate * 256) || (near < 0.013 && v > near)) continue;
    if (near >= 0.07 && v <= sure) return k;
    const double square = near * near, chance = v * scale * square / (square * b + a);
    const double n = k + 1, log_n = w.log(n / rate), inverse = 1 / n, inverse2 = inverse * inverse;
    const double stirling = inverse * (1.0 / 12 - inverse2 * (1.0 / 360 - inverse2 * (1.0 / 1260)));
    const double logs = (n - 1) * log_n + (log_n + log_rate) * 0.5;
    if (w.log(vocabulary::maximum(chance, 0x1p-200)) <= n - rate - logs - 0.91893853320467274 - stirling) return k;
  }
  return std::floor(rate);
}

inline constexpr double least_rate = 12, most_rate = 0x1p31;

/// drawn_poisson of one element.
inline void draw_poisson(const element_words& w, double rate, double& out) {
  if (!(rate >= 0 && rate < std::numeric_limits<double>::infinity())) {
    out = std::numeric_limits<double>::quiet_NaN();
  } else if (rate > most_rate) {
    out = std::floor(rate + w.normal(0, 2) * std::sqrt(rate) + 0.5);
  } else {
    out = draw_count(w, vocabulary::maximum(rate, least_rate));
    if (rate >= least_rate) return;
    double few = 0;
    const double trials = vocabulary::minimum(out, static_cast<double>(count_trials)), chance = rate * (1 / least_rate);
    for (std::int64_t i = 0; static_cast<double>(i) < trials; ++i)
      few += static_cast<double>(w(i, 64) >> 11) * 0x1p-53 < chance;
    out = few;
  }
}

SINTER_API drawn_numbers drawn_poisson(const tensor<std::uint64_t, 0>& state, const drawn_numbers& rate, location at) {
  constexpr double least = least_rate, most = most_rate, inf = std::numeric_limits<double>::infinity();
  constexpr std::int64_t trials = count_trials;  // of rate 12 the chance of more is 1e-14
  if (draws_here("poisson", rate, at)) {
    handle out = allocate("poisson", dtype::f64, dims{extents_of(rate, at)[0]}, at);
    each_drawn(state, rate, 0, at, draw_poisson, out);
    return typed<double, dims{dyn}>(out, at);
  }
  const attempt_words w = words_of(state, rate, 0, at);
  const drawn_numbers large = draw_counts(w, maximum(minimum(rate, most, at), least, at), at);
  // One of a smaller rate is some of a count of rate 12, each taken with the chance rate / 12.
  const auto i = w.attempts(trials);
  const auto words = attempt_words{state, w.n, 64, at}.of(i, 0);
  const auto chance = sinter::expand_dims<1>(drawn_numbers(mul(rate, 1 / least, at)), at);
  const auto counts = lt(cast<double>(i, at), sinter::expand_dims<1>(large, at), at);
  const auto taken = bit_and(counts, lt(unit<double>(words, at), chance, at), at);
  const drawn_numbers few = cast<double>(sum(cast<std::int64_t>(taken, at), axis<1>, at), at);
  const auto normal = cast<double>(cast<std::int64_t>(gauss(w.word(2), w.word(3), at), at), at);
  const auto beyond = mul(mul(normal, 0x1p-56, at), sqrt(rate, at), at);
  const drawn_numbers huge = floor(add(add(rate, beyond, at), 0.5, at), at);
  const auto count = where(lt(rate, least, at), few, where(gt(rate, most, at), huge, large, at), at);
  const auto valid = bit_and(ge(rate, 0, at), lt(rate, inf, at), at);
  return where(valid, count, std::numeric_limits<double>::quiet_NaN(), at);
}

}  // namespace sinter::detail
