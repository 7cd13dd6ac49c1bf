// onnx/exporter.hpp: an ONNX graph under construction: names, nodes, constants, sizes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../ir/graph.hpp"
#include "../ir/literal_array.hpp"
#include "message.hpp"

namespace sinter::onnx::out {

using ir::node_id;
using names_t = std::vector<std::string>;
using attributes_t = std::vector<wire::message>;

/// An initialiser: elements of the host's memory, row-major.
struct weight {
  std::string name;
  dtype type = dtype::f32;
  std::vector<std::int64_t> extents;
  std::string own;            ///< elements made here
  std::string_view elements;  ///< or elsewhere
  std::string_view bytes() const { return own.empty() ? elements : std::string_view(own); }
};

/// Common to a model's graphs.
struct model_state {
  std::size_t next = 0;
  std::vector<weight> weights;
  std::set<std::string> refused;             ///< ops without a counterpart, in words
  std::map<std::string, std::string> known;  ///< constants by dtype, extents and bytes
  names_t sizes;                             ///< the tensors of size symbols, i64 of shape (1,), where known
  std::set<std::string> taken;               ///< names of inputs, results and weights
  std::string fresh() {
    for (;;)
      if (std::string name = "v" + std::to_string(next++); !taken.contains(name)) return name;
  }
};

/// One graph, or a branch's or a loop's. Names of values of outer graphs are usable in inner ones.
class builder {
 public:
  builder(model_state& all, const ir::graph& g) : all(all), g(g), name_(g.size()) {}

  model_state& all;
  const ir::graph& g;
  wire::message nodes;  ///< fields 1 of the GraphProto

  /// A node with `results` results; returns their names.
  names_t node(const std::string& op, const names_t& inputs, const attributes_t& attributes, std::size_t results) {
    names_t out;
    for (std::size_t k = 0; k < results; ++k) out.push_back(all.fresh());
    node_to(op, inputs, attributes, out);
    return out;
  }
  std::string node(const std::string& op, const names_t& inputs, const attributes_t& attributes = {}) {
    return node(op, inputs, attributes, 1)[0];
  }
  void node_to(const std::string& op, const names_t& inputs, const attributes_t& attributes, const names_t& outputs) {
    wire::message m;
    for (const auto& x : inputs) m.text(1, x);
    for (const auto& y : outputs) m.text(2, y);
    m.text(3, "n" + std::to_string(all.next++)).text(4, op);
    for (const auto& a : attributes) m.part(5, a);
    nodes.part(1, m);
  }

  void set(node_id id, std::string name) { name_[id] = std::move(name); }
  const ir::node& at(node_id id) const { return g[id]; }
  /// The value of a node with all its extents.
  std::string full(node_id id) {
    if (name_[id].empty() && g[id].code == ir::op::constant)
      name_[id] = expanded(literal(g[id].type, g[id].attr.literal), g[id].extents);
    else if (name_[id].empty()) late(*this, id);
    return name_[id];
  }
  void (*late)(builder& b, node_id id) = nullptr;  ///< writes a node that waited for a reader
  /// The value, or something that broadcasts to it.
  std::string broadcastable(node_id id) {
    if (g[id].code == ir::op::constant) return literal(g[id].type, g[id].attr.literal);
    if (g[id].code == ir::op::broadcast) return broadcastable(g[id].in[0]);
    return full(id);
  }

  /// A rank-0 constant.
  std::string literal(dtype t, ir::scalar x) {
    ir::literal_array one{t, {}, {}, {}};
    if (is_float(t)) one.f = {x.f};
    else one.i = {x.i};
    return constant(std::move(one));
  }
  std::string literal(dtype t, double x) { return literal(t, ir::scalar::of(t, x)); }
  std::string list(const std::vector<std::int64_t>& v) {
    ir::literal_array a{dtype::i64, {static_cast<std::int64_t>(v.size())}, {}, {}};
    for (const auto x : v) a.i.push_back(x);
    return constant(std::move(a));
  }
  std::string constant(ir::literal_array x);

