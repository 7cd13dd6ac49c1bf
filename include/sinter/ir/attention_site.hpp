// ir/attention_site.hpp: seals what lies between the products of queries and keys and the scores that a softmax takes, for op::attention.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph.hpp"
#include "value.hpp"

namespace sinter::ir {

/// What a softmax's numerators are multiplied by, after their sum: x · by, x / by, or x where `by` holds (or does not), else 0.
struct attention_factor {
  enum class how : std::uint8_t { times, over, where, where_not } does;
  node_id by;
};

/// One attention in a graph. q, k and v are as op::attention takes them. With `turned`, k is (B…, D, N). The axes B of v may differ from
/// k's. `products` is q kᵀ in its own dtype or in the scores'. Its extents may have the elements of (B…, M…) on other axes, and so may
/// those of all that follows it. `allowed` may be no_node.
struct attention_site {
  node_id q = no_node, k = no_node, v = no_node;
  bool turned = false;
  node_id products = no_node, score = no_node, allowed = no_node;
  series<attention_factor> factors;
  std::size_t batch = 0, groups = 0;
  bool guarded = true;
};

namespace detail {

/// Seals the nodes between products and scores. Values that are made from indices and broadcasts belong to the part, though they do not
/// depend on the products. Other values are captured, in order of first use, and so are floating numbers.
class part_sealer {
 public:
  part_sealer(graph& g, const attention_site& site, const shape& extents)
      : g_(g), site_(site), extents_(extents), reaches_(g.size(), 0), made_(g.size(), 0), costly_(g.size(), 0) {}

  /// The sealed part; null where a node between takes more than the elements at its own place.
  std::shared_ptr<const opaque> run() {
    series<node_id> outputs{site_.score};
    if (site_.allowed != no_node) outputs.push_back(site_.allowed);
    for (const auto& f : site_.factors) outputs.push_back(f.by);
    last_ = *std::max_element(outputs.begin(), outputs.end());
    find_marks();
    const series<node_id> order = needed(outputs);
    if (!fits(order)) return nullptr;
    opaque step;
    step.kind = opaque_kind::part;
    step.parts.push_back(copied(order));
    return seal(std::move(step));
  }
  const series<node_id>& captured() const { return captured_; }

 private:
  static bool is_mark(const node& n) { return n.code == op::identity && !n.attr.ints.empty(); }
  static bool keeps_elements(op code) {
    return is_pointwise(code) || code == op::reshape || code == op::broadcast || code == op::permute;
  }

  void find_marks() {
    reaches_[site_.products] = 1;
    for (node_id id = 0; id <= last_; ++id) {
      const node& n = g_[id];
      bool any = false, number = n.code == op::iota || n.code == op::broadcast;
      for (auto in : n.in) {
        any = any || reaches_[in];
        number = number || (made_[in] && g_[in].code != op::constant);
        costly_[id] = costly_[id] || costly_[in];
      }
      reaches_[id] = reaches_[id] || any;
      costly_[id] = (costly_[id] && keeps_elements(n.code)) || is_expensive(n.code);
      made_[id] = n.code == op::constant || (number && !is_mark(n) && (keeps_elements(n.code) || n.code == op::iota));
    }
  }

  /// Whether a node belongs to the part, if its reader is a broadcast or not.
  bool is_inside(node_id id, bool repeated) const {
    if (id == site_.products) return false;
    return reaches_[id] || (made_[id] && !(repeated && (costly_[id] || !is_generated(id, 8))));
  }
  /// Made from indices and numbers alone, by a few operations.
  bool is_generated(node_id id, int depth) const {
    const node& n = g_[id];
    if (n.code == op::constant || n.code == op::iota) return true;
    if (depth == 0 || !keeps_elements(n.code) || is_mark(n)) return false;
    return std::all_of(n.in.begin(), n.in.end(), [&](node_id in) { return is_generated(in, depth - 1); });
  }

  /// The nodes of the part, operands first.
  series<node_id> needed(const series<node_id>& outputs) {
    series<char> wanted(g_.size(), 0);
    node_id end = 0;
    for (auto id : outputs) {
      end = std::max(end, id);
      if (is_inside(id, false)) wanted[id] = 1;
    }
    for (node_id id = end + 1; id-- > 0;) {
      if (!wanted[id]) continue;
      const bool repeats = g_[id].code == op::broadcast && !reaches_[id];
      for (auto in : g_[id].in) wanted[in] = wanted[in] || is_inside(in, repeats);
    }
    series<node_id> order;
    for (node_id id = 0; id <= end; ++id)
      if (wanted[id]) order.push_back(id);
    return order;
  }

