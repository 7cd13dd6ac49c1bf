// tests/fuzz/bounds.hpp: the reference's values with a bound, per element, on what another evaluation may differ by.
//
// A kernel computes f16 and bf16 in f32, adds in another order, and uses functions that are a few ulps off. A bound
// follows each value: an operation is evaluated at its operands moved by their bounds, and its own rounding is added.
// So a comparison, a floor or an index near a boundary is known to be unknown, and everything else is compared tightly.
#pragma once

#include <cmath>
#include <limits>
#include <sinter/ir/define.hpp>
#include <sinter/ir/graph.hpp>
#include <string>
#include <vector>

namespace fuzz {

inline constexpr double unknown = std::numeric_limits<double>::infinity();

struct bounded {
  sinter::ir::literal_array value;
  std::vector<double> bound;  ///< 0: exact; infinite: nothing is known
};

namespace detail {

using sinter::dtype;
using sinter::ir::literal_array;
using sinter::ir::op;
namespace reference = sinter::ir::detail;

inline double unit(dtype t) {
  return t == dtype::f64 ? 0x1p-53 : t == dtype::f32 ? 0x1p-24 : t == dtype::f16 ? 0x1p-11 : 0x1p-8;
}
/// Of the type that kernels compute in.
inline double computed_unit(dtype t) { return t == dtype::f64 ? 0x1p-53 : 0x1p-24; }
inline double least(dtype t) { return t == dtype::f64 ? 0x1p-1022 : t == dtype::f16 ? 0x1p-24 : 0x1p-126; }
inline double most(dtype t) {
  return t == dtype::f64   ? 0x1.fffffffffffffp1023
         : t == dtype::f16 ? 65504.0
         : t == dtype::f32 ? 0x1.fffffep127
                           : 0x1.fep127;
}

/// What rounding moves a result near 0 by: half the distance of subnormals, and a little.
inline double rounding_near_zero(dtype t) { return t == dtype::f16 ? 0x1.2p-25 : least(t) * unit(t) * 2; }

inline literal_array doubles(const std::vector<std::int64_t>& extents, std::vector<double> x) {
  return {dtype::f64, extents, std::move(x), {}};
}

/// The op of `n` on arrays, in f64 or as it is, without rounding to the dtype of the result.
inline literal_array evaluate(sinter::ir::node n, const std::vector<const literal_array*>& in,
                              std::span<const std::int64_t> sizes, bool in_f64) {
  if (in_f64) n.type = n.attr.type = dtype::f64;
  reference::step s{n, in, sizes};
  return reference::compute(s);
}

/// The rounding of one operation, in units; 0 where a result that the dtype holds is exact.
inline double own_units(op code) {
  using rule = sinter::ir::dtype_rule;
  switch (code) {
    case op::neg:
    case op::abs:
    case op::maximum:
    case op::minimum:
    case op::select:
    case op::sign:
    case op::floor:
    case op::ceil:
    case op::round:
    case op::trunc:
    case op::identity:
    case op::stop_gradient:
      return 0;
    case op::add:
    case op::sub:
    case op::mul:
    case op::cast:
      return 1.1;
    default:
      break;
  }
  // divide: exact operands divide exactly, but a rewrite may multiply by the reciprocal.
  return sinter::ir::row(code).rule == rule::floating || code == op::pow ? 16 : 3;
}

/// Set where what is compared may compute in another order: then no result of f64 is exact, nor one of integers that add up.
inline thread_local bool any_order = false;

/// Adds what rounding contributes, and gives up beyond the range.
inline void add_rounding(bounded& out, const std::vector<double>& exact, double units) {
  const dtype t = out.value.type;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    double& e = out.bound[i];
    const double r = out.value.f[i], x = exact[i];
    if (std::isnan(e)) e = unknown;
    if (std::isfinite(x) && !(std::fabs(x) + e <= most(t) * (1 - 4 * unit(t)))) e = unknown;
    if (!std::isfinite(x) || e == unknown) continue;
    const bool precise = !any_order && r == x && e == 0 && units <= 1.1;
    if (!precise) e += units * computed_unit(t) * std::fabs(x) + (units > 3 ? 4 * least(t) : 0);
    if (!precise && (e > 0 || r != x)) e += 1.1 * unit(t) * std::fabs(x) + rounding_near_zero(t);
  }
}

/// True where values between the moved operands may do what their ends do not show: poles, periods, equality.
inline bool hides_between(op code, double a, double ea, double b, double eb) {
  switch (code) {
    case op::tan:
      return ea > 0.02 || std::fabs(std::cos(a)) <= 3 * ea;
    case op::sin:
    case op::cos:
      return ea > 0.5;
    case op::div:
      return std::fabs(b) <= 1.5 * eb && eb > 0;
    case op::pow:
      return std::fabs(a) <= 1.5 * ea && ea > 0;
    case op::fmod:
      return (ea > 0 || eb > 0) && !(std::fabs(a) * eb + ea * std::fabs(b) < 0.01 * b * b);
    case op::eq:
    case op::ne:
      return ea + eb > 0 && std::fabs(a - b) <= 1.5 * (ea + eb);
    default:
      return false;
  }
}

inline bounded pointwise(const sinter::ir::node& n, const std::vector<const bounded*>& in) {
  const std::size_t arity = in.size();
  bounded out;
  out.value.type = n.type;
  out.value.extents = in[0]->value.extents;
  const std::size_t count = in[0]->bound.size();
  out.bound.assign(count, 0);
  const bool result_float = sinter::is_float(n.type);
  auto fresh = [&] {
    literal_array x{n.type, out.value.extents, {}, {}};
    (result_float ? void(x.f.resize(count)) : void(x.i.resize(count)));
    return x;
  };
  auto run = [&](const std::vector<const literal_array*>& args) {
    literal_array x = fresh();
    reference::arrays a{};
    std::copy(args.begin(), args.end(), a.begin());
    if (n.code == op::cast && result_float) {  // before its rounding
      const auto& from = *args[0];
      for (std::size_t i = 0; i < count; ++i)
        x.f[i] = sinter::is_float(from.type)      ? from.f[i]
                 : sinter::is_unsigned(from.type) ? static_cast<double>(static_cast<std::uint64_t>(from.i[i]))
                                                  : static_cast<double>(from.i[i]);
      return x;
    }
    reference::pointwise(n.code, a, x);
    return x;
  };
  std::vector<const literal_array*> plain;
  for (auto* x : in) plain.push_back(&x->value);
  const literal_array exact = run(plain);
  out.value = exact;
  reference::round_elements(out.value);
  // Operands moved down (0) or up (1); a zero takes both signs.
  std::vector<std::array<literal_array, 2>> moved(arity);
  bool moves = false;
  for (std::size_t k = 0; k < arity; ++k) {
    moved[k] = {in[k]->value, in[k]->value};
    for (std::size_t i = 0; i < count; ++i) {
      const double e = in[k]->bound[i];
      if (!sinter::is_float(in[k]->value.type)) continue;
      const double x = in[k]->value.f[i];
      moves = moves || e > 0 || x == 0;
      moved[k][0].f[i] = x == 0 && e == 0 ? -0.0 : x - 1.5 * e;
      moved[k][1].f[i] = x == 0 && e == 0 ? 0.0 : x + 1.5 * e;
    }
  }
  for (unsigned corner = 0; moves && corner < 1u << arity; ++corner) {
    std::vector<const literal_array*> args;
    for (std::size_t k = 0; k < arity; ++k) args.push_back(&moved[k][corner >> k & 1]);
    const literal_array there = run(args);
    for (std::size_t i = 0; i < count; ++i) {
      if (!result_float) {
        if (there.i[i] != exact.i[i]) out.bound[i] = unknown;
        continue;
      }
      const double a = exact.f[i], b = there.f[i];
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      const double d = std::fabs(a - b);
      out.bound[i] = std::isnan(d) ? unknown : std::max(out.bound[i], d);
    }
  }
  if (sinter::is_float(in[0]->value.type)) {
    const bounded& second = *in[arity > 1 ? 1 : 0];
    for (std::size_t i = 0; i < count; ++i)
      if (hides_between(n.code, in[0]->value.f[i], in[0]->bound[i], second.value.f[i], second.bound[i]))
        out.bound[i] = unknown;
  }
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = 0; k < arity; ++k)
      if (in[k]->bound[i] == unknown) {
        const bool unread =
            n.code == op::select && in[0]->bound[i] == 0 && k > 0 && (in[0]->value.i[i] != 0) == (k == 2);
        if (!unread) out.bound[i] = unknown;
      }
  if (result_float) add_rounding(out, exact.f, own_units(n.code));
  return out;
}

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

