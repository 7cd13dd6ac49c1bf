// Complex tensors: arithmetic and functions against std::complex, gradients against differences, views, lanes, loops.
#include <complex>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/complex.hpp>

#include "numbers.hpp"

using namespace sinter;
using cplx = complex128;
using vec = tensor<cplx, 1>;
using doubles = std::vector<double>;

namespace {

const numbers some{{3, 4}, {-1.5, 0.25}, {0.5, -2}, {-0.75, -1.25}, {2, 0}, {0, 1.5}, {-3, 0}};
vec some_tensor() { return vec::from(some, {dim(some.size())}); }
vec others() { return exp(some_tensor() * cplx(0.3, -0.2)) + cplx(0.25, 0.5); }

template <class F>
numbers each(F f) {
  numbers out;
  for (const auto& z : some) out.push_back(f(z));
  return out;
}

/// All functions of two tensors, in one.
vec everything(const vec& z, const vec& w) {
  const auto one = concat(concat(z + w, z - w), concat(z * w, z / w));
  const auto two = concat(concat(exp(z), log(z)), concat(sqrt(z), sin(z)));
  const auto three = concat(concat(cos(z), conj(z)), concat(complex(abs(z), angle(z)), square(z)));
  const auto four = concat(concat(2 - z, z * cplx(0, 2)), concat(cplx(1, 1) / z, real(w) * z));
  const auto five = concat(where(real(z) > 0, z, w), where(real(z) > 0, z, cplx(0, 1)));
  return concat(concat(one, two), concat(concat(three, four), five));
}

/// The gradient of f at z by differences of both parts.
template <class F>
numbers differences(F f, const numbers& at) {
  constexpr double step = 1e-6;
  numbers out;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto moved = [&](cplx by) {
      numbers z = at;
      z[i] += by;
      return tensor<double, 0>(f(vec::from(z, {dim(z.size())}))).item();
    };
    out.push_back(cplx(moved(step) - moved(-step), moved(cplx(0, step)) - moved(cplx(0, -step))) / (2 * step));
  }
  return out;
}

}  // namespace

TEST_CASE("complex functions are those of std::complex, eagerly and compiled") {
  const vec z = some_tensor(), w = others();
  const numbers b = w.to_vector();
  check_numbers(exp(z).to_vector(), each([](cplx x) { return std::exp(x); }));
  check_numbers(log(z).to_vector(), each([](cplx x) { return std::log(x); }));
  check_numbers(sqrt(z).to_vector(), each([](cplx x) { return std::sqrt(x); }));
  check_numbers(sin(z).to_vector(), each([](cplx x) { return std::sin(x); }));
  check_numbers(cos(z).to_vector(), each([](cplx x) { return std::cos(x); }));
  check_numbers(square(z).to_vector(), each([](cplx x) { return x * x; }));
  check_numbers(reciprocal(z).to_vector(), each([](cplx x) { return 1.0 / x; }));
  check_numbers(polar(abs(z), angle(z)).to_vector(), some);
  check_close(
      abs(z).to_vector(),
      [] {
        doubles out;
        for (const auto& x : some) out.push_back(std::abs(x));
        return out;
      }(),
      1e-14);
  std::size_t i = 0;
  check_numbers((z * w).to_vector(), each([&](cplx x) { return x * b[i++]; }));
  i = 0;
  check_numbers((z / w).to_vector(), each([&](cplx x) { return x / b[i++]; }));
  check_numbers((real(z) - w + 1).to_vector(), [&] {
    numbers out;
    for (std::size_t k = 0; k < b.size(); ++k) out.push_back(some[k].real() - b[k] + 1.0);
    return out;
  }());
  const numbers want = everything(z, w).to_vector();
  CHECK(want.size() == 18 * some.size());
  for (const char* backend : backends)
    check_numbers(compile(everything, {.dynamic = dynamic::yes, .backend = backend})(z, w).to_vector(), want);
}

