// front/trees/arithmetic.hpp: trees as vectors: sums, products with a number, the norm, casts; leaves side by side.
#pragma once

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../base/text.hpp"
#include "../functions/factories.hpp"
#include "../functions/pointwise.hpp"
#include "../functions/reductions.hpp"
#include "tree_map.hpp"

namespace sinter {
namespace detail {

template <class X>
inline constexpr bool is_float_leaf = false;
template <tensor_like X>
inline constexpr bool is_float_leaf<X> = is_float(dtype_of<typename X::value_type>);
template <class X>
inline constexpr bool is_bool_leaf = false;
template <tensor_like X>
inline constexpr bool is_bool_leaf<X> = is_bool(dtype_of<typename X::value_type>);

/// The type in which T is computed.
template <class T>
using wider_type = std::conditional_t<vocabulary::is_half<T>, float, T>;

template <class T, class X>
constexpr decltype(auto) as_type(const X& x, location at) {
  if constexpr (std::is_same_v<T, typename X::value_type>) return (x);
  else return sinter::cast<T>(x, at);
}
/// A result as a tensor of type X.
template <class X, class R>
auto fitted(const R& result, location at) {
  return detail::convert<tensor<typename X::value_type, X::static_shape>>(at, settle(result, at));
}
/// A factor beside tensors of dtype T; numbers take that dtype implicitly.
template <class T, class A>
constexpr decltype(auto) as_factor(const A& a, location at) {
  if constexpr (tensor_like<A> && !is_number<A>) return as_type<T>(a, at);
  else return (a);
}

template <class A>
constexpr bool is_factor() {
  if constexpr (tensor_like<A>) return A::rank == 0 && is_float(dtype_of<typename A::value_type>);
  else return scalar_like<A>;
}

/// Whether a leaf is multiplied; integer leaves are multiplied only by integers.
template <class A, class X>
constexpr bool is_scaled() {
  if constexpr (is_float_leaf<X>) return true;
  else if constexpr (!tensor_like<X> || is_bool_leaf<X>) return false;
  else return (std::is_integral_v<A> && !std::is_same_v<A, bool>) || std::is_same_v<A, dim>;
}

[[noreturn]] inline void fail_extents(const char* op, const dims& first, const dims& other, location at) {
  fail(op, "a leaf is " + text::shape(first) + " in one tree and " + text::shape(other) + " in another", at);
}

/// Checks two leaves at one place: tensors of one rank and kind, with equal extents (else user_error).
template <class X, class Y>
constexpr bool check_pair_of_leaves(const char* op, const X& x, const Y& y, location at) {
  constexpr bool ranks = X::rank == Y::rank;
  static_assert(ranks, "sinter: [tree] a leaf of one tree has another rank than that of the other");
  constexpr bool kinds = is_float_leaf<X> == is_float_leaf<Y> && is_bool_leaf<X> == is_bool_leaf<Y>;
  static_assert(kinds, "sinter: [tree] a leaf is floating in one tree and not in the other; cast one with cast_tree");
  if constexpr (ranks && kinds) {
    const auto a = extents_of(x, at);
    const auto b = extents_of(y, at);
    if (a != b) fail_extents(op, to_dims(a), to_dims(b), at);
  }
  return ranks && kinds;
}

/// Returns false after a compile-time error if a tensor meets a leaf that is not a tensor.
template <class X, class Y>
constexpr bool check_kinds() {
  constexpr bool both = tensor_like<X> == tensor_like<Y>;
  static_assert(both,
                "sinter: [tree] a leaf is a tensor in one tree and a number in the other; make it a tensor of the same "
                "extents, or use tree_map");
  return both;
}

/// f(x, y) in the type in which x's dtype is computed, rounded once; x if it is not numeric.
template <class F, class X, class Y>
auto combine_leaves(const char* op, location at, const F& f, const X& x, const Y& y) {
  check_kinds<X, Y>();
  if constexpr (!tensor_like<X> || !tensor_like<Y> || is_bool_leaf<X>) {
    return x;
  } else {
    using T = typename X::value_type;
    using W = wider_type<T>;
    constexpr bool fit = X::rank == Y::rank && is_float_leaf<X> == is_float_leaf<Y> && !is_bool_leaf<Y>;
    check_pair_of_leaves(op, x, y, at);
    if constexpr (fit) return fitted<X>(as_type<T>(f(as_type<W>(x, at), as_type<W>(y, at)), at), at);
    else return x;
  }
}

template <class F, class X, class Y>
auto combine_trees(const char* op, location at, const F& f, const X& x, const Y& y) {
  return map_tree(
      op, at, [&](const auto& a, const auto& b) { return combine_leaves(op, at, f, a, b); }, x, y);
}

template <class... Leaf>
constexpr bool any_float(type_list<Leaf...>) {
  return (... || is_float_leaf<Leaf>);
}
template <class... Leaf>
constexpr bool any_double(type_list<Leaf...>) {
  return (... || std::is_same_v<typename Leaf::value_type, double>);
}
template <class T>
using leaves_in = decltype(with_leaves_of(type_list<>{}, std::type_identity<T>{}));
/// The type of sums over trees: f64 if a leaf is f64, else f32.
template <class... Trees>
using tree_total = std::conditional_t<(... || any_double(leaves_in<Trees>{})), double, float>;

/// Calls f on the leaves at each place of trees that have one structure.
template <class F, class T, class... Ts>
void each_together(const char* op, location at, const F& f, const T& t, const Ts&... ts) {
  if constexpr (sizeof...(Ts) == 0) {
    constexpr bool scalars = facts_of<T>.tensors == 0;
    for_each_leaf(t, [&]<class Leaf>(const Leaf& x) {
      if constexpr (tensor_like<Leaf> || scalars) f(x);
    });
  } else {
    static_cast<void>(map_tree(
        op, at,
        [&]<class X>(const X& x, const auto&... more) {
          f(x, more...);
          return x;
        },
        t, ts...));
  }
}

/// The sum, in W, of rank-0 tensors over all places.
template <class W>
class running_total {
 public:
  void add(const tensor<W, 0>& x, location at) {
    if (any_) total_ = settle(sinter::add(total_, x, at), at);
    else total_ = x;
    any_ = true;
  }
  tensor<W, 0> value(location at) const { return any_ ? total_ : zeros<W>(target{}, at); }

