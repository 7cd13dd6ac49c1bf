// onnx/shape_rows.hpp: operators of shapes and places: reshape, transpose, slice, join, pad, constants.
#pragma once

#include "importer.hpp"

namespace sinter::onnx::rows {

inline host_values integers_of(const extents& values) {
  return {dtype::i64, {dim(static_cast<std::int64_t>(values.size()))}, values, {}};
}

inline void shape(call& c) {
  const extents e = c.shape(0);
  const auto rank = static_cast<std::int64_t>(e.size());
  const auto place = [&](std::int64_t at) { return std::clamp(at < 0 ? at + rank : at, std::int64_t{0}, rank); };
  const std::int64_t first = place(c.i("start", 0)), last = place(c.i("end", rank));
  c.give(0, integers_of(first < last ? extents(e.begin() + first, e.begin() + last) : extents()));
}
inline void size(call& c) { c.give(0, host_values{dtype::i64, {}, {product_of(c.shape(0))}, {}}); }

inline void reshape(call& c) {
  extents to;
  if (c.version < 5 || (!c.has(1) && c.has_attribute("shape")))
    for (auto d : c.list("shape")) to.push_back(dim(d));
  else to = c.sizes(1);
  const extents from = c.shape(0);
  const bool zeros = c.i("allowzero", 0) != 0;
  int open = -1;
  dim known = 1;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (!to[i].is_symbolic() && to[i].bits == 0 && !zeros) {
      if (i >= from.size()) c.refuse("its shape copies axis " + std::to_string(i) + ", which the input lacks");
      to[i] = from[i];
    }
    if (!to[i].is_symbolic() && to[i].bits == -1) open = static_cast<int>(i);
    else known = known * to[i];
  }
  if (open >= 0) {
    const dim all = product_of(from);
    if (!known.is_symbolic() && known.bits == 0) c.refuse("its shape leaves an axis open beside an extent of 0");
    // `/` cancels common factors first, so that the quotient is exact.
    to[static_cast<std::size_t>(open)] = all / known;
  }
  c.give(reshape_to(c.x(0), to));
}
inline void flatten(call& c) {
  const extents e = c.shape(0);
  const std::int64_t a = c.i("axis", 1);
  const auto k = static_cast<std::size_t>(a < 0 ? a + static_cast<std::int64_t>(e.size()) : a);
  if (k > e.size()) c.refuse("its axis is " + std::to_string(a) + " of " + text_of(e));
  c.give(reshape_to(c.x(0), {product_of(e, 0, k), product_of(e, k)}));
}
/// The attribute `axes`, or input k.
inline std::optional<std::vector<std::int64_t>> axes_of(call& c, std::size_t k) {
  if (c.has_attribute("axes")) return c.list("axes");
  if (c.has(k)) return c.integers(k);
  return std::nullopt;
}
inline void squeeze(call& c) {
  const auto axes = axes_of(c, 1);
  const extents e = c.shape(0);
  extents to;
  std::set<int> gone;
  const bool all = !axes || axes->empty();  // runtimes do so, too
  if (!all)
    for (auto a : *axes) gone.insert(axis_of(a, static_cast<int>(e.size())));
  for (std::size_t i = 0; i < e.size(); ++i)
    if (!all ? !gone.count(static_cast<int>(i)) : e[i] != 1) to.push_back(e[i]);
  c.give(reshape_to(c.x(0), to));
}
inline void unsqueeze(call& c) {
  const auto axes = axes_of(c, 1);
  if (!axes) c.refuse("it has no axes");
  const int rank = c.rank(0) + static_cast<int>(axes->size());
  c.give(unsqueezed(c.x(0), ascending_axes(*axes, rank)));
}
inline void transpose(call& c) {
  const int rank = c.rank(0);
  std::vector<int> perm;
  for (auto a : c.list("perm")) perm.push_back(axis_of(a, rank));
  if (!c.has_attribute("perm"))
    for (int i = rank; i-- > 0;) perm.push_back(i);
  c.give(permuted(c.x(0), perm));
}
inline void expand(call& c) {
  const extents to = c.sizes(1);
  c.give(broadcast_to(c.x(0), to));
}
inline void concat(call& c) {
  wire::list_of<node> parts;
  for (std::size_t k = 0; k < c.in.size(); ++k) parts.push_back(c.x(k));
  c.give(joined(parts, axis_of(c.i("axis", 1), parts[0].rank())));
}
inline void split(call& c) {
  const int axis = axis_of(c.i("axis", 0), c.rank(0));
  const dim n = c.shape(0)[static_cast<std::size_t>(axis)];
  extents parts;
  if (c.has_attribute("split"))
    for (auto p : c.list("split")) parts.push_back(dim(p));
  else if (c.has(1)) parts = c.sizes(1);
  else {
    const auto count = static_cast<std::int64_t>(c.n.outputs.size());
    if (count < 1 || c.i("num_outputs", count) != count)
      c.refuse("it is split into another number of parts than it has results");
    const dim each = (n + (count - 1)) / count;
    dim left = n;
    for (std::int64_t k = 0; k < count; ++k) {
      parts.push_back(k + 1 == count ? left : each);
      left = left - each;
    }
  }
  const node x = c.x(0);
  dim at = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    c.give(k, sliced(x, axis, at, parts[k]));
    at = at + parts[k];
  }
}

