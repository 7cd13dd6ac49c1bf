// Costly values that are broadcast: computed once for all copies where that pays.
#include "../graphs.hpp"

using namespace graphs;

namespace {

/// x plus `of`, broadcast.
value beside(const value& x, const value& of) { return x + sinter::ir::broadcast(of, x.extents()); }

/// Over how many elements an operation is computed, in all kernels.
std::int64_t computed(const fused& f, op code) {
  std::int64_t sum = 0;
  for (const auto& k : f.kernels)
    for (const auto& i : k.body) {
      if (i.code != code || i.kind != kind::compute) continue;
      std::int64_t each = 1;
      for (std::size_t a = 0; a < k.axes.size(); ++a)
        if (i.axes >> a & 1u) each *= *k.axes[a].extent.number();
      sum += i.axes == 0 ? 1 : each;
    }
  return sum;
}

}  // namespace

TEST_CASE("angles of places are computed once for all heads") {
  graph g;
  const value x = input(g, {8, 512, 64}), angle = input(g, {1, 512, 64});
  const fused f = fuse_to({beside(x, cos(cos(angle)))});
  REQUIRE(f.kernels.size() == 2);
  // The values lie in memory, of one head.
  CHECK(f.kernels[0].axes.size() == 1);
  CHECK(*f.kernels[0].extent(role::inner).number() * *f.kernels[0].extent(role::outer).number() == 512 * 64);
  CHECK(computed(f, op::cos) == 2 * 512 * 64);
}

TEST_CASE("what is behind a stored value is computed once, too") {
  graph g;
  const value x = input(g, {16, 300, 128}), rate = input(g, {1, 1, 128}, dtype::f64),
              place = input(g, {1, 300, 1}, dtype::f64);
  const shape places{1, 300, 128};
  const value angle = sinter::ir::broadcast(exp(exp(rate)), places) * sinter::ir::broadcast(place, places);
  const value turned = sinter::ir::cast(cos(angle), dtype::f32);
  const fused f = fuse_to({beside(x, turned)});
  CHECK(f.kernels.size() == 3);
  CHECK(computed(f, op::exp) == 2 * 128);
  CHECK(computed(f, op::cos) == 300 * 128);
}

TEST_CASE("cheap, few and small values, and those of whole rows, stay in the kernel that reads them") {
  const auto kernels = [](shape whole, shape part, int costly, dtype t = dtype::f32) {
    graph g;
    const value x = input(g, std::move(whole), t);
    value y = input(g, std::move(part), t) * 2.0;
    for (int i = 0; i < costly; ++i) y = cos(y);
    return fuse_to({beside(x, y)}).kernels.size();
  };
  CHECK(kernels({8, 512, 64}, {1, 512, 64}, 2) == 2);
  CHECK(kernels({8, 512, 64}, {1, 512, 64}, 0) == 1);  // cheap
  CHECK(kernels({8, 512, 64}, {1, 512, 64}, 1) == 1);  // a read takes as long
  CHECK(kernels({1, 512, 64}, {1, 512, 64}, 9) == 1);  // no copies
  CHECK(kernels({8, 1, 64}, {1, 1, 64}, 2) == 1);      // another kernel would take longer
  CHECK(kernels({8, 512, 64}, {8, 512, 1}, 9) == 1);   // once a row anyway
  CHECK(kernels({8, 512, 64}, {1, 1, 1}, 9) == 1);
}

namespace {

/// The kernels for an array by the sum of n numbers.
std::size_t kernels_of_sum(int n, shape whole, const target& t) {
  graph g;
  value total = input(g, {}, dtype::f64);
  for (int i = 1; i < n; ++i) total = total + input(g, {}, dtype::f64);
  const value x = input(g, std::move(whole));
  const value by = sinter::ir::cast(total, dtype::f32);
  g.outputs = {(x * sinter::ir::broadcast(sinter::ir::reshape(by, shape(x.extents().size(), 1)), x.extents())).id()};
  memory_map m;
  m.strides.resize(g.size());
  return fuse(g, m, t).kernels.size();
}

}  // namespace

TEST_CASE("a number that takes each thread long is computed once") {
  CHECK(kernels_of_sum(150, {2048, 512}, gpu_target()) == 2);
  CHECK(kernels_of_sum(150, {2048, 512}, {}) == 1);  // a CPU's thread computes it once
  CHECK(kernels_of_sum(10, {2048, 512}, gpu_target()) == 1);
  CHECK(kernels_of_sum(150, {16, 512}, gpu_target()) == 1);  // another kernel would take longer
}
