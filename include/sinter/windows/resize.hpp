// windows/resize.hpp: interpolation: along each spatial axis a weighted sum of a few neighbours.
#pragma once

#include "pool.hpp"

namespace sinter {

/// The methods of interpolate between elements.
enum class resize : std::uint8_t { nearest, nearest_exact, linear, cubic, area };

/// The options of interpolate: the result's extents, or factors. `antialias` widens the filters of linear and cubic for
/// smaller results.
struct resize_options {
  per_axis size = {};
  double scale[3] = {0, 0, 0};  ///< for each spatial axis, or one for all; used without a size
  resize mode = resize::nearest;
  bool align_corners = false;
  bool antialias = false;
};

namespace detail::windows {

/// The positions of a result along an axis of `from` elements.
struct resize_axis {
  dim from = 1, to = 1;
  double scale = 1;   ///< elements per step; 0 if the extents determine it
  double factor = 0;  ///< of the extent, if no size was given
};

// Int and Real are std::int64_t and double as template arguments, so that a file without calls does not instantiate the
// expressions.

/// The element for each of r.to places: floor(i·from/to), exact from (i + 1/2)·from/to. It is computed in integers if the
/// size was given.
template <class Int = std::int64_t>
tensor<Int, 1> nearest_places(const resize_axis& r, bool exact, location at) {
  const index_leaf<Int, dims{dyn}> i({r.to}, 0);
  if (r.factor == 0) {
    if (exact) return detail::evaluate(div(mul(add(mul(i, 2, at), 1, at), r.from, at), r.to * 2, at), at);
    return detail::evaluate(div(mul(i, r.from, at), r.to, at), at);
  }
  const auto place = floor(div(add(sinter::cast<double>(i, at), exact ? 0.5 : 0.0, at), r.factor, at), at);
  return detail::evaluate(minimum(sinter::cast<Int>(place, at), r.from - 1, at), at);
}

/// Weights of Keys' filter at distance x, with PyTorch's `a`: -0.75, and -0.5 with antialias.
template <class X>
auto cubic_weight(const X& distance, double a, location at) {
  const auto x = detail::evaluate(distance, at);
  const auto near = add(mul(mul(x, x, at), sub(mul(x, a + 2, at), a + 3, at), at), 1, at);
  const auto far = sub(mul(add(mul(sub(mul(x, a, at), 5 * a, at), x, at), 8 * a, at), x, at), 4 * a, at);
  return detail::evaluate(where(lt(x, 1, at), near, where(lt(x, 2, at), far, 0, at), at), at);
}

template <class X>
auto linear_weight(const X& distance, location at) {
  return detail::evaluate(maximum(sub(1, distance, at), 0, at), at);
}

/// For each of `to` places, the first of its `taps` neighbours and their weights (to, taps), in f64.
template <class Int, class Real>
struct resize_taps {
  tensor<Int, 2> places;
  tensor<Real, 2> weights;
};

template <class Int = std::int64_t, class Real = double>
resize_taps<Int, Real> taps_for(const resize_axis& r, const resize_options& o, location at) {
  const bool cubic = o.mode == resize::cubic;
  const double half = cubic ? 2 : 1, stretch = o.antialias && r.scale > 1 ? r.scale : 1;
  const std::int64_t taps = o.antialias ? static_cast<std::int64_t>(std::ceil(half * stretch)) * 2 + 1 : cubic ? 4 : 2;
  using index = index_leaf<Int, dims{dyn, dyn}>;
  const auto i = sinter::cast<Real>(index({r.to, taps}, 0), at);
  const auto t = detail::evaluate(index({r.to, taps}, 1), at);
  // The position of the result's element among x's, whose centres are integers.
  tensor<Real, 2> centre;
  const auto scaled = [&](const auto& steps) -> tensor<Real, 2> {
    if (r.scale > 0 || (o.align_corners && r.to == 1)) return mul(steps, r.scale, at);
    const dim ends = o.align_corners ? 1 : 0;
    const tensor<Real, 0> one = 1.0;
    return mul(steps, detail::evaluate(div(mul(one, r.from - ends, at), r.to - ends, at), at), at);
  };
  if (o.align_corners) centre = scaled(i);
  else centre = sub(scaled(detail::evaluate(add(i, 0.5, at), at)), 0.5, at);
  if (!cubic && !o.antialias) centre = tensor<Real, 2>(maximum(centre, 0.0, at));
  if (!o.antialias) {
    const auto low = detail::evaluate(floor(centre, at), at);
    const auto place = detail::evaluate(add(sinter::cast<Int>(low, at), sub(t, cubic ? 1 : 0, at), at), at);
    const auto distance = detail::evaluate(abs(sub(centre, sinter::cast<Real>(place, at), at), at), at);
    const tensor<Real, 2> weights =
        cubic ? tensor<Real, 2>(cubic_weight(distance, -0.75, at)) : tensor<Real, 2>(linear_weight(distance, at));
    return {tensor<Int, 2>(minimum(maximum(place, 0, at), r.from - 1, at)), weights};
  }
  const double support = half * stretch;
  const auto middle = detail::evaluate(add(centre, 0.5, at), at);
  const auto first =
      detail::evaluate(maximum(sinter::cast<Int>(floor(add(sub(middle, support, at), 0.5, at), at), at), 0, at), at);
  const auto end = detail::evaluate(
      minimum(sinter::cast<Int>(floor(add(add(middle, support, at), 0.5, at), at), at), r.from, at), at);
  const auto place = detail::evaluate(add(first, t, at), at);
  const auto distance =
      detail::evaluate(mul(abs(add(sub(sinter::cast<Real>(place, at), middle, at), 0.5, at), at), 1 / stretch, at), at);
  const tensor<Real, 2> filter =
      cubic ? tensor<Real, 2>(cubic_weight(distance, -0.5, at)) : tensor<Real, 2>(linear_weight(distance, at));
  const auto weights = detail::evaluate(where(lt(place, end, at), filter, 0, at), at);
  const auto total = sum(weights, axis<1>, keepdims, at);
  return {tensor<Int, 2>(minimum(place, r.from - 1, at)), tensor<Real, 2>(div(weights, total, at))};
}

template <int Axis, class X>
X resized(const X& x, const resize_axis& r, const resize_options& o, location at) {
  using T = element_of<X>;
  constexpr int rank = X::rank;
  if (o.mode == resize::nearest || o.mode == resize::nearest_exact) {
    return X(
        take(x, beside(nearest_places(r, o.mode == resize::nearest_exact, at), untyped(x, at), at), axis<Axis>, at));
  }
  constexpr axis_list inner = op_shapes::normalize({Axis + 1}, rank + 1);
  auto found = taps_for(r, o, at);
  found = {beside(found.places, untyped(x, at), at), beside(found.weights, untyped(x, at), at)};
  const auto y = take(x, found.places, axis<Axis>, at);
  using S = std::conditional_t<vocabulary::is_half<T>, float, T>;
  dims spread(rank + 1);
  for (int d = 0; d <= rank; ++d) spread[d] = 1;
  spread[Axis] = found.weights.shape()[0];
  spread[Axis + 1] = found.weights.shape()[1];
  const auto weights = typed<S, any_shape(rank + 1)>(
      views::reshape(untyped(detail::evaluate(sinter::cast<S>(found.weights, at), at), at), spread, at), at);
  return X(narrow<T>(sum_over<inner, false>(mul(wide(y, at), weights, at), at), at));
}

/// How many of n elements a segment of floor(n·scale) of them may have: 1 / scale, twice that of the least n, and two at its ends.
inline std::int64_t max_places(double scale) { return scale > 0x1p-40 ? static_cast<std::int64_t>(2 / scale) + 2 : 0; }

template <int Axis, class X>
X resized_axes(const X& x, const resize_options& o, location at) {
  using T = element_of<X>;
  constexpr int rank = X::rank;
  if constexpr (Axis == rank) {
    return x;
  } else {
    constexpr int a = Axis - 2;
    resize_axis r;
    r.from = x.shape()[Axis];
    const double scale = o.scale[a] > 0 ? o.scale[a] : o.scale[0];
    if (r.from < 1)
      fail("interpolate", "axis " + std::to_string(Axis) + " of " + shape_text(x.shape()) + " is empty", at);
    r.to = o.size.count > 0 ? dim(o.size[a]) : scaled_extent(r.from, scale);
    if (r.to < 1) fail("interpolate", "give a size of 1 or more, or a scale: {.size = {64, 64}}", at);
    if (o.size.count == 0) r.factor = scale;
    const bool open = r.from.is_symbolic() || r.to.is_symbolic();
    const auto number = [](dim d) { return static_cast<double>(static_cast<std::int64_t>(d)); };
    if (o.size.count == 0 && !o.align_corners) r.scale = 1 / scale;
    else if (open && !o.antialias) r.scale = 0;
    else if (!o.align_corners) r.scale = number(r.from) / number(r.to);
    else r.scale = r.to > 1 ? number(r.from - 1) / number(r.to - 1) : 0;
    const dim more = r.to - r.from;
    if (!more.is_symbolic() && more == 0 && (r.scale == 1 || open || (o.align_corners && r.to == 1)))
      return resized_axes<Axis + 1>(x, o, at);
    if (o.mode == resize::area) {
      if constexpr (is_float(dtype_of<T>))
        return resized_axes<Axis + 1>(X(segments<true, Axis>(x, r.to, at, max_places(scale))), o, at);
    }
    return resized_axes<Axis + 1>(resized<Axis>(x, r, o, at), o, at);
  }
}

}  // namespace detail::windows

/// An image (n, c, s…) with other spatial extents, as PyTorch's interpolate: interpolate(x, {.size = {64, 64}, .mode = resize::linear}).
/// linear is bilinear of two and trilinear of three axes; align_corners and antialias are of linear and cubic. Floating dtypes. Open
/// extents stay open, but for antialias without a scale, and for factors such as 0.123456789. user_error for options that another mode has, and
/// for a size of another number of axes.
template <tensor_like X>
auto interpolate(const X& x, const resize_options& options, location where = location::current()) {
  const location at = where.in("interpolate");
  using T = typename X::value_type;
  static_assert(X::rank >= 3 && X::rank <= 5, "sinter: [interpolate] takes (n, c, …) with one to three spatial axes");
  static_assert(is_float(dtype_of<T>), "sinter: [interpolate] takes a floating dtype; cast with cast<float>(x)");
  const bool smooth = options.mode == resize::linear || options.mode == resize::cubic;
  if (!smooth && (options.align_corners || options.antialias))
    fail("interpolate", "align_corners and antialias are of linear and cubic only", at);
  if (!options.size.fits(X::rank - 2) && options.size.count > 0)
    fail("interpolate", "the size has another number of entries than there are spatial axes", at);
  return detail::windows::resized_axes<2>(tensor<T, X::rank>(x), options, at);
}

}  // namespace sinter