  /// An extent as an i64 tensor of shape (1,).
  std::string size(const ir::dim& d);
  /// Extents as an i64 tensor.
  std::string sizes(std::span<const ir::dim> all_of) {
    std::vector<std::int64_t> numbers;
    for (const ir::dim& d : all_of)
      if (d.is_number()) numbers.push_back(*d.number());
    if (numbers.size() == all_of.size()) return list(numbers);
    names_t parts;
    for (const ir::dim& d : all_of) parts.push_back(size(d));
    return node("Concat", parts, {wire::int_attribute("axis", 0)});
  }
  std::string expanded(const std::string& x, const ir::shape& to) {
    return to.empty() ? x : node("Expand", {x, sizes(to)});
  }
  std::string reshaped(const std::string& x, std::span<const ir::dim> to) {
    return node("Reshape", {x, sizes(to)}, {wire::int_attribute("allowzero", 1)});
  }
  std::string transposed(const std::string& x, std::vector<std::int64_t> perm) {
    bool same = true;
    for (std::size_t k = 0; k < perm.size(); ++k) same = same && perm[k] == static_cast<std::int64_t>(k);
    return same ? x : node("Transpose", {x}, {wire::ints_attribute("perm", std::move(perm))});
  }
  std::string cast(const std::string& x, dtype to) {
    attributes_t how{wire::int_attribute("to", wire::data_type(to))};
    // Beyond its range a narrow float is infinite or NaN, not the largest number.
    if (is_float(to) && size_of(to) == 1) how.push_back(wire::int_attribute("saturate", 0));
    return node("Cast", {x}, how);
  }

  /// Notes that a node has no counterpart; its value has a name all the same, so that all refusals are found.
  std::string refuse(const ir::node& n, const std::string& what, const std::string& why) {
    all.refused.insert(sinter::detail::located(what + (why.empty() ? "" : " (" + why + ")"), n.where));
    return "refused";
  }

 private:
  std::vector<std::string> name_;
};

inline std::string builder::constant(ir::literal_array x) {
  const std::size_t count = static_cast<std::size_t>(ir::detail::count_of(x.extents));
  weight w;
  w.type = x.type;
  w.extents.assign(x.extents.begin(), x.extents.end());
  w.own.resize(count * size_of(x.type));
  visit_dtype(x.type, [&]<class T>(std::type_identity<T>) {
    for (std::size_t k = 0; k < count; ++k) {
      T v{};
      if constexpr (is_float(dtype_of<T>)) v = static_cast<T>(x.f[k]);
      else v = static_cast<T>(x.i[k]);
      std::memcpy(w.own.data() + k * sizeof(T), &v, sizeof(T));
    }
  });
  std::string key = std::to_string(static_cast<int>(x.type)) + ":";
  for (const auto e : w.extents) key += std::to_string(e) + ",";
  key += w.own;
  const auto [known, fresh] = all.known.emplace(std::move(key), "");
  if (!fresh) return known->second;
  w.name = all.fresh();
  known->second = w.name;
  all.weights.push_back(std::move(w));
  return known->second;
}

/// Nodes that compute an extent, from its text: sums of products of numbers, symbols and quotients.
class size_nodes {
 public:
  size_nodes(builder& to, std::string_view text) : to_(to), rest_(text) {}
  std::string sum() {
    std::string out = takes("-") ? to_.node("Neg", {product()}) : product();
    for (;;) {
      if (takes(" + ")) out = to_.node("Add", {out, product()});
      else if (takes(" - ")) out = to_.node("Sub", {out, product()});
      else return out;
    }
  }

 private:
  bool takes(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  std::int64_t number() {
    std::int64_t n = 0;
    for (; !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; rest_.remove_prefix(1)) n = n * 10 + (rest_[0] - '0');
    return n;
  }
  std::string product() {
    std::string out = factor();
    while (takes("*")) out = to_.node("Mul", {out, factor()});
    return out;
  }
  std::string factor() {
    if (takes("((")) {
      const std::string a = sum();
      takes(")/(");
      const std::string b = sum();
      takes("))");
      return to_.node("Div", {a, b});
    }
    if (!takes("s")) return to_.list({number()});
    const auto k = static_cast<std::size_t>(number());
    if (k < to_.all.sizes.size() && !to_.all.sizes[k].empty()) return to_.all.sizes[k];
    to_.all.refused.insert("the size s" + std::to_string(k) + ", which no input shows");
    return "refused";
  }
  builder& to_;
  std::string_view rest_;
};

inline std::string builder::size(const ir::dim& d) {
  if (const auto n = d.number()) return list({*n});
  const std::string text = d.text();
  return size_nodes(*this, text).sum();
}

}  // namespace sinter::onnx::out
