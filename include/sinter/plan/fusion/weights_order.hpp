// plan/fusion/weights_order.hpp: weights of convolutions in the order of axes that a library wants: copies in that order, or
// intermediates that lie so.
#pragma once

#include <optional>

#include "padded_images.hpp"

namespace sinter::engine::plan {

/// Weights of a product of windows that a library would compute if they lay in another order: an operand, or the result.
struct unordered_weights {
  static constexpr int result = -1;
  node_id product = ir::no_node;
  int operand = result;
  series<std::int64_t> order;  ///< of their axes, the slowest first
};

/// Strides of nodes that kernels write.
using own_strides = series<std::pair<node_id, series<dim>>>;

namespace detail {

/// The axes of a product's weights: those of all three arrays, then their own, then the others.
inline series<std::int64_t> weights_order(const ir::graph& g, const unordered_weights& w) {
  const ir::node& v = g[w.product];
  const auto nb = static_cast<std::size_t>(v.attr.ints[0]), nk = static_cast<std::size_t>(v.attr.ints[1]);
  const std::size_t of_a = g[v.in[0]].extents.size(), of_b = g[v.in[1]].extents.size(), rows = of_a - nb - nk;
  const std::size_t rank = w.operand < 0 ? v.extents.size() : w.operand == 0 ? of_a : of_b;
  // Of a result, outputs are the columns; of the second operand, the axes after the terms.
  const std::size_t from = w.operand < 0 ? nb + rows : w.operand == 0 ? nb : nb + nk;
  series<std::int64_t> out;
  for (std::size_t d = 0; d < nb; ++d) out.push_back(static_cast<std::int64_t>(d));
  for (std::size_t d = from; d < rank; ++d) out.push_back(static_cast<std::int64_t>(d));
  for (std::size_t d = nb; d < from; ++d) out.push_back(static_cast<std::int64_t>(d));
  return out;
}

inline series<dim> strides_in_order(const ir::shape& extents, const series<std::int64_t>& order) {
  series<dim> out(extents.size(), dim(1));
  dim step = 1;
  for (std::size_t n = order.size(); n-- > 0;) {
    const auto d = static_cast<std::size_t>(order[n]);
    out[d] = step;
    step *= extents[d];
  }
  return out;
}

}  // namespace detail

/// The weights whose order alone keeps a library from computing a product of windows.
SINTER_API series<unordered_weights> weights_to_order(const ir::graph& g, const series<kernel>& kernels,
                                                      std::span<const std::int64_t> hints, const target& t) {
  series<unordered_weights> out;
  if (t.convolves == nullptr || !hints.empty()) return out;
  for (const kernel& k : kernels) {
    if (!k.is_product() || k.symbols > 0 || as_library_call(k, t)) continue;
    const auto call = detail::computed_convolution(k, t, true);
    if (!call) continue;
    unordered_weights w;
    for (const auto& i : k.body)
      if (i.kind == kind::product) w.product = i.origin;
    if (w.product == ir::no_node || g[w.product].code != ir::op::dot) continue;
    if (call->what.kind == convolution_kind::result) w.operand = call->weights == k.products[0].a.buffer ? 0 : 1;
    w.order = detail::weights_order(g, w);
    out.push_back(std::move(w));
  }
  return out;
}

/// A copy of the graph with these weights as nodes of their own: a copy of an operand, or a result that is copied for readers. `own`
/// receives the strides of the new nodes.
SINTER_API ir::graph with_ordered_weights(const ir::graph& g, const series<unordered_weights>& all, own_strides& own) {
  ir::graph out;
  series<node_id> moved(g.size(), ir::no_node);
  for (auto id : g.inputs) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  for (auto id : g.live()) {
    const ir::node& n = g[id];
    if (n.code == ir::op::input) continue;
    series<node_id> in;
    for (auto operand : n.in) in.push_back(moved[operand]);
    const unordered_weights* result = nullptr;
    for (const auto& w : all) {
      if (w.product != id) continue;
      if (w.operand < 0) {
        result = &w;
        continue;
      }
      auto& operand = in[static_cast<std::size_t>(w.operand)];
      operand = out.mark(operand);
      own.push_back({operand, detail::strides_in_order(out[operand].extents, w.order)});
    }
    moved[id] = out.push(n.code, std::move(in), n.attr, n.where);
    if (result == nullptr) continue;
    own.push_back({moved[id], detail::strides_in_order(n.extents, result->order)});
    moved[id] = out.mark(moved[id]);
  }
  for (auto id : g.outputs) out.outputs.push_back(moved[id]);
  return out;
}

}  // namespace sinter::engine::plan
