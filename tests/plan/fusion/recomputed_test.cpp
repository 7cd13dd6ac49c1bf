// Programs whose views of computed values would multiply: what is stored, and how much an element takes.
#include "../graphs.hpp"

#include <ctime>

using namespace graphs;

namespace {

value rows(const value& x, std::int64_t from, std::int64_t count, std::int64_t step = 1) {
  shape counts = x.extents(), starts(counts.size());
  std::vector<std::int64_t> steps(counts.size(), 1);
  counts[0] = count;
  starts[0] = from;
  steps[0] = step;
  return slice(x, counts, starts, steps);
}
std::int64_t height(const value& x) { return *x.extents()[0].number(); }

/// Neighbours added, of half as many rows.
value halved(const value& x) { return rows(x, 0, height(x) / 2, 2) + rows(x, 1, height(x) / 2, 2); }
value differences(const value& x) { return rows(x, 1, height(x) - 1) - rows(x, 0, height(x) - 1); }
value turned(const value& x) { return permute(x, {1, 0}); }
value pyramid(const value& x) { return turned(halved(turned(halved(x)))) * 0.25; }
value blur(const value& x) {
  const std::int64_t n = height(x) - 2, m = *x.extents()[1].number() - 2;
  value total = slice(x, {n, m}, {0, 0}, {1, 1});
  for (std::int64_t i = 1; i < 9; ++i) total = total + slice(x, {n, m}, {i / 3, i % 3}, {1, 1});
  return total * (1.0 / 9);
}

struct costs {
  std::size_t kernels = 0;
  std::size_t loads = 0, computed = 0;  ///< per element of the kernel with most
};
costs of(const fused& f) {
  costs c;
  c.kernels = f.kernels.size();
  for (const auto& k : f.kernels) {
    std::size_t loads = 0, computed = 0;
    for (const auto& i : k.body) loads += i.kind == kind::load, computed += i.kind == kind::compute;
    c.loads = std::max(c.loads, loads);
    c.computed = std::max(c.computed, computed);
  }
  return c;
}

template <class F>
costs repeated(int times, shape extents, bool gpu, F&& f) {
  graph g;
  value x = input(g, std::move(extents));
  for (int i = 0; i < times; ++i) x = f(x);
  g.outputs.push_back(x.id());
  memory_map m;
  m.strides.resize(g.size());
  return of(fuse(g, m, gpu ? gpu_target() : target()));
}

}  // namespace

TEST_CASE("views of what views are computed from do not multiply") {
  for (const bool gpu : {false, true}) {
    CAPTURE(gpu);
    const std::clock_t start = std::clock();
    costs c = repeated(10, {4096}, gpu, halved);
    CHECK(c.kernels == 3);
    CHECK(c.loads == 16);
    CHECK(c.computed == 15);
    c = repeated(4, {512, 512}, gpu, pyramid);
    CHECK(c.kernels == 2);
    CHECK(c.loads == 16);
    CHECK(c.computed == 20);
    c = repeated(120, {1000}, gpu, differences);
    CHECK(c.kernels <= 18);
    CHECK(c.loads == 8);
    CHECK(c.computed == 28);
    c = repeated(7, {256, 256}, gpu, blur);
    CHECK(c.kernels == 7);
    CHECK(c.loads == 9);
    CHECK(c.computed == 9);
    c = repeated(40, {1 << 20}, gpu, [](const value& x) { return differences(exp(x)); });
    CHECK(c.kernels <= 40);
    CHECK(c.computed <= 16);
    CHECK(double(std::clock() - start) / CLOCKS_PER_SEC < 5);
  }
}

TEST_CASE("a pad of short rows is in memory where a window of many taps reads it") {
  const auto window = [](std::int64_t width, std::int64_t taps, bool gpu) {
    graph g;
    const value x = pad(input(g, {16, 14, width}) * 2.0, {0, 1, 1}, {0, 1, 1}, 0.0);
    value total;
    for (std::int64_t i = 0; i < taps; ++i) {
      const value tap = slice(x, {16, 14, width}, {0, i / 3, i % 3}, {1, 1, 1});
      total = total ? total + tap : tap;
    }
    g.outputs.push_back(total.id());
    memory_map m;
    m.strides.resize(g.size());
    return fuse(g, m, gpu ? gpu_target() : target());
  };
  const auto guards = [](const fused& f) {
    std::size_t n = 0;
    for (const auto& k : f.kernels)
      n += std::count_if(k.body.begin(), k.body.end(), [](const auto& i) { return i.kind == kind::inside; });
    return n;
  };
  // The middle, the rows above and below, the columns beside, the sums.
  const fused stored = window(14, 9, false);
  CHECK(stored.kernels.size() == 4);
  CHECK(guards(stored) == 0);
  CHECK(guards(window(14, 5, false)) > 0);
  CHECK(guards(window(1024, 9, false)) > 0);
  CHECK(guards(window(14, 9, true)) > 0);
}

