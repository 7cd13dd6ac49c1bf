// plan/schedule/step.hpp: a schedule: the steps that make a tree of a kernel.
#pragma once

#include <string_view>
#include <variant>

#include "../loops/tree.hpp"

namespace sinter::engine::plan::schedules {

/// `piece` keeps its number as the outer part; the inner part, of `by` turns, is the next new piece.
struct split {
  int piece;
  dim by;
  loops::tail rest = loops::tail::none;
};
/// All pieces that were not split further, outermost first.
struct reorder {
  series<int> pieces;
};
struct bind_to {
  int piece;
  loops::bind to;
};
/// The value is in a tile, made inside the loop `at`; -1: before all loops.
struct stage {
  int value, at;
  loops::space in;
  loops::layout as = loops::layout::rows;
  int slots = 1;
  loops::mover by = loops::mover::threads;
  int behind = 0;  ///< products of this many earlier turns may still run
};
/// The reduction starts, and ends, inside the loop `at`.
struct keep {
  int value, at;
  loops::space in = loops::space::registers;
};
/// The contraction is computed by a row of the intrinsics over the pieces bound to `matrix`.
struct use_matrix {
  int value, row;
};
/// The partial sums of the turns of `over` are added: in a block, or by a launch of its own.
struct share {
  int value, over;
  enum class way : std::uint8_t { block, launch } how;
};
/// The value of the turn of `over` after the current one is computed before the current one is used.
struct skew {
  int value, over;
};

using step = std::variant<split, reorder, bind_to, stage, keep, use_matrix, share, skew>;

struct schedule {
  std::string_view recipe;
  series<step> steps;
};

}  // namespace sinter::engine::plan::schedules
