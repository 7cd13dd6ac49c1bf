// mesh/auto_shard.hpp: auto_shard: a function of whole tensors, computed by ranks that have parts of its arguments.
#pragma once

#include <utility>

#include "shard_map.hpp"

namespace sinter {

namespace detail::meshes {

template <class M, class F>
class auto_sharded;

template <class F, class... A>
class auto_sharded<mesh<A...>, F> {
 public:
  auto_sharded(mesh<A...> m, F f, location at) : mesh_(std::move(m)), f_(std::move(f)), at_(at) {}

  template <class... Args>
  auto operator()(const Args&... args) const {
    if (current_mesh.count > 0) return within(args...);
    return shard_map(
        mesh_, [this](const auto&... x) { return this->within(x...); }, at_)(marked(settle_tree(args))...);
  }

 private:
  /// A plain argument as one that all ranks have.
  template <class X>
  static auto marked(const X& x) {
    if constexpr (is_placed<X> || any_held_tree<X> || facts_of<X>.tensors == 0) return x;
    else return typename placed_as_type<X, list<>>::type(x);
  }
  /// What the body sees of an argument: the whole tensors. `operands` receives this rank's parts.
  template <class P>
  auto whole_of(const P& arg, const std::shared_ptr<engine::tracer>& body, series<ir::node_id>& operands,
                series<engine::mesh_placement>& how) const {
    const auto open = [&]<class X, class L>(X& x, L) {
      check_whole<L>();
      const ir::node_id id = push(*engine::current(), x, at_);
      operands.push_back(id);
      ir::shape extents = engine::current()->graph[id].extents;
      for (std::size_t k = 0; k < current_mesh.count; ++k) {
        const hold h = hold_by_tag(current_mesh.first[k].tag, L{});
        how.push_back({in_graph(h.how), h.along});
        if (h.along >= 0) extents[static_cast<std::size_t>(h.along)] *= current_mesh.first[k].place.ranks;
      }
      const ir::node_id input = body->graph.add_input(dtype_of<typename X::value_type>, extents, at_);
      const part_scope scope(body);
      x = fitted<X::static_shape>(of_node<typename X::value_type, X::rank>(input, at_), at_);
    };
    if constexpr (is_placed<P> || any_held_tree<P>) {
      static_assert(!is_row_shards<P>, "sinter: [auto_shard] takes placed tensors and trees; gather_rows(x) of rows");
      auto tree = local(arg);
      if constexpr (is_placed<P>) open(tree, placements_of<P>{});
      else
        walk_held<held_tree<P>, 1>(tree, [&]<class X, class L, class Depth>(X& x, L l, Depth) {
          static_assert(Depth::value == 1, "sinter: [auto_shard] a placed tree holds plain tensors");
          open(x, l);
        });
      return tree;
    } else {
      auto tree = arg;
      for_each_leaf(tree, [&]<class X>(X& x) {
        if constexpr (tensor_like<X>) open(x, list<>{});
      });
      return tree;
    }
  }

  template <class... Args>
  auto within(const Args&... args) const {
    const auto outer = engine::current();
    const auto body = engine::make_inner_tracer();
    series<ir::node_id> operands;
    series<engine::mesh_placement> how;
    auto in = std::tuple{whole_of(args, body, operands, how)...};
    auto result = [&] {
      const part_scope inside(body);
      auto y = settle_tree(std::apply([&](auto&... x) { return detail::invoke(at_, f_, std::move(x)...); }, in));
      push_leaves(*body, y, body->graph.outputs, at_);
      return y;
    }();
    const auto axes = places_of_mesh();
    const auto nodes = engine::push_sharded(*outer, *body, std::move(operands), viewed(how), viewed(axes), at_);
    const ir::node_id* next = nodes.begin();
    for_each_leaf(result, [&]<class X>(X& x) {
      if constexpr (tensor_like<X>)
        x = fitted<X::static_shape>(of_node<typename X::value_type, X::rank>(*next++, at_), at_);
    });
    using out = typename placed_as_type<decltype(result), canonical_t<sinter::replicated<A>...>>::type;
    return out(std::move(result));
  }

  mesh<A...> mesh_;
  mutable F f_;
  location at_;
};

}  // namespace detail::meshes

/// The function that computes f on all ranks of m, where f is written for whole plain tensors: `auto_shard(loss, m)(w, x)`. Placed
/// arguments mark how they are divided: invariant, replicated or shards; plain ones are equal on all ranks. Divisions go forward
/// through f by the rule of each op's axes. A product over a divided axis is summed over the ranks. An operand that all ranks have
/// is cut where the other one is divided. Ops without such a rule get whole operands. Results are whole and replicated. It may be
/// called within shard_map and simulate. user_error that names both operands where they are divided in ways that exclude each
/// other.
template <class F, class... A>
auto auto_shard(F&& f, const mesh<A...>& m, location at = location::current()) {
  return detail::meshes::auto_sharded<mesh<A...>, std::decay_t<F>>(m, std::forward<F>(f), at);
}

}  // namespace sinter
