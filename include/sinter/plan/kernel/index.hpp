// plan/kernel/index.hpp: index maps: the coordinates of a view's operand from the coordinates of its result.
#pragma once

#include <optional>
#include <variant>

#include "../../base/series.hpp"
#include "../../base/strides.hpp"
#include "kernel.hpp"

namespace sinter::engine::plan {

/// One affine coordinate per dimension of a node.
using coordinates = series<affine>;

inline affine constant_coordinate(dim offset, std::size_t axes) {
  return {std::move(offset), series<dim>(axes), {}, -1};
}

inline affine axis_coordinate(std::size_t axis, std::size_t axes) {
  affine c = constant_coordinate(0, axes);
  c.stride[axis] = 1;
  return c;
}

inline affine operator*(const dim& factor, affine c) {
  c.offset *= factor;
  for (auto& s : c.stride) s *= factor;
  c.indirect *= factor;
  return c;
}

inline affine operator+(affine x, const affine& y) {
  ensure(x.index < 0 || y.index < 0 || x.index == y.index, "an address has one indirect index");
  x.offset += y.offset;
  for (std::size_t a = 0; a < x.stride.size(); ++a) x.stride[a] += y.stride[a];
  x.indirect += y.indirect;
  if (x.index < 0) x.index = y.index;
  return x;
}

using sinter::detail::row_major_strides;

/// The element offset of coordinates under strides.
inline affine linear(const coordinates& at, const series<dim>& strides, std::size_t axes) {
  affine sum = constant_coordinate(0, axes);
  for (std::size_t d = 0; d < at.size(); ++d) sum = sum + strides[d] * at[d];
  return sum;
}

/// True when a < b for every binding of the symbols, each at least 2.
inline bool always_less(const dim& a, const dim& b) {
  const dim gap = b - a;
  if (const auto n = gap.number()) return *n > 0;
  return gap.lower_bound() > 0;
}

/// Whether a range holds at every position of the axes, or (false) at none; empty if it varies.
inline std::optional<bool> holds(const range& r, std::span<const dim> axes) {
  if (r.at.index >= 0) return std::nullopt;
  dim least = r.at.offset, most = r.at.offset;
  for (std::size_t a = 0; a < r.at.stride.size(); ++a) {
    const dim& c = r.at.stride[a];
    if (c.is(0)) continue;
    const dim reach = c * (axes[a] - dim(1));
    if (c.lower_bound() > 0) most += reach;
    else if (c.upper_bound() < 0) least += reach;
    else return std::nullopt;
  }
  if (least.lower_bound() >= 0 && always_less(most, r.extent)) return true;
  if (most.upper_bound() < 0 || (r.extent - dim(1) - least).upper_bound() < 0) return false;
  return std::nullopt;
}

/// The request to split an axis in two, before a reshape can be followed.
struct split_request {
  std::size_t axis;
  dim outer, inner;
};

/// The coordinates of an operand of extents `in` at row-major offset `offset`: the offset as mixed-radix digits. A
/// split_request if an axis must be split first; nothing if no split helps.
inline std::variant<std::monostate, coordinates, split_request> delinearize(affine offset, const ir::shape& in,
                                                                            const series<dim>& axes) {
  coordinates at(in.size(), constant_coordinate(0, axes.size()));
  if (ir::product(in).is(0)) return at;  // no element is read
  for (std::size_t d = in.size(); d-- > 1;) {
    const dim& n = in[d];
    if (n.is(1)) continue;
    affine& low = at[d];
    affine high = constant_coordinate(0, axes.size());
    dim least = 0, most = 0;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      const dim& c = offset.stride[a];
      if (c.is(0)) continue;
      if (const auto q = c.divided_by(n)) {
        high.stride[a] = *q;
        continue;
      }
      const dim reach = c * (axes[a] - dim(1));
      if (c.lower_bound() > 0 && always_less(reach, n)) {
        most += reach;
      } else if (c.upper_bound() < 0 && always_less(dim(0) - reach, n)) {
        least += reach;
      } else {
        const auto inner = n.divided_by(c.upper_bound() < 0 ? dim(0) - c : c);
        const auto outer = inner ? axes[a].divided_by(*inner) : std::nullopt;
        if (outer && !inner->is(1) && !outer->is(1)) return split_request{a, *outer, *inner};
        return {};
      }
      low.stride[a] = c;
    }
    // Moves whole multiples of n out of the constant, so that the digit stays in [0, n).
    dim whole = 0;
    if (const auto q = (offset.offset + least).divided_by(n)) {
      whole = *q;
    } else if (offset.offset.is_number() && n.is_number() && least.is_number()) {
      const std::int64_t o = *(offset.offset + least).number(), m = *n.number();
      whole = o >= 0 ? o / m : -((-o + m - 1) / m);
    }
    low.offset = offset.offset - whole * n;
    if (!always_less(low.offset + most, n) || (low.offset + least).lower_bound() < 0) return {};
    high.offset = whole;
    if (offset.index >= 0) {
      const auto q = offset.indirect.divided_by(n);
      if (!q) return {};
      high.indirect = *q;
      high.index = offset.index;
    }
    offset = std::move(high);
  }
  if (!in.empty()) {
    if (in[0].is(1)) offset = constant_coordinate(0, axes.size());
    at[0] = std::move(offset);
  }
  return at;
}

}  // namespace sinter::engine::plan
