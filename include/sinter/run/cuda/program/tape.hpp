// run/cuda/program/tape.hpp: walks over steps that make the nodes of a CUDA graph, or update their operands.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "../../../base/log.hpp"
#include "../../../base/series.hpp"
#include "../../../base/sorted.hpp"
#include "nvrtc.hpp"
#include "order.hpp"
#include "program.hpp"

namespace sinter::engine::run::cuda {

namespace detail {

/// The common data of all walks over one sequence, and over its routines' parts.
struct walk_plan {
  int device = 0;
  bool tuned = false;
  sorted_map<const step*, std::int64_t> workspace;  ///< offset of a library call's scratch memory
  sorted_map<const sequence*, series<series<int>>> waits;
  const char* source = nullptr;  ///< sequence::choose
  step choose;                   ///< the launch of `source`, made on first use
};

/// The results of a walk for later walks, in the order of the walk.
struct recorded_nodes {
  graph_handle made;
  series<api::node> nodes;
  series<std::uint64_t> words;  ///< operands: addresses and values
  series<api::condition> conditions;
  series<storage> tables;  ///< for each walk over steps, its tables in memory, written before the graph is launched
  api::executable code = nullptr;  ///< null during the first walk
  bool may_overlap = true;         ///< if the driver permits it
  std::size_t early = 0;           ///< edges whose later kernel starts early
  bool refused = false;            ///< the driver refuses such edges, so the graph is unusable
};

inline bool does_nothing(const step& s) {
  switch (s.what) {
    case action::launch:
      return s.blocks == 0;
    case action::fill:
      return fills_nothing(s);
    case action::product:
    case action::convolution:
      return library_of(s).is_empty(s);
    case action::call:
      return false;
  }
  return false;
}

/// From now on all steps of this process start only after their predecessors have ended.
inline void refuse_early(api::result r) {
  driver_instance().refuses_early_edges = true;
  logs::to("perf", [&] { return "the driver begins no kernel of a recorded call early: " + coded(r); });
}

}  // namespace detail

/// A walk over steps. The first walk adds nodes to a graph, each after the nodes of the frontier, which it then replaces. A
/// later walk over the same steps changes the nodes whose operands moved. Throws system_error if the driver refuses a node.
class tape {
 public:
  tape(detail::walk_plan& plan, detail::recorded_nodes& to, char* workspace, const long* sizes)
      : plan_(plan),
        to_(to),
        workspace_(workspace),
        sizes_(sizes),
        adds_(to.code == nullptr),
        may_overlap_(to.may_overlap && driver().graph_add_edges != nullptr &&
                     !detail::driver_instance().refuses_early_edges),
        context_(device_at(plan.device).context),
        graph_(to.made.get()) {}

  /// For a later walk: false if a node cannot take its operands, because a library now computes a step in another way, for
  /// example.
  bool fits() const { return !stale_; }
  std::size_t changed() const { return changed_; }

  /// The steps on the given addresses: each waits for the steps on its memory, the first ones for the frontier.
  void steps(const sequence& s, std::span<void* const> given, char* scratch) {
    detail::operand_table table(s, given, scratch, sizes_);
    if (s.table_bytes != 0) send_tables(s, table);
    if (!adds_) {
      for (const step& one : s.steps) add(one, table);
      return;
    }
    const series<series<int>>& waits = plan_.waits.at(&s);
    const tails entry = frontier_;
    series<tails> after;
    series<char> is_last(s.steps.size(), 1);
    for (std::size_t i = 0; i < s.steps.size(); ++i) {
      if (waits[i].empty()) frontier_ = entry;
      else frontier_.clear();
      for (int j : waits[i]) {
        join(after[static_cast<std::size_t>(j)]);
        is_last[static_cast<std::size_t>(j)] = 0;
      }
      add(s.steps[i], table);
      after.push_back(frontier_);
    }
    if (!s.steps.empty()) frontier_.clear();
    for (std::size_t i = 0; i < s.steps.size(); ++i)
      if (is_last[i]) join(after[i]);
  }

  /// f(k) for k < count, without order among them.
  template <class F>
  void side_by_side(std::size_t count, F&& f) {
    if (!adds_) {
      for (std::size_t k = 0; k < count; ++k) f(k);
      return;
    }
    const tails entry = frontier_;
    series<tails> after;
    for (std::size_t k = 0; k < count; ++k) {
      frontier_ = entry;
      f(k);
      after.push_back(std::move(frontier_));
    }
    frontier_ = {};
    for (const tails& one : after) join(one);
    if (count == 0) frontier_ = entry;
  }

