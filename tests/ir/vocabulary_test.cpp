#include <sinter/ir/vocabulary.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace v = sinter::vocabulary;
using sinter::ir::op;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan_ = std::nan("");

template <class T>
constexpr T low = std::numeric_limits<T>::min();
template <class T>
constexpr T high = std::numeric_limits<T>::max();

/// The mathematical result wrapped to T.
template <class T>
T wrap(__int128 x) {
  return static_cast<T>(static_cast<std::uint64_t>(x));
}

template <class T>
void every_pair() {
  for (int i = -130; i < 260; ++i)
    for (int j = -130; j < 260; ++j) {
      const T a = static_cast<T>(i), b = static_cast<T>(j);
      const __int128 x = a, y = b;
      REQUIRE(v::apply_row<op::add, T>(a, b) == wrap<T>(x + y));
      REQUIRE(v::apply_row<op::sub, T>(a, b) == wrap<T>(x - y));
      REQUIRE(v::apply_row<op::mul, T>(a, b) ==
              wrap<T>(__int128(static_cast<unsigned __int128>(x) * static_cast<unsigned __int128>(y))));
      REQUIRE(v::divide(a, b) == wrap<T>(y == 0 ? 0 : x / y));
      REQUIRE(v::remainder(a, b) == wrap<T>(y == 0 ? 0 : x % y));
      REQUIRE(v::negate(a) == wrap<T>(-x));
      REQUIRE(v::abs(a) == wrap<T>(x < 0 ? -x : x));
      REQUIRE(v::sign(a) == wrap<T>((x > 0) - (x < 0)));
      REQUIRE(v::maximum(a, b) == wrap<T>(x > y ? x : y));
      REQUIRE(v::minimum(a, b) == wrap<T>(x < y ? x : y));
      const int width = 8 * int(sizeof(T));
      const bool far = y < 0 || y >= width;
      REQUIRE(v::shift_left(a, b) == (far ? T(0) : wrap<T>(__int128(static_cast<unsigned __int128>(x) << int(y)))));
      const __int128 divisor = __int128(1) << (far ? 100 : int(y)), quotient = x / divisor - (x % divisor < 0);
      REQUIRE(v::shift_right(a, b) == wrap<T>(quotient));
    }
}

}  // namespace

TEST_CASE("integers wrap and are total: every pair of small values") {
  every_pair<std::int8_t>();
  every_pair<std::uint8_t>();
  every_pair<std::int16_t>();
  every_pair<std::uint16_t>();
  every_pair<std::int32_t>();
  every_pair<std::uint32_t>();
  every_pair<std::int64_t>();
  every_pair<std::uint64_t>();
}

TEST_CASE_TEMPLATE("the extremes of a type", T, std::int8_t, std::int16_t, std::int32_t, std::int64_t) {
  const T one = 1, none = 0, minus = -1;
  CHECK(v::apply_row<op::add, T>(high<T>, one) == low<T>);
  CHECK(v::apply_row<op::sub, T>(low<T>, one) == high<T>);
  CHECK(v::apply_row<op::mul, T>(low<T>, minus) == low<T>);
  CHECK(v::divide(low<T>, minus) == low<T>);
  CHECK(v::divide(low<T>, none) == 0);
  CHECK(v::remainder(low<T>, minus) == 0);
  CHECK(v::remainder(high<T>, none) == 0);
  CHECK(v::negate(low<T>) == low<T>);
  CHECK(v::abs(low<T>) == low<T>);
  CHECK(v::shift_right(low<T>, high<T>) == -1);
  CHECK(v::shift_right(low<T>, minus) == -1);
  CHECK(v::shift_left(minus, minus) == 0);
}

TEST_CASE("integer powers") {
  CHECK(v::power(3, 4) == 81);
  CHECK(v::power(-2, 3) == -8);
  CHECK(v::power(7, 0) == 1);
  CHECK(v::power(0, 0) == 1);
  CHECK(v::power(1, -5) == 1);
  CHECK(v::power(-1, -5) == -1);
  CHECK(v::power(-1, -4) == 1);
  CHECK(v::power(2, -1) == 0);
  CHECK(v::power(0, -1) == 0);
  CHECK(v::power<std::int8_t>(2, 7) == -128);
  CHECK(v::power<std::uint8_t>(3, 200) == 161);
  CHECK(v::power<std::uint64_t>(3, 41) == 18026252303461234787ull);
  CHECK(v::power<std::int64_t>(3, 41) == static_cast<std::int64_t>(18026252303461234787ull));
}

