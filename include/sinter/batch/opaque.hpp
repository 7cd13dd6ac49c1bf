// batch/opaque.hpp: branches, loops and custom ops of lanes, as opaque nodes of all lanes.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "../base/dims.hpp"
#include "../ir/ops/collectives.hpp"
#include "../ir/ops/lanes.hpp"
#include "flow.hpp"

namespace sinter::engine::batch {

using ir::lane_value;
using ir::value;
using lane_values = series<lane_value>;

/// The graph of all lanes under construction.
struct lanes_site {
  ir::graph& g;
  ir::dim lanes;
  /// The lanes whose results count: those whose branch is taken, and that have not left a loop. Empty for all. Only a
  /// while_loop uses it, because other lanes might not end.
  value active = {};
  /// The axis of a mesh whose ranks are the lanes: collectives over it become ops on the lanes.
  std::int64_t mesh_axis = -1;
};

/// Refuses extents of one lane that leave no axis for the lanes.
inline void check_rank(const ir::shape& extents, location where) {
  if (extents.size() >= static_cast<std::size_t>(max_rank))
    fail("vmap",
         "the mapped function has a value of rank " + std::to_string(extents.size()) + ", " + ir::text_of(extents) +
             ", and its lanes are one more axis; the highest rank is " + std::to_string(max_rank) +
             ": reshape it to fewer axes",
         where);
}

/// Pushes `part` on its inputs, and returns its outputs. (batch.hpp)
SINTER_API lane_values push_part(const lanes_site& s, const ir::graph& part, const lane_values& inputs);

namespace detail {

inline value over(const lanes_site& s, const lane_value& v) {
  return v.varies ? v.x : ir::ops::over_lanes(v.x, s.lanes);
}
inline lane_value varying_if(const lanes_site& s, bool varies, const lane_value& v) {
  return varies ? lane_value{over(s, v), true} : v;
}

/// One bool for each lane, with x's extents.
inline value as_large(const value& each, const value& x) {
  ir::shape narrow(x.extents().size(), 1);
  narrow[0] = each.extents()[0];
  return broadcast(reshape(each, std::move(narrow)), x.extents());
}

/// x with its first two axes exchanged.
inline value turned(const value& x) { return permute(x, ir::ops::moved_axes(x.rank(), 1, 2, 0)); }

inline value any_of(const value& each) { return reduce(each, ir::op::bit_or, {0}); }

/// An opaque node of one lane, and its operands for all lanes.
struct lane_step {
  const lanes_site& around;
  const ir::node& n;
  const ir::opaque& step;
  lane_values operands;
  series<char> results;  ///< the results that vary

  lane_step(const lanes_site& s, const ir::node& node, lane_values in)
      : around(s), n(node), step(*node.attr.step), operands(std::move(in)) {
    series<char> varies;
    for (const auto& o : operands) varies.push_back(o.varies);
    results = flow(step, varies, s.mesh_axis);
  }
  bool varies() const {
    return std::any_of(operands.begin(), operands.end(), [](const lane_value& o) { return o.varies; });
  }
  /// Whether a part has an op on the lanes themselves, which are ranks.
  bool uses_lanes() const {
    return std::any_of(step.parts.begin(), step.parts.end(),
                       [&](const ir::graph& part) { return uses_axis(part, around.mesh_axis); });
  }
  /// The node shared by all lanes.
  lane_values push_same() const {
    series<ir::node_id> in;
    for (const auto& o : operands) in.push_back(o.x.id());
    lane_values out;
    for (auto id : ir::push_opaque(around.g, n.attr.step, std::move(in), n.where))
      out.push_back({value(around.g, id, n.where), false});
    return out;
  }
  /// Pushes the node for all lanes, and returns its results.
  lane_values push(ir::opaque made, series<ir::node_id> in) const {
    lane_values out;
    const auto pushed = ir::push_opaque(around.g, ir::seal(std::move(made)), std::move(in), n.where);
    for (std::size_t k = 0; k < pushed.size(); ++k)
      out.push_back({value(around.g, pushed[k], n.where), k < results.size() && results[k]});
    return out;
  }
};

/// A part for all lanes: inputs are added as operands are named.
class part_of_lanes {
 public:
  part_of_lanes(const lane_step& s, series<ir::node_id>& in)
      : s_(s), in_(in), site_{g_, s.around.lanes, {}, s.around.mesh_axis} {}

