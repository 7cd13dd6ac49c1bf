// front/functions/factories.hpp: tensors from extents, ranges and foreign memory. During a trace, values become nodes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "../evaluate/evaluate.hpp"
#include "../shapes/op_shapes.hpp"
#include "pointwise.hpp"

namespace sinter {

namespace detail {

/// The first extent of a list, and the location where it was written.
struct extent_here {
  dim value;
  location at;
  template <extent_like I>
  constexpr extent_here(I n, location where = location::current()) : value(n), at(where) {}
};

template <class... I>
inline constexpr int count_extents = 1 + (int(extent_like<I>) + ... + 0);

/// Extents after the first, followed by an optional device.
template <class... I>
concept extents_then_device = ((extent_like<I> || std::same_as<I, device>)&&...) && [] {
  int left = int(sizeof...(I));
  bool ok = true;
  ((ok &= --left == 0 || extent_like<I>), ...);
  return ok;
}();

template <std::size_t R>
inline constexpr dims of_rank = dims(static_cast<int>(R));
template <class... I>
inline constexpr dims count_dims = of_rank<count_extents<I...>>;

template <class... I>
index_array<count_extents<I...>> extents_from(extent_here first, I... rest) {
  index_array<count_extents<I...>> out{first.value};
  [[maybe_unused]] std::size_t next = 1;
  [[maybe_unused]] const auto add = [&](auto x) {
    if constexpr (extent_like<decltype(x)>) out[next++] = x;
  };
  (add(rest), ...);
  return out;
}
template <class... I>
target target_from(I... rest) {
  target where;
  [[maybe_unused]] const auto look = [&](auto x) {
    if constexpr (std::same_as<decltype(x), device>) where = x;
  };
  (look(rest), ...);
  return where;
}

/// The device of an expression's tensors.
template <class X>
target same_device(const X& x, location at) {
  if (engine::current()) return {};
  engine::operand operands[operand_count<X>];
  operand_list list{operands};
  collect(x, list, at);
  return device_of(list, {});
}

template <dims Shape>
constexpr index_array<Shape.rank> known_extents() {
  static_assert(Shape.known(), "sinter: give the dynamic extents as arguments: every extent, in order");
  index_array<Shape.rank> out{};
  for (int i = 0; i < Shape.rank; ++i) out[static_cast<std::size_t>(i)] = Shape[i];
  return out;
}

}  // namespace detail

/// Zeros or ones: `zeros<float>(3, 4)`, `zeros<float>({3, 4})`, `zeros<float, dims{3, 4}>()`, `zeros<float, dims{dyn, 4}>(n, 4)`, or
/// rank 0 `zeros<float>()`. Every factory may take a device last: `zeros<float>(3, 4, device::cuda(0))`. The default is default_device().
/// `zeros_like(x)` has x's dtype, extents and device. user_error for negative extents, for too many bytes, and for a device that
/// does not exist.
#define SINTER_X(NAME, VALUE)                                                                                          \
  template <element T>                                                                                                 \
  tensor<T, 0> NAME(detail::target where = {}, location at = location::current()) {                                    \
    return detail::filled<T, dims(0)>(#NAME, static_cast<T>(VALUE), {}, where, at, true);                              \
  }                                                                                                                    \
  template <element T, class... I>                                                                                     \
  requires detail::extents_then_device<I...> tensor<T, detail::count_dims<I...>> NAME(detail::extent_here first,       \
                                                                                      I... rest) {                     \
    return detail::filled<T, detail::count_dims<I...>>(#NAME, static_cast<T>(VALUE),                                   \
                                                       detail::extents_from(first, rest...),                           \
                                                       detail::target_from(rest...), first.at, true);                  \
  }                                                                                                                    \
  template <element T, extent_like I, std::size_t R>                                                                   \
  tensor<T, detail::of_rank<R>> NAME(const std::array<I, R>& extents, detail::target where = {},                       \
                                     location at = location::current()) {                                              \
    return detail::filled<T, detail::of_rank<R>>(#NAME, static_cast<T>(VALUE), detail::as_extents(extents), where, at, \
                                                 true);                                                                \
  }                                                                                                                    \
  template <element T, std::size_t R>                                                                                  \
  requires(R > 1) tensor<T, detail::of_rank<R>> NAME(const dim(&extents)[R], detail::target where = {},                \
                                                     location at = location::current()) {                              \
    return NAME<T>(std::to_array(extents), where, at);                                                                 \
  }                                                                                                                    \
  template <element T, dims Shape>                                                                                     \
  tensor<T, Shape> NAME(detail::target where = {}, location at = location::current()) {                                \
    return detail::filled<T, Shape>(#NAME, static_cast<T>(VALUE), detail::known_extents<Shape>(), where, at, true);    \
  }                                                                                                                    \
  template <element T, dims Shape, class... I>                                                                         \
  requires(detail::extents_then_device<I...> && detail::count_extents<I...> == Shape.rank) tensor<T, Shape> NAME(      \
      detail::extent_here first, I... rest) {                                                                          \
    return detail::filled<T, Shape>(#NAME, static_cast<T>(VALUE), detail::extents_from(first, rest...),                \
                                    detail::target_from(rest...), first.at, true);                                     \
  }                                                                                                                    \
  template <tensor_like X>                                                                                             \
  auto NAME##_like(const X& x, location at = location::current()) {                                                    \
    using T = typename X::value_type;                                                                                  \
    return detail::filled<T, X::static_shape>(#NAME, static_cast<T>(VALUE), detail::extents_of(x, at),                 \
                                              detail::same_device(x, at), at, true);                                   \
  }
SINTER_X(zeros, 0)
SINTER_X(ones, 1)
#undef SINTER_X

/// One value everywhere: `full<float>(1.5f, 3, 4)`, `full<float, dims{3, 4}>(1.5f)`, rank 0 `full<float>(1.5f)`, and `full_like(x, 1.5f)`
/// as zeros_like. Errors are those of zeros, and a user_error for a number that T cannot hold.
template <element T, class... I>
requires detail::extents_then_device<I...> tensor<T, detail::count_dims<I...>> full(
    detail::fitting<T, detail::full_name> value, detail::extent_here first, I... rest) {
  return detail::filled<T, detail::count_dims<I...>>("full", value, detail::extents_from(first, rest...),
                                                     detail::target_from(rest...), first.at);
}
template <element T, extent_like I, std::size_t R>
tensor<T, detail::of_rank<R>> full(detail::fitting<T, detail::full_name> value, const std::array<I, R>& extents,
                                   detail::target where = {}, location at = location::current()) {
  return detail::filled<T, detail::of_rank<R>>("full", value, detail::as_extents(extents), where, at);
}
template <element T, std::size_t R>
requires(R > 1) tensor<T, detail::of_rank<R>> full(detail::fitting<T, detail::full_name> value, const dim (&extents)[R],
                                                   detail::target where = {}, location at = location::current()) {
  return full<T>(value, std::to_array(extents), where, at);
}
template <element T, dims Shape>
tensor<T, Shape> full(detail::fitting<T, detail::full_name> value, detail::target where = {},
                      location at = location::current()) {
  return detail::filled<T, Shape>("full", value, detail::known_extents<Shape>(), where, at);
}
template <element T>
tensor<T, 0> full(detail::fitting<T, detail::full_name> value, detail::target where = {},
                  location at = location::current()) {
  return detail::filled<T, dims(0)>("full", value, {}, where, at);
}
/// One value everywhere, with x's dtype, extents and device. user_error for a number that the dtype cannot hold.
template <tensor_like X, scalar_like A>
auto full_like(const X& x, A value, location at = location::current()) {
  using T = typename X::value_type;
  detail::check_number<T>("full_like", value, "cast x with cast<T>(x)", at);
  return detail::filled<T, X::static_shape>("full", static_cast<T>(value), detail::extents_of(x, at),
                                            detail::same_device(x, at), at);
}

namespace detail {

/// The number of steps from start to before stop.
template <class T>
std::int64_t arange_count(T start, T stop, T step, location at) {
  if constexpr (is_float(dtype_of<T>)) {
    const double n = std::ceil((static_cast<double>(stop) - static_cast<double>(start)) / static_cast<double>(step));
    if (!std::isfinite(static_cast<double>(start)) || !std::isfinite(static_cast<double>(stop)) || std::isnan(n) ||
        step == T(0))
      fail("arange", "needs finite bounds and a step that is not 0", at);
    if (n >= 0x1p62) fail("arange", "too many elements; give nearer bounds or a larger step", at);
    return n > 0 ? static_cast<std::int64_t>(n) : 0;
  } else {
    if (step == 0) fail("arange", "needs a step that is not 0", at);
    if (step > 0 ? start >= stop : start <= stop) return 0;
    const auto low = static_cast<std::uint64_t>(start), high = static_cast<std::uint64_t>(stop),
               by = static_cast<std::uint64_t>(step);
    const std::uint64_t n = step > 0 ? (high - low - 1) / by + 1 : (low - high - 1) / (0 - by) + 1;
    if (n > std::uint64_t{1} << 62) fail("arange", "too many elements; give nearer bounds or a larger step", at);
    return static_cast<std::int64_t>(n);
  }
}

/// std::int64_t, but dependent on T: expressions of it are compiled only where they are used.
template <class T>
using index_for = std::conditional_t<true, std::int64_t, T>;

/// Positions 0…n-1 along one axis.
template <class T>
index_leaf<index_for<T>, dims(1)> positions(const char* op, dim n, location at) {
  checked_numel(op, dims{n}, sizeof(T), at);
  return {index_array<1>{n}, 0};
}

/// False after the compile-time error.
template <class T>
constexpr bool check_arange_dtype() {
  static_assert(!is_bool(dtype_of<T>), "sinter: [arange] gives numbers, not bool; compare them, or use cast<bool>(x)");
  return !is_bool(dtype_of<T>);
}
template <class T>
constexpr bool check_linspace_dtype() {
  static_assert(is_float(dtype_of<T>), "sinter: [linspace] gives floating dtypes; use arange for integers");
  return is_float(dtype_of<T>);
}

}  // namespace detail

/// start, start + step, … before stop. Any dtype but bool. user_error for a step of 0, bounds that are not finite, and
/// numbers that T cannot hold.
template <element T>
tensor<T, 1> arange(detail::fitting<T, detail::arange_name> start, detail::fitting<T, detail::arange_name> stop,
                    detail::fitting<T, detail::arange_name> step = T(1), detail::target where = {},
                    location at = location::current()) {
  if constexpr (detail::check_arange_dtype<T>()) {
    const device on = detail::resolve("arange", where, at);
    const auto i = detail::positions<T>("arange", detail::arange_count<T>(start, stop, step, at), at);
    using Work = detail::compute_type<T>;
    const auto value =
        add(mul(cast<Work>(i, at), static_cast<Work>(step.value), at), static_cast<Work>(start.value), at);
    if constexpr (std::is_same_v<T, Work>) return detail::evaluate_on(value, on, at.in("arange"));
    else return detail::evaluate_on(cast<T>(value, at), on, at.in("arange"));
  } else {
    return {};
  }
}

/// 0, 1, … before stop; dtypes and errors as in arange(start, stop, step).
template <element T>
tensor<T, 1> arange(detail::fitting<T, detail::arange_name> stop, detail::target where = {},
                    location at = location::current()) {
  if constexpr (detail::check_arange_dtype<T>()) {
    const std::int64_t n = detail::arange_count<T>(T(0), stop, T(1), at);
    return detail::evaluate_on(cast<T>(detail::positions<T>("arange", n, at), at), detail::resolve("arange", where, at),
                               at.in("arange"));
  } else {
    return {};
  }
}

/// n values 0, 1, … of dtype T. A traced extent n stays symbolic.
template <element T, std::same_as<dim> Extent>
tensor<T, 1> arange(Extent n, detail::target where = {}, location at = location::current()) {
  if constexpr (detail::check_arange_dtype<T>())
    return detail::evaluate_on(cast<T>(detail::positions<T>("arange", n, at), at), detail::resolve("arange", where, at),
                               at.in("arange"));
  else return {};
}

/// n values from start to stop, both included, at equal distances computed in f64. Floating dtypes. user_error for a
/// negative n.
template <element T>
tensor<T, 1> linspace(double start, double stop, std::int64_t n, detail::target on = {},
                      location at = location::current()) {
  if constexpr (detail::check_linspace_dtype<T>()) {
    const auto i = detail::positions<T>("linspace", n, at);
    const double step = n > 1 ? (stop - start) / static_cast<double>(n - 1) : 0;
    const auto inside = add(mul(cast<double>(i, at), step, at), start, at);
    const auto value = where(eq(i, n > 1 ? n - 1 : -1, at), stop, inside, at);
    return detail::evaluate_on(cast<T>(value, at), detail::resolve("linspace", on, at), at.in("linspace"));
  } else {
    return {};
  }
}

/// As arange(n) and linspace(start, stop, n), for an extent known to the compiler: `arange<float, dims{5}>()`.
template <element T, dims Shape>
tensor<T, Shape> arange(detail::target where = {}, location at = location::current()) {
  constexpr bool known = Shape.rank == 1 && Shape.known();
  static_assert(known, "sinter: [arange] write its one extent, arange<T, dims{5}>()");
  if constexpr (known) return tensor<T, Shape>(arange<T>(Shape[0], where, at), at);
  else return {};
}
template <element T, dims Shape>
tensor<T, Shape> linspace(double start, double stop, detail::target where = {}, location at = location::current()) {
  constexpr bool known = Shape.rank == 1 && Shape.known();
  static_assert(known, "sinter: [linspace] write its one extent, linspace<T, dims{5}>(0, 1)");
  if constexpr (known) return tensor<T, Shape>(linspace<T>(start, stop, Shape[0].bits, where, at), at);
  else return {};
}

/// Ones on the diagonal: `eye<float>(3)`, `eye<float>(3, 4)`, `eye<float, dims{3, 4}>()`. Any dtype. user_error for
/// negative extents.
template <element T>
tensor<T, 2> eye(dim rows, dim columns, detail::target where = {}, location at = location::current()) {
  detail::checked_numel("eye", dims{rows, columns}, sizeof(T), at);
  const index_array<2> extents{rows, columns};
  const detail::index_leaf<detail::index_for<T>, dims(2)> row(extents, 0), column(extents, 1);
  return detail::evaluate_on(cast<T>(eq(row, column, at), at), detail::resolve("eye", where, at), at.in("eye"));
}
template <element T>
tensor<T, 2> eye(dim n, detail::target where = {}, location at = location::current()) {
  return eye<T>(n, n, where, at);
}
template <element T, dims Shape>
tensor<T, Shape> eye(detail::target where = {}, location at = location::current()) {
  constexpr bool known = Shape.rank == 2 && Shape.known();
  static_assert(known, "sinter: [eye] write both extents, eye<T, dims{3, 4}>()");
  if constexpr (known) return tensor<T, Shape>(eye<T>(Shape[0], Shape[1], where, at), at);
  else return {};
}

namespace detail {

/// Extents, one of which may be -1: the extent that the number of elements determines.
template <std::size_t R>
std::array<dim, R> filled_extents(std::size_t size, const std::array<dim, R>& extents, location at) {
  if (std::find(extents.begin(), extents.end(), dim(dyn)) == extents.end()) return extents;
  const dims all{static_cast<std::int64_t>(size)};
  const auto r = op_shapes::reshape(all, to_dims(extents));
  if (r.error)
    fail("from_span",
         std::to_string(size) + " elements do not fill shape " + shape_text(extents) + ": " + r.error + "; " + r.hint,
         at);
  std::array<dim, R> out;
  std::copy(r.shape.begin(), r.shape.end(), out.begin());
  return out;
}

template <class T, dims Shape>
tensor<T, Shape> copy_from(const T* data, std::size_t size, const index_array<Shape.rank>& given, target where,
                           location at) {
  const index_array<Shape.rank> extents = filled_extents(size, given, at);
  if (static_cast<std::size_t>(checked_numel("from_span", to_dims(extents), sizeof(T), at)) != size)
    fail("from_span", std::to_string(size) + " elements do not fill shape " + shape_text(extents), at);
  storage memory = copied(data, {}, resolve("from_span", where, at), size * sizeof(T));
  if (engine::reads_count) engine::count_made(memory);
  T* const first = static_cast<T*>(memory.data());
  return access::make<T, Shape>(std::move(memory), first, extents, row_major_strides(extents));
}

template <dims Shape>
tensor<bool, Shape> copy_of_flags(const std::vector<bool>& flags, const index_array<Shape.rank>& extents, target where,
                                  location at) {
  const auto each = std::make_unique<bool[]>(flags.size());
  std::copy(flags.begin(), flags.end(), each.get());
  return copy_from<bool, Shape>(each.get(), flags.size(), extents, where, at);
}

template <class Range>
using range_element = std::remove_cvref_t<decltype(*std::data(std::declval<const Range&>()))>;
/// A contiguous range of elements that are not of a dtype; complex numbers have functions of their own.
template <class Range>
concept range_of_others = requires(const Range& r) {
  std::size(r);
  requires !element<range_element<Range>>;
  requires !requires(const range_element<Range>& x) { x.imag(); };
};

}  // namespace detail

/// A copy of a contiguous host range in row-major order: `from_span(v, 3, 4)`, `from_span(v, 3, 4, device::cuda(0))`. One extent
/// may be -1: the number of elements determines it. user_error when the sizes differ.
template <class Range, class... I>
requires(element<detail::range_element<Range>>&& detail::extents_then_device<I...>) auto from_span(
    const Range& range, detail::extent_here first, I... rest) {
  return detail::copy_from<detail::range_element<Range>, detail::count_dims<I...>>(
      std::data(range), std::size(range), detail::extents_from(first, rest...), detail::target_from(rest...), first.at);
}
template <class Range, extent_like I, std::size_t R>
requires element<detail::range_element<Range>>
auto from_span(const Range& range, const std::array<I, R>& extents, detail::target where = {},
               location at = location::current()) {
  return detail::copy_from<detail::range_element<Range>, detail::of_rank<R>>(std::data(range), std::size(range),
                                                                             detail::as_extents(extents), where, at);
}
/// A copy of a contiguous range, of rank 1.
template <class Range>
requires element<detail::range_element<Range>>
auto from_span(const Range& range, detail::target where = {}, location at = location::current()) {
  return detail::copy_from<detail::range_element<Range>, dims(1)>(
      std::data(range), std::size(range), {static_cast<std::int64_t>(std::size(range))}, where, at);
}

/// For std::vector<bool>, which has no addressable elements, and for to_vector() of flags.
template <std::same_as<std::vector<bool>> Flags, class... I>
requires detail::extents_then_device<I...>
auto from_span(const Flags& flags, detail::extent_here first, I... rest) {
  return detail::copy_of_flags<detail::count_dims<I...>>(flags, detail::extents_from(first, rest...),
                                                         detail::target_from(rest...), first.at);
}
template <std::same_as<std::vector<bool>> Flags, extent_like I, std::size_t R>
auto from_span(const Flags& flags, const std::array<I, R>& extents, detail::target where = {},
               location at = location::current()) {
  return detail::copy_of_flags<detail::of_rank<R>>(flags, detail::as_extents(extents), where, at);
}
template <std::same_as<std::vector<bool>> Flags>
auto from_span(const Flags& flags, detail::target where = {}, location at = location::current()) {
  return detail::copy_of_flags<dims(1)>(flags, {static_cast<std::int64_t>(flags.size())}, where, at);
}
template <detail::range_of_others Range, class... Extents>
tensor<float, 0> from_span(const Range&, const Extents&...) {
  static_assert(
      element<detail::range_element<Range>>,
      "sinter: [from_span] the range's elements are of no dtype: these are float, double, f16, bf16, f8_e4m3, "
      "f8_e5m2, bool, std::int8_t to std::int64_t and std::uint8_t to std::uint64_t; copy a range of char to "
      "std::vector<std::uint8_t>, or std::int8_t");
  return {};
}

/// A tensor over foreign memory, which is not copied: row-major elements at `data`. `deleter(data)` releases the memory with the
/// last handle, and must not throw: `from_external(p, {3, 4}, [](float* p) { delete[] p; })`. A device may follow:
/// `from_external(p, {3, 4}, free_it, device::cuda(0))`. Extents may be a std::array. Without elements the pointer may be null.
/// user_error for a null pointer to elements, negative extents, or a missing device. After any exception the caller owns the memory.
template <element T, std::size_t R, class Deleter>
tensor<T, detail::of_rank<R>> from_external(T* data, const std::array<std::int64_t, R>& extents, Deleter deleter,
                                            device where = {}, location at = location::current()) {
  struct owner : detail::block {
    explicit owner(Deleter d) : deleter(std::move(d)) {}
    Deleter deleter;
  };
  std::array<dim, R> e{};
  std::copy(extents.begin(), extents.end(), e.begin());
  const std::int64_t n = detail::checked_numel("from_external", detail::to_dims(e), sizeof(T), at);
  if (!data && n > 0) fail("from_external", "the pointer is null", at);
  engine::check_device(where, "from_external", at);
  auto* b = new owner(std::move(deleter));
  b->data = data;
  b->bytes = static_cast<std::size_t>(n) * sizeof(T);
  b->where = where;
  b->release = [](detail::block* x) noexcept {
    auto* mine = static_cast<owner*>(x);
    mine->deleter(static_cast<T*>(mine->data));
    delete mine;
  };
  return detail::access::make<T, detail::of_rank<R>>(storage(b), data, e, detail::row_major_strides(e));
}
template <element T, std::size_t R, class Deleter>
tensor<T, detail::of_rank<R>> from_external(T* data, const std::int64_t (&extents)[R], Deleter deleter,
                                            device where = {}, location at = location::current()) {
  return from_external(data, std::to_array(extents), std::move(deleter), where, at);
}
template <class T, class Extents, class... More>
requires element<std::remove_const_t<T>> && std::is_const_v<T>
void from_external(T*, const Extents&, const More&...) {
  static_assert(!std::is_const_v<T>, "sinter: [from_external] a tensor's elements can be written; copy with from_span");
}
template <class T, std::size_t R, class... More>
requires element<std::remove_const_t<T>> && std::is_const_v<T>
void from_external(T*, const std::int64_t (&)[R], const More&...) {
  static_assert(!std::is_const_v<T>, "sinter: [from_external] a tensor's elements can be written; copy with from_span");
}

}  // namespace sinter
