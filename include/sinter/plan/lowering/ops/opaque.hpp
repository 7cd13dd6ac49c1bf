// plan/lowering/ops/opaque.hpp: nodes that get into memory without kernels: inputs, and results of steps between kernels.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

/// A node that no kernel computes.
struct given : in_memory {
  static constexpr bool stored = false;
};

struct opaque_op : given {};
struct pick_op : given {};
struct input_op : given {};

}  // namespace sinter::engine::plan::ops
