// run/cuda/program/convolve.hpp: convolutions by cuDNN: a plan for each, kept, and its requests to streams.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>

#include "../../../base/convolution.hpp"
#include "../../../base/series.hpp"
#include "../device/memory.hpp"
#include "cudnn.hpp"
#include "kept_plans.hpp"

namespace sinter::engine::run::cuda {

/// One of cuDNN's ways to compute a convolution.
struct convolution_offer {
  void* plan = nullptr;
  std::size_t workspace = 0;
};

/// A convolution that is ready to run on one GPU.
struct convolution_plan {
  convolution what;
  int alignment = 16;
  gpu* where = nullptr;
  void* handle = nullptr;
  std::unique_ptr<dnn_descriptors> descriptors;
  convolution_offer choice;
  std::string problem;  ///< why cuDNN cannot compute it, or ""
};

/// The addresses of the first elements; `bias` is null without a bias.
struct convolution_addresses {
  const void *image = nullptr, *weights = nullptr, *result = nullptr, *bias = nullptr;
};

namespace detail {

struct dnn_device : kept_plans<convolution_plan> {
  std::mutex running;  ///< held while the handle is in use
};

SINTER_API dnn_device& dnn_of(int device) {
  static auto* const all = new std::array<dnn_device, max_devices>;
  return (*all)[static_cast<std::size_t>(device)];
}

inline int dnn_type(dtype t) {
  switch (t) {
    case dtype::f32:
      return dnn_api::data_f32;
    case dtype::f64:
      return dnn_api::data_f64;
    case dtype::f16:
      return dnn_api::data_f16;
    case dtype::bf16:
      return dnn_api::data_bf16;
    default:
      return -1;
  }
}

// The numbers of arrays in a plan; a virtual one is in registers.
inline constexpr std::int64_t image_id = 1, weights_id = 2, result_id = 3, bias_id = 4, first_virtual_id = 5;

/// Describes a convolution with its epilogue as cuDNN's operation graph.
class dnn_graph {
 public:
  dnn_graph(const convolution& what, int alignment, void* handle, dnn_descriptors& to)
      : what_(what), alignment_(alignment), handle_(handle), to_(to) {}

  /// The finished graph; null after a failure.
  void* operation_graph() {
    using namespace dnn_api;
    const bool biased = has_bias(what_.after), clipped = has_relu(what_.after);
    series<void*> steps;
    void* y = array(what_.result, result_id, type_of(convolution_kind::result), biased || clipped);
    steps.push_back(product(y));
    if (biased) {
      convolution_array one;
      one.extents.fill(1), one.strides.fill(1);
      one.extents[1] = one.strides[0] = what_.result.extents[1];
      void* const bias = array(one, bias_id, what_.written, false);
      void* const sum = array(what_.result, result_id, what_.written, clipped);
      steps.push_back(pointwise_of(add, y, bias, sum));
      y = sum;
    }
    if (clipped) steps.push_back(pointwise_of(relu, y, nullptr, array(what_.result, result_id, what_.written, false)));
    void* const made = to_.make(graph);
    to_.set(made, dnn_api::graph_handle, type_handle, &handle_);
    to_.set(made, graph_steps, type_descriptor, steps.data(), static_cast<std::int64_t>(steps.size()));
    to_.finish(made);
    return made;
  }

 private:
  dtype type_of(convolution_kind k) const { return k == what_.kind ? what_.written : what_.type; }
  int rank() const { return what_.spatial + 2; }

  void* array(const convolution_array& x, std::int64_t id, dtype type, bool is_virtual) {
    using namespace dnn_api;
    void* const made = to_.make(tensor);
    // What passes between the steps is in the type of sums.
    const std::int64_t number = is_virtual ? first_virtual_id + virtuals_++ : id, alignment = alignment_;
    const int data = is_virtual ? compute() : dnn_type(type);
    to_.set(made, tensor_type, type_data_type, &data);
    to_.set(made, tensor_extents, type_i64, x.extents.data(), rank());
    to_.set(made, tensor_strides, type_i64, x.strides.data(), rank());
    to_.set(made, tensor_id, type_i64, &number);
    to_.set(made, tensor_alignment, type_i64, &alignment);
    if (is_virtual) to_.set(made, tensor_virtual, type_bool, &is_virtual);
    to_.finish(made);
    return made;
  }
  int compute() const { return what_.type == dtype::f64 ? dnn_api::data_f64 : dnn_api::data_f32; }

