// front/on_device.hpp: stage points on a GPU: the nodes that a trace would push, run as one program.
#pragma once

#include <span>
#include <utility>

#include "../engine.hpp"
#include "loop.hpp"
#include "trace_push.hpp"

namespace sinter::detail {

/// Its address stands for an expression.
template <class... E>
inline char stage_signature = 0;

template <class E>
constexpr const char* stage_name() {
  if constexpr (is_expr<E>) return ir::name(E::code);
  else return "contiguous";
}

/// The device that operands which agree are on; `otherwise` when there is no tensor, or only numbers of the host.
inline device device_of(const operand_list& list, device otherwise) {
  bool any = false;
  for (int i = 0; i < list.count; ++i) {
    const engine::operand& x = list.at[i];
    if (!x.is_tensor()) continue;
    if (x.where().is_cuda()) return x.where();
    any |= x.rank > 0;
  }
  return any ? device{} : otherwise;
}

/// Runs what `trace` pushes. Tensors of the host among the operands are rank-0: they go by value.
inline engine::output run_stage_as(const char* name, const void* signature, const operand_list& list,
                                   std::span<const std::int64_t> facts, device where, location at,
                                   engine::pushing trace) {
  for (int i = 0; i < list.count; ++i)
    if (where.is_cuda() && list.at[i].is_tensor() && !list.at[i].where().is_cuda()) list.at[i].by_value = true;
  return engine::run_stage({name, signature, {list.at, static_cast<std::size_t>(list.count)}, facts, where, at}, trace);
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
  return access::make<T, Shape>(std::move(out.memory), data, extents, row_major(extents));
}

}  // namespace sinter::detail