/// start and count of ONNX's Slice along an axis.
inline void slice_axis(dim n, dim& start, dim end, std::int64_t step, dim& count) {
  const bool open_end = !end.is_symbolic() && end.bits >= (std::int64_t{1} << 31) - 1;
  const bool open_start = !start.is_symbolic() && start.bits >= (std::int64_t{1} << 31) - 1;
  if (step > 0) {
    if (!start.is_symbolic() && start.bits < 0) start = start.bits <= -(std::int64_t{1} << 31) ? dim(0) : n + start;
    if (start.is_symbolic() || start.bits != 0) {
      if (start < 0) start = 0;
      if (open_start || start > n) start = n;
    }
    if (open_end) end = n;
    else if (!end.is_symbolic() && end.bits < 0) {
      end = end.bits <= -(std::int64_t{1} << 31) ? dim(0) : n + end;
      if (end < 0) end = 0;
    } else if (end > n) end = n;
    const dim length = end - start;
    count = length > 0 ? (step == 1 ? length : (length + (step - 1)) / step) : dim(0);
  } else {
    if (open_start) start = n - 1;
    else if (!start.is_symbolic() && start.bits < 0) start = n + start;
    if (start > n - 1) start = n - 1;
    if (!end.is_symbolic() && end.bits < 0) end = end.bits <= -(std::int64_t{1} << 31) ? dim(-1) : n + end;
    if (end < -1) end = -1;
    const dim length = start - end;
    count = start >= 0 && length > 0 ? (length + (-step - 1)) / -step : dim(0);
  }
}
inline void slice(call& c) {
  const extents e = c.shape(0);
  const int rank = static_cast<int>(e.size());
  extents starts, ends;
  std::vector<std::int64_t> axes, steps;
  if (c.version < 10 || (!c.has(1) && c.has_attribute("starts"))) {
    for (auto s : c.list("starts")) starts.push_back(dim(s));
    for (auto s : c.list("ends")) ends.push_back(dim(s));
    axes = c.list("axes");
  } else {
    starts = c.sizes(1);
    ends = c.sizes(2);
    if (c.has(3)) axes = c.integers(3);
    if (c.has(4)) steps = c.integers(4);
  }
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (ends.size() != starts.size() || axes.size() != starts.size() || (!steps.empty() && steps.size() != starts.size()))
    c.refuse("its starts, ends, axes and steps differ in number");
  node x = c.x(0);
  for (std::size_t k = 0; k < starts.size(); ++k) {
    const int axis = axis_of(axes[k], rank);
    const std::int64_t step = steps.empty() ? 1 : steps[k];
    if (step == 0) c.refuse("it has a step of 0");
    dim start = starts[k], count;
    slice_axis(e[static_cast<std::size_t>(axis)], start, ends[k], step, count);
    if (!count.is_symbolic() && count.bits == 0) start = 0;
    x = sliced(x, axis, start, count, count == 0 ? 1 : step);
  }
  c.give(x);
}

