// onnx/region_rows.hpp: operators that read an image at places from values: RoiAlign, MaxRoiPool, DeformConv.
#pragma once

#include "window_rows.hpp"

namespace sinter::onnx::rows {

/// Two neighbours of a place along one axis, and their weights.
struct neighbours {
  node low, high;        ///< i64
  node share;            ///< the weight of `high`
  node low_in, high_in;  ///< whether the elements exist; undefined: everywhere
};

/// Calls f(index, weight, inside) for each of the four corners around places of two axes.
template <class F>
void each_corner(const neighbours& y, const neighbours& x, dim width, const F& f) {
  const auto both = [](const node& a, const node& b) { return a ? pointwise(op::bit_and, a, b) : node(); };
  for (const bool down : {false, true})
    for (const bool right : {false, true}) {
      const node index = plus(times(down ? y.high : y.low, size_node(width, dtype::i64)), right ? x.high : x.low);
      const node weight = times(down ? y.share : 1.0 - y.share, right ? x.share : 1.0 - x.share);
      f(index, weight, both(down ? y.high_in : y.low_in, right ? x.high_in : x.low_in));
    }
}

/// Sample places of regions along one axis (regions, bins, samples), and the number of samples of a bin that count (regions,
/// 1, 1).
struct region_axis {
  node place, count;
  std::int64_t bins = 1, samples = 1;
};
inline region_axis axis_of_regions(const node& from, const node& to, std::int64_t bins, std::int64_t fixed,
                                   std::int64_t most, bool half_pixel) {
  const dim n = size_of_axis(from, 0);
  node length = minus(to, from);
  if (!half_pixel) length = ir::maximum(length, 1.0);
  const node each = length / static_cast<double>(bins);
  region_axis a{{}, {}, bins, fixed > 0 ? fixed : most};
  const auto column = [&](const node& v) { return reshape_to(v, {n, 1, 1}); };
  a.count = column(fixed > 0 ? constant(from.type(), static_cast<double>(fixed), {n}) : pointwise(op::ceil, each));
  const extents grid{n, dim(bins), dim(a.samples)};
  const node bin = iota(from.type(), grid, 1), sample = iota(from.type(), grid, 2);
  const node step = over(column(each), ir::maximum(a.count, 1.0));
  a.place = plus(plus(column(from), times(bin, column(each))), times(sample + 0.5, step));
  return a;
}
/// Neighbours of places, clamped to an axis of n elements. Callers ignore places that are more than 1 beyond the axis.
inline neighbours clamped_neighbours(const node& place, dim n) {
  const node last = size_node(n, place.type()) - 1.0, p = ir::maximum(place, 0.0);
  const node low = pointwise(op::minimum, pointwise(op::floor, p), last),
             high = pointwise(op::minimum, low + 1.0, last);
  const node share = choose(pointwise(op::ge, low, last), constant(place.type(), 0), minus(p, low));
  return {to_type(low, dtype::i64), to_type(high, dtype::i64), share, {}, {}};
}
/// The most samples in a bin of the regions, from the values of the regions, which are read.
inline std::int64_t max_samples(call& c, double scale, std::int64_t bins, int axis, bool half_pixel) {
  const host_values& rois = c.host(1);
  double most = 1;
  for (std::size_t k = 0; k + 3 < rois.floats.size(); k += 4) {
    double length =
        (rois.floats[k + 2 + static_cast<std::size_t>(axis)] - rois.floats[k + static_cast<std::size_t>(axis)]) * scale;
    if (!half_pixel) length = std::max(length, 1.0);
    most = std::max(most, std::ceil(length / static_cast<double>(bins)));
  }
  if (!(most <= 4096)) c.refuse("a region asks for more than 4096 samples of a bin along an axis");
  return static_cast<std::int64_t>(most);
}
inline void roi_align(call& c) {
  const std::int64_t rows = c.i("output_height", 1), columns = c.i("output_width", 1), fixed = c.i("sampling_ratio", 0);
  const double scale = c.f("spatial_scale", 1);
  const std::string how = c.s("coordinate_transformation_mode", c.version < 16 ? "output_half_pixel" : "half_pixel");
  const bool half_pixel = how == "half_pixel", largest = c.s("mode", "avg") == "max";
  if (c.rank(0) != 4 || c.rank(1) != 2 || rows < 1 || columns < 1)
    c.refuse("of another image than (N, C, H, W), or without bins");
  const std::int64_t max_y = fixed > 0 ? fixed : max_samples(c, scale, rows, 1, half_pixel),
                     max_x = fixed > 0 ? fixed : max_samples(c, scale, columns, 0, half_pixel);
  const node image = wide(c.x(0)), rois = to_type(c.x(1), image.type());
  const extents e = extents_of(image);
  const dim n = size_of_axis(rois, 0);
  const auto corner = [&](std::int64_t k) {
    const node v = reshape_to(sliced(rois, 1, k, 1), {n}) * scale;
    return half_pixel ? v - 0.5 : v;
  };
  const region_axis ay = axis_of_regions(corner(1), corner(3), rows, fixed, max_y, half_pixel),
                    ax = axis_of_regions(corner(0), corner(2), columns, fixed, max_x, half_pixel);
  // All values have axes (channels, regions, rows, columns, samples of y, samples of x).
  const extents grid{1, n, rows, columns, ay.samples, ax.samples};
  const auto of_y = [&](const node& v) { return reshape_to(v, {1, n, rows, 1, ay.samples, 1}); };
  const auto of_x = [&](const node& v) { return reshape_to(v, {1, n, 1, columns, 1, ax.samples}); };
  const auto within = [&](const node& p, dim length) {
    return pointwise(op::bit_and, ir::ge(p, -1.0), pointwise(op::le, p, size_node(length, p.type())));
  };
  const node inside = pointwise(op::bit_and, of_y(within(ay.place, e[2])), of_x(within(ax.place, e[3])));
  const auto spread = [](neighbours v, const auto& of) {
    return neighbours{of(v.low), of(v.high), of(v.share), {}, {}};
  };
  const neighbours y = spread(clamped_neighbours(ay.place, e[2]), of_y),
                   x = spread(clamped_neighbours(ax.place, e[3]), of_x);
  const node batch = reshape_to(to_type(c.x(2), dtype::i64), {1, n, 1, 1, 1, 1});
  const node flat = reshape_to(permuted(image, {1, 0, 2, 3}), {e[1], e[0] * e[2] * e[3]});
  node value;
  each_corner(y, x, e[3], [&](const node& at, const node& weight, const node&) {
    const node index = broadcast_to(plus(times(batch, size_node(e[2] * e[3], dtype::i64)), at), grid);
    const node v = times(taken(flat, reshape_to(index, {product_of(grid)}), 1),
                         reshape_to(broadcast_to(weight, grid), {1, product_of(grid)}));
    value = !value ? v : largest ? pointwise(op::maximum, value, v) : plus(value, v);
  });
  extents out = grid;
  out[0] = e[1];
  value = choose(inside, reshape_to(value, out), constant(value.type(), 0));
  const node counts =
      pointwise(op::bit_and, pointwise(op::lt, iota(image.type(), grid, 4), reshape_to(ay.count, {1, n, 1, 1, 1, 1})),
                pointwise(op::lt, iota(image.type(), grid, 5), reshape_to(ax.count, {1, n, 1, 1, 1, 1})));
  if (fixed <= 0) value = choose(counts, value, constant(value.type(), largest ? lowest_of(value.type()) : 0));
  node r = reduced(largest ? op::maximum : op::add, value, {4, 5}, false);
  if (!largest) r = over(r, ir::maximum(reshape_to(times(ay.count, ax.count), {1, n, 1, 1}), 1.0));
  c.give(to_type(permuted(r, {1, 0, 2, 3}), c.type(0)));
}

/// The largest element of each bin of regions with whole borders.
inline void max_roi_pool(call& c) {
  const auto shape = c.list("pooled_shape");
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1 || c.rank(0) != 4)
    c.refuse("of another image than (N, C, H, W), or without bins");
  const node image = wide(c.x(0)), rois = to_type(c.x(1), image.type());
  const extents e = extents_of(image);
  const dim n = size_of_axis(rois, 0);
  const auto corner = [&](std::int64_t k) {
    return ir::round(reshape_to(sliced(rois, 1, k, 1), {n, 1, 1}) * static_cast<double>(c.f("spatial_scale", 1)));
  };
  /// Whether an element of an axis is in a bin: (regions, bins, elements).
  const auto bins_of = [&](std::int64_t first, std::int64_t last, std::int64_t bins, dim length) {
    const node from = corner(first),
               each = ir::maximum(minus(corner(last), from) + 1.0, 1.0) / static_cast<double>(bins);
    const extents grid{n, dim(bins), length};
    const node k = iota(image.type(), grid, 1), at = iota(image.type(), grid, 2);
    const node low = plus(pointwise(op::floor, times(k, each)), from),
               high = plus(pointwise(op::ceil, times(k + 1.0, each)), from);
    return pointwise(op::bit_and, pointwise(op::ge, at, low), pointwise(op::lt, at, high));
  };
  const node lowest = constant(image.type(), lowest_of(image.type()));
  const node taken_images = taken(image, reshape_to(to_type(sliced(rois, 1, 0, 1), dtype::i64), {n}), 0);
  const node in_x = reshape_to(bins_of(1, 3, shape[1], e[3]), {n, 1, 1, shape[1], e[3]});
  const node rows =
      reduced(op::maximum, choose(in_x, unsqueezed(taken_images, {3}), lowest), {4}, false);  // (n, C, H, bins)
  const node in_y = reshape_to(bins_of(2, 4, shape[0], e[2]), {n, 1, shape[0], e[2], 1});
  const node y = reduced(op::maximum, choose(in_y, unsqueezed(rows, {2}), lowest), {3}, false);
  c.give(to_type(choose(pointwise(op::eq, y, lowest), constant(y.type(), 0), y), c.type(0)));
}

