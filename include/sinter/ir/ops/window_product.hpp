// ir/ops/window_product.hpp: the sums by position of a product of places and taps, as products of windows over the places.
#pragma once

#include "window_sums.hpp"

namespace sinter::ir::ops {

/// For p (B, free axes, K) with places among its free axes, and w (B, free axes, K) with taps among its own. The product's
/// sums by position are a product over the taps, too, so places times taps are never stored. For each residue of the steps
/// there is one product of windows of p, padded once, and of the taps of that residue.
class window_product {
 public:
  window_product(value p, value w, std::size_t batch, std::size_t inner)
      : p_(std::move(p)),
        w_(std::move(w)),
        batch_(batch),
        inner_(inner),
        rank_(p_.extents().size()),
        free_(rank_ - inner),
        low_(rank_, 0),
        high_(rank_, 0) {}

  /// Axis `place` of p meets axis `tap` of w, whose extent is a number.
  void join(std::size_t place, std::size_t tap, const overlap& o) {
    joint j{place, tap, o, {}};
    const std::int64_t reach = o.dilation * (*o.taps.number() - 1) + 1, more = (reach + o.step - 1) / o.step - 1;
    j.count = o.places + dim(more);
    std::int64_t high = 0;
    for (std::int64_t r = 0; r < o.step; ++r) {
      const residue_class c(o, r);
      const std::int64_t u = *c.count(o).number();
      j.low = std::max(j.low, o.dilation * std::max<std::int64_t>(u - 1, 0) - c.shift);
      high = std::max(high, more + c.shift);
    }
    low_[place] = j.low;
    high_[place] = high;
    joints_.push_back(j);
  }
  bool is_tap(std::size_t axis_of_w) const {
    return std::any_of(joints_.begin(), joints_.end(), [&](const joint& j) { return j.tap == axis_of_w; });
  }
  /// Whether the windows would have too many axes.
  bool too_wide() const { return rank_ + joints_.size() > static_cast<std::size_t>(max_rank); }

  /// (p's batch and free axes with positions in place of places, then w's free axes without taps)
  value sums() {
    const shape none(rank_, 0);
    padded_ = low_ == none && high_ == none ? p_ : pad(p_, low_, high_, 0.0);
    return alike() ? together() : over_residues({});
  }

 private:
  struct joint {
    std::size_t place, tap;
    overlap o;
    dim count;  ///< positions of a residue
    std::int64_t low = 0;
  };

  /// Whether all residues have equally many taps, at the same places.
  bool alike() const {
    const auto even = [](const joint& j) { return j.o.dilation == 1 && *j.o.taps.number() % j.o.step == 0; };
    const auto steps = [](const joint& j) { return j.o.step > 1; };
    return rank_ + 2 * joints_.size() <= static_cast<std::size_t>(max_rank) &&
           w_.extents().size() + joints_.size() <= static_cast<std::size_t>(max_rank) &&
           std::all_of(joints_.begin(), joints_.end(), even) && std::any_of(joints_.begin(), joints_.end(), steps);
  }

