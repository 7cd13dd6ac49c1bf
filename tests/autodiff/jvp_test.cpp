#include <array>
#include <sinter/autodiff/jvp.hpp>

#include "numeric.hpp"

using namespace numeric;
using sinter::ir::op;

namespace {

/// <w, J t> from forward mode equals <Jᵀ w, t> from reverse mode, with w the weights of weigh().
void agree(const function& f, const std::vector<literal_array>& at) {
  graph g;
  std::vector<value> in, directions;
  std::vector<literal_array> arguments = at;
  for (const auto& x : at) in.push_back({g, g.add_input(x.type, arrays::shape(x.extents)), {}});
  for (std::size_t k = 0; k < at.size(); ++k) {
    directions.push_back({g, g.add_input(at[k].type, arrays::shape(at[k].extents)), {}});
    arguments.push_back(arrays::random(at[k].type, at[k].extents, static_cast<unsigned>(50 + k)));
  }
  const value y = weigh(f(in));
  const node_id outputs[] = {y.id()};
  const auto forward = sinter::engine::autodiff::jvp(g, outputs, ids(in), ids(directions));
  const auto slopes = sinter::engine::gradient(g, y.id(), ids(in), {});
  value backward;
  for (std::size_t k = 0; k < in.size(); ++k) {
    if (!is_float(in[k].type())) continue;
    value product = value(g, slopes[k]) * directions[k];
    product = reduce(reshape(product, {sinter::ir::product(product.extents())}), op::add, {0});
    backward = backward ? backward + product : product;
  }
  g.outputs = {forward[0], backward.id()};
  sinter::ir::check(g, "jvp");
  const auto got = arrays::run(g, arguments);
  CHECK(got[0].f[0] == doctest::Approx(got[1].f[0]).epsilon(1e-9));
  CHECK(got[0].f[0] != 0);
}

}  // namespace

TEST_CASE("forward and reverse mode agree") {
  const auto x = arrays::random(dtype::f64, {3, 4}, 1, 0.2, 1.5), y = arrays::random(dtype::f64, {3, 4}, 2, 0.2, 1.5);
  const auto index = arrays::of(dtype::i64, {2, 4}, {0, 1, 2, 1, 2, 2, 5, -1});
  agree([](const auto& in) { return exp(in[0]) * sin(in[1]) / (in[0] + 2.0); }, {x, y});
  agree([](const auto& in) { return permute(reshape(in[0] * in[1], {2, 6}), {1, 0}); }, {x, y});
  agree([](const auto& in) { return pad(slice(in[0], {2, 2}, {2, 0}, {-2, 3}), {1, 1}, {0, 2}, 3.0) * 2.0; }, {x});
  agree([](const auto& in) { return broadcast(reshape(in[0], {3, 1, 4}), {3, 2, 4}); }, {x});
  for (op c : {op::add, op::mul, op::maximum, op::minimum})
    agree([c](const auto& in) { return reduce(in[0] * in[1], c, {1}); }, {x, y});
  agree([](const auto& in) { return reduce(in[0] * in[1], op::mul, {0, 1}); }, {x, y});
  for (bool reverse : {false, true}) {
    for (op c : {op::add, op::mul, op::maximum, op::minimum})
      agree([=](const auto& in) { return scan(in[0] * in[1], c, 1, reverse); }, {x, y});
    for (std::int64_t axis : {0, 1}) {
      agree([=](const auto& in) { return recurrence(in[0], in[1], axis, reverse); }, {x, y});
      agree([=](const auto& in) { return recurrence(in[0], in[0] * 2.0, axis, reverse); }, {x});
      agree([=](const auto& in) { return recurrence(in[0].like(3.0), in[0], axis, reverse); }, {x});
    }
  }
  agree([](const auto& in) { return gather(in[0], in[1], 0); }, {x, index});
  agree([](const auto& in) { return scatter_add(in[0], in[1], in[2], 0); },
        {x, index, arrays::random(dtype::f64, {2, 4}, 4)});
  agree([](const auto& in) { return dot(in[0], permute(in[1] * in[0], {1, 0}), 0, 1); }, {x, y});
  agree([](const auto& in) { return select(gt(in[0], in[1]), in[0] * in[0], in[1]); }, {x, y});
}

TEST_CASE("the tangent of a cast has the dtype of its result") {
  graph g;
  const value x(g, g.add_input(dtype::f64, {3}), {}), t(g, g.add_input(dtype::f64, {3}), {});
  const value y = cast(x, dtype::f32) * 2.0;
  g.outputs = sinter::engine::autodiff::jvp(g, std::array{y.id()}, std::array{x.id()}, std::array{t.id()});
  CHECK(g[g.outputs[0]].type == dtype::f32);
  const auto got = arrays::run(g, {arrays::of(dtype::f64, {3}, {1, 2, 3}), arrays::of(dtype::f64, {3}, {4, 0.1, -5})});
  CHECK(got[0].f == std::vector<double>{8, 2.0 * static_cast<double>(0.1f), -10});
}
