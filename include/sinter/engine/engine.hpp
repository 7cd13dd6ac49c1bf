// engine/engine.hpp: the seam. Behind it nothing is a template on user types; in front of it nothing knows kernels.
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
#include "linear_part.hpp"
#include "options.hpp"
#include "rows.hpp"
#include "tracer.hpp"

namespace sinter {

/// What a cache folder holds.
struct cache_contents {
  std::string folder;
  std::size_t kernels = 0;
  std::uint64_t bytes = 0;  ///< of disk space
  std::uint64_t limit = 0;  ///< of it; all ones when there is none
};

/// Kernels of this process's compilations since it began: how many were wanted, and how many of them are there.
struct compile_counts {
  std::size_t wanted = 0, made = 0;
};

namespace engine {

namespace detail {
/// Where the parts of kernel_facts are: a device as it lies in memory, around them.
enum : int { fact_dtype = 8, fact_by_value = 16, fact_aligned = 17, fact_number = 18, fact_index = 32 };

/// What kernels assume of an argument besides extents and strides, as one number: its dtype and device, and for a GPU's
/// vector accesses whether its address is a multiple of 16.
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

/// Memory for `bytes` bytes on a device, 64-byte aligned and uninitialised; reuses freed blocks. On a GPU it is ordered with
/// the current stream. Throws system_error with the size, or when there is no such device.
SINTER_API storage allocate(std::size_t bytes, device where = {});

/// Copies between any two devices, in order with the work of the current streams; a copy to the host has arrived when
/// this returns, and a copy from the host has been read.
SINTER_API void copy(void* to, device to_where, const void* from, device from_where, std::size_t bytes);
/// The same between places in two storages, whose work on other streams is waited for; neither is reused before the copy is done.
SINTER_API void copy(const storage& to, void* place, const storage& from, const void* data, std::size_t bytes);

/// Host memory with a copy of elements of a GPU, in memory of `from`, that may be on its way: storage::settle() waits for it.
SINTER_API storage copy_to_host(const storage& from, const void* data, std::size_t bytes);

/// Waits until the device has done everything asked of it. Throws system_error for what failed there, naming the kernel.
SINTER_API void synchronize(device where);

/// Number of GPUs that the driver shows; 0, and why in `problem`, when there are none.
SINTER_API int cuda_device_count(std::string& problem);

/// Zeros for the host.
SINTER_API memory_statistics memory_stats(device where);
/// Returns free blocks to the device's driver, or to the host's system.
SINTER_API void trim_memory(device where);

/// Of front/runtime/cache.hpp. (services/caches.hpp)
SINTER_API std::size_t save_cache(const std::string& path, location at);
SINTER_API std::size_t load_cache(const std::string& path, location at);
SINTER_API std::size_t clear_cache(const std::string& folder);
SINTER_API cache_contents cache_info(const std::string& folder);
SINTER_API compile_counts compile_progress();

/// Makes the library that `address` lies in stay in the process, for what is kept of its code: functions and values of the user,
/// and what is known by an address in it. (services/libraries.hpp)
SINTER_API void keep_loaded(const void* address);
/// Whether both addresses lie in one library, or in the program.
SINTER_API bool in_one_library(const void* a, const void* b);

/// A queue of work of a GPU: what is asked of one is done in order. (services/streams.hpp)
class stream_queue {
 public:
  virtual ~stream_queue() = default;
  /// Everything asked of it is done.
  virtual bool done() const = 0;
  /// Waits for that. Throws system_error for what failed there.
  virtual void synchronize() const = 0;
  /// Makes it the current one of this thread on its GPU as long as the result lives.
  virtual std::shared_ptr<void> enter() const = 0;
};
/// user_error for the host, which has none.
SINTER_API std::shared_ptr<stream_queue> make_stream(device where, location at);

/// A point in a stream's work.
class stream_event {
 public:
  virtual ~stream_event() = default;
  /// Marks the point after everything asked so far of the stream, or of this thread's current one.
  virtual void record(const stream_queue* of, location at) = 0;
  /// The stream, or this thread's current one, does nothing more before the point is reached.
  virtual void hold(const stream_queue* waiter) const = 0;
  virtual bool done() const = 0;
  virtual void synchronize() const = 0;
  /// Milliseconds from start's point to this one, when both are timed.
  virtual float since(const stream_event& start, location at) const = 0;
};
SINTER_API std::shared_ptr<stream_event> make_event(device where, bool timed, location at);

/// Where new tensors of this thread go: what a device_scope says, else set_default_device, else $SINTER_DEVICE, else the
/// host. user_error when the variable names no device that there is.
SINTER_API device default_device();
SINTER_API void set_default_device(device where);
/// user_error naming `op` unless there is such a device.
SINTER_API void check_device(device where, const char* op, location at);
/// What this thread's innermost device_scope says. Returns what the one around it says.
SINTER_API std::optional<device> exchange_scoped_device(std::optional<device> where);

/// A tracer for a part of what the current one traces: the same device, values of the current one at hand.
SINTER_API std::shared_ptr<tracer> make_inner_tracer();

/// The results of a branch: one of two parts without inputs of their own. (trace/nested.hpp)
SINTER_API series<ir::node_id> push_cond(tracer& t, ir::node_id predicate, tracer& yes, tracer& no, location where);

/// The carried values and the stacks of a loop. `operands` are the carried values as they start, then what is read slice by slice;
/// the body's inputs are the index, the carried values and the slices. With `reverse` the last step comes first.
SINTER_API series<ir::node_id> push_loop(tracer& t, tracer& body, std::size_t carried, series<ir::node_id> operands,
                                         ir::dim length, location where, bool reverse = false);

/// The carried values at the end of a loop that runs while a part says so.
SINTER_API series<ir::node_id> push_while(tracer& t, tracer& test, tracer& body, series<ir::node_id> init,
                                          location where);

/// The results of a function of the user.
SINTER_API series<ir::node_id> push_foreign(tracer& t, std::shared_ptr<const ir::foreign> function, bool has_effect,
                                            series<ir::node_id> operands, series<ir::result_type> results,
                                            location where);

/// Nodes, and which of them have lanes as axis 0.
struct lanes_result {
  series<ir::node_id> nodes;
  series<char> varies;
};
/// What the graph of `body` computes for each of `lanes` lanes. operands: for the inputs of `body`, in order; what it imports
/// of the traces around it comes behind and does not vary. Those with varies[k] have the lanes as axis 0, and so have the
/// results that vary. user_error for what has no batch rule. (batch/push_lanes.hpp)
SINTER_API lanes_result push_lanes(tracer& t, tracer& body, series<ir::node_id> operands, std::span<const char> varies,
                                   ir::dim lanes, location where);

/// An extent as the graph has it, and as the front end has it: of the current trace.
SINTER_API ir::dim to_ir(dim d);
SINTER_API ir::shape to_ir(const dim* extents, int rank);
SINTER_API dim from_ir(const ir::dim& d);

/// An extent among the results: where the trace answers its call, what it is there; else it is fixed.
SINTER_API std::int64_t returned_size(const tracer& t, dim d);

/// Makes all extents of a trace numbers: unless they are, the trace ends with an exception and repeats; after stay() it goes
/// on with numbers.
SINTER_API void fix_sizes(tracer& t, const std::string& why, location where);
/// The traced function has read a value and does not run again: what it asks of its sizes narrows them from here on.
SINTER_API void stay(tracer& t);
/// The trace's sizes are narrowed in this tracer's graph too.
SINTER_API void watch_sizes(const std::shared_ptr<tracer>& t);
/// Extents of an earlier segment as they are now.
SINTER_API ir::shape resolved_sizes(const tracer& t, ir::shape extents);
/// How the inputs of a segment tell the sizes that are open in its graph: the call's arguments, then what it captured. Empty
/// where all are numbers. Puts what has been narrowed into g.
SINTER_API size_layout segment_layout(tracer& t, ir::graph& g, std::span<const argument> inputs);
/// What has been narrowed so far, in words.
SINTER_API series<narrowed_size> narrowed_sizes(const tracer& t);

/// `marks` with an axis marked as dynamic, with extents from `least` to `most`, or as static. (trace/sizes.hpp)
SINTER_API std::uint32_t add_mark(std::uint32_t marks, int axis, bool dynamic, std::int64_t least, std::int64_t most);

/// Pushes the cotangents of `wrt` for a rank-0 floating node `y` and returns their nodes, in order. (autodiff/vjp.hpp)
SINTER_API series<ir::node_id> gradient(ir::graph& g, ir::node_id y, std::span<const ir::node_id> wrt, location where);
/// The same in a trace, timed for its report. (jit/pipeline.hpp)
SINTER_API series<ir::node_id> gradient(tracer& t, ir::node_id y, std::span<const ir::node_id> wrt, location where);

/// Pushes the tangents of `outputs` for `tangents` of `wrt` and returns their nodes, in order; zeros where none flows. All are
/// floating; a tangent has the dtype and extents of its node. (autodiff/jvp.hpp, jit/pipeline.hpp)
SINTER_API series<ir::node_id> jvp(tracer& t, std::span<const ir::node_id> outputs, std::span<const ir::node_id> wrt,
                                   std::span<const ir::node_id> tangents);
/// Pushes the cotangents of `wrt` for `cotangents` of `outputs`, in the same way.
SINTER_API series<ir::node_id> vjp(tracer& t, std::span<const ir::node_id> outputs,
                                   std::span<const ir::node_id> cotangents, std::span<const ir::node_id> wrt,
                                   location where);

/// The map from tangents of `wrt` to those of `outputs`, or where `transposed` from cotangents of `outputs` to those of `wrt`.
/// What it needs of the trace is pushed there. (autodiff/linear.hpp)
SINTER_API linear_part linear(tracer& t, std::span<const ir::node_id> outputs, std::span<const ir::node_id> wrt,
                              bool transposed, location where);

/// All derivatives of node y by node x: y's axes, then x's. All lanes of an identity go through the derivative together: tangents
/// of x, or cotangents of y. (autodiff/jacobian.hpp)
SINTER_API ir::node_id jacobian(tracer& t, ir::node_id y, ir::node_id x, bool forward, location where);

/// The results of a function that has derivative rules of its own, or whose derivative computes it anew. `operands`: what
/// the inputs of `body` stand for. (trace/nested.hpp)
SINTER_API series<ir::node_id> push_call(tracer& t, tracer& body, std::shared_ptr<const ir::foreign> rules,
                                         ir::recompute again, series<ir::node_id> operands, location where);

/// A result: contiguous, in memory of its own.
struct output {
  storage memory;
  std::int64_t extents[max_rank] = {};
  int rank = 0;
  dtype type = dtype::f32;
};

/// A graph made executable for one set of argument layouts.
class program {
 public:
  virtual ~program() = default;
  /// Runs it; `arguments`, then `numbers`, which are by value, match the graph's inputs less the captures. Fills outputs.size()
  /// results. Input k may be overwritten when donate[k]; then its owner, not const, may be empty after a run that succeeds.
  /// Thread-safe.
  virtual void run(std::span<const argument> arguments, std::span<const argument> numbers,
                   std::span<const std::uint8_t> donate, output* outputs) const = 0;
  void run(std::span<const argument> arguments, std::span<const std::uint8_t> donate, output* outputs) const {
    run(arguments, {}, donate, outputs);
  }
  /// Number of results.
  virtual std::size_t output_count() const = 0;
  virtual report describe() const = 0;
  /// Of the graph's and the kernels' texts.
  virtual std::size_t text_bytes() const = 0;
  /// The same with report::apart, which is worked out now.
  virtual report explain() const { return describe(); }
};

/// Rewrites, plans, emits, compiles and loads a traced graph for arguments laid out like `arguments`, for the device that
/// they are on, or `where` when there are none. Programs are kept by structure: an equal graph and layout give the same
/// program. user_error naming two arguments on different devices. What the programs of one function have in common, the
/// scratch memory of its recordings, is kept in `shared`. (jit/pipeline.hpp)
SINTER_API std::shared_ptr<const program> build(std::shared_ptr<tracer> traced, std::span<const argument> arguments,
                                                const options& how, device where = {},
                                                std::shared_ptr<void>* shared = nullptr);

/// An eager computation on a GPU.
struct stage {
  const char* name = "";                ///< the op, for logs and errors
  const void* signature = nullptr;      ///< one address per computation
  std::span<const operand> operands;    ///< in any order, repetitions included
  std::span<const std::int64_t> facts;  ///< what else the computation follows from
  device where;
  location at;
};

struct output;

/// How a stage is traced, should no program for it be known: run(what) gives the node to compute.
struct pushing {
  ir::node_id (*run)(const void* what) = nullptr;
  const void* what = nullptr;
};

/// The one result of a stage. The first with its signature, operand layouts and facts calls `trace` under a tracer; later
/// ones run the program that became of it. Numbers are constants of that program until one differs; from then on they are
/// handed over by value. (dispatch/eager_programs.hpp)
SINTER_API output run_stage(const stage& s, pushing trace);

/// One call of a compiled function, as guards see it.
struct call {
  const void* signature = nullptr;         ///< one address per C++ argument type list
  std::span<const argument> tensors;       ///< leaves in order
  std::span<const std::uint64_t> statics;  ///< other leaves by value: integers, bools, enums, lengths
  device where;                            ///< where it runs if no tensor tells
  std::uint64_t setting = 0;               ///< what else on this thread the trace follows: autocast's dtype
};

/// What a trace yields: the graph with its outputs set and what it assumed, and the result tree in which the front end
/// puts the outputs.
struct traced {
  std::shared_ptr<tracer> graph;
  std::shared_ptr<const void> skeleton;
  std::optional<series<captured>> answer;  ///< of a function that read values: the results of this call
  segments_run did;                        ///< then

