// ir/graph.hpp: the arena of nodes, whose only entrance is push(), and opaque steps.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "../base/callback.hpp"
#include "../base/config.hpp"
#include "../base/extent.hpp"
#include "../base/series.hpp"
#include "../base/sorted.hpp"
#include "literal_array.hpp"
#include "node.hpp"

namespace sinter::ir {

using sinter::detail::callback;

/// A dataflow graph in topological order: a node's operands have smaller ids. Equal nodes are one node.
class graph {
 public:
  series<node_id> inputs;   ///< in argument order
  series<node_id> outputs;  ///< in result order
  series<node_id> effects;  ///< opaque nodes with effects, in their required order

  SINTER_API graph();
  SINTER_API graph(const graph& x);
  SINTER_API graph(graph&& x) noexcept;
  SINTER_API graph& operator=(graph x) noexcept;
  SINTER_API ~graph();

  /// References to nodes survive a push.
  SINTER_API const node& operator[](node_id id) const;
  SINTER_API std::size_t size() const;

  /// Adds an operation, or finds an equal one. Infers dtype and extents. Throws user_error naming the op, the shapes and
  /// `where` when the operands do not fit.
  SINTER_API node_id push(op code, series<node_id> in, attributes attr = {}, location where = {});

  /// Adds an input of the given dtype and extents and appends it to `inputs`; inputs are never merged.
  SINTER_API node_id add_input(dtype type, shape extents, location where = {});

  /// Puts the inputs in another order.
  SINTER_API void order_inputs(series<node_id> order);

  /// A node equal in value to `x` that no other node refers to; derivatives are taken with respect to it.
  SINTER_API node_id mark(node_id x);

  /// A uniform tensor of one literal.
  SINTER_API node_id constant(dtype type, scalar literal, shape extents, location where = {});
  SINTER_API node_id constant(dtype type, double x, shape extents, location where = {});
  /// A constant that does not equal constants of other sources, even with the same literal: in the trace of another call they
  /// may differ.
  SINTER_API node_id constant_apart(dtype type, scalar literal, shape extents, std::int64_t source,
                                    location where = {});

  /// Replaces every extent d by value(d), which is the same size in this call. Nodes keep their ids.
  SINTER_API void replace_sizes(const callback<dim(const dim&)>& value);

  /// A copy of the inputs, in order, and of the nodes `order`. `order` has operands first, and all nodes that outputs and
  /// effects need, without equal nodes.
  SINTER_API graph numbered(const series<node_id>& order) const;

  /// True when replace_sizes() may have left equal nodes.
  bool may_have_equal_nodes() const { return sizes_replaced_; }

  /// Ids of the nodes that the outputs and effects need, ascending; inputs are always among them.
  SINTER_API series<node_id> live() const;

