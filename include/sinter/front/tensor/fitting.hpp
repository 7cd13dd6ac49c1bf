// front/tensor/fitting.hpp: converts a C++ number to an element of a dtype that can hold it.
#pragma once

#include <limits>
#include <string>
#include <type_traits>

#include "../../base/dtype.hpp"
#include "../../base/error.hpp"
#include "../../base/text.hpp"

namespace sinter::detail {

/// Whether an integral T has the value of a C++ number.
template <class T, class Arg>
constexpr bool holds(const Arg& x) {
  if constexpr (std::is_integral_v<Arg>) {
    return static_cast<Arg>(static_cast<T>(x)) == x && (x < Arg(0)) == (static_cast<T>(x) < T(0));
  } else {
    constexpr Arg low = static_cast<Arg>(std::numeric_limits<T>::min()),
                  over = static_cast<Arg>(std::numeric_limits<T>::max() / 2 + 1) * 2;
    return x >= low && x < over && static_cast<Arg>(static_cast<T>(x)) == x;
  }
}

/// user_error for a C++ number that an integral T cannot hold; `instead` says what to write.
template <class T, class Arg>
constexpr void check_number(const char* op, const Arg& x, const char* instead, location at) {
  if constexpr (std::is_arithmetic_v<Arg> && std::is_integral_v<T>)
    if (!holds<T>(x)) {
      std::string number;
      if constexpr (std::is_integral_v<Arg>) number = std::to_string(x);
      else number = text::number(static_cast<double>(x));
      fail(op, "the number " + number + " does not fit " + dtype_name(dtype_of<T>) + "; " + instead, at);
    }
}

/// A parameter that takes values convertible to T. The function named by Op throws user_error for a number that T cannot hold.
template <class T, const char* const& Op>
struct fitting {
  T value;

  template <class Arg>
  requires std::is_convertible_v<const Arg&, T>
  constexpr fitting(const Arg& x, location at = location::current()) : value(checked(x, at)) {}
  constexpr operator T() const { return value; }

 private:
  template <class Arg>
  static constexpr T checked(const Arg& x, location at) {
    check_number<T>(Op, x, "give one that does, or another dtype", at);
    return static_cast<T>(x);
  }
};

inline constexpr const char *full_name = "full", *arange_name = "arange", *randint_name = "randint",
                            *fill_name = "fill";

}  // namespace sinter::detail
