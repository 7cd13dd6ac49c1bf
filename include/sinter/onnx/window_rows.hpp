// onnx/window_rows.hpp: operators of windows: convolutions, pools, columns of images.
#pragma once

#include "../front/evaluate/views.hpp"
#include "../windows/options.hpp"
#include "nn_rows.hpp"

namespace sinter::onnx::rows {

/// The windows along one spatial axis.
struct window_place {
  std::int64_t taps = 1, step = 1, dilation = 1;
  dim low = 0, high = 0;  ///< padding around the axis
  dim over = 0;           ///< the part of `high` that only rounding up the count requires, beyond the padding
  dim count = 1;
  std::int64_t reach() const { return (taps - 1) * dilation + 1; }
};

/// A view of windows. Each axis of the result follows an axis of the operand by a factor; -1: no axis.
class window_view {
 public:
  explicit window_view(int rank) : rank_(rank) {}
  void push(int axis, dim extent, std::int64_t factor = 1) {
    axes_.push_back({axis, factor});
    extents_.push_back(extent);
  }
  node of(const node& x) const { return ir::window(x, ir_shape(extents_), starts(), factors()); }
  const extents& shape() const { return extents_; }
  ir::shape starts() const { return ir::shape(static_cast<std::size_t>(rank_), ir::dim(0)); }
  series<std::int64_t> factors() const {
    series<std::int64_t> f(static_cast<std::size_t>(rank_) * axes_.size(), 0);
    for (std::size_t j = 0; j < axes_.size(); ++j)
      if (axes_[j].first >= 0) f[static_cast<std::size_t>(axes_[j].first) * axes_.size() + j] = axes_[j].second;
    return f;
  }

 private:
  int rank_;
  std::vector<std::pair<int, std::int64_t>> axes_;
  extents extents_;
};

inline void check_window(call& c, const window_place& w) {
  const auto fits = [](std::int64_t v) { return v >= 1 && v <= 1 << 24; };
  if (!fits(w.taps) || !fits(w.step) || !fits(w.dilation))
    c.refuse("its kernel, strides and dilations have to be from 1 to 2^24");
}

/// Windows of the spatial extents, from the attributes that convolutions and pools share.
inline std::vector<window_place> places_of_windows(call& c, const extents& spatial,
                                                   const std::vector<std::int64_t>& kernel, bool pool) {
  const std::size_t s = spatial.size();
  const auto strides = c.list("strides"), dilations = c.list("dilations"), pads = c.list("pads");
  const std::string automatic = c.s("auto_pad", "NOTSET");
  const bool ceil = pool && c.i("ceil_mode", 0) != 0;
  if (kernel.size() != s || (!strides.empty() && strides.size() != s) ||
      (!dilations.empty() && dilations.size() != s) || (!pads.empty() && pads.size() != 2 * s))
    c.refuse("its kernel, strides, dilations or pads are not one for each spatial axis");
  std::vector<window_place> out(s);
  for (std::size_t a = 0; a < s; ++a) {
    window_place& w = out[a];
    w.taps = kernel[a];
    w.step = strides.empty() ? 1 : strides[a];
    w.dilation = dilations.empty() ? 1 : dilations[a];
    check_window(c, w);
    const dim n = spatial[a];
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const dim rows = (n + (w.step - 1)) / w.step;
      dim total = (rows - 1) * w.step + w.reach() - n;
      if (total < 0) total = 0;
      w.low = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.high = total - w.low;
    } else if (!pads.empty() && automatic != "VALID") {
      w.low = pads[a];
      w.high = pads[a + s];
    }
    const dim room = n + w.low + w.high - w.reach();
    if (room < 0) c.refuse("a window of " + std::to_string(w.reach()) + " does not fit the axis of " + n.text());
    w.count = room / w.step + 1;
    if (ceil) {
      dim more = (room + (w.step - 1)) / w.step + 1;
      // The last window starts within the axis or its lower padding.
      if ((more - 1) * w.step >= n + w.low) more = more - 1;
      w.count = more;
      const dim over = (more - 1) * w.step + w.reach() - (n + w.low + w.high);
      if (over > 0) w.over = over;
      w.high = w.high + w.over;
    }
  }
  return out;
}

