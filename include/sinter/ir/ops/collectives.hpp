// ir/ops/collectives.hpp: the records of the ops over an axis of a mesh. ints = {axis, ranks, …}; `to` is the placement of the
// result, invariant or replicated. Cotangents of replicated values are partial, and the reverse.
#pragma once

#include <algorithm>

#include "collective.hpp"

namespace sinter::ir::ops {

/// all_reduce (x): ints = {axis, ranks, to}, attr.combiner add, maximum or minimum. Tied extremes share a cotangent.
struct all_reduce_op : over_mesh_axis, same_over_lanes {
  static void infer(inference& f) {
    expect(f, 1, 1);
    result(f);
    const op combiner = f.n.attr.combiner;
    if (combiner != op::add && combiner != op::maximum && combiner != op::minimum)
      f.refuse({combiner, " does not combine ranks; take add, maximum or minimum"});
    f.numbers(f.n.type);
  }
  static std::string text(const node& n) { return std::string(" ") + name(n.attr.combiner) + over(n) + to(n); }
  static void read(words& w, node& n) {
    n.attr.combiner = w.combiner();
    read_over(w, n);
    read_to(w, n);
  }

  /// True where this rank holds the extreme; `count` receives the number of ranks that do.
  static value holds(const site& s, value& count) {
    const mesh_axis_of a(s.n());
    const auto to = static_cast<placement>(s.n().attr.ints[2]);
    const value at = eq(s.in(0), varied(s.result(), a, to));
    const value ones = cast(at, is_narrow(s.in(0).type()) ? dtype::f32 : s.in(0).type());
    count = all_reduce(placed_as(ones, a, placement::varying, placement::partial), a, to);
    return at;
  }
  static value jvp(const site& s, const tangents& t) {
    if (s.n().attr.combiner == op::add) return linear::jvp(s, t);
    const mesh_axis_of a(s.n());
    value count;
    const value own = select(holds(s, count), t[0], 0.0);
    const auto to = static_cast<placement>(s.n().attr.ints[2]);
    return share(all_reduce(placed_as(own, a, placement::varying, placement::partial), a, to), count);
  }
  static value vjp(const site& s, std::size_t, const value& ct) {
    const mesh_axis_of a(s.n());
    const auto to = static_cast<placement>(s.n().attr.ints[2]);
    const auto all_of = [&](const value& x) {  // a cotangent of the result, replicated
      return to == placement::replicated ? all_reduce(x, a, placement::replicated)
                                         : placed_as(x, a, placement::invariant, placement::replicated);
    };
    if (s.n().attr.combiner == op::add) return all_of(ct);
    value count;
    const value at = holds(s, count);
    return select(at, varied(all_of(share(ct, count)), a, placement::replicated), 0.0);
  }
  static roundings rounding(const evaluation& e, const literal_array&) {
    return e.n.attr.combiner == op::add ? of_sum(e) : roundings{};
  }
};

/// all_gather (x): ints = {axis, ranks, to, along}: the ranks' values side by side along an axis.
struct all_gather_op : over_mesh_axis, linear, without_rounding {
  static void infer(inference& f) {
    expect(f, 1, 2);
    result(f);
    const std::size_t along = tensor_axis(f, 3);
    f.n.extents[along] = known_extent(f, along) * f.n.attr.ints[1];
  }
  static std::string text(const node& n) { return over(n) + to(n) + axis(n, 3); }
  static void read(words& w, node& n) {
    read_over(w, n);
    read_to(w, n);
    read_axis(w, n);
  }
  static value batch(const lane_site& s) {
    attributes attr = s.n.attr;
    ++attr.ints[3];
    return s.push(std::move(attr));
  }
  static value vjp(const site& s, std::size_t, const value& ct) {
    const mesh_axis_of a(s.n());
    const std::int64_t along = s.n().attr.ints[3];
    if (static_cast<placement>(s.n().attr.ints[2]) == placement::replicated) return reduce_scatter(ct, a, along);
    return own_part(ct, a, placement::invariant, along);
  }
};

/// reduce_scatter (x): ints = {axis, ranks, along}: each rank's part of the sum.
struct reduce_scatter_op : over_mesh_axis, linear {
  static void infer(inference& f) {
    expect(f, 1, 1);
    f.numbers(f.n.type);
    const std::size_t along = tensor_axis(f, 2);
    f.n.extents[along] = part_of(f, along);
  }
  static std::string text(const node& n) { return over(n) + axis(n, 2); }
  static void read(words& w, node& n) {
    read_over(w, n);
    read_axis(w, n);
  }
  static value batch(const lane_site& s) {
    attributes attr = s.n.attr;
    ++attr.ints[2];
    return s.push(std::move(attr));
  }
  static value vjp(const site& s, std::size_t, const value& ct) {
    return all_gather(ct, mesh_axis_of(s.n()), placement::replicated, s.n().attr.ints[2]);
  }
  static roundings rounding(const evaluation& e, const literal_array&) { return of_sum(e); }
};

/// all_to_all (x): ints = {axis, ranks, from, to}: part r along `from` goes to rank r, side by side along `to`.
struct all_to_all_op : over_mesh_axis, linear, without_rounding {
  static void infer(inference& f) {
    expect(f, 1, 2);
    const std::size_t from = tensor_axis(f, 2), to = tensor_axis(f, 3);
    const std::int64_t part = *part_of(f, from).number();
    const std::int64_t joined = from == to ? part : known_extent(f, to);
    f.n.extents[from] = part;
    f.n.extents[to] = joined * f.n.attr.ints[1];
  }
  static std::string text(const node& n) { return over(n) + axis(n, 2, "from") + axis(n, 3, "to"); }
  static void read(words& w, node& n) {
    read_over(w, n);
    read_axis(w, n, "from");
    read_axis(w, n, "to");
  }
  static value batch(const lane_site& s) {
    attributes attr = s.n.attr;
    ++attr.ints[2];
    ++attr.ints[3];
    return s.push(std::move(attr));
  }
  static value vjp(const site& s, std::size_t, const value& ct) {
    return all_to_all(ct, mesh_axis_of(s.n()), s.n().attr.ints[3], s.n().attr.ints[2]);
  }
};

/// collective_permute (x): ints = {axis, ranks, sources…}: rank r receives from rank sources[r]; zeros for -1. No rank sends
/// twice.
struct collective_permute_op : over_mesh_axis, linear, same_over_lanes, without_rounding {
  static void infer(inference& f) {
    if (f.n.attr.ints.size() < 2) f.malformed();
    const std::int64_t ranks = f.n.attr.ints[1];
    expect(f, 1, static_cast<std::size_t>(ranks));
    const axes_t from = sources(f.n);
    for (std::size_t r = 0; r < from.size(); ++r) {
      if (from[r] < -1 || from[r] >= ranks)
        f.refuse({"rank ", r, " receives from rank ", from[r], "; ranks are 0 to ", ranks - 1});
      if (from[r] >= 0 && std::count(from.begin(), from.end(), from[r]) > 1)
        f.refuse({"rank ", from[r], " sends to two ranks; each rank sends to one, and broadcast(x, root) to all"});
    }
  }
  static axes_t sources(const node& n) { return axes_t(n.attr.ints.begin() + 2, n.attr.ints.end()); }
  static std::string text(const node& n) { return over(n) + " from=" + piece(sources(n)).text(); }
  static void read(words& w, node& n) {
    read_over(w, n);
    for (const std::int64_t rank : w.integers("from")) n.attr.ints.push_back(rank);
  }
  static void reference(const evaluation& e, literal_array& out) {
    over_mesh_axis::reference(e, out);
    if (e.n.attr.ints[2] >= 0) return;
    std::fill(out.f.begin(), out.f.end(), 0.0);
    std::fill(out.i.begin(), out.i.end(), 0);
  }
  static value vjp(const site& s, std::size_t, const value& ct) {
    const axes_t from = sources(s.n());
    axes_t back(from.size(), -1);
    for (std::size_t r = 0; r < from.size(); ++r)
      if (from[r] >= 0) back[static_cast<std::size_t>(from[r])] = static_cast<std::int64_t>(r);
    return collective_permute(ct, mesh_axis_of(s.n()), back);
  }
};

/// collective_broadcast (x): ints = {axis, ranks, to, root}.
struct collective_broadcast_op : over_mesh_axis, linear, same_over_lanes, without_rounding {
  static void infer(inference& f) {
    expect(f, 1, 2);
    result(f);
    const std::int64_t root = f.n.attr.ints[3], ranks = f.n.attr.ints[1];
    if (root < 0 || root >= ranks) f.refuse({"the root is rank ", root, "; ranks are 0 to ", ranks - 1});
  }
  static std::string text(const node& n) { return over(n) + to(n) + axis(n, 3, "root"); }
  static void read(words& w, node& n) {
    read_over(w, n);
    read_to(w, n);
    read_axis(w, n, "root");
  }
  static value vjp(const site& s, std::size_t, const value& ct) {
    const mesh_axis_of a(s.n());
    const bool replicated = static_cast<placement>(s.n().attr.ints[2]) == placement::replicated;
    const value all = replicated ? all_reduce(ct, a, placement::replicated) : ct;
    const value own = varied(all, a, replicated ? placement::replicated : placement::invariant);
    return select(is_root(own, a, s.n().attr.ints[3]), own, 0.0);
  }
};

/// axis_index (): ints = {axis, ranks}: this rank's index along the axis, an i64 of rank 0.
struct axis_index_op : over_mesh_axis, without_derivative, without_lanes, without_rounding {
  static void infer(inference& f) {
    expect(f, 0, 0);
    f.n.type = dtype::i64;
  }
  static std::string text(const node& n) { return over(n); }
  static void read(words& w, node& n) { read_over(w, n); }
};

/// as (x): ints = {axis, ranks, from, to}: x, held in another way. It computes nothing; its derivative communicates. With equal
/// placements it marks an argument of shard_map.
struct as_op : over_mesh_axis, same_over_lanes, linear, without_rounding {
  static void infer(inference& f) {
    expect(f, 1, 2);
    const auto from = static_cast<placement>(f.n.attr.ints[2]), to = static_cast<placement>(f.n.attr.ints[3]);
    if (!converts(from, to))
      f.refuse({name(from), " values do not become ", name(to), " without communication; take a collective"});
  }
  static std::string text(const node& n) {
    return over(n) + " " + name(static_cast<placement>(n.attr.ints.at(2))) + " to " +
           name(static_cast<placement>(n.attr.ints.at(3)));
  }
  static void read(words& w, node& n) {
    read_over(w, n);
    w.expect(" ");
    n.attr.ints.push_back(read_placement(w));
    w.expect(" to ");
    n.attr.ints.push_back(read_placement(w));
  }
  /// A placement has no number of ranks to disagree with.
  static void reference(const evaluation& e, literal_array& out) {
    out.f = e.in[0]->f;
    out.i = e.in[0]->i;
  }
  static value vjp(const site& s, std::size_t, const value& ct) {
    const mesh_axis_of a(s.n());
    const auto from = static_cast<placement>(s.n().attr.ints[2]), to = static_cast<placement>(s.n().attr.ints[3]);
    if (from == to) {
      if (dual(from) != from)
        fail("shard_map",
             std::string("a derivative by a ") + name(from) +
                 " argument of shard_map is taken from outside, where each rank has only its share; call "
                 "value_and_grad inside shard_map",
             s.n().where);
      return ct;
    }
    if (from == placement::invariant) return all_reduce(ct, a, placement::invariant);
    return placed_as(ct, a, dual(to), dual(from));
  }
};

/// Whether all ranks have the result of a collective.
inline bool is_shared(const node& n) {
  return n.code == op::all_reduce || n.code == op::all_gather || n.code == op::collective_broadcast;
}

/// The lanes side by side along `axis` of one lane's value.
inline value joined_lanes(const value& x, std::int64_t axis) {
  const value y = lanes_moved_to(x, axis);
  shape extents = y.extents();
  const auto a = static_cast<std::size_t>(axis);
  extents[a + 1] *= extents[a];
  extents.erase(extents.begin() + axis);
  return reshape(y, std::move(extents));
}
/// x cut into lanes along an axis: the inverse.
inline value cut_into_lanes(const value& x, std::int64_t ranks, std::int64_t axis) {
  shape extents = x.extents();
  const auto a = static_cast<std::size_t>(axis);
  extents[a] = extents[a].divided_by(ranks).value();
  extents.insert(extents.begin() + axis, dim(ranks));
  return lanes_moved_from(reshape(x, std::move(extents)), axis);
}

inline value exchanged_lanes(const value& x, std::int64_t ranks, std::int64_t from, std::int64_t to) {
  const std::int64_t rank = x.rank() - 1;
  shape extents = x.extents();
  const auto split = static_cast<std::size_t>(from + 1);
  extents[split] = extents[split].divided_by(ranks).value();
  extents.insert(extents.begin() + from + 1, dim(ranks));
  axes_t order{from + 1};
  for (std::int64_t a = 0; a < rank; ++a) {
    if (a == to) order.push_back(0);
    order.push_back(a < from ? a + 1 : a + 2);
  }
  const value y = permute(reshape(x, std::move(extents)), order);
  shape joined = y.extents();
  const auto t = static_cast<std::size_t>(to + 1);
  joined[t + 1] *= joined[t];
  joined.erase(joined.begin() + to + 1);
  return reshape(y, std::move(joined));
}

/// Lane r of the result is lane sources[r] of x.
inline value permuted_lanes(const value& x, const axes_t& sources) {
  const auto lanes_from = [&](std::int64_t first, std::int64_t count) {
    shape extents = x.extents(), start(extents.size(), 0);
    extents[0] = count;
    if (first < 0) return zeros(x, std::move(extents));
    start[0] = first;
    return slice(x, std::move(extents), start, axes_t(x.extents().size(), 1));
  };
  series<value> parts;
  for (std::size_t r = 0; r < sources.size();) {
    std::size_t end = r + 1;
    const std::int64_t step = sources[r] < 0 ? 0 : 1;
    while (end < sources.size() && sources[end] == sources[end - 1] + step) ++end;
    parts.push_back(lanes_from(sources[r], static_cast<std::int64_t>(end - r)));
    r = end;
  }
  return parts.size() == 1 ? parts[0] : concat(parts, 0);
}

/// A collective whose ranks are the lanes, as ordinary ops. Results that all ranks have do not vary.
inline lane_value over_ranks(const lane_site& s) {
  const axes_t& ints = s.n.attr.ints;
  const std::int64_t ranks = ints[1];
  if (s.n.code == op::axis_index) {
    attributes a;
    a.type = dtype::i64;
    a.dims = {s.lanes};
    a.ints = {0};
    return {{s.g, s.g.push(op::iota, {}, std::move(a), s.n.where), s.n.where}, true};
  }
  if (s.n.code == op::as) return s.operands[0];
  const value x = s.over(0);
  switch (s.n.code) {
    case op::all_reduce:
      return {reduce(x, s.n.attr.combiner, {0}), false};
    case op::all_gather:
      return {joined_lanes(x, ints[3]), false};
    case op::reduce_scatter:
      return {cut_into_lanes(reduce(x, op::add, {0}), ranks, ints[2]), true};
    case op::all_to_all:
      return {exchanged_lanes(x, ranks, ints[2], ints[3]), true};
    case op::collective_permute:
      return {permuted_lanes(x, collective_permute_op::sources(s.n)), true};
    default: {
      shape one = x.extents(), start(one.size(), 0);
      one[0] = 1;
      start[0] = ints[3];
      const value root = slice(x, one, start, axes_t(one.size(), 1));
      return {reshape(root, shape(one.begin() + 1, one.end())), false};
    }
  }
}

}  // namespace sinter::ir::ops
