// plan/fusion/merge.hpp: merges groups into one kernel, greedily, the pair that saves most bytes first.
#pragma once

#include <queue>
#include <set>
#include <unordered_map>

#include "../kernel/common.hpp"
#include "../kernel/sized.hpp"
#include "../lowering/library_call.hpp"
#include "cost.hpp"
#include "group.hpp"

namespace sinter::engine::plan {

/// The greatest number of instructions in a kernel that fusion builds.
inline constexpr std::size_t max_instructions = 160;

namespace detail {

/// Of the groups that access one buffer, this many nearest ones on each side are tried with a group.
inline constexpr std::size_t max_neighbours = 32;

class merging {
 public:
  merging(const ir::graph& g, const memory_map& memory, const target& t, const series<root>& roots, const costs& cost,
          lowering_memo& lowered, series<group> groups)
      : g_(g), memory_(memory), target_(t), roots_(roots), cost_(cost), lowered_(lowered), groups_(std::move(groups)) {
    touching_.resize(g.size());
    is_output_.assign(g.size(), 0);
    for (auto id : g.outputs) is_output_[id] = 1;
    for (group_id a = 0; a < groups_.size(); ++a)
      for (const use& u : groups_[a].uses) touching_[u.buffer].insert(touching_[u.buffer].end(), a);
    met_.assign(groups_.size(), 0);
    find_many();
    link();
  }

  void run() {
    for (group_id a = 0; a < groups_.size(); ++a) consider(a, true);
    series<group_id> below;
    while (!pairs_.empty()) {
      const pair p = pairs_.top();
      pairs_.pop();
      group &x = groups_[p.a], &y = groups_[p.b];
      if (order_.now(p.a) != p.a || order_.now(p.b) != p.b || x.version != p.of_a || y.version != p.of_b) continue;
      if (order_.around(p.a, p.b, below) != no_group) continue;
      ++tried;
      group both;
      if (!together(p.a, p.b, both).empty()) continue;
      both.version = x.version + 1;
      both.of_many = x.of_many || y.of_many;
      for (const use& u : y.uses) {
        touching_[u.buffer].erase(p.b);
        touching_[u.buffer].insert(p.a);
      }
      x = std::move(both);
      order_.merge(p.a, p.b, below);
      y = group{};
      consider(p.a, false);
    }
  }

  std::size_t size() const { return groups_.size(); }
  bool is_there(group_id a) const { return order_.now(a) == a; }
  const group& operator[](group_id a) const { return groups_[a]; }

  /// Calls f for each group that must wait for `a`, once.
  template <class F>
  void for_each_next(group_id a, F&& f) const {
    series<group_id> all;
    for (auto raw : order_.next(a))
      if (const group_id s = order_.now(raw); s != a) all.push_back(s);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (auto s : all) f(s);
  }

  /// The number of other groups for which each group must wait.
  series<std::uint32_t> before() const {
    series<std::uint32_t> waiting(groups_.size(), 0);
    for (group_id a = 0; a < groups_.size(); ++a) {
      if (!is_there(a)) continue;
      for_each_next(a, [&](group_id s) { ++waiting[s]; });
    }
    return waiting;
  }

  /// An order in which the groups can run; among possible groups, the one with the first target comes next.
  series<group_id> in_order() const {
    series<std::uint32_t> waiting = before();
    using entry = std::pair<node_id, group_id>;
    std::priority_queue<entry, std::vector<entry>, std::greater<>> ready;
    for (group_id a = 0; a < groups_.size(); ++a)
      if (is_there(a) && waiting[a] == 0) ready.emplace(groups_[a].first_target, a);
    series<group_id> out;
    while (!ready.empty()) {
      const group_id a = ready.top().second;
      ready.pop();
      out.push_back(a);
      for_each_next(a, [&](group_id s) {
        if (--waiting[s] == 0) ready.emplace(groups_[s].first_target, s);
      });
    }
    return out;
  }

