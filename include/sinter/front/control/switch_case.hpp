// front/control/switch_case.hpp: switch_case: chooses among several branches by a number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../functions/pointwise.hpp"
#include "control.hpp"

namespace sinter {

namespace detail {

/// The index of switch_case(), and its place.
struct case_index {
  tensor<std::int64_t, 0> value;
  location at;
  template <class I>
  requires(tensor_like<I> || std::integral<I>) case_index(const I& i, location where = location::current())
      : value(index_of(i, where)), at(where) {}

 private:
  static constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

  template <class I>
  static tensor<std::int64_t, 0> index_of(const I& i, location at) {
    constexpr bool valid = [] {
      if constexpr (tensor_like<I>) return I::rank == 0 && is_integer(dtype_of<typename I::value_type>);
      else return !std::is_same_v<I, bool>;
    }();
    static_assert(valid, "sinter: [switch_case] the index is an integer of rank 0; of a bool branch with cond");
    if constexpr (!valid) return {};
    else if constexpr (std::is_integral_v<I>) return tensor<std::int64_t, 0>(of_number(i));
    else if constexpr (std::is_same_v<typename I::value_type, std::uint64_t>)
      return tensor<std::int64_t, 0>(cast<std::int64_t>(minimum(i, static_cast<std::uint64_t>(most), at), at), at);
    else return tensor<std::int64_t, 0>(cast<std::int64_t>(i, at), at);
  }
  template <class I>
  static std::int64_t of_number(I i) {
    if constexpr (sizeof(I) == 8 && std::is_unsigned_v<I>)
      return static_cast<std::int64_t>(std::min<std::uint64_t>(i, most));
    else return static_cast<std::int64_t>(i);
  }
};

/// Chooses among `Count` branches from `First` on, by halves.
template <std::size_t First, std::size_t Count, class Branches, class... Args>
auto case_of(const tensor<std::int64_t, 0>& index, Branches& branches, location at, const Args&... args) {
  if constexpr (Count == 1) {
    auto& branch = std::get<First>(branches);
    if constexpr (std::is_void_v<call_result_t<decltype(branch), Args...>>) detail::invoke(at, branch, Args(args)...);
    else return settle_tree(detail::invoke(at, branch, Args(args)...));
  } else {
    constexpr std::size_t half = Count / 2, middle = First + half;
    auto low = [&](const Args&... x) { return case_of<First, half>(index, branches, at, x...); };
    auto high = [&](const Args&... x) { return case_of<middle, Count - half>(index, branches, at, x...); };
    return cond_of("switch_case", tensor<bool, 0>(lt(index, static_cast<std::int64_t>(middle), at), at), low, high, at,
                   args...);
  }
}

template <class First, class... Rest>
constexpr bool check_cases() {
  constexpr bool all = (... && (std::is_void_v<First> == std::is_void_v<Rest>));
  static_assert(all, "sinter: [switch_case] one branch returns nothing, another a value");
  if constexpr (!all || std::is_void_v<First>) return all;
  else {
    constexpr bool tensors = facts_of<First>.tensors > 0 && !bare_numbers<First>() && (... && !bare_numbers<Rest>());
    static_assert(tensors,
                  "sinter: [switch_case] the branches return tensors; write a number as a rank-0 tensor: "
                  "tensor<float, 0>(0)");
    if constexpr (!tensors) return false;
    else {
      constexpr bool fit =
          (... && std::is_same_v<decltype(relaxed(std::declval<First>())), decltype(relaxed(std::declval<Rest>()))>);
      static_assert(fit,
                    "sinter: [switch_case] the branches return other structures, dtypes or ranks; all have to return "
                    "the same");
      return fit;
    }
  }
}

template <class... Branch, class... Args>
requires(sizeof...(Branch) == 0) constexpr part_fault fault_of_cases(type_list<Args...>) { return part_fault::none; }
template <class First, class... Rest, class... Args>
constexpr part_fault fault_of_cases(type_list<Args...>) {
  part_fault found = part_fault::none;
  static_cast<void>((... || ((found = fault_of_branches<First, Rest, Args...>()) != part_fault::none)));
  return found;
}

template <class Branches, class... Args, std::size_t... I>
auto switch_of(std::index_sequence<I...>, const case_index& index, Branches& branches, const Args&... args) {
  constexpr bool take = (... && std::is_invocable_v<std::tuple_element_t<I, Branches>&, Args...>);
  if constexpr (take) {
    if constexpr (check_cases<call_result_t<std::tuple_element_t<I, Branches>, Args...>...>())
      return case_of<0, sizeof...(I)>(index.value, branches, index.at, args...);
  }
}

}  // namespace detail

#define SINTER_WRONG_SWITCH(FAULT, TEXT)                                                              \
  template <class... Branch, class... Args>                                                           \
  requires(detail::fault_of_cases<Branch...>(detail::type_list<detail::settled<const Args&>...>{}) == \
           detail::part_fault::FAULT) SINTER_WRONG_CALL("[switch_case] " TEXT)                        \
  detail::wrong_call<> switch_case(const detail::case_index&, std::tuple<Branch...>, const Args&...) { return {}; }
SINTER_WRONG_SWITCH(arguments, "a branch does not take these arguments: their number, a dtype or a rank differs")
SINTER_WRONG_SWITCH(no_result, "one branch returns nothing, another a value")
SINTER_WRONG_SWITCH(results, "the branches return other structures, dtypes or ranks; all have to return the same")
#undef SINTER_WRONG_SWITCH

/// branches[index](args...): `switch_case(i, std::tuple{f, g, h}, x)`. The index is an integer of rank 0, a tensor or a
/// number. An index below 0 selects the first branch; an index beyond the last branch selects the last. Inside compile() a
/// call runs one branch, and it is differentiable as cond is. All branches are traced, and must return one structure, dtype
/// and shape (else user_error). On a GPU a call waits for the index. Outside compile() it calls one branch.
template <class... Branch, class... Args>
auto switch_case(const detail::case_index& index, std::tuple<Branch...> branches, const Args&... args) {
  constexpr bool any = sizeof...(Branch) > 0;
  static_assert(any, "sinter: [switch_case] there is no branch; give a std::tuple of functions");
  if constexpr (any)
    return detail::switch_of(std::index_sequence_for<Branch...>{}, index, branches, detail::settle_tree(args)...);
}

}  // namespace sinter
