// rewrite/ring_products.hpp: products beside gathers and scatters of ranks -> products of pieces, which go around a ring meanwhile.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "../base/series.hpp"
#include "../base/sorted.hpp"
#include "../base/text.hpp"
#include "../ir/ops/collectives.hpp"
#include "../ir/ops/lanes.hpp"
#include "../ir/value.hpp"

namespace sinter::engine::rewrite {

/// What decides whether a ring pays.
enum class ring_choice : std::uint8_t { by_cost, always, never };

/// The speed of a kind of device and of the links between its ranks. Times are in microseconds.
struct ring_costs {
  double latency = 0;   ///< of an exchange
  double link = 0;      ///< bytes a microsecond between neighbours; 0: exchanges do not run beside products
  double memory = 0;    ///< bytes a microsecond that a kernel reads or writes
  double launch = 0;    ///< of one more kernel
  double flops_16 = 0;  ///< a microsecond, in products of 16 bits
  double flops_32 = 0;  ///< of more bits

  double flops(dtype type) const { return size_of(type) <= 2 ? flops_16 : flops_32; }
};

/// An exchange beside a product.
struct ring_note {
  ir::node_id exchange = ir::no_node;
  bool is_cut = false;
  std::string why;
};

/// Whether the graph, or a part of it, has gathers or scatters.
inline bool may_have_rings(const ir::graph& g) {
  for (ir::node_id id = 0; id < g.size(); ++id) {
    const ir::node& n = g[id];
    if (n.code == ir::op::all_gather || n.code == ir::op::reduce_scatter) return true;
    if (n.code == ir::op::opaque && std::any_of(n.attr.step->parts.begin(), n.attr.step->parts.end(), may_have_rings))
      return true;
  }
  return false;
}

/// With p ranks, rank r begins a gather with its own piece, and receives those of r - 1, r - 2, … from its neighbour r - 1. Each piece
/// is multiplied as it comes. For a scatter, a sum for each rank goes around, and each rank adds its product for that rank. Sums are in
/// the order of the ring.
class ring_products {
 public:
  ring_products(const ir::graph& g, ring_choice how, const ring_costs& costs)
      : g_(g),
        how_(how),
        costs_(costs),
        live_(g.live()),
        users_(g.size()),
        is_output_(g.size(), 0),
        inside_(g.size(), 0),
        moved_(g.size(), ir::no_node) {
    for (auto id : live_)
      for (auto in : g[id].in) users_[in].push_back(id);
    for (auto id : g.outputs) is_output_[id] = 1;
    for (auto id : live_)
      if (g[id].attr.ints.size() > 1 && g[id].attr.ints[1] > 1) {
        if (g[id].code == ir::op::all_gather) plan_gather(id);
        if (g[id].code == ir::op::reduce_scatter) plan_scatter(id);
      }
  }

  /// Gathers that a product reads and scatters of products, in their order.
  const series<ring_note>& notes() const { return notes_; }
  bool changes() const {
    return std::any_of(notes_.begin(), notes_.end(), [](const ring_note& n) { return n.is_cut; });
  }
  ir::graph run() {
    for (auto id : g_.inputs) moved_[id] = out_.add_input(g_[id].type, g_[id].extents, g_[id].where);
    for (auto id : live_) {
      if (g_[id].code == ir::op::input || inside_[id]) continue;
      if (const auto at = gathers_.find(id); at != gathers_.end()) push_pieces(id, at->second);
      else if (const auto reads = readers_.find(id); reads != readers_.end())
        moved_[id] = product_of_pieces(id, reads->second).id();
      else if (const auto sums = scatters_.find(id); sums != scatters_.end())
        moved_[id] = scattered(id, sums->second).id();
      else moved_[id] = copied(id);
    }
    for (auto id : g_.outputs) out_.outputs.push_back(moved_[id]);
    return std::move(out_);
  }

 private:
  /// The nodes between an exchange and a product, from the operand on, and the axis of the product's operand, or result.
  struct way {
    ir::node_id product = ir::no_node, gather = ir::no_node;
    series<std::pair<ir::node_id, std::int64_t>> nodes;  ///< with the axis of their results
    std::size_t operand = 0;
    std::int64_t axis = 0;
  };
  /// The axes of a product that an axis of one of its operands is; -1 for none.
  struct product_axes {
    std::int64_t other = -1, result = -1;
  };

