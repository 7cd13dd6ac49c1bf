// plan/lowering/library_convolution.hpp: a product of windows as one call of a GPU's library for convolutions, if possible.
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>

#include "../../base/convolution.hpp"
#include "library_product.hpp"

namespace sinter::engine::plan {

/// A convolution of a kernel's buffers: indexes into kernel::buffers, and the offsets of the first elements.
struct convolution_call {
  convolution what;
  int image = -1, weights = -1, result = -1, bias = -1;
  std::int64_t image_offset = 0, weights_offset = 0, result_offset = 0, bias_offset = 0;
};

namespace detail {

/// An axis of a product as the two operands and the stored array walk it.
struct conv_axis {
  std::int64_t extent = 1, image = 0, other = 0, out = 0;
  int range = -1;           ///< index into product::within, if the axis is part of a place in a padded image
  std::int64_t factor = 0;  ///< there
};

/// The axes of a product whose operand `image` has windows: those of the image and the result, of the image and the sum, of the
/// other operand and the result, and of all three.
struct conv_axes {
  series<conv_axis> kept, summed;
  conv_axis outputs, groups;
  std::int64_t image = 0, other = 0, out = 0;  ///< offsets of the first elements
  series<std::int64_t> starts;                 ///< of the conditions in product::within
  bool turned = false;                         ///< the image is the second operand
};

/// A spatial axis: at place + tap of the image, place · step + tap · dilation - low.
struct conv_spatial {
  conv_axis place, tap;  ///< of `kept` and of `summed`; extent 1 if there is none
  std::int64_t unit = 1, step = 1, dilation = 1, low = 0, extent = 0, reach = 0;
  bool padded = false;
};

/// A reading of a product's axes as those of a convolution.
struct conv_reading {
  series<conv_spatial> spatial;
  conv_axis kept, summed;  ///< images and channels, or channels and images
};

inline std::optional<std::int64_t> number_at(const series<dim>& strides, std::size_t a) {
  return a < strides.size() ? strides[a].number() : std::optional<std::int64_t>(0);
}

/// Sets `range` and `factor` of an axis. Each axis is in one condition at most.
inline bool find_range(const product& p, std::size_t a, conv_axis& x) {
  for (std::size_t r = 0; r < p.within.size(); ++r) {
    const auto s = number_at(p.within[r].at.stride, a);
    if (!s) return false;
    if (*s == 0) continue;
    if (x.range >= 0) return false;
    x.range = static_cast<int>(r);
    x.factor = *s;
  }
  return true;
}

/// Walks an axis from its other end, which the offsets of the first elements then describe.
inline void turn_axis(conv_axis& x, std::int64_t& image, std::int64_t& other, std::int64_t& out) {
  const std::int64_t last = x.extent - 1;
  image += last * x.image, other += last * x.other, out += last * x.out;
  x.image = -x.image, x.other = -x.other, x.out = -x.out, x.factor = -x.factor;
}

/// The axes of a product that are longer than 1; empty for unknown numbers, axes without elements, or another structure.
inline std::optional<conv_axes> conv_axes_of(const kernel& k, bool turned) {
  const product& p = k.products[0];
  const affine &image = (turned ? p.b : p.a).at, &other = (turned ? p.a : p.b).at, &out = k.stores[0].at.at;
  if (image.index >= 0 || other.index >= 0 || out.index >= 0) return std::nullopt;
  const auto i0 = image.offset.number(), w0 = other.offset.number(), o0 = out.offset.number();
  if (!i0 || !w0 || !o0) return std::nullopt;
  conv_axes all{{}, {}, {}, {}, *i0, *w0, *o0, {}, turned};
  for (const range& r : p.within) {
    const auto start = r.at.offset.number();
    if (!start || !r.extent.is_number()) return std::nullopt;
    all.starts.push_back(*start);
  }
  const std::size_t n = k.axes.size(), nb = static_cast<std::size_t>(p.batch), nm = nb + static_cast<std::size_t>(p.m);
  for (std::size_t a = 0; a < n + p.k.size(); ++a) {
    const auto e = (a < n ? k.axes[a].extent : p.k[a - n]).number();
    const auto i = number_at(image.stride, a), w = number_at(other.stride, a), o = number_at(out.stride, a);
    if (!e || !i || !w || !o || *e < 1) return std::nullopt;
    if (*e == 1) continue;
    conv_axis x{*e, *i, *w, a < n ? *o : 0, -1, 0};
    if (!find_range(p, a, x)) return std::nullopt;
    if (x.image < 0) {
      if (x.range >= 0) all.starts[static_cast<std::size_t>(x.range)] += (x.extent - 1) * x.factor;
      turn_axis(x, all.image, all.other, all.out);
    }
    if (x.range >= 0 && x.factor < 0) return std::nullopt;
    const bool of_image = turned ? a >= nm : a < nm;
    if (a >= n) all.summed.push_back(x);
    else if (a < nb) {
      if (all.groups.extent > 1 || x.range >= 0) return std::nullopt;
      all.groups = x;
    } else if (of_image) all.kept.push_back(x);
    else {
      if (all.outputs.extent > 1 || x.range >= 0) return std::nullopt;
      all.outputs = x;
    }
    if (a >= nb && (a >= n || of_image) && x.image < 1) return std::nullopt;
  }
  return all;
}

/// Splits axes that were merged, taps and channels of the weights' gradient, for example: an axis that reaches beyond the step of
/// an axis on the other side.
inline void split_merged(series<conv_axis>& of, const series<conv_axis>& by) {
  for (std::size_t n = 0; n < of.size(); ++n) {
    if (of[n].range >= 0) continue;
    for (const conv_axis& other : by) {
      const std::int64_t low = of[n].image, times = other.image / low;
      if (other.range >= 0 || times < 2 || other.image % low != 0 || of[n].extent <= times || of[n].extent % times != 0)
        continue;
      conv_axis high = of[n];
      high.extent /= times;
      high.image *= times, high.other *= times, high.out *= times;
      of[n].extent = times;
      of.insert(of.begin() + static_cast<std::ptrdiff_t>(n), high);
      break;
    }
  }
}

/// The spatial axis of a place and a tap, if their steps are multiples of one unit; `factor` is the step of a place alone.
inline std::optional<conv_spatial> spatial_of(const product& p, const conv_axes& all, const conv_axis& place,
                                              const conv_axis& tap, std::int64_t factor) {
  conv_spatial s{place, tap};
  const bool has_place = place.extent > 1, has_tap = tap.extent > 1;
  const int range = has_place ? place.range : tap.range;
  if (has_place && has_tap && place.range != tap.range) return std::nullopt;
  if (range >= 0) {
    s.step = has_place ? place.factor : 1;
    s.dilation = has_tap ? tap.factor : 1;
  } else if (has_place && has_tap) {
    const std::int64_t unit = std::gcd(place.image, tap.image);
    s.step = place.image / unit;
    s.dilation = tap.image / unit;
  } else {
    s.step = has_place ? factor : 1;
  }
  if ((has_place && place.image % s.step != 0) || (has_tap && tap.image % s.dilation != 0)) return std::nullopt;
  s.unit = has_place ? place.image / s.step : tap.image / s.dilation;
  if (has_place && has_tap && tap.image != s.unit * s.dilation) return std::nullopt;
  s.reach = (place.extent - 1) * s.step + (tap.extent - 1) * s.dilation + 1;
  s.extent = s.reach;
  if (range < 0) return s;
  const std::int64_t start = all.starts[static_cast<std::size_t>(range)];
  s.padded = true;
  s.low = std::max<std::int64_t>(-start, 0);
  s.extent = *p.within[static_cast<std::size_t>(range)].extent.number() - std::max<std::int64_t>(start, 0);
  return s;
}

/// Whether a reading has windows: padded or overlapping ones, single elements that are apart, or adjacent ones along two axes.
/// Otherwise it is a product of matrices.
inline bool has_windows(const conv_reading& r) {
  int adjacent = 0;
  for (const auto& s : r.spatial) {
    const bool pair = s.place.extent > 1 && s.tap.extent > 1;
    const bool apart = s.step >= s.dilation * s.tap.extent || s.dilation >= s.step * s.place.extent;
    if (s.padded || (pair && !apart) || (!pair && s.step > 1)) return true;
    adjacent += pair;
  }
  return adjacent > 1;
}

/// Calls f for each reading of the axes as those of a convolution, until it returns true.
template <class F>
class conv_readings {
 public:
  conv_readings(const product& p, const conv_axes& all, F& f) : p_(p), all_(all), f_(f), paired_(all.kept.size(), 0) {}
  bool run() { return next_summed(0); }

