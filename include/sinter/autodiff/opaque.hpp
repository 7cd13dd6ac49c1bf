// autodiff/opaque.hpp: derivatives of branches, loops and custom ops, again as opaque nodes.
#pragma once

#include <span>

#include "call.hpp"

namespace sinter::engine::autodiff {

inline values pull_cond(const detail::opaque_site& s, const values& cts, const series<char>& active,
                        pull_rule pull_back) {
  ir::opaque made;
  series<ir::node_id> in;
  for (const auto& part : s.step.parts) {
    ir::graph g;
    in = {s.n.in[0]};
    detail::pull_part(s, part, 1, cts, active, pull_back, {g, in});
    made.parts.push_back(std::move(g));
  }
  return detail::spread(s.push(std::move(made), std::move(in)), active);  // without a derivative by the predicate
}

namespace detail {

/// A loop's steps in reverse order, from the carried values before each step. It carries the cotangents of carried values
/// that change with the active operands, and sums the cotangents of the constants.
class reversed_loop {
 public:
  reversed_loop(const opaque_site& s, const values& cts, const series<char>& active)
      : s_(s), cts_(cts), active_(active), first_constant_(s.step.carried + s.step.sliced) {
    made_.kind = ir::opaque_kind::loop;
    made_.length = s.step.length;
    made_.reverse = !s.step.reverse;
  }

  values run(pull_rule pull_back) {
    add_carried();
    add_slices();
    add_constants();
    add_outputs(pull_back);
    return results();
  }

 private:
  std::size_t operands() const { return s_.n.in.size(); }

  /// Carried: cotangents of the body's carried values and of constants.
  void add_carried() {
    inputs_.resize(s_.step.parts[0].inputs.size());
    inputs_[0] = g_.add_input(dtype::i64, {}, s_.n.where);
    const auto start = [&](std::size_t k, const value& ct) { return b_.input(ct ? ct : s_.zeros(s_.g[s_.n.in[k]])); };
    const auto changes = following_results(s_.step, active_, smooth_from);
    for (std::size_t k = 0; k < s_.step.carried; ++k)
      if (changes[k]) {
        changing_.push_back(k);
        carry_ct_.push_back(start(k, cts_[k]));
      }
    for (std::size_t k = first_constant_; k < operands(); ++k)
      if (active_[k]) constant_ct_.push_back(start(k, {}));
    made_.carried = in_.size();
  }

  /// Slices: the body's slices, the carried values, and cotangents of the stacks.
  void add_slices() {
    const std::size_t carried = s_.step.carried, stacked = s_.step.stacked;
    for (std::size_t k = carried; k < first_constant_; ++k) inputs_[k + 1] = b_.slice(s_.at(s_.n.in[k]));
    for (std::size_t k = 0; k < carried; ++k) inputs_[k + 1] = b_.slice(s_.result(carried + stacked + k));
    const auto slices_of = [&](values& into, std::size_t count, std::size_t first) {
      into.resize(count);
      for (std::size_t k = 0; k < count; ++k)
        if (const value& ct = cts_[first + k]) into[k] = value(g_, b_.slice(ct), s_.n.where);
    };
    slices_of(stack_ct_, stacked, carried);
    slices_of(history_ct_, carried, carried + stacked);
    made_.sliced = in_.size() - made_.carried;
  }

  void add_constants() {
    for (std::size_t k = first_constant_; k < operands(); ++k) inputs_[k + 1] = b_.input(s_.at(s_.n.in[k]));
    made_.constants = in_.size() - made_.carried - made_.sliced;
  }

