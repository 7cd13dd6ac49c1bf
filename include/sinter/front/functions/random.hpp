// front/functions/random.hpp: random tensors from explicit keys: Philox 4x32-10 (Salmon et al., SC'11), one counter per element.
#pragma once

#include <array>
#include <concepts>
#include <utility>
#include <vector>

#include "factories.hpp"

namespace sinter {

/// What random numbers are a function of. The same key gives the same numbers on every backend; use each key once, and
/// split it for more.
struct key {
  tensor<std::uint64_t, 0> state;
};

/// A key from a seed, in the host's memory: numbers are drawn from it on any device.
template <std::integral Seed>
key make_key(Seed seed, location at = location::current()) {
  const detail::target host = engine::current() ? detail::target() : device::cpu();
  return {detail::filled<std::uint64_t, dims(0)>("make_key", static_cast<std::uint64_t>(seed), {}, host, at)};
}

namespace detail {

// Elements draw counters below 2^62, second words from 2^62; children of a key draw counters from 2^63.
inline constexpr std::uint64_t second_word = std::uint64_t{1} << 62, first_child = std::uint64_t{1} << 63;

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
  static_assert(is_float(dtype_of<T>), "sinter: [uniform, normal] give floating dtypes; use randint for integers");
  return is_float(dtype_of<T>);
}

/// A key's state, and the device that draws from it: the one given, or a GPU that the key is on, or the default.
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

template <element T, dims Shape>
tensor<T, Shape> draw_uniform(const key& k, const index_array<Shape.rank>& extents, const target& where, location at) {
  if constexpr (check_random_dtype<T>()) {
    const source s("uniform", k, where, at);
    return evaluate_on(unit<T>(philox(s.state, counters<Shape>("uniform", extents, sizeof(T), at), at), at), s.on,
                       at.in("uniform"));
  } else {
    return tensor<T, Shape>();
  }
}

/// Made in f64 whatever T is (gauss, ir/vocabulary.hpp), so that the tails are long and the bits everywhere the same.
template <element T, dims Shape>
tensor<T, Shape> draw_normal(const key& k, const index_array<Shape.rank>& extents, const target& where, location at) {
  if constexpr (check_random_dtype<T>()) {
    const source s("normal", k, where, at);
    const auto index = counters<Shape>("normal", extents, sizeof(T), at);
    const auto words = gauss(philox(s.state, index, at), philox(s.state, add(index, second_word, at), at), at);
    const auto value = mul(cast<double>(cast<std::int64_t>(words, at), at), formula_number{0x1p-56}, at);
    using work = compute_type<T>;
    if constexpr (std::is_same_v<T, double>) return evaluate_on(value, s.on, at.in("normal"));
    else if constexpr (std::is_same_v<T, work>) return evaluate_on(cast<T>(value, at), s.on, at.in("normal"));
    else return evaluate_on(cast<T>(cast<work>(value, at), at), s.on, at.in("normal"));
  } else {
    return tensor<T, Shape>();
  }
}

template <dims Shape>
tensor<bool, Shape> draw_bernoulli(const key& k, double p, const index_array<Shape.rank>& extents, const target& where,
                                   location at) {
  if (!(p >= 0 && p <= 1)) fail("bernoulli", "the probability must be in [0, 1]; it is " + text::number(p), at);
  const source s("bernoulli", k, where, at);
  return evaluate_on(lt(unit<double>(philox(s.state, counters<Shape>("bernoulli", extents, 1, at), at), at), p, at),
                     s.on, at.in("bernoulli"));
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

/// uniform<T>(key, extents…): floats in [0, 1). normal<T>(key, extents…): mean 0, variance 1. Both also as
/// uniform<T, dims{3, 4}>(key), with an array of extents, and of rank 0 as uniform<T>(key). A device may stand last; by
/// default numbers are drawn on the GPU that the key is on, else on default_device(). They are the same on every device.
/// Floating dtypes; user_error for negative extents.
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
#undef SINTER_X

/// bernoulli(key, p, extents…): true with probability p, bernoulli(key, p) one of rank 0. user_error unless p is in [0, 1].
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

/// randint<T>(key, low, high, extents…): integers in [low, high), randint<T>(key, low, high) one of rank 0; the bias is below
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

}  // namespace sinter
