// Fourier transforms against the definition: lengths, axes, norms, real numbers, grids, derivatives, lanes, open extents.
#include <limits>
#include <string>

#include "signals.hpp"

using namespace signals;

namespace {

template <class T>
void check_lengths(double tolerance, std::int64_t b, const std::vector<std::int64_t>& lengths) {
  for (const std::int64_t n : lengths) {
    CAPTURE(n);
    const auto z = rows<T>(b, n);
    numbers in;
    for (const auto& x : z.to_vector()) in.emplace_back(x);
    const auto y = fft::fft(z);
    check_transform(y.to_vector(), by_definition(in, n), tolerance);
    check_transform(fft::ifft(y).to_vector(), in, tolerance);
  }
}

std::vector<std::int64_t> small_lengths() {
  std::vector<std::int64_t> out;
  for (std::int64_t n = 1; n <= 40; ++n) out.push_back(n);
  return out;
}

/// A loss of all transforms of z, (2, 6).
tensor<double, 0> loss(const tensor<cplx, 2>& z) {
  const tensor<cplx, 2> y = fft::fft2(z);
  const auto half = fft::rfft<fft::ortho>(real(z) * imag(z));
  const auto odd = fft::rfft(real(z), 5);
  const tensor<double, 2> even = fft::irfft(slice<1>(y, 0, 4)), seven = fft::irfft<fft::forward>(fft::ifft(z), 7);
  const tensor<cplx, 2> moved = fft::fftshift(fft::ifft<fft::ortho>(z, axis<0>));
  const tensor<double, 2> whole = fft::hfft<fft::ortho>(z);
  const auto back = fft::ihfft(imag(z), 5);
  return sum(abs(y)) + sum(square(imag(moved)) * real(moved)) + sum(square(abs(half))) + sum(real(odd * odd * odd)) +
         sum(even * even * even) + sum(seven * seven * seven) + sum(whole * whole * whole) +
         sum(real(back * back * back));
}

/// The gradient of f at z, by differences of both parts.
template <class F>
numbers differences(F f, const tensor<cplx, 2>& z) {
  constexpr double step = 1e-6;
  numbers out;
  const numbers at = z.to_vector();
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto moved = [&](cplx by) {
      numbers x = at;
      x[i] += by;
      return tensor<double, 0>(f(tensor<cplx, 2>::from(x, z.shape()))).item();
    };
    out.push_back(cplx(moved(step) - moved(-step), moved(cplx(0, step)) - moved(cplx(0, -step))) / (2 * step));
  }
  return out;
}

numbers expected_half(const numbers& all, std::int64_t n) {
  numbers out;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (static_cast<std::int64_t>(i) % n <= n / 2) out.push_back(all[i]);
  return out;
}

}  // namespace

TEST_CASE("fft of any length is the sum of its definition") {
  check_lengths<double>(1e-13, 3, small_lengths());
  check_lengths<float>(1e-6, 11, small_lengths());
  check_lengths<double>(1e-13, 1, {97, 101, 128, 169, 210, 256, 289, 1000, 1009, 4096});
  check_lengths<float>(1e-6, 9, {97, 101, 128, 210, 1000, 1009});
}

TEST_CASE("fft of long rows: as matrices, and of primes") {
  // Of one frequency; the definition would take too long.
  for (const std::int64_t n : {32768, 3 * 32768, 40009}) {
    numbers x;
    for (std::int64_t j = 0; j < n; ++j)
      x.push_back(std::polar(1.0, 2 * 3.141592653589793 * static_cast<double>(5 * j % n) / static_cast<double>(n)));
    x[1] += 3.0;
    const auto y = fft::fft(tensor<cplx, 1>::from(x, {dim(n)}));
    const numbers got = y.to_vector();
    numbers want;
    for (std::int64_t k = 0; k < n; ++k)
      want.push_back(3.0 * std::polar(1.0, -2 * 3.141592653589793 * static_cast<double>(k) / static_cast<double>(n)) +
                     (k == 5 ? static_cast<double>(n) : 0.0));
    check_close(parts(got), parts(want), 1e-10);
    check_close(parts(fft::ifft(y).to_vector()), parts(x), 1e-11);
  }
}

