// tests/front/tensor/expr_test.cpp: pointwise functions and operators against plain loops, broadcasting, dtypes, places.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <sinter/sinter.hpp>
#include <string>

#include "../ops_support.hpp"

using namespace sinter;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Values that find mistakes at edges, then a run of ordinary ones; an odd count, so that tails are met.
template <class T>
tensor<T, 1> probes(double low, double high) {
  std::vector<double> v{0, -0.0, 1,     -1,   infinite, -infinite, not_a_number, 0.5, -0.5, 2,
                        3, 1e-3, -1e-3, 88.5, -88.5,    100,       -100,         1e4, -1e4};
  for (int i = 0; i < 60; ++i) v.push_back(low + (high - low) * (i + 0.37) / 60);
  tensor<T, 1> x = zeros<T>(v.size());
  for (std::size_t i = 0; i < v.size(); ++i) x(i) = static_cast<T>(v[i]);
  return x;
}

/// How many units of T's last place a result may be off.
template <class T>
void check_near(double got, double want, double at) {
  const double epsilon = std::is_same_v<T, double>  ? 1e-14
                         : std::is_same_v<T, float> ? 6e-7
                         : std::is_same_v<T, f16>   ? 1e-3
                                                    : 8e-3;
  const double least = std::is_same_v<T, double> ? 1e-300 : std::is_same_v<T, f16> ? 6e-8 : 1e-37;
  const auto rounded = static_cast<double>(
      static_cast<T>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(want)));
  INFO("at ", at);
  if (std::isnan(want)) CHECK(std::isnan(got));
  else if (std::isinf(rounded) || std::isinf(got)) CHECK(got == rounded);
  else CHECK(std::fabs(got - want) <= epsilon * std::fabs(want) + least);
}

