// Which programs become how many kernels.
#include "../../ir/steps.hpp"
#include "../graphs.hpp"

#include <ctime>
#include <sinter/autodiff/vjp.hpp>
#include <sinter/rewrite/rewrite.hpp>

using namespace graphs;

namespace {

std::string apart(const fused& f) {
  std::string out;
  for (const auto& r : f.apart) out += std::to_string(r.first) + " | " + std::to_string(r.second) + ": " + r.why + "\n";
  return out;
}

/// Kernels of the gradient of sum(y * weight) by each of `wrt`, after the rewrites.
fused fuse_gradient(graph& g, const value& y, const value& weight, std::vector<value> wrt) {
  std::vector<std::int64_t> all;
  for (int d = 0; d < y.rank(); ++d) all.push_back(d);
  std::vector<node_id> by;
  for (const auto& v : wrt) by.push_back(v.id());
  const value loss = sum(y * weight, all);
  g.outputs = sinter::engine::gradient(g, loss.id(), by, {});
  const graph rewritten = sinter::engine::rewrite::run_all(g);
  memory_map m;
  m.strides.resize(rewritten.size());
  return fuse(rewritten, m, {}, true);
}

}  // namespace

TEST_CASE("a very long chain, or sum, is several kernels, of bounded size") {
  graph g;
  value x = input(g, {5});
  for (int i = 0; i < 20000; ++i) x = sin(x);
  fused f = fuse_to({x});
  CHECK(f.kernels.size() >= 5);
  CHECK(f.kernels.size() <= 20);
  for (const auto& k : f.kernels) CHECK(k.body.size() <= 4100);

  graph h;
  value total = input(h, {5});
  for (int i = 0; i < 3000; ++i) total = total + exp(input(h, {5}));
  f = fuse_to({total});
  for (const auto& k : f.kernels) CHECK(k.body.size() <= 4100);
}

TEST_CASE("a chain of pointwise ops is one kernel") {
  graph g;
  const value x = input(g, {64, 32}), b = input(g, {32});
  const value y = exp(x + expand(b, {0}, {64, 32})) * 0.5 + x;
  const fused f = fuse_to({y});
  CHECK(f.kernels.size() == 1);
  CHECK(f.unfused == 4);
}

TEST_CASE("softmax and its gradient are one kernel each") {
  graph g;
  const value x = input(g, {64, 100}), w = input(g, {64, 100});
  const value y = softmax(x);
  CHECK(fuse_to({y}).kernels.size() == 1);
  const fused back = fuse_gradient(g, y, w, {x});
  INFO(apart(back));
  CHECK(back.kernels.size() == 1);
}

TEST_CASE("softmax of columns and its gradient are one kernel each") {
  graph g;
  const value x = input(g, {200, 96}), w = input(g, {200, 96});
  const auto down = [](const value& v, op combiner) { return expand(reduce(v, combiner, {0}), {0}, v.extents()); };
  const value e = exp(x - down(x, op::maximum)), y = e / down(e, op::add);
  CHECK(fuse_to({y}).kernels.size() == 1);
  const fused back = fuse_gradient(g, y, w, {x});
  INFO(apart(back));
  CHECK(back.kernels.size() == 1);
}

TEST_CASE("layer_norm and its gradient by all three are one kernel each") {
  graph g;
  const value x = input(g, {64, 100}), w = input(g, {64, 100}), gain = input(g, {100}), bias = input(g, {100});
  const value y = layer_norm(x, gain, bias);
  CHECK(fuse_to({y}).kernels.size() == 1);
  const fused back = fuse_gradient(g, y, w, {x, gain, bias});
  INFO(apart(back));
  CHECK(back.kernels.size() == 1);
}

TEST_CASE("a normalisation of batches and its gradient by all three are one kernel each") {
  graph g;
  const shape all{8, 16, 14, 14};
  const value x = input(g, all), w = input(g, all), gain = input(g, {16}), bias = input(g, {16});
  const auto channels = [&](const value& v) { return expand(v, {0, 2, 3}, all); };
  const value off = x - channels(sum(x, {0, 2, 3}) * (1.0 / 1568));
  const value root = rsqrt(sum(off * off, {0, 2, 3}) * (1.0 / 1568) + 1e-5);
  const value y = off * channels(root) * channels(gain) + channels(bias);
  CHECK(fuse_to({y}).kernels.size() == 1);
  const fused back = fuse_gradient(g, y, w, {x, gain, bias});
  INFO(apart(back));
  CHECK(back.kernels.size() == 1);
}

TEST_CASE("a product takes its bias and relu along") {
  graph g;
  const value a = input(g, {32, 16}), b = input(g, {16, 24}), c = input(g, {24});
  const value y = maximum(dot(a, b, 0, 1) + expand(c, {0}, {32, 24}), 0.0);
  const fused f = fuse_to({y});
  REQUIRE(f.kernels.size() == 1);
  CHECK(f.kernels[0].is_product());
  CHECK(f.kernels[0].stores.size() == 1);
}

