// mesh/mesh.hpp: meshes: names of axes, extents, and this rank's place.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "../engine/mesh.hpp"
#include "placements.hpp"

namespace sinter {

namespace detail::meshes {

/// The address of a variable for each axis.
template <class A>
inline constexpr char axis_tag = 0;

/// An axis of the mesh whose function is being traced.
struct known_axis {
  const void* tag = nullptr;
  engine::mesh_axis_place place;
};
/// The mesh of the innermost shard_map or simulate on this thread.
struct scope_of_mesh {
  const known_axis* first = nullptr;
  std::size_t count = 0;
};
inline constinit thread_local scope_of_mesh current_mesh{};

class mesh_scope {
 public:
  explicit mesh_scope(scope_of_mesh now) : before_(std::exchange(current_mesh, now)) {}
  ~mesh_scope() { current_mesh = before_; }
  mesh_scope(const mesh_scope&) = delete;
  mesh_scope& operator=(const mesh_scope&) = delete;

 private:
  scope_of_mesh before_;
};

/// The axis A of the current mesh. user_error outside of shard_map and simulate.
template <class A>
const engine::mesh_axis_place& current_axis(const char* op, location at) {
  for (std::size_t k = 0; k < current_mesh.count; ++k)
    if (current_mesh.first[k].tag == &axis_tag<A>) return current_mesh.first[k].place;
  fail(op,
       "there is no mesh with the axis " + std::string(axis_name<A>()) +
           " here; call it in a function that shard_map(m, f) or simulate(f, m) runs, where m has that axis",
       at);
}

}  // namespace detail::meshes

/// An index among the ranks of an axis.
struct mesh_slot {
  std::int64_t index = 0, count = 1;
};

/// A mesh of ranks with named axes, in row-major order; made by make_mesh() or simulated_mesh().
template <class... A>
class mesh {
  static_assert(sizeof...(A) > 0 && (... && std::is_base_of_v<mesh_axis, A>),
                "sinter: [mesh] an axis is a struct that derives from mesh_axis: struct dp : mesh_axis {};");
  template <class Axis>
  static constexpr bool is_once = (0 + ... + static_cast<int>(std::is_same_v<A, Axis>)) == 1;
  static_assert((... && is_once<A>), "sinter: [mesh] each axis of a mesh is a struct of its own");

 public:
  static constexpr int rank = static_cast<int>(sizeof...(A));

  /// For make_mesh() and simulated_mesh().
  explicit mesh(const series<engine::mesh_axis_place>& places) {
    std::size_t k = 0;
    static_cast<void>((..., (axes_[k] = {&detail::meshes::axis_tag<A>, places[k]}, ++k)));
  }

  /// The number of ranks along an axis.
  template <class Axis>
  std::int64_t size() const {
    return place<Axis>().ranks;
  }
  /// The number of ranks.
  std::int64_t size() const {
    std::int64_t n = 1;
    for (const auto& a : axes_) n *= a.place.ranks;
    return n;
  }
  /// This rank's index along an axis. user_error for a simulated mesh, in which no rank is this one.
  template <class Axis>
  std::int64_t index(location at = location::current()) const {
    const std::int64_t i = place<Axis>().index;
    if (i < 0)
      fail("mesh", "a simulated mesh has no rank of its own; axis_index<A>() is its index in the function", at);
    return i;
  }
  /// This rank's place along an axis, for data::batches.
  template <class Axis>
  mesh_slot slot(location at = location::current()) const {
    return {index<Axis>(at), size<Axis>()};
  }
  bool is_simulated() const { return axes_[0].place.index < 0; }
  /// The device of this rank.
  sinter::device device() const { return engine::default_device(); }

  const std::array<detail::meshes::known_axis, sizeof...(A)>& axes() const { return axes_; }
  detail::meshes::scope_of_mesh scope() const { return {axes_.data(), axes_.size()}; }

 private:
  template <class Axis>
  const engine::mesh_axis_place& place() const {
    constexpr bool known = (... || std::is_same_v<Axis, A>);
    static_assert(known, "sinter: [mesh] the mesh has no such axis");
    for (const auto& a : axes_)
      if (a.tag == &detail::meshes::axis_tag<Axis>) return a.place;
    return axes_[0].place;
  }

  std::array<detail::meshes::known_axis, sizeof...(A)> axes_;
};

namespace detail::meshes {
template <class... A>
mesh<A...> made_mesh(const std::array<std::int64_t, sizeof...(A)>& extents, bool joined, location at) {
  const std::array<std::string, sizeof...(A)> names{std::string(axis_name<A>())...};
  return mesh<A...>(engine::mesh_axes(names, extents, joined, at));
}
}  // namespace detail::meshes

/// The mesh of all ranks of the program, `make_mesh<dp, tp>({2, 4})`: row-major, the last axis fastest. Ranks are the threads of
/// on_threads(), or the processes that mpirun, srun or torchrun started; all call it, in the same order. The first call waits
/// for the other processes. A program alone has one rank. user_error unless the product of the extents is the number of ranks,
/// and for contradicting environment variables. system_error if the ranks do not meet.
template <class... A>
mesh<A...> make_mesh(const std::array<std::int64_t, sizeof...(A)>& extents, location at = location::current()) {
  return detail::meshes::made_mesh<A...>(extents, true, at);
}

/// A mesh without ranks, for simulate(f, m) in one process. user_error for an extent below 1.
template <class... A>
mesh<A...> simulated_mesh(const std::array<std::int64_t, sizeof...(A)>& extents, location at = location::current()) {
  return detail::meshes::made_mesh<A...>(extents, false, at);
}

/// This rank among the ranks of the program.
inline int mesh_rank() { return engine::current_rank().rank; }
/// The number of ranks of the program.
inline int mesh_ranks() { return engine::current_rank().ranks; }

/// Runs f(rank) on `ranks` threads, each of which is a rank of the meshes that f makes: for tests and debugging. Returns when
/// all have ended. If ranks throw, rethrows the first cause, by rank. user_error for less than 1 rank; system_error for more
/// than the system has threads.
template <class F>
void on_threads(int ranks, const F& f, location at = location::current()) {
  if (ranks < 1) fail("on_threads", std::to_string(ranks) + " ranks; give 1 or more", at);
  engine::run_on_threads(ranks, [&f](int rank) { f(rank); });
}

}  // namespace sinter