 private:
  tensor<W, 0> total_;
  bool any_ = false;
};

template <class W, class X, class Y>
tensor<W, 0> leaf_dot(const X& x, const Y& y, location at) {
  return settle(sum_over<op_shapes::all_axes(X::rank), false>(mul(as_type<W>(x, at), as_type<W>(y, at), at), at), at);
}

/// A tree that ranks of a mesh divide among them, for <sinter/mesh.hpp>. Where `is`, split(tree, divided, whole) calls one of two
/// functions with each tensor. over_ranks(x, combiner, at) combines a rank-0 tensor of all ranks.
template <class X>
struct divided_tree {
  static constexpr bool is = false;
};

/// Calls whole(x) with each leaf of a tree, and divided(tree) with each outermost tree that ranks divide.
template <class T, class Divided, class Whole>
void each_leaf_part(const T& t, const Divided& divided, const Whole& whole) {
  constexpr branch b = branch_of<T>();
  const auto deeper = [&](const auto& child) { each_leaf_part(child, divided, whole); };
  if constexpr (divided_tree<T>::is) divided(t);
  else if constexpr (b == branch::array || b == branch::vector) {
    if constexpr (facts_of<T>.tensors != 0)
      for (const auto& x : t) deeper(x);
  } else if constexpr (b == branch::map) {
    for (const auto& entry : t) deeper(entry.second);
  } else if constexpr (b == branch::optional) {
    if (t) deeper(*t);
  } else if constexpr (b == branch::variant) {
    with_alternative(
        t, [&](auto i) { deeper(*get_if<i>(&t)); }, places_of(children_of<T>{}));
  } else if constexpr (b == branch::tuple || b == branch::structure) {
    with_children(t, [&](const auto&... child) { (deeper(child), ...); });
  } else if constexpr (b != branch::refused) {
    whole(t);
  }
}

/// The 2-norm of all floating elements together, of all ranks where ranks divide the tree.
template <class X>
tensor<double, 0> norm_of_all(location at, const X& x) {
  running_total<double> total;
  const auto add_to = [&](running_total<double>& sum) {
    return [&sum, at]<class A>(const A& a) {
      if constexpr (is_float_leaf<A>)
        sum.add(settle(squares_over<op_shapes::all_axes(A::rank), false>(wide(a, at), at), at), at);
    };
  };
  each_leaf_part(
      x,
      [&]<class T>(const T& part) {
        running_total<double> own;
        divided_tree<T>::split(part, add_to(own), add_to(total));
        total.add(divided_tree<T>::over_ranks(own.value(at), ir::op::add, at), at);
      },
      add_to(total));
  return settle(root_of_squares(total.value(at), at), at);
}
/// Whether a condition that concerns a whole tree holds on all ranks that divide it.
template <class X>
tensor<bool, 0> on_all_ranks(const X& x, tensor<bool, 0> holds, location at) {
  each_leaf_part(
      x,
      [&]<class T>(const T&) {
        const auto all = divided_tree<T>::over_ranks(tensor<std::int32_t, 0>(settle(cast<std::int32_t>(holds, at), at)),
                                                     ir::op::minimum, at);
        holds = settle(ne(all, 0, at), at);
      },
      [](const auto&) {});
  return holds;
}

template <class X>
tensor<bool, 0> holds_everywhere(const X& x, location at) {
  if constexpr (tensor_like<X>) return settle(all_over<op_shapes::all_axes(X::rank), false>(x, at), at);
  else return full<bool>(static_cast<bool>(x), target{}, at);
}

/// Lists of leaves as one list of tuples.
template <class... Lists>
auto zipped(location at, const Lists&... lists) {
  if constexpr ((... && is_vector<Lists>)) {
    const std::size_t sizes[] = {lists.size()...};
    for (const std::size_t n : sizes) ensure(n == sizes[0], "trees of one structure have as many leaves", at);
    std::vector<std::tuple<typename Lists::value_type...>> out;
    out.reserve(sizes[0]);
    for (std::size_t i = 0; i < sizes[0]; ++i) out.emplace_back(lists[i]...);
    return out;
  } else {
    constexpr std::size_t sizes[] = {std::tuple_size_v<Lists>...};
    constexpr bool alike = [&] {
      for (const std::size_t n : sizes)
        if (n != sizes[0]) return false;
      return true;
    }();
    static_assert(alike, "sinter: [tree_zip] the trees have other numbers of tensors");
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto at_place = [&]<std::size_t At>(std::integral_constant<std::size_t, At>) {
        return std::tuple<std::tuple_element_t<At, Lists>...>(std::get<At>(lists)...);
      };
      if constexpr ((... && is_array<Lists>))
        return std::array<std::tuple<typename Lists::value_type...>, sizeof...(I)>{
            at_place(std::integral_constant<std::size_t, I>{})...};
      else return std::tuple{at_place(std::integral_constant<std::size_t, I>{})...};
    }
    (std::make_index_sequence < alike ? sizes[0] : 0 > {});
  }
}

}  // namespace detail

