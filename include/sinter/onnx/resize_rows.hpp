// onnx/resize_rows.hpp: operators that resample: Resize, Upsample; and einsum.
#pragma once

#include "window_rows.hpp"

namespace sinter::onnx::rows {

/// The places of an axis that each result reads, and their weights.
struct resampling {
  std::vector<std::vector<std::int64_t>> places;  ///< a list for each tap
  std::vector<std::vector<double>> weights;
  std::vector<char> outside;  ///< results that take the extrapolation value; empty: none
};

struct resize_options {
  std::string mode, coordinates, nearest;
  double a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

inline double coordinate_of(const resize_options& o, std::int64_t i, std::int64_t in, std::int64_t out, double scale,
                            double roi_low, double roi_high) {
  const auto x = static_cast<double>(i), n = static_cast<double>(in), m = static_cast<double>(out);
  if (o.coordinates == "asymmetric") return x / scale;
  if (o.coordinates == "align_corners") return out == 1 ? 0 : x * (n - 1) / (scale * n - 1);
  if (o.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / scale;
  if (o.coordinates == "pytorch_half_pixel") return out > 1 ? (x + 0.5) / scale - 0.5 : 0;
  if (o.coordinates == "tf_crop_and_resize")
    return out > 1 ? roi_low * (n - 1) + x * (roi_high - roi_low) * (n - 1) / (m - 1)
                   : 0.5 * (roi_low + roi_high) * (n - 1);
  if (o.coordinates == "half_pixel_symmetric") {
    const double adjust = m / (scale * n), offset = n / 2 * (1 - adjust);
    return offset + (x + 0.5) / scale - 0.5;
  }
  return (x + 0.5) / scale - 0.5;
}
inline double cubic_weight(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}
inline double kernel_weight(const resize_options& o, double x) {
  return o.mode == "cubic" ? cubic_weight(x, o.a) : std::max(0.0, 1 - std::fabs(x));
}
inline resampling resample(const resize_options& o, std::int64_t in, std::int64_t out, double scale, double roi_low,
                           double roi_high) {
  resampling r;
  const bool crop = o.coordinates == "tf_crop_and_resize";
  if (crop) r.outside.assign(static_cast<std::size_t>(out), 0);
  const double shrink = o.antialias && scale < 1 ? scale : 1;
  const double support = o.mode == "nearest" ? 0 : (o.mode == "cubic" ? 2 : 1) / shrink;
  const auto taps = o.mode == "nearest" ? std::size_t{1} : static_cast<std::size_t>(2 * std::ceil(support));
  r.places.assign(taps, std::vector<std::int64_t>(static_cast<std::size_t>(out)));
  r.weights.assign(taps, std::vector<double>(static_cast<std::size_t>(out), 1));
  for (std::int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double x = coordinate_of(o, i, in, out, scale, roi_low, roi_high);
    if (crop && (x < 0 || x > static_cast<double>(in - 1))) r.outside[at] = 1;
    if (taps == 1) {
      double p = 0;
      if (o.nearest == "floor") p = std::floor(x);
      else if (o.nearest == "ceil" || (o.nearest == "before 11" && scale < 1)) p = std::ceil(x);
      else if (o.nearest == "before 11") p = std::floor(x);
      else if (o.nearest == "round_prefer_ceil") p = std::floor(x + 0.5);
      else p = std::ceil(x - 0.5);
      r.places[0][at] = std::clamp(whole_of(p), std::int64_t{0}, in - 1);
      continue;
    }
    const auto first = whole_of(std::floor(x)) - static_cast<std::int64_t>(taps / 2) + 1;
    double sum = 0;
    for (std::size_t k = 0; k < taps; ++k) {
      const std::int64_t p = first + static_cast<std::int64_t>(k);
      double w = kernel_weight(o, (static_cast<double>(p) - x) * shrink);
      if (o.exclude_outside && (p < 0 || p >= in)) w = 0;
      r.places[k][at] = std::clamp(p, std::int64_t{0}, in - 1);
      r.weights[k][at] = w;
      sum += w;
    }
    if (o.exclude_outside || shrink != 1)
      for (std::size_t k = 0; k < taps; ++k) r.weights[k][at] /= sum;
  }
  return r;
}
inline node known(call& c, host_values h) {
  item i;
  i.host = std::make_shared<const host_values>(std::move(h));
  return c.im.value(i);
}
inline node resampled(call& c, const node& x, int axis, const resampling& r, double extrapolation) {
  extents column(static_cast<std::size_t>(x.rank()), dim(1));
  const auto n = static_cast<std::int64_t>(r.places[0].size());
  column[static_cast<std::size_t>(axis)] = n;
  node sum;
  for (std::size_t k = 0; k < r.places.size(); ++k) {
    node part = taken(x, known(c, list_of(r.places[k])), axis);
    if (r.places.size() > 1) part = times(part, known(c, {x.type(), column, {}, r.weights[k]}));
    sum = sum ? plus(sum, part) : part;
  }
  if (std::find(r.outside.begin(), r.outside.end(), 1) != r.outside.end()) {
    host_values mask{dtype::b8, column, {}, {}};
    for (char o : r.outside) mask.ints.push_back(dim(static_cast<std::int64_t>(o)));
    sum = choose(known(c, std::move(mask)), constant(x.type(), extrapolation), sum);
  }
  return sum;
}
inline resize_options options_of_resize(call& c, bool old) {
  resize_options o;
  o.mode = c.s("mode", "nearest");
  if (o.mode == "bilinear") o.mode = "linear";
  o.coordinates = old ? "asymmetric" : c.s("coordinate_transformation_mode", "half_pixel");
  o.nearest = old ? "before 11" : c.s("nearest_mode", "round_prefer_floor");
  o.a = c.f("cubic_coeff_a", -0.75);
  o.extrapolation = c.f("extrapolation_value", 0);
  o.exclude_outside = c.i("exclude_outside", 0) != 0;
  o.antialias = c.i("antialias", 0) != 0;
  return o;
}
/// A resized axis with an open extent. The graph computes the places to read.
struct open_axis {
  dim in, out;
  std::optional<double> scale;  ///< nothing: out / in
  double roi_low = 0, roi_high = 1;
};

/// coordinate_of() of each of the results, f64.
inline node coordinates_of(const resize_options& o, const open_axis& a) {
  const node x = to_type(iota(dtype::i64, {a.out}, 0), dtype::f64);
  const node n = size_node(a.in, dtype::f64), m = size_node(a.out, dtype::f64);
  const node scale = a.scale ? constant(dtype::f64, *a.scale) : over(m, n);
  if (o.coordinates == "asymmetric") return over(x, scale);
  if (o.coordinates == "align_corners") return a.out == 1 ? x * 0.0 : over(times(x, n - 1.0), times(scale, n) - 1.0);
  if (o.coordinates == "tf_half_pixel_for_nn") return over(x + 0.5, scale);
  if (o.coordinates == "pytorch_half_pixel" && !(a.out > 1)) return x * 0.0;
  if (o.coordinates == "tf_crop_and_resize") {
    const node middle = (n - 1.0) * (0.5 * (a.roi_low + a.roi_high));
    if (!(a.out > 1)) return broadcast_to(middle, {a.out});
    return plus((n - 1.0) * a.roi_low, over(times(x * (a.roi_high - a.roi_low), n - 1.0), m - 1.0));
  }
  const node place = over(x + 0.5, scale);
  if (o.coordinates != "half_pixel_symmetric") return place - 0.5;
  const node adjust = over(m, times(scale, n));
  return plus(times(n * 0.5, minus(constant(dtype::f64, 1), adjust)), place) - 0.5;
}
inline node kernel_weight(const resize_options& o, const node& at) {
  const node x = pointwise(op::abs, at), zero = constant(dtype::f64, 0);
  if (o.mode != "cubic") return pointwise(op::maximum, minus(constant(dtype::f64, 1), x), zero);
  const double a = o.a;
  const node near = times(times(x * (a + 2) - (a + 3), x), x) + 1.0;
  const node far = times(times(x * a - 5 * a, x) + 8 * a, x) - 4 * a;
  return choose(ir::le(x, 1.0), near, choose(ir::lt(x, 2.0), far, zero));
}
inline node nearest_of(const resize_options& o, const open_axis& a, const node& x) {
  const bool before = o.nearest == "before 11", shrinks = before && (a.scale ? *a.scale < 1 : a.out < a.in);
  if (o.nearest == "ceil" || shrinks) return pointwise(op::ceil, x);
  if (o.nearest == "floor" || before) return pointwise(op::floor, x);
  if (o.nearest == "round_prefer_ceil") return pointwise(op::floor, x + 0.5);
  return pointwise(op::ceil, x - 0.5);
}
/// resample() and resampled() of an open axis.
inline node resampled(const node& x, int axis, const resize_options& o, const open_axis& a) {
  const node at = coordinates_of(o, a), last = size_node(a.in - 1, dtype::i64), zero = constant(dtype::i64, 0);
  const auto inside = [&](const node& p) {
    return pointwise(op::maximum, pointwise(op::minimum, to_type(p, dtype::i64), last), zero);
  };
  extents column(static_cast<std::size_t>(x.rank()), dim(1));
  column[static_cast<std::size_t>(axis)] = a.out;
  node sum;
  if (o.mode == "nearest") {
    sum = taken(x, inside(nearest_of(o, a, at)), axis);
  } else {
    const double shrink = o.antialias && a.scale && *a.scale < 1 ? *a.scale : 1;
    const auto taps = static_cast<std::int64_t>(2 * std::ceil((o.mode == "cubic" ? 2 : 1) / shrink));
    const node first = pointwise(op::floor, at) - static_cast<double>(taps / 2 - 1), end = to_type(last, dtype::f64);
    std::vector<node> places, weights;
    node total;
    for (std::int64_t k = 0; k < taps; ++k) {
      const node p = first + static_cast<double>(k);
      node w = kernel_weight(o, minus(p, at) * shrink);
      if (o.exclude_outside)
        w = choose(pointwise(op::bit_and, ir::ge(p, 0.0), pointwise(op::le, p, end)), w, constant(dtype::f64, 0));
      places.push_back(inside(p));
      weights.push_back(w);
      total = total ? plus(total, w) : w;
    }
    for (std::size_t k = 0; k < places.size(); ++k) {
      const node w = o.exclude_outside || shrink != 1 ? over(weights[k], total) : weights[k];
      const node part = times(taken(x, places[k], axis), reshape_to(to_type(w, x.type()), column));
      sum = sum ? plus(sum, part) : part;
    }
  }
  if (o.coordinates != "tf_crop_and_resize") return sum;
  const node out = pointwise(op::bit_or, ir::lt(at, 0.0), pointwise(op::gt, at, to_type(last, dtype::f64)));
  return choose(reshape_to(out, column), constant(x.type(), o.extrapolation), sum);
}
/// An axis that is resized to `size`, or by `scale` if `size` is -1.
inline open_axis axis_to_resize(call& c, const resize_options& o, dim in, dim size, std::optional<double> scale) {
  open_axis a;
  a.in = in;
  a.out = size.bits == -1 ? detail::windows::scaled_extent(in, *scale) : size;
  if (a.in < 1 || a.out < 0 || (a.out > 16 * a.in && a.out > 32768))
    c.refuse("it resizes an axis of " + a.in.text() + " to " + a.out.text() +
             "; at most 32768, or 16 times as many, are");
  const auto number = [](dim d) { return static_cast<double>(static_cast<std::int64_t>(d)); };
  a.scale = scale;
  if (!scale && (o.antialias || !(a.in.is_symbolic() || a.out.is_symbolic()))) a.scale = number(a.out) / number(a.in);
  const auto now = static_cast<double>(a.out.is_symbolic() ? detail::present_size(a.out) : a.out.bits);
  if (a.scale && (!(*a.scale > 0) || (o.antialias && std::max(now, 1.0) / *a.scale > 0x1p22)))
    c.refuse("its scale is " + std::to_string(*a.scale));
  return a;
}
inline void resize(call& c) {
  const extents e = c.shape(0);
  const int rank = static_cast<int>(e.size());
  const bool old = c.version < 11 || c.n.op == "Upsample";
  const resize_options o = options_of_resize(c, old);
  std::vector<int> axes = all_axes(rank);
  if (c.has_attribute("axes")) {
    axes.clear();
    for (auto a : c.list("axes")) axes.push_back(axis_of(a, rank));
  }
  const std::size_t of_scales = old ? 1 : 2;
  wire::list_of<double> scales, roi;
  if (c.has_attribute("height_scale")) scales = {1, 1, c.f("height_scale", 1), c.f("width_scale", 1)};
  else if (c.has_attribute("scales"))
    for (float f : c.attribute("scales")->floats) scales.push_back(static_cast<double>(f));
  else if (c.has(of_scales)) scales = c.numbers(of_scales);
  extents sizes;
  if (!old && c.has(3)) sizes = c.sizes(3);
  if (!old && c.has(1) && o.coordinates == "tf_crop_and_resize") roi = c.numbers(1);
  const std::string policy = c.s("keep_aspect_ratio_policy", "stretch");
  if (!sizes.empty() && policy != "stretch") {
    double best = 0;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const double s = static_cast<double>(static_cast<std::int64_t>(sizes[k])) /
                       static_cast<double>(static_cast<std::int64_t>(e[static_cast<std::size_t>(axes[k])]));
      best = k == 0 ? s : policy == "not_larger" ? std::min(best, s) : std::max(best, s);
    }
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const double n = best * static_cast<double>(static_cast<std::int64_t>(e[static_cast<std::size_t>(axes[k])]));
      sizes[k] = whole_of(std::floor(n + 0.5));
    }
    scales.assign(axes.size(), best);
  } else if (!sizes.empty()) {
    scales.clear();
  }
  node x = c.x(0);
  const dtype type = x.type();
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const int axis = axes[k];
    if (!scales.empty() && scales.at(k) == 1 && roi.empty()) continue;
    const std::optional<double> scale = scales.empty() ? std::nullopt : std::optional(scales.at(k));
    open_axis a = axis_to_resize(c, o, e[static_cast<std::size_t>(axis)], sizes.empty() ? dim(-1) : sizes.at(k), scale);
    if (!roi.empty()) {
      a.roi_low = roi.at(k);
      a.roi_high = roi.at(k + axes.size());
    }
    if (always_equal(a.in, a.out) && a.scale.value_or(1) == 1 && roi.empty()) continue;
    if (o.mode != "nearest" && !is_float(x.type())) x = to_type(x, size_of(type) < 4 ? dtype::f32 : dtype::f64);
    if (a.in.is_symbolic() || a.out.is_symbolic()) {
      x = resampled(x, axis, o, a);
      continue;
    }
    const auto in = static_cast<std::int64_t>(a.in), out = static_cast<std::int64_t>(a.out);
    x = resampled(c, x, axis, resample(o, in, out, *a.scale, a.roi_low, a.roi_high), o.extrapolation);
  }
  if (x.type() != type) x = to_type(o.antialias ? ir::round(x) : x, type);
  c.give(x);
}

