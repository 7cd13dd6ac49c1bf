// front/eager/blocks.hpp: a pointwise expression computed in blocks, which are reduced while they are in the cache.
#pragma once

#include <optional>

#include "../../loops/blocks.hpp"
#include "rows.hpp"

namespace sinter::detail {

/// `e` over axes by Reduction, as Out. Reduction is made from a block_source, and is an argument of run_reduction. Null if a
/// tensor of `e` is on a GPU, and for empty reductions.
template <class Reduction, class Out, dims Result, class E>
std::optional<tensor<Out, Result>> reduce_blocks(const char* op, const E& e, const op_shapes::axis_list& axes,
                                                 bool keep, location at) {
  const row_reader<E> x(e, at);
  if (x.list.on_gpu) return {};
  leaf leaves[bound(leaf_count<E>)];
  bind_leaves(x.list, E::rank, leaves);
  const reduction_space s(leaves, leaf_count<E>, x.source.extents, E::rank, axes.at, axes.count);
  if (s.reduced == 0) return {};
  auto result = empty_result<Out, Result>(op, e, axes, keep, at);
  const Reduction r{blocks_of<typename E::value_type>(x.source)};
  if (s.results > 0) run_reduction(r, s, access::data(result));
  return result;
}

}  // namespace sinter::detail