/// f on tensors of T against g in f64: by the eager loop (vectors), through a strided view (scalars), and as a graph.
template <class T>
void check_function(const std::function<tensor<T, 1>(const tensor<T, 1>&)>& f, double (*g)(double), double low,
                    double high) {
  const auto x = probes<T>(low, high);
  const auto n = x.numel();
  const tensor<T, 1> y = f(x);
  const auto spaced = zeros<T>(2 * n);
  for (std::int64_t i = 0; i < n; ++i) spaced(2 * i) = x(i);
  const auto view = detail::access::make<T, dims(1)>(detail::access::memory(spaced), spaced.data(), {n}, {2});
  const tensor<T, 1> z = f(view);
  const auto traced = ops::traced(f, x);
  for (std::int64_t i = 0; i < n; ++i) {
    const double want = g(static_cast<double>(x(i)));
    check_near<T>(static_cast<double>(y(i)), want, static_cast<double>(x(i)));
    check_near<T>(static_cast<double>(z(i)), want, static_cast<double>(x(i)));
    check_near<T>(traced.at[static_cast<std::size_t>(i)], want, static_cast<double>(x(i)));
  }
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double softplus_of(double x) { return std::isnan(x) ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

void check_activation(const std::function<tensor<double, 1>(const tensor<double, 1>&)>& f,
                      const std::function<tensor<float, 1>(const tensor<float, 1>&)>& single, double (*g)(double)) {
  const auto x = linspace<double>(-6, 6, 61);
  const auto want = ops::make({61}, [&](const ops::coord& at) { return g(x(at[0])); });
  ops::check_both(want, 1e-13, f, x);
  ops::check_both(want, 1e-6, single, tensor<float, 1>(cast<float>(x)));
}

const double tanh_scale = std::sqrt(2 / std::acos(-1.0));

}  // namespace

#define CHECK_FUNCTION(NAME, LOW, HIGH, WANT)               \
  {                                                         \
    INFO(#NAME);                                            \
    const auto f = [](const auto& v) { return NAME(v); };   \
    const auto g = [](double x) -> double { return WANT; }; \
    check_function<float>(f, g, LOW, HIGH);                 \
    check_function<double>(f, g, LOW, HIGH);                \
  }

TEST_CASE("exponentials and logarithms") {
  CHECK_FUNCTION(exp, -80, 80, std::exp(x));
  CHECK_FUNCTION(exp2, -80, 80, std::exp2(x));
  CHECK_FUNCTION(expm1, -3, 3, std::expm1(x));
  CHECK_FUNCTION(log, 0, 10, std::log(x));
  CHECK_FUNCTION(log2, 0, 10, std::log2(x));
  CHECK_FUNCTION(log1p, -1, 10, std::log1p(x));
  CHECK_FUNCTION(sqrt, 0, 10, std::sqrt(x));
  CHECK_FUNCTION(rsqrt, 0, 10, 1 / std::sqrt(x));
  CHECK_FUNCTION(cbrt, -10, 10, std::cbrt(x));
}

TEST_CASE("trigonometric and hyperbolic functions") {
  CHECK_FUNCTION(sin, -7, 7, std::sin(x));
  CHECK_FUNCTION(cos, -7, 7, std::cos(x));
  CHECK_FUNCTION(tan, -1.4, 1.4, std::tan(x));
  CHECK_FUNCTION(asin, -1, 1, std::asin(x));
  CHECK_FUNCTION(acos, -1, 1, std::acos(x));
  CHECK_FUNCTION(atan, -9, 9, std::atan(x));
  CHECK_FUNCTION(sinh, -9, 9, std::sinh(x));
  CHECK_FUNCTION(cosh, -9, 9, std::cosh(x));
  CHECK_FUNCTION(tanh, -4, 4, std::tanh(x));
}

TEST_CASE("error functions and sigmoid") {
  CHECK_FUNCTION(erf, -3, 3, std::erf(x));
  CHECK_FUNCTION(erfc, -3, 5, std::erfc(x));
  CHECK_FUNCTION(sigmoid, -20, 20, sigmoid_of(x));
}

TEST_CASE("rounding and signs") {
  CHECK_FUNCTION(floor, -3, 3, std::floor(x));
  CHECK_FUNCTION(ceil, -3, 3, std::ceil(x));
  CHECK_FUNCTION(round, -3, 3, std::nearbyint(x));
  CHECK_FUNCTION(trunc, -3, 3, std::trunc(x));
  CHECK_FUNCTION(abs, -3, 3, std::fabs(x));
  CHECK_FUNCTION(neg, -3, 3, -x);
  CHECK_FUNCTION(sign, -3, 3, std::isnan(x) ? x : (x > 0) - (x < 0));
  const tensor<double, 1> halves = round(tensor<double, 1>{0.5, 1.5, 2.5, -0.5, -1.5});
  CHECK(halves.to_vector() == std::vector<double>{0, 2, 2, 0, -2});
}

#undef CHECK_FUNCTION
// Composed functions add a few roundings of cancelling terms: compared where they are well conditioned.
#define CHECK_ACTIVATION(NAME, WANT)                                                       \
  {                                                                                        \
    INFO(#NAME);                                                                           \
    check_activation([](const tensor<double, 1>& v) -> tensor<double, 1> { return NAME; }, \
                     [](const tensor<float, 1>& v) -> tensor<float, 1> { return NAME; },   \
                     [](double x) -> double { return WANT; });                             \
  }

TEST_CASE("activations") {
  CHECK_ACTIVATION(relu(v), x > 0 ? x : 0);
  CHECK_ACTIVATION(gelu(v), x * 0.5 * std::erfc(-x / std::sqrt(2.0)));
  CHECK_ACTIVATION(gelu<approximate::none>(v), x * 0.5 * std::erfc(-x / std::sqrt(2.0)));
  CHECK_ACTIVATION(gelu_tanh(v), 0.5 * x * (1 + std::tanh(tanh_scale * (x + 0.044715 * x * x * x))));
  CHECK_ACTIVATION(gelu<approximate::tanh>(v), 0.5 * x * (1 + std::tanh(tanh_scale * (x + 0.044715 * x * x * x))));
  CHECK_ACTIVATION(silu(v), x * sigmoid_of(x));
  CHECK_ACTIVATION(softplus(v), softplus_of(x));
  CHECK_ACTIVATION(softsign(v), x / (1 + std::fabs(x)));
  CHECK_ACTIVATION(elu(v), x > 0 ? x : std::expm1(x));
  CHECK_ACTIVATION(elu(v, 0.5), x > 0 ? x : 0.5 * std::expm1(x));
  CHECK_ACTIVATION(leaky_relu(v), x > 0 ? x : 0.01 * x);
  CHECK_ACTIVATION(leaky_relu(v, 0.2), x > 0 ? x : 0.2 * x);
  CHECK_ACTIVATION(hardswish(v), x * std::min(std::max(x + 3, 0.0), 6.0) / 6);
  CHECK_ACTIVATION(mish(v), x * std::tanh(softplus_of(x)));
  CHECK_ACTIVATION(clamp(v, -1, 2.5), std::min(std::max(x, -1.0), 2.5));
}

TEST_CASE("softplus and elu do not overflow; NaN passes through maximum, minimum and relu") {
  const tensor<float, 1> x{1000, -1000, static_cast<float>(not_a_number), static_cast<float>(infinite), 1};
  const auto s = softplus(x).to_vector();
  CHECK(s[0] == 1000);
  CHECK(s[1] == 0);
  CHECK(std::isnan(s[2]));
  CHECK(s[3] == static_cast<float>(infinite));
  const auto e = elu(x).to_vector();
  CHECK(e[0] == 1000);
  CHECK(e[1] == -1);
  CHECK(std::isnan(relu(x).to_vector()[2]));
  CHECK(std::isnan(maximum(1.0f, x).to_vector()[2]));
  CHECK(std::isnan(minimum(x, -1).to_vector()[2]));
  CHECK(std::isnan(clamp(x, 0, 1).to_vector()[2]));
}

TEST_CASE("tests of values") {
  const tensor<float, 1> x{
      0, static_cast<float>(not_a_number), static_cast<float>(infinite), static_cast<float>(-infinite), 1, 3e38f};
  CHECK(isnan(x).to_vector() == std::vector<bool>{false, true, false, false, false, false});
  CHECK(isinf(x).to_vector() == std::vector<bool>{false, false, true, true, false, false});
  CHECK(isfinite(x).to_vector() == std::vector<bool>{true, false, false, false, true, true});
}

TEST_CASE("floating binary operations") {
  const auto a = probes<double>(-4, 4);
  const tensor<double, 1> b = zeros<double>(a.numel());
  for (std::int64_t i = 0; i < b.numel(); ++i) b(i) = a((i * 7 + 3) % a.numel());
  using function = std::function<tensor<double, 1>(const tensor<double, 1>&, const tensor<double, 1>&)>;
  using test = std::function<tensor<bool, 1>(const tensor<double, 1>&, const tensor<double, 1>&)>;
  const auto check = [&](const function& f, double (*g)(double, double)) {
    const auto want = ops::make({a.numel()}, [&](const ops::coord& c) { return g(a(c[0]), b(c[0])); });
    ops::check_both(want, 1e-14, f, a, b);
  };
  const auto check_test = [&](const test& f, bool (*g)(double, double)) {
    const auto want = ops::make({a.numel()}, [&](const ops::coord& c) { return g(a(c[0]), b(c[0])); });
    ops::check_both(want, 0, f, a, b);
  };
#define CHECK_BINARY(EXPRESSION) \
  check([](const auto& x, const auto& y) { return EXPRESSION; }, [](double x, double y) { return EXPRESSION; })
#define CHECK_TEST(EXPRESSION) \
  check_test([](const auto& x, const auto& y) { return EXPRESSION; }, [](double x, double y) { return EXPRESSION; })
  CHECK_BINARY(x + y);
  CHECK_BINARY(x - y);
  CHECK_BINARY(x * y);
  CHECK_BINARY(x / y);
  CHECK_BINARY(pow(x, y));
  CHECK_BINARY(fmod(x, y));
  CHECK_BINARY(atan2(x, y));
#undef CHECK_BINARY
  check([](const auto& x, const auto& y) { return x % y; }, [](double x, double y) { return std::fmod(x, y); });
  check([](const auto& x, const auto& y) { return maximum(x, y); },
        [](double x, double y) { return std::isnan(x) || std::isnan(y) ? not_a_number : std::max(x, y); });
  check([](const auto& x, const auto& y) { return minimum(x, y); },
        [](double x, double y) { return std::isnan(x) || std::isnan(y) ? not_a_number : std::min(x, y); });
  check([](const auto& x, const auto& y) { return where(x < y, x, y); },
        [](double x, double y) { return x < y ? x : y; });
  CHECK_TEST(x == y);
  CHECK_TEST(x != y);
  CHECK_TEST(x <= y || x > y);
  CHECK_TEST(!(x >= y) && y < 1);
#undef CHECK_TEST
}

TEST_CASE_TEMPLATE("integer semantics", T, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                   std::uint16_t, std::uint32_t, std::uint64_t) {
  using limits = std::numeric_limits<T>;
  std::vector<T> v{0,
                   1,
                   2,
                   3,
                   7,
                   limits::min(),
                   limits::max(),
                   static_cast<T>(limits::max() / 3),
                   static_cast<T>(-1),
                   static_cast<T>(-2)};
  std::vector<T> left, right;
  for (T a : v)
    for (T b : v) left.push_back(a), right.push_back(b);
  const auto a = from_span(left), b = from_span(right);
  const auto n = static_cast<std::size_t>(a.numel());
  // Exact in 128 bits, then wrapped.
  using wide = __int128;
  const auto check = [&](const auto& e, wide (*f)(wide, wide)) {
    const auto got = e.to_vector();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const T want = static_cast<T>(f(static_cast<wide>(left[i]), static_cast<wide>(right[i])));
      if (static_cast<T>(got[i]) != want && wrong++ == 0)
        FAIL_CHECK("of ", +left[i], " and ", +right[i], " is ", +static_cast<T>(got[i]), ", expected ", +want);
    }
    CHECK(wrong == 0);
  };
  constexpr int bits = static_cast<int>(sizeof(T) * 8);
  check(a + b, [](wide x, wide y) -> wide { return x + y; });
  check(a - b, [](wide x, wide y) -> wide { return x - y; });
  check(a * b, [](wide x, wide y) -> wide {
    return static_cast<wide>(static_cast<unsigned __int128>(x) * static_cast<unsigned __int128>(y));
  });
  check(a / b, [](wide x, wide y) -> wide { return y == 0 ? 0 : x / y; });
  check(a % b, [](wide x, wide y) -> wide { return y == 0 ? 0 : x % y; });
  check(a & b, [](wide x, wide y) -> wide { return x & y; });
  check(a | b, [](wide x, wide y) -> wide { return x | y; });
  check(a ^ b, [](wide x, wide y) -> wide { return x ^ y; });
  check(~a, [](wide x, wide) -> wide { return ~x; });
  check(-a, [](wide x, wide) -> wide { return -x; });
  check(abs(a), [](wide x, wide) -> wide { return x < 0 ? -x : x; });
  check(sign(a), [](wide x, wide) -> wide { return (x > 0) - (x < 0); });
  check(maximum(a, b), [](wide x, wide y) -> wide { return x > y ? x : y; });
  check(minimum(a, b), [](wide x, wide y) -> wide { return x < y ? x : y; });
  check(a << b, [](wide x, wide y) -> wide {
    const auto by = static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(y));
    return by >= bits ? 0 : static_cast<wide>(static_cast<unsigned __int128>(x) << by);
  });
  check(a >> b, [](wide x, wide y) -> wide {
    const auto by = static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(y));
    return by >= bits ? (x < 0 ? -1 : 0) : x >> by;
  });
  check(a == b, [](wide x, wide y) -> wide { return x == y; });
  check(a != b, [](wide x, wide y) -> wide { return x != y; });
  check(a < b, [](wide x, wide y) -> wide { return x < y; });
  check(a <= b, [](wide x, wide y) -> wide { return x <= y; });
  check(a > b, [](wide x, wide y) -> wide { return x > y; });
  check(a >= b, [](wide x, wide y) -> wide { return x >= y; });
  check(where(a < b, a, b), [](wide x, wide y) -> wide { return x < y ? x : y; });
  check(pow(a, b), [](wide x, wide y) -> wide {
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    std::uint64_t r = 1, s = static_cast<std::uint64_t>(x);
    for (auto k = static_cast<std::uint64_t>(y); k; k >>= 1, s *= s)
      if (k & 1) r *= s;
    return static_cast<wide>(r);
  });
}

