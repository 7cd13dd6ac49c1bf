// front/compile/dynamic.hpp: marks of a tensor's axes for compile().
#pragma once

#include <string>

#include "../tensor/tensor.hpp"

namespace sinter {

/// The extents that an axis may have.
struct size_bounds {
  std::int64_t min = 0, max = std::int64_t{1} << 62;
};

namespace detail {

template <class X>
void demand_not_donated(const char* op, const X& x, location at) {
  if (const location call = access::donated_to(x); call.line) fail_undefined(op, at, call);
}

}  // namespace detail

/// Keeps an axis of x open in calls of compiled functions with x, or with copies of this handle, from the first call on. One
/// specialisation covers all extents in `bounds`, except 0 and 1, which have their own. Views of x are not marked. user_error
/// for bounds without an extent, or without x's extent.
template <any_tensor X>
void mark_dynamic(X& x, int axis, size_bounds bounds = {}, location at = location::current()) {
  const int a = detail::normalize_axis(axis, X::rank);
  if (a < 0) detail::fail_axis("mark_dynamic", axis, X::rank, at);
  detail::demand_not_donated("mark_dynamic", x, at);
  const dim extent = x.shape()[static_cast<std::size_t>(a)];
  if (extent < bounds.min || extent > bounds.max)
    fail("mark_dynamic",
         "axis " + std::to_string(a) + " has extent " + extent.text() + ", which is not from " +
             std::to_string(bounds.min) + " to " + std::to_string(bounds.max) + "; give bounds that hold",
         at);
  auto& marks = detail::access::marks(x);
  marks = engine::add_mark(marks, a, true, bounds.min, bounds.max);
}

/// Calls with x, or with copies of this handle, specialise to the extent of the axis whenever they compile. Views of x are not
/// marked.
template <any_tensor X>
void mark_static(X& x, int axis, location at = location::current()) {
  const int a = detail::normalize_axis(axis, X::rank);
  if (a < 0) detail::fail_axis("mark_static", axis, X::rank, at);
  detail::demand_not_donated("mark_static", x, at);
  auto& marks = detail::access::marks(x);
  marks = engine::add_mark(marks, a, false, 0, 0);
}

/// The smaller of two extents; for symbolic extents the comparison becomes a guard.
constexpr dim min(dim a, dim b) { return b < a ? b : a; }
/// The larger of two extents; for symbolic extents the comparison becomes a guard.
constexpr dim max(dim a, dim b) { return a < b ? b : a; }

}  // namespace sinter
