// report/page.hpp: a self-contained HTML page about one compiled specialisation.
#pragma once

#include "picture.hpp"

namespace sinter::engine::reporting {

/// The contents of a page besides the report.
struct page {
  struct snapshot {
    std::string after;  ///< the pass
    ir::graph g;
  };
  std::string name;
  series<snapshot> graphs;
  series<int> kernel;  ///< for the last graph: the kernel that computes each node, or -1
  series<block> memory;
};

namespace detail {

inline constexpr const char* page_style =
    "body{font:14px/1.45 system-ui,sans-serif;margin:2em;max-width:1240px;color:#222}"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}"
    "table{border-collapse:collapse}td,th{padding:.25em .7em;text-align:left;border-bottom:1px solid #ddd;"
    "vertical-align:top}td.n{text-align:right}"
    "pre{background:#f8f8f6;padding:.8em;overflow:auto;font-size:12px}details{margin:.5em 0}"
    ".picture{overflow:auto;border:1px solid #ddd;padding:4px}"
    "svg{display:block}svg text{font:12px ui-monospace,monospace}svg rect{stroke:#888;stroke-width:.7}"
    "svg .edge path{fill:none;stroke:#99a;stroke-width:1}"
    "pre .k{color:#7a3e9d}pre .n{color:#1c5fa8}pre .c{color:#6a7a6a}pre .s{color:#a33}pre .p{color:#96610f}";

inline bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

inline bool is_keyword(std::string_view w) {
  static const auto& words = *new sorted_set<std::string_view>{
      "alignas",  "auto",     "bool",     "break",    "case",  "char",   "const",  "constexpr", "continue", "double",
      "else",     "enum",     "extern",   "float",    "for",   "if",     "inline", "int",       "long",     "namespace",
      "operator", "requires", "restrict", "return",   "short", "signed", "sizeof", "static",    "struct",   "switch",
      "template", "typedef",  "typename", "unsigned", "using", "void",   "while"};
  return words.contains(w);
}

/// C++ or CUDA source as HTML: comments, directives, strings, keywords and numbers in spans.
inline std::string highlighted(std::string_view s) {
  std::string out;
  const auto span = [&](const char* kind, std::string_view text) {
    out += std::string("<span class=\"") + kind + "\">" + escaped(text) + "</span>";
  };
  bool line_start = true;
  for (std::size_t at = 0; at < s.size();) {
    const char c = s[at];
    std::size_t end = at + 1;
    const auto line_end = std::min(s.find('\n', at), s.size());
    if (c == '#' && line_start) {
      span("p", s.substr(at, (end = line_end) - at));
    } else if (s.substr(at, 2) == "//") {
      span("c", s.substr(at, (end = line_end) - at));
    } else if (s.substr(at, 2) == "/*") {
      const auto close = s.find("*/", at + 2);
      span("c", s.substr(at, (end = close == s.npos ? s.size() : close + 2) - at));
    } else if (c == '"') {
      while (end < line_end && s[end] != '"') end += s[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, line_end);
      span("s", s.substr(at, end - at));
    } else if (is_word(c)) {
      const bool number = c >= '0' && c <= '9';
      while (end < s.size() && (is_word(s[end]) || (number && s[end] == '.'))) ++end;
      const auto word = s.substr(at, end - at);
      if (number) span("n", word);
      else if (is_keyword(word)) span("k", word);
      else out += escaped(word);
    } else {
      out += escaped(s.substr(at, 1));
    }
    line_start = c == '\n' || (line_start && c == ' ');
    at = end;
  }
  return out;
}

/// The parts that differ between kernels; the prelude is the same in all.
inline std::string kernel_table(const report& r) {
  std::string out =
      "<table><tr><th></th><th>kernel</th><th>over</th><th>reads</th><th>writes</th><th>FLOPs</th>"
      "<th>code from</th><th>ms</th></tr>\n";
  for (std::size_t i = 0; i < r.steps.size(); ++i) {
    const kernel_report& k = r.steps[i];
    const std::string n = std::to_string(i);
    out += "<tr><td style=\"background:" + colour(static_cast<int>(i)) + "\">" + n + "</td><td><a href=\"#k" + n +
           "\">" + escaped(k.name) + "</a></td><td>" + escaped(k.space) + "</td><td class=\"n\">" + bytes(k.read) +
           "</td><td class=\"n\">" + bytes(k.written) + "</td><td class=\"n\">" + std::to_string(k.flops) +
           "</td><td>" + escaped(k.tier) + "</td><td class=\"n\">" + fixed(k.milliseconds, 1) + "</td></tr>\n";
  }
  return out + "</table>\n";
}

inline std::string kernel_details(const report& r) {
  std::string out;
  for (std::size_t i = 0; i < r.steps.size(); ++i) {
    const kernel_report& k = r.steps[i];
    out += "<details id=\"k" + std::to_string(i) + "\"><summary>kernel " + std::to_string(i) + ": " + escaped(k.name) +
           "</summary>\n<p>" + escaped(k.schedule) + "</p>\n<ul>";
    for (const auto& o : k.ops)
      out += "<li>" + escaped(o.type + " " + o.name) + " <small>" + escaped(place(o.where)) + "</small></li>";
    out += "</ul>\n";
    if (k.source >= 0) out += "<pre>" + highlighted(r.sources[static_cast<std::size_t>(k.source)]) + "</pre>\n";
    out += "</details>\n";
  }
  return out;
}

}  // namespace detail

/// The page. Every name in it is escaped; it refers to no other file.
SINTER_API std::string html(const page& p, const report& r) {
  const std::string name = escaped(p.name);
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" + name +
                    "</title>\n<style>" + detail::page_style + "</style>\n</head>\n<body>\n<h1>" + name +
                    "</h1>\n<pre>" + escaped(text(r)) + "</pre>\n<h2>Compilation</h2>\n<div class=\"picture\">\n" +
                    timeline(r) + "</div>\n<h2>Kernels</h2>\n" + detail::kernel_table(r);
  if (!r.apart.empty()) {
    out += "<p>Kernels that touch an array in common, and why they are not one:</p>\n<ul>\n";
    for (const auto& a : r.apart)
      out += "<li>" + std::to_string(a.first) + " and " + std::to_string(a.second) + ": " + escaped(a.why) + "</li>\n";
    out += "</ul>\n";
  }
  out += detail::kernel_details(r) +
         "<h2>Memory</h2>\n<p>Scratch for intermediates: across, kernels in order; down, the "
         "offset.</p>\n<div class=\"picture\">\n" +
         memory_plan(p.memory, r.steps.size()) + "</div>\n<h2>Graphs</h2>\n";
  for (std::size_t i = 0; i < p.graphs.size(); ++i) {
    const auto& s = p.graphs[i];
    const bool last = i + 1 == p.graphs.size();
    out += std::string("<details") + (last ? " open" : "") + "><summary>after " + escaped(s.after) + ": " +
           std::to_string(s.g.live().size()) + " nodes</summary>\n<div class=\"picture\">\n" +
           picture(s.g, last ? p.kernel : series<int>(), "the graph after " + s.after) + "</div>\n</details>\n";
  }
  return out + "</body>\n</html>\n";
}

}  // namespace sinter::engine::reporting
