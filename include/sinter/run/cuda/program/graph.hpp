// run/cuda/program/graph.hpp: a sequence recorded as a CUDA graph; a call updates what changed in it and launches it as one.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "../../../base/log.hpp"
#include "../../../base/series.hpp"
#include "../../../base/sorted.hpp"
#include "tape.hpp"

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
/// turns changes nothing after its first turns. What no graph can hold, or the driver does not take within branches and loops,
/// runs step by step for good. Traced calls run step by step, so that each step's time is seen. Thread-safe. The sequence must outlive it.
class recording {
 public:
  recording(const sequence& s, std::shared_ptr<scratch_pool> pool, std::uint64_t alone = 1)
      : sequence_(s), pool_(std::move(pool)), alone_(alone) {
    const std::int64_t nodes = nodes_of(s);
    is_recorded_ = nodes >= 2 && nodes <= most_nodes;
    if (nodes > most_nodes)
      logs::to("perf", [&] {
        return std::string("runs step by step, the last ") + s.steps.back().label + ": more than " +
               std::to_string(most_nodes) + " steps, or a function of the host among them";
      });
    has_calls_ = std::any_of(s.steps.begin(), s.steps.end(), [](const step& x) { return x.what == action::call; });
  }
  recording(const recording&) = delete;
  recording& operator=(const recording&) = delete;
  ~recording() { forget(); }

