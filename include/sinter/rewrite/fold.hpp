// rewrite/fold.hpp: pointwise operations on constants become constants, by the reference's own evaluation.
#pragma once

#include <algorithm>

#include "../base/series.hpp"
#include "../ir/reference_pointwise.hpp"
#include "match.hpp"
#include "rebuild.hpp"

namespace sinter::engine::rewrite {

/// The constant that a pointwise operation on constants equals; otherwise the operation itself.
inline ir::value folded(const ir::value& v) {
  const ir::node& n = v.get();
  if (!is_pointwise(n.code)) return v;
  series<ir::literal_array> elements;
  for (auto id : n.in) {
    const ir::node& c = v.owner()[id];
    if (c.code != ir::op::constant) return v;
    const auto literal = rounded(c.type, c.attr.literal);
    elements.push_back({c.type, {}, {literal.f}, {literal.i}});
  }
  ir::detail::arrays in{};
  for (std::size_t k = 0; k < elements.size(); ++k) in[k] = &elements[k];
  ir::literal_array r{n.type, {}, {0}, {0}};
  ir::detail::pointwise(n.code, in, r);
  const auto literal = rounded(n.type, {r.f[0], r.i[0]});
  if (n.code == ir::op::bit_cast && literal.f != literal.f) return v;  // a literal has only one NaN
  return {v.owner(), v.owner().constant(n.type, literal, n.extents, v.where()), v.where()};
}

/// Whether a pointwise operation reads only constants, or equal nodes exist, or will exist.
inline bool has_folds(const ir::graph& g) {
  if (g.may_have_equal_nodes()) return true;
  for (ir::node_id id = 0; id < g.size(); ++id)
    if (g[id].code == ir::op::constant && !g[id].attr.ints.empty()) return true;
    else if (is_pointwise(g[id].code) && std::all_of(g[id].in.begin(), g[id].in.end(),
                                                     [&](ir::node_id in) { return g[in].code == ir::op::constant; }))
      return true;
  return false;
}

inline ir::graph fold(const ir::graph& g) { return rebuild(g, folded); }

}  // namespace sinter::engine::rewrite