TEST_CASE("what only its own kernel uses is not stored") {
  graph g;
  const value x = input(g, {64, 100}), y = softmax(x);
  const fused f = fuse_to({y});
  REQUIRE(f.kernels.size() == 1);
  CHECK(f.kernels[0].stores.size() == 1);
  CHECK(f.kernels[0].buffers.size() == 2);
  graph h;
  const value z = input(h, {64, 100}), m = reduce(z, op::maximum, {1});
  const fused g2 = fuse_to({z - expand(m, {1}, {64, 100}), m});
  REQUIRE(g2.kernels.size() == 1);
  CHECK(g2.kernels[0].stores.size() == 2);
}

TEST_CASE("a number that follows from row sums is part of their kernel") {
  graph g;
  const value x = input(g, {64, 100});
  const value rows = sum(exp(x), {1}), mean = sum(log(rows), {0}) * (1.0 / 64);
  CHECK(fuse_to({mean}).kernels.size() == 1);
}

TEST_CASE("siblings that read the same are one kernel") {
  graph g;
  const value x = input(g, {64, 32}), y = input(g, {64, 32});
  CHECK(fuse_to({exp(x) + y, x * y, sum(x * y, {1})}).kernels.size() == 1);
}

TEST_CASE("strangers stay apart") {
  graph g;
  const value x = input(g, {64, 32}), y = input(g, {64, 32});
  CHECK(fuse_to({exp(x), exp(y)}).kernels.size() == 2);
}

TEST_CASE("a costly value that kernels share is stored, a cheap one is computed again") {
  auto kernels_writing = [](const fused& f, const value& v) {
    int n = 0;
    for (const auto& k : f.kernels)
      for (const auto& b : k.buffers) n += b.written && b.id == static_cast<int>(v.id());
    return n;
  };
  graph g;
  const value x = input(g, {128, 64}), e = exp(exp(exp(x)));
  // Sums along either axis of both orders cannot share one walk with a product.
  const fused f = fuse_to({dot(e, permute(e, {1, 0}), 0, 1), sum(e, {0}), sum(permute(e, {1, 0}) * 2.0, {0})});
  CHECK(kernels_writing(f, e) == 1);
  graph h;
  const value a = input(h, {1, 4096}), c = a + 1.0;
  const fused cheap = fuse_to({scatter_add(c, input(h, {1, 4096}, dtype::i64), c, 1), sum(c, {0, 1})});
  CHECK(kernels_writing(cheap, c) == 0);
}

TEST_CASE("kernels come in the order of what they read, without circles") {
  graph g;
  const value x = input(g, {30, 40});
  value y = x;
  for (int i = 0; i < 4; ++i) {
    const value columns = sum(y, {0});
    y = y - expand(columns, {0}, {30, 40}) * 0.1 + expand(exp(columns), {0}, {30, 40});
  }
  const fused f = fuse_to({y, sum(y, {1})});
  std::set<int> known{static_cast<int>(x.id())};
  for (const auto& k : f.kernels) {
    for (const auto& b : k.buffers)
      if (!b.written) CHECK(known.count(b.id) == 1);
    for (const auto& b : k.buffers)
      if (b.written) known.insert(b.id);
  }
  CHECK(known.count(static_cast<int>(y.id())) == 1);
}

TEST_CASE("what a later root needs in memory, every root reads from there") {
  // The gather makes %4 be stored after a root that computes it was lowered.
  graph g;
  const value x = input(g, {17, 17}), i = input(g, {17, 17}, dtype::i64), j = input(g, {17, 33}, dtype::i64);
  const value picked = gather(x, i, 1), least = reduce(picked, op::minimum, {0, 1});
  const value again = gather(picked, j, 1), all = picked - expand(least, {0, 1}, {17, 17});
  const fused f = fuse_to({again, reduce(all, op::minimum, {0, 1}), all});
  CHECK(f.kernels.size() >= 2);
}

TEST_CASE("every write of a padded or joined result is somewhere, once") {
  graph g;
  const value x = input(g, {3, 4}), p = pad(exp(x), {1, 0}, {2, 3}, 5);
  const fused f = fuse_to({p});
  std::vector<int> written(6 * 7);
  for (const auto& k : f.kernels)
    for (const auto& s : k.stores) {
      std::int64_t n = 1;
      for (const auto& a : k.axes) n *= *a.extent.number();
      for (std::int64_t e = 0; e < n; ++e) {
        std::int64_t rest = e, at = *s.at.at.offset.number();
        for (std::size_t a = k.axes.size(); a-- > 0; rest /= *k.axes[a].extent.number())
          at += rest % *k.axes[a].extent.number() * *s.at.at.stride[a].number();
        ++written.at(static_cast<std::size_t>(at));
      }
    }
  for (int n : written) CHECK(n == 1);
}

TEST_CASE("an argument is padded by one kernel") {
  graph g;
  const value x = input(g, {30, 4}), p = pad(permute(x, {1, 0}), {1, 0}, {2, 3}, 5);
  const fused f = fuse_to({p});
  REQUIRE(f.kernels.size() == 1);
  CHECK(f.kernels[0].stores.size() == 1);
}

