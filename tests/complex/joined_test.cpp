// Complex tensors joined, padded, changed in places, multiplied by labels; norms: against std::complex, and gradients against differences.
#include <complex>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/complex.hpp>

#include "numbers.hpp"

using namespace sinter;
using cplx = complex128;
using matrix = tensor<cplx, 2>;
using doubles = std::vector<double>;
using places = tensor<std::int64_t, 1>;

namespace {

const numbers six{{1, 1}, {2, 0}, {0, -1}, {0, 1}, {1, 0.5}, {3, 2}};
matrix some() { return matrix::from(six, {2, 3}); }

/// Σ a[i, j]·b[k, j]·c[k], as loops.
numbers by_loops(const numbers& a, const numbers& b, const numbers& c) {
  numbers out;
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t k = 0; k < 2; ++k) {
      cplx sum = 0;
      for (std::size_t j = 0; j < 3; ++j) sum += a[i * 3 + j] * b[k * 3 + j] * c[k];
      out.push_back(sum);
    }
  return out;
}

/// What this file is about, of one matrix (2, 3), in one.
tensor<cplx, 1> everything(const matrix& z) {
  const auto w = conj(z) * cplx(0.5, 0.25);
  const matrix joined = concat(z, w, z, axis<1>);
  const auto layers = stack<1>(std::vector<matrix>{z, w});
  const matrix padded = pad(z, {{1, 0}, {0, 2}}, cplx(0.5, -2));
  const matrix other = w.at(0).add(cplx(1, 2)).at(-1, 0).set(3).at(places{1, 0, 1}).multiply(0.5)[places{1, 0}];
  const matrix changed = z.at(axis<1>, 1, 3).set(slice<1>(other, 0, 2) * slice<1>(z, 0, 2));
  return concat(concat(flatten(joined), flatten(layers), flatten(padded), flatten(changed)),
                concat(flatten(einsum<"ij,kj,k->ik">(z, w, transpose(z)[0])), flatten(outer(z, real(z))),
                       flatten(tril(z, -1)), diagonal(z, 1)),
                concat(flatten(tanh(z)), flatten(tan(w)), flatten(sinh(z)), flatten(cosh(z))),
                concat(flatten(pow(z + 4, w)), flatten(pow(z + 4, 2)), flatten(pow(cplx(1, 2), z))));
}

}  // namespace

TEST_CASE("complex functions of the second row are those of std::complex") {
  const auto each = [](auto f) {
    numbers out;
    for (const auto& x : six) out.push_back(f(x));
    return out;
  };
  const matrix z = some();
  check_numbers(sinh(z).to_vector(), each([](cplx x) { return std::sinh(x); }));
  check_numbers(cosh(z).to_vector(), each([](cplx x) { return std::cosh(x); }));
  check_numbers(tanh(z).to_vector(), each([](cplx x) { return std::tanh(x); }));
  check_numbers(tan(z).to_vector(), each([](cplx x) { return std::tan(x); }));
  check_numbers(pow(z, cplx(0.5, -1)).to_vector(), each([](cplx x) { return std::pow(x, cplx(0.5, -1)); }));
  check_numbers(pow(2, z).to_vector(), each([](cplx x) { return std::pow(2.0, x); }));
  check_numbers(pow(real(z) + 2, z).to_vector(), each([](cplx x) { return std::pow(x.real() + 2, x); }));
  const tensor<complex64, 1> large{{100, 1}, {-200, 3}};
  check_numbers(cast<cplx>(tanh(large)).to_vector(), {1, -1}, 1e-6);
}

TEST_CASE("complex tensors are joined, padded and changed in places as their parts") {
  const matrix z = some(), w = z * cplx(0, 1);
  CHECK(concat(z, w, z, w, axis<-1>).shape() == index_array<2>{2, 12});
  CHECK(stack<2>(z, w, z).shape() == index_array<3>{2, 3, 3});
  check_numbers(concat<1>(z, w)[0].to_vector(), {{1, 1}, {2, 0}, {0, -1}, {-1, 1}, {0, 2}, {1, 0}});
  check_numbers(concat(std::vector<matrix>{z, w})[2].to_vector(), w[0].to_vector());
  check_numbers(stack(std::vector<matrix>{z, w}, axis<1>)[1][1].to_vector(), w[1].to_vector());
  check_numbers(pad(z, {{0, 1}, {1, 0}}, cplx(7, 8)).to_vector(),
                {{7, 8}, {1, 1}, {2, 0}, {0, -1}, {7, 8}, {0, 1}, {1, 0.5}, {3, 2}, {7, 8}, {7, 8}, {7, 8}, {7, 8}});
  static_assert(decltype(pad<dims{0, 1}, dims{1, 0}>(tensor<cplx, dims{2, 3}>()))::static_shape == dims{3, 4});
  check_numbers(tile(z, {1, 2})[1].to_vector(), {{0, 1}, {1, 0.5}, {3, 2}, {0, 1}, {1, 0.5}, {3, 2}});
  check_numbers(split<1>(z, 3)[2].to_vector(), {{0, -1}, {3, 2}});
  check_numbers(moveaxis(z, axis<0>, axis<1>)[2].to_vector(), {{0, -1}, {3, 2}});
  check_numbers(z.at(1, -1).set(cplx(5, 6))[1].to_vector(), {{0, 1}, {1, 0.5}, {5, 6}});
  check_numbers(z.at(axis<1>, 0, 2).set(4)[0].to_vector(), {4, 4, {0, -1}});
  check_numbers(z.at(places{0, 0}).add(cplx(0, 1))[0].to_vector(), {{1, 3}, {2, 2}, {0, 1}});
  check_numbers(z.at(0).multiply(2)[0].to_vector(), {{2, 2}, {4, 0}, {0, -2}});
  check_numbers(z.at(0).set(w[1])[0].to_vector(), w[1].to_vector());
  check_numbers(z[places{1, 1, 0}][1].to_vector(), z[1].to_vector());
  check_numbers(take(z, places{1, 0}, places{2, 1}).to_vector(), {{3, 2}, {2, 0}});
  check_numbers(take_along_axis(z, tensor<std::int64_t, 2>{{2}, {0}}).to_vector(), {{0, -1}, {0, 1}});
  check_numbers(diag(diagonal(z)).to_vector(), {{1, 1}, 0, 0, {1, 0.5}});
  check_numbers({trace_of(z, 1).item()}, {{5, 2}});
  check_numbers(triu(z, 1).to_vector(), {0, {2, 0}, {0, -1}, 0, 0, {3, 2}});
  const matrix none = slice<1>(z, 3);
  CHECK(concat<1>(none, none).shape() == index_array<2>{2, 0});
  CHECK(pad(none, {{0, 0}, {0, 1}}, cplx(1, 2)).to_vector() == numbers(2, cplx(1, 2)));
  CHECK_THROWS_WITH_AS(concat(z, transpose(z)), doctest::Contains("[concat]"), user_error);
  CHECK_THROWS_WITH_AS(z.at(2).set(0), doctest::Contains("index 2 is out of range"), user_error);
}

