#include <numeric>
#include <tuple>

#include <sinter/autodiff/vjp.hpp>
#include <sinter/rewrite/rewrite.hpp>

#include "../ir/arrays.hpp"
#include "../plan/fusion/deep_graphs.hpp"

using namespace sinter::engine::rewrite;
namespace ir = sinter::ir;
using arrays::literal_array;
using sinter::dtype;
using sinter::ir::graph;
using sinter::ir::node_id;

TEST_CASE("dead code goes, inputs stay, locations survive") {
  graph g;
  const value x(g, g.add_input(dtype::f32, {3}), {"user.cpp", 5}), y(g, g.add_input(dtype::f32, {3}));
  exp(x * x);
  g.outputs = {value(g, x.id(), {"user.cpp", 9}).id(), log(value(g, x.id(), {"user.cpp", 9})).id()};
  const graph after = dead_code(g);
  CHECK(after.size() == 3);
  CHECK(after.inputs.size() == 2);
  CHECK(after[after.outputs[1]].where.line == 9);
  CHECK(sinter::ir::print(after) == "%0 = f32(3,) input 0\n%1 = f32(3,) input 1\n%2 = f32(3,) log %0\nreturn %0 %2\n");
}

TEST_CASE("constants fold as their dtype computes") {
  graph g;
  const auto folded_text = [&](const value& v) {
    g.outputs = {v.id()};
    return sinter::ir::print(run_all(g));
  };
  const value third(g, g.constant(dtype::f32, 1.0, {2})), byte(g, g.constant(dtype::u8, 250, {2}));
  CHECK(folded_text(third / 3.0) == "%0 = f32(2,) constant 0.3333333432674408\nreturn %0\n");
  CHECK(folded_text(byte + 10.0) == "%0 = u8(2,) constant 4\nreturn %0\n");
  CHECK(folded_text(byte / 0.0) == "%0 = u8(2,) constant 0\nreturn %0\n");
  CHECK(folded_text(cast(gt(byte, 3.0), dtype::f64)) == "%0 = f64(2,) constant 1\nreturn %0\n");
  CHECK(folded_text(select(gt(byte, 3.0), third, 7.0)) == "%0 = f32(2,) constant 1\nreturn %0\n");
  CHECK(folded_text(log(third - 2.0)).find("nan") != std::string::npos);
  CHECK(folded_text(cast(third * 1e10, dtype::i8)) == "%0 = i8(2,) constant 127\nreturn %0\n");
}

TEST_CASE("softmax cross-entropy and its gradient keep their values and lose nodes") {
  graph g;
  const value x(g, g.add_input(dtype::f64, {5, 7})), w(g, g.add_input(dtype::f64, {7, 3}));
  const value label(g, g.add_input(dtype::i64, {5, 1}));
  const value m(g, g.mark(w.id()));
  const value h = dot(x, m, 0, 1), top = reduce(h, op::maximum, {1});
  const value shifted = h - expand(push(op::stop_gradient, {top}), {1}, h.extents());
  const value logp = shifted - expand(log(reduce(exp(shifted), op::add, {1})), {1}, h.extents());
  const value loss = reduce(reshape(-gather(logp, label, 1), {5}), op::add, {0}) / 5.0;
  const node_id wrt[] = {m.id()};
  const auto slope = sinter::engine::gradient(g, loss.id(), wrt, {});
  g.outputs = {loss.id(), slope[0]};
  const std::vector<literal_array> in{arrays::random(dtype::f64, {5, 7}, 1), arrays::random(dtype::f64, {7, 3}, 2),
                                      arrays::of(dtype::i64, {5, 1}, {0, 2, 1, 1, 0})};
  const graph after = run_all(g);
  sinter::ir::check(after, "run_all");
  const auto expected = arrays::run(g, in), got = arrays::run(after, in);
  for (std::size_t k = 0; k < 2; ++k) CHECK(arrays::difference(expected[k], got[k], 1e-12) == "");
  CHECK(after.size() < g.live().size());
  for (node_id id = 0; id < after.size(); ++id) CHECK(after[id].code != op::scatter_add);
  CHECK(sinter::ir::print(run_all(after)) == sinter::ir::print(after));
}

namespace {

/// A random program over (3, 4) tensors, views and reductions included.
value random_program(graph& g, std::mt19937& random, dtype t) {
  const shape full{3, 4};
  std::vector<value> pool{{g, g.add_input(t, full)}, {g, g.add_input(t, full)}};
  for (double c : {0.0, -0.0, 1.0, 2.0, -1.0}) pool.push_back(pool[0].like(c));
  const auto pick = [&] { return pool[random() % pool.size()]; };
  for (int step = 0; step < 14; ++step) {
    const value a = pick(), b = pick();
    value r;
    switch (random() % 14) {
      case 0:
        r = a + b;
        break;
      case 1:
        r = a - b;
        break;
      case 2:
        r = a * b;
        break;
      case 3:
        r = a / b;
        break;
      case 4:
        r = -a;
        break;
      case 5:
        r = maximum(a, b);
        break;
      case 6:
        r = select(lt(a, b), a, pick());
        break;
      case 7:
        r = reshape(permute(reshape(permute(a, {1, 0}), {2, 6}), {1, 0}), full);
        break;
      case 8:
        r = expand(reduce(a, random() % 2 ? op::add : op::maximum, {1}), {1}, full);
        break;
      case 9:
        r = expand(reduce(a, op::minimum, {0, 1}), {0, 1}, full);
        break;
      case 10:
        r = slice(slice(a, full, {2, 3}, {-1, -1}), full, {2, 0}, {-1, 1});
        break;
      case 11:
        r = slice(pad(a, {1, 0}, {0, 2}, 1.0), full, {0, 1}, {1, 1});
        break;
      case 12:
        r = pow(a, static_cast<double>(random() % 3));
        break;
      default:
        r = cast(cast(a, is_float(t) ? dtype::f64 : dtype::i64), t);
        break;
    }
    pool.push_back(r);
  }
  return pool.back() + pick();
}

}  // namespace

