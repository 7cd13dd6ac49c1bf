// mesh/shard_map.hpp: shard_map, which runs a function on the ranks of a mesh, and simulate, which runs all ranks in one process.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "collectives.hpp"
#include "functions.hpp"
#include "row_shards.hpp"

namespace sinter {

namespace detail::meshes {

/// The parameter types of a function with one signature.
template <class F>
struct parameters_of {
  static constexpr bool known = false;
};
template <class M>
struct parameters_of_member;
template <class C, class R, class... P>
struct parameters_of_member<R (C::*)(P...)> {
  static constexpr bool known = true;
  using type = std::tuple<std::remove_cvref_t<P>...>;
};
template <class C, class R, class... P>
struct parameters_of_member<R (C::*)(P...) const> : parameters_of_member<R (C::*)(P...)> {};
template <class C, class R, class... P>
struct parameters_of_member<R (C::*)(P...) noexcept> : parameters_of_member<R (C::*)(P...)> {};
template <class C, class R, class... P>
struct parameters_of_member<R (C::*)(P...) const noexcept> : parameters_of_member<R (C::*)(P...)> {};
template <class R, class... P>
struct parameters_of<R (*)(P...)> {
  static constexpr bool known = true;
  using type = std::tuple<std::remove_cvref_t<P>...>;
};
template <class F>
requires requires { &F::operator(); }
struct parameters_of<F> : parameters_of_member<decltype(&F::operator())> {};

/// The hold along each axis of the current mesh.
template <class L>
series<engine::mesh_placement> holds_of() {
  series<engine::mesh_placement> out;
  for (std::size_t k = 0; k < current_mesh.count; ++k) {
    const hold h = hold_by_tag(current_mesh.first[k].tag, L{});
    out.push_back({in_graph(h.how), h.along});
  }
  return out;
}
inline series<engine::mesh_axis_place> places_of_mesh() {
  series<engine::mesh_axis_place> out;
  for (std::size_t k = 0; k < current_mesh.count; ++k) out.push_back(current_mesh.first[k].place);
  return out;
}
template <class T>
std::span<const T> viewed(const series<T>& s) {
  return {s.data(), s.size()};
}

/// Whether a mesh has all axes that a tree's placements name.
template <class M, class L>
struct has_axes;
template <class... A, class... P>
struct has_axes<mesh<A...>, list<P...>> {
  template <class Q>
  static constexpr bool has = (... || std::is_same_v<axis_of<Q>, A>);
  static constexpr bool value = (... && has<P>);
};
template <class M, class T>
constexpr void check_axes() {
  if constexpr (is_placed<T> || any_held_tree<T>) {
    constexpr bool known = [] {
      if constexpr (is_placed<T>) return has_axes<M, placements_of<T>>::value;
      else return has_axes<M, typename held_tree<T>::template at<1>>::value;
    }();
    static_assert(known, "sinter: [shard_map] a placement names an axis that the mesh does not have");
    if constexpr (any_held_tree<T>) check_axes<M, local_of<T>>();
  } else if constexpr (branch_of<T>() == branch::tuple || branch_of<T>() == branch::structure) {
    []<class... C>(type_list<C...>) { (check_axes<M, C>(), ...); }(children_of<T>{});
  }
}

/// Whether an argument is the whole tree for a placed one.
template <class P, class Arg>
constexpr bool is_whole_tree() {
  if constexpr (any_held_tree<P>) return std::is_same_v<local_of<P>, Arg>;
  else return false;
}
/// What a caller may pass for a parameter P.
template <class P, class Arg>
constexpr bool passes() {
  if constexpr (std::is_same_v<P, Arg>) return true;
  else if constexpr (is_placed<P> && tensor_like<Arg>)
    return dtype_of<typename local_of<P>::value_type> == dtype_of<typename Arg::value_type> &&
           local_of<P>::rank == Arg::rank;
  else if constexpr (is_whole_tree<P, Arg>()) return true;
  else return std::is_convertible_v<Arg, P>;
}
template <class L>
struct has_whole;
template <class... P>
struct has_whole<list<P...>> {
  static constexpr bool value = (... && (hold_of<P>.how != kind::varying && hold_of<P>.how != kind::partial));
};

template <class L>
constexpr void check_whole() {
  constexpr bool whole = has_whole<L>::value;
  static_assert(whole,
                "sinter: [shard_map] a plain tensor is cut for shard<A, k>, replicated<A> and invariant<A>; of "
                "varying<A> and partial<A> pass this rank's placed tensor");
}

/// The number of ranks along the axis that divides the rows of a tree.
template <class T>
std::int64_t ranks_of_rows(location at) {
  return []<class U, class A>(std::type_identity<row_shards<U, A>>, location where) {
    return current_axis<A>("shard_map", where).ranks;
  }(std::type_identity<T>{}, at);
}

/// Calls f(tensor, placements) with each tensor of a whole tree that P divides. Rows that ranks do not divide are padded first.
template <class P, class F>
P cut_tree(const local_of<P>& whole, location at, const F& f) {
  P x = [&] {
    if constexpr (is_row_shards<P>) return P(whole, rows_in(whole));
    else return P(whole);
  }();
  walk_held<no_rule, 0>(x, [&]<class X, class L, class Depth>(X& one, L, Depth) {
    if constexpr (Depth::value == 1) {
      check_whole<L>();
      static_assert(shards_fit<L, X::rank>::value, "sinter: [placed] shard<A, k> divides axis k of each tensor");
      if constexpr (is_row_shards<P> && X::rank > 0) one = padded_rows(one, ranks_of_rows<P>(at), at);
      one = f(one, L{});
    }
  });
  return x;
}

/// The parameter from an argument: a whole tensor, or a tree of these, is cut.
template <class P, class Arg>
P entered(const Arg& arg, location at) {
  const auto& t = engine::current();
  const auto axes = places_of_mesh();
  const auto cut = [&]<class X, class L>(const X& whole, L) {
    const auto how = holds_of<L>();
    const ir::node_id id = engine::own_part(*t, push(*t, settle_tree(whole), at), viewed(axes), viewed(how), at);
    return of_node<typename X::value_type, X::rank>(id, at);
  };
  P x = [&]() -> P {
    if constexpr (is_placed<P> && tensor_like<Arg>) {
      check_whole<placements_of<P>>();
      return P(fitted<local_of<P>::static_shape>(cut(arg, placements_of<P>{}), at));
    } else if constexpr (is_whole_tree<P, Arg>()) {
      return cut_tree<P>(
          arg, at, [&]<class X, class L>(const X& whole, L l) { return fitted<X::static_shape>(cut(whole, l), at); });
    } else {
      return arg;
    }
  }();
  for_each_held(x, [&]<class X, class L>(X& one, L, auto) {
    ir::node_id id = push(*t, one, at);
    for (std::size_t k = 0; k < current_mesh.count; ++k) {
      const auto code = code_of(hold_by_tag(current_mesh.first[k].tag, L{}));
      id = engine::push_over_axis(*t, ir::op::as, {id}, current_mesh.first[k].place, {code, code}, ir::op::add, at);
    }
    one = like_node<X>(id, at);
  });
  return x;
}

/// Checks at the end of a trace that placements are combined rightly everywhere, also in plain tensors. Results must be held as
/// their types say.
template <class R>
void check_result(const R& result, location at) {
  engine::tracer& t = *engine::current();
  series<ir::node_id> outputs;
  for_each_leaf(result, [&]<class Leaf>(const Leaf& x) {
    if constexpr (tensor_like<Leaf>) outputs.push_back(push(t, x, at));
  });
  const auto axes = places_of_mesh();
  engine::check_placements(t, viewed(outputs), viewed(axes));
  for_each_held(result, [&]<class X, class L>(const X& x, L, auto) {
    for (std::size_t k = 0; k < current_mesh.count; ++k) {
      const hold to = hold_by_tag(current_mesh.first[k].tag, L{});
      static_cast<void>(engine::push_traced_as(t, push(t, x, at), current_mesh.first[k].place, in_graph(to.how), at));
    }
  });
}

template <class P, class Arg>
constexpr bool taken() {
  constexpr bool right = passes<P, Arg>();
  static_assert(right,
                "sinter: [shard_map] an argument does not fit its parameter: pass the placed tensor of this rank, or "
                "the whole tensor of the same dtype and rank");
  return right;
}

/// The function that shard_map returns.
template <class M, class F>
class sharded {
 public:
  sharded(M m, F f, location at) : mesh_(std::move(m)), f_(std::move(f)), at_(at) {}