  /// Why two groups that access an array in common are two kernels.
  std::string why_apart(group_id a, group_id b) {
    if (a > b) std::swap(a, b);
    const group &x = groups_[a], &y = groups_[b];
    const relation between_them = related(a, b);
    if (between_them.saving > 0 && worthwhile(x, y, between_them)) {
      series<group_id> below;
      if (const group_id on = order_.around(a, b, below); on != no_group)
        return "%" + std::to_string(groups_[on].first_target) + " needs one of them and feeds the other";
      group both;
      return together(a, b, both);
    }
    if (x.scatters || y.scatters) return scatters_alone;
    if (are_parts(x, y, between_them)) return "many of their shape share code instead";
    if (between_them.saving == 0) return "as one they would move no byte less";
    return "they share " + std::to_string(between_them.saving) + " of the " +
           std::to_string(std::min(x.traffic, y.traffic)) + " bytes that the smaller moves, less than a quarter";
  }

  relation related(group_id a, group_id b) const {
    return between(groups_[a], groups_[b], [&](node_id id) { return cost_.bytes(id); });
  }

  std::size_t considered = 0;  ///< pairs whose common buffers were examined
  std::size_t tried = 0;       ///< of these, the pairs that were lowered

 private:
  static constexpr const char* scatters_alone = "a scatter has a kernel of its own";
  static constexpr const char* too_long = "too many instructions";

  struct pair {
    std::int64_t saving;
    group_id a, b;
    std::uint32_t of_a, of_b;              ///< versions
    bool operator<(const pair& y) const {  // the best is the greatest
      return std::tuple(saving, y.a, y.b) < std::tuple(y.saving, a, b);
    }
  };

  /// Edges from writers of a buffer to its readers, and between steps with effects in their order.
  void link() {
    series<series<group_id>> next(groups_.size());
    series<group_id> writers, readers, adders;
    for (const auto& touch : touching_) {
      writers.clear(), readers.clear(), adders.clear();
      if (touch.size() < 2) continue;
      const node_id buffer = static_cast<node_id>(&touch - touching_.begin());
      for (auto a : touch) {
        const auto u = std::lower_bound(groups_[a].uses.begin(), groups_[a].uses.end(), use{buffer, false});
        (!u->written ? readers : groups_[a].scatters ? adders : writers).push_back(a);
      }
      if (writers.size() > max_neighbours && readers.size() > max_neighbours) put_in_a_row(writers, next);
      for (auto w : writers) {
        next[w].insert(next[w].end(), readers.begin(), readers.end());
        next[w].insert(next[w].end(), adders.begin(), adders.end());
      }
      for (auto w : adders) next[w].insert(next[w].end(), readers.begin(), readers.end());
    }
    series<group_id> effects;
    for (group_id a = 0; a < groups_.size(); ++a)
      if (groups_[a].step.has_effect) effects.push_back(a);
    std::sort(effects.begin(), effects.end(),
              [&](group_id a, group_id b) { return groups_[a].step.opaque < groups_[b].step.opaque; });
    for (std::size_t i = 1; i < effects.size(); ++i) next[effects[i - 1]].push_back(effects[i]);
    for (auto& after : next) {
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
    }
    order_ = run_order(std::move(next));
  }

  /// Puts many parts that as many groups read in a row, written one after another, so that readers wait only for the last.
  /// Otherwise edges would be as many as pairs. No part waits for another, so they can take the order of their values.
  void put_in_a_row(series<group_id>& writers, series<series<group_id>>& next) const {
    const auto value_of = [&](group_id a) { return groups_[a].roots.empty() ? 0 : roots_[groups_[a].roots[0]].value; };
    sort_stably(writers, [&](group_id a, group_id b) { return value_of(a) < value_of(b); });
    for (std::size_t i = 1; i < writers.size(); ++i) next[writers[i - 1]].push_back(writers[i]);
    writers.assign(1, writers.back());
  }

  /// Considers pairs of `a` with groups that access its buffers; with `later`, only with groups after it.
  void consider(group_id a, bool later) {
    const group& x = groups_[a];
    if (x.step.is_opaque()) return;
    series<group_id> met;
    for (const use& u : x.uses) {
      const auto& touch = touching_[u.buffer];
      const auto here = touch.lower_bound(a);
      auto first = here, last = here;
      for (std::size_t n = 0; !later && n < max_neighbours && first != touch.begin(); ++n) --first;
      for (std::size_t n = 0; n <= max_neighbours && last != touch.end(); ++n) ++last;
      for (auto at = first; at != last; ++at) {
        const group_id b = *at;
        if (b == a || met_[b] || groups_[b].step.is_opaque()) continue;
        met_[b] = 1;
        met.push_back(b);
        ++considered;
        const relation r = related(std::min(a, b), std::max(a, b));
        const group& y = groups_[b];
        if (r.saving <= 0 || !worthwhile(x, y, r) || are_parts(x, y, r)) continue;
        const group_id low = std::min(a, b), high = std::max(a, b);
        pairs_.push({r.saving, low, high, groups_[low].version, groups_[high].version});
      }
    }
    for (const group_id b : met) met_[b] = 0;
  }

