// autodiff/scan.hpp: transposes and tangents of scans.
#pragma once

#include "structural.hpp"

namespace sinter::engine::autodiff {

namespace detail {

/// Each element's neighbour along the axis, the one before it or the one after it; `end` where there is none.
inline value neighbour(const value& x, std::int64_t axis, bool after, double end) {
  const shape none(x.extents().size(), 0);
  shape one = none;
  one[static_cast<std::size_t>(axis)] = 1;
  return slice(after ? pad(x, none, one, end) : pad(x, one, none, end), x.extents(), after ? one : none,
               axes_t(none.size(), 1));
}

/// Where each element of a running maximum or minimum y of x was found: the last place that set it.
inline value found_at(const value& x, const value& y, std::int64_t axis, bool reverse) {
  const value place = iota(x, dtype::i64, x.extents(), axis);
  const value end = reverse ? scan(place, op::maximum, axis, true) : place.like(0.0);
  const value sets = bit_or(eq(x, y), ne(x, x));
  return scan(select(sets, place, end), reverse ? op::minimum : op::maximum, axis, reverse);
}

}  // namespace detail

/// What operand k of a scan of `n`, with first operand x and result y, receives for the cotangent ct.
inline value transpose_scan(const ir::node& n, std::size_t k, const value& x, const value& factors, const value& y,
                            const value& ct) {
  const std::int64_t axis = n.attr.ints[0];
  const bool reverse = n.attr.ints[1] != 0;
  if (n.attr.combiner == op::add && !factors) return scan(ct, op::add, axis, !reverse);
  if (x.extents()[static_cast<std::size_t>(axis)].is(0)) return ct;
  if (n.attr.combiner == op::maximum || n.attr.combiner == op::minimum)
    return scatter_add(zeros(ct, x.extents()), detail::found_at(x, y, axis, reverse), ct, axis);
  // What an element of y changes, itself and through those after it.
  const value changed = recurrence(ct, detail::neighbour(factors ? factors : x, axis, !reverse, 0.0), axis, !reverse);
  if (!factors) return detail::neighbour(y, axis, reverse, 1.0) * changed;
  if (k == 0) return changed;
  // The product is moved as a whole: the first factor receives 0, whatever `changed` is there.
  return detail::neighbour(detail::neighbour(changed, axis, !reverse, 0.0) * y, axis, reverse, 0.0);
}

/// The tangent of a scan for the tangents of its operands; either may be empty, not both.
inline value push_scan(const ir::node& n, const value& x, const value& factors, const value& y, const value& tx,
                       const value& tf) {
  const std::int64_t axis = n.attr.ints[0];
  const bool reverse = n.attr.ints[1] != 0;
  if (factors) {
    value t = tx;
    if (tf) t = tf * detail::neighbour(y, axis, reverse, 0.0);
    return recurrence(tx && tf ? tx + t : t, factors, axis, reverse);
  }
  if (n.attr.combiner == op::add) return scan(tx, op::add, axis, reverse);
  if (x.extents()[static_cast<std::size_t>(axis)].is(0)) return tx;
  if (n.attr.combiner != op::mul) return gather(tx, detail::found_at(x, y, axis, reverse), axis);
  return recurrence(tx * detail::neighbour(y, axis, reverse, 1.0), x, axis, reverse);
}

}  // namespace sinter::engine::autodiff
