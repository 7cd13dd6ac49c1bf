// tests/fft/signals.hpp: signals to transform, and their transforms by the definition.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/fft.hpp>

#include "../close.hpp"

namespace signals {

using namespace sinter;
using cplx = complex128;
using numbers = std::vector<cplx>;
using doubles = std::vector<double>;

/// Numbers that repeat nowhere.
inline numbers signal(std::int64_t n, double seed = 0) {
  numbers out;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(i) + seed;
    out.emplace_back(std::sin(x * 1.7 + 0.3), std::cos(x * x * 0.37));
  }
  return out;
}

template <class T = double>
tensor<std::complex<T>, 2> rows(std::int64_t b, std::int64_t n, double seed = 0) {
  return cast<std::complex<T>>(reshape(tensor<cplx, 1>::from(signal(b * n, seed), {dim(b * n)}), b, n));
}

/// The sum of the definition for each row of n; sign is -1, or 1 for the inverse, which is divided by n.
inline numbers by_definition(const numbers& x, std::int64_t n, int sign = -1) {
  const auto size = static_cast<std::int64_t>(x.size());
  numbers roots, out;
  for (std::int64_t k = 0; k < n; ++k)
    roots.push_back(std::polar(1.0, sign * 2 * 3.141592653589793 * static_cast<double>(k) / static_cast<double>(n)));
  for (std::int64_t row = 0; row < size; row += n)
    for (std::int64_t k = 0; k < n; ++k) {
      cplx sum = 0;
      for (std::int64_t j = 0; j < n; ++j)
        sum += x[static_cast<std::size_t>(row + j)] * roots[static_cast<std::size_t>(j * k % n)];
      out.push_back(sign > 0 ? sum / static_cast<double>(n) : sum);
    }
  return out;
}

template <class Z>
doubles parts(const Z& all) {
  doubles out;
  for (const auto& z : all) {
    out.push_back(static_cast<double>(z.real()));
    out.push_back(static_cast<double>(z.imag()));
  }
  return out;
}

/// Equal but for rounding, relative to the root of n, as sums of n terms of about 1 are.
template <class Got>
void check_transform(const Got& got, const numbers& want, double tolerance) {
  doubles a = parts(got), b = parts(want);
  double most = 1;
  for (const double x : b) most = std::max(most, std::abs(x));
  for (double& x : a) x /= most;
  for (double& x : b) x /= most;
  check_close(a, b, tolerance);
}

}  // namespace signals
