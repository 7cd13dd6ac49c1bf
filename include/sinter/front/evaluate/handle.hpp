// front/evaluate/handle.hpp: a tensor without its static type. Movement and products work on handles, and so are compiled once.
#pragma once

#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "../../engine/engine.hpp"
#include "../shapes/op_shapes.hpp"
#include "../tensor/tensor.hpp"
#include "../tensor/trace_push.hpp"
#include "evaluate.hpp"

namespace sinter::detail {

struct handle {
  dims extents, strides;  ///< strides in elements
  dtype type = dtype::f32;
  storage memory;
  std::byte* data = nullptr;
  std::shared_ptr<engine::tracer> tracer;  ///< set for a value of a graph
  ir::node_id node = ir::no_node;

  std::int64_t item_bytes() const { return static_cast<std::int64_t>(size_of(type)); }
};

template <int R>
constexpr index_array<R> to_index(const dims& d) {
  index_array<R> a{};
  for (int i = 0; i < R; ++i) a[static_cast<std::size_t>(i)] = d[i];
  return a;
}
/// The tensor type of an expression's values.
template <tensor_like E>
using tensor_of = tensor<typename E::value_type, E::static_shape>;

/// A stage point: the tensor itself, or the expression's values.
template <tensor_like E>
tensor_of<E> stage(const E& e, location at) {
  if constexpr (any_tensor<E>) {
    if (!e.defined()) fail_undefined("tensor", at, access::donated_to(e));
    if (e.is_traced()) {
      const auto& t = engine::current();
      if (access::tracer(e) != t) {
        if (!t) check_tracer(access::tracer(e).get(), nullptr, at);
        return access::traced<typename E::value_type, E::static_shape>(t, push(*t, e, at), e.shape());
      }
    }
    return e;
  } else {
    return detail::evaluate(e, at);
  }
}

/// The handle of a tensor, which `e` is alone. user_error for a tensor without values. (handle_rules.hpp)
SINTER_API handle untyped_tensor(expression_view e, location at);

/// The handle of an expression's values. (handle_rules.hpp)
SINTER_API handle untyped_values(const row_stage& s, const void* expression, location at);

template <tensor_like E>
handle untyped(const E& e, location at) {
  if constexpr (any_tensor<E>) return untyped_tensor(terms(e), at);
  else if constexpr (is_number<E>) return untyped_tensor(terms(detail::evaluate(e, at)), at);
  else return untyped_values(stage_of<E>, &e, at);
}

/// Moves a handle's tensor into `out`, and returns the address of its elements. An internal error unless it has the promised dtype and
/// extents. (handle_rules.hpp)
SINTER_API void* put_handle(handle&& h, dtype type, const dims& shape, const tensor_parts& out, location at);

template <class T, dims Shape>
tensor<T, Shape> typed(handle h, location at) {
  tensor<T, Shape> out;
  access::point_to(out, put_handle(std::move(h), dtype_of<T>, Shape, access::parts(out), at));
  return out;
}

/// x under the static shape S, which must fit its extents.
template <dims S, any_tensor X>
tensor<typename X::value_type, S> fitted(const X& x, location at) {
  if constexpr (X::static_shape == S) return x;
  else return tensor<typename X::value_type, S>(x, at);
}

/// Makes `out` a new input of the graph with these extents, which must fit `shape`. (handle_rules.hpp)
SINTER_API void put_input(const std::shared_ptr<engine::tracer>& tracer, dtype type, const dims& shape,
                          const dim* extents, const tensor_parts& out, location where);

/// The node of a handle in the current graph; concrete elements become a captured input.
SINTER_API ir::node_id node_of(const handle& x, location at);

inline bool tracing() { return engine::current() != nullptr; }

/// The handle of a node of the current graph.
SINTER_API handle of_node(ir::node_id id);

/// Pushes an op on the current graph.
SINTER_API handle push_op(ir::op code, std::initializer_list<handle> in, ir::attributes attr, location at);

inline ir::shape to_ir(const dims& d) { return engine::to_ir(d.extent, d.rank); }

/// New memory for a tensor of these extents, row-major, uninitialised.
SINTER_API handle allocate(const char* op, dtype type, const dims& extents, location at);

/// to = from, element by element; both have to's extents, and do not overlap.
SINTER_API void copy_elements(const handle& to, const handle& from);

/// Runs the ops that `trace` pushes on the GPU of the operands. (handle_rules.hpp)
SINTER_API handle launch_as(const char* op, const void* signature, std::span<const handle* const> operands,
                            std::span<const std::int64_t> facts, engine::pushing trace, location at);

/// Whether an op of these operands runs on a GPU. user_error when they are on different devices.
SINTER_API bool on_gpu(const char* op, std::span<const handle* const> operands, location at);
inline bool on_gpu(const char* op, std::initializer_list<const handle*> operands, location at) {
  return on_gpu(op, std::span<const handle* const>(operands.begin(), operands.size()), at);
}

/// f() as a program of a GPU, traced once for each layout of the operands and `facts`. f must depend on nothing else.
template <class F>
handle launch(const char* op, std::span<const handle* const> operands, std::span<const std::int64_t> facts, F&& f,
              location at) {
  const auto node = [&] { return node_of(f(), at); };
  using Node = decltype(node);
  return launch_as(op, &stage_signature<F>, operands, facts,
                   {[](const void* what) { return (*static_cast<const Node*>(what))(); }, &node}, at);
}

template <class F>
handle launch(const char* op, std::initializer_list<const handle*> operands, std::initializer_list<std::int64_t> facts,
              F&& f, location at) {
  return launch(op, std::span<const handle* const>(operands.begin(), operands.size()), {facts.begin(), facts.size()}, f,
                at);
}

SINTER_API handle contiguous(const handle& x, location at);

SINTER_API handle push_cast(const handle& x, dtype type, location at);
SINTER_API handle push_scan(ir::op combiner, const handle& x, int axis, location at);
/// The sum of the squares of a floating tensor over ascending axes, as f64; only while tracing or on a GPU.
SINTER_API handle sum_squares(const handle& x, std::span<const int> axes, location at);
SINTER_API handle push_arg_reduce(ir::op combiner, const handle& x, int axis, location at);

/// f32 elements rounded to bf16 or f16, as f32.
SINTER_API handle rounded(const handle& x, dtype to, location at);

}  // namespace sinter::detail

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "handle_rules.hpp"
#endif
