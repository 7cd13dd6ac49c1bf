// plan/loops/tree.hpp: a kernel's loops as data: pieces of axes, tiles of values, and statements about tiles.
#pragma once

#include "../kernel/contraction.hpp"

namespace sinter::engine::plan::loops {

/// What runs the turns of a loop.
enum class bind : std::uint8_t {
  ordered,   ///< one thread, in order
  grid,      ///< tasks of a CPU, blocks of a GPU, in any order
  threads,   ///< the threads of a block; with a matrix row of a warp, its warps
  lanes,     ///< lanes of a vector
  unrolled,  ///< one thread, without a loop
  matrix,    ///< an intrinsic
};
/// What becomes of the turns beyond an axis's end.
enum class tail : std::uint8_t {
  none,   ///< there are none
  guard,  ///< statements test the position
  peel,   ///< the last turn is a loop of its own
  pad,    ///< tiles hold what changes no sum
};
enum class space : std::uint8_t { registers, stack, shared, scratch };
enum class layout : std::uint8_t { rows, panel, vnni, swizzle32, swizzle64, swizzle128 };
enum class mover : std::uint8_t {
  threads,  ///< done when the statement is
  async,    ///< done at the wait of the thread that asked
  tma,      ///< the same; one thread asks for all
};
/// Which turns of a piece a loop takes.
enum class turns : std::uint8_t {
  all,
  full,  ///< those with all turns of the inner piece
  edge,  ///< the one behind them, if any
  head,  ///< the first `ahead`, before the loop
  next,  ///< inside the loop: the one `ahead` of the current turn, if any
};

/// A loop. A position along an axis is the sum of turn · step over the open loops of that axis.
struct piece {
  int axis = -1;
  int parent = -1;  ///< the piece from which a split took it
  dim extent, step = 1;
  bind to = bind::ordered;
  tail rest = tail::none;
  series<affine> low, high;  ///< positions of the axis below each low, and from each high on, change nothing
  int of = -1;               ///< of another loop over the same piece: that piece
  turns part = turns::all;
  std::int64_t ahead = 0;
};

/// The extent of a tile along an axis, or with the turn of `piece` as the place.
struct side {
  int axis = -1;
  dim extent;
  int piece = -1;
};

/// The values of an instruction at all positions of the pieces inside the loop `at`. Tiles in registers and on the stack are each
/// thread's own.
struct tile {
  int value = -1;
  series<side> along;
  dtype type = dtype::f32;
  space in = space::registers;
  layout as = layout::rows;
  int slots = 1;              ///< the turns of `at` take them in turn
  int behind = 0;             ///< products of this many earlier turns may still read their slots
  int at = -1;                ///< -1: outside all loops
  int memory = -1;            ///< a tile in the same memory, which has the same elements along other axes
  int row = -1, operand = 0;  ///< the lanes of a warp hold it as operand 0, 1 (x, y) or 2 (sum) of this intrinsic
  bool accumulates = false;   ///< the result of merges
  std::uint32_t padded = 0;   ///< bit a: beyond the end of axis a it holds `neutral`
  ir::scalar neutral{};
};

enum class act : std::uint8_t {
  loop,     ///< `inside` over `piece`; -1: once
  fill,     ///< `to` with what merges to nothing
  define,   ///< the value at this position into `to`
  copy,     ///< all positions of `to`: memory or values into a tile that threads share
  matrix,   ///< one intrinsic `row` over the pieces `over`, into `to`
  merge,    ///< `value` with its args at this position, over the pieces `over`; with `tile`, with that partial result
  store,    ///< store number `value`
  wait,     ///< for all copies into `tile` but the newest `lag`
  barrier,  ///< of all threads of the block
};

/// A statement. `body` are the instructions computed at its positions.
struct node {
  act what = act::loop;
  int piece = -1, value = -1, tile = -1, to = -1, row = -1;
  int lag = 0;   ///< wait
  int part = 0;  ///< fill: the number of the tuple
  mover by = mover::threads;
  std::uint32_t guards = 0;  ///< bit a: nothing is done beyond the end of axis a
  series<int> inside;        ///< loop: statements
  series<int> over;          ///< pieces without a loop
  series<int> body;
};

/// The order in which the terms of a reduction are added: the pieces of its axes, outermost first.
struct fold {
  int value = -1;
  series<int> order;
  bool operator==(const fold&) const = default;
};

/// The statements of one launch; `root` is a loop without a piece.
struct launch {
  int root = -1;
};

struct tree {
  const kernel* code = nullptr;
  series<piece> pieces;
  series<loops::tile> tiles;
  series<node> nodes;
  series<fold> folds;
  series<launch> launches;

