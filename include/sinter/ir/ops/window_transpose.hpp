// ir/ops/window_transpose.hpp: the transpose of a window: what was read several times is summed up, without a scatter.
#pragma once

#include <numeric>
#include <optional>

#include "derivatives.hpp"

namespace sinter::ir::ops {

/// Elements start, start + step, … of one axis.
inline value slice_axis(const value& x, std::size_t axis, const dim& start, const dim& count, std::int64_t step) {
  const shape& e = x.extents();
  if (start.is(0) && step == 1 && count == e[axis]) return x;
  shape counts = e, starts(e.size(), 0);
  axes_t steps(e.size(), 1);
  counts[axis] = count;
  starts[axis] = start;
  steps[axis] = step;
  return slice(x, std::move(counts), starts, std::move(steps));
}

/// The elements of one axis at start, start + step, … of `full` places, among zeros.
inline value place_axis(const value& x, std::size_t axis, const dim& start, std::int64_t step, const dim& full) {
  shape extents = x.extents(), starts(extents.size(), 0);
  axes_t steps(extents.size(), 1);
  extents[axis] = full;
  starts[axis] = start;
  steps[axis] = step;
  return unslice(x, extents, starts, steps);
}

/// x with the axes `from` and from + 1 as one.
inline value join_axes(const value& x, std::size_t from) {
  shape e = x.extents();
  e[from] *= e[from + 1];
  e.erase(e.begin() + static_cast<std::ptrdiff_t>(from) + 1);
  return reshape(x, std::move(e));
}

inline dim ceil_div(const dim& a, std::int64_t b) { return floor_div(a + dim(b - 1), b); }

/// x whose axis `from` is moved to be axis `to`.
inline value move_axis(const value& x, std::size_t from, std::size_t to) {
  if (from == to) return x;
  axes_t order = iota_axes(0, x.extents().size());
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), static_cast<std::int64_t>(from));
  return permute(x, std::move(order));
}

/// Places and taps that meet at step·place + dilation·tap, and what they are of.
struct overlap {
  std::int64_t step = 1, dilation = 1;
  dim places, taps;

  /// How many positions there are from the first to the last.
  dim positions() const { return dim(step) * (places - 1) + dim(dilation) * (taps - 1) + 1; }
  /// True when each position belongs to one place.
  bool apart() const {
    const auto n = taps.number();
    return n && dilation * (*n - 1) < step;
  }
};

/// The positions step·q + residue: they have the taps first + step·u, of the places q + shift - dilation·u.
struct residue_class {
  std::int64_t first = 0, shift = 0;

  residue_class(const overlap& o, std::int64_t residue) {
    while (o.dilation * first % o.step != residue) ++first;
    shift = (residue - o.dilation * first) / o.step;
  }
  dim count(const overlap& o) const {
    if (const auto n = o.taps.number()) return *n > first ? (*n - first + o.step - 1) / o.step : 0;
    return ceil_div(o.taps - first, o.step);
  }
};

/// The last axes of x are places and taps: y(…, q) = Σ x(…, q + shift - dilation·u, u), q < count, of what x has.
inline value sum_taps(const value& x, std::int64_t dilation, std::int64_t shift, const dim& count) {
  constexpr std::int64_t most_unrolled = 8;
  const std::size_t taps = x.extents().size() - 1, places = taps - 1;
  const dim n = x.extents()[places], u = x.extents()[taps];
  shape low(taps, 0), high(taps, 0);
  if (u.number().value_or(most_unrolled + 1) <= most_unrolled) {
    value sum;
    for (std::int64_t t = 0; t < *u.number(); ++t) {
      shape e = x.extents();
      e.pop_back();
      const value row = reshape(slice_axis(x, taps, t, 1, 1), std::move(e));
      low[places] = dilation * t - shift;
      high[places] = count - n - low[places];
      const value y = low[places].is(0) && high[places].is(0) ? row : pad(row, low, high, 0.0);
      sum = sum ? sum + y : y;
    }
    return sum;
  }
  low.push_back(0);
  high.push_back(0);
  low[places] = dim(dilation) * (u - 1) - dim(shift);
  high[places] = count + dim(shift) - n;
  shape e = x.extents(), start(taps + 1, 0);
  e[places] = count;
  start[places] = dim(shift) + low[places];
  axes_t factors((taps + 1) * (taps + 1), 0);
  for (std::size_t d = 0; d <= taps; ++d) factors[d * (taps + 1) + d] = 1;
  factors[places * (taps + 1) + taps] = -dilation;
  return reduce(window(pad(x, low, high, 0.0), std::move(e), start, std::move(factors)), op::add,
                {static_cast<std::int64_t>(taps)});
}

