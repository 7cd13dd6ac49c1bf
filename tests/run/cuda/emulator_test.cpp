// The emulated GPU itself: what it computes, and what it refuses to overlook.
#include <doctest/doctest.h>

#include <cmath>

#include "support.hpp"

using namespace sinter;
using namespace support;

namespace {

/// What a kernel of one int* leaves there, or what goes wrong: each in a process of its own, since an error is for good.
std::string outcome_of(const std::string& body, int threads, int words = 64) {
  const auto r = in_child([&] {
    const storage out = on_gpu(std::vector<int>(static_cast<std::size_t>(words), 0));
    void* const given[] = {out.data()};
    const auto code = module_of("extern \"C\" __global__ void k(int* out, char* scratch) {" + body + "}");
    cuda::execute(one_launch(code, "k", {{0, 0}}, 1, threads), given, nullptr);
    std::string text;
    for (const int x : on_host<int>(out, static_cast<std::size_t>(words))) text += std::to_string(x) + " ";
    std::fprintf(stderr, "result: %s\n", text.c_str());
    return 0;
  });
  return r.error_text;
}

bool begins(const std::string& text, const std::string& numbers) { return contains(text, "result: " + numbers + " "); }

}  // namespace

TEST_CASE("warps exchange values, whatever their order") {
  if (cuda::driver_alive()) return;
  CHECK(begins(outcome_of("out[threadIdx.x] = __shfl_down_sync(0xffffffffu, (int)threadIdx.x, 1);", 64),
               "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 31 33"));
  CHECK(begins(outcome_of("out[threadIdx.x] = __shfl_up_sync(0xffffffffu, (int)threadIdx.x, 2, 8);", 32),
               "0 1 0 1 2 3 4 5 8 9 8"));
  CHECK(begins(outcome_of("out[threadIdx.x] = __shfl_sync(0xffffffffu, (int)threadIdx.x, 3, 8);", 32),
               "3 3 3 3 3 3 3 3 11"));
  CHECK(
      begins(outcome_of("out[threadIdx.x] = __popc(__ballot_sync(0xffffffffu, threadIdx.x % 3 == 0));", 32), "11 11"));
  CHECK(begins(outcome_of("if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xffffu, (int)threadIdx.x, 5);"
                          "else out[threadIdx.x] = __shfl_xor_sync(0xffff0000u, (int)threadIdx.x, 1);",
                          32),
               "5 4 7 6 1 0 3 2 13 12 15 14 9 8 11 10 17 16"));
}

TEST_CASE("barriers, shared memory and atomics") {
  if (cuda::driver_alive()) return;
  CHECK(begins(outcome_of("__shared__ int s[64]; s[threadIdx.x] = (int)threadIdx.x; __syncthreads();"
                          "out[threadIdx.x] = s[63 - threadIdx.x];",
                          64),
               "63 62 61"));
  CHECK(begins(outcome_of("out[threadIdx.x] = __syncthreads_count(threadIdx.x > 9);", 64), "54 54"));
  CHECK(begins(outcome_of("atomicAdd(out, (int)threadIdx.x); atomicMax(out + 1, (int)threadIdx.x);", 64), "2016 63 0"));
  // Threads that are done are not waited for.
  CHECK(begins(outcome_of("if (threadIdx.x > 5) return; __syncthreads(); out[threadIdx.x] = 4;", 64), "4 4 4 4 4 4 0"));
}

TEST_CASE("what a GPU may overlook is found") {
  if (emulator::real() || cuda::driver_alive()) return;
  const auto found = [](const std::string& body, const std::string& words) {
    const std::string text = outcome_of(body, 64);
    CHECK_MESSAGE(contains(text, words), text);
  };
  found("if (threadIdx.x < 32) __syncthreads();\nelse\n__syncthreads();", "barrier divergence");
  found("if (threadIdx.x % 2) __syncwarp();", "barrier divergence");
  found("if (threadIdx.x % 2) out[0] = __shfl_xor_sync(0x55555555u, 1, 2);", "that does not name it");
  found("out[0] = __shfl_sync(__activemask() & 0xffff, (int)threadIdx.x, 20);", "that does not name it, or reads");
  found("*(int4*)(out + 1) = make_int4(1, 2, 3, 4);", "a misaligned access");
  found("__shared__ int s[8]; s[threadIdx.x + 1] = 3; out[0] = s[threadIdx.x];", "an index outside of an array");
  found("*(volatile int*)0 = 3;", "an access outside of memory");
  found("out[threadIdx.x] = 3 / out[0];", "an integer division by zero");
}

TEST_CASE("an access past a tensor's end is found when each has its own allocation") {
  if (emulator::real() || cuda::driver_alive()) return;
  const variable own("SINTER_CUDA_NO_CACHE", "1");
  CHECK(contains(outcome_of("if (threadIdx.x == 0) out[64] = 3;", 64), "an access outside of memory"));
  CHECK(contains(outcome_of("if (threadIdx.x == 0) out[-1] = 3;", 64), "memory outside of an allocation was written"));
  CHECK(contains(outcome_of("if (threadIdx.x == 0) out[62] = 3;", 64, 62),
                 "memory outside of an allocation was written"));
}

TEST_CASE("shared memory and fresh memory hold no zeroes by chance") {
  if (cuda::driver_alive() || emulator::real()) return;
  const int poison = static_cast<int>(0xCBCBCBCBu);
  CHECK(begins(outcome_of("__shared__ int s[64]; out[threadIdx.x] = s[threadIdx.x];", 64), std::to_string(poison)));
}

TEST_CASE("pointers to the host's memory, or to freed memory, are no parameters") {
  if (cuda::driver_alive() || emulator::real()) return;
  const auto r = in_child([] {
    int host = 0;
    void* const given[] = {&host};
    const auto code = module_of("extern \"C\" __global__ void k(int* out, char* scratch) { *out = 1; }");
    cuda::execute(one_launch(code, "k", {{0, 0}}, 1, 1), given, nullptr);
    cuda::synchronize(0);
    return 0;
  });
  CHECK(contains(r.error_text, "k: parameter 0 points to memory that is not the device's, or was freed"));
}
