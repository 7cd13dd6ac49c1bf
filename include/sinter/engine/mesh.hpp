// engine/mesh.hpp: meshes of ranks, for <sinter/mesh.hpp>.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "../base/callback.hpp"
#include "../base/config.hpp"
#include "../ir/mesh_axes.hpp"
#include "tracer.hpp"

namespace sinter::engine {

/// An axis of a mesh: its number in the graph's attributes, its ranks, and this rank's index; -1 for a mesh without ranks.
struct mesh_axis_place {
  std::int64_t number = 0, ranks = 1, index = -1;
};

/// This thread's rank among the ranks of the program. (jit/meshes.hpp)
struct rank_place {
  int rank = 0, ranks = 1;
};
SINTER_API rank_place current_rank();

/// Runs f(rank) on a thread for each rank; these are the ranks of meshes that f makes. Rethrows the first rank's exception.
SINTER_API void run_on_threads(int ranks, const sinter::detail::callback<void(int)>& f);

/// The axes of a mesh with these names and extents. With `joined`, of this program's ranks in row-major order: user_error
/// unless the product of the extents is their number. Without, of no ranks. (jit/meshes.hpp)
SINTER_API series<mesh_axis_place> mesh_axes(std::span<const std::string> names, std::span<const std::int64_t> extents,
                                             bool joined, location at);

/// The results of the graph of `body` on all ranks of a mesh, as ordinary ops. Operands are for the inputs of `body`, in
/// order. Operands and results have an axis of ranks in front for each axis of the mesh. (batch/simulate.hpp)
SINTER_API series<ir::node_id> push_ranks(tracer& t, tracer& body, series<ir::node_id> operands,
                                          std::span<const mesh_axis_place> axes, location where);

/// How a tensor is held along each axis of a mesh; `along` is the tensor's axis that is divided among the ranks, or -1.
struct mesh_placement {
  ir::placement how = ir::placement::invariant;
  int along = -1;
};
/// A whole tensor as the operand of push_ranks, and the whole tensor of a result. user_error for an extent that does not
/// divide. (batch/simulate.hpp)
SINTER_API ir::node_id cut_for_ranks(tracer& t, ir::node_id x, std::span<const mesh_axis_place> axes,
                                     std::span<const mesh_placement> how, location where);
SINTER_API ir::node_id join_ranks(tracer& t, ir::node_id x, std::span<const mesh_axis_place> axes,
                                  std::span<const mesh_placement> how, location where);
/// This rank's part of a whole tensor, which all ranks have.
SINTER_API ir::node_id own_part(tracer& t, ir::node_id x, std::span<const mesh_axis_place> axes,
                                std::span<const mesh_placement> how, location where);
/// The results of the graph of `body`, which is of whole tensors, computed by all ranks from their parts: whole, replicated.
/// `how` has a placement for each operand and axis of the mesh. user_error where two operands are divided by one axis in ways that
/// exclude each other. (batch/auto_shard.hpp)
SINTER_API series<ir::node_id> push_sharded(tracer& t, tracer& body, series<ir::node_id> operands,
                                            std::span<const mesh_placement> how, std::span<const mesh_axis_place> axes,
                                            location where);
/// Pushes an op over a mesh axis: `more` are its further ints.
SINTER_API ir::node_id push_over_axis(tracer& t, ir::op code, series<ir::node_id> in, const mesh_axis_place& axis,
                                      std::initializer_list<std::int64_t> more, ir::op combiner, location where);
/// Pushes the way of x from one placement to another that needs no communication.
SINTER_API ir::node_id push_as(tracer& t, ir::node_id x, const mesh_axis_place& axis, ir::placement from,
                               ir::placement to, location where);

/// The ring of a mesh axis: rank r receives from rank r - by.
SINTER_API ir::node_id push_shift(tracer& t, ir::node_id x, const mesh_axis_place& axis, std::int64_t by,
                                  location where);
/// This rank's part of an invariant or a replicated value. user_error for an extent that does not divide.
SINTER_API ir::node_id own_slice(tracer& t, ir::node_id x, const mesh_axis_place& axis, ir::placement from, int along,
                                 location where);
/// x held as `to`, from the placement that the graph tells. user_error that names both if that takes
/// communication. (batch/placements.hpp)
SINTER_API ir::node_id push_traced_as(tracer& t, ir::node_id x, const mesh_axis_place& axis, ir::placement to,
                                      location where);

/// The placement of a node along an axis, as far as the graph tells it; constants are invariant. user_error for a node on
/// the way that combines placements without a meaning. (batch/placements.hpp)
SINTER_API ir::placement placement_of(const tracer& t, ir::node_id x, std::int64_t axis);
/// Checks all nodes that `outputs` need in the same way.
SINTER_API void check_placements(const tracer& t, std::span<const ir::node_id> outputs,
                                 std::span<const mesh_axis_place> axes);

}  // namespace sinter::engine

// After the declarations, which the definitions that it brings along need.
#include "engine.hpp"

#if !defined(SINTER_COMPILED)
#include "../jit/meshes.hpp"
#endif
