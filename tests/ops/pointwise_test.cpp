// Every pointwise function: eager, reference and compiled against libm in f64, on views, nothing and special values; derivatives.
#include <limits>

#include "walk.hpp"

using namespace sinter;
using ops::array;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), not_a_number = std::numeric_limits<double>::quiet_NaN();

double maximum_of(double a, double b) { return std::isnan(a) || std::isnan(b) ? not_a_number : std::max(a, b); }
double minimum_of(double a, double b) { return std::isnan(a) || std::isnan(b) ? not_a_number : std::min(a, b); }
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

/// Rows of one dtype. T = double also walks derivatives, where Smooth.
template <class T, bool Smooth>
struct rows {
  ops::walk w;
  double tolerance = std::is_same_v<T, double> ? 4e-15 : std::is_same_v<T, float> ? 2e-6 : 2e-2;

  template <class F, class... X>
  void add(const char* name, array want, F f, const X&... x) {
    for (auto& v : want.at) v = ops::rounded<T>(v);
    if constexpr (Smooth) w.smooth(name, want, tolerance, f, x...);
    else w.row(name, want, tolerance, f, x...);
  }
  template <class F, class G, class X>
  void one(const char* name, F f, G g, const X& x) {
    add(name, ops::map(ops::values(x), g), f, x);
  }
  /// x and y have one shape; g computes in T.
  template <class F, class G, class X, class Y>
  void two(const char* name, F f, G g, const X& x, const Y& y) {
    auto want = ops::values(x);
    const auto b = ops::values(y);
    for (std::size_t i = 0; i < want.at.size(); ++i)
      want.at[i] = g(static_cast<T>(want.at[i]), static_cast<T>(b.at[i]));
    add(name, want, f, x, y);
  }
};

#define ROW(NAME, X, WANT) \
  r.one(                   \
      #NAME, [](const auto& t) { return NAME(t); }, [](double x) { return static_cast<double>(WANT); }, X)

template <class R, class X>
void elementary(R& r, const X& any, const X& positive, const X& unit) {
  ROW(abs, any, std::abs(x));
  ROW(neg, any, -x);
  ROW(sign, any, std::isnan(x) ? x : (x > 0) - (x < 0));
  ROW(exp, any, std::exp(x));
  ROW(exp2, any, std::exp2(x));
  ROW(expm1, any, std::expm1(x));
  ROW(log, positive, std::log(x));
  ROW(log2, positive, std::log2(x));
  ROW(log1p, positive, std::log1p(x));
  ROW(sqrt, positive, std::sqrt(x));
  ROW(rsqrt, positive, 1 / std::sqrt(x));
  ROW(cbrt, any, std::cbrt(x));
  ROW(sin, any, std::sin(x));
  ROW(cos, any, std::cos(x));
  ROW(tan, unit, std::tan(x));
  ROW(asin, unit, std::asin(x));
  ROW(acos, unit, std::acos(x));
  ROW(atan, any, std::atan(x));
  ROW(sinh, any, std::sinh(x));
  ROW(cosh, any, std::cosh(x));
  ROW(tanh, any, std::tanh(x));
  ROW(erf, any, std::erf(x));
  ROW(erfc, any, std::erfc(x));
  ROW(asinh, any, std::asinh(x));
  ROW(atanh, unit, std::atanh(x));
  ROW(floor, any, std::floor(x));
  ROW(ceil, any, std::ceil(x));
  ROW(round, any, std::nearbyint(x));
  ROW(trunc, any, std::trunc(x));
}

template <class R, class X>
void activations(R& r, const X& any) {
  ROW(relu, any, maximum_of(x, 0));
  ROW(gelu, any, x / 2 * (1 + std::erf(x / std::sqrt(2.0))));
  ROW(gelu<approximate::tanh>, any, x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))));
  ROW(sigmoid, any, sigmoid_of(x));
  ROW(silu, any, x * sigmoid_of(x));
  ROW(softplus, any, softplus_of(x));
  ROW(softsign, any, x / (1 + std::abs(x)));
  ROW(elu, any, x > 0 ? x : std::expm1(x));
  ROW(leaky_relu, any, x > 0 ? x : 0.01 * x);
  ROW(hardswish, any, x * (std::min(std::max(x + 3, 0.0), 6.0) / 6));
  ROW(mish, any, x * std::tanh(softplus_of(x)));
  ROW(log_sigmoid, any, -softplus_of(-x));
  ROW(selu, any, 1.0507009873554804934 * (x > 0 ? x : 1.6732632423543772848 * std::expm1(x)));
  ROW(relu6, any, minimum_of(maximum_of(x, 0), 6));
}
#undef ROW

#define ROW(NAME, EXPRESSION, X, Y, WANT)                            \
  r.two(                                                             \
      NAME, [](const auto& a, const auto& b) { return EXPRESSION; }, \
      [](auto x, auto y) { return static_cast<double>(WANT); }, X, Y)

