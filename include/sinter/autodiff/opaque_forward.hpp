// autodiff/opaque_forward.hpp: tangents of branches and loops: opaque nodes again.
#pragma once

#include "opaque.hpp"

namespace sinter::engine::autodiff {

/// Tangents of `ys` for those of `wrt`; empty where zero. In a part, too: jvp.hpp has the one that there is.
using push_rule = values (*)(ir::graph& g, std::span<const ir::node_id> ys, std::span<const ir::node_id> wrt,
                             const values& tangents);

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
  const values results = s.push(std::move(made), std::move(in));
  values out(s.step.results.size());
  for (std::size_t k = 0, next = 0; k < out.size(); ++k)
    if (is_float(s.step.results[k].type)) out[k] = results[next++];
  return out;
}

/// Carries tangents beside the carried values; a while_loop's test sees the values alone.
inline values push_loop(const detail::opaque_site& s, const values& tangents, push_rule push_forward) {
  const bool loop = s.step.kind == ir::opaque_kind::loop;
  const std::size_t carried = s.step.carried, sliced = s.step.sliced, stacked = s.step.stacked;
  const std::size_t first_constant = carried + sliced;
  ir::opaque made;
  made.kind = s.step.kind;
  made.length = s.step.length;
  made.reverse = s.step.reverse;
  series<ir::node_id> in;
  series<std::size_t> floating;
  for (std::size_t k = 0; k < carried; ++k)
    if (is_float(s.g[s.n.in[k]].type)) floating.push_back(k);
  for (std::size_t p = 0; p < s.step.parts.size(); ++p) {
    const ir::graph& part = s.step.parts[p];
    const bool tests = !loop && p == 0;
    ir::graph g;
    in = {};
    const detail::part_builder b{g, in};
    const std::size_t shift = loop ? 1 : 0;
    series<ir::node_id> inputs(part.inputs.size()), wrt;
    values moved;
    const auto follow = [&](std::size_t k, ir::node_id tangent) {
      wrt.push_back(inputs[k + shift]);
      moved.push_back(value(g, tangent, s.n.where));
    };
    if (loop) inputs[0] = g.add_input(dtype::i64, {}, s.n.where);
    for (std::size_t k = 0; k < carried; ++k) inputs[k + shift] = b.input(s.at(s.n.in[k]));
    for (auto k : floating) follow(k, b.input(tangents[k] ? tangents[k] : s.zeros(s.g[s.n.in[k]])));
    made.carried = in.size();
    for (std::size_t k = carried; k < first_constant; ++k) inputs[k + shift] = b.slice(s.at(s.n.in[k]));
    for (std::size_t k = carried; k < first_constant; ++k)
      if (tangents[k]) follow(k, b.slice(tangents[k]));
    made.sliced = in.size() - made.carried;
    for (std::size_t k = first_constant; k < s.n.in.size(); ++k) inputs[k + shift] = b.input(s.at(s.n.in[k]));
    for (std::size_t k = first_constant; k < s.n.in.size(); ++k)
      if (tangents[k]) follow(k, b.input(tangents[k]));
    made.constants = in.size() - made.carried - made.sliced;
    const auto outputs = ir::splice(g, part, inputs);
    if (tests) {
      g.outputs = outputs;
    } else {
      const values pushed = push_forward(g, outputs, wrt, moved);
      const auto tangent = [&](std::size_t k) { return detail::or_zeros(g, pushed[k], outputs[k]).id(); };
      g.outputs.assign(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(carried));
      for (auto k : floating) g.outputs.push_back(tangent(k));
      for (std::size_t k = carried; k < outputs.size(); ++k)
        if (is_float(g[outputs[k]].type)) g.outputs.push_back(tangent(k));
    }
    made.stacked = tests ? 0 : g.outputs.size() - made.carried;
    made.parts.push_back(std::move(g));
  }
  const std::size_t all = made.carried, stacks = made.stacked;
  if (!loop) made.stacked = 0;
  const values results = s.push(std::move(made), std::move(in));
  values out(s.step.results.size());
  std::size_t next = all;
  for (std::size_t j = 0; j < floating.size(); ++j) {
    out[floating[j]] = results[carried + j];
    if (loop) out[carried + stacked + floating[j]] = results[all + stacks + carried + j];
  }
  for (std::size_t k = carried; k < carried + stacked; ++k)
    if (is_float(s.step.results[k].type)) out[k] = results[next++];
  return out;
}

/// The tangents of an opaque node's results for those of its operands.
inline values push_opaque(ir::graph& g, ir::node_id id, const values& tangents, push_rule push_forward) {
  const detail::opaque_site s(g, id);
  switch (s.step.kind) {
    case ir::opaque_kind::cond:
      return push_cond(s, tangents, push_forward);
    case ir::opaque_kind::loop:
    case ir::opaque_kind::while_loop:
      return push_loop(s, tangents, push_forward);
    default:
      fail(s.step.function->name, "a custom op has no derivative in forward mode; differentiate with grad", s.n.where);
  }
}

}  // namespace sinter::engine::autodiff
