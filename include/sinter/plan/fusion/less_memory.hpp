// plan/fusion/less_memory.hpp: an order of kernels with fewer bytes of intermediates in use at once.
#pragma once

#include <algorithm>
#include <queue>
#include <tuple>

#include "merge.hpp"

namespace sinter::engine::plan::detail {

/// The memory in use while groups run one after another.
class memory_in_use {
 public:
  memory_in_use(const ir::graph& g, const merging& groups, const costs& cost) : groups_(groups), buffers_(g.size()) {
    for (ir::node_id id = 0; id < g.size(); ++id) buffers_[id].bytes = cost.bytes(id);
    for (auto id : g.inputs) buffers_[id].bytes = 0;
    for (auto id : g.outputs) buffers_[id].bytes = 0;  // they have separate memory
    for (group_id a = 0; a < groups.size(); ++a) {
      if (!groups.is_there(a)) continue;
      for (const use& u : groups[a].uses) {
        ++buffers_[u.buffer].left;
        buffers_[u.buffer].those_left ^= a;
      }
    }
  }

  /// The bytes that a group allocates minus the bytes that it frees, if it runs now.
  std::int64_t change(group_id a) const {
    std::int64_t out = 0;
    for (const use& u : groups_[a].uses) {
      const buffer& b = buffers_[u.buffer];
      if (!b.there) out += b.bytes;
      if (b.left == 1) out -= b.bytes;
    }
    return out;
  }

  /// Runs a group; calls last(other) for groups that become the only ones left to access a buffer.
  template <class F>
  void run(group_id a, F&& last) {
    for (const use& u : groups_[a].uses) {
      buffer& b = buffers_[u.buffer];
      if (!std::exchange(b.there, true)) now_ += b.bytes;
    }
    peak_ = std::max(peak_, now_);
    for (const use& u : groups_[a].uses) {
      buffer& b = buffers_[u.buffer];
      b.those_left ^= a;
      if (--b.left == 0) now_ -= b.bytes;
      else if (b.left == 1) last(b.those_left);
    }
  }

  std::int64_t peak() const { return peak_; }

 private:
  struct buffer {
    std::int64_t bytes = 0;
    std::uint32_t left = 0;   ///< groups that have not run
    group_id those_left = 0;  ///< the exclusive or of their numbers
    bool there = false;
  };
  const merging& groups_;
  series<buffer> buffers_;
  std::int64_t now_ = 0, peak_ = 0;
};

/// The groups as in in_order(), but a group that frees at least as much as it allocates runs as soon as possible.
inline series<group_id> freeing_first(const merging& groups, memory_in_use& memory) {
  series<std::uint32_t> waiting = groups.before();
  using entry = std::tuple<bool, node_id, group_id>;
  std::priority_queue<entry, std::vector<entry>, std::greater<>> ready;
  series<char> done(groups.size(), 0);
  const auto add = [&](group_id a) { ready.emplace(memory.change(a) > 0, groups[a].first_target, a); };
  for (group_id a = 0; a < groups.size(); ++a)
    if (groups.is_there(a) && waiting[a] == 0) add(a);
  series<group_id> out;
  while (!ready.empty()) {
    const group_id a = std::get<2>(ready.top());
    ready.pop();
    if (std::exchange(done[a], char{1})) continue;
    out.push_back(a);
    memory.run(a, [&](group_id other) {
      if (waiting[other] == 0 && !done[other]) add(other);  // it may now free as much as it allocates
    });
    groups.for_each_next(a, [&](group_id s) {
      if (--waiting[s] == 0) add(s);
    });
  }
  return out;
}

/// The order in which groups run: by their first targets, unless another order needs an eighth less memory.
inline series<group_id> in_less_memory(const ir::graph& g, const merging& groups, const costs& cost) {
  series<group_id> written = groups.in_order();
  memory_in_use first(g, groups, cost), second = first;
  for (auto a : written) first.run(a, [](group_id) {});
  series<group_id> freeing = freeing_first(groups, second);
  return second.peak() <= first.peak() - first.peak() / 8 && first.peak() > 0 ? freeing : written;
}

}  // namespace sinter::engine::plan::detail
