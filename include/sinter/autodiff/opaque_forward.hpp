// autodiff/opaque_forward.hpp: tangents of branches and loops, again as opaque nodes.
#pragma once

#include "vjp.hpp"

namespace sinter::engine::autodiff {

inline values push_cond(const detail::opaque_site& s, const values& tangents, push_rule push_forward) {
  ir::opaque made;
  series<ir::node_id> in;
  for (const auto& part : s.step.parts) {
    ir::graph g;
    in = {s.n.in[0]};
    const detail::part_builder b{g, in};
    series<ir::node_id> inputs, wrt;
    values moved;
    for (std::size_t k = 1; k < s.n.in.size(); ++k) inputs.push_back(b.input(s.at(s.n.in[k])));
    for (std::size_t k = 1; k < s.n.in.size(); ++k)
      if (tangents[k]) {
        wrt.push_back(inputs[k - 1]);
        moved.push_back(value(g, b.input(tangents[k]), s.n.where));
      }
    const auto outputs = ir::splice(g, part, inputs);
    const values pushed = push_forward(g, outputs, wrt, moved);
    for (std::size_t k = 0; k < outputs.size(); ++k)
      if (is_float(g[outputs[k]].type)) g.outputs.push_back(detail::or_zeros(g, pushed[k], outputs[k]).id());
    made.parts.push_back(std::move(g));
  }
  return detail::spread(s.push(std::move(made), std::move(in)), detail::floating_results(s.step));
}

namespace detail {

/// A loop that carries tangents beside the moving carried values; a while_loop's test receives only the values.
class widened_loop {
 public:
  widened_loop(const opaque_site& s, const values& tangents) : s_(s), tangents_(tangents) {
    made_.kind = s.step.kind;
    made_.length = s.step.length;
    made_.reverse = s.step.reverse;
    series<char> moves;
    for (const auto& t : tangents) moves.push_back(static_cast<bool>(t));
    const auto changes = following_results(s.step, moves, smooth_from);
    for (std::size_t k = 0; k < s.step.carried; ++k)
      if (changes[k]) changing_.push_back(k);
  }

  values run(push_rule push_forward) {
    for (std::size_t p = 0; p < s_.step.parts.size(); ++p) add_part(s_.step.parts[p], !loop_ && p == 0, push_forward);
    return results();
  }

 private:
  /// A part's inputs in the new part, and the moving inputs.
  struct part_inputs {
    series<ir::node_id> all, wrt;
    values moved;
  };

  /// Carried values, slices and constants, each followed by their tangents.
  part_inputs add_inputs(ir::graph& g, const ir::graph& part) {
    const part_builder b{g, in_};
    const std::size_t shift = loop_ ? 1 : 0, carried = s_.step.carried, first_constant = carried + s_.step.sliced;
    part_inputs to;
    to.all.resize(part.inputs.size());
    const auto follow = [&](std::size_t k, ir::node_id tangent) {
      to.wrt.push_back(to.all[k + shift]);
      to.moved.push_back(value(g, tangent, s_.n.where));
    };
    if (loop_) to.all[0] = g.add_input(dtype::i64, {}, s_.n.where);
    for (std::size_t k = 0; k < carried; ++k) to.all[k + shift] = b.input(s_.at(s_.n.in[k]));
    for (auto k : changing_) follow(k, b.input(tangents_[k] ? tangents_[k] : s_.zeros(s_.g[s_.n.in[k]])));
    made_.carried = in_.size();
    for (std::size_t k = carried; k < first_constant; ++k) to.all[k + shift] = b.slice(s_.at(s_.n.in[k]));
    for (std::size_t k = carried; k < first_constant; ++k)
      if (tangents_[k]) follow(k, b.slice(tangents_[k]));
    made_.sliced = in_.size() - made_.carried;
    for (std::size_t k = first_constant; k < s_.n.in.size(); ++k) to.all[k + shift] = b.input(s_.at(s_.n.in[k]));
    for (std::size_t k = first_constant; k < s_.n.in.size(); ++k)
      if (tangents_[k]) follow(k, b.input(tangents_[k]));
    made_.constants = in_.size() - made_.carried - made_.sliced;
    return to;
  }

  void add_part(const ir::graph& part, bool tests, push_rule push_forward) {
    ir::graph g;
    in_ = {};
    const part_inputs inputs = add_inputs(g, part);
    const auto outputs = ir::splice(g, part, inputs.all);
    if (tests) {
      g.outputs = outputs;
    } else {
      const std::size_t carried = s_.step.carried;
      const values pushed = push_forward(g, outputs, inputs.wrt, inputs.moved);
      const auto tangent = [&](std::size_t k) { return or_zeros(g, pushed[k], outputs[k]).id(); };
      g.outputs.assign(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(carried));
      for (auto k : changing_) g.outputs.push_back(tangent(k));
      for (std::size_t k = carried; k < outputs.size(); ++k)
        if (is_float(g[outputs[k]].type)) g.outputs.push_back(tangent(k));
    }
    made_.stacked = tests ? 0 : g.outputs.size() - made_.carried;
    made_.parts.push_back(std::move(g));
  }

