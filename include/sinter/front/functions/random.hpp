// front/functions/random.hpp: random tensors from explicit keys: Philox 4x32-10 (Salmon et al., SC'11), one counter per element.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <utility>
#include <vector>

#include "arg_reduce.hpp"
#include "factories.hpp"
#include "reductions.hpp"

namespace sinter {

/// The source of random numbers. The same key gives the same numbers on every backend. Use each key once, and split it to draw
/// more.
struct key {
  tensor<std::uint64_t, 0> state;
};

/// A key from a seed, in the host's memory; it draws numbers on any device.
template <std::integral Seed>
key make_key(Seed seed, location at = location::current()) {
  const detail::target host = engine::current() ? detail::target() : device::cpu();
  return {detail::filled<std::uint64_t, dims(0)>("make_key", static_cast<std::uint64_t>(seed), {}, host, at)};
}

namespace detail {

// Elements draw counters below 2^62, and second words from 2^62. Children of a key draw counters from 2^63, and folded numbers
// from 3 · 2^62.
inline constexpr std::uint64_t second_word = std::uint64_t{1} << 62, first_child = std::uint64_t{1} << 63,
                               first_folded = first_child + second_word;

template <std::same_as<key> Key>
Key child(const Key& k, std::uint64_t i, location at) {
  return {evaluate(philox(k.state, first_child + i, at), at)};
}

template <dims Shape>
auto counters(const char* op, const index_array<Shape.rank>& extents, std::size_t element, location at) {
  check_static<Shape>(op, extents, at);
  checked_numel(op, to_dims(extents), element, at);
  return index_leaf<std::uint64_t, Shape>(extents, -1);
}

/// The significand bits of a floating type.
template <class T>
inline constexpr int significand = std::is_same_v<T, double>    ? 53
                                   : std::is_same_v<T, f16>     ? 11
                                   : std::is_same_v<T, bf16>    ? 8
                                   : std::is_same_v<T, f8_e4m3> ? 4
                                   : std::is_same_v<T, f8_e5m2> ? 3
                                                                : 24;

/// The top bits of words as multiples of 2^-n in [0, 1): exact in T.
template <class T, class Words>
auto unit(const Words& words, location at) {
  constexpr int n = significand<T>;
  return mul(cast<T>(shr(words, 64 - n, at), at),
             detail::formula_number{1.0 / static_cast<double>(std::uint64_t{1} << n)}, at);
}

/// False after the compile-time error.
template <class T>
constexpr bool check_random_dtype() {
  static_assert(is_float(dtype_of<T>),
                "sinter: [uniform, normal, truncated_normal, exponential, laplace] give floating dtypes; use randint "
                "for integers");
  return is_float(dtype_of<T>);
}

/// A key's state and the device that draws: the given device, or the key's GPU, or the default.
struct source {
  tensor<std::uint64_t, 0> state;
  device on;

