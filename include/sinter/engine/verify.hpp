// engine/verify.hpp: the op that a compiled function computes wrongly, and the smallest program that shows it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "../base/location.hpp"
#include "../base/series.hpp"
#include "../ir/graph.hpp"
#include "options.hpp"

namespace sinter {

/// The result of verify().
struct verification {
  enum class outcome : std::uint8_t {
    agrees,      ///< every kernel agrees with the reference
    differs,     ///< a kernel differs
    no_kernels,  ///< nothing to verify: it did not compile
    threw,       ///< building or running it threw an exception
  };
  outcome found = outcome::agrees;
  std::size_t kernels = 0;    ///< number of compared kernels
  std::size_t compared = 0;   ///< number of compared elements
  std::size_t undecided = 0;  ///< elements that depend on rounding: a comparison of nearly equal values, an overflow

  std::string op;              ///< the first op that differs
  location where;              ///< its line
  std::string kernel;          ///< the kernel that contains it
  series<std::int64_t> index;  ///< of the first element that differs
  std::string got, want;       ///< that element
  std::string problem;         ///< the message of the compiler or of an exception

  explicit operator bool() const { return found == outcome::agrees; }
  /// One or a few lines for people. (jit/check/verify.hpp)
  SINTER_API std::string text() const;
};

/// The result of minimize().
struct reproduction {
  verification what;      ///< of the smallest graph; no failure if it agrees
  std::size_t nodes = 0;  ///< of that graph, inputs included
  std::size_t tried = 0;  ///< number of graphs
  std::string source;     ///< a program that shows the failure, and returns 1 while it exists
};

namespace engine {

class tracer;
struct argument;

/// A tensor for a graph's input.
struct example {
  ir::literal_array value;
  series<std::int64_t> strides = {};  ///< in elements; empty for row-major
};

/// Normal numbers, or small integers, determined by the seed.
SINTER_API ir::literal_array random_values(dtype type, const series<std::int64_t>& extents, std::uint64_t seed);

/// Compiles the graph for these inputs, and runs it kernel by kernel. Compares each stored value with the reference's result
/// for the same operands, within rounding bounds. If a kernel differs, its ops are compiled one by one to find the wrong op.
/// `arguments` are the inputs without the captures.
SINTER_API verification verify(std::shared_ptr<tracer> traced, std::span<const argument> arguments, const options& how,
                               device where = {});
/// For a graph without captures.
SINTER_API verification verify(const ir::graph& g, const series<example>& inputs, const options& how,
                               device where = {});

/// Shrinks a graph that fails verify(): removes results and nodes, and replaces inputs, as long as it fails in the same way.
SINTER_API reproduction minimize(std::shared_ptr<tracer> traced, std::span<const argument> arguments,
                                 const options& how, device where = {});

}  // namespace engine
}  // namespace sinter
