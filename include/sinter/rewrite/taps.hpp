// rewrite/taps.hpp: a reduction over the few taps of windows, written out: one loop over the result, where a loop over taps has none.
#pragma once

#include "match.hpp"

namespace sinter::engine::rewrite {

/// A pointwise expression of windows, of which one tap at a time is taken.
class few_taps {
 public:
  few_taps(const value& x, const axes_t& axes) : g_(x.owner()), x_(x), axes_(axes) {}

  /// How many taps there are, where that is few, and windows are read in an expression that is short; else 0.
  std::int64_t count() {
    constexpr std::int64_t most_taps = 64, most_ops = 512;
    std::int64_t n = 1;
    for (auto a : axes_) {
      const auto e = x_.extents()[static_cast<std::size_t>(a)].number();
      if (!e || *e < 1 || *e > most_taps || (n *= *e) > most_taps) return 0;
    }
    measure(x_.id());
    return windows_ > 0 && n > 1 && ops_ <= most_measured && n * ops_ <= most_ops ? n : 0;
  }

  /// The expression at tap `number` of the reduced axes in row-major order, without these axes.
  value at(std::int64_t number) {
    places_.assign(axes_.size(), 0);
    for (std::size_t k = axes_.size(); k-- > 0;) {
      const std::int64_t e = *x_.extents()[static_cast<std::size_t>(axes_[k])].number();
      places_[k] = number % e;
      number /= e;
    }
    return taken(x_);
  }

 private:
  void measure(ir::node_id id) {
    const node& n = g_[id];
    windows_ += n.code == op::window;
    if (++ops_ > most_measured || !ir::is_pointwise(n.code)) return;
    for (auto in : n.in) measure(in);
  }

  /// The place of a reduced axis, or nothing.
  std::optional<std::int64_t> place(std::size_t axis) const {
    for (std::size_t k = 0; k < axes_.size(); ++k)
      if (axes_[k] == static_cast<std::int64_t>(axis)) return places_[k];
    return std::nullopt;
  }
  shape kept(const shape& extents) const {
    shape left;
    for (std::size_t d = 0; d < extents.size(); ++d)
      if (!place(d)) left.push_back(extents[d]);
    return left;
  }

  value taken(const value& v) {
    const node n = v.get();
    if (n.code == op::constant) return {g_, push_constant_like(g_, n, kept(n.extents)), v.where()};
    if (n.code == op::window) return taken_window(v, n);
    if (n.code == op::broadcast) return broadcast(taken_slice(value(g_, n.in[0], v.where())), kept(n.extents));
    if (!ir::is_pointwise(n.code)) return taken_slice(v);
    series<ir::node_id> in;
    for (auto operand : n.in) in.push_back(taken(value(g_, operand, v.where())).id());
    return {g_, g_.push(n.code, std::move(in), n.attr, n.where), v.where()};
  }
  value taken_window(const value& v, const node& n) {
    const std::size_t rank = n.extents.size();
    shape start;
    axes_t factors;
    for (std::size_t d = 0; rank + d < n.attr.dims.size(); ++d) {
      start.push_back(n.attr.dims[rank + d]);
      for (std::size_t j = 0; j < rank; ++j) {
        const std::int64_t factor = n.attr.ints[d * rank + j];
        if (const auto p = place(j)) start[d] += dim(factor) * dim(*p);
        else factors.push_back(factor);
      }
    }
    return window(value(g_, n.in[0], v.where()), kept(n.extents), start, std::move(factors));
  }
  /// At the tap; an axis of extent 1 is there for all of them.
  value taken_slice(const value& v) {
    shape counts = v.extents(), starts(counts.size(), 0);
    for (std::size_t d = 0; d < counts.size(); ++d)
      if (const auto p = place(d); p && !counts[d].is(1)) {
        starts[d] = *p;
        counts[d] = 1;
      }
    const value part = counts == v.extents() ? v : slice(v, counts, starts, axes_t(counts.size(), 1));
    return reshape(part, kept(counts));
  }

  ir::graph& g_;
  value x_;
  axes_t axes_, places_;
  static constexpr std::int64_t most_measured = 64;
  std::int64_t windows_ = 0, ops_ = 0;
};

/// reduce(f(windows)) over a few taps = f(tap 0) combined with f(tap 1)…; sums of halves are those of f32.
inline value reduce_of_few_taps(const site& s) {
  const op combiner = s.n().attr.combiner;
  if (combiner != op::add && combiner != op::maximum && combiner != op::minimum) return {};
  few_taps taps(s.in(0), s.n().attr.ints);
  const std::int64_t n = taps.count();
  if (n == 0) return {};
  const bool half = s.type() == dtype::f16 || s.type() == dtype::bf16;
  const dtype wide = half && combiner == op::add ? dtype::f32 : s.type();
  value all = cast(taps.at(0), wide);
  for (std::int64_t i = 1; i < n; ++i) all = push(combiner, {all, cast(taps.at(i), wide)});
  return cast(all, s.type());
}

}  // namespace sinter::engine::rewrite
