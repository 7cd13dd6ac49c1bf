// front/evaluate/view_rules.hpp: movement on handles; compiled once.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "../../ir/ops/window_transpose.hpp"
#include "views.hpp"

namespace sinter::detail::views {

SINTER_API handle with_layout(const handle& x, const dims& extents, const dims& strides, std::int64_t offset) {
  handle v = x;
  v.extents = extents;
  v.strides = strides;
  v.data += offset * x.item_bytes();
  return v;
}

SINTER_API std::optional<dims> reshaped_strides(const handle& x, const dims& to) {
  if (to.numel() == 0) return row_major_strides(to);
  dims from, steps;  // without axes of extent 1
  for (int i = 0; i < x.extents.rank; ++i) {
    if (x.extents[i] == 1) continue;
    from.push(x.extents[i]);
    steps.push(x.strides[i]);
  }
  dims strides = row_major_strides(to);
  int i = 0;
  for (int j = 0; j < to.rank;) {
    if (to[j] == 1) {
      ++j;
      continue;
    }
    // Groups of axes with equal element counts: source [i, i_end) becomes target [j, j_end).
    int i_end = i + 1, j_end = j + 1;
    std::int64_t source = from[i], target = to[j];
    while (source != target) {
      if (source < target) source *= from[i_end++];
      else target *= to[j_end++];
    }
    for (int a = i; a + 1 < i_end; ++a)
      if (steps[a] != steps[a + 1] * from[a + 1]) return std::nullopt;
    std::int64_t step = steps[i_end - 1];
    for (int b = j_end; b-- > j; step *= to[b]) strides[b] = step;
    i = i_end;
    j = j_end;
  }
  return strides;
}

SINTER_API handle reshape(const handle& x, const dims& to, location at) {
  if (tracing()) {
    ir::attributes attr;
    attr.dims = to_ir(to);
    if (attr.dims == to_ir(x.extents)) return x;  // open extents are not compared for equality
    return push_op(ir::op::reshape, {x}, std::move(attr), at);
  }
  if (x.extents == to) return x;
  if (const auto strides = reshaped_strides(x, to)) return with_layout(x, to, *strides);
  return with_layout(contiguous(x, at), to, row_major_strides(to));
}

SINTER_API handle permute(const handle& x, const op_shapes::axis_list& perm, location at) {
  bool moves = false;
  for (int i = 0; i < perm.count; ++i) moves |= perm[i] != i;
  if (!moves) return x;
  if (tracing()) {
    ir::attributes attr;
    attr.ints = series<std::int64_t>(perm.begin(), perm.end());
    return push_op(ir::op::permute, {x}, std::move(attr), at);
  }
  dims extents, strides;
  for (int a : perm) {
    extents.push(x.extents[a]);
    strides.push(x.strides[a]);
  }
  return with_layout(x, extents, strides);
}

SINTER_API handle transpose(const handle& x, location at) {
  auto perm = op_shapes::all_axes(x.extents.rank);
  std::swap(perm.at[perm.count - 1], perm.at[perm.count - 2]);
  return permute(x, perm, at);
}

SINTER_API handle broadcast(const handle& x, const dims& to, location at) {
  if (x.extents == to) return x;
  if (tracing()) {
    const auto id = push_broadcast(engine::current()->graph, node_of(x, at), x.extents.extent, x.extents.rank,
                                   to.extent, to.rank, at);
    return of_node(id);
  }
  op_shapes::demand("broadcast_to", op_shapes::broadcast_to(x.extents, to), at, {x.extents, to});
  dims strides(to.rank);
  for (int i = 0; i < to.rank; ++i) {
    const int j = i - (to.rank - x.extents.rank);
    strides[i] = j < 0 || x.extents[j] != to[i] ? dim(0) : x.strides[j];
  }
  return with_layout(x, to, strides);
}

SINTER_API handle slice(const handle& x, std::span<const op_shapes::range> ranges, location at) {
  dims extents, starts, strides;
  std::vector<std::int64_t> steps;
  dim offset = 0;
  for (int i = 0; i < x.extents.rank; ++i) {
    const auto& r = ranges[static_cast<std::size_t>(i)];
    extents.push(r.count);
    starts.push(r.count == 0 ? dim(0) : r.start);
    // An axis of at most one element accepts any step, and a huge step must not overflow.
    steps.push_back(r.count > 1 ? r.step : 1);
    strides.push(x.strides[i] * steps.back());
    offset += starts[i] * x.strides[i];
  }
  if (extents.numel() == 0) offset = 0;
  if (tracing()) {
    ir::attributes attr;
    attr.dims = to_ir(extents);
    for (auto s : starts) attr.dims.push_back(engine::to_ir(s));
    attr.ints = steps;
    return push_op(ir::op::slice, {x}, std::move(attr), at);
  }
  return with_layout(x, extents, strides, offset);
}

/// The ranges of whole axes, which the caller narrows.
inline std::vector<op_shapes::range> whole(const dims& extents) {
  std::vector<op_shapes::range> ranges;
  for (auto e : extents) ranges.push_back({0, e, 1});
  return ranges;
}

SINTER_API handle slice_axis(const handle& x, int axis, const op_shapes::range& r, location at) {
  auto ranges = whole(x.extents);
  ranges[static_cast<std::size_t>(axis)] = r;
  return slice(x, ranges, at);
}

SINTER_API handle flip(const handle& x, const op_shapes::axis_list& axes, location at) {
  auto ranges = whole(x.extents);
  for (int a : axes)
    if (x.extents[a] > 0) ranges[static_cast<std::size_t>(a)] = {x.extents[a] - 1, x.extents[a], -1};
  return slice(x, ranges, at);
}

SINTER_API handle stack(std::span<const handle> parts, int axis, location at) {
  std::vector<handle> rows;
  for (const auto& p : parts) {
    if (p.extents != parts[0].extents)
      op_shapes::demand("stack", op_shapes::refuse("the extents differ", "pad or slice to equal extents"), at,
                        {parts[0].extents, p.extents});
    rows.push_back(reshape(p, op_shapes::expand_dims(p.extents, axis).shape, at));
  }
  return concat(rows, axis, at.in("stack"));
}

SINTER_API handle concat(std::span<const handle> parts, int axis, location at) {
  std::vector<dims> shapes;
  for (const auto& p : parts) shapes.push_back(p.extents);
  const auto r = op_shapes::concat(shapes, axis);
  if (r.error) {
    const auto join = text::join(shapes, ", ", [](const dims& d) { return text::shape(d); });
    fail("concat", std::string(r.error) + ": the operands are " + join + "; " + r.hint, at);
  }
  if (tracing()) {
    std::vector<ir::node_id> ids;
    for (const auto& p : parts) ids.push_back(node_of(p, at));
    ir::attributes attr;
    attr.ints = {axis};
    return of_node(engine::current()->graph.push(ir::op::concat, ids, std::move(attr), at));
  }
  std::vector<const handle*> operands;
  for (const auto& p : parts) operands.push_back(&p);
  const std::int64_t facts[] = {axis};
  if (on_gpu("concat", operands, at))
    return launch(
        "concat", operands, facts, [&] { return concat(parts, axis, at); }, at);
  handle out = allocate("concat", parts[0].type, r.shape, at);
  std::int64_t done = 0;
  for (const auto& p : parts) {
    copy_elements(with_layout(out, p.extents, out.strides, done * out.strides[axis]), p);
    done += p.extents[axis];
  }
  return out;
}

/// x padded with `attr.literal`, whose value may differ between calls of a trace.
inline handle padded_with_scalar(const handle& x, ir::attributes attr, const dims& extents, location at) {
  engine::tracer& t = *engine::current();
  const ir::node_id number =
      push_constant(t, x.type, std::exchange(attr.literal, {}), extents.begin(), extents.rank, at);
  const handle inside = of_node(t.graph.constant(dtype::b8, ir::scalar{0, 1}, to_ir(x.extents), at));
  return push_op(ir::op::select,
                 {push_op(ir::op::pad, {inside}, attr, at), push_op(ir::op::pad, {x}, attr, at), of_node(number)}, {},
                 at);
}

SINTER_API handle pad(const handle& x, const dims& low, const dims& high, ir::scalar literal, const void* value,
                      bool fixed, location at) {
  dims extents;
  std::int64_t offset = 0;
  for (int i = 0; i < x.extents.rank; ++i) extents.push(low[i] + x.extents[i] + high[i]);
  if (tracing()) {
    ir::attributes attr;
    attr.dims = to_ir(low);
    for (auto e : high) attr.dims.push_back(engine::to_ir(e));
    attr.literal = literal;
    if (!fixed && is_float(x.type) && engine::current()->follows_scalars())
      return padded_with_scalar(x, std::move(attr), extents, at);
    return push_op(ir::op::pad, {x}, std::move(attr), at);
  }
  if (on_gpu("pad", {&x}, at)) {
    const handle* const operands[] = {&x};
    std::vector<std::int64_t> facts{std::bit_cast<std::int64_t>(literal.f), literal.i};
    facts.insert(facts.end(), as_numbers(low.begin()), as_numbers(low.end()));
    facts.insert(facts.end(), as_numbers(high.begin()), as_numbers(high.end()));
    return launch(
        "pad", operands, facts, [&] { return pad(x, low, high, literal, value, fixed, at); }, at);
  }
  handle out = allocate("pad", x.type, extents, at);
  handle fill = out;
  fill.data = static_cast<std::byte*>(const_cast<void*>(value));
  fill.strides = dims(extents.rank);
  for (int i = 0; i < extents.rank; ++i) {
    fill.strides[i] = 0;
    offset += low[i] * out.strides[i];
  }
  copy_elements(out, fill);
  if (x.extents.numel() > 0) copy_elements(with_layout(out, x.extents, out.strides, offset), x);
  return out;
}

/// The strides and the offset of x for a window's elements.
inline std::int64_t window_strides(const dims& of, const dims& starts, std::span<const std::int64_t> factors,
                                   dims& strides) {
  const auto rank = static_cast<std::size_t>(strides.rank);
  std::int64_t offset = 0;
  for (int j = 0; j < strides.rank; ++j) strides[j] = 0;
  for (int d = 0; d < of.rank; ++d) {
    offset += starts[d] * of[d];
    for (int j = 0; j < strides.rank; ++j)
      strides[j] += of[d] * factors[static_cast<std::size_t>(d) * rank + static_cast<std::size_t>(j)];
  }
  return offset;
}

SINTER_API handle window(const handle& x, const dims& extents, const dims& starts,
                         std::span<const std::int64_t> factors, location at) {
  if (tracing()) {
    ir::attributes attr;
    attr.dims = to_ir(extents);
    for (auto s : starts) attr.dims.push_back(engine::to_ir(s));
    attr.ints.assign(factors.begin(), factors.end());
    return push_op(ir::op::window, {x}, std::move(attr), at);
  }
  dims strides(extents.rank);
  const std::int64_t offset = window_strides(x.strides, starts, factors, strides);
  return with_layout(x, extents, strides, extents.numel() == 0 ? 0 : offset);
}

/// to[…] += from[…] over `extents`, the elements of type T, the sums in S.
template <class T, class S>
void add_elements(S* to, const dims& to_strides, const T* from, const dims& strides, const dims& extents, int axis) {
  if (axis == extents.rank) {
    if constexpr (std::is_integral_v<S>)
      *to = static_cast<S>(static_cast<std::uint64_t>(*to) + static_cast<std::uint64_t>(*from));
    else *to += static_cast<S>(*from);
    return;
  }
  for (std::int64_t i = 0, n = extents[axis]; i < n; ++i)
    add_elements(to + i * to_strides[axis], to_strides, from + i * strides[axis], strides, extents, axis + 1);
}

/// to += from, where `from` has the axes of a window of `to`. Both have one dtype; `to` is contiguous.
SINTER_API void add_windows(const handle& to, const handle& from, const dims& starts,
                            std::span<const std::int64_t> factors) {
  if (from.extents.numel() == 0) return;
  dims strides(from.extents.rank);
  const std::int64_t offset = window_strides(to.strides, starts, factors, strides);
  const auto add = [&]<class T>(T*) {
    add_elements(reinterpret_cast<T*>(to.data) + offset, strides, reinterpret_cast<const T*>(from.data), from.strides,
                 from.extents, 0);
  };
  const auto add_rounded = [&]<class T>(T*) {
    T* const end = reinterpret_cast<T*>(to.data);
    const std::int64_t n = to.extents.numel();
    std::vector<float> sums(end, end + n);
    add_elements(sums.data() + offset, strides, reinterpret_cast<const T*>(from.data), from.strides, from.extents, 0);
    for (std::int64_t i = 0; i < n; ++i) end[i] = static_cast<T>(sums[static_cast<std::size_t>(i)]);
  };
  switch (to.type) {
    case dtype::f8_e4m3:
      return add_rounded(static_cast<f8_e4m3*>(nullptr));
    case dtype::f8_e5m2:
      return add_rounded(static_cast<f8_e5m2*>(nullptr));
    case dtype::f16:
      return add_rounded(static_cast<f16*>(nullptr));
    case dtype::bf16:
      return add_rounded(static_cast<bf16*>(nullptr));
    case dtype::f32:
      return add(static_cast<float*>(nullptr));
    case dtype::f64:
      return add(static_cast<double*>(nullptr));
    default:
      break;
  }
  switch (size_of(to.type)) {
    case 1:
      return add(static_cast<std::uint8_t*>(nullptr));
    case 2:
      return add(static_cast<std::uint16_t*>(nullptr));
    case 4:
      return add(static_cast<std::uint32_t*>(nullptr));
    default:
      return add(static_cast<std::uint64_t*>(nullptr));
  }
}

SINTER_API handle unwindow(const handle& y, const dims& extents, const dims& starts,
                           std::span<const std::int64_t> factors, location at) {
  if (tracing()) {
    ir::shape start = to_ir(starts);
    const ir::value x = ir::ops::window_transpose({engine::current()->graph, node_of(y, at), at}, to_ir(extents), start,
                                                  series<std::int64_t>(factors.begin(), factors.end()));
    return of_node(x.id());
  }
  if (on_gpu("fold", {&y}, at)) {
    std::vector<std::int64_t> facts(factors.begin(), factors.end());
    facts.insert(facts.end(), as_numbers(extents.begin()), as_numbers(extents.end()));
    facts.insert(facts.end(), as_numbers(starts.begin()), as_numbers(starts.end()));
    const handle* const operands[] = {&y};
    return launch(
        "fold", operands, facts, [&] { return unwindow(y, extents, starts, factors, at); }, at);
  }
  handle out = allocate("fold", y.type, extents, at);
  std::memset(out.data, 0, static_cast<std::size_t>(extents.numel() * out.item_bytes()));
  add_windows(out, y, starts, factors);
  return out;
}

SINTER_API handle diagonal(const handle& x, int i, int j, location at) {
  const int rank = x.extents.rank;
  op_shapes::axis_list last;
  for (int a = 0; a < rank; ++a)
    if (a != i && a != j) last.at[last.count++] = a;
  for (int a : {i, j}) last.at[last.count++] = a;
  handle y = permute(x, last, at);
  const dim n = y.extents[rank - 1];
  const dims before = op_shapes::part(y.extents, 0, rank - 2);
  if (!tracing()) {
    dims strides = op_shapes::part(y.strides, 0, rank - 1);
    strides[rank - 2] += y.strides[rank - 1];
    y = with_layout(y, op_shapes::joined(before, dims{n}), strides);
  } else {
    // In rows of n + 1 the diagonal is the first column.
    static constexpr std::uint64_t zero = 0;
    dims high(rank - 1);
    for (int a = 0; a < rank - 1; ++a) high[a] = 0;
    y = reshape(y, op_shapes::joined(before, dims{n * n}), at);
    const dims low = high;
    high[rank - 2] = n;
    y = reshape(pad(y, low, high, {}, &zero, true, at), op_shapes::joined(before, dims{n, n + 1}), at);
    y = reshape(slice_axis(y, rank - 1, {0, 1, 1}, at), op_shapes::joined(before, dims{n}), at);
  }
  op_shapes::axis_list back;
  for (int a = 0; a < rank - 1; ++a) back.at[back.count++] = a < i ? a : a == i ? rank - 2 : a - 1;
  return permute(y, back, at);
}

SINTER_API handle joined_axes(const handle& x, int from, int to, location at) {
  dims d = op_shapes::part(x.extents, 0, from);
  d.push(op_shapes::part(x.extents, from, to).numel());
  for (int i = to; i < x.extents.rank; ++i) d.push(x.extents[i]);
  if (const auto strides = reshaped_strides(x, d)) return with_layout(x, d, *strides);
  return with_layout(contiguous(x, at), d, row_major_strides(d));
}

SINTER_API std::int64_t batch_offset(const handle& x, int axes, std::int64_t i) {
  std::int64_t offset = 0;
  for (int k = axes; k-- > 0; i /= x.extents[k]) offset += i % x.extents[k] * x.strides[k];
  return offset;
}

}  // namespace sinter::detail::views
