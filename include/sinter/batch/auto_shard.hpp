// batch/auto_shard.hpp: the graph of whole tensors -> the graph of one rank's parts, whose inputs say how they are divided.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "../engine/mesh.hpp"
#include "../ir/ops/collectives.hpp"

namespace sinter::engine {

namespace batch {

/// One rank's part of a value: for each axis of the mesh, the axis of the tensor that it divides, or -1: all ranks have it.
struct part_of_value {
  ir::value x;
  series<int> along;
};

/// The rule of a product, a sum or a pointwise op tells which axes of the result its operands' parts are. A sum over a divided axis
/// is summed over the ranks. An operand that all ranks have is cut where the other one is divided. Other ops get whole operands.
class sharding {
 public:
  sharding(ir::graph& to, const ir::graph& from, std::span<const mesh_axis_place> axes)
      : to_(to), from_(from), axes_(axes), of_(from.size()) {}

  /// The outputs' values, whole on all ranks.
  series<ir::node_id> run(const series<part_of_value>& inputs) {
    for (std::size_t k = 0; k < from_.inputs.size(); ++k) of_[from_.inputs[k]] = inputs[k];
    for (auto id : from_.live())
      if (from_[id].code != ir::op::input) of_[id] = part(from_[id]);
    series<ir::node_id> out;
    for (auto id : from_.outputs) out.push_back(whole(of_[id]).x.id());
    return out;
  }

 private:
  static constexpr auto replicated = ir::placement::replicated;

  ir::ops::mesh_axis_of mesh_axis(std::size_t k) const { return {axes_[k].number, axes_[k].ranks}; }
  const part_of_value& in(const ir::node& n, std::size_t k) const { return of_[n.in[k]]; }
  series<int> nowhere() const { return series<int>(axes_.size(), -1); }

  part_of_value part(const ir::node& n) {
    using ir::op;
    if (ir::is_pointwise(n.code)) return side_by_side(n, -1);
    switch (n.code) {
      case op::dot:
        return product(n);
      case op::reduce:
        return n.in.size() == 1 ? reduction(n) : of_whole(n);
      case op::permute:
        return permuted(n);
      case op::broadcast:
        return in(n, 0).x.rank() == static_cast<std::int64_t>(n.extents.size()) ? expanded(n) : of_whole(n);
      case op::reshape:
        return reshaped(n);
      case op::slice:
        return sliced(n);
      case op::concat:
        return side_by_side(n, static_cast<int>(n.attr.ints[0]));
      default:
        return of_whole(n);
    }
  }

  part_of_value pushed(const ir::node& n, const series<ir::value>& operands, ir::attributes attr,
                       series<int> along) const {
    series<ir::node_id> ids;
    for (const auto& v : operands) ids.push_back(v.id());
    return {{to_, to_.push(n.code, std::move(ids), std::move(attr), n.where), n.where}, std::move(along)};
  }
  part_of_value of_whole(const ir::node& n) const {
    series<ir::value> operands;
    for (std::size_t k = 0; k < n.in.size(); ++k) operands.push_back(whole(in(n, k)).x);
    ir::attributes attr = n.attr;
    if (n.code == ir::op::opaque && attr.step->has_effect) attr.ints = {};
    return pushed(n, operands, std::move(attr), nowhere());
  }

  /// Joined along the axes of the mesh for which `joins` holds. The last axis that divides an axis of the tensor is the minor one.
  template <class F>
  part_of_value joined(part_of_value p, const F& joins) const {
    for (std::size_t k = axes_.size(); k-- > 0;) {
      if (p.along[k] < 0 || !joins(p.along[k])) continue;
      p.x = all_gather(p.x, mesh_axis(k), replicated, p.along[k]);
      p.along[k] = -1;
    }
    return p;
  }
  part_of_value whole(const part_of_value& p) const {
    return joined(p, [](int) { return true; });
  }

  /// Operand `o` of n, cut so that axis k of the mesh divides its axis `along`.
  ir::value cut(const ir::node& n, std::size_t o, const ir::value& x, std::size_t k, int along) const {
    const ir::node& given = from_[n.in[o]];
    ir::shape extents = x.extents();
    const auto a = static_cast<std::size_t>(along);
    extents[a] = extents[a].divided_by(axes_[k].ranks).value();
    const ir::node& now = to_[x.id()];
    if (given.code == ir::op::broadcast && now.code == ir::op::broadcast && to_[now.in[0]].extents[a] == ir::dim(1))
      return broadcast(ir::value(to_, now.in[0], n.where), std::move(extents));
    return ir::ops::own_part(x, mesh_axis(k), replicated, along);
  }

