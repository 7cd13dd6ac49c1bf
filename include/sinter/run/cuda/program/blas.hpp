// run/cuda/program/blas.hpp: matrix products by cuBLASLt, opened on first use.
#pragma once

#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>

#include "../../../base/series.hpp"
#include "../../library.hpp"
#include "../device/memory.hpp"
#include "kept_plans.hpp"
#include "matmul.hpp"

namespace sinter::engine::run::cuda {

/// cuBLASLt by the "cuBLAS" manual (13.0); descriptors are opaque.
struct blas_table {
  struct heuristic {  // cublasLtMatmulHeuristicResult_t
    std::uint64_t algorithm[8];
    std::size_t workspace;
    int state;
    float waves;
    int reserved[4];
  };
  int (*create)(void** handle) = nullptr;
  int (*layout_create)(void** layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t ld) = nullptr;
  int (*layout_set)(void* layout, int attribute, const void* value, std::size_t bytes) = nullptr;
  int (*layout_destroy)(void* layout) = nullptr;
  int (*describe)(void** descriptor, int compute, int scale) = nullptr;
  int (*describe_set)(void* descriptor, int attribute, const void* value, std::size_t bytes) = nullptr;
  int (*describe_destroy)(void* descriptor) = nullptr;
  int (*preference_create)(void** preference) = nullptr;
  int (*preference_set)(void* preference, int attribute, const void* value, std::size_t bytes) = nullptr;
  int (*preference_destroy)(void* preference) = nullptr;
  int (*choose)(void* handle, void* descriptor, void* a, void* b, void* c, void* d, void* preference, int wanted,
                heuristic* results, int* found) = nullptr;
  int (*multiply)(void* handle, void* descriptor, const void* alpha, const void* a, void* a_layout, const void* b,
                  void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                  const void* algorithm, void* workspace, std::size_t workspace_bytes, api::stream stream) = nullptr;
  const char* (*words)(int status) = nullptr;
  std::string identity;  ///< path, size, modification time and build-id
  std::string problem;   ///< why it is missing, with a remedy
};

namespace detail {

SINTER_API std::unique_ptr<const blas_table> open_blas() {
  auto out = std::make_unique<blas_table>();
  const auto major = [](void* handle) {
    const auto version = reinterpret_cast<std::size_t (*)()>(::dlsym(handle, "cublasLtGetVersion"));
    return version != nullptr ? static_cast<int>(version() / 10000) : 0;
  };
  const library found = open_supported(
      {"SINTER_LIBCUBLASLT", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}, {"cu13", "cublas"}}, major);
  const std::string remedy =
      "; install the CUDA toolkit's cuBLAS (or Python's nvidia-cublas) and set CUDA_HOME, or set SINTER_LIBCUBLASLT";
  if (found.handle == nullptr) {
    out->problem = "no cuBLASLt: " + found.problem + remedy;
    return out;
  }
  out->identity = found.path + " " + run::detail::file_stamp(found.path) + " " +
                  build_id_of(::dlsym(found.handle, "cublasLtGetVersion"));
  const auto take = [&](auto& pointer, const char* name) {
    pointer = reinterpret_cast<std::decay_t<decltype(pointer)>>(::dlsym(found.handle, name));
    if (pointer == nullptr) out->problem = "cuBLASLt at " + found.path + " lacks " + name + remedy;
  };
  take(out->create, "cublasLtCreate");
  take(out->layout_create, "cublasLtMatrixLayoutCreate");
  take(out->layout_set, "cublasLtMatrixLayoutSetAttribute");
  take(out->layout_destroy, "cublasLtMatrixLayoutDestroy");
  take(out->describe, "cublasLtMatmulDescCreate");
  take(out->describe_set, "cublasLtMatmulDescSetAttribute");
  take(out->describe_destroy, "cublasLtMatmulDescDestroy");
  take(out->preference_create, "cublasLtMatmulPreferenceCreate");
  take(out->preference_set, "cublasLtMatmulPreferenceSetAttribute");
  take(out->preference_destroy, "cublasLtMatmulPreferenceDestroy");
  take(out->choose, "cublasLtMatmulAlgoGetHeuristic");
  take(out->multiply, "cublasLtMatmul");
  take(out->words, "cublasLtGetStatusString");
  if (const int its = major(found.handle), most = driver_major(); most != 0 && its > most)
    out->problem = "the driver supports CUDA " + std::to_string(most) + " and is older than cuBLASLt " +
                   std::to_string(its) + " at " + found.path + remedy;
  return out;
}

// Attributes and values of cublasLt.h, cublas_api.h and library_types.h.
inline constexpr int desc_transpose_a = 3, desc_transpose_b = 4, desc_epilogue = 7, desc_bias = 8, layout_batch = 5,
                     layout_batch_stride = 6, preference_workspace = 1, preference_alignment = 5, compute_f32 = 68,
                     compute_f64 = 70, compute_tf32 = 77, status_not_supported = 15;

inline int library_type(dtype t) {
  switch (t) {
    case dtype::f32:
      return 0;
    case dtype::f64:
      return 1;
    case dtype::f16:
      return 2;
    case dtype::bf16:
      return 14;
    default:
      return -1;
  }
}

inline int library_epilogue(epilogue e) {
  constexpr std::array<int, 6> codes = {1, 4, 2, 6, 32, 36};
  return codes[static_cast<std::size_t>(e)];
}

}  // namespace detail

