// mesh/pipeline.hpp: pipeline: layers in a row, some on each rank, through which the parts of a batch go one after the other.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "shard_map.hpp"

namespace sinter {

/// How pipeline() divides a batch.
struct pipeline_options {
  std::int64_t microbatches = 8;
};

namespace detail::meshes {

template <class A, class F>
class pipelined {
 public:
  pipelined(F f, pipeline_options how, location at) : layer_(std::move(f)), how_(how), at_(at) {}

  template <class P, class X>
  auto operator()(const P& layers, const X& x) const {
    constexpr bool divided = [] {
      if constexpr (any_held_tree<P> && !is_row_shards<P>) return varies(along_axis<A>(placements_of<P>{}));
      else return false;
    }();
    constexpr bool shared = [] {
      if constexpr (is_placed<X>) return !varies(along_axis<A>(placements_of<X>{}));
      else return false;
    }();
    static_assert(
        divided,
        "sinter: [pipeline] takes the layers as placed<stacked<Layer>, shard<A, 0>>: stack_tree(layers), which "
        "is divided among the ranks");
    static_assert(
        shared && local_of<X>::rank > 0,
        "sinter: [pipeline] takes a batch that all ranks of the axis have: placed<tensor<T, n>, replicated<A>>");
    if constexpr (divided && shared) return run(layers, x);
  }

 private:
  /// This rank's layers, one after the other.
  template <class P, class H>
  H stage(const P& layers, const H& h) const {
    return scan(
               [&](const H& y, const auto& layer) {
                 return std::pair{H(detail::invoke(at_, layer_, layer, y)), std::tuple<>()};
               },
               h, local(layers), at_)
        .first;
  }

  /// At tick t, rank r computes microbatch t - r. Ranks outside of that compute one of which the result is not used.
  template <class P, class X>
  auto run(const P& layers, const X& x) const {
    using T = local_of<X>;
    using H = tensor<typename T::value_type, of_any_extent<T::rank>>;
    using ir::placement;
    const auto& axis = current_axis<A>("pipeline", at_);
    engine::tracer& t = tracer_for("pipeline", at_);
    const auto all = as<sinter::varying<A>>(x, at_);
    const auto rows = static_cast<std::int64_t>(local(x).size(0)), parts = how_.microbatches;
    if (parts < 1 || rows % parts != 0)
      fail("pipeline",
           "a batch of " + std::to_string(rows) + " rows does not divide into " + std::to_string(parts) +
               " microbatches; give .microbatches a divisor of the rows",
           at_);
    const auto micro = cut(H(local(all)), parts);
    const auto fed = axis.ranks == 1 ? micro : concat<0>(micro, last_repeated(micro, axis.ranks - 1));
    const tensor<std::int64_t, 0> index = local(axis_index<A>(at_));
    const auto tick = [&](const H& received, const H& own) {
      const H in = where(eq(index, 0, at_), own, received, at_);
      const H out = stage(layers, in);
      const H sent =
          like_node<H>(engine::push_shift(*engine::current(), push(*engine::current(), out, at_), axis, 1, at_), at_);
      return std::pair{sent, out};
    };
    const auto outs = scan(tick, H(index_first(micro)), fed, at_).second;
    const auto whole = joined(slice<0>(outs, axis.ranks - 1, axis.ranks - 1 + parts, 1, at_));
    const ir::node_id id =
        engine::push_over_axis(t, ir::op::collective_broadcast, {push(t, whole, at_)}, axis,
                               {static_cast<std::int64_t>(placement::replicated), axis.ranks - 1}, ir::op::add, at_);
    using L = typename replaced<A, hold{kind::replicated}, placements_of<X>>::type;
    return placed_tensor<H, L>(of_node<typename H::value_type, H::rank>(id, at_));
  }

  /// (n, …) as (parts, n / parts, …), and back.
  template <class H>
  auto cut(const H& x, std::int64_t parts) const {
    std::array<std::int64_t, static_cast<std::size_t>(H::rank) + 1> to{};
    to[0] = parts;
    to[1] = static_cast<std::int64_t>(x.size(0)) / parts;
    for (int k = 1; k < H::rank; ++k) to[static_cast<std::size_t>(k) + 1] = static_cast<std::int64_t>(x.size(k));
    return reshape(x, to, at_);
  }
  template <class Y>
  auto joined(const Y& y) const {
    std::array<std::int64_t, static_cast<std::size_t>(Y::rank) - 1> to{};
    to[0] = static_cast<std::int64_t>(y.size(0)) * static_cast<std::int64_t>(y.size(1));
    for (int k = 2; k < Y::rank; ++k) to[static_cast<std::size_t>(k) - 1] = static_cast<std::int64_t>(y.size(k));
    return reshape(y, to, at_);
  }
  template <class M>
  auto index_first(const M& micro) const {
    return squeeze<0>(slice<0>(micro, 0, 1, 1, at_));
  }
  /// Values that a layer takes without trouble, in place of microbatches that do not exist.
  template <class M>
  auto last_repeated(const M& micro, std::int64_t count) const {
    std::array<std::int64_t, static_cast<std::size_t>(M::rank)> to{};
    for (int k = 0; k < M::rank; ++k) to[static_cast<std::size_t>(k)] = static_cast<std::int64_t>(micro.size(k));
    to[0] = count;
    return broadcast_to(slice<0>(micro, how_.microbatches - 1, how_.microbatches, 1, at_), to, at_);
  }

  mutable F layer_;
  pipeline_options how_;
  location at_;
};

}  // namespace detail::meshes

/// The function that sends a batch through layers that the ranks of A share out (GPipe, Huang et al., 2019):
/// `pipeline<pp>(layer, {.microbatches = 8})(layers, x)`, within shard_map or simulate. `layers` is a
/// placed<stacked<Layer>, shard<A, 0>>: each rank has as many, one after the other. layer(p, h) gives a tensor of h's shape, and
/// works on plain tensors. x, which all ranks have, is cut along axis 0 into microbatches; the result is replicated<A>. With m
/// microbatches and p ranks a pass takes m + p - 1 ticks. The derivative goes through the ranks backwards in the same way.
/// user_error if the microbatches do not divide the batch.
template <class A, class F>
auto pipeline(F&& layer, pipeline_options how = {}, location at = location::current()) {
  static_cast<void>(detail::meshes::is_axis<A>());
  return detail::meshes::pipelined<A, std::decay_t<F>>(std::forward<F>(layer), how, at);
}

}  // namespace sinter
