// Linear algebra of large matrices on a GPU by cuSOLVER and cuBLAS, against the host and by residuals.
#include <array>
#include <atomic>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "../emulator/select.hpp"
#include "../environment_value.hpp"
#include "../in_process.hpp"
#include "matrices.hpp"

using namespace matrices;

namespace {

const device gpu = device::cuda(0);
constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

doubles on_host(const vec& x) { return x.to(device::cpu()).to_vector(); }

/// Factors that their signs make unique.
vec unique_factors(const stacks& a, const stacks& symmetric) {
  const auto [q, r] = linalg::qr(a);
  const auto [p, l, u] = linalg::lu(a);
  const auto [w, v] = linalg::eigh(symmetric);
  const auto [left, s, right] = linalg::svd(a);
  return concat(concat(flat(q), flat(r), flat(p), flat(l), flat(u)), concat(flat(w), flat(v)),
                concat(flat(left), flat(s), flat(right)));
}

/// What all solve: a square, y beside it.
vec solutions(const stacks& a, const stacks& y) {
  const stacks p = positive(a), l = linalg::cholesky(p);
  return concat(flat(l), flat(linalg::solve(p, y)), flat(linalg::det(0.1 * a)), flat(linalg::inv(p)),
                concat(flat(linalg::triangular_solve(l, y)),
                       flat(linalg::triangular_solve(p, y, {.lower = false, .transposed = true})),
                       flat(linalg::triangular_solve(0.01 * p, y, {.lower = false, .unit = true}))));
}

/// The largest of |x|, of any dtype.
template <class X>
double most(const X& x) {
  double out = 0;
  for (const auto v : flatten(x).to(device::cpu()).to_vector()) {
    const double size = std::abs(static_cast<double>(v));
    out = size > out || size != size ? size : out;
  }
  return out;
}

template <class T>
void check_residuals(std::int64_t b, std::int64_t m, std::int64_t n, double tiny) {
  using stack = tensor<T, 3>;
  CAPTURE(m);
  CAPTURE(n);
  const stack a = stack(cast<T>(random_stack(static_cast<int>(m + n), b, m, n))).to(gpu);
  const std::int64_t k = std::min(m, n);
  const auto ones = eye<T>(k, gpu);
  const auto [q, r] = linalg::qr(a);
  CHECK(most(matmul(q, r) - a) < tiny);
  CHECK(most(matmul(transpose(q), q) - ones) < tiny);
  CHECK(most(tril(r, -1)) == 0);
  const auto [p, l, u] = linalg::lu(a);
  CHECK(most(matmul(p, matmul(l, u)) - a) < tiny);
  CHECK(most(l) <= 1);
  const auto [left, s, right] = linalg::svd(a);
  CHECK(most(matmul(left * expand_dims<1>(s), right) - a) < tiny);
  CHECK(most(matmul(transpose(left), left) - ones) < tiny);
  CHECK(most(matmul(right, transpose(right)) - ones) < tiny);
  const stack square = matmul(a, transpose(a)) / T(n) + T(0.5) * eye<T>(m, gpu);
  const stack c = linalg::cholesky(square);
  CHECK(most(matmul(c, transpose(c)) - square) < tiny);
  CHECK(most(triu(c, 1)) == 0);
  const auto [w, v] = linalg::eigh(square);
  CHECK(most(matmul(v * expand_dims<1>(w), transpose(v)) - square) < tiny);
  CHECK(most(matmul(transpose(v), v) - eye<T>(m, gpu)) < tiny);
  const stack x = linalg::solve(square, a);
  CHECK(most(matmul(square, x) - a) < 10 * tiny);
}

/// What a call throws, or "".
template <class F>
std::string words_of(const F& f) {
  try {
    f();
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a GPU's factors of large matrices are the host's, of stacks, tall and wide ones") {
  const auto factors = compile(unique_factors, {.dynamic = dynamic::yes});
  const auto solved = compile(solutions, {.dynamic = dynamic::yes});
  for (const auto& e : {std::array<std::int64_t, 3>{1, 65, 65}, {2, 100, 70}, {2, 70, 97}}) {
    const std::int64_t b = e[0], m = e[1], n = e[2];
    CAPTURE(m);
    CAPTURE(n);
    const stacks a = random_stack(static_cast<int>(m), b, m, n), symmetric = positive(random_stack(9, b, n, n));
    check_close(on_host(factors(a.to(gpu), symmetric.to(gpu))), unique_factors(a, symmetric).to_vector(), 1e-8);
  }
  for (const auto& e : {std::array<std::int64_t, 3>{1, 65, 1}, {3, 96, 5}}) {
    const std::int64_t b = e[0], n = e[1], k = e[2];
    CAPTURE(n);
    const stacks a = random_stack(static_cast<int>(n), b, n, n), y = random_stack(7, b, n, k);
    check_close(on_host(solved(a.to(gpu), y.to(gpu))), solutions(a, y).to_vector(), 1e-7);
  }
}

TEST_CASE("a GPU's factors of large matrices make these again, in both dtypes") {
  check_residuals<float>(1, 65, 65, 2e-4);
  check_residuals<float>(2, 100, 70, 2e-4);
  check_residuals<double>(3, 96, 110, 1e-11);
}

TEST_CASE("large matrices on a GPU that are not positive definite, singular, not finite, very small and very large") {
  constexpr std::int64_t n = 96;
  const stacks good = positive(random_stack(1, 1, n, n)), ones = expand_dims<0>(eye<double>(n));
  const auto spoiled = [&](double value) {
    return stacks(where(reshape(arange<std::int64_t>(n * n), 1, n, n) == 3 * n + 1, value, good));
  };
  const doubles l = on_host(flat(linalg::cholesky(concat(good - 100.0 * ones, good, spoiled(no_number)).to(gpu))));
  const doubles want = linalg::cholesky(concat(good - 100.0 * ones, good, spoiled(no_number))).to_vector();
  check_close(l, want, 1e-9);
  // Rows 10 and 40 are equal: no pivot is left for the last one.
  const tensor<std::int64_t, 1> rows = where(arange<std::int64_t>(n) == 40, std::int64_t{10}, arange<std::int64_t>(n));
  const stacks singular = take(random_stack(2, 1, n, n), rows, axis<1>);
  const auto [p, lower, upper] = linalg::lu(singular.to(gpu));
  CHECK(most(matmul(p, matmul(lower, upper)) - singular.to(gpu)) < 1e-12);
  CHECK(most(linalg::det(zeros<double>(1, n, n).to(gpu))) == 0);
  // A NaN is not passed by in a search for pivots.
  const auto [p_spoiled, l_spoiled, u_spoiled] = linalg::lu(concat(spoiled(no_number), good).to(gpu));
  CHECK(std::isnan(most(slice<0>(u_spoiled, 0, 1))));
  const stacks kept_one = matmul(p_spoiled, matmul(l_spoiled, u_spoiled));
  CHECK(most(slice<0>(kept_one, 1, 2) - good.to(gpu)) < 1e-11);
  const stacks none = linalg::solve(zeros<double>(1, n, n).to(gpu), good.to(gpu));
  for (const double x : on_host(flat(none))) CHECK_FALSE(std::isfinite(x));
  // One bad matrix leaves the others as they are.
  const auto spectra = [](const stacks& a) {
    const auto [w, v] = linalg::eigh(a);
    const auto [u, s, vt] = linalg::svd(a);
    return concat<1>(stack<1>(w, s), v, u, vt);
  };
  for (const double bad : {no_number, std::numeric_limits<double>::infinity()}) {
    const stacks got = spectra(concat(spoiled(bad), good).to(gpu));
    const doubles all = on_host(flat(got)), kept = on_host(flat(slice<0>(got, 1, 2)));
    for (std::size_t i = 0; i < all.size() / 2; ++i) CHECK(std::isnan(all[i]));
    check_close(kept, spectra(good).to_vector(), 1e-8);
  }
  for (const double by : {1e-300, 1e300})
    check_close(on_host(flat(slice<1>(spectra(stacks(good / 1e3 * by).to(gpu)), 0, 2) / by * 1e3)),
                slice<1>(spectra(good), 0, 2).to_vector(), 1e-9);
  // Without full rank the columns are orthonormal nevertheless.
  const stacks thin = matmul(random_stack(3, 1, 120, 60), random_stack(4, 1, 60, n)).to(gpu);
  const auto [u, s, vt] = linalg::svd(thin);
  CHECK(most(matmul(transpose(u), u) - eye<double>(n, gpu)) < 1e-11);
  CHECK(most(matmul(vt, transpose(vt)) - eye<double>(n, gpu)) < 1e-11);
}

TEST_CASE("derivatives and lanes of large matrices on a GPU") {
  constexpr std::int64_t n = 65;
  const auto loss = [](const matrix& a, const tensor<double, 1>& y) {
    const matrix p = matmul(a, transpose(a)) / 65.0 + eye<double>(a.size(0), a.device());
    return sum(square(linalg::cholesky(p))) + sum(square(linalg::solve(p, y)));
  };
  const auto slope = [&](const matrix& a, const tensor<double, 1>& y) {
    return grad([&](const matrix& a) { return loss(a, y); })(a);
  };
  const matrix a = random_matrix(5, n, n);
  const tensor<double, 1> y = squeeze<1>(random_matrix(6, n, 1));
  check_close(on_host(flat(compile(slope)(a.to(gpu), y.to(gpu)))), slope(a, y).to_vector(), 1e-8);
  const auto lanes = [](const stacks& a) {
    return vmap([](const matrix& x) { return std::get<1>(linalg::qr(x)); })(a);
  };
  const stacks many = random_stack(8, 2, n, n);
  check_close(on_host(flat(compile(lanes)(many.to(gpu)))), lanes(many).to_vector(), 1e-8);
  const stacks sides = random_stack(10, 3, n, 2);
  check_close(on_host(flat(linalg::solve(a.to(gpu), sides.to(gpu)))), linalg::solve(a, sides).to_vector(), 1e-8);
  // Each stream has handles of its own.
  const tensor<double, 2> square = matmul(a, transpose(a)) + eye<double>(n), want_square = linalg::cholesky(square);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      const stream own(gpu);
      const stream_scope here(own);
      for (int i = 0; i < 3; ++i) right += most(linalg::cholesky(square.to(gpu)) - want_square.to(gpu)) < 1e-9;
    });
  for (auto& t : threads) t.join();
  CHECK(right == 9);
  // What cannot be recorded runs as it is.
  const auto recorded =
      compile([](const matrix& a) { return linalg::cholesky(matmul(a, transpose(a)) + eye<double>(n, gpu)); },
              {.mode = mode::reduce_overhead});
  const matrix want = linalg::cholesky(matmul(a, transpose(a)) + eye<double>(n));
  for (int i = 0; i < 3; ++i) check_close(on_host(flat(recorded(a.to(gpu)))), want.to_vector(), 1e-8);
}