template <class R, class X>
void binary(R& r, const X& x1, const X& x2, const X& positive) {
  ROW("+", a + b, x1, x2, x + y);
  ROW("-", a - b, x1, x2, x - y);
  ROW("*", a * b, x1, x2, x * y);
  ROW("/", a / b, x1, x2, x / y);
  ROW("fmod", fmod(a, b), x1, x2, std::fmod(x, y));
  ROW("pow", pow(a, b), positive, x2, std::pow(x, y));
  ROW("atan2", atan2(a, b), x1, x2, std::atan2(x, y));
  ROW("hypot", hypot(a, b), x1, x2, std::hypot(x, y));
  ROW("maximum", maximum(a, b), x1, x2, maximum_of(x, y));
  ROW("minimum", minimum(a, b), x1, x2, minimum_of(x, y));
  ROW("clamp", clamp(a, -0.5f, abs(b)), x1, x2, minimum_of(maximum_of(x, -0.5), std::abs(y)));
  ROW("where", where(a < b, a, b * b), x1, x2, x < y ? x : y * y);
  ROW("a chain with scalars", 2 * a - b / 4 + 1, x1, x2, 2 * x - y / 4 + 1);
}

template <class R, class X>
void tests(R& r, const X& x1, const X& x2) {
  ROW("==", a == b, x1, x2, x == y);
  ROW("!=", a != b, x1, x2, x != y);
  ROW("<", a < b, x1, x2, x < y);
  ROW("<=", a <= b, x1, x2, x <= y);
  ROW(">", a > b, x1, x2, x > y);
  ROW(">=", a >= b, x1, x2, x >= y);
  ROW("isnan", isnan(a * b), x1, x2, std::isnan(x * y));
  ROW("isinf", isinf(a / b), x1, x2, std::isinf(x / y));
  ROW("isfinite", isfinite(a / b) && !(a == b), x1, x2, std::isfinite(x / y) && x != y);
}
#undef ROW

template <class T>
auto sample(double low, double high, int seed) {
  return ops::between<T, 2>({3, 7}, low, high, seed);
}

}  // namespace

TEST_CASE("elementary functions and their derivatives") {
  SUBCASE("contiguous") {
    rows<double, true> r;
    elementary(r, sample<double>(-2, 2, 1), sample<double>(0.2, 2, 2), sample<double>(-0.9, 0.9, 3));
    r.w.run();
  }
  SUBCASE("transposed, reversed and stepped") {
    rows<double, true> r;
    const auto view = [](double low, double high, int seed) {
      return transpose(slice<1>(flip<0>(ops::between<double, 2>({5, 9}, low, high, seed)), 8, to_end, -3));
    };
    elementary(r, view(-2, 2, 1), view(0.2, 2, 2), view(-0.9, 0.9, 3));
    r.w.run();
  }
}

TEST_CASE("activations and their derivatives") {
  rows<double, true> r;
  activations(r, sample<double>(-3, 3, 4));
  r.w.run();
}

TEST_CASE("binary functions and their derivatives") {
  SUBCASE("contiguous") {
    rows<double, true> r;
    binary(r, sample<double>(-2, 2, 1), sample<double>(-2, 2, 2), sample<double>(0.2, 2, 3));
    r.w.run();
  }
  SUBCASE("broadcast views") {
    rows<double, true> r;
    const auto column = ops::between<double, 2>({5, 1}, -2, 2, 5), line = ops::between<double, 2>({1, 4}, -2, 2, 6);
    binary(r, broadcast_to(column, 5, 4), broadcast_to(line, 5, 4), broadcast_to(abs(column) + 0.1, 5, 4));
    r.w.run();
  }
}

TEST_CASE("f32 and f16") {
  rows<float, false> r;
  elementary(r, sample<float>(-2, 2, 1), sample<float>(0.2, 2, 2), sample<float>(-0.9, 0.9, 3));
  activations(r, sample<float>(-3, 3, 4));
  binary(r, sample<float>(-2, 2, 1), sample<float>(-2, 2, 2), sample<float>(0.2, 2, 3));
  r.w.run();
  rows<f16, false> h;
  activations(h, sample<f16>(-3, 3, 4));
  h.w.run();
}

TEST_CASE("nothing and one element") {
  rows<double, false> r;
  const auto none = ops::between<double, 2>({0, 3}, 1, 2), one = ops::between<double, 2>({1, 1}, 0.2, 0.8);
  elementary(r, none, none, none);
  binary(r, none, none, none);
  elementary(r, one, one, one);
  binary(r, one, one, one);
  r.w.run();
}

namespace {
/// Each special value, and every pair of them.
template <class T>
void special() {
  const double low = std::numeric_limits<T>::denorm_min(), high = std::numeric_limits<T>::max();
  const double values[] = {0.0, -0.0, 1,   -1,   0.5,  -2.5,  3,   4,    -10,
                           100, -100, low, -low, high, -high, inf, -inf, not_a_number};
  constexpr std::int64_t n = std::size(values);
  const auto x = detail::empty<T, dims(2)>("special", {n, n}, {}), y = detail::empty<T, dims(2)>("special", {n, n}, {});
  for (std::int64_t i = 0; i < n * n; ++i) {
    x.data()[i] = static_cast<T>(values[i / n]);
    y.data()[i] = static_cast<T>(values[i % n]);
  }
  rows<T, false> r;
  elementary(r, x, x, x);
  activations(r, x);
  binary(r, x, y, x);
  tests(r, x, y);
  r.w.run();
}
}  // namespace

TEST_CASE("special values of f64") { special<double>(); }
TEST_CASE("special values of f32") { special<float>(); }
