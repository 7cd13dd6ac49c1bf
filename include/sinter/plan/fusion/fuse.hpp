// plan/fusion/fuse.hpp: graph -> kernels: chooses what is stored, and which stored values share a kernel.
#pragma once

#include <functional>
#include <string>

#include "../../base/log.hpp"
#include "../kernel/parameters.hpp"
#include "../kernel/sized.hpp"
#include "../lowering/library_product.hpp"
#include "../lowering/opaque.hpp"
#include "../lowering/schedule.hpp"
#include "finish.hpp"
#include "group.hpp"

namespace sinter::engine::plan {

/// Most instructions in a kernel that fusion builds.
inline constexpr std::size_t most_instructions = 160;
/// Recomputing a value in a second kernel costs at most this much (a costly op counts 10) before it is stored instead.
inline constexpr int most_recomputation = 20;

/// The kernels of a graph, in an order that respects their dependences; buffer ids are node ids.
struct fused {
  series<kernel> kernels;
  std::size_t unfused = 0;   ///< kernels if every op had one of its own
  series<neighbours> apart;  ///< every pair of kernels that touch an array in common
};

namespace detail {

class fusion {
 public:
  fusion(const ir::graph& g, const memory_map& inputs, const target& t)
      : g_(g), memory_(inputs), target_(t), bytes_(g.size(), -1) {}

  fused run() {
    choose_roots();
    for (;;) {
      lower_all();
      merge_all();
      if (!store_shared()) break;
    }
    fused out;
    out.unfused = count_ops(g_, live_);
    const auto placed = order();
    out.apart = apart(placed);
    for (auto i : placed) {
      out.kernels.push_back(std::move(groups_[i].code));
      out.kernels.back().symbols = static_cast<int>(memory_.hints.size());
      if (!out.kernels.back().is_opaque()) out.kernels.back().label = label_of(out.kernels.back());
    }
    drop_unread(out.kernels, g_);
    return out;
  }

 private:
  void choose_roots() {
    live_ = g_.live();
    memory_.stored.assign(g_.size(), 0);
    memory_.strides.resize(g_.size());
    for (auto id : g_.inputs) memory_.stored[id] = 1;
    for (auto id : live_)
      if (lowering_of(g_[id].code).stored) store_node(id);
    for (auto id : live_) {
      if (g_[id].code == ir::op::pick) memory_.stored[id] = 1;
      if (g_[id].code != ir::op::opaque) continue;
      for (auto operand : g_[id].in)
        if (const node_id x = memory_behind(g_, operand); !memory_.stored[x] && g_[x].code != ir::op::pick)
          store_node(x);
    }
    for (auto id : g_.outputs)
      if (!memory_.stored[id]) store_node(id);
  }

  void store_node(node_id id) {
    memory_.stored[id] = 1;
    append_roots(g_, id, roots_);
  }

  kernel lowered(const series<root>& roots) const {
    kernel k = lower(g_, roots, memory_);
    check_parameters(g_, roots, memory_, k, target_);
    schedule(k, memory_.hints, target_);
    return k;
  }

  /// One group per root; stores whatever a root turns out to need in memory, and then starts again, since what is in
  /// memory decides what every other root reads.
  void lower_all() {
    groups_.clear();
    for (std::size_t r = 0; r < roots_.size(); ++r) {
      try {
        groups_.push_back({{roots_[r]}, lowered({roots_[r]}), groups_.size()});
      } catch (const refusal& no) {
        ensure(
            no.needs_memory != ir::no_node && no.needs_memory != roots_[r].target && !memory_.stored[no.needs_memory],
            no.why.c_str());
        store_node(no.needs_memory);
        groups_.clear();
        r = static_cast<std::size_t>(-1);
      }
    }
    for (auto id : live_)
      if (g_[id].code == ir::op::opaque)
        groups_.push_back({opaque_roots(g_, live_, id), opaque_step(g_, live_, id, memory_), groups_.size()});
  }

