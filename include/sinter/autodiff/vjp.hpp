// autodiff/vjp.hpp: reverse mode, graph -> bigger graph.
#pragma once

#include <span>

#include "../base/sorted.hpp"
#include "opaque.hpp"
#include "partials.hpp"
#include "scan.hpp"
#include "structural.hpp"

namespace sinter::engine::autodiff {

/// One node of the forward graph, as the transposes see it.
struct site {
  ir::graph& g;
  ir::node_id id;

  const ir::node& n() const { return g[id]; }
  value in(std::size_t k) const { return k < n().in.size() ? value(g, n().in[k], n().where) : value(); }
  value result() const { return {g, id, n().where}; }
  std::int64_t axis() const { return n().attr.ints[0]; }
};

inline value transpose_reduce(const site& s, const value& ct) {
  const axes_t& axes = s.n().attr.ints;
  const value x = s.in(0);
  switch (s.n().attr.combiner) {
    case op::add:
      return expand(ct, axes, x.extents());
    case op::mul:
      return expand(ct, axes, x.extents()) * product_slopes(x, axes);
    case op::maximum:
    case op::minimum: {
      value count;
      const value at = extremes(x, s.result(), axes, count);
      return select(at, expand(share(ct, count), axes, x.extents()), 0.0);
    }
    default:
      return {};
  }
}

inline value transpose_concat(const site& s, std::size_t k, const value& ct) {
  const shape extents = s.in(k).extents();
  shape start(extents.size(), 0);
  for (std::size_t j = 0; j < k; ++j)
    start[static_cast<std::size_t>(s.axis())] += s.in(j).extents()[static_cast<std::size_t>(s.axis())];
  return slice(ct, extents, start, axes_t(extents.size(), 1));
}

/// The clamped indices are the ones that were read.
inline value transpose_gather(const site& s, const value& ct) {
  const value x = s.in(0), index = s.in(1);
  const dim extent = x.extents()[static_cast<std::size_t>(s.axis())];
  if (extent.is(0)) return zeros(ct, x.extents());
  const value read = minimum(maximum(index, 0.0), last_index(index, extent));
  return scatter_add(zeros(ct, x.extents()), read, ct, s.axis());
}

inline value transpose_scatter_add(const site& s, std::size_t k, const value& ct) {
  if (k == 0) return ct;
  const value index = s.in(1);
  const dim extent = ct.extents()[static_cast<std::size_t>(s.axis())];
  if (extent.is(0)) return zeros(ct, index.extents());
  const value added = bit_and(ge(index, 0.0), le(index, last_index(index, extent)));
  return select(added, gather(ct, index, s.axis()), 0.0);
}

/// With a (B, M, K), b (B, K, N) and ct (B, M, N): ct·bᵀ over N for a, aᵀ·ct over M for b.
inline value transpose_dot(const site& s, std::size_t k, const value& ct) {
  const auto nb = static_cast<std::size_t>(s.n().attr.ints[0]), nk = static_cast<std::size_t>(s.n().attr.ints[1]);
  const value other = s.in(1 - k);
  const auto rank = static_cast<std::size_t>(other.rank());
  // The axes of `other` after the batch, with the ones contracted in the forward product on the other side.
  const std::size_t middle = k == 0 ? nb + nk : rank - nk;
  axes_t perm = iota_axes(0, nb);
  for (auto a : iota_axes(middle, rank)) perm.push_back(a);
  for (auto a : iota_axes(nb, middle)) perm.push_back(a);
  const value turned = permute(other, perm);
  const auto batch = static_cast<std::int64_t>(nb);
  if (k == 0) return dot(ct, turned, batch, static_cast<std::int64_t>(rank - middle));
  return dot(turned, ct, batch, static_cast<std::int64_t>(middle - nb));
}

/// What operand k of a node receives for the node's cotangent.
inline value pull(const site& s, std::size_t k, const value& ct) {
  const ir::node& n = s.n();
  if (is_pointwise(n.code)) return partial(n.code, k, ct, s.in(0), s.in(1), s.in(2), s.result());
  const value x = s.in(k);
  const auto rank = n.extents.size();
  switch (n.code) {
    case op::reshape:
      return reshape(ct, x.extents());
    case op::permute:
      return permute(ct, inverse(n.attr.ints));
    case op::broadcast:
      return reshape(reduce(ct, op::add, repeated(x.extents(), n.extents)), x.extents());
    case op::slice:
      return unslice(ct, x.extents(), part(n.attr.dims, rank, 2 * rank), n.attr.ints);
    case op::pad:
      return slice(ct, x.extents(), part(n.attr.dims, 0, rank), axes_t(rank, 1));
    case op::concat:
      return transpose_concat(s, k, ct);
    case op::reduce:
      return transpose_reduce(s, ct);
    case op::gather:
      return transpose_gather(s, ct);
    case op::scatter_add:
      return transpose_scatter_add(s, k, ct);
    case op::dot:
      return transpose_dot(s, k, ct);
    case op::scan:
      return transpose_scan(n, k, s.in(0), s.in(1), s.result(), ct);
    default:
      return {};
  }
}

inline values pull_back(ir::graph& g, std::span<const ir::node_id> ys, const values& seeds,
                        std::span<const ir::node_id> wrt, location where);

/// Cotangents by node, from the results to what they depend on.
class pulling {
 public:
  pulling(ir::graph& g, std::span<const ir::node_id> wrt) : g_(g), active_(g.size(), 0), cotangent_(g.size()) {
    for (auto id : wrt) {
      ensure(id < g.size(), "a node to differentiate by is in the graph");
      active_[id] = is_float(g[id].type);
    }
    for (ir::node_id id = 0; id < active_.size(); ++id)
      for (std::size_t k = 0; k < g[id].in.size() && !active_[id]; ++k)
        active_[id] = active_[g[id].in[k]] && flows(g, g[id], k);
  }

