// ir/ops/elements.hpp: building blocks of several structural ops' reference.
#pragma once

#include <limits>
#include <utility>

#include "../reference_pointwise.hpp"
#include "record.hpp"

namespace sinter::ir::ops {

using detail::extents_t;

/// Copies a box of `extents` from offset p with strides ps to offset q with strides qs.
inline void copy_box(const extents_t& extents, const literal_array& from, const extents_t& ps, std::int64_t p,
                     literal_array& to, const extents_t& qs, std::int64_t q) {
  detail::with_elements(to, [&](auto* t) {
    const auto* f = detail::column<std::remove_pointer_t<decltype(t)>>(from);
    detail::walk(extents, ps, qs, p, q, [&](std::int64_t i, std::int64_t j) { t[j] = f[i]; });
  });
}

inline void fill(literal_array& out, scalar literal) {
  if (is_float(out.type)) std::fill(out.f.begin(), out.f.end(), literal.f);
  else std::fill(out.i.begin(), out.i.end(), literal.i);
}

/// Copies a view: the result reads its operand from `offset` with `strides`.
inline void copy_view(const literal_array& x, const extents_t& strides, std::int64_t offset, literal_array& out) {
  if (detail::count_of(out.extents) > 0)
    copy_box(out.extents, x, strides, offset, out, detail::row_major_strides(out.extents), 0);
}

/// The value of an empty reduction, in the type in which T are combined.
template <class T>
T identity_of(op combiner, dtype t) {
  const scalar s = ir::combiner_identity(combiner, t);
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(s.f);
  else return static_cast<T>(s.i);
}

/// Extents split at an axis: the parts before it, the axis, the parts after it.
struct split {
  std::int64_t outer = 1, length = 1, inner = 1;

  split(const extents_t& extents, std::size_t axis) : length(extents[axis]) {
    for (std::size_t i = 0; i < extents.size(); ++i)
      if (i != axis) (i < axis ? outer : inner) *= extents[i];
  }
};

/// body(index's offset, x's offset, the index, x's extent and stride on the axis) for every element of `index`.
template <class F>
void walk_index(std::size_t axis, const literal_array& x, const literal_array& index, F&& body) {
  extents_t strides = detail::row_major_strides(x.extents);
  const std::int64_t extent = x.extents[axis], stride = std::exchange(strides[axis], 0);
  detail::walk(
      index.extents, detail::row_major_strides(index.extents), strides, 0, 0,
      [&](std::int64_t i, std::int64_t j) { body(i, j, index.i[static_cast<std::size_t>(i)], extent, stride); });
}

}  // namespace sinter::ir::ops
