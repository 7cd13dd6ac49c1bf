// run/cuda_graph.hpp: a sequence recorded as a CUDA graph; a call updates what changed in it and launches it as one.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "../base/log.hpp"
#include "../base/series.hpp"
#include "../base/sorted.hpp"
#include "cuda_order.hpp"
#include "cuda_program.hpp"
#include "cuda_tune.hpp"

namespace sinter::engine::run::cuda {

inline const storage& scratch_pool::reserve(std::size_t bytes, int index, const char* label) {
  if (memory_.bytes() < bytes || !(memory_.where() == device::cuda(index))) {
    // The old block goes first, to make room: it is reused, or freed, after the work that was asked for on it.
    memory_ = {};
    memory_ = allocate(bytes, index, scratch_of_call, label);
  }
  use(memory_, true);
  return memory_;
}

/// Calls of one sequence, recorded. The first `alone` run step by step, so that everything is loaded; the next one records.
/// Later ones change the nodes whose operands moved, in one of a few copies of the graph: a program whose buffers take
/// turns changes nothing after its first turns. Thread-safe. The sequence must outlive it.
class recording {
 public:
  recording(const sequence& s, std::shared_ptr<scratch_pool> pool, std::uint64_t alone = 1)
      : sequence_(s), pool_(std::move(pool)), alone_(alone) {}
  recording(const recording&) = delete;
  recording& operator=(const recording&) = delete;
  ~recording() { forget(); }

  /// As execute().
  void launch(std::span<void* const> given, const long* sizes) {
    {
      const scratch_pool::claim held(*pool_);
      if (calls_++ >= alone_ && sequence_.steps.size() >= 2 && !detail::synchronous())
        return launch_recorded(given, sizes);
    }
    execute(sequence_, given, sizes);
  }

  /// Nodes that calls had to change, and copies of the graph made: for tests and logs.
  std::size_t changed_nodes() const noexcept { return changed_; }
  std::size_t copies() const noexcept { return variants_.size(); }
  /// Edges of a copy whose later kernel is begun early.
  std::size_t early_edges() const noexcept { return variants_.empty() ? 0 : variants_.back().early; }

 private:
  static constexpr std::size_t most_variants = 4;

  /// The graph, ready to be launched, and the operands that its nodes have.
  struct variant {
    detail::graph_handle made;
    series<api::node> nodes;  ///< per step; null for one that does nothing
    api::executable code = nullptr;
    series<std::uint64_t> key;
    std::uint64_t used = 0;
    std::size_t early = 0;  ///< edges
  };

  /// With the pool claimed.
  void launch_recorded(std::span<void* const> given, const long* sizes) {
    queue& q = current_queue(sequence_.device);
    const context_scope here(*q.where);
    if (variants_.empty()) survey(given);
    const storage& memory =
        pool_->reserve(static_cast<std::size_t>(scratch_end_), sequence_.device, sequence_.steps.back().label);
    auto* const base = static_cast<char*>(memory.data());
    detail::operand_table table(sequence_, given, base, sizes);
    fingerprint(given, base, sizes);
    variant* chosen = find();
    if (chosen == nullptr) chosen = &fitted(table, base);
    chosen->used = calls_;
    check_request(with_room(sequence_.device, [&] { return driver().graph_launch(chosen->code, q.handle); }),
                  "launching a recorded call that ends with", sequence_.steps.back().label);
    detail::remember(labels_);
  }

  /// Learns which operands are values, what products want of scratch memory, and the steps' labels.
  void survey(std::span<void* const> given) {
    value_bytes_.assign(given.size(), 0);
    scratch_end_ = sequence_.scratch_bytes;
    workspace_.clear();
    for (const step& s : sequence_.steps) {
      for (const operand& o : s.operands)
        if (o.bytes != 0) value_bytes_[static_cast<std::size_t>(o.index)] = o.bytes;
      // Of the plan for any alignment, the most that it may want; products may run at once.
      std::size_t most = 0;
      if (s.what == action::product)
        for (int alignment = 1; alignment <= 16; alignment *= 2)
          most = std::max(most, plan_of(s, alignment).choice.workspace);
      const std::int64_t at = (scratch_end_ + 255) / 256 * 256;
      workspace_.push_back(at);
      if (most > 0) scratch_end_ = at + static_cast<std::int64_t>(most);
    }
    std::string labels;
    sorted_set<std::string> seen;
    for (std::size_t i = sequence_.steps.size(); i-- > 0;)
      if (const step& s = sequence_.steps[i]; !does_nothing(s) && seen.insert(s.label).second)
        labels.append(s.label).append("\n");
    labels_ = label(labels);
  }

