// stablehlo/builder.hpp: a StableHLO function under construction: types, literals, operations, regions.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../ir/graph.hpp"
#include "../ir/literal_array.hpp"

namespace sinter::stablehlo::out {

using ir::node_id;
using extents_t = ir::detail::extents_t;

/// A value of the text and its type.
struct value {
  std::string name;
  dtype type = dtype::f32;
  extents_t extents;
  bool complex = false;  ///< numbers with two parts of the type
};
using values_t = std::vector<value>;

inline const char* element_name(dtype t) {
  switch (t) {
    case dtype::b8:
      return "i1";
    case dtype::u8:
      return "ui8";
    case dtype::u16:
      return "ui16";
    case dtype::u32:
      return "ui32";
    case dtype::u64:
      return "ui64";
    case dtype::f8_e4m3:
      return "f8E4M3FN";
    case dtype::f8_e5m2:
      return "f8E5M2";
    default:
      return dtype_name(t);
  }
}
inline std::string type_text(dtype t, const extents_t& extents, bool complex = false) {
  std::string out = "tensor<";
  for (const auto e : extents) out += std::to_string(e) + "x";
  return out + (complex ? std::string("complex<") + element_name(t) + ">" : element_name(t)) + ">";
}
inline std::string type_text(const value& x) { return type_text(x.type, x.extents, x.complex); }

inline bool is_empty(const extents_t& extents) { return std::find(extents.begin(), extents.end(), 0) != extents.end(); }

/// "array<i64: 1, 2>".
template <class List>
std::string array_text(const List& list, const char* of = "i64") {
  std::string out = std::string("array<") + of;
  const char* gap = ": ";
  for (const auto x : list) out += gap + std::to_string(x), gap = ", ";
  return out + ">";
}
/// "[1, 2]".
template <class List>
std::string list_text(const List& list) {
  std::string out = "[";
  for (const auto x : list) out += (out.size() > 1 ? ", " : "") + std::to_string(x);
  return out + "]";
}
inline std::string integer_text(std::int64_t n) { return std::to_string(n) + " : i64"; }

/// One literal: decimal, or the bits of a number that decimals do not express.
inline std::string literal_text(dtype t, ir::scalar x) {
  if (is_bool(t)) return x.i != 0 ? "true" : "false";
  if (!is_float(t))
    return visit_dtype(t, [&]<class T>(std::type_identity<T>) -> std::string {
      if constexpr (is_integer(dtype_of<T>)) return std::to_string(static_cast<T>(x.i));
      return "";
    });
  char text[40];
  if (std::isfinite(x.f))
    return {text, std::to_chars(text, text + sizeof text, x.f, std::chars_format::scientific, 17).ptr};
  return visit_dtype(t, [&]<class T>(std::type_identity<T>) -> std::string {
    if constexpr (is_float(dtype_of<T>)) {
      const T v = static_cast<T>(x.f);
      std::uint64_t bits = 0;
      std::memcpy(&bits, &v, sizeof v);
      std::snprintf(text, sizeof text, "0x%0*llX", static_cast<int>(2 * sizeof v),
                    static_cast<unsigned long long>(bits));
    }
    return text;
  });
}

/// Common to a module's regions.
struct module_state {
  std::size_t next = 0;
  std::set<std::string> refused;  ///< ops without a counterpart, in words
  std::string fresh() { return "%v" + std::to_string(next++); }
};

/// The operations of one region, and the values of a graph's nodes in it.
class builder {
 public:
  builder(module_state& all, const ir::graph& g, std::string indent)
      : all(all), g(g), indent_(std::move(indent)), values_(g.size()) {}

  module_state& all;
  const ir::graph& g;
  std::string lines;

  const ir::node& at(node_id id) const { return g[id]; }
  void set(node_id id, value x) { values_[id] = std::move(x); }
  /// The value of a node, which is written now if it has waited for a reader.
  const value& get(node_id id) {
    if (values_[id].name.empty()) late(*this, id);
    return values_[id];
  }
  void (*late)(builder& b, node_id id) = nullptr;
  value in(const ir::node& n, std::size_t k) { return get(n.in[k]); }

  /// The known extents of a node.
  static extents_t extents_of(const ir::shape& s) {
    extents_t out;
    for (const ir::dim& d : s) out.push_back(d.number().value_or(0));
    return out;
  }
  extents_t extents(node_id id) const { return extents_of(g[id].extents); }

  /// An operation with any results. `regions` are texts between braces.
  values_t operation(const std::string& name, const values_t& in, const values_t& results,
                     const std::string& attributes = "", const std::vector<std::string>& regions = {}) {
    values_t out = results;
    const std::string first = all.fresh();
    for (std::size_t k = 0; k < out.size(); ++k)
      out[k].name = out.size() == 1 ? first : first + "#" + std::to_string(k);
    lines += indent_;
    if (!out.empty()) lines += first + (out.size() == 1 ? "" : ":" + std::to_string(out.size())) + " = ";
    lines += "\"" + name + "\"(" + names(in) + ")";
    for (std::size_t k = 0; k < regions.size(); ++k) lines += (k == 0 ? " ({\n" : ", {\n") + regions[k] + indent_ + "}";
    if (!regions.empty()) lines += ")";
    if (!attributes.empty()) lines += " {" + attributes + "}";
    lines += " : (" + types(in) + ") -> " + (out.size() == 1 ? types(out) : "(" + types(out) + ")") + "\n";
    return out;
  }
  value op(const char* name, const values_t& in, dtype type, const extents_t& extents,
           const std::string& attributes = "", const std::vector<std::string>& regions = {}) {
    return operation(std::string("stablehlo.") + name, in, {{"", type, extents}}, attributes, regions)[0];
  }
  /// An elementwise operation whose result has the type of its first operand.
  value same(const char* name, const values_t& in) { return op(name, in, in[0].type, in[0].extents); }

