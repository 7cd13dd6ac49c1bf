// Derivatives of linear algebra: forwards and backwards, once and twice, against differences; where values are equal.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "matrices.hpp"

using namespace matrices;

namespace {

const options plain{.backend = "reference"};
using function = std::function<vec(const stacks&)>;

doubles differences(const function& f, const stacks& x, const stacks& v) {
  constexpr double step = 1e-6;
  return vec((f(x + step * v) - f(x - step * v)) / (2 * step)).to_vector();
}

double weighed(const doubles& a, const vec& by) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * by(static_cast<std::int64_t>(i));
  return sum;
}

/// f's derivatives at x: forward and reverse against differences, then the tangents of both, and the gradient of a tangent.
void check_derivatives(const std::string& name, const function& f, const stacks& x) {
  CAPTURE(name);
  const stacks v = random_stack(71, x.size(0), x.size(1), x.size(2)),
               u = random_stack(72, x.size(0), x.size(1), x.size(2));
  const vec ct = normal<double>(make_key(73), f(x).numel());
  const auto pushed = [&](const stacks& x) { return jvp(f)(x, v).second; };
  const auto pulled = [&](const stacks& x) { return vec(flatten(vjp(f)(x).second(ct))); };
  const auto of_pushed = [&](const stacks& x) {
    return vec(flatten(grad([&](const stacks& x) { return sum(pushed(x) * ct); })(x)));
  };
  const function push = compile(pushed, plain), pull = compile(pulled, plain);
  const doubles want = differences(f, x, v);
  check_close(push(x).to_vector(), want, 1e-6);
  CHECK(weighed(pull(x).to_vector(), flatten(v)) == doctest::Approx(weighed(want, ct)).epsilon(1e-6));
  check_close(compile([&](const stacks& x) { return jvp(pushed)(x, u).second; }, plain)(x).to_vector(),
              differences(push, x, u), 1e-5);
  check_close(compile([&](const stacks& x) { return jvp(pulled)(x, u).second; }, plain)(x).to_vector(),
              differences(pull, x, u), 1e-5);
  CHECK(weighed(compile(of_pushed, plain)(x).to_vector(), flatten(u)) ==
        doctest::Approx(weighed(differences(push, x, u), ct)).epsilon(1e-5));
}

/// Matrices that are far from singular, with values well apart.
stacks tame(std::int64_t n) {
  return 0.3 * random_stack(61, 2, n, n) + eye<double>(n) * (1.0 + 1.5 * arange<double>(n));
}

}  // namespace

TEST_CASE("derivatives of factors") {
  const stacks a = tame(5);
  const stacks tall = random_stack(62, 2, 4, 3), wide = random_stack(63, 2, 3, 4);
  const auto q_and_r = [](const stacks& a) {
    const auto [q, r] = linalg::qr(a);
    return vec(concat(flat(q), flat(r)));
  };
  const auto l_and_u = [](const stacks& a) {
    const auto [p, l, u] = linalg::lu(a);
    return vec(concat(flat(l), flat(u)));
  };
  const auto all_of_svd = [](const stacks& a) {
    const auto [u, s, v] = linalg::svd(a);
    return vec(concat(flat(u), flat(s), flat(v)));
  };
  check_derivatives(
      "cholesky", [](const stacks& a) { return flat(linalg::cholesky(positive(a))); }, a);
  check_derivatives("qr", q_and_r, a);
  check_derivatives("qr, tall", q_and_r, tall);
  check_derivatives("qr, wide", q_and_r, wide);
  check_derivatives("lu", l_and_u, a);
  check_derivatives("lu, tall", l_and_u, tall);
  check_derivatives("lu, wide", l_and_u, wide);
  check_derivatives(
      "eigh",
      [](const stacks& a) {
        const auto [w, v] = linalg::eigh(a);
        return vec(concat(flat(w), flat(v)));
      },
      a);
  check_derivatives("svd", all_of_svd, a);
  check_derivatives("svd, tall", all_of_svd, tall);
  check_derivatives("svd, wide", all_of_svd, wide);
}

