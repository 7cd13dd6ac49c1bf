// front/arg_reduce.hpp: the index of an extreme along one axis, by a loop or as a node.
#pragma once

#include <cstdint>

#include "movement.hpp"

namespace sinter::detail {

/// The index of the first extreme of `count` elements; NaN is extreme.
template <ir::op Combiner, class T>
std::int64_t first_extreme(const T* p, std::int64_t step, std::int64_t count) {
  std::int64_t best = 0;
  compute_type<T> value = p[0];
  for (std::int64_t i = 0; i < count; ++i) {
    const compute_type<T> x = p[i * step];
    if (x != x) return i;
    if (Combiner == ir::op::maximum ? x > value : x < value) {
      value = x;
      best = i;
    }
  }
  return best;
}

template <ir::op Combiner, class T>
handle eager_arg_reduce(const handle& x, int axis, const char* op, location at) {
  const dims shape =
      op_shapes::joined(op_shapes::part(x.extents, 0, axis), op_shapes::part(x.extents, axis + 1, x.extents.rank));
  const dims strides =
      op_shapes::joined(op_shapes::part(x.strides, 0, axis), op_shapes::part(x.strides, axis + 1, x.extents.rank));
  handle out = allocate(op, dtype::i64, shape, at);
  const std::int64_t n = shape.numel(), count = x.extents[axis], step = x.strides[axis];
  auto* const to = reinterpret_cast<std::int64_t*>(out.data);
  parallel(n, n * count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t offset = 0, rest = i;
      for (int k = shape.rank; k-- > 0; rest /= shape[k]) offset += rest % shape[k] * strides[k];
      to[i] = first_extreme<Combiner>(reinterpret_cast<const T*>(x.data) + offset, step, count);
    }
  });
  return out;
}

template <class Name, ir::op Combiner, int Axis, bool Keep, class X>
auto arg_reduce(const X& x, location at) {
  using T = typename X::value_type;
  constexpr const char* op = Name::text;
  if constexpr (is_bool(dtype_of<T>)) Name::template refuse<fault::numbers>();
  constexpr auto axes = op_shapes::normalize({Axis}, X::rank);
  const handle h = untyped(x, at);
  if (h.extents[Axis] == 0)
    fail(op,
         "axis " + std::to_string(Axis) + " of " + text::shape(h.extents) +
             " is empty and has no extreme; test the extent before",
         at);
  handle r;
  if (tracing()) r = push_arg_reduce(Combiner, h, Axis, at);
  else if (on_gpu(op, {&h}, at))
    r = launch(
        op, {&h}, {Axis, static_cast<std::int64_t>(Combiner)}, [&] { return push_arg_reduce(Combiner, h, Axis, at); },
        at);
  else r = eager_arg_reduce<Combiner, T>(h, Axis, op, at);
  constexpr dims shape = op_shapes::reduce(X::static_shape, axes, Keep).shape;
  return typed<std::int64_t, shape>(views::reshape(r, op_shapes::reduce(h.extents, axes, Keep).shape, at), at);
}

}  // namespace sinter::detail