/// Values for each residue, whose axis counts the positions of that residue, as one whose axis has all positions.
inline value interleave(series<value> parts, std::size_t axis, const dim& positions) {
  if (parts.size() == 1) return slice_axis(parts[0], axis, 0, positions, 1);
  for (auto& p : parts) {
    shape e = p.extents();
    e.insert(e.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 1);
    p = reshape(p, std::move(e));
  }
  const value all = join_axes(concat(parts, static_cast<std::int64_t>(axis) + 1), axis);
  return slice_axis(all, axis, 0, positions, 1);
}

/// The last axes of x are places and taps, step and dilation positive: sums by position, from the first to the last.
inline value merge_taps(value x, overlap o) {
  const std::size_t taps = x.extents().size() - 1, places = taps - 1;
  const dim all = o.positions();
  if (o.apart()) return slice_axis(join_axes(place_axis(x, taps, 0, o.dilation, o.step), places), places, 0, all, 1);
  const auto n = o.places.number(), t = o.taps.number();
  // Taps are unrolled: the fewer of the two, unless places are apart.
  const overlap turned{o.dilation, o.step, o.taps, o.places};
  if (turned.apart() || (n && (!t || *n < *t))) {
    std::swap(o.step, o.dilation);
    std::swap(o.places, o.taps);
    x = move_axis(x, taps, places);
    if (o.apart()) return merge_taps(x, o);
  }
  if (const auto g = std::gcd(o.step, o.dilation); g > 1) {
    const value y = merge_taps(x, {o.step / g, o.dilation / g, o.places, o.taps});
    return place_axis(y, places, 0, g, all);
  }
  if (o.dilation == 1 && o.step > 1) {
    // A tap is step·u + v: places and u meet at every position, of which v are parts.
    const dim u = ceil_div(o.taps, o.step);
    x = place_axis(x, taps, 0, 1, u * dim(o.step));
    shape e = x.extents();
    e[taps] = u;
    e.push_back(o.step);
    const value y = merge_taps(move_axis(reshape(x, std::move(e)), taps + 1, places), {1, 1, o.places, u});
    return slice_axis(join_axes(move_axis(y, places, taps), places), places, 0, all, 1);
  }
  const dim count = o.places - 1 + ceil_div(dim(o.dilation) * (o.taps - 1) + 1, o.step);
  series<value> parts;
  for (std::int64_t r = 0; r < o.step; ++r) {
    const residue_class c(o, r);
    const dim u = c.count(o);
    shape none = x.extents();
    none.pop_back();
    none[places] = count;
    if (u.upper_bound() <= 0) parts.push_back(zeros(x, none));
    else parts.push_back(sum_taps(slice_axis(x, taps, c.first, u, o.step), o.dilation, c.shift, count));
  }
  return interleave(std::move(parts), places, all);
}

/// A cotangent whose axes are those of a window's result, by number, as far as they are not yet merged.
class window_cotangent {
 public:
  window_cotangent(value x, shape extents, shape start, axes_t factors)
      : x_(std::move(x)), extents_(std::move(extents)), start_(std::move(start)), factors_(std::move(factors)) {
    rank_ = x_.extents().size();
    for (std::size_t j = 0; j < rank_; ++j) axes_.push_back(j);
    // An axis of extent 1 reads at its start, and where no axis of x follows one, it is repeated.
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
      bool read = false;
      for (std::size_t d = 0; d < extents_.size(); ++d) read = read || factor(d, axes_[k]) != 0;
      if (read || axes_[k] >= rank_) left.push_back(axes_[k]);
      else repeated.push_back(static_cast<std::int64_t>(k));
    }
    x_ = reduce(x_, op::add, repeated);
    axes_ = left;
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

  /// Result axes that several axes of x follow become several, of which the diagonal is not 0.
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

  /// The axis at k the other way round, where its factor is negative: then the start is that of its last element.
  void turn(std::size_t d, std::size_t j) {
    const std::int64_t by = factor(d, j);
    if (by >= 0) return;
    const std::size_t k = where(j);
    const dim last = x_.extents()[k] - 1;
    x_ = slice_axis(x_, k, last, x_.extents()[k], -1);
    start_[d] += dim(by) * last;
    factor(d, j) = -by;
  }

