// Derivatives of branches and loops: against differences, twice, and forward against reverse.
#include <sinter/autodiff/jvp.hpp>

#include "../ir/steps.hpp"
#include "numeric.hpp"

using namespace numeric;
using sinter::ir::op;
using steps::values;

namespace {

constexpr auto f64 = dtype::f64;

value joined(const value& a, const value& b) {
  sinter::ir::attributes attr;
  attr.ints = {0};
  return {a.owner(), a.owner().push(op::concat, {a.id(), b.id()}, attr), {}};
}

/// A recurrent network's last state and its outputs, as one vector.
value network(const std::vector<value>& in, bool reverse) {
  const auto out = steps::loop(
      4, {in[0]}, {in[1]}, {in[2]},
      [](value i, values c, values x, values w) {
        const value h = sin(dot(c[0], w[0], 0, 1) + x[0]) + cast(broadcast(reshape(i, {1}), {3}), f64) * 0.1;
        return values{h, h * x[0]};
      },
      reverse);
  return joined(out[0], reshape(out[1], {12}));
}

}  // namespace

TEST_CASE("loops: first and second derivatives match differences") {
  const auto h = arrays::random(f64, {3}, 1), xs = arrays::random(f64, {4, 3}, 2), w = arrays::random(f64, {3, 3}, 3);
  for (bool reverse : {false, true}) check_twice([&](const auto& in) { return network(in, reverse); }, {h, xs, w});
}

TEST_CASE("a loop's carried integers and unused operands do not stop derivatives") {
  const auto f = [](const std::vector<value>& in) {
    const auto out = steps::loop(3, {in[0], in[1]}, {in[2]}, {in[3]}, [](value, values c, values x, values k) {
      const value turn = cast(broadcast(reshape(c[1], {1}), {2}), f64);
      return values{c[0] * c[0] * 0.3 + turn * x[0], c[1] + 1.0, k[0] * 2.0};
    });
    return joined(out[0], reshape(out[2], {3}));
  };
  check_twice(f, {arrays::random(f64, {2}, 1), arrays::of(dtype::i64, {}, {2}), arrays::random(f64, {3, 2}, 2),
                  arrays::random(f64, {}, 3)});
}

TEST_CASE("a loop of no steps passes the cotangent on") {
  check(
      [](const std::vector<value>& in) {
        return steps::loop(0, {in[0]}, {in[1]}, {},
                           [](value, values c, values x, values) { return values{c[0] * x[0]}; })[0];
      },
      {arrays::random(f64, {2}, 1), arrays::of(f64, {0, 2}, {})});
}

TEST_CASE("cond, also inside a loop: derivatives are those of the branch taken") {
  const auto f = [](const std::vector<value>& in) {
    return steps::cond(
        {gt(reduce(in[0], op::add, {0}), 0.0), in[0], in[1]},
        [](const values& x) { return values{x[0] * x[1] * x[0]}; },
        [](const values& x) { return values{sin(x[1])}; })[0];
  };
  check_twice(f, {arrays::of(f64, {2}, {1, 0.5}), arrays::of(f64, {2}, {0.3, 0.7})});
  check_twice(f, {arrays::of(f64, {2}, {-1, 0.5}), arrays::of(f64, {2}, {0.3, 0.7})});
  const auto g = [](const std::vector<value>& in) {
    return steps::loop(4, {in[0]}, {in[1]}, {}, [](value, values c, values x, values) {
      return values{steps::cond(
          {gt(x[0], 0.0), c[0], x[0]}, [](const values& v) { return values{v[0] * v[1]}; },
          [](const values& v) { return values{v[0] * v[0] + v[1]}; })[0]};
    })[0];
  };
  check_twice(g, {arrays::of(f64, {}, {0.8}), arrays::of(f64, {4}, {0.5, -0.7, 1.5, -0.2})}, 1e-5);
}

TEST_CASE("loops in loops") {
  check_twice(
      [](const std::vector<value>& in) {
        return steps::loop(2, {in[0]}, {in[1]}, {}, [](value, values c, values x, values) {
          const auto inner = steps::loop(3, {c[0]}, {x[0]}, {c[0]}, [](value, values d, values y, values k) {
            return values{sin(d[0] + y[0]) * k[0]};
          });
          return values{inner[0] + c[0]};
        })[0];
      },
      {arrays::of(f64, {}, {0.8}), arrays::random(f64, {2, 3}, 5)}, 1e-5);
}

