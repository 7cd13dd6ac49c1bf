// tests/emulator/cublasLt.cpp: a stand-in for libcublasLt.so: column-major products with epilogues, in the stream's order.
//
// SINTER_EMULATOR_BLAS=refuse  finds no algorithm for any product; fail: finds one that fails
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "elements.hpp"
#include "enqueue.hpp"
#include "memory.hpp"

namespace {

using emulator::read;
using emulator::write;

struct layout {
  int type;
  std::uint64_t rows, columns;
  std::int64_t ld;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};
struct descriptor {
  int compute, scale;
  std::int32_t transpose_a = 0, transpose_b = 0, epilogue = 1;
  const void* bias = nullptr;
};
struct heuristic {
  std::uint64_t algorithm[8];
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

double finish(double x, int epilogue) {
  if (epilogue & 2) return x > 0 || x != x ? x : 0;
  if (epilogue & 32) return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  return x;
}

/// An operand's element as the product takes it: f32 is rounded to ten bits where that may be (CUBLAS_COMPUTE_32F_FAST_TF32).
double operand(const descriptor& d, const void* p, int type, std::int64_t i) {
  const double x = read(p, type, i);
  if (d.compute != 77 || type != 0 || !std::isfinite(x)) return x;
  return static_cast<double>(
      std::bit_cast<float>((std::bit_cast<std::uint32_t>(static_cast<float>(x)) + 0x1000u) & ~0x1fffu));
}

void multiply(const descriptor& d, const void* a, const layout& la, const void* b, const layout& lb, void* out,
              const layout& lo) {
  const auto m = static_cast<std::int64_t>(lo.rows), n = static_cast<std::int64_t>(lo.columns);
  const auto k = static_cast<std::int64_t>(d.transpose_a ? la.rows : la.columns);
  for (std::int64_t i = 0; i < lo.batch; ++i)
    for (std::int64_t r = 0; r < m; ++r)
      for (std::int64_t c = 0; c < n; ++c) {
        double sum = 0;
        for (std::int64_t j = 0; j < k; ++j)
          sum += operand(d, a, la.type, i * la.stride + (d.transpose_a ? r * la.ld + j : j * la.ld + r)) *
                 operand(d, b, lb.type, i * lb.stride + (d.transpose_b ? j * lb.ld + c : c * lb.ld + j));
        if (d.epilogue & 4) sum += read(d.bias, lo.type, r);
        write(out, lo.type, i * lo.stride + c * lo.ld + r, finish(sum, d.epilogue));
      }
}

/// Bytes from the first element to behind the last one.
std::int64_t bytes_of(const layout& l) {
  const std::int64_t size = l.type == 0 ? 4 : l.type == 1 ? 8 : 2;
  return ((l.batch - 1) * l.stride + (static_cast<std::int64_t>(l.columns) - 1) * l.ld +
          static_cast<std::int64_t>(l.rows)) *
         size;
}

bool told_to(const char* what) {
  const char* const value = std::getenv("SINTER_EMULATOR_BLAS");
  return value != nullptr && std::string(value) == what;
}

}  // namespace

#define SINTER_EXPORT extern "C" __attribute__((visibility("default")))

SINTER_EXPORT std::size_t cublasLtGetVersion() { return static_cast<std::size_t>(emulator::library_major()) * 10000; }
SINTER_EXPORT int cublasLtCreate(void** handle) { return *handle = new int, 0; }
SINTER_EXPORT const char* cublasLtGetStatusString(int status) {
  return status == 0    ? "success"
         : status == 13 ? "CUBLAS_STATUS_EXECUTION_FAILED"
         : status == 15 ? "CUBLAS_STATUS_NOT_SUPPORTED"
                        : "CUBLAS_STATUS_INVALID_VALUE";
}
SINTER_EXPORT int cublasLtMatrixLayoutCreate(layout** out, int type, std::uint64_t rows, std::uint64_t columns,
                                             std::int64_t ld) {
  if (rows == 0 || columns == 0 || ld < static_cast<std::int64_t>(rows)) return 7;
  return *out = new layout{type, rows, columns, ld}, 0;
}
SINTER_EXPORT int cublasLtMatrixLayoutDestroy(layout* l) { return delete l, 0; }
SINTER_EXPORT int cublasLtMatrixLayoutSetAttribute(layout* l, int attribute, const void* value, std::size_t bytes) {
  if (attribute == 5 && bytes == 4) return std::memcpy(&l->batch, value, bytes), 0;
  if (attribute == 6 && bytes == 8) return std::memcpy(&l->stride, value, bytes), 0;
  return 7;
}
SINTER_EXPORT int cublasLtMatmulDescCreate(descriptor** out, int compute, int scale) {
  *out = new descriptor;
  (*out)->compute = compute;
  (*out)->scale = scale;
  return 0;
}
SINTER_EXPORT int cublasLtMatmulDescDestroy(descriptor* d) { return delete d, 0; }
SINTER_EXPORT int cublasLtMatmulDescSetAttribute(descriptor* d, int attribute, const void* value, std::size_t bytes) {
  void* const to = attribute == 3   ? static_cast<void*>(&d->transpose_a)
                   : attribute == 4 ? &d->transpose_b
                   : attribute == 7 ? &d->epilogue
                   : attribute == 8 ? static_cast<void*>(&d->bias)
                                    : nullptr;
  if (to == nullptr || bytes != (attribute == 8 ? 8u : 4u)) return 7;
  return std::memcpy(to, value, bytes), 0;
}
SINTER_EXPORT int cublasLtMatmulPreferenceCreate(void** out) { return *out = new int, 0; }
SINTER_EXPORT int cublasLtMatmulPreferenceDestroy(void* p) { return delete static_cast<int*>(p), 0; }
SINTER_EXPORT int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, std::size_t) { return 0; }
SINTER_EXPORT int cublasLtMatmulAlgoGetHeuristic(void*, descriptor* d, layout* a, layout* b, layout* c, layout* out,
                                                 void*, int wanted, heuristic* results, int* found) {
  *found = 0;
  if (told_to("refuse")) return 15;
  const std::uint64_t m = d->transpose_a ? a->columns : a->rows, k = d->transpose_a ? a->rows : a->columns;
  const std::uint64_t k2 = d->transpose_b ? b->columns : b->rows, n = d->transpose_b ? b->rows : b->columns;
  if (k != k2 || m != out->rows || n != out->columns || c != out || a->type != b->type) return 7;
  if (d->compute == 70 && d->epilogue != 1) return 15;
  results[0] = {};
  results[0].workspace = 1024;
  *found = wanted < 2 ? 1 : 2;
  if (*found == 2) results[1] = {};
  return 0;
}
SINTER_EXPORT int cublasLtMatmul(void*, descriptor* d, const void*, const void* a, layout* la, const void* b,
                                 layout* lb, const void*, const void*, layout*, void* out, layout* lo, const void*,
                                 void* workspace, std::size_t bytes, void* stream) {
  if (told_to("fail")) return 13;
  if (bytes > 0 && workspace == nullptr) return 7;
  if ((d->epilogue & 4) && d->bias == nullptr) return 7;
  // An algorithm may store before it reads the bias.
  const auto *const bias = static_cast<const char*>(d->bias), *const first = static_cast<const char*>(out);
  if ((d->epilogue & 4) && bias >= first && bias < first + bytes_of(*lo)) return 7;
  const auto work = [=, d = *d, la = *la, lb = *lb, lo = *lo] {
    std::memset(workspace, 0xCD, bytes);
    multiply(d, a, la, b, lb, out, lo);
  };
  return emulator::enqueue(stream, work) == 0 ? 0 : 13;
}
