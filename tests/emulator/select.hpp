// tests/emulator/select.hpp: which CUDA a test program meets: the emulated one, or with SINTER_TEST_GPU=1 the real one.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emulator {

/// True when this run is meant for a real GPU.
inline bool real() { return std::getenv("SINTER_TEST_GPU") != nullptr; }

/// True when the driver finds a GPU.
inline bool gpu_present() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return false;
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  return init != nullptr && count != nullptr && init(0) == 0 && count(&devices) == 0 && devices > 0;
}

inline constexpr int skipped = 77;

/// Chooses the libraries. Returns `skipped`, or 1 with SINTER_TEST_GPU=required, when a real GPU is wanted and there is
/// none; else 0.
inline int select() {
#if defined(SINTER_TEST_EMULATOR)
  if (!real()) {
    ::setenv("SINTER_LIBCUDA", SINTER_TEST_EMULATOR "/libcuda.so", 0);
    ::setenv("SINTER_LIBNVRTC", SINTER_TEST_EMULATOR "/libnvrtc.so", 0);
    ::setenv("SINTER_LIBCUBLASLT", SINTER_TEST_EMULATOR "/libcublasLt.so", 0);
    return 0;
  }
#endif
  if (!real() || gpu_present()) return 0;
  std::fputs("SKIPPED: no GPU was found on this machine; these tests ran on the emulator only\n", stderr);
  return std::strcmp(std::getenv("SINTER_TEST_GPU"), "required") == 0 ? 1 : skipped;
}

}  // namespace emulator
