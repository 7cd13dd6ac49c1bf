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
    ir::ops::lane_site site{part_, n, s_.g, s_.lanes, wide_, {}};
    bool varies = false;
    for (auto in : n.in) {
      site.operands.push_back({value(s_.g, moved_[in].x.id(), n.where), moved_[in].varies});
      varies = varies || moved_[in].varies;
    }
    if (n.code == ir::op::opaque) {
      results_.emplace(id, push_step(s_, n, std::move(site.operands)));
      return;
    }
    if (varies) check_rank(n.extents, n.where);
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
