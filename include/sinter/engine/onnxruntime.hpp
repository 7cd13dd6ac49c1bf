// engine/onnxruntime.hpp: models in ONNX Runtime, if it is installed, for <sinter/onnx.hpp>. (services/onnxruntime.hpp)
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "../base/config.hpp"
#include "../base/series.hpp"
#include "../base/storage.hpp"
#include "engine.hpp"

namespace sinter::engine {

/// "" if ONNX Runtime is found, else the reason why not. It is searched at the first call.
SINTER_API std::string onnxruntime_problem();
/// Its version, "1.30.0" for example; "" where it is missing.
SINTER_API std::string onnxruntime_version();

/// A result whose memory ONNX Runtime allocated.
struct onnxruntime_result {
  dtype type = dtype::f32;
  series<std::int64_t> extents;
  storage memory;
};

/// A model in ONNX Runtime, on the CPU. Several threads may run it at once.
class onnxruntime_session {
 public:
  /// Of a model's bytes. system_error without ONNX Runtime; user_error [op] with its words if it refuses the model.
  SINTER_API onnxruntime_session(std::span<const std::byte> model, const char* op, location where);
  /// Of a file, whose weights may be in others beside it.
  SINTER_API onnxruntime_session(const std::string& path, const char* op, location where);
  SINTER_API ~onnxruntime_session();
  onnxruntime_session(const onnxruntime_session&) = delete;
  onnxruntime_session& operator=(const onnxruntime_session&) = delete;

  SINTER_API const series<std::string>& inputs() const;
  SINTER_API const series<std::string>& outputs() const;
  /// Computes in the memory of operands and results, which are row-major. user_error if ONNX Runtime refuses them.
  SINTER_API void run(ir::foreign_arrays operands, ir::foreign_arrays results) const;
  /// Computes all results, whatever their extents.
  SINTER_API series<onnxruntime_result> run(ir::foreign_arrays operands) const;

 private:
  struct state;
  state* state_;  ///< owned
};

}  // namespace sinter::engine