  std::string told(const ir::node& n, std::size_t o) const {
    const ir::node& x = from_[n.in[o]];
    std::string out = std::string(ir::name(x.code)) + " " + dtype_name(x.type) + ir::text_of(x.extents);
    if (x.where.line) out += " of line " + std::to_string(x.where.line);
    return out;
  }
  [[noreturn]] void ambiguous(const ir::node& n, std::size_t k, std::size_t a, int along_a, std::size_t b,
                              int along_b) const {
    fail("auto_shard",
         std::string(ir::name(n.code)) + " could keep either division by " + ir::mesh_axis_name(axes_[k].number) +
             ": operand " + std::to_string(a) + " (" + told(n, a) + ") is divided along axis " +
             std::to_string(along_a) + ", operand " + std::to_string(b) + " (" + told(n, b) + ") along axis " +
             std::to_string(along_b) + "; pass one of the inputs behind them whole, or divide it along another axis",
         n.where);
  }

  /// A pointwise op, and a concatenation along an axis: axes of operands are axes of the result.
  part_of_value side_by_side(const ir::node& n, int concat_axis) const {
    series<part_of_value> operands;
    for (std::size_t o = 0; o < n.in.size(); ++o)
      operands.push_back(joined(in(n, o), [&](int axis) { return axis == concat_axis; }));
    series<int> along = nowhere();
    for (std::size_t k = 0; k < axes_.size(); ++k) {
      std::size_t first = 0;
      for (std::size_t o = 0; o < operands.size(); ++o) {
        const int own = operands[o].along[k];
        if (own < 0 || own == along[k]) continue;
        if (along[k] >= 0) ambiguous(n, k, first, along[k], o, own);
        along[k] = own;
        first = o;
      }
    }
    for (std::size_t o = 0; o < operands.size(); ++o) align(n, o, operands[o], along);
    series<ir::value> values;
    for (const auto& p : operands) values.push_back(p.x);
    return pushed(n, values, n.attr, std::move(along));
  }
  /// Cuts an operand where the result is divided. The order of parts is the mesh's, so a minor axis that was cut first is joined.
  void align(const ir::node& n, std::size_t o, part_of_value& p, const series<int>& along) const {
    for (std::size_t k = 0; k < along.size(); ++k)
      if (along[k] >= 0 && p.along[k] < 0)
        for (std::size_t j = k + 1; j < along.size(); ++j)
          if (p.along[j] == along[k]) p = joined(p, [&](int axis) { return axis == along[k]; });
    for (std::size_t k = 0; k < along.size(); ++k)
      if (along[k] >= 0 && p.along[k] < 0) {
        p.x = cut(n, o, p.x, k, along[k]);
        p.along[k] = along[k];
      }
  }
  part_of_value product(const ir::node& n) const {
    const auto nb = static_cast<int>(n.attr.ints[0]), nk = static_cast<int>(n.attr.ints[1]);
    part_of_value a = in(n, 0), b = in(n, 1);
    const int ra = static_cast<int>(a.x.rank()), inner_a = ra - nk;
    // The einsum rule: letters 0 to nb - 1 are batch axes, then rows, inner axes, columns.
    const auto letter_a = [&](int i) { return i; };
    const auto letter_b = [&](int i) { return i < nb ? i : i < nb + nk ? inner_a + i - nb : ra + i - nb - nk; };
    const auto in_a = [&](int letter) { return letter < ra ? letter : -1; };
    const auto in_b = [&](int letter) {
      return letter < nb         ? letter
             : letter >= ra      ? letter - ra + nb + nk
             : letter >= inner_a ? letter - inner_a + nb
                                 : -1;
    };
    series<int> cut_a = nowhere(), cut_b = nowhere(), along = nowhere();
    series<std::size_t> sums;
    for (std::size_t k = 0; k < axes_.size(); ++k) {
      const int la = a.along[k] < 0 ? -1 : letter_a(a.along[k]), lb = b.along[k] < 0 ? -1 : letter_b(b.along[k]);
      if (la >= 0 && lb >= 0 && la != lb) ambiguous(n, k, 0, a.along[k], 1, b.along[k]);
      const int letter = std::max(la, lb);
      if (letter < 0) continue;
      cut_a[k] = in_a(letter);
      cut_b[k] = in_b(letter);
      if (letter >= inner_a && letter < ra) sums.push_back(k);
      else along[k] = letter < ra ? letter : letter - nk;
    }
    align(n, 0, a, cut_a);
    align(n, 1, b, cut_b);
    part_of_value out = pushed(n, {a.x, b.x}, n.attr, std::move(along));
    for (const std::size_t k : sums) out.x = summed(out.x, k);
    return out;
  }
  ir::value summed(const ir::value& x, std::size_t k) const {
    return all_reduce(placed_as(x, mesh_axis(k), ir::placement::varying, ir::placement::partial), mesh_axis(k),
                      replicated);
  }

  part_of_value reduction(const ir::node& n) const {
    const auto& over = n.attr.ints;
    const auto is_over = [&](int axis) { return std::find(over.begin(), over.end(), axis) != over.end(); };
    const ir::op how = n.attr.combiner;
    const bool combines = how == ir::op::add || how == ir::op::maximum || how == ir::op::minimum;
    const part_of_value p = joined(in(n, 0), [&](int axis) { return !combines && is_over(axis); });
    series<int> along = p.along;
    series<std::size_t> sums;
    for (std::size_t k = 0; k < axes_.size(); ++k) {
      if (along[k] < 0) continue;
      if (is_over(along[k])) {
        sums.push_back(k);
        along[k] = -1;
      } else {
        along[k] -= static_cast<int>(std::count_if(over.begin(), over.end(), [&](auto a) { return a < p.along[k]; }));
      }
    }
    part_of_value out = pushed(n, {p.x}, n.attr, std::move(along));
    for (const std::size_t k : sums)
      out.x = how == ir::op::add ? summed(out.x, k) : all_reduce(out.x, mesh_axis(k), replicated, how);
    return out;
  }

