// mesh/collectives.hpp: functions over an axis of a mesh: collectives, axis_index, and as<P>(x).
#pragma once

#include <cstdint>
#include <string>

#include "placed.hpp"

namespace sinter {

/// How all_reduce combines the ranks' values: combine::sum, combine::max, combine::min.
struct combine {
  struct sum_t {};
  struct max_t {};
  struct min_t {};
  static constexpr sum_t sum{};
  static constexpr max_t max{};
  static constexpr min_t min{};
};

/// The distance over which permute() moves values: rank r receives from rank r - by, modulo the number of ranks.
struct shift {
  std::int64_t by = 1;
  constexpr explicit shift(std::int64_t distance) : by(distance) {}
};

namespace detail::meshes {

/// L with axis A held as H.
template <class A, hold H, class L>
struct replaced;
template <class A, hold H, class... P>
struct replaced<A, H, list<P...>> {
  using type = canonical_t<placement_for<A, H>, std::conditional_t<std::is_same_v<axis_of<P>, A>, invariant<A>, P>...>;
};

template <class A, class L>
inline constexpr hold held_along = along_axis<A>(L{});

/// Pushes an op over axis A on x's node.
template <class A>
ir::node_id over_axis(const char* op, ir::op code, series<ir::node_id> in, std::initializer_list<std::int64_t> more,
                      location at, ir::op combiner = ir::op::add) {
  return engine::push_over_axis(tracer_for(op, at), code, std::move(in), current_axis<A>(op, at), more, combiner, at);
}
template <class X>
ir::node_id node_for(const char* op, const X& x, location at) {
  return push(tracer_for(op, at), local(x), at);
}
template <class X, class L>
auto placed_node(ir::node_id id, location at) {
  using t = local_of<X>;
  auto y = of_node<typename t::value_type, t::rank>(id, at);
  return placed_tensor<decltype(y), L>(std::move(y));
}

template <class P>
constexpr bool is_shared_target() {
  constexpr bool right = [] {
    if constexpr (placement_type<P>) return hold_of<P>.how == kind::replicated || hold_of<P>.how == kind::invariant;
    else return false;
  }();
  static_assert(right, "sinter: [mesh] all ranks receive the result: it is replicated<A> or invariant<A>");
  return right;
}
template <class A>
constexpr bool is_axis() {
  constexpr bool right = std::is_base_of_v<mesh_axis, A>;
  static_assert(right, "sinter: [mesh] an axis is a struct that derives from mesh_axis: struct dp : mesh_axis {};");
  return right;
}
template <class X>
constexpr bool takes_placed(const char* = "") {
  constexpr bool right = any_placed<X>;
  static_assert(right, "sinter: [mesh] a collective takes a placed tensor: write as<P...>(x) of a plain one");
  return right;
}

constexpr std::int64_t code_of(hold h) { return static_cast<std::int64_t>(in_graph(h.how)); }

template <class P, class X>
auto all_reduced(const X& x, ir::op how, location at) {
  using A = axis_of<P>;
  using L = placements_of<X>;
  const ir::node_id id =
      over_axis<A>("all_reduce", ir::op::all_reduce, {node_for("all_reduce", x, at)}, {code_of(hold_of<P>)}, at, how);
  using t = local_of<X>;
  return placed_tensor<t, typename replaced<A, hold_of<P>, L>::type>(like_node<t>(id, at));
}

template <class P, class X>
constexpr bool sums() {
  constexpr bool right = held_along<axis_of<P>, placements_of<X>>.how == kind::partial;
  static_assert(
      right,
      "sinter: [all_reduce] sums partial values: write as<partial<A>>(x) of values that differ between ranks; "
      "values that all ranks have need no sum");
  return right;
}
template <class P, class X>
constexpr bool compares() {
  constexpr bool right = varies(held_along<axis_of<P>, placements_of<X>>);
  static_assert(right,
                "sinter: [all_reduce] the largest or smallest of values that differ between ranks: "
                "varying<A> or shard<A, k>; sum partial values first");
  return right;
}

}  // namespace detail::meshes

/// The sum of partial values over the ranks of each axis named: `all_reduce<replicated<dp>, invariant<tp>>(x)`. Numbers; the
/// dtype stays, and 16-bit floats are summed in f32. The ranks' order gives the order of the sum.
template <class P, class... More, class X>
auto all_reduce(const X& x, location at = location::current()) {
  using namespace detail::meshes;
  if constexpr (takes_placed<X>() && is_shared_target<P>()) {
    if constexpr (sums<P, X>()) {
      auto y = all_reduced<P>(x, ir::op::add, at);
      if constexpr (sizeof...(More) == 0) return y;
      else return sinter::all_reduce<More...>(y, at);
    } else {
      return x;
    }
  } else {
    return x;
  }
}
/// The elements' largest or smallest values over the ranks, of values that differ between them; of partial values their sum.
/// NaN if a rank has NaN. Ranks that share an extreme share its derivative.
template <class P, class X, class How>
requires(std::is_same_v<How, combine::max_t> ||
         std::is_same_v<How, combine::min_t>) auto all_reduce(const X& x, How, location at = location::current()) {
  using namespace detail::meshes;
  constexpr auto how = std::is_same_v<How, combine::max_t> ? ir::op::maximum : ir::op::minimum;
  if constexpr (takes_placed<X>() && is_shared_target<P>()) {
    if constexpr (compares<P, X>()) return all_reduced<P>(x, how, at);
    else return x;
  } else {
    return x;
  }
}
template <class P, class... More, class X>
auto all_reduce(const X& x, combine::sum_t, location at = location::current()) {
  return sinter::all_reduce<P, More...>(x, at);
}

/// The ranks' parts side by side along axis K: from shard<A, K> or varying<A> to P, which is replicated<A> or invariant<A>.
template <class P, int K, class X>
auto all_gather(const X& x, location at = location::current()) {
  using namespace detail::meshes;
  if constexpr (takes_placed<X>() && is_shared_target<P>()) {
    using L = placements_of<X>;
    constexpr hold from = held_along<axis_of<P>, L>;
    constexpr bool right = from.how == kind::varying || from == hold{kind::shard, K};
    static_assert(right, "sinter: [all_gather] joins shard<A, k> along its axis k, or varying<A> values");
    static_assert(
        divides_alone<axis_of<P>, K>(L{}),
        "sinter: [all_gather] another mesh axis divides axis k too: gather varying<A> parts of it along a new axis");
    if constexpr (right)
      return placed_node<X, typename replaced<axis_of<P>, hold_of<P>, L>::type>(
          over_axis<axis_of<P>>("all_gather", ir::op::all_gather, {node_for("all_gather", x, at)},
                                {code_of(hold_of<P>), K}, at),
          at);
    else return x;
  } else {
    return x;
  }
}

/// The sum of partial values, of which each rank has its part along axis K: from partial<A> to shard<A, K>. user_error if the
/// ranks do not divide the extent.
template <class A, int K, class X>
auto reduce_scatter(const X& x, location at = location::current()) {
  using namespace detail::meshes;
  if constexpr (takes_placed<X>() && is_axis<A>()) {
    using L = placements_of<X>;
    constexpr bool right = held_along<A, L>.how == kind::partial;
    static_assert(right, "sinter: [reduce_scatter] sums partial values: write as<partial<A>>(x)");
    static_assert(divides_alone<A, K>(L{}),
                  "sinter: [reduce_scatter] another mesh axis divides axis k: choose another axis");
    if constexpr (right)
      return placed_node<X, typename replaced<A, hold{kind::shard, K}, L>::type>(
          over_axis<A>("reduce_scatter", ir::op::reduce_scatter, {node_for("reduce_scatter", x, at)}, {K}, at), at);
    else return x;
  } else {
    return x;
  }
}

/// Part r of x along axis From goes to rank r, where the parts lie side by side along axis To: from shard<A, To> to
/// shard<A, From>; varying<A> stays varying. user_error if the ranks do not divide the extent.
template <class A, int From, int To, class X>
auto all_to_all(const X& x, location at = location::current()) {
  using namespace detail::meshes;
  if constexpr (takes_placed<X>() && is_axis<A>()) {
    using L = placements_of<X>;
    constexpr hold held = held_along<A, L>;
    constexpr bool right = held.how == kind::varying || held == hold{kind::shard, To};
    static_assert(right, "sinter: [all_to_all] all_to_all<A, from, to> takes shard<A, to> or varying<A>");
    static_assert(divides_alone<A, From>(L{}) && divides_alone<A, To>(L{}),
                  "sinter: [all_to_all] another mesh axis divides axis from or to: choose other axes");
    constexpr hold result = held.how == kind::varying ? held : hold{kind::shard, From};
    if constexpr (right)
      return placed_node<X, typename replaced<A, result, L>::type>(
          over_axis<A>("all_to_all", ir::op::all_to_all, {node_for("all_to_all", x, at)}, {From, To}, at), at);
    else return x;
  } else {
    return x;
  }
}

/// Each rank receives the value of the rank before it by `s.by`, in a ring: of shard<A, k> or varying<A>.
template <class A, class X>
auto permute(const X& x, shift s, location at = location::current()) {
  using namespace detail::meshes;
  if constexpr (takes_placed<X>() && is_axis<A>()) {
    using L = placements_of<X>;
    constexpr bool right = varies(held_along<A, L>);
    static_assert(right, "sinter: [permute] moves values that differ between ranks: shard<A, k> or varying<A>");
    if constexpr (right)
      return placed_tensor<local_of<X>, typename replaced<A, hold{kind::varying}, L>::type>(
          like_node<local_of<X>>(engine::push_shift(tracer_for("permute", at), node_for("permute", x, at),
                                                    current_axis<A>("permute", at), s.by, at),
                                 at));
    else return x;
  } else {
    return x;
  }
}

/// The value of rank `root`, on all ranks: from shard<A, k> or varying<A> to replicated<A>. user_error for a root outside the ranks.
template <class A, class X>
auto broadcast(const X& x, std::int64_t root, location at = location::current()) {
  using namespace detail::meshes;
  if constexpr (takes_placed<X>() && is_axis<A>()) {
    using L = placements_of<X>;
    constexpr bool right = varies(held_along<A, L>);
    static_assert(right, "sinter: [broadcast] sends a value that differs between ranks: shard<A, k> or varying<A>");
    constexpr hold to{kind::replicated};
    if constexpr (right)
      return placed_tensor<local_of<X>, typename replaced<A, to, L>::type>(
          like_node<local_of<X>>(over_axis<A>("broadcast", ir::op::collective_broadcast, {node_for("broadcast", x, at)},
                                              {code_of(to), root}, at),
                                 at));
    else return x;
  } else {
    return x;
  }
}

/// The number of ranks along A, in a function that a mesh runs.
template <class A>
std::int64_t axis_size(location at = location::current()) {
  static_cast<void>(detail::meshes::is_axis<A>());
  return detail::meshes::current_axis<A>("axis_size", at).ranks;
}

/// This rank's index along A.
template <class A>
auto axis_index(location at = location::current()) {
  using namespace detail::meshes;
  static_cast<void>(is_axis<A>());
  auto y = of_node<std::int64_t, 0>(over_axis<A>("axis_index", ir::op::axis_index, {}, {}, at), at);
  return placed<decltype(y), sinter::varying<A>>(std::move(y));
}

namespace detail::meshes {

/// Whether as<> turns one placement into another.
constexpr bool turns(hold from, hold to) {
  if (from == to) return true;
  if (from.how == kind::invariant || from.how == kind::replicated)
    return varies(to) || (from.how == kind::invariant && to.how == kind::replicated);
  if (varies(from)) return to.how == kind::partial || to.how == kind::varying || from.how == kind::varying;
  return false;
}

template <class P, class X>
auto turned(const X& x, location at) {
  using A = axis_of<P>;
  using L = placements_of<X>;
  constexpr hold from = held_along<A, L>, to = hold_of<P>;
  constexpr bool free = turns(from, to) && !(varies(from) && to.how == kind::invariant);
  static_assert(free,
                "sinter: [as] ranks cannot turn one placement into the other alone: all_reduce sums partial values, "
                "all_gather joins parts, reduce_scatter does both; values that differ become partial<A>");
  if constexpr (to.how == kind::shard)
    static_assert(divides_alone<A, to.along>(L{}),
                  "sinter: [as] another mesh axis divides axis k: choose another axis");
  if constexpr (!free) return x;
  else if constexpr (to.how == kind::shard && (from.how == kind::invariant || from.how == kind::replicated)) {
    const ir::node_id id = engine::own_slice(tracer_for("as", at), node_for("as", x, at), current_axis<A>("as", at),
                                             in_graph(from.how), to.along, at);
    return placed_node<X, typename replaced<A, to, L>::type>(id, at);
  } else {
    return placed_tensor<local_of<X>, typename replaced<A, to, L>::type>(converted<A, from, to>(local(x), at));
  }
}
template <class P, class... More, class X>
auto all_turned(const X& x, location at) {
  auto y = turned<P>(x, at);
  if constexpr (sizeof...(More) == 0) return y;
  else return all_turned<More...>(y, at);
}

/// A plain tensor with the placement that the trace knows.
template <class L, class X>
auto placed_by_trace(const X& x, location at);

}  // namespace detail::meshes

/// x held as P says along the axes that it names, without communication. A placed tensor: invariant to replicated, these to
/// varying or to this rank's part shard<A, k>, and values that differ to partial; others are compile-time errors. A plain
/// tensor becomes placed, with invariant along the other axes: user_error that names both placements unless the trace shows
/// that it is held so.
template <class... P, class X>
requires(sizeof...(P) > 0) auto as(const X& x, location at = location::current()) {
  using namespace detail::meshes;
  constexpr bool right = (... && placement_type<P>);
  static_assert(right, "sinter: [as] takes placements: as<replicated<A>, partial<B>>(x)");
  if constexpr (!right) return x;
  else if constexpr (any_placed<X>) return all_turned<P...>(x, at);
  else return placed_by_trace<canonical_t<P...>>(x, at);
}

namespace detail::meshes {

template <class L, class X>
auto placed_by_trace(const X& x, location at) {
  engine::tracer& t = tracer_for("as", at);
  auto y = settle_tree(x);
  using T = decltype(y);
  static_assert(shards_fit<L, T::rank>::value, "sinter: [as] shard<A, k> divides axis k, from 0 to rank - 1");
  ir::node_id id = push(t, y, at);
  for (std::size_t k = 0; k < current_mesh.count; ++k) {
    const hold to = hold_by_tag(current_mesh.first[k].tag, L{});
    const engine::mesh_axis_place& axis = current_mesh.first[k].place;
    const ir::placement from =
        to.how == kind::shard ? engine::placement_of(t, id, axis.number) : ir::placement::varying;
    if (from == ir::placement::invariant || from == ir::placement::replicated)
      id = engine::own_slice(t, id, axis, from, to.along, at);
    else id = engine::push_traced_as(t, id, axis, in_graph(to.how), at);
  }
  return placed_tensor<T, L>(like_node<T>(id, at));
}

}  // namespace detail::meshes

}  // namespace sinter
