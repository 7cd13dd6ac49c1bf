// engine/factors.hpp: factorisations of stacks of matrices, for <sinter/linalg.hpp>.
#pragma once

#include <cstdint>
#include <string>

#include "../base/config.hpp"
#include "../base/dtype.hpp"
#include "engine.hpp"

namespace sinter::engine {

enum class factorisation : std::uint8_t {
  cholesky,          ///< a (b, n, n), of which only the lower triangle is read; l (b, n, n)
  triangular_solve,  ///< a (b, n, n), of which only a triangle is read, y (b, n, k); x (b, n, k) with a·x = y
  lu,                ///< a (b, m, n); rows i64 (b, m), swaps i64 (b, min(m, n)), both factors (b, m, n)
  qr,                ///< a (b, m, n), m >= n; q (b, m, n), r (b, n, n)
  eigh,              ///< a (b, n, n), symmetric; vectors in columns (b, n, n), values (b, n)
  svd,               ///< a (b, m, n), m >= n; u (b, m, n), s (b, n), transposed v (b, n, n)
};

/// A factorisation and its method. Row i of l·u is row rows[i] of a; swaps[k] is -1 if step k exchanged rows, else 1. eigh
/// and svd have further results of i64, the work memory of a GPU's kernels: (b, n, n) and (b, m + n, n), then (b, 2, n).
struct factor_request {
  factorisation what = factorisation::cholesky;
  bool lower = true;   ///< triangular_solve: the lower triangle
  bool unit = false;   ///< triangular_solve: a unit diagonal, which is not read
  bool plain = false;  ///< the textbook method, for comparison
  bool large = false;  ///< on a GPU by panels, for matrices of at least 64 rows and columns
};

/// Factorises on the host, for arrays of f32 or f64 in row-major order. Signs follow a rule. r's diagonal is not negative,
/// l's is positive. In an eigenvector and in a column of u, the first element of at least three quarters of the largest
/// magnitude is positive. Eigenvalues ascend, singular values descend. l is NaN on and below the diagonal if a is not
/// positive definite; spectra are NaN if a is not finite. (jit/factors.hpp)
SINTER_API void factorise(const factor_request& how, ir::foreign_arrays in, ir::foreign_arrays out);

/// The factorisation as CUDA C++; `entry` is "sinter_factor". (jit/factors.hpp)
SINTER_API std::string factor_text(const factor_request& how, dtype type);

/// Whether a GPU's library factorises: cuSOLVER, or cuBLAS for triangles. It is searched at the first call.
/// (jit/factors_on_gpu.hpp)
SINTER_API bool has_factor_library(factorisation what);

/// The factorisation by that library, in a stream's order; results that it cannot compute are NaN. Extents of matrices are
/// below 2^31. (jit/factors_on_gpu.hpp)
SINTER_API void factorise_on_gpu(const factor_request& how, ir::foreign_arrays in, ir::foreign_arrays out,
                                 void* stream);

}  // namespace sinter::engine

#if !defined(SINTER_COMPILED)
#include "../jit/factors.hpp"
#endif
