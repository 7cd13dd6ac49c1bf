// Every op over a mesh axis, on simulated ranks: values against plain loops; first and second derivatives, which follow from
// placements, against derivatives of the ordinary graph of all ranks.
#include <doctest/doctest.h>

#include <sinter/batch/placements.hpp>
#include <sinter/batch/simulate.hpp>

#include "lanes.hpp"

using namespace lanes;
namespace ops = sinter::ir::ops;
using ops::mesh_axis_of;
using sinter::ir::placement;
using axis_ints = ops::axes_t;

namespace {

constexpr auto invariant = placement::invariant, replicated = placement::replicated, varying = placement::varying,
               partial = placement::partial;

mesh_axis_of axis(std::int64_t ranks) { return {sinter::ir::mesh_axis_number("r"), ranks}; }
sinter::engine::mesh_axis_place place(std::int64_t ranks) { return {axis(ranks).number, ranks, -1}; }

/// A function of one rank: x held in one way, the result in another.
struct rank_function {
  const char* name;
  placement from, to;
  extents_t extents;
  std::function<value(const value&, mesh_axis_of)> f;
};

value vary(const value& x, mesh_axis_of a, placement from) { return ops::varied(x, a, from); }
value sums(const value& x, mesh_axis_of a) { return ops::placed_as(x, a, varying, partial); }
/// A varying value that differs between ranks even where x does not.
value own(const value& x, mesh_axis_of a, placement from) {
  const value index = cast(ops::axis_index(x, a), x.type()) * 0.3 + 1.0;
  const value v = vary(x, a, from);
  return sin(v) * broadcast(reshape(index, sinter::ir::shape(v.extents().size(), 1)), v.extents());
}

std::vector<rank_function> functions(std::int64_t ranks) {
  const auto axes = [ranks](std::int64_t by) {
    axis_ints from;
    for (std::int64_t r = 0; r < ranks; ++r) from.push_back(((r - by) % ranks + ranks) % ranks);
    return from;
  };
  axis_ints line = axes(1);
  line[0] = -1;
  std::vector<rank_function> all;
  for (const placement to : {replicated, invariant}) {
    all.push_back({"sum of partial", partial, to, {2, 3}, [to](const value& x, auto a) {
                     return sin(ops::all_reduce(x, a, to));
                   }});
    all.push_back({"sum of varying", varying, to, {2, 3}, [to](const value& x, auto a) {
                     return exp(ops::all_reduce(sums(sin(x), a), a, to) * 0.3);
                   }});
    all.push_back({"max", varying, to, {3, 2}, [to](const value& x, auto a) {
                     return sin(ops::all_reduce(sin(x), a, to, op::maximum));
                   }});
    all.push_back({"min", varying, to, {5}, [to](const value& x, auto a) {
                     return sin(ops::all_reduce(x * x, a, to, op::minimum));
                   }});
    all.push_back({"gather 0", varying, to, {2, 3}, [to](const value& x, auto a) {
                     return sin(ops::all_gather(x * x, a, to, 0));
                   }});
    all.push_back({"gather 1", varying, to, {2, 3}, [to](const value& x, auto a) {
                     return sin(ops::all_gather(x * x, a, to, 1));
                   }});
    all.push_back({"broadcast", varying, to, {3}, [to, ranks](const value& x, auto a) {
                     return sin(ops::collective_broadcast(x * x, a, to, ranks - 1));
                   }});
    all.push_back({"own part", to, varying, {2 * ranks, 3}, [to](const value& x, auto a) {
                     return sin(ops::own_part(x * x, a, to, 0));
                   }});
    all.push_back({"as varying", to, varying, {2, 2}, [to](const value& x, auto a) { return own(x * x, a, to); }});
    all.push_back({"as varying, then summed", to, invariant, {2, 2}, [to](const value& x, auto a) {
                     return sin(ops::all_reduce(sums(own(x, a, to), a), a, invariant));
                   }});
  }
  for (const std::int64_t k : {0, 1})
    all.push_back({"reduce_scatter", varying, varying, {2 * ranks, 3 * ranks}, [k](const value& x, auto a) {
                     return sin(ops::reduce_scatter(sums(x * x, a), a, k));
                   }});
  for (const auto& [from, to] : {std::pair{0, 1}, std::pair{1, 0}, std::pair{1, 1}})
    all.push_back({"all_to_all", varying, varying, {2 * ranks, ranks}, [from = from, to = to](const value& x, auto a) {
                     return sin(ops::all_to_all(x * x, a, from, to));
                   }});
  for (const axis_ints& from : {axes(1), axes(-2), line})
    all.push_back({"permute", varying, varying, {3}, [from](const value& x, auto a) {
                     return sin(ops::collective_permute(x * x, a, from));
                   }});
  return all;
}

/// The graph of all ranks of f's graph, whose inputs and outputs have the ranks as axis 0.
graph of_ranks(const graph& one, std::int64_t ranks) {
  sinter::ir::check(one, "rank");
  graph all = sinter::engine::batch::along_axis(one, place(ranks));
  sinter::ir::check(all, "ranks");
  for (node_id id = 0; id < all.size(); ++id) REQUIRE(!sinter::ir::is_collective(all[id].code));
  return all;
}

bool is_equal_on_ranks(placement p) { return p == invariant || p == replicated; }

/// Values for all ranks: equal where the placement says so.
literal_array drawn(extents_t extents, std::int64_t ranks, bool equal, unsigned seed) {
  extents.insert(extents.begin(), ranks);
  literal_array x = arrays::random(dtype::f64, extents, seed, -1.5, 1.5);
  const std::size_t n = x.f.size() / static_cast<std::size_t>(ranks);
  if (equal)
    for (std::size_t i = n; i < x.f.size(); ++i) x.f[i] = x.f[i % n];
  return x;
}
/// The sum over the ranks, on each rank.
literal_array summed(const literal_array& x) {
  literal_array out = x;
  const std::size_t n = x.f.size() / static_cast<std::size_t>(x.extents[0]);
  for (std::size_t i = 0; i < n; ++i) {
    double all = 0;
    for (std::size_t j = i; j < x.f.size(); j += n) all += x.f[j];
    for (std::size_t j = i; j < x.f.size(); j += n) out.f[j] = all;
  }
  return out;
}

/// Checks the derivative of `r` by the rules of placements, and `deeper` derivatives of the derivative.
void check_derivative(const rank_function& r, std::int64_t ranks, int deeper) {
  CAPTURE(deeper);
  const mesh_axis_of a = axis(ranks);
  graph one;
  const value x(one, one.add_input(dtype::f64, arrays::shape(r.extents)));
  const value y = r.f(x, a);
  one.outputs = {y.id()};
  const auto out = y.extents();
  // Of each rank: the cotangent of x for a cotangent c of y.
  graph back = one;
  const value c(back, back.add_input(dtype::f64, out));
  const node_id input = back.inputs[0];
  const value total = sum(value(back, back.outputs[0]) * c);
  back.outputs = sinter::engine::gradient(back, total.id(), std::span<const node_id>(&input, 1), {});
  // The ordinary graph of all ranks, and its derivative.
  graph all = of_ranks(one, ranks);
  const value weights(all, all.add_input(dtype::f64, all[all.outputs[0]].extents));
  value loss(all, all.outputs[0]);
  loss = loss * weights;
  if (r.to == invariant) {  // one computation
    sinter::ir::shape first = loss.extents();
    first[0] = 1;
    loss = slice(loss, first, sinter::ir::shape(first.size(), 0), axis_ints(first.size(), 1));
  }
  const node_id stack = all.inputs[0];
  all.outputs = sinter::engine::gradient(all, sum(loss).id(), std::span<const node_id>(&stack, 1), {});

  extents_t shape;
  for (const auto& d : out) shape.push_back(*d.number());
  const bool equal_cotangents = r.to == invariant || r.to == partial;
  const std::vector<literal_array> given{drawn(r.extents, ranks, is_equal_on_ranks(r.from), 5),
                                         drawn(shape, ranks, equal_cotangents, 6)};
  const literal_array got = arrays::run(of_ranks(back, ranks), given)[0];
  literal_array want = arrays::run(all, given)[0];
  if (is_equal_on_ranks(r.from)) want = summed(want);
  CHECK(arrays::difference(r.from == replicated ? summed(got) : got, want, 1e-11) == "");
  if (deeper == 0) return;
  const double weight = 0.7;
  const rank_function next{
      r.name, r.from, sinter::ir::dual(r.from), r.extents, [r, weight](const value& at, mesh_axis_of m) {
        const value loss_of_rank = sum(r.f(at, m)) * weight;
        graph& g = at.owner();
        const node_id by = at.id();
        return value(g, sinter::engine::gradient(g, loss_of_rank.id(), std::span<const node_id>(&by, 1), {})[0]);
      }};
  check_derivative(next, ranks, deeper - 1);
}

/// The tangents of all ranks are those of the ordinary graph.
void check_tangent(const rank_function& r, std::int64_t ranks) {
  graph one;
  const value x(one, one.add_input(dtype::f64, arrays::shape(r.extents)));
  one.outputs = {r.f(x, axis(ranks)).id()};
  const auto push = [](graph g) {
    const node_id by = g.inputs[0], y = g.outputs[0];
    const node_id t = g.add_input(dtype::f64, g[by].extents);
    g.outputs = sinter::engine::autodiff::jvp(g, std::span<const node_id>(&y, 1), std::span<const node_id>(&by, 1),
                                              std::span<const node_id>(&t, 1));
    return g;
  };
  const bool equal = is_equal_on_ranks(r.from);
  const std::vector<literal_array> given{drawn(r.extents, ranks, equal, 7), drawn(r.extents, ranks, equal, 8)};
  CHECK(arrays::difference(arrays::run(of_ranks(push(one), ranks), given)[0],
                           arrays::run(push(of_ranks(one, ranks)), given)[0], 1e-12) == "");
}

/// The lane `r` of x as a vector.
std::vector<double> lane_of(const literal_array& x, std::int64_t r) {
  const auto n = static_cast<std::ptrdiff_t>(x.f.size()) / x.extents[0];
  return {x.f.begin() + r * n, x.f.begin() + (r + 1) * n};
}

/// The result of op `f` on ranks that hold `x`, and what each element has to be: at(rank, index).
void check_values(
    const char* what, std::int64_t ranks, const extents_t& extents,
    const std::function<value(const value&, mesh_axis_of)>& f,
    const std::function<double(const std::vector<std::vector<double>>&, std::int64_t, std::int64_t)>& at) {
  CAPTURE(what);
  graph one;
  const value x(one, one.add_input(dtype::f64, arrays::shape(extents)));
  one.outputs = {f(x, axis(ranks)).id()};
  const literal_array given = drawn(extents, ranks, false, 9);
  std::vector<std::vector<double>> held;
  for (std::int64_t r = 0; r < ranks; ++r) held.push_back(lane_of(given, r));
  const literal_array got = arrays::run(of_ranks(one, ranks), {given})[0];
  for (std::int64_t r = 0; r < ranks; ++r) {
    const auto mine = lane_of(got, r);
    for (std::size_t i = 0; i < mine.size(); ++i)
      CHECK(mine[i] == doctest::Approx(at(held, r, static_cast<std::int64_t>(i))).epsilon(1e-13));
  }
}

}  // namespace

