// The public graph: read, rewritten, run; passes; backends of the user's.
#include <atomic>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../texts.hpp"

using namespace sinter;
using texts::contains;
using texts::message_of;

namespace {

auto affine() {
  return [](tensor<float, 2> x, tensor<float, 1> b) { return exp(x * 2.f + broadcast_to(b, x.shape())); };
}

/// Replaces a + b by b + a: another graph with equal results.
graph swapped(graph g) {
  for (const graph::id id : g.order())
    if (const auto n = g[id]; n.code == ir::op::add && n.in[0] > n.in[1])
      g.replace(id, g.push(ir::op::add, {n.in[1], n.in[0]}, {}, n.where));
  return g;
}

}  // namespace

TEST_CASE("a spec stands for a tensor; nodes have ops, operands, shapes and places") {
  const graph g = trace(affine())(spec<tensor<float, 2>>{{3, 4}}, spec<tensor<float, 1>>{{4}});
  CHECK(g.text() == trace(affine())(ones<float>(3, 4), ones<float>(4)).text());
  CHECK(g.inputs().size() == 2);
  CHECK(g.captured() == 0);
  REQUIRE(g.outputs().size() == 1);
  const ir::node n = g[g.outputs()[0]];
  CHECK(n.code == ir::op::exp);
  CHECK(std::string(ir::name(n.code)) == "exp");
  CHECK(n.type == dtype::f32);
  CHECK(ir::text_of(n.extents) == "(3, 4)");
  CHECK(contains(n.where.file, "graph_test.cpp"));
  CHECK(n.in.size() == 1);
  CHECK(g[n.in[0]].code == ir::op::add);
  CHECK(g.order().size() == g.nodes());
  CHECK(g.text(g.outputs()[0]) ==
        "%" + std::to_string(g.outputs()[0]) + " = f32(3, 4) exp %" + std::to_string(n.in[0]));
  CHECK(contains(message_of([&] { g[1000]; }), "%1000 is no node of this graph"));
}

TEST_CASE("a graph runs: alone, in a trace, with captured tensors, on other memory layouts") {
  const tensor<float, 1> w{0.5f, -1.f, 2.f};
  const auto f = [w](tensor<float, 2> x) { return std::pair{sin(x) * broadcast_to(w, x.shape()), sum(x, axis<1>)}; };
  const tensor<float, 2> x{{1, 2, 3}, {4, 5, 6}};
  const graph g = trace(f)(x);
  CHECK(g.captured() == 1);
  const auto [a, b] = g.run<tensor<float, 2>, tensor<float, 1>>(x);
  const auto [wa, wb] = compile(f)(x);
  CHECK(all(a == wa).item());
  CHECK(all(b == wb).item());
  const tensor<float, 2> turned = transpose(tensor<float, 2>{{1, 4}, {2, 5}, {3, 6}});
  CHECK(all(std::get<0>(g.run<tensor<float, 2>, tensor<float, 1>>(turned)) == wa).item());
  const auto inside = compile([g](tensor<float, 2> y) {
    const auto [c, d] = g.run<tensor<float, 2>, tensor<float, 1>>(y * 2.f);
    return sum(c) + sum(d);
  });
  const auto [da, db] = f(x * 2.f);
  CHECK(inside(x).item() == doctest::Approx(sum(tensor<float, 2>(da)).item() + sum(tensor<float, 1>(db)).item()));
  const auto slope =
      grad([g](tensor<float, 2> y) { return sum(std::get<0>(g.run<tensor<float, 2>, tensor<float, 1>>(y))); })(x);
  CHECK(all(abs(slope - cos(x) * broadcast_to(w, x.shape())) < 1e-6f).item());

  CHECK(contains(message_of([&] { g.run<tensor<float, 2>>(x); }), "the graph gives 2 results, not 1"));
  CHECK(contains(message_of([&] { g.run<tensor<float, 2>, tensor<float, 1>>(x, x); }),
                 "the graph takes 1 arguments, not 2"));
  CHECK(contains(message_of([&] { g.run<tensor<float, 2>, tensor<float, 1>>(ones<float>(2, 4)); }),
                 "argument 0 is f32(2, 4), the graph takes f32(2, 3)"));
  CHECK(contains(message_of([&] { g.run<tensor<double, 2>, tensor<float, 1>>(x); }), "result 0 is f32(2, 3)"));
}

TEST_CASE("a graph of open sizes runs for several sizes, and refuses those for which it does not hold") {
  const auto f = [](tensor<float, 2> x) { return reshape(x, x.shape()[0] * x.shape()[1]) * 2.f; };
  const graph g = trace(f, {.dynamic = dynamic::yes})(spec<tensor<float, 2>>{{3, 5}});
  CHECK(contains(g.text(), "s0"));
  for (const auto& [n, m] : {std::pair{3, 5}, std::pair{7, 2}, std::pair{4, 9}}) {
    const tensor<float, 2> x = reshape(arange<float>(n * m), n, m);
    CHECK(all(g.run<tensor<float, 1>>(x) == reshape(x, n * m) * 2.f).item());
  }
  const graph equal = trace([](tensor<float, 1> a, tensor<float, 1> b) { return a + b; }, {.dynamic = dynamic::yes})(
      spec<tensor<float, 1>>{{6}}, spec<tensor<float, 1>>{{6}});
  CHECK(all(equal.run<tensor<float, 1>>(ones<float>(9), ones<float>(9)) == 2.f).item());
  CHECK(contains(message_of([&] { equal.run<tensor<float, 1>>(ones<float>(9), ones<float>(8)); }), "graph::run"));
}

