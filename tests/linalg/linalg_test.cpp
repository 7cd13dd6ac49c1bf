// Linear algebra: factors against what they stand for and against naive code, special matrices, lanes, refusals.
#include <limits>
#include <string>

#include "../texts.hpp"
#include "matrices.hpp"

using namespace matrices;
using texts::contains;
using texts::error_of;

namespace {

const double no_number = std::numeric_limits<double>::quiet_NaN();

template <class X, class Y>
void check_equal(const X& x, const Y& y, double tolerance) {
  check_close(x.contiguous().to_vector(), y.contiguous().to_vector(), tolerance);
}

/// Solves by Gauss and Jordan in long double; gives the determinant, too.
std::pair<doubles, double> eliminated(const matrix& a, const matrix& y) {
  const std::int64_t n = a.size(0), k = y.size(1);
  std::vector<std::vector<long double>> m(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) m[i].push_back(a(i, j));
    for (std::int64_t j = 0; j < k; ++j) m[i].push_back(y(i, j));
  }
  long double det = 1;
  for (std::int64_t c = 0; c < n; ++c) {
    std::int64_t p = c;
    for (std::int64_t i = c; i < n; ++i)
      if (std::abs(m[i][c]) > std::abs(m[p][c])) p = i;
    if (p != c) det = -det;
    std::swap(m[p], m[c]);
    det *= m[c][c];
    for (std::int64_t i = 0; i < n; ++i) {
      if (i == c) continue;
      const long double f = m[i][c] / m[c][c];
      for (std::int64_t j = c; j < n + k; ++j) m[i][j] -= f * m[c][j];
    }
  }
  doubles out;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < k; ++j) out.push_back(static_cast<double>(m[i][n + j] / m[i][i]));
  return {out, static_cast<double>(det)};
}

/// That the factors of one m × n matrix are what they claim, outside of compile() and on the reference.
void check_factors(const matrix& a, double tolerance) {
  const std::int64_t m = a.size(0), n = a.size(1), k = std::min(m, n);
  const matrix one = eye<double>(k);
  const auto split = [](const matrix& a) {
    const auto [q, r] = linalg::qr(a);
    const auto [p, l, u] = linalg::lu(a);
    const auto [left, s, right] = linalg::svd(a);
    return std::tuple{q, r, p, l, u, left, s, right, linalg::pinv(a)};
  };
  const auto plain = compile(split, {.backend = "reference"});
  for (const auto& [q, r, p, l, u, left, s, right, inverse] : {split(a), plain(a)}) {
    CHECK(q.size(1) == k);
    check_equal(matrix(matmul(q, r)), a, tolerance);
    check_equal(matrix(matmul(transpose(q), q)), one, tolerance);
    check_equal(matrix(triu(r)), r, 0.0 + 1e-300);
    for (std::int64_t i = 0; i < k; ++i) CHECK(r(i, i) >= 0);
    check_equal(matrix(matmul(p, matmul(l, u))), a, tolerance);
    check_equal(matrix(tril(l, -1) + eye<double>(m, k)), l, 1e-300);
    CHECK(max(abs(l)).item() <= 1 + 1e-12);
    check_equal(matrix(triu(u)), u, 1e-300);
    check_equal(matrix(matmul(left * s, right)), a, tolerance);
    check_equal(matrix(matmul(transpose(left), left)), one, tolerance);
    check_equal(matrix(matmul(right, transpose(right))), one, tolerance);
    for (std::int64_t i = 0; i + 1 < k; ++i) CHECK(s(i) >= s(i + 1));
    // Penrose's: three of them.
    const matrix there = matmul(a, inverse), back = matmul(inverse, a);
    check_equal(matrix(matmul(there, a)), a, 10 * tolerance);
    check_equal(there, matrix(transpose(there)), 100 * tolerance);
    check_equal(back, matrix(transpose(back)), 100 * tolerance);
  }
}

}  // namespace

