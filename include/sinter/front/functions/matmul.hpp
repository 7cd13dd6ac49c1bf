// front/functions/matmul.hpp: products that sum over axes: matmul, and the canonical product that einsum shares.
#pragma once

#include "../eager/gemm.hpp"
#include "autocast.hpp"
#include "movement.hpp"

namespace sinter {

namespace detail {

/// (B…, M…, K…) · (B…, K…, N…) on concrete elements.
template <class T>
handle eager_dot(const handle& a, const handle& b, int batch, int inner, location at) {
  const int rows_end = a.extents.rank - inner;
  dims shape = op_shapes::part(a.extents, 0, rows_end);
  shape = op_shapes::joined(shape, op_shapes::part(b.extents, batch + inner, b.extents.rank));
  handle out = allocate("matmul", dtype_of<T>, shape, at);
  const handle left = views::joined_axes(views::joined_axes(a, rows_end, a.extents.rank, at), batch, rows_end, at);
  const handle right =
      views::joined_axes(views::joined_axes(b, batch + inner, b.extents.rank, at), batch, batch + inner, at);
  const auto matrix_at = [batch](const handle& x, std::int64_t i) {
    return gemm::matrix<const T>{reinterpret_cast<const T*>(x.data) + views::batch_offset(x, batch, i),
                                 x.extents[batch], x.extents[batch + 1], x.strides[batch], x.strides[batch + 1]};
  };
  const std::int64_t rows = left.extents[batch], cols = right.extents[batch + 1], depth = left.extents[batch + 1];
  const std::int64_t products = op_shapes::part(shape, 0, batch).numel();
  T* const to = reinterpret_cast<T*>(out.data);
  const bool small = products > 1 && rows * cols * depth < 1 << 18 && products * rows * cols * depth > 1 << 17;
  (void)small;
  // Small products run side by side, each on one thread.
#pragma omp parallel for if (small)
  for (std::int64_t i = 0; i < products; ++i)
    gemm::multiply<T>(matrix_at(left, i), matrix_at(right, i), to + i * rows * cols);
  return out;
}

/// (B…, M…, K…) · (B…, K…, N…) → (B…, M…, N…), with `batch` axes B and `inner` axes K; extents have been checked.
template <class T>
handle dot(const handle& a, const handle& b, int batch, int inner, location at) {
  const bool lowered = std::is_same_v<T, float> && product_dtype != dtype::f32;
  if (!tracing()) {
    if (on_gpu("matmul", {&a, &b}, at)) {
      const std::int64_t low = lowered ? static_cast<std::int64_t>(product_dtype) : -1;
      return launch(
          "matmul", {&a, &b}, {batch, inner, low}, [&] { return dot<T>(a, b, batch, inner, at); }, at);
    }
    if (!lowered) return eager_dot<T>(a, b, batch, inner, at);
    return rounded(eager_dot<T>(rounded(a, product_dtype, at), rounded(b, product_dtype, at), batch, inner, at),
                   product_dtype, at);
  }
  ir::attributes attr;
  attr.ints = {batch, inner};
  if (!lowered) return push_op(ir::op::dot, {a, b}, std::move(attr), at);
  const handle left = push_cast(a, product_dtype, at), right = push_cast(b, product_dtype, at);
  return push_cast(push_op(ir::op::dot, {left, right}, std::move(attr), at), dtype::f32, at);
}

/// a of rank 2 or more times b of rank 2 or more.
template <class T>
handle batched_product(const handle& a, const handle& b, const dims& result, location at) {
  const int ra = a.extents.rank, rb = b.extents.rank, batch = result.rank - 2;
  // Without a batch in b, a's leading axes are rows of one product.
  if (op_shapes::part(b.extents, 0, rb - 2).numel() == 1 && ra == result.rank)
    return dot<T>(a, views::reshape(b, op_shapes::part(b.extents, rb - 2, rb), at), 0, 1, at);
  const dims leading = op_shapes::part(result, 0, batch);
  const dims left = op_shapes::joined(leading, op_shapes::part(a.extents, ra - 2, ra));
  const dims right = op_shapes::joined(leading, op_shapes::part(b.extents, rb - 2, rb));
  return dot<T>(views::broadcast(a, left, at), views::broadcast(b, right, at), batch, 1, at);
}

template <class T>
handle product_of(const handle& a, const handle& b, const dims& result, location at) {
  const int ra = a.extents.rank, rb = b.extents.rank;
  if (rb == 1 || (ra == 1 && rb == 2)) return dot<T>(a, b, 0, 1, at);
  if (ra == 1) return dot<T>(views::transpose(b, at), a, 0, 1, at);
  return batched_product<T>(a, b, result, at);
}

// Products of these dtypes are the compiled engine's.
#define SINTER_PRODUCTS(X) X(float) X(double) X(f16) X(bf16) X(std::int64_t)
#if defined(SINTER_COMPILED)
#define SINTER_X(T)                                                                      \
  extern template handle eager_dot<T>(const handle&, const handle&, int, int, location); \
  extern template handle dot<T>(const handle&, const handle&, int, int, location);       \
  extern template handle product_of<T>(const handle&, const handle&, const dims&, location);
SINTER_PRODUCTS(SINTER_X)
#undef SINTER_X
#endif

template <dims A, dims B>
consteval dims matmul_shape() {
  constexpr auto r = op_shapes::matmul(A, B);
  static_assert(r.error == nullptr,
                "sinter: [matmul] the static shapes A and B do not fit: inner extents must be equal, leading "
                "ones must broadcast, and no operand has rank 0");
  return r.shape;
}

template <class A, class B>
constexpr void check_factors() {
  static_assert(dtype_of<typename A::value_type> == dtype_of<typename B::value_type>,
                "sinter: [matmul] the operands have different dtypes; cast one with cast<T>(x)");
  static_assert(!is_bool(dtype_of<typename A::value_type>),
                "sinter: [matmul] takes numbers, not bool; cast with cast<T>(x)");
}

}  // namespace detail

/// The matrix product, by NumPy's rules. A 1-D operand is a row on the left or a column on the right, and leaves no axis. Leading
/// axes broadcast. Any dtype but bool; f16 and bf16 sum in f32, integers wrap. user_error when the extents differ.
template <tensor_like A, tensor_like B>
auto matmul(const A& a, const B& b, location at = location::current()) {
  detail::check_factors<A, B>();
  constexpr dims shape = detail::matmul_shape<A::static_shape, B::static_shape>();
  const auto left = detail::untyped(a, at), right = detail::untyped(b, at);
  const auto r = op_shapes::matmul(left.extents, right.extents);
  op_shapes::demand("matmul", r, at, {left.extents, right.extents});
  using T = typename A::value_type;
  return detail::typed<T, shape>(detail::product_of<T>(left, right, r.shape, at), at);
}

}  // namespace sinter
