// plan/fusion/fuse.hpp: graph -> kernels: chooses the stored values, and those that share a kernel.
#pragma once

#include <string>

#include "../../base/log.hpp"
#include "../lowering/opaque.hpp"
#include "direct_results.hpp"
#include "finish.hpp"
#include "in_place.hpp"
#include "less_memory.hpp"
#include "padded_rows.hpp"
#include "recomputed.hpp"
#include "store.hpp"

namespace sinter::engine::plan {

/// The kernels of a graph, in an order that respects their dependences; buffer ids are node ids.
struct fused {
  series<kernel> kernels;
  std::size_t unfused = 0;      ///< kernels if every op had its own
  std::size_t lowered = 0;      ///< sets of roots that were lowered
  std::size_t joined = 0;       ///< pairs of structures that were lowered as one
  std::size_t tried = 0;        ///< pairs of groups that were tried
  std::size_t considered = 0;   ///< pairs of groups that access an array in common
  std::size_t looked = 0;       ///< nodes and kernels that the in-place analysis of scatters visited
  series<series<dim>> strides;  ///< for each node that kernels write; empty: row-major
  series<std::size_t> alike;    ///< for each kernel, the first that is equal except for its nodes
  series<neighbours> apart;     ///< with `reasons`: every pair of kernels that access an array in common
};

/// A concatenation of more operands is always in memory.
inline constexpr std::size_t max_joined = 4;

namespace detail {

class fusion {
 public:
  fusion(const ir::graph& g, const memory_map& inputs, const target& t)
      : g_(g),
        memory_(inputs),
        target_(t),
        cost_(g, memory_, target_),
        lowered_(g, memory_, target_, roots_),
        recomputed_(g, memory_, target_) {}

  fused run(bool reasons) {
    choose_roots();
    std::size_t tried = 0, considered = 0;
    for (;;) {
      merging groups(g_, memory_, target_, roots_, cost_, lowered_, groups_of_roots());
      if (target_.fuses) groups.run();
      tried += groups.tried;
      considered += groups.considered;
      const auto shared = shared_values(g_, live_, memory_, roots_, groups, cost_);
      if (shared.empty()) return finished(groups, tried, considered, reasons);
      store_from_below(shared, [&](const shared_value& x) { return cost_.pays_to_store(x, x.kernels); });
      bound_roots();
    }
  }

 private:
  void choose_roots() {
    live_ = g_.live();
    memory_.stored.assign(g_.size(), 0);
    memory_.strides.resize(g_.size());
    pad_rows(g_, live_, target_, memory_);
    for (auto id : g_.inputs) memory_.stored[id] = 1;
    for (auto id : live_)
      if (lowering_of(g_[id].code).stored || joins_many(id)) store_node(id);
    for (auto id : live_) {
      if (g_[id].code == ir::op::pick) memory_.stored[id] = 1;
      if (g_[id].code != ir::op::opaque) continue;
      for (auto operand : g_[id].in)
        if (const node_id x = memory_behind(g_, operand); !memory_.stored[x] && g_[x].code != ir::op::pick)
          store_node(x);
    }
    for (auto id : g_.outputs)
      if (!memory_.stored[id]) store_node(id);
    for (auto id : live_)
      if (g_[id].code == ir::op::dot || ir::ops::is_attention(g_[id].code))
        for (std::size_t k = 0; k < g_[id].in.size(); ++k) store_operand_of(id, k);
    store_from_below(distant_values(g_, live_, memory_, cost_), [&](node_id id) { return cost_.reads_several(id); });
    for (auto id : repeated_values(g_, live_, memory_, cost_)) store_node(id);
    if (target_.lockstep > 1)
      for (auto id : shared_numbers(g_, live_, memory_, cost_)) store_node(id);
    read_from_base reads(g_, memory_, live_);
    for (auto id : live_)
      for (auto from_base : reads.of(id))
        if (!memory_.stored[from_base]) store_node(from_base);
    looked_ = reads.looked;
    if (!target_.fuses) store_each_op();
    bound_roots();
  }

