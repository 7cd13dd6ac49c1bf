// engine/backends.hpp: the backends by name, for guards and options. (jit/backends/table.hpp)
#pragma once

#include <string_view>

#include "../base/config.hpp"
#include "../base/device.hpp"

namespace sinter::engine {

struct backend_facts {
  const char* name;
  bool compiles = false;                   ///< makes kernels; otherwise the graph is interpreted
  bool rewrites = false;                   ///< its graph is rewritten first
  device::kind where = device::kind::cpu;  ///< the device of its kernels
};

/// The facts of a backend, or nullptr for an unknown name.
SINTER_API const backend_facts* find_backend(std::string_view name);

/// The name of the backend that answers when no other can.
inline constexpr const char* interpreter = "reference";

/// True unless options ask for an interpreting backend.
inline bool wants_kernels(std::string_view backend) {
  const backend_facts* const b = find_backend(backend);
  return b == nullptr || b->compiles;
}

}  // namespace sinter::engine