/// Known integers. If bits of an integer stand for a size, the integers become elements of a tensor, and cannot be extents.
inline item item_of_integers(std::vector<std::int64_t> shape, const std::vector<std::int64_t>& v) {
  item out;
  if (std::any_of(v.begin(), v.end(), [](std::int64_t x) { return dim(x).is_symbolic(); })) {
    io::array a = io::detail::make_array(dtype::i64, shape);
    std::memcpy(a.data, v.data(), 8 * v.size());
    out.x = dynamic_tensor(a);
  } else {
    const extents e(shape.begin(), shape.end());
    out.host = std::make_shared<const host_values>(host_values{dtype::i64, e, extents(v.begin(), v.end()), {}});
  }
  return out;
}
/// The value of a Constant node.
inline void constant_row(call& c) {
  if (const auto* a = c.attribute("value"); a && a->t) return c.give(0, c.im.tensor(*a->t));
  host_values h;
  if (const auto* a = c.attribute("value_float")) h = {dtype::f32, {}, {}, {static_cast<double>(a->f)}};
  else if (const auto* a2 = c.attribute("value_int")) return c.give(0, item_of_integers({}, {a2->i}));
  else if (const auto* a3 = c.attribute("value_floats")) {
    h = {dtype::f32, {dim(static_cast<std::int64_t>(a3->floats.size()))}, {}, {a3->floats.begin(), a3->floats.end()}};
  } else if (const auto* a4 = c.attribute("value_ints")) {
    return c.give(0, item_of_integers({static_cast<std::int64_t>(a4->ints.size())}, a4->ints));
  } else if (const auto* a5 = c.attribute("sparse_value"); a5 && a5->t) {
    return c.give(0, c.im.tensor(*a5->t));
  } else if (c.has_attribute("value_string") || c.has_attribute("value_strings")) {
    return c.give(0, refused_item("the constant '" + c.n.outputs.at(0) + "' is text, which no tensor holds"));
  } else c.refuse("it has no value");
  c.give(0, std::move(h));
}
inline void constant_of_shape(call& c) {
  const extents e = c.sizes(0);
  dtype type = dtype::f32;
  ir::scalar x;
  if (const auto* a = c.attribute("value"); a && a->t) {
    const io::array one = c.im.elements(c.im.tensor(*a->t));
    if (one.numel() < 1) c.refuse("its value has no element");
    type = one.type;
    x = element_of(one, 0);
  }
  const dim count = product_of(e), whole = x.i;
  const bool few = !count.is_symbolic() && count.bits >= 0 && count.bits <= 64;
  if (!is_float(type) && few && !whole.is_symbolic())
    return c.give(0, host_values{type, e, extents(static_cast<std::size_t>(count.bits), whole), {}});
  c.give(constant_of(type, x, e));
}
/// 0, step, 2·step, …, which wrap like integers of kernels.
inline node counted(dtype type, dim n, std::int64_t step) {
  const node r = iota(type, {n}, 0);
  return step == 1 ? r : times(r, constant_of(type, {0, step}));
}
/// A range whose ends are sizes of later calls.
inline void range_of_sizes(call& c, dtype type) {
  const dim start = c.sizes(0).at(0), limit = c.sizes(1).at(0);
  const auto step = static_cast<std::int64_t>(c.sizes(2).at(0));
  if (step == 0 || step == INT64_MIN) c.refuse("its delta is " + std::to_string(step));
  const dim length = step > 0 ? limit - start : start - limit;
  const std::int64_t by = step > 0 ? step : -step;
  const dim n = length > 0 ? (by == 1 ? length : (length + (by - 1)) / by) : dim(0);
  const node r = counted(type, n, step);
  c.give(start.is_symbolic() || start.bits != 0 ? plus(r, size_node(start, type)) : r);
}
inline void range_of_integers(call& c, dtype type) {
  for (std::size_t k = 0; k < 3; ++k)
    if (c.given(k).host && !c.in[k].host->is_number()) return range_of_sizes(c, type);
  const std::int64_t start = c.scalar(0, type).i, limit = c.scalar(1, type).i, step = c.scalar(2, type).i;
  if (step == 0) c.refuse("its delta is 0");
  const auto bits = [](std::int64_t v) { return static_cast<std::uint64_t>(v); };
  const bool ahead = is_unsigned(type) ? bits(limit) > bits(start) : limit > start,
             down = step < 0 && !is_unsigned(type);
  const std::uint64_t way = down ? bits(start) - bits(limit) : bits(limit) - bits(start),
                      by = down ? 0 - bits(step) : bits(step);
  const std::uint64_t n = start == limit || ahead == down ? 0 : way / by + (way % by != 0);
  if (n >> 63) c.refuse("its length, " + std::to_string(n) + ", is beyond what an extent may be");
  const dim count = static_cast<std::int64_t>(n);
  extents all;
  for (std::uint64_t k = 0; k < n && n <= 256; ++k)
    all.push_back(static_cast<std::int64_t>(bits(start) + k * bits(step)));
  if (n <= 256 && host_values{type, {}, all, {}}.is_number()) return c.give(0, host_values{type, {count}, all, {}});
  const node r = counted(type, count, step);
  c.give(start != 0 ? plus(r, constant_of(type, {0, start})) : r);
}
inline void range(call& c) {
  const dtype type = c.type(0);
  if (!is_float(type)) return range_of_integers(c, type);
  const double start = c.number(0), limit = c.number(1), delta = c.number(2);
  const double n = std::max(0.0, std::ceil((limit - start) / delta));
  if (!(n < 1e12)) c.refuse("its length is no number, or beyond 10^12");
  c.give(to_type(to_type(iota(dtype::i64, {dim(static_cast<std::int64_t>(n))}, 0), dtype::f64) * delta + start, type));
}
/// A diagonal's place. Places beyond all extents are clamped, so that sums with an index do not wrap.
inline node diagonal_at(std::int64_t k) {
  constexpr std::int64_t far = std::int64_t{1} << 62;
  return integer(std::clamp(k, -far, far));
}
inline void eye_like(call& c) {
  const extents e = c.shape(0);
  const dtype type = c.has_attribute("dtype") ? c.type_named("dtype", 1) : c.type(0);
  const node r = plus(iota(dtype::i64, e, 0), diagonal_at(c.i("k", 0)));
  c.give(to_type(pointwise(op::eq, r, iota(dtype::i64, e, 1)), type));
}
inline void trilu(call& c) {
  const std::int64_t k = c.has(1) ? c.scalar(1, dtype::i64).i : 0;
  const node x = c.x(0);
  const extents e = extents_of(x);
  if (e.size() < 2) c.refuse("its input is " + text_of(e) + ", of which no axes are rows and columns");
  const extents last(e.end() - 2, e.end());
  const node column = iota(dtype::i64, last, 1), edge = plus(iota(dtype::i64, last, 0), diagonal_at(k));
  const node kept = c.i("upper", 1) ? pointwise(op::ge, column, edge) : pointwise(op::le, column, edge);
  c.give(choose(kept, x, constant(x.type(), 0)));
}
inline void tile(call& c) {
  const extents e = c.shape(0);
  extents times = c.sizes(1);
  if (c.version < 6 && c.has(2)) {  // the number of repetitions along one axis
    const dim count = times.at(0);
    times.assign(e.size(), dim(1));
    times[static_cast<std::size_t>(axis_of(c.integers(2).at(0), static_cast<int>(e.size())))] = count;
  }
  if (times.size() != e.size()) c.refuse("its repeats are not one for each axis");
  extents apart, wide, out;
  for (std::size_t i = 0; i < e.size(); ++i) {
    apart.insert(apart.end(), {dim(1), e[i]});
    wide.insert(wide.end(), {times[i], e[i]});
    out.push_back(times[i] * e[i]);
  }
  node x = c.x(0);
  for (std::size_t i = e.size(); i-- > 0;) {  // one axis at a time, so that ranks stay small
    extents now = extents_of(x), split = now, to;
    if (!times[i].is_symbolic() && times[i].bits == 1) continue;
    split.insert(split.begin() + static_cast<std::ptrdiff_t>(i), dim(1));
    to = split;
    to[i] = times[i];
    node y = reshape_to(x, split);
    if (times[i] == 0) y = sliced(y, static_cast<int>(i), 0, 0);
    else y = broadcast_to(y, to);
    now[i] = now[i] * times[i];
    x = reshape_to(y, now);
  }
  c.give(x);
}

