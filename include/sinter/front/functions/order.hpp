// front/functions/order.hpp: functions of the order of elements: sorts, searches, quantiles, unique elements, histograms, segments.
#pragma once

#include <cmath>
#include <limits>
#include <optional>

#include "bounded.hpp"
#include "factories.hpp"
#include "indexing.hpp"
#include "join.hpp"
#include "scan.hpp"

namespace sinter {

/// Options of sort and argsort: `{.descending = true}` starts with the greatest.
struct sort_order {
  bool descending = false;
};

/// Options of topk: `{.largest = false}` takes the smallest.
struct topk_order {
  bool largest = true;
};

/// Options of searchsorted: `{.right = true}` gives the place after equal elements instead of before them.
struct search_side {
  bool right = false;
};

/// Options of bincount: `{.size = n}` counts 0 to n - 1. Without a size the greatest label is read, as in bounded.
struct bounded_labels {
  std::optional<dim> size = {};
};

/// The interpolation of a quantile between two elements, by NumPy's methods.
enum class interpolation { linear, lower, higher, nearest, midpoint };

/// Options of median, quantile and percentile.
struct quantile_rule {
  interpolation method = interpolation::linear;
};

/// The result of topk: elements, and their places along the axis.
template <class V, class I>
struct values_and_indices {
  V values;
  I indices;
};

/// The result of histogram: the number of elements in each bin, and the bins' bounds, of which there is one more.
template <class C, class E>
struct counts_and_edges {
  C counts;
  E edges;
};

namespace detail {

/// The places along `axis` of the first `count` elements in order; user_error unless `count` is from 0 to the extent.
SINTER_API handle argsort_at(const char* op, const handle& x, int axis, bool descending, dim count, location at);
SINTER_API handle sort_at(const char* op, const handle& x, int axis, bool descending, location at);
/// The number of sorted's elements along `axis` that precede each element of x. Extents are equal off the axis.
SINTER_API handle search_at(const char* op, const handle& sorted, const handle& x, int axis, bool right, location at);
/// As search_at, with one sorted row for all of x, or one for each of x's rows.
SINTER_API handle search_rows(const handle& sorted, const handle& x, bool right, location at);
/// user_error unless 0 <= q <= most.
SINTER_API void check_fraction(const char* op, double q, double most, location at);
/// user_error for an empty axis.
SINTER_API void check_some(const char* op, const dims& x, int axis, location at);
/// user_error unless each of x's rows has an id.
SINTER_API void check_ids(const char* op, const dims& x, const dims& ids, location at);
SINTER_API dim checked_size(const char* op, dim size, location at);
/// A number of bins or labels; user_error for more than a tensor can hold.
SINTER_API std::int64_t checked_count(const char* op, std::int64_t n, location at);
/// Whether the bins from low to high are so wide that rounding moves an element's computed bin by at most one. The dtype's numbers
/// are `spacing` apart at 1 and `smallest` apart at 0; `least` and `most` bound W, the dtype of the computation.
SINTER_API bool bins_apart(std::int64_t bins, double low, double high, double spacing, double smallest, double least,
                           double most);
/// user_error unless there are bins, the bounds are ordered numbers, and the edges' dtype holds them.
SINTER_API void check_bins(std::int64_t bins, double low, double high, bool held, dtype edges, location at);

template <class Name, int Axis, class X>
auto argsort(const X& x, sort_order order, location at) {
  constexpr int axis = checked_axes<Name, X::rank, Axis>()[0];
  const handle h = untyped(x, at);
  return typed<std::int64_t, X::static_shape>(argsort_at(Name::text, h, axis, order.descending, h.extents[axis], at),
                                              at);
}

template <class Name, int Axis, class X>
auto sort(const X& x, sort_order order, location at) {
  constexpr int axis = checked_axes<Name, X::rank, Axis>()[0];
  return typed<typename X::value_type, X::static_shape>(sort_at(Name::text, untyped(x, at), axis, order.descending, at),
                                                        at);
}

/// `Count`: k if the compiler knows it, else dyn.
template <std::int64_t Count, int Axis, class X>
auto topk(const X& x, dim k, topk_order order, location at) {
  constexpr int axis = checked_axes<named::topk, X::rank, Axis>()[0];
  constexpr dims shape = with_extent(X::static_shape, axis, Count);
  const handle h = untyped(x, at), places = argsort_at("topk", h, axis, order.largest, k, at);
  using T = typename X::value_type;
  auto values = typed<T, shape>(gather_elements(h, places, axis, at), at);
  auto indices = typed<std::int64_t, shape>(places, at);
  return values_and_indices<decltype(values), decltype(indices)>{std::move(values), std::move(indices)};
}

/// 0 to n - 1, on x's device.
template <class X>
auto places_like(const X& x, dim n, location at) {
  return arange<std::int64_t>(n, same_device(x, at), at);
}

/// For a non-empty ascending vector: for each element, the number of its distinct value.
template <class S>
auto distinct_numbers(const S& s, location at) {
  using T = typename S::value_type;
  const auto i = places_like(s, extents_of(s, at)[0], at);
  const auto before = take(s, detail::evaluate(maximum(sub(i, 1, at), 0, at), at), axis<0>, at);
  if constexpr (is_float(dtype_of<T>)) {
    const auto differs = bit_and(ne(s, before, at), bit_not(bit_and(isnan(s, at), isnan(before, at), at), at), at);
    return cumsum(detail::evaluate(cast<std::int64_t>(differs, at), at), axis<0>, at);
  } else {
    return cumsum(detail::evaluate(cast<std::int64_t>(ne(s, before, at), at), at), axis<0>, at);
  }
}

/// The last element of a non-empty vector. Reading it ends a traced graph.
template <class X>
std::int64_t last_item(const X& x, location at) {
  return slice(x, axis<0>, -1, to_end, 1, at).item(at);
}

/// x at `index`; outside x the fill, or without a fill x's first element.
template <class X, class I>
auto taken_or(const X& x, const I& index, const fill_value<typename X::value_type>& fill, location at) {
  const dim n = extents_of(x, at)[0];
  const auto inside = lt(index, n, at);
  const auto found = take(x, detail::evaluate(where(inside, index, 0, at), at), axis<0>, at);
  if (!fill.given) return found;
  return detail::evaluate(where(inside, found, fill.value, at), at);
}

/// The point `part` of the way from a to b, which differ; `rest` is 1 - part. The distance may exceed the range of T.
template <class A, class P, class R>
auto between(const A& a, const A& b, const P& part, const R& rest, location at) {
  const auto apart = detail::evaluate(sub(b, a, at), at);
  const auto weighted = add(mul(a, rest, at), mul(b, part, at), at);
  return detail::evaluate(where(isinf(apart, at), weighted, add(a, mul(apart, part, at), at), at), at);
}

/// The values of s at the fractional places `exact` along the axis; `end` is the last place. For a single number the axis is
/// removed; for several the values stand along it.
template <int Axis, class S, class E, class X>
auto quantile_at(const S& s, const E& end, const X& exact, interpolation method, location at) {
  using T = typename S::value_type;
  using W = std::conditional_t<vocabulary::is_half<T>, float, T>;
  const auto read = [&](const auto& place) {
    const auto i = detail::evaluate(cast<std::int64_t>(place, at), at);
    return detail::evaluate(cast<W>(take(s, i, axis<Axis>, at), at), at);
  };
  const auto spread = [&](const auto& part) {
    if constexpr (X::rank == 0) {
      return part;
    } else {
      constexpr dims shape = [] {
        dims d(S::rank);
        for (int k = 0; k < S::rank; ++k) d[k] = k == Axis ? X::static_shape[0] : dim(1);
        return d;
      }();
      dims to = shape;
      to[Axis] = extents_of(part, at)[0];
      return typed<typename std::remove_cvref_t<decltype(part)>::value_type, shape>(
          views::reshape(untyped(part, at), to, at), at);
    }
  };
  const auto nan_last = [&] {
    if constexpr (X::rank == 0) return read(end);
    else return detail::evaluate(cast<W>(slice(s, axis<Axis>, -1, to_end, 1, at), at), at);
  }();
  const auto result = [&](const auto& y) {
    return detail::evaluate(cast<T>(where(isnan(nan_last, at), nan_last, y, at), at), at);
  };
  const auto low = floor(exact, at);
  const auto high = ceil(exact, at);
  switch (method) {
    case interpolation::lower:
      return result(read(low));
    case interpolation::higher:
      return result(read(high));
    case interpolation::nearest:
      return result(read(round(exact, at)));
    case interpolation::midpoint: {
      const auto a = read(low), b = read(high);
      return result(where(eq(a, b, at), a, between(a, b, W(0.5), W(0.5), at), at));
    }
    default: {
      const auto a = read(low), b = read(high);
      const auto part = spread(detail::evaluate(cast<W>(sub(exact, low, at), at), at));
      return result(where(eq(a, b, at), a, between(a, b, part, sub(1, part, at), at), at));
    }
  }
}

/// The q-quantile of s, ascending along the removed axis. A tensor q gives a new first axis, with NaN for q outside [0, 1].
template <class Name, int Axis, class S, class Q>
auto quantile_of(const S& s, const Q& q, interpolation method, location at) {
  check_some(Name::text, to_dims(extents_of(s, at)), Axis, at);
  const auto end = size_value<double>(extents_of(s, at)[static_cast<std::size_t>(Axis)] - 1, at);
  if constexpr (!tensor_like<Q>) {
    return quantile_at<Axis>(s, end, detail::evaluate(mul(end, q, at), at), method, at);
  } else {
    using T = typename S::value_type;
    const auto inside = detail::evaluate(bit_and(ge(q, 0, at), le(q, 1, at), at), at);
    const auto exact = detail::evaluate(mul(where(inside, q, 0, at), end, at), at);
    const auto found = quantile_at<Axis>(s, end, exact, method, at);
    const auto known = [&](const auto& y, const auto& valid) {
      return detail::evaluate(where(valid, y, std::numeric_limits<T>::quiet_NaN(), at), at);
    };
    if constexpr (Q::rank == 0) {
      return known(found, inside);
    } else {
      const handle h = untyped(found, at);
      op_shapes::axis_list order;
      order.at[order.count++] = Axis;
      for (int k = 0; k < S::rank; ++k)
        if (k != Axis) order.at[order.count++] = k;
      constexpr dims shape = [] {
        dims d(S::rank);
        d[0] = Q::static_shape[0];
        for (int k = 0, to = 1; k < S::rank; ++k)
          if (k != Axis) d[to++] = S::static_shape[k];
        return d;
      }();
      dims column(S::rank);
      for (int k = 0; k < S::rank; ++k) column[k] = k == 0 ? h.extents[Axis] : dim(1);
      const auto moved = typed<T, shape>(views::permute(h, order, at), at);
      const auto valid = typed<bool, dims(S::rank)>(views::reshape(untyped(inside, at), column, at), at);
      return typed<T, shape>(untyped(known(moved, valid), at), at);
    }
  }
}

/// x with several axes merged into its last one.
template <axis_list Over, class X>
auto merged_axes(const X& x, location at) {
  constexpr int kept = X::rank - Over.count;
  constexpr axis_list order = [] {
    axis_list all;
    for (int k = 0; k < X::rank; ++k)
      if (!Over.has(k)) all.at[all.count++] = k;
    for (const int k : Over) all.at[all.count++] = k;
    return all;
  }();
  constexpr auto merged = [](const dims& of, const axis_list& by) {
    dims to(kept + 1);
    for (int k = 0; k < kept; ++k) to[k] = of[by[k]];
    dim last = 1;
    for (int k = kept; k < X::rank; ++k) last = last == dyn || of[by[k]] == dyn ? dim(dyn) : last * of[by[k]];
    to[kept] = last;
    return to;
  };
  constexpr dims shape = merged(X::static_shape, order);
  const handle h = views::permute(untyped(x, at), order, at);
  const dims to = merged(h.extents, op_shapes::all_axes(X::rank));
  return typed<typename X::value_type, shape>(views::reshape(h, to, at), at);
}

/// f(x in ascending order, the axis).
template <class Name, int... Axes, class X, class F>
auto in_order(const X& x, location at, F f) {
  constexpr axis_list over = checked_axes<Name, X::rank, Axes...>().sorted();
  if constexpr (over.count == 1) {
    return f(sort<Name, over[0]>(x, {}, at), std::integral_constant<int, over[0]>());
  } else if constexpr (over.count == X::rank) {
    return f(sort<Name, 0>(flatten(x, at), {}, at), std::integral_constant<int, 0>());
  } else {
    constexpr int last = X::rank - over.count;
    return f(sort<Name, last>(merged_axes<over>(x, at), {}, at), std::integral_constant<int, last>());
  }
}

/// The quantiles of a user as fractions of 1: a number, an array or a tensor.
template <class Name>
double parts_of_one(double q, double by, location at) {
  check_fraction(Name::text, q, by, at);
  return q / by;
}
template <class Name, std::size_t N>
auto parts_of_one(const double (&q)[N], double by, location at) {
  std::array<double, N> parts;
  for (std::size_t i = 0; i < N; ++i) parts[i] = parts_of_one<Name>(q[i], by, at);
  return parts;
}
template <class Name, tensor_like Q>
auto parts_of_one(const Q& q, double by, location at) {
  constexpr bool fits = Q::rank <= 1 && std::is_same_v<typename Q::value_type, double>;
  static_assert(fits, "sinter: [quantile] the parts are a number, a list, or a tensor of f64 of rank 0 or 1");
  if constexpr (!fits) return 0.5;
  else return by == 1 ? detail::evaluate(q, at) : detail::evaluate(div(q, by, at), at);
}

/// The number of axes that the quantiles have.
template <class Q>
constexpr int axes_of_parts() {
  if constexpr (tensor_like<Q>) return Q::rank;
  else return std::is_same_v<Q, double> ? 0 : 1;
}

/// The extents of a result with keepdims. From axis `first` on, extents of 1 stand for the removed axes of a tensor of `rank` axes.
constexpr dims with_ones(const dims& of, const axis_list& gone, int first, int rank) {
  dims to(first + rank);
  for (int d = 0, next = 0; d < first + rank; ++d) to[d] = d >= first && gone.has(d - first) ? dim(1) : of[next++];
  return to;
}

/// Each quantile q of x's elements along the axes.
template <class Name, bool Keep, int... Axes, class X, class Q>
auto quantiles(const X& x, const Q& q, quantile_rule rule, location at) {
  if constexpr (!takes_floats<Name, X>()) {
    return x;
  } else if constexpr (Keep) {
    constexpr axis_list over = checked_axes<Name, X::rank, Axes...>();
    constexpr int first = axes_of_parts<Q>();
    const auto y = quantiles<Name, false, Axes...>(x, q, rule, at);
    constexpr dims shape = with_ones(decltype(y)::static_shape, over, first, X::rank);
    const handle h = untyped(y, at);
    return typed<typename X::value_type, shape>(views::reshape(h, with_ones(h.extents, over, first, X::rank), at), at);
  } else {
    return in_order<Name, Axes...>(x, at, [&](const auto& s, auto axis) {
      constexpr int along = decltype(axis)::value;
      if constexpr (tensor_like<Q> || axes_of_parts<Q>() == 0) {
        return quantile_of<Name, along>(s, q, rule.method, at);
      } else {
        return std::apply(
            [&](auto... each) { return stack_all<0>(at, quantile_of<Name, along>(s, each, rule.method, at)...); }, q);
      }
    });
  }
}

/// i if it is in [0, n), else n.
template <class I>
auto known_or_last(const I& i, dim n, location at) {
  const auto known = bit_and(ge(i, 0, at), lt(i, n, at), at);
  return detail::evaluate(where(known, cast<std::int64_t>(i, at), n, at), at);
}

/// The sum of x's rows for each id in [0, n); the ids i have rank 1.
template <class Name, class X, class I>
auto row_sums(const X& x, const I& i, dim n, location at) {
  using T = typename X::value_type;
  checked_size(Name::text, n, at);
  auto extents = extents_of(x, at);
  extents[0] = n + 1;
  const auto base =
      filled<T, with_extent(X::static_shape, 0, dyn)>(Name::text, T{}, extents, same_device(x, at), at, true);
  return slice(scatter_add(base, known_or_last(i, n, at), x, axis<0>, at), axis<0>, 0, n, 1, at);
}

/// The number of times that each of [0, n) occurs in i.
template <class I>
auto counted(const I& i, dim n, location at) {
  const auto ones =
      filled<std::int64_t, dims{dyn}>("bincount", 1, {extents_of(i, at)[0]}, same_device(i, at), at, true);
  return row_sums<named::bincount>(ones, i, n, at);
}

/// The sum of the weights for each of [0, n) in i; each element of i has a weight.
template <class Name, class I, class W>
auto weighed(const I& i, const W& weights, dim n, location at) {
  constexpr bool numbers = !is_bool(dtype_of<typename W::value_type>);
  if constexpr (!numbers) {
    refuse_for<Name, fault::numbers, W>();
    return weights;
  } else {
    const auto flat = flatten(weights, at);
    if (extents_of(flat, at)[0] != extents_of(i, at)[0])
      fail(Name::text,
           "there are " + extents_of(i, at)[0].text() + " elements and " + extents_of(flat, at)[0].text() +
               " weights; give one for each",
           at);
    return row_sums<Name>(flat, i, n, at);
  }
}

template <class Name, class X, class I>
void check_ids(const X& x, const I& ids, location at) {
  check_ids(Name::text, to_dims(extents_of(x, at)), to_dims(extents_of(ids, at)), at);
}

template <class Name, class X, class I>
constexpr bool check_segments() {
  check_index_dtype<Name, I, false>();
  static_assert(X::rank >= 1 && I::rank == 1, "sinter: [segment] ids have rank 1, an id for each row of x");
  static_assert(!is_bool(dtype_of<typename X::value_type>),
                "sinter: [segment] takes numbers, not bool; cast with cast<T>(x)");
  return X::rank >= 1 && I::rank == 1 && !is_bool(dtype_of<typename X::value_type>);
}

/// The identity of minimum (`greatest`) or of maximum.
template <class T>
T end_of(bool greatest) {
  const ir::scalar s = ir::combiner_identity(greatest ? ir::op::minimum : ir::op::maximum, dtype_of<T>);
  if constexpr (is_float(dtype_of<T>)) return static_cast<T>(static_cast<float>(s.f));
  else return static_cast<T>(s.i);
}

/// The extreme of each segment's rows: the first or the last row, ordered by id and then by value.
template <class Name, bool Largest, class X, class I>
auto segment_extreme(const X& x, const I& ids, dim n, location at) {
  using T = typename X::value_type;
  constexpr dims shape = with_extent(X::static_shape, 0, dyn);
  check_ids<Name>(x, ids, at);
  checked_size(Name::text, n, at);
  const handle h = untyped(x, at);
  dims column(X::rank), to = with_extent(h.extents, 0, n);
  for (int k = 0; k < X::rank; ++k) column[k] = 1;
  const auto spread = [&](const handle& one, const dims& extents) {
    column[0] = one.extents[0];
    return views::broadcast(views::reshape(one, column, at), extents, at);
  };
  const handle labels = spread(untyped(detail::evaluate(cast<std::int64_t>(ids, at), at), at), h.extents);
  const handle by_value = argsort_at(Name::text, h, 0, false, h.extents[0], at);
  const handle found = gather_elements(labels, by_value, 0, at);
  const handle by_label = argsort_at(Name::text, found, 0, false, h.extents[0], at);
  const handle sorted = gather_elements(found, by_label, 0, at), order = gather_elements(by_value, by_label, 0, at);
  const handle wanted = spread(untyped(places_like(x, n, at), at), to);
  using places = tensor<std::int64_t, shape>;
  const places first = typed<std::int64_t, shape>(search_at(Name::text, sorted, wanted, 0, false, at), at);
  const places end = typed<std::int64_t, shape>(search_at(Name::text, sorted, wanted, 0, true, at), at);
  const T least = end_of<T>(false), most = end_of<T>(true);
  if (h.extents[0] == 0) {
    return filled<T, shape>(Name::text, Largest ? least : most, to_index<X::rank>(to), same_device(x, at), at, true);
  } else {
    const auto read = [&](const places& place) {
      const handle in_order = gather_elements(order, untyped(place, at), 0, at);
      return typed<T, shape>(gather_elements(h, in_order, 0, at), at);
    };
    const places last = detail::evaluate(maximum(sub(end, 1, at), 0, at), at);
    const auto empty = ge(first, end, at);
    if constexpr (Largest) {
      return detail::evaluate(where(empty, least, read(last), at), at);
    } else {
      const places start = detail::evaluate(where(empty, 0, first, at), at);
      const auto smallest = read(start);
      if constexpr (is_float(dtype_of<T>)) {
        const auto greatest = read(last);
        return detail::evaluate(where(empty, most, where(isnan(greatest, at), greatest, smallest, at), at), at);
      } else {
        return detail::evaluate(where(empty, most, smallest, at), at);
      }
    }
  }
}

}  // namespace detail

/// The elements in ascending order along an axis, by default the last: sort(x), sort<0>(x), sort(x, axis<0>, {.descending = true}).
/// Stable; NaN is last in either order, as in NumPy, and -0 equals 0. Any dtype. The derivative goes to each element's origin.
/// user_error for more than 2^31 elements.
template <int Axis = -1, tensor_like X>
auto sort(const X& x, sort_order order = {}, location where = location::current()) {
  return detail::sort<detail::named::sort, Axis>(x, order, where.in("sort"));
}
template <tensor_like X, int A>
auto sort(const X& x, axis_t<A>, sort_order order = {}, location where = location::current()) {
  return detail::sort<detail::named::sort, A>(x, order, where.in("sort"));
}

/// The places along the axis of the elements of sort(x), i64. Equal elements keep their order.
template <int Axis = -1, tensor_like X>
auto argsort(const X& x, sort_order order = {}, location where = location::current()) {
  return detail::argsort<detail::named::argsort, Axis>(x, order, where.in("argsort"));
}
template <tensor_like X, int A>
auto argsort(const X& x, axis_t<A>, sort_order order = {}, location where = location::current()) {
  return detail::argsort<detail::named::argsort, A>(x, order, where.in("argsort"));
}

/// The k largest elements along an axis, by default the last, in descending order, and their places (i64). Equal elements keep
/// their order. `auto [values, indices] = topk(x, 5)`, topk<5>(x) for static extents, `{.largest = false}` for the smallest. NaN
/// comes after all others. user_error unless 0 <= k <= the extent.
template <tensor_like X, int A = -1>
auto topk(const X& x, dim k, axis_t<A> = {}, topk_order order = {}, location where = location::current()) {
  return detail::topk<dyn, A>(x, k, order, where.in("topk"));
}
template <std::int64_t K, tensor_like X, int A = -1>
auto topk(const X& x, axis_t<A> = {}, topk_order order = {}, location where = location::current()) {
  static_assert(K >= 0, "sinter: [topk] the number of elements is negative");
  return detail::topk<K, A>(x, K, order, where.in("topk"));
}

/// The number of elements of `sorted` that precede each element of x: its place in the order, i64, of x's shape. The place is
/// before equal elements, or after them with {.right = true}. `sorted` ascends along its last axis. It has rank 1, or
/// x's extents off that axis (else a user_error). NaN is last.
template <tensor_like S, tensor_like X>
auto searchsorted(const S& sorted, const X& x, search_side side = {}, location where = location::current()) {
  const location at = where.in("searchsorted");
  static_assert(dtype_of<typename S::value_type> == dtype_of<typename X::value_type>,
                "sinter: [searchsorted] sorted and x have different dtypes; cast one");
  constexpr bool rows = S::rank == 1 || (S::rank > 1 && S::rank == X::rank);
  static_assert(rows, "sinter: [searchsorted] sorted has rank 1, or the rank of x");
  if constexpr (rows)
    return detail::typed<std::int64_t, X::static_shape>(
        detail::search_rows(detail::untyped(sorted, at), detail::untyped(x, at), side.right, at), at);
  else return x;
}

/// The distinct elements of x, ascending, of rank 1; all NaN count as one. unique(x, {.size = 8}) gives the first 8, padded with the
/// fill, by default the first of them. Without a size the count is read, so a compiled function goes on in another graph.
/// user_error if an empty x has no fill.
template <tensor_like X>
auto unique(const X& x, bounded<typename X::value_type> bound = {}, location where = location::current()) {
  const location at = where.in("unique");
  using T = typename X::value_type;
  using result = tensor<T, dims{dyn}>;
  const auto s = detail::sort<detail::named::unique, 0>(flatten(x, at), {}, at);
  if (bound.size) detail::checked_size("unique", *bound.size, at);
  if (detail::extents_of(s, at)[0] == 0) {
    if (bound.size && *bound.size != 0 && !bound.fill.given)
      fail("unique", "x has no element to fill with; give .fill", at);
    return result(detail::filled<T, dims{dyn}>("unique", bound.fill.value, {bound.size.value_or(0)},
                                               detail::same_device(s, at), at, true));
  }
  const auto numbers = detail::distinct_numbers(s, at);
  const dim n = bound.size ? *bound.size : dim(detail::last_item(numbers, at) + 1);
  const auto first = searchsorted(numbers, detail::places_like(s, n, at), {}, at);
  return result(detail::taken_or(s, first, bound.fill, at));
}
template <tensor_like X, extent_like N>
SINTER_WRONG_CALL("[unique] a size is an option: unique(x, {.size = n})")
detail::wrong_call<> unique(const X&, N, location = {}) {
  return {};
}

/// The places of non-zero elements in row-major order, as in NumPy: one tensor of i64 for each axis. nonzero(x, {.size = 8}) gives
/// the first 8, padded with the fill, by default 0. Without a size the count is read, as in unique.
template <tensor_like X>
auto nonzero(const X& x, bounded<std::int64_t> bound = {}, location where = location::current()) {
  const location at = where.in("nonzero");
  static_assert(X::rank > 0, "sinter: [nonzero] needs an axis; the tensor has rank 0");
  std::array<tensor<std::int64_t, dims{dyn}>, detail::bound(X::rank)> out;
  if constexpr (X::rank > 0) {
    const auto extents = detail::extents_of(x, at);
    const auto flat = flatten(x, at);
    const dim total = detail::extents_of(flat, at)[0];
    const auto set = detail::evaluate(cast<std::int64_t>(ne(flat, typename X::value_type{}, at), at), at);
    const auto numbers = cumsum(set, axis<0>, at);
    const dim n = bound.size   ? detail::checked_size("nonzero", *bound.size, at)
                  : total == 0 ? dim(0)
                               : dim(detail::last_item(numbers, at));
    const auto wanted = detail::evaluate(add(detail::places_like(flat, n, at), 1, at), at);
    const auto place = searchsorted(numbers, wanted, {}, at);
    dim below = 1;
    for (int k = X::rank; k-- > 0;) {
      const dim extent = extents[static_cast<std::size_t>(k)], some = extent == 0 ? dim(1) : extent;
      const auto at_axis = fmod(div(place, below, at), some, at);
      out[static_cast<std::size_t>(k)] =
          detail::evaluate(sinter::where(lt(place, total, at), at_axis, bound.fill.value, at), at);
      below *= some;
    }
  }
  return out;
}
template <tensor_like X, extent_like N>
SINTER_WRONG_CALL("[nonzero] a size is an option: nonzero(x, {.size = n})")
detail::wrong_call<> nonzero(const X&, N, location = {}) {
  return {};
}

// NAME(x, q), NAME(x, q, axis<…>), NAME(x, q, axis<…>, keepdims), NAME(x, q, keepdims), each with a rule as well. `...`: of q's type.
#define SINTER_FORMS(NAME, BY, Q, ...)                                                                               \
  template <tensor_like X, __VA_ARGS__ int... A>                                                                     \
  auto NAME(const X& x, Q, axis_t<A...> = {}, quantile_rule rule = {}, location from = location::current()) {        \
    const location at = from.in(#NAME);                                                                              \
    const auto parts = detail::parts_of_one<detail::named::NAME>(q, BY, at);                                         \
    return detail::quantiles<detail::named::NAME, false, A...>(x, parts, rule, at);                                  \
  }                                                                                                                  \
  template <tensor_like X, __VA_ARGS__ int... A>                                                                     \
  auto NAME(const X& x, Q, axis_t<A...>, keepdims_t, quantile_rule rule = {}, location from = location::current()) { \
    const location at = from.in(#NAME);                                                                              \
    const auto parts = detail::parts_of_one<detail::named::NAME>(q, BY, at);                                         \
    return detail::quantiles<detail::named::NAME, true, A...>(x, parts, rule, at);                                   \
  }                                                                                                                  \
  template <tensor_like X, __VA_ARGS__ int... A>                                                                     \
  auto NAME(const X& x, Q, keepdims_t, quantile_rule rule = {}, location from = location::current()) {               \
    const location at = from.in(#NAME);                                                                              \
    const auto parts = detail::parts_of_one<detail::named::NAME>(q, BY, at);                                         \
    return detail::quantiles<detail::named::NAME, true, A...>(x, parts, rule, at);                                   \
  }
#define SINTER_QUANTILE(NAME, BY)                                                                  \
  SINTER_FORMS(NAME, BY, double q, )                                                               \
  SINTER_FORMS(NAME, BY, const double(&q)[N], std::size_t N, std::enable_if_t<(N > 1), int> = 0, ) \
  SINTER_FORMS(NAME, BY, const P& q, tensor_like P, )

/// The quantile q, in [0, 1], of all elements or along axes, which are removed: quantile(x, 0.25), quantile(x, 0.25, axis<0>,
/// {.method = interpolation::lower}). `keepdims` keeps the axes with extent 1. The default method is linear; others are NumPy's.
/// NaN where an element is NaN. Floating dtypes. A list, quantile(x, {0.1, 0.5}), or a tensor q of f64 gives a first axis with one
/// quantile each; x is sorted once. user_error for empty axes, and for q outside [0, 1]; in a tensor such a q gives NaN.
SINTER_QUANTILE(quantile, 1)
/// quantile(x, q/100).
SINTER_QUANTILE(percentile, 100)
#undef SINTER_QUANTILE
#undef SINTER_FORMS

/// The middle element, or the mean of the two middle elements: quantile(x, 0.5), of all or along axes, with or without `keepdims`.
template <tensor_like X, int... A>
auto median(const X& x, axis_t<A...> = {}, location where = location::current()) {
  return detail::quantiles<detail::named::median, false, A...>(x, 0.5, {}, where.in("median"));
}
template <tensor_like X, int... A>
auto median(const X& x, axis_t<A...>, keepdims_t, location where = location::current()) {
  return detail::quantiles<detail::named::median, true, A...>(x, 0.5, {}, where.in("median"));
}
template <tensor_like X>
auto median(const X& x, keepdims_t, location where = location::current()) {
  return detail::quantiles<detail::named::median, true>(x, 0.5, {}, where.in("median"));
}

namespace detail {

/// The bin of each element of x between ascending edges, or a number outside [0, bins).
template <class X, class E>
tensor<std::int64_t, 1> searched_bins(const X& x, const E& edges, dim bins, location at) {
  const auto below = searchsorted(edges, x, {.right = true}, at);
  const auto last = slice(edges, axis<0>, -1, to_end, 1, at);
  return detail::evaluate(where(eq(x, last, at), bins - 1, sub(below, 1, at), at), at);
}

/// The same for equal bins from low on that satisfy bins_apart, computed in W.
template <class W, class X, class E>
tensor<std::int64_t, 1> computed_bins(const X& x, const E& edges, std::int64_t bins, double low, double width,
                                      location at) {
  const auto first = slice(edges, axis<0>, 0, 1, 1, at), last = slice(edges, axis<0>, -1, to_end, 1, at);
  const auto inside = bit_and(ge(x, first, at), le(x, last, at), at);
  const auto part = mul(sub(cast<W>(x, at), W(low), at), W(static_cast<double>(bins) / width), at);
  const auto guess = cast<std::int64_t>(floor(where(inside, part, W(0), at), at), at);
  const auto near = detail::evaluate(maximum(minimum(guess, bins - 1, at), 0, at), at);
  // Rounding may have put it into the neighbouring bin.
  const auto lower = lt(x, take(edges, near, axis<0>, at), at);
  const auto next = take(edges, detail::evaluate(add(near, 1, at), at), axis<0>, at);
  const auto higher = bit_and(ge(x, next, at), lt(near, bins - 1, at), at);
  const auto moved = sub(add(near, cast<std::int64_t>(higher, at), at), cast<std::int64_t>(lower, at), at);
  return detail::evaluate(where(inside, moved, -1, at), at);
}

/// The histogram of x, of rank 1 and of the edges' dtype; `tally` counts or weighs each bin.
template <class X, class Tally>
auto equal_bins(const X& x, std::int64_t bins, double low, double high, Tally tally, location at) {
  using E = typename X::value_type;
  using W = std::conditional_t<vocabulary::is_half<E>, float, E>;
  const auto held = [](double v) { return static_cast<double>(E(v)) - static_cast<double>(E(v)) == 0; };
  check_bins(bins, low, high, held(low) && held(high), dtype_of<E>, at);
  if (low == high) low -= 0.5, high += 0.5;
  double smallest = 0;
  if constexpr (vocabulary::is_half<E>) smallest = static_cast<double>(E::from_bits(1));
  else smallest = static_cast<double>(std::numeric_limits<E>::denorm_min());
  auto edges = linspace<E>(low, high, bins + 1, same_device(x, at), at);
  const bool apart = bins_apart(bins, low, high, std::ldexp(1.0, 1 - digits_of(dtype_of<E>)), smallest,
                                static_cast<double>(std::numeric_limits<W>::min()),
                                static_cast<double>(std::numeric_limits<W>::max()));
  const tensor<std::int64_t, 1> bin =
      apart ? computed_bins<W>(x, edges, bins, low, high - low, at) : searched_bins(x, edges, bins, at);
  auto counts = tally(bin, bins);
  return counts_and_edges<decltype(counts), decltype(edges)>{std::move(counts), std::move(edges)};
}

template <class X, class E, class Tally>
auto edge_bins(const X& x, const E& edges, Tally tally, location at) {
  static_assert(E::rank == 1, "sinter: [histogram] edges have rank 1");
  const dim bins = extents_of(edges, at)[0] - 1;
  if (bins < 1) fail("histogram", "there are fewer than two edges; give one more than bins", at);
  auto counts = tally(searched_bins(flatten(x, at), edges, bins, at), bins);
  auto bounds = detail::evaluate(edges, at);
  return counts_and_edges<decltype(counts), decltype(bounds)>{std::move(counts), std::move(bounds)};
}

/// x in the form that histograms of equal bins take.
template <class X>
auto binned(const X& x, location at) {
  const auto flat = flatten(x, at);
  if constexpr (is_float(dtype_of<typename X::value_type>)) return flat;
  else return detail::evaluate(cast<double>(flat, at), at);
}

}  // namespace detail

/// The number of elements in each bin between neighbours of `edges`: two or more, ascending. The last bin includes its upper bound.
/// Counts are i64; with one weight for each element, bins have the sums of the weights. Elements in no bin, such as NaN, do not count.
/// user_error for fewer than two edges.
template <tensor_like X, tensor_like E>
auto histogram(const X& x, const E& edges, location where = location::current()) {
  const location at = where.in("histogram");
  return detail::edge_bins(
      x, edges, [&](const auto& bin, dim n) { return detail::counted(bin, n, at); }, at);
}
template <tensor_like X, tensor_like E, tensor_like W>
auto histogram(const X& x, const E& edges, const W& weights, location where = location::current()) {
  const location at = where.in("histogram");
  return detail::edge_bins(
      x, edges, [&](const auto& bin, dim n) { return detail::weighed<detail::named::histogram>(bin, weights, n, at); },
      at);
}

template <tensor_like X, extent_like N>
SINTER_WRONG_CALL("[histogram] equal bins need their range: histogram(x, bins, low, high)")
detail::wrong_call<> histogram(const X&, N, location = {}) {
  return {};
}

/// The histogram of equal bins between two numbers. Edges have x's dtype, or f64 for integers. user_error for bounds that this
/// dtype cannot hold.
template <tensor_like X>
auto histogram(const X& x, std::int64_t bins, double low, double high, location where = location::current()) {
  const location at = where.in("histogram");
  return detail::equal_bins(
      detail::binned(x, at), bins, low, high, [&](const auto& bin, dim n) { return detail::counted(bin, n, at); }, at);
}
template <tensor_like X, tensor_like W>
auto histogram(const X& x, std::int64_t bins, double low, double high, const W& weights,
               location where = location::current()) {
  const location at = where.in("histogram");
  return detail::equal_bins(
      detail::binned(x, at), bins, low, high,
      [&](const auto& bin, dim n) { return detail::weighed<detail::named::histogram>(bin, weights, n, at); }, at);
}

namespace detail {

/// Flattens the labels, and determines the number of counted values.
template <class I, class Tally>
auto tallied(const I& labels, bounded_labels bound, Tally tally, location at) {
  check_index_dtype<named::bincount, I, false>();
  static_assert(I::rank == 1, "sinter: [bincount] labels have rank 1; flatten(x) gives that");
  const auto flat = flatten(labels, at);
  if (bound.size) return tally(flat, *bound.size);
  const bool unlabelled = extents_of(flat, at)[0] == 0;
  const std::int64_t greatest =
      unlabelled ? -1
                 : static_cast<std::int64_t>(max_over<op_shapes::all_axes(1), false>(flat, at, "bincount").item(at));
  return tally(flat, dim(greatest < 0 ? 0 : checked_count("bincount", greatest, at) + 1));
}

}  // namespace detail

/// How often each number occurs among labels of rank 1, i32 or i64. bincount(labels, {.size = n}) counts 0 to n - 1. Without a size
/// it counts up to the greatest label; reading that ends a graph, as in unique. Negative labels, and labels of n or more, do not
/// count. bincount(labels, weights) sums the labels' weights, in their dtype.
template <tensor_like I>
auto bincount(const I& labels, bounded_labels bound = {}, location where = location::current()) {
  const location at = where.in("bincount");
  return detail::tallied(
      labels, bound, [&](const auto& i, dim n) { return detail::counted(i, n, at); }, at);
}
template <tensor_like I, tensor_like W>
auto bincount(const I& labels, const W& weights, bounded_labels bound = {}, location where = location::current()) {
  const location at = where.in("bincount");
  return detail::tallied(
      labels, bound, [&](const auto& i, dim n) { return detail::weighed<detail::named::bincount>(i, weights, n, at); },
      at);
}
template <tensor_like X, extent_like N>
SINTER_WRONG_CALL("[bincount] a size is an option: bincount(labels, {.size = n})")
detail::wrong_call<> bincount(const X&, N, location = {}) {
  return {};
}

/// The sum of x's rows (axis 0) for each id from 0 to n - 1. Halves are added in f32. ids have rank 1, i32 or i64; rows with an
/// id outside [0, n) are left out. An empty segment has 0. user_error unless each row has an id.
template <tensor_like X, tensor_like I>
auto segment_sum(const X& x, const I& ids, dim n, location where = location::current()) {
  const location at = where.in("segment_sum");
  if constexpr (detail::check_segments<detail::named::segment_sum, X, I>()) {
    detail::check_ids<detail::named::segment_sum>(x, ids, at);
    return detail::row_sums<detail::named::segment_sum>(x, ids, n, at);
  } else {
    return x;
  }
}

/// The product of x's rows for each id, as segment_sum; an empty segment has 1. Halves are multiplied in f32.
template <tensor_like X, tensor_like I>
auto segment_prod(const X& x, const I& ids, dim n, location where = location::current()) {
  const location at = where.in("segment_prod");
  if constexpr (detail::check_segments<detail::named::segment_prod, X, I>()) {
    using T = typename X::value_type;
    detail::check_ids<detail::named::segment_prod>(x, ids, at);
    detail::checked_size("segment_prod", n, at);
    const auto wider = detail::evaluate(detail::wide(x, at), at);
    using W = typename std::remove_cvref_t<decltype(wider)>::value_type;
    auto extents = detail::extents_of(wider, at);
    extents[0] = n + 1;
    const auto base = detail::filled<W, detail::with_extent(X::static_shape, 0, dyn)>(
        "segment_prod", W(1), extents, detail::same_device(wider, at), at, true);
    const auto all = scatter_mul(base, detail::known_or_last(ids, n, at), wider, axis<0>, at);
    return detail::narrow<T>(slice(all, axis<0>, 0, n, 1, at), at);
  } else {
    return x;
  }
}

/// The mean of x's rows for each id, as segment_sum; an empty segment has NaN. Floating dtypes.
template <tensor_like X, tensor_like I>
auto segment_mean(const X& x, const I& ids, dim n, location where = location::current()) {
  const location at = where.in("segment_mean");
  if constexpr (detail::takes_floats<detail::named::segment_mean, X>() &&
                detail::check_segments<detail::named::segment_mean, X, I>()) {
    using T = typename X::value_type;
    const auto sums = segment_sum(detail::evaluate(detail::wide(x, at), at), ids, n, at);
    using W = typename decltype(sums)::value_type;
    const auto rows = detail::evaluate(cast<std::int64_t>(ids, at), at);
    const auto counts = cast<W>(detail::counted(rows, n, at), at);
    dims column(X::rank);
    for (int k = 0; k < X::rank; ++k) column[k] = k == 0 ? n : dim(1);
    constexpr dims each = [] {
      dims d(X::rank);
      for (int k = 1; k < X::rank; ++k) d[k] = 1;
      return d;
    }();
    const auto by = detail::typed<W, each>(
        detail::views::reshape(detail::untyped(detail::evaluate(counts, at), at), column, at), at);
    return detail::narrow<T>(div(sums, by, at), at);
  } else {
    return x;
  }
}

/// The greatest of x's rows for each id, element by element; NaN if one is NaN. ids as in segment_sum.
/// An empty segment has -infinity, or the least integer.
/// The derivative goes to a single element, the last of equal ones.
template <tensor_like X, tensor_like I>
auto segment_max(const X& x, const I& ids, dim n, location where = location::current()) {
  const location at = where.in("segment_max");
  if constexpr (detail::check_segments<detail::named::segment_max, X, I>())
    return detail::segment_extreme<detail::named::segment_max, true>(x, ids, n, at);
  else return x;
}

/// The smallest, as segment_max. An empty segment has infinity, or the greatest integer. The derivative goes to the first of equal elements.
template <tensor_like X, tensor_like I>
auto segment_min(const X& x, const I& ids, dim n, location where = location::current()) {
  const location at = where.in("segment_min");
  if constexpr (detail::check_segments<detail::named::segment_min, X, I>())
    return detail::segment_extreme<detail::named::segment_min, false>(x, ids, n, at);
  else return x;
}

}  // namespace sinter

// Header-only: the declarations come with their definitions.
#if !defined(SINTER_COMPILED)
#include "order_rules.hpp"
#endif
