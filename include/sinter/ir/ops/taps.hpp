// ir/ops/taps.hpp: an expression at one place of some of its axes, rebuilt from its operands at that place.
#pragma once

#include "derivatives.hpp"

namespace sinter::ir::ops {

/// Takes places of some axes through pointwise ops, permutations, padding of other axes, repetition and windows. A value that
/// is read at several places is not stored.
class tap_reader {
 public:
  /// The place of each axis, or -1 for axes that stay.
  using places = axes_t;

  /// The number of the expression's ops, and of windows among them, up to the number that is worth copying.
  struct size {
    std::int64_t ops = 0, windows = 0;
    static constexpr std::int64_t most = 64;
    bool is_short() const { return ops <= most; }
  };
  static size measure(const value& x) {
    size s;
    measure(x.owner(), x.id(), s);
    return s;
  }

  /// x at the places, without their axes.
  static value at(const value& x, const places& where) {
    const node n = x.get();
    graph& g = x.owner();
    if (n.code == op::constant) return {g, push_constant_like(g, n, left(n.extents, where)), x.where()};
    if (n.code == op::window) return window_at(x, n, where);
    if (n.code == op::permute) return permuted_at(x, n, where);
    if (n.code == op::broadcast) return broadcast(part_at(value(g, n.in[0], x.where()), where), left(n.extents, where));
    if (n.code == op::pad && pads_others(n, where)) return padded_at(x, n, where);
    if (!is_pointwise(n.code)) return part_at(x, where);
    series<node_id> in;
    for (auto operand : n.in) in.push_back(at(value(g, operand, x.where()), where).id());
    return {g, g.push(n.code, std::move(in), n.attr, n.where), x.where()};
  }

 private:
  static void measure(const graph& g, node_id id, size& s) {
    const node& n = g[id];
    s.windows += n.code == op::window;
    if (++s.ops > size::most || !(is_pointwise(n.code) || n.code == op::permute || n.code == op::pad)) return;
    for (auto in : n.in) measure(g, in, s);
  }
  static shape left(const shape& extents, const places& where) {
    shape l;
    for (std::size_t d = 0; d < extents.size(); ++d)
      if (where[d] < 0) l.push_back(extents[d]);
    return l;
  }
  static value window_at(const value& x, const node& n, const places& where) {
    const std::size_t rank = n.extents.size();
    shape start;
    axes_t factors;
    for (std::size_t d = 0; rank + d < n.attr.dims.size(); ++d) {
      start.push_back(n.attr.dims[rank + d]);
      for (std::size_t j = 0; j < rank; ++j) {
        const std::int64_t factor = n.attr.ints[d * rank + j];
        if (where[j] < 0) factors.push_back(factor);
        else start[d] += dim(factor) * dim(where[j]);
      }
    }
    return window({x.owner(), n.in[0], x.where()}, left(n.extents, where), start, std::move(factors));
  }
  static value permuted_at(const value& x, const node& n, const places& where) {
    places below(where.size());
    for (std::size_t k = 0; k < where.size(); ++k) below[static_cast<std::size_t>(n.attr.ints[k])] = where[k];
    axes_t number(where.size()), order;  // the number of each axis below among the remaining ones
    for (std::size_t d = 0, next = 0; d < below.size(); ++d)
      number[d] = static_cast<std::int64_t>(below[d] < 0 ? next++ : 0);
    for (std::size_t k = 0; k < where.size(); ++k)
      if (where[k] < 0) order.push_back(number[static_cast<std::size_t>(n.attr.ints[k])]);
    const value y = at({x.owner(), n.in[0], x.where()}, below);
    return order == iota_axes(0, order.size()) ? y : permute(y, std::move(order));
  }
  static bool pads_others(const node& n, const places& where) {
    const std::size_t rank = where.size();
    for (std::size_t d = 0; d < rank; ++d)
      if (where[d] >= 0 && !(n.attr.dims[d].is(0) && n.attr.dims[rank + d].is(0))) return false;
    return true;
  }
  static value padded_at(const value& x, const node& n, const places& where) {
    const std::size_t rank = where.size();
    attributes attr = n.attr;
    attr.dims = left(part(n.attr.dims, 0, rank), where);
    for (const auto& high : left(part(n.attr.dims, rank, 2 * rank), where)) attr.dims.push_back(high);
    const value y = at({x.owner(), n.in[0], x.where()}, where);
    return {x.owner(), x.owner().push(op::pad, {y.id()}, std::move(attr), n.where), x.where()};
  }
  /// An axis of extent 1 serves all places.
  static value part_at(const value& x, const places& where) {
    shape counts = x.extents(), starts(counts.size(), 0);
    for (std::size_t d = 0; d < counts.size(); ++d)
      if (where[d] >= 0 && !counts[d].is(1)) {
        starts[d] = where[d];
        counts[d] = 1;
      }
    const value some = counts == x.extents() ? x : slice(x, counts, starts, axes_t(counts.size(), 1));
    return reshape(some, left(counts, where));
  }
};

}  // namespace sinter::ir::ops
