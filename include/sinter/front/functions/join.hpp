// front/functions/join.hpp: functions that join tensors or take them apart: concat, stack, split, pad, tile.
#pragma once

#include <array>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "movement.hpp"

namespace sinter {

namespace detail {

template <int Axis, class First, class... Rest>
auto concat_all(location at, const First& first, const Rest&... rest) {
  static_assert(((First::rank == Rest::rank) && ...), "sinter: [concat] the ranks differ");
  static_assert(((dtype_of<typename First::value_type> == dtype_of<typename Rest::value_type>)&&...),
                "sinter: [concat] the dtypes differ; cast one with cast<T>(x)");
  constexpr int place = checked_axes<named::concat, First::rank, Axis>()[0];
  constexpr dims shapes[] = {First::static_shape, Rest::static_shape...};
  constexpr auto r = op_shapes::concat(shapes, place);
  static_assert(r.error == nullptr, "sinter: [concat] static extents differ off the joined axis");
  const handle parts[] = {untyped(first, at), untyped(rest, at)...};
  return typed<typename First::value_type, r.shape>(views::concat(parts, place, at), at);
}

/// The place of stack's new axis.
template <int Axis, class X>
consteval int stack_place() {
  static_assert(X::rank < max_rank, "sinter: [stack] the result would have more than 12 axes");
  return checked_axes<named::stack, X::rank + 1, Axis>()[0];
}

template <int Axis, class First, class... Rest>
auto stack_all(location at, const First& first, const Rest&... rest) {
  using T = typename First::value_type;
  constexpr int place = stack_place<Axis, First>();
  constexpr bool ranks = ((First::rank == Rest::rank) && ...);
  constexpr bool dtypes = ((dtype_of<T> == dtype_of<typename Rest::value_type>)&&...);
  static_assert(ranks, "sinter: [stack] the ranks differ");
  static_assert(dtypes, "sinter: [stack] the dtypes differ; cast one with cast<T>(x)");
  if constexpr (ranks && dtypes) {
    constexpr dims shapes[] = {op_shapes::expand_dims(First::static_shape, place).shape,
                               op_shapes::expand_dims(Rest::static_shape, place).shape...};
    constexpr auto r = op_shapes::concat(shapes, place);
    static_assert(r.error == nullptr, "sinter: [stack] the static extents differ");
    const handle parts[] = {untyped(first, at), untyped(rest, at)...};
    return typed<T, r.shape>(views::stack(parts, place, at), at);
  } else {
    return first;
  }
}

template <class X>
inline constexpr bool is_axis = false;
template <int Axis>
inline constexpr bool is_axis<axis_t<Axis>> = true;

/// Neither a tensor nor a complex tensor.
template <class X>
concept no_part = !tensor_like<X> && !requires {
  typename X::complex_tensor_tag;
};

/// An argument after two operands: another operand, or finally the axis.
template <class X>
concept joinable = tensor_like<X> || is_axis<X> || is_absent<X>;

/// join(axis, operands...), without the operands that were not given. The axis is Axis unless it follows the operands.
template <int Axis, class Join, class... Xs>
auto join_given(Join join, const Xs&... xs) {
  constexpr bool tensors[] = {!is_axis<Xs> && !is_absent<Xs>...};
  constexpr int operands = (int(!is_axis<Xs> && !is_absent<Xs>) + ...), axes = (int(is_axis<Xs>) + ...);
  constexpr bool in_order = axes <= 1 && [&] {
    for (int i = 0; i < operands; ++i)
      if (!tensors[i]) return false;
    return true;
  }();
  static_assert(in_order, "sinter: [concat, stack] the axis stands behind all operands: concat(x, y, z, axis<1>)");
  if constexpr (in_order) {
    const auto all = std::tie(xs...);
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      if constexpr (axes == 0) return join(axis<Axis>, std::get<I>(all)...);
      else return join(std::get<static_cast<std::size_t>(operands)>(all), std::get<I>(all)...);
    }
    (std::make_index_sequence<static_cast<std::size_t>(operands)>{});
  }
}

}  // namespace detail