TEST_CASE("factors of matrices of many sizes are what they claim") {
  for (const std::int64_t n : {1, 2, 3, 7, 33}) check_factors(random_matrix(static_cast<int>(n), n, n), 1e-11);
  check_factors(random_matrix(4, 9, 4), 1e-11);
  check_factors(random_matrix(5, 4, 9), 1e-11);
  check_factors(random_matrix(6, 70, 3), 1e-11);
  // Of rank 2, in numbers that bring no rounding.
  const matrix thin{{1, 2}, {0, 1}, {3, -1}, {2, 2}}, flat{{1, 0, 2, 1}, {2, 1, 0, -1}};
  check_factors(matmul(thin, flat), 1e-11);
  check_factors(1e200 * random_matrix(7, 5, 5), 1e-11);
  check_factors(zeros<double>(3, 2), 1e-11);
}

TEST_CASE("big matrices, in blocks and by the library where there is one") {
  const std::int64_t n = 130;
  const stacks a = random_stack(1, 2, n, n), y = random_stack(2, 2, n, 5), p = positive(a) * 0.01;
  const matrix one = eye<double>(n);
  const stacks l = linalg::cholesky(p);
  check_equal(stacks(matmul(l, transpose(l))), p, 1e-11);
  check_equal(stacks(tril(l)), l, 1e-300);
  check_equal(stacks(matmul(a, linalg::solve(a, y))), y, 1e-9);
  check_equal(stacks(matmul(tril(p) + one, linalg::triangular_solve(p + one, y))), y, 1e-9);
  check_equal(stacks(matmul(triu(p) + one, linalg::triangular_solve(p + one, y, {.lower = false}))), y, 1e-9);
  const auto [w, v] = linalg::eigh(p);
  check_equal(stacks(matmul(v * expand_dims<1>(w), transpose(v))), p, 1e-11);
  check_equal(stacks(matmul(transpose(v), v)), stacks(broadcast_to(one, 2, n, n)), 1e-11);
  const auto [q, r] = linalg::qr(a);
  check_equal(stacks(matmul(q, r)), a, 1e-11);
  check_equal(stacks(matmul(transpose(q), q)), stacks(broadcast_to(one, 2, n, n)), 1e-11);
  const auto [left, s, right] = linalg::svd(a);
  check_equal(stacks(matmul(left * expand_dims<1>(s), right)), a, 1e-11);
  const auto [perm, lower, upper] = linalg::lu(stacks(slice<2>(a, 0, 70)));
  check_equal(stacks(matmul(perm, matmul(lower, upper))), stacks(slice<2>(a, 0, 70)), 1e-11);
}

TEST_CASE("every backend gives the same, for each matrix of a stack") {
  const auto interpreted = compile(everything, {.backend = "reference"});
  for (const std::int64_t n : {1, 2, 5, 12}) {
    const stacks a = random_stack(10 + static_cast<int>(n), 3, n, n), y = random_stack(20, 3, n, 2);
    const doubles all = everything(a, y).to_vector();
    check_close(interpreted(a, y).to_vector(), all, 1e-8);
    doubles joined;
    if (n != 5) continue;
    check_close(compile(everything)(a, y).to_vector(), all, 1e-10);
    // With open extents: of another size without a new trace.
    const auto open = compile(everything, {.dynamic = dynamic::yes, .backend = "reference"});
    check_close(open(a, y).to_vector(), all, 1e-8);
    const stacks b = random_stack(11, 2, 4, 4), z = random_stack(21, 2, 4, 2);
    check_close(open(b, z).to_vector(), everything(b, z).to_vector(), 1e-8);
  }
}

