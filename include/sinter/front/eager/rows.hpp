// front/eager/rows.hpp: pointwise expressions as the engine's row functions read them (softmax, norms, variances, losses).
#pragma once

#include <algorithm>
#include <optional>
#include <span>

#include "../shapes/op_shapes.hpp"
#include "fill.hpp"

namespace sinter::detail {

/// The data of `e` for the engine. `e` outlives the reader.
template <class E>
struct row_reader {
  index_array<E::rank> extents;
  engine::operand operands[bound(operand_count<E>)];
  operand_list list{operands};
  engine::row_source source;

  row_reader(const E& e, location at) {
    collect(terms(e), list, at, extents.data());
    source.operands = {operands, static_cast<std::size_t>(list.count)};
    source.type = dtype_of<typename E::value_type>;
    source.rank = E::rank;
    source.extents = as_numbers(extents.data());
    if constexpr (is_expr<E> || is_index_leaf<E> || is_literal<E>) {
      source.expression = &e;
      source.fill = &fill_row<E>;
    }
  }
  row_reader(const row_reader&) = delete;
};

/// Whether `x` broadcasts to the extents of `to`. (loop_moves.hpp)
SINTER_API bool broadcasts_to(const engine::row_source& x, const engine::row_source& to);

/// f of e along `axis`, scaled by `more`, as a tensor of Shape. Null if a tensor is on a GPU, if the others do not broadcast
/// to e's shape, and for empty tensors.
template <dims Shape, class E, class... More>
std::optional<tensor<typename E::value_type, Shape>> eager_rows(const char* op, engine::row_map f, const E& e, int axis,
                                                                double eps, location at, const More&... more) {
  using T = typename E::value_type;
  if constexpr (((More::rank > E::rank) || ...)) {
    return {};
  } else {
    const row_reader<E> x(e, at);
    return [&](const auto&... by) -> std::optional<tensor<T, Shape>> {
      bool here = !x.list.on_gpu && std::find(x.extents.begin(), x.extents.end(), dim(0)) == x.extents.end();
      ((here = here && !by.list.on_gpu && broadcasts_to(by.source, x.source)), ...);
      if (!here) return {};
      index_array<Shape.rank> shape{};
      std::copy_n(x.extents.begin(), Shape.rank, shape.begin());
      auto result = empty<T, Shape>(op, shape, at);
      const engine::row_source sources[sizeof...(by) + 1] = {by.source...};
      engine::map_rows(f, x.source, axis, eps, {sources, sizeof...(by)}, access::data(result));
      return result;
    }(row_reader<More>(more, at)...);
  }
}

/// Uninitialised, of the extents of `e` reduced over axes.
template <class Out, dims Result, class E>
tensor<Out, Result> empty_result(const char* op, const E& e, const op_shapes::axis_list& axes, bool keep, location at) {
  const dims shape = op_shapes::reduce(to_dims(extents_of(e, at)), axes, keep).shape;
  index_array<Result.rank> kept{};
  std::copy_n(shape.extent, Result.rank, kept.begin());
  return empty<Out, Result>(op, kept, at);
}

/// f of e over axes; null where a tensor of it is on a GPU and where results are of nothing.
template <dims Result, class E>
std::optional<tensor<typename E::value_type, Result>> eager_totals(const char* op, engine::row_total f, const E& e,
                                                                   const op_shapes::axis_list& axes, bool keep,
                                                                   int ddof, location at) {
  const row_reader<E> x(e, at);
  if (x.list.on_gpu) return {};
  auto result = empty_result<typename E::value_type, Result>(op, e, axes, keep, at);
  if (!engine::total_rows(f, x.source, {axes.at, static_cast<std::size_t>(axes.count)}, ddof, access::data(result)))
    return {};
  return result;
}

}  // namespace sinter::detail
