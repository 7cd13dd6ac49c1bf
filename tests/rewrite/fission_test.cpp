// Loop fission: products of slices and sums of products leave a loop, and what needs the steps, or much memory, stays.
#include <sinter/autodiff/vjp.hpp>
#include <sinter/rewrite/rewrite.hpp>

#include "../ir/arrays.hpp"
#include "../ir/steps.hpp"

using namespace sinter::engine::rewrite;
using arrays::literal_array;
using sinter::dtype;
using sinter::ir::graph;
using sinter::ir::node_id;
using sinter::ir::op;
using steps::value;
using steps::values;

namespace {

constexpr auto f64 = dtype::f64;

value input(graph& g, sinter::ir::shape e, dtype t = f64) { return {g, g.add_input(t, std::move(e))}; }
value times(const value& a, const value& b) { return sinter::ir::dot(a, b, 0, 1); }
value turned(const value& a) { return permute(a, {1, 0}); }

struct counts {
  std::size_t loops = 0, inside = 0, outside = 0, carried = 0;
  bool operator==(const counts&) const = default;
};

std::size_t products_of(const graph& g) {
  std::size_t n = 0;
  for (auto id : g.live()) n += g[id].code == op::dot;
  return n;
}

/// Products in loops and around them, and what loops carry.
counts counts_of(const graph& g) {
  counts c;
  c.outside = products_of(g);
  for (auto id : g.live())
    if (g[id].code == op::opaque) {
      ++c.loops;
      c.inside += products_of(g[id].attr.step->parts[0]);
      c.carried += g[id].attr.step->carried;
    }
  return c;
}

std::vector<literal_array> random_inputs(const graph& g) {
  std::vector<literal_array> in;
  for (auto id : g.inputs) {
    arrays::extents_t e;
    for (const auto& d : g[id].extents) e.push_back(*d.number());
    in.push_back(arrays::random(g[id].type, e, static_cast<unsigned>(in.size()) + 1));
  }
  return in;
}

/// The rewritten graph, which is valid and has the values of the one before.
graph rewritten(const graph& g, double tolerance = 1e-12) {
  graph after = run_all(g);
  sinter::ir::check(after, "test");
  const auto in = random_inputs(g);
  const auto was = arrays::run(g, in), is = arrays::run(after, in);
  for (std::size_t k = 0; k < was.size(); ++k) CHECK(arrays::difference(was[k], is[k], tolerance) == "");
  return after;
}

/// h' = tanh(x·w + h·u), with what each step gives stacked.
values recurrent(std::int64_t length, const value& h, const value& xs, const value& w, const value& u, bool reverse) {
  return steps::loop(
      length, {h}, {xs}, {w, u},
      [](value, values c, values x, values n) {
        const value next = sinter::ir::sinh(times(x[0], n[0]) + times(c[0], n[1])) * 0.125;
        return values{next, next};
      },
      reverse);
}

}  // namespace

TEST_CASE("fission: a product of slices is one product of all steps") {
  for (const bool reverse : {false, true})
    for (const std::int64_t length : {0, 1, 5}) {
      CAPTURE(length);
      graph g;
      const value h = input(g, {2, 3}), xs = input(g, {length, 2, 4}), w = input(g, {4, 3}), u = input(g, {3, 3});
      const auto out = recurrent(length, h, xs, w, u, reverse);
      g.outputs = {out[0].id(), out[1].id()};
      CHECK(counts_of(rewritten(g)) == counts{1, 1, 1, 1});
    }
}