  /// Stores all but views, and values that kernels make without reading.
  void store_each_op() {
    for (auto id : live_) {
      const ir::op code = g_[id].code;
      if (memory_.stored[id] || ir::is_view(code) || g_[id].in.empty() || code == ir::op::opaque) continue;
      store_node(id);
    }
  }

  /// Whether a read would search among too many operands.
  bool joins_many(node_id id) const { return lowering_of(g_[id].code).parts && g_[id].in.size() > max_joined; }

  void store_node(node_id id) {
    memory_.stored[id] = 1;
    append_roots(g_, id, roots_);
  }

  /// Stores values that are given topmost first, the lowest first and if it still pays: a value that few operations compute from a
  /// stored one need not be stored beside it.
  template <class All, class Pays>
  void store_from_below(const All& topmost_first, Pays&& pays) {
    for (std::size_t n = topmost_first.size(); n-- > 0;)
      if (pays(topmost_first[n])) store_node(topmost_first[n]);
  }

  /// Stores values that new roots would compute too often, before lowering becomes slow.
  void bound_roots() {
    for (; bounded_ < roots_.size(); ++bounded_)
      for (;;) {
        const node_id id = recomputed_.find(roots_[bounded_]);
        if (id == ir::no_node) break;
        store_node(id);
      }
  }

  /// Attention takes captured numbers as literals. Its factors are in memory whole: heads that share keys are repeated there, so that
  /// the kernel is that of attention_choice.
  void store_operand_of(node_id id, std::size_t k) {
    const node_id operand = g_[id].in[k];
    if (ir::ops::is_attention(g_[id].code)) {
      if (k > 2 && g_[operand].code == ir::op::constant) return;
      bool repeats = false;
      for (node_id x = operand; !memory_.stored[x] && ir::is_view(g_[x].code); x = g_[x].in[0])
        repeats = repeats || g_[x].code == ir::op::broadcast;
      if (repeats && (k < 3 || k + 1 == g_[id].in.size()) && !memory_.stored[operand]) return store_node(operand);
    }
    store_operand(operand);
  }
  /// Stores a product's operand, unless it is a view of memory.
  void store_operand(node_id id) {
    const auto is_read_through = [&] { return id < memory_.read_through.size() && memory_.read_through[id]; };
    while (!memory_.stored[id] && (ir::is_view(g_[id].code) || is_read_through())) id = g_[id].in[0];
    if (!memory_.stored[id]) store_node(id);
  }

  /// The roots of the group that root r begins: results of one attention are one kernel. Empty for those behind the first.
  series<std::uint32_t> roots_with(std::uint32_t r) const {
    const root& first = roots_[r];
    if (first.value == ir::no_node || first.value != first.target || !ir::ops::is_attention(g_[first.value].code))
      return {r};
    series<std::uint32_t> out;
    for (std::uint32_t other = 0; other < roots_.size(); ++other) {
      const root& x = roots_[other];
      if (x.value != x.target || x.value == ir::no_node || !ops::share_a_kernel(g_[first.value], g_[x.value])) continue;
      if (other < r) return {};
      out.push_back(other);
    }
    sort_stably(out, [&](std::uint32_t a, std::uint32_t b) { return roots_[a].target < roots_[b].target; });
    return out;
  }