TEST_CASE("bool operations are logical") {
  const tensor<bool, 1> a{false, false, true, true}, b{false, true, false, true};
  CHECK((a & b).to_vector() == std::vector<bool>{false, false, false, true});
  CHECK((a || b).to_vector() == std::vector<bool>{false, true, true, true});
  CHECK((a ^ b).to_vector() == std::vector<bool>{false, true, true, false});
  CHECK((!a && true).to_vector() == std::vector<bool>{true, true, false, false});
  CHECK((~a).to_vector() == std::vector<bool>{true, true, false, false});
  CHECK((a == b).to_vector() == std::vector<bool>{true, false, false, true});
  CHECK((a < b).to_vector() == std::vector<bool>{false, true, false, false});
  CHECK(where(a, b, !b).to_vector() == std::vector<bool>{true, false, false, true});
  // Beside vectors of another type, masks take part in the vector loop.
  const auto x = arange<float>(37);
  const tensor<bool, 1> flags = x % 3 == 0;
  const auto y = evaluate(where((flags ^ (x > 20)) == !flags, x, -x));
  for (int i = 0; i < 37; ++i) {
    const bool f = i % 3 == 0;
    CHECK(y(i) == ((f != (i > 20)) == !f ? i : -i));
  }
}

TEST_CASE_TEMPLATE("casts", T, bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                   std::uint32_t, std::uint64_t, f16, bf16, float, double) {
  const tensor<double, 1> x{0,    1,     -1,   2.5,   -2.5, 100,      300,       -300,        70000,
                            1e10, -1e10, 1e20, -1e20, 1e39, infinite, -infinite, not_a_number};
  const auto got = evaluate(cast<T>(x));
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double v = x(i);
    INFO("of ", v);
    if constexpr (std::is_same_v<T, bool>) {
      CHECK(got(i) == (v != 0));
    } else if constexpr (std::is_integral_v<T>) {
      using limits = std::numeric_limits<T>;
      const T want = std::isnan(v)                             ? T(0)
                     : v <= static_cast<double>(limits::min()) ? limits::min()
                     : v >= static_cast<double>(limits::max()) ? limits::max()
                                                               : static_cast<T>(v);
      CHECK(got(i) == want);
    } else {
      const auto want = static_cast<double>(std::is_same_v<T, double> ? T(v) : T(static_cast<float>(v)));
      CHECK((std::isnan(want) ? std::isnan(static_cast<double>(got(i))) : static_cast<double>(got(i)) == want));
    }
  }
  // There and back, from every integer type's range that T holds.
  const auto small = evaluate(cast<T>(tensor<std::int16_t, 1>{0, 1, 1, 0}));
  CHECK(cast<int>(small).to_vector() == std::vector<int>{0, 1, 1, 0});
  CHECK(cast<std::int8_t>(tensor<int, 1>{300, -129}).to_vector() == std::vector<std::int8_t>{44, 127});
}