  static bool is_passed(ir::op code) {
    return code == ir::op::permute || code == ir::op::reshape || code == ir::op::cast || code == ir::op::as ||
           code == ir::op::identity;
  }
  /// The axis of `to` whose p equal parts are those of an axis of `from`, where one is a reshape of the other.
  static std::optional<std::int64_t> reshaped(const ir::shape& from, const ir::shape& to, std::int64_t axis,
                                              std::int64_t p) {
    std::int64_t before = 1, here = 1;
    for (std::int64_t d = 0; d < axis; ++d) before *= from[static_cast<std::size_t>(d)].number().value_or(0);
    for (std::size_t d = 0; d < to.size() && before > 0; ++d) {
      const std::int64_t extent = to[d].number().value_or(0);
      if (here == before && extent > 0 && extent % p == 0) return static_cast<std::int64_t>(d);
      here *= extent;
    }
    return {};
  }
  /// The axis of n's result that an axis of its operand becomes; with `back` the reverse.
  std::optional<std::int64_t> axis_through(const ir::node& n, std::int64_t axis, std::int64_t p, bool back) const {
    if (n.code == ir::op::reshape) {
      const ir::shape &in = g_[n.in[0]].extents, &out = n.extents;
      return back ? reshaped(out, in, axis, p) : reshaped(in, out, axis, p);
    }
    if (n.code != ir::op::permute) return axis;
    if (back) return n.attr.ints[static_cast<std::size_t>(axis)];
    return std::find(n.attr.ints.begin(), n.attr.ints.end(), axis) - n.attr.ints.begin();
  }
  product_axes axes_of(const ir::node& dot, std::size_t operand, std::int64_t axis) const {
    const std::int64_t nb = dot.attr.ints[0], nk = dot.attr.ints[1];
    const auto ra = static_cast<std::int64_t>(g_[dot.in[0]].extents.size());
    if (axis < nb) return {axis, axis};
    if (operand == 0) return axis < ra - nk ? product_axes{-1, axis} : product_axes{axis - (ra - nk) + nb, -1};
    return axis < nb + nk ? product_axes{axis - nb + ra - nk, -1} : product_axes{-1, axis - nb - nk + ra - nk};
  }
  /// The operand, its axis, and the axis of the other one for an axis of a product's result.
  void find_operand(way& w, std::int64_t axis) const {
    const ir::node& dot = g_[w.product];
    const std::int64_t nb = dot.attr.ints[0], nk = dot.attr.ints[1];
    const auto ra = static_cast<std::int64_t>(g_[dot.in[0]].extents.size());
    w.operand = axis < ra - nk ? 0 : 1;
    w.axis = w.operand == 0 ? axis : axis - (ra - nk) + nb + nk;
  }

