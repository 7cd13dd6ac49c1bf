#include <sinter/autodiff/vjp.hpp>

#include "numeric.hpp"

using namespace numeric;
using sinter::ir::attributes;
using sinter::ir::op;
using sinter::ir::shape;

namespace {

constexpr auto f64 = dtype::f64;

literal_array positive(extents_t e, unsigned seed) { return arrays::random(f64, std::move(e), seed, 0.2, 1.7); }

/// Values at least 0.05 apart in magnitude and from 0, so that no kink is near.
literal_array distinct(extents_t e, unsigned seed) {
  literal_array a{f64, std::move(e), {}, {}};
  for (std::int64_t i = 0; i < arrays::count(a.extents); ++i) a.f.push_back((i % 2 ? -0.1 : 0.1) * double(i + 1));
  std::shuffle(a.f.begin(), a.f.end(), std::mt19937(seed));
  return a;
}

value concat(const std::vector<value>& xs, std::int64_t axis) {
  attributes a;
  a.ints = {axis};
  return {xs[0].owner(), xs[0].owner().push(op::concat, ids(xs), a), {}};
}

function unary(op code) {
  return [code](const std::vector<value>& in) { return push(code, {in[0]}); };
}
function binary(op code) {
  return [code](const std::vector<value>& in) { return push(code, {in[0], in[1]}); };
}

}  // namespace

TEST_CASE("every smooth pointwise row matches differences, twice") {
  for (int i = 0; i < sinter::ir::pointwise_count; ++i) {
    const op code = static_cast<op>(i);
    const auto& row = sinter::ir::row(code);
    if (code == op::cast || code == op::stop_gradient || row.rule == sinter::ir::dtype_rule::selection) continue;
    if (!sinter::engine::autodiff::smooth[i][0]) continue;
    CAPTURE(std::string(row.name));
    // asin and acos need |x| < 1; cbrt, log, rsqrt a clear distance from 0.
    if (row.arity == 1) {
      const bool inside = code == op::asin || code == op::acos;
      check_twice(unary(code), {arrays::random(f64, {3, 5}, 7, 0.15, inside ? 0.85 : 1.6)});
      if (code != op::log && code != op::log2 && code != op::sqrt && code != op::rsqrt)
        check_twice(unary(code), {arrays::random(f64, {7}, 8, -0.85, -0.15)});
    } else {
      check_twice(binary(code), {positive({3, 5}, 1), arrays::random(f64, {3, 5}, 2, 1.75, 2.6)}, 1e-5);
      check_twice(binary(code), {arrays::random(f64, {3, 5}, 2, 1.75, 2.6), positive({3, 5}, 1)}, 1e-5);
    }
  }
}

TEST_CASE("pow with constant exponents is right at zero and below") {
  const function square = [](const std::vector<value>& in) { return pow(in[0], 2.0); };
  const function cube = [](const std::vector<value>& in) { return pow(in[0], 3.0); };
  check_twice(square, {arrays::of(f64, {5}, {-1.5, -0.5, 0, 0.5, 2})}, 1e-5);
  check_twice(cube, {arrays::of(f64, {5}, {-1.5, -0.5, 0, 0.5, 2})}, 1e-5);
}

TEST_CASE("select sends the cotangent to the chosen side") {
  const function f = [](const std::vector<value>& in) { return select(in[0], in[1] * in[1], sin(in[2])); };
  check_twice(f, {arrays::random(dtype::b8, {4, 3}, 3), positive({4, 3}, 1), positive({4, 3}, 2)});
}

TEST_CASE("casts carry the cotangent in the operand's dtype; integers stop it") {
  const function f = [](const std::vector<value>& in) { return cast(in[0] * in[0], dtype::f64); };
  graph g;
  const value x(g, g.add_input(dtype::f32, {2}));
  const value y = weigh(f({x}));
  const node_id wrt[] = {x.id()};
  const auto slope = sinter::engine::gradient(g, y.id(), wrt, {});
  CHECK(g[slope[0]].type == dtype::f32);
  const value stopped = weigh(cast(cast(x, dtype::i32), dtype::f64));
  const auto none = sinter::engine::gradient(g, stopped.id(), wrt, {});
  CHECK(g[none[0]].code == op::constant);
  CHECK(g[none[0]].attr.literal.f == 0);
  CHECK(g[none[0]].extents == x.extents());
}

