// ir/push_opaque.hpp: the definitions for graph.hpp about opaque nodes, and the checks of their form.
#pragma once

#include <algorithm>
#include <atomic>

#include "../base/callback.hpp"
#include "../base/series.hpp"
#include "../base/sorted.hpp"
#include "../base/text.hpp"
#include "graph.hpp"

namespace sinter::ir {

SINTER_API const char* name(const opaque& step) {
  constexpr const char* names[] = {"cond", "loop", "while_loop", "custom_op", "host_call", "call", "part"};
  return names[static_cast<int>(step.kind)];
}

namespace detail {

inline shape stacked_extents(const dim& length, const shape& each) {
  shape all{length};
  all.insert(all.end(), each.begin(), each.end());
  return all;
}

/// The results that the parts imply.
inline series<result_type> results_of(const opaque& s) {
  series<result_type> out;
  if (s.parts.empty()) return s.results;
  const graph& last = s.parts.back();
  const auto type_of = [&](node_id id) { return result_type{last[id].type, last[id].extents}; };
  for (auto id : last.outputs) out.push_back(type_of(id));
  if (s.kind != opaque_kind::loop) return out;
  for (std::size_t k = s.carried; k < out.size(); ++k) out[k].extents = stacked_extents(s.length, out[k].extents);
  for (std::size_t k = 0; k < s.carried; ++k) out.push_back({out[k].type, stacked_extents(s.length, out[k].extents)});
  return out;
}

inline std::string head_of(const opaque& s) {
  std::string head = name(s);
  if (s.function) head += " \"" + s.function->name + "\" #" + std::to_string(s.function->identity);
  if (s.kind == opaque_kind::loop) head += " length=" + s.length.text();
  if (s.kind == opaque_kind::loop || s.kind == opaque_kind::while_loop) head += " carried=" + std::to_string(s.carried);
  if (s.kind == opaque_kind::loop)
    head += " sliced=" + std::to_string(s.sliced) + " stacked=" + std::to_string(s.stacked);
  if (s.reverse) head += " reverse";
  if (s.again != recompute::nothing) head += s.again == recompute::all ? " recomputed" : " recomputed but products";
  if (s.stays) head += " apart";
  if (!s.results.empty()) {
    head += " ->";
    for (const auto& r : s.results) head += std::string(" ") + dtype_name(r.type) + text_of(r.extents);
  }
  return head;
}

inline std::string indented(const std::string& lines) {
  std::string out;
  for (std::size_t i = 0; i < lines.size();) {
    const auto end = std::min(lines.find('\n', i), lines.size());
    out += "  " + lines.substr(i, end - i) + "\n";
    i = end + 1;
  }
  return out;
}

}  // namespace detail

SINTER_API std::shared_ptr<const opaque> seal(opaque s) {
  s.results = detail::results_of(s);
  s.has_effect = s.kind == opaque_kind::host_call;
  for (const auto& part : s.parts) s.has_effect = s.has_effect || !part.effects.empty();
  s.has_calls = s.kind == opaque_kind::call && !s.stays;
  for (const auto& part : s.parts) s.has_calls = s.has_calls || has_calls(part);
  s.head = detail::head_of(s);
  s.text = s.head;
  s.apart.clear();
  for (const auto& part : s.parts) {
    s.text += " {\n" + detail::indented(print(part)) + "}";
    for (node_id id = 0; id < part.size(); ++id) {
      const node& n = part[id];
      if (n.code == op::opaque) s.apart += n.attr.step->apart;
      if (n.code == op::constant && !n.attr.ints.empty()) s.apart += " " + std::to_string(n.attr.ints[0]);
    }
  }
  return sinter::detail::make_on_heap<const opaque>(std::move(s));
}

SINTER_API std::shared_ptr<const opaque> with_sizes(const opaque& step, const callback<dim(const dim&)>& value) {
  opaque s = step;
  s.length = value(s.length);
  for (auto& r : s.results)
    for (auto& d : r.extents) d = value(d);
  for (auto& part : s.parts) part.replace_sizes(value);
  auto sealed = seal(std::move(s));
  return sealed->text == step.text ? nullptr : sealed;
}

SINTER_API series<node_id> push_opaque(graph& g, std::shared_ptr<const opaque> step, series<node_id> in,
                                       location where) {
  attributes a;
  a.step = std::move(step);
  const std::size_t count = a.step->results.size();
  const node_id id = g.push(op::opaque, std::move(in), std::move(a), where);
  series<node_id> out;
  for (std::size_t k = 0; k < count; ++k) out.push_back(push_pick(g, id, k, where));
  return out;
}

namespace detail {

inline graph without_effects(const graph& part) {
  graph out;
  series<node_id> inputs;
  for (auto id : part.inputs) inputs.push_back(out.add_input(part[id].type, part[id].extents, part[id].where));
  out.outputs = splice(out, part, inputs);
  return out;
}

}  // namespace detail

SINTER_API series<node_id> splice(graph& g, const graph& part, const series<node_id>& inputs) {
  series<node_id> moved(part.size(), no_node);
  for (std::size_t k = 0; k < part.inputs.size(); ++k) moved[part.inputs[k]] = inputs[k];
  for (auto id : part.live()) {
    const node& n = part[id];
    if (n.code == op::input) continue;
    series<node_id> in;
    for (auto operand : n.in) in.push_back(moved[operand]);
    attributes attr = n.attr;
    if (n.code == op::opaque && attr.step->has_effect) {
      if (attr.step->kind == opaque_kind::host_call) continue;
      opaque quiet = *attr.step;
      for (auto& p : quiet.parts) p = detail::without_effects(p);
      attr.step = seal(std::move(quiet));
      attr.ints = {};
    }
    // Marks of the part are not marks of g, although their numbers may be equal.
    const bool mark = n.code == op::identity && !attr.ints.empty();
    moved[id] = mark ? g.mark(in[0]) : g.push(n.code, std::move(in), std::move(attr), n.where);
  }
  series<node_id> out;
  for (auto id : part.outputs) out.push_back(moved[id]);
  return out;
}

SINTER_API bool has_calls(const graph& g) {
  for (node_id id = 0; id < g.size(); ++id)
    if (g[id].code == op::opaque && g[id].attr.step->has_calls) return true;
  return false;
}

namespace detail {

/// Copies the nodes of `from` to `to`; the inputs of `from` are in `moved`. Effects are appended.
inline void copy_inlined(graph& to, const graph& from, series<node_id>& moved) {
  sorted_map<node_id, series<node_id>> results;  // of calls
  for (auto id : from.live()) {
    const node& n = from[id];
    if (n.code == op::input) continue;
    if (n.code == op::pick && results.count(n.in[0])) {
      moved[id] = results.at(n.in[0])[static_cast<std::size_t>(n.attr.ints[0])];
      continue;
    }
    series<node_id> in;
    for (auto operand : n.in) in.push_back(moved[operand]);
    attributes attr = n.attr;
    if (n.code == op::opaque && attr.step->kind == opaque_kind::call && !attr.step->stays) {
      const graph& part = attr.step->parts[0];
      series<node_id> within(part.size(), no_node);
      for (std::size_t k = 0; k < part.inputs.size(); ++k) within[part.inputs[k]] = in[k];
      copy_inlined(to, part, within);
      series<node_id>& out = results[id];
      for (auto result : part.outputs) out.push_back(within[result]);
      continue;
    }
    if (n.code == op::opaque) {
      attr.ints = {};
      if (attr.step->has_calls) {
        opaque step = *attr.step;
        for (auto& part : step.parts) part = inlined(std::move(part));
        step.is_rewritten = false;
        attr.step = seal(std::move(step));
      }
    }
    moved[id] = to.push(n.code, std::move(in), std::move(attr), n.where);
  }
}

}  // namespace detail

SINTER_API graph inlined(graph g) {
  if (!has_calls(g)) return g;
  graph out;
  series<node_id> moved(g.size(), no_node);
  for (auto id : g.inputs) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  detail::copy_inlined(out, g, moved);
  for (auto id : g.outputs) out.outputs.push_back(moved[id]);
  return out;
}

SINTER_API picks::picks(const graph& g, const series<node_id>& live) {
  for (auto id : live) {
    const node& n = g[id];
    if (n.code == op::opaque) of_.emplace(id, series<node_id>(n.attr.step->results.size(), no_node));
    if (n.code == op::pick) of_.at(n.in[0])[static_cast<std::size_t>(n.attr.ints[0])] = id;
  }
}

SINTER_API std::uint64_t new_identity() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1);
}

