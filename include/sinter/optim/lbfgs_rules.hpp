// optim/lbfgs_rules.hpp: the definitions of lbfgs.hpp: directions of L-BFGS, and a search by the strong Wolfe conditions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lbfgs.hpp"

namespace sinter::optim {

namespace detail {

/// A point of a function along a direction: its position, value and slope, and the full gradient. Numbers are f64, whose range
/// holds products of f32.
template <class T>
struct wolfe_point {
  tensor<double, 0> at, value, slope;
  tensor<T, 1> gradient;
};

/// Once the search has a bracket, an acceptable point is between `low`, the best point so far, and `high`. Before, `high` is
/// the previous point.
template <class T>
struct wolfe_search {
  wolfe_point<T> low, high;
  tensor<double, 0> next;
  tensor<bool, 0> bracketed, stuck, done;
  tensor<std::int64_t, 0> count;
};

template <class T>
wolfe_point<T> chosen(const tensor<bool, 0>& first, const wolfe_point<T>& a, const wolfe_point<T>& b) {
  return {where(first, a.at, b.at), where(first, a.value, b.value), where(first, a.slope, b.slope),
          where(first, a.gradient, b.gradient)};
}

/// The minimum, within bounds, of the cubic with these values and slopes; the middle if the cubic has none.
template <class T>
tensor<double, 0> min_of_cubic(const wolfe_point<T>& a, const wolfe_point<T>& b, const tensor<double, 0>& from,
                               const tensor<double, 0>& to) {
  const tensor<double, 0> mean = a.slope + b.slope - 3.0 * (a.value - b.value) / (a.at - b.at);
  const tensor<double, 0> square = mean * mean - a.slope * b.slope;
  const tensor<double, 0> root = where(a.at <= b.at, 1.0, -1.0) * sqrt(maximum(square, 0.0));
  const tensor<double, 0> place = b.at - (b.at - a.at) * ((b.slope + root - mean) / (b.slope - a.slope + 2.0 * root));
  return where(square >= 0.0 && isfinite(place), minimum(maximum(place, from), to), (from + to) / 2.0);
}

/// The next position between the ends of a bracket. It keeps away from them if the last position was too near as well.
template <class T>
std::pair<tensor<double, 0>, tensor<bool, 0>> next_within(const wolfe_search<T>& s) {
  const tensor<double, 0> from = minimum(s.low.at, s.high.at), to = maximum(s.low.at, s.high.at);
  const tensor<double, 0> place = min_of_cubic(s.low, s.high, from, to), margin = 0.1 * (to - from);
  const tensor<bool, 0> near = minimum(to - place, place - from) < margin;
  const tensor<bool, 0> move = near && (s.stuck || place >= to || place <= from);
  const tensor<double, 0> moved = where(abs(place - to) < abs(place - from), to - margin, from + margin);
  return {where(move, moved, place), near && !move};
}

/// The state of the search after the point at s.next.
template <class T>
wolfe_search<T> after_point(const wolfe_search<T>& s, const wolfe_point<T>& start, const wolfe_point<T>& point,
                            const tensor<double, 0>& longest, const wolfe_options& how) {
  const tensor<bool, 0> lower = point.value < s.low.value;
  const tensor<bool, 0> good = lower && point.value <= start.value + how.decrease * point.at * start.slope;
  const tensor<bool, 0> found = good && abs(point.slope) <= -how.curvature * start.slope;
  const tensor<bool, 0> turned = !s.bracketed || point.slope * (s.high.at - s.low.at) >= 0.0;
  wolfe_search<T> next;
  next.low = chosen(lower, point, s.low);
  next.high = chosen(tensor<bool, 0>(where(good, turned, lower)), s.low, chosen(good, s.high, point));
  next.bracketed = s.bracketed || !good || point.slope >= 0.0;
  next.count = s.count + std::int64_t{1};
  next.stuck = s.stuck;
  const auto [inside, stuck] = next_within(next);
  const tensor<double, 0> farther =
      min_of_cubic(next.high, next.low, tensor<double, 0>(point.at + 0.01 * (point.at - next.high.at)),
                   tensor<double, 0>(10.0 * point.at));
  next.next = where(next.bracketed, inside, farther);
  next.stuck = next.bracketed && stuck;
  const tensor<bool, 0> narrow = next.bracketed && abs(next.high.at - next.low.at) * longest < 1e-9;
  next.done = found || narrow || next.count >= std::int64_t{how.evaluations};
  return next;
}

/// The point along `direction` that meets the conditions, or the best point of the search. `first` is the first position;
/// `evaluate(t)` returns the value and the gradient at t.
template <class T, class F>
wolfe_point<T> strong_wolfe(const wolfe_point<T>& start, const tensor<double, 1>& direction,
                            const tensor<double, 0>& first, const F& evaluate, const wolfe_options& how, location at) {
  const tensor<double, 0> longest = max(abs(direction));
  const tensor<bool, 0> no = start.slope != start.slope, flat = !(start.slope < 0.0);
  const wolfe_search<T> begin{
      start, start, first, no, no, flat, sinter::detail::evaluate(cast<std::int64_t>(start.slope * 0.0), at)};
  const auto end =
      while_loop([](const wolfe_search<T>& s) { return tensor<bool, 0>(!s.done); },
                 [&](const wolfe_search<T>& s) {
                   auto [value, gradient] = evaluate(s.next);
                   const tensor<double, 0> slope = sum(cast<double>(gradient) * direction);
                   return after_point(s, start, {s.next, cast<double>(value), slope, gradient}, longest, how);
                 },
                 begin, at);
  return end.low;
}

template <class E>
auto settled(const E& e, location at) {
  return sinter::detail::settle(e, at);
}
template <class X>
auto total(const X& x, location at) {
  return sum_over<op_shapes::all_axes(1), false>(x, at);
}
template <class A, class B>
auto inner_product(const A& a, const B& b, location at) {
  return settled(total(mul(cast<double>(a, at), cast<double>(b, at), at), at), at);
}

/// The length of a step, or the first length of a search.
template <class T>
tensor<double, 0> reach(const lbfgs_options& how, const tensor<T, 1>& g, const lbfgs_state<T>& s, location at) {
  const scalar rate = how.rate(s.step, at);
  const auto length = total(abs(cast<double>(g, at), at), at);
  const tensor<double, 0> first = settled(minimum(1 / maximum(length, 1e-30, at), 1, at), at);
  return settled(cast<double>(beside(rate, g, at), at) * where(eq(s.step, 0, at), first, 1, at), at);
}
template <class T, class By>
tensor<T, 1> moved(const tensor<T, 1>& x, const By& by, const tensor<double, 1>& along, location at) {
  return settled(x + cast<T>(mul(by, along, at), at), at);
}
/// All rows except the first.
template <class X>
X rest(const X& x, location at) {
  return sinter::slice(x, axis<0>, 1, to_end, 1, at);
}
/// The rows after the first, followed by `row`, where `kept` holds.
template <class T>
tensor<T, 2> appended(const tensor<T, 2>& rows, const tensor<T, 1>& row, const tensor<bool, 0>& kept, location at) {
  const tensor<T, 2> after = concat_all<0>(at, rest(rows, at), tensor<T, 2>(expand_dims(row, axis<0>, at)));
  return settled(where(kept, after, rows, at), at);
}

template <class T>
lbfgs_state<T> remembered(const lbfgs_state<T>& s, const tensor<T, 1>& x, const tensor<T, 1>& g, location at) {
  if (x.size(0, at) != s.point.size(0, at))
    fail("optim::lbfgs",
         "the parameters are " + x.size(0, at).text() + " numbers, the state is of " + s.point.size(0, at).text() +
             "; make one of these parameters with init",
         at);
  const tensor<T, 1> move = settled(sub(x, s.point, at), at), turn = settled(sub(g, s.gradient, at), at);
  const tensor<double, 0> product = inner_product(move, turn, at);
  const tensor<bool, 0> kept = settled(bit_and(gt(s.step, 0, at), gt(product, 1e-10, at), at), at);
  const tensor<double, 0> safe = settled(where(kept, product, 1, at), at);
  const tensor<double, 1> weight = reshape(settled(div(1, safe, at), at), std::array<dim, 1>{1}, at);
  const tensor<double, 1> weights = concat_all<0>(at, rest(s.weights, at), weight);
  return {after(s.step, at),
          x,
          g,
          appended(s.moves, move, kept, at),
          appended(s.turns, turn, kept, at),
          settled(where(kept, weights, s.weights, at), at),
          settled(where(kept, div(safe, where(kept, inner_product(turn, turn, at), 1, at), at), s.scale, at), at)};
}

template <class T>
tensor<double, 1> direction(const lbfgs_options& how, const lbfgs_state<T>& s, const tensor<T, 1>& g, location at) {
  const auto m = static_cast<std::size_t>(how.history);
  const auto row = [&](const tensor<T, 2>& rows, std::size_t i) {
    const dim first = static_cast<std::int64_t>(i);
    return cast<double>(tensor<T, 1>(squeeze(sinter::slice(rows, axis<0>, first, first + 1, 1, at), axis<0>, at)), at);
  };
  const auto weight = [&](std::size_t i) {
    const dim first = static_cast<std::int64_t>(i);
    return tensor<double, 0>(squeeze(sinter::slice(s.weights, axis<0>, first, first + 1, 1, at), axis<0>, at));
  };
  std::vector<tensor<double, 0>> parts(m);
  tensor<double, 1> q = cast<double>(g, at);
  for (std::size_t i = m; i-- > 0;) {
    parts[i] = settled(mul(weight(i), inner_product(row(s.moves, i), q, at), at), at);
    q = settled(q - parts[i] * row(s.turns, i), at);
  }
  q = settled(mul(q, s.scale, at), at);
  for (std::size_t i = 0; i < m; ++i) {
    const tensor<double, 0> other = settled(mul(weight(i), inner_product(row(s.turns, i), q, at), at), at);
    q = settled(q + (parts[i] - other) * row(s.moves, i), at);
  }
  return q;
}

template <class T>
lbfgs_next<T> lbfgs_moved(const lbfgs_options& how, const lbfgs_state<T>& s, const tensor<T, 1>& x,
                          const tensor<T, 1>& g, location at) {
  lbfgs_state<T> next = remembered(s, x, g, at);
  return {moved(x, neg(reach(how, g, s, at), at), direction(how, next, g, at), at), std::move(next)};
}

template <class T>
lbfgs_next<T> lbfgs_searched(const lbfgs_options& how, const lbfgs_state<T>& s, const tensor<T, 1>& x,
                             const tensor<T, 0>& value, const tensor<T, 1>& g, const value_and_slope<T>& loss,
                             location at) {
  lbfgs_state<T> next = remembered(s, x, g, at);
  const tensor<double, 1> along = settled(neg(direction(how, next, g, at), at), at);
  const tensor<double, 0> first = cast<double>(value, at), none = zeros_like(first, at);
  const wolfe_point<T> start{none, first, inner_product(g, along, at), g};
  const auto end = strong_wolfe(
      start, along, reach(how, g, s, at), [&](const tensor<double, 0>& t) { return loss(moved(x, t, along, at)); },
      how.wolfe, at);
  return {moved(x, end.at, along, at), std::move(next)};
}

}  // namespace detail
}  // namespace sinter::optim
