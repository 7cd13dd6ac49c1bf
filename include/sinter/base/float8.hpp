// base/float8.hpp: the two 8-bit floating types, as storage with conversions to and from float.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace sinter {

namespace detail {

/// A float as a sign, `7 - Mantissa` bits of exponent and `Mantissa` bits, rounded to nearest even. `Past` and above stand
/// for numbers beyond the largest, `Nan` for a NaN.
template <int Mantissa, std::uint32_t Past, std::uint32_t Nan>
constexpr std::uint8_t round_to_byte(float x) {
  constexpr int dropped = 23 - Mantissa, bias = (1 << (6 - Mantissa)) - 1;
  constexpr std::uint32_t normal = static_cast<std::uint32_t>(127 - bias + 1) << 23;
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x), sign = u >> 24 & 0x80u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return static_cast<std::uint8_t>(sign | Nan);
  std::uint32_t r = 0;
  if (a < normal) {
    // A float whose last bit has the weight of a subnormal's last bit, so that the addition rounds correctly.
    constexpr std::uint32_t aligned = static_cast<std::uint32_t>(127 - bias + 1 + dropped) << 23;
    r = std::bit_cast<std::uint32_t>(std::bit_cast<float>(a) + std::bit_cast<float>(aligned)) - aligned;
  } else {
    const std::uint32_t rounded = a + ((1u << (dropped - 1)) - 1u) + (a >> dropped & 1u);
    r = (rounded >> dropped) - (static_cast<std::uint32_t>(127 - bias) << Mantissa);
  }
  return static_cast<std::uint8_t>(sign | (r < Past ? r : Past));
}

}  // namespace detail

/// OCP 8-bit E4M3: numbers to 448, no infinities. Conversion from float rounds to nearest even; beyond 464, NaN.
struct f8_e4m3 {
  std::uint8_t bits = 0;

  f8_e4m3() = default;
  constexpr f8_e4m3(float x) : bits(detail::round_to_byte<3, 0x7f, 0x7f>(x)) {}
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr explicit f8_e4m3(T x) : f8_e4m3(static_cast<float>(x)) {}

  constexpr operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24, a = bits & 0x7fu;
    if (a == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
    const float number = a < 8 ? static_cast<float>(a) * 0x1p-9f : std::bit_cast<float>((a << 20) + (120u << 23));
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(number));
  }

  static constexpr f8_e4m3 from_bits(std::uint8_t b) {
    f8_e4m3 x;
    x.bits = b;
    return x;
  }
};

/// OCP 8-bit E5M2, the upper half of a binary16: numbers to 57344. Conversion from float rounds to nearest even; from 61440 on, infinity.
struct f8_e5m2 {
  std::uint8_t bits = 0;

  f8_e5m2() = default;
  constexpr f8_e5m2(float x) : bits(detail::round_to_byte<2, 0x7c, 0x7e>(x)) {}
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr explicit f8_e5m2(T x) : f8_e5m2(static_cast<float>(x)) {}

  constexpr operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24, a = bits & 0x7fu;
    if (a >= 0x7cu) return std::bit_cast<float>(sign | 0x7f800000u | (a & 3u) << 21);
    const float number = a < 4 ? static_cast<float>(a) * 0x1p-16f : std::bit_cast<float>((a << 21) + (112u << 23));
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(number));
  }

  static constexpr f8_e5m2 from_bits(std::uint8_t b) {
    f8_e5m2 x;
    x.bits = b;
    return x;
  }
};

}  // namespace sinter
