// engine/engine.hpp: the seam. Behind it nothing is a template on users' types; in front of it no code depends on kernels.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "../base/config.hpp"
#include "../base/device.hpp"
#include "../base/dims.hpp"
#include "../base/extent.hpp"
#include "../base/same_build.hpp"
#include "../base/series.hpp"
#include "../base/storage.hpp"
#include "../ir/graph.hpp"
#include "assumptions.hpp"
#include "explain.hpp"
#include "export.hpp"
#include "linear_part.hpp"
#include "options.hpp"
#include "rows.hpp"
#include "tracer.hpp"

namespace sinter {

/// The contents of a cache folder.
struct cache_contents {
  std::string folder;
  std::size_t kernels = 0;
  std::uint64_t bytes = 0;  ///< of disk space
  std::uint64_t limit = 0;  ///< limit of disk space; all ones without a limit
};

/// The kernels of this process's compilations so far: the number wanted, and the number that is ready.
struct compile_counts {
  std::size_t wanted = 0, made = 0;
};

namespace engine {

namespace detail {
/// The bit positions in kernel_facts around a device, which lies there as in memory.
enum : int { fact_dtype = 8, fact_by_value = 16, fact_aligned = 17, fact_number = 18, fact_index = 32 };

/// The assumptions of kernels about an argument besides extents and strides, as one number: dtype, device, and for vector
/// accesses of a GPU whether its address is a multiple of 16.
[[gnu::always_inline]] inline std::int64_t kernel_facts(const argument& a) {
  const device where = a.where();
  const bool aligned = where.is_cuda() && reinterpret_cast<std::uintptr_t>(a.data) % 16 == 0;
  return static_cast<std::int64_t>(where.type) | static_cast<std::int64_t>(a.type) << fact_dtype |
         std::int64_t{a.by_value} << fact_by_value | std::int64_t{aligned} << fact_aligned |
         std::int64_t{where.index} << fact_index;
}

inline bool is_row_major(const argument& a) {
  std::int64_t s = 1;
  for (int d = a.rank; d-- > 0; s *= a.extents[d])
    if (a.extents[d] != 1 && a.strides[d] != s) return false;
  return true;
}
}  // namespace detail

/// `bytes` bytes of memory on a device, 64-byte aligned and uninitialised; reuses freed blocks. On a GPU it is ordered with
/// the current stream. Throws system_error with the size, or if the device does not exist.
SINTER_API storage allocate(std::size_t bytes, device where = {});

/// Copies between any two devices, in order with the work of the current streams. On return, a copy to the host has arrived,
/// and the source of a copy from the host has been read.
SINTER_API void copy(void* to, device to_where, const void* from, device from_where, std::size_t bytes);
/// Copies between two storages, after their work on other streams; neither is reused before the copy is done.
SINTER_API void copy(const storage& to, void* place, const storage& from, const void* data, std::size_t bytes);

/// Host memory for a copy of elements of a GPU in `from`. The copy may still be pending: storage::wait() waits for it.
SINTER_API storage copy_to_host(const storage& from, const void* data, std::size_t bytes);

/// Waits until the device has finished all its work. Throws system_error for a failure there, naming the kernel.
SINTER_API void synchronize(device where);

/// The number of GPUs that the driver shows; if 0, `problem` has the reason.
SINTER_API int cuda_device_count(std::string& problem);

/// Zeros for the host.
SINTER_API memory_statistics memory_stats(device where);
/// memory_statistics::peak counts from now on.
SINTER_API void reset_peak_memory(device where);
/// Returns free blocks to the device's driver, or to the host's system.
SINTER_API void trim_memory(device where);

/// For front/runtime/cache.hpp. (services/caches.hpp)
SINTER_API std::size_t save_cache(const std::string& path, location at);
SINTER_API std::size_t load_cache(const std::string& path, location at);
SINTER_API std::size_t clear_cache(const std::string& folder);
SINTER_API cache_contents cache_info(const std::string& folder);
SINTER_API compile_counts compile_progress();

/// Keeps the library of `address` loaded in the process, because the engine keeps functions and values of its code, and facts
/// known by its addresses. (services/libraries.hpp)
SINTER_API void keep_loaded(const void* address);
/// Whether both addresses are in one library, or in the program.
SINTER_API bool in_one_library(const void* a, const void* b);

/// A queue of a GPU's work, which runs in order. (services/streams.hpp)
class stream_queue {
 public:
  virtual ~stream_queue() = default;
  /// Whether all work of the queue is done.
  virtual bool done() const = 0;
  /// Waits for all work of the queue. Throws system_error for a failure there.
  virtual void synchronize() const = 0;
  /// Makes the queue this thread's current one on its GPU as long as the result lives.
  virtual std::shared_ptr<void> enter() const = 0;
};
/// user_error for the host, which has no streams.
SINTER_API std::shared_ptr<stream_queue> make_stream(device where, location at);

/// A point in a stream's work.
class stream_event {
 public:
  virtual ~stream_event() = default;
  /// Marks the point after all work so far of the stream, or of this thread's current stream.
  virtual void record(const stream_queue* of, location at) = 0;
  /// Holds later work of the stream, or of this thread's current stream, until the point is reached.
  virtual void hold(const stream_queue* waiter) const = 0;
  virtual bool done() const = 0;
  virtual void synchronize() const = 0;
  /// Milliseconds from start's point to this point, if both are timed.
  virtual float since(const stream_event& start, location at) const = 0;
};
SINTER_API std::shared_ptr<stream_event> make_event(device where, bool timed, location at);

/// The device of this thread's new tensors: the device_scope's, else set_default_device's, else $SINTER_DEVICE's, else the
/// host. user_error if the variable names a device that does not exist.
SINTER_API device default_device();
SINTER_API void set_default_device(device where);
/// user_error naming `op` if the device does not exist.
SINTER_API void check_device(device where, const char* op, location at);
/// Sets the device of this thread's innermost device_scope, and returns the previous one.
SINTER_API std::optional<device> exchange_scoped_device(std::optional<device> where);

/// A tracer for a part within the current trace: it has the same device, and can use the current trace's values.
SINTER_API std::shared_ptr<tracer> make_inner_tracer();

/// The results of a branch with two parts, which have no inputs. (trace/nested.hpp)
SINTER_API series<ir::node_id> push_cond(tracer& t, ir::node_id predicate, tracer& yes, tracer& no, location where);

/// The carried values and the stacks of a loop. `operands` are the initial carried values, followed by the sliced values. The
/// body's inputs are the index, the carried values and the slices. With `reverse` the last step comes first.
SINTER_API series<ir::node_id> push_loop(tracer& t, tracer& body, std::size_t carried, series<ir::node_id> operands,
                                         ir::dim length, location where, bool reverse = false);

/// The carried values at the end of a loop that runs as long as `test` holds.
SINTER_API series<ir::node_id> push_while(tracer& t, tracer& test, tracer& body, series<ir::node_id> init,
                                          location where);

/// The results of a function of the user.
SINTER_API series<ir::node_id> push_foreign(tracer& t, std::shared_ptr<const ir::foreign> function, bool has_effect,
                                            series<ir::node_id> operands, series<ir::result_type> results,
                                            location where);

/// Nodes, and whether each has lanes as axis 0.
struct lanes_result {
  series<ir::node_id> nodes;
  series<char> varies;
};
/// The results of the graph of `body` for each of `lanes` lanes. `operands` are for the inputs of `body`, in order. Imports
/// of `body` from outer traces follow, and do not vary. Operands with varies[k] have the lanes as axis 0, and so do the
/// results that vary. user_error for an op without a batch rule. (batch/push_lanes.hpp)
SINTER_API lanes_result push_lanes(tracer& t, tracer& body, series<ir::node_id> operands, std::span<const char> varies,
                                   ir::dim lanes, location where);

/// Converts extents of the current trace between the graph's form and the front end's.
SINTER_API ir::dim to_ir(dim d);
SINTER_API ir::shape to_ir(const dim* extents, int rank);
SINTER_API dim from_ir(const ir::dim& d);

/// An extent among the results: its value if the trace answers its call; otherwise the extent becomes fixed.
SINTER_API std::int64_t returned_size(const tracer& t, dim d);

/// Makes all extents of a trace numbers. If some are not, the trace ends with an exception and repeats; after stay() it
/// continues with numbers.
SINTER_API void fix_sizes(tracer& t, const std::string& why, location where);
/// The traced function has read a value, and does not run again: from here on, questions about sizes narrow them.
SINTER_API void stay(tracer& t);
/// Narrows the sizes in this tracer's graph, too, when the trace narrows them.
SINTER_API void watch_sizes(const std::shared_ptr<tracer>& t);
/// Extents of an earlier segment with the present sizes.
SINTER_API ir::shape resolved_sizes(const tracer& t, ir::shape extents);
/// How the inputs of a segment determine the open sizes of its graph: the call's arguments, then the captures. Empty if all
/// are numbers. Applies the narrowed sizes to g.
SINTER_API size_layout segment_layout(tracer& t, ir::graph& g, std::span<const argument> inputs);
/// The sizes narrowed so far, in words.
SINTER_API series<narrowed_size> narrowed_sizes(const tracer& t);

/// `marks` with an axis marked as dynamic, for extents from `least` to `most`, or as static. (trace/sizes.hpp)
SINTER_API std::uint32_t add_mark(std::uint32_t marks, int axis, bool dynamic, std::int64_t least, std::int64_t most);

/// user_error for a loss that ranks of a mesh hold as replicated: each would count it once. (batch/placements.hpp)
SINTER_API void check_loss(const tracer& t, ir::node_id y, location where);
/// Pushes the cotangents of `wrt` for a rank-0 floating node `y`, and returns their nodes in order. (autodiff/vjp.hpp)
SINTER_API series<ir::node_id> gradient(ir::graph& g, ir::node_id y, std::span<const ir::node_id> wrt, location where);
/// The same in a trace, timed for its report. (jit/pipeline.hpp)
SINTER_API series<ir::node_id> gradient(tracer& t, ir::node_id y, std::span<const ir::node_id> wrt, location where);

/// Pushes the tangents of `outputs` for `tangents` of `wrt`, and returns their nodes in order, with zeros where none flows.
/// All are floating; a tangent has the dtype and extents of its node. (autodiff/jvp.hpp, jit/pipeline.hpp)
SINTER_API series<ir::node_id> jvp(tracer& t, std::span<const ir::node_id> outputs, std::span<const ir::node_id> wrt,
                                   std::span<const ir::node_id> tangents);
/// Pushes the cotangents of `wrt` for `cotangents` of `outputs`, in the same way.
SINTER_API series<ir::node_id> vjp(tracer& t, std::span<const ir::node_id> outputs,
                                   std::span<const ir::node_id> cotangents, std::span<const ir::node_id> wrt,
                                   location where);

/// The map from tangents of `wrt` to tangents of `outputs`; if `transposed`, from cotangents of `outputs` to cotangents of
/// `wrt`. Pushes values that it needs on the trace. (autodiff/linear.hpp)
SINTER_API linear_part linear(tracer& t, std::span<const ir::node_id> outputs, std::span<const ir::node_id> wrt,
                              bool transposed, location where);

/// All derivatives of node y by node x, with y's axes, then x's. All lanes of an identity pass through the derivative
/// together, as tangents of x or cotangents of y. (autodiff/jacobian.hpp)
SINTER_API ir::node_id jacobian(tracer& t, ir::node_id y, ir::node_id x, bool forward, location where);

/// The results of a function with its own derivative rules, or whose derivative recomputes it. `operands` are the values of
/// the inputs of `body`. (trace/nested.hpp)
SINTER_API series<ir::node_id> push_call(tracer& t, tracer& body, std::shared_ptr<const ir::foreign> rules,
                                         ir::recompute again, series<ir::node_id> operands, location where);

/// A result: contiguous, in its own memory.
struct output {
  storage memory;
  std::int64_t extents[max_rank] = {};
  int rank = 0;
  dtype type = dtype::f32;
};

/// An executable graph for one set of argument layouts.
class program {
 public:
  virtual ~program() = default;
  /// Runs the graph. `arguments`, then `numbers`, which are by value, match the graph's inputs without the captures. Fills
  /// outputs.size() results. With donate[k], input k may be overwritten; its owner is then not const, and may be empty after
  /// a successful run. Thread-safe.
  virtual void run(std::span<const argument> arguments, std::span<const argument> numbers,
                   std::span<const std::uint8_t> donate, output* outputs) const = 0;
  void run(std::span<const argument> arguments, std::span<const std::uint8_t> donate, output* outputs) const {
    run(arguments, {}, donate, outputs);
  }
  /// Number of results.
  virtual std::size_t output_count() const = 0;
  virtual report describe() const = 0;
  /// The bytes of the graph's and the kernels' texts.
  virtual std::size_t text_bytes() const = 0;
  /// Like describe, with report::apart, which is computed at this call.
  virtual report explain() const { return describe(); }
};

/// Rewrites, plans, emits, compiles and loads a traced graph for arguments with the layouts of `arguments`, on their device,
/// or on `where` without arguments. Programs are kept by structure: an equal graph and layout give the same program.
/// user_error that names two arguments on different devices. `shared` keeps the common part of a function's programs, the
/// scratch memory of its recordings. (jit/pipeline.hpp)
SINTER_API std::shared_ptr<const program> build(std::shared_ptr<tracer> traced, std::span<const argument> arguments,
                                                const options& how, device where = {},
                                                std::shared_ptr<void>* shared = nullptr);

/// An eager computation on a GPU.
struct stage {
  const char* name = "";                ///< the op, for logs and errors
  const void* signature = nullptr;      ///< one address per computation
  std::span<const operand> operands;    ///< in any order, possibly repeated
  std::span<const std::int64_t> facts;  ///< all other facts that the computation depends on
  device where;
  location at;
};

struct output;

/// Traces a stage if no program for it is known: run(what) returns the node to compute.
struct pushing {
  ir::node_id (*run)(const void* what) = nullptr;
  const void* what = nullptr;
};

/// The single result of a stage. The first call with its signature, operand layouts and facts calls `trace` under a tracer;
/// later calls run the resulting program. Numbers are constants of that program until one differs; from then on they are
/// passed by value. (dispatch/eager_programs.hpp)
SINTER_API output run_stage(const stage& s, pushing trace);

/// One call of a compiled function, as guards see it.
struct call {
  const void* signature = nullptr;         ///< one address per C++ argument type list
  std::span<const argument> tensors;       ///< leaves in order
  std::span<const std::uint64_t> statics;  ///< other leaves by value: integers, bools, enums, lengths
  device where;                            ///< the device of a call without tensors
  std::uint64_t setting = 0;               ///< settings of this thread that a trace depends on: autocast's dtype
};

/// The result of a trace: the graph with its outputs and its assumptions, and the result tree that receives the outputs.
struct traced {
  std::shared_ptr<tracer> graph;
  std::shared_ptr<const void> skeleton;
  std::optional<series<captured>> answer;  ///< for a function that read values: the results of this call
  segments_run did;                        ///< for such a function: its segments

