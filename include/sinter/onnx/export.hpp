// onnx/export.hpp: onnx::save: functions and graphs as ONNX files.
#pragma once

#include <string>
#include <vector>

#include "../ir/counterparts.hpp"
#include "../sinter.hpp"
#include "model.hpp"

namespace sinter::onnx {

/// How a model is written.
struct save_options {
  names called = {};                   ///< of inputs and results, in order; by default x0, x1, … and y0, y1, …
  std::vector<std::string> axes = {};  ///< names of the open sizes s0, s1, …; by default their own
  std::string producer = "sinter";
  /// Weights beyond so many bytes in all go to a file beside the model, PATH.DIGEST.data; an earlier one is removed.
  std::size_t inline_bytes = std::size_t{1} << 30;
};

/// Writes a graph as an ONNX model of opset 19: one node for most ops, Conv, MaxPool and AveragePool where windows are such.
/// Captured tensors are initialisers; open sizes are named axes. user_error that names all ops without a counterpart;
/// system_error for a file that cannot be written.
SINTER_API void save(const std::string& path, const graph& g, const save_options& how = {},
                     location at = location::current());

/// The function's graph for these arguments: tensors, or specs. `onnx::save("mlp.onnx", f, spec<tensor<float, 2>>{{8, 784}})`.
/// With `trace(f, {.dynamic = dynamic::yes})(…)` in place of the function, extents are open.
template <class F, class... Args>
requires(!std::is_same_v<std::remove_cvref_t<F>, graph> && sizeof...(Args) > 0) void save(const std::string& path,
                                                                                          F&& fn, const Args&... args) {
  save(path, trace(std::forward<F>(fn))(args...));
}

/// An op of sinter's graphs, `op`, and its form in ONNX files, `how`; "" where it has none.
using export_description = ir::counterpart;
/// A row for each op, in the order of ir/ops.def.
SINTER_API std::vector<export_description> exported_ops();

}  // namespace sinter::onnx

#if !defined(SINTER_COMPILED)
#include "export_rules.hpp"
#endif
