// linalg/handles.hpp: functions of matrices without static shapes. Instances for f32 and f64 are compiled once, in linalg.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "../sinter.hpp"

namespace sinter::linalg {

/// How triangular_solve reads a: as lower or upper triangle, with a unit diagonal or not, transposed or not.
struct triangular_options {
  bool lower = true;
  bool unit = false;
  bool transposed = false;
};

// Operands are (…, m, n) of dtype T, and results have the same leading axes. linalg/matrices.hpp has the contracts.
namespace handles {

using sinter::detail::handle;

/// Three results; those that a function does not have are empty.
using handles3 = std::array<handle, 3>;

template <class T>
handle cholesky(const handle& a, location at);
template <class T>
handle triangular_solve(const handle& a, const handle& y, const triangular_options& how, location at);
template <class T>
handle solve(const handle& a, const handle& y, location at);
template <class T>
handle inv(const handle& a, location at);
template <class T>
handle det(const handle& a, location at);
/// The sign and the logarithm of the magnitude.
template <class T>
handles3 slogdet(const handle& a, location at);
template <class T>
handles3 lu(const handle& a, location at);
template <class T>
handles3 qr(const handle& a, location at);
/// Values and vectors.
template <class T>
handles3 eigh(const handle& a, location at);
template <class T>
handles3 svd(const handle& a, location at);
template <class T>
handle singular_values(const handle& a, location at);
template <class T>
handle pinv(const handle& a, location at);
template <class T>
handle expm(const handle& a, location at);
template <class T>
handle matrix_power(const handle& a, std::int64_t n, location at);

// What the compiled linear algebra instantiates. BEFORE is `extern` or nothing.
#define SINTER_LINALG_INSTANCES(BEFORE, T)                                                                       \
  BEFORE template handle cholesky<T>(const handle&, location);                                                   \
  BEFORE template handle triangular_solve<T>(const handle&, const handle&, const triangular_options&, location); \
  BEFORE template handle solve<T>(const handle&, const handle&, location);                                       \
  BEFORE template handle inv<T>(const handle&, location);                                                        \
  BEFORE template handle det<T>(const handle&, location);                                                        \
  BEFORE template handles3 slogdet<T>(const handle&, location);                                                  \
  BEFORE template handles3 lu<T>(const handle&, location);                                                       \
  BEFORE template handles3 qr<T>(const handle&, location);                                                       \
  BEFORE template handles3 eigh<T>(const handle&, location);                                                     \
  BEFORE template handles3 svd<T>(const handle&, location);                                                      \
  BEFORE template handle singular_values<T>(const handle&, location);                                            \
  BEFORE template handle pinv<T>(const handle&, location);                                                       \
  BEFORE template handle expm<T>(const handle&, location);                                                       \
  BEFORE template handle matrix_power<T>(const handle&, std::int64_t, location);
#if defined(SINTER_COMPILED)
SINTER_LINALG_INSTANCES(extern, float)
SINTER_LINALG_INSTANCES(extern, double)
#endif

}  // namespace handles

}  // namespace sinter::linalg

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "handle_rules.hpp"
#endif
