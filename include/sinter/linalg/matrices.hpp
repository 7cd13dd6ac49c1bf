// linalg/matrices.hpp: functions of the last two axes: solve, cholesky, lu, qr, eigh, svd, and functions made of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "functions.hpp"
#include "shapes.hpp"
#include "steps.hpp"

// Functions take matrices of float or double in the last two axes; leading axes are batches. They have derivatives of any
// order in both modes, and are steps of a compiled function. docs/linalg.md gives the values for special matrices.
namespace sinter::linalg {

/// l, lower triangular with l·lᵀ = (a + aᵀ) / 2; (…, n, n). NaN on and below the diagonal if (a + aᵀ) / 2 is not positive
/// definite.
template <tensor_like A>
auto cholesky(const A& a, location where = location::current()) {
  const location at = where.in("cholesky");
  if constexpr (shapes::takes_square<A>()) {
    const auto x = shapes::stacked_square("cholesky", a, at);
    return shapes::unstacked<A::static_shape>(steps::cholesky(shapes::symmetric(x), at), shapes::batch_at(a, at), at);
  } else {
    return a;
  }
}

/// How triangular_solve reads a: as lower or upper triangle, with a unit diagonal or not, transposed or not.
struct triangular_options {
  bool lower = true;
  bool unit = false;
  bool transposed = false;
};

/// x with a·x = y for a triangle of a, (…, n, n). y is (…, n, k), with broadcast leading axes, or (n). A zero on the diagonal
/// gives infinities and NaN. user_error when extents differ.
template <tensor_like A, tensor_like Y>
auto triangular_solve(const A& a, const Y& y, const triangular_options& how = {},
                      location where = location::current()) {
  const location at = where.in("triangular_solve");
  return shapes::with_right_side("triangular_solve", a, y, at,
                                 [&]<class T>(const steps::stack_of<T>& m, const steps::stack_of<T>& right) {
                                   if (how.transposed)
                                     return steps::solve_triangle(steps::turned(m), right, !how.lower, how.unit, at);
                                   return steps::solve_triangle(m, right, how.lower, how.unit, at);
                                 });
}

/// x with a·x = y, by LU with partial pivoting; y is as in triangular_solve. A singular a gives infinities and NaN.
template <tensor_like A, tensor_like Y>
auto solve(const A& a, const Y& y, location where = location::current()) {
  const location at = where.in("solve");
  return shapes::with_right_side("solve", a, y, at,
                                 [&]<class T>(const steps::stack_of<T>& m, const steps::stack_of<T>& right) {
                                   return steps::solve(m, right, false, at);
                                 });
}

/// The inverse; (…, n, n). A singular matrix gives infinities and NaN.
template <tensor_like A>
auto inv(const A& a, location where = location::current()) {
  const location at = where.in("inv");
  if constexpr (shapes::takes_square<A>())
    return shapes::unstacked<A::static_shape>(steps::inverse(shapes::stacked_square("inv", a, at), at),
                                              shapes::batch_at(a, at), at);
  else return a;
}

/// The determinant; (…). It is 1 for an empty matrix. It is 0 for a singular matrix, whose gradient is NaN.
template <tensor_like A>
auto det(const A& a, location where = location::current()) {
  const location at = where.in("det");
  if constexpr (shapes::takes_square<A>())
    return shapes::unstacked<shapes::batch_of(A::static_shape)>(
        steps::determinant(shapes::stacked_square("det", a, at), at), shapes::batch_at(a, at), at);
  else return a;
}

/// The sign of the determinant and the logarithm of its magnitude, both (…). A singular matrix gives 0 and -inf.
template <tensor_like A>
auto slogdet(const A& a, location where = location::current()) {
  const location at = where.in("slogdet");
  if constexpr (shapes::takes_square<A>()) {
    constexpr dims shape = shapes::batch_of(A::static_shape);
    const auto x = shapes::stacked_square("slogdet", a, at);
    const dims batch = shapes::batch_at(a, at);
    const auto both = steps::sign_and_log(x, at);
    return std::pair{shapes::unstacked<shape>(both.first, batch, at), shapes::unstacked<shape>(both.second, batch, at)};
  } else {
    return std::pair{a, a};
  }
}

/// The logarithm of the determinant; (…). NaN for a negative determinant, -inf for a singular matrix, 0 for an empty one. The
/// gradient is the transposed inverse, even if the value is NaN.
template <tensor_like A>
auto logdet(const A& a, location where = location::current()) {
  const location at = where.in("logdet");
  if constexpr (shapes::takes_square<A>()) {
    const auto [sign, size] = slogdet(a, at);
    return sinter::detail::evaluate(add(size, log(stop_gradient(sign, at), at), at), at);
  } else {
    return a;
  }
}

/// p, l, u with p·l·u = a, (…, m, n), where k = min(m, n). p is a permutation (…, m, m), l is lower triangular (…, m, k) with
/// a unit diagonal, and u is upper triangular (…, k, n).
template <tensor_like A>
auto lu(const A& a, location where = location::current()) {
  const location at = where.in("lu");
  if constexpr (shapes::takes_matrices<A>()) {
    constexpr dims s = A::static_shape, b = shapes::batch_of(s);
    constexpr dim m = s[A::rank - 2], n = s[A::rank - 1], k = shapes::least(m, n);
    const auto x = shapes::stacked(a, at);
    const dims batch = shapes::batch_at(a, at);
    const auto [p, l, u] = steps::whole_lu(x, shapes::form_of(x), at);
    return std::tuple{shapes::unstacked<shapes::joined(b, {m, m})>(p, batch, at),
                      shapes::unstacked<shapes::joined(b, {m, k})>(l, batch, at),
                      shapes::unstacked<shapes::joined(b, {k, n})>(u, batch, at)};
  } else {
    return std::tuple{a, a, a};
  }
}

/// q and r with q·r = a, (…, m, n), where k = min(m, n). q has orthonormal columns (…, m, k). r is upper triangular (…, k, n)
/// with a diagonal that is not negative.
template <tensor_like A>
auto qr(const A& a, location where = location::current()) {
  const location at = where.in("qr");
  if constexpr (shapes::takes_matrices<A>()) {
    constexpr dims s = A::static_shape, b = shapes::batch_of(s);
    constexpr dim m = s[A::rank - 2], n = s[A::rank - 1], k = shapes::least(m, n);
    const auto x = shapes::stacked(a, at);
    const dims batch = shapes::batch_at(a, at);
    const auto [q, r] = steps::whole_qr(x, shapes::form_of(x), at);
    return std::pair{shapes::unstacked<shapes::joined(b, {m, k})>(q, batch, at),
                     shapes::unstacked<shapes::joined(b, {k, n})>(r, batch, at)};
  } else {
    return std::pair{a, a};
  }
}

/// Eigenvalues of (a + aᵀ) / 2, ascending, (…, n), and orthonormal eigenvectors in the columns of (…, n, n). Signs: in each
/// vector, the first element of at least three quarters of the largest magnitude is positive. NaN if a is not finite.
template <tensor_like A>
auto eigh(const A& a, location where = location::current()) {
  const location at = where.in("eigh");
  if constexpr (shapes::takes_square<A>()) {
    constexpr dims shape = shapes::joined(shapes::batch_of(A::static_shape), {A::static_shape[A::rank - 1]});
    const auto x = shapes::symmetric(shapes::stacked_square("eigh", a, at));
    const dims batch = shapes::batch_at(a, at);
    const auto all = steps::eigh(x, at);
    // In a trace, values have their own derivative, and results that are not needed are not computed.
    const auto values = sinter::detail::tracing() ? steps::eigenvalues(x, at) : std::get<1>(all);
    return std::pair{shapes::unstacked<shape>(values, batch, at),
                     shapes::unstacked<A::static_shape>(std::get<0>(all), batch, at)};
  } else {
    return std::pair{a, a};
  }
}

/// u, s and transposed v with u·diag(s)·vᵀ = a, (…, m, n), where k = min(m, n). Their shapes are (…, m, k), (…, k),
/// descending, and (…, k, n). Signs are fixed as in eigh, by the elements of u; by those of v if a is wide. NaN if a is not
/// finite.
template <tensor_like A>
auto svd(const A& a, location where = location::current()) {
  const location at = where.in("svd");
  if constexpr (shapes::takes_matrices<A>()) {
    constexpr dims s = A::static_shape, b = shapes::batch_of(s);
    constexpr dim m = s[A::rank - 2], n = s[A::rank - 1], k = shapes::least(m, n);
    const auto x = shapes::stacked(a, at);
    const dims batch = shapes::batch_at(a, at);
    const auto [u, values, vt] = steps::whole_svd(x, shapes::form_of(x), at);
    return std::tuple{shapes::unstacked<shapes::joined(b, {m, k})>(u, batch, at),
                      shapes::unstacked<shapes::joined(b, {k})>(values, batch, at),
                      shapes::unstacked<shapes::joined(b, {k, n})>(vt, batch, at)};
  } else {
    return std::tuple{a, a, a};
  }
}

/// The pseudo-inverse, (…, n, m): singular values of at most max(m, n)·eps times the largest count as 0.
template <tensor_like A>
auto pinv(const A& a, location where = location::current()) {
  const location at = where.in("pinv");
  if constexpr (shapes::takes_matrices<A>()) {
    constexpr dims s = A::static_shape;
    constexpr dims shape = shapes::joined(shapes::batch_of(s), {s[A::rank - 1], s[A::rank - 2]});
    return shapes::unstacked<shape>(steps::pseudo_inverse(shapes::stacked(a, at), at), shapes::batch_at(a, at), at);
  } else {
    return a;
  }
}

/// The shortest x that minimises |a·x − y|; y is as in solve.
template <tensor_like A, tensor_like Y>
auto lstsq(const A& a, const Y& y, location where = location::current()) {
  const location at = where.in("lstsq");
  if constexpr (shapes::takes_matrices<A>()) return matmul(pinv(a, at), y, at);
  else return y;
}

/// The exponential of a matrix, (…, n, n), by Padé's quotient of the scaled matrix and at most 32 squarings: for 1-norms up
/// to 1e10.
template <tensor_like A>
auto expm(const A& a, location where = location::current()) {
  const location at = where.in("expm");
  if constexpr (shapes::takes_square<A>())
    return shapes::unstacked<A::static_shape>(steps::exponential(shapes::stacked_square("expm", a, at), at),
                                              shapes::batch_at(a, at), at);
  else return a;
}

/// The product of n factors a, by repeated squaring; for negative n, of the inverse.
template <tensor_like A>
auto matrix_power(const A& a, std::int64_t n, location where = location::current()) {
  const location at = where.in("matrix_power");
  if constexpr (shapes::takes_square<A>())
    return shapes::unstacked<A::static_shape>(steps::power(shapes::stacked_square("matrix_power", a, at), n, at),
                                              shapes::batch_at(a, at), at);
  else return a;
}

/// The norms of matrix_norm. `fro` is the root of the sum of squares, `nuc` the sum of singular values, `two` the largest
/// singular value. `one` is the largest sum of magnitudes of a column, `inf` the largest of a row.
enum class norm_kind : std::uint8_t { fro, nuc, one, two, inf };
using enum norm_kind;

/// A norm of each matrix, (…); 0 for an empty matrix. `matrix_norm(a)` is the Frobenius norm, `matrix_norm<linalg::nuc>(a)`
/// the nuclear norm.
template <norm_kind Kind = fro, tensor_like A>
auto matrix_norm(const A& a, location where = location::current()) {
  const location at = where.in("matrix_norm");
  if constexpr (shapes::takes_matrices<A>()) {
    if constexpr (Kind == fro) {
      return norm(a, axis<-2, -1>, at);
    } else if constexpr (Kind == one) {
      return steps::largest(sum(abs(a, at), axis<-2>, at), at);
    } else if constexpr (Kind == inf) {
      return steps::largest(sum(abs(a, at), axis<-1>, at), at);
    } else {
      const auto x = shapes::stacked(a, at);
      const auto s = steps::singular_values(x, shapes::form_of(x), at);
      using row = tensor<typename A::value_type, 1>;
      constexpr dims shape = shapes::batch_of(A::static_shape);
      if constexpr (Kind == nuc)
        return shapes::unstacked<shape>(row(sum(s, axis<-1>, at)), shapes::batch_at(a, at), at);
      else return shapes::unstacked<shape>(row(steps::largest(s, at)), shapes::batch_at(a, at), at);
    }
  } else {
    return a;
  }
}

}  // namespace sinter::linalg
