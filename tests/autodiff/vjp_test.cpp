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

function multiplied(std::vector<std::int64_t> axes) {
  return [=](const std::vector<value>& in) { return reduce(in[0], op::mul, axes); };
}

value sum_of_squares(const value& x) {
  return reduce(x * x, op::add, sinter::ir::ops::iota_axes(0, x.extents().size()));
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
    // asin, acos, atanh and erfinv need |x| < 1, acosh x > 1; cbrt, log, rsqrt and poles a clear distance from 0.
    if (row.arity == 1) {
      const bool inside = code == op::asin || code == op::acos || code == op::atanh || code == op::erfinv;
      if (code == op::acosh) {
        check_twice(unary(code), {arrays::random(f64, {3, 5}, 7, 1.4, 3)});
        continue;
      }
      check_twice(unary(code), {arrays::random(f64, {3, 5}, 7, 0.15, inside ? 0.85 : 1.6)});
      if (code == op::log || code == op::log2 || code == op::sqrt || code == op::root_of_squares || code == op::rsqrt)
        continue;
      check_twice(unary(code), {arrays::random(f64, {7}, 8, -0.85, -0.15)});
      if (code != op::cbrt && code != op::abs && code != op::lgamma && code != op::digamma)
        check_twice(unary(code), {arrays::of(f64, {2}, {0.0, -0.0})});
    } else {
      check_twice(binary(code), {positive({3, 5}, 1), arrays::random(f64, {3, 5}, 2, 1.75, 2.6)}, 1e-5);
      check_twice(binary(code), {arrays::random(f64, {3, 5}, 2, 1.75, 2.6), positive({3, 5}, 1)}, 1e-5);
    }
  }
}

TEST_CASE("polygamma is differentiated by its second operand, of every order, twice") {
  for (const double order : {0.0, 1.0, 2.0, 5.0}) {
    const function f = [=](const std::vector<value>& in) { return polygamma(order, in[0]); };
    check_twice(f, {arrays::of(f64, {4}, {0.9, 1.7, 3.5, 14})}, 1e-5);
    check_twice(f, {arrays::of(f64, {2}, {-0.6, -2.4})}, 1e-4);
  }
}

TEST_CASE("atan2 is differentiated right on its axes and far from 1, twice") {
  for (const double size : {0.3, 1.0, 3.0}) {
    const literal_array on{f64, {4}, {0, 0, size, -size}, {}}, off{f64, {4}, {size, size / 2, size / 3, -size / 3}, {}};
    check_twice(binary(op::atan2), {on, off}, 1e-5);
    check_twice(binary(op::atan2), {off, on}, 1e-5);
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
  SUBCASE("a slice of as many axes as there may be") {
    check_twice(squared([](const value& v) {
                  return slice(v, {2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 2}, {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3},
                               {2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, -3});
                }),
                {positive({3, 1, 1, 4, 1, 1, 1, 1, 1, 1, 1, 4}, 5)});
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
  const auto x = arrays::of(f64, {6, 4}, {1, -2, 3, 4, 0, 2, 3, 4, 1, 0, 0, 2, 5, 0, 0, 0, 0, 0, 0, 0, -1, 0, -2, 0.5});
  check_twice(multiplied({1}), {x}, 1e-5);
  check_twice(multiplied({0}), {x}, 1e-5);
  check_twice(multiplied({0, 1}), {arrays::of(f64, {2, 3}, {1, -2, 0, 4, 3, 2})}, 1e-5);
  check_twice(multiplied({0, 2}), {arrays::of(f64, {2, 2, 2}, {1, 0, 3, -2, 0, 2, -1, 3})}, 1e-5);
  for (std::int64_t n = 0; n < 10; ++n) check_twice(multiplied({1}), {arrays::random(f64, {2, n}, 3)});
  for (std::int64_t n = 0; n < 3; ++n) check_twice(multiplied({0, 2}), {arrays::random(f64, {n, 2, 3}, 3)});
}

TEST_CASE("products with NaN and infinities: what each derivative leaves out does not reach it") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const auto& x : std::vector<std::vector<double>>{{nan, 2},
                                                        {inf, 2},
                                                        {nan, -2, 3, -4},
                                                        {1, -2, nan, 4, 0},
                                                        {inf, 2, 3, 4},
                                                        {1, 2, 3, inf},
                                                        {inf, 0, 3, 4},
                                                        {2, inf, 3, 0, 5},
                                                        {nan, 0, inf, 2},
                                                        {inf, inf, 2},
                                                        {0, inf, 0}}) {
    const auto n = static_cast<std::int64_t>(x.size());
    graph g;
    const value in(g, g.add_input(f64, {n}));
    const node_id wrt[] = {in.id()};
    const value slopes(g, sinter::engine::gradient(g, reduce(in, op::mul, {0}).id(), wrt, {})[0]);
    const value weighed = reduce(slopes * (iota(in, f64, {n}, 0) + 1.0), op::add, {0});
    g.outputs = {slopes.id(), sinter::engine::gradient(g, weighed.id(), wrt, {})[0]};
    const auto got = arrays::run(g, {arrays::of(f64, {n}, x)});
    const auto without = [&](std::size_t i, std::size_t j) {
      double p = 1;
      for (std::size_t k = 0; k < x.size(); ++k) p *= k == i || k == j ? 1 : x[k];
      return p;
    };
    auto first = arrays::of(f64, {n}, {}), second = first;
    for (std::size_t j = 0; j < x.size(); ++j) {
      first.f.push_back(without(j, j));
      second.f.push_back(0);
      for (std::size_t i = 0; i < x.size(); ++i)
        if (i != j) second.f[j] += static_cast<double>(i + 1) * without(i, j);
    }
    CAPTURE(x[0]);
    CAPTURE(n);
    CHECK(arrays::difference(got[0], first, 1e-14) == "");
    // Terms are added before they are multiplied by what they share: an infinity beside a product of infinity and zero.
    for (std::size_t j = 0; j < x.size(); ++j)
      if (std::isnan(second.f[j]) && std::isinf(got[1].f[j])) second.f[j] = got[1].f[j];
    CHECK(arrays::difference(got[1], second, 1e-14) == "");
  }
}

