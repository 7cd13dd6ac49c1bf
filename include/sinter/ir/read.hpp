// ir/read.hpp: a graph as lines of a saved file, and back. Each record reads what it prints.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "../base/kept.hpp"
#include "../base/series.hpp"
#include "graph.hpp"
#include "ops/table.hpp"
#include "push_opaque.hpp"

namespace sinter::ir {

/// The version of the lines that written() makes. A change of an op's line adds an upgrade. (trace/saved_graph.hpp)
inline constexpr int op_set = 1;

/// What the lines of a saved graph rely on.
struct saved_facts {
  int sizes = 0;  ///< the number of size symbols
  /// The function of a custom op, or null.
  callback<std::shared_ptr<const foreign>(const std::string& name, const series<result_type>& operands,
                                          const series<result_type>& results)>
      function;
  callback<std::string(std::string)> upgrade;  ///< of lines of an older op-set
};

namespace detail {

inline std::string in_quotes(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out + "\"";
}

/// The head of a step without numbers of this process and without derivative rules.
inline std::string saved_head(const opaque& s, const location& where) {
  if (s.kind == opaque_kind::host_call)
    fail("save_graph",
         "the graph calls a function of the host, which a file cannot hold; save a function without host_call", where);
  opaque head;
  head.kind = s.kind;
  head.carried = s.carried;
  head.sliced = s.sliced;
  head.stacked = s.stacked;
  head.length = s.length;
  head.reverse = s.reverse;
  head.again = s.again;
  head.stays = s.stays;
  head.results = s.results;
  std::string out = head_of(head);
  if (s.kind == opaque_kind::custom)
    out.insert(std::string(name(s)).size(), " " + in_quotes(s.function ? s.function->name : ""));
  return out;
}

inline void write_graph(std::string& out, const graph& g, const std::string& indent) {
  const auto live = g.live();
  series<node_id> dense(g.size(), no_node);
  for (std::size_t i = 0; i < live.size(); ++i) dense[live[i]] = static_cast<node_id>(i);
  for (auto id : live) {
    const node& n = g[id];
    out +=
        indent + "%" + std::to_string(dense[id]) + " = " + dtype_name(n.type) + text_of(n.extents) + " " + name(n.code);
    if (n.code == op::opaque) out += " " + saved_head(*n.attr.step, n.where);
    else if (!is_pointwise(n.code)) out += ops::record_of(n.code).text(n);
    else if (!n.attr.ints.empty()) out += " mark=" + std::to_string(n.attr.ints[0]);
    if (n.code == op::constant && !n.attr.ints.empty()) out += " source=" + std::to_string(n.attr.ints[0]);
    for (auto operand : n.in) out += " %" + std::to_string(dense[operand]);
    if (n.where.line) out += " at " + in_quotes(n.where.file) + ":" + std::to_string(n.where.line);
    if (n.attr.step)
      for (const graph& part : n.attr.step->parts) {
        out += " {\n";
        write_graph(out, part, indent + "  ");
        out += indent + "}";
      }
    out += "\n";
  }
  out += indent + "return";
  for (auto id : g.outputs) out += " %" + std::to_string(dense[id]);
  out += "\n";
}

}  // namespace detail

/// The lines of a graph, with places; calls are replaced by their parts. user_error for a graph that calls the host.
SINTER_API std::string written(const graph& g) {
  std::string out;
  detail::write_graph(out, inlined(g), "");
  return out;
}

/// Takes the lines of a text one by one.
class text_lines {
 public:
  text_lines(std::string_view text, const std::string& source) : rest_(text), source_(source) {}
  const std::string& source() const { return source_; }
  std::size_t number() const { return number_; }
  /// The next line, without spaces before it; refuses the end of the text.
  std::string_view next() {
    if (rest_.empty()) refuse("the text ends too early");
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    while (!line.empty() && line[0] == ' ') line.remove_prefix(1);
    return line;
  }
  bool at_end() const { return rest_.empty(); }
  [[noreturn]] void refuse(const std::string& what) const { ops::words::refuse_line(source_, number_, what); }

 private:
  std::string_view rest_;
  const std::string& source_;
  std::size_t number_ = 0;
};

namespace detail {

/// Reads the lines that write_graph() wrote.
class graph_reader {
 public:
  graph_reader(text_lines& lines, const saved_facts& facts) : lines_(lines), facts_(facts) {}

