// Products beside gathers and scatters of ranks, cut into pieces: equal results of simulated ranks, counted exchanges, and why some
// stay whole.
#include <doctest/doctest.h>

#include <sinter/batch/simulate.hpp>
#include <sinter/rewrite/ring_products.hpp>

#include "../batch/lanes.hpp"

using namespace lanes;
namespace ops = sinter::ir::ops;
namespace rewrite = sinter::engine::rewrite;
using ops::mesh_axis_of;
using rewrite::ring_choice;
using rewrite::ring_costs;
using rewrite::ring_products;
using sinter::ir::placement;

namespace {

constexpr auto replicated = placement::replicated, varying = placement::varying, partial = placement::partial;

mesh_axis_of axis(std::int64_t ranks) { return {sinter::ir::mesh_axis_number("r"), ranks}; }
value sums(const value& x, mesh_axis_of a) { return ops::placed_as(x, a, varying, partial); }
value gathered(const value& x, mesh_axis_of a, std::int64_t along) { return ops::all_gather(x, a, replicated, along); }
value scattered(const value& x, mesh_axis_of a, std::int64_t along) {
  return ops::reduce_scatter(sums(x, a), a, along);
}

/// A program of one rank; each rank has its own inputs.
struct program {
  const char* name;
  std::vector<extents_t> inputs;
  std::function<values(const values&, mesh_axis_of)> f;
  int rings = 1;  ///< exchanges that become rings
};

/// With p ranks.
std::vector<program> programs(std::int64_t p) {
  return {
      {"rows", {{3, 5}, {5, 7}}, [](const auto& x, auto a) { return values{dot(gathered(x[0], a, 0), x[1], 0, 1)}; }},
      {"columns",
       {{3, 5}, {5, 7}},
       [](const auto& x, auto a) { return values{dot(x[0], gathered(x[1], a, 1), 0, 1)}; }},
      {"inner axis",
       {{3, 5}, {5 * p, 7}},
       [](const auto& x, auto a) { return values{dot(gathered(x[0], a, 1), x[1], 0, 1)}; }},
      {"inner axis of the other",
       {{3, 5 * p}, {5, 7}},
       [](const auto& x, auto a) { return values{dot(x[0], gathered(x[1], a, 0), 0, 1)}; }},
      {"batch axis",
       {{3, 2, 5}, {3 * p, 5, 7}},
       [](const auto& x, auto a) { return values{dot(gathered(x[0], a, 0), x[1], 1, 1)}; }},
      {"two products of one gather",
       {{3, 5}, {5, 7}, {7, 3 * p}},
       [](const auto& x, auto a) {
         const value all = gathered(x[0], a, 0);
         return values{dot(all, x[1], 0, 1), dot(x[2], all, 0, 1)};
       }},
      {"through views",
       {{2, 3, 5}, {5, 7}},
       [p](const auto& x, auto a) {
         const value all = reshape(gathered(sinter::ir::permute(x[0], {1, 0, 2}), a, 0), {6 * p, 5});
         return values{dot(sinter::ir::cast(sinter::ir::cast(all, dtype::f32), dtype::f64), x[1], 0, 1)};
       }},
      {"rows of a sum",
       {{3 * p, 5}, {5, 7}},
       [](const auto& x, auto a) { return values{scattered(dot(x[0], x[1], 0, 1), a, 0)}; }},
      {"columns of a sum",
       {{3, 5}, {5, 7 * p}},
       [](const auto& x, auto a) { return values{scattered(dot(x[0], x[1], 0, 1), a, 1)}; }},
      {"batch axis of a sum",
       {{3 * p, 2, 5}, {3 * p, 5, 7}},
       [](const auto& x, auto a) { return values{scattered(dot(x[0], x[1], 1, 1), a, 0)}; }},
      {"a sum through views",
       {{6 * p, 5}, {5, 7}},
       [p](const auto& x, auto a) {
         const value y = reshape(dot(x[0], x[1], 0, 1), {3 * p, 2, 7});
         return values{scattered(sinter::ir::permute(y, {1, 0, 2}), a, 1)};
       }},
      {"a gather, then a scatter",
       {{3, 5}, {5, 7}, {7, 5}},
       [](const auto& x, auto a) {
         const value h = sin(dot(gathered(x[0], a, 0), x[1], 0, 1));
         return values{scattered(dot(h, x[2], 0, 1), a, 0)};
       },
       2},
      {"their gradients",
       {{3, 5}, {5, 7}, {7, 5}},
       [](const auto& x, auto a) {
         const value h = sin(dot(gathered(x[0], a, 0), x[1], 0, 1));
         const value loss = sum(sin(scattered(dot(h, x[2], 0, 1), a, 0)));
         const std::vector<node_id> by{x[0].id(), x[1].id(), x[2].id()};
         values out;
         for (auto id : sinter::engine::gradient(x[0].owner(), loss.id(), {by.data(), by.size()}, {}))
           out.emplace_back(x[0].owner(), id);
         return out;
       },
       4},
  };
}

graph graph_of(const program& one, std::int64_t ranks) {
  graph g;
  values in;
  for (const auto& e : one.inputs) in.emplace_back(g, g.add_input(dtype::f64, arrays::shape(e)));
  g.outputs = ids(one.f(in, axis(ranks)));
  sinter::ir::check(g, "rank");
  return g;
}
int count(const graph& g, op code) {
  int n = 0;
  for (auto id : g.live()) n += g[id].code == code;
  return n;
}
std::vector<literal_array> of_ranks(const graph& one, const std::vector<literal_array>& given, std::int64_t ranks) {
  sinter::ir::check(one, "ring");
  return arrays::run(sinter::engine::batch::along_axis(one, {axis(ranks).number, ranks, -1}), given);
}

/// The reason why the only exchange of a graph is whole; "" if it is cut.
std::string why(const graph& g, ring_choice how = ring_choice::always, ring_costs costs = {}) {
  const ring_products rings(g, how, costs);
  REQUIRE(rings.notes().size() == 1);
  const auto& note = rings.notes()[0];
  CHECK(note.is_cut == rings.changes());
  return note.is_cut ? "" : note.why;
}
std::string why(std::vector<extents_t> inputs, std::function<values(const values&, mesh_axis_of)> f) {
  return why(graph_of({"", std::move(inputs), std::move(f)}, 2));
}

}  // namespace

