// tests/close.hpp: numbers that are equal but for rounding; one check an array.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

/// As doctest::Approx of each element; a NaN is close to a NaN.
template <class Got, class Want>
void check_close(const Got& got, const Want& want, double epsilon) {
  REQUIRE(got.size() == want.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto a = static_cast<double>(got[i]), b = static_cast<double>(want[i]);
    const bool good =
        (a != a && b != b) || a == b || std::abs(a - b) < epsilon * (1 + std::max(std::abs(a), std::abs(b)));
    if (!good && wrong++ == 0) FAIL_CHECK("element ", i, " is ", a, ", expected ", b);
  }
  CHECK(wrong == 0);
}