/// Neighbours of places along an axis of n elements, with zeros beyond the axis.
inline neighbours open_neighbours(const node& place, dim n) {
  const node low = pointwise(op::floor, place), last = size_node(n, place.type()) - 1.0;
  const auto in = [&](const node& p) { return pointwise(op::bit_and, ir::ge(p, 0.0), pointwise(op::le, p, last)); };
  const auto index = [&](const node& p) {
    return to_type(pointwise(op::minimum, ir::maximum(p, 0.0), last), dtype::i64);
  };
  return {index(low), index(low + 1.0), minus(place, low), in(low), in(low + 1.0)};
}
/// A convolution whose taps are read at offset places.
inline void deform_conv(call& c) {
  const node x = wide(c.x(0)), weights = wide(c.x(1)), offset = wide(c.x(2));
  const extents e = extents_of(x), k = extents_of(weights);
  if (e.size() != 4 || k.size() != 4) c.refuse("of another image than (N, C, H, W)");
  const auto w = places_of_windows(c, {e[2], e[3]}, kernel_of(c, k), false);
  const dim groups = c.i("group", 1), fields = c.i("offset_group", 1);
  if (groups.bits < 1 || fields.bits < 1) c.refuse("its groups have to be 1 or more");
  const dim rows = w[0].count, columns = w[1].count, taps = w[0].taps * w[1].taps, places = rows * columns;
  // (N, fields, taps, rows, columns)
  const extents grid{e[0], fields, taps, rows, columns};
  const node moved = reshape_to(offset, {e[0], fields, taps, 2, rows, columns});
  const auto place = [&](int axis) {
    const window_place& at = w[static_cast<std::size_t>(axis)];
    const dim tap_of = axis == 0 ? dim(w[1].taps) : dim(1);
    node tap = over(iota(dtype::i64, grid, 2), size_node(tap_of, dtype::i64));
    if (axis == 1) tap = pointwise(op::fmod, tap, size_node(dim(w[1].taps), dtype::i64));
    const node start = iota(dtype::i64, grid, 3 + axis) * static_cast<double>(at.step);
    const node whole = minus(plus(start, tap * static_cast<double>(at.dilation)), size_node(at.low, dtype::i64));
    return plus(to_type(whole, x.type()), reshape_to(sliced(moved, 3, axis, 1), grid));
  };
  const node flat = reshape_to(x, {e[0], fields, e[1] / fields, e[2] * e[3]});
  const extents each{e[0], fields, 1, taps * places};
  const extents all{e[0], fields, e[1] / fields, taps * places};
  node value;
  each_corner(open_neighbours(place(0), e[2]), open_neighbours(place(1), e[3]), e[3],
              [&](const node& at, const node& weight, const node& inside) {
                const node v = ir::gather(flat, broadcast_to(reshape_to(at, each), all), 3);
                const node read =
                    times(choose(reshape_to(inside, each), v, constant(v.type(), 0)), reshape_to(weight, each));
                value = value ? plus(value, read) : read;
              });
  if (c.has(4)) value = times(value, reshape_to(to_type(c.x(4), x.type()), each));
  const node columns_of = reshape_to(value, {e[0], groups, e[1] / groups * taps, places});
  const node kernel = reshape_to(weights, {1, groups, k[0] / groups, k[1] * taps});
  node y = reshape_to(product(kernel, columns_of), {e[0], k[0], rows, columns});
  if (c.has(3)) y = plus(y, reshape_to(to_type(c.x(3), y.type()), {1, k[0], 1, 1}));
  c.give(to_type(y, c.type(0)));
}

inline const row regions[] = {
    {"DeformConv", "", 1, deform_conv, "gathers and weights, product"},
    {"MaxRoiPool", "", 1, max_roi_pool, "masks, max"},
    {"RoiAlign", "", 1, roi_align, "gathers and weights"},
};

}  // namespace sinter::onnx::rows
