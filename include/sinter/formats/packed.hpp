// formats/packed.hpp: casts that saturate; integers of few bits, packed in bytes.
#pragma once

#include <limits>
#include <utility>

#include "../sinter.hpp"

namespace sinter {

namespace detail {
struct saturate_t {};

template <class T>
inline constexpr double largest = [] {
  if constexpr (std::is_same_v<T, f16>) return 65504.0;
  else if constexpr (std::is_same_v<T, bf16>) return 0x1.FEp127;
  else if constexpr (std::is_same_v<T, f8_e4m3>) return 448.0;
  else if constexpr (std::is_same_v<T, f8_e5m2>) return 57344.0;
  else return static_cast<double>(std::numeric_limits<T>::max());
}();

template <class X>
constexpr bool check_packed(int bits) {
  constexpr bool bytes = std::is_same_v<typename X::value_type, std::uint8_t> && X::rank >= 1;
  static_assert(bytes, "sinter: [pack, unpack] bytes are a tensor of std::uint8_t with at least one axis");
  return bytes && bits > 0;
}
}  // namespace detail

/// An option of cast: numbers that are too large become the largest number.
inline constexpr detail::saturate_t saturate{};

/// x as dtype R. Magnitudes above R's largest number, infinities included, become that number with x's sign; NaN stays NaN.
/// Floating dtypes.
template <element R, tensor_like X>
auto cast(const X& x, detail::saturate_t, location at = location::current()) {
  constexpr bool floats = is_float(dtype_of<R>) && is_float(dtype_of<typename X::value_type>);
  static_assert(floats, "sinter: [cast] saturates from a floating dtype to another one; integers saturate as they are");
  using T = typename X::value_type;
  if constexpr (!floats || detail::largest<R> >= detail::largest<T>) return sinter::cast<R>(x, at);
  else
    return sinter::cast<R>(clamp(x, static_cast<T>(-detail::largest<R>), static_cast<T>(detail::largest<R>), at), at);
}

/// Integers of 1, 2 or 4 bits from bytes, low bits first: (…, n) bytes give (…, 8 n / Bits). A signed R reads them as two's
/// complement.
template <int Bits, element R = std::uint8_t, tensor_like X>
auto unpack(const X& bytes, location at = location::current()) {
  constexpr bool sizes = (Bits == 1 || Bits == 2 || Bits == 4) && is_integer(dtype_of<R>);
  static_assert(sizes, "sinter: [unpack] unpack<1>, unpack<2> and unpack<4> give integers: unpack<4, std::int8_t>(x)");
  if constexpr (sizes && detail::check_packed<X>(Bits)) {
    constexpr int each = 8 / Bits;
    constexpr std::int32_t mask = (1 << Bits) - 1, sign = 1 << (Bits - 1);
    dims to = detail::to_dims(detail::extents_of(bytes, at));
    dims apart = to;
    apart.push(each);
    to[X::rank - 1] *= each;
    const auto wide = expand_dims<-1>(sinter::cast<std::int32_t>(bytes, at), at);
    const auto low = (wide >> (arange<std::int32_t>(each) * Bits)) & mask;
    const auto value = [&] {
      if constexpr (is_unsigned(dtype_of<R>)) return sinter::cast<R>(low, at);
      else return sinter::cast<R>((low ^ sign) - sign, at);
    }();
    return detail::reshape_to<decltype(value), dims(X::rank)>(value, to, at);
  } else {
    return bytes;
  }
}

/// The inverse of unpack: (…, n) integers give (…, n Bits / 8) bytes, of their lowest bits. user_error if n is not a multiple
/// of 8 / Bits.
template <int Bits, tensor_like X>
auto pack(const X& x, location where = location::current()) {
  constexpr bool sizes =
      (Bits == 1 || Bits == 2 || Bits == 4) && X::rank >= 1 && is_integer(dtype_of<typename X::value_type>);
  static_assert(sizes, "sinter: [pack] pack<1>, pack<2> and pack<4> take integers with at least one axis");
  if constexpr (sizes) {
    const location at = where.in("pack");
    constexpr int each = 8 / Bits;
    const dims from = detail::to_dims(detail::extents_of(x, at));
    const dim last = from[X::rank - 1];
    if (last % each != 0)
      fail("pack",
           "the last axis has " + std::to_string(std::int64_t(last)) + " numbers, of which " + std::to_string(each) +
               " make a byte; pad first",
           at);
    dims apart(X::rank + 1);
    for (int i = 0; i < X::rank; ++i) apart[i] = i == X::rank - 1 ? last / each : from[i];
    apart[X::rank] = each;
    const auto low = sinter::cast<std::int32_t>(x, at) & ((1 << Bits) - 1);
    const auto parts = detail::reshape_to<decltype(low), dims(X::rank + 1)>(low, apart, at);
    return detail::evaluate(
        sinter::cast<std::uint8_t>(sum(parts << (arange<std::int32_t>(each) * Bits), axis<-1>, at), at), at);
  } else {
    return x;
  }
}

}  // namespace sinter
