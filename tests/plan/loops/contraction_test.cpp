// Contractions: a product and a sum of products are read alike, as axes and as a library's call.
#include <sinter/plan/lowering/library_product.hpp>
#include <sinter/plan/schedule/recipes/cpu_product.hpp>

#include "../graphs.hpp"
#include "kernels.hpp"

using graphs::graph;
using graphs::input;
using graphs::value;
using namespace kernels;
namespace schedules = sinter::engine::plan::schedules;

namespace {

/// The kernel of a graph's only product, with what follows it.
kernel planned(graph& g, bool blas) {
  memory_map m;
  m.strides.resize(g.size());
  const auto f = fuse(g, m, gpu_target({.blas = blas}));
  REQUIRE(f.kernels.size() == 1);
  return f.kernels[0];
}

/// The graph's kernel in both forms, and what a library's call of each says.
void same_call(graph& g, bool is_call) {
  const kernel k = planned(g, is_call), r = as_reduction(k);
  REQUIRE(k.is_product());
  CHECK_FALSE(r.is_product());
  std::optional<contraction> c;
  for (std::size_t v = 0; v < r.body.size(); ++v)
    if (r.body[v].kind == kind::reduce) c = contraction_of(r, static_cast<int>(v));
  const auto p = product_of(k);
  REQUIRE(c);
  REQUIRE(p);
  CHECK(c->batch == p->batch);
  CHECK(c->m == p->m);
  CHECK(c->n == p->n);
  CHECK(c->k == p->k);
  const auto mine = as_blas(r, *c), want = as_blas(k);
  CHECK(want.has_value() == is_call);
  REQUIRE(mine.has_value() == want.has_value());
  if (!want) return;
  CHECK(mine->m == want->m);
  CHECK(mine->n == want->n);
  CHECK(mine->k == want->k);
  CHECK(mine->batch == want->batch);
  CHECK(mine->bias == want->bias);
  CHECK(mine->after == want->after);
  CHECK(mine->a.row == want->a.row);
  CHECK(mine->b.row == want->b.row);
  CHECK(mine->b.transpose == want->b.transpose);
  CHECK(mine->out.row == want->out.row);
}

}  // namespace

TEST_CASE("products with a bias and an activation, of transposed and batched operands") {
  {
    graph g;
    const value x = input(g, {5, 7}), w = input(g, {7, 3}), b = input(g, {3});
    const value y = dot(x, w, 0, 1) + expand(b, {0}, {5, 3});
    g.outputs.push_back(maximum(y, y.like(0)).id());
    same_call(g, true);
  }
  {
    graph g;
    const value x = input(g, {2, 5, 7}), w = input(g, {2, 3, 7});
    g.outputs.push_back(dot(x, permute(w, {0, 2, 1}), 1, 1).id());
    same_call(g, true);
  }
  {
    graph g;
    const value x = input(g, {5, 7}, dtype::bf16), w = input(g, {7, 3}, dtype::bf16);
    g.outputs.push_back(dot(x, w, 0, 1).id());
    same_call(g, true);
  }
  {
    graph g;
    const value x = input(g, {5, 7}), w = input(g, {7, 3});
    const value y = dot(x, w, 0, 1);
    g.outputs.push_back((y * y).id());
    same_call(g, false);
  }
}

TEST_CASE("sums that are no contraction") {
  program p;
  const int i = p.axis(3), j = p.axis(4), k = p.axis(5);
  const int x = p.input(dtype::f32, {i, k}), y = p.input(dtype::f32, {j}), z = p.input(dtype::f32, {k, j});
  const int one_sided = p.reduce(op::add, dtype::f32, {p.apply(op::mul, dtype::f32, {x, y})}, {k});
  const int extreme = p.reduce(op::maximum, dtype::f32, {p.apply(op::mul, dtype::f32, {x, z})}, {k});
  const int whole = p.reduce(op::add, dtype::f32, {p.apply(op::mul, dtype::f32, {x, z})}, {k});
  CHECK_FALSE(contraction_of(p.k, one_sided));
  CHECK_FALSE(contraction_of(p.k, extreme));
  CHECK_FALSE(contraction_of(p.k, x));
  REQUIRE(contraction_of(p.k, whole));
  CHECK(contraction_of(p.k, whole)->m == series<int>{i});
  CHECK(contraction_of(p.k, whole)->n == series<int>{j});
}

TEST_CASE("a factor behind casts to wider types is taken before them") {
  program p;
  const int i = p.axis(3), x = p.input(dtype::bf16, {i}), w = converted(p.k, x, dtype::f32);
  CHECK(unwidened(p.k, w) == x);
  CHECK(unwidened(p.k, converted(p.k, w, dtype::bf16)) != x);  // a rounding
  const int n = p.input(dtype::i8, {i});
  CHECK(unwidened(p.k, converted(p.k, n, dtype::i32)) == n);
  CHECK(unwidened(p.k, converted(p.k, n, dtype::f32)) != n);
}
