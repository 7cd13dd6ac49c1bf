// plan/lowering/schedule.hpp: adds loops to a lowered kernel: roles of axes, passes, chunks, kept values.
#pragma once

#include <algorithm>
#include <bit>

#include "../../base/sorted.hpp"
#include "../kernel/axes.hpp"
#include "../kernel/target.hpp"
#include "lower.hpp"

namespace sinter::engine::plan {

/// Elements in a block of a one-dimensional kernel.
inline constexpr std::int64_t block_elements = 16 << 10;
/// The greatest number of chunks in which rows are summed, whatever the number of threads: results do not depend on it.
inline constexpr std::int64_t max_chunks = 64;
/// The size of a block of columns that are reduced together: at most 512 bytes of f32 in each row.
inline constexpr int max_columns = 128, min_columns = 16;
/// The greatest number of bytes that a block has for each column, with room for sums. It may be on the stack four times: for
/// whole blocks and the last one, for columns that are kept and those that are too long.
inline constexpr std::int64_t max_column_bytes = 10 << 10;
/// Rows of at most this many elements are reduced as columns are.
inline constexpr std::int64_t max_short_row = 8;
/// Longer columns exceed a thread's share of the caches.
inline constexpr std::int64_t longest_column = 8192;
/// A number of tasks that threads can share.
inline constexpr std::int64_t few_tasks = 8;

namespace detail {

/// The axes of a single set of reductions: those reduced within a row, and those reduced across rows.
struct division {
  std::uint32_t inner = 0, row = 0;
};

/// The axes along which a load is contiguous: bit a for axis a.
inline std::uint32_t contiguous_axes(const kernel& k) {
  std::uint32_t mask = 0;
  for (const auto& i : k.body)
    for (std::size_t a = 0; i.kind == kind::load && i.at.at.index < 0 && a < k.axes.size(); ++a)
      if (i.at.at.stride[a].is(1)) mask |= 1u << a;
  return mask;
}

inline division divide_axes(const kernel& k, const target& t) {
  const std::uint32_t all = (1u << k.axes.size()) - 1, last = k.axes.empty() ? 0 : 1u << (k.axes.size() - 1);
  sorted_set<std::uint32_t> sets;
  for (const auto& i : k.body)
    if (i.kind == kind::reduce || i.kind == kind::arg_reduce) {
      std::uint32_t s = 0;
      for (int a : i.over) s |= 1u << a;
      sets.insert(s);
    }
  division d;
  for (const auto& i : k.body)  // an index is found in one walk
    if (i.kind == kind::arg_reduce)
      for (int a : i.over) d.inner |= 1u << a;
  if (d.inner && sets.size() == 1) return d;
  // One long row is divided over blocks of threads.
  if (sets.count(all) && sets.size() == 1) return t.shares_rows ? division{all, 0} : division{last, all & ~last};
  if (t.lockstep > 1 && sets.size() == 1) {
    // One set of axes is reduced: neighbouring threads access neighbouring memory.
    const std::uint32_t reduced = *sets.begin(), contiguous = contiguous_axes(k);
    if ((contiguous & reduced) && !(contiguous & ~reduced)) return {reduced, 0};
    if ((contiguous & ~reduced) && !(contiguous & reduced) && std::has_single_bit(contiguous))
      return {contiguous, reduced};
  }
  const bool full = sets.erase(all) > 0;
  for (auto s : sets) (s & last ? d.inner : d.row) |= s;
  if (full && !d.row) d.row = all & ~d.inner;
  if (full && !d.inner) d.inner = all & ~d.row;
  if (!d.inner)  // the kept axes after the last reduced one
    for (std::size_t a = k.axes.size(); a-- > 0 && !(d.row >> a & 1u);) d.inner |= 1u << a;
  if (d.inner & d.row) throw refusal{"reductions along different axes", ir::no_node};
  for (auto s : sets)
    if (s != d.inner && s != d.row) throw refusal{"reductions along different axes", ir::no_node};
  if (full && (d.inner | d.row) != all) throw refusal{"reductions along different axes", ir::no_node};
  return d;
}

/// A scatter_add's rows run in order; axes with distinct addresses are parallel.
inline division divide_scatter(const kernel& k) {
  division d;
  const std::uint32_t last = 1u << (k.axes.size() - 1);
  d.inner = last;
  for (const auto& s : k.stores)
    for (std::size_t a = 0; s.accumulate && a < k.axes.size(); ++a)
      if (s.at.at.stride[a].is(0) && !(last >> a & 1u)) d.row |= 1u << a;
  return d;
}

inline void assign_roles(kernel& k, const target& t) {
  bool reduces = false, scatters = false;
  for (const auto& i : k.body) reduces |= i.kind == kind::reduce || i.kind == kind::arg_reduce;
  for (const auto& s : k.stores) scatters |= s.accumulate;
  if (reduces && scatters) throw refusal{"a scatter and a reduction", ir::no_node};
  if (scatters && k.stores.size() > 1) throw refusal{"a scatter has a kernel of its own", ir::no_node};
  if (k.axes.empty()) return;
  division d;
  if (reduces) {
    d = divide_axes(k, t);
  } else if (scatters) {
    d = divide_scatter(k);
  } else {
    for (std::size_t a = k.axes.size() - 1; a-- > 0;)
      if (mergeable(k, a)) merge(k, a);
    d.inner = 1u << (k.axes.size() - 1);
  }
  series<std::size_t> order;
  for (auto r : {role::outer, role::row, role::inner})
    for (std::size_t a = 0; a < k.axes.size(); ++a) {
      const role mine = d.inner >> a & 1u ? role::inner : d.row >> a & 1u ? role::row : role::outer;
      if (mine == r) order.push_back(a);
      if (mine == r) k.axes[a].role = r;
    }
  reorder(k, order);
}

/// Scanned axes are rows; the last axis is the vector unless it is scanned.
inline void assign_scan_roles(kernel& k) {
  const bool vectors = k.is_scan();
  std::uint32_t over = 0;
  for (const auto& i : k.body)
    for (int a : i.over) over |= 1u << a;
  const std::size_t last = k.axes.size() - 1;
  series<std::size_t> order;
  for (auto r : {role::outer, role::row, role::inner})
    for (std::size_t a = 0; a < k.axes.size(); ++a) {
      const role mine = over >> a & 1u ? role::row : a == last && vectors ? role::inner : role::outer;
      if (mine == r) order.push_back(a);
      if (mine == r) k.axes[a].role = r;
    }
  reorder(k, order);
  for (std::size_t a = k.axes.size(); a-- > 1;)
    if (mergeable(k, a - 1)) merge(k, a - 1);
}

/// The stages of values: reductions that end with a row, and those that end with all rows.
inline void assign_stages(kernel& k) {
  const std::uint32_t inner = k.mask(role::inner), row = k.mask(role::row);
  for (auto& i : k.body) {
    auto follow = [&](int arg) {
      const auto& a = k.body[static_cast<std::size_t>(arg)];
      i.stage = std::max(i.stage, a.stage);
      i.after_rows |= a.after_rows;
    };
    for (int a : i.args) follow(a);
    if (i.at.at.index >= 0) follow(i.at.at.index);
    if (i.kind == kind::reduce || i.kind == kind::arg_reduce) {
      std::uint32_t over = 0;
      for (int a : i.over) over |= 1u << a;
      if (i.after_rows) throw refusal{"a reduction of what is known only after all rows", ir::no_node};
      i.span = over == inner && !(k.block && !row) ? reduce_scope::inner
               : over == row                       ? reduce_scope::row
                                                   : reduce_scope::both;
      if (i.span == reduce_scope::both && over != (inner | row))
        throw refusal{"reductions along different axes", ir::no_node};
      if (i.kind == kind::arg_reduce && i.span != reduce_scope::inner)
        throw refusal{"an index of an extreme is found along the rows' own axis", ir::no_node};
      if (i.span == reduce_scope::inner) ++i.stage;
      else i.after_rows = true;
    }
    for (int arg : i.args) {
      const auto& a = k.body[static_cast<std::size_t>(arg)];
      if (i.after_rows && i.kind == kind::compute && !a.after_rows && a.stage > 0)
        throw refusal{"a row's result is needed after all rows were", ir::no_node};
    }
    if (i.after_rows && (i.axes & (k.block ? inner : row)))
      throw refusal{"a row is needed after all rows were", ir::no_node};
    k.stages = std::max(k.stages, i.stage + 1);
  }
  for (const auto& s : k.stores) {
    const auto& v = k.body[static_cast<std::size_t>(s.value)];
    std::uint32_t varies = v.axes;
    for (std::size_t a = 0; a < k.axes.size(); ++a)
      if (!s.at.at.stride[a].is(0)) varies |= 1u << a;
    if (v.after_rows && (varies & (k.block ? inner : row)))
      throw refusal{"a row is stored after all rows were read", ir::no_node};
    if (row && !(varies & row) && v.stage > 0 && !v.after_rows)
      throw refusal{"a row's result is stored once for all rows", ir::no_node};
  }
}

/// Marks costly values of one pass that a later pass needs; in an open row, those that fit by the hints.
inline void keep_costly(kernel& k, std::span<const std::int64_t> hints) {
  if (k.block) return;
  const std::int64_t most = k.columns ? kept_column_bytes : kept_row_bytes,
                     length = std::min(k.extent(role::inner).evaluate(hints), most + 1),  // or too long for any
      row = length * (k.columns ? k.columns : 1);
  const std::uint32_t inner = k.mask(role::inner), vector = k.columns ? 1u << k.vector_axis() : inner;
  std::int64_t bytes = 0;
  sorted_set<std::pair<int, int>> seen;
  series<int> first(k.body.size(), k.stages);
  auto visit = [&](auto&& self, int id, int pass) -> void {
    auto& i = k.body[static_cast<std::size_t>(id)];
    if (!(i.axes & inner) || i.kind == kind::reduce || i.kind == kind::arg_reduce || !seen.emplace(id, pass).second)
      return;
    int& computed = first[static_cast<std::size_t>(id)];
    computed = std::min(computed, pass);
    const std::int64_t size = row * static_cast<std::int64_t>(std::max<std::size_t>(size_of(i.type), 4));
    if (!i.kept && computed < pass && (i.axes & vector) && i.kind == kind::compute && ir::is_expensive(i.code) &&
        bytes + size <= most) {
      i.kept = true;
      bytes += size;
    }
    if (i.kept && computed < pass) return;
    i.last_pass = pass;
    for (int a : i.args) self(self, a, pass);
    if (i.at.at.index >= 0) self(self, i.at.at.index, pass);
  };
  for (int pass = 0; pass < k.stages; ++pass) {
    for (std::size_t b = 0; b < k.body.size(); ++b)
      if (k.body[b].kind == kind::reduce || k.body[b].kind == kind::arg_reduce)
        if (const int arg = k.body[b].args[0]; k.body[static_cast<std::size_t>(arg)].stage == pass)
          visit(visit, arg, pass);
    for (const auto& s : k.stores)
      if (const auto& v = k.body[static_cast<std::size_t>(s.value)]; !v.after_rows && v.stage == pass)
        visit(visit, s.value, pass);
  }
}

inline void choose_chunks(kernel& k, std::span<const std::int64_t> hints) {
  bool combines = false;
  for (const auto& i : k.body) combines |= i.span == reduce_scope::row || i.span == reduce_scope::both;
  if (!combines) return;
  const std::int64_t inner = k.extent(role::inner).evaluate(hints), row = k.extent(role::row).evaluate(hints);
  const std::int64_t outer = std::max<std::int64_t>(k.extent(role::outer).evaluate(hints), 1);
  const std::int64_t rows = k.block ? (inner + k.block - 1) / k.block : row;
  const std::int64_t work = k.block ? inner : (dim(inner) * row).evaluate({});
  const std::int64_t wanted = std::min({work / block_elements, rows, std::max<std::int64_t>(max_chunks / outer, 1)});
  k.chunks = static_cast<int>(std::max<std::int64_t>(wanted, 1));
}

/// Merges the batch, row and column axes of a matrix product, each group separately, where accesses allow it.
inline void group_product_axes(kernel& k) {
  auto& p = k.products[0];
  for (std::size_t a = k.axes.size(); a-- > 1;) {
    const int low = static_cast<int>(a) - 1, high = static_cast<int>(a);
    const bool divided = high == p.batch || high == p.batch + p.m;
    if (divided || !mergeable(k, static_cast<std::size_t>(low))) continue;
    merge(k, static_cast<std::size_t>(low));
    if (high < p.batch) --p.batch;
    else if (high < p.batch + p.m) --p.m;
  }
}

}  // namespace detail

/// True when each row is walked once: a GPU divides such rows among blocks, even if they are few.
SINTER_API bool walks_once(const kernel& k) {
  const std::uint32_t inner = k.mask(role::inner);
  const auto late = [&](int id) { return k.body[static_cast<std::size_t>(id)].stage > 0; };
  for (const auto& i : k.body)
    if ((i.kind == kind::reduce || i.kind == kind::arg_reduce) && late(i.args[0])) return false;
  for (const auto& s : k.stores) {
    std::uint32_t varies = k.body[static_cast<std::size_t>(s.value)].axes;
    for (std::size_t a = 0; a < k.axes.size(); ++a)
      if (!s.at.at.stride[a].is(0)) varies |= 1u << a;
    if (late(s.value) && (varies & inner)) return false;
  }
  return true;
}

namespace detail {

/// Assigns roles, passes and chunks of rows.
inline void schedule_rows(kernel& k, std::span<const std::int64_t> hints, const target& t) {
  assign_roles(k, t);
  for (std::size_t a = k.axes.size(); a-- > 1;)
    if (mergeable(k, a - 1)) merge(k, a - 1);
  bool ordered = false;
  for (const auto& s : k.stores) ordered |= s.accumulate;
  for (const auto& i : k.body) ordered |= i.kind == kind::arg_reduce;
  if (t.lockstep == 1 && k.axes.size() == 1 && !ordered && k.axes[0].extent.evaluate(hints) >= 2 * block_elements)
    k.block = block_elements;
  assign_stages(k);
  for (axis& a : k.axes) a.hint = a.extent.evaluate(hints);
  if (t.lockstep > 1) return;  // schedule_blocks() chooses these
  keep_costly(k, hints);
  choose_chunks(k, hints);
}

/// Whether the position of an extreme is its index along one axis, in a type whose lanes can count it.
inline bool counts_along(const kernel& k, const instruction& i) {
  const auto& where = i.at.at;
  bool along = i.over.size() == 1 && where.index < 0 && where.offset.is(0);
  for (std::size_t a = 0; along && a < where.stride.size(); ++a)
    along = where.stride[a].is(static_cast<int>(a) == i.over[0] ? 1 : 0);
  const dtype t = k.body[static_cast<std::size_t>(i.args[0])].type;
  return along && !is_bool(t) && (is_float(t) || size_of(t) >= 4);
}
inline bool has_extremes(const kernel& k) {
  return std::any_of(k.body.begin(), k.body.end(), [](const auto& i) { return i.kind == kind::arg_reduce; });
}

/// The axes of all reductions, if they are the same; otherwise 0.
inline std::uint32_t reduced_axes(const kernel& k) {
  std::uint32_t reduced = 0;
  for (const auto& i : k.body) {
    std::uint32_t over = 0;
    for (int a : i.over) over |= 1u << a;
    if ((i.kind == kind::arg_reduce && !counts_along(k, i)) || (over && reduced && over != reduced)) return 0;
    reduced |= over;
  }
  for (const auto& s : k.stores)
    if (s.accumulate) return 0;
  return reduced;
}

/// Whether rows along the last axis are so short that vectors run across them; a vector along them would be nearly empty.
inline bool has_short_rows(const kernel& k, std::uint32_t reduced) {
  dim length = 1;
  bool keeps = false;
  for (std::size_t a = 0; a < k.axes.size(); ++a) {
    keeps |= !(reduced >> a & 1u);
    if (reduced >> a & 1u) length *= k.axes[a].extent;
  }
  return keeps && (reduced >> (k.axes.size() - 1) & 1u) && length.number().value_or(max_short_row + 1) <= max_short_row;
}

/// The number of columns of a block; 0 if loops over rows are faster: for few or long columns, and reads along them.
inline int column_block(const kernel& k, bool short_rows) {
  const std::size_t lanes = k.vector_axis();
  const std::int64_t width = k.axes[lanes].hint;
  const std::uint32_t inner = k.mask(role::inner), contiguous = contiguous_axes(k);
  std::int64_t rows = 1, others = 1;
  for (std::size_t a = 0; a < k.axes.size(); ++a)
    if (a != lanes) (a > lanes ? rows : others) = (dim(a > lanes ? rows : others) * k.axes[a].hint).evaluate({});
  const bool along = (contiguous & inner) && !(contiguous >> lanes & 1u);
  if (width < min_columns || rows > longest_column || (along && !short_rows)) return 0;
  int block = max_columns;
  const auto tasks = [&] { return (dim(others) * ((width + block - 1) / block)).evaluate({}); };
  while (block > width || (block > max_columns / 2 && tasks() < few_tasks)) block /= 2;
  return 2 * tasks() < few_tasks && rows * block > 2 * block_elements ? 0 : block;
}

/// The bytes of the values that a block has for each column; they lie on the stack.
inline std::int64_t column_bytes(const kernel& k) {
  const std::uint32_t inner = k.mask(role::inner);
  std::int64_t bytes = 0;
  for (const auto& i : k.body)
    if (!(i.axes & inner) && (i.axes >> k.vector_axis() & 1u))
      bytes += static_cast<std::int64_t>(std::max<std::size_t>(size_of(i.type), 4)) + (is_reduction(i) ? 16 : 0);
  return bytes * k.columns;
}

/// Vectors along the last kept axis; blocks of these columns make the passes over the reduced axes. False if it does not pay,
/// or some value is not a column's.
inline bool schedule_columns(kernel& k, std::uint32_t reduced, std::span<const std::int64_t> hints,
                             bool short_rows = false) {
  series<std::size_t> order;
  for (auto r : {role::outer, role::inner})
    for (std::size_t a = 0; a < k.axes.size(); ++a)
      if ((reduced >> a & 1u) == (r == role::inner)) order.push_back(a), k.axes[a].role = r;
  reorder(k, order);
  for (std::size_t a = k.axes.size(); a-- > 1;)
    if (mergeable(k, a - 1)) merge(k, a - 1);
  for (axis& a : k.axes) a.hint = a.extent.evaluate(hints);
  k.columns = max_columns;
  k.columns = column_block(k, short_rows);
  while (k.columns > min_columns && column_bytes(k) > max_column_bytes) k.columns /= 2;
  if (!k.columns || column_bytes(k) > max_column_bytes) return false;
  const std::size_t lanes = k.vector_axis();
  for (const auto& i : k.body)
    if (is_reduction(i) && !(i.axes >> lanes & 1u)) return false;
  for (const auto& s : k.stores)
    if (s.at.at.stride[lanes].is(0)) return false;
  assign_stages(k);
  keep_costly(k, hints);
  return true;
}

}  // namespace detail

/// Gives the axes of a lowered kernel their roles, merges axes that every access walks as one, and orders the passes. Throws
/// refusal if the kernel's reductions do not fit one loop nest. Where threads run in step, schedule_blocks() chooses blocks, chunks and kept values.
SINTER_API void schedule(kernel& k, std::span<const std::int64_t> hints, const target& t = {}) {
  if (k.is_product()) {
    for (const auto& i : k.body)
      if (i.kind == kind::reduce || i.kind == kind::arg_reduce)
        throw refusal{"a reduction behind a matrix product", ir::no_node};
    for (const auto& s : k.stores)
      if (s.accumulate) throw refusal{"a scatter_add behind a matrix product", ir::no_node};
    detail::group_product_axes(k);
    for (axis& a : k.axes) a.hint = a.extent.evaluate(hints);
    product& p = k.products[0];
    p.terms = ir::product(p.k).evaluate(hints);
    return;
  }
  if (k.by_recipe) {
    for (axis& a : k.axes) a.hint = a.extent.evaluate(hints);
    return;
  }
  if (k.stands_alone()) return detail::assign_scan_roles(k);
  const std::uint32_t reduced = t.lockstep > 1 ? 0 : detail::reduced_axes(k);
  if (!reduced) return detail::schedule_rows(k, hints, t);
  const kernel lowered = k;
  const bool rows = reduced >> (k.axes.size() - 1) & 1u, short_rows = detail::has_short_rows(k, reduced);
  if (rows || detail::has_extremes(k)) {
    if ((short_rows || !rows) && detail::schedule_columns(k, reduced, hints, short_rows)) return;
    k = lowered;
    return detail::schedule_rows(k, hints, t);
  }
  try {
    detail::schedule_rows(k, hints, t);
  } catch (const refusal&) {
    k = lowered;
    if (!detail::schedule_columns(k, reduced, hints)) throw;
  }
}

}  // namespace sinter::engine::plan
