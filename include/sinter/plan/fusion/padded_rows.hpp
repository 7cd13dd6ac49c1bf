// plan/fusion/padded_rows.hpp: how intermediates lie: rows that products read or write begin where their loads are aligned.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "../kernel/root.hpp"
#include "../kernel/target.hpp"

namespace sinter::engine::plan {

/// Longer rows begin at cache lines.
inline constexpr std::int64_t long_row = 4 << 10, cache_line = 128;

namespace detail {

/// The strides of an array whose rows are padded; none where they need no padding.
inline series<dim> padded_strides(const ir::node& v, const row_padding& how) {
  const std::size_t rank = v.extents.size();
  const auto size = static_cast<std::int64_t>(size_of(v.type));
  std::int64_t elements = 1;
  for (const dim& e : v.extents)
    if (const auto n = e.number(); !n || *n < 1) return {};
    else elements *= *n;
  if (rank < 2) return {};
  const std::int64_t row = *v.extents[rank - 1].number() * size;
  if (row % how.alignment == 0 || row < how.min_row || elements * size < how.min_array) return {};
  const std::int64_t unit = row > long_row ? cache_line : how.alignment;
  series<dim> strides(rank, dim(1));
  dim step = (row + unit - 1) / unit * unit / size;
  for (std::size_t d = rank - 1; d-- > 0; step *= v.extents[d]) strides[d] = step;
  return strides;
}

inline bool keeps_rows(const ir::graph& g, const ir::node& reshape) {
  const ir::shape &from = g[reshape.in[0]].extents, &to = reshape.extents;
  return !from.empty() && !to.empty() && from.back() == to.back();
}

/// Per node whether something needs it in row-major order: results, opaque steps, and ops that read elements by other than coordinates.
inline series<char> needed_dense(const ir::graph& g, const series<node_id>& live) {
  series<char> dense(g.size(), 0);
  for (auto id : g.outputs) dense[id] = 1;
  for (std::size_t n = live.size(); n-- > 0;) {
    const ir::node& v = g[live[n]];
    for (auto in : v.in) switch (v.code) {
        case ir::op::permute:
        case ir::op::broadcast:
        case ir::op::slice:
        case ir::op::reduce:
        case ir::op::arg_reduce:
        case ir::op::sum_squares:
        case ir::op::gather:
        case ir::op::dot:
          break;
        case ir::op::reshape:
          dense[in] |= dense[live[n]] || !keeps_rows(g, v);
          break;
        default:
          dense[in] |= !ir::is_pointwise(v.code);
      }
  }
  return dense;
}

/// A node's axis as one of the memory behind it, through views; nothing where a view hides it.
struct axis_in_memory {
  node_id id = ir::no_node;
  std::size_t axis = 0;
};
inline std::optional<axis_in_memory> through_views(const ir::graph& g, node_id id, std::size_t axis) {
  for (; ir::is_view(g[id].code); id = g[id].in[0]) {
    const ir::node& v = g[id];
    if (v.code == ir::op::permute) axis = static_cast<std::size_t>(v.attr.ints[axis]);
    else if (v.code == ir::op::reshape && axis + 1 == v.extents.size() && keeps_rows(g, v))
      axis = g[v.in[0]].extents.size() - 1;
    else if (v.code != ir::op::slice && v.code != ir::op::broadcast) return std::nullopt;
  }
  return axis_in_memory{id, axis};
}

/// Appends the array behind a product's operand, if its rows are an axis of the product by themselves.
inline void append_operand(const ir::graph& g, const ir::node& dot, std::size_t operand, series<node_id>& out) {
  const auto nb = static_cast<std::size_t>(dot.attr.ints[0]), nk = static_cast<std::size_t>(dot.attr.ints[1]);
  const ir::shape& e = g[dot.in[operand]].extents;
  const std::size_t second = operand == 0 ? e.size() - nk : nb + nk;
  const std::array<std::size_t, 4> ends{0, nb, second, e.size()};
  for (std::size_t part = 1; part < 3; ++part) {
    std::size_t axis = e.size(), count = 0;
    for (std::size_t d = ends[part]; d < ends[part + 1]; ++d)
      if (!e[d].is(1)) axis = d, ++count;
    if (count != 1) continue;
    const auto at = through_views(g, dot.in[operand], axis);
    if (at && at->axis + 1 == g[at->id].extents.size()) out.push_back(at->id);
  }
}

/// Whether a product's rows are one axis of it.
inline bool has_plain_rows(const ir::graph& g, const ir::node& dot) {
  const auto columns_from = g[dot.in[0]].extents.size() - static_cast<std::size_t>(dot.attr.ints[1]);
  return columns_from + 1 == dot.extents.size();
}

/// How a product's kernel may store a node: not at all, with rows that are one axis of the product, or that are a part of one.
enum class made_rows : std::uint8_t { none, plain, part };

/// Per node, how a product's kernel may store it: as the product's result, or as values computed from one element of it each.
inline series<made_rows> made_by_products(const ir::graph& g, const series<node_id>& live) {
  series<made_rows> made(g.size(), made_rows::none);
  for (auto id : live) {
    const ir::node& v = g[id];
    if (v.code == ir::op::dot) made[id] = has_plain_rows(g, v) ? made_rows::plain : made_rows::part;
    else if (v.code == ir::op::reshape && keeps_rows(g, v)) made[id] = made[v.in[0]];
    else if (ir::is_pointwise(v.code))
      for (auto in : v.in)
        if (g[in].extents == v.extents) made[id] = std::max(made[id], made[in]);
  }
  return made;
}

}  // namespace detail

/// Gives strides to intermediates that products read or write, if their rows do not begin at multiples of `t.padding.alignment`
/// bytes: loads of 16 bytes, `ldmatrix` and TMA need that. Results, operands of opaque steps and open extents stay row-major.
SINTER_API void pad_rows(const ir::graph& g, const series<node_id>& live, const target& t, memory_map& memory) {
  if (t.padding.alignment <= 1) return;
  const auto made = detail::made_by_products(g, live);
  series<node_id> operands;
  for (auto id : live)
    if (g[id].code == ir::op::dot)
      for (std::size_t o = 0; o < 2; ++o) detail::append_operand(g, g[id], o, operands);
  series<char> read(g.size(), 0);
  for (auto id : operands) read[id] = 1;
  const series<char> dense = detail::needed_dense(g, live);
  for (auto id : live)
    if (memory.strides[id].empty() && made[id] != detail::made_rows::part &&
        (read[id] || made[id] == detail::made_rows::plain) && !dense[id] &&
        (g[id].code == ir::op::dot || ir::is_pointwise(g[id].code)))
      memory.strides[id] = detail::padded_strides(g[id], t.padding);
}

}  // namespace sinter::engine::plan
