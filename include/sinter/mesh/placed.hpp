// mesh/placed.hpp: tensors whose type says how the ranks of a mesh hold them.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "mesh.hpp"
#include "placements.hpp"

namespace sinter {

template <class T, class L>
class placed_tensor;
template <class T, class L>
class placed_tree;

namespace detail::meshes {

template <class T, class L>
struct placed_as_type {
  using type = placed_tensor<T, L>;
};
template <class T, class L>
requires(!tensor_like<T> && facts_of<T>.tensors != 0) struct placed_as_type<T, L> {
  using type = placed_tree<T, L>;
};

}  // namespace detail::meshes

/// A tensor T, whose extents are this rank's, held as P says; or a tree T of tensors that are all held so. An axis that P does
/// not name is invariant. Placed tensors within a tree keep their own placements.
template <class T, class... P>
using placed = typename detail::meshes::placed_as_type<T, detail::meshes::canonical_t<P...>>::type;

/// The tensor of this rank, without its placement in the type; errors of its use then come at the trace.
template <class T, class L>
const T& local(const placed_tensor<T, L>& x);

namespace detail::meshes {

struct held_access;

template <class L, int Rank>
struct shards_fit;
template <class... P, int Rank>
struct shards_fit<list<P...>, Rank> {
  static constexpr bool value =
      (... && (hold_of<P>.how != kind::shard || (hold_of<P>.along >= 0 && hold_of<P>.along < Rank)));
};

}  // namespace detail::meshes

/// See placed.
template <class T, class L>
class placed_tensor {
  static constexpr bool of_tensor = detail::is_tensor<T>;
  static_assert(of_tensor, "sinter: [placed] holds a tensor: placed<tensor<float, 2>, shard<A, 0>>");
  static_assert(detail::meshes::shards_fit<L, T::rank>::value,
                "sinter: [placed] shard<A, k> divides axis k, from 0 to rank - 1 of the tensor");

 public:
  using local_type = T;
  using placements = L;

  placed_tensor() = default;
  /// This rank's tensor, which the caller knows to be held so.
  explicit placed_tensor(T x) : local_(std::move(x)) {}

  static constexpr auto sinter_fields(auto& self) { return std::tie(self.local_); }

  auto shape() const { return local_.shape(); }

 private:
  template <class U, class M>
  friend const U& local(const placed_tensor<U, M>& x);
  friend struct detail::meshes::held_access;

  T local_;
};

template <class T, class L>
const T& local(const placed_tensor<T, L>& x) {
  return x.local_;
}

/// See placed. A key is such a tree: a draw by a placed<key, invariant<A>> is equal on all ranks of A.
template <class T, class L>
class placed_tree {
 public:
  using local_type = T;
  using placements = L;

  placed_tree() = default;
  /// This rank's tree, which the caller knows to be held so.
  explicit placed_tree(T x) : local_(std::move(x)) {}

  static constexpr auto sinter_fields(auto& self) { return std::tie(self.local_); }

 private:
  friend struct detail::meshes::held_access;