TEST_CASE("complex products do not recover infinities, quotients do not overflow") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const tensor<complex64, 1> z{{inf, 0}, {1e30f, 1e30f}, {1e-30f, 1e-30f}, {3, 4}};
  const auto of_infinity = (z * complex64(0, 1)).to_vector();
  CHECK(of_infinity[0].real() != of_infinity[0].real());
  CHECK(of_infinity[0].imag() == inf);
  const auto inverse = reciprocal(z).to_vector();
  CHECK(inverse[1].real() == doctest::Approx(0.5e-30).epsilon(1e-5));
  CHECK(inverse[2].imag() == doctest::Approx(-0.5e30).epsilon(1e-5));
  CHECK(abs(z).to_vector() == std::vector<float>{inf, std::hypot(1e30f, 1e30f), std::hypot(1e-30f, 1e-30f), 5});
  CHECK(isnan(complex(tensor<float, 1>{1, inf - inf}, tensor<float, 1>{inf, 0})).to_vector() ==
        std::vector<bool>{false, true});
  CHECK(isfinite(z).to_vector() == std::vector<bool>{false, true, true, true});
}

TEST_CASE("complex gradients descend: of |z|² at 3 + 4i, 6 + 8i") {
  const tensor<complex64, 0> z(complex64(3, 4));
  for (const char* backend : backends) {
    const auto g = compile(grad([](const tensor<complex64, 0>& z) { return square(abs(z)); }), {.backend = backend})(z);
    check_close(parts({cplx(g.item())}), doubles{6, 8}, 1e-5);
  }
  const auto next = z - 0.1f * grad([](const tensor<complex64, 0>& z) { return real(z * conj(z)); })(z);
  CHECK(abs(next).item() < 5);
  // Where a magnitude, an angle and a root have none, 0.
  const auto kinks = grad([](const vec& z) { return sum(abs(z) + angle(z) + real(sqrt(z))); })(zeros_like(others()));
  for (const auto& x : kinks.to_vector()) CHECK(x == cplx(0, 0));
}

TEST_CASE("complex gradients, once and twice, against differences") {
  const vec w = others();
  const auto loss = [w](const vec& z) {
    return sum(real(z * z * w) + abs(exp(z * 0.25)) + angle(z) + imag(log(z) / w) + real(sqrt(z) * sin(z)));
  };
  const vec z = w * cplx(0.5, 1) + cplx(0.1, 0.7);
  const numbers at = z.to_vector(), want = differences(loss, at);
  check_numbers(grad(loss)(z).to_vector(), want, 1e-6);
  check_numbers(compile(grad(loss), {.backend = "reference"})(z).to_vector(), want, 1e-6);
  const auto second = [&](const vec& z) { return sum(real(grad(loss)(z) * conj(w))); };
  check_numbers(compile(grad(second), {.backend = "reference"})(z).to_vector(), differences(second, at), 1e-5);
  // The derivative along a direction is that direction's product with the gradient.
  double along = 0;
  for (std::size_t i = 0; i < want.size(); ++i) along += (std::conj(want[i]) * w.to_vector()[i]).real();
  CHECK(jvp(loss)(z, w).second.item() == doctest::Approx(along).epsilon(1e-6));
}

