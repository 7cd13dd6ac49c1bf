// plan/loops/fragments.hpp: which lanes of a warp hold which elements of a tile: an intrinsic's operand, or one of its sides.
#pragma once

#include "../schedule/intrinsics.hpp"
#include "uses.hpp"

namespace sinter::engine::plan::loops {

/// The pieces of an intrinsic that are the rows and the columns of a fragment; -1: it has one side alone.
struct held_fragment {
  int rows = -1, columns = -1;
  const schedules::fragment* lanes = nullptr;
};

namespace detail {

/// The axes of rows, columns and terms of a statement's intrinsic.
struct matrix_axes {
  series<int> m, n, k;
};
inline std::optional<matrix_axes> axes_of_matrix(const tree& t, const node& n) {
  if (n.row < 0) return std::nullopt;
  std::optional<contraction> c;
  if (n.what == act::matrix) c = contraction_of(*t.code, n.value);
  if (n.what == act::merge)
    for (std::size_t p = 1; p < t.at(n.value).args.size() && !c; ++p) c = contraction_of_part(*t.code, n.value, p);
  if (!c) return std::nullopt;
  return matrix_axes{c->m, c->n, c->k};
}
inline int piece_among(const tree& t, const series<int>& pieces, const series<int>& axes) {
  for (int p : pieces)
    if (t.loop(p).to == bind::matrix && std::count(axes.begin(), axes.end(), t.loop(p).axis)) return p;
  return -1;
}

/// The lanes of an operand of an intrinsic whose columns are the turns of a piece: of one block, or of several side by side.
inline const schedules::fragment* lanes_of(const tree& t, int row, int operand, int columns) {
  const auto& i = schedules::intrinsics()[static_cast<std::size_t>(row)];
  const int n = columns < 0 ? 1 : schedules::blocks_of(i, operand, t.loop(columns).extent.number().value_or(0));
  return n > 1 ? &schedules::fragment_of_blocks(row, operand, n) : &schedules::operand_of(i, operand);
}

}  // namespace detail

/// How lanes take the turns of `pieces`, which intrinsics have: as sums, if they do, else as a left or a right operand.
inline held_fragment fragment_over(const tree& t, const series<int>& pieces) {
  for (int operand : {2, 0, 1})
    for (const auto& n : t.nodes) {
      const auto axes = detail::axes_of_matrix(t, n);
      if (!axes) continue;
      held_fragment out{detail::piece_among(t, pieces, operand == 1 ? axes->k : axes->m),
                        detail::piece_among(t, pieces, operand == 0 ? axes->k : axes->n), nullptr};
      out.lanes = detail::lanes_of(t, n.row, operand, out.columns);
      const auto found = static_cast<std::size_t>((out.rows >= 0) + (out.columns >= 0));
      if (found == pieces.size() && found > 0) return out;
    }
  return {};
}

/// How lanes hold a thread's tile; `inside` are the pieces inside its loop. Without `lanes` each thread has all of it.
inline held_fragment fragment_of(const tree& t, int x, const series<int>& inside) {
  const tile& tile = t.tiles[static_cast<std::size_t>(x)];
  series<int> mine;
  for (int p : inside)
    for (const auto& s : tile.along)
      if (s.piece < 0 && t.loop(p).axis == s.axis && t.loop(p).to == bind::matrix) mine.push_back(p);
  if (mine.empty()) return {};
  if (tile.row < 0) return fragment_over(t, mine);
  for (const auto& n : t.nodes) {
    const auto axes = detail::axes_of_matrix(t, n);
    if (!axes || n.row != tile.row) continue;
    held_fragment out{detail::piece_among(t, mine, tile.operand == 1 ? axes->k : axes->m),
                      detail::piece_among(t, mine, tile.operand == 0 ? axes->k : axes->n), nullptr};
    out.lanes = detail::lanes_of(t, tile.row, tile.operand, out.columns);
    if (out.rows >= 0 && out.columns >= 0) return out;
  }
  return {};
}

}  // namespace sinter::engine::plan::loops
