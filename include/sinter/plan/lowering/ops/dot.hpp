// plan/lowering/ops/dot.hpp: a matrix product: the kernel iterates over its result, and both operands are in memory.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct dot_op : in_memory {
  static coordinates part(const coordinates& at, std::size_t from, std::size_t to, std::size_t rank) {
    coordinates c(at.begin() + static_cast<std::ptrdiff_t>(from), at.begin() + static_cast<std::ptrdiff_t>(to));
    for (auto& x : c) x.stride.resize(rank);
    return c;
  }
  static coordinates joined(coordinates x, const coordinates& y) {
    x.insert(x.end(), y.begin(), y.end());
    return x;
  }
  /// The number of axes along which the coordinates `from` to `to` vary.
  static int count_axes(const coordinates& at, std::size_t from, std::size_t to) {
    int count = 0;
    for (std::size_t d = from; d < to; ++d)
      for (const auto& s : at[d].stride) count += !s.is(0);
    return count;
  }
  /// Whether an operand walks the contracted axes as one axis in this order; they follow `first` other axes.
  static bool is_one_axis(const affine& at, const product& p, const series<std::size_t>& order, std::size_t first) {
    for (std::size_t j = 0; j + 1 < order.size(); ++j)
      if (!(at.stride[first + order[j]] == at.stride[first + order[j + 1]] * p.k[order[j + 1]])) return false;
    return true;
  }
  /// Reorders the contracted axes so that both operands walk them as one, if possible. A convolution whose window is the
  /// whole image contracts channels last, while both operands have them first.
  static void order_terms(product& p, std::size_t first) {
    series<std::size_t> order(p.k.size());
    for (std::size_t j = 0; j < order.size(); ++j) order[j] = j;
    const auto are_one = [&] { return is_one_axis(p.a.at, p, order, first) && is_one_axis(p.b.at, p, order, first); };
    if (are_one()) return;
    const auto step = [&](std::size_t j) { return p.a.at.stride[first + j].number().value_or(0); };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return step(x) > step(y); });
    if (!are_one()) return;
    product to = p;
    for (std::size_t j = 0; j < order.size(); ++j) {
      to.k[j] = p.k[order[j]];
      to.a.at.stride[first + j] = p.a.at.stride[first + order[j]];
      to.b.at.stride[first + j] = p.b.at.stride[first + order[j]];
      for (std::size_t r = 0; r < p.within.size(); ++r)
        to.within[r].at.stride[first + j] = p.within[r].at.stride[first + order[j]];
    }
    p = std::move(to);
  }
  static product operands(lowering& l, const ir::node& v, const coordinates& at) {
    const auto nb = static_cast<std::size_t>(v.attr.ints[0]), nk = static_cast<std::size_t>(v.attr.ints[1]);
    const ir::shape& a = l.graph()[v.in[0]].extents;
    const std::size_t inner = a.size() - nk;
    product p;
    p.type = v.type;
    for (std::size_t d = inner; d < a.size(); ++d)
      if (!a[d].is(1)) p.k.push_back(a[d]);
    series<dim> extended = l.axes();
    extended.insert(extended.end(), p.k.begin(), p.k.end());
    const std::size_t rank = extended.size();
    coordinates ks;
    for (std::size_t d = inner, next = l.n(); d < a.size(); ++d)
      ks.push_back(a[d].is(1) ? constant_coordinate(0, rank) : axis_coordinate(next++, rank));
    p.a = l.address(v.in[0], joined(part(at, 0, inner, rank), ks), extended, &p.within);
    p.b = l.address(v.in[1], joined(joined(part(at, 0, nb, rank), ks), part(at, inner, at.size(), rank)), extended,
                    &p.within);
    p.batch = count_axes(at, 0, nb);
    p.m = count_axes(at, nb, inner);
    order_terms(p, l.n());
    return p;
  }
  static void place(lowering& l, const root& r) {
    const ir::node& v = l.graph()[r.value];
    if (!l.code().products.empty()) throw refusal{"two matrix products", ir::no_node};
    series<std::size_t> all(l.n());
    for (std::size_t i = 0; i < l.n(); ++i) all[i] = i;
    const auto at = l.align(r.extents, all, true);
    if (!at) throw refusal{"the matrix product iterates over " + ir::text_of(r.extents), ir::no_node};
    l.code().products.push_back(operands(l, v, *at));
    instruction i;
    i.kind = kind::product;
    i.type = v.type;
    i.where = v.where;
    i.origin = r.value;
    i.axes = ~0u;
    l.store(r, *at, add(l.code(), std::move(i)));
  }
};

}  // namespace sinter::engine::plan::ops
