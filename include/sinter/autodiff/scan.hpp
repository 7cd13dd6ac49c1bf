// autodiff/scan.hpp: transposes and tangents of scans.
#pragma once

#include "structural.hpp"

namespace sinter::engine::autodiff {

namespace detail {

inline value flipped(const value& x, std::size_t axis) {
  const shape& e = x.extents();
  if (e[axis].is(0)) return x;
  shape start(e.size(), 0);
  axes_t steps(e.size(), 1);
  start[axis] = e[axis] - 1;
  steps[axis] = -1;
  return slice(x, e, start, steps);
}

/// Element i is x's element i - by; `first` comes in.
inline value delayed(const value& x, std::size_t axis, std::int64_t by, double first) {
  const shape none(x.extents().size(), 0);
  shape kept = x.extents(), low = none;
  kept[axis] = kept[axis] - by;
  low[axis] = by;
  return pad(slice(x, kept, none, axes_t(none.size(), 1)), low, none, first);
}

/// y with y[i] = c[i] + a[i]·y[i - 1] along the axis, by doubling: exact also where a is 0.
inline value recurrence(value c, value a, std::size_t axis) {
  const auto length = c.extents()[axis].number();
  if (!length) fail("cumprod", "its derivative needs the extent of the axis as a number", c.where());
  for (std::int64_t by = 1; by < *length; by *= 2) {
    c = c + a * delayed(c, axis, by, 0.0);
    if (2 * by < *length) a = a * delayed(a, axis, by, 0.0);
  }
  return c;
}

/// Where each element of a running maximum or minimum y of x was found: the last place that set it.
inline value found_at(const value& x, const value& y, std::int64_t axis, bool reverse) {
  const value place = iota(x, dtype::i64, x.extents(), axis);
  const value end = reverse ? scan(place, op::maximum, axis, true) : place.like(0.0);
  const value sets = bit_or(eq(x, y), ne(x, x));
  return scan(select(sets, place, end), reverse ? op::minimum : op::maximum, axis, reverse);
}

}  // namespace detail

/// What the operand of a scan of `n`, with operand x and result y, receives for the cotangent ct.
inline value transpose_scan(const ir::node& n, const value& x, const value& y, const value& ct) {
  const std::int64_t axis = n.attr.ints[0];
  const bool reverse = n.attr.ints[1] != 0;
  const auto a = static_cast<std::size_t>(axis);
  if (n.attr.combiner == op::add) return scan(ct, op::add, axis, !reverse);
  if (x.extents()[a].is(0)) return ct;
  if (n.attr.combiner != op::mul)
    return scatter_add(zeros(ct, x.extents()), detail::found_at(x, y, axis, reverse), ct, axis);
  // x[j] receives the product before it times r[j] = ct[j] + x[j + 1]·r[j + 1].
  const auto turned = [&](const value& v, bool turn) { return turn ? detail::flipped(v, a) : v; };
  const value before = turned(detail::delayed(turned(y, reverse), a, 1, 1.0), reverse);
  const value after = detail::delayed(turned(x, !reverse), a, 1, 0.0);
  return before * turned(detail::recurrence(turned(ct, !reverse), after, a), !reverse);
}

/// The tangent of a scan for the tangent t of its operand.
inline value push_scan(const ir::node& n, const value& x, const value& y, const value& t) {
  const std::int64_t axis = n.attr.ints[0];
  const bool reverse = n.attr.ints[1] != 0;
  const auto a = static_cast<std::size_t>(axis);
  if (n.attr.combiner == op::add) return scan(t, op::add, axis, reverse);
  if (x.extents()[a].is(0)) return t;
  if (n.attr.combiner != op::mul) return gather(t, detail::found_at(x, y, axis, reverse), axis);
  const auto turned = [&](const value& v) { return reverse ? detail::flipped(v, a) : v; };
  const value before = detail::delayed(turned(y), a, 1, 1.0);
  return turned(detail::recurrence(turned(t) * before, turned(x), a));
}

}  // namespace sinter::engine::autodiff
