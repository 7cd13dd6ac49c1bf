// ir/ops/window_transpose.hpp: the transpose of a window: sums cotangents of elements that were read several times.
#pragma once

#include <optional>

#include "window_product.hpp"

namespace sinter::ir::ops {

/// A cotangent with the axes of a window's result, by number, as far as they are not merged yet.
class window_cotangent {
 public:
  window_cotangent(value x, shape extents, shape start, axes_t factors)
      : x_(std::move(x)), extents_(std::move(extents)), start_(std::move(start)), factors_(std::move(factors)) {
    rank_ = x_.extents().size();
    for (std::size_t j = 0; j < rank_; ++j) axes_.push_back(j);
    // An axis of extent 1 reads at its start; an axis that no axis of x follows is repeated.
    for (std::size_t j = 0; j < rank_; ++j) {
      if (x_.extents()[j].is(1))
        for (std::size_t d = 0; d < extents_.size(); ++d) factor(d, j) = 0;
    }
    split_shared();
  }

  value transposed() {
    if (x_.get().code == op::dot || x_.get().code == op::permute) merge_product();
    axes_t repeated;
    series<std::size_t> left;
    for (std::size_t k = 0; k < axes_.size(); ++k) {
      bool read = axes_[k] >= rank_;
      for (std::size_t d = 0; d < extents_.size() && !read; ++d) read = factor(d, axes_[k]) != 0;
      if (read) left.push_back(axes_[k]);
      else repeated.push_back(static_cast<std::int64_t>(k));
    }
    x_ = reduce(x_, op::add, repeated);
    axes_ = left;
    spread();
    for (std::size_t d = 0; d < extents_.size(); ++d) merge(d);
    axes_t order;
    for (std::size_t d = 0; d < extents_.size(); ++d) order.push_back(static_cast<std::int64_t>(where(rank_ + d)));
    return order == iota_axes(0, order.size()) ? x_ : permute(x_, order);
  }

 private:
  std::int64_t& factor(std::size_t d, std::size_t j) { return factors_[d * rank_ + j]; }
  std::size_t where(std::size_t axis) const {
    return static_cast<std::size_t>(std::find(axes_.begin(), axes_.end(), axis) - axes_.begin());
  }
  series<std::size_t> readers(std::size_t d) {
    series<std::size_t> all;
    for (std::size_t j = 0; j < rank_; ++j)
      if (factor(d, j) != 0) all.push_back(j);
    return all;
  }

  /// Splits result axes that several axes of x follow; only the diagonal is not 0.
  void split_shared() {
    for (std::size_t j = 0; j < rank_; ++j) {
      bool first = true;
      for (std::size_t d = 0; d < extents_.size(); ++d) {
        if (factor(d, j) == 0 || std::exchange(first, false)) continue;
        const std::int64_t by = std::exchange(factor(d, j), 0);
        shape e = x_.extents(), one = e;
        one.push_back(1);
        e.push_back(e[j]);
        const auto last = static_cast<std::int64_t>(e.size()) - 1;
        const value same = eq(iota(x_, dtype::i64, e, static_cast<std::int64_t>(j)), iota(x_, dtype::i64, e, last));
        x_ = select(same, broadcast(reshape(x_, std::move(one)), e), 0.0);
        axes_t wider;
        for (std::size_t r = 0; r < extents_.size(); ++r) {
          for (std::size_t c = 0; c < rank_; ++c) wider.push_back(factor(r, c));
          wider.push_back(r == d ? by : 0);
        }
        axes_.push_back(rank_++);
        factors_ = std::move(wider);
      }
    }
  }

  /// Reverses the axis at k if its factor is negative; the start is then that of its last element.
  void turn(std::size_t d, std::size_t j) {
    const std::int64_t by = factor(d, j);
    if (by >= 0) return;
    const std::size_t k = where(j);
    const dim last = x_.extents()[k] - 1;
    x_ = slice_axis(x_, k, last, x_.extents()[k], -1);
    start_[d] += dim(by) * last;
    factor(d, j) = -by;
  }