TEST_CASE("movement") {
  const auto x = positive({3, 5, 4}, 11);
  const auto squared = [](const std::function<value(const value&)>& move) {
    return function([move](const std::vector<value>& in) { return move(in[0] * in[0] * in[0]); });
  };
  SUBCASE("reshape") {
    check_twice(squared([](const value& v) { return reshape(v, {2, 30}); }), {x});
  }
  SUBCASE("permute") {
    check_twice(squared([](const value& v) { return permute(v, {2, 0, 1}); }), {x});
  }
  SUBCASE("broadcast") {
    check_twice(squared([](const value& v) { return broadcast(v, {3, 4, 5}); }), {positive({3, 1, 5}, 12)});
    check_twice(squared([](const value& v) { return broadcast(v, {3, 1, 5}); }), {positive({1, 1, 1}, 12)});
  }
  SUBCASE("slice") {
    check_twice(squared([](const value& v) { return slice(v, {2, 3, 4}, {1, 2, 0}, {1, 1, 1}); }), {x});
    check_twice(squared([](const value& v) { return slice(v, {3, 5, 4}, {2, 4, 3}, {-1, -1, -1}); }), {x});
    check_twice(squared([](const value& v) { return slice(v, {2, 2, 2}, {0, 1, 3}, {2, 3, -3}); }), {x});
    check_twice(squared([](const value& v) { return slice(v, {2, 2, 1}, {2, 3, 1}, {-2, -2, 7}); }), {x});
    check_twice(squared([](const value& v) { return slice(v, {2, 0, 1}, {2, 3, 1}, {-2, -2, 7}); }), {x});
  }
  SUBCASE("a slice of rank 8") {
    check_twice(squared([](const value& v) {
                  return slice(v, {2, 1, 1, 2, 1, 1, 1, 2}, {0, 0, 0, 1, 0, 0, 0, 3}, {2, 1, 1, 2, 1, 1, 1, -3});
                }),
                {positive({3, 1, 1, 4, 1, 1, 1, 4}, 5)});
  }
  SUBCASE("pad") {
    check_twice(squared([](const value& v) { return pad(v, {1, 0, 2}, {0, 3, 1}, 7.0); }), {x});
  }
  SUBCASE("concat") {
    const function f = [](const std::vector<value>& in) { return concat({in[0], in[1] * in[0], in[0]}, 1); };
    check_twice(f, {positive({2, 3}, 1), positive({2, 3}, 2)});
  }
}

TEST_CASE("reductions") {
  const auto reduced = [](op combiner, std::vector<std::int64_t> axes) {
    return function([=](const std::vector<value>& in) {
      const value r = reduce(in[0], combiner, axes);
      return r * r;
    });
  };
  for (const auto& axes : std::vector<std::vector<std::int64_t>>{{0}, {1}, {2}, {0, 2}, {0, 1, 2}}) {
    CAPTURE(axes.size());
    check_twice(reduced(op::add, axes), {distinct({3, 5, 2}, 4)});
    check_twice(reduced(op::mul, axes), {positive({3, 5, 2}, 5)});
    check_twice(reduced(op::maximum, axes), {distinct({3, 5, 2}, 6)});
    check_twice(reduced(op::minimum, axes), {distinct({3, 5, 2}, 6)});
  }
}

TEST_CASE("products are differentiated right at zeros, twice") {
  const function product = [](const std::vector<value>& in) { return reduce(in[0], op::mul, {1}); };
  const auto x = arrays::of(f64, {5, 4}, {1, 2, 3, 4, 0, 2, 3, 4, 1, 0, 0, 2, 5, 0, 0, 0, 0, 0, 0, 0});
  check_twice(product, {x}, 1e-5);
  for (std::int64_t n = 1; n < 10; ++n) check(product, {positive({2, n}, 3)});
}

TEST_CASE("products of symbolic extents") {
  graph g;
  const auto n = sinter::ir::dim::symbol(0);
  const value x(g, g.add_input(f64, {2, n}));
  const value y = reduce(reduce(x, op::mul, {1}), op::add, {0});
  const node_id wrt[] = {x.id()};
  g.outputs = sinter::engine::gradient(g, y.id(), wrt, {});
  const auto got = arrays::run(g, {arrays::of(f64, {2, 3}, {2, 3, 5, 0, 7, 11})}, {3});
  CHECK(got[0].f == std::vector<double>{15, 10, 6, 77, 0, 0});
}

