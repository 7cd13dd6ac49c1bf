// engine/verify.hpp: which op a compiled function computes wrongly, and the smallest program that shows it.
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

/// What verify() found.
struct verification {
  enum class outcome : std::uint8_t {
    agrees,      ///< every kernel computes what the reference does
    differs,     ///< one does not
    no_kernels,  ///< there is no code to verify: it did not compile
    threw,       ///< building or running it threw
  };
  outcome found = outcome::agrees;
  std::size_t kernels = 0;    ///< that were compared
  std::size_t compared = 0;   ///< elements that were
  std::size_t undecided = 0;  ///< elements that depend on rounding: a comparison of nearly equal values, an overflow

  std::string op;              ///< the first that differs
  location where;              ///< its line
  std::string kernel;          ///< that it is in
  series<std::int64_t> index;  ///< of the first element that differs
  std::string got, want;       ///< that element
  std::string problem;         ///< what the compiler or an exception said

  explicit operator bool() const { return found == outcome::agrees; }
  /// One or a few lines for people. (jit/check/verify.hpp)
  SINTER_API std::string text() const;
};

/// What minimize() found.
struct reproduction {
  verification what;      ///< of the smallest graph; nothing failed where it agrees
  std::size_t nodes = 0;  ///< of that graph, inputs included
  std::size_t tried = 0;  ///< graphs
  std::string source;     ///< of a program that shows the failure, and returns 1 as long as there is one
};

namespace engine {

class tracer;
struct argument;

/// A tensor for a graph's input.
struct example {
  ir::literal_array value;
  series<std::int64_t> strides = {};  ///< in elements; none: row-major
};

/// Normal numbers, or small integers, that follow from the seed.
SINTER_API ir::literal_array random_values(dtype type, const series<std::int64_t>& extents, std::uint64_t seed);

/// Compiles the graph for these inputs, runs it kernel by kernel, and compares what each stores with the reference's result
/// from the same operands, within what rounding explains. Where one differs, its ops are compiled one by one to find which.
/// `arguments` are the inputs but for the captures.
SINTER_API verification verify(std::shared_ptr<tracer> traced, std::span<const argument> arguments, const options& how,
                               device where = {});
/// For a graph without captures.
SINTER_API verification verify(const ir::graph& g, const series<example>& inputs, const options& how,
                               device where = {});

/// Where the graph fails verify(): removes results and nodes, and replaces inputs, as long as it fails in the same way.
SINTER_API reproduction minimize(std::shared_ptr<tracer> traced, std::span<const argument> arguments,
                                 const options& how, device where = {});

}  // namespace engine
}  // namespace sinter
