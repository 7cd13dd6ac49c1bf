// jit/factors_on_gpu.hpp: factorisations of large matrices by a GPU's libraries, with kernels around them that fix the signs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "../base/series.hpp"
#include "../emit/cuda/factors.hpp"
#include "../emit/cuda/solver.hpp"
#include "../engine/factors.hpp"
#include "../run/cuda/program/nvrtc.hpp"
#include "../run/cuda/program/program.hpp"
#include "../run/cuda/program/solver.hpp"

namespace sinter::engine {

namespace detail {

/// A kernel of emit/cuda/solver.hpp, or sinter_factor_again of emit/cuda/panels.hpp, for one element type on one GPU.
struct solver_kernel {
  std::string name;
  dtype type = dtype::f32;
  int device = 0;
  std::shared_ptr<const run::cuda::module> code;
  run::cuda::api::function entry = nullptr;
};

/// Built at the first call, and kept.
SINTER_API run::cuda::api::function solver_kernel_of(const char* name, dtype type, int device) {
  static std::mutex mutex;
  static auto& all = *new series<solver_kernel>;
  const std::lock_guard lock(mutex);
  for (const auto& k : all)
    if (k.type == type && k.device == device && k.name == name) return k.entry;
  const bool again = std::string_view(name) == "sinter_factor_again";
  const std::string text = again ? emit::factor_source("lu", type, true, false, true) : emit::solver_source(type);
  solver_kernel made{name, type, device, run::cuda::build({&text, 1}, device)[0].code};
  made.entry = made.code->find(name);
  all.push_back(std::move(made));
  return all.back().entry;
}

/// One stack of matrices for the library. All requests go to one queue, in whose order the memory is reused.
template <class T>
class gpu_factors {
 public:
  gpu_factors(const factor_request& how, ir::foreign_arrays in, ir::foreign_arrays out, run::cuda::queue& q)
      : how_(how), in_(in), out_(out), q_(q), library_(run::cuda::solver_of(q)), lock_(library_.mutex) {
    const std::int64_t* const e = in[0].extents;
    count_ = e[0], m_ = e[1], n_ = e[2];
  }

  void run() {
    switch (how_.what) {
      case factorisation::cholesky:
        return cholesky();
      case factorisation::triangular_solve:
        return triangular_solve();
      case factorisation::lu:
        return lu();
      case factorisation::qr:
        return qr();
      case factorisation::eigh:
        return eigh();
      case factorisation::svd:
        return svd();
    }
  }

 private:
  struct grid {
    std::int64_t x = 1, y = 1, z = 1;
  };

  template <class E>
  E* operand(std::size_t k) const {
    return static_cast<E*>(in_[k].data);
  }
  template <class E>
  E* result(std::size_t k) const {
    return static_cast<E*>(out_[k].data);
  }
  /// Memory until the end of the factorisation.
  template <class E>
  E* room(std::int64_t elements) {
    const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(elements, 1)) * sizeof(E);
    held_.push_back(run::cuda::allocate(bytes, q_.where->index, "memory for", "a factorisation"));
    return static_cast<E*>(held_.back().data());
  }
  run::cuda::api::function kernel(const char* name) const {
    return solver_kernel_of(name, dtype_of<T>, q_.where->index);
  }
  const auto& call() const { return run::cuda::solver_library().template of<T>(); }

  int number(std::int64_t extent) const {
    if (extent > std::numeric_limits<int>::max())
      throw system_error("[cuda] a matrix of " + std::to_string(extent) +
                         " rows or columns is too large for cuSOLVER; SINTER_LIBCUSOLVER=none does without it");
    return static_cast<int>(extent);
  }
  void demand(int status) const {
    if (status == 0) return;
    run::cuda::detail::demand(status, "cuSOLVER",
                              "factorising matrices of " + std::to_string(m_) + " x " + std::to_string(n_),
                              "SINTER_LIBCUSOLVER");
  }

  template <class... A>
  void launch(run::cuda::api::function entry, grid blocks, grid threads, A... arguments) const {
    if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return;
    const auto u = [](std::int64_t k) { return static_cast<unsigned>(k); };
    void* parameters[] = {static_cast<void*>(&arguments)...};
    const auto& driver = run::cuda::driver();
    const auto r = run::cuda::with_room(q_.where->index, [&] {
      return driver.launch(entry, u(blocks.x), u(blocks.y), u(blocks.z), u(threads.x), u(threads.y), 1, 0, q_.handle,
                           parameters, nullptr);
    });
    run::cuda::detail::requested(r, "a factorisation", q_, driver);
  }
  /// The grid's last axis, which CUDA limits.
  std::int64_t stacked() const { return std::min<std::int64_t>(count_, 32768); }
  static std::int64_t blocks_of(std::int64_t elements, std::int64_t each) {
    return std::min<std::int64_t>((elements + each - 1) / each, 4096);
  }

