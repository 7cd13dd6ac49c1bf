// batch/placement_walk.hpp: a walk over a graph that finds the placements of its values along an axis of a mesh.
#pragma once

#include <algorithm>

#include "../ir/ops/collectives.hpp"
#include "flow.hpp"

namespace sinter::engine::detail {

/// A placement, or that of a constant, which fits all but partial values; zeros fit these too.
enum class holding : std::uint8_t { invariant, replicated, varying, partial, any, zero };

constexpr bool is_constant(holding h) { return h == holding::any || h == holding::zero; }
constexpr const char* holding_name(holding h) {
  return is_constant(h) ? "constant" : ir::name(static_cast<ir::placement>(h));
}

/// What a walk refuses: all that has no meaning, or only a step in which ranks would wait for ever.
enum class walk_for : std::uint8_t { meaning, waiting };

/// A walk over a graph along one axis.
class placement_walk {
 public:
  placement_walk(const ir::graph& g, std::int64_t axis, walk_for what = walk_for::meaning)
      : g_(g), axis_(axis), what_(what) {}

  /// The placements of nodes, by their numbers, as far as `wanted` needs them; `inputs` are those of the graph's inputs. The
  /// graph may have grown since the last call.
  const series<holding>& run(const series<holding>& inputs, const series<ir::node_id>& wanted) {
    of_.resize(g_.size(), holding::any);
    known_.resize(g_.size(), 0);
    series<ir::node_id> next = wanted;
    while (!next.empty()) {
      const ir::node_id id = next.back();
      const std::size_t before = next.size();
      if (!known_[id])
        for (auto in : g_[id].in)
          if (!known_[in]) next.push_back(in);
      if (next.size() > before) continue;
      next.pop_back();
      if (!known_[id]) of_[id] = one(id, inputs);
      known_[id] = 1;
    }
    return of_;
  }

 private:
  holding one(ir::node_id id, const series<holding>& inputs) {
    const ir::node& n = g_[id];
    if (n.code == ir::op::input) return inputs[static_cast<std::size_t>(n.attr.ints[0])];
    if (n.code == ir::op::pick) return results_.at(n.in[0])[static_cast<std::size_t>(n.attr.ints[0])];
    if (n.code == ir::op::opaque) {
      results_.emplace(id, step(n));
      return holding::any;
    }
    if (batch::is_over(n, axis_)) return of_collective(n);
    if (is_zero(n)) return holding::zero;
    series<holding> in;
    for (auto operand : n.in) in.push_back(of_[operand]);
    if (std::find(in.begin(), in.end(), holding::partial) != in.end()) return of_partial(n, in);
    return joined(n, in);
  }

  /// Values without a meaning differ between ranks.
  holding refuse(const ir::node& n, const std::string& what) const {
    if (what_ == walk_for::waiting) return holding::varying;
    fail(ir::name(n.code), what + " along " + ir::mesh_axis_name(axis_), n.where);
  }

  /// Neither operand is partial.
  holding joined(const ir::node& n, const series<holding>& in) const {
    holding out = holding::any;
    for (const holding h : in) {
      if (is_constant(h) || h == out) continue;
      if (out == holding::any) out = h;
      else if (out == holding::invariant || h == holding::invariant)
        return refuse(n, std::string("an invariant operand with a ") +
                             holding_name(out == holding::invariant ? h : out) +
                             " one; write as<replicated<…>>(x) of the invariant one");
      else out = holding::varying;
    }
    return out;
  }

  bool is_zero(const ir::node& n) const {
    using ir::op;
    const auto zero = [&](std::size_t k) { return of_[n.in[k]] == holding::zero; };
    switch (n.code) {
      case op::constant:
        return is_float(n.type) ? n.attr.literal.f == 0 : n.attr.literal.i == 0;
      case op::broadcast:
      case op::reshape:
      case op::permute:
      case op::slice:
      case op::identity:
      case op::neg:
      case op::cast:
        return zero(0);
      case op::add:
        return zero(0) && zero(1);
      case op::select:
        return zero(1) && zero(2);
      default:
        return false;
    }
  }
  /// The placement of a sum, or of parts side by side.
  holding summed(const ir::node& n, const series<holding>& in, std::size_t first) const {
    for (std::size_t k = first; k < in.size(); ++k) {
      if (in[k] == holding::partial || in[k] == holding::varying || in[k] == holding::zero) continue;
      return refuse(n, std::string("a partial operand with a ") + holding_name(in[k]) +
                           " one, which every rank would add; all_reduce the partial one first");
    }
    return holding::partial;
  }
  /// The placement of an op that is linear in operands `linear`, of which one may be partial.
  holding multiplied(const ir::node& n, const series<holding>& in, std::size_t linear) const {
    std::size_t partials = 0;
    for (std::size_t k = 0; k < in.size(); ++k) {
      if (in[k] == holding::partial) {
        ++partials;
        if (k >= linear) return nonlinear(n);
      } else if (!is_constant(in[k]) && in[k] != holding::replicated) {
        return refuse(n, std::string("a partial operand with a ") + holding_name(in[k]) +
                             " one; all_reduce the partial one first");
      }
    }
    if (partials > 1) return refuse(n, "two partial operands; all_reduce one of them first");
    return holding::partial;
  }
  holding nonlinear(const ir::node& n) const {
    return refuse(n, "a partial operand of an op that is not linear; all_reduce<replicated<…>>(x) it first");
  }