inline bounded reduction(const sinter::ir::node& n, const bounded& x, std::span<const std::int64_t> sizes) {
  bounded out;
  out.value = evaluate(n, {&x.value}, sizes, false);
  const auto& extents = x.value.extents;
  sinter::ir::node sum = n, product = n, largest = n;
  sum.attr.combiner = op::add;
  product.attr.combiner = op::mul;
  largest.attr.combiner = op::maximum;
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
    for (std::size_t i = 0; i < exact.size(); ++i)
      if (!(integers && total[i] * computed_unit(n.type) <= 1))
        out.bound[i] += sum_rounding(terms, total[i], n.type, 32);
  } else {
    std::vector<double> wide = size, up = size, down = size;
    for (std::size_t i = 0; i < wide.size(); ++i) {
      wide[i] = size[i] * (1 + 2 * computed_unit(n.type)) + x.bound[i];
      up[i] = std::max(wide[i], 1.0);
      down[i] = size[i] == 0 ? 1 : std::min(size[i] - x.bound[i], 1.0);
    }
    const auto outer = apply(product, {doubles(extents, wide)}, sizes).f,
               top = apply(product, {doubles(extents, up)}, sizes).f,
               bottom = apply(product, {doubles(extents, down)}, sizes).f;
    out.bound.assign(exact.size(), 0);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      out.bound[i] = 1.1 * (outer[i] - std::fabs(exact[i]));
      if (!(top[i] < most(n.type)) || !(bottom[i] > least(n.type) * 1e3)) out.bound[i] = unknown;
    }
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
  sinter::ir::node sum = n, product = n, largest = n;
  sum.attr.combiner = op::add;
  product.attr.combiner = op::mul;
  largest.attr.combiner = op::maximum;
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
    std::vector<double> wide = size, up = size, down = size;
    for (std::size_t i = 0; i < wide.size(); ++i) {
      wide[i] = size[i] * (1 + 2 * computed_unit(n.type)) + x.bound[i];
      up[i] = std::max(wide[i], 1.0);
      down[i] = size[i] == 0 ? 1 : std::min(size[i] - x.bound[i], 1.0);
    }
    const auto outer = apply(product, {doubles(extents, wide)}, sizes).f,
               top = apply(product, {doubles(extents, up)}, sizes).f,
               bottom = apply(product, {doubles(extents, down)}, sizes).f;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      out.bound[i] = 1.1 * (outer[i] - std::fabs(exact[i]));
      if (!(top[i] < most(n.type)) || !(bottom[i] > least(n.type) * 1e3)) out.bound[i] = unknown;
    }
  }
  for (std::size_t i = 0; i < exact.size(); ++i)
    if (out.bound[i] != out.bound[i]) out.bound[i] = unknown;
  add_rounding(out, exact, times ? 16 : 0.5);
  return out;
}