TEST_CASE("push infers and refuses; ids stay valid while operands are replaced") {
  graph g;
  const auto x = g.add_input(dtype::f32, {4}), y = g.add_input(dtype::f32, {4});
  const auto s = g.push(ir::op::add, {x, y}), p = g.push(ir::op::mul, {s, x}), q = g.push(ir::op::sub, {s, p});
  g.set_outputs({q});
  CHECK(g.push(ir::op::add, {x, y}) == s);
  g.replace(s, g.push(ir::op::neg, {s}));
  CHECK(g.text() ==
        "%0 = f32(4,) input 0\n%1 = f32(4,) input 1\n%2 = f32(4,) add %0 %1\n%3 = f32(4,) neg %2\n%4 = f32(4,) mul %3 "
        "%0\n%5 = f32(4,) sub %3 %4\nreturn %5\n");
  CHECK(g[q].in[1] == p);
  // The old product is a new node now; ids of nodes whose operands changed keep their meaning.
  const auto old = g.push(ir::op::mul, {s, x});
  CHECK(old != p);
  CHECK(g[old].in[0] == s);
  CHECK(g[g[p].in[0]].code == ir::op::neg);
  const tensor<float, 1> a{1, 2, 3, 4}, b{5, 6, 7, 8};
  CHECK(all(g.run<tensor<float, 1>>(a, b) == -(a + b) - (-(a + b)) * a).item());
  const graph copy = g;
  g.replace(q, x);
  CHECK(g.nodes() == 2);
  CHECK(copy.nodes() == 6);

  CHECK(contains(message_of([&] { g.push(ir::op::add, {x}); }), "[graph::push] add takes another number of operands"));
  CHECK(
      contains(message_of([&] { g.push(ir::op::slice, {}); }), "[graph::push] slice takes another number of operands"));
  CHECK(contains(message_of([&] {
                   g.push(ir::op::add, {x, g.constant(dtype::f32, 1, {3})});
                 }),
                 "[add] shapes differ: (4,) and (3,)"));
  CHECK(contains(message_of([&] { g.push(ir::op::input, {}); }), "add_input makes one"));
  CHECK(contains(message_of([&] { g.push(ir::op::opaque, {x}); }), "an opaque node needs attributes"));
  CHECK(contains(message_of([&] { g.push(ir::op::neg, {99}); }), "%99 is no node"));
  CHECK(contains(message_of([&] { g.replace(x, g.constant(dtype::f32, 1, {3})); }),
                 "both must have one dtype and shape"));
}

TEST_CASE("rewriting goes into no branch, but keeps it, and reads its parts") {
  const auto f = [](tensor<float, 1> x) {
    const auto y = cond(
        sum(x) > 0.f, [](tensor<float, 1> v) { return v * 2.f; }, [](tensor<float, 1> v) { return v - 1.f; }, x);
    return exp(tensor<float, 1>(y));
  };
  graph g = trace(f)(spec<tensor<float, 1>>{{5}});
  std::size_t parts = 0;
  for (const auto id : g.order()) parts += g.parts(id).size();
  CHECK(parts == 2);
  const auto out = g.outputs()[0];
  g.replace(out, g.push(ir::op::neg, {out}));
  for (const float by : {1.f, -1.f}) {
    const tensor<float, 1> x = arange<float>(5) * by;
    CHECK(all(abs(g.run<tensor<float, 1>>(x) + compile(f)(x)) < 1e-4f).item());
  }
}

TEST_CASE("passes run before the engine's rewrites, and are part of the key of programs") {
  const auto f = [](tensor<float, 1> x) { return (x * 3.f + 1.f) * 0.5f; };
  const tensor<float, 1> x{1, 2, 3};
  std::atomic<int> runs{0};
  // Doubles each constant of the graph: not an equal graph, so that its effect shows.
  const auto doubled = [&runs](graph g) {
    ++runs;
    for (const auto id : g.order())
      if (const auto n = g[id]; n.code == ir::op::constant)
        g.replace(id, g.constant(n.type, n.attr.literal.f * 2, n.extents));
    return g;
  };
  const tensor<float, 1> plain = compile(f)(x), twice = (x * 6.f + 2.f) * 1.f;
  for (const char* backend : {"auto", "reference", "aot_reference"}) {
    const options how{.backend = backend, .passes = {{"double", "1", doubled}}};
    CHECK(all(compile(f, how)(x) == twice).item());
  }
  CHECK(runs == 3);
  CHECK(all(compile(f)(x) == plain).item());
  CHECK(all(compile(f, {.passes = {{"double", "1", doubled}}})(x) == twice).item());
  CHECK(runs == 3);  // an equal program is known
  CHECK(all(compile(f, {.passes = {{"double", "2", doubled}}})(x) == twice).item());
  CHECK(runs == 4);
  for (int k = 0; k < 2; ++k) CHECK(all(compile(f, {.passes = {{"double", "", doubled}}})(x) == twice).item());
  CHECK(runs == 6);  // without a version nothing is kept
  CHECK(all(compile(f, {.passes = {{"double", "1", doubled}, {"again", "1", doubled}}})(x) == (x * 12.f + 4.f) * 2.f)
            .item());
}