  graph run(int depth) {
    if (depth > 32) lines_.refuse("branches and loops are nested too deeply");
    graph g;
    series<node_id> ids, inputs;
    for (;;) {
      const std::string line = facts_.upgrade ? facts_.upgrade(std::string(lines_.next())) : std::string(lines_.next());
      ops::words w(line, lines_.source(), lines_.number(), facts_.sizes);
      if (w.takes("return")) {
        while (!w.at_end()) {
          w.expect(" ");
          g.outputs.push_back(known(w, g, ids));
        }
        break;
      }
      w.expect("%");
      if (w.count(1 << 30) != ids.size())
        w.refuse("nodes are numbered one after another; %" + std::to_string(ids.size()) + " is next");
      ids.push_back(read_node(g, w, ids, inputs, depth));
    }
    order(g, inputs);
    return g;
  }

 private:
  static node_id known(ops::words& w, const graph& g, const series<node_id>& ids) {
    w.expect("%");
    const std::size_t k = w.count(1 << 30);
    if (k >= ids.size()) w.refuse("%" + std::to_string(k) + " is not defined above");
    if (g[ids[k]].code == op::opaque) w.refuse("%" + std::to_string(k) + " has no value; read a pick of it");
    return ids[k];
  }

  static op op_named(ops::words& w) {
    const std::string_view word = w.name();
    for (int k = 0; k < pointwise_count + static_cast<int>(std::size(structural_rows)); ++k)
      if (word == name(static_cast<op>(k))) return static_cast<op>(k);
    w.refuse("there is no op '" + ops::words::shown(word) + "' in op-set " + std::to_string(op_set));
  }

  node_id read_node(graph& g, ops::words& w, const series<node_id>& ids, series<node_id>& inputs, int depth) {
    w.expect(" = ");
    node n;
    n.type = w.type();
    n.extents = w.sizes();
    w.expect(" ");
    n.code = op_named(w);
    if (!is_pointwise(n.code)) {
      ops::record_of(n.code).read(w, n);
    } else {
      if (names_type(row(n.code).rule)) n.attr.type = n.type;
      if (w.takes(" mark=")) n.attr.ints = {w.integer()};
    }
    while (w.takes(" %")) {
      const std::size_t k = w.count(1 << 30);
      if (k >= ids.size()) w.refuse("%" + std::to_string(k) + " is not defined above");
      if (g[ids[k]].code == op::opaque && n.code != op::pick)
        w.refuse("%" + std::to_string(k) + " has no value; read a pick of it");
      n.in.push_back(ids[k]);
    }
    if (w.takes(" at ")) {
      const std::string file = w.quoted();
      w.expect(":");
      n.where = sinter::detail::kept(location{file.c_str(), static_cast<int>(w.count(1 << 30))});
    }
    const std::size_t at = lines_.number();
    if (n.code == op::opaque) read_step(g, w, n, depth);
    else if (w.rest().substr(0, 2) == " {") read_part(w, n, depth);
    if (!w.at_end()) w.refuse("'" + ops::words::shown(w.rest()) + "' is too much");
    return added(g, std::move(n), inputs, at);
  }

  void read_parts(ops::words& w, opaque& s, int depth) {
    bool more = w.takes(" {");
    while (more) {
      if (s.parts.size() == 2) w.refuse("a step has two parts at most");
      s.parts.push_back(run(depth + 1));
      const std::string_view rest = lines_.next();
      if (rest != "}" && rest != "} {") lines_.refuse("expected '}' before '" + ops::words::shown(rest) + "'");
      more = rest == "} {";
    }
  }

  /// The graphs that a structural op computes with.
  void read_part(ops::words& w, node& n, int depth) {
    opaque s;
    s.kind = opaque_kind::part;
    read_parts(w, s, depth);
    for (const graph& part : s.parts)
      if (!part.effects.empty()) lines_.refuse("a file calls no function of the host");
    n.attr.step = seal(std::move(s));
  }

