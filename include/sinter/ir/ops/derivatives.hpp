// ir/ops/derivatives.hpp: building blocks of the structural ops' transposes and tangents.
#pragma once

#include <cstdlib>
#include <limits>

#include "record.hpp"

namespace sinter::ir::ops {

/// Zeros of the dtype of `near`.
inline value zeros(const value& near, shape extents) {
  return {near.owner(), near.owner().constant(near.type(), 0.0, std::move(extents), near.where()), near.where()};
}

inline shape part(const shape& s, std::size_t from, std::size_t to) {
  return shape(s.begin() + static_cast<std::ptrdiff_t>(from), s.begin() + static_cast<std::ptrdiff_t>(to));
}

inline axes_t iota_axes(std::size_t from, std::size_t to) {
  axes_t a;
  for (std::size_t i = from; i < to; ++i) a.push_back(static_cast<std::int64_t>(i));
  return a;
}

inline axes_t inverse(const axes_t& perm) {
  axes_t inv(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) inv[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return inv;
}

/// Axes that a broadcast from `from` to `to` repeats.
inline axes_t repeated(const shape& from, const shape& to) {
  axes_t axes;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (!(from[i] == to[i])) axes.push_back(static_cast<std::int64_t>(i));
  return axes;
}

/// Inserts `step` - 1 zeros after each element of an axis except the last.
inline value stuff(const value& x, std::size_t axis, std::int64_t step) {
  shape full = x.extents();
  const dim n = full[axis], outer = product(part(full, 0, axis)), inner = product(part(full, axis + 1, full.size()));
  const dim length = (n - 1) * dim(step) + 1;
  value y = pad(reshape(x, {outer, n, 1, inner}), {0, 0, 0, 0}, {0, 0, step - 1, 0}, 0.0);
  y = slice(reshape(y, {outer, n * dim(step), inner}), {outer, length, inner}, {0, 0, 0}, {1, 1, 1});
  full[axis] = length;
  return reshape(y, std::move(full));
}

/// The transpose of slice: puts elements back at their places, among zeros.
inline value unslice(value x, const shape& full, const shape& start, const axes_t& steps) {
  const shape count = x.extents();
  if (std::any_of(count.begin(), count.end(), [](const dim& d) { return d.is(0); })) return zeros(x, full);
  const shape none(full.size(), 0);
  shape low = start, high, flip_start = none;
  axes_t flips(full.size(), 1);
  for (std::size_t i = 0; i < full.size(); ++i)
    if (steps[i] < 0) {
      flips[i] = -1;
      flip_start[i] = count[i] - 1;
      low[i] = start[i] + (count[i] - 1) * dim(steps[i]);
    }
  if (std::find(flips.begin(), flips.end(), -1) != flips.end()) x = slice(x, count, flip_start, flips);
  for (std::size_t i = 0; i < full.size(); ++i)
    if (std::abs(steps[i]) != 1 && !count[i].is(1)) x = stuff(x, i, std::abs(steps[i]));
  for (std::size_t i = 0; i < full.size(); ++i) high.push_back(full[i] - low[i] - x.extents()[i]);
  if (low == none && high == none) return x;
  return pad(x, std::move(low), high, 0.0);
}

/// For each element of x, the product of the others along the axis; exact with zeros.
inline value exclusive_products(const value& x, std::int64_t axis) {
  const auto a = static_cast<std::size_t>(axis);
  if (x.extents()[a].is(1)) return x.like(1.0);
  const shape none(x.extents().size(), 0);
  shape one = none, two = none;
  one[a] = 1;
  two[a] = 2;
  axes_t steps(none.size(), 1);
  if (x.extents()[a].is(2)) {
    steps[a] = -1;
    return slice(x, x.extents(), one, steps);
  }
  const value wide = pad(x, one, one, 1.0);
  const value before = scan(slice(wide, x.extents(), none, steps), op::mul, axis, false);
  return before * scan(slice(wide, x.extents(), two, steps), op::mul, axis, true);
}

/// The derivative of a product along `axes` by each element of x. Partial products may leave the range of 16 bits.
inline value product_slopes(const value& x, const axes_t& axes) {
  if (is_narrow(x.type())) return cast(product_slopes(cast(x, dtype::f32), axes), x.type());
  if (axes.size() == 1) return exclusive_products(x, axes[0]);
  axes_t order;
  for (std::int64_t i = 0; i < x.rank(); ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) order.push_back(i);
  const std::size_t kept = order.size();
  order.insert(order.end(), axes.begin(), axes.end());
  const value moved = permute(x, order);
  const shape extents = moved.extents();
  const value flat = reshape(moved, {product(part(extents, 0, kept)), product(part(extents, kept, extents.size()))});
  return permute(reshape(exclusive_products(flat, 1), extents), inverse(order));
}

/// True where x equals the extreme r of `axes`; `count` receives the number of tied elements, with r's extents, in f32 for
/// halves.
inline value extremes(const value& x, const value& r, const axes_t& axes, value& count) {
  const value at = eq(x, expand(r, axes, x.extents()));
  count = reduce(cast(at, is_narrow(x.type()) ? dtype::f32 : x.type()), op::add, axes);
  return at;
}

/// x divided by the number of tied elements.
inline value share(const value& x, const value& count) { return cast(cast(x, count.type()) / count, x.type()); }

/// The largest valid index of an axis with extent `extent`, with the extents of `index`.
inline value last_index(const value& index, const dim& extent) {
  if (const auto n = extent.number()) {
    const std::int64_t most = index.type() == dtype::i32 ? std::numeric_limits<std::int32_t>::max() : *n - 1;
    return {index.owner(), index.owner().constant(index.type(), scalar{0, std::min(*n - 1, most)}, index.extents()),
            index.where()};
  }
  const value last = reduce(iota(index, index.type(), {extent}, 0), op::maximum, {0});
  return broadcast(reshape(last, shape(index.extents().size(), 1)), index.extents());
}

/// Whether indices are in range for an axis of `extent`, which is not 0.
inline value is_within(const value& index, const dim& extent) {
  return bit_and(ge(index, 0.0), le(index, last_index(index, extent)));
}

}  // namespace sinter::ir::ops
