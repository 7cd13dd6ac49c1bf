// mesh/random.hpp: random numbers of placed tensors, drawn by the index in the whole tensor; dropout of placed tensors.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "functions.hpp"
#include "placed.hpp"

namespace sinter {

namespace detail::meshes {

/// A key whose type says how the ranks hold it, or a plain one, of which the trace knows.
template <class K>
const key& key_of(const K& k) {
  if constexpr (std::is_same_v<K, key>) return k;
  else return local(k);
}
template <class K>
inline constexpr bool is_key = std::is_same_v<K, key>;
template <class L>
inline constexpr bool is_key<placed_tree<key, L>> = true;

template <class L>
struct same_numbers;
template <class... P>
struct same_numbers<list<P...>> {
  static constexpr bool value = (... && !(varies(hold_of<P>) || hold_of<P>.how == kind::partial));
};
template <class K>
constexpr bool check_key() {
  if constexpr (std::is_same_v<K, key>) return true;
  else {
    constexpr bool same = same_numbers<placements_of<K>>::value;
    static_assert(same,
                  "sinter: [random] ranks with keys of their own do not draw one whole tensor: pass a key that is "
                  "invariant<A> or replicated<A>, or draw this rank's numbers as normal<T>(local(key), extents...)");
    return same;
  }
}

/// The key's state, so that it goes with values held as L.
template <class L>
tensor<std::uint64_t, 0> state_for(const char* op, const key& k, location at) {
  engine::tracer& t = tracer_for(op, at);
  ir::node_id id = push(t, k.state, at);
  for (std::size_t i = 0; i < current_mesh.count; ++i) {
    const engine::mesh_axis_place& axis = current_mesh.first[i].place;
    const auto from = engine::placement_of(t, id, axis.number);
    if (from == ir::placement::varying || from == ir::placement::partial)
      fail(op,
           "the key differs between the ranks of " + ir::mesh_axis_name(axis.number) +
               ", which would not draw one whole tensor; take the key as placed<key, invariant<A>>, or draw this "
               "rank's numbers with local extents and as<varying<A>>",
           at);
    const hold to = hold_by_tag(current_mesh.first[i].tag, L{});
    id = engine::push_traced_as(t, id, axis, varies(to) ? ir::placement::replicated : in_graph(to.how), at);
  }
  return like_node<tensor<std::uint64_t, 0>>(id, at);
}

/// For each element of this rank's part of a tensor with these global extents, its row-major index in the whole.
template <class T, class L>
auto global_counters(const char* op, const std::array<std::int64_t, static_cast<std::size_t>(T::rank)>& whole,
                     location at) {
  constexpr auto rank = static_cast<std::size_t>(T::rank);
  engine::tracer& t = tracer_for(op, at);
  std::array<std::int64_t, rank> own = whole;
  std::array<tensor<std::int64_t, 0>, rank> first;
  std::array<bool, rank> moved{};
  // Of two axes of the mesh that divide one axis, the first is the major one.
  for (std::size_t i = 0; i < current_mesh.count; ++i) {
    const engine::mesh_axis_place& axis = current_mesh.first[i].place;
    const hold h = hold_by_tag(current_mesh.first[i].tag, L{});
    if (h.how != kind::shard) continue;
    const auto k = static_cast<std::size_t>(h.along);
    if (own[k] % axis.ranks != 0)
      fail(op,
           "axis " + std::to_string(k) + " of " + std::to_string(whole[k]) + " elements does not divide among the " +
               std::to_string(axis.ranks) + " ranks of " + ir::mesh_axis_name(axis.number),
           at);
    own[k] /= axis.ranks;
    const auto index =
        of_node<std::int64_t, 0>(engine::push_over_axis(t, ir::op::axis_index, {}, axis, {}, ir::op::add, at), at);
    const tensor<std::int64_t, 0> here = detail::evaluate(mul(index, own[k], at), at);
    first[k] = moved[k] ? detail::evaluate(add(first[k], here, at), at) : here;
    moved[k] = true;
  }
  using Index = tensor<std::uint64_t, of_any_extent<T::rank>>;
  index_array<T::rank> extents{};
  for (std::size_t k = 0; k < rank; ++k) extents[k] = own[k];
  Index all = zeros<std::uint64_t>(extents, {}, at);
  std::int64_t stride = 1;
  for (std::size_t k = rank; k-- > 0;) {
    std::array<std::int64_t, rank> line{};
    line.fill(1);
    line[k] = own[k];
    const tensor<std::int64_t, 1> steps = arange<std::int64_t>(own[k]);
    const tensor<std::int64_t, 1> places = moved[k] ? detail::evaluate(add(steps, first[k], at), at) : steps;
    all = detail::evaluate(add(all, reshape(cast<std::uint64_t>(mul(places, stride, at), at), line, at), at), at);
    stride *= whole[k];
  }
  return all;
}

template <class P>
constexpr bool draws() {
  constexpr bool right = [] {
    if constexpr (is_placed<P>) return has_numbers(placements_of<P>{});
    else return false;
  }();
  static_assert(right,
                "sinter: [random] draws of a whole tensor are shard<A, k>, replicated<A> or invariant<A>: "
                "normal<placed<tensor<float, 2>, shard<dp, 0>>>(key, whole extents...)");
  return right;
}
template <class... P>
constexpr bool has_numbers(list<P...>) {
  return (... && (hold_of<P>.how != kind::varying && hold_of<P>.how != kind::partial));
}

/// A part of a whole tensor of numbers(state, index).
template <class P, class K, class Numbers>
P drawn(const char* op, const K& k, const index_array<local_of<P>::rank>& extents, location at,
        const Numbers& numbers) {
  using T = local_of<P>;
  using L = placements_of<P>;
  if constexpr (check_key<K>() && draws<P>()) {
    std::array<std::int64_t, static_cast<std::size_t>(T::rank)> whole{};
    for (std::size_t i = 0; i < whole.size(); ++i) {
      whole[i] = static_cast<std::int64_t>(extents[i]);
      if (whole[i] < 0) fail(op, "an extent is negative: " + std::to_string(whole[i]), at);
    }
    const auto index = global_counters<T, L>(op, whole, at);
    return P(
        detail::fitted<T::static_shape>(detail::evaluate(numbers(state_for<L>(op, key_of(k), at), index), at), at));
  } else {
    return P();
  }
}

/// Whole extents of a placed tensor.
template <class X>
auto whole_extents(const X& x) {
  using T = local_of<X>;
  index_array<T::rank> out{};
  for (int k = 0; k < T::rank; ++k) out[static_cast<std::size_t>(k)] = local(x).size(k);
  for (std::size_t i = 0; i < current_mesh.count; ++i) {
    const hold h = hold_by_tag(current_mesh.first[i].tag, placements_of<X>{});
    if (h.how == kind::shard) out[static_cast<std::size_t>(h.along)] *= current_mesh.first[i].place.ranks;
  }
  return out;
}

/// Placements of a mask of a value: where the value is partial or differs without a whole, the ranks have one mask.
template <class L>
struct mask_list;
template <class... P>
struct mask_list<list<P...>> {
  static constexpr hold of(hold h) {
    return h.how == kind::partial || h.how == kind::varying ? hold{kind::replicated} : h;
  }
  using type = canonical_t<placement_for<axis_of<P>, of(hold_of<P>)>...>;
};

}  // namespace detail::meshes

/// normal<placed<tensor<float, 2>, shard<dp, 0>>>(key, extents…), uniform<P>(key, extents…): this rank's part of a tensor with
/// these whole extents. Elements are drawn by their index in the whole, so that any number of ranks has equal numbers: those of
/// normal<float>(key, extents…). The key is equal on all ranks: placed<key, invariant<A>>, replicated<A>, or a plain key that the
/// trace knows to be. user_error for a key that differs, and for an extent that the ranks do not divide.
#define SINTER_X(NAME)                                                                                             \
  template <detail::meshes::any_placed P, class K, extent_like... I>                                               \
  requires(detail::meshes::is_key<K> && sizeof...(I) + 1 == detail::meshes::local_of<P>::rank) P NAME(             \
      const K& k, detail::extent_here first, I... rest) {                                                          \
    return detail::meshes::drawn<P>(                                                                               \
        #NAME, k, detail::extents_from(first, rest...), first.at, [&](const auto& state, const auto& index) {      \
          return detail::NAME##_numbers<typename detail::meshes::local_of<P>::value_type>(state, index, first.at); \
        });                                                                                                        \
  }
