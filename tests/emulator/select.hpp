// tests/emulator/select.hpp: which CUDA a test program meets: the emulated one, or with SINTER_TEST_GPU=1 the real one.
#pragma once

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "../paths.hpp"

namespace emulator {

/// True when this run is meant for a real GPU.
inline bool real() { return std::getenv("SINTER_TEST_GPU") != nullptr; }

inline bool driver_finds_gpu() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return false;
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  return init != nullptr && count != nullptr && init(0) == 0 && count(&devices) == 0 && devices > 0;
}

/// True when the driver finds a GPU. Asked in a child: tests fork, and a parent that started CUDA spoils it for them.
inline bool gpu_present() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(driver_finds_gpu() ? 0 : 1);
  int status = 1;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

inline constexpr int skipped = 77;

/// Chooses the libraries. Returns `skipped`, or 1 with SINTER_TEST_GPU=required, when a real GPU is wanted and there is
/// none; else 0. With SINTER_TEST_GPU=assumed nobody looks: a child that starts CUDA would wait for compute-sanitizer.
inline int select() {
  if (!real()) {
    ::setenv("SINTER_LIBCUDA", (test_paths::emulator + "/libcuda.so").c_str(), 0);
    ::setenv("SINTER_LIBNVRTC", (test_paths::emulator + "/libnvrtc.so").c_str(), 0);
    ::setenv("SINTER_LIBCUBLASLT", (test_paths::emulator + "/libcublasLt.so").c_str(), 0);
    ::setenv("SINTER_LIBCUFFT", (test_paths::emulator + "/libcufft.so").c_str(), 0);
    ::setenv("SINTER_LIBCUSOLVER", (test_paths::emulator + "/libcusolver.so").c_str(), 0);
    ::setenv("SINTER_LIBCUBLAS", (test_paths::emulator + "/libcublas.so").c_str(), 0);
    ::setenv("SINTER_LIBCUDNN", (test_paths::emulator + "/libcudnn.so").c_str(), 0);
    ::setenv("SINTER_EMULATOR_DEVICES", "2", 0);
    return 0;
  }
  if (!real() || std::strcmp(std::getenv("SINTER_TEST_GPU"), "assumed") == 0 || gpu_present()) return 0;
  std::fputs("SKIPPED: no GPU was found on this machine; these tests ran on the emulator only\n", stderr);
  return std::strcmp(std::getenv("SINTER_TEST_GPU"), "required") == 0 ? 1 : skipped;
}

}  // namespace emulator
