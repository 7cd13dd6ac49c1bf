// tests/front/functions/tails_test.cpp: truncated_normal at any distance from 0: distribution, bounds, the same bits everywhere.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <sinter/sinter.hpp>
#include <vector>

using namespace sinter;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

struct interval {
  double low, high;
};

/// Sums over t from 0 to high - low of exp(-(low t + t²/2)), times 1, t and t²: by Simpson's rule.
struct tail {
  long double low, length, total = 0, first = 0, second = 0;

  explicit tail(const interval& of) : low(of.low) {
    length = std::min<long double>(of.high - of.low, 45 / (low + 1));
    constexpr int steps = 4000;
    for (int i = 0; i <= steps; ++i) {
      const long double t = length * i / steps, weight = i == 0 || i == steps ? 1 : i % 2 == 0 ? 2 : 4;
      const long double y = weight * std::exp(-(low * t + t * t / 2));
      total += y, first += t * y, second += t * t * y;
    }
  }
  double mean() const { return static_cast<double>(first / total); }
  double variance() const { return static_cast<double>(second / total - first / total * (first / total)); }
};

/// The chance of less than low + t, for low up to 60.
double below(const interval& of, double t) {
  const auto above = [](long double x) { return std::erfc(x / std::sqrt(2.0L)); };
  const long double all = above(of.low) - (of.high == inf ? 0 : above(of.high));
  return static_cast<double>((above(of.low) - above(static_cast<long double>(of.low) + t)) / all);
}

template <class T>
void check_tail(const interval& of, std::size_t different) {
  constexpr std::int64_t n = 100000;
  CAPTURE(of.low);
  CAPTURE(of.high);
  const key k = make_key(91);
  const std::vector<T> x = truncated_normal<T>(k, of.low, of.high, n).to_vector();
  const std::vector<T> mirrored = truncated_normal<T>(k, -of.high, -of.low, n).to_vector();
  const tail want(of);
  double sum = 0, squares = 0;
  bool within = true, mirror = true;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double t = static_cast<double>(x[i]) - of.low;
    within = within && static_cast<double>(x[i]) >= of.low && static_cast<double>(x[i]) <= of.high;
    mirror = mirror && mirrored[i] == -x[i];
    sum += t, squares += t * t;
  }
  CHECK(within);
  CHECK(mirror);
  const double mean = sum / n, spread = std::sqrt(want.variance());
  CHECK(std::abs(mean - want.mean()) < 4 * spread / std::sqrt(static_cast<double>(n)));
  CHECK(squares / n - mean * mean == doctest::Approx(want.variance()).epsilon(0.04));
  CHECK(std::set<T>(x.begin(), x.end()).size() >= different);
  if (sizeof(T) == 4 || of.low > 60) return;
  // Kolmogorov and Smirnov: beyond 1.95 once in a thousand keys.
  std::vector<T> sorted = x;
  std::sort(sorted.begin(), sorted.end());
  double far = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i)
    far = std::max(far,
                   std::abs(below(of, static_cast<double>(sorted[i]) - of.low) - (static_cast<double>(i) + 0.5) / n));
  CHECK(far * std::sqrt(static_cast<double>(n)) < 1.95);
}

}  // namespace

TEST_CASE("truncated_normal in a tail: mean, variance, distribution, different values, bounds, both sides") {
  for (const interval of : {interval{0.01, inf}, interval{0.5, 0.75}, interval{2, inf}, interval{2, 3},
                            interval{5, inf}, interval{5, 5.01}, interval{7.9, 100}, interval{8, 100}, interval{8, 8.5},
                            interval{20, inf}, interval{20, 20.1}, interval{50, 51}, interval{1000, inf}}) {
    check_tail<double>(of, 99900);
    if (of.low < 50) check_tail<float>(of, of.low < 20 && of.high > 5.2 ? 40000 : 9000);
  }
  const key k = make_key(3);
  CHECK(truncated_normal<double>(k, 1e300, inf, 5).to_vector() == std::vector<double>(5, 1e300));
  CHECK(truncated_normal<double>(k, -inf, -1e18, 5).to_vector() == std::vector<double>(5, -1e18));
  // No number of f32 or f16 that rounds to one outside.
  for (const float x : truncated_normal<float>(k, 2.1, 2.1000001, 100).to_vector())
    CHECK((static_cast<double>(x) >= 2.1 || x == 2.1f));
  for (const float x : truncated_normal<float>(k, 8.1, 9, 1000).to_vector()) CHECK(static_cast<double>(x) >= 8.1);
  for (const f16 x : truncated_normal<f16>(k, -9, -8.1, 1000).to_vector()) CHECK(static_cast<double>(x) <= -8.1);
}

TEST_CASE("truncated_normal in a tail has the same bits eagerly, compiled and by the interpreter") {
  const key k = make_key(5);
  const auto draw = [](const key& k) {
    std::array<tensor<double, 1>, 2> out;
    for (const interval of : {interval{0.1, 0.2}, interval{2, inf}, interval{5, 9}, interval{8, 100}, interval{20, inf},
                              interval{-inf, -8}, interval{-21, -20}}) {
      const tensor<double, 1> wide = truncated_normal<double>(k, of.low, of.high, 2003),
                              narrow = cast<double>(truncated_normal<float>(k, of.low, of.high, 2003));
      out[0] = out[0].defined() ? concat(out[0], wide) : wide;
      out[1] = out[1].defined() ? concat(out[1], narrow) : narrow;
    }
    return out;
  };
  const auto eager = draw(k);
  for (const char* backend : {"cpu", "reference"}) {
    CAPTURE(backend);
    const auto got = compile(draw, options{.backend = backend})(k);
    CHECK(got[0].to_vector() == eager[0].to_vector());
    CHECK(got[1].to_vector() == eager[1].to_vector());
  }
  // Intervals around 0 keep the numbers of the inverse of erf.
  const double root = std::sqrt(2.0), from = std::erf(-1 / root), to = std::erf(3 / root);
  const auto u = mul(cast<double>(shr(philox(k.state, arange<std::uint64_t>(100)), 11)), 0x1p-53);
  const std::vector<double> want = tensor<double, 1>(erfinv(u * (to - from) + from) * root).to_vector(),
                            got = truncated_normal<double>(k, -1, 3, 100).to_vector();
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-14));
}