  holding of_partial(const ir::node& n, const series<holding>& in) const {
    using ir::op;
    switch (n.code) {
      case op::neg:
      case op::identity:
      case op::stop_gradient:
      case op::cast:
      case op::reshape:
      case op::permute:
      case op::broadcast:
      case op::slice:
      case op::window:
        return holding::partial;
      case op::pad:
        return n.attr.literal.f != 0 || n.attr.literal.i != 0 ? nonlinear(n) : holding::partial;
      case op::reduce:
      case op::scan:
        return n.attr.combiner != op::add || n.in.size() > 1 ? nonlinear(n) : holding::partial;
      case op::add:
      case op::sub:
      case op::concat:
        return summed(n, in, 0);
      case op::select:
      case op::kinked:
        if (!is_constant(in[0]) && in[0] != holding::replicated && in[0] != holding::varying) return nonlinear(n);
        return n.code == op::kinked ? holding::partial : summed(n, in, 1);
      case op::mul:
      case op::dot:
        return multiplied(n, in, 2);
      case op::div:
      case op::gather:
        return multiplied(n, in, 1);
      case op::scatter_add:
        return summed(n, {in[0], in[2]}, 0);
      default:
        if (ir::is_collective(n.code) && n.attr.combiner == op::add) return holding::partial;  // over another axis
        return nonlinear(n);
    }
  }

  holding of_collective(const ir::node& n) const {
    using ir::op;
    const auto want = [&](holding needed) {
      const holding have = of_[n.in[0]];
      if (have == needed || is_constant(have) || (needed == holding::partial && have == holding::varying)) return;
      if (needed == holding::varying && have == holding::replicated) return;
      refuse(n, std::string("takes ") + holding_name(needed) + " values, and this one is " + holding_name(have));
    };
    switch (n.code) {
      case op::axis_index:
        return holding::varying;
      case op::as: {
        const auto from = static_cast<holding>(n.attr.ints[2]), to = static_cast<holding>(n.attr.ints[3]);
        const holding have = of_[n.in[0]];
        if (from == to) return to;  // an argument of shard_map
        if (have != from && !is_constant(have) && !(from == holding::varying && have == holding::replicated) &&
            !(from == holding::partial && have == holding::varying))
          refuse(n, std::string("the value is ") + holding_name(have) + ", not " + holding_name(from));
        return to;
      }
      case op::all_reduce:
        want(n.attr.combiner == op::add ? holding::partial : holding::varying);
        return static_cast<holding>(n.attr.ints[2]);
      case op::reduce_scatter:
        want(holding::partial);
        return holding::varying;
      case op::all_gather:
      case op::collective_broadcast:
        want(holding::varying);
        return static_cast<holding>(n.attr.ints[2]);
      default:
        want(holding::varying);
        return holding::varying;
    }
  }

  series<holding> outputs_of(const ir::graph& part, const series<holding>& inputs) const {
    placement_walk walk(part, axis_, what_);
    series<ir::node_id> wanted = part.outputs;
    wanted.insert(wanted.end(), part.effects.begin(), part.effects.end());
    const series<holding>& all = walk.run(inputs, wanted);
    series<holding> out;
    for (auto id : part.outputs) out.push_back(all[id]);
    return out;
  }
  /// The placement of a value that is either.
  holding either(const ir::node& n, holding a, holding b) const {
    if (a == b || b == holding::zero) return a;
    if (a == holding::zero) return b;
    if (a != holding::partial && b != holding::partial) return joined(n, {a, b});
    const holding other = a == holding::partial ? b : a;
    if (other == holding::varying) return holding::partial;
    return refuse(n, std::string("a partial value or a ") + holding_name(other) +
                         " one, which every rank would add; all_reduce the partial one first");
  }
  void refuse_waiting(const ir::node& n, holding predicate) const {
    if (predicate != holding::varying && predicate != holding::partial) return;
    for (const auto& part : n.attr.step->parts)
      if (batch::communicates(part, axis_))
        fail(ir::name(*n.attr.step),
             "the predicate differs between ranks of " + ir::mesh_axis_name(axis_) +
                 ", which communicate in it; they would wait for ever: make the predicate equal with all_reduce, or "
                 "communicate outside",
             n.where);
  }

