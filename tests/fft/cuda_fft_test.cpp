// Fourier transforms and complex numbers on a GPU, against the host.
#include <cmath>
#include <limits>
#include <vector>

#include "signals.hpp"

using namespace signals;

namespace {
const device gpu = device::cuda(0);
}

TEST_CASE("a GPU transforms rows of any length as the host does") {
  const auto all = [](const tensor<cplx, 2>& z) { return fft::ifft<fft::ortho>(fft::fft(z) * z); };
  const auto on_gpu = compile(all, {.dynamic = dynamic::yes});
  for (const std::int64_t n : {1, 2, 8, 15, 60, 97, 1000, 1030}) {
    CAPTURE(n);
    const tensor<cplx, 2> z = rows(3, n);
    check_transform(on_gpu(z.to(gpu)).to(device::cpu()).to_vector(), all(z).to_vector(), 1e-12);
  }
  // Long rows of known extents, and derivatives of transforms.
  const tensor<complex64, 2> z = rows<float>(2, 2048);
  const auto of_long = [](const tensor<complex64, 2>& z) {
    return grad([](const tensor<complex64, 2>& z) { return sum(square(abs(fft::fft<fft::ortho>(z) * z))); })(z);
  };
  numbers want;
  for (const auto& x : of_long(z).to_vector()) want.emplace_back(x);
  check_transform(compile(of_long, {.dynamic = dynamic::no})(z.to(gpu)).to(device::cpu()).to_vector(), want, 1e-5);
}

TEST_CASE("a GPU transforms long rows in parts, primes by a chirp, eagerly, too") {
  for (const std::int64_t n : {1031, 1536, 2062}) {
    CAPTURE(n);
    const tensor<cplx, 2> z = rows(2, n);
    const auto back = [](const tensor<cplx, 2>& z) { return fft::ifft<fft::ortho>(z); };
    check_transform(fft::fft(z.to(gpu)).to(device::cpu()).to_vector(), fft::fft(z).to_vector(), 1e-12);
    check_transform(compile(back, {.dynamic = dynamic::no})(z.to(gpu)).to(device::cpu()).to_vector(),
                    back(z).to_vector(), 1e-12);
  }
}

TEST_CASE("a GPU transforms many numbers by cuFFT, of open extents, with derivatives, too") {
  const auto f = [](const tensor<complex64, 2>& z) {
    return grad([](const tensor<complex64, 2>& z) {
      return sum(square(abs(fft::ifft(fft::fft<fft::ortho>(z) * 0.5f * complex64(1, 1)))));
    })(z);
  };
  for (const auto open : {dynamic::yes, dynamic::no}) {
    const auto on_gpu = compile(f, {.dynamic = open});
    const tensor<complex64, 2> z = rows<float>(16, 4096);
    numbers want;
    for (const auto& x : f(z).to_vector()) want.emplace_back(x);
    check_transform(on_gpu(z.to(gpu)).to(device::cpu()).to_vector(), want, 1e-5);
  }
  const tensor<cplx, 2> z = rows(1, 65536);
  check_transform(fft::ifft(z.to(gpu)).to(device::cpu()).to_vector(), fft::ifft(z).to_vector(), 1e-12);
}

TEST_CASE("a GPU, of real rows, grids and lanes") {
  const auto f = [](const tensor<float, 2>& x) {
    const auto y = vmap([](const tensor<float, 1>& x) { return fft::rfft(x); })(x);
    return fft::irfft(exp(y * 0.1f) + fft::rfft(x));
  };
  const tensor<float, 2> x = real(rows<float>(4, 12));
  check_close(compile(f)(x.to(gpu)).to(device::cpu()).to_vector(), f(x).to_vector(), 1e-5);
  const tensor<complex64, 2> z = rows<float>(4, 6);
  numbers want;
  for (const auto& v : fft::fft2(z).to_vector()) want.emplace_back(v);
  check_transform(fft::fft2(z.to(gpu)).to(device::cpu()).to_vector(), want, 1e-5);
}

TEST_CASE("a GPU has the host's complex functions at special values, on the axes and at the bounds") {
  constexpr float inf = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();
  std::vector<complex64> points;
  for (const float x : {0.f, -0.f, 1.f, -1.5f, 3e38f, -1e-45f, 100.f, inf, -inf, none})
    for (const float y : {0.f, -0.f, 1.f, -2.f, 2e38f, 1e-42f, inf, none}) points.push_back({x, y});
  using row = tensor<complex64, 1>;
  const row z = row::from(points, {dim(points.size())});
  const auto all = [](const row& z) {
    const auto one = concat(concat(exp(z), log(z)), concat(sqrt(z), tanh(z)));
    return concat(concat(one, concat(sinh(z), cosh(z))), concat(z / (z + 1.f), 2.f / z));
  };
  const auto got = compile(all)(z.to(gpu)).to(device::cpu()).to_vector(), want = all(z).to_vector();
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i / points.size());
    CAPTURE(points[i % points.size()]);
    const auto same = [](float a, float b) {
      if (a == 0 && b == 0) return std::signbit(a) == std::signbit(b);
      return a == b || (a != a && b != b) || std::abs(a / 2 - b / 2) <= 1e-5f * std::abs(b) + 1e-44f;
    };
    CHECK((same(got[i].real(), want[i].real()) && same(got[i].imag(), want[i].imag())));
  }
}