  /// The windows of all residues are equal: one product, whose columns include the residues.
  value together() {
    const std::size_t wide = rank_ + joints_.size(), all = w_.extents().size();
    shape extents = part(padded_.extents(), 0, free_), start(rank_, 0), split;
    axes_t factors(rank_ * wide, 0),
        at;  // the position of each axis of w, once taps are taps of a residue, and residues
    for (std::size_t d = 0; d < rank_; ++d) factors[d * wide + (d < free_ ? d : d + joints_.size())] = 1;
    for (std::size_t a = 0; a < all; ++a) {
      at.push_back(static_cast<std::int64_t>(split.size()));
      const auto j = std::find_if(joints_.begin(), joints_.end(), [&](const joint& x) { return x.tap == a; });
      if (j != joints_.end()) split.push_back(*j->o.taps.number() / j->o.step);
      split.push_back(j != joints_.end() ? dim(j->o.step) : w_.extents()[a]);
    }
    axes_t order = iota_axes(0, batch_);
    for (std::size_t n = 0; n < joints_.size(); ++n) {
      const joint& j = joints_[n];
      extents[j.place] = j.count;
      start[j.place] = dim(j.low);
      factors[j.place * wide + free_ + n] = -1;
      extents.push_back(*j.o.taps.number() / j.o.step);
      order.push_back(at[j.tap]);
    }
    for (std::size_t d = free_; d < rank_; ++d) extents.push_back(padded_.extents()[d]);
    for (std::size_t a = all - inner_; a < all; ++a) order.push_back(at[a]);
    for (const auto& j : joints_) order.push_back(at[j.tap] + 1);
    for (std::size_t a = batch_; a < all - inner_; ++a)
      if (!is_tap(a)) order.push_back(at[a]);
    value y = dot(window(padded_, std::move(extents), start, std::move(factors)),
                  permute(reshape(w_, std::move(split)), order), static_cast<std::int64_t>(batch_),
                  static_cast<std::int64_t>(joints_.size() + inner_));
    for (const auto& j : joints_) y = join_axes(move_axis(y, free_, j.place + 1), j.place);
    return y;
  }

  value over_residues(series<std::int64_t> residues) {
    const std::size_t n = residues.size();
    if (n == joints_.size()) return at_residues(residues);
    series<value> parts;
    for (std::int64_t r = 0; r < joints_[n].o.step; ++r) {
      residues.push_back(r);
      parts.push_back(over_residues(residues));
      residues.pop_back();
    }
    return interleave(std::move(parts), joints_[n].place, joints_[n].o.positions());
  }

  /// The product of windows over the places and the taps of a residue.
  value at_residues(const series<std::int64_t>& residues) {
    const std::size_t wide = rank_ + joints_.size();
    shape extents = part(padded_.extents(), 0, free_), start(rank_, 0);
    axes_t factors(rank_ * wide, 0);
    for (std::size_t d = 0; d < rank_; ++d) factors[d * wide + (d < free_ ? d : d + joints_.size())] = 1;
    value taps = w_;
    bool nothing = false;
    for (std::size_t n = 0; n < joints_.size(); ++n) {
      const joint& j = joints_[n];
      const residue_class c(j.o, residues[n]);
      const dim u = c.count(j.o);
      nothing = nothing || u.is(0);
      extents[j.place] = j.count;
      start[j.place] = dim(c.shift + j.low);
      factors[j.place * wide + free_ + n] = -j.o.dilation;
      if (!u.is(0)) taps = slice_axis(taps, j.tap, c.first, u, j.o.step);
      extents.push_back(u);
    }
    shape result = part(extents, 0, free_);
    const axes_t order = order_of_taps(result);
    if (nothing) return zeros(p_, result);
    for (std::size_t d = free_; d < rank_; ++d) extents.push_back(padded_.extents()[d]);
    return dot(window(padded_, std::move(extents), start, std::move(factors)), permute(taps, order),
               static_cast<std::int64_t>(batch_), static_cast<std::int64_t>(joints_.size() + inner_));
  }

  /// w as (B, taps, K, other axes); the extents of the other axes are appended to `result`.
  axes_t order_of_taps(shape& result) const {
    const std::size_t rank = w_.extents().size();
    axes_t order = iota_axes(0, batch_);
    for (const auto& j : joints_) order.push_back(static_cast<std::int64_t>(j.tap));
    for (auto i : iota_axes(rank - inner_, rank)) order.push_back(i);
    for (std::size_t i = batch_; i < rank - inner_; ++i)
      if (!is_tap(i)) {
        order.push_back(static_cast<std::int64_t>(i));
        result.push_back(w_.extents()[i]);
      }
    return order;
  }

  value p_, w_, padded_;
  std::size_t batch_, inner_, rank_, free_;
  shape low_, high_;
  series<joint> joints_;
};

}  // namespace sinter::ir::ops
