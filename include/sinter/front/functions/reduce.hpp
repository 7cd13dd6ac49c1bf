// front/functions/reduce.hpp: one reduction of any expression: a fused loop, or its nodes while tracing.
#pragma once

#include <string>

#include "../eager/reduce.hpp"
#include "../evaluate/views.hpp"

namespace sinter::detail {

/// Combines x over Axes, ascending; keeps them with extent 1 when Keep. `name` is for errors.
template <ir::op Combiner, op_shapes::axis_list Axes, bool Keep, class X>
auto reduce(const X& x, const char* name, location at) {
  using T = typename X::value_type;
  constexpr dims dropped = op_shapes::reduce(X::static_shape, Axes, false).shape;
  constexpr dims shape = op_shapes::reduce(X::static_shape, Axes, Keep).shape;
  if constexpr (Axes.count == 0) {
    return detail::evaluate(x, at);
  } else {
    const dims extents = to_dims(extents_of(x, at));
    if constexpr (Combiner == ir::op::maximum || Combiner == ir::op::minimum)
      check_some(name, extents, Axes.at, Axes.count, at);
    tensor<T, dropped> result;
    if (const auto& tracer = engine::current()) {
      result = typed<T, dropped>(of_node(push_reduce(Combiner, push(*tracer, x, at), Axes.at, Axes.count, at)), at);
    } else {
      result = eager_reduce<Combiner, dropped>(x, Axes.at, Axes.count, at);
    }
    if constexpr (Keep)
      return typed<T, shape>(views::reshape(untyped(result, at), op_shapes::reduce(extents, Axes, true).shape, at), at);
    else return result;
  }
}

}  // namespace sinter::detail
