// plan/schedule/pointwise.hpp: kernels without reductions over threads: flattened vectors, sums in a block, order, tiles.
#pragma once

#include <optional>

#include "../kernel/target.hpp"
#include "tiling.hpp"
#include "vectors.hpp"

namespace sinter::engine::plan {

/// The distribution of a kernel without reductions over threads.
struct pointwise_shape : lanes {
  int vectors = 1, threads = 256;
  bool rest = false;  ///< the last elements do not fill a vector
  dim count;          ///< number of vectors
  dim blocks;
};

inline dim elements_of(const kernel& k) {
  dim n = 1;
  for (const auto& a : k.axes) n *= a.extent;
  return n;
}

inline bool scatters(const kernel& k) {
  return std::any_of(k.stores.begin(), k.stores.end(), [](const auto& s) { return s.accumulate; });
}

/// The number of vectors of `width` elements that a thread of `all` has in flight. 16 bytes from each of 2048 threads are the
/// 32 KiB that a multiprocessor's share of the bandwidth requires. Cached data is faster and requires 32. Gathers wait twice,
/// and costly arithmetic on f16 shares its indices: they require 64. (bench/gpu and similar measurements on an H200.)
inline int vectors_of(const kernel& k, int width, std::int64_t all) {
  int loads = 0;
  std::int64_t each = 1, bytes = 16;
  for (const auto& i : k.body) {
    if (i.kind == kind::compute && width > 4 && ir::is_expensive(i.code)) bytes = 64;
    if (i.kind != kind::load || i.axes == 0) continue;
    ++loads;
    each = std::max(each, width * static_cast<std::int64_t>(size_of(i.type)));
    if (i.at.at.index >= 0) bytes = 64;
  }
  if (all * each < once_bytes) bytes = std::max<std::int64_t>(bytes, 32);
  return static_cast<int>(std::clamp<std::int64_t>(bytes / each, 1, loads <= 2 ? 4 : loads <= 4 ? 2 : 1));
}

/// `threads` is the size of a block, if given; `count` is the number of elements of a launch for several kernels.
inline pointwise_shape pointwise_of(const kernel& k, const target& t, int threads = 0, std::int64_t count = 0) {
  pointwise_shape s;
  const bool flat = k.axes.size() == 1;
  static_cast<lanes&>(s) = lanes_along(k, static_cast<int>(k.axes.size()) - 1, flat ? tail::apart : tail::lanes);
  const dim n = elements_of(k);
  s.rest = flat && !divides(s.width, n);
  s.count = s.rest ? floor_div(n, s.width) : vectors_of_row(n, s.width);
  if (s.in_part) s.count = *n.divided_by(k.axes.back().extent) * vectors_of_row(k.axes.back().extent, s.width);
  const std::int64_t vectors = (count > 0 ? count : n.number().value_or(std::int64_t{1} << 24)) / s.width;
  s.vectors = vectors_of(k, s.width, vectors);
  while (s.vectors > 1 && vectors / (s.vectors * s.threads) < 4 * t.multiprocessors) s.vectors /= 2;
  while (!threads && s.threads > 64 && vectors < static_cast<std::int64_t>(s.threads) * t.multiprocessors)
    s.threads /= 2;
  if (threads) s.threads = threads;
  s.blocks = s.rest ? ceil_div(n, std::int64_t{s.width} * s.vectors * s.threads)
                    : ceil_div(s.count, std::int64_t{s.vectors} * s.threads);
  return s;
}

/// Whether the result of a store's combiner depends on the order, and the order matters.
inline bool is_ordered(const store& s, bool deterministic) {
  if (s.combiner == ir::op::identity) return !s.apart;
  return deterministic && s.combiner != ir::op::maximum && s.combiner != ir::op::minimum;
}

/// A scatter in order: threads take the axes along which updates never meet, and walk the other axes one after another.
struct ordered_shape {
  dim parallel = 1;  ///< positions that run at once
  int threads = 128;
};

inline std::optional<ordered_shape> ordered_of(const kernel& k, const target& t) {
  if (!scatters(k) || !is_ordered(k.stores[0], t.deterministic) || k.stores.size() != 1) return std::nullopt;
  ordered_shape s;
  for (std::size_t a = 0; a < k.axes.size(); ++a)
    if (!k.stores[0].at.at.stride[a].is(0)) s.parallel *= k.axes[a].extent;
  return s;
}

/// A small destination of many updates: each block sums them in shared memory, and then adds its sums to the destination.
struct block_sums {
  pointwise_shape updates;
  int store = -1;
  std::int64_t elements = 0;  ///< from the buffer's first element to the last that an update may reach
  std::int64_t rounds = 1;    ///< rounds of the updates' blocks in one block
};

/// Elements of a buffer up to the last that a store may reach.
inline std::optional<std::int64_t> reach_of(const kernel& k, const store& s) {
  const auto& a = s.at.at;
  const auto offset = a.offset.number(), by = a.indirect.number(), bound = s.bound.number();
  if (!offset || !by || !bound || *offset < 0 || *by < 0 || *bound < 1 || *bound > (1 << 20) || *by > (1 << 20))
    return std::nullopt;
  std::int64_t last = *offset + *by * (*bound - 1);
  for (std::size_t x = 0; x < k.axes.size(); ++x) {
    const auto stride = a.stride[x].number(), n = k.axes[x].extent.number();
    if (stride && *stride == 0) continue;
    if (!stride || !n || *stride < 0 || *stride > (1 << 20) || *n < 1 || *n > (1 << 20)) return std::nullopt;
    last += *stride * (*n - 1);
  }
  return last + 1;
}

/// Updates of one address wait for each other in the L2 cache, of which a small destination uses few parts: 1e6 counts of 100
/// bins take 300 us there. A block that sums first has at least four times as many updates as elements, and there are as many
/// blocks as run at once.
inline std::optional<block_sums> block_sums_of(const kernel& k, const pointwise_shape& s, const target& t) {
  constexpr std::int64_t max_bytes = 16 << 10, updates_each = 4;
  block_sums b;
  b.updates = s;
  for (std::size_t st = 0; st < k.stores.size(); ++st) {
    if (!k.stores[st].accumulate) continue;
    if (b.store >= 0 || k.stores[st].combiner != ir::op::add) return std::nullopt;
    b.store = static_cast<int>(st);
  }
  if (b.store < 0) return std::nullopt;
  const store& to = k.stores[static_cast<std::size_t>(b.store)];
  const auto reach = reach_of(k, to);
  const auto size = static_cast<std::int64_t>(size_of(type_of(k, to.at)));
  if (!reach || *reach * size > max_bytes) return std::nullopt;
  b.elements = *reach;
  const std::int64_t each = std::int64_t{s.threads} * s.vectors * s.width;
  const auto blocks = s.blocks.number();
  if (!blocks) {
    b.rounds = std::max<std::int64_t>((updates_each * b.elements + each - 1) / each, 8);
    return b.rounds <= 16 ? std::optional(b) : std::nullopt;
  }
  const std::int64_t at_once = std::min<std::int64_t>(*blocks, 4 * t.multiprocessors);
  const std::int64_t used = std::min(at_once, *blocks * each / (updates_each * b.elements));
  if (used < std::min<std::int64_t>(*blocks, t.multiprocessors) || used < 1) return std::nullopt;
  b.rounds = (*blocks + used - 1) / used;
  return b;
}

/// The axes of a kernel that make a tile of `side` by `side`: the lanes' axis, and the axis along which some loads are
/// contiguous.
struct tile_shape {
  tiling loads;
  int side = 64, threads = 256;
  int width = 1, across = 1;  ///< elements per access along the last axis, and along the tiling's
  dim blocks;
};

inline std::optional<tile_shape> tile_of(const kernel& k) {
  const auto found = find_tiling(k);
  if (!found) return std::nullopt;
  tile_shape s;
  s.loads = *found;
  const int last = static_cast<int>(k.axes.size()) - 1, q = static_cast<int>(found->axis);
  std::int64_t bytes = 0, widest = 1;
  s.across = 16;
  for (int id : found->loads) {
    const auto& i = k.body[static_cast<std::size_t>(id)];
    const auto size = static_cast<std::int64_t>(size_of(i.type));
    widest = std::max(widest, size);
    int w = static_cast<int>(16 / size);
    while (w > 1 && !(is_vector_access(k, i.at, q, w) && divides(w, k.axes[found->axis].extent))) w /= 2;
    s.across = std::min(s.across, w);
    bytes += size;
  }
  s.width = std::min(vector_width(k, last, tail::none), 8);
  s.across = std::min(s.across, 8);
  // At least two blocks on a multiprocessor, within the 48 KiB that need no opt-in.
  while (s.side > 16 && bytes * s.side * (s.side + 1) > (24 << 10)) s.side /= 2;
  if (bytes * s.side * (s.side + 1) > (47 << 10)) return std::nullopt;
  s.blocks = ceil_div(k.axes[found->axis].extent, s.side) * ceil_div(k.axes.back().extent, s.side);
  for (std::size_t a = 0; a + 1 < k.axes.size(); ++a)
    if (a != found->axis) s.blocks *= k.axes[a].extent;
  return s;
}

}  // namespace sinter::engine::plan