  void* product(void* y) {
    using namespace dnn_api;
    void* const windows = to_.make(dnn_api::convolution);
    const std::int64_t spatial_axes = what_.spatial;
    const int type = compute(), mode = cross_correlation;
    to_.set(windows, spatial, type_i64, &spatial_axes);
    to_.set(windows, compute_type, type_data_type, &type);
    to_.set(windows, convolution_mode, type_convolution_mode, &mode);
    to_.set(windows, low_padding, type_i64, what_.low.data(), spatial_axes);
    to_.set(windows, high_padding, type_i64, what_.high.data(), spatial_axes);
    to_.set(windows, filter_strides, type_i64, what_.step.data(), spatial_axes);
    to_.set(windows, dilations, type_i64, what_.dilation.data(), spatial_axes);
    to_.finish(windows);
    void* const x = array(what_.image, image_id, type_of(convolution_kind::image), false);
    void* const w = array(what_.weights, weights_id, type_of(convolution_kind::weights), false);
    // The attributes of each kind follow its first: the factors, the windows, then the arrays.
    struct row {
      int kind, first, weights, image, result;
    };
    constexpr row rows[] = {{forward, forward_first, 3, 4, 5},
                            {image_gradient, image_first, 3, 4, 5},
                            {weights_gradient, weights_first, 3, 4, 5}};
    const row& r = rows[static_cast<std::size_t>(what_.kind)];
    void* const made = to_.make(r.kind);
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    const bool wide = what_.type == dtype::f64;
    to_.set(made, r.first, wide ? type_f64 : type_f32, wide ? static_cast<const void*>(&wide_one) : &one);
    to_.set(made, r.first + 1, wide ? type_f64 : type_f32, wide ? static_cast<const void*>(&wide_zero) : &zero);
    to_.set(made, r.first + 2, type_descriptor, &windows);
    to_.set(made, r.first + r.weights, type_descriptor, &w);
    to_.set(made, r.first + r.image, type_descriptor, &x);
    to_.set(made, r.first + r.result, type_descriptor, &y);
    to_.finish(made);
    return made;
  }

  void* pointwise_of(int mode, void* x, void* b, void* y) {
    using namespace dnn_api;
    void* const what = to_.make(pointwise);
    const int precision = compute(), propagate = 1;
    to_.set(what, pointwise_mode, type_pointwise, &mode);
    to_.set(what, pointwise_precision, type_data_type, &precision);
    if (mode == relu) to_.set(what, pointwise_nan, type_nan, &propagate);
    to_.finish(what);
    void* const made = to_.make(pointwise_step);
    to_.set(made, step_descriptor, type_descriptor, &what);
    to_.set(made, step_x, type_descriptor, &x);
    if (b != nullptr) to_.set(made, step_b, type_descriptor, &b);
    to_.set(made, step_y, type_descriptor, &y);
    to_.finish(made);
    return made;
  }

