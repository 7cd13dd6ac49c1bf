// Kernels of equal shape share code, whose numbers tell them apart, and small ones behind one another a step.
#include <set>
#include <sinter/emit/cpu/kernel.hpp>
#include <sinter/plan/fusion/parts.hpp>

#include "../graphs.hpp"

using namespace graphs;

namespace {

fused planned(graph& g, const target& t = {}) {
  memory_map m;
  m.strides.resize(g.size());
  return fuse(g, m, t);
}

value part(const value& x, std::int64_t start, std::int64_t count, std::int64_t step = 1) {
  return sinter::ir::slice(x, {count}, {start}, {step});
}

/// What one part is: pointwise, a reduction, a product, a scan.
value made(const value& x, int kind, std::int64_t start) {
  const value p = part(x, start, 16);
  if (kind == 0) return exp(p);
  if (kind == 1) return reduce(p * p, op::add, {0});
  if (kind == 2) return dot(reshape(p, {4, 4}), reshape(p, {4, 4}), 0, 1);
  return scan(p, op::add, 0, false);
}

graph of_parts(int kind, int n) {
  graph g;
  const value x = input(g, {16 * n});
  for (int i = 0; i < n; ++i) g.outputs.push_back(made(x, kind, 16 * i).id());
  return g;
}

}  // namespace

TEST_CASE("parts of an array share code, of every kind of kernel") {
  for (int kind = 0; kind < 4; ++kind)
    for (const int n : {40, 160}) {
      INFO(kind, " of ", n);
      graph g = of_parts(kind, n);
      const fused f = planned(g);
      REQUIRE(f.kernels.size() == static_cast<std::size_t>(n));
      const shared_parts p = parts_of(f.kernels, f.alike);
      CHECK(p.codes.size() == 1);
      CHECK(p.step.back() == 0);
      std::set<std::string> texts;
      for (std::size_t k = 0; k < f.kernels.size(); ++k) {
        CHECK(p.first[k] == 0);
        sinter::series<long> numbers;
        p.append_numbers(k, {}, numbers);
        REQUIRE(numbers.size() == 1);
        CHECK(numbers[0] == 16 * static_cast<long>(k));
        texts.insert(sinter::engine::emit::cpu(p.printed(f.kernels, k)).text);
      }
      CHECK(texts.size() == 1);
    }
}

TEST_CASE("three parts, and steps of a loop over a slice, keep their own text") {
  graph g = of_parts(0, 3);
  const fused f = planned(g);
  const shared_parts p = parts_of(f.kernels, f.alike);
  CHECK(p.codes.empty());
  graph h;
  const value x = input(h, {16 * 40});
  for (int i = 0; i < 40; ++i) h.outputs.push_back(exp(part(x, i, 8, 2 + i % 10)).id());
  const fused of_steps = planned(h);
  const shared_parts by_step = parts_of(of_steps.kernels, of_steps.alike);
  CHECK(by_step.codes.size() == 10);  // a stride is no number of a table
}

TEST_CASE("what planning does grows with the number of parts, on every target") {
  for (const target& t : {target{}, gpu_target()})
    for (int kind = 0; kind < 4; ++kind) {
      INFO(kind);
      graph few = of_parts(kind, 100), many = of_parts(kind, 400);
      const fused a = planned(few, t), b = planned(many, t);
      CHECK(b.lowered <= 5 * a.lowered);
      CHECK(b.tried <= 5 * a.tried);
      CHECK(b.considered <= 5 * a.considered);
      CHECK(a.kernels.size() == 100);
      CHECK(b.kernels.size() == 400);
    }
}

TEST_CASE("what one kernel writes another of its step does not read, and large ones have a step each") {
  graph g;
  const value w = input(g, {4, 4});
  value h = input(g, {4, 4});
  for (int i = 0; i < 50; ++i) h = dot(h, w, 0, 1);
  g.outputs = {h.id()};
  const fused chain = planned(g);
  const shared_parts p = parts_of(chain.kernels, chain.alike);
  for (std::size_t k = 1; k < chain.kernels.size(); ++k) CHECK(p.step[k] == p.step[k - 1] + 1);
  graph large;
  const value x = input(large, {20 * 20000});
  for (int i = 0; i < 20; ++i) large.outputs.push_back(exp(part(x, 20000 * i, 20000)).id());
  const fused apart = planned(large);
  const shared_parts q = parts_of(apart.kernels, apart.alike);
  CHECK(q.codes.size() <= 1);
  for (std::size_t k = 1; k < apart.kernels.size(); ++k) CHECK(q.step[k] == q.step[k - 1] + 1);
}