  template <class... Args>
  auto operator()(const Args&... args) const {
    if constexpr (parameters_of<F>::known) {
      using params = typename parameters_of<F>::type;
      constexpr bool count = std::tuple_size_v<params> == sizeof...(Args);
      static_assert(count, "sinter: [shard_map] the function takes another number of arguments");
      if constexpr (count) return checked(static_cast<params*>(nullptr), settle_tree(args)...);
    } else {
      return checked(static_cast<std::tuple<decltype(settle_tree(args))...>*>(nullptr), settle_tree(args)...);
    }
  }

 private:
  template <class... P, class... Args>
  auto checked(std::tuple<P...>*, const Args&... args) const {
    (check_axes<M, P>(), ...);
    if constexpr ((... && taken<P, Args>())) {
      if (engine::current()) return under_trace<P...>(args...);
      return call_alone(
          "shard_map", at_, [this](const auto&... x) { return this->template under_trace<P...>(x...); }, args...);
    }
  }
  template <class... P, class... Args>
  auto under_trace(const Args&... args) const {
    if (mesh_.is_simulated())
      fail("shard_map", "a simulated mesh has no ranks; make_mesh has, and simulate(f, m) needs none", at_);
    const mesh_scope scope(mesh_.scope());
    std::tuple<P...> in{entered<P>(args, at_)...};
    auto result = settle_tree(std::apply([&](auto&... x) { return detail::invoke(at_, f_, std::move(x)...); }, in));
    check_axes<M, decltype(result)>();
    check_result(result, at_);
    return result;
  }