 private:
  bool with(const std::optional<conv_spatial>& s, auto&& then) {
    if (!s || now_.spatial.size() == 3) return false;
    now_.spatial.push_back(*s);
    const bool found = then();
    now_.spatial.pop_back();
    return found;
  }

  bool next_summed(std::size_t j) {
    if (j == all_.summed.size()) return next_kept(0);
    const conv_axis& tap = all_.summed[j];
    for (std::size_t i = 0; i < all_.kept.size(); ++i) {
      if (paired_[i]) continue;
      paired_[i] = 1;
      const bool found = with(spatial_of(p_, all_, all_.kept[i], tap, 1), [&] { return next_summed(j + 1); });
      paired_[i] = 0;
      if (found) return true;
    }
    if (now_.summed.extent == 1 && tap.range < 0) {
      now_.summed = tap;
      const bool found = next_summed(j + 1);
      now_.summed = {};
      if (found) return true;
    }
    return with(spatial_of(p_, all_, {}, tap, 1), [&] { return next_summed(j + 1); });
  }

  bool next_kept(std::size_t i) {
    if (i == all_.kept.size()) return f_(now_);
    if (paired_[i]) return next_kept(i + 1);
    const conv_axis& place = all_.kept[i];
    if (now_.kept.extent == 1 && place.range < 0) {
      now_.kept = place;
      const bool found = next_kept(i + 1);
      now_.kept = {};
      if (found) return true;
    }
    constexpr std::int64_t max_steps = 4;
    for (std::int64_t factor = 1; factor <= (place.range < 0 ? max_steps : 1); ++factor)
      if (with(spatial_of(p_, all_, place, {}, factor), [&] { return next_kept(i + 1); })) return true;
    return false;
  }