  lane_value input(const lane_value& v) { return {add(v.x, v.x.extents()), v.varies}; }
  /// A sliced operand, with its steps as axis 0.
  lane_value slice(const lane_value& v) {
    const value steps = v.varies ? turned(v.x) : v.x;
    return {add(steps, ir::shape(steps.extents().begin() + 1, steps.extents().end())), v.varies};
  }
  /// The step's index.
  lane_value index() { return {value(g_, g_.add_input(dtype::i64, {}, s_.n.where), s_.n.where), false}; }
  /// An operand that selects the lanes whose results count, if there is one. After all other operands.
  void take_active() {
    if (s_.around.active) site_.active = input({s_.around.active, true}).x;
  }
  void set_active(const value& active) { site_.active = active; }

  const lanes_site& site() const { return site_; }
  lane_values compute(const ir::graph& part, const lane_values& inputs) { return push_part(site_, part, inputs); }
  void give(const value& v) { g_.outputs.push_back(v.id()); }
  ir::graph take() { return std::move(g_); }

 private:
  value add(const value& operand, ir::shape extents) {
    in_.push_back(operand.id());
    return {g_, g_.add_input(operand.type(), std::move(extents), s_.n.where), s_.n.where};
  }

  const lane_step& s_;
  series<ir::node_id>& in_;
  ir::graph g_;
  lanes_site site_;
};

/// Refuses a branch or a loop whose ranks take different ways although its parts communicate: they would wait for ever.
inline void refuse_waiting(const lane_step& s) {
  for (const auto& part : s.step.parts)
    if (communicates(part, s.around.mesh_axis))
      fail(ir::name(s.step),
           "ranks of " + ir::mesh_axis_name(s.around.mesh_axis) +
               " take different ways here, and communicate on one of them; they would wait for ever: make the "
               "predicate equal with all_reduce, or communicate outside",
           s.n.where);
}

/// Both branches, and for each lane the results of the branch that it takes.
inline lane_values both_branches(const lane_step& s) {
  const value& predicate = s.operands[0].x;
  const lane_values inputs(s.operands.begin() + 1, s.operands.end());
  const auto branch = [&](std::size_t k) {
    const value taken = k == 0 ? predicate : bit_not(predicate);
    const value& active = s.around.active;
    const value running = active ? bit_and(active, taken) : taken;
    return push_part({s.around.g, s.around.lanes, running, s.around.mesh_axis}, s.step.parts[k], inputs);
  };
  const lane_values yes = branch(0), no = branch(1);
  lane_values out;
  for (std::size_t k = 0; k < yes.size(); ++k) {
    const value a = over(s.around, yes[k]), b = over(s.around, no[k]);
    out.push_back({select(as_large(predicate, a), a, b), true});
  }
  return out;
}

inline lane_values push_cond(const lane_step& s) {
  if (s.operands[0].varies) {
    refuse_waiting(s);
    return both_branches(s);
  }
  ir::opaque made;
  series<ir::node_id> in;
  for (const auto& part : s.step.parts) {
    in = {s.operands[0].x.id()};
    part_of_lanes b(s, in);
    lane_values inputs;
    for (std::size_t k = 1; k < s.operands.size(); ++k) inputs.push_back(b.input(s.operands[k]));
    b.take_active();
    const auto outputs = b.compute(part, inputs);
    for (std::size_t k = 0; k < outputs.size(); ++k) b.give(varying_if(b.site(), s.results[k], outputs[k]).x);
    made.parts.push_back(b.take());
  }
  return s.push(std::move(made), std::move(in));
}

inline lane_values push_loop(const lane_step& s) {
  ir::opaque made;
  made.kind = s.step.kind;
  made.length = s.step.length;
  made.reverse = s.step.reverse;
  made.carried = s.step.carried;
  made.sliced = s.step.sliced;
  made.stacked = s.step.stacked;
  const std::size_t first_constant = made.carried + made.sliced;
  series<ir::node_id> in;
  part_of_lanes b(s, in);
  lane_values inputs{b.index()};
  for (std::size_t k = 0; k < made.carried; ++k)
    inputs.push_back(b.input(varying_if(s.around, s.results[k], s.operands[k])));
  for (std::size_t k = made.carried; k < first_constant; ++k) inputs.push_back(b.slice(s.operands[k]));
  for (std::size_t k = first_constant; k < s.operands.size(); ++k) inputs.push_back(b.input(s.operands[k]));
  b.take_active();
  made.constants = in.size() - first_constant;
  const auto outputs = b.compute(s.step.parts[0], inputs);
  for (std::size_t k = 0; k < outputs.size(); ++k) b.give(varying_if(b.site(), s.results[k], outputs[k]).x);
  made.parts.push_back(b.take());
  lane_values out = s.push(std::move(made), std::move(in));
  for (std::size_t k = s.step.carried; k < out.size(); ++k)
    if (out[k].varies) out[k].x = turned(out[k].x);
  return out;
}

/// A while_loop of all lanes, which runs as long as one lane continues. If the test is shared by all lanes, it stays as it
/// is. Otherwise a bool for each lane is carried after the carried values, and the values of an ended lane stay.
class while_of_lanes {
 public:
  explicit while_of_lanes(const lane_step& s) : s_(s) {
    series<char> inputs = s.results;
    for (std::size_t k = s.step.carried; k < s.operands.size(); ++k) inputs.push_back(s.operands[k].varies);
    each_ends_ = outputs_of(s.step.parts[0], inputs, s.around.mesh_axis)[0];
    if (each_ends_) refuse_waiting(s);
    for (std::size_t k = 0; k < s.operands.size(); ++k)
      start_.push_back(k < s.step.carried ? varying_if(s.around, s.results[k], s.operands[k]) : s.operands[k]);
    if (each_ends_) going_ = go_on(s.around, start_);
  }

