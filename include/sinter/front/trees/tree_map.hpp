// front/trees/tree_map.hpp: functions over trees: map, reduce, the list of leaves.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../base/callback.hpp"
#include "names.hpp"
#include "rebind.hpp"
#include "takes.hpp"
#include "tree.hpp"

namespace sinter {

struct all_leaves_t {};

/// Makes numbers, enums, flags and text leaves beside tensors, too: `tree_map(f, all_leaves, state)`.
inline constexpr all_leaves_t all_leaves{};

namespace detail {

/// A leaf that can be stored: expressions become tensors.
template <class R>
constexpr auto settle(R&& result, location at) {
  using T = std::remove_cvref_t<R>;
  if constexpr (tensor_like<T> && !is_tensor<T>) return tensor<typename T::value_type, T::static_shape>(result, at);
  else return T(std::forward<R>(result));
}

/// The place of a visitor in a tree; lives on the visitor's stack.
struct tree_place {
  const tree_place* up = nullptr;
  std::size_t index = 0;
  const char* name = nullptr;  ///< name_text of a field
  const std::string* key = nullptr;
};

/// "blocks.0.qkv.w": the names of fields, the keys and the indexes from the root; "" at the root. (tree_rules.hpp)
SINTER_API std::string path_of(const tree_place& at);

/// user_error for trees that differ at a place in length, value or alternative. (tree_rules.hpp)
[[noreturn]] SINTER_API void fail_structure(const char* op, const tree_place& at, const char* what, std::size_t first,
                                            std::size_t other, location where);

/// user_error for maps whose keys differ.
[[noreturn]] SINTER_API void fail_keys(const char* op, const tree_place& at, const std::string& first,
                                       const std::string& other, location where);

/// The tensors of a tree, each with an address that stands for its type.
class flat_tree {
 public:
  flat_tree(const char* op, location where, const flat_tree* like) : op_(op), where_(where), like_(like) {}

  SINTER_API void add(const void* leaf, const void* kind);
  /// The length of a vector, or a value that plays its part. user_error if it differs from the tree that this tree must match.
  SINTER_API void length(const tree_place& at, const char* what, std::size_t n);
  /// A map's key, checked in the same way.
  SINTER_API void key(const tree_place& at, const std::string& k);

  std::size_t size() const { return leaves_.size(); }
  const void* leaf(std::size_t i) const { return leaves_[i]; }
  const void* kind(std::size_t i) const { return kinds_[i]; }
  location where() const { return where_; }

 private:
  const char* op_;
  location where_;
  const flat_tree* like_;
  std::vector<const void*> leaves_, kinds_;
  std::vector<std::size_t> lengths_;
  std::vector<const std::string*> keys_;
};

template <class Leaf>
inline constexpr char leaf_kind_of = 0;

template <class T, std::size_t I>
constexpr const char* child_name() {
  if constexpr (branch_of<T>() == branch::structure) return name_text<T, I>();
  else return nullptr;
}

template <class... T>
constexpr std::size_t count_types(type_list<T...>) {
  return sizeof...(T);
}

/// Whether two types have one structure at their roots. Lengths of vectors and optionals are compared at run time.
template <class T, class U>
constexpr bool same_branch() {
  constexpr branch b = branch_of<T>(), c = branch_of<U>();
  if constexpr (b == branch::refused || c == branch::refused) return true;
  else if constexpr (is_leaf<T> || is_leaf<U>) return is_leaf<T> == is_leaf<U>;
  else if constexpr (b == branch::vector || b == branch::map || b == branch::optional || b == branch::variant)
    return b == c;
  else if constexpr (b == branch::array && c == branch::array) return std::tuple_size_v<T> == std::tuple_size_v<U>;
  else if constexpr (b == branch::array || c == branch::array) return false;
  else if constexpr (c == branch::vector || c == branch::map || c == branch::optional || c == branch::variant)
    return false;
  else return count_types(children_of<T>{}) == count_types(children_of<U>{});
}

template <template <class, class> class Fits, class A, class B>
constexpr bool trees_match();

template <template <class, class> class Fits, class... A, class... B>
constexpr bool all_match(type_list<A...>, type_list<B...>) {
  if constexpr (sizeof...(A) != sizeof...(B)) return false;
  else return (... && trees_match<Fits, A, B>());
}

/// Whether the types of two trees have one structure, and Fits<A, B>::value holds for tensors at each place.
template <template <class, class> class Fits, class A, class B>
constexpr bool trees_match() {
  constexpr branch a = branch_of<A>(), b = branch_of<B>();
  if constexpr (a == branch::refused || b == branch::refused) return true;
  else if constexpr (is_dynamic<A> || is_dynamic<B>) return std::is_same_v<A, B>;
  else if constexpr (a == branch::tensor && b == branch::tensor) return Fits<A, B>::value;
  else if constexpr (is_leaf<A> || is_leaf<B>) return a == b;
  else if constexpr (!same_branch<A, B>()) return false;
  else if constexpr (has_elements(a)) return trees_match<Fits, element_in<A>, element_in<B>>();
  else return all_match<Fits>(children_of<A>{}, children_of<B>{});
}

/// Rebuilds trees from the results of `f`. With Scalars, f receives them; otherwise they are copied from the first tree. With
/// Places, f receives the places of leaves.
template <class F, bool Scalars, bool Places = false>
struct tree_mapper {
  F& f;
  const char* op;
  location where;