TEST_CASE("random programs keep their values") {
  std::mt19937 random(17);
  for (int i = 0; i < 400; ++i) {
    const dtype t = i % 2 ? dtype::f64 : dtype::i16;
    graph g;
    g.outputs = {random_program(g, random, t).id()};
    const graph after = run_all(g);
    sinter::ir::check(after, "run_all");
    const std::vector<literal_array> in{arrays::random(t, {3, 4}, static_cast<unsigned>(i), -3, 3),
                                        arrays::random(t, {3, 4}, static_cast<unsigned>(i + 1), -3, 3)};
    CAPTURE(sinter::ir::print(g));
    CAPTURE(sinter::ir::print(after));
    CHECK(arrays::difference(arrays::run(g, in)[0], arrays::run(after, in)[0], 1e-9) == "");
  }
}

TEST_CASE("deeper networks take as many passes, and rules fire in proportion to their nodes") {
  struct counting final : observer {
    int passes = 0;
    void after(const char*, const ir::graph&) override { ++passes; }
  };
  const auto counts = [](int layers) {
    const ir::graph g = deep::unwritten_network(layers);
    counting seen;
    const ir::graph out = run_all(g, &seen);
    firings fired{};
    simplify(g, fired);
    return std::tuple{seen.passes, std::accumulate(fired.begin(), fired.end(), std::size_t{0}), out.size()};
  };
  const auto [passes, fired, nodes] = counts(8);
  const auto [more_passes, more_fired, more_nodes] = counts(32);
  CHECK(more_passes == passes);
  CHECK(fired > 0);
  // The first layer has no cotangents below it.
  CHECK(static_cast<double>(more_fired) <= 4.1 * static_cast<double>(fired));
  CHECK(static_cast<double>(more_nodes) <= 4.1 * static_cast<double>(nodes));
}

TEST_CASE("what is rewritten once more is equal, and passes that would change nothing say so") {
  const ir::graph out = run_all(deep::unwritten_network(3), nullptr);
  CHECK(ir::equal(run_all(out, nullptr), out));
  CHECK(ir::print(run_all(out, nullptr)) == ir::print(out));
  CHECK_FALSE(has_folds(out));
  CHECK_FALSE(has_parts(out));
  CHECK(ir::equal(dead_code(out), out));
}

TEST_CASE("the order of pushing does not show after dead_code") {
  const auto build = [](bool swapped) {
    graph g;
    const value x(g, g.add_input(dtype::f32, {3})), y(g, g.add_input(dtype::f32, {3}));
    value a, b;
    if (swapped) b = exp(y), a = exp(x);
    else a = exp(x), b = exp(y);
    g.outputs = {(b * a + b).id(), a.id()};
    return sinter::ir::print(dead_code(g));
  };
  CHECK(build(false) == build(true));
}

TEST_CASE("a step with an effect stands before its first reader, not before all other work") {
  const auto called = [](graph& g, const value& x) {
    auto f = std::make_shared<ir::foreign>();
    f->name = "step";
    f->identity = ir::new_identity();
    ir::opaque step;
    step.kind = ir::opaque_kind::host_call;
    step.function = std::move(f);
    step.results = {{dtype::f32, {3}}};
    return value(g, ir::push_opaque(g, ir::seal(std::move(step)), {x.id()}, {})[0]);
  };
  // Layers multiply what a step gives; all steps are pushed first.
  constexpr std::size_t layers = 6;
  graph g;
  value h(g, g.add_input(dtype::f32, {3}));
  std::vector<value> weights;
  for (std::size_t k = 0; k < layers; ++k) weights.push_back(called(g, value(g, g.add_input(dtype::f32, {3}))));
  for (std::size_t k = 0; k < layers; ++k) h = k % 2 ? exp(weights[k] * h) : exp(h * weights[k]);
  called(g, h);  // which nobody reads
  g.outputs = {h.id()};
  const graph after = dead_code(g);
  ir::check(after, "dead_code");
  REQUIRE(after.effects.size() == layers + 1);
  CHECK(ir::equal(dead_code(after), after));
  for (std::size_t k = 1; k < layers; ++k) {
    // The layer before is complete.
    std::size_t exponentials = 0;
    for (node_id id = 0; id < after.effects[k]; ++id) exponentials += after[id].code == ir::op::exp;
    CHECK(exponentials == k);
  }
}
