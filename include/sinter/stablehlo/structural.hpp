// stablehlo/structural.hpp: moves, reductions, products, gathers, sorts and scans as StableHLO operations.
#pragma once

#include "../ir/counterparts.hpp"
#include "../ir/sliding.hpp"
#include "elementwise.hpp"

namespace sinter::stablehlo::out {

/// A float in which sums and products of `t` are computed.
inline dtype computed(dtype t) { return is_narrow(t) ? dtype::f32 : t; }
/// What convolutions and products take: floats of 8 bits are converted.
inline value factor(builder& b, const value& x) {
  return is_float(x.type) && size_of(x.type) == 1 ? b.convert(x, dtype::f32) : x;
}

inline value counted(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const extents_t to = b.extents(id);
  if (is_integer(n.type) && size_of(n.type) >= 4) return b.iota(n.type, to, n.attr.ints[0]);
  return cast_value(b, b.iota(dtype::i64, to, n.attr.ints[0]), n.type);
}
inline value shaped(builder& b, node_id id) { return b.reshape(b.in(b.at(id), 0), b.extents(id)); }
inline value permuted(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  return b.transpose(b.in(n, 0), {n.attr.ints.begin(), n.attr.ints.end()});
}
inline value spread(builder& b, const value& x, const extents_t& to, const std::vector<std::int64_t>& axes) {
  return b.op("broadcast_in_dim", {x}, x.type, to, "broadcast_dimensions = " + array_text(axes));
}
inline std::vector<std::int64_t> axes_upto(std::size_t rank) {
  std::vector<std::int64_t> out;
  for (std::size_t k = 0; k < rank; ++k) out.push_back(static_cast<std::int64_t>(k));
  return out;
}
inline value widened_to(builder& b, node_id id) {
  const value x = b.in(b.at(id), 0);
  const extents_t to = b.extents(id);
  return x.extents == to ? x : spread(b, x, to, axes_upto(to.size()));
}
inline value reversed(builder& b, const value& x, const std::vector<std::int64_t>& axes) {
  return axes.empty() ? x : b.op("reverse", {x}, x.type, x.extents, "dimensions = " + array_text(axes));
}
/// A negative step is the positive one from the last element, reversed.
inline value sliced(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const std::size_t rank = n.extents.size();
  const extents_t count = b.extents(id);
  extents_t start, step;
  std::vector<std::int64_t> backwards;
  for (std::size_t k = 0; k < rank; ++k) {
    const std::int64_t from = *n.attr.dims[rank + k].number(), by = n.attr.ints[k];
    start.push_back(by < 0 ? from + (count[k] - 1) * by : from);
    step.push_back(by < 0 ? -by : by);
    if (by < 0) backwards.push_back(static_cast<std::int64_t>(k));
    if (count[k] == 1) step[k] = 1;
  }
  const value x = b.in(n, 0);
  const value y = x.extents == count && step == extents_t(rank, 1) ? x : b.slice(x, start, count, step);
  return reversed(b, y, backwards);
}
inline value padded(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const std::size_t rank = n.extents.size();
  extents_t low, high;
  for (std::size_t k = 0; k < rank; ++k) {
    low.push_back(*n.attr.dims[k].number());
    high.push_back(*n.attr.dims[rank + k].number());
  }
  const value x = b.in(n, 0), by = b.constant(n.type, n.attr.literal);
  return b.op("pad", {x, by}, n.type, b.extents(id),
              "edge_padding_high = " + array_text(high) + ", edge_padding_low = " + array_text(low) +
                  ", interior_padding = " + array_text(extents_t(rank, 0)));
}
inline value joined(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  values_t in;
  for (std::size_t k = 0; k < n.in.size(); ++k) {
    value x = b.in(n, k);
    if (!is_empty(x.extents)) in.push_back(std::move(x));
  }
  return in.size() == 1 ? in[0] : b.concatenate(in, n.attr.ints[0]);
}

inline const char* combiner_name(ir::op code) {
  switch (code) {
    case ir::op::mul:
      return "multiply";
    case ir::op::maximum:
      return "maximum";
    case ir::op::minimum:
      return "minimum";
    case ir::op::bit_or:
      return "or";
    case ir::op::bit_and:
      return "and";
    default:
      return "add";
  }
}
template <class Axes>
value reduce_over(builder& b, const value& x, ir::op combiner, const Axes& axes) {
  if (axes.begin() == axes.end()) return x;
  extents_t to;
  for (std::size_t k = 0; k < x.extents.size(); ++k)
    if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(k)) == axes.end()) to.push_back(x.extents[k]);
  const value start = b.constant(x.type, ir::combiner_identity(combiner, x.type));
  return b.op("reduce", {x, start}, x.type, to, "dimensions = " + array_text(axes),
              {b.combining(combiner_name(combiner), x.type)});
}

