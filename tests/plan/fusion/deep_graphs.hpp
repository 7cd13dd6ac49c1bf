// tests/plan/fusion/deep_graphs.hpp: training steps of networks of any depth, as graphs.
#pragma once

#include <sinter/autodiff/vjp.hpp>
#include <sinter/ir/define.hpp>
#include <sinter/ir/value.hpp>
#include <sinter/rewrite/rewrite.hpp>
#include <vector>

namespace deep {

using sinter::dtype;
using sinter::ir::dim;
using sinter::ir::graph;
using sinter::ir::node_id;
using sinter::ir::op;
using sinter::ir::shape;
using sinter::ir::value;

struct network {
  graph g;
  std::vector<node_id> parameters;

  value input(shape extents) { return {g, g.add_input(dtype::f32, std::move(extents))}; }
  value parameter(shape extents) {
    const value p = input(std::move(extents));
    parameters.push_back(p.id());
    return p;
  }
  /// A vector of the last axis, for each row of x.
  static value rows_of(const value& v, const value& x) {
    return broadcast(reshape(v, {1, v.extents()[0]}), x.extents());
  }
  static value mean_of_rows(const value& x) {
    const auto n = static_cast<double>(*x.extents()[1].number());
    return expand(reduce(x, op::add, {1}), {1}, x.extents()) * (1.0 / n);
  }
  value layer_norm(const value& x) {
    const value centred = x - mean_of_rows(x), scale = parameter({x.extents()[1]}), bias = parameter({x.extents()[1]});
    const value var = mean_of_rows(centred * centred);
    return centred * rsqrt(var + 1e-5) * rows_of(scale, x) + rows_of(bias, x);
  }
  value linear(const value& x, dim to) {
    const value w = parameter({x.extents()[1], to}), b = parameter({to});
    const value y = dot(x, w, 0, 1);
    return y + rows_of(b, y);
  }
  static value gelu(const value& x) { return x * 0.5 * (1.0 + tanh_of(x * 0.797 * (1.0 + x * x * 0.0447))); }
  static value tanh_of(const value& x) { return sinter::ir::push(op::tanh, {x}); }

  /// The loss, its gradients and a step of gradient descent.
  graph trained(const value& loss) {
    const auto gradients = sinter::engine::gradient(g, loss.id(), parameters, {});
    g.outputs = {loss.id()};
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      const value p(g, parameters[k]), d(g, gradients[k]);
      g.outputs.push_back((p - d * 0.1).id());
    }
    return g;
  }
};

/// h = h + gelu(layer_norm(h) w + b) so many times, of 64 rows.
inline graph unwritten_network(int layers, std::int64_t width = 32) {
  network n;
  value h = n.input({64, width});
  for (int l = 0; l < layers; ++l) h = h + network::gelu(n.linear(n.layer_norm(h), width));
  return n.trained(reduce(h * h, op::add, {0, 1}));
}

/// The same, rewritten.
inline graph residual_network(int layers, std::int64_t width = 32) {
  return sinter::engine::rewrite::run_all(unwritten_network(layers, width));
}

}  // namespace deep