  bool fits(const series<node_id>& order) const {
    return std::all_of(order.begin(), order.end(), [&](node_id id) {
      const op code = g_[id].code;
      return keeps_elements(code) || code == op::iota || code == op::constant;
    });
  }

  static bool is_raised(const node& n) {
    return n.code == op::constant && ((is_float(n.type) && std::isfinite(n.attr.literal.f)) || !n.attr.ints.empty());
  }

  /// The input of the part for a node of the graph.
  node_id input(graph& part, node_id id) {
    const auto at = std::find(captured_.begin(), captured_.end(), id);
    const auto k = static_cast<std::size_t>(at - captured_.begin());
    if (at == captured_.end()) {
      captured_.push_back(id);
      part.add_input(g_[id].type, g_[id].extents, g_[id].where);
    }
    return part.inputs[1 + k];
  }
  /// A number of the graph, with its extents.
  node_id number(graph& part, const node& n) {
    const node_id raised = push_constant_like(g_, n, {});
    const value x(part, input(part, raised), n.where);
    return broadcast(reshape(x, shape(n.extents.size(), 1)), n.extents).id();
  }

  graph copied(const series<node_id>& order) {
    graph part;
    const node products = g_[site_.products];
    const dtype wide = products.type == dtype::f64 ? dtype::f64 : dtype::f32;
    const value s(part, part.add_input(wide, extents_, products.where), products.where);
    sorted_map<node_id, node_id> moved;
    const auto at = [&](node_id id) {
      if (id == site_.products) return cast(reshape(s, products.extents), products.type).id();
      const auto found = moved.find(id);
      return found != moved.end() ? found->second : input(part, id);
    };
    for (auto id : order) {
      const node n = g_[id];
      if (is_raised(n)) {
        moved.emplace(id, number(part, n));
        continue;
      }
      series<node_id> in;
      for (auto operand : n.in) in.push_back(at(operand));
      const node_id made = is_mark(n) ? in[0] : part.push(n.code, std::move(in), n.attr, n.where);
      moved.emplace(id, made);
    }
    const auto of = [&](node_id id) { return reshape({part, at(id), products.where}, extents_); };
    const value factor = factor_of(s, of);
    const value all(part, part.constant(dtype::b8, 1.0, extents_, products.where), products.where);
    part.outputs = {cast(of(site_.score), s.type()).id(), (site_.allowed == no_node ? all : of(site_.allowed)).id(),
                    factor.id()};
    return part;
  }
  /// The product of all factors.
  template <class F>
  value factor_of(const value& s, const F& of) {
    value all = s.like(1.0);
    for (const auto& f : site_.factors) {
      const value by = is_bool(g_[f.by].type) ? of(f.by) : cast(of(f.by), s.type());
      if (f.does == attention_factor::how::times) all = &f == site_.factors.begin() ? by : all * by;
      else if (f.does == attention_factor::how::over) all = all / by;
      else all = f.does == attention_factor::how::where ? select(by, all, 0.0) : select(by, 0.0, all);
    }
    return all;
  }

  graph& g_;
  const attention_site& site_;
  const shape& extents_;
  node_id last_ = 0;
  series<char> reaches_, made_, costly_;
  series<node_id> captured_;
};

}  // namespace detail

/// Pushes op::attention for a site; empty where what lies between products and scores is not a part.
inline value push_attention(graph& g, const attention_site& site, location where) {
  const value q(g, site.q, where);
  value k(g, site.k, where), v(g, site.v, where);
  if (site.turned) {
    const node& n = k.get();
    series<std::int64_t> swapped;
    for (std::int64_t i = 0; i < k.rank(); ++i) swapped.push_back(i);
    std::swap(swapped.end()[-1], swapped.end()[-2]);
    k = n.code == op::permute && n.attr.ints == swapped ? value(g, n.in[0], where) : permute(k, swapped);
  }
  // Extents that are equal in the call may be other dims.
  shape to(q.extents().begin(), q.extents().begin() + static_cast<std::ptrdiff_t>(site.batch));
  to.push_back(k.extents()[site.batch]);
  to.push_back(q.extents().back());
  k = reshape(k, to);
  to.back() = v.extents().back();
  v = reshape(v, to);
  shape extents(q.extents().begin(), q.extents().end() - 1);
  extents.push_back(to[site.batch]);
  detail::part_sealer sealer(g, site, extents);
  attributes attr;
  attr.step = sealer.run();
  if (!attr.step) return {};
  attr.ints = {0, static_cast<std::int64_t>(site.batch), static_cast<std::int64_t>(site.groups), site.guarded};
  series<node_id> in{q.id(), k.id(), v.id()};
  in.insert(in.end(), sealer.captured().begin(), sealer.captured().end());
  return {g, g.push(op::attention, std::move(in), std::move(attr), where), where};
}

}  // namespace sinter::ir