TEST_CASE("complex products by labels, norms and variances") {
  const matrix z = some(), w = conj(z) + cplx(0.5, 0.25);
  const tensor<cplx, 1> c = transpose(z)[2];
  check_numbers(einsum<"ij,kj,k->ik">(z, w, c).to_vector(), by_loops(z.to_vector(), w.to_vector(), c.to_vector()));
  check_numbers(einsum<"ij,kj,k->ik">(z, real(w), c).to_vector(),
                by_loops(z.to_vector(), cast<cplx>(real(w)).to_vector(), c.to_vector()));
  check_numbers(einsum<"ij,kj,k->ik">(real(z), w, real(c)).to_vector(),
                by_loops(cast<cplx>(real(z)).to_vector(), w.to_vector(), cast<cplx>(real(c)).to_vector()));
  check_numbers(einsum<"ij->ji">(z).to_vector(), transpose(z).to_vector());
  check_numbers(einsum<"...ij,...jk->...ik">(z, transpose(w)).to_vector(), matmul(z, transpose(w)).to_vector());
  check_numbers({einsum<"ij,ij,ij,ij->">(z, z, z, z).item()}, {sum(square(square(z))).item()});
  check_numbers(outer(c, c).to_vector(), {c(0) * c(0), c(0) * c(1), c(1) * c(0), c(1) * c(1)});
  double squares = 0;
  for (const cplx& x : six) squares += std::norm(x);
  CHECK(norm(z).item() == doctest::Approx(std::sqrt(squares)));
  CHECK(norm<norm_max>(z, axis<0>).to_vector()[2] == doctest::Approx(std::abs(six[5])));
  CHECK(norm<1>(z, axis<1>, keepdims).shape() == index_array<2>{2, 1});
  const cplx middle = mean(z).item();
  double spread = 0;
  for (const cplx& x : six) spread += std::norm(x - middle);
  CHECK(var(z).item() == doctest::Approx(spread / 6));
  CHECK(var(z, axis<0, 1>, 1).item() == doctest::Approx(spread / 5));
  CHECK(sinter::std(z).item() == doctest::Approx(std::sqrt(spread / 6)));
}

TEST_CASE("joined complex tensors: compiled, lanes, gradients once and twice against differences") {
  const matrix z = some();
  const numbers want = everything(z).to_vector();
  for (const char* backend : backends)
    check_numbers(compile(everything, {.dynamic = dynamic::yes, .backend = backend})(z).to_vector(), want, 1e-12);
  const auto lanes = vmap([](const matrix& x) { return everything(x); })(stack(z, z * cplx(0, 0.5)));
  check_numbers(lanes[1].to_vector(), everything(z * cplx(0, 0.5)).to_vector(), 1e-12);

  const auto loss = [](const matrix& x) {
    const auto y = everything(x);
    return sum(real(y * y) + 0.25 * imag(y)) + norm(x) + norm<1>(x) + var(x) + sinter::std(x);
  };
  const auto differences = [](auto f, const matrix& at) {
    numbers out;
    const numbers all = at.to_vector();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto moved = [&](cplx by) {
        numbers x = all;
        x[i] += by;
        return tensor<double, 0>(f(matrix::from(x, at.shape()))).item();
      };
      constexpr double step = 1e-6;
      out.push_back(cplx(moved(step) - moved(-step), moved(cplx(0, step)) - moved(cplx(0, -step))) / (2 * step));
    }
    return out;
  };
  const matrix at = z * 0.25 + cplx(0.125, 0.5), w = conj(z) + 0.5;
  const numbers slope = differences(loss, at);
  const options plain{.backend = "reference"};
  check_numbers(compile(grad(loss), plain)(at).to_vector(), slope, 1e-6);
  double along = 0;
  for (std::size_t i = 0; i < slope.size(); ++i) along += (std::conj(slope[i]) * w.to_vector()[i]).real();
  CHECK(compile([&](const matrix& x) { return jvp(loss)(x, w).second; }, plain)(at).item() ==
        doctest::Approx(along).epsilon(1e-6));
  const auto second = compile([&](const matrix& x) { return sum(real(grad(loss)(x) * conj(w))); }, plain);
  const auto third = compile(grad([&](const matrix& x) { return sum(real(grad(loss)(x) * conj(w))); }), plain);
  check_numbers(third(at).to_vector(), differences(second, at), 1e-5);
}
