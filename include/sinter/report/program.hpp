// report/program.hpp: a graph and its inputs -> C++ code that builds them again, for minimize().
#pragma once

#include <cmath>
#include <limits>

#include "../base/text.hpp"
#include "../ir/graph.hpp"
#include "../ir/vocabulary.hpp"

namespace sinter::engine::reporting {

/// An input in the program's notation.
struct spelled_input {
  ir::literal_array value;
  series<std::int64_t> strides;  ///< none: row-major
  std::uint64_t seed = 0;        ///< not 0: the value is engine::random_values with this seed
};

namespace detail {

inline std::string spelled(dtype t) { return "dtype::" + std::string(is_bool(t) ? "b8" : sinter::dtype_name(t)); }

inline std::string spelled(std::int64_t x) {
  return x == std::numeric_limits<std::int64_t>::min() ? "std::numeric_limits<std::int64_t>::min()" : std::to_string(x);
}

inline std::string spelled(double x) {
  if (vocabulary::isnan(x)) return "NAN";
  if (vocabulary::isinf(x)) return x < 0 ? "-INFINITY" : "INFINITY";
  return x == 0 && std::signbit(x) ? "-0.0" : text::number(x);
}

inline std::string spelled(const ir::dim& d) { return d.is_number() ? spelled(*d.number()) : d.text(); }

/// The operators that the extents of a graph need besides +, * and binary -.
inline std::string operators(const ir::graph& g) {
  bool divides = false, negates = false;
  for (ir::node_id id = 0; id < g.size(); ++id)
    for (const auto& d : g[id].attr.dims) {
      const std::string text = d.is_number() ? "" : d.text();
      divides = divides || text.find('/') != std::string::npos;
      negates = negates || text.starts_with("-") || text.find("(-") != std::string::npos;
    }
  std::string out;
  if (divides)
    out +=
        "sinter::ir::dim operator/(const sinter::ir::dim& a, const sinter::ir::dim& b) { return floor_div(a, b); }\n";
  if (negates) out += "sinter::ir::dim operator-(const sinter::ir::dim& a) { return a * sinter::ir::dim(-1); }\n";
  return out + (out.empty() ? "" : "\n");
}

template <class Range>
std::string list(const Range& of) {
  std::string out = "{";
  std::size_t on_line = 0;
  for (const auto& x : of) {
    if (out.size() > 1) out += ",";
    if (out.size() - on_line > 100) {
      out += "\n       ";
      on_line = out.size();
    } else if (out.size() > 1) {
      out += " ";
    }
    out += spelled(x);
  }
  return out + "}";
}

inline std::string attributes(const ir::attributes& a) {
  const ir::attributes none;
  std::string out;
  const auto field = [&](bool differs, const char* name, const std::string& value) {
    if (differs) out += std::string(out.empty() ? "" : ", ") + "." + name + " = " + value;
  };
  field(a.type != none.type, "type", spelled(a.type));
  field(a.combiner != none.combiner, "combiner", std::string("ir::op::") + ir::name(a.combiner));
  field(!a.ints.empty(), "ints", list(a.ints));
  field(!a.dims.empty(), "dims", list(a.dims));
  field(!(a.literal == none.literal), "literal", "{" + spelled(a.literal.f) + ", " + spelled(a.literal.i) + "}");
  return out.empty() ? "" : ", {" + out + "}";
}

inline std::string comment(const std::string& text) {
  std::string out = "// ";
  for (const char c : text) {
    // A backslash would continue the comment on the next line.
    out += c == '\\' ? '/' : c;
    if (c == '\n') out += "// ";
  }
  return out + "\n";
}

}  // namespace detail

/// A program that returns 1 while verify() finds an error in the graph. All nodes of the graph are live, and its size symbols
/// are the first `symbols`. `settings` are fields of options.
SINTER_API std::string program(const ir::graph& g, const series<spelled_input>& inputs, std::size_t symbols,
                               const std::string& what, const std::string& settings, const std::string& device) {
  std::string out = detail::comment("Written by sinter::minimize. It found:\n" + what) +
                    "// Build it like any program that uses sinter; it returns 1 as long as this happens.\n"
                    "#include <cmath>\n#include <cstdio>\n#include <limits>\n\n"
                    "#include <sinter/sinter.hpp>\n\n" +
                    detail::operators(g) +
                    "int main() {\n  using namespace sinter;\n  ir::graph g;\n  series<ir::node_id> n;\n";
  for (std::size_t k = 0; k < symbols; ++k) {
    const std::string index = std::to_string(k);
    out += "  const ir::dim s" + index + " = ir::dim::symbol(" + index + ");\n";
  }
  for (ir::node_id id = 0; id < g.size(); ++id) {
    const ir::node& x = g[id];
    if (x.code == ir::op::input) {
      out += "  n.push_back(g.add_input(" + detail::spelled(x.type) + ", " + detail::list(x.extents) + "));\n";
      continue;
    }
    out += std::string("  n.push_back(g.push(ir::op::") + ir::name(x.code) + ", {" +
           text::join(x.in, ", ", [](ir::node_id in) { return "n[" + std::to_string(in) + "]"; }) + "}" +
           detail::attributes(x.attr) + "));\n";
  }
  out += "  g.outputs = {" +
         text::join(g.outputs, ", ", [](ir::node_id id) { return "n[" + std::to_string(id) + "]"; }) +
         "};\n  series<engine::example> inputs;\n";
  for (const auto& x : inputs) {
    const std::string type = detail::spelled(x.value.type), extents = detail::list(x.value.extents);
    out += "  inputs.push_back({";
    if (x.seed) out += "engine::random_values(" + type + ", " + extents + ", " + std::to_string(x.seed) + ")";
    else out += "{" + type + ", " + extents + ", " + detail::list(x.value.f) + ", " + detail::list(x.value.i) + "}";
    out += (x.strides.empty() ? "" : ", " + detail::list(x.strides)) + "});\n";
  }
  return out + "  const verification found = engine::verify(g, inputs, {" + settings + "}, " + device +
         ");\n  std::puts(found.text().c_str());\n  return found ? 0 : 1;\n}\n";
}

}  // namespace sinter::engine::reporting
