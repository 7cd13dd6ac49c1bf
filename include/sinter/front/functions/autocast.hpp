// front/functions/autocast.hpp: autocast<bf16>(fn): products of f32 in 16 bits, everything else as written.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "../../base/callback.hpp"
#include "../evaluate/views.hpp"

namespace sinter {

namespace detail {

/// The dtype to which products round f32 operands on this thread; f32 leaves them unchanged.
inline constinit thread_local dtype product_dtype = dtype::f32;

class product_dtype_scope {
 public:
  explicit product_dtype_scope(dtype t) : before_(std::exchange(product_dtype, t)) {}
  ~product_dtype_scope() { product_dtype = before_; }
  product_dtype_scope(const product_dtype_scope&) = delete;
  product_dtype_scope& operator=(const product_dtype_scope&) = delete;

 private:
  dtype before_;
};

/// The function that autocast returns.
template <element T, class F>
class autocasting {
 public:
  autocasting(F f, location where) : f_(std::move(f)), where_(where) {}

  template <class... Args>
  decltype(auto) operator()(Args&&... args) const {
    const product_dtype_scope scope(dtype_of<T>);
    return detail::invoke(where_, f_, std::forward<Args>(args)...);
  }

 private:
  mutable F f_;
  location where_;
};

}  // namespace detail

/// A function that calls fn with 16-bit products (matmul, einsum) of f32 tensors. Operands are rounded to T, sums are kept in f32,
/// and results are stored in T and read as f32. Reductions, norms, softmax, losses, pointwise functions and products of other
/// dtypes are unchanged. Derivatives follow: a product's cotangents are products in T. autocast applies to everything that fn calls
/// on this thread, inside and around compile() and value_and_grad; autocast<float> turns it off.
// clang-format off
template <element T, class F>
auto autocast(F&& fn, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  constexpr bool low = std::is_same_v<T, bf16> || std::is_same_v<T, f16> || std::is_same_v<T, float>;
  static_assert(low, "sinter: [autocast] the type is bf16, f16, or float to switch it off");
  return detail::autocasting<T, std::decay_t<F>>(std::forward<F>(fn), where);
}

}  // namespace sinter
