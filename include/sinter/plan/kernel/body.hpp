// plan/kernel/body.hpp: the instructions of a kernel under construction.
#pragma once

#include "../../base/series.hpp"
#include "index.hpp"
#include "kernel.hpp"
#include "root.hpp"

namespace sinter::engine::plan {

SINTER_API int add(kernel& k, instruction i) {
  k.body.push_back(std::move(i));
  return static_cast<int>(k.body.size()) - 1;
}

SINTER_API int literal(kernel& k, dtype type, ir::scalar x) {
  instruction i;
  i.kind = kind::literal;
  i.type = type;
  i.literal = x;
  return add(k, std::move(i));
}

/// Like literal, but reuses an existing one.
SINTER_API int shared_literal(kernel& k, dtype type, ir::scalar x) {
  for (std::size_t at = 0; at < k.body.size(); ++at) {
    const instruction& i = k.body[at];
    if (i.kind == kind::literal && i.axes == 0 && i.type == type && i.literal.i == x.i &&
        std::bit_cast<std::uint64_t>(i.literal.f) == std::bit_cast<std::uint64_t>(x.f))
      return static_cast<int>(at);
  }
  return literal(k, type, x);
}

/// The pointwise op `code` of args.
SINTER_API int compute(kernel& k, ir::op code, dtype type, series<int> args) {
  instruction i;
  i.kind = kind::compute;
  i.code = code;
  i.type = type;
  for (int a : args) i.axes |= k.body[static_cast<std::size_t>(a)].axes;
  i.args = std::move(args);
  return add(k, std::move(i));
}

SINTER_API int converted(kernel& k, int arg, dtype type) { return compute(k, ir::op::cast, type, {arg}); }

SINTER_API int combined(kernel& k, ir::op code, int a, int b) {
  return compute(k, code, k.body[static_cast<std::size_t>(a)].type, {a, b});
}

/// The axes along which an index map varies.
SINTER_API std::uint32_t axes_of(const kernel& k, const affine& at) {
  std::uint32_t mask = at.index >= 0 ? k.body[static_cast<std::size_t>(at.index)].axes : 0;
  for (std::size_t a = 0; a < at.stride.size(); ++a)
    if (!at.stride[a].is(0)) mask |= 1u << a;
  return mask;
}

SINTER_API int position(kernel& k, const affine& at) {
  instruction i;
  i.kind = kind::position;
  i.type = dtype::i64;
  i.at.at = at;
  i.axes = axes_of(k, at);
  return add(k, std::move(i));
}

/// Whether all of `ranges` hold, for an op `code`; constant if the result is known.
SINTER_API int inside(kernel& k, ir::op code, const series<range>& ranges) {
  instruction i;
  i.kind = kind::inside;
  i.code = code;
  i.type = dtype::b8;
  i.ranges = ranges;
  for (const auto& r : ranges) i.axes |= axes_of(k, r.at);
  for (std::size_t at = 0; at < k.body.size(); ++at)
    if (k.body[at].kind == kind::inside && k.body[at].ranges == ranges) return static_cast<int>(at);
  return add(k, std::move(i));
}

/// The coordinate given by instruction `index`, over `rank` axes.
inline affine indirect(kernel& k, int index, std::size_t rank) {
  affine c = constant_coordinate(0, rank);
  c.indirect = 1;
  c.index = k.body[static_cast<std::size_t>(index)].type == dtype::i64 ? index : converted(k, index, dtype::i64);
  return c;
}

/// `index` clamped to an extent, over `rank` axes.
inline int clamped(kernel& k, int index, const dim& extent, std::size_t rank) {
  if (k.body[static_cast<std::size_t>(index)].type != dtype::i64) index = converted(k, index, dtype::i64);
  const int low = combined(k, ir::op::maximum, index, literal(k, dtype::i64, {}));
  return combined(k, ir::op::minimum, low, position(k, constant_coordinate(extent - dim(1), rank)));
}

/// The scan `id` of values; `along` is the coordinate on the scanned dimension.
SINTER_API int scan(kernel& k, const ir::graph& g, node_id id, series<int> args, const affine& along) {
  const ir::node& v = g[id];
  instruction i;
  i.kind = kind::scan;
  i.code = v.attr.combiner;
  i.type = v.type;
  i.where = v.where;
  i.origin = id;
  i.args = std::move(args);
  i.reverse = v.attr.ints[1] != 0;
  for (std::size_t a = 0; a < along.stride.size(); ++a)
    if (!along.stride[a].is(0)) i.over.push_back(static_cast<int>(a));
  if (i.over.empty()) return i.args[0];
  i.axes = (1u << along.stride.size()) - 1;
  return add(k, std::move(i));
}

/// The kernel's slot for the memory of a node; buffer ids are node ids until memory is planned.
SINTER_API int buffer(kernel& k, const ir::graph& g, const memory_map& memory, node_id id, bool written) {
  for (std::size_t b = 0; b < k.buffers.size(); ++b)
    if (k.buffers[b].id == static_cast<int>(id)) {
      k.buffers[b].written |= written;
      return static_cast<int>(b);
    }
  buffer_use use{static_cast<int>(id), g[id].type, written};
  if (id < memory.alignment.size() && memory.alignment[id] > 0) use.alignment = memory.alignment[id];
  use.by_value = id < memory.by_value.size() && memory.by_value[id];
  k.buffers.push_back(use);
  return static_cast<int>(k.buffers.size()) - 1;
}

}  // namespace sinter::engine::plan
