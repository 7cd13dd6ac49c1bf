// autodiff/partition.hpp: which values a derivative keeps of its function: those of a cut of least bytes; the rest is recomputed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "../base/sorted.hpp"
#include "../engine/linear_part.hpp"
#include "../ir/ops/table.hpp"

namespace sinter::engine::autodiff {

/// A network from a source to a sink; its cut of least capacity by Dinic's algorithm (1970).
class min_cut {
 public:
  static constexpr std::int64_t unlimited = std::int64_t{1} << 60;
  static constexpr std::size_t source = 0, sink = 1;

  explicit min_cut(std::size_t vertices) : first_(vertices, none), level_(vertices), next_(vertices) {}

  void edge(std::size_t from, std::size_t to, std::int64_t capacity) {
    arcs_.push_back({to, first_[from], capacity});
    first_[from] = arcs_.size() - 1;
    arcs_.push_back({from, first_[to], 0});
    first_[to] = arcs_.size() - 1;
  }

  /// Whether a vertex is on the sink's side of the least cut that is nearest to the sink.
  series<char> sink_side() {
    while (find_levels()) {
      std::copy(first_.begin(), first_.end(), next_.begin());
      while (push_path()) {}
    }
    series<char> out(first_.size(), 0);
    series<std::size_t> open{sink};
    out[sink] = 1;
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      for (std::size_t a = first_[at]; a != none; a = arcs_[a].next)
        if (arcs_[a ^ 1].left > 0 && !out[arcs_[a].to]) {
          out[arcs_[a].to] = 1;
          open.push_back(arcs_[a].to);
        }
    }
    return out;
  }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  struct arc {
    std::size_t to, next;
    std::int64_t left;
  };

  /// Distances from the source along arcs that have capacity left; false where the sink has none.
  bool find_levels() {
    std::fill(level_.begin(), level_.end(), none);
    series<std::size_t> order{source};
    level_[source] = 0;
    for (std::size_t k = 0; k < order.size(); ++k)
      for (std::size_t a = first_[order[k]]; a != none; a = arcs_[a].next)
        if (arcs_[a].left > 0 && level_[arcs_[a].to] == none) {
          level_[arcs_[a].to] = level_[order[k]] + 1;
          order.push_back(arcs_[a].to);
        }
    return level_[sink] != none;
  }

  /// Fills one path along ascending levels; false if there is none.
  bool push_path() {
    series<std::size_t> path;
    std::size_t at = source;
    while (at != sink) {
      std::size_t& a = next_[at];
      while (a != none && !(arcs_[a].left > 0 && level_[arcs_[a].to] == level_[at] + 1)) a = arcs_[a].next;
      if (a != none) {
        path.push_back(a);
        at = arcs_[a].to;
        continue;
      }
      if (path.empty()) return false;
      at = arcs_[path.back() ^ 1].to;
      path.pop_back();
      next_[at] = arcs_[next_[at]].next;
    }
    std::int64_t least = unlimited;
    for (const std::size_t a : path) least = std::min(least, arcs_[a].left);
    for (const std::size_t a : path) {
      arcs_[a].left -= least;
      arcs_[a ^ 1].left += least;
    }
    return true;
  }

  series<arc> arcs_;
  series<std::size_t> first_, level_, next_;
};

