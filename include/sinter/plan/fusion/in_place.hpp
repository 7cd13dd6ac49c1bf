// plan/fusion/in_place.hpp: scatters whose result takes the memory of their base: the values to store so that no kernel reads
// the base after its copy, the places of copies, and unnecessary copies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "../lowering/opaque.hpp"
#include "group.hpp"

namespace sinter::engine::plan::detail {

inline bool is_scatter(const ir::node& n) { return n.code == ir::op::scatter || n.code == ir::op::scatter_add; }

/// The reads of scatters from the memory that they overwrite. Every question is a walk from an operand to memory.
class read_from_base {
 public:
  read_from_base(const ir::graph& g, const memory_map& memory, const series<node_id>& live)
      : g_(g), memory_(memory), first_(g.size(), 0), end_(g.size(), 0), seen_(g.size(), 0) {
    number_bases(live);
  }

  /// Updates and indices of a scatter that its kernel would compute from the base, or from memory that shares its place. They
  /// are stored unless they are larger: readers of the base then run before it is overwritten.
  series<node_id> of(node_id id) {
    series<node_id> found;
    if (!is_scatter(g_[id])) return found;
    const auto elements = [&](node_id x) { return ir::product(g_[x].extents).evaluate(memory_.hints); };
    for (const std::size_t k : {std::size_t{2}, std::size_t{1}}) {
      const node_id x = g_[id].in[k];
      if (!memory_.stored[x] && elements(x) <= elements(id) && reads(x, id)) found.push_back(x);
    }
    return found;
  }

  std::size_t looked = 0;  ///< nodes that the walks have visited

 private:
  /// The parent of a scatter's result is its base. Nodes are numbered so that the descendants of a node are a range.
  void number_bases(const series<node_id>& live) {
    const auto base_of = [&](node_id id) { return memory_behind(g_, g_[id].in[0]); };
    series<std::uint32_t> size(g_.size(), 1), next(g_.size(), 0);
    for (std::size_t k = live.size(); k-- > 0;)
      if (is_scatter(g_[live[k]])) size[base_of(live[k])] += size[live[k]];
    std::uint32_t count = 1;
    for (const node_id id : live) {
      std::uint32_t& at = is_scatter(g_[id]) ? next[base_of(id)] : count;
      first_[id] = at;
      end_[id] = at += size[id];
      next[id] = first_[id] + 1;
    }
  }
  bool is_base(node_id id) const { return end_[id] > first_[id] + 1; }
  bool is_base_of(node_id id, node_id scatter) const {
    return first_[id] < first_[scatter] && first_[scatter] < end_[id];
  }

  /// Whether a kernel of `scatter` that computes x would read such memory.
  bool reads(node_id x, node_id scatter) {
    bool meets_base = false;
    waiting_ = {x};
    met_.clear();
    ++turn_;
    while (!waiting_.empty()) {
      const node_id at = waiting_.back();
      waiting_.pop_back();
      if (seen_[at] == turn_ || seen_[at] == reads_none) continue;
      seen_[at] = turn_;
      ++looked;
      if (!memory_.stored[at]) {
        met_.push_back(at);
        for (const node_id in : g_[at].in) waiting_.push_back(in);
      } else if (is_base_of(at, scatter)) {
        return true;
      } else {
        meets_base = meets_base || is_base(at);
      }
    }
    if (!meets_base)
      for (const node_id at : met_) seen_[at] = reads_none;
    return false;
  }

  static constexpr std::uint32_t reads_none = ~0u;  ///< result of a node for no scatter: computed once

  const ir::graph& g_;
  const memory_map& memory_;
  series<std::uint32_t> first_, end_;
  series<std::uint32_t> seen_;  ///< the last walk that visited a node
  std::uint32_t turn_ = 0;
  series<node_id> waiting_, met_;
};

/// True for a kernel that only copies a whole buffer to another of the same order.
inline bool is_copy(const kernel& k) {
  return !k.is_opaque() && k.products.empty() && k.body.size() == 1 && k.body[0].kind == kind::load &&
         k.stores.size() == 1 && !k.stores[0].accumulate && k.stores[0].value == 0 &&
         k.body[0].at.at == k.stores[0].at.at && k.body[0].at.at.index < 0 &&
         !k.buffers[static_cast<std::size_t>(k.body[0].at.buffer)].by_value;
}

inline node_id buffer_of(const kernel& k, int place) {
  return static_cast<node_id>(k.buffers[static_cast<std::size_t>(place)].id);
}

/// Moves kernels after the copy of a base, which read it and no later value, before the copy. Only for a copy that is the
/// first of its base, because other copies move with them. Kernels are given by their places in `order`.
class hoisting {
 public:
  hoisting(const series<kernel>& kernels, const series<std::size_t>& order)
      : kernels_(kernels), order_(order), moved_(order.size(), 0), before_(order.size()) {
    for (std::size_t at = 0; at < order.size(); ++at)
      for (const auto& b : of(at).buffers) {
        const auto id = static_cast<std::size_t>(b.id);
        if (users_.size() <= id) users_.resize(id + 1), writers_.resize(id + 1);
        users_[id].push_back(at);
        if (b.written) writers_[id].push_back(at);
      }
  }