/// Places along an axis that the padded axis reads.
inline node padded_places(const std::string& mode, dim n, dim low, dim total) {
  const node at = minus(iota(dtype::i64, {total}, 0), size_node(low, dtype::i64));
  const node size = size_node(n, dtype::i64), zero = constant(dtype::i64, 0);
  if (mode == "edge") return pointwise(op::minimum, pointwise(op::maximum, at, zero), size - 1.0);
  const auto modulo = [&](const node& a, const node& b) {
    const node r = pointwise(op::fmod, a, b);
    return choose(pointwise(op::lt, r, zero), plus(r, b), r);
  };
  if (mode == "wrap") return modulo(at, size);
  if (n == 1) return at * 0.0;
  const node period = (size - 1.0) * 2.0;
  const node r = modulo(at, period);
  return pointwise(op::minimum, r, minus(broadcast_to(period, {total}), r));
}
inline void pad(call& c) {
  const int rank = c.rank(0);
  extents pads;
  if (c.version < 11 || (!c.has(1) && c.has_attribute("pads")))
    for (auto p : c.list(c.version < 2 ? "paddings" : "pads")) pads.push_back(dim(p));
  else pads = c.sizes(1);
  std::vector<int> axes = all_axes(rank);
  if (c.has(3)) {
    axes.clear();
    for (auto a : c.integers(3)) axes.push_back(axis_of(a, rank));
  }
  const std::string mode = c.s("mode", "constant");
  ir::scalar fill = ir::scalar::of(c.type(0), c.f("value", 0));
  if (c.version >= 11 && c.has(2)) fill = c.scalar(2, c.type(0));
  node x = c.x(0);
  const std::size_t n = axes.size();
  if (pads.size() != 2 * n) c.refuse("its pads are not two for each axis");
  extents low(static_cast<std::size_t>(rank), dim(0)), high = low;
  for (std::size_t k = 0; k < n; ++k) {
    const int axis = axes[k];
    const auto a = static_cast<std::size_t>(axis);
    dim before = pads[k], after = pads[k + n];
    dim extent = size_of_axis(x, axis);
    if (before < 0) {
      x = sliced(x, axis, dim(0) - before, extent + before);
      extent = extent + before;
      before = 0;
    }
    if (after < 0) {
      x = sliced(x, axis, 0, extent + after);
      extent = extent + after;
      after = 0;
    }
    if (mode == "constant") {
      low[a] = before;
      high[a] = after;
    } else if (before != 0 || after != 0) {
      x = taken(x, padded_places(mode, extent, before, before + extent + after), axis);
    }
  }
  c.give(mode == "constant" ? padded(x, low, high, fill) : x);
}
inline void center_crop_pad(call& c) {
  const extents to = c.sizes(1);
  std::vector<int> axes = all_axes(c.rank(0));
  if (c.has_attribute("axes")) {
    axes.clear();
    for (auto a : c.list("axes")) axes.push_back(axis_of(a, c.rank(0)));
  }
  node x = c.x(0);
  extents low(static_cast<std::size_t>(x.rank()), dim(0)), high = low;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const auto a = static_cast<std::size_t>(axes[k]);
    const dim n = size_of_axis(x, axes[k]), want = to.at(k);
    if (n > want) x = sliced(x, axes[k], (n - want) / 2, want);
    else {
      low[a] = (want - n) / 2;
      high[a] = want - n - low[a];
    }
  }
  c.give(padded(x, low, high, 0));
}
/// Images without their borders (left, top, right, bottom), or cut to a size: an experimental operator of the first versions.
inline void crop(call& c) {
  const node x = c.x(0);
  const extents e = extents_of(x);
  const auto border = c.list("border"), size = c.list("scale");
  if (e.size() != 4 || border.size() != 4 || (!size.empty() && size.size() != 2))
    c.refuse("its image is " + text_of(e) + ", with " + std::to_string(border.size()) + " borders");
  node y = x;
  for (const int a : {0, 1}) {
    const auto k = static_cast<std::size_t>(a);
    const dim n = e[k + 2], first = border[1 - k], rest = n - first - border[3 - k];
    y = sliced(y, a + 2, first, size.empty() ? rest : dim(size[k]));
  }
  c.give(y);
}
inline void depth_to_space(call& c) {
  const node x = c.x(0);
  const extents e = extents_of(x);
  const dim b = c.i("blocksize", 1);
  if (b < 1 || e.size() != 4) c.refuse("its blocks are " + b.text() + " of " + text_of(e));
  const dim d = e[1] / (b * b);
  if (c.s("mode", "DCR") == "DCR") {
    const node y = permuted(reshape_to(x, {e[0], b, b, d, e[2], e[3]}), {0, 3, 4, 1, 5, 2});
    return c.give(reshape_to(y, {e[0], d, e[2] * b, e[3] * b}));
  }
  const node y = permuted(reshape_to(x, {e[0], d, b, b, e[2], e[3]}), {0, 1, 4, 2, 5, 3});
  c.give(reshape_to(y, {e[0], d, e[2] * b, e[3] * b}));
}
inline void space_to_depth(call& c) {
  const node x = c.x(0);
  const extents e = extents_of(x);
  const dim b = c.i("blocksize", 1);
  if (b < 1 || e.size() != 4) c.refuse("its blocks are " + b.text() + " of " + text_of(e));
  const node y = permuted(reshape_to(x, {e[0], e[1], e[2] / b, b, e[3] / b, b}), {0, 3, 5, 1, 2, 4});
  c.give(reshape_to(y, {e[0], e[1] * b * b, e[2] / b, e[3] / b}));
}

