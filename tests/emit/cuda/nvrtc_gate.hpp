// tests/emit/cuda/nvrtc_gate.hpp: NVRTC by dlopen, as a judge of emitted CUDA: does it compile, and into what.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace gate {

/// What NVRTC made of a source.
struct verdict {
  bool compiled = false;
  std::string log;     ///< the compiler's, and ptxas's resource usage
  std::string binary;  ///< CUBIN
};

class nvrtc {
 public:
  nvrtc() {
    std::vector<std::string> names;
    if (const char* given = std::getenv("SINTER_TEST_NVRTC"); given != nullptr && *given != '\0')
      names.emplace_back(given);
    if (const char* home = std::getenv("CUDA_HOME"); home != nullptr && *home != '\0')
      names.push_back(std::string(home) + "/lib64/libnvrtc.so");
    for (const char* n : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"})
      names.emplace_back(n);
    for (const auto& n : names)
      if ((library_ = ::dlopen(n.c_str(), RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
    if (library_ == nullptr) return;
    find(create_, "nvrtcCreateProgram");
    find(compile_, "nvrtcCompileProgram");
    find(destroy_, "nvrtcDestroyProgram");
    find(log_size_, "nvrtcGetProgramLogSize");
    find(log_, "nvrtcGetProgramLog");
    find(size_, "nvrtcGetCUBINSize");
    find(binary_, "nvrtcGetCUBIN");
  }
  bool present() const { return library_ != nullptr && binary_ != nullptr; }

  /// Compiles for a capability, 80 or 90.
  verdict judge(const std::string& source, int capability) const {
    // What NVRTC takes from its own cache comes without ptxas's words; an older one has no cache, nor the option.
    constexpr int invalid_option = 5;
    verdict v;
    if (attempt(source, capability, 5, v) == invalid_option) attempt(source, capability, 4, v);
    return v;
  }

 private:
  int attempt(const std::string& source, int capability, int count, verdict& v) const {
    void* program = nullptr;
    if (const int r = create_(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr)) return r;
    const std::string arch = "--gpu-architecture=sm_" + std::to_string(capability);
    const char* const options[] = {arch.c_str(), "--std=c++17", "--fmad=false", "--ptxas-options=-v", "--no-cache"};
    const int result = compile_(program, count, options);
    v.compiled = result == 0;
    std::size_t n = 0;
    log_size_(program, &n);
    v.log.resize(n);
    log_(program, v.log.data());
    if (v.compiled) {
      size_(program, &n);
      v.binary.resize(n);
      binary_(program, v.binary.data());
    }
    destroy_(&program);
    return result;
  }

  template <class F>
  void find(F*& f, const char* name) {
    f = reinterpret_cast<F*>(::dlsym(library_, name));
  }

  void* library_ = nullptr;
  int (*create_)(void**, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile_)(void*, int, const char* const*) = nullptr;
  int (*destroy_)(void**) = nullptr;
  int (*log_size_)(void*, std::size_t*) = nullptr;
  int (*log_)(void*, char*) = nullptr;
  int (*size_)(void*, std::size_t*) = nullptr;
  int (*binary_)(void*, char*) = nullptr;
};

}  // namespace gate
