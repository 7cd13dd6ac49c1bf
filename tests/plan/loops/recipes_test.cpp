// Recipes: every option, for sizes with and without tails, against plain recursion.
#include <array>
#include <sinter/plan/loops/print.hpp>
#include <sinter/plan/schedule/recipes/attention.hpp>
#include <sinter/plan/schedule/recipes/attention_back.hpp>
#include <sinter/plan/schedule/recipes/cpu_product.hpp>
#include <sinter/plan/schedule/recipes/gpu_product.hpp>
#include <sinter/plan/schedule/recipes/rows.hpp>

#include "programs.hpp"

using namespace kernels;
using namespace loops;
namespace schedules = sinter::engine::plan::schedules;

namespace {

constexpr schedules::facts cpu{}, gpu{.threads = 4};

bool has_no_matrix(std::string_view) { return false; }

/// Runs one option of a recipe; the tree is printed where it is wrong.
void agrees(const schedules::recipe& r, const program& p, const schedules::facts& f, int option, double bound = 0) {
  REQUIRE(r.takes(p.k, f));
  const auto s = r.make(p.k, f, option);
  INFO(text_of(s));
  try {
    const tree t = build(p.k, s);
    CHECK_MESSAGE(wrong(p, t, 3, bound) == "", text_of(t));
  } catch (const refusal& no) {
    FAIL_CHECK("refused: " << no.why);
  }
}

}  // namespace

TEST_CASE("cpu product") {
  for (int option : {1, 2})
    for (const auto& size : {std::array{1, 1, 1}, {5, 3, 7}, {17, 33, 9}, {16, 32, 8}, {3, 40, 2}, {0, 4, 4}})
      for (dtype t : {dtype::f32, dtype::bf16, dtype::f64, dtype::i32}) {
        const int m = size[0], n = size[1], k = size[2];
        INFO(m, " ", n, " ", k, " ", dtype_name(t), " option ", option);
        agrees(schedules::cpu_product, matrix_product(m, n, k, t, t == dtype::bf16 ? dtype::f32 : t), cpu, option);
      }
  agrees(schedules::cpu_product, matrix_product(9, 10, 11), {.has = has_no_matrix}, 2);
}

TEST_CASE("gpu product") {
  for (int option : {1, 2, 5, 6})
    for (const auto& size : {std::array{1, 1, 1}, {5, 3, 7}, {33, 17, 70}, {32, 16, 32}, {3, 40, 2}, {0, 4, 4}})
      for (dtype t : {dtype::bf16, dtype::f16, dtype::f32, dtype::i8}) {
        const int m = size[0], n = size[1], k = size[2];
        if ((option == 1 || option == 5) && (t != dtype::bf16 || m == 3)) continue;
        INFO(m, " ", n, " ", k, " ", dtype_name(t), " option ", option);
        agrees(schedules::gpu_product, matrix_product(m, n, k, t, t == dtype::i8 ? dtype::i32 : dtype::f32), gpu,
               option);
      }
}

TEST_CASE("products with a prologue, an epilogue and two results") {
  for (dtype t : {dtype::f32, dtype::bf16}) {
    agrees(schedules::cpu_product, with_neighbours(9, 10, 11, t), cpu, 2);
    agrees(schedules::gpu_product, with_neighbours(9, 10, 11, t), gpu, 2);
    agrees(schedules::gpu_product, with_neighbours(9, 10, 40, t), gpu, 6);
  }
}

TEST_CASE("rows") {
  for (const auto& f : {cpu, gpu})
    for (int option : {0, 1})
      for (const auto& size : {std::array{1, 1}, {3, 5}, {2, 16}, {3, 33}, {0, 3}, {4, 0}})
        agrees(schedules::rows, softmax(size[0], size[1]), f, option, derived);
}

TEST_CASE("a causal mask bounds the loop over keys") {
  const program p = attention_of(64, 64, 16, 2, dtype::f32, true);
  const tree t = build(p.k, schedules::attention.make(p.k, gpu, 1));
  CHECK_MESSAGE(text_of(t).find("below 32 + i1*1") != std::string::npos, text_of(t));
  CHECK(wrong(p, t, 3, 1e-5) == "");
}

TEST_CASE("attention") {
  for (const auto& f : {cpu, gpu})
    for (int option : {1, 2})
      for (const auto& size : {std::array{1, 1, 1, 1}, {5, 7, 3, 4}, {33, 17, 8, 3}, {16, 40, 16, 2}})
        for (dtype t : {dtype::f32, dtype::bf16})
          for (bool causal : {false, true}) {
            INFO(size[0], " ", size[1], " ", size[2], " ", size[3], " ", dtype_name(t), " option ", option,
                 causal ? " causal" : "");
            // A matrix intrinsic takes weights that are rounded to the values' dtype.
            const bool rounds = f.threads > 0 && option == 1 && t == dtype::bf16;
            agrees(schedules::attention, attention_of(size[0], size[1], size[2], size[3], t, causal), f, option,
                   rounds ? 8e-3 : 1e-5);
          }
}

TEST_CASE("gradients of attention") {
  for (const auto& size : {std::array{1, 5, 7, 3, 4}, {2, 17, 9, 3, 2}, {1, 1, 1, 1, 1}})
    for (dtype t : {dtype::f32, dtype::bf16})
      for (bool causal : {false, true})
        for (bool by_keys : {false, true}) {
          INFO(size[0], " ", size[1], " ", size[2], " ", dtype_name(t), causal ? " causal" : "",
               by_keys ? " of keys" : "");
          const program p = attention_back_of(size[0], size[1], size[2], size[3], size[4], t, causal, by_keys);
          agrees(schedules::attention_back, p, cpu, 1, derived);
        }
}

TEST_CASE("gradients of attention on matrix units") {
  for (const auto& size : {std::array{1, 5, 7, 16, 16}, {2, 70, 40, 20, 24}, {1, 64, 64, 16, 16}, {1, 1, 1, 1, 1}})
    for (bool causal : {false, true})
      for (bool by_keys : {false, true})
        for (int option : {0, 1, 2}) {
          if (size[0] == 2 && option == 1) continue;
          INFO(size[0], " ", size[1], " ", size[2], causal ? " causal" : "", by_keys ? " of keys" : "", " option ",
               option);
          const dtype t = causal ? dtype::bf16 : dtype::f16;
          const program p = attention_back_of(size[0], size[1], size[2], size[3], size[4], t, causal, by_keys, true);
          agrees(schedules::attention_back, p, gpu, option, 4e-3);
        }
}

TEST_CASE("a block of memory that two products read along other axes is one tile") {
  const program p = attention_back_of(1, 64, 64, 16, 16, dtype::bf16, false, true);
  const tree t = build(p.k, schedules::attention_back.make(p.k, gpu, 0));
  int beside = 0;
  for (const auto& x : t.tiles) beside += x.memory >= 0;
  CHECK_MESSAGE(beside == 2, text_of(t));
}

TEST_CASE("a causal mask bounds the loops over rows that two products share") {
  const program p = attention_back_of(1, 40, 40, 4, 4, dtype::f32, true, true);
  const tree t = build(p.k, schedules::attention_back.make(p.k, cpu, 1));
  const std::string text = text_of(t);
  CHECK_MESSAGE(text.find("from ") != std::string::npos, text);
  // One block of weights for both products.
  std::size_t count = 0;
  for (const auto& n : t.nodes) count += n.what == act::matrix;
  CHECK_MESSAGE(count == 4, text);
  CHECK(wrong(p, t, 3, derived) == "");
}
