#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

#include "../support.hpp"

using namespace sinter;
using namespace support;

TEST_CASE("a kernel is compiled, loaded, launched, and its result copied back") {
  const std::int64_t n = 1000;
  std::vector<float> in(n);
  std::iota(in.begin(), in.end(), 1.0f);
  const storage a = on_gpu(in), out = cuda::allocate(n * 4, 0);
  CHECK(a.where() == device::cuda(0));
  const float factor = 3;
  void* const given[] = {out.data(), a.data(), const_cast<float*>(&factor)};
  const long sizes[] = {n};
  cuda::execute(scale_sequence(n), given, sizes);
  const auto result = on_host<float>(out, n);
  for (std::size_t i = 0; i < result.size(); ++i) REQUIRE(result[i] == in[i] * 3 + static_cast<float>(i));
}

TEST_CASE("a table has addresses, a value and numbers for each block, in one parameter") {
  const auto code = module_of(R"(
template <int P, int N> struct table { void* p[P]; int n[N]; };
extern "C" __global__ void fill(int* all, const __grid_constant__ table<600, 201> t, char* scratch) {
  const int b = blockIdx.x;
  int* const out = (int*)t.p[b];
  out[threadIdx.x] = *(const int*)t.p[200 + b] + *(const float*)&t.p[400 + b] + t.n[b] + t.n[200];
  all[b] = threadIdx.x < 32 ? b : 0;
}
)");
  std::vector<int> in(200);
  std::iota(in.begin(), in.end(), 1000);
  const storage sources = on_gpu(in), out = cuda::allocate(200 * 128, 0), all = cuda::allocate(200 * 4, 0);
  std::vector<float> values = {0.0f, 10.0f};
  std::vector<void*> given = {all.data()};
  std::vector<cuda::operand> operands = {{0, 0, true}};
  for (int part = 0; part < 3; ++part)
    for (int b = 0; b < 200; ++b) {
      operands.push_back({static_cast<int>(given.size()), part == 2 ? 4 : 0, part == 0});
      given.push_back(part == 0   ? static_cast<void*>(static_cast<char*>(out.data()) + 128 * (199 - b))
                      : part == 1 ? static_cast<char*>(sources.data()) + 4 * b
                                  : static_cast<void*>(&values[static_cast<std::size_t>(b % 2)]));
    }
  cuda::sequence s = one_launch(code, "fill", operands, 200, 32);
  s.steps[0].tabled = 600;
  std::vector<int> numbers(202);
  for (int b = 0; b < 200; ++b) numbers[static_cast<std::size_t>(b)] = 3 * b;
  numbers[200] = 50000;
  s.steps[0].numbers.resize(numbers.size() * 4);
  std::memcpy(s.steps[0].numbers.data(), numbers.data(), numbers.size() * 4);
  cuda::execute(s, given, nullptr);
  const auto got = on_host<int>(out, 200 * 32), seen = on_host<int>(all, 200);
  for (int b = 0; b < 200; ++b) {
    CHECK(seen[static_cast<std::size_t>(b)] == b);
    REQUIRE(got[static_cast<std::size_t>(32 * (199 - b) + b % 32)] == 51000 + b + 10 * (b % 2) + 3 * b);
  }
}

TEST_CASE("labels stay where they are, however many follow") {
  std::vector<const char*> labels;
  for (int i = 0; i < 1000; ++i) labels.push_back(cuda::label("k" + std::to_string(i)));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    REQUIRE(std::string(labels[i]) == "k" + std::to_string(i));
    CHECK(cuda::label("k" + std::to_string(i)) == labels[i]);
  }
}