TEST_CASE("floats, static shapes, leading axes and vectors") {
  const tensor<float, dims{2, 2}> a{{4, 1}, {2, 3}};
  const tensor<float, dims{2}> y{1, 2};
  const tensor<float, dims{2}> x = linalg::solve(a, y);
  check_close(x.to_vector(), doubles{0.1, 0.6}, 1e-6);
  const tensor<float, dims{}> d = linalg::det(a);
  CHECK(d.item() == doctest::Approx(10));
  const auto [q, r] = linalg::qr(tensor<float, dims{3, 2}>{{1, 2}, {3, 4}, {5, 6}});
  static_assert(decltype(q)::static_shape == dims{3, 2} && decltype(r)::static_shape == dims{2, 2});
  check_close(tensor<float, 2>(matmul(q, r)).to_vector(), doubles{1, 2, 3, 4, 5, 6}, 1e-6);
  const auto [w, v] = linalg::eigh(tensor<float, 2>{{2, 1}, {1, 2}});
  check_close(w.to_vector(), doubles{1, 3}, 1e-6);
  check_close(v.contiguous().to_vector(), doubles{std::sqrt(0.5), std::sqrt(0.5), -std::sqrt(0.5), std::sqrt(0.5)},
              1e-6);
  // Axes before broadcast, and views are read as they are.
  const auto many = normal<double>(make_key(3), 2, 3, 4, 4);
  const matrix right = random_matrix(4, 4, 2);
  const auto found = linalg::solve(transpose(many), right);
  CHECK(found.size(1) == 3);
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 3; ++j) {
      const matrix one = transpose(squeeze<0, 1>(slice<1>(slice<0>(many, i, i + 1), j, j + 1)));
      const matrix got = squeeze<0, 1>(slice<1>(slice<0>(found, i, i + 1), j, j + 1));
      const auto [want, det] = eliminated(one, right);
      check_close(got.contiguous().to_vector(), want, 1e-10);
      CHECK(linalg::det(one).item() == doctest::Approx(det));
      const auto [sign, log_det] = linalg::slogdet(one);
      CHECK(sign.item() * std::exp(log_det.item()) == doctest::Approx(det));
    }
  check_equal(matrix(matmul(random_matrix(8, 4, 4), linalg::inv(random_matrix(8, 4, 4)))), matrix(eye<double>(4)),
              1e-11);
}

TEST_CASE("exponentials, powers, least squares and norms against plain sums") {
  for (const double size : {0.01, 1.0, 30.0}) {
    const matrix a = size * random_matrix(31, 4, 4);
    // Taylor's series of a / 2^20, squared 20 times, in long double.
    std::vector<long double> sum(16), term(16);
    const auto times = [](const std::vector<long double>& x, const std::vector<long double>& y) {
      std::vector<long double> out(16);
      for (int i = 0; i < 64; ++i) out[i / 16 * 4 + i % 4] += x[i / 16 * 4 + i / 4 % 4] * y[i / 4 % 4 * 4 + i % 4];
      return out;
    };
    std::vector<long double> small;
    for (const double v : a.to_vector()) small.push_back(std::ldexp(static_cast<long double>(v), -20));
    for (int i = 0; i < 16; ++i) sum[i] = term[i] = i % 5 == 0;
    for (int k = 1; k < 12; ++k) {
      term = times(term, small);
      for (auto& v : term) v /= k;
      for (int i = 0; i < 16; ++i) sum[i] += term[i];
    }
    for (int k = 0; k < 20; ++k) sum = times(sum, sum);
    double most = 0;
    for (const auto v : sum) most = std::max(most, static_cast<double>(std::abs(v)));
    const matrix got = linalg::expm(a),
                 interpreted = compile([](const matrix&a) { return linalg::expm(a); }, {.backend = "reference"})(a);
    for (int i = 0; i < 16; ++i) {
      CHECK(std::abs(got.to_vector()[i] - static_cast<double>(sum[i])) < 1e-11 * most);
      CHECK(std::abs(interpreted.to_vector()[i] - static_cast<double>(sum[i])) < 1e-11 * most);
    }
  }
  const stacks both = concat(random_stack(1, 1, 3, 3), 20.0 * random_stack(2, 1, 3, 3));
  const stacks each = linalg::expm(both);
  for (std::int64_t i = 0; i < 2; ++i)
    check_equal(matrix(squeeze<0>(slice<0>(each, i, i + 1))),
                matrix(linalg::expm(squeeze<0>(slice<0>(both, i, i + 1)))), 1e-10);
  check_close(linalg::expm(tensor<float, 2>{{1, 2}, {0, 1}}).to_vector(),
              doubles{std::exp(1), 2 * std::exp(1), 0, std::exp(1)}, 1e-6);

  const matrix a = random_matrix(5, 3, 3);
  check_equal(matrix(linalg::matrix_power(a, 0)), matrix(eye<double>(3)), 1e-300);
  check_equal(matrix(linalg::matrix_power(a, 3)), matrix(matmul(a, matmul(a, a))), 1e-12);
  check_equal(matrix(linalg::matrix_power(a, -2)), matrix(linalg::inv(matmul(a, a))), 1e-9);

  const matrix tall = random_matrix(6, 6, 3), right = random_matrix(7, 6, 2);
  const matrix x = linalg::lstsq(tall, right);
  check_close(matrix(matmul(transpose(tall), matmul(tall, x) - right)).to_vector(), doubles(6), 1e-10);
  const vec shortest = linalg::lstsq(matrix{{1, 1}}, vec{2});
  check_close(shortest.to_vector(), doubles{1, 1}, 1e-12);

  const matrix b{{3, -4}, {0, 5}};
  CHECK(linalg::matrix_norm(b).item() == doctest::Approx(std::sqrt(50)));
  CHECK(linalg::matrix_norm<linalg::one>(b).item() == 9);
  CHECK(linalg::matrix_norm<linalg::inf>(b).item() == 7);
  CHECK(linalg::matrix_norm<linalg::two>(b).item() == doctest::Approx(std::sqrt(45)));
  CHECK(linalg::matrix_norm<linalg::nuc>(b).item() == doctest::Approx(std::sqrt(45) + std::sqrt(5)));
}

