// front/functions/index_rules.hpp: reading at indices, on handles; compiled once.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "../../ir/value.hpp"
#include "indexing.hpp"

namespace sinter::detail {

template <class F>
void with_bytes(std::int64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(std::integral_constant<std::size_t, 1>{});
    case 2:
      return f(std::integral_constant<std::size_t, 2>{});
    case 4:
      return f(std::integral_constant<std::size_t, 4>{});
    default:
      return f(std::integral_constant<std::size_t, 8>{});
  }
}

SINTER_API std::vector<std::int64_t> checked_indices(const char* op, const handle& index, std::int64_t extent,
                                                     location at, bool from_end) {
  const handle c = contiguous(index, at);
  std::vector<std::int64_t> out(static_cast<std::size_t>(index.extents.numel()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t given = c.type == dtype::i32 ? reinterpret_cast<const std::int32_t*>(c.data)[i]
                                                    : reinterpret_cast<const std::int64_t*>(c.data)[i];
    out[i] = from_end && given < 0 ? given + extent : given;
    if (out[i] >= 0 && out[i] < extent) continue;
    dims place = index.extents;
    auto rest = static_cast<std::int64_t>(i);
    for (int k = place.rank; k-- > 0; rest /= index.extents[k]) place[k] = rest % index.extents[k];
    fail(op,
         "index " + std::to_string(given) + " at position " + text::shape(place) +
             " is out of range for an axis of extent " + std::to_string(extent) + "; indices run from " +
             (from_end ? "-extent" : "0") + " to extent - 1",
         at);
  }
  return out;
}

SINTER_API void check_later(const char* op, const handle& index, dim extent, location at, bool from_end) {
  engine::tracer& t = *engine::current();
  if (t.checks_indices) t.indices.push_back({op, node_of(index, at), extent, at, from_end});
}

SINTER_API void check_indices(const engine::traced& t) {
  const auto& all = t.graph->indices;
  const engine::captured* x = t.answer->end() - all.size();
  for (const auto& i : all) {
    handle h;
    h.type = x->type;
    for (std::size_t k = 0; k < x->extents.size(); ++k) {
      h.extents.push(x->extents[k]);
      h.strides.push(x->strides[k]);
    }
    h.memory = x->memory;
    h.data = static_cast<std::byte*>(x++->data);
    checked_indices(i.op, h, i.extent, i.where, i.from_end);
  }
}

/// The extent of an axis as an i64 value, of `extents`.
inline ir::value extent_value(const ir::value& near, const dim& n, const ir::shape& extents) {
  ir::graph& g = near.owner();
  const ir::dim extent = engine::to_ir(n);
  if (const auto number = extent.number())
    return {g, g.constant(near.type(), ir::scalar{0, *number}, extents, near.where()), near.where()};
  ir::attributes attr;
  attr.dims = {extent};
  const ir::value one(g, g.push(ir::op::size, {}, std::move(attr), near.where()), near.where());
  return ir::broadcast(ir::reshape(one, ir::shape(extents.size(), 1)), extents);
}

/// Traced indices of an axis of extent n, with negative indices converted to count from 0. The results are i64 if n may exceed the
/// range of i32.
inline ir::value counted(const handle& index, const dim& n, location at) {
  ir::value i(engine::current()->graph, node_of(index, at), at);
  if (!engine::to_ir(n).is_number() || n > std::numeric_limits<std::int32_t>::max()) i = ir::cast(i, dtype::i64);
  if (engine::to_ir(n).is(0)) return i;
  return ir::select(ir::lt(i, 0.0), i + extent_value(i, n, i.extents()), i);
}
inline handle handle_of(const ir::value& v) { return of_node(v.id()); }

SINTER_API void check_readable(const char* op, const dims& x, int axis, const dims& result, location at) {
  // Two questions: the first adds the guard "at least 1" to the trace. The second makes the extent a number for the message.
  if (tracing() && x[axis] < 1 && x[axis] == 0 && result.numel() != 0)
    fail(op, "axis " + std::to_string(axis) + " of " + text::shape(x) + " is empty; test the extent before", at);
}

/// The flat index (k) or a tensor (…) as (before, k, after), repeated along all axes except k.
inline handle spread_index(const handle& index, const around_axis& part, location at) {
  const dim count = index.extents.numel();
  return views::broadcast(views::reshape(index, dims{1, count, 1}, at), dims{part.before, count, part.after}, at);
}

/// Copies rows of x (before, rows…, after); `rows` has the offset of each wanted row.
inline handle copied_rows(const char* op, const handle& from, std::span<const std::int64_t> rows, std::int64_t step,
                          const dims& result, location at) {
  handle out = allocate(op, from.type, result, at);
  const auto count = static_cast<std::int64_t>(rows.size()), bytes = from.item_bytes();
  const std::int64_t before = from.extents[0], after = from.extents[2];
  parallel(before * count, before * count * after, [&](std::int64_t begin, std::int64_t end) {
    with_bytes(bytes, [&](auto size) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t offset = i / count * from.strides[0] + rows[static_cast<std::size_t>(i % count)] * step;
        copy_row<size()>(out.data + i * after * bytes, 1, from.data + offset * bytes, from.strides[2], after);
      }
    });
  });
  return out;
}

