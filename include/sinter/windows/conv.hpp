// windows/conv.hpp: convolutions and their transposes as products over windows; the windows are never all in memory.
#pragma once

#include <algorithm>
#include <vector>

#include "options.hpp"

namespace sinter {

namespace detail::windows {

using op_shapes::axis_list;

/// The windows of an operand: the result's axes, their start, and a row of factors for each axis of the operand.
struct view_of_windows {
  dims extents, starts;
  std::vector<std::int64_t> factors;

  explicit view_of_windows(int operand_rank) : starts(operand_rank) {
    for (int d = 0; d < operand_rank; ++d) starts[d] = 0;
  }
  /// Adds an axis of the result, along which `axis` of the operand advances by `factor`; -1 for no axis.
  void push(int axis, dim extent, std::int64_t factor = 1) {
    steps_.push_back({axis, factor});
    extents.push(extent);
  }
  void done() {
    factors.assign(static_cast<std::size_t>(starts.rank) * steps_.size(), 0);
    for (std::size_t j = 0; j < steps_.size(); ++j)
      if (steps_[j].axis >= 0) factors[static_cast<std::size_t>(steps_[j].axis) * steps_.size() + j] = steps_[j].factor;
  }
  handle of(const handle& x, location at) {
    done();
    return views::window(x, extents, starts, factors, at);
  }
  /// The transpose, for a y with the axes of the windows of an operand with extents `to`.
  handle back(const handle& y, const dims& to, location at) {
    done();
    return views::unwindow(y, to, starts, factors, at);
  }

 private:
  struct step {
    int axis;
    std::int64_t factor;
  };
  std::vector<step> steps_;
};

inline handle padded_with_zeros(const handle& x, const dims& low, const dims& high, location at) {
  static constexpr std::uint64_t zero = 0;
  bool none = true;
  for (int d = 0; d < x.extents.rank; ++d)
    none = none && !low[d].is_symbolic() && !high[d].is_symbolic() && low[d] == 0 && high[d] == 0;
  return none ? x : views::pad(x, low, high, {}, &zero, true, at);
}

inline dims zeros_of(int rank) {
  dims d(rank);
  for (auto& e : d) e = 0;
  return d;
}

/// A product in autocast's dtype: operands are rounded before their windows are read.
template <class T>
struct rounded_product {
  bool lowered = std::is_same_v<T, float> && product_dtype != dtype::f32;

