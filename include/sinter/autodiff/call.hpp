// autodiff/call.hpp: derivatives by users' rules, and of recomputed graphs.
#pragma once

#include "opaque_site.hpp"
#include "partials.hpp"

namespace sinter::engine::autodiff {

namespace detail {

/// Stands for a cotangent or a tangent while a rule is transposed: a result that is linear in it then does not depend on it.
inline ir::node_id placeholder(ir::graph& g, dtype type, const shape& extents, location where) {
  return g.mark(g.constant(type, 0.0, extents, where));
}

/// The operands of a rule: a call's operands without the captures of its function.
inline std::size_t own_operands(const opaque_site& s) {
  return s.n.in.size() - (s.step.kind == ir::opaque_kind::call ? s.step.constants : 0);
}

inline bool has_captures(const opaque_site& s, const series<char>& asked) {
  for (std::size_t k = own_operands(s); k < asked.size(); ++k)
    if (asked[k]) return true;
  return false;
}

[[noreturn]] inline void fail_captured(const opaque_site& s) {
  fail(s.step.function->name,
       "a derivative is asked for by a tensor that the function captures, of which the rule says nothing; make it an "
       "argument of the function",
       s.n.where);
}

[[noreturn]] inline void fail_without_rule(const opaque_site& s) {
  fail(s.step.function->name,
       "the custom op has no derivative; give custom_op a vjp or a jvp, or keep it out of what is differentiated",
       s.n.where);
}

/// A graph with inputs like the operands and the results.
inline ir::graph rule_graph(const opaque_site& s, series<ir::node_id>& inputs) {
  ir::graph d;
  for (auto id : s.n.in) inputs.push_back(d.add_input(s.g[id].type, s.g[id].extents, s.n.where));
  for (const auto& r : s.step.results) inputs.push_back(d.add_input(r.type, r.extents, s.n.where));
  return d;
}

[[noreturn]] inline void fail_not_linear(const opaque_site& s, const char* rule, const char* way) {
  fail(s.step.function->name,
       std::string("its ") + rule + ", so that no derivative in " + way + " follows from it; give that one too",
       s.n.where);
}

/// Refuses a rule that depends on a placeholder in a way without a derivative: by its sign, or through an integer.
inline void check_smooth(const opaque_site& s, const ir::graph& d, const series<ir::node_id>& ys,
                         const series<ir::node_id>& placeholders, const char* rule, const char* way) {
  const std::span<const ir::node_id> from(placeholders.data(), placeholders.size());
  const auto depends = depends_on(d, from), smooth = smooth_from(d, from);
  series<char> needed(d.size(), 0);
  for (auto id : ys) needed[id] = 1;
  for (auto id = static_cast<ir::node_id>(d.size()); id-- > 0;) {
    if (!needed[id]) continue;
    if (depends[id] && !smooth[id]) fail_not_linear(s, rule, way);
    for (auto in : d[id].in) needed[in] = 1;
  }
}

/// Refuses a rule that is not 0 for placeholders of 0: linear plus a constant term. Results of steps are not examined.
inline void check_homogeneous(const opaque_site& s, const ir::graph& d, const series<ir::node_id>& ys, const char* rule,
                              const char* way) {
  series<char> zero(d.size(), 0);
  for (ir::node_id id = 0; id < d.size(); ++id) {
    const ir::node& n = d[id];
    if (!is_float(n.type)) continue;
    std::size_t zeros = 0, floating = 0;
    for (auto in : n.in) {
      floating += is_float(d[in].type);
      zeros += static_cast<std::size_t>(zero[in]);
    }
    const bool factor = n.code == op::mul || n.code == op::dot;
    if (n.code == op::pick) zero[id] = 1;
    else if (n.code == op::constant) zero[id] = n.attr.ints.empty() && n.attr.literal.f == 0;
    else if (n.code == op::div) zero[id] = zero[n.in[0]];
    else zero[id] = factor ? zeros > 0 : floating > 0 && zeros == floating;
    if (n.code == op::pad) zero[id] = zero[id] && n.attr.literal.f == 0;
  }
  for (auto id : ys)
    if (is_float(d[id].type) && !zero[id]) fail_not_linear(s, rule, way);
}

/// The graph of a transposed rule: its results depend on no placeholder, unless the rule is not linear.
inline ir::graph turned(const opaque_site& s, ir::graph d, const values& made, const series<ir::node_id>& placeholders,
                        const char* rule, const char* way) {
  for (std::size_t k = 0; k < made.size(); ++k)
    d.outputs.push_back(or_zeros(d, made[k] ? value(d, made[k].id(), s.n.where) : value(), placeholders[k]).id());
  const auto varies = depends_on(d, {placeholders.data(), placeholders.size()});
  for (std::size_t k = 0; k < made.size(); ++k)
    if (made[k] && varies[made[k].id()]) fail_not_linear(s, rule, way);
  return d;
}

/// The rule for cotangents, from the rule for tangents: both are one linear map.
inline ir::graph pull_of_push(const opaque_site& s, pull_rule pull_back) {
  series<ir::node_id> in, ys, moving;
  ir::graph d = rule_graph(s, in);
  values seeds;
  for (const auto& r : s.step.results) {
    const value ct(d, d.add_input(r.type, r.extents, s.n.where), s.n.where);
    if (is_float(r.type)) seeds.push_back(ct);
  }
  for (std::size_t k = 0; k < own_operands(s); ++k) {
    const ir::node& x = s.g[s.n.in[k]];
    if (is_float(x.type)) moving.push_back(placeholder(d, x.type, x.extents, s.n.where));
  }
  in.insert(in.end(), moving.begin(), moving.end());
  ys = ir::splice(d, s.step.function->push(), in);
  constexpr const char *rule = "rule is not linear in the tangents", *way = "reverse mode";
  check_smooth(s, d, ys, moving, rule, way);
  check_homogeneous(s, d, ys, rule, way);
  const values pulled = pull_back(d, {ys.data(), ys.size()}, seeds, {moving.data(), moving.size()}, s.n.where);
  return turned(s, std::move(d), pulled, moving, rule, way);
}

/// The rule for tangents, from the rule for cotangents.
inline ir::graph push_of_pull(const opaque_site& s, pull_rule pull_back) {
  series<ir::node_id> in, ys, cts, floating;
  ir::graph d = rule_graph(s, in);
  values seeds;
  for (std::size_t k = 0; k < own_operands(s); ++k) {
    const ir::node& x = s.g[s.n.in[k]];
    if (is_float(x.type)) seeds.push_back(value(d, d.add_input(x.type, x.extents, s.n.where), s.n.where));
  }
  for (const auto& r : s.step.results) {
    cts.push_back(placeholder(d, r.type, r.extents, s.n.where));
    if (is_float(r.type)) floating.push_back(cts.back());
  }
  in.insert(in.end(), cts.begin(), cts.end());
  ys = ir::splice(d, s.step.function->pull(), in);
  constexpr const char *rule = "backward is not linear in the cotangents", *way = "forward mode";
  check_smooth(s, d, ys, floating, rule, way);
  check_homogeneous(s, d, ys, rule, way);
  const values pushed = pull_back(d, {ys.data(), ys.size()}, seeds, {floating.data(), floating.size()}, s.n.where);
  return turned(s, std::move(d), pushed, floating, rule, way);
}

/// The operands of a rule: the node's operands, its results, and the given derivatives.
inline series<ir::node_id> rule_operands(const opaque_site& s) {
  series<ir::node_id> in = s.n.in;
  for (std::size_t k = 0; k < s.step.results.size(); ++k) in.push_back(s.result(k).id());
  return in;
}

/// The part with the `saved` nodes as inputs, for the operands of a new node: readers of these nodes read the inputs.
inline ir::graph with_inputs(const ir::graph& g, const series<ir::node_id>& saved) {
  ir::graph out;
  series<ir::node_id> moved(g.size(), ir::no_node);
  for (auto id : g.inputs) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  for (auto id : saved) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  for (auto id : g.live()) {
    if (moved[id] != ir::no_node) continue;
    const ir::node& n = g[id];
    series<ir::node_id> in;
    for (auto operand : n.in) in.push_back(moved[operand]);
    moved[id] = out.push(n.code, std::move(in), n.attr, n.where);
  }
  for (auto id : g.outputs) out.outputs.push_back(moved[id]);
  return out;
}

/// A part whose outputs are its products.
inline ir::graph products_of(const ir::graph& part) {
  ir::graph out = part;
  out.outputs.clear();
  for (auto id : part.live())
    if (part[id].code == ir::op::dot || part[id].code == ir::op::attention) out.outputs.push_back(id);
  return out;
}

}  // namespace detail

/// The cotangents of the operands by the rule of a user's function, or by its rule for tangents.
inline values pull_ruled(const detail::opaque_site& s, const values& cts, const series<char>& active,
                         pull_rule pull_back) {
  const ir::foreign& f = *s.step.function;
  if (detail::has_captures(s, active)) detail::fail_captured(s);
  if (!f.pull && !f.push) detail::fail_without_rule(s);
  series<ir::node_id> in = detail::rule_operands(s);
  for (std::size_t k = 0; k < cts.size(); ++k) {
    const auto& r = s.step.results[k];
    in.push_back(cts[k] ? cts[k].id() : s.g.constant(r.type, 0.0, r.extents, s.n.where));
  }
  const auto pulled = ir::splice(s.g, f.pull ? f.pull() : detail::pull_of_push(s, pull_back), in);
  values out(s.n.in.size());
  for (std::size_t k = 0, next = 0; k < detail::own_operands(s); ++k)
    if (is_float(s.g[s.n.in[k]].type)) out[k] = s.at(pulled[next++]);
  return out;
}

namespace detail {

/// Pushes the backward pass of a part, whose inputs are the node's operands from `first` on. Its outputs are cotangents of
/// the active ones. Returns the part's inputs.
inline series<ir::node_id> pull_part(const opaque_site& s, const ir::graph& part, std::size_t first, const values& cts,
                                     const series<char>& active, pull_rule pull_back, const part_builder& b) {
  ir::graph& g = b.part;
  series<ir::node_id> inputs, wrt, ys;
  values seeds;
  for (std::size_t k = first; k < s.n.in.size(); ++k) {
    inputs.push_back(b.input(s.at(s.n.in[k])));
    if (active[k]) wrt.push_back(inputs.back());
  }
  const auto outputs = ir::splice(g, part, inputs);
  for (std::size_t k = 0; k < cts.size(); ++k)
    if (cts[k]) {
      ys.push_back(outputs[k]);
      seeds.push_back(value(g, b.input(cts[k]), s.n.where));
    }
  const values pulled = pull_back(g, {ys.data(), ys.size()}, seeds, {wrt.data(), wrt.size()}, s.n.where);
  for (std::size_t k = 0; k < wrt.size(); ++k) g.outputs.push_back(or_zeros(g, pulled[k], wrt[k]).id());
  return inputs;
}

}  // namespace detail

/// The cotangents of a part's operands as a separate step, which recomputes the part. It runs when the cotangents are known,
/// and shares no node with the outer graph. Products may be kept.
inline values pull_recomputed(const detail::opaque_site& s, const values& cts, const series<char>& active,
                              pull_rule pull_back) {
  const ir::graph& part = s.step.parts[0];
  ir::graph g;
  series<ir::node_id> in;
  const auto inputs = detail::pull_part(s, part, 0, cts, active, pull_back, {g, in});
  if (s.step.again == ir::recompute::all_but_products) {
    const ir::graph products = detail::products_of(part);
    const auto here = ir::splice(s.g, products, s.n.in);
    g = detail::with_inputs(g, ir::splice(g, products, inputs));
    in.insert(in.end(), here.begin(), here.end());
  }
  ir::opaque made;
  made.kind = ir::opaque_kind::call;
  made.again = s.step.again;
  made.stays = true;
  made.parts.push_back(std::move(g));
  return detail::spread(s.push(std::move(made), std::move(in)), active);
}

}  // namespace sinter::engine::autodiff
