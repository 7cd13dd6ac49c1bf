// mesh/functions.hpp: pointwise functions, products and reductions of placed tensors.
#pragma once

#include "placed.hpp"

namespace sinter {

namespace detail::meshes {

template <class L>
struct outcomes;
/// A rule for each axis of a list. Rule::of(hold, hold) gives an outcome.
template <class... P>
struct outcomes<list<P...>> {
  template <class Rule, class LA, class LB>
  static constexpr fault first_fault() {
    fault f = fault::none;
    static_cast<void>(
        (... || ((f = Rule::of(along_axis<axis_of<P>>(LA{}), along_axis<axis_of<P>>(LB{})).why) != fault::none)));
    return f;
  }
  template <class Rule, class LA, class LB>
  using result = canonical_t<
      placement_for<axis_of<P>, Rule::of(along_axis<axis_of<P>>(LA{}), along_axis<axis_of<P>>(LB{})).held>...>;
};

/// f of the local tensors of a and b, with the placements that Rule gives.
template <class Rule, class A, class B, class F>
auto both(const A& a, const B& b, location at, const F& f) {
  using la = placements_of<A>;
  using lb = placements_of<B>;
  using all = outcomes<decltype(axes_in(la{}, lb{}))>;
  constexpr fault why = all::template first_fault<Rule, la, lb>();
  if constexpr (accepted<why>()) {
    using l = typename all::template result<Rule, la, lb>;
    auto y = settle_tree(f(conversion<la, l>::apply(local(a), at), conversion<lb, l>::apply(local(b), at)));
    return placed_tensor<decltype(y), l>(std::move(y));
  } else {
    return a;
  }
}
/// f of the local tensor of x.
template <class Rule, class X, class F>
auto alone(const X& x, const F& f) {
  using l = placements_of<X>;
  using all = outcomes<l>;
  constexpr fault why = all::template first_fault<Rule, l, l>();
  if constexpr (accepted<why>()) {
    auto y = settle_tree(f(local(x)));
    return placed_tensor<decltype(y), typename all::template result<Rule, l, l>>(std::move(y));
  } else {
    return x;
  }
}

/// A shard's axis in a result of a higher rank.
constexpr hold shifted(hold h, int by) { return h.how == kind::shard ? hold{kind::shard, h.along + by} : h; }

template <op_class Op, int RankA, int RankB>
struct binary_rule {
  static constexpr outcome of(hold a, hold b) {
    constexpr int rank = RankA > RankB ? RankA : RankB;
    return pointwise(Op, shifted(a, rank - RankA), shifted(b, rank - RankB));
  }
};
template <bool Linear>
struct unary_rule {
  static constexpr outcome of(hold a, hold) {
    return a.how == kind::partial && !Linear ? outcome{{}, fault::not_linear} : outcome{a};
  }
};
/// x + c of a number c.
struct offset_rule {
  static constexpr outcome of(hold a, hold) {
    return a.how == kind::partial ? outcome{{}, fault::partial_sum} : outcome{a};
  }
};
template <int RankA, int RankB>
struct product_rule {
  static constexpr outcome of(hold a, hold b) { return product(a, RankA, b, RankB); }
};
template <int Rank, bool Sum, bool Linear, int... Axes>
struct reduction_rule {
  static constexpr axes_of_tensor over = [] {
    axes_of_tensor out;
    if (sizeof...(Axes) == 0) out.at.fill(true);
    static_cast<void>((..., (out.at[static_cast<std::size_t>(Axes < 0 ? Axes + Rank : Axes)] = true)));
    return out;
  }();
  static constexpr outcome of(hold a, hold) { return reduced(a, over, Sum, Linear); }
};

template <class T>
concept cpp_number = std::is_arithmetic_v<std::remove_cvref_t<T>>;

template <class T>
concept plain_operand = tensor_like<std::remove_cvref_t<T>>;

template <class>
inline constexpr bool never = false;

}  // namespace detail::meshes

#define SINTER_PLACED_AND_PLAIN(NAME)                                                                                 \
  template <detail::meshes::any_placed A, detail::meshes::plain_operand B>                                            \
  A NAME(const A& a, const B&, location = location::current()) {                                                      \
    static_assert(detail::meshes::never<B>,                                                                           \
                  "sinter: [" #NAME "] a placed tensor with a plain one: place it by as<P...>(x), or take local(x)"); \
    return a;                                                                                                         \
  }                                                                                                                   \
  template <detail::meshes::plain_operand A, detail::meshes::any_placed B>                                            \
  B NAME(const A&, const B& b, location = location::current()) {                                                      \
    static_assert(detail::meshes::never<A>,                                                                           \
                  "sinter: [" #NAME "] a placed tensor with a plain one: place it by as<P...>(x), or take local(x)"); \
    return b;                                                                                                         \
  }
// Functions of two placed tensors, or of one and a number.
#define SINTER_PLACED_2(NAME, OP, SUM_WITH_NUMBER, NUMBER_FIRST)                                                       \
  template <detail::meshes::any_placed A, detail::meshes::any_placed B>                                                \
  auto NAME(const A& a, const B& b, location at = location::current()) {                                               \
    using namespace detail::meshes;                                                                                    \
    return both<binary_rule<op_class::OP, local_of<A>::rank, local_of<B>::rank>>(                                      \
        a, b, at, [&](const auto& x, const auto& y) { return sinter::NAME(x, y, at); });                               \
  }                                                                                                                    \
  template <detail::meshes::any_placed A, detail::meshes::cpp_number B>                                                \
  auto NAME(const A& a, B b, location at = location::current()) {                                                      \
    return detail::meshes::alone<detail::meshes::SUM_WITH_NUMBER>(                                                     \
        a, [&](const auto& x) { return sinter::NAME(x, b, at); });                                                     \
  }                                                                                                                    \
  template <detail::meshes::cpp_number A, detail::meshes::any_placed B>                                                \
  auto NAME(A a, const B& b, location at = location::current()) {                                                      \
    return detail::meshes::alone<detail::meshes::NUMBER_FIRST>(b,                                                      \
                                                               [&](const auto& x) { return sinter::NAME(a, x, at); }); \
  }                                                                                                                    \
  SINTER_PLACED_AND_PLAIN(NAME)

/// Functions of placed tensors, element by element; they broadcast as those of tensors do. Placements that have no common
/// result are compile-time errors.
SINTER_PLACED_2(add, sum, offset_rule, offset_rule)
SINTER_PLACED_2(sub, sum, offset_rule, offset_rule)
SINTER_PLACED_2(mul, product, unary_rule<true>, unary_rule<true>)
SINTER_PLACED_2(div, quotient, unary_rule<true>, unary_rule<false>)
SINTER_PLACED_2(pow, general, unary_rule<false>, unary_rule<false>)
SINTER_PLACED_2(maximum, general, unary_rule<false>, unary_rule<false>)
SINTER_PLACED_2(minimum, general, unary_rule<false>, unary_rule<false>)
SINTER_PLACED_2(eq, general, unary_rule<false>, unary_rule<false>)
SINTER_PLACED_2(ne, general, unary_rule<false>, unary_rule<false>)
SINTER_PLACED_2(lt, general, unary_rule<false>, unary_rule<false>)
SINTER_PLACED_2(le, general, unary_rule<false>, unary_rule<false>)
SINTER_PLACED_2(gt, general, unary_rule<false>, unary_rule<false>)
SINTER_PLACED_2(ge, general, unary_rule<false>, unary_rule<false>)
#undef SINTER_PLACED_2
#undef SINTER_PLACED_AND_PLAIN

#define SINTER_PLACED_OPERATOR(SYMBOL, NAME)                                                                  \
  template <class A, class B>                                                                                 \
  requires(detail::meshes::any_placed<A> || detail::meshes::any_placed<B>) auto operator SYMBOL(const A& a,   \
                                                                                                const B& b) { \
    return sinter::NAME(a, b, location{});                                                                    \
  }
SINTER_PLACED_OPERATOR(+, add)
SINTER_PLACED_OPERATOR(-, sub)
SINTER_PLACED_OPERATOR(*, mul)
SINTER_PLACED_OPERATOR(/, div)
#undef SINTER_PLACED_OPERATOR

/// x as dtype R. A partial value is rounded on each rank.
template <element R, detail::meshes::any_placed X>
auto cast(const X& x, location at = location::current()) {
  return detail::meshes::alone<detail::meshes::unary_rule<true>>(x,
                                                                 [&](const auto& y) { return sinter::cast<R>(y, at); });
}

#define SINTER_PLACED_1(NAME, LINEAR)                                 \
  template <detail::meshes::any_placed X>                             \
  auto NAME(const X& x, location at = location::current()) {          \
    return detail::meshes::alone<detail::meshes::unary_rule<LINEAR>>( \
        x, [&](const auto& y) { return sinter::NAME(y, at); });       \
  }
SINTER_PLACED_1(neg, true)
SINTER_PLACED_1(stop_gradient, true)
SINTER_PLACED_1(abs, false)
SINTER_PLACED_1(sign, false)
SINTER_PLACED_1(exp, false)
SINTER_PLACED_1(exp2, false)
SINTER_PLACED_1(expm1, false)
SINTER_PLACED_1(log, false)
SINTER_PLACED_1(log2, false)
SINTER_PLACED_1(log1p, false)
SINTER_PLACED_1(sqrt, false)
SINTER_PLACED_1(rsqrt, false)
SINTER_PLACED_1(cbrt, false)
SINTER_PLACED_1(sin, false)
SINTER_PLACED_1(cos, false)
SINTER_PLACED_1(tan, false)
SINTER_PLACED_1(tanh, false)
SINTER_PLACED_1(sigmoid, false)
SINTER_PLACED_1(erf, false)
SINTER_PLACED_1(relu, false)
SINTER_PLACED_1(gelu, false)
SINTER_PLACED_1(silu, false)
SINTER_PLACED_1(softplus, false)
SINTER_PLACED_1(square, false)
SINTER_PLACED_1(reciprocal, false)
SINTER_PLACED_1(floor, false)
SINTER_PLACED_1(ceil, false)
SINTER_PLACED_1(round, false)
SINTER_PLACED_1(isnan, false)
SINTER_PLACED_1(isfinite, false)
#undef SINTER_PLACED_1

template <detail::meshes::any_placed X>
auto operator-(const X& x) {
  return sinter::neg(x, location{});
}

/// The matrix product of placed tensors of rank 2 or more, as matmul of tensors. If an axis of the mesh divides the inner axis
/// of both, the result is partial along it.
template <detail::meshes::any_placed A, detail::meshes::any_placed B>
auto matmul(const A& a, const B& b, location at = location::current()) {
  using namespace detail::meshes;
  constexpr int rank_a = local_of<A>::rank, rank_b = local_of<B>::rank;
  static_assert(rank_a >= 2 && rank_b >= 2, "sinter: [matmul] placed operands have rank 2 or more; reshape local(x)");
  return both<product_rule<rank_a, rank_b>>(a, b, at,
                                            [&](const auto& x, const auto& y) { return sinter::matmul(x, y, at); });
}

#define SINTER_PLACED_REDUCTION(NAME, SUM, LINEAR)                                   \
  template <detail::meshes::any_placed X, int... A>                                  \
  auto NAME(const X& x, axis_t<A...> over = {}, location at = location::current()) { \
    using namespace detail::meshes;                                                  \
    return alone<reduction_rule<local_of<X>::rank, SUM, LINEAR, A...>>(              \
        x, [&](const auto& y) { return sinter::NAME(y, over, at); });                \
  }
/// The sum over axes; over a divided axis it is partial.
SINTER_PLACED_REDUCTION(sum, true, true)
/// Over divided axes these are compile-time errors: each rank has only a part.
SINTER_PLACED_REDUCTION(mean, false, true)
SINTER_PLACED_REDUCTION(max, false, false)
SINTER_PLACED_REDUCTION(min, false, false)
SINTER_PLACED_REDUCTION(prod, false, false)
SINTER_PLACED_REDUCTION(logsumexp, false, false)
#undef SINTER_PLACED_REDUCTION

}  // namespace sinter