  void before_copy(std::size_t at) {
    if (moved_[at]) return;
    const auto& readers = users_[buffer_of(of(at), of(at).body[0].at.buffer)];
    for (auto q = std::upper_bound(readers.begin(), readers.end(), at); q != readers.end(); ++q) {
      ++looked;
      if (moved_[*q] || of(*q).is_opaque() || of(*q).has_effect || !is_free(at, *q)) continue;
      moved_[*q] = 1;
      before_[at].push_back(*q);
    }
  }

  series<std::size_t> order() const {
    series<std::size_t> out;
    for (std::size_t at = 0; at < order_.size(); ++at) {
      if (moved_[at]) continue;
      for (const std::size_t q : before_[at]) out.push_back(order_[q]);
      out.push_back(order_[at]);
    }
    return out;
  }

  std::size_t looked = 0;  ///< kernels that were visited

 private:
  const kernel& of(std::size_t at) const { return kernels_[order_[at]]; }

  /// Whether no kernel from `at` on, before q, writes q's operands, or uses its results.
  bool is_free(std::size_t at, std::size_t q) {
    for (const auto& b : of(q).buffers) {
      const auto& others = (b.written ? users_ : writers_)[static_cast<std::size_t>(b.id)];
      auto other = std::lower_bound(others.begin(), others.end(), q);
      for (; other != others.begin() && *(other - 1) >= at; --other) {
        ++looked;
        if (!moved_[*(other - 1)]) return false;
      }
    }
    return true;
  }

  const series<kernel>& kernels_;
  const series<std::size_t>& order_;
  series<char> moved_;
  series<series<std::size_t>> before_;           ///< for each copy, the kernels that move before it
  series<series<std::size_t>> users_, writers_;  ///< for each buffer, ascending
};

/// Moves copies of bases directly before the writers into them, after all other readers of the base; returns the kernels'
/// numbers.
inline series<std::size_t> with_late_copies(const ir::graph& g, const series<kernel>& kernels, std::size_t& looked) {
  series<std::size_t> order;
  series<series<std::size_t>> waiting(kernels.size());  // for each kernel, the copies that move before it
  const auto users = users_of(kernels);
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    bool waits = false;
    if (is_copy(kernels[k])) {
      const node_id to = buffer_of(kernels[k], kernels[k].stores[0].at.buffer);
      for (const std::size_t user : users[to])
        if (user > k && is_scatter(g[to])) {
          waiting[user].push_back(k);
          waits = true;
          break;
        }
    }
    for (const std::size_t copy : waiting[k]) order.push_back(copy);
    if (!waits) order.push_back(k);
  }
  hoisting readers(kernels, order);
  for (std::size_t at = 0; at < order.size(); ++at) {
    const kernel& k = kernels[order[at]];
    if (is_copy(k) && is_scatter(g[buffer_of(k, k.stores[0].at.buffer)])) readers.before_copy(at);
  }
  looked += readers.looked;
  return readers.order();
}

/// Whether only the writers of a buffer before kernel k access it; `users` are the buffer's.
inline bool is_alone(const series<kernel>& kernels, const series<std::size_t>& users, std::size_t k, node_id buffer,
                     std::size_t& looked) {
  if (users.back() != k) return false;
  for (const std::size_t u : users) {
    ++looked;
    if (u == k) continue;
    const kernel& other = kernels[u];
    if (other.is_opaque()) return false;
    for (const auto& b : other.buffers)
      if (static_cast<node_id>(b.id) == buffer && !b.written) return false;
    for (const auto& i : other.body)
      if (i.kind == kind::load && buffer_of(other, i.at.buffer) == buffer) return false;
  }
  return true;
}

/// Removes the copies of values that are made only for a scatter, which then writes into them; marks the other copies of
/// bases. Returns the number of each remaining kernel.
inline series<std::size_t> without_copies(const ir::graph& g, series<kernel>& kernels, std::size_t& looked) {
  series<std::size_t> left;
  series<char> given(g.size(), 0);
  for (const auto id : g.inputs) given[id] = 1;
  for (const auto id : g.outputs) given[memory_behind(g, id)] = given[id] = 1;
  const auto users = users_of(kernels);
  series<char> gone(kernels.size(), 0);
  series<int> place(users.size());  // for each buffer, the buffer that replaces it
  std::iota(place.begin(), place.end(), 0);
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    kernel& copy = kernels[k];
    if (!is_copy(copy)) continue;
    const node_id from = buffer_of(copy, copy.body[0].at.buffer), to = buffer_of(copy, copy.stores[0].at.buffer);
    if (!is_scatter(g[to])) continue;
    copy.replaces = true;
    if (given[from] || !is_scatter(g[from]) || !is_alone(kernels, users[from], k, from, looked)) continue;
    gone[k] = 1;
    place[from] = static_cast<int>(to);
  }
  // A scatter's result has a higher number than its memory: the last of a chain is resolved first.
  for (std::size_t id = place.size(); id-- > 0;) place[id] = place[static_cast<std::size_t>(place[id])];
  for (auto& k : kernels)
    for (auto& b : k.buffers) b.id = place[static_cast<std::size_t>(b.id)];
  series<kernel> kept;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (!gone[k]) {
      kept.push_back(std::move(kernels[k]));
      left.push_back(k);
    }
  kernels = std::move(kept);
  return left;
}

}  // namespace sinter::engine::plan::detail