  SINTER_API traced();
  SINTER_API traced(const traced& x);
  SINTER_API traced(traced&& x) noexcept;
  SINTER_API traced& operator=(const traced& x);
  SINTER_API traced& operator=(traced&& x) noexcept;
  SINTER_API ~traced();
};

/// Ends a trace; indices that need checks follow its results. If the function read values, computes the elements of
/// graph.outputs, the answer, in memory without other references. (dispatch/segments.hpp)
SINTER_API void finish(traced& t);

/// Builds and runs a finished trace to get its answer, unless it has one. (jit/pipeline.hpp)
SINTER_API void answer(traced& t, std::span<const argument> arguments, const options& how, device where);

/// The stance of this thread's calls of compiled functions.
inline constinit thread_local stance current_stance = stance::normal;

/// A leaf of a call's arguments in words: "argument 1", and the value of a leaf that is not a tensor.
struct leaf_text {
  std::string name, value;
  bool floating = false;  ///< a C++ number inside a tree, which calls cannot leave open
  bool integer = false;   ///< a C++ integer, not a flag
  bool in_tree = false;
};
/// Names the part at a path within an argument, ".state[3]"; the argument itself if the path is empty.
SINTER_API void name_leaf(leaf_text& out, int argument, const std::string& path);
/// Sets the value of a leaf that is the length of a vector.
SINTER_API void name_length(leaf_text& out, std::uint64_t length);

/// A class whose values compare by == and std::hash.
struct value_class {
  bool (*equal)(const void*, const void*);
  std::shared_ptr<const void> (*copy)(const void*);
};

/// A number that identifies a value: equal values share it. Thread-safe. (guards/values.hpp)
SINTER_API std::uint64_t value_number(const value_class& type, std::size_t hash, const void* value);

/// Traces a call if no guard accepts it: run(what, request) may run several times. describe(what, leaf, of_tensors) names a
/// tensor, or the leaf that holds a word of the call's statics.
struct tracing {
  traced (*run)(const void* what, const trace_request& request) = nullptr;
  leaf_text (*describe)(const void* what, int leaf, bool of_tensors) = nullptr;
  const void* what = nullptr;
};

/// The answer to a call; it stays valid as long as this object lives. Without a program, the function runs natively.
class found {
 public:
  found() = default;
  /// Decrements `in` at the end.
  found(const program* p, const void* tree, std::atomic<long>* in, bool reads = false)
      : code(p), skeleton(tree), reads_values(reads), in_(in) {}
  found(found&& x) noexcept
      : code(x.code), skeleton(x.skeleton), reads_values(x.reads_values), in_(std::exchange(x.in_, nullptr)) {}
  found& operator=(found&&) = delete;
  ~found() {
    if (in_) in_->fetch_sub(1, std::memory_order_release);
  }

