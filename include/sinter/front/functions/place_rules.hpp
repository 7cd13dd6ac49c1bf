// front/functions/place_rules.hpp: reads and writes of several elements or ranges at indices, on handles; compiled once.
#pragma once

#include <numeric>

#include "index_rules.hpp"
#include "places.hpp"

namespace sinter::detail {

/// The operands of an op on a GPU: x, then others.
inline std::vector<const handle*> operands_of(std::initializer_list<const handle*> first,
                                              const std::vector<handle>& rest) {
  std::vector<const handle*> all(first);
  for (const handle& h : rest) all.push_back(&h);
  return all;
}
inline std::span<const handle* const> list_of(const std::vector<const handle*>& all) {
  return {all.data(), all.size()};
}

inline dims extents_after(const handle& x, std::size_t axes) {
  return op_shapes::part(x.extents, static_cast<int>(axes), x.extents.rank);
}

SINTER_API place_list places_at(const char* op, const handle& x, std::span<const handle> indices, location at) {
  place_list p;
  for (const handle& i : indices) {
    const auto r = op_shapes::broadcast(p.common, i.extents);
    if (r.error) op_shapes::demand(op, r, at, {p.common, i.extents});
    p.common = r.shape;
  }
  p.shape = op_shapes::joined(p.common, extents_after(x, indices.size()));
  for (const handle& i : indices) p.indices.push_back(views::broadcast(i, p.common, at));
  return p;
}

[[noreturn]] inline void fail_index(const char* op, dim index, dim extent, location at) {
  fail(op,
       "index " + index.text() + " is out of range for an axis of extent " + extent.text() +
           "; indices run from -extent to extent - 1",
       at);
}

SINTER_API void check_number_index(const char* op, const handle& x, int axis, dim index, location at) {
  if (index.is_symbolic()) return;
  const dim n = x.extents[axis], i = index < 0 ? index + n : index;
  if (i < 0 || i >= n) fail_index(op, index, n, at);
}

SINTER_API place_list places_of_range(const handle& x, int axis, dim first, dim last) {
  place_list p;
  p.axis = axis;
  p.range = op_shapes::resolve(x.extents[axis], first, last, 1);
  p.shape = with_extent(x.extents, axis, p.range.count);
  return p;
}

/// Joins the first axes of x, one for each index, into one axis.
inline dims with_one_axis(const handle& x, std::size_t axes) {
  return op_shapes::joined(dims{op_shapes::part(x.extents, 0, static_cast<int>(axes)).numel()}, extents_after(x, axes));
}

/// The strides of x's first axes within the joined axis.
inline dims joined_strides(const handle& x, std::size_t axes) {
  return row_major_strides(op_shapes::part(x.extents, 0, static_cast<int>(axes)));
}

/// The places of elements, in steps of `strides`; user_error for an index out of range.
inline std::vector<std::int64_t> checked_places(const char* op, const handle& x, const place_list& p,
                                                const dims& strides, location at) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(p.common.numel()), 0);
  for (std::size_t k = 0; k < p.indices.size(); ++k) {
    const int axis = static_cast<int>(k);
    const auto one = checked_indices(op, p.indices[k], x.extents[axis], at, true);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += one[i] * strides[axis];
  }
  return all;
}

/// Traced indices as an index of the joined axes. An index out of range is clamped, or gives -1 with `drop`. A single index is unchanged.
inline handle joined_index(const char* op, const handle& x, const place_list& p, bool drop, location at) {
  const dims strides = joined_strides(x, p.indices.size());
  ir::value sum, valid;
  for (std::size_t k = 0; k < p.indices.size(); ++k) {
    const dim extent = x.extents[static_cast<int>(k)];
    check_later(op, p.indices[k], extent, at, true);
    ir::value i = counted(p.indices[k], extent, at);
    if (p.indices.size() == 1) return handle_of(i);
    i = ir::cast(i, dtype::i64);
    const ir::value most = extent_value(i, extent - dim(1), i.extents());
    if (drop) {
      const ir::value inside = ir::bit_and(ir::ge(i, 0.0), ir::le(i, most));
      valid = valid ? ir::bit_and(valid, inside) : inside;
    } else {
      i = ir::maximum(ir::minimum(i, most), 0.0);
    }
    if (strides[static_cast<int>(k)] != 1) i = i * extent_value(i, strides[static_cast<int>(k)], i.extents());
    sum = sum ? sum + i : i;
  }
  return handle_of(drop ? ir::select(valid, sum, -1.0) : sum);
}

