// rewrite/movement.hpp: the longer replacements of the rules for structural ops.
#pragma once

#include "../base/series.hpp"
#include "match.hpp"

namespace sinter::engine::rewrite {

inline bool contains(const axes_t& axes, std::size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
}

inline value compose_permutes(const site& s) {
  if (!s.made_by(op::permute)) return {};
  axes_t both;
  for (auto p : s.n().attr.ints) both.push_back(s.operand(0).attr.ints[static_cast<std::size_t>(p)]);
  return permute(s.through(0), std::move(both));
}

inline value compose_slices(const site& s) {
  if (!s.made_by(op::slice)) return {};
  const auto &outer = s.n().attr, &inner = s.operand(0).attr;
  const std::size_t rank = outer.ints.size();
  axes_t steps(rank);
  shape count, start;
  for (std::size_t i = 0; i < rank; ++i) {
    if (outer.dims[i].is(0) || __builtin_mul_overflow(outer.ints[i], inner.ints[i], &steps[i])) return {};
    count.push_back(outer.dims[i]);
    start.push_back(inner.dims[rank + i] + outer.dims[rank + i] * dim(inner.ints[i]));
  }
  return slice(s.through(0), std::move(count), start, std::move(steps));
}

inline value slice_of_everything(const site& s) {
  const auto& a = s.n().attr;
  const bool whole = s.operand(0).extents == s.n().extents &&
                     std::all_of(a.ints.begin(), a.ints.end(), [](auto step) { return step == 1; });
  return whole ? s.in(0) : value();
}

inline value pad_of_nothing(const site& s) {
  const auto& widths = s.n().attr.dims;
  const bool none = std::all_of(widths.begin(), widths.end(), [](const dim& d) { return d.is(0); });
  return none ? s.in(0) : value();
}

inline value permute_of_nothing(const site& s) {
  const auto& perm = s.n().attr.ints;
  for (std::size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<std::int64_t>(i)) return {};
  return s.in(0);
}

inline value moved_constant(const site& s) {
  const auto x = s.literal(0);
  return x ? s.constant(*x) : value();
}

/// Turns a permute that swaps the rows and columns of a product into a product with its operands swapped. The reader can then
/// be the product's epilogue. The rows that become columns must be one axis with at least a vector's length.
inline value turned_product(const site& s) {
  if (!s.made_by(op::dot) || !s.reads_alone(0) || !s.around->by_elements) return {};
  const auto nb = static_cast<std::size_t>(s.operand(0).attr.ints[0]),
             nk = static_cast<std::size_t>(s.operand(0).attr.ints[1]);
  const value a = s.through(0, 0), b = s.through(0, 1);
  const auto ra = static_cast<std::size_t>(a.rank()), rb = static_cast<std::size_t>(b.rank());
  const std::size_t rows = ra - nb - nk, columns = rb - nb - nk;
  constexpr std::int64_t min_columns = 16;
  std::size_t long_rows = 0, long_columns = 0;
  for (std::size_t d = nb; d < nb + rows; ++d) {
    long_rows += !a.extents()[d].is(1);
    if (a.extents()[d].number().value_or(min_columns) < min_columns && !a.extents()[d].is(1)) return {};
  }
  for (std::size_t d = nb + nk; d < rb; ++d) long_columns += !b.extents()[d].is(1);
  if (long_rows != 1 || long_columns == 0) return {};
  // The batch axes stay, then come all columns, then all rows.
  const auto& perm = s.n().attr.ints;
  for (std::size_t i = 0; i < perm.size(); ++i) {
    const std::size_t from = i < nb ? i : i < nb + columns ? i + rows : i - columns;
    if (static_cast<std::size_t>(perm[i]) != from) return {};
  }
  axes_t left, right;
  for (std::size_t d = 0; d < nb; ++d) left.push_back(static_cast<std::int64_t>(d)), right.push_back(left.back());
  for (std::size_t d = 0; d < columns; ++d) left.push_back(static_cast<std::int64_t>(nb + nk + d));
  for (std::size_t d = 0; d < nk; ++d) left.push_back(static_cast<std::int64_t>(nb + d));
  for (std::size_t d = 0; d < nk; ++d) right.push_back(static_cast<std::int64_t>(nb + rows + d));
  for (std::size_t d = 0; d < rows; ++d) right.push_back(static_cast<std::int64_t>(nb + d));
  return dot(permute(b, std::move(left)), permute(a, std::move(right)), static_cast<std::int64_t>(nb),
             static_cast<std::int64_t>(nk));
}

/// A slice of the rows of a product of windows is a product of fewer windows. The other axes must be whole.
inline value slice_of_windows(const site& s) {
  if (!s.made_by(op::dot) || !s.reads_alone(0) || s.through(0).get().code != op::window) return {};
  const value windows = s.through(0);
  const node& w = windows.get();
  const auto& taken = s.n().attr;
  const std::size_t rank = w.extents.size(), sliced = s.n().extents.size(),
                    rows = rank - static_cast<std::size_t>(s.operand(0).attr.ints[1]);
  for (std::size_t j = 0; j < sliced; ++j) {
    const bool whole = taken.ints[j] == 1 && s.n().extents[j] == s.operand(0).extents[j];
    if (taken.dims[j].is(0) || (!whole && (j >= rows || j < static_cast<std::size_t>(s.operand(0).attr.ints[0]))))
      return {};
  }
  shape extents = w.extents, start;
  axes_t factors = w.attr.ints;
  for (std::size_t d = 0; rank + d < w.attr.dims.size(); ++d) {
    start.push_back(w.attr.dims[rank + d]);
    for (std::size_t j = 0; j < rows; ++j) {
      std::int64_t& factor = factors[d * rank + j];
      start[d] += dim(factor) * taken.dims[sliced + j];
      if (__builtin_mul_overflow(factor, taken.ints[j], &factor) || std::abs(factor) >= std::int64_t{1} << 31)
        return {};
    }
  }
  for (std::size_t j = 0; j < rows; ++j) extents[j] = taken.dims[j];
  const value x(s.v.owner(), w.in[0], s.v.where());
  return dot(window(x, std::move(extents), start, std::move(factors)), s.through(0, 1), s.operand(0).attr.ints[0],
             s.operand(0).attr.ints[1]);
}

/// Kernels do not check before they read: an axis that may be empty is extended by a 0, and the index stays below it.
inline value gather_of_nothing(const site& s) {
  if (!ir::may_read_nothing(s.v.owner(), s.n())) return {};
  const value x = s.in(0), index = cast(s.in(1), dtype::i64);
  const auto axis = static_cast<std::size_t>(s.n().attr.ints[0]);
  shape none(static_cast<std::size_t>(x.rank()), 0), one = none;
  one[axis] = 1;
  ir::attributes last;
  last.dims = {x.extents()[axis] - dim(1)};
  const value most(s.v.owner(), s.v.owner().push(op::size, {}, std::move(last), s.v.where()), s.v.where());
  const value kept = minimum(index, broadcast(reshape(most, shape(none.size(), 1)), index.extents()));
  return gather(pad(x, std::move(none), one, 0.0), kept, s.n().attr.ints[0]);
}

/// Computes before repeating: f(broadcast a, broadcast b, constant) = broadcast f(a, b, constant).
inline value pointwise_of_broadcasts(const site& s) {
  const shape* from = nullptr;
  for (std::size_t k = 0; k < s.arity(); ++k) {
    if (s.literal(k)) continue;
    const node* b = s.made_by(op::broadcast, k);
    if (!b) return {};
    const value operand = s.through(k);
    const shape& extents = operand.extents();
    if (from && !(*from == extents)) return {};
    from = &extents;
  }
  if (!from) return {};
  const shape small = *from;
  series<ir::node_id> in;
  ir::graph& g = s.v.owner();
  for (std::size_t k = 0; k < s.arity(); ++k)
    in.push_back(s.literal(k) ? g.constant(s.operand(k).type, *s.literal(k), small, s.v.where()) : s.through(k).id());
  const value result(g, g.push(s.n().code, std::move(in), s.n().attr, s.v.where()), s.v.where());
  return broadcast(result, s.n().extents);
}

/// A sum over the batch axes of a product becomes part of the product's contraction.
inline value reduce_of_product(const site& s) {
  if (s.n().attr.combiner != op::add || !s.made_by(op::dot) || !s.reads_alone(0)) return {};
  const auto nb = s.operand(0).attr.ints[0], nk = s.operand(0).attr.ints[1];
  const axes_t axes = s.n().attr.ints;
  if (std::any_of(axes.begin(), axes.end(), [&](std::int64_t axis) { return axis >= nb; })) return {};
  const value a = s.through(0, 0), b = s.through(0, 1);
  axes_t kept;
  for (std::int64_t axis = 0; axis < nb; ++axis)
    if (!contains(axes, static_cast<std::size_t>(axis))) kept.push_back(axis);
  axes_t left = kept, right = kept;
  for (std::int64_t axis = nb; axis < a.rank() - nk; ++axis) left.push_back(axis);
  left.insert(left.end(), axes.begin(), axes.end());
  right.insert(right.end(), axes.begin(), axes.end());
  for (std::int64_t axis = a.rank() - nk; axis < a.rank(); ++axis) left.push_back(axis);
  for (std::int64_t axis = nb; axis < b.rank(); ++axis) right.push_back(axis);
  const auto summed = static_cast<std::int64_t>(axes.size());
  return dot(permute(a, std::move(left)), permute(b, std::move(right)), nb - summed, nk + summed);
}

inline value reduce_of_nothing(const site& s) { return s.n().attr.ints.empty() ? s.in(0) : value(); }

inline value reduce_of_reduce(const site& s) {
  if (!s.made_by(op::reduce) || s.operand(0).attr.combiner != s.n().attr.combiner) return {};
  const axes_t& inner = s.operand(0).attr.ints;
  axes_t all = inner;
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < s.through(0).rank(); ++i) {
    if (contains(inner, static_cast<std::size_t>(i))) continue;
    if (contains(s.n().attr.ints, static_cast<std::size_t>(kept++))) all.push_back(i);
  }
  sort_stably(all, std::less());
  return reduce(s.through(0), s.n().attr.combiner, std::move(all));
}

