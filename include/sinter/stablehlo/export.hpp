// stablehlo/export.hpp: stablehlo::save: functions and graphs as modules of StableHLO's generic text.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "../ir/counterparts.hpp"
#include "../sinter.hpp"

namespace sinter::stablehlo {

/// How a module is written.
struct save_options {
  std::string function = "main";  ///< the symbol of the module's function: a C identifier
  /// Captured tensors are constants with `inside`, up to 1 GiB. With `beside` and `given` they are the function's last
  /// parameters; `beside` also writes their values to PATH.safetensors as w0, w1, ….
  library_weights weights = library_weights::inside;
};

/// The graph as the text of a module with one function of known extents. Parameters are the arguments, in order. user_error
/// that names all ops without a counterpart, for open sizes, and for weights that do not fit.
SINTER_API std::string text(const graph& g, const save_options& how = {}, location at = location::current());

/// Writes text(g) as a file; with weights beside, their file as well. system_error for a file that cannot be written.
SINTER_API void save(const std::string& path, const graph& g, const save_options& how = {},
                     location at = location::current());

/// The function's graph for these arguments: tensors, or specs. `stablehlo::save("mlp.mlir", f, spec<tensor<float, 2>>{{8, 784}})`.
template <class F, class... Args>
requires(!std::is_same_v<std::remove_cvref_t<F>, graph> && sizeof...(Args) > 0) void save(const std::string& path,
                                                                                          F&& fn, const Args&... args) {
  save(path, trace(std::forward<F>(fn))(args...));
}

/// An op of sinter's graphs, `op`, and its form in StableHLO, `how`; "" where it has none.
using export_description = ir::counterpart;
/// A row for each op, in the order of ir/ops.def.
SINTER_API std::vector<export_description> exported_ops();

}  // namespace sinter::stablehlo

#if !defined(SINTER_COMPILED)
#include "export_rules.hpp"
#endif