  handle operand(const handle& x, location at) const {
    if (!lowered) return x;
    return tracing() ? push_cast(x, product_dtype, at) : rounded(x, product_dtype, at);
  }
  handle result(const handle& y, location at) const {
    if (!lowered) return y;
    return tracing() ? push_cast(y, dtype::f32, at) : rounded(y, product_dtype, at);
  }
  handle dot(const handle& a, const handle& b, int batch, int inner, location at) const {
    if (!tracing()) return eager_dot<T>(a, b, batch, inner, at);
    ir::attributes attr;
    attr.ints = {batch, inner};
    return push_op(ir::op::dot, {a, b}, std::move(attr), at);
  }
};

/// The number of patch elements that are gathered at a time outside of traces.
inline constexpr std::int64_t patch_elements = 1 << 20;

/// An image (n, s…, c) and weights (k…, i, o) of one group give (n, out…, o). The image is padded already, or needs no padding.
template <class T>
handle product_of_windows(const rounded_product<T>& product, const handle& x, const handle& w, const conv_plan& p,
                          location at) {
  const int s = p.spatial, rank = s + 2;
  const auto windows_of = [&](dim first, dim images, dim first_row, dim rows) {
    view_of_windows v(rank);
    v.starts[0] = first;
    v.starts[1] = first_row * dim(p.along[0].step);
    v.push(0, images);
    for (int a = 0; a < s; ++a) v.push(1 + a, a == 0 ? rows : p.along[a].count, p.along[a].step);
    for (int a = 0; a < s; ++a) v.push(1 + a, p.along[a].taps, p.along[a].dilation);
    v.push(rank - 1, x.extents[rank - 1]);
    return v.of(x, at);
  };
  const dim images = x.extents[0], rows = p.along[0].count;
  if (tracing()) return product.dot(windows_of(0, images, 0, rows), w, 0, s + 1, at);
  dims extents{images};
  std::int64_t row = x.extents[rank - 1];
  for (int a = 0; a < s; ++a) {
    extents.push(p.along[a].count);
    row *= p.along[a].taps * (a > 0 ? static_cast<std::int64_t>(p.along[a].count) : 1);
  }
  extents.push(w.extents[s + 1]);
  const handle out = allocate("conv", x.type, extents, at);
  if (extents.numel() == 0) return out;
  const std::int64_t image = std::max<std::int64_t>(row * rows, 1);
  const std::int64_t many = std::max<std::int64_t>(patch_elements / image, 1),
                     high = many > 1 ? static_cast<std::int64_t>(rows)
                                     : std::max<std::int64_t>(patch_elements / std::max<std::int64_t>(row, 1), 1);
  for (std::int64_t n = 0; n < images; n += many)
    for (std::int64_t r = 0; r < rows; r += high) {
      dims part = extents;
      part[0] = std::min<std::int64_t>(many, images - n);
      part[1] = std::min<std::int64_t>(high, rows - r);
      const handle y = product.dot(windows_of(n, part[0], r, part[1]), w, 0, s + 1, at);
      copy_elements(views::with_layout(out, part, out.strides, n * out.strides[0] + r * out.strides[1]), y);
    }
  return out;
}

/// The image with its padding, (n, s…, c).
inline handle padded_image(const handle& x, const conv_plan& p, location at) {
  dims low = zeros_of(x.extents.rank), high = low;
  for (int a = 0; a < p.spatial; ++a) {
    low[1 + a] = p.along[a].low;
    high[1 + a] = p.along[a].high;
  }
  return padded_with_zeros(x, low, high, at);
}

/// Like padded_image, for an image whose channels come before its places in memory, as in the result: rows stay rows.
inline handle padded_planes(const handle& x, const conv_plan& p, location at) {
  const int s = p.spatial;
  dims low = zeros_of(x.extents.rank), high = low;
  axis_list front, back;
  for (const int d : {0, s + 1}) front.at[front.count++] = d;
  back.at[back.count++] = 0;
  for (int a = 0; a < s; ++a) {
    front.at[front.count++] = 1 + a;
    back.at[back.count++] = 2 + a;
    low[2 + a] = p.along[a].low;
    high[2 + a] = p.along[a].high;
  }
  back.at[back.count++] = 1;
  return views::permute(padded_with_zeros(views::permute(x, front, at), low, high, at), back, at);
}

/// Whether the windows over an image (n, s…, c) are single elements.
inline bool is_1x1(const dims& image, const conv_plan& p) {
  bool one = true;
  for (int a = 0; a < p.spatial; ++a) {
    const auto& v = p.along[a];
    one = one && v.taps == 1 && v.step == 1 && !v.low.is_symbolic() && v.low == 0 && !v.high.is_symbolic() &&
          v.high == 0 && v.count == image[1 + a];
  }
  return one;
}

/// Drops the taps of weights (k…, i, o) and windows that meet padding only: with a large dilation, few taps meet a small image.
inline conv_plan meeting(handle& w, const dims& image, const conv_plan& whole, location at) {
  conv_plan p = whole;
  for (int a = 0; a < p.spatial; ++a) {
    auto& v = p.along[a];
    const live_taps met = taps_that_meet(image[1 + a], v);
    if (met.taps == v.taps) continue;
    w = views::slice_axis(w, a, {met.first, met.taps, 1}, at);
    v.taps = met.taps;
    v.low = met.low;
    v.high = met.high;
  }
  return p;
}

/// Groups with one input each: sums of products in one loop, for an image (n, s…, g) and weights (k…, 1, g·m).
template <class T, int S>
handle depthwise(const handle& image, const handle& weights, const conv_plan& p, bool channels_first, location at) {
  constexpr int rank = 2 * S + 3;
  const rounded_product<T> product;
  const handle bare = product.operand(image, at), w = product.operand(weights, at),
               x = channels_first ? padded_planes(bare, p, at) : padded_image(bare, p, at);
  const dim groups = p.groups, each = w.extents[S + 1] / groups;
  view_of_windows v(S + 2);
  dims k(rank);
  for (int a = 0; a < S; ++a) v.push(1 + a, p.along[a].taps, p.along[a].dilation), k[a] = p.along[a].taps;
  v.push(0, x.extents[0]);
  for (int a = 0; a < S; ++a) v.push(1 + a, p.along[a].count, p.along[a].step);
  v.push(S + 1, groups);
  v.push(-1, each);
  for (int d = S; d < rank - 2; ++d) k[d] = 1;
  k[rank - 2] = groups;
  k[rank - 1] = each;
  const handle left = v.of(x, at), right = views::broadcast(views::reshape(w, k, at), v.extents, at);
  constexpr auto taps = op_shapes::all_axes(S);
  dims extents = op_shapes::part(v.extents, S, rank - 2);
  extents.push(groups * each);
  const auto summed = [&]<class E>(E*) {
    const auto a = typed<E, any_shape(rank)>(left, at), b = typed<E, any_shape(rank)>(right, at);
    const auto y = reduce<ir::op::add, taps, false>(mul(wide(a, at), wide(b, at), at), "conv", at);
    return views::reshape(untyped(narrow<E>(y, at), at), extents, at);
  };
  if (tracing() && product.lowered) {
    const handle y =
        product_dtype == dtype::bf16 ? summed(static_cast<bf16*>(nullptr)) : summed(static_cast<f16*>(nullptr));
    return product.result(y, at);
  }
  return product.result(summed(static_cast<T*>(nullptr)), at);
}

/// Convolves an image (n, s…, c) with weights (k…, i, o) to (n, out…, o).
template <class T, int S>
handle convolved(const handle& image, handle weights, const conv_plan& whole, bool channels_first, location at) {
  const rounded_product<T> product;
  const conv_plan p = meeting(weights, image.extents, whole, at);
  const dim inputs = weights.extents[S], outputs = weights.extents[S + 1];
  if (p.groups > 1 && inputs == 1) return depthwise<T, S>(image, weights, p, channels_first, at);
  const handle x = product.operand(image, at), w = product.operand(weights, at);
  if (p.groups == 1 && is_1x1(image.extents, p)) {
    const handle matrix = views::reshape(w, dims{inputs, outputs}, at);
    if (!channels_first) return product.result(product.dot(x, matrix, 0, 1, at), at);
    // (o, c) times (c, n, s…), whose rows lie as the image's rows do.
    axis_list order;
    order.at[order.count++] = S + 1;
    for (int d = 0; d <= S; ++d) order.at[order.count++] = d;
    const handle y = product.dot(views::transpose(matrix, at), views::permute(x, order, at), 0, 1, at);
    axis_list back;
    for (int d = 0; d <= S + 1; ++d) back.at[back.count++] = (d + 1) % (S + 2);
    return product.result(views::permute(y, back, at), at);
  }
  const handle around = padded_image(x, p, at);
  if (p.groups == 1) return product.result(product_of_windows<T>(product, around, w, p, at), at);
  if (!tracing()) {
    // Group by group, so that gathered patches of one group have the same bound as those of all.
    std::vector<handle> parts;
    const dim each = outputs / dim(p.groups);
    for (std::int64_t g = 0; g < p.groups; ++g)
      parts.push_back(product_of_windows<T>(product, views::slice_axis(around, S + 1, {g * inputs, inputs, 1}, at),
                                            views::slice_axis(w, S + 1, {g * each, each, 1}, at), p, at));
    return product.result(views::concat(parts, S + 1, at), at);
  }
  const dim groups = p.groups, each = outputs / groups;
  view_of_windows v(S + 3);  // windows of (n, s…, g, i)
  v.push(S + 1, groups);
  v.push(0, x.extents[0]);
  for (int a = 0; a < S; ++a) v.push(1 + a, p.along[a].count, p.along[a].step);
  for (int a = 0; a < S; ++a) v.push(1 + a, p.along[a].taps, p.along[a].dilation);
  v.push(S + 2, inputs);
  dims split = op_shapes::part(around.extents, 0, S + 1), taps = op_shapes::part(w.extents, 0, S + 1);
  split.push(groups);
  split.push(inputs);
  taps.push(groups);
  taps.push(each);
  axis_list first;  // (k…, i, g, o) -> (g, k…, i, o)
  first.at[first.count++] = S + 1;
  for (int d = 0; d <= S; ++d) first.at[first.count++] = d;
  first.at[first.count++] = S + 2;
  const handle y = product.dot(v.of(views::reshape(around, split, at), at),
                               views::permute(views::reshape(w, taps, at), first, at), 1, S + 1, at);
  axis_list last;  // (g, n, out…, o) -> (n, out…, g, o)
  for (int d = 1; d <= S + 1; ++d) last.at[last.count++] = d;
  last.at[last.count++] = 0;
  last.at[last.count++] = S + 2;
  dims extents{x.extents[0]};
  for (int a = 0; a < S; ++a) extents.push(p.along[a].count);
  extents.push(outputs);
  return product.result(views::reshape(views::permute(y, last, at), extents, at), at);
}

// Convolutions of these are the compiled engine's.
#define SINTER_CONVOLVED(X) X(float, 1) X(float, 2)
#if defined(SINTER_COMPILED)
#define SINTER_X(T, S) extern template handle convolved<T, S>(const handle&, handle, const conv_plan&, bool, location);
SINTER_CONVOLVED(SINTER_X)
#undef SINTER_X
#endif

/// Outside of traces, a few rows of the image at a time: an image (n, s…, i) and weights (i, k…, o) of one group give
/// (n, full…, o).
template <class T>
handle eager_transposed(const rounded_product<T>& product, const handle& x, const handle& w, const conv_plan& p,
                        const dims& full, location at) {
  const int s = p.spatial;
  const bool halves = vocabulary::is_half<T>;
  const handle out = allocate("conv_transpose", halves ? dtype::f32 : x.type, full, at);
  std::memset(out.data, 0, static_cast<std::size_t>(full.numel() * out.item_bytes()));
  std::int64_t row = w.extents.numel() / std::max<std::int64_t>(w.extents[0], 1);
  for (int a = 1; a < s; ++a) row *= x.extents[1 + a];
  const std::int64_t images = x.extents[0], rows = x.extents[1],
                     high = std::max<std::int64_t>(patch_elements / std::max<std::int64_t>(row, 1), 1);
  for (std::int64_t n = 0; n < images; ++n)
    for (std::int64_t r = 0; r < rows; r += high) {
      const handle part =
          views::slice_axis(views::slice_axis(x, 0, {n, 1, 1}, at), 1, {r, std::min(high, rows - r), 1}, at);
      handle y = product.dot(part, w, 0, 1, at);
      if constexpr (vocabulary::is_half<T>) {
        const handle wider = allocate("conv_transpose", dtype::f32, y.extents, at);
        for (std::int64_t e = 0, count = y.extents.numel(); e < count; ++e)
          reinterpret_cast<float*>(wider.data)[e] = static_cast<float>(reinterpret_cast<const T*>(y.data)[e]);
        y = wider;
      }
      view_of_windows v(s + 2);
      v.starts[0] = n;
      v.starts[1] = r * p.along[0].step;
      v.push(0, 1);
      for (int a = 0; a < s; ++a) v.push(1 + a, y.extents[1 + a], p.along[a].step);
      for (int a = 0; a < s; ++a) v.push(1 + a, p.along[a].taps, p.along[a].dilation);
      v.push(s + 1, full[s + 1]);
      v.done();
      views::add_windows(out, y, v.starts, v.factors);
    }
  if constexpr (!vocabulary::is_half<T>) {
    return out;
  } else {
    const handle narrower = allocate("conv_transpose", x.type, full, at);
    for (std::int64_t e = 0, count = full.numel(); e < count; ++e)
      reinterpret_cast<T*>(narrower.data)[e] = static_cast<T>(reinterpret_cast<const float*>(out.data)[e]);
    return narrower;
  }
}

/// The sums of all contributions to the windows of (n, full…, o), from an image (n, s…, g·i) and weights (g·i, k…, o).
template <class T, int S>
handle transposed_sums(const handle& image, const handle& weights, const conv_plan& p, location at) {
  const rounded_product<T> product;
  const handle x = product.operand(image, at), w = product.operand(weights, at);
  const dim groups = p.groups, inputs = w.extents[0] / groups, each = w.extents[S + 1];
  dims full{x.extents[0]};
  for (int a = 0; a < S; ++a) full.push((p.along[a].count - 1) * dim(p.along[a].step) + p.along[a].reach());
  full.push(groups * each);
  if (!tracing()) {
    std::vector<handle> parts;
    dims one = full;
    one[S + 1] = each;
    for (std::int64_t g = 0; g < p.groups; ++g)
      parts.push_back(eager_transposed<T>(product, views::slice_axis(x, S + 1, {g * inputs, inputs, 1}, at),
                                          views::slice_axis(w, 0, {g * inputs, inputs, 1}, at), p, one, at));
    return product.result(p.groups == 1 ? parts[0] : views::concat(parts, S + 1, at), at);
  }
  view_of_windows v(S + 3);  // windows of (n, full…, g, o)
  const bool together = p.groups > 1;
  if (together) v.push(S + 1, groups);
  v.push(0, x.extents[0]);
  for (int a = 0; a < S; ++a) v.push(1 + a, p.along[a].count, p.along[a].step);
  for (int a = 0; a < S; ++a) v.push(1 + a, p.along[a].taps, p.along[a].dilation);
  if (!together) v.push(S + 1, 1);
  v.push(S + 2, each);
  dims split = op_shapes::part(full, 0, S + 1);
  split.push(groups);
  split.push(each);
  handle y;
  if (together) {
    dims of_x = op_shapes::part(x.extents, 0, S + 1), of_w{groups, inputs};
    of_x.push(groups);
    of_x.push(inputs);
    for (int d = 1; d < S + 2; ++d) of_w.push(w.extents[d]);
    axis_list first;
    first.at[first.count++] = S + 1;
    for (int d = 0; d <= S; ++d) first.at[first.count++] = d;
    first.at[first.count++] = S + 2;
    y = product.dot(views::permute(views::reshape(x, of_x, at), first, at), views::reshape(w, of_w, at), 1, 1, at);
  } else {
    // (n, s…, k…, 1, o)
    dims of_w = op_shapes::part(w.extents, 0, S + 1);
    of_w.push(1);
    of_w.push(each);
    y = product.dot(x, views::reshape(w, of_w, at), 0, 1, at);
  }
  y = v.back(y, split, at);
  return product.result(views::reshape(y, full, at), at);
}

template <int S>
axis_list axes_of(int first, const int (&middle)[3], int last) {
  axis_list l;
  l.at[l.count++] = first;
  for (int a = 0; a < S; ++a) l.at[l.count++] = middle[a];
  l.at[l.count++] = last;
  return l;
}

/// The position in (n, out…, o) of each axis of the result.
template <int S>
axis_list result_order(const layout& l) {
  axis_list order;
  order.count = S + 2;
  order.at[l.to_n] = 0;
  for (int a = 0; a < S; ++a) order.at[l.to_s[a]] = 1 + a;
  order.at[l.to_c] = S + 1;
  return order;
}

/// All facts that a launch on a GPU depends on, besides its operands.
inline std::vector<std::int64_t> facts_of(const conv_plan& p, const dims& result) {
  std::vector<std::int64_t> facts{p.groups, static_cast<std::int64_t>(product_dtype)};
  for (const auto& v : p.along)
    for (const std::int64_t n : {v.taps, v.step, v.dilation, std::int64_t{v.low}, std::int64_t{v.high}})
      facts.push_back(n);
  facts.insert(facts.end(), as_numbers(result.begin()), as_numbers(result.end()));
  return facts;
}

template <class T, layout L>
handle conv_of(const handle& x, const handle& w, const conv_plan& p, location at) {
  if (!tracing() && on_gpu("conv", {&x, &w}, at)) {
    const handle* const operands[] = {&x, &w};
    return launch(
        "conv", operands, facts_of(p, p.result.shape), [&] { return conv_of<T, L>(x, w, p, at); }, at);
  }
  constexpr int s = L.spatial;
  axis_list of_w;
  for (int a = 0; a < s; ++a) of_w.at[of_w.count++] = L.k[a];
  of_w.at[of_w.count++] = L.i;
  of_w.at[of_w.count++] = L.o;
  const handle y = convolved<T, s>(views::permute(x, axes_of<s>(L.n, L.s, L.c), at), views::permute(w, of_w, at), p,
                                   L.channels_first(), at);
  return views::permute(y, result_order<s>(L), at);
}

template <class T, layout L>
handle conv_transpose_of(const handle& x, const handle& w, const conv_plan& p, const conv_transpose_options& o,
                         location at) {
  if (!tracing() && on_gpu("conv_transpose", {&x, &w}, at)) {
    const handle* const operands[] = {&x, &w};
    return launch(
        "conv_transpose", operands, facts_of(p, p.result.shape),
        [&] { return conv_transpose_of<T, L>(x, w, p, o, at); }, at);
  }
  constexpr int s = L.spatial;
  handle y = transposed_sums<T, s>(views::permute(x, axes_of<s>(L.n, L.s, L.c), at),
                                   views::permute(w, axes_of<s>(L.i, L.k, L.o), at), p, at);
  // Padding is cut off. Output padding is zeros, or the elements that the last windows leave over.
  dims high = zeros_of(s + 2);
  for (int a = 0; a < s; ++a) {
    const dim past = o.padding[a] + p.result.shape[L.to_s[a]] - y.extents[1 + a];
    if (past > 0) high[1 + a] = past;
  }
  y = padded_with_zeros(y, zeros_of(s + 2), high, at);
  for (int a = 0; a < s; ++a) y = views::slice_axis(y, 1 + a, {o.padding[a], p.result.shape[L.to_s[a]], 1}, at);
  return views::permute(y, result_order<s>(L), at);
}

/// Returns false after a compile-time error about a convolution's operands.
template <layout L, class X, class W>
constexpr bool takes_operands() {
  constexpr bool types = dtype_of<element_of<X>> == dtype_of<element_of<W>>,
                 numbers = !is_bool(dtype_of<element_of<X>>),
                 ranks = X::rank == L.spatial + 2 && W::rank == L.spatial + 2;
  static_assert(types, "sinter: [conv] image and weights have different dtypes; cast one with cast<T>(x)");
  static_assert(numbers, "sinter: [conv] takes numbers, not bool; cast with cast<T>(x)");
  static_assert(ranks, "sinter: [conv] image and weights have the axes that the layout names");
  return L.right && types && numbers && ranks;
}

/// The extents of a result that do not depend on options.
constexpr dims known_shape(const layout& l, dim n, dim c) {
  dims d(l.spatial + 2);
  d[l.to_n] = n;
  d[l.to_c] = c;
  return d;
}

template <bool Transposed>
constexpr bool channels_fit(const layout& l, const dims& x, const dims& w) {
  const dim c = x[l.c], i = w[l.i];
  if (c == dyn || i == dyn) return true;
  return Transposed ? c == i : i > 0 && c % i == 0;
}

}  // namespace detail::windows

/// The convolution of an image with weights, as networks define it, a correlation: y(n, o, i…) = Σ x(n, c, i·stride +
/// t·dilation - padding…) w(o, c, t…). The text names the axes of the image (n, c and one to three more), the weights (these,
/// o and i) and the result. Each option is a number for all spatial axes, or one for each: conv<"nhwc,hwio->nhwc">(x, w,
/// {.stride = 2, .padding = same}). With groups, the weights' inputs are the image's channels divided by groups. Any dtype
/// except bool; f16 and bf16 sum in f32. user_error for channels that do not fit, for groups that do not divide them, and for
/// windows larger than the padded image.
template <fixed_string Layout, tensor_like X, tensor_like W>
auto conv(const X& x, const W& w, const conv_options& options = {}, location where = location::current()) {
  namespace win = detail::windows;
  const location at = where.in("conv");
  constexpr auto l = win::parsed<Layout>();
  if constexpr (!l.right) {
    return x;
  } else if constexpr (!win::takes_operands<l, X, W>()) {
    return x;
  } else {
    static_assert(win::channels_fit<false>(l, X::static_shape, W::static_shape),
                  "sinter: [conv] the static channels of image and weights do not fit");
    constexpr dims shape = win::known_shape(l, X::static_shape[l.n], W::static_shape[l.o]);
    const auto image = detail::untyped(x, at), weights = detail::untyped(w, at);
    const auto plan = win::plan_conv(l, image.extents, weights.extents, options);
    op_shapes::demand("conv", plan.result, at, {image.extents, weights.extents});
    return detail::typed<typename X::value_type, shape>(
        win::conv_of<typename X::value_type, l>(image, weights, plan, at), at);
  }
}

/// Like conv(x, w, options) with options known at compile time: static extents stay static, and are checked.
/// conv<"nchw,oihw->nchw", conv_options{.stride = 2}>(x, w)
template <fixed_string Layout, conv_options Options, tensor_like X, tensor_like W>
auto conv(const X& x, const W& w, location at = location::current()) {
  namespace win = detail::windows;
  constexpr auto l = win::parsed<Layout>();
  if constexpr (!l.right) {
    return x;
  } else if constexpr (!win::takes_operands<l, X, W>()) {
    return x;
  } else {
    constexpr auto result = win::plan_conv(l, X::static_shape, W::static_shape, Options).result;
    static_assert(result.error == nullptr,
                  "sinter: [conv] the static shapes do not fit: channels are inputs times groups, groups divide them, "
                  "windows are no larger than the padded image, options have an entry for each axis");
    if constexpr (result.error == nullptr) return detail::fitted<result.shape>(conv<Layout>(x, w, Options, at), at);
    else return x;
  }
}

/// The transpose of a convolution with the same options. It maps the weights' inputs i back to the image's channels c. An
/// axis has (n - 1)·stride - 2·padding + dilation·(k - 1) + output_padding + 1 elements. The weights are (i, o, …) in
/// PyTorch's order: conv_transpose<"nchw,iohw->nchw">(x, w, {.stride = 2}). With groups, o is the result's channels divided
/// by groups.
template <fixed_string Layout, tensor_like X, tensor_like W>
auto conv_transpose(const X& x, const W& w, const conv_transpose_options& options = {},
                    location where = location::current()) {
  namespace win = detail::windows;
  const location at = where.in("conv_transpose");
  constexpr auto l = win::parsed<Layout>();
  if constexpr (!l.right) {
    return x;
  } else if constexpr (!win::takes_operands<l, X, W>()) {
    return x;
  } else {
    static_assert(win::channels_fit<true>(l, X::static_shape, W::static_shape),
                  "sinter: [conv_transpose] the static channels of image and weights do not fit");
    constexpr dims shape = win::known_shape(l, X::static_shape[l.n], dyn);
    const auto image = detail::untyped(x, at), weights = detail::untyped(w, at);
    const auto plan = win::plan_conv_transpose(l, image.extents, weights.extents, options);
    op_shapes::demand("conv_transpose", plan.result, at, {image.extents, weights.extents});
    return detail::typed<typename X::value_type, shape>(
        win::conv_transpose_of<typename X::value_type, l>(image, weights, plan, options, at), at);
  }
}

#define SINTER_CONV(NAME, TEXT, TRANSPOSED, TURNED)                                                        \
  template <tensor_like X, tensor_like W>                                                                  \
  auto NAME(const X& x, const W& w, const conv_options& options = {}, location at = location::current()) { \
    return conv<TEXT>(x, w, options, at);                                                                  \
  }                                                                                                        \
  template <conv_options Options, tensor_like X, tensor_like W>                                            \
  auto NAME(const X& x, const W& w, location at = location::current()) {                                   \
    return conv<TEXT, Options>(x, w, at);                                                                  \
  }                                                                                                        \
  template <tensor_like X, tensor_like W>                                                                  \
  auto TRANSPOSED(const X& x, const W& w, const conv_transpose_options& options = {},                      \
                  location at = location::current()) {                                                     \
    return conv_transpose<TURNED>(x, w, options, at);                                                      \
  }
/// conv1d, conv2d, conv3d and conv_transpose1d … in PyTorch's order: images (n, c, …), weights (o, i, …), for transposes (i,
/// o, …).
SINTER_CONV(conv1d, "ncw,oiw->ncw", conv_transpose1d, "ncw,iow->ncw")
SINTER_CONV(conv2d, "nchw,oihw->nchw", conv_transpose2d, "nchw,iohw->nchw")
SINTER_CONV(conv3d, "ncdhw,oidhw->ncdhw", conv_transpose3d, "ncdhw,iodhw->ncdhw")
#undef SINTER_CONV

}  // namespace sinter
