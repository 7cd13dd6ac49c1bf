// tests/run/cuda/support.hpp: kernels and calls of them for the tests of run/cuda_*.
#pragma once

#include <sinter/emit/prelude/cuda.hpp>
#include <sinter/run/cuda/device/copy.hpp>
#include <sinter/run/cuda/program/nvrtc.hpp>
#include <sinter/run/cuda/program/program.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "../../emulator/select.hpp"
#include "../support.hpp"

namespace support {

namespace cuda = sinter::engine::run::cuda;
using sinter::device;

inline std::shared_ptr<const cuda::module> module_of(const std::string& source, int where = 0) {
  return cuda::build(std::vector<std::string>{source}, where)[0].code;
}

/// out[i] = in[i] * scale + i for n elements.
inline const std::string scale_source = R"(
extern "C" __global__ void scale(float* out, const float* in, float factor, char* scratch, long n) {
  const long i = blockIdx.x * 128l + threadIdx.x;
  if (i < n) out[i] = in[i] * factor + (float)i;
}
)";

/// out[i] = a[i] * 3 + b[i] for n elements; `first` and `then` stand before a is read, and after.
inline std::string adds_source(const std::string& first, const std::string& then = "") {
  return std::string(sinter::engine::emit::prelude_cuda_core) +
         "extern \"C\" __global__ void adds(float* out, const float* a, const float* b, char* scratch, long n) {" +
         first + "const long i = blockIdx.x * 128l + threadIdx.x; const float x = i < n ? a[i] : 0;" + then +
         "if (i < n) out[i] = x * 3 + b[i]; }";
}
inline const std::string awaits = "sx::await_grids();";

template <class T>
sinter::storage on_gpu(const std::vector<T>& values, int where = 0) {
  sinter::storage s = cuda::allocate(values.size() * sizeof(T), where);
  cuda::copy(s.data(), device::cuda(where), values.data(), device::cpu(), values.size() * sizeof(T));
  return s;
}

template <class T>
std::vector<T> on_host(const sinter::storage& s, std::size_t count) {
  std::vector<T> out(count);
  cuda::copy(out.data(), device::cpu(), s.data(), s.where(), count * sizeof(T));
  return out;
}

/// A sequence of one launch of `entry`, whose operands are the given addresses in order.
inline cuda::sequence one_launch(std::shared_ptr<const cuda::module> code, const std::string& entry,
                                 std::vector<cuda::operand> operands, std::int64_t blocks, int threads, int sizes = 0,
                                 int shared = 0) {
  cuda::sequence s;
  s.device = code->where().index;
  s.sizes = sizes;
  s.steps.push_back(cuda::make_launch(code, entry, blocks, threads, shared, cuda::label(entry + " (at model.cpp:12)")));
  for (const auto& o : operands) s.given = std::max(s.given, o.index + 1);
  s.steps.back().operands = std::move(operands);
  return s;
}

inline cuda::sequence scale_sequence(std::int64_t n, int where = 0) {
  // Kept: unloading a module waits for the GPU, which would hide what does not wait.
  static const auto kept = module_of(scale_source);
  return one_launch(module_of(scale_source, where), "scale", {{0, 0}, {1, 0}, {2, 4}}, (n + 127) / 128, 128, 1);
}

/// What a call throws; "" when nothing.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const sinter::error& e) {
    return e.what();
  }
  return "";
}

}  // namespace support