/// x (n, c, s…) with the padding of the windows around it. Spatial axes begin at `first`.
inline node surrounded(const node& x, const std::vector<window_place>& w, int first, const ir::scalar& literal = {}) {
  extents low(static_cast<std::size_t>(x.rank()), dim(0)), high = low;
  node y = x;
  bool any = false;
  for (std::size_t a = 0; a < w.size(); ++a) {
    const auto d = static_cast<std::size_t>(first) + a;
    dim before = w[a].low, after = w[a].high;
    if (!before.is_symbolic() && before.bits < 0) {
      y = sliced(y, static_cast<int>(d), dim(-before.bits), size_of_axis(y, static_cast<int>(d)) + before);
      before = 0;
    }
    if (!after.is_symbolic() && after.bits < 0) {
      y = sliced(y, static_cast<int>(d), 0, size_of_axis(y, static_cast<int>(d)) + after);
      after = 0;
    }
    low[d] = before;
    high[d] = after;
    any = any || before.is_symbolic() || after.is_symbolic() || before.bits != 0 || after.bits != 0;
  }
  return any ? padded(y, low, high, literal) : y;
}

/// Permutations that move axis 1 to the end, and back.
inline std::vector<int> channels_last(int rank) {
  std::vector<int> p{0};
  for (int d = 2; d < rank; ++d) p.push_back(d);
  p.push_back(1);
  return p;
}
inline std::vector<int> channels_first(int rank) {
  std::vector<int> p{0, rank - 1};
  for (int d = 1; d + 1 < rank; ++d) p.push_back(d);
  return p;
}

/// A product for each channel, in one loop: a padded image (n, s…, g), and weights (k…, 1, g·m).
inline node convolve_channels(const node& image, const node& k, const std::vector<window_place>& w, dim groups) {
  const int s = static_cast<int>(w.size()), rank = s + 2;
  const dim batch = size_of_axis(image, 0), outputs = size_of_axis(k, k.rank() - 1), each = outputs / groups;
  window_view v(rank);
  extents kernel;
  for (int a = 0; a < s; ++a) {
    v.push(1 + a, dim(w[static_cast<std::size_t>(a)].taps), w[static_cast<std::size_t>(a)].dilation);
    kernel.push_back(w[static_cast<std::size_t>(a)].taps);
  }
  v.push(0, batch);
  for (int a = 0; a < s; ++a) v.push(1 + a, w[static_cast<std::size_t>(a)].count, w[static_cast<std::size_t>(a)].step);
  v.push(s + 1, groups);
  v.push(-1, each);
  kernel.resize(kernel.size() + static_cast<std::size_t>(s) + 1, dim(1));
  kernel.push_back(groups);
  kernel.push_back(each);
  const node terms = wide(v.of(image)) * wide(broadcast_to(reshape_to(k, kernel), v.shape()));
  const node y = to_type(reduced(op::add, terms, all_axes(s), false), image.type());
  extents to = extents_of(y);
  to.pop_back();
  to.back() = outputs;
  return permuted(reshape_to(y, to), channels_first(rank));
}
/// A product for each group: a padded image (n, s…, g·i), and weights (k…, i, g·o).
inline node convolve_groups(const node& image, const node& k, const std::vector<window_place>& w, dim groups) {
  const int s = static_cast<int>(w.size()), rank = s + 2;
  const dim batch = size_of_axis(image, 0), outputs = size_of_axis(k, k.rank() - 1), each = outputs / groups,
            inputs = size_of_axis(k, s);
  extents split = extents_of(image), taps = extents_of(k);
  split.pop_back();
  split.insert(split.end(), {groups, inputs});
  taps.pop_back();
  taps.insert(taps.end(), {groups, each});
  window_view v(rank + 1);  // of (n, s…, g, i)
  v.push(s + 1, groups);
  v.push(0, batch);
  for (int a = 0; a < s; ++a) v.push(1 + a, w[static_cast<std::size_t>(a)].count, w[static_cast<std::size_t>(a)].step);
  for (int a = 0; a < s; ++a)
    v.push(1 + a, dim(w[static_cast<std::size_t>(a)].taps), w[static_cast<std::size_t>(a)].dilation);
  v.push(s + 2, inputs);
  std::vector<int> first{s + 1};  // (k…, i, g, o) to (g, k…, i, o)
  for (int d = 0; d <= s; ++d) first.push_back(d);
  first.push_back(s + 2);
  const node y = ir::dot(v.of(reshape_to(image, split)), permuted(reshape_to(k, taps), first), 1, s + 1);
  std::vector<int> last{1, 0, s + 2};  // (g, n, out…, o) to (n, g, o, out…)
  for (int d = 2; d <= s + 1; ++d) last.push_back(d);
  extents to{batch, outputs};
  for (const auto& p : w) to.push_back(p.count);
  return reshape_to(permuted(y, last), to);
}