TEST_CASE("verify compares the graph before the passes with the kernels after them") {
  const auto f = [](tensor<float, 1> x) { return exp(x) + x * 2.f; };
  const tensor<float, 1> x{0.5f, 1.5f, -2.f};
  CHECK(verify(f, {.passes = {{"swap", "1", swapped}}})(x));
  const auto wrong = [](graph g) {
    for (const auto id : g.order())
      if (const auto n = g[id]; n.code == ir::op::exp) g.replace(id, g.push(ir::op::sin, n.in, {}, n.where));
    return g;
  };
  const verification v = verify(f, {.passes = {{"swap", "1", swapped}, {"wrong", "1", wrong}}})(x);
  CHECK(v.found == verification::outcome::differs);
  CHECK(contains(v.text(), "the user's passes came first: swap, wrong"));
}

TEST_CASE("a pass keeps inputs and results; its own errors pass through") {
  const auto f = [](tensor<float, 1> x) { return x * 2.f; };
  const tensor<float, 1> x{1, 2};
  const auto why = [&](detail::callback<graph(graph)> run) {
    return message_of([&] { compile(f, {.passes = {{"p", "1", run}}, .name = "step"})(x); });
  };
  CHECK(contains(why([](graph g) {
                   g.set_outputs({});
                   return g;
                 }),
                 "[step] the pass 'p' returns a graph of 0 results, it got 1"));
  CHECK(contains(why([](graph g) {
                   g.set_outputs({g.constant(dtype::f32, 1, {3})});
                   return g;
                 }),
                 "the pass 'p' makes result 0 a f32(3,), it was a f32(2,)"));
  CHECK(contains(why([](graph g) {
                   g.add_input(dtype::f32, {});
                   return g;
                 }),
                 "returns a graph of 2 inputs, it got 1"));
  CHECK(contains(why([](graph) -> graph { throw user_error("mine"); }), "mine"));
  CHECK(contains(why({}), "the pass 'p' has no function"));
}

TEST_CASE("a registered backend runs functions, for each set of extents once") {
  static std::atomic<int> compiled{0}, called{0};
  static std::string seen;
  register_backend("doubling", {.version = "1", .compile = [](const graph& g, backend_arrays examples) -> backend_call {
                                  ++compiled;
                                  seen = g.text();
                                  const bool has_exp = seen.find("exp") != std::string::npos;
                                  if (has_exp) throw system_error("this machine has no exp");
                                  CHECK(examples.size() == g.inputs().size());
                                  return [](backend_arrays in, backend_arrays out) {
                                    ++called;
                                    std::int64_t n = 1;
                                    for (int d = 0; d < in[0].rank; ++d) n *= in[0].extents[d];
                                    for (std::int64_t i = 0; i < n; ++i)
                                      static_cast<float*>(out[0].data)[i] =
                                          2 * static_cast<const float*>(in[0].data)[i];
                                  };
                                }});
  const options how{.dynamic = dynamic::yes, .backend = "doubling"};
  const auto f = compile([](tensor<float, 2> x) { return x + x; }, how);
  const tensor<float, 2> x{{1, 2, 3}, {4, 5, 6}};
  CHECK(all(f(x) == x + x).item());
  CHECK(all(f(transpose(x)) == transpose(x) + transpose(x)).item());
  CHECK(all(f(x) == x + x).item());
  CHECK(called == 3);
  CHECK(compiled == 2);
  CHECK(!contains(seen, "s0"));
  CHECK(f.report().backend == "doubling");

  const auto g = compile([](tensor<float, 1> y) { return exp(y); }, {.backend = "doubling"});
  CHECK(g(tensor<float, 1>{0}).item() == 1);  // the reference answers
  CHECK(contains(g.report().problem, "this machine has no exp"));

  const auto refused = [](const std::string& name, backend_row row) {
    return message_of([&] { register_backend(name, row); });
  };
  const backend_row good{.version = "1", .compile = [](const graph&, backend_arrays) { return backend_call(); }};
  CHECK(contains(refused("cpu", good), "'cpu' is a backend of sinter's"));
  CHECK(contains(refused("doubling", good), "there is a backend 'doubling' already"));
  CHECK(contains(refused("", good), "is no name for a backend"));
  backend_row unversioned = good;
  unversioned.version = "";
  CHECK(contains(refused("new", unversioned), "has no version"));
  CHECK(contains(refused("new", {.version = "1"}), "has no function"));
  CHECK(contains(
      message_of([&] { compile([](tensor<float, 1> y) { return y; }, {.backend = "missing"})(tensor<float, 1>{1}); }),
      "\"aot_reference\" or \"doubling\""));
}