  part_of_value permuted(const ir::node& n) const {
    const part_of_value& p = in(n, 0);
    series<int> along = nowhere();
    for (std::size_t k = 0; k < axes_.size(); ++k)
      for (std::size_t r = 0; r < n.attr.ints.size(); ++r)
        if (p.along[k] >= 0 && n.attr.ints[r] == p.along[k]) along[k] = static_cast<int>(r);
    return pushed(n, {p.x}, n.attr, std::move(along));
  }

  /// The extents of this rank's part of n.
  ir::shape own_extents(const ir::node& n, const series<int>& along) const {
    ir::shape out = n.extents;
    for (std::size_t k = 0; k < axes_.size(); ++k)
      if (along[k] >= 0) {
        ir::dim& e = out[static_cast<std::size_t>(along[k])];
        e = e.divided_by(axes_[k].ranks).value();
      }
    return out;
  }
  part_of_value expanded(const ir::node& n) const {
    const part_of_value& p = in(n, 0);
    ir::attributes attr = n.attr;
    attr.dims = own_extents(n, p.along);
    return pushed(n, {p.x}, std::move(attr), p.along);
  }

  /// A divided axis stays divided where it is the major part of an axis of the result.
  part_of_value reshaped(const ir::node& n) const {
    const ir::shape& before = from_[n.in[0]].extents;
    series<int> to(before.size(), -1);
    const bool empty = ir::product(before) == ir::dim(0);
    for (std::size_t i = 0, r = 0; !empty && i < before.size(); ++i) {
      const ir::dim above = ir::product(ir::shape(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(i)));
      const auto above_in_result = [&](std::size_t end) {
        return ir::product(ir::shape(n.extents.begin(), n.extents.begin() + static_cast<std::ptrdiff_t>(end)));
      };
      while (r < n.extents.size() && !(above_in_result(r) == above && !(n.extents[r] == ir::dim(1)))) ++r;
      if (r < n.extents.size()) to[i] = static_cast<int>(r);
      else r = 0;
    }
    const auto stays = [&](int axis) {
      const int r = to[static_cast<std::size_t>(axis)];
      if (r < 0) return false;
      std::int64_t ranks = 1;
      for (std::size_t k = 0; k < axes_.size(); ++k)
        if (in(n, 0).along[k] == axis) ranks *= axes_[k].ranks;
      const auto extent = n.extents[static_cast<std::size_t>(r)].number();
      return extent && *extent % ranks == 0;
    };
    const part_of_value p = joined(in(n, 0), [&](int axis) { return !stays(axis); });
    series<int> along = p.along;
    for (int& a : along)
      if (a >= 0) a = to[static_cast<std::size_t>(a)];
    ir::attributes attr = n.attr;
    attr.dims = own_extents(n, along);
    return pushed(n, {p.x}, std::move(attr), std::move(along));
  }

  part_of_value sliced(const ir::node& n) const {
    const ir::shape& before = from_[n.in[0]].extents;
    const part_of_value p = joined(in(n, 0), [&](int axis) {
      const auto a = static_cast<std::size_t>(axis);
      return !(n.extents[a] == before[a] && n.attr.dims[before.size() + a] == ir::dim(0) && n.attr.ints[a] == 1);
    });
    ir::attributes attr = n.attr;
    const ir::shape own = own_extents(n, p.along);
    std::copy(own.begin(), own.end(), attr.dims.begin());
    return pushed(n, {p.x}, std::move(attr), p.along);
  }

  ir::graph& to_;
  const ir::graph& from_;
  std::span<const mesh_axis_place> axes_;
  series<part_of_value> of_;
};

}  // namespace batch

SINTER_API series<ir::node_id> push_sharded(tracer& t, tracer& body, series<ir::node_id> operands,
                                            std::span<const mesh_placement> how, std::span<const mesh_axis_place> axes,
                                            location where) {
  series<batch::part_of_value> inputs;
  const std::size_t given = operands.size();
  operands.insert(operands.end(), body.imported.begin(), body.imported.end());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    batch::part_of_value p{{t.graph, operands[i], where}, series<int>(axes.size(), -1)};
    for (std::size_t k = 0; k < axes.size(); ++k) {
      if (i < given) p.along[k] = how[i * axes.size() + k].along;
      if (p.along[k] < 0)
        p.x = ir::value(t.graph, push_traced_as(t, p.x.id(), axes[k], ir::placement::replicated, where), where);
    }
    inputs.push_back(std::move(p));
  }
  return batch::sharding(t.graph, body.graph, axes).run(inputs);
}

}  // namespace sinter::engine
