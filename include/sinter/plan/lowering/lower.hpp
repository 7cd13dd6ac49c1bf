// plan/lowering/lower.hpp: a set of roots -> one kernel, or the reason why they cannot share one.
#pragma once

#include "../../base/sorted.hpp"
#include "../kernel/body.hpp"
#include "../kernel/index.hpp"
#include "../kernel/root.hpp"

namespace sinter::engine::plan {

namespace detail {

class lowering {
 public:
  lowering(const ir::graph& g, std::span<const root> roots, const memory_map& memory, series<dim> axes)
      : g_(g), roots_(roots), memory_(memory), axes_(std::move(axes)) {}

  kernel run() {
    for (const auto& r : roots_) targets_.insert(r.target);
    for (const auto& r : roots_) place(r);
    if (k_.is_scan() && roots_.size() > 1) throw refusal{"a scan has a kernel of its own", ir::no_node};
    for (auto& e : axes_) k_.axes.push_back({e, role::inner});
    return std::move(k_);
  }

 private:
  std::size_t n() const { return axes_.size(); }

  void place(const root& r) {
    if (r.value != ir::no_node && g_[r.value].code == ir::op::dot && r.value == r.target) return place_product(r);
    std::string why =
        "iterates over " + ir::text_of(r.extents) + " where the kernel iterates over " + ir::text_of(axes_);
    for (const auto& candidate : candidates()) {
      const auto at = align(r.extents, candidate, candidate.size() == n());
      if (!at) continue;
      const auto saved = k_;
      const auto memo = memo_;
      const auto kept = kept_;
      depth_ = 0;
      try {
        return place_at(r, *at);
      } catch (const refusal& no) {
        if (no.needs_memory != ir::no_node) throw;
        why = no.why;
        k_ = saved;
        memo_ = memo;
        kept_ = kept;
      }
    }
    throw refusal{why, ir::no_node};
  }

  void place_at(const root& r, const coordinates& at) {
    const ir::node& target = g_[r.target];
    coordinates to = at;
    int value = -1;
    affine address;
    plan::store out;
    if (r.value == ir::no_node) {
      value = literal(k_, target.type, r.fill);
    } else if (const ir::node& v = g_[r.value];
               r.value == r.target && (v.code == ir::op::reduce || v.code == ir::op::arg_reduce)) {
      value = reduction(v, at, to);
    } else if (r.value == r.target && v.code == ir::op::scan) {
      series<int> args;
      for (auto x : v.in) args.push_back(value_at(x, at));
      value = scan(k_, v, std::move(args), at[static_cast<std::size_t>(v.attr.ints[0])]);
    } else if (r.value == r.target) {
      value = compute(r.value, at);
    } else {
      value = value_at(r.value, at);
    }
    if (r.scatter) {
      const auto axis = static_cast<std::size_t>(target.attr.ints[0]);
      to[axis] = indirect(k_, value_at(target.in[1], at), n());
      out.accumulate = true;
      out.bound = target.extents[axis];
    }
    for (std::size_t d = 0; d < r.start.size(); ++d) to[d] = to[d] + constant_coordinate(r.start[d], n());
    out.value = value;
    // A reshape is stored in the order of its operand.
    const bool operand_order = r.value != r.target && target.code == ir::op::reshape;
    out.at = {buffer(k_, g_, memory_, r.target, true),
              linear(to, row_major(operand_order ? r.extents : target.extents), n())};
    k_.stores.push_back(std::move(out));
    if (r.value == r.target) placed_[r.target] = {std::move(to), value};
  }

  int reduction(const ir::node& v, const coordinates& at, coordinates& to) {
    instruction i;
    i.kind = v.code == ir::op::reduce ? kind::reduce : kind::arg_reduce;
    i.code = v.attr.combiner;
    i.type = v.type;
    i.where = v.where;
    i.args = {value_at(v.in[0], at)};
    sorted_set<std::size_t> over;
    to.clear();
    for (std::size_t d = 0; d < at.size(); ++d) {
      const bool reduced = std::count(v.attr.ints.begin(), v.attr.ints.end(), static_cast<std::int64_t>(d)) > 0;
      if (!reduced) to.push_back(at[d]);
      for (std::size_t a = 0; reduced && a < n(); ++a)
        if (!at[d].stride[a].is(0)) over.insert(a);
    }
    i.over.assign(over.begin(), over.end());
    if (over.empty()) {
      if (i.kind == kind::reduce) return i.args[0];
      return literal(k_, v.type, {});
    }
    i.axes = k_.body[static_cast<std::size_t>(i.args[0])].axes;
    for (auto a : over) i.axes &= ~(1u << a);
    if (i.kind == kind::arg_reduce) {
      // The position along the reduced dimension, which a collapsed or split axis no longer spells.
      i.at.at = at[static_cast<std::size_t>(v.attr.ints[0])];
    }
    kept_.emplace_back();
    for (std::size_t a = 0; a < n(); ++a) {
      bool walked = false;
      for (const auto& c : at) walked = walked || !c.stride[a].is(0);
      if (walked && !over.count(a)) kept_.back().push_back(a);
    }
    return add(k_, std::move(i));
  }

