// tests/fuzz/bounds.hpp: the reference's values with a bound, per element, on what another evaluation may differ by.
//
// A kernel computes f16 and bf16 in f32, adds in another order, and uses functions that are a few ulps off. A bound
// follows each value: an operation is evaluated at its operands moved by their bounds, and its own rounding is added.
// So a comparison, a floor or an index near a boundary is known to be unknown, and everything else is compared tightly.
#pragma once

#include "rounding.hpp"

namespace fuzz {
namespace detail {

inline std::vector<double> map(std::vector<double> x, double (*f)(double)) {
  for (auto& v : x) v = f(v);
  return x;
}

/// Indicators of unknown elements, for what sums integers.
inline std::vector<double> infinities(const std::vector<double>& e) {
  std::vector<double> x;
  for (double v : e) x.push_back(v > 0 ? 1 : 0);
  return x;
}

inline void unknown_where_positive(std::vector<double>& e) {
  for (auto& v : e) v = v > 0 ? unknown : 0;
}

/// What the roundings of a sum of `terms` terms of total magnitude `size` come to, when it is added in `runs` runs side
/// by side. Kernels reduce in lanes and chunks; the reference and products add one term after the other.
inline double sum_rounding(double terms, double size, dtype t, double runs) {
  return size * computed_unit(t) * (8 + terms / (t == dtype::f64 ? 1 : runs) + 2 * std::sqrt(terms));
}

inline bool whole(const std::vector<double>& x) {
  for (double v : x)
    if (v != std::floor(v)) return false;
  return true;
}
inline bool all_zero(const std::vector<double>& x) {
  for (double v : x)
    if (v != 0) return false;
  return true;
}

inline literal_array apply(const sinter::ir::node& n, std::vector<literal_array> x,
                           std::span<const std::int64_t> sizes) {
  std::vector<const literal_array*> at;
  for (auto& a : x) at.push_back(&a);
  sinter::ir::node f = n;
  f.attr.literal = {};
  return evaluate(f, at, sizes, true);
}

inline sinter::ir::node with_combiner(sinter::ir::node n, op combiner) {
  n.attr.combiner = combiner;
  return n;
}

/// Of products of many factors: by how much larger magnitudes could make them, where none on the way leaves the range.
inline std::vector<double> product_bounds(const sinter::ir::node& n, const bounded& x, const std::vector<double>& exact,
                                          std::span<const std::int64_t> sizes) {
  const auto product = with_combiner(n, op::mul);
  const auto& extents = x.value.extents;
  std::vector<double> wide(x.bound.size()), up(wide), down(wide), bounds(exact.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    const double size = std::fabs(x.value.f[i]);
    wide[i] = size * (1 + 2 * computed_unit(n.type)) + x.bound[i];
    up[i] = std::max(wide[i], 1.0);
    down[i] = size == 0 ? 1 : std::min(size - x.bound[i], 1.0);
  }
  const auto outer = apply(product, {doubles(extents, wide)}, sizes).f,
             top = apply(product, {doubles(extents, up)}, sizes).f,
             bottom = apply(product, {doubles(extents, down)}, sizes).f;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    bounds[i] = 1.1 * (outer[i] - std::fabs(exact[i]));
    if (!(top[i] < most(n.type)) || !(bottom[i] > least(n.type) * 1e3)) bounds[i] = unknown;
  }
  return bounds;
}

/// `merged`: terms that each element of x is the sum of; a rewrite makes one sum of sums.
inline bounded reduction(const sinter::ir::node& n, const bounded& x, double merged,
                         std::span<const std::int64_t> sizes) {
  bounded out;
  out.value = evaluate(n, {&x.value}, sizes, false);
  const auto& extents = x.value.extents;
  const sinter::ir::node sum = with_combiner(n, op::add), largest = with_combiner(n, op::maximum);
  if (!sinter::is_float(n.type)) {
    out.bound = apply(sum, {doubles(extents, infinities(x.bound))}, sizes).f;
    unknown_where_positive(out.bound);
    return out;
  }
  double terms = 1;
  for (auto a : n.attr.ints) terms *= static_cast<double>(extents[static_cast<std::size_t>(a)]);
  const auto exact = apply(n, {doubles(extents, x.value.f)}, sizes).f;
  const auto size = map(x.value.f, std::fabs);
  if (n.attr.combiner == op::maximum || n.attr.combiner == op::minimum) {
    out.bound =
        x.bound.empty() ? sinter::series<double>(exact.size()) : apply(largest, {doubles(extents, x.bound)}, sizes).f;
  } else if (n.attr.combiner == op::add) {
    out.bound = apply(sum, {doubles(extents, x.bound)}, sizes).f;
    const auto total = apply(sum, {doubles(extents, size)}, sizes).f;
    const bool integers = whole(x.value.f) && all_zero(x.bound);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (!(integers && total[i] * computed_unit(n.type) <= 1))
        out.bound[i] += sum_rounding(terms * merged, total[i], n.type, 32);
      // In another order what is added up may leave the range on the way.
      if (!(total[i] < most(n.type == dtype::f64 ? dtype::f64 : dtype::f32)) && std::isfinite(exact[i]))
        out.bound[i] = unknown;
    }
  } else {
    out.bound = product_bounds(n, x, exact, sizes);
  }
  for (std::size_t i = 0; i < exact.size(); ++i)
    if (!std::isfinite(exact[i]) && out.bound[i] != out.bound[i]) out.bound[i] = unknown;
  add_rounding(out, exact, n.attr.combiner == op::mul ? 16 : 0.5);
  return out;
}