  const product& p_;
  const conv_axes& all_;
  F& f_;
  series<char> paired_;
  conv_reading now_;
};

/// Layouts of an array: channels last, or channels first. Bits of a set.
inline constexpr unsigned channels_last = 1, channels_first = 2;

/// The strides of an array without gaps.
inline convolution_array packed(convolution_array x, int spatial, unsigned layout) {
  const std::size_t rank = static_cast<std::size_t>(spatial) + 2;
  std::int64_t step = 1;
  const auto next = [&](std::size_t d) { x.strides[d] = step, step *= x.extents[d]; };
  if (layout == channels_last) next(1);
  for (std::size_t d = rank; d-- > 2;) next(d);
  if (layout == channels_first) next(1);
  next(0);
  return x;
}

/// The layouts that an array has; several if some of its axes have one element.
inline unsigned layouts_of(const convolution_array& x, int spatial) {
  unsigned all = 0;
  for (const unsigned layout : {channels_last, channels_first}) {
    const convolution_array want = packed(x, spatial, layout);
    bool same = true;
    for (std::size_t d = 0; d < static_cast<std::size_t>(spatial) + 2; ++d)
      same = same && (x.extents[d] == 1 || x.strides[d] == want.strides[d]);
    if (same) all |= layout;
  }
  return all;
}

/// Gives all arrays strides without gaps, the same layout to all if possible; false if an array has gaps. cuDNN 9 reads weights
/// with other strides as if they had none. With `reordered`, the weights are taken to have the image's layout.
inline bool pack(convolution& c, bool reordered) {
  unsigned common = channels_last | channels_first;
  if (reordered)
    c.weights =
        packed(c.weights, c.spatial, layouts_of(c.image, c.spatial) & channels_last ? channels_last : channels_first);
  for (const auto* x : {&c.image, &c.weights, &c.result}) {
    const unsigned layouts = layouts_of(*x, c.spatial);
    if (layouts == 0) return false;
    common &= layouts;
  }
  for (auto* x : {&c.image, &c.weights, &c.result}) {
    const unsigned layouts = common != 0 ? common : layouts_of(*x, c.spatial);
    *x = packed(*x, c.spatial, (layouts & channels_last) != 0 ? channels_last : channels_first);
  }
  return true;
}

/// The channels of all groups as one axis; false if they are not at one distance.
inline bool join_groups(std::int64_t groups, std::int64_t between, std::int64_t& extent, std::int64_t& step) {
  if (groups > 1 && extent == 1) step = between;
  const bool joined = groups == 1 || between == extent * step;
  extent *= groups;
  return joined;
}

/// A call from a reading: the arrays' extents and strides, and which of them is written.
class conv_writer {
 public:
  conv_writer(const conv_axes& all, const conv_reading& r, bool reordered) : all_(all), r_(r), reordered_(reordered) {}

