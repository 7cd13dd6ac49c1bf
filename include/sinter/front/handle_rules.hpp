// front/handle_rules.hpp: where ops on handles run; compiled once.
#pragma once

#include "handle.hpp"

namespace sinter::detail {

SINTER_API handle launch_as(const char* op, const void* signature, std::span<const handle* const> operands,
                            std::span<const std::int64_t> facts, engine::pushing trace, location at) {
  std::vector<engine::operand> all;
  for (const handle* x : operands) all.push_back(operand_of(*x));
  const operand_list list{all.data(), static_cast<int>(all.size()), true};
  engine::output out = run_stage_as(op, signature, list, facts, device_of(list, {}), at, trace);
  handle h;
  h.type = out.type;
  for (int i = 0; i < out.rank; ++i) h.extents.push(out.extents[i]);
  h.strides = row_major_strides(h.extents);
  h.memory = std::move(out.memory);
  h.data = static_cast<std::byte*>(h.memory.data());
  return h;
}

SINTER_API bool on_gpu(const char* op, std::span<const handle* const> operands, location at) {
  const handle* first = nullptr;
  for (const handle* x : operands) {
    if (x->tracer || !x->memory || (x->extents.rank == 0 && !x->memory.where().is_cuda())) continue;
    if (!first) first = x;
    else if (!(first->memory.where() == x->memory.where()))
      fail_devices(op, first->extents, first->memory.where(), x->extents, x->memory.where(), at);
  }
  return first && first->memory.where().is_cuda();
}
}  // namespace sinter::detail
