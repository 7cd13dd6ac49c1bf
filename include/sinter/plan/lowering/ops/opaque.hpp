// plan/lowering/ops/opaque.hpp: what is in memory by other means than kernels: inputs, and results of steps between kernels.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

/// No kernel computes it.
struct given : in_memory {
  static constexpr bool stored = false;
};

struct opaque_op : given {};
struct pick_op : given {};
struct input_op : given {};

}  // namespace sinter::engine::plan::ops
