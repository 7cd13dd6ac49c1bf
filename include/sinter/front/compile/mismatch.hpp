// front/compile/mismatch.hpp: the first argument of a wrong call that a function does not take, as a type that compilers print.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../tensor/tensor.hpp"
#include "../trees/takes.hpp"

namespace sinter::detail {

/// The facts that a compiler's error prints about arguments that a function does not take.
namespace told {

/// Argument N, counted from 0.
template <int N>
struct argument;
template <int N>
struct number_of_arguments;
template <int N>
struct takes;
/// A tensor of this dtype and rank; for other types the type alone.
template <class T, int... Rank>
struct is;
template <class T, int... Rank>
struct wants;
template <class... Parts>
struct mismatch;

template <template <class, int...> class To, class T>
struct type_of {
  using type = To<T>;
};
template <template <class, int...> class To, class T>
requires requires { typename T::tensor_like_tag; }
struct type_of<To, T> {
  using type = To<typename T::value_type, T::rank>;
};

}  // namespace told

template <class... P>
struct parameters {};
template <class R, class... P>
parameters<P...> parameters_of(R (*)(P...));
template <class R, class C, class... P>
parameters<P...> parameters_of(R (C::*)(P...));
template <class R, class C, class... P>
parameters<P...> parameters_of(R (C::*)(P...) const);

/// The parameters of F, a pointer to a function or a class with one operator() that is not a template.
template <class F>
constexpr auto parameters_in() {
  if constexpr (requires(F f) { parameters_of(f); })
    return std::type_identity<decltype(parameters_of(std::declval<F>()))>{};
  else if constexpr (requires { parameters_of(&F::operator()); })
    return std::type_identity<decltype(parameters_of(&F::operator()))>{};
  else return std::type_identity<void>{};
}

template <int N>
constexpr auto first_mismatch(parameters<>, parameters<>) {
  return std::type_identity<told::mismatch<>>{};
}
template <int N, class Given, class... MoreGiven, class Wanted, class... MoreWanted>
constexpr auto first_mismatch(parameters<Given, MoreGiven...>, parameters<Wanted, MoreWanted...>) {
  if constexpr (std::is_convertible_v<Given, Wanted>)
    return first_mismatch<N + 1>(parameters<MoreGiven...>{}, parameters<MoreWanted...>{});
  else {
    constexpr bool changes = std::is_lvalue_reference_v<Wanted> && !std::is_const_v<std::remove_reference_t<Wanted>>;
    using wanted = std::conditional_t<changes, Wanted, std::remove_cvref_t<Wanted>>;
    return std::type_identity<
        told::mismatch<told::argument<N>, typename told::type_of<told::is, std::remove_cvref_t<Given>>::type,
                       typename told::type_of<told::wants, wanted>::type>>{};
  }
}

/// A wrong call of F, overloaded or a template, with arguments Given. F's body is not compiled.
template <class F, class... Given>
class generic_call {
  static constexpr std::size_t count = sizeof...(Given);
  using places = std::index_sequence_for<Given...>;
  template <std::size_t I>
  using given = std::tuple_element_t<I, std::tuple<Given...>>;

  /// Whether F takes T as argument At.
  template <class T, std::size_t At, std::size_t... I>
  static constexpr bool has(std::index_sequence<I...>) {
    return is_viable<F, std::conditional_t<I == At, T, Given>...>();
  }
  /// Whether the parameter's type does not depend on the arguments.
  template <std::size_t At>
  static constexpr bool is_fixed = has<converts_to_all, At>(places{});
  /// A type does not take T if T's conversion to it is deleted.
  template <class T, std::size_t At>
  static constexpr bool fits() {
    if constexpr (is_fixed<At>) return has<converts_as<T>, At>(places{});
    else return has<T, At>(places{});
  }

  template <std::size_t At, class T, class... More>
  static constexpr auto first_that_fits() {
    if constexpr (fits<T, At>()) return std::type_identity<T>{};
    else if constexpr (sizeof...(More) > 0) return first_that_fits<At, More...>();
    else return std::type_identity<void>{};
  }
  template <std::size_t At, class... T>
  static constexpr auto first_that_fits(parameters<T...>) {
    return first_that_fits<At, T...>();
  }
  template <int R>
  using of_rank = parameters<tensor<float, R>, tensor<double, R>, tensor<bf16, R>, tensor<f16, R>,
                             tensor<std::int64_t, R>, tensor<std::int32_t, R>, tensor<bool, R>, tensor<std::uint8_t, R>,
                             tensor<std::int8_t, R>, tensor<std::int16_t, R>, tensor<std::uint64_t, R>>;
  template <class T>
  using of_dtype = parameters<tensor<T, 0>, tensor<T, 1>, tensor<T, 2>, tensor<T, 3>, tensor<T, 4>, tensor<T, 5>>;
  template <std::size_t At, class Types, class... More>
  static constexpr auto first_among() {
    using found = typename decltype(first_that_fits<At>(Types{}))::type;
    if constexpr (sizeof...(More) == 0 || !std::is_void_v<found>) return std::type_identity<found>{};
    else return first_among<At, More...>();
  }
  /// A type that F takes as argument At, nearest tensors first.
  template <std::size_t At>
  static constexpr auto wanted() {
    using x = given<At>;
    using others = parameters<double, std::int64_t, bool, std::string>;
    if constexpr (tensor_like<x>)
      return first_among<At, of_rank<x::rank>, of_dtype<typename x::value_type>, of_rank<0>, of_rank<1>, of_rank<2>,
                         of_rank<3>, of_rank<4>, others>();
    else return first_among<At, of_rank<0>, of_rank<1>, of_rank<2>, of_rank<3>, of_rank<4>, others>();
  }
  template <std::size_t At>
  using wanted_t = typename decltype(wanted<At>())::type;

