// ir/ops/collective.hpp: nodes over an axis of a mesh as values, and the common parts of their records.
#pragma once

#include "../mesh_axes.hpp"
#include "derivatives.hpp"

namespace sinter::ir::ops {

/// An axis of a mesh: its number and its number of ranks. A node's first two ints.
struct mesh_axis_of {
  std::int64_t number = 0, ranks = 1;

  mesh_axis_of(std::int64_t axis, std::int64_t size) : number(axis), ranks(size) {}
  explicit mesh_axis_of(const node& n) : number(n.attr.ints[0]), ranks(n.attr.ints[1]) {}

  attributes with(std::initializer_list<std::int64_t> more, op combiner = op::add) const {
    attributes a;
    a.combiner = combiner;
    a.ints = {number, ranks};
    a.ints.insert(a.ints.end(), more.begin(), more.end());
    return a;
  }
};

constexpr std::int64_t code_of(placement p) { return static_cast<std::int64_t>(p); }

/// Element by element over the ranks; a sum takes partial values, an extreme varying ones.
inline value all_reduce(const value& x, mesh_axis_of a, placement to, op combiner = op::add) {
  return push(op::all_reduce, {x}, a.with({code_of(to)}, combiner));
}
/// The ranks' values side by side along `axis`.
inline value all_gather(const value& x, mesh_axis_of a, placement to, std::int64_t axis) {
  return push(op::all_gather, {x}, a.with({code_of(to), axis}));
}
/// Each rank's part along `axis` of the ranks' sum.
inline value reduce_scatter(const value& x, mesh_axis_of a, std::int64_t axis) {
  return push(op::reduce_scatter, {x}, a.with({axis}));
}
/// Part r along `from` goes to rank r, where the parts lie side by side along `to`.
inline value all_to_all(const value& x, mesh_axis_of a, std::int64_t from, std::int64_t to) {
  return push(op::all_to_all, {x}, a.with({from, to}));
}
/// Rank r receives the value of rank sources[r]; zeros for -1.
inline value collective_permute(const value& x, mesh_axis_of a, const axes_t& sources) {
  attributes attr = a.with({});
  attr.ints.insert(attr.ints.end(), sources.begin(), sources.end());
  return push(op::collective_permute, {x}, std::move(attr));
}
/// The value of rank `root`.
inline value collective_broadcast(const value& x, mesh_axis_of a, placement to, std::int64_t root) {
  return push(op::collective_broadcast, {x}, a.with({code_of(to), root}));
}
/// This rank's index, an i64 of rank 0, in the graph of `near`.
inline value axis_index(const value& near, mesh_axis_of a) {
  return {near.owner(), near.owner().push(op::axis_index, {}, a.with({}), near.where()), near.where()};
}
/// x, held in another way.
inline value placed_as(const value& x, mesh_axis_of a, placement from, placement to) {
  if (from == to) return x;
  return push(op::as, {x}, a.with({code_of(from), code_of(to)}));
}
/// An invariant or a replicated value as one that varies.
inline value varied(const value& x, mesh_axis_of a, placement from) {
  return placed_as(placed_as(x, a, from, placement::replicated), a, placement::replicated, placement::varying);
}

/// Where this rank is `root`; with x's extents.
inline value is_root(const value& x, mesh_axis_of a, std::int64_t root) {
  const value own = axis_index(x, a);
  return broadcast(reshape(eq(own, static_cast<double>(root)), shape(x.extents().size(), 1)), x.extents());
}

/// This rank's part along `axis` of an invariant or a replicated value.
inline value own_part(const value& x, mesh_axis_of a, placement from, std::int64_t axis) {
  shape part = x.extents();
  dim& extent = part[static_cast<std::size_t>(axis)];
  extent = extent.divided_by(a.ranks).value();
  const value index = axis_index(x, a) * static_cast<double>(extent.number().value());
  const value start = broadcast(reshape(index, shape(part.size(), 1)), part);
  return gather(varied(x, a, from), iota(x, dtype::i64, part, axis) + start, axis);
}

/// Checks and text that all nodes over a mesh axis share.
struct over_mesh_axis {
  static void expect(inference& f, std::size_t operands, std::size_t more) {
    f.expect(operands, more + 2, 0);
    if (f.n.attr.ints[1] < 1) f.malformed();
    if (operands > 0) f.n.extents = f.extents();
  }
  static placement result(const inference& f) {
    const std::int64_t to = f.n.attr.ints[2];
    if (to != code_of(placement::invariant) && to != code_of(placement::replicated)) f.malformed();
    return static_cast<placement>(to);
  }
  /// Int k of the node, an axis of its operand.
  static std::size_t tensor_axis(const inference& f, std::size_t k) {
    const std::int64_t a = f.n.attr.ints[k];
    if (a < 0 || a >= static_cast<std::int64_t>(f.rank()))
      f.refuse({"axis ", a, " of a tensor of rank ", f.rank(), "; axes are 0 to rank - 1"});
    return static_cast<std::size_t>(a);
  }
  /// An extent that is a number; open ones become numbers when a node is refused.
  static std::int64_t known_extent(const inference& f, std::size_t axis) {
    const auto extent = f.extents()[axis].number();
    if (!extent) f.refuse({"axis ", axis, " of ", f.extents(), " is open; ranks exchange values of known extents"});
    return *extent;
  }
  /// The part of an extent that each rank has.
  static dim part_of(const inference& f, std::size_t axis) {
    const std::int64_t ranks = f.n.attr.ints[1];
    const std::int64_t extent = known_extent(f, axis);
    if (extent % ranks != 0)
      f.refuse({"axis ", axis, " of ", f.extents(), " does not divide among ", ranks,
                " ranks; pad it to a multiple of them, with pad(x, ...)"});
    return extent / ranks;
  }
  static std::string over(const node& n) {
    return " " + mesh_axis_name(n.attr.ints.at(0)) + "(" + std::to_string(n.attr.ints.at(1)) + ")";
  }
  static std::string to(const node& n) { return std::string(" to=") + name(static_cast<placement>(n.attr.ints.at(2))); }
  static std::string axis(const node& n, std::size_t k, const char* what = "axis") {
    return " " + std::string(what) + "=" + std::to_string(n.attr.ints.at(k));
  }
  /// Reads over(): the mesh axis's name, which may have brackets of its own, and its ranks.
  static void read_over(words& w, node& n) {
    w.expect(" ");
    const std::string_view rest = w.rest();
    for (std::size_t at = rest.find('('); at != std::string_view::npos; at = rest.find('(', at + 1)) {
      std::size_t end = at + 1;
      while (end < rest.size() && rest[end] >= '0' && rest[end] <= '9') ++end;
      const bool closes = end > at + 1 && end < rest.size() && rest[end] == ')';
      if (at == 0 || !closes || (end + 1 < rest.size() && rest[end + 1] != ' ')) continue;
      const std::string name(rest.substr(0, at));
      w.expect(name + "(");
      n.attr.ints = {mesh_axis_number(name), w.integer()};
      return w.expect(")");
    }
    w.refuse("expected an axis of a mesh before '" + words::shown(rest) + "'");
  }
  static std::int64_t read_placement(words& w) {
    const std::string_view word = w.name();
    for (const auto p : {placement::invariant, placement::replicated, placement::varying, placement::partial})
      if (word == name(p)) return code_of(p);
    w.refuse("'" + words::shown(word) + "' is no placement");
  }
  static void read_to(words& w, node& n) {
    w.expect(" to=");
    n.attr.ints.push_back(read_placement(w));
  }
  static void read_axis(words& w, node& n, const char* what = "axis") { n.attr.ints.push_back(w.integer(what)); }
  /// A single process knows the result only where the axis has one rank: the operand.
  static void reference(const evaluation& e, literal_array& out) {
    if (e.n.attr.ints[1] != 1)
      fail(name(e.n.code),
           "the other ranks of " + mesh_axis_name(e.n.attr.ints[0]) +
               " are elsewhere; call shard_map(m, f) on the ranks of m, or simulate(f, m) in one process",
           e.n.where);
    if (!e.in.empty()) {
      out.f = e.in[0]->f;
      out.i = e.in[0]->i;
    }
  }
  /// A sum over the ranks.
  static roundings of_sum(const evaluation& e) { return {static_cast<double>(e.n.attr.ints[1]), false, false}; }
};

/// Ops whose lanes change none of their ints.
struct same_over_lanes {
  static value batch(const lane_site& s) { return s.push(s.n.attr); }
};

}  // namespace sinter::ir::ops
