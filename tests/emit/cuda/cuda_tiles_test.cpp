// Trees of the recipes as CUDA, on the emulated GPU and on a GPU, against plain recursion.
#include <chrono>
#include <cstdio>
#include <sinter/plan/schedule/recipes/attention.hpp>
#include <sinter/plan/schedule/recipes/attention_back.hpp>
#include <sinter/plan/schedule/recipes/gpu_product.hpp>

#include "tree_runs.hpp"

using namespace tree_runs;

namespace {

constexpr schedules::facts gpu{.threads = 4};

/// Runs an option of a recipe; the text is printed where it is wrong.
void agrees(const schedules::recipe& r, const program& p, int option, double bound = 0) {
  REQUIRE(r.takes(p.k, gpu));
  const auto s = r.make(p.k, gpu, option);
  INFO(loops::text_of(s));
  try {
    const loops::tree t = loops::build(p.k, s, gpu);
    const auto source = emit::cuda(t);
    const std::string said = wrong_on_gpu(p, source, 3, bound);
    CHECK_MESSAGE(said == "", source.texts[0]);
  } catch (const refusal& no) {
    FAIL_CHECK("refused: " << no.why);
  }
}

}  // namespace

TEST_CASE("products of every dtype, with odd extents") {
  for (dtype t : {dtype::bf16, dtype::f16, dtype::f32, dtype::i8}) {
    INFO(dtype_name(t));
    agrees(schedules::gpu_product, matrix_product(33, 17, 70, t, t == dtype::i8 ? dtype::i32 : dtype::f32), 2);
  }
  agrees(schedules::gpu_product, matrix_product(32, 16, 32, dtype::bf16, dtype::f32), 2);
}

TEST_CASE("products of larger tiles, and in parts") {
  agrees(schedules::gpu_product, matrix_product(136, 144, 104, dtype::bf16, dtype::f32), 0);
  agrees(schedules::gpu_product, matrix_product(66, 64, 72, dtype::f32, dtype::f32), 1);
  agrees(schedules::gpu_product, matrix_product(33, 17, 70, dtype::bf16, dtype::f32), 6);
}

TEST_CASE("products by groups of warps") {
  for (bool along_m : {false, true})
    for (bool along_k : {false, true})
      agrees(schedules::gpu_product,
             matrix_product(136, 144, 104, along_m ? dtype::f16 : dtype::bf16, dtype::f32, along_m, along_k), 7);
  agrees(schedules::gpu_product, matrix_product(130, 258, 300, dtype::bf16, dtype::f32), 8);
  agrees(schedules::gpu_product, matrix_product(258, 130, 72, dtype::bf16, dtype::f32), 9);
  agrees(schedules::gpu_product, matrix_product(66, 258, 136, dtype::bf16, dtype::f32), 10);
}

TEST_CASE("products with a prologue, an epilogue and two results") {
  agrees(schedules::gpu_product, with_neighbours(9, 10, 11, dtype::bf16), 2);
  agrees(schedules::gpu_product, with_neighbours(40, 24, 48, dtype::bf16), 2);
}

TEST_CASE("attention") {
  agrees(schedules::attention, attention_of(33, 40, 20, 24, dtype::bf16, true), 1, 8e-3);
  agrees(schedules::attention, attention_of(70, 72, 32, 16, dtype::f16, false), 5, 8e-3);
}

TEST_CASE("attention by groups of warps") {
  for (int option : {0, 6}) {
    agrees(schedules::attention, attention_of(150, 136, 64, 32, dtype::bf16, true), option, 8e-3);
    agrees(schedules::attention, attention_of(130, 200, 32, 96, dtype::f16, false), option, 8e-3);
  }
  agrees(schedules::attention, attention_of(70, 72, 128, 128, dtype::bf16, true), 0, 8e-3);
}

TEST_CASE("gradients of attention") {
  for (bool by_keys : {false, true}) {
    INFO((by_keys ? "of keys" : "of queries"));
    agrees(schedules::attention_back, attention_back_of(1, 70, 72, 16, 16, dtype::bf16, true, by_keys, true), 4, 8e-3);
    agrees(schedules::attention_back, attention_back_of(2, 33, 40, 20, 24, dtype::f16, false, by_keys, true), 1, 8e-3);
  }
}

