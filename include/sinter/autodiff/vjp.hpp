// autodiff/vjp.hpp: reverse mode, graph -> bigger graph.
#pragma once

#include <span>

#include "../base/sorted.hpp"
#include "../ir/ops/table.hpp"
#include "attention.hpp"
#include "found_attention.hpp"
#include "opaque.hpp"
#include "partials.hpp"

namespace sinter::engine::autodiff {

using ir::op;
using ir::ops::site;

/// The cotangent of operand k of a node for the node's cotangent.
inline value pull(const site& s, std::size_t k, const value& ct) {
  const ir::node& n = s.n();
  if (is_pointwise(n.code)) return partial(n.code, k, ct, s.in(0), s.in(1), s.in(2), s.result());
  return ir::ops::record_of(n.code).vjp(s, k, ct);
}

inline auto vjps_of(op code) { return is_pointwise(code) ? nullptr : ir::ops::record_of(code).vjps; }

inline values pull_back(ir::graph& g, std::span<const ir::node_id> ys, const values& seeds,
                        std::span<const ir::node_id> wrt, location where);

/// Nodes that a backward pass recomputes.
struct recomputed_range {
  ir::node_id first = 0, last = 0;
};

/// Cotangents by node, from the results to their operands. `anew` has the ranges to recompute, the last one first.
class reverse_pass {
 public:
  reverse_pass(ir::graph& g, std::span<const ir::node_id> wrt, std::span<const recomputed_range> anew,
               const found_attentions* found = nullptr)
      : g_(g), active_(smooth_from(g, wrt)), cotangent_(g.size()), anew_(anew), found_(found) {}

  void add(ir::node_id id, const value& part) {
    if (!part || !active_[id]) return;
    cotangent_[id] = cotangent_[id] ? cotangent_[id] + part : part;
  }

  void run() {
    for (auto id = static_cast<ir::node_id>(cotangent_.size()); id-- > 0;) {
      if (!anew_.empty() && id == anew_[0].last) {
        id = anew_[0].first;
        pull_anew(anew_[0]);
        anew_ = anew_.subspan(1);
        continue;
      }
      if (g_[id].code == op::opaque) {
        if (results_.count(id)) pull_results(id);
        continue;
      }
      if (!cotangent_[id]) continue;
      const site s{g_, id};
      const value ct(g_, cotangent_[id].id(), s.n().where);
      if (s.n().code == op::pick) {
        values& all = results_[s.n().in[0]];
        all.resize(g_[s.n().in[0]].attr.step->results.size());
        all[static_cast<std::size_t>(s.n().attr.ints[0])] = ct;
        continue;
      }
      if (found_)
        if (const auto at = found_->find(id); at != found_->end()) {
          pull_found(id, at->second, ct);
          continue;
        }
      const series<char> asked = asked_of(s.n());
      if (ir::ops::is_attention(s.n().code)) {
        add_all(id, asked, pull_attention(g_, id, ct, asked, pull_back));
        continue;
      }
      if (const auto all = vjps_of(s.n().code)) {
        add_all(id, asked, all(s, asked, ct));
        continue;
      }
      for (std::size_t k = 0; k < asked.size(); ++k)
        if (asked[k]) add(s.n().in[k], pull(s, k, ct));
    }
  }

  /// Empty if no cotangent flows.
  const value& of(ir::node_id id) const { return cotangent_[id]; }

 private:
  /// The operands of a range receive cotangents from a separate step, in which the range is recomputed.
  void pull_anew(const recomputed_range& range) {
    ir::graph part;
    series<ir::node_id> in, given, wrt, asked, ys;
    const detail::part_builder b{part, in};
    sorted_map<ir::node_id, ir::node_id> moved;
    location where;
    const auto inside = [&](ir::node_id operand) {
      if (const auto found = moved.find(operand); found != moved.end()) return found->second;
      const ir::node& n = g_[operand];
      ir::node_id made = ir::no_node;
      if (n.code == op::constant) {
        made = ir::push_constant_like(part, n, n.extents);
      } else {
        made = b.input(value(g_, operand, n.where));
        if (active_[operand]) {
          wrt.push_back(made);
          asked.push_back(operand);
        }
      }
      moved.emplace(operand, made);
      return made;
    };
    // Nodes that are not needed for the cotangents are left out: effects happen once.
    series<char> needed(range.last - range.first + 1, 0);
    for (ir::node_id id = range.last + 1; id-- > range.first;) {
      needed[id - range.first] |= static_cast<char>(static_cast<bool>(cotangent_[id]));
      if (!needed[id - range.first]) continue;
      for (auto operand : g_[id].in)
        if (operand >= range.first) needed[operand - range.first] = 1;
    }
    for (ir::node_id id = range.first; id <= range.last; ++id) {
      if (!active_[id] || !needed[id - range.first]) continue;
      const ir::node& n = g_[id];
      series<ir::node_id> operands;
      for (auto operand : n.in) operands.push_back(inside(operand));
      moved.emplace(id, part.push(n.code, std::move(operands), n.attr, n.where));
      where = n.where;
    }
    values seeds;
    for (ir::node_id id = range.first; id <= range.last; ++id)
      if (cotangent_[id]) {
        ys.push_back(moved.at(id));
        seeds.push_back(value(part, b.input(cotangent_[id]), g_[id].where));
      }
    if (ys.empty()) return;
    const values pulled = pull_back(part, ys, seeds, wrt, where);
    for (std::size_t k = 0; k < wrt.size(); ++k) part.outputs.push_back(detail::or_zeros(part, pulled[k], wrt[k]).id());
    ir::opaque made;
    made.kind = ir::opaque_kind::call;
    made.again = ir::recompute::all;
    made.stays = true;
    made.parts.push_back(std::move(part));
    const auto results = ir::push_opaque(g_, ir::seal(std::move(made)), std::move(in), where);
    for (std::size_t k = 0; k < asked.size(); ++k) add(asked[k], value(g_, results[k], where));
  }