  /// The factors of sinter_turn.
  struct factors_of {
    const T *whole = nullptr, *row = nullptr, *column = nullptr;
    bool upper = false;
    int* spoiled = nullptr;
  };
  void turn(const T* from, T* to, std::int64_t rows, std::int64_t columns, std::int64_t stride,
            factors_of by = {}) const {
    const long long upper = by.upper;
    launch(kernel("sinter_turn"), {(columns + 31) / 32, std::min<std::int64_t>((rows + 31) / 32, 32768), stacked()},
           {32, 8}, from, to, count_, rows, columns, stride, by.whole, by.row, by.column, upper, by.spoiled);
  }
  void copy(T* to, const T* from, std::int64_t elements) const {
    run::cuda::check(
        run::cuda::driver().copy_within(run::cuda::detail::address_of(to), run::cuda::detail::address_of(from),
                                        static_cast<std::size_t>(elements) * sizeof(T), q_.handle),
        "copying on the GPU");
  }

  /// The upper triangle of a column-major matrix is the lower one in row-major order.
  void cholesky() {
    if (count_ == 0 || n_ == 0) return;
    const int n = number(n_);
    T* const l = result<T>(0);
    copy(l, operand<T>(0), count_ * n_ * n_);
    int wanted = 0;
    demand(call().potrf_room(library_.dense, run::cuda::detail::upper_half, n, l, n, &wanted));
    T* const work = room<T>(wanted);
    int* const info = room<int>(count_);
    for (std::int64_t k = 0; k < count_; ++k)
      demand(
          call().potrf(library_.dense, run::cuda::detail::upper_half, n, l + k * n_ * n_, n, work, wanted, info + k));
    launch(kernel("sinter_end_cholesky"), {blocks_of(n_ * n_, 1024), 1, stacked()}, {256}, l, info, count_, n_);
  }

  /// xᵀ·aᵀ = yᵀ: a row-major matrix is its transpose for the library.
  void triangular_solve() {
    namespace codes = run::cuda::detail;
    const std::int64_t columns = in_[1].extents[2];
    if (count_ == 0 || n_ == 0 || columns == 0) return;
    const int n = number(n_), c = number(columns);
    T* const x = result<T>(0);
    copy(x, operand<T>(1), count_ * n_ * columns);
    const T one = 1;
    for (std::int64_t k = 0; k < count_; ++k) {
      const int status = run::cuda::solver_library().template triangular<T>().trsm(
          library_.blas, codes::right_side, how_.lower ? codes::upper_half : codes::lower_half, codes::as_it_is,
          how_.unit ? codes::unit_diagonal : codes::any_diagonal, c, n, &one, operand<T>(0) + k * n_ * n_, n,
          x + k * n_ * columns, c);
      if (status != 0)
        codes::demand(status, "cuBLAS", "solving a triangle of " + std::to_string(n_) + " rows", "SINTER_LIBCUBLAS");
    }
  }

  void lu() {
    const std::int64_t steps = std::min(m_, n_);
    if (count_ == 0 || m_ == 0) return;
    int *const pivots = room<int>(count_ * steps), *const info = room<int>(count_), *const spoiled = room<int>(count_);
    if (n_ > 0) {
      const int m = number(m_), n = number(n_);
      T* const f = room<T>(count_ * m_ * n_);
      run::cuda::check(run::cuda::driver().fill(run::cuda::detail::address_of(spoiled), 0,
                                                static_cast<std::size_t>(count_) * sizeof(int), q_.handle),
                       "filling memory");
      turn(operand<T>(0), f, m_, n_, n_, {.spoiled = spoiled});
      int wanted = 0;
      demand(call().getrf_room(library_.dense, m, n, f, m, &wanted));
      T* const work = room<T>(wanted);
      for (std::int64_t k = 0; k < count_; ++k)
        demand(call().getrf(library_.dense, m, n, f + k * m_ * n_, m, work, pivots + k * steps, info + k));
      turn(f, result<T>(2), n_, m_, m_);
    }
    launch(kernel("sinter_rows"), {blocks_of(m_, 128), 1, stacked()}, {128}, pivots, result<std::int64_t>(0),
           result<std::int64_t>(1), count_, m_, steps);
    // The library may divide by a pivot of 0, and miss a NaN.
    if (n_ > 0)
      launch(kernel("sinter_factor_again"), {stacked()}, {256}, info, spoiled, operand<T>(0), result<std::int64_t>(0),
             result<std::int64_t>(1), result<T>(2), count_, m_, n_, steps);
  }

