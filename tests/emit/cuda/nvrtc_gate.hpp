// tests/emit/cuda/nvrtc_gate.hpp: NVRTC by dlopen, as a judge of emitted CUDA: does it compile, and into what.
#pragma once

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

namespace gate {

/// What NVRTC made of a source.
struct verdict {
  bool compiled = false;
  std::string log;     ///< the compiler's, and ptxas's resource usage
  std::string binary;  ///< CUBIN
};

/// Verdicts on sources that compile, kept in $SINTER_EMULATOR_CACHE for other builds of the tests.
class kept_verdict {
 public:
  /// Of what `key` says in full.
  explicit kept_verdict(std::string key) : key_(std::move(key)) {
    if (const char* folder = std::getenv("SINTER_EMULATOR_CACHE"); folder != nullptr && *folder != '\0')
      path_ = std::string(folder) + "/nvrtc" + std::to_string(std::hash<std::string>()(key_));
  }

  bool find(verdict& v) const {
    if (path_.empty()) return false;
    std::ifstream in(path_, std::ios::binary);
    std::size_t key = 0, log = 0, binary = 0;
    if (!(in >> key >> log >> binary) || in.get() != '\n') return false;
    const std::string rest(std::istreambuf_iterator<char>(in), {});
    if (rest.size() != key + log + binary || rest.substr(0, key) != key_) return false;
    v = {true, rest.substr(key, log), rest.substr(key + log)};
    return true;
  }

  void keep(const verdict& v) const {
    if (path_.empty() || !v.compiled) return;
    const std::string whole = path_ + "." + std::to_string(::getpid());
    std::ofstream out(whole, std::ios::binary);
    out << key_.size() << ' ' << v.log.size() << ' ' << v.binary.size() << '\n' << key_ << v.log << v.binary;
    out.close();
    if (out) std::rename(whole.c_str(), path_.c_str());
  }

 private:
  std::string key_, path_;
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
    Dl_info from{};
    struct stat file {};
    if (::dladdr(reinterpret_cast<void*>(create_), &from) != 0 && ::stat(from.dli_fname, &file) == 0)
      identity_ =
          std::string(from.dli_fname) + " " + std::to_string(file.st_size) + " " + std::to_string(file.st_mtime);
  }
  bool present() const { return library_ != nullptr && binary_ != nullptr; }

  /// Compiles for a capability, 80 or 90; for 90a if the text has words of that chip alone.
  verdict judge(const std::string& source, int capability) const {
    // What NVRTC takes from its own cache comes without ptxas's words; an older one has no cache, nor the option.
    constexpr int invalid_option = 5;
    verdict v;
    std::string key = identity_ + " " + architecture(source, capability);
    for (const char* const s : settings) key.append(" ").append(s);
    const kept_verdict kept(key + "\n" + source);
    if (kept.find(v)) return v;
    if (attempt(source, capability, 5, v) == invalid_option) attempt(source, capability, 4, v);
    kept.keep(v);
    return v;
  }

 private:
  static std::string architecture(const std::string& source, int capability) {
    const bool own = source.find("wgmma.mma_async") != std::string::npos;
    return "sm_" + std::to_string(capability) + (own ? "a" : "");
  }
  int attempt(const std::string& source, int capability, int count, verdict& v) const {
    void* program = nullptr;
    if (const int r = create_(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr)) return r;
    const std::string arch = "--gpu-architecture=" + architecture(source, capability);
    std::vector<const char*> options = {arch.c_str()};
    for (const char* const s : settings) options.push_back(s);
    const int result = compile_(program, count, options.data());
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

  /// The last is left out where NVRTC has no such option.
  static constexpr const char* settings[] = {"--std=c++17", "--fmad=false", "--ptxas-options=-v", "--no-cache"};

  std::string identity_;  ///< which NVRTC this is
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