/// Weights (o, i, k…) and windows on spatial extents, without taps that meet only padding.
inline node meeting(node k, const extents& spatial, std::vector<window_place>& w) {
  for (std::size_t a = 0; a < w.size(); ++a) {
    auto& v = w[a];
    const auto met = sinter::detail::windows::taps_that_meet(
        spatial[a], {v.taps, v.step, v.dilation, v.low, v.high, v.count, nullptr, nullptr});
    if (met.taps == v.taps) continue;
    k = sliced(k, static_cast<int>(2 + a), met.first, met.taps);
    v.taps = met.taps;
    v.low = met.low;
    v.high = met.high;
  }
  return k;
}

/// x (n, c, s…) and weights (o, c / groups, k…) to (n, o, out…).
inline node convolve(const node& x, const node& all, std::vector<window_place> w, dim groups) {
  const int s = static_cast<int>(w.size()), rank = s + 2;
  const extents ex = extents_of(x);
  const node weights = meeting(all, ex.from(2), w);
  const extents ew = extents_of(weights);
  const dim outputs = ew[0], inputs = ew[1];
  bool one = true;
  for (std::size_t a = 0; a < w.size(); ++a)
    one = one && w[a].taps == 1 && w[a].step == 1 && !w[a].low.is_symbolic() && w[a].low.bits == 0 &&
          !w[a].high.is_symbolic() && w[a].high.bits == 0 && w[a].count == ex[2 + a];
  if (one && groups == 1) {
    std::vector<int> front{1, 0}, back{1, 0};
    for (int d = 2; d < rank; ++d) front.push_back(d), back.push_back(d);
    return permuted(ir::dot(reshape_to(weights, {outputs, inputs}), permuted(x, front), 0, 1), back);
  }
  std::vector<int> taps_first;  // (k…, i, o)
  for (int a = 0; a < s; ++a) taps_first.push_back(2 + a);
  taps_first.push_back(1);
  taps_first.push_back(0);
  // With one channel in a group, each channel's places stay rows in memory, as without padding. Products take channels
  // together.
  const bool alone = groups != 1 && inputs == 1;
  const node image = alone ? permuted(surrounded(x, w, 2), channels_last(rank))
                           : surrounded(permuted(x, channels_last(rank)), w, 1),
             k = permuted(weights, taps_first);
  if (groups == 1) {
    window_view v(rank);
    v.push(0, ex[0]);
    for (int a = 0; a < s; ++a)
      v.push(1 + a, w[static_cast<std::size_t>(a)].count, w[static_cast<std::size_t>(a)].step);
    for (int a = 0; a < s; ++a)
      v.push(1 + a, dim(w[static_cast<std::size_t>(a)].taps), w[static_cast<std::size_t>(a)].dilation);
    v.push(rank - 1, ex[1]);
    return permuted(ir::dot(v.of(image), k, 0, s + 1), channels_first(rank));
  }
  return alone ? convolve_channels(image, k, w, groups) : convolve_groups(image, k, w, groups);
}

