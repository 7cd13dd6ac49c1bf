// plan/schedule/facts.hpp: what schedules need to know of a target.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace sinter::engine::plan::schedules {

/// The default is a target without limits.
struct facts {
  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
  std::int64_t register_bytes = unlimited;             ///< of a thread
  std::int64_t shared_bytes = unlimited;               ///< of a block
  std::int64_t stack_bytes = unlimited;                ///< of a thread
  int threads = 0;                                     ///< warps of a block; 0: a task is one thread
  bool (*has)(std::string_view capability) = nullptr;  ///< "sm_80", "avx512f"; null: all

  bool bounded() const { return shared_bytes != unlimited; }
};

}  // namespace sinter::engine::plan::schedules
