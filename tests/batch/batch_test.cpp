// Every op of the table for lanes, against a loop over them; the shapes that the graphs of all lanes have.
#include <map>
#include <set>
#include <sinter/ir/attention_site.hpp>

#include "lanes.hpp"

using namespace lanes;
using sinter::ir::shape;

namespace {

value concat(const values& x, std::int64_t axis) {
  sinter::ir::attributes a;
  a.ints = {axis};
  return {x[0].owner(), x[0].owner().push(op::concat, ids(x), a)};
}
/// Attention with a bias of its scores, and the logarithms of its sums: q, k, v, bias.
values attended(const values& v) {
  graph& g = v[0].owner();
  const value dots = dot(v[0], permute(v[1], {0, 2, 1}), 1, 1);
  sinter::ir::attention_site site;
  site.q = v[0].id(), site.k = v[1].id(), site.v = v[2].id();
  site.products = dots.id();
  site.score = (dots * 0.5 + broadcast(reshape(v[3], {1, 3, 5}), dots.extents())).id();
  site.batch = 1;
  const value out = sinter::ir::push_attention(g, site, {});
  sinter::ir::attributes logs = out.get().attr;
  logs.ints[0] = 1;
  return {out, {g, g.push(op::attention, out.get().in, logs)}};
}

value sum_squares(const value& x, sinter::series<std::int64_t> axes) {
  sinter::ir::attributes a;
  a.ints = std::move(axes);
  return push(op::sum_squares, {x}, a);
}
value arg_reduce(const value& x, op combiner, std::int64_t axis) {
  sinter::ir::attributes a;
  a.combiner = combiner;
  a.ints = {axis};
  return push(op::arg_reduce, {x}, a);
}
value size_of(const value& near, std::int64_t n) {
  sinter::ir::attributes a;
  a.dims = {n};
  return {near.owner(), near.owner().push(op::size, {}, a)};
}

struct row {
  op code;
  function f;
  std::vector<input> in;
};

constexpr auto f64 = dtype::f64;

/// At least one of each structural op that has operands.
std::vector<row> rows() {
  const input x{f64, {3, 4}}, y{f64, {3, 4}};
  const auto index = [](extents_t e, double most) { return input{dtype::i64, std::move(e), -1, most}; };
  std::vector<row> all{
      {op::reshape,
       [](const values& v) {
         return values{reshape(v[0], {2, 6}), reshape(v[0], {12})};
       },
       {x}},
      {op::reshape,
       [](const values& v) {
         return values{reshape(v[0], {1, 1})};
       },
       {{f64, {}}}},
      {op::reshape,
       [](const values& v) {
         return values{reshape(v[0], {0, 2})};
       },
       {{f64, {3, 0}}}},
      {op::permute,
       [](const values& v) {
         return values{permute(v[0], {1, 0})};
       },
       {x}},
      {op::permute,
       [](const values& v) {
         return values{permute(v[0], {2, 0, 1})};
       },
       {{f64, {3, 1, 4}}}},
      {op::broadcast,
       [](const values& v) {
         return values{broadcast(v[0], {3, 2, 4})};
       },
       {{f64, {3, 1, 4}}}},
      {op::slice,
       [](const values& v) {
         return values{slice(v[0], {2, 2}, {2, 0}, {-2, 3})};
       },
       {x}},
      {op::slice,
       [](const values& v) {
         return values{slice(v[0], {0, 2}, {0, 1}, {1, 1})};
       },
       {x}},
      {op::window,
       [](const values& v) {
         return values{window(v[0], {2, 2, 3}, {0, 1}, {1, 1, 0, 0, 0, 1})};
       },
       {x}},
      {op::pad,
       [](const values& v) {
         return values{pad(v[0], {1, 0}, {0, 2}, 3.0) * v[1]};
       },
       {x, {f64, {4, 6}}}},
      {op::concat,
       [](const values& v) {
         return values{concat({v[0], v[1], v[0]}, 1)};
       },
       {x, {f64, {3, 2}}}},
      {op::concat,
       [](const values& v) {
         return values{concat({v[0], v[1]}, 0)};
       },
       {x, {f64, {0, 4}}}},
      {op::gather, [](const values& v) { return values{gather(v[0], v[1], 0)}; }, {x, index({2, 4}, 4)}},
      {op::gather, [](const values& v) { return values{gather(v[0], v[1], 1)}; }, {x, index({3, 7}, 5)}},
      {op::gather,
       [](const values& v) { return values{gather(v[0], v[1], 1)}; },
       {{f64, {1, 5, 2}}, index({1, 3, 2}, 6)}},
      {op::gather,
       [](const values& v) {
         return values{gather(v[0], broadcast(reshape(v[1], {1, 3, 1}), {2, 3, 2}), 1)};
       },
       {{f64, {2, 5, 2}}, index({3}, 5)}},
      {op::gather,
       [](const values& v) {
         return values{gather(v[0], broadcast(v[1], {2, 4}), 0)};
       },
       {x, index({1, 4}, 3)}},
      {op::gather, [](const values& v) { return values{gather(v[0], v[1], 0)}; }, {{f64, {0}}, index({0}, 1)}},
      {op::scatter_add,
       [](const values& v) { return values{scatter_add(v[0], v[1], v[2], 1)}; },
       {x, index({3, 5}, 5), {f64, {3, 5}}}},
      {op::scatter_add,
       [](const values& v) { return values{scatter_add(v[0], v[1], v[2], 0)}; },
       {x, index({2, 4}, 4), {f64, {2, 4}}}},
  };
  for (op c : {op::identity, op::mul, op::maximum, op::minimum})
    all.push_back({op::scatter,
                   [c](const values& v) { return values{scatter(v[0], v[1], v[2], c, 0)}; },
                   {x, index({4, 4}, 3), {f64, {4, 4}}}});
  for (op c : {op::add, op::mul, op::maximum, op::minimum}) {
    all.push_back({op::reduce,
                   [c](const values& v) {
                     return values{reduce(v[0], c, {1}), reduce(v[0], c, {0, 1})};
                   },
                   {x}});
    for (bool reverse : {false, true})
      all.push_back({op::scan,
                     [=](const values& v) {
                       return values{scan(v[0], c, 1, reverse), scan(v[0], c, 0, reverse)};
                     },
                     {x}});
  }
  all.push_back({op::reduce,
                 [](const values& v) {
                   return values{reduce(v[0], op::bit_or, {0}), reduce(v[0], op::bit_and, {1})};
                 },
                 {{dtype::b8, {3, 2}}}});
  all.push_back({op::reduce, [](const values& v) { return values{reduce(v[0], op::add, {0})}; }, {{f64, {0, 2}}}});
  all.push_back({op::sum_squares,
                 [](const values& v) {
                   return values{sum_squares(v[0], {1}), sum_squares(v[0], {0, 1})};
                 },
                 {x}});
  for (bool reverse : {false, true})
    all.push_back({op::scan, [=](const values& v) { return values{recurrence(v[0], v[1], 1, reverse)}; }, {x, y}});
  for (op c : {op::maximum, op::minimum})
    all.push_back({op::arg_reduce,
                   [c](const values& v) {
                     return values{arg_reduce(v[0], c, 0), arg_reduce(v[0], c, 1)};
                   },
                   {x}});
  for (std::int64_t back : {0, 1}) {
    all.push_back({op::argsort,
                   [=](const values& v) {
                     const auto sorted = [&](std::int64_t axis, std::int64_t count) {
                       sinter::ir::attributes a;
                       a.ints = {axis, back};
                       a.dims = {count};
                       return value(v[0].owner(), v[0].owner().push(op::argsort, {v[0].id()}, a), {});
                     };
                     return values{sorted(1, v[0].extents()[1].number().value()), sorted(0, 1)};
                   },
                   {x}});
    all.push_back(
        {op::searchsorted,
         [=](const values& v) {
           sinter::ir::attributes a;
           a.ints = {1, back};
           return values{value(v[0].owner(), v[0].owner().push(op::searchsorted, {v[0].id(), v[1].id()}, a), {})};
         },
         {x, y}});
  }
  const auto product = [&](extents_t a, extents_t b, std::int64_t nb, std::int64_t nk) {
    all.push_back({op::dot, [=](const values& v) { return values{dot(v[0], v[1], nb, nk)}; }, {{f64, a}, {f64, b}}});
  };
  product({3, 4}, {4, 2}, 0, 1);
  product({4}, {4, 2}, 0, 1);
  product({3, 4}, {4}, 0, 1);
  product({4}, {4}, 0, 1);
  product({3}, {2}, 0, 0);
  product({2, 3, 4}, {2, 4, 2}, 1, 1);
  product({2, 4}, {2, 4, 3}, 1, 1);
  product({2, 3, 4}, {2, 4}, 1, 1);
  product({1, 3, 4}, {1, 4, 2}, 1, 1);
  product({2, 3, 3, 2, 4}, {2, 3, 2, 4, 2, 2}, 2, 2);
  product({3, 2, 4}, {2, 4}, 0, 2);
  product({2, 4}, {2, 4, 3, 2}, 0, 2);
  product({3, 0}, {0, 2}, 0, 1);
  product({0, 4}, {4, 2}, 0, 1);
  const std::vector<input> heads{{f64, {2, 3, 4}}, {f64, {2, 5, 4}}, {f64, {2, 5, 2}}, {f64, {3, 5}}};
  all.push_back({op::attention, [](const values& v) { return attended(v); }, heads});
  all.push_back({op::attention_back,
                 [](const values& v) {
                   const value loss = reduce(attended(v)[0], op::add, {0, 1, 2});
                   values out;
                   for (auto id : sinter::engine::gradient(loss.owner(), loss.id(), ids(v), {}))
                     out.push_back({loss.owner(), id});
                   return out;
                 },
                 heads});
  return all;
}

}  // namespace