/// The operands joined along an axis, `concat<1>(x, y)` or `concat(x, y, axis<1>)`. user_error unless their other extents are
/// equal. Two to eight operands, or a vector. Copies.
template <int Axis = 0, tensor_like A, tensor_like B, detail::joinable C = detail::absent,
          detail::joinable D = detail::absent, detail::joinable E = detail::absent, detail::joinable F = detail::absent,
          detail::joinable G = detail::absent, detail::joinable H = detail::absent, detail::joinable I = detail::absent>
auto concat(const A& a, const B& b, const C& c = {}, const D& d = {}, const E& e = {}, const F& f = {}, const G& g = {},
            const H& h = {}, const I& i = {}, location at = location::current()) {
  return detail::join_given<Axis>(
      [at]<int Place>(axis_t<Place>, const auto&... xs) { return detail::concat_all<Place>(at, xs...); }, a, b, c, d, e,
      f, g, h, i);
}
// An error for elements that are not tensors.
template <int Axis = 0, detail::no_part X>
auto concat(const std::vector<X>&, axis_t<Axis> = {}, location = location::current()) {
  static_assert(!sizeof(X),
                "sinter: [concat] the vector holds no tensors: gather each field of its structs into a "
                "std::vector<tensor<T, rank>>; of numbers write from_span(v)");
}
template <int Axis = 0, tensor_like X>
auto concat(const std::vector<X>& xs, axis_t<Axis> = {}, location at = location::current()) {
  constexpr int place = detail::checked_axes<detail::named::concat, X::rank, Axis>()[0];
  if (xs.empty()) fail("concat", "there is nothing to join; give at least one tensor", at);
  series<detail::handle> parts;
  for (const auto& x : xs) parts.push_back(detail::untyped(x, at));
  return detail::typed<typename X::value_type, detail::with_extent(X::static_shape, place, dyn)>(
      detail::views::concat({parts.data(), parts.size()}, place, at), at);
}

/// The operands joined along a new axis at position Axis of the result, `stack<1>(x, y)` or `stack(x, y, axis<1>)`. user_error
/// unless their extents are equal. Two to eight operands, or a vector. Copies.
template <int Axis = 0, tensor_like A, tensor_like B, detail::joinable C = detail::absent,
          detail::joinable D = detail::absent, detail::joinable E = detail::absent, detail::joinable F = detail::absent,
          detail::joinable G = detail::absent, detail::joinable H = detail::absent, detail::joinable I = detail::absent>
auto stack(const A& a, const B& b, const C& c = {}, const D& d = {}, const E& e = {}, const F& f = {}, const G& g = {},
           const H& h = {}, const I& i = {}, location at = location::current()) {
  return detail::join_given<Axis>(
      [at]<int Place>(axis_t<Place>, const auto&... xs) { return detail::stack_all<Place>(at, xs...); }, a, b, c, d, e,
      f, g, h, i);
}
// An error for elements that are not tensors.
template <int Axis = 0, detail::no_part X>
auto stack(const std::vector<X>&, axis_t<Axis> = {}, location = location::current()) {
  static_assert(!sizeof(X),
                "sinter: [stack] the vector holds no tensors: gather each field of its structs into a "
                "std::vector<tensor<T, rank>>; of numbers write from_span(v)");
}
template <int Axis = 0, tensor_like X>
auto stack(const std::vector<X>& xs, axis_t<Axis> = {}, location at = location::current()) {
  constexpr int place = detail::stack_place<Axis, X>();
  if (xs.empty()) fail("stack", "there is nothing to join; give at least one tensor", at);
  series<detail::handle> parts;
  for (const auto& x : xs) parts.push_back(detail::untyped(x, at));
  constexpr dims shape = detail::with_extent(op_shapes::expand_dims(X::static_shape, place).shape, place, dyn);
  return detail::typed<typename X::value_type, shape>(detail::views::stack({parts.data(), parts.size()}, place, at),
                                                      at);
}

