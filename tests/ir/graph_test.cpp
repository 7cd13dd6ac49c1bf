#include <sinter/ir/define.hpp>

#include <bit>

#include "arrays.hpp"

using namespace sinter::ir;
using sinter::dtype;

namespace {
value input(graph& g, dtype t, shape s) { return {g, g.add_input(t, std::move(s)), {"user.cpp", 3}}; }
}  // namespace

TEST_CASE("equal operations are one node, whatever their location") {
  graph g;
  const value x = input(g, dtype::f32, {3, 4}), elsewhere(g, x.id(), {"other.cpp", 9});
  const value first = exp(x);
  CHECK((x * 2.0).id() == (elsewhere * 2.0).id());
  CHECK(first.id() == exp(elsewhere).id());
  CHECK(g[exp(elsewhere).id()].where.line == 3);
  CHECK((x + x).id() != (x * x).id());
  CHECK(cast(x, dtype::f64).id() != cast(x, dtype::f16).id());
  CHECK(reduce(x, op::add, {0}).id() != reduce(x, op::add, {1}).id());
  CHECK(reduce(x, op::add, {0}).id() != reduce(x, op::mul, {0}).id());
  CHECK(reshape(x, {12}).id() != reshape(x, {2, 6}).id());
}

TEST_CASE("constants differ by their bits, dtype and extents") {
  graph g;
  const auto c = [&](double v, dtype t = dtype::f32, shape s = {}) { return g.constant(t, v, std::move(s)); };
  CHECK(c(1) == c(1));
  CHECK(c(0.0) != c(-0.0));
  CHECK(c(1) != c(1, dtype::f64));
  CHECK(c(1) != c(1, dtype::f32, {1}));
  const double nan = std::nan(""), payload = std::bit_cast<double>(std::bit_cast<std::uint64_t>(nan) + 1);
  CHECK(c(nan) == c(nan));
  CHECK(c(nan) != c(payload));
}

TEST_CASE("inputs and marks are never merged") {
  graph g;
  const node_id x = g.add_input(dtype::f32, {3}), y = g.add_input(dtype::f32, {3});
  CHECK(x != y);
  CHECK(g.inputs == std::vector<node_id>{x, y});
  CHECK(g.mark(x) != g.mark(x));
  graph copy = g;
  const node_id before = static_cast<node_id>(copy.size());
  CHECK(copy.mark(x) == before);
}

TEST_CASE("symbolic extents intern by canonical form") {
  graph g;
  const dim n = dim::symbol(0);
  CHECK(g.constant(dtype::f32, 1.0, {n + 1}) == g.constant(dtype::f32, 1.0, {1 + n}));
  CHECK(g.constant(dtype::f32, 1.0, {n}) != g.constant(dtype::f32, 1.0, {dim::symbol(1)}));
}

TEST_CASE("a refused push leaves the graph as it was") {
  graph g;
  const value x = input(g, dtype::f32, {3, 4});
  const auto size = g.size();
  CHECK_THROWS_AS(reshape(x, {5}), sinter::user_error);
  CHECK_THROWS_AS(reshape(x, {5}), sinter::user_error);
  CHECK(g.size() == size);
}

TEST_CASE("live keeps what the outputs need, and every input") {
  graph g;
  const value x = input(g, dtype::f32, {3}), unused = input(g, dtype::f32, {2});
  const value y = exp(x);
  exp(y);
  g.outputs = {y.id()};
  CHECK(g.live() == std::vector<node_id>{x.id(), unused.id(), y.id()});
}

