// windows/pool.hpp: pools as reductions over windows, adaptive pools over segments; unpool, unfold and fold.
#pragma once

#include "conv.hpp"

namespace sinter {

/// The result of max_pool with indices: each maximum, and its row-major index among the spatial axes.
template <class Values, class Indices>
struct pooled {
  Values values;
  Indices indices;
};

namespace detail::windows {

/// The spatial axes of a pool's layout, "nhwc" or "nchw": all but n and c.
template <fixed_string Text>
consteval axis_list parsed_spatial() {
  axis_list l;
  int at = 0, named = 0;
  bool right = true;
  for (const char* c = Text.text; *c; ++c) {
    if (*c == ' ') continue;
    right = right && *c >= 'a' && *c <= 'z' && at < 5;
    for (const char* d = Text.text; d != c; ++d) right = right && *d != *c;
    if (*c == 'n' || *c == 'c') ++named;
    else if (right) l.at[l.count++] = at;
    ++at;
  }
  if (!right || named != 2 || l.count < 1 || l.count > 3) l.count = -1;
  return l;
}

constexpr axis_list last_axes(int rank, int count) {
  axis_list l;
  for (int i = rank - count; i < rank; ++i) l.at[l.count++] = i < 0 ? 0 : i;
  return l;
}

/// x with the named axes open.
constexpr dims other_extents(dims x, const axis_list& axes) {
  for (int a : axes) x[a] = dyn;
  return x;
}
constexpr bool no_padding(const per_axis& p) { return p[0] == 0 && p[1] == 0 && p[2] == 0; }

struct pool_plan {
  axis_window along[3];
  op_shapes::outcome result;
  dims low, high;           ///< the padding of every axis
  bool hangs_over = false;  ///< a last window extends beyond the padding
};

constexpr pool_plan plan_pool(const dims& x, const axis_list& spatial, const per_axis& window, const pool_options& o) {
  pool_plan p;
  p.result.shape = x;
  p.low = p.high = dims(x.rank);
  for (int d = 0; d < x.rank; ++d) p.low[d] = p.high[d] = 0;
  const auto refuse = [&](const char* error, const char* hint) {
    p.result = op_shapes::refuse(error, hint);
    return p;
  };
  const per_axis stride = o.stride.count == 0 ? window : o.stride;
  if (const auto* e = miscounted(spatial.count, {window, stride, o.padding, o.dilation}))
    return refuse(e, "give one number, or one for each axis");
  for (int a = 0; a < spatial.count; ++a) {
    const int d = spatial[a];
    axis_window& v = p.along[a];
    v = place_windows(x[d], window[a], stride[a], o.dilation[a], o.padding[a], false, o.ceil_mode);
    if (v.error) return refuse(v.error, v.hint);
    if (2 * o.padding[a] > v.reach()) return refuse("the padding is more than half of a window", "give less padding");
    if (x[d] == dyn) {
      p.result.shape[d] = dyn;
      continue;
    }
    p.low[d] = v.low;
    p.high[d] = v.high;
    const dim over = v.high - v.low;
    if (over.is_symbolic() || over != 0) p.hangs_over = true;
    p.result.shape[d] = v.count;
  }
  return p;
}

inline handle padded_with(const handle& x, const dims& low, const dims& high, ir::scalar literal, const void* value,
                          location at) {
  bool none = true;
  for (int d = 0; d < x.extents.rank; ++d)
    none = none && !low[d].is_symbolic() && !high[d].is_symbolic() && low[d] == 0 && high[d] == 0;
  return none ? x : views::pad(x, low, high, literal, value, true, at);
}

/// Gathers the taps of every window in front of x's axes, whose spatial axes become windows; `outside` is the value around x.
template <axis_list Spatial, class T, int Rank>
auto taps_of(const handle& x, const pool_plan& p, T outside, location at) {
  static_assert(Rank + Spatial.count <= max_rank, "sinter: [pool] windows of the tensor would have more than 12 axes");
  const handle wide_x = padded_with(x, p.low, p.high, to_scalar(outside), &outside, at);
  view_of_windows v(Rank);
  for (int a = 0; a < Spatial.count; ++a) v.push(Spatial[a], p.along[a].taps, p.along[a].dilation);
  int next = 0;
  for (int d = 0; d < Rank; ++d) {
    if (Spatial.has(d)) v.push(d, p.along[next].count, p.along[next].step), ++next;
    else v.push(d, x.extents[d]);
  }
  return typed<T, any_shape(Rank + Spatial.count)>(v.of(wide_x, at), at);
}

/// The identity of maximum.
template <class T>
T lowest() {
  const ir::scalar s = ir::combiner_identity(ir::op::maximum, dtype_of<T>);
  if constexpr (is_float(dtype_of<T>)) return static_cast<T>(static_cast<float>(s.f));
  else return static_cast<T>(s.i);
}

/// Returns false after a compile-time error about a pool's operand.
template <axis_list Spatial, class X>
constexpr bool takes_pool() {
  constexpr bool layout = Spatial.count >= 1, rank = Spatial.count <= X::rank,
                 numbers = !is_bool(dtype_of<element_of<X>>);
  static_assert(layout,
                "sinter: [pool] write the axes as letters, with n, c and one to three more: max_pool<\"nhwc\">");
  static_assert(rank, "sinter: [pool] the tensor has fewer axes than the pool");
  static_assert(numbers, "sinter: [pool] takes numbers, not bool; cast with cast<T>(x)");
  return layout && rank && numbers;
}

template <axis_list Spatial, class X>
auto max_pool_of(const char* op, const X& x, const per_axis& window, const pool_options& o, location at) {
  if constexpr (!takes_pool<Spatial, X>()) {
    return x;
  } else {
    using T = element_of<X>;
    const handle h = untyped(x, at);
    const auto p = plan_pool(h.extents, Spatial, window, o);
    op_shapes::demand(op, p.result, at, {h.extents});
    constexpr auto taps = op_shapes::all_axes(Spatial.count);
    const auto y = max_over<taps, false>(taps_of<Spatial, T, X::rank>(h, p, lowest<T>(), at), at, op);
    return typed<T, other_extents(X::static_shape, Spatial)>(untyped(y, at), at);
  }
}

/// Moves a tensor from the host to x's device.
template <class Y>
Y beside(const Y& y, const handle& x, location at) {
  return tracing() || !x.memory ? y : y.to(x.memory.where(), at);
}

// Int is std::int64_t as a template argument, so that a file without calls does not instantiate the expressions.

/// The number of elements in each window of an average along one axis of `rank`, as T, in that axis's place.
template <class T, int Axis, int Rank, class Int = std::int64_t>
auto window_sizes(const axis_window& v, dim extent, std::int64_t padding, bool with_padding, location at) {
  const index_leaf<Int, dims{dyn}> i({v.count}, 0);
  const auto start = detail::evaluate(sub(mul(i, v.step, at), padding, at), at);
  const auto end = minimum(add(start, v.taps, at), extent + padding, at);
  const auto size = [&]() -> tensor<Int, 1> {
    if (with_padding) return detail::evaluate(sub(end, start, at), at);
    return detail::evaluate(sub(minimum(end, extent, at), maximum(start, 0, at), at), at);
  }();
  dims place(Rank);
  for (int d = 0; d < Rank; ++d) place[d] = d == Axis ? v.count : dim(1);
  return typed<T, any_shape(Rank)>(
      views::reshape(untyped(detail::evaluate(sinter::cast<T>(size, at), at), at), place, at), at);
}

template <axis_list Spatial, int A, class Y>
auto over_sizes(const Y& y, const pool_plan& p, const handle& x, const pool_options& o, location at) {
  if constexpr (A == Spatial.count) {
    return y;
  } else {
    const auto sizes = beside(window_sizes<element_of<Y>, Spatial[A], Y::rank>(p.along[A], x.extents[Spatial[A]],
                                                                               o.padding[A], o.count_include_pad, at),
                              x, at);
    return over_sizes<Spatial, A + 1>(detail::evaluate(div(y, sizes, at), at), p, x, o, at);
  }
}

template <axis_list Spatial, class X>
auto avg_pool_of(const char* op, const X& x, const per_axis& window, const pool_options& o, location at) {
  constexpr bool floats = is_float(dtype_of<element_of<X>>);
  static_assert(floats, "sinter: [avg_pool] takes a floating dtype; cast with cast<float>(x)");
  if constexpr (!floats || !takes_pool<Spatial, X>()) {
    return x;
  } else {
    using T = element_of<X>;
    const handle h = untyped(x, at);
    const auto p = plan_pool(h.extents, Spatial, window, o);
    op_shapes::demand(op, p.result, at, {h.extents});
    if (!(o.dilation.least(Spatial.count, 1) && o.dilation[0] * o.dilation[1] * o.dilation[2] == 1))
      fail(op, "average pools have no dilation", at);
    constexpr auto taps = op_shapes::all_axes(Spatial.count);
    const auto windows = taps_of<Spatial, T, X::rank>(h, p, T{}, at);
    const auto sums = sum_over<taps, false>(wide(windows, at), at);
    const bool whole = !p.hangs_over && (o.count_include_pad || no_padding(o.padding));
    std::int64_t n = 1;
    for (int a = 0; a < Spatial.count; ++a) n *= p.along[a].taps;
    using S = element_of<decltype(sums)>;
    const tensor<S, X::rank> means = whole ? tensor<S, X::rank>(divided(sums, n, at))
                                           : tensor<S, X::rank>(over_sizes<Spatial, 0>(sums, p, h, o, at));
    return typed<T, other_extents(X::static_shape, Spatial)>(untyped(narrow<T>(means, at), at), at);
  }
}

template <axis_list Spatial, class X>
auto lp_pool_of(const char* op, const X& x, double power, const per_axis& window, const pool_options& o, location at) {
  constexpr bool floats = is_float(dtype_of<element_of<X>>);
  static_assert(floats, "sinter: [lp_pool] takes a floating dtype; cast with cast<float>(x)");
  if constexpr (!floats || !takes_pool<Spatial, X>()) {
    return x;
  } else {
    using T = element_of<X>;
    const handle h = untyped(x, at);
    const auto p = plan_pool(h.extents, Spatial, window, o);
    op_shapes::demand(op, p.result, at, {h.extents});
    if (power == 0 || power - power != 0) fail(op, "the power is 0 or not finite; give another one", at);
    constexpr auto taps = op_shapes::all_axes(Spatial.count);
    const auto windows = taps_of<Spatial, T, X::rank>(h, p, T{}, at);
    const auto& wider = wide(windows, at);
    const auto result = [&](const auto& y) {
      const auto rounded = cast<element_of<std::remove_cvref_t<decltype(wider)>>>(y, at);
      return typed<T, other_extents(X::static_shape, Spatial)>(untyped(narrow<T>(rounded, at), at), at);
    };
    if (power == 1) return result(sum_over<taps, false>(wider, at));
    // Powers of f32 and of halves are summed in f64, whose range holds them.
    if (power == 2) return result(root_of_squares(squares_over<taps, false>(wider, at), at));
    const auto sums = sum_over<taps, false>(pow(cast<double>(wider, at), formula_number{power}, at), at);
    // The root of 0 has no derivative; it is set to 0, as for a norm.
    const auto none = detail::evaluate(eq(sums, 0, at), at);
    const auto some = detail::evaluate(where(none, 1, sums, at), at);
    return result(detail::evaluate(where(none, power > 0 ? 0.0 : std::numeric_limits<double>::infinity(),
                                         pow(some, formula_number{1 / power}, at), at),
                                   at));
  }
}

/// The positions of the maxima over the first axes, axis by axis from the last; the first among equals. `chosen` has the
/// positions along the inner axes.
template <int Tap, class M, class... Chosen>
auto arg_maxima(location at, const M& m, const Chosen&... chosen) {
  const auto first = argmax(m, axis<Tap>, at);
  const auto of_first = [&](const auto& inner) {
    return squeeze(take_along_axis(inner, expand_dims<Tap>(first, at), axis<Tap>, at), axis<Tap>, at);
  };
  if constexpr (Tap == 0) return std::tuple{first, of_first(chosen)...};
  else return arg_maxima<Tap - 1>(at, max(m, axis<Tap>, at), first, of_first(chosen)...);
}

template <axis_list Spatial, class X>
auto max_pool_indices_of(const char* op, const X& x, const per_axis& window, const pool_options& o, location at) {
  using T = element_of<X>;
  constexpr int rank = X::rank;
  const handle h = untyped(x, at);
  const auto p = plan_pool(h.extents, Spatial, window, o);
  op_shapes::demand(op, p.result, at, {h.extents});
  const auto windows = taps_of<Spatial, T, rank>(h, p, lowest<T>(), at);
  const auto found = arg_maxima<Spatial.count - 1>(at, windows);
  tensor<std::int64_t, rank> flat;
  const auto add_axis = [&]<int A>() {
    const auto& v = p.along[A];
    const index_leaf<std::int64_t, any_shape(rank)> i(to_index<rank>(p.result.shape), Spatial[A]);
    const auto at_first = add(mul(i, v.step, at), mul(std::get<A>(found), v.dilation, at), at);
    const auto place = detail::evaluate(sub(at_first, o.padding[A], at), at);
    // If a whole window is as low as its surroundings, the first tap inside the image.
    const auto below = maximum(neg(place, at), 0, at);
    const auto steps = div(add(below, v.dilation - 1, at), v.dilation, at);
    const auto inside = detail::evaluate(add(place, mul(steps, v.dilation, at), at), at);
    if constexpr (A == 0) flat = inside;
    else flat = detail::evaluate(add(mul(flat, h.extents[Spatial[A]], at), inside, at), at);
  };
  [&]<int... A>(std::integer_sequence<int, A...>) { (add_axis.template operator()<A>(), ...); }
  (std::make_integer_sequence<int, Spatial.count>{});
  constexpr dims shape = other_extents(X::static_shape, Spatial);
  const auto indices = typed<std::int64_t, shape>(untyped(flat, at), at);
  // Read by index, so that the derivative goes to the same element.
  const handle places = untyped(flat, at);
  const dim lead = op_shapes::part(h.extents, 0, rank - Spatial.count).numel();
  const auto rows = [&](const handle& y) {
    return views::reshape(y, dims{lead, op_shapes::part(y.extents, rank - Spatial.count, rank).numel()}, at);
  };
  const handle found_there = gather_elements(rows(h), rows(places), 1, at);
  const auto values = typed<T, shape>(views::reshape(found_there, places.extents, at), at);
  return pooled<tensor<T, shape>, tensor<std::int64_t, shape>>{values, indices};
}

inline std::int64_t longest_segment(std::int64_t length, std::int64_t n) {
  std::int64_t longest = 1;
  for (std::int64_t i = 0; i < n; ++i) longest = std::max(longest, ((i + 1) * length + n - 1) / n - i * length / n);
  return longest;
}

/// The mean or maximum of segments: segment i of `n` covers the indices from floor(i·extent/n) to ceil((i+1)·extent/n) of an
/// axis. An open n comes with the length of the longest segment.
template <bool Mean, int Axis, class X, class Int = std::int64_t>
auto segments(const X& x, dim n, location at, std::int64_t max_places = 0) {
  using T = element_of<X>;
  constexpr int rank = X::rank;
  constexpr axis_list inner = op_shapes::normalize({Axis + 1}, rank + 1);
  const handle h = untyped(x, at);
  const dim extent = h.extents[Axis];
  if (!extent.is_symbolic() && extent < 1)
    fail("adaptive_pool", "axis " + std::to_string(Axis) + " of " + text::shape(h.extents) + " is empty", at);
  if (!n.is_symbolic() && extent % n == 0) {
    dims split = op_shapes::part(h.extents, 0, Axis);
    split.push(n);
    split.push(extent / n);
    for (int d = Axis + 1; d < rank; ++d) split.push(h.extents[d]);
    const auto parts = typed<T, any_shape(rank + 1)>(views::reshape(h, split, at), at);
    if constexpr (Mean) return tensor<T, rank>(mean_over<inner, false>(parts, at));
    else return tensor<T, rank>(max_over<inner, false>(parts, at));
  }
  const dim length = extent;
  dim longest = n.is_symbolic() ? dim(max_places) : length / n + 2;
  if (!length.is_symbolic()) longest = longest_segment(length.bits, n.bits);
  using index = index_leaf<Int, dims{dyn, dyn}>;
  const index segment({n, longest}, 0), tap({n, longest}, 1);
  const auto start = detail::evaluate(div(mul(segment, length, at), n, at), at);
  const auto end = detail::evaluate(div(add(mul(add(segment, 1, at), length, at), n - 1, at), n, at), at);
  const auto place = detail::evaluate(add(start, tap, at), at);
  const auto inside = beside(detail::evaluate(lt(place, end, at), at), h, at);
  dims spread(rank + 1);
  for (int d = 0; d <= rank; ++d) spread[d] = d == Axis ? n : d == Axis + 1 ? longest : dim(1);
  const auto mask = typed<bool, any_shape(rank + 1)>(views::reshape(untyped(inside, at), spread, at), at);
  const auto y =
      take(tensor<T, rank>(x), beside(detail::evaluate(minimum(place, length - 1, at), at), h, at), axis<Axis>, at);
  if constexpr (Mean) {
    const auto sums = sum_over<inner, false>(where(mask, wide(y, at), 0, at), at);
    using S = element_of<decltype(sums)>;
    const auto count = sum_over<inner, false>(sinter::cast<S>(mask, at), at);
    return tensor<T, rank>(narrow<T>(div(sums, count, at), at));
  } else {
    const tensor<T, 0> least = lowest<T>();
    return tensor<T, rank>(max_over<inner, false>(where(mask, y, least, at), at));
  }
}

template <bool Mean, axis_list Spatial, int A = 0, class X>
auto adaptive_of(const char* op, const X& x, const per_axis& size, location at) {
  static_assert(Spatial.count <= X::rank, "sinter: [adaptive_pool] the tensor has fewer axes than the pool");
  constexpr bool floats = !Mean || is_float(dtype_of<element_of<X>>);
  static_assert(floats, "sinter: [adaptive_avg_pool] takes a floating dtype; cast with cast<float>(x)");
  if constexpr (A == Spatial.count || !floats) {
    return x;
  } else {
    if (!size.fits(Spatial.count) || !size.least(Spatial.count, 1))
      fail(op, "give the result's extents, 1 or more, one number or one for each axis", at);
    return adaptive_of<Mean, Spatial, A + 1>(op, segments<Mean, Spatial[A]>(x, size[A], at), size, at);
  }
}

/// The inverse of a maximum pool: x at `indices`, zeros elsewhere.
template <int S, class X, class I, class Int = std::int64_t>
auto unpool_of(const char* op, const X& x, const I& indices, const per_axis& window, const pool_options& o,
               const per_axis& size, location at) {
  using T = element_of<X>;
  constexpr int rank = X::rank;
  static_assert(rank >= S && I::rank == rank, "sinter: [max_unpool] the indices have the values' axes");
  static_assert(dtype_of<element_of<I>> == dtype::i64,
                "sinter: [max_unpool] the indices are i64, as max_pool gives them");
  const handle h = untyped(x, at);
  const per_axis stride = o.stride.count == 0 ? window : o.stride;
  if (const auto* e = miscounted(S, {window, stride, o.padding})) fail(op, e, at);
  if (h.extents != untyped(indices, at).extents)
    fail(op,
         "values are " + text::shape(h.extents) + ", indices are " + text::shape(untyped(indices, at).extents) +
             "; they have equal extents",
         at);
  dims to = h.extents;
  for (int a = 0; a < S; ++a) {
    const int d = rank - S + a;
    to[d] = size.count > 0 ? dim(size[a]) : (h.extents[d] - 1) * dim(stride[a]) + (window[a] - 2 * o.padding[a]);
    if (to[d] < 1) fail(op, "the result would be empty; give another size", at);
  }
  const dim lead = op_shapes::part(to, 0, rank - S).numel(), places = op_shapes::part(to, rank - S, rank).numel(),
            count = op_shapes::part(h.extents, rank - S, rank).numel();
  const auto values = typed<T, dims{dyn, dyn}>(views::reshape(h, dims{lead, count}, at), at);
  const handle rows = views::reshape(untyped(indices, at), dims{lead, count}, at);
  if (!tracing() && !on_gpu(op, {&h, &rows}, at)) checked_indices(op, rows, places, at, false);
  // A negative index is out of range here; it does not count from the end.
  const auto given = typed<Int, dims{dyn, dyn}>(rows, at);
  const tensor<Int, 2> where_to = detail::evaluate(where(lt(given, 0, at), places, given, at), at);
  const auto none = zeros<T>({lead, places}, same_device(values, at));
  // Overlapping windows can name a maximum several times.
  const auto sums = scatter_add(none, where_to, values, axis<1>, at);
  const auto times = scatter_add(none, where_to, ones_like(values, at), axis<1>, at);
  const auto y = detail::evaluate(div(sums, maximum(times, 1, at), at), at);
  return typed<T, any_shape(rank)>(views::reshape(untyped(y, at), to, at), at);
}

}  // namespace detail::windows

namespace detail::windows {

/// The windows of an image (n, c, s…): taps, then places, after the channels.
inline view_of_windows folds(const dims& image, const axis_window (&along)[3]) {
  const int s = image.rank - 2;
  view_of_windows v(image.rank);
  for (int d = 0; d < 2; ++d) v.push(d, image[d]);
  for (int a = 0; a < s; ++a) v.push(2 + a, along[a].taps, along[a].dilation);
  for (int a = 0; a < s; ++a) v.push(2 + a, along[a].count, along[a].step);
  return v;
}

inline void plan_folds(const char* op, const dims& image, const per_axis& window, const fold_options& o,
                       axis_window (&along)[3], location at) {
  const int s = image.rank - 2;
  const char* error = miscounted(s, {window, o.stride, o.padding, o.dilation});
  for (int a = 0; a < s && !error; ++a) {
    along[a] = place_windows(image[2 + a], window[a], o.stride[a], o.dilation[a], o.padding[a], false, false);
    error = along[a].error;
  }
  if (error) fail(op, std::string(error) + ": the image is " + text::shape(image), at);
}

/// The image's extents with padding around each spatial axis.
inline dims around(const dims& image, const per_axis& padding, dims& widths) {
  dims all = image;
  widths = zeros_of(image.rank);
  for (int d = 2; d < image.rank; ++d) {
    widths[d] = padding[d - 2];
    all[d] += 2 * padding[d - 2];
  }
  return all;
}

inline handle unfold_of(const handle& x, const per_axis& window, const fold_options& o, location at) {
  axis_window along[3];
  plan_folds("unfold", x.extents, window, o, along, at);
  dims widths;
  around(x.extents, o.padding, widths);
  const handle y = folds(x.extents, along).of(padded_with_zeros(x, widths, widths, at), at);
  const int s = x.extents.rank - 2;
  return views::reshape(y,
                        dims{x.extents[0], op_shapes::part(y.extents, 1, 2 + s).numel(),
                             op_shapes::part(y.extents, 2 + s, y.extents.rank).numel()},
                        at);
}

inline handle fold_of(const handle& y, const dims& size, const per_axis& window, const fold_options& o, location at) {
  const int s = size.rank;
  dim columns = 1, places = 1;
  for (int a = 0; a < s; ++a) columns *= window[a];
  axis_window along[3];
  dims image{y.extents[0], columns > 0 ? y.extents[1] / columns : dim(0)};
  for (auto e : size) image.push(e);
  plan_folds("fold", image, window, o, along, at);
  for (int a = 0; a < s; ++a) places *= along[a].count;
  if (y.extents[1] % columns != 0 || y.extents[2] != places)
    fail("fold",
         "the operand is " + text::shape(y.extents) + ", and windows of " + text::shape(size) + " are " +
             places.text() + ", of " + columns.text() +
             " elements a channel; give (n, channels times elements, windows)",
         at);
  dims widths;
  const dims all = around(image, o.padding, widths);
  view_of_windows v = folds(image, along);
  handle x = v.back(views::reshape(y, v.extents, at), all, at);
  for (int d = 2; d < image.rank; ++d) x = views::slice_axis(x, d, {widths[d], image[d], 1}, at);
  return x;
}

}  // namespace detail::windows

/// The windows of an image (n, c, s…) as columns, (n, c·window, places), as PyTorch's unfold. The result holds all windows in
/// memory. fold is its transpose.
template <tensor_like X>
auto unfold(const X& x, const per_axis& window, const fold_options& options = {},
            location where = location::current()) {
  const location at = where.in("unfold");
  static_assert(X::rank >= 3 && X::rank <= 5, "sinter: [unfold] takes (n, c, …) with one to three spatial axes");
  return detail::typed<typename X::value_type, dims{X::static_shape[0], dyn, dyn}>(
      detail::windows::unfold_of(detail::untyped(x, at), window, options, at), at);
}
/// The transpose of unfold: sums windows into an image with extents `size`, (n, c · window, places) to (n, c, size…).
/// Floating dtypes; user_error if places or channels do not fit.
template <tensor_like X, std::size_t S>
auto fold(const X& x, const dim (&size)[S], const per_axis& window, const fold_options& options = {},
          location where = location::current()) {
  const location at = where.in("fold");
  static_assert(X::rank == 3 && S >= 1 && S <= 3,
                "sinter: [fold] takes (n, c·window, places) and one to three extents");
  static_assert(!is_bool(dtype_of<typename X::value_type>), "sinter: [fold] takes numbers, not bool");
  return detail::typed<typename X::value_type, dims(2 + int(S))>(
      detail::windows::fold_of(detail::untyped(x, at), detail::listed(size), window, options, at), at);
}

#define SINTER_POOLS(S, SUFFIX)                                                                                      \
  template <tensor_like X>                                                                                           \
  auto max_pool##SUFFIX(const X& x, const per_axis& window, const pool_options& options = {},                        \
                        location at = location::current()) {                                                         \
    return detail::windows::max_pool_of<detail::windows::last_axes(X::rank, S)>("max_pool", x, window, options,      \
                                                                                at.in("max_pool"));                  \
  }                                                                                                                  \
  template <tensor_like X>                                                                                           \
  auto max_pool##SUFFIX##_with_indices(const X& x, const per_axis& window, const pool_options& options = {},         \
                                       location at = location::current()) {                                          \
    return detail::windows::max_pool_indices_of<detail::windows::last_axes(X::rank, S)>("max_pool", x, window,       \
                                                                                        options, at.in("max_pool")); \
  }                                                                                                                  \
  template <tensor_like X, tensor_like I>                                                                            \
  auto max_unpool##SUFFIX(const X& x, const I& indices, const per_axis& window, const pool_options& options = {},    \
                          const per_axis& size = {}, location at = location::current()) {                            \
    return detail::windows::unpool_of<S>("max_unpool", x, indices, window, options, size, at.in("max_unpool"));      \
  }                                                                                                                  \
  template <tensor_like X>                                                                                           \
  auto avg_pool##SUFFIX(const X& x, const per_axis& window, const pool_options& options = {},                        \
                        location at = location::current()) {                                                         \
    return detail::windows::avg_pool_of<detail::windows::last_axes(X::rank, S)>("avg_pool", x, window, options,      \
                                                                                at.in("avg_pool"));                  \
  }                                                                                                                  \
  template <tensor_like X>                                                                                           \
  auto lp_pool##SUFFIX(const X& x, double power, const per_axis& window, const pool_options& options = {},           \
                       location at = location::current()) {                                                          \
    return detail::windows::lp_pool_of<detail::windows::last_axes(X::rank, S)>("lp_pool", x, power, window, options, \
                                                                               at.in("lp_pool"));                    \
  }                                                                                                                  \
  template <tensor_like X>                                                                                           \
  auto adaptive_avg_pool##SUFFIX(const X& x, const per_axis& size, location at = location::current()) {              \
    return detail::windows::adaptive_of<true, detail::windows::last_axes(X::rank, S)>("adaptive_avg_pool", x, size,  \
                                                                                      at.in("adaptive_avg_pool"));   \
  }                                                                                                                  \
  template <tensor_like X>                                                                                           \
  auto adaptive_max_pool##SUFFIX(const X& x, const per_axis& size, location at = location::current()) {              \
    return detail::windows::adaptive_of<false, detail::windows::last_axes(X::rank, S)>("adaptive_max_pool", x, size, \
                                                                                       at.in("adaptive_max_pool"));  \
  }
