// Recipes: every option, for sizes with and without tails, against plain recursion.
#include <sinter/plan/loops/print.hpp>
#include <sinter/plan/schedule/recipes/attention.hpp>
#include <sinter/plan/schedule/recipes/cpu_product.hpp>
#include <sinter/plan/schedule/recipes/gpu_product.hpp>
#include <sinter/plan/schedule/recipes/rows.hpp>

#include "kernels.hpp"

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

/// A product with a bias and an activation behind it, and a factor that is computed.
program with_neighbours(std::int64_t m, std::int64_t n, std::int64_t k, dtype narrow) {
  program p;
  const int b = p.axis(2), i = p.axis(m), j = p.axis(n), l = p.axis(k);
  const int x = p.input(narrow, {b, i, l}, 1), gate = p.input(narrow, {b, i, l}), y = p.input(narrow, {b, l, j}, 2);
  const int wide = p.apply(op::mul, dtype::f32, {converted(p.k, x, dtype::f32), converted(p.k, gate, dtype::f32)});
  const int left = narrow == dtype::f32 ? wide : converted(p.k, converted(p.k, wide, narrow), dtype::f32);
  const int s = p.reduce(op::add, dtype::f32, {p.apply(op::mul, dtype::f32, {left, converted(p.k, y, dtype::f32)})}, {l});
  const int biased = p.apply(op::add, dtype::f32, {s, p.input(dtype::f32, {j})});
  p.output(p.apply(op::maximum, dtype::f32, {biased, p.number(dtype::f32, 0)}), {b, i, j}, dtype::f32);
  p.output(s, {b, i, j}, dtype::f32);
  return p;
}

program softmax(std::int64_t rows, std::int64_t columns) {
  program p;
  const int r = p.axis(rows), c = p.axis(columns);
  const int x = p.input(dtype::f32, {r, c}, 1);
  const int most = p.reduce(op::maximum, dtype::f32, {x}, {c});
  const int gap = p.apply(op::sub, dtype::f32, {x, most}), e = p.apply(op::exp, dtype::f32, {gap});
  const int sum = p.reduce(op::add, dtype::f32, {e}, {c});
  p.output(p.apply(op::div, dtype::f32, {e, sum}), {r, c}, dtype::f32);
  return p;
}

program attention_of(std::int64_t rows, std::int64_t keys, std::int64_t features, std::int64_t values, dtype narrow, bool causal) {
  program p;
  const int b = p.axis(2), i = p.axis(rows), j = p.axis(keys), h = p.axis(features), e = p.axis(values);
  const auto in = [&](std::vector<int> axes) {
    const int x = p.input(narrow, std::move(axes));
    return narrow == dtype::f32 ? x : converted(p.k, x, dtype::f32);
  };
  const int q = in({b, i, h}), k = in({b, j, h}), v = in({b, j, e});
  int s = p.reduce(op::add, dtype::f32, {p.apply(op::mul, dtype::f32, {q, k})}, {h});
  s = p.apply(op::mul, dtype::f32, {s, p.number(dtype::f32, 0.125)});
  if (causal) {
    range r{p.map({{i, 1}, {j, -1}}, keys - rows), 1 << 20};
    s = p.apply(op::select, dtype::f32, {inside(p.k, op::pad, {r}), s, p.number(dtype::f32, -INFINITY)});
  }
  const int all = p.reduce(op::maximum, dtype::f32, {s, p.number(dtype::f32, 1), v}, {j}, merge_rule::weighted);
  const std::uint32_t row = 1u << b | 1u << i;
  const int sum = p.part(all, 1, dtype::f32, row), out = p.part(all, 2, dtype::f32, row | 1u << e);
  p.output(p.apply(op::div, dtype::f32, {out, sum}), {b, i, e}, dtype::f32);
  p.output(p.apply(op::add, dtype::f32, {p.part(all, 0, dtype::f32, row), p.apply(op::log, dtype::f32, {sum})}), {b, i}, dtype::f32);
  return p;
}

}  // namespace

TEST_CASE("cpu product") {
  for (int option : {1, 2})
    for (auto [m, n, k] : {std::array{1, 1, 1}, {5, 3, 7}, {17, 33, 9}, {16, 32, 8}, {3, 40, 2}, {0, 4, 4}})
      for (dtype t : {dtype::f32, dtype::bf16, dtype::f64, dtype::i32}) {
        INFO(m, " ", n, " ", k, " ", dtype_name(t), " option ", option);
        agrees(schedules::cpu_product, matrix_product(m, n, k, t, t == dtype::bf16 ? dtype::f32 : t), cpu, option);
      }
  agrees(schedules::cpu_product, matrix_product(9, 10, 11), {.has = has_no_matrix}, 2);
}

TEST_CASE("gpu product") {
  for (int option : {1, 2, 3, 4})
    for (auto [m, n, k] : {std::array{1, 1, 1}, {5, 3, 7}, {33, 17, 70}, {32, 16, 32}, {3, 40, 2}, {0, 4, 4}})
      for (dtype t : {dtype::bf16, dtype::f16, dtype::f32, dtype::i8}) {
        if ((option == 1 || option == 3) && (t != dtype::bf16 || m == 3)) continue;
        INFO(m, " ", n, " ", k, " ", dtype_name(t), " option ", option);
        agrees(schedules::gpu_product, matrix_product(m, n, k, t, t == dtype::i8 ? dtype::i32 : dtype::f32), gpu, option);
      }
}

TEST_CASE("products with a prologue, an epilogue and two results") {
  for (dtype t : {dtype::f32, dtype::bf16}) {
    agrees(schedules::cpu_product, with_neighbours(9, 10, 11, t), cpu, 2);
    agrees(schedules::gpu_product, with_neighbours(9, 10, 11, t), gpu, 2);
    agrees(schedules::gpu_product, with_neighbours(9, 10, 40, t), gpu, 4);
  }
}

TEST_CASE("rows") {
  for (const auto& f : {cpu, gpu})
    for (int option : {0, 1})
      for (auto [r, c] : {std::array{1, 1}, {3, 5}, {2, 16}, {3, 33}, {0, 3}, {4, 0}}) agrees(schedules::rows, softmax(r, c), f, option, 1e-6);
}

TEST_CASE("attention") {
  for (const auto& f : {cpu, gpu})
    for (int option : {1, 2})
      for (auto [i, j, h, e] : {std::array{1, 1, 1, 1}, {5, 7, 3, 4}, {33, 17, 8, 3}, {16, 40, 16, 2}})
        for (dtype t : {dtype::f32, dtype::bf16})
          for (bool causal : {false, true}) {
            INFO(i, " ", j, " ", h, " ", e, " ", dtype_name(t), " option ", option, causal ? " causal" : "");
            agrees(schedules::attention, attention_of(i, j, h, e, t, causal), f, option, 1e-5);
          }
}
