// plan/attention.hpp: which attention becomes kernels by recipes; other attention is composed of products and a softmax.
#pragma once

#include <memory>
#include <string>

#include "../ir/polynomial.hpp"
#include "loops/build.hpp"
#include "lowering/lower.hpp"
#include "schedule/recipes.hpp"

namespace sinter::engine::plan {

/// The least sizes for which kernels take less time than the composition. A gradient's kernels multiply 7 times where the composition
/// multiplies 5 times. They pay where the composition's matrices exceed the caches by far, or the memory.
struct attention_limits {
  std::int64_t min_places = 48, min_features = 8;  ///< blocks of less would be mostly empty
  std::int64_t keys = 256, bounded_keys = 128;     ///< of the forward pass; less if a mask bounds the loops
  double gradient_bytes = 512.0 * (1 << 20), bounded_gradient_bytes = 32.0 * (1 << 20);  ///< of the scores
  std::int64_t open_places = 256;  ///< stands for an open number of queries or keys
};
/// On a GPU each kernel less is time saved, and scores in memory cost more than their products.
constexpr attention_limits gpu_limits{16, 8, 64, 64, 0, 0};
/// Wherever a recipe takes a node.
constexpr attention_limits no_limits{48, 8, 0, 0, 0, 0};

/// Decides by lowering a node alone, as its kernel will be, and by the work of its loops. Equal nodes are decided once.
class attention_choice {
 public:
  /// `print` throws refusal if the target has no text for a tree; null: it has one for all.
  explicit attention_choice(const schedules::facts& f, const attention_limits& limits = {},
                            void (*print)(const loops::tree&) = nullptr)
      : facts_(f), limits_(limits), print_(print) {}

  /// The reason for which a node that a recipe takes is composed.
  static constexpr const char* slower = "its composition takes less time";

  /// Whether the gradient of a node of attention pays, where it has a kernel.
  bool gradient_pays(const ir::graph& g, node_id id) {
    return why_not(g, id).empty() && scores(g[id]) >= min_scores(bounded_.at(key_of(g, id)));
  }

  /// A graph of a node of attention alone; captured numbers are constants. Its first result is the node's.
  static ir::graph only(const ir::graph& g, node_id id) {
    const ir::node& n = g[id];
    ir::graph one;
    series<node_id> in;
    for (std::size_t k = 0; k < n.in.size(); ++k) {
      const ir::node& x = g[n.in[k]];
      in.push_back(is_number(g, n, k) ? ir::push_constant_like(one, x, x.extents)
                                      : one.add_input(x.type, x.extents, x.where));
    }
    one.outputs = {one.push(n.code, std::move(in), n.attr, n.where)};
    return one;
  }

  /// Why a node of attention has no kernel of its own on the target; "" if it has one.
  const std::string& why_not(const ir::graph& g, node_id id) {
    std::string key = key_of(g, id);
    if (const auto at = known_.find(key); at != known_.end()) return at->second;
    bool bounded = false;
    std::string why = refused(g, id, bounded);
    bounded_.emplace(key, bounded);
    return known_.emplace(std::move(key), std::move(why)).first->second;
  }

 private:
  static std::string key_of(const ir::graph& g, node_id id) {
    const ir::node& n = g[id];
    std::string key = ir::name(n.code) + (" " + n.attr.step->text);
    for (auto x : n.attr.ints) key += " " + std::to_string(x);
    for (std::size_t k = 0; k < n.in.size(); ++k) {
      key += std::string(";") + (is_number(g, n, k) ? "=" : "") + dtype_name(g[n.in[k]].type);
      for (const dim& e : g[n.in[k]].extents) key += " " + e.text();
    }
    return key;
  }
  /// Captured numbers are literals.
  static bool is_number(const ir::graph& g, const ir::node& n, std::size_t k) {
    return k > 2 && g[n.in[k]].code == ir::op::constant;
  }

