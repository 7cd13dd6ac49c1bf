// batch/batch.hpp: the graph of one lane -> the graph of many lanes, which are axis 0 of values that vary.
#pragma once

#include <string>

#include "../ir/ops/table.hpp"
#include "opaque.hpp"

namespace sinter::engine::batch {

namespace detail {

/// Pushes the graph of one lane on the graph of all lanes.
class part_pusher {
 public:
  part_pusher(const lanes_site& s, const ir::graph& part, const lane_values& inputs)
      : s_(s), part_(part), moved_(part.size()), wide_(part.size()) {
    ensure(inputs.size() == part.inputs.size(), "one operand for each input of a lane");
    for (std::size_t k = 0; k < inputs.size(); ++k) moved_[part.inputs[k]] = inputs[k];
  }

  lane_values run() {
    for (auto id : part_.live())
      if (part_[id].code != ir::op::input) push(id);
    lane_values out;
    for (auto id : part_.outputs) out.push_back(moved_[id]);
    return out;
  }

 private:
  void push(ir::node_id id) {
    const ir::node& n = part_[id];
    if (n.code == ir::op::pick) {
      moved_[id] = results_.at(n.in[0])[static_cast<std::size_t>(n.attr.ints[0])];
      return;
    }
    ir::ops::lane_site site{part_, n, s_.g, s_.lanes, wide_, {}, s_.mesh_axis};
    bool varies = false;
    for (auto in : n.in) {
      site.operands.push_back({value(s_.g, moved_[in].x.id(), n.where), moved_[in].varies});
      varies = varies || moved_[in].varies;
    }
    if (n.code == ir::op::opaque) {
      results_.emplace(id, push_step(s_, n, std::move(site.operands)));
      return;
    }
    if (is_over(n, s_.mesh_axis)) {
      moved_[id] = ir::ops::over_ranks(site);
      return;
    }
    if (varies) check_rank(n.extents, n.where);
    if (varies && ir::ops::is_attention(n.code)) {
      check_rank(part_[n.in[0]].extents, n.where);
      moved_[id] = site.varies(1) && site.varies(2) ? lane_value{attention(site), true} : composed(site);
      return;
    }
    moved_[id] = {varies ? batched(site) : same(site), varies};
  }

  /// A node shared by all lanes.
  value same(const ir::ops::lane_site& s) const {
    if (is_mark(s.n)) return {s_.g, s_.g.mark(s.in(0).id()), s.n.where};
    series<ir::node_id> in;
    for (const auto& o : s.operands) in.push_back(o.x.id());
    return {s_.g, s_.g.push(s.n.code, std::move(in), s.n.attr, s.n.where), s.n.where};
  }
  value batched(const ir::ops::lane_site& s) const {
    if (is_mark(s.n)) return {s_.g, s_.g.mark(s.in(0).id()), s.n.where};
    return ir::is_pointwise(s.n.code) ? s.push(s.n.attr) : ir::ops::record_of(s.n.code).batch(s);
  }
  /// Lanes are a batch axis of q, k and v. What a part captures stays without lanes, unless it gets a cotangent.
  value attention(ir::ops::lane_site& s) const {
    const bool back = s.n.code == ir::op::attention_back;
    const std::size_t captured = s.n.attr.step->parts[0].inputs.size() - 1;
    series<ir::node_id> in;
    for (std::size_t k = 0; k < s.operands.size(); ++k) {
      const bool own = !back && k >= 3 && k < 3 + captured;
      if (!own) s.operands[k] = {s.over(k), true};
      in.push_back(s.in(k).id());
    }
    ir::opaque step;
    step.kind = ir::opaque_kind::part;
    for (const ir::graph& part : s.n.attr.step->parts) step.parts.push_back(part_of_lanes(s, part, captured));
    ir::attributes attr = s.n.attr;
    ++attr.ints[1];
    attr.step = ir::seal(std::move(step));
    return {s_.g, s_.g.push(s.n.code, std::move(in), std::move(attr), s.n.where), s.n.where};
  }
  /// Without lanes of keys and values: lanes are more rows of the composition's products.
  lane_value composed(const ir::ops::lane_site& s) const {
    ir::graph one;
    series<value> in;
    for (auto operand : s.n.in) {
      const ir::node& x = part_[operand];
      in.push_back(value(one, one.add_input(x.type, x.extents, s.n.where), s.n.where));
    }
    one.outputs = {ir::ops::composed_attention(s.n, in).id()};
    return push_part(s_, one, s.operands)[0];
  }
  /// A part of attention: scores and their cotangents have lanes, captured values as their operands do; all results have them.
  ir::graph part_of_lanes(const ir::ops::lane_site& s, const ir::graph& part, std::size_t captured) const {
    ir::graph g;
    lane_values inputs;
    for (std::size_t k = 0; k < part.inputs.size(); ++k) {
      const ir::node& input = part[part.inputs[k]];
      const bool varies = k == 0 || k > captured || s.varies(k + 2);
      const ir::shape extents = varies ? ir::ops::behind(s.lanes, input.extents) : input.extents;
      inputs.push_back({value(g, g.add_input(input.type, extents, input.where), input.where), varies});
    }
    for (const auto& v : push_part({g, s.lanes}, part, inputs))
      g.outputs.push_back((v.varies ? v.x : ir::ops::over_lanes(v.x, s.lanes)).id());
    return g;
  }
  /// Marks of a lane's graph are not marks of the other graph, although their numbers may be equal.
  static bool is_mark(const ir::node& n) { return n.code == ir::op::identity && !n.attr.ints.empty(); }

  const lanes_site& s_;
  const ir::graph& part_;
  lane_values moved_;
  series<value> wide_;                            // (lane_site)
  sorted_map<ir::node_id, lane_values> results_;  // of opaque nodes
};

}  // namespace detail

SINTER_API lane_values push_part(const lanes_site& s, const ir::graph& part, const lane_values& inputs) {
  return detail::part_pusher(s, part, inputs).run();
}

}  // namespace sinter::engine::batch
