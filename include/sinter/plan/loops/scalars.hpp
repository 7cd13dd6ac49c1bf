// plan/loops/scalars.hpp: instructions on single numbers, and the merge rules of reductions: what loops compute, exactly.
#pragma once

#include <cmath>
#include <limits>

#include "../../ir/reference_pointwise.hpp"
#include "tree.hpp"

namespace sinter::engine::plan::loops {

using ir::scalar;

/// A number rounded to a dtype.
inline scalar rounded(scalar x, dtype t) {
  visit_dtype(t, [&](auto element) {
    using T = typename decltype(element)::type;
    if constexpr (std::is_same_v<T, double> || (sizeof(T) == 8 && !is_float(dtype_of<T>))) return;
    else if constexpr (is_float(dtype_of<T>))
      x.f = static_cast<double>(static_cast<float>(vocabulary::convert<T>(x.f)));
    else x.i = static_cast<std::int64_t>(vocabulary::convert<T>(x.i));
  });
  return x;
}

/// The dtype in which values of a dtype are computed.
constexpr dtype computed_as(dtype t) { return is_narrow(t) ? dtype::f32 : t; }

/// The pointwise op `code`, to dtype `to`, of numbers whose dtypes are `types`.
inline scalar pointwise(ir::op code, dtype to, const series<scalar>& args, const series<dtype>& types) {
  const auto rule = ir::row(code).rule;
  if (rule == ir::dtype_rule::conversion || rule == ir::dtype_rule::same_size) {
    ir::literal_array in{types[0], {}, {}, {}}, out{to, {}, {}, {}};
    in.f.assign(1, args[0].f), in.i.assign(1, args[0].i), out.f.assign(1, 0), out.i.assign(1, 0);
    if (is_float(types[0])) in.i.clear();
    else in.f.clear();
    if (is_float(to)) out.i.clear();
    else out.f.clear();
    rule == ir::dtype_rule::conversion ? ir::detail::cast_array(in, out) : ir::detail::bit_cast_array(in, out);
    return is_float(to) ? scalar{out.f[0], 0} : scalar{0, out.i[0]};
  }
  scalar out;
  const std::size_t of = rule == ir::dtype_rule::selection ? 1 : 0;
  ir::detail::with_computed(types[of], [&](auto computed) {
    using T = typename decltype(computed)::type;
    T x[3] = {};
    for (std::size_t a = 0; a < args.size() && a < 3; ++a)
      x[a] = static_cast<T>(is_float(types[a]) ? args[a].f : args[a].i);
    if constexpr (!std::is_same_v<T, double>)
      for (std::size_t a = 0; a < args.size() && a < 3; ++a) x[a] = static_cast<T>(args[a].i);
    const T r = ir::detail::pointwise_scalar<T>(code, x[0], x[1], x[2]);
    if (rule == ir::dtype_rule::comparison || rule == ir::dtype_rule::test) out.i = r != T{};
    else if constexpr (std::is_same_v<T, double>) out.f = r;
    else out.i = static_cast<std::int64_t>(r);
  });
  return rounded(out, computed_as(to));
}

/// The numbers of a reduction's tuple.
using tuple = series<scalar>;

/// What merges to nothing.
inline tuple nothing_of(const instruction& i, std::size_t parts) {
  tuple out(parts);
  if (i.rule == merge_rule::one) out[0] = ir::combiner_identity(i.code, i.squares ? dtype::f64 : computed_as(i.type));
  if (i.rule == merge_rule::first) out[1].i = std::numeric_limits<std::int64_t>::max();
  if (i.rule == merge_rule::weighted) out[0].f = -std::numeric_limits<double>::infinity();
  return out;
}

namespace detail {

/// exp(a - b), where b >= a is a maximum: 0 if both are -inf.
inline double weight(double a, double b) { return a == -std::numeric_limits<double>::infinity() ? 0 : std::exp(a - b); }
inline double greater(double a, double b) { return std::isnan(a) || a > b ? a : b; }

inline void merge_first(const instruction& i, dtype type, tuple& to, const tuple& x) {
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  if (x[1].i == none) return;
  const bool nan = is_float(type) && std::isnan(x[0].f),
             was_nan = to[1].i != none && is_float(type) && std::isnan(to[0].f);
  const bool largest = ir::combiner_identity(i.code, dtype::i64).i < 0;
  const auto before = [&](auto a, auto b) { return largest ? a > b : a < b; };
  const bool better = is_float(type) ? before(x[0].f, to[0].f) : before(x[0].i, to[0].i);
  const bool equal = nan ? was_nan : is_float(type) ? x[0].f == to[0].f : x[0].i == to[0].i;
  if (to[1].i == none || (nan && !was_nan) || (!was_nan && better) || (equal && x[1].i < to[1].i)) to = x;
}
inline void merge_weighted(tuple& to, const tuple& x) {
  const double most = greater(to[0].f, x[0].f), mine = weight(to[0].f, most), other = weight(x[0].f, most);
  to[0].f = most;
  for (std::size_t k = 1; k < to.size(); ++k) to[k].f = to[k].f * mine + x[k].f * other;
}
/// Chan, Golub, LeVeque: "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
inline void merge_moments(tuple& to, const tuple& x) {
  const double n = to[0].f + x[0].f;
  if (x[0].f == 0) return;
  const double gap = x[1].f - to[1].f;
  to[2].f += x[2].f + gap * gap * to[0].f * x[0].f / n;
  to[1].f += gap * x[0].f / n;
  to[0].f = n;
}

}  // namespace detail

/// Merges a partial result into another; `types` are those of the parts.
inline void merge_into(const instruction& i, const series<dtype>& types, tuple& to, const tuple& x) {
  const dtype type = i.squares ? dtype::f64 : computed_as(types[0]);
  if (i.rule == merge_rule::one) to[0] = pointwise(i.code, type, {to[0], x[0]}, {type, type});
  else if (i.rule == merge_rule::first) detail::merge_first(i, types[0], to, x);
  else if (i.rule == merge_rule::weighted) detail::merge_weighted(to, x);
  else detail::merge_moments(to, x);
}

/// The partial result of one element, whose numbers are the reduction's args.
inline tuple of_element(const instruction& i, const series<scalar>& args) {
  if (i.rule == merge_rule::moments) return {{1, 0}, args[0], {}};
  if (i.rule != merge_rule::one) return args;
  scalar x = args[0];
  if (i.squares) x.f *= x.f;
  return {x};
}

}  // namespace sinter::engine::plan::loops
