// engine.hpp: the seam. Behind it nothing is a template on user types; in front of it nothing knows kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/dims.hpp"
#include "base/storage.hpp"
#include "ir/graph.hpp"

namespace sinter {

/// What a compiled function is tuned for.
enum class mode : std::uint8_t {
  standard,
  reduce_overhead,  ///< the least work per call
};

/// How compile() treats a function.
struct options {
  sinter::mode mode = sinter::mode::standard;
  /// "cpu"; "reference": interprets the traced graph; "aot_reference": interprets it after every rewrite.
  std::string backend = "cpu";
  /// Indexes of arguments whose storage the call may overwrite with results of equal dtype and extents. A donated
  /// tensor that another handle or argument shares is left alone.
  std::vector<int> donate = {};
  /// Specialisations kept per function; beyond it the least recently used is dropped.
  int recompile_limit = 64;
  /// Shown in logs and errors.
  std::string name = "fn";
};

/// What compilation of one specialisation did.
struct report {
  std::size_t nodes_traced = 0;      ///< live nodes as traced, derivatives included
  std::size_t nodes_rewritten = 0;   ///< after the rewrites
  std::size_t kernels_unfused = 0;   ///< one per op that is not a view, an input or a constant
  std::size_t kernels = 0;           ///< after fusion
  std::size_t compiled = 0;          ///< kernels that the host compiler built; the rest came from a cache
  std::size_t scratch_bytes = 0;     ///< planned memory for intermediates
  double milliseconds = 0;           ///< trace to loaded
  std::string backend;               ///< the one that runs: "reference" where no compiler works
  std::string graph;                 ///< the rewritten graph
  std::vector<std::string> sources;  ///< one text per kernel
};

namespace engine {

/// A tensor argument as kernels see it; points into the caller's tensor.
struct argument {
  void* data = nullptr;
  const storage* owner = nullptr;
  dtype type = dtype::f32;
  int rank = 0;
  const std::int64_t* extents = nullptr;
  const std::int64_t* strides = nullptr;  ///< in elements
};

/// Memory for `bytes` bytes, 64-byte aligned and uninitialised; reuses freed blocks. Throws system_error with the size.
SINTER_API storage allocate(std::size_t bytes);

/// A concrete tensor that a traced function used without taking it as an argument.
struct captured {
  storage memory;
  void* data = nullptr;
  dtype type = dtype::f32;
  std::vector<std::int64_t> extents, strides;
};

/// A graph under construction on this thread.
class tracer {
 public:
  ir::graph graph;
  std::vector<captured> captures;  ///< the last captures.size() inputs of the graph

  /// The input node that stands for a concrete tensor; the same storage, layout and dtype give the same node.
  SINTER_API ir::node_id capture(const argument& x, location where);

 private:
  std::vector<ir::node_id> capture_nodes_;
};

/// The tracer of the innermost trace on this thread, or null: then operations run eagerly.
SINTER_API std::shared_ptr<tracer>& current();

/// Makes `t` the current tracer until the end of the scope.
class tracing_scope {
 public:
  explicit tracing_scope(std::shared_ptr<tracer> t) : previous_(std::exchange(current(), std::move(t))) {}
  ~tracing_scope() { current() = std::move(previous_); }
  tracing_scope(const tracing_scope&) = delete;
  tracing_scope& operator=(const tracing_scope&) = delete;

 private:
  std::shared_ptr<tracer> previous_;
};

/// Pushes the cotangents of `wrt` for a rank-0 floating node `y` and returns their nodes, in order. (autodiff/vjp.hpp)
SINTER_API std::vector<ir::node_id> gradient(ir::graph& g, ir::node_id y, std::span<const ir::node_id> wrt,
                                             location where);

/// A result: contiguous, in memory of its own.
struct output {
  storage memory;
  const std::int64_t* extents = nullptr;  ///< valid as long as the program
  int rank = 0;
  dtype type = dtype::f32;
};

/// A graph made executable for one set of argument layouts.
class program {
 public:
  virtual ~program() = default;
  /// Runs it; `arguments` match the graph's inputs less the captures. Fills outputs.size() results.
  /// Input k may be overwritten when donate[k]. Thread-safe.
  virtual void run(std::span<const argument> arguments, std::span<const std::uint8_t> donate,
                   output* outputs) const = 0;
  /// Number of results.
  virtual std::size_t output_count() const = 0;
  virtual const report& describe() const = 0;
};

/// Rewrites, plans, emits, compiles and loads a traced graph for arguments laid out like `arguments`. Programs are kept by
/// structure: an equal graph and layout give the same program. (jit.hpp)
SINTER_API std::shared_ptr<const program> build(std::shared_ptr<tracer> traced, std::span<const argument> arguments,
                                                const options& how);

/// One call of a compiled function, as guards see it.
struct call {
  const void* signature = nullptr;         ///< one address per C++ argument type list
  std::span<const argument> tensors;       ///< leaves in order
  std::span<const std::uint64_t> statics;  ///< other leaves by value: integers, bools, enums, lengths
};

/// What a trace yields: the graph with its outputs set, and the result tree in which the front end puts them.
struct traced {
  std::shared_ptr<tracer> graph;
  std::shared_ptr<const void> skeleton;
};

struct specialisation {
  std::shared_ptr<const program> code;
  std::shared_ptr<const void> skeleton;
};

/// The specialisations of one compiled function; thread-safe. (jit.hpp)
class function {
 public:
  virtual ~function() = default;
  /// The specialisation whose guards accept the call; traces and builds one when there is none, at most once at a time.
  virtual specialisation find(const call& c, const std::function<traced()>& trace) = 0;
  virtual const options& how() const = 0;
  /// The most recently used specialisation's report; empty before the first call.
  virtual report last() const = 0;
  virtual std::size_t size() const = 0;
};

SINTER_API std::shared_ptr<function> make_function(options how);

}  // namespace engine
}  // namespace sinter

#if !defined(SINTER_COMPILED)
#include "jit.hpp"
#endif