TEST_CASE("products of 16 bits: what two sides leave the range by, the other brings back") {
  graph g;
  const value x(g, g.add_input(dtype::f16, {4}));
  const node_id wrt[] = {x.id()};
  g.outputs = sinter::engine::gradient(g, cast(reduce(x, op::mul, {0}), f64).id(), wrt, {});
  CHECK(g[g.outputs[0]].type == dtype::f16);
  const auto got = arrays::run(g, {arrays::of(dtype::f16, {4}, {512, 512, 0.125, 0.125})});
  CHECK(got[0].f == std::vector<double>{8, 8, 32768, 32768});
}

TEST_CASE("products and running products of symbolic extents are differentiated as those of known ones, twice") {
  const auto n = sinter::ir::dim::symbol(0), m = sinter::ir::dim::symbol(1);
  const auto running = [](std::int64_t axis, bool reverse) {
    return function([=](const std::vector<value>& in) { return scan(in[0], op::mul, axis, reverse); });
  };
  for (const function& f : {multiplied({0}), multiplied({1}), multiplied({0, 1}), running(0, false), running(1, true)})
    for (const std::vector<std::int64_t>& sizes : {extents_t{2, 3}, extents_t{7, 2}, extents_t{5, 6}})
      for (int order : {1, 2, 3}) {
        auto x = arrays::random(f64, sizes, 3);
        x.f[1] = x.f[3] = 0;
        const auto slope = [&](graph& g, const shape& extents) {
          const value in(g, g.add_input(f64, extents));
          value y = f({in});
          for (int k = 0; k < order; ++k) {
            y = sum_of_squares(y);
            const node_id wrt[] = {in.id()};
            y = {g, sinter::engine::gradient(g, y.id(), wrt, {})[0]};
          }
          g.outputs = {y.id()};
          sinter::ir::check(g, "gradient");
        };
        graph known, open;
        slope(known, {sizes[0], sizes[1]});
        slope(open, {n, m});
        CAPTURE(order);
        CHECK(arrays::difference(arrays::run(open, {x}, sizes)[0], arrays::run(known, {x})[0], 1e-13) == "");
      }
}

TEST_CASE("derivatives of products take memory in proportion to their number of factors") {
  for (const function& f :
       {multiplied({0}), function([](const std::vector<value>& in) { return scan(in[0], op::mul, 0, false); })}) {
    graph known, open;
    const value in(known, known.add_input(f64, {1000})), x(open, open.add_input(f64, {sinter::ir::dim::symbol(0)}));
    for (const value& v : {in, x}) {
      const value loss = scalar(f, {v}, 2);
      const node_id wrt[] = {v.id()};
      v.owner().outputs = sinter::engine::gradient(v.owner(), loss.id(), wrt, {});
      std::int64_t elements = 0;
      for (auto id : v.owner().live())
        elements += product(v.owner()[id].extents).evaluate(std::array{std::int64_t{1000}});
      CHECK(elements < 1000 * 150);
      CHECK(v.owner().live().size() < 150);
    }
  }
}

TEST_CASE("scans with factors, along both axes and both ways") {
  auto factors = distinct({3, 4}, 5);
  factors.f[5] = factors.f[6] = 0;
  for (std::int64_t axis : {0, 1})
    for (bool reverse : {false, true}) {
      const function f = [=](const std::vector<value>& in) {
        const value y = recurrence(in[0] * in[0], in[1], axis, reverse);
        return y * y;
      };
      check_twice(f, {positive({3, 4}, 1), factors}, 1e-5);
      check_twice(f, {positive({1, 1}, 1), positive({1, 1}, 2)}, 1e-5);
    }
}

TEST_CASE("the first factor of a scan neither gives nor takes") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  graph g;
  const value x(g, g.add_input(f64, {3})), a(g, g.add_input(f64, {3}));
  const value y = recurrence(x, a, 0, false), z = recurrence(x, a, 0, true);
  const value loss = reduce(y * y, op::add, {0}) + reduce(z, op::add, {0}) * inf;
  const node_id wrt[] = {x.id(), a.id()};
  g.outputs = sinter::engine::gradient(g, reduce(y * y, op::add, {0}).id(), wrt, {});
  g.outputs.push_back(sinter::engine::gradient(g, loss.id(), wrt, {})[1]);
  const auto got = arrays::run(g, {arrays::of(f64, {3}, {1, 2, 3}), arrays::of(f64, {3}, {inf, 2, 3})});
  // y = {1, 4, 15}
  CHECK(got[0].f == std::vector<double>{2 + 2 * (8 + 3 * 30), 8 + 3 * 30, 30});
  CHECK(got[1].f == std::vector<double>{0, 98, 120});
  CHECK(got[2].f == std::vector<double>{inf, inf, 120});
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
