// emit/cuda/pointwise.hpp: kernels without reductions -> CUDA: flattened vectors, scatter_add, tiles for transposes.
#pragma once

#include "../../base/series.hpp"
#include "../tiling.hpp"
#include "body.hpp"

namespace sinter::engine::emit {

/// The distribution of a kernel without reductions over threads.
struct pointwise_shape {
  int axis = -1;  ///< of the lanes
  int width = 1, vectors = 1, threads = 256;
  bool rest = false;     ///< the last elements do not fill a vector
  bool in_part = false;  ///< the last elements of a row do not fill a vector
  dim count;             ///< number of vectors
  dim blocks;
};

namespace detail {

inline dim elements(const kernel& k) {
  dim n = 1;
  for (const auto& a : k.axes) n *= a.extent;
  return n;
}

inline bool scatters(const kernel& k) {
  return std::any_of(k.stores.begin(), k.stores.end(), [](const auto& s) { return s.accumulate; });
}

/// The number of vectors of `width` elements that a thread of `all` has in flight. 16 bytes from each of 2048 threads are the
/// 32 KiB that a multiprocessor's share of the bandwidth requires. Cached data is faster and requires 32. Gathers wait twice,
/// and costly arithmetic on f16 shares its indices: they require 64. (bench/gpu and similar measurements on an H200.)
inline int vectors_of(const kernel& k, int width, std::int64_t all) {
  int loads = 0;
  std::int64_t each = 1, bytes = 16;
  for (const auto& i : k.body) {
    if (i.kind == kind::compute && width > 4 && ir::is_expensive(i.code)) bytes = 64;
    if (i.kind != kind::load || i.axes == 0) continue;
    ++loads;
    each = std::max(each, width * static_cast<std::int64_t>(size_of(i.type)));
    if (i.at.at.index >= 0) bytes = 64;
  }
  if (all * each < once_bytes) bytes = std::max<std::int64_t>(bytes, 32);
  return static_cast<int>(std::clamp<std::int64_t>(bytes / each, 1, loads <= 2 ? 4 : loads <= 4 ? 2 : 1));
}

/// `threads` is the size of a block, if given; `count` is the number of elements of a launch for several kernels.
inline pointwise_shape shape_of(const kernel& k, const cuda_target& t, int threads = 0, std::int64_t count = 0) {
  pointwise_shape s;
  s.axis = static_cast<int>(k.axes.size()) - 1;
  const bool flat = k.axes.size() == 1;
  s.width = vector_width(k, s.axis, flat ? tail::apart : tail::lanes);
  const dim n = elements(k);
  s.rest = flat && !divides(s.width, n);
  s.in_part = !flat && s.width > 1 && !divides(s.width, k.axes.back().extent);
  s.count = s.rest ? floor_div(n, s.width) : vectors_of_row(n, s.width);
  if (s.in_part) s.count = *n.divided_by(k.axes.back().extent) * vectors_of_row(k.axes.back().extent, s.width);
  const std::int64_t vectors = (count > 0 ? count : n.number().value_or(std::int64_t{1} << 24)) / s.width;
  s.vectors = vectors_of(k, s.width, vectors);
  while (s.vectors > 1 && vectors / (s.vectors * s.threads) < 4 * t.multiprocessors) s.vectors /= 2;
  while (!threads && s.threads > 64 && vectors < static_cast<std::int64_t>(s.threads) * t.multiprocessors)
    s.threads /= 2;
  if (threads) s.threads = threads;
  s.blocks = s.rest ? ceil_div(n, std::int64_t{s.width} * s.vectors * s.threads)
                    : ceil_div(s.count, std::int64_t{s.vectors} * s.threads);
  return s;
}

}  // namespace detail

/// A small destination of many updates: each block sums them in shared memory, and then adds its sums to the destination.
struct block_sums {
  const plan::store* store = nullptr;
  std::int64_t elements = 0;  ///< from the buffer's first element to the last that an update may reach
  std::int64_t rounds = 1;    ///< rounds of a pointwise_shape's blocks in one block
};

namespace detail {

/// Elements of a buffer up to the last that a store may reach.
inline std::optional<std::int64_t> reach_of(const kernel& k, const plan::store& s) {
  const auto& a = s.at.at;
  const auto offset = a.offset.number(), by = a.indirect.number(), bound = s.bound.number();
  if (!offset || !by || !bound || *offset < 0 || *by < 0 || *bound < 1 || *bound > (1 << 20) || *by > (1 << 20))
    return std::nullopt;
  std::int64_t last = *offset + *by * (*bound - 1);
  for (std::size_t x = 0; x < k.axes.size(); ++x) {
    const auto stride = a.stride[x].number(), n = k.axes[x].extent.number();
    if (stride && *stride == 0) continue;
    if (!stride || !n || *stride < 0 || *stride > (1 << 20) || *n < 1 || *n > (1 << 20)) return std::nullopt;
    last += *stride * (*n - 1);
  }
  return last + 1;
}

/// Updates of one address wait for each other in the L2 cache, of which a small destination uses few parts: 1e6 counts of 100
/// bins take 300 us there. A block that sums first has at least four times as many updates as elements, and there are as many
/// blocks as run at once.
inline std::optional<block_sums> block_sums_of(const kernel& k, const pointwise_shape& s, const cuda_target& t) {
  constexpr std::int64_t most_bytes = 16 << 10, updates_each = 4;
  block_sums b;
  for (const auto& st : k.stores) {
    if (!st.accumulate) continue;
    if (b.store != nullptr || st.combiner != ir::op::add) return std::nullopt;
    b.store = &st;
  }
  if (b.store == nullptr) return std::nullopt;
  const auto reach = reach_of(k, *b.store);
  const auto size = static_cast<std::int64_t>(size_of(type_of(k, b.store->at)));
  if (!reach || *reach * size > most_bytes) return std::nullopt;
  b.elements = *reach;
  const std::int64_t each = std::int64_t{s.threads} * s.vectors * s.width;
  const auto blocks = s.blocks.number();
  if (!blocks) {
    b.rounds = std::max<std::int64_t>((updates_each * b.elements + each - 1) / each, 8);
    return b.rounds <= 16 ? std::optional(b) : std::nullopt;
  }
  const std::int64_t at_once = std::min<std::int64_t>(*blocks, 4 * t.multiprocessors);
  const std::int64_t used = std::min(at_once, *blocks * each / (updates_each * b.elements));
  if (used < std::min<std::int64_t>(*blocks, t.multiprocessors) || used < 1) return std::nullopt;
  b.rounds = (*blocks + used - 1) / used;
  return b;
}

}  // namespace detail

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
SINTER_API void print_pointwise(cuda_printer& p, const pointwise_shape& s, const plan::store* sums = nullptr) {
  const kernel& k = p.code();
  writer& out = p.out();
  p.uniform_values();
  p.uniform_stores();
  cuda_printer::work w;
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
  cuda_tile t;
  t.vectors = s.vectors;
  t.width = s.width;
  t.axis = s.axis;
  t.in_part = s.in_part;
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
SINTER_API void print_block_sums(cuda_printer& p, const pointwise_shape& s, const block_sums& b) {
  writer& out = p.out();
  const std::string type = memory_type(type_of(p.code(), b.store->at)), n = p.number(b.elements),
                    each = "for (int e = threadIdx.x; e < " + n + "; e += " + p.number(s.threads) + ") ";
  // Atomic additions to elements of 8 and 16 bits use the containing word.
  out.line("__shared__ __align__(8) " + type + " sums[" + p.number((b.elements + 3) / 4 * 4) + "];");
  out.line(each + "sums[e] = " + type + "{};");
  out.line("__syncthreads();");
  out.line("const long begin = (long)block*" + p.number(b.rounds) + ";");
  const auto outer = p.scope();
  out.block("for (long block = begin; block < begin + " + p.number(b.rounds) + " && block < " + s.blocks.text() +
                "; ++block)",
            [&] { print_pointwise(p, s, b.store); });
  p.leave(outer);
  out.line("__syncthreads();");
  out.line(each + "if (load1(sums + e) != 0) atomic_add(" + p.pointer(b.store->at.buffer) + " + e, load1(sums + e));");
}

/// A scatter in order: threads take the axes along which updates never meet, and walk the other axes sequentially.
SINTER_API void print_ordered_scatter(cuda_printer& p, const dim& parallel, int threads) {
  const kernel& k = p.code();
  writer& out = p.out();
  const auto& s = k.stores[0];
  series<std::size_t> apart, ordered;
  for (std::size_t a = 0; a < k.axes.size(); ++a) (s.at.at.stride[a].is(0) ? ordered : apart).push_back(a);
  p.uniform_values();
  out.line("const " + p.flat() + " f = (" + p.flat() + ")block*" + p.number(threads) + " + threadIdx.x;");
  out.line("if (f >= " + p.count(parallel) + ") return;");
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

/// The axes of a kernel that make a tile of `side` by `side`: the lanes' axis, and the axis along which some loads are
/// contiguous.
struct tile_shape {
  tiling loads;
  int side = 64, threads = 256;
  int width = 1, across = 1;  ///< elements per access along the last axis, and along the tiling's
  dim blocks;
};

namespace detail {

inline std::optional<tile_shape> tile_of(const kernel& k) {
  const auto found = find_tiling(k);
  if (!found) return std::nullopt;
  tile_shape s;
  s.loads = *found;
  const int last = static_cast<int>(k.axes.size()) - 1, q = static_cast<int>(found->axis);
  std::int64_t bytes = 0, widest = 1;
  s.across = 16;
  for (int id : found->loads) {
    const auto& i = k.body[static_cast<std::size_t>(id)];
    const auto size = static_cast<std::int64_t>(size_of(i.type));
    widest = std::max(widest, size);
    int w = static_cast<int>(16 / size);
    while (w > 1 && !(is_vector_access(k, i.at, q, w) && divides(w, k.axes[found->axis].extent))) w /= 2;
    s.across = std::min(s.across, w);
    bytes += size;
  }
  s.width = std::min(vector_width(k, last, tail::none), 8);
  s.across = std::min(s.across, 8);
  // At least two blocks on a multiprocessor, within the 48 KiB that need no opt-in.
  while (s.side > 16 && bytes * s.side * (s.side + 1) > (24 << 10)) s.side /= 2;
  if (bytes * s.side * (s.side + 1) > (47 << 10)) return std::nullopt;
  s.blocks = ceil_div(k.axes[found->axis].extent, s.side) * ceil_div(k.axes.back().extent, s.side);
  for (std::size_t a = 0; a + 1 < k.axes.size(); ++a)
    if (a != found->axis) s.blocks *= k.axes[a].extent;
  return s;
}

/// The start of a block's tile, and its place along the other axes; neighbouring blocks follow the written axis.
inline void place_tile(cuda_printer& p, const tile_shape& s) {
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
inline cuda_tile tile_along(cuda_printer& p, const tile_shape& s, std::size_t fast, std::size_t slow, int width) {
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
inline void turn_tiles(cuda_printer& p, const tile_shape& s, const cuda_tile& in, const cuda_tile& through) {
  writer& out = p.out();
  p.over_vectors(in, [&] {
    p.over_lanes(in, [&] {
      const std::string lane = s.across == 1 ? "" : " + l";
      for (int id : s.loads.loads)
        out.line("tile" + p.number(id) + "[fast" + lane + "][slow] = z" + p.number(id) + "[u].e[" +
                 (s.across == 1 ? "0" : "l") + "];");
    });
  });
  out.line("__syncthreads();");
  for (int id : s.loads.loads) p.declare_pack(id, through);
  p.over_vectors(through, [&] {
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
SINTER_API void print_tiles(cuda_printer& p, const tile_shape& s) {
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
  cuda_printer::work w;
  for (const auto& st : k.stores)
    if (!p.is_uniform_store(st)) w.stores.push_back(&st);
  // Operands along the last axis are in flight while the tiles are transposed.
  series<int> direct;
  for (int id : p.needed(w))
    if (p.at(id).kind == kind::load && !std::count(s.loads.loads.begin(), s.loads.loads.end(), id) &&
        !p.is_indirect(id))
      direct.push_back(id);
  p.read(direct, through);
  detail::turn_tiles(p, s, in, through);
  p.pass(
      through, w, {}, [](int) { return std::string(); }, [](const plan::store&, int, const std::string&) {});
}

}  // namespace sinter::engine::emit