  /// The loop, and the tangents among its results.
  values results() {
    const std::size_t carried = s_.step.carried, stacked = s_.step.stacked;
    const std::size_t all = made_.carried, stacks = made_.stacked;
    if (!loop_) made_.stacked = 0;
    const values made = s_.push(std::move(made_), std::move(in_));
    values out(s_.step.results.size());
    std::size_t next = all;
    for (std::size_t j = 0; j < changing_.size(); ++j) {
      out[changing_[j]] = made[carried + j];
      if (loop_) out[carried + stacked + changing_[j]] = made[all + stacks + carried + j];
    }
    for (std::size_t k = carried; k < carried + stacked; ++k)
      if (is_float(s_.step.results[k].type)) out[k] = made[next++];
    return out;
  }

  const opaque_site& s_;
  const values& tangents_;
  const bool loop_ = s_.step.kind == ir::opaque_kind::loop;
  ir::opaque made_;
  series<ir::node_id> in_;
  series<std::size_t> changing_;
};

}  // namespace detail

inline values push_loop(const detail::opaque_site& s, const values& tangents, push_rule push_forward) {
  return detail::widened_loop(s, tangents).run(push_forward);
}

/// The tangents of the results by the rule of a user's function, or by its rule for cotangents.
inline values push_ruled(const detail::opaque_site& s, const values& tangents) {
  const ir::foreign& f = *s.step.function;
  series<char> moves;
  for (const auto& t : tangents) moves.push_back(static_cast<bool>(t));
  if (detail::has_captures(s, moves)) detail::fail_captured(s);
  if (!f.pull && !f.push) detail::fail_without_rule(s);
  series<ir::node_id> in = detail::rule_operands(s);
  for (std::size_t k = 0; k < detail::own_operands(s); ++k) {
    const ir::node& x = s.g[s.n.in[k]];
    if (is_float(x.type)) in.push_back(tangents[k] ? tangents[k].id() : s.zeros(x).id());
  }
  const auto pushed = ir::splice(s.g, f.push ? f.push() : detail::push_of_pull(s, pull_back), in);
  values out(s.step.results.size());
  for (std::size_t k = 0, next = 0; k < out.size(); ++k)
    if (is_float(s.step.results[k].type)) out[k] = s.at(pushed[next++]);
  return out;
}

/// A call that gives the tangents; a backward pass through it recomputes the values that it needs.
inline values push_recomputed(const detail::opaque_site& s, const values& tangents, push_rule push_forward) {
  ir::graph g;
  series<ir::node_id> in, inputs, wrt;
  const detail::part_builder b{g, in};
  values moved;
  for (auto id : s.n.in) inputs.push_back(b.input(s.at(id)));
  for (std::size_t k = 0; k < s.n.in.size(); ++k)
    if (tangents[k]) {
      wrt.push_back(inputs[k]);
      moved.push_back(value(g, b.input(tangents[k]), s.n.where));
    }
  const auto outputs = ir::splice(g, s.step.parts[0], inputs);
  const values pushed = push_forward(g, {outputs.data(), outputs.size()}, {wrt.data(), wrt.size()}, moved);
  for (std::size_t k = 0; k < outputs.size(); ++k)
    if (is_float(g[outputs[k]].type)) g.outputs.push_back(detail::or_zeros(g, pushed[k], outputs[k]).id());
  ir::opaque made;
  made.kind = ir::opaque_kind::call;
  made.again = s.step.again;
  made.stays = s.step.stays;
  made.parts.push_back(std::move(g));
  return detail::spread(s.push(std::move(made), std::move(in)), detail::floating_results(s.step));
}

/// The tangents of an opaque node's results for tangents of its operands.
inline values push_opaque(ir::graph& g, ir::node_id id, const values& tangents, push_rule push_forward) {
  const detail::opaque_site s(g, id);
  switch (s.step.kind) {
    case ir::opaque_kind::cond:
      return push_cond(s, tangents, push_forward);
    case ir::opaque_kind::loop:
    case ir::opaque_kind::while_loop:
      return push_loop(s, tangents, push_forward);
    case ir::opaque_kind::call:
      if (!s.step.function) return push_recomputed(s, tangents, push_forward);
      return push_ruled(s, tangents);
    default:
      return push_ruled(s, tangents);
  }
}

}  // namespace sinter::engine::autodiff
