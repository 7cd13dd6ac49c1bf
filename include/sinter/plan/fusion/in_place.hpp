// plan/fusion/in_place.hpp: scatters whose result takes the memory of their base: what is stored so that nothing reads the base after its
// copy, where copies stand, and which need not be made.
#pragma once

#include "../lowering/opaque.hpp"
#include "group.hpp"

namespace sinter::engine::plan::detail {

inline bool is_scatter(const ir::node& n) { return n.code == ir::op::scatter || n.code == ir::op::scatter_add; }

/// Whether a kernel would read `memory` where it computes `id`.
inline bool computed_from(const ir::graph& g, const series<char>& stored, node_id id, node_id memory) {
  series<char> seen(g.size(), 0);
  series<node_id> waiting{id};
  while (!waiting.empty()) {
    const node_id at = waiting.back();
    waiting.pop_back();
    if (at == memory) return true;
    if (std::exchange(seen[at], 1) || stored[at]) continue;
    for (const node_id in : g[at].in) waiting.push_back(in);
  }
  return false;
}

/// Updates and indices of a scatter that its kernel would compute from the base, or from what that is in place of. They are stored where they are no larger: what reads
/// the base then runs before anything is written over it.
inline series<node_id> read_from_base(const ir::graph& g, const memory_map& memory, node_id id) {
  series<node_id> found;
  if (!is_scatter(g[id])) return found;
  series<node_id> bases{memory_behind(g, g[id].in[0])};
  while (is_scatter(g[bases.back()])) bases.push_back(memory_behind(g, g[bases.back()].in[0]));
  const auto elements = [&](node_id x) { return ir::product(g[x].extents).evaluate(memory.hints); };
  const auto reads = [&](node_id x) {
    return std::any_of(bases.begin(), bases.end(),
                       [&](node_id base) { return memory.stored[base] && computed_from(g, memory.stored, x, base); });
  };
  for (const std::size_t k : {std::size_t{2}, std::size_t{1}}) {
    const node_id x = g[id].in[k];
    if (!memory.stored[x] && elements(x) <= elements(id) && reads(x)) found.push_back(x);
  }
  return found;
}

/// True for a kernel that does nothing but copy a buffer, whole, to another of the same order.
inline bool is_copy(const kernel& k) {
  return !k.is_opaque() && k.products.empty() && k.body.size() == 1 && k.body[0].kind == kind::load &&
         k.stores.size() == 1 && !k.stores[0].accumulate && k.stores[0].value == 0 &&
         k.body[0].at.at == k.stores[0].at.at && k.body[0].at.at.index < 0 &&
         !k.buffers[static_cast<std::size_t>(k.body[0].at.buffer)].by_value;
}

inline node_id buffer_of(const kernel& k, int place) {
  return static_cast<node_id>(k.buffers[static_cast<std::size_t>(place)].id);
}

/// Kernels of `order` behind the copy at `at` that read its base, and nothing that is made from there on, go before it.
inline void hoist_readers(const series<kernel>& kernels, series<std::size_t>& order, std::size_t at) {
  const kernel& copy = kernels[order[at]];
  const node_id base = buffer_of(copy, copy.body[0].at.buffer);
  for (std::size_t q = at + 1; q < order.size(); ++q) {
    const kernel& reader = kernels[order[q]];
    if (reader.is_opaque() || reader.has_effect) continue;
    bool reads = false, free = true;
    for (const auto& b : reader.buffers) {
      reads = reads || static_cast<node_id>(b.id) == base;
      for (std::size_t p = at; p < q; ++p)
        for (const auto& other : kernels[order[p]].buffers)
          free = free && !(other.id == b.id && (other.written || b.written));
    }
    if (!reads || !free) continue;
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(at), order.begin() + static_cast<std::ptrdiff_t>(q),
                order.begin() + static_cast<std::ptrdiff_t>(q) + 1);
    ++at;
  }
}

/// Copies of bases go right before what writes into them, behind all else that reads the base; `order` gives the kernels' numbers.
inline series<std::size_t> with_late_copies(const ir::graph& g, const series<kernel>& kernels) {
  series<std::size_t> order;
  series<series<std::size_t>> waiting(kernels.size());  // per kernel the copies that go before it
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
  for (std::size_t at = 0; at < order.size(); ++at) {
    const kernel& k = kernels[order[at]];
    if (is_copy(k) && is_scatter(g[buffer_of(k, k.stores[0].at.buffer)])) hoist_readers(kernels, order, at);
  }
  return order;
}

/// Takes out the copies of what is made for a scatter alone, which then writes into that; marks the other copies of bases. Returns
/// per kernel that is left its number.
inline series<std::size_t> without_copies(const ir::graph& g, series<kernel>& kernels) {
  series<std::size_t> left;
  series<char> given(g.size(), 0);
  for (const auto id : g.inputs) given[id] = 1;
  for (const auto id : g.outputs) given[memory_behind(g, id)] = given[id] = 1;
  series<char> gone(kernels.size(), 0);
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    kernel& copy = kernels[k];
    if (!is_copy(copy)) continue;
    const node_id from = buffer_of(copy, copy.body[0].at.buffer), to = buffer_of(copy, copy.stores[0].at.buffer);
    if (!is_scatter(g[to])) continue;
    copy.replaces = true;
    if (given[from] || !is_scatter(g[from])) continue;
    // Nothing but what writes it, before this kernel, knows the base.
    bool alone = true;
    for (std::size_t other = 0; other < kernels.size(); ++other) {
      if (other == k || gone[other]) continue;
      for (const auto& b : kernels[other].buffers) {
        if (static_cast<node_id>(b.id) != from) continue;
        alone = alone && other < k && b.written && !kernels[other].is_opaque();
        for (const auto& i : kernels[other].body)
          alone = alone && !(i.kind == kind::load && buffer_of(kernels[other], i.at.buffer) == from);
      }
    }
    if (!alone) continue;
    gone[k] = 1;
    for (auto& other : kernels)
      for (auto& b : other.buffers)
        if (static_cast<node_id>(b.id) == from) b.id = static_cast<int>(to);
  }
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
