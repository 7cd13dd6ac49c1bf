// optim/wolfe.hpp: the length of a step along a direction, by the strong Wolfe conditions.
#pragma once

#include <utility>

#include "leaves.hpp"

namespace sinter::optim {

struct wolfe_options {
  double decrease = 1e-4;  ///< the value falls by at least this fraction of the first slope
  double curvature = 0.9;  ///< the last slope is at most this fraction of the first
  int evaluations = 25;    ///< the greatest number of evaluations of the function
};

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
tensor<double, 0> least_of_cubic(const wolfe_point<T>& a, const wolfe_point<T>& b, const tensor<double, 0>& from,
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
  const tensor<double, 0> place = least_of_cubic(s.low, s.high, from, to), margin = 0.1 * (to - from);
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
      least_of_cubic(next.high, next.low, tensor<double, 0>(point.at + 0.01 * (point.at - next.high.at)),
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

}  // namespace detail
}  // namespace sinter::optim
