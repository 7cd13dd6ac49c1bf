// engine/tracer.hpp: a graph under construction, the call that it is made for, and reads of its values. Part of the seam.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "../base/config.hpp"
#include "../base/device.hpp"
#include "../base/extent.hpp"
#include "../base/series.hpp"
#include "../base/storage.hpp"
#include "../ir/graph.hpp"
#include "assumptions.hpp"
#include "options.hpp"
#include "report.hpp"

namespace sinter::engine {

class tracer;
class program;
namespace detail {
class function_state;
}

/// A tensor argument as kernels see it; points into the caller's tensor.
struct argument {
  void* data = nullptr;
  const storage* owner = nullptr;
  dtype type = dtype::f32;
  int rank = 0;
  const std::int64_t* extents = nullptr;
  const std::int64_t* strides = nullptr;  ///< in elements
  /// A rank-0 value in host memory that a GPU's kernels receive as a parameter.
  bool by_value = false;
  /// The axes' marks by mark_dynamic and mark_static, as add_mark() makes them; 0 without marks.
  std::uint32_t marks = 0;

  device where() const { return owner ? owner->where() : device{}; }
};

/// A concrete tensor that a traced function uses although it is not an argument.
struct captured {
  storage memory;
  void* data = nullptr;
  dtype type = dtype::f32;
  series<std::int64_t> extents, strides;
  bool by_value = false;
  ir::shape sizes = {};  ///< for a segment's result, the extents in its trace; empty if they are numbers
};

/// Captures of a trace, or of its kernels. Their references to memory are counted separately: others() counts all other
/// references.
class capture_list {
 public:
  capture_list() = default;
  capture_list(const capture_list& x) : all_(x.all_) { weigh(sinter::detail::kept_reference - 1); }
  capture_list(capture_list&& x) noexcept : all_(std::exchange(x.all_, {})) {}
  capture_list& operator=(capture_list x) noexcept {
    std::swap(all_, x.all_);
    return *this;
  }
  ~capture_list() { weigh(1 - sinter::detail::kept_reference); }

  std::size_t size() const { return all_.size(); }
  bool empty() const { return all_.empty(); }
  const captured& operator[](std::size_t i) const { return all_[i]; }
  const captured* begin() const { return all_.begin(); }
  const captured* end() const { return all_.end(); }
  void clear() { *this = capture_list(); }
  void push_back(captured x) {
    weigh(x, sinter::detail::kept_reference - 1);
    all_.push_back(std::move(x));
  }
  void replace(std::size_t i, captured x) {
    weigh(x, sinter::detail::kept_reference - 1);
    std::swap(all_[i], x);
    weigh(x, 1 - sinter::detail::kept_reference);
  }

  /// The number of handles to a block outside of such lists.
  static long others(const sinter::detail::block& b) {
    return b.references.load(std::memory_order_relaxed) & (sinter::detail::kept_reference - 1);
  }

 private:
  static void weigh(const captured& x, long by) {
    if (x.memory) x.memory.get()->references.fetch_add(by, std::memory_order_acq_rel);
  }
  void weigh(long by) {
    for (const captured& x : all_) weigh(x, by);
  }

  series<captured> all_;
};

/// The programs and breaks that answered a call in place of one program.
struct segments_run {
  series<std::shared_ptr<const program>> programs;  ///< each once
  series<break_report> breaks;                      ///< each once
  series<narrowed_size> narrowed;                   ///< sizes that are less open than asked for, each reason once
  break_report closes;                              ///< with a reason: why the function's sizes cannot be open

  /// Adds all except programs.
  SINTER_API void add(const segments_run& more);
  /// All programs as one report; with `reasons`, by explain().
  SINTER_API report describe(bool reasons = false) const;
};

/// The call for which a function is traced; needed to read a value while the function still runs.
struct live_call {
  const options* how = nullptr;
  detail::function_state* held = nullptr;  ///< the function's state; null outside compile()
  const void* signature = nullptr;         ///< of the argument types, as in engine::call
  location where;                          ///< the line that made the function
  std::string beyond;                      ///< trace_request::beyond
  series<argument> arguments;              ///< the arguments of the first segment's first inputs
  int whole = 0;                           ///< above 0, inside grad: the graph cannot be broken
  int fullgraph = 0;                       ///< above 0: reading is an error
  bool answers = false;                    ///< the function has read a value: segments answer the call
  segments_run did;
  series<storage> results;  ///< results of segments whose addresses the function does not have
  series<storage> made;     ///< concrete tensors that the function made of C++ values
  struct copy {
    storage memory;
    std::size_t hash = 0;
    location where;
  };
  series<copy> copies;                        ///< handed out for reading only
  series<std::unique_ptr<storage>> replaced;  ///< arguments' memory that the function may write
};

/// A value of a graph under construction, shared by the tensors that stand for it. (dispatch/segments.hpp)
struct traced_value {
  std::atomic<long> references{1};
  std::shared_ptr<tracer> of;
  ir::node_id node = ir::no_node;  ///< in the graph of `segment`
  std::uint32_t segment = 0;
  std::size_t place = 0;               ///< index in of->values
  std::unique_ptr<captured> elements;  ///< once they are known
  storage copy;                        ///< the row-major copy that was handed out
  location where;                      ///< of the node, once the elements are known
};

/// The values of a trace to which tensors refer. A copy of the tracer has none.
struct value_list {
  series<traced_value*> all;
  std::atomic_flag busy;  ///< held while `all` changes

