// What planning deep networks takes, as counts: it grows with the graph, and equal layers are planned once.
#include <doctest/doctest.h>

#include <sinter/plan/fusion/fuse.hpp>

#include "deep_graphs.hpp"

using namespace sinter::engine::plan;

namespace {

struct planned {
  sinter::ir::graph g;
  fused f;
  std::int64_t max_bytes = 0;  ///< that one kernel touches
};

planned plan(sinter::ir::graph g, const target& t = {}) {
  planned out{std::move(g), {}, 0};
  memory_map m;
  m.strides.resize(out.g.size());
  out.f = fuse(out.g, m, t);
  const detail::costs cost(out.g, m, t);
  for (const auto& k : out.f.kernels) {
    std::int64_t bytes = 0;
    for (const auto& b : k.buffers) bytes += cost.bytes(static_cast<sinter::ir::node_id>(b.id));
    out.max_bytes = std::max(out.max_bytes, bytes);
  }
  return out;
}

}  // namespace

TEST_CASE("layers are lowered once, and what is tried grows with their number") {
  for (const target& t : {target{}, gpu_target()}) {
    const planned few = plan(deep::residual_network(8), t), many = plan(deep::residual_network(32), t);
    CHECK(many.f.lowered <= few.f.lowered + few.f.lowered / 2);
    CHECK(many.f.joined <= few.f.joined + few.f.joined / 2);
    CHECK(4 * many.f.joined <= many.f.tried);
    const auto per_node = [](const planned& p, std::size_t count) {
      return static_cast<double>(count) / static_cast<double>(p.g.live().size());
    };
    CHECK(per_node(many, many.f.tried) <= 1.25 * per_node(few, few.f.tried));
    CHECK(per_node(many, many.f.considered) <= 1.25 * per_node(few, few.f.considered));
    CHECK(per_node(many, many.f.kernels.size()) <= 1.05 * per_node(few, few.f.kernels.size()));
  }
}

TEST_CASE("kernels of equal layers are alike, so that each text is printed once") {
  const auto distinct = [](const planned& p) {
    REQUIRE(p.f.alike.size() == p.f.kernels.size());
    std::size_t n = 0;
    for (std::size_t k = 0; k < p.f.alike.size(); ++k) {
      REQUIRE(p.f.alike[k] <= k);
      n += p.f.alike[k] == k;
    }
    return n;
  };
  const planned few = plan(deep::residual_network(8)), many = plan(deep::residual_network(32));
  CHECK(distinct(many) <= distinct(few) + 2);
  for (std::size_t k = 0; k < many.f.kernels.size(); ++k) {
    const auto &x = many.f.kernels[k], &first = many.f.kernels[many.f.alike[k]];
    REQUIRE(x.body.size() == first.body.size());
    REQUIRE(x.stores.size() == first.stores.size());
    REQUIRE(x.buffers.size() == first.buffers.size());
  }
}

TEST_CASE("what all layers read makes no layer look at all others") {
  using namespace sinter;
  const auto updates = [](int count) {
    ir::graph g;
    const ir::value rate(g, g.add_input(dtype::f32, {1}));
    for (int i = 0; i < count; ++i) {
      const ir::value p(g, g.add_input(dtype::f32, {i + 2}));
      g.outputs.push_back((p - p * p * broadcast(rate, p.extents())).id());
    }
    return g;
  };
  const planned few = plan(updates(200)), many = plan(updates(800));
  CHECK(many.f.considered <= 5 * few.f.considered);
  CHECK(many.f.tried <= 5 * few.f.tried + 5);
}

TEST_CASE("a kernel reads no more the deeper its layer is") {
  const planned few = plan(deep::residual_network(8)), many = plan(deep::residual_network(32));
  CHECK(many.max_bytes == few.max_bytes);
}

TEST_CASE("a thousand layers are planned without deep recursion") {
  const planned p = plan(deep::residual_network(1000));
  CHECK(p.g.live().size() > 80'000);
  CHECK(p.f.lowered < 200);
  CHECK(p.f.kernels.size() < 5'200);
}

TEST_CASE("a sum of many losses, which is longer than a kernel may be, is lowered once and not with each of them") {
  using namespace sinter;
  const auto losses = [](int count) {
    ir::graph g;
    ir::value all(g, g.constant(dtype::f32, 0.0, {}));
    for (int i = 0; i < count; ++i) {
      const ir::value x(g, g.add_input(dtype::f32, {64}));
      all = all + ir::reduce(x * x, ir::op::add, {0}) * 0.5;
    }
    g.outputs = {all.id()};
    return g;
  };
  for (const target& t : {target{}, gpu_target()})
    for (const int count : {200, 1000}) {
      const planned p = plan(losses(count), t);
      CHECK(p.f.lowered <= 6);
      // The sum is two kernels where one takes fewer arrays.
      CHECK(p.f.kernels.size() <= static_cast<std::size_t>(count) + 2);
    }
}

TEST_CASE("a chain of many operations, and a value that many read") {
  using namespace sinter;
  ir::graph g;
  const ir::value x(g, g.add_input(dtype::f32, {64, 64}));
  ir::value y = x;
  for (int i = 0; i < 20'000; ++i) y = ir::push(ir::op::sin, {y * 1.5 + x});
  g.outputs = {y.id()};
  for (int i = 0; i < 500; ++i) g.outputs.push_back((x * static_cast<double>(i + 2)).id());
  const planned p = plan(std::move(g));
  CHECK(p.f.tried < 60'000);
}

TEST_CASE("a chain of updates is planned in steps that grow with its length, and written in place") {
  using namespace sinter;
  const auto chain = [](int count, bool reads) {
    ir::graph g;
    const ir::value where(g, g.add_input(dtype::i32, {count})), by(g, g.add_input(dtype::f32, {count}));
    ir::value b(g, g.add_input(dtype::f32, {1 << 10}));
    for (int i = 0; i < count; ++i) {
      const ir::value at = slice(where, {1}, {i}, {1}), update = exp(slice(by, {1}, {i}, {1}));
      b = scatter_add(b, at, reads ? gather(b, at, 0) * update : update, 0);
      // A kernel that goes before the next update.
      if (reads && i % 4 == 0) g.outputs.push_back((gather(b, at, 0) * 2.0).id());
    }
    g.outputs.push_back(b.id());
    return g;
  };
  for (const bool reads : {false, true}) {
    const planned few = plan(chain(200, reads)), many = plan(chain(800, reads));
    CHECK(few.f.looked > 200);
    CHECK(many.f.looked <= 4 * few.f.looked + 20);
    CHECK(many.f.tried <= 4 * few.f.tried + 20);
    if (!reads) CHECK(many.f.kernels.size() == 801);  // the first copies the input
  }
}

TEST_CASE("many updates of one table, and many that read it, are planned in steps that grow with their number") {
  using namespace sinter;
  const auto updates = [](int count) {
    ir::graph g;
    const ir::value where(g, g.add_input(dtype::i32, {count})), table(g, g.add_input(dtype::f32, {1 << 10}));
    for (int i = 0; i < count; ++i) {
      const ir::value at = slice(where, {1}, {i}, {1}), b = scatter_add(table, at, gather(table, at, 0) * 0.5, 0);
      g.outputs.push_back(b.id());
      g.outputs.push_back(scatter_add(b, at, gather(b, at, 0) + static_cast<double>(i), 0).id());
    }
    return g;
  };
  const planned few = plan(updates(50)), many = plan(updates(200));
  CHECK(few.f.looked > 100);
  CHECK(many.f.looked <= 4 * few.f.looked + 20);
}
