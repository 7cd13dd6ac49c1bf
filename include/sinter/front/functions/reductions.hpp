// front/functions/reductions.hpp: functions that combine elements over axes. They read pointwise operands once and never store them.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "../eager/rows.hpp"
#include "../evaluate/evaluate.hpp"
#include "../shapes/axes.hpp"
#include "arg_reduce.hpp"
#include "pointwise.hpp"
#include "reduce.hpp"

namespace sinter {

namespace detail {

using op_shapes::axis_list;

template <class X>
using element_of = typename X::value_type;

/// Statistics of halves are computed in f32 and rounded once.
template <class X>
constexpr decltype(auto) wide(const X& x, location at) {
  if constexpr (vocabulary::is_half<element_of<X>>) return sinter::cast<float>(x, at);
  else return (x);
}
template <class T, class X>
auto narrow(const X& x, location at) {
  if constexpr (vocabulary::is_half<T>) return detail::evaluate(sinter::cast<T>(x, at), at);
  else return detail::evaluate(x, at);
}

/// The number of elements that a reduction combines into one.
template <axis_list Axes, class X>
dim combined(const X& x, location at) {
  const auto e = extents_of(x, at);
  dim n = 1;
  for (int a : Axes) n *= e[static_cast<std::size_t>(a)];
  return n;
}

template <axis_list Axes, bool Keep, class X>
auto sum_over(const X& x, location at) {
  static_assert(!is_bool(dtype_of<element_of<X>>),
                "sinter: [sum] takes numbers, not bool; count with sum(cast<std::int64_t>(x))");
  return reduce<ir::op::add, Axes, Keep>(x, "sum", at);
}

template <axis_list Axes, bool Keep, class X>
auto prod_over(const X& x, location at) {
  static_assert(!is_bool(dtype_of<element_of<X>>),
                "sinter: [prod] takes numbers, not bool; cast with cast<std::int64_t>(x)");
  return reduce<ir::op::mul, Axes, Keep>(x, "prod", at);
}

/// `op` is the function that the user called.
template <axis_list Axes, bool Keep, class X>
auto max_over(const X& x, location at, const char* op = "max") {
  static_assert(!is_bool(dtype_of<element_of<X>>), "sinter: [max] takes numbers, not bool; use any(x)");
  return reduce<ir::op::maximum, Axes, Keep>(x, op, at);
}

template <axis_list Axes, bool Keep, class X>
auto min_over(const X& x, location at, const char* op = "min") {
  static_assert(!is_bool(dtype_of<element_of<X>>), "sinter: [min] takes numbers, not bool; use all(x)");
  return reduce<ir::op::minimum, Axes, Keep>(x, op, at);
}

template <axis_list Axes, bool Keep, class X>
auto any_over(const X& x, location at) {
  if constexpr (is_bool(dtype_of<element_of<X>>)) return reduce<ir::op::bit_or, Axes, Keep>(x, "any", at);
  else return reduce<ir::op::bit_or, Axes, Keep>(ne(x, 0, at), "any", at);
}

template <axis_list Axes, bool Keep, class X>
auto all_over(const X& x, location at) {
  if constexpr (is_bool(dtype_of<element_of<X>>)) return reduce<ir::op::bit_and, Axes, Keep>(x, "all", at);
  else return reduce<ir::op::bit_and, Axes, Keep>(ne(x, 0, at), "all", at);
}

/// x / n.
template <class X>
auto divided(const X& x, dim n, location at) {
  if (n.is_symbolic()) return detail::evaluate(div(x, n, at), at);
  return detail::evaluate(div(x, formula_number{static_cast<double>(n.bits)}, at), at);
}

/// x · n.
template <class X>
auto multiplied(const X& x, dim n, location at) {
  if (n.is_symbolic()) return detail::evaluate(mul(x, n, at), at);
  return detail::evaluate(mul(x, formula_number{static_cast<double>(n.bits)}, at), at);
}

template <axis_list Axes, bool Keep, class X>
auto mean_over(const X& x, location at) {
  if constexpr (takes_floats<named::mean, X>())
    return narrow<element_of<X>>(divided(sum_over<Axes, Keep>(wide(x, at), at), combined<Axes>(x, at), at), at);
  else return x;
}

template <axis_list Axes, bool Keep, class X>
auto drop_kept(const X& x, location at) {
  if constexpr (Keep) return x;
  else
    return typed<element_of<X>, op_shapes::reduce(X::static_shape, Axes, false).shape>(
        views::reshape(untyped(x, at), op_shapes::reduce(to_dims(x.shape()), Axes, false).shape, at), at);
}

/// The sum of squares of y over ascending axes in f64, which holds the squares of all f32. (nn_rules.hpp)
SINTER_API handle total_squares(const handle& y, const axis_list& axes, bool keep, location at);

template <axis_list Axes, bool Keep, class Y>
auto squares_over(const Y& y, location at) {
  constexpr dims shape = op_shapes::reduce(Y::static_shape, Axes, Keep).shape;
  return typed<double, shape>(total_squares(untyped(y, at), Axes, Keep, at), at);
}

/// Deviations from an approximate mean, and the mean of these deviations: it corrects squares and differences for the rounding
/// of the approximate mean. The elements are read in two passes, for the mean and for the squares.
template <class D, class M>
struct centring {
  M about;  ///< the approximate mean, without a derivative
  D off;    ///< x - about
  M mean;   ///< the mean of off

