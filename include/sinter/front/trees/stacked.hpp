// front/trees/stacked.hpp: trees of one structure as one tree whose tensors have one more axis: stacked, stack_tree, unstack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../functions/join.hpp"
#include "leaves.hpp"
#include "tree_map.hpp"

namespace sinter {

namespace detail {

constexpr dims with_axis(const dims& d, int axis) {
  dims out;
  for (int i = 0; i <= d.rank; ++i) {
    if (i == axis) out.push(dyn);
    if (i < d.rank) out.push(d[i]);
  }
  return out;
}
constexpr dims without_axis(const dims& d, int axis) {
  dims out;
  for (int i = 0; i < d.rank; ++i)
    if (i != axis) out.push(d[i]);
  return out;
}

/// An axis among `rank` axes; negative axes count from the end.
constexpr int place_of_axis(int axis, int rank) { return axis < 0 ? axis + rank : axis; }

/// A struct whose tensors all have the shape that its type names. With one axis more or less it is another such struct, where
/// other structs become stacks.
template <class T>
concept shaped_struct = described_struct<T> && requires {
  typename T::template of_shape<T::static_shape>;
};

/// The container with its types replaced by Of.
template <class Of, class T>
struct rebuilt;
template <class Of, class T, std::size_t N>
struct rebuilt<Of, std::array<T, N>> : std::type_identity<std::array<typename Of::template type<T>, N>> {};
template <class Of, class T, class A>
struct rebuilt<Of, std::vector<T, A>> : std::type_identity<std::vector<typename Of::template type<T>>> {};
template <class Of, template <class...> class C, class K, class T, class Less, class A>
requires is_map<C<K, T, Less, A>>
struct rebuilt<Of, C<K, T, Less, A>> : std::type_identity<C<K, typename Of::template type<T>, Less>> {
};
template <class Of, template <class...> class C, class... T>
struct rebuilt<Of, C<T...>> : std::type_identity<C<typename Of::template type<T>...>> {};

/// Types with one more axis.
template <int Axis>
struct stacks {
  template <class T>
  static constexpr auto of() {
    constexpr branch b = branch_of<T>();
    if constexpr (b == branch::refused || facts_of<T>.tensors == 0 || is_dynamic<T>) return std::type_identity<T>{};
    else if constexpr (b == branch::tensor) {
      constexpr bool few = T::rank < max_rank;
      static_assert(few, "[stacked] a stack has one axis more than what is stacked; 12 is the most");
      if constexpr (!few) return std::type_identity<T>{};
      else {
        constexpr dims shape = with_axis(T::static_shape, place_of_axis(Axis, T::rank + 1));
        return std::type_identity<tensor<typename T::value_type, shape>>{};
      }
    } else if constexpr (shaped_struct<T>) {
      constexpr dims shape = with_axis(T::static_shape, place_of_axis(Axis, T::rank + 1));
      return std::type_identity<typename T::template of_shape<shape>>{};
    } else if constexpr (b == branch::structure) {
      return std::type_identity<stacked<T>>{};
    } else {
      return rebuilt<stacks, T>{};
    }
  }
  template <class T>
  using type = typename decltype(of<T>())::type;
};

/// Stands for a struct that is not a stack and cannot hold tensors with one axis less.
struct no_lane {};

/// Types with one axis less: the inverse of `stacks`.
template <int Axis>
struct lanes {
  template <class T>
  static constexpr auto of() {
    constexpr branch b = branch_of<T>();
    if constexpr (b == branch::refused || facts_of<T>.tensors == 0 || is_dynamic<T>) return std::type_identity<T>{};
    else if constexpr (b == branch::tensor) {
      constexpr dims shape = without_axis(T::static_shape, place_of_axis(Axis, T::rank));
      return std::type_identity<tensor<typename T::value_type, shape>>{};
    } else if constexpr (shaped_struct<T>) {
      constexpr dims shape = without_axis(T::static_shape, place_of_axis(Axis, T::rank));
      return std::type_identity<typename T::template of_shape<shape>>{};
    } else if constexpr (is_stacked<T>) {
      return std::type_identity<typename stacked_struct<T>::type>{};
    } else if constexpr (b == branch::structure) {
      return std::type_identity<no_lane>{};
    } else {
      return rebuilt<lanes, T>{};
    }
  }
  template <class T>
  struct stacked_struct;
  template <class S>
  struct stacked_struct<stacked<S>> : std::type_identity<S> {};
  template <class T>
  using type = typename decltype(of<T>())::type;
};

/// The tree of tensors with a new first axis, and the tree without the first axis.
template <class T>
using stacked_t = typename stacks<0>::template type<T>;
template <class T>
using lane_t = typename lanes<0>::template type<T>;

/// Whether holds(T) is true for a part of a tree that is not a leaf.
template <class Holds, class T>
constexpr bool any_part();
template <class Holds, class... T>
constexpr bool any_part(type_list<T...>) {
  return (... || any_part<Holds, T>());
}
template <class Holds, class T>
constexpr bool any_part() {
  constexpr branch b = branch_of<T>();
  if constexpr (b == branch::refused || facts_of<T>.tensors == 0) return false;
  else if constexpr (b == branch::tensor || b == branch::structure) return Holds::template of<T>();
  else if constexpr (has_elements(b)) return any_part<Holds, element_in<T>>();
  else return any_part<Holds>(children_of<T>{});
}

struct plain_parts {
  template <class T>
  static constexpr bool of() {
    return branch_of<T>() == branch::structure && !is_stacked<T> && !shaped_struct<T>;
  }
};
struct stacked_parts {
  template <class T>
  static constexpr bool of() {
    return is_stacked<T>;
  }
};
/// Tensors without this axis.
template <int Axis>
struct short_parts {
  template <class T>
  static constexpr bool of() {
    if constexpr (tensor_like<T> || shaped_struct<T>) return Axis < -T::rank || Axis >= T::rank;
    else return false;
  }
};

template <class To, class From, class Leaf>
constexpr To tree_as(const From& from, Leaf&& leaf);

/// A To whose parts are child(i).
template <class To, class Child, std::size_t... I>
constexpr To made_tree(Child&& child, std::index_sequence<I...>) {
  if constexpr (is_stacked<To>) {
    return To{std::in_place, child(std::integral_constant<std::size_t, I>{})...};  // braces: in order
  } else if constexpr (described_struct<To>) {
    constexpr bool makeable = std::is_default_constructible_v<To>;
    static_assert(makeable, "sinter: [stacked] items of a stack are made: the class needs a default constructor");
    To out{};
    const auto fields = with_children(out, child_references{});
    ((std::get<I>(fields) = child(std::integral_constant<std::size_t, I>{})), ...);
    return out;
  } else {
    return To{child(std::integral_constant<std::size_t, I>{})...};
  }
}

/// The tree To from a tree of the same structure. Its tensors are leaf(tensor, type_identity of the wanted type), in order;
/// other leaves stay.
template <class To, class From, class Leaf>
constexpr To tree_as(const From& from, Leaf&& leaf) {
  constexpr branch b = branch_of<To>();
  if constexpr (b == branch::tensor) {
    return leaf(from, std::type_identity<To>{});
  } else if constexpr (facts_of<To>.tensors == 0) {
    return from;
  } else if constexpr (b == branch::array) {
    To out{};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = tree_as<typename To::value_type>(from[i], leaf);
    return out;
  } else if constexpr (b == branch::vector) {
    To out;
    out.reserve(from.size());
    for (const auto& x : from) out.push_back(tree_as<typename To::value_type>(x, leaf));
    return out;
  } else if constexpr (b == branch::map) {
    To out;
    for (const auto& [key, x] : from) out.emplace(key, tree_as<element_in<To>>(x, leaf));
    return out;
  } else if constexpr (b == branch::optional) {
    return from ? To(tree_as<typename To::value_type>(*from, leaf)) : To();
  } else if constexpr (b == branch::variant) {
    std::optional<To> out;
    const auto make = [&]<std::size_t I, class A>(std::integral_constant<std::size_t, I>, std::type_identity<A>) {
      if (from.index() == I) out.emplace(std::in_place_index<I>, tree_as<A>(*get_if<I>(&from), leaf));
    };
    [&]<class... A, std::size_t... I>(type_list<A...>, std::index_sequence<I...>) {
      (make(std::integral_constant<std::size_t, I>{}, std::type_identity<A>{}), ...);
    }(children_of<To>{}, places_of(children_of<To>{}));
    return *std::move(out);
  } else {
    const auto parts = with_children(from, child_references{});
    return [&]<class... C, std::size_t... I>(type_list<C...>, std::index_sequence<I...> places) {
      using types = std::tuple<C...>;
      return made_tree<To>(
          [&]<std::size_t K>(std::integral_constant<std::size_t, K>) {
            return tree_as<std::tuple_element_t<K, types>>(std::get<K>(parts), leaf);
          },
          places);
    }(children_of<To>{}, places_of(children_of<To>{}));
  }
}

/// The struct with which a stack of S<N> is interchangeable: S<N + 1>.
template <class S>
struct of_next_rank : std::type_identity<void> {};
template <template <int> class S, int N>
struct of_next_rank<S<N>> : std::type_identity<S<N + 1>> {};
template <template <class, int> class S, class T, int N>
struct of_next_rank<S<T, N>> : std::type_identity<S<T, N + 1>> {};

/// Whether To has the structure of a stack From, and tensors of its dtypes and ranks.
template <class From, class To>
constexpr bool is_stack_as();
template <class... From, class... To>
constexpr bool is_stack_as(type_list<From...>, type_list<To...>) {
  if constexpr (sizeof...(From) != sizeof...(To)) return false;
  else return (... && is_stack_as<From, To>());
}
template <class From, class To>
constexpr bool is_stack_as() {
  constexpr branch b = branch_of<From>();
  if constexpr (b != branch_of<To>() || b == branch::refused) return false;
  else if constexpr (b == branch::tensor) {
    if constexpr (From::rank != To::rank) return false;
    else
      return dtype_of<typename From::value_type> == dtype_of<typename To::value_type> &&
             fits(From::static_shape, To::static_shape);
  } else if constexpr (facts_of<From>.tensors == 0) return std::is_same_v<From, To>;
  else if constexpr (!same_branch<From, To>()) return false;
  else if constexpr (has_elements(b)) return is_stack_as<element_in<From>, element_in<To>>();
  else return is_stack_as(children_of<From>{}, children_of<To>{});
}

template <class R, class S>
constexpr bool is_rebound() {
  if constexpr (std::is_same_v<R, typename of_next_rank<S>::type>) return is_stack_as<stacked<S>, R>();
  else return false;
}

/// The type of a struct's field M within a stack.
template <class T, class M>
struct stacked_field : std::type_identity<M> {};
template <class S, class M>
struct stacked_field<stacked<S>, M> : std::type_identity<stacked_t<typename stacked_field<S, M>::type>> {};

/// The index of the field that a pointer to member names; the number of fields if there is none.
template <class S, class M>
std::size_t index_of_field(M S::*field) {
  return with_fields(some_of<S>.value, [&](const auto&... each) {
    const void* const wanted = &(some_of<S>.value.*field);
    std::size_t index = 0;
    const auto differs = [&]<class F>(const F& f) {
      if (std::is_same_v<F, M> && static_cast<const void*>(&f) == wanted) return false;
      ++index;
      return true;
    };
    static_cast<void>((... && differs(each)));
    return index;
  });
}

/// The common extent of the first axes of a tree, which messages call `what`.
template <class T>
dim length_of(const char* op, const char* what, const T& tree, location at) {
  const dim* length = nullptr;
  for_each_leaf(tree, [&]<class Leaf>(const Leaf& x) {
    if constexpr (tensor_like<Leaf>)
      if constexpr (Leaf::rank > 0) {
        if (length && x.shape()[0] != *length)
          fail(op,
               "the first axes of " + std::string(what) + " differ: " + length->text() + " and " + x.shape()[0].text() +
                   "; all are read together, one item of each",
               at);
        length = &x.shape()[0];
      }
  });
  if (!length) fail(op, std::string(what) + " has no tensor, so there is no number of items", at);
  return *length;
}

/// Item i of a tensor's first axis: a view.
template <class To, class X>
To item_at(const X& x, dim i, location at) {
  const handle h = untyped(x, at);
  dims rest;
  for (int d = 1; d < h.extents.rank; ++d) rest.push(h.extents[d]);
  return typed<typename To::value_type, To::static_shape>(
      views::reshape(views::slice_axis(h, 0, {i, 1, 1}, at), rest, at), at);
}

template <class T>
lane_t<T> lane_at(const T& tree, dim i, location at) {
  return tree_as<lane_t<T>>(tree,
                            [&]<class To>(const auto& x, std::type_identity<To>) { return item_at<To>(x, i, at); });
}

template <class S>
constexpr auto fields_within() {
  if constexpr (branch_of<S>() == branch::structure) return children_of<S>{};
  else return type_list<>{};
}

/// An index into a stack, and the place where it was written.
struct stack_index {
  dim value;
  location at;
  template <extent_like I>
  constexpr stack_index(I i, location where = location::current()) : value(i), at(where) {}
};

}  // namespace detail

/// Trees S of one structure as one tree, with S's fields, whose tensors have one more axis, the first. `s[&S::w]` is the
/// stack of the field w, and nests: `s[&net::one][&lin::b]`. `s[i]` is an S whose tensors are views of item i. Fields without
/// tensors are shared by all items. stack_tree, scan and vmap make stacks. If S is `S<int>` or `S<class, int>`, and S with
/// the next number has these fields, the stack converts to it.
template <class S>
class stacked {
  static constexpr bool of_struct = detail::branch_of<S>() == detail::branch::structure;
  static_assert(of_struct, "sinter: [stacked] is of a struct: a stack of tensors is a tensor, of a tuple a tuple");
  template <class T>
  struct tuple_for;
  template <class... T>
  struct tuple_for<detail::type_list<T...>> : std::type_identity<std::tuple<detail::stacked_t<T>...>> {};

