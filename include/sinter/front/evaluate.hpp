// front/evaluate.hpp: the stage point: an expression becomes a tensor, by a loop or by nodes.
#pragma once

#include "eager.hpp"
#include "trace_push.hpp"

namespace sinter {

namespace detail {

/// Pushes `e` onto the current trace and wraps the node.
template <class E>
auto push_value(const std::shared_ptr<engine::tracer>& t, const E& e, location at) {
  const auto extents = extents_of(e, at);
  return access::traced<typename E::value_type, E::static_shape>(t, push(*t, e, at), extents);
}

template <tensor_like E>
auto evaluate(const E& e, location at) {
  const auto& t = engine::current();
  if (t) return push_value(t, e, at);
  if constexpr (any_tensor<E>) {
    if (e.is_traced()) check_tracer(access::tracer(e).get(), nullptr, at);
    return e;
  } else {
    return eager_evaluate(e, at);
  }
}

/// A row-major copy of a view; also of one whose storage is shared.
template <class T, dims Shape>
tensor<T, Shape> materialize(const tensor<T, Shape>& view, location at) {
  return eager_evaluate(view, at);
}

/// An element in every position, as a constant node while tracing.
template <class T, dims Shape>
tensor<T, Shape> filled(const char* op, T value, const index_array<Shape.rank>& extents, location at) {
  check_static<Shape>(op, extents, at);
  if (const auto& t = engine::current()) {
    checked_numel(op, to_dims(extents), sizeof(T), at);
    return access::traced<T, Shape>(
        t, ir::push_constant(t->graph, dtype_of<T>, to_scalar(value), extents.data(), Shape.rank, at), extents);
  }
  auto out = empty<T, Shape>(op, extents, at);
  const std::int64_t n = out.numel();
  T* data = access::data(out);
  parallel(n, n, [=](std::int64_t begin, std::int64_t end) { std::fill(data + begin, data + end, value); });
  return out;
}

template <class T, class Tensor>
void store_scalar(Tensor& out, T value, location at) {
  out = filled<T, Tensor::static_shape>("tensor", value, {}, at);
}

}  // namespace detail

template <class T, dims Shape>
tensor<T, Shape> tensor<T, Shape>::contiguous(location at) const {
  if (tracer_ || is_contiguous()) return *this;
  concrete("contiguous", at);
  return detail::materialize(*this, at);
}

template <class T, dims Shape>
void tensor<T, Shape>::allocate(location at) {
  *this = detail::empty<T, Shape>("tensor", index_array<rank>(extents_), at);
}

using detail::evaluate;

}  // namespace sinter