  void link() {
    next_.assign(groups_.size(), {});
    for (std::size_t a = 0; a < groups_.size(); ++a) link(a, a + 1);
  }
  /// Links group a with those from `first` on, both ways.
  void link(std::size_t a, std::size_t first) {
    for (std::size_t b = first; b < groups_.size(); ++b) {
      if (a == b) continue;
      if (feeds(groups_[a], groups_[b])) next_[a].push_back(b);
      if (feeds(groups_[b], groups_[a])) next_[b].push_back(a);
    }
  }
  /// Group b has become part of a, which comes before it.
  void relink(std::size_t a, std::size_t b) {
    next_.erase(next_.begin() + static_cast<std::ptrdiff_t>(b));
    next_[a].clear();
    for (auto& after : next_) {
      erase_if(after, [&](std::size_t x) { return x == a || x == b; });
      for (auto& x : after) x -= x > b;
    }
    link(a, 0);
  }

  static constexpr const char* scatters_alone = "a scatter_add has a kernel of its own";
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

  /// A group between `a` and `b` on a path that leaves them; nowhere when there is none.
  std::size_t between(std::size_t a, std::size_t b) const {
    series<std::size_t> stack;
    for (auto s : next_[a])
      if (s != b) stack.push_back(s);
    if (stack.empty()) return nowhere;
    series<char> seen(groups_.size());
    while (!stack.empty()) {
      const auto x = stack.back();
      stack.pop_back();
      if (seen[x]++) continue;
      for (auto s : next_[x]) {
        if (s == b) return x;
        stack.push_back(s);
      }
    }
    return nowhere;
  }
  bool path_around(std::size_t a, std::size_t b) const { return between(a, b) != nowhere; }

  std::int64_t bytes(int buffer) const {
    std::int64_t& known = bytes_[static_cast<std::size_t>(buffer)];
    return known >= 0 ? known : known = bytes_of(g_[static_cast<node_id>(buffer)], memory_.hints);
  }

  /// Bytes that a common kernel would not move twice; 0 when the groups are strangers.
  std::int64_t saving(const group& a, const group& b) const {
    std::int64_t total = 0;
    for (const auto& x : a.code.buffers)
      for (const auto& y : b.code.buffers)
        if (x.id == y.id && !(x.written && y.written)) total += (x.written || y.written ? 2 : 1) * bytes(x.id);
    return total;
  }

  std::int64_t work(const group& x) const {
    dim n = 1;
    for (const auto& a : x.code.axes) n *= a.extent;
    return n.evaluate(memory_.hints);
  }

  /// The group of both, or the reason against it.
  group together(const group& a, const group& b) const {
    if (a.code.is_opaque() || b.code.is_opaque()) throw refusal{"an opaque step is no kernel", ir::no_node};
    if (scatters(a) || scatters(b)) throw refusal{scatters_alone, ir::no_node};
    group both;
    both.number = a.number;
    both.roots = a.roots;
    both.roots.insert(both.roots.end(), b.roots.begin(), b.roots.end());
    sort_stably(both.roots, [](const root& x, const root& y) { return x.target < y.target; });
    both.code = lowered(both.roots);
    if (both.code.body.size() > most_instructions) throw refusal{"too many instructions", ir::no_node};
    const std::int64_t inner = both.code.extent(role::inner).evaluate(memory_.hints);
    const std::int64_t rows = work(both) / std::max<std::int64_t>(inner, 1);
    if (!both.code.is_product() && both.code.stages > 1 && rows < target_.least_rows && inner > 2 * block_elements &&
        !(target_.rows_over_threads && walks_once(both.code)))
      throw refusal{"too few rows to share among threads", ir::no_node};
    check_limits(a, b, both.code);
    return both;
  }

  /// The kernel of both groups without the stores that nothing beyond it needs.
  kernel without_unread(const group& a, const group& b, kernel both) const {
    erase_if(both.stores, [&](const store& s) {
      const int id = both.buffers[static_cast<std::size_t>(s.at.buffer)].id;
      if (std::count(g_.outputs.begin(), g_.outputs.end(), static_cast<node_id>(id))) return false;
      for (const auto& other : groups_)
        if (&other != &a && &other != &b)
          for (const auto& u : other.code.buffers)
            if (u.id == id) return false;
      return true;
    });
    return both;
  }

