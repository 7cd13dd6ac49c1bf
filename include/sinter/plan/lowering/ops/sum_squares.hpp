// plan/lowering/ops/sum_squares.hpp: as reduce; the squares are the emitter's.
#pragma once

#include "reduce.hpp"

namespace sinter::engine::plan::ops {

struct sum_squares_op : reduction {};

}  // namespace sinter::engine::plan::ops