  /// The cotangents of a step's inputs `wrt`: the body's carried values, then its active slices and constants.
  values pull_step(pull_rule pull_back, series<ir::node_id>& wrt) {
    const auto outputs = ir::splice(g_, s_.step.parts[0], inputs_);
    series<ir::node_id> ys;
    values seeds;
    for (std::size_t j = 0; j < changing_.size(); ++j) {
      ys.push_back(outputs[changing_[j]]);
      seeds.push_back(value(g_, carry_ct_[j], s_.n.where));
      wrt.push_back(inputs_[changing_[j] + 1]);
    }
    for (std::size_t k = 0; k < stack_ct_.size(); ++k)
      if (stack_ct_[k]) {
        ys.push_back(outputs[s_.step.carried + k]);
        seeds.push_back(stack_ct_[k]);
      }
    for (std::size_t k = s_.step.carried; k < operands(); ++k)
      if (active_[k]) wrt.push_back(inputs_[k + 1]);
    return pull_back(g_, ys, seeds, wrt, s_.n.where);
  }

  /// Carried values first, including sums of the constants' cotangents; then the stacks.
  void add_outputs(pull_rule pull_back) {
    series<ir::node_id> wrt, slices;
    const values pulled = pull_step(pull_back, wrt);
    std::size_t next = 0;
    for (std::size_t j = 0; j < changing_.size(); ++j, ++next) {
      value ct = or_zeros(g_, pulled[next], wrt[next]);
      if (history_ct_[changing_[j]]) ct = ct + history_ct_[changing_[j]];
      g_.outputs.push_back(ct.id());
    }
    for (std::size_t k = s_.step.carried; k < first_constant_; ++k)
      if (active_[k]) {
        slices.push_back(or_zeros(g_, pulled[next], wrt[next]).id());
        ++next;
      }
    for (auto sum : constant_ct_) {
      const value before(g_, sum, s_.n.where);
      g_.outputs.push_back(pulled[next] ? (before + pulled[next]).id() : sum);
      ++next;
    }
    made_.stacked = slices.size();
    g_.outputs.insert(g_.outputs.end(), slices.begin(), slices.end());
  }

  /// The loop, and the cotangents of its operands.
  values results() {
    std::size_t at = changing_.size(), stack = made_.carried;
    made_.parts.push_back(std::move(g_));
    const values made = s_.push(std::move(made_), std::move(in_));
    values out(operands());
    for (std::size_t j = 0; j < changing_.size(); ++j) out[changing_[j]] = made[j];
    for (std::size_t k = s_.step.carried; k < out.size(); ++k)
      if (active_[k]) out[k] = k < first_constant_ ? made[stack++] : made[at++];
    return out;
  }

  const opaque_site& s_;
  const values& cts_;
  const series<char>& active_;
  const std::size_t first_constant_;
  ir::opaque made_;
  ir::graph g_;
  series<ir::node_id> in_;
  const part_builder b_{g_, in_};
  series<ir::node_id> inputs_;  ///< inputs of the body, as nodes of the new body
  series<std::size_t> changing_;
  series<ir::node_id> carry_ct_, constant_ct_;
  values stack_ct_, history_ct_;
};

}  // namespace detail

inline values pull_loop(const detail::opaque_site& s, const values& cts, const series<char>& active,
                        pull_rule pull_back) {
  return detail::reversed_loop(s, cts, active).run(pull_back);
}

/// The cotangents of an opaque node's operands for cotangents of its results. A cotangent is empty if it is known to be zero.
/// `active` selects the operands.
inline values pull_opaque(ir::graph& g, ir::node_id id, const values& cts, const series<char>& active,
                          pull_rule pull_back) {
  const detail::opaque_site s(g, id);
  switch (s.step.kind) {
    case ir::opaque_kind::cond:
      return pull_cond(s, cts, active, pull_back);
    case ir::opaque_kind::loop:
      return pull_loop(s, cts, active, pull_back);
    case ir::opaque_kind::custom:
      return pull_ruled(s, cts, active, pull_back);
    case ir::opaque_kind::call:
      return s.step.function ? pull_ruled(s, cts, active, pull_back) : pull_recomputed(s, cts, active, pull_back);
    default:
      fail("while_loop",
           "how many steps it takes is not known before, so it has no derivative by what goes in; use "
           "fori_loop(lower, upper, body, init) or scan(f, init, xs), with where() to leave values as they are once "
           "done",
           s.n.where);
  }
}

}  // namespace sinter::engine::autodiff
