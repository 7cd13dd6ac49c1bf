// emit/cuda/choose.hpp: the kernel that selects a branch of a CUDA graph, and the end of a loop.
#pragma once

namespace sinter::engine::emit {

/// choose(test, yes, no) sets the condition `yes` to the bool at test, and `no`, if it differs, to the opposite. NVRTC knows
/// cudaGraphSetConditional without a header, and the driver without a library.
inline constexpr const char* choose_source = R"(
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned int value);
extern "C" __global__ void choose(const unsigned char* test, unsigned long long yes, unsigned long long no) {
  const bool chosen = *test != 0;
  cudaGraphSetConditional(yes, chosen);
  if (no != yes) cudaGraphSetConditional(no, !chosen);
}
)";

}  // namespace sinter::engine::emit