  /// The first argument with a fixed parameter type that it does not fit; else the last that F takes as another type. Else
  /// count.
  template <std::size_t... I>
  static constexpr std::size_t unfit(std::index_sequence<I...>) {
    std::size_t found = count;
    const auto is_wrong = [&](std::size_t at, bool wrong) {
      if (wrong) found = at;
      return wrong;
    };
    static_cast<void>((... || is_wrong(I, is_fixed<I> && !fits<given<I>, I>())));
    if (found == count) static_cast<void>((..., is_wrong(I, !is_fixed<I> && !std::is_void_v<wanted_t<I>>)));
    return found;
  }
  /// The first argument that F takes only as an lvalue, if F takes all of them as lvalues; else count.
  template <std::size_t... I>
  static constexpr std::size_t changed(std::index_sequence<I...> all) {
    std::size_t found = count;
    if constexpr (is_viable<F, Given&...>()) {
      const auto is_one =
          []<std::size_t At, std::size_t... J>(std::integral_constant<std::size_t, At>, std::index_sequence<J...>) {
        return !is_viable<F, std::conditional_t<J == At, Given, Given&>...>();
      };
      static_cast<void>(
          (... || (is_one(std::integral_constant<std::size_t, I>{}, all) && (found = std::size_t{I}, true))));
    }
    return found;
  }

  template <std::size_t Count, std::size_t... I>
  static constexpr bool has_count(std::index_sequence<I...>) {
    using all = std::tuple<Given..., converts_to_all, converts_to_all, converts_to_all, converts_to_all>;
    return is_viable<F, std::tuple_element_t<I, all>...>();
  }
  /// The number of arguments that F takes, at most four more than given; 0 if unknown.
  template <std::size_t Count = 1>
  static constexpr std::size_t wanted_count() {
    if constexpr (Count > count + 4) return 0;
    else if constexpr (has_count<Count>(std::make_index_sequence<Count>{})) return Count;
    else return wanted_count<Count + 1>();
  }

  template <std::size_t At>
  using is_given = typename told::type_of<told::is, given<At>>::type;

 public:
  static constexpr auto mismatch() {
    constexpr std::size_t at = unfit(places{}), lvalue = changed(places{});
    if constexpr (at < count) {
      using wants = wanted_t<at>;
      if constexpr (std::is_void_v<wants>)
        return std::type_identity<told::mismatch<told::argument<int{at}>, is_given<at>>>{};
      else
        return std::type_identity<
            told::mismatch<told::argument<int{at}>, is_given<at>, typename told::type_of<told::wants, wants>::type>>{};
    } else if constexpr (lvalue < count) {
      return std::type_identity<
          told::mismatch<told::argument<int{lvalue}>, is_given<lvalue>, told::wants<given<lvalue>&>>>{};
    } else {
      constexpr std::size_t wants = wanted_count();
      if constexpr (wants == 0 || wants == count) return std::type_identity<told::mismatch<>>{};
      else return std::type_identity<told::mismatch<told::number_of_arguments<int{count}>, told::takes<int{wants}>>>{};
    }
  }
};

/// The first of the arguments Given that F does not take, and the type that F wants; told::mismatch<> if unknown.
template <class F, class... Given>
constexpr auto mismatch_of() {
  using wanted = typename decltype(parameters_in<F>())::type;
  if constexpr (!std::is_void_v<wanted>)
    return []<class... P>(parameters<P...> all) {
      if constexpr (sizeof...(P) == sizeof...(Given)) return first_mismatch<0>(parameters<Given...>{}, all);
      else
        return std::type_identity<
            told::mismatch<told::number_of_arguments<int{sizeof...(Given)}>, told::takes<int{sizeof...(P)}>>>{};
    }(wanted{});
  else if constexpr (callable_class<F>) return generic_call<F, Given...>::mismatch();
  else return std::type_identity<told::mismatch<>>{};
}
template <class F, class... Given>
using mismatch_t = typename decltype(mismatch_of<F, Given...>())::type;

// The error of a call, with a mismatch that gives details.
#define SINTER_WRONG_ARGUMENTS(OP)                                                                                     \
  SINTER_WRONG_CALL("[" OP                                                                                             \
                    "] the function does not take these arguments: their number, a dtype or a rank differs, or text, " \
                    "which is given as std::string; mismatch<argument<N>, is<dtype, rank>, wants<dtype, rank>> says "  \
                    "which, counted from 0")

}  // namespace sinter::detail
