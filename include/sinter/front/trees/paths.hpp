// front/trees/paths.hpp: leaves with their paths, "blocks.0.qkv.w", numbers and flags included on request.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../base/callback.hpp"
#include "takes.hpp"
#include "tree_map.hpp"

namespace sinter {

namespace detail {

template <class T, class F>
inline constexpr bool is_visited_whole = false;
template <class T, class F>
requires requires { F::template is_whole<T>; }
inline constexpr bool is_visited_whole<T, F> = F::template is_whole<T>;

/// Calls f(place, leaf) for every leaf in order. If F has is_whole, parts that it selects are passed as a whole.
template <bool Scalars, class T, class F>
void visit_places(const T& t, const tree_place& at, const F& f) {
  constexpr branch b = branch_of<T>();
  if constexpr (b == branch::tensor || (b == branch::scalar && Scalars)) {
    f(at, t);
  } else if constexpr (is_visited_whole<T, F>) {
    f(at, t);
  } else if constexpr (b == branch::array || b == branch::vector) {
    for (std::size_t i = 0; i < t.size(); ++i)
      visit_places<Scalars, element_in<T>>(t[i], tree_place{&at, i, nullptr, nullptr}, f);
  } else if constexpr (b == branch::map) {
    for (const auto& [key, x] : t) visit_places<Scalars>(x, tree_place{&at, 0, nullptr, &key}, f);
  } else if constexpr (b == branch::optional) {
    if (t) visit_places<Scalars>(*t, at, f);
  } else if constexpr (b == branch::variant) {
    with_alternative(
        t,
        [&](auto i) {
          visit_places<Scalars>(*get_if<i>(&t), tree_place{&at, i, nullptr, nullptr}, f);
        },
        places_of(children_of<T>{}));
  } else if constexpr (b != branch::scalar && b != branch::refused) {
    with_children(t, [&]<class... Child>(const Child&... child) {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (visit_places<Scalars>(child, tree_place{&at, I, child_name<T, I>(), nullptr}, f), ...);
      }
      (std::index_sequence_for<Child...>{});
    });
  }
}

/// Whether numbers are leaves: on request, or in a tree without tensors.
template <bool All, class T>
inline constexpr bool scalars_of = All || facts_of<T>.tensors == 0;

/// map_tree for the user's function, which receives the path of each leaf.
template <bool All, class F, class T, class... Ts>
auto map_with_path(location where, F& f, const T& t, const Ts&... ts) {
  const auto call = [&](const tree_place& at, const auto&... x) -> decltype(auto) {
    constexpr bool right = told_to_take<F&, std::string, decltype(x)...>();
    constexpr bool takes = std::is_invocable_v<F&, std::string, decltype(x)...>;
    static_assert(
        right,
        "sinter: [tree_map_with_path] the function does not take every leaf behind its path, a std::string: a "
        "dtype or a rank, or the number of trees differs");
    if constexpr (takes) return detail::invoke(where, f, path_of(at), x...);
    else return std::get<0>(std::tie(x...));
  };
  return tree_mapper<decltype(call), scalars_of<All, T>, true>{call, "tree_map_with_path", where}(tree_place{}, t,
                                                                                                  ts...);
}

template <bool All, class F, class T>
void for_each_with_path(location where, F& f, const T& t) {
  visit_places<scalars_of<All, T>>(t, tree_place{}, [&]<class Leaf>(const tree_place& at, const Leaf& x) {
    constexpr bool right = told_to_take<F&, std::string, const Leaf&>();
    constexpr bool takes = std::is_invocable_v<F&, std::string, const Leaf&>;
    static_assert(
        right,
        "sinter: [tree_for_each_with_path] the function does not take every leaf behind its path, a std::string");
    if constexpr (takes) detail::invoke(where, f, path_of(at), x);
  });
}

template <bool All, class T>
std::vector<std::string> paths_of(const T& t) {
  std::vector<std::string> out;
  visit_places<scalars_of<All, T>>(t, tree_place{},
                                   [&](const tree_place& at, const auto&) { out.push_back(path_of(at)); });
  return out;
}

}  // namespace detail

/// tree_map whose function receives the path of each leaf first, a std::string: `blocks.0.qkv.w`. A path consists of the
/// names of fields, the keys of maps, and indexes in vectors, arrays, tuples and variants; an optional adds nothing. A field
/// whose name the compiler does not provide has its index. Up to four trees.
template <class F, class T, class T2 = detail::absent, class T3 = detail::absent, class T4 = detail::absent>
auto tree_map_with_path(F&& f, const T& t, const T2& t2 = {}, const T3& t3 = {}, const T4& t4 = {},
                        location where = location::current()) {
  if constexpr (detail::is_absent<T2>) return detail::map_with_path<false>(where, f, t);
  else if constexpr (detail::is_absent<T3>) return detail::map_with_path<false>(where, f, t, t2);
  else if constexpr (detail::is_absent<T4>) return detail::map_with_path<false>(where, f, t, t2, t3);
  else return detail::map_with_path<false>(where, f, t, t2, t3, t4);
}
/// As above for every leaf, numbers, enums, flags and text included, so that a counter in a tree is loaded as its tensors are.
template <class F, class T, class T2 = detail::absent, class T3 = detail::absent, class T4 = detail::absent>
auto tree_map_with_path(F&& f, all_leaves_t, const T& t, const T2& t2 = {}, const T3& t3 = {}, const T4& t4 = {},
                        location where = location::current()) {
  if constexpr (detail::is_absent<T2>) return detail::map_with_path<true>(where, f, t);
  else if constexpr (detail::is_absent<T3>) return detail::map_with_path<true>(where, f, t, t2);
  else if constexpr (detail::is_absent<T4>) return detail::map_with_path<true>(where, f, t, t2, t3);
  else return detail::map_with_path<true>(where, f, t, t2, t3, t4);
}

/// Calls f(path, leaf) for each leaf that tree_map visits, in order; see tree_map_with_path.
template <class F, class T>
void tree_for_each_with_path(F&& f, const T& t, location where = location::current()) {
  detail::for_each_with_path<false>(where, f, t);
}
/// As above for every leaf, to save the whole tree.
template <class F, class T>
void tree_for_each_with_path(F&& f, all_leaves_t, const T& t, location where = location::current()) {
  detail::for_each_with_path<true>(where, f, t);
}

/// The paths of the leaves that tree_leaves lists, in its order.
template <class T>
std::vector<std::string> tree_paths(const T& t) {
  return detail::paths_of<false>(t);
}
/// The paths of all leaves.
template <class T>
std::vector<std::string> tree_paths(all_leaves_t, const T& t) {
  return detail::paths_of<true>(t);
}

}  // namespace sinter