namespace detail {

/// An open extent counts as 64, or as its lower bound.
inline double elements_of(const ir::shape& extents) {
  double n = 1;
  for (const auto& e : extents)
    n *= static_cast<double>(e.is_number() ? *e.number() : std::max<std::int64_t>(e.lower_bound(), 64));
  return n;
}

/// Bytes of a value, 1 at least, so that an empty one has a place in a cut.
inline std::int64_t bytes_of(const ir::node& n) {
  const double bytes = elements_of(n.extents) * static_cast<double>(size_of(n.type));
  return static_cast<std::int64_t>(std::clamp(bytes, 1.0, 0x1p50));
}

/// Values that need no memory: nothing keeps them.
inline bool is_free(const ir::node& n) {
  return n.code == ir::op::constant || n.code == ir::op::iota || n.code == ir::op::size;
}

/// Terms of a sum that may be computed again.
inline constexpr double max_terms = 32;

/// True for values that a derivative may compute again: by elements, by moves, and by short sums. Products, long sums, scans,
/// sorts, gathers, random numbers and opaque steps are computed once.
inline bool may_recompute(const ir::graph& g, const ir::node& n) {
  if (ir::is_pointwise(n.code)) return ir::row(n.code).rule != ir::dtype_rule::random;
  if (ir::is_view(n.code) || is_free(n) || n.code == ir::op::pad || n.code == ir::op::concat) return true;
  return n.code == ir::op::reduce &&
         elements_of(g[n.in[0]].extents) <= max_terms * std::max(1.0, elements_of(n.extents));
}

/// Operations that computing a value again takes.
inline double work_of(const ir::graph& g, const ir::node& n) {
  constexpr double expensive = 16;  // a transcendental function beside an addition
  if (ir::is_view(n.code) || is_free(n)) return 0;
  if (n.code == ir::op::reduce) return elements_of(g[n.in[0]].extents);
  return elements_of(n.extents) * (ir::is_expensive(n.code) ? expensive : 1);
}

/// The nodes to keep so that those of `wanted` can be computed, with the fewest bytes; marked in `kept`.
inline series<char> kept_nodes(const ir::graph& g, const series<ir::node_id>& wanted) {
  series<char> below(g.size(), 0), kept(g.size(), 0);
  for (const auto id : wanted) below[id] = 1;
  for (auto id = static_cast<ir::node_id>(g.size()); id-- > 0;)
    if (below[id] && may_recompute(g, g[id]))
      for (const auto operand : g[id].in) below[operand] = 1;
  const auto into = [](ir::node_id id) { return 2 + 2 * static_cast<std::size_t>(id); };
  min_cut net(2 + 2 * g.size());
  for (ir::node_id id = 0; id < g.size(); ++id) {
    if (!below[id]) continue;
    net.edge(into(id), into(id) + 1, is_free(g[id]) ? min_cut::unlimited : bytes_of(g[id]));
    if (!may_recompute(g, g[id])) {
      net.edge(min_cut::source, into(id), min_cut::unlimited);
      continue;
    }
    for (const auto operand : g[id].in) net.edge(into(operand) + 1, into(id), min_cut::unlimited);
  }
  for (const auto id : wanted) net.edge(into(id) + 1, min_cut::sink, min_cut::unlimited);
  const series<char> later = net.sink_side();
  for (ir::node_id id = 0; id < g.size(); ++id) kept[id] = below[id] && !later[into(id)] && later[into(id) + 1];
  return kept;
}

}  // namespace detail

/// The bytes of the values that a derivative keeps.
inline double kept_bytes(const ir::graph& g, const series<ir::node_id>& kept) {
  double sum = 0;
  for (const auto id : kept) sum += static_cast<double>(detail::bytes_of(g[id]));
  return sum;
}

/// The same derivative, which keeps the fewest bytes of g's values and computes the others again, each once. It stays as it is
/// if the work is more than moving the bytes through memory costs.
inline linear_part partitioned(const ir::graph& g, linear_part part) {
  constexpr double work_per_byte = 16;
  const series<char> kept = detail::kept_nodes(g, part.from);
  series<char> needed(g.size(), 0);
  for (const auto id : part.from) needed[id] = 1;
  linear_part out;
  double work = 0;
  for (auto id = static_cast<ir::node_id>(g.size()); id-- > 0;) {
    if (!needed[id]) continue;
    if (kept[id]) {
      out.from.push_back(id);
      continue;
    }
    work += detail::work_of(g, g[id]);
    for (const auto operand : g[id].in) needed[operand] = 1;
  }
  std::reverse(out.from.begin(), out.from.end());
  const double saved = kept_bytes(g, part.from) - kept_bytes(g, out.from);
  if (saved <= 0 || work > work_per_byte * saved) return part;
  series<ir::node_id> moved(g.size(), ir::no_node), in;
  for (const auto id : out.from) moved[id] = out.graph.add_input(g[id].type, g[id].extents, g[id].where);
  series<ir::node_id> given;
  for (std::size_t k = part.from.size(); k < part.graph.inputs.size(); ++k) {
    const ir::node& n = part.graph[part.graph.inputs[k]];
    given.push_back(out.graph.add_input(n.type, n.extents, n.where));
  }
  for (ir::node_id id = 0; id < g.size(); ++id) {
    if (!needed[id] || kept[id]) continue;
    const ir::node& n = g[id];
    series<ir::node_id> operands;
    for (const auto operand : n.in) operands.push_back(moved[operand]);
    moved[id] = out.graph.push(n.code, std::move(operands), n.attr, n.where);
  }
  for (const auto id : part.from) in.push_back(moved[id]);
  in.insert(in.end(), given.begin(), given.end());
  out.graph.outputs = ir::splice(out.graph, part.graph, in);
  return out;
}

}  // namespace sinter::engine::autodiff

namespace sinter::engine {

SINTER_API linear_part partitioned(const ir::graph& g, linear_part part) {
  return autodiff::partitioned(g, std::move(part));
}

}  // namespace sinter::engine
