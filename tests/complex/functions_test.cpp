// Elementary complex functions at all magnitudes against numbers of 384 to 1400 bits, special values of C99's Annex G, quotients and
// derivatives.
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <boost/multiprecision/cpp_bin_float.hpp>

#include <doctest/doctest.h>

#include <sinter/complex.hpp>

#include "numbers.hpp"

using namespace sinter;

namespace {

using wide = std::complex<long double>;
constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

template <class T>
using row_of = tensor<std::complex<T>, 1>;
template <class T>
using list_of = std::vector<std::complex<T>>;
template <class T>
row_of<T> row(const list_of<T>& all) {
  return row_of<T>::from(all, {dim(all.size())});
}

enum which { exp_of, log_of, sqrt_of, sin_of, cos_of, sinh_of, cosh_of, tanh_of, tan_of, reciprocal_of, functions };
const char* const names[] = {"exp", "log", "sqrt", "sin", "cos", "sinh", "cosh", "tanh", "tan", "reciprocal"};

template <class Z>
Z apply(which f, const Z& z) {
  switch (f) {
    case exp_of:
      return exp(z);
    case log_of:
      return log(z);
    case sqrt_of:
      return sqrt(z);
    case sin_of:
      return sin(z);
    case cos_of:
      return cos(z);
    case sinh_of:
      return sinh(z);
    case cosh_of:
      return cosh(z);
    case tanh_of:
      return tanh(z);
    case tan_of:
      return tan(z);
    default:
      return reciprocal(z);
  }
}
namespace mp = boost::multiprecision;
template <unsigned Bits>
using bits = mp::number<mp::cpp_bin_float<Bits, mp::digit_base_2, void, std::int32_t, -40000, 40000>, mp::et_off>;

template <class Real>
struct parts {
  Real x, y;
};
template <class Real>
Real with_sign(const Real& x, const Real& sign) {
  return sign < 0 || (sign == 0 && signbit(sign)) ? Real(-abs(x)) : Real(abs(x));
}
/// A part that is 0 stays 0, whatever it is multiplied by.
template <class Real>
Real product(const Real& a, const Real& b) {
  return a == 0 || b == 0 ? Real(0) : Real(a * b);
}

template <class Real>
parts<Real> square_root(const Real& x, const Real& y) {
  const Real t = sqrt((sqrt(x * x + y * y) + abs(x)) / 2);
  if (t == 0) return {t, y};
  if (x < 0) return {abs(y) / (2 * t), with_sign(t, y)};
  return {t, y / (2 * t)};
}
template <class Real>
parts<Real> hyperbolic_tangent(const Real& x, const Real& y) {
  // Beyond, the denominator is e^2|x| / 2 to all bits.
  if (abs(x) > 1000) return {with_sign(Real(1), x), 4 * sin(y) * cos(y) * exp(-2 * abs(x))};
  const Real below = cosh(2 * x) + cos(2 * y);
  return {sinh(2 * x) / below, sin(2 * y) / below};
}

template <class Real>
parts<Real> exact_parts(which f, const Real& x, const Real& y) {
  switch (f) {
    case exp_of:
      return {exp(x) * cos(y), product<Real>(exp(x), sin(y))};
    case log_of:
      return {log(x * x + y * y) / 2, with_sign<Real>(atan2(abs(y), x), y)};
    case sqrt_of:
      return square_root(x, y);
    case sin_of:
      return {product<Real>(sin(x), cosh(y)), product<Real>(cos(x), sinh(y))};
    case cos_of:
      return {cos(x) * cosh(y), product<Real>(-sin(x), sinh(y))};
    case sinh_of:
      return {product<Real>(sinh(x), cos(y)), product<Real>(cosh(x), sin(y))};
    case cosh_of:
      return {cosh(x) * cos(y), product<Real>(sinh(x), sin(y))};
    case tanh_of:
      return hyperbolic_tangent(x, y);
    case tan_of: {
      // tan z = -i tanh(iz)
      const auto t = hyperbolic_tangent<Real>(-y, x);
      return {t.y, -t.x};
    }
    default:
      return {x / (x * x + y * y), -y / (x * x + y * y)};
  }
}

/// Right to 200 bits and more: sums near poles cancel some bits, and sines of large arguments as many as the arguments have.
wide exact(which f, wide z) {
  const auto rounded = [&]<class Real>(Real) -> wide {
    const auto p = exact_parts<Real>(f, Real(z.real()), Real(z.imag()));
    return {static_cast<long double>(p.x), static_cast<long double>(p.y)};
  };
  const bool large = std::max(std::abs(z.real()), std::abs(z.imag())) > 0x1p64L;
  return large ? rounded(bits<1400>()) : rounded(bits<384>());
}

/// What f gives eagerly, and compiled by each backend.
template <class F, class Check, class... Z>
void on_all(F f, Check check, const Z&... z) {
  check(f(z...));
  for (const char* backend : backends) {
    CAPTURE(backend);
    check(compile(f, options{.backend = backend})(z...));
  }
}

/// Points of all magnitudes; near 0, 1, the axes and the unit circle; where exponentials overflow, and near the bounds.
template <class T>
list_of<T> points(std::size_t n) {
  std::mt19937_64 random(5);
  const auto uniform = [&](double a, double b) {
    return a + (b - a) * (static_cast<double>(random() >> 11) * 0x1p-53);
  };
  const auto sign = [&] { return random() % 2 == 0 ? 1.0 : -1.0; };
  constexpr bool narrow = sizeof(T) == 4;
  const double most = static_cast<double>(std::numeric_limits<T>::max());
  const auto any = [&] { return sign() * std::exp2(narrow ? uniform(-149, 127.9) : uniform(-1074, 1023.9)); };
  const double exponent = narrow ? 192 : 1460;
  list_of<T> out;
  const auto put = [&](double x, double y) { out.push_back({static_cast<T>(x), static_cast<T>(y)}); };
  while (out.size() < n) {
    const double angle = uniform(-3.2, 3.2), near = std::exp2(uniform(narrow ? -24 : -53, 0)) * sign();
    put(any(), any());
    put(std::cos(angle), std::sin(angle));
    put(1 + near, near * uniform(-1, 1));
    put(sign(), any());
    put(any(), 0 * sign());
    put(0 * sign(), any());
    put(most * uniform(-1, 1), most * uniform(-1, 1));
    put(uniform(-exponent, exponent), angle);
    put(angle, uniform(-exponent, exponent));
    put(exponent * uniform(0.4, 1), std::exp2(uniform(narrow ? -149 : -1074, 0)));
    put(uniform(-3, 3), uniform(-3, 3));
  }
  return out;
}

/// How far numbers are off, in units of the last place of the larger part.
template <class T>
double worst(const list_of<T>& got, const std::vector<wide>& want, std::size_t& where) {
  double most = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::complex<T> rounded(static_cast<T>(want[i].real()), static_cast<T>(want[i].imag()));
    const long double size = std::max(std::abs(want[i].real()), std::abs(want[i].imag()));
    const long double unit =
        std::max<long double>(size * std::numeric_limits<T>::epsilon(), std::numeric_limits<T>::denorm_min());
    const auto off = [&](T a, T b, long double exact) -> double {
      if (a == b || (a != a && b != b)) return 0;
      if (std::isfinite(a) && std::isfinite(b)) return static_cast<double>(std::abs(a - exact) / unit);
      // One may overflow where the other is at the bound.
      const long double bound = std::numeric_limits<T>::max(), least = std::isfinite(a) ? std::abs(a) : std::abs(exact);
      return a == a && std::signbit(a) == std::signbit(b) && least > bound * (1 - 8 * std::numeric_limits<T>::epsilon())
                 ? 0
                 : 1e9;
    };
    const double far = std::max(off(got[i].real(), rounded.real(), want[i].real()),
                                off(got[i].imag(), rounded.imag(), want[i].imag()));
    if (far > most) most = far, where = i;
  }
  return most;
}

