// stablehlo/export_rules.hpp: the definitions for export.hpp: the walk over a graph, branches and loops, the file.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../engine/saved_graph.hpp"
#include "../io/archive.hpp"
#include "../io/array.hpp"
#include "../io/file.hpp"
#include "../io/safetensors.hpp"
#include "export.hpp"
#include "library_rows.hpp"
#include "rows.hpp"

namespace sinter::stablehlo {

namespace out {

inline void write_nodes(builder& b, const series<node_id>& live);

/// The results of a part whose inputs are the given values, written in a region.
inline values_t results_of(builder& r, const values_t& given) {
  for (std::size_t k = 0; k < given.size(); ++k) r.set(r.g.inputs[k], given[k]);
  write_nodes(r, r.g.live());
  values_t results;
  for (const node_id id : r.g.outputs) results.push_back(r.get(id));
  return results;
}
inline values_t result_types(const ir::opaque& s) {
  values_t out;
  for (const auto& r : s.results) out.push_back({"", r.type, builder::extents_of(r.extents)});
  return out;
}
inline values_t operands_of(builder& b, const ir::node& n) {
  values_t out;
  for (std::size_t k = 0; k < n.in.size(); ++k) out.push_back(b.in(n, k));
  return out;
}

/// The branches read the operands of the step, which are values outside of their regions.
inline values_t write_cond(builder& b, const ir::node& n) {
  const values_t in = operands_of(b, n), given(in.begin() + 1, in.end());
  std::vector<std::string> branches;
  for (const ir::graph& part : n.attr.step->parts) {
    builder r = b.region(part);
    r.finish(results_of(r, given));
    branches.push_back(std::move(r.lines));
  }
  return b.operation("stablehlo.if", {in[0]}, result_types(*n.attr.step), "", branches);
}

/// The state is the turn, the operands, then a stack for each stacked result.
inline values_t write_loop(builder& b, const ir::node& n) {
  const ir::opaque& s = *n.attr.step;
  const std::int64_t length = s.length.number().value_or(0);
  values_t state = operands_of(b, n), results = result_types(s);
  if (length == 0) {  // a slice of size 1 would not fit into the stacks
    for (std::size_t k = 0; k < results.size(); ++k)
      results[k] = k < s.carried ? state[k] : b.constant(results[k].type, {}, results[k].extents);
    return results;
  }
  state.insert(state.begin(), b.constant(dtype::i64, {}));
  const std::size_t stacks = state.size();
  for (std::size_t k = s.carried; k < results.size(); ++k)
    state.push_back(b.constant(results[k].type, {}, results[k].extents));
  builder r = b.region(s.parts[0]);
  const values_t given = parameters_like(r, state);
  const std::string head = b.header(given);
  const value one = r.constant(dtype::i64, {0, 1});
  const value step = s.reverse ? r.same("subtract", {r.constant(dtype::i64, {0, length - 1}), given[0]}) : given[0];
  values_t inputs{step};
  for (std::size_t k = 0; k < n.in.size(); ++k) {
    value x = given[k + 1];
    if (k >= s.carried && k < s.carried + s.sliced)
      x = r.reshape(at_position(r, x, step, 0), {x.extents.begin() + 1, x.extents.end()});
    inputs.push_back(std::move(x));
  }
  values_t made = results_of(r, inputs), next = given;
  next[0] = r.same("add", {given[0], one});
  for (std::size_t k = 0; k < s.carried; ++k) {
    next[k + 1] = made[k];
    made.push_back(given[k + 1]);
  }
  for (std::size_t k = s.carried; k < made.size(); ++k) {
    extents_t slice = made[k].extents;
    slice.insert(slice.begin(), 1);
    value& stack = next[stacks + k - s.carried];
    stack = with_position(r, stack, r.reshape(made[k], slice), step, 0);
  }
  r.finish(next);
  const values_t last = b.operation("stablehlo.while", state, state, "", {below(b, state, length), head + r.lines});
  for (std::size_t k = 0; k < results.size(); ++k) results[k] = last[k < s.carried ? k + 1 : stacks + k - s.carried];
  return results;
}

inline values_t write_while(builder& b, const ir::node& n) {
  const ir::opaque& s = *n.attr.step;
  const values_t state = operands_of(b, n);
  std::vector<std::string> regions;
  for (const ir::graph& part : s.parts) {
    builder r = b.region(part);
    const values_t given = parameters_like(r, state);
    values_t made = results_of(r, given);
    if (regions.size() == 1)
      made.insert(made.end(), given.begin() + static_cast<std::ptrdiff_t>(s.carried), given.end());
    r.finish(made);
    regions.push_back(b.header(given) + r.lines);
  }
  return b.operation("stablehlo.while", state, state, "", regions);
}

inline void write_step(builder& b, node_id id, const series<node_id>& picks) {
  const ir::node& n = b.at(id);
  const ir::opaque& s = *n.attr.step;
  values_t results;
  switch (s.kind) {
    case ir::opaque_kind::cond:
      results = write_cond(b, n);
      break;
    case ir::opaque_kind::loop:
      results = write_loop(b, n);
      break;
    case ir::opaque_kind::while_loop:
      results = write_while(b, n);
      break;
    default:
      results = result_types(s);
      if (const library_row* const known = library_row_of(s)) {
        // Further results are work memory of GPUs.
        for (value& x : results) x = b.constant(x.type, {}, x.extents);
        if (!is_empty(results[0].extents)) results[0] = known->write(b, operands_of(b, n), s.function->known);
        break;
      }
      b.refuse(n, std::string(ir::name(s)) + (s.function ? " " + s.function->name : ""));
      for (value& x : results) x.name = "%refused";
  }
  for (std::size_t k = 0; k < picks.size(); ++k)
    if (picks[k] != ir::no_node) b.set(picks[k], results[k]);
}

inline void write_node(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  if (n.code == ir::op::constant) {
    b.set(id, b.constant(n.type, n.attr.literal, b.extents(id)));
    return;
  }
  const row* const r = ir::row_of(rows, n.code);
  if (!r) b.set(id, b.refuse(n, ir::name(n.code)));
  else if (is_empty(b.extents(id))) b.set(id, b.constant(n.type, {}, b.extents(id)));
  else b.set(id, r->write(b, id));
}

/// Whether a node is written where a reader needs it: a window, or its padding, may become part of the reader.
inline series<char> waits(const builder& b, const series<node_id>& live) {
  series<char> out(b.g.size(), 0);
  for (const node_id id : live) {
    const ir::node& n = b.at(id);
    if (n.code == ir::op::pad) out[id] = !out[n.in[0]];
    else if (n.code == ir::op::window) out[id] = !out[n.in[0]] || b.at(n.in[0]).code == ir::op::pad;
  }
  return out;
}
inline void write_nodes(builder& b, const series<node_id>& live) {
  ir::write_in_order(b, live, waits(b, live), write_node, write_step);
}

/// Weights beyond so many bytes do not fit into a text.
inline constexpr std::size_t max_inside = std::size_t{1} << 30;

/// A captured tensor as a constant; flags are compared bytes.
inline value weight_constant(builder& b, const io::array& a) {
  const extents_t extents(a.extents.begin(), a.extents.end());
  const dtype type = is_bool(a.type) ? dtype::u8 : a.type;
  std::string text = "dense<";
  const auto bytes = a.bytes();
  if (!bytes.empty()) {
    text += "\"0x";
    static constexpr char digits[] = "0123456789ABCDEF";
    text.reserve(text.size() + 2 * bytes.size() + 8);
    for (const std::byte x : bytes) {
      text += digits[std::to_integer<unsigned>(x) >> 4];
      text += digits[std::to_integer<unsigned>(x) & 15];
    }
    text += "\"";
  }
  const value y = b.op("constant", {}, type, extents, "value = " + text + "> : " + type_text(type, extents));
  return is_bool(a.type) ? b.compare(y, "NE", b.number(0, y)) : y;
}

inline void take_weights(builder& b, const engine::tracer& traced, std::size_t arguments, location at) {
  std::size_t bytes = 0;
  std::vector<io::array> all;
  for (const engine::captured& c : traced.captures) {
    all.push_back(io::detail::array_of(io::detail::handle_of(c), at));
    bytes += all.back().bytes().size();
  }
  if (bytes > max_inside)
    fail("stablehlo::save",
         std::to_string(bytes) + " bytes of weights do not fit into a text, which holds 1 GiB; choose " +
             "library_weights::beside",
         at);
  for (std::size_t k = 0; k < all.size(); ++k) b.set(b.g.inputs[arguments + k], weight_constant(b, all[k]));
}

[[noreturn]] inline void fail_refused(const std::set<std::string>& refused, location at) {
  std::string all;
  for (const auto& what : refused) all += (all.empty() ? "" : "; ") + what;
  fail("stablehlo::save",
       "these ops have no counterpart in StableHLO: " + all + "; compute them outside of the function", at);
}

inline bool is_symbol(const std::string& name) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  for (const char c : name)
    if (!fits(c) && (c < '0' || c > '9')) return false;
  return !name.empty() && fits(name[0]);
}

}  // namespace out