namespace {

/// Factors and solutions by our own kernels, which differ from the host's by rounding.
template <class T>
void check_own(std::int64_t b, std::int64_t m, std::int64_t n, double tiny) {
  using stack = tensor<T, 3>;
  CAPTURE(m);
  CAPTURE(n);
  const stack host = cast<T>(random_stack(static_cast<int>(m), b, m, n)), a = host.to(gpu);
  const auto [p, l, u] = linalg::lu(a);
  const auto [p_host, l_host, u_host] = linalg::lu(host);
  CHECK(most(p - p_host.to(gpu)) == 0);
  CHECK(most(l - l_host.to(gpu)) < tiny);
  CHECK(most(u - u_host.to(gpu)) < 10 * tiny);
  const stack square = matmul(a, transpose(a)) / T(n) + T(0.5) * eye<T>(m, gpu), c = linalg::cholesky(square);
  CHECK(most(matmul(c, transpose(c)) - square) < tiny);
  CHECK(most(triu(c, 1)) == 0);
  CHECK(most(matmul(square, linalg::solve(square, a)) - a) < 10 * tiny);
  CHECK(most(matmul(c, linalg::triangular_solve(c, a)) - a) < tiny);
  const stack turned = linalg::triangular_solve(transpose(c), a, {.lower = false});
  CHECK(most(matmul(transpose(c), turned) - a) < tiny);
  const stack unit = linalg::triangular_solve(T(0.01) * transpose(c), a, {.lower = false, .unit = true});
  CHECK(most(T(0.01) * matmul(transpose(triu(c, 1) + tril(c, -1)), unit) + unit - a) < tiny);
  const stack bad = linalg::cholesky(stack(square - T(100) * eye<T>(m, gpu)));
  CHECK(most(triu(bad, 1)) == 0);
  CHECK(std::isnan(most(slice<2>(bad, 0, 1))));
}

}  // namespace