TEST_CASE_TEMPLATE("halves compute in float and round when stored or cast", T, f16, bf16) {
  const tensor<T, 1> x{T(1.0f), T(0.1f), T(-3.5f), T(100.0f), T(0.0f)};
  const auto y = evaluate(x * 3 + 0.5 - exp(x / 100));
  const auto rounded = evaluate(cast<T>(x * 3) - x);
  for (std::int64_t i = 0; i < 5; ++i) {
    const float v = x(i);
    CHECK(static_cast<float>(y(i)) == static_cast<float>(T(v * 3 + 0.5f - std::exp(v / 100))));
    CHECK(static_cast<float>(rounded(i)) == static_cast<float>(T(static_cast<float>(T(v * 3)) - v)));
  }
}

TEST_CASE("broadcasting follows NumPy, statically and at run time") {
  const auto a = ops::sample<float, 3>({4, 1, 5}), row = ops::sample<float, 3>({1, 3, 1}, 2);
  const auto v = ops::sample<float, 1>({5}, 3);
  const auto want =
      ops::make({4, 3, 5}, [&](const ops::coord& c) { return a(c[0], 0, c[2]) * row(0, c[1], 0) + v(c[2]) * 2 - 1; });
  ops::check_both(
      want, 1e-6, [](const auto& x, const auto& y, const auto& z) { return x * y + z * 2 - 1; }, a, row, v);

  using left = tensor<float, dims{dyn, 1, 5}>;
  using right = tensor<float, dims{3, 1}>;
  static_assert(decltype(std::declval<left>() + std::declval<right>())::static_shape == dims{dyn, 3, 5});
  static_assert(decltype(std::declval<tensor<float, 1>>() + std::declval<tensor<float, dims{4}>>())::static_shape ==
                dims{4});
  static_assert(decltype(std::declval<tensor<float, 1>>() + std::declval<tensor<float, dims{1}>>())::static_shape ==
                dims{dyn});
  static_assert(detail::broadcast(dims{3}, dims{4}).rank == -1);
  static_assert(detail::broadcast(dims{0}, dims{1}) == dims{0});
  static_assert(detail::broadcast(dims{0}, dims{3}).rank == -1);

  CHECK((zeros<float>(0, 3) + ones<float>(1, 3)).shape() == index_array<2>{0, 3});
  CHECK((zeros<float>(1, 1) + ones<float>(0)).shape() == index_array<2>{1, 0});
}

