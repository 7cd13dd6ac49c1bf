// Complex matrices: solve, inv, pinv, lstsq, expm, matrix_power, norms, by what they have to be; gradients against differences.
#include <complex>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/complex.hpp>
#include <sinter/linalg.hpp>

#include "../close.hpp"

using namespace sinter;
using cplx = complex128;
using matrix = tensor<cplx, 2>;
using numbers = std::vector<cplx>;

namespace {

/// (m, n), numbers that repeat nowhere.
matrix some(std::int64_t m, std::int64_t n, double seed = 0) {
  const tensor<double, 2> k = reshape(arange<double>(m * n), m, n);
  return complex(sin(k * 1.7 + seed), cos(k * k * 0.37 + seed));
}
template <class A, class B>
void check_same(const A& got, const B& want, double tolerance = 1e-12) {
  CHECK(got.shape() == want.shape());
  check_close(real(got).to_vector(), real(want).to_vector(), tolerance);
  check_close(imag(got).to_vector(), imag(want).to_vector(), tolerance);
}
matrix one(std::int64_t n) { return cast<cplx>(eye<double>(n)); }

}  // namespace

TEST_CASE("complex systems and inverses") {
  for (const std::int64_t n : {1, 2, 3, 5, 9, 33}) {
    CAPTURE(n);
    const matrix a = some(n, n) + one(n) * cplx(2, 1), y = some(n, 4, 0.5);
    check_same(matmul(a, linalg::solve(a, y)), y);
    check_same(matmul(a, linalg::solve(a, y[0](0) * ones<cplx>(n))), y[0](0) * ones<cplx>(n));
    check_same(matmul(a, linalg::solve(a, real(y))), complex(real(y)));
    check_same(matmul(a, linalg::inv(a)), one(n));
    const tensor<double, 2> r = real(a) + 4 * eye<double>(n);
    check_same(matmul(r, linalg::solve(r, y)), y);
  }
  const auto many = stack(some(3, 3), some(3, 3, 2), some(3, 3, 4));
  check_same(linalg::inv(many)[1], linalg::inv(some(3, 3, 2)));
  check_same(linalg::solve(some(3, 3), many)[2], linalg::solve(some(3, 3), some(3, 3, 4)));
  const tensor<cplx, dims{3, 3}> fixed(some(3, 3));
  static_assert(decltype(linalg::inv(fixed))::static_shape == dims{3, 3});
  static_assert(decltype(linalg::solve(fixed, fixed))::static_shape == dims{3, 3});
  CHECK(linalg::inv(slice<1>(slice<0>(some(1, 1), 1), 1)).shape() == index_array<2>{0, 0});
  CHECK_THROWS_WITH_AS(linalg::solve(some(3, 3), some(2, 1)), doctest::Contains("[solve]"), user_error);
  // A singular one gives infinities and NaN.
  CHECK(!all(isfinite(linalg::inv(some(2, 2) * 0))).item());
}

TEST_CASE("complex pseudo-inverses, powers, exponentials and norms") {
  const matrix wide = some(2, 5), tall = some(5, 2, 1), a = some(4, 4, 3);
  for (const matrix& x : {wide, tall}) {
    const matrix p = linalg::pinv(x);
    check_same(matmul(matmul(x, p), x), x);
    check_same(matmul(matmul(p, x), p), p);
    check_same(adjoint(matmul(x, p)), matmul(x, p));
    check_same(adjoint(matmul(p, x)), matmul(p, x));
  }
  const matrix y = some(5, 1, 7);
  check_same(matmul(adjoint(tall), matmul(tall, linalg::lstsq(tall, y)) - y), matrix(zeros<cplx>(2, 1)));
  check_same(linalg::matrix_power(a, 3), matmul(a, matmul(a, a)));
  check_same(matmul(linalg::matrix_power(a, -2), matmul(a, a)), one(4), 1e-10);
  check_same(linalg::matrix_power(a, 0), one(4));
  check_same(matmul(linalg::expm(a), linalg::expm(-a)), one(4), 1e-10);
  const matrix turn = one(2) * cplx(0, 0.5);
  check_same(linalg::expm(turn), one(2) * std::exp(cplx(0, 0.5)));
  CHECK(linalg::matrix_norm(turn).item() == doctest::Approx(std::sqrt(0.5)));
  CHECK(linalg::matrix_norm<linalg::two>(turn).item() == doctest::Approx(0.5));
  CHECK(linalg::matrix_norm<linalg::nuc>(turn).item() == doctest::Approx(1));
  CHECK(linalg::matrix_norm<linalg::one>(some(3, 2)).item() ==
        doctest::Approx(max(sum(abs(some(3, 2)), axis<0>)).item()));
  CHECK(linalg::matrix_norm<linalg::inf>(some(3, 2)).item() ==
        doctest::Approx(max(sum(abs(some(3, 2)), axis<1>)).item()));
}

TEST_CASE("complex systems: compiled, lanes, gradients against differences") {
  const auto g = [](const matrix& a) { return concat(linalg::solve(a, conj(a)), linalg::inv(a), linalg::expm(a)); };
  const matrix a = some(3, 3) + one(3) * cplx(1, 0.5);
  for (const char* backend : {"cpu", "reference"})
    check_same(compile(g, {.dynamic = dynamic::yes, .backend = backend})(a), g(a));
  check_same(vmap(g)(stack(a, a * cplx(0, 1)))[1], g(a * cplx(0, 1)));
  const auto loss = [&](const matrix& x) { return sum(real(g(x) * g(x))) + linalg::matrix_norm<linalg::nuc>(x); };
  const auto slope = compile(grad(loss), {.backend = "reference"})(a).to_vector();
  const numbers all = a.to_vector();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto moved = [&](cplx by) {
      numbers x = all;
      x[i] += by;
      return tensor<double, 0>(loss(matrix::from(x, a.shape()))).item();
    };
    constexpr double step = 1e-6;
    CHECK(slope[i].real() == doctest::Approx((moved(step) - moved(-step)) / (2 * step)).epsilon(1e-6));
    CHECK(slope[i].imag() ==
          doctest::Approx((moved(cplx(0, step)) - moved(cplx(0, -step))) / (2 * step)).epsilon(1e-6));
  }
}
