// emit/cuda/pointwise.hpp: kernels without reductions -> CUDA: flattened vectors, scatter_add, tiles for transposes.
#pragma once

#include "../../base/series.hpp"
#include "../../plan/schedule/pointwise.hpp"
#include "body.hpp"

namespace sinter::engine::emit {

/// Prints `*p += x`, or the store's other combiner, if the index is in bounds. x is named by `value`, a lane of the stored
/// value or several. `instead` is an array in place of the buffer.
inline void print_add(cuda_printer& p, const plan::store& s, int lane, const std::string& value, bool atomic,
                      const std::string& instead = {}) {
  const auto& a = s.at.at;
  std::string where = instead.empty() ? p.address(s.at) : instead + " + (" + p.offset(a) + ")";
  if (lane >= 0 && !a.stride[static_cast<std::size_t>(lane)].is(0))
    where += " + " + scaled(a.stride[static_cast<std::size_t>(lane)], "l");
  const std::string inside = "if ((s_u64)" + p.name(a.index) + " < (s_u64)(" + s.bound.text() + ")) ";
  if (s.combiner == ir::op::identity) {
    const bool several = value[0] == 'y';  // packs have such names
    return void(p.out().line(inside + (several ? "store(" : "store1(") + where + ", " + value + ");"));
  }
  if (s.combiner == ir::op::add) {
    if (!instead.empty() && value[0] == 'y')
      p.out().line(inside + "for (int e = 0; e < 4; ++e) atomic_add(" + where + " + e, " + value + ".e[e]);");
    else if (atomic) p.out().line(inside + "atomic_add(" + where + ", " + value + ");");
    else p.out().line(inside + "{ auto* const q = " + where + "; store1(q, load1(q) + " + value + "); }");
    return;
  }
  const dtype type = type_of(p.code(), s.at);
  const std::string t = scalar_type(type);
  const auto met = [&](const std::string& a, const std::string& b) {
    return "(" + t + ")(" + cuda_expression(s.combiner, type, {a, b}, type) + ")";
  };
  if (!atomic) {
    p.out().line(inside + "{ auto* const q = " + where + "; store1(q, " + met("load1(q)", value) + "); }");
  } else {
    p.out().line(inside + "atomic_update(" + where + ", (" + t + ")" + value + ", [](" + t + " a, " + t +
                 " b) { return " + met("a", "b") + "; });");
  }
}

/// The body of a block of a kernel without reductions; `block` counts from 0. `sums` is the store whose values are summed in
/// an array of the block.
SINTER_API void print_pointwise(cuda_printer& p, const plan::pointwise_shape& s, const plan::store* sums = nullptr) {
  const kernel& k = p.code();
  writer& out = p.out();
  p.uniform_values();
  p.uniform_stores();
  plan::work w;
  for (const auto& st : k.stores)
    if (!p.is_uniform_store(st)) w.stores.push_back(&st);
  if (w.empty()) return;
  series<std::size_t> axes;
  for (std::size_t a = 0; a < k.axes.size(); ++a) axes.push_back(a);
  const std::string per_block = p.number(std::int64_t{s.vectors} * s.threads), count = p.count(s.count);
  auto add = [&](const plan::store& st, int lane, const std::string& value) {
    print_add(p, st, lane, value, true, &st == sums ? "sums" : "");
  };
  auto none = [](int) { return std::string(); };
  const bool exact = !s.rest && divides(std::int64_t{s.vectors} * s.threads, s.count);
  cuda_tile t = tile_with(s, s.vectors);
  if (!exact && !s.rest) t.guard = "f < " + count;
  t.place = [&] {
    out.line("const " + p.flat() + " f = first + u*" + p.number(s.threads) + " + threadIdx.x;");
    p.unravel("f", axes, s.width);
  };
  out.line("const " + p.flat() + " first = (" + p.flat() + ")block*" + per_block + ";");
  if (!s.rest) return p.pass(t, w, {}, none, add);
  const auto outer = p.scope();
  out.block("if (first + " + per_block + " <= " + count + ")", [&] { p.pass(t, w, {}, none, add); });
  p.leave(outer);
  // The last block: element by element.
  cuda_tile one;
  one.axis = s.axis;
  one.place = [&] { out.line("const " + p.idx() + " i0 = e;"); };
  const std::string end = k.axes[0].extent.text();
  out.block("else", [&] {
    out.block("for (" + p.idx() + " e = first*" + p.number(s.width) + " + threadIdx.x; e < " + end +
                  "; e += " + p.number(s.threads) + ")",
              [&] { p.pass(one, w, {}, none, add); });
  });
  p.leave(outer);
}

/// Rounds of a pointwise kernel's blocks with sums in the block, which are then added to the destination.
SINTER_API void print_block_sums(cuda_printer& p, const plan::block_sums& b) {
  writer& out = p.out();
  const plan::pointwise_shape& s = b.updates;
  const plan::store& to = p.code().stores[static_cast<std::size_t>(b.store)];
  const std::string type = memory_type(type_of(p.code(), to.at)), n = p.number(b.elements),
                    each = "for (int e = threadIdx.x; e < " + n + "; e += " + p.number(s.threads) + ") ";
  // Atomic additions to elements of 8 and 16 bits use the containing word.
  out.line("__shared__ __align__(8) " + type + " sums[" + p.number((b.elements + 3) / 4 * 4) + "];");
  out.line(each + "sums[e] = " + type + "{};");
  out.line("__syncthreads();");
  out.line("const long begin = (long)block*" + p.number(b.rounds) + ";");
  const auto outer = p.scope();
  out.block("for (long block = begin; block < begin + " + p.number(b.rounds) + " && block < " + s.blocks.text() +
                "; ++block)",
            [&] { print_pointwise(p, s, &to); });
  p.leave(outer);
  out.line("__syncthreads();");
  out.line(each + "if (load1(sums + e) != 0) atomic_add(" + p.pointer(to.at.buffer) + " + e, load1(sums + e));");
}

/// A scatter in order: threads take the axes along which updates never meet, and walk the other axes sequentially.
SINTER_API void print_ordered_scatter(cuda_printer& p, const plan::ordered_shape& shape) {
  const kernel& k = p.code();
  writer& out = p.out();
  const auto& s = k.stores[0];
  series<std::size_t> apart, ordered;
  for (std::size_t a = 0; a < k.axes.size(); ++a) (s.at.at.stride[a].is(0) ? ordered : apart).push_back(a);
  p.uniform_values();
  out.line("const " + p.flat() + " f = (" + p.flat() + ")block*" + p.number(shape.threads) + " + threadIdx.x;");
  out.line("if (f >= " + p.count(shape.parallel) + ") return;");
  p.unravel("f", apart);
  auto nest = [&](auto&& self, std::size_t j) -> void {
    if (j < ordered.size()) {
      const std::string i = p.axis(ordered[j]);
      return out.block("for (" + p.idx() + " " + i + " = 0; " + i + " < " + p.extent(ordered[j]) + "; ++" + i + ")",
                       [&] { self(self, j + 1); });
    }
    p.define_scalars([](int) { return true; });
    print_add(p, s, -1, p.name(s.value), false);
  };
  nest(nest, 0);
}

namespace detail {

/// The start of a block's tile, and its place along the other axes; neighbouring blocks follow the written axis.
inline void place_tile(cuda_printer& p, const plan::tile_shape& s) {
  const kernel& k = p.code();
  writer& out = p.out();
  const std::size_t last = k.axes.size() - 1, q = s.loads.axis;
  const std::string side = p.number(s.side), across = p.count(ceil_div(k.axes[q].extent, s.side)),
                    along = p.count(ceil_div(k.axes[last].extent, s.side));
  series<std::size_t> others;
  for (std::size_t a = 0; a < last; ++a)
    if (a != q) others.push_back(a);
  out.line("const " + p.flat() + " g = block;");
  out.line("const " + p.idx() + " low" + p.number(static_cast<std::int64_t>(last)) + " = g%" + along + "*" + side +
           ";");
  out.line("const " + p.idx() + " low" + p.number(static_cast<std::int64_t>(q)) + " = g/" + along + "%" + across + "*" +
           side + ";");
  p.unravel("(g/" + along + "/" + across + ")", others);
}

/// The elements of a tile for the block's threads: in vectors along axis `fast`.
inline cuda_tile tile_along(cuda_printer& p, const plan::tile_shape& s, std::size_t fast, std::size_t slow, int width) {
  const kernel& k = p.code();
  cuda_tile t;
  t.width = width;
  t.axis = static_cast<int>(fast);
  t.vectors = std::max(s.side * s.side / width / s.threads, 1);
  const auto guard = [&](const std::string& test) { t.guard += (t.guard.empty() ? "" : " && ") + test; };
  for (const std::size_t axis : {fast, slow})
    if (!divides(s.side, k.axes[axis].extent)) guard(p.axis(axis) + " < " + p.extent(axis));
  if (s.side * s.side / width < s.threads) guard("f < " + p.number(s.side * s.side / width));
  t.place = [&p, &s, fast, slow, width] {
    const std::string per_line = p.number(s.side / width);
    p.out().line("const int f = u*" + p.number(s.threads) + " + threadIdx.x, fast = f%" + per_line + "*" +
                 p.number(width) + ", slow = f/" + per_line + ";");
    p.out().line("const " + p.idx() + " " + p.axis(fast) + " = low" + p.number(static_cast<std::int64_t>(fast)) +
                 " + fast, " + p.axis(slow) + " = low" + p.number(static_cast<std::int64_t>(slow)) + " + slow;");
  };
  return t;
}

/// Transposes the transposed loads: from the packs `z` through shared memory into packs along the last axis.
inline void turn_tiles(cuda_printer& p, const plan::tile_shape& s, const cuda_tile& in, const cuda_tile& through) {
  writer& out = p.out();
  p.over_vectors(in, [&](const cuda_tile&) {
    p.over_lanes(in, [&] {
      const std::string lane = s.across == 1 ? "" : " + l";
      for (int id : s.loads.loads)
        out.line("tile" + p.number(id) + "[fast" + lane + "][slow] = z" + p.number(id) + "[u].e[" +
                 (s.across == 1 ? "0" : "l") + "];");
    });
  });
  out.line("__syncthreads();");
  for (int id : s.loads.loads) p.declare_pack(id, through);
  p.over_vectors(through, [&](const cuda_tile&) {
    p.over_lanes(through, [&] {
      const std::string lane = s.width == 1 ? "" : " + l", at = s.width == 1 ? "0" : "l";
      for (int id : s.loads.loads)
        out.line("x" + p.number(id) + "[u].e[" + at + "] = tile" + p.number(id) + "[slow][fast" + lane + "];");
    });
  });
}

}  // namespace detail

/// The body of a block of a kernel that reads along one axis and writes along another. Transposed operands are read along
/// their own axis into shared memory, and taken from it while other operands are read and results are written.
SINTER_API void print_tiles(cuda_printer& p, const plan::tile_shape& s) {
  const kernel& k = p.code();
  const std::size_t last = k.axes.size() - 1, q = s.loads.axis;
  p.uniform_values();
  p.uniform_stores();
  detail::place_tile(p, s);
  for (int id : s.loads.loads)
    p.out().line("__shared__ " + memory_type(p.at(id).type) + " tile" + p.number(id) + "[" + p.number(s.side) + "][" +
                 p.number(s.side + 1) + "];");
  const cuda_tile in = detail::tile_along(p, s, q, last, s.across),
                  through = detail::tile_along(p, s, last, q, s.width);
  p.read(s.loads.loads, in, "z");
  plan::work w;
  for (const auto& st : k.stores)
    if (!p.is_uniform_store(st)) w.stores.push_back(&st);
  // Operands along the last axis are in flight while the tiles are transposed.
  series<int> direct;
  for (int id : p.remaining(w))
    if (p.at(id).kind == kind::load && !std::count(s.loads.loads.begin(), s.loads.loads.end(), id) &&
        !p.is_indirect(id))
      direct.push_back(id);
  p.read(direct, through);
  detail::turn_tiles(p, s, in, through);
  p.pass(
      through, w, {}, [](int) { return std::string(); }, [](const plan::store&, int, const std::string&) {});
}

}  // namespace sinter::engine::emit