  std::optional<convolution_call> write() {
    // Taps are fewer than places, but for images that are hardly larger than a window.
    std::int64_t kept = 1, summed = 1;
    for (const auto& s : r_.spatial) kept *= s.place.extent, summed *= s.tap.extent;
    const bool forward = summed <= kept;
    for (const bool taken : {forward, !forward})
      if (auto call = write(taken)) return call;
    return std::nullopt;
  }

 private:
  std::optional<convolution_call> write(bool forward) {
    call_ = {};
    convolution& c = call_.what;
    c.groups = all_.groups.extent;
    c.kind = forward ? convolution_kind::result : convolution_kind::weights;
    call_.image_offset = all_.image;
    (forward ? call_.weights_offset : call_.result_offset) = all_.other;
    (forward ? call_.result_offset : call_.weights_offset) = all_.out;
    auto spatial = r_.spatial;
    std::stable_sort(spatial.begin(), spatial.end(), [](const auto& x, const auto& y) { return x.unit > y.unit; });
    while (spatial.size() < 2) spatial.insert(spatial.begin(), conv_spatial{{}, {}, 1, 1, 1, 0, 1, 1, false});
    c.spatial = static_cast<int>(spatial.size());
    if (!channels(forward)) return std::nullopt;
    for (std::size_t d = 0; d < spatial.size(); ++d) place(d, spatial[d], forward);
    if (forward && !reordered_ && !unflip(spatial)) return std::nullopt;
    if (!pack(c, reordered_)) return std::nullopt;
    if (call_.image_offset < 0 || call_.weights_offset < 0 || call_.result_offset < 0) return std::nullopt;
    return call_;
  }

  /// Images, channels and outputs.
  bool channels(bool forward) {
    convolution& c = call_.what;
    const conv_axis &n = forward ? r_.kept : r_.summed, &i = forward ? r_.summed : r_.kept, &o = all_.outputs,
                    &g = all_.groups;
    const auto of_weights = [&](const conv_axis& x) { return forward ? x.other : x.out; };
    const auto of_result = [&](const conv_axis& x) { return forward ? x.out : x.other; };
    c.image.extents = {n.extent, i.extent};
    c.image.strides = {n.image, i.image};
    c.weights.extents = {o.extent, i.extent};
    c.weights.strides = {of_weights(o), of_weights(i)};
    c.result.extents = {n.extent, o.extent};
    c.result.strides = {of_result(n), of_result(o)};
    return join_groups(g.extent, g.image, c.image.extents[1], c.image.strides[1]) &&
           (join_groups(g.extent, of_weights(g), c.weights.extents[0], c.weights.strides[0]) || reordered_) &&
           join_groups(g.extent, of_result(g), c.result.extents[1], c.result.strides[1]);
  }

