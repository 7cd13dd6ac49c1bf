// onnx/gather_rows.hpp: operators that read or write at places: gather, scatter, one-hot, compress, nonzero, unique.
#pragma once

#include <algorithm>
#include <numeric>

#include "reduce_rows.hpp"

namespace sinter::onnx::rows {

inline void gather(call& c) {
  const int axis = axis_of(c.i("axis", 0), c.rank(0));
  const bool known = c.in[1].host != nullptr;
  bool negative = !known;
  if (known)
    for (const dim& d : c.in[1].host->ints) negative = negative || (!d.is_symbolic() && d.bits < 0);
  const node x = c.x(0), index = to_type(c.x(1), dtype::i64);
  // A gather at one known place is a slice.
  if (known && c.in[1].host->ints.size() == 1 && !c.in[1].host->ints[0].is_symbolic()) {
    dim at = c.in[1].host->ints[0];
    const dim n = size_of_axis(x, axis);
    if (at.bits < 0) at = n + at;
    if (at < 0 || at >= n) c.refuse("its index is outside of the axis");
    extents to = extents_of(x);
    to.erase(to.begin() + axis);
    const extents ones(c.in[1].host->shape);
    to.insert(to.begin() + axis, ones.begin(), ones.end());
    return c.give(reshape_to(sliced(x, axis, at, 1), to));
  }
  c.give(taken(x, negative ? from_start(index, size_of_axis(x, axis)) : index, axis));
}

/// x cut to the extents of index, except along the axis.
inline node fitted_to(node x, const extents& index, int axis) {
  for (int a = 0; a < x.rank(); ++a)
    if (a != axis) x = sliced(x, a, 0, index[static_cast<std::size_t>(a)]);
  return x;
}
inline void gather_elements(call& c) {
  const int axis = axis_of(c.i("axis", 0), c.rank(0));
  const node x = c.x(0), index = from_start(c.x(1), size_of_axis(x, axis));
  c.give(ir::gather(fitted_to(x, extents_of(index), axis), index, axis));
}

/// An index into an axis, for gathers: the nearest that the axis has.
inline node clamped_index(const node& index, dim extent) {
  const node last = size_node(extent - 1, dtype::i64);
  return pointwise(op::maximum, pointwise(op::minimum, index, last), integer(0));
}
inline node is_inside(const node& index, dim extent) {
  return pointwise(op::bit_and, pointwise(op::ge, index, integer(0)),
                   pointwise(op::lt, index, size_node(extent, dtype::i64)));
}
/// The row-major places in the first axes of `e`, from the rows of an index (…, k). An index out of range is clamped to its axis;
/// or, if places are written, its place is -1.
inline node linear_places(const node& index, const extents& e, bool written) {
  const int last = index.rank() - 1;
  node at, inside;
  for (std::size_t k = 0; k < e.size(); ++k) {
    extents to = extents_of(index);
    to.pop_back();
    node part = from_start(reshape_to(sliced(index, last, dim(static_cast<std::int64_t>(k)), 1), to), e[k]);
    if (written) inside = inside ? pointwise(op::bit_and, inside, is_inside(part, e[k])) : is_inside(part, e[k]);
    else part = clamped_index(part, e[k]);
    at = at ? plus(times(at, size_node(e[k], dtype::i64)), part) : part;
  }
  return written ? choose(inside, at, integer(-1)) : at;
}
/// The number of axes, after the batch axes, that each row of an index addresses.
inline std::size_t named_axes(call& c, const extents& e, const extents& index, std::size_t batch) {
  const std::int64_t k = index.empty() ? 0 : static_cast<std::int64_t>(index.back());
  if (batch >= index.size() || batch > e.size() || k < 1 || k > static_cast<std::int64_t>(e.size() - batch))
    c.refuse("its index " + text_of(index) + " names no places of " + text_of(e));
  return static_cast<std::size_t>(k);
}
inline void gather_nd(call& c) {
  const node x = c.x(0), index = c.x(1);
  const extents e = extents_of(x), i = extents_of(index);
  const auto batch = static_cast<std::size_t>(c.i("batch_dims", 0)), k = named_axes(c, e, i, batch);
  const extents named = e.from(batch, batch + k);
  const node at = linear_places(index, named, false);
  const dim lanes = product_of(e, 0, batch), places = product_of(i, batch, i.size() - 1),
            rest = product_of(e, batch + k);
  const node flat = reshape_to(x, {lanes, product_of(named), rest});
  const node where = broadcast_to(reshape_to(at, {lanes, places, dim(1)}), {lanes, places, rest});
  extents out(i.begin(), i.end() - 1);
  out.insert(out.end(), e.begin() + static_cast<std::ptrdiff_t>(batch + k), e.end());
  c.give(reshape_to(ir::gather(flat, where, 1), out));
}

inline node scattered(const std::string& how, const node& base, const node& index, const node& updates, int axis) {
  if (how == "add") return ir::scatter_add(base, index, updates, axis);
  if (how == "mul") return ir::scatter(base, index, updates, op::mul, axis);
  if (how == "max") return ir::scatter(base, index, updates, op::maximum, axis);
  if (how == "min") return ir::scatter(base, index, updates, op::minimum, axis);
  return ir::scatter(base, index, updates, op::identity, axis);
}
inline void scatter_nd(call& c) {
  const std::string how = c.s("reduction", "none");
  const node x = c.x(0), index = c.x(1), updates = c.x(2);
  const extents e = extents_of(x), i = extents_of(index);
  const std::size_t k = named_axes(c, e, i, 0);
  const node at = linear_places(index, e.from(0, k), true);
  const dim places = product_of(i, 0, i.size() - 1), rest = product_of(e, k);
  const node flat = reshape_to(x, {product_of(e, 0, k), rest});
  const node where = broadcast_to(reshape_to(at, {places, dim(1)}), {places, rest});
  c.give(reshape_to(scattered(how, flat, where, reshape_to(updates, {places, rest}), 0), e));
}
inline void scatter_elements(call& c) {
  const int axis = axis_of(c.i("axis", 0), c.rank(0));
  const std::string how = c.s("reduction", "none");
  const node x = c.x(0), updates = c.x(2);
  const extents e = extents_of(x);
  const node index = from_start(c.x(1), e[static_cast<std::size_t>(axis)]);
  const extents i = extents_of(index);
  bool same = true;
  for (std::size_t a = 0; a < e.size(); ++a) same = same && (static_cast<int>(a) == axis || e[a] == i[a]);
  if (same) return c.give(scattered(how, x, index, updates, axis));
  node at;
  for (std::size_t a = 0; a < e.size(); ++a) {
    const node part = static_cast<int>(a) == axis ? index : iota(dtype::i64, i, static_cast<int>(a));
    at = at ? plus(times(at, size_node(e[a], dtype::i64)), part) : part;
  }
  at = choose(is_inside(index, e[static_cast<std::size_t>(axis)]), at, integer(-1));
  const dim n = product_of(i);
  c.give(
      reshape_to(scattered(how, reshape_to(x, {product_of(e)}), reshape_to(at, {n}), reshape_to(updates, {n}), 0), e));
}
inline void tensor_scatter(call& c) {
  const node past = c.x(0), update = c.x(1);
  const extents e = extents_of(past), u = extents_of(update);
  const int axis = axis_of(c.i("axis", -2), past.rank());
  const auto a = static_cast<std::size_t>(axis);
  node at = iota(dtype::i64, u, axis);
  if (c.has(2)) {
    extents column(u.size(), dim(1));
    column[0] = u[0];
    at = plus(at, reshape_to(to_type(c.x(2), dtype::i64), column));
  }
  if (c.s("mode", "linear") == "circular") {
    const node n = size_node(e[a], dtype::i64);
    at = pointwise(op::fmod, at, n);
  }
  c.give(ir::scatter(past, at, update, op::identity, axis));
}
inline void one_hot(call& c) {
  dim depth;
  if (is_float(c.host(1).type)) {
    const double deep = c.number(1);
    if (!(deep >= 0 && deep <= 0x1p40)) c.refuse("its depth is " + std::to_string(deep));
    depth = static_cast<std::int64_t>(deep);
  } else {
    const extents given = c.sizes(1);
    if (given.size() != 1 || given[0] < 0 || given[0] > (std::int64_t{1} << 40))
      c.refuse("its depth is " + text_of(given));
    depth = given[0];
  }
  const node values = c.x(2);
  node index = c.x(0);
  const int rank = index.rank() + 1, axis = axis_of(c.i("axis", -1), rank);
  index = to_type(index, dtype::i64);
  index = choose(ir::lt(index, 0.0), plus(index, size_node(depth, dtype::i64)), index);
  extents to = extents_of(index);
  to.insert(to.begin() + axis, depth);
  const node hot = pointwise(op::eq, unsqueezed(index, {axis}), iota(dtype::i64, to, axis));
  const node off = reshape_to(sliced(values, 0, 0, 1), {}), on = reshape_to(sliced(values, 0, 1, 1), {});
  c.give(choose(hot, on, off));
}

inline host_values list_of(const std::vector<std::int64_t>& v) {
  host_values h{dtype::i64, {dim(static_cast<std::int64_t>(v.size()))}, {}, {}};
  for (auto x : v) h.ints.push_back(dim(x));
  return h;
}
/// The places depend on values, so the graph ends here, and the values are read.
inline void compress(call& c) {
  const extents keep = c.sizes(1);
  std::vector<std::int64_t> places;
  for (std::size_t k = 0; k < keep.size(); ++k)
    if (keep[k].bits) places.push_back(static_cast<std::int64_t>(k));
  node x = c.x(0);
  if (!c.has_attribute("axis")) x = reshape_to(x, {product_of(extents_of(x))});
  const int axis = axis_of(c.i("axis", 0), x.rank());
  item at;
  at.host = std::make_shared<const host_values>(list_of(places));
  c.give(places.empty() ? sliced(x, axis, 0, 0) : taken(x, c.im.value(at), axis));
}
inline void nonzero(call& c) {
  const io::array x = c.im.elements(c.given(0));
  const std::size_t rank = x.extents.size();
  std::vector<std::vector<dim>> found(std::max<std::size_t>(rank, 1));
  for (std::int64_t k = 0; k < x.numel(); ++k) {
    const ir::scalar v = element_of(x, k);
    if (v.f == 0 && v.i == 0) continue;
    auto rest = static_cast<std::size_t>(k);
    for (std::size_t a = rank; a-- > 0;) {
      const auto e = static_cast<std::size_t>(x.extents[a]);
      found[a].push_back(dim(static_cast<std::int64_t>(rest % e)));
      rest /= e;
    }
    if (rank == 0) found[0].push_back(dim(0));
  }
  host_values out{dtype::i64,
                  {dim(static_cast<std::int64_t>(found.size())), dim(static_cast<std::int64_t>(found[0].size()))},
                  {},
                  {}};
  for (const auto& f : found) out.ints.insert(out.ints.end(), f.begin(), f.end());
  c.give(0, std::move(out));
}
/// Negative, 0 or positive: the order of two elements of a dtype. NaN follows all other numbers, and equals itself.
inline int ordered(dtype type, const ir::scalar& p, const ir::scalar& q) {
  const auto by = [](const auto& a, const auto& b) { return a < b ? -1 : b < a ? 1 : 0; };
  if (is_unsigned(type)) return by(static_cast<std::uint64_t>(p.i), static_cast<std::uint64_t>(q.i));
  if (!is_float(type)) return by(p.i, q.i);
  return std::isnan(p.f) || std::isnan(q.f) ? by(std::isnan(p.f), std::isnan(q.f)) : by(p.f, q.f);
}
/// Elements of an array at row-major places.
inline item picked(const io::array& x, const std::vector<std::int64_t>& shape, const std::vector<std::size_t>& places) {
  item out;
  const std::size_t each = size_of(x.type);
  io::array y = io::detail::make_array(x.type, shape);
  for (std::size_t k = 0; k < places.size(); ++k) std::memcpy(y.data + k * each, x.data + places[k] * each, each);
  out.x = dynamic_tensor(y);
  return out;
}
inline void unique(call& c) {
  const io::array x = c.im.elements(c.given(0));
  const bool flat = !c.has_attribute("axis"), sorted = c.i("sorted", 1) != 0;
  const int axis = flat ? 0 : axis_of(c.i("axis", 0), static_cast<int>(x.extents.size()));
  const extents e = flat ? extents{dim(x.numel())} : extents(x.extents.begin(), x.extents.end());
  const auto a = static_cast<std::size_t>(axis);
  const auto n = static_cast<std::size_t>(e[a].bits), inner = static_cast<std::size_t>(product_of(e, a + 1).bits),
             outer = static_cast<std::size_t>(product_of(e, 0, a).bits);
  std::vector<ir::scalar> values;
  for (std::int64_t k = 0; k < x.numel(); ++k) values.push_back(element_of(x, k));
  const auto order = [&](std::size_t p, std::size_t q) {
    for (std::size_t o = 0; o < outer; ++o)
      for (std::size_t i = 0; i < inner; ++i)
        if (const int r = ordered(x.type, values[(o * n + p) * inner + i], values[(o * n + q) * inner + i]); r != 0)
          return r;
    return 0;
  };
  std::vector<std::size_t> by(n);
  std::iota(by.begin(), by.end(), std::size_t{0});
  std::stable_sort(by.begin(), by.end(), [&](std::size_t p, std::size_t q) { return order(p, q) < 0; });
  std::vector<std::int64_t> first, inverse(n), counts;
  for (std::size_t k = 0; k < n; ++k) {
    if (k == 0 || order(by[k - 1], by[k]) != 0) {
      first.push_back(static_cast<std::int64_t>(by[k]));
      counts.push_back(0);
    }
    inverse[by[k]] = static_cast<std::int64_t>(first.size()) - 1;
    ++counts.back();
  }
  if (!sorted) {
    std::vector<std::size_t> p(first.size());
    std::iota(p.begin(), p.end(), std::size_t{0});
    std::sort(p.begin(), p.end(), [&](std::size_t i, std::size_t j) { return first[i] < first[j]; });
    std::vector<std::int64_t> place(p.size()), f, k;
    for (std::size_t i = 0; i < p.size(); ++i) {
      place[p[i]] = static_cast<std::int64_t>(i);
      f.push_back(first[p[i]]);
      k.push_back(counts[p[i]]);
    }
    for (auto& i : inverse) i = place[static_cast<std::size_t>(i)];
    first = f;
    counts = k;
  }
  std::vector<std::int64_t> shape(e.begin(), e.end());
  shape[a] = static_cast<std::int64_t>(first.size());
  std::vector<std::size_t> places;
  for (std::size_t o = 0; o < outer; ++o)
    for (auto k : first)
      for (std::size_t i = 0; i < inner; ++i) places.push_back((o * n + static_cast<std::size_t>(k)) * inner + i);
  c.give(0, picked(x, shape, places));
  c.give(1, list_of(first));
  c.give(2, list_of(inverse));
  c.give(3, list_of(counts));
}
inline void reverse_sequence(call& c) {
  const int time = axis_of(c.i("time_axis", 0), c.rank(0)), batch = axis_of(c.i("batch_axis", 1), c.rank(0));
  const node x = c.x(0);
  extents row(static_cast<std::size_t>(x.rank()), dim(1));
  row[static_cast<std::size_t>(batch)] = size_of_axis(x, batch);
  const node length = reshape_to(to_type(c.x(1), dtype::i64), row), at = iota(dtype::i64, extents_of(x), time);
  const node back = minus(length - 1.0, at);
  c.give(ir::gather(x, choose(pointwise(op::lt, at, length), back, at), time));
}

inline const row gathers[] = {
    {"Compress", "", 1, compress, "take, of values that are read"},
    {"Gather", "", 1, gather, "take"},
    {"GatherElements", "", 1, gather_elements, "take_along_axis"},
    {"GatherND", "", 1, gather_nd, "gather_nd"},
    {"NonZero", "", 1, nonzero, "nonzero, of values that are read"},
    {"OneHot", "", 1, one_hot, "iota, select"},
    {"ReverseSequence", "", 1, reverse_sequence, "gather"},
    {"Scatter", "", 1, scatter_elements, "scatter"},
    {"ScatterElements", "", 1, scatter_elements, "scatter"},
    {"ScatterND", "", 1, scatter_nd, "scatter"},
    {"TensorScatter", "", 1, tensor_scatter, "scatter"},
    {"Unique", "", 1, unique, "unique, of values that are read"},
};

}  // namespace sinter::onnx::rows