  void qr() {
    if (count_ == 0 || n_ == 0) return;
    const int m = number(m_), n = number(n_);
    T* const f = room<T>(count_ * m_ * n_);
    T* const tau = room<T>(count_ * n_);
    T* const sign = room<T>(count_ * n_);
    int* const info = room<int>(1);
    turn(operand<T>(0), f, m_, n_, n_);
    int first = 0, second = 0;
    demand(call().geqrf_room(library_.dense, m, n, f, m, &first));
    demand(call().orgqr_room(library_.dense, m, n, n, f, m, tau, &second));
    T* const work = room<T>(std::max(first, second));
    for (std::int64_t k = 0; k < count_; ++k)
      demand(call().geqrf(library_.dense, m, n, f + k * m_ * n_, m, tau + k * n_, work, first, info));
    launch(kernel("sinter_diagonal_signs"), {blocks_of(n_, 128), 1, stacked()}, {128}, f, sign, count_, n_, m_);
    turn(f, result<T>(1), n_, n_, m_, {.column = sign, .upper = true});
    for (std::int64_t k = 0; k < count_; ++k)
      demand(call().orgqr(library_.dense, m, n, n, f + k * m_ * n_, m, tau + k * n_, work, second, info));
    turn(f, result<T>(0), n_, m_, m_, {.row = sign});
  }

  /// A power of two for each matrix of `size` elements; 0 for a matrix that is not finite, which the library does not receive.
  const T* scales(std::int64_t size) {
    T* const scale = room<T>(count_);
    launch(kernel("sinter_scales"), {1, 1, stacked()}, {1024}, operand<T>(0), scale, count_, size);
    return scale;
  }
  const T* signs(const T* vectors, T* values, const T* scale, const int* info, std::int64_t length) {
    T* const sign = room<T>(count_ * n_);
    launch(kernel("sinter_end_spectrum"), {std::min<std::int64_t>(n_, 32768), 1, stacked()}, {256}, vectors, values,
           sign, scale, info, count_, n_, length);
    return sign;
  }

  void eigh() {
    if (count_ == 0 || n_ == 0) return;
    namespace codes = run::cuda::detail;
    const int n = number(n_);
    T *const f = room<T>(count_ * n_ * n_), *const values = result<T>(1);
    int* const info = room<int>(count_);
    const T* const scale = scales(n_ * n_);
    turn(operand<T>(0), f, n_, n_, n_, {.whole = scale});
    int wanted = 0;
    demand(call().syevd_room(library_.dense, codes::with_vectors, codes::lower_half, n, f, n, values, &wanted));
    T* const work = room<T>(wanted);
    for (std::int64_t k = 0; k < count_; ++k)
      demand(call().syevd(library_.dense, codes::with_vectors, codes::lower_half, n, f + k * n_ * n_, n,
                          values + k * n_, work, wanted, info + k));
    const T* const sign = signs(f, values, scale, info, n_);
    turn(f, result<T>(0), n_, n_, n_, {.row = sign});
  }

  void svd() {
    if (count_ == 0 || n_ == 0) return;
    const int m = number(m_), n = number(n_);
    T *const f = room<T>(count_ * m_ * n_), *const u = room<T>(count_ * m_ * n_), *const v = room<T>(count_ * n_ * n_);
    T* const s = result<T>(1);
    int* const info = room<int>(count_);
    const T* const scale = scales(m_ * n_);
    turn(operand<T>(0), f, m_, n_, n_, {.whole = scale});
    int wanted = 0;
    demand(call().gesvd_room(library_.dense, m, n, &wanted));
    T* const work = room<T>(wanted);
    T* const beside = room<T>(n_);
    for (std::int64_t k = 0; k < count_; ++k)
      demand(call().gesvd(library_.dense, 'S', 'S', m, n, f + k * m_ * n_, m, s + k * n_, u + k * m_ * n_, m,
                          v + k * n_ * n_, n, work, wanted, beside, info + k));
    const T* const sign = signs(u, s, scale, info, m_);
    turn(u, result<T>(0), n_, m_, m_, {.row = sign});
    turn(v, result<T>(2), n_, n_, n_, {.column = sign});
  }

  const factor_request& how_;
  ir::foreign_arrays in_, out_;
  run::cuda::queue& q_;
  run::cuda::solver& library_;
  const std::lock_guard<std::mutex> lock_;
  std::int64_t count_ = 0, m_ = 0, n_ = 0;
  series<storage> held_;
};

}  // namespace detail

SINTER_API bool has_factor_library(factorisation what) {
  const auto& library = run::cuda::solver_library();
  if (what == factorisation::triangular_solve) return library.solves_triangles;
  // Its calls need kernels around them.
  return library.factorises && run::cuda::find_nvrtc()->problem.empty();
}

SINTER_API void factorise_on_gpu(const factor_request& how, ir::foreign_arrays in, ir::foreign_arrays out,
                                 void* stream) {
  run::cuda::queue& q = run::cuda::detail::queue_of(static_cast<run::cuda::api::stream>(stream));
  // Memory is reused in the order of the current stream.
  const run::cuda::stream_scope here(q);
  if (in[0].type == dtype::f32) detail::gpu_factors<float>(how, in, out, q).run();
  else detail::gpu_factors<double>(how, in, out, q).run();
}

}  // namespace sinter::engine
