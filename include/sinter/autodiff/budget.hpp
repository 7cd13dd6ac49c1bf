// autodiff/budget.hpp: the parts of a function that its backward pass recomputes, so that it keeps less.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "vjp.hpp"

namespace sinter::engine::autodiff {

namespace detail {

/// A function in pieces: the nodes that depend smoothly on some nodes and lead to a result, in order, divided where few bytes
/// pass to later nodes.
class pieces {
 public:
  pieces(const ir::graph& g, ir::node_id y, std::span<const ir::node_id> wrt) : g_(g) {
    series<char> from = smooth_from(g, wrt), to(g.size(), 0);
    to[y] = 1;
    for (ir::node_id id = y + 1; id-- > 0;)
      if (to[id])
        for (auto operand : g[id].in) to[operand] = 1;
    for (auto id : wrt) from[id] = 0;
    series<std::size_t> place(g.size(), 0);
    for (ir::node_id id = 0; id <= y; ++id)
      if (from[id] && to[id]) {
        place[id] = nodes_.size();
        nodes_.push_back(id);
      }
    series<std::size_t> last(nodes_.size(), 0);
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (auto operand : g[nodes_[i]].in)
        if (from[operand] && to[operand]) last[place[operand]] = i;
    crossing_.resize(nodes_.size() + 1);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      // An opaque node and its picks stay together.
      const double bytes = g[nodes_[i]].code == ir::op::opaque ? 1e18 : bytes_of(nodes_[i]);
      if (last[i] <= i) continue;
      crossing_[i] += bytes;
      crossing_[last[i]] -= bytes;
    }
    for (std::size_t i = 1; i < crossing_.size(); ++i) crossing_[i] += crossing_[i - 1];
  }

  /// The pieces to recompute so that the backward pass keeps only the fraction `budget`. Pieces that free most bytes for
  /// their work come first.
  series<recomputed_range> chosen(double budget) const {
    struct piece {
      recomputed_range range;
      double saved, work;
    };
    series<piece> all;
    double inside = 0, work = 0, sum = 0;
    bool quiet = true;
    for (std::size_t i = 0, first = 0; i + 1 < nodes_.size(); ++i) {
      inside += bytes_of(nodes_[i]);
      work += work_of(nodes_[i]);
      const ir::node& n = g_[nodes_[i]];
      quiet = quiet && !(n.code == ir::op::opaque && n.attr.step->has_effect);
      const double here = crossing_[i];
      if (inside < 4 * here || here > crossing_[i + 1] || (i > 0 && here > crossing_[i - 1])) continue;
      if (quiet) {
        all.push_back({{nodes_[first], nodes_[i]}, inside - here, std::max(work, 1.0)});
        sum += inside - here;
      }
      first = i + 1;
      inside = work = 0;
      quiet = true;
    }
    sort_stably(all, [](const piece& a, const piece& b) { return a.saved * b.work > b.saved * a.work; });
    series<recomputed_range> out;
    double kept = sum;
    for (const piece& p : all) {
      if (kept <= budget * sum) break;
      kept -= p.saved;
      out.push_back(p.range);
    }
    sort_stably(out, [](const recomputed_range& a, const recomputed_range& b) { return a.first > b.first; });
    return out;
  }

 private:
  /// An open extent counts as 64, or as its lower bound.
  static double elements(const ir::shape& extents) {
    double n = 1;
    for (const auto& e : extents)
      n *= static_cast<double>(e.is_number() ? *e.number() : std::max<std::int64_t>(e.lower_bound(), 64));
    return n;
  }
  double bytes_of(ir::node_id id) const {
    const ir::node& n = g_[id];
    if (n.code == ir::op::opaque || ir::is_view(n.code)) return 0;
    return elements(n.extents) * static_cast<double>(size_of(n.type));
  }
  double work_of(ir::node_id id) const {
    const ir::node& n = g_[id];
    if (ir::ops::is_attention(n.code))
      return 4 * elements(g_[n.in[0]].extents) * elements({g_[n.in[1]].extents.end()[-2]});
    if (n.code != ir::op::dot) return elements(n.extents);
    const ir::shape& a = g_[n.in[0]].extents;
    return 2 * elements(n.extents) * elements({a.end() - n.attr.ints[1], a.end()});
  }

  const ir::graph& g_;
  series<ir::node_id> nodes_;
  series<double> crossing_;  ///< bytes that nodes up to i pass to later nodes
};

}  // namespace detail

/// The gradient of a graph whose backward pass keeps only the fraction `budget` of intermediates, and recomputes the rest.
inline series<ir::node_id> gradient_within(ir::graph& g, ir::node_id y, std::span<const ir::node_id> wrt, double budget,
                                           location where) {
  check_loss(g, y, where);
  const auto anew = detail::pieces(g, y, wrt).chosen(budget);
  const value seed = value(g, y, where).like(1.0);
  const values pulled = pull_back_with(g, {&y, 1}, {seed}, wrt, {anew.data(), anew.size()});
  series<ir::node_id> result;
  for (std::size_t k = 0; k < wrt.size(); ++k) result.push_back(detail::or_zeros(g, pulled[k], wrt[k]).id());
  return result;
}

}  // namespace sinter::engine::autodiff
