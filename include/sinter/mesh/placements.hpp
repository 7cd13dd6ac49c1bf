// mesh/placements.hpp: the placements of a tensor along the axes of a mesh, as types, and their rules.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "../sinter.hpp"

namespace sinter {

/// The base of a mesh axis, whose name is a type: `struct dp : mesh_axis {};`
struct mesh_axis {};

/// The tensor is divided among the ranks along its axis K.
template <class A, int K>
struct shard {};
/// All ranks have equal values, and each uses them in its own way. The cotangent is partial.
template <class A>
struct replicated {};
/// All ranks have equal values, of one computation that each rank repeats. The cotangent is invariant.
template <class A>
struct invariant {};
/// Each rank has values of its own.
template <class A>
struct varying {};
/// The tensor is the sum of the ranks' values. The cotangent is replicated.
template <class A>
struct partial {};

namespace detail::meshes {

enum class kind { invariant, replicated, varying, partial, shard };

/// A placement along one axis as a value.
struct hold {
  kind how = kind::invariant;
  int along = -1;  ///< of a shard
  constexpr bool operator==(const hold&) const = default;
};

template <class P>
struct placement_facts {
  static constexpr bool valid = false;
};
template <class A, kind How, int K = -1>
struct facts_of_placement {
  static constexpr bool valid = std::is_base_of_v<mesh_axis, A>;
  using axis = A;
  static constexpr hold held{How, K};
};
template <class A, int K>
struct placement_facts<shard<A, K>> : facts_of_placement<A, kind::shard, K> {};
template <class A>
struct placement_facts<replicated<A>> : facts_of_placement<A, kind::replicated> {};
template <class A>
struct placement_facts<invariant<A>> : facts_of_placement<A, kind::invariant> {};
template <class A>
struct placement_facts<sinter::varying<A>> : facts_of_placement<A, kind::varying> {};
template <class A>
struct placement_facts<partial<A>> : facts_of_placement<A, kind::partial> {};

template <class P>
concept placement_type = placement_facts<P>::valid;
template <class P>
using axis_of = typename placement_facts<P>::axis;
template <class P>
inline constexpr hold hold_of = placement_facts<P>::held;

/// The placement type of a value.
template <class A, kind How, int Along>
struct placement_from {
  using type = shard<A, Along>;
};
template <class A, int Along>
struct placement_from<A, kind::invariant, Along> {
  using type = invariant<A>;
};
template <class A, int Along>
struct placement_from<A, kind::replicated, Along> {
  using type = replicated<A>;
};
template <class A, int Along>
struct placement_from<A, kind::varying, Along> {
  using type = sinter::varying<A>;
};
template <class A, int Along>
struct placement_from<A, kind::partial, Along> {
  using type = partial<A>;
};
template <class A, hold H>
struct placement_of_hold {
  using type = typename placement_from<A, H.how, H.along>::type;
};
template <class A, hold H>
using placement_for = typename placement_of_hold<A, H>::type;

/// The name of a type, as the compiler writes it.
template <class A>
constexpr std::string_view axis_name() {
  constexpr std::string_view all = __PRETTY_FUNCTION__;
  constexpr std::size_t from = all.find("A = ") + 4;
  constexpr std::size_t end = all.find_first_of(";]", from);
  return all.substr(from, end - from);
}

/// Placements ordered by the axes' names, without invariant ones: equal lists are equal types.
template <class... P>
struct list {};

template <class P, class L>
struct inserted;
template <class P>
struct inserted<P, list<>> {
  using type = list<P>;
};
template <class L, class P>
struct in_front;
template <class... Q, class P>
struct in_front<list<Q...>, P> {
  using type = list<P, Q...>;
};
template <bool Before, class P, class First, class... Rest>
struct inserted_at {
  using type = list<P, First, Rest...>;
};
template <class P, class First, class... Rest>
struct inserted_at<false, P, First, Rest...> {
  using type = typename in_front<typename inserted<P, list<Rest...>>::type, First>::type;
};
template <class P, class First, class... Rest>
struct inserted<P, list<First, Rest...>> {
  static_assert(!std::is_same_v<axis_of<P>, axis_of<First>>, "sinter: [placed] an axis of the mesh is named twice");
  static constexpr bool before = axis_name<axis_of<P>>() < axis_name<axis_of<First>>();
  using type = typename inserted_at<before, P, First, Rest...>::type;
};

/// L with P, unless P is invariant or no placement.
template <bool Valid, class P, class L>
struct added {
  using type = L;
};
template <class P, class L>
requires(!(hold_of<P> == hold{})) struct added<true, P, L> {
  using type = typename inserted<P, L>::type;
};

template <class... P>
struct canonical;
template <>
struct canonical<> {
  using type = list<>;
};
template <class P, class... Rest>
struct canonical<P, Rest...> {
  static constexpr bool placement = placement_type<P>;
  static_assert(placement,
                "sinter: [placed] a placement is shard<A, k>, replicated<A>, invariant<A>, varying<A> or partial<A>, "
                "where struct A : mesh_axis {}");
  using rest = typename canonical<Rest...>::type;
  using type = typename added<placement, P, rest>::type;
};
template <class... P>
using canonical_t = typename canonical<P...>::type;

/// The placement along axis A.
template <class A, class... P>
constexpr hold along_axis(list<P...>) {
  hold h;
  static_cast<void>((... || (std::is_same_v<A, axis_of<P>> && ((h = hold_of<P>), true))));
  return h;
}
template <class A, class... P>
constexpr bool names(list<P...>) {
  return (... || std::is_same_v<A, axis_of<P>>);
}

/// Whether no other axis than A divides tensor axis K. Collectives along A would permute the parts of two axes, whose order is the mesh's.
template <class A, int K, class... P>
constexpr bool divides_alone(list<P...>) {
  return (... && (std::is_same_v<A, axis_of<P>> || !(hold_of<P> == hold{kind::shard, K})));
}

/// The axes that one of two lists names.
template <class... P, class... Q>
constexpr auto axes_in(list<P...>, list<Q...>) {
  return canonical_t<replicated<axis_of<P>>..., std::conditional_t<names<axis_of<Q>>(list<P...>{}),
                                                                   invariant<axis_of<Q>>, replicated<axis_of<Q>>>...>{};
}

enum class fault {
  none,
  invariant_mixed,  ///< invariant with anything else
  not_linear,       ///< a partial operand of an op that is not linear
  two_partials,     ///< a product of partials
  partial_sum,      ///< a partial plus a value that all ranks have
  partial_varying,  ///< a partial with varying values
  other_shards,     ///< shards along different axes
  one_side,         ///< a product whose inner axis is divided on one side
  local_statistic,  ///< a mean or an extreme over a divided axis
  moved_shard,      ///< a product whose operands are divided along rows and columns by one axis
};

/// A placement of a result, or why there is none.
struct outcome {
  hold held;
  fault why = fault::none;
};

constexpr bool varies(hold h) { return h.how == kind::varying || h.how == kind::shard; }

enum class op_class { general, sum, product, quotient };

/// A pointwise op of two operands.
constexpr outcome pointwise(op_class op, hold a, hold b) {
  const bool pa = a.how == kind::partial, pb = b.how == kind::partial;
  if (pa || pb) {
    const hold other = pa ? b : a;
    if (pa && pb)
      return op == op_class::sum ? outcome{a}
                                 : outcome{{}, op == op_class::general ? fault::not_linear : fault::two_partials};
    if (op == op_class::general || (op == op_class::quotient && pb)) return {{}, fault::not_linear};
    if (varies(other)) return {{}, fault::partial_varying};
    if (op == op_class::sum) return {{}, fault::partial_sum};
    if (other.how == kind::invariant) return {{}, fault::invariant_mixed};
    return {{kind::partial}};
  }
  if (a == b) return {a};
  if (a.how == kind::invariant || b.how == kind::invariant) return {{}, fault::invariant_mixed};
  if (a.how == kind::replicated) return {b};
  if (b.how == kind::replicated) return {a};
  if (a.how == kind::varying) return {a};
  if (b.how == kind::varying) return {b};
  return {{}, fault::other_shards};
}

/// A matrix product of ranks a and b, of at least 2. A second operand of rank 2 serves all matrices of the first.
constexpr outcome product(hold a, int rank_a, hold b, int rank_b) {
  const int rank = rank_a > rank_b ? rank_a : rank_b;
  const bool sharded_a = a.how == kind::shard, sharded_b = b.how == kind::shard;
  const bool inner_a = sharded_a && a.along == rank_a - 1, inner_b = sharded_b && b.along == rank_b - 2;
  if (inner_a && inner_b) return {{kind::partial}};
  if ((inner_a && b.how != kind::varying) || (inner_b && a.how != kind::varying)) {
    if (a.how == kind::invariant || b.how == kind::invariant) return {{}, fault::invariant_mixed};
    return {{}, fault::one_side};
  }
  const auto turned = [&](hold h, int own_rank) {
    return h.how == kind::shard ? hold{kind::shard, h.along + rank - own_rank} : h;
  };
  const hold x = turned(a, rank_a), y = turned(b, rank_b);
  if (sharded_a && sharded_b && (!(x == y) || x.along >= rank - 2)) return {{}, fault::moved_shard};
  return pointwise(op_class::product, x, y);
}

/// `reduced` has the axes that are combined.
struct axes_of_tensor {
  std::array<bool, max_rank> at{};
};
/// A reduction; a sum is linear, and a mean as well.
constexpr outcome reduced(hold h, const axes_of_tensor& over, bool sum, bool linear) {
  if (h.how == kind::partial) return linear ? outcome{h} : outcome{{}, fault::not_linear};
  if (h.how != kind::shard) return {h};
  if (over.at[static_cast<std::size_t>(h.along)])
    return sum ? outcome{{kind::partial}} : outcome{{}, fault::local_statistic};
  int along = h.along;
  for (int a = 0; a < h.along; ++a) along -= over.at[static_cast<std::size_t>(a)];
  return {{kind::shard, along}};
}

/// The error of a fault, once.
template <fault F>
constexpr bool accepted() {
  static_assert(F != fault::invariant_mixed,
                "sinter: [placed] an invariant operand with another one: write as<replicated<A>>(x) of the invariant "
                "one; its derivative is then summed over A");
  static_assert(F != fault::not_linear,
                "sinter: [placed] a partial operand of a function that is not linear: write "
                "all_reduce<replicated<A>>(x) first");
  static_assert(F != fault::two_partials,
                "sinter: [placed] a product of two partial operands: write all_reduce<replicated<A>>(x) of one");
  static_assert(F != fault::partial_sum,
                "sinter: [placed] each rank would add this operand to its part of the sum: write "
                "all_reduce<replicated<A>>(x) of the partial operand first");
  static_assert(F != fault::partial_varying,
                "sinter: [placed] a partial operand with one that differs between ranks: write as<partial<A>>(x) of "
                "the other operand of a sum, or all_reduce<replicated<A>>(x) of the partial one");
  static_assert(F != fault::other_shards,
                "sinter: [placed] the operands are divided along different axes: write all_gather<replicated<A>, "
                "k>(x) of one, or all_to_all<A, from, to>(x)");
  static_assert(F != fault::one_side,
                "sinter: [matmul] the inner axis is divided on one side only: divide it on both, as shard<A, k>, or "
                "write all_gather<replicated<A>, k>(x)");
  static_assert(F != fault::moved_shard,
                "sinter: [matmul] one axis of the mesh divides rows of one operand and columns of the other: write "
                "all_gather<replicated<A>, k>(x) of one");
  static_assert(F != fault::local_statistic,
                "sinter: [placed] over a divided axis this would combine only this rank's part: for a mean write "
                "all_reduce<replicated<A>>(sum(x)) and divide by the whole extent; for an extreme write "
                "all_reduce<replicated<A>>(max(local(x)), combine::max); else all_gather<replicated<A>, k>(x)");
  return F == fault::none;
}

}  // namespace detail::meshes

}  // namespace sinter