  M mesh_;
  mutable F f_;
  location at_;
};

/// The type of a whole result.
template <class R>
struct whole {
  using type = R;
};
template <class T, class L>
struct whole<placed_tensor<T, L>> {
  using type = tensor<typename T::value_type, of_any_extent<T::rank>>;
};
template <class T, class L>
struct whole<placed_tree<T, L>> {
  using type = T;
};
template <class T, class A>
struct whole<row_shards<T, A>> {
  using type = T;
};
template <class... R>
struct whole<std::tuple<R...>> {
  using type = std::tuple<typename whole<R>::type...>;
};
template <class A, class B>
struct whole<std::pair<A, B>> {
  using type = std::pair<typename whole<A>::type, typename whole<B>::type>;
};
template <class R>
using whole_t = typename whole<R>::type;

/// The function that simulate returns.
template <class M, class F>
class simulated {
 public:
  simulated(F f, M m, location at) : mesh_(std::move(m)), f_(std::move(f)), at_(at) {}

  template <class... Args>
  auto operator()(const Args&... args) const {
    static_assert(parameters_of<F>::known,
                  "sinter: [simulate] the parameters' types say how arguments are cut: give the function placed "
                  "parameters instead of auto");
    if constexpr (parameters_of<F>::known) {
      using params = typename parameters_of<F>::type;
      constexpr bool count = std::tuple_size_v<params> == sizeof...(Args);
      static_assert(count, "sinter: [simulate] the function takes another number of arguments");
      if constexpr (count) return checked(static_cast<params*>(nullptr), settle_tree(args)...);
    }
  }

 private:
  template <class P, class Arg>
  static constexpr bool simulates() {
    constexpr bool right =
        passes<P, Arg>() && ((is_placed<P> && tensor_like<Arg>) || (any_held_tree<P> && !any_held_tree<Arg>));
    static_assert(right,
                  "sinter: [simulate] parameters are placed tensors, and arguments whole tensors of the same dtype "
                  "and rank");
    return right;
  }
  template <class... P, class... Args>
  auto checked(std::tuple<P...>*, const Args&... args) const {
    (check_axes<M, P>(), ...);
    if constexpr ((... && simulates<P, Args>())) {
      if (engine::current()) return under_trace<P...>(args...);
      return call_alone(
          "simulate", at_, [this](const auto&... x) { return this->template under_trace<P...>(x...); }, args...);
    }
  }

  /// The input of the body for one parameter; `operands` receives all ranks' values.
  template <class P, class Arg>
  P input(const std::shared_ptr<engine::tracer>& body, const Arg& arg, series<ir::node_id>& operands) const {
    engine::tracer& t = *engine::current();
    const auto axes = places_of_mesh();
    const auto own = [&]<class X, class L>(const X& whole, L) {
      const auto how = holds_of<L>();
      const ir::node_id all = engine::cut_for_ranks(t, push(t, whole, at_), viewed(axes), viewed(how), at_);
      operands.push_back(all);
      ir::shape part = t.graph[all].extents;
      part.erase(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(axes.size()));
      const ir::node_id id = body->graph.add_input(dtype_of<typename X::value_type>, part, at_);
      const part_scope scope(body);
      return of_node<typename X::value_type, X::rank>(id, at_);
    };
    if constexpr (is_placed<P>) {
      constexpr bool cut = has_whole<placements_of<P>>::value;
      static_assert(cut, "sinter: [simulate] parameters are shard<A, k>, replicated<A> or invariant<A>");
      const auto part = own(arg, placements_of<P>{});
      const part_scope scope(body);
      return P(fitted<local_of<P>::static_shape>(part, at_));
    } else {
      return cut_tree<P>(arg, at_, [&]<class X, class L>(const X& whole, L l) {
        const auto part = own(whole, l);
        const part_scope scope(body);
        return fitted<X::static_shape>(part, at_);
      });
    }
  }