inline const row shapes[] = {
    {"CenterCropPad", "", 1, center_crop_pad, "slice, pad"},
    {"Concat", "", 1, concat, "concat"},
    {"Constant", "", 1, constant_row, "a captured tensor"},
    {"ConstantOfShape", "", 1, constant_of_shape, "a constant"},
    {"Crop", "", 1, crop, "slice"},
    {"DepthToSpace", "", 1, depth_to_space, "reshape, permute"},
    {"Expand", "", 1, expand, "broadcast"},
    {"EyeLike", "", 1, eye_like, "iota"},
    {"Flatten", "", 1, flatten, "reshape"},
    {"Pad", "", 1, pad, "pad, or a gather"},
    {"Range", "", 1, range, "iota"},
    {"Reshape", "", 1, reshape, "reshape"},
    {"Shape", "", 1, shape, "sizes, folded"},
    {"Size", "", 1, size, "a size, folded"},
    {"Slice", "", 1, slice, "slice"},
    {"SpaceToDepth", "", 1, space_to_depth, "reshape, permute"},
    {"Split", "", 1, split, "slice"},
    {"Squeeze", "", 1, squeeze, "reshape"},
    {"Tile", "", 1, tile, "broadcast"},
    {"Transpose", "", 1, transpose, "permute"},
    {"Trilu", "", 1, trilu, "select"},
    {"Unsqueeze", "", 1, unsqueeze, "reshape"},
};

}  // namespace sinter::onnx::rows