/// The tree with floating tensors of dtype T. A struct template takes other arguments that hold them: `mlp<float>` becomes
/// `mlp<bf16>`. A struct of fixed dtypes is refused (use autocast). Integers, bools and numbers stay.
template <class T, class Tree>
auto cast_tree(const Tree& tree, location at = location::current()) {
  constexpr bool floating = [] {
    if constexpr (element<T>) return is_float(dtype_of<T>);
    else return false;
  }();
  static_assert(floating, "sinter: [cast_tree] takes a floating dtype: float, double, f16 or bf16");
  if constexpr (!floating) return tree;
  else
    return detail::map_tree(
        "cast_tree", at,
        [&]<class X>(const X& x) {
          if constexpr (detail::is_float_leaf<X>) return detail::settle(detail::as_type<T>(x, at), at);
          else return x;
        },
        tree);
}

/// Zeros with each tensor's dtype, extents and device; numbers stay.
template <class Tree>
auto tree_zeros_like(const Tree& tree, location at = location::current()) {
  return detail::map_tree(
      "tree_zeros_like", at,
      [&]<class X>(const X& x) {
        if constexpr (tensor_like<X>) return zeros_like(x, at);
        else return x;
      },
      tree);
}

/// x + y, tensor by tensor. Leaves at one place must have equal extents (else user_error). Halves are added in f32; the
/// result has x's types. Bools and numbers are x's. The trees must have one structure, as for tree_map.
template <class X, class Y>
auto tree_add(const X& x, const Y& y, location at = location::current()) {
  return detail::combine_trees(
      "tree_add", at, [&](const auto& a, const auto& b) { return add(a, b, at); }, x, y);
}
/// x - y; see tree_add.
template <class X, class Y>
auto tree_sub(const X& x, const Y& y, location at = location::current()) {
  return detail::combine_trees(
      "tree_sub", at, [&](const auto& a, const auto& b) { return sub(a, b, at); }, x, y);
}