  void find_many() {
    if (groups_.size() <= max_neighbours) return;
    std::unordered_map<const outcome*, std::size_t> known;
    std::unordered_map<std::string, std::size_t> shapes;
    series<std::size_t> count, shape;
    for (const group& x : groups_) {
      const outcome* const what = x.made.what.get();
      auto at = what == nullptr ? known.end() : known.find(what);
      if (what != nullptr && at == known.end())
        at = known.emplace(what, shapes.emplace(form_of_parts(what->code), shapes.size()).first->second).first;
      shape.push_back(what == nullptr ? 0 : at->second + 1);
      count.resize(shapes.size() + 1, 0);
      ++count[shape.back()];
    }
    for (group_id a = 0; a < groups_.size(); ++a)
      groups_[a].of_many = shape[a] != 0 && count[shape[a]] > max_neighbours;
  }
  static std::string form_of_parts(const kernel& k) { return is_plain(k) ? plain_form_of(k) : shape_form_of(k, 1); }
  /// Parts that many groups access share code, and a launch, as they are: a merged kernel would have its own text.
  bool are_parts(const group& a, const group& b, const relation& r) const {
    if ((!a.of_many && !b.of_many) || r.first_feeds || r.second_feeds || (a.fills && b.fills)) return false;
    for (std::size_t i = 0, j = 0; i < a.uses.size() && j < b.uses.size();) {
      const use &x = a.uses[i], &y = b.uses[j];
      if (x.buffer == y.buffer && !(x.written && y.written) && touching_[x.buffer].size() <= max_neighbours)
        return false;
      const bool first = x.buffer <= y.buffer, second = y.buffer <= x.buffer;
      i += first, j += second;
    }
    return true;
  }

  /// Whether a value passes between the groups, or their common traffic is a good part of the smaller group's.
  static bool worthwhile(const group& a, const group& b, const relation& r) {
    return 4 * r.saving >= std::min(a.traffic, b.traffic) || r.first_feeds || r.second_feeds;
  }

  /// The reason against one kernel that the groups themselves show; "" if lowering must decide.
  static std::string refused_at_once(const group& a, const group& b) {
    if (a.step.is_opaque() || b.step.is_opaque()) return "an opaque step is no kernel";
    if (a.scatters || b.scatters) return scatters_alone;
    const outcome &x = *a.made.what, &y = *b.made.what;
    if (x.code.is_product() && y.code.is_product()) return "two matrix products";
    if ((x.code.is_product() && y.reduces) || (y.code.is_product() && x.reduces))
      return "a reduction behind a matrix product";
    if (x.code.by_recipe || y.code.by_recipe) return "a kernel of attention has its own loops";
    if (x.scans || y.scans) return "a scan, a sort or a search has a kernel of its own";
    if (is_full(a) || is_full(b)) return too_long;
    return "";
  }

  /// Whether x is too long to merge with any group. Its loads do not count: loads of values that the other group computes
  /// disappear, and nothing else does.
  static bool is_full(const group& x) {
    const auto& body = x.code().body;
    if (body.size() <= max_instructions) return false;
    return std::count_if(body.begin(), body.end(), [](const instruction& i) { return i.kind != kind::load; }) >
           static_cast<std::ptrdiff_t>(max_instructions);
  }

  /// Makes the group of both; returns the reason against it, or "".
  std::string together(group_id ga, group_id gb, group& both) {
    const group &a = groups_[ga], &b = groups_[gb];
    if (std::string why = refused_at_once(a, b); !why.empty()) return why;
    both.roots = a.roots;
    both.roots.insert(both.roots.end(), b.roots.begin(), b.roots.end());
    sort_stably(both.roots, [&](std::uint32_t x, std::uint32_t y) { return roots_[x].target < roots_[y].target; });
    both.made = lowered_.of_both(a.made, b.made, a.roots, both.roots);
    const outcome& o = *both.made.what;
    if (o.failed) return in_own_nodes(both.made);
    if (o.code.body.size() > max_instructions) return too_long;
    const std::int64_t inner = o.code.extent(role::inner).evaluate(memory_.hints);
    dim n = 1;
    for (const auto& axis : o.code.axes) n *= axis.extent;
    const std::int64_t rows = n.evaluate(memory_.hints) / std::max<std::int64_t>(inner, 1);
    if (!o.code.is_product() && o.code.stages > 1 && rows < target_.min_rows && inner > 2 * block_elements &&
        !(target_.shares_rows && walks_once(o.code)))
      return "too few rows to share among threads";
    complete(both);
    return beyond_limits(ga, gb, both);
  }

