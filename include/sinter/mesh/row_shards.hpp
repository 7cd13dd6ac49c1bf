// mesh/row_shards.hpp: trees whose tensors are divided by rows among the ranks of an axis, whatever their number of rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "placed.hpp"

namespace sinter {

/// A tree of which each rank along A has a part: of a tensor with n rows, p ranks have ceil(n / p) rows each. The rows of all
/// ranks, one after the other, are the tensor and then zeros, so that extents are equal on all ranks. Tensors of rank 0 are
/// whole. It is itself a tree: an optimizer that works element by element takes it for parameters and gradients.
template <class T, class A>
class row_shards {
 public:
  using local_type = T;

  row_shards() = default;
  /// This rank's rows, and the number of rows of each whole tensor, in the tree's order; 0 for a rank of 0.
  row_shards(T part, std::vector<std::int64_t> rows) : local_(std::move(part)), rows_(std::move(rows)) {}

  static constexpr auto sinter_fields(auto& self) { return std::tie(self.local_, self.rows_); }

  const T& part() const { return local_; }
  /// The rows of each whole tensor.
  const std::vector<std::int64_t>& rows() const { return rows_; }

 private:
  friend struct detail::meshes::held_access;
  T local_;
  std::vector<std::int64_t> rows_;
};

namespace detail::meshes {

template <class T, class A>
struct held_tree<row_shards<T, A>> {
  static constexpr bool is = true;
  template <int Rank>
  using at = std::conditional_t<(Rank > 0), list<shard<A, 0>>, list<replicated<A>>>;
};
template <class T>
inline constexpr bool is_row_shards = false;
template <class T, class A>
inline constexpr bool is_row_shards<row_shards<T, A>> = true;

/// The number of rows of each tensor; 0 for a rank of 0.
template <class T>
std::vector<std::int64_t> rows_in(const T& tree) {
  std::vector<std::int64_t> out;
  for_each_leaf(tree, [&]<class Leaf>(const Leaf& x) {
    if constexpr (tensor_like<Leaf>) {
      if constexpr (Leaf::rank > 0) {
        static_assert(Leaf::static_shape[0].bits == dyn,
                      "sinter: [row_shards] the first extent of each tensor is divided among ranks: declare it dyn");
        out.push_back(static_cast<std::int64_t>(x.size(0)));
      } else {
        out.push_back(0);
      }
    }
  });
  return out;
}
/// The values of a rank-0 tensor on all ranks of A, combined: replicated.
template <class A, class X>
X over_divided_axis(const X& x, ir::op combiner, location at) {
  engine::tracer& t = tracer_for("all_reduce", at);
  const auto& axis = current_axis<A>("all_reduce", at);
  ir::node_id own = push(t, x, at);
  if (combiner == ir::op::add) own = engine::push_traced_as(t, own, axis, ir::placement::partial, at);
  return like_node<X>(engine::push_over_axis(t, ir::op::all_reduce, {own}, axis,
                                             {static_cast<std::int64_t>(ir::placement::replicated)}, combiner, at),
                      at);
}
constexpr std::int64_t rows_of_rank(std::int64_t rows, std::int64_t ranks) { return (rows + ranks - 1) / ranks; }

/// x with zeros behind its rows, up to a number of rows that the ranks divide.
template <class X>
X padded_rows(const X& x, std::int64_t ranks, location at) {
  const auto rows = static_cast<std::int64_t>(x.size(0));
  const std::int64_t more = rows_of_rank(rows, ranks) * ranks - rows;
  if (more == 0) return x;
  pad_width widths[static_cast<std::size_t>(X::rank)]{};
  widths[0] = {0, more};
  return detail::fitted<X::static_shape>(pad(x, widths, {}, at), at);
}

/// Calls f(tensor, rows) with each tensor of a part.
template <class T, class A, class F>
T each_with_rows(const row_shards<T, A>& x, const F& f) {
  T out = x.part();
  std::size_t k = 0;
  for_each_leaf(out, [&]<class Leaf>(Leaf& y) {
    if constexpr (tensor_like<Leaf>) {
      y = f(y, x.rows().at(k));
      ++k;
    }
  });
  return out;
}

}  // namespace detail::meshes

namespace detail {

/// Tensors of rank 0 are whole, the others divided.
template <class T, class A>
struct divided_tree<row_shards<T, A>> {
  static constexpr bool is = true;
  template <class Divided, class Whole>
  static void split(const row_shards<T, A>& x, const Divided& divided, const Whole& whole) {
    for_each_leaf(x.part(), [&]<class Leaf>(const Leaf& leaf) {
      if constexpr (tensor_like<Leaf>) {
        if constexpr (Leaf::rank > 0) divided(leaf);
        else whole(leaf);
      }
    });
  }
  template <class X>
  static X over_ranks(const X& x, ir::op combiner, location at) {
    return meshes::over_divided_axis<A>(x, combiner, at);
  }
};

/// Tensors are divided along the axes of a mesh that a shard names.
template <class X, class L>
struct divided_by_type;
template <class X, class... P>
struct divided_by_type<X, meshes::list<P...>> {
  static constexpr bool is = (false || ... || (meshes::hold_of<P>.how == meshes::kind::shard));
  template <class Divided, class Whole>
  static void split(const X& x, const Divided& divided, const Whole&) {
    for_each_leaf(local(x), [&](const auto& leaf) { divided(leaf); });
  }
  template <class Y>
  static Y over_ranks(const Y& own, ir::op combiner, location at) {
    Y y = own;
    const auto along = [&]<class Q>(std::type_identity<Q>) {
      if constexpr (meshes::hold_of<Q>.how == meshes::kind::shard)
        y = meshes::over_divided_axis<meshes::axis_of<Q>>(y, combiner, at);
    };
    (along(std::type_identity<P>{}), ...);
    return y;
  }
};
template <class T, class L>
struct divided_tree<placed_tensor<T, L>> : divided_by_type<placed_tensor<T, L>, L> {};
template <class T, class L>
struct divided_tree<placed_tree<T, L>> : divided_by_type<placed_tree<T, L>, L> {};

}  // namespace detail

/// This rank's rows of a whole tree, which all ranks have: parameters, before training. Outside of traces.
template <class A, class M, class T>
row_shards<T, A> cut_rows(const M& m, const T& tree, location at = location::current()) {
  const std::int64_t ranks = m.template size<A>(), own = m.template index<A>(at);
  T part = tree;
  detail::for_each_leaf(part, [&]<class Leaf>(Leaf& x) {
    if constexpr (tensor_like<Leaf>)
      if constexpr (Leaf::rank > 0) {
        const auto rows = static_cast<std::int64_t>(x.size(0)), n = detail::meshes::rows_of_rank(rows, ranks);
        const std::int64_t first = std::min(own * n, rows), last = std::min((own + 1) * n, rows);
        pad_width widths[static_cast<std::size_t>(Leaf::rank)]{};
        widths[0] = {0, n - (last - first)};
        x = detail::fitted<Leaf::static_shape>(pad(slice<0>(x, first, last, 1, at), widths, {}, at), at);
      }
  });
  return {std::move(part), detail::meshes::rows_in(tree)};
}

}  // namespace sinter
