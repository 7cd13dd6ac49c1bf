// The values that derivatives keep: least cuts beside all cuts of small networks; what is kept of graphs, and never again computed.
#include <doctest/doctest.h>

#include <random>

#include <sinter/jit/pipeline.hpp>

using namespace sinter;
using engine::autodiff::min_cut;
using ir::op;

namespace {

struct arc {
  std::size_t from, to;
  std::int64_t capacity;
};

std::int64_t capacity_of(const std::vector<arc>& arcs, const std::vector<char>& sink_side) {
  std::int64_t sum = 0;
  for (const arc& a : arcs)
    if (!sink_side[a.from] && sink_side[a.to]) sum += a.capacity;
  return sum;
}

ir::node_id pushed(ir::graph& g, op code, ir::node_id x) { return g.push(code, {x}); }

engine::linear_part part_of(const ir::graph& g, const series<ir::node_id>& from) {
  engine::linear_part part;
  part.from = from;
  series<ir::node_id> in;
  for (const auto id : from) in.push_back(part.graph.add_input(g[id].type, g[id].extents));
  const auto given = part.graph.add_input(dtype::f32, {ir::dim(100)});
  for (const auto id : in) part.graph.outputs.push_back(id);
  part.graph.outputs.push_back(given);
  return part;
}

}  // namespace

TEST_CASE("a cut is least among all, and nearest to the sink") {
  std::mt19937 draw(7);
  for (int round = 0; round < 400; ++round) {
    const std::size_t n = 2 + draw() % 7;
    std::vector<arc> arcs;
    min_cut net(n);
    for (std::size_t k = 0, count = draw() % 16; k < count; ++k) {
      arc a{draw() % n, draw() % n, static_cast<std::int64_t>(draw() % 9)};
      if (a.from == a.to || a.to == min_cut::source || a.from == min_cut::sink) continue;
      arcs.push_back(a);
      net.edge(a.from, a.to, a.capacity);
    }
    const auto side = net.sink_side();
    const std::vector<char> got(side.begin(), side.end());
    CHECK(!got[min_cut::source]);
    std::int64_t least = min_cut::unlimited;
    std::size_t fewest = n;
    for (std::size_t bits = 0; bits < std::size_t{1} << n; ++bits) {
      if (bits & 1 || !(bits & 2)) continue;
      std::vector<char> cut(n);
      std::size_t on_side = 0;
      for (std::size_t v = 0; v < n; ++v) on_side += static_cast<std::size_t>(cut[v] = bits >> v & 1);
      const std::int64_t capacity = capacity_of(arcs, cut);
      if (capacity > least || (capacity == least && on_side >= fewest)) continue;
      least = capacity;
      fewest = on_side;
    }
    CHECK(capacity_of(arcs, got) == least);
    CHECK(static_cast<std::size_t>(std::count(got.begin(), got.end(), 1)) == fewest);
  }
}

TEST_CASE("of a chain the narrowest value is kept, and of equal ones the last") {
  ir::graph g;
  const auto x = g.add_input(dtype::f32, {ir::dim(100)});
  const auto a = pushed(g, op::exp, x), b = pushed(g, op::sin, a), c = pushed(g, op::tanh, b);
  const auto few = engine::partitioned(g, part_of(g, {a, b, c}));
  CHECK(few.from == series<ir::node_id>{a});
  CHECK(few.graph.inputs.size() == 2);
  const auto none = engine::partitioned(g, part_of(g, {c}));
  CHECK(none.from == series<ir::node_id>{c});
}

TEST_CASE("random numbers, products, long sums, scans and gathers are kept; short sums and moves are not") {
  const ir::shape wide{ir::dim(40), ir::dim(40)};
  const auto recomputed = [&](op code, auto&& make) {
    ir::graph g;
    const auto x = g.add_input(dtype::f32, wide);
    const auto y = make(g, x);
    const auto z = pushed(g, op::exp, y);
    const auto out = engine::partitioned(g, part_of(g, {x, y, z, pushed(g, op::sin, z)}));
    CHECK(out.from.size() < 4);
    bool found = false;
    for (ir::node_id id = 0; id < out.graph.size(); ++id) found = found || out.graph[id].code == code;
    return found;
  };
  const auto reduced = [&](std::int64_t terms) {
    ir::graph g;
    const auto x = g.add_input(dtype::f32, {ir::dim(1000), ir::dim(terms)});
    ir::attributes attr;
    attr.combiner = op::add;
    attr.ints = {1};
    const auto y = g.push(op::reduce, {x}, attr);
    const auto z = pushed(g, op::exp, y);
    return engine::partitioned(g, part_of(g, {x, y, z})).from.size();
  };
  CHECK(reduced(4) == 1);
  CHECK(reduced(400) == 2);
  const auto transposed = [](ir::graph& g, ir::node_id x) {
    ir::attributes attr;
    attr.ints = {1, 0};
    return g.push(op::permute, {x}, attr);
  };
  CHECK(recomputed(op::permute, transposed));
  const auto product = [](ir::graph& g, ir::node_id x) {
    ir::attributes attr;
    attr.ints = {0, 1};
    return g.push(op::dot, {x, x}, attr);
  };
  CHECK(!recomputed(op::dot, product));
  const auto random = [](ir::graph& g, ir::node_id x) {
    ir::attributes wide;
    wide.type = dtype::u64;
    const auto k = g.push(op::cast, {x}, wide);
    ir::attributes back;
    back.type = dtype::f32;
    const auto drawn = g.push(op::philox, {k, k});
    return g.push(op::cast, {drawn}, back);
  };
  CHECK(!recomputed(op::philox, random));
  const auto summed = [](ir::graph& g, ir::node_id x) {
    ir::attributes attr;
    attr.combiner = op::add;
    attr.ints = {1, 0};
    return g.push(op::scan, {x}, attr);
  };
  CHECK(!recomputed(op::scan, summed));
  const auto looked_up = [](ir::graph& g, ir::node_id x) {
    ir::attributes index;
    index.type = dtype::i64;
    ir::attributes attr;
    attr.ints = {0};
    return g.push(op::gather, {x, g.push(op::cast, {x}, index)}, attr);
  };
  CHECK(!recomputed(op::gather, looked_up));
}

TEST_CASE("work beyond what the bytes cost is not repeated") {
  ir::graph g;
  const auto x = g.add_input(dtype::f16, {ir::dim(1000)});
  ir::attributes wide;
  wide.type = dtype::f32;
  ir::node_id y = g.push(op::cast, {x}, wide);
  for (int k = 0; k < 200; ++k) y = pushed(g, op::sin, y);
  CHECK(engine::partitioned(g, part_of(g, {y})).from == series<ir::node_id>{y});
}