  void place_product(const root& r) {
    const ir::node& v = g_[r.value];
    if (!k_.products.empty()) throw refusal{"two matrix products", ir::no_node};
    const auto nb = static_cast<std::size_t>(v.attr.ints[0]), nk = static_cast<std::size_t>(v.attr.ints[1]);
    const ir::node& a = g_[v.in[0]];
    const std::size_t nm = a.extents.size() - nb - nk;
    series<std::size_t> all(n());
    for (std::size_t i = 0; i < n(); ++i) all[i] = i;
    const auto at = align(r.extents, all, true);
    if (!at) throw refusal{"the matrix product iterates over " + ir::text_of(r.extents), ir::no_node};
    plan::product p;
    p.type = v.type;
    series<dim> extended = axes_;
    coordinates ks;
    for (std::size_t d = 0; d < nk; ++d) {
      const dim& e = a.extents[nb + nm + d];
      if (!e.is(1)) {
        p.k.push_back(e);
        extended.push_back(e);
      }
    }
    const std::size_t total = extended.size();
    std::size_t next = n();
    for (std::size_t d = 0; d < nk; ++d)
      ks.push_back(a.extents[nb + nm + d].is(1) ? constant_coordinate(0, total) : axis_coordinate(next++, total));
    auto widened = [&](std::size_t from, std::size_t to) {
      coordinates c(at->begin() + static_cast<std::ptrdiff_t>(from), at->begin() + static_cast<std::ptrdiff_t>(to));
      for (auto& x : c) x.stride.resize(total);
      return c;
    };
    auto joined = [](coordinates x, const coordinates& y) {
      x.insert(x.end(), y.begin(), y.end());
      return x;
    };
    p.a = address(v.in[0], joined(widened(0, nb + nm), ks), extended);
    p.b = address(v.in[1], joined(joined(widened(0, nb), ks), widened(nb + nm, at->size())), extended);
    auto count_axes = [&](std::size_t from, std::size_t to) {
      int count = 0;
      for (std::size_t d = from; d < to; ++d)
        for (const auto& s : (*at)[d].stride) count += !s.is(0);
      return count;
    };
    p.batch = count_axes(0, nb);
    p.m = count_axes(nb, nb + nm);
    k_.products.push_back(std::move(p));
    instruction i;
    i.kind = kind::product;
    i.type = v.type;
    i.where = v.where;
    i.axes = ~0u;
    const int value = add(k_, std::move(i));
    k_.stores.push_back(
        {value, {buffer(k_, g_, memory_, r.target, true), linear(*at, row_major(v.extents), n())}, false, {}});
    placed_[r.target] = {*at, value};
  }

  /// The axis lists that a root's extents may run along: all, or what a placed reduction keeps.
  series<series<std::size_t>> candidates() const {
    series<series<std::size_t>> out(1);
    for (std::size_t a = 0; a < n(); ++a) out[0].push_back(a);
    for (const auto& k : kept_)
      if (std::find(out.begin(), out.end(), k) == out.end()) out.push_back(k);
    return out;
  }

  std::optional<coordinates> align(const ir::shape& extents, const series<std::size_t>& along, bool may_split) const {
    coordinates at;
    std::size_t j = 0;
    for (const dim& e : extents) {
      affine c = constant_coordinate(0, n());
      if (const auto end = run_of(e, along, j); end > j) {
        dim stride = 1;
        for (std::size_t x = end; x-- > j;) {
          c.stride[along[x]] = stride;
          stride *= axes_[along[x]];
        }
        j = end;
        at.push_back(std::move(c));
        continue;
      }
      for (dim rest = e; !rest.is(1);) {
        if (j == along.size()) return std::nullopt;
        const dim& axis = axes_[along[j]];
        const auto q = rest.divided_by(axis);
        if (!q) {
          const auto inner = axis.divided_by(rest);
          if (may_split && inner && !inner->is(1) && !rest.is(0) && !axis.is(0))
            throw split_request{along[j], rest, *inner};
          return std::nullopt;
        }
        c.stride[along[j++]] = *q;
        rest = *q;
      }
      at.push_back(std::move(c));
    }
    return j == along.size() ? std::optional(std::move(at)) : std::nullopt;
  }