  bool reaches_product(ir::node_id id) const {
    return std::any_of(users_[id].begin(), users_[id].end(), [&](ir::node_id u) {
      return g_[u].code == ir::op::dot || (is_passed(g_[u].code) && reaches_product(u));
    });
  }
  /// Empty if only products read the node; `out` receives them.
  std::string find_readers(ir::node_id id, const way& until, series<way>& out) const {
    if (is_output_[id]) return "its value is a result";
    const std::int64_t p = g_[until.gather].attr.ints[1];
    for (auto user : users_[id]) {
      const ir::node& n = g_[user];
      way w = until;
      if (n.code == ir::op::dot) {
        if (n.in[0] == n.in[1]) return "it is both operands of a product";
        if (readers_.contains(user)) return "the other operand of a product is gathered in pieces";
        w.product = user;
        w.operand = n.in[0] == id ? 0 : 1;
        out.push_back(std::move(w));
        continue;
      }
      if (!is_passed(n.code)) return std::string(ir::name(n.code)) + " reads it, too";
      const auto axis = axis_through(n, until.axis, p, false);
      if (!axis) return "a reshape divides its pieces";
      w.axis = *axis;
      w.nodes.push_back({user, *axis});
      if (std::string why = find_readers(user, w, out); !why.empty()) return why;
    }
    return "";
  }
  void plan_gather(ir::node_id id) {
    if (!reaches_product(id)) return;
    way from;
    from.gather = id;
    from.axis = g_[id].attr.ints[3];
    series<way> readers;
    std::string why = find_readers(id, from, readers);
    for (std::size_t i = 0; why.empty() && i < readers.size(); ++i)
      for (std::size_t k = 0; k < i; ++k)
        if (readers[i].product == readers[k].product) why = "it is both operands of a product";
    for (const way& w : readers)
      if (axes_of(g_[w.product], w.operand, w.axis).result < 0 && is_narrow(g_[w.product].type))
        why = "sums of 16 bits would be rounded for each piece";
    if (why.empty())
      why = how_ == ring_choice::by_cost && is_argument(g_[id].in[0])
                ? "its operand is an argument, and it runs ahead of its product"
                : why_not(gather_costs(id, readers), g_[id].attr.ints[1]);
    notes_.push_back({id, why.empty(), why.empty() ? gained_ : why});
    if (!why.empty()) return;
    gathers_.emplace(id, series<ir::node_id>());
    for (way& w : readers) {
      for (const auto& [node, axis] : w.nodes) inside_[node] = 1;
      const ir::node_id product = w.product;
      readers_.emplace(product, std::move(w));
    }
  }
  void plan_scatter(ir::node_id id) {
    const std::int64_t p = g_[id].attr.ints[1];
    way w;
    std::int64_t axis = g_[id].attr.ints[2];
    std::string why;
    ir::node_id at = g_[id].in[0];
    for (; is_passed(g_[at].code); at = g_[at].in[0]) {
      if (users_[at].size() != 1 || is_output_[at]) why = "the ranks' own values are read, too";
      const auto before = axis_through(g_[at], axis, p, true);
      if (!before) why = "a reshape divides its pieces";
      w.nodes.push_back({at, axis});
      axis = before.value_or(0);
    }
    if (g_[at].code != ir::op::dot) return;
    std::reverse(w.nodes.begin(), w.nodes.end());
    w.product = at;
    if (users_[at].size() != 1 || is_output_[at]) why = "the ranks' own values are read, too";
    if (readers_.contains(at)) why = "an operand of its product is gathered in pieces";
    if (why.empty()) {
      find_operand(w, axis);
      why = why_not(scatter_costs(id, w), p);
    }
    notes_.push_back({id, why.empty(), why.empty() ? gained_ : why});
    if (!why.empty()) return;
    inside_[at] = 1;
    for (const auto& [node, unused] : w.nodes) inside_[node] = 1;
    scatters_.emplace(id, std::move(w));
  }
  bool is_argument(ir::node_id id) const {
    while (is_passed(g_[id].code) || g_[id].code == ir::op::slice || g_[id].code == ir::op::pad) id = g_[id].in[0];
    return g_[id].code == ir::op::input;
  }