/// The positions of a window's axes in the image, for operators that slide over every axis of it.
struct placed_window {
  std::vector<std::int64_t> taps, strides, dilations, pads;
  extents_t places;
};
inline placed_window over_all_axes(const ir::sliding& s, const ir::shape& window, std::size_t rank) {
  placed_window out;
  out.taps.assign(rank, 1);
  out.strides = out.dilations = out.taps;
  out.pads.assign(2 * rank, 0);
  out.places.assign(rank, 0);
  for (std::size_t k = 0; k < s.rest.size(); ++k) out.places[s.rest[k]] = *window[s.rest_at[k]].number();
  for (std::size_t k = 0; k < s.spatial.size(); ++k) {
    const std::size_t d = s.spatial[k];
    out.taps[d] = s.taps[k];
    out.strides[d] = s.strides[k];
    out.dilations[d] = s.dilations[k];
    out.pads[2 * d] = s.pads[k];
    out.pads[2 * d + 1] = s.pads[s.spatial.size() + k];
    out.places[d] = *window[s.place[k]].number();
  }
  return out;
}
/// "dense<[[1, 2], [0, 0]]> : tensor<2x2xi64>".
inline std::string padding_text(const std::vector<std::int64_t>& pads) {
  std::string out = "padding = dense<[";
  for (std::size_t k = 0; k < pads.size(); k += 2)
    out += (k ? ", [" : "[") + std::to_string(pads[k]) + ", " + std::to_string(pads[k + 1]) + "]";
  return out + "]> : tensor<" + std::to_string(pads.size() / 2) + "x2xi64>";
}

/// A reduction over the taps of a window as reduce_window; without a name for another reduction.
inline value pooled(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const auto p = ir::as_pool(b.g, id);
  if (!p) return {};
  const ir::sliding& s = p->over;
  const ir::node& window = b.at(n.in[0]);
  const value x = b.convert(b.get(s.image), computed(n.type));
  const std::size_t rank = x.extents.size();
  const placed_window w = over_all_axes(s, window.extents, rank);
  const value start = b.constant(x.type, ir::combiner_identity(n.attr.combiner, x.type));
  const value y =
      b.op("reduce_window", {x, start}, x.type, w.places,
           "base_dilations = " + array_text(std::vector<std::int64_t>(rank, 1)) + ", " + padding_text(w.pads) +
               ", window_dilations = " + array_text(w.dilations) + ", window_dimensions = " + array_text(w.taps) +
               ", window_strides = " + array_text(w.strides),
           {b.combining(combiner_name(n.attr.combiner), x.type)});
  std::vector<std::int64_t> back;  // the image's axes in the order of the window's
  for (std::size_t j = 0; j < window.extents.size(); ++j)
    for (std::size_t d = 0; d < rank; ++d) {
      const auto at = [&](const std::vector<std::size_t>& axes, const std::vector<std::size_t>& of) {
        const auto k = std::find(axes.begin(), axes.end(), d);
        return k != axes.end() && of[static_cast<std::size_t>(k - axes.begin())] == j;
      };
      if (at(s.rest, s.rest_at) || at(s.spatial, s.place)) back.push_back(static_cast<std::int64_t>(d));
    }
  return b.convert(b.transpose(y, back), n.type);
}
inline value reduced(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  if (value pool = pooled(b, id); !pool.name.empty()) return pool;
  const bool rounds = n.attr.combiner == ir::op::add || n.attr.combiner == ir::op::mul;
  const value x = b.in(n, 0);
  const bool widens = is_narrow(n.type) && (rounds || size_of(n.type) == 1);
  return b.convert(reduce_over(b, widens ? b.convert(x, dtype::f32) : x, n.attr.combiner, n.attr.ints), n.type);
}
inline value squares(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const value x = b.convert(b.in(n, 0), dtype::f64);
  return reduce_over(b, b.same("multiply", {x, x}), ir::op::add, n.attr.ints);
}
/// The first place of the extreme, or of NaN.
inline value extreme_place(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const auto axis = n.attr.ints[0];
  value x = b.in(n, 0);
  if (is_narrow(x.type)) x = b.convert(x, dtype::f32);
  const std::vector<std::int64_t> over{axis};
  std::vector<std::int64_t> others = axes_upto(x.extents.size());
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(axis));
  value found = b.compare(x, "EQ", spread(b, reduce_over(b, x, n.attr.combiner, over), x.extents, others));
  if (is_float(x.type)) found = b.same("or", {found, b.compare(x, "NE", x)});
  const value place = b.iota(dtype::i64, x.extents, axis);
  const value end = b.number(static_cast<double>(x.extents[static_cast<std::size_t>(axis)]), place);
  return reduce_over(b, b.select(found, place, end), ir::op::minimum, over);
}

