// autodiff/opaque.hpp: derivatives of branches, loops and custom ops: opaque nodes again.
#pragma once

#include <span>

#include "../ir/graph.hpp"
#include "../ir/value.hpp"

namespace sinter::engine::autodiff {

using ir::shape;
using ir::value;
using values = series<value>;

/// Cotangents of `wrt` for those of `ys`; empty where none flows. In a part, too: vjp.hpp has the one that there is.
using pull_rule = values (*)(ir::graph& g, std::span<const ir::node_id> ys, const values& seeds,
                             std::span<const ir::node_id> wrt, location where);

namespace detail {

/// A node whose results are many, and its parts under construction.
struct opaque_site {
  ir::graph& g;
  ir::node_id id;
  const ir::node& n;
  const ir::opaque& step;

  opaque_site(ir::graph& graph, ir::node_id node) : g(graph), id(node), n(graph[node]), step(*n.attr.step) {}

  value at(ir::node_id node) const { return {g, node, n.where}; }
  value zeros(const ir::node& like) const { return at(g.constant(like.type, 0.0, like.extents, n.where)); }
  value result(std::size_t k) const { return at(ir::push_pick(g, id, k, n.where)); }
  values push(ir::opaque made, series<ir::node_id> in) const {
    values out;
    for (auto r : ir::push_opaque(g, ir::seal(std::move(made)), std::move(in), n.where)) out.push_back(at(r));
    return out;
  }
};

/// A part of a new node: inputs are added as operands are named.
struct part_builder {
  ir::graph& part;
  series<ir::node_id>& in;