TEST_CASE("derivatives of what is made of factors") {
  const stacks a = tame(5), y = random_stack(64, 2, 5, 2), tall = random_stack(62, 2, 4, 3);
  check_derivatives(
      "triangular_solve",
      [](const stacks& a) {
        const auto right = slice<2>(a, 0, 2);
        return vec(concat(flat(linalg::triangular_solve(a, right)),
                          flat(linalg::triangular_solve(a, right, {.lower = false, .unit = true})),
                          flat(linalg::triangular_solve(a, right, {.transposed = true}))));
      },
      a);
  check_derivatives(
      "solve", [&](const stacks& a) { return flat(linalg::solve(a, y + slice<2>(a, 1, 3))); }, a);
  check_derivatives(
      "inv", [](const stacks& a) { return flat(linalg::inv(a)); }, a);
  check_derivatives(
      "det", [](const stacks& a) { return vec(linalg::det(a)); }, a);
  check_derivatives(
      "slogdet", [](const stacks& a) { return vec(linalg::slogdet(a).second); }, a);
  check_derivatives(
      "logdet", [](const stacks& a) { return vec(linalg::logdet(positive(a))); }, a);
  check_derivatives(
      "pinv", [](const stacks& a) { return flat(linalg::pinv(a)); }, tall);
  check_derivatives(
      "expm", [](const stacks& a) { return flat(linalg::expm(a)); }, a);
  check_derivatives(
      "matrix_power", [](const stacks& a) { return flat(linalg::matrix_power(a, -3)); }, a);
  check_derivatives(
      "norms",
      [](const stacks& a) {
        return vec(
            concat(linalg::matrix_norm(a), linalg::matrix_norm<linalg::nuc>(a), linalg::matrix_norm<linalg::two>(a)));
      },
      tall);
}

TEST_CASE("derivatives of small matrices, which kernels compute element by element") {
  const stacks a = tame(3), y = random_stack(64, 2, 3, 2);
  check_derivatives(
      "small",
      [&](const stacks& a) {
        return vec(concat(flat(linalg::cholesky(positive(a))), flat(linalg::triangular_solve(a, y)),
                          flat(linalg::solve(a, y)), linalg::det(a), linalg::slogdet(a).second,
                          linalg::logdet(positive(a))));
      },
      a);
}

TEST_CASE("derivatives compiled, and of equal values") {
  const stacks a = tame(3);
  const auto loss = [](const stacks& a) {
    return real(sum(linalg::slogdet(positive(a)).second) + sum(sin(linalg::cholesky(positive(a)))));
  };
  check_close(compile(grad(loss))(a).to_vector(), compile(grad(loss), plain)(a).to_vector(), 1e-9);
  // Values alone have a derivative where they are equal; vectors have none.
  const matrix one = eye<double>(3);
  const auto values = compile(grad([](const matrix& a) { return sum(linalg::eigh(a).first); }), plain);
  check_close(values(one).to_vector(), one.to_vector(), 1e-12);
  const auto nuclear = compile(grad([](const matrix& a) { return linalg::matrix_norm<linalg::nuc>(a); }), plain);
  check_close(nuclear(one).to_vector(), one.to_vector(), 1e-12);
  const auto vectors = compile(grad([](const matrix& a) { return sum(sin(linalg::eigh(a).second)); }), plain);
  CHECK(vectors(one).to_vector()[1] != vectors(one).to_vector()[1]);
}

namespace {

template <class T>
using square_of = tensor<T, 2>;
template <class T>
using number_of = tensor<T, 0>;
template <class T>
using loss_of = std::function<number_of<T>(const square_of<T>&, const number_of<T>&)>;

template <class T>
square_of<T> matrix_of(const std::vector<double>& all, std::int64_t rows) {
  return reshape(from_span(std::vector<T>(all.begin(), all.end())),
                 {dim(rows), dim(static_cast<std::int64_t>(all.size()) / rows)});
}
/// Weights that no symmetry hides behind.
template <class T>
square_of<T> weights(std::int64_t m, std::int64_t n) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < m * n; ++i)
    all.push_back(0.3 + static_cast<double>(i * 7 % 5) - 1.7 * static_cast<double>(i * 3 % 4));
  return matrix_of<T>(all, m);
}

