// engine/report.hpp: the results of a compilation, as data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "../base/config.hpp"
#include "../base/location.hpp"
#include "../base/series.hpp"

namespace sinter {

/// An operation in a kernel.
struct op_report {
  std::string name;  ///< "exp", "reduce_add", "dot"
  std::string type;  ///< dtype of its result
  location where;    ///< the user's line
};

/// A kernel, or a call of a library.
struct kernel_report {
  std::string name;          ///< the distinct ops in order
  series<op_report> ops;     ///< each op and line once
  std::string space;         ///< iteration space: "(64, 100)"
  std::int64_t read = 0;     ///< bytes; an array counts once however often a kernel reads it
  std::int64_t written = 0;  ///< bytes
  std::int64_t flops =
      0;  ///< scalar operations on floating values, 2 per term of a product; recomputation is not counted
  std::string schedule;  ///< a line: the roles of its axes, its passes; on a GPU the shape of its blocks and its grids
  std::string chosen;    ///< the way that measurement chose, as in candidate_report; empty: by rules
  std::string loops;     ///< by explain(): the schedule and the tree of the recipe that takes the kernel, a line a step
  std::int64_t source = -1;  ///< index into report::sources; -1 for a library call
  std::string tier;          ///< source of its code: "memory", "disk", "bundle", "compiled" or "library"
  std::string library;       ///< with tier "library", its name
  double milliseconds = 0;   ///< time to find or compile the code
  double started = 0;        ///< start of that, in milliseconds after the specialisation's start
  std::size_t first = 0;     ///< the first kernel of its graph: of a segment between breaks, a branch or a loop's body
};

/// A way to compute a kernel or an op.
struct candidate_report {
  std::string
      name;  ///< "library", "option 3" of its recipe, "kernel" without one; of attention "kernels", "composition"
  double microseconds = 0;  ///< the least of some runs, alone and from cold caches
};

/// The ways that mode::max_autotune measured.
struct choice_report {
  std::string what;                     ///< the name of the kernel or of the op
  std::int64_t step = -1;               ///< the first kernel of its kind: an index into report::steps; -1: of an op
  bool kept = false;                    ///< measured earlier, by this process or another one
  series<candidate_report> candidates;  ///< the chosen one first
};

/// Attention without kernels of its own, or what looks like attention.
struct attention_report {
  location where;    ///< the user's line, if known
  std::string what;  ///< "attention", "a gradient of attention", "a product that looks like attention"
  std::string why;
};

/// An exchange of ranks beside a product.
struct exchange_report {
  location where;       ///< the user's line, if known
  std::string what;     ///< "all_gather", "reduce_scatter"
  bool is_cut = false;  ///< into pieces that go around a ring
  std::string why;
};

/// Two kernels that access an array in common, and the reason why they are separate.
struct apart_report {
  std::size_t first = 0, second = 0;  ///< indexes of kernels
  std::string why;
};

/// A buffer, or several that are alike.
struct buffer_report {
  std::string what;   ///< "argument", "result", "intermediate"
  std::string name;   ///< "%12", the node of the planned graph whose value it holds; of several the first
  std::string op;     ///< the node's: "dot"
  std::string type;   ///< its dtype
  std::string shape;  ///< "(8, 1024, 768)"
  location where;     ///< the user's line, if known
  std::size_t count = 1;
  std::int64_t bytes = 0;  ///< of all of them, with the padding between rows
};

/// The buffers in memory when a call needs most.
struct memory_report {
  std::size_t step = 0;           ///< the kernel that runs then: an index into report::steps
  series<buffer_report> buffers;  ///< the largest first; results that take an argument's memory are left out
};

/// A stage of compilation.
struct stage_report {
  std::string name;    ///< "trace", "autodiff", then "rewrite", "plan", "emit" or "read", "compile" (or load), "bind"
  double started = 0;  ///< milliseconds after the start
  double milliseconds = 0;
};

/// A place where a traced value was read, which broke the graph.
struct break_report {
  std::string why;  ///< "item", "if", "printing"…
  location where;

  friend bool operator==(const break_report& a, const break_report& b) {
    return a.why == b.why && a.where.line == b.where.line && std::string_view(a.where.file) == b.where.file;
  }
};

/// The results of compiling one specialisation.
struct report {
  std::size_t nodes_traced = 0;     ///< live nodes as traced, derivatives included
  std::size_t nodes_rewritten = 0;  ///< after the rewrites
  std::size_t kernels_unfused = 0;  ///< one for each op that is not a view, an input or a constant
  std::size_t kernels = 0;          ///< after fusion
  std::size_t collectives = 0;      ///< exchanges between the ranks of a mesh; a bucket of sums is one
  std::size_t copies = 0;           ///< kernels that only copy
  std::size_t lowered = 0;          ///< sets of roots that planning lowered, which take its time
  std::size_t tried = 0;            ///< pairs of groups that planning tried to merge
  std::size_t compiled = 0;         ///< kernels that a compiler built, equal texts once; the rest came from a cache
  std::size_t measured = 0;         ///< ways to compute kernels that this compilation measured
  // The peak memory of a call is the sum of these, minus donated arguments that results reuse.
  std::size_t scratch_bytes = 0;   ///< planned memory for intermediates
  std::size_t argument_bytes = 0;  ///< including captured tensors
  std::size_t result_bytes = 0;
  std::size_t replaced_bytes = 0;  ///< of results that take an argument's memory when all are donated
  memory_report peak;  ///< by buffer, when all arguments are donated; of a segment or a loop only the outermost graph
  double milliseconds = 0;        ///< trace to loaded
  std::string backend;            ///< the backend in use: "reference" if no compiler works
  std::string problem;            ///< why the interpreter answers although kernels were requested
  std::string graph;              ///< the rewritten graph
  series<std::string> sources;    ///< texts of kernels, equal ones once; a step has the index of its text
  series<kernel_report> steps;    ///< one for each kernel, in the order of execution
  series<choice_report> choices;  ///< among ways that were measured, now or earlier
  /// Only in explain(): every pair of kernels of one graph that access an array in common; merging other pairs would save no
  /// bytes.
  series<apart_report> apart;
  series<attention_report> attention;  ///< only in explain(): attention without kernels
  series<exchange_report> exchanges;   ///< only in explain(): gathers that products read and scatters of products
  series<stage_report> stages;         ///< of the compilation
  /// The places where the function reads values; the numbers above are then sums over the segments that have run.
  series<break_report> breaks;
};

}  // namespace sinter
