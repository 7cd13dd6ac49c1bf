// What tests of complex tensors share: backends, numbers and their comparison.
#pragma once

#include <complex>
#include <vector>

#include "../close.hpp"

using numbers = std::vector<std::complex<double>>;

inline constexpr const char* backends[] = {"cpu", "reference"};

inline std::vector<double> parts(const numbers& all) {
  std::vector<double> out;
  for (const auto& z : all) {
    out.push_back(z.real());
    out.push_back(z.imag());
  }
  return out;
}
inline void check_numbers(const numbers& got, const numbers& want, double tolerance = 1e-13) {
  check_close(parts(got), parts(want), tolerance);
}
