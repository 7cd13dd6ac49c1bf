// What NVRTC makes of the recipes' trees: no spill, and registers for the blocks that a multiprocessor shall hold; and their texts, against
// tests/golden/cuda. SINTER_UPDATE_GOLDEN=1 writes the files anew.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sinter/emit/cuda/spelling.hpp>
#include <sinter/plan/schedule/recipes/attention.hpp>
#include <sinter/plan/schedule/recipes/attention_back.hpp>
#include <sinter/plan/schedule/recipes/gpu_product.hpp>
#include <sstream>

#include "../../emulator/select.hpp"
#include "../../golden_file.hpp"
#include "../../plan/loops/programs.hpp"
#include "nvrtc_gate.hpp"

using namespace kernels;
namespace emit = sinter::engine::emit;
namespace schedules = sinter::engine::plan::schedules;

namespace {

const gate::nvrtc& compiler() {
  static const gate::nvrtc one;
  if (one.present()) return one;
  std::fputs("SKIPPED: no libnvrtc was found (SINTER_TEST_NVRTC names one)\n", stderr);
  std::_Exit(emulator::skipped);
}

const schedules::facts& h100() {
  static const auto f = schedules::device_facts(gpu_target({.groups = true, .tf32 = true}));
  return f;
}

emit::cuda_source source_of(const schedules::recipe& r, const program& p, int option) {
  REQUIRE(r.takes(p.k, h100()));
  return emit::cuda(loops::build(p.k, r.make(p.k, h100(), option), h100()));
}

/// The number in front of ` registers` in ptxas's words.
int registers_in(const std::string& log) {
  const auto at = log.find(" registers");
  if (at == std::string::npos) return 0;
  const auto begin = log.rfind(' ', at - 1);
  return std::atoi(log.c_str() + begin);
}

void is_lean(const std::string& name, const emit::cuda_source& s, int most) {
  for (const auto& text : s.texts)
    for (const int capability : {80, 90}) {
      if (capability == 80 && text.find("begin_products()") != std::string::npos) continue;
      const auto v = compiler().judge(text, capability);
      CHECK_MESSAGE(v.compiled, name << " sm_" << capability << ": " << v.log);
      CHECK_MESSAGE(v.log.find(" 0 bytes spill stores, 0 bytes spill loads") != std::string::npos, name << v.log);
      CHECK_MESSAGE(registers_in(v.log) <= most, name << " sm_" << capability << ": " << v.log);
      CHECK(registers_in(v.log) > 0);
    }
}

void golden(const std::string& name, const emit::cuda_source& s) {
  std::string got;
  for (const auto& text : s.texts) got += text.substr(text.find("extern \"C\" __global__"));
  golden_file::check("cuda/" + name + ".txt", got);
}

}  // namespace

TEST_CASE("products spill nothing") {
  const auto large = [](dtype t) {
    return matrix_product(4096, 4096, 4096, t, t == dtype::i8 ? dtype::i32 : dtype::f32);
  };
  const auto bf16 = source_of(schedules::gpu_product, large(dtype::bf16), 0);
  golden("tiles_product", bf16);
  // Two blocks a multiprocessor.
  is_lean("bf16", bf16, 255);
  is_lean("f16", source_of(schedules::gpu_product, large(dtype::f16), 3), 255);
  is_lean("tf32", source_of(schedules::gpu_product, large(dtype::f32), 1), 128);
  is_lean("i8", source_of(schedules::gpu_product, large(dtype::i8), 1), 255);
  is_lean("parts", source_of(schedules::gpu_product, matrix_product(64, 64, 8192, dtype::bf16, dtype::f32), 5), 128);
  for (int option : {7, 8, 9, 10}) {
    const auto s = source_of(schedules::gpu_product, large(dtype::bf16), option);
    if (option == 7) golden("groups_product", s);
    is_lean("groups", s, option == 7 ? 128 : 255);
  }
  is_lean("neighbours", source_of(schedules::gpu_product, with_neighbours(512, 520, 528, dtype::bf16), 1), 168);
}

TEST_CASE("attention spills nothing") {
  for (int option : {0, 5}) {
    const auto causal = source_of(schedules::attention, attention_of(2048, 2048, 64, 64, dtype::bf16, true), option);
    golden(option == 0 ? "groups_attention" : "tiles_attention", causal);
    is_lean("head 64", causal, option == 0 ? 128 : 255);
    for (bool bounded : {false, true})
      is_lean("head 128",
              source_of(schedules::attention, attention_of(2048, 2048, 128, 128, dtype::f16, bounded), option),
              option == 0 ? 128 : 255);
  }
}

TEST_CASE("gradients of attention spill nothing") {
  for (const std::int64_t head : {64, 128})
    for (bool causal : {false, true})
      for (bool by_keys : {false, true})
        for (int option : {0, 4}) {
          const dtype t = causal ? dtype::bf16 : dtype::f16;
          const auto s = source_of(schedules::attention_back,
                                   attention_back_of(1, 2048, 2048, head, head, t, causal, by_keys), option);
          const std::string name = std::string(by_keys ? "keys" : "queries");
          if (head == 64 && causal) golden((option == 0 ? "groups" : "tiles") + ("_attention_back_" + name), s);
          is_lean("gradient of " + name + ", head " + std::to_string(head), s, 255);
        }
}