TEST_CASE("a sequence: intermediates and a kernel's own scratch lie in one block, fills and launches go in order") {
  const auto code = module_of(R"(
extern "C" __global__ void spread(int* out, const int* in, char* scratch) {
  int* const mine = (int*)scratch;
  if (threadIdx.x == 0) mine[0] = in[0];
  __syncthreads();
  out[threadIdx.x] = mine[0] + (int)threadIdx.x;
}
extern "C" __global__ void total(int* out, const int* in, const int* base, char* scratch) {
  __shared__ int part[2];
  int x = in[threadIdx.x];
  for (int m = 16; m > 0; m /= 2) x += __shfl_xor_sync(0xffffffffu, x, m);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0) *out = part[0] + part[1] + *base;
}
)");
  cuda::sequence s;
  s.intermediates = {0, 512};
  s.scratch_bytes = 2048;
  s.steps.push_back(cuda::make_launch(code, "spread", 1, 64, 0, cuda::label("spread")));
  s.steps.back().operands = {{2, 0}, {0, 0}};
  s.steps.back().scratch = 1024;
  cuda::step fill;
  fill.what = cuda::action::fill;
  fill.operands = {{3, 0}};
  fill.bytes = 4;
  fill.value = 1;
  s.steps.push_back(fill);
  s.steps.push_back(cuda::make_launch(code, "total", 1, 64, 0, cuda::label("total")));
  s.steps.back().operands = {{1, 0}, {2, 0}, {3, 0}};
  const storage in = on_gpu(std::vector<int>{5}), out = cuda::allocate(4, 0);
  void* const given[] = {in.data(), out.data()};
  for (int i = 0; i < 3; ++i) cuda::execute(s, given, nullptr);
  CHECK(on_host<int>(out, 1)[0] == 64 * 5 + 63 * 32 + 0x01010101);
}

TEST_CASE("a launch of no blocks is none; grids, blocks and shared memory have limits") {
  const auto code = module_of(scale_source);
  void* const given[] = {nullptr, nullptr, nullptr};
  const long sizes[] = {0};
  cuda::execute(one_launch(code, "scale", {{0, 0}, {1, 0}, {0, 0}}, 0, 128, 1), given, sizes);
  const auto refused = [&](std::int64_t blocks, int threads, int shared) {
    return message_of([&] { cuda::make_launch(code, "scale", blocks, threads, shared, "wide (at a.cpp:3)"); });
  };
  CHECK(refused(2147483647, 1024, 0).empty());
  CHECK(refused(2147483648, 128, 0) ==
        "[cuda] wide (at a.cpp:3) needs 2147483648 blocks; a grid has at most 2147483647");
  CHECK(contains(refused(1, 1025, 0), "needs blocks of 1025 threads; a block has 1 to 1024"));
  CHECK(contains(refused(1, 128, 300 << 10), "needs 307200 bytes of shared memory"));
  CHECK(message_of([&] { code->find("absent"); }) == "[cuda] a compiled kernel lacks its entry point 'absent'");
}

TEST_CASE("dynamic shared memory beyond 48 KiB is asked for") {
  const auto code = module_of(R"(
extern "C" __global__ void reverse(int* data, char* scratch) {
  extern __shared__ int tile[];
  for (int i = threadIdx.x; i < 15000; i += 256) tile[i] = data[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 15000; i += 256) data[i] = tile[14999 - i];
}
)");
  std::vector<int> values(15000);
  std::iota(values.begin(), values.end(), 0);
  const storage data = on_gpu(values);
  void* const given[] = {data.data()};
  cuda::execute(one_launch(code, "reverse", {{0, 0}}, 1, 256, 0, 60000), given, nullptr);
  const auto result = on_host<int>(data, values.size());
  CHECK(std::equal(values.rbegin(), values.rend(), result.begin()));
}

TEST_CASE("many operands and sizes") {
  std::string parameters, sum;
  constexpr int count = 150;
  for (int i = 0; i < count; ++i) {
    parameters += "const int* p" + std::to_string(i) + ", ";
    sum += " + *p" + std::to_string(i);
  }
  const auto code = module_of("extern \"C\" __global__ void many(" + parameters +
                              "int* out, char* scratch, long a, long b) { *out = 0" + sum + " + (int)(10 * a + b); }");
  std::vector<storage> held;
  std::vector<void*> given;
  std::vector<cuda::operand> operands;
  for (int i = 0; i < count; ++i) {
    held.push_back(on_gpu(std::vector<int>{i}));
    given.push_back(held.back().data());
    operands.push_back({i, 0});
  }
  held.push_back(cuda::allocate(4, 0));
  given.push_back(held.back().data());
  operands.push_back({count, 0});
  const long sizes[] = {7, 3};
  cuda::execute(one_launch(code, "many", operands, 1, 1, 2), given, sizes);
  CHECK(on_host<int>(held.back(), 1)[0] == count * (count - 1) / 2 + 73);
}
