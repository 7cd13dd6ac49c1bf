// plan/lowering/ops/scatter_add.hpp: like scatter.
#pragma once

#include "scatter.hpp"

namespace sinter::engine::plan::ops {

struct scatter_add_op : scatter_op {};

}  // namespace sinter::engine::plan::ops
