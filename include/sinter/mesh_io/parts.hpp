// mesh_io/parts.hpp: the leaves of a tree that ranks hold in parts, as records; files are written and read by them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "../io/checkpoints.hpp"
#include "../mesh/row_shards.hpp"
#include "../mesh/shard_map.hpp"

namespace sinter::io::detail {

/// The axes of this rank's mesh, as checkpoints see them.
using mesh_axes_view = std::span<const sinter::detail::meshes::known_axis>;

/// A leaf of a tree, and how the ranks hold it.
struct part_leaf {
  enum class kind : std::uint8_t { tensor, text, bytes, flag };
  kind what = kind::bytes;
  dtype type = dtype::u8;
  std::string name;                                 ///< in files
  void* leaf = nullptr;                             ///< of a flag, its std::vector<bool>
  std::size_t size = 0;                             ///< the bytes of a value; the index of a flag
  std::vector<std::int64_t> extents;                ///< in this rank's memory
  std::vector<sinter::detail::meshes::hold> holds;  ///< along each axis of the mesh
  std::int64_t rows = -1;                           ///< of the whole tensor, where it is divided by rows
  bool defined = true;
  location donated;
  sinter::detail::handle (*value)(const void*, location) = nullptr;
  void (*assign)(void*, sinter::detail::handle, location) = nullptr;  ///< null: text that is not owned
};

/// Collects the leaves of a tree. Placements count as no level of names: a tree has the same names on any mesh.
class part_walk {
 public:
  explicit part_walk(mesh_axes_view axes) : axes_(axes) {}

  template <class T>
  void add(const T& tree) {
    const std::int64_t* none = nullptr;
    walk<sinter::detail::meshes::no_rule>(tree, sinter::detail::tree_place{}, none);
  }
  const std::vector<part_leaf>& leaves() const { return leaves_; }

