// windows/options.hpp: the positions of windows: strides, padding, dilation, and layouts as text.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "../sinter.hpp"

namespace sinter {

/// A number for all spatial axes, or a number for each: 2, or {2, 1}.
struct per_axis {
  int count = 0;  ///< number of given entries; 0 if the option is omitted
  std::int64_t at[3] = {};

  constexpr per_axis() = default;
  template <std::integral I>
  constexpr per_axis(I n) : count(1) {
    for (auto& x : at) x = static_cast<std::int64_t>(n);
  }
  constexpr per_axis(std::initializer_list<std::int64_t> numbers) : count(static_cast<int>(numbers.size())) {
    int i = 0;
    for (auto n : numbers)
      if (i < 3) at[i++] = n;
    for (; count == 1 && i < 3; ++i) at[i] = at[0];
  }
  constexpr std::int64_t operator[](int i) const { return at[i]; }
  constexpr bool fits(int spatial) const { return count == 1 || count == spatial; }
  constexpr bool least(int spatial, std::int64_t n) const {
    for (int i = 0; i < spatial; ++i)
      if (at[i] < n) return false;
    return true;
  }
};

struct same_t {};
struct valid_t {};
/// Padding for ceil(extent / stride) windows: zeros on both sides, and an odd one at the end.
inline constexpr same_t same{};
/// No padding.
inline constexpr valid_t valid{};

/// The zeros on both sides of each spatial axis of a convolution's image: a number, `same` or `valid`.
struct window_padding {
  per_axis amount = 0;
  bool is_same = false;

  constexpr window_padding() = default;
  constexpr window_padding(per_axis n) : amount(n) {}
  template <std::integral I>
  constexpr window_padding(I n) : amount(n) {}
  constexpr window_padding(std::initializer_list<std::int64_t> n) : amount(n) {}
  constexpr window_padding(same_t) : is_same(true) {}
  constexpr window_padding(valid_t) {}
};

/// The options of conv, as in PyTorch's convolutions.
struct conv_options {
  per_axis stride = 1;
  window_padding padding = {};
  per_axis dilation = 1;
  std::int64_t groups = 1;
};

/// The options of conv_transpose; `output_padding` adds elements after each spatial axis of the result.
struct conv_transpose_options {
  per_axis stride = 1;
  per_axis padding = 0;
  per_axis output_padding = 0;
  per_axis dilation = 1;
  std::int64_t groups = 1;
};

/// The options of pools. The default stride is the window. `ceil_mode` keeps a last window that extends beyond the padding.
/// With `count_include_pad`, average pools also count padded elements in the divisor.
struct pool_options {
  per_axis stride = {};
  per_axis padding = 0;
  per_axis dilation = 1;
  bool ceil_mode = false;
  bool count_include_pad = true;
};

/// The options of unfold and fold.
struct fold_options {
  per_axis stride = 1;
  per_axis padding = 0;
  per_axis dilation = 1;
};

namespace detail::windows {

/// floor(n·scale), the product rounded to a double, for n = q·m and a scale that is p / q rounded down: p·m, or one less where the product
/// is. Of an open n the range in which it lies is a guard: there are two or three between p·m = 2^e and 2^(e + 1).
inline dim extent_below(dim n, double scale, std::int64_t p, std::int64_t q) {
  const auto whole = [&](std::int64_t m) { return static_cast<double>(m * q) * scale >= static_cast<double>(m * p); };
  const auto least = [&](int exponent) {
    return ((std::int64_t{1} << exponent) + p - 1) / p;
  };  // whose p·m is 2^exponent or more
  int below = 1, above = 50;
  while (below < above) {
    const int middle = (below + above) / 2;
    if (n < least(middle) * q) above = middle;
    else below = middle + 1;
  }
  std::int64_t first = least(below - 1), end = least(below);
  // Behind a power of two the error grows with m, and what is rounded away does not.
  if (p * first == std::int64_t{1} << (below - 1) && first + 1 < end && whole(first + 1) != whole(first)) {
    if (n < (first + 1) * q) return n / q * p - (whole(first) ? 0 : 1);
    ++first;
  }
  while (first < end) {
    const std::int64_t middle = first + (end - first) / 2;
    if (whole(middle)) first = middle + 1;
    else end = middle;
  }
  return n < first * q ? n / q * p : n / q * p - 1;
}

/// floor(n·scale), with the product rounded to a double; -1 for an invalid size. An open n stays open if an integer quotient
/// gives the same for all n: for scales with 24 bits, and for p / q with a small q.
inline dim scaled_extent(dim n, double scale) {
  if (!(scale > 0)) return -1;
  if (n.is_symbolic()) {
    int exponent = 0;
    const double whole = std::frexp(scale, &exponent) * 0x1p24;
    const int down = 24 - exponent;
    if (whole == std::floor(whole) && down >= 0 && down <= 40)
      return n * static_cast<std::int64_t>(whole) / (std::int64_t{1} << down);
    for (std::int64_t q = 3; q <= 1024; ++q) {
      const auto by = static_cast<double>(q);
      const double p = std::nearbyint(scale * by);
      if (p < 1 || p > 0x1p30 || p / by != scale) continue;
      // Multiples of q give integers, which a scale rounded down may miss by one.
      const double beyond = std::fma(scale, by, -p);
      if (beyond < -p * 0x1p-54 && n % dim(q) == 0) return extent_below(n, scale, static_cast<std::int64_t>(p), q);
      return n * static_cast<std::int64_t>(p) / q;
    }
  }
  const double size = std::floor(static_cast<double>(static_cast<std::int64_t>(n)) * scale);
  return size < 0x1p52 ? dim(static_cast<std::int64_t>(size)) : dim(-1);
}

/// The windows along one axis. There are `count`; window i reads the taps i·step + t·dilation of the elements padded by low
/// and high.
struct axis_window {
  std::int64_t taps = 1, step = 1, dilation = 1;
  dim low = 0, high = 0, count = 0;
  const char* error = nullptr;
  const char* hint = nullptr;