  /// One group for each root. Values that a root needs in memory are stored first, because they decide the other roots' reads.
  series<group> groups_of_roots() {
    series<group> out;
    for (std::size_t before = 0; before != roots_.size();) {
      before = roots_.size();
      out.reserve(before);
      for (std::uint32_t r = 0; r < roots_.size(); ++r)
        for (;;) {
          if (out.size() <= r) out.resize(r + 1);
          const auto which = roots_with(r);
          if (which.empty()) break;  // another root's group has it
          lowered_roots& made = out[r].made;
          made = lowered_.of({which.data(), which.size()});
          if (!made.what->failed) break;
          const node_id needs =
              made.what->needs_memory == ir::no_node ? ir::no_node : made.own(made.what->needs_memory);
          ensure(needs != ir::no_node && needs != roots_[r].target && !memory_.stored[needs],
                 made.what->refused.c_str());
          store_node(needs);
          bound_roots();
        }
    }
    for (std::uint32_t r = 0; r < roots_.size(); ++r) out[r].roots = roots_with(r);
    erase_if(out, [](const group& x) { return x.roots.empty(); });
    const ir::picks picks(g_, live_);
    for (auto id : live_)
      if (g_[id].code == ir::op::opaque) {
        group x;
        x.step = opaque_step(g_, picks.of(id), id, memory_);
        x.first_target = id;
        out.push_back(std::move(x));
      }
    for (auto& x : out) merging::complete(x, roots_, cost_);
    return out;
  }

  static series<group_id> picked(const series<group_id>& all, const series<std::size_t>& which) {
    series<group_id> out;
    for (const std::size_t k : which) out.push_back(all[k]);
    return out;
  }

  fused finished(merging& groups, std::size_t tried, std::size_t considered, bool reasons) {
    fused out;
    out.unfused = count_ops(g_, live_);
    out.lowered = lowered_.count();
    out.joined = lowered_.joined_count();
    out.tried = tried;
    out.considered = considered;
    auto placed = in_less_memory(g_, groups, cost_);
    series<kernel> in_turn;
    for (auto a : placed) {
      const group& x = groups[a];
      in_turn.push_back(x.step.is_opaque() ? x.step : lowered_.code_of(x.made));
    }
    const auto order = with_late_copies(g_, in_turn, looked_);
    for (auto& at : order) out.kernels.push_back(std::move(in_turn[at]));
    placed = picked(placed, order);
    placed = picked(placed, without_copies(g_, out.kernels, looked_));
    series<char> changed;
    placed = picked(placed, with_direct_results(g_, out.kernels, target_, changed));
    out.looked = looked_;
    for (auto& k : out.kernels) {
      k.symbols = static_cast<int>(memory_.hints.size());
      if (!k.is_opaque()) k.label = label_of(k);
    }
    if (reasons) {
      for (std::size_t b = 1; b < placed.size(); ++b)
        for (std::size_t a = 0; a < b; ++a)
          if (groups.related(placed[a], placed[b]).touch)
            out.apart.push_back({a, b, groups.why_apart(placed[a], placed[b])});
      sort_stably(out.apart, [](const neighbours& x, const neighbours& y) {
        return std::pair(x.first, x.second) < std::pair(y.first, y.second);
      });
    }
    drop_unread(out.kernels, g_);
    series<const void*> structures;
    for (std::size_t k = 0; k < placed.size(); ++k)
      structures.push_back(changed[k] ? nullptr : groups[placed[k]].made.what.get());
    out.alike = first_alike(out.kernels, structures);
    out.strides = std::move(memory_.strides);
    for (auto id : g_.inputs) out.strides[id].clear();
    return out;
  }

  const ir::graph& g_;
  memory_map memory_;
  target target_;
  series<node_id> live_;
  series<root> roots_;
  costs cost_;
  lowering_memo lowered_;
  recomputed recomputed_;
  std::size_t bounded_ = 0;  ///< roots that compute nothing too often
  std::size_t looked_ = 0;
};

}  // namespace detail

/// Partitions the live graph into kernels. `inputs` gives the inputs' strides and example sizes. With `reasons`, it gives the
/// reasons why pairs are separate, in time that grows with their number.
SINTER_API fused fuse(const ir::graph& g, const memory_map& inputs, const target& t = {}, bool reasons = false) {
  fused out = detail::fusion(g, inputs, t).run(reasons);
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