TEST_CASE("gradients of attention by groups of warps") {
  for (bool by_keys : {false, true}) {
    INFO((by_keys ? "of keys" : "of queries"));
    for (int option : {0, 5})
      agrees(schedules::attention_back, attention_back_of(1, 150, 136, 64, 32, dtype::bf16, option == 0, by_keys, true),
             option, 8e-3);
    agrees(schedules::attention_back, attention_back_of(2, 70, 40, 32, 96, dtype::f16, true, by_keys, true), 0, 8e-3);
    agrees(schedules::attention_back, attention_back_of(1, 70, 40, 160, 160, dtype::bf16, true, by_keys, true, 1), 0,
           8e-3);
  }
}

// `test_emit_engine --source-file=*cuda_tiles* -tc=rates* -ns` on a GPU: each option's rate, to compare with a library's in one run.
namespace {

/// Milliseconds of a call, of 20, on operands whose elements are not 0.
double milliseconds_of(const program& p, const emit::cuda_source& s) {
  std::vector<sinter::storage> buffers;
  for (std::size_t b = 0; b < p.elements.size(); ++b) {
    const auto bytes = static_cast<std::size_t>(p.elements[b]) * size_of(p.k.buffers[b].type);
    buffers.push_back(support::on_gpu(std::vector<std::uint32_t>(bytes / 4 + 1, 0x3c003c00u)));
  }
  std::vector<void*> given;
  for (auto& b : buffers) given.push_back(b.data());
  const auto all = sequence_of(p, s, buffers.size());
  const auto run = [&](int times) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) cuda::execute(all, given, nullptr);
    support::on_host<char>(buffers.back(), 1);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  run(3);
  return run(20) / 20;
}
void tell(const std::string& name, const program& p, const schedules::recipe& r, int option, double operations) {
  auto facts = schedules::device_facts(gpu_target({.groups = true, .tf32 = true}));
  facts.register_bytes = 4 * 255;
  try {
    const double ms = milliseconds_of(p, emit::cuda(loops::build(p.k, r.make(p.k, facts, option), facts)));
    std::printf("%-40s option %d: %8.3f ms %8.1f TFLOP/s\n", name.c_str(), option, ms, operations / ms * 1e-9);
  } catch (const refusal& no) {
    std::printf("%-40s option %d: refused: %s\n", name.c_str(), option, no.why.c_str());
  }
}

}  // namespace

TEST_CASE("rates of products" * doctest::skip()) {
  REQUIRE(emulator::real());
  for (const std::int64_t n : {1024, 4096, 8192})
    for (int option : {0, 3, 7, 8, 9, 10}) {
      const double operations = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
      tell("bf16 " + std::to_string(n), matrix_product(n, n, n, dtype::bf16, dtype::f32), schedules::gpu_product,
           option, operations);
    }
  tell("bf16 64 x 64 x 16384", matrix_product(64, 64, 16384, dtype::bf16, dtype::f32), schedules::gpu_product, 5,
       2.0 * 64 * 64 * 16384);
}

TEST_CASE("rates of attention" * doctest::skip()) {
  REQUIRE(emulator::real());
  constexpr std::int64_t n = 4096, tokens = 16384, features = 2048;
  for (const std::int64_t head : {64, 128})
    for (bool causal : {false, true}) {
      const std::int64_t batch = tokens / n * (features / head);
      const double product = (causal ? 1.0 : 2.0) * static_cast<double>(batch) * n * n * static_cast<double>(head);
      const std::string of = " head " + std::to_string(head) + (causal ? " causal" : "");
      for (int option : {0, 5, 6})
        tell("attention" + of, attention_of(n, n, head, head, dtype::bf16, causal, batch), schedules::attention, option,
             2 * product);
      for (bool by_keys : {false, true})
        for (int option : {0, 4, 5})
          tell((by_keys ? "gradient of keys" : "gradient of queries") + of,
               attention_back_of(1, n, n, head, head, dtype::bf16, causal, by_keys, false, batch),
               schedules::attention_back, option, (by_keys ? 4 : 3) * product);
    }
}
