// dispatch/scalars.hpp: which floating constants of a function's first graph are arguments of its kernels at once.
#pragma once

#include <algorithm>
#include <cmath>

#include "../base/series.hpp"
#include "../ir/graph.hpp"

namespace sinter::engine::detail {

/// 0, 1, 2 and their inverses, and constants of mathematics: what formulas have of their own. In kernels they are better
/// literals, which rules and epilogues know.
inline bool is_of_formulas(double x) {
  constexpr float known[] = {
      0,           1,           2,           0.5,  // and
      3.14159265f, 6.28318531f, 1.57079633f,       // pi, 2 pi, pi / 2
      1.41421356f, 0.70710678f,                    // sqrt(2), its inverse
      0.69314718f, 1.44269504f, 2.30258509f,       // ln 2, its inverse, ln 10
      0.79788456f, 1.12837917f, 0.044715f,         // sqrt(2 / pi) and 2 / sqrt(pi), of erf; the cubic term of gelu
  };
  const float size = static_cast<float>(std::abs(x));
  return !(size < 1 << 24) || std::any_of(std::begin(known), std::end(known), [&](float k) { return size == k; });
}
/// Integers and small quarters: more often a formula's own than what follows from a number that is none of them.
inline bool is_round(double x) { return x == std::floor(x) || (std::abs(x) <= 2 && x * 4 == std::floor(x * 4)); }

/// Whether x is the number `from`, or simply made of it.
inline bool is_made_of(double x, double from) {
  const auto is = [&](double y) { return static_cast<float>(x) == static_cast<float>(y); };
  if (from == 0 || std::abs(from) == 1) return false;
  return is(from) || is(-from) || is(1 - from) || is(from - 1) || is(1 + from) || is(1 / from) || is(from * from) ||
         is(2 * from) || is(from / 2);
}

/// Per node whether it is a constant that changes nothing where it is used, as a factor of 1: in a formula it would not stand.
inline series<char> neutral_constants(const ir::graph& g) {
  series<char> out(g.size(), 0);
  const auto look = [&](ir::node_id id, double neutral) {
    if (g[id].code == ir::op::constant && is_float(g[id].type)) out[id] |= g[id].attr.literal.f == neutral;
  };
  for (ir::node_id id = 0; id < g.size(); ++id) {
    const ir::node& n = g[id];
    switch (n.code) {
      case ir::op::mul:
        for (const double x : {0.0, 1.0, -1.0}) look(n.in[0], x), look(n.in[1], x);
        break;
      case ir::op::div:
        for (const double x : {1.0, -1.0}) look(n.in[1], x);
        break;
      case ir::op::add:
        look(n.in[0], 0);
        [[fallthrough]];
      case ir::op::sub:
        look(n.in[1], 0);
        break;
      case ir::op::pow:
        look(n.in[1], 1);
        break;
      default:
        break;
    }
  }
  return out;
}

/// Per constant whether it may well follow from `given`, the C++ numbers of a call: it then is an argument of kernels, so that
/// other numbers need none of their own. That is a matter of speed alone: a constant can be either.
inline series<char> likely_scalars(const ir::graph& g, const series<ir::node_id>& constants,
                                   const series<double>& given) {
  const series<char> neutral = neutral_constants(g);
  const bool some_round = std::any_of(given.begin(), given.end(), is_round);
  const auto follows = [&](double x) {
    if (!is_of_formulas(x) && (some_round || !is_round(x))) return true;
    return std::any_of(given.begin(), given.end(), [&](double y) { return is_made_of(x, y); });
  };
  series<char> out;
  for (const auto id : constants) {
    const bool is_apart = !g[id].attr.ints.empty();
    out.push_back(is_apart && (neutral[id] || follows(g[id].attr.literal.f)));
  }
  return out;
}

}  // namespace sinter::engine::detail