TEST_CASE("forward mode agrees with reverse mode; a while_loop has the former only") {
  const auto agree = [](const function& f, const std::vector<literal_array>& at) {
    graph g;
    std::vector<value> in, along;
    std::vector<literal_array> arguments = at;
    for (const auto& x : at) in.push_back({g, g.add_input(x.type, arrays::shape(x.extents)), {}});
    for (const auto& x : at) {
      along.push_back({g, g.add_input(x.type, arrays::shape(x.extents)), {}});
      arguments.push_back(arrays::random(x.type, x.extents, 50));
    }
    const value y = weigh(f(in));
    const node_id outputs[] = {y.id()};
    const auto forward = sinter::engine::autodiff::jvp(g, outputs, ids(in), ids(along));
    const auto slopes = sinter::engine::gradient(g, y.id(), ids(in), {});
    value backward;
    for (std::size_t k = 0; k < in.size(); ++k) {
      value p = value(g, slopes[k]) * along[k];
      p = reduce(reshape(p, {sinter::ir::product(p.extents())}), op::add, {0});
      backward = backward ? backward + p : p;
    }
    g.outputs = {forward[0], backward.id()};
    sinter::ir::check(g, "jvp");
    const auto got = arrays::run(g, arguments);
    CHECK(got[0].f[0] == doctest::Approx(got[1].f[0]).epsilon(1e-9));
    CHECK(got[0].f[0] != 0);
  };
  for (bool reverse : {false, true})
    agree([&](const auto& in) { return network(in, reverse); },
          {arrays::random(f64, {3}, 1), arrays::random(f64, {4, 3}, 2), arrays::random(f64, {3, 3}, 3)});
  agree(
      [](const std::vector<value>& in) {
        return steps::cond(
            {gt(in[0], 0.0), in[0]}, [](const values& x) { return values{x[0] * x[0]}; },
            [](const values& x) { return values{sin(x[0])}; })[0];
      },
      {arrays::of(f64, {}, {0.7})});

  graph g;
  const value x(g, g.add_input(f64, {}));
  const value y = steps::while_loop(
      {x}, [](const values& v) { return values{lt(v[0], 100.0)}; },
      [](const values& v) { return values{v[0] * v[0]}; })[0];
  const node_id wrt[] = {x.id()}, outputs[] = {y.id()};
  g.outputs = sinter::engine::autodiff::jvp(g, outputs, wrt, std::vector<node_id>{g.constant(f64, 1.0, {})});
  sinter::ir::check(g, "jvp");
  CHECK(arrays::run(g, {arrays::of(f64, {}, {3})})[0].f[0] == doctest::Approx(8 * std::pow(3.0, 7)));
  CHECK(arrays::message([&] { sinter::engine::gradient(g, y.id(), wrt, {}); }).find("fori_loop") != std::string::npos);
}

TEST_CASE("calls: derivatives are the part's where it is computed anew, and else the rule's, both ways") {
  using sinter::ir::foreign;
  using sinter::ir::recompute;
  const auto body = [](const values& v) { return values{dot(sin(v[0] * v[0]), v[1], 0, 1) + v[0]}; };
  const std::vector<literal_array> at{arrays::random(f64, {3}, 1), arrays::random(f64, {3, 3}, 2)};
  for (const recompute again : {recompute::all, recompute::all_but_products})
    for (const bool stays : {false, true})
      check_twice([&](const auto& in) { return sin(steps::call({in[0], in[1]}, body, again, nullptr, stays)[0]); }, at);
  const auto ruled = [](bool pulls) {
    auto rules = std::make_shared<foreign>();
    rules->name = "rules";
    rules->identity = sinter::ir::new_identity();
    const auto rule = [] {  // of x: 2x times what is given, either way
      graph g;
      const value x(g, g.add_input(f64, {3}));
      g.add_input(f64, {3});
      g.outputs = {(x * value(g, g.add_input(f64, {3})) * 2.0).id()};
      return g;
    };
    if (pulls) rules->pull = rule;
    else rules->push = rule;
    return rules;
  };
  for (const bool pulls : {false, true})
    check_twice(
        [&](const auto& in) {
          return sin(steps::call(
              {in[0]}, [](const values& v) { return values{v[0] * v[0]}; }, {}, ruled(pulls))[0]);
        },
        {at[0]});
}

TEST_CASE("what a recomputed part made is not read by the backward pass, but its products where they are kept") {
  using sinter::ir::recompute;
  for (const recompute again : {recompute::all, recompute::all_but_products}) {
    graph g;
    const value x(g, g.add_input(f64, {3})), w(g, g.add_input(f64, {3, 3}));
    const value y = weigh(steps::call(
        {x, w}, [](const values& v) { return values{sin(dot(sin(v[0]), v[1], 0, 1))}; }, again)[0]);
    const node_id wrt[] = {x.id(), w.id()};
    g.outputs = {y.id()};
    for (auto id : sinter::engine::gradient(g, y.id(), wrt, {})) g.outputs.push_back(id);
    const graph flat = sinter::ir::inlined(g);
    sinter::ir::check(flat, "inlined");
    CHECK(!sinter::ir::has_calls(flat));
    std::size_t steps_left = 0, reads_product = 0;
    for (auto id : flat.live()) {
      if (flat[id].code != op::opaque) continue;
      ++steps_left;
      for (auto in : flat[id].in) {
        reads_product += flat[in].code == op::dot;
        CHECK(flat[in].code != op::sin);
      }
    }
    CHECK(steps_left == 1);
    CHECK(reads_product == (again == recompute::all_but_products ? 1 : 0));
    const std::vector<literal_array> in{arrays::random(f64, {3}, 1), arrays::random(f64, {3, 3}, 2)};
    const auto a = arrays::run(g, in), b = arrays::run(flat, in);
    for (std::size_t k = 0; k < a.size(); ++k) CHECK(arrays::difference(a[k], b[k], 1e-12) == "");
  }
}
