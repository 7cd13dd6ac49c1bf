// examples/support/digits.hpp: the handwritten digits as pictures.
#pragma once

#include "program.hpp"

struct digits {
  sinter::tensor<float, 4> x;         ///< (count, 1, 8, 8), from 0 to 1
  sinter::tensor<std::int64_t, 1> y;  ///< what they are
};

/// What to learn from, and a fifth that is held out, by an order that never changes.
inline std::pair<digits, digits> load_digits(const std::string& path = SINTER_EXAMPLE_DATA "/digits.csv") {
  const auto all = sinter::data::read_csv(path, {.header = false}).matrix<float>().to(sinter::default_device());
  const auto n = static_cast<std::int64_t>(all.size(0));
  const auto order = sinter::permutation(sinter::make_key(2024), n);
  const auto part = [&](std::int64_t from, std::int64_t to) {
    const sinter::tensor<float, 2> rows = sinter::take(all, sinter::slice<0>(order, from, to), sinter::axis<0>);
    return digits{sinter::reshape(sinter::slice<1>(rows, 0, 64) / 16.f, to - from, 1, 8, 8),
                  sinter::cast<std::int64_t>(sinter::reshape(sinter::slice<1>(rows, 64), to - from))};
  };
  return {part(n / 5, n), part(0, n / 5)};
}