TEST_CASE("fft of axes, lengths and norms") {
  const tensor<cplx, 2> z = rows(4, 6);
  const numbers in = z.to_vector(), columns = tensor<cplx, 2>(transpose(z)).to_vector();
  check_transform(transpose(fft::fft(z, axis<0>)).to_vector(), by_definition(columns, 4), 1e-13);
  check_transform(fft::fft(z, 4).to_vector(), by_definition(slice<1>(z, 0, 4).to_vector(), 4), 1e-13);
  check_transform(fft::fft(z, 9).to_vector(), by_definition(concat<1>(z, zeros_like(slice<1>(z, 3))).to_vector(), 9),
                  1e-13);
  CHECK(fft::fft(z, 5, axis<0>).shape() == index_array<2>{5, 6});
  const numbers plain = by_definition(in, 6);
  check_transform((fft::fft<fft::ortho>(z) * std::sqrt(6.0)).to_vector(), plain, 1e-13);
  check_transform((fft::fft<fft::forward>(z) * 6).to_vector(), plain, 1e-13);
  check_transform((fft::ifft<fft::forward>(z) / 6).to_vector(), by_definition(in, 6, 1), 1e-13);
  check_transform((fft::ifft<fft::ortho>(z) / std::sqrt(6.0)).to_vector(), by_definition(in, 6, 1), 1e-13);
  check_transform(fft::fft2(z).to_vector(), fft::fft(fft::fft(z, axis<1>), axis<0>).to_vector(), 1e-13);
  check_transform(fft::ifftn(fft::fftn(z)).to_vector(), in, 1e-13);
  const tensor<double, 3> cube = reshape(real(rows(2, 15)), 2, 3, 5);
  check_close(fft::irfftn(fft::rfftn(cube), 5, axis<0, 1, 2>).to_vector(), cube.to_vector(), 1e-13);
  check_transform(fft::rfft2(cube).to_vector(), slice<2>(fft::fft2(cube), 0, 3).to_vector(), 1e-13);
  const tensor<float, dims{4, 8}> fixed = full<float, dims{4, 8}>(0.5f);
  static_assert(decltype(fft::fft(fixed))::static_shape == dims{4, 8});
  static_assert(decltype(fft::rfft(fixed))::static_shape == dims{4, 5});
  CHECK(fft::fft(fixed)(3, 0) == complex64(4, 0));
}

TEST_CASE("rfft is the first half of fft, irfft undoes it") {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 9, 10, 16, 25, 30, 98}) {
    CAPTURE(n);
    const tensor<cplx, 2> z = rows(3, n);
    const tensor<double, 2> x = real(z);
    numbers in;
    for (const double v : x.to_vector()) in.emplace_back(v);
    const auto y = fft::rfft(x);
    check_transform(y.to_vector(), expected_half(by_definition(in, n), n), 1e-13);
    check_close(fft::irfft(y, n).to_vector(), x.to_vector(), 1e-13);
    check_close(fft::irfft<fft::ortho>(fft::rfft<fft::ortho>(x), n).to_vector(), x.to_vector(), 1e-13);
    check_close(fft::irfft<fft::forward>(fft::rfft<fft::forward>(x), n).to_vector(), x.to_vector(), 1e-13);
    // What is real in such a transform counts as real.
    const tensor<double, 1> k = arange<double>(n / 2 + 1);
    const auto more = where(k == 0 || 2 * k == static_cast<double>(n), 7, 0 * k);
    check_close(fft::irfft(complex(real(y), imag(y) + more), n).to_vector(), x.to_vector(), 1e-13);
  }
}

