// front/compile/integers.hpp: C++ integers of a call whose parameters are rank-0 tensors; they are inputs.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "call.hpp"

namespace sinter::detail {

template <class T>
inline constexpr bool is_integer_scalar = std::is_integral_v<T> || std::is_same_v<T, dim>;

/// The dtype that holds every value of an integer type.
template <class T>
struct integer_element {
  template <class Signed, class Unsigned>
  using of = std::conditional_t<std::is_signed_v<T>, Signed, Unsigned>;
  using type = std::conditional_t<sizeof(T) == 1, of<std::int8_t, std::uint8_t>,
                                  std::conditional_t<sizeof(T) == 2, of<std::int16_t, std::uint16_t>,
                                                     std::conditional_t<sizeof(T) == 4, of<std::int32_t, std::uint32_t>,
                                                                        of<std::int64_t, std::uint64_t>>>>;
};
template <>
struct integer_element<bool> {
  using type = bool;
};
template <>
struct integer_element<dim> {
  using type = std::int64_t;
};

/// Converts to rank-0 tensors and to no other type.
struct any_scalar_tensor {
  template <element T>
  operator tensor<T, dims{}>() const;
};
/// Converts to integers and to no other type.
struct any_integer {
  template <std::integral T>
  operator T() const;
};

/// Whether the types of arguments include such a probe.
template <class... Args>
inline constexpr bool asks_about_integers = (... || (std::is_same_v<std::remove_cvref_t<Args>, any_scalar_tensor> ||
                                                     std::is_same_v<std::remove_cvref_t<Args>, any_integer>));

/// A function within F that is known to take the same arguments as F; else F.
template <class F>
struct function_within {
  using type = F;
};

template <class F, std::size_t At, class... Given>
constexpr bool meets_scalar_tensor() {
  const auto takes = []<class Probe, std::size_t... I>(std::type_identity<Probe>, std::index_sequence<I...>) {
    return is_viable<F, std::conditional_t<I == At, Probe, Given>...>();
  };
  constexpr std::index_sequence_for<Given...> places;
  return takes(std::type_identity<any_scalar_tensor>{}, places) && !takes(std::type_identity<any_integer>{}, places);
}

/// Whether argument At of F(Args...) is an integer whose parameter takes rank-0 tensors and not integers. It is then read by
/// each call, without a guard. False for a function object with a template call operator that is not const.
template <class F, std::size_t At, class... Args>
constexpr bool opens_integer() {
  if constexpr (!is_integer_scalar<std::remove_cvref_t<std::tuple_element_t<At, std::tuple<Args...>>>>) return false;
  else {
    using inner = typename function_within<F>::type;
    if constexpr (!std::is_same_v<inner, F>) return opens_integer<inner, At, Args...>();
    else {
      constexpr bool numbers = takes_numbers<F, Args...>;
      if constexpr (!fixed_function<F>) {
        if constexpr (std::is_final_v<F> || !std::is_invocable_v<const F&, given_t<numbers, Args>...>) return false;
        else return meets_scalar_tensor<F, At, given_t<numbers, Args>...>();
      } else {
        return meets_scalar_tensor<F, At, given_t<numbers, Args>...>();
      }
    }
  }
}

/// The argument, as a number if it is such an integer.
template <bool Opens, class T>
decltype(auto) opened(T&& x) {
  if constexpr (Opens) {
    using type = typename integer_element<std::remove_cvref_t<T>>::type;
    return number<type>(static_cast<type>(x));
  } else {
    return static_cast<T&&>(x);
  }
}

/// use(arguments...), with those integers as numbers.
template <class F, class Use, class... Args>
decltype(auto) with_opened(Use&& use, Args&&... args) {
  return [&]<std::size_t... I>(std::index_sequence<I...>)->decltype(auto) {
    return use(opened<opens_integer<F, I, Args...>()>(static_cast<Args&&>(args))...);
  }
  (std::index_sequence_for<Args...>{});
}

}  // namespace sinter::detail