TEST_CASE("fission: gradients of a recurrent net's weights are products over all steps, and are not carried") {
  for (const bool reverse : {false, true}) {
    graph g;
    const value h = input(g, {2, 3}), xs = input(g, {6, 2, 4}), w = input(g, {4, 3}), u = input(g, {3, 3});
    const auto out = recurrent(6, h, xs, w, u, reverse);
    const value loss = sinter::ir::reduce(out[1] * out[1], op::add, {0, 1, 2});
    const node_id wrt[] = {h.id(), xs.id(), w.id(), u.id()};
    const auto gradients = sinter::engine::gradient(g, loss.id(), wrt, {});
    g.outputs = gradients;
    // Forward: x·w before, h·u inside. Backward: h·u before (x·w is that of forward), ct·uᵀ inside; ct·wᵀ, xᵀ·ct and hᵀ·ct behind: one inside each.
    const counts c = counts_of(rewritten(g));
    CHECK(c.loops == 2);
    CHECK(c.inside == 2);
    CHECK(c.carried == 2);
  }
}

TEST_CASE("fission: sums behind views, several terms, and what their stacks bring along") {
  graph g;
  const value start = input(g, {4, 3}), bias = input(g, {3}), h = input(g, {2, 3}), xs = input(g, {5, 2, 4}),
              ys = input(g, {5, 2, 3});
  const auto out = steps::loop(5, {h, start, bias}, {xs, ys}, {}, [](value, values c, values x, values) {
    const value next = sinter::ir::sinh(c[0]) * x[1] * 0.125;
    const value sum = c[1] + times(turned(x[0]), next) + turned(times(turned(x[1]), x[0]));
    return values{next, sum, sinter::ir::reduce(next, op::add, {0}) + c[2]};
  });
  g.outputs = {out[0].id(), out[1].id(), out[2].id()};
  const graph after = rewritten(g);
  CHECK(counts_of(after) == counts{1, 0, 2, 1});
}

TEST_CASE("fission: what is read on the way, or whose stacks were larger than the sum, stays") {
  graph g;
  const value start = input(g, {3, 3}), h = input(g, {40, 3}), small = input(g, {3, 3}), xs = input(g, {3, 40, 3});
  const auto out = steps::loop(3, {h, start, small}, {xs}, {}, [](value, values c, values x, values) {
    const value next = sinter::ir::sinh(c[0]) * x[0] * 0.125;
    // The first is smaller as a sum than as a stack of `next`; the second is read by the step that adds to it.
    const value product = times(turned(x[0]), x[0]);
    return values{next, c[1] + times(turned(next), next), c[2] + product * sinter::ir::sinh(c[2])};
  });
  g.outputs = {out[0].id(), out[1].id(), out[2].id()};
  const counts c = counts_of(rewritten(g, 1e-9));
  CHECK(c.carried == 3);
}

TEST_CASE("fission: a loop that holds a large product in parts goes on doing so") {
  graph g;
  const value sum = input(g, {}), xs = input(g, {5, 2, 3}), w = input(g, {3, 400});
  const auto out = steps::loop(5, {sum}, {xs}, {w}, [](value, values c, values x, values n) {
    const value logits = times(x[0], n[0]);
    return values{c[0] + sinter::ir::reduce(sinter::ir::exp(logits), op::add, {0, 1})};
  });
  const node_id wrt[] = {xs.id(), w.id()};
  const auto gradients = sinter::engine::gradient(g, out[0].id(), wrt, {});
  g.outputs = {out[0].id(), gradients[0], gradients[1]};
  const graph after = rewritten(g, 1e-9);
  for (auto id : after.live()) {
    double elements = 1;
    for (const auto& d : after[id].extents) elements *= static_cast<double>(*d.number());
    CHECK(elements <= 3 * 400);
  }
}

TEST_CASE("fission: what is the same in all steps is computed once") {
  graph g;
  const value h = input(g, {3}), xs = input(g, {5, 3}), w = input(g, {3});
  const auto out = steps::loop(5, {h}, {xs}, {w}, [](value, values c, values x, values n) {
    return values{c[0] * sinter::ir::exp(n[0]) * 0.125 + x[0]};
  });
  g.outputs = {out[0].id()};
  const graph after = rewritten(g);
  std::size_t inside = 0, outside = 0;
  for (auto id : after.live()) {
    outside += after[id].code == op::exp;
    if (after[id].code != op::opaque) continue;
    const graph& body = after[id].attr.step->parts[0];
    for (auto k : body.live()) inside += body[k].code == op::exp;
  }
  CHECK(inside == 0);
  CHECK(outside == 1);
}