template <class T>
using all_of = std::array<row_of<T>, functions>;
template <class T>
all_of<T> apply_all(const row_of<T>& z) {
  all_of<T> out;
  for (std::size_t f = 0; f < functions; ++f) out[f] = apply(static_cast<which>(f), z);
  return out;
}

template <class T>
void check_accuracy() {
  const list_of<T> z = points<T>(660);
  std::array<std::vector<wide>, functions> want;
  for (std::size_t f = 0; f < functions; ++f)
    for (const auto& x : z) want[f].push_back(exact(static_cast<which>(f), wide(x)));
  on_all(
      apply_all<T>,
      [&](const all_of<T>& all) {
        for (std::size_t f = 0; f < functions; ++f) {
          const list_of<T> got = all[f].to_vector();
          std::size_t at = 0;
          const double off = worst(got, want[f], at);
          CAPTURE(names[f]);
          CAPTURE(z[at]);
          CAPTURE(got[at]);
          CHECK(off < 5);
        }
      },
      row(z));
}

template <class T>
void check_quotients() {
  list_of<T> a, b;
  const list_of<T> all = points<T>(440);
  const auto put = [&](std::complex<T> x, std::complex<T> y) {
    if (y != std::complex<T>()) a.push_back(x), b.push_back(y);
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    put(all[i], all[(i * 37 + 11) % all.size()]);
    put(all[i], all[i]);
  }
  std::vector<wide> want, of_real;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const long double c = b[i].real(), d = b[i].imag(), below = c * c + d * d;
    want.push_back({(a[i].real() * c + a[i].imag() * d) / below, (a[i].imag() * c - a[i].real() * d) / below});
    of_real.push_back({a[i].real() * c / below, -(a[i].real() * d / below)});
  }
  const auto check = [&](const std::vector<wide>& right) {
    return [&a, &b, &right](const row_of<T>& z) {
      const list_of<T> got = z.to_vector();
      std::size_t at = 0;
      const double off = worst(got, right, at);
      CAPTURE(a[at]);
      CAPTURE(b[at]);
      CAPTURE(got[at]);
      CHECK(off < 5);
    };
  };
  on_all([](const row_of<T>& a, const row_of<T>& b) { return row_of<T>(a / b); }, check(want), row(a), row(b));
  on_all([](const row_of<T>& a, const row_of<T>& b) { return row_of<T>(real(a) / b); }, check(of_real), row(a), row(b));
}

