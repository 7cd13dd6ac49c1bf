// Products in slices: which are split, and that the graph stays equal.
#include <doctest/doctest.h>

#include <sinter/ir/check.hpp>
#include <sinter/ir/reference.hpp>
#include <sinter/plan/fusion/split.hpp>

#include "../graphs.hpp"

using namespace graphs;
using sinter::ir::literal_array;

namespace {

using sizes = sinter::series<std::int64_t>;

fused planned(const graph& g, const target& t, const sizes& hints = {}) {
  memory_map m;
  m.strides.resize(g.size());
  m.hints = hints;
  return fuse(g, m, t);
}

std::int64_t slices_of(const graph& g, const target& t, const sizes& hints = {}) {
  const auto split = products_to_split(g, planned(g, t, hints).kernels, hints, t);
  return split.empty() ? 1 : split[0].slices;
}

/// 2 m + a' b of `terms` terms; with `twice`, a result that two kernels read.
graph step(dim rows, dim terms, dim columns, bool twice = false) {
  graph g;
  const auto m = input(g, {rows, columns}), a = input(g, {terms, rows}), b = input(g, {terms, columns});
  const auto p = sinter::ir::dot(sinter::ir::permute(a, {1, 0}), b, 0, 1);
  g.outputs = {(m * 2 + p).id()};
  if (twice) g.outputs.push_back(sinter::ir::reduce(p, op::add, {0, 1}).id());
  return g;
}

constexpr target gpu = gpu_target({.tf32 = true});

}  // namespace

TEST_CASE("few tiles of many terms are split, as far as there are multiprocessors, and terms") {
  CHECK(slices_of(step(784, 1024, 512), gpu) == 2);
  CHECK(slices_of(step(512, 1024, 512), gpu) == 4);
  CHECK(slices_of(step(64, 4096, 64), gpu) == 8);
  CHECK(slices_of(step(64, 1008, 64), gpu) == 2);     // 4 slices would be short
  CHECK(slices_of(step(64, 1030, 64), gpu) == 1);     // slices would lie askew
  CHECK(slices_of(step(64, 512, 64), gpu) == 1);      // a kernel of ours does it
  CHECK(slices_of(step(64, 1024, 10), gpu) == 1);     // that, too
  CHECK(slices_of(step(2048, 4096, 512), gpu) == 1);  // fills the GPU
  CHECK(slices_of(step(64, 4096, 64, true), gpu) == 1);
  CHECK(slices_of(step(33, 4096, 35), gpu) == 1);
  CHECK(slices_of(step(64, 4096, 64), {}) == 1);
  CHECK(slices_of(step(64, 4096, 64), gpu_target({.blas = false})) == 1);
}

TEST_CASE("of open extents as many slices are taken as the hints say, where they divide the terms whatever those are") {
  const dim s0 = dim::symbol(0), s1 = dim::symbol(1), s2 = dim::symbol(2);
  CHECK(slices_of(step(512, s0 * 16, 512), gpu, {64}) == 4);
  CHECK(slices_of(step(512, s0 * 8, 512), gpu, {128}) == 2);
  CHECK(slices_of(step(512, s0, 512), gpu, {1024}) == 1);
  CHECK(slices_of(step(s1 * 16, s0 * 16, s2), gpu, {64, 32, 512}) == 4);
  CHECK(slices_of(step(s1 * 16, s0 * 16, s2), gpu, {64, 128, 512}) == 1);  // fills the GPU
  CHECK(slices_of(step(64, s0 * 16, s2), gpu, {64, 0, 10}) == 1);          // a kernel of ours does it
}

TEST_CASE("what the library does as a whole is not split") {
  graph g;
  const auto a = input(g, {64, 4096}), b = input(g, {4096, 64}), c = input(g, {64});
  const auto p = sinter::ir::dot(a, b, 0, 1);
  g.outputs = {p.id()};
  CHECK(slices_of(g, gpu) == 1);
  g.outputs = {maximum(p + sinter::ir::broadcast(sinter::ir::reshape(c, {1, 64}), {64, 64}), 0.0).id()};
  CHECK(slices_of(g, gpu) == 1);
}

TEST_CASE("what a larger kernel reads again and again is not split") {
  graph g;
  const auto a = input(g, {64, 4096}), b = input(g, {4096, 64}), c = input(g, {100, 64, 64});
  g.outputs = {(c - expand(sinter::ir::dot(a, b, 0, 1), {0}, {100, 64, 64})).id()};
  CHECK(slices_of(g, gpu) == 1);
}

TEST_CASE("where kernels run side by side, the last product is split") {
  graph g;
  const auto m = input(g, {64, 1024}), a = input(g, {64, 4096}), b = input(g, {4096, 1024}), c = input(g, {1024, 64}),
             d = input(g, {64, 64});
  const auto early = m * 2 + sinter::ir::dot(a, b, 0, 1);
  g.outputs = {early.id(), (d - sinter::ir::dot(early, c, 0, 1)).id()};
  CHECK(products_to_split(g, planned(g, gpu).kernels, {}, gpu).size() == 2);
  constexpr target apart = gpu_target({.tf32 = true, .overlap = true});
  CHECK(products_to_split(g, planned(g, apart).kernels, {}, apart).size() == 1);
}

TEST_CASE("a graph with slices computes the same, in one product of batches and one kernel more") {
  const graph g = step(6, 512, 5);
  const graph sliced = with_slices(g, {{g[g.outputs[0]].in[1], 4}});
  sinter::ir::check(sliced, "slices");
  const auto f = planned(sliced, gpu_target());
  REQUIRE(f.kernels.size() == 2);
  const auto call = as_blas(f.kernels[0]);
  REQUIRE(call.has_value());
  CHECK(call->batch == 4);
  CHECK(call->k == 128);
  std::vector<literal_array> inputs;
  for (auto id : g.inputs) {
    literal_array x{g[id].type, {}, {}, {}};
    std::int64_t n = 1;
    for (const auto& e : g[id].extents) x.extents.push_back(*e.number()), n *= *e.number();
    for (std::int64_t i = 0; i < n; ++i)
      x.f.push_back(static_cast<double>((i * 7 + static_cast<std::int64_t>(id)) % 11 - 5));
    inputs.push_back(std::move(x));
  }
  CHECK(evaluate(sliced, inputs)[0].f == evaluate(g, inputs)[0].f);
}
