// front/trees/rebind.hpp: a struct template whose fields take other types: mlp<float> becomes mlp<bf16>.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "names.hpp"
#include "tree.hpp"

namespace sinter::detail {

/// A type in a tree, and its new type.
template <class From, class To>
struct type_change {};

template <class... A, class... B>
constexpr type_list<A..., B...> joined(type_list<A...>, type_list<B...>) {
  return {};
}
template <class... Lists>
constexpr auto joined_all(Lists... lists) {
  if constexpr (sizeof...(Lists) == 0) return type_list<>{};
  else
    return [](auto first, auto... more) {
      if constexpr (sizeof...(more) == 0) return first;
      else return joined(first, joined_all(more...));
    }(lists...);
}

template <class From, class To>
constexpr auto changes();

template <class... From, class... To>
constexpr auto changes_of(type_list<From...>, type_list<To...>) {
  if constexpr (sizeof...(From) != sizeof...(To)) return type_list<>{};
  else return joined_all(changes<From, To>()...);
}

/// All changes between two types and within them.
template <class From, class To>
constexpr auto changes() {
  constexpr branch b = branch_of<From>();
  using whole = type_list<type_change<From, To>>;
  if constexpr (std::is_same_v<From, To> || b == branch::refused) return type_list<>{};
  else if constexpr (is_leaf<From> || is_leaf<To> || b != branch_of<To>()) return whole{};
  else if constexpr (has_elements(b)) return joined(whole{}, changes<element_in<From>, element_in<To>>());
  else return joined(whole{}, changes_of(children_of<From>{}, children_of<To>{}));
}

/// The new type of a template's argument A under a change; A if the change does not determine it.
template <class A, class From, class To>
constexpr auto by_change(type_change<From, To>) {
  if constexpr (std::is_same_v<A, From>) return std::type_identity<To>{};
  else if constexpr (is_tensor<From> && is_tensor<To>) {
    if constexpr (std::is_same_v<A, typename From::value_type>) return std::type_identity<typename To::value_type>{};
    else return std::type_identity<A>{};
  } else return std::type_identity<A>{};
}

/// The new type under the first change that determines it.
template <class A>
constexpr auto changed(type_list<>) {
  return std::type_identity<A>{};
}
template <class A, class Change, class... More>
constexpr auto changed(type_list<Change, More...>) {
  using to = typename decltype(by_change<A>(Change{}))::type;
  if constexpr (std::is_same_v<A, to>) return changed<A>(type_list<More...>{});
  else return std::type_identity<to>{};
}

/// The change in rank of the first tensor that changes.
constexpr int rank_moves(type_list<>) { return 0; }
template <class From, class To, class... More>
constexpr int rank_moves(type_list<type_change<From, To>, More...>) {
  if constexpr (is_tensor<From> && is_tensor<To>) return To::rank - From::rank;
  else return rank_moves(type_list<More...>{});
}

template <class T, class Changes>
struct rebound {
  using type = T;
};
template <template <class...> class S, class... A, class Changes>
requires requires { typename S<typename decltype(changed<A>(Changes{}))::type...>; }
struct rebound<S<A...>, Changes> {
  using type = S<typename decltype(changed<A>(Changes{}))::type...>;
};
/// An int may be the rank of the struct's tensors; other constants stay.
template <class N, class Changes>
constexpr N moved(N n, Changes changes) {
  if constexpr (std::is_same_v<N, int>) return n + rank_moves(changes);
  else return n;
}
template <class K, template <K> class S, K N, class Changes>
requires requires { typename S<moved(N, Changes{})>; }
struct rebound<S<N>, Changes> {
  using type = S<moved(N, Changes{})>;
};
template <class K, template <class, K> class S, class A, K N, class Changes>
requires requires { typename S<typename decltype(changed<A>(Changes{}))::type, moved(N, Changes{})>; }
struct rebound<S<A, N>, Changes> {
  using type = S<typename decltype(changed<A>(Changes{}))::type, moved(N, Changes{})>;
};

/// Whether a field holds a result without loss. The type of a number may also be the template's argument.
template <class Field, class Result>
constexpr bool holds() {
  if constexpr (std::is_same_v<Field, Result>) return true;
  else return std::is_convertible_v<Result, Field> && !(std::is_floating_point_v<Result> && std::is_integral_v<Field>);
}
template <class Field, class Result>
constexpr bool holds_again() {
  if constexpr (scalar_like<Field> && scalar_like<Result>)
    return !std::is_integral_v<Field> || std::is_integral_v<Result>;
  else return holds<Field, Result>();
}

template <class... Field, class... Result>
constexpr bool all_hold(type_list<Field...>, type_list<Result...>) {
  if constexpr (sizeof...(Field) != sizeof...(Result)) return false;
  else return (... && holds_again<Field, Result>());
}

/// Whether results are fields of S and not fields of its stack T.
template <class S, class T, class Results>
constexpr bool are_items(Results results) {
  constexpr bool made_anew = plain_struct<S> || is_stacked<S> || std::is_default_constructible_v<S>;
  if constexpr (made_anew) return all_hold(children_of<S>{}, results) && !all_hold(children_of<T>{}, results);
  else return false;
}

/// S, if the results are its fields without the stack's axis. Else the stack of S with other arguments, if it holds the
/// results; else T.
template <class S, class T, class Changes, class Results>
constexpr auto stack_of_results(std::type_identity<stacked<S>>, std::type_identity<T> same, Changes, Results) {
  using other = typename rebound<S, Changes>::type;
  if constexpr (are_items<S, T>(Results{})) return std::type_identity<S>{};
  else if constexpr (std::is_same_v<S, other> || !plain_struct<other>) return same;
  else if constexpr (!is_tree<other>()) return same;
  else if constexpr (all_hold(children_of<stacked<other>>{}, Results{})) return std::type_identity<stacked<other>>{};
  else return same;
}

/// The struct that holds these results in place of T's fields: T, or T's template with other arguments.
template <class T, class Fields, class Results>
constexpr auto struct_of_results() {
  if constexpr (std::is_same_v<Fields, Results>) return std::type_identity<T>{};
  else if constexpr (is_stacked<T>) {
    constexpr std::type_identity<T> same;
    return stack_of_results(same, same, changes_of(Fields{}, Results{}), Results{});
  } else if constexpr (!plain_struct<T>) return std::type_identity<T>{};
  else {
    using other = typename rebound<T, decltype(changes_of(Fields{}, Results{}))>::type;
    if constexpr (std::is_same_v<T, other> || !plain_struct<other>) return std::type_identity<T>{};
    else if constexpr (!is_tree<other>()) return std::type_identity<T>{};
    else if constexpr (all_hold(children_of<other>{}, Results{})) return std::type_identity<other>{};
    else return std::type_identity<T>{};
  }
}

/// Field I of T cannot hold a result; the compiler's message shows its name.
template <class T, auto Field, class Result>
constexpr void refuse_result() {
  constexpr bool fits = std::is_void_v<Result>;
  static_assert(fits,
                "[tree] the function's result does not fit the struct's field; return the field's type, or make the "
                "struct a template of its dtype");
}

template <class T, std::size_t I, class Result>
constexpr void refuse_field() {
  if constexpr (has_field_address<T, I>) refuse_result<T, address_of_field<T, I>(), Result>();
  else refuse_result<T, I, Result>();
}

}  // namespace sinter::detail