  const instruction& at(int value) const { return code->body[static_cast<std::size_t>(value)]; }
  const piece& loop(int p) const { return pieces[static_cast<std::size_t>(p)]; }
  /// The tile whose memory, and whose copies, tile x has.
  int memory_of(int x) const {
    const int other = tiles[static_cast<std::size_t>(x)].memory;
    return other < 0 ? x : other;
  }
  node& operator[](int n) { return nodes[static_cast<std::size_t>(n)]; }
  const node& operator[](int n) const { return nodes[static_cast<std::size_t>(n)]; }
  /// The piece that a loop over p takes turns of.
  int origin(int p) const { return loop(p).of < 0 ? p : loop(p).of; }
  int add(node n) {
    nodes.push_back(std::move(n));
    return static_cast<int>(nodes.size()) - 1;
  }
};

/// The axes along which a reduction's result varies: all its parts together.
inline std::uint32_t axes_over(const instruction& i) {
  std::uint32_t mask = 0;
  for (int a : i.over) mask |= 1u << a;
  return mask;
}

/// Calls f(int) with each operand of an instruction; `at.index` is one.
template <class F>
void for_each_operand(const instruction& i, F&& f) {
  for (int a : i.args) f(a);
  if (i.at.at.index >= 0) f(i.at.at.index);
  for (const auto& r : i.ranges)
    if (r.at.index >= 0) f(r.at.index);
}

/// The axes along which a load or a position varies by its own strides.
inline std::uint32_t axes_of(const affine& at) {
  std::uint32_t mask = 0;
  for (std::size_t a = 0; a < at.stride.size(); ++a)
    if (!at.stride[a].is(0)) mask |= 1u << a;
  return mask;
}

/// Those pieces whose axis is in a mask.
inline series<int> pieces_along(const tree& t, const series<int>& pieces, std::uint32_t axes) {
  series<int> out;
  for (int p : pieces)
    if (axes >> t.loop(p).axis & 1u) out.push_back(p);
  return out;
}

/// The axes of a tile's sides; a side of one piece is none.
inline std::uint32_t axes_of_tile(const tree& t, int x) {
  std::uint32_t mask = 0;
  for (const auto& s : t.tiles[static_cast<std::size_t>(x)].along)
    if (s.piece < 0) mask |= 1u << s.axis;
  return mask;
}

/// Calls f(int node) for `from` and all statements inside it, outermost first.
template <class F>
void for_each_inside(const tree& t, int from, F&& f) {
  f(from);
  for (int n : t[from].inside) for_each_inside(t, n, f);
}

/// ceil(a / b)
inline dim ceil_div(const dim& a, const dim& b) { return b.is(1) ? a : ir::floor_div(a + b - dim(1), b); }

/// The number of positions that the pieces of an axis cover together, of those that `counts` accepts.
template <class F>
dim span_of_pieces(const tree& t, int axis, F&& counts) {
  dim n = 1;
  for (std::size_t p = 0; p < t.pieces.size(); ++p)
    if (t.pieces[p].axis == axis && t.pieces[p].of < 0 && counts(static_cast<int>(p))) n *= t.pieces[p].extent;
  return n;
}

}  // namespace sinter::engine::plan::loops
