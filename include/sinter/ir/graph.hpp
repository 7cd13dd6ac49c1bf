// ir/graph.hpp: the arena of nodes; push() is the only door.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <unordered_map>

#include "../base/config.hpp"
#include "../base/series.hpp"
#include "literal_array.hpp"
#include "node.hpp"

namespace sinter::ir {

/// A dataflow graph in topological order: a node's operands have smaller ids. Equal nodes are the same node.
class graph {
 public:
  series<node_id> inputs;   ///< in argument order
  series<node_id> outputs;  ///< in result order

  const node& operator[](node_id id) const { return nodes_[id]; }
  std::size_t size() const { return nodes_.size(); }

  /// Adds an operation, or finds the equal one that exists. Infers dtype and extents.
  /// Throws user_error naming the op, the shapes and `where` when the operands do not fit.
  SINTER_API node_id push(op code, series<node_id> in, attributes attr = {}, location where = {});

  /// Adds an input of the given dtype and extents and appends it to `inputs`; inputs are never merged.
  SINTER_API node_id add_input(dtype type, shape extents, location where = {});

  /// A node equal in value to `x` that nothing else refers to: what a derivative is taken with respect to.
  SINTER_API node_id mark(node_id x);

  /// A uniform tensor of one literal.
  node_id constant(dtype type, scalar literal, shape extents, location where = {}) {
    attributes a;
    a.type = type;
    a.literal = literal;
    a.dims = std::move(extents);
    return push(op::constant, {}, std::move(a), where);
  }
  node_id constant(dtype type, double x, shape extents, location where = {}) {
    return constant(type, scalar::of(type, x), std::move(extents), where);
  }

  /// Ids of the nodes that the outputs need, ascending; inputs are always among them.
  SINTER_API series<node_id> live() const;

 private:
  std::deque<node> nodes_;  ///< references to nodes survive a push
  std::unordered_map<std::string, node_id> interned_;
  std::int64_t marks_ = 0;
};

/// Dtype and extents of the result of `n`, from its operands in `g`. Throws user_error. (structural.hpp)
SINTER_API void infer(const graph& g, node& n);

/// One line for one node: "%5 = f32(8, 4) add %1 %2". (print.hpp)
SINTER_API std::string print(const graph& g, node_id id);

/// The live graph, renumbered densely, without locations: equal graphs print equally. (print.hpp)
SINTER_API std::string print(const graph& g);

/// Throws internal_error naming `pass` unless every invariant of the graph holds. (check.hpp)
SINTER_API void check(const graph& g, const char* pass);

/// Interprets the graph: every op computed in f64 or 64-bit integers, then rounded to the node's dtype. (reference.hpp)
/// `sizes` binds the size symbols.
SINTER_API series<literal_array> evaluate(const graph& g, std::span<const literal_array> inputs,
                                          std::span<const std::int64_t> sizes = {});

}  // namespace sinter::ir

// Header-only: whoever sees the declarations has the definitions as well.
#if !defined(SINTER_COMPILED)
#include "../base/engine_begin.hpp"
#include "../base/engine_end.hpp"
#include "define.hpp"
#endif