  /// A spatial axis of all arrays.
  void place(std::size_t d, const conv_spatial& s, bool forward) {
    convolution& c = call_.what;
    const conv_axis &p = forward ? s.place : s.tap, &t = forward ? s.tap : s.place;
    c.step[d] = forward ? s.step : s.dilation;
    c.dilation[d] = forward ? s.dilation : s.step;
    c.low[d] = s.low;
    c.image.extents[d + 2] = whole(s, c.step[d]);
    c.image.strides[d + 2] = s.unit;
    c.result.extents[d + 2] = p.extent;
    c.result.strides[d + 2] = forward ? p.out : p.other;
    c.weights.extents[d + 2] = t.extent;
    c.weights.strides[d + 2] = forward ? t.other : t.out;
    call_.image_offset += s.low * s.unit;
    // As many rows of zeros on both sides, if the number of places allows it.
    const std::int64_t window = (t.extent - 1) * c.dilation[d] + 1, after = s.reach - s.low - c.image.extents[d + 2];
    const std::int64_t same = (c.image.extents[d + 2] + 2 * s.low - window) / c.step[d] + 1;
    c.high[d] = same == p.extent && s.low >= after ? s.low : std::max<std::int64_t>(after, 0);
  }

  /// The extent of the image's axis: without padding, rows that no window reads follow if the next axis leaves room.
  std::int64_t whole(const conv_spatial& s, std::int64_t step) const {
    if (s.padded) return s.extent;
    std::int64_t next = 0;
    const auto see = [&](std::int64_t stride, std::int64_t extent) {
      if (extent > 1 && stride > s.unit && (next == 0 || stride < next)) next = stride;
    };
    see(r_.kept.image, r_.kept.extent);
    see(r_.summed.image, r_.summed.extent);
    for (const auto& other : r_.spatial) see(other.unit, other.extent);
    const std::int64_t room = next / s.unit;
    return next % s.unit == 0 && room > s.extent && room < s.extent + step ? room : s.extent;
  }

  /// Reversed taps are those of the image's gradient: then the read array is the result, and the written one is the image.
  bool unflip(const series<conv_spatial>& spatial) {
    convolution& c = call_.what;
    bool reversed = false, forward = false;
    for (const auto& s : spatial) {
      if (s.tap.extent == 1) continue;
      reversed = reversed || s.tap.other < 0;
      forward = forward || s.tap.other > 0;
    }
    if (!reversed) return true;
    if (forward) return false;
    for (std::size_t d = 0; d < spatial.size(); ++d) {
      if (c.step[d] != 1) return false;
      const std::int64_t taps = c.weights.extents[d + 2], window = (taps - 1) * c.dilation[d];
      if (taps > 1) {
        call_.weights_offset += (taps - 1) * c.weights.strides[d + 2];
        c.weights.strides[d + 2] = -c.weights.strides[d + 2];
      }
      c.low[d] = window - c.low[d];
      if (c.low[d] < 0) return false;
      c.high[d] = c.image.extents[d + 2] + window - c.result.extents[d + 2] - c.low[d];
      if (c.high[d] < 0) return false;
    }
    c.kind = convolution_kind::image;
    std::swap(c.image, c.result);
    std::swap(call_.image_offset, call_.result_offset);
    const std::int64_t inputs = c.weights.extents[1], outputs = c.weights.extents[0] / c.groups;
    const std::int64_t of_input = c.weights.strides[1], of_output = c.weights.strides[0];
    c.weights.extents[0] = inputs * c.groups, c.weights.extents[1] = outputs;
    c.weights.strides[0] = of_input, c.weights.strides[1] = of_output;
    // Groups stay the slowest part of the first axis.
    return c.groups == 1 || (all_.groups.other == inputs * of_input);
  }