  SINTER_API traced();
  SINTER_API traced(const traced& x);
  SINTER_API traced(traced&& x) noexcept;
  SINTER_API traced& operator=(const traced& x);
  SINTER_API traced& operator=(traced&& x) noexcept;
  SINTER_API ~traced();
};

/// Ends a trace; indices to be checked follow its results. Of a function that has read values, computes the elements of
/// graph.outputs: the answer, in memory that nothing else refers to. (dispatch/segments.hpp)
SINTER_API void finish(traced& t);

/// Builds and runs a finished trace, for its answer, unless it has one. (jit/pipeline.hpp)
SINTER_API void answer(traced& t, std::span<const argument> arguments, const options& how, device where);

/// What calls of compiled functions do on this thread.
inline constinit thread_local stance current_stance = stance::normal;

/// A leaf of a call's arguments in words: "argument 1", and for what is no tensor its value.
struct leaf_text {
  std::string name, value;
  bool floating = false;  ///< a C++ number that calls cannot leave open, since it is within a tree
  bool integer = false;   ///< a C++ integer, and no flag
  bool in_tree = false;
};
/// Names what is at a path within an argument, ".state[3]"; the argument itself where that is empty.
SINTER_API void name_leaf(leaf_text& out, int argument, const std::string& path);
/// The value of a leaf that is the length of a vector.
SINTER_API void name_length(leaf_text& out, std::uint64_t length);

/// A class whose values compare by == and std::hash.
struct value_class {
  bool (*equal)(const void*, const void*);
  std::shared_ptr<const void> (*copy)(const void*);
};

/// A number that equal values share, and no others. Thread-safe. (guards/values.hpp)
SINTER_API std::uint64_t value_number(const value_class& type, std::size_t hash, const void* value);

/// How a call is traced, should no guard accept it: run(what, request). It may run several times. describe(what, leaf,
/// of_tensors) names a tensor, or the leaf that holds a word of the call's statics.
struct tracing {
  traced (*run)(const void* what, const trace_request& request) = nullptr;
  leaf_text (*describe)(const void* what, int leaf, bool of_tensors) = nullptr;
  const void* what = nullptr;
};

/// What answers a call; it stays as long as this lives. Without a program the function is to be run as it is.
class found {
 public:
  found() = default;
  /// `in` is decremented at the end.
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
  bool reads_values = false;  ///< without a program: it is run in segments at each call