  auto differences(location at) const { return sub(off, mean, at); }
};
template <axis_list Axes, class Y>
auto centred(const Y& y, location at) {
  const auto about = detail::evaluate(stop_gradient(mean_over<Axes, true>(y, at), at), at);
  const auto off = detail::evaluate(sub(y, about, at), at);
  const auto mean = mean_over<Axes, true>(off, at);
  return centring<std::remove_const_t<decltype(off)>, std::remove_const_t<decltype(mean)>>{about, off, mean};
}
/// The sum of squared deviations from the mean over n elements; at least 0, and infinite if a square is.
template <axis_list Axes, bool Keep, class C>
auto centred_squares(const C& c, dim n, location at) {
  const auto squares = sum_over<Axes, true>(mul(c.off, c.off, at), at);
  const auto rest = multiplied(mul(c.mean, c.mean, at), n, at);
  const auto left = detail::evaluate(sub(squares, rest, at), at);
  // A selection has a derivative at 0 too: that of the operand it takes.
  const auto some = detail::evaluate(where(lt(left, 0, at), 0, left, at), at);
  return drop_kept<Axes, Keep>(detail::evaluate(where(isinf(squares, at), squares, some, at), at), at);
}

/// The variance or its root: one loop on the host, two passes in nodes. Divides by n - ddof, or by 0 if that is negative.
template <axis_list Axes, bool Keep, bool Root, class X>
auto variance(const X& x, int ddof, location at) {
  using T = element_of<X>;
  const auto& wider = wide(x, at);
  if constexpr (X::rank > 0)
    if (!engine::current()) {
      constexpr dims shape = op_shapes::reduce(X::static_shape, Axes, Keep).shape;
      constexpr auto f = Root ? engine::row_total::deviation : engine::row_total::variance;
      if (const auto v = eager_totals<shape>("var", f, wider, Axes, Keep, ddof, at)) return narrow<T>(*v, at);
    }
  const auto y = detail::evaluate(wider, at);
  const dim count = combined<Axes>(x, at), n = count - ddof;
  const auto v = divided(centred_squares<Axes, Keep>(centred<Axes>(y, at), count, at), n < 0 ? dim(0) : n, at);
  if constexpr (Root) return narrow<T>(root_of_squares(v, at), at);
  else return narrow<T>(v, at);
}
template <axis_list Axes, bool Keep, class X>
auto var_over(const X& x, int ddof, location at) {
  if constexpr (takes_floats<named::var, X>()) return variance<Axes, Keep, false>(x, ddof, at);
  else return x;
}
template <axis_list Axes, bool Keep, class X>
auto std_over(const X& x, int ddof, location at) {
  if constexpr (takes_floats<named::std, X>()) return variance<Axes, Keep, true>(x, ddof, at);
  else return x;
}
/// std under a second name.
template <axis_list Axes, bool Keep, class X>
auto stddev_over(const X& x, int ddof, location at) {
  return std_over<Axes, Keep>(x, ddof, at);
}

/// The maximum without a derivative, with 0 in place of infinities and NaN: exponents are computed relative to it.
template <axis_list Axes, class X>
auto finite_max(const X& x, location at) {
  const auto m = max_over<Axes, true>(x, at, "logsumexp");
  return detail::evaluate(stop_gradient(where(isfinite(m, at), m, 0, at), at), at);
}

template <axis_list Axes, bool Keep, class X>
auto logsumexp_over(const X& x, location at) {
  if constexpr (takes_floats<named::logsumexp, X>()) {
    const auto& wider = wide(x, at);
    if constexpr (X::rank > 0)
      if (!engine::current()) {
        constexpr dims shape = op_shapes::reduce(X::static_shape, Axes, Keep).shape;
        if (const auto v = eager_totals<shape>("logsumexp", engine::row_total::logsumexp, wider, Axes, Keep, 0, at))
          return narrow<element_of<X>>(*v, at);
      }
    const auto y = detail::evaluate(wider, at);
    const auto m = finite_max<Axes>(y, at);
    const auto s = sum_over<Axes, Keep>(exp(sub(y, m, at), at), at);
    // Of -inf alone the derivative is 0, as the exponentials'.
    constexpr formula_number lowest{-std::numeric_limits<double>::infinity()};
    const auto none = eq(s, 0, at);
    const auto logarithm = where(none, lowest, log(where(none, 1, s, at), at), at);
    return narrow<element_of<X>>(add(logarithm, drop_kept<Axes, Keep>(m, at), at), at);
  } else {
    return x;
  }
}

inline constexpr formula_number nothing{std::numeric_limits<double>::quiet_NaN()};

/// x with `with` in place of NaN; integers are unchanged.
template <class X>
auto without_nan(const X& x, double with, location at) {
  if constexpr (is_float(dtype_of<element_of<X>>)) return where(isnan(x, at), formula_number{with}, x, at);
  else return x;
}
/// The number of elements that are not NaN, in y's dtype.
template <axis_list Axes, bool Keep, class Y>
auto numbers_over(const Y& y, location at) {
  return sum_over<Axes, Keep>(cast<element_of<Y>>(bit_not(isnan(y, at), at), at), at);
}

template <axis_list Axes, bool Keep, class X>
auto nansum_over(const X& x, location at) {
  return sum_over<Axes, Keep>(without_nan(x, 0, at), at);
}
template <axis_list Axes, bool Keep, class X>
auto nanprod_over(const X& x, location at) {
  return prod_over<Axes, Keep>(without_nan(x, 1, at), at);
}
/// The extreme of the elements that are not NaN; NaN if there are none.
template <axis_list Axes, bool Keep, class X>
auto nanmax_over(const X& x, location at) {
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  const auto m = max_over<Axes, Keep>(without_nan(x, lowest, at), at, "nanmax");
  if constexpr (is_float(dtype_of<element_of<X>>))
    return detail::evaluate(where(all_over<Axes, Keep>(isnan(x, at), at), nothing, m, at), at);
  else return m;
}
template <axis_list Axes, bool Keep, class X>
auto nanmin_over(const X& x, location at) {
  constexpr double highest = std::numeric_limits<double>::infinity();
  const auto m = min_over<Axes, Keep>(without_nan(x, highest, at), at, "nanmin");
  if constexpr (is_float(dtype_of<element_of<X>>))
    return detail::evaluate(where(all_over<Axes, Keep>(isnan(x, at), at), nothing, m, at), at);
  else return m;
}
template <axis_list Axes, bool Keep, class X>
auto nanmean_over(const X& x, location at) {
  if constexpr (takes_floats<named::nanmean, X>()) {
    const auto& y = wide(x, at);
    return narrow<element_of<X>>(div(nansum_over<Axes, Keep>(y, at), numbers_over<Axes, Keep>(y, at), at), at);
  } else {
    return x;
  }
}
/// The variance or its root without NaN, from differences to an approximate mean.
template <axis_list Axes, bool Keep, bool Root, class X>
auto nan_variance(const X& x, int ddof, location at) {
  const auto y = detail::evaluate(wide(x, at), at);
  const auto about = detail::evaluate(stop_gradient(nanmean_over<Axes, true>(y, at), at), at);
  const auto off = detail::evaluate(where(isnan(y, at), 0, sub(y, about, at), at), at);
  const auto n = numbers_over<Axes, true>(y, at), total = sum_over<Axes, true>(off, at),
             squares = sum_over<Axes, true>(mul(off, off, at), at);
  const auto left = detail::evaluate(sub(squares, mul(total, div(total, n, at), at), at), at);
  const auto v = detail::evaluate(div(where(lt(left, 0, at), 0, left, at), sub(n, ddof, at), at), at);
  const auto some = drop_kept<Axes, Keep>(detail::evaluate(where(gt(n, ddof, at), v, nothing, at), at), at);
  if constexpr (Root) return narrow<element_of<X>>(root_of_squares(some, at), at);
  else return narrow<element_of<X>>(some, at);
}
template <axis_list Axes, bool Keep, class X>
auto nanvar_over(const X& x, int ddof, location at) {
  if constexpr (takes_floats<named::nanvar, X>()) return nan_variance<Axes, Keep, false>(x, ddof, at);
  else return x;
}
template <axis_list Axes, bool Keep, class X>
auto nanstd_over(const X& x, int ddof, location at) {
  if constexpr (takes_floats<named::nanstd, X>()) return nan_variance<Axes, Keep, true>(x, ddof, at);
  else return x;
}

template <int Ord, axis_list Axes, bool Keep, class X>
auto norm_over(const X& x, location at) {
  if constexpr (takes_floats<named::norm, X>()) {
    using T = element_of<X>;
    if constexpr (Ord == 1) {
      return narrow<T>(sum_over<Axes, Keep>(abs(wide(x, at), at), at), at);
    } else if constexpr (Ord == std::numeric_limits<int>::max()) {
      return max_over<Axes, Keep>(abs(x, at), at, "norm");
    } else {
      static_assert(Ord == 2, "sinter: [norm] the order is 1, 2 or norm_max");
      const auto& y = wide(x, at);
      if constexpr (X::rank > 0)
        if (!engine::current()) {
          constexpr dims shape = op_shapes::reduce(X::static_shape, Axes, Keep).shape;
          if (const auto v = eager_totals<shape>("norm", engine::row_total::norm, y, Axes, Keep, 0, at))
            return narrow<T>(*v, at);
        }
      using W = element_of<std::remove_cvref_t<decltype(y)>>;
      return narrow<T>(cast<W>(root_of_squares(squares_over<Axes, Keep>(y, at), at), at), at);
    }
  } else {
    return x;
  }
}

}  // namespace detail

/// An order of norm: the largest magnitude.
inline constexpr int norm_max = std::numeric_limits<int>::max();

// NAME(x), NAME(x, axis<…>), NAME(x, axis<…>, keepdims), NAME(x, keepdims).
#define SINTER_REDUCTION(NAME)                                                                                     \
  template <tensor_like X, int... A>                                                                               \
  auto NAME(const X& x, axis_t<A...> = {}, location at = location::current()) {                                    \
    return detail::NAME##_over<detail::checked_axes<detail::named::NAME, X::rank, A...>().sorted(), false>(x, at); \
  }                                                                                                                \
  template <tensor_like X, int... A>                                                                               \
  auto NAME(const X& x, axis_t<A...>, keepdims_t, location at = location::current()) {                             \
    return detail::NAME##_over<detail::checked_axes<detail::named::NAME, X::rank, A...>().sorted(), true>(x, at);  \
  }                                                                                                                \
  template <tensor_like X>                                                                                         \
  auto NAME(const X& x, keepdims_t, location at = location::current()) {                                           \
    return detail::NAME##_over<op_shapes::all_axes(X::rank), true>(x, at);                                         \
  }

/// The sum over axes, by default all. Numbers; keeps the dtype: integers wrap, f16 and bf16 sum in f32. 0 without elements.
SINTER_REDUCTION(sum)
/// The product over axes. Numbers; integers wrap. 1 without elements.
SINTER_REDUCTION(prod)
/// The largest element over axes; NaN if any is NaN. Numbers. user_error over an axis of extent 0.
SINTER_REDUCTION(max)
/// The smallest element over axes; NaN if any is NaN. Numbers. user_error over an axis of extent 0.
SINTER_REDUCTION(min)
/// True if some element is not 0. Any dtype; false without elements.
SINTER_REDUCTION(any)
/// True if no element is 0. Any dtype; true without elements.
SINTER_REDUCTION(all)
/// The mean over axes, floating dtypes. NaN without elements.
SINTER_REDUCTION(mean)
/// log(sum(exp(x))) over axes, as m + log(sum(exp(x - m))) with the largest finite element m, so it does not overflow. -inf if every
/// element is -inf. Floating dtypes; user_error over an axis of extent 0.
SINTER_REDUCTION(logsumexp)
/// sum, prod, max, min and mean of the elements that are not NaN. Without such elements: 0, 1, and NaN.
SINTER_REDUCTION(nansum)
SINTER_REDUCTION(nanprod)
SINTER_REDUCTION(nanmax)
SINTER_REDUCTION(nanmin)
SINTER_REDUCTION(nanmean)
#undef SINTER_REDUCTION

// NAME(x, axis<…>, ddof), NAME(x, axis<…>, keepdims, ddof), NAME(x, keepdims, ddof), each without ddof, NAME(x).
#define SINTER_DEVIATION(NAME)                                                                                      \
  template <tensor_like X, int... A>                                                                                \
  auto NAME(const X& x, axis_t<A...> = {}, int ddof = 0, location at = location::current()) {                       \
    return detail::NAME##_over<detail::checked_axes<detail::named::NAME, X::rank, A...>().sorted(), false>(x, ddof, \
                                                                                                           at);     \
  }                                                                                                                 \
  template <tensor_like X, int... A>                                                                                \
  auto NAME(const X& x, axis_t<A...>, keepdims_t, int ddof = 0, location at = location::current()) {                \
    return detail::NAME##_over<detail::checked_axes<detail::named::NAME, X::rank, A...>().sorted(), true>(x, ddof,  \
                                                                                                          at);      \
  }                                                                                                                 \
  template <tensor_like X>                                                                                          \
  auto NAME(const X& x, keepdims_t, int ddof = 0, location at = location::current()) {                              \
    return detail::NAME##_over<op_shapes::all_axes(X::rank), true>(x, ddof, at);                                    \
  }