TEST_CASE("kernels know how many symbols there are") {
  graph g;
  const value x = input(g, {dim::symbol(0), dim::symbol(1)});
  const fused f = fuse_to({exp(x)}, {5, 9});
  REQUIRE(f.kernels.size() == 1);
  CHECK(f.kernels[0].symbols == 2);
}

TEST_CASE("kernels that stay apart tell why, in the user's words") {
  graph g;
  const value x(g, g.add_input(dtype::f32, {30, 4}), {"net.cpp", 7});
  const value columns = sum(x, {0}), y = x - expand(columns, {0}, {30, 4});
  const fused f = fuse_to({columns, y});
  REQUIRE(f.kernels.size() == 2);
  REQUIRE(f.apart.size() == 1);
  CHECK(f.apart[0].first == 0);
  CHECK(f.apart[0].second == 1);
  CHECK(f.apart[0].why == "a row is needed after all rows were");
  CHECK(in_words(g, "%" + std::to_string(columns.id()) + " is read") ==
        "%" + std::to_string(columns.id()) + " reduce (at net.cpp:7) is read");
  CHECK(in_words(g, "100% of %9999 and %0") == "100% of %9999 and %0 input");
}

TEST_CASE("a kernel between two keeps them apart, and so does sharing little") {
  graph g;
  const value x = input(g, {64, 64}), w = input(g, {64, 64});
  const value a = exp(x), p = dot(a, w, 0, 1), y = a + dot(p, w, 0, 1);
  const fused f = fuse_to({a, y});
  INFO(apart(f));
  bool around = false;
  for (const auto& n : f.apart) around |= n.why.find("needs one of them and feeds the other") != std::string::npos;
  CHECK(around);
  graph h;
  const value small = input(h, {64}), u = input(h, {64, 512}), v = input(h, {512, 64});
  const fused far = fuse_to({u + expand(small, {1}, {64, 512}), v + expand(small, {0}, {512, 64})});
  REQUIRE(far.apart.size() == 1);
  CHECK(far.apart[0].why.find("they share 256 of the ") == 0);
}

TEST_CASE("four times as many updates take no more than some sixteen times as long to plan") {
  const auto seconds = [](std::size_t count) {
    graph g;
    const value t = input(g, {});
    for (std::size_t i = 0; i < count; ++i) {
      const shape s = {3 + static_cast<int>(i) % 50};
      const value p = input(g, s), d = input(g, s), first = input(g, s), second = input(g, s);
      const value a = first * 0.9 + d * 0.1, b = second * 0.999 + d * d * 0.001;
      for (const value& x : {p - a * rsqrt(b + expand(t, {0}, s)), a, b}) g.outputs.push_back(x.id());
    }
    memory_map m;
    m.strides.resize(g.size());
    const std::clock_t began = std::clock();
    CHECK(fuse(g, m, gpu_target()).kernels.size() == count);
    return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  };
  // 64 times, where each merger looks at every pair anew; a try may be disturbed.
  double ratio = 64;
  for (int i = 0; i < 3 && ratio > 32; ++i) ratio = std::min(ratio, seconds(600) / std::max(seconds(150), 1e-3));
  CHECK(ratio <= 32);
}

TEST_CASE("sixteen times as many branches and loops take no more than some sixteen times as long to plan") {
  const auto planned = [](int count) {
    const graph g = steps::many(count);
    memory_map m;
    m.strides.resize(g.size());
    CHECK(fuse(g, m).kernels.size() >= 2u * count);
  };
  // 80 times, where each step looks for its results in the whole graph.
  CHECK(steps::growth(planned, 400, 16) < 40);
}

TEST_CASE("what computes with more numbers than a launch takes is cut; a CPU's kernel takes any") {
  const int count = 900;
  for (const std::string how : {"a chain", "the other way round", "a tree"}) {
    CAPTURE(how);
    graph g;
    std::vector<value> parts;
    const value x = input(g, {64});
    for (int i = 0; i < count; ++i) parts.push_back(x * expand(input(g, {}), {0}, {64}));
    const auto all = [&](auto& self, std::size_t from, std::size_t end) -> value {
      if (end - from == 1) return parts[from];
      const std::size_t middle = how == "a chain" ? end - 1 : how == "a tree" ? (from + end) / 2 : from + 1;
      return self(self, from, middle) + self(self, middle, end);
    };
    g.outputs = {all(all, 0, parts.size()).id()};
    memory_map m;
    m.strides.resize(g.size());
    m.by_value.assign(g.size(), 0);
    for (const auto id : g.inputs) m.by_value[id] = id != x.id();
    target t;
    CHECK(fuse(g, m, t).kernels.size() == 1);
    t = gpu_target({.parameter_bytes = 32764});
    CHECK(fuse(g, m, t).kernels.size() == 1);
    t.parameter_bytes = 1600;
    const auto cut = fuse(g, m, t).kernels;
    CHECK(cut.size() >= 3);
    CHECK(cut.size() <= 6);
    for (const kernel& k : cut) CHECK(8 * 3 + 4 * k.buffers.size() <= 1600);
  }
}