TEST_CASE("singular, indefinite, empty and ill-conditioned matrices, and NaN") {
  const stacks mixed{{{4, 2}, {2, 3}}, {{1, 2}, {2, 1}}, {{4, 2}, {2, 3}}};
  const auto factor = [](const stacks& a) { return linalg::cholesky(a); };
  for (const auto& l : {factor(mixed), compile(factor, {.backend = "reference"})(mixed)})
    check_close(l.to_vector(),
                doubles{2, 0, 1, std::sqrt(2), no_number, 0, no_number, no_number, 2, 0, 1, std::sqrt(2)}, 1e-12);
  check_close(linalg::cholesky(zeros<double>(1, 1)).to_vector(), doubles{no_number}, 1e-12);

  const matrix singular{{1, 2}, {2, 4}};
  CHECK(linalg::det(singular).item() == 0);
  const auto [sign, log_det] = linalg::slogdet(singular);
  CHECK(sign.item() == 0);
  CHECK(log_det.item() == -std::numeric_limits<double>::infinity());
  for (const double v : linalg::solve(singular, vec{1, 1}).to_vector()) CHECK(!std::isfinite(v));
  check_close(linalg::pinv(singular).contiguous().to_vector(), doubles{0.04, 0.08, 0.08, 0.16}, 1e-12);

  const matrix none = zeros<double>(0, 0);
  CHECK(linalg::det(none).item() == 1);
  CHECK(linalg::slogdet(none).second.item() == 0);
  CHECK(linalg::cholesky(none).numel() == 0);
  CHECK(std::get<1>(linalg::svd(zeros<double>(0, 3))).numel() == 0);
  const auto [p, l, u] = linalg::lu(zeros<double>(2, 0));
  CHECK(p.to_vector() == doubles{1, 0, 0, 1});
  CHECK(linalg::solve(zeros<double>(0, 3, 3), zeros<double>(0, 3, 2)).numel() == 0);
  CHECK(linalg::eigh(zeros<double>(0, 3, 3)).first.numel() == 0);

  CHECK(linalg::pinv(zeros<double>(0, 3)).shape() == std::array<dim, 2>{3, 0});
  CHECK(linalg::pinv(zeros<double>(3, 0)).shape() == std::array<dim, 2>{0, 3});
  CHECK(linalg::pinv(zeros<double>(0, 3, 2)).shape() == std::array<dim, 3>{0, 2, 3});
  CHECK(linalg::lstsq(zeros<double>(3, 0), zeros<double>(3, 2)).shape() == std::array<dim, 2>{0, 2});
  CHECK(linalg::lstsq(zeros<double>(0, 2), zeros<double>(0)).to_vector() == doubles{0, 0});
  CHECK(linalg::expm(none).numel() == 0);
  CHECK(linalg::expm(zeros<double>(0, 3, 3)).shape() == std::array<dim, 3>{0, 3, 3});
  const auto norms = [](const matrix& a) {
    return vec(stack(linalg::matrix_norm(a), linalg::matrix_norm<linalg::nuc>(a), linalg::matrix_norm<linalg::one>(a),
                     linalg::matrix_norm<linalg::two>(a), linalg::matrix_norm<linalg::inf>(a), sum(linalg::pinv(a))));
  };
  for (const matrix& a : {none, zeros<double>(0, 3), zeros<double>(3, 0)}) {
    CHECK(norms(a).to_vector() == doubles(6));
    CHECK(compile(norms, {.backend = "reference"})(a).to_vector() == doubles(6));
  }

  // Infinities are no pivots, whichever code computes; the mean of two large numbers is none.
  const auto lower = [](const matrix& a) { return linalg::cholesky(a); };
  const double infinite = std::numeric_limits<double>::infinity();
  for (const matrix& a :
       {matrix{{infinite, 0}, {0, 1}}, matrix{{1, 0}, {0, infinite}}, matrix{{1, infinite}, {infinite, 1}}})
    for (const auto& l : {lower(a), compile(lower)(a), compile(lower, {.backend = "reference"})(a)})
      check_close(l.to_vector(), doubles{no_number, 0, no_number, no_number}, 1e-12);
  matrix wide = 2.0 * eye<double>(70);
  wide(68, 68) = infinite;
  CHECK(std::isnan(linalg::cholesky(wide)(0, 0)));
  check_close(lower(matrix{{1.5e308}}).to_vector(), doubles{std::sqrt(1.5e308)}, 1e-12);
  CHECK(linalg::eigh(matrix{{1.5e308}}).first.item() == 1.5e308);

  const matrix bad{{1, no_number}, {2, 3}};
  for (const matrix& a : {matrix{{no_number}}, matrix{{1, 2}, {no_number, 3}}, matrix{{no_number, 2}, {1, 3}}}) {
    const auto [q, r] = linalg::qr(a);
    CHECK(std::isnan(r(0, 0)));
    for (const double v : q.to_vector()) CHECK((v != v || a.numel() == 1));
  }
  for (const double v : linalg::eigh(bad).second.to_vector()) CHECK(v != v);
  for (const double v : std::get<1>(linalg::svd(bad)).to_vector()) CHECK(v != v);
  CHECK(!(linalg::det(bad).item() == linalg::det(bad).item()));

  // Hilbert's: what solves has a small remainder, however wrong it is.
  const std::int64_t n = 10;
  const vec i = arange<double>(n);
  const matrix hilbert = 1.0 / (expand_dims<0>(i) + expand_dims<1>(i) + 1.0);
  const vec right = ones<double>(n);
  check_close(vec(matmul(hilbert, linalg::solve(hilbert, right))).to_vector(), right.to_vector(), 1e-4);
  const auto [q, r] = linalg::qr(hilbert);
  check_equal(matrix(matmul(transpose(q), q)), matrix(eye<double>(n)), 1e-12);
  const vec s = std::get<1>(linalg::svd(hilbert));
  CHECK(s(0) == doctest::Approx(1.7519196702651777));
  CHECK(s(9) == doctest::Approx(1.0931538193796657e-13).epsilon(1e-2));
}

