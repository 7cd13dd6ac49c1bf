// plan/schedule/print.hpp: a schedule as text: the roles of axes, the pass in which each value is computed, the shape of blocks.
#pragma once

#include <string>
#include <string_view>

#include "../../base/dtype.hpp"
#include "shared.hpp"

namespace sinter::engine::plan {

namespace detail {

inline std::string name_of(role r) { return r == role::outer ? "outer" : r == role::row ? "row" : "inner"; }

/// "i0*128 + i1 + v3*128 + 4"; axes beyond the kernel's are a product's, k0 and on.
inline std::string text_of(const affine& at, std::size_t axes) {
  std::string text;
  const auto add = [&](const dim& factor, const std::string& of) {
    if (factor.is(0)) return;
    const std::string by = factor.is_number() ? factor.text() : "(" + factor.text() + ")";
    text += (text.empty() ? "" : " + ") + (factor.is(1) ? of : of + "*" + by);
  };
  for (std::size_t a = 0; a < at.stride.size(); ++a)
    add(at.stride[a], a < axes ? "i" + std::to_string(a) : "k" + std::to_string(a - axes));
  if (at.index >= 0) add(at.indirect, "v" + std::to_string(at.index));
  if (text.empty() || !at.offset.is(0)) text += (text.empty() ? "" : " + ") + at.offset.text();
  return text;
}

inline std::string text_of(const kernel& k, const access& a) {
  return "p" + std::to_string(a.buffer) + "[" + text_of(a.at, k.axes.size()) + "]";
}

/// "0 <= i0 - 1 < 128 && …"
inline std::string text_of(const kernel& k, const series<range>& ranges) {
  std::string text;
  for (const auto& r : ranges)
    text += (text.empty() ? "0 <= " : " && 0 <= ") + text_of(r.at, k.axes.size()) + " < " + r.extent.text() +
            (r.likely ? " (likely)" : "");
  return text;
}

/// The kind of an instruction, and the op that it applies.
inline std::string name_of(const instruction& i) {
  const std::string op = ir::name(i.code), reversed = i.reverse ? " reversed" : "";
  switch (i.kind) {
    case kind::literal:
      return "literal";
    case kind::position:
      return "position";
    case kind::inside:
      return "inside";
    case kind::load:
      return "load";
    case kind::compute:
      return op;
    case kind::reduce:
      return "reduce " + op + (i.squares ? " of squares" : "");
    case kind::arg_reduce:
      return "arg_reduce " + op;
    case kind::product:
      return "product";
    case kind::scan:
      return "scan " + op + reversed;
    case kind::sort:
      return "sort" + reversed;
    default:
      return "search" + reversed;
  }
}

inline std::string literal_text(const instruction& i) {
  if (!i.at.at.offset.is(0)) return "bits " + i.at.at.offset.text();
  return is_float(i.type) ? std::to_string(i.literal.f) : std::to_string(i.literal.i);
}

/// What the schedule says of a value: when it is computed, and whether it is kept.
inline std::string schedule_of(const instruction& i) {
  std::string text;
  constexpr const char* spans[] = {"", "; within a row", "; across rows", "; over all"};
  text += spans[static_cast<std::size_t>(i.span)];
  if (i.stage > 0) text += "; after " + std::to_string(i.stage) + (i.stage == 1 ? " pass" : " passes");
  if (i.after_rows) text += "; after all rows";
  if (i.kept) text += "; kept";
  if (i.last_pass > 0) text += "; last in pass " + std::to_string(i.last_pass);
  return text;
}

inline std::string text_of(const kernel& k, int id) {
  const instruction& i = k.body[static_cast<std::size_t>(id)];
  std::string text = "  v" + std::to_string(id) + " = " + sinter::dtype_name(i.type) + " " + name_of(i);
  if (i.kind == kind::literal) text += " " + literal_text(i);
  if (reads_memory(i)) text += " " + text_of(k, i.at);
  if (i.kind == kind::position || i.kind == kind::arg_reduce) text += " " + text_of(i.at.at, k.axes.size());
  for (int a : i.args) text += " v" + std::to_string(a);
  if (!i.ranges.empty()) text += " " + text_of(k, i.ranges);
  for (std::size_t o = 0; o < i.over.size(); ++o) text += (o ? " i" : " over i") + std::to_string(i.over[o]);
  std::string along;
  for (std::size_t a = 0; a < k.axes.size(); ++a)
    if (i.axes >> a & 1u) along += " i" + std::to_string(a);
  return text + (along.empty() ? "" : ", along" + along) + schedule_of(i) + "\n";
}

inline std::string text_of(const kernel& k, const product& p) {
  std::string text = std::string("  product of ") + text_of(k, p.a) + " and " + text_of(k, p.b) + ", " +
                     sinter::dtype_name(p.type) + ", over";
  for (std::size_t a = 0; a < p.k.size(); ++a) text += " k" + std::to_string(a) + " " + p.k[a].text();
  return text + "; " + std::to_string(p.batch) + " batch axes, " + std::to_string(p.m) + " of rows\n";
}

/// The loops over the whole kernel: passes, blocks, chunks and columns, and what its code assumes of sizes.
inline std::string loops_of(const kernel& k) {
  std::string text = std::to_string(k.stages) + (k.stages == 1 ? " pass" : " passes");
  const auto add = [&](bool is, const std::string& what) {
    if (is) text += ", " + what;
  };
  add(k.block > 0, "blocks of " + std::to_string(k.block));
  add(k.chunks > 1, std::to_string(k.chunks) + " chunks");
  add(k.columns > 0, "blocks of " + std::to_string(k.columns) + " columns");
  add(k.replaces, "skipped in place");
  add(k.symbols > 0 && k.fit.small, "small sizes");
  add(k.symbols > 0 && k.fit.narrow, "narrow");
  add(k.symbols > 0 && k.fit.longest > 0, (k.fit.whole ? "rows of " : "rows up to ") + std::to_string(k.fit.longest));
  return text;
}

}  // namespace detail

/// The scheduled kernel, a line for each axis, value and store; a value is named as in the printed code.
SINTER_API std::string text_of(const kernel& k) {
  std::string text = k.label + "\n";
  for (std::size_t a = 0; a < k.axes.size(); ++a)
    text += "  i" + std::to_string(a) + " " + detail::name_of(k.axes[a].role) + " " + k.axes[a].extent.text() + "\n";
  text += "  " + detail::loops_of(k) + "\n";
  for (const auto& p : k.products) text += detail::text_of(k, p);
  for (std::size_t id = 0; id < k.body.size(); ++id) text += detail::text_of(k, static_cast<int>(id));
  for (const auto& s : k.stores) {
    text += "  " + detail::text_of(k, s.at) + (s.accumulate ? std::string(" ") + ir::name(s.combiner) + "=" : " =") +
            " v" + std::to_string(s.value);
    if (s.accumulate) text += " below " + s.bound.text();
    text += "\n";
  }
  return text;
}

namespace detail {

inline std::string count_of(std::int64_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}
inline std::string text_of(const lanes& l) {
  if (l.width == 1) return "single elements along i" + std::to_string(l.axis);
  return "vectors of " + std::to_string(l.width) + " along i" + std::to_string(l.axis) +
         (l.in_part ? ", the last in part" : "");
}
inline std::string text_of(const lanes& l, int vectors) {
  return text_of(l) + ", " + std::to_string(vectors) + " a thread";
}

inline std::string text_of(const pointwise_shape& s) {
  return "pointwise: " + text_of(s, s.vectors) + (s.rest ? ", the rest by elements" : "");
}
inline std::string text_of(const tile_shape& s) {
  std::string text = "tiles of " + std::to_string(s.side) + " by " + std::to_string(s.side) + " along i" +
                     std::to_string(s.loads.axis) + " and the last axis: reads of " + std::to_string(s.across) +
                     ", writes of " + std::to_string(s.width) + ", transposed";
  for (int id : s.loads.loads) text += " v" + std::to_string(id);
  return text;
}
inline std::string text_of(const ordered_shape& s) { return "in order: " + s.parallel.text() + " positions at once"; }
inline std::string text_of(const block_sums& s) {
  return "sums of " + count_of(s.elements, "element", "elements") + " in each block, " +
         count_of(s.rounds, "round", "rounds") + "; " + text_of(s.updates);
}
inline std::string text_of(const scan_shape& s) {
  if (s.block_a_row) return "scan: a block a row";
  if (s.down == 0) return "scan: a thread a row";
  return "scan: 32 rows a block, " + count_of(s.down, "thread", "threads") + " a row, " +
         count_of(s.each, "element", "elements") + " a thread";
}
inline std::string text_of(const sort_shape& s) {
  const std::string how = s.method == sort_method::network ? "rows of " + std::to_string(s.width) + " in them"
                          : s.method == sort_method::rounds
                              ? count_of(s.passes + 1, "round", "rounds") + " that pass on " + std::to_string(s.kept)
                              : count_of(s.passes - 1, "pass", "passes") + " over digits";
  return "sort: tiles of " + std::to_string(s.tile) + ", " + how + ", keys of " + count_of(s.word, "byte", "bytes");
}
inline std::string text_of(const search_shape&) { return "search: a thread an element"; }
inline std::string text_of(const product_shape& s) {
  return "product: tiles of " + std::to_string(s.side) + " by " + std::to_string(s.side) + ", " +
         std::to_string(s.depth) + " terms at a time";
}
inline std::string text_of(const tensor_operand& o) {
  return std::string(o.along_k ? "along k" : "across k") + " by " + std::to_string(o.width);
}
inline std::string text_of(const tensor_shape& s) {
  return "product on tensor cores: tiles of " + std::to_string(s.m) + " by " + std::to_string(s.n) + ", " +
         std::to_string(s.k) + " terms in each of " + count_of(s.stages, "stage", "stages") + ", warps " +
         std::to_string(s.down) + " by " + std::to_string(s.across) + " by " + std::to_string(s.deep) + ", copies " +
         text_of(s.a) + " and " + text_of(s.b) + ", stores " + text_of(s.stored);
}
inline std::string text_of(const row_shape& s) {
  std::string text = "rows: " + text_of(s, s.vectors) + ", " + count_of(s.group, "thread", "threads") + " a row, " +
                     count_of(s.rows, "row", "rows") + " a block, " + (s.held ? "in registers" : "in a loop");
  if (s.chunks > 1) text += ", " + count_of(s.chunks, "block", "blocks") + " a row";
  if (!s.keep.empty()) text += ", keeps";
  for (int id : s.keep) text += " v" + std::to_string(id);
  return text;
}
inline std::string text_of(const column_shape& s) {
  return "columns: " + text_of(s, s.vectors) + ", " + std::to_string(s.across) + " by " + std::to_string(s.down) +
         " threads, " + count_of(s.chunks, "chunk", "chunks");
}
inline std::string text_of(const persistent_rows& s) {
  std::string text = "walk of " + s.walkers.text() + " blocks over the rows; " + text_of(s.row);
  if (s.hoist) text += ", equal loads once";
  if (s.ahead) text += ", the next row ahead";
  if (s.staged > 0) text += ", " + count_of(s.staged, "row", "rows") + " in shared memory";
  return text;
}
inline std::string text_of(const row_epilogue& s) {
  return text_of(s.product) + "; then " + (s.sums ? text_of(s.rows) : text_of(s.rows.row));
}

inline std::string text_of(const finish_shape& f) {
  return "finish: " + f.parts.text() + " parts" +
         (f.arrays ? " of " + f.columns.text() + " columns, " + count_of(f.across, "thread", "threads") + " a column"
                   : "");
}

inline std::string text_of(const grid& g) {
  return g.blocks.text() + " blocks of " + std::to_string(g.threads) + " threads" +
         (g.resident > 0 ? ", " + std::to_string(g.resident) + " resident" : "") +
         (g.shared > 0 ? ", " + std::to_string(g.shared) + " bytes of shared memory" : "");
}

}  // namespace detail

/// The chosen shape, and the grid of each launch, a line each.
SINTER_API std::string text_of(const block_schedule& s) {
  std::string text = "  " + std::visit([](const auto& shape) { return detail::text_of(shape); }, s.shape) + "\n";
  if (s.finish) text += "  " + detail::text_of(*s.finish) + "\n";
  for (const grid& g : s.launches) text += "  launch: " + detail::text_of(g) + "\n";
  return text;
}

/// A line for each body of a shared launch.
SINTER_API std::string text_of(const series<shared_body>& bodies) {
  std::string text;
  for (const auto& b : bodies)
    text += "  " + detail::text_of(b.shape) + "; " +
            detail::count_of(static_cast<std::int64_t>(b.members.size()), "kernel", "kernels") + " in blocks of " +
            std::to_string(shared_threads) + " threads\n";
  return text;
}

/// A line: the roles of the axes, and the loops: "outer 128, inner 100; 3 passes".
SINTER_API std::string outline_of(const kernel& k) {
  if (k.is_opaque()) return "";
  std::string text;
  for (const auto& a : k.axes)
    text += (text.empty() ? "" : ", ") + (k.is_product() ? "" : detail::name_of(a.role) + " ") + a.extent.text();
  for (const auto& p : k.products)
    for (const auto& e : p.k) text += (&e == p.k.begin() ? "; over " : ", ") + e.text();
  return text + (text.empty() ? "" : "; ") + detail::loops_of(k);
}

}  // namespace sinter::engine::plan