TEST_CASE("structural ops of lanes give what a loop over the lanes gives, and so do their derivatives") {
  std::set<op> tested;
  for (const auto& r : rows()) {
    CAPTURE(std::string(name(r.code)));
    tested.insert(r.code);
    agree(r.f, r.in);
  }
  // Nodes without operands do not vary by themselves. Collectives have lanes in simulate_test.cpp.
  std::set<op> without{op::input, op::constant, op::iota, op::size, op::opaque, op::pick};
  for (int code = sinter::ir::pointwise_count; code <= static_cast<int>(op::attention_back); ++code)
    if (sinter::ir::is_collective(static_cast<op>(code))) without.insert(static_cast<op>(code));
  for (int code = sinter::ir::pointwise_count; code <= static_cast<int>(op::attention_back); ++code) {
    CAPTURE(std::string(name(static_cast<op>(code))));
    CHECK(tested.count(static_cast<op>(code)) + without.count(static_cast<op>(code)) == 1);
  }
  agree(
      [](const values& v) {
        const value n = cast(broadcast(reshape(size_of(v[0], 3), {1}), {3}), f64);
        return values{v[0] * iota(v[0], f64, {3}, 0) + n, n, iota(v[0], f64, {3}, 0), v[0].like(2.0)};
      },
      {{f64, {3}}});
}