 private:
  std::atomic<long>* in_ = nullptr;
};

/// The specialisations of one compiled function; thread-safe. (dispatch/dispatch.hpp)
class function {
 public:
  virtual ~function() = default;
  /// The specialisation whose guards accept the call; traces and builds one when there is none, at most once at a time.
  virtual found find(const call& c, const tracing& trace) = 0;
  /// What a function that reads values did when it was run again.
  virtual void answered(const call& c, const segments_run& did) = 0;
  /// What such a run keeps open.
  virtual trace_request segment_request(const call& c) = 0;
  /// What it holds: its segments among it.
  virtual detail::function_state& held() = 0;
  /// As find, and returns when the kernels are there.
  virtual void prepare(const call& c, const tracing& trace) = 0;
  /// The sizes that are open in the specialisation which accepts the call, or would but for C++ numbers; empty where all are
  /// numbers or there is none.
  virtual size_layout open_sizes(const call& c, const tracing& trace) = 0;
  /// Makes inputs behind the call's tensors, given in `inputs`, of those constants of its trace that are arguments of the
  /// kernels which answer it. The result holds their values.
  virtual std::shared_ptr<void> take_numbers(const call& c, const tracing& trace, traced& t,
                                             series<argument>& inputs) = 0;
  /// Waits for the kernels that are being made in the background.
  virtual void wait_ready() = 0;
  virtual const options& how() const = 0;
  /// The most recently used specialisation's report; empty before the first call.
  virtual report last() const = 0;
  virtual std::size_t size() const = 0;
  /// All specialisations, the most recently used first.
  virtual explanation explain() const = 0;
};

/// `where` is the line that makes it.
SINTER_API std::shared_ptr<function> make_function(const options& how, location where = {});

}  // namespace engine
}  // namespace sinter

#if !defined(SINTER_COMPILED)
#include "../jit/pipeline.hpp"
#endif
