// tests/fuzz/unroll.hpp: a graph with branches and loops -> an equal graph without them.
#pragma once

#include <map>
#include <stdexcept>
#include <vector>

#include "control_graph.hpp"

namespace fuzz {

inline bool has_control(const sinter::ir::graph& g) {
  for (auto id : g.live())
    if (g[id].code == op::opaque) return true;
  return false;
}

/// Pushes copies of graphs on another; both branches of a cond, every step of a loop.
class unroller {
 public:
  using values = std::vector<node_id>;

  explicit unroller(sinter::ir::graph& to) : to_(to) {}

  /// The copies of g's outputs.
  values copy(const sinter::ir::graph& g, const values& inputs) {
    values moved(g.size());
    std::map<node_id, values> results;
    for (std::size_t k = 0; k < g.inputs.size(); ++k) moved[g.inputs[k]] = inputs[k];
    for (auto id : g.live()) {
      const auto& n = g[id];
      if (n.code == op::input) continue;
      if (n.code == op::pick) {
        moved[id] = results.at(n.in[0])[static_cast<std::size_t>(n.attr.ints[0])];
        continue;
      }
      values in;
      for (auto x : n.in) in.push_back(moved[x]);
      if (n.code == op::opaque) results[id] = control(*n.attr.step, in);
      else moved[id] = to_.push(n.code, {in.begin(), in.end()}, n.attr, n.where);
    }
    values out;
    for (auto id : g.outputs) out.push_back(moved[id]);
    return out;
  }

 private:
  values control(const sinter::ir::opaque& step, const values& in) {
    using kind = sinter::ir::opaque_kind;
    if (step.kind == kind::cond) {
      const values rest(in.begin() + 1, in.end());
      const values yes = copy(step.parts[0], rest), no = copy(step.parts[1], rest);
      values out;
      for (std::size_t k = 0; k < yes.size(); ++k) out.push_back(either(in[0], yes[k], no[k]));
      return out;
    }
    if (step.kind == kind::loop) return loop(step, in);
    if (step.kind == kind::while_loop) return loop_while(step, in);
    throw std::logic_error("a function of the user cannot be unrolled");
  }

  values loop(const sinter::ir::opaque& step, const values& in) {
    const auto length = static_cast<std::size_t>(*step.length.number());
    values carried(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(step.carried));
    std::vector<values> stacks(step.stacked + step.carried, values(length));
    for (std::size_t turn = 0; turn < length; ++turn) {
      const std::size_t i = step.reverse ? length - 1 - turn : turn;
      values given{to_.constant(dtype::i64, scalar{0, static_cast<std::int64_t>(i)}, {})};
      given.insert(given.end(), carried.begin(), carried.end());
      for (std::size_t k = step.carried; k < in.size(); ++k)
        given.push_back(k < step.carried + step.sliced ? row(in[k], static_cast<std::int64_t>(i)) : in[k]);
      const values out = copy(step.parts[0], given);
      for (std::size_t k = 0; k < step.stacked; ++k) stacks[k][i] = out[step.carried + k];
      for (std::size_t k = 0; k < step.carried; ++k) stacks[step.stacked + k][i] = carried[k];
      carried.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(step.carried));
    }
    values all = carried;
    for (std::size_t k = 0; k < stacks.size(); ++k) all.push_back(stack(stacks[k], step.results[step.carried + k]));
    return all;
  }

  /// As many steps as there may be, each kept while the test holds.
  values loop_while(const sinter::ir::opaque& step, const values& in) {
    values now = in;
    node_id active = to_.constant(dtype::b8, scalar{0, 1}, {});
    for (std::int64_t turn = 0; turn < max_turns; ++turn) {
      active = to_.push(op::bit_and, {active, copy(step.parts[0], now)[0]}, {});
      const values next = copy(step.parts[1], now);
      for (std::size_t k = 0; k < step.carried; ++k) now[k] = either(active, next[k], now[k]);
    }
    now.resize(step.carried);
    return now;
  }

  node_id with_dims(op code, node_id x, shape dims) {
    attributes a;
    a.dims = std::move(dims);
    return to_.push(code, {x}, std::move(a));
  }
  /// `one` where the bool without axes holds.
  node_id either(node_id predicate, node_id one, node_id other) {
    const shape extents = to_[one].extents;
    if (!extents.empty())
      predicate = with_dims(op::broadcast, with_dims(op::reshape, predicate, shape(extents.size(), dim(1))), extents);
    return to_.push(op::select, {predicate, one, other}, {});
  }
  node_id row(node_id x, std::int64_t i) {
    const shape extents = to_[x].extents;
    attributes a;
    a.ints.assign(extents.size(), 1);
    a.dims = extents;
    a.dims[0] = 1;
    a.dims.push_back(dim(i));
    for (std::size_t d = 1; d < extents.size(); ++d) a.dims.push_back(dim(0));
    return with_dims(op::reshape, to_.push(op::slice, {x}, std::move(a)), shape(extents.begin() + 1, extents.end()));
  }
  node_id stack(const values& rows, const sinter::ir::result_type& like) {
    if (rows.empty()) return to_.constant(like.type, scalar{0, 0}, like.extents);
    sinter::series<node_id> in;
    for (auto x : rows) {
      shape one = to_[x].extents;
      one.insert(one.begin(), dim(1));
      in.push_back(with_dims(op::reshape, x, one));
    }
    attributes a;
    a.ints = {0};
    return to_.push(op::concat, std::move(in), std::move(a));
  }

  sinter::ir::graph& to_;
};

/// Equal to g, with the same inputs and outputs.
inline sinter::ir::graph unrolled(const sinter::ir::graph& g) {
  sinter::ir::graph out;
  std::vector<node_id> inputs;
  for (auto id : g.inputs) inputs.push_back(out.add_input(g[id].type, g[id].extents, g[id].where));
  for (auto id : unroller(out).copy(g, inputs)) out.outputs.push_back(id);
  return out;
}

}  // namespace fuzz
