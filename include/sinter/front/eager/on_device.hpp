// front/eager/on_device.hpp: stage points on a GPU: the nodes that a trace would push run as one program.
#pragma once

#include <span>
#include <utility>

#include "../../engine/engine.hpp"
#include "../tensor/trace_push.hpp"
#include "loop.hpp"

namespace sinter::detail {

/// A variable whose address stands for an expression.
template <class... E>
inline char stage_signature = 0;

template <class E>
constexpr const char* stage_name() {
  if constexpr (is_expr<E>) return ir::name(E::code);
  else return "contiguous";
}

template <class Trace>
engine::output run_stage(const char* name, const void* signature, const operand_list& list,
                         std::span<const std::int64_t> facts, device where, location at, const Trace& trace) {
  return run_stage_as(name, signature, list, facts, where, at,
                      {[](const void* what) { return (*static_cast<const Trace*>(what))(); }, &trace});
}

/// The tensor of a stage's result.
template <class T, dims Shape>
tensor<T, Shape> from_output(engine::output out, const index_array<Shape.rank>& extents) {
  T* const data = static_cast<T*>(out.memory.data());
  return access::make<T, Shape>(std::move(out.memory), data, extents, row_major_strides(extents));
}

}  // namespace sinter::detail