  template <std::same_as<key> Key>  // compiled where something is drawn
  source(const char* op, const Key& k, const target& where, location at) : state(k.state) {
    on = resolve(op, where, at);
    if (engine::current()) return;
    const device here = k.state.device(at);
    if (!here.is_cuda()) return;
    if (!where.given) on = here;
    else state = k.state.to(on, at);
  }
};

/// f64 numbers as T.
template <class T, class X>
auto as_drawn(const X& x, location at) {
  using work = compute_type<T>;
  if constexpr (std::is_same_v<T, double>) return x;
  else if constexpr (std::is_same_v<T, work>) return cast<T>(x, at);
  else return cast<T>(cast<work>(x, at), at);
}

/// The numbers of a key's state at the counters `index`.
template <class T, class Index>
auto uniform_numbers(const tensor<std::uint64_t, 0>& state, const Index& index, location at) {
  return unit<T>(philox(state, index, at), at);
}
/// Computed in f64 for every T (gauss, ir/vocabulary.hpp): the tails are long, and the bits are the same on all devices.
template <class T, class Index>
auto normal_numbers(const tensor<std::uint64_t, 0>& state, const Index& index, location at) {
  const auto words = gauss(philox(state, index, at), philox(state, add(index, second_word, at), at), at);
  return as_drawn<T>(mul(cast<double>(cast<std::int64_t>(words, at), at), formula_number{0x1p-56}, at), at);
}
template <class Index>
auto bernoulli_numbers(const tensor<std::uint64_t, 0>& state, double p, const Index& index, location at) {
  return lt(uniform_numbers<double>(state, index, at), p, at);
}

template <element T, dims Shape>
tensor<T, Shape> draw_uniform(const key& k, const index_array<Shape.rank>& extents, const target& where, location at) {
  if constexpr (check_random_dtype<T>()) {
    const source s("uniform", k, where, at);
    return evaluate_on(uniform_numbers<T>(s.state, counters<Shape>("uniform", extents, sizeof(T), at), at), s.on,
                       at.in("uniform"));
  } else {
    return tensor<T, Shape>();
  }
}

template <element T, dims Shape>
tensor<T, Shape> draw_normal(const key& k, const index_array<Shape.rank>& extents, const target& where, location at) {
  if constexpr (check_random_dtype<T>()) {
    const source s("normal", k, where, at);
    return evaluate_on(normal_numbers<T>(s.state, counters<Shape>("normal", extents, sizeof(T), at), at), s.on,
                       at.in("normal"));
  } else {
    return tensor<T, Shape>();
  }
}

/// -log of the words as numbers in (0, 1], in f64: at most 36.8.
template <class Words>
auto minus_log(const Words& words, location at) {
  const auto unit = mul(cast<double>(add(shr(words, 11, at), 1, at), at), formula_number{0x1p-53}, at);
  return neg(log(unit, at), at);
}

template <element T, dims Shape>
tensor<T, Shape> draw_exponential(const key& k, const index_array<Shape.rank>& extents, const target& where,
                                  location at) {
  if constexpr (check_random_dtype<T>()) {
    const source s("exponential", k, where, at);
    const auto words = philox(s.state, counters<Shape>("exponential", extents, sizeof(T), at), at);
    return evaluate_on(as_drawn<T>(minus_log(words, at), at), s.on, at.in("exponential"));
  } else {
    return tensor<T, Shape>();
  }
}

/// The sign is a bit that the magnitude does not use.
template <element T, dims Shape>
tensor<T, Shape> draw_laplace(const key& k, const index_array<Shape.rank>& extents, const target& where, location at) {
  if constexpr (check_random_dtype<T>()) {
    const source s("laplace", k, where, at);
    const auto words = philox(s.state, counters<Shape>("laplace", extents, sizeof(T), at), at);
    const auto size = minus_log(words, at);
    const auto value = sinter::where(eq(bit_and(words, 1, at), 0, at), size, neg(size, at), at);
    return evaluate_on(as_drawn<T>(value, at), s.on, at.in("laplace"));
  } else {
    return tensor<T, Shape>();
  }
}

/// n normal numbers conditioned on [low, high], low above 0, from a word of `state` each. (transforms/sample_rules.hpp)
SINTER_API tensor<double, 1> drawn_tail(const tensor<std::uint64_t, 0>& state, dim n, device on, double low,
                                        double high, location at);

/// The nearest T not below x, or with `down` not above x; x if T has no such number.
template <class T>
double bound_in(double x, bool down) {
  using work = compute_type<T>;
  const double step = std::abs(x) * std::ldexp(1.0, 1 - significand<T>);
  for (const double to : {x, down ? x - step : x + step}) {
    const double in_type = static_cast<double>(static_cast<T>(static_cast<work>(to)));
    if (std::isfinite(in_type) && (down ? in_type <= x : in_type >= x)) return in_type;
  }
  return x;
}

/// For an interval around 0: √2 · erfinv of a number between erf(low / √2) and erf(high / √2). Other intervals draw from their tail.
template <element T, dims Shape>
tensor<T, Shape> draw_truncated(const key& k, double low, double high, const index_array<Shape.rank>& extents,
                                const target& where, location at) {
  if constexpr (check_random_dtype<T>()) {
    if (!(low < high))
      fail("truncated_normal", "needs low < high; they are " + text::number(low) + " and " + text::number(high), at);
    const source s("truncated_normal", k, where, at);
    const auto index = counters<Shape>("truncated_normal", extents, sizeof(T), at);
    if (low > 0 || high < 0) {
      const bool below = high < 0;
      const auto row =
          drawn_tail(s.state, to_dims(extents).numel(), s.on, below ? -high : low, below ? -low : high, at);
      const auto size = typed<double, Shape>(views::reshape(untyped(row, at), to_dims(extents), at), at);
      const auto value = evaluate(mul(size, below ? -1.0 : 1.0, at), at);
      return evaluate_on(
          as_drawn<T>(minimum(maximum(value, bound_in<T>(low, false), at), bound_in<T>(high, true), at), at), s.on,
          at.in("truncated_normal"));
    }
    constexpr double root = 1.4142135623730951;
    const double from = std::erf(low / root), to = std::erf(high / root);
    const auto u = unit<double>(philox(s.state, index, at), at);
    constexpr double last = 1 - 0x1p-53;  // beyond it erfinv is infinite
    const auto place = minimum(maximum(add(mul(u, to - from, at), from, at), -last, at), last, at);
    const auto value = mul(erfinv(place, at), root, at);
    return evaluate_on(as_drawn<T>(minimum(maximum(value, low, at), high, at), at), s.on, at.in("truncated_normal"));
  } else {
    return tensor<T, Shape>();
  }
}

template <dims Shape>
tensor<bool, Shape> draw_bernoulli(const key& k, double p, const index_array<Shape.rank>& extents, const target& where,
                                   location at) {
  if (!(p >= 0 && p <= 1)) fail("bernoulli", "the probability must be in [0, 1]; it is " + text::number(p), at);
  const source s("bernoulli", k, where, at);
  return evaluate_on(bernoulli_numbers(s.state, p, counters<Shape>("bernoulli", extents, 1, at), at), s.on,
                     at.in("bernoulli"));
}

template <element T, dims Shape>
tensor<T, Shape> draw_randint(const key& k, T low, T high, const index_array<Shape.rank>& extents, const target& where,
                              location at) {
  static_assert(is_integer(dtype_of<T>), "sinter: [randint] gives integers; use uniform for floating dtypes");
  if (!(low < high))
    fail("randint", "needs low < high; they are " + std::to_string(low) + " and " + std::to_string(high), at);
  const std::uint64_t width = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  const source s("randint", k, where, at);
  const auto words = philox(s.state, counters<Shape>("randint", extents, sizeof(T), at), at);
  return evaluate_on(add(cast<T>(fmod(words, width, at), at), low, at), s.on, at.in("randint"));
}

// Draws of these types and ranks are the compiled engine's.
#define SINTER_DRAWN(X) X(1) X(2) X(3) X(4)
#if defined(SINTER_COMPILED)
#define SINTER_X(R)                                                                                                \
  extern template tensor<float, dims(R)> draw_uniform(const key&, const index_array<R>&, const target&, location); \
  extern template tensor<float, dims(R)> draw_normal(const key&, const index_array<R>&, const target&, location);  \
  extern template tensor<bool, dims(R)> draw_bernoulli(const key&, double, const index_array<R>&, const target&,   \
                                                       location);                                                  \
  extern template tensor<std::int64_t, dims(R)> draw_randint(const key&, std::int64_t, std::int64_t,               \
                                                             const index_array<R>&, const target&, location);
SINTER_DRAWN(SINTER_X)
#undef SINTER_X
#endif

}  // namespace detail

/// Two keys whose numbers are independent of each other's and of `k`'s.
template <std::same_as<key> Key>
std::pair<Key, Key> split(const Key& k, location at = location::current()) {
  return {detail::child(k, 0, at), detail::child(k, 1, at)};
}
/// `n` such keys; user_error for a negative number.
template <std::same_as<key> Key>
std::vector<Key> split(const Key& k, int n, location at = location::current()) {
  if (n < 0) fail("split", "the number of keys must not be negative; it is " + std::to_string(n), at);
  std::vector<Key> out;
  for (int i = 0; i < n; ++i) out.push_back(detail::child(k, static_cast<std::uint64_t>(i), at));
  return out;
}
/// N such keys, for structured bindings: `auto [a, b, c] = split<3>(k)`.
template <int N>
requires(N > 0) std::array < key, static_cast<std::size_t>(N)
> split(const key& k, location at = location::current()) {
  std::array<key, static_cast<std::size_t>(N)> out;
  for (int i = 0; i < N; ++i) out[static_cast<std::size_t>(i)] = detail::child(k, static_cast<std::uint64_t>(i), at);
  return out;
}

/// A key of `k` and a number, taken modulo 2^62. It is independent of the keys of other numbers and of the keys of split. A number
/// given as a tensor of rank 0 is read at each call of a compiled function, step of a loop, and lane.
template <std::same_as<key> Key, std::integral I>
Key fold_in(const Key& k, I number, location at = location::current()) {
  const std::uint64_t n = static_cast<std::uint64_t>(number) & (detail::second_word - 1);
  return {detail::evaluate(philox(k.state, detail::first_folded + n, at), at)};
}
template <std::same_as<key> Key, tensor_like I>
Key fold_in(const Key& k, const I& number, location at = location::current()) {
  constexpr bool fits = I::rank == 0 && is_integer(dtype_of<typename I::value_type>);
  static_assert(fits, "sinter: [fold_in] takes a number, or a tensor of rank 0 of integers");
  if constexpr (fits) {
    const auto n = bit_and(cast<std::uint64_t>(number, at), detail::second_word - 1, at);
    return {detail::evaluate(philox(k.state, add(n, detail::first_folded, at), at), at)};
  } else {
    return k;
  }
}

/// uniform<T>(key, extents…): floats in [0, 1). normal<T>(key, extents…): mean 0, variance 1. Other forms: an array of extents,
/// uniform<T, dims{3, 4}>(key), and rank 0 as uniform<T>(key). A device may follow; the default is the key's GPU, or else
/// default_device(). Every device draws the same numbers. Floating dtypes; user_error for negative extents.
#define SINTER_X(NAME)                                                                                                \
  template <element T>                                                                                                \
  tensor<T, 0> NAME(const key& k, detail::target where = {}, location at = location::current()) {                     \
    return detail::draw_##NAME<T, dims(0)>(k, {}, where, at);                                                         \
  }                                                                                                                   \
  template <element T, class... I>                                                                                    \
  requires detail::extents_then_device<I...> tensor<T, detail::count_dims<I...>> NAME(                                \
      const key& k, detail::extent_here first, I... rest) {                                                           \
    return detail::draw_##NAME<T, detail::count_dims<I...>>(k, detail::extents_from(first, rest...),                  \
                                                            detail::target_from(rest...), first.at);                  \
  }                                                                                                                   \
  template <element T, extent_like I, std::size_t R>                                                                  \
  tensor<T, detail::of_rank<R>> NAME(const key& k, const std::array<I, R>& extents, detail::target where = {},        \
                                     location at = location::current()) {                                             \
    return detail::draw_##NAME<T, detail::of_rank<R>>(k, detail::as_extents(extents), where, at);                     \
  }                                                                                                                   \
  template <element T, std::size_t R>                                                                                 \
  requires(R > 1) tensor<T, detail::of_rank<R>> NAME(const key& k, const dim(&extents)[R], detail::target where = {}, \
                                                     location at = location::current()) {                             \
    return NAME<T>(k, std::to_array(extents), where, at);                                                             \
  }                                                                                                                   \
  template <element T, dims Shape>                                                                                    \
  tensor<T, Shape> NAME(const key& k, detail::target where = {}, location at = location::current()) {                 \
    return detail::draw_##NAME<T, Shape>(k, detail::known_extents<Shape>(), where, at);                               \
  }
