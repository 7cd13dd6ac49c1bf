// jit/factors.hpp: the definitions for engine/factors.hpp: the code that factorises, on the host and on a GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "../emit/cuda/factors.hpp"
#include "../engine/factors.hpp"
#include "../loops/plain_factors.hpp"
#include "../loops/space.hpp"
#include "../run/host/lapack.hpp"
#include "factors_on_gpu.hpp"

namespace sinter::engine {

namespace detail {

using factors::part;

/// The number of rows from which calls of LAPACK pay.
inline constexpr std::int64_t lapack_rows = 64;

/// A matrix of each operand and result.
template <class T>
struct factor_item {
  const ir::foreign_array *in, *out;
  std::int64_t k;

  static part<T> matrix(const ir::foreign_array& a, std::int64_t k) {
    const std::int64_t m = a.extents[1], n = a.extents[2];
    return {static_cast<T*>(a.data) + k * m * n, m, n, n};
  }
  part<const T> operand(int i) const { return matrix(in[i], k).constant(); }
  part<T> result(int i) const { return matrix(out[i], k); }
  template <class E>
  E* row(int i) const {
    return static_cast<E*>(out[i].data) + k * out[i].extents[1];
  }
  /// Result i, initialised with the elements of operand j.
  part<T> copied(int i, int j) const {
    const part<const T> from = operand(j);
    const part<T> to = result(i);
    std::copy_n(from.data, from.rows * from.columns, to.data);
    return to;
  }
};

template <class T>
void flip(const part<const T>& from, T* to) {
  for (std::int64_t i = 0; i < from.rows; ++i)
    for (std::int64_t j = 0; j < from.columns; ++j) to[j * from.rows + i] = from[i][j];
}
template <class T>
void flip_back(const T* from, const part<T>& to) {
  for (std::int64_t i = 0; i < to.rows; ++i)
    for (std::int64_t j = 0; j < to.columns; ++j) to[i][j] = from[j * to.rows + i];
}

/// A row-major matrix is its transpose for LAPACK. Returns false if not done.
template <class T>
bool library_cholesky(const run::lapack_table<T>& call, const part<T>& l) {
  const int n = static_cast<int>(l.rows);
  int info = 0;
  call.potrf("U", &n, l.data, &n, &info);
  bool positive = info == 0;
  for (std::int64_t i = 0; i < n; ++i) positive = positive && std::isfinite(l[i][i]);
  for (std::int64_t i = 0; i < n; ++i) {
    if (!positive) std::fill_n(l[i], i + 1, std::numeric_limits<T>::quiet_NaN());
    std::fill(l[i] + i + 1, l[i] + n, T(0));
  }
  return true;
}

template <class T>
bool library_lu(const run::lapack_table<T>& call, const part<T>& a, std::int64_t* rows, std::int64_t* swaps) {
  const int m = static_cast<int>(a.rows), n = static_cast<int>(a.columns);
  std::vector<T> flipped(static_cast<std::size_t>(a.rows * a.columns));
  std::vector<int> pivots(static_cast<std::size_t>(std::min(m, n)));
  flip(a.constant(), flipped.data());
  int info = 0;
  call.getrf(&m, &n, flipped.data(), &m, pivots.data(), &info);
  flip_back(flipped.data(), a);
  for (std::int64_t i = 0; i < m; ++i) rows[i] = i;
  for (std::size_t k = 0; k < pivots.size(); ++k) {
    const auto p = static_cast<std::size_t>(pivots[k] - 1);
    swaps[k] = p == k ? 1 : -1;
    std::swap(rows[k], rows[p]);
  }
  return true;
}

template <class T>
bool library_qr(const run::lapack_table<T>& call, const part<const T>& a, const part<T>& q, const part<T>& r) {
  const int m = static_cast<int>(a.rows), n = static_cast<int>(a.columns), room = 64 * (n + 1);
  std::vector<T> flipped(static_cast<std::size_t>(a.rows * a.columns)), tau(static_cast<std::size_t>(n)),
      work(static_cast<std::size_t>(room));
  flip(a, flipped.data());
  int info = 0;
  call.geqrf(&m, &n, flipped.data(), &m, tau.data(), work.data(), &room, &info);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) r[i][j] = j < i ? T(0) : flipped[static_cast<std::size_t>(j * m + i)];
  call.orgqr(&m, &n, &n, flipped.data(), &m, tau.data(), work.data(), &room, &info);
  flip_back(flipped.data(), q);
  factors::turn_signs(q, r);
  return info == 0;
}

template <class T>
bool library_eigh(const run::lapack_table<T>& call, const part<const T>& a, const part<T>& v, T* values) {
  if (!factors::is_finite(a)) return false;
  const int n = static_cast<int>(a.rows), room = 1 + 6 * n + 2 * n * n, integer_room = 3 + 5 * n;
  std::vector<T> copy(a.data, a.data + a.rows * a.columns), work(static_cast<std::size_t>(room));
  std::vector<int> integers(static_cast<std::size_t>(integer_room));
  int info = 0;
  call.syevd("V", "L", &n, copy.data(), &n, values, work.data(), &room, integers.data(), &integer_room, &info);
  if (info != 0) return false;
  const std::vector<T> d(values, values + n);
  factors::give_spectrum(d, part<T>{copy.data(), a.rows, a.rows, a.rows}, v, values);
  return true;
}

template <class T>
bool library_svd(const run::lapack_table<T>& call, const part<const T>& a, const part<T>& u, T* s, const part<T>& v) {
  if (!factors::is_finite(a)) return false;
  const int m = static_cast<int>(a.rows), n = static_cast<int>(a.columns);
  std::vector<T> copy(a.data, a.data + a.rows * a.columns);
  std::vector<int> integers(static_cast<std::size_t>(8 * n));
  int info = 0, room = -1;
  T wanted = 0;
  const auto call_it = [&](T* work) {
    call.gesdd("S", &n, &m, copy.data(), &n, s, v.data, &n, u.data, &n, work, &room, integers.data(), &info);
  };
  call_it(&wanted);
  room = static_cast<int>(wanted) + 64;
  std::vector<T> work(static_cast<std::size_t>(room));
  call_it(work.data());
  if (info != 0) return false;
  for (std::int64_t k = 0; k < n; ++k) {
    if (!factors::points_down(u.data + k, m, n)) continue;
    for (std::int64_t i = 0; i < m; ++i) u[i][k] = -u[i][k];
    for (std::int64_t j = 0; j < n; ++j) v[k][j] = -v[k][j];
  }
  return true;
}

/// Whether the library factorises m × n matrices, whatever their elements.
inline bool library_takes(const factor_request& how, std::int64_t m, std::int64_t n) {
  const bool spectral = how.what == factorisation::eigh || how.what == factorisation::svd;
  if (how.plain || how.what == factorisation::triangular_solve) return false;
  if (std::min(m, n) < lapack_rows || std::max(m, n) > 20000) return false;
  const run::lapack& library = run::lapack_library();
  if (!library.problem.empty()) throw user_error("[linalg] " + library.problem);
  return library.found && (spectral || library.tuned);
}

/// Factorises a large matrix by the library; false if it failed.
template <class T>
bool factorise_by_library(const factor_request& how, const factor_item<T>& x) {
  const part<const T> a = x.operand(0);
  const auto& call = run::lapack_library().of<T>();
  switch (how.what) {
    case factorisation::cholesky:
      return library_cholesky(call, x.copied(0, 0));
    case factorisation::lu:
      return library_lu(call, x.copied(2, 0), x.template row<std::int64_t>(0), x.template row<std::int64_t>(1));
    case factorisation::qr:
      return library_qr(call, a, x.result(0), x.result(1));
    case factorisation::eigh:
      return library_eigh(call, a, x.result(0), x.template row<T>(1));
    case factorisation::svd:
      return library_svd(call, a, x.result(0), x.template row<T>(1), x.result(2));
    default:
      return false;
  }
}

/// Factorises by sinter's own code.
template <class T>
void factorise_one(const factor_request& how, const factor_item<T>& x) {
  const part<const T> a = x.operand(0);
  switch (how.what) {
    case factorisation::cholesky:
      return how.plain ? factors::plain::cholesky(a, x.result(0)) : factors::cholesky(a, x.result(0));
    case factorisation::triangular_solve: {
      const part<T> triangle{const_cast<T*>(a.data), a.rows, a.columns, a.stride}, to = x.copied(0, 1);
      return how.plain ? factors::plain::triangular_solve(triangle, to, how.lower, how.unit)
                       : factors::triangular_solve(triangle, to, how.lower, how.unit);
    }
    case factorisation::lu: {
      auto *const rows = x.template row<std::int64_t>(0), *const swaps = x.template row<std::int64_t>(1);
      const part<T> both = x.copied(2, 0);
      return how.plain ? factors::plain::lu(both, rows, swaps) : factors::lu(both, rows, swaps);
    }
    case factorisation::qr:
      return how.plain ? factors::plain::qr(a, x.result(0), x.result(1)) : factors::qr(a, x.result(0), x.result(1));
    case factorisation::eigh:
      return how.plain ? factors::plain::eigh(a, x.result(0), x.template row<T>(1))
                       : factors::eigh(a, x.result(0), x.template row<T>(1));
    case factorisation::svd:
      return how.plain ? factors::plain::svd(a, x.result(0), x.template row<T>(1), x.result(2))
                       : factors::svd(a, x.result(0), x.template row<T>(1), x.result(2));
  }
}

template <class T>
void factorise_all(const factor_request& how, ir::foreign_arrays in, ir::foreign_arrays out) {
  const std::int64_t count = in[0].extents[0], m = in[0].extents[1], n = in[0].extents[2];
  const std::int64_t columns = how.what == factorisation::triangular_solve ? in[1].extents[2] : n;
  const auto item = [&](std::int64_t k) { return factor_item<T>{in.data(), out.data(), k}; };
  // A library has its own threads.
  if (library_takes(how, m, n)) {
    for (std::int64_t k = 0; k < count; ++k)
      if (!factorise_by_library(how, item(k))) factorise_one(how, item(k));
    return;
  }
  sinter::detail::parallel(count, count * m * n * std::max<std::int64_t>(columns, 1),
                           [&](std::int64_t begin, std::int64_t end) {
                             for (std::int64_t k = begin; k < end; ++k) factorise_one(how, item(k));
                           });
}

}  // namespace detail

SINTER_API void factorise(const factor_request& how, ir::foreign_arrays in, ir::foreign_arrays out) {
  if (in[0].type == dtype::f32) detail::factorise_all<float>(how, in, out);
  else detail::factorise_all<double>(how, in, out);
}

SINTER_API std::string factor_text(const factor_request& how, dtype type) {
  constexpr const char* names[] = {"cholesky", "triangular", "lu", "qr", "eigh", "svd"};
  return emit::factor_source(names[static_cast<std::size_t>(how.what)], type, how.lower, how.unit, how.large);
}

}  // namespace sinter::engine
