// Special functions against tables of 60 digits (mpmath 1.3), at poles and infinities; those that are a line of others against what they are.
#include <bit>
#include <limits>

#include "walk.hpp"

using namespace sinter;
using ops::array;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan_value = std::numeric_limits<double>::quiet_NaN();

using doubles = std::vector<double>;
using vec = tensor<double, 1>;

array line(doubles x) { return {{static_cast<std::int64_t>(x.size())}, std::move(x)}; }

/// Arguments and the values there. `units`: what those may be off by, in 2^-53 of the value.
struct table {
  const char* name;
  vec (*f)(const vec&);
  double units;
  doubles at, want;
};

// clang-format off
const std::vector<table>& tables() {
  static const std::vector<table> all{
      {"erfinv", [](const vec& x) { return vec(erfinv(x)); }, 4,
       {1e-300, -1e-12, 0.1, -0.3, 0.5, 0.7, -0.9, 0.99, 0.9999, -0.9999999, 0.999999999999, 0.9999999999999999},
       {8.8622692545275804e-301, -8.86226925452758e-13, 0.088855990494257692, -0.27246271472675435, 0.47693627620446987, 0.73286907795921678, -1.1630871536766742, 1.8213863677184495, 2.7510639057120797, -3.7665625816384709, 5.0420318985726961, 5.8635847487551679}},
      {"lgamma", [](const vec& x) { return vec(lgamma(x)); }, 16,
       {1e-300, 1e-10, 0.25, 0.999, 0.999999999, 1.000000001, 1.3, 1.9999999, 2.000000001, 3.5, 17.25, 100000.0, 1e+200, -0.25, -1.5, -2.4, -2.5, -10.75},
       {690.77552789821371, 23.025850929882735, 1.2880225246980775, 0.00057803853289138024, 5.7721564939922597e-10, -5.7721571183810395e-10, -0.10817480950786048, -4.2278430309861298e-8, 4.2278437040226696e-10, 1.2009736023470742, 31.374622313677686, 1051287.7089736569, 4.5951701859880912e+202, 1.589575312551186, 0.86004701537648101, 0.10258361596827728, -0.056243716497674051, -15.403074503504817}},
      {"digamma", [](const vec& x) { return vec(digamma(x)); }, 16,
       {1e-300, -1e-300, 1e-10, 0.25, 0.999, 1.4616321, 1.4616322, 1.9, 2.0, 3.5, 9.9, 10.1, 100000.0, 1e+200, -0.25, -1.25, -10.75},
       {-9.9999999999999997e+299, 9.9999999999999997e+299, -10000000000.577215, -4.2274535333762654, -0.57886180210864543, -4.3514636958769774e-8, 5.3252586982060447e-8, 0.35618416116405966, 0.42278433509846714, 1.1031566406452432, 2.2411803166063814, 2.2622143570941481, 11.512920464961895, 460.51701859880914, 2.9141391202135278, 3.7141391202135278, -0.72089576016716117}},
      {"trigamma", [](const vec& x) { return vec(trigamma(x)); }, 16,
       {1e-100, 1e-10, 0.25, 1.0, 1.5, 3.5, 11.9, 12.1, 100000.0, 1e+200, -1e-100, -0.25, -1.5, -2.75, -10.75},
       {9.9999999999999996e+199, 9.9999999999999993e+19, 17.197329154507111, 1.6449340668482264, 0.93480220054467931, 0.33035775610023486, 0.087663201190004184, 0.086153646470986286, 1.0000050000166667e-5, 1.0e-200, 9.9999999999999996e+199, 18.541879647671606, 9.3792466449891238, 19.433868949488464, 19.650378280099093}},
      {"polygamma of order 3", [](const vec& x) { return vec(polygamma(3, x)); }, 32,
       {1e-30, 0.25, 1.0, 1.5, 3.5, 11.9, 12.1, 100000.0, -0.25, -1.5, -10.75},
       {5.999999999999998e+120, 1538.7821440091884, 6.4939394022668291, 1.4090910340024372, 0.070305848817252051, 0.001344783923695912, 0.0012765848430413453, 2.0000300002e-15, 1555.7633125348506, 194.59427621918762, 1558.5440573914795}},
      {"polygamma of order 4", [](const vec& x) { return vec(polygamma(4, x)); }, 64,
       {1e-30, 0.25, 1.0, 1.5, 3.5, 11.9, 12.1, 100000.0, -0.25, -10.75},
       {-2.399999999999999e+151, -24584.375388637934, -24.886266123440878, -3.4742498266672252, -0.067995999506731363, -0.00035299139844541153, -0.00032934087210401014, -6.000120001e-20, 24473.199394184583, -24481.575154956733}},
      {"polygamma of order 40", [](const vec& x) { return vec(polygamma(40, x)); }, 128,
       {0.25, 1.0, 3.5, 30.0, 50.0, 100000.0, -0.25},
       {-3.9455242101462683e+72, -8.1591528324826877e+47, -4.0259632236359522e+25, -3.042973522079723e-13, -3.2610350873149669e-22, -2.0401961936384738e-154, 3.9455242101462683e+72}},
      {"polygamma of order 8", [](const vec& x) { return vec(polygamma(8, x)); }, 64,
       {0.25, 3.5, 11.9, 12.0, 12.1, 13.5, 20.5},
       {-10569651520.043915, -0.57638465186993247, -1.7270086343306469e-5, -1.6110901962769792e-5, -1.5038469298911415e-5, -6.0708648357349592e-6, -1.9541016061477283e-7}},
      {"polygamma of order 10", [](const vec& x) { return vec(polygamma(10, x)); }, 64,
       {11.5, 12.0, 12.5, 14.0}, {-1.3479713180436912e-5, -8.6692442388418224e-6, -5.67985351456712e-6, -1.7604966448735871e-6}},
      {"polygamma of order 12", [](const vec& x) { return vec(polygamma(12, x)); }, 64,
       {11.9, 12.1, 17.0, 25.0}, {-7.8892323924070504e-6, -6.4137124219481149e-6, -9.5738493952808421e-8, -8.4427144311360185e-10}},
      {"polygamma of order 30", [](const vec& x) { return vec(polygamma(30, x)); }, 64, {6.8e10}, {-9.3599049634139522e-295}},
      {"polygamma of order 100", [](const vec& x) { return vec(polygamma(100, x)); }, 256, {1e4, 50}, {-9.3793632015435127e-245, -2.7391048021902828e-14}},
      {"polygamma of order 170", [](const vec& x) { return vec(polygamma(170, x)); }, 256, {1000, 200}, {-4.6422754818855408e-206, -4.2355428001125094e-87}},
      {"asinh", [](const vec& x) { return vec(asinh(x)); }, 4,
       {1e-300, -1e-10, 0.5, -3.0, 10000000000.0, -1e+300},
       {1.0e-300, -1.0e-10, 0.48121182505960345, -1.8184464592320668, 23.718998110500402, -691.46867507877365}},
      {"acosh", [](const vec& x) { return vec(acosh(x)); }, 4,
       {1.0000000001, 1.5, 3.0, 10000000000.0, 1e+300},
       {1.4142136208675861e-5, 0.96242365011920689, 1.7627471740390861, 23.718998110500402, 691.46867507877365}},
      {"atanh", [](const vec& x) { return vec(atanh(x)); }, 4,
       {1e-300, -1e-10, 0.5, -0.75, 0.9999999999, 0.9999999999999999},
       {1.0e-300, -1.0e-10, 0.54930614433405485, -0.97295507452765665, 11.859499013855017, 18.714973875118523}},
      {"sinc", [](const vec& x) { return vec(sinc(x)); }, 8,
       {1e-300, 1e-09, 0.1, -0.159, 0.16, 0.5, -0.9, 1.5, 2.25},
       {1.0, 1.0, 0.98363164308346597, 0.95893015847221887, 0.95841848232462483, 0.63661977236758134, 0.10929240478705175, -0.21220659078919378, 0.10003514623967845}},
  };
  return all;
}