  template <class T, class... Ts>
  constexpr auto operator()(const tree_place& at, const T& t, const Ts&... ts) const {
    constexpr branch b = branch_of<T>();
    constexpr bool alike = (... && same_branch<T, Ts>());
    static_assert(alike, "[tree] the trees differ: containers, array lengths and numbers of fields must be equal");
    if constexpr (!alike || b == branch::refused) return t;
    else if constexpr (b == branch::tensor || (b == branch::scalar && Scalars))
      return settle(result(at, t, ts...), where);
    else if constexpr (b == branch::scalar) return t;
    else if constexpr (b == branch::array) return map_array(at, t, ts...);
    else if constexpr (b == branch::vector) return map_vector(at, t, ts...);
    else if constexpr (b == branch::map) return map_map(at, t, ts...);
    else if constexpr (b == branch::optional) return map_optional(at, t, ts...);
    else if constexpr (b == branch::variant) return map_variant(at, places_of(children_of<T>{}), t, ts...);
    else if constexpr (std::is_empty_v<T>) return t;
    else
      return map_children(
          at, t, std::make_tuple(with_children(t, child_references{}), with_children(ts, child_references{})...));
  }

 private:
  template <class... Ts>
  constexpr decltype(auto) result(const tree_place& at, const Ts&... ts) const {
    if constexpr (Places) return f(at, ts...);
    else return f(ts...);
  }

  template <class T, std::size_t N, class... Ts>
  constexpr auto map_array(const tree_place& at, const std::array<T, N>& t, const Ts&... ts) const {
    std::array<decltype((*this)(at, t[0], ts[0]...)), N> out{};
    for (std::size_t i = 0; i < N; ++i) out[i] = (*this)(tree_place{&at, i}, t[i], ts[i]...);
    return out;
  }

  template <class T, class... Ts>
  auto map_vector(const tree_place& at, const T& t, const Ts&... ts) const {
    (same(at, "std::vector of length ", t.size(), ts.size()), ...);
    std::vector<decltype((*this)(at, t[0], ts[0]...))> out;
    out.reserve(t.size());
    for (std::size_t i = 0; i < t.size(); ++i) out.push_back((*this)(tree_place{&at, i}, t[i], ts[i]...));
    return out;
  }

  template <template <class...> class M, class T, class Less, class... More, class... Ts>
  auto map_map(const tree_place& at, const M<std::string, T, Less, More...>& t, const Ts&... ts) const {
    (same(at, "std::map of size ", t.size(), ts.size()), ...);
    M<std::string, decltype((*this)(at, t.begin()->second, ts.begin()->second...)), Less> out(t.key_comp());
    std::size_t i = 0;
    [&](auto... others) {
      for (const auto& [key, x] : t) {
        (same_key(at, key, others->first), ...);
        out.emplace_hint(out.end(), key, (*this)(tree_place{&at, i++, nullptr, &key}, x, others->second...));
        (++others, ...);
      }
    }(ts.begin()...);
    return out;
  }