  T local_;
};

namespace detail::meshes {

struct held_access {
  template <class X>
  static auto& local(X& x) {
    return x.local_;
  }
};

}  // namespace detail::meshes

/// The tree of this rank, without its placement in the type.
template <class T, class L>
const T& local(const placed_tree<T, L>& x) {
  return detail::meshes::held_access::local(x);
}

namespace detail::meshes {

template <class U>
using placements_in = typename U::placements;

template <class T>
inline constexpr bool is_placed = false;
template <class T, class L>
inline constexpr bool is_placed<placed_tensor<T, L>> = true;
template <class T>
concept any_placed = is_placed<std::remove_cvref_t<T>>;

/// The placements of the tensors in a tree that its type tells: `at<Rank>` of a tensor of that rank.
template <class T>
struct held_tree {
  static constexpr bool is = false;
};
template <class T, class L>
struct held_tree<placed_tree<T, L>> {
  static constexpr bool is = true;
  template <int Rank>
  using at = L;
};
template <class T>
concept any_held_tree = held_tree<std::remove_cvref_t<T>>::is;

struct no_rule {};
/// Calls f(tensor, placements, depth) with each tensor whose placement a type tells, in order. Depth 1 is that of the outermost type.
template <class Rule, int Depth, class T, class F>
void walk_held(T& t, const F& f) {
  using U = std::remove_const_t<T>;
  constexpr branch b = branch_of<U>();
  if constexpr (is_placed<U>) f(held_access::local(t), placements_in<U>{}, std::integral_constant<int, Depth + 1>{});
  else if constexpr (any_held_tree<U>) walk_held<held_tree<U>, Depth + 1>(held_access::local(t), f);
  else if constexpr (b == branch::tensor) {
    if constexpr (!std::is_same_v<Rule, no_rule>)
      f(t, typename Rule::template at<U::rank>{}, std::integral_constant<int, Depth>{});
  } else if constexpr (b == branch::array || b == branch::vector) {
    if constexpr (facts_of<U>.tensors != 0)
      for (auto& x : t) walk_held<Rule, Depth>(x, f);
  } else if constexpr (b == branch::map) {
    for (auto& entry : t) walk_held<Rule, Depth>(entry.second, f);
  } else if constexpr (b == branch::optional) {
    if (t) walk_held<Rule, Depth>(*t, f);
  } else if constexpr (b == branch::variant) {
    with_alternative(
        t, [&](auto i) { walk_held<Rule, Depth>(*get_if<i>(&t), f); }, places_of(children_of<U>{}));
  } else if constexpr (b == branch::tuple || b == branch::structure) {
    with_children(t, [&](auto&... child) { (walk_held<Rule, Depth>(child, f), ...); });
  }
}
template <class T, class F>
void for_each_held(T& t, const F& f) {
  walk_held<no_rule, 0>(t, f);
}

template <class X>
using placements_of = typename std::remove_cvref_t<X>::placements;
template <class X>
using local_of = typename std::remove_cvref_t<X>::local_type;

constexpr ir::placement in_graph(kind k) {
  switch (k) {
    case kind::invariant:
      return ir::placement::invariant;
    case kind::replicated:
      return ir::placement::replicated;
    case kind::partial:
      return ir::placement::partial;
    default:
      return ir::placement::varying;
  }
}

/// The value of a node as a tensor of any extents.
template <class T, int Rank>
auto of_node(ir::node_id id, location at) {
  return typed<T, of_any_extent<Rank>>(detail::of_node(id), at);
}
/// As X, whose extents are the same.
template <class X>
X like_node(ir::node_id id, location at) {
  return typed<typename X::value_type, X::static_shape>(detail::of_node(id), at);
}

/// The hold along the axis with this tag; invariant if the list does not name it.
template <class... P>
hold hold_by_tag([[maybe_unused]] const void* tag, list<P...>) {
  hold h;
  static_cast<void>((... || (tag == &axis_tag<axis_of<P>> && ((h = hold_of<P>), true))));
  return h;
}

/// The tracer of the function that a mesh runs.
inline engine::tracer& tracer_for(const char* op, location at) {
  const auto& t = engine::current();
  if (!t) fail(op, "it communicates; call it in a function that shard_map(m, f) or simulate(f, m) runs", at);
  return *t;
}

/// x from one placement to another along axis A, without communication.
template <class A, hold From, hold To, class X>
X converted(const X& x, location at) {
  constexpr auto from = in_graph(From.how), to = in_graph(To.how);
  if constexpr (from == to) return x;
  else {
    engine::tracer& t = tracer_for("as", at);
    const auto& axis = current_axis<A>("as", at);
    return like_node<X>(engine::push_as(t, push(t, x, at), axis, from, to, at), at);
  }
}

/// x from placements L to placements M, where these name axes that vary in M.
template <class L, class M>
struct conversion;
template <class L, class... Q>
struct conversion<L, list<Q...>> {
  template <class X>
  static X apply(X x, [[maybe_unused]] location at) {
    (static_cast<void>(x = one<Q>(x, at)), ...);
    return x;
  }
  template <class P, class X>
  static X one(const X& x, location at) {
    constexpr hold from = along_axis<axis_of<P>>(L{}), to = hold_of<P>;
    if constexpr (from.how == kind::replicated && varies(to)) return converted<axis_of<P>, from, to>(x, at);
    else return x;
  }
};

/// The placements of cotangents.
template <class L>
struct dual_list;
template <class... P>
struct dual_list<list<P...>> {
  static constexpr hold dual(hold h) {
    return h.how == kind::replicated ? hold{kind::partial} : h.how == kind::partial ? hold{kind::replicated} : h;
  }
  using type = list<placement_for<axis_of<P>, dual(hold_of<P>)>...>;
};

}  // namespace detail::meshes

namespace detail {

/// Gradients of placed tensors are placed: partial for replicated ones, and the reverse.
template <class T, class L>
struct gradient_type<placed_tensor<T, L>> {
  using type = placed_tensor<T, typename meshes::dual_list<L>::type>;
};

template <class T, class L>
struct gradient_type<placed_tree<T, L>> {
  using type = placed_tree<T, typename meshes::dual_list<L>::type>;
};

/// A loss that all ranks have as one, or whose sum over the ranks is meant.
template <class T, class L>
struct loss_behind<placed_tensor<T, L>> {
  template <class... P>
  static constexpr bool counted_once(meshes::list<P...>) {
    return (... && (meshes::hold_of<P>.how == meshes::kind::partial));
  }
  static constexpr bool is = T::rank == 0 && is_float(dtype_of<typename T::value_type>);
  static const T& tensor(const placed_tensor<T, L>& x) {
    constexpr bool once = counted_once(L{});
    static_assert(
        once,
        "sinter: [grad] the loss of each rank would count: return all_reduce<invariant<A>>(as<partial<A>>(x)) "
        "for each axis A");
    return local(x);
  }
};

}  // namespace detail

}  // namespace sinter