/// What is so exactly.
const std::vector<table>& edges() {
  static const std::vector<table> all{
      {"erfinv", [](const vec& x) { return vec(erfinv(x)); }, 0, {0, -0.0, 1, -1, 1.5, -inf, nan_value}, {0, -0.0, inf, -inf, nan_value, nan_value, nan_value}},
      {"lgamma", [](const vec& x) { return vec(lgamma(x)); }, 0, {0, -0.0, 1, 2, -1, -30, inf, -inf, nan_value}, {inf, inf, 0, 0, inf, inf, inf, inf, nan_value}},
      {"digamma", [](const vec& x) { return vec(digamma(x)); }, 0, {0, -0.0, -1, -30, inf, -inf, nan_value}, {-inf, inf, nan_value, nan_value, inf, nan_value, nan_value}},
      {"trigamma", [](const vec& x) { return vec(trigamma(x)); }, 0, {0, -0.0, -1, -30, inf, -inf, nan_value}, {inf, inf, inf, inf, 0, nan_value, nan_value}},
      {"polygamma of order 2", [](const vec& x) { return vec(polygamma(2, x)); }, 0, {0, -0.0, -1, inf, nan_value}, {-inf, inf, nan_value, -0.0, nan_value}},
      {"polygamma by order", [](const vec& x) { return vec(polygamma(x, 1e300)); }, 0, {0.5, -1, nan_value, 171, 170}, {nan_value, nan_value, nan_value, nan_value, -0.0}},
      {"asinh", [](const vec& x) { return vec(asinh(x)); }, 0, {-0.0, inf, -inf, nan_value}, {-0.0, inf, -inf, nan_value}},
      {"acosh", [](const vec& x) { return vec(acosh(x)); }, 0, {1, 0.5, -3, inf, nan_value}, {0, nan_value, nan_value, inf, nan_value}},
      {"atanh", [](const vec& x) { return vec(atanh(x)); }, 0, {-0.0, 1, -1, 1.5, nan_value}, {-0.0, inf, -inf, nan_value, nan_value}},
      {"hypot", [](const vec& x) { return vec(hypot(x, vec{nan_value, nan_value, 4e-320, 4e307, 0, -0.0})); }, 0, {inf, -inf, 3e-320, -3e307, -0.0, 0}, {inf, inf, 5e-320, 5e307, 0, 0}},
      {"logaddexp", [](const vec& x) { return vec(logaddexp(x, vec{inf, -inf, -inf, 7, 1000, nan_value})); }, 0, {inf, -inf, inf, -inf, -1000, 0}, {inf, -inf, inf, 7, 1000, nan_value}},
      {"log_sigmoid", [](const vec& x) { return vec(log_sigmoid(x)); }, 0, {inf, -inf, -1e300, 1000, nan_value}, {-0.0, -inf, -1e300, -0.0, nan_value}},
      {"sinc", [](const vec& x) { return vec(sinc(x)); }, 0, {0, -0.0, inf, nan_value}, {1, 1, nan_value, nan_value}},
      {"selu", [](const vec& x) { return vec(selu(x)); }, 0, {0, inf, -inf, nan_value}, {0, inf, -1.7580993408473766, nan_value}},
      {"relu6", [](const vec& x) { return vec(relu6(x)); }, 0, {-1, 0, 6, 7, inf, nan_value}, {0, 0, 6, 6, 6, nan_value}},
      {"square", [](const vec& x) { return vec(square(x)); }, 0, {-3, inf, 1e200}, {9, inf, inf}},
      {"reciprocal", [](const vec& x) { return vec(reciprocal(x)); }, 0, {-4, -0.0, inf}, {-0.25, -inf, 0}},
      {"nan_to_num", [](const vec& x) { return vec(nan_to_num(x) / 4); }, 0, {1.5, nan_value, inf, -inf}, {0.375, 0, 0x1.fffffffffffffp1021, -0x1.fffffffffffffp1021}},
      {"nan_to_num as given", [](const vec& x) { return vec(nan_to_num(x, -1, 8, 9)); }, 0, {1.5, nan_value, inf, -inf}, {1.5, -1, 8, 9}},
  };
  return all;
}
// clang-format on