TEST_CASE("ties of an extreme share the cotangent equally") {
  graph g;
  const value x(g, g.add_input(f64, {4}));
  const node_id wrt[] = {x.id()};
  g.outputs = sinter::engine::gradient(g, reduce(x, op::maximum, {0}).id(), wrt, {});
  CHECK(arrays::run(g, {arrays::of(f64, {4}, {3, 1, 3, 2})})[0].f == std::vector<double>{0.5, 0, 0.5, 0});
}

TEST_CASE("gather and scatter_add, with indices out of range") {
  const auto index = arrays::of(dtype::i64, {4, 3}, {0, 2, 1, 1, 1, 1, 9, -4, 2, 0, 0, 3});
  const function take = [](const std::vector<value>& in) { return gather(in[0] * in[0], in[1], 0); };
  check_twice(take, {positive({5, 3}, 1), index});
  const function put = [](const std::vector<value>& in) {
    const value sum = scatter_add(in[0], in[1], in[2] * in[2], 0);
    return sum * sum;
  };
  check_twice(put, {positive({5, 3}, 1), index, positive({4, 3}, 2)}, 1e-5);
  auto small = index;
  small.type = dtype::i32;
  check(put, {positive({5, 3}, 1), small, positive({4, 3}, 2)});
}

TEST_CASE("dot with batches, several inner axes and none") {
  const auto contracted = [](std::int64_t nb, std::int64_t nk) {
    return function([=](const std::vector<value>& in) { return dot(in[0], in[1] * in[1], nb, nk); });
  };
  check_twice(contracted(0, 1), {distinct({3, 4}, 1), positive({4, 5}, 2)}, 1e-5);
  check_twice(contracted(1, 1), {distinct({2, 3, 4}, 1), positive({2, 4, 2}, 2)}, 1e-5);
  check_twice(contracted(1, 2), {distinct({2, 3, 2, 3}, 1), positive({2, 2, 3, 2, 2}, 2)}, 1e-5);
  check_twice(contracted(0, 0), {distinct({3}, 1), positive({4}, 2)}, 1e-5);
  check_twice(contracted(2, 1), {distinct({2, 1, 3}, 1), positive({2, 1, 3}, 2)}, 1e-5);
}

TEST_CASE("only what lies between counts; stop_gradient and unreached inputs give zeros") {
  graph g;
  const value x(g, g.add_input(f64, {3})), z(g, g.add_input(f64, {2}));
  const value y = reduce(x * push(op::stop_gradient, {x}), op::add, {0});
  const node_id wrt[] = {x.id(), z.id(), y.id()};
  g.outputs = sinter::engine::gradient(g, y.id(), wrt, {});
  const auto got = arrays::run(g, {arrays::of(f64, {3}, {2, 3, 4}), arrays::of(f64, {2}, {1, 1})});
  CHECK(got[0].f == std::vector<double>{2, 3, 4});
  CHECK(got[1].f == std::vector<double>{0, 0});
  CHECK(got[2].f == std::vector<double>{1});
}

TEST_CASE("a mark separates equal values") {
  graph g;
  const value x(g, g.add_input(f64, {}));
  const value a(g, g.mark(x.id())), b(g, g.mark(x.id()));
  CHECK(a.id() != b.id());
  const value y = a * a * b;
  const node_id wrt[] = {a.id(), b.id()};
  g.outputs = sinter::engine::gradient(g, y.id(), wrt, {});
  const auto got = arrays::run(g, {arrays::of(f64, {}, {3})});
  CHECK(got[0].f[0] == 18);
  CHECK(got[1].f[0] == 9);
}

TEST_CASE("what is not a floating scalar is refused") {
  graph g;
  const node_id x = g.add_input(f64, {3}), i = g.add_input(dtype::i32, {});
  const node_id wrt[] = {x};
  CHECK(arrays::message([&] {
          sinter::engine::gradient(g, x, wrt, {"user.cpp", 12});
        }) ==
        "[grad] the function returns f64(3,); it must return a floating scalar: reduce it with sum or mean "
        "(at user.cpp:12)");
  CHECK(arrays::message([&] { sinter::engine::gradient(g, i, wrt, {}); }).find("i32()") != std::string::npos);
}
