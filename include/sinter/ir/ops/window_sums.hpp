// ir/ops/window_sums.hpp: sums over the places and taps that meet at each position, without a scatter.
#pragma once

#include <numeric>

#include "derivatives.hpp"
#include "taps.hpp"

namespace sinter::ir::ops {

/// Elements start, start + step, … of one axis.
inline value slice_axis(const value& x, std::size_t axis, const dim& start, const dim& count, std::int64_t step) {
  const shape& e = x.extents();
  if (start.is(0) && step == 1 && count == e[axis]) return x;
  shape counts = e, starts(e.size(), 0);
  axes_t steps(e.size(), 1);
  counts[axis] = count;
  starts[axis] = start;
  steps[axis] = step;
  return slice(x, std::move(counts), starts, std::move(steps));
}

/// The elements of one axis at start, start + step, … of `full` places, among zeros.
inline value place_axis(const value& x, std::size_t axis, const dim& start, std::int64_t step, const dim& full) {
  shape extents = x.extents(), starts(extents.size(), 0);
  axes_t steps(extents.size(), 1);
  extents[axis] = full;
  starts[axis] = start;
  steps[axis] = step;
  return unslice(x, extents, starts, steps);
}

/// x with the axes `from` and from + 1 as one.
inline value join_axes(const value& x, std::size_t from) {
  shape e = x.extents();
  e[from] *= e[from + 1];
  e.erase(e.begin() + static_cast<std::ptrdiff_t>(from) + 1);
  return reshape(x, std::move(e));
}

inline dim ceil_div(const dim& a, std::int64_t b) { return floor_div(a + dim(b - 1), b); }

/// x whose axis `from` is moved to be axis `to`.
inline value move_axis(const value& x, std::size_t from, std::size_t to) {
  if (from == to) return x;
  axes_t order = iota_axes(0, x.extents().size());
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), static_cast<std::int64_t>(from));
  return permute(x, std::move(order));
}

/// Places and taps that meet at step·place + dilation·tap, and their numbers.
struct overlap {
  std::int64_t step = 1, dilation = 1;
  dim places, taps;

  /// The number of positions from the first to the last.
  dim positions() const { return dim(step) * (places - 1) + dim(dilation) * (taps - 1) + 1; }
  /// True when each position belongs to at most one place.
  bool apart() const {
    const auto n = taps.number();
    return n && dilation * (*n - 1) < step;
  }
};

/// The positions step·q + residue. They have the taps first + step·u of the places q + shift - dilation·u.
struct residue_class {
  std::int64_t first = 0, shift = 0;

  residue_class(const overlap& o, std::int64_t residue) {
    while (o.dilation * first % o.step != residue) ++first;
    shift = (residue - o.dilation * first) / o.step;
  }
  dim count(const overlap& o) const {
    if (const auto n = o.taps.number()) return *n > first ? (*n - first + o.step - 1) / o.step : 0;
    return ceil_div(o.taps - first, o.step);
  }
};