SINTER_API handle taken(const char* op, const handle& x, const place_list& p, location at) {
  const std::size_t axes = p.indices.size();
  for (std::size_t k = 0; k < axes; ++k) check_readable(op, x.extents, static_cast<int>(k), p.shape, at);
  if (tracing())
    return push_take(views::reshape(x, with_one_axis(x, axes), at), joined_index(op, x, p, false, at), 0, p.shape, at);
  const auto all = operands_of({&x}, p.indices);
  if (on_gpu(op, list_of(all), at))
    return launch(
        op, list_of(all), std::array{static_cast<std::int64_t>(axes)}, [&] { return taken(op, x, p, at); }, at);
  const dim after = extents_after(x, axes).numel();
  dims rows = op_shapes::part(x.extents, 0, static_cast<int>(axes));
  rows.push(after);
  const handle from = views::reshape(x, rows, at);
  const auto places = checked_places(op, x, p, from.strides, at);
  const handle flat = views::with_layout(from, dims{1, 1, after}, dims{0, 0, from.strides[static_cast<int>(axes)]});
  return copied_rows(op, flat, places, 1, p.shape, at);
}

SINTER_API handle updated(const char* op, const handle& x, const place_list& p, const handle& y, ir::op combiner,
                          location at) {
  const auto fits = op_shapes::broadcast_to(y.extents, p.shape);
  if (fits.error) op_shapes::demand(op, fits, at, {y.extents, p.shape});
  const std::size_t axes = p.indices.size();
  const auto all = operands_of({&x, &y}, p.indices);
  if (!tracing() && on_gpu(op, list_of(all), at))
    return launch(
        op, list_of(all),
        std::array<std::int64_t, 5>{static_cast<std::int64_t>(combiner), p.axis, p.range.start.bits, p.range.count.bits,
                                    static_cast<std::int64_t>(axes)},
        [&] { return updated(op, x, p, y, combiner, at); }, at);
  const handle updates = views::broadcast(y, p.shape, at);
  if (tracing()) {
    const handle base = axes == 0 ? x : views::reshape(x, with_one_axis(x, axes), at);
    handle index;
    if (axes > 0) {
      index = joined_index(op, x, p, true, at);
    } else {
      const ir::value near(engine::current()->graph, node_of(x, at), at);
      const ir::value turn = ir::iota(near, dtype::i64, {engine::to_ir(p.range.count)}, 0);
      index = handle_of(p.range.start == 0 ? turn : turn + extent_value(turn, p.range.start, turn.extents()));
    }
    const handle out = push_scatter(base, index, updates, p.axis, false, combiner, axes == 0, at);
    return views::reshape(out, x.extents, at);
  }
  handle out = contiguous(x, at);
  const handle from = contiguous(updates, at);
  std::vector<std::int64_t> rows;
  around_axis part(with_one_axis(x, axes == 0 ? 0 : axes), 0);
  if (axes > 0) {
    part = around_axis(with_one_axis(x, axes), 0);
    rows = checked_places(op, x, p, joined_strides(x, axes), at);
  } else {
    part = around_axis(x.extents, p.axis);
    rows.resize(static_cast<std::size_t>(p.range.count.bits));
    std::iota(rows.begin(), rows.end(), p.range.start.bits);
  }
  combine_rows(combiner, out, from, rows, part, static_cast<std::int64_t>(rows.size()), false);
  return out;
}

SINTER_API handle element_of_axis(const char* op, const handle& x, int axis, dim index, location at) {
  const dim n = x.extents[axis], i = index < 0 ? index + n : index;
  if (i < 0 || i >= n) fail_index(op, index, n, at);
  return views::reshape(views::slice_axis(x, axis, {i, 1, 1}, at), op_shapes::take(x.extents, dims(0), axis).shape, at);
}

/// Checks that there is one start for each axis, and that the sizes fit.
inline void check_part(const char* op, const handle& x, const handle& starts, const dims& sizes, location at) {
  if (starts.extents[0] != x.extents.rank)
    fail(op,
         "starts are " + text::shape(starts.extents) + " for a tensor of rank " + std::to_string(x.extents.rank) +
             "; give one for each axis",
         at);
  for (int d = 0; d < x.extents.rank; ++d)
    if (sizes[d] < 0 || sizes[d] > x.extents[d])
      fail(op, "a part of " + text::shape(sizes) + " is not in a tensor of " + text::shape(x.extents), at);
}

/// Concrete starts, moved so that the part lies in x.
inline std::vector<op_shapes::range> ranges_of(const handle& x, const handle& starts, const dims& sizes, location at) {
  const handle c = contiguous(starts, at);
  std::vector<op_shapes::range> out;
  for (int d = 0; d < x.extents.rank; ++d) {
    const std::int64_t start = c.type == dtype::i32 ? reinterpret_cast<const std::int32_t*>(c.data)[d]
                                                    : reinterpret_cast<const std::int64_t*>(c.data)[d];
    out.push_back({std::clamp<std::int64_t>(start, 0, (x.extents[d] - sizes[d]).bits), sizes[d], 1});
  }
  return out;
}