TEST_CASE("printing is complete and stable") {
  graph g;
  const value x = input(g, dtype::f32, {3, 4}), i = input(g, dtype::i64, {3, 2}), c = input(g, dtype::b8, {3, 4});
  exp(x);
  const value half = x * -0.5, whole = cast(cast(x, dtype::i32), dtype::f32), y = select(c, half, whole);
  attributes a;
  a.ints = {1};
  a.combiner = op::maximum;
  const value picked = gather(y, i, 1), added = scatter_add(y, i, picked, 1), best = push(op::arg_reduce, {y}, a);
  const value moved = pad(slice(permute(y, {1, 0}), {2, 3}, {3, 0}, {-2, 1}), {0, 1}, {2, 0}, std::nan(""));
  a = {};
  a.ints = {0};
  const value joined = push(op::concat, {y, added}, a), marked(g, g.mark(joined.id()));
  const value row = reduce(y, op::minimum, {0});
  const value product = dot(y, moved, 0, 1), ramp = iota(x, dtype::u8, {2, 3}, 1);
  g.outputs = {marked.id(), best.id(), product.id(), ramp.id(), broadcast(reshape(row, {1, 4}), {5, 4}).id()};
  CHECK(print(g) == R"(%0 = f32(3, 4) input 0
%1 = i64(3, 2) input 1
%2 = bool(3, 4) input 2
%3 = f32(3, 4) constant -0.5
%4 = f32(3, 4) mul %0 %3
%5 = i32(3, 4) cast %0
%6 = f32(3, 4) cast %5
%7 = f32(3, 4) select %2 %4 %6
%8 = f32(3, 2) gather axis=1 %7 %1
%9 = f32(3, 4) scatter_add axis=1 %7 %1 %8
%10 = i64(3,) arg_reduce maximum axis=1 %7
%11 = f32(4, 3) permute [1, 0] %7
%12 = f32(2, 3) slice start=(3, 0) step=[-2, 1] %11
%13 = f32(4, 4) pad low=(0, 1) high=(2, 0) value=nan %12
%14 = f32(6, 4) concat axis=0 %7 %9
%15 = f32(6, 4) identity mark=0 %14
%16 = f32(4,) reduce minimum axes=[0] %7
%17 = f32(3, 4) dot batch=0 inner=1 %7 %13
%18 = u8(2, 3) iota axis=1
%19 = f32(1, 4) reshape %16
%20 = f32(5, 4) broadcast %19
return %15 %10 %17 %18 %20
)");
  CHECK(print(g, y.id()) == "%8 = f32(3, 4) select %2 %5 %7");
}

TEST_CASE("literals print with their bits") {
  graph g;
  const auto text = [&](dtype t, scalar s) { return print(g, g.constant(t, s, {})).substr(5); };
  CHECK(text(dtype::f64, {-0.0, 0}) == "f64() constant -0");
  CHECK(text(dtype::f64, {0.1, 0}).find("constant 0.1") != std::string::npos);
  CHECK(text(dtype::b8, {0, 1}).find("true") != std::string::npos);
  CHECK(text(dtype::u64, {0, -1}).find("18446744073709551615") != std::string::npos);
  CHECK(text(dtype::f64, {std::bit_cast<double>(0x7ff8000000000001ull), 0}).find("nan:7ff8000000000001") !=
        std::string::npos);
}

TEST_CASE("check finds an output that is not a node and inputs that are not listed") {
  graph g;
  const value x = input(g, dtype::f32, {3});
  g.outputs = {exp(x).id()};
  check(g, "pass");
  graph bad = g;
  bad.outputs = {77};
  CHECK(arrays::message([&] { check(bad, "fuse"); }) == "internal error: after fuse: an output is not a node");
  bad = g;
  bad.inputs.clear();
  CHECK(arrays::message([&] { check(bad, "fuse"); }) ==
        "internal error: after fuse: %0 (input) is not listed at its position");
  bad = g;
  bad.inputs.push_back(1);
  CHECK_THROWS_AS(check(bad, "fuse"), sinter::internal_error);
}

TEST_CASE("thousands of nodes push quickly and stay addressable") {
  graph g;
  value x = input(g, dtype::f32, {3});
  const node& first = g[x.id()];
  for (int i = 0; i < 20000; ++i) x = x + x * static_cast<double>(i);
  CHECK(&first == &g[0]);
  CHECK(g.size() == 60001);
}