SINTER_X(uniform)
SINTER_X(normal)
/// As uniform: exponential<T>(key, extents…) of mean 1, laplace<T>(key, extents…) of mean 0 and variance 2. Both use logarithms, so
/// devices may differ in the last place.
SINTER_X(exponential)
SINTER_X(laplace)
#undef SINTER_X

/// bernoulli(key, p, extents…): true with probability p; bernoulli(key, p) has rank 0. user_error unless p is in [0, 1].
template <std::same_as<key> Key>  // compiled where something is drawn
tensor<bool, 0> bernoulli(const Key& k, double p, detail::target where = {}, location at = location::current()) {
  return detail::draw_bernoulli<dims(0)>(k, p, {}, where, at);
}
template <class... I>
requires detail::extents_then_device<I...> tensor<bool, detail::count_dims<I...>> bernoulli(const key& k, double p,
                                                                                            detail::extent_here first,
                                                                                            I... rest) {
  return detail::draw_bernoulli<detail::count_dims<I...>>(k, p, detail::extents_from(first, rest...),
                                                          detail::target_from(rest...), first.at);
}
template <extent_like I, std::size_t R>
tensor<bool, detail::of_rank<R>> bernoulli(const key& k, double p, const std::array<I, R>& extents,
                                           detail::target where = {}, location at = location::current()) {
  return detail::draw_bernoulli<detail::of_rank<R>>(k, p, detail::as_extents(extents), where, at);
}
template <dims Shape>
tensor<bool, Shape> bernoulli(const key& k, double p, detail::target where = {}, location at = location::current()) {
  return detail::draw_bernoulli<Shape>(k, p, detail::known_extents<Shape>(), where, at);
}