  /// The operands of this call: addresses and values, then the scratch address, then the sizes.
  void fingerprint(std::span<void* const> given, const char* base, const long* sizes) {
    now_.resize(given.size() + 1 + static_cast<std::size_t>(sequence_.sizes));
    for (std::size_t i = 0; i < given.size(); ++i) {
      now_[i] = 0;
      if (value_bytes_[i] != 0) std::memcpy(&now_[i], given[i], static_cast<std::size_t>(value_bytes_[i]));
      else now_[i] = reinterpret_cast<std::uintptr_t>(given[i]);
    }
    now_[given.size()] = reinterpret_cast<std::uintptr_t>(base);
    for (int i = 0; i < sequence_.sizes; ++i)
      now_[given.size() + 1 + static_cast<std::size_t>(i)] = static_cast<std::uint64_t>(sizes[i]);
  }

  variant* find() {
    for (variant& v : variants_)
      if (v.key == now_) return &v;
    return nullptr;
  }

  /// A copy of the graph that has this call's operands: another one, or the one that was not used for longest, changed.
  variant& fitted(detail::operand_table& table, char* base) {
    if (variants_.size() == most_variants) {
      variant& oldest = *std::min_element(variants_.begin(), variants_.end(),
                                          [](const variant& a, const variant& b) { return a.used < b.used; });
      if (update(oldest, table, base)) return oldest;
      forget();
    }
    // Each is recorded with operands of its own: those of another may be gone, and the driver looks at them.
    variants_.reserve(most_variants);
    variant fresh = record(table, base);
    const auto prepare = [&] {
      return with_room(sequence_.device, [&] { return driver().graph_instantiate(&fresh.code, fresh.made.get(), 0); });
    };
    api::result r = prepare();
    if (fresh.early > 0 && r != api::success && r != api::out_of_memory) {
      refuse_early(r);
      fresh = record(table, base);
      r = prepare();
    }
    check(r, "preparing a recorded call");
    if (variants_.empty())
      logs::to("perf", [&] {
        return "recorded " + std::to_string(sequence_.steps.size()) + " steps, with " + std::to_string(fresh.early) +
               " early starts, the last " + sequence_.steps.back().label;
      });
    variants_.push_back(std::move(fresh));
    return variants_.back();
  }

  /// From now on all of this process' steps begin when those that they wait for have ended.
  static void refuse_early(api::result r) {
    detail::driver_instance().refuses_early_edges = true;
    logs::to("perf", [&] { return "the driver begins no kernel of a recorded call early: " + detail::coded(r); });
  }

  void forget() noexcept {
    if (driver_alive())
      for (variant& v : variants_) detail::driver_instance().table.graph_destroy_executable(v.code);
    variants_.clear();
  }

  static api::kernel_node kernel_of(const step& s, detail::parameter_list& parameters) {
    api::kernel_node k;
    k.entry = s.entry;
    k.grid_x = s.blocks;
    k.block_x = s.threads;
    k.shared = s.shared;
    k.parameters = parameters.data();
    return k;
  }
  static api::memset_node fill_of(const step& s, const detail::operand_table& table) {
    api::memset_node f;
    f.to = reinterpret_cast<api::address>(table[s.operands[0]]);
    f.value = s.value;
    f.width = static_cast<std::size_t>(s.bytes);
    return f;
  }
  product_plan& plan_of(const step& s, int alignment) const {
    return sequence_.tuned && alignment == 16 ? tuned_product(s.product, sequence_.device, s.label)
                                              : plan_product(s.product, alignment, sequence_.device);
  }
  detail::graph_handle product_of(std::size_t index, const detail::operand_table& table, char* base) const {
    const step& s = sequence_.steps[index];
    const detail::product_addresses at =
        detail::offset(s.product, {table[s.operands[0]], table[s.operands[1]], table[s.operands[2]],
                                   s.operands.size() > 3 ? table[s.operands[3]] : nullptr});
    product_plan& p = plan_of(s, detail::common_alignment(s.product, at));
    return detail::captured(sequence_.device,
                            [&](queue& q) { multiply(p, s.product, at, base + workspace_[index], q, s.label); });
  }

  static bool does_nothing(const step& s) {
    switch (s.what) {
      case action::launch:
        return s.blocks == 0;
      case action::fill:
        return s.bytes == 0;
      case action::product:
        return detail::is_empty(s.product);
      case action::call:
        return false;
    }
    return false;
  }