inline bounded extreme(const sinter::ir::node& n, const bounded& x, std::span<const std::int64_t> sizes) {
  bounded out;
  out.value = evaluate(n, {&x.value}, sizes, false);
  out.bound.assign(out.value.i.size(), 0);
  const reference::split s(x.value.extents, static_cast<std::size_t>(n.attr.ints[0]));
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
  out.bound = floating ? on(base.bound, updates.bound) : on(infinities(base.bound), infinities(updates.bound));
  if (!all_zero(index.bound)) out.bound.assign(out.bound.size(), unknown);
  if (!floating) {
    unknown_where_positive(out.bound);
    return out;
  }
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
      all[id] = detail::reduction(n, *in[0], sizes);
    } else if (n.code == op::scan) {
      all[id] = detail::scanned(n, *in[0], sizes);
    } else if (n.code == op::arg_reduce) {
      all[id] = detail::extreme(n, *in[0], sizes);
    } else if (n.code == op::dot) {
      all[id] = detail::dotted(n, *in[0], *in[1], sizes);
    } else if (n.code == op::scatter_add) {
      all[id] = detail::scattered(n, *in[0], *in[1], *in[2], sizes);
    } else {
      all[id] = detail::movement(n, in, sizes);
    }
  }
  return all;
}

}  // namespace fuzz
