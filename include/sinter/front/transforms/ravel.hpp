// front/transforms/ravel.hpp: the floating tensors of a tree as one vector, and the way back.
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../functions/join.hpp"
#include "../functions/movement.hpp"
#include "vary.hpp"

namespace sinter {

namespace detail {

template <class... Leaf>
constexpr bool one_dtype(type_list<Leaf...>) {
  constexpr bool floating[] = {false, differentiable<Leaf>...};
  constexpr dtype types[] = {dtype::f32, dtype_of<typename Leaf::value_type>...};
  std::size_t first = 0;
  for (std::size_t k = 1; k <= sizeof...(Leaf); ++k) {
    if (!floating[k]) continue;
    if (first != 0 && types[k] != types[first]) return false;
    first = k;
  }
  return first != 0;
}
template <class... Leaf>
auto first_floating(type_list<Leaf...>) {
  using all = decltype(std::tuple_cat(
      std::declval<
          std::conditional_t<differentiable<Leaf>, std::tuple<typename Leaf::value_type>, std::tuple<>>>()...));
  return std::tuple_element_t<0, all>{};
}

/// The function from a vector to the tree.
template <class Tree, class T>
class unraveled {
 public:
  unraveled(const Tree& tree, location where) : like_(std::make_shared<const Tree>(tree)), where_(where) {}

  template <tensor_like V>
  Tree operator()(const V& v) const {
    constexpr bool fits = V::rank == 1 && dtype_of<typename V::value_type> == dtype_of<T>;
    static_assert(fits, "[ravel] the function takes a vector of the dtype that ravel gave");
    if constexpr (fits) {
      const auto x = stage(v, where_);
      dim count = 0;
      for_each_leaf(*like_, [&]<class L>(const L& leaf) {
        if constexpr (differentiable<L>) count = count + product(leaf.shape());
      });
      if (x.shape()[0] != count)
        fail("ravel", "a vector of " + x.shape()[0].text() + " elements for a tree of " + count.text(), where_);
      dim at = 0;
      return map_tree(
          "ravel", where_,
          [&]<class L>(const L& leaf) {
            if constexpr (differentiable<L>) {
              const dim begin = at;
              at = at + product(leaf.shape());
              return reshape_to<tensor<T, dims{dyn}>, L::static_shape>(slice<0>(x, begin, at, 1, where_),
                                                                       to_dims(leaf.shape()), where_);
            } else {
              return leaf;
            }
          },
          *like_);
    } else {
      return *like_;
    }
  }

 private:
  std::shared_ptr<const Tree> like_;
  location where_;
};

}  // namespace detail

/// (vector, unravel), as in `auto [v, back] = ravel(p)`. v holds the elements of p's floating tensors one after another; these
/// tensors have one dtype. back(w) is p with the elements of w. Integers, flags and text stay as in p. user_error if w has
/// another number of elements.
template <class P>
auto ravel(const P& p, location where = location::current()) {
  auto tree = detail::settle_tree(p);
  using type = decltype(tree);
  constexpr auto leaves = detail::with_leaves_of(detail::type_list<>{}, std::type_identity<type>{});
  constexpr bool one = detail::one_dtype(leaves);
  static_assert(one, "[ravel] the floating tensors of a tree have one dtype, and there is at least one; use cast");
  if constexpr (one) {
    using T = decltype(detail::first_floating(leaves));
    std::vector<tensor<T, 1>> parts;
    detail::for_each_leaf(tree, [&]<class L>(const L& leaf) {
      if constexpr (detail::differentiable<L>) parts.push_back(flatten(leaf, where));
    });
    if (parts.empty()) fail("ravel", "the tree has no floating tensor; give at least one", where);
    auto all = concat(parts, axis<0>, where);
    return std::pair{std::move(all), detail::unraveled<type, T>(tree, where)};
  }
}

}  // namespace sinter
