// front/shape_rules.hpp: broadcasting, on static shapes at compile time and on extents at run time.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "../base/dims.hpp"
#include "../base/error.hpp"
#include "../base/shape_errors.hpp"
#include "../base/text.hpp"

namespace sinter {

/// Extents, strides or coordinates of a tensor of rank R.
template <int R>
using index_array = std::array<std::int64_t, static_cast<std::size_t>(R)>;

namespace detail {

/// The NumPy broadcast of two extents; either may be `dyn`. -2: they differ.
constexpr std::int64_t broadcast_extent(std::int64_t a, std::int64_t b) {
  if (a == b || b == 1) return a;
  if (a == 1 || a == dyn) return b;
  return b == dyn ? a : -2;
}

/// The NumPy broadcast of static shapes; rank -1 when they do not broadcast.
constexpr dims broadcast(const dims& a, const dims& b) {
  const int rank = a.rank > b.rank ? a.rank : b.rank;
  dims out(rank);
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t x = i <= a.rank ? a[a.rank - i] : 1, y = i <= b.rank ? b[b.rank - i] : 1;
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
constexpr bool broadcast_into(std::int64_t* out, int rank, const std::int64_t* x, int x_rank) {
  for (int i = 1; i <= x_rank; ++i) {
    std::int64_t& o = out[rank - i];
    const std::int64_t e = x[x_rank - i];
    if (e == o || e == 1) continue;
    if (o != 1) return false;
    o = e;
  }
  return true;
}

/// The axis counted from the front, or -1 when it is out of range.
constexpr int normalize_axis(int axis, int rank) {
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? axis : -1;
}

template <std::size_t R>
constexpr dims to_dims(const std::array<std::int64_t, R>& extents) {
  dims d;
  for (auto e : extents) d.push(e);
  return d;
}

template <std::size_t R>
std::string shape_text(const std::array<std::int64_t, R>& extents) {
  return text::shape(to_dims(extents));
}

template <std::size_t R>
constexpr std::array<std::int64_t, R> row_major(const std::array<std::int64_t, R>& extents) {
  std::array<std::int64_t, R> strides{};
  std::int64_t step = 1;
  for (std::size_t i = R; i-- > 0;) {
    strides[i] = step;
    step *= extents[i];
  }
  return strides;
}

template <std::size_t R>
constexpr std::int64_t product(const std::array<std::int64_t, R>& extents) {
  std::int64_t n = 1;
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