/// Element i of a scan, by reductions of what comes before it.
inline bounded scanned(const sinter::ir::node& n, const bounded& x, std::span<const std::int64_t> sizes) {
  bounded out;
  out.value = evaluate(n, {&x.value}, sizes, false);
  const auto& extents = x.value.extents;
  const sinter::ir::node sum = with_combiner(n, op::add), largest = with_combiner(n, op::maximum);
  const bool floating = sinter::is_float(n.type), adds = n.attr.combiner == op::add, times = n.attr.combiner == op::mul;
  if (!floating || !(adds || times)) {
    // Which element sets an extreme does not matter: the extreme moves by no more than the most that one of them does.
    out.bound = x.bound;
    if (!out.bound.empty()) out.bound = apply(largest, {doubles(extents, x.bound)}, sizes).f;
    if (!floating) unknown_where_positive(out.bound);
    return out;
  }
  const auto exact = apply(n, {doubles(extents, x.value.f)}, sizes).f;
  const auto size = map(x.value.f, std::fabs);
  const auto terms = static_cast<double>(extents[static_cast<std::size_t>(n.attr.ints[0])]);
  out.bound.assign(exact.size(), 0);
  if (adds) {
    out.bound = apply(sum, {doubles(extents, x.bound)}, sizes).f;
    const auto total = apply(sum, {doubles(extents, size)}, sizes).f;
    const bool integers = whole(x.value.f) && all_zero(x.bound);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (!(integers && total[i] * computed_unit(n.type) <= 1))
        out.bound[i] += sum_rounding(terms, total[i], n.type, 1);
      if (!(total[i] < most(n.type)) && std::isfinite(exact[i])) out.bound[i] = unknown;
    }
  } else {
    out.bound = product_bounds(n, x, exact, sizes);
  }
  for (std::size_t i = 0; i < exact.size(); ++i)
    if (out.bound[i] != out.bound[i]) out.bound[i] = unknown;
  add_rounding(out, exact, times ? 16 : 0.5);
  return out;
}