  /// Makes axis d of x from the axes that it follows.
  void merge(std::size_t d) {
    if (where(rank_ + d) < axes_.size()) return;  // by a product
    auto all = readers(d);
    for (auto j : all) turn(d, j);
    if (all.empty()) {
      shape e = x_.extents();
      e.push_back(1);
      x_ = reshape(x_, std::move(e));
      axes_.push_back(rank_ + d);
      x_ = place_axis(x_, axes_.size() - 1, start_[d], 1, extents_[d]);
      return;
    }
    // From the smallest factors on: taps of taps are taps.
    std::sort(all.begin(), all.end(), [&](auto a, auto b) { return factor(d, a) < factor(d, b); });
    std::size_t k = where(all[0]);
    std::int64_t step = factor(d, all[0]);
    for (std::size_t n = 1; n < all.size(); ++n) {
      const std::size_t p = where(all[n]), last = axes_.size() - 1;
      // Moves the places, then the taps, to the end.
      const std::size_t places = axes_[p];
      axes_t order;
      series<std::size_t> left;
      for (std::size_t a = 0; a <= last; ++a)
        if (a != p && a != k) order.push_back(static_cast<std::int64_t>(a)), left.push_back(axes_[a]);
      order.push_back(static_cast<std::int64_t>(p));
      order.push_back(static_cast<std::int64_t>(k));
      if (order != iota_axes(0, order.size())) x_ = permute(x_, order);
      left.push_back(places);
      axes_ = std::move(left);
      x_ = merge_taps(x_, {factor(d, places), step, x_.extents()[last - 1], x_.extents()[last]});
      k = last - 1;
      step = 1;
    }
    x_ = place_axis(x_, k, start_[d], step, extents_[d]);
    axes_[k] = rank_ + d;
  }

  /// The pair of axes in a product that an axis of x follows.
  struct pair {
    std::size_t d, place, tap;  ///< axes of the product
    overlap o;
    std::int64_t divisor;
  };

  /// An axis of x at which places and taps meet.
  struct meeting {
    std::size_t d, places, taps;  ///< axes of the result
    overlap o;
  };
  /// For few overlapping taps: the sums of all axes at once, as an expression of the cotangent's operands for each residue of
  /// the steps. Nothing is stored between the axes.
  void spread();
  std::optional<meeting> meeting_of(std::size_t d);
  value sums_at(const series<meeting>& all, const axes_t& residues) const;
  value interleaved(const series<meeting>& all, axes_t& residues, std::size_t from) const;

  /// If one operand of a product has the places and the other the taps, the sums are also a product over the taps. Its first
  /// operand is windows of the operand with the places. So places times taps are never stored. Only if windows overlap.
  void merge_product();
  std::optional<value> product_below(series<std::size_t>& labels) const;
  std::optional<series<pair>> pairs_of(const node& dot, const series<std::size_t>& labels, bool places_in_a);