  template <class T, class... Ts>
  constexpr auto map_optional(const tree_place& at, const T& t, const Ts&... ts) const {
    (same(at, "std::optional with values: ", t.has_value(), ts.has_value()), ...);
    using mapped = std::optional<decltype((*this)(at, *t, *ts...))>;
    return t ? mapped((*this)(at, *t, *ts...)) : mapped();
  }

  template <std::size_t I, class... Ts>
  constexpr auto map_alternative(const tree_place& at, const Ts&... ts) const {
    return (*this)(tree_place{&at, I}, *get_if<I>(&ts)...);
  }
  template <template <class...> class V, class... A, std::size_t... I, class... Ts>
  constexpr auto map_variant(const tree_place& at, std::index_sequence<I...> places, const V<A...>& t,
                             const Ts&... ts) const {
    (same(at, "std::variant with alternative ", t.index(), ts.index()), ...);
    ensure(!t.valueless_by_exception(), "a variant in a tree has a value", where);
    std::optional<V<decltype(map_alternative<I>(at, t, ts...))...>> out;
    with_alternative(
        t, [&](auto i) { out.emplace(std::in_place_index<i>, map_alternative<i>(at, t, ts...)); }, places);
    return *std::move(out);
  }

  void same(const tree_place& at, const char* what, std::size_t first, std::size_t other) const {
    if (first != other) fail_structure(op, at, what, first, other, where);
  }
  void same_key(const tree_place& at, const std::string& first, const std::string& other) const {
    if (first != other) fail_keys(op, at, first, other, where);
  }

  template <class T, class... Refs>
  constexpr auto map_children(const tree_place& at, const T& t, const std::tuple<Refs...>& children) const {
    constexpr std::size_t count = std::tuple_size_v<std::tuple_element_t<0, std::tuple<Refs...>>>;
    const auto child = [&](auto i) {
      const tree_place place{&at, i, child_name<T, i>()};
      return std::apply([&](const auto&... refs) { return (*this)(place, std::get<i>(refs)...); }, children);
    };
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      if constexpr (branch_of<T>() == branch::structure) {
        return rebuild(t, std::get<0>(children), child, std::index_sequence<I...>{});
      } else if constexpr (is_pair<T>) {
        auto first = child(std::integral_constant<std::size_t, 0>{});
        return std::pair{std::move(first), child(std::integral_constant<std::size_t, 1>{})};
      } else if constexpr (requires { std::tuple_size<T>::value; }) {
        return std::tuple<decltype(child(std::integral_constant<std::size_t, I>{}))...>{
            child(std::integral_constant<std::size_t, I>{})...};
      } else {
        return boost::hana::tuple<decltype(child(std::integral_constant<std::size_t, I>{}))...>{
            child(std::integral_constant<std::size_t, I>{})...};
      }
    }
    (std::make_index_sequence<count>{});
  }

  template <class T, class... Field, class Child, std::size_t... I>
  constexpr auto rebuild(const T& t, const std::tuple<Field&...>&, const Child& child,
                         std::index_sequence<I...>) const {
    using results = type_list<decltype(child(std::integral_constant<std::size_t, I>{}))...>;
    using made = typename decltype(struct_of_results<T, type_list<std::remove_const_t<Field>...>, results>())::type;
    if constexpr (!std::is_same_v<made, T>) {
      return filled<made>(children_of<made>{}, child, std::index_sequence<I...>{});
    } else if constexpr (plain_struct<T>) {
      return T{hold<T, I, std::remove_const_t<Field>>(child(std::integral_constant<std::size_t, I>{}))...};
    } else {
      T out = t;
      const auto fields = with_children(out, child_references{});
      ((std::get<I>(fields) = hold<T, I, std::remove_const_t<Field>>(child(std::integral_constant<std::size_t, I>{}))),
       ...);
      return out;
    }
  }

