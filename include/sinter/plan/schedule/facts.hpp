// plan/schedule/facts.hpp: what schedules need to know of a target.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "../kernel/target.hpp"

namespace sinter::engine::plan::schedules {

/// The default is a target without limits.
struct facts {
  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
  std::int64_t register_bytes = unlimited;             ///< of a thread
  std::int64_t shared_bytes = unlimited;               ///< of a block
  std::int64_t stack_bytes = unlimited;                ///< of a thread
  int processors = 1;                                  ///< that share a kernel's tasks, on a GPU its blocks
  int threads = 0;                                     ///< warps of a block; 0: a task is one thread
  bool (*has)(std::string_view capability) = nullptr;  ///< "sm_80", "tf32", "sm_90a", "avx512f"; null: all

  bool bounded() const { return shared_bytes != unlimited; }
};

namespace detail {

template <bool Tf32, bool Groups>
bool gpu_has(std::string_view what) {
  return what == "sm_80" || (Tf32 && what == "tf32") || (Groups && what == "sm_90a");
}

}  // namespace detail

/// The facts of a GPU. f32 on matrix units, whose operands are rounded, is an option.
inline facts device_facts(const target& t) {
  // 255 registers, less those for addresses and turns.
  facts f{.register_bytes = 4 * 248, .shared_bytes = t.shared_bytes, .processors = t.multiprocessors, .threads = 4};
  if (!t.copies_async) f.has = [](std::string_view) { return false; };
  else if (t.tf32) f.has = t.groups ? detail::gpu_has<true, true> : detail::gpu_has<true, false>;
  else f.has = t.groups ? detail::gpu_has<false, true> : detail::gpu_has<false, false>;
  return f;
}

}  // namespace sinter::engine::plan::schedules
