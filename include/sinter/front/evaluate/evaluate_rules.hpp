// front/evaluate/evaluate_rules.hpp: uniform tensors: constants, or memory; compiled once.
#pragma once

#include <algorithm>

#include "../eager/on_device.hpp"
#include "evaluate.hpp"

namespace sinter::detail {

SINTER_API storage filled_on_gpu(const char* op, const number_bits& value, const dims& extents, device where,
                                 location at) {
  static constexpr char signature = 0;
  checked_numel(op, extents, size_of(value.type), at);
  engine::operand number;
  number.data = const_cast<void*>(value.data);
  number.type = value.type;
  number.by_value = true;
  const auto trace = [&] {
    return push_number(*engine::current(), value.type, value.data, value.literal, extents.extent, extents.rank, at);
  };
  std::int64_t facts[max_rank + 1] = {static_cast<std::int64_t>(value.type)};
  std::copy_n(as_numbers(extents.extent), extents.rank, facts + 1);
  return run_stage(op, &signature, {&number, 1}, {facts, static_cast<std::size_t>(extents.rank) + 1}, where, at, trace)
      .memory;
}

SINTER_API void* put_filled(const char* op, const number_bits& value, const dims& extents, const target& where,
                            location at, bool fixed, const tensor_parts& out) {
  const device on = resolve(op, where, at);
  checked_numel(op, extents, size_of(value.type), at);
  std::copy_n(extents.extent, extents.rank, out.extents);
  put_strides(out.extents, out.strides, extents.rank);
  if (const auto& t = engine::current()) {
    const ir::node_id node = push_constant(*t, value.type, value.literal, extents.extent, extents.rank, at, fixed);
    *out.traced = trace_handle(t, node);
    return nullptr;
  }
  if (on.is_cuda()) {
    *out.memory = filled_on_gpu(op, value, extents, on, at);
    return out.memory->data();
  }
  *out.memory = new_memory(op, extents, size_of(value.type), at);
  void* const to = out.memory->data();
  const std::int64_t n = extents.numel();
  const auto fill = [&](auto word) {
    std::memcpy(&word, value.data, sizeof word);
    parallel(n, n, [=](std::int64_t begin, std::int64_t end) {
      std::fill(static_cast<decltype(word)*>(to) + begin, static_cast<decltype(word)*>(to) + end, word);
    });
  };
  switch (size_of(value.type)) {
    case 1:
      fill(std::uint8_t{});
      break;
    case 2:
      fill(std::uint16_t{});
      break;
    case 4:
      fill(std::uint32_t{});
      break;
    default:
      fill(std::uint64_t{});
  }
  return to;
}

}  // namespace sinter::detail