  const conv_axes& all_;
  const conv_reading& r_;
  bool reordered_;
  convolution_call call_;
};

/// The types of a kernel's convolution, and the buffers of its arrays.
inline bool set_buffers(const kernel& k, const conv_axes& all, convolution_call& call) {
  const product& p = k.products[0];
  const store& s = k.stores[0];
  const auto type_of = [&](int b) { return k.buffers[static_cast<std::size_t>(b)].type; };
  call.what.type = type_of(p.a.buffer);
  call.what.written = type_of(s.at.buffer);
  if (!is_float(call.what.type) || type_of(p.b.buffer) != call.what.type) return false;
  if (call.what.written != call.what.type && call.what.written != dtype::f32) return false;
  const int image = (all.turned ? p.b : p.a).buffer, other = (all.turned ? p.a : p.b).buffer, out = s.at.buffer;
  switch (call.what.kind) {
    case convolution_kind::result:
      call.image = image, call.weights = other, call.result = out;
      break;
    case convolution_kind::weights:
      call.image = image, call.weights = out, call.result = other;
      break;
    case convolution_kind::image:
      call.image = out, call.weights = other, call.result = image;
      break;
  }
  return true;
}

/// True if instruction `sum` adds a number for each channel to instruction `value`; the call receives it.
inline bool adds_bias(const kernel& k, int sum, int value, bool turned, convolution_call& call) {
  const auto& added = k.body[static_cast<std::size_t>(sum)];
  if (added.kind != kind::compute || added.code != ir::op::add) return false;
  const product& p = k.products[0];
  const std::size_t nb = static_cast<std::size_t>(p.batch), nm = nb + static_cast<std::size_t>(p.m);
  for (std::size_t side = 0; side < 2; ++side) {
    const auto& load = k.body[static_cast<std::size_t>(uncast(k, added.args[1 - side]))];
    if (uncast(k, added.args[side]) != value || load.kind != kind::load || is_guarded(load) || load.at.at.index >= 0)
      continue;
    const auto offset = load.at.at.offset.number();
    bool fits = offset && load.type == call.what.written;
    std::int64_t each = 1;
    for (std::size_t a = k.axes.size(); a-- > 0 && fits;) {
      const auto stride = load.at.at.stride[a].number(), extent = k.axes[a].extent.number();
      const bool of_output = a < nb || (turned ? a < nm : a >= nm);
      fits = stride && extent && (*extent == 1 || *stride == (of_output ? each : 0));
      if (of_output && fits) each *= *extent;
    }
    if (!fits) continue;
    call.bias = load.at.buffer;
    call.bias_offset = *offset;
    return true;
  }
  return false;
}

/// True if the call has all that follows the product.
inline bool set_epilogue(const kernel& k, bool turned, convolution_call& call) {
  int value = -1;
  for (std::size_t i = 0; i < k.body.size(); ++i)
    if (k.body[i].kind == kind::product) value = static_cast<int>(i);
  int last = value;
  if (call.what.kind == convolution_kind::result)
    for (std::size_t i = 0; i < k.body.size() && last == value; ++i)
      if (adds_bias(k, static_cast<int>(i), value, turned, call)) last = static_cast<int>(i);
  const auto after = activation(k, k.stores[0].value, last);
  if (!after || *after == blas_activation::gelu_tanh) return false;
  if (*after == blas_activation::relu && call.what.kind != convolution_kind::result) return false;
  call.what.after = *after == blas_activation::relu
                        ? (call.bias >= 0 ? convolution_epilogue::bias_relu : convolution_epilogue::relu)
                        : (call.bias >= 0 ? convolution_epilogue::bias : convolution_epilogue::none);
  return true;
}

}  // namespace detail

/// The convolution that does the kernel's work, if its arrays have no gaps. Extents must be numbers. With `reordered`, its weights
/// may lie in any order; the call then is that of weights in the image's layout, whose taps are not reversed.
SINTER_API std::optional<convolution_call> as_convolution(const kernel& k, bool reordered = false) {
  if (!k.is_product() || k.stores.size() != 1 || k.stores[0].accumulate) return std::nullopt;
  for (const bool turned : {false, true}) {
    auto all = detail::conv_axes_of(k, turned);
    if (!all) continue;
    detail::split_merged(all->kept, all->summed);
    detail::split_merged(all->summed, all->kept);
    std::optional<convolution_call> found;
    const auto take = [&](const detail::conv_reading& r) {
      if (!detail::has_windows(r)) return false;
      auto call = detail::conv_writer(*all, r, reordered).write();
      if (!call || !detail::set_buffers(k, *all, *call) || !detail::set_epilogue(k, turned, *call)) return false;
      found = std::move(call);
      return true;
    };
    detail::conv_readings(k.products[0], *all, take).run();
    if (found) return found;
  }
  return std::nullopt;
}

}  // namespace sinter::engine::plan