/// A value of Annex G: of a zero or an infinity with `any` the sign is not told.
struct special {
  which f;
  double x, y, re, im;
  bool any_re = false, any_im = false;
};
const double pi = 3.14159265358979323846, c1 = std::cos(1.0), s1 = std::sin(1.0);
const std::vector<special> annex_g{
    {log_of, -0.0, 0, -inf, pi},
    {log_of, 0, 0, -inf, 0},
    {log_of, 1, inf, inf, pi / 2},
    {log_of, 1, nan, nan, nan},
    {log_of, -inf, 1, inf, pi},
    {log_of, inf, 1, inf, 0},
    {log_of, -inf, inf, inf, 3 * pi / 4},
    {log_of, inf, inf, inf, pi / 4},
    {log_of, inf, nan, inf, nan},
    {log_of, -inf, nan, inf, nan},
    {log_of, nan, 1, nan, nan},
    {log_of, nan, inf, inf, nan},
    {log_of, nan, nan, nan, nan},
    {exp_of, 0, 0, 1, 0},
    {exp_of, -0.0, 0, 1, 0},
    {exp_of, 1, inf, nan, nan},
    {exp_of, 1, nan, nan, nan},
    {exp_of, inf, 0, inf, 0},
    {exp_of, -inf, 1, 0, 0},
    {exp_of, -inf, 2, -0.0, 0},
    {exp_of, inf, 1, inf, inf},
    {exp_of, inf, 2, -inf, inf},
    {exp_of, -inf, inf, 0, 0, true, true},
    {exp_of, inf, inf, inf, nan, true},
    {exp_of, -inf, nan, 0, 0, true, true},
    {exp_of, inf, nan, inf, nan, true},
    {exp_of, nan, 0, nan, 0},
    {exp_of, nan, 1, nan, nan},
    {exp_of, nan, nan, nan, nan},
    {sqrt_of, 0, 0, 0, 0},
    {sqrt_of, -0.0, 0, 0, 0},
    {sqrt_of, 1, inf, inf, inf},
    {sqrt_of, nan, inf, inf, inf},
    {sqrt_of, -inf, inf, inf, inf},
    {sqrt_of, 1, nan, nan, nan},
    {sqrt_of, -inf, 1, 0, inf},
    {sqrt_of, inf, 1, inf, 0},
    {sqrt_of, -inf, nan, nan, inf, false, true},
    {sqrt_of, inf, nan, inf, nan},
    {sqrt_of, nan, 1, nan, nan},
    {sqrt_of, nan, nan, nan, nan},
    {sqrt_of, -1, 0, 0, 1},
    {sinh_of, 0, 0, 0, 0},
    {sinh_of, 0, inf, 0, nan, true},
    {sinh_of, 0, nan, 0, nan, true},
    {sinh_of, 1, inf, nan, nan},
    {sinh_of, 1, nan, nan, nan},
    {sinh_of, inf, 0, inf, 0},
    {sinh_of, inf, 2, -inf, inf},
    {sinh_of, inf, inf, inf, nan, true},
    {sinh_of, inf, nan, inf, nan, true},
    {sinh_of, nan, 0, nan, 0},
    {sinh_of, nan, 1, nan, nan},
    {sinh_of, nan, nan, nan, nan},
    {cosh_of, 0, 0, 1, 0},
    {cosh_of, 0, inf, nan, 0, false, true},
    {cosh_of, 0, nan, nan, 0, false, true},
    {cosh_of, 1, inf, nan, nan},
    {cosh_of, 1, nan, nan, nan},
    {cosh_of, inf, 0, inf, 0},
    {cosh_of, inf, 2, -inf, inf},
    {cosh_of, inf, inf, inf, nan, true},
    {cosh_of, inf, nan, inf, nan},
    {cosh_of, nan, 0, nan, 0, false, true},
    {cosh_of, nan, 1, nan, nan},
    {cosh_of, nan, nan, nan, nan},
    {tanh_of, 0, 0, 0, 0},
    {tanh_of, 1, inf, nan, nan},
    {tanh_of, 1, nan, nan, nan},
    {tanh_of, inf, 1, 1, 0},
    {tanh_of, inf, 2, 1, -0.0},
    {tanh_of, inf, inf, 1, 0, false, true},
    {tanh_of, inf, nan, 1, 0, false, true},
    {tanh_of, nan, 0, nan, 0},
    {tanh_of, nan, 1, nan, nan},
    {tanh_of, nan, nan, nan, nan},
};

