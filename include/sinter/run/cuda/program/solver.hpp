// run/cuda/program/solver.hpp: factorisations by cuSOLVER and triangular systems by cuBLAS, opened on first use.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>

#include "../../../base/series.hpp"
#include "../device/memory.hpp"

namespace sinter::engine::run::cuda {

/// cuSOLVER's dense functions by its manual (12.0), for one element type. Matrices, tau, pivots, values and info are on the
/// GPU, in column-major order. `room` is on the host, and counts elements.
template <class T>
struct solver_functions {
  int (*potrf_room)(void* handle, int half, int n, T* a, int ld, int* room) = nullptr;
  int (*potrf)(void* handle, int half, int n, T* a, int ld, T* work, int room, int* info) = nullptr;
  int (*getrf_room)(void* handle, int m, int n, T* a, int ld, int* room) = nullptr;
  int (*getrf)(void* handle, int m, int n, T* a, int ld, T* work, int* pivots, int* info) = nullptr;
  int (*geqrf_room)(void* handle, int m, int n, T* a, int ld, int* room) = nullptr;
  int (*geqrf)(void* handle, int m, int n, T* a, int ld, T* tau, T* work, int room, int* info) = nullptr;
  int (*orgqr_room)(void* handle, int m, int n, int k, const T* a, int ld, const T* tau, int* room) = nullptr;
  int (*orgqr)(void* handle, int m, int n, int k, T* a, int ld, const T* tau, T* work, int room, int* info) = nullptr;
  int (*syevd_room)(void* handle, int job, int half, int n, const T* a, int ld, const T* w, int* room) = nullptr;
  int (*syevd)(void* handle, int job, int half, int n, T* a, int ld, T* w, T* work, int room, int* info) = nullptr;
  int (*gesvd_room)(void* handle, int m, int n, int* room) = nullptr;
  int (*gesvd)(void* handle, signed char job_u, signed char job_v, int m, int n, T* a, int ld, T* s, T* u, int ldu,
               T* vt, int ldvt, T* work, int room, T* beside, int* info) = nullptr;
};

/// cuBLAS' solution of triangular systems by its manual (13.0); `alpha` is on the host.
template <class T>
struct triangular_functions {
  int (*trsm)(void* handle, int side, int half, int transposed, int diagonal, int m, int n, const T* alpha, const T* a,
              int ld, T* b, int ldb) = nullptr;
};

/// Both libraries; handles are opaque.
struct solver_table {
  int (*create)(void** handle) = nullptr;
  int (*set_stream)(void* handle, api::stream stream) = nullptr;
  int (*create_blas)(void** handle) = nullptr;
  int (*set_stream_of_blas)(void* handle, api::stream stream) = nullptr;
  solver_functions<float> single;
  solver_functions<double> twofold;
  triangular_functions<float> single_triangular;
  triangular_functions<double> twofold_triangular;
  bool factorises = false, solves_triangles = false;

  template <class T>
  const auto& of() const {
    if constexpr (std::is_same_v<T, float>) return single;
    else return twofold;
  }
  template <class T>
  const auto& triangular() const {
    if constexpr (std::is_same_v<T, float>) return single_triangular;
    else return twofold_triangular;
  }
};

namespace detail {

// Values of cublas_api.h and cusolver_common.h.
inline constexpr int lower_half = 0, upper_half = 1, with_vectors = 1, right_side = 1, as_it_is = 0, any_diagonal = 0,
                     unit_diagonal = 1, solver_has_no_memory = 2, blas_has_no_memory = 3;

/// The functions taken from a library, by name.
struct taken {
  void* from;
  bool whole = true;

