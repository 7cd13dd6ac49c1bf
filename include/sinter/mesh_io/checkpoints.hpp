// mesh_io/checkpoints.hpp: checkpoints of trees that the ranks of a mesh hold in parts: a file a rank, and an index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parts.hpp"

namespace sinter::io {

/// The last states of a run on a mesh. Each rank writes a file of its parts; then the first rank writes the index,
/// beside its file, and renames it: a state exists when its index does. A state loads on any mesh, and in a single process: each
/// rank maps the files and reads its own elements. Trees hold placed tensors, placed trees, row_shards, numbers, flags and text;
/// plain
/// tensors are taken as equal on all ranks. All ranks call save and resume, in the same order, and see the same folder.
template <class... A>
class mesh_checkpoints {
 public:
  mesh_checkpoints(std::string folder, const mesh<A...>& m, checkpoint_options how = {})
      : files_{folder, how, checkpoints(folder, how), layout(m), sum}, mesh_(m) {}

  /// Writes the state after a step. system_error on all ranks if one of them fails; earlier states stay.
  template <class T>
  void save(std::int64_t step, const T& tree, location at = location::current()) const {
    files_.save(step, parts_of(tree), mesh_.axes(), &mesh_, at);
  }

  /// Loads the last state into a tree, and returns its step; nothing without a state. user_error that names every leaf that does
  /// not fit; the tree then stays as it is.
  template <class T>
  std::optional<std::int64_t> resume(T& tree, location at = location::current()) const {
    const std::int64_t step = files_.last(mesh_.axes(), &mesh_, at);
    if (step < 0) return std::nullopt;
    load(step, tree, at);
    return step;
  }
  /// Loads the state of a step.
  template <class T>
  void load(std::int64_t step, T& tree, location at = location::current()) const {
    T loaded = tree;
    files_.load(step, parts_of(loaded), mesh_.axes(), at);
    tree = std::move(loaded);
  }

  /// The steps of the states in the folder, in order.
  std::vector<std::int64_t> steps() const { return files_.indexes.steps(); }

 private:
  template <class T>
  detail::part_walk parts_of(const T& tree) const {
    detail::part_walk out(mesh_.axes());
    out.add(tree);
    return out;
  }
  static std::string layout(const mesh<A...>& m) {
    std::string out;
    static_cast<void>(((out += (out.empty() ? "" : ",") + std::string(sinter::detail::meshes::axis_name<A>()) + ":" +
                               std::to_string(m.template size<A>())),
                       ...));
    return out;
  }
  static std::int64_t sum(const void* m, std::int64_t own, location at) {
    using one = placed<tensor<std::int64_t, 0>, varying<A>...>;
    const auto all = shard_map(
        *static_cast<const mesh<A...>*>(m), [](one x) { return all_reduce<invariant<A>...>(as<partial<A>...>(x)); },
        at)(one(tensor<std::int64_t, 0>(own)));
    return local(all).item();
  }

  detail::part_files files_;
  mesh<A...> mesh_;
};
template <class... A>
mesh_checkpoints(std::string, const mesh<A...>&, checkpoint_options) -> mesh_checkpoints<A...>;
template <class... A>
mesh_checkpoints(const char*, const mesh<A...>&) -> mesh_checkpoints<A...>;
template <class... A>
mesh_checkpoints(std::string, const mesh<A...>&) -> mesh_checkpoints<A...>;

}  // namespace sinter::io