/// x cut into `sections` equal parts along an axis, `split<1>(x, 3)` or `split(x, 3, axis<1>)`. user_error if they do not divide its extent. Views.
template <int Axis = 0, tensor_like X>
auto split(const X& x, std::int64_t sections, location at = location::current()) {
  constexpr int place = detail::checked_axes<detail::named::split, X::rank, Axis>()[0];
  constexpr dims shape = detail::with_extent(X::static_shape, place, dyn);
  const auto h = detail::untyped(x, at);
  const dim n = h.extents[place];
  if (sections <= 0 || n % sections != 0)
    fail("split",
         "axis " + std::to_string(place) + " of " + text::shape(h.extents) + " does not divide into " +
             std::to_string(sections) + " equal parts; slice it instead",
         at);
  std::vector<tensor<typename X::value_type, shape>> parts;
  for (std::int64_t i = 0; i < sections; ++i)
    parts.push_back(detail::typed<typename X::value_type, shape>(
        detail::views::slice_axis(h, place, {i * (n / sections), n / sections, 1}, at), at));
  return parts;
}

template <tensor_like X, int Axis>
auto split(const X& x, std::int64_t sections, axis_t<Axis>, location at = location::current()) {
  return split<Axis>(x, sections, at);
}

/// As split(x, sections), with the number of parts known to the compiler: an array, for structured bindings.
template <int Axis, int Sections, tensor_like X>
auto split(const X& x, location at = location::current()) {
  constexpr int place = detail::checked_axes<detail::named::split, X::rank, Axis>()[0];
  constexpr dim n = X::static_shape[place];
  static_assert(Sections > 0 && (n == dyn || n % Sections == 0), "sinter: [split] the static extent does not divide");
  constexpr dims shape = detail::with_extent(X::static_shape, place, n == dyn ? dim(dyn) : n / Sections);
  const auto parts = split<Axis>(x, Sections, at);
  constexpr auto count = static_cast<std::size_t>(Sections);
  std::array<tensor<typename X::value_type, shape>, count> out;
  for (std::size_t i = 0; i < count; ++i) out[i] = detail::fitted<shape>(parts[i], at);
  return out;
}

/// The numbers of elements before and after an axis.
struct pad_width {
  dim low, high;
};

namespace detail {

/// The value that pad adds. `fixed`: it does not depend on a floating argument of a trace.
template <class T>
struct padding {
  T value{};
  bool fixed = true;

  constexpr padding() = default;
  template <std::convertible_to<T> A>
  constexpr padding(const A& x, location at = location::current())
      : value(static_cast<T>(x)), fixed(std::is_integral_v<A>) {
    check_number<T>("pad", x, "cast the tensor with cast<T>(x)", at);
  }
};

}  // namespace detail

/// x surrounded by `value`: pad(x, {{1, 2}, {0, 0}}) adds one row before x and two rows after it. user_error for negative
/// widths. Copies.
template <tensor_like X, std::size_t R>
auto pad(const X& x, const pad_width (&widths)[R], detail::padding<typename X::value_type> value = {},
         location at = location::current()) {
  static_assert(X::rank == int(R), "sinter: [pad] give one {low, high} for each axis");
  dims low, high;
  for (const auto& w : widths) {
    if (w.low < 0 || w.high < 0) fail("pad", "a width is negative; slice removes elements", at);
    for (const dim e : {w.low, w.high})
      if (!e.is_symbolic() && e.bits > std::int64_t{1} << 60)
        fail("pad", "the width " + e.text() + " is too large", at);
    low.push(w.low);
    high.push(w.high);
  }
  return detail::typed<typename X::value_type, dims(X::rank)>(
      detail::views::pad(detail::untyped(x, at), low, high, detail::to_scalar(value.value), &value.value, value.fixed,
                         at),
      at);
}

