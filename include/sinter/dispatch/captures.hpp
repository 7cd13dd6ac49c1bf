// dispatch/captures.hpp: tensors captured by a traced function: whether other handles still hold them, and random keys among
// them.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "../base/callback.hpp"
#include "../base/series.hpp"
#include "../engine/engine.hpp"

namespace sinter::engine::detail {

/// Captured memory with other references at the end of the trace. Once these are gone, a handle captured by reference was
/// reassigned. Tensors made by the function are not watched, and tensors in its closure stay held.
class capture_watch {
 public:
  /// For a trace that has ended.
  SINTER_COLD explicit capture_watch(const tracer& t) {
    const std::size_t first = t.graph.inputs.size() - t.captures.size();
    for (std::size_t i = 0; i < t.captures.size(); ++i) {
      const auto* const b = t.captures[i].memory.get();
      const auto known = [&](const watched& w) { return w.memory == b; };
      if (b && capture_list::others(*b) > 0 && std::none_of(watched_.begin(), watched_.end(), known))
        watched_.push_back({b, t.graph[t.graph.inputs[first + i]].where});
    }
  }

  bool empty() const { return watched_.empty(); }

  /// Called at every hit.
  bool is_stale() const {
    for (const auto& w : watched_)
      if (capture_list::others(*w.memory) == 0) [[unlikely]]
        return true;
    return false;
  }

  /// The line where the function uses the first stale tensor.
  location stale_line() const {
    for (const auto& w : watched_)
      if (capture_list::others(*w.memory) == 0) return w.where;
    return {};
  }

 private:
  struct watched {
    const sinter::detail::block* memory = nullptr;  ///< the specialisation's kernels hold it
    location where;
  };
  series<watched> watched_;
};

/// Null if there is nothing to watch.
inline std::shared_ptr<const capture_watch> watch_captures(const tracer& t) {
  if (t.captures.empty()) return nullptr;
  auto made = make_on_heap<const capture_watch>(t);
  return made->empty() ? nullptr : made;
}

/// The place where g draws random numbers with a key that depends only on captured inputs.
SINTER_COLD inline std::optional<location> captured_key(const ir::graph& g, const series<char>& is_captured) {
  const auto follows = [&](ir::node_id id) {
    const auto passes = [](ir::op code) {
      return code == ir::op::philox || code == ir::op::reshape || code == ir::op::broadcast || code == ir::op::cast;
    };
    while (passes(g[id].code)) id = g[id].in[0];
    const auto at = std::find(g.inputs.begin(), g.inputs.end(), id);
    return at != g.inputs.end() && is_captured[static_cast<std::size_t>(at - g.inputs.begin())];
  };
  for (const auto id : g.live()) {
    const ir::node& n = g[id];
    if (n.code == ir::op::philox && follows(id)) return n.where;
    if (n.code == ir::op::attention) {
      const ir::graph& part = n.attr.step->parts[0];
      series<char> inner(part.inputs.size(), 0);
      for (std::size_t i = 1; i < inner.size(); ++i) inner[i] = follows(n.in[i + 2]);
      if (auto found = captured_key(part, inner)) return found;
    }
    if (n.code != ir::op::opaque) continue;
    const ir::opaque& step = *n.attr.step;
    for (const ir::graph& part : step.parts) {
      // A condition precedes the branches' operands; a loop's body begins with the step's index.
      const std::size_t own = step.kind == ir::opaque_kind::loop, given = step.kind == ir::opaque_kind::cond;
      series<char> inner(part.inputs.size(), 0);
      for (std::size_t i = own; i < inner.size() && i - own + given < n.in.size(); ++i)
        inner[i] = follows(n.in[i - own + given]);
      if (auto found = captured_key(part, inner)) return found;
    }
  }
  return std::nullopt;
}

/// The same for a trace.
SINTER_COLD inline std::optional<location> captured_key(const tracer& t) {
  if (t.captures.empty()) return std::nullopt;
  series<char> is_captured(t.graph.inputs.size(), 0);
  for (std::size_t i = 0; i < t.captures.size(); ++i) is_captured[is_captured.size() - 1 - i] = 1;
  return captured_key(t.graph, is_captured);
}

}  // namespace sinter::engine::detail
