// plan/lowering/ops/collective.hpp: collectives, which no kernel computes: compilation replaces them by steps before planning.
#pragma once

#include "op.hpp"

namespace sinter::engine::plan::ops {

struct all_reduce_op : in_memory {};
struct all_gather_op : in_memory {};
struct reduce_scatter_op : in_memory {};
struct all_to_all_op : in_memory {};
struct collective_permute_op : in_memory {};
struct collective_broadcast_op : in_memory {};
struct axis_index_op : in_memory {};
struct as_op : in_memory {};

}  // namespace sinter::engine::plan::ops