TEST_CASE("derivatives of ops over ranks follow from placements, twice") {
  for (const std::int64_t ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    for (const auto& r : functions(ranks)) {
      CAPTURE(r.name);
      CAPTURE(sinter::ir::name(r.from));
      CAPTURE(sinter::ir::name(r.to));
      check_derivative(r, ranks, 1);
      check_tangent(r, ranks);
    }
  }
}

TEST_CASE("lanes of ops over ranks are those of a loop over the lanes") {
  const std::int64_t ranks = 3, lanes = 2;
  for (const auto& r : functions(ranks)) {
    CAPTURE(r.name);
    graph one;
    const value x(one, one.add_input(dtype::f64, arrays::shape(r.extents)));
    one.outputs = {r.f(x, axis(ranks)).id()};
    graph wide;
    const node_id in = wide.add_input(dtype::f64, ops::behind(lanes, one[x.id()].extents));
    const char varies = 1;
    wide.outputs = sinter::engine::batch::push_lanes(wide, one, {in}, {&varies, 1}, lanes, {}).nodes;
    // Axes of the stack: ranks, lanes.
    extents_t stack = r.extents;
    stack.insert(stack.begin(), lanes);
    const literal_array given = drawn(stack, ranks, is_equal_on_ranks(r.from), 4);
    const literal_array got = arrays::run(of_ranks(wide, ranks), {given})[0];
    const std::size_t n = given.f.size() / static_cast<std::size_t>(ranks * lanes);
    const std::size_t m = got.f.size() / static_cast<std::size_t>(ranks * lanes);
    for (std::size_t l = 0; l < static_cast<std::size_t>(lanes); ++l) {
      literal_array lane = drawn(r.extents, ranks, false, 4);
      for (std::size_t i = 0; i < lane.f.size(); ++i) lane.f[i] = given.f[(i / n * lanes + l) * n + i % n];
      const literal_array want = arrays::run(of_ranks(one, ranks), {lane})[0];
      for (std::size_t i = 0; i < want.f.size(); ++i)
        CHECK(got.f[(i / m * lanes + l) * m + i % m] == doctest::Approx(want.f[i]).epsilon(1e-13));
    }
  }
}