  lane_values run() {
    ir::opaque made;
    made.kind = s_.step.kind;
    made.carried = s_.step.carried + (each_ends_ ? 1 : 0);
    made.parts.push_back(test());
    made.parts.push_back(body());
    made.constants = in_.size() - made.carried;
    lane_values out = s_.push(std::move(made), std::move(in_));
    out.resize(s_.step.carried);
    return out;
  }

 private:
  /// The inputs of a part, in the order of operands: the carried values, the lanes that continue, constants.
  lane_values enter(part_of_lanes& b, value& going) {
    in_ = {};
    lane_values inputs;
    for (std::size_t k = 0; k < s_.step.carried; ++k) inputs.push_back(b.input(start_[k]));
    if (each_ends_) going = b.input({going_, true}).x;
    for (std::size_t k = s_.step.carried; k < start_.size(); ++k) inputs.push_back(b.input(start_[k]));
    if (each_ends_) b.set_active(going);
    else b.take_active();
    return inputs;
  }
  /// The lanes that continue with these values, among those that count.
  value go_on(const lanes_site& s, const lane_values& values) const {
    const value going = over(s, push_part(s, s_.step.parts[0], values)[0]);
    return s.active ? bit_and(s.active, going) : going;
  }

  ir::graph test() {
    part_of_lanes b(s_, in_);
    value going;
    const lane_values inputs = enter(b, going);
    if (each_ends_) {
      b.give(any_of(going));
    } else {
      const value more = b.compute(s_.step.parts[0], inputs)[0].x;
      b.give(b.site().active ? bit_and(more, any_of(b.site().active)) : more);
    }
    return b.take();
  }
  ir::graph body() {
    part_of_lanes b(s_, in_);
    value going;
    lane_values inputs = enter(b, going);
    const lane_values next = b.compute(s_.step.parts[1], inputs);
    for (std::size_t k = 0; k < next.size(); ++k) {
      lane_value to = varying_if(b.site(), s_.results[k], next[k]);
      if (each_ends_ && to.varies) to.x = select(as_large(going, to.x), to.x, inputs[k].x);
      b.give(to.x);
      inputs[k] = to;
    }
    if (each_ends_) b.give(go_on(b.site(), inputs));
    return b.take();
  }