namespace detail {

constexpr bool none_negative(const dims& d) {
  for (int i = 0; i < d.rank; ++i)
    if (d[i] < 0) return false;
  return true;
}

}  // namespace detail

/// As pad(x, widths), with the low and then the high widths known to the compiler: static extents stay static.
/// pad<dims{1, 0}, dims{2, 0}>(x) adds one row before x and two rows after it.
template <dims Low, dims High, tensor_like X>
auto pad(const X& x, detail::padding<typename X::value_type> value = {}, location at = location::current()) {
  constexpr bool ranks = Low.rank == X::rank && High.rank == X::rank;
  static_assert(ranks, "sinter: [pad] give one low and one high width for each axis");
  if constexpr (ranks) {
    static_assert(detail::none_negative(Low) && detail::none_negative(High),
                  "sinter: [pad] a width is negative; slice removes elements");
    constexpr dims shape = [] {
      dims d = X::static_shape;
      for (int i = 0; i < d.rank; ++i)
        if (!(d[i] == dyn)) d[i] += Low[i] + High[i];
      return d;
    }();
    pad_width widths[X::rank];
    for (int i = 0; i < X::rank; ++i) widths[i] = {Low[i], High[i]};
    return detail::fitted<shape>(pad(x, widths, value, at), at);
  }
}

/// x repeated repeats[i] times along axis i, as in NumPy: missing leading repeats are 1, and missing leading axes are added.
/// user_error for a negative number. Copies.
template <tensor_like X, std::size_t R>
auto tile(const X& x, const dim (&repeats)[R], location where = location::current()) {
  const location at = where.in("tile");
  constexpr int rank = X::rank > int(R) ? X::rank : int(R);
  static_assert(rank <= max_rank, "sinter: [tile] the result would have more than 12 axes");
  auto h = detail::untyped(x, at);
  dims extents(rank);
  for (int i = 0; i < rank; ++i) extents[i] = i < rank - X::rank ? dim(1) : h.extents[i - (rank - X::rank)];
  h = detail::views::reshape(h, extents, at);
  for (int i = rank - int(R); i < rank; ++i) {
    const dim times = repeats[i - (rank - int(R))];
    if (times < 0) fail("tile", "a number of repeats is negative; give 0 or more", at);
    if (times == 1) continue;
    if (op_shapes::too_many(op_shapes::joined(extents, dims{times})))
      fail("tile", text::shape(extents) + " repeated " + times.text() + " times would have too many elements", at);
    const dim before = op_shapes::part(extents, 0, i).numel(), rest = op_shapes::part(extents, i, rank).numel();
    h = detail::views::reshape(h, dims{before, 1, rest}, at);
    h = detail::views::broadcast(h, dims{before, times, rest}, at);
    extents[i] *= times;
    h = detail::views::reshape(h, extents, at);
  }
  return detail::typed<typename X::value_type, dims(rank)>(h, at);
}

/// As tile(x, repeats), with the numbers known to the compiler: static extents stay static. tile<dims{2, 1}>(x)
template <dims Repeats, tensor_like X>
auto tile(const X& x, location at = location::current()) {
  constexpr int rank = X::rank > Repeats.rank ? X::rank : Repeats.rank;
  static_assert(rank <= max_rank, "sinter: [tile] the result would have more than 12 axes");
  static_assert(detail::none_negative(Repeats), "sinter: [tile] a number of repeats is negative; give 0 or more");
  constexpr dims shape = [] {
    dims d(rank);
    for (int i = 0; i < rank; ++i) {
      const int of = i - (rank - X::rank), times = i - (rank - Repeats.rank);
      d[i] = of < 0 ? dim(1) : X::static_shape[of];
      if (times >= 0 && !(d[i] == dyn)) d[i] *= Repeats[times];
    }
    return d;
  }();
  dim repeats[static_cast<std::size_t>(Repeats.rank)];
  for (int i = 0; i < Repeats.rank; ++i) repeats[i] = Repeats[i];
  return detail::fitted<shape>(tile(x, repeats, at), at);
}

}  // namespace sinter