/// randint<T>(key, low, high, extents…): integers in [low, high); randint<T>(key, low, high) has rank 0. The bias is below
/// (high - low) / 2^64. user_error unless low < high and T can hold both.
template <element T>
tensor<T, 0> randint(const key& k, detail::fitting<T, detail::randint_name> low,
                     detail::fitting<T, detail::randint_name> high, detail::target where = {},
                     location at = location::current()) {
  return detail::draw_randint<T, dims(0)>(k, low, high, {}, where, at);
}
template <element T, class... I>
requires detail::extents_then_device<I...> tensor<T, detail::count_dims<I...>> randint(
    const key& k, detail::fitting<T, detail::randint_name> low, detail::fitting<T, detail::randint_name> high,
    detail::extent_here first, I... rest) {
  return detail::draw_randint<T, detail::count_dims<I...>>(k, low, high, detail::extents_from(first, rest...),
                                                           detail::target_from(rest...), first.at);
}
template <element T, extent_like I, std::size_t R>
tensor<T, detail::of_rank<R>> randint(const key& k, detail::fitting<T, detail::randint_name> low,
                                      detail::fitting<T, detail::randint_name> high, const std::array<I, R>& extents,
                                      detail::target where = {}, location at = location::current()) {
  return detail::draw_randint<T, detail::of_rank<R>>(k, low, high, detail::as_extents(extents), where, at);
}
template <element T, dims Shape>
tensor<T, Shape> randint(const key& k, detail::fitting<T, detail::randint_name> low,
                         detail::fitting<T, detail::randint_name> high, detail::target where = {},
                         location at = location::current()) {
  return detail::draw_randint<T, Shape>(k, low, high, detail::known_extents<Shape>(), where, at);
}

