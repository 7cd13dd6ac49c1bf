// onnx/runtime.hpp: ONNX Runtime beside sinter: the backend "onnxruntime", and models run by it for comparison.
#pragma once

#include <memory>
#include <string>

#include "../engine/onnxruntime.hpp"
#include "../sinter.hpp"
#include "dynamic.hpp"

namespace sinter::onnx {

/// Makes `options.backend = "onnxruntime"` run functions by ONNX Runtime on the CPU. <sinter/onnx.hpp> calls it when the
/// program starts. The library is opened at the first use: $SINTER_LIBONNXRUNTIME, the system's libonnxruntime.so.1, npm's
/// onnxruntime-node, Python's onnxruntime. A function with ops that ONNX lacks is a user_error, which names them.
SINTER_API void register_onnxruntime();

/// A model's file in ONNX Runtime, for comparison. Copies share it; several threads may call it.
class runtime_model {
 public:
  /// system_error without ONNX Runtime; user_error with its words for a model that it refuses.
  SINTER_API explicit runtime_model(const std::string& path, location at = location::current());
  SINTER_API std::vector<std::string> inputs() const;
  SINTER_API std::vector<std::string> outputs() const;
  /// The results for all inputs in the file's order, without initialisers. user_error for values that the model refuses.
  SINTER_API tensor_list operator()(const tensor_list& inputs) const;

 private:
  std::shared_ptr<const engine::onnxruntime_session> session_;
  location where_;
};

/// "" if ONNX Runtime can be used here, else the reason why not.
inline std::string runtime_problem() { return engine::onnxruntime_problem(); }

namespace detail_ {
inline const bool has_onnxruntime = (register_onnxruntime(), true);
}  // namespace detail_

}  // namespace sinter::onnx

#if !defined(SINTER_COMPILED)
#include "runtime_rules.hpp"
#endif
