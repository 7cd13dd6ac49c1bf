// models/stored_rules.hpp: the definitions for stored.hpp; compiled once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "stored.hpp"

namespace sinter::models::detail {

/// One block of at most 32 weights.
inline void pack_block(std::span<const float> given, std::int64_t bits, std::uint8_t* words, bf16& scale) {
  const float most = bits == 8 ? 127.f : 7.f;
  float largest = 0;
  bool finite = true;
  for (const float w : given) {
    largest = std::max(largest, std::abs(w));
    finite = finite && std::isfinite(w);
  }
  scale = finite ? bf16(largest / most) : bf16(std::numeric_limits<float>::quiet_NaN());
  const float step = static_cast<float>(scale);
  std::fill_n(words, bits == 8 ? 32 : 16, std::uint8_t{0});
  for (std::size_t i = 0; i < 32; ++i) {
    const float w = i < given.size() && finite && step > 0 ? given[i] / step : 0;
    const auto q =
        static_cast<unsigned>(static_cast<int>(std::clamp(std::nearbyint(w), -most, most)) + (bits == 8 ? 128 : 8));
    if (bits == 8) words[i] = static_cast<std::uint8_t>(q);
    else words[i % 16] = static_cast<std::uint8_t>(words[i % 16] | q << (i < 16 ? 0 : 4));
  }
}

SINTER_API void pack_rows(std::span<const float> rows, std::int64_t inputs, std::int64_t bits, std::uint8_t* words,
                          bf16* scales) {
  const auto width = static_cast<std::size_t>(inputs);
  if (width == 0) return;
  for (std::size_t row = 0; row + width <= rows.size(); row += width)
    for (std::size_t i = 0; i < width; i += 32, words += bits == 8 ? 32 : 16, ++scales)
      pack_block(rows.subspan(row + i, std::min<std::size_t>(32, width - i)), bits, words, *scales);
}

}  // namespace sinter::models::detail