  /// A reason with the nodes of these roots.
  static std::string in_own_nodes(const lowered_roots& made) {
    std::string why = made.what->refused;
    for (std::size_t at = why.find('%'); at != std::string::npos; at = why.find('%', at + 1)) {
      std::size_t end = at + 1;
      while (end < why.size() && why[end] >= '0' && why[end] <= '9') ++end;
      if (end == at + 1) continue;
      const auto id = static_cast<node_id>(std::stoul(why.substr(at + 1, end - at - 1)));
      why.replace(at + 1, end - at - 1, std::to_string(made.own(id)));
    }
    return why;
  }

 public:
  /// Sets the buffers that a group accesses, from its kernel.
  void complete(group& x) const { complete(x, roots_, cost_); }
  static void complete(group& x, const series<root>& roots, const costs& cost) {
    x.uses.clear();
    for (const auto& b : x.code().buffers) {
      const auto id = static_cast<node_id>(b.id);
      x.uses.push_back({x.step.is_opaque() ? id : x.made.own(id), b.written});
    }
    std::sort(x.uses.begin(), x.uses.end());
    x.traffic = 0;
    for (const use& u : x.uses) x.traffic += cost.bytes(u.buffer);
    if (x.step.is_opaque()) return;
    x.first_target = roots[x.roots[0]].target;
    x.scatters = x.roots.size() == 1 && roots[x.roots[0]].indexed >= 0;
    const auto fills = [&](std::uint32_t r) { return roots[r].value == ir::no_node; };
    x.fills = cost.cuts_at_guards() && std::all_of(x.roots.begin(), x.roots.end(), fills);
  }

 private:
  /// The kernel of both groups without stores that no other group needs.
  kernel without_unread(group_id a, group_id b, const group& both) {
    kernel k = both.made.what->code;
    erase_if(k.stores, [&](const store& s) {
      const node_id id = both.made.own(static_cast<node_id>(k.buffers[static_cast<std::size_t>(s.at.buffer)].id));
      if (is_output_[id]) return false;
      for (const group_id other : touching_[id])
        if (other != a && other != b) return false;
      return true;
    });
    return k;
  }

  /// Why both exceed the target's limits; "" if they do not.
  std::string beyond_limits(group_id a, group_id b, const group& both) {
    const kernel& k = both.made.what->code;
    if (k.is_product() && (target_.blas || target_.convolves != nullptr)) {
      // A product for the library stays a library call, unless that leaves much work to another launch.
      const kernel& product = groups_[a].code().is_product() ? groups_[a].code() : groups_[b].code();
      if (!is_small_product(product, memory_.hints, target_) &&
          as_library_call(with_sizes(product, memory_.hints), target_) &&
          !as_library_call(with_sizes(without_unread(a, b, both), memory_.hints), target_))
        return "the library cannot do what follows";
    }
    std::size_t large = 0, sums = 0;
    for (const auto& i : k.body) sums += i.span == reduce_scope::row || i.span == reduce_scope::both;
    if (sums > target_.max_row_sums) return "too many sums over the rows";
    for (const use& u : both.uses) large += cost_.bytes(u.buffer) >= 4096;
    const relation r = related(a, b);
    if (large > target_.max_arrays && !r.first_feeds && !r.second_feeds) return "too many arrays for one kernel";
    return "";
  }

  const ir::graph& g_;
  const memory_map& memory_;
  const target& target_;
  const series<root>& roots_;
  const costs& cost_;
  lowering_memo& lowered_;
  series<group> groups_;
  series<std::set<group_id>> touching_;  ///< per node, the groups that access its buffer
  series<char> is_output_;
  series<char> met_;  ///< by group: whether it was considered with the current group
  run_order order_;
  std::priority_queue<pair> pairs_;
};

}  // namespace detail
}  // namespace sinter::engine::plan