namespace detail {

/// One opaque node under inference.
struct opaque_inference {
  const graph& g;
  const node& n;
  const opaque& step;

  [[noreturn]] void malformed() const {
    throw internal_error("internal error: malformed operands or parts of " + std::string(name(step)));
  }
  std::string text_of_value(dtype t, const shape& e) const { return std::string(dtype_name(t)) + text_of(e); }

  /// Checks that input k of a part has `type` and `extents`.
  void takes(const graph& part, std::size_t k, dtype type, const shape& extents) const {
    if (k >= part.inputs.size()) malformed();
    const node& input = part[part.inputs[k]];
    if (input.type != type || !(input.extents == extents))
      fail(name(step),
           "value " + std::to_string(k) + " is " + text_of_value(type, extents) +
               " where the function was traced for " + text_of_value(input.type, input.extents),
           n.where);
  }

  void operand_fits(const graph& part, std::size_t k, std::size_t operand) const {
    takes(part, k, g[n.in[operand]].type, g[n.in[operand]].extents);
  }

  /// Checks that output k of the part has the type of carried operand k.
  void carries(const graph& part) const {
    for (std::size_t k = 0; k < step.carried; ++k) {
      const node& from = g[n.in[k]];
      const node& to = part[part.outputs[k]];
      if (from.type != to.type || !(from.extents == to.extents))
        fail(name(step),
             "carried value " + std::to_string(k) + " is " + text_of_value(from.type, from.extents) +
                 " at the start and " + text_of_value(to.type, to.extents) +
                 " after a step; the body has to return what it was given",
             n.where);
    }
  }

