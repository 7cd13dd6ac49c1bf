// plan/lowering/ops/arg_reduce.hpp: like reduce; the index along the reduced dimension is an instruction's position.
#pragma once

#include "reduce.hpp"

namespace sinter::engine::plan::ops {

struct arg_reduce_op : reduction {};

}  // namespace sinter::engine::plan::ops