vec of(const doubles& x) { return from_span(x); }

}  // namespace

TEST_CASE("special functions are relative to their values") {
  ops::walk w;
  for (const auto& t : tables()) {
    const array ones{{static_cast<std::int64_t>(t.want.size())}, doubles(t.want.size(), 1)};
    w.row(
        t.name, ones, t.units * 0x1p-53 / 3, [&](const vec& x, const vec& want) { return vec(t.f(x) / want); },
        of(t.at), of(t.want));
  }
  w.run();
}

TEST_CASE("special functions at poles, at infinities and outside their domains") {
  ops::walk w;
  for (const auto& t : edges()) w.row(t.name, line(t.want), 0, t.f, of(t.at));
  w.run();
  CHECK(std::signbit(erfinv(vec{-0.0}).item()));
  CHECK(std::signbit(vec(hypot(vec{-0.0}, -0.0)).item()) == false);
}

TEST_CASE("special functions of f32 and f16 are those of f64, rounded") {
  const auto x = ops::between<float, 1>({40}, 0.05, 0.95);
  const vec wide = cast<double>(x);
  const auto check = [&](const auto& single, const vec& exact) {
    const auto a = single.to_vector();
    const auto b = exact.to_vector();
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(ops::close(double(a[i]) / b[i], 1, 0x1p-23));
  };
  check(tensor<float, 1>(erfinv(x)), erfinv(wide));
  check(tensor<float, 1>(lgamma(x)), lgamma(wide));
  check(tensor<float, 1>(digamma(x + 2)), digamma(wide + 2));
  check(tensor<float, 1>(trigamma(x)), trigamma(wide));
  check(tensor<float, 1>(hypot(x, 3e38f)), hypot(wide, 3e38));
  const auto h = tensor<f16, 1>(cast<f16>(x)).to_vector();
  const auto of_halves = tensor<f16, 1>(erfinv(tensor<f16, 1>(cast<f16>(x)))).to_vector();
  for (std::size_t i = 0; i < h.size(); ++i)
    CHECK(static_cast<float>(of_halves[i]) ==
          static_cast<float>(f16(static_cast<float>(erfinv(vec{double(static_cast<float>(h[i]))}).item()))));
}