  template <class T, class... Field, class Child, std::size_t... I>
  constexpr T filled(type_list<Field...>, const Child& child, std::index_sequence<I...>) const {
    if constexpr (is_stacked<T>)
      return T{std::in_place, again<Field>(child(std::integral_constant<std::size_t, I>{}))...};
    else if constexpr (plain_struct<T>) return T{again<Field>(child(std::integral_constant<std::size_t, I>{}))...};
    else {
      T out{};
      const auto fields = with_children(out, child_references{});
      ((std::get<I>(fields) = again<Field>(child(std::integral_constant<std::size_t, I>{}))), ...);
      return out;
    }
  }
  template <class Field, class Result>
  constexpr Field again(Result&& result) const {
    if constexpr (scalar_like<Field> && !std::is_same_v<Field, std::remove_cvref_t<Result>>)
      return static_cast<Field>(result);
    else return detail::convert<Field>(where, std::forward<Result>(result));
  }

  template <class T, std::size_t I, class Field, class Result>
  constexpr Field hold(Result&& result) const {
    using R = std::remove_cvref_t<Result>;
    if constexpr (std::is_same_v<R, Field>) return std::forward<Result>(result);
    else if constexpr (holds<Field, R>()) return detail::convert<Field>(where, std::forward<Result>(result));
    else {
      refuse_field<T, I, R>();
      return Field{};
    }
  }
};

/// Appends the tensors of `t`, which is at place `at` of a tree.
template <class T>
void flatten(const T& t, const tree_place& at, flat_tree& to) {
  constexpr branch b = branch_of<T>();
  if constexpr (b == branch::tensor) {
    to.add(&t, &leaf_kind_of<T>);
  } else if constexpr (b == branch::array || b == branch::vector) {
    if constexpr (b == branch::vector) to.length(at, "std::vector of length ", t.size());
    if constexpr (facts_of<typename T::value_type>.tensors > 0)
      for (std::size_t i = 0; i < t.size(); ++i) flatten(t[i], tree_place{&at, i}, to);
  } else if constexpr (b == branch::map) {
    to.length(at, "std::map of size ", t.size());
    std::size_t i = 0;
    for (const auto& [key, x] : t) {
      to.key(at, key);
      if constexpr (facts_of<element_in<T>>.tensors > 0) flatten(x, tree_place{&at, i++, nullptr, &key}, to);
    }
  } else if constexpr (b == branch::optional) {
    to.length(at, "std::optional with values: ", t.has_value());
    if (t) flatten(*t, at, to);
  } else if constexpr (b == branch::variant) {
    to.length(at, "std::variant with alternative ", t.index());
    ensure(!t.valueless_by_exception(), "a variant in a tree has a value", to.where());
    with_alternative(
        t,
        [&](auto i) {
          flatten(*get_if<i>(&t), tree_place{&at, i}, to);
        },
        places_of(children_of<T>{}));
  } else if constexpr (b != branch::scalar) {
    with_children(t, [&]<class... Child>(const Child&... child) {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (flatten(child, tree_place{&at, I, child_name<T, I>()}, to), ...);
      }
      (std::index_sequence_for<Child...>{});
    });
  }
}

/// Whether a copy of a tree owns its tensors, so that they can be assigned to.
template <class T>
constexpr bool owns_leaves();
template <class... T>
constexpr bool all_own(type_list<T...>) {
  return (... && owns_leaves<T>());
}
template <class... T>
constexpr bool all_own(std::tuple<T...>*) {
  return (... && (!std::is_reference_v<T> && owns_leaves<std::remove_const_t<T>>()));
}
template <class T, class U>
constexpr bool all_own(std::pair<T, U>*) {
  return all_own(static_cast<std::tuple<T, U>*>(nullptr));
}
template <class T>
constexpr bool owns_leaves() {
  constexpr branch b = branch_of<T>();
  if constexpr (!std::is_copy_assignable_v<T> || !std::is_copy_constructible_v<T>) return false;
  else if constexpr (b == branch::tensor) return is_tensor<T> || is_dynamic<T>;
  else if constexpr (b == branch::scalar) return true;
  else if constexpr (has_elements(b)) return owns_leaves<element_in<T>>();
  else if constexpr (b == branch::structure || b == branch::variant) return all_own(children_of<T>{});
  else if constexpr (requires { all_own(static_cast<T*>(nullptr)); }) return all_own(static_cast<T*>(nullptr));
  else return false;
}

