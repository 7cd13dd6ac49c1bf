// run/cuda/program/graph.hpp: a sequence recorded as a CUDA graph; a call updates the changed nodes and launches it as one.
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
    // The old block is released first, to make room; it is reused or freed after its requested work.
    memory_ = {};
    memory_ = allocate(bytes, index, scratch_of_call, label);
  }
  use(memory_, true);
  return memory_;
}

/// Recorded calls of one sequence. The first `alone` calls run step by step, so that everything is loaded; the next call
/// records. Later calls change the nodes whose operands moved, in one of a few copies of the graph. So a program whose
/// buffers alternate changes nothing after its first turns. Sequences that graphs cannot hold, or that the driver refuses
/// within branches and loops, always run step by step. So do traced calls, which measure each step. Steps apart are requested
/// between graphs of the steps around them, so each rank of a mesh records for itself. Thread-safe. The sequence must outlive it.
class recording {
 public:
  recording(const sequence& s, std::shared_ptr<scratch_pool> pool, std::uint64_t alone = 1)
      : sequence_(s), pool_(std::move(pool)), alone_(alone), pieces_(pieces_of(s)) {
    std::int64_t nodes = 0;
    for (const piece& p : pieces_) {
      const bool passed = p.is_alone && p.steps->steps[0].call->is_brief();
      if (!passed) nodes = sum_of_nodes(nodes, 1, nodes_of(*p.steps));
    }
    is_recorded_ = nodes >= 2 && nodes <= max_nodes;
    if (nodes > max_nodes)
      logs::to("perf", [&] {
        return std::string("runs step by step, the last ") + s.steps.back().label + ": more than " +
               std::to_string(max_nodes) + " steps, or a function of the host among them";
      });
    has_calls_ = std::any_of(pieces_.begin(), pieces_.end(), [](const piece& p) {
      const auto calls = [](const step& x) { return x.what == action::call; };
      return !p.is_alone && std::any_of(p.steps->steps.begin(), p.steps->steps.end(), calls);
    });
  }
  recording(const recording&) = delete;
  recording& operator=(const recording&) = delete;
  ~recording() { forget(); }

  /// Does the same as execute().
  void launch(std::span<void* const> given, const long* sizes) {
    {
      const scratch_pool::claim held(*pool_);
      if (calls_++ >= alone_ && is_recorded_ && !detail::synchronous() && !is_traced() && launch_recorded(given, sizes))
        return;
    }
    execute(sequence_, given, sizes);
  }

  /// Nodes that calls had to change, and copies of the graph that were made: for tests and logs.
  std::size_t changed_nodes() const noexcept { return changed_; }
  std::size_t copies() const noexcept { return variants_.size(); }
  /// The edges of a copy whose later kernel starts early.
  std::size_t early_edges() const noexcept { return variants_.empty() ? 0 : variants_.back().early(); }

 private:
  static constexpr std::size_t max_variants = 4;

  /// A graph of each piece that is ready to launch, and the present operands of its nodes.
  struct variant {
    series<detail::recorded_nodes> graphs;
    series<std::uint64_t> key;
    std::uint64_t used = 0;
    std::size_t nodes() const noexcept {
      std::size_t n = 0;
      for (const auto& g : graphs) n += g.nodes.size();
      return n;
    }
    std::size_t early() const noexcept {
      std::size_t n = 0;
      for (const auto& g : graphs) n += g.early;
      return n;
    }
  };

