// Rewrites inside opaque nodes: parts become simpler, and what nothing reads is gone from both sides.
#include <sinter/autodiff/vjp.hpp>
#include <sinter/rewrite/rewrite.hpp>

#include "../ir/arrays.hpp"
#include "../ir/steps.hpp"

using namespace sinter::engine::rewrite;
using sinter::dtype;
using sinter::ir::graph;
using sinter::ir::node_id;
using steps::value;
using steps::values;

namespace {

constexpr auto f64 = dtype::f64;

value input(graph& g, sinter::ir::shape e) { return {g, g.add_input(f64, std::move(e))}; }

const sinter::ir::node& only_step(const graph& g) {
  const sinter::ir::node* found = nullptr;
  for (auto id : g.live())
    if (g[id].code == sinter::ir::op::opaque) {
      CHECK(found == nullptr);
      found = &g[id];
    }
  REQUIRE(found != nullptr);
  return *found;
}

}  // namespace

TEST_CASE("bodies are simplified; stacks, slices and constants that nothing reads go; constants move in") {
  graph g;
  const value h = input(g, {2}), xs = input(g, {3, 2}), unread = input(g, {3, 2}), k = input(g, {2}),
              two(g, g.constant(f64, 2.0, {2}));
  const auto out = steps::loop(3, {h}, {xs, unread}, {k, two}, [](value, values c, values x, values n) {
    const value next = c[0] * 1.0 * n[1] + x[0];
    return values{next, next + n[0], x[0] + x[1]};
  });
  g.outputs = {out[0].id()};
  const graph after = run_all(g);
  sinter::ir::check(after, "test");
  const auto& n = only_step(after);
  CHECK(n.in.size() == 2);
  CHECK(n.attr.step->stacked == 0);
  CHECK(n.attr.step->parts[0].live().size() == 6);  // index, carry, slice, 2, mul, add
  const std::vector<arrays::literal_array> in{arrays::random(f64, {2}, 1), arrays::random(f64, {3, 2}, 2),
                                              arrays::random(f64, {3, 2}, 3), arrays::random(f64, {2}, 4)};
  CHECK(arrays::difference(arrays::run(g, in)[0], arrays::run(after, in)[0], 1e-15) == "");

  g.outputs = {out[2].id()};  // the last stack is the second of two
  const graph last = run_all(g);
  CHECK(only_step(last).attr.step->stacked == 1);
  CHECK(arrays::difference(arrays::run(g, in)[0], arrays::run(last, in)[0], 1e-15) == "");
}

TEST_CASE("branches lose results and operands; equal text is reached and stays") {
  graph g;
  const value p(g, g.add_input(dtype::b8, {})), x = input(g, {2}), y = input(g, {2});
  const auto out = steps::cond(
      {p, x, y},
      [](const values& v) {
        return values{v[0] * v[1], v[0] + 0.0};
      },
      [](const values& v) {
        return values{v[1], v[0] * 3.0};
      });
  g.outputs = {out[1].id()};
  const graph after = run_all(g);
  sinter::ir::check(after, "test");
  const auto& n = only_step(after);
  CHECK(n.in.size() == 2);
  CHECK(n.attr.step->results.size() == 1);
  CHECK(sinter::ir::print(run_all(after)) == sinter::ir::print(after));
  for (double yes : {0.0, 1.0}) {
    const std::vector<arrays::literal_array> in{arrays::of(dtype::b8, {}, {yes}), arrays::of(f64, {2}, {4, 5}),
                                                arrays::of(f64, {2}, {6, 7})};
    CHECK(arrays::difference(arrays::run(g, in)[0], arrays::run(after, in)[0]) == "");
  }
}

TEST_CASE("a linear loop's backward pass keeps no history") {
  graph g;
  const value h = input(g, {2}), xs = input(g, {3, 2});
  const value last =
      steps::loop(3, {h}, {xs}, {}, [](value, values c, values x, values) { return values{c[0] * 0.5 + x[0]}; })[0];
  const value loss = reduce(last, sinter::ir::op::add, {0});
  const node_id wrt[] = {h.id(), xs.id()};
  g.outputs = sinter::engine::gradient(g, loss.id(), wrt, {});
  const graph after = run_all(g);
  sinter::ir::check(after, "test");
  CHECK(only_step(after).attr.step->sliced == 0);  // the forward loop is gone: nothing reads what it carried
  const auto got = arrays::run(after, {arrays::of(f64, {2}, {1, 2}), arrays::random(f64, {3, 2}, 1)});
  CHECK(got[0].f == sinter::series<double>{0.125, 0.125});
  CHECK(got[1].f == sinter::series<double>{0.25, 0.25, 0.5, 0.5, 1, 1});
}

TEST_CASE("effects keep their order, whatever the results need") {
  std::vector<int> log;
  graph g;
  const value x = input(g, {});
  const auto call = [&](graph& on, node_id operand, int tag) {
    auto f = std::make_shared<sinter::ir::foreign>();
    f->name = "note";
    f->identity = static_cast<std::uint64_t>(tag);
    f->host = [&log, tag](sinter::ir::foreign_arrays, sinter::ir::foreign_arrays) { log.push_back(tag); };
    sinter::ir::opaque s;
    s.kind = sinter::ir::opaque_kind::host_call;
    s.function = f;
    sinter::ir::push_opaque(on, sinter::ir::seal(std::move(s)), {operand}, {});
  };
  call(g, x.id(), 1);
  const auto out = steps::loop(2, {x}, {}, {}, [&](value, values c, values, values) {
    call(c[0].owner(), c[0].id(), 2);
    return values{c[0] * 2.0};
  });
  call(g, (x * 5.0).id(), 3);
  g.outputs = {out[0].id()};
  const graph after = run_all(g);
  sinter::ir::check(after, "test");
  CHECK(arrays::run(after, {arrays::of(f64, {}, {3})})[0].f == sinter::series<double>{12});
  CHECK(log == std::vector<int>{1, 2, 2, 3});
}

TEST_CASE("calls become what they do, but those that stay lose results and operands that nothing reads") {
  graph g;
  const value x = input(g, {2}), unread = input(g, {2}), two(g, g.constant(f64, 2.0, {2}));
  const auto body = [](const values& v) { return values{v[0] * v[2] + 1.0, v[1] * 2.0}; };
  const auto part = steps::call({x, unread, two}, body);
  const auto apart = steps::call({part[0], unread, two}, body, {}, nullptr, true);
  g.outputs = {apart[0].id()};
  const graph after = run_all(g);
  sinter::ir::check(after, "test");
  const auto& n = only_step(after);
  CHECK(n.in.size() == 1);
  CHECK(n.attr.step->results.size() == 1);
  const std::vector<arrays::literal_array> in{arrays::random(f64, {2}, 1), arrays::random(f64, {2}, 2)};
  CHECK(arrays::difference(arrays::run(g, in)[0], arrays::run(after, in)[0], 1e-15) == "");
}

TEST_CASE("eight times as many branches and loops take no more than some eight times as long") {
  // 50 times, where each step looks for its results in the whole graph.
  CHECK(steps::growth([](int count) { CHECK(run_all(steps::many(count)).outputs.size() == 2u * count); }, 300, 8) < 24);
  const auto computed = [](int count) {
    const std::vector<arrays::literal_array> in{arrays::random(f64, {8 * count}, 1)};
    CHECK(arrays::run(steps::many(count), in).size() == 2u * count);
  };
  CHECK(steps::growth(computed, 300, 8) < 24);
}