TEST_CASE("hfft is fft of what is symmetric, ihfft undoes it") {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 8, 9, 25}) {
    CAPTURE(n);
    const tensor<double, 2> x = real(rows(3, n));
    const auto half = fft::ihfft(x);
    numbers in;
    for (const double v : x.to_vector()) in.emplace_back(v);
    check_transform(half.to_vector(), expected_half(by_definition(in, n, 1), n), 1e-13);
    check_close(fft::hfft(half, n).to_vector(), x.to_vector(), 1e-13);
    check_close(fft::hfft<fft::ortho>(fft::ihfft<fft::ortho>(x), n).to_vector(), x.to_vector(), 1e-13);
    check_close(fft::hfft<fft::forward>(fft::ihfft<fft::forward>(x), n).to_vector(), x.to_vector(), 1e-13);
    check_close(transpose(fft::hfft(fft::ihfft(transpose(x), axis<0>), n, axis<0>)).to_vector(), x.to_vector(), 1e-13);
  }
  // Of a real tensor, as NumPy: a symmetric one has a real transform.
  check_close(fft::hfft(tensor<double, 1>{1, 2, 3, 4}).to_vector(), doubles{15, -4, 0, -1, 0, -4}, 1e-14);
  check_close(fft::hfft(tensor<float, 2>{{1, 2}, {3, 4}}, axis<0>).to_vector(), doubles{4, 6, -2, -2}, 1e-6);
  CHECK(fft::ihfft(tensor<double, 1>{1, 2, 3, 4}, 2).shape() == index_array<1>{2});
  static_assert(decltype(fft::ihfft(full<float, dims{4, 8}>(0.5f)))::static_shape == dims{4, 5});
}

TEST_CASE("shifts and frequencies") {
  const tensor<double, 1> f = fft::fftfreq<double>(5, 0.1), g = fft::fftfreq<double>(4);
  check_close(f.to_vector(), doubles{0, 2, 4, -4, -2}, 1e-14);
  check_close(g.to_vector(), doubles{0, 0.25, -0.5, -0.25}, 1e-14);
  check_close(fft::rfftfreq<double>(5, 0.1).to_vector(), doubles{0, 2, 4}, 1e-14);
  check_close(fft::fftshift(f).to_vector(), doubles{-4, -2, 0, 2, 4}, 1e-14);
  check_close(fft::fftshift(g).to_vector(), doubles{-0.5, -0.25, 0, 0.25}, 1e-14);
  check_close(fft::ifftshift(fft::fftshift(f)).to_vector(), f.to_vector(), 1e-14);
  const tensor<cplx, 2> z = rows(3, 4);
  check_transform(fft::fftshift(z, axis<1>).to_vector(), roll(z, 2, axis<1>).to_vector(), 1e-15);
  check_transform(fft::ifftshift(z).to_vector(), roll(roll(z, -1, axis<0>), -2, axis<1>).to_vector(), 1e-15);
}

TEST_CASE("compiled transforms are the eager ones, of open extents and of fixed ones") {
  const auto f = [](const tensor<cplx, 2>& z, const tensor<double, 2>& x) {
    return std::tuple{fft::ifft(fft::fft(z, axis<0>) * exp(z)), fft::irfft(fft::rfft(x) * cplx(0.5, 1)),
                      fft::fftshift(fft::fft<fft::ortho>(x))};
  };
  for (const char* backend : {"cpu", "reference"})
    for (const auto open : {dynamic::yes, dynamic::no}) {
      const auto compiled = compile(f, {.dynamic = open, .backend = backend});
      for (const std::int64_t n : {6, 9}) {
        const tensor<cplx, 2> z = rows(4, n);
        const tensor<double, 2> x = imag(rows(3, n, 0.5));
        const auto [a, b, c] = f(z, x);
        const auto [d, e, g] = compiled(z, x);
        check_transform(d.to_vector(), a.to_vector(), 1e-13);
        check_close(e.to_vector(), b.to_vector(), 1e-12);
        check_transform(g.to_vector(), c.to_vector(), 1e-13);
      }
    }
}

