// front/eager/blocks.hpp: a pointwise expression computed in blocks, which are reduced while they are in the cache.
#pragma once

#include <algorithm>
#include <optional>

#include "../../loops/blocks.hpp"
#include "../shapes/op_shapes.hpp"
#include "reduce.hpp"
#include "rows.hpp"

namespace sinter::detail {

template <class E>
block_source<typename E::value_type> source_of(const E& e) {
  using T = typename E::value_type;
  if constexpr (is_expr<E> || is_index_leaf<E> || is_literal<E>) return {&e, &fill_row<E>, false};
  else return {&e, &copy_elements_of_row<T>, true};
}

/// use(space) with that of `e` over axes; false where a tensor of it is on a GPU and where results are of nothing.
template <class E, class Use>
bool with_reduction_space(const E& e, const op_shapes::axis_list& axes, location at, Use&& use) {
  constexpr int leaf_number = leaf_count<E>;
  const auto extents = extents_of(e, at);
  engine::operand operands[operand_count<E>];
  operand_list list{operands};
  collect(e, list, at);
  if (list.on_gpu) return false;
  leaf leaves[bound(leaf_number)];
  bind_leaves(list, E::rank, leaves);
  const reduction_space s(leaves, leaf_number, as_numbers(extents.data()), E::rank, axes.at, axes.count);
  if (s.reduced == 0) return false;
  use(s);
  return true;
}

/// `e` over axes by r, which is run_reduction's, as Out; null where with_reduction_space is false.
template <class Out, dims Result, class Reduction, class E>
std::optional<tensor<Out, Result>> reduce_blocks(const char* op, const Reduction& r, const E& e,
                                                 const op_shapes::axis_list& axes, bool keep, location at) {
  std::optional<tensor<Out, Result>> result;
  with_reduction_space(e, axes, at, [&](const reduction_space& s) {
    result = empty_result<Out, Result>(op, e, axes, keep, at);
    if (s.results > 0) run_reduction(r, s, access::data(*result));
  });
  return result;
}

}  // namespace sinter::detail
