// plan/lowering/ops/sum_squares.hpp: like reduce; the emitter computes the squares.
#pragma once

#include "reduce.hpp"

namespace sinter::engine::plan::ops {

struct sum_squares_op : reduction {};

}  // namespace sinter::engine::plan::ops