 public:
  stacked() = default;
  /// Constructs a stack from its fields.
  template <class... T>
  explicit stacked(std::in_place_t, T&&... fields) : fields_{std::forward<T>(fields)...} {}

  /// The stack of a field: a tensor with one more axis; for a struct, another stack. user_error for a field that S's
  /// description (sinter_fields, BOOST_HANA_ADAPT_STRUCT) leaves out.
  template <class B, class M>
  requires std::is_same_v<B, typename detail::struct_behind<S>::type>
  auto& operator[](M B::*field) { return find<M>(*this, field); }
  template <class B, class M>
  requires std::is_same_v<B, typename detail::struct_behind<S>::type>
  const auto& operator[](M B::*field) const { return find<M>(*this, field); }

  /// Item i, with views of the tensors; negative i count from the end. user_error out of range.
  S operator[](detail::stack_index i) const {
    const dim n = detail::length_of("stacked", "the stack", *this, i.at);
    if (i.value < -n || i.value >= n)
      fail("stacked", "the index " + i.value.text() + " is outside of a stack of " + n.text(), i.at);
    return detail::lane_at(*this, i.value < 0 ? i.value + n : i.value, i.at);
  }

  /// The number of items; user_error if first axes differ.
  dim size(location at = location::current()) const { return detail::length_of("stacked", "the stack", *this, at); }