/// The last axes of x are places and taps: y(…, q) = Σ x(…, q + shift - dilation·u, u), q < count, over existing elements.
inline value sum_taps(const value& x, std::int64_t dilation, std::int64_t shift, const dim& count) {
  constexpr std::int64_t max_unrolled = 8;
  const std::size_t taps = x.extents().size() - 1, places = taps - 1;
  const dim n = x.extents()[places], u = x.extents()[taps];
  shape low(taps, 0), high(taps, 0);
  if (u.number().value_or(max_unrolled + 1) <= max_unrolled) {
    value sum;
    const auto size = tap_reader::measure(x);
    const bool copies =
        size.is_short() && size.windows == 0;  // values that are compared with windows are computed once
    for (std::int64_t t = 0; t < *u.number(); ++t) {
      tap_reader::places where(taps + 1, -1);
      where[taps] = t;
      const value row =
          copies ? tap_reader::at(x, where) : reshape(slice_axis(x, taps, t, 1, 1), part(x.extents(), 0, taps));
      low[places] = dilation * t - shift;
      high[places] = count - n - low[places];
      const value y = low[places].is(0) && high[places].is(0) ? row : pad(row, low, high, 0.0);
      sum = sum ? sum + y : y;
    }
    return sum;
  }
  low.push_back(0);
  high.push_back(0);
  low[places] = dim(dilation) * (u - 1) - dim(shift);
  high[places] = count + dim(shift) - n;
  shape e = x.extents(), start(taps + 1, 0);
  e[places] = count;
  start[places] = dim(shift) + low[places];
  axes_t factors((taps + 1) * (taps + 1), 0);
  for (std::size_t d = 0; d <= taps; ++d) factors[d * (taps + 1) + d] = 1;
  factors[places * (taps + 1) + taps] = -dilation;
  return reduce(window(pad(x, low, high, 0.0), std::move(e), start, std::move(factors)), op::add,
                {static_cast<std::int64_t>(taps)});
}

/// Joins values for each residue, whose axis counts that residue's positions, into one value whose axis has all positions.
inline value interleave(series<value> parts, std::size_t axis, const dim& positions) {
  if (parts.size() == 1) return slice_axis(parts[0], axis, 0, positions, 1);
  for (auto& p : parts) {
    shape e = p.extents();
    e.insert(e.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 1);
    p = reshape(p, std::move(e));
  }
  const value all = join_axes(concat(parts, static_cast<std::int64_t>(axis) + 1), axis);
  return slice_axis(all, axis, 0, positions, 1);
}

/// The last axes of x are places and taps, with positive step and dilation: sums by position, from the first to the last.
inline value merge_taps(value x, overlap o) {
  const std::size_t taps = x.extents().size() - 1, places = taps - 1;
  const dim all = o.positions();
  if (o.apart()) return slice_axis(join_axes(place_axis(x, taps, 0, o.dilation, o.step), places), places, 0, all, 1);
  const auto n = o.places.number(), t = o.taps.number();
  // The smaller of taps and places is unrolled, unless places are apart.
  const overlap turned{o.dilation, o.step, o.taps, o.places};
  if (turned.apart() || (n && (!t || *n < *t))) {
    std::swap(o.step, o.dilation);
    std::swap(o.places, o.taps);
    x = move_axis(x, taps, places);
    if (o.apart()) return merge_taps(x, o);
  }
  if (const auto g = std::gcd(o.step, o.dilation); g > 1) {
    const value y = merge_taps(x, {o.step / g, o.dilation / g, o.places, o.taps});
    return place_axis(y, places, 0, g, all);
  }
  if (o.dilation == 1 && o.step > 1) {
    // A tap is step·u + v: places and u meet at every position, of which v selects a part.
    const dim u = ceil_div(o.taps, o.step);
    x = place_axis(x, taps, 0, 1, u * dim(o.step));
    shape e = x.extents();
    e[taps] = u;
    e.push_back(o.step);
    const value y = merge_taps(move_axis(reshape(x, std::move(e)), taps + 1, places), {1, 1, o.places, u});
    return slice_axis(join_axes(move_axis(y, places, taps), places), places, 0, all, 1);
  }
  const dim count = o.places - 1 + ceil_div(dim(o.dilation) * (o.taps - 1) + 1, o.step);
  series<value> parts;
  for (std::int64_t r = 0; r < o.step; ++r) {
    const residue_class c(o, r);
    const dim u = c.count(o);
    shape none = x.extents();
    none.pop_back();
    none[places] = count;
    if (u.upper_bound() <= 0) parts.push_back(zeros(x, none));
    else parts.push_back(sum_taps(slice_axis(x, taps, c.first, u, o.step), o.dilation, c.shift, count));
  }
  return interleave(std::move(parts), places, all);
}

}  // namespace sinter::ir::ops
