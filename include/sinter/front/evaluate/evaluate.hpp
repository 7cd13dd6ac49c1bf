// front/evaluate/evaluate.hpp: the stage point: an expression becomes a tensor, by a loop or by nodes.
#pragma once

#include "../eager/fill.hpp"
#include "../tensor/trace_push.hpp"

namespace sinter {

namespace detail {

/// Pushes `e` onto the current trace and wraps the node.
template <class E>
auto push_value(const std::shared_ptr<engine::tracer>& t, const E& e, location at) {
  tensor<typename E::value_type, E::static_shape> out;
  if constexpr (is_number<E>) push_point(t, terms(e.template as<typename E::value_type>()), at, access::parts(out));
  else push_point(t, terms(e), at, access::parts(out));
  return out;
}

/// A uniform tensor. Unless `fixed`, its value may depend on a floating argument of a trace. (below)
template <class T, dims Shape>
tensor<T, Shape> filled(const char* op, T value, const index_array<Shape.rank>& extents, target where, location at,
                        bool fixed = false);

/// The value of `e` on the device of its tensors, or on `otherwise` if it has no tensors.
template <tensor_like E>
auto evaluate_on(const E& e, device otherwise, location at) {
  if constexpr (any_tensor<E> || is_number<E>) {
    if (const auto& t = engine::current()) return push_value(t, e, at);
  }
  if constexpr (any_tensor<E>) {
    if (e.is_traced()) check_tracer(access::tracer(e).get(), nullptr, at);
    return e;
  } else if constexpr (is_number<E>) {
    e.check_traced_now(at);
    using T = typename E::value_type;
    return filled<T, dims{}>("tensor", static_cast<T>(e), {}, otherwise, at);
  } else {
    tensor<typename E::value_type, E::static_shape> out;
    access::point_to(out, stage_point(stage_of<E>, &e, otherwise, at, access::parts(out)));
    return out;
  }
}

template <class Tensor, class E>
void evaluate_into(Tensor& out, const E& e, device otherwise, location at) {
  if constexpr (is_number<E>) out = evaluate_on(e, otherwise, at);
  else access::point_to(out, stage_point(stage_of<E>, &e, otherwise, at, access::parts(out)));
}

template <tensor_like E>
auto evaluate(const E& e, location at) {
  return evaluate_on(e, {}, at);
}

/// A row-major copy of a view, also when the view shares its storage.
template <class T, dims Shape>
tensor<T, Shape> materialize(const tensor<T, Shape>& view, location at) {
  return eager_evaluate(view, at);
}

/// A number without its type.
struct number_bits {
  dtype type;
  const void* data;
  ir::scalar literal;
};
/// Memory of a GPU with one number everywhere. (evaluate_rules.hpp)
SINTER_API storage filled_on_gpu(const char* op, const number_bits& value, const dims& extents, device where,
                                 location at);
/// Makes `out` a uniform tensor, while tracing a constant node, and returns the address of its elements. (evaluate_rules.hpp)
SINTER_API void* put_filled(const char* op, const number_bits& value, const dims& extents, const target& where,
                            location at, bool fixed, const tensor_parts& out);

template <class T, dims Shape>
tensor<T, Shape> filled(const char* op, T value, const index_array<Shape.rank>& extents, target where, location at,
                        bool fixed) {
  check_static<Shape>(op, extents, at);
  tensor<T, Shape> out;
  const number_bits bits{dtype_of<T>, &value, to_scalar(value)};
  access::point_to(out, put_filled(op, bits, to_dims(extents), where, at, fixed, access::parts(out)));
  return out;
}

/// A size as a rank-0 tensor; while tracing, each call supplies its value.
template <class T>
tensor<T, dims{}> size_value(dim n, location at) {
  const auto& t = engine::current();
  if (n.is_symbolic())
    return access::traced<T, dims{}>(t, ir::push_size(t->graph, dtype_of<T>, engine::to_ir(n), at), {});
  return filled<T, dims{}>("size", static_cast<T>(n.bits), {}, t ? target() : target(device::cpu()), at);
}

template <class T, class Tensor>
void store_scalar(Tensor& out, T value, location at) {
  out = filled<T, Tensor::static_shape>("tensor", value, {}, {}, at);
}

}  // namespace detail

template <class T, dims Shape>
tensor<T, Shape> tensor<T, Shape>::contiguous(location at) const {
  if (tracer_ || is_contiguous()) return *this;
  concrete("contiguous", at);
  return moved(memory_.where(), at);
}

template <class T, dims Shape>
sinter::device tensor<T, Shape>::device(location at) const {
  if (tracer_) return tracer_.tracer()->where.value_or(engine::default_device());
  concrete("device", at);
  return memory_.where();
}

template <class T, dims Shape>
tensor<T, Shape> tensor<T, Shape>::to(sinter::device where, location at) const {
  if (tracer_) detail::fail_moved_while_traced(at);
  concrete("to", at);
  return where == memory_.where() ? *this : moved(where, at);
}

template <class T, dims Shape>
tensor<T, Shape> tensor<T, Shape>::to(sinter::device where, non_blocking_t, location at) const {
  if (tracer_) detail::fail_moved_while_traced(at);
  concrete("to", at);
  return where == memory_.where() ? *this : moved(where, at, false);
}

template <class T, dims Shape>
tensor<T, Shape> tensor<T, Shape>::moved(sinter::device where, location at, bool waits) const {
  engine::operand x;
  detail::operand_list list{&x};
  detail::collect(*this, list, at);
  storage memory = detail::moved(x, where, at, waits);
  T* const first = static_cast<T*>(memory.data());
  return detail::access::make<T, Shape>(std::move(memory), first, extents_, detail::row_major_strides(extents_));
}

template <class T, dims Shape>
tensor<T, Shape> tensor<T, Shape>::now(const char* what, location at, bool for_good) const {
  const engine::captured x = engine::read(*tracer_, what, at, for_good);
  index_array<rank> extents, strides;
  std::copy_n(x.extents.begin(), rank, extents.begin());
  std::copy_n(x.strides.begin(), rank, strides.begin());
  return detail::access::make<T, Shape>(x.memory, static_cast<T*>(x.data), extents, strides);
}

template <class T, dims Shape>
tensor<T, Shape> tensor<T, Shape>::on_host(const char* what, location at) const {
  if (memory_ && !engine::reads_count && !on_gpu()) {
    memory_.wait();
    return *this;
  }
  if (!defined()) fail_nothing(what, at);
  tensor here;
  void* first = data_;
  here.extents_ = extents_;
  here.strides_ = strides_;
  here.memory_ = detail::read_on_host(tracer_, memory_, dtype_of<T>, first, here.extents_.data(), here.strides_.data(),
                                      rank, what, at);
  here.data_ = static_cast<T*>(first);
  return here;
}

template <class T, dims Shape>
T* tensor<T, Shape>::copy_to_read(const char* what, location at) const {
  storage copy = engine::copy_to_read(*tracer_);
  if (!copy) {
    const tensor x = now(what, at);
    const engine::tracing_scope eagerly(nullptr);
    copy = x.moved(x.memory_.where(), at).memory_;
    engine::keep_copy(*tracer_, copy, at);
  }
  return static_cast<T*>(copy.data());
}

template <class T, dims Shape>
T& tensor<T, Shape>::element_of_copy(const index_array<rank>& index, location at) const {
  T* const copy = copy_to_read("element access", at);
  const tensor x = now("element access", at);
  if (x.on_gpu()) detail::fail_on_gpu("element access", detail::to_dims(x.extents_), x.memory_.where(), at);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    if (index[i] < 0 || index[i] >= x.extents_[i])
      detail::fail_index(detail::to_dims(index), detail::to_dims(x.extents_), at);
    offset = offset * x.extents_[i] + index[i];
  }
  return copy[offset];
}