  void read_step(const graph& g, ops::words& w, node& n, int depth) {
    opaque s = std::move(w.step);
    const series<result_type> promised = std::move(s.results);
    s.results = {};
    const std::string function = std::move(s.text);
    s.text.clear();
    if (s.kind == opaque_kind::custom) {
      s.results = promised;
      series<result_type> operands;
      for (const node_id x : n.in) operands.push_back({g[x].type, g[x].extents});
      s.function = facts_.function ? facts_.function(function, operands, promised) : nullptr;
      if (!s.function)
        w.refuse("the custom op " + in_quotes(ops::words::shown(function)) +
                 " is not known here; pass a graph that contains it: load_graph(path, {trace(op)(...)})");
    } else if (s.kind == opaque_kind::host_call) {
      w.refuse("a file calls no function of the host");
    }
    if (s.kind == opaque_kind::loop && n.in.size() >= s.carried + s.sliced)
      s.constants = n.in.size() - s.carried - s.sliced;
    if (s.kind == opaque_kind::while_loop && n.in.size() >= s.carried) s.constants = n.in.size() - s.carried;
    read_parts(w, s, depth);
    check_outputs(s);
    n.attr.step = seal(std::move(s));
    const auto same = [](const result_type& a, const result_type& b) {
      return a.type == b.type && a.extents == b.extents;
    };
    const auto& made = n.attr.step->results;
    if (made.size() != promised.size() || !std::equal(made.begin(), made.end(), promised.begin(), same))
      lines_.refuse("the step's results are not those that its line promises");
  }

  /// seal() reads outputs by number.
  void check_outputs(const opaque& s) const {
    const std::size_t parts = s.kind == opaque_kind::custom                                      ? 0
                              : s.kind == opaque_kind::cond || s.kind == opaque_kind::while_loop ? 2
                                                                                                 : 1;
    if (s.parts.size() != parts)
      lines_.refuse("the step has " + std::to_string(s.parts.size()) + " parts, not " + std::to_string(parts));
    if (s.kind == opaque_kind::loop && s.parts[0].outputs.size() != s.carried + s.stacked)
      lines_.refuse("the loop's body has another number of results");
    if (s.kind == opaque_kind::while_loop && s.parts[1].outputs.size() != s.carried)
      lines_.refuse("the loop's body has another number of results");
    for (const graph& part : s.parts)
      if (!part.effects.empty()) lines_.refuse("a file calls no function of the host");
  }

  node_id added(graph& g, node n, series<node_id>& inputs, std::size_t line) {
    const dtype type = n.type;
    const shape extents = n.extents;
    node_id id = no_node;
    try {
      if (n.code == op::input) {
        if (!n.in.empty()) lines_.refuse("an input has no operands");
        const std::int64_t place = n.attr.ints[0];
        if (place < 0 || place > 1 << 24) lines_.refuse("an input has no such place");
        id = g.add_input(type, extents, n.where);
        if (inputs.size() <= static_cast<std::size_t>(place)) {
          if (static_cast<std::size_t>(place) > line + lines_.number()) lines_.refuse("an input has no such place");
          inputs.resize(static_cast<std::size_t>(place) + 1, no_node);
        }
        if (inputs[static_cast<std::size_t>(place)] != no_node) lines_.refuse("two inputs have one place");
        inputs[static_cast<std::size_t>(place)] = id;
        return id;
      }
      id = g.push(n.code, std::move(n.in), std::move(n.attr), n.where);
    } catch (const error& problem) {
      const std::string what = problem.what();
      if (what.rfind("[load_graph]", 0) == 0) throw;
      ops::words::refuse_line(lines_.source(), line, what);
    }
    if (g[id].type != type || !(g[id].extents == extents))
      ops::words::refuse_line(lines_.source(), line,
                              "the line says " + std::string(dtype_name(type)) + text_of(extents) +
                                  ", but the op gives " + dtype_name(g[id].type) + text_of(g[id].extents));
    return id;
  }

  void order(graph& g, const series<node_id>& inputs) const {
    for (const node_id id : inputs)
      if (id == no_node) lines_.refuse("an input is missing");
    if (!inputs.empty()) g.order_inputs(inputs);
  }

  text_lines& lines_;
  const saved_facts& facts_;
};

}  // namespace detail

SINTER_API graph read_graph(text_lines& lines, const saved_facts& facts) {
  return detail::graph_reader(lines, facts).run(0);
}

}  // namespace sinter::ir