namespace {

template <class T>
void check_bits(const std::vector<T>& x) {
  const auto got = tensor<T, 1>(popcount(from_span(x))).to_vector();
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK(got[i] == static_cast<T>(std::popcount(static_cast<std::make_unsigned_t<T>>(x[i]))));
}

}  // namespace

TEST_CASE("popcount of every width") {
  check_bits<std::int8_t>({0, 1, -1, 127, -128, 85});
  check_bits<std::uint16_t>({0, 1, 65535, 43690, 256});
  check_bits<std::int32_t>({0, -1, 1 << 30, std::numeric_limits<int>::min(), 0x12345678});
  check_bits<std::uint64_t>({0, ~0ull, 1ull << 63, 0x0123456789abcdefull});
  ops::walk w;
  const tensor<std::int16_t, 1> x{0, -1, 255, -32768, 4097};
  w.row(
      "popcount", line({0, 16, 8, 1, 2}), 0, [](const auto& t) { return popcount(t); }, x);
  w.run();
}

TEST_CASE("isclose and allclose are NumPy's") {
  ops::walk w;
  const vec x{1, 1, 1, inf, inf, -inf, nan_value, 0, 1e10},
      y{1 + 5e-6, 1 + 2e-5, 2, inf, 1, inf, nan_value, 1e-9, 1.00001e10};
  const auto want = line({1, 0, 0, 1, 0, 0, 0, 1, 1});
  w.row(
      "isclose", want, 0, [](const vec& a, const vec& b) { return isclose(a, b); }, x, y);
  w.row(
      "isclose, equal NaN", line({1, 0, 0, 1, 0, 0, 1, 1, 1}), 0,
      [](const vec& a, const vec& b) { return isclose(a, b, 1e-5, 1e-8, true); }, x, y);
  w.row(
      "isclose, tolerances", line({1, 1, 1, 1, 0, 0, 0, 1, 1}), 0,
      [](const vec& a, const vec& b) { return isclose(a, b, 0.5, 0.1); }, x, y);
  w.row(
      "isclose of infinity", line({0, 0, 0, 1, 1, 0, 0, 0, 0}), 0, [](const vec& a) { return isclose(a, inf); }, x);
  w.row(
      "allclose", array{{}, {0}}, 0, [](const vec& a, const vec& b) { return allclose(a, b); }, x, y);
  w.row(
      "allclose with itself", array{{}, {1}}, 0, [](const vec& a) { return allclose(a, a, 1e-5, 1e-8, true); }, x);
  w.run();
  CHECK(allclose(zeros<double>(0), zeros<double>(0)).item());
  CHECK_FALSE(isclose(1.0, vec{2}).item());
}

