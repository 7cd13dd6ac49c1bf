// tests/emulator/cublas.cpp: a stand-in for libcublas.so: triangular systems by substitution, in the stream's order.
#include <cstddef>
#include <vector>

#include "enqueue.hpp"
#include "memory.hpp"

namespace {

struct handle {
  void* stream = nullptr;
};

/// One system: op(a)·x = alpha·b from the left, x·op(a) = alpha·b from the right.
struct system {
  int side, half, transposed, diagonal;
  std::size_t m, n, ld, ldb;
};

template <class T>
void solve(const system& s, T alpha, const T* a, T* b) {
  const std::size_t k = s.side == 0 ? s.m : s.n, others = s.side == 0 ? s.n : s.m;
  // t[i][j] of t·x = b: the right side's system is that of the transposes.
  const bool flipped = (s.transposed != 0) != (s.side == 1);
  const auto t = [&](std::size_t i, std::size_t j) { return flipped ? a[i * s.ld + j] : a[j * s.ld + i]; };
  const bool lower = (s.half == 0) != flipped;
  for (std::size_t c = 0; c < others; ++c) {
    const auto x = [&](std::size_t i) -> T& { return s.side == 0 ? b[c * s.ldb + i] : b[i * s.ldb + c]; };
    for (std::size_t step = 0; step < k; ++step) {
      const std::size_t i = lower ? step : k - 1 - step;
      T sum = alpha * x(i);
      for (std::size_t j = lower ? 0 : i + 1; j < (lower ? i : k); ++j) sum -= t(i, j) * x(j);
      x(i) = s.diagonal == 1 ? sum : sum / t(i, i);
    }
  }
}

template <class T>
int trsm(void* h, int side, int half, int transposed, int diagonal, int m, int n, const T* alpha, const T* a, int ld,
         T* b, int ldb) {
  const int k = side == 0 ? m : n;
  if (h == nullptr) return 1;
  if (m < 0 || n < 0 || ld < k || ldb < m || side < 0 || side > 1 || half < 0 || half > 1) return 7;
  if (emulator::number("SINTER_EMULATOR_SOLVER", 0) != 0) return 13;
  const auto u = [](int x) { return static_cast<std::size_t>(x); };
  const system s{side, half, transposed, diagonal, u(m), u(n), u(ld), u(ldb)};
  const auto run = [s, by = *alpha, a, b] { solve(s, by, a, b); };
  return emulator::enqueue(static_cast<handle*>(h)->stream, run) == 0 ? 0 : 14;
}

}  // namespace

#define SINTER_EXPORT extern "C" __attribute__((visibility("default")))

SINTER_EXPORT int cublasGetProperty(int which, int* value) {
  return *value = which == 0 ? emulator::library_major() : 0, 0;
}
SINTER_EXPORT int cublasCreate_v2(void** out) { return *out = new handle, 0; }
SINTER_EXPORT int cublasSetStream_v2(void* h, void* stream) { return static_cast<handle*>(h)->stream = stream, 0; }
SINTER_EXPORT int cublasStrsm_v2(void* h, int side, int half, int transposed, int diagonal, int m, int n,
                                 const float* alpha, const float* a, int ld, float* b, int ldb) {
  return trsm(h, side, half, transposed, diagonal, m, n, alpha, a, ld, b, ldb);
}
SINTER_EXPORT int cublasDtrsm_v2(void* h, int side, int half, int transposed, int diagonal, int m, int n,
                                 const double* alpha, const double* a, int ld, double* b, int ldb) {
  return trsm(h, side, half, transposed, diagonal, m, n, alpha, a, ld, b, ldb);
}