/// The variance over axes, divided by n - ddof (ddof is 0 by default). Floating dtypes. NaN without elements.
SINTER_DEVIATION(var)
/// The square root of var. The second name avoids a clash: after `using namespace sinter`, `std` is also the namespace.
SINTER_DEVIATION(std)
SINTER_DEVIATION(stddev)
/// var and std of the elements that are not NaN, divided by their number - ddof; NaN unless that is above 0.
SINTER_DEVIATION(nanvar)
SINTER_DEVIATION(nanstd)
#undef SINTER_DEVIATION

/// The 2-norm over axes, sqrt(sum(x²)). norm<1> sums magnitudes, and norm<norm_max> is the largest magnitude (user_error over an
/// axis of extent 0). Floating dtypes.
template <int Ord = 2, tensor_like X, int... A>
auto norm(const X& x, axis_t<A...> = {}, location at = location::current()) {
  return detail::norm_over<Ord, detail::checked_axes<detail::named::norm, X::rank, A...>().sorted(), false>(x, at);
}
template <int Ord = 2, tensor_like X, int... A>
auto norm(const X& x, axis_t<A...>, keepdims_t, location at = location::current()) {
  return detail::norm_over<Ord, detail::checked_axes<detail::named::norm, X::rank, A...>().sorted(), true>(x, at);
}
template <int Ord = 2, tensor_like X>
auto norm(const X& x, keepdims_t, location at = location::current()) {
  return detail::norm_over<Ord, op_shapes::all_axes(X::rank), true>(x, at);
}

