// front/shapes/shape_rules.hpp: broadcasting, on static shapes at compile time and on extents at run time.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "../../base/dims.hpp"
#include "../../base/error.hpp"
#include "../../base/shape_errors.hpp"
#include "../../base/strides.hpp"
#include "../../base/text.hpp"

namespace sinter {

/// Extents, strides or coordinates of a tensor of rank R.
template <int R>
using index_array = std::array<dim, static_cast<std::size_t>(R)>;

namespace detail {

/// The NumPy broadcast of two extents; either may be `dyn`. -2 if they differ.
constexpr dim broadcast_extent(dim a, dim b) {
  if (a == b || b == 1) return a;
  if (a == 1 || a == dyn) return b;
  return b == dyn ? a : dim(-2);
}

/// The NumPy broadcast of static shapes; rank -1 when they do not broadcast.
constexpr dims broadcast(const dims& a, const dims& b) {
  const int rank = a.rank > b.rank ? a.rank : b.rank;
  dims out(rank);
  for (int i = 1; i <= rank; ++i) {
    const dim x = i <= a.rank ? a[a.rank - i] : dim(1), y = i <= b.rank ? b[b.rank - i] : dim(1);
    out[rank - i] = broadcast_extent(x, y);
    if (out[rank - i] == -2) {
      out.rank = -1;
      return out;
    }
  }
  return out;
}

constexpr dims broadcast(const dims& a) { return a; }

template <class... More>
constexpr dims broadcast(const dims& a, const dims& b, const dims& c, const More&... more) {
  const dims ab = broadcast(a, b);
  return ab.rank < 0 ? ab : broadcast(ab, c, more...);
}

/// Broadcasts x's extents into `out`, whose rank is at least as large. False when they differ.
constexpr bool broadcast_into(dim* out, int rank, const dim* x, int x_rank) {
  for (int i = 1; i <= x_rank; ++i) {
    dim& o = out[rank - i];
    const dim e = x[x_rank - i];
    if (e == o || e == 1) continue;
    if (o != 1) return false;
    o = e;
  }
  return true;
}

/// The axis counted from the front, or -1 if it is out of range.
constexpr int normalize_axis(int axis, int rank) {
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? axis : -1;
}

template <std::size_t R>
constexpr dims to_dims(const std::array<dim, R>& extents) {
  dims d;
  for (auto e : extents) d.push(e);
  return d;
}

/// Extents given as integers.
template <extent_like I, std::size_t R>
constexpr std::array<dim, R> as_extents(const std::array<I, R>& extents) {
  std::array<dim, R> out{};
  for (std::size_t i = 0; i < R; ++i) out[i] = extents[i];
  return out;
}

template <std::size_t R>
std::string shape_text(const std::array<dim, R>& extents) {
  return text::shape(to_dims(extents));
}

template <std::size_t R>
constexpr dim product(const std::array<dim, R>& extents) {
  dim n = 1;
  for (auto e : extents) n *= e;
  return n;
}

/// user_error unless the extents fit the static shape.
template <dims Shape>
void check_static(const char* op, const index_array<Shape.rank>& extents, location at) {
  if (!fits(Shape, to_dims(extents))) fail_static_shape(op, Shape, to_dims(extents), at);
}

}  // namespace detail
}  // namespace sinter
