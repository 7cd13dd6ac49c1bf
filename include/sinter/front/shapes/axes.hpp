// front/shapes/axes.hpp: axes as compile-time values, and the check that a shape has them.
#pragma once

#include <initializer_list>

#include "../../base/dims.hpp"
#include "names.hpp"

namespace sinter {

/// The type of axis<…>.
template <int... Axes>
struct axis_t {};

/// Axes of a tensor, counted from the end when negative: `sum(x, axis<-1>)`, `mean(x, axis<0, 2>)`.
template <int... Axes>
inline constexpr axis_t<Axes...> axis{};

struct none_t {};

/// In place of an axis: an argument of vmap that all lanes share, `in_axes<0, none>`. In place of CUDA source or a vjp: a
/// custom op without it, `custom_op<"name">(cpu, none, shape)`.
inline constexpr none_t none{};

struct keepdims_t {};

/// Keeps an extent of 1 in place of every reduced axis: `sum(x, axis<-1>, keepdims)`.
inline constexpr keepdims_t keepdims{};

namespace op_shapes {

/// Axes in [0, rank), in the given order; `error` has the reason if some are not.
struct axis_list {
  int count = 0;
  int at[max_rank] = {};
  detail::fault error = detail::fault::none;

  constexpr bool has(int axis) const {
    for (int i = 0; i < count; ++i)
      if (at[i] == axis) return true;
    return false;
  }
  constexpr int operator[](int i) const { return at[i]; }
  constexpr const int* begin() const { return at; }
  constexpr const int* end() const { return at + count; }
  constexpr bool operator==(const axis_list&) const = default;

  constexpr axis_list sorted() const {
    axis_list s = *this;
    for (int i = 1; i < s.count; ++i)
      for (int j = i; j > 0 && s.at[j] < s.at[j - 1]; --j) {
        const int t = s.at[j];
        s.at[j] = s.at[j - 1];
        s.at[j - 1] = t;
      }
    return s;
  }
};

constexpr axis_list normalize(std::initializer_list<int> axes, int rank) {
  axis_list list;
  for (int a : axes) {
    const int n = a < 0 ? a + rank : a;
    if (n < 0 || n >= rank) {
      list.error = detail::fault::axis;
      return list;
    }
    if (list.has(n)) {
      list.error = detail::fault::axis_twice;
      return list;
    }
    list.at[list.count++] = n;
  }
  return list;
}

constexpr axis_list all_axes(int rank) {
  axis_list list;
  for (int i = 0; i < rank && i < max_rank; ++i) list.at[list.count++] = i;
  return list;
}

}  // namespace op_shapes

namespace detail {

/// The axes in [0, Rank) of an axis<…> given to the function Name; an empty one names all axes. After an error it returns the
/// first axes, to avoid further errors.
template <class Name, int Rank, int... Axes>
consteval op_shapes::axis_list checked_axes() {
  constexpr auto list = sizeof...(Axes) == 0 ? op_shapes::all_axes(Rank) : op_shapes::normalize({Axes...}, Rank);
  if constexpr (list.error == fault::none) return list;
  else Name::template refuse<list.error>();
  return op_shapes::all_axes(int(sizeof...(Axes)) < Rank ? int(sizeof...(Axes)) : Rank);
}

/// The axis in [0, Rank) of an axis<…> with one axis.
template <class Name, int Rank, int... Axes>
consteval int one_axis() {
  static_assert(sizeof...(Axes) == 1, "sinter: [argmax, argmin] name one axis; flatten the tensor to search several");
  return checked_axes<Name, Rank, Axes...>()[0];
}

}  // namespace detail
}  // namespace sinter