template <class T, dims Shape>
void tensor<T, Shape>::from_list(const typename detail::nested<T, rank>::type& list, const detail::target& where,
                                 location at) {
  index_array<rank> extents{};
  detail::nested_extents<T, rank>(list, extents.data(), true, at);
  detail::check_static<Shape>("tensor", extents, at);
  storage memory = detail::new_memory("tensor", detail::to_dims(extents), sizeof(T), at);
  detail::nested_copy<T, rank>(list, static_cast<T*>(memory.data()));
  memory = detail::placed(std::move(memory), static_cast<std::size_t>(detail::product(extents)) * sizeof(T), where, at);
  T* const first = static_cast<T*>(memory.data());
  *this = detail::access::make<T, Shape>(std::move(memory), first, extents, detail::row_major_strides(extents));
}

template <class T, dims Shape>
void tensor<T, Shape>::fill_on_gpu(T value, location at) const {
  if (!is_contiguous())
    fail("fill",
         "the tensor is a view with gaps on " + memory_.where().text() + "; fill a contiguous tensor, or use where()",
         at);
  const engine::tracing_scope eagerly(nullptr);
  const detail::number_bits bits{dtype_of<T>, &value, detail::to_scalar(value)};
  const storage from = detail::filled_on_gpu("fill", bits, detail::to_dims(extents_), memory_.where(), at);
  engine::copy(memory_, data_, from, from.data(), static_cast<std::size_t>(numel()) * sizeof(T));
}

using detail::evaluate;

}  // namespace sinter

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "evaluate_rules.hpp"
#endif
