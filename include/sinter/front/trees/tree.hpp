// front/trees/tree.hpp: trees: tensors and numbers in tuples, vectors, maps, optionals, variants and structs; the walk over
// leaves.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../tensor/tensor.hpp"
#include "fields.hpp"

namespace sinter {

/// True for a class that compiled functions compare by its bytes. Specialise it for a class without pointers:
/// `template <> inline constexpr bool sinter::is_value<std::chrono::seconds> = true;`
template <class T>
inline constexpr bool is_value = false;

template <class S>
class stacked;

class dynamic_tensor;

namespace detail {

/// A tensor whose dtype and rank are run-time values. (onnx/dynamic.hpp)
template <class T>
inline constexpr bool is_dynamic = std::is_same_v<T, dynamic_tensor>;

/// A stack of structs: a tree of the struct's fields. (stacked.hpp)
template <class T>
inline constexpr bool is_stacked = false;
template <class S>
inline constexpr bool is_stacked<stacked<S>> = true;

struct stack_access {
  template <class T>
  static constexpr auto& fields(T& t) {
    return t.fields_;
  }
};
template <class S>
struct struct_behind<stacked<S>> : struct_behind<S> {};

template <class T>
concept text_leaf = std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>;

template <class T>
concept bytes_leaf = is_value<T>;

template <class T>
inline constexpr bool is_vector = false;
template <class T, class A>
inline constexpr bool is_vector<std::vector<T, A>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
/// std::variant; users include its header.
template <class T>
inline constexpr bool is_variant = requires(const T& x) {
  x.valueless_by_exception();
  x.index();
};
template <class T>
inline constexpr bool is_array = false;
template <class T, std::size_t N>
inline constexpr bool is_array<std::array<T, N>> = true;
/// std::map; users include its header.
template <class T>
concept is_map = requires(T& x, const typename T::key_type& key, typename T::key_compare less) {
  { x.at(key) } -> std::same_as<typename T::mapped_type&>;
  x.key_comp();
};
template <class T>
inline constexpr bool is_pair = false;
template <class A, class B>
inline constexpr bool is_pair<std::pair<A, B>> = true;
template <class T>
inline constexpr bool is_tuple = is_pair<T>;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class... T>
inline constexpr bool is_tuple<boost::hana::tuple<T...>> = true;

/// True for a class with its own == and std::hash, unless it is an aggregate or a pointer.
template <class T>
inline constexpr bool is_hashable = false;
template <class T>
requires(std::is_class_v<T> && !std::is_aggregate_v<T> && !tensor_like<T> && !is_dynamic<T> && !is_vector<T> &&
         !is_optional<T> && !is_variant<T> && !is_tuple<T> && !is_map<T> &&
         !described_struct<T>) inline constexpr bool is_hashable<T> = requires(const T& x) {
  std::size_t{std::hash<T>()(x)};
  bool(x == x);
  T(x);
}
&&!requires(const T& x) { x.operator->(); };

template <class T>
concept hashable_leaf = is_hashable<T> && !scalar_like<T> && !text_leaf<T> && !bytes_leaf<T>;

/// A leaf that is not a tensor: configuration, part of a tree's structure.
template <class T>
concept scalar_leaf = (scalar_like<T> && !std::is_same_v<T, long double>) || std::is_enum_v<T> || text_leaf<T> ||
                      bytes_leaf<T> || hashable_leaf<T>;

template <class T, class F>
constexpr decltype(auto) with_children(T& t, F&& f);

template <class... T>
struct type_list {};

struct child_types {
  template <class... T>
  constexpr type_list<std::remove_const_t<T>...> operator()(T&...) const {
    return {};
  }
};

template <class T>
struct child_list {
  using type = decltype(with_children(std::declval<const T&>(), child_types{}));
};
template <template <class...> class V, class... T>
requires is_variant<V<T...>>
struct child_list<V<T...>> {
  using type = type_list<T...>;
};
template <class T>
using children_of = typename child_list<T>::type;

/// The element type of an array, a vector, an optional or a map.
template <class T>
struct element_type {
  using type = typename T::value_type;
};
template <is_map T>
struct element_type<T> {
  using type = typename T::mapped_type;
};
template <class T>
using element_in = typename element_type<T>::type;

template <class T, class... Field>
constexpr bool have_addresses(type_list<Field...>) {
  return are_addressed<T, Field...>(std::index_sequence_for<Field...>{});
}

/// Whether a type can be in a tree. `Up` are the types around it that hold it in vectors or maps. Each reason against a type is
/// one compile-time error; errors that would follow are suppressed.
template <class T, class... Up>
constexpr bool is_tree();

template <class... Up, class... T>
constexpr bool are_trees(type_list<T...>) {
  return (... && is_tree<T, Up...>());
}

/// Whether T can be in a vector or a map. Only through these can a type hold itself.
template <class T, class... Up>
constexpr bool is_element() {
  constexpr bool recursive = (... || std::is_same_v<T, Up>);
  static_assert(
      !recursive,
      "[tree] a struct in a tree does not hold itself, in a vector or a map: a tree's type tells how deep it is");
  if constexpr (recursive) return false;
  else return is_tree<T, T, Up...>();
}

template <class T, class... Up>
constexpr bool is_plain_tree_of() {
  if constexpr (!is_plain_tree<T>()) return false;
  else {
    constexpr bool addresses = have_addresses<T>(children_of<T>{});
    static_assert(addresses, "[tree] a struct in a tree has no bit-fields; make them whole fields");
    if constexpr (addresses) return are_trees<Up...>(children_of<T>{});
    else return false;
  }
}

template <class T, class... Up>
constexpr bool is_tree() {
  if constexpr (bytes_leaf<T>) {
    constexpr bool bytes = std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>;
    static_assert(bytes, "[tree] sinter::is_value is for classes whose equal values have equal bytes");
    return bytes;
  } else if constexpr (tensor_like<T> || is_dynamic<T> || scalar_leaf<T> || std::is_empty_v<T>) return true;
  else if constexpr (is_array<T> || is_optional<T>) return is_tree<typename T::value_type, Up...>();
  else if constexpr (is_vector<T>) return is_element<typename T::value_type, Up...>();
  else if constexpr (is_map<T>) {
    constexpr bool text = std::is_same_v<typename T::key_type, std::string>;
    static_assert(text, "[tree] the keys of a std::map in a tree are std::string");
    if constexpr (text) return is_element<typename T::mapped_type, Up...>();
    else return false;
  } else if constexpr (is_tuple<T> || is_variant<T> || is_stacked<T> || adapted_struct<T>)
    return are_trees<Up...>(children_of<T>{});
  else if constexpr (hooked_struct<T>) {
    if constexpr (is_hooked_tree<T>()) return are_trees<Up...>(children_of<T>{});
    else return false;
  } else if constexpr (plain_struct<T>) return is_plain_tree_of<T, Up...>();
  else {
    constexpr bool array = std::is_array_v<T>, pointer = std::is_pointer_v<T>;
    static_assert(!array, "[tree] a tree cannot hold a C array; use std::array");
    static_assert(!pointer, "[tree] a tree cannot hold a pointer");
    static_assert(array || pointer,
                  "[tree] a tree holds tensors, numbers, enums, text, std::tuple, pair, array, vector, map, optional, "
                  "variant and "
                  "structs without constructors; give any other class a static sinter_fields(auto& self) that returns "
                  "std::tie(self.a, self.b), or a sinter::tree_of, or std::hash and ==");
    return false;
  }
}

/// The kinds of types in a tree.
enum class branch { tensor, scalar, array, vector, map, optional, variant, tuple, structure, refused };

template <class T>
constexpr branch branch_of() {
  if constexpr (tensor_like<T> || is_dynamic<T>) return branch::tensor;
  else if constexpr (scalar_leaf<T>) return branch::scalar;
  else if constexpr (!is_tree<T>()) return branch::refused;
  else if constexpr (is_array<T>) return branch::array;
  else if constexpr (is_vector<T>) return branch::vector;
  else if constexpr (is_map<T>) return branch::map;
  else if constexpr (is_optional<T>) return branch::optional;
  else if constexpr (is_variant<T>) return branch::variant;
  else if constexpr (is_tuple<T>) return branch::tuple;
  else return branch::structure;
}

/// The kinds whose content has one type.
constexpr bool has_elements(branch b) {
  return b == branch::array || b == branch::vector || b == branch::map || b == branch::optional;
}

template <class T>
inline constexpr bool is_leaf = branch_of<T>() == branch::tensor || branch_of<T>() == branch::scalar;

/// Calls f with a reference to each child of a tuple or struct.
template <class T, class F>
[[gnu::always_inline]] constexpr decltype(auto) with_children(T& t, F&& f) {
  using U = std::remove_const_t<T>;
  if constexpr (std::is_empty_v<U>) return f();
  else if constexpr (is_stacked<U>) return std::apply(f, stack_access::fields(t));
  else if constexpr (!is_tuple<U>) return with_fields(t, f);
  else if constexpr (is_pair<U>) return f(t.first, t.second);
  else if constexpr (requires { std::tuple_size<U>::value; }) return std::apply(f, t);
  else return boost::hana::unpack(t, f);
}

struct child_references {
  template <class... T>
  [[gnu::always_inline]] constexpr std::tuple<T&...> operator()(T&... x) const {
    return {x...};
  }
};

/// The facts of a tree that its type determines.
struct tree_facts {
  int tensors = 0;  ///< tensors and expressions
  int statics = 0;  ///< words of scalars
  /// Both counts are exact, because the tree has neither vectors, maps, optionals, variants nor text. Otherwise they only tell 0
  /// from more.
  bool fixed = true;
  bool lazy = false;  ///< holds expressions
};

template <class T>
constexpr tree_facts facts();

template <class... T>
constexpr tree_facts facts(type_list<T...>) {
  tree_facts sum;
  const tree_facts each[] = {tree_facts{}, facts<T>()...};
  for (const auto& f : each) {
    sum.tensors += f.tensors;
    sum.statics += f.statics;
    sum.fixed = sum.fixed && f.fixed;
    sum.lazy = sum.lazy || f.lazy;
  }
  return sum;
}

template <class T>
constexpr tree_facts facts() {
  constexpr branch b = branch_of<T>();
  if constexpr (b == branch::refused) return {};
  else if constexpr (is_dynamic<T>) return {1, 1, true, false};
  else if constexpr (b == branch::tensor) return {1, 0, true, !is_tensor<T>};
  else if constexpr (text_leaf<T>) return {0, 1, false, false};
  else if constexpr (bytes_leaf<T>) return {0, static_cast<int>((sizeof(T) + 7) / 8), true, false};
  else if constexpr (b == branch::scalar) return {0, 1, true, false};
  else if constexpr (b == branch::array) {
    constexpr tree_facts f = facts<typename T::value_type>();
    constexpr int n = static_cast<int>(std::tuple_size_v<T>);
    return {f.tensors * n, f.statics * n, f.fixed, f.lazy};
  } else if constexpr (has_elements(b)) {
    constexpr tree_facts f = facts<element_in<T>>();
    return {f.tensors, f.statics, false, f.lazy};
  } else {
    tree_facts f = facts(children_of<T>{});
    f.fixed = f.fixed && b != branch::variant;
    return f;
  }
}

template <class T>
inline constexpr tree_facts facts_of = facts<std::remove_cvref_t<T>>();

/// Calls f(i), with a constant i, if a variant holds its alternative i.
template <class V, class F, std::size_t... I>
constexpr void with_alternative(const V& x, F&& f, std::index_sequence<I...>) {
  ((x.index() == I ? f(std::integral_constant<std::size_t, I>{}) : void()), ...);
}
template <class... T>
constexpr auto places_of(type_list<T...>) {
  return std::index_sequence_for<T...>{};
}

struct ignore_lengths {
  constexpr void operator()(std::uint64_t) const {}
};
struct ignore_keys {
  constexpr void operator()(const std::string&) const {}
};

/// Calls v.leaf(x) for every tensor, expression and scalar, in order. v.length(n) comes before the content of a vector or map (its
/// size), an optional (0 or 1) and a variant (its alternative's index). v.key(k) comes before the value of a map's key. Returns v,
/// which is passed by value, so that its members stay in registers.
template <class T, class Visitor>
constexpr Visitor visit_leaves(T& t, Visitor v) {
  constexpr branch b = branch_of<std::remove_const_t<T>>();
  if constexpr (b == branch::tensor || b == branch::scalar) {
    v.leaf(t);
  } else if constexpr (b == branch::array || b == branch::vector) {
    if constexpr (b == branch::vector) v.length(static_cast<std::uint64_t>(t.size()));
    for (auto&& x : t) {
      if constexpr (std::is_lvalue_reference_v<decltype(x)>) v = visit_leaves(x, v);
      else v.leaf(static_cast<bool>(x));  // std::vector<bool>
    }
  } else if constexpr (b == branch::map) {
    v.length(static_cast<std::uint64_t>(t.size()));
    for (auto& [key, x] : t) {
      v.key(key);
      v = visit_leaves(x, v);
    }
  } else if constexpr (b == branch::optional) {
    v.length(t.has_value());
    if (t) v = visit_leaves(*t, v);
  } else if constexpr (b == branch::variant) {
    v.length(t.index());
    with_alternative(
        t, [&](auto i) { v = visit_leaves(*get_if<i>(&t), v); }, places_of(children_of<std::remove_const_t<T>>{}));
  } else if constexpr (b != branch::refused) {
    with_children(t, [&](auto&... child) SINTER_INLINE_LAMBDA { ((v = visit_leaves(child, v)), ...); });
  }
  return v;
}

template <class Leaf, class Length, class Key>
struct leaf_calls {
  Leaf* on_leaf;
  Length* on_length;
  Key* on_key;

  template <class T>
  constexpr void leaf(T&& x) const {
    (*on_leaf)(std::forward<T>(x));
  }
  constexpr void length(std::uint64_t n) const { (*on_length)(n); }
  constexpr void key(const std::string& k) const { (*on_key)(k); }
};

/// The same with three functions: leaf(x), length(n) and key(k).
template <class T, class Leaf, class Length = ignore_lengths, class Key = ignore_keys>
constexpr void for_each_leaf(T& t, Leaf&& leaf, Length&& length = {}, Key&& key = {}) {
  visit_leaves(t,
               leaf_calls<std::remove_reference_t<Leaf>, std::remove_reference_t<Length>, std::remove_reference_t<Key>>{
                   &leaf, &length, &key});
}

}  // namespace detail

}  // namespace sinter
