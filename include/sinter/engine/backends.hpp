// engine/backends.hpp: the backends by name, for guards and options. (jit/backends/table.hpp)
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "../base/callback.hpp"
#include "../base/config.hpp"
#include "../base/device.hpp"
#include "../base/location.hpp"
#include "../ir/graph.hpp"

namespace sinter {

class graph;

/// Operands or results, row-major, on the backend's device. Elements of a tensor are `data`, `type`, `extents`, `rank`.
using backend_arrays = ir::foreign_arrays;

/// What a backend makes of a graph: computes the results, whose memory is given, from the operands, which are the graph's inputs in
/// order. Several threads may call it at once.
using backend_call = detail::callback<void(backend_arrays operands, backend_arrays results)>;

/// A backend of the user's. (docs/graphs.md)
struct backend_row {
  std::string version;                     ///< part of the key of every cache
  bool rewrites = true;                    ///< takes the rewritten graph; otherwise the traced one
  device::kind where = device::kind::cpu;  ///< the device of the arrays
  /// Called once for each graph and set of extents, which are numbers; `examples` are the first call's operands. A system_error
  /// says that the machine lacks something: the function then runs on "reference", after a warning.
  detail::callback<backend_call(const graph& g, backend_arrays examples)> compile = {};
};

/// Makes `options.backend = name` run functions by `row`. Thread-safe. user_error for a name in use, or without a version or a
/// function. (jit/backends/table.hpp)
SINTER_API void register_backend(const std::string& name, backend_row row, location where = location::current());

}  // namespace sinter

namespace sinter::engine {

struct backend_facts {
  const char* name;
  bool compiles = false;                   ///< makes kernels; otherwise the graph is interpreted
  bool rewrites = false;                   ///< its graph is rewritten first
  device::kind where = device::kind::cpu;  ///< the device of its kernels
  bool fuses = true;                       ///< kernels have several ops
  bool records = false;                    ///< calls are recorded, as with mode::reduce_overhead
  const char* version = "";                ///< of a registered backend; part of the key of every cache
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
