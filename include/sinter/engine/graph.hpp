// engine/graph.hpp: the public graph: a value that people read, rewrite, run and save; the front end adds the typed calls.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "../base/config.hpp"
#include "../base/location.hpp"
#include "../base/series.hpp"
#include "../ir/graph.hpp"

namespace sinter {

namespace engine {
class tracer;
}

/// The graph of a function: nodes in an order in which operands come first. Copies are independent values. The ids of nodes
/// stay valid as the graph grows and is rewritten; after replace(), two ids may name one node. Reading is thread-safe.
class graph {
 public:
  using id = ir::node_id;

  SINTER_API graph();
  /// A graph without captured tensors.
  SINTER_API explicit graph(ir::graph body);
  /// The graph of a finished trace, with its captured tensors and open sizes.
  SINTER_API explicit graph(std::shared_ptr<const engine::tracer> of);
  /// The same, of a trace that nobody else has.
  SINTER_API explicit graph(engine::tracer&& of);
  SINTER_API graph(const graph& x);
  SINTER_API graph(graph&& x) noexcept;
  SINTER_API graph& operator=(graph x) noexcept;
  SINTER_API ~graph();

  /// One line for each node that the results need; the same program gives the same text.
  SINTER_API std::string text() const;
  /// One line for one node.
  SINTER_API std::string text(id of) const;
  /// The number of nodes that the results need, inputs included.
  SINTER_API std::size_t nodes() const;
  /// The nodes that the results need, operands first.
  SINTER_API series<id> order() const;
  /// A node: `code`, `in`, `attr`, `type`, `extents`, `where`. user_error for an id of another graph.
  SINTER_API ir::node operator[](id of) const;
  /// The inputs in argument order; captured tensors, such as weights, are the last captured() of them.
  SINTER_API series<id> inputs() const;
  SINTER_API std::size_t captured() const;
  SINTER_API series<id> outputs() const;
  /// The graphs in a branch, a loop or a call; empty for other nodes.
  SINTER_API series<graph> parts(id of) const;

  /// Adds an operation, or finds an equal one, and returns its id. Dtype and extents follow from the operands. user_error that
  /// names the op, the shapes and `where` if the operands do not fit.
  SINTER_API id push(ir::op code, series<id> in, ir::attributes attr = {}, location where = location::current());
  /// A uniform tensor.
  SINTER_API id constant(dtype type, double value, ir::shape extents, location where = location::current());
  /// Adds an argument after the others. user_error for a graph with captured tensors.
  SINTER_API id add_input(dtype type, ir::shape extents, location where = location::current());
  /// Makes every reader of `old` read `by`, results included. Nodes that `by` is computed from keep reading `old`, so
  /// `replace(x, push(op, {x}))` inserts an op behind x. user_error if dtype or extents differ.
  SINTER_API void replace(id old, id by, location where = location::current());
  /// Sets the results.
  SINTER_API void set_outputs(series<id> to, location where = location::current());

  /// The nodes without those of replaced operands, as the engine keeps them. Its ids are its own.
  SINTER_API ir::graph body() const;
  /// The trace that a call of the graph compiles: body(), the captured tensors, the open sizes.
  SINTER_API std::shared_ptr<engine::tracer> traced() const;

  /// The results for these tensors, by type: one tensor, or a tuple. In a trace the graph's nodes join it; otherwise the graph
  /// is compiled alone, and equal graphs share their kernels. user_error if a number, dtype or extent differs.
  /// `g.run<tensor<float, 1>>(x)` (front/compile/run_graph.hpp)
  template <class... Results, class... Arguments>
  auto run(const Arguments&... arguments) const;

  template <class Stream>
  requires requires(Stream& s, const std::string& text) { s << text; }
  friend Stream& operator<<(Stream& stream, const graph& g) {
    stream << g.text();
    return stream;
  }

 private:
  struct state;
  state* state_;  ///< owned
};

namespace engine {

/// The nodes of g's results in the trace of `t`, for nodes of `t` as arguments. Captured tensors become captures of `t`, and
/// the open sizes of g those of the arguments. user_error if an argument does not fit. (trace/public_graph.hpp)
SINTER_API series<ir::node_id> push_graph(tracer& t, const graph& g, const series<ir::node_id>& arguments,
                                          location where);
/// user_error unless g takes `given` arguments and gives `wanted` results.
SINTER_API void check_counts(const graph& g, std::size_t given, std::size_t wanted, location where);

}  // namespace engine
}  // namespace sinter
