// front/compile/run_graph.hpp: graph::run, the typed call of a public graph.
#pragma once

#include <string>
#include <tuple>
#include <utility>

#include "../../engine/graph.hpp"
#include "compile.hpp"

namespace sinter {

namespace detail {

/// A result of a graph, a node of the current trace, as an X; user_error if it has another dtype or rank.
template <any_tensor X>
X graph_result(ir::node_id id, std::size_t k) {
  const ir::node& n = engine::current()->graph[id];
  if (n.type != dtype_of<typename X::value_type> || n.extents.size() != static_cast<std::size_t>(X::rank))
    fail("graph::run",
         "result " + std::to_string(k) + " is " + dtype_name(n.type) + ir::text_of(n.extents) +
             ", asked for is a tensor of " + dtype_name(dtype_of<typename X::value_type>) + " and rank " +
             std::to_string(X::rank) + "; name the result's own type",
         n.where);
  return fitted<X::static_shape>(typed<typename X::value_type, dims(X::rank)>(of_node(id), n.where), n.where);
}

/// The results of a graph in the current trace.
template <class... Results, std::size_t... I, class... Arguments>
std::tuple<Results...> graph_results(const graph& g, std::index_sequence<I...>, const Arguments&... arguments) {
  engine::tracer& t = *engine::current();
  const series<ir::node_id> in{push(t, stage(arguments, location{}), location{})...};
  const series<ir::node_id> out = engine::push_graph(t, g, in, {});
  return {graph_result<Results>(out[I], I)...};
}

}  // namespace detail

template <class... Results, class... Arguments>
auto graph::run(const Arguments&... arguments) const {
  static_assert((... && any_tensor<Results>)&&sizeof...(Results) > 0,
                "sinter: [graph::run] name the types of the results: g.run<tensor<float, 1>>(x)");
  static_assert((... && tensor_like<Arguments>), "sinter: [graph::run] takes tensors");
  engine::check_counts(*this, sizeof...(Arguments), sizeof...(Results), {});
  const auto all = [g = *this](const auto&... x) {
    return detail::graph_results<Results...>(g, std::index_sequence_for<Results...>(), x...);
  };
  const auto one = [&](std::tuple<Results...> out) {
    if constexpr (sizeof...(Results) == 1) return std::get<0>(std::move(out));
    else return out;
  };
  if (engine::current()) return one(all(arguments...));
  return one(compile(all, {.dynamic = dynamic::no, .name = "graph::run"})(detail::stage(arguments, location{})...));
}

}  // namespace sinter