/// A scan of x with factors. It may be taken apart anywhere: factors are multiplied among themselves then.
inline bounded recurrence(const sinter::ir::node& n, const bounded& x, const bounded& factors,
                          std::span<const std::int64_t> sizes) {
  bounded out;
  out.value = evaluate(n, {&x.value, &factors.value}, sizes, false);
  const auto& extents = x.value.extents;
  const auto alone = [&](op combiner, const std::vector<double>& v) {
    return apply(with_combiner(n, combiner), {doubles(extents, v)}, sizes).f;
  };
  if (!sinter::is_float(n.type)) {
    out.bound = alone(op::add, infinities(x.bound));
    const auto other = alone(op::add, infinities(factors.bound));
    for (std::size_t i = 0; i < other.size(); ++i) out.bound[i] += other[i];
    unknown_where_positive(out.bound);
    return out;
  }
  const auto both = [&](std::vector<double> a, std::vector<double> b) {
    return apply(n, {doubles(extents, std::move(a)), doubles(extents, std::move(b))}, sizes).f;
  };
  const auto exact = both(x.value.f, factors.value.f);
  auto sizes_x = map(x.value.f, std::fabs), sizes_f = map(factors.value.f, std::fabs);
  const auto total = both(sizes_x, sizes_f);
  for (std::size_t i = 0; i < sizes_x.size(); ++i) {
    sizes_x[i] += x.bound[i];
    sizes_f[i] += sizes_f[i] * 2 * computed_unit(n.type) + factors.bound[i];
  }
  const auto outer = both(std::move(sizes_x), std::move(sizes_f)), max_so_far = alone(op::maximum, outer);
  const auto products = product_bounds(n, factors, alone(op::mul, factors.value.f), sizes);
  const auto terms = static_cast<double>(extents[static_cast<std::size_t>(n.attr.ints[0])]);
  out.bound.resize(exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    out.bound[i] = 1.1 * (outer[i] - total[i]) + sum_rounding(terms, total[i], n.type, 1) +
                   terms * 4 * least(n.type) * (1 + max_so_far[i]);
    const bool in_range = max_so_far[i] < most(n.type) && products[i] < unknown;
    if (!in_range || out.bound[i] != out.bound[i]) out.bound[i] = unknown;
  }
  add_rounding(out, exact, 0.5);
  return out;
}

/// Of rows that are not known exactly, nothing is known.
inline bounded ordered(const sinter::ir::node& n, const std::vector<const bounded*>& in,
                       std::span<const std::int64_t> sizes) {
  bounded out;
  std::vector<const literal_array*> values;
  for (const auto* x : in) values.push_back(&x->value);
  out.value = evaluate(n, values, sizes, false);
  out.bound.assign(out.value.i.size(), 0);
  const auto axis = static_cast<std::size_t>(n.attr.ints[0]);
  const sinter::ir::ops::split to(out.value.extents, axis);
  for (const auto* x : in) {
    const sinter::ir::ops::split from(x->value.extents, axis);
    for (std::int64_t o = 0; o < from.outer; ++o)
      for (std::int64_t k = 0; k < from.inner; ++k) {
        bool known = true;
        for (std::int64_t i = 0; i < from.length; ++i)
          known = known && x->bound[static_cast<std::size_t>((o * from.length + i) * from.inner + k)] == 0;
        for (std::int64_t i = 0; !known && i < to.length; ++i)
          out.bound[static_cast<std::size_t>((o * to.length + i) * to.inner + k)] = unknown;
      }
  }
  return out;
}

inline bounded extreme(const sinter::ir::node& n, const bounded& x, std::span<const std::int64_t> sizes) {
  bounded out;
  out.value = evaluate(n, {&x.value}, sizes, false);
  out.bound.assign(out.value.i.size(), 0);
  const sinter::ir::ops::split s(x.value.extents, static_cast<std::size_t>(n.attr.ints[0]));
  for (std::int64_t o = 0; o < s.outer; ++o)
    for (std::int64_t k = 0; k < s.inner; ++k) {
      auto at = [&](std::int64_t i) { return static_cast<std::size_t>((o * s.length + i) * s.inner + k); };
      const auto result = static_cast<std::size_t>(o * s.inner + k);
      const std::size_t best = at(out.value.i[result]);
      for (std::int64_t i = 0; i < s.length; ++i) {
        const double e = x.bound[at(i)] + x.bound[best];
        if (e == 0 || at(i) == best) continue;
        const bool near = !sinter::is_float(x.value.type) || !(std::fabs(x.value.f[at(i)] - x.value.f[best]) > 2 * e);
        if (near) out.bound[result] = unknown;
      }
    }
  return out;
}