  void copy(void* to, const void* from, std::int64_t bytes) {
    if (bytes == 0) return;
    api::copy_node c;
    c.from.at = reinterpret_cast<api::address>(from);
    c.to.at = reinterpret_cast<api::address>(to);
    c.width = static_cast<std::size_t>(bytes);
    note(c.from.at), note(c.to.at);
    next(
        false,
        [&](api::node& made, std::span<const api::node> after) {
          return driver().graph_add_copy(&made, graph_, after.data(), after.size(), &c, context_);
        },
        [&](api::node of) { return driver().graph_set_copy(to_.code, of, &c, context_); });
  }

  /// A launch with these parameters; `words` are the parameters that may change.
  void kernel(const step& s, void** parameters, std::span<void* const> words) {
    for (void* const w : words) note(reinterpret_cast<std::uintptr_t>(w));
    add_kernel(s, parameters);
  }

  /// A condition, to be set by choose().
  api::condition condition() {
    if (!adds_) return to_.conditions[condition_++];
    auto& state = detail::driver_instance();
    if (state.table.condition_create == nullptr || state.table.graph_add_conditional == nullptr)
      state.refuses_conditions = true;
    if (state.refuses_conditions) throw system_error("[cuda] the driver has no conditional nodes");
    to_.conditions.emplace_back();
    learn(
        state.table.condition_create(&to_.conditions.back(), to_.made.get(), context_, 0, api::condition_begins_anew));
    return to_.conditions.back();
  }

  /// Sets `yes` to the bool at `test`, and `no`, if it differs, to the opposite.
  void choose(const void* test, api::condition yes, api::condition no) {
    step& s = plan_.choose;
    if (!s.code) {
      const std::string source = plan_.source;
      s = make_launch(build({&source, 1}, plan_.device)[0].code, "choose", 1, 1, 0, "the choice of a branch");
    }
    void* parameters[] = {&test, &yes, &no};
    note(reinterpret_cast<std::uintptr_t>(test));
    add_kernel(s, parameters);
  }

  /// The nodes that f adds form a body, which runs once if the condition holds (api::conditional_if), or as long as it holds.
  template <class F>
  void body(int kind, api::condition handle, F&& f) {
    if (!adds_) return f();
    api::conditional_node what;
    what.handle = handle;
    what.kind = kind;
    what.in = context_;
    api::node made = nullptr;
    const series<api::node> after = ends(frontier_);
    learn(driver().graph_add_conditional(&made, graph_, after.data(), nullptr, after.size(), &what));
    const api::graph outer = std::exchange(graph_, what.bodies[0]);
    const bool overlapped = std::exchange(may_overlap_, false);
    frontier_ = {};
    f();
    graph_ = outer;
    may_overlap_ = overlapped;
    frontier_ = {};
    frontier_.push_back({made, false});
  }

 private:
  /// A node that others may wait for. With `awaits`, a kernel that also awaits may start before its end. That kernel accesses
  /// no memory until then, and ends after it. So a step that waits for a step's end waits for all its predecessors, over
  /// edges of either kind.
  struct tail {
    api::node of = nullptr;
    bool awaits = false;
    bool operator==(const tail&) const = default;
  };
  using tails = series<tail>;

  void join(const tails& more) {
    for (const tail& t : more)
      if (std::find(frontier_.begin(), frontier_.end(), t) == frontier_.end()) frontier_.push_back(t);
  }
  static series<api::node> ends(const tails& all) {
    series<api::node> out;
    for (const tail& t : all) out.push_back(t.of);
    return out;
  }

  void send_tables(const sequence& s, detail::operand_table& table) {
    if (adds_)
      to_.tables.push_back(
          allocate(static_cast<std::size_t>(s.table_bytes), plan_.device, scratch_of_call, s.steps.back().label));
    const storage& memory = to_.tables[table_++];
    use(memory, true);
    table.put_tables(memory.data());
    detail::send_tables(s, table, current_queue(plan_.device));
  }

  /// Records the driver's result for conditional nodes.
  void learn(api::result r) {
    if (r != api::success) detail::driver_instance().refuses_conditions = true;
    check_request(r, "recording a branch in", label_);
  }

  /// A word of the next node's operands.
  void note(std::uint64_t word) {
    if (adds_) return to_.words.push_back(word);
    moved_ = std::exchange(to_.words[word_++], word) != word || moved_;
  }