  /// Makes axis d of x of the axes that it follows.
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
      // The places, then the taps, at the end.
      const std::size_t places = axes_[p], taps = axes_[k];
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
      (void)taps;
      k = last - 1;
      step = 1;
    }
    x_ = place_axis(x_, k, start_[d], step, extents_[d]);
    axes_[k] = rank_ + d;
  }

  /// What the pair of axes that an axis of x follows is in a product.
  struct pair {
    std::size_t d, place, tap;  ///< axes of the product
    overlap o;
    std::int64_t divisor;
  };

  /// A product whose places are of one operand and whose taps are of the other is a product over the taps, too, of windows of what has
  /// the places: nothing as large as places times taps comes to be. Only where windows overlap.
  void merge_product();
  std::optional<series<pair>> pairs_of(const node& dot, const series<std::size_t>& labels, bool places_in_a);

  value x_;
  shape extents_, start_;
  axes_t factors_;
  std::size_t rank_ = 0;
  series<std::size_t> axes_;  ///< of each axis of x_, the result's axis, or rank_ + d for what is axis d
};

/// The overlapping pairs, if all have their places among the rows (or columns) of the product and their taps among the others.
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
    pair p{d, at[first], at[1 - first], {step / g, dilation / g, dot.extents[at[first]], dot.extents[at[1 - first]]}, g};
    if (!p.o.taps.is_number()) return std::nullopt;
    if (p.o.apart()) continue;
    pairs.push_back(p);
  }
  return pairs.empty() ? std::nullopt : std::optional(std::move(pairs));
}