template <class T>
bool same(T got, double want, bool any_sign) {
  if (want != want) return got != got;
  if (std::isinf(want) || want == 0)
    return std::abs(got) == std::abs(static_cast<T>(want)) && (any_sign || std::signbit(got) == std::signbit(want));
  return std::abs(got - static_cast<T>(want)) <= 4 * std::numeric_limits<T>::epsilon();
}

/// Each, its conjugate, its reflection where the function is even or odd, and the circular function of it turned.
std::vector<special> all_special() {
  std::vector<special> out;
  const auto conjugated = [&](const special& s) {
    out.push_back(s);
    out.push_back({s.f, s.x, -s.y, s.re, -s.im, s.any_re, s.any_im});
  };
  for (const special& s : annex_g) {
    conjugated(s);
    if (s.f < sinh_of) continue;
    const double flip = s.f == cosh_of ? 1 : -1;
    conjugated({s.f, -s.x, -s.y, flip * s.re, flip * s.im, s.any_re, s.any_im});
  }
  for (const special& s : std::vector<special>(out)) {
    // sin z = -i sinh iz, tan z = -i tanh iz, cos z = cosh iz, of iz = x + iy.
    if (s.f == sinh_of) out.push_back({sin_of, s.y, -s.x, s.im, -s.re, s.any_im, s.any_re});
    if (s.f == tanh_of) out.push_back({tan_of, s.y, -s.x, s.im, -s.re, s.any_im, s.any_re});
    if (s.f == cosh_of) out.push_back({cos_of, s.y, -s.x, s.re, s.im, s.any_re, s.any_im});
  }
  return out;
}

template <class T>
void check_special() {
  const std::vector<special> all = all_special();
  list_of<T> z;
  for (const special& s : all) z.push_back({static_cast<T>(s.x), static_cast<T>(s.y)});
  on_all(
      apply_all<T>,
      [&](const all_of<T>& of) {
        for (std::size_t f = 0; f < reciprocal_of; ++f) {
          const list_of<T> got = of[f].to_vector();
          for (std::size_t i = 0; i < all.size(); ++i) {
            const special& s = all[i];
            const bool good = s.f != static_cast<which>(f) ||
                              (same(got[i].real(), s.re, s.any_re) && same(got[i].imag(), s.im, s.any_im));
            CHECK_MESSAGE(good, names[f], " at ", s.x, " ", s.y, ": ", got[i].real(), " ", got[i].imag());
          }
        }
      },
      row(z));
}

