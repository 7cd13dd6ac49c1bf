// plan/fusion/for_libraries.hpp: a graph fused for libraries: weights lie as they want, and long products are sums of slices.
#pragma once

#include "split.hpp"
#include "weights_order.hpp"

namespace sinter::engine::plan {

/// Fuses `g` by `fuse(own)`, again with weights in a library's order, and again if products of many terms are summed in slices.
/// `g` becomes the graph of the last time; `own` has the strides that `fuse` gives its nodes.
template <class Fuse>
fused fuse_for_libraries(ir::graph& g, std::span<const std::int64_t> hints, const target& t, Fuse&& fuse) {
  own_strides own;
  fused out = fuse(own);
  if (const auto weights = weights_to_order(g, out.kernels, hints, t); !weights.empty()) {
    g = with_ordered_weights(g, weights, own);
    out = fuse(own);
  }
  auto split = products_to_split(g, out.kernels, hints, t);
  erase_if(split, [&](const split_product& s) {  // its sum would need the strides
    return std::any_of(own.begin(), own.end(), [&](const auto& o) { return o.first == s.product; });
  });
  if (split.empty()) return out;
  series<node_id> numbers;
  g = with_slices(g, split, &numbers);
  for (auto& o : own) o.first = numbers[o.first];
  return fuse(own);
}

}  // namespace sinter::engine::plan