/// truncated_normal<T>(key, low, high, extents…): normal numbers conditioned on [low, high], at any distance from 0; either bound
/// may be infinite. They come from the inverse distribution function. If 0 is between low and high, devices may differ in the last
/// places; otherwise the bits are the same. Floating dtypes. user_error unless low < high.
template <element T, std::same_as<key> Key>
tensor<T, 0> truncated_normal(const Key& k, double low, double high, detail::target where = {},
                              location at = location::current()) {
  return detail::draw_truncated<T, dims(0)>(k, low, high, {}, where, at);
}
template <element T, class... I>
requires detail::extents_then_device<I...> tensor<T, detail::count_dims<I...>> truncated_normal(
    const key& k, double low, double high, detail::extent_here first, I... rest) {
  return detail::draw_truncated<T, detail::count_dims<I...>>(k, low, high, detail::extents_from(first, rest...),
                                                             detail::target_from(rest...), first.at);
}
template <element T, extent_like I, std::size_t R>
tensor<T, detail::of_rank<R>> truncated_normal(const key& k, double low, double high, const std::array<I, R>& extents,
                                               detail::target where = {}, location at = location::current()) {
  return detail::draw_truncated<T, detail::of_rank<R>>(k, low, high, detail::as_extents(extents), where, at);
}
template <element T, dims Shape, std::same_as<key> Key>
tensor<T, Shape> truncated_normal(const Key& k, double low, double high, detail::target where = {},
                                  location at = location::current()) {
  return detail::draw_truncated<T, Shape>(k, low, high, detail::known_extents<Shape>(), where, at);
}

/// An index, i64, for each vector along the last axis of logits, drawn with probabilities softmax(logits). It adds Gumbel noise, so
/// devices may differ where two sums nearly tie. -inf is never drawn beside a finite logit. Floating dtypes; user_error for a last
/// axis of extent 0.
template <std::same_as<key> Key, tensor_like X>
auto categorical(const Key& k, const X& logits, location here = location::current()) {
  constexpr bool rank = X::rank > 0, floats = is_float(dtype_of<typename X::value_type>);
  static_assert(rank && floats,
                "sinter: [categorical] takes logits of a floating dtype, classes along their last axis");
  if constexpr (rank && floats) {
    const location at = here.in("categorical");
    const auto x = detail::evaluate(logits, at);
    const detail::source s("categorical", k, detail::same_device(x, at), at);
    const auto words = philox(s.state, detail::counters<X::static_shape>("categorical", x.shape(), 8, at), at);
    const auto gumbel = neg(log(detail::minus_log(words, at), at), at);
    // log(0) is of the word that is all ones: 37.5, which no other word reaches, in place of infinity.
    const auto some = minimum(gumbel, detail::formula_number{37.5}, at);
    return argmax(add(cast<double>(x, at), some, at), axis<-1>, at);
  } else {
    return logits;
  }
}

}  // namespace sinter
