// jit/backends/attention_notes.hpp: for explain(): what has no kernels of attention though it is, or looks like, attention, and why.
#pragma once

#include <string>

#include "../../base/callback.hpp"
#include "../../engine/report.hpp"
#include "../../ir/compose_attention.hpp"
#include "../../ir/find_attention.hpp"

namespace sinter::engine::detail {

/// Why a node of attention has no kernels; "" if it has.
using attention_refusal = sinter::detail::callback<std::string(const ir::graph&, ir::node_id)>;

/// Whether attention_notes() could have something to say.
inline bool may_have_attention(const ir::graph& g) {
  for (ir::node_id id = 0; id < g.size(); ++id) {
    const ir::op code = g[id].code;
    if (ir::ops::is_attention(code) || code == ir::op::opaque || code == ir::op::exp) return true;
  }
  return false;
}

class attention_notes {
 public:
  explicit attention_notes(const attention_refusal& why) : why_(why) {}

  series<attention_report> of(const ir::graph& traced) {
    const ir::graph g = ir::has_calls(traced) ? ir::inlined(traced) : traced;
    const series<char> stays =
        ir::detail::attention_kept(g, [&](const ir::graph& in, ir::node_id id) { return why_(in, id).empty(); });
    for (auto id : g.live()) {
      if (ir::ops::is_attention(g[id].code) && !stays[id]) composed(g, id);
      if (g[id].code == ir::op::opaque)
        for (const auto& part : g[id].attr.step->parts) of(part);
    }
    for (auto id : g.live())
      if (g[id].code == ir::op::dot && follows_softmax(g, g[id].in[0])) product(g, id);
    return std::move(out_);
  }

 private:
  void composed(const ir::graph& g, ir::node_id id) {
    const bool forward = g[id].code == ir::op::attention;
    std::string why = why_(g, id);
    if (why.empty()) why = forward ? "its gradient has none" : "another gradient of it has none";
    add({g[id].where, forward ? "attention" : "a gradient of attention", std::move(why)});
  }
  void product(const ir::graph& g, ir::node_id mix) {
    const auto found = ir::find_attention(g, mix);
    if (!found.site) return missed(g, mix, found);
    ir::graph with = g;
    const ir::value made = ir::push_found(with, *found.site, mix);
    if (!made) return add({g[mix].where, "attention", "its scores depend on values that change from place to place"});
    ir::node_id op = made.id();
    while (with[op].code == ir::op::reshape) op = with[op].in[0];
    if (with[op].code != ir::op::attention) return;
    if (std::string why = why_(with, op); !why.empty()) add({g[mix].where, "attention", std::move(why)});
  }
  /// Also where rows are moved, summed up, or mixed by a product on their left, where nobody looks for attention.
  static bool follows_softmax(const ir::graph& g, ir::node_id from) {
    for (int steps = 0; steps < 8; ++steps) {
      if (ir::detail::follows_power(g, from)) return true;
      const ir::node& n = g[from];
      const bool passes =
          n.code == ir::op::permute || n.code == ir::op::scan || n.code == ir::op::reshape || n.code == ir::op::cast;
      if (!passes && n.code != ir::op::dot) return false;
      from = n.in[passes ? 0 : 1];
    }
    return false;
  }
  /// A matrix of the caller's behind an activation is a layer, not values.
  static bool is_layer(const ir::graph& g, const ir::node& n) {
    ir::node_id id = n.in[1];
    if (n.attr.ints[0] != 0 || g[id].extents.size() != 2) return false;
    while (g[id].code == ir::op::permute || g[id].code == ir::op::cast || g[id].code == ir::op::reshape)
      id = g[id].in[0];
    return g[id].code == ir::op::input || g[id].code == ir::op::constant;
  }
  void missed(const ir::graph& g, ir::node_id mix, const ir::attention_finding& found) {
    const ir::node& n = g[mix];
    if (is_layer(g, n)) return;
    std::string why = found.why;
    const ir::node& at = g[found.at];
    if (found.at != mix)
      why += std::string(" (") + ir::name(at.code) +
             (at.where.line ? " at line " + std::to_string(at.where.line) : "") + ")";
    add({n.where, "a product that looks like attention", std::move(why)});
  }
  void add(attention_report r) {
    for (const auto& x : out_)
      if (x.what == r.what && x.why == r.why && x.where.line == r.where.line) return;
    out_.push_back(std::move(r));
  }

  const attention_refusal& why_;
  series<attention_report> out_;
};

}  // namespace sinter::engine::detail
