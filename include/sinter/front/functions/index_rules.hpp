// front/functions/index_rules.hpp: reading at indices, on handles; compiled once.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

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
                                                     location at) {
  const handle c = contiguous(index, at);
  std::vector<std::int64_t> out(static_cast<std::size_t>(index.extents.numel()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = c.type == dtype::i32 ? reinterpret_cast<const std::int32_t*>(c.data)[i]
                                  : reinterpret_cast<const std::int64_t*>(c.data)[i];
    if (out[i] >= 0 && out[i] < extent) continue;
    dims place = index.extents;
    auto rest = static_cast<std::int64_t>(i);
    for (int k = place.rank; k-- > 0; rest /= index.extents[k]) place[k] = rest % index.extents[k];
    fail(op,
         "index " + std::to_string(out[i]) + " at position " + text::shape(place) +
             " is out of range for an axis of extent " + std::to_string(extent) + "; indices run from 0 to extent - 1",
         at);
  }
  return out;
}

SINTER_API void check_later(const char* op, const handle& index, dim extent, location at) {
  engine::tracer& t = *engine::current();
  if (t.checks_indices) t.indices.push_back({op, node_of(index, at), extent, at});
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
    checked_indices(i.op, h, i.extent, i.where);
  }
}

SINTER_API void check_readable(const char* op, const dims& x, int axis, const dims& result, location at) {
  // Asked twice: "at least 1" is what the trace knows of the axis afterwards, and 0 makes it a number for the message.
  if (tracing() && x[axis] < 1 && x[axis] == 0 && result.numel() != 0)
    fail(op, "axis " + std::to_string(axis) + " of " + text::shape(x) + " is empty; test the extent before", at);
}

SINTER_API handle spread_index(const handle& index, const around_axis& part, location at) {
  const dim count = index.extents.numel();
  return views::broadcast(views::reshape(index, dims{1, count, 1}, at), dims{part.before, count, part.after}, at);
}

inline handle eager_take(const handle& x, const handle& index, int axis, const dims& result, location at) {
  const around_axis part(x.extents, axis);
  const auto rows = checked_indices("take", index, part.extent, at);
  const handle from = views::reshape(x, dims{part.before, part.extent, part.after}, at);
  handle out = allocate("take", x.type, result, at);
  const auto count = static_cast<std::int64_t>(rows.size()), bytes = x.item_bytes();
  parallel(part.before * count, part.before * count * part.after, [&](std::int64_t begin, std::int64_t end) {
    with_bytes(bytes, [&](auto size) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t offset =
            i / count * from.strides[0] + rows[static_cast<std::size_t>(i % count)] * from.strides[1];
        copy_row<size()>(out.data + i * part.after * bytes, 1, from.data + offset * bytes, from.strides[2], part.after);
      }
    });
  });
  return out;
}

SINTER_API handle take_at(const handle& x, const handle& index, int axis, const dims& result, location at) {
  if (!tracing()) {
    if (!on_gpu("take", {&x, &index}, at)) return eager_take(x, index, axis, result, at);
    return launch(
        "take", {&x, &index}, {axis}, [&] { return take_at(x, index, axis, result, at); }, at);
  }
  const around_axis part(x.extents, axis);
  check_later("take", index, part.extent, at);
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

SINTER_API handle gather_elements(const handle& x, const handle& index, int axis, location at) {
  if (tracing()) {
    check_later("take_along_axis", index, x.extents[axis], at);
    ir::attributes attr;
    attr.ints = {axis};
    return push_op(ir::op::gather, {x, index}, std::move(attr), at);
  }
  if (on_gpu("take_along_axis", {&x, &index}, at))
    return launch(
        "take_along_axis", {&x, &index}, {axis}, [&] { return gather_elements(x, index, axis, at); }, at);
  const auto at_axis = checked_indices("take_along_axis", index, x.extents[axis], at);
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

}  // namespace sinter::detail
