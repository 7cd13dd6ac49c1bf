// base/text.hpp: small text helpers; locale-free and deterministic.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "dims.hpp"

namespace sinter::text {

/// Shortest decimal that reads back as the same double; "inf", "-inf" and "nan" for the others.
inline std::string number(double x) {
  char buffer[32];
  const auto [end, ec] = std::to_chars(buffer, buffer + sizeof buffer, x);
  (void)ec;
  return std::string(buffer, end);
}

inline std::string number(float x) {
  char buffer[32];
  const auto [end, ec] = std::to_chars(buffer, buffer + sizeof buffer, x);
  (void)ec;
  return std::string(buffer, end);
}

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

/// "(3, 4)", "(5,)", "()"; a dynamic extent prints as "dyn".
inline std::string shape(const dims& d) {
  return "(" + join(d, ", ", [](std::int64_t e) { return e == dyn ? std::string("dyn") : std::to_string(e); }) +
         (d.rank == 1 ? ",)" : ")");
}

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
