// Graphs that once were planned or printed wrongly, each as small as it gets.
#include <doctest/doctest.h>

#include <sinter/ir/value.hpp>
#include <sinter/jit/pipeline.hpp>

#include "kernels.hpp"

using namespace sinter::ir;

namespace {

struct example {
  std::string name;
  graph g;
  std::vector<std::int64_t> hints;
};

value input(graph& g, shape s, sinter::dtype t = sinter::dtype::f32) { return {g, g.add_input(t, std::move(s))}; }
value sum(const value& x, std::vector<std::int64_t> axes) { return reduce(x, op::add, std::move(axes)); }

/// `make` pushes onto a graph and returns its outputs.
template <class F>
example from(std::string name, std::vector<std::int64_t> hints, F&& make) {
  example e{std::move(name), {}, std::move(hints)};
  const std::vector<value> outputs = make(e.g);
  for (const auto& v : outputs) e.g.outputs.push_back(v.id());
  return e;
}

std::vector<example> examples() {
  const dim s = dim::symbol(0), t = dim::symbol(1);
  std::vector<example> all;
  all.push_back(from("a costly value that only a later pass needs", {}, [](graph& g) {
    const value x = input(g, {5, 20});
    return std::vector{exp(x) * expand(sum(x, {1}), {1}, {5, 20})};
  }));
  all.push_back(from("updates that do not vary along their innermost axis", {}, [](graph& g) {
    const value base = input(g, {31, 1}), one = input(g, {1, 1});
    return std::vector{
        scatter_add(base, iota(base, sinter::dtype::i64, {31, 64}, 0) * 0.0, broadcast(one, {31, 64}), 1)};
  }));
  all.push_back(from("a reshape that no axes follow", {}, [](graph& g) {
    const value x = input(g, {6, 4}), y = exp(permute(exp(x), {1, 0}));
    return std::vector{exp(reshape(y, {3, 8}))};
  }));
  all.push_back(from("a reshape of nothing", {}, [](graph& g) {
    const value x = input(g, {3, 0, 5});
    return std::vector{exp(reshape(exp(permute(exp(x), {2, 1, 0})), {0, 7}))};
  }));
  all.push_back(from("a sum of a reshape of nothing", {}, [](graph& g) {
    const value x = input(g, {16, 0});
    return std::vector{sum(reshape(sin(reshape(sum(x, {0}), {1, 0})), {0}), {0})};
  }));
  all.push_back(from("a sum of a reshape of nothing beside an open axis", {7}, [&](graph& g) {
    const value x = input(g, {s, 0});
    return std::vector{sum(reshape(sin(reshape(sum(x, {0}), {1, 0})), {0}), {0}), sum(exp(x), {1})};
  }));
  all.push_back(from("a sum of what does not vary along the summed rows", {}, [](graph& g) {
    const value x = input(g, {8, 3}), y = input(g, {3});
    return std::vector{sum(x + expand(y, {0}, {8, 3}), {0}), sum(y, {0})};
  }));
  all.push_back(from("rows gathered at an index that all rows give", {}, [](graph& g) {
    const value x = input(g, {8, 8});
    const value least = cast(reduce(x, op::minimum, {0, 1}), sinter::dtype::i32);
    return std::vector{gather(x, expand(least, {0, 1}, {8, 8}), 0), sum(x, {0, 1})};
  }));
  all.push_back(from("a gather of a gather, and what is computed from the first", {}, [](graph& g) {
    const value x = input(g, {17, 17}), i = input(g, {17, 17}, sinter::dtype::i64),
                j = input(g, {17, 33}, sinter::dtype::i64);
    const value picked = gather(x, i, 1), least = reduce(picked, op::minimum, {0, 1});
    const value rest = picked - expand(least, {0, 1}, {17, 17});
    return std::vector{gather(picked, j, 1), reduce(rest, op::minimum, {0, 1}), rest};
  }));
  all.push_back(from("an index times a symbolic stride of two terms", {7, 9}, [&](graph& g) {
    const value x = pad(input(g, {s, t}), {0, 0}, {0, 1}, 0), i = input(g, {s, t + dim(1)}, sinter::dtype::i64);
    return std::vector{gather(x, i, 0)};
  }));
  all.push_back(from("a symbolic axis split by a sum of terms", {7, 9}, [&](graph& g) {
    const value x = input(g, {s, t}), joined = pad(x, {0, 2}, {0, 0}, 1),
                line = reshape(exp(joined), {s * (t + dim(2))});
    return std::vector{line, sum(line, {0}), exp(joined)};
  }));
  all.push_back(from("symbolic extents that multiply to the result's", {7, 9}, [&](graph& g) {
    const value x = input(g, {s, 8}), y = exp(permute(exp(slice(x, {s - dim(1), 7}, {0, 1}, {1, 1})), {1, 0}));
    return std::vector{exp(reshape(permute(y, {1, 0}), {(s - dim(1)) * dim(7)}))};
  }));
  all.push_back(from("what follows from sums of sums", {}, [](graph& g) {
    const value x = input(g, {64, 100}), rows = sum(exp(x), {1});
    return std::vector{sum(log(rows), {0}) * (1.0 / 64)};
  }));
  all.push_back(from("an axis that is empty at the smallest size", {7, 9}, [&](graph& g) {
    const value x = slice(input(g, {s, t}), {s - dim(2), t}, {1, 0}, {1, 1}), i = input(g, {5, t}, sinter::dtype::i32),
                u = input(g, {5, t});
    attributes a;
    a.ints = {0};
    a.combiner = op::maximum;
    return std::vector{gather(exp(x), i, 0), push(op::arg_reduce, {x}, a), reduce(x, op::maximum, {0}),
                       scatter_add(x, i, u, 0)};
  }));
  all.back().g = sinter::engine::rewrite::run_all(all.back().g);
  return all;
}

}  // namespace

TEST_CASE("graphs that once went wrong") {
  ::setenv("SINTER_COMPILE_TIMEOUT", "280", 0);
  fuzz::batch batch;
  std::vector<fuzz::planned> planned;
  const auto all = examples();
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::mt19937_64 bits(i);
    INFO(all[i].name);
    sinter::ir::check(all[i].g, "test");
    planned.push_back(fuzz::plan_graph(all[i].g, bits, all[i].hints));
    planned.back().first = batch.add(planned.back().sources);
  }
  batch.build();
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::mt19937_64 bits(100 + i);
    fuzz::tally tally;
    INFO(all[i].name << "\n" << print(all[i].g));
    for (int again = 0; again < 3; ++again) {
      std::vector<std::int64_t> sizes;
      if (!all[i].hints.empty())
        sizes = {again == 0 ? 2 : 2 + static_cast<std::int64_t>(bits() % 20),
                 2 + static_cast<std::int64_t>(bits() % 20)};
      CHECK(fuzz::run(planned[i], batch, bits, sizes, tally) == "");
    }
  }
}

TEST_CASE("a function may be defined between the ends of what its operand may be") {
  graph g;
  const value x = input(g, {4}, sinter::dtype::f64);
  for (const op code : {op::asin, op::acos}) {
    const node_id y = g.push(code, {x.id()}, {});
    const fuzz::bounded operand{{sinter::dtype::f64, {4}, {1.5, -1.5, 1.5, 0.5}, {}}, {2, 2, 0.1, 2}};
    const auto bound = fuzz::detail::pointwise(g[y], {&operand}).bound;
    CHECK(bound[0] == fuzz::unknown);
    CHECK(bound[1] == fuzz::unknown);
    CHECK(bound[2] == 0);
    CHECK(bound[3] == fuzz::unknown);
  }
}
