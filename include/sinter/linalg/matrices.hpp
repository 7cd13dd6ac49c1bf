// linalg/matrices.hpp: functions of the last two axes: solve, cholesky, lu, qr, eigh, svd, and functions made of them.
#pragma once

#include <cstdint>
#include <tuple>
#include <utility>

#include "handles.hpp"
#include "shapes.hpp"

// Functions take matrices of float or double in the last two axes; leading axes are batches. They have derivatives of any
// order in both modes, and are steps of a compiled function. docs/linalg.md gives the values for special matrices.
namespace sinter::linalg {

/// l, lower triangular with l·lᵀ = (a + aᵀ) / 2; (…, n, n). NaN on and below the diagonal if (a + aᵀ) / 2 is not positive
/// definite.
template <tensor_like A>
auto cholesky(const A& a, location where = location::current()) {
  const location at = where.in("cholesky");
  if constexpr (shapes::takes_square<A>())
    return shapes::as<A, A::static_shape>(handles::cholesky<typename A::value_type>(shapes::untyped(a, at), at), at);
  else return a;
}

/// x with a·x = y for a triangle of a, (…, n, n). y is (…, n, k), with broadcast leading axes, or (n). A zero on the diagonal
/// gives infinities and NaN. user_error when extents differ.
template <tensor_like A, tensor_like Y>
auto triangular_solve(const A& a, const Y& y, const triangular_options& how = {},
                      location where = location::current()) {
  const location at = where.in("triangular_solve");
  if constexpr (shapes::takes_right_side<A, Y>())
    return shapes::as<A, shapes::solution_shape(A::static_shape, Y::static_shape)>(
        handles::triangular_solve<typename A::value_type>(shapes::untyped(a, at), shapes::untyped(y, at), how, at), at);
  else return y;
}

/// x with a·x = y, by LU with partial pivoting; y is as in triangular_solve. A singular a gives infinities and NaN.
template <tensor_like A, tensor_like Y>
auto solve(const A& a, const Y& y, location where = location::current()) {
  const location at = where.in("solve");
  if constexpr (shapes::takes_right_side<A, Y>())
    return shapes::as<A, shapes::solution_shape(A::static_shape, Y::static_shape)>(
        handles::solve<typename A::value_type>(shapes::untyped(a, at), shapes::untyped(y, at), at), at);
  else return y;
}

/// The inverse; (…, n, n). A singular matrix gives infinities and NaN.
template <tensor_like A>
auto inv(const A& a, location where = location::current()) {
  const location at = where.in("inv");
  if constexpr (shapes::takes_square<A>())
    return shapes::as<A, A::static_shape>(handles::inv<typename A::value_type>(shapes::untyped(a, at), at), at);
  else return a;
}

/// The determinant; (…). It is 1 for an empty matrix. It is 0 for a singular matrix, whose gradient is NaN.
template <tensor_like A>
auto det(const A& a, location where = location::current()) {
  const location at = where.in("det");
  if constexpr (shapes::takes_square<A>())
    return shapes::as<A, shapes::batch_of(A::static_shape)>(
        handles::det<typename A::value_type>(shapes::untyped(a, at), at), at);
  else return a;
}

/// The sign of the determinant and the logarithm of its magnitude, both (…). A singular matrix gives 0 and -inf.
template <tensor_like A>
auto slogdet(const A& a, location where = location::current()) {
  const location at = where.in("slogdet");
  if constexpr (shapes::takes_square<A>()) {
    constexpr dims shape = shapes::batch_of(A::static_shape);
    auto [sign, size, none] = handles::slogdet<typename A::value_type>(shapes::untyped(a, at), at);
    return std::pair{shapes::as<A, shape>(std::move(sign), at), shapes::as<A, shape>(std::move(size), at)};
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
    auto [p, l, u] = handles::lu<typename A::value_type>(shapes::untyped(a, at), at);
    return std::tuple{shapes::as<A, shapes::joined(b, {m, m})>(std::move(p), at),
                      shapes::as<A, shapes::joined(b, {m, k})>(std::move(l), at),
                      shapes::as<A, shapes::joined(b, {k, n})>(std::move(u), at)};
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
    auto [q, r, none] = handles::qr<typename A::value_type>(shapes::untyped(a, at), at);
    return std::pair{shapes::as<A, shapes::joined(b, {m, k})>(std::move(q), at),
                     shapes::as<A, shapes::joined(b, {k, n})>(std::move(r), at)};
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
    auto [values, vectors, none] = handles::eigh<typename A::value_type>(shapes::untyped(a, at), at);
    return std::pair{shapes::as<A, shape>(std::move(values), at),
                     shapes::as<A, A::static_shape>(std::move(vectors), at)};
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
    auto [u, values, vt] = handles::svd<typename A::value_type>(shapes::untyped(a, at), at);
    return std::tuple{shapes::as<A, shapes::joined(b, {m, k})>(std::move(u), at),
                      shapes::as<A, shapes::joined(b, {k})>(std::move(values), at),
                      shapes::as<A, shapes::joined(b, {k, n})>(std::move(vt), at)};
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
    return shapes::as<A, shape>(handles::pinv<typename A::value_type>(shapes::untyped(a, at), at), at);
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
    return shapes::as<A, A::static_shape>(handles::expm<typename A::value_type>(shapes::untyped(a, at), at), at);
  else return a;
}

/// The product of n factors a, by repeated squaring; for negative n, of the inverse.
template <tensor_like A>
auto matrix_power(const A& a, std::int64_t n, location where = location::current()) {
  const location at = where.in("matrix_power");
  if constexpr (shapes::takes_square<A>())
    return shapes::as<A, A::static_shape>(handles::matrix_power<typename A::value_type>(shapes::untyped(a, at), n, at),
                                          at);
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
      return shapes::largest(sum(abs(a, at), axis<-2>, at), at);
    } else if constexpr (Kind == inf) {
      return shapes::largest(sum(abs(a, at), axis<-1>, at), at);
    } else {
      constexpr dims m = A::static_shape;
      constexpr dims shape = shapes::joined(shapes::batch_of(m), {shapes::least(m[A::rank - 2], m[A::rank - 1])});
      const auto s =
          shapes::as<A, shape>(handles::singular_values<typename A::value_type>(shapes::untyped(a, at), at), at);
      if constexpr (Kind == nuc) return sinter::detail::evaluate(sum(s, axis<-1>, at), at);
      else return shapes::largest(s, at);
    }
  } else {
    return a;
  }
}

}  // namespace sinter::linalg