  value_list() = default;
  value_list(const value_list&) {}
  value_list& operator=(const value_list&) = delete;
};

/// A value that indexes an axis, and the op that the user called.
struct index_use {
  const char* op = "";
  ir::node_id node = ir::no_node;
  std::int64_t extent = 0;
  location where;
  bool from_end = false;  ///< negative indices count from the end
};

/// The time that a graph took to make, in milliseconds.
struct trace_times {
  double trace = 0;     ///< running the function, without derivatives
  double autodiff = 0;  ///< derivatives, including those in bodies of loops
};

/// An address that identifies the tracing thread. A copy is not traced.
struct tracing_thread {
  std::atomic<const void*> at = nullptr;
  tracing_thread() = default;
  tracing_thread(const tracing_thread&) {}
  tracing_thread& operator=(const tracing_thread&) { return *this; }
};

/// A graph under construction on this thread; after a graph break, the rest of it.
class tracer {
 public:
  ir::graph graph;
  capture_list captures;            ///< the last captures.size() inputs of the graph
  std::optional<device> where;      ///< the device of the traced function, once known
  double memory_budget = 1;         ///< options::memory_budget
  std::string_view backend;         ///< options::backend; empty: unknown
  bool numbers_by_value = false;    ///< C++ numbers become rank-0 inputs instead of constants
  trace_request request;            ///< the parts that the trace shall leave open
  assumptions assumed;              ///< its assumptions so far
  std::shared_ptr<live_call> call;  ///< null if values cannot be read: trace(fn), the bodies of loops
  std::uint32_t segment = 0;        ///< the number of graph breaks so far
  value_list values;                ///< values to which a tensor refers
  /// The open sizes, shared with traces inside this one; null if all extents are numbers.
  std::shared_ptr<sinter::detail::size_arithmetic> sizes;

  /// Makes `sizes` from the request.
  SINTER_API void open_sizes();
  /// Replaces the extents of tensor `leaf` of the traced call by the request's open ones.
  SINTER_API void input_extents(int leaf, dim* extents, int rank) const;

  bool checks_indices = false;  ///< the graph runs once, on the host: `indices` become results, and are checked
  series<index_use> indices;

  trace_times spent;  ///< for a finished graph; for one under construction, its derivatives
  double began = 0;   ///< the graph's start, in milliseconds of a steady clock
  /// The time that the graph has taken so far. (trace/traces.hpp)
  SINTER_API trace_times spent_until_now() const;

  series<specialised> numbers;  ///< the floating arguments, at most 64, in case a value is read

  tracing_thread thread;

  bool in_lanes = false;                     ///< its values stand for all lanes of a vmap
  std::shared_ptr<tracer> outer;             ///< the trace around a branch or a body, whose values this one may use
  series<ir::node_id> imported;              ///< nodes of `outer` that the last imported.size() inputs stand for
  mutable std::shared_ptr<void> placements;  ///< of nodes along axes of meshes, as known so far (batch/placements.hpp)

  /// The node in this graph for node x of `of`, which is this tracer or an outer one, else user_error. (trace/nested.hpp)
  SINTER_API ir::node_id adopt(const tracer* of, ir::node_id x, location where);
  /// True for this tracer and its outer tracers.
  bool is_within(const tracer* of) const { return of == this || (outer && outer->is_within(of)); }
  /// The outermost trace.
  tracer& outermost() { return outer ? outer->outermost() : *this; }

  /// The function computes with floating C++ values of the call, so constants may depend on them.
  bool has_scalars = false;
  bool has_read = false;             ///< has read elements, so constants may depend on them from now on
  std::int64_t constants_apart = 0;  ///< of the graph and its parts