/// A value and the letters of its axes.
struct lettered {
  node x;
  std::string axes;
};
inline bool holds_letter(const std::string& s, char c) { return s.find(c) != std::string::npos; }
inline lettered summed_to(lettered a, const std::string& kept) {
  std::vector<int> gone;
  std::string left;
  for (std::size_t i = 0; i < a.axes.size(); ++i) {
    if (holds_letter(kept, a.axes[i])) left += a.axes[i];
    else gone.push_back(static_cast<int>(i));
  }
  if (!gone.empty()) a.x = reduced(op::add, a.x, gone, false);
  a.axes = left;
  return a;
}
/// Takes the diagonal of axes with the same letter.
inline lettered diagonal_of(lettered a) {
  for (std::size_t i = 0; i < a.axes.size(); ++i)
    for (std::size_t j = a.axes.size(); j-- > i + 1;) {
      if (a.axes[j] != a.axes[i]) continue;
      const extents e = extents_of(a.x);
      const node same =
          pointwise(op::eq, iota(dtype::i64, e, static_cast<int>(i)), iota(dtype::i64, e, static_cast<int>(j)));
      a.x = reduced(op::add, choose(same, a.x, constant(a.x.type(), 0)), {static_cast<int>(j)}, false);
      a.axes.erase(j, 1);
    }
  return a;
}
inline node in_order(const lettered& a, const std::string& order) {
  std::vector<int> perm;
  for (char c : order) {
    const auto at = a.axes.find(c);
    if (at == std::string::npos)
      wire::fail_file(std::string("its equation gives an axis '") + c + "' that no input has");
    perm.push_back(static_cast<int>(at));
  }
  return permuted(a.x, perm);
}
inline lettered contracted(lettered a, lettered b, const std::string& kept) {
  a = summed_to(a, kept + b.axes);
  b = summed_to(b, kept + a.axes);
  std::string batch, inner, rows, columns;
  for (char c : a.axes) (holds_letter(b.axes, c) ? (holds_letter(kept, c) ? batch : inner) : rows) += c;
  for (char c : b.axes)
    if (!holds_letter(a.axes, c)) columns += c;
  node x = in_order(a, batch + rows + inner), y = in_order(b, batch + inner + columns);
  extents ex = extents_of(x), ey = extents_of(y);
  for (std::size_t i = 0; i < batch.size(); ++i) ex[i] = ey[i] = ex[i] == 1 ? ey[i] : ex[i];
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const std::size_t p = batch.size() + rows.size() + i, q = batch.size() + i;
    ex[p] = ey[q] = ex[p] == 1 ? ey[q] : ex[p];
  }
  x = broadcast_to(x, ex);
  y = broadcast_to(y, ey);
  if (inner.empty()) {
    x = reshape_to(x, [&] {
      extents t = ex;
      t.insert(t.end(), columns.size(), dim(1));
      return t;
    }());
    y = reshape_to(y, [&] {
      extents t = ey;
      t.insert(t.begin() + static_cast<std::ptrdiff_t>(batch.size()), rows.size(), dim(1));
      return t;
    }());
    return {times(x, y), batch + rows + columns};
  }
  return {ir::dot(x, y, static_cast<std::int64_t>(batch.size()), static_cast<std::int64_t>(inner.size())),
          batch + rows + columns};
}
inline void einsum(call& c) {
  std::string text;
  for (char ch : c.s("equation", ""))
    if (ch != ' ') text += ch;
  const auto arrow = text.find("->");
  std::string left = text.substr(0, arrow), right = arrow == std::string::npos ? "" : text.substr(arrow + 2);
  std::vector<std::string> terms(1);
  for (char ch : left) {
    if (ch == ',') terms.emplace_back();
    else terms.back() += ch;
  }
  if (terms.size() != c.in.size()) c.refuse("its equation '" + text + "' is for another number of inputs");
  std::size_t most = 0;
  for (std::size_t k = 0; k < terms.size(); ++k)
    if (terms[k].find("...") != std::string::npos)
      most = std::max(most, static_cast<std::size_t>(c.rank(k)) - (terms[k].size() - 3));
  const auto spread = [&](std::string t, std::size_t count) {
    const auto at = t.find("...");
    if (at == std::string::npos) return t;
    std::string letters;
    for (std::size_t i = most - count; i < most; ++i) letters += static_cast<char>('0' + i);
    return t.replace(at, 3, letters);
  };
  std::vector<lettered> all;
  std::map<char, int> seen;
  for (std::size_t k = 0; k < terms.size(); ++k) {
    const bool dots = terms[k].find("...") != std::string::npos;
    const auto rank = static_cast<std::size_t>(c.rank(k));
    if (rank + 3 < terms[k].size()) c.refuse("its equation '" + text + "' does not fit the ranks");
    lettered l{c.x(k), spread(terms[k], dots ? rank - (terms[k].size() - 3) : 0)};
    if (l.axes.size() != rank) c.refuse("its equation '" + text + "' does not fit the ranks");
    for (char ch : l.axes) ++seen[ch];
    all.push_back(diagonal_of(l));
  }
  if (arrow == std::string::npos) {
    for (const auto& [letter, times_seen] : seen)
      if (letter <= '9' || times_seen == 1) right += letter;
  } else right = spread(right, most);
  lettered sum = all[0];
  for (std::size_t k = 1; k < all.size(); ++k) {
    std::string kept = right;
    for (std::size_t j = k + 1; j < all.size(); ++j) kept += all[j].axes;
    sum = contracted(sum, all[k], kept);
  }
  c.give(in_order(summed_to(sum, right), right));
}

inline const row resizes[] = {
    {"Einsum", "", 1, einsum, "einsum"},
    {"Resize", "", 1, resize, "gathers and weights"},
    {"Upsample", "", 1, resize, "gathers"},
};

}  // namespace sinter::onnx::rows