TEST_CASE("values of ops over ranks against loops") {
  const std::int64_t p = 3;
  using held = std::vector<std::vector<double>>;
  const auto of = [](const held& x, std::int64_t r, std::int64_t i) {
    return x[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)];
  };
  check_values(
      "sum", p, {4}, [](const value& x, auto a) { return ops::all_reduce(sums(x, a), a, replicated); },
      [&](const held& x, auto, auto i) { return of(x, 0, i) + of(x, 1, i) + of(x, 2, i); });
  check_values(
      "max", p, {4}, [](const value& x, auto a) { return ops::all_reduce(x, a, replicated, op::maximum); },
      [&](const held& x, auto, auto i) {
        return std::max({of(x, 0, i), of(x, 1, i), of(x, 2, i)});
      });
  check_values(
      "gather along 1", p, {2, 2}, [](const value& x, auto a) { return ops::all_gather(x, a, invariant, 1); },
      [&](const held& x, auto, auto i) { return of(x, i % 6 / 2, i / 6 * 2 + i % 2); });
  check_values(
      "reduce_scatter along 1", p, {2, 6}, [](const value& x, auto a) { return ops::reduce_scatter(sums(x, a), a, 1); },
      [&](const held& x, auto r, auto i) {
        const std::int64_t j = i / 2 * 6 + r * 2 + i % 2;
        return of(x, 0, j) + of(x, 1, j) + of(x, 2, j);
      });
  // From rank l its part r of the columns, as rows l·2 to l·2 + 1.
  check_values(
      "all_to_all", p, {2, 3}, [](const value& x, auto a) { return ops::all_to_all(x, a, 1, 0); },
      [&](const held& x, auto r, auto i) { return of(x, i / 2, i % 2 * 3 + r); });
  check_values(
      "permute", p, {2},
      [](const value& x, auto a) {
        return ops::collective_permute(x, a, {2, -1, 0});
      },
      [&](const held& x, auto r, auto i) { return r == 1 ? 0.0 : of(x, r == 0 ? 2 : 0, i); });
  check_values(
      "broadcast", p, {2}, [](const value& x, auto a) { return ops::collective_broadcast(x, a, replicated, 1); },
      [&](const held& x, auto, auto i) { return of(x, 1, i); });
  check_values(
      "index", p, {2},
      [](const value& x, auto a) { return x + broadcast(reshape(cast(ops::axis_index(x, a), dtype::f64), {1}), {2}); },
      [&](const held& x, auto r, auto i) { return of(x, r, i) + static_cast<double>(r); });
}