TEST_CASE("what views of a computed value cost a little is computed anew") {
  graph g;
  const value x = input(g, {1000}), e = exp(x), y = rows(e, 1, 998) * 2.0 - rows(e, 0, 998) + rows(e, 2, 998);
  CHECK(of(fuse_to({y})).kernels == 1);
  // However many operations follow one another at one index.
  graph h;
  value z = input(h, {1000});
  for (int i = 0; i < 100; ++i) z = sin(z);
  CHECK(of(fuse_to({z})).kernels == 1);
  // Of a chain that is computed too often, the result is stored.
  graph j;
  value w = input(j, {1000});
  for (int i = 0; i < 20; ++i) w = w * 1.5 + 1.0;
  value total = rows(w, 0, 990);
  for (int i = 1; i < 10; ++i) total = total + rows(w, i, 990);
  const fused f = fuse_to({total});
  REQUIRE(f.kernels.size() == 2);
  CHECK(f.kernels[0].stores[0].at.buffer >= 0);
  CHECK(f.kernels[0].buffers[static_cast<std::size_t>(f.kernels[0].stores[0].at.buffer)].id ==
        static_cast<int>(w.id()));
}

TEST_CASE("reads through reshapes, gathers and joined results are counted, whatever the sizes") {
  const dim n = dim::symbol(0);
  for (const bool open : {false, true}) {
    CAPTURE(open);
    graph g;
    value x = input(g, {open ? n : dim(64), 8}), i = input(g, {open ? n : dim(64), 8}, dtype::i64);
    for (int k = 0; k < 12; ++k) {
      const value flat = reshape(x * 1.5, {x.extents()[0] * dim(8)});
      x = x + reshape(slice(flat, {x.extents()[0] * dim(8)}, {x.extents()[0] * dim(8) - dim(1)}, {-1}), x.extents());
      x = k % 3 ? x : gather(x, i, 0) + x;
    }
    g.outputs.push_back(sum(exp(x), {0}).id());
    memory_map m;
    m.strides.resize(g.size());
    if (open) m.hints = {50};
    const costs c = of(fuse(g, m));
    CHECK(c.computed <= 80);
    CHECK(c.kernels <= 12);
  }
}

namespace {

/// A step of the heat equation in as many dimensions as x has.
value heat(const value& x) {
  const shape s = x.extents();
  const std::vector<std::int64_t> one(s.size(), 1);
  const value p = pad(x, shape(s.size(), 1), shape(s.size(), 1), 0);
  value total = x * (1 - 0.2 * double(s.size()));
  for (std::size_t d = 0; d < s.size(); ++d)
    for (const int to : {0, 2}) {
      shape start(s.size(), 1);
      start[d] = to;
      total = total + slice(p, s, start, {one.begin(), one.end()}) * 0.1;
    }
  return total;
}

}  // namespace

TEST_CASE("steps of stencils are a kernel each, and none computes a step before anew") {
  const dim n = dim::symbol(0);
  for (const shape& s : {shape{4096}, shape{512, 500}, shape{40, 50, 60}, shape{n, n}})
    for (const bool gpu : {false, true}) {
      CAPTURE(s.size());
      CAPTURE(gpu);
      graph g;
      value x = input(g, s);
      for (int i = 0; i < 10; ++i) x = heat(x);
      g.outputs.push_back(x.id());
      memory_map m;
      m.strides.resize(g.size());
      m.hints = {300};
      const costs c = of(fuse(g, m, gpu ? gpu_target() : target()));
      CHECK(c.kernels <= 10);
      CHECK(c.kernels >= 4);
      CHECK(c.loads <= 16);
      CHECK(c.computed <= 60);
    }
}

TEST_CASE("a read depends on so many conditions at most, however long a chain of pads or joins is") {
  for (const bool joins : {false, true})
    for (const bool gpu : {false, true}) {
      CAPTURE(joins);
      CAPTURE(gpu);
      graph g;
      value x = input(g, {64});
      for (int i = 0; i < 60; ++i) {
        sinter::ir::attributes first;
        first.ints = {0};
        x = joins ? push(op::concat, {x, input(g, {3})}, first) : pad(x, {1}, {1}, i % 7) * 0.5;
      }
      g.outputs.push_back((x * 2.0).id());
      memory_map m;
      m.strides.resize(g.size());
      const fused f = fuse(g, m, gpu ? gpu_target() : target());
      std::size_t most = 0;
      for (const kernel& k : f.kernels)
        for (const auto& i : k.body) most = std::max(most, i.ranges.size());
      CHECK(most <= max_ranges);
      CHECK(f.kernels.size() > 1);
      CHECK(f.kernels.size() < 70);
    }
}