  /// Pulls the cotangent of a product by which attention ends to the operands of its op. These may be behind the product; their
  /// own operands are before it.
  void pull_found(ir::node_id mix, ir::node_id made, const value& ct) {
    sorted_map<ir::node_id, value> behind;
    const auto give = [&](ir::node_id id, const value& part) {
      if (!part || !active_[id]) return;
      if (id < mix) return add(id, part);
      value& sum = behind[id];
      sum = sum ? sum + part : part;
    };
    give(made, ct);
    for (ir::node_id id = made + 1; id-- > mix && !behind.empty();) {
      const auto at = behind.find(id);
      if (at == behind.end()) continue;
      const value own(g_, at->second.id(), g_[id].where);
      behind.erase(at);
      const series<char> asked = asked_of(g_[id]);
      const series<ir::node_id> in = g_[id].in;
      values parts(asked.size());
      if (ir::ops::is_attention(g_[id].code)) parts = pull_attention(g_, id, own, asked, pull_back);
      else
        for (std::size_t k = 0; k < asked.size(); ++k)
          if (asked[k]) parts[k] = pull(site{g_, id}, k, own);
      for (std::size_t k = 0; k < asked.size(); ++k) give(in[k], parts[k]);
    }
  }

  /// The operands that receive a cotangent.
  series<char> asked_of(const ir::node& n) const {
    series<char> asked;
    for (std::size_t k = 0; k < n.in.size(); ++k) asked.push_back(active_[n.in[k]] && flows(g_, n, k));
    return asked;
  }
  void add_all(ir::node_id id, const series<char>& asked, const values& parts) {
    for (std::size_t k = 0; k < asked.size(); ++k)
      if (asked[k]) add(g_[id].in[k], parts[k]);
  }

  void pull_results(ir::node_id id) {
    const series<char> asked = asked_of(g_[id]);
    add_all(id, asked, pull_opaque(g_, id, results_.at(id), asked, pull_back));
  }

  ir::graph& g_;
  series<char> active_;
  values cotangent_;
  std::span<const recomputed_range> anew_;
  const found_attentions* found_;
  sorted_map<ir::node_id, values> results_;  ///< of opaque nodes
};

inline values pull_back_with(ir::graph& g, std::span<const ir::node_id> ys, const values& seeds,
                             std::span<const ir::node_id> wrt, std::span<const recomputed_range> anew,
                             const found_attentions* found = nullptr) {
  reverse_pass all(g, wrt, anew, found);
  for (std::size_t k = 0; k < ys.size(); ++k) all.add(ys[k], seeds[k]);
  all.run();
  values out;
  for (auto id : wrt) out.push_back(all.of(id));
  return out;
}
inline values pull_back(ir::graph& g, std::span<const ir::node_id> ys, const values& seeds,
                        std::span<const ir::node_id> wrt, location) {
  return pull_back_with(g, ys, seeds, wrt, {});
}

/// user_error [grad] unless y is a floating scalar.
inline void check_loss(const ir::graph& g, ir::node_id y, location where) {
  ensure(y < g.size(), "the differentiated node is in the graph");
  if (!g[y].extents.empty() || !is_float(g[y].type))
    fail("grad",
         std::string("the function returns ") + dtype_name(g[y].type) + ir::text_of(g[y].extents) +
             "; it must return a floating scalar: reduce it with sum or mean",
         where);
}

}  // namespace sinter::engine::autodiff

namespace sinter::engine {

namespace autodiff {

/// The gradient as below, through the op for attention in users' words where `keeps` accepts it.
inline series<ir::node_id> gradient_with(ir::graph& g, ir::node_id y, std::span<const ir::node_id> wrt,
                                         const ir::kept_attention& keeps, location where) {
  check_loss(g, y, where);
  const found_attentions found = find_attentions(g, y, wrt, keeps);
  const value seed = value(g, y, where).like(1.0);
  const auto cotangents = pull_back_with(g, {&y, 1}, {seed}, wrt, {}, &found);
  series<ir::node_id> result;
  for (std::size_t k = 0; k < wrt.size(); ++k)
    result.push_back(cotangents[k] ? cotangents[k].id() : g.constant(g[wrt[k]].type, 0.0, g[wrt[k]].extents, where));
  return result;
}

}  // namespace autodiff

/// Cotangents of `wrt` for the rank-0 floating node y, in order, each with the dtype and extents of its node. A cotangent is
/// zero if y does not depend smoothly on its node. Ties of a maximum or minimum reduction share the cotangent equally. All
/// pushed nodes are differentiable again. Throws user_error [grad] unless y is a floating scalar.
SINTER_API series<ir::node_id> gradient(ir::graph& g, ir::node_id y, std::span<const ir::node_id> wrt, location where) {
  return autodiff::gradient_with(g, y, wrt, {}, where);
}

}  // namespace sinter::engine
