// rewrite/parts.hpp: rewrites the graphs in opaque nodes; drops results without picks, and operands that no part reads.
#pragma once

#include <utility>

#include "../base/callback.hpp"
#include "../base/sorted.hpp"
#include "../ir/graph.hpp"

namespace sinter::engine::rewrite {

/// A rewrite of a part.
using part_rule = sinter::detail::callback<ir::graph(ir::graph)>;

namespace detail {

/// A copy of a part without the inputs that are not kept: unread ones, and constants.
inline ir::graph narrowed(const ir::graph& part, const series<char>& keep, const series<const ir::node*>& constants) {
  ir::graph out;
  series<ir::node_id> moved(part.size(), ir::no_node);
  for (std::size_t k = 0; k < keep.size(); ++k) {
    const ir::node& input = part[part.inputs[k]];
    if (keep[k]) moved[part.inputs[k]] = out.add_input(input.type, input.extents, input.where);
    else if (constants[k])
      moved[part.inputs[k]] = out.constant(input.type, constants[k]->attr.literal, input.extents, input.where);
  }
  for (auto id : part.live()) {
    const ir::node& n = part[id];
    if (n.code == ir::op::input) continue;
    series<ir::node_id> in;
    for (auto operand : n.in) in.push_back(moved[operand]);
    moved[id] = out.push(n.code, std::move(in), n.attr, n.where);
  }
  for (auto id : part.outputs) out.outputs.push_back(moved[id]);
  return out;
}

inline series<char> read_inputs(const ir::graph& part) {
  series<char> read(part.size(), 0);
  for (auto id : part.live())
    for (auto operand : part[id].in) read[operand] = 1;
  for (auto id : part.outputs) read[id] = 1;
  series<char> out;
  for (auto id : part.inputs) out.push_back(read[id]);
  return out;
}

/// One opaque node on its way into a new graph.
class narrowing {
 public:
  narrowing(const ir::graph& g, const ir::node& n, const series<ir::node_id>& picks, part_rule rule)
      : step_(*n.attr.step), in_(n.in) {
    for (std::size_t k = 0; k < picks.size(); ++k) place_.push_back(k);
    if (step_.parts.empty()) return;
    const bool fewer = drop_results(picks);
    if (fewer || !step_.is_rewritten)
      for (auto& part : step_.parts) part = rule(std::move(part));
    changed_ = fewer || !step_.is_rewritten;
    step_.is_rewritten = true;
    drop_operands(g);
  }

  bool changed() const { return changed_; }
  ir::opaque take() { return std::move(step_); }
  const series<ir::node_id>& operands() const { return in_; }
  /// The new index of result k.
  std::size_t place(std::size_t k) const { return place_[k]; }

 private:
  /// Drops results without picks: results of branches and calls, and stacks of loops. Other steps may need carried values.
  bool drop_results(const series<ir::node_id>& picks) {
    const bool loop = step_.kind == ir::opaque_kind::loop;
    if (step_.kind == ir::opaque_kind::while_loop) return false;
    const std::size_t first = loop ? step_.carried : 0, end = step_.parts[0].outputs.size();
    std::size_t dropped = 0;
    for (std::size_t k = first; k < picks.size(); ++k) {
      place_[k] = k - dropped;
      if (k >= end || picks[k] != ir::no_node) continue;
      for (auto& part : step_.parts) part.outputs.erase(part.outputs.begin() + (k - dropped));
      ++dropped;
    }
    if (loop) step_.stacked -= dropped;
    return dropped > 0;
  }

  /// Drops inputs of the parts for operands that may go: operand k is input k - before of each part.
  void drop_operands(const ir::graph& g) {
    const bool cond = step_.kind == ir::opaque_kind::cond, loop = step_.kind == ir::opaque_kind::loop;
    const bool call = step_.kind == ir::opaque_kind::call;
    const std::size_t first = cond ? 1 : step_.carried, slices = loop ? first + step_.sliced : first;
    series<char> read(step_.parts[0].inputs.size(), 0);
    for (const auto& part : step_.parts) {
      const auto one = read_inputs(part);
      for (std::size_t k = 0; k < one.size(); ++k) read[k] = read[k] || one[k];
    }
    series<char> keep(read.size(), 1);
    series<const ir::node*> constants(read.size(), nullptr);
    series<ir::node_id> kept(in_.begin(), in_.begin() + first);
    for (std::size_t k = first; k < in_.size(); ++k) {
      const std::size_t input = cond ? k - 1 : loop ? k + 1 : k;
      const ir::node& operand = g[in_[k]];
      const bool constant = k >= slices && operand.code == ir::op::constant;
      if (constant) constants[input] = &operand;
      keep[input] = read[input] && !constant;
      if (keep[input]) kept.push_back(in_[k]);
      else if (loop) --(k < slices ? step_.sliced : step_.constants);
      else if (!cond && !call) --step_.constants;
    }
    if (kept.size() == in_.size()) return;
    changed_ = true;
    in_ = std::move(kept);
    for (auto& part : step_.parts) part = narrowed(part, keep, constants);
    step_.is_rewritten = false;
  }

  ir::opaque step_;
  series<ir::node_id> in_;
  series<std::size_t> place_;
  bool changed_ = false;
};

}  // namespace detail

inline bool has_parts(const ir::graph& g) {
  for (ir::node_id id = 0; id < g.size(); ++id)
    if (g[id].code == ir::op::opaque) return true;
  return false;
}

/// Applies `rule` to the parts of opaque nodes.
inline ir::graph rewrite_parts(const ir::graph& g, part_rule rule) {
  if (!has_parts(g)) return g;
  const auto live = g.live();
  const ir::picks results(g, live);
  ir::graph out;
  series<ir::node_id> moved(g.size(), ir::no_node);
  sorted_map<ir::node_id, series<std::size_t>> places;
  for (auto id : g.inputs) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  for (auto id : live) {
    const ir::node& n = g[id];
    if (n.code == ir::op::input) continue;
    ir::attributes attr = n.attr;
    series<ir::node_id> operands = n.in;
    if (n.code == ir::op::opaque) {
      const auto& picks = results.of(id);
      detail::narrowing narrow(g, n, picks, rule);
      series<std::size_t> place;
      for (std::size_t k = 0; k < picks.size(); ++k) place.push_back(narrow.place(k));
      places.emplace(id, std::move(place));
      operands = narrow.operands();
      if (narrow.changed()) attr.step = ir::seal(narrow.take());
    } else if (n.code == ir::op::pick) {
      attr.ints[0] = static_cast<std::int64_t>(places.at(n.in[0])[static_cast<std::size_t>(attr.ints[0])]);
    }
    series<ir::node_id> in;
    for (auto operand : operands) in.push_back(moved[operand]);
    moved[id] = out.push(n.code, std::move(in), std::move(attr), n.where);
  }
  for (auto id : g.outputs) out.outputs.push_back(moved[id]);
  return out;
}

}  // namespace sinter::engine::rewrite