inline void window_cotangent::merge_product() {
  series<std::size_t> labels = axes_;
  value from = x_;
  for (; from.get().code == op::permute; from = value(x_.owner(), from.get().in[0], x_.where())) {
    series<std::size_t> below(labels.size());
    for (std::size_t k = 0; k < labels.size(); ++k) below[static_cast<std::size_t>(from.get().attr.ints[k])] = labels[k];
    labels = std::move(below);
  }
  if (from.get().code != op::dot || labels.size() != from.extents().size()) return;
  const node dot_node = from.get();
  const auto nb = static_cast<std::size_t>(dot_node.attr.ints[0]), nk = static_cast<std::size_t>(dot_node.attr.ints[1]);
  auto in_a = pairs_of(dot_node, labels, true), in_b = pairs_of(dot_node, labels, false);
  const auto taps = [](const series<pair>& pairs) {
    std::int64_t n = 1;
    for (const auto& p : pairs) n *= *p.o.taps.number();
    return n;
  };
  const bool first = in_a && (!in_b || taps(*in_a) <= taps(*in_b));
  if (!in_a && !in_b) return;
  const series<pair> pairs = first ? *in_a : *in_b;
  value a(x_.owner(), dot_node.in[0], x_.where()), b(x_.owner(), dot_node.in[1], x_.where());
  // Both with their free axes first, as `at` numbers them.
  const std::size_t columns = static_cast<std::size_t>(a.rank()) - nk;
  const auto turned = [&](const value& x) {  // (B, K, N) -> (B, N, K)
    axes_t order = iota_axes(0, nb);
    for (auto i : iota_axes(nb + nk, static_cast<std::size_t>(x.rank()))) order.push_back(i);
    for (auto i : iota_axes(nb, nb + nk)) order.push_back(i);
    return permute(x, order);
  };
  value p = first ? a : turned(b), w = first ? turned(b) : a;
  const auto own = [&](std::size_t axis, bool of_a) { return of_a || axis < nb ? axis : axis - columns + nb; };
  struct joint {
    std::size_t place, tap;
    overlap o;
    dim count;
    std::int64_t low = 0, high = 0;
  };
  series<joint> joints;
  shape low(static_cast<std::size_t>(p.rank()), 0), high = low;
  for (const auto& q : pairs) {
    joint j{own(q.place, first), own(q.tap, !first), q.o, {}};
    if (const auto all = readers(q.d); true) {
      for (auto label : all)
        if (factor(q.d, label) < 0) {
          const bool is_place = labels[q.place] == label;
          const dim last = (is_place ? q.o.places : q.o.taps) - 1;
          start_[q.d] += dim(factor(q.d, label)) * last;
          (is_place ? p : w) = slice_axis(is_place ? p : w, is_place ? j.place : j.tap, last, last + 1, -1);
        }
    }
    const std::int64_t reach = q.o.dilation * (*q.o.taps.number() - 1) + 1, more = (reach + q.o.step - 1) / q.o.step - 1;
    j.count = q.o.places + dim(more);
    for (std::int64_t r = 0; r < q.o.step; ++r) {
      const residue_class c(q.o, r);
      const std::int64_t u = *c.count(q.o).number();
      j.low = std::max(j.low, q.o.dilation * std::max<std::int64_t>(u - 1, 0) - c.shift);
      j.high = std::max(j.high, more + c.shift);
    }
    low[j.place] = j.low;
    high[j.place] = j.high;
    joints.push_back(j);
  }
  const shape none(low.size(), 0);
  const value padded = low == none && high == none ? p : pad(p, low, high, 0.0);
  const std::size_t rank = static_cast<std::size_t>(p.rank()), free = rank - nk, wide = rank + joints.size();

  // One residue of each pair: the product of windows over `padded` and some of the taps.
  const auto product_at = [&](const series<std::int64_t>& residues) {
    shape e = padded.extents(), start(rank, 0);
    axes_t factors(rank * wide, 0);
    shape result;
    value taps_of = w;
    bool nothing = false;
    for (std::size_t d = 0; d < rank; ++d) factors[d * wide + (d < free ? d : d + joints.size())] = 1;
    shape window_extents(e.begin(), e.begin() + static_cast<std::ptrdiff_t>(free));
    for (std::size_t n = 0; n < joints.size(); ++n) {
      const joint& j = joints[n];
      const residue_class c(j.o, residues[n]);
      const dim u = c.count(j.o);
      nothing = nothing || u.is(0);
      window_extents[j.place] = j.count;
      start[j.place] = dim(c.shift + j.low);
      factors[j.place * wide + free + n] = -j.o.dilation;
      if (!u.is(0)) taps_of = slice_axis(taps_of, j.tap, c.first, u, j.o.step);
      window_extents.push_back(u);
    }
    for (std::size_t d = free; d < rank; ++d) window_extents.push_back(e[d]);
    // (B, taps, K, what else w has)
    axes_t order = iota_axes(0, nb);
    for (const auto& j : joints) order.push_back(static_cast<std::int64_t>(j.tap));
    const auto w_rank = static_cast<std::size_t>(w.rank());
    for (auto i : iota_axes(w_rank - nk, w_rank)) order.push_back(i);
    result.assign(window_extents.begin(), window_extents.begin() + static_cast<std::ptrdiff_t>(free));
    for (std::size_t i = nb; i < w_rank - nk; ++i)
      if (std::none_of(joints.begin(), joints.end(), [&](const joint& j) { return j.tap == i; })) {
        order.push_back(static_cast<std::int64_t>(i));
        result.push_back(w.extents()[i]);
      }
    if (nothing) return zeros(p, result);
    return dot(window(padded, std::move(window_extents), start, std::move(factors)), permute(taps_of, order),
               static_cast<std::int64_t>(nb), static_cast<std::int64_t>(joints.size() + nk));
  };
  const auto all_residues = [&](auto& self, series<std::int64_t> residues) -> value {
    const std::size_t n = residues.size();
    if (n == joints.size()) return product_at(residues);
    series<value> parts;
    for (std::int64_t r = 0; r < joints[n].o.step; ++r) {
      residues.push_back(r);
      parts.push_back(self(self, residues));
      residues.pop_back();
    }
    return interleave(std::move(parts), joints[n].place, joints[n].o.positions());
  };
  x_ = all_residues(all_residues, {});
  axes_.clear();
  for (std::size_t i = 0; i < free; ++i) axes_.push_back(labels[i < nb || first ? i : i - nb + columns]);
  for (std::size_t i = nb, n = static_cast<std::size_t>(w.rank()) - nk; i < n; ++i)
    if (std::none_of(joints.begin(), joints.end(), [&](const joint& j) { return j.tap == i; }))
      axes_.push_back(labels[first ? i - nb + columns : i]);
  for (std::size_t n = 0; n < pairs.size(); ++n) {
    const auto d = pairs[n].d;
    x_ = place_axis(x_, joints[n].place, start_[d], pairs[n].divisor, extents_[d]);
    axes_[joints[n].place] = rank_ + d;
  }
}

/// What an operand of these extents receives for the cotangent of a window of it.
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