/// True if all elements of x and y are close: all(isclose(x, y)), of rank 0.
template <class X, class Y>
requires detail::some_tensor<X, Y>
auto allclose(const X& x, const Y& y, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
              location at = location::current()) {
  return all(isclose(x, y, rtol, atol, equal_nan, at), axis<>, at);
}

// The index of the first extreme along one axis, or in row-major order over all: NAME(x), NAME(x, axis<1>), with keepdims or without.
#define SINTER_ARG(NAME, COMBINER)                                                                                 \
  template <tensor_like X>                                                                                         \
  auto NAME(const X& x, location at = location::current()) {                                                       \
    return detail::arg_reduce<detail::named::NAME, COMBINER, op_shapes::all_axes(X::rank), false>(x, at);          \
  }                                                                                                                \
  template <tensor_like X>                                                                                         \
  auto NAME(const X& x, keepdims_t, location at = location::current()) {                                           \
    return detail::arg_reduce<detail::named::NAME, COMBINER, op_shapes::all_axes(X::rank), true>(x, at);           \
  }                                                                                                                \
  template <tensor_like X, int... A>                                                                               \
  auto NAME(const X& x, axis_t<A...>, location at = location::current()) {                                         \
    constexpr int axis = detail::one_axis<detail::named::NAME, X::rank, A...>();                                   \
    return detail::arg_reduce<detail::named::NAME, COMBINER, op_shapes::normalize({axis}, X::rank), false>(x, at); \
  }                                                                                                                \
  template <tensor_like X, int... A>                                                                               \
  auto NAME(const X& x, axis_t<A...>, keepdims_t, location at = location::current()) {                             \
    constexpr int axis = detail::one_axis<detail::named::NAME, X::rank, A...>();                                   \
    return detail::arg_reduce<detail::named::NAME, COMBINER, op_shapes::normalize({axis}, X::rank), true>(x, at);  \
  }

/// The i64 index of the first largest element; NaN counts as largest. Numbers; user_error over an axis of extent 0.
SINTER_ARG(argmax, ir::op::maximum)
/// The i64 index of the first smallest element; NaN counts as smallest. Numbers; user_error over an axis of extent 0.
SINTER_ARG(argmin, ir::op::minimum)
#undef SINTER_ARG

}  // namespace sinter
