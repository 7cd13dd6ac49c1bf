// trace/saved_graph.hpp: the text of a saved graph: a header with sizes and weights, then the lines of ir/read.hpp.
#pragma once

#include "../engine/saved_graph.hpp"
#include "../ir/compose_attention.hpp"
#include "../ir/read.hpp"
#include "public_graph.hpp"

namespace sinter::engine {

namespace detail {

/// The upgrade of a line from an op-set to the next one. A new op-set whose lines differ appends a row; old files stay readable.
struct op_set_upgrade {
  int from = 0;
  std::string (*line)(std::string line) = nullptr;
};
inline constexpr std::span<const op_set_upgrade> op_set_upgrades;

/// A line of op-set `from` as the newest op-set has it.
inline std::string upgraded(std::string line, int from, std::span<const op_set_upgrade> rows = op_set_upgrades) {
  for (const op_set_upgrade& row : rows)
    if (row.from >= from) line = row.line(std::move(line));
  return line;
}

inline std::string size_line(std::size_t k, const open_size& s) {
  std::string out = "size s" + std::to_string(k) + " = ";
  if (s.derived) return out + "value " + s.value.text() + "\n";
  return out + "input " + std::to_string(s.extents[0].tensor) + " axis " + std::to_string(s.extents[0].axis) + " by " +
         std::to_string(s.factor) + " plus " + std::to_string(s.offset) + " most " +
         std::to_string(std::min(s.most, std::int64_t{1} << 60)) + "\n";
}

inline std::string guard_line(const size_guard& g) {
  return std::string("guard ") + (g.positive ? "positive" : "zero") + (g.holds ? " holds " : " fails ") +
         g.value.text() + "\n";
}

/// The lines of a saved graph's header.
class header_reader {
 public:
  explicit header_reader(text_of_graph& to) : to_(to) {}
  bool read(ir::ops::words& w) {
    if (w.takes("size s")) return read_size(w), true;
    if (w.takes("guard ")) return read_guard(w), true;
    if (w.takes("weight ")) return read_weight(w), true;
    return false;
  }

