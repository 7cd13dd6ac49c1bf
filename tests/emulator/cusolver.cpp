// tests/emulator/cusolver.cpp: a stand-in for libcusolver.so: factorisations by textbook loops, in the stream's order. Its signs and what
// it leaves in the other triangle are nobody's: odd vectors are negated, work memory is overwritten, pivots of 0 divide.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "enqueue.hpp"
#include "memory.hpp"

namespace {

using size = std::size_t;
using numbers = std::vector<double>;

struct handle {
  void* stream = nullptr;
};

/// A matrix in column-major order.
template <class T>
struct view {
  T* data;
  size rows, columns, ld;
  T& operator()(size i, size j) const { return data[j * ld + i]; }
};

template <class T>
numbers as_numbers(const view<T>& a) {
  numbers out(a.rows * a.columns);
  for (size j = 0; j < a.columns; ++j)
    for (size i = 0; i < a.rows; ++i) out[j * a.rows + i] = static_cast<double>(a(i, j));
  return out;
}

template <class T>
int factor_positive(const view<T>& a, bool upper) {
  const auto at = [&](size i, size j) -> T& { return upper ? a(j, i) : a(i, j); };  // of the lower factor
  for (size j = 0; j < a.rows; ++j) {
    for (size k = 0; k < j; ++k) at(j, j) -= at(j, k) * at(j, k);
    if (!(at(j, j) > 0)) return static_cast<int>(j) + 1;
    at(j, j) = std::sqrt(at(j, j));
    for (size i = j + 1; i < a.rows; ++i) {
      for (size k = 0; k < j; ++k) at(i, j) -= at(i, k) * at(j, k);
      at(i, j) /= at(j, j);
    }
  }
  return 0;
}

template <class T>
int eliminate(const view<T>& a, int* pivots) {
  int info = 0;
  for (size k = 0; k < std::min(a.rows, a.columns); ++k) {
    size p = k;
    for (size i = k + 1; i < a.rows; ++i)
      if (std::abs(a(i, k)) > std::abs(a(p, k))) p = i;
    pivots[k] = static_cast<int>(p) + 1;
    for (size j = 0; j < a.columns; ++j) std::swap(a(k, j), a(p, j));
    if (a(k, k) == 0 && info == 0) info = static_cast<int>(k) + 1;
    for (size i = k + 1; i < a.rows; ++i) a(i, k) /= a(k, k);
    for (size j = k + 1; j < a.columns; ++j)
      for (size i = k + 1; i < a.rows; ++i) a(i, j) -= a(i, k) * a(k, j);
  }
  return info;
}

/// Columns [from, columns) of x less tau·v·vᵀ of them, v being column k of f below a one.
template <class T>
void reflect(const view<T>& f, size k, T tau, const view<T>& x, size from) {
  for (size j = from; j < x.columns; ++j) {
    T sum = x(k, j);
    for (size i = k + 1; i < x.rows; ++i) sum += f(i, k) * x(i, j);
    x(k, j) -= tau * sum;
    for (size i = k + 1; i < x.rows; ++i) x(i, j) -= tau * sum * f(i, k);
  }
}

template <class T>
void triangularise(const view<T>& a, T* tau) {
  for (size k = 0; k < std::min(a.rows, a.columns); ++k) {
    double norm = 0;
    for (size i = k; i < a.rows; ++i) norm = std::hypot(norm, static_cast<double>(a(i, k)));
    const T to = static_cast<T>(a(k, k) > 0 ? -norm : norm), by = a(k, k) - to;
    tau[k] = to == 0 ? T(0) : -by / to;
    for (size i = k + 1; i < a.rows; ++i)
      if (by != 0) a(i, k) /= by;
    a(k, k) = to;
    reflect(a, k, tau[k], a, k + 1);
  }
}

template <class T>
void make_orthogonal(const view<T>& a, const T* tau, size k) {
  std::vector<T> reflectors(a.rows * a.columns);
  const view<T> f{reflectors.data(), a.rows, a.columns, a.rows};
  for (size j = 0; j < a.columns; ++j)
    for (size i = 0; i < a.rows; ++i) f(i, j) = a(i, j), a(i, j) = i == j;
  while (k-- > 0) reflect(f, k, tau[k], a, 0);
}

/// Rotates columns p and q of x.
void rotate(double* x, size rows, size p, size q, double c, double s) {
  for (size i = 0; i < rows; ++i) {
    const double f = x[p * rows + i], g = x[q * rows + i];
    x[p * rows + i] = c * f - s * g;
    x[q * rows + i] = s * f + c * g;
  }
}

/// Makes the columns of w orthogonal by rotations, which v gets, too.
void orthogonalise(numbers& w, size m, numbers& v, size n) {
  bool turned = true;
  for (int sweep = 0; turned && sweep < 60; ++sweep) {
    turned = false;
    for (size p = 0; p < n; ++p)
      for (size q = p + 1; q < n; ++q) {
        const double *x = &w[p * m], *y = &w[q * m];
        const double aa = std::inner_product(x, x + m, x, 0.0), bb = std::inner_product(y, y + m, y, 0.0),
                     ab = std::inner_product(x, x + m, y, 0.0);
        if (std::abs(ab) <= 1e-14 * std::sqrt(aa * bb) || aa * bb == 0) continue;
        turned = true;
        const double angle = std::atan2(2 * ab, bb - aa) / 2;
        rotate(w.data(), m, p, q, std::cos(angle), std::sin(angle));
        rotate(v.data(), n, p, q, std::cos(angle), std::sin(angle));
      }
  }
}

numbers identity(size n) {
  numbers out(n * n);
  for (size i = 0; i < n; ++i) out[i * n + i] = 1;
  return out;
}

/// Columns in the order of values.
std::vector<size> ascending(const numbers& values) {
  std::vector<size> order(values.size());
  std::iota(order.begin(), order.end(), size{0});
  std::stable_sort(order.begin(), order.end(), [&](size a, size b) { return values[a] < values[b]; });
  return order;
}

/// A unit vector orthogonal to the columns before.
void complete(numbers& u, size m, size k) {
  for (size at = 0; at < m; ++at) {
    double* const x = &u[k * m];
    for (size i = 0; i < m; ++i) x[i] = i == at;
    for (int turn = 0; turn < 2; ++turn)
      for (size j = 0; j < k; ++j) {
        const double by = std::inner_product(x, x + m, &u[j * m], 0.0);
        for (size i = 0; i < m; ++i) x[i] -= by * u[j * m + i];
      }
    const double length = std::sqrt(std::inner_product(x, x + m, x, 0.0));
    for (size i = 0; i < m; ++i) x[i] /= length;
    if (length > 0.01) return;
  }
}

/// By singular values of a shifted matrix, which has the same vectors.
template <class T>
int find_eigenvectors(const view<T>& a, bool upper, T* values) {
  const size n = a.rows;
  numbers w = as_numbers(a), v = identity(n);
  double shift = 0;
  for (size j = 0; j < n; ++j)
    for (size i = 0; i < n; ++i) {
      if (upper ? i > j : i < j) w[j * n + i] = static_cast<double>(a(j, i));
      shift += std::abs(w[j * n + i]);
      if (w[j * n + i] - w[j * n + i] != 0) return 1;
    }
  shift = std::min(shift, 2 * std::sqrt(std::inner_product(w.begin(), w.end(), w.begin(), 0.0)));
  const numbers before = w;
  for (size i = 0; i < n; ++i) w[i * n + i] += shift;
  orthogonalise(w, n, v, n);
  numbers found(n);
  for (size k = 0; k < n; ++k)
    for (size j = 0; j < n; ++j)
      for (size i = 0; i < n; ++i) found[k] += v[k * n + i] * before[j * n + i] * v[k * n + j];
  const auto order = ascending(found);
  for (size k = 0; k < n; ++k) {
    values[k] = static_cast<T>(found[order[k]]);
    for (size i = 0; i < n; ++i) a(i, k) = static_cast<T>((k % 2 == 0 ? 1 : -1) * v[order[k] * n + i]);
  }
  return 0;
}

template <class T>
int find_singular(const view<T>& a, T* values, const view<T>& u, const view<T>& vt) {
  const size m = a.rows, n = a.columns;
  numbers w = as_numbers(a), v = identity(n), found(n);
  for (const double x : w)
    if (x - x != 0) return 1;
  orthogonalise(w, m, v, n);
  for (size k = 0; k < n; ++k) found[k] = -std::sqrt(std::inner_product(&w[k * m], &w[k * m] + m, &w[k * m], 0.0));
  const auto order = ascending(found);
  numbers left(m * n);
  for (size k = 0; k < n; ++k) {
    const double s = -found[order[k]];
    for (size i = 0; i < m; ++i) left[k * m + i] = s > 0 ? w[order[k] * m + i] / s : 0;
    if (!(s > 1e-14 * -found[order[0]])) complete(left, m, k);
    const double sign = k % 2 == 0 ? 1 : -1;
    values[k] = static_cast<T>(s);
    for (size i = 0; i < m; ++i) u(i, k) = static_cast<T>(sign * left[k * m + i]);
    for (size j = 0; j < n; ++j) vt(k, j) = static_cast<T>(sign * v[order[k] * n + j]);
  }
  for (size j = 0; j < n; ++j)
    for (size i = 0; i < m; ++i) a(i, j) = std::numeric_limits<T>::quiet_NaN();
  return 0;
}

template <class T>
view<T> matrix(T* data, int rows, int columns, int ld) {
  return {data, static_cast<size>(rows), static_cast<size>(columns), static_cast<size>(ld)};
}

/// Has `f` done in the order of the handle's stream, for sizes that fit; SINTER_EMULATOR_SOLVER is an error to answer.
template <class T, class F>
int run(void* h, bool fits, T* work, int room, int* info, F f) {
  if (h == nullptr) return 1;
  if (!fits || info == nullptr || (room > 0 && work == nullptr)) return 3;
  if (const auto told = emulator::number("SINTER_EMULATOR_SOLVER", 0); told != 0) return static_cast<int>(told);
  return emulator::enqueue(static_cast<handle*>(h)->stream,
                           [=] {
                             std::memset(static_cast<void*>(work), 0xCD, static_cast<size>(room) * sizeof(T));
                             *info = f();
                           }) == 0
             ? 0
             : 6;
}

/// Elements of work memory that a function asks for: different ones for each.
int room_of(int m, int n, int each) { return each * (m + n) + 7; }

template <class T>
int potrf(void* h, int half, int n, T* a, int ld, T* work, int room, int* info) {
  const bool fits = ld >= n && n > 0 && room >= room_of(n, n, 1) && (half == 0 || half == 1);
  return run(h, fits, work, room, info, [=] { return factor_positive(matrix(a, n, n, ld), half == 1); });
}
template <class T>
int getrf(void* h, int m, int n, T* a, int ld, T* work, int* pivots, int* info) {
  return run(h, ld >= m && n > 0, work, room_of(m, n, 2), info, [=] { return eliminate(matrix(a, m, n, ld), pivots); });
}
template <class T>
int geqrf(void* h, int m, int n, T* a, int ld, T* tau, T* work, int room, int* info) {
  return run(h, ld >= m && n > 0 && room >= room_of(m, n, 3), work, room, info, [=] {
    triangularise(matrix(a, m, n, ld), tau);
    return 0;
  });
}
template <class T>
int orgqr(void* h, int m, int n, int k, T* a, int ld, const T* tau, T* work, int room, int* info) {
  return run(h, ld >= m && n > 0 && k <= n && n <= m && room >= room_of(m, n, 4), work, room, info, [=] {
    make_orthogonal(matrix(a, m, n, ld), tau, static_cast<size>(k));
    return 0;
  });
}
template <class T>
int syevd(void* h, int job, int half, int n, T* a, int ld, T* w, T* work, int room, int* info) {
  return run(h, job == 1 && ld >= n && n > 0 && room >= room_of(n, n, 5), work, room, info,
             [=] { return find_eigenvectors(matrix(a, n, n, ld), half == 1, w); });
}
template <class T>
int gesvd(void* h, signed char job_u, signed char job_v, int m, int n, T* a, int ld, T* s, T* u, int ldu, T* vt,
          int ldvt, T* work, int room, T*, int* info) {
  const bool fits = job_u == 'S' && job_v == 'S' && m >= n && n > 0 && ld >= m && ldu >= m && ldvt >= n;
  return run(h, fits && room >= room_of(m, n, 6), work, room, info,
             [=] { return find_singular(matrix(a, m, n, ld), s, matrix(u, m, n, ldu), matrix(vt, n, n, ldvt)); });
}

}  // namespace