TEST_CASE("products of pieces that go around a ring are those of whole arrays") {
  for (const std::int64_t ranks : {2, 3, 4})
    for (const auto& one : programs(ranks)) {
      CAPTURE(ranks);
      CAPTURE(one.name);
      const graph whole = graph_of(one, ranks);
      ring_products rings(whole, ring_choice::always, {});
      const graph cut = rings.run();
      int cuts = 0;
      for (const auto& n : rings.notes()) cuts += n.is_cut;
      CHECK(cuts == one.rings);
      CHECK(count(cut, op::collective_permute) == one.rings * (ranks - 1));
      CHECK(count(cut, op::all_gather) + count(cut, op::reduce_scatter) ==
            count(whole, op::all_gather) + count(whole, op::reduce_scatter) - one.rings);
      CHECK(count(cut, op::dot) > count(whole, op::dot));
      std::vector<literal_array> given;
      unsigned seed = 1;
      for (extents_t e : one.inputs) {
        e.insert(e.begin(), ranks);
        given.push_back(arrays::random(dtype::f64, e, seed++, -1.5, 1.5));
      }
      const auto want = of_ranks(whole, given, ranks), got = of_ranks(cut, given, ranks);
      REQUIRE(got.size() == want.size());
      for (std::size_t k = 0; k < got.size(); ++k) CHECK(arrays::difference(got[k], want[k], 1e-12) == "");
    }
}

TEST_CASE("what else reads an exchanged value keeps it whole") {
  CHECK(why({{3, 5}, {5, 7}}, [](const auto& x, auto a) {
          const value all = gathered(x[0], a, 0);
          return values{dot(all, x[1], 0, 1), sin(all)};
        }) == "sin reads it, too");
  CHECK(why({{3, 5}, {5, 7}}, [](const auto& x, auto a) {
          const value all = gathered(x[0], a, 0);
          return values{dot(all, x[1], 0, 1), all};
        }) == "its value is a result");
  CHECK(why({{3, 6}}, [](const auto& x, auto a) {
          const value all = gathered(x[0], a, 0);
          return values{dot(all, all, 0, 1)};
        }) == "it is both operands of a product");
  CHECK(why({{3, 4}, {6, 7}}, [](const auto& x, auto a) {
          return values{dot(reshape(gathered(x[0], a, 1), {4, 6}), x[1], 0, 1)};
        }) == "a reshape divides its pieces");
  CHECK(why({{4, 5}, {5, 7}}, [](const auto& x, auto a) {
          const value y = dot(x[0], x[1], 0, 1);
          return values{scattered(y, a, 0), y};
        }) == "the ranks' own values are read, too");
  CHECK(why({{4, 5}, {5, 6}}, [](const auto& x, auto a) {
          return values{scattered(reshape(dot(x[0], x[1], 0, 1), {3, 8}), a, 1)};
        }) == "a reshape divides its pieces");
  // The second operand of a product that is cut.
  const graph both =
      graph_of({"",
                {{3, 5}, {5, 7}},
                [](const auto& x, auto a) { return values{dot(gathered(x[0], a, 0), gathered(x[1], a, 1), 0, 1)}; }},
               2);
  const ring_products rings(both, ring_choice::always, {});
  REQUIRE(rings.notes().size() == 2);
  CHECK(rings.notes()[0].is_cut);
  CHECK(rings.notes()[1].why == "the other operand of a product is gathered in pieces");
  // Neither a product reads it, nor makes it: nothing to tell.
  const graph other =
      graph_of({"", {{3, 5}}, [](const auto& x, auto a) { return values{sin(gathered(x[0], a, 0))}; }}, 2);
  CHECK(ring_products(other, ring_choice::always, {}).notes().empty());
}

TEST_CASE("a ring is chosen where it takes less time") {
  const auto of = [](std::int64_t rows, std::int64_t inner, std::int64_t columns) {
    return graph_of({"",
                     {{rows, inner}, {inner, columns}},
                     [](const auto& x, auto a) { return values{dot(gathered(sin(x[0]), a, 0), x[1], 0, 1)}; }},
                    4);
  };
  const ring_costs fast{.latency = 20, .link = 3e5, .memory = 3e6, .launch = 3, .flops_16 = 6e8, .flops_32 = 5e7};
  CHECK(why(of(2048, 4096, 4096), ring_choice::by_cost, fast) == "");
  CHECK(why(of(2048, 4096, 4096), ring_choice::never, fast) == "the option forbids it");
  CHECK(why(of(2048, 4096, 4096), ring_choice::by_cost, {}) == "exchanges do not run beside products on this device");
  // Few elements: latency. Few columns: the product hides nothing.
  for (const auto& g : {of(8, 64, 64), of(2048, 4096, 2)}) {
    const std::string text = why(g, ring_choice::by_cost, fast);
    CHECK(text.find(" us as a ring, ") != std::string::npos);
  }
  const graph argument = graph_of(programs(4)[0], 4);
  CHECK(why(argument, ring_choice::by_cost, fast) == "its operand is an argument, and it runs ahead of its product");
}