inline handle eager_take(const handle& x, const handle& index, int axis, const dims& result, location at) {
  const around_axis part(x.extents, axis);
  const auto rows = checked_indices("take", index, part.extent, at, true);
  const handle from = views::reshape(x, dims{part.before, part.extent, part.after}, at);
  return copied_rows("take", from, rows, from.strides[1], result, at);
}

/// x at clamped indices that count from 0.
inline handle push_take(const handle& x, const handle& index, int axis, const dims& result, location at) {
  const around_axis part(x.extents, axis);
  ir::attributes attr;
  if (x.extents.rank == 1) {
    attr.ints = {0};
    const handle flat = views::reshape(index, dims{index.extents.numel()}, at);
    return views::reshape(push_op(ir::op::gather, {x, flat}, std::move(attr), at), result, at);
  }
  attr.ints = {1};
  const handle from = views::reshape(x, dims{part.before, part.extent, part.after}, at);
  return views::reshape(push_op(ir::op::gather, {from, spread_index(index, part, at)}, std::move(attr), at), result,
                        at);
}

SINTER_API handle take_at(const handle& x, const handle& index, int axis, const dims& result, location at) {
  if (!tracing()) {
    if (!on_gpu("take", {&x, &index}, at)) return eager_take(x, index, axis, result, at);
    return launch(
        "take", {&x, &index}, {axis}, [&] { return take_at(x, index, axis, result, at); }, at);
  }
  const dim extent = x.extents[axis];
  check_later("take", index, extent, at, true);
  return push_take(x, handle_of(counted(index, extent, at)), axis, result, at);
}

SINTER_API handle gather_elements(const handle& x, const handle& index, int axis, location at) {
  if (tracing()) {
    check_later("take_along_axis", index, x.extents[axis], at, true);
    ir::attributes attr;
    attr.ints = {axis};
    return push_op(ir::op::gather, {x, handle_of(counted(index, x.extents[axis], at))}, std::move(attr), at);
  }
  if (on_gpu("take_along_axis", {&x, &index}, at))
    return launch(
        "take_along_axis", {&x, &index}, {axis}, [&] { return gather_elements(x, index, axis, at); }, at);
  const auto at_axis = checked_indices("take_along_axis", index, x.extents[axis], at, true);
  handle out = allocate("take_along_axis", x.type, index.extents, at);
  const int last = index.extents.rank - 1;
  const std::int64_t total = index.extents.numel(), bytes = x.item_bytes(),
                     row = total == 0 ? std::int64_t{1} : std::int64_t{index.extents[last]},
                     read = axis == last ? std::int64_t{0} : std::int64_t{x.strides[last]}, step = x.strides[axis];
  parallel(total / row, total, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::int64_t base = 0, rest = r;
      for (int k = last; k-- > 0; rest /= index.extents[k])
        if (k != axis) base += rest % index.extents[k] * x.strides[k];
      with_bytes(bytes, [&](auto size) {
        for (std::int64_t j = 0; j < row; ++j) {
          const std::int64_t i = r * row + j;
          const std::int64_t from = base + j * read + at_axis[static_cast<std::size_t>(i)] * step;
          std::memcpy(out.data + i * bytes, x.data + from * bytes, size());
        }
      });
    }
  });
  return out;
}