  const lane_step& s_;
  bool each_ends_ = false;
  lane_values start_;
  value going_;  ///< the lanes that take a first step
  series<ir::node_id> in_;
};

/// Applies the user's rule; without one, loops over the lanes.
inline lane_values push_custom(const lane_step& s) {
  if (s.step.function->batch) {
    series<ir::node_id> all;
    series<char> varies;
    for (const auto& o : s.operands) all.push_back(o.x.id()), varies.push_back(o.varies);
    lane_values out;
    for (auto id : ir::splice(s.around.g, s.step.function->batch({varies.data(), varies.size()}, s.around.lanes), all))
      out.push_back({value(s.around.g, id, s.n.where), true});
    return out;
  }
  ir::opaque made;
  made.kind = ir::opaque_kind::loop;
  made.length = s.around.lanes;
  series<ir::node_id> in, place(s.operands.size());
  ir::graph g;
  g.add_input(dtype::i64, {}, s.n.where);
  for (bool sliced : {true, false})
    for (std::size_t k = 0; k < s.operands.size(); ++k) {
      const lane_value& o = s.operands[k];
      if (o.varies != sliced) continue;
      const ir::shape& e = o.x.extents();
      in.push_back(o.x.id());
      place[k] = g.add_input(o.x.type(), sliced ? ir::shape(e.begin() + 1, e.end()) : e, s.n.where);
      ++(sliced ? made.sliced : made.constants);
    }
  g.outputs = ir::push_opaque(g, s.n.attr.step, std::move(place), s.n.where);
  made.stacked = g.outputs.size();
  made.parts.push_back(std::move(g));
  return s.push(std::move(made), std::move(in));
}

/// A rule of one lane as a rule of all lanes. The inputs of `lane` are operands, results, then the moving values; `varies`
/// tells which of them vary.
struct lane_rule {
  std::shared_ptr<const ir::foreign> of;
  series<char> operands;
  std::size_t results = 0;
  std::size_t own = 0;  ///< number of operands that the rule concerns
  bool active = false;  ///< the lanes that count follow the operands
  bool some = false;    ///< some operand varies, and so do results and moving values
  ir::dim lanes;
  location where;

