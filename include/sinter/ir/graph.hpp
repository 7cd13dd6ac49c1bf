// ir/graph.hpp: the arena of nodes, of which push() is the only door; and steps that it does not look into.
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

/// A dataflow graph in topological order: a node's operands have smaller ids. Equal nodes are the same node.
class graph {
 public:
  series<node_id> inputs;   ///< in argument order
  series<node_id> outputs;  ///< in result order
  series<node_id> effects;  ///< opaque nodes that do more than compute, in the order in which they have to run

  SINTER_API graph();
  SINTER_API graph(const graph& x);
  SINTER_API graph(graph&& x) noexcept;
  SINTER_API graph& operator=(graph x) noexcept;
  SINTER_API ~graph();

  /// References to nodes survive a push.
  SINTER_API const node& operator[](node_id id) const;
  SINTER_API std::size_t size() const;

  /// Adds an operation, or finds the equal one that exists. Infers dtype and extents.
  /// Throws user_error naming the op, the shapes and `where` when the operands do not fit.
  SINTER_API node_id push(op code, series<node_id> in, attributes attr = {}, location where = {});

  /// Adds an input of the given dtype and extents and appends it to `inputs`; inputs are never merged.
  SINTER_API node_id add_input(dtype type, shape extents, location where = {});

  /// Puts the inputs in another order.
  SINTER_API void order_inputs(series<node_id> order);

  /// A node equal in value to `x` that nothing else refers to: what a derivative is taken with respect to.
  SINTER_API node_id mark(node_id x);

  /// A uniform tensor of one literal.
  SINTER_API node_id constant(dtype type, scalar literal, shape extents, location where = {});
  SINTER_API node_id constant(dtype type, double x, shape extents, location where = {});
  /// One that those of other sources do not equal, though their literals may: in the trace of another call they may differ.
  SINTER_API node_id constant_apart(dtype type, scalar literal, shape extents, std::int64_t source,
                                    location where = {});

  /// Puts value(d) in the place of every extent d, where both stand for the same in this call. Nodes keep their ids.
  SINTER_API void replace_sizes(const callback<dim(const dim&)>& value);

  /// A copy of the inputs, in order, and of the nodes `order`, which has operands first, what outputs and effects need, and no
  /// two that are equal.
  SINTER_API graph numbered(const series<node_id>& order) const;

  /// True when replace_sizes() may have left nodes that are equal.
  bool may_have_equal_nodes() const { return sizes_replaced_; }

  /// Ids of the nodes that the outputs and effects need, ascending; inputs are always among them.
  SINTER_API series<node_id> live() const;

 private:
  struct table;             // (push.hpp)
  table* table_ = nullptr;  ///< owned; null while there are no nodes
  std::int64_t marks_ = 0;
  bool sizes_replaced_ = false;
};

/// The sizes of a trace, should they be too open for a node that the call at hand could have.
class open_sizes : public sinter::detail::size_arithmetic {
 public:
  /// Makes numbers of them, in the graphs of the trace and in a node that is to be pushed. False when nothing changed.
  virtual bool give_up(attributes& of, const std::string& why, location where) = 0;
  /// Whether a and b are equal in the call at hand: then the trace is for calls in which they are.
  virtual bool agree(const dim& a, const dim& b, location where) = 0;
  /// Of the dims that were found equal to d, the one that stands for all.
  virtual dim unified(const dim& d) const = 0;
};

enum class opaque_kind : std::uint8_t {
  cond,        ///< operands: a rank-0 bool, then what the branches take; parts: the branch for true, the one for false
  loop,        ///< a number of steps known before; parts: the body
  while_loop,  ///< as long as parts[0] says; parts[1] is the body
  custom,      ///< a function of the user that computes
  host_call,   ///< a function of the user that is called for what else it does
  call,        ///< a graph with a derivative rule of its own; operands: what the part takes
};

/// What the derivative of a call computes anew from the operands, in place of keeping it.
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

/// How a custom op runs on a GPU: text for the run-time compiler, or a function that launches.
struct foreign_kernel {
  std::string source;  ///< defines `entry`, extern "C", which takes the operands, the results, then their counts
  std::string entry;
  int threads = 256;  ///< of a block; there is a thread for each element of the first result
  callback<void(foreign_arrays operands, foreign_arrays results, void* stream)> launch;
};

/// A function of the user, or the derivative rules of a call; its identity stands for it wherever graphs are compared.
struct foreign {
  std::string name;
  std::uint64_t identity = 0;
  callback<void(foreign_arrays operands, foreign_arrays results)> host;  ///< on host memory
  /// What the reference interpreter calls in its place, if there is such a one.
  callback<void(foreign_arrays operands, foreign_arrays results)> plain;
  foreign_kernel gpu;
  /// The derivative, if there is one: takes the operands, the results and the results' cotangents, floating or not; gives
  /// the cotangents of the floating operands.
  callback<graph()> pull;
  /// The same forwards: takes the operands, the results and the tangents of the floating operands; gives those of the
  /// floating results.
  callback<graph()> push;
  /// The op for many lanes, if there is a rule: takes the operands, those that vary with the lanes as axis 0; gives the
  /// results, each with the lanes as axis 0.
  callback<graph(std::span<const char> varies, const dim& lanes)> batch;
};