TEST_CASE_TEMPLATE("floats: NaN, infinities, ties", T, float, double) {
  const T nan = T(nan_), big = T(inf);
  CHECK(std::isnan(v::maximum(nan, T(1))));
  CHECK(std::isnan(v::maximum(T(1), nan)));
  CHECK(std::isnan(v::minimum(nan, T(1))));
  CHECK(std::isnan(v::minimum(T(1), nan)));
  CHECK(v::maximum(-big, big) == big);
  CHECK(std::isnan(v::sign(nan)));
  CHECK(v::sign(T(-0.5)) == -1);
  CHECK(v::sign(-big) == -1);
  CHECK(v::sign(T(0)) == 0);
  CHECK(v::round(T(0.5)) == 0);
  CHECK(v::round(T(1.5)) == 2);
  CHECK(v::round(T(2.5)) == 2);
  CHECK(v::round(T(-3.5)) == -4);
  CHECK(std::signbit(v::round(T(-0.2))));
  CHECK(v::remainder(T(-5.5), T(2)) == T(-1.5));
  CHECK(std::isnan(v::remainder(T(1), T(0))));
  CHECK(v::divide(T(1), T(0)) == big);
  CHECK(v::rsqrt(T(4)) == T(0.5));
  CHECK(v::sigmoid(T(0)) == T(0.5));
  CHECK(v::sigmoid(T(-1000)) == 0);
  CHECK(v::sigmoid(T(1000)) == 1);
  CHECK(v::isnan(nan));
  CHECK_FALSE(v::isnan(big));
  CHECK(v::isinf(-big));
  CHECK_FALSE(v::isinf(nan));
  CHECK(v::isfinite(T(1)));
  CHECK_FALSE(v::isfinite(big));
  CHECK_FALSE(v::isfinite(nan));
  CHECK(std::signbit(v::negate(T(0))));
  CHECK(v::abs(T(-0.0)) == 0);
  CHECK_FALSE(std::signbit(v::abs(T(-0.0))));
}

TEST_CASE("conversions truncate, saturate and wrap") {
  CHECK(v::convert<std::int8_t>(1e9) == 127);
  CHECK(v::convert<std::int8_t>(-1e9) == -128);
  CHECK(v::convert<std::int8_t>(-128.9) == -128);
  CHECK(v::convert<std::int8_t>(-1.9) == -1);
  CHECK(v::convert<std::uint8_t>(-1.9) == 0);
  CHECK(v::convert<std::uint8_t>(255.9) == 255);
  CHECK(v::convert<std::uint8_t>(256.0f) == 255);
  CHECK(v::convert<std::int32_t>(nan_) == 0);
  CHECK(v::convert<std::uint64_t>(inf) == UINT64_MAX);
  CHECK(v::convert<std::int64_t>(-inf) == INT64_MIN);
  CHECK(v::convert<std::int64_t>(9.3e18f) == INT64_MAX);
  CHECK(v::convert<std::int64_t>(0x1p62) == std::int64_t{1} << 62);
  CHECK(v::convert<std::uint64_t>(0x1p63) == std::uint64_t{1} << 63);
  CHECK(v::convert<std::int8_t>(300) == 44);
  CHECK(v::convert<std::uint32_t>(std::int64_t{-1}) == UINT32_MAX);
  CHECK(v::convert<bool>(0.5));
  CHECK(v::convert<bool>(nan_));
  CHECK_FALSE(v::convert<bool>(-0.0));
  CHECK(v::convert<float>(true) == 1);
  CHECK(v::convert<float>(std::int64_t{16777217}) == 16777216);
  CHECK(v::convert<sinter::f16>(65520.0).bits == 0x7c00);
  CHECK(v::convert<int>(sinter::f16(2.5f)) == 2);
  CHECK(static_cast<float>(v::convert<sinter::bf16>(sinter::f16(1.5f))) == 1.5f);
}

TEST_CASE("bits of bool are logical") {
  CHECK(v::apply_row<op::bit_and, bool>(true, false) == false);
  CHECK(v::apply_row<op::bit_or, bool>(true, false) == true);
  CHECK(v::apply_row<op::bit_xor, bool>(true, true) == false);
  CHECK(v::apply_row<op::bit_not, bool>(true) == false);
  CHECK(v::apply_row<op::bit_not, std::uint8_t>(std::uint8_t{1}) == 254);
}

TEST_CASE("gauss is Box and Muller's, also at the ends of its ranges") {
  using wide = long double;
  const auto check = [](std::uint64_t a, std::uint64_t b) {
    const wide u = (static_cast<wide>(a >> 11) + 1) * 0x1p-53L, w = static_cast<wide>(b >> 11) * 0x1p-53L;
    const wide radius = std::sqrt(-2 * std::log(u)), want = radius * std::cos(2 * std::numbers::pi_v<wide> * w);
    const wide got = static_cast<wide>(static_cast<std::int64_t>(v::gauss(a, b))) * 0x1p-56L;
    // The radius, the cosine and their product are each off by a rounding or two.
    CHECK(std::fabs(got - want) < 5 * 0x1p-53L * (1 + radius));
  };
  constexpr std::uint64_t most = ~std::uint64_t{0};
  std::vector<std::uint64_t> words{0, 1, most, most / 2, most / 4, most / 4 * 3, most / 8};
  for (int k = 11; k < 64; ++k) words.push_back(std::uint64_t{1} << k);
  for (std::uint64_t k = 0; k < 200; ++k) words.push_back(v::philox(5, k));
  for (auto a : words)
    for (auto b : words) check(a, b);
}

TEST_CASE("philox matches the published vectors") {
  // Random123's kat_vectors, philox 4x32 10 rounds, words 0 and 1.
  CHECK(v::philox(0, 0) == 0xe169c58d6627e8d5ull);
  static_assert(v::philox(0, 0) == 0xe169c58d6627e8d5ull);
  CHECK(v::philox(1, 0) != v::philox(0, 1));
}

TEST_CASE("rows give bool or the operands' type") {
  CHECK(v::apply_row<op::select, int>(true, 3, 4) == 3);
  CHECK(v::apply_row<op::lt, bool>(1.0f, 2.0f));
  CHECK(v::apply_row<op::cast, std::uint8_t>(300.7f) == 255);
  CHECK(v::apply_row<op::atan2, double>(1.0, -1.0) == doctest::Approx(2.356194490192345));
}