/// f(m·a, m)'s gradient by a is that of f(a, 1) times m^power: eagerly, compiled and by the interpreter.
template <class T>
void check_scale(const char* name, const loss_of<T>& f, const std::vector<double>& a, std::int64_t rows,
                 const std::vector<double>& scales, double power) {
  CAPTURE(name);
  const auto gradient = [f](const square_of<T>& a, const number_of<T>& m) { return square_of<T>(grad<0>(f)(a, m)); };
  const square_of<T> one = matrix_of<T>(a, rows);
  const std::vector<T> near = gradient(one, T(1)).to_vector();
  double most = 0;
  for (const T x : near) most = std::max(most, std::abs(static_cast<double>(x)));
  const auto compiled = compile(gradient), interpreted = compile(gradient, plain);
  for (const double scale : scales) {
    CAPTURE(scale);
    const T m = static_cast<T>(scale);
    const auto check = [&](const square_of<T>& far) {
      std::vector<double> got, want;
      const long double by = std::pow(static_cast<long double>(m), static_cast<long double>(power));
      for (const T x : far.to_vector()) got.push_back(static_cast<double>(static_cast<long double>(x) / by) / most);
      for (const T x : near) want.push_back(static_cast<double>(x) / most);
      check_close(got, want, sizeof(T) == 4 ? 1e-5 : 1e-13);
    };
    const square_of<T> scaled = one * m;
    check(gradient(scaled, m));
    check(compiled(scaled, number_of<T>(m)));
    check(interpreted(scaled, number_of<T>(m)));
  }
}

template <class T>
void check_scales(const std::vector<double>& m, const std::vector<double>& of_cubes) {
  using mat = square_of<T>;
  using num = number_of<T>;
  const std::vector<double> two{2, 0, 0, 1}, three{2, 0.3, -0.4, 0.1, 3, 0.5, 0.2, -0.6, 1},
      even{4, 0.3, -0.4, 0.3, 3, 0.5, -0.4, 0.5, 1}, thin{2, 0.3, -0.4, 1, 0.1, 3, 0.5, 0.2};
  std::vector<double> six;
  for (int i = 0; i < 36; ++i) six.push_back(std::sin(i * 1.7 + 0.3) + (i % 7 == 0 ? 3 + i * 0.2 : 0));
  const loss_of<T> polar = [](const mat& a, const num&) {
    const auto [u, s, vt] = linalg::svd(a);
    return sum(matmul(u, vt) * weights<T>(a.size(0), a.size(1)));
  };
  const loss_of<T> vectors = [](const mat& a, const num&) {
    const auto [u, s, vt] = linalg::svd(a);
    return sum(u * weights<T>(u.size(0), u.size(1))) + sum(vt * weights<T>(vt.size(0), vt.size(1)));
  };
  check_scale<T>("svd, 2", polar, two, 2, m, -1);
  check_scale<T>("svd, 3", polar, three, 3, m, -1);
  check_scale<T>("svd, tall", vectors, thin, 4, m, -1);
  check_scale<T>("svd, wide", vectors, thin, 2, m, -1);
  check_scale<T>(
      "eigh", [](const mat& a, const num&) { return sum(linalg::eigh(a).second * weights<T>(3, 3)); }, even, 3, m, -1);
  check_scale<T>(
      "qr", [](const mat& a, const num&) { return sum(linalg::qr(a).first * weights<T>(3, 3)); }, three, 3, m, -1);
  check_scale<T>(
      "cholesky", [](const mat& a, const num&) { return sum(linalg::cholesky(a) * weights<T>(3, 3)); }, even, 3, m,
      -0.5);
  check_scale<T>(
      "lu", [](const mat& a, const num&) { return sum(std::get<1>(linalg::lu(a)) * weights<T>(3, 3)); }, three, 3, m,
      -1);
  for (const auto& a : {three, six}) {
    const std::int64_t n = a.size() == 9 ? 3 : 6;
    check_scale<T>(
        "solve",
        [n](const mat& a, const num& m) { return sum(linalg::solve(a, m * weights<T>(n, 2)) * weights<T>(n, 2)); }, a,
        n, m, -1);
    check_scale<T>(
        "inv", [n](const mat& a, const num& m) { return sum(linalg::inv(a) * m * weights<T>(n, n)); }, a, n, m, -1);
    check_scale<T>(
        "slogdet", [](const mat& a, const num&) { return linalg::slogdet(a).second; }, a, n, m, -1);
  }
  check_scale<T>(
      "triangular_solve",
      [](const mat& a, const num& m) {
        return sum(linalg::triangular_solve(a, m * weights<T>(3, 2)) * weights<T>(3, 2));
      },
      three, 3, m, -1);
  check_scale<T>(
      "pinv", [](const mat& a, const num& m) { return sum(linalg::pinv(a) * m * weights<T>(2, 4)); }, thin, 4, m, -1);
  check_scale<T>(
      "lstsq",
      [](const mat& a, const num& m) { return sum(linalg::lstsq(a, m * weights<T>(4, 1)) * weights<T>(2, 1)); }, thin,
      4, m, -1);
  // The determinants themselves are out of range.
  const loss_of<T> determinant = [](const mat& a, const num&) { return linalg::det(a); };
  check_scale<T>("det, 2", determinant, two, 2, m, 1);
  check_scale<T>("det, 3", determinant, three, 3, of_cubes, 2);
}

}  // namespace

