// mesh/parallel.hpp: training on many ranks: data_parallel, and fully_sharded, which also divides parameters.
#pragma once

#include <cstdint>
#include <utility>

#include "row_shards.hpp"
#include "shard_map.hpp"

namespace sinter {

namespace detail::meshes {

/// The mean over the ranks of A of a loss that a trace knows to differ between them, as one value that all ranks have.
template <class A, class V>
auto mean_over_ranks(const V& loss, location at) {
  constexpr bool right = is_loss<V>();
  static_assert(right, "sinter: [data_parallel] the loss is a rank-0 floating tensor; use sum or mean");
  if constexpr (right) {
    const auto own = [&] {
      if constexpr (tensor_like<V>) return detail::evaluate(loss, at);
      else return local(loss);
    }();
    using T = std::remove_cvref_t<decltype(own)>;
    const auto& axis = current_axis<A>("data_parallel", at);
    engine::tracer& t = tracer_for("data_parallel", at);
    const T share = detail::evaluate(div(own, static_cast<double>(axis.ranks), at), at);
    const ir::node_id part = engine::push_traced_as(t, push(t, share, at), axis, ir::placement::partial, at);
    const ir::node_id all = engine::push_over_axis(
        t, ir::op::all_reduce, {part}, axis, {static_cast<std::int64_t>(ir::placement::invariant)}, ir::op::add, at);
    return placed_by_trace<list<>>(like_node<T>(all, at), at);
  } else {
    return placed_tensor<tensor<float, 0>, list<>>();
  }
}

/// x, and trees in it, as plain tensors.
template <class X>
decltype(auto) plain(const X& x) {
  if constexpr (is_placed<X> || (any_held_tree<X> && !is_row_shards<X>)) return local(x);
  else return (x);
}

/// An invariant tree as a plain one that each rank uses in its own way.
template <class A, class P>
auto as_replicated(const P& p, location at) {
  auto tree = local(p);
  engine::tracer& t = tracer_for("data_parallel", at);
  const auto& axis = current_axis<A>("data_parallel", at);
  for_each_leaf(tree, [&]<class Leaf>(Leaf& x) {
    if constexpr (tensor_like<Leaf>)
      x = like_node<Leaf>(
          engine::push_as(t, push(t, x, at), axis, ir::placement::invariant, ir::placement::replicated, at), at);
  });
  return tree;
}

/// The whole tree of all ranks' rows.
template <class A, class T>
T joined_rows(const row_shards<T, A>& p, location at) {
  using ir::placement;
  const auto& axis = current_axis<A>("fully_sharded", at);
  engine::tracer& t = tracer_for("fully_sharded", at);
  return each_with_rows(p, [&]<class X>(const X& x, std::int64_t rows) {
    if constexpr (X::rank == 0) {
      return x;
    } else {
      const ir::node_id all =
          engine::push_over_axis(t, ir::op::all_gather, {push(t, x, at)}, axis,
                                 {static_cast<std::int64_t>(placement::replicated), 0}, ir::op::add, at);
      return detail::fitted<X::static_shape>(
          slice<0>(of_node<typename X::value_type, X::rank>(all, at), 0, rows, 1, at), at);
    }
  });
}

/// A gradient of rows, whose tensors of rank 0 are the ranks' shares, with the sums of these.
template <class A, class T>
row_shards<T, A> summed_scalars(const row_shards<T, A>& g, location at) {
  engine::tracer& t = tracer_for("fully_sharded", at);
  return {each_with_rows(g,
                         [&]<class X>(const X& x, std::int64_t) {
                           if constexpr (X::rank > 0 || !is_float(dtype_of<typename X::value_type>)) return x;
                           else
                             return like_node<X>(
                                 engine::push_over_axis(
                                     t, ir::op::all_reduce, {push(t, x, at)}, current_axis<A>("fully_sharded", at),
                                     {static_cast<std::int64_t>(ir::placement::replicated)}, ir::op::add, at),
                                 at);
                         }),
          g.rows()};
}

/// The function that data_parallel and fully_sharded return.
template <class A, bool Sharded, class F>
class parallel_function {
 public:
  parallel_function(F f, location at) : f_(std::move(f)), at_(at) {}

  template <class P, class... Batch>
  auto operator()(const P& params, const Batch&... batch) const {
    if constexpr (Sharded) {
      constexpr bool right = is_row_shards<P>;
      static_assert(right,
                    "sinter: [fully_sharded] takes parameters as row_shards<Tree, A>; cut_rows<A>(m, tree) makes them");
      if constexpr (right) {
        auto out = derived(
            params, [&](const auto& p) { return joined_rows<A>(p, at_); }, batch...);
        out.second = summed_scalars(out.second, at_);
        return out;
      }
    } else {
      constexpr bool right = [] {
        if constexpr (is_placed<P> || (any_held_tree<P> && !is_row_shards<P>))
          return along_axis<A>(placements_of<P>{}).how == kind::invariant;
        else return false;
      }();
      static_assert(right,
                    "sinter: [data_parallel] takes parameters as placed<Tree, invariant<A>>, a tree that all ranks "
                    "have as one");
      if constexpr (right)
        return derived(
            params, [&](const auto& p) { return as_replicated<A>(p, at_); }, batch...);
    }
  }

 private:
  template <class P, class Used, class... Batch>
  auto derived(const P& params, const Used& used, const Batch&... batch) const {
    return value_and_grad(
        [&](const P& p) { return mean_over_ranks<A>(detail::invoke(at_, f_, used(p), plain(batch)...), at_); },
        at_)(params);
  }

  mutable F f_;
  location at_;
};

}  // namespace detail::meshes

/// The function that returns the mean of a loss over the ranks of A, and its gradient, both equal on all ranks:
/// `auto [l, g] = data_parallel<dp>(loss)(params, x, y)`, within shard_map or simulate. `loss` is written for one device: it
/// takes the plain tree of the parameters and this rank's part of the batch, and returns the mean over that part. Parameters are a
/// placed<Tree, invariant<A>>, and so is the gradient. Gradients are all-reduced as they are ready, many in one exchange.
/// user_error for a loss that does not differ between ranks.
template <class A, class F>
auto data_parallel(F&& loss, location at = location::current()) {
  static_cast<void>(detail::meshes::is_axis<A>());
  return detail::meshes::parallel_function<A, false, std::decay_t<F>>(std::forward<F>(loss), at);
}

/// As data_parallel, with parameters and gradients divided by rows: row_shards<Tree, A>. Ranks gather each tensor,
/// and reduce-scatter gradients. The loss takes the whole tree.
template <class A, class F>
auto fully_sharded(F&& loss, location at = location::current()) {
  static_cast<void>(detail::meshes::is_axis<A>());
  return detail::meshes::parallel_function<A, true, std::decay_t<F>>(std::forward<F>(loss), at);
}

/// The whole tree of parameters that ranks hold by rows, within shard_map: equal on all ranks.
template <class A, class T>
placed<T, replicated<A>> gather_rows(const row_shards<T, A>& x, location at = location::current()) {
  T whole = detail::meshes::joined_rows<A>(x, at);
  return placed<T, replicated<A>>(std::move(whole));
}

}  // namespace sinter