/// What an opaque node does. Parts are graphs of their own: what they read of the graph around them are operands.
///
/// loop: operands are the carried values as they start, then arrays that are read slice by slice along their first axis, then
/// constants. The body takes the step's index (i64), then as many values, the slices without that axis; it gives the carried
/// values for the next step, then values that are stacked along a new first axis. Results: the carried values at the end, the
/// stacks, then for each carried value the stack of what it was before each step. With `reverse` steps run from the last to
/// the first.
/// while_loop: operands are the carried values, then constants; both parts take them. Results: the carried values.
/// call: computes what its part does, and is that once no derivative can be asked any more (inlined()), but for one that
/// `stays`. Its derivative is what `function` says, by all operands but the last `constants`; without one it is the part's.
struct opaque {
  opaque_kind kind = opaque_kind::cond;
  series<graph> parts;
  std::size_t carried = 0, sliced = 0, constants = 0, stacked = 0;
  dim length;
  bool reverse = false;
  recompute again = recompute::nothing;     ///< call without a function
  bool stays = false;                       ///< call: a step of its own, whose part shares no node with what is around
  std::shared_ptr<const foreign> function;  ///< custom, host_call, call
  series<result_type> results;              ///< custom: given; otherwise seal() finds them
  bool is_rewritten = false;                ///< the parts are as the rewrites leave them
  bool has_effect = false;                  ///< seal(): calls a host function somewhere
  bool has_calls = false;                   ///< seal(): inlined() changes it
  std::string head, text;                   ///< seal(): on one line; with the parts
  std::string apart;  ///< seal(): sources of the parts' constants. Equal steps agree in text and these.
};

/// A constant with the literal of `n`, and its source if it is apart.
SINTER_API node_id push_constant_like(graph& g, const node& n, shape extents);

/// "loop", "cond": what errors and logs call it.
SINTER_API const char* name(const opaque& step);

/// Completes the record. (push_opaque.hpp)
SINTER_API std::shared_ptr<const opaque> seal(opaque step);

/// The record with its extents replaced, its parts' too; null when that changes nothing. (push_opaque.hpp)
SINTER_API std::shared_ptr<const opaque> with_sizes(const opaque& step, const callback<dim(const dim&)>& value);

/// Adds an opaque node, and a pick of each of its results.
SINTER_API series<node_id> push_opaque(graph& g, std::shared_ptr<const opaque> step, series<node_id> in,
                                       location where);

/// Result k of an opaque node.
SINTER_API node_id push_pick(graph& g, node_id step, std::size_t k, location where);

/// Pushes a copy of `part` on `g`, its inputs replaced by the given nodes, without its effects; gives its outputs.
SINTER_API series<node_id> splice(graph& g, const graph& part, const series<node_id>& inputs);

/// The graph with every call but those that stay replaced by its part, in parts too.
SINTER_API graph inlined(graph g);
/// Whether that changes it.
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

/// A number for a function of the user, never given twice.
SINTER_API std::uint64_t new_identity();

/// Dtype and extents of the result of `n`, from its operands in `g`. Throws user_error. (structural.hpp)
SINTER_API void infer(const graph& g, node& n);

/// Whether a gather has elements to give for some sizes where its axis has none. (check.hpp)
SINTER_API bool may_read_nothing(const graph& g, const node& gather);

/// One line for one node: "%5 = f32(8, 4) add %1 %2". (print.hpp)
SINTER_API std::string print(const graph& g, node_id id);

/// The live graph, renumbered densely, without locations: equal graphs print equally. (print.hpp)
SINTER_API std::string print(const graph& g);

/// True for graphs of equal nodes in equal order, with equal inputs, outputs and effects; locations do not count. (push.hpp)
SINTER_API bool equal(const graph& a, const graph& b);

/// Appends bytes that are equal for graphs of equal nodes in equal order, with equal outputs; cheaper than print. With
/// `constants` the values of floating ones do not count; their nodes are listed there. (push.hpp)
SINTER_API void append_structure(std::string& key, const graph& g, series<node_id>* constants = nullptr);

/// Throws internal_error naming `pass` unless every invariant of the graph holds. (check.hpp)
SINTER_API void check(const graph& g, const char* pass);

/// Interprets the graph: every op computed in f64 or 64-bit integers, then rounded to the node's dtype. (reference.hpp)
/// `sizes` binds the size symbols.
SINTER_API series<literal_array> evaluate(const graph& g, std::span<const literal_array> inputs,
                                          std::span<const std::int64_t> sizes = {});

}  // namespace sinter::ir