  /// Makes the graph: a step waits for those whose memory it needs, and for nothing else.
  variant record(detail::operand_table& table, char* base) {
    const driver_table& call = driver();
    api::graph made = nullptr;
    check(call.graph_create(&made, 0), "recording a graph");
    variant v;
    v.made = detail::graph_handle(made);
    v.key = now_;
    const auto waits = dependencies(sequence_);
    const bool may_overlap = call.graph_add_edges != nullptr && !detail::driver_instance().refuses_early_edges;
    for (std::size_t i = 0; i < sequence_.steps.size(); ++i) {
      const step& s = sequence_.steps[i];
      // A step that does nothing stands for what it waits for. A kernel that awaits others may be begun before they have ended: it
      // touches no memory until then, and ends after them. So each step ends after all that it depends on, over edges of either
      // kind, and who waits for a step's end waits for theirs: dependencies() leaves out what others imply.
      series<api::node> before, early;
      const auto after = [&](auto&& self, int j) -> void {
        const auto of = static_cast<std::size_t>(j);
        if (const api::node n = v.nodes[of]; n != nullptr) {
          auto& list = may_overlap && s.awaits && sequence_.steps[of].awaits ? early : before;
          if (std::find(list.begin(), list.end(), n) == list.end()) list.push_back(n);
        } else {
          for (int k : waits[of]) self(self, k);
        }
      };
      for (int j : waits[i]) after(after, j);
      api::node node = nullptr;
      api::result r = api::success;
      if (does_nothing(s)) {
      } else if (s.what == action::launch) {
        detail::parameter_list parameters(s, table);
        const api::kernel_node k = kernel_of(s, parameters);
        r = call.graph_add_kernel(&node, made, before.data(), before.size(), &k);
        if (r == api::success && !early.empty()) {
          const series<api::node> to(early.size(), node);
          const series<api::edge> edges(early.size(), api::early_edge);
          r = call.graph_add_edges(made, early.data(), to.data(), edges.data(), early.size());
          if (r != api::success) return refuse_early(r), record(table, base);
          v.early += early.size();
        }
      } else if (s.what == action::fill) {
        const api::memset_node f = fill_of(s, table);
        r = call.graph_add_memset(&node, made, before.data(), before.size(), &f, device_at(sequence_.device).context);
      } else {
        const detail::graph_handle child = product_of(i, table, base);
        r = call.graph_add_child(&node, made, before.data(), before.size(), child.get());
      }
      check_request(r, "recording", s.label);
      v.nodes.push_back(node);
    }
    return v;
  }

  /// True when an operand of the step is not what the variant has.
  bool moved(const variant& v, const step& s) const {
    const std::size_t given = value_bytes_.size();
    // Intermediates and the kernel's own scratch move with the scratch block.
    if (!std::equal(now_.begin() + static_cast<std::ptrdiff_t>(given), now_.end(),
                    v.key.begin() + static_cast<std::ptrdiff_t>(given)))
      return true;
    return std::any_of(s.operands.begin(), s.operands.end(), [&](const operand& o) {
      const auto i = static_cast<std::size_t>(o.index);
      return i < given && v.key[i] != now_[i];
    });
  }

  /// Gives the variant this call's operands; false when it is of no use any more: a library does a product otherwise now, say.
  bool update(variant& v, detail::operand_table& table, char* base) {
    const driver_table& call = driver();
    for (std::size_t i = 0; i < v.nodes.size(); ++i) {
      const step& s = sequence_.steps[i];
      if (v.nodes[i] == nullptr || !moved(v, s)) continue;
      ++changed_;
      api::result r = api::success;
      if (s.what == action::launch) {
        detail::parameter_list parameters(s, table);
        const api::kernel_node k = kernel_of(s, parameters);
        r = call.graph_set_kernel(v.code, v.nodes[i], &k);
      } else if (s.what == action::fill) {
        const api::memset_node f = fill_of(s, table);
        r = call.graph_set_memset(v.code, v.nodes[i], &f, device_at(sequence_.device).context);
      } else {
        const detail::graph_handle child = product_of(i, table, base);
        r = call.graph_set_child(v.code, v.nodes[i], child.get());
      }
      if (r != api::success) return false;
    }
    v.key = now_;
    return true;
  }

  const sequence& sequence_;
  std::shared_ptr<scratch_pool> pool_;
  std::uint64_t alone_, calls_ = 0;
  series<int> value_bytes_;         ///< per given operand: bytes of a value, 0 for an address
  series<std::int64_t> workspace_;  ///< per step: offset of a product's own scratch memory
  std::int64_t scratch_end_ = 0;
  const char* labels_ = "";  ///< what remember() is told of a call
  series<std::uint64_t> now_;
  series<variant> variants_;
  std::size_t changed_ = 0;
};

}  // namespace sinter::engine::run::cuda
