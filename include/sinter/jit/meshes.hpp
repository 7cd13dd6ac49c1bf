// jit/meshes.hpp: meshes over the ranks of a program: the definitions for engine/mesh.hpp.
#pragma once

#include "../batch/auto_shard.hpp"
#include "../batch/placements.hpp"
#include "../batch/simulate.hpp"
#include "../engine/mesh.hpp"
#include "../run/mesh/processes.hpp"
#include "../run/ranks.hpp"

namespace sinter::engine {

SINTER_API rank_place current_rank() {
  const auto place = run::rank_of_process();
  return {place.first, place.second};
}

SINTER_API void run_on_threads(int ranks, const sinter::detail::callback<void(int)>& f) {
  run::run_on_threads(ranks, f);
}

namespace detail {

/// The names of a mesh's axes in graphs: they tell meshes of other extents apart.
inline std::string layout_of(std::span<const std::string> names, std::span<const std::int64_t> extents) {
  std::string out;
  for (std::size_t k = 0; k < names.size(); ++k) out += (k ? "," : "") + names[k] + ":" + std::to_string(extents[k]);
  return out;
}

/// The ranks that differ from `rank` in axis k only, ascending.
inline std::vector<int> ranks_along(std::span<const std::int64_t> extents, std::size_t k, int rank) {
  std::int64_t inner = 1;
  for (std::size_t j = k + 1; j < extents.size(); ++j) inner *= extents[j];
  const std::int64_t index = rank / inner % extents[k], first = rank - index * inner;
  std::vector<int> out;
  for (std::int64_t i = 0; i < extents[k]; ++i) out.push_back(static_cast<int>(first + i * inner));
  return out;
}

}  // namespace detail

SINTER_API series<mesh_axis_place> mesh_axes(std::span<const std::string> names, std::span<const std::int64_t> extents,
                                             bool joined, location at) {
  std::int64_t all = 1;
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (extents[k] < 1 || extents[k] > 1 << 20)
      fail("make_mesh", names[k] + " has " + std::to_string(extents[k]) + " ranks; give each axis 1 or more", at);
    if (all > (1 << 20) / extents[k]) fail("make_mesh", "the mesh has more than 2^20 ranks", at);
    all *= extents[k];
  }
  if (joined) run::join_processes(at);
  run::rank_world& world = run::world();
  const std::string layout = detail::layout_of(names, extents);
  if (joined && all != world.size())
    fail("make_mesh",
         "the mesh (" + layout + ") has " + std::to_string(all) + " ranks, the program has " +
             std::to_string(world.size()) +
             "; give extents whose product is that number, or start as many: mpirun -np " + std::to_string(all) +
             " ./program, or on_threads(" + std::to_string(all) + ", f)",
         at);
  series<mesh_axis_place> out;
  for (std::size_t k = 0; k < names.size(); ++k) {
    const std::string name = names[k] + "@(" + layout + ")";
    mesh_axis_place axis{ir::mesh_axis_number(name), extents[k], -1};
    if (joined) {
      const auto members = detail::ranks_along(extents, k, world.rank());
      for (std::size_t i = 0; i < members.size(); ++i)
        if (members[i] == world.rank()) axis.index = static_cast<std::int64_t>(i);
      if (extents[k] > 1) world.bind(axis.number, world.group(name, members, at));
    }
    out.push_back(axis);
  }
  return out;
}

}  // namespace sinter::engine