  bool is_predicate(node_id id, const graph& in) const { return is_bool(in[id].type) && in[id].extents.empty(); }

  void cond() const {
    if (step.parts.size() != 2 || n.in.empty() || !is_predicate(n.in[0], g)) malformed();
    const graph &yes = step.parts[0], &no = step.parts[1];
    if (yes.outputs.size() != no.outputs.size()) malformed();
    for (const graph& part : step.parts) {
      if (part.inputs.size() + 1 != n.in.size()) malformed();
      for (std::size_t k = 0; k < part.inputs.size(); ++k) operand_fits(part, k, k + 1);
    }
    for (std::size_t k = 0; k < yes.outputs.size(); ++k) {
      const node &a = yes[yes.outputs[k]], &b = no[no.outputs[k]];
      if (a.type != b.type || !(a.extents == b.extents))
        fail("cond",
             "result " + std::to_string(k) + " is " + text_of_value(a.type, a.extents) + " in one branch and " +
                 text_of_value(b.type, b.extents) + " in the other; both have to return the same dtypes and extents",
             n.where);
    }
  }

  void loop() const {
    if (step.parts.size() != 1 || n.in.size() != step.carried + step.sliced + step.constants) malformed();
    const graph& body = step.parts[0];
    if (body.inputs.size() != n.in.size() + 1 || body.outputs.size() != step.carried + step.stacked) malformed();
    takes(body, 0, dtype::i64, {});
    for (std::size_t k = 0; k < n.in.size(); ++k) {
      const node& x = g[n.in[k]];
      if (k < step.carried || k >= step.carried + step.sliced) {
        operand_fits(body, k + 1, k);
        continue;
      }
      if (x.extents.empty() || !(x.extents[0] == step.length)) malformed();
      takes(body, k + 1, x.type, shape(x.extents.begin() + 1, x.extents.end()));
    }
    carries(body);
  }

  void while_loop() const {
    if (step.parts.size() != 2 || n.in.size() != step.carried + step.constants) malformed();
    const graph &test = step.parts[0], &body = step.parts[1];
    if (test.outputs.size() != 1 || !is_predicate(test.outputs[0], test)) malformed();
    if (body.outputs.size() != step.carried) malformed();
    for (const graph& part : step.parts) {
      if (part.inputs.size() != n.in.size()) malformed();
      for (std::size_t k = 0; k < n.in.size(); ++k) operand_fits(part, k, k);
    }
    carries(body);
  }

  void call() const {
    if (step.parts.size() != 1 || step.parts[0].inputs.size() != n.in.size()) malformed();
    for (std::size_t k = 0; k < n.in.size(); ++k) operand_fits(step.parts[0], k, k);
  }

  void run() const {
    switch (step.kind) {
      case opaque_kind::cond:
        return cond();
      case opaque_kind::loop:
        return loop();
      case opaque_kind::while_loop:
        return while_loop();
      case opaque_kind::call:
        return call();
      case opaque_kind::custom:
      case opaque_kind::host_call:
        if (!step.function || !step.parts.empty()) malformed();
        return;
      case opaque_kind::part:
        malformed();
    }
  }
};

/// The node itself is a bool token, which kernels do not read.
inline void infer_opaque(const graph& g, node& n) {
  if (!n.attr.step || n.attr.ints.size() != (n.attr.step->has_effect ? 1U : 0U))
    throw internal_error("internal error: malformed attributes of opaque");
  opaque_inference{g, n, *n.attr.step}.run();
  n.type = dtype::b8;
  n.extents = {};
}

inline void infer_pick(const graph& g, node& n) {
  const bool valid = n.in.size() == 1 && g[n.in[0]].code == op::opaque && n.attr.ints.size() == 1;
  const auto k = valid ? static_cast<std::size_t>(n.attr.ints[0]) : 0;
  if (!valid || k >= g[n.in[0]].attr.step->results.size())
    throw internal_error("internal error: malformed operands or attributes of pick");
  n.type = g[n.in[0]].attr.step->results[k].type;
  n.extents = g[n.in[0]].attr.step->results[k].extents;
}

}  // namespace detail
}  // namespace sinter::ir