/// a · x, where a is a number or a floating tensor of rank 0. Halves are multiplied in f32; the result has x's types.
/// Integers are multiplied by C++ integers only, and otherwise stay. Bools and numbers stay.
template <class A, class X>
auto tree_scale(const A& a, const X& x, location at = location::current()) {
  constexpr bool factor = detail::is_factor<A>();
  static_assert(factor, "sinter: [tree_scale] the factor is a number or a floating tensor of rank 0; it comes first");
  if constexpr (!factor) return x;
  else
    return detail::map_tree(
        "tree_scale", at,
        [&]<class L>(const L& leaf) {
          if constexpr (detail::is_scaled<A, L>()) {
            using T = typename L::value_type;
            using W = detail::wider_type<T>;
            return detail::fitted<L>(
                detail::as_type<T>(mul(detail::as_type<W>(leaf, at), detail::as_factor<W>(a, at), at), at), at);
          } else {
            return leaf;
          }
        },
        x);
}

/// a · x + y in one pass: `params = tree_axpy(-rate, gradients, params)`. a is as for tree_scale, the rest as for tree_add,
/// with y's types. Leaves that a cannot scale are y's.
template <class A, class X, class Y>
auto tree_axpy(const A& a, const X& x, const Y& y, location at = location::current()) {
  constexpr bool factor = detail::is_factor<A>();
  static_assert(factor, "sinter: [tree_axpy] the factor is a number or a floating tensor of rank 0; it comes first");
  if constexpr (!factor) return y;
  else
    return detail::map_tree(
        "tree_axpy", at,
        [&]<class L, class R>(const L& to, const R& by) {
          if constexpr (detail::is_scaled<A, L>()) {
            const auto f = [&]<class P, class Q>(const P& p, const Q& q) {
              return add(mul(q, detail::as_factor<typename P::value_type>(a, at), at), p, at);
            };
            return detail::combine_leaves("tree_axpy", at, f, to, by);
          } else {
            return to;
          }
        },
        y, x);
}

/// The sum of products of all floating elements, of rank 0: in f64 if a leaf is f64, else in f32. Extents are as for
/// tree_add. Integers and bools do not count.
template <class X, class Y>
auto tree_dot(const X& x, const Y& y, location at = location::current()) {
  using W = detail::tree_total<X, Y>;
  constexpr bool floats = detail::any_float(detail::leaves_in<X>{});
  static_assert(floats, "sinter: [tree_dot] the tree holds no floating tensor");
  detail::running_total<W> total;
  detail::each_together(
      "tree_dot", at,
      [&]<class A, class B>(const A& a, const B& b) {
        constexpr bool kinds = detail::check_kinds<A, B>();
        if constexpr (kinds && (detail::is_float_leaf<A> || detail::is_float_leaf<B>)) {
          detail::check_pair_of_leaves("tree_dot", a, b, at);
          if constexpr (A::rank == B::rank && detail::is_float_leaf<A> && detail::is_float_leaf<B>)
            total.add(detail::leaf_dot<W>(a, b, at), at);
        }
      },
      x, y);
  return total.value(at);
}