inline bounded dotted(const sinter::ir::node& n, const bounded& a, const bounded& b,
                      std::span<const std::int64_t> sizes) {
  bounded out;
  out.value = evaluate(n, {&a.value, &b.value}, sizes, false);
  const auto &ea = a.value.extents, &eb = b.value.extents;
  auto times = [&](std::vector<double> x, std::vector<double> y) {
    return apply(n, {doubles(ea, std::move(x)), doubles(eb, std::move(y))}, sizes).f;
  };
  if (!sinter::is_float(n.type)) {
    out.bound = times(infinities(a.bound), std::vector<double>(b.bound.size(), 1));
    const auto other = times(std::vector<double>(a.bound.size(), 1), infinities(b.bound));
    for (std::size_t i = 0; i < other.size(); ++i) out.bound[i] += other[i];
    unknown_where_positive(out.bound);
    return out;
  }
  double terms = 1;
  for (std::size_t d = ea.size() - static_cast<std::size_t>(n.attr.ints[1]); d < ea.size(); ++d)
    terms *= static_cast<double>(ea[d]);
  const auto exact = times(a.value.f, b.value.f), total = times(map(a.value.f, std::fabs), map(b.value.f, std::fabs));
  out.bound = times(map(a.value.f, std::fabs), b.bound);
  const auto left = times(a.bound, map(b.value.f, std::fabs)), both = times(a.bound, b.bound);
  const bool integers = whole(a.value.f) && whole(b.value.f) && all_zero(a.bound) && all_zero(b.bound);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    out.bound[i] += left[i] + both[i];
    if (!(integers && total[i] * computed_unit(n.type) <= 1)) out.bound[i] += sum_rounding(terms, total[i], n.type, 1);
    if (!(total[i] < most(n.type)) && std::isfinite(exact[i])) out.bound[i] = unknown;
  }
  add_rounding(out, exact, 0.5);
  return out;
}

inline bounded scattered(const sinter::ir::node& n, const bounded& base, const bounded& index, const bounded& updates,
                         std::span<const std::int64_t> sizes) {
  bounded out;
  out.value = evaluate(n, {&base.value, &index.value, &updates.value}, sizes, false);
  const auto &eb = base.value.extents, &eu = updates.value.extents;
  auto on = [&](std::vector<double> x, std::vector<double> y) {
    return apply(n, {doubles(eb, std::move(x)), index.value, doubles(eu, std::move(y))}, sizes).f;
  };
  const bool floating = sinter::is_float(n.type);
  if (n.code == op::scatter && n.attr.combiner != op::identity) {
    // An extreme is off by no more than one of its operands; a product by an unknown amount, unless all is exact.
    auto largest = n;
    largest.attr.combiner = op::maximum;
    const bool product = n.attr.combiner == op::mul;
    const std::vector<double> met(updates.bound.size(), product ? unknown : 0);
    out.bound =
        apply(largest, {doubles(eb, base.bound), index.value, doubles(eu, product && floating ? met : updates.bound)},
              sizes)
            .f;
    if (!all_zero(index.bound)) out.bound.assign(out.bound.size(), unknown);
    if (!floating) unknown_where_positive(out.bound);
    return out;
  }
  out.bound = floating ? on(base.bound, updates.bound) : on(infinities(base.bound), infinities(updates.bound));
  if (!all_zero(index.bound)) out.bound.assign(out.bound.size(), unknown);
  if (!floating) unknown_where_positive(out.bound);
  if (!floating || n.code == op::scatter) return out;
  const auto exact = on(base.value.f, updates.value.f),
             total = on(map(base.value.f, std::fabs), map(updates.value.f, std::fabs));
  const auto hits = on(std::vector<double>(base.bound.size(), 0), std::vector<double>(updates.bound.size(), 1));
  const bool integers =
      whole(base.value.f) && whole(updates.value.f) && all_zero(base.bound) && all_zero(updates.bound);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    // Memory is rounded after every addition.
    if (!(integers && total[i] * unit(n.type) <= 1)) out.bound[i] += total[i] * unit(n.type) * (hits[i] + 1);
    if (!(total[i] < most(n.type)) && std::isfinite(exact[i])) out.bound[i] = unknown;
  }
  add_rounding(out, exact, 0.5);
  return out;
}

