// onnx/runtime_rules.hpp: the definitions for runtime.hpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "../engine/backends.hpp"
#include "../engine/graph.hpp"
#include "export_rules.hpp"
#include "runtime.hpp"

namespace sinter::onnx {

namespace detail_ {

inline backend_call compile_for_onnxruntime(const graph& g, backend_arrays) {
  constexpr const char* name = "onnxruntime";
  if (const std::string problem = engine::onnxruntime_problem(); !problem.empty())
    throw system_error("ONNX Runtime is missing: " + problem);
  const std::string model = out::model_in_memory(g, name, {});
  const auto session =
      std::make_shared<const engine::onnxruntime_session>(std::as_bytes(std::span(model)), name, location{});
  return [session](backend_arrays operands, backend_arrays results) { session->run(operands, results); };
}

}  // namespace detail_

SINTER_API void register_onnxruntime() {
  if (engine::find_backend("onnxruntime")) return;  // another library of the process has registered it
  register_backend("onnxruntime", {.version = SINTER_VERSION, .compile = detail_::compile_for_onnxruntime});
}

SINTER_API runtime_model::runtime_model(const std::string& path, location at)
    : session_(std::make_shared<const engine::onnxruntime_session>(path, "onnx::runtime_model", at)), where_(at) {}
SINTER_API std::vector<std::string> runtime_model::inputs() const { return session_->inputs(); }
SINTER_API std::vector<std::string> runtime_model::outputs() const { return session_->outputs(); }

SINTER_API tensor_list runtime_model::operator()(const tensor_list& inputs) const {
  std::vector<io::array> arrays;
  for (const dynamic_tensor& x : inputs) arrays.push_back(x.to_array());
  std::vector<ir::foreign_array> operands;
  for (const io::array& a : arrays)
    operands.push_back({a.data, a.type, a.extents.data(), static_cast<int>(a.extents.size())});
  tensor_list out;
  for (auto& result : session_->run({operands.data(), operands.size()})) out.push_back(dynamic_tensor::made(result));
  return out;
}

}  // namespace sinter::onnx