/// The 2-norm of all floating elements together, of rank 0: in f64 if a leaf is f64, else in f32. Its squares are summed in
/// f64; its derivative is norm's. Integers and bools do not count. Of a tree that ranks of a mesh divide it is the norm over all ranks. Inside compile() all leaves are one graph.
template <class X>
auto tree_norm(const X& x, location at = location::current()) {
  using W = detail::tree_total<X>;
  constexpr bool floats = detail::any_float(detail::leaves_in<X>{});
  static_assert(floats, "sinter: [tree_norm] the tree holds no floating tensor");
  return detail::settle(detail::as_type<W>(detail::norm_of_all(at, x), at), at);
}

/// Whether f(leaf, leaf of each other tree) is true everywhere, as a tensor<bool, 0>. f returns a bool, or a tensor whose
/// elements must all be true: `tree_all([](auto g) { return isfinite(g); }, gradients)`. True for a tree without leaves. Up
/// to four trees.
template <class F, class T, class T2 = detail::absent, class T3 = detail::absent, class T4 = detail::absent>
requires(!std::is_same_v<T, location>) tensor<bool, 0> tree_all(F&& f, const T& t, const T2& t2 = {}, const T3& t3 = {},
                                                                const T4& t4 = {}, location at = location::current()) {
  tensor<bool, 0> all;
  bool any = false;
  const auto one = [&]<class... X>(const X&... x) {
    constexpr bool right = detail::told_to_take<F&, const X&...>(), takes = std::is_invocable_v<F&, const X&...>;
    static_assert(right,
                  "sinter: [tree_all] the function does not take every leaf: a dtype or a rank, or the number of trees "
                  "differs");
    if constexpr (takes) {
      const auto here = detail::holds_everywhere(detail::invoke(at, f, x...), at);
      all = any ? detail::settle(bit_and(all, here, at), at) : here;
      any = true;
    }
  };
  if constexpr (detail::is_absent<T2>) detail::each_together("tree_all", at, one, t);
  else if constexpr (detail::is_absent<T3>) detail::each_together("tree_all", at, one, t, t2);
  else if constexpr (detail::is_absent<T4>) detail::each_together("tree_all", at, one, t, t2, t3);
  else detail::each_together("tree_all", at, one, t, t2, t3, t4);
  return any ? all : full<bool>(true, detail::target{}, at);
}
/// Whether no element of any leaf is 0.
template <class T>
tensor<bool, 0> tree_all(const T& t, location at = location::current()) {
  return tree_all([](const auto& x) { return x; }, t, detail::absent{}, detail::absent{}, detail::absent{}, at);
}

/// The leaves of trees of one structure side by side, in the order of tree_leaves: `for (auto [p, g] : tree_zip(params,
/// gradients))`. An array or vector of tuples if each tree's leaves have one type, else a tuple of tuples. Up to four trees.
template <class T, class T2 = detail::absent, class T3 = detail::absent, class T4 = detail::absent>
auto tree_zip(const T& t, const T2& t2 = {}, const T3& t3 = {}, const T4& t4 = {}, location at = location::current()) {
  const auto over = [&]<class... Trees>(const Trees&... trees) {
    if constexpr (sizeof...(Trees) > 1)
      detail::each_together(
          "tree_zip", at, [](const auto&...) {}, trees...);
    return detail::zipped(at, tree_leaves(trees, at)...);
  };
  if constexpr (detail::is_absent<T2>) return over(t);
  else if constexpr (detail::is_absent<T3>) return over(t, t2);
  else if constexpr (detail::is_absent<T4>) return over(t, t2, t3);
  else return over(t, t2, t3, t4);
}

}  // namespace sinter
