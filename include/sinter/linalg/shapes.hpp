// linalg/shapes.hpp: compile-time checks of matrix operands, and the shapes of results.
#pragma once

#include <utility>

#include "handles.hpp"

namespace sinter::linalg::shapes {

using sinter::detail::untyped;

constexpr dims batch_of(const dims& d) { return op_shapes::part(d, 0, d.rank - 2); }
constexpr dims joined(dims batch, std::initializer_list<dim> more) {
  for (const dim e : more) batch.push(e);
  return batch;
}
constexpr dim least(dim a, dim b) { return a == dim(dyn) || b == dim(dyn) ? dim(dyn) : a < b ? a : b; }

/// Returns false after a compile-time error unless X has matrices of f32 or f64 in its last two axes.
template <class X>
constexpr bool takes_matrices() {
  using T = typename X::value_type;
  constexpr bool floats = is_plain_float<T>, axes = X::rank >= 2;
  static_assert(floats, "sinter: [linalg] takes float or double; cast with cast<float>(x)");
  static_assert(axes, "sinter: [linalg] takes matrices: the tensor has to have two axes or more");
  return floats && axes;
}

/// Like takes_matrices, for square matrices.
template <class X>
constexpr bool takes_square() {
  if constexpr (takes_matrices<X>()) {
    constexpr dim m = X::static_shape[X::rank - 2], n = X::static_shape[X::rank - 1];
    constexpr bool square = m == dim(dyn) || n == dim(dyn) || m == n;
    static_assert(square, "sinter: [linalg] takes square matrices: the last two extents have to be equal");
    return square;
  } else {
    return false;
  }
}

/// The static shape of a⁻¹·y; rank 0 if the shapes do not fit.
constexpr dims solution_shape(const dims& a, const dims& y) {
  const bool vector = y.rank == 1;
  const dim n = y[vector ? 0 : y.rank - 2];
  if (a[a.rank - 1] != dim(dyn) && n != dim(dyn) && a[a.rank - 1] != n) return {};
  if (vector) return joined(batch_of(a), {a[a.rank - 1]});
  const auto r = op_shapes::broadcast(batch_of(a), batch_of(y));
  return r.error ? dims{} : joined(r.shape, {a[a.rank - 1], y[y.rank - 1]});
}

/// Returns false after a compile-time error unless A has square matrices and Y right sides for them.
template <class A, class Y>
constexpr bool takes_right_side() {
  constexpr bool dtypes = std::is_same_v<typename A::value_type, typename Y::value_type>, some = Y::rank >= 1;
  static_assert(dtypes, "sinter: [linalg] both operands have one dtype; cast one with cast<T>(x)");
  static_assert(some, "sinter: [linalg] the right side has one axis, or two or more");
  if constexpr (takes_square<A>() && dtypes && some) {
    constexpr bool fit = solution_shape(A::static_shape, Y::static_shape).rank > 0;
    static_assert(fit,
                  "sinter: [linalg] the right side has other rows than the matrix, or leading extents that do not "
                  "broadcast");
    return fit;
  } else {
    return false;
  }
}

/// The largest element along the last axis; 0 for an empty axis.
template <class X>
auto largest(const X& x, location at) {
  using result = std::remove_cvref_t<decltype(max(x, axis<-1>, at))>;
  if (sinter::detail::extents_of(x, at)[X::rank - 1] == dim(0)) return result(sum(x, axis<-1>, at));
  return result(max(x, axis<-1>, at));
}

/// What handles computes of X's elements, under the static shape S.
template <class X, dims S>
tensor<typename X::value_type, S> as(handles::handle h, location at) {
  return sinter::detail::typed<typename X::value_type, S>(std::move(h), at);
}

}  // namespace sinter::linalg::shapes
