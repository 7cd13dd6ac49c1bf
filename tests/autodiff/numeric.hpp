// tests/autodiff/numeric.hpp: derivatives by central differences through the reference.
#pragma once

#include <functional>
#include <sinter/autodiff/vjp.hpp>

#include "../ir/arrays.hpp"

namespace numeric {

using arrays::extents_t;
using arrays::literal_array;
using sinter::dtype;
using sinter::ir::graph;
using sinter::ir::node_id;
using sinter::ir::value;

/// Builds a value of any shape from the inputs.
using function = std::function<value(const std::vector<value>&)>;

/// The sum of y over fixed weights that differ for every element: a scalar that sees each element of y.
inline value weigh(const value& y) {
  const value flat = reshape(cast(y, dtype::f64), {product(y.extents())});
  const value weights = sin(iota(flat, dtype::f64, flat.extents(), 0) * 0.7 + 0.3);
  return reduce(flat * weights, sinter::ir::op::add, {0});
}

inline std::vector<node_id> ids(const std::vector<value>& values) {
  std::vector<node_id> out;
  for (const auto& v : values) out.push_back(v.id());
  return out;
}

/// A scalar function of the inputs: weigh(f), or, of order 2, the weighed gradient of weigh(f).
inline value scalar(const function& f, const std::vector<value>& in, int order) {
  value y = weigh(f(in));
  if (order == 1) return y;
  const auto slopes = sinter::engine::gradient(y.owner(), y.id(), ids(in), {});
  value sum;
  for (auto id : slopes) {
    if (!is_float(y.owner()[id].type)) continue;
    const value w = weigh(value(y.owner(), id));
    sum = sum ? sum + w : w;
  }
  return sum;
}

/// Compares every derivative of the scalar with central differences. Inputs must stay clear of kinks by `step`.
inline void check(const function& f, const std::vector<literal_array>& at, int order = 1, double tolerance = 2e-6,
                  double step = 1e-5) {
  graph g;
  std::vector<value> in;
  for (const auto& x : at) in.push_back({g, g.add_input(x.type, arrays::shape(x.extents)), {}});
  const value loss = scalar(f, in, order);
  const auto slopes = sinter::engine::gradient(g, loss.id(), ids(in), {});
  REQUIRE(slopes.size() == in.size());
  g.outputs = slopes;
  sinter::ir::check(g, "gradient");
  const auto exact = arrays::run(g, at);
  g.outputs = {loss.id()};
  for (std::size_t k = 0; k < at.size(); ++k) {
    REQUIRE(exact[k].type == at[k].type);
    REQUIRE(exact[k].extents == at[k].extents);
    if (at[k].type != dtype::f64) continue;
    for (std::size_t i = 0; i < at[k].f.size(); ++i) {
      auto moved = at;
      moved[k].f[i] = at[k].f[i] + step;
      const double up = arrays::run(g, moved)[0].f[0];
      moved[k].f[i] = at[k].f[i] - step;
      const double down = arrays::run(g, moved)[0].f[0], slope = (up - down) / (2 * step);
      CAPTURE(k);
      CAPTURE(i);
      CHECK(exact[k].f[i] == doctest::Approx(slope).epsilon(tolerance).scale(1));
    }
  }
}

/// First and second derivatives.
inline void check_twice(const function& f, const std::vector<literal_array>& at, double tolerance = 2e-6) {
  check(f, at, 1, tolerance);
  check(f, at, 2, 10 * tolerance);
}

}  // namespace numeric