/// Leaves, views, pad, concat, gather: elements move.
inline bounded movement(const sinter::ir::node& n, const std::vector<const bounded*>& in,
                        std::span<const std::int64_t> sizes) {
  bounded out;
  std::vector<const literal_array*> values;
  std::vector<literal_array> bounds;
  for (auto* x : in) values.push_back(&x->value);
  out.value = evaluate(n, values, sizes, false);
  const std::size_t count = sinter::is_float(n.type) ? out.value.f.size() : out.value.i.size();
  out.bound.assign(count, 0);
  if (in.empty()) return out;
  for (auto* x : in) bounds.push_back(doubles(x->value.extents, x->bound));
  if (n.code == op::gather) bounds[1] = in[1]->value;
  out.bound = apply(n, std::move(bounds), sizes).f;
  if (n.code == op::gather)
    for (std::size_t i = 0; i < count; ++i)
      if (in[1]->bound[i] > 0) out.bound[i] = unknown;
  return out;
}

}  // namespace detail

/// Values and bounds of every live node, given the inputs.
inline std::vector<bounded> evaluate(const sinter::ir::graph& g, const std::vector<sinter::ir::literal_array>& inputs,
                                     std::span<const std::int64_t> sizes) {
  using sinter::ir::op;
  std::vector<bounded> all(g.size());
  std::vector<double> summed(g.size(), 1.0);  // terms that its elements are sums of
  for (auto id : g.live()) {
    const auto& n = g[id];
    std::vector<const bounded*> in;
    for (auto x : n.in) in.push_back(&all[x]);
    if (n.code == op::input) {
      const auto& x = inputs[static_cast<std::size_t>(n.attr.ints[0])];
      all[id] = {x, std::vector<double>(sinter::is_float(x.type) ? x.f.size() : x.i.size(), 0)};
    } else if (sinter::ir::is_pointwise(n.code)) {
      all[id] = detail::pointwise(n, in);
    } else if (n.code == op::reduce) {
      all[id] = detail::reduction(n, *in[0], summed[n.in[0]], sizes);
      if (n.attr.combiner == op::add && sinter::is_float(n.type)) {
        const auto& extents = in[0]->value.extents;
        summed[id] = summed[n.in[0]];
        for (auto a : n.attr.ints) summed[id] *= static_cast<double>(extents[static_cast<std::size_t>(a)]);
      }
    } else if (n.code == op::scan) {
      all[id] = in.size() > 1 ? detail::recurrence(n, *in[0], *in[1], sizes) : detail::scanned(n, *in[0], sizes);
    } else if (n.code == op::argsort || n.code == op::searchsorted) {
      all[id] = detail::ordered(n, in, sizes);
    } else if (n.code == op::arg_reduce) {
      all[id] = detail::extreme(n, *in[0], sizes);
    } else if (n.code == op::dot) {
      all[id] = detail::dotted(n, *in[0], *in[1], sizes);
    } else if (n.code == op::scatter_add || n.code == op::scatter) {
      all[id] = detail::scattered(n, *in[0], *in[1], *in[2], sizes);
    } else {
      all[id] = detail::movement(n, in, sizes);
      if (sinter::ir::is_view(n.code)) summed[id] = summed[n.in[0]];
    }
  }
  return all;
}

}  // namespace fuzz
