// tests/fuzz/random_values.hpp: what random inputs hold.
#pragma once

#include <limits>
#include <random>
#include <sinter/ir/define.hpp>
#include <vector>

namespace fuzz {

using sinter::ir::literal_array;

/// Values of a dtype: of moderate size mostly, at times small integers, special values, or any bits.
inline literal_array random_values(std::mt19937_64& bits, dtype t, std::vector<std::int64_t> extents) {
  literal_array x{t, std::move(extents), {}, {}};
  std::size_t n = 1;
  for (auto e : x.extents) n *= static_cast<std::size_t>(e);
  const auto style = bits() % 10;
  for (std::size_t i = 0; i < n; ++i) {
    const double unit = static_cast<double>(bits() >> 11) * 0x1p-53;
    const auto small = static_cast<double>(static_cast<std::int64_t>(bits() % 9) - 4);
    double v = 4 * unit - 2;
    if (style < 3) v = small;
    else if (style == 3) v = unit + 0.125;
    else if (style == 4 && bits() % 7 == 0) {
      const double special[] = {
          0.0,   -0.0, 1e30, -1e-30, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(),
          100.0, -7.5};
      v = special[bits() % 8];
    }
    if (sinter::is_bool(t)) {
      x.i.push_back(static_cast<std::int64_t>(bits() & 1));
    } else if (sinter::is_float(t)) {
      sinter::visit_dtype(t, [&]<class T>(std::type_identity<T>) {
        if constexpr (sinter::is_float(sinter::dtype_of<T>)) {
          if constexpr (sizeof(T) == 8) x.f.push_back(v);
          else x.f.push_back(static_cast<double>(static_cast<float>(T(static_cast<float>(v)))));
        }
      });
    } else {
      sinter::visit_dtype(t, [&]<class T>(std::type_identity<T>) {
        if constexpr (std::is_integral_v<T>)
          x.i.push_back(static_cast<std::int64_t>(style < 8 ? static_cast<T>(static_cast<std::int64_t>(small))
                                                            : static_cast<T>(bits())));
      });
    }
  }
  return x;
}

}  // namespace fuzz