/// A product of windows with weights as a convolution; without a name for another product.
inline value convolved(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const ir::node& window = b.at(n.in[0]);
  const std::size_t rank = window.extents.size(), columns = b.at(n.in[1]).extents.size();
  const auto nk = static_cast<std::size_t>(n.attr.ints[1]), kept = rank - nk;
  if (n.attr.ints[0] != 0 || !is_float(n.type) || columns != nk + 1) return {};
  series<char> is_tap(rank, 0);
  for (std::size_t j = kept; j < rank; ++j) is_tap[j] = 1;
  auto s = ir::as_sliding(b.g, n.in[0], is_tap);
  if (!s || nk != s->spatial.size() + 1 || is_tap[s->rest_at[0]] == is_tap[s->rest_at[1]]) return {};
  if (s->padding && *s->padding != 0) ir::over_padding(b.g, n.in[0], *s);
  const std::size_t channel = is_tap[s->rest_at[0]] ? 0 : 1, spatial = s->spatial.size();
  std::vector<std::string> image(spatial + 2), kernel(spatial + 2), result(kept + 1);
  image[s->rest[1 - channel]] = result[s->rest_at[1 - channel]] = "b";
  image[s->rest[channel]] = result[kept] = "f";
  kernel[s->rest_at[channel] - kept] = "i";
  kernel[nk] = "o";
  std::vector<std::int64_t> pads;
  for (std::size_t k = 0; k < spatial; ++k) {
    image[s->spatial[k]] = kernel[s->tap[k] - kept] = result[s->place[k]] = std::to_string(k);
    pads.push_back(s->pads[k]);
    pads.push_back(s->pads[spatial + k]);
  }
  const auto names = [](const std::vector<std::string>& of) {
    std::string out = "[";
    for (const auto& x : of) out += (out.size() > 1 ? ", " : "") + x;
    return out + "]";
  };
  const std::vector<std::int64_t> ones(spatial, 1);
  const value x = factor(b, b.get(s->image)), w = factor(b, b.in(n, 1));
  const value y =
      b.op("convolution", {x, w}, computed(n.type), b.extents(id),
           "batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<" + names(image) + "x" + names(kernel) +
               "->" + names(result) + ">, feature_group_count = 1 : i64, lhs_dilation = " + array_text(ones) + ", " +
               padding_text(pads) + ", rhs_dilation = " + array_text(s->dilations) +
               ", window_strides = " + array_text(s->strides));
  return b.convert(y, n.type);
}
inline value product(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const extents_t x = b.extents(n.in[0]);
  const auto nb = static_cast<std::size_t>(n.attr.ints[0]), nk = static_cast<std::size_t>(n.attr.ints[1]);
  if (is_empty(x)) return b.constant(n.type, {}, b.extents(id));
  if (value conv = convolved(b, id); !conv.name.empty()) return conv;
  std::vector<std::int64_t> batch, left, right;
  for (std::size_t k = 0; k < nb; ++k) batch.push_back(static_cast<std::int64_t>(k));
  for (std::size_t k = 0; k < nk; ++k) {
    left.push_back(static_cast<std::int64_t>(x.size() - nk + k));
    right.push_back(static_cast<std::int64_t>(nb + k));
  }
  const value p = factor(b, b.in(n, 0)), q = factor(b, b.in(n, 1));
  const value y =
      b.op("dot_general", {p, q}, computed(n.type), b.extents(id),
           "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = " + list_text(batch) +
               ", rhs_batching_dimensions = " + list_text(batch) + ", lhs_contracting_dimensions = " + list_text(left) +
               ", rhs_contracting_dimensions = " + list_text(right) + ">");
  return b.convert(y, n.type);
}