  template <class R>
  requires(detail::is_rebound<R, S>()) operator R() const {
    return detail::tree_as<R>(*this, []<class To>(const auto& x, std::type_identity<To>) { return To(x); });
  }

 private:
  friend detail::stack_access;

  template <class M, class Self, class B>
  static auto& find(Self& self, M B::*field) {
    using wanted = detail::stacked_t<typename detail::stacked_field<S, M>::type>;
    using found_type = std::conditional_t<std::is_const_v<Self>, const wanted, wanted>;
    const std::size_t index = detail::index_of_field(field);
    found_type* found = nullptr;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto look = [&]<class F>(F& f, std::size_t i) {
        if constexpr (std::is_same_v<F, found_type>)
          if (i == index) found = &f;
      };
      (look(std::get<I>(self.fields_), I), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<fields_type>>{});
    if (!found)
      fail("stacked", "the struct's description has no such field; name it in sinter_fields or BOOST_HANA_ADAPT_STRUCT",
           {});
    return *found;
  }

  using fields_type = typename tuple_for<decltype(detail::fields_within<S>())>::type;
  fields_type fields_;
};

namespace detail {

/// The words of a tree's parts that are not stacked.
template <class T>
std::vector<std::uint64_t> unstacked_words(const T& tree) {
  std::vector<std::uint64_t> words;
  for_each_leaf(tree, [&]<class Leaf>(const Leaf& x) {
    if constexpr (!tensor_like<Leaf>) {
      const std::size_t before = words.size();
      words.resize(before + words_of(x));
      put_words(x, words.data() + before);
    }
  });
  return words;
}

/// Returns false after a compile-time error if a tree has a struct that must be a stack.
template <class T>
constexpr bool check_stacked() {
  constexpr bool tensors = facts_of<T>.tensors > 0, plain = any_part<plain_parts, T>(),
                 axes = !any_part<short_parts<0>, T>();
  static_assert(tensors, "sinter: [unstack] the tree holds no tensor");
  static_assert(!plain, "sinter: [unstack] a struct has no place for tensors of one axis less; give a stacked<S>");
  static_assert(axes, "sinter: [unstack] a tensor of the tree has rank 0; items lie along the first axis");
  return tensors && !plain && axes;
}

}  // namespace detail

/// The trees as one tree, each tensor stacked along a new first axis. Structs S become a stacked<S>, tensors a tensor, tuples
/// and vectors become tuples and vectors of stacks. Leaves that are not tensors must be equal in all trees. Copies.
/// user_error for an empty list, and for structures, numbers or shapes that differ.
template <class S>
auto stack_tree(const std::vector<S>& trees, location at = location::current()) {
  constexpr bool tensors = detail::facts_of<S>.tensors > 0;
  static_assert(tensors, "sinter: [stack_tree] the trees hold no tensor");
  if constexpr (tensors) {
    if (trees.empty()) fail("stack_tree", "there is nothing to stack; give at least one tree", at);
    std::vector<detail::flat_tree> flat;
    flat.reserve(trees.size());
    const auto words = detail::unstacked_words(trees[0]);
    for (const S& tree : trees) {
      flat.emplace_back("stack_tree", at, flat.empty() ? nullptr : flat.data());
      detail::flatten(tree, detail::tree_place{}, flat.back());
      if (detail::unstacked_words(tree) != words)
        fail("stack_tree",
             "numbers, flags or texts of tree " + std::to_string(flat.size() - 1) +
                 " differ from those of tree 0; a stack has one for all: make a tensor of what differs",
             at);
    }
    std::size_t leaf = 0;
    return detail::tree_as<detail::stacked_t<S>>(trees[0], [&]<class X, class To>(const X&, std::type_identity<To>) {
      std::vector<X> all;
      all.reserve(flat.size());
      for (const auto& f : flat) all.push_back(*static_cast<const X*>(f.leaf(leaf)));
      ++leaf;
      return detail::fitted<To::static_shape>(stack<0>(all, {}, at), at);
    });
  }
}

/// The items of a stack along the first axes, as views. The items of a stacked<S> are structs S, and the items of a tensor
/// have one axis less. Items of tuples and vectors are tuples and vectors. user_error if first axes differ.
template <class T>
auto unstack(const T& tree, location at = location::current()) {
  if constexpr (detail::check_stacked<T>()) {
    std::vector<detail::lane_t<T>> items;
    const std::int64_t n = detail::length_of("unstack", "the tree", tree, at);
    items.reserve(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) items.push_back(detail::lane_at(tree, i, at));
    return items;
  }
}

}  // namespace sinter