TEST_CASE("pointwise ops of lanes") {
  using rule = sinter::ir::dtype_rule;
  for (int i = 0; i < sinter::ir::pointwise_count; ++i) {
    const op code = static_cast<op>(i);
    const auto& r = sinter::ir::row(code);
    CAPTURE(std::string(r.name));
    dtype t = f64;
    if (r.rule == rule::integer || r.rule == rule::bits) t = dtype::i32;
    if (r.rule == rule::random) t = dtype::u64;
    std::vector<input> in;
    for (int k = 0; k < r.arity; ++k) in.push_back({t, {3, 2}, 0.2, t == f64 ? 0.9 : 5.0});
    if (r.rule == rule::selection) in[0] = {dtype::b8, {3, 2}};
    const bool smooth = code != op::kinked && r.rule != rule::same_size;
    agree(
        [&](const values& v) {
          sinter::ir::attributes a;
          if (code == op::cast) a.type = dtype::f32;
          if (r.rule == rule::same_size) a.type = dtype::i64;
          return values{{v[0].owner(), v[0].owner().push(code, ids(v), a)}};
        },
        in, {0, smooth, smooth, code == op::cast ? 1e-6 : 1e-9});
  }
  // Without axes, and with nothing.
  for (const extents_t& e : {extents_t{}, extents_t{0}, extents_t{1}})
    agree([](const values& v) { return values{v[0] * v[1] + exp(v[0])}; }, {{f64, e}, {f64, e}});
}