  /// Throws refusal where the target has too little for both.
  void check_limits(const group& a, const group& b, const kernel& both) const {
    if (target_.blas && both.is_product()) {
      // A product that the library takes stays one, unless that leaves much to another launch.
      const kernel& product = a.code.is_product() ? a.code : b.code;
      const kernel known = with_sizes(product, memory_.hints);
      if (!is_small_product(product, memory_.hints, target_) && as_blas(known) &&
          !as_blas(with_sizes(without_unread(a, b, both), memory_.hints)))
        throw refusal{"the matrix library cannot do what follows", ir::no_node};
    }
    std::size_t large = 0, sums = 0;
    for (const auto& i : both.body) sums += i.span == span_of::row || i.span == span_of::both;
    if (sums > target_.most_row_sums) throw refusal{"too many sums over the rows", ir::no_node};
    for (const auto& u : both.buffers) large += bytes(u.id) >= 4096;
    if (large > target_.most_arrays && !feeds(a, b) && !feeds(b, a))
      throw refusal{"too many arrays for one kernel", ir::no_node};
  }

  void merge_all() {
    struct pair {
      std::int64_t cost;
      std::size_t a, b;
      auto operator<=>(const pair&) const = default;
    };
    series<pair> pairs;  // that are worth it, the best first
    const auto consider = [&](std::size_t a, std::size_t b) {
      if (const auto s = saving(groups_[a], groups_[b]); s > 0 && worthwhile(a, b, s)) pairs.push_back({-s, a, b});
    };
    refused_.clear();
    link();
    for (std::size_t a = 0; a < groups_.size(); ++a)
      for (std::size_t b = a + 1; b < groups_.size(); ++b) consider(a, b);
    sort_stably(pairs, std::less<>());
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const pair p = pairs[i];
      group &x = groups_[p.a], &y = groups_[p.b];
      const std::pair numbers(x.number, y.number);
      if (refused_.contains(numbers) || path_around(p.a, p.b) || path_around(p.b, p.a)) continue;
      try {
        x = together(x, y);
      } catch (const refusal& no) {
        refused_.emplace(numbers, no.why);
        continue;
      } catch (const split_request&) {
        refused_.emplace(numbers, "the axes have no common refinement");
        continue;
      }
      groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(p.b));
      forget(numbers.first);
      forget(numbers.second);
      relink(p.a, p.b);
      erase_if(pairs, [&](const pair& q) { return q.a == p.a || q.a == p.b || q.b == p.a || q.b == p.b; });
      for (pair& q : pairs) q.a -= q.a > p.b, q.b -= q.b > p.b;
      for (std::size_t c = 0; c < groups_.size(); ++c)
        if (c != p.a) consider(std::min(c, p.a), std::max(c, p.a));
      sort_stably(pairs, std::less<>());
      i = static_cast<std::size_t>(-1);  // from the best one again
    }
  }

  /// A value passes between the groups, or what they share is a good part of what the smaller one moves.
  bool worthwhile(std::size_t a, std::size_t b, std::int64_t saved) const {
    return 4 * saved >= std::min(traffic(a), traffic(b)) || std::count(next_[a].begin(), next_[a].end(), b) ||
           std::count(next_[b].begin(), next_[b].end(), a);
  }

  /// What was refused to a group that has changed since.
  void forget(std::size_t number) {
    series<std::pair<std::size_t, std::size_t>> stale;
    for (const auto& r : refused_)
      if (r.first.first == number || r.first.second == number) stale.push_back(r.first);
    for (const auto& s : stale) refused_.erase(refused_.find(s));
  }

  std::string why_apart(std::size_t a, std::size_t b) const {
    if (const auto r = refused_.find(std::pair(groups_[a].number, groups_[b].number)); r != refused_.end())
      return r->second;
    if (scatters(groups_[a]) || scatters(groups_[b])) return scatters_alone;
    for (const auto x : {between(a, b), between(b, a)})
      if (x != nowhere)
        return "%" + std::to_string(first_target(groups_[x])) + " needs one of them and feeds the other";
    const auto saved = saving(groups_[a], groups_[b]);
    if (saved == 0) return "as one they would move no byte less";
    return "they share " + std::to_string(saved) + " of the " + std::to_string(std::min(traffic(a), traffic(b))) +
           " bytes that the smaller moves, less than a quarter";
  }