  /// The end of the axes along[j…] whose extents multiply to `e`; j when there are none.
  std::size_t run_of(const dim& e, const series<std::size_t>& along, std::size_t j) const {
    dim covered = 1;
    for (std::size_t x = j; x < along.size(); ++x) {
      covered *= axes_[along[x]];
      if (covered == e) return x + 1;
    }
    return j;
  }

  /// The instruction for node `id` at coordinates `at`.
  int value_at(node_id id, coordinates at) {
    const ir::node& v = g_[id];
    for (std::size_t d = 0; d < at.size(); ++d)
      if (v.extents[d].is(1)) at[d] = constant_coordinate(0, n());
    if (const auto p = placed_.find(id); p != placed_.end()) {
      if (!(p->second.first == at))
        throw refusal{"%" + std::to_string(id) + " is read at another index than it is computed at", ir::no_node};
      return p->second.second;
    }
    if (targets_.count(id))
      throw refusal{"%" + std::to_string(id) + " is complete only when its kernel ends", ir::no_node};
    if (const auto known = memo_.find(id); known != memo_.end())
      for (const auto& [where, value] : known->second)
        if (where == at) return value;
    const int value = memory_.stored[id] ? load(id, at) : computed(id, at);
    memo_[id].emplace_back(std::move(at), value);  // behind what it is computed from, so at the map's end mostly
    return value;
  }

  /// As compute. What is far down, or one op too many, has to be in memory: compilers take long for very large kernels.
  int computed(node_id id, const coordinates& at) {
    if ((depth_ >= most_deep || k_.body.size() >= most_instructions) && !g_[id].in.empty())
      throw refusal{"more operations than a kernel may have, or have in a row", id};
    ++depth_;
    const int value = compute(id, at);
    --depth_;
    return value;
  }

  int compute(node_id id, const coordinates& at) {
    const ir::node& v = g_[id];
    if (ir::is_pointwise(v.code)) {
      instruction i;
      i.kind = kind::compute;
      i.code = v.code;
      i.type = v.type;
      i.where = v.where;
      i.node = id;
      for (auto in : v.in) {
        i.args.push_back(value_at(in, at));
        i.axes |= k_.body[static_cast<std::size_t>(i.args.back())].axes;
      }
      return add(k_, std::move(i));
    }
    switch (v.code) {
      case ir::op::constant:
        return literal(k_, v.type, v.attr.literal);
      case ir::op::size:
        return position(k_, constant_coordinate(v.attr.dims[0], n()));
      case ir::op::iota: {
        const int i = position(k_, at[static_cast<std::size_t>(v.attr.ints[0])]);
        return v.type == dtype::i64 ? i : converted(k_, i, v.type);
      }
      case ir::op::reshape:
        if (is_dense(v.in[0])) return load_from(v.in[0], linear(at, row_major(v.extents), n()));
        return value_at(v.in[0], reshaped(id, linear(at, row_major(v.extents), n()), axes_));
      case ir::op::permute:
      case ir::op::broadcast:
      case ir::op::slice:
        return value_at(v.in[0], through_view(v, g_[v.in[0]].extents, at, n()));
      case ir::op::gather: {
        for (const auto& c : at)
          if (c.index >= 0) throw refusal{"an index is read at an index", id};
        ensure(!ir::may_read_nothing(g_, v), "what gather reads has an element");
        const auto axis = static_cast<std::size_t>(v.attr.ints[0]);
        coordinates below = at;
        const int index = clamped(k_, value_at(v.in[1], at), g_[v.in[0]].extents[axis], n());
        k_.body[static_cast<std::size_t>(index)].where = v.where;
        below[axis] = indirect(k_, index, n());
        return value_at(v.in[0], std::move(below));
      }
      default:
        throw refusal{"%" + std::to_string(id) + " " + ir::name(v.code) + " has to be in memory", id};
    }
  }

