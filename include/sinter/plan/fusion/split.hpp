// plan/fusion/split.hpp: products of many terms and few tiles as slices, which the reading kernel sums.
#pragma once

#include <algorithm>

#include "../../base/series.hpp"
#include "../../ir/value.hpp"
#include "fuse.hpp"
#include "horizontal.hpp"

namespace sinter::engine::plan {

/// A product, and the number of slices of its terms.
struct split_product {
  node_id product = ir::no_node;
  std::int64_t slices = 1;
};

/// The least terms of a slice, the most slices, and the tile of a thread block in a matrix library.
inline constexpr std::int64_t min_terms = 256, max_slices = 8, library_tile = 64 * 128;

namespace detail {

/// True for a kernel that computes `count` elements without sums.
inline bool is_pointwise(const kernel& k, const dim& count) {
  if (k.is_opaque() || k.is_product()) return false;
  dim elements = 1;
  for (const auto& a : k.axes) elements *= a.extent;
  return elements == count && std::all_of(k.body.begin(), k.body.end(), [](const instruction& i) {
           return i.kind == kind::literal || i.kind == kind::position || i.kind == kind::inside ||
                  i.kind == kind::load || i.kind == kind::compute;
         });
}

/// The number of slices of `terms`: enough for the multiprocessors, with enough terms each, and equally long.
inline std::int64_t slices_of(const blas_call& c, const dim& terms, const target& t) {
  if (c.m > library_tile * t.multiprocessors / c.n || c.m * c.n % 4 != 0) return 1;
  const std::int64_t tiles = (c.m * c.n + library_tile - 1) / library_tile;
  std::int64_t slices = 1;
  while (slices < max_slices && terms.divided_by(8 * slices) && c.k / (2 * slices) >= min_terms &&
         2 * slices * tiles <= t.multiprocessors)
    slices *= 2;
  return slices;
}

}  // namespace detail

/// The library's products that leave much of the GPU idle, and are read by one pointwise kernel. Otherwise the library would
/// slice and sum in a separate launch. If kernels run side by side, only products for which no other product waits: more
/// blocks would slow down parallel work.
SINTER_API series<split_product> products_to_split(const ir::graph& g, const series<kernel>& kernels,
                                                   std::span<const std::int64_t> hints, const target& t) {
  series<split_product> out;
  if (!t.blas) return out;
  const auto level = detail::levels_of(kernels);
  const auto users = users_of(kernels);
  series<char> is_output(g.size(), 0);
  for (auto id : g.outputs) is_output[id] = 1;
  std::size_t last = 0;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (kernels[k].is_product()) last = std::max(last, level[k]);
  for (std::size_t at = 0; at < kernels.size(); ++at) {
    if (t.overlap && level[at] < last) continue;
    if (!kernels[at].is_product()) continue;
    const kernel k = with_sizes(kernels[at], hints);
    const auto call = as_blas(k);
    if (!call || call->batch != 1 || call->bias >= 0 || call->after != blas_activation::none) continue;
    if (call->type != dtype::f32 || is_narrow(extents_of(k)) || is_small_product(k, {}, t)) continue;
    const auto id = static_cast<node_id>(k.buffers[static_cast<std::size_t>(call->out.buffer)].id);
    const auto& n = g[id];
    if (n.code != ir::op::dot || n.attr.ints[0] != 0 || n.attr.ints[1] != 1) continue;
    if (is_output[id]) continue;
    series<const kernel*> readers;
    for (const std::size_t other : users[id])
      if (other != at) readers.push_back(&kernels[other]);
    if (readers.size() != 1 || !detail::is_pointwise(*readers[0], ir::product(n.extents))) continue;
    const std::int64_t slices = detail::slices_of(*call, g[n.in[0]].extents.back(), t);
    if (slices > 1) out.push_back({id, slices});
  }
  return out;
}

/// A copy of the graph in which each of these products is a sum over slices of one batched product. `numbers` receives the
/// number of each live node in the copy.
SINTER_API ir::graph with_slices(const ir::graph& g, const series<split_product>& split,
                                 series<node_id>* numbers = nullptr) {
  ir::graph out;
  series<node_id> moved(g.size(), ir::no_node);
  for (auto id : g.inputs) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  const auto in_slices = [&](const ir::node& n, std::int64_t slices) {
    const ir::value a(out, moved[n.in[0]], n.where), b(out, moved[n.in[1]], n.where);
    // a: (M…, K) -> (slices, M…, terms); b: (K, N…) -> (slices, terms, N…).
    ir::shape left = a.extents(), right = b.extents();
    const dim terms = *left.back().divided_by(slices);
    left.back() = slices;
    left.push_back(terms);
    right[0] = terms;
    right.insert(right.begin(), dim(slices));
    const auto rank = static_cast<std::int64_t>(left.size());
    series<std::int64_t> order{rank - 2};
    for (std::int64_t i = 0; i < rank; ++i)
      if (i != rank - 2) order.push_back(i);
    const ir::value parts =
        ir::dot(ir::permute(ir::reshape(a, std::move(left)), std::move(order)), ir::reshape(b, std::move(right)), 1, 1);
    ir::value sum;
    for (std::int64_t i = 0; i < slices; ++i) {
      ir::shape count = parts.extents();
      ir::shape start(count.size(), 0);
      count[0] = 1;
      start[0] = i;
      const series<std::int64_t> steps(start.size(), 1);
      const ir::value part = ir::reshape(ir::slice(parts, std::move(count), start, steps), n.extents);
      sum = i == 0 ? part : sum + part;
    }
    return sum.id();
  };
  for (auto id : g.live()) {
    const ir::node& n = g[id];
    if (n.code == ir::op::input) continue;
    const auto* const found =
        std::find_if(split.begin(), split.end(), [&](const split_product& s) { return s.product == id; });
    if (found != split.end()) {
      moved[id] = in_slices(n, found->slices);
      continue;
    }
    series<node_id> in;
    for (auto operand : n.in) in.push_back(moved[operand]);
    moved[id] = out.push(n.code, std::move(in), n.attr, n.where);
  }
  for (auto id : g.outputs) out.outputs.push_back(moved[id]);
  if (numbers != nullptr) *numbers = std::move(moved);
  return out;
}

}  // namespace sinter::engine::plan
