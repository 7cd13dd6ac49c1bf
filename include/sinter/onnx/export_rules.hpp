// onnx/export_rules.hpp: the definitions for export.hpp: the walk over a graph, branches and loops, the file.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "../engine/saved_graph.hpp"
#include "../io/file.hpp"
#include "export.hpp"
#include "export_rows.hpp"
#include "wire.hpp"

namespace sinter::onnx {

namespace out {

inline void write_nodes(builder& b, const series<node_id>& live);

/// A graph of its own with the values of `given` as inputs, and its results as nodes; returns the GraphProto without inputs.
inline wire::message part_of(builder& around, const ir::graph& part, const names_t& given, const wire::message& inputs,
                             const std::string& first = "") {
  builder b(around.all, part);
  for (std::size_t k = 0; k < given.size(); ++k) b.set(part.inputs[k], given[k]);
  write_nodes(b, part.live());
  wire::message all;
  names_t results;
  if (!first.empty()) results.push_back(b.node("Identity", {first}));
  for (const node_id id : part.outputs) results.push_back(b.node("Identity", {b.full(id)}));
  all.append(b.nodes).text(2, "part" + std::to_string(b.all.next++)).append(inputs);
  for (std::size_t k = 0; k < results.size(); ++k) all.part(12, wire::message().text(1, results[k]));
  return all;
}

inline std::string type_name(const ir::node& n) { return dtype_name(n.type) + ir::text_of(n.extents); }

inline void write_cond(builder& b, const ir::node& n, const names_t& results) {
  names_t given;
  for (std::size_t k = 1; k < n.in.size(); ++k) given.push_back(b.full(n.in[k]));
  b.node_to("If", {b.full(n.in[0])},
            {wire::graph_attribute("then_branch", part_of(b, n.attr.step->parts[0], given, {})),
             wire::graph_attribute("else_branch", part_of(b, n.attr.step->parts[1], given, {}))},
            results);
}

/// An input of a loop's body. An open extent has no name: its symbol is not the inner graph's.
inline wire::message body_input(const std::string& name, dtype type, const ir::shape& extents = {}) {
  wire::message shape;
  for (const ir::dim& d : extents) {
    wire::message axis;
    if (const auto e = d.number()) axis.number(1, *e);
    shape.part(1, axis);
  }
  return wire::message().text(1, name).part(
      2, wire::message().part(1, wire::message().number(1, wire::data_type(type)).part(2, shape)));
}

inline void write_loop(builder& b, const ir::node& n, const names_t& results) {
  const ir::opaque& s = *n.attr.step;
  const ir::graph& body = s.parts[0];
  const std::string turn = b.all.fresh(), go = b.all.fresh();
  builder inner(b.all, body);
  wire::message inputs;
  inputs.part(11, body_input(turn, dtype::i64)).part(11, body_input(go, dtype::b8));
  std::string step = turn;
  if (s.reverse) {
    const std::string last = inner.node("Reshape", {inner.size(s.length - 1), inner.list({})});
    step = inner.node("Sub", {last, turn});
  }
  inner.set(body.inputs[0], step);
  names_t start, before;
  for (std::size_t k = 0; k < n.in.size(); ++k) {
    const node_id input = body.inputs[k + 1];
    if (k < s.carried) {
      start.push_back(b.full(n.in[k]));
      before.push_back(b.all.fresh());
      inputs.part(11, body_input(before.back(), body[input].type, body[input].extents));
      inner.set(input, before.back());
    } else if (k < s.carried + s.sliced) {
      inner.set(input, inner.node("Gather", {b.full(n.in[k]), step}, {wire::int_attribute("axis", 0)}));
    } else {
      inner.set(input, b.full(n.in[k]));
    }
  }
  write_nodes(inner, body.live());
  names_t out{inner.node("Identity", {go})};
  for (const node_id id : body.outputs) out.push_back(inner.node("Identity", {inner.full(id)}));
  for (const auto& x : before) out.push_back(inner.node("Identity", {x}));
  wire::message graph;
  graph.append(inner.nodes).text(2, "body" + std::to_string(b.all.next++)).append(inputs);
  for (const auto& x : out) graph.part(12, wire::message().text(1, x));
  names_t with{b.node("Reshape", {b.size(s.length), b.list({})}), b.literal(dtype::b8, ir::scalar{0, 1})};
  with.insert(with.end(), start.begin(), start.end());
  names_t stacked = results;
  if (s.reverse)
    for (std::size_t k = s.carried; k < stacked.size(); ++k) stacked[k] = b.all.fresh();
  b.node_to("Loop", with, {wire::graph_attribute("body", graph)}, stacked);
  // A stack has the last step's slice first.
  for (std::size_t k = s.carried; s.reverse && k < stacked.size(); ++k)
    b.node_to(
        "Slice",
        {stacked[k], b.list({-1}), b.list({std::numeric_limits<std::int64_t>::min() + 1}), b.list({0}), b.list({-1})},
        {}, {results[k]});
}

/// Tests before the first turn, then at the end of each.
inline void write_while(builder& b, const ir::node& n, const names_t& results) {
  const ir::opaque& s = *n.attr.step;
  const ir::graph &test = s.parts[0], &body = s.parts[1];
  names_t given;
  for (const node_id x : n.in) given.push_back(b.full(x));
  const auto tested = [&](builder& in, const names_t& values) {
    builder t(b.all, test);
    for (std::size_t k = 0; k < values.size(); ++k) t.set(test.inputs[k], values[k]);
    write_nodes(t, test.live());
    const std::string holds = t.node("Identity", {t.full(test.outputs[0])});
    in.nodes.append(t.nodes);
    return holds;
  };
  builder inner(b.all, body);
  const std::string turn = b.all.fresh(), go = b.all.fresh();
  wire::message inputs;
  inputs.part(11, body_input(turn, dtype::i64)).part(11, body_input(go, dtype::b8));
  names_t values = given;
  for (std::size_t k = 0; k < s.carried; ++k) {
    values[k] = b.all.fresh();
    const ir::node& input = body[body.inputs[k]];
    inputs.part(11, body_input(values[k], input.type, input.extents));
  }
  for (std::size_t k = 0; k < values.size(); ++k) inner.set(body.inputs[k], values[k]);
  write_nodes(inner, body.live());
  for (std::size_t k = 0; k < s.carried; ++k) values[k] = inner.node("Identity", {inner.full(body.outputs[k])});
  names_t out{tested(inner, values)};
  out.insert(out.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(s.carried));
  wire::message graph;
  graph.append(inner.nodes).text(2, "body" + std::to_string(b.all.next++)).append(inputs);
  for (const auto& x : out) graph.part(12, wire::message().text(1, x));
  names_t with{"", tested(b, given)};
  with.insert(with.end(), given.begin(), given.begin() + static_cast<std::ptrdiff_t>(s.carried));
  b.node_to("Loop", with, {wire::graph_attribute("body", graph)}, results);
}

/// A transform of rows (b, n, 2) as DFT, whose inverse divides by n. False for another step, and for a scale by an open n.
inline bool write_transform(builder& b, const ir::node& n, const std::string& result) {
  const ir::opaque& s = *n.attr.step;
  if (s.kind != ir::opaque_kind::custom || !s.function || !s.function->known.starts_with("fft")) return false;
  const auto says = [&](const char* word) { return s.function->known.find(word) != std::string::npos; };
  const bool inverse = says(" inverse"), root = says(" root"), scales = root || says(" whole") != inverse;
  const auto length = s.results[0].extents[1].number();
  if (scales && !length) return false;
  const std::string in = b.full(n.in[0]), made = scales ? b.all.fresh() : result;
  b.node_to("DFT", {in}, {wire::int_attribute("axis", 1), wire::int_attribute("inverse", inverse)}, {made});
  if (!scales) return true;
  const auto count = static_cast<double>(*length);
  const double by = (inverse ? count : 1) / (root ? std::sqrt(count) : says(" whole") ? count : 1);
  b.node_to("Mul", {made, b.literal(s.results[0].type, by)}, {}, {result});
  return true;
}

inline void write_step(builder& b, node_id id, const series<node_id>& picks) {
  const ir::node& n = b.at(id);
  const ir::opaque& s = *n.attr.step;
  names_t results;
  for (std::size_t k = 0; k < s.results.size(); ++k) results.push_back(b.all.fresh());
  switch (s.kind) {
    case ir::opaque_kind::cond:
      write_cond(b, n, results);
      break;
    case ir::opaque_kind::loop:
      write_loop(b, n, results);
      break;
    case ir::opaque_kind::while_loop:
      write_while(b, n, results);
      break;
    default:
      if (write_transform(b, n, results[0])) break;
      b.refuse(n, std::string(ir::name(s)) + (s.function ? " " + s.function->name : ""), "");
  }
  for (std::size_t k = 0; k < picks.size(); ++k)
    if (picks[k] != ir::no_node) b.set(picks[k], results[k]);
}

/// Whether a node is written where a reader needs it: windows, their operands, paddings, broadcasts and log1p may become part of
/// the reader.
inline series<char> waits(const builder& b, const series<node_id>& live) {
  series<char> out(b.g.size(), 0);
  for (const node_id id : live) {
    const ir::op code = b.at(id).code;
    out[id] = code == ir::op::window || code == ir::op::log1p || code == ir::op::pad || code == ir::op::broadcast ||
              code == ir::op::constant || may_average(b, id) || may_convolve(b, id);
    if (code != ir::op::window) continue;
    const node_id x = b.at(id).in[0];
    out[x] = out[x] || b.at(x).code == ir::op::reshape;
  }
  return out;
}

inline void write_node(builder& b, node_id id) {
  const row* const r = ir::row_of(rows, b.at(id).code);
  b.set(id, r ? r->write(b, id) : none_for(b, id));
}

inline void write_nodes(builder& b, const series<node_id>& live) {
  ir::write_in_order(b, live, waits(b, live), write_node, write_step);
}

/// An input or a result with its type.
inline wire::message typed_value(const std::string& name, const ir::node& n, const std::vector<std::string>& axes) {
  wire::message shape;
  for (const ir::dim& d : n.extents) {
    wire::message axis;
    if (const auto e = d.number()) {
      axis.number(1, *e);
    } else {
      std::string text = d.text();
      for (std::size_t k = 0; k < axes.size(); ++k)
        if (text == "s" + std::to_string(k)) text = axes[k];
      axis.text(2, text);
    }
    shape.part(1, axis);
  }
  return wire::message().text(1, name).part(
      2, wire::message().part(1, wire::message().number(1, wire::data_type(n.type)).part(2, shape)));
}

/// The tensors of size symbols, from the arguments' shapes.
inline void name_sizes(builder& b, const engine::size_layout& layout) {
  for (const engine::open_size& s : layout.sizes) {
    if (s.derived) {
      b.all.sizes.push_back("");
      continue;
    }
    const auto input = b.g.inputs[static_cast<std::size_t>(s.extents[0].tensor)];
    std::string e = b.node("Gather", {b.node("Shape", {b.full(input)}), b.list({s.extents[0].axis})},
                           {wire::int_attribute("axis", 0)});
    if (s.offset != 0) e = b.node("Sub", {e, b.list({s.offset})});
    if (s.factor != 1) e = b.node("Div", {e, b.list({s.factor})});
    b.all.sizes.push_back(e);
  }
}

inline wire::message tensor_message(const weight& w) {
  wire::message m;
  for (const auto e : w.extents) m.number(1, e);
  return m.number(2, wire::data_type(w.type)).text(8, w.name);
}
inline wire::message text_entry(const char* key, const std::string& value) {
  return wire::message().text(1, key).text(2, value);
}

inline wire::message initialisers_inside(const std::vector<weight>& all) {
  wire::message out;
  for (const weight& w : all) out.part(5, tensor_message(w).text(9, w.bytes()));
  return out;
}

/// Smaller weights stay in the model.
inline constexpr std::size_t min_beside = 1024;
/// Initialisers in a file beside the model, whose name has a digest of its contents: an older model's weights are another file,
/// so that both models are whole at any time. `beside` receives the file.
inline wire::message initialisers_beside(const std::vector<weight>& all, const std::string& path, std::string& beside,
                                         location at) {
  wire::message out;
  std::vector<std::string_view> pieces;
  static const std::string gap(64, '\0');
  std::size_t place = 0;
  std::vector<std::size_t> places;
  for (const weight& w : all) {
    const std::size_t from = (place + 63) / 64 * 64;
    places.push_back(from);
    if (w.bytes().size() < min_beside) continue;
    pieces.push_back(std::string_view(gap).substr(0, from - place));
    pieces.push_back(w.bytes());
    place = from + w.bytes().size();
  }
  beside = path + "." + io::detail::digest_text({pieces.data(), pieces.size()}) + ".data";
  io::detail::write_file("onnx::save", beside, {pieces.data(), pieces.size()}, at);
  const std::size_t slash = beside.rfind('/');
  const std::string name = slash == std::string::npos ? beside : beside.substr(slash + 1);
  for (std::size_t k = 0; k < all.size(); ++k) {
    const weight& w = all[k];
    if (w.bytes().size() < min_beside) out.part(5, tensor_message(w).text(9, w.bytes()));
    else
      out.part(5, tensor_message(w)
                      .part(13, text_entry("location", name))
                      .part(13, text_entry("offset", std::to_string(places[k])))
                      .part(13, text_entry("length", std::to_string(w.bytes().size())))
                      .number(14, 1));
  }
  return out;
}

/// Names for `count` values: those given, or prefix0, prefix1, … user_error for another number, or equal names.
inline names_t names_for(const names_t& given, std::size_t count, const char* prefix, std::set<std::string>& taken,
                         location at) {
  if (!given.empty() && given.size() != count)
    fail("onnx::save", "there are " + std::to_string(given.size()) + " names for " + std::to_string(count) + " values",
         at);
  names_t out;
  for (std::size_t k = 0; k < count; ++k) {
    out.push_back(given.empty() ? prefix + std::to_string(k) : given[k]);
    if (out.back().empty() || !taken.insert(out.back()).second)
      fail("onnx::save",
           "the name '" + wire::printable(out.back()) + "' is empty, or given twice; give each value its own", at);
  }
  return out;
}

[[noreturn]] inline void fail_refused(const std::set<std::string>& refused, const char* op, location at) {
  std::string all;
  for (const auto& what : refused) all += (all.empty() ? "" : "; ") + what;
  fail(op, "these ops have no counterpart in ONNX: " + all + "; compute them outside of the function", at);
}

}  // namespace out

namespace out {

/// A graph as nodes, inputs and results, and its weights, whose elements `kept` owns.
struct model_parts {
  model_state all = {};
  wire::message nodes = {}, values = {};
  std::vector<io::array> kept = {};

