// plan/schedule/vectors.hpp: the elements along an axis that a thread moves in one access, and what is left at the axis' end.
#pragma once

#include "counts.hpp"

namespace sinter::engine::plan {

/// Larger buffers that are read once bypass the caches in kernels that store little. This is 1 to 2 % faster; kernels that
/// store as much as they read would be up to 7 % slower (H200).
inline constexpr std::int64_t once_bytes = 48 << 20;

inline dtype type_of(const kernel& k, const access& a) { return k.buffers[static_cast<std::size_t>(a.buffer)].type; }

/// True when `width` elements along `axis` are one access: contiguous, and aligned because they start at multiples of width.
inline bool is_vector_access(const kernel& k, const access& a, int axis, std::int64_t width) {
  if (axis < 0 || !a.at.stride[static_cast<std::size_t>(axis)].is(1)) return false;
  const auto& b = k.buffers[static_cast<std::size_t>(a.buffer)];
  const auto bytes = std::min<std::int64_t>(width * static_cast<std::int64_t>(size_of(b.type)), 16);
  if (b.by_value || b.alignment % bytes != 0) return false;
  const std::int64_t unit = bytes / static_cast<std::int64_t>(size_of(b.type));
  if (!divides(unit, a.at.offset) || (a.at.index >= 0 && !divides(unit, a.at.indirect))) return false;
  if (a.at.index >= 0 && (k.body[static_cast<std::size_t>(a.at.index)].axes >> axis & 1u)) return false;
  for (std::size_t x = 0; x < a.at.stride.size(); ++x)
    if (static_cast<int>(x) != axis && !divides(unit, a.at.stride[x])) return false;
  return true;
}

/// How a kernel treats the end of an axis that vectors do not divide.
enum class tail : std::uint8_t {
  none,   ///< vectors are narrower
  apart,  ///< it is the only axis, and its last elements are handled apart
  lanes,  ///< the last vector of a long axis has fewer lanes
};

/// Elements along `axis` that a thread processes at once: 16 bytes of the widest contiguous operand, fewer if the extent or
/// the addresses require it.
inline int vector_width(const kernel& k, int axis, tail at_end) {
  constexpr std::int64_t min_vectors = 8;  // of an axis whose last vector is not whole
  if (axis < 0) return 1;
  series<const access*> along;
  for (const auto& i : k.body)
    if (i.kind == kind::load && i.at.at.stride[static_cast<std::size_t>(axis)].is(1)) along.push_back(&i.at);
  for (const auto& s : k.stores)
    if (!s.accumulate && s.at.at.stride[static_cast<std::size_t>(axis)].is(1)) along.push_back(&s.at);
  std::size_t widest = 0;
  for (const auto* a : along) widest = std::max(widest, size_of(type_of(k, *a)));
  if (!widest) return 1;
  for (std::int64_t w = static_cast<std::int64_t>(16 / widest); w > 1; w /= 2) {
    const auto is_one = [&](const auto* a) { return is_vector_access(k, *a, axis, w); };
    const dim& n = k.axes[static_cast<std::size_t>(axis)].extent;
    const bool whole = at_end == tail::apart || divides(w, n);
    if (!whole && (at_end == tail::none || n.number().value_or(0) < min_vectors * w)) continue;
    if (whole ? std::any_of(along.begin(), along.end(), is_one) : std::all_of(along.begin(), along.end(), is_one))
      return static_cast<int>(w);
  }
  return 1;
}

/// The lanes of a thread's vectors.
struct lanes {
  int axis = -1;
  int width = 1;
  bool in_part = false;  ///< the last vector of a row has fewer lanes
};

/// Lanes along `axis`, at most `most` of them.
inline lanes lanes_along(const kernel& k, int axis, tail at_end, int most = 16) {
  lanes l{axis, std::min(vector_width(k, axis, at_end), most)};
  l.in_part = at_end == tail::lanes && l.width > 1 && !divides(l.width, k.axes[static_cast<std::size_t>(axis)].extent);
  return l;
}

/// The lanes of a kernel with reductions, along its last axis; each has accumulators and values of at least 4 bytes in registers.
inline lanes reducing_lanes(const kernel& k) {
  const bool one = std::popcount(k.mask(role::inner)) == 1;
  return lanes_along(k, static_cast<int>(k.axes.size()) - 1, one ? tail::lanes : tail::none, 8);
}

/// The vectors of a row of `elements`; the last may have fewer lanes.
inline dim vectors_of_row(const dim& elements, int width) {
  if (width == 1) return elements;
  return divides(width, elements) ? *elements.divided_by(width) : ceil_div(elements, width);
}

/// True for kernels whose values need more than 32 registers of a thread besides kept values: blocks of 1024 threads would
/// spill.
inline bool is_heavy(const kernel& k) {
  int costly = 0;
  for (const auto& i : k.body) {
    const bool along = i.axes != 0 && (i.axes >> (k.axes.size() - 1) & 1u);
    costly += i.kind == kind::compute && ir::is_expensive(i.code) && along;
    if (i.kind == kind::arg_reduce || (i.type == dtype::f64 && along)) costly += 2;
  }
  return costly >= 2 || k.body.size() > 48;
}

}  // namespace sinter::engine::plan