  /// Of groups numbered as `placed`, their order.
  series<neighbours> apart(const series<std::size_t>& placed) const {
    series<std::size_t> number(placed.size());
    for (std::size_t i = 0; i < placed.size(); ++i) number[placed[i]] = i;
    series<neighbours> out;
    for (std::size_t a = 0; a < groups_.size(); ++a)
      for (std::size_t b = a + 1; b < groups_.size(); ++b)
        if (touch(groups_[a], groups_[b]))
          out.push_back({std::min(number[a], number[b]), std::max(number[a], number[b]), why_apart(a, b)});
    sort_stably(out, [](const neighbours& x, const neighbours& y) {
      return std::pair(x.first, x.second) < std::pair(y.first, y.second);
    });
    return out;
  }

  std::int64_t traffic(std::size_t x) const {
    std::int64_t total = 0;
    for (const auto& b : groups_[x].code.buffers) total += bytes(b.id);
    return total;
  }

  /// Stores the topmost costly values that several kernels compute; true when there were any.
  bool store_shared() {
    sorted_map<node_id, int> kernels;
    for (const auto& x : groups_) {
      sorted_set<node_id> mine;
      for (const auto& i : x.code.body)
        if (i.kind == kind::compute && i.node != ir::no_node && i.axes) mine.insert(i.node);
      for (auto id : mine) ++kernels[id];
    }
    bool any = false;
    for (auto it = kernels.rbegin(); it != kernels.rend(); ++it) {
      const auto& [id, count] = *it;
      if (count < 2 || memory_.stored[id]) continue;
      sorted_set<node_id> seen;
      if (recomputation(g_, memory_.stored, id, seen) < most_recomputation) continue;
      if (ir::product(g_[id].extents).evaluate(memory_.hints) < 1024) continue;
      store_node(id);
      any = true;
      break;
    }
    return any;
  }

  series<std::size_t> order() {
    link();
    series<std::size_t> waiting(groups_.size()), out;
    for (const auto& n : next_)
      for (auto s : n) ++waiting[s];
    sorted_set<std::pair<node_id, std::size_t>> ready;
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (!waiting[i]) ready.emplace(first_target(groups_[i]), i);
    while (!ready.empty()) {
      const auto i = ready.begin()->second;
      ready.erase(ready.begin());
      out.push_back(i);
      for (auto s : next_[i])
        if (!--waiting[s]) ready.emplace(first_target(groups_[s]), s);
    }
    ensure(out.size() == groups_.size(), "kernels have no circular dependences");
    return out;
  }

  const ir::graph& g_;
  memory_map memory_;
  target target_;
  mutable series<std::int64_t> bytes_;  ///< of each node; -1: nobody asked
  series<node_id> live_;
  series<root> roots_;
  series<group> groups_;
  series<series<std::size_t>> next_;
  sorted_map<std::pair<std::size_t, std::size_t>, std::string> refused_;  ///< why, by the groups' numbers
};

}  // namespace detail

/// Partitions the live graph into kernels. `inputs` gives the inputs' strides and example sizes.
SINTER_API fused fuse(const ir::graph& g, const memory_map& inputs, const target& t = {}) {
  fused out = detail::fusion(g, inputs, t).run();
  logs::to("fusion", [&] {
    std::string text = std::to_string(out.unfused) + " ops in " + std::to_string(out.kernels.size()) + " kernels";
    for (std::size_t k = 0; k < out.kernels.size(); ++k)
      text += "\n  kernel " + std::to_string(k) + ": " + out.kernels[k].label;
    for (const auto& a : out.apart)
      text += "\n  " + std::to_string(a.first) + " | " + std::to_string(a.second) + " apart: " + in_words(g, a.why);
    return text;
  });
  return out;
}

}  // namespace sinter::engine::plan