SINTER_X(uniform)
SINTER_X(normal)
#undef SINTER_X
/// bernoulli<P>(key, p, extents…): true with probability p, in the same way. user_error for a p outside of [0, 1].
template <detail::meshes::any_placed P, class K, extent_like... I>
requires(detail::meshes::is_key<K> && sizeof...(I) + 1 == detail::meshes::local_of<P>::rank) P
    bernoulli(const K& k, double p, detail::extent_here first, I... rest) {
  if (!(p >= 0 && p <= 1)) fail("bernoulli", "the probability must be in [0, 1]; it is " + text::number(p), first.at);
  return detail::meshes::drawn<P>(
      "bernoulli", k, detail::extents_from(first, rest...), first.at,
      [&](const auto& state, const auto& index) { return detail::bernoulli_numbers(state, p, index, first.at); });
}

/// For nn::dropout: x without the elements that a key drops, by their index in the whole tensor, divided by 1 - rate. Along an axis
/// where x is partial or varying all ranks drop the same ones.
template <detail::meshes::any_placed X, class K>
X drop_elements(const X& x, double rate, const K& k, location at) {
  using namespace detail::meshes;
  using T = local_of<X>;
  using L = placements_of<X>;
  using M = typename mask_list<L>::type;
  using mask = placed_tensor<tensor<bool, T::static_shape>, M>;
  const mask keep = drawn<mask>("nn::dropout", k, whole_extents(x), at, [&](const auto& state, const auto& index) {
    return detail::bernoulli_numbers(state, 1 - rate, index, at);
  });
  const auto factor = cast<typename T::value_type>(local(keep), at);
  return X(detail::fitted<T::static_shape>(detail::evaluate(mul(local(x), div(factor, 1 - rate, at), at), at), at));
}

}  // namespace sinter