  constexpr std::int64_t reach() const { return dilation * (taps - 1) + 1; }
};

inline constexpr std::int64_t most = std::int64_t{1} << 30;

/// The windows over an axis of `extent`, which may be `dyn`.
constexpr axis_window place_windows(dim extent, std::int64_t taps, std::int64_t step, std::int64_t dilation,
                                    std::int64_t padding, bool is_same, bool ceil_mode) {
  axis_window w{taps, step, dilation, padding, padding, dyn, nullptr, nullptr};
  const auto refuse = [&](const char* error, const char* hint) {
    w.error = error;
    w.hint = hint;
    return w;
  };
  if (taps < 1) return refuse("a window has no element", "give windows of 1 or more");
  if (step < 1) return refuse("a stride is less than 1", "give strides of 1 or more");
  if (dilation < 1) return refuse("a dilation is less than 1", "give dilations of 1 or more");
  if (padding < 0) return refuse("a padding is negative", "slice the image instead");
  if (taps > most || dilation > most / taps)
    return refuse("a window reaches over more than 2^30 elements", "give fewer taps, or a smaller dilation");
  if (step > most) return refuse("a stride is more than 2^30", "give a smaller stride");
  if (padding > most) return refuse("a padding is more than 2^30", "give less padding");
  if (extent == dyn) return w;
  if (is_same) {
    w.count = (extent + (step - 1)) / dim(step);
    const dim all = (w.count - 1) * dim(step) + w.reach() - extent;
    const dim more = all < 0 ? dim(0) : all;
    w.low = more / 2;
    w.high = more - w.low;
    return w;
  }
  const dim room = extent + 2 * padding - w.reach();
  if (room < 0) return refuse("a window is larger than the padded image", "pad it, or take a smaller window");
  w.count = room / dim(step) + 1;
  if (ceil_mode && room.is_symbolic()) {
    // The same count; the only question is whether a last window begins in the image.
    const dim last = (room + (step - 1)) / dim(step) * dim(step);
    const bool begins = last < extent + padding;
    w.count = last / dim(step) + (begins ? 1 : 0);
    if (begins) w.high = last + w.reach() - extent - padding;
  } else if (ceil_mode && room % dim(step) != 0 && w.count * dim(step) < extent + padding) {
    w.high = w.count * dim(step) + w.reach() - extent - padding;
    w.count = w.count + 1;
  }
  return w;
}

/// The windows without end taps that meet padding only, and the number of dropped first taps. All taps stay if extents are
/// open.
struct live_taps {
  std::int64_t first = 0, taps = 1;
  dim low = 0, high = 0;
};
constexpr live_taps taps_that_meet(dim extent, const axis_window& w) {
  live_taps m{0, w.taps, w.low, w.high};
  if (extent.is_symbolic() || w.low.is_symbolic() || w.high.is_symbolic() || w.count.is_symbolic()) return m;
  const std::int64_t n = extent, low = w.low, last = (std::int64_t{w.count} - 1) * w.step;
  if (n < 1 || last < 0 || low < 0) return m;
  // Tap t meets the elements from t·dilation - low to last + t·dilation - low.
  while (m.first + 1 < w.taps && m.first * w.dilation + last < low && (m.first + 1) * w.dilation <= low) ++m.first;
  std::int64_t end = w.taps;
  while (end > m.first + 1 && (end - 1) * w.dilation - low >= n) --end;
  m.taps = end - m.first;
  if (m.taps == w.taps) return m;
  m.low = low - m.first * w.dilation;
  const std::int64_t past = last + (m.taps - 1) * w.dilation + 1 - n - std::int64_t{m.low};
  m.high = past < 0 ? 0 : past;
  return m;
}

/// The positions of a layout's axes in the image, the weights and the result.
struct layout {
  int spatial = 0;
  int n = -1, c = -1, s[3] = {-1, -1, -1};
  int o = -1, i = -1, k[3] = {-1, -1, -1};
  int to_n = -1, to_c = -1, to_s[3] = {-1, -1, -1};
  bool right = false;

