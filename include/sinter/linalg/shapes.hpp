// linalg/shapes.hpp: checks of matrix operands, and their batches as one axis.
#pragma once

#include <string>
#include <utility>

#include "steps.hpp"

namespace sinter::linalg::shapes {

using sinter::detail::handle;
using steps::form;
using steps::rows_of;
using steps::stack_of;

constexpr dims batch_of(const dims& d) { return op_shapes::part(d, 0, d.rank - 2); }
constexpr dims joined(dims batch, std::initializer_list<dim> more) {
  for (const dim e : more) batch.push(e);
  return batch;
}

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

inline void demand_square(const char* op, const dims& d, location at) {
  if (d[d.rank - 2] != d[d.rank - 1])
    fail(op, "the matrix is " + text::shape(d) + "; its last two extents have to be equal", at);
}

/// x as (b, m, n).
template <class X>
stack_of<typename X::value_type> stacked(const X& x, location at) {
  const handle h = sinter::detail::untyped(x, at);
  const dims to{sinter::detail::product(sinter::detail::to_index<X::rank - 2>(batch_of(h.extents))),
                h.extents[X::rank - 2], h.extents[X::rank - 1]};
  return sinter::detail::typed<typename X::value_type, dims(3)>(sinter::detail::views::reshape(h, to, at), at);
}
template <class X>
auto stacked_square(const char* op, const X& x, location at) {
  demand_square(op, sinter::detail::to_dims(sinter::detail::extents_of(x, at)), at);
  return stacked(x, at);
}

/// (b, …) with the axes of a batch in place of b, under the static shape S.
template <dims S, class Y>
tensor<typename Y::value_type, S> unstacked(const Y& y, const dims& batch, location at) {
  const handle h = sinter::detail::untyped(y, at);
  dims to = batch;
  for (int i = 1; i < Y::rank; ++i) to.push(h.extents[i]);
  return sinter::detail::typed<typename Y::value_type, S>(sinter::detail::views::reshape(h, to, at), at);
}

/// The extents of x's batch in this call.
template <class X>
dims batch_at(const X& x, location at) {
  return batch_of(sinter::detail::to_dims(sinter::detail::extents_of(x, at)));
}

template <class X>
form form_of(const X& x) {
  const dim m = x.size(-2), n = x.size(-1);
  return m == n ? form::square : m > n ? form::tall : form::wide;
}

constexpr dim least(dim a, dim b) { return a == dim(dyn) || b == dim(dyn) ? dim(dyn) : a < b ? a : b; }

}  // namespace sinter::linalg::shapes
