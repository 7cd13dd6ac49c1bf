// run/cuda/program/fft.hpp: Fourier transforms of rows by cuFFT, opened on first use.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <type_traits>

#include "../../../base/series.hpp"
#include "../device/driver.hpp"

namespace sinter::engine::run::cuda {

/// cuFFT by its manual (12.0).
struct fft_table {
  int (*plan)(int* out, int rank, int* n, int* in_embed, int in_stride, int in_distance, int* out_embed, int out_stride,
              int out_distance, int type, int batch) = nullptr;
  int (*destroy)(int plan) = nullptr;
  int (*set_stream)(int plan, api::stream stream) = nullptr;
  int (*single)(int plan, void* in, void* out, int direction) = nullptr;
  int (*twofold)(int plan, void* in, void* out, int direction) = nullptr;
  bool found = false;
};

namespace detail {

SINTER_API fft_table open_fft() {
  // Its major version is one less than CUDA's.
  const auto cuda_major = [](void* handle) {
    const auto version = reinterpret_cast<int (*)(int*)>(::dlsym(handle, "cufftGetVersion"));
    int number = 0;
    return version != nullptr && version(&number) == 0 ? number / 1000 + 1 : 0;
  };
  library_names names{"SINTER_LIBCUFFT", {"libcufft.so.12", "libcufft.so.11", "libcufft.so"}, {"cu13", "cufft"}};
  library found = open_library(names);
  const int most = driver_major();
  if (found.handle != nullptr && most != 0 && cuda_major(found.handle) > most) {
    names.files = {"libcufft.so." + std::to_string(most - 1)};
    found = open_library(names);
    if (found.handle != nullptr && cuda_major(found.handle) > most) return {};
  }
  if (found.handle == nullptr) return {};
  fft_table out;
  out.found = true;
  const auto take = [&](auto& pointer, const char* name) {
    pointer = reinterpret_cast<std::decay_t<decltype(pointer)>>(::dlsym(found.handle, name));
    out.found = out.found && pointer != nullptr;
  };
  take(out.plan, "cufftPlanMany");
  take(out.destroy, "cufftDestroy");
  take(out.set_stream, "cufftSetStream");
  take(out.single, "cufftExecC2C");
  take(out.twofold, "cufftExecZ2Z");
  return out;
}

/// A plan of cuFFT. It has its own work memory, so each stream has one.
struct fft_plan {
  api::context where = nullptr;
  api::stream stream = nullptr;
  bool twofold = false;
  std::int64_t rows = 0, n = 0;
  int handle = 0;

  bool is(const fft_plan& o) const {
    return where == o.where && stream == o.stream && twofold == o.twofold && rows == o.rows && n == o.n;
  }
};

}  // namespace detail

/// cuFFT, opened at the first call; SINTER_LIBCUFFT=none disables it.
SINTER_API const fft_table& fft() {
  static const fft_table& table = *new fft_table([] {
    const char* const chosen = std::getenv("SINTER_LIBCUFFT");
    return chosen != nullptr && std::string(chosen) == "none" ? fft_table{} : detail::open_fft();
  }());
  return table;
}

/// Transforms rows of n complex numbers in the stream's order, without scaling. system_error if cuFFT fails.
SINTER_API void transform_by_library(bool twofold, bool inverse, std::int64_t rows, std::int64_t n, void* in, void* out,
                                     void* stream) {
  static std::mutex mutex;
  static auto& kept = *new series<detail::fft_plan>;
  constexpr std::size_t most = 32;
  const fft_table& call = fft();
  const auto demand = [&](int status, const char* what) {
    if (status != 0)
      throw system_error("cuFFT: " + std::string(what) + " " + std::to_string(rows) + " rows of " + std::to_string(n) +
                         " fails with error " + std::to_string(status) + "; SINTER_LIBCUFFT=none does without it");
  };
  detail::fft_plan wanted{nullptr, static_cast<api::stream>(stream), twofold, rows, n, 0};
  check(driver().context_get(&wanted.where), "asking for the current context");
  const std::lock_guard lock(mutex);
  detail::fft_plan* plan = nullptr;
  for (auto& p : kept)
    if (p.is(wanted)) plan = &p;
  if (plan == nullptr) {
    if (kept.size() >= most) {
      call.destroy(kept[0].handle);
      kept.erase(kept.begin());
    }
    int length = static_cast<int>(n);
    constexpr int complex_type = 0x29, complex_twofold = 0x69;
    demand(call.plan(&wanted.handle, 1, &length, nullptr, 1, length, nullptr, 1, length,
                     twofold ? complex_twofold : complex_type, static_cast<int>(rows)),
           "planning");
    demand(call.set_stream(wanted.handle, wanted.stream), "choosing a stream for");
    kept.push_back(wanted);
    plan = &kept[kept.size() - 1];
  }
  demand((twofold ? call.twofold : call.single)(plan->handle, in, out, inverse ? 1 : -1), "transforming");
}

}  // namespace sinter::engine::run::cuda