  /// Microseconds of the products and of the exchange of a piece, and beyond them of the pieces' copies and kernels.
  struct times {
    double products = 0, exchange = 0, beyond = 0;
    bool known = true;
  };
  double bytes_of(ir::node_id id, times& t) const {
    const auto n = ir::product(g_[id].extents).number();
    t.known = t.known && n.has_value();
    return static_cast<double>(n.value_or(0)) * static_cast<double>(size_of(g_[id].type));
  }
  double time_of(ir::node_id product, times& t) const {
    const ir::node& n = g_[product];
    double flops = 2 * bytes_of(product, t) / static_cast<double>(size_of(n.type));
    const ir::shape& a = g_[n.in[0]].extents;
    for (std::size_t d = a.size() - static_cast<std::size_t>(n.attr.ints[1]); d < a.size(); ++d)
      flops *= static_cast<double>(a[d].number().value_or(0));
    return flops / std::max(costs_.flops(n.type), 1e-9);
  }
  times gather_costs(ir::node_id id, const series<way>& readers) const {
    const double p = static_cast<double>(g_[id].attr.ints[1]);
    times t;
    t.exchange = costs_.latency + bytes_of(g_[id].in[0], t) / std::max(costs_.link, 1e-9);
    for (const way& w : readers) {
      const ir::node& n = g_[w.product];
      const product_axes axes = axes_of(n, w.operand, w.axis);
      double moved = 0;  // a copy of the result in order, of the other operand's parts, or sums
      if (axes.result >= 0) moved += 2 * bytes_of(w.product, t);
      else moved += 3 * (p - 1) * bytes_of(w.product, t);
      if (axes.other >= 0) moved += 2 * bytes_of(n.in[1 - w.operand], t);
      t.products += time_of(w.product, t);
      t.beyond += moved / std::max(costs_.memory, 1e-9) + (axes.other >= 0 ? 2 * p : p) * costs_.launch;
    }
    return t;
  }
  times scatter_costs(ir::node_id id, const way& w) const {
    const double p = static_cast<double>(g_[id].attr.ints[1]);
    const ir::node& n = g_[w.product];
    times t;
    t.exchange = costs_.latency + bytes_of(id, t) / std::max(costs_.link, 1e-9);
    t.products = time_of(w.product, t);
    double moved = 2 * bytes_of(n.in[w.operand], t) + 3 * (p - 1) * bytes_of(id, t);
    if (axes_of(n, w.operand, w.axis).other >= 0) moved += 2 * bytes_of(n.in[1 - w.operand], t);
    t.beyond = moved / std::max(costs_.memory, 1e-9) + 2 * p * costs_.launch;
    return t;
  }
  /// Empty if the ring pays; gained_ then tells by how much.
  std::string why_not(const times& t, std::int64_t ranks) {
    gained_ = "the option asks for it";
    if (how_ == ring_choice::always) return "";
    if (how_ == ring_choice::never) return "the option forbids it";
    if (costs_.link <= 0) return "exchanges do not run beside products on this device";
    if (!t.known) return "extents are open";
    constexpr double max_ratio = 0.95;
    const double p = static_cast<double>(ranks), piece = std::max(t.products / p, costs_.launch);
    const double at_once = costs_.latency + (p - 1) * (t.exchange - costs_.latency) + t.products;
    const double ring = piece + (p - 1) * std::max(piece, t.exchange) + t.beyond;
    const auto number = [](double us) { return text::number(std::round(us)); };
    gained_ = "about " + number(ring) + " us as a ring, " + number(at_once) + " at once";
    return ring < max_ratio * at_once ? "" : gained_;
  }

