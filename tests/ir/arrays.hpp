// tests/ir/arrays.hpp: arrays for tests: random and special ones, comparison, evaluation by the reference.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <sinter/ir/define.hpp>
#include <sinter/ir/value.hpp>
#include <string>
#include <vector>

namespace arrays {

using sinter::dtype;
using sinter::ir::literal_array;
using extents_t = std::vector<std::int64_t>;

inline std::int64_t count(const extents_t& extents) {
  std::int64_t n = 1;
  for (auto e : extents) n *= e;
  return n;
}

inline literal_array of(dtype t, extents_t extents, std::vector<double> elements) {
  literal_array a{t, std::move(extents), {}, {}};
  if (is_float(t)) a.f = std::move(elements);
  else
    for (auto x : elements) a.i.push_back(static_cast<std::int64_t>(x));
  return a;
}

/// Uniform in [low, high), rounded to the dtype; bool is a coin.
inline literal_array random(dtype t, extents_t extents, unsigned seed, double low = -2, double high = 2) {
  std::mt19937_64 bits(seed);
  literal_array a{t, std::move(extents), {}, {}};
  for (std::int64_t n = count(a.extents); n > 0; --n) {
    const double unit = static_cast<double>(bits() >> 11) * 0x1p-53, x = low + (high - low) * unit;
    if (t == dtype::f64) a.f.push_back(x);
    else if (t == dtype::f32) a.f.push_back(static_cast<float>(x));
    else if (t == dtype::f16) a.f.push_back(static_cast<float>(sinter::f16(static_cast<float>(x))));
    else if (t == dtype::bf16) a.f.push_back(static_cast<float>(sinter::bf16(static_cast<float>(x))));
    else if (t == dtype::b8) a.i.push_back(unit < 0.5);
    else a.i.push_back(static_cast<std::int64_t>(std::floor(x)));
  }
  return a;
}

inline sinter::ir::shape shape(const extents_t& extents) { return {extents.begin(), extents.end()}; }

inline std::vector<literal_array> run(const sinter::ir::graph& g, const std::vector<literal_array>& inputs,
                                      const std::vector<std::int64_t>& sizes = {}) {
  return sinter::ir::evaluate(g, inputs, sizes);
}

/// Equal dtypes, extents and elements, up to a relative and absolute tolerance; NaN equals NaN.
inline std::string difference(const literal_array& a, const literal_array& b, double tolerance = 0) {
  if (a.type != b.type) return "dtypes differ";
  if (a.extents != b.extents) return "extents differ";
  if (a.i != b.i) return "integers differ";
  for (std::size_t i = 0; i < a.f.size(); ++i) {
    const double x = a.f[i], y = b.f[i];
    const bool same = (std::isnan(x) && std::isnan(y)) || x == y ||
                      std::fabs(x - y) <= tolerance * std::max(1.0, std::max(std::fabs(x), std::fabs(y)));
    if (!same) return "element " + std::to_string(i) + ": " + std::to_string(x) + " and " + std::to_string(y);
  }
  return "";
}

/// The message of what f throws; "" when it throws nothing.
template <class F>
std::string message(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace arrays