  ir::node_id input(const value& operand) const {
    in.push_back(operand.id());
    return part.add_input(operand.type(), operand.extents(), operand.where());
  }
  /// A slice of the operand a step.
  ir::node_id slice(const value& operand) const {
    in.push_back(operand.id());
    const shape& e = operand.extents();
    return part.add_input(operand.type(), shape(e.begin() + 1, e.end()), operand.where());
  }
};

inline value or_zeros(ir::graph& g, const value& v, ir::node_id like) {
  return v ? v : value(g, g.constant(g[like].type, 0.0, g[like].extents, g[like].where), g[like].where);
}

inline series<ir::node_id> ids_of(const values& all) {
  series<ir::node_id> out;
  for (const auto& v : all) out.push_back(v.id());
  return out;
}

}  // namespace detail

inline values pull_cond(const detail::opaque_site& s, const values& cts, const series<char>& active,
                        pull_rule pull_back) {
  ir::opaque made;
  series<ir::node_id> in;
  for (const auto& part : s.step.parts) {
    ir::graph g;
    in = {s.n.in[0]};
    const detail::part_builder b{g, in};
    series<ir::node_id> inputs, wrt, ys;
    values seeds;
    for (std::size_t k = 1; k < s.n.in.size(); ++k) {
      inputs.push_back(b.input(s.at(s.n.in[k])));
      if (active[k]) wrt.push_back(inputs.back());
    }
    const auto outputs = ir::splice(g, part, inputs);
    for (std::size_t k = 0; k < cts.size(); ++k)
      if (cts[k]) {
        ys.push_back(outputs[k]);
        seeds.push_back(value(g, b.input(cts[k]), s.n.where));
      }
    const values pulled = pull_back(g, ys, seeds, wrt, s.n.where);
    for (std::size_t k = 0; k < wrt.size(); ++k) g.outputs.push_back(detail::or_zeros(g, pulled[k], wrt[k]).id());
    made.parts.push_back(std::move(g));
  }
  const values results = s.push(std::move(made), std::move(in));
  values out(s.n.in.size());
  for (std::size_t k = 1, next = 0; k < out.size(); ++k)
    if (active[k]) out[k] = results[next++];
  return out;
}

/// The steps in the other order, from what was carried before each: carries the cotangents of the carried values, and sums
/// those of the constants.
inline values pull_loop(const detail::opaque_site& s, const values& cts, const series<char>& active,
                        pull_rule pull_back) {
  const std::size_t carried = s.step.carried, sliced = s.step.sliced, stacked = s.step.stacked;
  const ir::graph& body = s.step.parts[0];
  const auto first_constant = carried + sliced;
  ir::opaque made;
  made.kind = ir::opaque_kind::loop;
  made.length = s.step.length;
  made.reverse = !s.step.reverse;
  ir::graph g;
  series<ir::node_id> in;
  const detail::part_builder b{g, in};
  series<ir::node_id> inputs(body.inputs.size());  // of the body, in the new one
  inputs[0] = g.add_input(dtype::i64, {}, s.n.where);
  // Carried: cotangents of what the body carries and of constants.
  series<std::size_t> floating;
  series<ir::node_id> carry_ct, constant_ct;
  const auto start = [&](std::size_t k, const value& ct) { return b.input(ct ? ct : s.zeros(s.g[s.n.in[k]])); };
  for (std::size_t k = 0; k < carried; ++k)
    if (is_float(s.g[s.n.in[k]].type)) {
      floating.push_back(k);
      carry_ct.push_back(start(k, cts[k]));
    }
  for (std::size_t k = first_constant; k < s.n.in.size(); ++k)
    if (active[k]) constant_ct.push_back(start(k, {}));
  made.carried = in.size();
  // Slices: the body's, what was carried, and cotangents of the stacks.
  for (std::size_t k = carried; k < first_constant; ++k) inputs[k + 1] = b.slice(s.at(s.n.in[k]));
  for (std::size_t k = 0; k < carried; ++k) inputs[k + 1] = b.slice(s.result(carried + stacked + k));
  values stack_ct(stacked), history_ct(carried);
  for (std::size_t k = 0; k < stacked; ++k)
    if (cts[carried + k]) stack_ct[k] = value(g, b.slice(cts[carried + k]), s.n.where);
  for (std::size_t k = 0; k < carried; ++k)
    if (const value& ct = cts[carried + stacked + k]) history_ct[k] = value(g, b.slice(ct), s.n.where);
  made.sliced = in.size() - made.carried;
  for (std::size_t k = first_constant; k < s.n.in.size(); ++k) inputs[k + 1] = b.input(s.at(s.n.in[k]));
  made.constants = in.size() - made.carried - made.sliced;

  const auto outputs = ir::splice(g, body, inputs);
  series<ir::node_id> ys, wrt;
  values seeds;
  for (std::size_t j = 0; j < floating.size(); ++j) {
    ys.push_back(outputs[floating[j]]);
    seeds.push_back(value(g, carry_ct[j], s.n.where));
    wrt.push_back(inputs[floating[j] + 1]);
  }
  for (std::size_t k = 0; k < stacked; ++k)
    if (stack_ct[k]) {
      ys.push_back(outputs[carried + k]);
      seeds.push_back(stack_ct[k]);
    }
  for (std::size_t k = carried; k < s.n.in.size(); ++k)
    if (active[k]) wrt.push_back(inputs[k + 1]);
  const values pulled = pull_back(g, ys, seeds, wrt, s.n.where);

  std::size_t next = 0;
  for (std::size_t j = 0; j < floating.size(); ++j, ++next) {
    value ct = detail::or_zeros(g, pulled[next], wrt[next]);
    if (history_ct[floating[j]]) ct = ct + history_ct[floating[j]];
    g.outputs.push_back(ct.id());
  }
  series<ir::node_id> slices;
  for (std::size_t k = carried; k < first_constant; ++k)
    if (active[k]) {
      slices.push_back(detail::or_zeros(g, pulled[next], wrt[next]).id());
      ++next;
    }
  for (auto sum : constant_ct) {
    const value before(g, sum, s.n.where);
    g.outputs.push_back(pulled[next] ? (before + pulled[next]).id() : sum);
    ++next;
  }
  made.stacked = slices.size();
  g.outputs.insert(g.outputs.end(), slices.begin(), slices.end());
  const std::size_t first_stack = made.carried;
  made.parts.push_back(std::move(g));
  const values results = s.push(std::move(made), std::move(in));

  values out(s.n.in.size());
  for (std::size_t j = 0; j < floating.size(); ++j) out[floating[j]] = results[j];
  std::size_t at = floating.size(), stack = first_stack;
  for (std::size_t k = carried; k < out.size(); ++k)
    if (active[k]) out[k] = k < first_constant ? results[stack++] : results[at++];
  return out;
}

inline values pull_custom(const detail::opaque_site& s, const values& cts) {
  const ir::foreign& f = *s.step.function;
  if (!f.pull)
    fail(f.name, "the custom op has no derivative; give custom_op a vjp, or keep it out of what is differentiated",
         s.n.where);
  series<ir::node_id> in = s.n.in;
  for (std::size_t k = 0; k < cts.size(); ++k) in.push_back(s.result(k).id());
  for (std::size_t k = 0; k < cts.size(); ++k) {
    const auto& r = s.step.results[k];
    in.push_back(cts[k] ? cts[k].id() : s.g.constant(r.type, 0.0, r.extents, s.n.where));
  }
  const auto pulled = ir::splice(s.g, f.pull(), in);
  values out(s.n.in.size());
  for (std::size_t k = 0, next = 0; k < out.size(); ++k)
    if (is_float(s.g[s.n.in[k]].type)) out[k] = s.at(pulled[next++]);
  return out;
}

/// What each operand of an opaque node receives for the cotangents of its results; empty where none flows. `active`:
/// which operands are asked for.
inline values pull_opaque(ir::graph& g, ir::node_id id, const values& cts, const series<char>& active,
                          pull_rule pull_back) {
  const detail::opaque_site s(g, id);
  switch (s.step.kind) {
    case ir::opaque_kind::cond:
      return pull_cond(s, cts, active, pull_back);
    case ir::opaque_kind::loop:
      return pull_loop(s, cts, active, pull_back);
    case ir::opaque_kind::custom:
      return pull_custom(s, cts);
    default:
      fail("while_loop",
           "how many steps it takes is not known before, so it has no derivative by what goes in; use "
           "fori_loop(lower, upper, body, init) or scan(f, init, xs), with where() to leave values as they are once "
           "done",
           s.n.where);
  }
}

}  // namespace sinter::engine::autodiff