SINTER_API std::string text(const graph& g, const save_options& how, location at) {
  if (!out::is_symbol(how.function))
    fail("stablehlo::save", "the function's name must be a C identifier: letters, digits and underscores", at);
  const auto traced = g.traced();
  if (!traced->assumed.layout.sizes.empty())
    fail("stablehlo::save", "the graph has open sizes; trace the function for numbers: trace(fn)(args…)", at);
  const ir::graph body = engine::ordinary(traced->graph);
  const std::size_t arguments = body.inputs.size() - traced->captures.size();
  const bool inside = how.weights == library_weights::inside;
  out::module_state all;
  out::builder b(all, body, "    ");
  out::values_t parameters, results;
  for (std::size_t k = 0; k < (inside ? arguments : body.inputs.size()); ++k) {
    const ir::node_id input = body.inputs[k];
    parameters.push_back({"%arg" + std::to_string(k), body[input].type, b.extents(input)});
    b.set(input, parameters.back());
  }
  if (inside) out::take_weights(b, *traced, arguments, at);
  out::write_nodes(b, body.live());
  for (const ir::node_id id : body.outputs) results.push_back(b.get(id));
  if (!all.refused.empty()) out::fail_refused(all.refused, at);
  b.finish(results, "func.return");
  const std::string type = "(" + out::builder::types(parameters) + ") -> (" + out::builder::types(results) + ")";
  return "\"builtin.module\"() ({\n  \"func.func\"() ({\n" + b.header(parameters) + b.lines +
         "  }) {function_type = " + type + ", sym_name = \"" + how.function + "\"} : () -> ()\n}) : () -> ()\n";
}

SINTER_API void save(const std::string& path, const graph& g, const save_options& how, location at) {
  const std::string module = text(g, how, at);
  const auto traced = g.traced();
  const io::detail::folder_lock alone("stablehlo::save", path, at);
  if (how.weights == library_weights::beside && !traced->captures.empty()) {
    std::vector<io::detail::named_leaf> leaves;
    for (std::size_t k = 0; k < traced->captures.size(); ++k)
      leaves.push_back({engine::weight_name(k), io::detail::handle_of(traced->captures[k])});
    io::detail::file_writer weights("stablehlo::save", path + ".safetensors", false, at);
    io::detail::write_safetensors(weights, std::move(leaves), {}, at);
    weights.finish();
  }
  const std::string_view file = module;
  io::detail::write_file("stablehlo::save", path, {&file, 1}, at);
}

SINTER_API std::vector<export_description> exported_ops() {
  return ir::counterparts(out::rows, "parameters, constants, if, while", "the operations that compute it");
}

}  // namespace sinter::stablehlo