/// The elements of x at the indices along an axis; off the axis extents are equal.
inline value along(builder& b, const value& x, const value& index, std::int64_t axis) {
  std::vector<std::int64_t> others = axes_upto(x.extents.size());
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(axis));
  const std::string axis_text = "[" + std::to_string(axis) + "]", rest = list_text(others);
  return b.op("gather", {x, index}, x.type, index.extents,
              "dimension_numbers = #stablehlo.gather<collapsed_slice_dims = " + axis_text +
                  ", operand_batching_dims = " + rest + ", start_indices_batching_dims = " + rest +
                  ", start_index_map = " + axis_text + ", index_vector_dim = " + std::to_string(x.extents.size()) +
                  ">, indices_are_sorted = false, slice_sizes = " + array_text(extents_t(x.extents.size(), 1)));
}
/// Whole slices of x at a list of indices.
inline value listed(builder& b, const value& x, const value& index, std::int64_t axis) {
  extents_t to = x.extents, sizes = x.extents;
  to[static_cast<std::size_t>(axis)] = index.extents[0];
  sizes[static_cast<std::size_t>(axis)] = 1;
  std::vector<std::int64_t> others = axes_upto(to.size());
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(axis));
  const std::string axis_text = "[" + std::to_string(axis) + "]";
  return b.op("gather", {x, index}, x.type, to,
              "dimension_numbers = #stablehlo.gather<offset_dims = " + list_text(others) +
                  ", collapsed_slice_dims = " + axis_text + ", start_index_map = " + axis_text +
                  ", index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = " + array_text(sizes));
}
inline value gathered(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  if (is_empty(b.extents(n.in[0]))) return b.constant(n.type, {}, b.extents(id));
  if (ir::takes_slices(b.g, n)) {
    const value places = b.get(b.at(n.in[1]).in[0]);
    return listed(b, b.in(n, 0), b.reshape(places, {ir::detail::count_of(places.extents)}), n.attr.ints[0]);
  }
  return along(b, b.in(n, 0), b.in(n, 1), n.attr.ints[0]);
}

/// Updates along an axis, combined by an operation, or replacing elements in any order. Those out of range are dropped.
inline value scatter_by(builder& b, const value& base, const value& index, const value& updates, std::int64_t axis,
                        const char* by, bool unique = false) {
  std::vector<std::int64_t> others = axes_upto(base.extents.size());
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(axis));
  const std::string axis_text = "[" + std::to_string(axis) + "]", rest = list_text(others);
  return b.op("scatter", {base, index, updates}, base.type, base.extents,
              std::string("indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<"
                          "inserted_window_dims = ") +
                  axis_text + ", input_batching_dims = " + rest + ", scatter_indices_batching_dims = " + rest +
                  ", scatter_dims_to_operand_dims = " + axis_text + ", index_vector_dim = " +
                  std::to_string(base.extents.size()) + ">, unique_indices = " + (unique ? "true" : "false"),
              {b.combining(by ? by : "add", base.type, by == nullptr)});
}
/// Of several updates of one element the last one counts: its place is the largest.
inline value last_of_updates(builder& b, const value& base, const value& index, const value& updates,
                             std::int64_t axis) {
  const value place = b.iota(dtype::i64, index.extents, axis);
  const value none = b.constant(dtype::i64, {0, -1}, base.extents);
  const value last = scatter_by(b, none, index, place, axis, "maximum");
  return b.select(b.compare(last, "LT", b.number(0, last)), base, along(b, updates, last, axis));
}
inline value scattered(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const auto axis = n.attr.ints[0];
  value base = b.in(n, 0), updates = b.in(n, 2);
  const value index = b.in(n, 1);
  if (is_empty(index.extents)) return base;
  const bool adds = n.code == ir::op::scatter_add;
  if (!adds && n.attr.combiner == ir::op::identity)
    return n.attr.ints[1] != 0 ? scatter_by(b, base, index, updates, axis, nullptr)
                               : last_of_updates(b, base, index, updates, axis);
  base = b.convert(base, computed(n.type));
  updates = b.convert(updates, computed(n.type));
  const char* const by = combiner_name(adds ? ir::op::add : n.attr.combiner);
  return b.convert(scatter_by(b, base, index, updates, axis, by), n.type);
}