TEST_CASE("marks of a lane's graph are none of the graph around") {
  graph lane;
  const value x(lane, lane.add_input(f64, {2}));
  const node_id m = lane.mark(x.id());
  lane.outputs = {(value(lane, m) * x).id()};
  graph g;
  const value all(g, g.add_input(f64, {3, 2}));
  const node_id mine = g.mark(all.id());
  const sinter::series<node_id> in{all.id()};
  const char varies[] = {1};
  const auto out = sinter::engine::batch::push_lanes(g, lane, in, varies, 3, {});
  // By the mark of its own alone nothing flows.
  const auto slopes =
      sinter::engine::gradient(g, sum({g, out.nodes[0]}).id(), std::vector<node_id>{mine, all.id()}, {});
  g.outputs = slopes;
  const auto got = arrays::run(g, {arrays::random(f64, {3, 2}, 1)});
  CHECK(got[0].f == std::vector<double>(6, 0.0));
  CHECK(got[1].f[0] != 0);
}

TEST_CASE("a product of which one operand varies is one product") {
  const auto check = [](extents_t a, extents_t b, std::int64_t nb, std::int64_t nk, unsigned pattern) {
    const graph lane = of_one([=](const values& v) { return values{dot(v[0], v[1], nb, nk)}; }, {{f64, a}, {f64, b}});
    const batched all(lane, pattern, 5);
    int products = 0;
    for (auto id : all.g.live()) {
      const auto& n = all.g[id];
      CHECK(n.code != op::broadcast);
      if (n.code != op::dot) continue;
      ++products;
      CHECK(n.attr.ints[0] == (pattern == 3 ? nb + 1 : nb));
    }
    CHECK(products == 1);
  };
  for (unsigned pattern : {1u, 2u, 3u}) {
    check({3, 4}, {4, 2}, 0, 1, pattern);
    check({4}, {4, 2}, 0, 1, pattern);
    check({3, 4}, {4}, 0, 1, pattern);
    check({2, 3, 4}, {2, 4, 2}, 1, 1, pattern);
  }
}

TEST_CASE("lanes take an axis: a value of the highest rank is refused in words") {
  const extents_t most(12, 1), fewer(11, 1);
  const graph lane =
      of_one([&](const values& v) { return values{sum(reshape(v[0], arrays::shape(most)))}; }, {{f64, fewer}});
  const std::string why = arrays::message([&] { batched(lane, 1, 3); });
  CAPTURE(why);
  CHECK(why.find("[vmap] the mapped function has a value of rank 12") != std::string::npos);
  CHECK(why.find("reshape it to fewer axes") != std::string::npos);
  CHECK_NOTHROW(batched(lane, 0, 3));
  agree([&](const values& v) { return values{v[0] * 2.0}; }, {{f64, fewer}});
}

TEST_CASE("lanes and extents that are open") {
  const auto s0 = sinter::ir::dim::symbol(0), s1 = sinter::ir::dim::symbol(1);
  graph lane;
  const value x(lane, lane.add_input(f64, {s1, 4})), w(lane, lane.add_input(f64, {4, 3})),
      i(lane, lane.add_input(dtype::i64, {2, 4}));
  const value y = dot(x, w, 0, 1), n = cast(broadcast(reshape(size_of(x, 7), {1, 1}), {s1, 3}), f64);
  lane.outputs =
      ids({y + n, reduce(x, op::maximum, {0}), gather(x, i, 0), slice(x, {s1 - 1, 4}, {1, 0}, {1, 1}),
           reshape(x, {s1 * 4}), pad(x, {s1, 0}, {0, 1}, 1.0), concat({x, x}, 0), scan(x, op::add, 0, true)});
  for (unsigned pattern = 0; pattern < 8; ++pattern) {
    const batched all(lane, pattern, s0);
    for (std::int64_t count : {2, 5}) {
      const std::int64_t sizes[] = {count, 6};
      std::vector<input> in{{f64, {6, 4}}, {f64, {4, 3}}, {dtype::i64, {2, 4}, -1, 7}};
      const auto given = arguments(in, pattern, count);
      const auto got = arrays::run(all.g, given, {count, 6});
      for (std::int64_t l = 0; l < count; ++l) {
        std::vector<literal_array> one;
        for (std::size_t k = 0; k < 3; ++k) one.push_back(varies(pattern, k) ? slice(given[k], l) : given[k]);
        const auto want = sinter::ir::evaluate(lane, one, sizes);
        for (std::size_t k = 0; k < got.size(); ++k)
          CHECK(arrays::difference(all.out.varies[k] ? slice(got[k], l) : got[k], want[k]) == "");
      }
    }
  }
}