  template <class F>
  void operator()(F& function, const std::string& name) {
    function = reinterpret_cast<F>(::dlsym(from, name.c_str()));
    whole = whole && function != nullptr;
  }
};

template <class T>
void take_solver(taken& take, const std::string& letter, solver_functions<T>& out) {
  const auto both = [&](auto& room, auto& function, const char* name) {
    take(room, "cusolverDn" + letter + name + "_bufferSize");
    take(function, "cusolverDn" + letter + name);
  };
  both(out.potrf_room, out.potrf, "potrf");
  both(out.getrf_room, out.getrf, "getrf");
  both(out.geqrf_room, out.geqrf, "geqrf");
  both(out.orgqr_room, out.orgqr, "orgqr");
  both(out.syevd_room, out.syevd, "syevd");
  both(out.gesvd_room, out.gesvd, "gesvd");
}

SINTER_API void open_triangular(solver_table& out) {
  const library found =
      open_supported({"SINTER_LIBCUBLAS", {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}, {"cu13", "cublas"}},
                     [](void* handle) {
                       const auto property = reinterpret_cast<int (*)(int, int*)>(::dlsym(handle, "cublasGetProperty"));
                       int number = 0;
                       return property != nullptr && property(0, &number) == 0 ? number : 0;
                     });
  if (found.handle == nullptr) return;
  taken take{found.handle};
  take(out.create_blas, "cublasCreate_v2");
  take(out.set_stream_of_blas, "cublasSetStream_v2");
  take(out.single_triangular.trsm, "cublasStrsm_v2");
  take(out.twofold_triangular.trsm, "cublasDtrsm_v2");
  out.solves_triangles = take.whole;
}

/// Opens a library with its dependencies: Python's packages have each library in a separate folder, where the loader does not
/// search.
inline library open_with_others(const library_names& names) {
  library found = open_library(names);
  if (found.handle != nullptr || !environment(names.override_variable).empty()) return found;
  open_library({"", {"libnvJitLink.so.13", "libnvJitLink.so.12"}, {"cu13", "nvjitlink"}});
  open_library({"", {"libcusparse.so.12"}, {"cu13", "cusparse"}});
  return open_library(names);
}

SINTER_API void open_solver(solver_table& out) {
  // Its major version is one less than CUDA's.
  const auto cuda_major = [](void* handle) {
    const auto version = reinterpret_cast<int (*)(int*)>(::dlsym(handle, "cusolverGetVersion"));
    int number = 0;
    return version != nullptr && version(&number) == 0 ? number / 1000 + 1 : 0;
  };
  library_names names{
      "SINTER_LIBCUSOLVER", {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"}, {"cu13", "cusolver"}};
  library found = open_with_others(names);
  const int most = driver_major();
  if (found.handle != nullptr && most != 0 && cuda_major(found.handle) > most) {
    names.files = {"libcusolver.so." + std::to_string(most - 1)};
    found = open_library(names);
    if (found.handle != nullptr && cuda_major(found.handle) > most) return;
  }
  if (found.handle == nullptr) return;
  taken take{found.handle};
  take(out.create, "cusolverDnCreate");
  take(out.set_stream, "cusolverDnSetStream");
  take_solver(take, "S", out.single);
  take_solver(take, "D", out.twofold);
  out.factorises = take.whole;
}

/// The queue of a stream on the GPU with the current context.
SINTER_API queue& queue_of(api::stream stream) {
  api::context here = nullptr;
  check(driver().context_get(&here), "asking for the current context");
  for (const auto& slot : driver_instance().gpus) {
    const gpu* const g = slot.load(std::memory_order_acquire);
    if (g == nullptr || g->context != here) continue;
    const queue_table& table = queues_of(g->index);
    for (int i = 0; i < table.count.load(std::memory_order_acquire); ++i)
      if (queue& q = queue_at(g->index, i); q.handle == stream) return q;
  }
  throw system_error("[cuda] a factorisation is asked of a stream that is none of the current GPU's");
}

}  // namespace detail

/// cuSOLVER and cuBLAS, opened at the first call; SINTER_LIBCUSOLVER=none and SINTER_LIBCUBLAS=none disable them.
SINTER_API const solver_table& solver_library() {
  static const solver_table& table = *new solver_table([] {
    solver_table out;
    // cuSOLVER depends on cuBLAS, so cuBLAS is opened first.
    if (detail::environment("SINTER_LIBCUBLAS") != "none") detail::open_triangular(out);
    if (detail::environment("SINTER_LIBCUSOLVER") != "none") detail::open_solver(out);
    return out;
  }());
  return table;
}

/// The libraries' handles for one stream; they have their own work memory.
struct solver {
  queue* where = nullptr;
  void *dense = nullptr, *blas = nullptr;
  std::mutex mutex;  ///< held from a call's first request to its last
};

namespace detail {

/// Throws for any library result except 0.
inline void demand(int status, const char* library, const std::string& what, const char* variable) {
  if (status != 0)
    throw system_error("[cuda] " + std::string(library) + ": " + what + " fails with error " + std::to_string(status) +
                       "; " + variable + "=none does without it");
}

/// A handle for a stream. If the library finds no memory, free blocks are first returned to the driver.
template <class Create, class Set>
void* started(Create* create, Set* set, int no_memory, const queue& q, const char* library, const char* variable) {
  void* handle = nullptr;
  int status = create(&handle);
  if (status == no_memory) {
    trim(q.where->index);
    status = create(&handle);
  }
  demand(status, library, "starting", variable);
  demand(set(handle, q.handle), library, "choosing a stream", variable);
  return handle;
}

}  // namespace detail

/// The handles of a queue, made at its first call.
SINTER_API solver& solver_of(queue& q) {
  static std::mutex mutex;
  static auto& all = *new series<std::unique_ptr<solver>>;
  const std::lock_guard lock(mutex);
  for (const auto& s : all)
    if (s->where == &q) return *s;
  const solver_table& call = solver_library();
  auto made = std::make_unique<solver>();
  made->where = &q;
  if (call.factorises)
    made->dense = detail::started(call.create, call.set_stream, detail::solver_has_no_memory, q, "cuSOLVER",
                                  "SINTER_LIBCUSOLVER");
  if (call.solves_triangles)
    made->blas = detail::started(call.create_blas, call.set_stream_of_blas, detail::blas_has_no_memory, q, "cuBLAS",
                                 "SINTER_LIBCUBLAS");
  all.push_back(std::move(made));
  return *all.back();
}

}  // namespace sinter::engine::run::cuda