/// cuBLASLt, opened at the first call and searched again while it is missing; `problem` has the reason.
SINTER_API const blas_table& blas() {
  static std::mutex mutex;
  static std::atomic<const blas_table*> known{nullptr};
  if (const auto* const found = known.load(std::memory_order_acquire)) return *found;
  const std::lock_guard lock(mutex);
  if (const auto* const found = known.load(std::memory_order_acquire)) return *found;
  static auto& last = *new std::unique_ptr<const blas_table>;
  last = detail::open_blas();
  if (!last->problem.empty()) return *last;
  known.store(last.get(), std::memory_order_release);
  return *last.release();
}

/// A product that is ready to run on one GPU: descriptors and the chosen algorithm.
struct product_plan {
  matmul what;
  int alignment = 16;
  gpu* where = nullptr;
  void* handle = nullptr;
  void *descriptor = nullptr, *a = nullptr, *b = nullptr, *out = nullptr;
  blas_table::heuristic choice{};
  std::string problem;  ///< why cuBLASLt cannot compute it, or ""
  std::mutex bias;      ///< held while the descriptor has the caller's bias pointer
};

namespace detail {

/// The addresses of a product's first call; `bias` is null without a bias.
struct product_addresses {
  const void *a, *b;
  void* out;
  const void* bias;
};

template <class T>
T* advanced(T* p, std::int64_t elements, dtype type) {
  if (p == nullptr) return p;
  using byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return static_cast<byte*>(p) + elements * static_cast<std::int64_t>(size_of(type));
}

/// The addresses of the first elements, from the buffers' addresses.
inline product_addresses offset(const matmul& w, const product_addresses& p) {
  return {advanced(p.a, w.offset_a, w.type), advanced(p.b, w.offset_b, w.type), advanced(p.out, w.offset_out, w.result),
          advanced(p.bias, w.offset_bias, w.result)};
}

/// The largest power of two, at most 16, that divides the addresses of all calls.
inline int common_alignment(const matmul& w, const product_addresses& p) {
  const auto bits_of = [](const void* x) { return reinterpret_cast<std::uintptr_t>(x); };
  const auto step = [](std::int64_t elements, dtype type) {
    return static_cast<std::uintptr_t>(elements) * size_of(type);
  };
  const std::uintptr_t bits = bits_of(p.a) | bits_of(p.b) | bits_of(p.out) | bits_of(p.bias) | 16 |
                              step(w.repeat_a | w.repeat_b, w.type) | step(w.repeat_out, w.result);
  return static_cast<int>(bits & ~(bits - 1));
}

/// The facts on which the library's plan depends.
inline matmul plan_key(matmul w) {
  w.offset_a = w.offset_b = w.offset_out = w.offset_bias = 0;
  w.repeat = 1;
  w.repeat_a = w.repeat_b = w.repeat_out = 0;
  return w;
}

inline bool is_empty(const matmul& w) { return w.m == 0 || w.n == 0 || w.batch == 0 || w.repeat == 0; }

inline void set_batches(const blas_table& call, void* layout, std::int64_t count, std::int64_t stride) {
  const auto batches = static_cast<std::int32_t>(count);
  call.layout_set(layout, layout_batch, &batches, sizeof batches);
  call.layout_set(layout, layout_batch_stride, &stride, sizeof stride);
}

/// Up to `wanted` algorithms for the product, the library's preferred one first; `status` has the reason if there are none.
SINTER_API series<blas_table::heuristic> offers_of(product_plan& p, int wanted, int* status = nullptr) {
  const blas_table& call = blas();
  series<blas_table::heuristic> offers(static_cast<std::size_t>(wanted));
  void* preference = nullptr;
  int found = 0, r = call.preference_create(&preference);
  if (r == 0) {
    const std::uint64_t most = std::uint64_t{p.where->capability >= 90 ? 32u : 4u} << 20;
    call.preference_set(preference, preference_workspace, &most, sizeof most);
    const auto alignment = static_cast<std::uint32_t>(p.alignment);
    for (int i = 0; i < 4; ++i) call.preference_set(preference, preference_alignment + i, &alignment, sizeof alignment);
    r = call.choose(p.handle, p.descriptor, p.b, p.a, p.out, p.out, preference, wanted, offers.data(), &found);
    call.preference_destroy(preference);
  }
  if (status != nullptr) *status = r;
  series<blas_table::heuristic> out;
  for (int i = 0; r == 0 && i < found; ++i)
    if (offers[static_cast<std::size_t>(i)].state == 0) out.push_back(offers[static_cast<std::size_t>(i)]);
  return out;
}

/// Row-major matrices are the transposes of column-major ones: out' = op(b)' op(a)'.
SINTER_API void make_plan(product_plan& p, const blas_table& call) {
  const matmul& w = p.what;
  const int type = library_type(w.type), result = library_type(w.result);
  if (type < 0 || result < 0 || w.batch > std::numeric_limits<std::int32_t>::max()) {
    p.problem = std::string("cuBLASLt has no products of ") + dtype_name(w.type) + " to " + dtype_name(w.result);
    return;
  }
  const bool wide = w.type == dtype::f64;
  const int compute = wide ? compute_f64 : w.tf32 && w.type == dtype::f32 ? compute_tf32 : compute_f32;
  int r = call.describe(&p.descriptor, compute, wide ? 1 : 0);
  const std::int32_t first = w.transpose_b, second = w.transpose_a, after = library_epilogue(w.after);
  if (r == 0) r = call.describe_set(p.descriptor, desc_transpose_a, &first, sizeof first);
  if (r == 0) r = call.describe_set(p.descriptor, desc_transpose_b, &second, sizeof second);
  if (r == 0) r = call.describe_set(p.descriptor, desc_epilogue, &after, sizeof after);
  const auto u = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
  if (r == 0) r = call.layout_create(&p.b, type, u(w.transpose_b ? w.k : w.n), u(w.transpose_b ? w.n : w.k), w.row_b);
  if (r == 0) r = call.layout_create(&p.a, type, u(w.transpose_a ? w.m : w.k), u(w.transpose_a ? w.k : w.m), w.row_a);
  if (r == 0) r = call.layout_create(&p.out, result, u(w.n), u(w.m), w.row_out);
  if (r == 0 && w.batch > 1) {
    set_batches(call, p.b, w.batch, w.batch_b);
    set_batches(call, p.a, w.batch, w.batch_a);
    set_batches(call, p.out, w.batch, w.batch_out);
  }
  if (r == 0) {
    const auto offers = offers_of(p, 1, &r);
    if (!offers.empty()) p.choice = offers[0];
    else if (r == 0) r = status_not_supported;
  }
  if (r != 0) p.problem = std::string("cuBLASLt: ") + call.words(r);
}

using blas_device = kept_plans<product_plan>;

SINTER_API blas_device& blas_of(int device) {
  static auto* const all = new std::array<blas_device, max_devices>;
  return (*all)[static_cast<std::size_t>(device)];
}

inline std::string described(const matmul& w) {
  return "(" + std::to_string(w.m) + ", " + std::to_string(w.k) + ") by (" + std::to_string(w.k) + ", " +
         std::to_string(w.n) + ")" + (w.batch > 1 ? " times " + std::to_string(w.batch) : "") + " of " +
         dtype_name(w.type);
}

}  // namespace detail