  /// As execute().
  void launch(std::span<void* const> given, const long* sizes) {
    {
      const scratch_pool::claim held(*pool_);
      if (calls_++ >= alone_ && is_recorded_ && !detail::synchronous() && !is_traced() && launch_recorded(given, sizes))
        return;
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
  struct variant : detail::recorded_nodes {
    series<std::uint64_t> key;
    std::uint64_t used = 0;
  };

  /// With the pool claimed. False when the call cannot be recorded.
  bool launch_recorded(std::span<void* const> given, const long* sizes) {
    queue& q = current_queue(sequence_.device);
    const context_scope here(*q.where);
    if (variants_.empty()) survey(given);
    const storage& memory =
        pool_->reserve(static_cast<std::size_t>(scratch_end_), sequence_.device, sequence_.steps.back().label);
    auto* const base = static_cast<char*>(memory.data());
    fingerprint(given, base, sizes);
    variant* chosen = find();
    if (chosen == nullptr) chosen = fitted(given, base, sizes);
    if (chosen == nullptr) return false;
    for (const storage& tables : chosen->tables) use(tables, false);
    chosen->used = calls_;
    check_request(with_room(sequence_.device, [&] { return driver().graph_launch(chosen->code, q.handle); }),
                  "launching a recorded call that ends with", sequence_.steps.back().label);
    detail::remember(labels_);
    return true;
  }

  /// Learns which operands are values, what products want of scratch memory, and the steps' labels.
  void survey(std::span<void* const> given) {
    value_bytes_.assign(given.size(), 0);
    for (const step& s : sequence_.steps)
      for (const operand& o : s.operands)
        if (o.bytes != 0) value_bytes_[static_cast<std::size_t>(o.index)] = o.bytes;
    detail::walk_plan fresh;
    fresh.choose = std::move(plan_.choose);
    plan_ = std::move(fresh);
    plan_.device = sequence_.device;
    plan_.tuned = sequence_.tuned;
    plan_.source = sequence_.choose;
    scratch_end_ = sequence_.scratch_bytes;
    std::string labels;
    sorted_set<std::string> seen;
    survey(sequence_, labels, seen);
    labels_ = label(labels);
  }
  void survey(const sequence& of, std::string& labels, sorted_set<std::string>& seen) {
    plan_.waits.emplace(&of, dependencies(of));
    for (std::size_t i = of.steps.size(); i-- > 0;) {
      const step& s = of.steps[i];
      if (detail::does_nothing(s)) continue;
      if (seen.insert(s.label).second) labels.append(s.label).append("\n");
      if (s.what == action::call)
        for (const sequence& part : s.call->parts()) survey(part, labels, seen);
      if (s.what != action::product) continue;
      // Of the plan for any alignment, the most that it may want; products may run at once.
      std::size_t most = 0;
      for (int alignment = 1; alignment <= 16; alignment *= 2)
        most = std::max(most, plan_.product(s, alignment).choice.workspace);
      const std::int64_t at = (scratch_end_ + 255) / 256 * 256;
      plan_.workspace.emplace(&s, at);
      if (most > 0) scratch_end_ = at + static_cast<std::int64_t>(most);
    }
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

  /// A copy of the graph that has this call's operands: another one, or the one that was not used for longest, changed. Null when
  /// the driver does not take it.
  variant* fitted(std::span<void* const> given, char* base, const long* sizes) {
    bool changing = false;
    try {
      if (variants_.size() == most_variants) {
        changing = true;
        variant& oldest = *std::min_element(variants_.begin(), variants_.end(),
                                            [](const variant& a, const variant& b) { return a.used < b.used; });
        if (walk(oldest, given, base, sizes)) return &oldest;
        forget();
        changing = false;
      }
      // Each is recorded with operands of its own: those of another may be gone, and the driver looks at them.
      variants_.reserve(most_variants);
      variants_.push_back(record(given, base, sizes));
    } catch (const system_error& problem) {
      if (changing || has_calls_) forget();  // it may have some of its operands only
      if (!has_calls_ || is_lost()) throw;
      is_recorded_ = false;
      logs::to("perf", [&] {
        return std::string("runs step by step, the last ") + sequence_.steps.back().label + ": " + problem.what();
      });
      return nullptr;
    }
    if (variants_.size() == 1)
      logs::to("perf", [&] {
        return "recorded " + std::to_string(variants_[0].nodes.size()) + " steps, with " +
               std::to_string(variants_[0].early) + " early starts, the last " + sequence_.steps.back().label;
      });
    return &variants_.back();
  }

  variant record(std::span<void* const> given, char* base, const long* sizes) {
    for (api::result refused = api::success;;) {
      variant v;
      v.may_overlap = refused == api::success;
      api::graph made = nullptr;
      check(driver().graph_create(&made, 0), "recording a graph");
      v.made = detail::graph_handle(made);
      walk(v, given, base, sizes);
      if (v.refused) continue;
      const api::result r =
          with_room(sequence_.device, [&] { return driver().graph_instantiate(&v.code, v.made.get(), 0); });
      // With full edges it may take the graph.
      if (v.early > 0 && r != api::success && r != api::out_of_memory) {
        refused = r;
        continue;
      }
      check(r, "preparing a recorded call");
      if (refused != api::success) detail::refuse_early(refused);
      return v;
    }
  }

  /// Makes the variant's nodes, or gives them this call's operands; false when it is of no use any more.
  bool walk(variant& v, std::span<void* const> given, char* base, const long* sizes) {
    tape t(plan_, v, base, sizes);
    t.steps(sequence_, given, base);
    changed_ += t.changed();
    v.key = now_;
    return t.fits();
  }

  void forget() noexcept {
    if (driver_alive())
      for (variant& v : variants_) detail::driver_instance().table.graph_destroy_executable(v.code);
    variants_.clear();
  }

  const sequence& sequence_;
  std::shared_ptr<scratch_pool> pool_;
  std::uint64_t alone_, calls_ = 0;
  bool is_recorded_, has_calls_;
  series<int> value_bytes_;  ///< per given operand: bytes of a value, 0 for an address
  detail::walk_plan plan_;
  std::int64_t scratch_end_ = 0;
  const char* labels_ = "";  ///< what remember() is told of a call
  series<std::uint64_t> now_;
  series<variant> variants_;
  std::size_t changed_ = 0;
};

}  // namespace sinter::engine::run::cuda
