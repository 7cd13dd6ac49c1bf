// tests/emulator/enqueue.hpp: how the stand-ins of libraries have work done in the order of a stream of the emulated driver.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <functional>
#include <utility>

namespace emulator {

/// 0, or an error of the driver.
inline int enqueue(void* stream, std::function<void()> what) {
  using enqueue_function = int(void* stream, void (*run)(void*), void* data, void (*release)(void*));
  static enqueue_function* const ask = [] {
    const char* const driver = std::getenv("SINTER_LIBCUDA");
    void* const opened = driver != nullptr ? ::dlopen(driver, RTLD_NOW | RTLD_NOLOAD) : nullptr;
    return reinterpret_cast<enqueue_function*>(opened != nullptr ? ::dlsym(opened, "sinterEnqueue") : nullptr);
  }();
  if (ask == nullptr) return 1;
  using work = std::function<void()>;
  auto* const kept = new work(std::move(what));
  const auto run = [](void* data) { (*static_cast<work*>(data))(); };
  const auto release = [](void* data) { delete static_cast<work*>(data); };
  return ask(stream, run, kept, release);
}

/// Work that waits for other processes: it runs once `ready` says so, and streams that wait for it wait.
inline int enqueue_when_ready(void* stream, std::function<bool()> ready, std::function<void()> what) {
  using enqueue_function =
      int(void* stream, int (*ready)(void*), void (*run)(void*), void* data, void (*release)(void*));
  static enqueue_function* const ask = [] {
    const char* const driver = std::getenv("SINTER_LIBCUDA");
    void* const opened = driver != nullptr ? ::dlopen(driver, RTLD_NOW | RTLD_NOLOAD) : nullptr;
    return reinterpret_cast<enqueue_function*>(opened != nullptr ? ::dlsym(opened, "sinterEnqueueWhenReady") : nullptr);
  }();
  if (ask == nullptr) return 1;
  using work = std::pair<std::function<bool()>, std::function<void()>>;
  auto* const kept = new work(std::move(ready), std::move(what));
  const auto is_ready = [](void* data) { return static_cast<int>(static_cast<work*>(data)->first()); };
  const auto run = [](void* data) { static_cast<work*>(data)->second(); };
  const auto release = [](void* data) { delete static_cast<work*>(data); };
  return ask(stream, is_ready, run, kept, release);
}

}  // namespace emulator
