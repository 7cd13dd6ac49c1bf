// run/host/onnxruntime.hpp: ONNX Runtime by its C API, opened on first use if installed.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "../../base/config.hpp"
#include "../../base/dtype.hpp"
#include "../../base/error.hpp"
#include "../../base/series.hpp"
#include "../file.hpp"
#include "../packages.hpp"

namespace sinter::engine::run {

/// The functions of struct OrtApi that are used here. Pointers to its objects are void*. A function that returns a status
/// returns null for success. Numbers are places in the struct, which no version changes.
/// (include/onnxruntime/core/session/onnxruntime_c_api.h in ONNX Runtime's repository)
struct onnxruntime_table {
  using status = void*;
  const char* (*error_message)(const void* status) = nullptr;                                          // 2
  status (*create_env)(int severity, const char* name, void** out) = nullptr;                          // 3
  status (*create_session)(const void* env, const char* path, const void* how, void** out) = nullptr;  // 7
  status (*create_session_from_array)(const void* env, const void* bytes, std::size_t count, const void* how,
                                      void** out) = nullptr;  // 8
  status (*run)(void* session, const void* how, const char* const* input_names, const void* const* inputs,
                std::size_t input_count, const char* const* output_names, std::size_t output_count,
                void** outputs) = nullptr;                                                           // 9
  status (*create_session_options)(void** out) = nullptr;                                            // 10
  status (*set_threads)(void* options, int threads) = nullptr;                                       // 24
  status (*input_count)(const void* session, std::size_t* out) = nullptr;                            // 30
  status (*output_count)(const void* session, std::size_t* out) = nullptr;                           // 31
  status (*input_name)(const void* session, std::size_t k, void* allocator, char** out) = nullptr;   // 36
  status (*output_name)(const void* session, std::size_t k, void* allocator, char** out) = nullptr;  // 37
  status (*create_tensor)(const void* memory, void* data, std::size_t bytes, const std::int64_t* extents,
                          std::size_t rank, int type, void** out) = nullptr;               // 49
  status (*is_tensor)(const void* value, int* out) = nullptr;                              // 50
  status (*data)(void* value, void** out) = nullptr;                                       // 51
  status (*element_type)(const void* info, int* out) = nullptr;                            // 60
  status (*rank)(const void* info, std::size_t* out) = nullptr;                            // 61
  status (*extents)(const void* info, std::int64_t* out, std::size_t rank) = nullptr;      // 62
  status (*type_and_shape)(const void* value, void** info) = nullptr;                      // 65
  status (*create_cpu_memory)(int allocator_type, int memory_type, void** out) = nullptr;  // 69
  status (*free)(void* allocator, void* p) = nullptr;                                      // 76
  status (*default_allocator)(void** out) = nullptr;                                       // 78
  void (*release_env)(void* env) = nullptr;                                                // 92
  void (*release_status)(void* status) = nullptr;                                          // 93
  void (*release_memory)(void* memory) = nullptr;                                          // 94
  void (*release_session)(void* session) = nullptr;                                        // 95
  void (*release_value)(void* value) = nullptr;                                            // 96
  void (*release_info)(void* info) = nullptr;                                              // 99
  void (*release_options)(void* options) = nullptr;                                        // 100
};

/// The library, and its environment, which lasts as long as the process.
struct onnxruntime {
  onnxruntime_table call;
  void *env = nullptr, *memory = nullptr, *allocator = nullptr;
  std::string path, version;
  std::string problem;  ///< why there is none
  bool found() const { return env != nullptr; }
};

namespace detail {

/// Takes a function from its place in the struct.
template <class Function>
void take_entry(const void* const* entries, std::size_t place, Function& out) {
  out = reinterpret_cast<Function>(const_cast<void*>(entries[place]));
}

inline void take_onnxruntime(const void* const* from, onnxruntime_table& t) {
  take_entry(from, 2, t.error_message);
  take_entry(from, 3, t.create_env);
  take_entry(from, 7, t.create_session);
  take_entry(from, 8, t.create_session_from_array);
  take_entry(from, 9, t.run);
  take_entry(from, 10, t.create_session_options);
  take_entry(from, 24, t.set_threads);
  take_entry(from, 30, t.input_count);
  take_entry(from, 31, t.output_count);
  take_entry(from, 36, t.input_name);
  take_entry(from, 37, t.output_name);
  take_entry(from, 49, t.create_tensor);
  take_entry(from, 50, t.is_tensor);
  take_entry(from, 51, t.data);
  take_entry(from, 60, t.element_type);
  take_entry(from, 61, t.rank);
  take_entry(from, 62, t.extents);
  take_entry(from, 65, t.type_and_shape);
  take_entry(from, 69, t.create_cpu_memory);
  take_entry(from, 76, t.free);
  take_entry(from, 78, t.default_allocator);
  take_entry(from, 92, t.release_env);
  take_entry(from, 93, t.release_status);
  take_entry(from, 94, t.release_memory);
  take_entry(from, 95, t.release_session);
  take_entry(from, 96, t.release_value);
  take_entry(from, 99, t.release_info);
  take_entry(from, 100, t.release_options);
}

/// Opens a file; otherwise `problem` says why not.
inline void read_onnxruntime(const std::string& file, onnxruntime& out) {
  struct base {
    const void* const* (*api)(std::uint32_t version);
    const char* (*version)();
  };
  out.problem.clear();
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* const words = ::dlerror();
    out.problem = "cannot be opened: " + std::string(words ? words : file);
    return;
  }
  const auto entry = reinterpret_cast<const base* (*)()>(::dlsym(handle, "OrtGetApiBase"));
  const base* const from = entry ? entry() : nullptr;
  const void* const* const entries = from ? from->api(1) : nullptr;
  if (!entries) {
    out.problem = "is no library of ONNX Runtime";
    ::dlclose(handle);
    return;
  }
  take_onnxruntime(entries, out.call);
  constexpr int nothing_told = 4, device_allocator = 0, default_memory = 0;
  const auto succeeds = [&](void* status) {
    if (status) out.call.release_status(status);
    return !status;
  };
  const bool opened = succeeds(out.call.create_env(nothing_told, "sinter", &out.env)) &&
                      succeeds(out.call.create_cpu_memory(device_allocator, default_memory, &out.memory)) &&
                      succeeds(out.call.default_allocator(&out.allocator));
  if (!opened) {
    // The library stays loaded: it may have threads.
    if (out.memory) out.call.release_memory(out.memory);
    if (out.env) out.call.release_env(out.env);
    out.env = out.memory = out.allocator = nullptr;
    out.problem = "cannot be started";
    return;
  }
  out.path = file;
  out.version = from->version();
}

/// Files that may be the library, in npm's and Python's packages.
SINTER_API series<std::string> onnxruntime_files() {
  series<std::string> out;
#if defined(__aarch64__)
  const std::string processor = "arm64";
#else
  const std::string processor = "x64";
#endif
  const auto add = [&](const std::string& folder) {
    for (auto& file : entries(folder, "libonnxruntime.so")) out.push_back(std::move(file));
  };
  for (const auto& folder : npm_folders())
    for (const auto& binding : entries(folder + "/onnxruntime-node/bin", "napi-")) add(binding + "/linux/" + processor);
  for (const auto& folder : python_folders()) add(folder + "/onnxruntime/capi");
  return out;
}

SINTER_API onnxruntime open_onnxruntime(const std::string& chosen) {
  onnxruntime out;
  if (chosen == "none") {
    out.problem = "SINTER_LIBONNXRUNTIME is none";
    return out;
  }
  if (!chosen.empty()) {
    read_onnxruntime(chosen, out);
    if (!out.found()) out.problem = "SINTER_LIBONNXRUNTIME=" + chosen + " " + out.problem;
    return out;
  }
  for (const char* name : {"libonnxruntime.so.1", "libonnxruntime.so"})
    if (read_onnxruntime(name, out); out.found()) return out;
  for (const auto& file : onnxruntime_files())
    if (read_onnxruntime(file, out); out.found()) return out;
  out.problem = "libonnxruntime.so.1 was not found; SINTER_LIBONNXRUNTIME names the file";
  return out;
}

}  // namespace detail

/// ONNX Runtime: $SINTER_LIBONNXRUNTIME, the system's library, npm's onnxruntime-node, or Python's onnxruntime; "none"
/// prevents the search.
SINTER_API const onnxruntime& onnxruntime_library() {
  static const onnxruntime& found =  // its threads may outlive statics
      *new onnxruntime(detail::open_onnxruntime(detail::environment("SINTER_LIBONNXRUNTIME")));
  return found;
}

}  // namespace sinter::engine::run