  value x_;
  shape extents_, start_;
  axes_t factors_;
  std::size_t rank_ = 0;
  series<std::size_t> axes_;  ///< for each axis of x_, the result's axis, or rank_ + d for axis d itself
};

inline std::optional<window_cotangent::meeting> window_cotangent::meeting_of(std::size_t d) {
  constexpr std::int64_t max_taps = 8, max_step = 4;
  if (where(rank_ + d) < axes_.size()) return std::nullopt;
  auto all = readers(d);
  if (all.size() != 2) return std::nullopt;
  std::sort(all.begin(), all.end(), [&](auto a, auto b) { return std::abs(factor(d, a)) < std::abs(factor(d, b)); });
  const auto number = [&](std::size_t j) { return x_.extents()[where(j)].number(); };
  const auto step_of = [&](std::size_t j) { return std::abs(factor(d, j)); };
  // Taps are the smaller axis.
  std::size_t taps = all[0], places = all[1];
  if (!number(taps) || (number(places) && *number(places) < *number(taps))) std::swap(taps, places);
  const overlap o{step_of(places), step_of(taps), x_.extents()[where(places)], x_.extents()[where(taps)]};
  const overlap turned{o.dilation, o.step, o.taps, o.places};
  const bool few = number(taps) && *number(taps) <= max_taps && o.step <= max_step;
  if (!few || std::gcd(o.step, o.dilation) != 1 || o.apart() || turned.apart()) return std::nullopt;
  return meeting{d, places, taps, o};
}

/// The sum of the elements read at the positions with these residues.
inline value window_cotangent::sums_at(const series<meeting>& all, const axes_t& residues) const {
  value sum;
  const auto add = [&](const auto& self, std::size_t n, tap_reader::places at, shape low, shape high) -> void {
    if (n == all.size()) {
      const value row = tap_reader::at(x_, at);
      shape l, h;
      for (std::size_t k = 0; k < at.size(); ++k)
        if (at[k] < 0) l.push_back(low[k]), h.push_back(high[k]);
      const auto nothing = [](const dim& e) { return e.is(0); };
      const bool whole = std::all_of(l.begin(), l.end(), nothing) && std::all_of(h.begin(), h.end(), nothing);
      const value y = whole ? row : pad(row, l, h, 0.0);
      sum = sum ? sum + y : y;
      return;
    }
    const meeting& m = all[n];
    const residue_class c(m.o, residues[n]);
    const std::size_t places = where(m.places);
    const dim count = m.o.places - 1 + ceil_div(dim(m.o.dilation) * (m.o.taps - 1) + 1, m.o.step);
    for (std::int64_t t = 0, taps = *c.count(m.o).number(); t < taps; ++t) {
      at[where(m.taps)] = c.first + m.o.step * t;
      low[places] = dim(m.o.dilation * t - c.shift);
      high[places] = count - m.o.places - low[places];
      self(self, n + 1, at, low, high);
    }
  };
  const std::size_t rank = x_.extents().size();
  add(add, 0, tap_reader::places(rank, -1), shape(rank, 0), shape(rank, 0));
  return sum;
}

/// All positions of the axes from `from` on, for given residues of the earlier axes.
inline value window_cotangent::interleaved(const series<meeting>& all, axes_t& residues, std::size_t from) const {
  if (from == all.size()) return sums_at(all, residues);
  const meeting& m = all[from];
  std::size_t axis = where(m.places);
  for (const auto& other : all) axis -= where(other.taps) < where(m.places);
  series<value> parts;
  for (std::int64_t r = 0; r < m.o.step; ++r) {
    residues[from] = r;
    parts.push_back(interleaved(all, residues, from + 1));
  }
  return interleave(std::move(parts), axis, m.o.positions());
}

inline void window_cotangent::spread() {
  constexpr std::int64_t max_terms = 32, max_ops = 512;
  series<meeting> all;
  std::int64_t terms = 1;
  for (std::size_t d = 0; d < extents_.size(); ++d)
    if (const auto m = meeting_of(d)) all.push_back(*m), terms *= *m->o.taps.number();
  const auto size = tap_reader::measure(x_);
  if (all.empty() || terms > max_terms || !size.is_short() || terms * size.ops > max_ops) return;
  for (const auto& m : all)
    for (const auto j : {m.places, m.taps}) turn(m.d, j);
  for (const auto& m : all)  // a residue without a tap has an empty sum
    for (std::int64_t r = 0; r < m.o.step; ++r)
      if (residue_class(m.o, r).count(m.o).number().value_or(0) <= 0) return;
  axes_t residues(all.size(), 0);
  x_ = interleaved(all, residues, 0);
  series<std::size_t> left;
  for (const auto a : axes_)
    if (std::none_of(all.begin(), all.end(), [&](const meeting& m) { return m.taps == a; })) left.push_back(a);
  axes_ = left;
  for (const auto& m : all) {
    const std::size_t k = where(m.places);
    x_ = place_axis(x_, k, start_[m.d], 1, extents_[m.d]);
    axes_[k] = rank_ + m.d;
  }
}

/// The overlapping pairs, if all places are among the product's rows (or columns), and all taps among the others.
inline std::optional<series<window_cotangent::pair>> window_cotangent::pairs_of(const node& dot,
                                                                                const series<std::size_t>& labels,
                                                                                bool places_in_a) {
  const auto nb = static_cast<std::size_t>(dot.attr.ints[0]), nk = static_cast<std::size_t>(dot.attr.ints[1]);
  const std::size_t columns = x_.owner()[dot.in[0]].extents.size() - nk;
  series<pair> pairs;
  for (std::size_t d = 0; d < extents_.size(); ++d) {
    const auto all = readers(d);
    if (all.size() != 2) continue;
    std::size_t at[2];
    for (std::size_t i = 0; i < 2; ++i)
      at[i] = static_cast<std::size_t>(std::find(labels.begin(), labels.end(), all[i]) - labels.begin());
    const auto in_a = [&](std::size_t axis) { return axis >= nb && axis < columns; };
    const auto in_b = [&](std::size_t axis) { return axis >= columns && axis < labels.size(); };
    const auto has_place = [&](std::size_t axis) { return places_in_a ? in_a(axis) : in_b(axis); };
    const auto has_tap = [&](std::size_t axis) { return places_in_a ? in_b(axis) : in_a(axis); };
    const std::size_t first = has_place(at[0]) ? 0 : 1;
    if (!has_place(at[first]) || !has_tap(at[1 - first])) return std::nullopt;
    const std::int64_t step = std::abs(factor(d, all[first])), dilation = std::abs(factor(d, all[1 - first])),
                       g = std::gcd(step, dilation);
    pair p{
        d, at[first], at[1 - first], {step / g, dilation / g, dot.extents[at[first]], dot.extents[at[1 - first]]}, g};
    if (!p.o.taps.is_number()) return std::nullopt;
    // Adjacent windows are a reshape, whichever of the two axes counts as places.
    if (p.o.apart() || overlap{p.o.dilation, p.o.step, p.o.taps, p.o.places}.apart()) continue;
    pairs.push_back(p);
  }
  return pairs.empty() ? std::nullopt : std::optional(std::move(pairs));
}

/// The product below permutations of x, and the numbers of its axes; empty if there is none.
inline std::optional<value> window_cotangent::product_below(series<std::size_t>& labels) const {
  value from = x_;
  for (; from.get().code == op::permute; from = value(x_.owner(), from.get().in[0], x_.where())) {
    series<std::size_t> below(labels.size());
    for (std::size_t k = 0; k < labels.size(); ++k)
      below[static_cast<std::size_t>(from.get().attr.ints[k])] = labels[k];
    labels = std::move(below);
  }
  if (from.get().code != op::dot || labels.size() != from.extents().size()) return std::nullopt;
  return from;
}

inline void window_cotangent::merge_product() {
  series<std::size_t> labels = axes_;
  const auto from = product_below(labels);
  if (!from) return;
  const node product = from->get();
  const auto nb = static_cast<std::size_t>(product.attr.ints[0]), nk = static_cast<std::size_t>(product.attr.ints[1]);
  const auto in_a = pairs_of(product, labels, true), in_b = pairs_of(product, labels, false);
  if (!in_a && !in_b) return;
  const auto taps = [](const series<pair>& pairs) {
    std::int64_t n = 1;
    for (const auto& p : pairs) n *= *p.o.taps.number();
    return n;
  };
  const bool first = in_a && (!in_b || taps(*in_a) <= taps(*in_b));
  const series<pair> pairs = first ? *in_a : *in_b;
  const value a(x_.owner(), product.in[0], x_.where()), b(x_.owner(), product.in[1], x_.where());
  const auto turned = [&](const value& x) {  // (B, K, N) -> (B, N, K)
    return permute(x,
                   moved_axes(x.rank(), static_cast<std::int64_t>(nb), static_cast<std::int64_t>(nb + nk), x.rank()));
  };
  value p = first ? a : turned(b), w = first ? turned(b) : a;
  const std::size_t columns = static_cast<std::size_t>(a.rank()) - nk;
  const auto own = [&](std::size_t axis, bool of_a) { return of_a || axis < nb ? axis : axis - columns + nb; };
  const auto label = [&](std::size_t axis, bool of_a) {
    return labels[of_a || axis < nb ? axis : axis - nb + columns];
  };
  shape start = start_;
  for (const auto& q : pairs)
    for (const auto read : readers(q.d)) {
      const std::int64_t by = factor(q.d, read);
      if (by > 0) continue;
      const bool place = labels[q.place] == read;
      const dim last = (place ? q.o.places : q.o.taps) - 1;
      start[q.d] += dim(by) * last;
      value& turns = place ? p : w;
      turns = slice_axis(turns, place ? own(q.place, first) : own(q.tap, !first), last, last + 1, -1);
    }
  window_product merged(p, w, nb, nk);
  for (const auto& q : pairs) merged.join(own(q.place, first), own(q.tap, !first), q.o);
  if (merged.too_wide()) return;
  x_ = merged.sums();
  start_ = std::move(start);
  axes_.clear();
  for (std::size_t i = 0, n = p.extents().size() - nk; i < n; ++i) axes_.push_back(label(i, first));
  for (std::size_t i = nb, n = w.extents().size() - nk; i < n; ++i)
    if (!merged.is_tap(i)) axes_.push_back(label(i, !first));
  for (const auto& q : pairs) {
    const std::size_t k = own(q.place, first);
    x_ = place_axis(x_, k, start_[q.d], q.divisor, extents_[q.d]);
    axes_[k] = rank_ + q.d;
  }
}

/// The cotangent of an operand with these extents, for the cotangent of a window of it.
inline value window_transpose(const value& ct, const shape& extents, const shape& start, const axes_t& factors) {
  const auto nothing = [](const dim& d) { return d.is(0); };
  if (std::any_of(ct.extents().begin(), ct.extents().end(), nothing)) return zeros(ct, extents);
  if (ct.get().code == op::add) {
    const value a(ct.owner(), ct.get().in[0], ct.where()), b(ct.owner(), ct.get().in[1], ct.where());
    const auto product = [](value x) {
      while (x.get().code == op::permute) x = value(x.owner(), x.get().in[0], x.where());
      return x.get().code == op::dot;
    };
    if (product(a) && product(b))
      return window_transpose(a, extents, start, factors) + window_transpose(b, extents, start, factors);
  }
  return window_cotangent(ct, extents, start, factors).transposed();
}

}  // namespace sinter::ir::ops