  /// Assumes the values of a set of numbers, given as bits.
  SINTER_API void specialise(std::uint64_t which);
  SINTER_API void specialise(const specialised& number);
  /// Whether floating constants may differ in the trace of another call.
  bool follows_scalars() const { return outer ? outer->follows_scalars() : has_scalars || has_read; }

  /// The input node for a concrete tensor; the same storage, layout and dtype give the same node. Open extents are given in
  /// `sizes`.
  SINTER_API ir::node_id capture(const argument& x, location where, const ir::shape& sizes = {});
  /// An empty graph for the next segment. If sizes are open, its first inputs are the call's tensors, which determine them.
  SINTER_API void start_segment();

 private:
  series<ir::node_id> capture_nodes_;
};

/// Milliseconds of a steady clock.
SINTER_API double milliseconds_now();

/// A tracer with an empty graph; inside a trace it shares the outer trace's sizes.
SINTER_API std::shared_ptr<tracer> make_tracer();

/// The purpose of tracing a function.
struct trace_target {
  device on;
  location where;
  const trace_request* request = nullptr;  ///< null if all sizes are numbers
  /// With options, the call itself: its function may read values.
  const options* how = nullptr;
  detail::function_state* held = nullptr;  ///< for such a call
  const void* signature = nullptr;
  std::span<const argument> arguments = {};
  bool answer = false;  ///< the call needs results, not a graph
  bool whole = false;   ///< the graph cannot be broken, and runs once
  double memory_budget = 1;
  std::string_view backend = {};
};
SINTER_API std::shared_ptr<tracer> make_tracer(const trace_target& to);

/// The tracer of the innermost trace on this thread; if null, operations run eagerly.
SINTER_API std::shared_ptr<tracer>& current();

/// True while the current tracer has a call: then reading a concrete tensor counts; see count_read.
inline constinit thread_local bool reads_count = false;

/// Makes `t` the current tracer until the end of the scope.
class tracing_scope {
 public:
  SINTER_API explicit tracing_scope(std::shared_ptr<tracer> t);
  SINTER_API ~tracing_scope();
  tracing_scope(const tracing_scope&) = delete;
  tracing_scope& operator=(const tracing_scope&) = delete;

 private:
  std::shared_ptr<tracer> previous_;
  const void* thread_ = nullptr;  ///< the tracer's previous value
};

/// user_error for a value of `of`, which is not this thread's trace.
[[noreturn]] SINTER_API void fail_out_of_trace(const tracer& of, location at);

SINTER_API traced_value* make_value(std::shared_ptr<tracer> of, ir::node_id node);
SINTER_API void release(traced_value* v) noexcept;
/// The value's node in the current graph; elements that an earlier segment computed become an input.
SINTER_API ir::node_id node_of(traced_value& v);
/// The value's elements, permanently or for reading at once. Unknown elements are computed by a graph break: all values to
/// which tensors refer become results of this graph, and inputs of the next. Within grad the graph stays whole, and the value
/// is computed separately. user_error if it cannot be computed, and under options.fullgraph; a location without a line
/// becomes the value's.
SINTER_API captured read(traced_value& v, const char* what, location at, bool for_good = false);
/// Records a read of a concrete tensor's elements: results that depend on them hold only for this call. If the memory may be
/// written from now on, the graph's captures of it are copied first.
SINTER_API void count_read(const char* what, const storage& memory, bool may_write, location at);
/// Records memory that the function made of C++ values, which are constants: reading it does not count.
SINTER_API void count_made(const storage& memory);
/// Breaks the graph. user_error within grad, and in the cases of read.
SINTER_API void cut(tracer& t, const char* what, location at);
/// The copy given to keep_copy, or nothing.
SINTER_API storage copy_to_read(const traced_value& v);
/// Hands a row-major copy of the elements to the function; the end of the trace is a user_error if the copy was written.
SINTER_API void keep_copy(traced_value& v, storage copy, location at);
/// Allows reading values of the trace until the end of the scope.
class live_scope {
 public:
  explicit live_scope(tracer& t) : t_(t) {}
  SINTER_API ~live_scope();
  live_scope(const live_scope&) = delete;
  live_scope& operator=(const live_scope&) = delete;

 private:
  tracer& t_;
};

/// Increments a count until the end of the scope.
class counted_scope {
 public:
  explicit counted_scope(int* n) : n_(n) {
    if (n_) ++*n_;
  }
  ~counted_scope() {
    if (n_) --*n_;
  }
  counted_scope(const counted_scope&) = delete;
  counted_scope& operator=(const counted_scope&) = delete;

 private:
  int* n_;
};

}  // namespace sinter::engine