/// The comparison of a stable sort: NaN is last in either direction.
inline std::string precedence(const builder& b, dtype t, bool descending) {
  builder r = b.region();
  const value x{b.all.fresh(), t, {}}, y{b.all.fresh(), t, {}}, i{b.all.fresh(), dtype::i64, {}},
      j{b.all.fresh(), dtype::i64, {}};
  const std::string head = b.header({x, y, i, j});
  value before = r.compare(x, descending ? "GT" : "LT", y);
  if (is_float(t)) before = r.same("or", {before, r.same("and", {r.compare(y, "NE", y), r.compare(x, "EQ", x)})});
  r.finish({before});
  return head + r.lines;
}
inline value order_of(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  value x = b.in(n, 0);
  if (is_narrow(x.type)) x = b.convert(x, dtype::f32);
  const value place = b.iota(dtype::i64, x.extents, n.attr.ints[0]);
  const values_t sorted =
      b.operation("stablehlo.sort", {x, place}, {{"", x.type, x.extents}, {"", dtype::i64, x.extents}},
                  "dimension = " + integer_text(n.attr.ints[0]) + ", is_stable = true",
                  {precedence(b, x.type, n.attr.ints[1] != 0)});
  const std::size_t rank = x.extents.size();
  const extents_t to = b.extents(id);
  return to == x.extents ? sorted[1] : b.slice(sorted[1], extents_t(rank, 0), to, extents_t(rank, 1));
}
/// The bisection of ir/ops/searchsorted.hpp, step by step.
inline value searched(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const auto axis = n.attr.ints[0];
  value sorted = b.in(n, 0), x = b.in(n, 1);
  if (is_narrow(x.type)) sorted = b.convert(sorted, dtype::f32), x = b.convert(x, dtype::f32);
  value low = b.constant(dtype::i64, {}, x.extents);
  if (is_empty(sorted.extents)) return low;
  const auto precedes = [&](const value& p, const value& q) {
    const value less = b.compare(p, "LT", q);
    if (!is_float(p.type)) return less;
    return b.same("or", {less, b.same("and", {b.compare(q, "NE", q), b.compare(p, "EQ", p)})});
  };
  const auto step = [&](std::int64_t look, std::int64_t by) {
    const value at = b.same("add", {low, b.constant(dtype::i64, {0, look}, x.extents)});
    const value other = along(b, sorted, at, axis);
    const value earlier = n.attr.ints[1] != 0 ? b.same("not", {precedes(x, other)}) : precedes(other, x);
    const value further = b.same("add", {low, b.constant(dtype::i64, {0, by}, x.extents)});
    low = b.select(earlier, further, low);
  };
  std::int64_t rest = sorted.extents[static_cast<std::size_t>(axis)];
  for (; rest > 1; rest -= rest / 2) step(rest / 2 - 1, rest / 2);
  step(0, 1);
  return low;
}

/// A part of x along an axis.
inline value part_along(builder& b, const value& x, std::int64_t axis, std::int64_t start, std::int64_t count) {
  extents_t from(x.extents.size(), 0), to = x.extents;
  from[static_cast<std::size_t>(axis)] = start;
  to[static_cast<std::size_t>(axis)] = count;
  return b.slice(x, from, to, extents_t(x.extents.size(), 1));
}
/// Sums and extremes: each round combines an element with the one at twice the distance of the last round.
inline value scanned_in_rounds(builder& b, value x, const char* by, std::int64_t axis) {
  const std::int64_t length = x.extents[static_cast<std::size_t>(axis)];
  for (std::int64_t d = 1; d < length; d *= 2) {
    const value later = part_along(b, x, axis, d, length - d), earlier = part_along(b, x, axis, 0, length - d);
    x = b.concatenate({part_along(b, x, axis, 0, d), b.same(by, {earlier, later})}, axis);
  }
  return x;
}

