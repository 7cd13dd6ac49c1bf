// base/dtype.hpp: the element types, their names and kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "error.hpp"
#include "float16.hpp"
#include "float8.hpp"

namespace sinter {

using f32 = float;
using f64 = double;

// clang-format off
//                  name  C++ type       kind
#define SINTER_DTYPES(X)                        \
  X(b8,   bool,          boolean)               \
  X(i8,   std::int8_t,   signed_integer)        \
  X(i16,  std::int16_t,  signed_integer)        \
  X(i32,  std::int32_t,  signed_integer)        \
  X(i64,  std::int64_t,  signed_integer)        \
  X(u8,   std::uint8_t,  unsigned_integer)      \
  X(u16,  std::uint16_t, unsigned_integer)      \
  X(u32,  std::uint32_t, unsigned_integer)      \
  X(u64,  std::uint64_t, unsigned_integer)      \
  X(f16,  f16,           floating)              \
  X(bf16, bf16,          floating)              \
  X(f32,  float,         floating)              \
  X(f64,  double,        floating)              \
  X(f8_e4m3, f8_e4m3,    floating)              \
  X(f8_e5m2, f8_e5m2,    floating)
// clang-format on

/// The type of a tensor's elements: b8, i8 to i64, u8 to u64, f8_e4m3, f8_e5m2, f16, bf16, f32, f64.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // g++ warns about scoped enumerators
enum class dtype : std::uint8_t {
#define SINTER_X(name, type, kind) name,
  SINTER_DTYPES(SINTER_X)
#undef SINTER_X
};
#pragma GCC diagnostic pop

enum class dtype_kind : std::uint8_t { boolean, signed_integer, unsigned_integer, floating };

/// "f32"; "bool" for b8.
constexpr const char* dtype_name(dtype t) {
  switch (t) {
#define SINTER_X(name, type, kind) \
  case dtype::name:                \
    return #name[0] == 'b' && #name[1] == '8' ? "bool" : #name;
    SINTER_DTYPES(SINTER_X)
#undef SINTER_X
  }
  return "?";
}

/// Bytes of an element.
constexpr std::size_t size_of(dtype t) {
  switch (t) {
#define SINTER_X(name, type, kind) \
  case dtype::name:                \
    return sizeof(type);
    SINTER_DTYPES(SINTER_X)
#undef SINTER_X
  }
  return 0;
}

constexpr dtype_kind kind_of(dtype t) {
  switch (t) {
#define SINTER_X(name, type, k) \
  case dtype::name:             \
    return dtype_kind::k;
    SINTER_DTYPES(SINTER_X)
#undef SINTER_X
  }
  return dtype_kind::boolean;
}

constexpr bool is_float(dtype t) { return kind_of(t) == dtype_kind::floating; }
constexpr bool is_bool(dtype t) { return t == dtype::b8; }
constexpr bool is_unsigned(dtype t) { return kind_of(t) == dtype_kind::unsigned_integer; }
constexpr bool is_integer(dtype t) { return !is_float(t) && !is_bool(t); }
/// Floats of 16 and 8 bits; arithmetic on them is in f32.
constexpr bool is_narrow(dtype t) { return is_float(t) && size_of(t) < 4; }
template <class T>
inline constexpr bool is_narrow_float =
    std::is_same_v<T, f16> || std::is_same_v<T, bf16> || std::is_same_v<T, f8_e4m3> || std::is_same_v<T, f8_e5m2>;
/// The floating types of arithmetic.
template <class T>
inline constexpr bool is_plain_float = std::is_same_v<T, float> || std::is_same_v<T, double>;
/// The bits of an integer's magnitude, or of a float's significand.
constexpr int digits_of(dtype t) {
  if (t == dtype::f64) return 53;
  if (t == dtype::f32) return 24;
  if (is_narrow(t)) return t == dtype::f16 ? 11 : t == dtype::bf16 ? 8 : t == dtype::f8_e4m3 ? 4 : 3;
  return is_bool(t) ? 1 : static_cast<int>(8 * size_of(t)) - !is_unsigned(t);
}

namespace detail {
template <class T>
struct dtype_of_impl;
#define SINTER_X(name, type, kind)              \
  template <>                                   \
  struct dtype_of_impl<type> {                  \
    static constexpr dtype value = dtype::name; \
  };
SINTER_DTYPES(SINTER_X)
#undef SINTER_X
// The 64-bit integer other than std::int64_t: long and long long are distinct types.
using other_i64 = std::conditional_t<std::is_same_v<std::int64_t, long>, long long, long>;
template <>
struct dtype_of_impl<other_i64> {
  static constexpr dtype value = dtype::i64;
};
template <>
struct dtype_of_impl<std::make_unsigned_t<other_i64>> {
  static constexpr dtype value = dtype::u64;
};
}  // namespace detail

/// True for the C++ types that a tensor can hold.
template <class T>
concept element = requires {
  detail::dtype_of_impl<T>::value;
};

/// The dtype of an element type.
template <element T>
inline constexpr dtype dtype_of = detail::dtype_of_impl<T>::value;

/// Calls f(std::type_identity<T>{}) with the element type T of dtype `t`.
template <class F>
constexpr decltype(auto) visit_dtype(dtype t, F&& f) {
  switch (t) {
#define SINTER_X(name, type, kind) \
  case dtype::name:                \
    return f(std::type_identity<type>{});
    SINTER_DTYPES(SINTER_X)
#undef SINTER_X
  }
  throw internal_error("internal error: unknown dtype");
}

}  // namespace sinter