/// The places along axis d, i64 of one axis.
inline ir::value places_along(const handle& x, const handle& starts, const dims& sizes, int d, location at) {
  const ir::value all(engine::current()->graph, node_of(starts, at), at);
  const ir::value one = ir::cast(ir::slice(all, {1}, {ir::dim(d)}, {1}), dtype::i64);
  const ir::value start = ir::minimum(ir::maximum(one, 0.0), extent_value(one, x.extents[d] - sizes[d], one.extents()));
  const ir::shape extents{engine::to_ir(sizes[d])};
  return ir::broadcast(start, extents) + ir::iota(one, dtype::i64, extents, 0);
}

SINTER_API handle dynamic_part(const handle& x, const handle& starts, const dims& sizes, location at) {
  check_part("dynamic_slice", x, starts, sizes, at);
  if (!tracing()) {
    if (!on_gpu("dynamic_slice", {&x, &starts}, at)) return views::slice(x, ranges_of(x, starts, sizes, at), at);
    std::vector<std::int64_t> facts;
    for (auto n : sizes) facts.push_back(n.bits);
    return launch(
        "dynamic_slice", operands_of({&x, &starts}, {}), facts, [&] { return dynamic_part(x, starts, sizes, at); }, at);
  }
  handle part = x;
  for (int d = 0; d < x.extents.rank; ++d) {
    if (sizes[d] == x.extents[d]) continue;
    const dims result = with_extent(part.extents, d, sizes[d]);
    if (result.numel() == 0) {
      part = views::slice_axis(part, d, {0, sizes[d], 1}, at);
      continue;
    }
    part = push_take(part, handle_of(places_along(x, starts, sizes, d, at)), d, result, at);
  }
  return part;
}

SINTER_API handle dynamic_update(const handle& x, const handle& update, const handle& starts, location at) {
  const char* const op = "dynamic_update_slice";
  const dims sizes = update.extents;
  check_part(op, x, starts, sizes, at);
  if (!tracing()) {
    if (on_gpu(op, {&x, &update, &starts}, at))
      return launch(
          op, {&x, &update, &starts}, {}, [&] { return dynamic_update(x, update, starts, at); }, at);
    handle out = contiguous(x, at);
    copy_elements(views::slice(out, ranges_of(x, starts, sizes, at), at), update);
    return out;
  }
  int first = x.extents.rank, last = -1;  // of the axes that the update does not fill
  for (int d = 0; d < x.extents.rank; ++d)
    if (sizes[d] != x.extents[d]) first = std::min(first, d), last = d;
  if (last < 0) return update;
  if (first == last) {
    const handle index = handle_of(places_along(x, starts, sizes, last, at));
    return push_scatter(x, index, update, last, false, ir::op::identity, true, at);
  }
  const auto axes = static_cast<std::size_t>(last + 1);
  const dims within = op_shapes::part(sizes, 0, last + 1), strides = joined_strides(x, axes);
  ir::value sum;
  for (int d = 0; d <= last; ++d) {
    ir::value i = places_along(x, starts, sizes, d, at);
    ir::shape one(axes, 1);
    one[static_cast<std::size_t>(d)] = engine::to_ir(sizes[d]);
    if (strides[d] != 1) i = i * extent_value(i, strides[d], i.extents());
    i = ir::broadcast(ir::reshape(i, one), to_ir(within));
    sum = sum ? sum + i : i;
  }
  const handle base = views::reshape(x, with_one_axis(x, axes), at);
  const handle index = views::reshape(handle_of(sum), dims{within.numel()}, at);
  return views::reshape(push_scatter(base, index, update, 0, false, ir::op::identity, true, at), x.extents, at);
}

SINTER_API handle compressed(const handle& x, const handle& mask, int axis, dim size, const handle& fill, location at) {
  const dims result = with_extent(x.extents, axis, size);
  if (tracing()) {
    const ir::value chosen(engine::current()->graph, node_of(mask, at), at);
    const ir::value turn = ir::scan(ir::cast(chosen, dtype::i64), ir::op::add, 0, false) - 1.0;
    const handle base = views::broadcast(fill, result, at), index = handle_of(ir::select(chosen, turn, -1.0));
    return push_scatter(base, index, x, axis, false, ir::op::identity, true, at);
  }
  if (on_gpu("compress", {&x, &mask, &fill}, at))
    return launch(
        "compress", {&x, &mask, &fill}, {axis, size.bits}, [&] { return compressed(x, mask, axis, size, fill, at); },
        at);
  handle out = contiguous(views::broadcast(fill, result, at), at);
  const handle from = contiguous(x, at), chosen = contiguous(mask, at);
  const around_axis part(x.extents, axis);
  const std::int64_t bytes = x.item_bytes() * part.after;
  for (std::int64_t b = 0; b < part.before; ++b)
    for (std::int64_t k = 0, n = 0; k < part.extent && n < size; ++k)
      if (reinterpret_cast<const bool*>(chosen.data)[k])
        std::memcpy(out.data + (b * size + n++) * bytes, from.data + (b * part.extent + k) * bytes,
                    static_cast<std::size_t>(bytes));
  return out;
}

}  // namespace sinter::detail