TEST_CASE("large matrices on a GPU by kernels of our own" * doctest::skip()) {
  check_own<double>(1, 65, 65, 1e-11);
  check_own<double>(2, 83, 150, 1e-11);
  check_own<float>(1, 130, 67, 5e-4);
  constexpr std::int64_t n = 70;
  const stacks a = random_stack(2, 1, n, n);
  const tensor<std::int64_t, 1> rows = where(arange<std::int64_t>(n) == 40, std::int64_t{10}, arange<std::int64_t>(n));
  const stacks singular = take(a, rows, axis<1>).to(gpu);
  const auto [p, l, u] = linalg::lu(singular);
  CHECK(most(matmul(p, matmul(l, u)) - singular) < 1e-12);
  CHECK(most(linalg::det(zeros<double>(1, n, n).to(gpu))) == 0);
  const stacks spoiled = where(reshape(arange<std::int64_t>(n * n), 1, n, n) == 3 * n + 50, no_number, a);
  const auto [q, r] = linalg::qr(a.to(gpu));
  CHECK(most(matmul(q, r) - a.to(gpu)) < 1e-11);
  CHECK(std::isnan(most(std::get<2>(linalg::lu(spoiled.to(gpu))))));
}

TEST_CASE("without cuSOLVER, or one of the two, kernels of our own do it; what fails is an error that says so") {
  const std::string own = "large matrices on a GPU by kernels of our own";
  CHECK(in_process(own, "SINTER_LIBCUSOLVER=none SINTER_LIBCUBLAS=none") == 0);
  CHECK(in_process(own, "SINTER_LIBCUSOLVER=/nowhere/libcusolver.so") == 0);
  if (emulator::real()) return;
  const environment_value failing("SINTER_EMULATOR_SOLVER", "7");
  const stacks a = random_stack(1, 1, 66, 65).to(gpu), p = positive(random_stack(2, 1, 65, 65)).to(gpu);
  const stacks wide = transpose(a);
  const std::string words =
      "[cuda] cuSOLVER: factorising matrices of 66 x 65 fails with error 7; "
      "SINTER_LIBCUSOLVER=none does without it";
  CHECK(words_of([&] { linalg::qr(a); }).find(words) != std::string::npos);
  CHECK(words_of([&] { linalg::lu(a); }).find(words) != std::string::npos);
  CHECK(words_of([&] { linalg::svd(a); }).find(words) != std::string::npos);
  CHECK(words_of([&] { linalg::eigh(p); }).find("factorising matrices of 65 x 65") != std::string::npos);
  CHECK(words_of([&] { linalg::cholesky(p); }).find("factorising matrices of 65 x 65") != std::string::npos);
  CHECK(words_of([&] {
          linalg::triangular_solve(p, wide);
        }).find("cuBLAS: solving a triangle of 65 rows fails with error 13; SINTER_LIBCUBLAS=none") !=
        std::string::npos);
  // Small ones, and many that are not large, are not the libraries'.
  CHECK(words_of([&] { linalg::cholesky(positive(random_stack(3, 1, 40, 40)).to(gpu)); }) == "");
  CHECK(words_of([&] { linalg::cholesky(positive(random_stack(3, 3, 64, 64)).to(gpu)); }) == "");
}