TEST_CASE("derivatives of transforms, once and twice, against differences") {
  const tensor<cplx, 2> z = rows(2, 6, 0.25), w = rows(2, 6, 3.5);
  const options plain{.backend = "reference"};
  const auto want = differences(loss, z);
  check_close(parts(compile(grad(loss), plain)(z).to_vector()), parts(want), 1e-6);
  check_close(parts(grad(loss)(z).to_vector()), parts(want), 1e-6);
  double along = 0;
  const numbers by = w.to_vector();
  for (std::size_t i = 0; i < want.size(); ++i) along += (std::conj(want[i]) * by[i]).real();
  CHECK(compile([&](const tensor<cplx, 2>& z) { return jvp(loss)(z, w).second; }, plain)(z).item() ==
        doctest::Approx(along).epsilon(1e-6));
  const auto second = [&](const tensor<cplx, 2>& z) { return sum(real(grad(loss)(z) * conj(w))); };
  const auto of_second = compile(second, plain);
  check_close(parts(compile(grad(second), plain)(z).to_vector()), parts(differences(of_second, z)), 1e-5);
}

TEST_CASE("lanes of transforms are those of each") {
  const tensor<cplx, 2> z = rows(5, 6);
  const auto one = [](const tensor<cplx, 1>& x) { return fft::ifft(fft::fft(x) * x); };
  const auto all = vmap(one)(z);
  for (std::int64_t i = 0; i < 5; ++i) check_transform(all[i].to_vector(), one(z[i]).to_vector(), 1e-13);
  const auto slopes = vmap(grad([&](const tensor<cplx, 1>& x) { return sum(abs(one(x))); }))(z);
  check_transform(slopes[2].to_vector(),
                  grad([&](const tensor<cplx, 1>& x) { return sum(abs(one(x))); })(z[2]).to_vector(), 1e-12);
}

TEST_CASE("transforms of NaN, of nothing, and refused ones") {
  tensor<cplx, 2> z = rows(2, 8);
  const numbers clean = fft::fft(z).to_vector();
  z.real()(1, 3) = std::numeric_limits<double>::quiet_NaN();
  const numbers got = fft::fft(z).to_vector();
  for (std::size_t k = 0; k < 8; ++k) {
    CHECK(got[k] == clean[k]);
    CHECK(got[8 + k].real() != got[8 + k].real());
  }
  CHECK(fft::fft(rows(0, 4)).shape() == index_array<2>{0, 4});
  CHECK(fft::fft(rows(3, 0)).numel() == 0);
  CHECK(fft::fft(rows(3, 0), 2).to_vector() == numbers(6, cplx(0, 0)));
  const tensor<double, 1> x{1, 2, 3};
  CHECK_THROWS_WITH_AS(fft::fft(x, 0), doctest::Contains("[fft] the length is 0; give 1 or more"), user_error);
  CHECK_THROWS_WITH_AS(fft::irfft(cast<cplx>(slice<0>(x, 0, 1))), doctest::Contains("[irfft] the length is 0"),
                       user_error);
  CHECK_THROWS_WITH_AS(fft::hfft(slice<0>(x, 0, 1)), doctest::Contains("[hfft] the length is 0"), user_error);
  CHECK_THROWS_WITH_AS(fft::ihfft(x, 0), doctest::Contains("[ihfft] the length is 0"), user_error);
  CHECK_THROWS_WITH_AS(fft::rfft(slice<0>(x, 0, 0)), doctest::Contains("[rfft] the length is 0"), user_error);
  CHECK_THROWS_WITH_AS(fft::fftfreq(0), doctest::Contains("[fftfreq] the length is 0"), user_error);
}