inline wire::list_of<std::int64_t> kernel_of(call& c, const extents& weights) {
  auto k = c.list("kernel_shape");
  if (k.empty())
    for (std::size_t d = 2; d < weights.size(); ++d) k.push_back(static_cast<std::int64_t>(weights[d]));
  return k;
}
/// The transpose of a view of windows: the sums at each element of `full`.
inline node unwindowed(const node& y, const extents& full, const window_view& v) {
  dims to, starts(0);
  for (const dim& d : full) to.push(d), starts.push(0);
  const auto f = v.factors();
  return value_of(sinter::detail::views::unwindow(sinter::detail::of_node(y.id()), to, starts, {f.data(), f.size()},
                                                  place_of_nodes())
                      .node);
}
inline void check_channels(call& c, const extents& x, const extents& w) {
  if (x.size() < 3 || w.size() != x.size())
    c.refuse("its image is " + text_of(x) + " and its weights are " + text_of(w));
}
inline void conv(call& c) {
  const extents ex = c.shape(0), ew = c.shape(1);
  check_channels(c, ex, ew);
  const dim groups = c.i("group", 1);
  if (groups < 1 || ew[1] * groups != ex[1] || ew[0] % groups != 0)
    c.refuse("its image is " + text_of(ex) + " and its weights are " + text_of(ew) + ", in " + groups.text() +
             " groups");
  const auto w = places_of_windows(c, ex.from(2), kernel_of(c, ew), false);
  node y = convolve(c.x(0), c.x(1), w, groups);
  if (c.has(2)) y = plus(y, by_channel(c.x(2), y.rank()));
  c.give(y);
}
inline void conv_integer(call& c) {
  const extents ex = c.shape(0), ew = c.shape(1);
  check_channels(c, ex, ew);
  const auto w = places_of_windows(c, ex.from(2), kernel_of(c, ew), false);
  node x = to_type(c.x(0), dtype::i32), k = to_type(c.x(1), dtype::i32);
  if (c.has(2)) x = minus(x, to_type(c.x(2), dtype::i32));
  if (c.has(3)) {
    node z = to_type(c.x(3), dtype::i32);
    if (z.rank() == 1)
      z = reshape_to(z, [&] {
        extents e(ew.size(), dim(1));
        e[0] = size_of_axis(z, 0);
        return e;
      }());
    k = minus(k, z);
  }
  c.give(convolve(x, k, w, c.i("group", 1)));
}