  std::string refused(const ir::graph& g, node_id id, bool& bounded) const {
    if (std::string why = refused_by_extents(g, g[id]); !why.empty()) return why;
    try {
      // The kernel must outlive its tree.
      const kernel k = alone(g, id);
      const schedules::recipe* r = schedules::recipe_for(k, facts_);
      if (!r || !k.by_recipe) return "no recipe takes its kernel";
      const loops::tree t = loops::build(k, r->make(k, facts_, 0), facts_);
      if (print_) print_(t);
      for (const auto& i : k.body) bounded = bounded || i.kind == kind::inside;
      return pays(g[id], bounded) ? "" : slower;
    } catch (const refusal& no) {
      return no.why;
    } catch (const split_request&) {
      return "its axes have no common refinement";
    }
  }

  /// Open features, other types than f32 and 16 bits, and blocks that would be mostly empty.
  std::string refused_by_extents(const ir::graph& g, const ir::node& n) const {
    const ir::shape &q = g[n.in[0]].extents, &k = g[n.in[1]].extents, &v = g[n.in[2]].extents;
    if (!q.back().is_number() || !v.back().is_number()) return "its features are open";
    if (g[n.in[0]].type == dtype::f64) return "products of f64 have no panels";
    if (n.code == ir::op::attention_back && n.attr.ints[0] > 2)
      return "gradients of captured values are sums of the composition";
    constexpr std::int64_t max_places = std::int64_t{1} << 24;
    if (q.size() < static_cast<std::size_t>(n.attr.ints[1]) + 2) return "it has one query";
    const std::int64_t queries = places(q[q.size() - 2]), keys = places(k[k.size() - 2]), features = *q.back().number(),
                       values = *v.back().number();
    if (std::min(queries, keys) < limits_.min_places || std::min(features, values) < limits_.min_features)
      return "its blocks would be mostly empty";
    if (queries > max_places || keys > max_places) return "its loops are too long";
    return "";
  }

  std::int64_t places(const dim& e) const { return e.number().value_or(limits_.open_places); }
  /// The bytes of all scores, of one matrix where the number of matrices is open.
  double scores(const ir::node& n) const {
    const ir::graph& part = n.attr.step->parts[0];
    const ir::node& s = part[part.inputs[0]];
    double bytes = static_cast<double>(size_of(s.type));
    for (std::size_t a = 0; a < s.extents.size(); ++a) {
      const dim& e = s.extents[a];
      bytes *= static_cast<double>(a + 2 < s.extents.size() ? e.number().value_or(1) : places(e));
    }
    return bytes;
  }
  double min_scores(bool bounded) const { return bounded ? limits_.bounded_gradient_bytes : limits_.gradient_bytes; }
  bool pays(const ir::node& n, bool bounded) const {
    if (n.code == ir::op::attention_back) return scores(n) >= min_scores(bounded);
    const ir::graph& part = n.attr.step->parts[0];
    const std::int64_t keys = places(part[part.inputs[0]].extents.back());
    return keys >= (bounded ? limits_.bounded_keys : limits_.keys);
  }

  /// The kernel of a node whose operands are in memory, as fusion makes it.
  kernel alone(const ir::graph& g, node_id id) const {
    const ir::graph one = only(g, id);
    const node_id made = one.outputs[0];
    sorted_map<int, std::int64_t> symbols;
    for (auto input : one.inputs)
      for (const dim& e : one[input].extents) ir::detail::add_symbols(symbols, e);
    memory_map memory;
    memory.stored.assign(one.size(), 0);
    memory.strides.resize(one.size());
    for (const auto& [symbol, period] : symbols)
      while (memory.hints.size() <= static_cast<std::size_t>(symbol)) memory.hints.push_back(limits_.open_places);
    for (auto input : one.inputs) memory.stored[input] = 1;
    memory.stored[made] = 1;
    series<root> roots;
    append_roots(one, made, roots);
    return lower(one, {roots.data(), roots.size()}, memory);
  }

  schedules::facts facts_;
  attention_limits limits_;
  void (*print_)(const loops::tree&);
  sorted_map<std::string, std::string> known_;
  sorted_map<std::string, bool> bounded_;
};

}  // namespace sinter::engine::plan