  lane_values compute(ir::graph& g, const ir::graph& lane, const series<char>& varies) const {
    lane_values inputs;
    value computed;
    for (std::size_t k = 0; k < lane.inputs.size(); ++k) {
      if (active && k == operands.size()) computed = value(g, g.add_input(dtype::b8, {lanes}, where), where);
      const ir::node& n = lane[lane.inputs[k]];
      ir::shape extents = n.extents;
      if (varies[k]) extents.insert(extents.begin(), lanes);
      inputs.push_back({value(g, g.add_input(n.type, std::move(extents), where), where), varies[k] != 0});
    }
    return push_part({g, lanes, computed}, lane, inputs);
  }
  /// A value shared by lanes receives the sum of their cotangents.
  ir::graph pull() const {
    const ir::graph lane = of->pull();
    series<char> varies = operands;
    varies.resize(lane.inputs.size(), some);
    ir::graph g;
    const lane_values pulled = compute(g, lane, varies);
    for (std::size_t k = 0, next = 0; k < own; ++k) {
      if (!is_float(lane[lane.inputs[k]].type)) continue;
      const lane_value& v = pulled[next++];
      const value each = varying_if({g, lanes}, some, v).x;
      g.outputs.push_back((some && !operands[k] ? reduce(each, ir::op::add, {0}) : each).id());
    }
    return g;
  }
  ir::graph push() const {
    const ir::graph lane = of->push();
    series<char> varies = operands;
    varies.resize(operands.size() + results, some);
    for (std::size_t k = 0; k < own; ++k)
      if (is_float(lane[lane.inputs[k]].type)) varies.push_back(operands[k]);
    ir::graph g;
    for (const lane_value& v : compute(g, lane, varies)) g.outputs.push_back(varying_if({g, lanes}, some, v).x.id());
    return g;
  }
};

inline std::shared_ptr<const ir::foreign> rules_of_lanes(const lane_step& s) {
  lane_rule rule{s.step.function,
                 {},
                 s.step.results.size(),
                 s.n.in.size() - s.step.constants,
                 static_cast<bool>(s.around.active),
                 s.varies(),
                 s.around.lanes,
                 s.n.where};
  for (const auto& o : s.operands) rule.operands.push_back(o.varies);
  const auto out = std::make_shared<ir::foreign>();
  out->name = rule.of->name;
  out->identity = ir::new_identity();
  if (rule.of->pull) out->pull = [rule] { return rule.pull(); };
  if (rule.of->push) out->push = [rule] { return rule.push(); };
  return out;
}

/// A call whose part and rules are for all lanes.
inline lane_values push_call(const lane_step& s) {
  ir::opaque made;
  made.kind = s.step.kind;
  made.again = s.step.again;
  made.stays = s.step.stays;
  series<ir::node_id> in;
  part_of_lanes b(s, in);
  lane_values inputs;
  for (const auto& o : s.operands) inputs.push_back(b.input(o));
  b.take_active();
  made.constants = s.step.constants + (in.size() - inputs.size());
  if (s.step.function) made.function = rules_of_lanes(s);
  const auto outputs = b.compute(s.step.parts[0], inputs);
  for (std::size_t k = 0; k < outputs.size(); ++k) b.give(varying_if(b.site(), s.results[k], outputs[k]).x);
  made.parts.push_back(b.take());
  return s.push(std::move(made), std::move(in));
}

[[noreturn]] inline void refuse_effect(const ir::node& n) {
  const ir::opaque& step = *n.attr.step;
  const std::string what = step.function ? "\"" + step.function->name + "\"" : std::string(ir::name(step));
  fail("vmap",
       what +
           " calls a function of the host, which has no batch rule; call it outside of vmap, with what the mapped "
           "function returns",
       n.where);
}

}  // namespace detail

/// The results of an opaque node for all lanes.
inline lane_values push_step(const lanes_site& s, const ir::node& n, lane_values operands) {
  if (n.attr.step->has_effect) detail::refuse_effect(n);
  const detail::lane_step step(s, n, std::move(operands));
  const bool custom = step.step.kind == ir::opaque_kind::custom;
  if ((custom || !s.active) && !step.varies() && !step.uses_lanes()) return step.push_same();
  for (std::size_t k = 0; k < step.results.size(); ++k)
    if (step.results[k]) check_rank(step.step.results[k].extents, n.where);
  switch (step.step.kind) {
    case ir::opaque_kind::cond:
      return detail::push_cond(step);
    case ir::opaque_kind::loop:
      return detail::push_loop(step);
    case ir::opaque_kind::while_loop:
      return detail::while_of_lanes(step).run();
    case ir::opaque_kind::call:
      return detail::push_call(step);
    case ir::opaque_kind::custom:
    case ir::opaque_kind::host_call:
    case ir::opaque_kind::part:
      break;
  }
  return detail::push_custom(step);
}

}  // namespace sinter::engine::batch