TEST_CASE("complex matrices, sums, views and comparisons") {
  const tensor<cplx, 2> a{{{1, 1}, {2, 0}, {0, -1}}, {{0, 1}, {1, 0}, {3, 2}}};
  const tensor<double, 2> r{{1, -1}, {2, 0}, {0, 3}};
  check_numbers(matmul(a, adjoint(a)).to_vector(), {{7, 0}, {1, -4}, {1, 4}, {15, 0}}, 1e-13);
  check_numbers(matmul(a, r).to_vector(), {{5, 1}, {-1, -4}, {2, 1}, {9, 5}});
  check_numbers(matmul(transpose(r), transpose(a)).to_vector(), {{5, 1}, {2, 1}, {-1, -4}, {9, 5}});
  check_numbers(sum(a, axis<0>).to_vector(), {{1, 2}, {3, 0}, {3, 1}});
  check_numbers(mean(a, axis<1>, keepdims).to_vector(), {{1, 0}, {4.0 / 3, 1}});
  check_numbers({prod(a).item()}, {cplx(1, 1) * 2.0 * cplx(0, -1) * cplx(0, 1) * cplx(3, 2)});
  check_numbers(prod(a, axis<1>).to_vector(), {{2, -2}, {-2, 3}});
  check_numbers(prod(slice<1>(a, 3), axis<1>).to_vector(), {{1, 0}, {1, 0}});
  check_numbers(a[1].to_vector(), {{0, 1}, {1, 0}, {3, 2}});
  check_numbers(flip<1>(slice<1>(a, 1)).to_vector(), {{0, -1}, {2, 0}, {3, 2}, {1, 0}});
  check_numbers(reshape(permute<1, 0>(a), 2, 3).to_vector(), {{1, 1}, {0, 1}, {2, 0}, {1, 0}, {0, -1}, {3, 2}});
  check_numbers(roll(a, 1, axis<1>)[0].to_vector(), {{0, -1}, {1, 1}, {2, 0}});
  CHECK(stack<0>(a, conj(a)).shape() == index_array<3>{2, 2, 3});
  CHECK(squeeze<0>(expand_dims<0>(a)).shape() == index_array<2>{2, 3});
  CHECK((broadcast_to(a[0], 4, 3) + a[1]).shape() == index_array<2>{4, 3});
  CHECK((a == a).to_vector() == std::vector<bool>(6, true));
  CHECK((a != conj(a)).to_vector() == std::vector<bool>{true, false, true, true, false, true});
  CHECK((a == cplx(1, 0)).to_vector() == std::vector<bool>{false, false, false, false, true, false});
  CHECK(cast<complex64>(a)(1, 2) == complex64(3, 2));
  check_numbers(cast<cplx>(r)[2].to_vector(), {0, 3});
  CHECK(sum(zeros_like(slice<0>(a, 2))).item() == cplx(0, 0));
  check_numbers(cumsum(a, axis<1>)[1].to_vector(), {{0, 1}, {1, 1}, {4, 3}});
  check_numbers(take(a, tensor<std::int64_t, 1>{2, 0}, axis<1>)[0].to_vector(), {{0, -1}, {1, 1}});
  check_numbers((zeros<cplx>(2) + ones<cplx>(2) * cplx(0, 2)).to_vector(), {{0, 2}, {0, 2}});
  check_numbers(from_span(a.to_vector(), 3, 2)[2].to_vector(), {{1, 0}, {3, 2}});
  CHECK(from_span(numbers{{1, 2}})(0) == cplx(1, 2));
  CHECK(allclose(a, a + cplx(0, 1e-9)).item());
  CHECK(!allclose(a, a + cplx(0, 1e-3)).item());
  tensor<cplx, 2> b = a;
  b += 1;
  b *= cplx(0, 1);
  CHECK(b(0, 1) == cplx(0, 3));
  std::ostringstream out;
  out << slice<1>(a, 0, 2) << " " << tensor<complex64, 0>(complex64(1.5f, -2));
  CHECK(out.str() == "complex128(2, 2) [[1+1i, 2+0i],\n [0+1i, 1+0i]] complex64() 1.5-2i");
  CHECK_THROWS_WITH_AS((a + a[0] * transpose(a)), doctest::Contains("shapes do not broadcast: (3,) and (3, 2)"),
                       user_error);
}

TEST_CASE("parts of a complex tensor have equal extents") {
  const auto f = [](const tensor<double, 1>& re, const tensor<double, 1>& im) { return vec(re, im); };
  const char* const what = "[complex] the real part is (3,), the imaginary one (1,); they have equal extents";
  CHECK_THROWS_WITH_AS(f(ones<double>(3), ones<double>(1)), doctest::Contains(what), user_error);
  CHECK_THROWS_WITH_AS(compile(f)(ones<double>(3), ones<double>(1)), doctest::Contains(what), user_error);
  CHECK(f(ones<double>(3), ones<double>(3)).numel() == 3);
}

TEST_CASE("complex lanes and loops") {
  const tensor<cplx, 2> a = reshape(concat(some_tensor(), others()), 2, 7);
  const auto f = [](const vec& z, const vec& w) { return std::pair{z * w + conj(z), sum(z)}; };
  const auto [lanes, sums] = vmap(f, in_axes<0, none>)(a, others());
  for (std::int64_t i = 0; i < 2; ++i) {
    const auto [one, total] = f(a[i], others());
    check_numbers(lanes[i].to_vector(), one.to_vector());
    check_numbers({sums(i)}, {total.item()});
  }
  const auto columns = vmap([](const vec& z) { return z * 2; }, in_axes<1>, out_axes<1>)(a);
  check_numbers(columns.to_vector(), (a * 2).to_vector());
  const auto power = compile([](const vec& z) {
    return fori_loop(
        0, 5, [&](tensor<std::int64_t, 0>, const vec& y) { return y * z; }, z);
  });
  check_numbers(power(some_tensor()).to_vector(), each([](cplx z) { return z * z * z * z * z * z; }), 1e-11);
}
