// plan/schedule/blocks.hpp: the schedule of a kernel for a target of many threads: which kind of loop nest, its shape, and the
// grids of its launches. Data, chosen by facts alone.
#pragma once

#include <variant>

#include "follow.hpp"
#include "order.hpp"
#include "pointwise.hpp"

namespace sinter::engine::plan {

/// The grid of a launch.
struct grid {
  dim blocks;
  int threads = 0;   ///< of a block
  int resident = 0;  ///< blocks for which a multiprocessor has registers; 0: any number
  int shared = 0;    ///< bytes of dynamic shared memory of a block
};

/// How blocks of threads execute a kernel, or a product and the kernel that follows it.
struct block_schedule {
  std::variant<pointwise_shape, tile_shape, ordered_shape, block_sums, scan_shape, sort_shape, search_shape,
               product_shape, tensor_shape, row_shape, column_shape, persistent_rows, row_epilogue>
      shape;
  std::optional<finish_shape> finish;  ///< of sums whose parts several blocks make
  series<grid> launches;               ///< one after another
};

/// At least one block if there are stores for any extents.
inline dim blocks_for(const kernel& k, const dim& blocks) {
  return blocks.is(0) && has_uniform_stores(k) ? dim(1) : blocks;
}

namespace detail {

inline block_schedule pointwise_blocks(const kernel& k, const target& t) {
  if (const auto ordered = ordered_of(k, t))
    return {*ordered, {}, {{ceil_div(ordered->parallel, ordered->threads), ordered->threads}}};
  if (const auto tiles = tile_of(k)) return {*tiles, {}, {{tiles->blocks, tiles->threads}}};
  const auto shape = pointwise_of(k, t);
  if (const auto sums = block_sums_of(k, shape, t))
    return {*sums, {}, {{blocks_for(k, ceil_div(shape.blocks, sums->rounds)), shape.threads}}};
  return {shape, {}, {{blocks_for(k, shape.blocks), shape.threads}}};
}

/// Tiles of rows, then passes over all of them.
inline block_schedule sort_blocks(const kernel& k) {
  const sort_shape shape = sort_of(k);
  block_schedule s{shape, {}, {{shape.blocks(), shape.threads()}}};
  // The number of blocks tells a block its pass.
  for (int pass = 0; pass < shape.passes; ++pass) s.launches.push_back({shape.blocks() + dim(pass), shape.threads()});
  return s;
}

inline block_schedule row_blocks(const kernel& k, const target& t) {
  const row_shape whole = rows_of(k, t), parts = rows_in_chunks(k, whole, t);
  const dim rows = k.extent(role::outer);
  if (parts.chunks == 1) return {whole, {}, {{blocks_for(k, ceil_div(rows, whole.rows)), whole.threads()}}};
  const int finish = static_cast<int>(std::clamp<std::int64_t>(power_of_two(parts.chunks), 32, 256));
  return {parts, {}, {{rows * dim(parts.chunks), parts.threads(), is_heavy(k) ? 1 : 2}, {rows, finish}}};
}

/// The launch that adds up the parts of `count` blocks.
inline void add_finish(block_schedule& s, const kernel& k, const dim& count) {
  s.finish = finish_of(k, count);
  s.launches.push_back({k.extent(role::outer) * s.finish->tiles(), s.finish->threads()});
}

inline block_schedule column_blocks(const kernel& k, const target& t) {
  const dim outer = k.extent(role::outer);
  if (only_columns(k)) {
    const auto shape = columns_of(k, t);
    const int resident = std::max(1, shape.resident / shape.threads());
    block_schedule s{shape, {}, {{outer * shape.tiles * dim(shape.chunks), shape.threads(), resident}}};
    if (shape.chunks > 1) add_finish(s, k, shape.chunks);
    return s;
  }
  const auto shape = walk_of(k, t);
  const int threads = shape.row.threads();
  block_schedule s{shape, {}, {{outer * shape.walkers, threads, std::max(1, shape.resident / threads), shape.shared}}};
  add_finish(s, k, shape.walkers);
  return s;
}

inline block_schedule product_blocks(const kernel& k, const target& t) {
  if (on_tensor_cores(k, t)) {
    const auto shape = tensor_of(k, t);
    return {shape, {}, {{shape.blocks, tensor_shape::threads, 1, shape.shared()}}};
  }
  const auto shape = product_of(k, t);
  return {shape, {}, {{shape.blocks, product_shape::threads}}};
}

}  // namespace detail

/// The schedule of a kernel whose axes have roles. A kernel that is not opaque has one.
SINTER_API block_schedule schedule_blocks(const kernel& k, const target& t) {
  if (k.is_product()) return detail::product_blocks(k, t);
  if (k.is_scan()) {
    const auto shape = scan_of(k);
    return {shape, {}, {{shape.blocks, shape.threads}}};
  }
  if (k.is_sort()) return detail::sort_blocks(k);
  if (k.is_search()) {
    const auto shape = search_of(k);
    return {shape, {}, {{shape.blocks, shape.threads}}};
  }
  if (!std::any_of(k.body.begin(), k.body.end(), is_reduction)) return detail::pointwise_blocks(k, t);
  return k.mask(role::row) ? detail::column_blocks(k, t) : detail::row_blocks(k, t);
}

/// The schedule of a product, followed in the same blocks by a kernel on its rows; nothing if one launch cannot do both.
SINTER_API std::optional<block_schedule> schedule_blocks(const kernel& product, const kernel& then, const target& t) {
  const auto shape = follow_of(product, then, t);
  if (!shape) return {};
  block_schedule s{*shape, {}, {{shape->product.blocks, tensor_shape::threads, 1, shape->product.shared()}}};
  if (shape->sums) detail::add_finish(s, then, shape->rows.walkers);
  return s;
}

}  // namespace sinter::engine::plan