  series<holding> step(const ir::node& n) const {
    const ir::opaque& s = *n.attr.step;
    series<holding> in;
    for (auto id : n.in) in.push_back(of_[id]);
    switch (s.kind) {
      case ir::opaque_kind::cond: {
        refuse_waiting(n, in[0]);
        if (in[0] == holding::partial) in[0] = nonlinear(n);
        const series<holding> inputs(in.begin() + 1, in.end());
        series<holding> out = outputs_of(s.parts[0], inputs);
        const series<holding> no = outputs_of(s.parts[1], inputs);
        for (std::size_t k = 0; k < out.size(); ++k) {
          out[k] = either(n, out[k], no[k]);
          if (out[k] != holding::partial) out[k] = joined(n, {out[k], in[0]});
        }
        return out;
      }
      case ir::opaque_kind::loop:
        return of_loop(n, std::move(in));
      case ir::opaque_kind::while_loop:
        return of_while(n, std::move(in));
      case ir::opaque_kind::call:
        return outputs_of(s.parts[0], in);
      default:
        if (std::find(in.begin(), in.end(), holding::partial) != in.end())
          return series<holding>(s.results.size(), nonlinear(n));
        return series<holding>(s.results.size(), joined(n, in));
    }
  }
  series<holding> of_loop(const ir::node& n, series<holding> in) const {
    const ir::opaque& s = *n.attr.step;
    in.insert(in.begin(), holding::any);
    for (;;) {
      series<holding> out = outputs_of(s.parts[0], in);
      bool grows = false;
      for (std::size_t k = 0; k < s.carried; ++k) {
        const holding both = either(n, in[k + 1], out[k]);
        grows = grows || both != in[k + 1];
        in[k + 1] = out[k] = both;
      }
      if (grows) continue;
      for (std::size_t k = 0; k < s.carried; ++k) out.push_back(out[k]);
      return out;
    }
  }
  series<holding> of_while(const ir::node& n, series<holding> in) const {
    const ir::opaque& s = *n.attr.step;
    for (bool grows = true; grows;) {
      grows = false;
      const holding predicate = outputs_of(s.parts[0], in)[0];
      refuse_waiting(n, predicate);
      const series<holding> out = outputs_of(s.parts[1], in);
      for (std::size_t k = 0; k < s.carried; ++k) {
        holding both = either(n, in[k], out[k]);
        if (predicate == holding::varying && both != holding::partial) both = joined(n, {both, predicate});
        grows = grows || both != in[k];
        in[k] = both;
      }
    }
    in.resize(s.carried);
    return in;
  }

  const ir::graph& g_;
  std::int64_t axis_;
  walk_for what_;
  series<holding> of_;
  series<char> known_;
  sorted_map<ir::node_id, series<holding>> results_;  // of opaque nodes
};

inline void collect_axes(const ir::graph& g, sorted_set<std::int64_t>& to) {
  for (auto id : g.live()) {
    const ir::node& n = g[id];
    if (ir::is_collective(n.code)) to.insert(n.attr.ints[0]);
    if (n.code != ir::op::opaque) continue;
    for (const auto& part : n.attr.step->parts) collect_axes(part, to);
  }
}

/// Refuses steps of a whole graph in which ranks would wait for ever. Derivatives that are taken outside of shard_map are seen
/// only here. Inputs are taken as equal on all ranks.
inline void refuse_waiting(const ir::graph& g) {
  sorted_set<std::int64_t> axes;
  collect_axes(g, axes);
  series<ir::node_id> wanted = g.outputs;
  wanted.insert(wanted.end(), g.effects.begin(), g.effects.end());
  for (const std::int64_t axis : axes)
    placement_walk(g, axis, walk_for::waiting).run(series<holding>(g.inputs.size(), holding::any), wanted);
}

}  // namespace sinter::engine::detail