  /// The pool is claimed. False if the call cannot be recorded.
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
    for (const auto& g : chosen->graphs)
      for (const storage& tables : g.tables) use(tables, false);
    chosen->used = calls_;
    request(*chosen, given, base, sizes, q);
    detail::remember(labels_);
    return true;
  }

  /// Launches the graphs in q's order, with the steps apart between them. Later work of q waits for all.
  void request(const variant& v, std::span<void* const> given, char* base, const long* sizes, queue& q) const {
    const auto launch = [&](const detail::recorded_nodes& g) {
      check_request(with_room(sequence_.device, [&] { return driver().graph_launch(g.code, q.handle); }),
                    "launching a recorded call that ends with", sequence_.steps.back().label);
    };
    if (sequence_.apart.empty()) return launch(v.graphs[0]);
    queue& beside = exchange_queue(sequence_.device);
    detail::operand_table table(sequence_, given, base, sizes);
    detail::step_events events(sequence_.device);
    detail::apart_joiner whole{q, beside};
    series<api::event> ends;
    const auto hold = [](queue& waiter, api::event e) {
      check(driver().stream_wait(waiter.handle, e, 0), "waiting for an event");
    };
    for (std::size_t k = 0; k < pieces_.size(); ++k) {
      const piece& p = pieces_[k];
      if (p.waits > 0) hold(q, ends[p.waits - 1]);
      if (p.is_alone) detail::enqueue(p.steps->steps[0], table, false, q, driver());
      else if (!v.graphs[k].nodes.empty()) launch(v.graphs[k]);
      if (p.requests > 0) hold(beside, events.marked(q));
      for (std::size_t n = 0; n < p.requests; ++n) {
        const apart_step& next = sequence_.apart[ends.size()];
        detail::enqueue(sequence_.steps[static_cast<std::size_t>(next.step)], table, false, beside, driver());
        ends.push_back(events.marked(beside));
      }
    }
    hold(q, ends.back());
    whole.complete = true;
  }

  /// Determines which operands are values, the scratch memory of libraries, and the steps' labels.
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
    for (std::size_t k = pieces_.size(); k-- > 0;)
      if (!pieces_[k].is_alone) survey(*pieces_[k].steps, labels, seen);
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
      if (s.what != action::product && s.what != action::convolution) continue;
      // Calls of libraries may run at once.
      const std::size_t most = detail::library_of(s).workspace(s, plan_.tuned, plan_.device);
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

  /// A copy of the graph with this call's operands: another copy, or the least recently used one, changed. Null if the driver
  /// refuses it.
  variant* fitted(std::span<void* const> given, char* base, const long* sizes) {
    bool changing = false;
    try {
      if (variants_.size() == max_variants) {
        changing = true;
        variant& oldest = *std::min_element(variants_.begin(), variants_.end(),
                                            [](const variant& a, const variant& b) { return a.used < b.used; });
        if (changed(oldest, given, base, sizes)) return &oldest;
        forget();
        changing = false;
      }
      // Each copy is recorded with its own operands: another copy's may be freed, and the driver accesses them.
      variants_.reserve(max_variants);
      variants_.push_back(record(given, base, sizes));
    } catch (const system_error& problem) {
      if (changing || has_calls_) forget();  // it may have only some of its operands
      if (!has_calls_ || is_lost()) throw;
      is_recorded_ = false;
      logs::to("perf", [&] {
        return std::string("runs step by step, the last ") + sequence_.steps.back().label + ": " + problem.what();
      });
      return nullptr;
    }
    if (variants_.size() == 1)
      logs::to("perf", [&] {
        const std::size_t graphs = pieces_.size();
        return "recorded " + std::to_string(variants_[0].nodes()) + " steps" +
               (graphs > 1 ? " in " + std::to_string(graphs) + " pieces" : "") + ", with " +
               std::to_string(variants_[0].early()) + " early starts, the last " + sequence_.steps.back().label;
      });
    return &variants_.back();
  }

  variant record(std::span<void* const> given, char* base, const long* sizes) {
    variant v;
    v.key = now_;
    try {
      for (const piece& p : pieces_)
        v.graphs.push_back(p.is_alone ? detail::recorded_nodes() : recorded(*p.steps, given, base, sizes));
    } catch (...) {
      release(v);
      throw;
    }
    return v;
  }
  detail::recorded_nodes recorded(const sequence& s, std::span<void* const> given, char* base, const long* sizes) {
    for (api::result refused = api::success;;) {
      detail::recorded_nodes g;
      g.may_overlap = refused == api::success;
      api::graph made = nullptr;
      check(driver().graph_create(&made, 0), "recording a graph");
      g.made = detail::graph_handle(made);
      tape(plan_, g, base, sizes).steps(s, given, base);
      if (g.refused) continue;
      const api::result r =
          with_room(sequence_.device, [&] { return driver().graph_instantiate(&g.code, g.made.get(), 0); });
      // The driver may accept the graph with full edges.
      if (g.early > 0 && r != api::success && r != api::out_of_memory) {
        refused = r;
        continue;
      }
      check(r, "preparing a recorded call");
      if (refused != api::success) detail::refuse_early(refused);
      return g;
    }
  }

  /// Gives the nodes of a variant this call's operands; false if it is no longer usable.
  bool changed(variant& v, std::span<void* const> given, char* base, const long* sizes) {
    bool fits = true;
    for (std::size_t k = 0; k < pieces_.size(); ++k) {
      if (pieces_[k].is_alone) continue;
      tape t(plan_, v.graphs[k], base, sizes);
      t.steps(*pieces_[k].steps, given, base);
      changed_ += t.changed();
      fits = fits && t.fits();
    }
    v.key = now_;
    return fits;
  }

  static void release(const variant& v) noexcept {
    if (!driver_alive()) return;
    for (const auto& g : v.graphs)
      if (g.code != nullptr) detail::driver_instance().table.graph_destroy_executable(g.code);
  }
  void forget() noexcept {
    for (const variant& v : variants_) release(v);
    variants_.clear();
  }

  const sequence& sequence_;
  std::shared_ptr<scratch_pool> pool_;
  std::uint64_t alone_, calls_ = 0;
  series<piece> pieces_;
  bool is_recorded_, has_calls_;
  series<int> value_bytes_;  ///< for each given operand: bytes of a value, 0 for an address
  detail::walk_plan plan_;
  std::int64_t scratch_end_ = 0;
  const char* labels_ = "";  ///< the labels of a call for remember()
  series<std::uint64_t> now_;
  series<variant> variants_;
  std::size_t changed_ = 0;
};

}  // namespace sinter::engine::run::cuda
