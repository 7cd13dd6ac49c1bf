// base/float16.hpp: the two 16-bit floating types, as storage with exact conversions to and from float.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace sinter {

/// IEEE 754 binary16. Conversion from float rounds to nearest even; overflow gives infinity.
struct f16 {
  std::uint16_t bits = 0;

  f16() = default;
  constexpr f16(float x) : bits(round(x)) {}
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr explicit f16(T x) : f16(static_cast<float>(x)) {}

  constexpr operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    // 2^112 restores the exponent bias, also for subnormals.
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
  }

  static constexpr f16 from_bits(std::uint16_t b) {
    f16 h;
    h.bits = b;
    return h;
  }

 private:
  static constexpr std::uint16_t round(float x) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
    const std::uint16_t sign = static_cast<std::uint16_t>(u >> 16 & 0x8000u);
    const std::uint32_t a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
    if (a >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
    if (a < 0x38800000u) {
      // Adding 0.5 aligns the last kept bit of a subnormal half with the last bit of the float.
      const float f = std::bit_cast<float>(a) + 0.5f;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(f) - 0x3f000000u));
    }
    const std::uint32_t rounded = a + 0xfffu + (a >> 13 & 1u);
    return static_cast<std::uint16_t>(sign | (rounded - 0x38000000u) >> 13);
  }
};

/// bfloat16: the upper half of a float. Conversion from float rounds to nearest even.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  constexpr bf16(float x) : bits(round(x)) {}
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr explicit bf16(T x) : bf16(static_cast<float>(x)) {}

  constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

  static constexpr bf16 from_bits(std::uint16_t b) {
    bf16 h;
    h.bits = b;
    return h;
  }

 private:
  static constexpr std::uint16_t round(float x) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(u >> 16 | 0x40u);
    return static_cast<std::uint16_t>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
  }
};

}  // namespace sinter
