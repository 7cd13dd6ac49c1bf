#include <doctest/doctest.h>

#include <sinter/run/cuda/device/pinned.hpp>
#include <sinter/run/cuda/program/control.hpp>
#include <sinter/run/cuda/program/graph.hpp>

#include "../../../paths.hpp"
#include "../support.hpp"

using namespace sinter;
using namespace support;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// A GPU started, or not, in a fresh process with these variables set: what it said.
template <class Body>
child_result with(const std::vector<std::pair<const char*, std::string>>& settings, Body&& body) {
  return in_child([&] {
    for (const auto& [name, value] : settings) value.empty() ? ::unsetenv(name) : ::setenv(name, value.c_str(), 1);
    const std::string words = message_of(body);
    std::fprintf(stderr, "said: %s\n", words.c_str());
    return 0;
  });
}

/// True when CUDA was not started in this process, so that its children can start it as they like; as it is when this
/// file's cases are run alone. What is not the emulator's to pretend is not tested either.
bool fresh() {
  if (cuda::driver_alive()) MESSAGE("SKIPPED: CUDA was started by an earlier test case; run this file's cases alone");
  return !emulator::real() && !cuda::driver_alive();
}

child_result started_with(const char* name, const std::string& value, int index = 0) {
  return with({{name, value}}, [&] { cuda::device_at(index); });
}

void expect(const child_result& r, const std::string& words) {
  CHECK(r.status == 0);
  CHECK_MESSAGE(contains(r.error_text, words), r.error_text);
}

const std::string bad_source = R"(
extern "C" __global__ void fine(int* a, char* scratch) { a[threadIdx.x] = 1; }
extern "C" __global__ void wild(int* a, char* scratch) { a[(long)threadIdx.x << 40] = 1; }
extern "C" __global__ void trap(int* a, char* scratch) { if (a[0] != -1) __trap(); }
extern "C" __global__ void skewed(int* a, char* scratch) { *(int4*)(a + 1) = make_int4(1, 2, 3, 4); }
)";

cuda::sequence bad_sequence(const std::string& entry) {
  return one_launch(module_of(bad_source), entry, {{0, 0}}, 1, 32);
}

/// out = a b for a of (2, 1), whose rows are this far apart, and b of (1, 2).
cuda::step small_product(series<cuda::operand> operands, std::int64_t row_a = 1) {
  cuda::step s;
  s.what = cuda::action::product;
  s.label = "matmul (at model.cpp:3)";
  s.product = {.m = 2, .n = 2, .k = 1, .row_a = row_a, .row_b = 2, .row_out = 2};
  s.operands = std::move(operands);
  return s;
}

}  // namespace