/// Appends the types of a tree's tensors to Found, each type once.
template <class... Found, class T>
constexpr auto with_leaves_of(type_list<Found...> found, std::type_identity<T>);
template <class Found>
constexpr auto with_leaves_of(Found found, type_list<>) {
  return found;
}
template <class Found, class T, class... More>
constexpr auto with_leaves_of(Found found, type_list<T, More...>) {
  return with_leaves_of(with_leaves_of(found, std::type_identity<T>{}), type_list<More...>{});
}
template <class... Found, class T>
constexpr auto with_leaves_of(type_list<Found...> found, std::type_identity<T>) {
  constexpr branch b = branch_of<T>();
  if constexpr (b == branch::scalar || b == branch::refused || (... || std::is_same_v<T, Found>)) return found;
  else if constexpr (b == branch::tensor) return type_list<Found..., T>{};
  else if constexpr (has_elements(b)) return with_leaves_of(found, std::type_identity<element_in<T>>{});
  else return with_leaves_of(found, children_of<T>{});
}

template <class T, class>
using same_leaf = T;

/// Whether f of `N` tensors of each of these types returns the same type.
template <class F, class... N, class... Leaf>
constexpr bool keeps_types(type_list<N...>, type_list<Leaf...>) {
  const auto keeps = []<class L>(std::type_identity<L>) {
    // A requires-expression, since errors in f's body are shorter than through std::invoke_result.
    if constexpr (!requires(F & f, const same_leaf<L, N>&... x) { f(x...); }) {
      return false;
    } else {
      using result = decltype(std::declval<F&>()(std::declval<const same_leaf<L, N>&>()...));
      if constexpr (std::is_void_v<result>) return false;
      else return std::is_same_v<L, decltype(settle(std::declval<result>(), location{}))>;
    }
  };
  return (... && keeps(std::type_identity<Leaf>{}));
}

/// tree_mapper for trees of one type whose leaves keep their types: a copy of the first tree with each tensor replaced. The
/// walk over the trees does not depend on F.
template <class F, class... Leaf, std::size_t... I, class T>
T map_alike(type_list<Leaf...>, std::index_sequence<I...>, const char* op, location where, F& f,
            const T* const (&trees)[sizeof...(I)]) {
  T out = *trees[0];
  flat_tree to(op, where, nullptr), first(op, where, nullptr);
  flatten(*trees[0], tree_place{}, first);
  flat_tree flat[] = {flat_tree(op, where, (static_cast<void>(I), &first))...};
  (flatten(*trees[I], tree_place{}, flat[I]), ...);
  flatten(out, tree_place{}, to);
  const auto set = [&]<class L>(std::type_identity<L>, std::size_t i) {
    if (to.kind(i) != &leaf_kind_of<L>) return false;
    *static_cast<L*>(const_cast<void*>(to.leaf(i))) = settle(f(*static_cast<const L*>(flat[I].leaf(i))...), where);
    return true;
  };
  for (std::size_t i = 0; i < to.size(); ++i) static_cast<void>((... || set(std::type_identity<Leaf>{}, i)));
  return out;
}

template <class F, class T, class... Ts>
constexpr auto map_tree(const char* op, location where, F&& f, const T& t, const Ts&... ts) {
  using function = std::remove_reference_t<F>;
  if constexpr (facts_of<T>.tensors > 0 && !is_leaf<T> && (... && std::is_same_v<T, Ts>)) {
    if constexpr (owns_leaves<T>()) {
      constexpr auto leaves = with_leaves_of(type_list<>{}, std::type_identity<T>{});
      if constexpr (keeps_types<function>(type_list<T, Ts...>{}, leaves))
        return map_alike<function>(leaves, std::index_sequence_for<T, Ts...>{}, op, where, f, {&t, &ts...});
      else return tree_mapper<function, false>{f, op, where}(tree_place{}, t, ts...);
    } else {
      return tree_mapper<function, false>{f, op, where}(tree_place{}, t, ts...);
    }
  } else {
    return tree_mapper<function, facts_of<T>.tensors == 0>{f, op, where}(tree_place{}, t, ts...);
  }
}