/// The plan for a product whose addresses are multiples of `alignment`; made once, and kept. Its `problem` has the reason if
/// cuBLASLt cannot compute it. Throws system_error without cuBLASLt.
SINTER_API product_plan& plan_product(const matmul& product, int alignment, int device) {
  const matmul what = detail::plan_key(product);
  gpu& g = device_at(device);
  const blas_table& call = blas();
  if (!call.problem.empty()) throw system_error("[cuda] " + call.problem);
  return detail::kept_plan(detail::blas_of(device), what, alignment, g, call, "cuBLASLt",
                           [&](product_plan& p) { detail::make_plan(p, call); });
}

/// True if cuBLASLt is installed and computes this product on 16-byte aligned addresses.
SINTER_API bool can_multiply(const matmul& what, int device, std::string& why) {
  why = blas().problem;
  if (why.empty()) why = plan_product(what, 16, device).problem;
  return why.empty();
}

namespace detail {

/// Throws for a product requested by `label`, null if unknown. If an earlier kernel lost the GPU, the library reports only a
/// failure.
[[noreturn]] SINTER_API void fail_product(const product_plan& p, const std::string& problem, const char* label) {
  const context_scope here(*p.where);
  const api::result r = driver().stream_query(default_queue(p.where->index).handle);
  if (lost_words(r) != nullptr) fail_result(r, "launching");
  throw system_error("[cuda] the product " + described(p.what) + (label != nullptr ? std::string(" in ") + label : "") +
                     problem);
}

}  // namespace detail