  const convolution& what_;
  int alignment_;
  void* handle_;
  dnn_descriptors& to_;
  std::int64_t virtuals_ = 0;
};

/// Whether an engine computes what the convolution asks for: its precision, and the same order of sums if that is wanted.
inline bool is_suitable(const convolution& what, void* choice) {
  using namespace dnn_api;
  dnn_descriptors mine;
  void* engine_of = mine.make(engine);
  std::int64_t count = 0;
  std::array<int, max_notes> notes{};
  if (mine.status != 0 || dnn().get(choice, choice_engine, type_descriptor, 1, &count, &engine_of) != 0) return false;
  if (dnn().get(engine_of, engine_notes, type_note, max_notes, &count, notes.data()) != 0) return false;
  const bool exact = what.type == dtype::f32 && !what.tf32;
  for (std::int64_t n = 0; n < std::min<std::int64_t>(count, max_notes); ++n) {
    const int note = notes[static_cast<std::size_t>(n)];
    if (what.deterministic && note == note_nondeterministic) return false;
    if (exact && (note == note_tensor_core || note == note_down_convert)) return false;
  }
  return true;
}

/// The greatest workspace of a convolution.
inline constexpr std::int64_t max_convolution_workspace = std::int64_t{256} << 20;

/// Appends the plans of a heuristic, in its order, up to `most` in all.
inline void append_offers(const convolution_plan& p, void* graph, int mode, std::size_t most,
                          series<convolution_offer>& out) {
  using namespace dnn_api;
  dnn_descriptors asked;
  void* const asks = asked.make(heuristic);
  asked.set(asks, heuristic_graph, type_descriptor, &graph);
  asked.set(asks, heuristic_mode, type_heuristic, &mode);
  asked.finish(asks);
  std::int64_t count = 0;
  if (asked.status != 0 || dnn().get(asks, heuristic_results, type_descriptor, 0, &count, nullptr) != 0) return;
  series<void*> choices;
  for (std::int64_t n = 0; n < count; ++n) choices.push_back(p.descriptors->make(engine_choice));
  if (p.descriptors->status != 0 ||
      dnn().get(asks, heuristic_results, type_descriptor, count, &count, choices.data()) != 0)
    return;
  for (std::int64_t n = 0; n < count && out.size() < most; ++n) {
    void* const choice = choices[static_cast<std::size_t>(n)];
    if (!is_suitable(p.what, choice)) continue;
    void* const made = p.descriptors->make(plan);
    dnn_descriptors& to = *p.descriptors;
    to.set(made, plan_handle, type_handle, &p.handle);
    to.set(made, plan_choice, type_descriptor, &choice);
    to.finish(made);
    std::int64_t bytes = 0, one = 0;
    const bool usable = to.status == 0 && dnn().get(made, plan_workspace, type_i64, 1, &one, &bytes) == 0;
    to.status = 0;  // the next engine may do
    if (usable && bytes <= max_convolution_workspace) out.push_back({made, static_cast<std::size_t>(bytes)});
  }
}

/// Up to `most` ways to compute the convolution, cuDNN's preferred one first; `problem` has the reason if there are none.
SINTER_API series<convolution_offer> offers_of(convolution_plan& p, std::size_t most) {
  const std::lock_guard lock(dnn_of(p.where->index).running);
  p.descriptors = std::make_unique<dnn_descriptors>();
  series<convolution_offer> out;
  if (dnn_type(p.what.type) < 0 || dnn_type(p.what.written) < 0) {
    p.problem = std::string("cuDNN has no convolutions of ") + dtype_name(p.what.type);
    return out;
  }
  void* const graph = dnn_graph(p.what, p.alignment, p.handle, *p.descriptors).operation_graph();
  if (p.descriptors->status != 0) {
    p.problem = std::string("cuDNN: ") + dnn().words(p.descriptors->status);
    return out;
  }
  // Before 8.3 the heuristic of mode A is called instant.
  append_offers(p, graph, dnn().version >= 8300 ? dnn_api::heuristic_a : dnn_api::heuristic_instant, most, out);
  if (out.empty()) append_offers(p, graph, dnn_api::heuristic_fallback, most, out);
  if (out.empty()) p.problem = "cuDNN has no suitable engine";
  return out;
}

inline bool is_empty(const convolution& what) {
  for (const auto* x : {&what.image, &what.weights, &what.result})
    if (sinter::engine::reach_of(*x, what.spatial) == 0) return true;
  return false;
}

inline int common_alignment(const convolution_addresses& at) {
  std::uintptr_t bits = 16;
  for (const void* p : {at.image, at.weights, at.result, at.bias}) bits |= reinterpret_cast<std::uintptr_t>(p);
  return static_cast<int>(bits & ~(bits - 1));
}

inline std::string described(const convolution& what) {
  const auto text = [&](const convolution_array& x) {
    std::string out = "(";
    for (int d = 0; d < what.spatial + 2; ++d)
      out += (d > 0 ? ", " : "") + std::to_string(x.extents[static_cast<std::size_t>(d)]);
    return out + ")";
  };
  return text(what.image) + " by " + text(what.weights) + " of " + dtype_name(what.type);
}

}  // namespace detail

/// The plan for a convolution whose addresses are multiples of `alignment`; made once, and kept. Its `problem` has the reason
/// if cuDNN cannot compute it. Throws system_error without cuDNN.
SINTER_API convolution_plan& plan_convolution(const convolution& what, int alignment, int device) {
  gpu& g = device_at(device);
  const dnn_table& call = dnn();
  if (!call.problem.empty()) throw system_error("[cuda] " + call.problem);
  return detail::kept_plan(detail::dnn_of(device), what, alignment, g, call, "cuDNN", [](convolution_plan& p) {
    if (const auto offers = detail::offers_of(p, 1); !offers.empty()) p.choice = offers[0];
  });
}

/// True if cuDNN is installed and computes this convolution on 16-byte aligned addresses.
SINTER_API bool can_convolve(const convolution& what, int device, std::string& why) {
  why = dnn().problem;
  if (why.empty()) why = plan_convolution(what, 16, device).problem;
  return why.empty();
}

namespace detail {

[[noreturn]] SINTER_API void fail_convolution(const convolution_plan& p, const std::string& problem,
                                              const char* label) {
  const context_scope here(*p.where);
  const api::result r = driver().stream_query(default_queue(p.where->index).handle);
  if (lost_words(r) != nullptr) fail_result(r, "launching");
  throw system_error("[cuda] the convolution " + described(p.what) +
                     (label != nullptr ? std::string(" in ") + label : "") + problem);
}

}  // namespace detail

/// Requests a convolution at these addresses from the queue, whose GPU's context is current; `workspace` is for the plan's
/// choice. Throws system_error naming `label`.
SINTER_API void convolve(const convolution_plan& p, const convolution_addresses& at, void* workspace, queue& q,
                         const char* label) {
  using namespace dnn_api;
  if (!p.problem.empty()) detail::fail_convolution(p, ": " + p.problem, label);
  const bool biased = has_bias(p.what.after);
  const std::array<std::int64_t, 4> ids{detail::image_id, detail::weights_id, detail::result_id, detail::bias_id};
  const std::array<const void*, 4> pointers{at.image, at.weights, at.result, at.bias};
  dnn_descriptors mine;
  void* const given = mine.make(arguments);
  mine.set(given, arguments_ids, type_i64, ids.data(), biased ? 4 : 3);
  mine.set(given, arguments_pointers, type_pointer, pointers.data(), biased ? 4 : 3);
  mine.set(given, arguments_workspace, type_pointer, &workspace);
  mine.finish(given);
  int r = mine.status;
  if (r == 0) {
    const std::lock_guard lock(detail::dnn_of(p.where->index).running);
    r = dnn().set_stream(p.handle, q.handle);
    if (r == 0) r = dnn().execute(p.handle, p.choice.plan, given);
  }
  if (r != 0) detail::fail_convolution(p, std::string(" failed: cuDNN: ") + dnn().words(r), label);
}

/// The same, with its own scratch memory.
SINTER_API void convolve(const convolution_plan& p, const convolution_addresses& at, queue& q, const char* label) {
  const storage workspace = p.choice.workspace > 0 ? allocate(p.choice.workspace, q.where->index, "scratch memory of",
                                                              label != nullptr ? label : "a convolution")
                                                   : storage{};
  convolve(p, at, workspace.data(), q, label);
}

}  // namespace sinter::engine::run::cuda