  const program* code = nullptr;
  const void* skeleton = nullptr;
  bool reads_values = false;  ///< without a program: each call runs in segments

 private:
  std::atomic<long>* in_ = nullptr;
};

/// The specialisations of one compiled function; thread-safe. (dispatch/dispatch.hpp)
class function {
 public:
  virtual ~function() = default;
  /// The specialisation whose guards accept the call. If there is none, traces and builds one, at most one at a time.
  virtual found find(const call& c, const tracing& trace) = 0;
  /// Records the segments of a function that reads values, after it ran again.
  virtual void answered(const call& c, const segments_run& did) = 0;
  /// The open parts of such a run.
  virtual trace_request segment_request(const call& c) = 0;
  /// The function's state, including its segments.
  virtual detail::function_state& held() = 0;
  /// Like find, but returns when the kernels are ready.
  virtual void prepare(const call& c, const tracing& trace) = 0;
  /// The open sizes of the specialisation that accepts the call, or would except for C++ numbers. Empty if all are numbers,
  /// or no specialisation fits.
  virtual size_layout open_sizes(const call& c, const tracing& trace) = 0;
  /// Turns constants of the call's trace into inputs, if they are arguments of the kernels that answer it. They are appended
  /// to `inputs`, after the call's tensors. The result holds their values.
  virtual std::shared_ptr<void> take_numbers(const call& c, const tracing& trace, traced& t,
                                             series<argument>& inputs) = 0;
  /// Waits for kernels that are compiled in the background.
  virtual void wait_ready() = 0;
  virtual const options& how() const = 0;
  /// The report of the specialisation used last; empty before the first call.
  virtual report last() const = 0;
  virtual std::size_t size() const = 0;
  /// The explanation of all specialisations, the one used last first.
  virtual explanation explain() const = 0;
};

/// `where` is the line that makes the function.
SINTER_API std::shared_ptr<function> make_function(const options& how, location where = {});

}  // namespace engine
}  // namespace sinter

#if !defined(SINTER_COMPILED)
#include "../jit/pipeline.hpp"
#endif