TEST_CASE("one axis of a mesh leaves the other's collectives") {
  const mesh_axis_of a{sinter::ir::mesh_axis_number("a"), 2}, b{sinter::ir::mesh_axis_number("b"), 3};
  graph one;
  const value x(one, one.add_input(dtype::f64, {2, 3}));
  const value y = ops::reduce_scatter(sums(ops::all_gather(x * x, b, replicated, 1), a), a, 0);
  one.outputs = {y.id()};
  const graph of_b = sinter::engine::batch::along_axis(one, {b.number, 3, -1});
  const graph of_both = sinter::engine::batch::along_axis(of_b, {a.number, 2, -1});
  const literal_array given = arrays::random(dtype::f64, {2, 3, 2, 3}, 3);
  const literal_array got = arrays::run(of_both, {given})[0];
  CHECK((extents_t(got.extents.begin(), got.extents.end()) == extents_t{2, 3, 1, 9}));
  for (std::size_t i = 0; i < 2; ++i)    // rank along a
    for (std::size_t j = 0; j < 3; ++j)  // rank along b
      for (std::size_t k = 0; k < 9; ++k) {
        double want = 0;
        for (std::size_t l = 0; l < 2; ++l) {
          const double v = given.f[((l * 3 + k / 3) * 2 + i) * 3 + k % 3];
          want += v * v;
        }
        CHECK(got.f[(i * 3 + j) * 9 + k] == doctest::Approx(want).epsilon(1e-13));
      }
}