/// The windows of a transposed convolution over all elements that they reach, and the part of these elements that is kept.
struct transposed_windows {
  std::vector<window_place> w;
  extents full, low, size;
};
inline transposed_windows places_of_transposed(call& c, const extents& ex, const extents& ew) {
  const auto strides = c.list("strides"), dilations = c.list("dilations"), pads = c.list("pads"),
             more = c.list("output_padding"), wanted = c.list("output_shape"), kernel = kernel_of(c, ew);
  const std::string automatic = c.s("auto_pad", "NOTSET");
  if (!wanted.empty() && wanted.size() < ex.size() - 2)
    c.refuse("its output_shape is not one extent for each spatial axis");
  transposed_windows t;
  auto& [w, full, low, size] = t;
  w.resize(ex.size() - 2);
  full.push_back(ex[0]);
  for (std::size_t a = 0; a < w.size(); ++a) {
    w[a].taps = kernel.at(a);
    w[a].step = strides.empty() ? 1 : strides.at(a);
    w[a].dilation = dilations.empty() ? 1 : dilations.at(a);
    check_window(c, w[a]);
    w[a].count = ex[a + 2];
    const dim all = (ex[a + 2] - 1) * w[a].step + w[a].reach(), extra = more.empty() ? dim(0) : dim(more.at(a));
    full.push_back(all);
    dim before = 0, after = 0;
    if (!wanted.empty() || automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const dim target = wanted.empty() ? ex[a + 2] * w[a].step : dim(wanted[wanted.size() - w.size() + a]);
      const dim total = all + extra - target;
      before = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      after = total - before;
      if (total < 0) before = 0, after = total;
    } else if (!pads.empty() && automatic != "VALID") {
      before = pads.at(a);
      after = pads.at(a + w.size());
    }
    low.push_back(before);
    size.push_back(all + extra - before - after);
  }
  return t;
}
inline void conv_transpose(call& c) {
  const extents ex = c.shape(0), ew = c.shape(1);
  check_channels(c, ex, ew);
  const int s = static_cast<int>(ex.size()) - 2, rank = s + 2;
  const dim groups = c.i("group", 1), inputs = ex[1] / groups, each = ew[1];
  transposed_windows t = places_of_transposed(c, ex, ew);
  auto& [w, full, low, size] = t;
  full.push_back(groups * each);
  extents split = full;
  split.back() = groups;
  split.push_back(each);
  const node x = permuted(c.x(0), channels_last(rank));
  std::vector<int> order{0};  // (g·i, k…, o)
  for (int a = 0; a < s; ++a) order.push_back(2 + a);
  order.push_back(1);
  const node k = permuted(c.x(1), order);
  window_view v(rank + 1);  // of (n, full…, g, o)
  v.push(s + 1, groups);
  v.push(0, ex[0]);
  for (int a = 0; a < s; ++a) v.push(1 + a, w[static_cast<std::size_t>(a)].count, w[static_cast<std::size_t>(a)].step);
  for (int a = 0; a < s; ++a)
    v.push(1 + a, dim(w[static_cast<std::size_t>(a)].taps), w[static_cast<std::size_t>(a)].dilation);
  v.push(s + 2, each);
  extents of_x = extents_of(x), of_w = extents_of(k);
  of_x.back() = groups;
  of_x.push_back(inputs);
  of_w[0] = inputs;
  of_w.insert(of_w.begin(), groups);
  std::vector<int> first{s + 1};
  for (int d = 0; d <= s; ++d) first.push_back(d);
  first.push_back(s + 2);
  const node terms = ir::dot(permuted(reshape_to(x, of_x), first), reshape_to(k, of_w), 1, 1);
  const node sums = unwindowed(terms, split, v);
  node y = permuted(reshape_to(sums, full), channels_first(rank));
  for (int a = 0; a < s; ++a) {
    const auto i = static_cast<std::size_t>(a);
    const dim have = full[i + 1], end = low[i] + size[i];
    extents before(static_cast<std::size_t>(rank), dim(0)), after = before;
    if (low[i] < 0) before[i + 2] = dim(0) - low[i];
    if (end > have) after[i + 2] = end - have;
    y = padded(y, before, after, 0);
    y = sliced(y, 2 + a, low[i] < 0 ? dim(0) : low[i], size[i]);
  }
  if (c.has(2)) y = plus(y, by_channel(c.x(2), rank));
  c.give(y);
}

