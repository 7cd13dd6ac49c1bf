// tests/fuzz/rounding.hpp: how far apart two evaluations of one operation may be: units, poles, pointwise operations.
#pragma once

#include <cmath>
#include <limits>
#include <sinter/ir/define.hpp>
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

inline double unit(dtype t) { return std::ldexp(1, -sinter::digits_of(t)); }
/// Of the type that kernels compute in.
inline double computed_unit(dtype t) { return t == dtype::f64 ? 0x1p-53 : 0x1p-24; }
/// Below it results are off by more than units of them: the least normal number, of formats of 16 and 8 bits the least.
inline double least(dtype t) {
  switch (t) {
    case dtype::f64:
      return 0x1p-1022;
    case dtype::f16:
      return 0x1p-24;
    case dtype::f8_e4m3:
      return 0x1p-9;
    case dtype::f8_e5m2:
      return 0x1p-16;
    default:
      return 0x1p-126;
  }
}
inline double most(dtype t) {
  switch (t) {
    case dtype::f64:
      return 0x1.fffffffffffffp1023;
    case dtype::f16:
      return 65504;
    case dtype::bf16:
      return 0x1.fep127;
    case dtype::f8_e4m3:
      return 448;
    case dtype::f8_e5m2:
      return 57344;
    default:
      return 0x1.fffffep127;
  }
}

/// What rounding moves a result near 0 by: half the distance of subnormals, and a little.
inline double rounding_near_zero(dtype t) {
  const bool subnormals = t == dtype::f16 || t == dtype::f8_e4m3 || t == dtype::f8_e5m2;
  return subnormals ? 0.5625 * least(t) : least(t) * unit(t) * 2;
}

inline literal_array doubles(const std::vector<std::int64_t>& extents, std::vector<double> x) {
  return {dtype::f64, extents, std::move(x), {}};
}

/// The op of `n` on arrays, in f64 or as it is, without rounding to the dtype of the result.
inline literal_array evaluate(sinter::ir::node n, const std::vector<const literal_array*>& in,
                              std::span<const std::int64_t> sizes, bool in_f64) {
  if (in_f64) n.type = n.attr.type = dtype::f64;
  return reference::compute({n, in, sizes});
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
    case op::bit_cast:
    case op::kinked:
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
    // It has no infinities, which kernels have until they round.
    if (t == dtype::f8_e4m3 && std::isinf(x)) e = unknown;
    if (std::isfinite(x) && !(std::fabs(x) + e <= most(t) * (1 - 4 * unit(t)))) e = unknown;
    if (!std::isfinite(x) || e == unknown) continue;
    const bool precise = !any_order && r == x && e == 0 && units <= 1.1;
    if (!precise) e += units * computed_unit(t) * std::fabs(x) + (units > 3 ? 4 * least(t) : 0);
    if (!precise && (e > 0 || r != x)) e += 1.1 * unit(t) * std::fabs(x) + rounding_near_zero(t);
  }
}

/// True where a whole number up to 0 is between x moved down and up, or two of them are not far.
inline bool near_pole(double x, double e) {
  const double low = x - 1.5 * e, high = x + 1.5 * e;
  return e > 0 && low <= 0 && (e > 0.1 || std::ceil(low) <= high);
}

/// True where values between the moved operands may do what their ends do not show: poles, periods, domains, equality.
inline bool hides_between(op code, double a, double ea, double b, double eb) {
  switch (code) {
    case op::tan:
      return ea > 0.02 || std::fabs(std::cos(a)) <= 3 * ea;
    case op::sin:
    case op::cos:
      return ea > 0.5;
    case op::asin:
    case op::acos:
    case op::atanh:
    case op::erfinv:
      return std::fabs(a) > 1 && std::fabs(a) - 1.5 * ea <= 1;
    case op::div:
      return std::fabs(b) <= 1.5 * eb && eb > 0;
    case op::pow:
      // Of a negative base only whole powers are numbers.
      return (std::fabs(a) <= 1.5 * ea && ea > 0) || (a < 0 && eb > 0 && std::fabs(b - std::round(b)) <= 1.5 * eb);
    case op::fmod:
      return (ea > 0 || eb > 0) && !(std::fabs(a) * eb + ea * std::fabs(b) < 0.01 * b * b);
    case op::eq:
    case op::ne:
      return ea + eb > 0 && std::fabs(a - b) <= 1.5 * (ea + eb);
    case op::lgamma:
    case op::digamma:
      return near_pole(a, ea);
    case op::polygamma:
      // Of orders that are not whole it is no number.
      return near_pole(b, eb) || (ea > 0 && std::ceil(a - 1.5 * ea) <= a + 1.5 * ea);
    case op::bit_cast:
      return std::isnan(a);  // of which there are many
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

}  // namespace detail
}  // namespace fuzz