/// Combines x[i] into slot[i].
template <class T>
void combine_row(ir::op combiner, T* slot, const T* x, std::int64_t n) {
  const auto each = [&](auto f) {
    for (std::int64_t i = 0; i < n; ++i) slot[i] = f(slot[i], x[i]);
  };
  if (combiner == ir::op::add) each([](T a, T b) { return vocabulary::apply_row<ir::op::add, T>(a, b); });
  else if (combiner == ir::op::mul) each([](T a, T b) { return vocabulary::apply_row<ir::op::mul, T>(a, b); });
  else if (combiner == ir::op::maximum) each([](T a, T b) { return vocabulary::apply_row<ir::op::maximum, T>(a, b); });
  else each([](T a, T b) { return vocabulary::apply_row<ir::op::minimum, T>(a, b); });
}

/// Rows of `to` (before, extent, after) combined with rows of `from` (before, rows, after), in order. With `along`, `rows` has a
/// number for each element of from.
inline void combine_rows(ir::op combiner, const handle& to, const handle& from, std::span<const std::int64_t> rows,
                         const around_axis& part, std::int64_t count, bool along) {
  const std::int64_t bytes = to.item_bytes(), after = part.after;
  const auto walk = [&](auto&& row) {
    std::int64_t i = 0;
    for (std::int64_t b = 0; b < part.before; ++b)
      for (std::int64_t k = 0; k < count; ++k)
        for (std::int64_t j = 0; j < (along ? after : std::int64_t{1}); ++j, ++i) {
          const std::int64_t r = rows[static_cast<std::size_t>(along ? i : k)];
          row(to.data + ((b * part.extent + r) * after + j) * bytes, from.data + i * (along ? 1 : after) * bytes,
              along ? std::int64_t{1} : after);
        }
  };
  if (combiner == ir::op::identity)
    return walk([&](std::byte* slot, const std::byte* x, std::int64_t n) {
      std::memcpy(slot, x, static_cast<std::size_t>(n * bytes));
    });
  visit_dtype(to.type, [&](auto element) {
    using T = typename decltype(element)::type;
    if constexpr (!vocabulary::is_half<T> && !std::is_same_v<T, bool>)
      walk([&](std::byte* slot, const std::byte* x, std::int64_t n) {
        combine_row(combiner, reinterpret_cast<T*>(slot), reinterpret_cast<const T*>(x), n);
      });
  });
}

/// Indices that count from 0; indices out of range are dropped. `apart`: updates of one element are equal.
inline handle push_scatter(const handle& base, const handle& index, const handle& updates, int axis, bool along,
                           ir::op combiner, bool apart, location at) {
  ir::attributes attr;
  const ir::op code = combiner == ir::op::add ? ir::op::scatter_add : ir::op::scatter;
  attr.ints = {along ? axis : 1};
  if (code == ir::op::scatter) {
    attr.ints.push_back(apart);
    attr.combiner = combiner;
  }
  if (along) return push_op(code, {base, index, updates}, std::move(attr), at);
  const around_axis part(base.extents, axis);
  const handle spread = spread_index(index, part, at);
  const handle rows = views::reshape(base, dims{part.before, part.extent, part.after}, at);
  return views::reshape(push_op(code, {rows, spread, views::reshape(updates, spread.extents, at)}, std::move(attr), at),
                        base.extents, at);
}

SINTER_API handle scatter(const char* op, const handle& base, const handle& index, const handle& updates, int axis,
                          bool along, ir::op combiner, location at) {
  const around_axis part(base.extents, axis);
  if (tracing()) {
    check_later(op, index, part.extent, at, true);
    return push_scatter(base, handle_of(counted(index, part.extent, at)), updates, axis, along, combiner, false, at);
  }
  if (on_gpu(op, {&base, &index, &updates}, at))
    return launch(
        op, {&base, &index, &updates}, {axis, along, static_cast<std::int64_t>(combiner)},
        [&] { return scatter(op, base, index, updates, axis, along, combiner, at); }, at);
  const auto rows = checked_indices(op, index, part.extent, at, true);
  handle out = contiguous(base, at);
  const handle from = contiguous(updates, at);
  const std::int64_t count = along ? std::int64_t{index.extents[axis]} : static_cast<std::int64_t>(rows.size());
  around_axis around = part;
  if (along) around.before = around_axis(index.extents, axis).before;
  combine_rows(combiner, out, from, rows, around, count, along);
  return out;
}

}  // namespace sinter::detail