/// Axes of extent 1 do not need a reduction.
inline value reduce_over_ones(const site& s) {
  const shape& extents = s.operand(0).extents;
  shape kept;
  axes_t axes;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const bool reduced = contains(s.n().attr.ints, i);
    if (reduced && extents[i].is(1)) continue;
    if (reduced) axes.push_back(static_cast<std::int64_t>(kept.size()));
    kept.push_back(extents[i]);
  }
  if (kept.size() == extents.size()) return {};
  return reduce(reshape(s.in(0), std::move(kept)), s.n().attr.combiner, std::move(axes));
}

/// True when n is a number that dtype t holds exactly.
inline bool holds(dtype t, std::int64_t n) { return n <= std::int64_t{1} << (is_float(t) ? digits_of(t) : 53); }

/// A sum of equal elements is a product; an extreme of equal elements is that element.
inline value combine_equal(const site& s, const value& r, const series<dim>& counts) {
  std::int64_t n = 1;
  for (const auto& c : counts) {
    if (c.is(0)) return {};
    if (s.n().attr.combiner == op::add && (!c.is_number() || __builtin_mul_overflow(n, *c.number(), &n))) return {};
  }
  if (s.n().attr.combiner != op::add) return r;
  return holds(s.type(), n) ? r * s.constant(rounded(s.type(), scalar{static_cast<double>(n), n})) : value();
}