 private:
  void read_size(ir::ops::words& w) {
    if (w.count(1 << 16) != to_.layout.sizes.size()) w.refuse("sizes are numbered one after another");
    open_size s;
    w.expect(" = ");
    if (w.takes("value ")) {
      s.derived = true;
      s.value = w.size();
    } else {
      w.expect("input ");
      fact_of from;
      from.tensor = static_cast<int>(w.count(1 << 24));
      w.expect(" axis ");
      from.axis = static_cast<int>(w.count(max_rank - 1));
      s.extents = {from};
      s.factor = number(w, " by ");
      s.offset = number(w, " plus ");
      s.most = number(w, " most ");
      if (s.factor < 1) w.refuse("a size is a positive multiple");
    }
    end(w);
    to_.layout.sizes.push_back(std::move(s));
  }
  void read_guard(ir::ops::words& w) {
    size_guard g;
    g.positive = w.takes("positive ");
    if (!g.positive) w.expect("zero ");
    g.holds = w.takes("holds ");
    if (!g.holds) w.expect("fails ");
    g.value = w.size();
    end(w);
    to_.layout.guards.push_back(std::move(g));
  }
  void read_weight(ir::ops::words& w) {
    to_.weights.push_back(w.quoted());
    end(w);
  }
  static std::int64_t number(ir::ops::words& w, const char* word) {
    w.expect(word);
    return w.integer();
  }
  static void end(ir::ops::words& w) {
    if (!w.at_end()) w.refuse("'" + ir::ops::words::shown(w.rest()) + "' is too much");
  }
  text_of_graph& to_;
};

/// The functions of custom ops in graphs, by name and operands.
inline std::shared_ptr<const ir::foreign> custom_function(std::span<const graph> in, const std::string& name,
                                                          const series<ir::result_type>& operands,
                                                          const series<ir::result_type>& results) {
  const auto alike = [](dtype type, const ir::shape& extents, const ir::result_type& b) {
    return type == b.type && extents.size() == b.extents.size();
  };
  for (const graph& g : in)
    for (const graph::id id : g.order()) {
      const ir::node n = g[id];
      if (n.code != ir::op::opaque || n.attr.step->kind != ir::opaque_kind::custom) continue;
      const ir::opaque& step = *n.attr.step;
      bool same = step.function && step.function->name == name && n.in.size() == operands.size() &&
                  step.results.size() == results.size();
      for (std::size_t k = 0; same && k < operands.size(); ++k) {
        const ir::node x = g[n.in[k]];
        same = alike(x.type, x.extents, operands[k]);
      }
      for (std::size_t k = 0; same && k < results.size(); ++k)
        same = alike(step.results[k].type, step.results[k].extents, results[k]);
      if (same) return step.function;
    }
  return nullptr;
}

/// user_error unless the header fits the graph.
inline void check_header(const ir::text_lines& lines, const text_of_graph& all) {
  const ir::graph& g = all.body;
  if (all.weights.size() > g.inputs.size()) lines.refuse("there are more weights than inputs");
  const std::size_t arguments = g.inputs.size() - all.weights.size();
  for (const open_size& s : all.layout.sizes) {
    if (s.derived) continue;
    const auto tensor = static_cast<std::size_t>(s.extents[0].tensor),
               axis = static_cast<std::size_t>(s.extents[0].axis);
    if (tensor >= arguments || axis >= g[g.inputs[tensor]].extents.size())
      lines.refuse("a size is the extent of an argument that does not exist");
  }
  for (std::size_t k = arguments; k < g.inputs.size(); ++k)
    for (const ir::dim& d : g[g.inputs[k]].extents)
      if (!d.is_number() || *d.number() < 0) lines.refuse("a weight has an open size");
}

}  // namespace detail

SINTER_API std::string written(const graph& g) {
  const auto t = g.traced();
  const ir::graph body = ir::inlined(t->graph);
  std::string out = "sinter graph 1\nops " + std::to_string(ir::op_set) + "\n";
  const size_layout& layout = t->assumed.layout;
  for (std::size_t k = 0; k < layout.sizes.size(); ++k) out += detail::size_line(k, layout.sizes[k]);
  for (const size_guard& guard : layout.guards) out += detail::guard_line(guard);
  for (std::size_t k = 0; k < t->captures.size(); ++k) out += "weight \"" + weight_name(k) + "\"\n";
  return out + "graph\n" + ir::written(body) + "end\n";
}

SINTER_API text_of_graph read_graph(std::string_view text, const std::string& source, std::span<const graph> custom) {
  text_of_graph out;
  ir::text_lines lines(text, source);
  if (lines.next() != "sinter graph 1")
    lines.refuse("this is no saved graph, or one of a newer sinter: its first line is not 'sinter graph 1'");
  int version = 0;
  ir::saved_facts facts;
  detail::header_reader header(out);
  for (;;) {
    const std::string line(lines.next());
    // The sizes that guards and values name may follow.
    ir::ops::words w(line, source, lines.number(), 1 << 16);
    if (line == "graph") break;
    if (w.takes("ops ")) {
      version = static_cast<int>(w.count(1 << 20));
      if (version < 1 || version > ir::op_set)
        w.refuse("op-set " + std::to_string(version) + " is newer than this sinter's, " + std::to_string(ir::op_set) +
                 "; load it with a newer sinter");
    } else if (!header.read(w)) {
      w.refuse("'" + ir::ops::words::shown(line) + "' is no line of a header");
    }
  }
  if (version == 0) lines.refuse("the header has no op-set");
  facts.sizes = static_cast<int>(out.layout.sizes.size());
  facts.function = [custom](const std::string& name, const series<ir::result_type>& operands,
                            const series<ir::result_type>& results) {
    return detail::custom_function(custom, name, operands, results);
  };
  if (version < ir::op_set)
    facts.upgrade = [version](std::string line) { return detail::upgraded(std::move(line), version); };
  out.body = ir::read_graph(lines, facts);
  if (lines.next() != "end") lines.refuse("the graph does not end here");
  if (!lines.at_end()) lines.refuse("there is more after the end");
  detail::check_header(lines, out);
  return out;
}

SINTER_API graph graph_of(text_of_graph text, series<captured> weights) {
  const auto t = make_on_heap<tracer>();
  t->graph = std::move(text.body);
  t->assumed.layout = std::move(text.layout);
  for (captured& w : weights) t->captures.push_back(std::move(w));
  return graph(std::move(*t));  // memory for one graph, not two
}

SINTER_API ir::graph ordinary(const ir::graph& g) { return ir::compose_attention(ir::inlined(g), true); }

}  // namespace sinter::engine
