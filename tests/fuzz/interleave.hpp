// tests/fuzz/interleave.hpp: compiled functions called at random interleavings of shapes, layouts and other arguments, each
// call against the same function run eagerly and against a fresh specialisation.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <sinter/sinter.hpp>
#include <string>
#include <tuple>
#include <vector>

namespace interleaved {

using namespace sinter;

using matrix = tensor<double, 2>;
using line = tensor<double, 1>;
using integers = tensor<std::int64_t, 1>;

/// What every function takes: x (n, m), y (k, m), v (m), rows (r) in [0, n), what is no tensor; and beside it a number, which
/// is read at each call.
struct arguments {
  matrix x, y;
  line v;
  integers rows;
  std::int64_t times = 0;
  bool flag = false;
};

inline std::int64_t one_of(std::mt19937_64& bits, std::initializer_list<std::int64_t> from) {
  return from.begin()[bits() % from.size()];
}

/// Row-major, transposed, part of something larger, or reversed.
inline matrix any_matrix(std::mt19937_64& bits, std::int64_t n, std::int64_t m) {
  const auto filled = [&](std::int64_t rows, std::int64_t columns) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < rows * columns; ++i) values.push_back(static_cast<double>(bits() % 4001) / 1000 - 2);
    return matrix(from_span(values, std::array{rows, columns}));
  };
  switch (bits() % 8) {
    case 0:
      return transpose(filled(m, n));
    case 1:
      return slice(filled(n + 2, m), axis<0>, 1, n + 1);
    case 2:
      return slice(filled(n, m + 1), axis<1>, 1, m + 1);
    case 3:
      return flip(filled(n, m), axis<0>);
    default:
      return filled(n, m);
  }
}

inline arguments any_arguments(std::mt19937_64& bits) {
  const auto extent = [&] { return one_of(bits, {1, 2, 3, 4, 5, 7, 8, 16, 33}); };
  // Few distinct ones come back often; some are equal to others, to 0 and to 1.
  const std::int64_t n = bits() % 20 ? extent() : 0, m = bits() % 4 ? extent() : n, k = bits() % 3 ? extent() : n;
  arguments a;
  a.x = any_matrix(bits, n, m);
  a.y = any_matrix(bits, k, m);
  std::vector<double> v;
  for (std::int64_t i = 0; i < m; ++i) v.push_back(static_cast<double>(bits() % 2001) / 1000 + 0.5);
  a.v = from_span(v, std::array{m});
  std::vector<std::int64_t> rows;
  for (std::uint64_t r = n > 0 ? bits() % 6 : 0; r > 0; --r)
    rows.push_back(static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n)));
  a.rows = from_span(rows, std::array{static_cast<std::int64_t>(rows.size())});
  // Each value has specialisations of its own.
  a.flag = bits() % 5 == 0;
  a.times = a.flag ? 2 : 1;
  return a;
}

struct numbers {
  std::vector<std::int64_t> extents;
  std::vector<double> values;
};

template <class T>
void append(std::vector<numbers>& out, const T& x) {
  if constexpr (requires { x.to_vector(); }) {
    numbers part;
    for (int a = 0; a < T::rank; ++a) part.extents.push_back(static_cast<std::int64_t>(x.size(a)));
    for (auto v : x.to_vector()) part.values.push_back(static_cast<double>(v));
    out.push_back(std::move(part));
  } else {
    std::apply([&](const auto&... parts) { (append(out, parts), ...); }, x);
  }
}

/// What a call gives; an error of the user's is a result as well.
template <class F>
std::vector<numbers> outcome(const F& f, const arguments& a, double scale) {
  std::vector<numbers> out;
  try {
    append(out, f(a, scale));
  } catch (const user_error&) {
    out = {{{-1}, {}}};
  }
  return out;
}

inline std::string difference(const std::vector<numbers>& want, const std::vector<numbers>& got) {
  if (want.size() != got.size()) return "another number of results";
  for (std::size_t k = 0; k < want.size(); ++k) {
    const std::string which = "result " + std::to_string(k);
    if (want[k].extents != got[k].extents) return which + " has other extents";
    double most = 1;
    for (double v : want[k].values) most = std::max(most, std::isfinite(v) ? std::fabs(v) : 0);
    for (std::size_t i = 0; i < want[k].values.size(); ++i) {
      const double r = want[k].values[i], y = got[k].values[i];
      if (r == y || (std::isnan(r) && std::isnan(y)) || std::fabs(r - y) <= 1e-11 * most) continue;
      return which + ", element " + std::to_string(i) + ": " + std::to_string(y) + ", not " + std::to_string(r);
    }
  }
  return "";
}

inline std::string text_of(const arguments& a) {
  const auto of = [](const matrix& x) {
    return "(" + std::to_string(static_cast<std::int64_t>(x.size(0))) + ", " +
           std::to_string(static_cast<std::int64_t>(x.size(1))) + ") strides (" +
           std::to_string(static_cast<std::int64_t>(x.strides()[0])) + ", " +
           std::to_string(static_cast<std::int64_t>(x.strides()[1])) + ")";
  };
  return "x " + of(a.x) + ", y " + of(a.y) + ", " + std::to_string(static_cast<std::int64_t>(a.rows.size(0))) +
         " rows, times " + std::to_string(a.times) + ", flag " + std::to_string(a.flag);
}

/// One function under every policy, all called in turn.
template <class F>
void interleave(const char* name, const F& f, std::uint64_t seed, int calls) {
  std::mt19937_64 bits(seed);
  // Interpreting what is beyond a limit would hide the kernels.
  const auto automatic = compile(f, {.on_limit = on_limit::evict, .name = name});
  const auto dynamic_only = compile(f, {.dynamic = dynamic::yes, .on_limit = on_limit::evict, .name = name});
  const auto few = compile(f, {.recompile_limit = 2, .on_limit = on_limit::evict, .name = name});
  std::vector<arguments> earlier;
  for (int c = 0; c < calls; ++c) {
    const arguments a = earlier.empty() || bits() % 3 ? any_arguments(bits) : earlier[bits() % earlier.size()];
    earlier.push_back(a);
    const double scale = static_cast<double>(bits() % 1000) / 500;
    INFO(name << " call " << c << ": " << text_of(a) << ", scale " << scale);
    const auto want = outcome(f, a, scale);
    CHECK(difference(want, outcome(automatic, a, scale)) == "");
    CHECK(difference(want, outcome(dynamic_only, a, scale)) == "");
    if (c % 4 == 0) CHECK(difference(want, outcome(few, a, scale)) == "");
    const auto fresh = compile(f, {.dynamic = dynamic::no, .backend = "aot_reference", .name = name});
    CHECK(difference(want, outcome(fresh, a, scale)) == "");
  }
  CHECK(automatic.report().backend == "cpu");
  CHECK(dynamic_only.report().backend == "cpu");
  MESSAGE(std::string(name) << ": " << automatic.specialisations() << " specialisations, "
                            << dynamic_only.specialisations() << " where all extents are symbols");
}

constexpr int many = 16;

}  // namespace interleaved