  template <class... P, class... Args>
  auto under_trace(const Args&... args) const {
    const mesh_scope scope(mesh_.scope());
    const auto outer = engine::current();
    const auto body = engine::make_inner_tracer();
    series<ir::node_id> operands;
    std::tuple<P...> in{input<P>(body, args, operands)...};
    auto result = [&] {
      const part_scope inside(body);
      std::tuple<P...> marked =
          std::apply([&](const auto&... x) { return std::tuple<P...>{entered<P>(x, at_)...}; }, in);
      auto y = settle_tree(std::apply([&](auto&... x) { return detail::invoke(at_, f_, std::move(x)...); }, marked));
      check_axes<M, decltype(y)>();
      check_result(y, at_);
      push_leaves(*body, y, body->graph.outputs, at_);
      return y;
    }();
    const auto axes = places_of_mesh();
    const auto all = engine::push_ranks(*outer, *body, std::move(operands), viewed(axes), at_);
    const ir::node_id* next = all.begin();
    return joined(result, next);
  }

  template <class R>
  whole_t<R> joined(const R& r, const ir::node_id*& next) const {
    if constexpr (is_placed<R>) {
      using T = local_of<R>;
      constexpr bool joins = joins_whole(placements_of<R>{});
      static_assert(joins,
                    "sinter: [simulate] a varying result is no whole tensor: return shard<A, k>, or partial<A> for a "
                    "sum");
      const auto axes = places_of_mesh();
      const auto how = holds_of<placements_of<R>>();
      return of_node<typename T::value_type, T::rank>(
          engine::join_ranks(*engine::current(), *next++, viewed(axes), viewed(how), at_), at_);
    } else if constexpr (any_held_tree<R>) {
      return joined_tree(r, next);
    } else if constexpr (is_tuple<R>) {
      return with_children(r, [&](const auto&... x) { return whole_t<R>{joined(x, next)...}; });
    } else {
      static_assert(never<R>, "sinter: [simulate] results are placed tensors, and tuples of them");
      return r;
    }
  }
  /// The whole tree. Rows that pad the last ranks' parts are cut off.
  template <class R>
  whole_t<R> joined_tree(R r, const ir::node_id*& next) const {
    const auto axes = places_of_mesh();
    walk_held<no_rule, 0>(r, [&]<class X, class L, class Depth>(X& one, L, Depth) {
      static_assert(Depth::value == 1, "sinter: [simulate] a placed tree holds plain tensors");
      const auto how = holds_of<L>();
      one = fitted<X::static_shape>(
          of_node<typename X::value_type, X::rank>(
              engine::join_ranks(*engine::current(), *next++, viewed(axes), viewed(how), at_), at_),
          at_);
    });
    if constexpr (is_row_shards<R>)
      return each_with_rows(r, [&]<class X>(const X& x, std::int64_t rows) {
        if constexpr (X::rank == 0) return x;
        else return fitted<X::static_shape>(slice<0>(x, 0, rows, 1, at_), at_);
      });
    else return local(r);
  }
  template <class... P>
  static constexpr bool joins_whole(list<P...>) {
    return (... && (hold_of<P>.how != kind::varying));
  }

  M mesh_;
  mutable F f_;
  location at_;
};

}  // namespace detail::meshes

/// The function that runs f on each rank of m: all ranks call it, in the same order. f takes and returns placed tensors, and
/// trees of them; extents are this rank's. An argument is this rank's placed tensor, or a whole tensor, which is cut. The
/// result is this rank's. Inside compile() it becomes part of the graph. user_error for an extent that the ranks do not divide,
/// and for placements that plain tensors combine without a meaning. Call value_and_grad inside f: gradients of placed tensors
/// are placed, partial for replicated ones.
template <class M, class F>
auto shard_map(const M& m, F&& f, location at = location::current()) {
  return detail::meshes::sharded<M, std::decay_t<F>>(m, std::forward<F>(f), at);
}

/// The function that runs f on all ranks of m in this process, as one ordinary graph without communication: it takes and
/// returns whole tensors. The ranks' extents come from m alone; simulated_mesh makes one without ranks. f has placed
/// parameters, and returns placed tensors that have a whole value, or tuples of them.
template <class F, class M>
auto simulate(F&& f, const M& m, location at = location::current()) {
  return detail::meshes::simulated<M, std::decay_t<F>>(std::forward<F>(f), m, at);
}

}  // namespace sinter