/// The taps of every window, as axes before x's axes (n, c, out…).
inline node taps_of(const node& around, const std::vector<window_place>& w) {
  window_view v(around.rank());
  for (std::size_t a = 0; a < w.size(); ++a) v.push(2 + static_cast<int>(a), dim(w[a].taps), w[a].dilation);
  v.push(0, size_of_axis(around, 0));
  v.push(1, size_of_axis(around, 1));
  for (std::size_t a = 0; a < w.size(); ++a) v.push(2 + static_cast<int>(a), w[a].count, w[a].step);
  return v.of(around);
}
inline double lowest_of(dtype t) {
  const ir::scalar s = ir::combiner_identity(op::maximum, t);
  return is_float(t) ? s.f : static_cast<double>(s.i);
}
inline void max_pool(call& c) {
  const node x = c.x(0);
  const extents e = extents_of(x);
  if (e.size() < 3) c.refuse("its image is " + text_of(e));
  const auto w = places_of_windows(c, e.from(2), c.list("kernel_shape"), true);
  const int s = static_cast<int>(w.size());
  const node taps = taps_of(surrounded(x, w, 2, ir::combiner_identity(op::maximum, x.type())), w);
  c.give(0, reduced(op::maximum, taps, all_axes(s), false));
  if (!c.wants(1)) return;
  // The place of the first largest tap, in x's plane.
  const extents full = extents_of(taps);
  extents flat{product_of(full, 0, static_cast<std::size_t>(s))};
  flat.insert(flat.end(), full.begin() + s, full.end());
  ir::attributes a;
  a.combiner = op::maximum;
  a.ints = {0};
  node tap = ir::push(op::arg_reduce, {reshape_to(taps, flat)}, std::move(a));
  const extents out = extents_of(tap);
  std::vector<node> place(w.size());
  for (std::size_t k = w.size(); k-- > 0;) {
    const node at_tap = pointwise(op::fmod, tap, constant(dtype::i64, static_cast<double>(w[k].taps)));
    tap = over(tap, constant(dtype::i64, static_cast<double>(w[k].taps)));
    const node first = iota(dtype::i64, out, 2 + static_cast<int>(k)) * static_cast<double>(w[k].step);
    place[k] = minus(first + at_tap * static_cast<double>(w[k].dilation), size_node(w[k].low, dtype::i64));
  }
  node at = plus(times(iota(dtype::i64, out, 0), size_node(e[1], dtype::i64)), iota(dtype::i64, out, 1));
  const bool columns = c.i("storage_order", 0) != 0;
  node in_plane;
  for (std::size_t k = 0; k < w.size(); ++k) {
    const std::size_t d = columns ? w.size() - 1 - k : k;
    in_plane = in_plane ? plus(times(in_plane, size_node(e[2 + d], dtype::i64)), place[d]) : place[d];
  }
  c.give(1, plus(times(at, size_node(product_of(e, 2), dtype::i64)), in_plane));
}
inline void average_pool(call& c) {
  const node x = c.x(0);
  const extents e = extents_of(x);
  if (e.size() < 3) c.refuse("its image is " + text_of(e));
  const auto w = places_of_windows(c, e.from(2), c.list("kernel_shape"), true);
  const bool counted = c.i("count_include_pad", 0) != 0;
  const int s = static_cast<int>(w.size());
  const node sums = reduced(op::add, taps_of(surrounded(wide(x), w, 2), w), all_axes(s), false);
  bool whole = true;
  double taps = 1;
  for (std::size_t a = 0; a < w.size(); ++a) {
    taps *= static_cast<double>(w[a].taps);
    whole = whole && !w[a].low.is_symbolic() && !w[a].high.is_symbolic() &&
            (counted ? w[a].over == 0 : w[a].low.bits == 0 && w[a].high.bits == 0);
  }
  if (whole) return c.give(to_type(sums / taps, x.type()));
  // The number of taps of each window that count.
  std::vector<window_place> around = w;
  extents plane{dim(1), dim(1)};
  plane.insert(plane.end(), e.begin() + 2, e.end());
  node ones = constant(sums.type(), 1, plane);
  if (counted) {
    for (std::size_t a = 0; a < w.size(); ++a) {
      around[a].low = 0;
      around[a].high = w[a].over;
      plane[a + 2] = plane[a + 2] + w[a].low + w[a].high - w[a].over;
    }
    ones = constant(sums.type(), 1, plane);
  }
  c.give(to_type(over(sums, reduced(op::add, taps_of(surrounded(ones, around, 2), w), all_axes(s), false)), x.type()));
}
inline void lp_pool(call& c) {
  const node x = c.x(0);
  const extents e = extents_of(x);
  if (e.size() < 3) c.refuse("its image is " + text_of(e));
  const auto w = places_of_windows(c, e.from(2), c.list("kernel_shape"), true);
  const double p = static_cast<double>(c.i("p", 2));
  const node powers = ir::pow(pointwise(op::abs, wide(x)), p);
  const node sums = reduced(op::add, taps_of(surrounded(powers, w, 2), w), all_axes(static_cast<int>(w.size())), false);
  c.give(to_type(ir::pow(sums, 1 / p), x.type()));
}
inline void global_average(call& c) {
  const node x = c.x(0);
  c.give(to_type(mean_over(wide(x), all_axes(x.rank(), 2), true), x.type()));
}
inline void global_max(call& c) {
  const node x = c.x(0);
  c.give(reduced(op::maximum, x, all_axes(x.rank(), 2), true));
}
inline void global_lp(call& c) {
  const node x = c.x(0);
  const double p = static_cast<double>(c.i("p", 2));
  c.give(ir::pow(reduced(op::add, ir::pow(pointwise(op::abs, x), p), all_axes(x.rank(), 2), true), 1 / p));
}
inline void max_unpool(call& c) {
  const extents e = c.shape(0);
  const auto kernel = c.list("kernel_shape"), strides = c.list("strides"), pads = c.list("pads");
  extents natural = e;
  for (std::size_t a = 0; a + 2 < e.size(); ++a) {
    const std::int64_t step = strides.empty() ? 1 : strides.at(a);
    natural[a + 2] = (e[a + 2] - 1) * step + kernel.at(a) - (pads.empty() ? 0 : pads.at(a) + pads.at(a + e.size() - 2));
  }
  const extents to = c.has(2) ? c.sizes(2) : natural;
  const node x = c.x(0), index = c.x(1);
  const dim n = product_of(e);
  // Places refer to the natural extents.
  node at = reshape_to(index, {n});
  node place;
  dim below = product_of(natural);
  for (std::size_t d = 0; d < to.size(); ++d) {
    below = below / natural[d];
    const node step = size_node(below, dtype::i64);
    const node here = over(at, step);
    at = minus(at, times(here, step));
    place = place ? plus(times(place, size_node(to[d], dtype::i64)), here) : here;
  }
  const node zeros = constant(x.type(), 0, {product_of(to)});
  c.give(reshape_to(ir::scatter(zeros, place, reshape_to(x, {n}), op::identity, 0), to));
}
inline void col2im(call& c) {
  const auto image = c.integers(1), block = c.integers(2);
  const std::size_t s = image.size();
  const auto strides = c.list("strides"), dilations = c.list("dilations"), pads = c.list("pads");
  const node x = c.x(0);
  const extents e = extents_of(x);
  dim taps = 1;
  for (auto b : block) taps = taps * b;
  const dim channels = e[1] / taps;
  extents full{e[0], channels}, columns{e[0], channels};
  std::vector<window_place> w(s);
  for (std::size_t a = 0; a < s; ++a) {
    w[a].taps = block[a];
    w[a].step = strides.empty() ? 1 : strides[a];
    w[a].dilation = dilations.empty() ? 1 : dilations[a];
    check_window(c, w[a]);
    const dim low = pads.empty() ? 0 : pads[a], high = pads.empty() ? 0 : pads[a + s];
    w[a].low = low;
    full.push_back(dim(image[a]) + low + high);
    w[a].count = (full.back() - w[a].reach()) / w[a].step + 1;
    columns.push_back(block[a]);
  }
  for (const auto& p : w) columns.push_back(p.count);
  window_view v(static_cast<int>(s) + 2);
  v.push(0, e[0]);
  v.push(1, channels);
  for (std::size_t a = 0; a < s; ++a) v.push(2 + static_cast<int>(a), dim(w[a].taps), w[a].dilation);
  for (std::size_t a = 0; a < s; ++a) v.push(2 + static_cast<int>(a), w[a].count, w[a].step);
  node y = unwindowed(reshape_to(x, columns), full, v);
  for (std::size_t a = 0; a < s; ++a) y = sliced(y, 2 + static_cast<int>(a), w[a].low, dim(image[a]));
  c.give(y);
}

inline const row windows[] = {
    {"AveragePool", "", 1, average_pool, "avg_pool"},
    {"Col2Im", "", 1, col2im, "fold"},
    {"Conv", "", 1, conv, "conv"},
    {"ConvInteger", "", 1, conv_integer, "conv of i32"},
    {"ConvTranspose", "", 1, conv_transpose, "conv_transpose"},
    {"GlobalAveragePool", "", 1, global_average, "mean"},
    {"GlobalLpPool", "", 1, global_lp, "norm"},
    {"GlobalMaxPool", "", 1, global_max, "max"},
    {"LpPool", "", 1, lp_pool, "lp_pool"},
    {"MaxPool", "", 1, max_pool, "max_pool"},
    {"MaxUnpool", "", 1, max_unpool, "max_unpool"},
};

}  // namespace sinter::onnx::rows