TEST_CASE("one matrix of many right sides is factorised once") {
  const matrix a = random_matrix(71, 5, 5);
  const auto many = normal<double>(make_key(72), 2, 3, 5, 2);
  const auto f = [](const matrix& a, const tensor<double, 4>& y) {
    return concat(flat(linalg::solve(a, y)), flat(linalg::triangular_solve(a, y)));
  };
  const auto inner = compile(f, {.backend = "reference"});
  CHECK(linalg::solve(a, zeros<double>(0, 5, 2)).shape() == std::array<dim, 3>{0, 5, 2});
  const vec eager = f(a, many), compiled = inner(a, many);
  CHECK(contains(inner.report().graph, "-> i64(1, 5) i64(1, 5) f64(1, 5, 5)"));
  for (const vec& x : {eager, compiled}) {
    const auto all = reshape(x, 2, 2, 3, 5, 2);
    check_close(flat(matmul(a, squeeze<0>(slice<0>(all, 0, 1)))).to_vector(), many.to_vector(), 1e-11);
    check_close(flat(matmul(tril(a), squeeze<0>(slice<0>(all, 1)))).to_vector(), many.to_vector(), 1e-11);
  }
}

TEST_CASE("powers have elements of their own") {
  const matrix a{{1, 2}, {3, 4}};
  matrix first = linalg::matrix_power(a, 1);
  first(0, 0) = 7;
  CHECK(a.to_vector() == doubles{1, 2, 3, 4});
  stacks ones = linalg::matrix_power(zeros<double>(2, 2, 2), 0);
  ones(0, 0, 0) = 7;
  CHECK(ones.to_vector() == doubles{7, 0, 0, 1, 1, 0, 0, 1});
}