TEST_CASE("derivatives of matrices of any scale, f32") {
  check_scales<float>({1e-25, 1e-15, 1.0, 1e15, 1e25}, {1e-15, 1e15});
}
TEST_CASE("derivatives of matrices of any scale, f64") {
  check_scales<double>({1e-190, 1e-120, 1e120, 1e190}, {1e-120, 1e120});
}

TEST_CASE("derivatives of singular vectors whose values differ in scale, or are equal") {
  // u·vᵀ of diag(s, t) turns by (da01 - da10) / (s + t).
  const auto f = [](const tensor<float, 2>& a) {
    const auto [u, s, vt] = linalg::svd(a);
    return tensor<float, 0>(sum(matmul(u, vt) * tensor<float, 2>{{0, 1}, {0, 0}}));
  };
  for (const options& how : {options{}, plain}) {
    const auto g = compile(grad(f), how);
    for (const auto& values : {std::pair{1e20f, 1e-20f}, std::pair{3e38f, 1e38f}, std::pair{1e-30f, 1e-38f}}) {
      const float s = values.first, t = values.second;
      const auto got = g(tensor<float, 2>{{s, 0}, {0, t}}).to_vector();
      const double want = 1 / (static_cast<double>(s) + static_cast<double>(t));
      CAPTURE(s);
      CHECK(got[1] / want == doctest::Approx(1).epsilon(1e-5));
      CHECK(got[2] / want == doctest::Approx(-1).epsilon(1e-5));
    }
    for (const float x : g(tensor<float, 2>{{2, 0}, {0, 2}}).to_vector()) CHECK(x != x);
  }
  const auto first = [](const tensor<float, 2>& a) { return tensor<float, 0>(sum(linalg::eigh(a).second)); };
  const auto turned = grad(first)(tensor<float, 2>{{-2e38f, 0}, {0, 2e38f}}).to_vector();
  CHECK(static_cast<double>(std::abs(turned[1])) == doctest::Approx(1.25e-39).epsilon(1e-4));
  for (const float x : grad(first)(tensor<float, 2>{{1, 0}, {0, 1}}).to_vector()) CHECK(x != x);
}