  /// The coordinates of the operand of the reshape `id`; where there are none, one of the two has to be in memory.
  coordinates reshaped(node_id id, affine offset, const series<dim>& axes) {
    const node_id below = g_[id].in[0];
    auto at = digits(std::move(offset), g_[below].extents, axes);
    if (const auto* split = std::get_if<split_request>(&at); split && split->axis < n()) throw *split;
    if (auto* c = std::get_if<coordinates>(&at)) return std::move(*c);
    throw refusal{"a reshape to " + ir::text_of(g_[below].extents) + " does not follow the axes",
                  memory_.stored[below] ? id : below};
  }

  /// True for what is in memory in row-major order before this kernel runs: an offset is all that a reshape of it needs.
  bool is_dense(node_id id) const {
    return memory_.stored[id] && !targets_.count(id) &&
           (memory_.strides[id].empty() || memory_.strides[id] == row_major(g_[id].extents));
  }

  int load(node_id id, const coordinates& at) { return load_from(id, linear(at, strides_of(id), n())); }

  int load_from(node_id id, affine offset) {
    instruction i;
    i.kind = kind::load;
    i.type = g_[id].type;
    i.where = g_[id].where;
    i.at = {buffer(k_, g_, memory_, id, false), std::move(offset)};
    i.axes = axes_of(k_, i.at.at);
    for (std::size_t k = 0; k < k_.body.size(); ++k)
      if (k_.body[k].kind == kind::load && k_.body[k].at == i.at) return static_cast<int>(k);
    return add(k_, std::move(i));
  }

  /// The memory operand that `id` is, through views, at coordinates over `axes` (which may extend the kernel's).
  access address(node_id id, coordinates at, const series<dim>& axes) {
    for (;;) {
      const ir::node& v = g_[id];
      for (std::size_t d = 0; d < at.size(); ++d)
        if (v.extents[d].is(1)) at[d] = constant_coordinate(0, axes.size());
      if (targets_.count(id))
        throw refusal{"%" + std::to_string(id) + " is complete only when its kernel ends", ir::no_node};
      if (memory_.stored[id]) return {buffer(k_, g_, memory_, id, false), linear(at, strides_of(id), axes.size())};
      if (!ir::is_view(v.code)) throw refusal{"an operand of a matrix product has to be in memory", id};
      if (v.code == ir::op::reshape && is_dense(v.in[0]))
        return {buffer(k_, g_, memory_, v.in[0], false), linear(at, row_major(v.extents), axes.size())};
      at = v.code == ir::op::reshape ? reshaped(id, linear(at, row_major(v.extents), axes.size()), axes)
                                     : through_view(v, g_[v.in[0]].extents, at, axes.size());
      id = v.in[0];
    }
  }

  /// Row-major of nothing, so that its reads stay in loops of no step: strides of 0 would let them out.
  series<dim> strides_of(node_id id) const {
    const bool nothing = ir::product(g_[id].extents).is(0);
    return nothing || memory_.strides[id].empty() ? row_major(g_[id].extents) : memory_.strides[id];
  }

  static constexpr std::size_t most_instructions = 4096;
  static constexpr int most_deep = 1000;

  const ir::graph& g_;
  std::span<const root> roots_;
  const memory_map& memory_;
  int depth_ = 0;
  series<dim> axes_;
  kernel k_;
  sorted_set<node_id> targets_;
  sorted_map<node_id, std::pair<coordinates, int>> placed_;  ///< roots of this kernel: where and what
  sorted_map<node_id, series<std::pair<coordinates, int>>> memo_;
  series<series<std::size_t>> kept_;  ///< per placed reduction, the axes that it keeps
};

}  // namespace detail

/// The kernel that computes `roots`, given in topological order; axes have no roles yet. Throws refusal.
SINTER_API kernel lower(const ir::graph& g, std::span<const root> roots, const memory_map& memory) {
  const root* leader = &roots[0];
  auto weight = [&](const root& r) { return ir::product(r.extents).evaluate(memory.hints); };
  for (const auto& r : roots)
    if (weight(r) > weight(*leader)) leader = &r;
  series<dim> axes;
  for (const auto& e : leader->extents)
    if (!e.is(1)) axes.push_back(e);
  for (int attempt = 0; attempt < 32; ++attempt) {
    try {
      return detail::lowering(g, roots, memory, axes).run();
    } catch (const split_request& split) {
      axes[split.axis] = split.outer;
      axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(split.axis) + 1, split.inner);
    }
  }
  throw refusal{"the axes have no common refinement", ir::no_node};
}

}  // namespace sinter::engine::plan