TEST_CASE("a mismatch names the op, both shapes and the line of the op") {
  const auto a = zeros<float>(3, 4);
  const auto b = zeros<float>(5, 6);
  const auto lazy = exp(a * b);
  const int line = __LINE__ - 1;
  const std::string text = ops::error_of([&] { (void)lazy.eval(); });
  CHECK(ops::contains(text, "[mul] shapes do not broadcast: (3, 4) and (5, 6)"));
  CHECK(ops::contains(text, "expr_test.cpp:" + std::to_string(line)));
  CHECK(ops::error_of([&] { (void)lazy.shape(); }) == text);
  CHECK(ops::contains(ops::error_of([&] { (void)where(a > 0, b, 1).eval(); }), "[where] shapes"));
  CHECK(ops::contains(ops::error_of([&] { (void)select(a > 0, b, 1).eval(); }), "[select] shapes"));
  CHECK(ops::contains(ops::error_of([&] { (void)clamp(a, 0, b).eval(); }), "[clamp] shapes"));
  CHECK(ops::contains(ops::error_of([&] { (void)(a == b).eval(); }), "[eq]"));
  const engine::tracing_scope scope(std::make_shared<engine::tracer>());
  CHECK(ops::error_of([&] { (void)lazy.eval(); }) == text);
}