/// map_tree for the user's function. With All, it receives the numbers beside tensors, too.
template <bool All = false, class F, class... Ts>
constexpr auto map_tree_by_user(location where, F&& f, const Ts&... ts) {
  const auto call = [&](const auto&... x) -> decltype(auto) {
    constexpr bool right = told_to_take<F, decltype(x)...>(), takes = std::is_invocable_v<F, decltype(x)...>;
    static_assert(right,
                  "sinter: [tree_map] the function does not take every leaf: a dtype or a rank, or the number "
                  "of trees differs");
    if constexpr (takes) return detail::invoke(where, f, x...);
    else return std::get<0>(std::tie(x...));
  };
  if constexpr (All) return tree_mapper<decltype(call), true>{call, "tree_map", where}(tree_place{}, ts...);
  else return detail::map_tree("tree_map", where, call, ts...);
}

struct mixed_leaves {};

/// The common type of leaves in a fold: void without leaves, mixed_leaves if types differ.
template <class T>
struct leaf_kind {
  using type = T;
  template <class U>
  constexpr auto operator+(leaf_kind<U>) const {
    if constexpr (std::is_void_v<T>) return leaf_kind<U>{};
    else if constexpr (std::is_void_v<U> || std::is_same_v<T, U>) return leaf_kind<T>{};
    else return leaf_kind<mixed_leaves>{};
  }
};

template <class T, bool Scalars>
constexpr auto kind_of_leaves();

template <bool Scalars, class... T>
constexpr auto kind_of_leaves(type_list<T...>) {
  return (leaf_kind<void>{} + ... + kind_of_leaves<T, Scalars>());
}

template <class T, bool Scalars>
constexpr auto kind_of_leaves() {
  constexpr branch b = branch_of<T>();
  if constexpr (b == branch::refused) return leaf_kind<void>{};
  else if constexpr (is_dynamic<T>) return leaf_kind<T>{};
  else if constexpr (b == branch::tensor) return leaf_kind<tensor<typename T::value_type, T::static_shape>>{};
  else if constexpr (b == branch::scalar) return leaf_kind<std::conditional_t<Scalars, T, void>>{};
  else if constexpr (has_elements(b)) return kind_of_leaves<element_in<T>, Scalars>();
  else return kind_of_leaves<Scalars>(children_of<T>{});
}

/// The leaves of a tree of fixed size, each with its type.
template <bool Scalars, class T>
constexpr auto leaf_tuple(const T& t, location where) {
  constexpr branch b = branch_of<T>();
  const auto all = [where](const auto&... x) { return std::tuple_cat(leaf_tuple<Scalars>(x, where)...); };
  if constexpr (b == branch::tensor || (b == branch::scalar && Scalars)) return std::tuple{settle(t, where)};
  else if constexpr (b == branch::scalar) return std::tuple<>{};
  else if constexpr (b == branch::array) return std::apply(all, t);
  else return with_children(t, all);
}

}  // namespace detail

/// The tree of f(leaf of t, leaf of each other tree) over all tensors. Expressions become tensors. The trees must have one
/// structure: equal containers, vector lengths, keys of maps, engaged optionals and alternatives of variants (else user_error).
/// Leaf types may differ. Structs keep their type if it holds the results. Otherwise a struct template takes arguments that do:
/// `mlp<float>` becomes `mlp<bf16>`. Tuples, vectors and maps take the results' types. Numbers, enums and flags beside tensors
/// are configuration, and come from the first tree. In a tree without tensors they are the leaves. Up to eight trees.
template <class F, class T, class T2 = detail::absent, class T3 = detail::absent, class T4 = detail::absent,
          class T5 = detail::absent, class T6 = detail::absent, class T7 = detail::absent, class T8 = detail::absent>