  ir::value of(ir::node_id id, location where) { return {out_, id, where}; }
  ir::node_id copied(ir::node_id id) {
    const ir::node& n = g_[id];
    if (n.code == ir::op::constant) return ir::push_constant_like(out_, n, n.extents);
    series<ir::node_id> in;
    for (auto operand : n.in) in.push_back(moved_[operand]);
    ir::attributes attr = n.attr;
    if (attr.step && attr.step->has_effect) attr.ints = {};  // its turn among this graph's effects
    return out_.push(n.code, std::move(in), std::move(attr), n.where);
  }
  /// x from the neighbour r - 1.
  static ir::value shifted(const ir::value& x, ir::ops::mesh_axis_of a) {
    ir::ops::axes_t sources;
    for (std::int64_t r = 0; r < a.ranks; ++r) sources.push_back((r + a.ranks - 1) % a.ranks);
    return ir::ops::collective_permute(x, a, sources);
  }
  /// (this rank's index - by) modulo the ranks, for 0 <= by <= ranks.
  static ir::value index_before(const ir::value& near, ir::ops::mesh_axis_of a, std::int64_t by) {
    const ir::value d = ir::ops::axis_index(near, a) - static_cast<double>(by);
    return ir::select(ir::lt(d, 0.0), d + static_cast<double>(a.ranks), d);
  }
  /// Part (index - by) of x along an axis.
  static ir::value part_before(const ir::value& x, ir::ops::mesh_axis_of a, std::int64_t axis, std::int64_t by) {
    ir::shape part = x.extents();
    ir::dim& extent = part[static_cast<std::size_t>(axis)];
    extent = extent.divided_by(a.ranks).value();
    const ir::value start = index_before(x, a, by) * static_cast<double>(extent.number().value());
    const ir::value all = ir::broadcast(ir::reshape(start, ir::shape(part.size(), 1)), part);
    return ir::gather(x, ir::iota(x, dtype::i64, part, axis) + all, axis);
  }
  /// The nodes of a way, applied to a piece.
  ir::value through(const way& w, ir::value x, std::int64_t ranks) {
    for (const auto& [id, axis] : w.nodes) {
      const ir::node& n = g_[id];
      const ir::value at(out_, x.id(), n.where);
      if (n.code == ir::op::permute) x = ir::permute(at, n.attr.ints);
      if (n.code == ir::op::cast) x = ir::cast(at, n.type);
      if (n.code != ir::op::reshape) continue;
      ir::shape extents = n.extents;
      ir::dim& along = extents[static_cast<std::size_t>(axis)];
      along = along.divided_by(ranks).value();
      x = ir::reshape(at, std::move(extents));
    }
    return x;
  }
  void push_pieces(ir::node_id id, series<ir::node_id>& pieces) {
    const ir::node& n = g_[id];
    const ir::ops::mesh_axis_of a(n);
    ir::value piece = of(moved_[n.in[0]], n.where);
    for (std::int64_t s = 0; s < a.ranks; ++s) {
      if (s > 0) piece = shifted(piece, a);
      pieces.push_back(piece.id());
    }
  }
  ir::value multiplied(const ir::node& n, std::size_t operand, const ir::value& piece, const ir::value& other) {
    const ir::value x(out_, piece.id(), n.where), y(out_, other.id(), n.where);
    return operand == 0 ? ir::dot(x, y, n.attr.ints[0], n.attr.ints[1]) : ir::dot(y, x, n.attr.ints[0], n.attr.ints[1]);
  }
  ir::value product_of_pieces(ir::node_id id, const way& w) {
    const ir::node& n = g_[id];
    const ir::ops::mesh_axis_of a(g_[w.gather]);
    const product_axes axes = axes_of(n, w.operand, w.axis);
    const ir::value other = of(moved_[n.in[1 - w.operand]], n.where);
    series<ir::value> products;
    for (std::int64_t s = 0; s < a.ranks; ++s) {
      const ir::value piece = through(w, of(gathers_.at(w.gather)[static_cast<std::size_t>(s)], n.where), a.ranks);
      products.push_back(
          multiplied(n, w.operand, piece, axes.other < 0 ? other : part_before(other, a, axes.other, s)));
    }
    if (axes.result >= 0) return in_order(products, a, axes.result);
    ir::value sum = products[0];
    for (std::size_t s = 1; s < products.size(); ++s) sum = sum + products[s];
    return sum;
  }
  /// Pieces of index, index - 1, … along an axis, in the order of the ranks.
  static ir::value in_order(const series<ir::value>& pieces, ir::ops::mesh_axis_of a, std::int64_t axis) {
    series<ir::value> lanes;
    for (const ir::value& x : pieces) lanes.push_back(ir::reshape(x, ir::ops::behind(1, x.extents())));
    const ir::value all = ir::concat(lanes, 0);
    const ir::value index = ir::ops::axis_index(all, a);
    const ir::value d = ir::broadcast(ir::reshape(index, ir::shape(all.extents().size(), 1)), all.extents()) -
                        ir::iota(all, dtype::i64, all.extents(), 0);
    const ir::value from = ir::select(ir::lt(d, 0.0), d + static_cast<double>(a.ranks), d);
    return ir::ops::joined_lanes(ir::gather(all, from, 0), axis);
  }
  ir::value scattered(ir::node_id id, const way& w) {
    const ir::node& dot = g_[w.product];
    const ir::ops::mesh_axis_of a(g_[id]);
    const product_axes axes = axes_of(dot, w.operand, w.axis);
    const ir::value x = of(moved_[dot.in[w.operand]], dot.where), other = of(moved_[dot.in[1 - w.operand]], dot.where);
    ir::value sum;
    for (std::int64_t s = 0; s < a.ranks; ++s) {
      const ir::value part = part_before(x, a, w.axis, s + 1);
      const ir::value made = through(
          w, multiplied(dot, w.operand, part, axes.other < 0 ? other : part_before(other, a, axes.other, s + 1)),
          a.ranks);
      sum = s == 0 ? made : shifted(of(sum.id(), g_[id].where), a) + made;
    }
    return sum;
  }

  const ir::graph& g_;
  ring_choice how_;
  ring_costs costs_;
  series<ir::node_id> live_;
  series<series<ir::node_id>> users_;
  series<char> is_output_, inside_;                       ///< `inside_`: computed for pieces only
  sorted_map<ir::node_id, series<ir::node_id>> gathers_;  ///< with their pieces in the new graph
  sorted_map<ir::node_id, way> readers_, scatters_;       ///< by product, and by scatter
  series<ring_note> notes_;
  std::string gained_;
  series<ir::node_id> moved_;
  ir::graph out_;
};

}  // namespace sinter::engine::rewrite