  /// add(node, after) makes the node, set(node) updates its operands.
  template <class Add, class Set>
  void next(bool awaits, Add&& add, Set&& set) {
    if (!adds_) {
      const api::node of = to_.nodes[node_++];
      if (!std::exchange(moved_, false) || stale_) return;
      ++changed_;
      stale_ = set(of) != api::success;
      return;
    }
    series<api::node> after, early;
    for (const tail& t : frontier_) (may_overlap_ && awaits && t.awaits ? early : after).push_back(t.of);
    api::node made = nullptr;
    api::result r = add(made, std::span<const api::node>(after.data(), after.size()));
    check_request(r, "recording", label_);
    if (!early.empty()) {
      const series<api::node> to(early.size(), made);
      const series<api::edge> edges(early.size(), api::early_edge);
      r = driver().graph_add_edges(graph_, early.data(), to.data(), edges.data(), early.size());
      if (r != api::success) detail::refuse_early(r), to_.refused = true;
      to_.early += early.size();
    }
    to_.nodes.push_back(made);
    frontier_ = {};
    frontier_.push_back({made, awaits});
  }

  void add_kernel(const step& s, void** parameters) {
    api::kernel_node k;
    k.entry = s.entry;
    k.grid_x = s.blocks;
    k.block_x = s.threads;
    k.shared = s.shared;
    k.parameters = parameters;
    next(
        s.awaits,
        [&](api::node& made, std::span<const api::node> after) {
          return driver().graph_add_kernel(&made, graph_, after.data(), after.size(), &k);
        },
        [&](api::node of) { return driver().graph_set_kernel(to_.code, of, &k); });
  }

  void add(const step& s, detail::operand_table& table) {
    if (detail::does_nothing(s)) return;
    const char* const outer = std::exchange(label_, s.label);
    switch (s.what) {
      case action::launch: {
        note_operands(s, table);
        note(reinterpret_cast<std::uintptr_t>(table.scratch()));
        for (long size : table.sizes()) note(static_cast<std::uint64_t>(size));
        detail::parameter_list parameters(s, table);
        add_kernel(s, parameters.data());
        break;
      }
      case action::fill:
        note_operands(s, table);
        add_fill(s, table);
        break;
      case action::product:
      case action::convolution:
        note_operands(s, table);
        note(reinterpret_cast<std::uintptr_t>(workspace_));
        add_library(s, table);
        break;
      case action::call: {
        sinter::detail::local_list<void*, 128> buffers(s.operands.size());
        for (std::size_t i = 0; i < buffers.size(); ++i)
          buffers[i] = s.operands[i].index < 0 ? nullptr : table[s.operands[i]];
        s.call->record(buffers.data(), table.scratch() + s.scratch, *this);
        break;
      }
    }
    label_ = outer;
  }

  void note_operands(const step& s, detail::operand_table& table) {
    for (const operand& o : s.operands) {
      std::uint64_t word = 0;
      std::memcpy(&word, table.value_of(o), o.bytes != 0 ? static_cast<std::size_t>(o.bytes) : sizeof(void*));
      note(word);
    }
  }

  void add_fill(const step& s, const detail::operand_table& table) {
    api::memset_node f;
    f.to = reinterpret_cast<api::address>(table[s.operands[0]]) + static_cast<api::address>(s.from);
    f.value = s.value;
    f.width = static_cast<std::size_t>(s.bytes);
    f.height = static_cast<std::size_t>(s.rows);
    f.pitch = s.rows == 1 ? 0 : static_cast<std::size_t>(s.pitch);
    next(
        false,
        [&](api::node& made, std::span<const api::node> after) {
          return driver().graph_add_memset(&made, graph_, after.data(), after.size(), &f, context_);
        },
        [&](api::node of) { return driver().graph_set_memset(to_.code, of, &f, context_); });
  }

  void add_library(const step& s, const detail::operand_table& table) {
    const auto child = [&] {
      return detail::captured(plan_.device, [&](queue& q) {
        detail::library_of(s).request(s, table, workspace_ + plan_.workspace.at(&s), plan_.tuned, q);
      });
    };
    next(
        false,
        [&](api::node& made, std::span<const api::node> after) {
          return driver().graph_add_child(&made, graph_, after.data(), after.size(), child().get());
        },
        [&](api::node of) { return driver().graph_set_child(to_.code, of, child().get()); });
  }

  detail::walk_plan& plan_;
  detail::recorded_nodes& to_;
  char* workspace_;
  const long* sizes_;
  bool adds_, may_overlap_;
  api::context context_;
  api::graph graph_;  ///< the body to which nodes are added
  tails frontier_;
  const char* label_ = "";
  std::size_t table_ = 0;
  // For a later walk: its position and findings.
  std::size_t node_ = 0, word_ = 0, condition_ = 0, changed_ = 0;
  bool moved_ = false, stale_ = false;
};

}  // namespace sinter::engine::run::cuda