  /// A tensor of one literal.
  value constant(dtype t, ir::scalar x, const extents_t& extents = {}) {
    const std::string literal = is_empty(extents) ? "" : literal_text(t, x);
    const std::string text = "value = dense<" + literal + "> : " + type_text(t, extents);
    const auto known = known_.find(text);
    if (known != known_.end()) return {known->second, t, extents};
    const value out = op("constant", {}, t, extents, text);
    known_.emplace(text, out.name);
    return out;
  }
  value number(double x, const value& like) { return constant(like.type, ir::scalar::of(like.type, x), like.extents); }
  value infinity(const value& like) {
    return constant(like.type, {std::numeric_limits<double>::infinity(), 0}, like.extents);
  }
  value nothing(dtype t, const extents_t& extents) { return constant(t, {}, extents); }

  value compare(const value& a, const char* how, const value& b) {
    return op("compare", {a, b}, dtype::b8, a.extents,
              std::string("comparison_direction = #stablehlo<comparison_direction ") + how + ">");
  }
  value select(const value& where, const value& a, const value& b) {
    return op("select", {where, a, b}, a.type, a.extents);
  }
  /// The conversion of StableHLO, whose result is defined where the result's type has the number.
  value convert(const value& x, dtype t) { return x.type == t ? x : op("convert", {x}, t, x.extents); }
  value reshape(const value& x, const extents_t& to) { return x.extents == to ? x : op("reshape", {x}, x.type, to); }
  value transpose(const value& x, const std::vector<std::int64_t>& perm) {
    extents_t to;
    bool moves = false;
    for (std::size_t k = 0; k < perm.size(); ++k) {
      to.push_back(x.extents[static_cast<std::size_t>(perm[k])]);
      moves = moves || perm[k] != static_cast<std::int64_t>(k);
    }
    return moves ? op("transpose", {x}, x.type, to, "permutation = " + array_text(perm)) : x;
  }
  value iota(dtype t, const extents_t& extents, std::int64_t axis) {
    return op("iota", {}, t, extents, "iota_dimension = " + integer_text(axis));
  }
  /// The first `count` of each axis from `start`, by positive steps.
  value slice(const value& x, const extents_t& start, const extents_t& count, const extents_t& step) {
    extents_t limit = start;
    for (std::size_t k = 0; k < start.size(); ++k) limit[k] += count[k] == 0 ? 0 : (count[k] - 1) * step[k] + 1;
    return op("slice", {x}, x.type, count,
              "limit_indices = " + array_text(limit) + ", start_indices = " + array_text(start) +
                  ", strides = " + array_text(step));
  }
  value concatenate(const values_t& in, std::int64_t axis) {
    extents_t to = in[0].extents;
    auto& along = to[static_cast<std::size_t>(axis)];
    along = 0;
    for (const value& x : in) along += x.extents[static_cast<std::size_t>(axis)];
    return op("concatenate", in, in[0].type, to, "dimension = " + integer_text(axis));
  }

  /// A region that combines numbers by one operation.
  std::string combining(const char* name, dtype t, std::size_t second_only = 0) {
    builder r = region();
    const value a{all.fresh(), t, {}}, b{all.fresh(), t, {}};
    const std::string head = header({a, b});
    r.finish({second_only ? b : r.same(name, {a, b})});
    return head + r.lines;
  }
  /// A region of the same graph, without the values of its nodes.
  builder region() const { return {all, g, indent_ + "  "}; }
  builder region(const ir::graph& part) const { return {all, part, indent_ + "  "}; }
  std::string header(const values_t& arguments) const {
    std::string out = indent_ + "^bb0(";
    for (std::size_t k = 0; k < arguments.size(); ++k)
      out += (k ? ", " : "") + arguments[k].name + ": " + type_text(arguments[k]);
    return out + "):\n";
  }
  void finish(const values_t& results, const char* by = "stablehlo.return") { operation(by, results, {}); }

  /// Notes that a node has no counterpart; it has a value all the same, so that all refusals are found.
  value refuse(const ir::node& n, const std::string& what, const std::string& why = "") {
    all.refused.insert(sinter::detail::located(what + (why.empty() ? "" : " (" + why + ")"), n.where));
    return {"%refused", n.type, extents_of(n.extents)};
  }

  static std::string types(const values_t& of) {
    std::string out;
    for (const value& x : of) out += (out.empty() ? "" : ", ") + type_text(x);
    return out;
  }

 private:
  static std::string names(const values_t& of) {
    std::string out;
    for (const value& x : of) out += (out.empty() ? "" : ", ") + x.name;
    return out;
  }
  std::string indent_;
  std::vector<value> values_;
  std::map<std::string, std::string> known_;  ///< constants of this region
};

}  // namespace sinter::stablehlo::out