/// The gradients of the real and of the imaginary part of f at z: for holomorphic f the conjugate of f'(z), and i times that.
template <class F>
void check_slopes(const char* name, F f, const numbers& z, const numbers& slopes) {
  CAPTURE(name);
  using vec = row_of<double>;
  const auto both = [f](const vec& z) {
    const vec re = grad([&](const vec& z) { return tensor<double, 0>(sum(real(f(z)))); })(z);
    const vec im = grad([&](const vec& z) { return tensor<double, 0>(sum(imag(f(z)))); })(z);
    return std::array<vec, 3>{re, im, jvp(f)(z, zeros_like(z) + complex128(0, 1)).second};
  };
  on_all(
      both,
      [&](const std::array<vec, 3>& all) {
        const numbers re = all[0].to_vector(), im = all[1].to_vector(), along = all[2].to_vector();
        for (std::size_t i = 0; i < z.size(); ++i) {
          CAPTURE(z[i]);
          const double size = std::abs(slopes[i]);
          const auto near = [size](complex128 got, complex128 want) {
            return std::abs(got / size - want / size) < 1e-12;
          };
          CHECK(near(re[i], std::conj(slopes[i])));
          CHECK(near(im[i], complex128(slopes[i].imag(), slopes[i].real())));
          CHECK(near(along[i], complex128(0, 1) * slopes[i]));
        }
      },
      row(z));
}

}  // namespace

TEST_CASE("complex functions are right at all magnitudes, f32") { check_accuracy<float>(); }
TEST_CASE("complex functions are right at all magnitudes, f64") { check_accuracy<double>(); }

TEST_CASE("quotients of finite complex numbers neither over- nor underflow on their way") {
  check_quotients<float>();
  check_quotients<double>();
  const complex64 large(2e38f, 2e38f), tiny(1e-39f, 0), one(1, 0);
  const row_of<float> z = row<float>({large, tiny, {1e-45f, -1e-45f}});
  CHECK((z / z).to_vector() == list_of<float>{one, one, one});
  CHECK(compile([](const row_of<float>& z) { return z / z; })(z).to_vector() == list_of<float>{one, one, one});
  CHECK((row<float>({large}) / large).to_vector()[0] == one);
  CHECK((large / row<float>({large})).to_vector()[0] == one);
  CHECK((row<float>({tiny}) / tiny).to_vector()[0] == one);
  CHECK((1e-39f / row<float>({tiny})).to_vector()[0] == one);
  CHECK(reciprocal(row<float>({{1e38f, 1e38f}})).to_vector()[0] == complex64(5e-39f, -5e-39f));
}

TEST_CASE("special values of complex functions are those of C99's Annex G") {
  check_special<float>();
  check_special<double>();
}

TEST_CASE("derivatives of complex functions on the axes, on cuts and at the bounds") {
  using vec = row_of<double>;
  const numbers z{{-1, 0.0}, {-1, -0.0}, {0, 2},    {0, -2},         {4, 0},           {-4, 1e-3},
                  {3, -4},   {0.6, 0.8}, {1, 1e-9}, {1e200, -1e200}, {-1e-200, 1e-210}};
  const auto of = [](const numbers& z, const auto& f) {
    numbers out;
    for (const complex128 x : z) out.push_back(f(x));
    return out;
  };
  const numbers roots = of(z, [](complex128 x) { return 0.5 / std::sqrt(x); }),
                inverses = of(z, [](complex128 x) { return complex128(wide(1) / wide(x)); });
  check_slopes(
      "sqrt", [](const vec& z) { return vec(sqrt(z)); }, z, roots);
  check_slopes(
      "log", [](const vec& z) { return vec(log(z)); }, z, inverses);
  check_slopes(
      "quotient by", [=](const vec& y) { return vec(y / (row(z) * 1.0)); }, z, inverses);
  check_slopes(
      "quotient of", [=](const vec& y) { return vec(row(z) / y); }, z, of(inverses, [](complex128 x) { return -x; }));
  const numbers near(z.begin(), z.begin() + 9);
  check_slopes(
      "pow", [](const vec& z) { return vec(pow(z, 0.5)); }, near, numbers(roots.begin(), roots.begin() + 9));
  check_slopes(
      "tanh", [](const vec& z) { return vec(tanh(z)); }, near,
      of(near, [](complex128 x) { return 1.0 / (std::cosh(x) * std::cosh(x)); }));
  check_slopes("0 by", [](const vec& y) { return vec(y / complex128(1e20, 1e20)); }, {0.0}, {{5e-21, -5e-21}});
  const auto at_zero = grad([](const vec& z) { return tensor<double, 0>(sum(real(sqrt(z)) + imag(sqrt(z)))); });
  CHECK(at_zero(vec::from({0.0}, {1})).to_vector()[0] == complex128(0, 0));
  const auto far = grad([](const vec& z) { return tensor<double, 0>(sum(real(tanh(z)))); });
  CHECK(far(vec::from({{800, 1}}, {1})).to_vector()[0] == complex128(0, 0));
}