#define SINTER_EXPORT extern "C" __attribute__((visibility("default")))

SINTER_EXPORT int cusolverGetVersion(int* version) { return *version = (emulator::library_major() - 1) * 1000, 0; }
SINTER_EXPORT int cusolverDnCreate(void** out) { return *out = new handle, 0; }
SINTER_EXPORT int cusolverDnSetStream(void* h, void* stream) { return static_cast<handle*>(h)->stream = stream, 0; }

#define SINTER_SOLVER(T, L)                                                                                           \
  SINTER_EXPORT int cusolverDn##L##potrf_bufferSize(void*, int, int n, T*, int, int* room) {                          \
    return *room = room_of(n, n, 1), 0;                                                                               \
  }                                                                                                                   \
  SINTER_EXPORT int cusolverDn##L##potrf(void* h, int half, int n, T* a, int ld, T* work, int room, int* info) {      \
    return potrf(h, half, n, a, ld, work, room, info);                                                                \
  }                                                                                                                   \
  SINTER_EXPORT int cusolverDn##L##getrf_bufferSize(void*, int m, int n, T*, int, int* room) {                        \
    return *room = room_of(m, n, 2), 0;                                                                               \
  }                                                                                                                   \
  SINTER_EXPORT int cusolverDn##L##getrf(void* h, int m, int n, T* a, int ld, T* work, int* pivots, int* info) {      \
    return getrf(h, m, n, a, ld, work, pivots, info);                                                                 \
  }                                                                                                                   \
  SINTER_EXPORT int cusolverDn##L##geqrf_bufferSize(void*, int m, int n, T*, int, int* room) {                        \
    return *room = room_of(m, n, 3), 0;                                                                               \
  }                                                                                                                   \
  SINTER_EXPORT int cusolverDn##L##geqrf(void* h, int m, int n, T* a, int ld, T* tau, T* work, int room, int* info) { \
    return geqrf(h, m, n, a, ld, tau, work, room, info);                                                              \
  }                                                                                                                   \
  SINTER_EXPORT int cusolverDn##L##orgqr_bufferSize(void*, int m, int n, int, const T*, int, const T*, int* room) {   \
    return *room = room_of(m, n, 4), 0;                                                                               \
  }                                                                                                                   \
  SINTER_EXPORT int cusolverDn##L##orgqr(void* h, int m, int n, int k, T* a, int ld, const T* tau, T* work, int room, \
                                         int* info) {                                                                 \
    return orgqr(h, m, n, k, a, ld, tau, work, room, info);                                                           \
  }                                                                                                                   \
  SINTER_EXPORT int cusolverDn##L##syevd_bufferSize(void*, int, int, int n, const T*, int, const T*, int* room) {     \
    return *room = room_of(n, n, 5), 0;                                                                               \
  }                                                                                                                   \
  SINTER_EXPORT int cusolverDn##L##syevd(void* h, int job, int half, int n, T* a, int ld, T* w, T* work, int room,    \
                                         int* info) {                                                                 \
    return syevd(h, job, half, n, a, ld, w, work, room, info);                                                        \
  }                                                                                                                   \
  SINTER_EXPORT int cusolverDn##L##gesvd_bufferSize(void*, int m, int n, int* room) {                                 \
    return *room = room_of(m, n, 6), 0;                                                                               \
  }                                                                                                                   \
  SINTER_EXPORT int cusolverDn##L##gesvd(void* h, signed char job_u, signed char job_v, int m, int n, T* a, int ld,   \
                                         T* s, T* u, int ldu, T* vt, int ldvt, T* work, int room, T* beside,          \
                                         int* info) {                                                                 \
    return gesvd(h, job_u, job_v, m, n, a, ld, s, u, ldu, vt, ldvt, work, room, beside, info);                        \
  }
SINTER_SOLVER(float, S)
SINTER_SOLVER(double, D)
