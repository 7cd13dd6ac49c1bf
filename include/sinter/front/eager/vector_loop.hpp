// front/eager/vector_loop.hpp: an expression's value at several positions of a row at once.
#pragma once

#include <array>
#include <cstring>

#include "../../loops/simd.hpp"
#include "loop.hpp"

namespace sinter::detail {

/// The one type, bool aside, of everything in an expression: void when there is none, `mixed` when there are several.
struct mixed {};
template <class A, class B>
using common_lane =
    std::conditional_t<std::is_void_v<A> || std::is_same_v<A, B>, B, std::conditional_t<std::is_void_v<B>, A, mixed>>;
template <class E>
struct expression_lane {
  using T = typename E::value_type;
  using type = std::conditional_t<is_index_leaf<E>, mixed, std::conditional_t<std::is_same_v<T, bool>, void, lane<T>>>;
};
template <class... T>
struct fold_lane {
  using type = void;
};
template <class First, class... Rest>
struct fold_lane<First, Rest...> {
  using type = common_lane<First, typename fold_lane<Rest...>::type>;
};
template <ir::op Op, class T, dims Shape, class... Operands>
struct expression_lane<expr<Op, T, Shape, Operands...>> {
  using type = typename fold_lane<std::conditional_t<std::is_same_v<T, bool>, void, lane<T>>,
                                  typename expression_lane<Operands>::type...>::type;
};
template <class E>
using lane_type = typename expression_lane<E>::type;

/// True when the whole expression can be computed in vectors of lane_type<E>.
template <class E>
inline constexpr bool vectorizable = simd::is_lane<lane_type<E>>;

/// The value of `e` at positions i… of a row whose steps are one element, or 0 over a splat.
template <class T, int First, class E, int N>
SINTER_INLINE auto vector_at(const E& e, const row<N>& r, std::int64_t i) {
  using V = typename E::value_type;
  using R = std::conditional_t<std::is_same_v<V, bool>, bool, T>;
  using vector = std::conditional_t<std::is_same_v<V, bool>, simd::mask<T>, simd::vec<T>>;
  if constexpr (is_literal<E>) {
    return vector(static_cast<R>(e.value));
  } else if constexpr (!is_expr<E>) {
    return vector::load(reinterpret_cast<const R*>(r.at[First].data + i * r.at[First].step));
  } else {
    constexpr int arity = ir::row(E::code).arity;
    const auto& first = e.operands.first;
    const auto a = vector_at<T, First>(first, r, i);
    if constexpr (arity == 1) {
      return simd::apply_row<E::code, R>(a);
    } else {
      constexpr int second_leaf = First + leaf_count<std::remove_cvref_t<decltype(first)>>;
      const auto& second = e.operands.second;
      const auto b = vector_at<T, second_leaf>(second, r, i);
      if constexpr (arity == 2) {
        return simd::apply_row<E::code, R>(a, b);
      } else {
        constexpr int third_leaf = second_leaf + leaf_count<std::remove_cvref_t<decltype(second)>>;
        return simd::apply_row<E::code, R>(a, b, vector_at<T, third_leaf>(e.operands.third, r, i));
      }
    }
  }
}

/// The bytes of an element of each leaf.
template <class E>
inline constexpr auto leaf_sizes = [] {
  std::array<int, static_cast<std::size_t>(bound(leaf_count<E>))> all{};
  std::size_t n = 0;
  for (const term& t : terms_of<E>)
    if (t.is == term::tensor || t.is == term::index) all[n++] = static_cast<int>(size_of(t.type));
  return all;
}();

/// Replaces leaves that do not move by copies of their element; false when one steps by more than an element.
inline bool prepare_vectors(cursor* at, const int* size, int count, char* splat, int splat_bytes) {
  for (int k = 0; k < count; ++k, splat += splat_bytes) {
    if (at[k].step == size[k]) continue;
    if (at[k].step != 0) return false;
    for (int i = 0; i < splat_bytes; i += size[k])
      std::memcpy(splat + i, at[k].data, static_cast<std::size_t>(size[k]));
    at[k].data = splat;
  }
  return true;
}

/// A row prepared for vectors.
template <class E, class Set = simd::instruction_set>
struct vector_row {
  static constexpr int count = leaf_count<E>;
  static constexpr int width = simd::vec<lane_type<E>, Set>::width;
  static constexpr int splat_bytes = width * static_cast<int>(sizeof(lane_type<E>));

  explicit vector_row(const cursor* from) : r(from) {
    ok = prepare_vectors(r.at, leaf_sizes<E>.data(), count, splat, splat_bytes);
  }
  SINTER_INLINE auto operator()(const E& e, std::int64_t i) const { return vector_at<lane_type<E>, 0>(e, r, i); }

  row<count> r;
  bool ok;
  alignas(64) char splat[static_cast<std::size_t>(splat_bytes * (count > 0 ? count : 1))];
};

/// The element type in vectors of values of type T.
template <class E, class T>
using stored = std::conditional_t<std::is_same_v<T, bool>, bool, lane_type<E>>;

}  // namespace sinter::detail