  void add(ir::node_id id, const value& part) {
    if (!part || !active_[id]) return;
    cotangent_[id] = cotangent_[id] ? cotangent_[id] + part : part;
  }

  void run() {
    for (auto id = static_cast<ir::node_id>(cotangent_.size()); id-- > 0;) {
      if (g_[id].code == op::opaque) {
        if (results_.count(id)) pull_results(id);
        continue;
      }
      if (!cotangent_[id]) continue;
      const site s{g_, id};
      const value ct(g_, cotangent_[id].id(), s.n().where);
      if (s.n().code == op::pick) {
        values& all = results_[s.n().in[0]];
        all.resize(g_[s.n().in[0]].attr.step->results.size());
        all[static_cast<std::size_t>(s.n().attr.ints[0])] = ct;
        continue;
      }
      for (std::size_t k = 0; k < s.n().in.size(); ++k)
        if (active_[s.n().in[k]] && flows(g_, s.n(), k)) add(s.n().in[k], pull(s, k, ct));
    }
  }

  /// Empty where nothing flows.
  const value& of(ir::node_id id) const { return cotangent_[id]; }

 private:
  void pull_results(ir::node_id id) {
    const ir::node& n = g_[id];
    series<char> asked;
    for (std::size_t k = 0; k < n.in.size(); ++k) asked.push_back(active_[n.in[k]] && flows(g_, n, k));
    const values parts = pull_opaque(g_, id, results_.at(id), asked, pull_back);
    for (std::size_t k = 0; k < n.in.size(); ++k)
      if (asked[k]) add(n.in[k], parts[k]);
  }

  ir::graph& g_;
  series<char> active_;
  values cotangent_;
  sorted_map<ir::node_id, values> results_;  ///< of opaque nodes
};

inline values pull_back(ir::graph& g, std::span<const ir::node_id> ys, const values& seeds,
                        std::span<const ir::node_id> wrt, location) {
  pulling all(g, wrt);
  for (std::size_t k = 0; k < ys.size(); ++k) all.add(ys[k], seeds[k]);
  all.run();
  values out;
  for (auto id : wrt) out.push_back(all.of(id));
  return out;
}

}  // namespace sinter::engine::autodiff

namespace sinter::engine {

/// Cotangents of `wrt` for the rank-0 floating node y, in order, each with the dtype and extents of its node; zeros
/// where y does not depend on it smoothly. Ties of a maximum or minimum reduction share the cotangent equally.
/// Everything pushed is differentiable again. Throws user_error [grad] when y is not a floating scalar.
SINTER_API series<ir::node_id> gradient(ir::graph& g, ir::node_id y, std::span<const ir::node_id> wrt, location where) {
  using ir::value;
  ensure(y < g.size(), "the differentiated node is in the graph");
  if (!g[y].extents.empty() || !is_float(g[y].type))
    fail("grad",
         std::string("the function returns ") + dtype_name(g[y].type) + ir::text_of(g[y].extents) +
             "; it must return a floating scalar: reduce it with sum or mean",
         where);

  const value seed = value(g, y, where).like(1.0);
  const auto cotangents = autodiff::pull_back(g, {&y, 1}, {seed}, wrt, where);
  series<ir::node_id> result;
  for (std::size_t k = 0; k < wrt.size(); ++k)
    result.push_back(cotangents[k] ? cotangents[k].id() : g.constant(g[wrt[k]].type, 0.0, g[wrt[k]].extents, where));
  return result;
}

}  // namespace sinter::engine
