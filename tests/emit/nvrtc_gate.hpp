// tests/emit/nvrtc_gate.hpp: NVRTC by dlopen, as a judge of emitted CUDA: does it compile, and into what.
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
    if (const char* given = std::getenv("SINTER_LIBNVRTC"); given != nullptr && *given != '\0')
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
    verdict v;
    void* program = nullptr;
    if (create_(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr) != 0) return v;
    const std::string arch = "--gpu-architecture=sm_" + std::to_string(capability);
    const char* const options[] = {arch.c_str(), "--std=c++17", "--ptxas-options=-v"};
    v.compiled = compile_(program, 3, options) == 0;
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
    return v;
  }

 private:
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