/// Requests a product at these addresses from the queue, whose GPU's context is current; `workspace` is for the plan's
/// algorithm. Throws system_error naming `label`.
SINTER_API void multiply(product_plan& p, const matmul& what, detail::product_addresses at, void* workspace, queue& q,
                         const char* label) {
  if (!p.problem.empty()) detail::fail_product(p, ": " + p.problem, label);
  const blas_table& call = blas();
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  const bool wide = what.type == dtype::f64;
  const void* const alpha = wide ? static_cast<const void*>(&wide_one) : &one;
  const void* const beta = wide ? static_cast<const void*>(&wide_zero) : &zero;
  std::unique_lock<std::mutex> held;
  int r = 0;
  if (at.bias != nullptr) {
    held = std::unique_lock(p.bias);
    r = call.describe_set(p.descriptor, detail::desc_bias, &at.bias, sizeof at.bias);
  }
  for (std::int64_t i = 0; i < what.repeat && r == 0; ++i) {
    r = call.multiply(p.handle, p.descriptor, alpha, at.b, p.b, at.a, p.a, beta, at.out, p.out, at.out, p.out,
                      p.choice.algorithm, workspace, p.choice.workspace, q.handle);
    at.a = detail::advanced(at.a, what.repeat_a, what.type);
    at.b = detail::advanced(at.b, what.repeat_b, what.type);
    at.out = detail::advanced(at.out, what.repeat_out, what.result);
  }
  if (r != 0) detail::fail_product(p, std::string(" failed: cuBLASLt: ") + call.words(r), label);
}

/// The same, with its own scratch memory.
SINTER_API void multiply(product_plan& p, const matmul& what, const detail::product_addresses& at, queue& q,
                         const char* label) {
  if (detail::is_empty(what)) return;
  const storage workspace = p.choice.workspace > 0 ? allocate(p.choice.workspace, q.where->index, "scratch memory of",
                                                              label != nullptr ? label : "a product")
                                                   : storage{};
  multiply(p, what, at, workspace.data(), q, label);
}

/// Requests a product on buffers from the queue, whose GPU's context is current; `bias` is null without a bias. Throws
/// system_error without cuBLASLt, or, naming `label`, if it cannot compute it.
SINTER_API void multiply(const matmul& what, const void* a, const void* b, void* out, const void* bias, queue& q,
                         const char* label = nullptr) {
  if (detail::is_empty(what)) return;
  const detail::product_addresses at = detail::offset(what, {a, b, out, bias});
  multiply(plan_product(what, detail::common_alignment(what, at), q.where->index), what, at, q, label);
}

}  // namespace sinter::engine::run::cuda