 private:
  /// `rows` is null unless tensors are divided by rows.
  template <class Rule, class T>
  void walk(const T& t, const sinter::detail::tree_place& at, const std::int64_t*& rows) {
    namespace meshes = sinter::detail::meshes;
    namespace trees = sinter::detail;
    constexpr trees::branch b = trees::branch_of<T>();
    const auto deeper = [&](const auto& child, const trees::tree_place& place) { walk<Rule>(child, place, rows); };
    if constexpr (meshes::is_placed<T>) {
      tensor<typename T::placements>(meshes::held_access::local(t), -1, at);
    } else if constexpr (meshes::is_row_shards<T>) {
      check_rows(meshes::rows_in(meshes::held_access::local(t)).size(), t.rows().size());
      const std::int64_t* own = t.rows().data();
      walk<meshes::held_tree<T>>(meshes::held_access::local(t), at, own);
    } else if constexpr (meshes::any_held_tree<T>) {
      const std::int64_t* none = nullptr;
      walk<meshes::held_tree<T>>(meshes::held_access::local(t), at, none);
    } else if constexpr (b == trees::branch::tensor) {
      const std::int64_t own = rows ? *rows++ : -1;
      if constexpr (std::is_same_v<Rule, meshes::no_rule>) tensor<meshes::list<>>(t, own, at);
      else tensor<typename Rule::template at<T::rank>>(t, T::rank == 0 ? -1 : own, at);
    } else if constexpr (b == trees::branch::scalar) {
      scalar(t, at);
    } else if constexpr (b == trees::branch::array || b == trees::branch::vector) {
      for (std::size_t i = 0; i < t.size(); ++i) {
        const trees::tree_place place{&at, i, nullptr, nullptr};
        if constexpr (std::is_lvalue_reference_v<decltype(t[0])>) deeper(t[i], place);
        else push(part_leaf::kind::flag, dtype::b8, place, &t).size = i;  // std::vector<bool>
      }
    } else if constexpr (b == trees::branch::map) {
      for (const auto& [key, x] : t) deeper(x, trees::tree_place{&at, 0, nullptr, &key});
    } else if constexpr (b == trees::branch::optional) {
      if (t) deeper(*t, at);
    } else if constexpr (b == trees::branch::variant) {
      trees::with_alternative(
          t,
          [&](auto i) {
            deeper(*get_if<i>(&t), trees::tree_place{&at, i, nullptr, nullptr});
          },
          trees::places_of(trees::children_of<T>{}));
    } else if constexpr (b != trees::branch::refused) {
      with_places(t, at, deeper);
    }
  }
  template <class L, class X>
  void tensor(const X& x, std::int64_t rows, const sinter::detail::tree_place& at) {
    namespace trees = sinter::detail;
    constexpr bool whole = trees::meshes::has_whole<L>::value;
    static_assert(whole,
                  "sinter: [io::mesh_checkpoints] a varying or partial tensor is no part of a whole: hold it as "
                  "shard<A, k>, replicated<A> or invariant<A>");
    part_leaf& p = push(part_leaf::kind::tensor, dtype_of<typename X::value_type>, at, &x);
    for (const auto& axis : axes_) p.holds.push_back(trees::meshes::hold_by_tag(axis.tag, L{}));
    p.rows = rows;
    p.defined = x.defined();
    p.donated = trees::access::donated_to(x);
    if (!p.defined) return;
    for (int k = 0; k < X::rank; ++k) p.extents.push_back(static_cast<std::int64_t>(x.size(k)));
    p.value = [](const void* leaf, location where) { return trees::untyped(*static_cast<const X*>(leaf), where); };
    p.assign = [](void* leaf, trees::handle h, location where) {
      X& to = *static_cast<X*>(leaf);
      to = trees::typed<typename X::value_type, X::static_shape>(std::move(h), where).to(to.device(), where);
    };
  }
  template <class X>
  void scalar(const X& x, const sinter::detail::tree_place& at) {
    if constexpr (sinter::detail::text_leaf<X>) {
      part_leaf& p = push(part_leaf::kind::text, dtype::u8, at, &x);
      p.value = [](const void* leaf, location) {
        const X& text = *static_cast<const X*>(leaf);
        return handle_of(copied_array(dtype::u8, {static_cast<std::int64_t>(text.size())}, text.data()));
      };
      if constexpr (std::is_same_v<X, std::string>)
        p.assign = [](void* leaf, sinter::detail::handle h, location where) {
          const array a = array_of(std::move(h), where);
          static_cast<X*>(leaf)->assign(reinterpret_cast<const char*>(a.data), a.bytes().size());
        };
    } else if constexpr (scalar_type<X>().has_value()) {
      part_leaf& p = push(part_leaf::kind::bytes, *scalar_type<X>(), at, &x);
      p.size = sizeof x;
      if (sinter::detail::bytes_leaf<X>) p.extents = {static_cast<std::int64_t>(sizeof x)};
    }
  }
  /// Loading writes leaves through the record; the tree is then not const.
  SINTER_API part_leaf& push(part_leaf::kind what, dtype type, const sinter::detail::tree_place& at, const void* leaf);
  SINTER_API static void check_rows(std::size_t tensors, std::size_t rows);

  mesh_axes_view axes_;
  std::vector<part_leaf> leaves_;
};

/// The files of the states of a run: one of each rank, and an index.
struct part_files {
  /// The sum of a number over all ranks of a mesh, which wait for each other.
  using sum_over_ranks = std::int64_t (*)(const void* mesh, std::int64_t own, location at);

  std::string folder;
  checkpoint_options how;
  checkpoints indexes;
  std::string layout;  ///< of the mesh, "dp:2,tp:4"
  sum_over_ranks sum = nullptr;

  /// Writes this rank's leaves, and by the first rank the index.
  SINTER_API void save(std::int64_t step, const part_walk& tree, mesh_axes_view axes, const void* mesh,
                       location at) const;
  /// The last step that is complete, which the first rank tells all; -1 without one.
  SINTER_API std::int64_t last(mesh_axes_view axes, const void* mesh, location at) const;
  /// Assigns this rank's parts of a state to the leaves: of the mapped files, only elements that they need are read.
  SINTER_API void load(std::int64_t step, const part_walk& tree, mesh_axes_view axes, location at) const;
  /// folder/step_000000000005.NUMBER.0-of-4.safetensors
  SINTER_API std::string part(std::int64_t step, std::int64_t number, std::int64_t rank, std::int64_t ranks) const;
  /// Removes parts up to this step that no index names. It keeps all where a file cannot be read as an index.
  SINTER_API void remove_parts(std::int64_t now) const;
};

}  // namespace sinter::io::detail

#if !defined(SINTER_COMPILED)
#include "part_rules.hpp"
#endif