/// Pools over the last one, two or three axes, as PyTorch's: max_pool2d(x, 3, {.stride = 2, .padding = 1}). Padding never is
/// a maximum, and is 0 in averages. Tied maxima of a window share its derivative equally. max_pool2d_with_indices returns
/// {values, indices}, and max_unpool2d puts values back there; for a repeated index, their mean. lp_pool2d(x, p, window) is
/// the p-th root of the sum of p-th powers. adaptive_avg_pool2d(x, {h, w}) and adaptive_max_pool2d return that size.
/// user_error for windows larger than the padded tensor, and for padding of more than half a window.
SINTER_POOLS(1, 1d)
SINTER_POOLS(2, 2d)
SINTER_POOLS(3, 3d)
#undef SINTER_POOLS

/// Like max_pool2d and avg_pool2d, over the axes whose letters are not n or c: max_pool<"nhwc">(x, 3).
template <fixed_string Layout, tensor_like X>
auto max_pool(const X& x, const per_axis& window, const pool_options& options = {}, location at = location::current()) {
  return detail::windows::max_pool_of<detail::windows::parsed_spatial<Layout>()>("max_pool", x, window, options,
                                                                                 at.in("max_pool"));
}
/// The mean of each window; see max_pool.
template <fixed_string Layout, tensor_like X>
auto avg_pool(const X& x, const per_axis& window, const pool_options& options = {}, location at = location::current()) {
  return detail::windows::avg_pool_of<detail::windows::parsed_spatial<Layout>()>("avg_pool", x, window, options,
                                                                                 at.in("avg_pool"));
}

}  // namespace sinter
