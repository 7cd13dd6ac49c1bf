// base/text.hpp: small text helpers; locale-free and deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config.hpp"
#include "dims.hpp"

namespace sinter::text {

/// The shortest decimal that reads back as the same number; otherwise "inf", "-inf" or "nan".
SINTER_API std::string number(double x);
SINTER_API std::string number(float x);
/// x with at most `digits` digits after the point and no trailing zeros; with an exponent below 1e-4 and from 1e8 on.
SINTER_API std::string rounded(double x, int digits);

/// f(item) of every item, separated by `separator`.
template <class Range, class F>
std::string join(const Range& range, std::string_view separator, F&& f) {
  std::string out;
  bool first = true;
  for (const auto& item : range) {
    if (!first) out += separator;
    first = false;
    out += f(item);
  }
  return out;
}

/// "(3, 4)", "(5,)", "()"; in a static shape a dynamic extent is "dyn".
SINTER_API std::string shape(const dims& d);
SINTER_API std::string static_shape(const dims& d);

/// 64-bit FNV-1a; `seed` chains several pieces.
constexpr std::uint64_t hash(std::string_view s, std::uint64_t seed = 0xcbf29ce484222325ull) {
  for (char c : s) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return seed;
}

/// Sixteen hexadecimal digits.
inline std::string hex(std::uint64_t x) {
  std::string out(16, '0');
  for (int i = 15; i >= 0; --i, x >>= 4) out[static_cast<std::size_t>(i)] = "0123456789abcdef"[x & 15];
  return out;
}

}  // namespace sinter::text

#if !defined(SINTER_COMPILED)
#include "define.hpp"
#endif
