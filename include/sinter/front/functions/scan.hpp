// front/functions/scan.hpp: running sums, products and extremes along one axis.
#pragma once

#include "reductions.hpp"

namespace sinter {

namespace detail {

template <ir::op Combiner, class T>
handle eager_scan(const handle& x, int axis, const char* op, location at) {
  handle out = allocate(op, x.type, x.extents, at);
  dims extents = x.extents, from = x.strides, to = out.strides;
  const std::int64_t length = extents[axis], read = from[axis], written = to[axis], rows = [&] {
    extents[axis] = 1;
    return extents.numel();
  }();
  if (length == 0) return out;
  parallel(rows, rows * length, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t source = 0, target = 0, rest = i;
      for (int k = extents.rank; k-- > 0; rest /= extents[k]) {
        source += rest % extents[k] * from[k];
        target += rest % extents[k] * to[k];
      }
      const T* p = reinterpret_cast<const T*>(x.data) + source;
      T* q = reinterpret_cast<T*>(out.data) + target;
      using R = std::conditional_t<Combiner == ir::op::add, total_type<Combiner, compute_type<T>>, compute_type<T>>;
      auto running = identity_of<Combiner, R>();
      for (std::int64_t j = 0; j < length; ++j) {
        running = combine<Combiner, R>(running, static_cast<compute_type<T>>(p[j * read]));
        q[j * written] = static_cast<T>(static_cast<compute_type<T>>(running));
      }
    }
  });
  return out;
}

template <class Name, ir::op Combiner, int Axis, class X>
auto scan(const X& x, location at) {
  using T = typename X::value_type;
  constexpr const char* op = Name::text;
  if constexpr (is_bool(dtype_of<T>)) Name::template refuse<fault::numbers>();
  constexpr int axis = checked_axes<Name, X::rank, Axis>()[0];
  const handle h = untyped(x, at);
  handle r;
  if (tracing()) r = push_scan(Combiner, h, axis, at);
  else if (on_gpu(op, {&h}, at))
    r = launch(
        op, {&h}, {axis, static_cast<std::int64_t>(Combiner)}, [&] { return push_scan(Combiner, h, axis, at); }, at);
  else r = eager_scan<Combiner, T>(h, axis, op, at);
  return typed<T, X::static_shape>(r, at);
}

}  // namespace detail

// NAME(x, axis<1>) or NAME<1>(x); by default along the last axis.
#define SINTER_SCAN(NAME, COMBINER)                                          \
  template <int Axis = -1, tensor_like X>                                    \
  auto NAME(const X& x, location at = location::current()) {                 \
    return detail::scan<detail::named::NAME, ir::op::COMBINER, Axis>(x, at); \
  }                                                                          \
  template <tensor_like X, int A>                                            \
  auto NAME(const X& x, axis_t<A>, location at = location::current()) {      \
    return detail::scan<detail::named::NAME, ir::op::COMBINER, A>(x, at);    \
  }

/// The sum of the elements up to and including each one, along an axis. Numbers; integers wrap, f16 and bf16 sum in f32.
SINTER_SCAN(cumsum, add)
/// The product of the elements up to and including each one. Its derivative is exact even with zeros among them.
SINTER_SCAN(cumprod, mul)
/// The largest element so far; NaN from the first NaN on. The derivative goes to the last element that set it.
SINTER_SCAN(cummax, maximum)
/// The smallest element so far; NaN from the first NaN on. The derivative goes to the last element that set it.
SINTER_SCAN(cummin, minimum)
#undef SINTER_SCAN

}  // namespace sinter