/// One round of a loop over an axis, by a position that the region receives.
inline value at_position(builder& b, const value& x, const value& position, std::int64_t axis) {
  extents_t sizes = x.extents;
  sizes[static_cast<std::size_t>(axis)] = 1;
  values_t in{x};
  for (std::size_t k = 0; k < sizes.size(); ++k)
    in.push_back(static_cast<std::int64_t>(k) == axis ? position : b.constant(dtype::i64, {}));
  return b.op("dynamic_slice", in, x.type, sizes, "slice_sizes = " + array_text(sizes));
}
inline value with_position(builder& b, const value& x, const value& slice, const value& position, std::int64_t axis) {
  values_t in{x, slice};
  for (std::size_t k = 0; k < x.extents.size(); ++k)
    in.push_back(static_cast<std::int64_t>(k) == axis ? position : b.constant(dtype::i64, {}));
  return b.op("dynamic_update_slice", in, x.type, x.extents);
}
inline values_t parameters_like(builder& b, const values_t& of) {
  values_t out = of;
  for (value& x : out) x.name = b.all.fresh();
  return out;
}
/// The region that tests whether the first parameter is below a number.
inline std::string below(builder& b, const values_t& state, std::int64_t end) {
  builder r = b.region();
  const values_t given = parameters_like(r, state);
  const std::string head = b.header(given);
  r.finish({r.compare(given[0], "LT", r.constant(dtype::i64, {0, end}))});
  return head + r.lines;
}
/// Products, and sums with factors, in order: other orders overflow elsewhere.
inline value scanned_in_order(builder& b, const value& x, const value* by, std::int64_t axis, bool reverse) {
  const std::int64_t length = x.extents[static_cast<std::size_t>(axis)];
  values_t state{b.constant(dtype::i64, {0, 1}), x, x};
  if (by) state.push_back(*by);
  builder r = b.region();
  const values_t given = parameters_like(r, state);
  const std::string head = b.header(given);
  const value one = r.constant(dtype::i64, {0, 1}), last = r.constant(dtype::i64, {0, length - 1});
  const value now = reverse ? r.same("subtract", {last, given[0]}) : given[0];
  const value before = r.same(reverse ? "add" : "subtract", {now, one});
  value next = at_position(r, given[1], before, axis), own = at_position(r, given[2], now, axis);
  if (by) next = r.same("add", {own, r.same("multiply", {at_position(r, given[3], now, axis), next})});
  else next = r.same("multiply", {next, own});
  values_t results = given;
  results[0] = r.same("add", {given[0], one});
  results[1] = with_position(r, given[1], next, now, axis);
  r.finish(results);
  return b.operation("stablehlo.while", state, state, "", {below(b, state, length), head + r.lines})[1];
}
inline value scanned(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const auto axis = n.attr.ints[0];
  const bool reverse = n.attr.ints[1] != 0;
  value x = b.convert(b.in(n, 0), computed(n.type));
  if (n.in.size() > 1 || n.attr.combiner == ir::op::mul) {
    const value by = n.in.size() > 1 ? b.convert(b.in(n, 1), x.type) : value{};
    return b.convert(scanned_in_order(b, x, n.in.size() > 1 ? &by : nullptr, axis, reverse), n.type);
  }
  const std::vector<std::int64_t> turned(reverse ? 1 : 0, axis);
  x = scanned_in_rounds(b, reversed(b, x, turned), combiner_name(n.attr.combiner), axis);
  return b.convert(reversed(b, x, turned), n.type);
}

/// Any window: elements of the flat operand by their places.
inline value windowed(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const value x = b.in(n, 0);
  const std::size_t rank = n.extents.size();
  const extents_t to = b.extents(id), strides = ir::detail::row_major_strides(x.extents);
  std::int64_t offset = 0;
  extents_t steps(rank, 0);
  for (std::size_t d = 0; d < x.extents.size(); ++d) {
    offset += strides[d] * *n.attr.dims[rank + d].number();
    for (std::size_t j = 0; j < rank; ++j) steps[j] += strides[d] * n.attr.ints[d * rank + j];
  }
  value place = b.constant(dtype::i64, {0, offset}, to);
  for (std::size_t j = 0; j < rank; ++j) {
    if (steps[j] == 0 || to[j] == 1) continue;
    const value by = b.constant(dtype::i64, {0, steps[j]}, to);
    const value along_axis = b.iota(dtype::i64, to, static_cast<std::int64_t>(j));
    place = b.same("add", {place, b.same("multiply", {along_axis, by})});
  }
  const value flat = b.reshape(x, {ir::detail::count_of(x.extents)});
  return b.op("gather", {flat, place}, x.type, to,
              "dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], "
              "index_vector_dim = " +
                  std::to_string(rank) + ">, indices_are_sorted = false, slice_sizes = array<i64: 1>");
}
inline value extent_value(builder& b, node_id id) {
  return b.constant(dtype::i64, {0, b.at(id).attr.dims[0].number().value_or(0)});
}

}  // namespace sinter::stablehlo::out