TEST_CASE("statistics without NaN") {
  ops::walk w;
  const tensor<double, 2> x{
      {1, nan_value, 4, 2}, {nan_value, nan_value, nan_value, nan_value}, {-3, inf, 5, nan_value}, {2, 2, 2, 2}};
  const auto row = [&](const char* name, doubles want, auto f) { w.row(name, line(std::move(want)), 1e-15, f, x); };
  row("nansum", {7, 0, inf, 8}, [](const auto& t) { return nansum(t, axis<1>); });
  row("nanprod", {8, 1, -inf, 16}, [](const auto& t) { return nanprod(t, axis<1>); });
  row("nanmax", {4, nan_value, inf, 2}, [](const auto& t) { return nanmax(t, axis<1>); });
  row("nanmin", {1, nan_value, -3, 2}, [](const auto& t) { return nanmin(t, axis<1>); });
  row("nanmean", {7.0 / 3, nan_value, inf, 2}, [](const auto& t) { return nanmean(t, axis<1>); });
  row("nanvar", {14.0 / 9, nan_value, nan_value, 0}, [](const auto& t) { return nanvar(t, axis<1>); });
  row("nanvar, ddof", {14.0 / 6, nan_value, nan_value, 0}, [](const auto& t) { return nanvar(t, axis<1>, 1); });
  row("nanvar, all of them less", {nan_value, nan_value, nan_value, 0},
      [](const auto& t) { return nanvar(t, axis<1>, 3); });
  row("nanstd", {std::sqrt(14.0 / 9), nan_value, nan_value, 0}, [](const auto& t) { return nanstd(t, axis<1>); });
  w.row(
      "nansum of all", array{{1, 1}, {inf}}, 0, [](const auto& t) { return nansum(t, keepdims); }, x);
  w.row(
      "nanvar far from 0", array{{}, {2.0 / 3}}, 1e-12, [](const auto& t) { return nanvar(t); },
      vec{1e8 + 1, nan_value, 1e8 + 2, 1e8 + 3});
  w.run();
  const tensor<f16, 1> half{f16(60000.f), f16(60000.f), f16(std::nanf(""))};
  CHECK(static_cast<float>(tensor<f16, 0>(nanmean(half)).item()) == 60000.f);
  CHECK(nansum(tensor<int, 1>{1, 2, 3}).item() == 6);
  CHECK(nanmax(tensor<int, 1>{1, 5, 3}).item() == 5);
  CHECK(nansum(zeros<double>(0)).item() == 0);
  CHECK(std::isnan(nanmean(zeros<double>(0)).item()));
  CHECK(ops::contains(ops::error_of([] { (void)nanmax(zeros<double>(0)); }), "[nanmax] of nothing"));
  CHECK(ops::contains(ops::error_of([] { (void)nanmin(zeros<double>(0)); }), "[nanmin] of nothing"));
}

TEST_CASE("rotary turns by exact angles, at far places, too") {
  ops::walk w;
  const std::vector<std::int64_t> at{0, 1, 4095, 999999, 1000000, 16777217, 123456789};
  const auto n = static_cast<std::int64_t>(at.size());
  const auto positions = from_span(at);
  const auto x = ops::between<float, 2>({n, 10}, -1, 1, 3);
  const auto turned = [&](double base, bool neighbours) {
    return ops::make({n, 10}, [&](const ops::coord& c) {
      const std::int64_t i = neighbours ? c[1] / 2 : c[1] % 5;
      const bool second = neighbours ? c[1] % 2 == 1 : c[1] >= 5;
      const std::int64_t a = neighbours ? 2 * i : i, b = neighbours ? 2 * i + 1 : i + 5;
      const double rate = std::pow(base, -2.0 * static_cast<double>(i) / 10);
      const double angle = static_cast<double>(at[static_cast<std::size_t>(c[0])]) * rate;
      return second ? x(c[0], b) * std::cos(angle) + x(c[0], a) * std::sin(angle)
                    : x(c[0], a) * std::cos(angle) - x(c[0], b) * std::sin(angle);
    });
  };
  w.row(
      "halves", turned(10000, false), 3e-7, [](auto x, auto p) { return rotary(x, p); }, x, positions);
  w.row(
      "neighbours", turned(500000, true), 3e-7,
      [](auto x, auto p) { return rotary(x, p, {.base = 500000, .interleaved = true}); }, x, positions);
  w.row(
      "f16", turned(10000, false), 1e-3, [](auto x, auto p) { return cast<float>(rotary(cast<f16>(x), p)); }, x,
      positions);
  w.run();
}