constexpr auto tree_map(F&& f, const T& t, const T2& t2 = {}, const T3& t3 = {}, const T4& t4 = {}, const T5& t5 = {},
                        const T6& t6 = {}, const T7& t7 = {}, const T8& t8 = {}, location where = location::current()) {
  const auto over = [&](const auto&... trees) { return detail::map_tree_by_user(where, f, trees...); };
  if constexpr (detail::is_absent<T2>) return over(t);
  else if constexpr (detail::is_absent<T3>) return over(t, t2);
  else if constexpr (detail::is_absent<T4>) return over(t, t2, t3);
  else if constexpr (detail::is_absent<T5>) return over(t, t2, t3, t4);
  else if constexpr (detail::is_absent<T6>) return over(t, t2, t3, t4, t5);
  else if constexpr (detail::is_absent<T7>) return over(t, t2, t3, t4, t5, t6);
  else if constexpr (detail::is_absent<T8>) return over(t, t2, t3, t4, t5, t6, t7);
  else return over(t, t2, t3, t4, t5, t6, t7, t8);
}

/// The same for every leaf: numbers, enums, flags and text go through f, too. Up to four trees.
template <class F, class T, class T2 = detail::absent, class T3 = detail::absent, class T4 = detail::absent>
constexpr auto tree_map(F&& f, all_leaves_t, const T& t, const T2& t2 = {}, const T3& t3 = {}, const T4& t4 = {},
                        location where = location::current()) {
  const auto over = [&](const auto&... trees) { return detail::map_tree_by_user<true>(where, f, trees...); };
  if constexpr (detail::is_absent<T2>) return over(t);
  else if constexpr (detail::is_absent<T3>) return over(t, t2);
  else if constexpr (detail::is_absent<T4>) return over(t, t2, t3);
  else return over(t, t2, t3, t4);
}

/// f(… f(f(init, first leaf), second leaf) …, last leaf), over the leaves that tree_map visits. Every result is converted to
/// init's type: to sum tensors, start from a tensor.
template <class F, class T, class Init>
constexpr auto tree_reduce(F&& f, const T& t, const Init& init, location where = location::current()) {
  using total_type = decltype(detail::settle(init, where));
  total_type total = detail::settle(init, where);
  constexpr bool scalars = detail::facts_of<T>.tensors == 0;
  detail::for_each_leaf(t, [&]<class Leaf>(const Leaf& x) {
    if constexpr (tensor_like<Leaf> || detail::is_dynamic<Leaf> || scalars) {
      static_assert(std::is_convertible_v<std::invoke_result_t<F&, total_type, const Leaf&>, total_type>,
                    "[tree_reduce] the function must return init's type; to add up tensors, start from a tensor");
      total = detail::convert<total_type>(where, detail::invoke(where, f, std::move(total), x));
    }
  });
  return total;
}

/// The leaves that tree_map visits, in order: a std::array for a fixed number of one type, a std::vector for trees with
/// vectors or optionals, a std::tuple for different types.
template <class T>
constexpr auto tree_leaves(const T& t, location where = location::current()) {
  constexpr detail::tree_facts facts = detail::facts_of<T>;
  constexpr bool scalars = facts.tensors == 0;
  using leaf = typename decltype(detail::kind_of_leaves<T, scalars>())::type;
  const auto each = [&](auto&& take) {
    detail::for_each_leaf(t, [&]<class Leaf>(const Leaf& x) {
      if constexpr (tensor_like<Leaf> || detail::is_dynamic<Leaf> || scalars) take(detail::settle(x, where));
    });
  };
  if constexpr (std::is_void_v<leaf>) {
    return std::tuple<>{};
  } else if constexpr (std::is_same_v<leaf, detail::mixed_leaves>) {
    static_assert(facts.fixed, "[tree_leaves] leaves of several types in a vector or optional; use tree_reduce");
    if constexpr (facts.fixed) return detail::leaf_tuple<scalars>(t, where);
  } else if constexpr (facts.fixed) {
    std::array<leaf, static_cast<std::size_t>(scalars ? facts.statics : facts.tensors)> out{};
    std::size_t n = 0;
    each([&](leaf x) { out[n++] = std::move(x); });
    return out;
  } else {
    std::vector<leaf> out;
    each([&](leaf x) { out.push_back(std::move(x)); });
    return out;
  }
}

}  // namespace sinter

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "tree_rules.hpp"
#endif