TEST_CASE("scalars take the tensor's dtype; those that do not fit it are refused") {
  const tensor<float, 1> x{1, 2};
  static_assert(std::is_same_v<decltype(x * 2)::value_type, float>);
  static_assert(std::is_same_v<decltype(2.5 - x)::value_type, float>);
  static_assert(std::is_same_v<decltype(tensor<std::int8_t, 1>() + 1)::value_type, std::int8_t>);
  CHECK((1 - x).to_vector() == std::vector<float>{0, -1});
  CHECK((7 / x).to_vector() == std::vector<float>{7, 3.5f});
  CHECK((2 == x).to_vector() == std::vector<bool>{false, true});
  CHECK((x == 2).to_vector() == std::vector<bool>{false, true});
  CHECK((2 != x).to_vector() == std::vector<bool>{true, false});
  CHECK((1.5 < x).to_vector() == std::vector<bool>{false, true});
  CHECK(pow(2, x).to_vector() == std::vector<float>{2, 4});
  CHECK(where(x > 1, 10, 20.5f).to_vector() == std::vector<float>{20.5f, 10});
  const tensor<std::int8_t, 1> small{1};
  CHECK(ops::contains(ops::error_of([&] { (void)(small + 300).eval(); }), "[add] the number 300 does not fit i8"));
  const tensor<std::uint8_t, 1> natural{1};
  CHECK(ops::contains(ops::error_of([&] { (void)(natural - -1).eval(); }), "[sub] the number -1 does not fit u8"));
}

TEST_CASE("an expression owns its operands") {
  const auto make = [] {
    const tensor<float, 1> local{1, 2, 3};
    return exp(local * 0) + local;
  };
  const auto e = make();
  CHECK(e.to_vector() == std::vector<float>{2, 3, 4});
  CHECK(e.size(0) == 3);
  CHECK(e.numel() == 3);
  CHECK((e * e).to_vector() == std::vector<float>{4, 9, 16});
  CHECK(ops::contains(ops::error_of([&] { (void)e.item(); }), "[item]"));
}
