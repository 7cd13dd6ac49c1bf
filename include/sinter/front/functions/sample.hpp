// front/functions/sample.hpp: permutations, choices with and without replacement; gamma, beta, poisson and dirichlet numbers.
#pragma once

#include <limits>

#include "movement.hpp"
#include "order.hpp"
#include "random.hpp"

namespace sinter {

namespace detail {

/// The places of the `count` smallest of n random words, in order: all orders of a set of places are equally likely.
template <std::same_as<key> Key>
tensor<std::int64_t, 1> drawn_places(const char* op, const Key& k, dim n, dim count, const target& where, location at) {
  const source s(op, k, where, at);
  const auto words = philox(s.state, counters<dims{dyn}>(op, {n}, 8, at), at);
  return typed<std::int64_t, dims{dyn}>(argsort_at(op, untyped(evaluate_on(words, s.on, at), at), 0, false, count, at),
                                        at);
}

}  // namespace detail

/// 0 to n - 1 in a random order, i64 of rank 1. All orders are equally likely. A device may follow, as in uniform. The same on every
/// device. user_error for a negative n, and for more than 2^31.
template <std::same_as<key> Key>
tensor<std::int64_t, 1> permutation(const Key& k, dim n, detail::target where = {},
                                    location here = location::current()) {
  return detail::drawn_places("permutation", k, n, n, where, here.in("permutation"));
}

/// n of x's rows (axis 0), all equally likely and drawn independently. With `replace` false, each row occurs at most once, in a
/// random order: choice(k, x, x.size(0), false) shuffles all rows. The same on every device. user_error for a negative n, for an x
/// without rows, and without replacement for fewer than n rows.
template <std::same_as<key> Key, tensor_like X>
auto choice(const Key& k, const X& x, dim n, bool replace = true, location here = location::current()) {
  const location at = here.in("choice");
  static_assert(X::rank > 0, "sinter: [choice] takes rows of a tensor; it has rank 0");
  if constexpr (X::rank == 0) {
    return x;
  } else {
    const auto from = detail::evaluate(x, at);
    const dim rows = detail::extents_of(from, at)[0];
    const detail::target on = detail::same_device(from, at);
    if (!replace) return take(from, detail::drawn_places("choice", k, rows, n, on, at), axis<0>, at);
    if (rows == 0 && n != 0) fail("choice", "x has no rows; test the extent before", at);
    const detail::source s("choice", k, on, at);
    const auto words = philox(s.state, detail::counters<dims{dyn}>("choice", {n}, 8, at), at);
    const tensor<std::int64_t, 1> places = detail::evaluate_on(cast<std::int64_t>(fmod(words, rows, at), at), s.on, at);
    return take(from, places, axis<0>, at);
  }
}

namespace detail {

/// A number for each set of parameters, from one or more words of `state`; NaN for invalid parameters. (transforms/sample_rules.hpp)
SINTER_API tensor<double, 1> drawn_gamma(const tensor<std::uint64_t, 0>& state, const tensor<double, 1>& shape,
                                         location at);
SINTER_API tensor<double, 1> drawn_beta(const tensor<std::uint64_t, 0>& state, const tensor<double, 1>& a,
                                        const tensor<double, 1>& b, location at);
SINTER_API tensor<double, 1> drawn_poisson(const tensor<std::uint64_t, 0>& state, const tensor<double, 1>& rate,
                                           location at);
SINTER_API tensor<double, 2> drawn_dirichlet(const tensor<std::uint64_t, 0>& state, const tensor<double, 2>& shape,
                                             location at);

/// False after the compile-time error that a parameter, or the result, does not have a floating dtype.
template <class... T>
constexpr bool check_parameters() {
  constexpr bool floats = (is_float(dtype_of<T>) && ...);
  static_assert(floats,
                "sinter: [gamma, beta, poisson, dirichlet] take and give floating dtypes; cast with cast<float>(x)");
  return floats;
}

/// A row of f64 numbers as T with these extents.
template <element T, dims Shape>
tensor<T, Shape> arranged(const tensor<double, 1>& x, const dims& extents, location at) {
  const auto all = typed<double, Shape>(views::reshape(untyped(x, at), extents, at), at);
  return tensor<T, Shape>(evaluate(as_drawn<T>(all, at), at));
}

/// A tensor's numbers as a row of f64.
template <class X>
tensor<double, 1> parameter_row(const X& x, location at) {
  return tensor<double, 1>(flatten(evaluate(cast<double>(x, at), at), at));
}

/// `draw` with the same number for all elements.
template <element T, dims Shape, class Draw, class... P>
tensor<T, Shape> draw_all(const char* op, const key& k, const index_array<Shape.rank>& extents, const target& where,
                          location at, Draw draw, P... parameters) {
  if constexpr (check_parameters<T>()) {
    const source s(op, k, where, at);
    check_static<Shape>(op, extents, at);
    const dims to = to_dims(extents);
    checked_numel(op, to, 8, at);
    return arranged<T, Shape>(draw(s.state, filled<double, dims{dyn}>(op, parameters, {to.numel()}, s.on, at)..., at),
                              to, at);
  } else {
    return tensor<T, Shape>();
  }
}

/// A tensor, or a number as a tensor on the other parameter's device.
template <class T, class X, class Other>
auto as_parameter(const X& x, const Other& other, location at) {
  if constexpr (tensor_like<X>) return evaluate(x, at);
  else return filled<T, dims{}>("beta", static_cast<T>(x), {}, same_device(other, at), at);
}

}  // namespace detail

/// gamma<T>(key, shape, extents…) of scale 1, beta<T>(key, a, b, extents…), poisson<T>(key, rate, extents…), with extents as in
/// truncated_normal. gamma(key, shape), beta(key, a, b), poisson(key, rate) take tensors, and draw a number for each element in
/// their dtype. All forms and devices give the same bits. Parameters are finite and above 0; a rate may be 0. Others give NaN. Counts of
/// poisson are integral. Rejection sampling makes 8 attempts at a number, and 12 at a count. If all are rejected, as for about
/// one in 1e10 numbers, gamma and beta keep the last attempt, and a count is about its rate.
/// Floating dtypes. gamma and beta have the derivatives of their inverse distribution function by its parameters (implicit
/// reparameterisation), accurate to 1e-9 and of any order. Counts have no derivative.
#define SINTER_X(NAME, DECLARED, ...)                                                                           \
  template <element T, std::same_as<key> Key>                                                                   \
  tensor<T, 0> NAME(const Key& k, DECLARED, detail::target where = {}, location at = location::current()) {     \
    return detail::draw_all<T, dims(0)>(#NAME, k, {}, where, at.in(#NAME), detail::drawn_##NAME, __VA_ARGS__);  \
  }                                                                                                             \
  template <element T, class... I>                                                                              \
  requires detail::extents_then_device<I...> tensor<T, detail::count_dims<I...>> NAME(                          \
      const key& k, DECLARED, detail::extent_here first, I... rest) {                                           \
    return detail::draw_all<T, detail::count_dims<I...>>(#NAME, k, detail::extents_from(first, rest...),        \
                                                         detail::target_from(rest...), first.at.in(#NAME),      \
                                                         detail::drawn_##NAME, __VA_ARGS__);                    \
  }                                                                                                             \
  template <element T, extent_like I, std::size_t R>                                                            \
  tensor<T, detail::of_rank<R>> NAME(const key& k, DECLARED, const std::array<I, R>& extents,                   \
                                     detail::target where = {}, location at = location::current()) {            \
    return detail::draw_all<T, detail::of_rank<R>>(#NAME, k, detail::as_extents(extents), where, at.in(#NAME),  \
                                                   detail::drawn_##NAME, __VA_ARGS__);                          \
  }                                                                                                             \
  template <element T, dims Shape, std::same_as<key> Key>                                                       \
  tensor<T, Shape> NAME(const Key& k, DECLARED, detail::target where = {}, location at = location::current()) { \
    return detail::draw_all<T, Shape>(#NAME, k, detail::known_extents<Shape>(), where, at.in(#NAME),            \
                                      detail::drawn_##NAME, __VA_ARGS__);                                       \
  }
#define SINTER_TWO double a, double b
SINTER_X(gamma, double shape, shape)
SINTER_X(beta, SINTER_TWO, a, b)
SINTER_X(poisson, double rate, rate)
#undef SINTER_TWO
#undef SINTER_X
#define SINTER_X(NAME)                                                                                                 \
  template <std::same_as<key> Key, tensor_like P>                                                                      \
  auto NAME(const Key& k, const P& parameter, location here = location::current()) {                                   \
    if constexpr (detail::check_parameters<typename P::value_type>()) {                                                \
      const location at = here.in(#NAME);                                                                              \
      const auto p = detail::evaluate(parameter, at);                                                                  \
      const detail::source s(#NAME, k, detail::same_device(p, at), at);                                                \
      return detail::arranged<typename P::value_type, P::static_shape>(                                                \
          detail::drawn_##NAME(s.state, detail::parameter_row(p, at), at), detail::to_dims(detail::extents_of(p, at)), \
          at);                                                                                                         \
    } else {                                                                                                           \
      return parameter;                                                                                                \
    }                                                                                                                  \
  }
SINTER_X(gamma)
SINTER_X(poisson)
#undef SINTER_X
template <std::same_as<key> Key, operand_like A, operand_like B>
requires(tensor_like<A> || tensor_like<B>) auto beta(const Key& k, const A& a, const B& b,
                                                     location here = location::current()) {
  using T = detail::target_of<ir::op::add, A, B>;
  const location at = here.in("beta");
  const auto x = detail::as_parameter<T>(a, b, at);
  const auto y = detail::as_parameter<T>(b, a, at);
  if constexpr (detail::check_parameters<T>() && detail::accepts<detail::named::beta, ir::op::add, void, A, B>()) {
    const auto both = detail::evaluate(add(x, y, at), at);
    const dims extents = detail::to_dims(detail::extents_of(both, at));
    const auto row = [&](const auto& p) {
      constexpr dims shape = std::remove_cvref_t<decltype(both)>::static_shape;
      const auto wide = detail::views::broadcast(detail::untyped(p, at), extents, at);
      return detail::parameter_row(detail::typed<T, shape>(wide, at), at);
    };
    const detail::source s("beta", k, detail::same_device(both, at), at);
    return detail::arranged<T, std::remove_cvref_t<decltype(both)>::static_shape>(
        detail::drawn_beta(s.state, row(x), row(y), at), extents, at);
  } else {
    return x;
  }
}

/// Numbers with sum 1 from Dirichlet's distribution, for each vector along the last axis of `shape`. A vector with a parameter
/// that is not finite and above 0 gives NaN throughout. As in gamma, all devices give the same bits. The derivative by a
/// parameter is that of its number's inverse distribution function; the other numbers change in proportion. user_error for a
/// last axis of extent 0.
template <std::same_as<key> Key, tensor_like P>
auto dirichlet(const Key& k, const P& shape, location here = location::current()) {
  constexpr bool rank = P::rank > 0;
  static_assert(rank, "sinter: [dirichlet] takes a tensor of parameters, those of a vector along its last axis");
  if constexpr (detail::check_parameters<typename P::value_type>() && rank) {
    const location at = here.in("dirichlet");
    const auto p = detail::evaluate(cast<double>(shape, at), at);
    const dims extents = detail::to_dims(detail::extents_of(p, at));
    detail::check_some("dirichlet", extents, P::rank - 1, at);
    const dim n = extents[P::rank - 1];
    const detail::source s("dirichlet", k, detail::same_device(p, at), at);
    const auto rows = detail::typed<double, dims(2)>(
        detail::views::reshape(detail::untyped(p, at), dims{extents.numel() / n, n}, at), at);
    return detail::arranged<typename P::value_type, P::static_shape>(
        tensor<double, 1>(flatten(detail::drawn_dirichlet(s.state, rows, at), at)), extents, at);
  } else {
    return shape;
  }
}

}  // namespace sinter