  constexpr bool channels_first() const { return c < s[0]; }
};

/// Parses "nhwc,hwio->nhwc": n, c and one to three letters of axes; these, i and o; the first again.
constexpr layout parse_layout(const char* text) {
  layout l;
  char part[3][8] = {};
  int length[3] = {}, at = 0;
  for (; *text; ++text) {
    if (*text == ' ') continue;
    const bool arrow = at == 1 && text[0] == '-' && text[1] == '>';
    if (arrow) ++text;
    if (arrow || (at == 0 && *text == ',')) {
      ++at;
    } else {
      if (*text < 'a' || *text > 'z' || length[at] == 5) return l;
      part[at][length[at]++] = *text;
    }
  }
  const auto find = [&](int p, char c) {
    int found = -1;
    for (int i = 0; i < length[p]; ++i)
      if (part[p][i] == c) found = found < 0 ? i : -2;
    return found;
  };
  if (at != 2 || length[0] < 3 || length[1] != length[0] || length[2] != length[0]) return l;
  l.n = find(0, 'n');
  l.c = find(0, 'c');
  l.o = find(1, 'o');
  l.i = find(1, 'i');
  l.to_n = find(2, 'n');
  l.to_c = find(2, 'c');
  bool right = l.n >= 0 && l.c >= 0 && l.o >= 0 && l.i >= 0 && l.to_n >= 0 && l.to_c >= 0;
  for (int a = 0; a < length[0] && right; ++a) {
    const char letter = part[0][a];
    if (a == l.n || a == l.c) continue;
    l.s[l.spatial] = a;
    l.k[l.spatial] = find(1, letter);
    l.to_s[l.spatial] = find(2, letter);
    right = find(0, letter) == a && l.k[l.spatial] >= 0 && l.to_s[l.spatial] >= 0 && letter != 'o' && letter != 'i';
    ++l.spatial;
  }
  l.right = right;
  return l;
}

template <fixed_string Text>
consteval layout parsed() {
  constexpr layout l = parse_layout(Text.text);
  static_assert(
      l.right,
      "sinter: [conv] write the image's axes with n and c, then the weights' with o and i, then the result's: "
      "conv<\"nhwc,hwio->nhwc\">");
  return l;
}

/// An error unless each option has one number, or one for each spatial axis.
constexpr const char* miscounted(int spatial, std::initializer_list<per_axis> all) {
  for (const auto& p : all)
    if (!p.fits(spatial)) return "an option has another number of entries than there are spatial axes";
  return nullptr;
}

/// The windows of a convolution along each spatial axis, and the shape of its result; extents may be `dyn`.
struct conv_plan {
  int spatial = 0;
  axis_window along[3];
  std::int64_t groups = 1;
  op_shapes::outcome result;
};

constexpr conv_plan plan_conv(const layout& l, const dims& x, const dims& w, const conv_options& o) {
  conv_plan p;
  p.spatial = l.spatial;
  p.groups = o.groups;
  p.result.shape = dims(l.spatial + 2);
  const auto refuse = [&](const char* error, const char* hint) {
    p.result = op_shapes::refuse(error, hint);
    return p;
  };
  if (const auto* e = miscounted(l.spatial, {o.stride, o.padding.amount, o.dilation}))
    return refuse(e, "give one number, or one for each axis");
  if (o.groups < 1) return refuse("there are no groups", "give 1 or more groups");
  const dim c = x[l.c], i = w[l.i], out = w[l.o];
  if (c != dyn && c % dim(o.groups) != 0)
    return refuse("the groups do not divide the image's channels", "give a number of groups that divides them");
  if (out != dyn && out % dim(o.groups) != 0)
    return refuse("the groups do not divide the weights' outputs", "give a number of groups that divides them");
  if (c != dyn && i != dyn && c != i * dim(o.groups))
    return refuse("the channels of image and weights do not fit",
                  "the weights have the image's channels over groups as inputs");
  p.result.shape[l.to_n] = x[l.n];
  p.result.shape[l.to_c] = out;
  for (int a = 0; a < l.spatial; ++a) {
    if (w[l.k[a]] == dyn) continue;
    p.along[a] =
        place_windows(x[l.s[a]], w[l.k[a]], o.stride[a], o.dilation[a], o.padding.amount[a], o.padding.is_same, false);
    if (p.along[a].error) return refuse(p.along[a].error, p.along[a].hint);
    p.result.shape[l.to_s[a]] = p.along[a].count;
  }
  return p;
}

/// The plan of the transpose. `along` are the windows of the convolution whose image is the result before it is cut.
constexpr conv_plan plan_conv_transpose(const layout& l, const dims& x, const dims& w,
                                        const conv_transpose_options& o) {
  conv_plan p;
  p.spatial = l.spatial;
  p.groups = o.groups;
  p.result.shape = dims(l.spatial + 2);
  const auto refuse = [&](const char* error, const char* hint) {
    p.result = op_shapes::refuse(error, hint);
    return p;
  };
  if (const auto* e = miscounted(l.spatial, {o.stride, o.padding, o.dilation, o.output_padding}))
    return refuse(e, "give one number, or one for each axis");
  if (o.groups < 1) return refuse("there are no groups", "give 1 or more groups");
  const dim c = x[l.c], i = w[l.i], out = w[l.o];
  if (c != dyn && c % dim(o.groups) != 0)
    return refuse("the groups do not divide the image's channels", "give a number of groups that divides them");
  if (c != dyn && i != dyn && c != i)
    return refuse("the channels of image and weights do not fit", "the weights have as many inputs");
  p.result.shape[l.to_n] = x[l.n];
  if (out != dyn) p.result.shape[l.to_c] = out * dim(o.groups);
  for (int a = 0; a < l.spatial; ++a) {
    const dim n = x[l.s[a]];
    if (w[l.k[a]] == dyn) continue;
    axis_window& v = p.along[a];
    v = place_windows(dyn, w[l.k[a]], o.stride[a], o.dilation[a], o.padding[a], false, false);
    if (v.error) return refuse(v.error, v.hint);
    if (o.output_padding[a] < 0 || (o.output_padding[a] >= v.step && o.output_padding[a] >= v.dilation))
      return refuse("the output padding reaches a stride and a dilation", "give less than one of them");
    if (n == dyn) continue;
    v.count = n;
    const dim extent = (n - 1) * dim(v.step) + v.reach() - 2 * o.padding[a] + o.output_padding[a];
    if (n == 0 || extent < 0) return refuse("the padding removes everything", "give less padding");
    p.result.shape[l.to_s[a]] = extent;
  }
  return p;
}

}  // namespace detail::windows
}  // namespace sinter
