// autodiff/opaque_site.hpp: an opaque node that is differentiated, and new parts under construction.
#pragma once

#include <span>

#include "../ir/graph.hpp"
#include "../ir/value.hpp"

namespace sinter::engine::autodiff {

using ir::shape;
using ir::value;
using values = series<value>;

/// Cotangents of `wrt` for cotangents of `ys`; empty for zero. Also in a part; vjp.hpp has the only definition.
using pull_rule = values (*)(ir::graph& g, std::span<const ir::node_id> ys, const values& seeds,
                             std::span<const ir::node_id> wrt, location where);
/// Tangents of `ys` for tangents of `wrt`; empty for zero. Also in a part; jvp.hpp has the only definition.
using push_rule = values (*)(ir::graph& g, std::span<const ir::node_id> ys, std::span<const ir::node_id> wrt,
                             const values& tangents);

namespace detail {

/// An opaque node that is differentiated.
struct opaque_site {
  ir::graph& g;
  ir::node_id id;
  const ir::node& n;
  const ir::opaque& step;

  opaque_site(ir::graph& graph, ir::node_id node) : g(graph), id(node), n(graph[node]), step(*n.attr.step) {}

  value at(ir::node_id node) const { return {g, node, n.where}; }
  value zeros(const ir::node& like) const { return at(g.constant(like.type, 0.0, like.extents, n.where)); }
  value result(std::size_t k) const { return at(ir::push_pick(g, id, k, n.where)); }
  values push(ir::opaque made, series<ir::node_id> in) const {
    values out;
    for (auto r : ir::push_opaque(g, ir::seal(std::move(made)), std::move(in), n.where)) out.push_back(at(r));
    return out;
  }
};

/// A part of a new node under construction. Each named operand adds an input.
struct part_builder {
  ir::graph& part;
  series<ir::node_id>& in;

  ir::node_id input(const value& operand) const {
    in.push_back(operand.id());
    return part.add_input(operand.type(), operand.extents(), operand.where());
  }
  /// An input of the part for a slice of the operand at each step.
  ir::node_id slice(const value& operand) const {
    in.push_back(operand.id());
    const shape& e = operand.extents();
    return part.add_input(operand.type(), shape(e.begin() + 1, e.end()), operand.where());
  }
};

inline value or_zeros(ir::graph& g, const value& v, ir::node_id like) {
  return v ? v : value(g, g.constant(g[like].type, 0.0, g[like].extents, g[like].where), g[like].where);
}

/// The results in order at the wanted places, and empty values elsewhere.
inline values spread(const values& results, const series<char>& wanted) {
  values out(wanted.size());
  for (std::size_t k = 0, next = 0; k < out.size(); ++k)
    if (wanted[k]) out[k] = results[next++];
  return out;
}

/// Flags for the floating results of a step.
inline series<char> floating_results(const ir::opaque& step) {
  series<char> out;
  for (const auto& r : step.results) out.push_back(is_float(r.type));
  return out;
}

inline series<ir::node_id> ids_of(const values& all) {
  series<ir::node_id> out;
  for (const auto& v : all) out.push_back(v.id());
  return out;
}

}  // namespace detail

}  // namespace sinter::engine::autodiff
