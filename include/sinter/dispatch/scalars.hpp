// dispatch/scalars.hpp: which floating constants of a function's first graph are arguments of its kernels at once.
#pragma once

#include <algorithm>
#include <cmath>

#include "../base/series.hpp"
#include "../ir/graph.hpp"

namespace sinter::engine::detail {

/// Numbers that people write in formulas: 0, 1, 2 and a half, constants of mathematics and of gelu. In kernels they are better
/// literals, which rules and epilogues know.
inline bool is_of_formulas(double x) {
  constexpr float known[] = {
      0,           1,           2,           0.5,  // with either sign, as all of these
      3.14159265f, 6.28318531f, 1.57079633f,       // pi, 2 pi, pi / 2
      1.41421356f, 0.70710678f,                    // sqrt(2), its inverse
      0.69314718f, 1.44269504f, 2.30258509f,       // ln 2, its inverse, ln 10
      0.79788456f, 1.12837917f, 0.044715f,         // sqrt(2 / pi), 2 / sqrt(pi); the cubic term of gelu
  };
  const float size = static_cast<float>(std::abs(x));
  return !(size < 1 << 24) || std::any_of(std::begin(known), std::end(known), [&](float k) { return size == k; });
}

/// Whether x is the number `from`, or simply made of it.
inline bool is_made_of(double x, double from) {
  const auto is = [&](double y) { return static_cast<float>(x) == static_cast<float>(y); };
  if (is(from) || is(-from)) return true;
  if (from == 0 || std::abs(from) == 1) return false;
  return is(1 - from) || is(from - 1) || is(1 + from) || is(1 / from) || is(from * from) || is(2 * from) ||
         is(from / 2);
}

/// What a constant is where it is used.
enum class constant_use : std::uint8_t {
  usual,
  neutral,   ///< changes nothing, as a factor of 1: no formula has it
  exponent,  ///< rules know small integers
  floor,     ///< the 0 of max(x, 0), which epilogues know
};

inline series<constant_use> uses_of_constants(const ir::graph& g) {
  series<constant_use> out(g.size(), constant_use::usual);
  const auto look = [&](ir::node_id id, double x, constant_use use) {
    if (g[id].code == ir::op::constant && g[id].attr.literal.f == x) out[id] = use;
  };
  for (ir::node_id id = 0; id < g.size(); ++id) {
    const ir::node& n = g[id];
    if (n.in.size() != 2 || !is_float(n.type)) continue;
    const auto [a, b] = std::pair(n.in[0], n.in[1]);
    using enum constant_use;
    switch (n.code) {
      case ir::op::mul:
        for (const double x : {0.0, 1.0, -1.0}) look(a, x, neutral), look(b, x, neutral);
        break;
      case ir::op::div:
        for (const double x : {1.0, -1.0}) look(b, x, neutral);
        break;
      case ir::op::add:
        look(a, 0, neutral), look(b, 0, neutral);
        break;
      case ir::op::sub:
        look(b, 0, neutral);
        break;
      case ir::op::maximum:
        look(a, 0, floor), look(b, 0, floor);
        break;
      case ir::op::pow:
        look(b, g[b].attr.literal.f, exponent), look(b, 1, neutral);
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
  const auto uses = uses_of_constants(g);
  const auto is_given = [&](double x) {
    return std::any_of(given.begin(), given.end(), [&](double y) { return std::abs(x) == std::abs(y); });
  };
  const auto follows = [&](double x, constant_use use) {
    if (use == constant_use::neutral) return true;
    if (use == constant_use::floor) return false;
    if (use == constant_use::exponent) return x != std::floor(2 * x) / 2 || is_given(x);
    return !is_of_formulas(x) || std::any_of(given.begin(), given.end(), [&](double y) { return is_made_of(x, y); });
  };
  series<char> out;
  for (const auto id : constants) {
    const bool is_apart = !g[id].attr.ints.empty();
    out.push_back(is_apart && follows(g[id].attr.literal.f, uses[id]));
  }
  return out;
}

}  // namespace sinter::engine::detail