TEST_CASE("fission: integers, and loops in loops") {
  graph g;
  const value start = input(g, {2, 2}, dtype::i64), xs = input(g, {4, 2, 2}, dtype::i64);
  const auto out = steps::loop(4, {start}, {xs}, {}, [](value, values c, values x, values) {
    const auto inner = steps::loop(2, {c[0]}, {x[0]}, {}, [](value, values d, values y, values) {
      return values{d[0] + times(reshape(y[0], {2, 1}), reshape(y[0], {1, 2}))};
    });
    return values{inner[0]};
  });
  g.outputs = {out[0].id()};
  rewritten(g);
}

TEST_CASE("fission: what leaves a loop takes no memory that grows with its length, but beside slices and stacks") {
  const auto largest = [](const graph& g) {
    double most = 0;
    for (auto id : g.live()) {
      double elements = 1;
      for (const auto& d : g[id].extents) elements *= static_cast<double>(*d.number());
      most = std::max(most, elements);
    }
    return most;
  };
  {
    // No slices: an outer product of what is carried is added up.
    graph g;
    const value h = input(g, {4, 1}), c = input(g, {4, 4});
    const auto out = steps::loop(1000, {h, c}, {}, {}, [](value, values c, values, values) {
      const value next = sinter::ir::sinh(c[0]) * 0.125;
      return values{next, c[1] + times(next, reshape(next, {1, 4}))};
    });
    g.outputs = {out[1].id()};
    CHECK(largest(rewritten(g)) == 16);
  }
  {
    // A large operand made of a small slice.
    graph g;
    const value sum = input(g, {}), xs = input(g, {50, 2}), v = input(g, {40, 1}), points = input(g, {40, 2});
    const auto out = steps::loop(50, {sum}, {xs}, {v, points}, [](value, values c, values x, values n) {
      const value d = n[1] - broadcast(reshape(x[0], {1, 2}), {40, 2});
      const value k = sinter::ir::exp(-sinter::ir::reduce(d * d, op::add, {1}));
      return values{c[0] + reshape(times(reshape(k, {1, 40}), n[0]), {})};
    });
    g.outputs = {out[0].id()};
    CHECK(largest(rewritten(g, 1e-10)) <= 100);
  }
  {
    // A product of two slices.
    graph g;
    const value s = input(g, {4, 4}), xs = input(g, {50, 4}), ys = input(g, {50, 4});
    const auto out = steps::loop(50, {s}, {xs, ys}, {}, [](value, values c, values x, values) {
      return values{c[0] * 0.5 + times(reshape(x[0], {4, 1}), reshape(x[1], {1, 4}))};
    });
    g.outputs = {out[0].id()};
    CHECK(largest(rewritten(g)) == 200);
  }
}

TEST_CASE("fission: values of the highest rank stay") {
  graph g;
  const sinter::ir::shape a{2, 1, 1, 1, 1, 1, 3}, b{3, 1, 1, 1, 1, 1, 2};
  sinter::ir::shape steps_of_a = a;
  steps_of_a.insert(steps_of_a.begin(), 4);
  const value sum = input(g, {}), xs = input(g, steps_of_a), w = input(g, b);
  const auto out = steps::loop(4, {sum}, {xs}, {w}, [&](value, values c, values x, values n) {
    const value y = sinter::ir::dot(x[0], n[0], 0, 1);
    CHECK(y.rank() == 12);
    return values{c[0] + sinter::ir::reduce(sinter::ir::sinh(y), op::add, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})};
  });
  g.outputs = {out[0].id()};
  CHECK(counts_of(rewritten(g)).inside == 1);
}
