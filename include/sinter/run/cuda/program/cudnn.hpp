// run/cuda/program/cudnn.hpp: cuDNN's descriptors, opened on first use.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>

#include "../../../base/dtype.hpp"
#include "../../../base/series.hpp"
#include "../../library.hpp"
#include "../device/driver.hpp"

namespace sinter::engine::run::cuda {

/// cuDNN's graph API by its manual ("Backend API", 9.19); descriptors are opaque.
struct dnn_table {
  int (*create)(void** handle) = nullptr;
  int (*set_stream)(void* handle, api::stream stream) = nullptr;
  int (*make)(int kind, void** descriptor) = nullptr;
  int (*destroy)(void* descriptor) = nullptr;
  int (*set)(void* descriptor, int attribute, int type, std::int64_t count, const void* values) = nullptr;
  int (*get)(void* descriptor, int attribute, int type, std::int64_t most, std::int64_t* count, void* values) = nullptr;
  int (*finish)(void* descriptor) = nullptr;
  int (*execute)(void* handle, void* plan, void* arguments) = nullptr;
  const char* (*words)(int status) = nullptr;
  std::size_t version = 0;  ///< 91900: 9.19.0
  std::string identity;     ///< path, size, modification time and build-id
  std::string problem;      ///< why it is missing, with a remedy
};

namespace detail {

SINTER_API std::unique_ptr<const dnn_table> open_dnn() {
  auto out = std::make_unique<dnn_table>();
  const auto number = [](void* handle, const char* name) {
    const auto asked = reinterpret_cast<std::size_t (*)()>(::dlsym(handle, name));
    return asked != nullptr ? asked() : 0;
  };
  const auto major = [&](void* handle) { return static_cast<int>(number(handle, "cudnnGetCudartVersion") / 1000); };
  // cuDNN's major version is not CUDA's, so there is no other file to open for an older driver.
  const library found =
      open_library({"SINTER_LIBCUDNN", {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"}, {"cudnn", "cu13"}});
  const std::string remedy = "; install cuDNN 8.1 or newer (or Python's nvidia-cudnn), or set SINTER_LIBCUDNN";
  if (found.handle == nullptr) {
    out->problem = "no cuDNN: " + found.problem + remedy;
    return out;
  }
  const auto take = [&](auto& pointer, const char* name) {
    pointer = reinterpret_cast<std::decay_t<decltype(pointer)>>(::dlsym(found.handle, name));
    if (pointer == nullptr) out->problem = "cuDNN at " + found.path + " lacks " + name + remedy;
  };
  take(out->create, "cudnnCreate");
  take(out->set_stream, "cudnnSetStream");
  take(out->make, "cudnnBackendCreateDescriptor");
  take(out->destroy, "cudnnBackendDestroyDescriptor");
  take(out->set, "cudnnBackendSetAttribute");
  take(out->get, "cudnnBackendGetAttribute");
  take(out->finish, "cudnnBackendFinalize");
  take(out->execute, "cudnnBackendExecute");
  take(out->words, "cudnnGetErrorString");
  out->version = number(found.handle, "cudnnGetVersion");
  out->identity = found.path + " " + run::detail::file_stamp(found.path) + " " +
                  build_id_of(::dlsym(found.handle, "cudnnGetVersion"));
  if (const int its = major(found.handle), most = driver_major(); most != 0 && its > most)
    out->problem = "the driver supports CUDA " + std::to_string(most) + " and is older than cuDNN's CUDA " +
                   std::to_string(its) + " at " + found.path + remedy;
  return out;
}

}  // namespace detail

/// cuDNN, opened at the first call; `problem` has the reason if it is missing. SINTER_LIBCUDNN=none disables it.
SINTER_API const dnn_table& dnn() {
  static const dnn_table& table = *[] {
    if (detail::environment("SINTER_LIBCUDNN") != "none") return detail::open_dnn().release();
    auto* const off = new dnn_table;
    off->problem = "SINTER_LIBCUDNN=none";
    return static_cast<const dnn_table*>(off);
  }();
  return table;
}

/// Values of cudnn_graph.h and cudnn_ops.h.
namespace dnn_api {
inline constexpr int data_f32 = 0, data_f64 = 1, data_f16 = 2, data_bf16 = 9;
// cudnnBackendAttributeType_t
inline constexpr int type_handle = 0, type_data_type = 1, type_bool = 2, type_i64 = 3, type_f32 = 4, type_f64 = 5,
                     type_pointer = 6, type_convolution_mode = 7, type_heuristic = 8, type_nan = 10, type_note = 11,
                     type_pointwise = 14, type_descriptor = 15;
// cudnnBackendDescriptorType_t
inline constexpr int pointwise = 0, convolution = 1, engine = 2, engine_choice = 3, heuristic = 4, plan = 5,
                     forward = 10, weights_gradient = 11, image_gradient = 12, pointwise_step = 13, graph = 15,
                     arguments = 16, tensor = 17;
// cudnnBackendAttributeName_t
inline constexpr int pointwise_mode = 0, pointwise_precision = 1, pointwise_nan = 2, compute_type = 100,
                     convolution_mode = 101, dilations = 102, filter_strides = 103, high_padding = 104,
                     low_padding = 105, spatial = 106, heuristic_mode = 200, heuristic_graph = 201,
                     heuristic_results = 202, choice_engine = 300, plan_handle = 400, plan_choice = 401,
                     plan_workspace = 402, forward_first = 700, image_first = 706, weights_first = 712,
                     step_descriptor = 750, step_x = 751, step_b = 752, step_y = 753, graph_handle = 800,
                     graph_steps = 801, tensor_alignment = 900, tensor_type = 901, tensor_extents = 902,
                     tensor_strides = 903, tensor_id = 906, tensor_virtual = 907, arguments_ids = 1000,
                     arguments_pointers = 1001, arguments_workspace = 1003, engine_graph = 1300, engine_notes = 1303;
// cudnnConvolutionMode_t, cudnnPointwiseMode_t, cudnnBackendHeurMode_t, cudnnBackendNumericalNote_t
inline constexpr int cross_correlation = 1, add = 0, relu = 100, heuristic_instant = 0, heuristic_fallback = 2,
                     heuristic_a = 3, note_tensor_core = 0, note_down_convert = 1, note_nondeterministic = 4,
                     max_notes = 16;
}  // namespace dnn_api

/// Descriptors of cuDNN that belong together. After a failure, `status` has its code, and nothing more happens.
class dnn_descriptors {
 public:
  dnn_descriptors() = default;
  dnn_descriptors(const dnn_descriptors&) = delete;
  dnn_descriptors& operator=(const dnn_descriptors&) = delete;
  ~dnn_descriptors() {
    while (!made_.empty()) {
      dnn().destroy(made_.back());
      made_.pop_back();
    }
  }

  int status = 0;

  void* make(int kind) {
    void* made = nullptr;
    if (status == 0) status = dnn().make(kind, &made);
    if (status == 0) made_.push_back(made);
    return made;
  }
  void set(void* of, int attribute, int type, const void* values, std::int64_t count = 1) {
    if (status == 0) status = dnn().set(of, attribute, type, count, values);
  }
  void finish(void* of) {
    if (status == 0) status = dnn().finish(of);
  }

 private:
  series<void*> made_;
};

}  // namespace sinter::engine::run::cuda