TEST_CASE("ops over ranks refuse what does not fit") {
  const mesh_axis_of a = axis(3);
  graph g;
  const value x(g, g.add_input(dtype::f64, {4, 3}), {"line.cpp", 7});
  using doctest::Contains;
  CHECK_THROWS_WITH_AS(ops::reduce_scatter(x, a, 0), Contains("axis 0 of (4, 3) does not divide among 3 ranks"),
                       sinter::user_error);
  CHECK_THROWS_WITH_AS(ops::reduce_scatter(x, a, 2), Contains("line.cpp:7"), sinter::user_error);
  CHECK_THROWS_WITH_AS(ops::all_to_all(x, a, 0, 1), Contains("does not divide"), sinter::user_error);
  CHECK_THROWS_WITH_AS(ops::collective_permute(x, a, {0, 0, 1}), Contains("rank 0 sends to two ranks"),
                       sinter::user_error);
  CHECK_THROWS_WITH_AS(ops::collective_permute(x, a, {3, 0, 1}), Contains("ranks are 0 to 2"), sinter::user_error);
  CHECK_THROWS_WITH_AS(ops::collective_broadcast(x, a, replicated, 3), Contains("the root is rank 3"),
                       sinter::user_error);
  CHECK_THROWS_WITH_AS(ops::all_reduce(x, a, replicated, op::mul), Contains("does not combine ranks"),
                       sinter::user_error);
  CHECK_THROWS_WITH_AS(ops::placed_as(x, a, partial, replicated), Contains("partial values do not become replicated"),
                       sinter::user_error);
  // The reference knows one rank only.
  g.outputs = {ops::all_reduce(x, a, replicated).id()};
  CHECK_THROWS_WITH_AS(arrays::run(g, {arrays::random(dtype::f64, {4, 3}, 1)}), Contains("simulate(f, m)"),
                       sinter::user_error);
}

TEST_CASE("a branch or loop in which ranks would wait for each other is refused") {
  const mesh_axis_of a = axis(2);
  const auto looped = [&](bool equal) {
    sinter::ir::opaque step;
    step.kind = sinter::ir::opaque_kind::while_loop;
    step.carried = 1;
    graph test, body;
    const value t(test, test.add_input(dtype::f64, {}));
    test.outputs = {(equal ? lt(ops::all_reduce(t, a, replicated, op::maximum), 4.0) : lt(t, 4.0)).id()};
    const value x(body, body.add_input(dtype::f64, {}));
    body.outputs = {(ops::collective_permute(x, a, {1, 0}) + 1.0).id()};
    step.parts = {std::move(test), std::move(body)};
    graph g;
    const node_id start = g.add_input(dtype::f64, {});
    g.outputs = sinter::ir::push_opaque(g, sinter::ir::seal(std::move(step)), {start}, {"loop.cpp", 3});
    return g;
  };
  CHECK_THROWS_WITH_AS(of_ranks(looped(false), 2), doctest::Contains("they would wait for ever"), sinter::user_error);
  const auto got = arrays::run(of_ranks(looped(true), 2), {{dtype::f64, {2}, {0.5, 2.25}, {}}})[0];
  CHECK(got.f == sinter::series<double>{2.5, 4.25});
}

TEST_CASE("placements are found from collectives, and combinations without a meaning are refused") {
  const auto t = sinter::engine::make_tracer();
  graph& g = t->graph;
  const mesh_axis_of a = axis(2);
  const value x(g, g.add_input(dtype::f64, {4}), {"user.cpp", 11});
  const auto held = [&](const value& v) { return sinter::engine::placement_of(*t, v.id(), a.number); };
  const value p = sums(x, a), r = ops::all_reduce(p, a, replicated), i = ops::all_reduce(p, a, invariant);
  CHECK(held(x) == varying);
  CHECK(held(p) == partial);
  CHECK(held(r) == replicated);
  CHECK(held(i) == invariant);
  CHECK(held(p * r) == partial);
  CHECK(held(-p + p * 2.0) == partial);
  CHECK(held(r * x) == varying);
  CHECK(held(exp(r)) == replicated);
  CHECK(held(i * 2.0) == invariant);
  CHECK(held(reduce(p, op::add, {0})) == partial);
  CHECK(held(p + x) == partial);
  const auto refused = [&](const value& v, const char* text) {
    CHECK_THROWS_WITH_AS(held(v), doctest::Contains(text), sinter::user_error);
    CHECK_THROWS_WITH_AS(held(v), doctest::Contains("user.cpp:11"), sinter::user_error);
  };
  refused(exp(p), "not linear");
  refused(p * p, "two partial operands");
  refused(p * x, "a partial operand with a varying one");
  refused(p + r, "which every rank would add");
  refused(p + 1.0, "which every rank would add");
  refused(i * r, "an invariant operand with a replicated one; write as<replicated");
  refused(i + x, "an invariant operand with a varying one");
  refused(reduce(p, op::maximum, {0}), "not linear");
  refused(ops::all_reduce(r, a, replicated), "takes partial values");
  refused(ops::all_gather(p, a, replicated, 0), "takes varying values");
}
