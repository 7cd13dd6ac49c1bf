// tests/emulator/cufft.cpp: a stand-in for libcufft.so: transforms of rows by their definition, in the stream's order.

#include <cmath>
#include <complex>
#include <cstdint>
#include <mutex>
#include <vector>

#include "enqueue.hpp"
#include "memory.hpp"

namespace {

using number = std::complex<double>;

struct plan {
  std::int64_t n = 0, rows = 0;
  int type = 0;
  void* stream = nullptr;
};

std::mutex lock;
std::vector<plan> plans;

std::vector<number> transformed(const std::vector<number>& x, int sign) {
  const std::size_t n = x.size(), r = n % 2 == 0 ? 2 : n, m = n / r;
  std::vector<std::vector<number>> parts(r, std::vector<number>(m));
  for (std::size_t j = 0; j < r; ++j) {
    for (std::size_t i = 0; i < m; ++i) parts[j][i] = x[i * r + j];
    if (m > 1) parts[j] = transformed(parts[j], sign);
  }
  std::vector<number> y(n);
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t j = 0; j < r; ++j)
      y[k] += parts[j][k % m] *
              std::polar(1.0, sign * 2 * 3.141592653589793 * static_cast<double>(j * k % n) / static_cast<double>(n));
  return y;
}

template <class T>
void run_plan(const plan& p, const void* in, void* out, int sign) {
  const auto* const from = static_cast<const std::complex<T>*>(in);
  auto* const to = static_cast<std::complex<T>*>(out);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const auto y = transformed(std::vector<number>(from + row * p.n, from + (row + 1) * p.n), sign);
    for (std::int64_t k = 0; k < p.n; ++k) to[row * p.n + k] = std::complex<T>(y[static_cast<std::size_t>(k)]);
  }
}

int execute(int handle, void* in, void* out, int sign, int type) {
  const std::lock_guard guard(lock);
  if (handle < 0 || static_cast<std::size_t>(handle) >= plans.size()) return 1;
  const plan p = plans[static_cast<std::size_t>(handle)];
  if (p.type != type) return 3;
  const auto work = [=] {
    if (type == 0x29) run_plan<float>(p, in, out, sign);
    else run_plan<double>(p, in, out, sign);
  };
  return emulator::enqueue(p.stream, work) == 0 ? 0 : 6;
}

}  // namespace

#define SINTER_EXPORT extern "C" __attribute__((visibility("default")))

SINTER_EXPORT int cufftGetVersion(int* version) { return *version = (emulator::library_major() - 1) * 1000, 0; }
SINTER_EXPORT int cufftPlanMany(int* out, int rank, int* n, int* in_embed, int in_stride, int in_distance, int*, int,
                                int, int type, int batch) {
  if (rank != 1 || in_embed != nullptr || in_stride != 1 || in_distance != *n || *n < 1 || batch < 1) return 4;
  const std::lock_guard guard(lock);
  plans.push_back({*n, batch, type});
  return *out = static_cast<int>(plans.size()) - 1, 0;
}
SINTER_EXPORT int cufftDestroy(int) { return 0; }
SINTER_EXPORT int cufftSetStream(int handle, void* stream) {
  const std::lock_guard guard(lock);
  return plans[static_cast<std::size_t>(handle)].stream = stream, 0;
}
SINTER_EXPORT int cufftExecC2C(int handle, void* in, void* out, int sign) {
  return execute(handle, in, out, sign, 0x29);
}
SINTER_EXPORT int cufftExecZ2Z(int handle, void* in, void* out, int sign) {
  return execute(handle, in, out, sign, 0x69);
}