TEST_CASE("which code factorises a stack does not follow from what is in it") {
  const std::int64_t n = 80;
  const stacks good = positive(random_stack(61, 1, n, n)), all = concat(full<double>(no_number, 1, n, n), good);
  const auto same = [](const auto& x, const auto& y) {
    const auto one = x.contiguous().to_vector(), more = y.contiguous().to_vector();
    CHECK(doubles(more.end() - static_cast<std::ptrdiff_t>(one.size()), more.end()) == one);
  };
  same(linalg::eigh(good).first, linalg::eigh(all).first);
  same(std::get<0>(linalg::svd(good)), std::get<0>(linalg::svd(all)));
}

TEST_CASE("small matrices of known extents are computed in kernels, with the same bits") {
  constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
  const stacks bad{
      {{0, 0, 1}, {0, 2, 3}, {1, 1, 1}}, {{1, 2, 3}, {2, 4, 6}, {1, 0, 1}}, {{no_number, 1, 2}, {0, 1, 1}, {1, 1, 0}}};
  const stacks a = concat(random_stack(51, 40, 3, 3), bad), y = random_stack(52, 43, 3, 2);
  const auto all = [](const stacks& a, const stacks& y) {
    const auto [sign, log_det] = linalg::slogdet(a);
    return vec(concat(flat(linalg::solve(a, y)), flat(linalg::inv(a)), linalg::det(a), sign, log_det,
                      flat(linalg::triangular_solve(a, y)),
                      flat(linalg::triangular_solve(a, y, {.lower = false, .unit = true, .transposed = true}))));
  };
  const auto factor = [](const stacks& a) { return linalg::cholesky(a + 1.5 * eye<double>(3)); };
  const auto inner = compile(all);
  check_close(inner(a, y).to_vector(), all(a, y).to_vector(), 1e-12);
  check_close(compile(factor)(a).to_vector(), factor(a).to_vector(), 1e-12);
  CHECK(!contains(inner.report().graph, "custom_op"));
}

TEST_CASE("vmap is a loop") {
  const stacks a = random_stack(41, 6, 5, 5), y = random_stack(42, 6, 5, 2);
  const auto four = reshape(a, 3, 2, 5, 5), right = reshape(y, 3, 2, 5, 2);
  const auto mapped = [](auto a, auto y) {
    return vmap([](const stacks& a, const stacks& y) { return everything(a, y); })(a, y);
  };
  const matrix all = compile(mapped, {.backend = "reference"})(four, right);
  for (std::int64_t i = 0; i < 3; ++i) {
    const vec want = everything(slice<0>(a, 2 * i, 2 * i + 2), slice<0>(y, 2 * i, 2 * i + 2));
    check_close(vec(squeeze<0>(slice<0>(all, i, i + 1))).contiguous().to_vector(), want.to_vector(), 1e-8);
  }
  // The same right side for all, and an exponential, whose squares differ.
  const auto both = [](const stacks& a, const matrix& y) {
    return vmap([](const matrix& a, const matrix& y) { return matrix(matmul(linalg::expm(a), linalg::solve(a, y))); },
                in_axes<0, none>)(a, y);
  };
  const matrix shared = random_matrix(43, 3, 2);
  const stacks scaled = random_stack(44, 6, 3, 3) * reshape(vec{0.1, 1, 5, 0.2, 2, 3}, 6, 1, 1);
  const stacks got = compile(both, {.backend = "reference"})(scaled, shared);
  for (std::int64_t i = 0; i < 6; ++i) {
    const matrix one = squeeze<0>(slice<0>(scaled, i, i + 1));
    check_equal(matrix(squeeze<0>(slice<0>(got, i, i + 1))),
                matrix(matmul(linalg::expm(one), linalg::solve(one, shared))), 1e-8);
  }
}

