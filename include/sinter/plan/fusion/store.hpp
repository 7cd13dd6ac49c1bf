// plan/fusion/store.hpp: stores values that several kernels would compute.
#pragma once

#include "merge.hpp"

namespace sinter::engine::plan::detail {

/// The groups that compute a value where it is read; beyond `most` they are not distinguished.
class producers {
 public:
  static constexpr std::size_t most = 16;

  void add(group_id g) {
    if (groups_.size() < most && std::find(groups_.begin(), groups_.end(), g) == groups_.end()) groups_.push_back(g);
  }
  void add(const producers& x) {
    for (auto g : x.groups_) add(g);
  }
  std::size_t count() const { return groups_.size(); }
  void become(group_id g) { groups_ = {g}; }

 private:
  series<group_id> groups_;
};

/// Whether `by`, which reads x, also reads all operands of x. Then storing x saves it no bytes.
inline bool reads_beside(const ir::graph& g, node_id by, node_id x) {
  const auto reads = [&](node_id what, node_id source) {
    return std::find(g[what].in.begin(), g[what].in.end(), source) != g[what].in.end();
  };
  return std::all_of(g[x].in.begin(), g[x].in.end(), [&](node_id source) {
    return g[source].code == ir::op::constant || reads(by, source) ||
           std::any_of(g[by].in.begin(), g[by].in.end(), [&](node_id other) {
             return other != x && ir::is_pointwise(g[other].code) && reads(other, source);
           });
  });
}

/// A value, and the number of kernels that compute it.
struct shared_value {
  node_id id = ir::no_node;
  std::int64_t kernels = 0;
  operator node_id() const { return id; }
};

/// The values that pay, topmost first: values below a stored one are computed by its kernel.
inline series<shared_value> shared_values(const ir::graph& g, const series<node_id>& live, const memory_map& memory,
                                          const series<root>& roots, const merging& groups, const costs& cost) {
  series<producers> of(g.size());
  series<shared_value> found;
  const auto read = [&](node_id id, const producers& by) {
    if (!memory.stored[id]) of[id].add(by);
  };
  series<series<group_id>> at(g.size());  // groups with a root that is the node
  for (group_id a = 0; a < groups.size(); ++a) {
    if (!groups.is_there(a) || groups[a].step.is_opaque()) continue;
    producers own;
    own.add(a);
    for (auto k : groups[a].roots) {
      const root& r = roots[k];
      if (r.value == r.target) at[r.value].push_back(a);
      else if (r.value != ir::no_node) read(r.value, own);
      if (r.indexed >= 0) read(g[r.target].in[static_cast<std::size_t>(r.indexed)], own);
    }
  }
  auto fresh = static_cast<group_id>(groups.size());
  series<char> apart(g.size(), 0);  // some reader would read less
  for (std::size_t n = live.size(); n-- > 0;) {
    const node_id id = live[n];
    for (auto in : g[id].in)
      if (!apart[in]) apart[in] = !ir::is_pointwise(g[id].code) || !reads_beside(g, id, in);
    producers by = std::move(of[id]);
    for (auto a : at[id]) by.add(a);
    if (by.count() == 0) continue;
    const auto kernels = static_cast<std::int64_t>(by.count());
    if (kernels > 1 && !memory.stored[id] && ir::is_pointwise(g[id].code) && !ir::product(g[id].extents).is(1) &&
        cost.pays_to_store(id, kernels) && (apart[id] || ir::is_expensive(g[id].code))) {
      found.push_back({id, kernels});
      by.become(fresh++);
    }
    for (auto in : g[id].in) read(in, by);
  }
  return found;
}

/// Roots are far apart if their longest paths from the inputs differ by more stored values than this: no kernel computes both.
inline constexpr int far_apart = 6;

/// Sums of several arrays in memory that distant roots would compute, such as a residual stream's. They are stored before
/// groups are made, so that a kernel's reads do not grow with the depth of a network.
inline series<node_id> distant_values(const ir::graph& g, const series<node_id>& live, const memory_map& memory,
                                      const costs& cost) {
  // The stored values on the longest path from the inputs to a node, itself included.
  series<int> level(g.size(), 0);
  for (auto id : live) {
    for (auto in : g[id].in) level[id] = std::max(level[id], level[in]);
    level[id] += memory.stored[id];
  }
  struct span {
    int first = 0, last = -1;
    void add(int from, int to) {
      first = last < 0 ? from : std::min(first, from);
      last = std::max(last, to);
    }
  };
  series<span> read_at(g.size());  // levels of the stored values for which a node is computed
  series<node_id> found;
  for (std::size_t n = live.size(); n-- > 0;) {
    const node_id id = live[n];
    span at = read_at[id];
    if (memory.stored[id]) {
      at.first = at.last = level[id];
    } else if (at.last - at.first > far_apart && ir::is_pointwise(g[id].code) && cost.reads_several(id)) {
      found.push_back(id);
      at.first = at.last = level[id] + 1;
    }
    if (at.last < 0) continue;
    for (auto in : g[id].in) read_at[in].add(at.first, at.last);
  }
  return found;
}

/// How often a kernel that reads a broadcast computes each element of its operand: once per row, or at each element of the
/// row if the operand varies along a later axis than a broadcast one.
inline double repeats_of(const ir::graph& g, const ir::node& broadcast, const memory_map& memory) {
  const ir::shape& in = g[broadcast.in[0]].extents;
  std::size_t last = in.size();
  while (last > 0 && in[last - 1].is(1)) --last;
  double times = 1;
  for (std::size_t d = 0; d < last; ++d)
    if (in[d].is(1)) times *= static_cast<double>(broadcast.extents[d].evaluate(memory.hints));
  return times;
}

/// Costly values that kernels would recompute for each copy of a broadcast, such as the angles of places for every head:
/// topmost first.
inline series<node_id> repeated_values(const ir::graph& g, const series<node_id>& live, const memory_map& memory,
                                       const costs& cost) {
  series<double> times(g.size(), 0);  // number of times that an element is computed in one kernel
  series<node_id> found;
  for (std::size_t n = live.size(); n-- > 0;) {
    const node_id id = live[n];
    const ir::node& v = g[id];
    double here = memory.stored[id] ? 1 : times[id];
    if (here >= 2 && ir::is_pointwise(v.code) && !v.in.empty() && cost.pays_to_keep(id, here)) {
      found.push_back(id);
      here = 1;
    }
    if (v.code == ir::op::broadcast) here *= repeats_of(g, v, memory);
    for (const node_id in : v.in) times[in] = std::max(times[in], here);
  }
  return found;
}

/// Costly numbers that each thread of a kernel would compute for its few elements, topmost first. An example is the sum of
/// many numbers by which an array is multiplied.
inline series<node_id> shared_numbers(const ir::graph& g, const series<node_id>& live, const memory_map& memory,
                                      const costs& cost) {
  series<double> elements(g.size(), 0);  // of the largest array that reads a number
  series<node_id> found;
  for (std::size_t n = live.size(); n-- > 0;) {
    const node_id id = live[n];
    const ir::node& v = g[id];
    if (memory.stored[id]) elements[id] = 0;
    if (elements[id] > 0 && ir::is_pointwise(v.code) && !v.in.empty() && cost.pays_to_share(id, elements[id])) {
      found.push_back(id);
      elements[id] = 0;
    }
    const bool spreads = v.code == ir::op::broadcast && ir::product(g[v.in[0]].extents).is(1);
    const double to = spreads ? ir::product(v.extents).evaluate(memory.hints) : elements[id];
    if (to > 1)
      for (const node_id in : v.in) elements[in] = std::max(elements[in], to);
  }
  return found;
}

}  // namespace sinter::engine::plan::detail
