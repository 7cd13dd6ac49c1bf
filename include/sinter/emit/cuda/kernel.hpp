// emit/cuda/kernel.hpp: kernel -> self-contained CUDA source for NVRTC, and its launches.
#pragma once

#include <span>
#include <utility>

#include "../../base/series.hpp"
#include "follow.hpp"
#include "launch.hpp"
#include "pointwise.hpp"
#include "product.hpp"
#include "scan.hpp"
#include "shared.hpp"
#include "sort.hpp"
#include "walk.hpp"

namespace sinter::engine::emit {

namespace detail {

/// For a source of two entries: records the buffers that the last entry, printed by `p`, reads and writes.
inline void tell_touched(cuda_source& s, const cuda_printer& p) {
  auto& touches = s.launches.back().touches;
  const auto first = static_cast<std::size_t>(p.first_buffer());
  touches.resize(std::max(touches.size(), first + p.code().buffers.size()));
  for (int b : p.touched()) touches[first + static_cast<std::size_t>(b)] = true;
}

inline bool has_reductions(const kernel& k) {
  return std::any_of(k.body.begin(), k.body.end(), [](const auto& i) { return is_reduction(i); });
}

/// Whether the result of a store's combiner depends on the order, and the order matters.
inline bool is_ordered(const plan::store& s, bool deterministic) {
  if (s.combiner == ir::op::identity) return !s.apart;
  return deterministic && s.combiner != ir::op::maximum && s.combiner != ir::op::minimum;
}

inline void print_cuda_pointwise(cuda_source& s, writer& out, const kernel& k, const cuda_target& t) {
  const kernel* const only[] = {&k};
  cuda_printer p(k, out);
  if (scatters(k) && is_ordered(k.stores[0], t.deterministic) && k.stores.size() == 1) {
    dim parallel = 1;
    for (std::size_t a = 0; a < k.axes.size(); ++a)
      if (!k.stores[0].at.at.stride[a].is(0)) parallel *= k.axes[a].extent;
    constexpr int threads = 128;
    return cuda_launch_of(s, out, only, kernel_entry, ceil_div(parallel, threads), threads, 0,
                          [&] { print_ordered_scatter(p, parallel, threads); });
  }
  if (const auto tiles = tile_of(k))
    return cuda_launch_of(s, out, only, kernel_entry, tiles->blocks, tiles->threads, 0,
                          [&] { print_tiles(p, *tiles); });
  const auto shape = shape_of(k, t);
  if (const auto sums = block_sums_of(k, shape, t))
    return cuda_launch_of(s, out, only, kernel_entry, blocks_for(p, ceil_div(shape.blocks, sums->rounds)),
                          shape.threads, 0, [&] { print_block_sums(p, shape, *sums); });
  cuda_launch_of(s, out, only, kernel_entry, blocks_for(p, shape.blocks), shape.threads, 0, [&] {
    if (k.replaces) out.line("if ((const void*)" + p.pointer(0) + " == (const void*)" + p.pointer(1) + ") return;");
    print_pointwise(p, shape);
  });
}

inline void print_cuda_scan(cuda_source& s, writer& out, const kernel& k) {
  const kernel* const only[] = {&k};
  cuda_printer p(k, out);
  const auto shape = shape_of_scan(k);
  cuda_launch_of(s, out, only, kernel_entry, shape.blocks, shape.threads, 0, [&] { print_scan(p, shape); });
}

/// Tiles of rows, then passes that merge four runs into one; the last entry is launched once for each pass.
inline void print_cuda_sort(cuda_source& s, writer& out, const kernel& k) {
  const kernel* const only[] = {&k};
  const sort_shape shape = shape_of_sort(k);
  cuda_printer tiles(k, out);
  if (shape.passes > 0) s.scratch = shape.total * dim(2 * shape.item_bytes());
  cuda_launch_of(s, out, only, kernel_entry, shape.blocks, shape.threads(), 0, [&] { print_sort_tiles(tiles, shape); });
  tell_touched(s, tiles);
  if (shape.passes == 0) return;
  cuda_printer merges(k, out);
  const dim blocks = ceil_div(shape.total, sort_shape::merging);
  cuda_launch_of(s, out, only, finish_entry, blocks, sort_shape::merging, 0, [&] { print_sort_merge(merges, shape); });
  tell_touched(s, merges);
  const cuda_launch first = s.launches.back();
  for (int pass = 1; pass < shape.passes; ++pass) {
    s.launches.push_back(first);
    s.launches.back().blocks = blocks + dim(pass);
  }
}

inline void print_cuda_search(cuda_source& s, writer& out, const kernel& k) {
  const kernel* const only[] = {&k};
  cuda_printer p(k, out);
  constexpr int threads = 256;
  cuda_launch_of(s, out, only, kernel_entry, ceil_div(k.extent(role::outer), threads), threads, 0,
                 [&] { print_search(p, threads); });
}

inline void print_cuda_product(cuda_source& s, writer& out, const kernel& k, const cuda_target& t) {
  const kernel* const only[] = {&k};
  cuda_printer p(k, out);
  if (on_tensor_cores(k, t)) {
    const auto shape = tensor_shape_of(k, t);
    return cuda_launch_of(
        s, out, only, kernel_entry, shape.blocks, tensor_shape::threads, 1, [&] { print_tensor_product(p, shape); },
        shape.shared());
  }
  const auto shape = shape_of_product(k, t);
  cuda_launch_of(s, out, only, kernel_entry, shape.blocks, 256, 0, [&] { print_product(p, shape); });
}

inline void print_cuda_rows(cuda_source& s, writer& out, const kernel& k, const cuda_target& t) {
  const kernel* const only[] = {&k};
  cuda_printer p(k, out);
  row_shape shape = rows_of(p, t);
  cuda_partials parts(p);
  const dim rows = k.extent(role::outer);
  row_shape split = shape;
  split.held = false;
  split.rows = 1;
  split.group = 512;
  split.keep.clear();
  split.vectors = split.width == 1 ? 8 : split.width == 8 || is_heavy(k) ? 2 : 4;
  if (!work_of(p, 0).stores.empty()) split.vectors /= 2;
  split.chunks = chunks_of(p, split, t);
  if (split.chunks == 1) {
    const dim blocks = blocks_for(p, ceil_div(rows, shape.rows));
    return cuda_launch_of(s, out, only, kernel_entry, blocks, shape.threads(), 0, [&] { print_rows(p, shape, parts); });
  }
  for (int id = 0; id < p.size(); ++id)
    if (is_reduction(p.at(id))) parts.reserve(id, rows * dim(split.chunks));
  s.scratch = parts.bytes();
  cuda_launch_of(s, out, only, kernel_entry, rows * dim(split.chunks), split.threads(), is_heavy(k) ? 1 : 2,
                 [&] { print_rows(p, split, parts); });
  tell_touched(s, p);
  cuda_printer finish(k, out);
  const int group = static_cast<int>(std::clamp<std::int64_t>(power_of_two(split.chunks), 32, 256));
  cuda_launch_of(s, out, only, finish_entry, rows, group, 0, [&] { print_rows_finish(finish, split, parts, group); });
  tell_touched(s, finish);
}

/// The entry that sums the partial results of `count` blocks.
inline void print_cuda_finish(cuda_source& s, writer& out, std::span<const kernel* const> kernels, cuda_printer last,
                              const cuda_partials& parts, const dim& count) {
  s.scratch = parts.bytes();
  const auto finish = finish_of(last, count);
  cuda_launch_of(s, out, kernels, finish_entry, last.code().extent(role::outer) * finish.tiles(), finish.threads(), 0,
                 [&] { print_finish(last, parts, finish); });
  tell_touched(s, last);
}

inline void print_cuda_columns(cuda_source& s, writer& out, const kernel& k, const cuda_target& t) {
  const kernel* const only[] = {&k};
  cuda_printer p(k, out);
  cuda_partials parts(p);
  const dim outer = k.extent(role::outer);
  dim count = 0;
  if (p.only_columns()) {
    const auto shape = columns_of(p, t);
    count = shape.chunks;
    if (shape.chunks > 1) reserve_parts(p, parts, count);
    s.scratch = parts.bytes();
    cuda_launch_of(s, out, only, kernel_entry, outer * shape.tiles * dim(shape.chunks), shape.threads(),
                   std::max(1, (is_heavy(k) ? 512 : 1024) / shape.threads()), [&] { print_columns(p, shape, parts); });
    if (shape.chunks == 1) return;
  } else {
    const auto shape = walk_of(p, t);
    count = shape.walkers;
    reserve_parts(p, parts, count);
    s.scratch = parts.bytes();
    const int threads = shape.row.threads();
    cuda_launch_of(
        s, out, only, kernel_entry, outer * shape.walkers, threads, std::max(1, shape.resident / threads),
        [&] { print_walk(p, shape, parts); }, shape.shared);
  }
  tell_touched(s, p);
  print_cuda_finish(s, out, only, cuda_printer(k, out), parts, count);
}

/// A product, followed in the same block by a kernel on its rows.
inline void print_cuda_followed(cuda_source& s, writer& out, std::span<const kernel* const> both,
                                const cuda_target& t) {
  const int first = static_cast<int>(both[0]->buffers.size());
  cuda_printer product(*both[0], out), then(*both[1], out, first);
  const auto shape = follow_of(*both[0], then, t);
  ensure(shape.has_value(), "a launch makes the rows that its second kernel takes");
  const bool sums = sums_rows(*both[1]);
  cuda_partials parts(then);
  if (sums) reserve_parts(then, parts, shape->rows.walkers);
  cuda_launch_of(
      s, out, both, kernel_entry, shape->product.blocks, tensor_shape::threads, 1,
      [&] {
        out.block("", [&] { print_tensor_product(product, shape->product); });
        out.line("__syncthreads();");
        if (sums) print_walk(then, shape->rows, parts);
        else print_rows(then, shape->rows.row, parts);
      },
      shape->product.shared());
  if (!sums) return;
  tell_touched(s, product);
  tell_touched(s, then);
  print_cuda_finish(s, out, both, cuda_printer(*both[1], out, first), parts, shape->rows.walkers);
}

inline void print_cuda(cuda_source& s, const kernel& k, const cuda_target& t) {
  writer out;
  s.scratch = 0;
  if (k.is_product()) print_cuda_product(s, out, k, t);
  else if (k.is_scan()) print_cuda_scan(s, out, k);
  else if (k.is_sort()) print_cuda_sort(s, out, k);
  else if (k.is_search()) print_cuda_search(s, out, k);
  else if (!has_reductions(k)) print_cuda_pointwise(s, out, k, t);
  else if (k.mask(role::row)) print_cuda_columns(s, out, k, t);
  else print_cuda_rows(s, out, k, t);
}

}  // namespace detail

/// The source of one kernel; deterministic, and equal except for #line if kernels differ only in locations.
SINTER_API cuda_source cuda(const kernel& k, const cuda_target& t) {
  cuda_source s;
  detail::print_cuda(s, k, t);
  return s;
}

/// Launches that do the work of several kernels of one shape, `members` of `common` (plan::shares_by_shape). Equal texts for as many
/// members, whichever they are. Buffers are numbered through.
SINTER_API cuda_source cuda(const plan::common_kernel& common, std::span<const std::size_t> members,
                            const cuda_target& t) {
  cuda_source s;
  detail::make_table(s, common, members, t);
  detail::print_cuda(s, common.code, t);
  s.scratch = s.scratch * dim(static_cast<std::int64_t>(members.size()));
  for (auto& launch : s.launches) {
    const series<bool> one = std::exchange(launch.touches, {});
    if (one.empty()) continue;
    for (const int b : s.parameters) launch.touches.push_back(one[static_cast<std::size_t>(b)]);
    for (const int b : s.table.buffers) launch.touches.push_back(one[static_cast<std::size_t>(b) % one.size()]);
  }
  return s;
}

/// True when one launch can do a product and a second kernel that reads its result.
SINTER_API bool can_follow(const kernel& product, const kernel& then, const cuda_target& t) {
  writer unused;
  cuda_printer p(then, unused);
  return product.is_product() && follow_of(product, p, t).has_value();
}

/// One launch for several independent kernels (plan::horizontal), or for a product and a kernel that can follow it. Buffers
/// are numbered through: the first kernel's, then the second's, and so on.
SINTER_API cuda_source cuda(std::span<const kernel* const> kernels, const cuda_target& t) {
  if (kernels.size() == 1) return cuda(*kernels[0], t);
  if (kernels.size() >= plan::least_alike && plan::shares_by_shape(*kernels[0])) {
    series<std::size_t> members;
    for (std::size_t m = 0; m < kernels.size(); ++m) members.push_back(m);
    return cuda(plan::in_common(kernels), {members.data(), members.size()}, t);
  }
  cuda_source s;
  s.scratch = 0;
  writer out;
  if (kernels[0]->is_product()) detail::print_cuda_followed(s, out, kernels, t);
  else detail::print_cuda_shared(s, out, kernels, t);
  return s;
}

}  // namespace sinter::engine::emit