/// Reduces a broadcast value only along the axes that were not repeated.
inline value reduce_of_broadcast(const site& s) {
  if (!s.made_by(op::broadcast) || s.n().attr.combiner == op::mul) return {};
  const value x = s.through(0);
  shape narrow = s.operand(0).extents;
  series<dim> counts;
  for (std::size_t i = 0; i < narrow.size(); ++i)
    if (contains(s.n().attr.ints, i) && x.extents()[i].is(1) && !narrow[i].is(1)) {
      counts.push_back(narrow[i]);
      narrow[i] = 1;
    }
  if (counts.empty() || std::any_of(counts.begin(), counts.end(), [](const dim& c) { return c.is(0); })) return {};
  return combine_equal(s, reduce(broadcast(x, std::move(narrow)), s.n().attr.combiner, s.n().attr.ints), counts);
}

inline value reduce_of_constant(const site& s) {
  if (!s.literal(0) || s.n().attr.combiner == op::mul) return {};
  series<dim> counts;
  for (auto a : s.n().attr.ints) counts.push_back(s.operand(0).extents[static_cast<std::size_t>(a)]);
  return combine_equal(s, s.constant(*s.literal(0)), counts);
}

/// A scatter of one index for each row into zeros: each element of the result compares its place with the row's index.
inline value scatter_of_one(const site& s) {
  const auto axis = static_cast<std::size_t>(s.n().attr.ints[0]);
  const value index = s.in(1), updates = s.in(2);
  if (!s.is(0, 0) || !index.extents()[axis].is(1)) return {};
  const shape& extents = s.n().extents;
  const value here = eq(iota(index, index.type(), extents, s.n().attr.ints[0]), broadcast(index, extents));
  return select(here, broadcast(updates, extents), s.constant(*s.literal(0)));
}

/// A scatter into zeros, possibly reshaped, plus a value with no other reader, becomes a scatter into that value: operand `k`
/// of the sum. Many floats would each be rounded to the other term. So it must be a product, as gradients of one table are
/// sums of such terms.
inline value scatter_into(const site& s, std::size_t k) {
  if (!s.reads_alone(k) || !s.reads_alone(1 - k) || s.made_by(op::constant, 1 - k)) return {};
  const value other = s.made_by(op::reshape, 1 - k) ? s.through(1 - k) : s.in(1 - k);
  if (is_float(s.type()) && site{other}.n().code != op::dot) return {};
  const site scatter{s.made_by(op::reshape, k) ? s.through(k) : s.in(k)};
  if (scatter.n().code != op::scatter_add || !scatter.is(0, 0)) return {};
  const value to = reshape(s.in(1 - k), scatter.n().extents);
  return reshape(scatter_add(to, scatter.in(1), scatter.in(2), scatter.n().attr.ints[0]), s.n().extents);
}

/// Halves are added and multiplied in f32, and rounded once.
inline value scatter_of_halves(const site& s) {
  if (!is_narrow(s.type())) return {};
  if (s.n().code == op::scatter) {
    if (s.n().attr.combiner != op::mul) return {};
    return cast(ir::scatter(cast(s.in(0), dtype::f32), s.in(1), cast(s.in(2), dtype::f32), op::mul, s.n().attr.ints[0],
                            s.n().attr.ints[1] != 0),
                s.type());
  }
  return cast(scatter_add(cast(s.in(0), dtype::f32), s.in(1), cast(s.in(2), dtype::f32), s.n().attr.ints[0]), s.type());
}

}  // namespace sinter::engine::rewrite
