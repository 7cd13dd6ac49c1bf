// linalg/handle_rules.hpp: the definitions of handles.hpp: batches become one axis, and functions.hpp computes.
#pragma once

#include "functions.hpp"
#include "handles.hpp"

namespace sinter::linalg::handles {

using shapes::batch_of;
using shapes::joined;
using steps::form_of;
using steps::rows_of;
using steps::stack_of;
namespace views = sinter::detail::views;
using sinter::detail::typed;
using sinter::detail::untyped;

inline void demand_square(const char* op, const dims& d, location at) {
  if (d[d.rank - 2] != d[d.rank - 1])
    fail(op, "the matrix is " + text::shape(d) + "; its last two extents have to be equal", at);
}

/// a as (b, m, n).
template <class T>
stack_of<T> stacked(const handle& a, location at) {
  const int rank = a.extents.rank;
  dim count = 1;
  for (const dim e : batch_of(a.extents)) count *= e;
  return typed<T, dims(3)>(views::reshape(a, dims{count, a.extents[rank - 2], a.extents[rank - 1]}, at), at);
}
/// a, broadcast to a batch, as (b, m, n).
template <class T>
stack_of<T> stacked_for(const handle& a, const dims& batch, location at) {
  const int rank = a.extents.rank;
  const dims to = joined(batch, {a.extents[rank - 2], a.extents[rank - 1]});
  return stacked<T>(views::broadcast(a, to, at), at);
}
template <class T>
stack_of<T> stacked_square(const char* op, const handle& a, location at) {
  demand_square(op, a.extents, at);
  return stacked<T>(a, at);
}

/// (b, …) with the leading axes of a in place of b.
template <class Y>
handle like_batch(const handle& a, const Y& y, location at) {
  const handle h = untyped(y, at);
  dims to = batch_of(a.extents);
  for (int i = 1; i < Y::rank; ++i) to.push(h.extents[i]);
  return views::reshape(h, to, at);
}

/// (x + xᵀ) / 2.
template <class T>
stack_of<T> symmetric(const stack_of<T>& x) {
  return T(0.5) * x + T(0.5) * transpose(x);
}

/// f(a, y) of one matrix and a stack of right sides, placed side by side as columns: a is factorised once.
template <class T, class F>
handle of_columns(const stack_of<T>& a, const handle& y, location at, const F& f) {
  const int rank = y.extents.rank, last = rank - 1;
  op_shapes::axis_list rows_first, back;
  rows_first.count = back.count = rank;
  for (int i = 0; i < last - 1; ++i) rows_first.at[i + 1] = i, back.at[i] = i + 1;
  rows_first.at[0] = last - 1, back.at[last - 1] = 0;
  rows_first.at[last] = back.at[last] = last;
  const handle beside = views::permute(y, rows_first, at);
  dim columns = 1;
  for (int i = 1; i <= last; ++i) columns *= beside.extents[i];
  const handle flat = views::reshape(beside, dims{dim(1), beside.extents[0], columns}, at);
  const stack_of<T> x = f(a, typed<T, dims(3)>(flat, at));
  const handle apart = views::reshape(untyped(x, at), beside.extents, at);
  const handle out = views::permute(apart, back, at);
  return out.tracer ? out : sinter::detail::contiguous(out, at);
}

/// f(a, y) of square matrices and right sides as stacks, after broadcasting.
template <class T, class F>
handle with_right_side(const char* op, const handle& a, const handle& y, location at, const F& f) {
  const dims &left = a.extents, &right = y.extents;
  const bool vector = right.rank == 1;
  demand_square(op, left, at);
  const dim n = left[left.rank - 1];
  const auto r = op_shapes::broadcast(batch_of(left), vector ? dims{} : batch_of(right));
  if (r.error || n != right[vector ? 0 : right.rank - 2])
    fail(op,
         "a is " + text::shape(left) + ", the right side is " + text::shape(right) +
             "; rows have to be as many as a's, and leading extents broadcast",
         at);
  if (left.rank == 2 && right.rank > 2) {
    const stack_of<T> one = stacked_for<T>(a, {}, at);
    // On a GPU each right side has its own block, which factorises beside the others, unless a library factorises.
    const bool beside = one.device().is_cuda() && !steps::is_for_library(engine::factorisation::lu, one, at);
    if (!beside && !small::is_small(one, right[right.rank - 1])) return of_columns(one, y, at, f);
  }
  const stack_of<T> m = stacked_for<T>(a, r.shape, at);
  const handle columns = vector ? views::reshape(y, dims{n, dim(1)}, at) : y;
  const handle x = untyped(f(m, stacked_for<T>(columns, r.shape, at)), at);
  return views::reshape(x, vector ? joined(r.shape, {n}) : joined(r.shape, {n, right[right.rank - 1]}), at);
}

template <class T>
handle cholesky(const handle& a, location at) {
  return like_batch(a, steps::cholesky(symmetric(stacked_square<T>("cholesky", a, at)), at), at);
}
template <class T>
handle triangular_solve(const handle& a, const handle& y, const triangular_options& how, location at) {
  return with_right_side<T>("triangular_solve", a, y, at, [&](const stack_of<T>& m, const stack_of<T>& right) {
    return how.transposed ? steps::solve_triangle(steps::turned(m), right, !how.lower, how.unit, at)
                          : steps::solve_triangle(m, right, how.lower, how.unit, at);
  });
}
template <class T>
handle solve(const handle& a, const handle& y, location at) {
  return with_right_side<T>("solve", a, y, at, [&](const stack_of<T>& m, const stack_of<T>& right) {
    return steps::solve(m, right, false, at);
  });
}
template <class T>
handle inv(const handle& a, location at) {
  return like_batch(a, steps::inverse(stacked_square<T>("inv", a, at), at), at);
}
template <class T>
handle det(const handle& a, location at) {
  return like_batch(a, steps::determinant(stacked_square<T>("det", a, at), at), at);
}
template <class T>
handles3 slogdet(const handle& a, location at) {
  const auto [sign, size] = steps::sign_and_log(stacked_square<T>("slogdet", a, at), at);
  return {like_batch(a, sign, at), like_batch(a, size, at)};
}
template <class T>
handles3 lu(const handle& a, location at) {
  const stack_of<T> x = stacked<T>(a, at);
  const auto [p, l, u] = steps::whole_lu(x, form_of(x), at);
  return {like_batch(a, p, at), like_batch(a, l, at), like_batch(a, u, at)};
}
template <class T>
handles3 qr(const handle& a, location at) {
  const stack_of<T> x = stacked<T>(a, at);
  const auto [q, r] = steps::whole_qr(x, form_of(x), at);
  return {like_batch(a, q, at), like_batch(a, r, at)};
}
template <class T>
handles3 eigh(const handle& a, location at) {
  const stack_of<T> x = symmetric(stacked_square<T>("eigh", a, at));
  const auto all = steps::eigh(x, at);
  // In a trace, values have their own derivative, and results that are not needed are not computed.
  const rows_of<T> values = sinter::detail::tracing() ? steps::eigenvalues(x, at) : std::get<1>(all);
  return {like_batch(a, values, at), like_batch(a, std::get<0>(all), at)};
}
template <class T>
handles3 svd(const handle& a, location at) {
  const stack_of<T> x = stacked<T>(a, at);
  const auto [u, s, vt] = steps::whole_svd(x, form_of(x), at);
  return {like_batch(a, u, at), like_batch(a, s, at), like_batch(a, vt, at)};
}
template <class T>
handle singular_values(const handle& a, location at) {
  const stack_of<T> x = stacked<T>(a, at);
  return like_batch(a, steps::singular_values(x, form_of(x), at), at);
}
template <class T>
handle pinv(const handle& a, location at) {
  return like_batch(a, steps::pseudo_inverse(stacked<T>(a, at), at), at);
}
template <class T>
handle expm(const handle& a, location at) {
  return like_batch(a, steps::exponential(stacked_square<T>("expm", a, at), at), at);
}
template <class T>
handle matrix_power(const handle& a, std::int64_t n, location at) {
  return like_batch(a, steps::power(stacked_square<T>("matrix_power", a, at), n, at), at);
}

}  // namespace sinter::linalg::handles