TEST_CASE("a missing, stubborn or empty driver is a clear error") {
  if (!fresh()) return;
  expect(
      started_with("SINTER_LIBCUDA", "/nonexistent/libcuda.so.1"),
      "[cuda] no CUDA driver: SINTER_LIBCUDA=/nonexistent/libcuda.so.1 cannot be opened; install NVIDIA's driver, or "
      "set SINTER_LIBCUDA to the path of libcuda.so.1");
  expect(started_with("SINTER_LIBCUDA", "libm.so.6"),
         "the CUDA driver libm.so.6 is too old: it lacks cuInit; install a driver for CUDA 12.0 (525) or newer");
  expect(started_with("SINTER_EMULATOR_DEVICES", "0"),
         "[cuda] the CUDA driver finds no GPU; if there is one, see nvidia-smi and CUDA_VISIBLE_DEVICES "
         "(CUDA_ERROR_NO_DEVICE");
  expect(started_with("SINTER_EMULATOR_DRIVER", "11080"), "the CUDA driver is too old: it is for CUDA 11.8; install");
  const auto counted = in_child([] {
    ::setenv("SINTER_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
    std::string problem;
    const int none = cuda::device_count(problem);
    // It is looked for again.
    ::setenv("SINTER_LIBCUDA", (test_paths::emulator + "/libcuda.so").c_str(), 1);
    const bool told = contains(problem, "no CUDA driver");
    return none == 0 && told && cuda::device_count(problem) == 2 && problem.empty() ? 0 : 1;
  });
  CHECK(counted.status == 0);
}

TEST_CASE("a GPU that is busy, full, too old or not there is a clear error") {
  if (!fresh()) return;
  expect(started_with("SINTER_EMULATOR_MODE", "exclusive"),
         "[cuda] cuda(0), Emulated GPU, is in exclusive mode and used by another process "
         "(CUDA_ERROR_DEVICE_UNAVAILABLE");
  expect(started_with("SINTER_EMULATOR_MODE", "full"),
         "[cuda] cuda(0), Emulated GPU, has no memory left to start with; another process uses it (see nvidia-smi)");
  expect(started_with("SINTER_EMULATOR_CAPABILITY", "61"), "has compute capability 6.1; sinter needs 7.0 or newer");
  expect(started_with("SINTER_EMULATOR_DEVICES", "2", 2),
         "[cuda] there is no cuda(2); this process sees 2 GPUs, numbered from 0 (CUDA_VISIBLE_DEVICES)");
  expect(started_with("SINTER_EMULATOR_DEVICES", "2", -1), "there is no cuda(-1)");
}

TEST_CASE("no NVRTC, and a driver older than NVRTC, are clear errors") {
  if (!fresh()) return;
  expect(
      with({{"SINTER_LIBNVRTC", "/nonexistent/libnvrtc.so"}}, [] { module_of(bad_source); }),
      "[cuda] no NVRTC: SINTER_LIBNVRTC=/nonexistent/libnvrtc.so cannot be opened; install the CUDA toolkit's NVRTC");
  expect(with({{"SINTER_LIBNVRTC", "libm.so.6"}}, [] { module_of(bad_source); }),
         "[cuda] NVRTC at libm.so.6 is too old or damaged");
  expect(with({{"SINTER_EMULATOR_DRIVER", "12020"}}, [] { module_of(bad_source); }),
         "[cuda] the driver supports CUDA 12.2 and is older than NVRTC 13.0 at ");
  expect(with({{"SINTER_EMULATOR_CAPABILITY", "121"}}, [] { module_of(bad_source); }),
         "cannot compile for sm_121 (it knows sm_75 to sm_90); install a newer CUDA toolkit");
}

TEST_CASE("of several NVRTCs and cuBLASLts those that the driver supports are taken, whatever another process took") {
  if (!fresh()) return;
  const folder root;
  fs::create_directories(root.at("toolkit/lib64"));
  for (const std::string name : {"libnvrtc.so", "libcublasLt.so"})
    for (const char* const version : {".13", ".12"})
      fs::copy_file(test_paths::emulator + "/" + name, root.at("toolkit/lib64/" + name + version));
  // What the loader finds comes first: it may be NVIDIA's, which is not started.
  const auto taken = [&](const char* driver) {
    return with({{"SINTER_LIBNVRTC", ""},
                 {"SINTER_LIBCUBLASLT", ""},
                 {"CUDA_HOME", root.at("toolkit")},
                 {"SINTER_CACHE_DIR", root.at("cache")},
                 {"SINTER_EMULATOR_DRIVER", driver}},
                [] {
                  const auto known = cuda::find_nvrtc(), opened = cuda::load_nvrtc();
                  std::fprintf(stderr, "NVRTC %d, %s; cuBLASLt %s\n", known->major,
                               known->identity == opened->identity ? known->problem.c_str() : "and another",
                               cuda::blas().problem.c_str());
                });
  };
  for (int i = 0; i < 2; ++i) {
    expect(taken("12040"), "NVRTC 12, ; cuBLASLt \nsaid: \n");
    expect(taken("13000"), "NVRTC 13, ; cuBLASLt \nsaid: \n");
  }
  expect(taken("14010"), "NVRTC 13, ; cuBLASLt \nsaid: \n");
  expect(
      with({{"SINTER_EMULATOR_DRIVER", "12040"}}, [] { std::fprintf(stderr, "%s\n", cuda::blas().problem.c_str()); }),
      "the driver supports CUDA 12 and is older than cuBLASLt 13 at ");
}

TEST_CASE("out of memory: free blocks go back first; then the error has the sizes") {
  if (!fresh()) return;
  const auto r = in_child([] {
    ::setenv("SINTER_EMULATOR_MEMORY", std::to_string(64 * mib).c_str(), 1);
    std::vector<storage> kept;
    // Free blocks of one size are given back for a request of another.
    for (int i = 0; i < 3; ++i) kept.push_back(cuda::allocate(20 * mib, 0));
    kept.clear();
    if (cuda::memory_of(0).reserved != 60 * mib) return 1;
    kept.push_back(cuda::allocate(50 * mib, 0));
    if (cuda::memory_of(0).reserved != 50 * mib) return 2;
    const std::string words = message_of([&] { kept.push_back(cuda::allocate(40 * mib, 0)); });
    std::fprintf(stderr, "%s\n", words.c_str());
    // What is left can still be had, though a whole segment cannot.
    kept.push_back(cuda::allocate(12 * mib, 0));
    return 0;
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
  CHECK(contains(r.error_text,
                 "[cuda] out of memory: a tensor of 41943040 bytes (40 MiB) cannot be allocated on cuda(0), Emulated "
                 "GPU: tensors hold 52428800 bytes (50 MiB), free blocks among them 0 bytes (0 MiB); the driver has "
                 "14680064 bytes (14 MiB) left of 67108864 bytes (64 MiB)"));
}

TEST_CASE("out of memory: the error tells scratch memory from tensors, and whose it was to be") {
  if (!fresh()) return;
  for (const int alone : {0, 1})
    expect(with({{"SINTER_EMULATOR_MEMORY", std::to_string(16 * mib)}},
                [alone] {
                  const storage a = cuda::allocate(256, 0);
                  void* const given[] = {a.data()};
                  cuda::sequence s = bad_sequence("fine");
                  s.steps.push_back(s.steps[0]);
                  s.scratch_bytes = 40 * mib;
                  cuda::recording(s, std::make_shared<cuda::scratch_pool>(), alone).launch(given, nullptr);
                }),
           "[cuda] out of memory: scratch memory of a call that ends with fine (at model.cpp:12) of 41943040 bytes (40 "
           "MiB) cannot be allocated on cuda(0)");
  expect(with({{"SINTER_EMULATOR_MEMORY", std::to_string(22 * mib)}},
              [] {
                const storage x = cuda::allocate(256, 0), rest = cuda::allocate(20 * mib, 0);
                // What is left of the small segment.
                const storage small = cuda::allocate(mib, 0), next = cuda::allocate(mib - 512, 0);
                void* const given[] = {x.data(), x.data(), x.data()};
                cuda::sequence s;
                s.given = 3;
                s.steps.push_back(small_product({{0, 0}, {1, 0}, {2, 0, true}}));
                cuda::execute(s, given, nullptr);
              }),
         "[cuda] out of memory: scratch memory of matmul (at model.cpp:3) of 1024 bytes (0 MiB) cannot be allocated");
}

TEST_CASE("scratch memory of recordings grows where the old block and the new one do not fit together") {
  if (!fresh()) return;
  const auto r = in_child([] {
    ::setenv("SINTER_EMULATOR_MEMORY", std::to_string(44 * mib).c_str(), 1);
    const storage a = cuda::allocate(256, 0);
    void* const given[] = {a.data()};
    cuda::sequence s = bad_sequence("fine");
    s.steps.push_back(s.steps[0]);
    cuda::sequence larger = s;
    s.scratch_bytes = 20 * mib;
    larger.scratch_bytes = 40 * mib;
    const auto pool = std::make_shared<cuda::scratch_pool>();
    cuda::recording small(s, pool, 0), large(larger, pool, 0);
    for (int i = 0; i < 2; ++i) {
      small.launch(given, nullptr);
      large.launch(given, nullptr);
      cuda::synchronize(0);
    }
    return cuda::memory_of(0).allocated == 512 + 40 * mib ? 0 : 1;
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
}

TEST_CASE(
    "where a GPU has no more memory, idle recordings give up their scratch memory, and get other when called again") {
  if (!fresh()) return;
  const auto r = in_child([] {
    const std::int64_t n = 64;
    cuda::sequence s = scale_sequence(n);
    s.steps.push_back(s.steps[0]);
    s.scratch_bytes = 20 * mib;
    const storage in = on_gpu(std::vector<float>(n, 1.0f)), out = cuda::allocate(n * 4, 0);
    const float factor = 3;
    void* const given[] = {out.data(), in.data(), const_cast<float*>(&factor)};
    const long sizes[] = {n};
    cuda::recording a(s, std::make_shared<cuda::scratch_pool>(), 0), b(s, std::make_shared<cuda::scratch_pool>(), 0);
    const auto right = [&](cuda::recording& r) {
      r.launch(given, sizes);
      return on_host<float>(out, n)[5] == 8;
    };
    // What is small has a segment; one recording's scratch memory fits besides, two do not.
    ::setenv("SINTER_EMULATOR_MEMORY", std::to_string(33 * mib).c_str(), 1);
    for (int i = 0; i < 3; ++i)
      if (!right(a) || !right(b)) return 1;
    // For a tensor.
    { const storage large = cuda::allocate(30 * mib, 0); }
    if (!right(a)) return 2;
    // For the driver itself.
    ::setenv("SINTER_EMULATOR_MEMORY", std::to_string(22 * mib).c_str(), 1);
    module_of(bad_source);
    if (cuda::memory_of(0).reserved != 2 * mib) return 3;
    // For another recording; then there is none to give up.
    ::setenv("SINTER_EMULATOR_MEMORY", std::to_string(23 * mib).c_str(), 1);
    if (!right(a) || !right(b)) return 4;
    const storage rest = cuda::allocate(20 * mib, 0);
    std::fprintf(stderr, "%s\n", message_of([&] { right(b); }).c_str());
    return 0;
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
  CHECK(contains(r.error_text, "out of memory: scratch memory of a call that ends with scale (at model.cpp:12)"));
}

TEST_CASE("what the driver itself has no memory for gets that of free blocks") {
  if (!fresh()) return;
  const auto r = in_child([] {
    ::setenv("SINTER_EMULATOR_MEMORY", std::to_string(22 * mib).c_str(), 1);
    { const storage small = cuda::allocate(100, 0), large = cuda::allocate(8 * mib, 0); }
    if (cuda::memory_of(0).available != 0) return 1;
    module_of(bad_source);
    return cuda::memory_of(0).available == 22 * mib ? 0 : 2;
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
}

TEST_CASE("a product is recorded where there is no room to measure it, and where the measuring takes the last of it") {
  if (!fresh()) return;
  // Rows of a are far apart: a copy of it needs more than 30 MiB, which is a segment of 32 MiB.
  constexpr std::int64_t apart = 30 * static_cast<std::int64_t>(mib) / 4;
  for (const std::size_t left : {2 * mib, 32 * mib}) {
    const auto r = in_child([left] {
      cuda::sequence s = one_launch(module_of(scale_source), "scale", {{3, 0, true}, {4, 0}, {2, 4}}, 1, 128, 1);
      s.steps.insert(s.steps.begin(), small_product({{0, 0}, {1, 0}, {4, 0, true}}, apart));
      s.given = 4;
      s.intermediates = {0};
      s.intermediate_bytes = {16};
      s.scratch_bytes = 16;
      s.tuned = true;
      const storage a = cuda::allocate((apart + 1) * 4, 0), b = on_gpu(std::vector<float>{1, 10}),
                    out = cuda::allocate(16, 0);
      const float first = 2, second = 3, factor = 1;
      cuda::copy(a.data(), device::cuda(0), &first, device::cpu(), 4);
      cuda::copy(static_cast<float*>(a.data()) + apart, device::cuda(0), &second, device::cpu(), 4);
      void* const given[] = {a.data(), b.data(), const_cast<float*>(&factor), out.data()};
      const long sizes[] = {4};
      cuda::recording recorded(s, std::make_shared<cuda::scratch_pool>());
      recorded.launch(given, sizes);
      ::setenv("SINTER_EMULATOR_MEMORY", std::to_string(cuda::memory_of(0).reserved + left).c_str(), 1);
      for (int i = 0; i < 2; ++i) {
        recorded.launch(given, sizes);
        if (on_host<float>(out, 4) != std::vector<float>{2, 21, 5, 33}) return 1;
      }
      return recorded.copies() == 1 ? 0 : 2;
    });
    CHECK_MESSAGE(r.status == 0, r.error_text);
  }
}

TEST_CASE("two GPUs: each has its memory; copies between them are in order with both") {
  if (!fresh()) return;
  const auto r = in_child([] {
    const std::vector<int> values = {1, 2, 3, 4};
    const storage a = on_gpu(values, 0), b = cuda::allocate(16, 1);
    if (b.where() != device::cuda(1)) return 1;
    cuda::copy(b.data(), device::cuda(1), a.data(), device::cuda(0), 16);
    const auto code = module_of(bad_source, 1);
    void* const given[] = {b.data()};
    if (on_host<int>(b, 4) != values) return 2;
    cuda::execute(one_launch(code, "fine", {{0, 0}}, 1, 2), given, nullptr);
    if (on_host<int>(b, 4) != std::vector<int>{1, 1, 3, 4}) return 3;
    return cuda::memory_of(0).allocated == 512 && cuda::memory_of(1).allocated == 512 ? 0 : 4;
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
}

TEST_CASE("a process forked after the start of CUDA is told so") {
  if (cuda::driver_alive()) return;
  const auto r = in_child([] {
    const storage kept = on_gpu(std::vector<int>{1});
    const auto inner = in_child([&] {
      std::string problem;
      const int count = cuda::device_count(problem);
      std::fprintf(stderr, "%d: %s\n", count, problem.c_str());
      std::fprintf(stderr, "%s\n", message_of([] { cuda::allocate(4, 0); }).c_str());
      std::fprintf(stderr, "%s\n", message_of([&] { on_host<int>(kept, 1); }).c_str());
      return 0;
    });
    std::fputs(inner.error_text.c_str(), stderr);
    return inner.status == 0 && on_host<int>(kept, 1)[0] == 1 ? 0 : 1;
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
  const std::string words = "CUDA was started before this process was forked; start it after fork, or use exec";
  CHECK(contains(r.error_text, "0: " + words));
  CHECK_MESSAGE(contains(r.error_text, "[cuda] " + words), r.error_text);
}

TEST_CASE("a kernel that goes wrong is named: among the last ones, or exactly with SINTER_CUDA_SYNC") {
  struct wrong {
    const char *entry, *words;
  };
  if (cuda::driver_alive()) return;
  for (const wrong w : {wrong{"wild", "an illegal memory access"}, wrong{"trap", "a trap"},
                        wrong{"skewed", "a misaligned memory access"}}) {
    for (const char* sync : {"", "1"}) {
      const auto r = with({{"SINTER_CUDA_SYNC", sync}}, [&] {
        const storage a = cuda::allocate(256, 0);
        void* const given[] = {a.data()};
        cuda::execute(bad_sequence("fine"), given, nullptr);
        const auto run = [&] {
          cuda::execute(bad_sequence(w.entry), given, nullptr);
          cuda::synchronize(0);
        };
        const std::string first = message_of(run);
        std::fprintf(stderr, "first: %s\n", first.c_str());
        // Nothing works after it, and says why.
        cuda::execute(bad_sequence("fine"), given, nullptr);
        cuda::synchronize(0);
      });
      const std::string culprit = w.entry + std::string(" (at model.cpp:12)");
      expect(r, *sync ? std::string(w.words) + " in " + culprit
                      : std::string(w.words) + " in one of the last kernels: " + culprit + ", fine (at model.cpp:12)");
      expect(r, "said: [cuda] ");
      expect(r, "the GPU is of no use to this process after " + std::string(w.words));
    }
  }
}

TEST_CASE("a kernel of the user is named when it goes wrong, and not when another did before") {
  if (cuda::driver_alive()) return;
  const auto of_user = [](const char* entry) {
    cuda::sequence s;
    s.steps.emplace_back();
    s.steps[0].what = cuda::action::call;
    s.steps[0].operands = {{0, 0, true}};
    s.steps[0].call = std::make_shared<const cuda::user_kernel>(bad_sequence(entry).steps[0], 1, series<std::int64_t>{},
                                                                series<long long>{0});
    s.given = 1;
    return s;
  };
  expect(with({{"SINTER_CUDA_SYNC", "1"}},
              [&] {
                const storage a = cuda::allocate(256, 0);
                void* const given[] = {a.data()};
                cuda::execute(of_user("fine"), given, nullptr);
                cuda::execute(of_user("wild"), given, nullptr);
              }),
         "said: [cuda] an illegal memory access in wild (at model.cpp:12) (");
  expect(with({{"SINTER_CUDA_SYNC", ""}},
              [&] {
                const storage a = cuda::allocate(256, 0);
                void* const given[] = {a.data()};
                // Made, and kept, before: what loads and unloads a module would tell first.
                const cuda::sequence wild = of_user("wild"), fine = of_user("fine");
                cuda::execute(wild, given, nullptr);
                while (cuda::driver().stream_query(cuda::current_queue(0).handle) == cuda::api::not_ready) {}
                cuda::execute(fine, given, nullptr);
              }),
         "said: [cuda] an illegal memory access in one of the last kernels: wild (at model.cpp:12) (");
}

TEST_CASE("a product that fails is named, and what lost the GPU before it") {
  if (cuda::driver_alive()) return;
  const auto products = [] {
    cuda::sequence s;
    s.given = 3;
    s.tuned = true;
    for (int i = 0; i < 2; ++i) s.steps.push_back(small_product({{0, 0}, {1, 0}, {2, 0, true}}));
    return s;
  };
  if (!emulator::real())
    for (const int calls : {1, 2})
      expect(with({},
                  [&] {
                    const storage x = cuda::allocate(256, 0), out = cuda::allocate(256, 0);
                    void* const given[] = {x.data(), x.data(), out.data()};
                    const cuda::sequence s = products();
                    cuda::recording r(s, std::make_shared<cuda::scratch_pool>());
                    for (int i = 1; i < calls; ++i) r.launch(given, nullptr);
                    ::setenv("SINTER_EMULATOR_BLAS", "fail", 1);
                    r.launch(given, nullptr);
                  }),
             "said: [cuda] the product (2, 1) by (1, 2) of f32 in matmul (at model.cpp:3) failed: cuBLASLt: "
             "CUBLAS_STATUS_EXECUTION_FAILED");
  expect(with({{"SINTER_CUDA_SYNC", ""}},
              [&] {
                if (!cuda::blas().problem.empty())
                  throw system_error("one of the last kernels: wild (at model.cpp:12)");
                const storage x = cuda::allocate(256, 0), out = cuda::allocate(256, 0);
                void* const given[] = {x.data(), x.data(), out.data()};
                const cuda::sequence s = products(), wild = bad_sequence("wild");
                cuda::execute(s, given, nullptr);
                cuda::execute(wild, given, nullptr);
                while (cuda::driver().stream_query(cuda::current_queue(0).handle) == cuda::api::not_ready) {}
                cuda::execute(s, given, nullptr);
              }),
         "one of the last kernels: wild (at model.cpp:12)");
}

TEST_CASE(
    "the last 32 launches are remembered, all kernels of a recorded call as one of them, and that there were others") {
  if (!fresh()) return;
  const auto names = [](int from, int to) {
    std::string out;
    for (int i = from; i >= to; --i) out += (i < from ? ", step " : "step ") + std::to_string(i);
    return out;
  };
  const auto after = [](int steps, int calls, bool recorded) {
    return with({}, [&] {
      const storage a = cuda::allocate(256, 0);
      void* const given[] = {a.data()};
      cuda::sequence s;
      const cuda::sequence fine = bad_sequence("fine"), wild = bad_sequence("wild");
      for (int i = 0; i < steps; ++i) {
        s.steps.push_back(fine.steps[0]);
        s.steps.back().label = cuda::label("step " + std::to_string(i));
      }
      s.given = 1;
      cuda::recording r(s, std::make_shared<cuda::scratch_pool>(), recorded ? 0 : 1);
      r.launch(given, nullptr);
      for (int i = 1; i < calls; ++i) r.launch(given, nullptr);
      cuda::execute(wild, given, nullptr);
      cuda::synchronize(0);
    });
  };
  const std::string words = "one of the last kernels: wild (at model.cpp:12), ";
  expect(after(31, 1, false), words + names(30, 0) + " (");
  expect(after(32, 1, false), words + names(31, 1) + ", or an earlier one (");
  expect(after(20, 31, true), words + names(19, 0) + " (");
  expect(after(20, 32, true), words + names(19, 0) + ", or an earlier one (");
  expect(after(40, 1, true), words + names(39, 9) + ", or an earlier one (");
}

TEST_CASE("what went wrong before a copy to the host is told where the copy is read, each time") {
  if (!fresh()) return;
  const auto r = with({{"SINTER_EMULATOR_DEFER", "1"}}, [] {
    const storage a = cuda::allocate(256, 0);
    void* const given[] = {a.data()};
    // Kept: unloading a module waits for the GPU.
    const cuda::sequence trap = bad_sequence("trap");
    cuda::execute(trap, given, nullptr);
    const storage copy = cuda::copy_to_host(a, a.data(), 256);
    for (int i = 0; i < 2; ++i) std::fprintf(stderr, "%s\n", message_of([&] { copy.wait(); }).c_str());
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
  CHECK_MESSAGE(contains(r.error_text, "[cuda] a trap in one of the last kernels: trap (at model.cpp:12)"),
                r.error_text);
  CHECK_MESSAGE(
      contains(r.error_text, "[cuda] copying from the GPU failed: the GPU is of no use to this process after a trap"),
      r.error_text);
}

TEST_CASE("a recorded call that goes wrong names its kernels") {
  if (!fresh()) return;
  expect(with({{"SINTER_EMULATOR_FAULT", "fine"}},
              [] {
                const storage a = cuda::allocate(256, 0);
                void* const given[] = {a.data()};
                cuda::sequence s = bad_sequence("skewed");
                s.steps[0].blocks = 0;
                s.steps.push_back(bad_sequence("fine").steps[0]);
                ::unsetenv("SINTER_EMULATOR_FAULT");
                cuda::recording r(s, std::make_shared<cuda::scratch_pool>());
                for (int i = 0; i < 3; ++i) r.launch(given, nullptr);
                cuda::synchronize(0);
                ::setenv("SINTER_EMULATOR_FAULT", "fine", 1);
                r.launch(given, nullptr);
                cuda::synchronize(0);
              }),
         "said: [cuda] an illegal memory access in one of the last kernels: fine (at model.cpp:12)");
}

TEST_CASE("where kernels are not begun early, by the driver's or the GPU's choice, recorded calls are as right") {
  if (!fresh()) return;
  // out = (in * 3 + in) * 3 + in, twice.
  const auto called = [](const std::string& source, bool lacks_entry = false) {
    cuda::sequence s = one_launch(module_of(source), "adds", {{2, 0, true}, {1, 0}, {1, 0}}, 1, 128, 1);
    s.steps.push_back(s.steps[0]);
    s.steps[1].operands = {{0, 0, true}, {2, 0}, {1, 0}};
    for (cuda::step& one : s.steps) one.awaits = true;
    s.given = 2;
    s.intermediates = {0};
    s.intermediate_bytes = {400};
    s.scratch_bytes = 400;
    if (lacks_entry) cuda::detail::driver_instance().table.graph_add_edges = nullptr;
    const storage out = cuda::allocate(400, 0), in = on_gpu(std::vector<float>(100, 1));
    const long n = 100;
    void* const given[] = {out.data(), in.data()};
    cuda::recording r(s, std::make_shared<cuda::scratch_pool>(), 0);
    r.launch(given, &n);
    cuda::recording again(s, std::make_shared<cuda::scratch_pool>(), 0);
    again.launch(given, &n);
    std::fprintf(stderr, "%s, %d and %d early, refused %d\n",
                 on_host<float>(out, 100) == std::vector<float>(100, 13) ? "right" : "wrong",
                 static_cast<int>(r.early_edges()), static_cast<int>(again.early_edges()),
                 static_cast<int>(cuda::detail::driver_instance().refuses_early_edges));
  };
  const auto expect_of = [&](const std::string& source, const char* words, bool lacks_entry = false,
                             const char* capability = "90") {
    expect(with({{"SINTER_EMULATOR_DEFER", "1"}, {"SINTER_EMULATOR_CAPABILITY", capability}},
                [&] { called(source, lacks_entry); }),
           words);
  };
  expect_of(adds_source(awaits), "right, 1 and 1 early, refused 0");
  // Those that are begun early and await nothing, or too late, read what was there before.
  expect_of(adds_source(""), "wrong, 1 and 1 early, refused 0");
  expect_of(adds_source("", awaits), "wrong, 1 and 1 early, refused 0");
  expect_of(adds_source(""), "right, 0 and 0 early, refused 0", true);
  expect_of(adds_source(""), "right, 0 and 0 early, refused 1", false, "80");
}

TEST_CASE("a launch that the driver refuses names its kernel") {
  if (!fresh()) return;
  expect(with({{"SINTER_EMULATOR_REFUSE", "fine"}},
              [] {
                const storage a = cuda::allocate(256, 0);
                void* const given[] = {a.data()};
                cuda::execute(bad_sequence("fine"), given, nullptr);
              }),
         "said: [cuda] launching fine (at model.cpp:12) failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
}

TEST_CASE("a tensor freed while its kernel runs stays whole until the kernel is done") {
  const std::int64_t n = 1 << 20;
  storage in = on_gpu(std::vector<float>(n, 1.0f));
  const storage out = cuda::allocate(n * 4, 0);
  const float factor = 4;
  void* const given[] = {out.data(), in.data(), const_cast<float*>(&factor)};
  const long sizes[] = {n};
  cuda::execute(scale_sequence(n), given, sizes);
  in = storage();
  // Overwrites the freed block, after the kernel.
  const storage next = on_gpu(std::vector<float>(n, -1.0f));
  const auto result = on_host<float>(out, n);
  for (std::size_t i = 0; i < result.size(); i += 1001) REQUIRE(result[i] == 4 + static_cast<float>(i));
}