 private:
  struct table;             // (push.hpp)
  table* table_ = nullptr;  ///< owned; null in an empty graph
  std::int64_t marks_ = 0;
  bool sizes_replaced_ = false;
};

/// The sizes of a trace, in case they are too open for a node that the present call allows.
class open_sizes : public sinter::detail::size_arithmetic {
 public:
  /// Makes sizes numbers, in the graphs of the trace and in a node that is about to be pushed. False if nothing changed.
  virtual bool give_up(attributes& of, const std::string& why, location where) = 0;
  /// Whether a and b are equal in the present call. If so, the trace holds only for calls in which they are equal.
  virtual bool agree(const dim& a, const dim& b, location where) = 0;
  /// The representative of the dims that were found equal to d.
  virtual dim unified(const dim& d) const = 0;
};

enum class opaque_kind : std::uint8_t {
  cond,  ///< operands: a rank-0 bool, then the branches' inputs; parts: the branch for true, then the branch for false
  loop,  ///< a number of steps known in advance; parts: the body
  while_loop,  ///< runs while parts[0] holds; parts[1] is the body
  custom,      ///< a user's function that computes
  host_call,   ///< a user's function that is called for its effects
  call,        ///< a graph with its own derivative rule; operands: the part's inputs
  part,        ///< no node of its own: graphs that a structural op computes with, attention's for example
};

/// The values that the derivative of a call recomputes from the operands.
enum class recompute : std::uint8_t { nothing, all, all_but_products };

struct result_type {
  dtype type = dtype::f32;
  shape extents;
};

/// An operand or a result of a user's function: elements in row-major order.
struct foreign_array {
  void* data = nullptr;
  dtype type = dtype::f32;
  const std::int64_t* extents = nullptr;
  int rank = 0;
};

using foreign_arrays = std::span<const foreign_array>;

/// The GPU code of a custom op: text for the run-time compiler, or a function that launches.
struct foreign_kernel {
  std::string
      source;  ///< defines `entry`, extern "C", whose parameters are the operands, the results, then their counts
  std::string entry;
  int threads = 256;  ///< of a block; each element of the first result has a thread
  callback<void(foreign_arrays operands, foreign_arrays results, void* stream)> launch;
  bool apart = false;  ///< launched on the stream for exchanges, beside other steps
  bool brief = false;  ///< `launch` calls nothing of the user's, and recorded calls run it between their graphs
};

/// A user's function, or the derivative rules of a call. Its identity represents it in comparisons of graphs.
struct foreign {
  std::string name;
  std::uint64_t identity = 0;
  std::string known =
      {};  ///< of a step of sinter's own, for other formats: "fft inverse root", "collective"; empty for users' functions
  callback<void(foreign_arrays operands, foreign_arrays results)> host;  ///< on host memory
  /// The reference interpreter calls this instead, if it is set.
  callback<void(foreign_arrays operands, foreign_arrays results)> plain;
  foreign_kernel gpu;
  /// The derivative, if given: takes the operands, the results and the results' cotangents, floating or not. It gives the
  /// cotangents of the floating operands.
  callback<graph()> pull;
  /// The forward derivative, if given: takes the operands, the results and the floating operands' tangents. It gives the
  /// tangents of the floating results.
  callback<graph()> push;
  /// The op for many lanes, if given: takes the operands, of which varying ones have the lanes as axis 0. It gives the
  /// results, each with the lanes as axis 0.
  callback<graph(std::span<const char> varies, const dim& lanes)> batch;
};

/// The record of an opaque node. Parts are separate graphs: values that they read from the outer graph are operands.
///
/// loop: operands are the initial carried values, then arrays that are read slice by slice along the first axis, then
/// constants. The body takes the step's index (i64), the carried values, the slices without that axis, and the constants. It
/// gives the next carried values, then values that are stacked along a new first axis. Results are the final carried values,
/// the stacks, then for each carried value the stack of its values before each step. With `reverse`, steps run from the last
/// to the first.
/// while_loop: operands are the carried values, then constants; both parts take them. Results are the carried values.
/// call: computes its part, and is replaced by it once no more derivatives can be taken (inlined()), unless it `stays`.
/// `function` gives its derivative by all operands except the last `constants`; without a function it is the part's.
struct opaque {
  opaque_kind kind = opaque_kind::cond;
  series<graph> parts;
  std::size_t carried = 0, sliced = 0, constants = 0, stacked = 0;
  dim length;
  bool reverse = false;
  recompute again = recompute::nothing;  ///< a call without a function
  bool stays = false;                    ///< a call that is its own step: its part shares no node with the outer graph
  std::shared_ptr<const foreign> function;  ///< custom, host_call, call
  series<result_type> results;              ///< custom: given; otherwise seal() infers them
  bool is_rewritten = false;                ///< the rewrites have finished with the parts
  bool has_effect = false;                  ///< seal(): a part calls a host function
  bool has_calls = false;                   ///< seal(): inlined() changes it
  std::string head, text;                   ///< seal(): the head on one line, the text with the parts
  std::string apart;  ///< seal(): sources of the parts' constants; equal steps agree in text and in these
};

/// A constant with the literal of `n`, and its source if it is apart.
SINTER_API node_id push_constant_like(graph& g, const node& n, shape extents);

/// "loop", "cond": the name in errors and logs.
SINTER_API const char* name(const opaque& step);

/// Completes the record. (push_opaque.hpp)
SINTER_API std::shared_ptr<const opaque> seal(opaque step);

/// The record with its extents replaced, also in its parts; null if nothing changes. (push_opaque.hpp)
SINTER_API std::shared_ptr<const opaque> with_sizes(const opaque& step, const callback<dim(const dim&)>& value);

/// Adds an opaque node, and a pick of each of its results.
SINTER_API series<node_id> push_opaque(graph& g, std::shared_ptr<const opaque> step, series<node_id> in,
                                       location where);

/// Result k of an opaque node.
SINTER_API node_id push_pick(graph& g, node_id step, std::size_t k, location where);

/// Pushes a copy of `part` on `g` with its inputs replaced by the given nodes, without its effects. Returns its outputs.
SINTER_API series<node_id> splice(graph& g, const graph& part, const series<node_id>& inputs);

/// The graph with every call replaced by its part, except calls that stay; also in parts.
SINTER_API graph inlined(graph g);
/// Whether inlined() changes the graph.
SINTER_API bool has_calls(const graph& g);

/// The nodes of opaque nodes' results, found for all steps of a graph in one walk. (push_opaque.hpp)
class picks {
 public:
  SINTER_API picks(const graph& g, const series<node_id>& live);
  /// Of a live opaque node: pick k of it, or no_node where nothing picks it.
  const series<node_id>& of(node_id step) const { return of_.at(step); }

 private:
  sorted_map<node_id, series<node_id>> of_;
};

/// A unique number for a user's function.
SINTER_API std::uint64_t new_identity();

/// Dtype and extents of the result of `n`, from its operands in `g`. Throws user_error. (structural.hpp)
SINTER_API void infer(const graph& g, node& n);

/// Whether a gather reads elements for some sizes for which its axis is empty. (check.hpp)
SINTER_API bool may_read_nothing(const graph& g, const node& gather);

/// One line for one node: "%5 = f32(8, 4) add %1 %2". (print.hpp)
SINTER_API std::string print(const graph& g, node_id id);

/// The live graph, renumbered densely, without locations: equal graphs print equally. (print.hpp)
SINTER_API std::string print(const graph& g);

/// True for graphs with equal nodes in equal order, and equal inputs, outputs and effects; locations do not count. (push.hpp)
SINTER_API bool equal(const graph& a, const graph& b);

/// Appends bytes that are equal for graphs with equal nodes in equal order, and equal outputs; cheaper than print. With
/// `constants`, the values of floating constants do not count, and their nodes are listed there. (push.hpp)
SINTER_API void append_structure(std::string& key, const graph& g, series<node_id>* constants = nullptr);

/// Throws internal_error naming `pass` unless every invariant of the graph holds. (check.hpp)
SINTER_API void check(const graph& g, const char* pass);

/// Interprets the graph: every op computed in f64 or 64-bit integers, then rounded to the node's dtype. (reference.hpp)
/// `sizes` binds the size symbols.
SINTER_API series<literal_array> evaluate(const graph& g, std::span<const literal_array> inputs,
                                          std::span<const std::int64_t> sizes = {});

}  // namespace sinter::ir
