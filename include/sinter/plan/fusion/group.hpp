// plan/fusion/group.hpp: groups of roots with their kernels, and the order in which groups can run.
#pragma once

#include <algorithm>

#include "../../base/series.hpp"
#include "lowering_memo.hpp"

namespace sinter::engine::plan::detail {

using group_id = std::uint32_t;
inline constexpr group_id no_group = ~group_id{0};

/// A group's access to a buffer.
struct use {
  node_id buffer = ir::no_node;
  bool written = false;

  friend bool operator<(const use& a, const use& b) { return a.buffer < b.buffer; }
};

struct group {
  series<std::uint32_t> roots;  ///< ascending by target
  lowered_roots made;           ///< for a group that is not a step
  kernel step;                  ///< for an opaque node
  series<use> uses;             ///< ascending
  std::int64_t traffic = 0;     ///< total bytes
  node_id first_target = ir::no_node;
  bool scatters = false;
  bool fills = false;         ///< writes a literal to regions, where a launch costs more than its traffic
  bool of_many = false;       ///< one, or partly one, of more than max_neighbours of equal form
  std::uint32_t version = 0;  ///< number of merges so far

  const kernel& code() const { return step.is_opaque() ? step : made.what->code; }
};

/// The values that pass between two groups.
struct relation {
  std::int64_t saving = 0;  ///< bytes that a common kernel would not move twice; 0: nothing in common
  bool first_feeds = false, second_feeds = false;
  bool touch = false;
};

template <class Bytes>
relation between(const group& a, const group& b, Bytes&& bytes) {
  relation out;
  for (std::size_t i = 0, j = 0; i < a.uses.size() && j < b.uses.size();) {
    const use &x = a.uses[i], &y = b.uses[j];
    if (x.buffer != y.buffer) {
      ++(x.buffer < y.buffer ? i : j);
      continue;
    }
    out.touch = true;
    if (a.fills && b.fills) out.saving += bytes(x.buffer);
    if (!(x.written && y.written)) out.saving += (x.written || y.written ? 2 : 1) * bytes(x.buffer);
    out.first_feeds = out.first_feeds || (x.written && (!y.written || (b.scatters && !a.scatters)));
    out.second_feeds = out.second_feeds || (y.written && (!x.written || (a.scatters && !b.scatters)));
    ++i, ++j;
  }
  return out;
}

/// Groups in an order in which they can run, maintained while groups merge. Edges between the initial groups give the
/// successors; each initial group is part of a present one.
class run_order {
 public:
  run_order() = default;
  explicit run_order(series<series<group_id>> next) : next_(std::move(next)), seen_(next_.size(), 0) {
    part_of_.resize(next_.size());
    for (group_id g = 0; g < next_.size(); ++g) part_of_[g] = g;
    series<std::uint32_t> waiting(next_.size(), 0);
    for (const auto& after : next_)
      for (auto s : after) ++waiting[s];
    place_.resize(next_.size());
    for (group_id g = 0; g < next_.size(); ++g)
      if (waiting[g] == 0) slots_.push_back(g);
    for (std::size_t at = 0; at < slots_.size(); ++at) {
      place_[slots_[at]] = static_cast<std::uint32_t>(at);
      for (auto s : next_[slots_[at]])
        if (--waiting[s] == 0) slots_.push_back(s);
    }
    ensure(slots_.size() == next_.size(), "kernels have no circular dependences");
  }

  group_id now(group_id g) const {
    while (part_of_[g] != g) g = part_of_[g] = part_of_[part_of_[g]];
    return g;
  }

  const series<group_id>& next(group_id g) const { return next_[g]; }

  /// A group on a path between two groups, outside of both; no_group without a path. `below` then has all successors of the
  /// earlier group before the later one.
  group_id around(group_id a, group_id b, series<group_id>& below) const {
    if (place_[a] > place_[b]) std::swap(a, b);
    below.clear();
    group_id found = no_group;
    visit(a, a, b, below, found);
    for (std::size_t i = 0; i < below.size() && found == no_group; ++i) visit(below[i], a, b, below, found);
    for (auto g : below) seen_[g] = 0;
    return found;
  }

  /// Merges group b into a; `below` is the result of around(), which found no path.
  void merge(group_id a, group_id b, const series<group_id>& below) {
    const std::uint32_t from = std::min(place_[a], place_[b]), to = std::max(place_[a], place_[b]);
    for (auto g : below) seen_[g] = 1;
    std::uint32_t at = from;
    series<group_id> after;
    for (std::uint32_t s = from; s <= to; ++s) {
      const group_id g = slots_[s];
      if (g == no_group || g == a || g == b) continue;
      if (seen_[g]) after.push_back(g);
      else slots_[at] = g, place_[g] = at++;
    }
    slots_[at] = a, place_[a] = at++;
    for (auto g : after) slots_[at] = g, place_[g] = at++;
    for (; at <= to; ++at) slots_[at] = no_group;
    for (auto g : below) seen_[g] = 0;
    part_of_[b] = a;
    next_[a].insert(next_[a].end(), next_[b].begin(), next_[b].end());
    next_[b].clear();
    tidy(a);
  }

 private:
  void visit(group_id from, group_id a, group_id b, series<group_id>& below, group_id& found) const {
    for (auto raw : next_[from]) {
      const group_id s = now(raw);
      if (s == b && from != a) found = from;
      if (s == b || s == a || seen_[s] || place_[s] > place_[b]) continue;
      seen_[s] = 1;
      below.push_back(s);
    }
  }

  void tidy(group_id a) {
    auto& all = next_[a];
    for (auto& s : all) s = now(s);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    erase_if(all, [&](group_id s) { return s == a; });
  }

  series<series<group_id>> next_;
  mutable series<group_id> part_of_;
  series<std::uint32_t> place_;
  series<group_id> slots_;
  mutable series<char> seen_;
};

}  // namespace sinter::engine::plan::detail