TEST_CASE("logdet is the logarithm of the determinant, NaN of a negative one") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const auto f = [](const stacks& a) { return vec(linalg::logdet(a)); };
  const stacks some{{{4, 1}, {2, 3}}, {{1, 2}, {3, 4}}, {{1, 2}, {2, 4}}, {{0, 1}, {-1, 0}}};
  const doubles want{std::log(10), no_number, -inf, 0};
  check_close(f(some).to_vector(), want, 1e-14);
  check_close(compile(f)(some).to_vector(), want, 1e-14);
  check_close(compile(f, {.backend = "reference"})(some).to_vector(), want, 1e-14);
  check_close(vmap([](const matrix& a) { return linalg::logdet(a); })(some).to_vector(), want, 1e-14);
  CHECK(linalg::logdet(zeros<double>(0, 0)).item() == 0);
  CHECK(linalg::logdet(1e200 * eye<double>(5)).item() == doctest::Approx(1000 * std::log(10.0)));
  const tensor<float, dims{}> one = linalg::logdet(tensor<float, dims{2, 2}>{{4, 1}, {2, 3}});
  CHECK(one.item() == doctest::Approx(std::log(10)));
  // The gradient is the transposed inverse, also where there is no value.
  for (const double sign : {1.0, -1.0}) {
    const matrix a = random_matrix(3, 6, 6);
    matrix b = a;
    if ((linalg::det(a).item() < 0) == (sign > 0)) b = concat<0>(-slice<0>(a, 0, 1), slice<0>(a, 1, 6));
    const auto g = grad([](const matrix& a) { return linalg::logdet(a); });
    check_equal(g(b), matrix(transpose(linalg::inv(b))), 1e-11);
    check_equal(compile(g)(b), matrix(transpose(linalg::inv(b))), 1e-11);
    CHECK(std::isnan(linalg::logdet(b).item()) == (sign < 0));
  }
  const auto open = compile(f, {.dynamic = dynamic::yes, .backend = "reference"});
  for (const std::int64_t n : {3, 5}) {
    const stacks a = positive(random_stack(5, 2, n, n));
    check_close(open(a).to_vector(), f(a).to_vector(), 1e-12);
  }
}

TEST_CASE("refusals name the function and both shapes") {
  const matrix wide = random_matrix(1, 2, 3), square = random_matrix(2, 3, 3);
  CHECK(contains(error_of([&] { linalg::cholesky(wide); }),
                 "[cholesky] the matrix is (2, 3); its last two extents have to be equal"));
  CHECK(contains(error_of([&] { linalg::det(wide); }), "[det] the matrix is (2, 3)"));
  CHECK(contains(error_of([&] { linalg::logdet(wide); }), "[logdet] the matrix is (2, 3)"));
  CHECK(contains(error_of([&] { linalg::solve(square, wide); }),
                 "[solve] a is (3, 3), the right side is (2, 3); rows have to be as many as a's"));
  CHECK(contains(error_of([&] { linalg::solve(random_stack(1, 2, 3, 3), random_stack(1, 3, 3, 1)); }),
                 "[solve] a is (2, 3, 3), the right side is (3, 3, 1)"));
  CHECK(contains(error_of([&] {
                   linalg::triangular_solve(square, vec{1, 2});
                 }),
                 "[triangular_solve] a is (3, 3), the right side is (2,)"));
}