  /// The model's bytes, given its initialisers.
  std::string bytes(const wire::message& initialisers, const std::string& producer) const {
    wire::message graph_message, model;
    graph_message.append(nodes).text(2, "sinter").append(initialisers).append(values);
    model.number(1, 9)
        .text(2, producer)
        .text(3, SINTER_VERSION)
        .part(7, graph_message)
        .part(8, wire::message().text(1, "").number(2, 19));
    return model.bytes();
  }
};

/// Captured tensors as initialisers w0, w1, …
inline void take_weights(builder& b, model_parts& to, const engine::tracer& traced, location at) {
  const std::size_t arguments = b.g.inputs.size() - traced.captures.size();
  for (std::size_t k = 0; k < traced.captures.size(); ++k) {
    const engine::captured& c = traced.captures[k];
    to.kept.push_back(io::detail::array_of(io::detail::handle_of(c), at));
    const auto bytes = to.kept.back().bytes();
    const std::string name = "w" + std::to_string(k);
    b.set(b.g.inputs[arguments + k], name);
    if (!to.all.taken.insert(name).second)
      fail("onnx::save", "the name '" + name + "' is a weight's; choose another", at);
    to.all.weights.push_back(
        {name, c.type, to.kept.back().extents, "", {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
  }
}

/// user_error [op] for ops without a counterpart.
inline void write_model(model_parts& to, const graph& g, const save_options& how, const char* op, location at) {
  const auto traced = g.traced();
  if (!traced->assumed.layout.guards.empty())
    fail(op,
         "the function has asked about its open sizes, and a model cannot choose by them; give numbers for these sizes",
         at);
  const ir::graph body = engine::ordinary(traced->graph);
  const std::size_t arguments = body.inputs.size() - traced->captures.size();
  const auto inputs = names_for(how.called.inputs, arguments, "x", to.all.taken, at);
  const auto outputs = names_for(how.called.outputs, body.outputs.size(), "y", to.all.taken, at);
  builder b(to.all, body);
  for (std::size_t k = 0; k < arguments; ++k) {
    b.set(body.inputs[k], inputs[k]);
    to.values.part(11, typed_value(inputs[k], body[body.inputs[k]], how.axes));
  }
  take_weights(b, to, *traced, at);
  name_sizes(b, traced->assumed.layout);
  write_nodes(b, body.live());
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    b.node_to("Identity", {b.full(body.outputs[k])}, {}, {outputs[k]});
    to.values.part(12, typed_value(outputs[k], body[body.outputs[k]], how.axes));
  }
  to.nodes = std::move(b.nodes);
  if (!to.all.refused.empty()) fail_refused(to.all.refused, op, at);
}

/// A graph as a model in memory.
inline std::string model_in_memory(const graph& g, const char* op, location at) {
  model_parts parts;
  write_model(parts, g, {}, op, at);
  return parts.bytes(initialisers_inside(parts.all.weights), "sinter");
}

}  // namespace out

SINTER_API void save(const std::string& path, const graph& g, const save_options& how, location at) {
  out::model_parts parts;
  out::write_model(parts, g, how, "onnx::save", at);
  std::size_t bytes = 0;
  for (const out::weight& w : parts.all.weights) bytes += w.bytes().size();
  std::string beside;
  const io::detail::folder_lock alone("onnx::save", path, at);
  const wire::message initialisers = bytes <= how.inline_bytes
                                         ? out::initialisers_inside(parts.all.weights)
                                         : out::initialisers_beside(parts.all.weights, path, beside, at);
  const std::string model = parts.bytes(initialisers, how.producer);
  const std::string_view file = model;
  io::detail::write_file("onnx::save", path, {&file, 1}, at);
  io::detail::remove_others(path + ".", ".data", beside);
}

SINTER_API std::vector<export_description> exported_ops() {
  return ir::counterparts(out::rows, "inputs, initialisers, If, Loop", "the ops that compute it");
}

}  // namespace sinter::onnx
